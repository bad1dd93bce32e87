# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
#
# What the tests share that read the source: they run for the kernel that is tested.

# shellcheck source=selftests/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

need make gcc
cd "$REPO" || bail "no $REPO"

kdir=()
[ ! -d "${LAB_KERNEL:-}/obj" ] || kdir=("KDIR=$(realpath "$LAB_KERNEL/obj")" ARCH=um)
[ "${LAB_KERNEL:-}" != bookworm-rt ] || kdir=("KDIR=/usr/src/linux-headers-$(tools/lab/kernel "$LAB_KERNEL")")

# That sparse is wanted. C=2 would have the kernel ask whether it will do, by a script that is not
# among Debian's headers; build.t has a fault found instead.
checked=(KBUILD_CHECKSRC=2)
# Before 0.6.5 it did not know two things that kernels have in their headers by now.
if echo 'extern int a; static __typeof_unqual__(a) b;' | sparse - 2>&1 | grep -q error; then
	checked+=("CF=-D__typeof_unqual__=__typeof__ '-D__builtin_strlen(s)=(sizeof(s) - 1)'")
fi

module() { # ARGS...
	make -s modules BUILD="$TMP/module" "${kdir[@]}" "$@"
}

sparsely() { # ARGS...
	module W=1 "${checked[@]}" "$@"
}

# The command succeeds and says nothing, but for what is being done and for what no
# module can help.
silent() { # NAME COMMAND...
	local name=$1 out rc

	shift
	out=$("$@" 2>&1 </dev/null | grep -v -e "^  [A-Z][A-Z]* " -e "^Skipping BTF" \
		-e "/checker-valid.sh: No such file" -e "C=2 specified, but"; exit "${PIPESTATUS[0]}")
	rc=$?
	[ $rc != 0 ] || [ -n "$out" ] || { ok "$name"; return; }
	not_ok "$name"
	diag "status $rc"
	diag "$(head -n 40 <<<"$out")"
}

# And sparse has looked: what is wrong on purpose, it finds.
looks() { # ARGS...
	like "$(make -s wrong BUILD="$TMP/module" "${kdir[@]}" "${checked[@]}" "$@" 2>&1)" \
		"wrong.c:[0-9:]*: .*restricted __be32" "sparse finds what is wrong"
}
