#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# A provider and a libibverbs of different releases and of one private ABI, whose layouts differ:
# a build says so, and a library that was there before refuses the devices.
set -eu -o pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
out=${OUT:-$root/build/provider}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mk=(make -s --no-print-directory -f "$root/tools/provider/Makefile")
n=0

ok() { # CONDITION... NAME
	local name=${*: -1}

	n=$((n + 1))
	if "${@:1:$#-1}"; then
		echo "ok $n - $name"
	else
		echo "not ok $n - $name"
	fi
}

# libibverbs.so.1 as far as the build looks at it
library() { # FILE SYMBOL...
	local file=$1 s

	shift
	: >"$tmp/l.c"
	for s; do
		echo "int $s(void) { return 0; }" >>"$tmp/l.c"
	done
	printf 'V { global: *; };\n' >"$tmp/l.map"
	cc -shared -fPIC -Wl,--version-script="$tmp/l.map" -o "$file" "$tmp/l.c"
}

sources() { # DIR RELEASE ABI
	mkdir "$1"
	printf 'set(PACKAGE_VERSION "%s")\nset(IBVERBS_PABI_VERSION "%s")\n' "$2" "$3" >"$1/CMakeLists.txt"
}

agrees() { # LIBRARY SOURCES
	"${mk[@]}" agrees IBVERBS="$tmp/$1" RDMA_CORE="$tmp/$2" OUT="$tmp/out" 2>"$tmp/said"
}

refused() { # LIBRARY SOURCES WORDS
	! agrees "$1" "$2" && grep -q "$3" "$tmp/said"
}

library "$tmp/libibverbs.so.1.15.60.0" verbs_register_driver_59
library "$tmp/libibverbs.so.1.16.62.0" verbs_register_driver_59 ibv_query_port_speed
library "$tmp/libibverbs.so.1.17.64.0" verbs_register_driver_64 ibv_query_port_speed
for v in 59.1:59 60.0:59 62.0:59 63.1:59 64.0:64; do
	sources "$tmp/${v%%.*}" "${v%:*}" "${v#*:}"
done
ok agrees libibverbs.so.1.15.60.0 60 "60's library and headers"
ok agrees libibverbs.so.1.15.60.0 59 "60's library and 59's headers, of one layout"
ok agrees libibverbs.so.1.16.62.0 63 "62's library and 63's headers, of another"
ok refused libibverbs.so.1.16.62.0 60 "is of rdma-core 62 or later" "62's library and 60's headers: not built"
ok refused libibverbs.so.1.15.60.0 62 "is of rdma-core 61 or before" "60's library and 62's headers: not built"
ok refused libibverbs.so.1.17.64.0 62 "is of private ABI 64" "64's library and 62's headers: not built"
ok test "$("${mk[@]}" release IBVERBS="$tmp/libibverbs.so.1.16.62.0")" = 62 "a library's release is in its name"

# The headers that were fetched are another release's when the machine's has become that.
repo=$tmp/repo
mkdir -p "$repo/tools/provider" "$repo/build/dl"
cp "$root/tools/provider/"{fetch-headers,Makefile} "$repo/tools/provider/"
for v in 60.0 62.0; do
	d=$tmp/rdma-core-$v
	sources "$d" "$v" 59
	mkdir -p "$d"/{buildlib,libibverbs,util,ccan,kernel-headers/rdma}
	touch "$d"/{buildlib/make_abi_structs.py,COPYING.MIT} "$d"/{libibverbs,util,ccan,kernel-headers/rdma}/a.h
	tar -C "$tmp" -c -z -f "$repo/build/dl/rdma-core_$v.orig.tar.gz" "rdma-core-$v"
done
fetched() { # LIBRARY: which release's headers there are
	IBVERBS=$tmp/$1 "$repo/tools/provider/fetch-headers" 2>/dev/null
	sed -n 's/^set.PACKAGE_VERSION "\(.*\)".*/\1/p' "$repo/build/rdma-core/CMakeLists.txt"
}
ok test "$(fetched libibverbs.so.1.15.60.0)" = 60.0 "with 60, its headers are fetched"
touch "$repo/build/rdma-core/mark"
ok test "$(fetched libibverbs.so.1.15.60.0)" = 60.0 -a -e "$repo/build/rdma-core/mark" "and kept"
ok test "$(fetched libibverbs.so.1.16.62.0)" = 62.0 "with 62, its own"
rm "$repo/build/rdma-core/.fetched"
ok test "$(fetched libibverbs.so.1.15.60.0)" = 62.0 "what somebody put there stays"

# What was built for 59 to 61 is of no use when 62 has come, and `make install` builds it again.
mkdir "$tmp/out"
fits() { # LIBRARY
	"${mk[@]}" fits IBVERBS="$tmp/$1" OUT="$tmp/out"
}
refused_to_fit() {
	! fits "$1" 2>/dev/null
}
library "$tmp/out/libsroce-rdmav59.so" sroce
ok fits libibverbs.so.1.15.60.0 "built for 60, with 60"
ok refused_to_fit libibverbs.so.1.16.62.0 "built for 60, with 62: to be built again"

# The library itself, in a program that is its libibverbs
"${mk[@]}" OUT="$out" >&2
abi=$(sed -n 's/^#define IBVERBS_PABI_VERSION //p' "$out/include/config.h")
if [ "$(sed -n 's/^#define RDMA_CORE_VERSION //p' "$out/include/config.h")" -lt 62 ]; then
	cat >"$tmp/open.c" <<-EOT
	#include <dlfcn.h>
	#include <stdio.h>
	#include <infiniband/driver.h>

	static const struct verbs_device_ops *ops;

	void verbs_register_driver_$abi(const struct verbs_device_ops *o);
	void verbs_register_driver_$abi(const struct verbs_device_ops *o)
	{
		ops = o;
	}
	#ifdef LATER
	int ibv_query_port_speed(void);
	int ibv_query_port_speed(void)
	{
		return 0;
	}
	#endif

	int main(int argc, char **argv)
	{
		if (!dlopen(argv[1], RTLD_NOW)) {
			fprintf(stderr, "%s\n", dlerror());
			return 2;
		}
		if (!ops)
			return 3;
		return !ops->alloc_device(NULL);
	}
	EOT
	lib=$out/libsroce-rdmav$abi.so
	cc -D_GNU_SOURCE -I "$out/include" -rdynamic -o "$tmp/same" "$tmp/open.c" -ldl
	cc -D_GNU_SOURCE -I "$out/include" -rdynamic -DLATER -o "$tmp/later" "$tmp/open.c" -ldl
	status() {
		[ "$2" = "$("$tmp/$1" "$lib" 2>"$tmp/said" || echo $?)" ]
	}
	ok status same "" "a device, with the libibverbs that it was built for"
	ok status later 1 "none with that of 62"
	ok grep -q "make install" "$tmp/said" "and it says what to do"
else
	for what in "a device" none said; do
		ok true "$what # SKIP this libibverbs is of 62 or later"
	done
fi
echo "1..$n"
