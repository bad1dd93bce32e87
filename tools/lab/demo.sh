#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Two hosts, a device on each, and messages between them.

set -eu -o pipefail

usage() {
	cat <<-EOT
	usage: tools/lab/demo.sh [-h] [TYPE]

	Make two hosts of network namespaces, demo-a and demo-b, joined by a veth pair;
	add an RDMA link of TYPE (sroce) on each, demo0 and demo1; run ibv_rc_pingpong
	between them over IPv4 and over IPv6. All of these are removed at the end.

	As root, in a VM (make demo) or on a machine where sroce is installed.
	EOT
}

case ${1:-} in
-h) usage; exit 0 ;;
esac
type=${1:-sroce}

heading() {
	printf '\n== %s\n' "$*"
}

die() {
	echo "demo.sh: $*" >&2
	exit 1
}

# What was made, the last first
cleanup() {
	set +e
	for undo in "${made[@]}"; do
		$undo 2>/dev/null
	done
	rm -f "$log"
}

make() { # UNDO COMMAND...
	"${@:2}" || die "cannot $(printf '%s ' "${@:2}")"
	made=("$1" "${made[@]}")
}

# The namespaces that have gone end a moment later, and are counted until then.
mode_back() {
	for _ in $(seq 100); do
		rdma system set netns "$mode" && return
		sleep 0.1
	done
	echo "demo.sh: rdma stays in its shared mode"
}

host() { # NAMESPACE NETDEV NUMBER
	ip -n "$1" link set lo up
	ip -n "$1" link set "$2" up
	ip -n "$1" addr add "192.168.77.$3/24" dev "$2"
	ip -n "$1" addr add "fd77::$3/64" dev "$2" nodad
}

# The place of an address in a device's table of GIDs, where an IPv4 address is
# written ::ffff:a.b.c.d. It appears a moment after the address.
gid_index() { # DEVICE GID
	local port=/sys/class/infiniband/$1/ports/1 f

	for _ in $(seq 100); do
		# shellcheck disable=SC2013 # names without spaces
		for f in $(grep -lx "$2" "$port"/gids/* 2>/dev/null); do
			if [ "$(cat "$port/gid_attrs/types/${f##*/}")" = "RoCE v2" ]; then
				echo "${f##*/}"
				return
			fi
		done
		sleep 0.1
	done
	die "$1 has no RoCE v2 GID $2; dmesg may say why"
}

# The GIDs say how messages go. The two programs first tell each other of them
# by TCP, over IPv4 either way: the server listens to nothing else.
pingpong() { # GID_OF_A GID_OF_B
	local ga gb server

	ga=$(gid_index demo0 "$1")
	gb=$(gid_index demo1 "$2")
	timeout 60 ip netns exec demo-a ibv_rc_pingpong -d demo0 -g "$ga" -n 1000 >"$log" 2>&1 &
	server=$!
	until ip netns exec demo-a ss -Hltn | grep -q :18515; do
		kill -0 $server 2>/dev/null || { cat "$log"; die "the server did not start"; }
		sleep 0.1
	done
	echo "b, the client:"
	timeout 60 ip netns exec demo-b ibv_rc_pingpong -d demo1 -g "$gb" -n 1000 192.168.77.1 2>&1 | sed 's/^ */  /' || {
		kill $server 2>/dev/null || true
		echo "a, the server:"
		sed 's/^ */  /' "$log"
		die "the client failed"
	}
	wait $server || { cat "$log"; die "the server failed"; }
	echo "a, the server:"
	sed 's/^ */  /' "$log"
}

[ "$(id -u)" = 0 ] || die "needs root"
case $type in
sroce) module=sroce ;;
*) module=rdma_$type ;;
esac
made=()
log=$(mktemp)
trap cleanup EXIT

heading "module $module on Linux $(uname -r)"
modprobe -a ib_uverbs "$module" || die "cannot load $module: make install, or make demo for a VM"
mode=$(rdma system show | sed -n 's/.*netns \([a-z]*\).*/\1/p')
[ "$mode" = shared ] || make mode_back rdma system set netns shared

heading "hosts a and b"
make "ip netns del demo-a" ip netns add demo-a
make "ip netns del demo-b" ip netns add demo-b
ip link add v0 netns demo-a type veth peer name v1 netns demo-b
host demo-a v0 1
host demo-b v1 2
make "rdma link del demo0" ip netns exec demo-a rdma link add demo0 type "$type" netdev v0
make "rdma link del demo1" ip netns exec demo-b rdma link add demo1 type "$type" netdev v1
rdma link show

heading "RC ping-pong over IPv4"
pingpong 0000:0000:0000:0000:0000:ffff:c0a8:4d01 0000:0000:0000:0000:0000:ffff:c0a8:4d02

heading "RC ping-pong over IPv6"
pingpong fd77:0000:0000:0000:0000:0000:0000:0001 fd77:0000:0000:0000:0000:0000:0000:0002

heading "done"
