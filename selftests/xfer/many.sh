#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Many programs at once, each with many queue pairs, while regions and queue pairs come
# and go beside them: for a kernel that looks for races of processors (make check-smp).
# ROUNDS (1) says how often.
# lab: timeout 300

. "$(dirname "$0")/../lib.sh"

[ -e /sys/kernel/debug/kcsan ] || skip_all "no kernel that looks for races: make check-smp"
two_hosts xfer

at_once() { # NAME XFER'S OPTIONS OF EACH...
	local name=$1 i by pids=()

	shift
	for i in $(seq $#); do
		[[ ${!i} = *"-t uc"* ]] && by=in_order || by=
		# shellcheck disable=SC2086 # words
		$by xfer --timeout 18 --patience 120 ${!i} >"$TMP/many$i" 2>&1 &
		pids+=($!)
	done
	for i in $(seq $#); do
		wait "${pids[i - 1]}"
		is $? 0 "$name: ${!i}" || diag "$(tail -n 5 "$TMP/many$i")"
	done
}

for _ in $(seq "${ROUNDS:-1}"); do
	at_once "messages" "-b -q 8 -n 60 -s 0-20K" "-b -q 8 -n 60 -s 0-256 -i -e" "-q 4 -t uc -r 64 -n 60 -s 0-10K"
	at_once "operations" "-q 4 -n 80 -o write,write_imm,read -s 0-30K" \
		"-q 4 -n 100 -o fetch_add,cmp_swp,send -s 8 --rd-atomic 8" "-q 4 -n 60 -o send,read -u -k 3 -e"
	at_once "short lives" "--random -n 5" "--random -n 5" "--random -n 5"
done
done_testing
