#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Programs that do what none should.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

two_hosts fuzz
tests_of fuzz chain
done_testing
