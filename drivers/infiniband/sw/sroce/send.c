// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The requester: from a program's ring to packets.
 *
 * The send side has one owner at a time, as NAPI has: who finds it free does
 * all there is to do, others leave a note and go. A doorbell, an
 * acknowledgement, the timer and the stack's release of an skb are such
 * others. Nobody waits, and nobody needs a thread of ours.
 */
#include <linux/overflow.h>
#include <rdma/ib_user_verbs.h>

#include "sroce.h"
#include "trace.h"

/* Packets and completions of one turn; then others get the CPU. */
#define SEND_BUDGET		1024

/* Turns in a row, where others keep leaving notes */
#define SEND_TURNS		4

/*
 * Bytes that may be unacknowledged. Enough for 10 Gb/s over 200 us; little
 * enough that a receiver on the same CPU finds them in its cache.
 */
#define SEND_WINDOW		(256U << 10)

/* An acknowledgement is asked for four times a window, and at a message's end. */
#define ASK_FRACTION		4

/**
 * struct send_op - how an operation goes onto the wire
 * @first: opcode of a message's first packet
 * @middle: of those between
 * @last: of its last
 * @only: of the only one
 * @wc: enum ib_uverbs_wc_opcode of its completion
 * @supported: the row is filled in
 */
struct send_op {
	u8 first;
	u8 middle;
	u8 last;
	u8 only;
	u8 wc;
	bool supported;
};

/* By enum ib_uverbs_wr_opcode */
static const struct send_op send_ops[] = {
	[IB_UVERBS_WR_SEND] = {
		WIRE_SEND_FIRST, WIRE_SEND_MIDDLE, WIRE_SEND_LAST, WIRE_SEND_ONLY,
		IB_UVERBS_WC_SEND, true,
	},
	[IB_UVERBS_WR_SEND_WITH_IMM] = {
		WIRE_SEND_FIRST, WIRE_SEND_MIDDLE, WIRE_SEND_LAST_IMM, WIRE_SEND_ONLY_IMM,
		IB_UVERBS_WC_SEND, true,
	},
};

/* One turn at a send side. */
struct send_turn {
	struct sroce_qp *qp;
	struct sroce_burst burst;
	struct sroce_mr *mr;		/* the last region used, held */
	u32 budget;
	bool idle;			/* the ring has been found empty */
};

/* Completion */

/**
 * sroce_send_complete - the oldest request is done
 * @qp: queue pair; the caller owns its send side
 * @status: how it ended; with success, only who asked for it is told
 * @vendor_err: AETH syndrome or 0
 */
void sroce_send_complete(struct sroce_qp *qp, enum ib_wc_status status, u32 vendor_err)
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

	if (wqe->opcode < ARRAY_SIZE(send_ops))
		cqe.opcode = send_ops[wqe->opcode].wc;
	sq->una += swqe->num_blocks;
	WRITE_ONCE(sq->q.ring->cons, sq->una);
	if (!tell)
		return;

	switch (sroce_cq_post(to_scq(qp->ibqp.send_cq), &cqe, status != IB_WC_SUCCESS)) {
	case SROCE_CQ_EVENT:
		sroce_cq_notify(to_scq(qp->ibqp.send_cq));
		break;
	case SROCE_CQ_FULL:
		sroce_qp_error(qp);
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
 */
void sroce_send_fail(struct sroce_qp *qp, enum ib_wc_status status, u32 vendor_err)
{
	sroce_send_complete(qp, status, vendor_err);
	sroce_qp_error(qp);
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

/* What can be said of a request without looking at memory regions. */
static enum ib_wc_status check_wqe(struct sroce_qp *qp, u32 index, u32 *length)
{
	const u8 flags = SROCE_WQE_FENCE | SROCE_WQE_SIGNALED | SROCE_WQE_SOLICITED |
			 SROCE_WQE_INLINE;
	const struct sroce_send_wqe *wqe = sq_copy(&qp->sq, index);
	u32 len = 0;
	u32 i;

	if (wqe->opcode >= ARRAY_SIZE(send_ops) || !send_ops[wqe->opcode].supported ||
	    (qp->ibqp.qp_type == IB_QPT_RAW_PACKET && wqe->opcode != IB_UVERBS_WR_SEND) ||
	    wqe->flags & ~flags || wqe->reserved)
		return IB_WC_LOC_QP_OP_ERR;

	if (wqe->flags & SROCE_WQE_INLINE) {
		if (wqe->inline_len > qp->max_inline || wqe->num_sge)
			return IB_WC_LOC_QP_OP_ERR;
		len = wqe->inline_len;
	} else if (wqe->num_sge > qp->max_send_sge || wqe->inline_len) {
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

/* The ring's indices contradict each other: this queue pair is lost. */
static void ring_broken(struct sroce_qp *qp)
{
	qp->sq.broken = true;
	sroce_qp_event(qp, IB_EVENT_QP_FATAL);
	sroce_qp_error(qp);
}

/* Copy the next request out of the ring, once, and check the copy. */
static bool sq_fetch(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;
	struct sroce_send_wqe *wqe = sq_copy(sq, sq->fetched);
	struct sroce_swqe *swqe = sq_wqe(sq, sq->fetched);
	u32 prod, avail, length = 0;
	u8 i, n;

	if (sq->broken)
		return false;
	/* pairs with the program's release: the blocks before it are whole */
	prod = smp_load_acquire(&sq->q.ring->prod);
	avail = prod - sq->fetched;
	if (!avail)
		return false;
	/* beyond what the ring holds, or back before what has been fetched */
	if (prod - sq->una > sq->q.mask + 1 || prod - sq->una < sq->fetched - sq->una) {
		ring_broken(qp);
		return false;
	}

	memcpy(wqe, queue_entry(&sq->q, sq->fetched), SROCE_SQ_BLOCK);
	n = wqe->num_blocks;
	*swqe = (struct sroce_swqe) { .num_blocks = 1, .num_pkts = 1 };
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
		if (length)
			swqe->num_pkts = DIV_ROUND_UP(length, qp->mtu);
	}
	sq->fetched += swqe->num_blocks;
	return true;
}

/* From the copy to packets */

static void next_sge(struct sroce_sq *sq)
{
	sq->sge++;
	sq->sge_off = 0;
}

static struct sroce_mr *turn_mr(struct send_turn *turn, u32 key)
{
	if (turn->mr && turn->mr->key == key)
		return turn->mr;
	if (turn->mr)
		sroce_mr_put(turn->mr);
	turn->mr = sroce_mr_get(turn->qp->ibqp.pd, key);
	return turn->mr;
}

static bool copy_sges(struct send_turn *turn, u8 *to, u32 len)
{
	struct sroce_sq *sq = &turn->qp->sq;

	while (len) {
		const struct sroce_sge *sge = sq_sge(sq, sq->nxt, sq->sge);
		u64 addr = sge->addr + sq->sge_off;
		u32 n = min(sge->length - sq->sge_off, len);
		struct sroce_mr *mr;
		void *from;

		if (!n) {
			next_sge(sq);
			continue;
		}
		mr = turn_mr(turn, sge->lkey);
		if (!mr || !sroce_mr_covers(mr, addr, n, 0))
			return false;
		from = sroce_mr_span(mr, addr, &n);
		memcpy(to, from, n);
		to += n;
		len -= n;
		sq->sge_off += n;
	}
	return true;
}

static void copy_inline(const struct sroce_sq *sq, u32 off, u8 *to, u32 len)
{
	off += sizeof(struct sroce_send_wqe);
	while (len) {
		u32 n = min(len, SROCE_SQ_BLOCK - off % SROCE_SQ_BLOCK);

		memcpy(to, sq_copy_byte(sq, sq->nxt, off), n);
		to += n;
		off += n;
		len -= n;
	}
}

/* Every key before the first byte: a request that is wrong sends nothing. */
static bool check_sges(struct send_turn *turn)
{
	struct sroce_sq *sq = &turn->qp->sq;
	const struct sroce_send_wqe *wqe = sq_copy(sq, sq->nxt);
	u32 i;

	for (i = 0; i < wqe->num_sge; i++) {
		const struct sroce_sge *sge = sq_sge(sq, sq->nxt, i);
		struct sroce_mr *mr;

		if (!sge->length)
			continue;
		mr = turn_mr(turn, sge->lkey);
		if (!mr || !sroce_mr_covers(mr, sge->addr, sge->length, 0))
			return false;
	}
	return true;
}

static u8 pick_opcode(const struct send_op *op, bool first, bool last)
{
	if (first)
		return last ? op->only : op->first;
	return last ? op->last : op->middle;
}

/**
 * sroce_send_seek - go back to a packet
 * @qp: queue pair; the caller owns its send side
 * @psn: to be sent next; not acknowledged, and not beyond what was sent
 */
void sroce_send_seek(struct sroce_qp *qp, u32 psn)
{
	struct sroce_sq *sq = &qp->sq;
	const struct sroce_swqe *swqe = NULL;
	u64 off;

	sq->psn_nxt = psn;
	sq->sge = 0;
	sq->sge_off = 0;
	/* which of two sendings was acknowledged nobody knows (Karn) */
	sq->rtt_start = 0;
	for (sq->nxt = sq->una; sq->nxt != sq->fetched; sq->nxt += swqe->num_blocks) {
		swqe = sq_wqe(sq, sq->nxt);
		if (!swqe->sent || wire_psn_diff(psn, swqe->first_psn) < (s32)swqe->num_pkts)
			break;
	}
	if (sq->nxt == sq->fetched || !swqe->sent ||
	    sq_copy(sq, sq->nxt)->flags & SROCE_WQE_INLINE)
		return;

	off = (u64)wire_psn_diff(psn, swqe->first_psn) * qp->mtu;
	while (off) {
		u32 len = sq_sge(sq, sq->nxt, sq->sge)->length;

		if (off < len) {
			sq->sge_off = off;
			break;
		}
		off -= len;
		next_sge(sq);
	}
}

enum send_result {
	SENT,
	SEND_STOP,		/* for a reason that somebody will end */
	SEND_BACK,		/* the burst was refused: it is to be sent again */
};

/* What has been refused was never sent: its PSNs are still to be used. */
static enum send_result send_flush(struct send_turn *turn, u32 *start)
{
	struct sroce_qp *qp = turn->qp;
	int err = sroce_burst_flush(&turn->burst);

	if (err == -ENOBUFS) {
		sroce_count(qp_dev(qp), TX_DROPPED);
		sroce_send_seek(qp, *start);
		return SEND_BACK;
	}
	*start = qp->sq.psn_nxt;
	return SENT;
}

static enum send_result send_packet(struct send_turn *turn, u32 *start)
{
	struct sroce_qp *qp = turn->qp;
	struct sroce_sq *sq = &qp->sq;
	struct sroce_swqe *swqe = sq_wqe(sq, sq->nxt);
	const struct sroce_send_wqe *wqe = sq_copy(sq, sq->nxt);
	const struct send_op *op = &send_ops[wqe->opcode];
	u32 k = swqe->sent ? wire_psn_diff(sq->psn_nxt, swqe->first_psn) : 0;
	u32 off = k * qp->mtu;
	u32 payload = min(swqe->length - off, qp->mtu);
	bool last = k + 1 == swqe->num_pkts;
	u8 opcode = pick_opcode(op, !k, last);
	const struct wire_opcode *row = &wire_opcodes[opcode];
	u32 pad = -payload & 3;
	u32 len = row->hdr_len + payload + pad + WIRE_ICRC_LEN;
	bool ask = last || sq->unasked >= SEND_WINDOW / ASK_FRACTION / qp->mtu;
	u8 *p;

	if (!swqe->sent && !check_sges(turn)) {
		swqe->status = IB_WC_LOC_PROT_ERR;
		return SEND_STOP;
	}
	if (!sroce_burst_fits(&turn->burst, len) && send_flush(turn, start) != SENT)
		return SEND_BACK;
	p = sroce_burst_reserve(&turn->burst, len);
	if (!p) {
		sroce_retry_backoff(qp);
		return SEND_STOP;
	}

	wire_bth_put(p, opcode, last && wqe->flags & SROCE_WQE_SOLICITED, pad, SROCE_PKEY,
		     qp->dqpn, ask, sq->psn_nxt);
	if (row->flags & WIRE_IMM)
		memcpy(p + row->hdr_len - WIRE_IMM_LEN, &wqe->imm_data, WIRE_IMM_LEN);
	p += row->hdr_len;
	if (wqe->flags & SROCE_WQE_INLINE) {
		copy_inline(sq, off, p, payload);
	} else if (!copy_sges(turn, p, payload)) {
		swqe->status = IB_WC_LOC_PROT_ERR;
		return SEND_STOP;
	}
	memset(p + payload, 0, pad);
	sroce_burst_commit(&turn->burst);

	if (!swqe->sent) {
		swqe->sent = true;
		swqe->first_psn = sq->psn_nxt;
	}
	sroce_count(qp_dev(qp), TX_PKTS);
	sroce_count_add(qp_dev(qp), TX_BYTES, payload);
	sq->unasked = ask ? 0 : sq->unasked + 1;
	if (sq->psn_nxt != sq->psn_end)
		sroce_count(qp_dev(qp), RETRANSMITTED);
	else if (ask)
		sroce_retry_time(qp, sq->psn_nxt);
	sq->psn_nxt = wire_psn_add(sq->psn_nxt, 1);
	if (wire_psn_diff(sq->psn_nxt, sq->psn_end) > 0)
		sq->psn_end = sq->psn_nxt;
	if (last) {
		sq->nxt += swqe->num_blocks;
		sq->sge = 0;
		sq->sge_off = 0;
	}
	return SENT;
}

/* The next request to send from, if it may be sent from now. */
static bool send_ready(struct send_turn *turn)
{
	struct sroce_qp *qp = turn->qp;
	const bool sqd = READ_ONCE(qp->state) == IB_QPS_SQD;
	struct sroce_sq *sq = &qp->sq;
	const struct sroce_swqe *swqe;

	if (sq->nxt == sq->fetched && (sqd || !sq_fetch(qp))) {
		turn->idle = !sqd;
		return false;
	}
	swqe = sq_wqe(sq, sq->nxt);
	if (swqe->status) {
		/* errors are in order, too: all before it come first */
		if (sq->nxt == sq->una)
			sroce_send_fail(qp, swqe->status, 0);
		return false;
	}
	/* SQD: what has begun is finished, nothing begins (10.3.1.1) */
	return swqe->sent || !sqd;
}

static bool window_open(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;
	u32 limit = SEND_WINDOW / qp->mtu;

	if (wire_psn_diff(sq->psn_nxt, sq->psn_una) >= (s32)limit)
		return false;
	if (atomic_read(&qp->num->tx_skbs) < limit)
		return true;
	set_bit(SROCE_SQ_BLOCKED, &sq->flags);
	/* pairs with tx_free(): it sees the bit, or we see its skb gone */
	smp_mb__after_atomic();
	return atomic_read(&qp->num->tx_skbs) < limit;
}

/* A raw packet queue pair's message is a frame. Return: go on with the next. */
static bool send_frame(struct send_turn *turn)
{
	struct sroce_qp *qp = turn->qp;
	struct sroce_sq *sq = &qp->sq;
	struct sroce_swqe *swqe = sq_wqe(sq, sq->nxt);
	const struct sroce_send_wqe *wqe = sq_copy(sq, sq->nxt);
	const bool again = swqe->sent;
	struct sk_buff *skb;
	int err;

	sq->sge = 0;
	sq->sge_off = 0;
	skb = sroce_raw_alloc(qp, swqe->length);
	err = PTR_ERR_OR_ZERO(skb);
	if (!err) {
		if (wqe->flags & SROCE_WQE_INLINE) {
			copy_inline(sq, 0, skb->data, swqe->length);
		} else if (!copy_sges(turn, skb->data, swqe->length)) {
			kfree_skb(skb);
			swqe->status = IB_WC_LOC_PROT_ERR;
			return true;
		}
		swqe->sent = true;
		err = sroce_raw_xmit(qp, skb, again);
	}

	switch (err) {
	case -EMSGSIZE:
		swqe->status = IB_WC_LOC_LEN_ERR;
		return true;
	case -ENOMEM:
	case -ENOBUFS:
		sroce_count(qp_dev(qp), TX_DROPPED);
		sroce_retry_backoff(qp);
		return false;
	case -ENODEV:
		/* the queue pair is about to hear of it */
		return false;
	}
	sroce_count(qp_dev(qp), TX_RAW);
	sq->nxt += swqe->num_blocks;
	sroce_send_complete(qp, IB_WC_SUCCESS, 0);
	return true;
}

static void send_frames(struct send_turn *turn)
{
	while (turn->budget && turn->qp->sq.backoff == KTIME_MAX && sroce_raw_room(turn->qp) &&
	       send_ready(turn)) {
		turn->budget--;
		if (!send_frame(turn))
			break;
	}
}

static void send_packets(struct send_turn *turn)
{
	struct sroce_qp *qp = turn->qp;
	struct sroce_sq *sq = &qp->sq;
	u32 start = sq->psn_nxt;
	enum send_result res = SENT;

	if (sq->rnr_wait || sq->backoff != KTIME_MAX || !send_ready(turn))
		return;
	if (READ_ONCE(qp_dev(qp)->gone) ||
	    sroce_burst_start(&turn->burst, qp->num, &sq->path)) {
		sroce_count(qp_dev(qp), TX_NO_ROUTE);
		sroce_retry_no_route(qp);
		return;
	}
	sq->no_route = false;

	while (turn->budget && window_open(qp) && send_ready(turn)) {
		turn->budget--;
		res = send_packet(turn, &start);
		if (res != SENT)
			break;
	}
	if (res != SEND_BACK)
		res = send_flush(turn, &start);
	if (res == SEND_BACK)
		sroce_retry_backoff(qp);
	/* a request whose keys were found wrong may be the oldest */
	else if (sq->nxt != sq->fetched && sq_wqe(sq, sq->nxt)->status)
		send_ready(turn);
}

/* ERR: all that is posted ends, in order, once (10.3.1, WR_FLUSH_ERR). */
static void send_flush_all(struct send_turn *turn)
{
	struct sroce_qp *qp = turn->qp;
	struct sroce_sq *sq = &qp->sq;

	while (turn->budget && (sq->una != sq->fetched || sq_fetch(qp))) {
		turn->budget--;
		sroce_send_complete(qp, IB_WC_WR_FLUSH_ERR, 0);
	}
	sq->nxt = sq->una;
	turn->idle = turn->budget != 0;
}

/**
 * sroce_send_draining - is something begun and not complete?
 * @qp: queue pair
 */
bool sroce_send_draining(const struct sroce_qp *qp)
{
	return qp->sq.una != qp->sq.fetched && sq_wqe(&qp->sq, qp->sq.una)->sent;
}

static void check_drained(struct sroce_qp *qp)
{
	if (READ_ONCE(qp->state) != IB_QPS_SQD || qp->sq.drained || sroce_send_draining(qp))
		return;
	qp->sq.drained = true;
	if (qp->attr.en_sqd_async_notify)
		sroce_qp_event(qp, IB_EVENT_SQ_DRAINED);
}

/* Ask for a doorbell, and see that nothing came before the question. */
static void sleep_or_work(struct sroce_qp *qp)
{
	struct sroce_ring *ring = qp->sq.q.ring;

	WRITE_ONCE(ring->flags, SROCE_RING_NEED_WAKEUP);
	/* pairs with the barrier between a program's index and its look here */
	smp_mb();
	if (READ_ONCE(ring->prod) == qp->sq.fetched || qp->sq.broken)
		return;
	WRITE_ONCE(ring->flags, 0);
	set_bit(SROCE_SQ_WORK, &qp->sq.flags);
}

/* One turn. Return: there is more, and others should have the CPU first. */
static bool send_turn(struct sroce_qp *qp)
{
	struct send_turn turn = { .qp = qp, .budget = SEND_BUDGET };

	WRITE_ONCE(qp->sq.q.ring->flags, 0);
	sroce_ack_run(qp);
	sroce_retry_run(qp);

	if (READ_ONCE(qp->state) == IB_QPS_RTS || READ_ONCE(qp->state) == IB_QPS_SQD) {
		if (qp->ibqp.qp_type == IB_QPT_RAW_PACKET)
			send_frames(&turn);
		else
			send_packets(&turn);
	}
	if (READ_ONCE(qp->state) == IB_QPS_ERR)
		send_flush_all(&turn);
	if (turn.mr)
		sroce_mr_put(turn.mr);

	check_drained(qp);
	sroce_retry_arm(qp);
	if (!turn.budget)
		return true;
	/* blocked by the window, the device or time: those will wake us */
	if (turn.idle)
		sleep_or_work(qp);
	return false;
}

/**
 * sroce_send_run - see to a send side
 * @qp: queue pair
 *
 * Process context or softirq, with no lock held that a completion handler or
 * the network stack may want. Returns at once if somebody is at it: that one
 * looks again.
 */
void sroce_send_run(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;
	int turns = SEND_TURNS;
	bool more = false;

	set_bit(SROCE_SQ_WORK, &sq->flags);
	local_bh_disable();
	rcu_read_lock();
	while (test_bit(SROCE_SQ_WORK, &sq->flags) &&
	       !test_and_set_bit_lock(SROCE_SQ_OWNED, &sq->flags)) {
		if (READ_ONCE(qp->state) < IB_QPS_RTS)
			clear_bit(SROCE_SQ_WORK, &sq->flags);
		else if (test_and_clear_bit(SROCE_SQ_WORK, &sq->flags))
			more = send_turn(qp) || !--turns;
		clear_bit_unlock(SROCE_SQ_OWNED, &sq->flags);
		if (more)
			break;
		/* a note left while we were leaving is seen by one of the two */
		smp_mb__after_atomic();
	}
	rcu_read_unlock();
	local_bh_enable();
	if (more)
		tasklet_schedule(&sq->task);
}

/**
 * sroce_send_task - run the requester where its caller could not
 * @task: the send side's
 */
void sroce_send_task(struct tasklet_struct *task)
{
	sroce_send_run(container_of(task, struct sroce_qp, sq.task));
}

/**
 * sroce_send_claim - become a send side's owner, to change it
 * @qp: queue pair
 *
 * Process context; an owner's turn is bounded and does not sleep.
 */
void sroce_send_claim(struct sroce_qp *qp)
{
	while (test_and_set_bit_lock(SROCE_SQ_OWNED, &qp->sq.flags))
		cond_resched();
}

/**
 * sroce_send_release - let a send side go
 * @qp: queue pair that was claimed
 *
 * What was asked of it meanwhile is done here.
 */
void sroce_send_release(struct sroce_qp *qp)
{
	clear_bit_unlock(SROCE_SQ_OWNED, &qp->sq.flags);
	sroce_send_run(qp);
}
