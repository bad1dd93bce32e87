#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# What needs no compiler: cppcheck finds nothing; kernel-doc misses nothing; versions of kernels
# are known in one file; a kernel that cannot have the module is refused before anything is compiled.
# lab: timeout 900

. "$(dirname "$0")/static.sh"

if command -v cppcheck >/dev/null; then
	# It takes loops that fill a variable, and one of two arguments that is NULL, for errors.
	# It sees no kernel's headers, and so the newest kernel.
	silent "cppcheck" cppcheck -q --max-configs=1 --enable=warning --suppress=unknownMacro \
		--suppress=uninitvar --suppress=ctunullpointer --suppress=normalCheckLevelMaxBranches \
		-D__KERNEL__ "-D__aligned(n)=" "-DKERNEL_VERSION(a,b,c)=((a) * 65536 + (b) * 256 + (c))" \
		"-DLINUX_VERSION_CODE=KERNEL_VERSION(255,0,0)" "-DIS_ENABLED(option)=1" \
		drivers tools/provider
else
	skip "cppcheck" "needs cppcheck"
fi

is "$(grep -rlE 'LINUX_VERSION_CODE|KERNEL_VERSION\(' --include='*.[ch]' drivers include selftests tools)" drivers/infiniband/sw/sroce/compat.h \
	"what differs between kernels is in one file"

# each counter, and how it is spelt
is "$(sed -n 's/^\tX([A-Z_]*, "\([a-z_]*\)").*/\1/p' drivers/infiniband/sw/sroce/stats.h |
      grep -vxFf <(grep -o '[a-z_]*' Documentation/sroce.7))" "" "the manual page has all counters"

# each lock of its tables, by the name that it has
is "$(grep -oE '\b([a-z]+->)?([a-z]+_)*(lock|mutex|sem)\b' Documentation/architecture.rst | sed 's/.*->//' | sort -u |
      while read -r lock; do
		grep -qrwE "(spinlock_t|rwlock_t|struct mutex|struct rw_semaphore|DEFINE_[A-Z_]*\() *$lock" \
			drivers/infiniband/sw/sroce || echo "$lock"
      done)" "mmap_lock" "Documentation/architecture.rst has the locks that there are, and one of mm"

# A comment that says what a function returns, and what each parameter and member is
doc=$(find "${LAB_KERNEL:-build/uml}/src/tools/docs/kernel-doc" build/uml/src/tools/docs/kernel-doc 2>/dev/null | head -n 1)
if [ -n "$doc" ] && command -v python3 >/dev/null; then
	silent "kernel-doc" "$doc" -none -Wall drivers/infiniband/sw/sroce/{,wire/}*.[ch]
else
	skip "kernel-doc" "needs python3 and the source of a kernel that has tools/docs/kernel-doc"
fi

# What the kernel copies out to a program has no holes, which nobody would fill in.
silent "the interface's structures have no holes" \
	gcc -std=gnu11 -Wpadded -Werror -fsyntax-only -xc include/uapi/rdma/sroce-abi.h

for lack in 64BIT PCI INFINIBAND_USER_ACCESS; do
	refused "a kernel with CONFIG_$lack=" "sroce cannot work in this kernel, which would need CONFIG_$lack=y" \
		module "CONFIG_$lack="
done
refused "a kernel before 6.1" "sroce needs Linux 6.1 or newer, and this is 6.0" module VERSION=6 PATCHLEVEL=0

# What is built goes into folders that somebody names, and that may be emptied for it.
theirs=$TMP/theirs
mkdir -p "$theirs/include" "$TMP/core"
: >"$TMP/core/CMakeLists.txt"
echo theirs | tee "$theirs/file" >"$theirs/include/verbs.h"
refused "the module in a folder of others' files" "has files that were not built here" module BUILD="$theirs"
refused "its test in one" "has files that were not built here" make -s kverbs BUILD="$theirs"
refused "the provider's headers in one" "has files that were not put there" \
	make -s -C tools/provider OUT="$theirs" RDMA_CORE="$TMP/core"
# (where it is not refused, it is made)
refused "a kernel in one" "has files, and no kernel" timeout 60 tools/lab/linux uml "$theirs"
make -s -C tools/provider clean OUT="$theirs" >/dev/null
is "$(cd "$theirs" && find . -type f -exec cat {} + | sort -u; find "$theirs" | wc -l)" "theirs
4" "they are all there"
done_testing
