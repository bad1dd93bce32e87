// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The completer: what acknowledgements and responses do to the send side.
 *
 * It runs as the owner of the send side: in the softirq that received the
 * packet, if that finds it free; else the packet waits for who is at it.
 */
#include "request.h"
#include "trace.h"

static bool is_pure_ack(const struct wire_pkt *pkt)
{
	return pkt->op->class == WIRE_CLASS_ACK &&
	       wire_aeth_is_ack(pkt->syndrome);
}

/* A NAK that ends the connection, and is said once */
static bool is_fatal(const struct wire_pkt *pkt)
{
	return pkt->op->class == WIRE_CLASS_ACK &&
	       (pkt->syndrome & WIRE_AETH_KIND_MASK) == WIRE_AETH_NAK &&
	       (pkt->syndrome & WIRE_AETH_VALUE_MASK) != WIRE_NAK_PSN_SEQ;
}

/**
 * sroce_ack_later - leave a response for the owner of the send side
 * @qp: queue pair
 * @rx: the packet
 *
 * Softirq; sroce_send_run() is due. Of two that only acknowledge, the later
 * says it all. One that finds no room is a packet lost, and recovered like one; but one that would
 * not be said again has a place of its own.
 */
void sroce_ack_later(struct sroce_qp *qp, struct sroce_rx *rx)
{
	struct sroce_sq *sq = &qp->sq;
	struct sroce_late *last = NULL;

	/* nothing has been asked, and no owner would come for it */
	if (!sq->q.ring || READ_ONCE(qp->state) < IB_QPS_RTS) {
		sroce_qp_count(qp, RX_WRONG_STATE);
		return;
	}
	spin_lock_bh(&sq->late_lock);
	if (sq->num_late)
		last = list_last_entry(&sq->late, struct sroce_late, entry);
	if (last && is_pure_ack(&rx->pkt) && is_pure_ack(&last->rx.pkt)) {
		if (wire_psn_diff(rx->pkt.psn, last->rx.pkt.psn) > 0)
			last->rx.pkt.psn = rx->pkt.psn;
	} else {
		if (!rx->pkt.payload_len)
			rx->skb = NULL;
		if (!sroce_late_add(&sq->late, &sq->num_late,
				    SROCE_MAX_LATE + is_fatal(&rx->pkt), rx))
			sroce_qp_count(qp, RX_LATE_DROPPED);
	}
	spin_unlock_bh(&sq->late_lock);
}

/*
 * What has arrived of the oldest, from @from to before @to, is not in flight any more. A response
 * that has come in part does not end its request's flight.
 */
static void land(struct sroce_sq *sq, u32 from, u32 to)
{
	const struct sroce_swqe *swqe = sq_wqe(sq, sq->una);
	u32 before, num, pkts;

	if (!swqe->num_pkts)
		return;
	if (!takes_resource(swqe_op(sq, sq->una))) {
		if (wire_psn_diff(from, swqe->first_psn) < 0)
			from = swqe->first_psn;
		sq->flight -= min_t(u32, sq->flight, wire_psn_diff(to, from));
		return;
	}
	before = parts_before(swqe, from);
	num = parts_before(swqe, to) - before;
	if (!num)
		return;
	pkts = min(swqe->num_pkts, (before + num) << swqe->part) - (before << swqe->part);
	sq->flight -= min(sq->flight, num);
	sq->num_rd -= num;
	sq->sweep.spare -= min(sq->sweep.spare, pkts - num);
}

/**
 * sroce_ack_advance - all packets before @psn have arrived
 * @qp: queue pair; the caller owns its send side
 * @psn: not beyond what was sent, nor a request that awaits data
 *
 * Requests that are done with that are completed.
 */
void sroce_ack_advance(struct sroce_qp *qp, u32 psn)
{
	struct sroce_sq *sq = &qp->sq;
	const u32 from = sq->psn_una;

	sq->psn_una = psn;
	if (psn != from) {
		if (wire_psn_diff(sq->psn_left, psn) < 0)
			sq->psn_left = psn;
		sroce_retry_acked(qp);
		sroce_cwnd_acked(qp, wire_psn_diff(psn, from));
		sroce_gaps_moved(qp, wire_psn_diff(psn, from));
	}
	while (sq->una != sq->fetched) {
		const struct sroce_swqe *swqe = sq_wqe(sq, sq->una);
		const u32 end = wire_psn_add(swqe->first_psn, swqe->num_pkts);

		if (!swqe->sent)
			break;
		if (wire_psn_diff(psn, end) < 0) {
			if (wire_psn_diff(psn, swqe->first_psn) > 0)
				land(sq, from, psn);
			break;
		}
		if (sroce_send_awaits(sq, sq->una))
			break;
		land(sq, from, end);
		sroce_send_complete(qp, IB_WC_SUCCESS);
	}
	if (psn == from)
		return;
	/* what was being sent again has arrived after all */
	if (wire_psn_diff(sq->psn_nxt, psn) < 0)
		sroce_send_seek(qp, psn);
	sroce_retry_progress(qp);
	sroce_repair_moved(qp);
}

/*
 * As far as an acknowledgement of all before @psn goes: not beyond a request
 * whose data has not come (9.7.5.1.3).
 */
static u32 ack_limit(const struct sroce_sq *sq, u32 psn)
{
	u32 i;

	if (!sq->num_rd)
		return psn;
	for (i = sq->una; i != sq->fetched; i += sq_wqe(sq, i)->num_blocks) {
		const struct sroce_swqe *swqe = sq_wqe(sq, i);

		if (!swqe->sent || wire_psn_diff(swqe->first_psn, psn) >= 0)
			break;
		if (!sroce_send_awaits(sq, i))
			continue;
		/* part of a response may be here already */
		if (wire_psn_diff(sq->psn_una, swqe->first_psn) > 0)
			return sq->psn_una;
		return swqe->first_psn;
	}
	return psn;
}

/**
 * sroce_ack_before - the peer has all packets before one that it names
 * @qp: queue pair; the caller owns its send side
 * @psn: that one, which has been sent
 *
 * As far as that goes: some may await data. If it is said late, nothing comes of it.
 */
void sroce_ack_before(struct sroce_qp *qp, u32 psn)
{
	if (wire_psn_diff(psn, qp->sq.psn_una) > 0)
		sroce_ack_advance(qp, ack_limit(&qp->sq, psn));
}

static void ack_rnr(struct sroce_qp *qp, u32 psn, u8 syndrome)
{
	struct sroce_sq *sq = &qp->sq;

	sroce_qp_count(qp, RNR_NAK);
	/* nothing has been sent since the last: the network has doubled it */
	if (sq->rnr_wait)
		return;
	/* 7 is for ever (9.9.2.4.1) */
	if (qp->rnr_retry != 7) {
		if (!sq->rnr_left) {
			sroce_send_fail(qp, IB_WC_RNR_RETRY_EXC_ERR, syndrome);
			return;
		}
		sq->rnr_left--;
	}
	trace_sroce_retransmit(qp, psn);
	sroce_send_seek(qp, psn);
	sroce_retry_rnr(qp, syndrome & WIRE_AETH_VALUE_MASK);
}

/* NAK codes that end the request, 9.9.2.2 */
static enum ib_wc_status nak_status(u8 code)
{
	switch (code) {
	case WIRE_NAK_REM_ACCESS:
		return IB_WC_REM_ACCESS_ERR;
	case WIRE_NAK_REM_OP:
		return IB_WC_REM_OP_ERR;
	case WIRE_NAK_INVALID_REQ:
		return IB_WC_REM_INV_REQ_ERR;
	default:
		return IB_WC_BAD_RESP_ERR;
	}
}

/* A READ response has come twice: the first had only been late when it was asked for again. */
static void note_twice(struct sroce_qp *qp, const struct sroce_rx *rx)
{
	if (rx->pkt.op->class == WIRE_CLASS_READ_RESPONSE)
		qp->sq.order.twice++;
}

/*
 * Response @psn has come, and is kept: a round trip ends now, and not when it is taken. What is
 * missing before it has not held up who gave it.
 */
static void note_kept(struct sroce_qp *qp, u32 psn)
{
	struct sroce_sq *sq = &qp->sq;

	if (sq->rtt_start && wire_psn_diff(psn, sq->rtt_psn) >= 0)
		sroce_retry_arrived(qp);
}

/*
 * Memory of the program's is being brought, and the response waits for it: its peer, which has
 * answered, owes nothing any more, and need not be there when it is asked again. Who is being
 * destroyed has nothing brought.
 */
static void response_waits(struct sroce_qp *qp, struct sroce_rx *rx)
{
	struct sroce_sq *sq = &qp->sq;
	const enum sroce_keep kept = sq->fault.active ? sroce_keep(qp, &sq->kept, rx) :
							SROCE_KEPT_NOT;

	if (kept == SROCE_KEPT_NOT) {
		sq->missed = true;
		return;
	}
	if (kept == SROCE_KEPT_TWICE) {
		sroce_qp_count(qp, STALE_ACK);
		note_twice(qp, rx);
	}
	note_kept(qp, rx->pkt.psn);
}

/*
 * This response follows one that is missing: it is kept until the missing one has arrived. Or it
 * follows one that waits for memory, and nothing may be missing.
 */
static void ack_early(struct sroce_qp *qp, struct sroce_rx *rx)
{
	enum sroce_keep kept;
	bool tells;

	if (qp->sq.fault.active) {
		response_waits(qp, rx);
		return;
	}
	kept = sroce_keep(qp, &qp->sq.kept, rx);
	tells = kept == SROCE_KEPT_APART;
	if (kept == SROCE_KEPT_TWICE) {
		sroce_qp_count(qp, STALE_ACK);
		note_twice(qp, rx);
	} else if (kept != SROCE_KEPT_NOT) {
		note_kept(qp, rx->pkt.psn);
		tells |= sroce_gaps_came(&qp->sq, rx->pkt.psn);
	}
	sroce_gaps_arrived(&qp->sq, rx->pkt.psn);
	/* else ack_kept() asks */
	if (tells || !qp->sq.kept.num)
		sroce_repair_nak(qp, false);
	if (tells)
		sroce_gaps_implied(qp);
}

/*
 * The same for a NAK, which names a request that the peer lacks. If the peer keeps what came behind
 * that request, this is its only NAK for it: it is acted on now, and not kept.
 */
static void nak_early(struct sroce_qp *qp, struct sroce_rx *rx)
{
	if (!qp->sq.repair.reports || qp->sq.fault.active) {
		ack_early(qp, rx);
		return;
	}
	sroce_qp_count(qp, SEQ_ERR);
	sroce_repair_nak(qp, false);
	sroce_gaps_request(qp, rx->pkt.psn);
}

/*
 * A request has failed, but responses to earlier requests may still arrive. The NAK is kept until
 * they have. Without an ACK timeout nothing would end that wait: then it fails at once.
 */
static void nak_fatal(struct sroce_qp *qp, struct sroce_rx *rx, bool early)
{
	const u8 syndrome = rx->pkt.syndrome;

	if (early && qp->timeout)
		ack_early(qp, rx);
	else
		sroce_send_fail(qp, nak_status(syndrome & WIRE_AETH_VALUE_MASK), syndrome);
}

/* @early: responses to requests before it have not come */
static void ack_nak(struct sroce_qp *qp, struct sroce_rx *rx, bool early)
{
	const u8 syndrome = rx->pkt.syndrome;

	if ((syndrome & WIRE_AETH_VALUE_MASK) != WIRE_NAK_PSN_SEQ)
		nak_fatal(qp, rx, early);
	else if (early)
		nak_early(qp, rx);
	else
		sroce_repair_nak(qp, true);
}

/* A response acknowledges all packets before this PSN. */
static u32 pkt_upto(const struct wire_pkt *pkt)
{
	if (is_pure_ack(pkt))
		return wire_psn_add(pkt->psn, 1);
	return pkt->psn;
}

static void ack_acknowledge(struct sroce_qp *qp, struct sroce_rx *rx)
{
	const u8 syndrome = rx->pkt.syndrome;
	const u8 kind = syndrome & WIRE_AETH_KIND_MASK;
	const u32 upto = pkt_upto(&rx->pkt);
	u32 limit;

	/* a reserved kind: dropped silently, table 46 */
	if (kind != WIRE_AETH_ACK && kind != WIRE_AETH_RNR_NAK && kind != WIRE_AETH_NAK) {
		sroce_qp_count(qp, STALE_ACK);
		return;
	}
	limit = ack_limit(&qp->sq, upto);
	sroce_ack_advance(qp, limit);

	switch (kind) {
	case WIRE_AETH_ACK:
		/* the response of a READ or ATOMIC before it got lost (9.7.5.2.2) */
		if (limit != upto)
			ack_early(qp, rx);
		else
			sroce_repair_acked(qp);
		return;
	case WIRE_AETH_RNR_NAK:
		/* the peer says so again when the request comes again */
		if (limit == upto)
			ack_rnr(qp, upto, syndrome);
		else if (qp->sq.fault.active)
			ack_early(qp, rx);
		else
			sroce_repair_nak(qp, false);
		return;
	case WIRE_AETH_NAK:
		ack_nak(qp, rx, limit != upto);
		return;
	}
}

/* Stand at byte @off of the oldest request's list. */
static void scatter_seek(struct sroce_sq *sq, u32 off)
{
	const struct sroce_send_wqe *wqe = sq_copy(sq, sq->una);

	for (sq->rsp_sge = 0; sq->rsp_sge < wqe->num_sge; sq->rsp_sge++) {
		u32 len = sq_sge(sq, sq->una, sq->rsp_sge)->length;

		if (off < len)
			break;
		off -= len;
	}
	sq->rsp_off = off;
}

enum scatter_result {
	SCATTERED,
	SCATTER_LATER,		/* its memory is being brought */
	SCATTER_WRONG,		/* the request's own list is at fault */
};

/* Bytes of a response into the oldest request's list: a packet's, or @value. */
static enum scatter_result scatter(struct sroce_qp *qp, struct sroce_rx_pos *pos,
				   const u8 *value, u32 len)
{
	struct sroce_sq *sq = &qp->sq;

	while (len) {
		const struct sroce_sge *sge = sq_sge(sq, sq->una, sq->rsp_sge);
		u32 n = min(sge->length - sq->rsp_off, len);
		u64 addr = sge->addr + sq->rsp_off;
		struct sroce_mr *mr;
		void *to;

		if (!n) {
			sq->rsp_sge++;
			sq->rsp_off = 0;
			continue;
		}
		mr = sroce_send_mr(qp, sge->lkey);
		if (!mr || !sroce_mr_covers(mr, addr, n, IB_ACCESS_LOCAL_WRITE))
			return SCATTER_WRONG;
		to = sroce_mr_span(mr, addr, &n, true);
		if (!to)
			return sroce_send_fault(qp, sge, sq->rsp_off, true) ?
				SCATTER_LATER : SCATTER_WRONG;
		if (unlikely(sq->fault.err))
			sroce_fault_forget(&sq->fault, sge->lkey, addr, n, true);
		if (pos) {
			sroce_rx_copy(pos, to, n);
		} else {
			memcpy(to, value, n);
			value += n;
		}
		sq->rsp_off += n;
		len -= n;
	}
	return SCATTERED;
}

/* Placed in part, packet @psn will be placed again as a whole. */
static void not_scattered(struct sroce_qp *qp, u32 psn, enum scatter_result res)
{
	qp->sq.rsp_psn = wire_psn_add(psn, -1);
	if (res == SCATTER_WRONG)
		sroce_send_fail(qp, IB_WC_LOC_PROT_ERR, 0);
}

/* What the oldest request gets with packet @k of @num; false for not this. */
static bool fits_request(const struct sroce_qp *qp, const struct sroce_rx *rx, u32 k, u32 *len)
{
	const struct sroce_sq *sq = &qp->sq;
	const struct sroce_swqe *swqe = sq_wqe(sq, sq->una);
	const bool last = k + 1 == swqe->num_pkts;
	u8 opcode = sq_copy(sq, sq->una)->opcode;

	*len = 0;
	switch (rx->pkt.op->class) {
	case WIRE_CLASS_READ_RESPONSE:
		if (opcode == IB_UVERBS_WR_RDMA_READ)
			*len = min(swqe->length - k * qp->mtu, qp->mtu);
		else if (opcode != SROCE_WR_FLUSH && opcode != SROCE_WR_ATOMIC_WRITE)
			return false;
		/* what was asked for alone ends before the message does */
		return (rx->pkt.op->flags & WIRE_END || !last) && rx->pkt.payload_len == *len;
	case WIRE_CLASS_ATOMIC_ACK:
		*len = sizeof(rx->pkt.orig);
		return opcode == IB_UVERBS_WR_ATOMIC_CMP_AND_SWP ||
		       opcode == IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD;
	default:
		return false;
	}
}

/* A response with data, for the oldest request: all before it is complete. */
static void take_response(struct sroce_qp *qp, struct sroce_rx *rx)
{
	struct sroce_sq *sq = &qp->sq;
	struct sroce_swqe *swqe = sq_wqe(sq, sq->una);
	u32 k = wire_psn_diff(rx->pkt.psn, swqe->first_psn);
	const bool atomic = rx->pkt.op->class == WIRE_CLASS_ATOMIC_ACK;
	/* if it waits, it is placed from its beginning then */
	struct sroce_rx_pos payload = rx->payload;
	enum scatter_result res;
	u32 len;

	if (!fits_request(qp, rx, k, &len)) {
		sroce_send_fail(qp, IB_WC_BAD_RESP_ERR, rx->pkt.syndrome);
		return;
	}
	if (sq->rsp_psn != rx->pkt.psn || !k)
		scatter_seek(sq, k * qp->mtu);
	res = scatter(qp, atomic ? NULL : &payload, (u8 *)&rx->pkt.orig, len);
	if (res != SCATTERED) {
		not_scattered(qp, rx->pkt.psn, res);
		if (res == SCATTER_LATER)
			response_waits(qp, rx);
		return;
	}

	sq->rsp_psn = wire_psn_add(rx->pkt.psn, 1);
	if (rx->pkt.op->flags & WIRE_END)
		sq->rsp_end = sq->rsp_psn;
	swqe->answered = k + 1 == swqe->num_pkts;
	sroce_ack_advance(qp, sq->rsp_psn);
}

static void ack_response(struct sroce_qp *qp, struct sroce_rx *rx)
{
	const u32 psn = rx->pkt.psn;
	struct sroce_sq *sq = &qp->sq;

	if (sq->fault.active) {
		response_waits(qp, rx);
		return;
	}
	/* it acknowledges the requests before its own */
	sroce_ack_advance(qp, ack_limit(sq, psn));
	if (sq->psn_una != psn)
		ack_early(qp, rx);
	else if (sq->una != sq->fetched && sroce_send_awaits(sq, sq->una))
		take_response(qp, rx);
	else
		sroce_qp_count(qp, STALE_ACK);
}

static void ack_take(struct sroce_qp *qp, struct sroce_rx *rx)
{
	if (rx->pkt.op->class == WIRE_CLASS_ACK)
		ack_acknowledge(qp, rx);
	else
		ack_response(qp, rx);
}

/* Of a packet that would go on with a READ's response, whose PSN is in rsp_psn; 0 if none would */
static u8 middle_opcode(const struct sroce_qp *qp)
{
	const enum ib_qp_state state = READ_ONCE(qp->state);
	const struct sroce_sq *sq = &qp->sq;
	const struct sroce_swqe *swqe;
	u32 k;

	if ((state != IB_QPS_RTS && state != IB_QPS_SQD) || sq->fault.active ||
	    sq->una == sq->fetched || sq->psn_una != sq->rsp_psn)
		return 0;
	swqe = sq_wqe(sq, sq->una);
	k = wire_psn_diff(sq->rsp_psn, swqe->first_psn);
	if (!swqe->sent || sq_copy(sq, sq->una)->opcode != IB_UVERBS_WR_RDMA_READ ||
	    !k || k + 1 >= swqe->num_pkts)
		return 0;
	return qp->transport | WIRE_READ_RESPONSE_MIDDLE;
}

/**
 * sroce_ack_middle - take a packet that goes on with a READ's response
 * @qp: queue pair; the caller owns its send side, and acknowledges up to rsp_psn when the run is over
 *	(sroce_ack_middles())
 * @payload: a path MTU of bytes
 *
 * Softirq. For a run of packets with the opcode of middle_opcode(), each of the PSN that is expected.
 *
 * Return: false if it could not be placed, or is not of the middle any more.
 */
bool sroce_ack_middle(struct sroce_qp *qp, const u8 *payload)
{
	struct sroce_sq *sq = &qp->sq;
	const struct sroce_swqe *swqe = sq_wqe(sq, sq->una);
	const u32 psn = sq->rsp_psn;
	enum scatter_result res;

	if (wire_psn_diff(psn, swqe->first_psn) + 1 >= (s32)swqe->num_pkts)
		return false;
	res = scatter(qp, NULL, payload, qp->mtu);
	if (res != SCATTERED) {
		sroce_ack_advance(qp, psn);
		not_scattered(qp, psn, res);
		return false;
	}
	sq->rsp_psn = wire_psn_add(psn, 1);
	return true;
}

/*
 * Take of what is kept the middle of the response that is next, as if it came in one skb. Return:
 * false if it begins with something else; else there is to be another look at what is first.
 */
static bool kept_middles(struct sroce_qp *qp, u32 *taken)
{
	const u8 opcode = middle_opcode(qp);
	struct sroce_sq *sq = &qp->sq;
	const u32 before = *taken;
	struct sroce_late *late;

	while (opcode && (late = sroce_kept_first(&sq->kept)) &&
	       late->rx.pkt.psn == sq->rsp_psn && late->rx.pkt.opcode == opcode &&
	       late->rx.pkt.payload_len == qp->mtu && late->rx.payload.left >= qp->mtu) {
		if (!(++*taken % SROCE_REGION_RUN))
			sroce_send_mr_put(qp);
		/* it waits for memory, its request has failed, or it is not of the middle any more */
		if (!sroce_ack_middle(qp, late->rx.payload.data)) {
			if (sq->fault.active)
				note_kept(qp, late->rx.pkt.psn);
			break;
		}
		sroce_kept_take(qp, &sq->kept, late);
		sroce_late_free(late);
	}
	if (*taken != before && wire_psn_diff(sq->rsp_psn, sq->psn_una) > 0)
		sroce_ack_advance(qp, sq->rsp_psn);
	return *taken != before;
}

/* Responses are kept: take those whose turn it is by now, as if they came now. */
static void ack_kept(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;
	const u32 from = sq->psn_una;
	struct sroce_late *late;
	u32 taken = 0;

	while ((late = sroce_kept_first(&sq->kept)) && READ_ONCE(qp->state) != IB_QPS_ERR &&
	       !sq->fault.active) {
		const u32 upto = pkt_upto(&late->rx.pkt);
		const bool stale = wire_psn_diff(late->rx.pkt.psn, sq->psn_una) < 0;

		if (kept_middles(qp, &taken))
			continue;
		if (!stale && ack_limit(sq, upto) != upto)
			break;
		sroce_kept_take(qp, &sq->kept, late);
		if (!stale)
			ack_take(qp, &late->rx);
		sroce_late_free(late);
		if (!(++taken % SROCE_REGION_RUN))
			sroce_send_mr_put(qp);
	}
	if (sq->psn_una != from)
		trace_sroce_filled(qp, from, sq->psn_una, sq->kept.num);
	if (!late || sq->fault.active || READ_ONCE(qp->state) == IB_QPS_ERR)
		return;
	sroce_repair_nak(qp, false);
	/* others that were asked for long ago are not to wait for a round trip each */
	if (sq->psn_una != from)
		sroce_gaps_implied(qp);
}

/**
 * sroce_ack_waited - the memory that responses have waited for is there, or never will be
 * @qp: queue pair; the caller owns its send side
 *
 * It may be that they wait for more of it then.
 */
void sroce_ack_waited(struct sroce_qp *qp)
{
	if (qp->sq.kept.num)
		ack_kept(qp);
}

/**
 * sroce_ack_expects - the opcode of a packet that would go on with a READ's response
 * @qp: queue pair; the caller owns its send side
 *
 * Return: that of its middle, for sroce_ack_middle(), with the PSN in
 * @qp->sq.rsp_psn; 0 if none would.
 */
u8 sroce_ack_expects(const struct sroce_qp *qp)
{
	return qp->sq.kept.num ? 0 : middle_opcode(qp);
}

/**
 * sroce_ack_middles - a run of such packets is over
 * @qp: queue pair; the caller owns its send side
 * @num: packets that were taken
 */
void sroce_ack_middles(struct sroce_qp *qp, u32 num)
{
	struct sroce_sq *sq = &qp->sq;

	sroce_qp_count_add(qp, RCVD_RESPONSE, num);
	if (wire_psn_diff(sq->rsp_psn, sq->psn_una) > 0)
		sroce_ack_advance(qp, sq->rsp_psn);
}

/*
 * A peer that misses the very next packet keeps one behind it that is not ours: all that we have
 * sent has come, and it says so in place of an acknowledgement.
 */
static bool nak_unsent(const struct sroce_sq *sq, struct wire_pkt *pkt)
{
	if (pkt->op->class != WIRE_CLASS_ACK || pkt->psn != sq->psn_end ||
	    sq->psn_una == sq->psn_end || (pkt->syndrome & WIRE_AETH_KIND_MASK) != WIRE_AETH_NAK ||
	    (pkt->syndrome & WIRE_AETH_VALUE_MASK) != WIRE_NAK_PSN_SEQ)
		return false;
	pkt->psn = wire_psn_add(pkt->psn, -1);
	pkt->syndrome = WIRE_AETH_PURE_ACK;
	return true;
}

/**
 * sroce_ack_packet - take an acknowledgement or another response
 * @qp: queue pair; the caller owns its send side
 * @rx: the packet, from the peer
 *
 * Softirq, or process context with bottom halves off.
 */
void sroce_ack_packet(struct sroce_qp *qp, struct sroce_rx *rx)
{
	const enum ib_qp_state state = READ_ONCE(qp->state);
	struct wire_pkt *pkt = &rx->pkt;
	struct sroce_sq *sq = &qp->sq;

	if (state != IB_QPS_RTS && state != IB_QPS_SQD) {
		sroce_qp_count(qp, RX_WRONG_STATE);
		return;
	}
	trace_sroce_ack(qp, pkt->psn, pkt->syndrome);
	/* older than anything outstanding, or of what was never sent: 9.7.5.2.1 */
	if (wire_psn_diff(pkt->psn, sq->psn_una) < 0 ||
	    (wire_psn_diff(pkt->psn, sq->psn_end) >= 0 && !nak_unsent(sq, pkt))) {
		sroce_qp_count(qp, STALE_ACK);
		if (wire_psn_diff(pkt->psn, sq->psn_una) < 0)
			note_twice(qp, rx);
		return;
	}

	if (pkt->op->class == WIRE_CLASS_GAPS) {
		sroce_qp_count(qp, RCVD_GAPS);
		sroce_gaps_report(qp, rx);
	} else if (pkt->op->class == WIRE_CLASS_ACK) {
		sroce_qp_count(qp, RCVD_ACK);
		ack_acknowledge(qp, rx);
	} else {
		sroce_qp_count(qp, RCVD_RESPONSE);
		ack_response(qp, rx);
	}
	if (unlikely(sq->kept.num))
		ack_kept(qp);
}

/**
 * sroce_ack_run - take what came in while somebody else was at it
 * @qp: queue pair; the caller owns its send side
 *
 * Return: bytes of payload among it.
 */
u32 sroce_ack_run(struct sroce_qp *qp)
{
	struct sroce_late *late, *next;
	struct sroce_sq *sq = &qp->sq;
	LIST_HEAD(list);
	u32 bytes = 0;

	if (!READ_ONCE(sq->num_late))
		return 0;
	spin_lock_bh(&sq->late_lock);
	list_splice_init(&sq->late, &list);
	WRITE_ONCE(sq->num_late, 0);
	spin_unlock_bh(&sq->late_lock);

	list_for_each_entry_safe(late, next, &list, entry) {
		bytes += late->rx.pkt.payload_len;
		sroce_ack_packet(qp, &late->rx);
		list_del(&late->entry);
		sroce_late_free(late);
	}
	return bytes;
}
