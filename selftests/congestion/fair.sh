#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Two queue pairs over one queue that is too short for both, which drops, or which
# marks (ECN): every byte arrives, they share the rate, and no connection ends. Then
# one beside a TCP connection. LONG=1: ten minutes each, and shares within a fifth.
# lab: timeout 6000

. "$(dirname "$0")/../lib.sh"

need tc
need_bin xfer
load_module
for m in sch_netem sch_tbf sch_red; do
	probe $m
done
hosts_up_bridge
links_up
# RED drops what can't be marked, and an idle queue's average falls slowly: ARP has to get through
for h in "a v0 b v1 192.168.77.2" "b v1 a v0 192.168.77.1"; do
	# shellcheck disable=SC2086 # words
	set -- $h
	ip -n "$1" neigh replace "$5" dev "$2" nud permanent \
		lladdr "$(in_ns "$3" cat "/sys/class/net/$4/address")"
done
# single packets enter the queue, as from a NIC
segmentation off a v0
segmentation off b v1

seconds=${LONG:+600}
seconds=${seconds:-5}
# Of the larger share, the smaller has at least so many percent: a slow machine
# has few round trips in some seconds.
share=${LONG:+80}
share=${share:-30}
# what a kernel in emulation can fill
mbit=${MBIT:-60}
rate=${mbit}mbit

# 100 KB, as a switch has for a port
drops() {
	tc -n w qdisc replace dev "$1" root netem rate $rate limit 92
}

marks() {
	tc -n w qdisc add dev "$1" root handle 1: tbf rate $rate burst 20k limit 200k &&
		tc -n w qdisc add dev "$1" parent 1:1 handle 10: red limit 100k min 15k max 45k \
			avpkt 1086 burst 20 bandwidth $rate probability 0.1 ecn
}

queue() { # KIND
	local d

	for d in w0 w1; do
		tc -n w qdisc del dev $d root 2>/dev/null
		$1 $d || return
	done
}

# The first number behind a word of what the queues towards b and a say of themselves
queued() { # WORD
	local d

	for d in w0 w1; do
		tc -n w -s qdisc show dev $d
	done | sed -n "s/.*[( ]$1 \([0-9]*\).*/\1/p" | sort -n | tail -n 1
}

flow() { # FILE ARGS...
	local out=$1

	shift
	"$BIN/xfer" -d roce0 -D roce1 -e -q 1 -w 16 -r 16 -s 65536 --timeout 14 --retry 7 \
		--time $seconds --patience 120 "$@" >"$out" 2>&1
}

bytes() { # FILE
	sed -n 's/.* \([0-9]*\) bytes verified.*/\1/p' "$1"
}

# What they have had, in percent: the lesser of the greater
compare() { # A B
	local a=${1:-0} b=${2:-0}

	[ "$a" -lt "$b" ] || { a=$2 b=$1; }
	echo $((b ? a * 100 / b : 0))
}

two() { # NAME ARGS...
	local name=$1 first rc

	shift
	flow "$TMP/one" "$@" &
	first=$!
	flow "$TMP/two" "$@"
	rc=$?
	is $rc 0 "$name: one arrives whole" || sed 's/^/# /' "$TMP/two"
	wait $first
	rc=$?
	is $rc 0 "$name: and so does the other" || sed 's/^/# /' "$TMP/one"
	diag "$(grep -h verified "$TMP/one" "$TMP/two")"
	between "$(compare "$(bytes "$TMP/one")" "$(bytes "$TMP/two")")" $share 100 \
		"$name: shares, the lesser in percent of the greater"
}

queue drops 2>/dev/null || skip_all "no netem in this kernel"
for op in write send; do
	two "drops, $op" -o $op
done
# a READ's response is 64 packets, which its requester can't make fewer: two are more
# than this queue takes at this rate, and who is lucky goes on
share=10
two "drops, read" -o read
between "$(queued dropped)" 10 100000000 "drops: the queue was too short"

share=${LONG:+80}
share=${share:-30}
if queue marks 2>/dev/null; then
	cnp=$(hw_counter roce0 rp_cnp_handled)
	probes=$(hw_counter roce0 tail_probes)
	sent=$(hw_counter roce0 tx_pkts)
	for op in write send; do
		two "marks, $op" -o $op
	done
	flow "$TMP/one" -o write
	is $? 0 "marks, alone: all arrives" || sed 's/^/# /' "$TMP/one"
	diag "$(grep -h verified "$TMP/one")"
	# a cut for every mark, and not for every round trip of them, leaves a third of 100 Mb/s
	between $(($(bytes "$TMP/one") * 8 / seconds / mbit / 10000)) 60 100 \
		"marks, alone: the link is used, in percent"
	probes=$(($(hw_counter roce0 tail_probes) - probes))
	sent=$(($(hw_counter roce0 tx_pkts) - sent))
	diag "of $sent packets $probes were probes"
	between $probes 0 $((sent / 25)) "marks: what waits in the queue is not taken for lost"
	between "$(queued marked)" 10 100000000 "marks: packets were marked"
	between "$(hw_counter roce1 np_ecn_marked_roce_packets)" 10 100000000 "marks: they came so"
	between $(($(hw_counter roce0 rp_cnp_handled) - cnp)) 10 100000000 "marks: their sender was notified"
	share=10
	two "marks, read" -o read
	between "$(hw_counter roce1 rp_cnp_handled)" 1 100000000 "marks: and so is a responder"
else
	skip "marks" "no tbf or red in this kernel"
fi

# --- beside TCP -----------------------------------------------------------------

if command -v iperf3 >/dev/null; then
	queue drops
	in_ns b iperf3 -s -1 >/dev/null 2>&1 &
	wait_for 60 in_ns b sh -c "ss -tlnH 'sport = :5201' | grep -q ."
	in_ns a iperf3 -c 192.168.77.2 -t $((seconds + 2)) -f k >"$TMP/tcp" 2>&1 &
	tcp=$!
	flow "$TMP/one" -o write
	is $? 0 "beside TCP: all arrives" || sed 's/^/# /' "$TMP/one"
	wait $tcp
	kbit=$(awk '/receiver/ { for (i = 1; i < NF; i++) if ($(i + 1) == "Kbits/sec") print int($i) }' \
		"$TMP/tcp")
	mine=$(sed -n 's/.*verified, \([0-9.]*\) s.*/\1/p' "$TMP/one")
	mine=$(awk -v b="$(bytes "$TMP/one")" -v s="$mine" 'BEGIN { print s ? int(b * 8 / s / 1000) : 0 }')
	diag "Kbit/s: RDMA $mine, TCP ${kbit:-none}"
	# decisions.rst has half of it; of large bursts a queue that TCP fills drops most
	between "$(compare "$mine" "$kbit")" 12 100 "beside TCP: neither is shut out"
else
	skip "beside TCP" "iperf3 is not installed"
fi

done_testing
