#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Every transition of a queue pair, allowed and refused; what query_qp tells.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

need_bin states
load_module
hosts_up
links_up
for t in transitions attributes cur_state values query drained post again; do
	tap_from $t "$BIN/states" -d roce0 -D roce1 $t
done
done_testing
