#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Where one thing meets another.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

need_bin corners
load_module
hosts_up
links_up
# the last one leaves host a without a way to anywhere
for t in early bind_behind inv_behind read_hole send_hole srq_domain ud_nowhere; do
	tap_from $t "$BIN/corners" -d roce0 -D roce1 $t
done
done_testing
