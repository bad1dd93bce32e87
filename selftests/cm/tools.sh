#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# librdmacm's programs, from host to host over IPv4 and IPv6, and within a host; those
# that cm/cm has are not here again. What can compare its data does so. nuttcp cannot run
# with librspreload: its server begins with getpeername(), which that library passes on
# before it has looked up where to, and it writes by stdio, past the library and to the
# /dev/null that has a socket's number.
# LONG=1: files of 100 MB, more programs over IPv6, and all of it within a host.
# lab: apart
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

need rping riostream rstream rcopy rdma_xserver rdma_xclient mckey stdbuf curl
need_bin httpd
cm_hosts
ip=

# --- a client and a server that both come to an end ------------------------------

# NAME | SERVER | CLIENT; @ is the address. Those of rdma_xserver know IPv4 only.
programs() {
	cat <<-EOT
	rdma_xserver, RC  | rdma_xserver -c r | rdma_xclient -s @ -c r
	rdma_xserver, XRC | rdma_xserver -c x | rdma_xclient -s @ -c x
	riostream         | riostream -b @ -S 4097 -I 4 -C 5 -T v | riostream -s @ -S 4097 -I 4 -C 5 -T v
	riostream, poll   | riostream -b @ -S 65536 -I 4 -C 5 -T v -T a | riostream -s @ -S 65536 -I 4 -C 5 -T v -T a
	rstream           | rstream -b @ -S 4097 -I 4 -C 5 -T v | rstream -s @ -S 4097 -I 4 -C 5 -T v
	rstream, blocking | rstream -b @ -S 65536 -I 4 -C 5 -T v -T b | rstream -s @ -S 65536 -I 4 -C 5 -T v -T b
	EOT
}

# shellcheck disable=SC2086 # commands and their arguments
program_tests() {
	local name server client

	programs | tr -s ' ' | while IFS='|' read -r name server client; do
		[[ $name$ip != rdma_xserver*:* ]] || continue
		run "$where: ${name% }" pair 7471 ${server//@/$ip} -- ${client//@/$ip}
	done
}

# --- a server that stays ----------------------------------------------------------

# One after the other: two requests at once are more than rping can tell apart.
many_clients() {
	local i rc=0

	serve 7174 rping -s -P -a $ip || return 1
	for i in 1 2 3 4 5 6 7 8; do
		timeout -k 5 120 ip netns exec $cm_client rping -c -a $ip -C 10 -S $((i * 999)) -V || rc=1
	done
	kill "$server" || rc=1
	wait_pid 60 "$server"
	return $rc
}

big=$TMP/big
head -c $((${LONG:+10}0 * 1000000 + 3141592)) /dev/urandom >"$big"

same() { # FILE
	cmp "$big" "$1" && rm "$1"
}

copy() {
	local rc

	serve 7427 rcopy || return 1
	timeout -k 5 300 ip netns exec $cm_client rcopy "$big" "$ip:$TMP/copy" && same "$TMP/copy"
	rc=$?
	kill "$server"
	wait_pid 60 "$server"
	return $rc
}

# --- sockets programs ---------------------------------------------------------------

preload=$(ls /usr/lib/*/rsocket/librspreload.so 2>/dev/null | head -n 1)
rs=(env "LD_PRELOAD=$preload")

# librspreload passes on a socket() with flags in its type, as Debian 13's curl
# has them and Debian 12's has not.
unseen() { # COMMAND...
	timeout -k 5 30 strace -f -qq -e trace=socket "$@" 2>&1 >/dev/null |
		grep -q 'AF_INET.*SOCK_STREAM|'
}

download() {
	local url=http://$host:8080/ rc

	serve 8080 "${rs[@]}" "$BIN/httpd" $ip 8080 "$big" || return 1
	timeout -k 5 300 ip netns exec $cm_client "${rs[@]}" curl -sS --noproxy '*' -o "$TMP/page" "$url" &&
		same "$TMP/page"
	rc=$?
	kill "$server"
	wait_pid 60 "$server"
	return $rc
}

# None of it is TCP.
crossed_tcp() {
	ip netns exec b cat /proc/net/snmp | awk '$1 == "Tcp:" && n++ { print $11 }'
}

http() {
	if [ -z "$preload" ]; then
		skip "$where: curl, rsockets preloaded" "no librspreload.so"
	elif unseen curl --noproxy '*' http://127.0.0.1:81/; then
		skip "$where: curl, rsockets preloaded" "librspreload does not see this curl's sockets"
	else
		run "$where: curl, rsockets preloaded" download
	fi
}

link_counter() { # LINK COUNTER of IBTA's
	cat "/sys/class/infiniband/$1/ports/1/counters/$2"
}

# What iperf3 sends counts up, and starts again at 0 where a write was cut short.
counts_up() { # FILE
	awk -v RS=0 '$0 != "" && (NR == 1 || index("123456789", $0) != 1) { exit 1 }' "$1"
}

# librspreload's select() tells of an accepted rsocket by another number (till rdma-core 63),
# so that iperf3's server reads nothing. With RDMAV_FORK_SAFE it accepts by TCP and puts an
# rsocket into that socket's place, of which select() tells rightly. One stream: with three,
# rsockets' thread for connections polls memory that it has freed (till rdma-core 53). None
# with Debian 13's iperf3, "control socket has closed", by rdma_rxe as well: why was not looked
# for; 3.16 brought threads, and Debian 12's has none.
fork_safe=("${rs[@]}" RDMAV_FORK_SAFE=1)
mb=5

# When it ends, its server leaves unread what is in a buffer of rsockets: 128 kB.
measured() {
	local size

	rm -f "$TMP/digits" /dev/shm/sem.rsocket_fork
	pair 5201 "${fork_safe[@]}" iperf3 -s -1 -F "$TMP/digits" -- \
		"${fork_safe[@]}" iperf3 -c "$ip" -n "${mb}M" --repeating-payload || return 1
	size=$(stat -c %s "$TMP/digits")
	echo "$size bytes"
	[ "$size" -ge $((mb * 1048576 - 131072)) ] && counts_up "$TMP/digits"
}

iperf() {
	local tcp words

	if [ -z "$preload" ] || ! command -v iperf3 >/dev/null; then
		skip "$where: iperf3, rsockets preloaded" "no librspreload.so or no iperf3"
		return
	fi
	if iperf3 --version | awk 'NR == 1 { split($2, v, "."); exit v[1] * 1000 + v[2] < 3016 }'; then
		skip "$where: iperf3, rsockets preloaded" "not with this iperf3, nor by rdma_rxe"
		return
	fi
	tcp=$(crossed_tcp)
	[ "$TYPE" != sroce ] || words=$(link_counter roce1 port_rcv_data)
	run "$where: iperf3, rsockets preloaded" measured
	[ "$TYPE" != sroce ] || between $((4 * ($(link_counter roce1 port_rcv_data) - words))) \
		$((mb * 1048576)) $((mb * 2097152)) "$where: its bytes came by the link"
	between $(($(crossed_tcp) - tcp)) 1 50 "$where: segments of TCP, which arranged it"
}

# --- the tools ------------------------------------------------------------------------

streams() { # CALLER'S-HOST ADDRESS
	local tcp

	cm_client=$1 ip=$2 host=$2 where="$1 to $2"
	[[ $ip != *:* ]] || host=[$ip]
	tcp=$(crossed_tcp)
	[[ $ip == *:* && -z $LONG ]] || program_tests
	run "$where: rping, 8 clients of one server" many_clients
	# it takes the first colon for the end of the address
	[[ $ip == *:* ]] || run "$where: rcopy" copy
	http
	is "$(crossed_tcp)" "$tcp" "$where: none of it by TCP"
	iperf
}

streams a 192.168.77.2
streams a fd77::2
[ -z "$LONG" ] || streams b 192.168.77.2

# RDMA CM joins no IPv6 groups over RoCE v2
a=192.168.77.1 b=192.168.77.2
before=$(link_counter roce1 multicast_rcv_packets)
run "a to b: mckey" multicast a $a b $b
run "a to b: mckey, the sender only sends" multicast a $a b $b -o
[ "$TYPE" != sroce ] ||
	is $(($(link_counter roce1 multicast_rcv_packets) - before)) 20 "the port received them by multicast"
run "b to a: mckey" multicast b $b a $a
run "b to a: mckey, the sender only sends" multicast b $b a $a -o
run "b to itself: mckey" multicast b $b b $b
done_testing
