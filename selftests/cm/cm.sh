#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Connections made by RDMA CM, that is, by datagrams of the kernel's own queue
# pairs: rdma-core's tools and perftest's -R between two hosts, refusals, and
# links that go while connections stand.
# LONG=1: 1000 connections at a time.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

need rping ucmatose udaddy rdma_server rdma_client cmtime ibv_rc_pingpong
cm_hosts

# cmtime's two ends keep in step by a TCP connection of their own, which none had
# in rdma-core 44; in 56 it is to the same address, and IPv4 only; in 65 its address
# has an option.
case $(cmtime -h 2>&1) in
*controller*) cmtime=65 ;;
*baseline*) cmtime=56 ;;
*) cmtime=44 ;;
esac

calls=${LONG:+1000}
calls=${calls:-100}

storm() { # ADDRESS
	case $cmtime in
	65) storm_in_step "$1" ;;
	*) storm_by_itself "$1" ;;
	esac
}

storm_in_step() { # ADDRESS
	local at=(-C 192.168.77.2 -p 7471 -c "$calls")

	timeout -k 5 120 ip netns exec b cmtime -L "${at[@]}" -b "$1" >"$TMP/server" 2>&1 </dev/null &
	server=$!
	wait_for 30 server_listens 7471 $server || { cat "$TMP/server"; return 1; }
	if ! timeout -k 5 120 ip netns exec a cmtime "${at[@]}" -b "${1%2}1" || ! wait_pid 60 $server; then
		cat "$TMP/server"
		return 1
	fi
}

# The server of this one never ends.
storm_by_itself() { # ADDRESS
	local rc

	serve 7471 cmtime -b "$1" -c "$calls" || return 1
	timeout -k 5 60 ip netns exec a cmtime -s "$1" -c "$calls"
	rc=$?
	kill "$server"
	wait_pid 60 "$server"
	return $rc
}

perftest() { # TOOL ARGS...
	cm_perftest roce1 roce0 192.168.77.2 "$@"
}

gone() { # LINK
	! rdma link show "$1/1"
}

# However it does; but it does.
ends() { # NAME PID
	local rc

	wait_pid 60 "$2"
	rc=$?
	if [ $rc = 124 ]; then
		not_ok "$1"
		kill -9 "$2"
	else
		ok "$1"
	fi
}

mads=$(counter a v0 tx_packets)
for ip in 192.168.77.2 fd77::2; do
	run "$ip: rping, 64 bytes" pair 7174 rping -s -a $ip -C 100 -- rping -c -a $ip -C 100 -V
	run "$ip: rping, 65000 bytes" pair 7174 rping -s -a $ip -C 20 -S 65000 -- \
		rping -c -a $ip -C 20 -S 65000 -V
	run "$ip: rping, its own queue pair" pair 7174 rping -s -a $ip -C 20 -q -- \
		rping -c -a $ip -C 20 -V -q
	run "$ip: ucmatose" pair 7471 ucmatose -b $ip -c 10 -C 20 -S 3000 -- \
		ucmatose -s $ip -c 10 -C 20 -S 3000
	run "$ip: udaddy" pair 7174 udaddy -b $ip -c 10 -C 20 -S 900 -- \
		udaddy -s $ip -c 10 -C 20 -S 900
	run "$ip: rdma_client" pair 7471 rdma_server -s $ip -- rdma_client -s $ip
	if [ $cmtime = 56 ] && [ $ip = fd77::2 ]; then
		skip "$ip: cmtime" "rdma-core 56's connects its ends by IPv4 only"
	else
		run "$ip: cmtime, $calls connections" storm $ip
	fi
done
between $(($(counter a v0 tx_packets) - mads)) 1000 1000000 "they crossed the veth"

# the whole way through rsockets, which are nothing but RDMA CM and WRITEs
if command -v rstream >/dev/null; then
	run "rstream" pair 7471 rstream -b 192.168.77.2 -S all -I 20 -T v -- \
		rstream -s 192.168.77.2 -S all -I 20 -T v
fi

if command -v ib_send_bw >/dev/null; then
	run "ib_send_bw -R" perftest ib_send_bw -n 200 -s 8192
	run "ib_send_bw -R -c UD" perftest ib_send_bw -n 200 -s 1024 -c UD
	run "ib_send_lat -R" perftest ib_send_lat -n 200
	run "ib_write_bw -R -q 4" perftest ib_write_bw -n 200 -q 4
	run "ib_read_bw -R" perftest ib_read_bw -n 200
	run "ib_atomic_lat -R" perftest ib_atomic_lat -n 200
fi

# Within a host, the packets take lo.
lo_pair() {
	timeout 60 ip netns exec a rping -s -a 192.168.77.1 -C 10 >"$TMP/server" 2>&1 &
	server=$!
	wait_for 30 listens 7174 || return 1
	timeout 60 ip netns exec a rping -c -a 192.168.77.1 -C 10 -V
}
run "to oneself" lo_pair
wait_pid 30 "$server"

# A VLAN's addresses are those of the link below it; the answer goes back by the VLAN.
probe 8021q
if ip -n a link add link v0 name v0.7 type vlan id 7 2>/dev/null; then
	ip -n b link add link v1 name v1.7 type vlan id 7
	ip -n a link set v0.7 up
	ip -n b link set v1.7 up
	ip -n a addr add 192.168.78.1/24 dev v0.7
	ip -n b addr add 192.168.78.2/24 dev v1.7
	gid_wait roce0 192.168.78.1
	gid_wait roce1 192.168.78.2
	run "over a VLAN" pair 7174 rping -s -a 192.168.78.2 -C 10 -- \
		rping -c -a 192.168.78.2 -C 10 -V
	ip -n a link del v0.7
	ip -n b link del v1.7
else
	skip "over a VLAN" "no VLANs in this kernel"
fi

# The link of a bridge's port and that of the bridge have the bridge's addresses: RDMA CM listens on the first.
probe bridge
if ip -n b link add br1 type bridge 2>/dev/null; then
	ip -n b link set v1 master br1
	ip -n b link set br1 up
	ip -n b addr add 192.168.79.2/24 dev br1
	ip -n a addr add 192.168.79.1/24 dev v0
	rdma_add b roce9 br1
	gid_wait roce0 192.168.79.1
	gid_wait roce1 192.168.79.2
	gid_wait roce9 192.168.79.2
	run "to a bridge, of which there is another link" pair 7174 rping -s -a 192.168.79.2 -C 10 -- \
		rping -c -a 192.168.79.2 -C 10 -V
	rdma link del roce9
	ip -n b link del br1
	ip -n a addr del 192.168.79.1/24 dev v0
else
	skip "to a bridge, of which there is another link" "no bridges in this kernel"
fi

# Who is not expected is told so, and at once.
refused_at_once() { # NAME REGEX COMMAND...
	local name=$1 regex=$2 start=$SECONDS patience=${RUN_PATIENCE:-1}

	shift 2
	refused "$name" "$regex" timeout $((60 * patience)) "$@"
	between $((SECONDS - start)) 0 $((20 * patience)) "and at once: seconds"
}

refused_at_once "nobody listens: rejected" "REJECTED" ip netns exec a rping -c -a 192.168.77.2 -p 7999 -C 1
serve 7174 rping -s -a 192.168.77.2 -C 1 || not_ok "a listener"
# what nobody answers is UNREACHABLE as well, with -110: this is IB_SIDR_UNSUPPORTED
refused_at_once "a datagram's caller at a connection's port: rejected" $'UNREACHABLE, error: 1\n' \
	ip netns exec a udaddy -s 192.168.77.2 -c 1
run "and the listener is still there" timeout 60 ip netns exec a rping -c -a 192.168.77.2 -C 1 -V
wait_pid 30 "$server"

both_connected() {
	[ "$(rdma resource show cm_id | grep -c 'state CONNECT ')" = 2 ]
}

# A server and its client, who go on
connected() { # WHAT-IS-TO-COME
	serve 7174 rping -s -a 192.168.77.2 || not_ok "$1: a server before"
	timeout 120 ip netns exec a rping -c -a 192.168.77.2 >"$TMP/client" 2>&1 &
	client=$!
	wait_for 30 both_connected || not_ok "$1: a connection before"
}

# Links that go, on the listener's side and the caller's.
for link in roce1 roce0; do
	connected "$link goes"
	start=$SECONDS
	run "$link goes while connected" timeout 60 rdma link del $link
	between $((SECONDS - start)) 0 $((10 * ${RUN_PATIENCE:-1})) "$link goes at once: seconds"
	ends "$link went: the client ends" $client
	# a listener may wait for others: it is only to be able to end
	kill "$server" 2>/dev/null
	ends "$link went: the server ends" "$server"
	if [ $link = roce1 ]; then link_add b roce1 v1; else link_add a roce0 v0; fi
	gid_wait roce0 192.168.77.1
	gid_wait roce1 192.168.77.2
	run "$link has come back" pair 7174 rping -s -a 192.168.77.2 -C 5 -- \
		rping -c -a 192.168.77.2 -C 5 -V
done

# The netdevs of both ends go at once: nobody can say goodbye.
connected "the netdevs go"
run "the netdevs go while connected" timeout 60 ip -n b link del v1
run "roce0 goes" wait_for 60 gone roce0
run "roce1 goes" wait_for 60 gone roce1
ends "netdevs went: the client ends" $client
kill $client "$server" 2>/dev/null
wait
run "the module can be unloaded" wait_for 60 rmmod sroce

# Who has crashed and comes again is not to be taken for who was connected.
numbers=
for i in 1 2 3; do
	load_module
	rdma_add a roce0 lo || bail "no link on lo"
	timeout 60 stdbuf -oL ip netns exec a ibv_rc_pingpong -d roce0 -g 0 >"$TMP/number" 2>&1 &
	program=$!
	wait_for 30 grep -q QPN "$TMP/number" || diag "$(cat "$TMP/number")"
	kill $program
	wait $program
	numbers+=" $(sed -n 's/.*QPN \([^,]*\),.*/\1/p' "$TMP/number")"
	rdma link del roce0
	# numbers go on as long as it is there
	run "and once more: $i" wait_for 60 rmmod sroce
done
is "$(tr ' ' '\n' <<<"$numbers" | grep 0x | sort -u | wc -l)" 3 "the first queue pair has another number each time:$numbers"
done_testing
