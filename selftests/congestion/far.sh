#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# A round trip that is longer than the local ACK timeout, from the start, or since a
# queue has grown: a requester that has timed out in vain waits for longer, as it may
# (four times that, IBTA Vol.1 9.7.6.1.3), until it knows how long that has to be.
# lab: timeout 900

. "$(dirname "$0")/../lib.sh"

need tc
need_bin xfer
load_module
probe sch_netem
hosts_up_bridge
links_up
segmentation off a v0
segmentation off b v1

# 268 ms, and up to 1.07 s
timeout=16

wire() { # MS each way
	local d

	for d in w0 w1; do
		tc -n w qdisc replace dev $d root netem limit 100000 delay "$1"ms || return
	done
}

flow() { # FILE ARGS...
	local out=$1

	shift
	"$BIN/xfer" -d roce0 -D roce1 -e -q 1 -w 4 -r 4 -s 65536 --timeout $timeout --retry 7 \
		--patience 120 "$@" >"$out" 2>&1
}

# It has come, with so many timeouts
far() { # NAME RC LEAST MOST
	local n=$(($(hw_counter roce0 local_ack_timeout_err) - before))

	is "$2" 0 "$1: all arrives" || sed 's/^/# /' "$TMP/out"
	diag "$(grep verified "$TMP/out"), $n timeouts"
	between $n "$3" "$4" "$1: timeouts"
}

wire 300 || skip_all "no netem in this kernel"
# twice in vain for each of those who send; every window would be 15 and more
for op in write send read; do
	before=$(hw_counter roce0 local_ack_timeout_err)
	flow "$TMP/out" -o $op -n 24 --rd-atomic 4
	far "$op, from the start" $? 1 6
done

# 67 ms, and 268 at the most: some before the round trip is known, and three or four a window that
# is answered too late; of 16 packets they would be 96
timeout=14
for op in write send; do
	before=$(hw_counter roce0 local_ack_timeout_err)
	flow "$TMP/out" -o $op -n 24
	far "$op, beyond" $? 3 60
done
timeout=16

for op in write send read; do
	wire 1
	before=$(hw_counter roce0 local_ack_timeout_err)
	sent=$(hw_counter roce0 rx_pkts)
	flow "$TMP/out" -o $op --time 8 --rd-atomic 4 &
	pid=$!
	wait_for 60 eval "[ \$(hw_counter roce0 rx_pkts) -gt $((sent + 500)) ]"
	wire 300
	wait $pid
	far "$op, grown" $? 1 6
done

# From some microseconds to longer than any row of probes: what they send again is not timed, and each
# message would have three for good; where 64 KB are read, ten a second.
for how in "write 1024 1" "read 1024 1" "read 65536 4"; do
	read -r op size deep <<<"$how"
	wire 0
	sent=$(hw_counter roce0 rx_pkts)
	flow "$TMP/out" -o "$op" -s "$size" -w "$deep" --time 6 --rd-atomic 4 &
	pid=$!
	wait_for 60 eval "[ \$(hw_counter roce0 rx_pkts) -gt $((sent + 500)) ]"
	wire 50
	probes=$(hw_counter roce0 tail_probes)
	wait $pid
	is $? 0 "$op of $size bytes, much longer: all arrives" || sed 's/^/# /' "$TMP/out"
	between $(($(hw_counter roce0 tail_probes) - probes)) 0 40 "$op of $size bytes: probes"
done

done_testing
