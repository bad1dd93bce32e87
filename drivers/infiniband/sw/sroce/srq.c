// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Shared receive queues, and the domains that XRC ones belong to. */
#include <linux/log2.h>
#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <rdma/uverbs_ioctl.h>

#include "sroce.h"

/* An XRCETH has so many bits for the number. */
#define SRQN_MAX	0xffffffU

/* XRC domains */

/**
 * sroce_alloc_xrcd - ib_device_ops: make an XRC domain
 * @ibxrcd: the domain
 * @udata: no driver data
 *
 * Return: 0 or an errno.
 */
int sroce_alloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata)
{
	const int err = sroce_no_udata(udata);

	if (err)
		return err;
	return sroce_take(&to_sdev(ibxrcd->device)->num_xrcd, SROCE_MAX_XRCD) ? 0 : -ENOMEM;
}

/**
 * sroce_dealloc_xrcd - ib_device_ops: end an XRC domain
 * @ibxrcd: the domain; nothing is in it any more
 * @udata: no driver data
 *
 * Return: 0.
 */
int sroce_dealloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata)
{
	atomic_dec(&to_sdev(ibxrcd->device)->num_xrcd);
	return 0;
}

/* Numbers */

static int srqn_alloc(struct sroce_srq *srq)
{
	struct sroce_dev *sdev = to_sdev(srq->ibsrq.device);
	struct sroce_srqn *num = kzalloc(sizeof(*num), GFP_KERNEL_ACCOUNT);
	int err;

	if (!num)
		return -ENOMEM;
	refcount_set(&num->users, 1);
	init_completion(&num->idle);
	num->srq = srq;
	srq->num = num;
	err = xa_alloc_cyclic(&sdev->srqs, &num->num, num, XA_LIMIT(1, SRQN_MAX),
			      &sdev->srq_next, GFP_KERNEL);
	if (err < 0) {
		kfree(num);
		return err;
	}
	srq->srqn = num->num;
	srq->ibsrq.ext.xrc.srq_num = num->num;
	return 0;
}

static void srqn_free(struct sroce_srq *srq)
{
	struct sroce_srqn *num = srq->num;

	if (!num)
		return;
	xa_erase(&to_sdev(srq->ibsrq.device)->srqs, num->num);
	sroce_srq_put(srq);
	wait_for_completion(&num->idle);
	kfree_rcu(num, rcu);
}

/**
 * sroce_srq_get - find an XRC shared receive queue
 * @qp: XRC target whose requests name it
 * @srqn: its number
 *
 * A number that a request bore may be another's by now, of whatever domain.
 *
 * Any context.
 *
 * Return: the queue, not to be destroyed until sroce_srq_put(), or NULL if there
 * is none in the domain of @qp (Annex A14).
 */
struct sroce_srq *sroce_srq_get(const struct sroce_qp *qp, u32 srqn)
{
	struct sroce_srq *srq = NULL;
	struct sroce_srqn *num;

	rcu_read_lock();
	num = xa_load(&qp_dev(qp)->srqs, srqn);
	if (num && refcount_inc_not_zero(&num->users))
		srq = num->srq;
	rcu_read_unlock();
	if (srq && srq->ibsrq.ext.xrc.xrcd != qp->ibqp.xrcd) {
		sroce_srq_put(srq);
		srq = NULL;
	}
	return srq;
}

/**
 * sroce_srq_put - the end of sroce_srq_get()
 * @srq: the queue
 *
 * Any context.
 */
void sroce_srq_put(struct sroce_srq *srq)
{
	struct sroce_srqn *num = srq->num;

	if (refcount_dec_and_test(&num->users))
		complete(&num->idle);
}

/* The data path */

static void srq_event(struct sroce_srq *srq, enum ib_event_type type)
{
	struct ib_event event = {
		.device = srq->ibsrq.device,
		.event = type,
		.element.srq = &srq->ibsrq,
	};

	if (srq->ibsrq.event_handler)
		srq->ibsrq.event_handler(&event, srq->ibsrq.srq_context);
}

static bool srq_take(struct sroce_srq *srq, struct sroce_recv_wqe *wqe, u32 *num)
{
	if (!*num)
		return false;
	memcpy(wqe, queue_entry(&srq->q, srq->cons), struct_size(wqe, sge, srq->max_sge));
	srq->cons++;
	--*num;
	/* the copy is made before the program may use the entry again */
	smp_store_release(&srq->q.ring->cons, srq->cons);
	return true;
}

/**
 * sroce_srq_fetch - take the next receive request
 * @srq: the queue, held or a queue pair's
 * @wqe: where its copy goes; has room for max_sge entries
 *
 * Bottom halves are off; no completion queue's lock is held. The copy is the
 * program's word: num_sge is not checked yet.
 *
 * Return: false if there is none.
 */
bool sroce_srq_fetch(struct sroce_srq *srq, struct sroce_recv_wqe *wqe)
{
	bool taken, limit;
	u32 num;

	spin_lock(&srq->lock);
	if (srq->broken) {
		spin_unlock(&srq->lock);
		return false;
	}
	if (!queue_avail(&srq->q, srq->cons, &num)) {
		srq->broken = true;
		spin_unlock(&srq->lock);
		srq_event(srq, IB_EVENT_SRQ_ERR);
		return false;
	}
	taken = srq_take(srq, wqe, &num);
	limit = num < srq->limit;
	if (limit)
		srq->limit = 0;
	spin_unlock(&srq->lock);

	if (limit)
		srq_event(srq, IB_EVENT_SRQ_LIMIT_REACHED);
	return taken;
}

/* Creation */

static int srq_check(const struct ib_srq_init_attr *init, struct ib_udata *udata)
{
	/*
	 * XRC is for programs: a work request of the kernel has no place for the
	 * number; nor has it a call for tags
	 */
	if (init->srq_type != IB_SRQT_BASIC &&
	    ((init->srq_type != IB_SRQT_XRC && init->srq_type != IB_SRQT_TM) || !udata))
		return -EOPNOTSUPP;
	if (!init->attr.max_wr || init->attr.max_wr > SROCE_MAX_SRQ_WR ||
	    init->attr.max_sge > SROCE_MAX_SGE)
		return -EINVAL;
	return 0;
}

/**
 * sroce_create_srq - ib_device_ops: make a shared receive queue
 * @ibsrq: the queue
 * @init: what is asked for; updated to what there is. A limit in it is of no
 *	meaning (ibv_create_srq(3)): it is armed later
 * @udata: struct sroce_create_srq_resp; NULL for a kernel consumer
 *
 * Return: 0 or an errno.
 */
int sroce_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init,
		     struct ib_udata *udata)
{
	struct sroce_dev *sdev = to_sdev(ibsrq->device);
	struct sroce_create_srq_resp resp = {};
	struct sroce_srq *srq = to_ssrq(ibsrq);
	struct sroce_recv_wqe *wqe;
	int err;

	if (!sroce_udata_clear(udata))
		return -EOPNOTSUPP;
	err = srq_check(init, udata);
	if (err)
		return err;
	if (!sroce_take(&sdev->num_srq, SROCE_MAX_SRQ))
		return -ENOMEM;

	mutex_init(&srq->resize);
	spin_lock_init(&srq->lock);
	spin_lock_init(&srq->post_lock);
	srq->ibuc = sroce_udata_context(udata);
	srq->max_sge = max(init->attr.max_sge, 1U);
	err = sroce_queue_alloc(srq->ibuc, &srq->q, roundup_pow_of_two(init->attr.max_wr),
				roundup_pow_of_two(struct_size(wqe, sge, srq->max_sge)),
				&resp.srq);
	if (err)
		goto err_count;
	err = sroce_respond(udata, &resp, sizeof(resp));
	if (err)
		goto err_queue;
	if (init->srq_type == IB_SRQT_XRC)
		err = srqn_alloc(srq);
	else if (init->srq_type == IB_SRQT_TM)
		err = sroce_tm_create(srq, init->ext.tag_matching.max_num_tags, init->ext.cq);
	if (err)
		goto err_queue;
	init->attr.max_wr = srq->q.mask + 1;
	init->attr.max_sge = srq->max_sge;
	return 0;

err_queue:
	sroce_queue_free(&srq->q);
err_count:
	atomic_dec(&sdev->num_srq);
	return err;
}

/* Modification */

/* Can all that is posted, up to @prod, go on to @q? The lock is held. */
static bool srq_fits(const struct sroce_srq *srq, const struct sroce_queue *q, u32 prod)
{
	u32 num;

	/* who resizes does not post: its library holds the poster's lock */
	return !srq->broken && queue_avail(&srq->q, srq->cons, &num) &&
	       srq->cons + num == prod && num <= q->mask + 1;
}

/*
 * From the ring in use to @q, which becomes the one that is not. There may be 16 MB in it, and
 * softirqs wait for the lock: all but the last of it is copied without, while messages take
 * from its start.
 */
static int srq_swap(struct sroce_srq *srq, struct sroce_queue *q)
{
	const u32 some = sroce_queue_some(&srq->q);
	int err = -EINVAL;
	u32 upto, num, prod;
	bool fits;

	lockdep_assert_held(&srq->resize);
	spin_lock_bh(&srq->lock);
	upto = srq->cons;
	/* where that makes no sense, nothing fits */
	queue_avail(&srq->q, upto, &num);
	prod = upto + num;
	while ((fits = srq_fits(srq, q, prod)) && prod - upto > some) {
		spin_unlock_bh(&srq->lock);
		sroce_queue_copy(q, &srq->q, upto, some);
		upto += some;
		cond_resched();
		spin_lock_bh(&srq->lock);
		if ((s32)(upto - srq->cons) < 0)
			upto = srq->cons;
	}
	if (fits)
		err = sroce_queue_exchange(&srq->q, q, srq->cons, prod - srq->cons,
					   upto - srq->cons);
	spin_unlock_bh(&srq->lock);
	return err;
}

static int srq_resize(struct sroce_srq *srq, u32 entries, u64 resp_addr)
{
	struct sroce_create_srq_resp resp = {};
	struct sroce_queue q;
	int err;

	err = sroce_queue_alloc(srq->ibuc, &q, entries, srq->q.entry_size, &resp.srq);
	if (err)
		return err;
	if (copy_to_user(u64_to_user_ptr(resp_addr), &resp, sizeof(resp)))
		err = -EFAULT;
	if (!err) {
		mutex_lock(&srq->resize);
		err = srq_swap(srq, &q);
		mutex_unlock(&srq->resize);
	}
	sroce_queue_free(&q);
	return err;
}

static int check_modify_srq(const struct ib_srq_attr *attr, int mask, struct ib_udata *udata,
			    struct sroce_modify_srq *req)
{
	int err;

	if (mask & ~(IB_SRQ_MAX_WR | IB_SRQ_LIMIT) || (mask & IB_SRQ_MAX_WR && !udata))
		return -EOPNOTSUPP;
	err = sroce_request(udata, req, sizeof(*req));
	if (err)
		return err;
	if (mask & IB_SRQ_MAX_WR &&
	    (!attr->max_wr || attr->max_wr > SROCE_MAX_SRQ_WR || !req->resp_addr))
		return -EINVAL;
	return 0;
}

/**
 * sroce_modify_srq - ib_device_ops: resize a queue, or arm its limit
 * @ibsrq: the queue
 * @attr: new values
 * @mask: which of them count
 * @udata: struct sroce_modify_srq, to resize; NULL for a kernel consumer, who
 *	can't
 *
 * A limit is looked at when a message takes, or wants, a request.
 *
 * Return: 0, or an errno with nothing changed.
 */
int sroce_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		     enum ib_srq_attr_mask mask, struct ib_udata *udata)
{
	struct sroce_srq *srq = to_ssrq(ibsrq);
	struct sroce_modify_srq req;
	u32 entries;
	int err;

	err = check_modify_srq(attr, mask, udata, &req);
	if (err)
		return err;
	if (mask & IB_SRQ_MAX_WR)
		entries = roundup_pow_of_two(attr->max_wr);
	else
		entries = READ_ONCE(srq->q.mask) + 1;
	if (mask & IB_SRQ_LIMIT && attr->srq_limit > entries)
		return -EINVAL;

	if (mask & IB_SRQ_MAX_WR) {
		err = srq_resize(srq, entries, req.resp_addr);
		if (err)
			return err;
	}
	if (mask & IB_SRQ_LIMIT) {
		spin_lock_bh(&srq->lock);
		srq->limit = attr->srq_limit;
		spin_unlock_bh(&srq->lock);
	}
	return 0;
}

/**
 * sroce_query_srq - ib_device_ops: what a queue has been set to
 * @ibsrq: the queue
 * @attr: filled in
 *
 * Return: 0.
 */
int sroce_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr)
{
	struct sroce_srq *srq = to_ssrq(ibsrq);

	spin_lock_bh(&srq->lock);
	attr->max_wr = srq->q.mask + 1;
	attr->max_sge = srq->max_sge;
	attr->srq_limit = srq->limit;
	spin_unlock_bh(&srq->lock);
	return 0;
}

/**
 * sroce_destroy_srq - ib_device_ops: end a shared receive queue
 * @ibsrq: the queue; no queue pair has it any more
 * @udata: no driver data
 *
 * Waits for packets that come by its number.
 *
 * Return: 0.
 */
int sroce_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata)
{
	struct sroce_srq *srq = to_ssrq(ibsrq);
	struct sroce_queue q;

	srqn_free(srq);
	sroce_tm_destroy(srq);
	/* the core may still show it (restrack.c) */
	spin_lock_bh(&srq->lock);
	q = srq->q;
	srq->q.ring = NULL;
	spin_unlock_bh(&srq->lock);
	sroce_queue_free(&q);
	atomic_dec(&to_sdev(ibsrq->device)->num_srq);
	return 0;
}
