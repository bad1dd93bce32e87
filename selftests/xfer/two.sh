#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Two programs, one on each side, rather than one with both.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

need ss
two_hosts xfer

run "one way" two_xfers -n 100
run "both ways, events" two_xfers -n 100 -b -e -q 3
run "many small ones" two_xfers -n 2000 -s 0-64 -w 64 --signal 16
done_testing
