#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# ibv_rc_pingpong over link-local addresses.
# lab: timeout 1500
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

need ibv_rc_pingpong ss
two_hosts xfer
a=$(link_local a v0)
b=$(link_local b v1)
like "$a $b" '^fe80:.* fe80:' "both have one"
gid_wait roce0 "$a"
gid_wait roce1 "$b"
for size in 1 1024 65536 1048576; do
	for mode in "" -e; do
		# shellcheck disable=SC2086 # a list
		pingpong_test "$size bytes, $([ -n "$mode" ] && echo events || echo polling)" \
			$size 5 "$a" "$b" -m 1024 $mode
	done
done
done_testing
