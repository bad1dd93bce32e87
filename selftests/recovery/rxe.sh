#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# A peer that keeps nothing of what comes before its turn: rdma_rxe, in the initial
# namespace, where it works on every kernel. sroce is the requester.
# lab: timeout 600
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

need_bin recovery
# the requester's side of the wire is w0
rxe_relay_up w1 w0
tap_from "drops" "$BIN/recovery" -d roce1 -D roce0 drops
done_testing
