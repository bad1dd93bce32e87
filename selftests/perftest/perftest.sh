#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Every program of perftest between two hosts: transports, events, both
# directions, many queue pairs. Its -I does nothing: it knows by a list which
# vendors' devices can inline.
# lab: timeout 1500
# lab: one-cpu

# shellcheck disable=SC2046,SC2086 # lists, and nothing that could be split

. "$(dirname "$0")/../lib.sh"

need ib_send_bw ib_send_lat ib_write_bw ib_write_lat ib_read_bw ib_read_lat ib_atomic_bw ib_atomic_lat ss
two_hosts xfer
perf_ends "b roce1 192.168.77.2" "a roce0 192.168.77.1"

# Its bytes cross the wire, one way or the other.
t() { # BYTES PROGRAM ARGS...
	local bytes=$1 before after

	shift
	before=$(carried a v0 bytes)
	run "$*" perf "$@" || return
	after=$(carried a v0 bytes)
	[ $((after - before)) -ge "$bytes" ] || {
		not_ok "$*: over the wire"
		diag "$bytes bytes, but v0 carried $((after - before))"
	}
}

n=${LONG:+2000}
n=${n:-50}

for c in RC UC UD XRC; do
	size=$([ $c = UD ] && echo 1000 || echo 16384)
	t $((size * n)) ib_send_bw -c $c -s $size -n "$n"
	t $((64 * n)) ib_send_lat -c $c -s 64 -n "$n"
	t $((size * n)) ib_send_bw -c $c -s $size -e -n "$n"
done
for c in RC UC XRC; do
	t $((16384 * n)) ib_write_bw -c $c -s 16384 -n "$n"
	t $((64 * n)) ib_write_lat -c $c -s 64 -n "$n"
done
for c in RC XRC; do
	t $((16384 * n)) ib_read_bw -c $c -s 16384 -n "$n"
	t $((64 * n)) ib_read_lat -c $c -s 64 -n "$n"
	for op in CMP_AND_SWAP FETCH_AND_ADD; do
		t $((8 * n)) ib_atomic_bw -c $c -A $op -n "$n"
		t $((8 * n)) ib_atomic_lat -c $c -A $op -n "$n"
	done
done
for p in send write read; do
	t $((3000 * n * 2)) ib_${p}_bw -b -s 3000 -n "$n"
	t $((3000 * n * 16)) ib_${p}_bw -q 16 -s 3000 -n "$n"
	t $((64 * n)) ib_${p}_bw -s 64 -t 512 -n "$n"
	t $((5000 * n)) ib_${p}_lat -s 5000 -n "$n"
done
t $((8 * n * 2)) ib_atomic_bw -b -n "$n"
t $((8 * n * 16)) ib_atomic_bw -q 16 -n "$n"
for p in read atomic; do
	t $((8 * n)) ib_${p}_bw -e $([ $p = atomic ] || echo -s 3000) -n "$n"
done
t $((8 * n)) ib_read_lat -e -s 64 -n "$n"
t $((16384 * n)) ib_send_bw -r 4 -s 16384 -n "$n"		# receives that are late
t $((4096 * n)) ib_send_bw -c RC --odp -s 4096 -n "$n"
t $((4096 * n)) ib_write_bw --odp -s 4096 -n "$n"
t $((64 * n)) ib_send_bw --use-srq -q 4 -s 64 -n "$n"
t $((3000 * n)) ib_write_bw --use_old_post_send -s 3000 -n "$n"
# of as many queue pairs as others fail with
t $((64 * 5 * 256)) ib_write_bw -q 256 -t 16 -s 64 -n 5
if [ -n "$LONG" ]; then
	t $((64 * 128 * 1024)) ib_write_bw -q 1024 -t 128 -s 64 -n 128
	t $((64 * 128 * 1024)) ib_read_bw -q 1024 -t 128 -s 64 -n 128
	t $((64 * 128 * 1024)) ib_send_bw -q 1024 -t 128 -s 64 -n 128
	for p in send write read; do
		t 1 ib_${p}_bw -a -n "$n"
		t 1 ib_${p}_bw -a -b -n "$n"
		t 1 ib_${p}_lat -a -n "$n"
	done
fi
done_testing
