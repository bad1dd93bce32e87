#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# What tools/lab/deps has apt do: install what is missing, and start none of it.

. "$(dirname "$0")/../lib.sh"

need_root
[ -n "${LAB_REPO:-}" ] || skip_all "changes /usr/sbin: only in a VM"
deps=$REPO/tools/lab/deps
policy=/usr/sbin/policy-rc.d
mkdir -p "$TMP/bin"
defer "rm -f $policy"

# A machine that has nothing, and an apt that says what it was asked for and what a
# package's script is told that would start a service.
cat >"$TMP/bin/dpkg-query" <<-EOT
	#!/bin/sh
EOT
cat >"$TMP/bin/apt-get" <<-EOT
	#!/bin/sh
	echo "\$*" >>"$TMP/asked"
	{ $policy nfs-server start; echo \$?; } >>"$TMP/told" 2>&1
	[ ! -e "$TMP/fail" ]
EOT
chmod 755 "$TMP/bin"/*
PATH=$TMP/bin:$PATH

asked() { # GROUP...
	rm -f "$TMP/asked" "$TMP/told"
	"$deps" "$@" >"$TMP/log" 2>&1
}

is "$("$deps" -p | grep -E '^(nfs-kernel-server|rpcbind)$')" "" "what tests need by default is no server"
rm -f "$policy"
asked ulp
is "$? $(cat "$TMP/told")" "0 101" "no service is started"
like "$(cat "$TMP/asked")" "install .*nfs-kernel-server" "of what is installed"
is "$(find "$policy" 2>/dev/null)" "" "and after that they may be"

: >"$TMP/fail"
refused "apt fails: said so" "apt failed" "$deps" ulp
is "$(find "$policy" 2>/dev/null)" "" "they may be after that, too"
rm "$TMP/fail"

# a call that was killed, and nothing is missing any more
printf '#!/bin/sh\n# tools/lab/deps: while it installs\nexit 101\n' >"$policy"
printf '#!/bin/sh\nexec /usr/bin/dpkg-query "$@"\n' >"$TMP/bin/dpkg-query"
"$deps" build >/dev/null 2>&1
is "$(find "$policy" 2>/dev/null)" "" "and after one that was killed"
printf '#!/bin/sh\n' >"$TMP/bin/dpkg-query"

printf '#!/bin/sh\nexit 7\n' >"$policy"
chmod 755 "$policy"
asked ulp
is "$? $(cat "$TMP/told")" "0 7" "a policy of somebody's holds"
is "$(tail -n 1 "$policy")" "exit 7" "and stays"
done_testing
