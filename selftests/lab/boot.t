#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# lab: timeout 600
#
# A VM that stops in the midst of its boot costs a moment, and not the test that is to run.

. "$(dirname "$0")/../lib.sh"

kernel=${LAB_KERNEL:-bookworm}
[ -x "$kernel/linux" ] || command -v qemu-system-x86_64 >/dev/null || skip_all "no qemu in this root"

# with no patience at all, the first one always ends
LAB_PATIENCE=0 "$REPO/tools/lab/vm" -k "$kernel" -- sh -c 'echo up; exit 3' >"$TMP/out" 2>"$TMP/err" </dev/null
is $? 3 "the command's status"
is "$(tr -d "\r" <"$TMP/out")" up "its output, once"
is "$(grep -c "booted anew" "$TMP/err")" 1 "the first VM was ended"
is "$(grep -c "^  BOOT" "$TMP/err")" 2 "and there was another one"
done_testing
