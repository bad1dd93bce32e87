#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# rdma_rxe as the other end of the wire: it sits in the initial namespace, where
# it works on every kernel, sroce in another.
# lab: timeout 1500
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

need ibv_rc_pingpong ss ip
need_bin xfer
rxe_up

# the server with one, the client with the other
two() { # rxe|sroce sroce|rxe PROGRAM ARGS...
	local s=$1 c=$2 prog=$3 dev_s dev_c host gid_s gid_c rc port=$((18515 + RANDOM % 1000))
	local cm_server cm_client

	shift 3
	# shellcheck disable=SC2034 # pair's
	cm_server=$([ $s = rxe ] && echo - || echo b) cm_client=$([ $c = rxe ] && echo - || echo b)
	dev_s=$([ $s = rxe ] && echo roce0 || echo roce1)
	dev_c=$([ $c = rxe ] && echo roce0 || echo roce1)
	host=$([ $s = rxe ] && echo 192.168.77.1 || echo 192.168.77.2)
	gid_s=$(gid_index $dev_s "$([ $s = rxe ] && echo "$ga" || echo "$gb")")
	gid_c=$(gid_index $dev_c "$([ $c = rxe ] && echo "$ga" || echo "$gb")")
	if [ "$prog" = xfer ]; then
		two_programs "$dev_s" "$gid_s" "$host" "$dev_c" "$gid_c" "$@"
		rc=$?
	else
		pair $port ibv_rc_pingpong -c -d "$dev_s" -g "$gid_s" -p $port "$@" -- \
			ibv_rc_pingpong -c -d "$dev_c" -g "$gid_c" -p $port "$@" "$host"
		rc=$?
	fi
	! grep "invalid data" "$TMP/server" || rc=1
	return $rc
}

for ip in 4 6; do
	[ $ip = 4 ] && ga=192.168.77.1 gb=192.168.77.2 || ga=fd77::1 gb=fd77::2
	for way in "rxe sroce" "sroce rxe"; do
		name="IPv$ip, ${way#* } to ${way% *}"
		for size in 1 1025 65536; do
			# shellcheck disable=SC2086 # two
			run "$name: ping-pong of $size bytes" two $way pingpong -s $size -n 20 -m 1024
		done
		# shellcheck disable=SC2086 # two
		run "$name: ping-pong, events" two $way pingpong -s 4096 -n 20 -m 1024 -e
		# shellcheck disable=SC2086 # two
		run "$name: every byte" two $way xfer -n 100 -s 0-64K -u -k 3
		# shellcheck disable=SC2086 # two
		run "$name: every byte, both ways" two $way xfer -n 60 -s 0-16K -u -b -w 8 -q 2
	done
done

# One burst is many packets for rxe, and its packets are many for us
ga=192.168.77.1 gb=192.168.77.2
run "path MTU 256" two rxe sroce xfer -n 30 -m 256 -b
run "receives that are late" two rxe sroce xfer -n 60 -s 0-4K -r 1 -w 16
run "receives that are late, the other way" two sroce rxe xfer -n 60 -s 0-4K -r 1 -w 16
for d in v0; do
	ip link set $d mtu 9000
	ip -n b link set v1 mtu 9000
done
run "path MTU 4096" two rxe sroce xfer -n 60 -m 4096 -b
for f in /sys/class/infiniband/roce1/ports/1/hw_counters/*icrc* \
	 /sys/class/infiniband/roce1/ports/1/hw_counters/*malformed*; do
	[ ! -e "$f" ] || is "$(cat "$f")" 0 "$(basename "$f")"
done
done_testing
