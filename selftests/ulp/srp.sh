#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# SCSI over RDMA: b's disk (ib_srpt), a file system on it in a (ib_srp), connected by RDMA CM;
# and the links go while it is read and written.
# lab: pair
# lab: apart
# lab: timeout 1200

. "$(dirname "$0")/lib.sh"

ulp_needs "ext4 target_core_mod ib_srpt ib_srp sd_mod" fio mkfs.ext4
machines_up

port=5555
mib=$((rounds * 16))
target=/sys/kernel/config/target

serve() {
	local disk=$target/core/rd_mcp_0/disk guid tpg acl

	probe target_core_mod ib_srpt
	configfs_up
	guid=$(cat /sys/class/infiniband/$me/node_guid)
	tpg=$target/srpt/$guid/$guid
	# Of a call by RDMA CM ib_srpt looks at route.addr.src_addr, which is where it was called.
	acl=$tpg/acls/$own
	mkdir -p $disk $target/srpt || bail "no target"
	put rd_pages=$((mib << 8)) $disk/control
	put 1 $disk/enable
	put $port $target/srpt/discovery_auth/rdma_cm_port
	mkdir -p "$tpg/lun/lun_0" || bail "no target port $guid"
	ln -s $disk "$tpg/lun/lun_0/disk"
	mkdir "$acl" && mkdir "$acl/lun_0" && ln -s "$tpg/lun/lun_0" "$acl/lun_0/port" ||
		bail "no access by way of $own"
	put 1 "$tpg/enable"
	sed 's/^0x//' /sys/module/ib_srpt/parameters/srpt_service_guid >"$OUT/srp.guid"
}

log_in() {
	local guid

	guid=$(cat "$OUT/srp.guid")
	echo "id_ext=$guid,ioc_guid=$guid,dest=$other:$port,src=$own" \
		>/sys/class/infiniband_srp/srp-$me-1/add_target
}

use() {
	local fio

	probe sd_mod ib_srp
	meet served 300
	run "logged in" log_in
	disk /dev/sda $mib ib_srp
	# srp_remove_target() stops that after scsi_remove_host(), which frees the commands: it would call
	# what was in them for their flushed REG_MRs. A NULL pointer on 6.12, once
	put off /sys/class/srp_remote_ports/port-*/reconnect_delay
	file_system /dev/sda
	verify /dev/sda $mib --time_based --runtime=600 >"$TMP/fio" 2>&1 &
	fio=$!
	busy
	meet used 900
	link_goes
	wait_for 60 not [ -e /dev/sda ] && ok "no disk is left" || not_ok "no disk is left"
	wait_pid 120 $fio
	between $? 1 123 "what was under way has failed" || cat "$TMP/fio"
}

host_b() {
	serve
	meet served
	meet used 900
	rm -f "$OUT/srp.guid"
	link_goes
}

case $LAB_HOST in
a) use ;;
b) host_b ;;
esac
done_testing
