#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# A way on which every packet takes its own time: 9 to 11 ms, so that hundreds overtake each
# other, and nothing is lost. That has to be learned soon, and for little; what comes early has
# to find room. How many packets are sent again is counted, not the time.
# lab: timeout 600

. "$(dirname "$0")/../lib.sh"

need tc
need_bin xfer
load_module
probe sch_netem
hosts_up_bridge
links_up
segmentation off a v0
segmentation off b v1
# all that netem's timer lets go at a time
backlog=$(sysctl -n net.core.netdev_max_backlog)
sysctl -qw net.core.netdev_max_backlog=20000
defer sysctl -qw "net.core.netdev_max_backlog=$backlog"
for d in w0 w1; do
	tc -n w qdisc add dev $d root netem limit 100000 delay 10ms 1ms ||
		skip_all "no netem in this kernel"
done

messages=1500

# Of requests at their responder, or of responses at who asked
no_room() {
	echo $(($(hw_counter roce0 rx_kept_dropped) + $(hw_counter roce1 rx_kept_dropped)))
}

flow() { # OP MOST-SENT-AGAIN
	local op=$1 again timeouts no_room rc

	again=$(hw_counter roce0 retransmitted_pkts)
	timeouts=$(hw_counter roce0 local_ack_timeout_err)
	no_room=$(no_room)
	"$BIN/xfer" -d roce0 -D roce1 -e -q 1 -w 64 -r 64 -s 64K -n $messages --timeout 18 \
		--rd-atomic 16 --patience 120 -o "$op" >"$TMP/out" 2>&1
	rc=$?
	is $rc 0 "$op: all arrives" || sed 's/^/# /' "$TMP/out"
	diag "$(grep verified "$TMP/out")"
	between $(($(hw_counter roce0 retransmitted_pkts) - again)) 1 "$2" "$op: sent again, of $((messages * 64))"
	# such as when a machine stands still for a second
	between $(($(hw_counter roce0 local_ack_timeout_err) - timeouts)) 0 2 "$op: timeouts"
	is $(($(no_room) - no_room)) 0 "$op: packets that found no room"
}

# a window, until it is known, and then what is later than has been seen
flow write 4000
flow send 4000
# of what is asked for again at a time
flow read 6000
done_testing
