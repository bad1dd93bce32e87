// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Fast registration: regions of kernel consumers, whose memory comes with a work
 * request and goes with another, the peer's as well.
 *
 * As a window, such a region is one object that is used again: requests are carried
 * out in softirq, and must not fail for want of memory.
 */
#include <linux/log2.h>

#include "sroce.h"

#define FAST_REMOTE							\
	(IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ |		\
	 IB_ACCESS_REMOTE_ATOMIC | SROCE_ACCESS_FLUSH)

#define FAST_ACCESS	(IB_ACCESS_LOCAL_WRITE | FAST_REMOTE | IB_ACCESS_OPTIONAL)

/**
 * struct sroce_fast - a region for fast registration
 * @mr: what the data path finds by its key while it is registered; its key is 0 while
 *	it is not
 * @lock: guards registering; BH off. As that of a window, nobody who has a region
 *	takes it
 * @dead: never to be registered again
 * @room: in both lists
 * @mapped: @next is what the next registration is of; else it is as before
 * @next: what sroce_map_mr_sg() has collected; the consumer's until it posts
 */
struct sroce_fast {
	struct sroce_mr mr;
	spinlock_t lock;
	bool dead;
	u32 room;
	bool mapped;
	struct sroce_mem next;
};

static struct sroce_fast *to_fast(struct sroce_mr *mr)
{
	return container_of(mr, struct sroce_fast, mr);
}

static bool list_alloc(struct sroce_mem *mem, enum ib_mr_type type, u32 room)
{
	if (type == IB_MR_TYPE_SG_GAPS)
		mem->piece = kvmalloc_array(room, sizeof(*mem->piece), GFP_KERNEL);
	else
		mem->block = kvmalloc_array(room, sizeof(*mem->block), GFP_KERNEL);
	return mem->piece || mem->block;
}

static void list_free(struct sroce_mem *mem)
{
	kvfree(mem->piece);
	kvfree(mem->block);
}

static void fast_free(struct sroce_fast *fast)
{
	list_free(&fast->next);
	list_free(&fast->mr.mem);
}

static struct sroce_fast *fast_create(struct ib_pd *pd, enum ib_mr_type type, u32 room)
{
	struct sroce_fast *fast;

	fast = kzalloc(sizeof(*fast), GFP_KERNEL);
	if (!fast)
		return NULL;
	spin_lock_init(&fast->lock);
	fast->mr.kind = SROCE_MR_FAST;
	fast->mr.pd = pd;
	fast->room = room;
	if (list_alloc(&fast->mr.mem, type, room) && list_alloc(&fast->next, type, room))
		return fast;
	fast_free(fast);
	kfree(fast);
	return NULL;
}

/**
 * sroce_alloc_mr - ib_device_ops: make a region that work requests register
 * @ibpd: protection domain of a kernel consumer
 * @type: IB_MR_TYPE_MEM_REG or IB_MR_TYPE_SG_GAPS
 * @max_num_sg: pages that it may have, or pieces of any length
 *
 * IBTA Vol.1, Allocate L_Key. May sleep.
 *
 * Return: the region, not registered, or an error pointer.
 */
struct ib_mr *sroce_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type, u32 max_num_sg)
{
	struct sroce_dev *sdev = to_sdev(ibpd->device);
	struct sroce_region *region;
	struct sroce_fast *fast;
	int err = -ENOMEM;

	if (type != IB_MR_TYPE_MEM_REG && type != IB_MR_TYPE_SG_GAPS)
		return ERR_PTR(-EOPNOTSUPP);
	if (!max_num_sg || max_num_sg > SROCE_MAX_FAST_PAGES)
		return ERR_PTR(-EINVAL);
	if (!sroce_take(&sdev->num_mr, SROCE_MAX_MR))
		return ERR_PTR(-ENOMEM);
	region = kzalloc(sizeof(*region), GFP_KERNEL);
	if (!region)
		goto err_count;
	fast = fast_create(ibpd, type, max_num_sg);
	if (!fast)
		goto err_region;
	err = sroce_key_alloc(sdev, &fast->mr, &region->ibmr.lkey);
	if (err)
		goto err_fast;
	region->ibmr.rkey = region->ibmr.lkey;
	region->mr = &fast->mr;
	return &region->ibmr;

err_fast:
	fast_free(fast);
	kfree(fast);
err_region:
	kfree(region);
err_count:
	atomic_dec(&sdev->num_mr);
	return ERR_PTR(err);
}

static int set_page(struct ib_mr *ibmr, u64 addr)
{
	struct sroce_fast *fast = to_fast(to_sregion(ibmr)->mr);
	struct sroce_mem *next = &fast->next;

	if (next->num == fast->room)
		return -ENOMEM;
	/* with ib_uses_virt_dma(), a DMA address is a kernel address */
	next->block[next->num++] = addr;
	return 0;
}

static int map_pages(struct ib_mr *ibmr, struct sroce_mem *next, struct scatterlist *sg, int num,
		     unsigned int *offset)
{
	int mapped;

	if (!is_power_of_2(ibmr->page_size))
		return -EINVAL;
	next->block_shift = ilog2(ibmr->page_size);
	mapped = ib_sg_to_pages(ibmr, sg, num, offset, set_page);
	/* from here on the iova is the consumer's, as ib_map_mr_sg_zbva() shows */
	next->offset = ibmr->iova & (ibmr->page_size - 1);
	return mapped;
}

/* Whatever the entries' addresses and lengths: the page size says nothing (ib_map_mr_sg()). */
static int map_pieces(struct ib_mr *ibmr, struct sroce_mem *next, u32 room,
		      struct scatterlist *sg, int num, unsigned int *offset)
{
	u32 skip = offset ? *offset : 0;
	struct scatterlist *entry;
	int i;

	if (num <= 0 || skip > sg_dma_len(sg))
		return -EINVAL;
	ibmr->iova = sg_dma_address(sg) + skip;
	ibmr->length = 0;
	for_each_sg(sg, entry, min_t(u32, num, room), i) {
		ibmr->length += sg_dma_len(entry) - skip;
		next->piece[i] = (struct sroce_piece) {
			.addr = sg_dma_address(entry) + skip,
			.end = ibmr->length,
		};
		skip = 0;
	}
	next->num = i;
	if (offset)
		*offset = 0;
	return i;
}

/**
 * sroce_map_mr_sg - ib_device_ops: what the next registration is of
 * @ibmr: from sroce_alloc_mr(); its iova, length and page_size are set
 * @sg: mapped by ib_dma_map_sg()
 * @num: entries of it
 * @offset: into the first; on return, into the one that did not fit. May be NULL
 *
 * Any context. What is registered until then is not touched: the consumer may have
 * the request that invalidates it posted together with the next registration, as
 * rdma_rw_init_one_mr() does.
 *
 * Return: entries that are mapped as a whole, or an errno.
 */
int sroce_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int num, unsigned int *offset)
{
	struct sroce_fast *fast = to_fast(to_sregion(ibmr)->mr);
	struct sroce_mem *next = &fast->next;

	next->num = 0;
	fast->mapped = true;
	if (next->piece)
		return map_pieces(ibmr, next, fast->room, sg, num, offset);
	return map_pages(ibmr, next, sg, num, offset);
}

/**
 * sroce_fast_prepare - put a registration into a request
 * @wqe: the request
 * @wr: the consumer's
 *
 * Any context.
 *
 * Return: 0 or an errno.
 */
int sroce_fast_prepare(struct sroce_send_wqe *wqe, const struct ib_reg_wr *wr)
{
	const struct ib_mr *ibmr = wr->mr;

	if (wr->access & ~FAST_ACCESS)
		return -EOPNOTSUPP;
	if ((ibmr->type != IB_MR_TYPE_MEM_REG && ibmr->type != IB_MR_TYPE_SG_GAPS) ||
	    ib_check_mr_access(ibmr->device, wr->access))
		return -EINVAL;
	/* eight bits are the consumer's: ib_update_fast_reg_key() */
	if ((wr->key ^ ibmr->lkey) & ~0xffU)
		return -EINVAL;
	wqe->rkey = wr->key;
	wqe->bind_addr = ibmr->iova;
	wqe->bind_len = ibmr->length;
	wqe->bind_access = wr->access;
	return 0;
}

/* Another list, or the same as before. */
static void take_list(struct sroce_fast *fast)
{
	if (!fast->mapped)
		return;
	swap(fast->mr.mem, fast->next);
	fast->mapped = false;
}

static u64 list_bytes(const struct sroce_mem *mem)
{
	if (!mem->num)
		return 0;
	if (mem->piece)
		return mem->piece[mem->num - 1].end;
	return ((u64)mem->num << mem->block_shift) - mem->offset;
}

static int fast_register(struct sroce_fast *fast, struct sroce_qp *qp,
			 const struct sroce_send_wqe *wqe)
{
	struct sroce_mr *mr = &fast->mr;

	lockdep_assert_held(&fast->lock);
	if (fast->dead || mr->pd != qp->ibqp.pd)
		return -EINVAL;
	/* it has to be invalidated first */
	if (mr->key)
		return -EBUSY;

	take_list(fast);
	if (wqe->bind_len > list_bytes(&mr->mem))
		return -EINVAL;
	mr->access = wqe->bind_access;
	mr->iova = wqe->bind_addr;
	mr->length = wqe->bind_len;
	sroce_key_publish(mr, wqe->rkey);
	return 0;
}

/**
 * sroce_fast_register - register a region
 * @qp: the queue pair that does
 * @wqe: the request, the kernel's copy
 *
 * IBTA Vol.1 11.4.1.1, Fast Register Physical MR. BH is off, and no region held.
 *
 * Return: 0; or an errno, and the region is registered, or not, as it was.
 */
int sroce_fast_register(struct sroce_qp *qp, const struct sroce_send_wqe *wqe)
{
	struct sroce_mr *mr;
	int err = -EINVAL;

	rcu_read_lock();
	mr = sroce_key_find(qp_dev(qp), wqe->rkey);
	if (mr && mr->kind == SROCE_MR_FAST) {
		spin_lock(&to_fast(mr)->lock);
		err = fast_register(to_fast(mr), qp, wqe);
		spin_unlock(&to_fast(mr)->lock);
	}
	rcu_read_unlock();
	return err;
}

/**
 * sroce_fast_invalidate - take a registration back
 * @mr: the region; RCU holds it
 * @pd: protection domain of who asks
 * @rkey: the key
 * @remote: the peer asks
 *
 * BH is off, and no region held. A region without remote access has no R_Key. Its L_Key has the
 * same value, but the peer must not learn or use that.
 *
 * Its owner may take back what is not registered, and by any of the region's keys: consumers do
 * so before each REG_MR, the first one as well, and after requests have been flushed they do not
 * know which of their keys was the last that came to be.
 *
 * Return: 0, and no other CPU copies through the key any more; or -EINVAL.
 */
int sroce_fast_invalidate(struct sroce_mr *mr, struct ib_pd *pd, u32 rkey, bool remote)
{
	struct sroce_fast *fast = to_fast(mr);
	int err = -EINVAL;

	spin_lock(&fast->lock);
	if (mr->pd == pd && !fast->dead &&
	    (!remote || (mr->key == rkey && mr->access & FAST_REMOTE))) {
		if (mr->key)
			sroce_key_revoke(mr);
		err = 0;
	}
	spin_unlock(&fast->lock);
	return err;
}

/**
 * sroce_fast_destroy - take a region away, registered or not
 * @mr: the region; its key is not in the table any more
 *
 * Waits for packets that are being copied. A request that is still posted finds
 * nothing.
 */
void sroce_fast_destroy(struct sroce_mr *mr)
{
	struct sroce_fast *fast = to_fast(mr);

	spin_lock_bh(&fast->lock);
	if (mr->key)
		sroce_key_revoke(mr);
	fast->dead = true;
	spin_unlock_bh(&fast->lock);
	fast_free(fast);
	kfree_rcu(fast, mr.rcu);
}
