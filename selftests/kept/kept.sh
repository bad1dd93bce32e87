#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# What a peer can make us hold by packets before their turn, and who suffers.
# lab: timeout 900
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

need tc
need_bin kept
load_module
probe sch_netem
hosts_up
ip -n a link set v0 mtu 9000
ip -n b link set v1 mtu 9000
segmentation off a v0
segmentation off b v1
links_up
tc -n a qdisc add dev v0 root netem 2>/dev/null || skip_all "no netem in this kernel"
tc -n a qdisc del dev v0 root

# for memory that does not come: one that may be frozen, of 64 MiB, as the default may be 4
if probe ext4 && modprobe ${MODULES:+-d "$MODULES"} -q brd rd_size=65536 &&
	command -v mkfs.ext4 >/dev/null && wait_for 20 [ -b /dev/ram0 ]; then
	mkdir -p "$TMP/frozen"
	mkfs.ext4 -q /dev/ram0 && mount /dev/ram0 "$TMP/frozen" && export FROZEN=$TMP/frozen
fi
kept() { # TEST
	tap_from "$1" "$BIN/kept" -d roce0 -D roce1 --down "rdma link del roce1" \
		--up "ip netns exec b rdma link add roce1 type $TYPE netdev v1" "$1"
}

# some packets of it arrive in one skb
segmentation on a v0
kept refused
ip -n a link set lo up
kept pieces
segmentation off a v0
# the last one ends the link
for t in requests empty far_ahead aged aged_responses responses link_full waiting others answered ahead beside destroys asks \
	ends; do
	kept "$t"
done
[ -z "${FROZEN:-}" ] || umount "$FROZEN"
done_testing
