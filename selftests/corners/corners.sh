#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Where one thing meets another.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

two_hosts corners
# the last one leaves host a without a way to anywhere
tests_of corners early bind_behind inv_behind read_hole send_hole srq_domain ud_nowhere
done_testing
