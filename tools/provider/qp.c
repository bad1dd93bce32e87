// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Posting: from the program's work requests to the rings.
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
	      (int)IB_UVERBS_WR_SEND_WITH_INV == IBV_WR_SEND_WITH_INV,
	      "opcodes are ibv_wr_opcode");

#define SROCE_SEND_FLAGS	(SROCE_WQE_FENCE | SROCE_WQE_SIGNALED | \
				 SROCE_WQE_SOLICITED | SROCE_WQE_INLINE)

/* What a request of an opcode has besides its list. */
enum {
	SROCE_OP_INLINE = 1 << 0,	/* may have data in place of the list */
	SROCE_OP_IMM	= 1 << 1,
	SROCE_OP_INV	= 1 << 2,
	SROCE_OP_RDMA	= 1 << 3,
	SROCE_OP_ATOMIC	= 1 << 4,
};

/**
 * struct sroce_op - an opcode
 * @rc: allowed on a reliable connection
 * @uc: allowed on an unreliable connection
 * @has: SROCE_OP_*
 */
struct sroce_op {
	bool rc;
	bool uc;
	uint8_t has;
};

/*
 * Datagrams are missing: they need the number of an address handle, which the
 * kernel does not tell yet. A request that names a wrong one would go astray.
 */
static const struct sroce_op sroce_ops[] = {
	[IBV_WR_RDMA_WRITE] = {
		.rc = true, .uc = true,
		.has = SROCE_OP_RDMA | SROCE_OP_INLINE,
	},
	[IBV_WR_RDMA_WRITE_WITH_IMM] = {
		.rc = true, .uc = true,
		.has = SROCE_OP_RDMA | SROCE_OP_INLINE | SROCE_OP_IMM,
	},
	[IBV_WR_SEND] = {
		.rc = true, .uc = true,
		.has = SROCE_OP_INLINE,
	},
	[IBV_WR_SEND_WITH_IMM] = {
		.rc = true, .uc = true,
		.has = SROCE_OP_INLINE | SROCE_OP_IMM,
	},
	[IBV_WR_RDMA_READ] = {
		.rc = true,
		.has = SROCE_OP_RDMA,
	},
	[IBV_WR_ATOMIC_CMP_AND_SWP] = {
		.rc = true,
		.has = SROCE_OP_ATOMIC,
	},
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = {
		.rc = true,
		.has = SROCE_OP_ATOMIC,
	},
	[IBV_WR_SEND_WITH_INV] = {
		.rc = true,
		.has = SROCE_OP_INLINE | SROCE_OP_INV,
	},
};

static const struct sroce_op *sroce_find_op(const struct sroce_qp *qp,
					    uint32_t opcode)
{
	const struct sroce_op *op;

	if (opcode >= sizeof(sroce_ops) / sizeof(sroce_ops[0]))
		return NULL;

	op = &sroce_ops[opcode];
	switch (qp->vqp.qp.qp_type) {
	case IBV_QPT_RC:
		return op->rc ? op : NULL;
	case IBV_QPT_UC:
		return op->uc ? op : NULL;
	default:
		return NULL;
	}
}

/* Of a list as long as a request's may be, this cannot overflow. */
static uint64_t sroce_list_bytes(const struct ibv_sge *sge, uint32_t num)
{
	uint64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < num; i++)
		bytes += sge[i].length;
	return bytes;
}

/**
 * sroce_gather - copy inline data behind the header at @index
 *
 * The data is a run of bytes that may go on at the start of the ring.
 */
static void sroce_gather(const struct sroce_ring_view *v, uint32_t index,
			 const struct ibv_sge *sge, uint32_t num)
{
	uint8_t *end = v->entries + (size_t)v->num * SROCE_SQ_BLOCK;
	uint8_t *to = (uint8_t *)sroce_ring_entry(v, index) + SROCE_WQE_DATA;
	uint32_t i;

	for (i = 0; i < num; i++) {
		const uint8_t *from = (const void *)(uintptr_t)sge[i].addr;
		size_t len = sge[i].length;
		size_t room = end - to;

		if (len >= room) {
			memcpy(to, from, room);
			from += room;
			len -= room;
			to = v->entries;
		}
		/* An empty entry may point nowhere. */
		if (len) {
			memcpy(to, from, len);
			to += len;
		}
	}
}

/* Copy the list behind the header at @index. */
static void sroce_put_list(const struct sroce_ring_view *v, uint32_t index,
			   const struct ibv_sge *sge, uint32_t num)
{
	uint8_t *end = v->entries + (size_t)v->num * SROCE_SQ_BLOCK;
	uint8_t *to = (uint8_t *)sroce_ring_entry(v, index) + SROCE_WQE_DATA;
	uint32_t i;

	for (i = 0; i < num; i++) {
		struct sroce_sge *s = (struct sroce_sge *)to;

		s->addr = sge[i].addr;
		s->length = sge[i].length;
		s->lkey = sge[i].lkey;

		to += sizeof(*s);
		if (to == end)
			to = v->entries;
	}
}

/**
 * sroce_put_send - write one request into the ring
 * @qp: queue pair, its send queue locked
 * @wr: the program's request
 * @prod: where; moved on if the request was good
 *
 * Only what keeps the ring in order is checked, and what the program can be
 * told at once. The kernel checks all of it, and the data it refers to.
 *
 * Return: 0 or a positive errno, and then nothing has happened.
 */
static int sroce_put_send(struct sroce_qp *qp, const struct ibv_send_wr *wr,
			  uint32_t *prod)
{
	const struct sroce_ring_view *v = &qp->sq.ring;
	struct sroce_send_wqe wqe = {
		.wr_id = wr->wr_id,
		.opcode = wr->opcode,
		.flags = wr->send_flags,
	};
	uint32_t num = wr->num_sge;
	const struct sroce_op *op;
	uint64_t bytes;

	op = sroce_find_op(qp, wr->opcode);
	if (!op || wr->send_flags & ~SROCE_SEND_FLAGS)
		return EINVAL;
	if (num > qp->sq.max_sge)
		return EINVAL;

	if (wr->send_flags & IBV_SEND_INLINE) {
		bytes = sroce_list_bytes(wr->sg_list, num);
		if (!(op->has & SROCE_OP_INLINE) || bytes > qp->max_inline)
			return EINVAL;
		wqe.inline_len = bytes;
	} else {
		bytes = num * sizeof(struct sroce_sge);
		wqe.num_sge = num;
	}

	wqe.num_blocks = (SROCE_WQE_DATA + bytes + SROCE_SQ_BLOCK - 1) /
			 SROCE_SQ_BLOCK;
	if (sroce_ring_space(v, *prod) < wqe.num_blocks)
		return ENOMEM;

	if (qp->sq_sig_all)
		wqe.flags |= SROCE_WQE_SIGNALED;

	if (op->has & SROCE_OP_IMM)
		wqe.imm_data = wr->imm_data;
	else if (op->has & SROCE_OP_INV)
		wqe.imm_data = wr->invalidate_rkey;

	if (op->has & SROCE_OP_RDMA) {
		wqe.remote_addr = wr->wr.rdma.remote_addr;
		wqe.rkey = wr->wr.rdma.rkey;
	} else if (op->has & SROCE_OP_ATOMIC) {
		wqe.remote_addr = wr->wr.atomic.remote_addr;
		wqe.compare_add = wr->wr.atomic.compare_add;
		wqe.rkey = wr->wr.atomic.rkey;
		if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
			wqe.swap = wr->wr.atomic.swap;
	}

	memcpy(sroce_ring_entry(v, *prod), &wqe, sizeof(wqe));
	if (wr->send_flags & IBV_SEND_INLINE)
		sroce_gather(v, *prod, wr->sg_list, num);
	else
		sroce_put_list(v, *prod, wr->sg_list, num);

	*prod += wqe.num_blocks;
	return 0;
}

/**
 * sroce_post_send - verbs post_send
 *
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
 *
 * Return: 0 or a positive errno.
 */
int sroce_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
		    struct ibv_send_wr **bad_wr)
{
	struct sroce_qp *qp = to_sqp(ibqp);
	struct sroce_wq *sq = &qp->sq;
	struct ibv_send_wr *first = wr;
	bool ring_doorbell = false;
	uint32_t prod;
	int ret = 0;

	if (ibqp->state < IBV_QPS_RTS) {
		*bad_wr = wr;
		return EINVAL;
	}

	pthread_spin_lock(&sq->lock);
	prod = sq->ring.prod;
	for (; wr; wr = wr->next) {
		ret = sroce_put_send(qp, wr, &prod);
		if (ret) {
			*bad_wr = wr;
			break;
		}
	}
	if (prod != sq->ring.prod) {
		sroce_ring_publish(&sq->ring, prod);
		ring_doorbell = sroce_ring_asleep(&sq->ring);
	}
	pthread_spin_unlock(&sq->lock);

	if (ring_doorbell) {
		int err = sroce_doorbell(to_sctx(ibqp->context), ibqp->qp_num);

		if (err) {
			*bad_wr = first;
			return err;
		}
	}
	return ret;
}

static int sroce_put_recv(struct sroce_wq *rq, const struct ibv_recv_wr *wr,
			  uint32_t *prod)
{
	uint32_t num = wr->num_sge;
	struct sroce_recv_wqe *wqe;
	uint32_t i;

	if (num > rq->max_sge)
		return EINVAL;
	if (!sroce_ring_space(&rq->ring, *prod))
		return ENOMEM;

	wqe = sroce_ring_entry(&rq->ring, *prod);
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

/**
 * sroce_post_recv - verbs post_recv
 *
 * As sroce_post_send(). The kernel looks at this ring whenever a message
 * comes; it asks for a doorbell only in the error state, to flush what is
 * posted then.
 *
 * Return: 0 or a positive errno.
 */
int sroce_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
		    struct ibv_recv_wr **bad_wr)
{
	struct sroce_wq *rq = &to_sqp(ibqp)->rq;
	struct ibv_recv_wr *first = wr;
	bool ring_doorbell = false;
	uint32_t prod;
	int ret = 0;

	if (ibqp->state == IBV_QPS_RESET || !rq->ring.num) {
		*bad_wr = wr;
		return EINVAL;
	}

	pthread_spin_lock(&rq->lock);
	prod = rq->ring.prod;
	for (; wr; wr = wr->next) {
		ret = sroce_put_recv(rq, wr, &prod);
		if (ret) {
			*bad_wr = wr;
			break;
		}
	}
	if (prod != rq->ring.prod) {
		sroce_ring_publish(&rq->ring, prod);
		ring_doorbell = sroce_ring_asleep(&rq->ring);
	}
	pthread_spin_unlock(&rq->lock);

	if (ring_doorbell) {
		int err = sroce_doorbell(to_sctx(ibqp->context), ibqp->qp_num);

		if (err) {
			*bad_wr = first;
			return err;
		}
	}
	return ret;
}
