/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The only place that knows rdma-core's versions: the rest is written for the
 * newest, whose functions of libibverbs' private interface have arguments more.
 * RDMA_CORE_VERSION is that of the headers, by tools/provider/Makefile. What
 * differs between releases of one private interface is found out when a device
 * is opened: sroce_find_qp_ex().
 */
#ifndef SROCE_PROVIDER_COMPAT_H
#define SROCE_PROVIDER_COMPAT_H

#include <infiniband/driver.h>

/* 57: file descriptors of an imported context */
#if RDMA_CORE_VERSION < 57
#define ibv_cmd_get_context(vctx, cmd, cmd_size, fds, resp, resp_size) \
	ibv_cmd_get_context(vctx, cmd, cmd_size, resp, resp_size)
#endif

/* 59: the ring as memory of the provider */
#if RDMA_CORE_VERSION < 59
#define ibv_cmd_create_cq_ex(ctx, attr, mem, cq, cmd, cmd_size, resp, resp_size, flags) \
	ibv_cmd_create_cq_ex(ctx, attr, cq, cmd, cmd_size, resp, resp_size, flags)
#endif

/* 62: the speed of a port */
#if RDMA_CORE_VERSION < 62
#define SROCE_PORT_SPEED
#else
#define SROCE_PORT_SPEED .query_port_speed = ibv_cmd_query_port_speed,
#endif

/* 64: attributes of the driver's */
#if RDMA_CORE_VERSION < 64
#define ibv_cmd_create_qp_ex2(ctx, qp, attr, cmd, cmd_size, resp, resp_size, drv) \
	ibv_cmd_create_qp_ex2(ctx, qp, attr, cmd, cmd_size, resp, resp_size)
#endif

#endif /* SROCE_PROVIDER_COMPAT_H */
