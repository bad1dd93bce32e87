#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# NVMe over RDMA: b's disk (nvmet_rdma), a file system on it in a (nvme_rdma), and what
# comes of it when the target goes for a while, or the link for good.
# lab: pair
# lab: timeout 1200

. "$(dirname "$0")/lib.sh"

ulp_needs "brd ext4 nvmet nvmet_rdma nvme_rdma" fio mkfs.ext4
# The target reads and writes by regions as well: by default it needs none.
[ "${LAB_HOST:-}" != b ] || modprobe ${MODULES:+-d "$MODULES"} -q ib_core force_mr=1
machines_up

nqn=sroce-test
mib=16
target=/sys/kernel/config/nvmet
ctrl=/sys/class/nvme/nvme0

serve() {
	probe nvmet nvmet_rdma
	configfs_up
	ram_disk $mib
	mkdir -p $target/subsystems/$nqn/namespaces/1 $target/ports/1 || bail "no nvmet"
	put 1 $target/subsystems/$nqn/attr_allow_any_host
	put /dev/ram0 $target/subsystems/$nqn/namespaces/1/device_path
	put 1 $target/subsystems/$nqn/namespaces/1/enable
	put rdma $target/ports/1/addr_trtype
	put ipv4 $target/ports/1/addr_adrfam
	put $own $target/ports/1/addr_traddr
	put 4420 $target/ports/1/addr_trsvcid
	export_port
}

export_port() {
	ln -s $target/subsystems/$nqn $target/ports/1/subsystems/$nqn
}

connect() {
	# keep_alive_tmo: a machine may be slow; short enough for one that is not there
	echo "transport=rdma,traddr=$other,trsvcid=4420,nqn=$nqn,nr_io_queues=2,reconnect_delay=1,keep_alive_tmo=10" \
		>/dev/nvme-fabrics
}

state_is() { # STATE
	[ "$(cat $ctrl/state)" = "$1" ]
}

use() {
	probe nvme_rdma
	meet served
	run "connected" connect
	disk /dev/nvme0n1 $mib nvme
	meet verified
	file_system /dev/nvme0n1
	outage "the target's port goes" port /dev/nvme0n1 $mib state_is live
	[ -z "$LONG" ] || outage "the target's netdev goes" netdev /dev/nvme0n1 $mib state_is live
	meet live 300
	meet used
	module_goes
	meet gone 300
	wait_for 30 not [ -e /dev/nvme0n1 ] && ok "no disk is left" || not_ok "no disk is left"
}

host_b() {
	serve
	meet served
	meet verified 300
	between "$(regions_of $me nvmet)" 1 10000 "the target has regions"
	meet port 600
	rm $target/ports/1/subsystems/$nqn
	meet port-noticed 240
	export_port
	if [ -n "$LONG" ]; then
		meet netdev 600
		ip link set eth0 down
		meet netdev-noticed 240
		ip link set eth0 up
	fi
	meet live 600
	before=$(goodbyes)
	meet used
	meet gone 300
	run "the other host has said goodbye" wait_for 60 more_goodbyes $before
	link_goes
	rm $target/ports/1/subsystems/$nqn
}

case $LAB_HOST in
a) use ;;
b) host_b ;;
esac
done_testing
