#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# iSCSI over RDMA: b's disk (ib_isert), a file system on it in a (ib_iser, with iscsid), and
# what comes of it when the target goes for a while; and the links go while it is read and
# written.
# lab: pair
# lab: apart
# lab: timeout 1200

. "$(dirname "$0")/lib.sh"

ulp_needs "ext4 target_core_mod iscsi_target_mod ib_isert ib_iser sd_mod" \
	fio mkfs.ext4 iscsid iscsiadm
# The target reads and writes by regions as well: by default it needs none.
[ "${LAB_HOST:-}" != b ] || modprobe ${MODULES:+-d "$MODULES"} -q ib_core force_mr=1
machines_up

iqn=iqn.2000-01.test.sroce:disk
mib=16
target=/sys/kernel/config/target
tpg=$target/iscsi/$iqn/tpgt_1
session=/sys/class/iscsi_session/session1

serve() {
	local disk=$target/core/rd_mcp_0/disk

	probe target_core_mod iscsi_target_mod ib_isert
	configfs_up
	mkdir -p $disk $target/iscsi || bail "no target"
	put rd_pages=$((mib << 8)) $disk/control
	put 1 $disk/enable
	mkdir -p $tpg/lun/lun_0 $tpg/np/$own:3260 || bail "no target port"
	ln -s $disk $tpg/lun/lun_0/disk
	# whoever comes may write
	put 0 $tpg/attrib/authentication
	put 1 $tpg/attrib/generate_node_acls
	put 0 $tpg/attrib/demo_mode_write_protect
	put 1 $tpg/np/$own:3260/iser
	put 1 $tpg/enable
}

node() { # OPTIONS...
	timeout 300 iscsiadm -m node -T $iqn -p $other:3260 -I iser "$@"
}

setting() { # NAME VALUE
	node -o update -n "$1" -v "$2" >"$TMP/setting" 2>&1 || bail "$1: $(cat "$TMP/setting")"
}

state_is() { # STATE
	[ "$(cat $session/state)" = "$1" ]
}

log_in() {
	wait_for 60 [ -s /etc/iscsi/initiatorname.iscsi ] && iscsid || bail "no iscsid"
	defer "iscsiadm -k 0"
	run "the target is known" node -o new || bail "nothing to test"
	# a machine may be slow
	setting 'node.conn[0].timeo.login_timeout' 60
	setting 'node.conn[0].timeo.noop_out_timeout' 30
	setting node.session.timeo.replacement_timeout 600
	run "logged in" node --login || bail "nothing to test"
}

use() {
	local fio

	probe sd_mod ib_iser
	meet served 300
	log_in
	disk /dev/sda $mib ib_iser
	meet verified
	file_system /dev/sda
	outage "the target goes" target /dev/sda $mib state_is LOGGED_IN
	verify /dev/sda $mib --time_based --runtime=600 >"$TMP/fio" 2>&1 &
	fio=$!
	busy
	# what is under way then does not wait for a target to come back
	put 1 $session/recovery_tmo
	meet used 900
	link_goes
	wait_pid 120 $fio
	between $? 1 123 "what was under way has failed" || cat "$TMP/fio"
	run "logged out" node --logout
	wait_for 60 not [ -e /dev/sda ] && ok "no disk is left" || not_ok "no disk is left"
}

host_b() {
	serve
	meet served
	meet verified 300
	between "$(regions_of $me ib_isert)" 1 10000 "the target has regions"
	meet target 900
	put 0 $tpg/enable
	meet target-noticed 240
	put 1 $tpg/enable
	meet used 900
	link_goes
}

case $LAB_HOST in
a) use ;;
b) host_b ;;
esac
done_testing
