// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Requests: out of a program's ring, checked, and completed in their order. What
 * becomes of them in between is in send.c.
 */
#include <linux/overflow.h>
#include <rdma/ib_user_verbs.h>

#include "request.h"

#define QPT(type)	BIT(IB_QPT_##type)
#define QPT_RELIABLE	(QPT(RC) | QPT(XRC_INI))
#define QPT_CONNECTED	(QPT_RELIABLE | QPT(UC))
#define QPT_DATAGRAM	(QPT(UD) | QPT(GSI))

#define STREAM(name, last, only, wc, qpts) {					\
	WIRE_##name##_FIRST, WIRE_##name##_MIDDLE, WIRE_##last, WIRE_##only,	\
	wc, SEND_STREAM, true, false, qpts,					\
}
#define SINGLE(op, wc, kind, inlined) { 0, 0, 0, op, wc, kind, inlined, false, QPT_RELIABLE }
#define LOCAL(wc, kernel) { 0, 0, 0, 0, wc, SEND_LOCAL, false, kernel, QPT_CONNECTED }

/* By enum ib_uverbs_wr_opcode, and what enum ib_wr_opcode has behind it */
const struct sroce_send_op sroce_send_ops[] = {
	[IB_UVERBS_WR_RDMA_WRITE] =
		STREAM(WRITE, WRITE_LAST, WRITE_ONLY, IB_UVERBS_WC_RDMA_WRITE, QPT_CONNECTED),
	[IB_UVERBS_WR_RDMA_WRITE_WITH_IMM] =
		STREAM(WRITE, WRITE_LAST_IMM, WRITE_ONLY_IMM, IB_UVERBS_WC_RDMA_WRITE, QPT_CONNECTED),
	[IB_UVERBS_WR_SEND] =
		STREAM(SEND, SEND_LAST, SEND_ONLY, IB_UVERBS_WC_SEND,
		       QPT_CONNECTED | QPT_DATAGRAM | QPT(RAW_PACKET)),
	[IB_UVERBS_WR_SEND_WITH_IMM] =
		STREAM(SEND, SEND_LAST_IMM, SEND_ONLY_IMM, IB_UVERBS_WC_SEND,
		       QPT_CONNECTED | QPT_DATAGRAM),
	[IB_UVERBS_WR_RDMA_READ] =
		SINGLE(WIRE_READ_REQUEST, IB_UVERBS_WC_RDMA_READ, SEND_READ, false),
	[IB_UVERBS_WR_ATOMIC_CMP_AND_SWP] =
		SINGLE(WIRE_CMP_SWAP, IB_UVERBS_WC_COMP_SWAP, SEND_ATOMIC, false),
	[IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD] =
		SINGLE(WIRE_FETCH_ADD, IB_UVERBS_WC_FETCH_ADD, SEND_ATOMIC, false),
	[IB_UVERBS_WR_LOCAL_INV] = LOCAL(IB_UVERBS_WC_LOCAL_INV, false),
	[IB_UVERBS_WR_BIND_MW] = LOCAL(IB_UVERBS_WC_BIND_MW, false),
	[IB_UVERBS_WR_SEND_WITH_INV] =
		STREAM(SEND, SEND_LAST_INV, SEND_ONLY_INV, IB_UVERBS_WC_SEND, QPT_RELIABLE),
	[SROCE_WR_FLUSH] = SINGLE(WIRE_FLUSH, SROCE_WC_FLUSH, SEND_FLUSH, false),
	[SROCE_WR_ATOMIC_WRITE] =
		SINGLE(WIRE_ATOMIC_WRITE, SROCE_WC_ATOMIC_WRITE, SEND_ATOMIC_WRITE, true),
	[IB_WR_REG_MR] = LOCAL(IB_WC_REG_MR, true),
};

/**
 * sroce_send_awaits - is more than an acknowledgement needed for a request?
 * @sq: send side; the caller owns it
 * @index: the request's first block
 *
 * Return: true if its response carries data, and has not come.
 */
bool sroce_send_awaits(const struct sroce_sq *sq, u32 index)
{
	const struct sroce_swqe *swqe = sq_wqe(sq, index);

	return swqe->sent && !swqe->answered && takes_resource(swqe_op(sq, index));
}

/**
 * sroce_send_whole - PSNs that leave with the oldest packet, if it is sent again
 * @sq: send side; the caller owns it, and something is out
 *
 * Return: their number, 1 at least.
 */
u32 sroce_send_whole(const struct sroce_sq *sq)
{
	const struct sroce_swqe *swqe = sq_wqe(sq, sq->una);

	if (sq->una == sq->fetched || !swqe->sent || !takes_resource(swqe_op(sq, sq->una)))
		return 1;
	return part_left(swqe, wire_psn_diff(sq->psn_una, swqe->first_psn));
}

/**
 * sroce_send_lost - how many packets were lost where so many PSNs are missing?
 * @sq: send side; the caller owns it
 * @at: a request's first block, not behind those PSNs; on return, of one not behind their end,
 *	to go on from with later ones
 * @psn: the first
 * @num: PSNs
 * @implied: responses tell of it: then those are missing, and requests without one are not.
 *	Else the peer does, and a request that takes the PSNs of its response is one packet
 *
 * Return: packets.
 */
u32 sroce_send_lost(const struct sroce_sq *sq, u32 *at, u32 psn, u32 num, bool implied)
{
	const u32 end = wire_psn_add(psn, num);
	u32 lost = 0;

	/* whatever it is of */
	if (num == 1 && !implied)
		return 1;
	for (; *at != sq->fetched && sq_wqe(sq, *at)->sent; *at += sq_wqe(sq, *at)->num_blocks) {
		const struct sroce_swqe *swqe = sq_wqe(sq, *at);
		const u32 behind = wire_psn_add(swqe->first_psn, swqe->num_pkts);
		u32 from = psn, to = end;

		if (!swqe->num_pkts || wire_psn_diff(behind, psn) <= 0)
			continue;
		if (wire_psn_diff(swqe->first_psn, end) >= 0)
			break;
		if (wire_psn_diff(swqe->first_psn, from) > 0)
			from = swqe->first_psn;
		if (wire_psn_diff(behind, to) < 0)
			to = behind;
		if (implied)
			lost += sroce_send_awaits(sq, *at) ? wire_psn_diff(to, from) : 0;
		else
			lost += takes_resource(swqe_op(sq, *at)) ?
				parts_before(swqe, wire_psn_add(to, -1)) -
				parts_before(swqe, from) + 1 : wire_psn_diff(to, from);
		if (wire_psn_diff(behind, end) > 0)
			break;
	}
	return lost;
}

/*
 * Requests that have packets are fewer. Others, which are done where they are, may be as many as
 * there are blocks in a ring, and a report of 28 bytes is not to have all of them looked at.
 */
#define SPARE_LOOKS	16384

/*
 * Those of a READ, or another that has a response, of which the peer has the request. @gap: the
 * gap to look at first, by PSN; @left: requests on the wire that are still to be looked at.
 */
static u32 spare_of(const struct sroce_sq *sq, const struct sroce_swqe *swqe,
		    const struct wire_gaps *gaps, u32 *gap, u32 *left)
{
	u32 k = parts_before(swqe, sq->psn_una) << swqe->part;
	u32 spare = 0;

	while (*left && k < swqe->num_pkts) {
		const u32 psn = wire_psn_add(swqe->first_psn, k);
		const s32 off = wire_psn_diff(psn, sq->psn_una);
		const u32 num = part_left(swqe, k);

		if (off >= (s32)gaps->end || wire_psn_diff(psn, sq->psn_end) >= 0)
			break;
		--*left;
		while (*gap < gaps->num &&
		       off >= (s32)(gaps->gap[*gap].first + gaps->gap[*gap].num))
			++*gap;
		if (off >= 0 && (*gap == gaps->num || off < (s32)gaps->gap[*gap].first))
			spare += num - 1;
		k += num;
	}
	return spare;
}

/**
 * sroce_send_spare - PSNs of what the peer keeps that stand for no packet
 * @sq: send side; the caller owns it
 * @gaps: what the peer says is missing
 *
 * A READ request takes those of its response, and is one.
 *
 * Return: their number.
 */
u32 sroce_send_spare(const struct sroce_sq *sq, const struct wire_gaps *gaps)
{
	u32 at, gap = 0, spare = 0, left = sq->num_rd, looks = SPARE_LOOKS;

	for (at = sq->una; left && looks && at != sq->fetched; at += sq_wqe(sq, at)->num_blocks) {
		const struct sroce_swqe *swqe = sq_wqe(sq, at);

		if (!swqe->sent || (swqe->num_pkts &&
		     wire_psn_diff(swqe->first_psn, sq->psn_una) >= (s32)gaps->end))
			break;
		looks--;
		if (takes_resource(swqe_op(sq, at)))
			spare += spare_of(sq, swqe, gaps, &gap, &left);
	}
	return spare;
}

/* Completion */

/* The oldest request is done. Return: what came of telling so. */
static enum sroce_cq_result request_done(struct sroce_qp *qp, enum ib_wc_status status, u32 vendor_err)
{
	struct sroce_sq *sq = &qp->sq;
	const struct sroce_swqe *swqe = sq_wqe(sq, sq->una);
	const struct sroce_send_wqe *wqe = sq_copy(sq, sq->una);
	struct sroce_cqe cqe = {
		.wr_id = wqe->wr_id,
		.byte_len = swqe->length,
		.qp_num = qp->num->qpn,
		.wqe_next = sq->una + swqe->num_blocks,
		.vendor_err = vendor_err,
		.status = status,
	};
	bool tell = status || qp->sq_sig_all || wqe->flags & SROCE_WQE_SIGNALED;
	/* of a rendezvous: what is complete is the peer's message */
	const bool solicited = status || (sq->tagged && wqe->flags & SROCE_WQE_SOLICITED);

	if (wqe->opcode < ARRAY_SIZE(sroce_send_ops))
		cqe.opcode = sroce_send_ops[wqe->opcode].wc;
	if (status && status != IB_WC_WR_FLUSH_ERR)
		sroce_qp_count(qp, REQ_CQE_ERR);
	if (sq->tagged)
		tell = sroce_tm_sent(&cqe);
	sq->una += swqe->num_blocks;
	/* its blocks were copied before they may be used again */
	smp_store_release(&sq->q.ring->cons, sq->una);
	if (!tell)
		return SROCE_CQ_QUIET;

	sroce_doorbell_heard(qp);
	return sroce_cq_post(sq->cq, &cqe, solicited);
}

/**
 * sroce_send_complete - the oldest request is done
 * @qp: queue pair; the caller owns its send side
 * @status: how it ended; with success, only who asked for it is told
 */
void sroce_send_complete(struct sroce_qp *qp, enum ib_wc_status status)
{
	switch (request_done(qp, status, 0)) {
	case SROCE_CQ_EVENT:
		sroce_cq_notify(qp->sq.cq);
		break;
	case SROCE_CQ_FULL:
		sroce_send_mr_put(qp);
		spin_lock_bh(&qp->rq.lock);
		sroce_qp_overrun(qp, true);
		sroce_rq_unlock(&qp->rq);
		break;
	case SROCE_CQ_QUIET:
		break;
	}
}

/**
 * sroce_send_fail - the oldest request fails, and its queue pair with it
 * @qp: queue pair; the caller owns its send side
 * @status: why
 * @vendor_err: AETH syndrome or 0
 *
 * Who finds its completion finds the queue pair in error (10.3.1), and nothing of it that was
 * flushed has come before.
 */
void sroce_send_fail(struct sroce_qp *qp, enum ib_wc_status status, u32 vendor_err)
{
	enum sroce_cq_result posted;
	bool flush;

	sroce_send_mr_put(qp);
	spin_lock_bh(&qp->rq.lock);
	flush = sroce_qp_send_error(qp);
	posted = request_done(qp, status, vendor_err);
	if (flush)
		sroce_recv_flush(qp);
	/* in SQE it would go on */
	if (posted == SROCE_CQ_FULL && flush)
		sroce_qp_event(qp, IB_EVENT_QP_FATAL);
	else if (posted == SROCE_CQ_FULL)
		sroce_qp_overrun(qp, true);
	sroce_rq_unlock(&qp->rq);
	if (posted == SROCE_CQ_EVENT)
		sroce_cq_notify(qp->sq.cq);
}

/* From the ring to the kernel's copy */

static u32 data_blocks(const struct sroce_send_wqe *wqe)
{
	u32 len = sizeof(*wqe);

	if (wqe->flags & SROCE_WQE_INLINE)
		len += wqe->inline_len;
	else
		len += wqe->num_sge * sizeof(struct sroce_sge);
	return DIV_ROUND_UP(len, SROCE_SQ_BLOCK);
}

/* The list's entries are all there is of it; their sum is the message. */
static enum ib_wc_status check_data(struct sroce_qp *qp, u32 index, u32 *length)
{
	const struct sroce_send_wqe *wqe = sq_copy(&qp->sq, index);
	u32 len = wqe->inline_len;
	u32 i;

	if (wqe->flags & SROCE_WQE_INLINE) {
		if (!sroce_send_ops[wqe->opcode].inlined || len > qp->max_inline || wqe->num_sge)
			return IB_WC_LOC_QP_OP_ERR;
	} else if (wqe->num_sge > qp->max_send_sge || len) {
		return IB_WC_LOC_QP_OP_ERR;
	}
	if (data_blocks(wqe) > wqe->num_blocks)
		return IB_WC_LOC_QP_OP_ERR;

	for (i = 0; i < wqe->num_sge; i++)
		if (check_add_overflow(len, sq_sge(&qp->sq, index, i)->length, &len) ||
		    len > SROCE_MAX_MSG)
			return IB_WC_LOC_LEN_ERR;
	*length = len;
	return IB_WC_SUCCESS;
}

/* What can be said of a request without looking at memory regions. */
static enum ib_wc_status check_wqe(struct sroce_qp *qp, u32 index, u32 *length)
{
	const u8 flags = SROCE_WQE_FENCE | SROCE_WQE_SIGNALED | SROCE_WQE_SOLICITED |
			 SROCE_WQE_INLINE;
	const struct sroce_send_wqe *wqe = sq_copy(&qp->sq, index);
	enum ib_wc_status status;
	const struct sroce_send_op *op;

	if (wqe->opcode >= ARRAY_SIZE(sroce_send_ops) || wqe->flags & ~flags || wqe->reserved)
		return IB_WC_LOC_QP_OP_ERR;
	op = &sroce_send_ops[wqe->opcode];
	if (!(op->qpts & BIT(qp->type)) ||
	    (op->kernel && !rdma_is_kernel_res(&qp->ibqp.res)))
		return IB_WC_LOC_QP_OP_ERR;
	status = check_data(qp, index, length);
	if (status != IB_WC_SUCCESS)
		return status;

	switch (op->kind) {
	case SEND_STREAM:
		/* a datagram is one packet */
		if (qp->transport == WIRE_UD && *length > qp->mtu)
			return IB_WC_LOC_LEN_ERR;
		break;
	case SEND_ATOMIC:
	case SEND_ATOMIC_WRITE:
		if (*length != sizeof(u64))
			return IB_WC_LOC_LEN_ERR;
		break;
	case SEND_FLUSH:
	case SEND_LOCAL:
		if (wqe->num_sge)
			return IB_WC_LOC_QP_OP_ERR;
		break;
	default:
		break;
	}
	/* none may be outstanding, so this one never can be */
	if (takes_resource(op) && !qp->attr.max_rd_atomic)
		return IB_WC_LOC_QP_OP_ERR;
	return IB_WC_SUCCESS;
}

/* PSNs that a request takes: at least one, but for what is done here. */
static u32 count_pkts(const struct sroce_qp *qp, const struct sroce_send_op *op, u32 length)
{
	switch (op->kind) {
	case SEND_STREAM:
	case SEND_READ:
		return max(DIV_ROUND_UP(length, qp->mtu), 1U);
	case SEND_LOCAL:
		return 0;
	default:
		return 1;
	}
}

/* The ring's indices contradict each other: this queue pair is lost. */
static void ring_broken(struct sroce_qp *qp)
{
	qp->sq.broken = true;
	sroce_qp_event(qp, IB_EVENT_QP_FATAL);
	sroce_send_mr_put(qp);
	sroce_qp_error(qp);
}

/**
 * sroce_sq_fetch - copy the next request out of the ring, once, and check the copy
 * @qp: queue pair; the caller owns its send side
 *
 * Return: false if there is none.
 */
bool sroce_sq_fetch(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;
	struct sroce_send_wqe *wqe = sq_copy(sq, sq->fetched);
	struct sroce_swqe *swqe = sq_wqe(sq, sq->fetched);
	const u32 begun = sq->fetched - sq->una;
	u32 posted, avail, length = 0;
	bool holds;
	u8 i, n;

	if (sq->broken)
		return false;
	holds = queue_avail(&sq->q, sq->una, &posted);
	if (posted == begun)
		return false;
	/* beyond what the ring holds, or back before what has been fetched */
	if (!holds || posted < begun) {
		ring_broken(qp);
		return false;
	}
	avail = posted - begun;

	memcpy(wqe, queue_entry(&sq->q, sq->fetched), SROCE_SQ_BLOCK);
	n = wqe->num_blocks;
	*swqe = (struct sroce_swqe) {
		.num_blocks = 1,
		.num_pkts = 1,
		.part = SROCE_PART_ALL,
	};
	if (!n || n > SROCE_SQ_MAX_BLOCKS || n > avail) {
		/* where the next one starts is unknown; all end in ERR anyway */
		swqe->status = IB_WC_LOC_QP_OP_ERR;
	} else {
		for (i = 1; i < n; i++)
			memcpy(sq_copy(sq, sq->fetched + i),
			       queue_entry(&sq->q, sq->fetched + i), SROCE_SQ_BLOCK);
		swqe->num_blocks = n;
		swqe->status = check_wqe(qp, sq->fetched, &length);
		swqe->length = length;
		if (swqe->status == IB_WC_SUCCESS)
			swqe->num_pkts = count_pkts(qp, swqe_op(sq, sq->fetched), length);
	}
	sq->newest = sq->fetched;
	sq->fetched += swqe->num_blocks;
	return true;
}
