#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Counters and resources as the rdma tool and sysfs show them: what happened.
# lab: timeout 1500
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

[ "$TYPE" = sroce ] || skip_all "the names are sroce's"
two_hosts shown
tests_of shown counters resources bound
done_testing
