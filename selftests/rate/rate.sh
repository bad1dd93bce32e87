#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The rate that a program gives a send queue.
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

two_hosts rate
tests_of rate caps refused paced datagrams frames changed again reset flushed answers not_ready
done_testing
