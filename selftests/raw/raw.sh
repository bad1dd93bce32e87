#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Raw packet queue pairs, flow steering, work queues and RSS: frames over the
# wire, to the stack and from it, and from one queue pair to another.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

two_hosts raw
# that one host asks whether the other is still there would be a frame too many
ip -n a neigh replace 192.168.77.2 lladdr "$(in_ns b cat /sys/class/net/v1/address)" nud permanent dev v0
ip -n b neigh replace 192.168.77.1 lladdr "$(in_ns a cat /sys/class/net/v0/address)" nud permanent dev v1
# shellcheck disable=SC2086 # a list
tests_of raw ${ONLY:-wire wrong specs refused order default sniffer vlan vlan_rule bound denied loop full gso rss wq fatal leave order}
# what goes while a program has rules
[ -n "${ONLY:-}" ] || for t in unlink move remove; do
	tests_of raw $t
	like "$(ip -n a -d link; ip -n b -d link)" "promiscuity 0" "$t: the netdevs"
	hosts_up
	links_up
done
done_testing
