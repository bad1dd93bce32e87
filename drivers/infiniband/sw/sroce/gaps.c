// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What the requester does where it knows of several packets that are missing:
 * from its peer's report (wire/gaps.h), or by the responses behind those that
 * have not come. It sends each of them once, and those that still are missing
 * when an answer is overdue once more. The oldest is repair.c's as well, and the
 * timers are: a report that is lost costs time and nothing else.
 *
 * Of a network that reorders it learns that what it sent again had not been lost, and
 * how long to wait before that.
 */
#include "sroce.h"
#include "trace.h"
#include "wire/recovery.h"

/**
 * sroce_gaps_reset - nothing is known of what the peer has
 * @qp: queue pair; the caller owns its send side
 */
void sroce_gaps_reset(struct sroce_qp *qp)
{
	struct sroce_sweep *sweep = &qp->sq.sweep;

	sweep->due = false;
	sweep->num = 0;
	sweep->arrived = 0;
	sweep->spare = 0;
	sweep->end = qp->sq.psn_una;
	sweep->newest = qp->sq.psn_una;
	sweep->came_sent = 0;
	sweep->request.num = 0;
	sweep->request.due = false;
}

/**
 * sroce_gaps_arrived - everything received so far, by the peer or from it, has a PSN before @psn
 * @sq: send side, the caller's
 * @psn: that, as far as is known
 */
void sroce_gaps_arrived(struct sroce_sq *sq, u32 psn)
{
	if (wire_psn_diff(psn, sq->sweep.newest) > 0)
		sq->sweep.newest = psn;
}

/**
 * sroce_gaps_moved - @psn_una has moved
 * @qp: queue pair; the caller owns its send side
 * @num: by so many packets, of which most had arrived before
 *
 * Of a READ they are its response's: with each request that is answered its spare ones go (ack.c).
 */
void sroce_gaps_moved(struct sroce_qp *qp, u32 num)
{
	struct sroce_sweep *sweep = &qp->sq.sweep;
	struct sroce_cwnd *cwnd = &qp->sq.cwnd;
	const u32 una = qp->sq.psn_una;

	sweep->arrived -= min(sweep->arrived, num);
	/* left behind, they would be ahead again half of all PSNs later */
	if (wire_psn_diff(sweep->newest, una) < 0)
		sweep->newest = una;
	if (wire_psn_diff(sweep->end, una) < 0)
		sweep->end = una;
	if (wire_psn_diff(cwnd->recover, una) < 0)
		cwnd->recover = una;
	/* and so would gaps */
	if (sweep->num && wire_psn_diff(gap_end(&sweep->gap[sweep->num - 1]), una) <= 0)
		sweep->num = 0;
}

static bool gap_has(const struct sroce_gap *gap, u32 psn)
{
	const s32 off = wire_psn_diff(psn, gap->psn);

	return off >= 0 && off < gap->num;
}

static const struct sroce_gap *find_gap(const struct sroce_sweep *sweep, u32 psn)
{
	u32 i;

	for (i = 0; i < sweep->num; i++)
		if (gap_has(&sweep->gap[i], psn))
			return &sweep->gap[i];
	return NULL;
}

/* For PSNs that ascend: from @at on, which is moved behind those that end before this one. */
static const struct sroce_gap *next_gap(const struct sroce_sweep *sweep, u32 *at, u32 psn)
{
	while (*at < sweep->num && wire_psn_diff(gap_end(&sweep->gap[*at]), psn) <= 0)
		++*at;
	return *at < sweep->num && gap_has(&sweep->gap[*at], psn) ? &sweep->gap[*at] : NULL;
}

/* Packets that were sent again, of which so many that came twice tell something */
#define ORDER_SAMPLE	32

/**
 * sroce_order_reset - as in a new queue pair: the network keeps the order
 * @sq: send side, the caller's
 */
void sroce_order_reset(struct sroce_sq *sq)
{
	sq->order = (struct sroce_order) {};
}

/*
 * Above ORDER_MAX_NS, a round trip (as RFC 8985, section 6.2). The timer is to find time for what
 * is sent after that.
 */
static u32 most_wait(const struct sroce_sq *sq)
{
	const u64 timeout = qp_ack_timeout_ns(container_of(sq, struct sroce_qp, sq));
	const u64 most = clamp_t(u64, sq->srtt, ORDER_MAX_NS, ORDER_FAR_NS);

	return timeout ? min(timeout / 4, most) : most;
}

static void wait_more(struct sroce_sq *sq)
{
	struct sroce_order *o = &sq->order;

	o->few = 0;
	o->wait = min_t(u64, max3(2ULL * o->wait, (u64)ORDER_MIN_NS, sq->srtt / ORDER_RTT_PART),
			most_wait(sq));
	o->until = ktime_add_ns(ktime_get(), ORDER_AGE_NS);
}

static void wait_less(struct sroce_order *o)
{
	o->few = 0;
	o->wait = o->wait > ORDER_MIN_NS ? o->wait / 2 : 0;
}

/* Nor is it longer than it may be: a round trip may have become shorter, or the timeout. */
static void age(struct sroce_sq *sq, ktime_t now)
{
	struct sroce_order *o = &sq->order;

	if (o->wait > ORDER_MAX_NS)
		o->wait = min(o->wait, most_wait(sq));
	while (o->wait && !ktime_before(now, o->until)) {
		wait_less(o);
		o->until = ktime_add_ns(o->until, ORDER_AGE_NS);
	}
}

/**
 * sroce_order_judge - has what was sent again some time ago come twice?
 * @sq: send side, the caller's
 *
 * Where most of what others had overtaken did, it had only been late: next time it
 * has twice as long, and no window was too large for it. Where few did, for long enough, it has
 * half of that; or much more, as then it is the network that doubles packets.
 */
void sroce_order_judge(struct sroce_sq *sq)
{
	struct sroce_order *o = &sq->order;
	const u64 heard = ORDER_RTTS * (sq->srtt ?: PROBE_FIRST_NS);
	u32 probes, twice;
	bool late;

	if (likely(o->again < ORDER_SAMPLE) ||
	    ktime_before(ktime_get(), ktime_add_ns(o->since, heard)))
		return;
	probes = min(o->twice, o->probed);
	twice = o->twice - probes;
	late = twice > o->again / 2 && twice <= 2 * o->again;
	sroce_cwnd_judged(container_of(sq, struct sroce_qp, sq), late);
	if (late)
		wait_more(sq);
	else if (twice > o->again / 8 && twice <= 2 * o->again)
		o->few = 0;
	else if (++o->few == ORDER_FEW)
		wait_less(o);
	o->again = 0;
	/* they may be on their way, or did not come twice at all */
	o->probed = (o->probed - probes) / 2;
	o->twice = 0;
}

/**
 * sroce_order_again - packets have been sent again
 * @sq: send side, the caller's
 * @num: packets
 * @probe: not as others had come before them: the peer may have had them
 */
void sroce_order_again(struct sroce_sq *sq, u32 num, bool probe)
{
	struct sroce_order *o = &sq->order;

	sroce_order_judge(sq);
	if (!o->again)
		o->since = ktime_get();
	if (probe)
		o->probed = min(o->probed + num, ORDER_PROBED);
	else
		o->again += num;
}

/* The peer counts requests that come twice. */
static void note_twice(struct sroce_order *o, u16 twice)
{
	const s16 more = twice - o->peer_twice;

	if (more < 0 && more > -TWICE_LATE)
		return;
	o->peer_twice = twice;
	if (more > 0)
		o->twice += more;
}

/*
 * May a missing packet be held, as one that is only late? Where the network reorders, and the peer
 * reports gaps, so that all that turn out to be lost can be sent again at once.
 */
static bool holds(const struct sroce_sq *sq)
{
	return sq->order.wait && sq->repair.reports;
}

static void hold(struct sroce_sq *sq, struct sroce_gap *gap, ktime_t now)
{
	sroce_repair_missing(sq, now);
	gap->due = false;
	gap->held = true;
	gap->sent = now;
}

/* The gap that a packet is in, or the request that is missing besides them. */
static const struct sroce_gap *find_again(const struct sroce_sweep *sweep, u32 psn)
{
	const struct sroce_gap *gap = find_gap(sweep, psn);

	return !gap && gap_has(&sweep->request, psn) ? &sweep->request : gap;
}

/**
 * sroce_gaps_passed - has anything come that was sent behind a packet?
 * @sq: send side, the caller's
 * @behind: the first PSN that had not been sent before it
 *
 * Return: true if so, by some packets.
 */
bool sroce_gaps_passed(const struct sroce_sq *sq, u32 behind)
{
	return wire_psn_diff(sq->sweep.newest, behind) > OVERTAKEN;
}

/**
 * sroce_gaps_overtaken - has what was sent again been lost again?
 * @sq: send side, the caller's
 * @sent: when it was sent
 * @behind: the first PSN that had not been sent before that
 * @now: the time
 *
 * It has if something came that was sent behind it, and an answer ought to be there: a part
 * of a READ may wait for others at its responder.
 *
 * Return: true if so.
 */
bool sroce_gaps_overtaken(const struct sroce_sq *sq, ktime_t sent, u32 behind, ktime_t now)
{
	const u64 wait = max3(sq->repair.took, sroce_cwnd_least(sq), (u64)sq->order.wait);

	return wait && sroce_gaps_passed(sq, behind) &&
	       ktime_after(now, ktime_add_ns(sent, wait));
}

/*
 * Is a gap to be sent (again)? One that is held, when it has been late for too long. Others, if
 * packets that were sent behind it have overtaken it; or, if nothing tells, after twice the time
 * of an answer, as a probe sees to the oldest before that.
 */
static bool overdue(const struct sroce_sq *sq, const struct sroce_gap *gap, ktime_t now)
{
	if (gap->held)
		return !ktime_before(now, ktime_add_ns(gap->sent, sq->order.wait));
	return sroce_gaps_overtaken(sq, gap->sent, gap->behind, now) ||
	       ktime_after(now, ktime_add_ns(gap->sent, 2 * sroce_repair_answer_ns(sq, now)));
}

/**
 * sroce_gaps_sent - a gap is sent again, behind all that was sent until now
 * @sq: send side, the caller's
 * @gap: the gap
 * @now: the time
 */
void sroce_gaps_sent(const struct sroce_sq *sq, struct sroce_gap *gap, ktime_t now)
{
	gap->due = false;
	gap->held = false;
	gap->told = false;
	gap->done = 0;
	gap->sent = now;
	gap->behind = sq->psn_end;
}

/**
 * sroce_gaps_under_way - has the oldest packet been sent again as one of several?
 * @sq: send side, the caller's
 * @now: the time
 *
 * Return: true as long as its answer is not overdue, or it is held.
 */
bool sroce_gaps_under_way(const struct sroce_sq *sq, ktime_t now)
{
	const struct sroce_gap *gap = find_again(&sq->sweep, sq->psn_una);

	/* with no sweep, nobody sends it */
	return gap && (gap->due ? sq->sweep.due : !overdue(sq, gap, now));
}

/**
 * sroce_gaps_due - when an answer is overdue to the oldest packet, as one of several
 * @sq: send side, the caller's
 * @now: the time
 *
 * Return: that; KTIME_MAX if it has not been sent again so. See sroce_gaps_await().
 */
ktime_t sroce_gaps_due(const struct sroce_sq *sq, ktime_t now)
{
	const struct sroce_gap *gap = find_again(&sq->sweep, sq->psn_una);

	if (!gap || gap->due)
		return KTIME_MAX;
	return ktime_add_ns(gap->sent, sroce_repair_answer_ns(sq, now));
}

/* A held gap has been late for too long: it is sent again. Return: packets that count as lost. */
static u32 give_up(struct sroce_sq *sq, struct sroce_gap *gap, u32 *at)
{
	const u32 psn = wire_psn_diff(gap->psn, sq->psn_una) < 0 ? sq->psn_una : gap->psn;

	gap->held = false;
	gap->due = true;
	sq->sweep.due = true;
	return sroce_send_lost(sq, at, psn, wire_psn_diff(gap_end(gap), psn), sq->sweep.implied);
}

/* As if its NAK came now: one packet is sent again by repair.c, several are by the sweep. */
static u32 give_up_told(struct sroce_sq *sq, struct sroce_gap *gap, u32 *at, ktime_t now)
{
	if (gap->num > 1)
		return give_up(sq, gap, at);
	sroce_gaps_sent(sq, gap, now);
	return 1;
}

/**
 * sroce_gaps_full - does the peer have more gaps than a report has room for, as its network reorders?
 * @sq: send side, the caller's, with as many gaps as a report has
 *
 * Of what lies beyond the last one nothing is known, and most has arrived. Not where something has
 * been lost since for which the window was cut.
 *
 * Return: true if so.
 */
bool sroce_gaps_full(const struct sroce_sq *sq)
{
	const struct sroce_sweep *sweep = &sq->sweep;

	return sq->order.wait && !sweep->implied &&
	       wire_psn_diff(gap_end(&sweep->gap[0]), sq->psn_una) > 0 &&
	       wire_psn_diff(sq->psn_una, sq->cwnd.recover) >= 0;
}

/**
 * sroce_gaps_release - send again what has been held for long enough
 * @qp: queue pair; the caller owns its send side
 * @now: the time
 *
 * Return: true if the oldest packet is among it, or is held longer: no probe is due.
 */
bool sroce_gaps_release(struct sroce_qp *qp, ktime_t now)
{
	struct sroce_sq *sq = &qp->sq;
	struct sroce_sweep *sweep = &sq->sweep;
	bool oldest = false, told = false, alone = false;
	u32 i, at = sq->una, lost = 0;

	age(sq, now);

	for (i = 0; i < sweep->num; i++) {
		struct sroce_gap *gap = &sweep->gap[i];

		if (!gap->held || wire_psn_diff(gap_end(gap), sq->psn_una) <= 0)
			continue;
		oldest |= gap_has(gap, sq->psn_una);
		if (!overdue(sq, gap, now))
			continue;
		if (gap->told && gap_has(gap, sq->psn_una)) {
			told = true;
			alone = gap->num == 1;
			lost += give_up_told(sq, gap, &at, now);
		} else {
			lost += give_up(sq, gap, &at);
		}
	}
	if (lost)
		sroce_cwnd_loss(qp, lost);
	if (told)
		sroce_repair_told(qp, alone);
	return oldest;
}

/* A NAK names the oldest packet, and the report behind it has not come. */
static void hold_oldest(struct sroce_sq *sq, ktime_t now)
{
	struct sroce_sweep *sweep = &sq->sweep;

	/* what responses told of is over: none is kept */
	if (sweep->implied)
		sweep->num = 0;
	sweep->implied = false;
	sweep->num = min_t(u32, sweep->num + 1, WIRE_GAPS_MAX);
	memmove(sweep->gap + 1, sweep->gap, (sweep->num - 1) * sizeof(sweep->gap[0]));
	sweep->gap[0] = (struct sroce_gap) { .psn = sq->psn_una, .num = 1, .told = true };
	hold(sq, &sweep->gap[0], now);
	/* what is sent again then has the whole of its time (9.7.6.1.3) */
	sq->deadline = KTIME_MAX;
	sroce_gaps_await(sq);
}

/**
 * sroce_gaps_hold - the oldest packet is missing: may it only be late?
 * @qp: queue pair; the caller owns its send side
 * @told: a NAK says so, and no response is kept; else responses do
 *
 * Return: true if so, or if it has been held, and is sent again with the other gaps;
 * otherwise it is repair.c's.
 */
bool sroce_gaps_hold(struct sroce_qp *qp, bool told)
{
	struct sroce_sq *sq = &qp->sq;
	const ktime_t now = ktime_get();

	if (!holds(sq))
		return false;
	if (!find_again(&sq->sweep, sq->psn_una)) {
		if (told)
			hold_oldest(sq, now);
		else
			sroce_gaps_implied(qp);
	}
	return sroce_gaps_release(qp, now) || sroce_gaps_under_way(sq, now);
}

/**
 * sroce_gaps_repaired - the oldest packet has been sent again alone
 * @qp: queue pair; the caller owns its send side
 * @end: up to this
 * @now: the time
 */
void sroce_gaps_repaired(struct sroce_qp *qp, u32 end, ktime_t now)
{
	struct sroce_gap *gap = &qp->sq.sweep.gap[0];

	/* the oldest packet is in the first gap, or in none */
	if (!qp->sq.sweep.num || !gap_has(gap, qp->sq.psn_una))
		return;
	if (wire_psn_diff(end, gap_end(gap)) >= 0)
		sroce_gaps_sent(&qp->sq, gap, now);
	else if (gap->due)
		gap->done = max(wire_psn_diff(end, gap->psn), (s32)gap->done);
}

/* When a response was asked for again; KTIME_MAX if it was not, or has not been yet. */
static ktime_t asked_again(const struct sroce_sq *sq, u32 psn)
{
	const struct sroce_gap *gap = sq->sweep.implied ? find_gap(&sq->sweep, psn) : NULL;
	const struct sroce_repair *r = &sq->repair;

	if (gap)
		return gap->due || gap->held ? KTIME_MAX : gap->sent;
	if (r->out && wire_psn_diff(psn, sq->psn_una) >= 0 && wire_psn_diff(psn, r->end) < 0)
		return r->sent;
	return KTIME_MAX;
}

/**
 * sroce_gaps_came - a response has come, and those before it have not
 * @sq: send side, the caller's
 * @psn: its PSN
 *
 * A responder of ours gives what is asked for again by the oldest READ first, and of one READ in
 * the order that it is asked in. So if this answers that, what lies before it and was not asked
 * for after it has been lost again.
 *
 * Return: true if it may tell so: sroce_gaps_implied() is due.
 */
bool sroce_gaps_came(struct sroce_sq *sq, u32 psn)
{
	const u64 least = max_t(u64, sroce_cwnd_least(sq), sq->order.wait);
	struct sroce_sweep *sweep = &sq->sweep;
	const ktime_t sent = asked_again(sq, psn);
	ktime_t last = sweep->came_sent;

	if (sent == KTIME_MAX || ktime_before(sent, last) ||
	    (sent == last && wire_psn_diff(psn, sweep->came) <= 0))
		return false;
	/* sooner, it has only been late */
	if (!ktime_after(ktime_get(), ktime_add_ns(sent, least)))
		return false;
	sweep->came = psn;
	sweep->came_sent = sent;
	return true;
}

/* What was asked for then has been lost again, by sroce_gaps_came(). */
static bool passed(const struct sroce_sq *sq, const struct sroce_gap *gap, ktime_t sent)
{
	return sq->sweep.implied && !ktime_after(sent, sq->sweep.came_sent) &&
	       wire_psn_diff(sq->sweep.came, gap_end(gap)) >= 0;
}

/*
 * The first gap, where repair.c is at it: what of it is not being sent there? Return: packets of it
 * that count as lost already.
 */
static u32 less_repair(struct sroce_sq *sq, struct sroce_gap *gap, ktime_t now)
{
	struct sroce_qp *qp = container_of(sq, struct sroce_qp, sq);
	const struct sroce_repair *r = &sq->repair;
	const bool out = r->out && wire_psn_diff(sq->psn_una, r->end) < 0;
	u32 num;

	if ((!r->due && !out) || (out && passed(sq, gap, r->sent)))
		return 0;
	/*
	 * Of a READ, one request on the wire, as a whole or what is missing of its response, which
	 * may be asked for in turns; else as much as the rate lets leave.
	 */
	if (out)
		num = wire_psn_diff(r->lacks ? wire_psn_add(r->psn, r->lacks) : r->end, sq->psn_una);
	else if (sq->sweep.implied)
		num = sroce_send_whole(sq);
	else
		num = max(min_t(u32, r->num, sroce_pace_burst(qp, false)), sroce_send_whole(sq));
	if (num >= gap->num) {
		gap->due = false;
		gap->sent = out ? r->sent : now;
		gap->behind = out ? r->behind : sq->psn_end;
		return !r->blind;
	}
	gap->psn = wire_psn_add(gap->psn, num);
	gap->num -= num;
	return !r->blind;
}

/* Of what was known: part of it may have been sent, in a turn that ended there. */
static void inherit(const struct sroce_sq *sq, const struct sroce_gap *known,
		    struct sroce_gap *gap, ktime_t now)
{
	const s32 done = wire_psn_diff(wire_psn_add(known->psn, known->done), gap->psn);

	gap->due = known->due || overdue(sq, known, now) ||
		   (!known->held && passed(sq, gap, known->sent));
	gap->held = known->held && !gap->due;
	gap->told = known->told;
	gap->sent = known->sent;
	gap->behind = known->behind;
	/* the last of them asks, once more if it has gone */
	gap->done = known->due ? clamp(done, 0, gap->num - 1) : 0;
}

/* The first gap, of which a NAK has told, is longer than that: it is held no longer for it. */
static void still_told(const struct sroce_sq *sq, const struct sroce_sweep *old,
		       struct sroce_gap *gap)
{
	const struct sroce_gap *oldest = find_gap(old, sq->psn_una);

	if (!oldest || !oldest->held || !oldest->told)
		return;
	gap->told = true;
	gap->sent = oldest->sent;
}

/*
 * What has been missing before is so still, unless it shrank or fell apart: no gap
 * ever grows, and what had arrived is not missing. A peer that says so gets it
 * when that is overdue, as what has been sent. Return: packets that were not known
 * to be lost.
 */
static u32 merge(struct sroce_sq *sq, const struct wire_gaps *gaps, bool implied)
{
	struct sroce_sweep *sweep = &sq->sweep;
	const u32 end = wire_psn_add(sq->psn_una, gaps->end);
	const struct sroce_sweep old = *sweep;
	const ktime_t now = ktime_get();
	u32 i, at = sq->una, next = 0, lost = 0;

	age(sq, now);
	sweep->due = sweep->request.due;
	sweep->implied = implied;
	sweep->num = gaps->num;
	for (i = 0; i < gaps->num; i++) {
		struct sroce_gap *gap = &sweep->gap[i];
		const struct sroce_gap *known;

		*gap = (struct sroce_gap) {
			.psn = wire_psn_add(sq->psn_una, gaps->gap[i].first),
			.num = gaps->gap[i].num,
			.due = true,
		};
		/* of what was known, repair.c may have taken the first */
		known = next_gap(&old, &next, wire_psn_add(gap_end(gap), -1));
		if (known) {
			inherit(sq, known, gap, now);
			if (known->held && gap->due)
				lost += sroce_send_lost(sq, &at, gap->psn, gap->num, implied);
		} else if (!implied && wire_psn_diff(gap_end(gap), old.end) <= 0) {
			/* or what responses told of has displaced it */
			if (holds(sq))
				hold(sq, gap, now);
			else
				sroce_gaps_sent(sq, gap, now);
		} else {
			const struct sroce_gap all = *gap;
			const u32 counted = i ? 0 : less_repair(sq, gap, now);

			if (gap->due && holds(sq)) {
				hold(sq, gap, now);
			} else {
				u32 pkts = sroce_send_lost(sq, &at, all.psn, all.num, implied);

				lost += pkts - min(pkts, counted);
			}
			if (!i && gap->held)
				still_told(sq, &old, gap);
		}
		sweep->due |= gap->due;
	}
	if (!implied && wire_psn_diff(end, old.end) > 0)
		sweep->end = end;
	return lost;
}

/**
 * sroce_gaps_await - where the oldest packet is held, a probe comes when it is not any more
 * @sq: send side, the caller's
 */
void sroce_gaps_await(struct sroce_sq *sq)
{
	const struct sroce_gap *gap = find_gap(&sq->sweep, sq->psn_una);
	ktime_t until;

	if (!gap || !gap->held)
		return;
	until = ktime_add_ns(gap->sent, sq->order.wait);
	if (ktime_before(until, sq->repair.probe_due))
		sq->repair.probe_due = until;
}

static void take_gaps(struct sroce_qp *qp, const struct wire_gaps *gaps, bool implied)
{
	const u32 lost = merge(&qp->sq, gaps, implied);

	if (lost)
		sroce_cwnd_loss(qp, lost);
	sroce_gaps_await(&qp->sq);
	trace_sroce_gaps(qp, qp->sq.psn_una, gaps->num, gaps->end);
}

/* Is the packet that is timed among what has come? */
static bool timed_arrived(const struct sroce_sq *sq, const struct wire_gaps *gaps)
{
	const u32 off = wire_psn_diff(sq->rtt_psn, sq->psn_una);
	u32 i;

	if (!sq->rtt_start || off >= gaps->end)
		return false;
	for (i = 0; i < gaps->num; i++)
		if (off - gaps->gap[i].first < gaps->gap[i].num)
			return false;
	return true;
}

static u32 num_missing(const struct wire_gaps *gaps)
{
	u32 i, num = 0;

	for (i = 0; i < gaps->num; i++)
		num += gaps->gap[i].num;
	return num;
}

/**
 * sroce_gaps_report - the peer says what it lacks
 * @qp: queue pair; the caller owns its send side
 * @rx: the packet
 *
 * It acknowledges what the NAK has that names the first of them. What else it is wrong about, the
 * peer gets twice, or has to ask for.
 */
void sroce_gaps_report(struct sroce_qp *qp, const struct sroce_rx *rx)
{
	struct sroce_rx_pos pos = rx->payload;
	const u32 len = rx->pkt.payload_len, una = qp->sq.psn_una;
	struct sroce_sq *sq = &qp->sq;
	struct wire_gaps gaps;
	u8 buf[WIRE_GAPS_MAX_LEN];

	if (len > sizeof(buf) || !rx->skb)
		return;
	sroce_rx_copy(&pos, buf, len);
	if (wire_gaps_get(buf, len, &gaps)) {
		sroce_qp_count(qp, STALE_ACK);
		return;
	}
	/* of a READ's requester, most come late or have nothing else to say */
	sq->repair.reports = true;
	note_twice(&sq->order, gaps.twice);
	sroce_order_judge(sq);
	if (!gaps.num)
		return;
	if (sq->rnr_wait || (s32)gaps.end > wire_psn_diff(sq->psn_nxt, rx->pkt.psn)) {
		sroce_qp_count(qp, STALE_ACK);
		return;
	}
	/* the NAK of the first was lost, or comes later */
	sroce_ack_before(qp, rx->pkt.psn);
	/* with what answers later ones kept, the peer has got on since it said this */
	if (rx->pkt.psn != sq->psn_una || sq->kept.num) {
		if (sq->psn_una == una)
			sroce_qp_count(qp, STALE_ACK);
		return;
	}
	sq->repair.peer = SROCE_PEER_KEEPS;
	sq->repair.hold = false;
	sq->sweep.arrived = gaps.end - num_missing(&gaps);
	sq->sweep.spare = min(sq->sweep.arrived, sroce_send_spare(sq, &gaps));
	sroce_gaps_arrived(sq, wire_psn_add(sq->psn_una, gaps.end));
	if (timed_arrived(sq, &gaps))
		sroce_retry_arrived(qp);
	/* it says what comes behind what was sent again alone, as a NAK would */
	sq->repair.rest_due = KTIME_MAX;
	take_gaps(qp, &gaps, false);
}

/**
 * sroce_gaps_implied - responses are kept: what is missing between them?
 * @qp: queue pair; the caller owns its send side
 *
 * Several parts of a READ at a time are for a peer that is known to report gaps, as one
 * of ours does of requests. rdma_rxe gives no part that lies before one that it has given
 * again; it is asked for one after the other, by repair.c.
 */
void sroce_gaps_implied(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;
	struct wire_gaps gaps;

	if (!sq->repair.reports)
		return;
	sroce_kept_gaps(qp, &sq->kept, sq->psn_una, &gaps);
	if (!gaps.num || sq->rnr_wait || gaps.end > wire_psn_diff(sq->psn_nxt, sq->psn_una))
		return;
	if (timed_arrived(sq, &gaps))
		sroce_retry_arrived(qp);
	take_gaps(qp, &gaps, true);
}

/**
 * sroce_gaps_request - the peer lacks a request, while responses before it are missing
 * @qp: queue pair; the caller owns its send side
 * @psn: its packet that a NAK has named
 *
 * It is sent again with the other gaps. To wait for its turn would leave the peer without
 * anything to do.
 */
void sroce_gaps_request(struct sroce_qp *qp, u32 psn)
{
	struct sroce_sq *sq = &qp->sq;
	struct sroce_gap *request = &sq->sweep.request;

	if (sq->rnr_wait || wire_psn_diff(psn, sq->psn_nxt) >= 0)
		return;
	/* a peer gets on: what it lacks next is behind this, or has been sent */
	if (request->num && wire_psn_diff(psn, request->psn) <= 0 &&
	    (request->due || !overdue(sq, request, ktime_get())))
		return;
	*request = (struct sroce_gap) { .psn = psn, .num = 1, .due = true };
	sq->sweep.due = true;
}
