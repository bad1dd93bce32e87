// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Address handles. A send request names one by its number; behind the number
 * is an address vector that may outlive the handle by as long as a packet
 * takes to be written, since the core frees the handle at once.
 */
#include <linux/random.h>
#include <linux/slab.h>

#include "sroce.h"

/*
 * The connection manager makes and destroys handles with interrupts off, so
 * the table's lock is taken in a way that suits anybody.
 */
static int av_number(struct sroce_dev *sdev, struct sroce_av *av, gfp_t gfp)
{
	unsigned long flags;
	int err;

	if (gfpflags_allow_blocking(gfp)) {
		err = xa_alloc_cyclic_irq(&sdev->avs, &av->num, av, XA_LIMIT(1, SROCE_MAX_AH),
					  &sdev->av_next, gfp);
	} else {
		xa_lock_irqsave(&sdev->avs, flags);
		err = __xa_alloc_cyclic(&sdev->avs, &av->num, av, XA_LIMIT(1, SROCE_MAX_AH),
					&sdev->av_next, gfp);
		xa_unlock_irqrestore(&sdev->avs, flags);
	}
	return min(err, 0);
}

static struct sroce_av *av_create(struct ib_ah *ibah, const struct rdma_ah_attr *attr, gfp_t gfp)
{
	struct sroce_dev *sdev = to_sdev(ibah->device);
	struct sroce_av *av;
	int err;

	av = kzalloc(sizeof(*av), gfp);
	if (!av)
		return ERR_PTR(-ENOMEM);
	refcount_set(&av->ref, 1);
	spin_lock_init(&av->lock);
	av->pd = ibah->pd;
	av->attr = *attr;
	/* the core keeps the reference on the GID, not we */
	av->attr.grh.sgid_attr = NULL;

	/* without a flow label, each handle is a flow: there is no pair of queue pairs */
	err = sroce_path_init(&av->path, attr, get_random_u32() & IB_QPN_MASK, 1, 0);
	if (!err)
		err = av_number(sdev, av, gfp);
	if (err) {
		kfree(av);
		return ERR_PTR(err);
	}
	return av;
}

static void av_destroy(struct sroce_dev *sdev, struct sroce_av *av)
{
	unsigned long flags;

	xa_lock_irqsave(&sdev->avs, flags);
	__xa_erase(&sdev->avs, av->num);
	xa_unlock_irqrestore(&sdev->avs, flags);
	sroce_av_put(av);
}

/**
 * sroce_create_ah - ib_device_ops: keep an address
 * @ibah: the handle
 * @init: the address; the core has checked it and resolved its source GID
 * @udata: struct sroce_create_ah_resp; NULL for a kernel consumer
 *
 * Any context without RDMA_CREATE_AH_SLEEPABLE.
 *
 * Return: 0 or an errno.
 */
int sroce_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init, struct ib_udata *udata)
{
	const bool sleepable = init->flags & RDMA_CREATE_AH_SLEEPABLE;
	struct sroce_dev *sdev = to_sdev(ibah->device);
	struct sroce_create_ah_resp resp = {};
	struct sroce_av *av;
	int err;

	if (!sroce_udata_clear(udata))
		return -EOPNOTSUPP;
	if (!sroce_take(&sdev->num_ah, SROCE_MAX_AH))
		return -ENOMEM;
	av = av_create(ibah, init->ah_attr, sleepable ? GFP_KERNEL_ACCOUNT : GFP_ATOMIC);
	if (IS_ERR(av)) {
		err = PTR_ERR(av);
		goto err_count;
	}
	resp.ah = av->num;
	err = sroce_respond(udata, &resp, sizeof(resp));
	if (err)
		goto err_av;
	to_sah(ibah)->av = av;
	return 0;

err_av:
	av_destroy(sdev, av);
err_count:
	atomic_dec(&sdev->num_ah);
	return err;
}

/**
 * sroce_query_ah - ib_device_ops: give the address back
 * @ibah: the handle
 * @attr: filled in
 *
 * Return: 0.
 */
int sroce_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr)
{
	*attr = to_sah(ibah)->av->attr;
	return 0;
}

/**
 * sroce_destroy_ah - ib_device_ops: forget an address
 * @ibah: the handle
 * @flags: nothing here sleeps
 *
 * Any context.
 *
 * Return: 0.
 */
int sroce_destroy_ah(struct ib_ah *ibah, u32 flags)
{
	struct sroce_dev *sdev = to_sdev(ibah->device);

	av_destroy(sdev, to_sah(ibah)->av);
	atomic_dec(&sdev->num_ah);
	return 0;
}

/**
 * sroce_av_get - find the address vector of a number
 * @pd: protection domain of who uses it
 * @num: what its maker was told
 *
 * Any context.
 *
 * Return: the address vector with a reference, or NULL if @pd has no such number.
 */
struct sroce_av *sroce_av_get(struct ib_pd *pd, u32 num)
{
	struct sroce_av *av;

	rcu_read_lock();
	av = xa_load(&to_sdev(pd->device)->avs, num);
	if (av && (av->pd != pd || !refcount_inc_not_zero(&av->ref)))
		av = NULL;
	rcu_read_unlock();
	return av;
}

/**
 * sroce_av_put - the end of sroce_av_get()
 * @av: the address vector, whose lock is not held
 *
 * Any context.
 */
void sroce_av_put(struct sroce_av *av)
{
	if (!refcount_dec_and_test(&av->ref))
		return;
	sroce_path_release(&av->path);
	kfree_rcu(av, rcu);
}

/**
 * sroce_av_release_all - a link's netdev goes: let go of the routes over it
 * @sdev: the link, which is marked gone
 *
 * Who takes an address vector's lock after this sees the mark, and looks up
 * no new route. Process context.
 */
void sroce_av_release_all(struct sroce_dev *sdev)
{
	struct sroce_av *av;
	unsigned long num;

	rcu_read_lock();
	xa_for_each(&sdev->avs, num, av) {
		/* else its end lets go of the route, without the lock */
		if (!refcount_inc_not_zero(&av->ref))
			continue;
		spin_lock_bh(&av->lock);
		sroce_path_release(&av->path);
		spin_unlock_bh(&av->lock);
		sroce_av_put(av);
	}
	rcu_read_unlock();
}
