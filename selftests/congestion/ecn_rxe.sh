#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# rdma_rxe neither notifies nor heeds who does: marks change nothing for it.
# lab: timeout 600
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

need tc tcpdump
need_bin xfer
rxe_up
probe sch_netem
segmentation off b v1
tc qdisc add dev v0 root netem limit 100000 loss 10% ecn 2>/dev/null ||
	skip_all "no netem in this kernel"
tc qdisc del dev v0 root

# its packets may be marked if the program says so
tc qdisc add dev v0 root netem limit 100000 loss 10% ecn
for op in send write; do
	marked=$(hw_counter roce1 np_ecn_marked_roce_packets) sent=$(hw_counter roce1 np_cnp_sent)
	run "$op, from rxe: every byte" "$BIN/xfer" -d roce0 -D roce1 -o $op -n 100 -s 16K --tclass 2
	between $(($(hw_counter roce1 np_ecn_marked_roce_packets) - marked)) 1 1000000 "$op: packets come marked"
	between $(($(hw_counter roce1 np_cnp_sent) - sent)) 1 1000000 "$op: it is notified"
done
tc qdisc del dev v0 root

tc -n b qdisc add dev v1 root netem limit 100000 loss 10% ecn
handled=$(hw_counter roce1 rp_cnp_handled)
timeout 120 tcpdump -Z root -i v0 --immediate-mode -c 10 -w /dev/null \
	"udp port 4791 and ip[1] & 3 = 3" 2>"$TMP/tcpdump" &
ten=$!
wait_for 60 grep -q listening "$TMP/tcpdump" || bail "tcpdump: $(cat "$TMP/tcpdump")"
for op in send write; do
	run "$op, to rxe: every byte" "$BIN/xfer" -d roce1 -D roce0 -o $op -n 100 -s 16K
done
wait_pid 130 $ten
is $? 0 "ten of them came marked, at least"
is "$(hw_counter roce1 rp_cnp_handled)" "$handled" "nobody notifies"
tc -n b qdisc del dev v1 root
run "after: every byte" "$BIN/xfer" -d roce1 -D roce0 -n 100 -b
done_testing
