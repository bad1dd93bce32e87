#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# PSN arithmetic against a model.

. "$(dirname "$0")/wire.sh"

run_test psn
