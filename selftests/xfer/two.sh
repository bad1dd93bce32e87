#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Two programs, one on each side, rather than one with both.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

two_hosts xfer

both() { # ARGS...
	local server rc

	in_ns b "$BIN/xfer" -d roce1 -l "$@" >"$TMP/server" 2>&1 &
	server=$!
	in_ns a "$BIN/xfer" -d roce0 -c 192.168.77.2 "$@"
	rc=$?
	wait $server || { rc=1; cat "$TMP/server"; }
	return $rc
}

run "one way" both -n 100
run "both ways, events" both -n 100 -b -e -q 3
run "many small ones" both -n 2000 -s 0-64 -w 64 --signal 16
done_testing
