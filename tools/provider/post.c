// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Posting: from the program's work requests to the rings, by lists of requests
 * and by the calls of ibv_wr_start() to ibv_wr_complete().
 */
#include <errno.h>
#include <string.h>

#include <rdma/ib_user_verbs.h>

#include "sroce.h"

/* Where the data of a send request begins; sizeof() is that of the union. */
#define SROCE_WQE_DATA	48

static_assert(sizeof(struct sroce_send_wqe) == SROCE_WQE_DATA,
	      "data follows the header");
static_assert(sizeof(struct sroce_recv_wqe) == 16, "the ABI is fixed");
static_assert(sizeof(struct sroce_sge) == 16 &&
	      SROCE_WQE_DATA % sizeof(struct sroce_sge) == 0 &&
	      SROCE_SQ_BLOCK % sizeof(struct sroce_sge) == 0,
	      "no entry of a list lies across the end of the ring");
static_assert(SROCE_WQE_DATA + SROCE_MAX_SGE * sizeof(struct sroce_sge) <=
	      SROCE_SQ_MAX_BLOCKS * SROCE_SQ_BLOCK, "the longest list fits");
static_assert(SROCE_WQE_DATA + SROCE_MAX_INLINE <=
	      SROCE_SQ_MAX_BLOCKS * SROCE_SQ_BLOCK, "the longest inline fits");

/* Flags and opcodes go into the ring as the program gave them. */
static_assert(SROCE_WQE_FENCE == (int)IBV_SEND_FENCE &&
	      SROCE_WQE_SIGNALED == (int)IBV_SEND_SIGNALED &&
	      SROCE_WQE_SOLICITED == (int)IBV_SEND_SOLICITED &&
	      SROCE_WQE_INLINE == (int)IBV_SEND_INLINE,
	      "send flags are ibv_send_flags");
static_assert((int)IB_UVERBS_WR_RDMA_WRITE == IBV_WR_RDMA_WRITE &&
	      (int)IB_UVERBS_WR_RDMA_WRITE_WITH_IMM ==
	      IBV_WR_RDMA_WRITE_WITH_IMM &&
	      (int)IB_UVERBS_WR_SEND == IBV_WR_SEND &&
	      (int)IB_UVERBS_WR_SEND_WITH_IMM == IBV_WR_SEND_WITH_IMM &&
	      (int)IB_UVERBS_WR_RDMA_READ == IBV_WR_RDMA_READ &&
	      (int)IB_UVERBS_WR_ATOMIC_CMP_AND_SWP ==
	      IBV_WR_ATOMIC_CMP_AND_SWP &&
	      (int)IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD ==
	      IBV_WR_ATOMIC_FETCH_AND_ADD &&
	      (int)IB_UVERBS_WR_LOCAL_INV == IBV_WR_LOCAL_INV &&
	      (int)IB_UVERBS_WR_BIND_MW == IBV_WR_BIND_MW &&
	      (int)IB_UVERBS_WR_SEND_WITH_INV == IBV_WR_SEND_WITH_INV &&
	      SROCE_WR_FLUSH == (int)IBV_WR_FLUSH &&
	      SROCE_WR_ATOMIC_WRITE == (int)IBV_WR_ATOMIC_WRITE,
	      "opcodes are ibv_wr_opcode");

#define SROCE_SEND_FLAGS	(SROCE_WQE_FENCE | SROCE_WQE_SIGNALED | \
				 SROCE_WQE_SOLICITED | SROCE_WQE_INLINE)

/* Queue pairs that an opcode is allowed on. */
enum {
	SROCE_ON_RC	= 1 << 0,
	SROCE_ON_UC	= 1 << 1,
	SROCE_ON_UD	= 1 << 2,
	SROCE_ON_XRC	= 1 << 3,
	SROCE_ON_RAW	= 1 << 4,
};

#define SROCE_ON_RELIABLE	(SROCE_ON_RC | SROCE_ON_XRC)
#define SROCE_ON_CONNECTED	(SROCE_ON_RELIABLE | SROCE_ON_UC)

/* What a request of an opcode has. */
enum {
	SROCE_OP_LIST	= 1 << 0,	/* data in the program's memory */
	SROCE_OP_INLINE	= 1 << 1,	/* or in the request */
	SROCE_OP_IMM	= 1 << 2,
	SROCE_OP_INV	= 1 << 3,
	SROCE_OP_RDMA	= 1 << 4,
	SROCE_OP_ATOMIC	= 1 << 5,
	SROCE_OP_BIND	= 1 << 6,
	SROCE_OP_FLUSH	= 1 << 7,
};

#define SROCE_OP_DATA	(SROCE_OP_LIST | SROCE_OP_INLINE)

/**
 * struct sroce_op - an opcode
 * @on: SROCE_ON_*
 * @has: SROCE_OP_*
 * @ex: IBV_QP_EX_WITH_*
 */
struct sroce_op {
	uint8_t on;
	uint8_t has;
	uint16_t ex;
};

static const struct sroce_op sroce_ops[] = {
	[IBV_WR_RDMA_WRITE] = {
		.on = SROCE_ON_CONNECTED,
		.has = SROCE_OP_DATA | SROCE_OP_RDMA,
		.ex = IBV_QP_EX_WITH_RDMA_WRITE,
	},
	[IBV_WR_RDMA_WRITE_WITH_IMM] = {
		.on = SROCE_ON_CONNECTED,
		.has = SROCE_OP_DATA | SROCE_OP_RDMA | SROCE_OP_IMM,
		.ex = IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
	},
	[IBV_WR_SEND] = {
		.on = SROCE_ON_CONNECTED | SROCE_ON_UD | SROCE_ON_RAW,
		.has = SROCE_OP_DATA,
		.ex = IBV_QP_EX_WITH_SEND,
	},
	[IBV_WR_SEND_WITH_IMM] = {
		.on = SROCE_ON_CONNECTED | SROCE_ON_UD,
		.has = SROCE_OP_DATA | SROCE_OP_IMM,
		.ex = IBV_QP_EX_WITH_SEND_WITH_IMM,
	},
	[IBV_WR_RDMA_READ] = {
		.on = SROCE_ON_RELIABLE,
		.has = SROCE_OP_LIST | SROCE_OP_RDMA,
		.ex = IBV_QP_EX_WITH_RDMA_READ,
	},
	[IBV_WR_ATOMIC_CMP_AND_SWP] = {
		.on = SROCE_ON_RELIABLE,
		.has = SROCE_OP_LIST | SROCE_OP_ATOMIC,
		.ex = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
	},
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = {
		.on = SROCE_ON_RELIABLE,
		.has = SROCE_OP_LIST | SROCE_OP_ATOMIC,
		.ex = IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
	},
	[IBV_WR_LOCAL_INV] = {
		.on = SROCE_ON_CONNECTED,
		.has = SROCE_OP_INV,
		.ex = IBV_QP_EX_WITH_LOCAL_INV,
	},
	[IBV_WR_BIND_MW] = {
		.on = SROCE_ON_CONNECTED,
		.has = SROCE_OP_BIND,
		.ex = IBV_QP_EX_WITH_BIND_MW,
	},
	[IBV_WR_SEND_WITH_INV] = {
		.on = SROCE_ON_RELIABLE,
		.has = SROCE_OP_DATA | SROCE_OP_INV,
		.ex = IBV_QP_EX_WITH_SEND_WITH_INV,
	},
	[IBV_WR_FLUSH] = {
		.on = SROCE_ON_RELIABLE,
		.has = SROCE_OP_FLUSH,
		.ex = IBV_QP_EX_WITH_FLUSH,
	},
	[IBV_WR_ATOMIC_WRITE] = {
		.on = SROCE_ON_RELIABLE,
		.has = SROCE_OP_DATA | SROCE_OP_RDMA,
		.ex = IBV_QP_EX_WITH_ATOMIC_WRITE,
	},
};

#define SROCE_NUM_OPS	(sizeof(sroce_ops) / sizeof(sroce_ops[0]))

static uint8_t sroce_on(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
		return SROCE_ON_RC;
	case IBV_QPT_UC:
		return SROCE_ON_UC;
	case IBV_QPT_UD:
		return SROCE_ON_UD;
	case IBV_QPT_XRC_SEND:
		return SROCE_ON_XRC;
	case IBV_QPT_RAW_PACKET:
		return SROCE_ON_RAW;
	default:
		return 0;
	}
}

static const struct sroce_op *sroce_find_op(const struct sroce_qp *qp,
					    uint32_t opcode)
{
	if (opcode >= SROCE_NUM_OPS ||
	    !(sroce_ops[opcode].on & sroce_on(qp->vqp.qp.qp_type)))
		return NULL;
	return &sroce_ops[opcode];
}

/* IBV_QP_EX_WITH_* that a queue pair of @type may have. */
uint64_t sroce_send_ops(enum ibv_qp_type type)
{
	uint64_t ops = 0;
	uint32_t i;

	for (i = 0; i < SROCE_NUM_OPS; i++)
		if (sroce_ops[i].on & sroce_on(type))
			ops |= sroce_ops[i].ex;
	return ops;
}

/* What follows writes a request's parts, shared by the two ways of posting. */

static uint8_t *sroce_data_start(const struct sroce_ring_view *v,
				 uint32_t index)
{
	return (uint8_t *)sroce_ring_entry(v, index) + SROCE_WQE_DATA;
}

/* Copy inline data to @to, which may go on at the start of the ring. */
static uint8_t *sroce_put_bytes(const struct sroce_ring_view *v, uint8_t *to,
				const void *data, size_t len)
{
	uint8_t *end = v->entries + (size_t)v->num * SROCE_SQ_BLOCK;
	const uint8_t *from = data;
	size_t room = end - to;

	if (len >= room) {
		memcpy(to, from, room);
		from += room;
		len -= room;
		to = v->entries;
	}
	/* An empty piece may point nowhere. */
	if (len)
		memcpy(to, from, len);
	return to + len;
}

/*
 * Have as many requests been posted before @prod as may be? Short ones leave room in the
 * ring, but the completion queue was made for that number.
 */
static bool sroce_sq_full(const struct sroce_wq *sq, uint32_t prod)
{
	return *sroce_wq_posted(sq, prod) -
	       __atomic_load_n(&sq->retired, __ATOMIC_RELAXED) >= sq->max_wr;
}

/*
 * Make room for @bytes behind the header. The header counts the blocks; they
 * are taken when prod moves.
 */
static int sroce_size_wqe(const struct sroce_qp *qp,
			  struct sroce_send_wqe *wqe, uint32_t prod,
			  size_t bytes)
{
	wqe->num_blocks = (SROCE_WQE_DATA + bytes + SROCE_SQ_BLOCK - 1) /
			  SROCE_SQ_BLOCK;
	if (sroce_ring_space(&qp->sq.ring, prod) < wqe->num_blocks)
		return ENOMEM;
	if (qp->sq.posted && sroce_sq_full(&qp->sq, prod))
		return ENOMEM;
	return 0;
}

static int sroce_put_list(const struct sroce_qp *qp, const struct sroce_op *op,
			  struct sroce_send_wqe *wqe, uint32_t prod,
			  const struct ibv_sge *sge, size_t num)
{
	const struct sroce_ring_view *v = &qp->sq.ring;
	uint8_t *end = v->entries + (size_t)v->num * SROCE_SQ_BLOCK;
	uint8_t *to = sroce_data_start(v, prod);
	size_t i;
	int ret;

	if (!(op->has & SROCE_OP_LIST) || num > qp->sq.max_sge)
		return EINVAL;

	ret = sroce_size_wqe(qp, wqe, prod, num * sizeof(struct sroce_sge));
	if (ret)
		return ret;

	wqe->num_sge = num;
	for (i = 0; i < num; i++) {
		struct sroce_sge *s = (struct sroce_sge *)to;

		s->addr = sge[i].addr;
		s->length = sge[i].length;
		s->lkey = sge[i].lkey;

		to += sizeof(*s);
		if (to == end)
			to = v->entries;
	}
	return 0;
}

static int sroce_start_inline(const struct sroce_qp *qp,
			      const struct sroce_op *op,
			      struct sroce_send_wqe *wqe, uint32_t prod,
			      uint64_t bytes)
{
	int ret;

	if (!(op->has & SROCE_OP_INLINE) || bytes > qp->max_inline)
		return EINVAL;

	ret = sroce_size_wqe(qp, wqe, prod, bytes);
	if (ret)
		return ret;

	wqe->flags |= SROCE_WQE_INLINE;
	wqe->inline_len = bytes;
	return 0;
}

static int sroce_put_inline(const struct sroce_qp *qp,
			    const struct sroce_op *op,
			    struct sroce_send_wqe *wqe, uint32_t prod,
			    const struct ibv_sge *sge, size_t num)
{
	const struct sroce_ring_view *v = &qp->sq.ring;
	uint8_t *to = sroce_data_start(v, prod);
	uint64_t bytes = 0;
	size_t i;
	int ret;

	if (num > qp->sq.max_sge)
		return EINVAL;
	/* A list that is as long as a request's may be cannot overflow this. */
	for (i = 0; i < num; i++)
		bytes += sge[i].length;

	ret = sroce_start_inline(qp, op, wqe, prod, bytes);
	if (ret)
		return ret;

	for (i = 0; i < num; i++)
		to = sroce_put_bytes(v, to, (void *)(uintptr_t)sge[i].addr,
				     sge[i].length);
	return 0;
}

/* A window without a region is one that is being unbound. */
static int sroce_set_bind(struct sroce_send_wqe *wqe, const struct ibv_mw *mw,
			  enum ibv_mw_type type, uint32_t rkey,
			  const struct ibv_mw_bind_info *info)
{
	if (mw->type != type || (!info->mr && info->length))
		return EINVAL;

	wqe->rkey = rkey;
	wqe->bind_addr = info->addr;
	wqe->bind_len = info->length;
	wqe->bind_lkey = info->mr ? info->mr->lkey : 0;
	wqe->bind_access = info->mw_access_flags;
	return 0;
}

/* So that sroce_destroy_ah() knows for whom to ring. */
static void sroce_use_ah(struct sroce_ah *ah, uint32_t qp_num)
{
	uint32_t user = __atomic_load_n(&ah->user, __ATOMIC_RELAXED);

	if (user == qp_num || user == SROCE_AH_SHARED)
		return;
	if (user || !__atomic_compare_exchange_n(&ah->user, &user, qp_num, false,
						 __ATOMIC_RELAXED,
						 __ATOMIC_RELAXED))
		__atomic_store_n(&ah->user, SROCE_AH_SHARED, __ATOMIC_RELAXED);
}

static void sroce_set_ud(const struct sroce_qp *qp,
			 struct sroce_send_wqe *wqe,
			 struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	sroce_use_ah(to_sah(ah), qp->vqp.qp.qp_num);
	wqe->ah = to_sah(ah)->num;
	wqe->remote_qpn = qpn;
	wqe->remote_qkey = qkey;
}

/* An ATOMIC has its operands where others have the number. */
static void sroce_set_srqn(struct sroce_send_wqe *wqe,
			   const struct sroce_op *op, uint32_t srqn)
{
	if (op->has & SROCE_OP_ATOMIC)
		wqe->imm_data = srqn;
	else if (!(op->has & SROCE_OP_BIND) && wqe->opcode != IBV_WR_LOCAL_INV)
		wqe->remote_srqn = srqn;
}

static void sroce_put_header(const struct sroce_qp *qp,
			     const struct sroce_send_wqe *wqe, uint32_t *prod)
{
	const uint32_t next = *prod + wqe->num_blocks;

	memcpy(sroce_ring_entry(&qp->sq.ring, *prod), wqe, sizeof(*wqe));
	if (qp->sq.posted)
		*sroce_wq_posted(&qp->sq, next) = *sroce_wq_posted(&qp->sq, *prod) + 1;
	*prod = next;
}

static int sroce_set_op(const struct sroce_qp *qp, const struct sroce_op *op,
			struct sroce_send_wqe *wqe,
			const struct ibv_send_wr *wr, enum ibv_mw_type mw_type)
{
	if (op->has & SROCE_OP_IMM)
		wqe->imm_data = wr->imm_data;
	else if (op->has & SROCE_OP_INV)
		wqe->imm_data = wr->invalidate_rkey;

	if (op->has & SROCE_OP_BIND)
		return sroce_set_bind(wqe, wr->bind_mw.mw, mw_type,
				      wr->bind_mw.rkey, &wr->bind_mw.bind_info);

	if (op->has & SROCE_OP_RDMA) {
		wqe->remote_addr = wr->wr.rdma.remote_addr;
		wqe->rkey = wr->wr.rdma.rkey;
	} else if (op->has & SROCE_OP_ATOMIC) {
		wqe->remote_addr = wr->wr.atomic.remote_addr;
		wqe->compare_add = wr->wr.atomic.compare_add;
		wqe->rkey = wr->wr.atomic.rkey;
		if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
			wqe->swap = wr->wr.atomic.swap;
	}

	switch (qp->vqp.qp.qp_type) {
	case IBV_QPT_UD:
		sroce_set_ud(qp, wqe, wr->wr.ud.ah, wr->wr.ud.remote_qpn,
			     wr->wr.ud.remote_qkey);
		break;
	case IBV_QPT_XRC_SEND:
		sroce_set_srqn(wqe, op, wr->qp_type.xrc.remote_srqn);
		break;
	default:
		break;
	}
	return 0;
}

/**
 * sroce_put_send - write one request into the ring
 * @qp: queue pair, its send queue locked
 * @wr: the program's request
 * @mw_type: what it may bind
 * @prod: where; moved on if the request was good
 *
 * Only what keeps the ring in order is checked, and what the program can be
 * told at once. The kernel checks all of it, and the data it refers to.
 *
 * Return: 0 or a positive errno, and then nothing has happened.
 */
static int sroce_put_send(struct sroce_qp *qp, const struct ibv_send_wr *wr,
			  enum ibv_mw_type mw_type, uint32_t *prod)
{
	struct sroce_send_wqe wqe = {
		.wr_id = wr->wr_id,
		.opcode = wr->opcode,
		.flags = wr->send_flags,
	};
	const struct sroce_op *op;
	int ret;

	/* A FLUSH has operands that a struct ibv_send_wr has no place for. */
	op = sroce_find_op(qp, wr->opcode);
	if (!op || op->has & SROCE_OP_FLUSH ||
	    wr->send_flags & ~SROCE_SEND_FLAGS)
		return EINVAL;

	ret = sroce_set_op(qp, op, &wqe, wr, mw_type);
	if (ret)
		return ret;

	if (wr->send_flags & IBV_SEND_INLINE)
		ret = sroce_put_inline(qp, op, &wqe, *prod, wr->sg_list,
				       (uint32_t)wr->num_sge);
	else if (op->has & SROCE_OP_LIST)
		ret = sroce_put_list(qp, op, &wqe, *prod, wr->sg_list,
				     (uint32_t)wr->num_sge);
	else
		ret = sroce_size_wqe(qp, &wqe, *prod, 0);
	if (ret)
		return ret;

	if (qp->sq_sig_all)
		wqe.flags |= SROCE_WQE_SIGNALED;
	sroce_put_header(qp, &wqe, prod);
	return 0;
}

/* Has the kernel to be told of what was posted, and how soon? */
enum sroce_tell {
	SROCE_TELL_NOT,
	SROCE_TELL_SOON,
	SROCE_TELL_NOW,
};

static int sroce_tell(struct sroce_qp *qp, enum sroce_tell tell)
{
	const struct ibv_qp *ibqp = &qp->vqp.qp;

	switch (tell) {
	case SROCE_TELL_SOON:
		return sroce_doorbell_soon(to_sctx(ibqp->context), ibqp->qp_num);
	case SROCE_TELL_NOW:
		return sroce_doorbell(to_sctx(ibqp->context), ibqp->qp_num);
	case SROCE_TELL_NOT:
		return 0;
	}
	return 0;
}

static enum sroce_tell sroce_publish_send(struct sroce_qp *qp, uint32_t prod)
{
	struct sroce_ring_view *ring = &qp->sq.ring;

	if (prod == ring->prod)
		return SROCE_TELL_NOT;

	sroce_ring_publish(ring, prod);
	switch (sroce_ring_state(ring)) {
	case SROCE_RING_ASLEEP:
		/* a stream that has waited long enough waits no more */
		return sroce_ring_lingers(ring) ? SROCE_TELL_NOW : SROCE_TELL_SOON;
	case SROCE_RING_DELAYED:
		sroce_defer(qp);
		return SROCE_TELL_NOT;
	case SROCE_RING_AWAKE:
		return SROCE_TELL_NOT;
	}
	return SROCE_TELL_NOT;
}

static bool sroce_can_send(const struct sroce_qp *qp)
{
	return qp->state >= IBV_QPS_RTS && qp->sq.ring.num;
}

/*
 * The requests of a list become visible together, with one store, and cost at
 * most one doorbell; a bad one does not hold up those before it.
 *
 * The doorbell is rung after the lock is dropped, since the kernel may send
 * packets before it returns. If it fails, its errno is returned and @bad_wr is
 * the whole list: the requests are in the ring, but nobody will look at them.
 * That is EIO, the device is gone and nothing more will complete. A queue that
 * was not asleep when it went has no way to notice; as with hardware that was
 * pulled, posting succeeds as long as there is room, and the program learns
 * from the asynchronous event (IBV_EVENT_DEVICE_FATAL).
 */
static int sroce_post_list(struct sroce_qp *qp, struct ibv_send_wr *wr,
			   enum ibv_mw_type mw_type,
			   struct ibv_send_wr **bad_wr)
{
	struct ibv_send_wr *first = wr;
	struct sroce_wq *sq = &qp->sq;
	enum sroce_tell tell;
	uint32_t prod;
	int ret = 0, err;

	sroce_lock(&sq->lock);
	if (!sroce_can_send(qp)) {
		sroce_unlock(&sq->lock);
		*bad_wr = wr;
		return EINVAL;
	}
	prod = sq->ring.prod;
	for (; wr; wr = wr->next) {
		ret = sroce_put_send(qp, wr, mw_type, &prod);
		if (ret) {
			*bad_wr = wr;
			break;
		}
	}
	tell = sroce_publish_send(qp, prod);
	sroce_unlock(&sq->lock);

	err = sroce_tell(qp, tell);
	if (err) {
		*bad_wr = first;
		return err;
	}
	return ret;
}

/**
 * sroce_post_send - verbs post_send
 *
 * See sroce_post_list(). Windows of type 1 are not bound here (IBTA 10.6.7.2.2),
 * but by sroce_bind_mw().
 *
 * Return: 0 or a positive errno.
 */
int sroce_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
		    struct ibv_send_wr **bad_wr)
{
	return sroce_post_list(to_sqp(ibqp), wr, IBV_MW_TYPE_2, bad_wr);
}

/**
 * sroce_bind_mw - verbs bind_mw: post the binding of a type 1 window
 *
 * The verb gives the window a new key, and says so before it completes: the
 * caller may give the key away behind the request.
 *
 * Return: 0 or a positive errno.
 */
int sroce_bind_mw(struct ibv_qp *ibqp, struct ibv_mw *mw,
		  struct ibv_mw_bind *bind)
{
	struct ibv_send_wr wr = {
		.wr_id = bind->wr_id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = bind->send_flags,
		.bind_mw = {
			.mw = mw,
			.rkey = ibv_inc_rkey(mw->rkey),
			.bind_info = bind->bind_info,
		},
	};
	struct ibv_send_wr *bad;
	int ret;

	if (bind->bind_info.mw_access_flags & IBV_ACCESS_ZERO_BASED)
		return EINVAL;

	ret = sroce_post_list(to_sqp(ibqp), &wr, IBV_MW_TYPE_1, &bad);
	if (!ret)
		mw->rkey = wr.bind_mw.rkey;
	return ret;
}

static int sroce_put_recv(struct sroce_wq *wq, const struct ibv_recv_wr *wr,
			  uint32_t *prod)
{
	uint32_t num = wr->num_sge;
	struct sroce_recv_wqe *wqe;
	uint32_t i;

	if (num > wq->max_sge)
		return EINVAL;
	if (!sroce_ring_space(&wq->ring, *prod))
		return ENOMEM;

	wqe = sroce_ring_entry(&wq->ring, *prod);
	wqe->wr_id = wr->wr_id;
	wqe->num_sge = num;
	wqe->reserved = 0;
	for (i = 0; i < num; i++) {
		wqe->sge[i].addr = wr->sg_list[i].addr;
		wqe->sge[i].length = wr->sg_list[i].length;
		wqe->sge[i].lkey = wr->sg_list[i].lkey;
	}

	++*prod;
	return 0;
}

/* Like sroce_post_list(). Return: 0 or a positive errno. */
static int sroce_put_recv_list(struct sroce_wq *wq, struct ibv_recv_wr *wr,
			       struct ibv_recv_wr **bad_wr)
{
	uint32_t prod = wq->ring.prod;
	int ret = 0;

	for (; wr; wr = wr->next) {
		ret = sroce_put_recv(wq, wr, &prod);
		if (ret) {
			*bad_wr = wr;
			break;
		}
	}
	if (prod != wq->ring.prod)
		sroce_ring_publish(&wq->ring, prod);
	return ret;
}

/**
 * sroce_post_recv_list - post to a receive queue that is not shared
 * @wq: whose lock is held, and dropped here
 * @reset: it is in RESET, by a look with that lock: sroce_cq_reset() forgets what comes before
 *
 * As for sending. The kernel looks at this ring whenever a message comes; it
 * asks for a doorbell only in the error state, to flush what is posted then.
 *
 * Return: 0 or a positive errno.
 */
int sroce_post_recv_list(struct ibv_context *ibctx, struct sroce_wq *wq, bool reset,
			 struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct ibv_recv_wr *first = wr;
	uint32_t prod;
	bool asleep;
	int ret;

	if (reset || !wq->ring.num) {
		sroce_unlock(&wq->lock);
		*bad_wr = wr;
		return EINVAL;
	}
	prod = wq->ring.prod;
	ret = sroce_put_recv_list(wq, wr, bad_wr);
	asleep = wq->ring.prod != prod &&
		 sroce_ring_state(&wq->ring) == SROCE_RING_ASLEEP;
	sroce_unlock(&wq->lock);

	if (asleep) {
		int err = sroce_doorbell(to_sctx(ibctx),
					 wq->key & ~SROCE_WQ_RECV);

		if (err) {
			*bad_wr = first;
			return err;
		}
	}
	return ret;
}

/* Verbs post_recv. */
int sroce_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
		    struct ibv_recv_wr **bad_wr)
{
	struct sroce_wq *rq = &to_sqp(ibqp)->rq;

	sroce_lock(&rq->lock);
	return sroce_post_recv_list(ibqp->context, rq, to_sqp(ibqp)->state == IBV_QPS_RESET, wr,
				    bad_wr);
}

/**
 * sroce_post_srq_recv - verbs post_srq_recv
 *
 * Completions do not say what of a shared queue may be used again: they come to
 * many completion queues in any order. The kernel's index does. Nobody waits
 * for a request here, so there is no doorbell.
 *
 * Return: 0 or a positive errno.
 */
int sroce_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr,
			struct ibv_recv_wr **bad_wr)
{
	struct sroce_wq *wq = &to_ssrq(ibsrq)->wq;
	int ret;

	sroce_lock(&wq->lock);
	ret = sroce_put_recv_list(wq, wr, bad_wr);
	/* the kernel's index is in a line that it writes for each message */
	if (ret == ENOMEM) {
		sroce_ring_refresh(&wq->ring);
		ret = sroce_put_recv_list(wq, *bad_wr, bad_wr);
	}
	sroce_unlock(&wq->lock);

	return ret;
}

/*
 * The ibv_wr_*() calls. The header of the request that is being built is kept
 * aside, its data goes to its place in the ring at once; the next request, or
 * the end, puts the header before it.
 */

static void sroce_wr_error(struct sroce_qp *qp, int err)
{
	if (!qp->build.err)
		qp->build.err = err;
}

static void sroce_wr_finish(struct sroce_qp *qp)
{
	struct sroce_wr_build *b = &qp->build;

	if (b->op && !b->err)
		sroce_put_header(qp, &b->wqe, &b->prod);
	b->op = NULL;
}

/* Return: the header to go on with, NULL if there is an error. */
static struct sroce_send_wqe *sroce_wr_next(struct ibv_qp_ex *ibqp,
					    uint8_t opcode)
{
	struct sroce_qp *qp = to_sqp_ex(ibqp);
	struct sroce_wr_build *b = &qp->build;
	const struct sroce_op *op;

	sroce_wr_finish(qp);
	op = sroce_find_op(qp, opcode);
	if (!op || !(qp->send_ops & op->ex) ||
	    ibqp->wr_flags & ~SROCE_SEND_FLAGS)
		sroce_wr_error(qp, EINVAL);
	if (b->err)
		return NULL;

	/* Inline is what wr_set_inline_data() was called for, not a flag. */
	b->wqe = (struct sroce_send_wqe){
		.wr_id = ibqp->wr_id,
		.opcode = opcode,
		.flags = ibqp->wr_flags & ~SROCE_WQE_INLINE,
	};
	if (qp->sq_sig_all)
		b->wqe.flags |= SROCE_WQE_SIGNALED;
	b->err = sroce_size_wqe(qp, &b->wqe, b->prod, 0);
	if (b->err)
		return NULL;

	b->op = op;
	return &b->wqe;
}

static void sroce_wr_rdma(struct ibv_qp_ex *ibqp, uint8_t opcode,
			  uint32_t rkey, uint64_t addr, __be32 imm_data)
{
	struct sroce_send_wqe *wqe = sroce_wr_next(ibqp, opcode);

	if (!wqe)
		return;

	wqe->imm_data = imm_data;
	wqe->rkey = rkey;
	wqe->remote_addr = addr;
}

static void sroce_wr_rdma_write(struct ibv_qp_ex *ibqp, uint32_t rkey,
				uint64_t addr)
{
	sroce_wr_rdma(ibqp, IBV_WR_RDMA_WRITE, rkey, addr, 0);
}

static void sroce_wr_rdma_write_imm(struct ibv_qp_ex *ibqp, uint32_t rkey,
				    uint64_t addr, __be32 imm_data)
{
	sroce_wr_rdma(ibqp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr, imm_data);
}

static void sroce_wr_rdma_read(struct ibv_qp_ex *ibqp, uint32_t rkey,
			       uint64_t addr)
{
	sroce_wr_rdma(ibqp, IBV_WR_RDMA_READ, rkey, addr, 0);
}

static void sroce_wr_atomic_cmp_swp(struct ibv_qp_ex *ibqp, uint32_t rkey,
				    uint64_t addr, uint64_t compare,
				    uint64_t swap)
{
	struct sroce_send_wqe *wqe = sroce_wr_next(ibqp,
						   IBV_WR_ATOMIC_CMP_AND_SWP);

	if (!wqe)
		return;

	wqe->rkey = rkey;
	wqe->remote_addr = addr;
	wqe->compare_add = compare;
	wqe->swap = swap;
}

static void sroce_wr_atomic_fetch_add(struct ibv_qp_ex *ibqp, uint32_t rkey,
				      uint64_t addr, uint64_t add)
{
	struct sroce_send_wqe *wqe = sroce_wr_next(ibqp,
						   IBV_WR_ATOMIC_FETCH_AND_ADD);

	if (!wqe)
		return;

	wqe->rkey = rkey;
	wqe->remote_addr = addr;
	wqe->compare_add = add;
}

/* The eight bytes are taken now: they may be gone by ibv_wr_complete(). */
static void sroce_wr_atomic_write(struct ibv_qp_ex *ibqp, uint32_t rkey,
				  uint64_t addr, const void *atomic_wr)
{
	struct sroce_send_wqe *wqe = sroce_wr_next(ibqp, IBV_WR_ATOMIC_WRITE);
	struct sroce_qp *qp = to_sqp_ex(ibqp);
	struct sroce_wr_build *b = &qp->build;

	if (!wqe)
		return;

	wqe->rkey = rkey;
	wqe->remote_addr = addr;
	b->err = sroce_start_inline(qp, b->op, wqe, b->prod, sizeof(uint64_t));
	if (!b->err)
		sroce_put_bytes(&qp->sq.ring,
				sroce_data_start(&qp->sq.ring, b->prod),
				atomic_wr, sizeof(uint64_t));
}

static void sroce_wr_flush(struct ibv_qp_ex *ibqp, uint32_t rkey,
			   uint64_t addr, size_t len, uint8_t type,
			   uint8_t level)
{
	struct sroce_send_wqe *wqe = sroce_wr_next(ibqp, IBV_WR_FLUSH);

	if (!wqe)
		return;

	if (len > UINT32_MAX) {
		sroce_wr_error(to_sqp_ex(ibqp), EINVAL);
		return;
	}
	wqe->rkey = rkey;
	wqe->remote_addr = addr;
	wqe->flush_len = len;
	wqe->flush_type = type;
	wqe->flush_level = level;
}

static void sroce_wr_send(struct ibv_qp_ex *ibqp)
{
	sroce_wr_next(ibqp, IBV_WR_SEND);
}

static void sroce_wr_send_imm(struct ibv_qp_ex *ibqp, __be32 imm_data)
{
	struct sroce_send_wqe *wqe = sroce_wr_next(ibqp, IBV_WR_SEND_WITH_IMM);

	if (wqe)
		wqe->imm_data = imm_data;
}

static void sroce_wr_send_inv(struct ibv_qp_ex *ibqp, uint32_t rkey)
{
	struct sroce_send_wqe *wqe = sroce_wr_next(ibqp, IBV_WR_SEND_WITH_INV);

	if (wqe)
		wqe->imm_data = rkey;
}

static void sroce_wr_local_inv(struct ibv_qp_ex *ibqp, uint32_t rkey)
{
	struct sroce_send_wqe *wqe = sroce_wr_next(ibqp, IBV_WR_LOCAL_INV);

	if (wqe)
		wqe->imm_data = rkey;
}

static void sroce_wr_bind_mw(struct ibv_qp_ex *ibqp, struct ibv_mw *mw,
			     uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct sroce_send_wqe *wqe = sroce_wr_next(ibqp, IBV_WR_BIND_MW);

	if (wqe)
		to_sqp_ex(ibqp)->build.err =
			sroce_set_bind(wqe, mw, IBV_MW_TYPE_2, rkey, info);
}

/* Return: the request that the setters are for, NULL if there is none. */
static struct sroce_wr_build *sroce_wr_current(struct sroce_qp *qp)
{
	struct sroce_wr_build *b = &qp->build;

	if (!b->op)
		sroce_wr_error(qp, EINVAL);
	return b->err ? NULL : b;
}

static void sroce_wr_set_ud_addr(struct ibv_qp_ex *ibqp, struct ibv_ah *ah,
				 uint32_t qpn, uint32_t qkey)
{
	struct sroce_qp *qp = to_sqp_ex(ibqp);
	struct sroce_wr_build *b = sroce_wr_current(qp);

	if (!b)
		return;
	if (qp->vqp.qp.qp_type != IBV_QPT_UD)
		b->err = EINVAL;
	else
		sroce_set_ud(qp, &b->wqe, ah, qpn, qkey);
}

static void sroce_wr_set_xrc_srqn(struct ibv_qp_ex *ibqp, uint32_t srqn)
{
	struct sroce_qp *qp = to_sqp_ex(ibqp);
	struct sroce_wr_build *b = sroce_wr_current(qp);

	if (!b)
		return;
	if (qp->vqp.qp.qp_type != IBV_QPT_XRC_SEND)
		b->err = EINVAL;
	else
		sroce_set_srqn(&b->wqe, b->op, srqn);
}

static void sroce_wr_set_sge_list(struct ibv_qp_ex *ibqp, size_t num,
				  const struct ibv_sge *sge)
{
	struct sroce_qp *qp = to_sqp_ex(ibqp);
	struct sroce_wr_build *b = sroce_wr_current(qp);

	if (b)
		b->err = sroce_put_list(qp, b->op, &b->wqe, b->prod, sge, num);
}

static void sroce_wr_set_sge(struct ibv_qp_ex *ibqp, uint32_t lkey,
			     uint64_t addr, uint32_t length)
{
	const struct ibv_sge sge = {
		.addr = addr,
		.length = length,
		.lkey = lkey,
	};

	sroce_wr_set_sge_list(ibqp, 1, &sge);
}

/* Lengths are checked one by one: their sum may not fit 64 bits. */
static void sroce_wr_set_inline_data_list(struct ibv_qp_ex *ibqp, size_t num,
					  const struct ibv_data_buf *buf)
{
	struct sroce_qp *qp = to_sqp_ex(ibqp);
	struct sroce_wr_build *b = sroce_wr_current(qp);
	const struct sroce_ring_view *v = &qp->sq.ring;
	size_t bytes = 0, i;
	uint8_t *to;

	if (!b)
		return;

	for (i = 0; i < num; i++) {
		if (buf[i].length > qp->max_inline - bytes) {
			b->err = EINVAL;
			return;
		}
		bytes += buf[i].length;
	}

	b->err = sroce_start_inline(qp, b->op, &b->wqe, b->prod, bytes);
	if (b->err)
		return;

	to = sroce_data_start(v, b->prod);
	for (i = 0; i < num; i++)
		to = sroce_put_bytes(v, to, buf[i].addr, buf[i].length);
}

static void sroce_wr_set_inline_data(struct ibv_qp_ex *ibqp, void *addr,
				     size_t length)
{
	const struct ibv_data_buf buf = { .addr = addr, .length = length };

	sroce_wr_set_inline_data_list(ibqp, 1, &buf);
}

/* Between start and complete or abort, the queue is locked. */
static void sroce_wr_start(struct ibv_qp_ex *ibqp)
{
	struct sroce_qp *qp = to_sqp_ex(ibqp);

	sroce_lock(&qp->sq.lock);
	qp->build.op = NULL;
	qp->build.prod = qp->sq.ring.prod;
	qp->build.err = sroce_can_send(qp) ? 0 : EINVAL;
}

/* All or nothing; otherwise as sroce_post_list(). */
static int sroce_wr_complete(struct ibv_qp_ex *ibqp)
{
	struct sroce_qp *qp = to_sqp_ex(ibqp);
	enum sroce_tell tell = SROCE_TELL_NOT;
	int ret;

	sroce_wr_finish(qp);
	ret = qp->build.err;
	if (!ret)
		tell = sroce_publish_send(qp, qp->build.prod);
	sroce_unlock(&qp->sq.lock);

	return ret ? ret : sroce_tell(qp, tell);
}

/* What was written lies behind prod, where the kernel does not look. */
static void sroce_wr_abort(struct ibv_qp_ex *ibqp)
{
	sroce_unlock(&to_sqp_ex(ibqp)->sq.lock);
}

/**
 * sroce_qp_set_ex - let @qp be posted to by ibv_wr_*()
 * @qp: queue pair
 * @flush: its ibv_qp_ex has wr_flush, see sroce_find_qp_ex()
 *
 * Those that @qp was not created for are there, too, and make the call fail.
 */
void sroce_qp_set_ex(struct sroce_qp *qp, bool flush)
{
	struct ibv_qp_ex *ex = &qp->vqp.qp_ex;

	ex->wr_atomic_cmp_swp = sroce_wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = sroce_wr_atomic_fetch_add;
	ex->wr_atomic_write = sroce_wr_atomic_write;
	ex->wr_bind_mw = sroce_wr_bind_mw;
	ex->wr_local_inv = sroce_wr_local_inv;
	ex->wr_rdma_read = sroce_wr_rdma_read;
	ex->wr_rdma_write = sroce_wr_rdma_write;
	ex->wr_rdma_write_imm = sroce_wr_rdma_write_imm;
	ex->wr_send = sroce_wr_send;
	ex->wr_send_imm = sroce_wr_send_imm;
	ex->wr_send_inv = sroce_wr_send_inv;
	if (flush)
		ex->wr_flush = sroce_wr_flush;

	ex->wr_set_ud_addr = sroce_wr_set_ud_addr;
	ex->wr_set_xrc_srqn = sroce_wr_set_xrc_srqn;
	ex->wr_set_inline_data = sroce_wr_set_inline_data;
	ex->wr_set_inline_data_list = sroce_wr_set_inline_data_list;
	ex->wr_set_sge = sroce_wr_set_sge;
	ex->wr_set_sge_list = sroce_wr_set_sge_list;

	ex->wr_start = sroce_wr_start;
	ex->wr_complete = sroce_wr_complete;
	ex->wr_abort = sroce_wr_abort;
}
