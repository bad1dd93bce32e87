#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Under a connection's traffic its way to the peer changes: routes, gateways, neighbours and
# their addresses, what a route lets pass. All arrives, or the connection ends by its retries.
# lab: timeout 1500
# lab: one-cpu

. "$(dirname "$0")/lib.sh"

load_module
hosts_up_bridge
links_up

# w is a router as well, by two netdevs on the bridge: to addresses that b has besides
probe veth
ip -n w link add g0 address 02:00:00:00:fd:01 type veth peer name g1 ||
	bail "cannot make a veth pair"
in_ns w sh -c "cd /proc/sys/net && echo 1 >ipv4/ip_forward && echo 1 >ipv6/conf/all/forwarding &&
	echo 0 >ipv6/conf/g0/accept_dad && echo 0 >ipv6/conf/br0/accept_dad &&
	for c in all br0 g0; do
		echo 1 >ipv4/conf/\$c/arp_ignore && echo 0 >ipv4/conf/\$c/send_redirects &&
			echo 0 >ipv4/conf/\$c/rp_filter
	done" || bail "w does not forward"
ip -n w link set br0 address 02:00:00:00:fe:01
ip -n w link set g1 master br0
for d in g0 g1; do
	ip -n w link set $d up
done
for net in 192.168.77. fd77:: fd79:: 192.168.79.; do
	len=$([[ $net == *:* ]] && echo 64 || echo 24)
	ip -n w addr add "${net}254/$len" dev br0
done
ip -n w addr add 192.168.77.253/32 dev g0
ip -n w addr add fd77::253/128 dev g0
ip -n b addr add 192.168.79.2/24 dev v1
ip -n b addr add fd79::2/64 dev v1 nodad
gid_wait roce1 192.168.79.2
gid_wait roce1 fd79::2

# What a's way to b's other address of a family goes by: how far does traffic go by that netdev?
by() { # NETDEV
	local n

	n=$(counter w "$1" rx_packets)
	sleep 0.05
	[ "$(counter w "$1" rx_packets)" -gt $((n + 5)) ]
}

way() { # GATEWAY [MTU]
	ip -n a route replace "${net}0/$len" via "${near}$1" dev v0 ${2:+mtu lock "$2"}
}

mac_of() {
	in_ns "$1" cat "/sys/class/net/$2/address"
}

mac_set() { # NAMESPACE NETDEV NUMBER
	ip -n "$1" link set "$2" address "02:00:00:00:00:$3"
}

# how often it has waited in vain for an acknowledgement
timeouts() {
	hw_counter roce0 local_ack_timeout_err
}

more_than() { # NUMBER COMMAND...
	[ "$("${@:2}")" -gt "$1" ]
}

neighbour() { # LINK ADDRESS
	ip -n a neigh replace "$peer" lladdr "$1" dev v0 nud "${2:-reachable}"
}

# --- neighbours -------------------------------------------------------------------

for net in 192.168.77. fd77::; do
	peer=${net}2
	ends=(-d roce0 -D roce1 -g "${net}1" -G "$peer")
	name="$peer"
	start
	for _ in {1..20}; do
		ip -n a neigh flush all
		ip -n b neigh flush all
		sleep 0.05
	done
	goes_on "$peer: neighbours that are forgotten"

	before=$(timeouts)
	neighbour 02:00:00:00:00:77 permanent
	run "$peer: with another's link address, nothing is acknowledged" \
		wait_for 60 more_than "$before" timeouts
	neighbour "$(mac_of b v1)"
	goes_on "$peer: and its own again"

	# b tells others of it by itself
	in_ns b sh -c "echo 1 >/proc/sys/net/ipv4/conf/v1/arp_notify
		echo 1 >/proc/sys/net/ipv6/conf/v1/ndisc_notify"
	for mac in 21 22 23; do
		mac_set b v1 $mac
		goes_on "$peer: it has another link address, $mac"
	done
	is "$(ip -n a neigh show "$peer" dev v0 | grep -o "lladdr [0-9a-f:]*")" "lladdr $(mac_of b v1)" \
		"$peer: a knows it by that"
	for mac in 11 12; do
		mac_set a v0 $mac
		ip -n b neigh flush all
		goes_on "$peer: a has another one, $mac"
	done
	stop_well
done

# --- routes -----------------------------------------------------------------------

for near in 192.168.77. fd77::; do
	net=${near/77/79}
	len=$([[ $net == *:* ]] && echo 64 || echo 24)
	peer=${net}2
	ends=(-d roce0 -D roce1 -g "${near}1" -G "$peer")
	name="$peer"
	way 254
	wait_for 60 in_ns a ping -c 1 -W 5 "$peer" || bail "no way to $peer"
	start
	run "$peer: it goes by the one gateway" wait_for 60 by br0
	for _ in {1..10}; do
		way 253
		sleep 0.05
		way 254
		sleep 0.05
	done
	goes_on "$peer: by the one gateway and the other in turn"
	way 253
	run "$peer: by the other gateway" wait_for 60 by g0
	goes_on "$peer: by the other gateway"

	mac_set w g0 53
	ip -n a neigh flush all
	goes_on "$peer: which has another link address"

	# one that is more special, and goes
	ip -n a route add "$peer" via "${near}254" dev v0
	run "$peer: a way of its own" wait_for 60 by br0
	ip -n a route del "$peer"
	run "$peer: and not any more" wait_for 60 by g0
	goes_on "$peer: without a way of its own"

	# for less than the retries last
	if [ "$len" = 64 ]; then
		before=$(hw_counter roce0 tx_no_route)
		ip -n a route add unreachable "$peer" dev lo
		run "$peer: unreachable" wait_for 60 more_than "$before" hw_counter roce0 tx_no_route
		ip -n a route del unreachable "$peer" dev lo
		goes_on "$peer: reachable again"
	fi
	before=$(timeouts)
	way 254 1000
	run "$peer: a way that is too narrow: nothing is acknowledged" \
		wait_for 60 more_than "$before" timeouts
	way 254
	goes_on "$peer: wide again"
	stop_well

	# or for good
	start --timeout 15
	way 254 1000
	wait_pid 120 "$program"
	rc=$?
	[ $rc != 124 ] || kill -9 "$program"
	is $rc 1 "$peer: too narrow: the connection ends"
	like "$(cat "$TMP/program")" "retry counter exceeded" "$peer: by its retries"
	run "$peer: packets that do pass it" "$BIN/xfer" "${ends[@]}" -m 512 -n 50 -o send,write,read
	# a router's word for it
	way 254
	ip -n w route add "$peer" dev br0 mtu lock 1000
	refused "$peer: too narrow behind the gateway" "retry counter exceeded" \
		"$BIN/xfer" "${ends[@]}" -n 50 -s 4K --timeout 14 --retry 2
	run "$peer: packets that do pass that" "$BIN/xfer" "${ends[@]}" -m 512 -n 50 -o send,write,read
	ip -n w route del "$peer"
	ip -n a route flush cache
	run "$peer: in the end" "$BIN/xfer" "${ends[@]}" -n 50 -o send,write,read
done
done_testing
