#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Devices go under programs with full queues, by each way that they can: the event, the
# completions and the errors that a program gets. And programs that are stopped meanwhile.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

two_hosts gone stopped

# What makes the two again, of what is left
cat >"$TMP/up" <<EOT
exec >/dev/null
. "$SELFTESTS/lib.sh"
trap 'rm -rf "\$TMP"' EXIT
# what is here is the test's, which has looked
hosts_ours=1
load_module
if ip -n a link show v0; then
	host_addr a v0 1
else
	hosts_up
fi
[ -e /sys/class/infiniband/roce0 ] || link_add a roce0 v0
[ -e /sys/class/infiniband/roce1 ] || link_add b roce1 v1
gid_wait roce0 192.168.77.1
gid_wait roce1 192.168.77.2
hosts_meet ip netns exec a
EOT

goes() { # NAME one|both COMMAND
	tap_from "$1" "$BIN/gone" -d roce0 -D roce1 --down "$3" --up "bash $TMP/up" "$2"
}

goes "rdma link del" one "rdma link del roce0"
goes "ip link del" both "ip -n a link del v0"
goes "the netdev to another namespace" one "ip -n a link set v0 netns b && ip -n b link set v0 netns a"
goes "ip netns del" both "ip netns del a"
# the module as well, while the program has its file open: --up loads it again
goes "rmmod" both "rmmod sroce"

for t in receiver sender link_goes; do
	tap_from "stopped: $t" "$BIN/stopped" -d roce0 -D roce1 --down "rdma link del roce1" \
		--up "bash $TMP/up" $t
done
done_testing
