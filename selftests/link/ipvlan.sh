#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# A link on an ipvlan, in each of its modes: as a bridge for one address of the link layer,
# as a router, and as a router whose packets pass the hooks of the namespace below alone.
# lab: timeout 900
# lab: one-cpu

. "$(dirname "$0")/lib.sh"

load_module
hosts_down
defer hosts_down
probe ipvlan

# Between a, whose netdev is an ipvlan of w's, and b. In the namespace that all begins in the
# port may be rdma_rxe's.
mode_up() { # MODE
	local mac

	host_ns a
	host_ns b
	host_ns w
	ip link add x0 netns w type veth peer name x1 netns b || bail "no veth"
	ip -n w link set x0 up
	ip -n w link add v0 link x0 type ipvlan mode "$1" 2>/dev/null || return
	ip -n w link set v0 netns a
	ip -n a link set v0 up
	ip -n b link set x1 up
	host_addr a v0 1
	host_addr b x1 2
	# routers answer no question for a neighbour, and ask by the netdev below
	ip -n w addr add 192.168.77.3/24 dev x0
	ip -n w addr add fd77::3/64 dev x0 nodad
	mac=$(in_ns w cat /sys/class/net/x0/address)
	ip -n b neigh replace 192.168.77.1 lladdr "$mac" dev x1
	ip -n b neigh replace fd77::1 lladdr "$mac" dev x1
}

for mode in l2 l3 l3s; do
	if ! mode_up $mode; then
		skip "$mode" "no ipvlan $mode in this kernel"
		hosts_down
		continue
	fi
	link_add a roce0 v0
	link_add b roce1 x1
	for n in 1 2; do
		gid_wait roce$((n - 1)) 192.168.77.$n
		gid_wait roce$((n - 1)) fd77::$n
	done
	before=$(hw_counter roce0 rx_pkts)
	run "$mode: RC over IPv4" "$BIN/xfer" -d roce0 -D roce1 -g 192.168.77.1 -G 192.168.77.2 \
		-n 30 -b -e -s 0-32K -o send,write,read,fetch_add
	run "$mode: UD over IPv6" in_order "$BIN/xfer" -d roce0 -D roce1 -g fd77::1 -G fd77::2 \
		-n 50 -b -s 0-1024 -t ud
	between $(($(hw_counter roce0 rx_pkts) - before)) 30 1000000 "$mode: packets that the ipvlan's has got"
	# whose hook comes last is asked first
	link_add w roce2 x0
	run "$mode: and with a link on the netdev below" "$BIN/xfer" -d roce0 -D roce1 -g 192.168.77.1 \
		-G 192.168.77.2 -n 30 -b -e -s 0-32K -o send,write,read,fetch_add
	hosts_down
done
done_testing
