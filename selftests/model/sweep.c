// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * gaps.c: what the requester does where it knows of several packets that are
 * missing, from its peer's report or by the responses behind them.
 */
#include "model.h"

#define sq (&w.sq)

void gaps_reset(void)
{
	struct sweep *sweep = &sq->sweep;

	sweep->due = false;
	sweep->num = 0;
	sweep->arrived = 0;
	sweep->end = sq->psn_una;
	sweep->newest = sq->psn_una;
	sweep->came_sent = 0;
	sweep->request.num = 0;
	sweep->request.due = false;
}

void gaps_arrived(u32 psn)
{
	if (wire_psn_diff(psn, sq->sweep.newest) > 0)
		sq->sweep.newest = psn;
}

static u32 gap_end(const struct gap *gap)
{
	return wire_psn_add(gap->psn, gap->num);
}

void gaps_moved(u32 num)
{
	struct sweep *sweep = &sq->sweep;

	sweep->arrived -= min(sweep->arrived, num);
	/* left behind, they would be ahead again half of all PSNs later */
	if (wire_psn_diff(sweep->newest, sq->psn_una) < 0)
		sweep->newest = sq->psn_una;
	if (wire_psn_diff(sweep->end, sq->psn_una) < 0)
		sweep->end = sq->psn_una;
	/* and so would gaps */
	if (sweep->num && wire_psn_diff(gap_end(&sweep->gap[sweep->num - 1]), sq->psn_una) <= 0)
		sweep->num = 0;
}

static bool gap_has(const struct gap *gap, u32 psn)
{
	const s32 off = wire_psn_diff(psn, gap->psn);

	return off >= 0 && off < gap->num;
}

static const struct gap *find_gap(const struct sweep *sweep, u32 psn)
{
	u32 i;

	for (i = 0; i < sweep->num; i++)
		if (gap_has(&sweep->gap[i], psn))
			return &sweep->gap[i];
	return NULL;
}

/*
 * Packets by which it is learned are the schedule's: it has few. Some begin with what others may
 * never get to.
 */
void order_reset(void)
{
	sq->order = (struct order) { .wait = w.plan.wait, .until = ktime_get() + ORDER_AGE_NS };
}

static u32 most_wait(void)
{
	const u64 most = min(max(sq->srtt, (u64)ORDER_MAX_NS), (u64)ORDER_FAR_NS);

	return min(4096ULL << w.plan.timeout >> 2, most);
}

static void wait_more(struct order *o)
{
	seen[SEEN_WAITS_MORE]++;
	o->few = 0;
	o->wait = (u32)min(max(max(2 * (u64)o->wait, (u64)ORDER_MIN_NS), sq->srtt / ORDER_RTT_PART),
			   (u64)most_wait());
	o->until = ktime_get() + ORDER_AGE_NS;
}

static void wait_less(struct order *o)
{
	seen[SEEN_WAITS_LESS] += !!o->wait;
	o->few = 0;
	o->wait = o->wait > ORDER_MIN_NS ? o->wait / 2 : 0;
}

static void age(struct order *o, ktime_t now)
{
	if (o->wait > ORDER_MAX_NS)
		o->wait = min(o->wait, most_wait());
	while (o->wait && now >= o->until) {
		wait_less(o);
		o->until += ORDER_AGE_NS;
	}
}

void order_judge(void)
{
	struct order *o = &sq->order;
	u32 probes, twice;

	if (o->again < w.plan.order_sample ||
	    ktime_get() < o->since + (s64)(ORDER_RTTS * (sq->srtt ? sq->srtt : (u64)PROBE_FIRST_NS)))
		return;
	probes = min(o->twice, o->probed);
	twice = o->twice - probes;
	if (twice > o->again / 2 && twice <= 2 * o->again)
		wait_more(o);
	else if (twice > o->again / 8 && twice <= 2 * o->again)
		o->few = 0;
	else if (++o->few == ORDER_FEW)
		wait_less(o);
	o->again = 0;
	/* they may be on their way, or did not come twice at all */
	o->probed = (o->probed - probes) / 2;
	o->twice = 0;
}

void order_again(u32 num, bool probe)
{
	struct order *o = &sq->order;

	order_judge();
	if (!o->again)
		o->since = ktime_get();
	if (probe)
		o->probed = min(o->probed + num, ORDER_PROBED);
	else
		o->again += num;
}

/* The peer counts requests that come twice. */
static void note_twice(struct order *o, u16 twice)
{
	const s16 more = (s16)(twice - o->peer_twice);

	if (more < 0 && more > -TWICE_LATE)
		return;
	o->peer_twice = twice;
	if (more > 0)
		o->twice += (u32)more;
}

/* What is missing may be late, from a peer of whom all that is missing can be had at once. */
static bool holds(void)
{
	return sq->order.wait && sq->repair.reports;
}

static void hold(struct gap *gap, ktime_t now)
{
	seen[SEEN_HELD]++;
	trace("held psn=%u num=%u", gap->psn, gap->num);
	repair_missing(now);
	gap->due = false;
	gap->held = true;
	gap->sent = now;
}

/* As one of several that are missing, or as a request that is */
static const struct gap *find_again(const struct sweep *sweep, u32 psn)
{
	const struct gap *gap = find_gap(sweep, psn);

	return !gap && gap_has(&sweep->request, psn) ? &sweep->request : gap;
}

bool gaps_overtaken(ktime_t sent, u32 behind, ktime_t now)
{
	const u64 wait = max(max(sq->repair.took, cwnd_least()), (u64)sq->order.wait);

	return wait && wire_psn_diff(sq->sweep.newest, behind) > OVERTAKEN &&
	       now > sent + (s64)wait;
}

/* If nothing tells, when an answer is overdue: twice that, as a probe sees to the oldest. */
static bool overdue(const struct gap *gap, ktime_t now)
{
	if (gap->held)
		return now >= gap->sent + (s64)sq->order.wait;
	if (gaps_overtaken(gap->sent, gap->behind, now)) {
		seen[SEEN_OVERTAKEN]++;
		return true;
	}
	return now > gap->sent + (s64)(2 * repair_answer_ns(now));
}

void gaps_sent(struct gap *gap, ktime_t now)
{
	gap->due = false;
	gap->held = false;
	gap->told = false;
	gap->sent = now;
	gap->behind = sq->psn_end;
}

bool gaps_under_way(ktime_t now)
{
	const struct gap *gap = find_again(&sq->sweep, sq->psn_una);

	/* with no sweep, nobody sends it */
	return gap && (gap->due ? sq->sweep.due : !overdue(gap, now));
}

ktime_t gaps_due(ktime_t now)
{
	const struct gap *gap = find_again(&sq->sweep, sq->psn_una);

	if (!gap || gap->due)
		return KTIME_MAX;
	return gap->sent + (s64)repair_answer_ns(now);
}

/* It has been late for too long. */
static void give_up(struct gap *gap)
{
	seen[SEEN_RELEASED]++;
	gap->held = false;
	gap->due = true;
	sq->sweep.due = true;
}

/* As if its NAK came now: one packet is sent again by repair.c, several are by the sweep. */
static void give_up_told(struct gap *gap, ktime_t now)
{
	if (gap->num > 1) {
		give_up(gap);
		return;
	}
	seen[SEEN_RELEASED]++;
	gaps_sent(gap, now);
}

bool gaps_release(ktime_t now)
{
	struct sweep *sweep = &sq->sweep;
	bool oldest = false, told = false, alone = false;
	u32 i;

	age(&sq->order, now);

	for (i = 0; i < sweep->num; i++) {
		struct gap *gap = &sweep->gap[i];

		if (!gap->held || wire_psn_diff(gap_end(gap), sq->psn_una) <= 0)
			continue;
		oldest |= gap_has(gap, sq->psn_una);
		if (!overdue(gap, now))
			continue;
		if (gap->told && gap_has(gap, sq->psn_una)) {
			told = true;
			alone = gap->num == 1;
			give_up_told(gap, now);
		} else {
			give_up(gap);
		}
	}
	if (told)
		repair_told(alone);
	return oldest;
}

/* A NAK names the oldest packet, and the report behind it has not come. */
static void hold_oldest(ktime_t now)
{
	struct sweep *sweep = &sq->sweep;

	/* what responses told of is over: none is kept */
	if (sweep->implied)
		sweep->num = 0;
	sweep->implied = false;
	sweep->num = min(sweep->num + 1, (u32)WIRE_GAPS_MAX);
	memmove(sweep->gap + 1, sweep->gap, (sweep->num - 1) * sizeof(sweep->gap[0]));
	sweep->gap[0] = (struct gap) { .psn = sq->psn_una, .num = 1, .told = true };
	hold(&sweep->gap[0], now);
	/* what is sent again then has the whole of its time (9.7.6.1.3) */
	sq->deadline = KTIME_MAX;
	gaps_await();
}

bool gaps_hold(bool told)
{
	const ktime_t now = ktime_get();

	if (!holds())
		return false;
	if (!find_again(&sq->sweep, sq->psn_una)) {
		if (told)
			hold_oldest(now);
		else
			gaps_implied();
	}
	return gaps_release(now) || gaps_under_way(now);
}

void gaps_repaired(u32 end, ktime_t now)
{
	struct gap *gap = &sq->sweep.gap[0];

	/* the oldest packet is in the first gap, or in none */
	if (!sq->sweep.num || !gap_has(gap, sq->psn_una))
		return;
	if (wire_psn_diff(end, gap_end(gap)) >= 0) {
		gaps_sent(gap, now);
	} else if (gap->due && wire_psn_diff(end, gap->psn) > 0) {
		/* @done of the kernel's */
		gap->num = (u16)wire_psn_diff(gap_end(gap), end);
		gap->psn = end;
	}
}

/* When a response was asked for again; KTIME_MAX if it was not. */
static ktime_t asked_again(u32 psn)
{
	const struct gap *gap = sq->sweep.implied ? find_gap(&sq->sweep, psn) : NULL;
	const struct repair *r = &sq->repair;

	if (gap)
		return gap->due || gap->held ? KTIME_MAX : gap->sent;
	if (r->out && wire_psn_diff(psn, sq->psn_una) >= 0 && wire_psn_diff(psn, r->end) < 0)
		return r->sent;
	return KTIME_MAX;
}

/* What lies before it and was not asked for after it has been lost again: it is given in order. */
bool gaps_came(u32 psn)
{
	const u64 least = max(cwnd_least(), (u64)sq->order.wait);
	struct sweep *sweep = &sq->sweep;
	const ktime_t sent = asked_again(psn);

	if (sent == KTIME_MAX || sent < sweep->came_sent ||
	    (sent == sweep->came_sent && wire_psn_diff(psn, sweep->came) <= 0) ||
	    ktime_get() <= sent + (s64)least)
		return false;
	sweep->came = psn;
	sweep->came_sent = sent;
	return true;
}

static bool passed(const struct gap *gap, ktime_t sent)
{
	if (!sq->sweep.implied || sent > sq->sweep.came_sent ||
	    wire_psn_diff(sq->sweep.came, gap_end(gap)) < 0)
		return false;
	seen[SEEN_PASSED]++;
	return true;
}

/* The first gap, where repair() is at it: what of it is not being sent there? */
static void less_repair(struct gap *gap, ktime_t now)
{
	const struct repair *r = &sq->repair;
	const bool out = r->out && wire_psn_diff(sq->psn_una, r->end) < 0;
	u32 num;

	if ((!r->due && !out) || (out && passed(gap, r->sent)))
		return;
	/* of a READ, one request on the wire, or what is missing of it */
	if (out)
		num = (u32)wire_psn_diff(r->lacks ? wire_psn_add(r->psn, r->lacks) : r->end,
					 sq->psn_una);
	else
		num = max(sq->sweep.implied ? 1 : (u32)r->num, send_whole());
	if (num >= gap->num) {
		gap->due = false;
		gap->sent = out ? r->sent : now;
		gap->behind = out ? r->behind : sq->psn_end;
		return;
	}
	gap->psn = wire_psn_add(gap->psn, num);
	gap->num = (u16)(gap->num - num);
}

/* Of what was known: part of it may have been sent since, in a turn that ended there. */
static void inherit(const struct gap *known, struct gap *gap, ktime_t now)
{
	const s32 done = wire_psn_diff(known->psn, gap->psn);

	gap->due = known->due || overdue(known, now) ||
		   (!known->held && passed(gap, known->sent));
	gap->held = known->held && !gap->due;
	gap->told = known->told;
	gap->sent = known->sent;
	gap->behind = known->behind;
	if (known->due && done > 0) {
		gap->psn = known->psn;
		gap->num = (u16)(gap->num - done);
	}
}

/* The first gap, of which a NAK has told, is longer than that: it is held no longer for it. */
static void still_told(const struct sweep *old, struct gap *gap)
{
	const struct gap *oldest = find_gap(old, sq->psn_una);

	if (!oldest || !oldest->held || !oldest->told)
		return;
	gap->told = true;
	gap->sent = oldest->sent;
}

/*
 * What has been missing before is so still, unless it shrank or fell apart: no gap
 * ever grows, and what had arrived is not missing. A peer that says so gets it when
 * that is overdue, as what has been sent.
 */
static void merge(const struct wire_gaps *gaps, bool implied)
{
	struct sweep *sweep = &sq->sweep;
	const u32 end = wire_psn_add(sq->psn_una, gaps->end);
	const struct sweep old = *sweep;
	const ktime_t now = ktime_get();
	u32 i;

	age(&sq->order, now);
	sweep->due = sweep->request.due;
	sweep->implied = implied;
	sweep->num = gaps->num;
	for (i = 0; i < gaps->num; i++) {
		struct gap *gap = &sweep->gap[i];
		const struct gap *known;

		*gap = (struct gap) {
			.psn = wire_psn_add(sq->psn_una, gaps->gap[i].first),
			.num = gaps->gap[i].num,
			.due = true,
		};
		/* of what was known, the repair may have taken the first */
		known = find_gap(&old, wire_psn_add(gap->psn, gap->num - 1));
		if (known) {
			inherit(known, gap, now);
		} else if (!implied && wire_psn_diff(gap_end(gap), old.end) <= 0) {
			seen[SEEN_CONTRADICTED]++;
			/* or what responses told of has displaced it */
			if (holds())
				hold(gap, now);
			else
				gaps_sent(gap, now);
		} else {
			if (!i)
				less_repair(gap, now);
			if (gap->due && holds())
				hold(gap, now);
			if (!i && gap->held)
				still_told(&old, gap);
		}
		sweep->due |= gap->due;
	}
	if (!implied && wire_psn_diff(end, old.end) > 0)
		sweep->end = end;
}

static u32 num_missing(const struct wire_gaps *gaps)
{
	u32 i, num = 0;

	for (i = 0; i < gaps->num; i++)
		num += gaps->gap[i].num;
	return num;
}

void gaps_await(void)
{
	const struct gap *gap = find_gap(&sq->sweep, sq->psn_una);

	if (gap && gap->held)
		sq->repair.probe_due = min(sq->repair.probe_due, gap->sent + sq->order.wait);
}

static void take_gaps(const struct wire_gaps *gaps, bool implied)
{
	merge(gaps, implied);
	gaps_await();
	trace("gaps psn=%u num=%u end=%u implied=%d", sq->psn_una, gaps->num, gaps->end, implied);
}

/* Is the packet that is timed among what has come? */
static bool timed_arrived(const struct wire_gaps *gaps)
{
	const u32 off = (u32)wire_psn_diff(sq->rtt_psn, sq->psn_una);
	u32 i;

	if (!sq->rtt_start || off >= gaps->end)
		return false;
	for (i = 0; i < gaps->num; i++)
		if (off - gaps->gap[i].first < gaps->gap[i].num)
			return false;
	return true;
}

static bool beyond_sent(const struct wire_gaps *gaps)
{
	return gaps->end > (u32)wire_psn_diff(sq->psn_nxt, sq->psn_una);
}

void gaps_report(const struct rx *rx)
{
	struct wire_gaps gaps;

	if (wire_gaps_get(rx_payload(rx), rx->pkt.payload_len, &gaps))
		failed("a report of ours is not taken");
	/* of a READ's requester, most come late or have nothing else to say */
	sq->repair.reports = true;
	note_twice(&sq->order, gaps.twice);
	order_judge();
	if (!gaps.num) {
		seen[SEEN_GREETED]++;
		return;
	}
	if (sq->rnr_wait || (s32)gaps.end > wire_psn_diff(sq->psn_nxt, rx->pkt.psn))
		return;
	/* the NAK of the first was lost, or comes later */
	ack_before(rx->pkt.psn);
	/* with what answers later ones kept, the peer has got on since it said this */
	if (rx->pkt.psn != sq->psn_una || sq->kept.num)
		return;
	seen[SEEN_REPORT]++;
	sq->repair.peer = PEER_KEEPS;
	sq->repair.hold = false;
	sq->sweep.arrived = gaps.end - num_missing(&gaps);
	gaps_arrived(wire_psn_add(sq->psn_una, gaps.end));
	if (timed_arrived(&gaps))
		retry_arrived();
	/* it says what comes behind what was sent again alone, as a NAK would */
	sq->repair.rest_due = KTIME_MAX;
	take_gaps(&gaps, false);
}

void gaps_implied(void)
{
	struct wire_gaps gaps;

	if (!sq->repair.reports)
		return;
	kept_gaps(&sq->kept, sq->psn_una, &gaps);
	if (!gaps.num || sq->rnr_wait || beyond_sent(&gaps))
		return;
	if (timed_arrived(&gaps))
		retry_arrived();
	take_gaps(&gaps, true);
}

void gaps_request(u32 psn)
{
	struct gap *request = &sq->sweep.request;

	if (sq->rnr_wait || wire_psn_diff(psn, sq->psn_nxt) >= 0)
		return;
	/* a peer gets on: what it lacks next is behind this, or has been sent */
	if (request->num && wire_psn_diff(psn, request->psn) <= 0 &&
	    (request->due || !overdue(request, ktime_get())))
		return;
	*request = (struct gap) { .psn = psn, .num = 1, .due = true };
	sq->sweep.due = true;
}

/* It could be sent, and is to be. */
static bool waits(const struct gap *gap)
{
	const u32 end = gap_end(gap);

	return gap->due && wire_psn_diff(end, sq->psn_una) > 0 &&
	       wire_psn_diff(end, sq->psn_nxt) <= 0;
}

/* What is remembered of PSNs is of those that are out. */
void gaps_audit(void)
{
	const struct sweep *sweep = &sq->sweep;
	const struct gap *oldest = find_gap(sweep, sq->psn_una);
	u32 i;

	if (wire_psn_diff(sweep->newest, sq->psn_una) < 0 ||
	    wire_psn_diff(sweep->newest, sq->psn_end) > 0 ||
	    wire_psn_diff(sweep->end, sq->psn_una) < 0 ||
	    wire_psn_diff(sweep->end, sq->psn_end) > 0)
		failed("PSNs %u to %u are out, but %u and %u have come", sq->psn_una, sq->psn_end,
		       sweep->newest, sweep->end);
	if (wire_psn_diff(sq->psn_nxt, sq->psn_left) > 0 ||
	    wire_psn_diff(sq->psn_left, sq->psn_end) > 0)
		failed("PSN %u is next, of %u, when %u have left", sq->psn_nxt, sq->psn_end,
		       sq->psn_left);
	if (!sq->err && oldest && oldest->held && !sq->repair.out &&
	    sq->timer > oldest->sent + (s64)sq->order.wait)
		failed("PSN %u is held, and nobody comes for it", sq->psn_una);
	for (i = 0; i < sweep->num && !sq->err && !sweep->due; i++)
		if (waits(&sweep->gap[i]))
			failed("PSN %u is missing, and nobody sends it", sweep->gap[i].psn);
}
