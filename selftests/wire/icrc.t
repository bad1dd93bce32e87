#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The ICRC against vectors.txt, which is checked to be what scapy computes
# today where scapy is installed.

. "$(dirname "$0")/wire.sh"

# Debian's package; a python3 that comes earlier in PATH may be without it
find_scapy() {
	local py

	for py in /usr/bin/python3 python3; do
		"$py" -c 'import scapy.contrib.roce' 2>/dev/null || continue
		echo "$py"
		return
	done
}

again=
py=$(find_scapy)
if [ -n "$py" ]; then
	mkdir -p "$OUT" || bail "cannot make $OUT"
	again=$OUT/vectors.$$
	trap 'rm -f "$again"' EXIT
	# what it complains of stands in the file, and makes a difference
	"$py" "$HERE/vectors.py" >"$again" 2>&1
fi

run_test icrc "$HERE/vectors.txt" ${again:+"$again"}
