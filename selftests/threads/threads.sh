#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Threads that post to one queue pair or shared queue, and poll one completion queue, all
# at once.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

two_hosts threads
tests_of threads one_qp one_qp_resized one_cq one_cq_resized one_srq one_srq_resized stalled
done_testing
