#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# qperf, by RDMA CM; its ver_ tests compare what atomics did.
# lab: apart
# lab: timeout 900

. "$(dirname "$0")/../lib.sh"

need qperf
cm_hosts

measured() { # TEST
	call 19765 qperf -- qperf 192.168.77.2 -cm 1 -t 1 "$1"
}

# Of UC and UD it knows LIDs only, which RoCE has not.
for t in rc_lat rc_bw rc_rdma_read_lat rc_rdma_write_bw ver_rc_compare_swap ver_rc_fetch_add; do
	run "$t" measured $t
done
between "$(hw_counter roce1 rx_pkts)" 1000 1000000000 "the link received packets"
done_testing
