#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# perftest between sroce and rdma_rxe, either as the server, with what rdma_rxe
# can do.
# lab: timeout 400

. "$(dirname "$0")/../lib.sh"

need ib_send_bw ib_atomic_lat ss
need_bin xfer
rxe_up

n=${LONG:+1000}
n=${n:-50}
rxe="- roce0 192.168.77.1" sroce="b roce1 192.168.77.2"
for way in "rxe sroce" "sroce rxe"; do
	case $way in
	rxe*) perf_ends "$rxe" "$sroce" ;;
	*) perf_ends "$sroce" "$rxe" ;;
	esac
	name="${way#* } to ${way% *}"
	for c in RC UC UD; do
		size=$([ $c = UD ] && echo 1000 || echo 16384)
		run "$name: ib_send_bw, $c" perf ib_send_bw -c $c -s $size -n $n
		run "$name: ib_send_lat, $c" perf ib_send_lat -c $c -s 64 -n $n
	done
	for c in RC UC; do
		run "$name: ib_write_bw, $c" perf ib_write_bw -c $c -s 16384 -n $n
		run "$name: ib_write_lat, $c" perf ib_write_lat -c $c -s 64 -n $n
	done
	for p in send write read; do
		run "$name: ib_${p}_bw, both directions" perf ib_${p}_bw -b -s 3000 -n $n
		run "$name: ib_${p}_bw, 16 queue pairs" perf ib_${p}_bw -q 16 -s 3000 -n $n
		run "$name: ib_${p}_bw, events" perf ib_${p}_bw -e -s 3000 -n $n
	done
	run "$name: ib_read_bw" perf ib_read_bw -s 16384 -n $n
	run "$name: ib_read_lat" perf ib_read_lat -s 64 -n $n
	for op in CMP_AND_SWAP FETCH_AND_ADD; do
		run "$name: ib_atomic_bw $op" perf ib_atomic_bw -A $op -n $n
		run "$name: ib_atomic_lat $op" perf ib_atomic_lat -A $op -n $n
	done
done
done_testing
