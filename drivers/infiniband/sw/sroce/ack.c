// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The completer: what acknowledgements do to the send side. */
#include "sroce.h"
#include "trace.h"

/**
 * sroce_ack_note - an acknowledgement came in
 * @qp: queue pair
 * @pkt: the packet
 *
 * Softirq. Left for the owner of the send side; sroce_send_run() is due.
 * Of two that only acknowledge, the later says it all. A note that finds no
 * room is a packet lost, and recovered like one.
 */
void sroce_ack_note(struct sroce_qp *qp, const struct wire_pkt *pkt)
{
	const bool ack = (pkt->syndrome & WIRE_AETH_KIND_MASK) == WIRE_AETH_ACK;
	struct sroce_sq *sq = &qp->sq;
	struct sroce_ack_note *prev;

	if (pkt->op->class != WIRE_CLASS_ACK) {
		/* nothing that this requester has sent is answered by others */
		sroce_count(qp_dev(qp), STALE_ACK);
		return;
	}
	sroce_count(qp_dev(qp), RCVD_ACK);

	spin_lock_bh(&sq->note_lock);
	prev = sq->num_notes ? &sq->note[sq->num_notes - 1] : NULL;
	if (ack && prev && (prev->syndrome & WIRE_AETH_KIND_MASK) == WIRE_AETH_ACK) {
		if (wire_psn_diff(pkt->psn, prev->psn) > 0)
			prev->psn = pkt->psn;
	} else if (sq->num_notes < SROCE_ACK_NOTES) {
		sq->note[sq->num_notes++] = (struct sroce_ack_note) {
			.psn = pkt->psn,
			.syndrome = pkt->syndrome,
		};
	}
	spin_unlock_bh(&sq->note_lock);
}

/* All packets before @psn have arrived. */
static void ack_advance(struct sroce_qp *qp, u32 psn)
{
	struct sroce_sq *sq = &qp->sq;

	if (psn == sq->psn_una)
		return;
	sq->psn_una = psn;
	sroce_retry_acked(qp);
	while (sq->una != sq->fetched) {
		const struct sroce_swqe *swqe = sq_wqe(sq, sq->una);

		if (!swqe->sent ||
		    wire_psn_diff(psn, swqe->first_psn) < (s32)swqe->num_pkts)
			break;
		sroce_send_complete(qp, IB_WC_SUCCESS, 0);
	}
	/* what was being sent again has arrived after all */
	if (wire_psn_diff(sq->psn_nxt, psn) < 0)
		sroce_send_seek(qp, psn);
	sroce_retry_progress(qp);
}

static void ack_rnr(struct sroce_qp *qp, u32 psn, u8 syndrome)
{
	struct sroce_sq *sq = &qp->sq;

	sroce_count(qp_dev(qp), RNR_NAK);
	/* 7 is for ever (9.9.2.4.1) */
	if (qp->attr.rnr_retry != 7) {
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

static void ack_one(struct sroce_qp *qp, u32 psn, u8 syndrome)
{
	const u8 kind = syndrome & WIRE_AETH_KIND_MASK;
	struct sroce_sq *sq = &qp->sq;

	trace_sroce_ack(qp, psn, syndrome);
	/* older than anything outstanding, or of what was never sent: 9.7.5.2.1 */
	if (wire_psn_diff(psn, sq->psn_una) < 0 || wire_psn_diff(psn, sq->psn_end) >= 0) {
		sroce_count(qp_dev(qp), STALE_ACK);
		return;
	}

	switch (kind) {
	case WIRE_AETH_ACK:
		ack_advance(qp, wire_psn_add(psn, 1));
		return;
	case WIRE_AETH_RNR_NAK:
		ack_advance(qp, psn);
		ack_rnr(qp, psn, syndrome);
		return;
	case WIRE_AETH_NAK:
		ack_advance(qp, psn);
		if ((syndrome & WIRE_AETH_VALUE_MASK) == WIRE_NAK_PSN_SEQ)
			sroce_retry_nak(qp, syndrome);
		else
			sroce_send_fail(qp, nak_status(syndrome & WIRE_AETH_VALUE_MASK),
					syndrome);
		return;
	default:
		/* a reserved kind: dropped silently, table 46 */
		sroce_count(qp_dev(qp), STALE_ACK);
	}
}

/**
 * sroce_ack_run - work off what acknowledgements came in
 * @qp: queue pair; the caller owns its send side
 */
void sroce_ack_run(struct sroce_qp *qp)
{
	struct sroce_ack_note note[SROCE_ACK_NOTES];
	struct sroce_sq *sq = &qp->sq;
	u32 i, n;

	if (!READ_ONCE(sq->num_notes))
		return;
	spin_lock_bh(&sq->note_lock);
	n = sq->num_notes;
	memcpy(note, sq->note, n * sizeof(*note));
	sq->num_notes = 0;
	spin_unlock_bh(&sq->note_lock);

	for (i = 0; i < n; i++) {
		const enum ib_qp_state state = READ_ONCE(qp->state);

		if (state != IB_QPS_RTS && state != IB_QPS_SQD)
			return;
		ack_one(qp, note[i].psn, note[i].syndrome);
	}
}
