#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Threads that post to one queue pair or shared queue, and poll one completion queue, all
# at once.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

two_hosts threads
tests_of threads one_qp one_qp_resized one_cq one_cq_resized one_srq one_srq_resized in_error
# where the kernel keeps no thread from running in the midst of a call, there is nothing to see
preempt=/sys/kernel/debug/sched/preempt
if [ -w $preempt ]; then
	defer "echo $(sed 's/.*(\(.*\)).*/\1/' $preempt) >$preempt"
	echo full >$preempt
fi
if [ -e /sys/kernel/debug/kcsan ] && [[ $(uname -v) == *PREEMPT_RT* ]]; then
	# a turn lends no priority (decisions.rst, "Real time"): who was kept from running in one, with a
	# hundredth of a processor on which all is slow, takes minutes to get on
	skip stalled "a kernel for real time that watches each access"
elif grep -qs "(full)" $preempt || [[ $(uname -v) =~ \ PREEMPT(_RT)?\  ]]; then
	tests_of threads stalled
else
	skip stalled "this kernel preempts nobody"
fi
done_testing
