#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Shared receive queues: resized with requests in them, their limit, their
# numbers, scribbled over.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

two_hosts queues
tests_of queues srq_resize srq_resize_busy srq_limit srq_hostile srq_xrc
done_testing
