#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Memory of every kind that a region can be of, and what a process may do to it
# meanwhile.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

need_bin mr
load_module
hosts_up
links_up
probe udmabuf || true
for t in rereg rereg_traffic null dm dmabuf windows leave \
	odp odp_fork odp_shared odp_implicit odp_advise odp_traffic; do
	tap_from $t "$BIN/mr" -d roce0 -D roce1 $t
done
# everything is gone
unload_links() {
	rdma link del roce0 && rdma link del roce1
}
run "the links can be removed" unload_links
done_testing
