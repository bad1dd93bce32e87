#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Two machines, joined by their eth0 (virtio-net, in the lab).
# lab: pair
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

need ibv_rc_pingpong
need_bin xfer
machines_up

crossed() {
	cat /sys/class/net/eth0/statistics/tx_bytes
}

cm_server=- # for serve(): this machine
port=19000
step=0
# a listens, b connects
both() { # NAME PROGRAM ARGS...
	local name=$1 prog=$2 gid before

	shift 2
	step=$((step + 1))
	port=$((port + 1))
	gid=$(gid_index $me "$addr")
	meet "before-$step"
	before=$(crossed)
	case $prog in
	pingpong)
		if [ "$LAB_HOST" = a ]; then
			serve $port ibv_rc_pingpong -c -d $me -g "$gid" -p $port "$@" ||
				bail "$name: the server does not listen"
			meet "server-$step"
			wait_pid 130 "$server"
			is $? 0 "$name" || sed 's/^/#   /' "$TMP/server"
			mv "$TMP/server" "$TMP/run"
		else
			meet "server-$step"
			run "$name" timeout 120 ibv_rc_pingpong -c -d $me -g "$gid" -p $port "$@" $other
		fi
		! grep "invalid data" "$TMP/run" || not_ok "$name: data"
		between $(($(crossed) - before)) 20000 1000000000 "$name: bytes sent by eth0"
		;;
	xfer)
		if [ "$LAB_HOST" = a ]; then
			run "$name" "$BIN/xfer" -l -d $me -g "$gid" -p $port "$@"
		else
			run "$name" "$BIN/xfer" -c $other -d $me -g "$gid" -p $port "$@"
		fi
		between $(($(crossed) - before)) 20000 1000000000 "$name: bytes sent by eth0"
		;;
	esac
	meet "after-$step"
}

for ip in 4 6; do
	addr=$([ $ip = 4 ] && echo $own || echo $own6)
	both "IPv$ip: ping-pong of 1000 bytes" pingpong -s 1000 -n 100 -m 1024
	both "IPv$ip: ping-pong of 64 KiB, events" pingpong -s 65536 -n 20 -m 1024 -e
	both "IPv$ip: every byte" xfer -n 100 -s 0-64K -u -k 3 -b
	both "IPv$ip: every byte, events, 8 queue pairs" xfer -n 30 -s 0-16K -b -e -q 8 -w 4
done
done_testing
