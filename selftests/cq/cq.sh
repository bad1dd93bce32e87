#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Completion queues: resized with entries in them, moderated, stamped,
# scribbled over.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

need_bin queues
load_module
hosts_up
links_up
for t in cq_resize cq_resize_armed cq_moderation cq_stamps cq_hostile; do
	tap_from $t "$BIN/queues" -d roce0 -D roce1 $t
done
done_testing
