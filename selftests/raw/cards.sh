#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Steering on network cards, which keep out what nobody wants.
# lab: cards
# lab: timeout 600

. "$(dirname "$0")/../lib.sh"

# another machine's are in use
[ -n "${LAB_REPO:-}" ] && [ -e /sys/class/net/eth1 ] ||
	skip_all "no VM with network cards: tools/lab/vm -n"
need ip
need_bin raw
load_module
hosts_down
defer hosts_down
host_ns a
host_ns b
ip link set eth0 netns a name v0
ip link set eth1 netns b name v1
host_addr a v0 1
host_addr b v1 2
hosts_meet ip netns exec a
links_up
hosts_known
in_ns b ethtool -k v1 | grep -q "rx-vlan-filter: on" && export FILTERS=1
tests_of raw vlan_rule
done_testing
