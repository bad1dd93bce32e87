#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# lab: timeout 1800
# lab: apart
#
# What compilers say of the module, the provider and the tests' programs: nothing; of the
# module at W=1, and sparse with its endian checks.

. "$(dirname "$0")/static.sh"

if command -v sparse >/dev/null; then
	silent "the module at W=1, with sparse" sparsely
	looks
else
	silent "the module at W=1" module W=1
	skip "with sparse" "needs sparse"
fi
# Kernels of one version differ in what two of their functions take, a socket or its sock.
for takes in "socket socket" "sock socket" "sock sock"; do
	read -r setup release <<<"$takes"
	cat >"$TMP/takes.h" <<-EOT
	#define setup_udp_tunnel_sock this_kernels_setup
	#define udp_tunnel_sock_release this_kernels_release
	#include <net/udp_tunnel.h>
	#undef setup_udp_tunnel_sock
	#undef udp_tunnel_sock_release
	void setup_udp_tunnel_sock(struct net *net, struct $setup *sock, struct udp_tunnel_sock_cfg *cfg);
	void udp_tunnel_sock_release(struct $release *sock);
	EOT
	silent "a kernel where a tunnel is set up by its $setup, and released by its $release" \
		module OBJECT=net.o KCFLAGS="-include $TMP/takes.h"
done
silent "the provider" make -s -C tools/provider OUT="$TMP/provider"
silent "the tests' programs" make -s -C selftests O="$TMP/selftests"
done_testing
