// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The completer: ack.c, and the end of a request of request.c's.
 */
#include "model.h"

#define sq (&w.sq)

/* request.c */

bool send_awaits(u32 index)
{
	const struct msg *swqe = &w.msg[index];

	return swqe->sent && !swqe->answered && takes_resource(&send_ops[swqe->opcode]);
}

void send_complete(enum status status)
{
	check_completion(sq->una, status);
	sq->una++;
}

void send_fail(enum status status, u8 syndrome)
{
	if (status == WC_RETRY_EXC_ERR)
		check_retries(syndrome);
	if (status == WC_RNR_RETRY_EXC_ERR)
		check_rnr_retries();
	send_complete(status);
	sq->err = true;
}

/* ack.c */

static bool is_pure_ack(const struct wire_pkt *pkt)
{
	return pkt->op->class == WIRE_CLASS_ACK && wire_aeth_is_ack(pkt->syndrome);
}

void ack_later(struct rx *rx)
{
	struct late *last = sq->num_late ? sq->late[sq->num_late - 1] : NULL;

	seen[SEEN_LATE]++;
	if (last && is_pure_ack(&rx->pkt) && is_pure_ack(&last->rx.pkt)) {
		if (wire_psn_diff(rx->pkt.psn, last->rx.pkt.psn) > 0)
			last->rx.pkt.psn = rx->pkt.psn;
	} else if (sq->num_late < MAX_LATE) {
		sq->late[sq->num_late++] = late_new(rx);
	}
}

/* What has arrived of the oldest, from @from to before @to, is not in flight any more. */
static void land(u32 from, u32 to)
{
	const struct msg *swqe = &w.msg[sq->una];
	u32 n;

	if (takes_resource(&send_ops[swqe->opcode])) {
		n = parts_before(swqe, to) - parts_before(swqe, from);
		sq->num_rd -= n;
	} else {
		if (wire_psn_diff(from, swqe->first_psn) < 0)
			from = swqe->first_psn;
		n = (u32)wire_psn_diff(to, from);
	}
	sq->flight -= min(sq->flight, n);
}

static void ack_advance(u32 psn)
{
	const u32 from = sq->psn_una;

	sq->psn_una = psn;
	if (psn != from) {
		if (wire_psn_diff(sq->psn_left, psn) < 0)
			sq->psn_left = psn;
		check_progress();
		retry_acked();
		gaps_moved((u32)wire_psn_diff(psn, from));
	}
	while (sq->una != sq->fetched) {
		const struct msg *swqe = &w.msg[sq->una];
		const u32 end = wire_psn_add(swqe->first_psn, swqe->num_pkts);

		if (!swqe->sent)
			break;
		if (wire_psn_diff(psn, end) < 0) {
			if (wire_psn_diff(psn, swqe->first_psn) > 0)
				land(from, psn);
			break;
		}
		if (send_awaits(sq->una))
			break;
		land(from, end);
		send_complete(WC_SUCCESS);
	}
	if (psn == from)
		return;
	/* what was being sent again has arrived after all */
	if (wire_psn_diff(sq->psn_nxt, psn) < 0)
		send_seek(psn);
	retry_progress();
	repair_moved();
}

static u32 ack_limit(u32 psn)
{
	u32 i;

	if (!sq->num_rd)
		return psn;
	for (i = sq->una; i != sq->fetched; i++) {
		const struct msg *swqe = &w.msg[i];

		if (!swqe->sent || wire_psn_diff(swqe->first_psn, psn) >= 0)
			break;
		if (!send_awaits(i))
			continue;
		/* part of a response may be here already */
		if (wire_psn_diff(sq->psn_una, swqe->first_psn) > 0)
			return sq->psn_una;
		return swqe->first_psn;
	}
	return psn;
}

void ack_before(u32 psn)
{
	if (wire_psn_diff(psn, sq->psn_una) > 0)
		ack_advance(ack_limit(psn));
}

static void ack_rnr(u32 psn, u8 syndrome)
{
	/* nothing has been sent since the last: the network has doubled it */
	if (sq->rnr_wait)
		return;
	w.rnr_naks++;
	/* 7 is for ever (9.9.2.4.1) */
	if (w.plan.rnr_retry != 7) {
		if (!sq->rnr_left) {
			send_fail(WC_RNR_RETRY_EXC_ERR, syndrome);
			return;
		}
		sq->rnr_left--;
	}
	send_seek(psn);
	retry_rnr(syndrome & WIRE_AETH_VALUE_MASK);
}

static enum status nak_status(u8 code)
{
	switch (code) {
	case WIRE_NAK_REM_ACCESS:
		return WC_REM_ACCESS_ERR;
	case WIRE_NAK_REM_OP:
		return WC_REM_OP_ERR;
	case WIRE_NAK_INVALID_REQ:
		return WC_REM_INV_REQ_ERR;
	default:
		return WC_BAD_RESP_ERR;
	}
}

/* What a READ's requester has asked for again had only been late. */
static void note_twice(const struct rx *rx)
{
	if (rx->pkt.op->class == WIRE_CLASS_READ_RESPONSE)
		sq->order.twice++;
}

/* A round trip ends when its response has come, whatever is missing before that. */
static void note_kept(u32 psn)
{
	if (sq->rtt_start && wire_psn_diff(psn, sq->rtt_psn) >= 0)
		retry_arrived();
}

static void ack_early(struct rx *rx)
{
	enum keep kept;
	bool tells;

	if (w.plan.plain_requester) {
		repair_nak(0);
		return;
	}
	kept = keep(&sq->kept, rx);
	tells = kept == KEPT_APART;
	if (kept == KEPT_TWICE) {
		note_twice(rx);
	} else if (kept != KEPT_NOT) {
		note_kept(rx->pkt.psn);
		tells |= gaps_came(rx->pkt.psn);
	}
	gaps_arrived(rx->pkt.psn);
	repair_nak(0);
	if (tells)
		gaps_implied();
}

/* The same of a request that is missing. From a peer that keeps what is behind it, that is all. */
static void nak_early(struct rx *rx)
{
	if (!sq->repair.reports) {
		ack_early(rx);
		return;
	}
	repair_nak(0);
	gaps_request(rx->pkt.psn);
}

/* A request has failed, and responses to those before it may be on their way still. */
static void nak_fatal(struct rx *rx, bool early)
{
	if (early)
		ack_early(rx);
	else
		send_fail(nak_status(rx->pkt.syndrome & WIRE_AETH_VALUE_MASK), rx->pkt.syndrome);
}

/* All before which PSN does a response acknowledge? */
static u32 pkt_upto(const struct wire_pkt *pkt)
{
	if (is_pure_ack(pkt))
		return wire_psn_add(pkt->psn, 1);
	return pkt->psn;
}

static void ack_acknowledge(struct rx *rx)
{
	const u8 syndrome = rx->pkt.syndrome;
	const u32 upto = pkt_upto(&rx->pkt);
	const u32 limit = ack_limit(upto);

	ack_advance(limit);

	switch (syndrome & WIRE_AETH_KIND_MASK) {
	case WIRE_AETH_ACK:
		/* the response of a READ or ATOMIC before it got lost (9.7.5.2.2) */
		if (limit != upto)
			ack_early(rx);
		else
			repair_acked();
		return;
	case WIRE_AETH_RNR_NAK:
		/* it is said again */
		if (limit != upto)
			repair_nak(0);
		else
			ack_rnr(upto, syndrome);
		return;
	case WIRE_AETH_NAK:
		w.naks++;
		if ((syndrome & WIRE_AETH_VALUE_MASK) != WIRE_NAK_PSN_SEQ)
			nak_fatal(rx, limit != upto);
		else if (limit != upto)
			nak_early(rx);
		else
			repair_nak(syndrome);
		return;
	}
}

static bool fits_request(const struct rx *rx, u32 k, u32 *len)
{
	const struct msg *swqe = &w.msg[sq->una];
	const bool last = k + 1 == swqe->num_pkts;

	*len = 0;
	switch (rx->pkt.op->class) {
	case WIRE_CLASS_READ_RESPONSE:
		if (swqe->opcode != OP_READ)
			return false;
		*len = min(swqe->length - k * MTU, MTU);
		/* what was asked for alone ends before the message does */
		return (rx->pkt.op->flags & WIRE_END || !last) && rx->pkt.payload_len == *len;
	case WIRE_CLASS_ATOMIC_ACK:
		*len = sizeof(rx->pkt.orig);
		return send_ops[swqe->opcode].kind == SEND_ATOMIC;
	default:
		return false;
	}
}

/* Where the last ended, which may be wrong only if it did not. */
static void scatter(const u8 *from, u32 len)
{
	struct msg *swqe = &w.msg[sq->una];

	if (len > swqe->length - sq->rsp_off)
		failed("a response is written beyond its buffer");
	if (len)
		memcpy(swqe->buf + sq->rsp_off, from, len);
	sq->rsp_off += len;
}

static void take_response(struct rx *rx)
{
	struct msg *swqe = &w.msg[sq->una];
	u32 k = (u32)wire_psn_diff(rx->pkt.psn, swqe->first_psn);
	const bool atomic = rx->pkt.op->class == WIRE_CLASS_ATOMIC_ACK;
	u32 len;

	if (!fits_request(rx, k, &len)) {
		send_fail(WC_BAD_RESP_ERR, rx->pkt.syndrome);
		return;
	}
	if (sq->rsp_psn != rx->pkt.psn || !k)
		sq->rsp_off = k * MTU;
	scatter(atomic ? (u8 *)&rx->pkt.orig : rx_payload(rx), len);

	sq->rsp_psn = wire_psn_add(rx->pkt.psn, 1);
	if (rx->pkt.op->flags & WIRE_END)
		sq->rsp_end = sq->rsp_psn;
	swqe->answered = k + 1 == swqe->num_pkts;
	ack_advance(sq->rsp_psn);
}

static void ack_response(struct rx *rx)
{
	const u32 psn = rx->pkt.psn;

	/* it acknowledges the requests before its own */
	ack_advance(ack_limit(psn));
	if (sq->psn_una != psn)
		ack_early(rx);
	else if (sq->una != sq->fetched && send_awaits(sq->una))
		take_response(rx);
}

static void ack_take(struct rx *rx)
{
	if (rx->pkt.op->class == WIRE_CLASS_ACK)
		ack_acknowledge(rx);
	else
		ack_response(rx);
}

static void ack_kept(void)
{
	const u32 from = sq->psn_una;
	struct late *late;

	while ((late = kept_first(&sq->kept)) && !sq->err) {
		const u32 upto = pkt_upto(&late->rx.pkt);
		const bool stale = wire_psn_diff(late->rx.pkt.psn, sq->psn_una) < 0;

		if (!stale && ack_limit(upto) != upto)
			break;
		kept_take(&sq->kept, late);
		if (!stale)
			ack_take(&late->rx);
		late_free(late);
	}
	if (!late || sq->err)
		return;
	repair_nak(0);
	/* others that were asked for long ago are not to wait for a round trip each */
	if (sq->psn_una != from)
		gaps_implied();
}

void ack_packet(struct rx *rx)
{
	const struct wire_pkt *pkt = &rx->pkt;

	if (sq->err)
		return;
	/* older than anything outstanding, or of what was never sent: 9.7.5.2.1 */
	if (wire_psn_diff(pkt->psn, sq->psn_una) < 0) {
		note_twice(rx);
		return;
	}
	if (wire_psn_diff(pkt->psn, sq->psn_end) >= 0)
		return;
	if (pkt->op->class != WIRE_CLASS_GAPS)
		ack_take(rx);
	else if (!w.plan.plain_requester)
		gaps_report(rx);
	if (sq->kept.num)
		ack_kept();
}

void ack_run(void)
{
	u32 i;

	for (i = 0; i < sq->num_late; i++) {
		ack_packet(&sq->late[i]->rx);
		late_free(sq->late[i]);
	}
	sq->num_late = 0;
}
