#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# A netdev in a VRF: what comes for it comes by the VRF's netdev, as far as IP is concerned, and
# is its link's all the same; a group's datagrams, too.
# lab: timeout 900

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
done_testing
