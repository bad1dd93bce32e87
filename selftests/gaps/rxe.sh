#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# rdma_rxe sends all again from what is missing: reports are of no use to it, and
# sroce, its responder, gives few of them.
# lab: timeout 600
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

need_bin gaps
rxe_relay_up w0 w1
tap_from "goes_back" "$BIN/gaps" -d roce0 -D roce1 goes_back
done_testing
