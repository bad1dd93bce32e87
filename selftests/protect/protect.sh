#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Each operation with each kind of wrong key, address and right: refused with
# IBTA's syndrome, and memory as it was.
# lab: timeout 1500
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

two_hosts protect
tests_of protect regions windows1 windows2 revoke_region revoke1 revoke2 send_inv xrc
# a host to itself
tap_from "regions, one device" "$BIN/protect" -d roce0 regions
done_testing
