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

module() { # ARGS...
	make -s modules BUILD="$TMP/module" "${kdir[@]}" "$@"
}

# The command succeeds and says nothing, but for what is being done and for what no
# module can help.
silent() { # NAME COMMAND...
	local name=$1 out rc

	shift
	out=$("$@" 2>&1 </dev/null | grep -v -e "^  [A-Z][A-Z]* " -e "^Skipping BTF"; exit "${PIPESTATUS[0]}")
	rc=$?
	[ $rc != 0 ] || [ -n "$out" ] || { ok "$name"; return; }
	not_ok "$name"
	diag "status $rc"
	diag "$(head -n 40 <<<"$out")"
}
