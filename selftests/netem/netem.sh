#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Loss, duplication and reordering of single packets, both ways: every byte
# still arrives. Then of whole bursts. And what reordering costs.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

need tc
need_bin xfer
load_module
probe sch_netem
hosts_up_bridge
links_up
tc -n w qdisc add dev w0 root netem loss 0% 2>/dev/null || skip_all "no netem in this kernel"

wire() { # NETEM ARGS...
	local d

	for d in w0 w1; do
		tc -n w qdisc replace dev $d root netem limit 100000 "$@" || bail "netem $*"
	done
}

messages=${LONG:+3000}
messages=${messages:-150}
# short, for losses; but a window takes its time where each access is watched
timeout=$((11 + ${RUN_PATIENCE:-1}))

# Enough messages that what the wire does was done. Of bursts it does little to each
# hundred, and by chance nothing: then there are more.
under() { # NAME LOSS|DUP|REORDER... -- NETEM...
	local name=$1 what=() w before more

	shift
	while [ "$1" != -- ]; do
		what+=("$1")
		shift
	done
	shift
	wire "$@"
	before=$(netem_counts)
	run "$name" xfer -n $messages -s 0-64K,1000 -w 16 -u -b --timeout $timeout || return
	run "$name, small ones" xfer -n $((messages * 4)) -s 0-64 -w 16 -b --timeout $timeout
	for w in "${what[@]}"; do
		# shellcheck disable=SC2086 # four arguments
		for ((more = 0; more < 10 && $(did $w $before) < 3; more++)); do
			run "$name, more" xfer -n $messages -s 0-64K,1000 -w 16 -u -b --timeout $timeout || return
		done
		# shellcheck disable=SC2086
		between "$(did $w $before)" 3 1000000 "$name: packets were ${done_to[$w]}"
	done
}

suite() { # PREFIX
	under "$1: no fault" -- delay 100us
	under "$1: 1% lost" LOSS -- loss 1%
	under "$1: 1% doubled" DUP -- duplicate 1%
	under "$1: 5% reordered" REORDER -- delay 2ms reorder 95%
	under "$1: 5% early" REORDER -- delay 2ms reorder 5%
	under "$1: all together" LOSS REORDER -- delay 2ms reorder 5% loss 1% duplicate 1%
}

# Packets that netem did not send at once
late_on() { # NETDEV
	tc -n w -s qdisc show dev "$1" |
		sed -n 's/.* \([0-9]*\) pkt (dropped .* requeues \([0-9]*\)).*/\1 \2/p' | awk '{ print $1 - $2; exit }'
}

# Of a link's packets with data; the core shows what it read up to 10 ms ago.
sent_by() { # LINK
	sleep 0.2
	hw_counter "$1" tx_pkts
}

# One packet in five comes 1 ms after those that followed it. The first are taken for lost and sent
# again, as nobody can know; that they come twice tells the requester to wait. Without that each is
# sent again, and a few twice; who goes back for each sends five times as many. Of responses, a
# requester that does not know its peer yet asks for one part after the other, and when that has
# not helped for all the rest of a READ: it may take long to learn anything.
late() { # OPERATION LINK NETDEV PERCENT; which has the data, and what it goes out by to the other
	local name="one in five late: $1 of 300 KB" n=$messages pkts=$((messages * 293)) sent late

	wire delay 1ms reorder 80%
	sent=$(sent_by "$2") late=$(late_on "$3")
	run "$name" xfer -n $n -s 300000 -w 4 --rd-atomic 4 -o "$1" --timeout 17 || return
	sent=$(($(sent_by "$2") - sent)) late=$(($(late_on "$3") - late))
	between $late $((pkts / 10)) $((sent / 2)) "$name: packets were late"
	between $((sent - pkts)) 1 $((late * $4 / 100)) "$name: packets were sent again"
}

# Any packet may be 10 ms later than the next: on a long way, for as long as that has one that is
# missing to be waited for.
jitter() { # OPERATION
	local name="5 to 15 ms: $1 of 300 KB" n=$messages again

	wire delay 10ms 5ms
	again=$(hw_counter roce0 retransmitted_pkts)
	run "$name" xfer -n $n -s 300000 -w 4 -o "$1" --timeout 17 || return
	again=$(($(hw_counter roce0 retransmitted_pkts) - again))
	between $again 1 $((n * 293 / 8)) "$name: packets were sent again"
}

segmentation off a v0
segmentation off b v1
if [ "$TYPE" = sroce ]; then
	late write roce0 w1 75
	late send roce0 w1 75
	late read roce1 w0 1000
	jitter write
	jitter send
fi
suite "packets"
segmentation on a v0
segmentation on b v1
suite "bursts"
done_testing
