#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Every status that a software device's requests can have, made to happen.
# lab: timeout 1500
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

two_hosts status
tests_of status local not_possible send_queue_error remote invalidate no_receive no_answer \
	bind_errors srq_events cq_overrun comm_est port
# what it forges has to come from the responder's host
tap_from bad_response in_ns b "$BIN/status" -d roce0 -D roce1 bad_response
done_testing
