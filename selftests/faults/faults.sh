#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# No memory: each allocation of each verb fails in turn, and each copy from and to the
# program. What fails says so and can be done again, no message is lost, no object stays.
# Needs a kernel where allocations fail on demand: make check-debug.
# lab: timeout 900

. "$(dirname "$0")/../lib.sh"

[ -e /proc/self/fail-nth ] || skip_all "allocations do not fail on demand in this kernel"
two_hosts faults

# those that may wait as well; and without a line in the log for each
for f in /sys/kernel/debug/{failslab,fail_page_alloc,fail_usercopy}; do
	for v in ignore-gfp-wait=N ignore-gfp-highmem=N min-order=0 verbose=0; do
		[ ! -e "$f/${v%=*}" ] || echo "${v#*=}" >"$f/${v%=*}"
	done
done

tests_of faults objects regions queue_pairs steering connections messages datagrams
is "$(rdma resource show qp | grep -v ib_core; rdma resource show mr)" "" "no object is left"
rdma link del roce0
rdma link del roce1
run "the module goes" unload_sroce
done_testing
