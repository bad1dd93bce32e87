// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The responder: from packets to a program's memory.
 *
 * It runs in the softirq that received them, a run of one queue pair's
 * packets under one lock, and answers once for the whole run: an
 * acknowledgement covers all before it, and so does a NAK.
 */
#include <rdma/ib_user_verbs.h>

#include "sroce.h"
#include "trace.h"

static bool is_ack(u8 syndrome)
{
	return (syndrome & WIRE_AETH_KIND_MASK) == WIRE_AETH_ACK;
}

/* A NAK outranks the acknowledgement that it implies, and a later NAK it. */
static void respond(struct sroce_qp *qp, u8 syndrome)
{
	struct sroce_rq *rq = &qp->rq;

	if (!rq->respond || !is_ack(syndrome))
		rq->syndrome = syndrome;
	rq->respond = true;
}

/* What was expected has come; a NAK for it that is not out yet is moot. */
static void advance(struct sroce_qp *qp)
{
	struct sroce_rq *rq = &qp->rq;

	rq->epsn = wire_psn_add(rq->epsn, 1);
	rq->nak_sent = false;
	if (rq->respond && !is_ack(rq->syndrome))
		rq->syndrome = WIRE_AETH_ACK | WIRE_AETH_CREDIT_INVALID;
}

static void recv_complete(struct sroce_qp *qp, const struct sroce_cqe *cqe, bool solicited)
{
	switch (sroce_cq_post(to_scq(qp->ibqp.recv_cq), cqe, solicited)) {
	case SROCE_CQ_EVENT:
		qp->rq.notify = true;
		break;
	case SROCE_CQ_FULL:
		sroce_qp_error_locked(qp);
		break;
	case SROCE_CQ_QUIET:
		break;
	}
}

/* The request in rq.wqe ends without a message. */
static void recv_complete_err(struct sroce_qp *qp, enum ib_wc_status status)
{
	const struct sroce_cqe cqe = {
		.wr_id = qp->rq.wqe->wr_id,
		.qp_num = qp->num->qpn,
		.wqe_next = qp->rq.cons,
		.status = status,
		.opcode = SROCE_WC_RECV,
	};

	qp->rq.op = SROCE_RECV_IDLE;
	recv_complete(qp, &cqe, true);
}

/* Copy the next request out of the ring, once. */
static bool rq_fetch(struct sroce_qp *qp)
{
	struct sroce_rq *rq = &qp->rq;
	u32 prod;

	if (rq->broken)
		return false;
	/* pairs with the program's release: the entries before it are whole */
	prod = smp_load_acquire(&rq->q.ring->prod);
	if (prod == rq->cons)
		return false;
	if (prod - rq->cons > rq->q.mask + 1) {
		rq->broken = true;
		sroce_qp_event(qp, IB_EVENT_QP_FATAL);
		sroce_qp_error_locked(qp);
		return false;
	}

	memcpy(rq->wqe, queue_entry(&rq->q, rq->cons), rq->q.entry_size);
	rq->cons++;
	WRITE_ONCE(rq->q.ring->cons, rq->cons);
	return true;
}

/**
 * sroce_recv_flush - end every receive request that is posted
 * @qp: queue pair in ERR; its receive lock is held
 *
 * The program is told to ring for what it posts from now on. No more are
 * flushed than the ring has entries: who goes on posting, rings.
 */
void sroce_recv_flush(struct sroce_qp *qp)
{
	struct sroce_rq *rq = &qp->rq;
	u32 left = rq->q.mask + 1;

	WRITE_ONCE(rq->q.ring->flags, SROCE_RING_NEED_WAKEUP);
	/* pairs with the barrier between a program's index and its look here */
	smp_mb();
	if (rq->op != SROCE_RECV_IDLE)
		recv_complete_err(qp, IB_WC_WR_FLUSH_ERR);
	while (left-- && rq_fetch(qp))
		recv_complete_err(qp, IB_WC_WR_FLUSH_ERR);
}

/**
 * sroce_recv_reset - as in a new queue pair
 * @qp: queue pair; its receive lock is held
 */
void sroce_recv_reset(struct sroce_qp *qp)
{
	struct sroce_rq *rq = &qp->rq;

	rq->cons = 0;
	rq->msn = 0;
	rq->op = SROCE_RECV_IDLE;
	rq->nak_sent = false;
	rq->respond = false;
	rq->broken = false;
}

/* The request violates the protocol, and the connection ends: 9.9.3.1 */
static void recv_refuse(struct sroce_qp *qp, enum wire_nak nak, enum ib_event_type event)
{
	sroce_count(qp_dev(qp), SENT_ERR_NAK);
	respond(qp, WIRE_AETH_NAK | nak);
	if (qp->rq.op == SROCE_RECV_IDLE)
		sroce_qp_event(qp, event);
	sroce_qp_error_locked(qp);
}

/* The receive request is at fault, or too small: both sides hear of it. */
static void recv_fail(struct sroce_qp *qp, enum ib_wc_status status, enum wire_nak nak)
{
	sroce_count(qp_dev(qp), SENT_ERR_NAK);
	respond(qp, WIRE_AETH_NAK | nak);
	recv_complete_err(qp, status);
	sroce_qp_error_locked(qp);
}

static struct sroce_mr *run_mr(struct sroce_qp *qp, u32 key)
{
	struct sroce_rq *rq = &qp->rq;

	if (rq->mr && rq->mr->key == key)
		return rq->mr;
	if (rq->mr)
		sroce_mr_put(rq->mr);
	rq->mr = sroce_mr_get(qp->ibqp.pd, key);
	return rq->mr;
}

/* Payload into the receive request's list, where the last packet ended. */
static enum ib_wc_status place(struct sroce_qp *qp, struct sroce_rx_pos *pos, u32 len)
{
	struct sroce_rq *rq = &qp->rq;

	while (len) {
		const struct sroce_sge *sge = &rq->wqe->sge[rq->sge];
		struct sroce_mr *mr;
		void *to;
		u64 addr;
		u32 n;

		if (rq->sge == rq->wqe->num_sge)
			return IB_WC_LOC_LEN_ERR;
		n = min(sge->length - rq->sge_off, len);
		if (!n) {
			rq->sge++;
			rq->sge_off = 0;
			continue;
		}
		mr = run_mr(qp, sge->lkey);
		addr = sge->addr + rq->sge_off;
		if (!mr || !sroce_mr_covers(mr, addr, n, IB_ACCESS_LOCAL_WRITE))
			return IB_WC_LOC_PROT_ERR;
		to = sroce_mr_span(mr, addr, &n, true);
		sroce_rx_copy(pos, to, n);
		rq->sge_off += n;
		rq->placed += n;
		len -= n;
	}
	return IB_WC_SUCCESS;
}

/* Opcode and length against what the message is at: 9.7.4.1.2 to .6 */
static bool in_order(const struct sroce_qp *qp, const struct wire_pkt *pkt)
{
	const u16 flags = pkt->op->flags;

	const bool idle = qp->rq.op == SROCE_RECV_IDLE;

	if (!!(flags & WIRE_START) != idle)
		return false;
	if (!(flags & WIRE_END))
		return pkt->payload_len == qp->mtu;
	if (!(flags & WIRE_START) && !pkt->payload_len)
		return false;
	return pkt->payload_len <= qp->mtu;
}

static bool send_start(struct sroce_qp *qp)
{
	struct sroce_rq *rq = &qp->rq;

	if (!rq_fetch(qp)) {
		if (qp->state == IB_QPS_ERR) {
			respond(qp, WIRE_AETH_NAK | WIRE_NAK_REM_OP);
			return false;
		}
		/* later packets are dropped until this one comes again */
		rq->nak_sent = true;
		respond(qp, WIRE_AETH_RNR_NAK | qp->attr.min_rnr_timer);
		sroce_count(qp_dev(qp), SENT_RNR_NAK);
		return false;
	}
	rq->op = SROCE_RECV_SEND;
	rq->sge = 0;
	rq->sge_off = 0;
	rq->placed = 0;
	if (rq->wqe->num_sge > qp->max_recv_sge || rq->wqe->reserved) {
		recv_fail(qp, IB_WC_LOC_QP_OP_ERR, WIRE_NAK_REM_OP);
		return false;
	}
	return true;
}

static void send_end(struct sroce_qp *qp, const struct wire_pkt *pkt)
{
	struct sroce_rq *rq = &qp->rq;
	struct sroce_cqe cqe = {
		.wr_id = rq->wqe->wr_id,
		.byte_len = rq->placed,
		.qp_num = qp->num->qpn,
		.src_qp = qp->dqpn,
		.wqe_next = rq->cons,
		.status = IB_WC_SUCCESS,
		.opcode = SROCE_WC_RECV,
	};

	if (pkt->op->flags & WIRE_IMM) {
		memcpy(&cqe.imm_data, pkt->imm, sizeof(pkt->imm));
		cqe.wc_flags |= SROCE_WC_WITH_IMM;
	}
	rq->op = SROCE_RECV_IDLE;
	rq->msn = (rq->msn + 1) & WIRE_PSN_MASK;
	recv_complete(qp, &cqe, pkt->solicited);
}

static void recv_send(struct sroce_qp *qp, const struct wire_pkt *pkt,
		      struct sroce_rx_pos *payload)
{
	enum ib_wc_status status;

	/* no key of this device can be invalidated from afar */
	if (!in_order(qp, pkt) || pkt->op->flags & WIRE_IETH) {
		recv_refuse(qp, WIRE_NAK_INVALID_REQ, IB_EVENT_QP_REQ_ERR);
		return;
	}
	if (pkt->op->flags & WIRE_START && !send_start(qp))
		return;

	status = place(qp, payload, pkt->payload_len);
	if (status != IB_WC_SUCCESS) {
		recv_fail(qp, status, status == IB_WC_LOC_LEN_ERR ? WIRE_NAK_INVALID_REQ :
								    WIRE_NAK_REM_OP);
		return;
	}

	advance(qp);
	if (pkt->op->flags & WIRE_END)
		send_end(qp, pkt);
	if (pkt->ackreq)
		respond(qp, WIRE_AETH_ACK | WIRE_AETH_CREDIT_INVALID);
}

/**
 * sroce_recv_packet - take a request packet
 * @qp: queue pair; its receive lock is held, and sroce_recv_end() is due
 * @pkt: the packet, from the peer, with a right ICRC
 * @payload: where its payload is
 *
 * Softirq.
 */
void sroce_recv_packet(struct sroce_qp *qp, const struct wire_pkt *pkt,
		       struct sroce_rx_pos *payload)
{
	struct sroce_dev *sdev = qp_dev(qp);
	struct sroce_rq *rq = &qp->rq;
	s32 ahead;

	if (qp->state != IB_QPS_RTR && qp->state != IB_QPS_RTS && qp->state != IB_QPS_SQD) {
		sroce_count(sdev, RX_WRONG_STATE);
		return;
	}
	if (qp->state == IB_QPS_RTR && !qp->comm_est) {
		qp->comm_est = true;
		sroce_qp_event(qp, IB_EVENT_COMM_EST);
	}

	ahead = wire_psn_diff(pkt->psn, rq->epsn);
	if (ahead < 0) {
		/* it has been executed: say so again, and that is all (9.7.5.1.2) */
		sroce_count(sdev, DUPLICATE);
		respond(qp, WIRE_AETH_ACK | WIRE_AETH_CREDIT_INVALID);
		return;
	}
	if (ahead > 0) {
		sroce_count(sdev, OUT_OF_SEQUENCE);
		if (!rq->nak_sent) {
			rq->nak_sent = true;
			respond(qp, WIRE_AETH_NAK | WIRE_NAK_PSN_SEQ);
			sroce_count(sdev, SENT_SEQ_NAK);
		}
		return;
	}

	switch (pkt->op->class) {
	case WIRE_CLASS_SEND:
		sroce_count(sdev, RX_SEND);
		recv_send(qp, pkt, payload);
		break;
	default:
		recv_refuse(qp, WIRE_NAK_INVALID_REQ, IB_EVENT_QP_REQ_ERR);
	}
}

/* Write the answer that is owed into a burst of its own. */
static bool write_response(struct sroce_qp *qp, struct sroce_burst *b)
{
	const u32 len = wire_opcodes[WIRE_ACKNOWLEDGE].hdr_len + WIRE_ICRC_LEN;
	struct sroce_rq *rq = &qp->rq;
	u32 psn = rq->epsn;
	u8 *p;

	/* an ACK names the last packet that arrived, a NAK the first that did not */
	if (is_ack(rq->syndrome))
		psn = wire_psn_add(psn, -1);
	if (READ_ONCE(qp_dev(qp)->gone) || sroce_burst_start(b, qp->num, &rq->path)) {
		sroce_count(qp_dev(qp), TX_NO_ROUTE);
		return false;
	}
	p = sroce_burst_reserve(b, len);
	if (p) {
		wire_bth_put(p, WIRE_RC | WIRE_ACKNOWLEDGE, 0, 0, SROCE_PKEY, qp->dqpn, 0, psn);
		wire_aeth_put(p + WIRE_BTH_LEN, rq->syndrome, rq->msn);
		sroce_burst_commit(b);
		sroce_count(qp_dev(qp), SENT_ACK);
		trace_sroce_respond(qp, psn, rq->syndrome);
	}
	sroce_burst_seal(b);
	return p;
}

/**
 * sroce_recv_end - a run of packets is over: answer, and let go
 * @qp: queue pair; its receive lock is held, and dropped here
 *
 * The answer is written under the lock and sent without it: what the stack
 * does with it may end up in a receive path again.
 */
void sroce_recv_end(struct sroce_qp *qp)
	__releases(&qp->rq.lock)
{
	struct sroce_rq *rq = &qp->rq;
	struct sroce_burst burst;
	bool answer = false;

	if (rq->respond) {
		answer = write_response(qp, &burst);
		/* unsaid: the next packet out of order is answered again */
		if (!answer)
			rq->nak_sent = false;
	}
	rq->respond = false;
	if (rq->mr)
		sroce_mr_put(rq->mr);
	rq->mr = NULL;
	sroce_qp_unlock(qp);

	/* an acknowledgement that is lost is asked for again, a NAK is not */
	if (answer && sroce_burst_send(&burst)) {
		sroce_count(qp_dev(qp), TX_DROPPED);
		spin_lock_bh(&rq->lock);
		rq->nak_sent = false;
		spin_unlock_bh(&rq->lock);
	}
}
