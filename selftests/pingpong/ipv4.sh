#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# ibv_rc_pingpong over IPv4: MTU 1500 and 9000, polling and events, 1 to 1 MiB.
# lab: timeout 1500
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

need ibv_rc_pingpong ss
two_hosts xfer
pingpong_suite 192.168.77.1 192.168.77.2
done_testing
