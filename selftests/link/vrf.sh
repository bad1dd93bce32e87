#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# A netdev in a VRF: what comes for it comes by the VRF's netdev, as far as IP is concerned, and
# is its link's all the same; a group's datagrams, too. A host of another VRF, where addresses are
# the same, is nobody's peer.
# lab: timeout 900
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

need_bin ops xfer
load_module
hosts_up
probe vrf
ip -n b link add vrf7 type vrf table 77 2>/dev/null || skip_all "no VRF in this kernel"
ip -n b link set vrf7 up
ip -n b link set v1 master vrf7 || bail "v1 does not become the VRF's"
# IPv6 addresses have gone with it
host_addr b v1 2 2>/dev/null
hosts_meet ip netns exec a
links_up
# the namespace has another link, which has no part in this
probe dummy
ip -n b link add d0 up type dummy && link_add b roce2 d0
strangers=$(hw_counter roce2 rx_bursts)

for net in 192.168.77. fd77::; do
	run "every byte between ${net}1 and ${net}2" "$BIN/xfer" -d roce0 -D roce1 \
		-g "${net}1" -G "${net}2" -o send,write,read -n 50 -s 0-64K
done
tests_of ops mcast
tap_from "IPv6" "$BIN/ops" -d roce0 -D roce1 -g fd77::1 -G fd77::2 mcast
is "$(hw_counter roce2 rx_bursts)" "$strangers" "what came is counted where it came"
rdma link del roce2 2>/dev/null

# A VLAN of it in the VRF, by which its groups come
probe 8021q rdma_ucm
if command -v mckey >/dev/null && ip -n a link add link v0 name x0 type vlan id 7 2>/dev/null; then
	ip -n b link add link v1 name x1 type vlan id 7
	ip -n b link set x1 master vrf7
	for e in "a x0 1" "b x1 2"; do
		# shellcheck disable=SC2086 # three words
		set -- $e
		ip -n "$1" addr add "192.168.78.$3/24" dev "$2"
		ip -n "$1" link set "$2" up
	done
	gid_wait roce0 192.168.78.1
	gid_wait roce1 192.168.78.2
	run "a VLAN in the VRF: a group that is joined there, by RDMA CM" \
		multicast a 192.168.78.1 b 192.168.78.2
	ip -n b link set x1 nomaster
	ip -n b addr add 192.168.78.2/24 dev x1 2>/dev/null
	gid_wait roce1 192.168.78.2
	run "and outside of its netdev's VRF" multicast a 192.168.78.1 b 192.168.78.2
	ip -n a link del x0
	ip -n b link del x1
else
	skip "a VLAN in the VRF" "no VLAN in this kernel, or no mckey"
fi

# w has a's addresses, and reaches b's in a VRF of their own
host_ns w
ip link add w0 netns w mtu 1500 type veth peer name w1 netns b mtu 1500
ip -n b link add vrf8 type vrf table 78
ip -n b link set vrf8 up
ip -n b link set w1 master vrf8
host_addr w w0 1
host_addr b w1 2
hosts_meet ip netns exec w
link_add w roce2 w0
gid_wait roce2 192.168.77.1
gid_wait roce2 fd77::1
for net in 192.168.77. fd77::; do
	strangers=$(hw_counter roce1 rx_wrong_peer)
	refused "from ${net}1 of another VRF to a connection" "retry counter exceeded" "$BIN/xfer" \
		-d roce2 -D roce1 -g "${net}1" -G "${net}2" -n 1 --timeout 10 --retry 1
	[ "$(hw_counter roce1 rx_wrong_peer)" -gt "$strangers" ]
	is $? 0 "it is counted"
	strangers=$(hw_counter roce1 rx_wrong_state)
	refused "a datagram" "" "$BIN/xfer" -d roce2 -D roce1 -g "${net}1" -G "${net}2" -n 1 \
		-s 512 -t ud --patience 2
	[ "$(hw_counter roce1 rx_wrong_state)" -gt "$strangers" ]
	is $? 0 "it is counted"
done

# In the other VRF there is a link for it
link_add b roce3 w1
gid_wait roce3 192.168.77.2
gid_wait roce3 fd77::2
for net in 192.168.77. fd77::; do
	run "every byte from ${net}1 to ${net}2 there" "$BIN/xfer" -d roce2 -D roce3 \
		-g "${net}1" -G "${net}2" -o send,write,read -n 50 -s 0-64K
	run "its datagrams" in_order "$BIN/xfer" -d roce2 -D roce3 -g "${net}1" -G "${net}2" \
		-n 50 -s 0-1024 -t ud
	run "and still between the first two" "$BIN/xfer" -d roce0 -D roce1 \
		-g "${net}1" -G "${net}2" -o send,write,read -n 50 -s 0-64K
done
done_testing
