#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Raw packet queue pairs, flow steering, work queues and RSS: frames over the
# wire, to the stack and from it, and from one queue pair to another.
# lab: timeout 300

. "$(dirname "$0")/../lib.sh"

need_bin raw
load_module
hosts_up
links_up
for t in ${ONLY:-wire wrong specs refused order default sniffer vlan loop full gso rss wq remove}; do
	tap_from "$t" "$BIN/raw" -d roce0 -D roce1 "$t"
done
done_testing
