#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# RDMA CM between sroce and rdma_rxe, either of them listening.
# lab: apart
# lab: timeout 900

. "$(dirname "$0")/../lib.sh"

need rping ucmatose ss
probe rdma_ucm || skip_all "no rdma_ucm in this kernel"
rxe_up

perftest() { # TOOL ARGS...
	cm_perftest "$server_link" "$client_link" $ip "$@"
}

both() { # WHO-LISTENS
	run "$1 listens at $ip: rping" pair 7174 rping -s -a $ip -C 50 -S 5000 -- rping -c -a $ip -C 50 -S 5000 -V
	run "$1 listens at $ip: ucmatose" pair 7471 ucmatose -b $ip -c 5 -C 20 -S 3000 -- \
		ucmatose -s $ip -c 5 -C 20 -S 3000
	[[ $ip != *:* ]] || return
	command -v ib_send_bw >/dev/null || { skip "perftest -R" "no perftest"; return; }
	run "$1 listens: ib_send_bw -R" perftest ib_send_bw -n 200 -s 8192
	run "$1 listens: ib_write_bw -R" perftest ib_write_bw -n 200 -s 8192
	run "$1 listens: ib_read_lat -R" perftest ib_read_lat -n 100
}

for ip in 192.168.77.2 fd77::2; do
	cm_server=b cm_client=- server_link=roce1 client_link=roce0
	both sroce
done
for ip in 192.168.77.1 fd77::1; do
	cm_server=- cm_client=b server_link=roce0 client_link=roce1
	both rdma_rxe
done
done_testing
