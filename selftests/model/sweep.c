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
}

void gaps_moved(u32 num)
{
	struct sweep *sweep = &sq->sweep;

	sweep->arrived -= min(sweep->arrived, num);
}

static struct gap *find_gap(struct sweep *sweep, u32 psn)
{
	u32 i;

	for (i = 0; i < sweep->num; i++) {
		const s32 off = wire_psn_diff(psn, sweep->gap[i].psn);

		if (off >= 0 && off < sweep->gap[i].num)
			return &sweep->gap[i];
	}
	return NULL;
}

/* Sent so long ago that it is lost. */
static bool overdue(const struct gap *gap, ktime_t now)
{
	return now > gap->sent + (s64)repair_answer_ns(now);
}

bool gaps_under_way(ktime_t now)
{
	const struct gap *gap = find_gap(&sq->sweep, sq->psn_una);

	return gap && (gap->due || !overdue(gap, now));
}

void gaps_repaired(u32 end, ktime_t now)
{
	struct gap *gap = find_gap(&sq->sweep, sq->psn_una);

	if (gap && wire_psn_diff(end, wire_psn_add(gap->psn, gap->num)) >= 0) {
		gap->due = false;
		gap->sent = now;
	}
}

/* The first gap, where repair() is at it: what of it is not being sent there? */
static void less_repair(bool implied, struct gap *gap)
{
	const struct repair *r = &sq->repair;
	const bool out = r->out && wire_psn_diff(sq->psn_una, r->end) < 0;
	u32 num;

	if (!r->due && !out)
		return;
	/* all of a response that is missing is asked for at once */
	num = out ? (u32)wire_psn_diff(r->end, sq->psn_una) : r->num;
	if (implied || num >= gap->num) {
		gap->due = false;
		gap->sent = ktime_get();
		return;
	}
	gap->psn = wire_psn_add(gap->psn, num);
	gap->num = (u16)(gap->num - num);
}

static void inherit(const struct gap *known, struct gap *gap, ktime_t now)
{
	const s32 done = wire_psn_diff(known->psn, gap->psn);

	gap->due = known->due || overdue(known, now);
	gap->sent = known->sent;
	if (known->due && done > 0) {
		gap->psn = known->psn;
		gap->num -= (u32)done;
	}
}

/*
 * What has been missing before is so still, unless it shrank or fell apart: no
 * gap ever grows.
 */
static void merge(const struct wire_gaps *gaps, bool implied)
{
	struct sweep *sweep = &sq->sweep;
	struct sweep old = *sweep;
	const ktime_t now = ktime_get();
	u32 i;

	sweep->due = false;
	sweep->implied = implied;
	sweep->num = gaps->num;
	sweep->end = wire_psn_add(sq->psn_una, gaps->end);
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
		} else if (old.num &&
			   wire_psn_diff(wire_psn_add(gap->psn, gap->num), old.end) <= 0) {
			gap->due = false;
			gap->sent = now;
		} else if (!i) {
			less_repair(implied, gap);
		}
		sweep->due |= gap->due;
	}
}

static u32 num_missing(const struct wire_gaps *gaps)
{
	u32 i, num = 0;

	for (i = 0; i < gaps->num; i++)
		num += gaps->gap[i].num;
	return num;
}

static void sweep_gaps(const struct wire_gaps *gaps, bool implied)
{
	merge(gaps, implied);
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
	if (rx->pkt.psn != sq->psn_una || sq->rnr_wait || beyond_sent(&gaps))
		return;
	seen[SEEN_REPORT]++;
	sq->repair.peer = PEER_KEEPS;
	sq->repair.hold = false;
	sq->repair.reports = true;
	sq->sweep.arrived = gaps.end - num_missing(&gaps);
	if (timed_arrived(&gaps))
		retry_arrived();
	sweep_gaps(&gaps, false);
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
	sweep_gaps(&gaps, true);
}
