#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# A kernel that was told to have no IPv6: all works over IPv4, and the GID that the core makes of
# a link address all the same leads nowhere.
# lab: no-ipv6
# lab: timeout 900

. "$(dirname "$0")/../lib.sh"

[ ! -e /proc/sys/net/ipv6 ] || skip_all "has IPv6: tools/lab/vm -a ipv6.disable=1 -- $0"
need_bin xfer ops
load_module
hosts_down
defer hosts_down
host_ns a
host_ns b
ip link add v0 netns a type veth peer name v1 netns b || bail "cannot make a veth pair"
host_addr a v0 1
host_addr b v1 2
link_add a roce0 v0
link_add b roce1 v1
gid_wait roce0 192.168.77.1
gid_wait roce1 192.168.77.2
v4=(-d roce0 -D roce1 -g 192.168.77.1 -G 192.168.77.2)
run "every byte over IPv4" "$BIN/xfer" "${v4[@]}" -n 50 -o send,write,read
run "datagrams" in_order "$BIN/xfer" "${v4[@]}" -n 50 -s 0-1024 -t ud
tests_of ops mcast

# The index of the RoCE v2 GID of its link address
link_gid() { # LINK
	local p=/sys/class/infiniband/$1/ports/1 i

	for i in 0 1 2 3; do
		if grep -q "RoCE v2" $p/gid_attrs/types/$i 2>/dev/null && grep -q ^fe80 $p/gids/$i; then
			echo $i
			return
		fi
	done
}

g=$(link_gid roce0) G=$(link_gid roce1)
like "$g$G" "^[0-9]{2}$" "both have a GID of their link address"
for to in "another:-D roce1 -G $G" "itself:"; do
	# shellcheck disable=SC2086 # options
	refused "from there to ${to%%:*}: RC" "" "$BIN/xfer" -d roce0 -g "$g" \
		${to#*:} -n 1 -s 64 --timeout 10 --retry 1
	# shellcheck disable=SC2086
	refused "from there to ${to%%:*}: UD" "" "$BIN/xfer" -d roce0 -g "$g" ${to#*:} -n 1 -s 64 -t ud \
		--patience 2
done
run "every byte over IPv4, still" "$BIN/xfer" "${v4[@]}" -n 50 -o send,write,read
done_testing
