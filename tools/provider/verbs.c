// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The device, its clock, and objects without a ring or memory of their own.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sroce.h"

struct sroce_create_ah_full_resp {
	struct ib_uverbs_create_ah_resp ibv_resp;
	struct sroce_create_ah_resp drv;
};

struct sroce_query_device_full_resp {
	struct ib_uverbs_ex_query_device_resp ibv_resp;
	struct sroce_query_device_resp drv;
};

static_assert(sizeof(struct sroce_query_device_full_resp) ==
	      sizeof(struct ib_uverbs_ex_query_device_resp) +
	      sizeof(struct sroce_query_device_resp) &&
	      sizeof(struct sroce_create_ah_full_resp) ==
	      sizeof(struct ib_uverbs_create_ah_resp) +
	      sizeof(struct sroce_create_ah_resp),
	      "the kernel's answers do not follow each other");

/*
 * What a kernel that has RSS hashes by: that is part of the ABI, and the core's
 * answer has no place for it.
 */
static void sroce_hash_caps(struct ibv_rss_caps *caps)
{
	if (!caps->supported_qpts)
		return;

	caps->rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ;
	caps->rx_hash_fields_mask =
		IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 |
		IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6 |
		IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP |
		IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP;
}

int sroce_query_device(struct ibv_context *ibctx,
		       const struct ibv_query_device_ex_input *input,
		       struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct sroce_query_device_full_resp resp = {};
	size_t resp_size = sizeof(resp);
	uint64_t ver;
	int ret;

	ret = ibv_cmd_query_device_any(ibctx, input, attr, attr_size,
				       &resp.ibv_resp, &resp_size);
	if (ret)
		return ret;

	ver = resp.ibv_resp.base.fw_ver;
	snprintf(attr->orig_attr.fw_ver, sizeof(attr->orig_attr.fw_ver),
		 "%" PRIu64 ".%" PRIu64 ".%" PRIu64,
		 ver >> 32, ver >> 16 & 0xffff, ver & 0xffff);
	/* A program may be older than that part of the answer. */
	if (attr_size >= offsetof(struct ibv_device_attr_ex, rss_caps) +
			 sizeof(attr->rss_caps))
		sroce_hash_caps(&attr->rss_caps);
	if (attr_size >= offsetof(struct ibv_device_attr_ex,
				  packet_pacing_caps) +
			 sizeof(attr->packet_pacing_caps))
		attr->packet_pacing_caps = (struct ibv_packet_pacing_caps) {
			.qp_rate_limit_min = resp.drv.rate_min,
			.qp_rate_limit_max = resp.drv.rate_max,
			.supported_qpts = resp.drv.rate_qpts,
		};
	return 0;
}

int sroce_query_port(struct ibv_context *ibctx, uint8_t port,
		     struct ibv_port_attr *attr)
{
	struct ibv_query_port cmd;

	return ibv_cmd_query_port(ibctx, port, attr, &cmd, sizeof(cmd));
}

/*
 * /proc tells the offsets of the namespace that children will be in. Between
 * unshare() and fork() that is another one than ours, whose it does not tell.
 */
static bool sroce_own_time_ns(void)
{
	char own[64] = "", children[64] = "";
	ssize_t len = readlink("/proc/self/ns/time", own, sizeof(own));

	/* No such link: a kernel without time namespaces, or no /proc. */
	if (len < 0)
		return true;
	return readlink("/proc/self/ns/time_for_children", children,
			sizeof(children)) == len && !memcmp(own, children, len);
}

/**
 * sroce_find_clock - how far is our CLOCK_MONOTONIC from the device's?
 *
 * Completions are stamped by the kernel, with the clock as the initial time
 * namespace has it. Asked once: a process changes its namespace with setns()
 * at most, before it does anything else.
 */
void sroce_find_clock(struct sroce_context *ctx)
{
	long long sec = 0, nsec = 0;
	char name[16];
	FILE *f;

	ctx->no_clock = !sroce_own_time_ns();
	f = fopen("/proc/self/timens_offsets", "re");
	if (!f)
		return;

	while (fscanf(f, "%15s %lld %lld", name, &sec, &nsec) == 3)
		if (!strcmp(name, "monotonic"))
			ctx->clock_offset = sec * 1000000000 + nsec;
	fclose(f);
}

int sroce_query_rt_values(struct ibv_context *ibctx,
			  struct ibv_values_ex *values)
{
	struct sroce_context *ctx = to_sctx(ibctx);
	struct timespec now;
	int64_t ns;

	if (values->comp_mask & ~IBV_VALUES_MASK_RAW_CLOCK)
		return EINVAL;
	if (!values->comp_mask)
		return 0;
	if (ctx->no_clock)
		return EOPNOTSUPP;

	if (clock_gettime(CLOCK_MONOTONIC, &now))
		return errno;
	ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec -
	     ctx->clock_offset;
	/* as those of hardware: all of it where they put their ticks, and programs look */
	values->raw_clock.tv_sec = 0;
	values->raw_clock.tv_nsec = ns;
	/* a long may be too short for them */
	if (values->raw_clock.tv_nsec != ns)
		return EOPNOTSUPP;
	return 0;
}

struct ibv_ah *sroce_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct sroce_create_ah_full_resp resp = {};
	struct sroce_ah *ah;

	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return NULL;

	if (ibv_cmd_create_ah(pd, &ah->ibah, attr, &resp.ibv_resp,
			      sizeof(resp))) {
		free(ah);
		return NULL;
	}

	ah->num = resp.drv.ah;
	return &ah->ibah;
}

/*
 * Requests name the handle until the kernel has sent them, which may be some
 * time after they were posted: it is made to, and waited for. What a NIC was
 * given has the address in it, so programs take this order for right.
 */
int sroce_destroy_ah(struct ibv_ah *ah)
{
	int ret;

	sroce_doorbell_users(to_sctx(ah->context),
			     __atomic_load_n(&to_sah(ah)->user,
					     __ATOMIC_RELAXED));
	ret = ibv_cmd_destroy_ah(ah);
	if (ret)
		return ret;

	free(to_sah(ah));
	return 0;
}

struct ibv_xrcd *sroce_open_xrcd(struct ibv_context *ibctx,
				 struct ibv_xrcd_init_attr *attr)
{
	struct ib_uverbs_open_xrcd_resp resp = {};
	struct ibv_open_xrcd cmd = {};
	struct verbs_xrcd *xrcd;
	int ret;

	xrcd = calloc(1, sizeof(*xrcd));
	if (!xrcd)
		return NULL;

	ret = ibv_cmd_open_xrcd(ibctx, xrcd, sizeof(*xrcd), attr, &cmd,
				sizeof(cmd), &resp, sizeof(resp));
	if (ret) {
		free(xrcd);
		errno = ret;
		return NULL;
	}
	return &xrcd->xrcd;
}

int sroce_close_xrcd(struct ibv_xrcd *ibxrcd)
{
	struct verbs_xrcd *xrcd = container_of(ibxrcd, struct verbs_xrcd, xrcd);
	int ret;

	ret = ibv_cmd_close_xrcd(xrcd);
	if (ret)
		return ret;

	free(xrcd);
	return 0;
}

struct ibv_flow *sroce_create_flow(struct ibv_qp *ibqp,
				   struct ibv_flow_attr *attr)
{
	struct ibv_flow *flow;
	int ret;

	flow = calloc(1, sizeof(*flow));
	if (!flow)
		return NULL;

	ret = ibv_cmd_create_flow(ibqp, flow, attr, NULL, 0);
	if (ret) {
		free(flow);
		errno = ret;
		return NULL;
	}
	return flow;
}

int sroce_destroy_flow(struct ibv_flow *flow)
{
	int ret;

	ret = ibv_cmd_destroy_flow(flow);
	if (ret)
		return ret;

	free(flow);
	return 0;
}
