// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What cannot be done at once: packets for a side that somebody else is at, or
 * whose memory is not there, and the paging in of that memory.
 */
#include <linux/netfilter.h>
#include <linux/slab.h>
#include <net/dst.h>

#include "sroce.h"

/*
 * So many threads bring a program's memory at once. It may take for ever, if the
 * program sees to that, and others must not wait for it.
 */
#define FAULTS_AT_ONCE	16

/*
 * Prefetches have threads of their own, so that a fault that somebody waits for never queues behind
 * one that nobody waits for.
 */
#define PREFETCHES_AT_ONCE 2

/*
 * One queue for all kernel consumers with on-demand regions (RDS is one): they are trusted not to
 * hold each other up.
 */
static struct workqueue_struct *sroce_fault_wq;

/**
 * sroce_late_hold - keep an skb
 * @skb: the skb
 *
 * It may lie here for long: what it came by must be free to go. A sender of
 * this link's, which counts what the stack has of its own, is told that it has
 * arrived.
 */
void sroce_late_hold(struct sk_buff *skb)
{
	struct sk_buff *part;

	skb_orphan(skb);
	skb_dst_drop(skb);
	nf_reset_ct(skb);
	/* an IPsec state may be another netdev's; a clone's parts are others', too */
	skb_ext_reset(skb);
	if (!skb_cloned(skb))
		skb_walk_frags(skb, part)
			skb_ext_reset(part);
	skb_get(skb);
}

/**
 * sroce_late_alloc - make a copy of a packet
 * @rx: the packet; the skb stays its caller's
 *
 * Softirq.
 *
 * Return: the copy, in no list, nothing of it charged; NULL without memory.
 */
struct sroce_late *sroce_late_alloc(const struct sroce_rx *rx)
{
	struct sroce_late *late = kmalloc(sizeof(*late), GFP_ATOMIC | __GFP_NOWARN);

	if (!late)
		return NULL;
	late->rx = *rx;
	late->charge = 0;
	late->since = (u32)jiffies;
	return late;
}

/**
 * sroce_late_add - keep a packet
 * @list: of struct sroce_late; its lock is held
 * @num: how many are in it
 * @max: how many may be
 * @rx: the packet
 *
 * Softirq.
 *
 * Return: the entry, or NULL if the packet is lost: there are too many, or no memory.
 */
struct sroce_late *sroce_late_add(struct list_head *list, u32 *num, u32 max, struct sroce_rx *rx)
{
	struct sroce_late *late;

	if (*num >= max)
		return NULL;
	late = sroce_late_alloc(rx);
	if (!late)
		return NULL;
	if (rx->skb)
		sroce_late_hold(rx->skb);
	list_add_tail(&late->entry, list);
	/* sroce_ack_run() looks without the lock */
	WRITE_ONCE(*num, *num + 1);
	return late;
}

/**
 * sroce_late_free - a packet has been taken
 * @late: the packet, in no list
 */
void sroce_late_free(struct sroce_late *late)
{
	if (late->rx.skb)
		consume_skb(late->rx.skb);
	kfree(late);
}

/**
 * sroce_late_purge - nobody will take these
 * @list: of struct sroce_late; its lock is held
 * @num: becomes 0
 */
void sroce_late_purge(struct list_head *list, u32 *num)
{
	struct sroce_late *late, *next;

	list_for_each_entry_safe(late, next, list, entry) {
		list_del(&late->entry);
		sroce_late_free(late);
	}
	*num = 0;
}

static void fault_work(struct work_struct *work)
{
	struct sroce_fault *fault = container_of(work, struct sroce_fault, work);
	struct sroce_qp *qp = fault->qp;
	int err;

	err = sroce_mr_fault(fault->pd, fault->lkey, fault->addr, fault->len, fault->write);
	if (fault->srq)
		sroce_srq_put(fault->srq);
	fault->done(qp, err);
	sroce_qp_put(qp);
}

/**
 * sroce_fault_init - set a side's fault up
 * @fault: the fault
 * @qp: its queue pair
 * @done: called in process context with the outcome: who owns the side then clears @fault->active
 */
void sroce_fault_init(struct sroce_fault *fault, struct sroce_qp *qp,
		      void (*done)(struct sroce_qp *qp, int err))
{
	INIT_WORK(&fault->work, fault_work);
	fault->qp = qp;
	fault->done = done;
}

/*
 * A program without a queue of its own has no such memory: a key has come to stand for a region
 * of another kind meanwhile, and nobody waits for long.
 */
static struct workqueue_struct *faults_of(struct ib_pd *ibpd)
{
	const struct sroce_ucontext *uctx = to_spd(ibpd)->uctx;

	return (uctx ? READ_ONCE(uctx->faults) : NULL) ?: sroce_fault_wq;
}

/**
 * sroce_fault_start - have memory paged in
 * @fault: not active
 * @pd: protection domain
 * @srq: its owner, where that is not the queue pair, with a reference; or NULL
 * @lkey: region
 * @addr: in terms of its iova
 * @len: bytes
 * @write: they are to be written
 *
 * Softirq; the side's lock is held, and so is the queue pair's number, by who
 * works on it.
 */
void sroce_fault_start(struct sroce_fault *fault, struct ib_pd *pd, struct sroce_srq *srq,
		       u32 lkey, u64 addr, u64 len, bool write)
{
	/* it is being destroyed: nobody waits any more */
	if (!sroce_qpn_use(fault->qp->num))
		return;
	fault->active = true;
	/* it may be on its way out, and not found by its number any more */
	if (srq)
		refcount_inc(&srq->num->users);
	fault->srq = srq;
	fault->pd = pd;
	fault->lkey = lkey;
	fault->addr = addr;
	fault->len = len;
	fault->write = write;
	queue_work(faults_of(pd), &fault->work);
}

/**
 * sroce_fault_refused - was it this that could not be paged in?
 * @fault: not active
 * @lkey: region
 * @addr: in terms of its iova
 * @write: it is to be written
 *
 * Both directions of a send side share a fault, and packets that are sent again
 * come before the one that failed: an outcome is of its own address alone. Told
 * once. The side's lock is held.
 *
 * Return: whether it was.
 */
bool sroce_fault_refused(struct sroce_fault *fault, u32 lkey, u64 addr, bool write)
{
	if (!fault->err || fault->lkey != lkey || fault->addr != addr || fault->write != write)
		return false;
	fault->err = 0;
	return true;
}

/**
 * sroce_fault_forget - the memory is there after all
 * @fault: not active
 * @lkey: region
 * @addr: in terms of its iova
 * @len: bytes that are
 * @write: to be written, and so to be read
 *
 * It has come another way since: what could not be paged in then says nothing of the
 * next time. The side's lock is held.
 */
void sroce_fault_forget(struct sroce_fault *fault, u32 lkey, u64 addr, u32 len, bool write)
{
	if (fault->lkey == lkey && fault->addr - addr < len && (write || !fault->write))
		fault->err = 0;
}

/* For who is the first of a program, so that it counts once */
static DEFINE_MUTEX(faults_lock);

static int make_queues(struct sroce_dev *sdev, struct sroce_ucontext *uctx)
{
	struct workqueue_struct *faults;

	if (uctx->faults)
		return 0;
	if (!sroce_take(&sdev->num_faulting, SROCE_MAX_FAULTING))
		return -ENOMEM;
	faults = alloc_workqueue("sroce_fault", WQ_UNBOUND, FAULTS_AT_ONCE);
	if (!faults)
		goto err_count;
	uctx->prefetches = alloc_workqueue("sroce_prefetch", WQ_UNBOUND, PREFETCHES_AT_ONCE);
	if (!uctx->prefetches)
		goto err_faults;
	/* who finds this one need not look for the other */
	smp_store_release(&uctx->faults, faults);
	return 0;

err_faults:
	destroy_workqueue(faults);
err_count:
	atomic_dec(&sdev->num_faulting);
	return -ENOMEM;
}

/**
 * sroce_faults_init - a program gets on-demand memory
 * @ibpd: one of its protection domains, or of a kernel consumer (ib_reg_user_mr())
 *
 * May sleep. The threads that bring memory are the kernel's, and nobody is charged for them: so
 * many programs of a link may have some.
 *
 * Return: 0 or an errno.
 */
int sroce_faults_init(struct ib_pd *ibpd)
{
	struct sroce_ucontext *uctx = to_spd(ibpd)->uctx;
	int err;

	if (!uctx || smp_load_acquire(&uctx->faults))
		return 0;
	mutex_lock(&faults_lock);
	err = make_queues(to_sdev(ibpd->device), uctx);
	mutex_unlock(&faults_lock);
	return err;
}

/**
 * sroce_faults_exit - a program has no regions any more, and no queue pairs
 * @uctx: its context
 *
 * Sleeps.
 */
void sroce_faults_exit(struct sroce_ucontext *uctx)
{
	if (!uctx->faults)
		return;
	destroy_workqueue(uctx->faults);
	destroy_workqueue(uctx->prefetches);
	atomic_dec(&to_sdev(uctx->ibuc.device)->num_faulting);
}

/**
 * sroce_prefetch_queue - bring a program's memory before it is asked for
 * @ibpd: the protection domain of an on-demand region of a program
 * @work: what to do; it ends before the program's context does
 *
 * Any context.
 */
void sroce_prefetch_queue(struct ib_pd *ibpd, struct work_struct *work)
{
	queue_work(to_spd(ibpd)->uctx->prefetches, work);
}

/**
 * sroce_late_init - make the queue of the work that sleeps
 *
 * Return: 0 or an errno.
 */
int sroce_late_init(void)
{
	sroce_fault_wq = alloc_workqueue("sroce_fault", WQ_UNBOUND, 0);
	return sroce_fault_wq ? 0 : -ENOMEM;
}

/**
 * sroce_late_exit - the end of sroce_late_init(); nothing is queued any more
 */
void sroce_late_exit(void)
{
	destroy_workqueue(sroce_fault_wq);
}
