#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# A link added and deleted a thousand times (CYCLES), with and without use.
# lab: timeout 600

. "$(dirname "$0")/../lib.sh"

need_bin xfer
load_module
hosts_up
cycles=${CYCLES:-1000}

slab() {
	awk '/^(Slab|SUnreclaim|VmallocUsed|Percpu):/ { printf "%s %s  ", $1, $2 } END { print "" }' /proc/meminfo
}

kb() {
	awk '/^(SUnreclaim|Percpu):/ { n += $2 } END { print n }' /proc/meminfo
}

cycle() { # COUNT
	local i

	for ((i = 0; i < $1; i++)); do
		rdma link add roce0 type "$TYPE" netdev v0 || { echo "add $i"; return 1; }
		rdma link del roce0 || { echo "del $i"; return 1; }
	done
}
export -f cycle
export TYPE

in_ns a bash -c "cycle 50" || bail "50 links"
before=$(kb)
diag "before: $(slab)"
run "$cycles links added and deleted" in_ns a bash -c "cycle $cycles"
sleep 1
diag "after:  $(slab)"
# a link that stayed would be 100 kB and more
between $(($(kb) - before)) -1000000 $((cycles * 4 + 8000)) "kB of kernel memory more"

# each used once
n=$((cycles / 100 + 1))
for ((i = 0; i < n; i++)); do
	links_up
	xfer -n 5 >"$TMP/x" 2>&1 || { not_ok "use $i"; diag "$(cat "$TMP/x")"; break; }
	rdma link del roce0
	rdma link del roce1
done
is $i $n "links used and deleted"

# both ends by several at once: none may be lost, none left
names() {
	seq 1 "${1:-20}"
}
for i in 0 1 2 3; do
	(for _ in $(names 20); do
		rdma_add a roce$i v0
		rdma link del roce$i
	done) >/dev/null 2>&1 &
done
wait %1 %2 %3 %4 2>/dev/null
wait_for 30 test -z "$(links_here)"
is "$(links_here)" "" "four at once leave nothing behind"
links_up
run "and a link works" xfer -n 5
done_testing
