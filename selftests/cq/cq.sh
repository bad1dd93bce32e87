#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Completion queues: resized with entries in them, moderated, stamped,
# scribbled over; and queue pairs made while one is polled.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

two_hosts queues
tests_of queues cq_resize cq_resize_armed cq_resize_busy cq_missed cq_moderation cq_stamps cq_batch cq_hostile
done_testing
