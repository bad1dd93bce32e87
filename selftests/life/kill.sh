#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Programs killed at any moment leave nothing behind: the module unloads.
# KILLS (50) says how many.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

two_hosts xfer errors
kills=${KILLS:-50}

resources() { # of both links
	for l in roce0 roce1; do
		rdma resource show $l | sed 's/^[0-9]*: //'
	done
}

before=$(resources)
[ -n "$before" ] || bail "rdma shows no resources"
for ((i = 0; i < kills; i++)); do
	case $((i % 4)) in
	0) args=(xfer -n 0 -b -q 4 -s 0-64K) ;;
	1) args=(xfer -n 0 -e -q 16 -w 4 -s 0-4K) ;;
	2) args=(xfer -n 0 -s 1M -w 4 -u -k 4) ;;
	3) args=(errors flush_busy) ;;
	esac
	"$BIN/${args[0]}" -d roce0 -D roce1 "${args[@]:1}" >"$TMP/out" 2>&1 &
	pid=$!
	# within setting up, and within traffic: a start takes 10 ms or 500
	sleep "0.$((RANDOM % (i % 2 ? 10 : 2)))$((RANDOM % 10))$((RANDOM % 10))"
	kill -9 $pid 2>/dev/null
	wait_pid 60 $pid 2>/dev/null
	rc=$?
	if [ $rc = 124 ]; then
		not_ok "kill $i: the program is gone after 60 s"
		break
	fi
	if [ $rc != 137 ] && grep -q "FAILED\|^not ok\|Bail" "$TMP/out"; then
		not_ok "kill $i: before it the program was well"
		diag "$(cat "$TMP/out")"
	fi
done
is $i "$kills" "programs killed"
is "$(resources)" "$before" "no resource is left"
run "a program after them" xfer -n 20
if [ "$TYPE" = sroce ]; then
	rdma link del roce0
	rdma link del roce1
	run "the module unloads" wait_for 60 rmmod sroce
	load_module
fi
done_testing
