# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
#
# Netdevs of all types between the hosts a and b, for the tests of links on them.

. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

need_bin xfer tuns

# What carries X in a and Y in b: lX and lY, and of a bond mX and mY as well

wire() { # NETDEV in a, NETDEV in b
	ip link add "$1" netns a type veth peer name "$2" netns b &&
		ip -n a link set "$1" up && ip -n b link set "$2" up
}

make_veth() {
	wire "$1" "$2"
}

make_macvlan() {
	wire "l$1" "l$2" && ip -n a link add link "l$1" name "$1" type macvlan mode bridge &&
		ip -n b link add link "l$2" name "$2" type macvlan mode bridge
}

bridge_of() { # NAMESPACE NAME PORT...
	local p

	ip -n "$1" link add "$2" type bridge || return
	for p in "${@:3}"; do
		ip -n "$1" link set "$p" master "$2" || return
	done
}

make_bridge() {
	wire "l$1" "l$2" && bridge_of a "$1" "l$1" && bridge_of b "$2" "l$2"
}

# Two wires, of which one is in use
make_bond() {
	local p

	wire "l$1" "l$2" && wire "m$1" "m$2" && bridge_of b "$2" "l$2" "m$2" &&
		ip -n a link add "$1" type bond mode active-backup miimon 100 || return
	for p in "l$1" "m$1"; do
		ip -n a link set "$p" down
		ip -n a link set "$p" master "$1" || return
	done
}

make_tap() {
	tuns tap "$@"
}

make_tun() {
	tuns tun "$@"
}

# The program that is the wire; it ends with both netdevs
declare -A tuns=()

tuns() { # TYPE X Y
	: >"$TMP/tuns$2"
	"$BIN/tuns" "$1" a "$2" b "$3" >"$TMP/tuns$2" 2>&1 &
	# shellcheck disable=SC2034 # for the tests
	tuns[$2]=$!
	disown
	wait_for 30 sh -c "grep -q . $TMP/tuns$2" && grep -q up "$TMP/tuns$2"
}

make_dummy() {
	ip -n a link add "$1" type dummy
}

# Cards of a VM of the lab, see selftests/run: another machine's are in use. One that was in a
# namespace is back when that has ended.
make_virtio() {
	local bus=/sys/bus/virtio/drivers/virtio_net id to=("a:$1" "b:$2")

	[ -n "${LAB_REPO:-}" ] || { echo "no VM of tools/lab/vm" >&2; return 1; }
	for id in $(cards); do
		[ ${#to[@]} -gt 0 ] || break
		[ -e "$bus/$id" ] || echo "$id" >"$bus/bind" || return
		wait_for 30 card_here "$id" || return
		ip link set "$(card_here "$id")" down name "${to[0]#*:}" netns "${to[0]%:*}" || return
		to=("${to[@]:1}")
	done
	[ ${#to[@]} = 0 ] || { echo "no two network cards" >&2; return 1; }
}

cards() {
	grep -l '^0x0001$' /sys/bus/virtio/devices/*/device 2>/dev/null | cut -d / -f 6
}

# Its netdev, in this namespace
card_here() { # DEVICE
	ls "/sys/bus/virtio/devices/$1/net" 2>/dev/null | grep .
}

declare -A module=([bond]=bonding [tap]=tun [virtio]=virtio_net)

# X in a and, of what has two ends, Y in b
netdev_make() { # TYPE X Y
	probe "${module[$1]:-$1}"
	"make_$1" "$2" "$3"
}

# Does a program send by roce0?
moving() {
	local n

	n=$(hw_counter roce0 tx_pkts)
	sleep 0.05
	[ "$(hw_counter roce0 tx_pkts)" -gt $((n + 5)) ]
}

# A program between $ends that goes on, through what lasts no longer than 8 times 1.07 s, if
# nothing else is said
start() { # ARGS of xfer, besides
	"$BIN/xfer" "${ends[@]}" -n 0 -e -q 2 -s 0-16K -o send,write,read --timeout 18 --retry 7 "$@" \
		>"$TMP/program" 2>&1 &
	program=$!
	wait_for 60 moving || not_ok "$name: a program runs"
}

goes_on() { # NAME
	if wait_for 60 moving && kill -0 "$program" 2>/dev/null; then
		ok "$1: the program goes on"
	else
		not_ok "$1: the program goes on"
		sed 's/^/#   /' "$TMP/program"
	fi
}

stop_well() {
	kill -INT "$program"
	wait_pid 60 "$program"
	is $? 0 "$name: all that the program has sent has arrived" || sed 's/^/#   /' "$TMP/program"
}
