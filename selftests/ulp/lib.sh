# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
#
# What the tests of the kernel's consumers share. They are on two machines, as
# most consumers know the initial namespace alone: b serves, a uses what it serves.
#
#	. "$(dirname "$0")/lib.sh"

. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

rounds=$([ -n "$LONG" ] && echo 20 || echo 1)

# Both machines look for what either needs: if one skips, the other does.
ulp_needs() { # "MODULE..." PROGRAM...
	local m

	for m in $1; do
		probe -n "$m" || skip_all "no $m in this kernel"
	done
	need "${@:2}"
}

configfs_up() {
	probe configfs
	mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config ||
		bail "cannot mount configfs"
}

# A value into an attribute.
put() { # VALUE FILE
	echo "$1" >"$2" || bail "cannot write '$1' to $2"
}

# A disk of the machine's memory: /dev/ram0.
ram_disk() { # MIB
	modprobe ${MODULES:+-d "$MODULES"} brd rd_nr=1 rd_size=$(($1 * 1024)) || bail "no ram disk"
	wait_for 20 [ -b /dev/ram0 ] || bail "there is no /dev/ram0"
}

# Files to be copied: many small ones, and a large one.
tree_make() { # DIRECTORY
	mkdir -p "$1" && cp -r "$REPO/drivers" "$REPO/Documentation" "$1" &&
		head -c $((rounds * 4))M /dev/urandom >"$1/large" || bail "cannot make files"
	[ -z "$LONG" ] || cp -r /usr/share/doc "$1" || bail "cannot make files"
}

# What is in all files of a directory, as one hash.
tree_sum() { # DIRECTORY
	(cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum)
}

# The page cache gone, so that what is read comes from where it is.
forget_pages() {
	sync
	echo 3 >/proc/sys/vm/drop_caches
}

# Random writes of a device or file, and each block read again and compared.
verify() { # FILE MIB [OPTIONS...]
	timeout 900 fio --name=verify --filename="$1" --size="$2m" --ioengine=libaio \
		--direct=1 --iodepth=8 --rw=randwrite --bsrange=512-256k --verify=crc32c \
		--verify_backlog=32 --verify_fatal=1 --randseed=1 --loops="$rounds" \
		"${@:3}"
}

# A disk with files on it.
file_system() { # DEVICE
	local want

	run "a file system is made" mkfs.ext4 -q -E lazy_itable_init=0 "$1"
	mkdir -p "$TMP/mnt" "$TMP/tree"
	mount "$1" "$TMP/mnt" || bail "cannot mount it"
	defer "umount $TMP/mnt"
	tree_make "$TMP/tree"
	want=$(tree_sum "$TMP/tree")
	run "files are copied" cp -r "$TMP/tree" "$TMP/mnt"
	forget_pages
	is "$(tree_sum "$TMP/mnt/tree")" "$want" "and are what they were"
	umount "$TMP/mnt"
	run "the file system is sound" fsck.ext4 -fn "$1"
}

# How many regions of a kernel consumer's a link has.
regions_of() { # LINK NAME
	rdma resource show mr | grep -c "^dev $1 .*\[$2"
}

rx_bytes() {
	hw_counter "$me" rx_bytes
}

busier() { # BYTES
	[ "$(rx_bytes)" -gt "$1" ]
}

# A disk of another machine's: what is read is what was written, by regions and the link.
disk() { # DEVICE MIB CONSUMER
	local before

	wait_for 60 [ -b "$1" ] || bail "there is no $1"
	is "$(blockdev --getsize64 "$1")" $(($2 << 20)) "its size"
	between "$(regions_of "$me" "$3")" 1 100000 "it has regions"
	before=$(rx_bytes)
	run "what is read is what was written" verify "$1" "$2"
	between $(($(rx_bytes) - before)) $(($2 << 20)) 100000000000 "by way of the link"
}

# Until much more has come than goes without saying.
busy() {
	wait_for 60 busier $(($(rx_bytes) + 1000000))
}

# While a disk is read and written, the other host lets us down; it is told when to come back.
outage() { # NAME STEP DEVICE MIB COMMAND that says whether we are connected...
	local name=$1 step=$2 fio

	verify "$3" "$4" >"$TMP/fio" 2>&1 &
	fio=$!
	shift 4
	busy
	meet "$step"
	wait_for 120 not "$@" && ok "$name: it is noticed" || not_ok "$name: it is noticed"
	meet "$step-noticed" 240
	wait_for 240 "$@" && ok "$name: connected again" || not_ok "$name: connected again"
	run "$name: what is read is what was written" wait_fio $fio
}

wait_fio() { # PID
	wait_pid 300 "$1" || { cat "$TMP/fio"; return 1; }
}

# The link goes under its consumer, and the module after it.
link_goes() {
	run "the link is deleted under its consumer" timeout 120 rdma link del "$me"
	[ "$TYPE" != sroce ] || run "the module can be unloaded" wait_for 60 rmmod sroce
}

# The module goes with its link under its consumer, which is no reason to say less to its peer.
module_goes() {
	[ "$TYPE" = sroce ] || { link_goes; return; }
	run "the module is unloaded under its consumer" timeout 120 rmmod sroce
	is "$(links_here)" "" "and its link goes with it"
}

# Requests to disconnect that the CM has had
goodbyes() {
	cat "/sys/class/infiniband/$me/ports/1/cm_rx_msgs/dreq"
}

more_goodbyes() { # THAN
	[ "$(goodbyes)" -gt "$1" ]
}
