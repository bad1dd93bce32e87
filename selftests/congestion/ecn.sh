#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# A queue that marks packets (netem, one of ten): who gets them notifies their
# sender, who slows down; nothing is lost, every byte arrives, and without marks it
# is as fast as before. What may be marked, and what says so, is read off the wire.
# lab: timeout 900

. "$(dirname "$0")/../lib.sh"

need tc tcpdump
need_bin xfer
load_module
probe sch_netem
hosts_up_bridge
links_up

# Towards a (w0) or b (w1). What can't be marked is lost in its place: only what
# has a queue in front of it is to be ECT.
marks() { # w0|w1 [PERCENT]
	if [ -n "${2:-}" ]; then
		tc -n w qdisc replace dev "$1" root netem limit 100000 loss "$2" ecn
	else
		tc -n w qdisc del dev "$1" root
	fi
}

counters="np_ecn_marked_roce_packets np_cnp_sent rp_cnp_handled retransmitted_pkts
	duplicate_request rx_no_qp rx_wrong_state"
declare -A before

note() {
	local l c

	for l in roce0 roce1; do
		for c in $counters; do
			before[$l.$c]=$(hw_counter $l "$c")
		done
	done
}

since() { # LINK COUNTER
	echo $(($(hw_counter "$1" "$2") - ${before[$1.$2]}))
}

# Packets whose queue pair had been destroyed: with several processors the last
# acknowledgement may overtake notifications.
too_late() { # LINK
	echo $(($(since "$1" rx_no_qp) + $(since "$1" rx_wrong_state)))
}

all_handled() { # SENDER RECEIVER
	[ $(($(since "$1" rp_cnp_handled) + $(too_late "$1"))) -ge "$(since "$2" np_cnp_sent)" ]
}

# What goes from one link to the other is marked.
# shellcheck disable=SC2086 # namespace and netdev
marked() { # NAME SENDER RECEIVER XFER ARGS...
	local name=$1 from=$2 to=$3 dev n n_in n_out out in sent

	shift 3
	[ "$to" = roce1 ] && out="a v0" in="b v1" || out="b v1" in="a v0"
	dev=$([ "$to" = roce1 ] && echo w1 || echo w0)
	marks "$dev" 10%
	note
	n_out=$(counter $out tx_packets) n_in=$(counter $in rx_packets)
	run "$name: every byte" xfer -n 60 -s 64K -w 8 --timeout 18 "$@"
	wait_for 20 all_handled "$from" "$to"
	n=$(since "$to" np_ecn_marked_roce_packets)
	between "$n" 10 1000000 "$name: packets come marked"
	between "$(since "$to" np_cnp_sent)" 1 "$n" "$name: the receiver notifies"
	sent=$(since "$to" np_cnp_sent)
	between "$(since "$from" rp_cnp_handled)" $((sent - $(too_late "$from"))) "$sent" \
		"$name: the sender hears it"
	is "$(since "$from" np_ecn_marked_roce_packets)" 0 "$name: nothing is marked the other way"
	# the bridge says a word, too, and one of ten words of others is lost
	n=$(($(counter $in rx_packets) - n_in - $(counter $out tx_packets) + n_out))
	between "$n" -5 30 "$name: as many packets arrive as are sent"
	# a slow machine probes, and of several processors one may overtake the other
	n=$(($(since roce0 retransmitted_pkts) - $(since roce1 duplicate_request)))
	between "$n" 0 8 "$name: what is sent again was there, but for the last"
	marks "$dev"
}

# What v0 sends and receives
seen() { # COMMAND...
	capture a "-i v0 -s 96" "$@"
}

captured() { # FILTER
	tcpdump -r "$TMP/cap" -n "$1" 2>/dev/null | wc -l
}

# Of the captured packets, each one that FILTER names has this traffic class.
classed() { # NAME FILTER TRAFFIC-CLASS
	between "$(captured "$2")" 1 10000000 "$1: captured"
	is "$(captured "$2 and ip[1] != $3")" 0 "$1: the traffic class of each is $3"
}

from_a="src host 192.168.77.1"
from_b="src host 192.168.77.2"
# BTH opcodes: SEND and RDMA WRITE and READ's request; READ's response; Acknowledge; CNP
request="udp[8] <= 12"
response="udp[8] >= 13 and udp[8] <= 16"
ack="udp[8] = 17"
cnp="udp[8] = 129"

segmentation off a v0
segmentation off b v1
marks w1 10% 2>/dev/null || skip_all "no netem in this kernel"
marks w1

marked "WRITE" roce0 roce1 -o write
marked "SEND" roce0 roce1 -o send
marked "READ" roce1 roce0 -o read
marked "WRITE, IPv6" roce0 roce1 -o write -g fd77::1 -G fd77::2
marked "READ, IPv6" roce1 roce0 -o read -g fd77::1 -G fd77::2

# a burst as a whole
segmentation on a v0
segmentation on b v1
marked "WRITE, bursts" roce0 roce1 -o write
marked "READ, bursts" roce1 roce0 -o read
segmentation off a v0
segmentation off b v1

# On the wire: requests of a's that are marked before they get to b, b's
# acknowledgements and notifications, and its responses
marks w1 10%
note
seen run "on the wire: every byte" xfer -n 60 -s 16K -o write,send,read
classed "requests" "$from_a and $request" 2
classed "responses" "$from_b and $response" 2
classed "acknowledgements" "$from_b and $ack" 0
classed "notifications" "$from_b and $cnp" 0
is "$(captured "$cnp")" "$(since roce1 np_cnp_sent)" "as many as are counted"
is "$(captured "$cnp and udp[12] = 0x40")" "$(captured "$cnp")" "they have BECN, and not FECN"
is "$(captured "$cnp and udp[4:2] = 40 and udp[20:4] = 0 and udp[24:4] = 0 and udp[28:4] = 0 and
	udp[32:4] = 0")" "$(captured "$cnp")" "and 16 bytes of nothing"
if command -v tshark >/dev/null; then
	dest_qps() { # FILTER
		tshark -r "$TMP/cap" -Y "$1 and ip.src == 192.168.77.2" -T fields \
			-e infiniband.bth.destqp 2>/dev/null | sort -u
	}
	like "$(dest_qps "infiniband.bth.opcode == 129")" "^0x" "tshark knows a notification"
	is "$(dest_qps "infiniband.bth.opcode == 129")" "$(dest_qps "infiniband.bth.opcode == 17")" \
		"it is for the queue pair that gets the acknowledgements"
else
	skip "the queue pair that is notified" "no tshark"
fi

# Unreliable: whether a packet may be marked is its program's to say
for type in uc ud; do
	note
	seen run "$type, marked: every byte" in_order xfer -t $type -n 300 -s 1000 --tclass 0x6a
	classed "$type" "$from_a" 0x6a
	between "$(since roce1 np_ecn_marked_roce_packets)" 1 300 "$type: packets come marked"
	is "$(since roce1 np_cnp_sent)" 0 "$type: nobody is notified"
	is "$(captured "$cnp")" 0 "$type: nor is there a notification on the wire"
done
marks w1
for type in uc ud; do
	seen run "$type, another class: every byte" in_order xfer -t $type -n 100 -s 1000 --tclass 0x68
	classed "$type" "$from_a" 0x68
done
seen run "rc, another class: every byte" xfer -n 60 -s 16K -o write --tclass 0x68
classed "rc, requests" "$from_a and $request" 0x6a
classed "rc, acknowledgements" "$from_b and $ack" 0x68
# as many programs say it who mean DSCP 26
seen run "rc, a class with ECT: every byte" xfer -n 60 -s 16K -o write --tclass 0x6a
classed "rc, requests" "$from_a and $request" 0x6a
classed "rc, acknowledgements" "$from_b and $ack" 0x68

# What the host's own rules drop has not been sent
probe cls_u32
probe act_gact
probe sch_ingress
if tc -n b qdisc add dev v1 clsact 2>/dev/null &&
	tc -n b filter add dev v1 egress protocol ip u32 match u8 0x81 0xff at 28 action drop 2>/dev/null; then
	marks w1 10%
	note
	run "a host that sends no notifications: every byte" xfer -n 60 -s 64K -w 8 --timeout 18 -o write
	between "$(since roce1 np_ecn_marked_roce_packets)" 10 1000000 "packets come marked"
	is "$(since roce1 np_cnp_sent)" 0 "none is counted"
	marks w1
else
	skip "a host that sends no notifications" "no clsact or no u32 in this kernel"
fi
tc -n b qdisc del dev v1 clsact 2>/dev/null

# One connection all the while: bytes in so many seconds
sent() { # SECONDS
	local was

	was=$(counter a v0 tx_bytes)
	sleep "$1"
	echo $(($(counter a v0 tx_bytes) - was))
}

note
"$BIN/xfer" -d roce0 -D roce1 -s 64K -o write -w 16 -n 0 --timeout 18 >"$TMP/long" 2>&1 &
long=$!
sleep 2
first=$(sent 3)
marks w1 30%
slow=$(sent 4)
marks w1
sleep 1
last=$(sent 3)
kill -INT $long
wait_pid 120 $long
is $? 0 "with and without marks: every byte" || diag "$(cat "$TMP/long")"
diag "KB a second: $((first / 3000)), with marks $((slow / 4000)), then $((last / 3000))"
between "$(since roce0 rp_cnp_handled)" 1 10000000 "notifications"
fastest=$((first > last ? first : last))
# Marking costs something as well: a tenth, with a rate that is never obeyed. DCQCN's times of
# 55 us are for fast networks: who sends a packet in so long is hardly slowed down by them.
# (selftests/gaps has notifications that come oftener.)
if [ "$fastest" -gt 300000000 ]; then
	between $((slow / 4)) 1 $((fastest * 2 / 9)) "with marks, two thirds as fast at most"
else
	skip "with marks, two thirds as fast at most" "a packet takes 10 us or more here"
fi
between "$last" $((first / 4)) 1000000000000 "without marks, it is fast again"
done_testing
