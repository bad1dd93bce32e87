#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The reliable transports over a wire that loses, doubles and reorders single
# packets: every request is executed once, in order.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

need tc
need_bin ops
load_module
probe sch_netem
hosts_up_bridge
links_up
segmentation off a v0
segmentation off b v1

wire() { # NETEM ARGS...
	local d

	for d in w0 w1; do
		tc -n w qdisc replace dev $d root netem limit 100000 "$@" 2>/dev/null ||
			skip_all "no netem in this kernel"
	done
}

for fault in "loss 1%" "duplicate 2%" "delay 1ms reorder 90%" \
	     "delay 1ms reorder 95% loss 1% duplicate 1%"; do
	# shellcheck disable=SC2086 # netem's arguments
	wire $fault
	before=$(netem_counts)
	for t in rc reads srq xrc sum; do
		tap_from "$fault: $t" "$BIN/ops" -d roce0 -D roce1 $t
	done
	for what in LOSS DUP REORDER; do
		case "$what $fault" in
		LOSS*loss* | DUP*duplicate* | REORDER*reorder*)
			# shellcheck disable=SC2086 # four counts
			between "$(did $what $before)" 3 10000000 "$fault: packets were ${done_to[$what]}" ;;
		esac
	done
done
done_testing
