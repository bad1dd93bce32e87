#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# lab: timeout 1800
# lab: apart
#
# What a compiler for s390 says of the module, which has 64 bits and is big-endian: nothing,
# at W=1; and sparse says nothing. There is nothing to run it on.

. "$(dirname "$0")/static.sh"

headers=$REPO/build/s390
cross=(KDIR="$headers/obj" ARCH=s390 CROSS_COMPILE=s390x-linux-gnu-)
[ -e "$headers/ready" ] || skip_all "needs headers for s390: make check-static"
need s390x-linux-gnu-gcc sparse

silent "the module for s390 at W=1, with sparse" sparsely "${cross[@]}" OBJECT=sroce.o
looks "${cross[@]}" OBJECT=wrong.o
like "$(s390x-linux-gnu-objdump -f "$TMP/module/sroce.o")" "elf64-s390" "it is for that machine"
done_testing
