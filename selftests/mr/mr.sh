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
tests_of mr rereg rereg_traffic null dm dmabuf dmabuf_moves windows leave odp odp_atomic_write \
	odp_fork odp_shared odp_implicit odp_advise odp_secret odp_programs odp_traffic
# each page that a process there has mapped is a mapping of the host's, which has not so many
if grep -q "User Mode Linux" /proc/cpuinfo; then
	skip "a prefetch that ends with its region" "User-Mode Linux maps no 4 GiB of single pages"
else
	tests_of mr odp_advise_ends
fi
# what is sent by two processors may overtake, and UC drops that
tap_from odp_uc in_order "$BIN/mr" -d roce0 -D roce1 odp_uc
# everything is gone
unload_links() {
	rdma link del roce0 && rdma link del roce1
}
run "the links can be removed" unload_links
[ ! -f "$exporter" ] || run "and who exports buffers" rmmod exporter_test
done_testing
