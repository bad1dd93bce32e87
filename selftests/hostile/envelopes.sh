#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# What a packet comes in: UDP checksums, IP options and extension headers, fragments, tags, and
# what is behind it. Over IPv4 and IPv6.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

[ "$TYPE" = sroce ] || skip_all "what it takes is sroce's"
two_hosts envelope
for t in sums tags lengths options fragments; do
	tap_from "$t" "$BIN/envelope" -d roce0 -D roce1 $t
	tap_from "$t, IPv6" "$BIN/envelope" -d roce0 -D roce1 -g fd77::1 -G fd77::2 $t
done
done_testing
