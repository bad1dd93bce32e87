#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Management datagrams: performance counters, asked for over the link and as sysfs shows
# them, against the traffic there was; what is refused, and what makes no sense.
# perfquery itself takes LIDs, of which RoCE has none.
# lab: timeout 900
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

[ "$TYPE" = sroce ] || skip_all "rdma_rxe answers none"
probe ib_umad || skip_all "no ib_umad in this kernel"
two_hosts mad
# Over IPv6: ib_mad looks for its own GID where an IPv4 header has not got it
# (rcv_has_same_gid), and takes no response for one that comes over IPv4.
for t in info counts remote setting refused hostile qp0 own_number; do
	tap_from $t "$BIN/mad" -d roce0 -D roce1 -g fd77::1 -G fd77::2 $t
done
done_testing
