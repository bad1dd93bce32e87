/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The only place that knows rdma-core's versions: the rest is written for the
 * newest, whose functions of libibverbs' private interface have arguments more.
 * RDMA_CORE_VERSION is that of the headers, by tools/provider/Makefile. What
 * differs between releases of one private interface is found out when a device
 * is opened, sroce_find_qp_ex(), or has it refused, sroce_libibverbs_fits().
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

/*
 * 62: the speed of a port. Its operations stand among the others', and the private interface has
 * kept its number, 59: that libibverbs would load what was built for 59 to 61, and call what lies
 * beside what it means. The other way round there is no ibv_cmd_query_port_speed() to load with.
 */
#if RDMA_CORE_VERSION < 62
#define SROCE_PORT_SPEED
int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *speed)
	__attribute__((weak));
#define sroce_libibverbs_fits() (!ibv_query_port_speed)
#else
#define SROCE_PORT_SPEED .query_port_speed = ibv_cmd_query_port_speed,
#define sroce_libibverbs_fits() true
#endif

/* 64: attributes of the driver's */
#if RDMA_CORE_VERSION < 64
#define ibv_cmd_create_qp_ex2(ctx, qp, attr, cmd, cmd_size, resp, resp_size, drv) \
	ibv_cmd_create_qp_ex2(ctx, qp, attr, cmd, cmd_size, resp, resp_size)
#endif

#endif /* SROCE_PROVIDER_COMPAT_H */
