// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The responder's answers: READ responses, results of ATOMICs, and
 * acknowledgements, in the order of their requests.
 *
 * As the send side, they have one owner at a time: who finds them free gives
 * all that is owed, others leave a note and go. A READ's response is written a
 * burst at a time, as far as the stack releases what it got before, so that a
 * request of a gigabyte takes neither memory nor anybody's CPU for long.
 */
#include "sroce.h"
#include "trace.h"
#include "wire/recovery.h"

/* Bursts in a row; then others get the CPU. */
#define RESP_BUDGET	32

/* Bursts that may be with the stack: with long ones, more than any wire holds */
#define RESP_SKBS	32

/*
 * How long a local queue may refuse responses. After that they are dropped, as the queue may be a
 * filter that drops them (it looks the same), and so are all others until one is taken. Their
 * requester asks again.
 */
#define RESP_REFUSED_NS	(64 * NSEC_PER_MSEC)

/* How often the time until the next try doubles (SROCE_BACKOFF_NS is the first) */
#define RESP_DOUBLED	4U

/* Bytes that are paged in at once */
#define RESP_FAULT_LEN	(256U << 10)

/**
 * sroce_resp_request - a request has come whose response carries data
 * @qp: queue pair; its receive lock is held, and there is a resource free
 * @res: what to answer
 */
void sroce_resp_request(struct sroce_qp *qp, const struct sroce_res *res)
{
	struct sroce_rq *rq = &qp->rq;
	struct sroce_res *slot = &rq->res[rq->num_res % rq->max_res];

	/* who takes the resource anew has had the answer, and waits for no other */
	if (rq->num_res >= rq->max_res && slot->owed)
		rq->num_owed--;
	*slot = *res;
	if (!rq->num_owed++)
		rq->first_owed = rq->num_res;
	if (++rq->num_res == 2 * rq->max_res) {
		rq->num_res = rq->max_res;
		rq->first_owed -= min(rq->first_owed, rq->max_res);
	}
}

/* The oldest resource that is kept. */
static u32 oldest_res(const struct sroce_rq *rq)
{
	return rq->num_res > rq->max_res ? rq->num_res - rq->max_res : 0;
}

static struct sroce_res *find_res(struct sroce_rq *rq, u32 psn)
{
	u32 i;

	for (i = rq->num_res; i != oldest_res(rq); i--) {
		struct sroce_res *res = &rq->res[(i - 1) % rq->max_res];
		s32 k = wire_psn_diff(psn, res->psn);

		if (k >= 0 && k < (s32)res->num_pkts)
			return res;
	}
	return NULL;
}

/*
 * Up to which packet is asked for, from packet @k on? What a READ's requester
 * has got in spite of a gap, it may leave out. Return: 0 for another request.
 */
static u32 again_end(const struct sroce_qp *qp, const struct sroce_res *res,
		     const struct wire_pkt *pkt, u32 k)
{
	const u32 off = k * qp->mtu;

	if (res->class != WIRE_CLASS_READ)
		return res->num_pkts;
	if (pkt->rkey != res->rkey || pkt->va != res->va + off)
		return 0;
	if (pkt->dma_len == res->len - off)
		return res->num_pkts;
	if (!pkt->dma_len || pkt->dma_len > res->len - off || pkt->dma_len % qp->mtu)
		return 0;
	return k + pkt->dma_len / qp->mtu;
}

/* What is under way stops for a part that ends at @end. Where does it go on? */
static u32 again_resume(const struct sroce_res *res, u32 end)
{
	u32 next;

	if (!res->owed || end == res->num_pkts)
		return 0;
	next = res->end == res->num_pkts ? res->next : res->resume;
	if (next)
		next = max(next, end);
	return next == res->num_pkts ? 0 : next;
}

static void give_again(struct sroce_rq *rq, struct sroce_res *res, u32 start, u32 end)
{
	res->resume = again_resume(res, end);
	if (!res->owed)
		rq->num_owed++;
	/* it may be any of those that are kept */
	rq->first_owed = 0;
	res->owed = true;
	res->start = start;
	res->next = start;
	res->end = end;
}

/* Return: false if that finds no room; its requester asks again. */
static bool part_later(struct sroce_rq *rq, u32 psn, u32 end)
{
	u32 i;

	for (i = 0; i < rq->num_parts; i++)
		if (rq->parts[i].psn == psn && rq->parts[i].end == end)
			return true;
	if (rq->num_parts == SROCE_MAX_PARTS)
		return false;
	rq->parts[rq->num_parts++] = (struct sroce_part) { .psn = psn, .end = end };
	return true;
}

/**
 * sroce_resp_again - a request has come again whose response carries data
 * @qp: queue pair; its receive lock is held
 * @pkt: the packet, with a PSN before the one that is expected
 *
 * A READ is done anew, from where its requester missed something; the result
 * of an ATOMIC is the one it had (9.7.5.1.2).
 *
 * Return: false if nothing like it is remembered, or it is another request.
 */
bool sroce_resp_again(struct sroce_qp *qp, const struct wire_pkt *pkt)
{
	struct sroce_rq *rq = &qp->rq;
	struct sroce_res *res = find_res(rq, pkt->psn);
	bool rest, part;
	u32 k, end;

	if (!res || res->class != pkt->op->class)
		return false;
	k = wire_psn_diff(pkt->psn, res->psn);
	end = again_end(qp, res, pkt, k);
	if (!end)
		return false;
	if (res->class == WIRE_CLASS_READ && rq->greetings < GREETINGS && !rq->goes_back) {
		rq->greetings++;
		rq->greet = true;
	}
	/* of what is asked for, and of what is under way */
	rest = end == res->num_pkts;
	part = res->owed && res->end != res->num_pkts;
	/* what is about to be given anyway */
	if (!rest && res->owed && !part && res->next <= k)
		return true;
	if (rest && part && res->resume && res->resume <= k)
		return true;
	/* several parts may be missing, the last of them up to the end: one after the other */
	if (part && (!rest || k > res->next))
		return part_later(rq, pkt->psn, end);
	give_again(rq, res, k, end);
	return true;
}

/* Part @i is not waited for any more. Return: it is one of @res, and @res's turn is its now. */
static bool take_part(struct sroce_rq *rq, u32 i, struct sroce_res *res)
{
	const struct sroce_part part = rq->parts[i];
	u32 start;

	memmove(rq->parts + i, rq->parts + i + 1, (--rq->num_parts - i) * sizeof(part));
	if (!res || part.end > res->num_pkts)
		return false;
	start = wire_psn_diff(part.psn, res->psn);
	/* or it was of another READ, long ago; or is in the rest, which is about to be given */
	if (start >= part.end || (res->resume && start >= res->resume))
		return false;
	give_again(rq, res, start, part.end);
	return true;
}

/* What was asked for meanwhile, the lock is held. */
static void next_part(struct sroce_rq *rq)
{
	u32 i = 0;

	while (i < rq->num_parts) {
		struct sroce_res *res = find_res(rq, rq->parts[i].psn);

		/* with one under way in this READ, or all of its rest, there is time */
		if (res && res->owed)
			i++;
		else if (take_part(rq, i, res))
			return;
	}
}

/*
 * Another part of a READ of which one has just been given goes before the rest, which may be long,
 * and whose requester keeps what comes of it meanwhile. Return: there is one.
 */
static bool part_before_rest(struct sroce_rq *rq, struct sroce_res *res)
{
	u32 i = 0;

	while (i < rq->num_parts) {
		if (find_res(rq, rq->parts[i].psn) != res)
			i++;
		else if (take_part(rq, i, res))
			return true;
	}
	return false;
}

static struct sroce_res *next_owed(struct sroce_rq *rq)
{
	u32 i;

	if (!rq->num_owed)
		return NULL;
	for (i = max(rq->first_owed, oldest_res(rq)); i != rq->num_res; i++) {
		struct sroce_res *res = &rq->res[i % rq->max_res];

		rq->first_owed = i;
		if (res->owed)
			return res;
	}
	return NULL;
}

static void put_response(const struct sroce_qp *qp, u8 *p, u8 operation, u32 pad, u32 psn,
			 u8 syndrome, u32 msn)
{
	wire_bth_put(p, qp->transport | operation, 0, pad, IB_DEFAULT_PKEY_FULL, qp->dqpn,
		     0, psn);
	if (wire_opcodes[qp->transport | operation].flags & WIRE_AETH)
		wire_aeth_put(p + WIRE_BTH_LEN, syndrome, msn);
}

static u8 read_operation(const struct sroce_res *res, u32 k)
{
	const bool last = k + 1 == res->end;

	if (k == res->start)
		return last ? WIRE_READ_RESPONSE_ONLY : WIRE_READ_RESPONSE_FIRST;
	return last ? WIRE_READ_RESPONSE_LAST : WIRE_READ_RESPONSE_MIDDLE;
}

enum resp_result {
	RESP_GIVEN,
	RESP_FULL,		/* the burst, or memory for it */
	RESP_FAULT,		/* memory has to be paged in */
	RESP_ACCESS,		/* the key is good for this no more */
};

/**
 * struct resp_read - a READ's response on its way into a burst
 * @pd: protection domain of its key
 * @srq: XRC: held, where @pd is its
 * @mr: the memory, held
 * @addr: in terms of @mr's iova, of the request's first byte
 */
struct resp_read {
	struct ib_pd *pd;
	struct sroce_srq *srq;
	struct sroce_mr *mr;
	u64 addr;
};

static enum resp_result read_start(struct sroce_qp *qp, const struct sroce_res *res,
				   struct resp_read *read)
{
	const u32 off = res->next * qp->mtu;

	*read = (struct resp_read) { .pd = qp->ibqp.pd };
	if (qp->transport == WIRE_XRC) {
		read->srq = sroce_srq_get(qp, res->srqn);
		if (!read->srq)
			return RESP_ACCESS;
		read->pd = read->srq->ibsrq.pd;
	}
	/* nothing is read, and no key is looked at */
	if (!res->len)
		return RESP_GIVEN;
	read->addr = res->va + off;
	read->mr = sroce_mr_get_remote(qp, read->pd, res->rkey, &read->addr, res->len - off,
				       IB_ACCESS_REMOTE_READ);
	read->addr -= off;
	return read->mr ? RESP_GIVEN : RESP_ACCESS;
}

static void read_end(struct resp_read *read)
{
	if (read->mr)
		sroce_mr_put(read->mr);
	if (read->srq)
		sroce_srq_put(read->srq);
}

/* Memory into a packet. */
static enum resp_result read_memory(struct sroce_qp *qp, const struct sroce_res *res,
				    const struct resp_read *read, u32 off, u8 *to, u32 len)
{
	struct sroce_fault *fault = &qp->rq.resp_fault;
	u64 addr = read->addr + off;

	while (len) {
		u32 n = len;
		void *from = sroce_mr_span(read->mr, addr, &n, false);

		if (!from) {
			if (sroce_fault_refused(fault, read->mr->key, addr, false))
				return RESP_ACCESS;
			sroce_fault_start(fault, read->pd, read->srq, read->mr->key, addr,
					  min_t(u32, res->len - off, RESP_FAULT_LEN), false);
			return RESP_FAULT;
		}
		sroce_copy(to, from, n);
		to += n;
		addr += n;
		len -= n;
	}
	fault->err = 0;
	return RESP_GIVEN;
}

static enum resp_result read_packet(struct sroce_qp *qp, const struct sroce_res *res,
				    const struct resp_read *read, u32 k, struct sroce_burst *b)
{
	const u8 operation = read_operation(res, k);
	const u32 hdr = wire_opcodes[qp->transport | operation].hdr_len;
	u32 off = k * qp->mtu;
	u32 payload = min(res->len - off, qp->mtu);
	u32 pad = -payload & 3;
	u32 len = hdr + payload + pad + WIRE_ICRC_LEN;
	enum resp_result result;
	u8 *p;

	if (!sroce_burst_fits(b, len))
		return RESP_FULL;
	p = sroce_burst_reserve(b, len);
	if (!p)
		return RESP_FULL;
	put_response(qp, p, operation, pad, wire_psn_add(res->psn, k), WIRE_AETH_PURE_ACK,
		     res->msn);
	result = read_memory(qp, res, read, off, p + hdr, payload);
	if (result != RESP_GIVEN) {
		sroce_burst_cancel(b);
		return result;
	}
	memset(p + hdr + payload, 0, pad);
	sroce_burst_commit(b);
	return RESP_GIVEN;
}

/* As much of a READ's response as one burst takes. */
static enum resp_result write_read(struct sroce_qp *qp, struct sroce_res *res,
				   struct sroce_burst *b)
{
	const u32 first = res->next, most = sroce_pace_burst(qp, true);
	enum resp_result result;
	struct resp_read read;

	result = read_start(qp, res, &read);
	while (result == RESP_GIVEN && res->next != res->end && res->next - first < most) {
		result = read_packet(qp, res, &read, res->next, b);
		if (result == RESP_GIVEN)
			res->next++;
	}
	read_end(&read);
	return result;
}

/* What has no payload: the result of an ATOMIC, or that something is done. */
static bool write_small(struct sroce_qp *qp, u8 operation, u32 psn, u8 syndrome, u32 msn,
			u64 orig, struct sroce_burst *b)
{
	const u32 hdr = wire_opcodes[qp->transport | operation].hdr_len;
	u8 *p = sroce_burst_reserve(b, hdr + WIRE_ICRC_LEN);

	if (!p)
		return false;
	put_response(qp, p, operation, 0, psn, syndrome, msn);
	if (operation == WIRE_ATOMIC_ACKNOWLEDGE)
		wire_put64(p + WIRE_BTH_LEN + WIRE_AETH_LEN, orig);
	sroce_burst_commit(b);
	return true;
}

static enum resp_result write_res(struct sroce_qp *qp, struct sroce_res *res,
				  struct sroce_burst *b)
{
	u8 operation = WIRE_READ_RESPONSE_ONLY;

	if (res->class == WIRE_CLASS_READ)
		return write_read(qp, res, b);
	if (res->class == WIRE_CLASS_ATOMIC)
		operation = WIRE_ATOMIC_ACKNOWLEDGE;
	if (!write_small(qp, operation, res->psn, WIRE_AETH_PURE_ACK, res->msn, res->orig, b))
		return RESP_FULL;
	res->next++;
	return RESP_GIVEN;
}

/* A key that was good when the READ came is not any more: 9.9.3, class C */
static void resp_refuse(struct sroce_qp *qp, u32 psn)
{
	struct sroce_rq *rq = &qp->rq;

	rq->num_owed = 0;
	rq->num_res = 0;
	rq->epsn = psn;
	rq->syndrome = WIRE_AETH_NAK | WIRE_NAK_REM_ACCESS;
	rq->respond = true;
	/*
	 * The queue pair is in error already and its consumer knows why. This NAK, for an earlier
	 * request, tells the peer.
	 */
	if (qp->state == IB_QPS_ERR)
		return;
	sroce_qp_count(qp, SENT_ERR_NAK);
	sroce_qp_event(qp, IB_EVENT_QP_ACCESS_ERR);
	sroce_qp_error_locked(qp);
	/* what it was to send is flushed */
	sroce_task_schedule(&qp->sq.task);
}

/* Nothing of this response is owed any more; a part of another one may be next. */
static void res_over(struct sroce_rq *rq, struct sroce_res *res)
{
	res->owed = false;
	res->resume = 0;
	rq->num_owed--;
	next_part(rq);
}

/*
 * What was written of @done, which is a copy of @res, counts, unless its
 * requester has asked anew for something of it meanwhile. It leaves all the
 * same: with the whole of it, the requester may go on, and take the resource
 * for another. The lock is held.
 *
 * By its place it is known, not by its PSN: a peer may have asked for as much as
 * all PSNs together, and so twice for one of them. Return: whether it counts.
 */
static bool res_done(struct sroce_qp *qp, struct sroce_res *res, const struct sroce_res *before,
		     const struct sroce_res *done, enum resp_result result)
{
	struct sroce_rq *rq = &qp->rq;

	if (!rq->num_res || res->psn != done->psn || res->msn != done->msn)
		return false;
	if (done->next == res->num_pkts)
		res->given = true;
	if (!res->owed || res->start != before->start || res->next != before->next ||
	    res->end != before->end)
		return false;
	res->next = done->next;
	if (result == RESP_ACCESS && res->given) {
		/*
		 * The requester asked again while the response was on its way, had it
		 * and is through with that memory: there is nothing wrong
		 */
		sroce_qp_count(qp, DUPLICATE_DROPPED);
		res_over(rq, res);
	} else if (result == RESP_ACCESS) {
		resp_refuse(qp, wire_psn_add(res->psn, res->next));
	} else if (res->next == res->end && res->resume) {
		if (part_before_rest(rq, res))
			return true;
		res->next = res->resume;
		res->end = res->num_pkts;
		res->resume = 0;
	} else if (res->next == res->end) {
		res_over(rq, res);
	}
	return true;
}

static bool same_place(const struct sroce_res *a, const struct sroce_res *b)
{
	return a->psn == b->psn && a->msn == b->msn && a->owed == b->owed && a->start == b->start &&
	       a->next == b->next && a->end == b->end && a->resume == b->resume;
}

/*
 * The local queue refused this burst, so nothing was lost. @res is what it was @before, unless it
 * has changed since @after was taken. The lock is held.
 */
static void res_refused(struct sroce_rq *rq, struct sroce_res *res, const struct sroce_res *before,
			const struct sroce_res *after)
{
	/* then, another part of it, or what follows one, has its turn: this one, after it */
	const bool other = after->owed && (after->start != before->start ||
					   (after->end != before->end &&
					    (!before->resume || after->next != before->resume)));

	if (!rq->num_res || !same_place(res, after))
		return;
	if (other) {
		part_later(rq, wire_psn_add(before->psn, before->next), before->end);
		return;
	}
	if (!res->owed) {
		rq->num_owed++;
		rq->first_owed = 0;
	}
	*res = *before;
}

/* An ACK names the last packet that arrived, a NAK the first that did not. */
static bool write_ack(struct sroce_qp *qp, u8 syndrome, u32 psn, u32 msn,
		      struct sroce_burst *b)
{
	if (!write_small(qp, WIRE_ACKNOWLEDGE, psn, syndrome, msn, 0, b))
		return false;
	trace_sroce_respond(qp, psn, syndrome);
	return true;
}

/*
 * An answer was not sent. The requester asks again for an acknowledgement, but not for a NAK: let
 * the next packet out of order cause another NAK, unless one is due by now anyway.
 */
static void ack_unsaid(struct sroce_qp *qp, u8 syndrome)
{
	struct sroce_rq *rq = &qp->rq;

	if (wire_aeth_is_ack(syndrome))
		return;
	spin_lock_bh(&rq->lock);
	if (!rq->respond || wire_aeth_is_ack(rq->syndrome)) {
		rq->nak_sent = false;
		rq->not_ready = false;
	}
	sroce_rq_unlock(&qp->rq);
}

static bool resp_blocked(struct sroce_qp *qp)
{
	struct sroce_rq *rq = &qp->rq;

	if (unlikely(rq->backoff)) {
		if (atomic_read(&qp->num->resp_skbs) >= rq->resp_skbs_refused &&
		    ktime_before(ktime_get(), rq->backoff)) {
			sroce_pace_until(qp, rq->backoff, SROCE_RESP_BLOCKED, &rq->flags);
			return true;
		}
		rq->backoff = 0;
	}
	if (atomic_read(&qp->num->resp_skbs) < RESP_SKBS)
		return false;
	set_bit(SROCE_RESP_BLOCKED, &rq->flags);
	/* pairs with tx_free(): it sees the bit, or we see its skb gone */
	smp_mb__after_atomic();
	return atomic_read(&qp->num->resp_skbs) >= RESP_SKBS;
}

/* A queue has refused an answer @now. Return: this one is lost. */
static bool resp_refused_for_good(struct sroce_rq *rq, ktime_t now)
{
	if (!rq->refusals)
		rq->refused_at = now;
	rq->refusals = min(rq->refusals + 1, RESP_DOUBLED + 1);
	/* and often enough: it may not have been offered meanwhile */
	return rq->refusals > RESP_DOUBLED &&
	       ktime_after(now, ktime_add_ns(rq->refused_at, RESP_REFUSED_NS));
}

/* The answer that was refused is offered again when the local queue may have room. */
static void resp_backoff(struct sroce_qp *qp, ktime_t now)
{
	struct sroce_rq *rq = &qp->rq;

	rq->resp_skbs_refused = atomic_read(&qp->num->resp_skbs);
	rq->backoff = ktime_add_ns(now, SROCE_BACKOFF_NS << (rq->refusals - 1));
	/* resp_blocked() starts the timer; or there is room by now, and the owner goes on */
	if (!resp_blocked(qp))
		set_bit(SROCE_RESP_WORK, &rq->flags);
}

/* Return: false if it is lost. */
static bool resp_refused(struct sroce_qp *qp, struct sroce_res *slot,
			 const struct sroce_res *before, const struct sroce_res *after)
{
	const ktime_t now = ktime_get();
	struct sroce_rq *rq = &qp->rq;
	const bool lost = resp_refused_for_good(rq, now);

	spin_lock_bh(&rq->lock);
	if (!lost)
		res_refused(rq, slot, before, after);
	/* with a gap in it, the rest is of no use to most */
	else if (rq->num_res && slot->owed && same_place(slot, after))
		res_over(rq, slot);
	sroce_rq_unlock(&qp->rq);
	if (lost)
		return false;
	resp_backoff(qp, now);
	return true;
}

/*
 * An acknowledgement is due as before, or one that goes further. A NAK is, if what it names has not
 * come since, and goes before an acknowledgement that was asked for meanwhile. Return: false if it
 * is lost.
 */
static bool ack_refused(struct sroce_qp *qp, u8 syndrome, u32 psn)
{
	const bool nak = !wire_aeth_is_ack(syndrome);
	const ktime_t now = ktime_get();
	struct sroce_rq *rq = &qp->rq;

	if (resp_refused_for_good(rq, now))
		return false;
	spin_lock_bh(&rq->lock);
	if (nak ? rq->epsn == psn && (!rq->respond || wire_aeth_is_ack(rq->syndrome)) :
		  !rq->respond) {
		rq->respond = true;
		rq->syndrome = syndrome;
	}
	sroce_rq_unlock(&qp->rq);
	resp_backoff(qp, now);
	return true;
}

/* Count the packets of a READ response that have been given, or were lost. */
static void count_given(struct sroce_qp *qp, const struct sroce_res *before,
			const struct sroce_res *done)
{
	const u32 pkts = done->next - before->next;
	u32 bytes;

	if (done->class != WIRE_CLASS_READ || !pkts)
		return;
	bytes = min(done->next * qp->mtu, done->len) - before->next * qp->mtu;
	sroce_qp_count_add(qp, TX_PKTS, pkts);
	sroce_qp_count_add(qp, TX_BYTES, bytes);
	sroce_pace_sent(qp, pkts, bytes, true);
}

/* One burst of the response in @slot, of which @res is a copy. Return: there may be more to say. */
static bool give_res(struct sroce_qp *qp, struct sroce_res *slot, struct sroce_res *res,
		     struct sroce_burst *b)
{
	const struct sroce_res before = *res;
	struct sroce_rq *rq = &qp->rq;
	enum resp_result result;
	struct sroce_res after;
	bool counts;
	int err;

	result = write_res(qp, res, b);
	sroce_burst_seal(b);
	spin_lock_bh(&rq->lock);
	counts = res_done(qp, slot, &before, res, result);
	after = *slot;
	sroce_rq_unlock(&qp->rq);
	err = sroce_burst_send(b);
	if (unlikely(err)) {
		sroce_qp_count(qp, TX_DROPPED);
		if (err == -ENOBUFS) {
			if (counts && resp_refused(qp, slot, &before, &after))
				return false;
			sroce_burst_lost(b);
		}
	} else if (unlikely(rq->refusals)) {
		rq->refusals = 0;
	}
	count_given(qp, &before, res);
	/* without memory for a single packet, the requester has to ask again */
	return result != RESP_FAULT && (res->next != before.next || result == RESP_ACCESS);
}

/* Return: there may be more to say. */
static bool give_ack(struct sroce_qp *qp, u8 syndrome, u32 psn, u32 msn, struct sroce_burst *b)
{
	const bool written = write_ack(qp, syndrome, psn, msn, b);
	struct sroce_rq *rq = &qp->rq;
	int err;

	sroce_burst_seal(b);
	err = written ? sroce_burst_send(b) : -ENOMEM;
	if (likely(!err)) {
		if (unlikely(rq->refusals))
			rq->refusals = 0;
		sroce_qp_count(qp, SENT_ACK);
		return true;
	}
	sroce_qp_count(qp, TX_DROPPED);
	if (err == -ENOBUFS) {
		if (ack_refused(qp, syndrome, psn))
			return false;
		sroce_burst_lost(b);
	}
	ack_unsaid(qp, syndrome);
	return true;
}

/* Return: false if there is no way to the peer. */
static bool resp_start(struct sroce_qp *qp, struct sroce_burst *b)
{
	return !READ_ONCE(qp_dev(qp)->gone) && !sroce_burst_start(b, qp->num, &qp->rq.path);
}

static bool write_report(const struct sroce_qp *qp, u32 psn, const struct wire_gaps *gaps,
			 struct sroce_burst *b)
{
	u8 *p = sroce_burst_reserve(b, WIRE_BTH_LEN + WIRE_GAPS_LEN(gaps->num) + WIRE_ICRC_LEN);

	if (!p)
		return false;
	wire_bth_put(p, WIRE_GAPS, 0, 0, IB_DEFAULT_PKEY_FULL, qp->dqpn, 0, psn);
	wire_gaps_put(p + WIRE_BTH_LEN, gaps);
	sroce_burst_commit(b);
	return true;
}

static void send_report(struct sroce_qp *qp, u32 psn, const struct wire_gaps *gaps)
{
	struct sroce_burst b;
	bool written;

	if (!resp_start(qp, &b))
		return;
	written = write_report(qp, psn, gaps, &b);
	if (sroce_burst_flush(&b) && written)
		sroce_qp_count(qp, SENT_GAPS);
	else
		sroce_qp_count(qp, TX_DROPPED);
}

/*
 * Who asks for a READ again is to know whom it asks. The PSN is the last request's,
 * which is not complete as long as anything is missing.
 */
static void give_greeting(struct sroce_qp *qp)
{
	struct wire_gaps none = {};
	struct sroce_rq *rq = &qp->rq;
	u32 psn;

	spin_lock_bh(&rq->lock);
	rq->greet = false;
	none.twice = rq->twice;
	psn = wire_psn_add(rq->epsn, -1);
	spin_unlock_bh(&rq->lock);
	send_report(qp, psn, &none);
}

/* What is missing beyond the NAK. One that is lost is said again with the next gap. */
static void give_report(struct sroce_qp *qp)
{
	struct sroce_rq *rq = &qp->rq;
	struct wire_gaps gaps;
	u32 psn;

	spin_lock_bh(&rq->lock);
	rq->report = false;
	rq->reported = ktime_get();
	psn = rq->epsn;
	sroce_kept_gaps(qp, &rq->kept, psn, &gaps);
	gaps.twice = rq->twice;
	spin_unlock_bh(&rq->lock);
	if (gaps.num)
		send_report(qp, psn, &gaps);
}

/* To a sender whose packet came marked, Annex A17.9.3. The next one brings another if it is lost. */
static void give_cnp(struct sroce_qp *qp)
{
	struct sroce_burst b;
	u8 *p;

	if (!resp_start(qp, &b))
		return;
	p = sroce_burst_reserve(&b, WIRE_BTH_LEN + WIRE_CNP_RESERVED + WIRE_ICRC_LEN);
	if (!p)
		return;
	wire_cnp_put(p, IB_DEFAULT_PKEY_FULL, qp->dqpn);
	sroce_burst_commit(&b);
	trace_sroce_cnp(qp, true, 0);
	if (sroce_burst_flush(&b))
		sroce_qp_count(qp, SENT_CNP);
	else
		sroce_qp_count(qp, TX_DROPPED);
}

/* Say the next thing that is owed. Return: there may be more. */
static bool resp_step(struct sroce_qp *qp)
{
	struct sroce_rq *rq = &qp->rq;
	struct sroce_res *owed, res;
	u32 psn, msn;
	struct sroce_burst b;
	bool respond;
	u8 syndrome;

	/* for each answer: no locked operation but for one that is due */
	if (unlikely(test_bit(SROCE_RESP_CNP, &rq->flags)) &&
	    test_and_clear_bit(SROCE_RESP_CNP, &rq->flags))
		give_cnp(qp);
	if (unlikely(READ_ONCE(rq->greet)))
		give_greeting(qp);
	/* a queue that has just refused one answer is not offered the next */
	if (unlikely(rq->backoff) && resp_blocked(qp))
		return false;
	spin_lock_bh(&rq->lock);
	owed = next_owed(rq);
	if (owed)
		res = *owed;
	respond = !owed && rq->respond;
	if (respond)
		rq->respond = false;
	syndrome = rq->syndrome;
	/* what is answered since is by responses, and they answer what was before them */
	if (respond && wire_aeth_is_ack(syndrome) && rq->ack_stale)
		respond = false;
	psn = wire_aeth_is_ack(syndrome) ? rq->ack_psn : rq->epsn;
	msn = rq->msn;
	spin_unlock_bh(&rq->lock);

	if (!owed && !respond) {
		/* behind the NAK, which says where it begins */
		if (unlikely(READ_ONCE(rq->report)))
			give_report(qp);
		return false;
	}
	if (owed && (READ_ONCE(rq->resp_fault.active) || resp_blocked(qp) ||
		     !sroce_pace_open(qp, SROCE_RESP_BLOCKED, &rq->flags)))
		return false;
	if (!resp_start(qp, &b)) {
		sroce_qp_count(qp, TX_NO_ROUTE);
		if (respond)
			ack_unsaid(qp, syndrome);
		/* what could not be read out is asked for again */
		return false;
	}
	if (owed)
		sroce_burst_ect(&b);
	return owed ? give_res(qp, owed, &res, &b) : give_ack(qp, syndrome, psn, msn, &b);
}

/**
 * sroce_resp_run - give what answers are owed
 * @qp: queue pair
 *
 * Process context or softirq, with no lock held that the network stack may
 * want. Returns at once if somebody is at it: that one looks again.
 */
void sroce_resp_run(struct sroce_qp *qp)
{
	struct sroce_rq *rq = &qp->rq;
	int budget = RESP_BUDGET;

	set_bit(SROCE_RESP_WORK, &rq->flags);
	local_bh_disable();
	rcu_read_lock();
	while (test_bit(SROCE_RESP_WORK, &rq->flags) &&
	       !test_and_set_bit_lock(SROCE_RESP_OWNED, &rq->flags)) {
		if (test_and_clear_bit(SROCE_RESP_WORK, &rq->flags))
			while (budget && resp_step(qp))
				budget--;
		clear_bit_unlock(SROCE_RESP_OWNED, &rq->flags);
		if (!budget)
			break;
		/* a note left while we were leaving is seen by one of the two */
		smp_mb__after_atomic();
	}
	rcu_read_unlock();
	local_bh_enable();
	if (!budget)
		sroce_task_schedule(&rq->task);
}

/**
 * sroce_resp_task - give responses where their caller could not
 * @task: the receive side's
 */
void sroce_resp_task(struct sroce_task *task)
{
	sroce_resp_run(container_of(task, struct sroce_qp, rq.task));
}

/**
 * sroce_resp_claim - become the owner of the responses, to change the path
 * @qp: queue pair
 *
 * Process context, with bottom halves off, once; an owner's turn is bounded, and on another CPU.
 * With PREEMPT_RT they may be on for a while: see sroce_send_claim().
 */
void sroce_resp_claim(struct sroce_qp *qp)
{
	while (test_and_set_bit_lock(SROCE_RESP_OWNED, &qp->rq.flags)) {
		if (!IS_ENABLED(CONFIG_PREEMPT_RT)) {
			cpu_relax();
			continue;
		}
		local_bh_enable();
		usleep_range(SROCE_TURN_US, 2 * SROCE_TURN_US);
		local_bh_disable();
	}
}

/**
 * sroce_resp_release - let the responses go
 * @qp: queue pair whose responses were claimed
 */
void sroce_resp_release(struct sroce_qp *qp)
{
	clear_bit_unlock(SROCE_RESP_OWNED, &qp->rq.flags);
	sroce_resp_run(qp);
}

/**
 * sroce_resp_settle - give what is owed, as far as it goes at once
 * @qp: queue pair, about to forget what that is
 *
 * Process context. A receiver may have completed a message, and not yet come to say so to its
 * sender: who ends the queue pair for that completion must not leave the sender without it.
 */
void sroce_resp_settle(struct sroce_qp *qp)
{
	local_bh_disable();
	sroce_resp_claim(qp);
	sroce_resp_release(qp);
	local_bh_enable();
}

/**
 * sroce_resp_fault_done - paging in has ended
 * @qp: queue pair
 * @err: 0, or why the memory can't be had
 *
 * Process context.
 */
void sroce_resp_fault_done(struct sroce_qp *qp, int err)
{
	spin_lock_bh(&qp->rq.lock);
	qp->rq.resp_fault.err = err;
	WRITE_ONCE(qp->rq.resp_fault.active, false);
	sroce_rq_unlock(&qp->rq);
	sroce_resp_run(qp);
}
