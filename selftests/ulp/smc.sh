#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# SMC-R, version 2: streams of TCP sockets by RDMA. (Version 1 is of RoCE v1.) The last
# connection is there when the links go.
# lab: pair
# lab: apart
# lab: timeout 600

. "$(dirname "$0")/lib.sh"

ulp_needs smc
need_bin smc
machines_up
probe smc

port=4100
calls=3
mib=$((rounds * 2))
# Version 2 is for hosts that have an enterprise ID in common.
run "an enterprise ID" "$BIN/smc" eid SROCE.TEST
# That its address and the link's are of one network, SMC finds by the netdev.

# Who has no RDMA falls back to TCP, and works as well.
told() { # REGEX
	local told

	told=$("$BIN/smc" told)
	diag "$told"
	like "$told" "$1" "the kernel says so"
}

use() {
	local before held

	meet served
	before=$(rx_bytes)
	tap_from "streams" "$BIN/smc" ask $port $other $calls $((mib << 20))
	between $(($(rx_bytes) - before)) $((mib * calls << 20)) 100000000000 "by way of the link"
	"$BIN/smc" hold $port $other >"$TMP/held" 2>&1 &
	held=$!
	wait_for 60 grep -q held "$TMP/held" || bail "no connection: $(cat "$TMP/held")"
	told "called $((calls + 1)) "
	meet used 300
	link_goes
	run "the connection breaks" wait_pid 100 $held || cat "$TMP/held"
}

host_b() {
	local server

	"$BIN/smc" serve $port $own $calls >"$TMP/answer" 2>&1 &
	server=$!
	wait_for 60 grep -q ready "$TMP/answer" || bail "nobody answers: $(cat "$TMP/answer")"
	meet served
	meet used 300
	told "answered $((calls + 1))"
	link_goes
	run "all was answered" wait_pid 100 $server || cat "$TMP/answer"
}

case $LAB_HOST in
a) use ;;
b) host_b ;;
esac
done_testing
