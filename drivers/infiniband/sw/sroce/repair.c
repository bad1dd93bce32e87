// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What the requester does about a packet that is missing, before it sends all
 * again from there (retry.c).
 *
 * It sends that one alone, and looks at the answer. If the acknowledgement goes
 * beyond it, the peer has kept what came before its turn, and nothing else has to
 * be sent again. If it does not, the peer goes by IBTA's word, and gets the
 * rest. Nothing of this is negotiated: it is learned, by each queue pair.
 *
 * Where nothing is heard at all, the same is done as a probe. None of this is
 * a retry of the protocol's, but for what a NAK asks for: the timer of 9.7.6.1.3
 * goes on.
 */
#include "sroce.h"
#include "trace.h"
#include "wire/recovery.h"

/* A network that marks has queues, whose packets come late, and are seldom lost */
#define PROBE_MARKED_NS	NSEC_PER_MSEC

/* Longer than PROBE_CALM_NS, if timers of other queue pairs can then share its interrupt */
#define PROBE_SLACK_NS	(2 * NSEC_PER_MSEC)

static bool calm(const struct sroce_sq *sq, ktime_t now)
{
	return !ktime_before(now, sq->repair.lossy);
}

/* What comes within that may still come */
static u64 probe_min(const struct sroce_sq *sq)
{
	const struct sroce_qp *qp = container_of(sq, struct sroce_qp, sq);
	const u64 least = READ_ONCE(qp->pace.limited) ? PROBE_MARKED_NS : PROBE_MIN_NS;

	return max_t(u64, least, sq->order.wait);
}

/* Until a probe is due, by the round trips of packets that were sent once */
static u64 probe_ns(const struct sroce_sq *sq, ktime_t now)
{
	const u64 least = calm(sq, now) ? PROBE_CALM_NS : probe_min(sq);

	/* what has been asked for again takes longer where a response does */
	if (sq->srtt)
		return max3(2 * sq->srtt + min(4 * sq->rttvar, sq->srtt), sq->repair.took, least);
	/* of a network that loses a packet of every window from the start */
	return sq->repair.took ? max(4 * sq->repair.took, probe_min(sq)) : PROBE_FIRST_NS;
}

/* Each in a row waits twice as long, and the first as long as the last has. */
static u8 probe_shift(const struct sroce_repair *r)
{
	return min(r->backed_off + r->probes, PROBE_SHIFT_MAX);
}

/* Until the next probe of those of which the first is after @ns */
static u64 probe_wait(const struct sroce_repair *r, u64 ns)
{
	const u8 shift = probe_shift(r);

	return max(ns << min(shift, PROBES_MAX), min_t(u64, ns << shift, PROBE_LAST_NS));
}

/* Return: when a probe is due, of those of which the first is after @ns; KTIME_MAX for none. */
static ktime_t probe_at(const struct sroce_qp *qp, ktime_t now, u64 ns)
{
	const struct sroce_repair *r = &qp->sq.repair;

	if (r->probes < PROBES_MAX)
		return ktime_add_ns(now, probe_wait(r, ns));
	/* without an ACK timeout nothing else would find out that the network is back */
	if (qp->timeout)
		return KTIME_MAX;
	return ktime_add_ns(now, max_t(u64, ns, PROBE_LAST_NS));
}

/**
 * sroce_repair_answer_ns - until what was sent again is taken for lost again
 * @sq: send side, the caller's
 * @now: the time
 *
 * Such packets do not queue behind a window. As they may be answered for their
 * first sending, which came late, this is no measure of the round trip (Karn).
 *
 * Return: nanoseconds.
 */
u64 sroce_repair_answer_ns(const struct sroce_sq *sq, ktime_t now)
{
	const struct sroce_repair *r = &sq->repair;
	u64 ns;

	if (!r->took)
		return probe_ns(sq, now);
	/* a few that were lost on their way make the deviation large for long */
	ns = min(r->took + 4 * r->took_var, 2 * max(r->took, sq->srtt));
	return max3(ns, sroce_cwnd_least(sq), probe_min(sq));
}

/**
 * sroce_repair_forget - where to go on from is decided otherwise
 * @qp: queue pair; the caller owns its send side
 */
void sroce_repair_forget(struct sroce_qp *qp)
{
	struct sroce_repair *r = &qp->sq.repair;

	r->due = false;
	r->out = false;
	r->hold = false;
	r->rest_due = KTIME_MAX;
	r->probe_due = KTIME_MAX;
}

/**
 * sroce_repair_reset - as in a new queue pair
 * @qp: queue pair; the caller owns its send side
 */
void sroce_repair_reset(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;
	struct sroce_repair *r = &sq->repair;

	sroce_repair_forget(qp);
	sroce_order_reset(sq);
	r->peer = SROCE_PEER_UNKNOWN;
	r->reports = false;
	r->probes = 0;
	r->backed_off = 0;
	r->vain = 0;
	r->num = 1;
	r->lossy = 0;
	r->took = 0;
	r->took_var = 0;
}

/*
 * The next turn begins with the packet at psn_una: a NAK has @told so; or it is a guess, where
 * nothing tells what has become of it (@blind). Where one is missing right behind what was sent
 * again, a burst of them is: then more at a time.
 */
static void repair(struct sroce_qp *qp, bool told, bool blind)
{
	struct sroce_sq *sq = &qp->sq;
	struct sroce_repair *r = &sq->repair;

	if (r->out && sq->psn_una == r->end)
		r->num = min(r->num * 4, REPAIR_MAX);
	else
		r->num = 1;
	r->twice = r->out && sq->psn_una == r->psn;
	r->psn = sq->psn_una;
	r->due = true;
	r->out = false;
	r->told = told;
	r->blind = blind;
	/* the rest may have to follow, and nothing new before that */
	r->hold = told && r->peer == SROCE_PEER_UNKNOWN;
	r->rest_due = KTIME_MAX;
}

/**
 * sroce_repair_oldest - a timeout: try the oldest packet again
 * @qp: queue pair; the caller owns its send side
 */
void sroce_repair_oldest(struct sroce_qp *qp)
{
	struct sroce_repair *r = &qp->sq.repair;

	/* what has been sent of others tells nothing of this one */
	r->out &= qp->sq.psn_una == r->psn;
	repair(qp, false, true);
}

/* Is the packet at psn_una on its way again, or about to be? */
static bool under_way(const struct sroce_sq *sq)
{
	const struct sroce_repair *r = &sq->repair;
	const bool out = r->out && wire_psn_diff(sq->psn_una, r->end) < 0;
	ktime_t now;

	/* every response behind one that is missing asks: mostly, the clock need not be looked at */
	if (r->due || (out && !sroce_gaps_passed(sq, r->behind)))
		return true;
	now = ktime_get();
	return sroce_gaps_under_way(sq, now) ||
	       (out && !sroce_gaps_overtaken(sq, r->sent, r->behind, now));
}

/**
 * sroce_repair_told - what a NAK has asked for is about to be sent again: that is a retry
 * @qp: queue pair; the caller owns its send side
 * @alone: by itself; else with others, as a gap
 *
 * If none is left, the request fails. The peer is there, and what is sent again has the
 * whole of its time (9.7.6.1.3).
 */
void sroce_repair_told(struct sroce_qp *qp, bool alone)
{
	struct sroce_sq *sq = &qp->sq;

	if (!sq->retry_left) {
		sroce_send_fail(qp, IB_WC_RETRY_EXC_ERR, WIRE_AETH_NAK | WIRE_NAK_PSN_SEQ);
		return;
	}
	sq->retry_left--;
	sq->deadline = KTIME_MAX;
	if (alone)
		repair(qp, true, false);
}

/*
 * May it only be late? With responses kept, no report of requests would be believed; and what comes
 * right behind a packet that was sent again is missing, with a burst.
 */
static bool may_hold(const struct sroce_sq *sq, bool told)
{
	const struct sroce_repair *r = &sq->repair;

	if (!told)
		return true;
	return r->peer == SROCE_PEER_KEEPS && !sq->kept.num && !(r->out && r->end == sq->psn_una);
}

/**
 * sroce_repair_nak - a packet is missing: @psn_una
 * @qp: queue pair; the caller owns its send side
 * @told: by a NAK; else the peer has answered what comes behind a request whose own
 *	answer has not come (9.7.5.1.3)
 *
 * The peer says once that a packet is missing, and that is a retry. Of a
 * response that is missing every later one tells, all those that are under way,
 * which may take many round trips: only the timer counts for it.
 */
void sroce_repair_nak(struct sroce_qp *qp, bool told)
{
	struct sroce_sq *sq = &qp->sq;

	if (told)
		sroce_qp_count(qp, SEQ_ERR);
	/*
	 * That is where it will go on anyway: rdma_rxe, having said that it is
	 * not ready for a packet, complains that the next ones lack it. A
	 * retry that was not made does not count.
	 */
	if (sq->rnr_wait || sq->psn_nxt == sq->psn_una || under_way(sq))
		return;
	if (may_hold(sq, told) && sroce_gaps_hold(qp, told)) {
		sq->repair.rest_due = KTIME_MAX;
		return;
	}
	sroce_cwnd_loss(qp, 1);
	if (!told) {
		sroce_qp_count(qp, IMPLIED_NAK);
		repair(qp, false, false);
	} else if (sq->repair.peer == SROCE_PEER_DROPS) {
		sroce_retry_nak(qp);
	} else {
		sroce_repair_told(qp, true);
	}
}

/**
 * sroce_repair_missing - for a while, the network is taken for one that loses packets
 * @sq: send side, the caller's
 * @now: the time
 */
void sroce_repair_missing(struct sroce_sq *sq, ktime_t now)
{
	sq->repair.lossy = ktime_add_ns(now, LOSSY_NS);
}

/**
 * sroce_repair_sent - what was missing has been sent again
 * @qp: queue pair; the caller owns its send side
 * @end: first packet behind it, or behind what was asked for
 * @lacks: of a READ request that the peer has, packets of the response that are missing in a
 *	row; else 0
 */
void sroce_repair_sent(struct sroce_qp *qp, u32 end, u32 lacks)
{
	struct sroce_sq *sq = &qp->sq;
	struct sroce_repair *r = &sq->repair;
	const ktime_t now = ktime_get();

	/* the rest of it follows without a sweep: ask_for_gap() */
	sroce_gaps_repaired(qp, lacks ? wire_psn_add(r->psn, lacks) : end, now);
	sroce_order_again(sq, wire_psn_diff(end, r->psn), r->probes || r->blind);
	r->out = true;
	r->once = !r->probes;
	r->end = end;
	r->lacks = lacks;
	r->sent = now;
	r->behind = sq->psn_end;
	sroce_repair_missing(sq, now);
	r->probe_due = probe_at(qp, now, sroce_repair_answer_ns(sq, now));
	trace_sroce_repair(qp, r->psn, end, r->told, r->probes);
}

/**
 * sroce_repair_swept - what was missing has been sent again, from several places
 * @qp: queue pair; the caller owns its send side
 */
void sroce_repair_swept(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;
	struct sroce_repair *r = &sq->repair;
	const ktime_t now = ktime_get();

	sroce_repair_missing(sq, now);
	/* of the oldest, and not of those that have become known since */
	if (r->probe_due == KTIME_MAX)
		r->probe_due = probe_at(qp, now, sroce_repair_answer_ns(sq, now));
	sroce_gaps_await(sq);
}

/* Is more of a READ's response missing than was asked for? */
static bool asks_part(const struct sroce_repair *r)
{
	return (s32)r->lacks > wire_psn_diff(r->end, r->psn);
}

/* All of that has come, and ends where no other response would. */
static bool part_answered(const struct sroce_sq *sq)
{
	const struct sroce_repair *r = &sq->repair;

	return r->out && asks_part(r) && sq->rsp_end == r->end;
}

/*
 * What has been sent again is answered, after @ns. What comes sooner than any round trip answers an
 * earlier sending, unless it is @sure that it does not. A long response takes its own time.
 */
static void note_answer(struct sroce_sq *sq, u64 ns, bool sure)
{
	struct sroce_repair *r = &sq->repair;

	if (!sure && ns < sroce_cwnd_least(sq))
		return;
	r->backed_off = 0;
	if (wire_psn_diff(r->end, r->psn) <= REPAIR_MAX)
		sroce_retry_smooth(&r->took, &r->took_var, ns);
}

/*
 * Nothing told what had become of a response, and what was asked for again of it has come: so much
 * was lost. What follows may only have been late.
 */
static void note_lost(struct sroce_qp *qp, u64 ns, bool sure)
{
	const struct sroce_repair *r = &qp->sq.repair;

	if (r->out && r->blind && r->lacks && (sure || ns >= sroce_cwnd_least(&qp->sq)))
		sroce_cwnd_loss(qp, wire_psn_diff(r->end, r->psn));
}

/**
 * sroce_repair_moved - @psn_una has moved
 * @qp: queue pair; the caller owns its send side
 */
void sroce_repair_moved(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;
	struct sroce_repair *r = &sq->repair;
	ktime_t now;
	s32 beyond;
	bool sure;
	u64 ns;

	r->once &= !r->probes;
	/* the longer time stays until one is measured (Karn) */
	r->backed_off = probe_shift(r);
	r->probes = 0;
	r->probe_due = KTIME_MAX;
	if (likely(!r->out && !r->due))
		return;
	beyond = r->out ? wire_psn_diff(sq->psn_una, r->end) : 1;
	if (beyond < 0)
		return;
	now = ktime_get();
	ns = ktime_to_ns(ktime_sub(now, r->sent));
	sure = part_answered(sq);
	if (r->out && (sure ? !r->twice : r->once))
		note_answer(sq, ns, sure);
	note_lost(qp, ns, sure);
	if (sure && !beyond) {
		repair(qp, false, false);
		return;
	}
	if (beyond > 0 || sq->psn_una == sq->psn_nxt || sroce_gaps_under_way(sq, now)) {
		if (r->out && r->told && beyond > 0)
			r->peer = SROCE_PEER_KEEPS;
		sroce_repair_forget(qp);
	} else {
		/* what was sent before it has its answer by then, unless this answers a probe */
		r->rest_due = ktime_add_ns(r->once ? r->sent : now,
					   sroce_repair_answer_ns(sq, now));
		r->rest_due = max_t(ktime_t, r->rest_due, ktime_add_ns(now, probe_min(sq)));
	}
}

/*
 * All from psn_una on: a peer of whom nothing better is known gets it, and so does one that keeps but
 * lacked all that it has got in ever longer runs: the network was gone for a while. Who answers
 * with data shows by this that it keeps nothing, as no acknowledgement does.
 */
static void rest(struct sroce_qp *qp, ktime_t now)
{
	struct sroce_repair *r = &qp->sq.repair;

	if (asks_part(r) ||
	    ((r->peer == SROCE_PEER_KEEPS || r->reports) && r->num < REPAIR_MAX)) {
		repair(qp, false, true);
		return;
	}
	if (r->told && r->once && r->peer == SROCE_PEER_UNKNOWN && !r->reports) {
		r->peer = SROCE_PEER_DROPS;
		r->vain = RELEARN;
	}
	sroce_retry_go_back(qp, now, 0, false);
}

/**
 * sroce_repair_acked - an acknowledgement has come, and goes as far as @psn_una
 * @qp: queue pair; the caller owns its send side
 *
 * If that is to the end of what a NAK has asked for, then the peer has kept
 * nothing that came behind it. With more than one sending of that, it may have
 * been the answer to the second, when the next NAK was lost. One that reports gaps
 * keeps: it may wait for memory of its own. If it does not go on, rest() sees to it.
 */
void sroce_repair_acked(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;
	struct sroce_repair *r = &sq->repair;

	if (likely(!r->out) || !r->told || !r->once || r->end != sq->psn_una || r->reports)
		return;
	/* one that has kept before may have been short of room */
	if (r->peer == SROCE_PEER_KEEPS) {
		r->peer = SROCE_PEER_UNKNOWN;
	} else {
		r->peer = SROCE_PEER_DROPS;
		r->vain = RELEARN;
	}
	sroce_retry_go_back(qp, ktime_get(), 0, false);
}

/**
 * sroce_repair_vain - all had to be sent again to a peer that keeps nothing
 * @qp: queue pair; the caller owns its send side
 */
void sroce_repair_vain(struct sroce_qp *qp)
{
	struct sroce_repair *r = &qp->sq.repair;

	if (r->peer == SROCE_PEER_DROPS && !--r->vain)
		r->peer = SROCE_PEER_UNKNOWN;
}

/**
 * sroce_repair_run - see whether an answer is overdue
 * @qp: queue pair; the caller owns its send side
 * @now: the time
 */
void sroce_repair_run(struct sroce_qp *qp, ktime_t now)
{
	struct sroce_sq *sq = &qp->sq;
	struct sroce_repair *r = &sq->repair;
	bool again, part, told, blind;

	if (ktime_compare(now, r->rest_due) >= 0) {
		rest(qp, now);
		return;
	}
	if (ktime_compare(now, r->probe_due) < 0)
		return;
	r->probe_due = KTIME_MAX;
	/*
	 * Nothing is out, or it or all is about to be sent again: as soon as what held it back is
	 * over, and the same timer may tell of that.
	 */
	if (r->due || sq->rnr_wait || sq->psn_nxt == sq->psn_una || sroce_gaps_release(qp, now))
		return;
	r->probes = min(r->probes + 1, PROBES_MAX);
	sroce_qp_count(qp, TAIL_PROBES);
	/* one that a NAK has asked for may have been lost again: it still wants an answer */
	again = r->out && sq->psn_una == r->psn;
	told = again && r->told;
	/* some of what was asked for has come, and the rest of that has not */
	part = r->out && r->lacks && !again && wire_psn_diff(r->end, sq->psn_una) > 0;
	if (part)
		sroce_cwnd_loss(qp, wire_psn_diff(r->end, sq->psn_una));
	blind = !part && (!again || r->blind);
	r->out = again;
	repair(qp, told, blind);
}

/**
 * sroce_repair_arm - a turn ends, with something out
 * @qp: queue pair; the caller owns its send side
 * @now: the time
 */
void sroce_repair_arm(struct sroce_qp *qp, ktime_t now)
{
	struct sroce_sq *sq = &qp->sq;
	struct sroce_repair *r = &sq->repair;

	/* it has not left: what holds it back tells when it may, and its probe is due after that */
	if (r->due)
		return;
	if (r->probe_due == KTIME_MAX) {
		const ktime_t due = probe_at(qp, now, probe_ns(sq, now));

		if (due != KTIME_MAX)
			r->probe_due = min(sroce_gaps_due(sq, now), due);
	}
	sroce_gaps_await(sq);
}

/**
 * sroce_repair_slack - how much later than a deadline its timer may fire
 * @sq: send side, the caller's
 * @due: the deadline
 *
 * Of many queue pairs with little to do each, every one would otherwise have its
 * processor interrupted after each message, for nothing.
 *
 * Return: nanoseconds.
 */
u64 sroce_repair_slack(const struct sroce_sq *sq, ktime_t due)
{
	return due == sq->repair.probe_due && calm(sq, due) ? PROBE_SLACK_NS : 0;
}
