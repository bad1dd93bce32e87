#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# fio's rdma engine: its own protocol of WRITEs, READs and SENDs between two fios.
# lab: apart
# lab: timeout 900

. "$(dirname "$0")/../lib.sh"

need fio
fio --enghelp 2>/dev/null | grep -qw rdma || skip_all "this fio has no rdma engine"
cm_hosts

engine() { # VERB
	local common=(--ioengine=rdma --port=8888 --bs=64k --size=8m --iodepth=8 --output-format=terse)

	pair 8888 fio --name=server "${common[@]}" --rw=read -- \
		fio --name=client "${common[@]}" --hostname=192.168.77.2 --verb="$1" --rw=write
}

for verb in write read send; do
	before=$(($(hw_counter roce1 rx_bytes) + $(hw_counter roce0 rx_bytes)))
	run "fio, verb $verb" engine $verb
	between $(($(hw_counter roce1 rx_bytes) + $(hw_counter roce0 rx_bytes) - before)) 8388608 20000000 \
		"$verb: bytes that came"
done
done_testing
