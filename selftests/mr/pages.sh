#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# What the kernel does to pages beneath a region: swapped, made huge and split, shared with
# children, merged; and what a process moves to another address.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

two_hosts mr
# something to swap to, that nobody else uses
if probe zram && zram=$(cat /sys/class/zram-control/hot_add 2>/dev/null); then
	defer "echo $zram >/sys/class/zram-control/hot_remove"
	defer "swapoff /dev/zram$zram"
	echo 64M >"/sys/block/zram$zram/disksize"
	wait_for 30 test -b "/dev/zram$zram"
	mkswap "/dev/zram$zram" >/dev/null && swapon "/dev/zram$zram"
fi
tests_of mr pinned_stirred odp_stirred pinned_moved odp_moved odp_merged
done_testing
