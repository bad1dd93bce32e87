#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# What a program or a peer has seen tells nothing of another's memory, nor of the next key.
# lab: timeout 900
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

[ "$TYPE" = sroce ] || skip_all "rings and answers are sroce's"
need_bin xfer ops
two_hosts leak
tests_of leak keys fresh answers entries

# Packets as they leave, of all kinds and lengths. Queues on both sides mark some, and lose
# others; what has no ECN is lost in the place of being marked.
probe sch_netem
segmentation off a v0
segmentation off b v1
ip netns exec b "$BIN/leak" -d roce1 watch >"$TMP/watch" 2>&1 </dev/null &
watch=$!
wait_for 60 grep -q watching "$TMP/watch" || bail "no watch: $(cat "$TMP/watch")"
for t in rc uc ud; do
	ops=send,send_imm order=$([ $t = rc ] || echo in_order)
	[ $t = ud ] || ops=$ops,write,write_imm
	[ $t != rc ] || ops=$ops,read,fetch_add,cmp_swp
	# shellcheck disable=SC2086 # it, or nothing
	run "$t" $order xfer -t $t -o $ops -n 200 -s 0-9,500-530 -b
	# shellcheck disable=SC2086
	run "$t, IPv6" $order xfer -t $t -o $ops -n 50 -s 0-9 -g fd77::1 -G fd77::2
done
for t in rc_ex xrc; do
	tap_from "$t" "$BIN/ops" -d roce0 -D roce1 $t
done
if tc -n a qdisc add dev v0 root netem limit 10000 loss 5% ecn 2>/dev/null &&
	tc -n b qdisc add dev v1 root netem limit 10000 loss 5%; then
	run "with marks and losses" xfer -b -n 300 -s 1-20K --timeout 12 --retry 7
fi
kill -INT $watch
wait_pid 60 $watch
is $? 0 "the watch ends well"
tap_from "packets" cat "$TMP/watch"
done_testing
