#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# libfabric's verbs provider: messages, datagrams, and reliable datagrams over both. fi_pingpong
# compares what arrives (-c).
# lab: apart
# lab: timeout 900

. "$(dirname "$0")/../lib.sh"

need fi_info fi_pingpong
cm_hosts

like "$(in_ns a fi_info -p verbs -d roce0 2>&1)" "FI_EP_MSG" "fi_info: the link has messages"
like "$(in_ns a fi_info -p verbs -d roce0-dgram 2>&1)" "FI_EP_DGRAM" "fi_info: the link has datagrams"

pingpong_over() { # PROVIDER TYPE SIZE ARGS...
	local provider=$1 type=$2 size=$3

	shift 3
	set -- -p "$provider" -e "$type" -S "$size" -I 20 -c "$@"
	pair 47592 fi_pingpong -d roce1 "$@" -- fi_pingpong -d roce0 "$@" 192.168.77.2
}

for size in 64 ${LONG:+4096 65536} 1000000; do
	run "messages of $size bytes" pingpong_over verbs msg $size
	run "reliable datagrams of $size bytes" pingpong_over "verbs;ofi_rxm" rdm $size
done
run "tagged messages" pingpong_over "verbs;ofi_rxm" rdm 8192 -m tagged
done_testing
