// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The responder: recv.c and resp.c, in this order.
 */
#include "model.h"

#define rq (&w.rq)

/* recv.c */

/* A NAK outranks the acknowledgement that it implies, and a later NAK it. */
static void respond(u8 syndrome)
{
	if (!rq->respond || !wire_aeth_is_ack(syndrome))
		rq->syndrome = syndrome;
	rq->respond = true;
}

/* @num PSNs have come; a NAK for them that is not out yet is moot. */
static void advance(u32 num)
{
	rq->epsn = wire_psn_add(rq->epsn, num);
	rq->nak_sent = false;
	rq->not_ready = false;
	if (rq->respond && !wire_aeth_is_ack(rq->syndrome))
		rq->syndrome = WIRE_AETH_PURE_ACK;
}

static void executed(const struct wire_pkt *pkt)
{
	rq->ack_psn = pkt->psn;
	advance(1);
	if (pkt->op->flags & WIRE_END) {
		rq->msn = (rq->msn + 1) & WIRE_PSN_MASK;
		rq->op = RECV_IDLE;
		check_message(pkt);
	}
	if (pkt->ackreq)
		respond(WIRE_AETH_PURE_ACK);
}

/* sroce_mr_get_remote(): there is one region, and who names it has all rights */
static u8 *run_mr_remote(u32 rkey, u64 va, u32 len)
{
	if (rkey != w.rkey || va < w.va || va - w.va > MEM_LEN || len > MEM_LEN - (va - w.va))
		return NULL;
	return w.mem + (va - w.va);
}

static void recv_refuse(enum wire_nak nak)
{
	trace("refused psn=%u nak=%d", rq->epsn, nak);
	respond(WIRE_AETH_NAK | (u8)nak);
	kept_purge(&rq->kept);
	rq->err = true;
}

static bool rq_fetch(void)
{
	if (!rq->has_wqe && rq->cons != rq->posted) {
		rq->cons++;
		rq->has_wqe = true;
		memset(rq->buf, 0xa5, sizeof(rq->buf));
	}
	rq->placed = 0;
	return rq->has_wqe;
}

static void recv_not_ready(void)
{
	seen[SEEN_RNR_NAK]++;
	respond(WIRE_AETH_RNR_NAK | (u8)w.plan.min_rnr_timer);
	/* plain: of what follows, it says that this is missing */
	if (w.plan.plain_responder)
		return;
	/* its requester starts anew there: until it does, all is dropped (9.7.5.2.8) */
	rq->nak_sent = true;
	rq->not_ready = true;
	kept_purge(&rq->kept);
}

static bool place_payload(const struct rx *rx)
{
	const u32 len = rx->pkt.payload_len;

	if (len > MAX_LEN - rq->placed) {
		recv_refuse(WIRE_NAK_INVALID_REQ);
		return false;
	}
	if (len)
		memcpy(rq->buf + rq->placed, rx_payload(rx), len);
	rq->placed += len;
	return true;
}

/* A WRITE's payload, to where its message has got. */
static bool place_remote(const struct rx *rx)
{
	const u32 len = rx->pkt.payload_len;
	u8 *to;

	if (!len)
		return true;
	to = run_mr_remote(rq->rkey, rq->va, rq->left);
	if (!to) {
		recv_refuse(WIRE_NAK_REM_ACCESS);
		return false;
	}
	memcpy(to, rx_payload(rx), len);
	rq->va += len;
	rq->left -= len;
	return true;
}

/* Opcode and length against what the message is at: 9.7.4.1.2 to .6 */
static bool in_order(const struct wire_pkt *pkt)
{
	const enum recv_op op = pkt->op->class == WIRE_CLASS_WRITE ? RECV_WRITE : RECV_SEND;
	const u16 flags = pkt->op->flags;

	if (rq->op != (flags & WIRE_START ? RECV_IDLE : op))
		return false;
	if (!(flags & WIRE_END))
		return pkt->payload_len == MTU;
	if (!(flags & WIRE_START) && !pkt->payload_len)
		return false;
	return pkt->payload_len <= MTU;
}

static bool take_wqe(void)
{
	if (rq_fetch())
		return true;
	recv_not_ready();
	return false;
}

static void complete_message(const struct wire_pkt *pkt, u32 len)
{
	rq->has_wqe = false;
	check_received(pkt, len);
}

static void recv_send(const struct rx *rx)
{
	const struct wire_pkt *pkt = &rx->pkt;

	if (!in_order(pkt)) {
		recv_refuse(WIRE_NAK_INVALID_REQ);
		return;
	}
	if (pkt->op->flags & WIRE_START && !take_wqe())
		return;
	if (!place_payload(rx))
		return;
	rq->op = RECV_SEND;
	executed(pkt);
	if (pkt->op->flags & WIRE_END)
		complete_message(pkt, rq->placed);
}

static bool write_start(const struct wire_pkt *pkt)
{
	/* nothing is written, and no key is looked at: 9.7.4.1.5 */
	if (pkt->dma_len && !run_mr_remote(pkt->rkey, pkt->va, pkt->dma_len)) {
		recv_refuse(WIRE_NAK_REM_ACCESS);
		return false;
	}
	rq->va = pkt->va;
	rq->rkey = pkt->rkey;
	rq->left = pkt->dma_len;
	return true;
}

/* Does the payload add up to what the RETH said? */
static bool write_fits(const struct wire_pkt *pkt)
{
	if (pkt->op->flags & WIRE_END)
		return pkt->payload_len == rq->left;
	return pkt->payload_len < rq->left;
}

static void recv_write(const struct rx *rx)
{
	const struct wire_pkt *pkt = &rx->pkt;

	if (!in_order(pkt)) {
		recv_refuse(WIRE_NAK_INVALID_REQ);
		return;
	}
	if (pkt->op->flags & WIRE_START && !write_start(pkt))
		return;
	if (!write_fits(pkt)) {
		recv_refuse(WIRE_NAK_INVALID_REQ);
		return;
	}
	if (pkt->op->flags & WIRE_IMM && !take_wqe())
		return;
	if (!place_remote(rx))
		return;
	rq->op = RECV_WRITE;
	executed(pkt);
	if (pkt->op->flags & WIRE_IMM)
		complete_message(pkt, 0);
}

static bool resource_free(void)
{
	const struct res *res = &rq->res[rq->num_res % rq->max_res];

	return rq->num_res < rq->max_res || !res->owed || res->given;
}

static void resp_request(const struct res *res);

static void take_resource(const struct wire_pkt *pkt, u32 num_pkts, u64 orig)
{
	rq->msn = (rq->msn + 1) & WIRE_PSN_MASK;
	resp_request(&(struct res) {
		.class = pkt->op->class,
		.owed = true,
		.psn = pkt->psn,
		.num_pkts = num_pkts,
		.end = num_pkts,
		.msn = rq->msn,
		.rkey = pkt->rkey,
		.va = pkt->va,
		.len = pkt->dma_len,
		.orig = orig,
	});
	advance(num_pkts);
	check_message(pkt);
}

static void recv_read(const struct rx *rx)
{
	const struct wire_pkt *pkt = &rx->pkt;

	if (pkt->dma_len && !run_mr_remote(pkt->rkey, pkt->va, pkt->dma_len)) {
		recv_refuse(WIRE_NAK_REM_ACCESS);
		return;
	}
	take_resource(pkt, max(DIV_ROUND_UP(pkt->dma_len, MTU), 1U), 0);
}

static u64 atomic_op(u8 *p, const struct wire_pkt *pkt)
{
	u64 orig, new;

	memcpy(&orig, p, sizeof(orig));
	new = orig + pkt->swap_add;
	if (wire_operation(pkt->opcode) == WIRE_CMP_SWAP)
		new = orig == pkt->compare ? pkt->swap_add : orig;
	memcpy(p, &new, sizeof(new));
	check_atomic(pkt, orig);
	return orig;
}

static void recv_atomic(const struct rx *rx)
{
	const struct wire_pkt *pkt = &rx->pkt;
	u8 *word = run_mr_remote(pkt->rkey, pkt->va, sizeof(u64));

	if (!word) {
		recv_refuse(WIRE_NAK_REM_ACCESS);
		return;
	}
	take_resource(pkt, 1, atomic_op(word, pkt));
}

/* By enum wire_class */
static const struct {
	void (*take)(const struct rx *rx);
	bool resource;
} recv_ops[] = {
	[WIRE_CLASS_SEND] = { recv_send, false },
	[WIRE_CLASS_WRITE] = { recv_write, false },
	[WIRE_CLASS_READ] = { recv_read, true },
	[WIRE_CLASS_ATOMIC] = { recv_atomic, true },
};

static void recv_execute(const struct rx *rx)
{
	const bool resource = recv_ops[rx->pkt.op->class].resource;

	/* neither within another message, nor more than can be remembered */
	if (resource && (rq->op != RECV_IDLE || !resource_free()))
		recv_refuse(WIRE_NAK_INVALID_REQ);
	else
		recv_ops[rx->pkt.op->class].take(rx);
}

/* A packet is missing: the requester is told once, 9.7.5.1.3. */
static void recv_gap(void)
{
	if (rq->nak_sent)
		return;
	rq->nak_sent = true;
	respond(WIRE_AETH_NAK | WIRE_NAK_PSN_SEQ);
	seen[SEEN_GAP_NAK]++;
}

/* What is missing is worth a report: each time, or to a requester that goes back, now and then. */
static void report(void)
{
	rq->report |= !rq->goes_back || !(++rq->unreported % UNREPORTED);
}

/* A packet that asks came behind a gap. Is it kept, and has nothing been said of gaps for long? */
static bool report_overdue(enum keep kept)
{
	return !rq->goes_back && (kept == KEPT || kept == KEPT_APART) &&
	       ktime_get() > rq->reported + REPORT_NS;
}

/* Before its turn: kept until then, as far as there is room. */
static void recv_early(struct rx *rx)
{
	enum keep kept = KEPT_NOT;
	bool opens;

	if (rq->not_ready)
		return;
	opens = kept_opens(&rq->kept, rx->pkt.psn);
	if (!w.plan.plain_responder)
		kept = keep(&rq->kept, rx);
	rq->twice += kept == KEPT_TWICE;
	if ((opens && kept == KEPT_APART) || (rx->pkt.ackreq && report_overdue(kept)))
		report();
	recv_gap();
}

/*
 * A gap was filled, and what had been kept behind it taken. Does the requester
 * send all that as well, as IBTA has it, or go on from where it was? To the
 * former, reports say nothing.
 */
static void judge_requester(u32 psn)
{
	if (psn != rq->filled_psn && wire_psn_diff(psn, rq->epsn) < 0)
		return;
	rq->goes_back = psn == rq->filled_psn;
	rq->filled = false;
}

static bool resp_again(const struct wire_pkt *pkt);

/* Reliable: in order, each once; 9.7.4 */
static void recv_reliable(struct rx *rx)
{
	const struct wire_pkt *pkt = &rx->pkt;
	s32 ahead = wire_psn_diff(pkt->psn, rq->epsn);

	if (rq->filled)
		judge_requester(pkt->psn);
	if (ahead < 0) {
		/* it has been executed: say so again, and that is all (9.7.5.1.2) */
		seen[SEEN_DUPLICATE]++;
		if (!recv_ops[pkt->op->class].resource) {
			rq->twice++;
			respond(WIRE_AETH_PURE_ACK);
			return;
		}
		seen[SEEN_REPLAYED] += resp_again(pkt);
	} else if (ahead > 0) {
		recv_early(rx);
	} else {
		recv_execute(rx);
	}
}

static void recv_take(struct rx *rx)
{
	if (!rq->err)
		recv_reliable(rx);
}

/*
 * Something is kept: take what is in order by now, as if it came now. The
 * requester learns at once how far that goes, and what is missing next.
 */
static void recv_kept(void)
{
	const u32 ack_psn = rq->ack_psn, from = rq->epsn;
	struct late *late;

	while ((late = kept_first(&rq->kept)) &&
	       wire_psn_diff(late->rx.pkt.psn, rq->epsn) <= 0) {
		kept_take(&rq->kept, late);
		recv_take(&late->rx);
		late_free(late);
	}
	if (rq->epsn != from) {
		rq->filled = true;
		rq->filled_psn = wire_psn_add(rq->epsn, -1U);
	}
	if (rq->ack_psn != ack_psn)
		respond(WIRE_AETH_PURE_ACK);
	/*
	 * What comes next has not come. If that is behind what had been kept, or
	 * somebody asks, it is missing; else it may well be on its way, behind
	 * one that came early.
	 */
	if (rq->kept.num && (rq->epsn != from || rq->respond)) {
		if (rq->epsn != from)
			report();
		recv_gap();
	}
}

void recv_packet(struct rx *rx)
{
	recv_take(rx);
	if (rq->kept.num)
		recv_kept();
}

void recv_end(void)
{
	if (rq->respond || rq->report || rq->num_owed)
		resp_run();
}

/* resp.c */

static void resp_request(const struct res *res)
{
	struct res *slot = &rq->res[rq->num_res % rq->max_res];

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
static u32 oldest_res(void)
{
	return rq->num_res > rq->max_res ? rq->num_res - rq->max_res : 0;
}

static struct res *find_res(u32 psn)
{
	u32 i;

	for (i = rq->num_res; i != oldest_res(); i--) {
		struct res *res = &rq->res[(i - 1) % rq->max_res];
		s32 k = wire_psn_diff(psn, res->psn);

		if (k >= 0 && k < (s32)res->num_pkts)
			return res;
	}
	return NULL;
}

/* Up to which packet is asked for, from packet @k on? Return: 0 for another request. */
static u32 again_end(const struct res *res, const struct wire_pkt *pkt, u32 k)
{
	const u32 off = k * MTU;

	if (res->class != WIRE_CLASS_READ)
		return res->num_pkts;
	if (pkt->rkey != res->rkey || pkt->va != res->va + off)
		return 0;
	if (pkt->dma_len == res->len - off)
		return res->num_pkts;
	if (!pkt->dma_len || pkt->dma_len > res->len - off || pkt->dma_len % MTU)
		return 0;
	seen[SEEN_PART]++;
	return k + pkt->dma_len / MTU;
}

/* What is under way stops for a part that ends at @end. Where does it go on? */
static u32 again_resume(const struct res *res, u32 end)
{
	u32 next;

	/* plain: it does not */
	if (!res->owed || end == res->num_pkts || w.plan.plain_responder)
		return 0;
	next = res->end == res->num_pkts ? res->next : res->resume;
	if (next)
		next = max(next, end);
	return next == res->num_pkts ? 0 : next;
}

static void give_again(struct res *res, u32 start, u32 end)
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

static bool part_later(u32 psn, u32 end)
{
	u32 i;

	for (i = 0; i < rq->num_parts; i++)
		if (rq->parts[i].psn == psn && rq->parts[i].end == end)
			return true;
	if (rq->num_parts == MAX_PARTS)
		return false;
	seen[SEEN_PART_LATER]++;
	rq->parts[rq->num_parts++] = (struct part) { .psn = psn, .end = end };
	return true;
}

static bool resp_again(const struct wire_pkt *pkt)
{
	struct res *res = find_res(pkt->psn);
	bool rest, part;
	u32 k, end;

	if (!res || res->class != pkt->op->class)
		return false;
	k = (u32)wire_psn_diff(pkt->psn, res->psn);
	end = again_end(res, pkt, k);
	if (!end)
		return false;
	if (res->class == WIRE_CLASS_READ && rq->greetings < GREETINGS && !rq->goes_back &&
	    !w.plan.plain_responder) {
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
		return part_later(pkt->psn, end);
	give_again(res, k, end);
	return true;
}

/* Part @i is not waited for any more. Return: it is one of @res, and @res's turn is its now. */
static bool take_part(u32 i, struct res *res)
{
	const struct part part = rq->parts[i];
	u32 start;

	memmove(rq->parts + i, rq->parts + i + 1, (--rq->num_parts - i) * sizeof(part));
	if (!res || part.end > res->num_pkts)
		return false;
	start = (u32)wire_psn_diff(part.psn, res->psn);
	/* or it was of another READ, long ago; or is in the rest, which is about to be given */
	if (start >= part.end || (res->resume && start >= res->resume))
		return false;
	give_again(res, start, part.end);
	return true;
}

/* What was asked for meanwhile */
static void next_part(void)
{
	u32 i = 0;

	while (i < rq->num_parts) {
		struct res *res = find_res(rq->parts[i].psn);

		/* with one under way in this READ, or all of its rest, there is time */
		if (res && res->owed)
			i++;
		else if (take_part(i, res))
			return;
	}
}

/* Another part of a READ goes before its rest. */
static bool part_before_rest(struct res *res)
{
	u32 i = 0;

	while (i < rq->num_parts) {
		if (find_res(rq->parts[i].psn) != res)
			i++;
		else if (take_part(i, res))
			return true;
	}
	return false;
}

static struct res *next_owed(void)
{
	u32 i;

	if (!rq->num_owed)
		return NULL;
	for (i = max(rq->first_owed, oldest_res()); i != rq->num_res; i++) {
		struct res *res = &rq->res[i % rq->max_res];

		rq->first_owed = i;
		if (res->owed)
			return res;
	}
	return NULL;
}

static void put_response(u8 *p, u8 operation, u32 pad, u32 psn, u8 syndrome, u32 msn)
{
	wire_bth_put(p, operation, 0, (u8)pad, PKEY, REQUESTER_QPN, 0, psn);
	if (wire_opcodes[operation].flags & WIRE_AETH)
		wire_aeth_put(p + WIRE_BTH_LEN, syndrome, msn);
}

static u8 read_operation(const struct res *res, u32 k)
{
	const bool last = k + 1 == res->end;

	if (k == res->start)
		return last ? WIRE_READ_RESPONSE_ONLY : WIRE_READ_RESPONSE_FIRST;
	return last ? WIRE_READ_RESPONSE_LAST : WIRE_READ_RESPONSE_MIDDLE;
}

static void read_packet(const struct res *res, u32 k, struct burst *b)
{
	const u8 operation = read_operation(res, k);
	const u32 hdr = wire_opcodes[operation].hdr_len;
	u32 off = k * MTU;
	u32 payload = min(res->len - off, MTU);
	u32 pad = -payload & 3;
	u8 *p = burst_reserve(b, hdr + payload + pad + WIRE_ICRC_LEN);

	put_response(p, operation, pad, wire_psn_add(res->psn, k), WIRE_AETH_PURE_ACK, res->msn);
	if (payload)
		memcpy(p + hdr, run_mr_remote(res->rkey, res->va + off, payload), payload);
	memset(p + hdr + payload, 0, pad);
}

static void write_small(u8 operation, u32 psn, u8 syndrome, u32 msn, u64 orig, struct burst *b)
{
	const u32 hdr = wire_opcodes[operation].hdr_len;
	u8 *p = burst_reserve(b, hdr + WIRE_ICRC_LEN);

	put_response(p, operation, 0, psn, syndrome, msn);
	if (operation == WIRE_ATOMIC_ACKNOWLEDGE)
		wire_put64(p + WIRE_BTH_LEN + WIRE_AETH_LEN, orig);
}

/* As much of a response as one burst takes. */
static void write_res(struct res *res, struct burst *b)
{
	if (res->class == WIRE_CLASS_READ) {
		while (res->next != res->end && burst_fits(b))
			read_packet(res, res->next++, b);
		return;
	}
	write_small(WIRE_ATOMIC_ACKNOWLEDGE, res->psn, WIRE_AETH_PURE_ACK, res->msn, res->orig, b);
	res->next++;
}

/*
 * What was written of @done, which is a copy of @res, counts, unless its
 * requester has asked anew for something of it meanwhile. It leaves all the
 * same: with the whole of it, the requester may go on, and take the resource
 * for another.
 */
static void res_done(struct res *res, const struct res *before, const struct res *done)
{
	if (!rq->num_res || res->psn != done->psn || res->msn != done->msn)
		return;
	if (done->next == res->num_pkts)
		res->given = true;
	if (!res->owed || res->start != before->start || res->next != before->next ||
	    res->end != before->end)
		return;
	res->next = done->next;
	if (res->next == res->end && res->resume) {
		if (part_before_rest(res))
			return;
		seen[SEEN_RESUMED]++;
		res->next = res->resume;
		res->end = res->num_pkts;
		res->resume = 0;
	} else if (res->next == res->end) {
		res->owed = false;
		res->resume = 0;
		rq->num_owed--;
		next_part();
	}
}

static void send_report(u32 psn, const struct wire_gaps *gaps)
{
	struct burst b = { .num = 0 };
	u8 *p = burst_reserve(&b, WIRE_BTH_LEN + WIRE_GAPS_LEN(gaps->num) + WIRE_ICRC_LEN);

	wire_bth_put(p, WIRE_GAPS, 0, 0, PKEY, REQUESTER_QPN, 0, psn);
	wire_gaps_put(p + WIRE_BTH_LEN, gaps);
	burst_send(&b, false);
}

/*
 * Who asks for a READ again is to know whom it asks. The PSN is the last request's,
 * which is not complete as long as anything is missing.
 */
static void give_greeting(void)
{
	const struct wire_gaps none = { .num = 0, .twice = rq->twice };

	rq->greet = false;
	send_report(wire_psn_add(rq->epsn, -1U), &none);
}

/* What is missing beyond the NAK. One that is lost is said again with the next gap. */
static void give_report(void)
{
	struct wire_gaps gaps;

	rq->report = false;
	rq->reported = ktime_get();
	kept_gaps(&rq->kept, rq->epsn, &gaps);
	gaps.twice = rq->twice;
	if (gaps.num)
		send_report(rq->epsn, &gaps);
}

/* Write the next thing that is owed. Return: there is one, and resp_given() is due. */
static bool resp_step(void)
{
	struct res *owed;
	u8 syndrome;

	if (rq->greet)
		give_greeting();
	owed = next_owed();
	syndrome = rq->syndrome;
	rq->burst.num = 0;
	rq->giving_ack = !owed;
	if (owed) {
		rq->owed = owed;
		rq->before = *owed;
		rq->done = *owed;
		write_res(&rq->done, &rq->burst);
		return true;
	}
	if (!rq->respond) {
		/* behind the NAK, which says where it begins */
		if (rq->report)
			give_report();
		return false;
	}
	rq->respond = false;
	rq->giving = syndrome;
	/* an ACK names the last packet that arrived, a NAK the first that did not */
	write_small(WIRE_ACKNOWLEDGE, wire_aeth_is_ack(syndrome) ? rq->ack_psn : rq->epsn,
		    syndrome, rq->msn, 0, &rq->burst);
	trace("respond psn=%u syndrome=%#x", wire_aeth_is_ack(syndrome) ? rq->ack_psn : rq->epsn,
	      syndrome);
	return true;
}

/*
 * What did not get out: an acknowledgement is asked for again. A NAK is not, so the next packet out
 * of order is answered again, unless there is another NAK to be said by now.
 */
static void ack_unsaid(u8 syndrome)
{
	if (wire_aeth_is_ack(syndrome))
		return;
	if (!rq->respond || wire_aeth_is_ack(rq->syndrome)) {
		rq->nak_sent = false;
		rq->not_ready = false;
	}
}

/* give_res() and give_ack(), once it is written. What is refused is lost here. */
static void resp_given(void)
{
	if (!rq->giving_ack)
		res_done(rq->owed, &rq->before, &rq->done);
	if (burst_send(&rq->burst, false) && rq->giving_ack)
		ack_unsaid(rq->giving);
}

/* The owner is at it. Where that takes time, others come meanwhile. */
static void resp_owner(void)
{
	while (resp_step()) {
		if (w.plan.resp_ns) {
			event_at(ktime_get() + w.plan.resp_ns, EV_RESP, 0, NULL);
			return;
		}
		resp_given();
	}
	rq->owned = false;
}

void resp_run(void)
{
	if (rq->owned)
		return;
	rq->owned = true;
	resp_owner();
}

void resp_finish(void)
{
	resp_given();
	resp_owner();
}

void responder_reset(u32 psn)
{
	memset(rq, 0, sizeof(*rq));
	rq->epsn = psn;
	rq->ack_psn = wire_psn_add(psn, -1U);
	rq->max_res = w.plan.max_res;
	rq->kept.max_pkts = w.plan.kept_pkts[1];
	rq->kept.max_bytes = w.plan.kept_bytes[1];
}
