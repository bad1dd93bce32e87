#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Tag matching: eager and rendezvous, operations on tags, hostile peers; and
# over a wire that loses, doubles and reorders.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

need_bin tags
load_module
hosts_up
links_up
tap_from tags "$BIN/tags" -d roce0 -D roce1 eager order unexpected not_ready delete race refused \
	rndv left hostile wrong ends overrun odp
ip -n a link set v0 mtu 9000
ip -n b link set v1 mtu 9000
tap_from again "$BIN/tags" -d roce0 -D roce1 again
tap_from "one device" "$BIN/tags" -d roce0 eager rndv ends

hosts_up_bridge
links_up
segmentation off a v0
segmentation off b v1
if probe sch_netem && tc -n w qdisc add dev w0 root netem limit 100000 loss 1% 2>/dev/null; then
	tc -n w qdisc add dev w1 root netem limit 100000 delay 1ms reorder 95% loss 1% duplicate 1%
	# not what is answered with a NAK that nobody repeats: it may be lost
	tap_from loss "$BIN/tags" -d roce0 -D roce1 eager unexpected race rndv
else
	skip "over a wire that loses" "no netem in this kernel"
fi
done_testing
