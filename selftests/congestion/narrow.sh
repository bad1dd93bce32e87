#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# A way that has room for a part of a window, and of a READ: 10 Mb/s behind a queue of 30 KB.
# What is sent must learn that soon, and so must what is asked for: how many packets it takes
# is counted, not the time. 256 KiB are 256 packets, of which that queue has some 27.
# lab: timeout 900

. "$(dirname "$0")/../lib.sh"

need tc
need_bin xfer
load_module
probe sch_tbf
hosts_up_bridge
links_up
segmentation off a v0
segmentation off b v1
for d in w0 w1; do
	tc -n w qdisc add dev $d root tbf rate 10mbit burst 3k limit 30k ||
		skip_all "no tbf in this kernel"
done

messages=24
pkts=$((messages * 256))

flow() { # NAME DEV COUNTER LEAST MOST ARGS...
	local name=$1 dev=$2 counter=$3 least=$4 most=$5 before rc n

	shift 5
	before=$(hw_counter "$dev" "$counter")
	"$BIN/xfer" -d roce0 -D roce1 -e -q 1 -r 4 -s 256K -n $messages --timeout 18 --retry 7 \
		--patience 120 "$@" >"$TMP/out" 2>&1
	rc=$?
	n=$(($(hw_counter "$dev" "$counter") - before))
	is $rc 0 "$name: all arrives" || sed 's/^/# /' "$TMP/out"
	diag "$(grep verified "$TMP/out"), $counter $n"
	between $n "$least" "$most" "$name: packets that the way did not have to have"
}

# of responses, those that the peer has sent: nobody asks for more of them than come
for rd in 1 16; do
	flow "READs, one at a time, $rd of them" roce1 tx_pkts $pkts $((pkts * 2)) \
		-o read -w 1 --rd-atomic $rd
	flow "READs, four posted, $rd of them" roce1 tx_pkts $pkts $((pkts * 2)) \
		-o read -w 4 --rd-atomic $rd
done
# of requests, those that were sent again
for op in write send; do
	flow "$op, one at a time" roce0 retransmitted_pkts 1 $((pkts / 3)) -o $op -w 1
	flow "$op, four posted" roce0 retransmitted_pkts 1 $((pkts / 3)) -o $op -w 4
done
done_testing
