#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Rings that a program writes to itself: scribbled over, shared doorbells, FLUSH, and
# what is the kernel's alone.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

[ "$TYPE" = sroce ] || skip_all "the rings are sroce's"
two_hosts rings
tests_of rings many memory polls numbers bells sq rq flush flush_odp xrc fastreg versions resized
# a path MTU of 512: as many packets make a turn
for end in "a v0" "b v1"; do
	# shellcheck disable=SC2086 # two words
	ip -n ${end% *} link set ${end#* } mtu 700
done
tests_of rings crowd
done_testing
