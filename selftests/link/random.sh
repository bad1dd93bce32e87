#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# All that can happen to netdevs, to links on them and to programs that use these, at
# random from SEED, for ROUNDS (20; LONG=1: 1000): now and then each has to work, data
# compared, and at the end nothing is left. MODE (shared, exclusive) is that of RDMA's
# namespaces, at random as well.
# lab: timeout 4500
# lab: apart

. "$(dirname "$0")/lib.sh"

seed=${SEED:-$RANDOM}
rounds=${ROUNDS:-$([ -n "$LONG" ] && echo 1000 || echo 20)}
RANDOM=$seed
load_module
hosts_down
defer hosts_down

# One of these
pick() { # WORD...
	shift $((RANDOM % $#))
	picked=$1
}

mode=${MODE:-}
if [ -z "$mode" ]; then
	pick shared exclusive
	mode=$picked
fi
rdma system set netns "$mode" || mode=shared
defer "rdma system set netns shared"
ip netns attach home $$ || bail "no name for this namespace"
defer "ip netns del home"
diag "SEED=$seed MODE=$mode ROUNDS=$rounds"

# Number i: xi in a with roce<2i>, yi in b with roce<2i+1>, 192.168.<80+i>.1 and .2
types=(veth macvlan bridge bond tun dummy)

slot() { # NUMBER
	i=$1 type=${types[$1]} x=x$1 y=y$1 la=roce$((2 * $1)) lb=roce$((2 * $1 + 1))
	aa=192.168.$((80 + $1)).1 ab=192.168.$((80 + $1)).2
	if [ "$type" = dummy ]; then
		lb=$la ab=$aa
	fi
	ends=(-d "$la" -D "$lb" -g "$aa" -G "$ab")
}

in_both() { # COMMAND with a namespace, a netdev, and an address
	"$@" a "$x" "$aa" && { [ "$type" = dummy ] || "$@" b "$y" "$ab"; }
}

is_there() { # NAMESPACE NETDEV
	ip -n "$1" link show "$2"
}

# --- programs -------------------------------------------------------------------------

declare -A killed=()
programs=() # process ids
ended=0 endings=()

program_start() {
	local log

	[ ${#programs[@]} -lt 4 ] || return
	log=$TMP/program
	pick "-s 0-4K" "-s 0-32K -b -q 3" "-e -s 0-64K -o send,write,read,fetch_add" "-e -b -w 64 -s 64"
	# shellcheck disable=SC2086 # a list
	"$BIN/xfer" "${ends[@]}" -n 0 $picked --timeout 15 --patience 20 >"$log.new" 2>&1 &
	mv "$log.new" "$log.$!"
	programs+=($!)
}

signal() { # SIGNAL
	[ ${#programs[@]} -gt 0 ] || return
	pick "${programs[@]}"
	kill -"$1" "$picked"
	[ "$1" != KILL ] || killed[$picked]=1
}

# Those that have ended, by themselves or as they were told to
reap() {
	local p rc left=()

	for p in "${programs[@]}"; do
		if kill -0 "$p"; then
			left+=("$p")
			continue
		fi
		wait "$p"
		rc=$?
		ended=$((ended + 1))
		endings[rc]=$((${endings[rc]:-0} + 1))
		# 130: by SIGINT, before it has a handler or when it is ending; 4 is wrong data
		if ! [[ $rc =~ ^([013]|130)$ || ${killed[$p]:-}$rc = 1137 ]]; then
			not_ok "round $round: a program ends as it may ($rc)"
			sed 's/^/#   /' "$TMP/program.$p"
		fi
		rm "$TMP/program.$p"
	done
	programs=("${left[@]}")
}

# --- events ----------------------------------------------------------------------------

address() { # NAMESPACE NETDEV ADDRESS
	[ -z "$3" ] || ip -n "$1" addr "$what" "$3/24" dev "$2"
}

event_address_goes() {
	what=del
	address a "$x" "$aa"
}

event_address_comes() {
	what=add
	address a "$x" "$aa"
}

event_mtu() {
	pick 352 600 1280 1500 4200 9000 65536
	ip -n a link set "$x" mtu "$picked"
}

event_name() {
	ip -n a link set "$x" down
	ip -n a link set "$x" name other && ip -n a link set other name "$x"
	ip -n a link set "$x" up
}

event_mac() {
	ip -n a link set "$x" address "02:00:00:00:0$i:$((10 + RANDOM % 90))"
}

event_down() {
	ip -n a link set "$x" down
}

event_carrier() {
	pick up down
	ip -n b link set "l$y" "$picked" || ip -n b link set "$y" "$picked" || ip -n a link set "$x" carrier off
}

event_link_del() {
	rdma link del "$la"
}

wire_ends() {
	[ -z "${tuns[$x]:-}" ] || kill -9 "${tuns[$x]}"
	unset "tuns[$x]"
}

event_unregister() {
	if [ "$type" = tun ]; then
		wire_ends
	else
		ip -n a link del "$x"
	fi
}

event_move() {
	[ -e /run/netns/w ] || host_ns w
	ip -n a link set "$x" netns w && ip -n w link set "$x" up && pick stay go &&
		[ "$picked" = go ] && ip netns del w
}

event_exit() {
	ip netns del a
	# its file would hold the namespace
	slot 4
	wire_ends
	host_ns a
}

# The RDMA device's own namespace
event_away() {
	[ "$mode" = exclusive ] || return
	[ -e /run/netns/w ] || host_ns w
	rdma dev set "$la" netns w || return
	pick back end
	if [ "$picked" = back ]; then
		ip netns exec w rdma dev set "$la" netns home
	else
		ip netns del w
		wait_for 60 test -e "/sys/class/infiniband/$la"
	fi
}

event_program() {
	program_start
}

event_program_ends() {
	signal INT
}

event_program_killed() {
	signal KILL
}

event_program_stops() {
	signal STOP
}

event_program_continues() {
	signal CONT
}

# As it should be again, whatever it is like now; and it works.
renew() {
	local lower

	[ -e /run/netns/a ] || host_ns a
	if ! is_there a "$x" || { [ "$type" != dummy ] && ! is_there b "$y"; }; then
		[ "$type" != tun ] || wire_ends
		for lower in "$x" "l$x" "m$x"; do
			ip -n a link del "$lower"
		done
		for lower in "$y" "l$y" "m$y"; do
			ip -n b link del "$lower"
		done
		! [ -e /run/netns/w ] || ip netns del w
		netdev_make "$type" "$x" "$y" || return
	fi
	for lower in "l$y" "m$y" "$y"; do
		ip -n b link set "$lower" up
	done
	for lower in "l$x" "m$x"; do
		ip -n a link set "$lower" mtu 1500 up
	done
	ip -n a link set "$x" mtu 1500 up
	ip -n a link set "$x" carrier on
	what=replace
	in_both address
	[ "$type" = dummy ] || wait_for 60 ip netns exec a ping -c 1 -W 5 "$ab"
	in_both link_wanted
}

link_wanted() { # NAMESPACE NETDEV
	local l=$la

	[ "$1" = a ] || l=$lb
	# the one of a netdev that was here may still be on its way out
	wait_for 60 link_there "$1" "$2" "$l" && return
	rdma_add "$1" "$l" "$2"
	rdma link
	return 1
}

link_there() { # NAMESPACE NETDEV LINK
	if [ -e "/sys/class/infiniband/$3" ]; then
		[ "$(cat "/sys/class/infiniband/$3/ports/1/gid_attrs/ndevs/0")" ] && port_active "$3"
	else
		rdma_add "$1" "$3" "$2"
		return 1
	fi
}

works() {
	wait_for 60 has_gid "$la" "$aa" && wait_for 60 has_gid "$lb" "$ab" &&
		timeout 120 "$BIN/xfer" "${ends[@]}" -n 10 -b -e -o send,write,read,fetch_add -s 0-16K
}

checks=0
event_check() {
	: >"$TMP/works"
	if ! renew >"$TMP/renew" 2>&1 </dev/null || ! works >"$TMP/works" 2>&1; then
		not_ok "round $round: $type works"
		sed 's/^/#   /' "$TMP/renew" "$TMP/works" | tail -n 40
		ip -n a addr show "$x" | sed 's/^/#   /'
	fi
	checks=$((checks + 1))
}

host_ns a
host_ns b
for ((round = 0; round < ${#types[@]}; round++)); do
	slot $round
	event_check
done
is "$tap_failed" 0 "links on ${types[*]}"
all=(address_goes address_comes mtu name mac down carrier link_del unregister move exit away program program
     program program program_ends program_killed program_stops program_continues check check check)
history=()
for ((round = 1; round <= rounds && tap_failed == 0; round++)); do
	slot $((RANDOM % ${#types[@]}))
	pick "${all[@]}"
	history+=("$round:$picked($type)")
	if [ "$picked" = check ]; then
		event_check
	else
		"event_$picked" >"$TMP/event" 2>&1 </dev/null
	fi
	reap 2>/dev/null
	[ $((round % 100)) != 0 ] || diag "$round rounds"
done
[ "$tap_failed" = 0 ] || diag "before it: ${history[*]: -12}"
is $((round - 1)) "$rounds" "rounds, $checks of them checks"

# --- the end ------------------------------------------------------------------------------

for ((k = 0; k < ${#types[@]}; k++)); do
	slot $k
	event_check
done
for p in "${programs[@]}"; do
	kill -CONT "$p"
	kill -INT "$p"
done 2>/dev/null
programs_over() {
	reap 2>/dev/null
	[ ${#programs[@]} = 0 ]
}
run "all programs end" wait_for 120 programs_over
diag "$ended programs; of each status: $(for rc in "${!endings[@]}"; do echo "$rc: ${endings[rc]} "; done)"
hosts_down
run "nothing is left of the links" wait_for 60 links_are
run "the module unloads" wait_for 60 rmmod sroce
load_module
done_testing
