#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Adding a link: where it is refused, and what it follows: addresses, MTU, up
# and down, carrier, the name of its netdev, the end of it and of its namespace.
# lab: timeout 1500
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

need ibv_devinfo
need_bin xfer
load_module
hosts_up

# --- refusals

refused "a netdev that there is not" "No such device|No such file|Cannot find|Invalid" rdma_add a roce0 nosuch0
link_add a roce0 v0
refused "a second link on one netdev" "File exists" rdma_add a roce5 v0
# the core answers ENFILE
refused "a name that is taken" "File exists|Too many open files" rdma_add b roce0 v1
is "$(links_here)" roce0 "there is the first link, and no other"
run "delete it" rdma link del roce0
is "$(links_here)" "" "it has gone"

ip -n a link set v0 mtu 351
refused "an MTU of 351, 256 and headers less one" "Invalid argument" rdma_add a roce0 v0
ip -n a link set v0 mtu 352
run "one of 352" rdma_add a roce0 v0
rdma link del roce0
ip -n a link set v0 mtu 1500

if probe sit && ip -n a link add sit9 type sit remote 192.168.77.2 local 192.168.77.1 2>/dev/null; then
	refused "a netdev that is no Ethernet (sit)" "not supported|Invalid argument" rdma_add a roce0 sit9
	ip -n a link del sit9
else
	skip "a netdev that is no Ethernet" "no sit in this kernel"
fi

if command -v python3 >/dev/null && [ "$TYPE" = sroce ]; then
	ip netns exec a python3 -c "
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('', 4791))
print('bound', flush=True)
time.sleep(1000)" >"$TMP/bound" &
	pid=$!
	wait_for 60 grep -q bound "$TMP/bound"
	refused "UDP port 4791 is taken" "Address already in use" rdma_add a roce0 v0
	is "$(links_here)" "" "no link is left of it"
	run "in another namespace it is not" rdma_add b roce1 v1
	kill $pid
	wait $pid 2>/dev/null
	run "and is free again" rdma_add a roce0 v0
	rdma link del roce0
	rdma link del roce1
	# the sockets go with the last link
	wait_for 30 sh -c "! ip netns exec a ss -Hlun sport = :4791 | grep -q ."
	is "$(ip netns exec a ss -Hlun sport = :4791)" "" "no socket is left without a link"
fi

# --- GIDs follow the addresses

ip -n a addr flush dev v0
run "a link on a netdev without an address" rdma_add a roce0 v0
is "$(gid_index roce0 192.168.77.1)" "" "no GID"
ip -n a addr add 192.168.77.1/24 dev v0
run "an IPv4 address is added: a GID" wait_for 30 has_gid roce0 192.168.77.1
ip -n a addr add fd77::1/64 dev v0 nodad
run "an IPv6 address is added: a GID" wait_for 30 has_gid roce0 fd77::1
ip -n a addr add 192.168.77.9/24 dev v0
run "a second one" wait_for 30 has_gid roce0 192.168.77.9
run "the first one stays" has_gid roce0 192.168.77.1
ip -n a addr del 192.168.77.9/24 dev v0
run "it is removed: its GID goes" wait_for 30 not has_gid roce0 192.168.77.9
ip -n a addr del fd77::1/64 dev v0
run "IPv6, too" wait_for 30 not has_gid roce0 fd77::1
run "the first one stays, still" has_gid roce0 192.168.77.1

# --- speed

# a word of an error instead: this libibverbs has no such call, or this kernel
speed_of() { # LINK
	ip netns exec a "$PYTHON" -c "
import pyverbs.device as d
with d.Context(name='$1') as ctx:
    try:
        print(ctx.query_port_speed(1))
    except AttributeError:
        print('rdma-core')
    except Exception as e:
        print('kernel' if 'rrno: 9' in str(e) else e)" 2>&1
}
speed=machine
! has_pyverbs || speed=$(speed_of roce0)
case $speed in
rdma-core | kernel) skip "the speed of the port" "none in this $speed" ;;
machine) skip "the speed of the port" "needs python3-pyverbs" ;;
*)
	is "$speed" "$(awk '{ print $1 * 10 }' /sys/class/infiniband/roce0/ports/1/rate)" \
		"the speed of the port in 100 Mb/s is its rate"
	# which no number of lanes has
	probe tun
	ip -n a tuntap add t0 mode tap
	run "a netdev of 1 Gb/s" ip netns exec a ethtool -s t0 speed 1000
	run "a link of it, which is down" rdma_add a roce9 t0
	is "$(speed_of roce9)" 10 "the speed of its port"
	like "$(cat /sys/class/infiniband/roce9/ports/1/rate)" "^2.5 " "and its rate, the least there is"
	rdma link del roce9
	ip -n a link del t0
	;;
esac

# --- MTU

state() {
	cut -d' ' -f2 /sys/class/infiniband/roce0/ports/1/state
}

state_is() {
	[ "$(state)" = "$1" ]
}

for m in 1500:1024 9000:4096 4200:4096 4000:2048 1000:512 608:512 607:256 352:256; do
	ip -n a link set v0 mtu "${m%:*}"
	is "$(active_mtu roce0)" "${m#*:}" "MTU ${m%:*}: active_mtu"
done
# less than 256 and what headers there may be, as the core counts them
ip -n a link set v0 mtu 351
run "MTU 351: the port is down" wait_for 30 state_is DOWN
ip -n a link set v0 mtu 1500
run "MTU 1500: it is up" wait_for 30 state_is ACTIVE

# --- up, down, carrier

is "$(state)" ACTIVE "port state"
ip -n a link set v0 down
run "netdev down: the port, too" wait_for 30 state_is DOWN
ip -n a link set v0 up
run "up" wait_for 30 state_is ACTIVE
ip -n b link set v1 down
run "no carrier: the port is down" wait_for 30 state_is DOWN
ip -n b link set v1 up
run "carrier: up" wait_for 30 state_is ACTIVE
run "the GID is there again" wait_for 30 has_gid roce0 192.168.77.1

# --- the netdev's name

ip -n a link set v0 down
ip -n a link set v0 name veryother
ip -n a link set veryother up
like "$(ip netns exec a rdma link show roce0/1)" "netdev veryother" "the netdev renamed: rdma link shows it"
wait_for 30 has_gid roce0 192.168.77.1
is "$(cat "/sys/class/infiniband/roce0/ports/1/gid_attrs/ndevs/$(gid_index roce0 192.168.77.1)")" veryother \
	"its GIDs, too"
ip -n a link set veryother down
ip -n a link set veryother name v0
ip -n a link set v0 up

# --- what the device says of itself

link_add b roce1 v1
gid_wait roce1 192.168.77.2
gid_wait roce0 192.168.77.1
run "after all this it works" xfer -n 20
info=$(ibv_devinfo -v -d roce0)
mac=$(ip netns exec a cat /sys/class/net/v0/address)
if [ "$TYPE" = sroce ]; then
	# EUI-64: the MAC with ff:fe in the middle and the local bit turned
	guid=$(echo "$mac" | awk -F: '{
		printf "%02x%s:%sff:fe%s:%s%s\n", xor2("0x" $1), $2, $3, $4, $5, $6 }
		function hex(s,  i, n) { n = 0; for (i = 3; i <= length(s); i++) n = n * 16 + index("0123456789abcdef", substr(s, i, 1)) - 1; return n }
		function xor2(s,  n) { n = hex(s); return int(n / 2) % 2 ? n - 2 : n + 2 }')
	like "$info" "node_guid:[[:space:]]*$guid" "node GUID from the MAC $mac"
	like "$info" "sys_image_guid:[[:space:]]*$guid" "system image GUID"
	# as rdma-ndd does
	desc=/sys/class/infiniband/roce0/node_desc
	text="host $(printf 'x%.0s' {1..80})"
	run "a description is written" eval 'echo -n "$text" >$desc'
	is "$(cat $desc)" "${text:0:64}" "as much of it as there is room for"
	run "and another" eval 'echo -n sroce >$desc'
	is "$(cat $desc)" sroce "nothing is left of the first"
fi
field() {
	echo "$info" | sed -n "s/^[[:space:]]*$1:[[:space:]]*\([^[:space:]]*\).*/\1/p" | head -n 1
}
is "$(field transport)" InfiniBand "transport"
is "$(field link_layer)" Ethernet "link layer"
is "$(field phys_port_cnt)" 1 "one port"
between "$(field max_qp)" 256 16777215 "max_qp"
between "$(field max_qp_wr)" 1024 16777216 "max_qp_wr"
between "$(field max_sge)" 4 1024 "max_sge"
between "$(field max_cq)" 256 16777216 "max_cq"
between "$(field max_cqe)" 32768 1073741824 "max_cqe"
between "$(field max_mr)" 256 16777216 "max_mr"
between "$(field max_pd)" 256 16777216 "max_pd"
between "$(field max_pkeys)" 1 1 "max_pkeys"
is "$(field max_mtu)" 4096 "max_mtu"
is "$(field max_msg_sz)" 0x40000000 "max_msg_sz is 1 GiB: at a path MTU of 256, what PSNs can number"
is "$(field gid_tbl_len | awk '{ print ($1 >= 16) }')" 1 "a table of GIDs"

# --- while it is made

# That takes a while, as there is a file for each GID. What happens meanwhile is from a
# program that runs already, to be in time. The window of a move is narrow: LONG=1 hits it.
rounds=${LONG:+50}
rounds=${rounds:-6}
declare -A meanwhile=([move]="link set d0 netns b" [end]="link del d0" [down]="link set d0 down")

follows() { # EVENT
	[ -e /sys/class/infiniband/roce5 ] || return 0
	[ "$1" = down ] && grep -q DOWN /sys/class/infiniband/roce5/ports/1/state
}

has_come() { # EVENT
	case $1 in
	move) ip -n b link show d0 ;;
	end) not ip -n a link show d0 ;;
	down) ! ip -n a link show up dev d0 | grep -q . ;;
	esac
}

undo() { # EVENT
	case $1 in
	move) ip -n b link set d0 netns a ;;
	end) ip -n a link add d0 type dummy ;;
	down) [ ! -e /sys/class/infiniband/roce5 ] || rdma link del roce5 ;;
	esac
	ip -n a link set d0 up
}

made_in() { # prints microseconds
	local start=$EPOCHREALTIME

	rdma_add a roce5 d0 && rdma link del roce5 && ip -n a link show d0 >/dev/null || return
	echo $((${EPOCHREALTIME//[!0-9]/} - ${start//[!0-9]/}))
}

# What a netdev goes through in a link's making keeps no later one from being made,
# and to go down not even this one.
rounds_of() { # EVENT
	local i add pause rc

	made=0
	for ((i = 0; i < rounds; i++)); do
		rdma_add a roce5 d0 >/dev/null 2>&1 &
		add=$!
		pause=$((took * i / rounds))
		read -rt "$(printf '%d.%06d' $((pause / 1000000)) $((pause % 1000000)))" <>"$TMP/never"
		echo "${meanwhile[$1]}" >&"${changes[1]}"
		wait $add
		rc=$?
		[ $rc != 0 ] || made=$((made + 1))
		[ "$1" = down ] || rc=0
		wait_for 30 has_come "$1" && wait_for 30 follows "$1" || rc=1
		undo "$1" || return
		[ $rc = 0 ] || { diag "not in round $i"; return 1; }
	done
	made_in >/dev/null || { diag "then none can be made"; return 1; }
}

if [ "$TYPE" = sroce ]; then
	hosts_down
	hosts_up
	mkfifo "$TMP/never"
	ip -n a link add d0 type dummy
	ip -n a link set d0 up
	coproc changes { ip -n a -force -batch -; }
	took=$(made_in && made_in) && took=${took##*$'\n'}
	between "${took:-0}" 1 100000000 "a link on a dummy, made and removed: microseconds"
	for e in "move its netdev goes to another namespace meanwhile: there is no link" \
		"end its netdev ends meanwhile: there is no link" \
		"down its netdev goes down meanwhile: so does its port"; do
		run "${e#* }" rounds_of "${e%% *}"
		diag "$made of $rounds were made before"
	done
	exec {changes[1]}>&-
	hosts_down
	hosts_up
	links_up
fi

# --- its end

ip -n a link del v0
run "the netdev deleted: the link goes with it" wait_for 60 not test -e /sys/class/infiniband/roce0
hosts_down
hosts_up
links_up
ip netns del a
run "the namespace deleted: its link goes with it" wait_for 60 not test -e /sys/class/infiniband/roce0
if [ "$TYPE" = sroce ]; then
	hosts_down
	refused "delete a link that is not there" "No such|not found|rong" rdma link del roce0
	run "the module unloads" wait_for 60 rmmod sroce
	load_module
fi
done_testing
