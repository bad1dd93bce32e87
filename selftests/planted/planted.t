#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# lab: timeout 9000
#
# Deliberate faults, a boot of the kernel with detectors for each: that make check-debug
# and check-smp would have seen them, and that the former would have gone no further with
# memory that is damaged.

. "$(dirname "$0")/../lib.sh"

kernel=${LAB_KERNEL:-$REPO/build/uml-debug}
detectors=$(grep -Eos '^CONFIG_(KASAN|KCSAN)=y' "$kernel/obj/.config")
[ -n "$detectors" ] || skip_all "not a kernel with detectors: make check-debug, make check-smp"
ko=$REPO/build/$(cat "$kernel/obj/include/config/kernel.release")/planted/planted_test.ko
[ -f "$ko" ] || skip_all "there is no $ko: make planted KDIR=$kernel/obj"

# Loaded and unloaded, as a leak is reported then. Such a kernel boots slowly beside others.
boot() { # FAULT
	"$REPO/tools/lab/vm" -q -t 600 -k "$kernel" -- sh -c "insmod $ko fault=$1 && rmmod planted_test" \
		>"$TMP/out" 2>&1 </dev/null
}

# 121: the kernel complained; 123: it was stopped
planted() { # STATUS FAULT REGEX
	boot "$2"
	is $? "$1" "$2: status"
	like "$(cat "$TMP/out")" "$3" "$2: the report"
}

if [[ $detectors = *KCSAN* ]]; then
	boot marked_race
	is $? 0 "marked_race: status" || sed 's/^/#   /' "$TMP/out"
	planted 121 plain_race "BUG: KCSAN: data-race in .*racer"
	planted 121 lock_order "WARNING: possible circular locking dependency detected"
	done_testing
fi

boot none
is $? 0 "none: status" || sed 's/^/#   /' "$TMP/out"

planted 123 use_after_free "BUG: KASAN: slab-use-after-free in .*use_after_free"
planted 123 double_free "BUG: KASAN: double-free in .*double_free"
planted 123 out_of_bounds "BUG: KASAN: slab-out-of-bounds in .*out_of_bounds"
planted 123 array_bounds "UBSAN: array-index-out-of-bounds in .*planted_test"
planted 123 shift "UBSAN: shift-out-of-bounds in .*planted_test"
planted 121 lock_order "WARNING: possible circular locking dependency detected"
planted 121 lock_context "WARNING: inconsistent lock state"
planted 121 sleep_in_atomic "BUG: sleeping function called from invalid context"
planted 121 no_rcu "WARNING: suspicious RCU usage"
planted 123 active_timer "ODEBUG: free active .* timer_list"
planted 123 list_twice "list_add double add"
planted 123 refcount "refcount_t: decrement hit 0"
done_testing
