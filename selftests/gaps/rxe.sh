#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# rdma_rxe sends all again from what is missing: reports are of no use to it, and
# sroce, its responder, stops giving them.
# lab: timeout 600

. "$(dirname "$0")/../lib.sh"

need_bin gaps
rxe_start
host_ns w
ip link add v0 mtu 1500 type veth peer name w0 netns w mtu 1500 &&
	ip link add v1 netns b mtu 1500 type veth peer name w1 netns w mtu 1500 ||
	bail "cannot make a veth pair"
for d in w0 w1; do
	ip -n w link set $d promisc on
	ip -n w link set $d up
done
ip link set v0 up
ip addr add 192.168.77.1/24 dev v0
host_addr b v1 2
rdma link add roce0 type rxe netdev v0 || bail "cannot add an rxe link"
link_add b roce1 v1
gid_wait roce0 192.168.77.1
gid_wait roce1 192.168.77.2
ethtool -K v0 tx off >/dev/null 2>&1
ip netns exec b ethtool -K v1 tx off >/dev/null 2>&1
segmentation off b v1
tap_from "goes_back" "$BIN/gaps" -d roce0 -D roce1 goes_back
done_testing
