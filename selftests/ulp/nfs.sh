#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# NFS over RDMA: b's kernel serves (nfsd), a mounts it with rdma (rpcrdma).
# lab: pair
# lab: apart
# lab: timeout 1200

. "$(dirname "$0")/lib.sh"

ulp_needs "brd ext4 nfsd nfsv4 rpcrdma" fio mkfs.ext4 rpc.nfsd exportfs rpc.mountd mount.nfs4
machines_up
export PATH=$PATH:/usr/sbin

# As root of version 4 alone, which needs neither portmapper nor lock daemon.
serve() {
	probe nfsd rpcrdma
	ram_disk $((rounds * 8 + 24))
	mkdir -p /srv/export /var/lib/nfs/v4recovery
	mkfs.ext4 -q /dev/ram0 && mount /dev/ram0 /srv/export || bail "no file system to export"
	mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd || bail "no nfsd"
	touch /var/lib/nfs/etab /var/lib/nfs/rmtab
	run "exported" exportfs -o rw,no_root_squash,insecure,fsid=0,no_subtree_check "*:/srv/export"
	rpc.mountd -N 2 -N 3 || bail "no mountd"
	run "nfsd serves" rpc.nfsd --no-nfs-version 3 --no-udp --rdma=20049 4
	like "$(cat /proc/fs/nfsd/portlist)" "rdma 20049" "by RDMA"
	# nobody was here before, to reclaim what it had
	echo Y >/proc/fs/nfsd/v4_end_grace
}

mounted() {
	mount -t nfs4 -o rdma,port=20049,timeo=100 $other:/ "$TMP/mnt"
}

use() {
	local want before

	probe nfsv4 rpcrdma
	mkdir -p "$TMP/mnt" "$TMP/tree"
	meet served 300
	run "mounted" mounted || bail "nothing to test"
	defer "umount -f -l $TMP/mnt"
	like "$(grep " $TMP/mnt " /proc/mounts)" "proto=rdma" "by RDMA"
	tree_make "$TMP/tree"
	want=$(tree_sum "$TMP/tree")
	before=$(rx_bytes)
	run "files are copied" cp -r "$TMP/tree" "$TMP/mnt"
	forget_pages
	is "$(tree_sum "$TMP/mnt/tree")" "$want" "and are what they were"
	run "what is read is what was written" verify "$TMP/mnt/fio" $((rounds * 4))
	between $(($(rx_bytes) - before)) $((rounds * 8000000)) 100000000000 "by way of the link"
	between "$(regions_of $me rpcrdma)" 1 10000 "it has regions"
	echo "$want" >"$OUT/nfs.sum"
	meet copied 600
	meet compared 300
	run "unmounted" umount "$TMP/mnt"
	meet unmounted
	link_goes
}

host_b() {
	serve
	meet served
	meet copied 900
	is "$(tree_sum /srv/export/tree)" "$(cat "$OUT/nfs.sum")" "the server has the same"
	rm -f "$OUT/nfs.sum"
	meet compared
	meet unmounted 300
	rpc.nfsd 0
	umount /srv/export
	link_goes
}

case $LAB_HOST in
a) use ;;
b) host_b ;;
esac
done_testing
