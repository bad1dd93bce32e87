#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Every operation of RC, UC, UD and XRC between two hosts, checked to the byte.
# lab: timeout 1500
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

two_hosts ops
probe sch_netem
tests_of ops rc rc_ex reads srq xrc xrc_shared sum ud srq_ud mcast gone gone_shared gone_slow
for t in uc srq_uc; do
	tap_from "$t" in_order "$BIN/ops" -d roce0 -D roce1 $t
done
for t in ud mcast mcast_mtu; do
	tap_from "$t, IPv6" "$BIN/ops" -d roce0 -D roce1 -g fd77::1 -G fd77::2 $t
done
# mcast_mtu has taken its addresses
host_addr b v1 2 2>/dev/null
# a host to itself: not by the loopback device
before=$(counter a lo tx_packets)
for t in rc sum ud; do
	tap_from "$t, one device" "$BIN/ops" -d roce0 $t
done
between $(($(counter a lo tx_packets) - ${before:?})) 0 20 "one device: nothing leaves it"
done_testing
