#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# A link added and deleted 200 times (CYCLES; LONG: 2000), with and without use.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

need_bin xfer links
load_module
hosts_up
cycles=${CYCLES:-$([ "${LONG:-}" ] && echo 2000 || echo 200)}

slab() {
	awk '/^(Slab|SUnreclaim|VmallocUsed|Percpu):/ { printf "%s %s  ", $1, $2 } END { print "" }' /proc/meminfo
}

kb() {
	awk '/^(SUnreclaim|Percpu):/ { n += $2 } END { print n }' /proc/meminfo
}

links() { # NAME COUNT [race]
	ip netns exec a "$BIN/links" "$TYPE" "$1" v0 "${@:2}"
}

links roce0 50 >"$TMP/warm" || bail "50 links: $(cat "$TMP/warm")"
before=$(kb)
diag "before: $(slab)"
run "$cycles links added and deleted" links roce0 "$cycles"
sleep 1
diag "after:  $(slab)"
# a link that stayed would be 100 kB and more
between $(($(kb) - before)) -1000000 $((cycles * 4 + 8000)) "kB of kernel memory more"

# each used once
n=$((cycles / 200 + 1))
for ((i = 0; i < n; i++)); do
	links_up
	xfer -n 5 >"$TMP/x" 2>&1 || { not_ok "use $i"; diag "$(cat "$TMP/x")"; break; }
	rdma link del roce0
	rdma link del roce1
done
is $i $n "links used and deleted"

# several at once, for one netdev: one at a time may have it
pids=()
for i in 0 1 2 3; do
	links roce$i $((cycles / 5 + 1)) race >"$TMP/race$i" 2>&1 &
	pids+=($!)
done
added=0
for i in 0 1 2 3; do
	wait "${pids[i]}"
	is $? 0 "several at once: number $i"
	diag "$(cat "$TMP/race$i")"
	added=$((added + $(sed -n 's/links: \([0-9]*\) of.*/\1/p' "$TMP/race$i")))
done
between $added 1 1000000 "links added, with others at it"
is "$(links_here)" "" "four at once leave nothing behind"
links_up
run "and a link works" xfer -n 5
done_testing
