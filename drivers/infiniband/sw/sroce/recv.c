// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The responder: from packets to a program's memory.
 *
 * It runs in the softirq that received them, a run of one queue pair's
 * packets under one lock. What has to be answered is noted, and answered once
 * for the whole run (resp.c): an acknowledgement covers all before it.
 */
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <net/ip.h>

#include "sroce.h"
#include "trace.h"
#include "wire/recovery.h"

/*
 * READs and ATOMICs take PSNs that acknowledgements do not name, and a requester takes what is
 * half of all of them back for one ahead (9.7.1). With the largest READ, 2^22, that is two steps.
 */
#define ACK_PSN_REACH	(1U << 21)

/* How the taking of a packet ended. */
enum recv_result {
	RECV_DONE,
	RECV_LATER,		/* its memory is being brought: it will be taken again */
	RECV_LEN,		/* too long for the receive request */
	RECV_PROT,		/* the receive request's list is wrong */
	RECV_ACCESS,		/* the remote key is not good for this */
};

/* A NAK outranks the acknowledgement that it implies, and a later NAK it. */
static void respond(struct sroce_qp *qp, u8 syndrome)
{
	struct sroce_rq *rq = &qp->rq;

	if (!qp_reliable(qp))
		return;
	if (!rq->respond || !wire_aeth_is_ack(syndrome))
		rq->syndrome = syndrome;
	rq->respond = true;
}

/* @num PSNs have come; a NAK for them that is not out yet is moot. */
static void advance(struct sroce_qp *qp, u32 num)
{
	struct sroce_rq *rq = &qp->rq;

	rq->epsn = wire_psn_add(rq->epsn, num);
	rq->nak_sent = false;
	rq->not_ready = false;
	if (rq->respond && !wire_aeth_is_ack(rq->syndrome))
		rq->syndrome = WIRE_AETH_PURE_ACK;
}

static void message_done(struct sroce_rq *rq)
{
	WRITE_ONCE(rq->news, rq->news + 1);
	rq->msn = (rq->msn + 1) & WIRE_PSN_MASK;
}

/* A packet that an acknowledgement answers has been executed. */
static void executed(struct sroce_qp *qp, const struct wire_pkt *pkt)
{
	struct sroce_rq *rq = &qp->rq;

	rq->ack_psn = pkt->psn;
	rq->ack_stale = false;
	advance(qp, 1);
	if (pkt->op->flags & WIRE_END) {
		message_done(rq);
		rq->op = SROCE_RECV_IDLE;
	}
	if (pkt->ackreq)
		respond(qp, WIRE_AETH_PURE_ACK);
}

/* Regions */

static void run_mr_put(struct sroce_rq *rq)
{
	if (rq->mr)
		sroce_mr_put(rq->mr);
	rq->mr = NULL;
}

/* Of remote keys: the queue pair's, and of XRC the shared receive queue's */
static struct ib_pd *recv_pd(const struct sroce_qp *qp)
{
	return qp->rq.srq ? qp->rq.srq->ibsrq.pd : qp->rq.pd;
}

/* Of a receive request's keys: that of the queue which it was posted to, 10.2.9 */
static struct ib_pd *list_pd(const struct sroce_qp *qp)
{
	return qp->ibqp.srq ? qp->ibqp.srq->pd : recv_pd(qp);
}

static struct sroce_mr *run_mr(struct sroce_qp *qp, u32 lkey)
{
	struct sroce_rq *rq = &qp->rq;

	if (rq->mr && rq->mr_key == lkey && !rq->mr_remote)
		return rq->mr;
	run_mr_put(rq);
	rq->mr = sroce_mr_get(list_pd(qp), lkey);
	rq->mr_key = lkey;
	rq->mr_remote = false;
	return rq->mr;
}

/*
 * Memory under a remote key, for a run: once a packet has been let in, those
 * of its message that follow at once are, up to the end that was checked.
 */
static struct sroce_mr *run_mr_remote(struct sroce_qp *qp, u32 rkey, u64 va, u32 len, int access,
				      u64 *addr)
{
	struct sroce_rq *rq = &qp->rq;

	/* the next of a run of small ones: the same key, held, and good for this, too? */
	if (rq->mr && rq->mr_remote && rq->mr_key == rkey &&
	    sroce_mr_covers(rq->mr, va + rq->mr_delta, len, access)) {
		*addr = va + rq->mr_delta;
		return rq->mr;
	}
	run_mr_put(rq);
	*addr = va;
	rq->mr = sroce_mr_get_remote(qp, recv_pd(qp), rkey, addr, len, access);
	rq->mr_key = rkey;
	rq->mr_remote = true;
	rq->mr_delta = *addr - va;
	return rq->mr;
}

static enum recv_result recv_fault(struct sroce_qp *qp, u64 addr, u64 len,
				   enum recv_result refused)
{
	struct sroce_rq *rq = &qp->rq;

	/* an unreliable queue pair goes on with the next packet */
	if (sroce_fault_refused(&rq->fault, rq->mr->key, addr, true))
		return refused;
	sroce_fault_start(&rq->fault, rq->mr_remote ? recv_pd(qp) : list_pd(qp), rq->srq,
			  rq->mr->key, addr, len, true);
	/* what is before it is done, and its requester may have asked behind it only */
	respond(qp, WIRE_AETH_PURE_ACK);
	return RECV_LATER;
}

/* Receive requests */

static struct sroce_cq *recv_cq(const struct sroce_qp *qp)
{
	if (qp->rq.tm)
		return to_scq(qp->ibqp.srq->ext.cq);
	return to_scq(qp->transport == WIRE_XRC && qp->rq.srq ? qp->rq.srq->ibsrq.ext.cq :
								 qp->ibqp.recv_cq);
}

static void recv_complete(struct sroce_qp *qp, const struct sroce_cqe *cqe, bool solicited)
{
	if (!rq_complete(&qp->rq, recv_cq(qp), cqe, solicited))
		sroce_qp_overrun(qp, false);
}

/* The request in rq.wqe ends without a message. */
static void recv_complete_err(struct sroce_qp *qp, enum ib_wc_status status)
{
	struct sroce_cqe cqe = {
		.status = status,
		.opcode = qp->rq.tm ? SROCE_WC_TM_RECV : SROCE_WC_RECV,
	};

	if (status != IB_WC_WR_FLUSH_ERR)
		sroce_qp_count(qp, RESP_CQE_ERR);
	if (qp->rq.tm)
		sroce_tm_abort(qp);
	qp->rq.op = SROCE_RECV_IDLE;
	rq_end_wqe(&qp->rq, qp->num->qpn, &cqe);
	recv_complete(qp, &cqe, true);
}

/**
 * sroce_recv_fetch - copy the next request out of its ring, once
 * @rq: receive side; its lock is held
 *
 * Return: 0 with the request in @rq->wqe; -EAGAIN if there is none; -EINVAL, and
 * -EAGAIN from then on, if the ring's indices contradict each other.
 */
int sroce_recv_fetch(struct sroce_rq *rq)
{
	u32 num;

	if (rq->broken || !rq->q.ring)
		return -EAGAIN;
	if (!queue_avail(&rq->q, rq->cons, &num)) {
		rq->broken = true;
		return -EINVAL;
	}
	if (!num)
		return -EAGAIN;

	memcpy(rq->wqe, queue_entry(&rq->q, rq->cons), rq->q.entry_size);
	rq->cons++;
	/* the copy is made before the entry may be used again */
	smp_store_release(&rq->q.ring->cons, rq->cons);
	return 0;
}

static bool ring_fetch(struct sroce_qp *qp)
{
	int err = sroce_recv_fetch(&qp->rq);

	if (err == -EINVAL) {
		sroce_qp_event(qp, IB_EVENT_QP_FATAL);
		sroce_qp_error_locked(qp);
	}
	return !err;
}

static struct sroce_srq *recv_srq(const struct sroce_qp *qp)
{
	if (qp->rq.srq)
		return qp->rq.srq;
	return qp->ibqp.srq ? to_ssrq(qp->ibqp.srq) : NULL;
}

/**
 * sroce_recv_list_start - to the start of the list of the receive request that is taken
 * @rq: receive side; its lock is held
 */
void sroce_recv_list_start(struct sroce_rq *rq)
{
	rq->sge = 0;
	rq->sge_off = 0;
	rq->placed = 0;
}

/* A request to receive into; one that an unreliable message left is used first. */
static bool rq_fetch(struct sroce_qp *qp)
{
	struct sroce_srq *srq = recv_srq(qp);
	struct sroce_rq *rq = &qp->rq;

	if (!rq->has_wqe) {
		rq->has_wqe = srq ? sroce_srq_fetch(srq, rq->wqe) : ring_fetch(qp);
		rq->max_sge = srq ? srq->max_sge : qp->max_recv_sge;
		rq->wqe_srqn = srq ? srq->srqn : 0;
	}
	sroce_recv_list_start(rq);
	return rq->has_wqe;
}

/*
 * XRC: a packet's shared receive queue is let go, and with it may go its
 * completion queue: its event can't wait for the lock. Programs alone have
 * such queues; their handler takes a lock of its own and nothing of ours.
 */
static void xrc_end(struct sroce_qp *qp)
{
	struct sroce_rq *rq = &qp->rq;

	run_mr_put(rq);
	if (rq->notify)
		sroce_cq_notify(rq->notify);
	rq->notify = NULL;
	if (rq->srq)
		sroce_srq_put(rq->srq);
	rq->srq = NULL;
}

/* The receive request of a message that will not be finished. */
static void flush_taken(struct sroce_qp *qp)
{
	struct sroce_rq *rq = &qp->rq;

	if (qp->transport != WIRE_XRC || rq->srq) {
		recv_complete_err(qp, IB_WC_WR_FLUSH_ERR);
		return;
	}
	rq->srq = sroce_srq_get(qp, rq->wqe_srqn);
	if (rq->srq)
		recv_complete_err(qp, IB_WC_WR_FLUSH_ERR);
	rq->has_wqe = false;
	xrc_end(qp);
}

/* All that is in the queue pair's own ring; an event, if its indices contradict each other. */
static void ring_flush(struct sroce_qp *qp)
{
	const struct sroce_sink sink = {
		.rq = &qp->rq,
		.cq = recv_cq(qp),
		.num = qp->num->qpn,
	};
	const bool broken = qp->rq.broken;

	sroce_sink_flush(&sink);
	if (qp->rq.broken && !broken)
		sroce_qp_event(qp, IB_EVENT_QP_FATAL);
}

/**
 * sroce_recv_flush - end every receive request that is posted
 * @qp: queue pair in ERR; its receive lock is held
 *
 * Requests of a shared receive queue stay there, and its owner is told
 * (11.6.3.4).
 */
void sroce_recv_flush(struct sroce_qp *qp)
{
	struct sroce_rq *rq = &qp->rq;

	if (rq->has_wqe)
		flush_taken(qp);
	rq->op = SROCE_RECV_IDLE;
	sroce_kept_purge(qp, &rq->kept);
	/* a rendezvous still has its tag's buffer: then send_flush_all() says it */
	if (qp->ibqp.srq && !qp->sq.tagged)
		sroce_qp_last_wqe(qp);
	if (rq->q.ring)
		ring_flush(qp);
}

/**
 * sroce_recv_reset - as in a new queue pair
 * @qp: queue pair; its receive lock is held
 */
void sroce_recv_reset(struct sroce_qp *qp)
{
	struct sroce_rq *rq = &qp->rq;
	struct sroce_late *late;

	rq->cons = 0;
	rq->epsn = 0;
	rq->msn = 0;
	rq->op = SROCE_RECV_IDLE;
	if (rq->tm)
		sroce_tm_abort(qp);
	rq->has_wqe = false;
	rq->drop = false;
	rq->nak_sent = false;
	rq->not_ready = false;
	rq->respond = false;
	rq->broken = false;
	rq->num_res = 0;
	rq->num_owed = 0;
	rq->num_parts = 0;
	rq->refusals = 0;
	rq->backoff = 0;
	rq->filled = false;
	rq->goes_back = false;
	rq->unreported = 0;
	rq->report = false;
	rq->greet = false;
	rq->greetings = 0;
	rq->twice = 0;
	rq->read_psns = 0;
	/* there is no path that it could take any more */
	clear_bit(SROCE_RESP_CNP, &rq->flags);
	while ((late = list_first_entry_or_null(&rq->late, struct sroce_late, entry)))
		sroce_wait_over(qp, late);
	sroce_kept_purge(qp, &rq->kept);
}

/* Errors */

/* A request is taken, but the shared receive queue whose it is has gone, and who polled for it. */
static bool taken_gone(const struct sroce_qp *qp)
{
	return qp->transport == WIRE_XRC && !qp->rq.srq;
}

/*
 * An unreliable message can't have the request that it took. One of the queue pair's own waits
 * for the next; for that of a shared queue others may, and it ends: class E of 9.9.3.
 */
static void recv_spoilt(struct sroce_qp *qp, enum ib_wc_status status)
{
	if (qp->rq.has_wqe && recv_srq(qp))
		recv_complete_err(qp, status);
}

/* The request violates the protocol or its rights, and the connection ends: 9.9.3.1 */
static void recv_refuse(struct sroce_qp *qp, enum wire_nak nak)
{
	const bool access = nak == WIRE_NAK_REM_ACCESS;
	const enum ib_wc_status status = access ? IB_WC_REM_ACCESS_ERR : IB_WC_REM_INV_REQ_ERR;

	if (!qp_reliable(qp)) {
		/* its requester can't be told, and nobody else is to blame */
		sroce_qp_count(qp, RX_UNRELIABLE_DROPPED);
		recv_spoilt(qp, status);
		qp->rq.op = SROCE_RECV_IDLE;
		qp->rq.drop = true;
		return;
	}
	sroce_qp_count(qp, SENT_ERR_NAK);
	respond(qp, WIRE_AETH_NAK | nak);
	/* a completion says it, if a receive request was taken: class C */
	if (qp->rq.has_wqe && !taken_gone(qp))
		recv_complete_err(qp, status);
	else
		sroce_qp_event(qp, access ? IB_EVENT_QP_ACCESS_ERR : IB_EVENT_QP_REQ_ERR);
	sroce_qp_error_locked(qp);
}

/* The receive request is at fault, or too small: both sides hear of it. */
static void recv_fail(struct sroce_qp *qp, enum ib_wc_status status, enum wire_nak nak)
{
	if (!qp_reliable(qp) && status == IB_WC_LOC_LEN_ERR) {
		recv_spoilt(qp, status);
		recv_refuse(qp, nak);
		return;
	}
	if (qp_reliable(qp))
		sroce_qp_count(qp, SENT_ERR_NAK);
	respond(qp, WIRE_AETH_NAK | nak);
	recv_complete_err(qp, status);
	sroce_qp_error_locked(qp);
}

static void recv_not_ready(struct sroce_qp *qp)
{
	struct sroce_rq *rq = &qp->rq;

	if (qp->state == IB_QPS_ERR) {
		respond(qp, WIRE_AETH_NAK | WIRE_NAK_REM_OP);
		return;
	}
	sroce_qp_count(qp, RX_NO_WQE);
	if (!qp_reliable(qp)) {
		rq->drop = true;
		return;
	}
	/* its requester starts anew there: until it does, all is dropped (9.7.5.2.8) */
	rq->nak_sent = true;
	rq->not_ready = true;
	sroce_kept_purge(qp, &rq->kept);
	respond(qp, WIRE_AETH_RNR_NAK | qp->attr.min_rnr_timer);
	sroce_qp_count(qp, SENT_RNR_NAK);
}

/* Did a packet get placed? If not, see to what that means. */
static bool recv_ok(struct sroce_qp *qp, enum recv_result result)
{
	switch (result) {
	case RECV_DONE:
		qp->rq.fault.err = 0;
		return true;
	case RECV_LATER:
		return false;
	case RECV_LEN:
		recv_fail(qp, IB_WC_LOC_LEN_ERR, WIRE_NAK_INVALID_REQ);
		return false;
	case RECV_PROT:
		recv_fail(qp, IB_WC_LOC_PROT_ERR, WIRE_NAK_REM_OP);
		return false;
	case RECV_ACCESS:
		recv_refuse(qp, WIRE_NAK_REM_ACCESS);
		return false;
	}
	return false;
}

/* Placing */

/* Bytes into the receive request's list, where the last ended: @from or @pos. */
static enum recv_result place(struct sroce_qp *qp, struct sroce_rx_pos *pos, const u8 *from,
			      u32 len)
{
	struct sroce_rq *rq = &qp->rq;

	while (len) {
		const struct sroce_sge *sge = &rq->wqe->sge[rq->sge];
		struct sroce_mr *mr;
		void *to;
		u64 addr;
		u32 n;

		if (rq->sge == rq->wqe->num_sge)
			return RECV_LEN;
		n = min(sge->length - rq->sge_off, len);
		if (!n) {
			rq->sge++;
			rq->sge_off = 0;
			continue;
		}
		mr = run_mr(qp, sge->lkey);
		addr = sge->addr + rq->sge_off;
		if (!mr || !sroce_mr_covers(mr, addr, n, IB_ACCESS_LOCAL_WRITE))
			return RECV_PROT;
		to = sroce_mr_span(mr, addr, &n, true);
		if (!to)
			return recv_fault(qp, addr, sge->length - rq->sge_off, RECV_PROT);
		if (from) {
			memcpy(to, from, n);
			from += n;
		} else {
			sroce_rx_copy(pos, to, n);
		}
		rq->sge_off += n;
		rq->placed += n;
		len -= n;
	}
	return RECV_DONE;
}

/* A packet's payload; one that can't be placed as a whole is placed anew. */
static enum recv_result place_payload(struct sroce_qp *qp, const struct sroce_rx *rx)
{
	struct sroce_rq *rq = &qp->rq;
	const u32 sge = rq->sge, off = rq->sge_off, placed = rq->placed;
	struct sroce_rx_pos pos = rx->payload;
	enum recv_result result;

	result = place(qp, &pos, NULL, rx->pkt.payload_len);
	if (result == RECV_LATER) {
		rq->sge = sge;
		rq->sge_off = off;
		rq->placed = placed;
	}
	return result;
}

/* A WRITE's payload, to where its message has got. */
static enum recv_result place_remote(struct sroce_qp *qp, const struct sroce_rx *rx)
{
	struct sroce_rq *rq = &qp->rq;
	struct sroce_rx_pos pos = rx->payload;
	u32 len = rx->pkt.payload_len;
	struct sroce_mr *mr = rq->mr;
	u64 addr;

	if (!len)
		return RECV_DONE;
	/* all that is still to come is checked, and let in for this run */
	if (!mr || !rq->mr_remote || rq->mr_key != rq->rkey)
		mr = run_mr_remote(qp, rq->rkey, rq->va, rq->left, IB_ACCESS_REMOTE_WRITE, &addr);
	else
		addr = rq->va + rq->mr_delta;
	if (!mr)
		return RECV_ACCESS;
	while (len) {
		u32 n = len;
		void *to = sroce_mr_span(mr, addr, &n, true);

		if (!to)
			return recv_fault(qp, addr, rq->left, RECV_ACCESS);
		sroce_rx_copy(&pos, to, n);
		addr += n;
		len -= n;
	}
	rq->va += rx->pkt.payload_len;
	rq->left -= rx->pkt.payload_len;
	return RECV_DONE;
}

/* Operations */

/* Opcode and length against what the message is at: 9.7.4.1.2 to .6 */
static bool in_order(const struct sroce_qp *qp, const struct wire_pkt *pkt)
{
	const enum sroce_recv_op op = pkt->op->class == WIRE_CLASS_WRITE ? SROCE_RECV_WRITE :
									   SROCE_RECV_SEND;
	const u16 flags = pkt->op->flags;

	if (qp->rq.op != (flags & WIRE_START ? SROCE_RECV_IDLE : op))
		return false;
	if (!(flags & WIRE_END))
		return pkt->payload_len == qp->mtu;
	if (!(flags & WIRE_START) && !pkt->payload_len)
		return false;
	return pkt->payload_len <= qp->mtu;
}

static bool allowed(const struct sroce_qp *qp, int access)
{
	return (qp->access & access) == access;
}

/* Take a receive request; the message does without if there is none. */
static bool take_wqe(struct sroce_qp *qp)
{
	struct sroce_rq *rq = &qp->rq;

	if (!rq_fetch(qp)) {
		recv_not_ready(qp);
		return false;
	}
	if (!recv_wqe_ok(rq->wqe, rq->max_sge)) {
		recv_fail(qp, IB_WC_LOC_QP_OP_ERR, WIRE_NAK_REM_OP);
		return false;
	}
	return true;
}

static void complete_message(struct sroce_qp *qp, const struct wire_pkt *pkt,
			     struct sroce_cqe *cqe)
{
	rq_end_wqe(&qp->rq, qp->num->qpn, cqe);
	if (pkt->op->flags & WIRE_IMM) {
		memcpy(&cqe->imm_data, pkt->imm, sizeof(pkt->imm));
		cqe->wc_flags |= SROCE_WC_WITH_IMM;
	}
	/* a rendezvous that is left to the program is no success, either */
	recv_complete(qp, cqe, pkt->solicited || cqe->status);
}

/*
 * Tag matching: the buffer of a tag, or an ordinary request. Of @rx, a copy,
 * what goes there is left.
 */
static bool take_tagged(struct sroce_qp *qp, struct sroce_rx *rx)
{
	const bool last = rx->pkt.op->flags & WIRE_END;
	struct sroce_rq *rq = &qp->rq;
	/* else it had to wait for its memory, and comes again */
	const bool first = !rq->has_wqe;
	struct sroce_cqe cqe = {};

	if (first ? !sroce_tm_match(qp, rx) : !sroce_tm_again(qp, rx)) {
		recv_refuse(qp, WIRE_NAK_INVALID_REQ);
		return false;
	}
	if (rq->has_wqe) {
		sroce_recv_list_start(rq);
	} else if (!take_wqe(qp)) {
		sroce_tm_abort(qp);
		return false;
	}
	/* of more than one packet: it is told at once what it is for */
	if (first && !last && sroce_tm_matched(qp)) {
		cqe.wr_id = rq->wqe->wr_id;
		cqe.qp_num = qp->num->qpn;
		sroce_tm_fill(qp, &cqe, true, false);
		recv_complete(qp, &cqe, false);
	}
	sroce_tm_cut(qp, rx);
	/* there may have been no room to tell it */
	return rq->has_wqe;
}

static void complete_tagged(struct sroce_qp *qp, const struct wire_pkt *pkt,
			    struct sroce_cqe *cqe)
{
	sroce_tm_fill(qp, cqe, pkt->op->flags & WIRE_START, true);
	complete_message(qp, pkt, cqe);
	/* what it may ask for completes after it */
	sroce_tm_read(qp);
	/* a WRITE's request is not this message's */
	qp->rq.tm_msg.kind = SROCE_TM_NO_TAG;
}

static bool invalidate(struct sroce_qp *qp, const struct wire_pkt *pkt)
{
	run_mr_put(&qp->rq);
	return !sroce_key_invalidate(qp, recv_pd(qp), pkt->ieth_rkey, true);
}

static void recv_send(struct sroce_qp *qp, const struct sroce_rx *rx)
{
	const struct wire_pkt *pkt = &rx->pkt;
	struct sroce_rq *rq = &qp->rq;
	struct sroce_cqe cqe = {
		.src_qp = qp->dqpn,
		.opcode = SROCE_WC_RECV,
	};
	struct sroce_rx cut;

	if (!in_order(qp, pkt)) {
		recv_refuse(qp, WIRE_NAK_INVALID_REQ);
		return;
	}
	if (pkt->op->flags & WIRE_START) {
		if (rq->tm) {
			cut = *rx;
			rx = &cut;
			if (!take_tagged(qp, &cut))
				return;
		} else if (!take_wqe(qp)) {
			return;
		}
	}
	/* it says nowhere how long it is, and a list may have room for more */
	if (pkt->payload_len > SROCE_MAX_MSG - rq->placed) {
		recv_fail(qp, IB_WC_LOC_LEN_ERR, WIRE_NAK_INVALID_REQ);
		return;
	}
	if (!recv_ok(qp, place_payload(qp, rx)))
		return;
	rq->op = SROCE_RECV_SEND;
	if (pkt->op->flags & WIRE_IETH) {
		if (!invalidate(qp, pkt)) {
			recv_fail(qp, IB_WC_LOC_ACCESS_ERR, WIRE_NAK_REM_ACCESS);
			return;
		}
		cqe.imm_data = pkt->ieth_rkey;
		cqe.wc_flags |= SROCE_WC_WITH_INV;
	}
	cqe.byte_len = rq->placed;
	executed(qp, pkt);
	if (!(pkt->op->flags & WIRE_END))
		return;
	if (rq->tm)
		complete_tagged(qp, pkt, &cqe);
	else
		complete_message(qp, pkt, &cqe);
}

/* The RETH of a WRITE: may it be done, as a whole? */
static bool write_start(struct sroce_qp *qp, const struct wire_pkt *pkt)
{
	struct sroce_rq *rq = &qp->rq;
	u64 addr;

	if (!allowed(qp, IB_ACCESS_REMOTE_WRITE) || pkt->dma_len > SROCE_MAX_MSG) {
		recv_refuse(qp, WIRE_NAK_INVALID_REQ);
		return false;
	}
	/* nothing is written, and no key is looked at: 9.7.4.1.5 */
	if (pkt->dma_len && !run_mr_remote(qp, pkt->rkey, pkt->va, pkt->dma_len,
					   IB_ACCESS_REMOTE_WRITE, &addr)) {
		recv_refuse(qp, WIRE_NAK_REM_ACCESS);
		return false;
	}
	rq->va = pkt->va;
	rq->rkey = pkt->rkey;
	rq->left = pkt->dma_len;
	rq->written = pkt->dma_len;
	return true;
}

/* Does the payload add up to what the RETH said? */
static bool write_fits(const struct sroce_rq *rq, const struct wire_pkt *pkt)
{
	if (pkt->op->flags & WIRE_END)
		return pkt->payload_len == rq->left;
	return pkt->payload_len < rq->left;
}

static void recv_write(struct sroce_qp *qp, const struct sroce_rx *rx)
{
	const struct wire_pkt *pkt = &rx->pkt;
	struct sroce_cqe cqe = {
		.src_qp = qp->dqpn,
		.opcode = SROCE_WC_RECV_IMM,
	};
	struct sroce_rq *rq = &qp->rq;

	if (!in_order(qp, pkt)) {
		recv_refuse(qp, WIRE_NAK_INVALID_REQ);
		return;
	}
	if (pkt->op->flags & WIRE_START && !write_start(qp, pkt))
		return;
	if (!write_fits(rq, pkt)) {
		recv_refuse(qp, WIRE_NAK_INVALID_REQ);
		return;
	}
	if (pkt->op->flags & WIRE_IMM) {
		if (sroce_tm_waits(qp)) {
			recv_refuse(qp, WIRE_NAK_INVALID_REQ);
			return;
		}
		if (!take_wqe(qp))
			return;
	}
	/* a program may wait for these bytes, and then look at what was written before them */
	smp_wmb();
	if (!recv_ok(qp, place_remote(qp, rx)))
		return;
	rq->op = SROCE_RECV_WRITE;
	executed(qp, pkt);
	if (pkt->op->flags & WIRE_IMM) {
		cqe.byte_len = rq->written;
		complete_message(qp, pkt, &cqe);
	}
}

/*
 * Is there a responder resource for one more? 9.7.4.1.4. An answer that is
 * being given again takes none: its request may have been sent again while the
 * first answer was under way, and be done with by now.
 */
static bool resource_free(struct sroce_qp *qp)
{
	const struct sroce_rq *rq = &qp->rq;
	const struct sroce_res *res;

	if (!rq->max_res)
		return false;
	res = &rq->res[rq->num_res % rq->max_res];
	return rq->num_res < rq->max_res || !res->owed || res->given;
}

/* A request that is answered with data is done, but for its answer. */
static void take_resource(struct sroce_qp *qp, const struct wire_pkt *pkt, u32 num_pkts, u64 orig)
{
	struct sroce_rq *rq = &qp->rq;

	message_done(rq);
	sroce_resp_request(qp, &(struct sroce_res) {
		.class = pkt->op->class,
		.owed = true,
		.psn = pkt->psn,
		.num_pkts = num_pkts,
		.end = num_pkts,
		.msn = rq->msn,
		.srqn = pkt->srqn,
		.rkey = pkt->rkey,
		.va = pkt->va,
		.len = pkt->dma_len,
		.orig = orig,
	});
	advance(qp, num_pkts);
	if (((rq->epsn - rq->ack_psn) & WIRE_PSN_MASK) > ACK_PSN_REACH)
		rq->ack_stale = true;
}

static void recv_read(struct sroce_qp *qp, const struct sroce_rx *rx)
{
	const struct wire_pkt *pkt = &rx->pkt;
	struct sroce_rq *rq = &qp->rq;
	u32 num_pkts;
	u64 addr;

	if (!allowed(qp, IB_ACCESS_REMOTE_READ) || pkt->dma_len > SROCE_MAX_MSG) {
		recv_refuse(qp, WIRE_NAK_INVALID_REQ);
		return;
	}
	if (pkt->dma_len && !run_mr_remote(qp, pkt->rkey, pkt->va, pkt->dma_len,
					   IB_ACCESS_REMOTE_READ, &addr)) {
		recv_refuse(qp, WIRE_NAK_REM_ACCESS);
		return;
	}
	num_pkts = max(DIV_ROUND_UP(pkt->dma_len, qp->mtu), 1U);
	rq->read_psns = max(rq->read_psns, num_pkts);
	take_resource(qp, pkt, num_pkts, 0);
}

static u64 atomic_op(u64 *p, const struct wire_pkt *pkt)
{
	/* on the CPU's own terms: programs here use the same words (IB_ATOMIC_GLOB) */
	if (wire_operation(pkt->opcode) == WIRE_CMP_SWAP)
		return cmpxchg64(p, pkt->compare, pkt->swap_add);
	return atomic64_fetch_add(pkt->swap_add, (atomic64_t *)p);
}

/* Eight bytes that may be changed at once, or why not. */
static enum recv_result atomic_word(struct sroce_qp *qp, const struct wire_pkt *pkt, int access,
				    u64 **word)
{
	u32 n = sizeof(u64);
	struct sroce_mr *mr;
	u64 addr;

	mr = run_mr_remote(qp, pkt->rkey, pkt->va, n, access, &addr);
	if (!mr)
		return RECV_ACCESS;
	*word = sroce_mr_span(mr, addr, &n, true);
	if (!*word)
		return recv_fault(qp, addr, n, RECV_ACCESS);
	/* an iova that is aligned can name an address that is not, or the end of a piece */
	return IS_ALIGNED((unsigned long)*word, sizeof(u64)) && n == sizeof(u64) ? RECV_DONE :
										  RECV_ACCESS;
}

static void recv_atomic(struct sroce_qp *qp, const struct sroce_rx *rx)
{
	const struct wire_pkt *pkt = &rx->pkt;
	u64 *word;

	if (!allowed(qp, IB_ACCESS_REMOTE_ATOMIC) || !IS_ALIGNED(pkt->va, sizeof(u64))) {
		recv_refuse(qp, WIRE_NAK_INVALID_REQ);
		return;
	}
	if (!recv_ok(qp, atomic_word(qp, pkt, IB_ACCESS_REMOTE_ATOMIC, &word)))
		return;
	take_resource(qp, pkt, 1, atomic_op(word, pkt));
}

/* Annex A19.4: eight bytes that nobody sees half written */
static void recv_atomic_write(struct sroce_qp *qp, const struct sroce_rx *rx)
{
	struct sroce_rx_pos pos = rx->payload;
	const struct wire_pkt *pkt = &rx->pkt;
	u64 value;
	u64 *word;

	if (!allowed(qp, IB_ACCESS_REMOTE_WRITE) || !IS_ALIGNED(pkt->va, sizeof(u64)) ||
	    pkt->payload_len != sizeof(u64) || pkt->dma_len != sizeof(u64)) {
		recv_refuse(qp, WIRE_NAK_INVALID_REQ);
		return;
	}
	if (!recv_ok(qp, atomic_word(qp, pkt, IB_ACCESS_REMOTE_WRITE, &word)))
		return;
	sroce_rx_copy(&pos, &value, sizeof(value));
	/* after what the same requester has written before */
	smp_store_release(word, value);
	take_resource(qp, pkt, 1, 0);
}

/* What a FLUSH needs the right to; 0 if it says nothing that makes sense. */
static int flush_access(const struct wire_pkt *pkt)
{
	if (pkt->flush & ~WIRE_FETH_MASK)
		return 0;
	return (pkt->flush & WIRE_FETH_GLOBAL ? SROCE_ACCESS_FLUSH : 0) |
	       (pkt->flush & WIRE_FETH_PERSISTENT ? SROCE_ACCESS_PERSIST : 0);
}

/* A whole region has a key and no range: its requester need not set the address. */
static bool may_flush(struct sroce_qp *qp, const struct wire_pkt *pkt, int access)
{
	u64 addr;

	if (!(pkt->flush & WIRE_FETH_LEVEL_MR))
		return run_mr_remote(qp, pkt->rkey, pkt->va, pkt->dma_len, access, &addr);
	run_mr_put(&qp->rq);
	return sroce_mr_allows_remote(qp, recv_pd(qp), pkt->rkey, access);
}

/*
 * Annex A19.3: what was written before is visible to all, on this CPU's word. A queue pair may
 * be allowed persistence, but no region has it to give.
 */
static void recv_flush_memory(struct sroce_qp *qp, const struct sroce_rx *rx)
{
	const struct wire_pkt *pkt = &rx->pkt;
	const int access = flush_access(pkt);

	if (!access || !allowed(qp, access)) {
		recv_refuse(qp, WIRE_NAK_INVALID_REQ);
		return;
	}
	if (!may_flush(qp, pkt, access)) {
		recv_refuse(qp, WIRE_NAK_REM_ACCESS);
		return;
	}
	/* the placement type GLOBAL: before the answer, to every reader */
	smp_mb();
	take_resource(qp, pkt, 1, 0);
}

/*
 * By enum wire_class. @uncounted: requesters count what takes one of the peer's resources, but
 * rdma_rxe not these.
 */
static const struct recv_op {
	void (*take)(struct sroce_qp *qp, const struct sroce_rx *rx);
	enum sroce_counter counter;
	bool resource;
	bool uncounted;
	bool unreliable;
} recv_ops[] = {
	[WIRE_CLASS_SEND] = { recv_send, SROCE_CNT_RX_SEND, .unreliable = true },
	[WIRE_CLASS_WRITE] = { recv_write, SROCE_CNT_RX_WRITE, .unreliable = true },
	[WIRE_CLASS_READ] = { recv_read, SROCE_CNT_RX_READ, .resource = true },
	[WIRE_CLASS_ATOMIC] = { recv_atomic, SROCE_CNT_RX_ATOMIC, .resource = true },
	[WIRE_CLASS_ATOMIC_WRITE] = { recv_atomic_write, SROCE_CNT_RX_ATOMIC, .resource = true },
	[WIRE_CLASS_FLUSH] = { recv_flush_memory, SROCE_CNT_RX_FLUSH, .resource = true,
			       .uncounted = true },
};

/* A packet is missing: the requester is told once, 9.7.5.1.3. */
static void recv_gap(struct sroce_qp *qp)
{
	struct sroce_rq *rq = &qp->rq;

	if (rq->nak_sent)
		return;
	rq->nak_sent = true;
	respond(qp, WIRE_AETH_NAK | WIRE_NAK_PSN_SEQ);
	sroce_qp_count(qp, SENT_SEQ_NAK);
}

/*
 * It finds no resource, and is lost: the NAK leaves when all before it have been answered, which is
 * when there are some, and its requester sends it again. What follows is kept.
 */
static void recv_postpone(struct sroce_qp *qp)
{
	/* it may have been missing before that */
	qp->rq.nak_sent = false;
	recv_gap(qp);
}

static void recv_execute(struct sroce_qp *qp, const struct sroce_rx *rx)
{
	const struct recv_op *op = &recv_ops[rx->pkt.op->class];
	const bool within = op->resource && qp->rq.op != SROCE_RECV_IDLE;
	const bool too_many = op->resource && !resource_free(qp);

	if (too_many && op->uncounted && !within && qp->rq.max_res) {
		recv_postpone(qp);
		return;
	}
	/* neither within another message, nor more than can be remembered */
	if (within || too_many)
		recv_refuse(qp, WIRE_NAK_INVALID_REQ);
	else
		op->take(qp, rx);
	/* one that has to wait comes again */
	if (rx->pkt.op->flags & WIRE_START && !qp->rq.fault.active && !qp->rq.not_ready)
		sroce_qp_count_at(qp, op->counter, 1);
}

/* A report of what is missing is due: each time, or now and then to one that goes back. */
static void report(struct sroce_rq *rq)
{
	rq->report |= !rq->goes_back || !(++rq->unreported % UNREPORTED);
}

/* A packet that asks came behind a gap. Is it kept, and has nothing been said of gaps for long? */
static bool report_overdue(const struct sroce_rq *rq, enum sroce_keep kept)
{
	return !rq->goes_back && (kept == SROCE_KEPT || kept == SROCE_KEPT_APART) &&
	       ktime_after(ktime_get(), ktime_add_ns(rq->reported, REPORT_NS));
}

/*
 * How far ahead of its turn a packet of the peer's can be: behind as many as may be kept, and
 * behind READs such as it has sent, whose requests are among what is missing. A spoofer who knows
 * the peer's address but not its PSN has to guess within this range; what is farther ahead is
 * dropped.
 */
static u32 kept_reach(const struct sroce_rq *rq)
{
	return min_t(u64, SROCE_KEPT_MAX_PKTS + (u64)rq->read_psns * rq->max_res, U16_MAX);
}

/* Before its turn: kept until then, as far as there is room. */
static void recv_early(struct sroce_qp *qp, struct sroce_rx *rx)
{
	struct sroce_rq *rq = &qp->rq;
	enum sroce_keep kept;
	bool opens;

	sroce_qp_count(qp, OUT_OF_SEQUENCE);
	if (rq->not_ready)
		return;
	if (wire_psn_diff(rx->pkt.psn, rq->epsn) > kept_reach(rq)) {
		sroce_qp_count(qp, RX_KEPT_DROPPED);
		recv_gap(qp);
		return;
	}
	opens = sroce_kept_opens(qp, &rq->kept, rx->pkt.psn);
	kept = sroce_keep(qp, &rq->kept, rx);
	if (kept == SROCE_KEPT_TWICE) {
		sroce_qp_count(qp, DUPLICATE);
		rq->twice++;
	} else if (kept == SROCE_KEPT_NOT) {
		/* what has aged makes room for the next one */
		sroce_kept_expire(qp);
	}
	if ((opens && kept == SROCE_KEPT_APART) || (rx->pkt.ackreq && report_overdue(rq, kept)))
		report(rq);
	recv_gap(qp);
}

/*
 * A gap was filled, and what had been kept behind it taken. Does the requester
 * send all that as well, as IBTA has it, or go on from where it was? To the
 * former, reports say nothing.
 */
static void judge_requester(struct sroce_rq *rq, u32 psn)
{
	if (psn != rq->filled_psn && wire_psn_diff(psn, rq->epsn) < 0)
		return;
	rq->goes_back = psn == rq->filled_psn;
	rq->filled = false;
}

/* Reliable: in order, each once; 9.7.4 */
static void recv_reliable(struct sroce_qp *qp, struct sroce_rx *rx)
{
	const struct wire_pkt *pkt = &rx->pkt;
	struct sroce_rq *rq = &qp->rq;
	s32 ahead = wire_psn_diff(pkt->psn, rq->epsn);

	if (unlikely(rq->filled))
		judge_requester(rq, pkt->psn);
	if (ahead < 0) {
		/* it has been executed: say so again, and that is all (9.7.5.1.2) */
		sroce_qp_count(qp, DUPLICATE);
		if (!recv_ops[pkt->op->class].resource) {
			rq->twice++;
			respond(qp, WIRE_AETH_PURE_ACK);
			return;
		}
		if (!sroce_resp_again(qp, pkt))
			sroce_qp_count(qp, DUPLICATE_DROPPED);
	} else if (ahead > 0) {
		recv_early(qp, rx);
	} else {
		recv_execute(qp, rx);
	}
}

/* Connected, and what is lost is lost: up to the next message's start (9.8.2) */
static void recv_unreliable(struct sroce_qp *qp, const struct sroce_rx *rx)
{
	const struct wire_pkt *pkt = &rx->pkt;
	struct sroce_rq *rq = &qp->rq;
	const bool start = pkt->op->flags & WIRE_START;

	if (!recv_ops[pkt->op->class].unreliable) {
		sroce_qp_count(qp, RX_WRONG_STATE);
		return;
	}
	if (pkt->psn != rq->epsn) {
		sroce_qp_count(qp, OUT_OF_SEQUENCE);
		rq->drop = true;
	}
	if (start) {
		rq->drop = false;
		rq->op = SROCE_RECV_IDLE;
	}
	rq->epsn = pkt->psn;
	if (!rq->drop)
		recv_execute(qp, rx);
	if (!rq->fault.active)
		rq->epsn = wire_psn_add(pkt->psn, 1);
}

/*
 * The GRH that a datagram's receiver finds before it (IBTA Vol.1 11.4.1.2): for IPv4, its header
 * in the end. An skb's header speaks for the whole of a burst, if it says a length at all.
 */
static void make_grh(const struct sroce_rx *rx, union rdma_network_hdr *grh)
{
	const u16 len = WIRE_UDP_LEN + rx->pkt.op->hdr_len + rx->pkt.payload_len + rx->pkt.pad +
			WIRE_ICRC_LEN;
	const u8 *ip = skb_network_header(rx->skb);

	if (rx->ipv6) {
		memcpy(&grh->ibgrh, ip, WIRE_IP6_LEN);
		grh->ibgrh.paylen = htons(len);
		return;
	}
	memset(grh->reserved, 0, sizeof(grh->reserved));
	memcpy(&grh->roce4grh, ip, WIRE_IP4_LEN);
	grh->roce4grh.tot_len = htons(WIRE_IP4_LEN + len);
	ip_send_check(&grh->roce4grh);
}

/**
 * sroce_recv_fits - is there room for a message in a receive request?
 * @wqe: the request
 * @len: bytes
 *
 * Return: true if there is.
 */
bool sroce_recv_fits(const struct sroce_recv_wqe *wqe, u32 len)
{
	u64 room = 0;
	u32 i;

	for (i = 0; i < wqe->num_sge; i++)
		room += wqe->sge[i].length;
	return len <= room;
}

/* Into a receive request, if there is one that it fits. */
static void take_datagram(struct sroce_qp *qp, const struct sroce_rx *rx, struct sroce_cqe *cqe)
{
	struct sroce_rq *rq = &qp->rq;
	enum recv_result result;
	union rdma_network_hdr grh;

	if (!take_wqe(qp))
		return;
	if (!sroce_recv_fits(rq->wqe, cqe->byte_len)) {
		sroce_qp_count(qp, RX_UNRELIABLE_DROPPED);
		recv_spoilt(qp, IB_WC_LOC_LEN_ERR);
		return;
	}
	make_grh(rx, &grh);
	result = place(qp, NULL, (u8 *)&grh, sizeof(grh));
	if (result == RECV_DONE)
		result = place_payload(qp, rx);
	if (!recv_ok(qp, result))
		return;
	WRITE_ONCE(rq->news, rq->news + 1);
	complete_message(qp, &rx->pkt, cqe);
}

/* 9.8.3: nothing that a stranger sends may end this queue pair */
static void recv_datagram(struct sroce_qp *qp, const struct sroce_rx *rx)
{
	const struct wire_pkt *pkt = &rx->pkt;
	struct sroce_cqe cqe = {
		.byte_len = sizeof(union rdma_network_hdr) + pkt->payload_len,
		.src_qp = pkt->src_qpn,
		.opcode = SROCE_WC_RECV,
		.wc_flags = SROCE_WC_GRH,
		.sl = rx->ipv6 ? SROCE_SL_IPV6 : SROCE_SL_IPV4,
	};

	if (rx->vlan != SROCE_NO_VLAN) {
		cqe.wc_flags |= SROCE_WC_VLAN;
		cqe.cvlan = rx->vlan;
	}
	if (pkt->qkey != qp->attr.qkey) {
		sroce_qp_count(qp, RX_WRONG_QKEY);
		return;
	}
	/* one packet, and so of the largest path MTU at most: 9.8.3.2 */
	if (pkt->payload_len > ib_mtu_enum_to_int(IB_MTU_4096)) {
		sroce_qp_count(qp, RX_UNRELIABLE_DROPPED);
		return;
	}
	/* 13.4.2: ib_mad looks at all of it, and would take what is missing from its buffer */
	if (qp->type == IB_QPT_GSI && pkt->payload_len != IB_MGMT_MAD_SIZE) {
		sroce_qp_count(qp, RX_UNRELIABLE_DROPPED);
		return;
	}
	take_datagram(qp, rx, &cqe);
	/* one that has to wait comes again */
	if (!qp->rq.fault.active)
		sroce_qp_count(qp, RX_SEND);
}

static void recv_dispatch(struct sroce_qp *qp, struct sroce_rx *rx)
{
	switch (qp->transport) {
	case WIRE_RC:
	case WIRE_XRC:
		recv_reliable(qp, rx);
		break;
	case WIRE_UC:
		recv_unreliable(qp, rx);
		break;
	case WIRE_UD:
		recv_datagram(qp, rx);
		break;
	}
}

/*
 * XRC: the shared receive queue that the packet names is part of the request. It is
 * looked at in its turn: one that comes again is answered and one that comes early kept,
 * whatever queue the message under way is for.
 */
static void recv_xrc(struct sroce_qp *qp, struct sroce_rx *rx)
{
	struct sroce_rq *rq = &qp->rq;

	if (rx->pkt.psn != rq->epsn) {
		recv_dispatch(qp, rx);
		return;
	}
	rq->srq = sroce_srq_get(qp, rx->pkt.srqn);
	if (rq->srq && (!rq->has_wqe || rq->wqe_srqn == rx->pkt.srqn)) {
		recv_dispatch(qp, rx);
		xrc_end(qp);
	} else {
		/* this one may be a stranger's: a request that has been taken is of another */
		xrc_end(qp);
		if (rq->has_wqe)
			rq->srq = sroce_srq_get(qp, rq->wqe_srqn);
		/* Annex A14: XRC SRQ domain violation */
		recv_refuse(qp, WIRE_NAK_INVALID_REQ);
		xrc_end(qp);
	}
}

static bool recv_take(struct sroce_qp *qp, struct sroce_rx *rx)
{
	struct sroce_rq *rq = &qp->rq;

	if (qp->state < IB_QPS_RTR || qp->state == IB_QPS_ERR) {
		sroce_qp_count(qp, RX_WRONG_STATE);
		return true;
	}
	/* 11.6.3.1: of connections; ib_mad takes any event of its own for a fatal one */
	if (qp->state == IB_QPS_RTR && !qp->comm_est && qp->transport != WIRE_UD) {
		qp->comm_est = true;
		sroce_qp_event(qp, IB_EVENT_COMM_EST);
	}
	if (qp->transport == WIRE_XRC)
		recv_xrc(qp, rx);
	else
		recv_dispatch(qp, rx);
	return !rq->fault.active;
}

/* Of the packet that would go on with the message under way; 0 if there is none */
static u8 middle_opcode(const struct sroce_qp *qp)
{
	const struct sroce_rq *rq = &qp->rq;

	if (qp->state < IB_QPS_RTR || qp->state == IB_QPS_ERR || rq->fault.active ||
	    qp->transport == WIRE_XRC || (qp->transport == WIRE_UC && rq->drop))
		return 0;
	switch (rq->op) {
	case SROCE_RECV_WRITE:
		return qp->transport | WIRE_WRITE_MIDDLE;
	case SROCE_RECV_SEND:
		return qp->transport | WIRE_SEND_MIDDLE;
	default:
		return 0;
	}
}

/* What is kept is mostly the middle of a message. Return: false if recv_take() has to see it. */
static bool kept_middle(struct sroce_qp *qp, const struct sroce_rx *rx)
{
	const struct wire_pkt *pkt = &rx->pkt;

	return pkt->psn == qp->rq.epsn && !qp->rq.filled && pkt->payload_len == qp->mtu &&
	       rx->payload.left >= qp->mtu && pkt->opcode == middle_opcode(qp) &&
	       sroce_recv_middle(qp, rx->payload.data, pkt->ackreq);
}

/*
 * Something is kept: take what is in order by now, as if it came now. The
 * requester learns at once how far that goes, and what is missing next. @taken
 * counts packets since the region was let go.
 */
static void recv_kept(struct sroce_qp *qp, u32 *taken)
{
	const u32 ack_psn = qp->rq.ack_psn, from = qp->rq.epsn;
	struct sroce_rq *rq = &qp->rq;
	struct sroce_late *late;

	while ((late = sroce_kept_expire(qp)) &&
	       wire_psn_diff(late->rx.pkt.psn, rq->epsn) <= 0) {
		sroce_kept_take(qp, &rq->kept, late);
		if (!kept_middle(qp, &late->rx) && !recv_take(qp, &late->rx)) {
			/* it came before all that wait for memory since */
			if (!sroce_wait_again(qp, late))
				sroce_qp_count(qp, RX_LATE_DROPPED);
			break;
		}
		sroce_late_free(late);
		if (!(++*taken % SROCE_REGION_RUN))
			run_mr_put(rq);
	}
	if (rq->epsn != from) {
		rq->filled = true;
		rq->filled_psn = wire_psn_add(rq->epsn, -1);
		trace_sroce_filled(qp, from, rq->epsn, rq->kept.num);
	}
	if (rq->ack_psn != ack_psn)
		respond(qp, WIRE_AETH_PURE_ACK);
	/*
	 * What comes next has not come. If that is behind what had been kept, or
	 * somebody asks, it is missing; else it may well be on its way, behind
	 * one that came early.
	 */
	if (rq->kept.num && !rq->fault.active && (rq->epsn != from || rq->respond)) {
		if (rq->epsn != from)
			report(rq);
		recv_gap(qp);
	}
}

/**
 * sroce_recv_packet - take a request packet
 * @qp: queue pair; its receive lock is held, and sroce_recv_end() is due
 * @rx: the packet, for its transport
 *
 * Softirq. A packet whose memory is not there waits for it, and those behind
 * it with it.
 */
void sroce_recv_packet(struct sroce_qp *qp, struct sroce_rx *rx)
{
	struct sroce_rq *rq = &qp->rq;
	const u32 from = rq->epsn;
	u32 taken = 0;

	if (!rq->fault.active && recv_take(qp, rx)) {
		/* one that came early itself makes nothing due */
		if (unlikely(rq->kept.num) &&
		    (rq->epsn != from || (rq->respond && !rq->nak_sent)))
			recv_kept(qp, &taken);
		return;
	}
	if (!sroce_wait(qp, rx))
		sroce_qp_count(qp, RX_LATE_DROPPED);
}

/* Where the message goes on: what has room for @len more bytes, and then some of a WRITE */
static bool middle_place(struct sroce_qp *qp, u32 len, u64 *addr)
{
	struct sroce_rq *rq = &qp->rq;
	const struct sroce_sge *sge;

	switch (rq->op) {
	case SROCE_RECV_WRITE:
		*addr = rq->va + rq->mr_delta;
		return rq->mr && rq->mr_remote && rq->mr_key == rq->rkey && rq->left > len;
	case SROCE_RECV_SEND:
		if (rq->sge == rq->wqe->num_sge || len > SROCE_MAX_MSG - rq->placed)
			return false;
		sge = &rq->wqe->sge[rq->sge];
		*addr = sge->addr + rq->sge_off;
		return sge->length - rq->sge_off >= len &&
		       rq->mr && !rq->mr_remote && rq->mr_key == sge->lkey &&
		       sroce_mr_covers(rq->mr, *addr, len, IB_ACCESS_LOCAL_WRITE);
	default:
		return false;
	}
}

/**
 * sroce_recv_expects - the opcode of a packet that would go on with a message
 * @qp: queue pair; its receive lock is held
 *
 * Return: that of its middle, for sroce_recv_middle(); 0 if none would.
 */
u8 sroce_recv_expects(const struct sroce_qp *qp)
{
	return qp->rq.kept.num ? 0 : middle_opcode(qp);
}

/**
 * sroce_recv_middle - take a packet that goes on with its message
 * @qp: queue pair; its receive lock is held, and sroce_recv_end() is due
 * @payload: a path MTU of bytes
 * @ackreq: BTH acknowledge request
 *
 * Bottom halves are off. For a run of packets with the opcode of middle_opcode(), each
 * of the PSN that is expected: they differ in nothing else, and what has been
 * checked for the first is so for them.
 *
 * Return: false if there is more to it, and sroce_recv_packet() has to see it.
 */
bool sroce_recv_middle(struct sroce_qp *qp, const u8 *payload, bool ackreq)
{
	struct sroce_rq *rq = &qp->rq;
	u32 len = qp->mtu;
	u64 addr;

	if (!middle_place(qp, len, &addr))
		return false;
	while (len) {
		u32 n = len;
		void *to = sroce_mr_span(rq->mr, addr, &n, true);

		/* what has been placed will be once more */
		if (!to)
			return false;
		sroce_copy(to, payload, n);
		payload += n;
		addr += n;
		len -= n;
	}
	if (rq->op == SROCE_RECV_WRITE) {
		rq->va += qp->mtu;
		rq->left -= qp->mtu;
	} else {
		rq->sge_off += qp->mtu;
		rq->placed += qp->mtu;
	}
	rq->ack_psn = rq->epsn;
	rq->ack_stale = false;
	advance(qp, 1);
	if (ackreq)
		respond(qp, WIRE_AETH_PURE_ACK);
	return true;
}

/**
 * sroce_recv_fault_done - paging in has ended: take what waits for it
 * @qp: queue pair
 * @err: 0, or why the memory can't be had
 *
 * Process context.
 */
void sroce_recv_fault_done(struct sroce_qp *qp, int err)
{
	struct sroce_rq *rq = &qp->rq;
	struct sroce_late *late;
	u32 taken = 0;
	bool lost;

	spin_lock_bh(&rq->lock);
	lost = list_empty(&rq->late);
	rq->fault.err = err;
	rq->fault.active = false;
	rcu_read_lock();
	while (!rq->fault.active &&
	       (late = list_first_entry_or_null(&rq->late, struct sroce_late, entry)) &&
	       recv_take(qp, &late->rx)) {
		/* that was for this packet, if it got so far as to ask */
		rq->fault.err = 0;
		sroce_wait_over(qp, late);
		if (rq->kept.num)
			recv_kept(qp, &taken);
		if (!(++taken % SROCE_REGION_RUN))
			run_mr_put(rq);
	}
	/* nor is it for what comes next, where the packet did not wait */
	if (!rq->fault.active)
		rq->fault.err = 0;
	/* it found no room to wait: what is kept does not come to its turn without it */
	if (lost && rq->kept.num)
		recv_gap(qp);
	rcu_read_unlock();
	sroce_recv_end(qp);
	sroce_send_run(qp);
}

/**
 * sroce_recv_end - a run of packets is over: let go, and answer
 * @qp: queue pair; its receive lock is held, and dropped here
 */
void sroce_recv_end(struct sroce_qp *qp)
	__releases(&qp->rq.lock)
{
	struct sroce_rq *rq = &qp->rq;
	const bool owed = rq->respond || rq->report || rq->num_owed;

	run_mr_put(rq);
	if (rq->news_told != rq->news) {
		rq->news_told = rq->news;
		sroce_doorbell_heard(qp);
	}
	sroce_rq_unlock(&qp->rq);
	if (owed)
		sroce_resp_run(qp);
}
