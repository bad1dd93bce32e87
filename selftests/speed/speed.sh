#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Every operation as fast as a program posts it, for some seconds (LONG=1: a minute, EACH=N: N), every byte
# checked: where bursts cross the wire whole; where they are cut into packets, of which some are
# lost; and where they are cut and the receiver's stack joins packets again, as it sees fit.
# lab: timeout 6000

. "$(dirname "$0")/../lib.sh"

need tc ethtool taskset
need_bin xfer
load_module
probe sch_netem

each=${EACH:-$([ -n "$LONG" ] && echo 60 || echo 1)}

sum() { # COUNTER
	# the core shows what it read up to 10 ms ago
	sleep 0.2
	echo $(($(hw_counter roce0 "$1") + $(hw_counter roce1 "$1")))
}

# Lengths of no, one and several packets, and about as many as make one or two skbs (of what IP
# can say, headers included: 62 packets), to the byte. Two queue pairs, each with requests
# of odd pieces at odd addresses; several of them a post, and one in four completes.
lengths=0-64,1023-1025,0-4096,2047-2049,8191-8193,61439-63489,64511-65537,0-131072
deep="-q 2 -w 64 -r 64 -u -k 3 --posts 4 --signal 4 --rd-atomic 16 --patience 120"

pinned=

fast() { # NAME ARGS...
	local name=$1

	shift
	# shellcheck disable=SC2086 # a list
	run "$name" $pinned "$BIN/xfer" -d roce0 -D roce1 --time "$each" $deep -s $lengths "$@"
	diag "$(grep verified "$TMP/run")"
}

reliable() { # PREFIX ARGS...
	local p=$1

	shift
	fast "$p: SEND" -o send "$@"
	fast "$p: SEND with immediate" -o send_imm "$@"
	fast "$p: WRITE" -o write "$@"
	fast "$p: WRITE with immediate" -o write_imm "$@"
	fast "$p: READ" -o read "$@"
	fast "$p: ATOMIC" -o fetch_add,cmp_swp "$@"
	fast "$p: all of them, both ways" -b -o send,send_imm,write,write_imm,read,fetch_add,cmp_swp "$@"
	# many a burst
	fast "$p: all of them, small" -s 0-300 -o send,send_imm,write,write_imm,read,fetch_add,cmp_swp "$@"
	fast "$p: SEND, small and alike" -s 64 -o send "$@"
}

# On a wire that loses nothing
unreliable() { # PREFIX ARGS...
	local p=$1 pinned=in_order

	shift
	fast "$p: UC SEND" -t uc -o send,send_imm "$@"
	fast "$p: UC WRITE" -t uc -o write,write_imm "$@"
	fast "$p: UD" -t ud -o send,send_imm "$@" -s 0-64,0-1024,1023-1024
}

# --- whole bursts ---------------------------------------------------------------------------

hosts_up
links_up
bursts=$(sum rx_bursts) pkts=$(sum rx_pkts)
reliable "bursts"
unreliable "bursts"
bursts=$(($(sum rx_bursts) - bursts)) pkts=$(($(sum rx_pkts) - pkts))
diag "$pkts packets in $bursts skbs"
between $((bursts ? pkts / bursts : 0)) 2 1000 "bursts: packets of an skb, in the mean"
is "$(sum rx_icrc_encapsulated) $(sum rx_malformed)" "0 0" "bursts: every packet was right"

# --- packets that are lost --------------------------------------------------------------------

hosts_up_bridge
links_up
segmentation off a v0
segmentation off b v1
lost() { # of both directions
	tc -n w -s qdisc show | sed -n 's/.*(dropped \([0-9]*\).*/\1/p' | awk '{ n += $1 } END { print n + 0 }'
}

if tc -n w qdisc add dev w0 root netem 2>/dev/null; then
	for loss in 1% ${LONG:+0.1%}; do
		for d in w0 w1; do
			tc -n w qdisc replace dev $d root netem limit 100000 loss $loss || bail "netem"
		done
		before=$(lost) again=$(sum retransmitted_pkts)
		# half a second: an emulated CPU takes long for what may be under way
		reliable "$loss lost" --timeout 17
		diag "$(($(lost) - before)) packets lost, $(($(sum retransmitted_pkts) - again)) sent again"
		between $(($(lost) - before)) 10 1000000000 "$loss lost: packets were lost"
	done
	is "$(sum rx_icrc_encapsulated) $(sum rx_malformed)" "0 0" "lost: every packet that came was right"
else
	skip "packets that are lost" "no netem in this kernel"
fi

# --- packets that are joined --------------------------------------------------------------------

hosts_up
links_up
# a veth joins what its peer has cut: what counts is the peer's segmentation of TCP
for d in "a v0" "b v1"; do
	# shellcheck disable=SC2086 # two words
	set -- $d
	segmentation off "$1" "$2"
	in_ns "$1" ethtool -K "$2" tso off gso off gro on >/dev/null || bail "ethtool"
done
bursts=$(sum rx_bursts) pkts=$(sum rx_pkts) tx=$(sum tx_pkts)
wire=$(($(counter b v1 rx_packets) + $(counter a v0 rx_packets)))
reliable "joined"
# the queue before what joins is of 256 packets, and drops what is more
unreliable "joined" -q 1 -w 8 -r 8 -s 0-64,1023-1025,0-16384
bursts=$(($(sum rx_bursts) - bursts)) pkts=$(($(sum rx_pkts) - pkts))
wire=$(($(counter b v1 rx_packets) + $(counter a v0 rx_packets) - wire))
diag "$pkts packets, $wire of them alone on the wire, in $bursts skbs"
between "$wire" $((pkts - pkts / 100)) 1000000000000 "joined: packets crossed alone"
between $((bursts ? pkts * 10 / bursts : 0)) 20 10000 \
	"joined: ten times the packets of an skb, in the mean"
is "$(sum rx_icrc_encapsulated) $(sum rx_malformed)" "0 0" "joined: every packet was right"
done_testing
