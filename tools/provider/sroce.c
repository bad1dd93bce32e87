// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The provider as libibverbs sees it: how its devices are recognized, and what
 * can be done with one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "sroce.h"

/*
 * What is built with the headers of one release runs with the libibverbs of
 * another, as long as both call their private ABI 34. This is the last of the
 * operations in 44.0, the oldest of those that are tested.
 */
#if IBVERBS_PABI_VERSION == 34 && defined(__LP64__)
static_assert(offsetof(struct verbs_context_ops, unimport_pd) == 75 * 8,
	      "not the operations that rdma-core 44.0 has");
#endif

struct sroce_get_context_resp {
	struct ib_uverbs_get_context_resp ibv_resp;
	struct sroce_alloc_ucontext_resp drv;
};

static_assert(sizeof(struct sroce_get_context_resp) ==
	      sizeof(struct ib_uverbs_get_context_resp) +
	      sizeof(struct sroce_alloc_ucontext_resp),
	      "the kernel's answers do not follow each other");

static void sroce_free_context(struct ibv_context *ibctx)
{
	struct sroce_context *ctx = to_sctx(ibctx);

	sroce_unmap_ring(&ctx->bells);
	pthread_mutex_destroy(&ctx->ud_lock);
	verbs_uninit_context(&ctx->vctx);
	free(ctx);
}

static const struct verbs_context_ops sroce_context_ops = {
	.advise_mr = ibv_cmd_advise_mr,
	.alloc_dm = sroce_alloc_dm,
	.alloc_mw = sroce_alloc_mw,
	.alloc_null_mr = sroce_alloc_null_mr,
	.alloc_parent_domain = sroce_alloc_parent_domain,
	.alloc_pd = sroce_alloc_pd,
	.alloc_td = sroce_alloc_td,
	.attach_mcast = ibv_cmd_attach_mcast,
	.bind_mw = sroce_bind_mw,
	.close_xrcd = sroce_close_xrcd,
	.cq_event = sroce_cq_event,
	.create_ah = sroce_create_ah,
	.create_cq = sroce_create_cq,
	.create_cq_ex = sroce_create_cq_ex,
	.create_flow = sroce_create_flow,
	.create_qp = sroce_create_qp,
	.create_qp_ex = sroce_create_qp_ex,
	.create_rwq_ind_table = sroce_create_rwq_ind_table,
	.create_srq = sroce_create_srq,
	.create_srq_ex = sroce_create_srq_ex,
	.create_wq = sroce_create_wq,
	.dealloc_mw = sroce_dealloc_mw,
	.dealloc_pd = sroce_dealloc_pd,
	.dealloc_td = sroce_dealloc_td,
	.dereg_mr = sroce_dereg_mr,
	.destroy_ah = sroce_destroy_ah,
	.destroy_cq = sroce_destroy_cq,
	.destroy_flow = sroce_destroy_flow,
	.destroy_qp = sroce_destroy_qp,
	.destroy_rwq_ind_table = sroce_destroy_rwq_ind_table,
	.destroy_srq = sroce_destroy_srq,
	.destroy_wq = sroce_destroy_wq,
	.detach_mcast = ibv_cmd_detach_mcast,
	.free_context = sroce_free_context,
	.free_dm = sroce_free_dm,
	.get_srq_num = sroce_get_srq_num,
	.import_dm = sroce_import_dm,
	.import_mr = sroce_import_mr,
	.import_pd = sroce_import_pd,
	.modify_cq = sroce_modify_cq,
	.modify_qp = sroce_modify_qp,
	.modify_qp_rate_limit = sroce_modify_qp_rate_limit,
	.modify_srq = sroce_modify_srq,
	.modify_wq = sroce_modify_wq,
	.open_qp = sroce_open_qp,
	.open_xrcd = sroce_open_xrcd,
	.poll_cq = sroce_poll_cq,
	.post_recv = sroce_post_recv,
	.post_send = sroce_post_send,
	.post_srq_ops = sroce_post_srq_ops,
	.post_srq_recv = sroce_post_srq_recv,
	.query_device_ex = sroce_query_device,
	.query_port = sroce_query_port,
	SROCE_PORT_SPEED
	.query_qp = sroce_query_qp,
	.query_rt_values = sroce_query_rt_values,
	.query_srq = sroce_query_srq,
	.reg_dm_mr = sroce_reg_dm_mr,
	.reg_dmabuf_mr = sroce_reg_dmabuf_mr,
	.reg_mr = sroce_reg_mr,
	.req_notify_cq = sroce_req_notify_cq,
	.rereg_mr = sroce_rereg_mr,
	.resize_cq = sroce_resize_cq,
	.unimport_dm = sroce_unimport_dm,
	.unimport_mr = sroce_unimport_mr,
	.unimport_pd = sroce_unimport_pd,
};

/* What does not come from the kernel. */
static struct verbs_context *sroce_open(struct sroce_context *ctx,
					uint32_t max_inline, uint32_t max_sge)
{
	ctx->max_inline = max_inline;
	ctx->max_sge = max_sge;
	ctx->qp_ex_at = sroce_find_qp_ex();
	pthread_mutex_init(&ctx->ud_lock, NULL);
	sroce_find_clock(ctx);
	verbs_set_ops(&ctx->vctx, &sroce_context_ops);
	return &ctx->vctx;
}

static struct verbs_context *sroce_alloc_context(struct ibv_device *ibdev,
						 int cmd_fd, void *private_data)
{
	struct sroce_get_context_resp resp = {};
	struct ibv_get_context cmd = {};
	struct sroce_context *ctx;

	ctx = verbs_init_and_alloc_context(ibdev, cmd_fd, ctx, vctx,
					   SROCE_DRIVER_ID);
	if (!ctx)
		return NULL;

	if (ibv_cmd_get_context(&ctx->vctx, &cmd, sizeof(cmd), NULL,
				&resp.ibv_resp, sizeof(resp)))
		goto err_uninit;

	/* Left zero by a kernel that answers less than the ABI asks for. */
	if (!resp.drv.max_inline || !resp.drv.max_sge) {
		verbs_err(&ctx->vctx, "the kernel told no limits\n");
		errno = EPROTO;
		goto err_uninit;
	}
	if (resp.drv.bells.entries) {
		errno = sroce_bells_open(ctx, &resp.drv.bells);
		if (errno)
			goto err_uninit;
	}
	return sroce_open(ctx, resp.drv.max_inline, resp.drv.max_sge);

err_uninit:
	verbs_uninit_context(&ctx->vctx);
	free(ctx);
	return NULL;
}

/*
 * A command file descriptor that came from another process. The kernel's limits
 * went to that one; each queue pair's are told again, and the ABI's hold for
 * all.
 */
static struct verbs_context *sroce_import_context(struct ibv_device *ibdev,
						  int cmd_fd)
{
	struct sroce_context *ctx;

	ctx = verbs_init_and_alloc_context(ibdev, cmd_fd, ctx, vctx,
					   SROCE_DRIVER_ID);
	if (!ctx)
		return NULL;

	if (ibv_cmd_query_context(&ctx->vctx.context, NULL)) {
		verbs_uninit_context(&ctx->vctx);
		free(ctx);
		return NULL;
	}
	return sroce_open(ctx, SROCE_MAX_INLINE, SROCE_MAX_SGE);
}

static struct verbs_device *sroce_alloc_device(struct verbs_sysfs_dev *sysfs)
{
	struct sroce_device *dev;

	if (!sroce_libibverbs_fits()) {
		fprintf(stderr, "libsroce: built for rdma-core %d, and this is a later one: make install\n",
			RDMA_CORE_VERSION);
		return NULL;
	}
	dev = calloc(1, sizeof(*dev));
	if (!dev)
		return NULL;
	return &dev->vdev;
}

static void sroce_uninit_device(struct verbs_device *vdev)
{
	free(container_of(vdev, struct sroce_device, vdev));
}

/* By id: a link may have any name. */
static const struct verbs_match_ent sroce_match_table[] = {
	VERBS_DRIVER_ID(SROCE_DRIVER_ID),
	{},
};

static const struct verbs_device_ops sroce_device_ops = {
	.name = "sroce",
	.match_min_abi_version = SROCE_ABI_VERSION,
	.match_max_abi_version = SROCE_ABI_VERSION,
	.match_table = sroce_match_table,
	.alloc_device = sroce_alloc_device,
	.uninit_device = sroce_uninit_device,
	.alloc_context = sroce_alloc_context,
	.import_context = sroce_import_context,
};

PROVIDER_DRIVER(sroce, sroce_device_ops);
