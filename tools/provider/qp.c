// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Queue pairs: creating, changing and destroying them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sroce.h"

struct sroce_create_qp_full_cmd {
	struct ibv_create_qp_ex ibv_cmd;
	struct sroce_create_qp drv;
};

struct sroce_create_qp_full_resp {
	struct ib_uverbs_create_qp_resp ibv_resp;
	struct sroce_create_qp_resp drv;
};

struct sroce_create_qp_ex_full_resp {
	struct ib_uverbs_ex_create_qp_resp ibv_resp;
	struct sroce_create_qp_resp drv;
};

struct sroce_modify_qp_full_cmd {
	struct ibv_modify_qp_ex ibv_cmd;
	struct sroce_modify_qp drv;
};

static_assert(sizeof(struct sroce_create_qp_full_cmd) ==
	      sizeof(struct ibv_create_qp_ex) +
	      sizeof(struct sroce_create_qp) &&
	      sizeof(struct sroce_create_qp_full_resp) ==
	      sizeof(struct ib_uverbs_create_qp_resp) +
	      sizeof(struct sroce_create_qp_resp) &&
	      sizeof(struct sroce_create_qp_ex_full_resp) ==
	      sizeof(struct ib_uverbs_ex_create_qp_resp) +
	      sizeof(struct sroce_create_qp_resp) &&
	      sizeof(struct sroce_modify_qp_full_cmd) ==
	      sizeof(struct ibv_modify_qp_ex) +
	      sizeof(struct sroce_modify_qp),
	      "what is the driver's does not follow what is the core's");

/* Where 44.0, the oldest rdma-core that this runs with, has comp_mask. */
#define SROCE_QP_EX_FIRST	offsetof(struct ibv_qp_ex, wr_flush)

#if IBVERBS_PABI_VERSION == 34 && defined(__LP64__)
/* the mutex has 40 bytes on most processors, and 48 on arm64 */
static_assert(SROCE_QP_EX_FIRST == 312 + sizeof(pthread_mutex_t) &&
	      offsetof(struct verbs_qp, comp_mask) == 320 + sizeof(pthread_mutex_t),
	      "not the queue pair that rdma-core 56.1 has");
#endif

/* With what the command of old has no room for. */
static int sroce_modify_rate(struct ibv_qp *ibqp, struct ibv_qp_attr *attr,
			     int attr_mask, uint32_t max_burst)
{
	struct ib_uverbs_ex_modify_qp_resp resp = {};
	struct sroce_modify_qp_full_cmd cmd = {
		.drv.max_burst = max_burst,
	};

	return ibv_cmd_modify_qp_ex(ibqp, attr, attr_mask, &cmd.ibv_cmd,
				    max_burst ? sizeof(cmd) :
						sizeof(cmd.ibv_cmd),
				    &resp, sizeof(resp));
}

/**
 * sroce_modify_qp_rate_limit - verbs modify_qp_rate_limit: how fast requests
 *	leave
 *
 * How long packets are is known here, so that a program's word on that, a hint
 * for those who have to be told, is not needed.
 *
 * Return: 0 or a positive errno.
 */
int sroce_modify_qp_rate_limit(struct ibv_qp *ibqp,
			       struct ibv_qp_rate_limit_attr *limit)
{
	struct ibv_qp_attr attr = { .rate_limit = limit->rate_limit };

	if (limit->comp_mask)
		return EOPNOTSUPP;
	return sroce_modify_rate(ibqp, &attr, IBV_QP_RATE_LIMIT,
				 limit->max_burst_sz);
}

/**
 * sroce_find_qp_ex - where does this libibverbs look whether a QP is extended?
 *
 * ibv_qp_to_qp_ex() looks at verbs_qp.comp_mask, which lies behind ibv_qp_ex.
 * That grew after 44.0, by wr_flush(), and nothing in the library's name or
 * among its symbols changed with it: the private ABI stayed 34. So it is
 * watched at work, on queue pairs that have the flag at one place each.
 *
 * Return: offset in struct verbs_qp, or 0 if it is none that there is room for.
 */
uint32_t sroce_find_qp_ex(void)
{
	union {
		uint32_t word[offsetof(struct sroce_qp, owner) / 4];
		struct ibv_qp qp;
	} probe = {};
	size_t at;

	/* comp_mask and, 8 bytes on, xrcd are libibverbs' to write. */
	for (at = SROCE_QP_EX_FIRST; at + 16 <= sizeof(probe); at += 4) {
		bool found;

		probe.word[at / 4] = VERBS_QP_EX;
		found = ibv_qp_to_qp_ex(&probe.qp);
		probe.word[at / 4] = 0;
		if (found)
			return at;
	}
	return 0;
}

static int sroce_map_sq(struct ibv_context *ibctx, struct sroce_qp *qp,
			const struct sroce_ring_map *map,
			const struct ibv_qp_cap *cap)
{
	struct sroce_context *ctx = to_sctx(ibctx);
	int ret;

	/* What a request may be at most, whatever the kernel allows. */
	qp->sq.max_sge = sroce_min(cap->max_send_sge,
				   sroce_min(ctx->max_sge, SROCE_MAX_SGE));
	qp->max_inline = sroce_min(cap->max_inline_data,
				   sroce_min(ctx->max_inline,
					     SROCE_MAX_INLINE));

	if (!map->size && !cap->max_send_wr)
		return 0;
	if (map->entry_size != SROCE_SQ_BLOCK)
		return EPROTO;
	ret = sroce_map_ring(ibctx, &qp->sq.ring, map, SROCE_SQ_BLOCK);
	if (ret || qp->sq.ring.num <= cap->max_send_wr)
		return ret;

	qp->sq.max_wr = cap->max_send_wr;
	qp->sq.posted = calloc(2 * (size_t)qp->sq.ring.num, sizeof(*qp->sq.posted));
	if (!qp->sq.posted) {
		sroce_unmap_ring(&qp->sq.ring);
		return ENOMEM;
	}
	return 0;
}

static void sroce_unmap_sq(struct sroce_qp *qp)
{
	sroce_unmap_ring(&qp->sq.ring);
	free(qp->sq.posted);
}

static bool sroce_has_sq(const struct ibv_qp_init_attr_ex *attr)
{
	return attr->qp_type != IBV_QPT_XRC_RECV &&
	       !(attr->comp_mask & IBV_QP_INIT_ATTR_IND_TABLE);
}

static bool sroce_has_rq(const struct ibv_qp_init_attr_ex *attr)
{
	return attr->qp_type != IBV_QPT_XRC_RECV &&
	       attr->qp_type != IBV_QPT_XRC_SEND && !attr->srq &&
	       !(attr->comp_mask & IBV_QP_INIT_ATTR_IND_TABLE);
}

static int sroce_map_qp(struct ibv_context *ibctx, struct sroce_qp *qp,
			const struct sroce_create_qp_resp *resp,
			const struct ibv_qp_init_attr_ex *attr)
{
	int ret;

	if (sroce_has_sq(attr)) {
		ret = sroce_map_sq(ibctx, qp, &resp->sq, &attr->cap);
		if (ret)
			return ret;
	}
	if (sroce_has_rq(attr) && (resp->rq.size || attr->cap.max_recv_wr)) {
		ret = sroce_map_recv_ring(ibctx, &qp->rq, &resp->rq,
					  attr->cap.max_recv_sge);
		if (ret) {
			sroce_unmap_sq(qp);
			return ret;
		}
	}
	return 0;
}

/* ibv_cmd_create_qp_ex() knows no flags and no tables, _ex2() knows no XRCD. */
static int sroce_make_plain_qp(struct ibv_context *ibctx, struct sroce_qp *qp,
			       struct ibv_qp_init_attr_ex *attr,
			       struct sroce_create_qp_resp *drv)
{
	struct sroce_create_qp_full_resp resp = {};
	const uint32_t comp_mask = attr->comp_mask;
	struct ibv_create_qp cmd = {};
	int ret;

	/* there are none; not a copy, as the program's may be of an older libibverbs, and shorter */
	attr->comp_mask &= ~IBV_QP_INIT_ATTR_CREATE_FLAGS;
	ret = ibv_cmd_create_qp_ex(ibctx, &qp->vqp, attr, &cmd, sizeof(cmd),
				   &resp.ibv_resp, sizeof(resp));
	attr->comp_mask = comp_mask;
	*drv = resp.drv;
	return ret;
}

static int sroce_make_ex_qp(struct ibv_context *ibctx, struct sroce_qp *qp,
			    struct ibv_qp_init_attr_ex *attr,
			    struct sroce_create_qp_resp *drv)
{
	const struct ibv_rx_hash_conf *hash = &attr->rx_hash_conf;
	struct sroce_create_qp_ex_full_resp resp = {};
	struct sroce_create_qp_full_cmd cmd = {};
	size_t cmd_size = sizeof(cmd.ibv_cmd);
	int ret;

	if (attr->comp_mask & IBV_QP_INIT_ATTR_RX_HASH) {
		if (hash->rx_hash_key_len > sizeof(cmd.drv.rx_hash_key))
			return EINVAL;
		cmd.drv.rx_hash_fields = hash->rx_hash_fields_mask;
		cmd.drv.rx_hash_function = hash->rx_hash_function;
		cmd.drv.rx_hash_key_len = hash->rx_hash_key_len;
		if (hash->rx_hash_key_len)
			memcpy(cmd.drv.rx_hash_key, hash->rx_hash_key,
			       hash->rx_hash_key_len);
		cmd_size = sizeof(cmd);
	}

	ret = ibv_cmd_create_qp_ex2(ibctx, &qp->vqp, attr, &cmd.ibv_cmd,
				    cmd_size, &resp.ibv_resp, sizeof(resp), NULL);
	*drv = resp.drv;
	return ret;
}

#define SROCE_QP_ATTRS	(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | \
			 IBV_QP_INIT_ATTR_CREATE_FLAGS | \
			 IBV_QP_INIT_ATTR_IND_TABLE | \
			 IBV_QP_INIT_ATTR_RX_HASH | \
			 IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)

/* Is there something that is only in the longer of the two commands? */
static bool sroce_wants_ex(const struct ibv_qp_init_attr_ex *attr)
{
	return attr->comp_mask & (IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH) ||
	       (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && attr->create_flags);
}

/* Return: 0 or a positive errno. */
static int sroce_check_attr(const struct sroce_context *ctx,
			    const struct ibv_qp_init_attr_ex *attr)
{
	uint64_t ops = sroce_send_ops(attr->qp_type);

	if (attr->comp_mask & ~SROCE_QP_ATTRS)
		return EOPNOTSUPP;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_XRCD && sroce_wants_ex(attr))
		return EOPNOTSUPP;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_RX_HASH &&
	    !(attr->comp_mask & IBV_QP_INIT_ATTR_IND_TABLE))
		return EINVAL;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		return 0;

	if (ctx->qp_ex_at == SROCE_QP_EX_FIRST)
		ops &= ~(uint64_t)IBV_QP_EX_WITH_FLUSH;
	if (!ctx->qp_ex_at || attr->send_ops_flags & ~ops)
		return EOPNOTSUPP;
	return 0;
}

static void sroce_extend_qp(const struct sroce_context *ctx,
			    struct sroce_qp *qp, uint64_t send_ops)
{
	uint32_t *comp_mask = (void *)((uint8_t *)&qp->vqp + ctx->qp_ex_at);

	*comp_mask |= VERBS_QP_EX;
	qp->send_ops = send_ops;
	sroce_qp_set_ex(qp, ctx->qp_ex_at != SROCE_QP_EX_FIRST);
}

static void sroce_init_qp(struct sroce_qp *qp, bool unlocked)
{
	uint32_t qp_num = qp->vqp.qp.qp_num;

	qp->held_send.qp = qp;
	qp->held_recv.qp = qp;
	qp->sq.key = qp_num;
	qp->rq.key = qp_num | SROCE_WQ_RECV;
	sroce_lock_init(&qp->sq.lock, unlocked);
	sroce_lock_init(&qp->rq.lock, unlocked);
}

/*
 * libibverbs notes the completion queues that were named. Those that the kernel does not
 * hold for this queue pair may be destroyed before it, and are none of its.
 */
static void sroce_forget_cqs(struct ibv_qp *ibqp, const struct ibv_qp_init_attr_ex *attr)
{
	const bool table = attr->comp_mask & IBV_QP_INIT_ATTR_IND_TABLE;

	if (!sroce_has_sq(attr))
		ibqp->send_cq = NULL;
	if (table || attr->qp_type == IBV_QPT_XRC_SEND || attr->qp_type == IBV_QPT_XRC_RECV)
		ibqp->recv_cq = NULL;
}

static struct sroce_qp *sroce_new_qp(struct ibv_pd *pd)
{
	return sroce_obj_alloc(pd, sizeof(struct sroce_qp),
			       offsetof(struct sroce_qp, owner),
			       SROCE_RES_QP);
}

struct ibv_qp *sroce_create_qp_ex(struct ibv_context *ibctx,
				  struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_pd *pd = attr->comp_mask & IBV_QP_INIT_ATTR_PD ?
			    attr->pd : NULL;
	struct sroce_create_qp_resp resp;
	struct sroce_qp *qp;
	struct ibv_qp *ibqp;
	int ret;

	ret = sroce_check_attr(to_sctx(ibctx), attr);
	if (ret) {
		errno = ret;
		return NULL;
	}

	qp = sroce_new_qp(pd);
	if (!qp)
		return NULL;
	ibqp = &qp->vqp.qp;

	if (sroce_wants_ex(attr))
		ret = sroce_make_ex_qp(ibctx, qp, attr, &resp);
	else
		ret = sroce_make_plain_qp(ibctx, qp, attr, &resp);
	if (ret)
		goto err_free;

	ret = sroce_map_qp(ibctx, qp, &resp, attr);
	if (ret)
		goto err_destroy;

	qp->sq_sig_all = attr->sq_sig_all;
	sroce_init_qp(qp, sroce_one_thread(pd));
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		sroce_extend_qp(to_sctx(ibctx), qp, attr->send_ops_flags);

	sroce_forget_cqs(ibqp, attr);
	if (ibqp->qp_type == IBV_QPT_UD)
		sroce_ud_add(to_sctx(ibctx), qp);
	/* The receive queue also if it has no ring: an SRQ's completions. */
	if (ibqp->send_cq)
		sroce_cq_attach(to_scq(ibqp->send_cq), &qp->sq);
	if (ibqp->recv_cq)
		sroce_cq_attach(to_scq(ibqp->recv_cq), &qp->rq);
	return ibqp;

err_destroy:
	ibv_cmd_destroy_qp(ibqp);
err_free:
	sroce_obj_free(&qp->owner, qp);
	errno = ret;
	return NULL;
}

struct ibv_qp *sroce_create_qp(struct ibv_pd *pd,
			       struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	struct ibv_qp *ibqp;

	ibqp = sroce_create_qp_ex(pd->context, &ex);
	if (ibqp)
		attr->cap = ex.cap;
	return ibqp;
}

/* An XRC target of somebody else: to be modified, queried and let go of. */
struct ibv_qp *sroce_open_qp(struct ibv_context *ibctx,
			     struct ibv_qp_open_attr *attr)
{
	struct ib_uverbs_create_qp_resp resp = {};
	struct ibv_open_qp cmd = {};
	struct sroce_qp *qp;
	int ret;

	qp = sroce_new_qp(NULL);
	if (!qp)
		return NULL;

	ret = ibv_cmd_open_qp(ibctx, &qp->vqp, sizeof(qp->vqp), attr, &cmd,
			      sizeof(cmd), &resp, sizeof(resp));
	if (ret) {
		sroce_obj_free(&qp->owner, qp);
		errno = ret;
		return NULL;
	}

	sroce_init_qp(qp, false);
	return &qp->vqp.qp;
}

int sroce_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr,
		   int attr_mask, struct ibv_qp_init_attr *init_attr)
{
	struct ibv_query_qp cmd;

	return ibv_cmd_query_qp(ibqp, attr, attr_mask, init_attr, &cmd,
				sizeof(cmd));
}

/*
 * In the reset state the kernel's indices are zero again, and completions from
 * before are not of interest to anyone.
 */
int sroce_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr,
		    int attr_mask)
{
	struct sroce_qp *qp = to_sqp(ibqp);
	struct ibv_modify_qp cmd = {};
	int ret;

	if (attr_mask & IBV_QP_RATE_LIMIT)
		ret = sroce_modify_rate(ibqp, attr, attr_mask, 0);
	else
		ret = ibv_cmd_modify_qp(ibqp, attr, attr_mask, &cmd,
					sizeof(cmd));
	if (ret)
		return ret;

	if (attr_mask & IBV_QP_STATE)
		qp->state = attr->qp_state;
	if (attr_mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RESET) {
		if (ibqp->send_cq)
			sroce_cq_reset(to_scq(ibqp->send_cq), &qp->sq);
		if (ibqp->recv_cq)
			sroce_cq_reset(to_scq(ibqp->recv_cq), &qp->rq);
	}
	return 0;
}

/*
 * A program need not wait for datagrams of which it wants to know nothing more:
 * what has been posted and not rung for yet is sent before the queue pair goes.
 *
 * The kernel first: as long as it knows the queue pair, completions may come.
 * Until it is detached, a poller may still return some, as it might have done
 * before the call.
 */
int sroce_destroy_qp(struct ibv_qp *ibqp)
{
	struct sroce_qp *qp = to_sqp(ibqp);
	int ret;

	sroce_doorbell_posted(qp);
	ret = ibv_cmd_destroy_qp(ibqp);
	if (ret)
		return ret;

	if (ibqp->qp_type == IBV_QPT_UD)
		sroce_ud_remove(to_sctx(ibqp->context), qp);
	if (ibqp->send_cq)
		sroce_cq_detach(to_scq(ibqp->send_cq), &qp->sq,
				&qp->held_send);
	if (ibqp->recv_cq)
		sroce_cq_detach(to_scq(ibqp->recv_cq), &qp->rq,
				&qp->held_recv);
	sroce_unmap_sq(qp);
	sroce_unmap_ring(&qp->rq.ring);
	sroce_lock_fini(&qp->sq.lock);
	sroce_lock_fini(&qp->rq.lock);
	sroce_obj_free(&qp->owner, qp);
	return 0;
}
