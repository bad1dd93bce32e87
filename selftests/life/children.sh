#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# A process with connections forks, with ibv_fork_init() and without.
# lab: timeout 900

. "$(dirname "$0")/../lib.sh"

two_hosts children
tests_of children inherit
export RDMAV_FORK_SAFE=1
tap_from "ibv_fork_init()" "$BIN/children" -d roce0 -D roce1 inherit
done_testing
