#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# No memory: each allocation of each verb, and of a link, fails in turn, and each copy from and
# to the program. What fails says so and can be done again, no message is lost, no object stays.
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

probe tun
tests_of faults objects regions queue_pairs steering connections messages datagrams links netdevs
is "$(rdma resource show qp | grep -v ib_core; rdma resource show mr)" "" "no object is left"
# they go in the background
wait_for 30 links_are roce0 roce1
is "$(links_here | tr "\n" " ")" "roce0 roce1 " "no link but two"

sockets() {
	for ns in a b; do
		in_ns $ns ss -Hlun sport = :4791
	done
	ss -Hlun sport = :4791
}

sockets | grep -q 4791
is $? 0 "they have sockets"
rdma link del roce0
rdma link del roce1
no_socket() {
	[ -z "$(sockets)" ]
}
wait_for 30 no_socket
is "$(sockets)" "" "no socket is left"
run "the module goes" unload_sroce
done_testing
