#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Memory of every kind that a region can be of, and what a process may do to it
# meanwhile.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

two_hosts mr
probe udmabuf || true
exporter=${EXPORTER_KO:-$(dirname "$(sroce_ko)")/kverbs/exporter_test.ko}
[ ! -f "$exporter" ] || insmod "$exporter"
tests_of mr rereg rereg_traffic null dm dmabuf dmabuf_moves windows leave odp odp_uc odp_atomic_write \
	odp_fork odp_shared odp_implicit odp_advise odp_advise_ends odp_secret odp_programs odp_traffic
# everything is gone
unload_links() {
	rdma link del roce0 && rdma link del roce1
}
run "the links can be removed" unload_links
[ ! -f "$exporter" ] || run "and who exports buffers" rmmod exporter_test
done_testing
