#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Links on netdevs that others are made of: a VLAN, a macvlan, a bridge, a bond. Their
# addresses are the link's as well, and go with them under traffic. Those of another
# namespace are not: no packet that arrives there is the link's.
# lab: timeout 1500
# lab: one-cpu

. "$(dirname "$0")/lib.sh"

need mckey stdbuf
load_module
probe rdma_ucm
hosts_down
defer hosts_down

# x0 on v0 in a, x1 on v1 in b
upper_vlan() { # NAMESPACE LOWER NAME
	ip -n "$1" link add link "$2" name "$3" type vlan id 7
}

upper_macvlan() {
	ip -n "$1" link add link "$2" name "$3" type macvlan mode bridge
}

upper_bridge() {
	ip -n "$1" link add "$3" type bridge && ip -n "$1" link set "$2" master "$3"
}

upper_bond() {
	ip -n "$1" link add "$3" type bond mode active-backup miimon 100 &&
		ip -n "$1" link set "$2" down && ip -n "$1" link set "$2" master "$3"
}

declare -A module=([vlan]=8021q [bond]=bonding)

# There are v0 and v1 and links on them, and no upper.
make() {
	local n

	probe "${module[$type]:-$type}"
	for n in "a v0 x0" "b v1 x1"; do
		# shellcheck disable=SC2086 # three words
		"upper_$type" $n || return
	done
	ip -n a link set v0 up
	ip -n b link set v1 up
	host_addr a x0 1
	host_addr b x1 2
	hosts_meet ip netns exec a
}

gids() {
	gid_wait roce0 192.168.77.1 && gid_wait roce1 192.168.77.2 &&
		gid_wait roce0 fd77::1 && gid_wait roce1 fd77::2
}

# A program on them, and what ends one of them, or its address there
upper_goes() { # NAME NETWORK COMMAND...
	local name=$1 net=$2 program rc again

	shift 2
	"$BIN/xfer" -d roce0 -D roce1 -g "${net}1" -G "${net}2" -n 0 -e -s 0-16K \
		-o send,write,read --timeout 14 --retry 2 >"$TMP/program" 2>&1 &
	program=$!
	wait_for 60 moving || not_ok "$name: a program runs"
	"$@" || bail "$*"
	# before, one may have been late
	again=$(hw_counter roce1 duplicate_request)
	wait_pid 60 $program
	rc=$?
	[ $rc != 124 ] || kill -9 $program
	is $rc 1 "$name: the program ends in error" || sed 's/^/#   /' "$TMP/program"
	like "$(cat "$TMP/program")" "retry counter exceeded" "$name: as nobody answers"
	is "$(hw_counter roce1 duplicate_request)" "$again" "$name: and nothing more comes from there"
	run "$name: its GID has gone" wait_for 30 not has_gid roce0 "${net}1"
	is "$(links_here | tr '\n' ' ')" "roce0 roce1 " "$name: the links stay"
}

host_ns a
host_ns b
ip link add v0 netns a type veth peer name v1 netns b
ip -n a link set v0 up
ip -n b link set v1 up
link_add a roce0 v0
link_add b roce1 v1
for type in vlan macvlan bridge bond; do
	make 2>"$TMP/err" || { skip "$type" "$(tail -n 1 "$TMP/err")"; continue; }
	if [ $type = vlan ]; then
		refused "a link on a VLAN, to which the core gives no GIDs" "not supported" rdma_add a roce5 x0
	fi
	gids
	run "$type: data over its addresses, RC over IPv4" xfer -n 30 -b -e -o send,write,read,fetch_add \
		-g 192.168.77.1 -G 192.168.77.2
	run "$type: UD over IPv6" in_order xfer -n 50 -s 0-1024 -t ud -g fd77::1 -G fd77::2
	before=$(hw_counter roce1 rx_pkts)
	run "$type: a group that is joined there, by RDMA CM" multicast a 192.168.77.1 b 192.168.77.2
	is $(($(hw_counter roce1 rx_pkts) - before)) 10 "$type: each of its datagrams comes once"
	# another one keeps the route
	ip -n a addr add fd77::9/64 dev x0 nodad
	upper_goes "$type: its IPv6 address" fd77:: ip -n a addr del fd77::1/64 dev x0
	tap_from "$type" "$BIN/states" -d roce0 -D roce1 -g 192.168.77.1 -G 192.168.77.2 \
		--down "ip -n a link set x0 mtu 700" --up "ip -n a link set x0 mtu 1500" too_small
	# the port takes what the upper does not
	ip -n a link set x0 mtu 700
	# a bond gives its own to its ports
	ip -n a link set v0 mtu 1500
	refused "$type: a path MTU that is too large for it" "[Ii]nvalid argument" xfer -n 10 -m 1024 \
		-g 192.168.77.1 -G 192.168.77.2
	run "$type: one that is not" xfer -n 10 -m 512 -g 192.168.77.1 -G 192.168.77.2
	ip -n a link set x0 mtu 1500
	upper_goes "$type deleted" 192.168.77. ip -n a link del x0
	ip -n b link del x1
done

# Where a container has one
for type in vlan macvlan; do
	make 2>"$TMP/err" || { skip "$type" "$(tail -n 1 "$TMP/err")"; continue; }
	gids
	host_ns w
	upper_goes "$type to another namespace" 192.168.77. ip -n a link set x0 netns w
	host_addr w x0 1
	hosts_meet ip netns exec w
	# the core looks at addresses in their order
	ip -n a addr add 192.168.80.1/24 dev v0
	gid_wait roce0 192.168.80.1
	run "$type in another namespace: no GID of the link's" not has_gid roce0 192.168.77.1
	ip -n a addr del 192.168.80.1/24 dev v0
	if [ $type = macvlan ]; then
		rdma_add w roce5 x0
		gid_wait roce5 192.168.77.1
		cm_client=b cm_server=w
		run "a link of its own: it is called by RDMA CM" pair 7174 rping -s -a 192.168.77.1 -C 5 -- \
			rping -c -a 192.168.77.1 -C 5 -V
		cm_client=w cm_server=b
		run "a link of its own: it calls by RDMA CM" pair 7174 rping -s -a 192.168.77.2 -C 5 -- \
			rping -c -a 192.168.77.2 -C 5 -V
		rdma link del roce5
		# the core says each in the log
		said=$(dmesg | grep -c "GID add failed") start=$SECONDS
		for i in $(seq 100); do
			echo "addr add 10.0.0.$i/32 dev x0"
		done | ip -n w -batch -
		ip -n a addr add 192.168.80.1/24 dev v0
		gid_wait roce0 192.168.80.1
		ip -n a addr del 192.168.80.1/24 dev v0
		said=$(($(dmesg | grep -c "GID add failed") - said))
		between $said 1 $((32 * ((SECONDS - start) / 5 + 2))) "a hundred addresses there: lines in the log"
		rdma link del roce0
		link_add a roce0 v0
		# they are offered before this
		ip -n a addr add 192.168.80.1/24 dev v0
		gid_wait roce0 192.168.80.1
		ip -n a addr del 192.168.80.1/24 dev v0
		is "$(cat /sys/class/infiniband/roce0/ports/1/gids/* | grep -c ffff:0a00:00)" 0 \
			"a link that is made when they are there has none of them"
	fi
	ip netns del w
	ip -n b link del x1
done
hosts_down
run "the module unloads" wait_for 60 rmmod sroce
load_module
done_testing
