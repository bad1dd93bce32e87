#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# How much is done for fixed work: skbs, acknowledgements, doorbells and system calls, which are
# what the speed comes from and, unlike the speed, do not depend on what else the machine does.
# 64 MiB by 1024 requests of 64 KiB, and 100,000 messages of 64 bytes.
#
# The counts of the first two parts are exact: on Debian's 6.1 in a VM with two CPUs and on
# User-Mode Linux they are the same, and each limit is that count. A change that makes one larger has
# undone something; one that makes it smaller may lower the limit.
# lab: timeout 900

. "$(dirname "$0")/../lib.sh"

need tc taskset ss
two_hosts xfer
probe sch_netem
[ "$TYPE" = sroce ] || skip_all "the limits are sroce's"

# What is sent without us: neighbours are looked for, now and then.
OTHERS=20

counters="tx_pkts tx_bursts rx_bursts sent_ack doorbells poll_doorbells retransmitted_pkts"
declare -A before count

read_counters() {
	local l c

	# the core shows what it read up to 10 ms ago
	sleep 0.2
	for l in roce0 roce1; do
		for c in $counters; do
			echo "$l.$c $(hw_counter $l "$c")"
		done
	done
	echo "v0 $(counter a v0 tx_packets)"
	echo "v1 $(counter b v1 tx_packets)"
}

# Do the work, and have what it took in count[]. With two processors a veth may have packets overtake
# others, which are then sent again: that is no measure of anything, and the work is done anew. If
# it was so three times, that is the result.
work() { # NAME XFER ARGS...
	local try

	for try in 1 2 3; do
		work_once "$@" || return
		[ "${count[roce0.retransmitted_pkts]}" != 0 ] || return 0
		diag "$1: ${count[roce0.retransmitted_pkts]} packets were sent again, try $try"
	done
	return 0
}

# Which function runs xfer.
by=xfer

on_one_processor() { # XFER ARGS...
	taskset -c 0 "$BIN/xfer" -d roce0 -D roce1 "$@"
}

work_once() { # NAME XFER ARGS...
	local name=$1 c n vain

	shift
	read_counters | while read -r c n; do before[$c]=$n; done
	run "$name" $by -v "$@" || return
	read_counters | while read -r c n; do count[$c]=$((n - ${before[$c]})); done
	count[calls]=$(sed -n 's/^xfer: \(-*[0-9]*\) writes to the kernel.*/\1/p' "$TMP/run")
	# those who poll for long and find nothing are not counted: that is what time does
	vain=$((${count[roce0.poll_doorbells]} + ${count[roce1.poll_doorbells]}))
	[ "${count[calls]}" -lt 0 ] || count[calls]=$((count[calls] > vain ? count[calls] - vain : 0))
	diag "packets ${count[roce0.tx_pkts]} and ${count[roce1.tx_pkts]}," \
		"skbs ${count[roce0.tx_bursts]} and ${count[roce1.tx_bursts]}," \
		"acknowledgements ${count[roce1.sent_ack]}, doorbells ${count[roce0.doorbells]}," \
		"write() ${count[calls]}"
}

at_most() { # COUNTER LIMIT NAME
	between "${count[$1]}" 0 "$2" "$3"
}

calls_at_most() { # LIMIT NAME
	if [ "${count[calls]}" -ge 0 ]; then
		# some for another thing than a doorbell
		at_most calls $(($1 + 2)) "$2"
	else
		skip "$2" "this kernel does not count them"
	fi
}

# What holds of all work on a wire that loses nothing: each skb that left the sender crossed the
# wire, and came to the other side as it was.
whole() { # NAME
	at_most roce0.retransmitted_pkts 0 "$1: nothing is sent twice"
	between $((count[v0] - count[roce0.tx_bursts])) 0 $OTHERS "$1: v0 counts the same skbs"
	between $((count[v1] - count[roce1.tx_bursts])) 0 $OTHERS "$1: v1 counts the same skbs"
	is "${count[roce1.rx_bursts]}" "${count[roce0.tx_bursts]}" "$1: skbs arrive whole"
}

# --- 64 MiB ----------------------------------------------------------------------------------

n=1024
big=(-n $n -s 64K -w 128 -r 256 --batch 1 --posts 128 --rd-atomic 16)

# bulk NAME OP PACKETS REQUEST_SKBS RESPONSE_SKBS ACKS, each of one message
bulk() {
	local name=$1 op=$2 pkts=$3 req=$4 resp=$5 acks=$6

	work "$name" -o "$op" "${big[@]}" || return
	is $((count[roce0.tx_pkts] + count[roce1.tx_pkts])) $((pkts * n)) "$name: packets"
	at_most roce0.tx_bursts $((req * n)) "$name: skbs of requests"
	at_most roce1.tx_bursts $((resp * n)) "$name: skbs of responses and acknowledgements"
	at_most roce1.sent_ack $((acks * n)) "$name: acknowledgements"
	# less, if requests come in while one is sent or in a stream; which is a matter of time, as is
	# a doorbell whose request somebody else has taken meanwhile
	at_most roce0.doorbells $((n + n / 64)) "$name: doorbells, one a request at most"
	calls_at_most $n "$name: system calls"
	whole "$name"
}

# An skb takes what IP can say, and ends with the first packet that is shorter than those before. A
# WRITE's first packet is 16 bytes longer than the second, with which its skb ends: 2 packets, then 62 of
# 1040 bytes. An acknowledgement is asked for at the message's end: one a message.
bulk "64 MiB of WRITEs" write 64 2 1 1
# A SEND's packets are of one length: 62 and 2.
bulk "64 MiB of SENDs" send 64 2 1 1
# Of a READ's response the first and last packets are 4 bytes longer than the others: 2, 61, and 1
# that can't join shorter ones. A response is its own acknowledgement.
bulk "64 MiB of READs" read 65 1 3 0

for d in "a v0" "b v1"; do
	# shellcheck disable=SC2086 # two words
	set -- $d
	ip -n "$1" link set "$2" mtu 9000
done
# 2 and 14 packets, and 14 and 2
bulk "64 MiB of WRITEs, MTU 9000" write 16 2 1 1
bulk "64 MiB of SENDs, MTU 9000" send 16 2 1 1
for d in "a v0" "b v1"; do
	# shellcheck disable=SC2086 # two words
	set -- $d
	ip -n "$1" link set "$2" mtu 1500
done

# --- messages of some packets ------------------------------------------------------------------

# In lists of 64: a turn of 64 KB, which is 16 messages, asks for one acknowledgement; it was one a
# message. On one processor, as with two the ring is looked at while the program writes to it, and
# turns are as short as time has them: 500 to 8,000 acknowledgements were seen.
n=8192
by=on_one_processor
for op in "write 32" "send 2"; do
	read -r op skbs <<<"$op"
	name="32 MiB by messages of 4 KiB, $op"
	work "$name" -o $op -n $n -s 4K -w 256 -r 512 --batch 64 --signal 64 || continue
	is "${count[roce0.tx_pkts]}" $((n * 4)) "$name: packets"
	# of 16 messages: two for each WRITE, whose first packet ends its skb; 62 packets and 2
	# of SENDs
	at_most roce0.tx_bursts $((n * skbs / 16)) "$name: skbs"
	between "${count[roce1.sent_ack]}" $((n / 64)) $((n / 16)) "$name: acknowledgements"
	whole "$name"
done
by=xfer
n=1024

# --- pages -------------------------------------------------------------------------------------

# What is sent is written to pages that are used again: each that the kernel gives away anew may be
# zeroed first (init_on_alloc). 256 MiB more of a transfer take 65,536 pages without that, and some
# hundred for skbs with it; one in eight is allowed, as others take pages meanwhile.
pages() {
	awk '/^pgalloc_/ { n += $2 } END { print n + 0 }' /proc/vmstat
}

taken=()
for m in $n $((5 * n)); do
	before[pages]=$(pages)
	run "$((m / 16)) MiB of WRITEs" xfer -o write -n $m "${big[@]:2}" || continue
	taken+=($(($(pages) - ${before[pages]})))
done
if [ "$(pages)" = 0 ]; then
	skip "256 MiB more: pages taken for it" "this kernel does not count them"
elif [ ${#taken[@]} = 2 ]; then
	between $((taken[1] - taken[0])) -65536 8192 "256 MiB more: pages taken for it"
fi

# --- 100,000 messages --------------------------------------------------------------------------

# In lists of 64: a doorbell for each list (1563), whose messages fit one skb and get one
# acknowledgement. Where a list comes while the one before is under way, they may be cut otherwise:
# a turn is of 64 packets, too. A list that was put off may be rung for by who polls the one
# completion queue and, if the other processor has the queue pair's turn but has not come to look at
# the ring yet, by who polls the other: seldom, and a matter of time.
n=100000
lists=$(((n + 63) / 64))
for op in write send; do
	name="$n of 64 bytes, $op"
	work "$name" -o $op -n $n -s 64 -w 512 -r 1024 --batch 64 --signal 64 || continue
	is "${count[roce0.tx_pkts]}" $n "$name: packets"
	at_most roce0.tx_bursts $((lists * 2)) "$name: skbs"
	at_most roce1.sent_ack $((lists * 2)) "$name: acknowledgements"
	at_most roce0.doorbells $((lists + lists / 64)) "$name: doorbells"
	calls_at_most $((lists + lists / 64)) "$name: system calls"
	whole "$name"
done

# One by one, on a wire that is slower than the program, whatever the machine does: the requester
# always has something to send, and needs no doorbell. It gets one each time the program
# had no turn for as long as 256 packets take.
n=10000
name="$n of 64 bytes, one by one, a slow wire"
if tc -n a qdisc add dev v0 root netem rate 4mbit limit 100000 2>/dev/null; then
	work "$name" -o write -n $n -s 64 -w 512 --batch 1 --posts 512 --signal 16 --timeout 20
	at_most roce0.doorbells $((n / 20)) "$name: doorbells"
	calls_at_most $((n / 20)) "$name: system calls"
	tc -n a qdisc del dev v0 root
else
	skip "$name" "no netem in this kernel"
fi

# One by one as fast as the program can: a stream, of which up to 64 share a doorbell, an skb
# and an acknowledgement. What a stream is, is a matter of time (doorbell.c): of some runs, one that
# was not held up counts. Without any of this it is one doorbell a message in each of them.
n=5000
name="$n of 64 bytes, one by one"
best=$n
for ((i = 0; i < 20 && best > n / 2; i++)); do
	work "$name" -o write -n $n -s 64 -w 512 --batch 1 --posts 512 --signal 16
	[ "${count[roce0.doorbells]}" -ge $best ] || best=${count[roce0.doorbells]}
done
between "$best" 0 $((n / 2)) "$name: doorbells of a stream"

# The same where sender and receiver are two programs that poll on one processor. Each of the first
# doorbells has the receiver run, until it has polled in vain for long: that time is not the sender's,
# or there would be no stream, and a turn of both for each message.
n=10000
name="$n of 64 bytes, two programs on one processor"
best=$n
for ((i = 0; i < 5 && best > n / 2; i++)); do
	was=$(sleep 0.2; hw_counter roce0 doorbells)
	run "$name" in_order two_xfers -o send -n $n -s 64 -w 256 -r 512 --batch 1 --posts 64 --signal 128
	rang=$(($(sleep 0.2; hw_counter roce0 doorbells) - was))
	[ $rang -ge $best ] || best=$rang
done
between "$best" 1 $((n / 2)) "$name: doorbells of a stream"
done_testing
