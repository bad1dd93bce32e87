// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Completion queues: the kernel produces, the process polls without us. */
#include <linux/ktime.h>
#include <linux/log2.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/uverbs_ioctl.h>

#include "sroce.h"

#define CQ_STAMPS	(SROCE_CQ_TIMESTAMP | SROCE_CQ_WALLCLOCK)

/* A kernel consumer's ring is so many times what it asks for, see cq_entries(). */
#define KERNEL_FLUSHES	4

/* Events */

/*
 * Once: an entry is lost, and the queue is of no use after that. The caller may
 * hold a queue pair's lock, as hardware drivers hold theirs: a handler of
 * asynchronous events neither sleeps nor calls back.
 */
static void cq_overflow(struct sroce_cq *cq)
{
	struct ib_event event = {
		.device = cq->ibcq.device,
		.event = IB_EVENT_CQ_ERR,
		.element.cq = &cq->ibcq,
	};

	sroce_count(to_sdev(cq->ibcq.device), CQ_OVERFLOW);
	if (cq->ibcq.event_handler)
		cq->ibcq.event_handler(&event, cq->ibcq.cq_context);
}

/* Does somebody wait for this one? */
static bool cq_wanted(const struct sroce_ring *ring, bool solicited)
{
	u32 arm = READ_ONCE(ring->arm);

	return arm & SROCE_CQ_ARM_NEXT || (arm & SROCE_CQ_ARM_SOLICITED && solicited);
}

/* Asking is over with the answer. */
static bool cq_disarm(struct sroce_cq *cq)
{
	cq->moderated = 0;
	return xchg(&cq->q.ring->arm, 0) != 0;
}

/*
 * May the event wait for more than these @num completions? What a peer solicits,
 * and errors, are said at once.
 */
static bool cq_moderate(struct sroce_cq *cq, u32 num, bool solicited)
{
	const bool first = !cq->moderated;

	if (solicited || cq->mod_count == 1 || (!cq->mod_count && !cq->mod_period))
		return false;
	cq->moderated = max(cq->moderated, num);
	if (cq->mod_count && cq->moderated >= cq->mod_count)
		return false;
	if (cq->mod_period && first)
		hrtimer_start(&cq->mod_timer, ns_to_ktime(cq->mod_period * NSEC_PER_USEC),
			      HRTIMER_MODE_REL_SOFT);
	return true;
}

/* What waits by a rule waits no longer. */
static void cq_raise_moderated(struct sroce_cq *cq)
{
	bool event;

	spin_lock_bh(&cq->lock);
	event = cq->moderated && cq_disarm(cq);
	spin_unlock_bh(&cq->lock);
	if (event)
		sroce_cq_notify(cq);
}

/*
 * The first of them has waited for long enough. A timer that was set for an
 * event which has been raised since finds nothing, or comes a little early.
 */
static enum hrtimer_restart cq_mod_timer(struct hrtimer *timer)
{
	cq_raise_moderated(container_of(timer, struct sroce_cq, mod_timer));
	return HRTIMER_NORESTART;
}

/**
 * sroce_cq_settle - an event that waits for more completions waits no longer
 * @cq: the queue
 *
 * Sleeps. On return it has been raised. The timer goes first: who arms while the event is
 * raised keeps the one that is started then.
 */
void sroce_cq_settle(struct sroce_cq *cq)
{
	hrtimer_cancel(&cq->mod_timer);
	cq_raise_moderated(cq);
}

/**
 * sroce_modify_cq - ib_device_ops: moderate a queue's events
 * @ibcq: the queue
 * @count: an event is due when so many completions have come since it was
 *	asked for; 0 for no such number
 * @period: or when the first of them is so many microseconds old; 0 for never
 *
 * Return: 0.
 */
int sroce_modify_cq(struct ib_cq *ibcq, u16 count, u16 period)
{
	struct sroce_cq *cq = to_scq(ibcq);
	bool event = false;

	spin_lock_bh(&cq->lock);
	cq->mod_count = count;
	cq->mod_period = period;
	/*
	 * What waits by the old rule waits no longer. The core does this from work of its own
	 * (ib_cq_rdma_dim_work()), which the end of the queue waits for last: by the timer,
	 * which sroce_cq_settle() ends.
	 */
	if (cq->ibuc)
		event = cq->moderated && cq_disarm(cq);
	else if (cq->moderated)
		hrtimer_start(&cq->mod_timer, 0, HRTIMER_MODE_REL_SOFT);
	spin_unlock_bh(&cq->lock);
	if (event)
		sroce_cq_notify(cq);
	return 0;
}

/* Creation */

static int cq_stamps(const struct ib_cq_init_attr *attr, struct ib_udata *udata, u32 *stamps)
{
	struct sroce_create_cq req;
	int err;

	/* in the kernel, nobody could read them */
	if (attr->flags & ~IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION || (attr->flags && !udata))
		return -EOPNOTSUPP;
	err = sroce_request(udata, &req, sizeof(req));
	if (err)
		return err;
	if (req.flags & ~CQ_STAMPS)
		return -EOPNOTSUPP;
	if (req.reserved)
		return -EINVAL;
	*stamps = req.flags;
	if (attr->flags & IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION)
		*stamps |= SROCE_CQ_TIMESTAMP;
	return 0;
}

/*
 * ib_core shares queues of its pool by what their users ask for (ib_cq_pool_get()), which for
 * nvmet and isert is what they have completed at a time, not what is flushed, requests without a
 * completion among it: three times as much. No consumer of a pool gets another queue
 * for one that has lost an entry.
 */
static u32 cq_entries(const struct ib_cq_init_attr *attr, bool kernel)
{
	u32 entries = roundup_pow_of_two(attr->cqe);

	return kernel ? min(entries * KERNEL_FLUSHES, SROCE_MAX_CQE) : entries;
}

/**
 * sroce_create_cq - ib_device_ops: make a completion queue
 * @ibcq: the queue
 * @attr: what is asked for
 * @attrs: struct sroce_create_cq, or nothing; struct sroce_create_cq_resp.
 *	NULL for a kernel consumer
 *
 * Return: 0 or an errno.
 */
int sroce_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		    SROCE_CQ_ATTRS *attrs)
{
	struct ib_udata *udata = sroce_cq_udata(attrs);
	struct sroce_dev *sdev = to_sdev(ibcq->device);
	struct sroce_cq *cq = to_scq(ibcq);
	struct sroce_create_cq_resp resp = {};
	int err;

	err = cq_stamps(attr, udata, &cq->stamps);
	if (err)
		return err;
	if (!attr->cqe || attr->cqe > SROCE_MAX_CQE)
		return -EINVAL;
	if (!sroce_take(&sdev->num_cq, SROCE_MAX_CQ))
		return -ENOMEM;

	spin_lock_init(&cq->lock);
	spin_lock_init(&cq->poll_lock);
	mutex_init(&cq->resize);
	hrtimer_setup(&cq->mod_timer, cq_mod_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
	cq->ibuc = sroce_udata_context(udata);
	err = sroce_queue_alloc(cq->ibuc, &cq->q, cq_entries(attr, !udata),
				sizeof(struct sroce_cqe), &resp.cq);
	if (err)
		goto err_count;
	err = sroce_respond(udata, &resp, sizeof(resp));
	if (err)
		goto err_queue;
	ibcq->cqe = roundup_pow_of_two(attr->cqe);
	return 0;

err_queue:
	sroce_queue_free(&cq->q);
err_count:
	atomic_dec(&sdev->num_cq);
	return err;
}

/* Can all that is in the ring from @cons on go to @q? The lock is held. */
static bool cq_fits(const struct sroce_cq *cq, const struct sroce_queue *q, u32 cons)
{
	/* who resizes does not poll: its library holds the poller's lock */
	return !cq->overflown && READ_ONCE(cq->q.ring->cons) == cons &&
	       cq->prod - cons <= min(cq->q.mask, q->mask) + 1;
}

/*
 * From the ring in use to @q, which becomes the one that is not. There may be 256 MB in it,
 * and softirqs wait for the lock: all but what has come in last is copied without.
 */
static int cq_swap(struct sroce_cq *cq, struct sroce_queue *q)
{
	const u32 cons = READ_ONCE(cq->q.ring->cons);
	const u32 some = sroce_queue_some(&cq->q);
	int err = -EINVAL;
	u32 done = 0;
	bool fits;

	lockdep_assert_held(&cq->resize);
	spin_lock_bh(&cq->lock);
	while ((fits = cq_fits(cq, q, cons)) && cq->prod - cons - done > some) {
		spin_unlock_bh(&cq->lock);
		sroce_queue_copy(q, &cq->q, cons + done, some);
		done += some;
		cond_resched();
		spin_lock_bh(&cq->lock);
	}
	if (fits)
		err = sroce_queue_exchange(&cq->q, q, cons, cq->prod - cons, done);
	cq->ibcq.cqe = cq->q.mask + 1;
	spin_unlock_bh(&cq->lock);
	return err;
}

/**
 * sroce_resize_cq - ib_device_ops: a longer or a shorter ring
 * @ibcq: the queue
 * @cqe: entries that it is to have at least
 * @udata: struct sroce_resize_cq_resp
 *
 * What was not polled yet goes along.
 *
 * Return: 0, -EINVAL if that is more than @cqe, there is no ring of this size,
 * somebody polls meanwhile or entries were lost, or another errno.
 */
int sroce_resize_cq(struct ib_cq *ibcq, SROCE_RESIZE_CQ_CQE cqe, struct ib_udata *udata)
{
	struct sroce_resize_cq_resp resp = {};
	struct sroce_cq *cq = to_scq(ibcq);
	struct sroce_queue q;
	int err;

	if (!udata || !sroce_udata_clear(udata))
		return -EOPNOTSUPP;
	if (!cqe || (u32)cqe > SROCE_MAX_CQE)
		return -EINVAL;
	err = sroce_queue_alloc(cq->ibuc, &q, roundup_pow_of_two(cqe), sizeof(struct sroce_cqe),
				&resp.cq);
	if (err)
		return err;
	err = sroce_respond(udata, &resp, sizeof(resp));
	if (!err) {
		mutex_lock(&cq->resize);
		err = cq_swap(cq, &q);
		mutex_unlock(&cq->resize);
	}
	sroce_queue_free(&q);
	return err;
}

/**
 * sroce_destroy_cq - ib_device_ops: end a completion queue
 * @ibcq: the queue; no queue pair uses it any more
 * @udata: no driver data
 *
 * Return: 0.
 */
int sroce_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct sroce_cq *cq = to_scq(ibcq);
	struct sroce_queue q;

	hrtimer_cancel(&cq->mod_timer);
	/* the core may still show it (restrack.c) */
	spin_lock_bh(&cq->lock);
	q = cq->q;
	cq->q.ring = NULL;
	spin_unlock_bh(&cq->lock);
	sroce_queue_free(&q);
	atomic_dec(&to_sdev(ibcq->device)->num_cq);
	return 0;
}

/* The data path */

/* Under the queue's lock, so that the stamps are in the entries' order. */
static void cq_stamp(const struct sroce_cq *cq, struct sroce_cqe *cqe)
{
	if (cq->stamps & SROCE_CQ_TIMESTAMP)
		cqe->timestamp = ktime_get_ns();
	if (cq->stamps & SROCE_CQ_WALLCLOCK)
		cqe->wallclock = ktime_get_real_ns();
}

/**
 * sroce_cq_overrun - has a completion found no room?
 * @cq: the queue
 *
 * Return: true if so; none is added any more.
 */
bool sroce_cq_overrun(const struct sroce_cq *cq)
{
	return READ_ONCE(cq->overflown);
}

/**
 * sroce_cq_post - add a completion
 * @cq: the queue
 * @cqe: the completion
 * @solicited: it is a solicited event, or an error
 *
 * Any context but hard interrupts; the caller may hold a queue pair's lock.
 *
 * Return: what the caller owes, once it holds no lock.
 */
enum sroce_cq_result sroce_cq_post(struct sroce_cq *cq, const struct sroce_cqe *cqe,
				   bool solicited)
{
	struct sroce_cqe *entry;
	struct sroce_ring *ring;
	bool event, first;

	spin_lock_bh(&cq->lock);
	ring = cq->q.ring;
	/* a consumer index that makes no sense reads as a full queue */
	if (cq->overflown || cq->prod - READ_ONCE(ring->cons) > cq->q.mask) {
		first = !cq->overflown;
		WRITE_ONCE(cq->overflown, true);
		spin_unlock_bh(&cq->lock);
		if (first)
			cq_overflow(cq);
		return SROCE_CQ_FULL;
	}

	entry = queue_entry(&cq->q, cq->prod);
	memcpy(entry, cqe, sizeof(*cqe));
	cq_stamp(cq, entry);
	/* pairs with the program's acquire: the entry is whole */
	smp_store_release(&ring->prod, ++cq->prod);
	/* for sroce_cq_missed(), which has raised fewer: it has gone round all 32 bits */
	if (unlikely(cq->prod == cq->missed_events))
		cq->missed_events--;
	if (solicited)
		cq->solicited = cq->prod;
	/*
	 * Pairs with the barrier between a program's arming and its next look
	 * at the index: one of the two sees the other.
	 */
	smp_mb();
	event = cq_wanted(ring, solicited) &&
		!cq_moderate(cq, cq->moderated + 1, solicited) && cq_disarm(cq);
	spin_unlock_bh(&cq->lock);
	return event ? SROCE_CQ_EVENT : SROCE_CQ_QUIET;
}

/**
 * sroce_cq_missed - raise the event that a program has asked for too late
 * @cq: the queue, of a program
 *
 * Its library has found completions in the ring which came after the last event that
 * it took and before it armed: see "Arming" in architecture.rst. If an event has been
 * raised since it armed, that was for these. The core keeps events for who does not take
 * them: there is no more than one of these for a completion. Process context.
 */
void sroce_cq_missed(struct sroce_cq *cq)
{
	struct sroce_ring *ring;
	bool event, solicited;
	u32 cons, num;

	spin_lock_bh(&cq->lock);
	ring = cq->q.ring;
	cons = READ_ONCE(ring->cons);
	num = cq->prod - cons;
	solicited = cq->solicited - cons - 1 < num;
	event = num && cq->prod != cq->missed_events && cq_wanted(ring, solicited) &&
		!cq_moderate(cq, num, solicited) && cq_disarm(cq);
	cq->missed_events += event;
	spin_unlock_bh(&cq->lock);
	if (event)
		sroce_cq_notify(cq);
}

/**
 * sroce_cq_shrinks - a program's library is about to take completions of a queue back
 * @cq: the queue
 *
 * Those that are left move up in the ring, and where the latest solicited one is by then, only
 * the library knows: for sroce_cq_missed(), any of them may be one.
 */
void sroce_cq_shrinks(struct sroce_cq *cq)
{
	spin_lock_bh(&cq->lock);
	cq->solicited = cq->prod;
	spin_unlock_bh(&cq->lock);
}

/**
 * sroce_cq_notify - raise a completion event
 * @cq: the queue
 *
 * One handler at a time for a queue of the kernel's, and every event gets its call: who comes
 * while one runs leaves it to that one. A program's handler wakes it up, and may be called by
 * several: who has woken it may lose the CPU to it, and others are not to wait for that. No lock
 * may be held: a handler may poll this queue and post to its queue pairs.
 */
void sroce_cq_notify(struct sroce_cq *cq)
{
	if (cq->ibuc) {
		if (cq->ibcq.comp_handler)
			cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
		return;
	}
	if (atomic_inc_return(&cq->events) != 1)
		return;
	do {
		if (cq->ibcq.comp_handler)
			cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
	} while (!atomic_dec_and_test(&cq->events));
}
