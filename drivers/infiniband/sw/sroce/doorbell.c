// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The doorbell, and how seldom a program has to ring it.
 *
 * A program that posts a lone request wants it to leave at once, and to be
 * told of every such request costs a system call. One that posts a stream
 * gains by the opposite: let some collect, and they share the call, a burst,
 * an acknowledgement. Which of the two a program does is told by what it
 * could have reacted to. If no request has come in on the queue pair since it
 * posted last, nor has it taken its last completion, then what it posts now
 * is no answer to anything: it did not wait then, nor will it.
 *
 * So after a few such doorbells in a row, the requester, having found the ring
 * empty, says that it will look again soon. What was taken for a stream and is
 * none costs that time, once, and is not taken for one again for a while.
 *
 * A lone request may be for a program that polls, and that waits for this very
 * CPU: with both ends on one, the answer would come a scheduler's tick later.
 * So who rings hands the CPU over to who last rang for the queue pair that its
 * packets went to.
 */
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/sched.h>
#include <linux/sched/stat.h>
#include <linux/sched/task.h>

#include "sroce.h"
#include "trace.h"

/* Until the ring is looked at without a doorbell: some of the stream's gaps, twice at most */
#define LINGER_GAPS	4
#define LINGER_MIN_NS	(10ULL * NSEC_PER_USEC)
#define LINGER_MAX_NS	(100ULL * NSEC_PER_USEC)

/* Slices that may be given up to have another program run */
#define YIELD_TRIES	32

/*
 * What may share a doorbell: so many requests, and bytes of them. A call can
 * send as much before it lets the task have the rest (send.c).
 */
#define LINGER_MAX	64
#define LINGER_BYTES	(4U << 20)

/*
 * Calls in a row of a program that polls in vain, until who had the CPU last gets it
 * again: the tick may have taken it before that one has looked
 */
#define VAIN_CALLS	8

/**
 * struct sroce_readers - whose queue pairs have had something happen on this CPU
 * @last: a thread; 0 for nobody
 * @before: the one before that, as the very last may be who looks here
 * @served: the one that the CPU was handed to
 * @giver: by this one, which may have more to do; 0 once it has the CPU again
 * @vain: calls since then of who polls and finds nothing
 */
struct sroce_readers {
	pid_t last;
	pid_t before;
	pid_t served;
	pid_t giver;
	u32 vain;
};

static DEFINE_PER_CPU(struct sroce_readers, sroce_readers);

/**
 * sroce_doorbell_heard - a program has been sent something, or a completion
 * @qp: its queue pair
 *
 * Bottom halves are off. For who rings on this CPU, if somebody does.
 */
void sroce_doorbell_heard(struct sroce_qp *qp)
{
	const pid_t pid = READ_ONCE(qp->num->ringer);

	if (!pid || pid == this_cpu_read(sroce_readers.last))
		return;
	this_cpu_write(sroce_readers.before, this_cpu_read(sroce_readers.last));
	this_cpu_write(sroce_readers.last, pid);
}

static pid_t give_back(struct sroce_readers *r)
{
	const pid_t pid = r->giver;

	if (pid)
		r->served = pid;
	r->giver = 0;
	return pid;
}

/*
 * Who but the caller has something to look at: once, and 0 if nobody has. Or who handed it
 * the CPU, if it has found nothing there and @gives it back: else after some more calls.
 */
static pid_t take_reader(bool gives)
{
	const pid_t me = task_pid_nr(current);
	struct sroce_readers *r;
	pid_t pid;

	/* softirqs note others here; and what is pending is not to be run yet */
	local_irq_disable();
	r = this_cpu_ptr(&sroce_readers);
	pid = r->before == me ? 0 : r->before;
	if (r->last && r->last != me)
		swap(pid, r->last);
	r->before = 0;
	/* the caller looks by itself, when it has the CPU again */
	if (r->last == me)
		r->last = 0;
	if (pid) {
		r->served = pid;
		r->giver = me;
		r->vain = 0;
	} else if (gives && r->giver && r->served == me) {
		/* there was one message, and perhaps no completion for who sent it */
		pid = give_back(r);
		r->vain = 0;
	} else if (++r->vain == VAIN_CALLS) {
		r->vain = 0;
		pid = r->served == me ? give_back(r) : r->served;
	}
	local_irq_enable();
	return pid;
}

static unsigned long switches(const struct task_struct *task)
{
	/* the scheduler's, which may come in between */
	return READ_ONCE(task->nvcsw) + READ_ONCE(task->nivcsw);
}

/*
 * Let @pid run, if it waits for this CPU; it is a number and no more, as it may
 * have gone, and as another's it does no harm.
 */
static void hand_over(pid_t pid)
{
	const unsigned long before = switches(current);
	struct task_struct *task;
	int tries;

	if (!pid || single_task_running())
		return;
	rcu_read_lock();
	task = pid_task(find_pid_ns(pid, &init_pid_ns), PIDTYPE_PID);
	if (task)
		get_task_struct(task);
	rcu_read_unlock();
	if (!task)
		return;
	/* a yield gives up a slice, and whoever has had fewer of late goes on */
	for (tries = 0; tries < YIELD_TRIES && switches(current) == before; tries++)
		if (yield_to(task, false) <= 0)
			break;
	put_task_struct(task);
}

static u64 linger_ns(const struct sroce_sq *sq)
{
	return clamp(LINGER_GAPS * (u64)READ_ONCE(sq->gap), LINGER_MIN_NS, LINGER_MAX_NS);
}

/* Time counts from @now: said before anything by which the timer would hold it to be over. */
static void linger_until(struct sroce_sq *sq, ktime_t now)
{
	WRITE_ONCE(sq->linger_due, ktime_add_ns(now, linger_ns(sq)));
}

/* As much later again, so that the timers of many queue pairs share an interrupt. */
static void linger_arm(struct sroce_sq *sq)
{
	hrtimer_start_range_ns(&sq->linger, READ_ONCE(sq->linger_due), linger_ns(sq),
			       HRTIMER_MODE_ABS_SOFT);
}

/*
 * After linger_until() and a full barrier, which pairs with the timer's: either this finds that it
 * is not queued, or it finds that it is early. To start it anew for each doorbell costs more than
 * the doorbell, where there is a hypervisor below.
 */
static void linger_start(struct sroce_sq *sq)
{
	if (!hrtimer_is_queued(&sq->linger))
		linger_arm(sq);
}

/**
 * sroce_doorbell_stuck - see that who rings is not waited for too long
 * @sq: send side
 *
 * Any context. At the end of a doorbell time starts anew, and what is left to do is done. But who
 * rings may be kept from running, by others of a better priority or for what its cgroup may use,
 * while other threads of the program have posted and wait. A tick or two do; this timer costs next
 * to nothing.
 */
void sroce_doorbell_stuck(struct sroce_sq *sq)
{
	if (test_bit(SROCE_SQ_RINGING, &sq->flags) && !timer_pending(&sq->watch))
		mod_timer(&sq->watch, jiffies + 1);
}

/**
 * sroce_doorbell_watch - a doorbell has been rung for long
 * @timer: the send side's
 *
 * Softirq. Looks for those who wait, and judges nothing by it.
 */
void sroce_doorbell_watch(struct timer_list *timer)
{
	struct sroce_sq *sq = container_of(timer, struct sroce_sq, watch);
	bool work;

	/* pairs with who starts it: it is pending no more there, or this finds what there is to do */
	smp_mb();
	work = test_bit(SROCE_SQ_WORK, &sq->flags);
	if (!test_bit(SROCE_SQ_RINGING, &sq->flags) || (!work && !READ_ONCE(sq->stream.lingers)))
		return;
	if (work || !ktime_before(ktime_get(), READ_ONCE(sq->linger_due)))
		sroce_task_schedule(&sq->task);
	sroce_doorbell_stuck(sq);
}

/**
 * sroce_doorbell_timer - a stream's ring has not been looked at for a while
 * @timer: the send side's
 *
 * Softirq.
 *
 * Return: HRTIMER_NORESTART; it has armed itself anew if it was early.
 */
enum hrtimer_restart sroce_doorbell_timer(struct hrtimer *timer)
{
	struct sroce_sq *sq = container_of(timer, struct sroce_sq, linger);

	/* pairs with who looks whether this is queued, which it is no more */
	smp_mb();
	if (!READ_ONCE(sq->stream.lingers))
		return HRTIMER_NORESTART;
	if (test_bit(SROCE_SQ_RINGING, &sq->flags)) {
		sroce_doorbell_stuck(sq);
		return HRTIMER_NORESTART;
	}
	/* pairs with the writes of these two, which come after that of the time */
	smp_rmb();
	if (ktime_before(ktime_get(), READ_ONCE(sq->linger_due))) {
		linger_arm(sq);
	} else {
		set_bit(SROCE_SQ_LATE, &sq->flags);
		sroce_task_schedule(&sq->task);
	}
	return HRTIMER_NORESTART;
}

/**
 * sroce_doorbell_begin - a program has posted and says so
 * @qp: queue pair; what it has posted is to be seen to, and then sroce_doorbell_end() is due
 *
 * Process context, or softirq for one whose number has waited (bells.c).
 */
void sroce_doorbell_begin(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;

	trace_sroce_doorbell(qp);
	if (in_task())
		WRITE_ONCE(qp->num->ringer, task_pid_nr(current));
	set_bit(SROCE_SQ_RANG, &sq->flags);
	set_bit(SROCE_SQ_RINGING, &sq->flags);
}

/**
 * sroce_doorbell_end - what a program had posted has been seen to
 * @qp: queue pair
 *
 * Return: it was a lone request, as far as this queue pair is concerned.
 */
bool sroce_doorbell_end(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;

	/* time counts from here, after all that the stack has done in this call */
	WRITE_ONCE(sq->stream.rung, ktime_get());
	WRITE_ONCE(sq->resumed, sq->stream.rung);
	linger_until(sq, sq->stream.rung);
	/* the time, before the timer may look at it */
	smp_mb__before_atomic();
	clear_bit(SROCE_SQ_RINGING, &sq->flags);
	/* pairs with sroce_doorbell_rest() and the timer: one of the three starts it */
	smp_mb__after_atomic();
	if (!READ_ONCE(sq->stream.lingers))
		return !stream_runs(&sq->stream);
	linger_start(sq);
	return false;
}

/**
 * sroce_doorbell_start - forget who has been sent something on this CPU
 *
 * Process context, before sroce_doorbell_begin().
 */
void sroce_doorbell_start(void)
{
	this_cpu_write(sroce_readers.last, 0);
	this_cpu_write(sroce_readers.before, 0);
}

/**
 * sroce_doorbell_hand_over - a lone request has been answered, perhaps by who waits for this CPU
 * @qp: the queue pair rung for
 *
 * Process context, after sroce_doorbell_end().
 *
 * Return: others may have run meanwhile. That time was not the program's.
 */
bool sroce_doorbell_hand_over(struct sroce_qp *qp)
{
	const pid_t pid = take_reader(true);

	if (!pid)
		return false;
	hand_over(pid);
	WRITE_ONCE(qp->sq.resumed, ktime_get());
	return true;
}

/**
 * sroce_doorbell_help - a program polls, and what it waits for may wait for this CPU
 * @awaits: an acknowledgement, which mostly comes without anybody having the CPU
 *
 * Process context. A softirq that has gone on for long leaves packets to ksoftirqd, to
 * be fair to programs (handle_softirqs()): they would lie there until the scheduler takes
 * the CPU from one that polls.
 */
void sroce_doorbell_help(bool awaits)
{
	const pid_t pid = take_reader(!awaits);

	if (pid) {
		hand_over(pid);
		return;
	}
	local_bh_disable();
	/* runs what is pending: the caller looks first whether that is for it */
	local_bh_enable();
}

/*
 * Note in @polled up to where the program has polled @cq; @any says whether it has since then. Return:
 * it has, and has taken all there is.
 */
static bool note_polled(struct sroce_cq *cq, u32 *polled, bool *any)
{
	bool dry;
	u32 cons;

	/* for its ring, which may be replaced */
	spin_lock_bh(&cq->lock);
	cons = READ_ONCE(cq->q.ring->cons);
	*any = cons != *polled;
	dry = *any && cons == cq->prod;
	*polled = cons;
	spin_unlock_bh(&cq->lock);
	return dry;
}

/**
 * sroce_doorbell_waited - may what was posted be an answer to the last completion?
 * @qp: queue pair that it was posted to
 *
 * Of either of its completion queues, if it has been taken since the last
 * doorbell of a queue pair that uses it.
 *
 * Return: true if it may be.
 */
bool sroce_doorbell_waited(struct sroce_qp *qp)
{
	struct sroce_cq *send = qp->ibqp.send_cq ? to_scq(qp->ibqp.send_cq) : NULL;
	struct sroce_cq *recv = qp->ibqp.recv_cq ? to_scq(qp->ibqp.recv_cq) : NULL;
	bool any, waited = send && note_polled(send, &send->polled, &any);

	if (recv && recv != send)
		waited |= note_polled(recv, &recv->polled, &any);
	return waited;
}

/**
 * sroce_doorbell_polled - has the program taken a completion of what it has sent?
 * @qp: queue pair
 *
 * Since it was asked last, by this or by sroce_doorbell_waited().
 *
 * Return: true if it has.
 */
bool sroce_doorbell_polled(struct sroce_qp *qp)
{
	struct sroce_cq *cq = qp->ibqp.send_cq ? to_scq(qp->ibqp.send_cq) : NULL;
	bool any = false;

	if (cq)
		note_polled(cq, &cq->polled, &any);
	return any;
}

/* By the last one's size: is there more than one request in the ring? */
static bool several_posted(const struct sroce_sq *sq)
{
	const u32 blocks = READ_ONCE(sq->q.ring->prod) - sq->fetched;

	return blocks > sq_wqe(sq, sq->newest)->num_blocks;
}

/**
 * sroce_doorbell_judge - the program has rung: is it a stream?
 * @qp: queue pair; the caller owns its send side
 */
void sroce_doorbell_judge(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;
	const u32 heard = READ_ONCE(qp->rq.news);
	const bool several = several_posted(sq);
	bool any, lone = note_polled(sq->cq, &sq->polled, &any) && !several;
	const ktime_t now = ktime_get();
	const s64 gap = ktime_to_ns(ktime_sub(now, READ_ONCE(sq->stream.rung)));
	const s64 own = ktime_to_ns(ktime_sub(now, READ_ONCE(sq->resumed)));

	if (several)
		sq->stream.vain = 0;
	if (heard != sq->heard || lone || own > SROCE_STREAM_GAP_NS) {
		stream_over(&sq->stream);
	} else {
		sq->gap += (gap - sq->gap) / 8;
		stream_seen(&sq->stream);
	}
	sq->heard = heard;
}

/**
 * sroce_doorbell_awake - somebody looks at the ring: no doorbell is needed
 * @qp: queue pair; the caller owns its send side
 */
void sroce_doorbell_awake(struct sroce_qp *qp)
{
	qp->sq.asleep = false;
	WRITE_ONCE(qp->sq.stream.lingers, false);
	WRITE_ONCE(qp->sq.q.ring->flags, 0);
}

/* Blocks that may collect before the doorbell is rung; 1 for a lone request. */
static u32 linger_blocks(const struct sroce_qp *qp)
{
	const struct sroce_sq *sq = &qp->sq;
	const struct sroce_swqe *last = sq_wqe(sq, sq->newest);
	u32 requests;

	if (!stream_runs(&sq->stream) || READ_ONCE(qp->state) != IB_QPS_RTS)
		return 1;
	requests = min_t(u32, LINGER_BYTES / max(last->length, 1U), LINGER_MAX);
	/* a program may ring before it has ever posted, and its ring be of one block */
	return max(min(requests * last->num_blocks, (sq->q.mask + 1) / 2), 1U);
}

/**
 * sroce_doorbell_rest - the ring is empty: see that what is posted is seen
 * @qp: queue pair; the caller owns its send side
 */
void sroce_doorbell_rest(struct sroce_qp *qp)
{
	const u32 blocks = linger_blocks(qp);
	struct sroce_sq *sq = &qp->sq;
	struct sroce_ring *ring = sq->q.ring;

	if (blocks > 1) {
		WRITE_ONCE(ring->seen, sq->fetched);
		WRITE_ONCE(ring->linger, blocks);
		WRITE_ONCE(ring->flags, SROCE_RING_LINGER);
		linger_until(sq, ktime_get());
		/* the time, before the timer may look at it */
		smp_store_release(&sq->stream.lingers, true);
	} else {
		WRITE_ONCE(ring->flags, SROCE_RING_NEED_WAKEUP);
	}
	/* pairs with the barrier between a program's index and its look here */
	smp_mb();
	if (!sq->broken && READ_ONCE(ring->prod) - sq->fetched >= blocks) {
		sroce_doorbell_awake(qp);
		set_bit(SROCE_SQ_WORK, &sq->flags);
	} else if (sq->stream.lingers && test_bit(SROCE_SQ_RINGING, &sq->flags)) {
		sroce_doorbell_stuck(sq);
	} else if (sq->stream.lingers) {
		linger_start(sq);
	} else {
		sq->asleep = true;
	}
}

/**
 * sroce_doorbell_late - the time to linger is over
 * @qp: queue pair; the caller owns its send side, and looks at the ring next
 */
void sroce_doorbell_late(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;

	if (!sq->stream.lingers)
		return;
	if (several_posted(sq))
		sq->stream.vain = 0;
	else
		stream_vain(&sq->stream);
}
