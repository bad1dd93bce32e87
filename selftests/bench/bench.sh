#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The measuring part of bench, each kind of line once and shortly: figures come
# out of it.
# lab: timeout 300
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

[ -n "${LAB_REPO:-}" ] || skip_all "changes the machine's routing: only in a VM"
need ib_write_bw ibv_rc_pingpong
need_bin xfer ../bench-objects
load_module
hosts=$(ip netns list)

# A busy machine's clock may be too unsteady for perftest, which is not our fault.
figures() {
	awk -F '\t' -v ORS=' ' '$8 + 0 > 0 || $9 ~ /no steady clock/ { print $3, $5 }' "$TMP/results"
}

measure() { # NAME REGEX CONTENDERS WANT [ROUNDS]
	run "$1" "$REPO/tools/bench/guest" -S f -r "${5:-1}" -s 0 -l "$2" -x "$3" "$TMP/results" || return
	is "$(figures)" "$4 " "$1: figures" || diag "$(cat "$TMP/results")"
	rm -f "$TMP/results"
}

measure bandwidth '^self-write-64k ' sroce 'self-write-64k sroce'
measure latency '^rc-pingpong-e ' sroce 'rc-pingpong-e sroce'
measure registering '^reg-mr-4k ' sroce 'reg-mr-4k sroce reg-mr-4k/dereg sroce'
if probe sch_netem bridge; then
	measure "a network" '^write-64k-loss-1 ' sroce \
		'write-64k-loss-1 sroce write-64k-loss-1 sroce' 2
else
	skip "a network" "no netem or no bridge in this kernel"
fi
[ ! -f "$(dirname "$(sroce_ko)")/ceiling/ceiling.ko" ] ||
	measure "the ceiling" '^write-64k 1500' ceiling 'write-64k ceiling'
refused "on another machine: not at all" "only in a VM" env -u LAB_REPO "$REPO/tools/bench/guest" "$TMP/results"
is "$(ip netns list)" "$hosts" "no host is left"
done_testing
