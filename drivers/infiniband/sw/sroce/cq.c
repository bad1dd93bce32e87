// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Completion queues: the kernel produces, the process polls without us. */
#include <linux/log2.h>
#include <rdma/uverbs_ioctl.h>

#include "sroce.h"

/**
 * sroce_create_cq - ib_device_ops: make a completion queue
 * @ibcq: the queue
 * @attr: what is asked for
 * @attrs: struct sroce_create_cq_resp
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

	if (attr->flags || !udata)
		return -EOPNOTSUPP;
	if (!attr->cqe || attr->cqe > SROCE_MAX_CQE)
		return -EINVAL;
	if (!sroce_udata_clear(udata) || udata->outlen < sizeof(resp))
		return -EINVAL;
	if (!sroce_take(&sdev->num_cq, SROCE_MAX_CQ))
		return -ENOMEM;

	spin_lock_init(&cq->lock);
	err = sroce_queue_alloc(sroce_udata_context(udata), &cq->q,
				roundup_pow_of_two(attr->cqe), sizeof(struct sroce_cqe),
				&resp.cq);
	if (err)
		goto err_count;
	err = ib_copy_to_udata(udata, &resp, sizeof(resp));
	if (err)
		goto err_queue;
	ibcq->cqe = cq->q.mask + 1;
	return 0;

err_queue:
	sroce_queue_free(&cq->q);
err_count:
	atomic_dec(&sdev->num_cq);
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
	sroce_queue_free(&to_scq(ibcq)->q);
	atomic_dec(&to_sdev(ibcq->device)->num_cq);
	return 0;
}

/* Once: an entry is lost, and the queue is of no use after that. */
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

/* Does somebody wait for this one? Asking is over with the answer. */
static bool cq_disarm(struct sroce_ring *ring, bool solicited)
{
	u32 arm = READ_ONCE(ring->arm);

	if (!(arm & SROCE_CQ_ARM_NEXT) && !(arm & SROCE_CQ_ARM_SOLICITED && solicited))
		return false;
	return xchg(&ring->arm, 0) != 0;
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
	struct sroce_ring *ring = cq->q.ring;
	bool event, first;

	spin_lock_bh(&cq->lock);
	/* a consumer index that makes no sense reads as a full queue */
	if (cq->overflown || cq->prod - READ_ONCE(ring->cons) > cq->q.mask) {
		first = !cq->overflown;
		cq->overflown = true;
		spin_unlock_bh(&cq->lock);
		if (first)
			cq_overflow(cq);
		return SROCE_CQ_FULL;
	}

	memcpy(queue_entry(&cq->q, cq->prod), cqe, sizeof(*cqe));
	/* pairs with the program's acquire: the entry is whole */
	smp_store_release(&ring->prod, ++cq->prod);
	/*
	 * Pairs with the barrier between a program's arming and its next look
	 * at the index: one of the two sees the other.
	 */
	smp_mb();
	event = cq_disarm(ring, solicited);
	spin_unlock_bh(&cq->lock);
	return event ? SROCE_CQ_EVENT : SROCE_CQ_QUIET;
}

/**
 * sroce_cq_notify - raise a completion event
 * @cq: the queue
 *
 * One handler at a time for a queue, and every event gets its call: who comes
 * while one runs leaves it to that one. No lock may be held: a handler may
 * poll this queue and post to its queue pairs.
 */
void sroce_cq_notify(struct sroce_cq *cq)
{
	if (atomic_inc_return(&cq->events) != 1)
		return;
	do {
		if (cq->ibcq.comp_handler)
			cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
	} while (!atomic_dec_and_test(&cq->events));
}
