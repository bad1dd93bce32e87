// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Time on the send side: retransmission, RNR and a device that is full.
 *
 * One timer serves them all. The owner of the send side keeps the deadlines
 * and arms the timer; the timer does nothing but wake an owner, who sees
 * whether a deadline has passed. One that moves on leaves the timer alone:
 * it fires early, once, and is armed for the rest.
 */
#include "sroce.h"
#include "trace.h"

/* Until a route is looked for again */
#define ROUTE_MS	10

/* RNR NAK timer field, in units of 10 us: IBTA Vol.1 table 45 */
static const u32 rnr_timer[32] = {
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
	1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

/* A requester may take up to four times the local ACK timeout (9.7.6.1.3) */
#define TIMEOUT_SHIFT	2U

/*
 * The first time is the timeout T, and each in a row twice the last until four T: a peer that is
 * slow or short of CPU gets 27 T of the usual 7 retries, and a lost packet costs no more than T.
 * Where a queue makes the round trip longer, a probe (repair.c) is waited for, and its answer.
 * Until it has been measured, the longer time stays (RFC 6298, section 5.7): by T, every window
 * would be late.
 */
static ktime_t ack_deadline(const struct sroce_qp *qp, ktime_t now)
{
	const struct sroce_sq *sq = &qp->sq;
	const u32 in_a_row = max_t(u32, qp->retry_cnt - sq->retry_left, sq->cwnd.timeouts);
	const u64 timeout = qp_ack_timeout_ns(qp);
	const u64 rtt = 3 * sq->srtt + max(4 * sq->rttvar, sq->srtt / 2);

	if (!timeout)
		return KTIME_MAX;
	return ktime_add_ns(now, clamp(rtt, timeout << min(in_a_row, TIMEOUT_SHIFT),
				       timeout << TIMEOUT_SHIFT));
}

/* The next deadline; KTIME_MAX for none. */
static ktime_t next_due(const struct sroce_sq *sq)
{
	ktime_t next = min3(sq->deadline, sq->backoff, sq->nak_due);

	return min3(next, sq->repair.probe_due, sq->repair.rest_due);
}

/**
 * sroce_retry_timer - a deadline may have passed
 * @timer: the send side's
 *
 * Softirq. Where all has been acknowledged meanwhile, there is nothing to be
 * done; an owner that sets a deadline later finds the timer not queued.
 *
 * Return: HRTIMER_NORESTART: an owner arms it.
 */
enum hrtimer_restart sroce_retry_timer(struct hrtimer *timer)
{
	struct sroce_qp *qp = container_of(timer, struct sroce_qp, sq.timer);

	/* pairs with sroce_retry_arm(): we see its deadline, or it sees us not queued */
	smp_mb();
	if (READ_ONCE(qp->sq.timer_due) == KTIME_MAX)
		return HRTIMER_NORESTART;
	set_bit(SROCE_SQ_TIMER, &qp->sq.flags);
	/* not from here: a turn arms this timer, which is not yet done */
	sroce_task_schedule(&qp->sq.task);
	return HRTIMER_NORESTART;
}

/**
 * sroce_retry_go_back - send again all from the oldest packet that is missing
 * @qp: queue pair; the caller owns its send side
 * @now: the time
 * @syndrome: AETH syndrome that asks for it, or 0
 * @counts: as a retry; if none is left, the request fails instead
 */
void sroce_retry_go_back(struct sroce_qp *qp, ktime_t now, u8 syndrome, bool counts)
{
	struct sroce_sq *sq = &qp->sq;

	sq->nak_due = KTIME_MAX;
	sroce_repair_forget(qp);
	sroce_gaps_reset(qp);
	if (counts && !sq->retry_left) {
		/* with a route that never came, the oldest has not been sent */
		if (sq->una != sq->fetched)
			sroce_send_fail(qp, IB_WC_RETRY_EXC_ERR, syndrome);
		return;
	}
	sq->retry_left -= counts;
	sq->went_back = now;
	sroce_order_again(sq, wire_psn_diff(sq->psn_nxt, sq->psn_una), true);
	sroce_qp_count(qp, GO_BACKS);
	sroce_repair_vain(qp);
	trace_sroce_retransmit(qp, sq->psn_una);
	sroce_send_seek(qp, sq->psn_una);
}

/**
 * sroce_retry_nak - a peer that keeps nothing lacks the packet at @psn_una
 * @qp: queue pair; the caller owns its send side
 *
 * On a network that reorders, each packet that comes early makes a NAK, and
 * going back for each would send a window of copies for every one: more than
 * any queue takes. Within a round trip of the last time, the packet is under
 * way again already; if it is still missing after that, we go back.
 */
void sroce_retry_nak(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;
	const ktime_t now = ktime_get();
	ktime_t due;

	due = ktime_add_ns(sq->went_back, sq->srtt);
	if (ktime_compare(now, due) < 0)
		sq->nak_due = due;
	else
		sroce_retry_go_back(qp, now, WIRE_AETH_NAK | WIRE_NAK_PSN_SEQ, true);
}

/**
 * sroce_retry_time - time a packet that leaves for the first time
 * @qp: queue pair; the caller owns its send side
 * @psn: the packet, which asks for an acknowledgement
 */
void sroce_retry_time(struct sroce_qp *qp, u32 psn)
{
	struct sroce_sq *sq = &qp->sq;

	if (sq->rtt_start)
		return;
	sq->rtt_psn = psn;
	sq->rtt_start = ktime_get();
	sroce_cwnd_time(qp);
	sq->rtt_held = sq->repair.due || sq->repair.out || sq->sweep.arrived;
}

/**
 * sroce_retry_smooth - a time has been measured once more (RFC 6298)
 * @mean: smoothed, in nanoseconds; 0 before the first
 * @off: how far times are off that, on the average
 * @ns: the time
 */
void sroce_retry_smooth(u64 *mean, u64 *off, u64 ns)
{
	u64 now_off;

	if (!*mean) {
		*mean = max(ns, 1ULL);
		*off = ns / 2;
		return;
	}
	now_off = ns > *mean ? ns - *mean : *mean - ns;
	*off += now_off / 4 - *off / 4;
	*mean += ns / 8 - *mean / 8;
}

/**
 * sroce_retry_arrived - the peer says that it has the packet that is timed
 * @qp: queue pair; the caller owns its send side
 */
void sroce_retry_arrived(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;
	const u64 ns = ktime_to_ns(ktime_sub(ktime_get(), sq->rtt_start));

	sq->rtt_start = 0;
	sq->repair.backed_off = 0;
	sroce_order_judge(sq);
	sroce_retry_smooth(&sq->srtt, &sq->rttvar, ns);
	sroce_cwnd_rtt(qp, ns);
}

/**
 * sroce_retry_acked - @psn_una has moved: has the timed packet arrived?
 * @qp: queue pair; the caller owns its send side
 */
void sroce_retry_acked(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;

	/* what was missing has come */
	sq->nak_due = KTIME_MAX;
	if (!sq->rtt_start || wire_psn_diff(sq->psn_una, sq->rtt_psn) <= 0)
		return;
	/* too long is better than none at all, which would have all taken for lost */
	if (sq->rtt_held && sq->srtt && sq->cwnd.timeouts < SROCE_CWND_VAIN)
		sq->rtt_start = 0;
	else
		sroce_retry_arrived(qp);
}

/*
 * A peer that has only been slow does not need a window of copies; one that
 * lacks the rest as well says so by its answer to the oldest.
 */
static void timeout(struct sroce_qp *qp, ktime_t now)
{
	struct sroce_sq *sq = &qp->sq;

	/* no answer can be there yet: nothing is lost, as far as is known */
	if (sq->srtt < qp_ack_timeout_ns(qp) << TIMEOUT_SHIFT)
		sroce_cwnd_timeout(qp);
	sroce_gaps_reset(qp);
	if (!sq->retry_left || sq->psn_nxt == sq->psn_una) {
		sroce_retry_go_back(qp, now, 0, true);
		return;
	}
	sq->retry_left--;
	sroce_repair_oldest(qp);
}

/*
 * The timer fired so late that the probe due before the deadline was never sent: the host was
 * stalled, and answers may be queued. The deadline is extended by the time that the probe would
 * have had.
 */
static void late_deadline(struct sroce_sq *sq, ktime_t now)
{
	const ktime_t probe = sq->repair.probe_due;

	if (ktime_compare(now, sq->deadline) >= 0 && ktime_compare(probe, sq->deadline) < 0)
		sq->deadline = ktime_add(now, ktime_sub(sq->deadline, probe));
}

/**
 * sroce_retry_run - see which deadlines have passed
 * @qp: queue pair; the caller owns its send side
 */
void sroce_retry_run(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;
	ktime_t now;

	if (!test_and_clear_bit(SROCE_SQ_TIMER, &sq->flags))
		return;
	now = ktime_get();
	if (ktime_compare(now, sq->backoff) >= 0)
		sq->backoff = KTIME_MAX;
	if (qp->state != IB_QPS_RTS && qp->state != IB_QPS_SQD)
		return;
	late_deadline(sq, now);
	if (ktime_compare(now, sq->deadline) >= 0) {
		sq->deadline = KTIME_MAX;
		if (sq->rnr_wait) {
			sq->rnr_wait = false;
			return;
		}
		/* its answer is not late */
		if (sroce_repair_kept_until(qp, now))
			return;
		sroce_qp_count(qp, ACK_TIMEOUT);
		timeout(qp, now);
	} else if (ktime_compare(now, sq->nak_due) >= 0) {
		sroce_retry_go_back(qp, now, 0, false);
	} else {
		sroce_repair_run(qp, now);
	}
}

/**
 * sroce_retry_progress - something was acknowledged: all counts start anew
 * @qp: queue pair; the caller owns its send side
 */
void sroce_retry_progress(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;

	sq->retry_left = qp->retry_cnt;
	sq->rnr_left = qp->rnr_retry;
	sq->rnr_wait = false;
	sq->rnr_probe = false;
	sq->deadline = KTIME_MAX;
}

/**
 * sroce_retry_rnr - wait as long as the peer says
 * @qp: queue pair; the caller owns its send side
 * @code: the RNR NAK's timer field
 *
 * And not less than a round trip, then for what comes of one packet: where both
 * ends share a CPU, a window every 10 us would leave the program none to post
 * what it is to be ready with.
 */
void sroce_retry_rnr(struct sroce_qp *qp, u8 code)
{
	struct sroce_sq *sq = &qp->sq;

	sroce_repair_forget(qp);
	sroce_gaps_reset(qp);
	sq->rnr_wait = true;
	sq->rnr_probe = true;
	sq->deadline = ktime_add_ns(ktime_get(),
				    max(rnr_timer[code] * 10ULL * NSEC_PER_USEC, sq->srtt));
}

/**
 * sroce_retry_backoff - the device or memory is full: try again soon
 * @qp: queue pair; the caller owns its send side
 *
 * Not a retry of the protocol's: nothing was sent.
 */
void sroce_retry_backoff(struct sroce_qp *qp)
{
	qp->sq.backoff = ktime_add_ns(ktime_get(), SROCE_BACKOFF_NS);
}

/**
 * sroce_retry_no_route - there is no way to the peer: look again soon
 * @qp: queue pair; the caller owns its send side
 *
 * The acknowledgement timeout runs meanwhile, as for packets that were lost.
 */
void sroce_retry_no_route(struct sroce_qp *qp)
{
	qp->sq.no_route = true;
	qp->sq.backoff = ktime_add_ms(ktime_get(), ROUTE_MS);
}

/*
 * What a rate keeps back has all of its time from when it may leave: then it is not late, and no
 * look is due before. Return: it is so.
 */
static bool keep_back(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;
	const ktime_t until = unlikely(READ_ONCE(qp->pace.paced)) ?
			      sroce_repair_kept_until(qp, ktime_get()) : 0;

	if (!until)
		return false;
	sq->deadline = ack_deadline(qp, until);
	/* when all has been sent again, its probe is due after that */
	sq->repair.probe_due = sq->repair.due ? until : KTIME_MAX;
	return true;
}

/**
 * sroce_retry_cap - the program sets a rate, and what the one before keeps back is not late
 * @qp: queue pair; the caller owns its send side, and looks at it again
 * @kbps: as of sroce_pace_cap()
 * @burst: as of sroce_pace_cap()
 */
void sroce_retry_cap(struct sroce_qp *qp, u32 kbps, u32 burst)
{
	const bool kept = sroce_repair_kept_until(qp, ktime_get());

	sroce_pace_cap(qp, kbps, burst);
	/* it may leave at another time now, from which they have to count */
	if (kept) {
		qp->sq.deadline = KTIME_MAX;
		qp->sq.repair.probe_due = KTIME_MAX;
	}
}

/* What is waited for, and how long. */
static void set_deadlines(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;
	const bool out = sq->psn_una != sq->psn_end;
	/*
	 * In SQD nothing begins, with a route or without (10.3.1.1); and what was to be sent again
	 * when there was none may have been acknowledged since.
	 */
	const bool no_route = sq->no_route && sq->una != sq->fetched && qp->state == IB_QPS_RTS;
	ktime_t now;

	if (sq->rnr_wait)
		return;
	/* while memory of ours is brought, nothing is said or heard that counts */
	if (sq->fault.active || (!no_route && !out)) {
		sq->deadline = KTIME_MAX;
		sq->repair.probe_due = KTIME_MAX;
		return;
	}
	if (out && keep_back(qp))
		return;
	if (sq->deadline != KTIME_MAX && sq->repair.probe_due != KTIME_MAX)
		return;
	now = ktime_get();
	if (sq->deadline == KTIME_MAX)
		sq->deadline = ack_deadline(qp, now);
	if (out)
		sroce_repair_arm(qp, now);
}

/**
 * sroce_retry_arm - a turn ends: see that the next deadline wakes somebody
 * @qp: queue pair; the caller owns its send side
 */
void sroce_retry_arm(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;
	ktime_t next = KTIME_MAX;
	u64 slack;

	if (qp->state == IB_QPS_RTS || qp->state == IB_QPS_SQD) {
		set_deadlines(qp);
		next = next_due(sq);
	}
	WRITE_ONCE(sq->timer_due, next);
	if (next == KTIME_MAX)
		return;
	slack = sroce_repair_slack(sq, next);
	/* a deadline before a look at the timer, which may be firing for an older one */
	smp_mb();
	/* one that is queued may fire as late as it says, and so may this one */
	if (!hrtimer_is_queued(&sq->timer) ||
	    ktime_compare(ktime_add_ns(next, slack), hrtimer_get_expires(&sq->timer)) < 0)
		hrtimer_start_range_ns(&sq->timer, next, slack, HRTIMER_MODE_ABS_SOFT);
}

/**
 * sroce_retry_reset - as in a new queue pair
 * @qp: queue pair; the caller owns its send side
 */
void sroce_retry_reset(struct sroce_qp *qp)
{
	sroce_retry_progress(qp);
	qp->sq.backoff = KTIME_MAX;
	qp->sq.nak_due = KTIME_MAX;
	WRITE_ONCE(qp->sq.timer_due, KTIME_MAX);
	qp->sq.went_back = 0;
	qp->sq.rtt_start = 0;
	qp->sq.srtt = 0;
	qp->sq.rttvar = 0;
	sroce_repair_reset(qp);
	sroce_gaps_reset(qp);
	sroce_cwnd_reset(qp);
	sroce_pace_reset(qp);
	sroce_kept_purge(qp, &qp->sq.kept);
	qp->sq.no_route = false;
	qp->sq.refusals = 0;
	clear_bit(SROCE_SQ_TIMER, &qp->sq.flags);
}
