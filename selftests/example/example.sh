#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Documentation/examples builds by its own Makefile, and does what it says.
# lab: timeout 900
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

need make cc
[ -e /usr/include/rdma/rdma_cma.h ] || skip_all "no librdmacm-dev"
cm_hosts

run "it builds, without a warning" make -C "$REPO/Documentation/examples" O="$TMP" CFLAGS="-Wall -Wextra -Werror"
prog=$TMP/remote_buffer
for ip in 192.168.77.2 fd77::2; do
	run "$ip: a buffer is written and read" \
		pair 7471 stdbuf -oL "$prog" -s $ip -- "$prog" -c $ip "what a $ip writes"
	is "$(sed -n 's/^read back: //p' "$TMP/run")" "what a $ip writes" "$ip: the client has it back"
	is "$(sed -n 's/^in the buffer: //p' "$TMP/server")" "what a $ip writes" "$ip: the server has it"
done
refused "a server that is not there: said so" "connect" ip netns exec a "$prog" -c 192.168.77.2 nothing
done_testing
