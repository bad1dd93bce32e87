#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# UCX over rc_verbs and ud_verbs: its transports by themselves (UCT), and its protocols over
# them (UCP). ucx_perftest compares nothing: apps/mpi does, over the same.
# lab: apart
# lab: timeout 900

. "$(dirname "$0")/../lib.sh"

need ucx_info ucx_perftest
# Debian's 1.23.0~rc1 was built without
compgen -G "/usr/lib*/ucx/libuct_ib.so*" >/dev/null || compgen -G "/usr/lib/*/ucx/libuct_ib.so*" >/dev/null ||
	skip_all "this UCX has nothing for verbs"
cm_hosts

like "$(in_ns a ucx_info -d 2>&1)" "Transport: rc_verbs.*Device: roce0:1" "ucx_info: rc_verbs on the link"
like "$(in_ns a ucx_info -d 2>&1)" "Transport: ud_verbs.*Device: roce0:1" "ucx_info: ud_verbs on the link"

port=13337
# UCT names device and transport, UCP is told by variables.
uct() { # TRANSPORT TEST ARGS...
	local tl=$1 test=$2

	shift 2
	port=$((port + 1))
	pair $port ucx_perftest -P 0 -p $port -d roce1:1 -x "$tl" -- \
		ucx_perftest -P 0 -p $port -d roce0:1 -x "$tl" -t "$test" -w 10 -f "$@" 192.168.77.2
}

ucp() { # TRANSPORTS TEST ARGS...
	local tls=$1 test=$2

	shift 2
	port=$((port + 1))
	pair $port env UCX_TLS="$tls" UCX_NET_DEVICES=roce1:1 ucx_perftest -P 0 -p $port -- \
		env UCX_TLS="$tls" UCX_NET_DEVICES=roce0:1 ucx_perftest -P 0 -p $port -t "$test" -w 10 -f "$@" 192.168.77.2
}

for tl in rc_verbs ud_verbs; do
	run "UCT over $tl: am_lat, 64 bytes" uct $tl am_lat -n 200 -s 64
	run "UCT over $tl: am_bw, 1000 bytes" uct $tl am_bw -D bcopy -n 500 -s 1000
done
run "UCT over rc_verbs: put_bw" uct rc_verbs put_bw -D zcopy -n 100 -s 65536
run "UCT over rc_verbs: get" uct rc_verbs get -D zcopy -n 100 -s 65536
# UCX makes its RC connections by UD.
for tls in rc_verbs,ud_verbs:aux,self ud_verbs,self; do
	run "UCP over $tls: tag_bw, 1 MiB" ucp $tls tag_bw -n 20 -s 1048576
	[ -n "$LONG" ] || continue
	run "UCP over $tls: ucp_put_bw" ucp $tls ucp_put_bw -n 50 -s 16384
	run "UCP over $tls: ucp_get" ucp $tls ucp_get -n 50 -s 16384
done
# It polls, asks for an event, and sleeps without another look.
for tls in rc_verbs,ud_verbs:aux,self ud_verbs,self; do
	run "UCP over $tls: tag_lat, asleep in between" ucp $tls tag_lat -n 2000 -s 64 -E sleep
	run "UCP over $tls: tag_bw, asleep in between" ucp $tls tag_bw -n 200 -s 8192 -E sleep
done
between "$(hw_counter roce1 rx_pkts)" 1000 1000000000 "the link received packets"
done_testing
