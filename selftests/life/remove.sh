#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Links and the module go away while traffic runs: programs end, in error, and
# the kernel is well.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

need_bin xfer
load_module
hosts_up

traffic() { # LOG ARGS...
	local log=$1

	shift
	"$BIN/xfer" -d roce0 -D roce1 -n 0 "$@" >"$log" 2>&1 &
	pids+=($!)
}

# Traffic is there when the counter of bytes moves.
moving() {
	local n

	n=$(counter b v1 rx_bytes)
	sleep 0.2
	[ "$(counter b v1 rx_bytes)" -gt $((n + 10000)) ]
}

start() {
	pids=()
	links_up
	traffic "$TMP/p0" -s 0-64K -b
	traffic "$TMP/p1" -s 0-4K -q 4 -e
	traffic "$TMP/p2" -s 64K -w 2
	wait_for 60 moving || not_ok "$1: traffic runs"
}

# All end, with an error (1) or because the device has gone (3); with wrong data it would be 4.
ended() { # NAME
	local i rc

	for i in 0 1 2; do
		wait_pid 60 "${pids[i]}"
		rc=$?
		if [ $rc = 1 ] || [ $rc = 3 ]; then
			ok "$1: program $i ends with status $rc"
		else
			not_ok "$1: program $i ends in error"
			diag "status $rc (124: it was still there after 60 s)"
			sed 's/^/#   /' "$TMP/p$i"
			kill -9 "${pids[i]}" 2>/dev/null
		fi
	done
}

again() { # NAME
	links_up
	run "$1: links can be added again and work" xfer -n 20
	rdma link del roce0
	rdma link del roce1
}

name="link deleted"
start "$name"
run "$name: rdma link del roce1" rdma link del roce1
run "$name: rdma link del roce0" rdma link del roce0
ended "$name"
again "$name"

name="netdev deleted"
start "$name"
run "$name: ip link del v0" ip -n a link del v0
ended "$name"
wait_for 60 not test -e /sys/class/infiniband/roce0 && wait_for 60 not test -e /sys/class/infiniband/roce1
is "$(links_here)" "" "$name: its link has gone"

name="namespace deleted"
hosts_down
hosts_up
start "$name"
ip netns del a
ended "$name"
wait_for 60 not test -e /sys/class/infiniband/roce0
is "$(links_here | grep -x roce0)" "" "$name: its link has gone"
hosts_down
hosts_up

name="module removed"
if [ "$TYPE" = sroce ]; then
	start "$name"
	# the core may hold it for a moment longer than the programs do
	if rmmod sroce 2>"$TMP/rmmod"; then
		ok "$name: rmmod with traffic"
		ended "$name"
	else
		# a busy module is refused, and not torn down half
		like "$(cat "$TMP/rmmod")" "in use" "$name: rmmod with traffic is refused"
		rdma link del roce0
		rdma link del roce1
		ended "$name"
		run "$name: rmmod afterwards" wait_for 60 rmmod sroce
	fi
	is "$(test -d /sys/module/sroce && echo there)" "" "$name: it is gone"
	is "$(links_here)" "" "$name: its links, too"
	load_module
	again "$name"
fi
done_testing
