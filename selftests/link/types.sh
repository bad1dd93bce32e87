#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Links on netdevs of all types, and what becomes of them and of the programs that use
# them: addresses, MTU, name, link address, carrier, up and down, another namespace, the
# end of the netdev, of its namespace and of the link, all of it under traffic.
# TYPES and EVENTS say which; the default is a few, and all with LONG=1.
# lab: timeout 3000
# lab: apart

. "$(dirname "$0")/lib.sh"

load_module
defer hosts_down

# --- netdevs: x0 in the host a, x1 in b -------------------------------------------

# What there is of each: two ends; a link address; a carrier that the other end has.
# What can't go to another namespace is seen as the kernel refuses it.
types=(
	"veth ends mac carrier"
	"macvlan ends mac"
	"bridge ends mac"
	"bond ends mac"
	"tap ends mac"
	"tun ends"
	"dummy mac"
	"virtio ends mac"
	"lo"
)

# --- one of them, with links on it ------------------------------------------------

has() { # WHAT
	[[ " $what " == *" $1 "* ]]
}

make() {
	hosts_down
	host_ns a
	host_ns b
	if [ "$type" != lo ]; then
		netdev_make "$type" x0 x1 2>"$TMP/make" || return
	fi
	host_addr a "$x" 1
	if has ends; then
		host_addr b x1 2
		hosts_meet ip netns exec a
	fi
}

links() {
	link_add a roce0 "$x"
	gid_wait roce0 192.168.77.1
	gid_wait roce0 fd77::1
	ends=(-d roce0 -g 192.168.77.1 -G 192.168.77.1)
	ends6=(-d roce0 -g fd77::1 -G fd77::1)
	if has ends; then
		link_add b roce1 x1
		gid_wait roce1 192.168.77.2
		gid_wait roce1 fd77::2
		ends=(-d roce0 -D roce1 -g 192.168.77.1 -G 192.168.77.2)
		ends6=(-d roce0 -D roce1 -g fd77::1 -G fd77::2)
	fi
}

# After what has ended them
again() {
	make || bail "$type: $(cat "$TMP/make")"
	links
}

# --- traffic ------------------------------------------------------------------------

# With an error (1), or as the device has gone (3); with wrong data it would be 4
stop_badly() { # NAME
	local rc

	wait_pid 60 "$program"
	rc=$?
	[ $rc != 124 ] || kill -9 "$program"
	like "$rc" "^(1|3)$" "$1: the program ends in error" || sed 's/^/#   /' "$TMP/program"
}

data() { # NAME
	run "$1: data, RC over IPv4" xfer_ends -n 30 -b -e -s 0-32K -o send,write,read,fetch_add
	run "$1: UD over IPv6" in_order xfer_ends6 -n 50 -s 0-1024 -t ud
}

xfer_ends() {
	"$BIN/xfer" "${ends[@]}" "$@"
}

xfer_ends6() {
	"$BIN/xfer" "${ends6[@]}" "$@"
}

gone() { # LINK
	[ ! -e "/sys/class/infiniband/$1" ]
}

# --- events ---------------------------------------------------------------------------

state_is() { # STATE
	grep -q "$1" /sys/class/infiniband/roce0/ports/1/state
}

# What is no Ethernet keeps the GIDs of addresses that it had (main.c, addr_event()).
event_address() {
	start
	ip -n a addr add 192.168.77.9/24 dev "$x"
	run "$name: an address is added: a GID" wait_for 30 has_gid roce0 192.168.77.9
	ip -n a addr del 192.168.77.9/24 dev "$x"
	[[ $type = tun || $type = lo ]] ||
		run "$name: it is removed: its GID goes" wait_for 30 not has_gid roce0 192.168.77.9
	ip -n a addr del 192.168.77.1/24 dev "$x"
	[[ $type = tun || $type = lo ]] || wait_for 30 not has_gid roce0 192.168.77.1
	ip -n a addr add 192.168.77.1/24 dev "$x"
	run "$name: its own removed and added: the GID" wait_for 30 has_gid roce0 192.168.77.1
	goes_on "$name: its own address"
	stop_well
}

event_mtu() {
	local m old

	old=$(ip netns exec a cat "/sys/class/net/$x/mtu")
	start
	for m in 1400:1024 1000:512 600:256; do
		ip -n a link set "$x" mtu "${m%:*}"
		run "$name: of ${m%:*}: a path's is ${m#*:}" wait_for 30 mtu_is "${m#*:}"
	done
	ip -n a link set "$x" mtu 1500
	run "$name: of 1500: 1024" wait_for 30 mtu_is 1024
	ip -n a link set "$x" mtu "$old"
	# less than 1280 has ended IPv6 there
	host_addr a "$x" 1 2>/dev/null
	goes_on "$name"
	stop_well
	wait_for 30 has_gid roce0 fd77::1
}

mtu_is() { # BYTES
	[ "$(active_mtu roce0)" = "$1" ]
}

event_name() {
	local to=other0 x0=$x

	ip -n a link set "$x" down
	ip -n a link set "$x" name $to 2>"$TMP/err" || { skip "$name" "$(cat "$TMP/err")"; ip -n a link set "$x" up; return; }
	x=$to
	host_addr a "$x" 1 2>/dev/null
	run "$name: rdma link shows it" wait_for 30 shows $to
	run "$name: its GIDs, too" wait_for 30 gid_netdev_is $to
	wait_for 30 has_gid roce0 fd77::1
	data "$name"
	ip -n a link set "$x" down
	ip -n a link set "$x" name "$x0"
	x=$x0
	host_addr a "$x" 1 2>/dev/null
	wait_for 30 has_gid roce0 fd77::1
}

shows() { # NETDEV
	ip netns exec a rdma link show roce0/1 | grep -q "netdev $1"
}

gid_netdev_is() { # NETDEV
	[ "$(cat "/sys/class/infiniband/roce0/ports/1/gid_attrs/ndevs/$(gid_index roce0 192.168.77.1)")" = "$1" ]
}

event_mac() {
	has mac || return 0
	start
	ip -n a link set "$x" address 02:11:22:33:44:55 || { skip "$name" "it has none of its own"; stop_well; return; }
	! has ends || ip -n b neigh flush all
	run "$name: the GIDs stay" wait_for 30 has_gid roce0 192.168.77.1
	run "$name: the one of the link address" wait_for 30 has_gid roce0 fe80::11:22ff:fe33:4455
	goes_on "$name"
	stop_well
	wait_for 30 has_gid roce0 fd77::1
	data "$name"
}

event_down() {
	start
	ip -n a link set "$x" down
	run "$name: the port is down" wait_for 30 state_is DOWN
	ip -n a link set "$x" up
	host_addr a "$x" 1 2>/dev/null
	run "$name: and up" wait_for 30 state_is ACTIVE
	goes_on "$name"
	stop_well
	wait_for 30 has_gid roce0 fd77::1
}

# By the other end, by the netdev below, or by the kernel's word
event_carrier() {
	local off on

	case $type in
	veth) off="ip -n b link set x1 down" on="ip -n b link set x1 up" ;;
	macvlan | bridge) off="ip -n b link set lx1 down" on="ip -n b link set lx1 up" ;;
	bond) off="ip -n b link set lx1 down; ip -n b link set mx1 down"
	      on="ip -n b link set lx1 up; ip -n b link set mx1 up" ;;
	tap | tun | dummy) off="ip -n a link set x0 carrier off" on="ip -n a link set x0 carrier on" ;;
	*) return 0 ;;
	esac
	start
	eval "$off"
	run "$name: none: the port is down" wait_for 30 state_is DOWN
	eval "$on"
	run "$name: the port is up" wait_for 30 state_is ACTIVE
	[ "$type" != veth ] || host_addr b x1 2 2>/dev/null
	goes_on "$name"
	stop_well
	! has ends || wait_for 30 has_gid roce1 fd77::2
}

# One of a bond's netdevs goes: the other one is in use
event_failover() {
	[ "$type" = bond ] || return 0
	start
	ip -n b link set lx1 down
	wait_for 30 sh -c "ip -n a -d link show x0 | grep -q 'active_slave mx0'"
	goes_on "$name"
	ip -n b link set lx1 up
	stop_well
}

event_delete_link() {
	start
	run "$name" rdma link del roce0
	stop_badly "$name"
	run "$name: it has gone" gone roce0
	links_again
	data "$name: another one"
}

links_again() {
	rdma link del roce1 2>/dev/null
	links
}

event_unregister() {
	local card

	[ "$type" != lo ] || return 0
	start
	case $type in
	tap | tun) # they end with their program
		kill -9 "${tuns[x0]}" ;;
	virtio)
		card=$(ip netns exec a readlink /sys/class/net/x0/device)
		echo "${card##*/}" >/sys/bus/virtio/drivers/virtio_net/unbind ;;
	*) ip -n a link del x0 ;;
	esac
	stop_badly "$name"
	run "$name: the link has gone" wait_for 60 gone roce0
	again
}

event_move() {
	host_ns w
	start
	if ! ip -n a link set "$x" netns w 2>"$TMP/err"; then
		skip "$name" "$(tail -n 1 "$TMP/err")"
		stop_well
		return
	fi
	stop_badly "$name"
	run "$name: the link has gone" wait_for 60 gone roce0
	is "$(ip netns exec a ss -Hlun sport = :4791)" "" "$name: nothing listens there any more"
	! has ends || ip -n b neigh flush all
	host_addr w "$x" 1 2>/dev/null
	link_add w roce0 "$x"
	gid_wait roce0 192.168.77.1
	gid_wait roce0 fd77::1
	! has ends || hosts_meet ip netns exec w
	data "$name: a link where it is now"
	start
	ip netns del w
	stop_badly "$name: the end of that namespace"
	run "$name: the link has gone with it" wait_for 60 gone roce0
	again
}

event_exit() {
	start
	ip netns del a
	# a tun's file has a reference to its namespace
	[[ $type != t[au]* ]] || kill -9 "${tuns[x0]}"
	stop_badly "$name"
	run "$name: the link has gone" wait_for 60 gone roce0
}

all="address mtu name mac down carrier failover delete_link unregister move exit"
if [ -n "$LONG" ]; then
	: "${EVENTS:=$all}"
else
	: "${TYPES:=macvlan tap tun lo}" "${EVENTS:=address unregister}"
fi
for row in "${types[@]}"; do
	type=${row%% *} what=${row#* }
	[[ " ${TYPES:-$type} " == *" $type "* ]] || continue
	x=$([ "$type" = lo ] && echo lo || echo x0)
	make || { skip "$type" "$(cat "$TMP/make")"; continue; }
	links
	ok "$type: links can be added, and have GIDs"
	data "$type"
	for e in $EVENTS; do
		name="$type: $e"
		"event_$e"
	done
done
hosts_down
run "the module unloads" wait_for 60 rmmod sroce
load_module
done_testing
