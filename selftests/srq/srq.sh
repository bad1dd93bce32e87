#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Shared receive queues: resized with requests in them, their limit, their
# numbers, scribbled over.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

need_bin queues
load_module
hosts_up
links_up
for t in srq_resize srq_limit srq_hostile srq_xrc; do
	tap_from $t "$BIN/queues" -d roce0 -D roce1 $t
done
done_testing
