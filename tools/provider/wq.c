// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Receive side scaling: work queues, and the tables that queue pairs spread
 * over them with.
 */
#include <errno.h>
#include <stdlib.h>

#include "sroce.h"

struct sroce_create_wq_full_resp {
	struct ib_uverbs_ex_create_wq_resp ibv_resp;
	struct sroce_create_wq_resp drv;
};

static_assert(sizeof(struct sroce_create_wq_full_resp) ==
	      sizeof(struct ib_uverbs_ex_create_wq_resp) +
	      sizeof(struct sroce_create_wq_resp),
	      "what is the driver's does not follow what is the core's");

static int sroce_post_wq_recv(struct ibv_wq *ibwq, struct ibv_recv_wr *wr,
			      struct ibv_recv_wr **bad_wr)
{
	struct sroce_wq *rq = &to_srwq(ibwq)->rq;

	sroce_lock(&rq->lock);
	return sroce_post_recv_list(ibwq->context, rq, ibwq->state == IBV_WQS_RESET, wr, bad_wr);
}

struct ibv_wq *sroce_create_wq(struct ibv_context *ibctx,
			       struct ibv_wq_init_attr *attr)
{
	struct sroce_create_wq_full_resp resp = {};
	struct ibv_create_wq cmd = {};
	struct sroce_rwq *wq;
	int ret;

	if (attr->wq_type != IBV_WQT_RQ) {
		errno = EINVAL;
		return NULL;
	}

	wq = sroce_obj_alloc(attr->pd, sizeof(*wq),
			     offsetof(struct sroce_rwq, owner), SROCE_RES_WQ);
	if (!wq)
		return NULL;

	ret = ibv_cmd_create_wq(ibctx, attr, &wq->ibwq, &cmd, sizeof(cmd),
				&resp.ibv_resp, sizeof(resp));
	if (ret)
		goto err_free;

	ret = sroce_map_recv_ring(ibctx, &wq->rq, &resp.drv.rq, attr->max_sge);
	if (ret)
		goto err_destroy;

	wq->ibwq.state = IBV_WQS_RESET;
	wq->ibwq.post_recv = sroce_post_wq_recv;
	wq->rq.key = wq->ibwq.wq_num | SROCE_WQ_RECV;
	sroce_lock_init(&wq->rq.lock, sroce_one_thread(attr->pd));
	sroce_cq_attach(to_scq(attr->cq), &wq->rq);
	return &wq->ibwq;

err_destroy:
	ibv_cmd_destroy_wq(&wq->ibwq);
err_free:
	sroce_obj_free(&wq->owner, wq);
	errno = ret;
	return NULL;
}

/* In the reset state the kernel's indices are zero again, as a QP's. */
int sroce_modify_wq(struct ibv_wq *ibwq, struct ibv_wq_attr *attr)
{
	struct ibv_modify_wq cmd = {};
	int ret;

	ret = ibv_cmd_modify_wq(ibwq, attr, &cmd, sizeof(cmd));
	if (ret)
		return ret;

	if (attr->attr_mask & IBV_WQ_ATTR_STATE &&
	    attr->wq_state == IBV_WQS_RESET)
		sroce_cq_reset(to_scq(ibwq->cq), &to_srwq(ibwq)->rq);
	return 0;
}

/* As sroce_destroy_qp(): the kernel first. */
int sroce_destroy_wq(struct ibv_wq *ibwq)
{
	struct sroce_rwq *wq = to_srwq(ibwq);
	int ret;

	ret = ibv_cmd_destroy_wq(ibwq);
	if (ret)
		return ret;

	sroce_cq_detach(to_scq(ibwq->cq), &wq->rq, NULL);
	sroce_unmap_ring(&wq->rq.ring);
	sroce_lock_fini(&wq->rq.lock);
	sroce_obj_free(&wq->owner, wq);
	return 0;
}

struct ibv_rwq_ind_table *
sroce_create_rwq_ind_table(struct ibv_context *ibctx,
			   struct ibv_rwq_ind_table_init_attr *attr)
{
	struct ib_uverbs_ex_create_rwq_ind_table_resp resp = {};
	struct ibv_rwq_ind_table *table;
	int ret;

	table = calloc(1, sizeof(*table));
	if (!table)
		return NULL;

	ret = ibv_cmd_create_rwq_ind_table(ibctx, attr, table, &resp,
					   sizeof(resp));
	if (ret) {
		free(table);
		errno = ret;
		return NULL;
	}
	return table;
}

int sroce_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table)
{
	int ret;

	ret = ibv_cmd_destroy_rwq_ind_table(table);
	if (ret)
		return ret;

	free(table);
	return 0;
}
