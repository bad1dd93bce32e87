#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Raw packet queue pairs, flow steering, work queues and RSS: frames over the
# wire, to the stack and from it, and from one queue pair to another.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

need_bin raw
load_module
hosts_up
links_up
part() { # TEST...
	local t

	for t; do
		tap_from "$t" "$BIN/raw" -d roce0 -D roce1 "$t"
	done
}

# shellcheck disable=SC2086 # a list
part ${ONLY:-wire wrong specs refused order default sniffer vlan loop full gso rss wq leave order}
# what goes while a program has rules
[ -n "${ONLY:-}" ] || for t in unlink move remove; do
	part $t
	like "$(ip -n a -d link; ip -n b -d link)" "promiscuity 0" "$t: the netdevs"
	hosts_up
	links_up
done
done_testing
