#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The provider's data path against rings in memory, under the sanitizers. Needs
# no kernel module and no device.
set -e
root=$(cd "$(dirname "$0")/../.." && pwd)
OUT=${OUT:-$root/build/provider}
export OUT

make -s -f "$root/tools/provider/Makefile" ring_test >&2
exec "$OUT/ring_test"
