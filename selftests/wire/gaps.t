#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Gap reports: what is written, and what is taken of what others write.

. "$(dirname "$0")/wire.sh"

run_test gaps
