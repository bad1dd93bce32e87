// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The provider as libibverbs sees it: how its devices are recognized, and what
 * can be done with one.
 */
#include <errno.h>
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

	verbs_uninit_context(&ctx->vctx);
	free(ctx);
}

static const struct verbs_context_ops sroce_context_ops = {
	.alloc_pd = sroce_alloc_pd,
	.create_ah = sroce_create_ah,
	.create_cq = sroce_create_cq,
	.create_qp = sroce_create_qp,
	.dealloc_pd = sroce_dealloc_pd,
	.dereg_mr = sroce_dereg_mr,
	.destroy_ah = sroce_destroy_ah,
	.destroy_cq = sroce_destroy_cq,
	.destroy_qp = sroce_destroy_qp,
	.free_context = sroce_free_context,
	.modify_qp = sroce_modify_qp,
	.poll_cq = sroce_poll_cq,
	.post_recv = sroce_post_recv,
	.post_send = sroce_post_send,
	.query_device_ex = sroce_query_device,
	.query_port = sroce_query_port,
	.query_qp = sroce_query_qp,
	.reg_mr = sroce_reg_mr,
	.req_notify_cq = sroce_req_notify_cq,
};

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

	if (ibv_cmd_get_context(&ctx->vctx, &cmd, sizeof(cmd), &resp.ibv_resp,
				sizeof(resp)))
		goto err_uninit;

	/* Left zero by a kernel that answers less than the ABI asks for. */
	if (!resp.drv.max_inline || !resp.drv.max_sge) {
		verbs_err(&ctx->vctx, "the kernel told no limits\n");
		errno = EPROTO;
		goto err_uninit;
	}
	ctx->max_inline = resp.drv.max_inline;
	ctx->max_sge = resp.drv.max_sge;

	verbs_set_ops(&ctx->vctx, &sroce_context_ops);
	return &ctx->vctx;

err_uninit:
	verbs_uninit_context(&ctx->vctx);
	free(ctx);
	return NULL;
}

static struct verbs_device *sroce_alloc_device(struct verbs_sysfs_dev *sysfs)
{
	struct sroce_device *dev;

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
};

PROVIDER_DRIVER(sroce, sroce_device_ops);
