#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Several packets of one window are lost, by name: the peer reports them, and each
# is sent again once. Then reports and notifications that nobody should send.
# The wire is a program.
# lab: timeout 900
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

need tc
need_bin gaps
load_module
probe sch_netem
# for a path MTU of 4096, which one of them has
hosts_up_relay 4300
links_up
# round trips that are long as against what a slow machine does meanwhile
for d in w0 w1; do
	tc -n w qdisc add dev $d root netem limit 100000 delay 40ms 2>/dev/null ||
		skip_all "no netem in this kernel"
done
for t in lost_write lost_send lost_read lost_paced stays_open lost_nak parts_again first_lost local_first \
	misjudged flood; do
	tap_from "$t" "$BIN/gaps" -d roce0 -D roce1 $t
done
# and longer: what the program does meanwhile is done before the first answer
for d in w0 w1; do
	tc -n w qdisc change dev $d root netem limit 100000 delay 150ms
done
for t in paged_out waits_for_page; do
	tap_from "$t" "$BIN/gaps" -d roce0 -D roce1 $t
done
for d in w0 w1; do
	tc -n w qdisc del dev $d root
done
for t in malformed anywhere strangers notified notified_much; do
	tap_from "$t" "$BIN/gaps" -d roce0 -D roce1 $t
done
done_testing
