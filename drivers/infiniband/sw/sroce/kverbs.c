// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Consumers in the kernel. Their rings are those of programs, in memory that
 * nobody maps: what a provider does for a program, these calls do for them, and
 * the data path does not know whose ring it looks at.
 *
 * All of them may be called in any context (Documentation/infiniband/
 * core_locking.rst), and their locks are leaves.
 */

#include "sroce.h"

/*
 * The requester sends packets, and may call completion handlers, before it
 * returns. With interrupts or bottom halves off the caller may hold a lock
 * that a handler takes, and the network stack may not be entered: then a
 * task does it. Without, a handler could interrupt the caller as well; but
 * with PREEMPT_RT spin_lock_irqsave() leaves interrupts on, and nothing tells.
 */
static void kick(struct sroce_qp *qp)
{
	if (IS_ENABLED(CONFIG_PREEMPT_RT) || irqs_disabled() || in_softirq())
		sroce_task_schedule(&qp->sq.task);
	else
		sroce_qp_kick(qp);
}

/*
 * What has been published may be completed at once, and its consumer may then destroy the queue
 * pair while who posted is still in kick(): the number is used from before that on.
 */
static void post_end(struct sroce_qp *qp, struct sroce_qpn *num, bool wake)
{
	if (wake)
		kick(qp);
	sroce_qpn_unuse(num);
}

/* Entries that may be produced; an entry is free once it has been copied. */
static u32 ring_room(const struct sroce_queue *q)
{
	/* pairs with the release by who has copied them */
	return q->mask + 1 - (q->ring->prod - smp_load_acquire(&q->ring->cons));
}

/* Publish up to @prod. Return: somebody has to be told. */
static bool ring_publish(struct sroce_queue *q, u32 prod)
{
	/* pairs with the fetch's acquire: the entries are whole */
	smp_store_release(&q->ring->prod, prod);
	/* pairs with the barrier between a flag's rise and the last look at @prod */
	smp_mb();
	return READ_ONCE(q->ring->flags) & SROCE_RING_NEED_WAKEUP;
}

/* Send requests */

/* Byte @off of the request whose first block is @index. */
static void *sq_byte(const struct sroce_queue *q, u32 index, u32 off)
{
	return queue_entry(q, index + off / SROCE_SQ_BLOCK) + off % SROCE_SQ_BLOCK;
}

static void put_sges(const struct sroce_queue *q, u32 index, const struct ib_send_wr *wr)
{
	u32 off = sizeof(struct sroce_send_wqe);
	int i;

	for (i = 0; i < wr->num_sge; i++, off += sizeof(struct sroce_sge)) {
		struct sroce_sge *sge = sq_byte(q, index, off);

		sge->addr = wr->sg_list[i].addr;
		sge->length = wr->sg_list[i].length;
		sge->lkey = wr->sg_list[i].lkey;
	}
}

static void put_inline(const struct sroce_queue *q, u32 index, const struct ib_send_wr *wr)
{
	u32 off = sizeof(struct sroce_send_wqe);
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		const u8 *from = (const u8 *)(uintptr_t)wr->sg_list[i].addr;
		u32 left = wr->sg_list[i].length;

		while (left) {
			u32 n = min_t(u32, left, SROCE_SQ_BLOCK - off % SROCE_SQ_BLOCK);

			memcpy(sq_byte(q, index, off), from, n);
			from += n;
			left -= n;
			off += n;
		}
	}
}

/* Bytes behind the header, or an errno if that is more than there may be. */
static int data_len(const struct sroce_qp *qp, const struct ib_send_wr *wr)
{
	u32 len = 0;
	int i;

	if (wr->num_sge < 0 || wr->num_sge > SROCE_MAX_SGE)
		return -EINVAL;
	if (!(wr->send_flags & IB_SEND_INLINE))
		return wr->num_sge > qp->max_send_sge ? -EINVAL :
							wr->num_sge * sizeof(struct sroce_sge);
	for (i = 0; i < wr->num_sge; i++) {
		if (wr->sg_list[i].length > qp->max_inline - len)
			return -EINVAL;
		len += wr->sg_list[i].length;
	}
	return len;
}

/* A request's flags, as they are */
static_assert(IB_SEND_FENCE == SROCE_WQE_FENCE && IB_SEND_SIGNALED == SROCE_WQE_SIGNALED &&
	      IB_SEND_SOLICITED == SROCE_WQE_SOLICITED && IB_SEND_INLINE == SROCE_WQE_INLINE);

static int put_datagram(const struct sroce_qp *qp, struct sroce_send_wqe *wqe,
			const struct ib_send_wr *wr)
{
	const struct ib_ud_wr *ud = ud_wr(wr);

	/* elsewhere it is the queue pair's, and this not set */
	if (!ud->ah || (qp->type == IB_QPT_GSI && ud->pkey_index))
		return -EINVAL;
	wqe->ah = to_sah(ud->ah)->av->num;
	wqe->remote_qpn = ud->remote_qpn;
	wqe->remote_qkey = ud->remote_qkey;
	return 0;
}

static void put_remote(struct sroce_send_wqe *wqe, const struct ib_send_wr *wr)
{
	wqe->remote_addr = rdma_wr(wr)->remote_addr;
	wqe->rkey = rdma_wr(wr)->rkey;
}

static void put_atomic(struct sroce_send_wqe *wqe, const struct ib_send_wr *wr)
{
	const struct ib_atomic_wr *atomic = atomic_wr(wr);

	wqe->remote_addr = atomic->remote_addr;
	wqe->rkey = atomic->rkey;
	wqe->compare_add = atomic->compare_add;
	wqe->swap = wqe->opcode == IB_WR_ATOMIC_CMP_AND_SWP ? atomic->swap : 0;
}

/*
 * Masked atomics are no operations of IBTA. With masks that leave all of the quadword to them they
 * do what IBTA's do, and RDS posts all of its own so. Programs of RDS may name others.
 */
static int put_masked_atomic(struct sroce_send_wqe *wqe, const struct ib_send_wr *wr)
{
	const struct ib_atomic_wr *atomic = atomic_wr(wr);
	const bool swap = wr->opcode == IB_WR_MASKED_ATOMIC_CMP_AND_SWP;

	/* the bits that a sum does not carry out of: the last one never does */
	if (swap ? ~atomic->compare_add_mask || ~atomic->swap_mask :
		   atomic->compare_add_mask & ~BIT_ULL(63))
		return -EOPNOTSUPP;
	wqe->opcode = swap ? IB_WR_ATOMIC_CMP_AND_SWP : IB_WR_ATOMIC_FETCH_AND_ADD;
	put_atomic(wqe, wr);
	return 0;
}

/*
 * By the operation and not by the transport: ib_drain_sq() posts a WRITE
 * to any queue pair, to be flushed. What a transport does not have, the requester
 * refuses when it gets there.
 */
static int put_operation(const struct sroce_qp *qp, struct sroce_send_wqe *wqe,
			 const struct ib_send_wr *wr)
{
	/* Linux 6.1 has no name for all of them */
	switch ((u32)wr->opcode) {
	case IB_WR_SEND_WITH_IMM:
		wqe->imm_data = (__force u32)wr->ex.imm_data;
		fallthrough;
	case IB_WR_SEND:
		return qp->transport == WIRE_UD ? put_datagram(qp, wqe, wr) : 0;
	case IB_WR_SEND_WITH_INV:
	case IB_WR_LOCAL_INV:
		wqe->imm_data = wr->ex.invalidate_rkey;
		return 0;
	case IB_WR_RDMA_WRITE_WITH_IMM:
		wqe->imm_data = (__force u32)wr->ex.imm_data;
		fallthrough;
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_READ:
	case SROCE_WR_ATOMIC_WRITE:
		put_remote(wqe, wr);
		return 0;
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		put_atomic(wqe, wr);
		return 0;
	case IB_WR_MASKED_ATOMIC_CMP_AND_SWP:
	case IB_WR_MASKED_ATOMIC_FETCH_AND_ADD:
		return put_masked_atomic(wqe, wr);
	case IB_WR_REG_MR:
		return sroce_fast_prepare(wqe, reg_wr(wr));
	default:
		return -EOPNOTSUPP;
	}
}

static int put_send(struct sroce_qp *qp, const struct ib_send_wr *wr, u32 *prod, u32 *room)
{
	const int flags = IB_SEND_FENCE | IB_SEND_SIGNALED | IB_SEND_SOLICITED | IB_SEND_INLINE;
	struct sroce_queue *q = &qp->sq.q;
	struct sroce_send_wqe *wqe = queue_entry(q, *prod);
	int len = data_len(qp, wr);
	u32 blocks;
	int err;

	if (len < 0 || wr->send_flags & ~flags)
		return -EINVAL;
	blocks = DIV_ROUND_UP(sizeof(*wqe) + len, SROCE_SQ_BLOCK);
	if (blocks > *room)
		return -ENOMEM;

	*wqe = (struct sroce_send_wqe) {
		.wr_id = wr->wr_id,
		.opcode = (u8)wr->opcode,
		.num_blocks = blocks,
		.flags = wr->send_flags,
	};
	err = put_operation(qp, wqe, wr);
	if (err)
		return err;
	if (wr->send_flags & IB_SEND_INLINE) {
		wqe->inline_len = len;
		put_inline(q, *prod, wr);
	} else {
		wqe->num_sge = wr->num_sge;
		put_sges(q, *prod, wr);
	}
	*prod += blocks;
	*room -= blocks;
	return 0;
}

/**
 * sroce_post_send - ib_device_ops: post send requests
 * @ibqp: queue pair of a kernel consumer
 * @wr: the list of them
 * @bad_wr: the first that was not posted, if that fails
 *
 * Any context. A request's place is free again when it is complete, whether or
 * not it was to make a completion: consumers in the kernel count what they have
 * posted, and do not use -ENOMEM for flow control.
 *
 * Return: 0 or an errno; requests before @bad_wr are posted.
 */
int sroce_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		    const struct ib_send_wr **bad_wr)
{
	struct sroce_qp *qp = to_sqp(ibqp);
	struct sroce_qpn *num = qp->num;
	struct sroce_sq *sq = &qp->sq;
	unsigned long flags;
	u32 prod, room;
	bool wake;
	int err = 0;

	if (READ_ONCE(qp->state) < IB_QPS_RTS || !sroce_qpn_use(num)) {
		*bad_wr = wr;
		return -EINVAL;
	}

	spin_lock_irqsave(&sq->post_lock, flags);
	prod = sq->q.ring->prod;
	room = ring_room(&sq->q);
	for (; wr; wr = wr->next) {
		err = put_send(qp, wr, &prod, &room);
		if (err) {
			*bad_wr = wr;
			break;
		}
	}
	wake = ring_publish(&sq->q, prod);
	spin_unlock_irqrestore(&sq->post_lock, flags);

	post_end(qp, num, wake);
	return err;
}

/**
 * sroce_send_room - may so many blocks be posted?
 * @qp: queue pair, to which nobody else posts
 * @blocks: of requests
 *
 * Any context.
 *
 * Return: true if there is room for them.
 */
bool sroce_send_room(const struct sroce_qp *qp, u32 blocks)
{
	return ring_room(&qp->sq.q) >= blocks;
}

/* Receive requests */

static int put_recv(struct sroce_queue *q, u32 max_sge, const struct ib_recv_wr *wr, u32 *prod,
		    u32 *room)
{
	struct sroce_recv_wqe *wqe = queue_entry(q, *prod);
	int i;

	if (wr->num_sge < 0 || wr->num_sge > (int)max_sge)
		return -EINVAL;
	if (!*room)
		return -ENOMEM;

	wqe->wr_id = wr->wr_id;
	wqe->num_sge = wr->num_sge;
	wqe->reserved = 0;
	for (i = 0; i < wr->num_sge; i++) {
		wqe->sge[i].addr = wr->sg_list[i].addr;
		wqe->sge[i].length = wr->sg_list[i].length;
		wqe->sge[i].lkey = wr->sg_list[i].lkey;
	}
	++*prod;
	--*room;
	return 0;
}

static int put_recv_list(struct sroce_queue *q, u32 max_sge, const struct ib_recv_wr *wr,
			 const struct ib_recv_wr **bad_wr, bool *wake)
{
	u32 prod = q->ring->prod;
	u32 room = ring_room(q);
	int err = 0;

	for (; wr; wr = wr->next) {
		err = put_recv(q, max_sge, wr, &prod, &room);
		if (err) {
			*bad_wr = wr;
			break;
		}
	}
	*wake = ring_publish(q, prod);
	return err;
}

/**
 * sroce_post_recv - ib_device_ops: post receive requests
 * @ibqp: queue pair of a kernel consumer
 * @wr: the list of them
 * @bad_wr: the first that was not posted, if that fails
 *
 * Any context.
 *
 * Return: 0 or an errno; requests before @bad_wr are posted.
 */
int sroce_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		    const struct ib_recv_wr **bad_wr)
{
	struct sroce_qp *qp = to_sqp(ibqp);
	struct sroce_qpn *num = qp->num;
	struct sroce_rq *rq = &qp->rq;
	unsigned long flags;
	bool wake;
	int err;

	/* with a shared receive queue there is no ring */
	if (READ_ONCE(qp->state) == IB_QPS_RESET || !rq->q.ring || !sroce_qpn_use(num)) {
		*bad_wr = wr;
		return -EINVAL;
	}

	spin_lock_irqsave(&rq->post_lock, flags);
	err = put_recv_list(&rq->q, qp->max_recv_sge, wr, bad_wr, &wake);
	spin_unlock_irqrestore(&rq->post_lock, flags);

	/* in ERR somebody has to flush it */
	post_end(qp, num, wake);
	return err;
}

/**
 * sroce_post_srq_recv - ib_device_ops: post receive requests to a shared queue
 * @ibsrq: shared receive queue of a kernel consumer
 * @wr: the list of them
 * @bad_wr: the first that was not posted, if that fails
 *
 * Any context.
 *
 * Return: 0 or an errno; requests before @bad_wr are posted.
 */
int sroce_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
			const struct ib_recv_wr **bad_wr)
{
	struct sroce_srq *srq = to_ssrq(ibsrq);
	unsigned long flags;
	bool wake;
	int err;

	spin_lock_irqsave(&srq->post_lock, flags);
	err = put_recv_list(&srq->q, srq->max_sge, wr, bad_wr, &wake);
	spin_unlock_irqrestore(&srq->post_lock, flags);
	return err;
}

/* Completions */

/* Entries that are looked at with interrupts off */
#define POLL_LOCKED	1024

/* Of no queue pair: there is no QP0 */
#define NO_QPN		0

static int wc_flags(u16 flags)
{
	return (flags & SROCE_WC_GRH ? IB_WC_GRH | IB_WC_WITH_NETWORK_HDR_TYPE : 0) |
	       (flags & SROCE_WC_WITH_IMM ? IB_WC_WITH_IMM : 0) |
	       (flags & SROCE_WC_WITH_INV ? IB_WC_WITH_INVALIDATE : 0) |
	       (flags & SROCE_WC_VLAN ? IB_WC_WITH_VLAN : 0);
}

static void put_wc(struct ib_wc *wc, const struct sroce_cqe *cqe, struct ib_qp *ibqp)
{
	*wc = (struct ib_wc) {
		.wr_id = cqe->wr_id,
		.status = cqe->status,
		.opcode = cqe->opcode,
		.vendor_err = cqe->vendor_err,
		.byte_len = cqe->byte_len,
		.qp = ibqp,
		.src_qp = cqe->src_qp,
		.wc_flags = wc_flags(cqe->wc_flags),
		.pkey_index = cqe->pkey_index,
		.port_num = 1,
		.vlan_id = cqe->cvlan,
		.network_hdr_type = cqe->sl == SROCE_SL_IPV4 ? RDMA_NETWORK_IPV4 :
							       RDMA_NETWORK_IPV6,
	};
	if (cqe->wc_flags & SROCE_WC_WITH_INV)
		wc->ex.invalidate_rkey = cqe->imm_data;
	else
		wc->ex.imm_data = (__force __be32)cqe->imm_data;
}

/* The consumer keeps a queue pair while it polls for it. */
static struct ib_qp *find_qp(u32 qpn)
{
	struct sroce_qp *qp = sroce_qp_get(qpn);

	if (!qp)
		return NULL;
	sroce_qp_put(qp);
	return &qp->ibqp;
}

/*
 * Entries are looked at POLL_LOCKED at a time, with interrupts off, as most may be for nobody.
 * Return: there may be more for @wc, of which @n are there.
 */
static bool poll_some(struct sroce_cq *cq, int num, struct ib_wc *wc, int *n)
{
	struct sroce_ring *ring = cq->q.ring;
	struct ib_qp *ibqp = NULL;
	unsigned long flags;
	u32 cons, prod, left, qpn = 0;

	spin_lock_irqsave(&cq->poll_lock, flags);
	cons = ring->cons;
	/* pairs with the release in sroce_cq_post(): the entries are whole */
	prod = smp_load_acquire(&ring->prod);
	left = min_t(u32, prod - cons, POLL_LOCKED);
	for (; left && *n < num; left--, cons++) {
		const struct sroce_cqe *cqe = queue_entry(&cq->q, cons);

		if (!ibqp || cqe->qp_num != qpn) {
			qpn = cqe->qp_num;
			ibqp = find_qp(qpn);
		}
		if (ibqp)
			put_wc(&wc[(*n)++], cqe, ibqp);
	}
	/* the entries have been read before they may be used again */
	smp_store_release(&ring->cons, cons);
	spin_unlock_irqrestore(&cq->poll_lock, flags);
	return cons != prod && *n < num;
}

/**
 * sroce_poll_cq - ib_device_ops: take completions
 * @ibcq: completion queue of a kernel consumer
 * @num: how many at most
 * @wc: where they go
 *
 * Any context. What a queue pair has left that has gone to RESET since or was destroyed is not
 * for anybody any more: the memory that its wr_cqe points to need not be there.
 *
 * Return: how many there are.
 */
int sroce_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc)
{
	struct sroce_cq *cq = to_scq(ibcq);
	int n = 0;

	while (poll_some(cq, num, wc, &n))
		;
	return n;
}

/* Entries of @from to @to, POLL_LOCKED of them at most. Return: how many there were. */
static u32 forget_some(struct sroce_cq *cq, u32 from, u32 to, u32 qpn)
{
	struct sroce_ring *ring = cq->q.ring;
	unsigned long flags;
	u32 i, n = min_t(u32, to - from, POLL_LOCKED);

	spin_lock_irqsave(&cq->poll_lock, flags);
	for (i = from; i != from + n; i++) {
		struct sroce_cqe *cqe = queue_entry(&cq->q, i);

		/* where it has been polled, another may be being written */
		if ((s32)(i - ring->cons) >= 0 && cqe->qp_num == qpn)
			cqe->qp_num = NO_QPN;
	}
	spin_unlock_irqrestore(&cq->poll_lock, flags);
	return n;
}

/**
 * sroce_cq_forget - what a queue pair has completed is not for its consumer any more
 * @cq: of a kernel consumer
 * @qpn: the queue pair, in RESET
 *
 * IBTA Vol.1 10.3.1: it is as if it were new. And where events wait for more completions to
 * come, none may come any more: no event is due when this has returned, as who frees the
 * queue has seen to its work by then (ib_free_cq()). Sleeps.
 */
void sroce_cq_forget(struct sroce_cq *cq, u32 qpn)
{
	struct sroce_ring *ring = cq->q.ring;
	/* others poll: first where they are, or it lies behind the end */
	u32 from = smp_load_acquire(&ring->cons);
	u32 to = smp_load_acquire(&ring->prod);

	while (from != to) {
		from += forget_some(cq, from, to, qpn);
		cond_resched();
	}
	sroce_cq_settle(cq);
}

/**
 * sroce_req_notify_cq - ib_device_ops: ask for an event
 * @ibcq: completion queue
 * @flags: for which completion, and whether to look for some that are there
 *
 * A program arms in its ring, and calls for what it might have missed. Any context, but
 * for that.
 *
 * Return: 1 if there are completions and that was asked; else 0.
 */
int sroce_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	struct sroce_cq *cq = to_scq(ibcq);
	struct sroce_ring *ring = cq->q.ring;
	u32 arm, want;

	if (cq->ibuc) {
		sroce_cq_missed(cq);
		return 0;
	}
	arm = READ_ONCE(ring->arm);
	want = (flags & IB_CQ_SOLICITED_MASK) == IB_CQ_SOLICITED ? SROCE_CQ_ARM_SOLICITED :
								   SROCE_CQ_ARM_NEXT;
	/* a full barrier, which pairs with that in sroce_cq_post() */
	while (!try_cmpxchg(&ring->arm, &arm, arm | want))
		;
	return flags & IB_CQ_REPORT_MISSED_EVENTS &&
	       READ_ONCE(ring->prod) != READ_ONCE(ring->cons);
}
