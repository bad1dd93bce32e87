#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The RDMA device's namespace, which is another thing than its netdev's: in the mode
# "shared" it is everywhere; in the mode "exclusive" it can be moved, under programs, and
# comes back when its namespace ends.
# lab: timeout 1500
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

need ss
need_bin gone xfer
load_module
hosts_up
links_up

# --- shared

refused "shared: a device can't be moved" "not supported" rdma dev set roce0 netns b
refused "and the mode can't be changed while there are namespaces" "busy" rdma system set netns exclusive
for ns in a b; do
	run "shared: a program in $ns uses both" in_ns $ns "$BIN/xfer" -d roce0 -D roce1 -n 20 -b
done

# --- exclusive

hosts_down
if ! wait_for 30 rdma system set netns exclusive; then
	skip "exclusive" "other namespaces are there"
	done_testing
fi
defer "rdma system set netns shared"
defer hosts_down
# the first one has no name that rdma would know
ip netns attach home $$ || bail "no name for this namespace"
defer "ip netns del home"
hosts_up

there() { # NAMESPACE or - , LINK
	local by=()

	[ "$1" = - ] || by=(ip netns exec "$1")
	"${by[@]}" rdma dev show | grep -q "$2:"
}

# Made in the netdev's namespace, if the kernel has a way to, as 6.17 has; else in the first one
in_ns a rdma link add roce0 type "$TYPE" netdev v0 || bail "no link"
if there a roce0 || printf '%s\n' 6.17 "$(uname -r)" | sort -CV; then
	run "made where its netdev is" there a roce0
	run "and not here" not there - roce0
	run "and deleted from there" in_ns a rdma link del roce0
else
	run "made in the first namespace" there - roce0
	rdma link del roce0
fi
links_up
run "exclusive: a program where the devices are" xfer -n 20 -b
run "another namespace has them not" not there b roce1
refused "nor may delete them" "such device|rong|not found" in_ns b rdma link del roce1

# What the whole program sees, and that it goes back
tap_from "moved" "$BIN/gone" -d roce0 -D roce1 --down "rdma dev set roce0 netns b" \
	--up "ip netns exec b rdma dev set roce0 netns home" one
run "moved there and back: data" xfer -n 20 -b

# To where the netdev is, and both ends as two programs
run "roce0 to a" rdma dev set roce0 netns a
run "roce1 to b" rdma dev set roce1 netns b
run "they are there" there a roce0
run "and not here" not there - roce0
run "data between them" two_xfers -n 50 -b -e

# Back and forth under programs
sent() { # PACKETS
	[ "$(in_ns b cat /sys/class/infiniband/roce1/ports/1/hw_counters/tx_pkts)" -gt "$1" ]
}

moves=0
for i in 1 2 3 4 5; do
	n=$(in_ns b cat /sys/class/infiniband/roce1/ports/1/hw_counters/tx_pkts)
	in_ns b "$BIN/xfer" -d roce1 -g 192.168.77.2 -n 0 -e -q 4 -b >"$TMP/program" 2>&1 &
	program=$!
	wait_for 60 sent $((n + 1000)) || break
	in_ns b rdma dev set roce1 netns a || break
	wait_pid 60 $program
	[[ $? =~ ^[13]$ ]] || break
	in_ns a rdma dev set roce1 netns b || break
	moves=$i
done
is "$moves" 5 "moved under programs: they end in error" || diag "$(cat "$TMP/program")"
run "and data again" two_xfers -n 50

# --- RDMA CM, which binds a listener to the first link that it was told of

probe bridge
probe rdma_ucm
if ! command -v rping >/dev/null; then
	skip "the bridge's address" "there is no rping"
elif ip -n b link add br1 type bridge 2>/dev/null; then
	ip -n b link set v1 master br1
	ip -n b link set br1 up
	ip -n b addr add 192.168.79.2/24 dev br1
	ip -n a addr add 192.168.79.1/24 dev v0
	in_ns b rdma link add roce9 type "$TYPE" netdev br1 || bail "no link on a bridge"
	there b roce9 || rdma dev set roce9 netns b
	for link in roce1 roce9; do
		run "$link goes" in_ns b rdma dev set $link netns a
		run "and comes back" in_ns a rdma dev set $link netns b
		run "the bridge's address, when $link is the last" pair 7174 \
			rping -s -a 192.168.79.2 -C 5 -- rping -c -a 192.168.79.2 -C 5 -V
	done
	in_ns b rdma link del roce9
	ip -n b link del br1
	ip -n a addr del 192.168.79.1/24 dev v0
else
	skip "the bridge's address" "no bridges in this kernel"
fi

# --- the end of its namespace

host_ns w
in_ns a rdma dev set roce0 netns w
run "in a third namespace" there w roce0
ip netns del w
run "which ends: the device is in the first one again" wait_for 60 there - roce0
run "with its GIDs" wait_for 60 has_gid roce0 192.168.77.1
rdma dev set roce0 netns a
run "and works" two_xfers -n 20

# In whichever namespace it is: what programs open is in no namespace
anywhere() { # LINK
	grep -qx "$1" /sys/class/infiniband_verbs/*/ibdev
}

anywhere roce0 && anywhere roce1
is $? 0 "both are somewhere"
ip netns del a
run "the end of its netdev's, where it is itself: it has gone" wait_for 60 not anywhere roce0
ip netns del b
run "the other one, too" wait_for 60 not anywhere roce1
run "the module unloads" wait_for 60 rmmod sroce
load_module
done_testing
