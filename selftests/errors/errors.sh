#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# What goes wrong, and the completions that are due then.
# lab: timeout 1500
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

two_hosts errors
tests_of errors rnr_late rnr_exceeded peer_gone link_down sqd_no_route sqd_wrong sqd_no_reads \
	flush_idle flush_busy wrong_send wrong_recv too_long refused unsupported isolated
done_testing
