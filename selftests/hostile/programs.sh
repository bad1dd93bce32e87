#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Programs that do what none should, for FUZZ_SECONDS (10; LONG=1: an hour) from SEED, and
# one of another user that knows all of another's numbers. A program beside them goes on, and
# nothing is left behind.
# lab: timeout 4500

. "$(dirname "$0")/../lib.sh"

[ "$TYPE" = sroce ] || skip_all "the rings are sroce's"
export FUZZ_SECONDS=${FUZZ_SECONDS:-$([ -n "$LONG" ] && echo 3600 || echo 10)}
two_hosts fuzz xfer

# How deep receptions nest in the transmissions that make them, by the trace: one is told of when
# it begins, the other when it has returned, if it was not refused.
deepest() { # FILE
	awk '{ cpu = $0; sub(/^[^[]*\[/, "", cpu); sub(/\].*/, "", cpu) }
		/ sroce_receive: / && ++depth[cpu] > most { most = depth[cpu] }
		/ sroce_burst: .* err=0$/ && depth[cpu] { depth[cpu]-- }
		END { print most + 0 }' "$1"
}

# Before anybody else sends: net.c's SELF_MAX_DEPTH is how deep, which it comes to, and no deeper
chain_nests() {
	trace_of "$TMP/chain" "receive burst" tap_from chain "$BIN/fuzz" -d roce0 -D roce1 chain
	if [ ! -e "$TMP/chain" ]; then
		skip "how deep a chain nests" "no tracing in this kernel"
		return
	fi
	is "$(deepest "$TMP/chain")" 8 "a chain nests eight calls deep and no deeper"
}

[ -n "${HOSTILE:-}" ] || chain_nests
"$BIN/xfer" -d roce0 -D roce1 -n 0 -e -q 2 -s 0-64K >"$TMP/beside" 2>&1 &
beside=$!
for t in ${HOSTILE:-chain tables other_user any}; do
	tap_from "$t" "$BIN/fuzz" -d roce0 -D roce1 "$t"
done
kill -INT $beside
wait_pid 60 $beside
is $? 0 "a program beside them goes on, and every byte of it arrives" || diag "$(tail -n 20 "$TMP/beside")"
run "and so does one that comes after" xfer -n 20
rdma link del roce0
rdma link del roce1
run "the module unloads" wait_for 60 rmmod sroce
load_module
done_testing
