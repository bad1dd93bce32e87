#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Counters and resources as the rdma tool and sysfs show them: what happened.
# lab: timeout 1500
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

[ "$TYPE" = sroce ] || skip_all "the names are sroce's"
two_hosts shown
tests_of shown counters resources bound

# What `perf trace` makes of a message: who changes its state is shown by name
traced() {
	local way

	trace_of "$TMP/trace" "state burst" "$BIN/xfer" -d roce0 -D roce1 -n 10 -s 1000 >/dev/null
	if [ ! -e "$TMP/trace" ]; then
		skip "tracepoints" "no tracing in this kernel"
		return
	fi
	for way in "RESET to=INIT" "INIT to=RTR" "RTR to=RTS"; do
		is "$(grep -c "sroce_state: qp=0x[0-9a-f]* from=$way" "$TMP/trace")" 2 "two queue pairs from=$way"
	done
	between "$(grep -c 'sroce_burst: qp=0x[0-9a-f]* pkts=1 .* err=0' "$TMP/trace")" 1 100 "and a packet leaves"
}

traced
done_testing
