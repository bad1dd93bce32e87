#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Programs are told when a port is no longer active and when it is again, whatever its netdev is
# and whatever made the difference: the netdev is down, or has too small an MTU.
# lab: timeout 900
# lab: one-cpu

. "$(dirname "$0")/lib.sh"

need_bin status
load_module
defer hosts_down

both() { # ip's ARGUMENTS, of a's x0 and b's x1
	echo "ip -n a link set x0 $* && ip -n b link set x1 $*"
}

# A link on each
links_on() {
	host_addr a x0 1
	host_addr b x1 2
	hosts_meet ip netns exec a
	link_add a roce0 x0
	link_add b roce1 x1
	gid_wait roce0 192.168.77.1
	gid_wait roce1 192.168.77.2
}

for type in veth bond bridge; do
	hosts_down
	host_ns a
	host_ns b
	netdev_make $type x0 x1 2>"$TMP/make" || { skip $type "$(tail -n 1 "$TMP/make")"; continue; }
	links_on
	tap_from "$type down" "$BIN/status" -d roce0 -D roce1 \
		--down "$(both down)" --up "$(both up)" port
	# IPv6 leaves for good a netdev that is too small for it, and all else stays
	tap_from "$type's MTU" "$BIN/status" -d roce0 -D roce1 \
		--down "$(both mtu 300)" --up "$(both mtu 1500)" port
done
hosts_down

# Linux 7.0 has an event for it. A tap's speed is what it is told.
new=$(uname -r | awk -F. '{ print $1 >= 7 }')
host_ns a
host_ns b
if [ "$new" != 1 ]; then
	skip "a port's speed changes" "no event in this kernel"
elif netdev_make tap x0 x1 2>"$TMP/make"; then
	links_on
	faster="ip netns exec a ethtool -s x0 speed 40000"
	# nobody is told of the change itself
	tap_from "a port's speed" "$BIN/status" -d roce0 -D roce1 \
		--up "$faster && ip -n a link set x0 down && ip -n a link set x0 up" speed
	like "$(cat /sys/class/infiniband/roce0/ports/1/rate)" "^40 " "and it is as fast"
else
	skip "a port's speed changes" "$(tail -n 1 "$TMP/make")"
fi
hosts_down

# Whoever asks about a port has nothing written to the kernel's log, whatever its netdev's speed is.
host_ns a
if netdev_make dummy x0 '' 2>"$TMP/make"; then
	host_addr a x0 1
	link_add a roce0 x0
	said=$(dmesg | grep -c "speed")
	cat /sys/class/infiniband/roce0/ports/1/{state,rate} >"$TMP/port"
	like "$(cat "$TMP/port")" "ACTIVE.*SDR" "dummy: a speed that nobody knows"
	is "$(dmesg | grep -c "speed")" "$said" "and nothing is said of that"
else
	skip dummy "$(tail -n 1 "$TMP/make")"
fi
hosts_down
done_testing
