#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# What goes wrong, and the completions that are due then.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

need_bin errors
load_module
hosts_up
links_up
for t in rnr_late rnr_exceeded peer_gone link_down flush_idle flush_busy wrong_send wrong_recv \
	 too_long refused isolated; do
	tap_from $t "$BIN/errors" -d roce0 -D roce1 $t --down "ip -n b link set v1 down" \
		--up "ip -n b link set v1 up"
done
done_testing
