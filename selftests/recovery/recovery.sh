#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# One packet is lost, by name: what is sent again, what is kept, what is counted,
# and that nothing of it waits for a timeout. The wire is a program.
# lab: timeout 900

. "$(dirname "$0")/../lib.sh"

need_bin recovery
load_module
hosts_up_bridge
links_up

# from here on, what leaves v0 and v1 is single packets with their checksums
for e in "a v0" "b v1"; do
	# shellcheck disable=SC2086 # two words
	ip netns exec ${e% *} ethtool -K ${e#* } tx off >/dev/null 2>&1
	# shellcheck disable=SC2086
	segmentation off ${e% *} ${e#* }
done
ip -n w link del br0
for d in w0 w1; do
	ip -n w link set $d promisc on
	ip -n w link set $d up
done

for t in one_write one_send several again last no_retry one_read one_atomic mixed exhausted \
	 not_ready; do
	tap_from "$t" "$BIN/recovery" -d roce0 -D roce1 $t
done
done_testing
