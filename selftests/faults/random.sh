#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# No memory while packets are made and taken in: of all that is allocated on the module's
# behalf and may not wait, one in twenty fails, here, in the stack below it and in the
# netdevs. A packet that could not be made is one lost: every byte arrives all the same.
# Needs a kernel where allocations fail on demand: make check-debug.
# lab: timeout 900

. "$(dirname "$0")/../lib.sh"

failing=/sys/kernel/debug
[ -d $failing/failslab ] || skip_all "allocations do not fail on demand in this kernel"
[ -e $failing/failslab/require-start ] || skip_all "nor by who asks for memory"
two_hosts xfer

MANY=1000000000

knob() { # NAME VALUE: of both
	for f in failslab fail_page_alloc; do
		echo "$2" >"$failing/$f/$1" || bail "$f/$1"
	done
}

set_knobs() {
	local base size

	read -r size base < <(awk '$1 == "sroce" { print $2, $6 }' /proc/modules)
	knob require-start "$base"
	knob require-end "$(printf '%#x' $((base + size)))"
	knob stacktrace-depth 32
	knob verbose 0
	knob interval 1
	knob ignore-gfp-wait Y
	echo 0 >$failing/fail_page_alloc/min-order
	echo N >$failing/fail_page_alloc/ignore-gfp-highmem
}

failures() {
	echo $((2 * MANY - $(cat $failing/failslab/times) - $(cat $failing/fail_page_alloc/times)))
}

# ATOMIC and READ among them: what is done twice for a lost response would show. Nobody waits
# for events: the core loses one that it has no memory for (ib_uverbs_comp_handler()).
rounds=(
	"requests|-n 2000 -o send,write -s 0-64K"
	"answered|-n 1000 -o read,fetch_add,cmp_swp -s 8-64K --rd-atomic 8"
	"small ones|-n 4000 -s 0-64"
	"many, both ways|-n 500 -q 16 -b -o send,write,read -s 0-16K"
	"pieces|-n 500 -k max -u -s 0-64K"
	"IPv6|-n 1000 -g fd77::1 -G fd77::2 -o send,write,read"
)

set_knobs
for r in "${rounds[@]}"; do
	name=${r%%|*}
	knob times $MANY
	knob probability 5
	# shellcheck disable=SC2086 # a list
	run "$name: every byte" xfer --patience 300 --timeout 14 ${r#*|}
	knob probability 0
	between "$(failures)" 10 $MANY "$name: allocations failed"
done
run "and without" xfer -n 100
rdma link del roce0
rdma link del roce1
run "the module goes" unload_sroce
done_testing
