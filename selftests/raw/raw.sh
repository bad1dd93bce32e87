#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Raw packet queue pairs, flow steering, work queues and RSS: frames over the
# wire, to the stack and from it, and from one queue pair to another.
# lab: timeout 1500
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

two_hosts raw
hosts_known

# Netdevs that take what is not their own
promiscuous() {
	{ ip -n a -d -o link; ip -n b -d -o link; } | grep -v "promiscuity 0"
}

# shellcheck disable=SC2086 # a list
tests_of raw ${ONLY:-wire wrong specs refused order default sniffer vlan vlan_rule bound denied loop full gso rss wq fatal leave order}
# one that has its addresses taken over by what is below it
if [ -z "${ONLY:-}" ] && probe bonding; then
	hosts_down
	host_ns a
	host_ns b
	ip link add v0 netns a mtu 1500 type veth peer name x1 netns b mtu 1500
	ip -n b link add v1 type bond mode active-backup
	ip -n b link set x1 master v1
	ip -n b link set x1 up
	host_addr a v0 1
	host_addr b v1 2
	hosts_meet ip netns exec a
	links_up
	hosts_known
	tests_of raw default
	hosts_up
	links_up
fi
# what goes while a program has rules
[ -n "${ONLY:-}" ] || for t in unlink move remove; do
	tests_of raw $t
	# one that has no filter for addresses forgets those when it comes up again, not before
	[ $t != move ] || ip -n a link set v1 up
	wait_for 30 not promiscuous
	is "$(promiscuous)" "" "$t: no netdev takes what is not its own any more"
	hosts_up
	links_up
done
done_testing
