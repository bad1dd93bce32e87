#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Packets of every opcode, with every fault, to every kind of queue pair in every state;
# and a fuzzer's, COUNT of them (50000; LONG=1: 10 million) from SEED. Others' messages
# beside them arrive intact.
# lab: timeout 3600

. "$(dirname "$0")/../lib.sh"

[ "$TYPE" = sroce ] || skip_all "what it answers is sroce's"
[ -z "$LONG" ] || export COUNT=${COUNT:-10000000}
two_hosts hostile
ip -n b addr add fd77::99/64 dev v1 nodad || bail "no second address"
# one packet after another, there and back, or a fuzzer's that may meet on two processors
spread() { # PROCESSORS, as a mask
	local h

	for h in a/v0 b/v1; do
		ip netns exec ${h%/*} sh -c "
			for q in /sys/class/net/${h#*/}/queues/rx-*/rps_cpus; do
				echo $1 >\$q
			done" 2>/dev/null
	done
}

spread=$(ip netns exec a cat /sys/class/net/v0/queues/rx-0/rps_cpus 2>/dev/null)
all="every_rc ${LONG:+every_rc4} every_uc every_ud every_xrc truncated responses notified remembered
	strange_srq numbered"
probe sch_tbf
probe sch_netem
slow="tbf rate 20mbit burst 100k limit 8m"
for t in "uncounted:$slow" "counted:$slow" "refused:netem limit 1"; do
	if tc -n a qdisc add dev v0 root ${t#*:} 2>/dev/null; then
		tc -n a qdisc del dev v0 root
		all="$all ${t%%:*}"
	else
		skip "${t%%:*}" "no qdisc ${t#*:} in this kernel"
	fi
done
all="$all fuzz"
for t in ${HOSTILE:-$all}; do
	if [ "$t" = fuzz ]; then spread "$spread"; else spread 0; fi
	tap_from "$t" "$BIN/hostile" -d roce0 -D roce1 "$t"
done
done_testing
