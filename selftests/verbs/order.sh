#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# What is written to memory is written in order, for who watches that memory: over a wire that
# is well, and one that loses and reorders packets.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

need tc
need_bin order
load_module
probe sch_netem
hosts_up_bridge
links_up
tests_of order behind behind_odp same
segmentation off a v0
fault="delay 1ms reorder 95% loss 1%"
# shellcheck disable=SC2086 # netem's arguments
if tc -n w qdisc replace dev w1 root netem limit 100000 $fault 2>/dev/null; then
	before=$(netem_counts)
	for t in behind behind_odp same; do
		tap_from "$fault: $t" "$BIN/order" -d roce0 -D roce1 $t
	done
	for what in LOSS REORDER; do
		between "$(did $what $before)" 3 10000000 "$fault: packets were ${done_to[$what]}"
	done
else
	skip "$fault" "no netem in this kernel"
fi
done_testing
