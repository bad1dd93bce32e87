#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# lab: timeout 900
#
# What make install and install-dkms put where, that DKMS can build from it, and that
# uninstall leaves nothing of it.

. "$(dirname "$0")/../lib.sh"
need make cc
cd "$REPO" || bail "no $REPO"
[ ! -d "${LAB_KERNEL:-}/obj" ] || skip_all "nobody installs for this kernel"

d=$TMP/root
kdir=$(make help | sed -n 's/^ *KDIR=//p')
rel=$(sed -n 's/.*UTS_RELEASE "\(.*\)"/\1/p' "$kdir/include/generated/utsrelease.h")
[ -n "$rel" ] || skip_all "no kernel headers"

quiet() { # MAKE ARGS
	make -s "$@" DESTDIR="$d" KDIR="$kdir" >"$TMP/log" 2>&1 || { sed 's/^/# /' "$TMP/log"; return 1; }
}

files() {
	(cd "$d" && find . -type f | sort)
}

# An older kernel's, from before an upgrade
old=$d/lib/modules/6.1.0-1-amd64/updates/sroce.ko

quiet install
is $? 0 "make install"
cmp "build/$rel/sroce.ko" "$d/lib/modules/$rel/updates/sroce.ko"
is $? 0 "the module is the one that was built"
abi=$(make -s -C tools/provider abi)
lib=$d/usr/lib/$(cc -print-multiarch)/libibverbs/libsroce-rdmav$abi.so
cmp "build/provider/libsroce-rdmav$abi.so" "$lib"
is $? 0 "the library has the name that this libibverbs looks for"
is "$(grep -v '^#' "$d/etc/libibverbs.d/sroce.driver")" "driver sroce" "and libibverbs is told of it"
is "$(files | grep -c man7/sroce.7)" 1 "the manual page"
install -D -m 644 /dev/null "$old"
quiet uninstall
is $? 0 "make uninstall"
is "$(files)" "" "nothing is left, of an older kernel either"

quiet install-dkms
is $? 0 "make install-dkms, below DESTDIR"
is "$(files | grep -c '/sroce\.ko$')" 0 "no module of one kernel"
is "$(files | sed -n 's,.*/LICENSES/,,p')" "$(cd LICENSES && find . -type f | sed 's,^\./,,' | sort)" "with every licence"
quiet uninstall
is "$(files)" "" "nothing is left of that"

# As on a machine: DKMS builds it. Its trees are ours, and so is where it keeps its key.
dkms="dkms --sourcetree $d/src --dkmstree $d/tree --installtree $d/mods --no-depmod"
with_dkms() { # TARGET
	# shellcheck disable=SC2016 # that shell's
	unshare --mount --propagation private sh -c 'mount -t tmpfs none /var/lib/dkms && exec make -s "$@"' - "$1" \
		DKMS="$dkms" DEPMOD=true KDIR="$kdir" srcdir="$d/src" moddir="$d/mods" libdir="$d/lib" sysconfdir="$d/etc" \
		mandir="$d/man" >"$TMP/log" 2>&1 || { sed 's/^/# /' "$TMP/log"; return 1; }
}
ko=$d/mods/$rel/updates/dkms/sroce.ko
modules_there() {
	(cd "$d/mods" && find . -name 'sroce.ko*' | sed 's/\.[gx]z$\|\.zst$//' | sort)
}
if ! command -v dkms >/dev/null; then
	skip "DKMS builds it" "needs dkms"
elif [ "$(id -u)" != 0 ]; then
	skip "DKMS builds it" "needs root, not to write a key of its own into this system"
else
	# the kernel's own, or there is none to install for
	mkdir -p "$d/tree" "$d/src" "$d/mods/$rel"
	# where dkms 3.2 looks for headers
	ln -s "$kdir" "$d/mods/$rel/build"
	# and there are modules already, which modprobe could take instead
	install -D -m 644 /dev/null "$d/mods/6.1.0-1-amd64/updates/sroce.ko"
	with_dkms install && with_dkms install-dkms
	is $? 0 "make install, and then install-dkms"
	is "$(modules_there)" "./$rel/updates/dkms/sroce.ko" "the module is DKMS's alone"
	is "$(modinfo -F vermagic "$ko"* 2>/dev/null)" "$(modinfo -F vermagic "build/$rel/sroce.ko")" \
		"DKMS has built and installed it for $rel"
	is "$(modinfo -F alias "$ko"* 2>/dev/null)" "rdma-link-sroce" "and rdma link add finds it"
	is "sroce/$(modinfo -F version "$ko"* 2>/dev/null)" "$($dkms status sroce | cut -d, -f1)" "by its own version"
	cp -r "$d/src/." "$TMP/src"
	with_dkms install
	is $? 0 "make install, after that"
	is "$(modules_there)" "./$rel/updates/sroce.ko" "the module is that one alone"
	cmp "build/$rel/sroce.ko" "$d/mods/$rel/updates/sroce.ko"
	is $? 0 "as it was built"
	is "$($dkms status sroce)" "" "and DKMS has none that it would install with the next kernel"
	cp -r "$TMP/src/." "$d/src"
	$dkms add "sroce/$(modinfo -F version "build/$rel/sroce.ko")" >/dev/null
	with_dkms uninstall
	is $? 0 "make uninstall, with both kinds"
	is "$($dkms status sroce)" "" "DKMS has none"
	is "$(files | grep sroce)" "" "nothing is left of that, either"
fi
done_testing
