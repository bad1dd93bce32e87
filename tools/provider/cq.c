// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Completion queues: creating, resizing and destroying them.
 */
#include <errno.h>
#include <stdlib.h>

#include "sroce.h"

struct sroce_create_cq_full_cmd {
	struct ibv_create_cq_ex ibv_cmd;
	struct sroce_create_cq drv;
};

struct sroce_create_cq_full_resp {
	struct ib_uverbs_ex_create_cq_resp ibv_resp;
	struct sroce_create_cq_resp drv;
};

struct sroce_resize_cq_full_resp {
	struct ib_uverbs_resize_cq_resp ibv_resp;
	struct sroce_resize_cq_resp drv;
};

static_assert(sizeof(struct sroce_create_cq_full_cmd) ==
	      sizeof(struct ibv_create_cq_ex) +
	      sizeof(struct sroce_create_cq) &&
	      sizeof(struct sroce_create_cq_full_resp) ==
	      sizeof(struct ib_uverbs_ex_create_cq_resp) +
	      sizeof(struct sroce_create_cq_resp) &&
	      sizeof(struct sroce_resize_cq_full_resp) ==
	      sizeof(struct ib_uverbs_resize_cq_resp) +
	      sizeof(struct sroce_resize_cq_resp),
	      "what is the driver's does not follow what is the core's");

#define SROCE_WC_FLAGS	(IBV_WC_STANDARD_FLAGS | \
			 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | \
			 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK | \
			 IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_FLOW_TAG | \
			 IBV_WC_EX_WITH_TM_INFO)

static int sroce_map_cq(struct ibv_context *ibctx, struct sroce_ring_view *v,
			const struct sroce_ring_map *map)
{
	if (map->entry_size != sizeof(struct sroce_cqe))
		return EPROTO;
	return sroce_map_ring(ibctx, v, map, sizeof(struct sroce_cqe));
}

/*
 * Which stamps are wanted goes into the driver's part of the command: what the
 * core would make of wc_flags is one flag for both clocks.
 */
static int sroce_make_cq(struct ibv_context *ibctx, struct sroce_cq *cq,
			 const struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_init_attr_ex core = {
		.cqe = attr->cqe,
		.channel = attr->channel,
		.comp_vector = attr->comp_vector,
	};
	struct sroce_create_cq_full_resp resp = {};
	struct sroce_create_cq_full_cmd cmd = {};
	size_t cmd_size = sizeof(cmd.ibv_cmd);
	int ret;

	if (attr->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		cmd.drv.flags |= SROCE_CQ_TIMESTAMP;
	if (attr->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		cmd.drv.flags |= SROCE_CQ_WALLCLOCK;
	if (cmd.drv.flags)
		cmd_size = sizeof(cmd);

	ret = ibv_cmd_create_cq_ex(ibctx, &core, NULL, &cq->vcq, &cmd.ibv_cmd,
				   cmd_size, &resp.ibv_resp, sizeof(resp), 0);
	if (ret)
		return ret;

	ret = sroce_map_cq(ibctx, &cq->ring, &resp.drv.cq);
	if (ret)
		ibv_cmd_destroy_cq(&cq->vcq.cq);
	return ret;
}

static struct sroce_cq *sroce_new_cq(struct ibv_context *ibctx,
				     const struct ibv_cq_init_attr_ex *attr,
				     struct ibv_pd *parent, bool one_thread)
{
	struct sroce_cq *cq;
	int ret;

	cq = sroce_obj_alloc(parent, sizeof(*cq),
			     offsetof(struct sroce_cq, owner), SROCE_RES_CQ);
	if (!cq)
		return NULL;

	/*
	 * A thread domain is not enough: a queue pair may be destroyed, and its completions
	 * be taken back, by another thread than who polls.
	 */
	ret = sroce_cq_init(cq, one_thread);
	if (ret)
		goto err_free;

	ret = sroce_make_cq(ibctx, cq, attr);
	if (ret)
		goto err_fini;
	return cq;

err_fini:
	sroce_cq_fini(cq);
err_free:
	sroce_obj_free(&cq->owner, cq);
	errno = ret;
	return NULL;
}

struct ibv_cq *sroce_create_cq(struct ibv_context *ibctx, int cqe,
			       struct ibv_comp_channel *channel,
			       int comp_vector)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cqe,
		.channel = channel,
		.comp_vector = comp_vector,
	};
	struct sroce_cq *cq;

	cq = sroce_new_cq(ibctx, &attr, NULL, false);
	return cq ? &cq->vcq.cq : NULL;
}

/*
 * An overrun that is ignored would be one that overwrites entries which the
 * program is looking at.
 */
struct ibv_cq_ex *sroce_create_cq_ex(struct ibv_context *ibctx,
				     struct ibv_cq_init_attr_ex *attr)
{
	const uint32_t known = IBV_CQ_INIT_ATTR_MASK_FLAGS |
			       IBV_CQ_INIT_ATTR_MASK_PD;
	struct ibv_pd *parent = NULL;
	struct sroce_cq *cq;
	uint32_t flags = 0;

	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS)
		flags = attr->flags;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD)
		parent = attr->parent_domain;

	if (attr->comp_mask & ~known || attr->wc_flags & ~SROCE_WC_FLAGS ||
	    flags & ~IBV_CREATE_CQ_ATTR_SINGLE_THREADED) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (parent && !to_spd(parent)->protection) {
		errno = EINVAL;
		return NULL;
	}

	cq = sroce_new_cq(ibctx, attr, parent,
			  flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	if (!cq)
		return NULL;

	sroce_cq_set_ex(cq);
	return &cq->vcq.cq_ex;
}

/**
 * sroce_resize_cq - verbs resize_cq
 *
 * The kernel carries over what was not polled, and takes the new ring from then
 * on. Nobody may look at the old one meanwhile, or ask it for an event. If there
 * is no room for another mapping, nobody gets at the completions: polling and asking
 * fail (EIO), until a mapping succeeds that another resize has made.
 *
 * Return: 0 or a positive errno.
 */
int sroce_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct sroce_resize_cq_full_resp resp = {};
	struct sroce_cq *cq = to_scq(ibcq);
	struct sroce_ring_view new = {};
	struct ibv_resize_cq cmd = {};
	int ret;

	if (cqe <= 0)
		return EINVAL;

	sroce_lock(&cq->lock);
	sroce_lock(&cq->arm_lock);
	ret = ibv_cmd_resize_cq(ibcq, cqe, &cmd, sizeof(cmd), &resp.ibv_resp,
				sizeof(resp));
	if (ret)
		goto out;

	ret = sroce_map_cq(ibcq->context, &new, &resp.drv.cq);
	if (ret) {
		sroce_ring_lose_filled(&cq->ring);
		cq->lost = true;
		goto out;
	}
	new.cons = cq->ring.cons;
	sroce_unmap_ring(&cq->ring);
	cq->ring = new;
	cq->lost = false;
out:
	sroce_unlock(&cq->arm_lock);
	sroce_unlock(&cq->lock);

	return ret;
}

int sroce_modify_cq(struct ibv_cq *ibcq, struct ibv_modify_cq_attr *attr)
{
	struct ibv_modify_cq cmd = {};

	return ibv_cmd_modify_cq(ibcq, attr, &cmd, sizeof(cmd));
}

int sroce_destroy_cq(struct ibv_cq *ibcq)
{
	struct sroce_cq *cq = to_scq(ibcq);
	int ret;

	ret = ibv_cmd_destroy_cq(ibcq);
	if (ret)
		return ret;

	sroce_unmap_ring(&cq->ring);
	sroce_cq_fini(cq);
	sroce_obj_free(&cq->owner, cq);
	return 0;
}
