#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# What query_device promises, to the last request, piece, completion and READ;
# with LONG=1 to the last object, for which a VM needs 6 GiB.
# lab: timeout 3600
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

need tc
need_bin limits
load_module
# each ring of a program is a mapping
[ -z "$LONG" ] || echo 1000000 >/proc/sys/vm/max_map_count
hosts_up
links_up
tests_of limits promised requests pieces completions objects
probe sch_netem
if tc -n a qdisc add dev v0 root netem delay $((300 * ${RUN_PATIENCE:-1}))ms limit 10000 2>/dev/null; then
	tests_of limits outstanding
else
	skip "outstanding READs" "no netem in this kernel"
fi
done_testing
