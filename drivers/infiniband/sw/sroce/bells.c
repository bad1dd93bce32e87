// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The doorbells of a program, and how those of many queue pairs share a call.
 *
 * What doorbell.c does for the requests of one queue pair, this does for a
 * program that posts to many, a request to each: it writes their numbers into a
 * ring of its context, and rings once for all. When it may do so is told by
 * cause, too. If there is still something in the completion queue, or nothing
 * has been taken from it since the doorbell before, the program has not waited;
 * so it will be back to poll, and a poll that finds nothing rings.
 *
 * What is in the ring is a hint that somebody has posted: a number that is none,
 * or another context's, is passed over, and one that is lost was lost by the
 * program that overwrote it.
 */
#include "sroce.h"

/* Doorbells that may wait; what does not fit rings by itself. */
#define BELLS_ENTRIES	256
#define BELLS_LINGER	128

/* Answered in a row, until they have sent so much: then the stack has the CPU, and others. */
#define BELLS_TURN	16
#define BELLS_TURN_WORK	(64U << 10)

/* Times in a row that they have waited for a program that did not poll, and one is given up */
#define BELLS_MAX_DOUBTS	2

/* And how long, if the program does not come by. It mostly does long before. */
#define BELLS_LINGER_NS	(200 * NSEC_PER_USEC)

/* Who rings may be kept from running in the midst of it: until somebody else looks for the others */
#define BELLS_STUCK_NS	(1LL * NSEC_PER_MSEC)

static struct sroce_bells *ibuc_bells(struct ib_ucontext *ibuc)
{
	return &container_of(ibuc, struct sroce_ucontext, ibuc)->bells;
}

/*
 * The next number in the ring, each for one taker: threads may ring at once. @then: most likely the
 * one after that; 0 for none.
 */
static bool bells_pop(struct sroce_bells *b, u32 *qpn, u32 *then)
{
	u32 left;

	*then = 0;
	spin_lock_bh(&b->lock);
	if (!queue_avail(&b->q, b->cons, &left)) {
		b->cons += left;
		left = 0;
	}
	if (left)
		*qpn = READ_ONCE(*(u32 *)queue_entry(&b->q, b->cons++));
	if (left > 1)
		*then = READ_ONCE(*(u32 *)queue_entry(&b->q, b->cons));
	/* the number is read before its entry may be used again */
	smp_store_release(&b->q.ring->cons, b->cons);
	spin_unlock_bh(&b->lock);
	return left;
}

/* The next queue pair in the ring that is of this context, with a reference; @n counts numbers. */
static struct sroce_qp *bells_next(struct sroce_bells *b, u32 *n)
{
	struct sroce_qp *qp;
	u32 qpn, then;

	while (*n < BELLS_TURN && bells_pop(b, &qpn, &then)) {
		++*n;
		rcu_read_lock();
		sroce_qp_prefetch(then, true);
		rcu_read_unlock();
		qp = sroce_qp_get(qpn);
		if (qp && qp->ibuc && ibuc_bells(qp->ibuc) == b)
			return qp;
		if (qp)
			sroce_qp_put(qp);
	}
	return NULL;
}

/*
 * See to what the ring names, a turn of it at most. As of one queue pair that has much to send, the
 * stack gets to deliver it after some of it: not after each one's request. Return: how many
 * numbers there were; @more says whether there may be others.
 */
static u32 bells_turn(struct sroce_bells *b, bool *more)
{
	struct sroce_qp *qp, *rung[BELLS_TURN];
	u32 i, n = 0, num = 0, work = 0;
	bool due = false;

	local_bh_disable();
	while (!due && work < BELLS_TURN_WORK && (qp = bells_next(b, &n))) {
		sroce_doorbell_begin(qp);
		due = sroce_send_some(qp, &work);
		rung[num++] = qp;
	}
	local_bh_enable();
	*more = due || work >= BELLS_TURN_WORK || n == BELLS_TURN;
	for (i = 0; i < num; i++) {
		/* the others do not wait for what the last one has beyond its turn */
		if (due && i + 1 == num)
			sroce_qp_kick(rung[i]);
		WRITE_ONCE(b->qpn, rung[i]->num->qpn);
		sroce_doorbell_end(rung[i]);
		sroce_qp_put(rung[i]);
	}
	return n;
}

/* See to all that the ring names, one round of it at most. Process context. Return: how many. */
static u32 bells_drain(struct sroce_bells *b)
{
	bool more;
	u32 n = 0;

	do {
		n += bells_turn(b, &more);
		cond_resched();
	} while (more && n < BELLS_ENTRIES && !fatal_signal_pending(current));
	return n;
}

/* The program has rung for @n queue pairs. Return: it is one that does not wait. */
static bool bells_judge(struct sroce_bells *b, bool waited, u32 n)
{
	struct sroce_stream *stream = &b->stream;
	bool runs;

	/* the timer was first */
	if (!n)
		return false;
	spin_lock_bh(&b->lock);
	if (n > 1) {
		stream->streak = SROCE_STREAM_MIN;
		stream->vain = 0;
	} else if (waited ||
		   ktime_to_ns(ktime_sub(ktime_get(), stream->rung)) > SROCE_STREAM_GAP_NS) {
		stream_over(stream);
	} else {
		stream_seen(stream);
	}
	runs = stream_runs(stream);
	spin_unlock_bh(&b->lock);
	return runs;
}

/* A timer that fires early is left alone: it does so once, and goes on for the rest. */
static void bells_arm(struct sroce_bells *b)
{
	b->due = ktime_add_ns(b->stream.rung, BELLS_LINGER_NS);
	if (!hrtimer_is_queued(&b->timer) || ktime_after(hrtimer_get_expires(&b->timer), b->due))
		hrtimer_start(&b->timer, b->due, HRTIMER_MODE_ABS_SOFT);
}

/* Say how the program is to ring from now on. Return: somebody has done so meanwhile. */
static bool bells_rest(struct sroce_bells *b)
{
	struct sroce_stream *stream = &b->stream;
	struct sroce_ring *ring = b->q.ring;
	bool again;
	u32 room;

	spin_lock_bh(&b->lock);
	stream->rung = ktime_get();
	stream->lingers = stream_runs(stream);
	room = stream->lingers ? BELLS_LINGER : 1;
	WRITE_ONCE(ring->seen, b->cons);
	WRITE_ONCE(ring->linger, room);
	WRITE_ONCE(ring->flags, stream->lingers ? SROCE_RING_LINGER : SROCE_RING_NEED_WAKEUP);
	/* pairs with the barrier between a program's index and its look here */
	smp_mb();
	again = READ_ONCE(ring->prod) - b->cons >= room;
	if (stream->lingers)
		bells_arm(b);
	spin_unlock_bh(&b->lock);
	return again;
}

/* Others have had the CPU: the program's time to ring again counts from now. */
static void bells_resume(struct sroce_bells *b)
{
	spin_lock_bh(&b->lock);
	b->stream.rung = ktime_get();
	spin_unlock_bh(&b->lock);
}

/**
 * sroce_bells_ring - a program rings its doorbell
 * @ibuc: its context
 * @qp: one of its queue pairs; NULL for those alone that its ring names
 *
 * Process context.
 */
void sroce_bells_ring(struct ib_ucontext *ibuc, struct sroce_qp *qp)
{
	struct sroce_bells *b = ibuc_bells(ibuc);
	/* one alone that was put off until a poll found nothing was no stream */
	const bool waited = !qp || sroce_doorbell_waited(qp);
	bool stream, lone = false;
	u32 n;

	if (qp)
		sroce_qp_count(qp, DOORBELLS);
	else
		sroce_count(to_sdev(ibuc->device), DOORBELLS);
	atomic_inc(&b->ringing);
	sroce_doorbell_start();
	if (qp) {
		sroce_doorbell_begin(qp);
		sroce_qp_kick(qp);
		lone = sroce_doorbell_end(qp);
		WRITE_ONCE(b->qpn, qp->num->qpn);
	}
	n = bells_drain(b);
	stream = bells_judge(b, waited, n + !!qp);
	/* before the timer is armed, which waits while somebody rings */
	atomic_dec(&b->ringing);
	if (bells_rest(b))
		sroce_task_schedule(&b->task);
	if (lone && !n && !stream && sroce_doorbell_hand_over(qp))
		bells_resume(b);
}

/* The queue pair rung for last, with a reference; NULL if it is gone. */
static struct sroce_qp *bells_qp(struct sroce_bells *b)
{
	struct sroce_qp *qp = sroce_qp_get(READ_ONCE(b->qpn));

	if (!qp || (qp->ibuc && ibuc_bells(qp->ibuc) == b))
		return qp;
	sroce_qp_put(qp);
	return NULL;
}

/* Has the program taken a completion since it was last asked? Of the queue pair rung for last. */
static bool bells_polled(struct sroce_bells *b)
{
	struct sroce_qp *qp = bells_qp(b);
	bool polled;

	if (!qp)
		return false;
	polled = sroce_doorbell_polled(qp);
	sroce_qp_put(qp);
	return polled;
}

/*
 * Has the caller posted something that is not acknowledged? A look without the send side's
 * lock: it is asked again before long.
 */
static bool bells_await(struct sroce_bells *b)
{
	struct sroce_qp *qp = bells_qp(b);
	const struct sroce_sq *sq;
	bool awaits;

	if (!qp)
		return false;
	sq = &qp->sq;
	/* a peer that is not ready may need the CPU to become so */
	awaits = READ_ONCE(qp->num->ringer) == task_pid_nr(current) &&
		 (READ_ONCE(qp->state) == IB_QPS_RTS || READ_ONCE(qp->state) == IB_QPS_SQD) &&
		 data_race(!sq->rnr_wait && sq->psn_una != sq->psn_end);
	sroce_qp_put(qp);
	return awaits;
}

/**
 * sroce_bells_help - a program has polled for long, in vain
 * @ibuc: its context
 *
 * Process context.
 */
void sroce_bells_help(struct ib_ucontext *ibuc)
{
	struct sroce_bells *b = ibuc_bells(ibuc);
	const bool awaits = bells_await(b);

	sroce_count(to_sdev(ibuc->device), POLL_DOORBELLS);
	/* one that has just come, by the interrupt that this call began with, is still to be taken */
	sroce_doorbell_help(awaits || READ_ONCE(b->awaited));
	WRITE_ONCE(b->awaited, awaits);
}

/*
 * Numbers have waited, and the program neither came by nor took a completion
 * meanwhile: it waits for something else, such as memory.
 */
static void bells_late(struct sroce_bells *b)
{
	const bool polled = bells_polled(b);

	spin_lock_bh(&b->lock);
	b->late = false;
	if (READ_ONCE(b->q.ring->prod) == b->cons) {
		stream_over(&b->stream);
	} else if (polled) {
		b->doubts = 0;
	} else if (++b->doubts == BELLS_MAX_DOUBTS) {
		b->doubts = 0;
		stream_vain(&b->stream);
	}
	spin_unlock_bh(&b->lock);
}

static void bells_task(struct sroce_task *task)
{
	struct sroce_bells *b = container_of(task, struct sroce_bells, task);
	bool more;

	if (READ_ONCE(b->late))
		bells_late(b);
	/* who still has the ring mapped could keep this going for ever */
	bells_turn(b, &more);
	if ((more || bells_rest(b)) && !READ_ONCE(b->ends))
		sroce_task_schedule(&b->task);
}

/* The program has had its time. Return: when to look again, if it rings right now; else 0. */
static ktime_t bells_over(struct sroce_bells *b, ktime_t now)
{
	if (!atomic_read(&b->ringing)) {
		WRITE_ONCE(b->late, true);
		sroce_task_schedule(&b->task);
		return 0;
	}
	/* it starts anew at the end of that, which need not come soon: see doorbell.c */
	if (ktime_after(now, ktime_add_ns(b->due, BELLS_STUCK_NS)))
		sroce_task_schedule(&b->task);
	return ktime_add_ns(now, BELLS_STUCK_NS);
}

static enum hrtimer_restart bells_timer(struct hrtimer *timer)
{
	struct sroce_bells *b = container_of(timer, struct sroce_bells, timer);
	const ktime_t now = ktime_get();
	ktime_t next = 0;

	spin_lock(&b->lock);
	if (b->stream.lingers && !hrtimer_is_queued(timer)) {
		next = ktime_before(now, b->due) ? b->due : bells_over(b, now);
		if (next)
			hrtimer_set_expires(timer, next);
	}
	spin_unlock(&b->lock);
	return next ? HRTIMER_RESTART : HRTIMER_NORESTART;
}

/**
 * sroce_bells_init - a context gets its ring
 * @ibuc: the context
 * @map: filled in for the response to the program
 *
 * May sleep.
 *
 * Return: 0 or an errno.
 */
int sroce_bells_init(struct ib_ucontext *ibuc, struct sroce_ring_map *map)
{
	struct sroce_bells *b = ibuc_bells(ibuc);

	spin_lock_init(&b->lock);
	sroce_task_init(&b->task, bells_task);
	hrtimer_setup(&b->timer, bells_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	return sroce_queue_alloc(ibuc, &b->q, BELLS_ENTRIES, sizeof(u32), map);
}

/**
 * sroce_bells_exit - a context goes
 * @ibuc: the context; it has no queue pair any more
 *
 * May sleep.
 */
void sroce_bells_exit(struct ib_ucontext *ibuc)
{
	struct sroce_bells *b = ibuc_bells(ibuc);

	/* nobody rings any more: the task lingers no longer, nor starts the timer */
	spin_lock_bh(&b->lock);
	b->ends = true;
	b->stream.streak = S16_MIN;
	b->stream.lingers = false;
	spin_unlock_bh(&b->lock);
	sroce_task_kill(&b->task);
	hrtimer_cancel(&b->timer);
	sroce_queue_free(&b->q);
}
