#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# RDMA CM where it says no, and where a group hears: who called is told, nothing is left,
# and the module can go. LONG=1: 10,000 calls to nobody.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

need_bin cm
cm_hosts

objects() {
	rdma resource show | sed -n 's/.*roce[0-9]*: //p'
}

tests() { # FIRST-BYTES-OF-ADDRESSES TEST...
	local ip=$1 t

	shift
	for t; do
		tap_from "$t, ${ip}1" "$BIN/cm" -d roce0 -D roce1 -g "${ip}1" -G "${ip}2" "$t"
	done
}

before=$(objects)
# RDMA CM joins no IPv6 groups over RoCE v2 (cma_iboe_join_multicast)
tests 192.168.77. private_data listener_gone qp_in_error nobody multicast
tests fd77:: private_data listener_gone qp_in_error nobody
all_gone() {
	[ "$(objects)" = "$before" ]
}
run "nothing is left" wait_for 60 all_gone
run "roce0 goes" rdma link del roce0
run "roce1 goes" rdma link del roce1
[ "$TYPE" != sroce ] || run "the module can be unloaded" wait_for 60 rmmod sroce
done_testing
