#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Messages and options at random. A failure prints the seed that repeats it.
# SEED and RUNS (12; with LONG=1 300) say which and how many.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

two_hosts xfer
runs=${RUNS:-$([ -n "$LONG" ] && echo 300 || echo 12)}
seed=${SEED:-$((RANDOM * 32768 + RANDOM))}
for ((i = 0; i < runs; i++)); do
	run "seed $((seed + i))" xfer --random --seed $((seed + i)) -n 40 -s 0-40K
done
done_testing
