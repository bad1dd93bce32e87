#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# RDS: reliable datagrams between two hosts, by RDMA (rds_rdma).
# lab: pair
# lab: apart
# lab: timeout 600

. "$(dirname "$0")/lib.sh"

ulp_needs rds_rdma
need_bin rds
machines_up
probe rds_rdma

rounds=$((rounds * 50))
port=4000

use() {
	local before

	meet served
	before=$(rx_bytes)
	tap_from "datagrams" "$BIN/rds" $port $own $other $rounds 20000
	# RDS has a way by TCP as well
	between $(($(rx_bytes) - before)) $((rounds * 5000)) 100000000000 "by way of the link"
}

serve() {
	local server

	"$BIN/rds" $port $own $rounds >"$TMP/answer" 2>&1 &
	server=$!
	wait_for 60 grep -q ready "$TMP/answer" || bail "nobody answers: $(cat "$TMP/answer")"
	meet served
	run "all is answered" wait_pid 300 $server || cat "$TMP/answer"
}

case $LAB_HOST in
a) use ;;
b) serve ;;
esac
meet used 300
link_goes
done_testing
