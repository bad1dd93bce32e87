#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# perftest between sroce and rdma_rxe, either as the server, with what rdma_rxe
# can do.
# lab: apart
# lab: timeout 1500

# shellcheck disable=SC2086 # lists, and nothing that could be split

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
	# the client asks for as many READs as its own device can have, rdma_rxe's has less
	for p in send write "read -o 16"; do
		prog=ib_${p%% *}_bw args=${p#"${p%% *}"}
		run "$name: $prog, both directions" perf $prog $args -b -s 3000 -n $n
		run "$name: $prog, 16 queue pairs" perf $prog $args -q 16 -s 3000 -n $n
		[ "$p" = write ] || run "$name: $prog, events" perf $prog $args -e -s 3000 -n $n
	done
	run "$name: ib_read_bw" perf ib_read_bw -o 16 -s 16384 -n $n
	run "$name: ib_read_lat" perf ib_read_lat -o 16 -s 64 -n $n
	for op in CMP_AND_SWAP FETCH_AND_ADD; do
		run "$name: ib_atomic_bw $op" perf ib_atomic_bw -o 16 -A $op -n $n
		run "$name: ib_atomic_lat $op" perf ib_atomic_lat -o 16 -A $op -n $n
	done
done
done_testing
