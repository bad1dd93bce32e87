#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Every transition of a queue pair, allowed and refused; what query_qp tells.
# lab: timeout 1500
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

two_hosts states
tests_of states transitions attributes migration cur_state values query drained post again
done_testing
