// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Congestion: how much a queue pair may have under way, and how fast it sends.
 *
 * The window is for networks that drop. It follows what the network delivers in
 * a round trip, and gives way where packets are lost while round trips are long:
 * a queue overflows. Losses without that are the network's own, and cost nothing
 * but the packet. Round trips are those of the requester's packets (retry.c).
 *
 * The rate is for networks that mark (ECN, RFC 3168). Who gets a marked packet
 * notifies its sender (CNP, IBTA Vol.1 Annex A17.9.3), who slows down by the
 * rules of DCQCN: Zhu et al., "Congestion Control for Large-Scale RDMA
 * Deployments", SIGCOMM 2015, section 3 and figure 7; names are theirs. It is
 * one for requests and responses. As long as nobody is notified, there is none.
 *
 * A program may set a rate of its own (ibv_modify_qp_rate_limit()), of any queue pair that
 * sends. It is the send queue's: what answers the peer's requests is not held back by it.
 *
 * But for that, unreliable queue pairs have neither window nor rate: their device's queue is all
 * that holds them back. Their packets have the traffic class that the program gave (RFC 8311:
 * ECT is for senders who heed a mark).
 */
#include "sroce.h"
#include "trace.h"

/* Packets, so that a loss is seen by those behind it */
#define WINDOW_MIN		16U

/* Acknowledgements that are asked for in a window */
#define WINDOW_ASKS		4U

/* A long way */
#define SLOW_NS			NSEC_PER_MSEC
/*
 * Where a queue has overflowed there, one acknowledgement in so long: what one lets go leaves as a
 * burst, which that queue has no room for.
 */
#define ASK_NS			(200ULL * NSEC_PER_USEC)
#define ASK_MIN			2ULL
/* and for so long after it did */
#define SPARING_NS		(10ULL * NSEC_PER_SEC)

/* Packets of a small window that a network may lose, and not a queue */
#define LOST_MIN		4U

/* A round trip is that of an empty network if none was shorter for so long. */
#define SPAN_NS			(5ULL * NSEC_PER_SEC)

/* On top of a part of the least round trip: below that, it is processors that queue. */
#define QUEUE_NS		(100ULL * NSEC_PER_USEC)

/* DCQCN: not more than one notification in so long, N */
#define CNP_NS			(50U * NSEC_PER_USEC)
/* alpha falls when there was none for so long, K; by 1/256 */
#define ALPHA_NS		(55U * NSEC_PER_USEC)
#define ALPHA_ONE		(1U << 16)
#define ALPHA_SHIFT		8
/* the rate is raised after so long, T, and after so many bytes, B */
#define RAISE_NS		(55U * NSEC_PER_USEC)
/* but not more often in a round trip: their network has not one in T. So TCP has its share, too. */
#define RAISES_RTT		4U
#define RAISE_BYTES		(10U << 20)
/*
 * so often towards where it was, F; then beyond, in bytes a second: R_AI, R_HAI. Theirs
 * are for 40 Gb/s, and more than a slow link has: not more than this part of the rate.
 */
#define FAST_STEPS		5
#define RATE_AI			5000000ULL
#define RATE_HAI_TIMES		10
#define AI_SHIFT		9
#define RATE_MIN		125000ULL
#define MBIT_BYTES		125000ULL
#define KBIT_BYTES		125ULL

/* Raised as often in one go: by then it has recovered. */
#define RAISE_MAX		1024

/* What is sent at once lasts about so long, as a timer takes its time, too. */
#define QUANTUM_NS		(200U * NSEC_PER_USEC)
#define QUANTUM_MIN		2U
/* By a program's rate, what a timer that is late has not sent is sent after it, of so long */
#define CAP_CREDIT_NS		NSEC_PER_MSEC

/* Bytes of a packet besides its payload: Ethernet to FCS, IP, UDP, BTH, ICRC */
#define PKT_OVERHEAD		(18 + WIRE_IP4_LEN + WIRE_UDP_LEN + WIRE_BTH_LEN + WIRE_ICRC_LEN)

/* The window */

/*
 * A large window that ends within a burst would cut it in two. An acknowledgement is asked
 * for four times a window; what one lets go leaves at once, and that is not more than a
 * burst in a window that has grown.
 */
static void set_pkts(struct sroce_qp *qp, u32 pkts)
{
	const u32 burst = SROCE_SEND_WINDOW / WINDOW_ASKS / qp->mtu;
	struct sroce_cwnd *w = &qp->sq.cwnd;

	w->pkts = pkts;
	w->limit = pkts < WINDOW_ASKS * burst ? pkts : rounddown(pkts, burst);
	w->most = min_t(u32, SROCE_KEPT_MAX_PKTS, SROCE_WINDOW_MAX / qp->mtu);
	w->ask = min(pkts / WINDOW_ASKS, burst);
	w->sparing = w->ssthresh != U32_MAX && qp->sq.srtt >= SLOW_NS &&
		     ktime_before(ktime_get(), ktime_add_ns(w->cut, SPARING_NS));
	if (w->sparing)
		w->ask = min_t(u64, w->ask, max(div64_u64(pkts * ASK_NS, qp->sq.srtt), ASK_MIN));
}

/**
 * sroce_cwnd_reset - as in a new queue pair
 * @qp: queue pair; the caller owns its send side
 */
void sroce_cwnd_reset(struct sroce_qp *qp)
{
	struct sroce_cwnd *w = &qp->sq.cwnd;

	w->ssthresh = U32_MAX;
	set_pkts(qp, SROCE_SEND_WINDOW / qp->mtu);
	w->full = false;
	w->num_rtt = 0;
	w->timeouts = 0;
	w->lost = 0;
	w->undo_pkts = 0;
	w->rtt_least[0] = U64_MAX;
	w->rtt_least[1] = U64_MAX;
	w->span_end = 0;
	w->recover = qp->sq.psn_una;
	w->burst_arrived = qp->sq.psn_una;
}

/* Packets that the peer has behind one that it lacks */
static u32 behind_gaps(const struct sroce_sq *sq)
{
	/* of a READ that is being answered, a part is not spare any more */
	return sq->sweep.arrived - min(sq->sweep.arrived, sq->sweep.spare);
}

/**
 * sroce_cwnd_open - may one more packet be under way?
 * @qp: queue pair; the caller owns its send side
 *
 * What has arrived behind a gap is not under way any more, but its peer has to
 * keep it until the gap is filled.
 *
 * Return: true if so.
 */
bool sroce_cwnd_open(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;
	const u32 behind = behind_gaps(sq);
	struct sroce_cwnd *w = &sq->cwnd;
	u32 limit = w->limit;

	if (unlikely(sq->sweep.num == WIRE_GAPS_MAX) && sroce_gaps_full(sq))
		limit *= 4;
	if (sq->flight - min(sq->flight, behind) < limit && sq->flight < w->most)
		return true;
	w->full = true;
	return false;
}

/* As a PSN; what is missing does not count. */
static u32 arrived(const struct sroce_sq *sq)
{
	return wire_psn_add(sq->psn_una, behind_gaps(sq) + sq->kept.num);
}

/**
 * sroce_cwnd_time - a packet that is timed is about to leave
 * @qp: queue pair; the caller owns its send side
 */
void sroce_cwnd_time(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;

	sq->cwnd.rtt_arrived = arrived(sq);
}

/**
 * sroce_cwnd_burst - how many packets may leave in this turn, for the first time
 * @qp: queue pair; the caller owns its send side
 *
 * Where a slow queue has overflowed, what two acknowledgements stand for, or twice what has
 * arrived since the last turn: as an acknowledgement may stand for all of a burst, and what is
 * under way has to grow to a window. The next one lets go the rest.
 *
 * Return: packets; one of so many in a row asks for an acknowledgement.
 */
u32 sroce_cwnd_burst(struct sroce_qp *qp)
{
	struct sroce_cwnd *w = &qp->sq.cwnd;
	const u32 upto = arrived(&qp->sq);
	const s32 more = wire_psn_diff(upto, w->burst_arrived);

	w->burst_arrived = upto;
	return w->sparing ? 2 * max_t(s32, w->ask, more) : U32_MAX;
}

static u64 rtt_least(const struct sroce_cwnd *w)
{
	return min(w->rtt_least[0], w->rtt_least[1]);
}

/**
 * sroce_cwnd_least - the time that any answer takes, as far as is known
 * @sq: send side, the caller's
 *
 * Return: nanoseconds; 0 before anything was measured.
 */
u64 sroce_cwnd_least(const struct sroce_sq *sq)
{
	const u64 least = rtt_least(&sq->cwnd);

	return least == U64_MAX ? 0 : least;
}

/* @delivered: packets in that time */
static void note_rtt(struct sroce_cwnd *w, u64 ns, u64 delivered)
{
	const ktime_t now = ktime_get();

	if (ktime_after(now, w->span_end)) {
		w->rtt_least[1] = w->rtt_least[0];
		w->rtt_least[0] = U64_MAX;
		w->span_end = ktime_add_ns(now, SPAN_NS);
	}
	w->rtt_least[0] = min(w->rtt_least[0], ns);
	w->rtt[w->num_rtt % SROCE_CWND_RTTS] = ns;
	/* at the rate of its round trip */
	w->fits[w->num_rtt++ % SROCE_CWND_RTTS] = div64_u64(delivered * rtt_least(w), ns);
}

/* Of the last few: one that was cut short, or in which a processor was busy, has little. */
static u32 most_fits(const struct sroce_cwnd *w)
{
	const u32 num = min_t(u32, w->num_rtt, SROCE_CWND_RTTS);
	u32 i, most = 0;

	for (i = 0; i < num; i++)
		most = max(most, w->fits[i]);
	return most;
}

/* The shortest of the last few; there is one. */
static u64 rtt_now(const struct sroce_cwnd *w)
{
	const u32 num = min_t(u32, w->num_rtt, SROCE_CWND_RTTS);
	u64 rtt = U64_MAX;
	u32 i;

	for (i = 0; i < num; i++)
		rtt = min(rtt, w->rtt[i]);
	return rtt;
}

/* Are round trips longer than those of an empty network, by @nth of that? */
static bool rtt_beyond(const struct sroce_cwnd *w, u32 nth)
{
	const u64 least = rtt_least(w);

	return w->num_rtt >= SROCE_CWND_RTTS && rtt_now(w) > least + least / nth + QUEUE_NS;
}

/* Of @pkts in the last round trip, those that the network takes without a queue. */
static u32 unqueued(const struct sroce_cwnd *w, u32 pkts)
{
	return div64_u64((u64)pkts * rtt_least(w), rtt_now(w));
}

/* In a round trip: less, the nearer to where it is too large. */
static u32 growth(const struct sroce_cwnd *w)
{
	if (w->pkts < w->ssthresh)
		return w->pkts;
	if (w->num_rtt >= SROCE_CWND_RTTS && !rtt_beyond(w, 4))
		return w->pkts / 4;
	return 1 + w->pkts / 64;
}

/* On a long way, as long as nothing has been cut, nor queues: there a window that doubles saves time. */
static bool slow_start(const struct sroce_cwnd *w)
{
	return w->ssthresh == U32_MAX && rtt_least(w) >= SLOW_NS && !rtt_beyond(w, 4);
}

/**
 * sroce_cwnd_rtt - a round trip has been measured
 * @qp: queue pair; the caller owns its send side
 * @ns: nanoseconds that it took
 *
 * A window that was full grows: up to SROCE_SEND_WINDOW in any case, and beyond
 * that up to half as much again as is delivered in the least round trip; three times
 * as much where slow_start() says so.
 */
void sroce_cwnd_rtt(struct sroce_qp *qp, u64 ns)
{
	struct sroce_cwnd *w = &qp->sq.cwnd;
	const u32 most = SROCE_WINDOW_MAX / 2 / qp->mtu;
	u32 limit;

	note_rtt(w, max(ns, 1ULL), max(wire_psn_diff(arrived(&qp->sq), w->rtt_arrived), 0));
	w->timeouts = 0;
	w->lost = 0;
	if (!w->full) {
		/* it may have become faster */
		if (w->sparing)
			set_pkts(qp, w->pkts);
		return;
	}
	w->full = false;
	limit = most_fits(w) * 3 / (slow_start(w) ? 1 : 2);
	limit = max_t(u32, SROCE_SEND_WINDOW / qp->mtu, limit);
	limit = min(limit, most);
	if (w->pkts == limit) {
		if (w->sparing)
			set_pkts(qp, w->pkts);
		return;
	}
	if (w->pkts > limit)
		set_pkts(qp, max(limit, w->pkts - w->pkts / 8));
	else
		set_pkts(qp, min(w->pkts + growth(w), limit));
	trace_sroce_cwnd(qp, false);
}

static void shrink(struct sroce_qp *qp, u32 pkts, u32 ssthresh)
{
	struct sroce_cwnd *w = &qp->sq.cwnd;

	w->uncut = w->pkts;
	w->gone = 0;
	w->cut_psn = qp->sq.psn_una;
	w->ssthresh = max(ssthresh, WINDOW_MIN);
	w->cut = ktime_get();
	set_pkts(qp, max(pkts, WINDOW_MIN));
	w->recover = qp->sq.psn_nxt;
	/* what was measured until now is of the window as it was; too long is better than nothing */
	w->num_rtt = 0;
	w->lost = 0;
	if (qp->sq.srtt && w->timeouts < SROCE_CWND_VAIN)
		qp->sq.rtt_start = 0;
	trace_sroce_cwnd(qp, true);
}

/*
 * Of the window that was cut, more is missing than was known: if it is most of it, as much as came
 * is what the way has room for. A READ may have asked for many windows: what lies behind the first
 * tells nothing of that.
 */
static void cut_deeper(struct sroce_qp *qp, u32 pkts)
{
	struct sroce_cwnd *w = &qp->sq.cwnd;
	u32 came;

	if (wire_psn_diff(qp->sq.psn_una, w->cut_psn) > (s32)w->uncut)
		return;
	w->gone = min(w->gone + pkts, w->uncut);
	came = max(w->uncut - w->gone, WINDOW_MIN);
	if (w->gone <= w->uncut / 2 || came >= w->pkts)
		return;
	w->ssthresh = came;
	set_pkts(qp, came);
	trace_sroce_cwnd(qp, true);
}

/**
 * sroce_cwnd_loss - something has been found missing
 * @qp: queue pair; the caller owns its send side
 * @pkts: packets that were not known to be
 *
 * One round trip's losses count once. Where round trips are not long, it is the
 * network that loses, unless that is a sixteenth of the window: then a queue was
 * too short for a burst. The window falls to 0.7 (that of CUBIC, RFC
 * 9438, section 4.6), but not below what the network takes without a queue; or to what came, if that
 * is less than half: see cut_deeper(), which goes on counting what turns out to be missing of it.
 */
void sroce_cwnd_loss(struct sroce_qp *qp, u32 pkts)
{
	struct sroce_cwnd *w = &qp->sq.cwnd;
	u32 lost;

	/* what this cuts is not for what was sent again before it */
	sroce_order_judge(&qp->sq);
	if (wire_psn_diff(qp->sq.psn_una, w->recover) < 0) {
		cut_deeper(qp, pkts);
		return;
	}
	w->lost += pkts;
	if (w->lost <= w->pkts / 16 + LOST_MIN && !rtt_beyond(w, 1))
		return;
	lost = w->lost;
	if (!w->undo_pkts)
		w->undo_ssthresh = w->ssthresh;
	w->undo_pkts = max(w->undo_pkts, w->pkts);
	pkts = max(w->pkts * 7 / 10, min(w->pkts * 7 / 8, unqueued(w, w->pkts)));
	shrink(qp, pkts, pkts);
	cut_deeper(qp, lost);
}

/**
 * sroce_cwnd_judged - it is known whether what was sent again since the last time had been lost
 * @qp: queue pair; the caller owns its send side
 * @late: most of it had not, and what was cut for that is undone
 *
 * As RFC 4015 has it, the window grows to what it was by the round trip, and not by a burst; but to
 * what every queue pair begins with at once.
 */
void sroce_cwnd_judged(struct sroce_qp *qp, bool late)
{
	struct sroce_cwnd *w = &qp->sq.cwnd;
	const u32 pkts = w->undo_pkts;

	w->undo_pkts = 0;
	if (!late || !pkts)
		return;
	w->ssthresh = max(w->ssthresh, w->undo_ssthresh);
	/* nor does what turns out to be missing of it cut_deeper() */
	w->uncut = 0;
	set_pkts(qp, max(w->pkts, min(pkts, SROCE_SEND_WINDOW / qp->mtu)));
	trace_sroce_cwnd(qp, false);
}

/**
 * sroce_cwnd_acked - @psn_una has moved: is that what was under way when a timeout came?
 * @qp: queue pair; the caller owns its send side
 * @pkts: by so many packets
 *
 * What is sent again is not timed (Karn), so no round trip lets the window grow until all of it has
 * arrived: what is acknowledged does, as in RFC 5681's slow start.
 */
void sroce_cwnd_acked(struct sroce_qp *qp, u32 pkts)
{
	const struct sroce_sq *sq = &qp->sq;
	const struct sroce_cwnd *w = &sq->cwnd;

	if (w->ssthresh == U32_MAX || w->pkts >= w->ssthresh || !w->full ||
	    (sq->psn_nxt == sq->psn_left && wire_psn_diff(sq->psn_una, w->recover) > 0))
		return;
	set_pkts(qp, min(w->pkts + min(pkts, w->pkts), w->ssthresh));
}

/**
 * sroce_cwnd_timeout - the oldest packet was not answered for as long as it may take
 * @qp: queue pair; the caller owns its send side
 *
 * If those behind it were, it has been unlucky, and no more. A second one in a row leaves ssthresh
 * alone: the window is small because of the first (RFC 5681, section 3.1).
 */
void sroce_cwnd_timeout(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;

	sq->cwnd.timeouts = min(sq->cwnd.timeouts + 1, U8_MAX);
	sq->cwnd.undo_pkts = 0;
	if (sq->sweep.arrived || sq->kept.num)
		shrink(qp, sq->cwnd.pkts * 7 / 10, sq->cwnd.pkts * 7 / 10);
	else
		shrink(qp, WINDOW_MIN, sq->cwnd.pkts > WINDOW_MIN ? sq->cwnd.pkts / 2 :
							   sq->cwnd.ssthresh);
}

/* The rates */

/* A frame is all of it but what checks it. */
static u32 overhead(const struct sroce_qp *qp)
{
	return qp->type == IB_QPT_RAW_PACKET ? ETH_FCS_LEN : PKT_OVERHEAD;
}

static enum hrtimer_restart pace_timer(struct hrtimer *timer)
{
	struct sroce_qp *qp = container_of(timer, struct sroce_qp, pace.timer);
	const bool answered = READ_ONCE(qp->pace.answered);

	/* pairs with wait_until() */
	smp_mb();
	/* they run in this order, and the first spends it all: in turns */
	if (answered && test_and_clear_bit(SROCE_SQ_BLOCKED, &qp->sq.flags))
		sroce_task_schedule(&qp->sq.task);
	if (test_and_clear_bit(SROCE_RESP_BLOCKED, &qp->rq.flags))
		sroce_task_schedule(&qp->rq.task);
	if (!answered && test_and_clear_bit(SROCE_SQ_BLOCKED, &qp->sq.flags))
		sroce_task_schedule(&qp->sq.task);
	return HRTIMER_NORESTART;
}

/**
 * sroce_pace_init - set up a queue pair's rate
 * @qp: queue pair
 */
void sroce_pace_init(struct sroce_qp *qp)
{
	spin_lock_init(&qp->pace.lock);
	hrtimer_setup(&qp->pace.timer, pace_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
}

/**
 * sroce_pace_exit - nobody will be woken any more
 * @qp: queue pair; nobody sends
 */
void sroce_pace_exit(struct sroce_qp *qp)
{
	hrtimer_cancel(&qp->pace.timer);
}

/* Notified of congestion, or not any more. The lock is held. */
static void set_limited(struct sroce_pace *p, bool limited)
{
	WRITE_ONCE(p->limited, limited);
	WRITE_ONCE(p->paced, limited || p->cap);
}

/**
 * sroce_pace_reset - as in a new queue pair
 * @qp: queue pair
 */
void sroce_pace_reset(struct sroce_qp *qp)
{
	struct sroce_pace *p = &qp->pace;

	spin_lock_bh(&p->lock);
	WRITE_ONCE(p->cap, 0);
	set_limited(p, false);
	spin_unlock_bh(&p->lock);
}

/**
 * sroce_pace_cap - the program sets a rate
 * @qp: queue pair; the caller owns its send side
 * @kbps: in thousands of bits a second, of packets as they are on Ethernet; 0 for none
 * @burst: bytes that may leave at once, one packet at least; 0 for some 1.2 ms of the rate
 *
 * What has been sent is paid for by the new rate: who sets it often is held to it.
 */
void sroce_pace_cap(struct sroce_qp *qp, u32 kbps, u32 burst)
{
	struct sroce_pace *p = &qp->pace;
	const u64 cap = kbps * KBIT_BYTES;
	u64 owed = 0;
	ktime_t now;

	spin_lock_bh(&p->lock);
	now = ktime_get();
	/* in nanobytes: of one turn, at whatever rate */
	if (p->cap && ktime_after(p->cap_next, now))
		owed = ktime_to_ns(ktime_sub(p->cap_next, now)) * p->cap;
	WRITE_ONCE(p->cap_next, ktime_add_ns(now, cap ? div64_u64(owed, cap) : 0));
	WRITE_ONCE(p->cap, cap);
	WRITE_ONCE(p->cap_burst, burst);
	set_limited(p, p->limited);
	spin_unlock_bh(&p->lock);
}

/* alpha = (1 - g) * alpha, for each K without a notification. */
static void alpha_fall(struct sroce_pace *p, ktime_t now)
{
	u64 steps = div_u64(ktime_to_ns(ktime_sub(now, p->alpha_at)), ALPHA_NS);

	/* 1024 of them leave 2 % */
	for (steps = min(steps, 1024ULL); steps; steps--)
		p->alpha -= p->alpha >> ALPHA_SHIFT;
}

/*
 * No less than a lane's: a tap says 10 Mb/s, whatever it carries, and of what is that slow indeed
 * a cut goes by the window.
 */
static u64 line_rate(const struct sroce_qp *qp)
{
	return max_t(u32, READ_ONCE(qp_dev(qp)->speed), SROCE_LANE_SPEED) * MBIT_BYTES;
}

/* Fast recovery, additive increase or hyper increase. */
static void raise(const struct sroce_qp *qp, struct sroce_pace *p)
{
	const u64 ai = min(RATE_AI, p->target >> AI_SHIFT), line = line_rate(qp);

	if (min(p->times, p->volumes) > FAST_STEPS)
		p->target += RATE_HAI_TIMES * ai;
	else if (max(p->times, p->volumes) > FAST_STEPS)
		p->target += ai;
	p->target = min(p->target, line);
	p->rate = (p->rate + p->target) / 2;
	/* as fast as the device is: there is nothing to hold back */
	if (p->rate >= line - line / 64)
		set_limited(p, false);
}

static void raise_for_time(const struct sroce_qp *qp, struct sroce_pace *p, ktime_t now)
{
	const u64 step = max_t(u64, RAISE_NS, READ_ONCE(qp->sq.srtt) / RAISES_RTT);
	u64 steps;

	if (ktime_before(now, p->raised))
		return;
	steps = div64_u64(ktime_to_ns(ktime_sub(now, p->raised)), step);
	p->raised = ktime_add_ns(p->raised, steps * step);
	for (steps = min_t(u64, steps, RAISE_MAX); steps && p->limited; steps--) {
		p->times++;
		raise(qp, p);
	}
}

/*
 * A window in a round trip: the queue pair is no faster, whatever its device is, and
 * to cut what is above that would slow nothing down. Responses have no window here, and are
 * what was marked, while some are owed.
 */
static u64 window_rate(const struct sroce_qp *qp)
{
	const u64 bytes = (u64)READ_ONCE(qp->sq.cwnd.pkts) *
			  (READ_ONCE(qp->mtu) + PKT_OVERHEAD);
	const u64 ns = READ_ONCE(qp->sq.srtt);

	if (READ_ONCE(qp->rq.num_owed))
		return U64_MAX;
	return ns ? max(div64_u64(bytes * NSEC_PER_SEC, ns), RATE_MIN) : U64_MAX;
}

/* R_T = R_C, R_C = R_C * (1 - alpha / 2), and all counts of raises begin anew. */
static void cut(const struct sroce_qp *qp, struct sroce_pace *p, ktime_t now)
{
	if (p->limited)
		raise_for_time(qp, p, now);
	if (!p->limited) {
		p->alpha = ALPHA_ONE;
		p->rate = line_rate(qp);
		WRITE_ONCE(p->next, now);
	}
	p->target = min(p->rate, window_rate(qp));
	p->rate = p->target - p->target * p->alpha / ALPHA_ONE / 2;
	p->rate = max(p->rate, RATE_MIN);
	p->times = 0;
	p->volumes = 0;
	p->bytes = 0;
	/* of the requester's packets; where there are none, it is 0 */
	p->raised = ktime_add_ns(now, READ_ONCE(qp->sq.srtt));
	set_limited(p, true);
}

/**
 * sroce_pace_cnp - the peer got a marked packet: slow down
 * @qp: queue pair
 *
 * Any context with bottom halves off. What is marked within a round trip of a cut
 * was sent before it, or waits behind what was: it counts for alpha, and cuts no
 * more (as RFC 3168, section 6.1.2, has it for TCP). The paper's network has round trips
 * that are shorter than N, where this never happens.
 */
void sroce_pace_cnp(struct sroce_qp *qp)
{
	struct sroce_pace *p = &qp->pace;
	ktime_t now;

	spin_lock(&p->lock);
	/* not before: a time from before the last change would be taken for a long one */
	now = ktime_get();
	if (p->limited)
		alpha_fall(p, now);
	if (!p->limited || !ktime_before(now, p->raised))
		cut(qp, p, now);
	p->alpha += (ALPHA_ONE - p->alpha) >> ALPHA_SHIFT;
	/* K begins anew */
	p->alpha_at = now;
	trace_sroce_cnp(qp, false, p->rate);
	spin_unlock(&p->lock);
}

/**
 * sroce_pace_marked - a packet came marked
 * @qp: queue pair
 *
 * Any context. Two CPUs may both say yes, which does no harm.
 *
 * Return: true if its sender is to be notified.
 */
bool sroce_pace_marked(struct sroce_qp *qp)
{
	const u64 now = ktime_get_ns(), sent_at = READ_ONCE(qp->pace.cnp_sent_at);

	if (sent_at && now - sent_at < CNP_NS)
		return false;
	WRITE_ONCE(qp->pace.cnp_sent_at, now);
	return true;
}

/*
 * One side waits until @when, and its @flags get @bit; the other may wait for less. The lock is
 * held.
 */
static void wait_until(struct sroce_pace *p, ktime_t when, int bit, unsigned long *flags)
{
	set_bit(bit, flags);
	/* pairs with pace_timer(): it sees the bit, or we see that it is not queued */
	smp_mb__after_atomic();
	if (!hrtimer_is_queued(&p->timer) ||
	    ktime_before(when, hrtimer_get_expires(&p->timer)))
		hrtimer_start(&p->timer, when, HRTIMER_MODE_ABS_SOFT);
}

/**
 * sroce_pace_wait - is it time to send?
 * @qp: queue pair; the caller owns the side that sends
 * @bit: set in @flags if not
 * @flags: of that side
 *
 * Return: true if it is; false, and the side's task runs when it is, or before that.
 */
bool sroce_pace_wait(struct sroce_qp *qp, int bit, unsigned long *flags)
{
	struct sroce_pace *p = &qp->pace;
	ktime_t now, due;
	bool open;

	spin_lock_bh(&p->lock);
	now = ktime_get();
	if (p->limited)
		raise_for_time(qp, p, now);
	due = sroce_pace_due(qp, flags == &qp->rq.flags);
	open = ktime_compare(now, due) >= 0;
	if (!open)
		wait_until(p, due, bit, flags);
	spin_unlock_bh(&p->lock);
	return open;
}

/**
 * sroce_pace_due - when a side may send, by its rates
 * @qp: queue pair
 * @response: the responder
 *
 * Any context; without the lock, either of the rates may have just changed.
 *
 * Return: the time, 0 without any.
 */
ktime_t sroce_pace_due(const struct sroce_qp *qp, bool response)
{
	const struct sroce_pace *p = &qp->pace;
	const ktime_t next = READ_ONCE(p->limited) ? READ_ONCE(p->next) : 0;

	return response || !READ_ONCE(p->cap) ? next : max(next, READ_ONCE(p->cap_next));
}

/**
 * sroce_pace_until - a side waits for a time, whatever its rate is
 * @qp: queue pair; the caller owns the side
 * @when: for when its task runs, or before that: then it asks again
 * @bit: set in @flags
 * @flags: of that side
 */
void sroce_pace_until(struct sroce_qp *qp, ktime_t when, int bit, unsigned long *flags)
{
	struct sroce_pace *p = &qp->pace;

	spin_lock_bh(&p->lock);
	wait_until(p, when, bit, flags);
	spin_unlock_bh(&p->lock);
}

/**
 * sroce_pace_quantum - how many packets may leave at once
 * @qp: queue pair, with a rate
 * @response: of the responder's
 *
 * Return: packets; QUANTUM_MIN at least, if the program has not said less.
 */
u32 sroce_pace_quantum(const struct sroce_qp *qp, bool response)
{
	const struct sroce_pace *p = &qp->pace;
	const u64 limit = READ_ONCE(p->limited) ? READ_ONCE(p->rate) : U64_MAX;
	const u64 cap = response ? 0 : READ_ONCE(p->cap);
	const u64 rate = cap ? min(limit, cap) : limit;
	const u32 size = qp->mtu + overhead(qp), burst = cap ? READ_ONCE(p->cap_burst) : 0;
	u32 pkts;

	if (rate == U64_MAX)
		return U32_MAX;
	pkts = max_t(u32, min_t(u64, rate * QUANTUM_NS / NSEC_PER_SEC, U16_MAX) / size, QUANTUM_MIN);
	return burst ? min(pkts, max(burst / size, 1U)) : pkts;
}

/**
 * sroce_pace_spend_cap - requests of a queue pair whose program has set a rate have left
 * @qp: queue pair
 * @bytes: of them on Ethernet
 */
void sroce_pace_spend_cap(struct sroce_qp *qp, u32 bytes)
{
	struct sroce_pace *p = &qp->pace;
	ktime_t from;

	spin_lock_bh(&p->lock);
	if (p->cap) {
		from = ktime_sub_ns(ktime_get(), p->cap_burst ? 0 : CAP_CREDIT_NS);
		WRITE_ONCE(p->cap_next, ktime_add_ns(max(p->cap_next, from),
						     div64_u64((u64)bytes * NSEC_PER_SEC, p->cap)));
	}
	spin_unlock_bh(&p->lock);
}

/**
 * sroce_pace_spend - something was sent by a queue pair that was notified
 * @qp: queue pair
 * @pkts: packets
 * @bytes: of their payload
 * @response: by its responder
 */
void sroce_pace_spend(struct sroce_qp *qp, u32 pkts, u32 bytes, bool response)
{
	struct sroce_pace *p = &qp->pace;
	const u64 all = bytes + (u64)pkts * PKT_OVERHEAD;
	ktime_t now;

	spin_lock_bh(&p->lock);
	now = ktime_get();
	WRITE_ONCE(p->answered, response);
	if (p->limited) {
		WRITE_ONCE(p->next, ktime_add_ns(max(p->next, now),
						 div64_u64(all * NSEC_PER_SEC, p->rate)));
		p->bytes += all;
		if (p->bytes >= RAISE_BYTES) {
			p->bytes = 0;
			p->volumes++;
			raise(qp, p);
		}
	}
	spin_unlock_bh(&p->lock);
}
