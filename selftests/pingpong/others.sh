#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The other ping-pongs of rdma-core, and its programs that look at a device.
# lab: timeout 1500
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

need stdbuf ibv_uc_pingpong ibv_ud_pingpong ibv_srq_pingpong ibv_xsrq_pingpong ibv_devinfo ibv_asyncwatch ss
two_hosts xfer

# shellcheck disable=SC2086 # no mode is no argument
suite() { # NAME ADDRESS_A ADDRESS_B "SIZE..." "UD-SIZE..." [-e]
	local name=$1 a=$2 b=$3 mode=${6:-} size

	for size in $4; do
		PINGPONG=ibv_uc_pingpong pingpong_test "UC, $name, $size bytes" $size 50 $a $b -m 1024 $mode
		PINGPONG=ibv_srq_pingpong pingpong_test "SRQ, $name, $size bytes" \
			$size 20 $a $b -m 1024 -q 8 $mode
		PINGPONG=ibv_xsrq_pingpong pingpong_test "XRC, $name, $size bytes" \
			$size 20 $a $b -m 1024 $mode
	done
	for size in $5; do
		PINGPONG=ibv_ud_pingpong pingpong_test "UD, $name, $size bytes" $size 50 $a $b $mode
	done
}

suite "polling" 192.168.77.1 192.168.77.2 "1 16384" "1 1024"
suite "events" 192.168.77.1 192.168.77.2 16384 1024 -e
suite "IPv6" fd77::1 fd77::2 3000 1000

# what it reports is what there is
out=$(ibv_devinfo -v -d roce0)
for want in "hca_id:[[:space:]]+roce0" "state:[[:space:]]+PORT_ACTIVE" "link_layer:[[:space:]]+Ethernet" \
	    "active_mtu:[[:space:]]+1024" "max_mtu:[[:space:]]+4096" "GID\[.*::ffff:192\.168\.77\.1, RoCE v2" \
	    "max_qp:[[:space:]]+[1-9]" "atomic_cap:[[:space:]]+ATOMIC_(HCA|GLOB)" "max_srq:[[:space:]]+[1-9]" \
	    "max_mcast_grp:[[:space:]]+[1-9]"; do
	like "$out" "$want" "ibv_devinfo -v: $want"
done
like "$(cat /sys/class/infiniband/roce0/fw_ver)" "^$(awk '$1 == "fw_ver:" { print $2 }' <<<"$out")" \
	"what is firmware elsewhere is one in numbers and in words"

watch_has() { # REGEX
	wait_for 60 grep -qi "$1" "$TMP/watch" || { cat "$TMP/watch"; return 1; }
}

# output to a pipe would come at its end only
stdbuf -oL ibv_asyncwatch -d roce0 >"$TMP/watch" 2>&1 &
watch=$!
wait_for 30 grep -q "async event" "$TMP/watch" || diag "ibv_asyncwatch does not say that it is ready"
ip -n a link set v0 down
run "ibv_asyncwatch sees the port go down" watch_has "port.err"
ip -n a link set v0 up
run "ibv_asyncwatch sees it come back" watch_has "port.active"
kill $watch
done_testing
