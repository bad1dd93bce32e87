// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Shared receive queues; how they are posted to is in post.c.
 */
#include <errno.h>
#include <stdlib.h>

#include "sroce.h"

struct sroce_create_srq_full_resp {
	struct ib_uverbs_create_srq_resp ibv_resp;
	struct sroce_create_srq_resp drv;
};

struct sroce_modify_srq_full_cmd {
	struct ibv_modify_srq ibv_cmd;
	struct sroce_modify_srq drv;
};

static_assert(sizeof(struct sroce_create_srq_full_resp) ==
	      sizeof(struct ib_uverbs_create_srq_resp) +
	      sizeof(struct sroce_create_srq_resp) &&
	      sizeof(struct sroce_modify_srq_full_cmd) ==
	      sizeof(struct ibv_modify_srq) + sizeof(struct sroce_modify_srq),
	      "what is the driver's does not follow what is the core's");

static struct sroce_srq *sroce_new_srq(struct ibv_pd *pd)
{
	struct sroce_srq *srq;

	srq = sroce_obj_alloc(pd, sizeof(*srq),
			      offsetof(struct sroce_srq, owner),
			      SROCE_RES_SRQ);
	if (!srq)
		return NULL;

	sroce_lock_init(&srq->wq.lock, sroce_one_thread(pd));
	return srq;
}

static void sroce_drop_srq(struct sroce_srq *srq)
{
	sroce_unmap_ring(&srq->wq.ring);
	sroce_lock_fini(&srq->wq.lock);
	sroce_obj_free(&srq->owner, srq);
}

/*
 * @ret is what the kernel said to the making of @srq: map its ring, or leave
 * nothing of it. Return: 0, or -1 with errno.
 */
static int sroce_finish_srq(struct ibv_context *ibctx, struct sroce_srq *srq,
			    int ret, const struct sroce_ring_map *map,
			    uint32_t max_sge)
{
	if (!ret) {
		ret = sroce_map_recv_ring(ibctx, &srq->wq, map, max_sge);
		if (!ret)
			return 0;
		ibv_cmd_destroy_srq(&srq->vsrq.srq);
	}
	sroce_drop_srq(srq);
	errno = ret;
	return -1;
}

struct ibv_srq *sroce_create_srq(struct ibv_pd *pd,
				 struct ibv_srq_init_attr *attr)
{
	struct sroce_create_srq_full_resp resp = {};
	struct ibv_create_srq cmd = {};
	struct sroce_srq *srq;
	int ret;

	srq = sroce_new_srq(pd);
	if (!srq)
		return NULL;

	ret = ibv_cmd_create_srq(pd, &srq->vsrq.srq, attr, &cmd, sizeof(cmd),
				 &resp.ibv_resp, sizeof(resp));
	if (sroce_finish_srq(pd->context, srq, ret, &resp.drv.srq,
			     attr->attr.max_sge))
		return NULL;
	return &srq->vsrq.srq;
}

static bool sroce_srq_is_basic(const struct ibv_srq_init_attr_ex *attr)
{
	return !(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) ||
	       attr->srq_type == IBV_SRQT_BASIC;
}

/* Return: 0 or a positive errno. */
static int sroce_check_srq_ex(const struct ibv_srq_init_attr_ex *attr)
{
	const bool tm = attr->comp_mask & IBV_SRQ_INIT_ATTR_TM;

	if (attr->comp_mask >= IBV_SRQ_INIT_ATTR_RESERVED)
		return EOPNOTSUPP;
	if (sroce_srq_is_basic(attr) ? tm :
	    attr->srq_type != (tm ? IBV_SRQT_TM : IBV_SRQT_XRC))
		return EOPNOTSUPP;
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) ||
	    (tm && attr->tm_cap.max_ops > SROCE_TM_MAX_OPS))
		return EINVAL;
	return 0;
}

/*
 * What libibverbs does when a basic one is asked for and nothing else; also where a
 * domain or a completion queue is named that it has no use for.
 */
static struct ibv_srq *sroce_create_basic_srq(struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_srq *ibsrq;

	ibsrq = sroce_create_srq(attr->pd, (struct ibv_srq_init_attr *)attr);
	if (!ibsrq)
		return NULL;
	ibsrq->srq_context = attr->srq_context;
	ibsrq->pd = attr->pd;
	return ibsrq;
}

struct ibv_srq *sroce_create_srq_ex(struct ibv_context *ibctx,
				    struct ibv_srq_init_attr_ex *attr)
{
	struct sroce_create_srq_full_resp resp = {};
	struct ibv_create_xsrq cmd = {};
	struct sroce_srq *srq;
	int ret;

	ret = sroce_check_srq_ex(attr);
	if (ret) {
		errno = ret;
		return NULL;
	}
	if (sroce_srq_is_basic(attr))
		return sroce_create_basic_srq(attr);

	srq = sroce_new_srq(attr->pd);
	if (!srq)
		return NULL;

	ret = ibv_cmd_create_srq_ex(ibctx, &srq->vsrq, attr, &cmd, sizeof(cmd),
				    &resp.ibv_resp, sizeof(resp));
	if (sroce_finish_srq(ibctx, srq, ret, &resp.drv.srq,
			     attr->attr.max_sge))
		return NULL;

	srq->vsrq.srq.srq_context = attr->srq_context;
	srq->vsrq.srq.pd = attr->pd;
	sroce_cq_srqs(to_scq(srq->vsrq.cq), 1);
	return &srq->vsrq.srq;
}

/**
 * sroce_modify_srq - verbs modify_srq: arm the limit, resize
 *
 * As resize_cq, a new length makes a new ring, and nothing is posted meanwhile, nor
 * ever after if it can't be mapped.
 *
 * Return: 0 or a positive errno.
 */
int sroce_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr,
		     int attr_mask)
{
	struct sroce_srq *srq = to_ssrq(ibsrq);
	struct sroce_create_srq_resp resp = {};
	struct sroce_modify_srq_full_cmd cmd = {
		.drv.resp_addr = (uintptr_t)&resp,
	};
	struct sroce_wq new = { .max_sge = srq->wq.max_sge };
	int ret;

	if (!(attr_mask & IBV_SRQ_MAX_WR))
		return ibv_cmd_modify_srq(ibsrq, attr, attr_mask, &cmd.ibv_cmd,
					  sizeof(cmd.ibv_cmd));

	sroce_lock(&srq->wq.lock);
	ret = ibv_cmd_modify_srq(ibsrq, attr, attr_mask, &cmd.ibv_cmd,
				 sizeof(cmd));
	if (ret)
		goto out;

	ret = sroce_map_recv_ring(ibsrq->context, &new, &resp.srq,
				  srq->wq.max_sge);
	if (ret) {
		sroce_ring_lose_room(&srq->wq.ring);
		goto out;
	}
	new.ring.prod = srq->wq.ring.prod;
	new.ring.cons = srq->wq.ring.cons;
	sroce_unmap_ring(&srq->wq.ring);
	srq->wq.ring = new.ring;
	/* in a shorter ring there may be no room by the old index */
	sroce_ring_refresh(&srq->wq.ring);
out:
	sroce_unlock(&srq->wq.lock);

	return ret;
}

int sroce_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
	struct ibv_query_srq cmd = {};

	return ibv_cmd_query_srq(ibsrq, attr, &cmd, sizeof(cmd));
}

int sroce_get_srq_num(struct ibv_srq *ibsrq, uint32_t *srq_num)
{
	struct sroce_srq *srq = to_ssrq(ibsrq);

	if (srq->vsrq.srq_type != IBV_SRQT_XRC)
		return EOPNOTSUPP;

	*srq_num = srq->vsrq.srq_num;
	return 0;
}

int sroce_destroy_srq(struct ibv_srq *ibsrq)
{
	struct sroce_srq *srq = to_ssrq(ibsrq);
	int ret;

	ret = ibv_cmd_destroy_srq(ibsrq);
	if (ret)
		return ret;

	if (srq->vsrq.cq)
		sroce_cq_srqs(to_scq(srq->vsrq.cq), -1);
	sroce_drop_srq(srq);
	return 0;
}
