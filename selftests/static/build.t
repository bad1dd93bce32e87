#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# lab: timeout 1800
# lab: apart
#
# What compilers say of the module, the provider and the tests' programs: nothing; of the
# module at W=1, and sparse with its endian checks.

. "$(dirname "$0")/static.sh"

if command -v sparse >/dev/null; then
	silent "the module at W=1, with sparse" sparsely
	looks
else
	silent "the module at W=1" module W=1
	skip "with sparse" "needs sparse"
fi
silent "the provider" make -s -C tools/provider OUT="$TMP/provider"
silent "the tests' programs" make -s -C selftests O="$TMP/selftests"
done_testing
