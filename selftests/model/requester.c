// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The requester: repair.c, retry.c and send.c, in this order.
 */
#include "model.h"

#define sq (&w.sq)

/* repair.c */

/* What comes within that may still come */
static u64 probe_min(void)
{
	return max((u64)PROBE_MIN_NS, (u64)sq->order.wait);
}

static u64 probe_ns(ktime_t now)
{
	const u64 least = now < sq->repair.lossy ? probe_min() : (u64)PROBE_CALM_NS;

	if (sq->srtt)
		return max(max(2 * sq->srtt + min(4 * sq->rttvar, sq->srtt), sq->repair.took),
			   least);
	if (sq->repair.took)
		return max(4 * sq->repair.took, probe_min());
	return PROBE_FIRST_NS;
}

/* pace.c: the time that any answer takes, as far as is known */
u64 cwnd_least(void)
{
	return sq->rtt_least;
}

/* Each in a row waits twice as long, and the first as long as the last has. */
static u8 probe_shift(const struct repair *r)
{
	return (u8)min(r->backed_off + r->probes, PROBE_SHIFT_MAX);
}

static s64 probe_wait(const struct repair *r, u64 ns)
{
	const u8 shift = probe_shift(r);

	return (s64)max(ns << min(shift, PROBES_MAX), min(ns << shift, (u64)PROBE_LAST_NS));
}

u64 repair_answer_ns(ktime_t now)
{
	const struct repair *r = &sq->repair;
	u64 ns;

	if (!r->took)
		return probe_ns(now);
	ns = min(r->took + 4 * r->took_var, 2 * max(r->took, sq->srtt));
	return max(max(ns, cwnd_least()), probe_min());
}

void repair_forget(void)
{
	struct repair *r = &sq->repair;

	r->due = false;
	r->out = false;
	r->hold = false;
	r->rest_due = KTIME_MAX;
	r->probe_due = KTIME_MAX;
}

static void repair_reset(void)
{
	struct repair *r = &sq->repair;

	repair_forget();
	order_reset();
	r->peer = PEER_UNKNOWN;
	r->reports = false;
	r->probes = 0;
	r->backed_off = 0;
	r->vain = 0;
	r->num = 1;
	r->lossy = 0;
	r->took = 0;
	r->took_var = 0;
}

static void repair(bool told, bool blind)
{
	struct repair *r = &sq->repair;

	if (r->out && sq->psn_una == r->end)
		r->num = (u8)min(r->num * 4, REPAIR_MAX);
	else
		r->num = 1;
	r->twice = r->out && sq->psn_una == r->psn;
	r->psn = sq->psn_una;
	r->due = true;
	r->out = false;
	r->told = told;
	r->blind = blind;
	/* the rest may have to follow, and nothing new before that */
	r->hold = told && r->peer == PEER_UNKNOWN;
	r->rest_due = KTIME_MAX;
}

static void repair_oldest(void)
{
	struct repair *r = &sq->repair;

	r->out = r->out && sq->psn_una == r->psn;
	repair(false, true);
}

/* Is the packet at psn_una on its way again, or about to be? */
static bool under_way(void)
{
	const struct repair *r = &sq->repair;
	const ktime_t now = ktime_get();

	return r->due || gaps_under_way(now) ||
	       (r->out && wire_psn_diff(sq->psn_una, r->end) < 0 &&
		!gaps_overtaken(r->sent, r->behind, now));
}

void repair_told(bool alone)
{
	if (!sq->retry_left) {
		send_fail(WC_RETRY_EXC_ERR, WIRE_AETH_NAK | WIRE_NAK_PSN_SEQ);
		return;
	}
	sq->retry_left--;
	/* the peer is there: what is sent again has the whole of its time (9.7.6.1.3) */
	sq->deadline = KTIME_MAX;
	if (alone)
		repair(true, false);
}

static bool may_hold(bool told)
{
	const struct repair *r = &sq->repair;

	if (w.plan.plain_requester || !told)
		return !w.plan.plain_requester;
	return r->peer == PEER_KEEPS && !sq->kept.num && !(r->out && r->end == sq->psn_una);
}

void repair_nak(u8 syndrome)
{
	const bool told = syndrome == (WIRE_AETH_NAK | WIRE_NAK_PSN_SEQ);

	if (sq->rnr_wait || sq->psn_nxt == sq->psn_una || under_way())
		return;
	if (may_hold(told) && gaps_hold(told)) {
		sq->repair.rest_due = KTIME_MAX;
		return;
	}
	if (w.plan.plain_requester) {
		if (told || !sq->went_back || ktime_get() >= sq->went_back + (s64)sq->srtt)
			retry_go_back(ktime_get(), syndrome, told);
	} else if (!told) {
		seen[SEEN_IMPLIED]++;
		repair(false, false);
	} else if (sq->repair.peer == PEER_DROPS) {
		retry_nak(syndrome);
	} else {
		repair_told(true);
	}
}

void repair_missing(ktime_t now)
{
	sq->repair.lossy = now + LOSSY_NS;
}

static void repair_sent(u32 end, u32 lacks)
{
	struct repair *r = &sq->repair;
	const ktime_t now = ktime_get();

	gaps_repaired(lacks ? wire_psn_add(r->psn, lacks) : end, now);
	order_again((u32)wire_psn_diff(end, r->psn), r->probes || r->blind);
	r->out = true;
	r->once = !r->probes;
	r->end = end;
	r->lacks = lacks;
	r->sent = now;
	r->behind = sq->psn_end;
	repair_missing(now);
	r->probe_due = KTIME_MAX;
	if (r->probes < PROBES_MAX)
		r->probe_due = now + probe_wait(r, repair_answer_ns(now));
	seen[SEEN_REPAIR]++;
	trace("repair psn=%u end=%u told=%d probes=%u peer=%u", r->psn, end, r->told, r->probes,
	      r->peer);
}

static void repair_swept(void)
{
	struct repair *r = &sq->repair;
	const ktime_t now = ktime_get();

	repair_missing(now);
	/* of the oldest, and not of those that have become known since */
	if (r->probe_due == KTIME_MAX && r->probes < PROBES_MAX)
		r->probe_due = now + probe_wait(r, repair_answer_ns(now));
	gaps_await();
}

static void retry_smooth(u64 *mean, u64 *off, u64 ns);

/* Is more of a READ's response missing than was asked for? */
static bool asks_part(const struct repair *r)
{
	return (s32)r->lacks > wire_psn_diff(r->end, r->psn);
}

/* All of that has come, and ends where no other response would. */
static bool part_answered(void)
{
	const struct repair *r = &sq->repair;

	return r->out && asks_part(r) && sq->rsp_end == r->end;
}

/* What comes sooner than any round trip answers an earlier sending, unless it is @sure. */
static void note_answer(u64 ns, bool sure)
{
	struct repair *r = &sq->repair;

	if (!sure && ns < cwnd_least())
		return;
	r->backed_off = 0;
	if (wire_psn_diff(r->end, r->psn) <= REPAIR_MAX)
		retry_smooth(&r->took, &r->took_var, ns);
}

void repair_moved(void)
{
	struct repair *r = &sq->repair;
	ktime_t now;
	s32 beyond;
	bool sure;

	r->once = r->once && !r->probes;
	/* the longer time stays until one is measured (Karn) */
	r->backed_off = probe_shift(r);
	r->probes = 0;
	r->probe_due = KTIME_MAX;
	if (!r->out && !r->due)
		return;
	beyond = r->out ? wire_psn_diff(sq->psn_una, r->end) : 1;
	if (beyond < 0)
		return;
	now = ktime_get();
	sure = part_answered();
	if (r->out && (sure ? !r->twice : r->once))
		note_answer((u64)(now - r->sent), sure);
	if (sure && !beyond) {
		seen[SEEN_ASKED_ON]++;
		repair(false, false);
		return;
	}
	if (beyond > 0 || sq->psn_una == sq->psn_nxt || gaps_under_way(now)) {
		if (r->out && r->told && beyond > 0) {
			r->peer = PEER_KEEPS;
			seen[SEEN_KEEPS]++;
		}
		repair_forget();
	} else {
		/* what was sent before it has its answer by then, unless this answers a probe */
		r->rest_due = (r->once ? r->sent : now) + (s64)repair_answer_ns(now);
		r->rest_due = max(r->rest_due, now + (s64)probe_min());
	}
}

/* All from psn_una on: a peer of whom nothing better is known gets it. */
static void rest(ktime_t now)
{
	struct repair *r = &sq->repair;

	if (asks_part(r) || ((r->peer == PEER_KEEPS || r->reports) && r->num < REPAIR_MAX)) {
		repair(false, true);
		return;
	}
	if (r->told && r->once && r->peer == PEER_UNKNOWN && !r->reports) {
		r->peer = PEER_DROPS;
		r->vain = RELEARN;
	}
	retry_go_back(now, 0, false);
}

void repair_acked(void)
{
	struct repair *r = &sq->repair;

	if (!r->out || !r->told || !r->once || r->end != sq->psn_una || r->reports)
		return;
	/* one that has kept before may have been short of room */
	if (r->peer == PEER_KEEPS) {
		r->peer = PEER_UNKNOWN;
	} else {
		r->peer = PEER_DROPS;
		r->vain = RELEARN;
		seen[SEEN_DROPS]++;
	}
	retry_go_back(ktime_get(), 0, false);
}

static void repair_vain(void)
{
	struct repair *r = &sq->repair;

	if (r->peer == PEER_DROPS && !--r->vain)
		r->peer = PEER_UNKNOWN;
}

static void repair_run(ktime_t now)
{
	struct repair *r = &sq->repair;
	bool again, part, told, blind;

	if (now >= r->rest_due) {
		rest(now);
		return;
	}
	if (now < r->probe_due)
		return;
	r->probe_due = KTIME_MAX;
	if (sq->rnr_wait || sq->psn_nxt == sq->psn_una || gaps_release(now))
		return;
	r->probes++;
	seen[SEEN_PROBE]++;
	/* one that a NAK has asked for may have been lost again: it still wants an answer */
	again = r->out && sq->psn_una == r->psn;
	told = again && r->told;
	/* some of what was asked for has come, and the rest of that has not */
	part = r->out && r->lacks && !again && wire_psn_diff(r->end, sq->psn_una) > 0;
	blind = !part && (!again || r->blind);
	r->out = again;
	repair(told, blind);
}

static void repair_arm(ktime_t now)
{
	struct repair *r = &sq->repair;

	/* plain: it has the timer alone */
	if (w.plan.plain_requester)
		return;
	if (r->probe_due == KTIME_MAX && r->probes < PROBES_MAX)
		r->probe_due = min(now + probe_wait(r, probe_ns(now)), gaps_due(now));
	gaps_await();
}

/* retry.c */

#define BACKOFF_NS	(500 * NSEC_PER_USEC)

/* in units of 10 us: IBTA Vol.1 table 45 */
static const u32 rnr_timer[32] = {
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
	1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

static ktime_t ack_deadline(ktime_t now)
{
	const u32 in_a_row = max((u32)w.plan.retry_cnt - sq->retry_left, (u32)sq->timeouts);
	const u64 rtt = 3 * sq->srtt + max(4 * sq->rttvar, sq->srtt / 2);
	const u64 timeout = 4096ULL << w.plan.timeout;

	return now + min(max(timeout << min(in_a_row, 2U), rtt), timeout << 2);
}

static ktime_t next_due(void)
{
	ktime_t next = min(min(sq->deadline, sq->backoff), sq->nak_due);

	return min(min(next, sq->repair.probe_due), sq->repair.rest_due);
}

void retry_timer(void)
{
	sq->timer = KTIME_MAX;
	if (next_due() == KTIME_MAX)
		return;
	sq->timer_bit = true;
	send_run();
}

void retry_go_back(ktime_t now, u8 syndrome, bool counts)
{
	sq->nak_due = KTIME_MAX;
	repair_forget();
	gaps_reset();
	if (counts && !sq->retry_left) {
		if (sq->una != sq->fetched)
			send_fail(WC_RETRY_EXC_ERR, syndrome);
		return;
	}
	sq->retry_left -= counts;
	sq->went_back = now;
	order_again((u32)wire_psn_diff(sq->psn_nxt, sq->psn_una), true);
	seen[SEEN_GO_BACK]++;
	repair_vain();
	trace("go back psn=%u counts=%d left=%u", sq->psn_una, counts, sq->retry_left);
	send_seek(sq->psn_una);
}

void retry_nak(u8 syndrome)
{
	const ktime_t now = ktime_get();
	ktime_t due;

	due = sq->went_back + (s64)sq->srtt;
	if (now < due)
		sq->nak_due = due;
	else
		retry_go_back(now, syndrome, true);
}

static void retry_time(u32 psn)
{
	if (sq->rtt_start)
		return;
	sq->rtt_psn = psn;
	sq->rtt_start = ktime_get();
	sq->rtt_held = sq->repair.due || sq->repair.out || sq->sweep.arrived;
}

static void retry_smooth(u64 *mean, u64 *off, u64 ns)
{
	u64 now_off;

	if (!*mean) {
		*mean = max(ns, (u64)1);
		*off = ns / 2;
		return;
	}
	now_off = ns > *mean ? ns - *mean : *mean - ns;
	*off += now_off / 4 - *off / 4;
	*mean += ns / 8 - *mean / 8;
}

void retry_arrived(void)
{
	const u64 ns = (u64)(ktime_get() - sq->rtt_start);

	sq->rtt_start = 0;
	sq->timeouts = 0;
	sq->repair.backed_off = 0;
	order_judge();
	retry_smooth(&sq->srtt, &sq->rttvar, ns);
	sq->rtt_least = sq->rtt_least ? min(sq->rtt_least, ns) : ns;
}

void retry_acked(void)
{
	/* what was missing has come */
	sq->nak_due = KTIME_MAX;
	if (!sq->rtt_start || wire_psn_diff(sq->psn_una, sq->rtt_psn) <= 0)
		return;
	/* too long is better than none at all, which would have all taken for lost */
	if (sq->rtt_held && sq->srtt && sq->timeouts < 2)
		sq->rtt_start = 0;
	else
		retry_arrived();
}

static void timeout(ktime_t now)
{
	sq->timeouts = min(sq->timeouts + 1, 255);
	gaps_reset();
	if (!sq->retry_left || sq->psn_nxt == sq->psn_una || w.plan.plain_requester) {
		retry_go_back(now, 0, true);
		return;
	}
	sq->retry_left--;
	repair_oldest();
}

/*
 * The timer has come so late that the probe before the deadline is still to be sent: this
 * host was stopped, and answers may be waiting in it. The probe gets the time that it had.
 */
static void late_deadline(ktime_t now)
{
	const ktime_t probe = sq->repair.probe_due;

	if (now >= sq->deadline && probe < sq->deadline) {
		seen[SEEN_STOPPED]++;
		sq->deadline = now + sq->deadline - probe;
	}
}

static void retry_run(void)
{
	ktime_t now;

	if (!sq->timer_bit)
		return;
	sq->timer_bit = false;
	now = ktime_get();
	if (now >= sq->backoff)
		sq->backoff = KTIME_MAX;
	if (sq->err)
		return;
	late_deadline(now);
	if (now >= sq->deadline) {
		sq->deadline = KTIME_MAX;
		if (sq->rnr_wait) {
			sq->rnr_wait = false;
			return;
		}
		seen[SEEN_TIMEOUT]++;
		trace("timeout psn=%u left=%u", sq->psn_una, sq->retry_left);
		timeout(now);
	} else if (now >= sq->nak_due) {
		retry_go_back(now, 0, false);
	} else {
		repair_run(now);
	}
}

void retry_progress(void)
{
	sq->retry_left = (u8)w.plan.retry_cnt;
	sq->rnr_left = (u8)w.plan.rnr_retry;
	sq->rnr_wait = false;
	sq->rnr_probe = false;
	sq->deadline = KTIME_MAX;
}

void retry_rnr(u8 code)
{
	repair_forget();
	gaps_reset();
	sq->rnr_wait = true;
	sq->rnr_probe = true;
	sq->deadline = ktime_get() + max(rnr_timer[code] * 10LL * NSEC_PER_USEC, (s64)sq->srtt);
}

static void retry_backoff(void)
{
	sq->backoff = ktime_get() + BACKOFF_NS;
}

static void set_deadlines(void)
{
	const bool out = sq->psn_una != sq->psn_end;
	ktime_t now;

	if (sq->rnr_wait)
		return;
	if (!out) {
		sq->deadline = KTIME_MAX;
		sq->repair.probe_due = KTIME_MAX;
		return;
	}
	if (sq->deadline != KTIME_MAX && sq->repair.probe_due != KTIME_MAX)
		return;
	now = ktime_get();
	if (sq->deadline == KTIME_MAX)
		sq->deadline = ack_deadline(now);
	repair_arm(now);
}

static void retry_arm(void)
{
	ktime_t next;

	if (sq->err)
		return;
	set_deadlines();
	next = next_due();
	if (next == KTIME_MAX)
		return;
	if (sq->timer == KTIME_MAX || next < sq->timer) {
		sq->timer = next;
		if (chance(w.plan.stop))
			next += rnd_below(40 * NSEC_PER_MSEC);
		event_at(next, EV_TIMER, ++sq->timer_gen, NULL);
	}
}

static void retry_reset(void)
{
	retry_progress();
	sq->backoff = KTIME_MAX;
	sq->nak_due = KTIME_MAX;
	sq->timer = KTIME_MAX;
	repair_reset();
	gaps_reset();
}

/* send.c */

#define ASK_FRACTION	4

struct send_turn {
	struct burst burst;
	u32 start;
	u32 end;
	u32 budget;
	bool alone;
	u32 ask_psn;
	u32 read_len;
	u32 lacks;
	bool request;
	u32 swept;
	bool owes;
	bool again;
};

enum send_result {
	SENT,
	SEND_STOP,
	SEND_BACK,
};

const struct send_op send_ops[NUM_OPCODES] = {
	[OP_SEND] = { WIRE_SEND_FIRST, WIRE_SEND_MIDDLE, WIRE_SEND_LAST, WIRE_SEND_ONLY,
		      SEND_STREAM },
	[OP_SEND_IMM] = { WIRE_SEND_FIRST, WIRE_SEND_MIDDLE, WIRE_SEND_LAST_IMM,
			  WIRE_SEND_ONLY_IMM, SEND_STREAM },
	[OP_WRITE] = { WIRE_WRITE_FIRST, WIRE_WRITE_MIDDLE, WIRE_WRITE_LAST, WIRE_WRITE_ONLY,
		       SEND_STREAM },
	[OP_WRITE_IMM] = { WIRE_WRITE_FIRST, WIRE_WRITE_MIDDLE, WIRE_WRITE_LAST_IMM,
			   WIRE_WRITE_ONLY_IMM, SEND_STREAM },
	[OP_READ] = { 0, 0, 0, WIRE_READ_REQUEST, SEND_READ },
	[OP_FETCH_ADD] = { 0, 0, 0, WIRE_FETCH_ADD, SEND_ATOMIC },
	[OP_CMP_SWAP] = { 0, 0, 0, WIRE_CMP_SWAP, SEND_ATOMIC },
};

static const struct send_op *swqe_op(u32 i)
{
	return &send_ops[w.msg[i].opcode];
}

/* The ring's requests are used where they are. */
static bool sq_fetch(void)
{
	struct msg *swqe = &w.msg[sq->fetched];

	if (sq->fetched == sq->posted)
		return false;
	swqe->num_pkts = 1;
	swqe->part = PART_ALL;
	if (send_ops[swqe->opcode].kind != SEND_ATOMIC)
		swqe->num_pkts = max(DIV_ROUND_UP(swqe->length, MTU), 1U);
	sq->fetched++;
	return true;
}

static u8 pick_operation(const struct send_op *op, bool first, bool last)
{
	if (first)
		return last ? op->only : op->first;
	return last ? op->last : op->middle;
}

/* request.c: PSNs that leave with the oldest packet, if it is sent again */
u32 send_whole(void)
{
	const struct msg *swqe = &w.msg[sq->una];

	if (sq->una == sq->fetched || !swqe->sent || !takes_resource(swqe_op(sq->una)))
		return 1;
	return part_left(swqe, (u32)wire_psn_diff(sq->psn_una, swqe->first_psn));
}

/* Packets of a request that was sent, before @psn: of a response, those that ask for it. */
static u32 pkts_before(u32 i, u32 psn)
{
	const struct msg *swqe = &w.msg[i];
	const s32 k = wire_psn_diff(psn, swqe->first_psn);

	if (takes_resource(swqe_op(i)))
		return parts_before(swqe, psn);
	return k > 0 ? min((u32)k, swqe->num_pkts) : 0;
}

void send_seek(u32 psn)
{
	const struct msg *swqe;

	sq->psn_nxt = psn;
	sq->sge_off = 0;
	sq->rtt_held = true;
	sq->flight = 0;
	for (sq->nxt = sq->una; sq->nxt != sq->fetched; sq->nxt++) {
		swqe = &w.msg[sq->nxt];
		if (!swqe->sent)
			break;
		sq->flight += pkts_before(sq->nxt, psn);
		if (wire_psn_diff(psn, swqe->first_psn) < (s32)swqe->num_pkts)
			break;
	}
	/* what was acknowledged of the oldest is not in flight */
	if (sq->flight)
		sq->flight -= min(sq->flight, pkts_before(sq->una, sq->psn_una));
	swqe = &w.msg[sq->nxt];
	if (sq->nxt != sq->fetched && swqe->sent && swqe_op(sq->nxt)->kind == SEND_STREAM)
		sq->sge_off = (u32)wire_psn_diff(psn, swqe->first_psn) * MTU;
}

/* The stack has taken the burst: that much has been sent, or lost on its way. */
static void send_taken(struct send_turn *turn)
{
	if (wire_psn_diff(turn->end, sq->psn_left) > 0)
		sq->psn_left = turn->end;
	if (turn->swept)
		order_again(turn->swept, turn->request);
	turn->swept = 0;
}

/* It would not have it: none of it was sent, or is timed. What left before it still is. */
static void send_refused(struct send_turn *turn)
{
	const bool held = sq->rtt_held;

	turn->swept = 0;
	send_seek(turn->start);
	sq->rtt_held = held;
	if (wire_psn_diff(sq->rtt_psn, sq->psn_left) >= 0)
		sq->rtt_start = 0;
}

static enum send_result send_flush(struct send_turn *turn)
{
	if (!turn->burst.num)
		return SENT;
	if (burst_send(&turn->burst, true)) {
		send_refused(turn);
		return SEND_BACK;
	}
	send_taken(turn);
	return SENT;
}

static void put_headers(const struct send_turn *turn, u16 flags, u32 off, u8 *p)
{
	const struct msg *wqe = &w.msg[sq->nxt];
	const bool swap = wqe->opcode == OP_CMP_SWAP;

	if (flags & WIRE_RETH) {
		u32 len = wqe->length - off;

		if (wqe->opcode == OP_READ)
			len = turn->read_len ?: min(len, part_left(wqe, off / MTU) * MTU);
		wire_put64(p, wqe->remote_addr + off);
		wire_put32(p + 8, wqe->rkey);
		wire_put32(p + 12, len);
		p += WIRE_RETH_LEN;
	}
	if (flags & WIRE_ATOMICETH) {
		wire_put64(p, wqe->remote_addr);
		wire_put32(p + 8, wqe->rkey);
		wire_put64(p + 12, wqe->swap_add);
		wire_put64(p + 20, swap ? wqe->compare : 0);
		p += WIRE_ATOMICETH_LEN;
	}
	if (flags & WIRE_IMM)
		wire_put32(p, wqe->imm);
}

static void send_sent(struct send_turn *turn, u32 psns, bool ask, bool last)
{
	struct msg *swqe = &w.msg[sq->nxt];

	if (!swqe->sent) {
		swqe->sent = true;
		swqe->first_psn = sq->psn_nxt;
	}
	if (takes_resource(swqe_op(sq->nxt)))
		sq->num_rd += wire_psn_diff(sq->psn_nxt, sq->psn_end) >= 0;
	note_sent(sq->psn_nxt, psns);
	sq->flight++;
	sq->unasked = ask ? 0 : sq->unasked + 1;
	turn->owes = !ask && (turn->owes || (last && !turn->alone));
	turn->again = wire_psn_diff(sq->psn_nxt, sq->psn_left) < 0;
	if (turn->again) {
		/* which of two sendings was acknowledged nobody knows (Karn) */
		if (sq->psn_nxt == sq->rtt_psn)
			sq->rtt_start = 0;
	} else if (ask) {
		retry_time(sq->psn_nxt);
	}
	sq->psn_nxt = wire_psn_add(sq->psn_nxt, psns);
	turn->end = sq->psn_nxt;
	if (wire_psn_diff(sq->psn_nxt, sq->psn_end) > 0)
		sq->psn_end = sq->psn_nxt;
	if (last) {
		sq->nxt++;
		sq->sge_off = 0;
	}
}

/* May one more packet be under way? */
static bool flight_open(void)
{
	if (sq->rnr_probe)
		return !sq->flight;
	return sq->flight - min(sq->flight, sq->sweep.arrived) < w.plan.window &&
	       sq->flight < 4 * w.plan.window;
}

static bool ask_now(void)
{
	return sq->rnr_probe || (sq->unasked + 1) * ASK_FRACTION >= w.plan.window;
}

static bool more_follows(const struct send_turn *turn)
{
	if (!turn->budget || swqe_op(sq->nxt)->kind != SEND_STREAM)
		return false;
	return sq->nxt + 1 != sq->fetched || sq->posted != sq->fetched;
}

static void ask_late(struct send_turn *turn)
{
	if (!turn->owes || !turn->burst.num)
		return;
	turn->burst.pkt[turn->burst.num - 1]->data[WIRE_BTH_ACKREQ] |= WIRE_BTH_A;
	turn->owes = false;
	sq->unasked = 0;
	if (!turn->again)
		retry_time(wire_psn_add(sq->psn_nxt, -1));
}

static enum send_result send_packet(struct send_turn *turn)
{
	const struct msg *swqe = &w.msg[sq->nxt];
	const struct send_op *op = swqe_op(sq->nxt);
	const bool stream = op->kind == SEND_STREAM;
	u32 k = swqe->sent ? (u32)wire_psn_diff(sq->psn_nxt, swqe->first_psn) : 0;
	u32 psns = stream ? 1 : part_left(swqe, k);
	bool last = k + psns == swqe->num_pkts;
	u8 opcode = stream ? pick_operation(op, !k, last) : op->only;
	const struct wire_opcode *row = &wire_opcodes[opcode];
	u32 off = k * MTU;
	u32 payload = row->flags & WIRE_PAYLOAD ? min(swqe->length - off, MTU) : 0;
	u32 pad = -payload & 3;
	u32 len = row->hdr_len + payload + pad + WIRE_ICRC_LEN;
	bool ask = turn->alone ? wire_psn_diff(turn->ask_psn, sq->psn_nxt) < (s32)psns :
				 !stream || (last && !more_follows(turn)) || ask_now();
	enum send_result res;
	u8 *p;

	if (!burst_fits(&turn->burst)) {
		res = send_flush(turn);
		if (res != SENT)
			return res;
	}
	if (!turn->burst.num)
		turn->start = sq->psn_nxt;
	/* or its page is not there */
	if (chance(w.plan.no_memory)) {
		seen[SEEN_NO_MEMORY]++;
		retry_backoff();
		return SEND_STOP;
	}
	p = burst_reserve(&turn->burst, len);
	wire_bth_put(p, opcode, 0, (u8)pad, PKEY, RESPONDER_QPN, ask, sq->psn_nxt);
	put_headers(turn, row->flags, off, p + WIRE_BTH_LEN);
	if (turn->read_len)
		check_part(sq->psn_nxt, turn->read_len, turn->lacks);
	p += row->hdr_len;
	if (stream && payload) {
		memcpy(p, swqe->buf + sq->sge_off, payload);
		sq->sge_off += payload;
	}
	memset(p + payload, 0, pad);
	send_sent(turn, psns, ask, last);
	return SENT;
}

static bool read_window_open(void)
{
	const struct msg *swqe = &w.msg[sq->nxt];
	const u32 begun = (u32)wire_psn_diff(sq->psn_nxt, sq->psn_una);
	const u32 k = swqe->sent ? (u32)wire_psn_diff(sq->psn_nxt, swqe->first_psn) : 0;

	if (swqe->part != PART_ALL)
		return begun + part_left(swqe, k) <= w.plan.window + sq->kept.num;
	return begun < 2 * w.plan.window + sq->kept.num;
}

/* As the schedule likes, where send.c goes by the window; but packet @k is to begin one. */
static u8 read_part(u32 k)
{
	const u32 part = chance(w.plan.parted) ? rnd_below(4) : PART_ALL;

	return (u8)(k ? min(part, (u32)__builtin_ctz(k)) : part);
}

/* The next request of a READ: it may wait for those under way, to ask for more. */
static bool part_ready(void)
{
	struct msg *swqe = &w.msg[sq->nxt];
	const u32 k = swqe->sent ? (u32)wire_psn_diff(sq->psn_nxt, swqe->first_psn) : 0;

	if (swqe->sent && swqe->part == PART_ALL)
		return true;
	if (swqe->sent && sq->psn_nxt != sq->psn_una)
		return read_part(k) < swqe->part + 2;
	swqe->part = read_part(k);
	return true;
}

static bool resource_open(void)
{
	const bool again = wire_psn_diff(sq->psn_nxt, sq->psn_end) < 0;

	if (!again && swqe_op(sq->nxt)->kind == SEND_READ && !part_ready())
		return false;
	if (!again && sq->num_rd >= w.plan.max_rd)
		return false;
	return !sq->num_rd || sq->psn_nxt == sq->psn_una || read_window_open();
}

static bool may_begin(void)
{
	if (w.msg[sq->nxt].fence && sq->num_rd)
		return false;
	return !takes_resource(swqe_op(sq->nxt)) || resource_open();
}

static bool send_ready(void)
{
	if (sq->nxt == sq->fetched && !sq_fetch())
		return false;
	if (!w.msg[sq->nxt].sent)
		return may_begin();
	return !takes_resource(swqe_op(sq->nxt)) || resource_open();
}

/* Probes in a row that ask for part of what is left of a response */
#define ASKS_MAX	2

/*
 * Of a READ's request, what is missing before the first response that is kept, but not more than a
 * window; all that is left of it where asking for that has not helped. One of which nothing has
 * come goes as it was. Return: the PSN behind it.
 */
static u32 ask_for_gap(struct send_turn *turn)
{
	const struct msg *swqe = &w.msg[sq->nxt];
	const struct late *kept = kept_first(&sq->kept);
	const u32 end = part_end(swqe, sq->psn_nxt);
	const u32 rest = (u32)wire_psn_diff(end, sq->psn_nxt);
	const bool guess = sq->repair.blind || sq->repair.probes;
	bool known = sq->psn_nxt != part_start(swqe, sq->psn_nxt);
	u32 num = rest;

	turn->read_len = 0;
	if (swqe_op(sq->nxt)->kind != SEND_READ)
		return end;
	/* an acknowledgement that is kept may name this very packet: no gap ends there */
	if (kept && wire_psn_diff(kept->rx.pkt.psn, end) < 0 &&
	    wire_psn_diff(kept->rx.pkt.psn, sq->psn_nxt) > 0) {
		num = (u32)wire_psn_diff(kept->rx.pkt.psn, sq->psn_nxt);
		known = true;
	}
	if (sq->repair.probes > ASKS_MAX)
		num = rest;
	turn->lacks = known ? num : 0;
	if (known && sq->repair.probes <= ASKS_MAX)
		num = min(num, guess ? w.plan.ask : w.plan.window);
	if (num < rest)
		turn->read_len = num * MTU;
	return wire_psn_add(sq->psn_nxt, num);
}

static enum send_result send_alone(struct send_turn *turn, u32 limit, u32 *end)
{
	enum send_result res = SENT;
	u32 left = sq->repair.num;
	bool stream;

	turn->alone = true;
	turn->lacks = 0;
	turn->ask_psn = wire_psn_add(sq->psn_nxt, left - 1);
	if (wire_psn_diff(turn->ask_psn, limit) >= 0)
		turn->ask_psn = wire_psn_add(limit, -1U);
	*end = sq->psn_nxt;
	while (left-- && res == SENT && wire_psn_diff(sq->psn_nxt, limit) < 0) {
		stream = swqe_op(sq->nxt)->kind == SEND_STREAM;
		/* a request that is answered with data goes alone indeed */
		if (!stream && *end != sq->repair.psn)
			break;
		if (!stream) {
			left = 0;
			limit = ask_for_gap(turn);
		}
		res = send_packet(turn);
		if (res == SENT)
			*end = stream ? sq->psn_nxt : limit;
	}
	/* there were fewer that follow each other: the last of them asks */
	if (*end == sq->psn_nxt && *end != sq->repair.psn && turn->burst.num &&
	    wire_psn_diff(*end, turn->ask_psn) <= 0)
		turn->burst.pkt[turn->burst.num - 1]->data[WIRE_BTH_ACKREQ] |= WIRE_BTH_A;
	turn->alone = false;
	turn->read_len = 0;
	return res;
}

/* Where the requester is, while it sends something again. */
struct send_place {
	u32 nxt;
	u32 psn_nxt;
	u32 sge_off;
	u32 flight;
	u32 unasked;
};

static struct send_place place_save(void)
{
	return (struct send_place) {
		.nxt = sq->nxt,
		.psn_nxt = sq->psn_nxt,
		.sge_off = sq->sge_off,
		.flight = sq->flight,
		.unasked = sq->unasked,
	};
}

static void place_restore(const struct send_place *place)
{
	sq->nxt = place->nxt;
	sq->psn_nxt = place->psn_nxt;
	sq->sge_off = place->sge_off;
	sq->flight = place->flight;
	sq->unasked = place->unasked;
}

static enum send_result repair_one(struct send_turn *turn)
{
	const struct send_place place = place_save();
	enum send_result res, flushed;
	u32 end;

	send_seek(sq->repair.psn);
	res = send_alone(turn, place.psn_nxt, &end);
	flushed = send_flush(turn);
	place_restore(&place);
	/* refused, or not even written: it is still to be sent */
	if (flushed != SENT)
		return flushed;
	if (res == SEND_BACK || end == sq->repair.psn)
		return res;
	sq->repair.due = false;
	repair_sent(end, turn->lacks);
	return res;
}

/* Of a READ, what is missing of its response; of others, the packet at psn_nxt. */
static enum send_result send_missing(struct send_turn *turn, u32 end)
{
	const struct msg *swqe = &w.msg[sq->nxt];
	const u32 psn = sq->psn_nxt;
	enum send_result res;
	s32 num;

	if (sq->sweep.implied && swqe_op(sq->nxt)->kind == SEND_READ &&
	    wire_psn_diff(end, part_end(swqe, psn)) < 0)
		turn->read_len = (u32)wire_psn_diff(end, psn) * MTU;
	seen[SEEN_SWEPT]++;
	turn->lacks = 0;
	res = send_packet(turn);
	/* so much may come twice; of a READ request, all of its response */
	num = turn->read_len ? wire_psn_diff(end, psn) : wire_psn_diff(sq->psn_nxt, psn);
	if (res == SENT) {
		turn->swept += (u32)num;
		note_swept(psn, (u32)num);
	}
	turn->read_len = 0;
	return res;
}

/*
 * One gap, from psn_nxt to @end. Where responses tell of it, requests that have
 * none have arrived.
 */
static enum send_result send_gap(struct send_turn *turn, u32 end)
{
	enum send_result res = SENT;

	while (res == SENT && turn->budget && wire_psn_diff(sq->psn_nxt, end) < 0 &&
	       sq->nxt != sq->fetched && w.msg[sq->nxt].sent) {
		const struct msg *swqe = &w.msg[sq->nxt];

		turn->budget--;
		/* a READ request that has not arrived goes as a whole */
		if (!sq->sweep.implied && takes_resource(swqe_op(sq->nxt)) &&
		    sq->psn_nxt != part_start(swqe, sq->psn_nxt))
			send_seek(part_start(swqe, sq->psn_nxt));
		if (sq->sweep.implied && !send_awaits(sq->nxt)) {
			note_swept(swqe->first_psn, swqe->num_pkts);
			send_seek(wire_psn_add(swqe->first_psn, swqe->num_pkts));
		} else {
			res = send_missing(turn, end);
		}
	}
	return res;
}

/* Is it still missing, and has it been sent at all? */
static bool gap_open(const struct gap *gap, u32 psn_nxt)
{
	const u32 end = wire_psn_add(gap->psn, gap->num);

	return wire_psn_diff(end, sq->psn_una) > 0 && wire_psn_diff(end, psn_nxt) <= 0;
}

/* As much of a gap as a turn takes: up to psn_nxt, if that leaves. */
static enum send_result sweep_gap(struct send_turn *turn, const struct gap *gap)
{
	const u32 end = wire_psn_add(gap->psn, gap->num);

	send_seek(wire_psn_diff(gap->psn, sq->psn_una) < 0 ? sq->psn_una : gap->psn);
	turn->ask_psn = wire_psn_add(end, -1U);
	return send_gap(turn, end);
}

/*
 * A gap has been swept, and all before psn_nxt has left: what has not is still due, whatever it
 * was that stopped it.
 */
static void swept_gap(struct gap *gap, ktime_t now)
{
	const u32 end = wire_psn_add(gap->psn, gap->num);

	if (wire_psn_diff(sq->psn_nxt, end) >= 0) {
		check_swept(wire_psn_diff(gap->psn, sq->psn_una) < 0 ? sq->psn_una : gap->psn, end);
		gaps_sent(gap, now);
	} else if (wire_psn_diff(sq->psn_nxt, gap->psn) > 0) {
		gap->num = (u16)wire_psn_diff(end, sq->psn_nxt);
		gap->psn = sq->psn_nxt;
	}
}

/* A request that is missing, as a whole: it has not been answered. */
static enum send_result sweep_request(struct send_turn *turn, u32 psn_nxt)
{
	struct sweep *sweep = &sq->sweep;
	const bool implied = sweep->implied;
	enum send_result res;

	sweep->request.due &= gap_open(&sweep->request, psn_nxt);
	if (!sweep->request.due)
		return SENT;
	seen[SEEN_REQUEST_AGAIN]++;
	trace("request psn=%u again", sweep->request.psn);
	sweep->implied = false;
	turn->request = true;
	res = sweep_gap(turn, &sweep->request);
	/* by itself: it is behind the gaps */
	if (send_flush(turn) != SENT)
		res = SEND_BACK;
	swept_gap(&sweep->request, ktime_get());
	turn->request = false;
	sweep->implied = implied;
	return res;
}

/* All that is due, by PSN, as far as a turn takes it. Return: how many gaps were looked at. */
static u32 sweep_gaps(struct send_turn *turn, u32 psn_nxt, enum send_result *res)
{
	u32 i;

	for (i = 0; i < sq->sweep.num && *res == SENT && turn->budget; i++) {
		const struct gap *gap = &sq->sweep.gap[i];

		if (!gap->due || !gap_open(gap, psn_nxt))
			continue;
		*res = sweep_gap(turn, gap);
		if (wire_psn_diff(sq->psn_nxt, wire_psn_add(gap->psn, gap->num)) < 0) {
			i++;
			break;
		}
	}
	/* psn_nxt goes back to what has not left */
	if (send_flush(turn) != SENT)
		*res = SEND_BACK;
	return i;
}

/* What is known to be missing, as much as a turn takes; the rest in the next. */
static enum send_result send_gaps(struct send_turn *turn)
{
	struct sweep *sweep = &sq->sweep;
	const struct send_place place = place_save();
	enum send_result res;
	u32 looked, i;
	ktime_t now;

	turn->alone = true;
	w.sweeps++;
	res = sweep_request(turn, place.psn_nxt);
	looked = sweep_gaps(turn, place.psn_nxt, &res);
	now = ktime_get();
	turn->alone = false;
	sweep->due = sweep->request.due;
	for (i = 0; i < sweep->num; i++) {
		struct gap *gap = &sweep->gap[i];

		if (!gap->due || !gap_open(gap, place.psn_nxt))
			continue;
		/* behind a part of a READ, psn_nxt is behind all of it */
		if (i < looked)
			swept_gap(gap, now);
		sweep->due |= gap->due;
	}
	place_restore(&place);
	repair_swept();
	return res;
}

static enum send_result send_repair(struct send_turn *turn)
{
	struct repair *r = &sq->repair;
	const u32 psn = sq->psn_nxt;
	enum send_result res = SENT;

	if (r->due && (r->psn != sq->psn_una || psn == sq->psn_una))
		repair_forget();
	if (r->due)
		res = repair_one(turn);
	if (res == SENT && sq->sweep.due)
		res = send_gaps(turn);
	return res == SENT && r->hold ? SEND_STOP : res;
}

static void send_packets(struct send_turn *turn)
{
	enum send_result res = SENT;

	if (sq->rnr_wait || sq->backoff != KTIME_MAX)
		return;
	if (sq->repair.due || sq->repair.hold || sq->sweep.due)
		res = send_repair(turn);
	while (turn->budget && res == SENT && flight_open() && send_ready()) {
		turn->budget--;
		res = send_packet(turn);
	}
	ask_late(turn);
	if (res != SEND_BACK)
		res = send_flush(turn);
	if (res == SEND_BACK)
		retry_backoff();
	else if (turn->owes && sq->backoff == KTIME_MAX)
		failed("a message has ended, and nothing behind it asks");
}

static void send_flush_all(void)
{
	kept_purge(&sq->kept);
	while (sq->una != sq->fetched || sq_fetch())
		send_complete(WC_WR_FLUSH_ERR);
	sq->nxt = sq->una;
}

/* Return: there is more. */
static bool send_turn(void)
{
	struct send_turn turn = { .budget = w.plan.budget };

	ack_run();
	retry_run();
	if (!sq->err)
		send_packets(&turn);
	ack_run();
	if (sq->err)
		send_flush_all();
	retry_arm();
	return !turn.budget;
}

void send_run(void)
{
	while (send_turn())
		;
	gaps_audit();
}

void requester_reset(u32 psn)
{
	memset(sq, 0, sizeof(*sq));
	sq->psn_una = psn;
	sq->psn_nxt = psn;
	sq->psn_end = psn;
	sq->psn_left = psn;
	sq->kept.max_pkts = w.plan.kept_pkts[0];
	sq->kept.max_bytes = w.plan.kept_bytes[0];
	retry_reset();
}
