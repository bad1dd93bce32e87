// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory windows: keys for a part of a region, which a work request binds and
 * takes back. Type 2 windows are bound to a queue pair as well, as IBTA's 2B.
 */
#include <rdma/uverbs_ioctl.h>

#include "sroce.h"

#define WINDOW_ACCESS							\
	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |		\
	 IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC |		\
	 SROCE_ACCESS_FLUSH | IB_ZERO_BASED | IB_ACCESS_OPTIONAL)

/**
 * struct sroce_window - a memory window
 * @mr: what the data path finds by its key while it is bound
 * @lock: guards binding; BH off. Its holder may wait for the data path to let
 *	go of @mr, so nobody who has a region takes it
 * @type: IB_MW_TYPE_1 or IB_MW_TYPE_2
 * @pd: protection domain
 * @region: what it is bound to, or NULL
 * @dead: never to be bound again
 *
 * Apart from struct sroce_mw because the core frees that one as soon as
 * dealloc_mw() returns, while lookups go by RCU.
 */
struct sroce_window {
	struct sroce_mr mr;
	spinlock_t lock;
	enum ib_mw_type type;
	struct ib_pd *pd;
	struct sroce_mr *region;
	bool dead;
};

/**
 * sroce_alloc_mw - ib_device_ops: make a window
 * @ibmw: the core's, with its type and protection domain
 * @udata: no driver data
 *
 * Return: 0 or an errno.
 */
int sroce_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata)
{
	struct sroce_dev *sdev = to_sdev(ibmw->device);
	struct sroce_window *win;
	int err = sroce_no_udata(udata);

	if (err)
		return err;
	if (!sroce_take(&sdev->num_mw, SROCE_MAX_MW))
		return -ENOMEM;
	err = -ENOMEM;
	win = kzalloc(sizeof(*win), GFP_KERNEL_ACCOUNT);
	if (!win)
		goto err_count;
	win->mr.kind = SROCE_MR_WINDOW;
	spin_lock_init(&win->lock);
	win->type = ibmw->type;
	win->pd = ibmw->pd;
	err = sroce_key_alloc(sdev, &win->mr, &ibmw->rkey);
	if (err)
		goto err_win;
	to_smw(ibmw)->win = win;
	return 0;

err_win:
	kfree(win);
err_count:
	atomic_dec(&sdev->num_mw);
	return err;
}

static void window_unbind(struct sroce_window *win)
{
	struct sroce_mr *mr = &win->mr;

	lockdep_assert_held(&win->lock);
	sroce_key_revoke(mr);
	if (mr->num)
		sroce_qpn_put(mr->num);
	mr->num = NULL;
	atomic_dec(&win->region->windows);
	win->region = NULL;
}

/**
 * sroce_dealloc_mw - ib_device_ops: take a window away, bound or not
 * @ibmw: the window
 *
 * Return: 0.
 */
int sroce_dealloc_mw(struct ib_mw *ibmw)
{
	struct sroce_dev *sdev = to_sdev(ibmw->device);
	struct sroce_window *win = to_smw(ibmw)->win;

	spin_lock_bh(&win->lock);
	if (win->region)
		window_unbind(win);
	win->dead = true;
	spin_unlock_bh(&win->lock);

	sroce_key_free(sdev, &win->mr);
	kfree_rcu(win, mr.rcu);
	atomic_dec(&sdev->num_mw);
	return 0;
}

/* IBTA Vol.1 10.6.7.2: may the region have such a window? */
static bool may_bind(const struct sroce_mr *region, const struct sroce_window *win,
		     const struct sroce_send_wqe *wqe)
{
	if (region->kind != SROCE_MR_REGION || region->pd != win->pd)
		return false;
	if (wqe->bind_access & (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC) &&
	    !(region->access & IB_ACCESS_LOCAL_WRITE))
		return false;
	if (region->mem.attach && wqe->bind_access & ~SROCE_ACCESS_DMABUF)
		return false;
	return sroce_mr_covers(region, wqe->bind_addr, wqe->bind_len, IB_ACCESS_MW_BIND);
}

static void window_fill(struct sroce_window *win, struct sroce_mr *region, struct sroce_qp *qp,
			const struct sroce_send_wqe *wqe)
{
	const u64 off = wqe->bind_addr - region->iova;
	struct sroce_mr *mr = &win->mr;

	win->region = region;
	mr->pd = win->pd;
	if (win->type == IB_MW_TYPE_2) {
		refcount_inc(&qp->num->ref);
		mr->num = qp->num;
	}
	mr->access = wqe->bind_access;
	mr->iova = wqe->bind_access & IB_ZERO_BASED ? 0 : wqe->bind_addr;
	mr->length = wqe->bind_len;
	mr->mem = region->mem;
	mr->mem.start += off;
	mr->mem.offset += off;
	sroce_key_publish(mr, wqe->rkey);
}

static int window_bind(struct sroce_window *win, struct sroce_qp *qp,
		       const struct sroce_send_wqe *wqe)
{
	struct sroce_mr *region;
	int err = -EINVAL;

	region = sroce_key_get(qp_dev(qp), wqe->bind_lkey);
	if (!region)
		return -EINVAL;
	if (may_bind(region, win, wqe) && atomic_inc_unless_negative(&region->windows)) {
		if (win->region)
			window_unbind(win);
		window_fill(win, region, qp, wqe);
		err = 0;
	}
	sroce_key_put(region);
	return err;
}

static int window_request(struct sroce_window *win, struct sroce_qp *qp,
			  const struct sroce_send_wqe *wqe)
{
	lockdep_assert_held(&win->lock);
	if (win->dead || win->pd != qp->ibqp.pd || wqe->bind_access & ~WINDOW_ACCESS)
		return -EINVAL;
	if (wqe->bind_len) {
		/* a type 2 window has to be invalidated first */
		if (win->type == IB_MW_TYPE_2 && win->region)
			return -EBUSY;
		return window_bind(win, qp, wqe);
	}
	if (win->type == IB_MW_TYPE_2)
		return -EINVAL;
	if (win->region)
		window_unbind(win);
	return 0;
}

/* RCU is held, and holds it. */
static struct sroce_window *window_find(struct sroce_dev *sdev, u32 rkey)
{
	struct sroce_mr *mr = sroce_key_find(sdev, rkey);

	if (!mr || mr->kind != SROCE_MR_WINDOW)
		return NULL;
	return container_of(mr, struct sroce_window, mr);
}

/**
 * sroce_mw_bind - bind a window to a part of a region, or unbind it
 * @qp: the queue pair that does
 * @wqe: the request, the kernel's copy
 *
 * IBTA Vol.1 10.6.7.2. BH is off, and no region held.
 *
 * Return: 0, and no other CPU copies through the window's former key any more; or
 * an errno, and the window is what it was.
 */
int sroce_mw_bind(struct sroce_qp *qp, const struct sroce_send_wqe *wqe)
{
	struct sroce_window *win;
	int err = -EINVAL;

	rcu_read_lock();
	win = window_find(qp_dev(qp), wqe->rkey);
	if (win) {
		spin_lock(&win->lock);
		err = window_request(win, qp, wqe);
		spin_unlock(&win->lock);
	}
	rcu_read_unlock();
	return err;
}

/**
 * sroce_window_invalidate - unbind a window by its key
 * @mr: the window; RCU holds it
 * @qp: the queue pair that asks, or whose peer does
 * @pd: its protection domain
 * @rkey: the key
 *
 * Only a type 2 window that is bound to @qp. BH is off, and no region held.
 *
 * Return: 0, and no other CPU copies through the key any more; or -EINVAL.
 */
int sroce_window_invalidate(struct sroce_mr *mr, struct sroce_qp *qp, struct ib_pd *pd, u32 rkey)
{
	struct sroce_window *win = container_of(mr, struct sroce_window, mr);
	int err = -EINVAL;

	spin_lock(&win->lock);
	if (win->region && mr->key == rkey && mr->num == qp->num && win->pd == pd) {
		window_unbind(win);
		err = 0;
	}
	spin_unlock(&win->lock);
	return err;
}
