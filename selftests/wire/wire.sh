# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
#
# Builds the tests of drivers/infiniband/sw/sroce/wire/, which calls no kernel
# service: they run on any machine with a C compiler, without root and without
# the module. CC and CLANG name the compilers.

set -u
export LC_ALL=C

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
REPO=$(cd "$HERE/../.." && pwd)
WIRE=$REPO/drivers/infiniband/sw/sroce/wire
OUT=$REPO/build/selftests/wire
CC=${CC:-cc}

SAN="-fsanitize=address,undefined -fno-sanitize-recover=all"
FLAGS="-std=gnu11 -O1 -g -fno-omit-frame-pointer -Wall -Wextra"

# a report is a failure, and says where
export ASAN_OPTIONS=abort_on_error=0:detect_leaks=0
export UBSAN_OPTIONS=print_stacktrace=1

skip_all() { # REASON
	echo "1..0 # SKIP $*"
	exit 4
}

bail() { # REASON
	echo "Bail out! $*"
	exit 1
}

# Two runs may build at once: what is run appears whole.
compile() { # COMPILER OUTPUT ARGS...
	local cc=$1 out=$2

	shift 2
	# shellcheck disable=SC2086 # lists
	"$cc" $FLAGS "$@" -o "$out.$$" && mv "$out.$$" "$out"
}

# A compiler may be there without the libraries of its sanitizers.
need_cc() { # COMPILER FLAGS...
	local cc=$1 probe=$OUT/probe.$$ rc

	shift
	command -v "$cc" >/dev/null || skip_all "needs a C compiler: $cc"
	mkdir -p "$OUT" || bail "cannot make $OUT"
	case $* in
	*fuzzer*)
		echo 'int LLVMFuzzerTestOneInput(const char *p, long n);'
		echo 'int LLVMFuzzerTestOneInput(const char *p, long n) { return p && n < 0; }'
		;;
	*) echo 'int main(void) { return 0; }' ;;
	esac >"$probe.c"
	"$cc" "$@" -o "$probe" "$probe.c" 2>/dev/null
	rc=$?
	rm -f "$probe" "$probe.c"
	[ $rc = 0 ] || skip_all "$cc cannot link with $*"
}

# NAME.c and the files under test, under the sanitizers; then run it.
run_test() { # NAME ARGS...
	local name=$1

	shift
	# shellcheck disable=SC2086 # lists
	need_cc "$CC" $SAN
	# shellcheck disable=SC2086 # lists
	compile "$CC" "$OUT/$name" $SAN -I"$WIRE" -I"$HERE" "$HERE/$name.c" "$WIRE"/*.c ||
		bail "cannot build $name"
	"$OUT/$name" "$@"
}
