#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Open MPI over UCX: a rank in each host; they compare what they sum.
# lab: apart
# lab: timeout 900

. "$(dirname "$0")/../lib.sh"

need mpirun
need_bin allreduce
cm_hosts

# mpirun knows one host, of which each rank moves to its namespace; they find mpirun by the
# address of a, and each other by UCX, which has nothing but the link.
cat >"$TMP/rank" <<-EOT
	#!/bin/sh
	case \$OMPI_COMM_WORLD_RANK in
	0) UCX_NET_DEVICES=roce0:1 exec ip netns exec a "\$@" ;;
	*) UCX_NET_DEVICES=roce1:1 exec ip netns exec b "\$@" ;;
	esac
EOT
chmod 755 "$TMP/rank"

mpi() { # TRANSPORTS COMMAND...
	local tls=$1

	shift
	timeout -k 5 200 ip netns exec a env PMIX_MCA_ptl_tcp_if_include=v0 \
		UCX_TLS="$tls" mpirun --allow-run-as-root --oversubscribe -np 2 --mca pml ucx --mca osc ucx \
		--mca btl ^openib,vader,tcp --mca oob_tcp_if_include v0 "$TMP/rank" "$@"
}

# UCX makes its RC connections by UD.
for tl in rc_verbs,ud_verbs:aux ud_verbs; do
	before=$(hw_counter roce1 rx_bytes)
	run "allreduce of two ranks over $tl" mpi $tl,self "$BIN/allreduce"
	like "$(cat "$TMP/run")" "2 ranks, 0 wrong values" "over $tl: every value is right"
	between $(($(hw_counter roce1 rx_bytes) - before)) 2000000 1000000000 "over $tl: bytes that came by the link"
done
done_testing
