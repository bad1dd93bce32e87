// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Work queues and the indirection tables that frames are spread over. */
#include <linux/log2.h>

#include "sroce.h"

/*
 * Of all links, by number. The numbers are queue pairs' as well: completions
 * of both kinds meet in a completion queue, and a doorbell names either.
 */
static DEFINE_XARRAY_FLAGS(sroce_wqs, XA_FLAGS_ACCOUNT);

static struct sroce_sink wq_sink(struct sroce_wq *wq)
{
	return (struct sroce_sink) {
		.rq = &wq->rq,
		.pd = wq->ibwq.pd,
		.cq = to_scq(wq->ibwq.cq),
		.num = wq->ibwq.wq_num,
		.max_sge = wq->max_sge,
		.strip_vlan = wq->strip_vlan,
	};
}

static void wq_unuse(struct sroce_wq *wq)
{
	if (refcount_dec_and_test(&wq->users))
		complete(&wq->idle);
}

static void wq_event(struct sroce_wq *wq)
{
	struct ib_event event = {
		.device = wq->ibwq.device,
		.event = IB_EVENT_WQ_FATAL,
		.element.wq = &wq->ibwq,
	};

	if (wq->ibwq.event_handler)
		wq->ibwq.event_handler(&event, wq->ibwq.wq_context);
}

/* The lock is held. */
static void wq_error(struct sroce_wq *wq)
{
	const struct sroce_sink sink = wq_sink(wq);

	wq->ibwq.state = IB_WQS_ERR;
	sroce_sink_flush(&sink);
}

/**
 * sroce_wq_recv - frames that the hash sends to a work queue
 * @wq: the queue, kept by its table
 * @qp: whose table it is
 * @frames: these
 * @key: of all of them
 * @tag: of the rule that brought them here
 *
 * Bottom halves are off, and no receive lock is held.
 */
void sroce_wq_recv(struct sroce_wq *wq, struct sroce_qp *qp, const struct sroce_frames *frames,
		   const struct sroce_flow_key *key, u32 tag)
{
	struct sroce_sink sink = wq_sink(wq);

	sink.qp = qp;
	spin_lock_bh(&wq->rq.lock);
	if (wq->ibwq.state != IB_WQS_RDY) {
		sroce_qp_count(qp, RX_WRONG_STATE);
	} else if (!sroce_sink_recv(&sink, frames, key, tag)) {
		wq_event(wq);
		wq_error(wq);
	}
	sroce_rq_unlock(&wq->rq);
}

/**
 * sroce_wq_doorbell - a program has posted to a work queue in its error state
 * @ibuc: its context
 * @num: of the queue
 *
 * Process context.
 *
 * Return: 0, or -EINVAL if it has no such queue.
 */
int sroce_wq_doorbell(struct ib_ucontext *ibuc, u32 num)
{
	struct sroce_wq *wq;

	rcu_read_lock();
	wq = xa_load(&sroce_wqs, num);
	if (!wq || wq->ibuc != ibuc || !refcount_inc_not_zero(&wq->users))
		wq = NULL;
	rcu_read_unlock();
	if (!wq)
		return -EINVAL;

	spin_lock_bh(&wq->rq.lock);
	if (wq->ibwq.state == IB_WQS_ERR)
		wq_error(wq);
	sroce_rq_unlock(&wq->rq);
	wq_unuse(wq);
	return 0;
}

/**
 * sroce_wq_fatal_all - a link goes: end all that its work queues have posted
 * @sdev: the link
 *
 * May sleep.
 */
void sroce_wq_fatal_all(struct sroce_dev *sdev)
{
	unsigned long index;
	struct sroce_wq *wq;

	rcu_read_lock();
	xa_for_each(&sroce_wqs, index, wq) {
		if (wq->ibwq.device != &sdev->ibdev || !refcount_inc_not_zero(&wq->users))
			continue;
		rcu_read_unlock();
		spin_lock_bh(&wq->rq.lock);
		if (wq->ibwq.state == IB_WQS_RDY)
			wq_error(wq);
		sroce_rq_unlock(&wq->rq);
		cond_resched();
		rcu_read_lock();
		wq_unuse(wq);
	}
	rcu_read_unlock();
}

static int wq_check(const struct ib_wq_init_attr *init)
{
	if (init->wq_type != IB_WQT_RQ || init->create_flags & ~IB_WQ_FLAGS_CVLAN_STRIPPING)
		return -EOPNOTSUPP;
	if (!init->max_wr || init->max_wr > SROCE_MAX_QP_WR || init->max_sge > SROCE_MAX_SGE)
		return -EINVAL;
	return 0;
}

static struct sroce_wq *wq_alloc(struct ib_pd *ibpd, const struct ib_wq_init_attr *init,
				 struct ib_udata *udata, struct sroce_ring_map *map)
{
	u32 sge = max(init->max_sge, 1U);
	struct sroce_wq *wq;
	int err = -ENOMEM;
	u32 size;

	wq = kzalloc(sizeof(*wq), GFP_KERNEL_ACCOUNT);
	if (!wq)
		return ERR_PTR(err);
	size = roundup_pow_of_two(struct_size(wq->rq.wqe, sge, sge));
	wq->rq.wqe = kzalloc(size, GFP_KERNEL_ACCOUNT);
	if (!wq->rq.wqe)
		goto err_wq;
	wq->ibuc = sroce_udata_context(udata);
	err = sroce_queue_alloc(wq->ibuc, &wq->rq.q, roundup_pow_of_two(init->max_wr), size, map);
	if (err)
		goto err_wqe;

	spin_lock_init(&wq->rq.lock);
	refcount_set(&wq->users, 1);
	init_completion(&wq->idle);
	wq->max_sge = init->max_sge;
	wq->strip_vlan = init->create_flags & IB_WQ_FLAGS_CVLAN_STRIPPING;
	/* what the core sets after this, a doorbell needs before */
	wq->ibwq.device = ibpd->device;
	wq->ibwq.pd = ibpd;
	wq->ibwq.cq = init->cq;
	wq->ibwq.event_handler = init->event_handler;
	wq->ibwq.wq_context = init->wq_context;
	wq->ibwq.state = IB_WQS_RESET;
	return wq;

err_wqe:
	kfree(wq->rq.wqe);
err_wq:
	kfree(wq);
	return ERR_PTR(err);
}

static void wq_free(struct sroce_wq *wq)
{
	sroce_queue_free(&wq->rq.q);
	kfree(wq->rq.wqe);
	kfree_rcu(wq, rcu);
}

static int wq_number(struct sroce_wq *wq)
{
	int err;

	err = sroce_qpn_reserve(&wq->ibwq.wq_num);
	if (err)
		return err;
	err = xa_err(xa_store(&sroce_wqs, wq->ibwq.wq_num, wq, GFP_KERNEL));
	if (err)
		sroce_qpn_unreserve(wq->ibwq.wq_num);
	return err;
}

/**
 * sroce_create_wq - ib_device_ops: make a work queue
 * @ibpd: protection domain
 * @init: what is asked for
 * @udata: struct sroce_create_wq_resp
 *
 * Only raw packet queue pairs, which need CAP_NET_RAW, can use it.
 *
 * Return: the queue or an error pointer.
 */
struct ib_wq *sroce_create_wq(struct ib_pd *ibpd, struct ib_wq_init_attr *init,
			      struct ib_udata *udata)
{
	struct sroce_dev *sdev = to_sdev(ibpd->device);
	struct sroce_create_wq_resp resp = {};
	struct sroce_wq *wq;
	int err;

	err = wq_check(init);
	if (err)
		return ERR_PTR(err);
	if (!sroce_udata_clear(udata))
		return ERR_PTR(-EOPNOTSUPP);
	if (!sroce_take(&sdev->num_wq, SROCE_MAX_WQ))
		return ERR_PTR(-ENOMEM);

	wq = wq_alloc(ibpd, init, udata, &resp.rq);
	if (IS_ERR(wq)) {
		err = PTR_ERR(wq);
		goto err_count;
	}
	err = sroce_respond(udata, &resp, sizeof(resp));
	if (err)
		goto err_wq;
	err = wq_number(wq);
	if (err)
		goto err_wq;
	init->max_wr = wq->rq.q.mask + 1;
	return &wq->ibwq;

err_wq:
	wq_free(wq);
err_count:
	atomic_dec(&sdev->num_wq);
	return ERR_PTR(err);
}

/* As in a new queue. The lock is held. */
static void wq_reset(struct sroce_wq *wq)
{
	wq->ibwq.state = IB_WQS_RESET;
	wq->rq.cons = 0;
	wq->rq.has_wqe = false;
	wq->rq.broken = false;
	sroce_ring_reset(&wq->rq.q);
}

static int wq_set_state(struct sroce_wq *wq, const struct ib_wq_attr *attr, u32 mask)
{
	/* The core fills in what it was for who has not said it: it may have failed meanwhile. */
	if (mask & IB_WQ_CUR_STATE && attr->curr_wq_state != wq->ibwq.state)
		return -EINVAL;
	switch (attr->wq_state) {
	case IB_WQS_RESET:
		wq_reset(wq);
		return 0;
	case IB_WQS_RDY:
		if (wq->ibwq.state == IB_WQS_ERR)
			return -EINVAL;
		wq->ibwq.state = IB_WQS_RDY;
		return 0;
	case IB_WQS_ERR:
		wq_error(wq);
		return 0;
	}
	return -EINVAL;
}

/**
 * sroce_modify_wq - ib_device_ops: change a work queue's state or flags
 * @ibwq: the queue
 * @attr: new values
 * @mask: which of them count
 * @udata: no driver data
 *
 * Return: 0 or an errno, with nothing changed.
 */
int sroce_modify_wq(struct ib_wq *ibwq, struct ib_wq_attr *attr, u32 mask,
		    struct ib_udata *udata)
{
	struct sroce_wq *wq = to_swq(ibwq);
	int err = sroce_no_udata(udata);

	if (err)
		return err;
	if (mask & IB_WQ_FLAGS && attr->flags_mask & ~IB_WQ_FLAGS_CVLAN_STRIPPING)
		return -EOPNOTSUPP;

	spin_lock_bh(&wq->rq.lock);
	if (mask & IB_WQ_STATE)
		err = wq_set_state(wq, attr, mask);
	if (!err && mask & IB_WQ_FLAGS && attr->flags_mask)
		wq->strip_vlan = attr->flags & IB_WQ_FLAGS_CVLAN_STRIPPING;
	sroce_rq_unlock(&wq->rq);
	if (!err && mask & IB_WQ_STATE && attr->wq_state == IB_WQS_RESET)
		sroce_cq_shrinks(to_scq(ibwq->cq));
	return err;
}

/**
 * sroce_destroy_wq - ib_device_ops: end a work queue
 * @ibwq: the queue; no table has it any more
 * @udata: no driver data
 *
 * Return: 0.
 */
int sroce_destroy_wq(struct ib_wq *ibwq, struct ib_udata *udata)
{
	struct sroce_dev *sdev = to_sdev(ibwq->device);
	struct sroce_wq *wq = to_swq(ibwq);

	xa_erase(&sroce_wqs, ibwq->wq_num);
	wq_unuse(wq);
	wait_for_completion(&wq->idle);
	sroce_cq_shrinks(to_scq(ibwq->cq));
	sroce_qpn_unreserve(ibwq->wq_num);
	wq_free(wq);
	atomic_dec(&sdev->num_wq);
	return 0;
}

/**
 * sroce_create_rwq_ind_table - ib_device_ops: make an indirection table
 * @tbl: the table; the core keeps its queues
 * @init: what is asked for
 * @udata: no driver data
 *
 * Return: 0 or an errno.
 */
int sroce_create_rwq_ind_table(struct ib_rwq_ind_table *tbl,
			       struct ib_rwq_ind_table_init_attr *init,
			       struct ib_udata *udata)
{
	const int err = sroce_no_udata(udata);

	if (err)
		return err;
	if (1U << init->log_ind_tbl_size > SROCE_MAX_IND_TBL_SIZE)
		return -EINVAL;
	return sroce_take(&to_sdev(tbl->device)->num_ind_tbl, SROCE_MAX_IND_TBL) ? 0 : -ENOMEM;
}

/**
 * sroce_destroy_rwq_ind_table - ib_device_ops: end an indirection table
 * @tbl: the table; no queue pair has it any more
 *
 * Return: 0.
 */
int sroce_destroy_rwq_ind_table(struct ib_rwq_ind_table *tbl)
{
	atomic_dec(&to_sdev(tbl->device)->num_ind_tbl);
	return 0;
}
