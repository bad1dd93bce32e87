// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory regions. Pages are kept as blocks of one size, the largest that the
 * region's layout allows, so that an address is found by a shift and huge
 * pages stay huge.
 */
#include <linux/overflow.h>
#include <linux/random.h>
#include <rdma/ib_umem.h>
#include <rdma/iter.h>
#include <rdma/uverbs_ioctl.h>

#include "sroce.h"

/* A key: 24 bits of index, 8 that differ between one use of it and the next. */
#define KEY_INDEX_SHIFT	8
#define KEY_INDEX_MAX	0xffffffU

static int mr_map_blocks(struct sroce_mr *mr)
{
	struct ib_umem *umem = mr->umem;
	struct ib_block_iter iter;
	unsigned long size;
	size_t n, i = 0;

	/*
	 * Aligned to the pages' own addresses and not to @iova: the two need
	 * not agree even within a page.
	 */
	size = ib_umem_find_best_pgsz(umem, GENMASK(BITS_PER_LONG - 1, PAGE_SHIFT),
				      umem->address);
	if (!size)
		return -EINVAL;

	n = ib_umem_num_dma_blocks(umem, size);
	mr->block = kvmalloc_array(n, sizeof(*mr->block), GFP_KERNEL_ACCOUNT);
	if (!mr->block)
		return -ENOMEM;

	/* with ib_uses_virt_dma(), a DMA address is a kernel address */
	rdma_umem_for_each_dma_block(umem, &iter, size)
		mr->block[i++] = rdma_block_iter_dma_address(&iter);
	mr->block_shift = __ffs(size);
	mr->offset = umem->address & (size - 1);
	return 0;
}

static int mr_alloc_key(struct sroce_dev *sdev, struct sroce_mr *mr)
{
	u32 index;
	int err;

	err = xa_alloc_cyclic(&sdev->mrs, &index, mr, XA_LIMIT(1, KEY_INDEX_MAX),
			      &sdev->mr_next, GFP_KERNEL);
	if (err < 0)
		return err;

	/* found by its index before this, it has no key that matches */
	WRITE_ONCE(mr->key, index << KEY_INDEX_SHIFT | get_random_u8());
	return 0;
}

/**
 * sroce_reg_user_mr - ib_device_ops: register memory of the calling process
 * @ibpd: protection domain
 * @start: address in the process
 * @length: bytes
 * @iova: the address that work requests will use
 * @access: IB_ACCESS_*
 * @udata: no driver data
 *
 * Return: the region or an error pointer.
 */
struct ib_mr *sroce_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 iova,
				int access, SROCE_REG_MR_DMAH struct ib_udata *udata)
{
	struct sroce_dev *sdev = to_sdev(ibpd->device);
	struct sroce_mr *mr;
	u64 end;
	int err;

	if (SROCE_REG_MR_HAS_DMAH || access & ~SROCE_ACCESS_SUPPORTED)
		return ERR_PTR(-EOPNOTSUPP);
	if (!sroce_udata_clear(udata) || check_add_overflow(iova, length, &end))
		return ERR_PTR(-EINVAL);
	if (!sroce_take(&sdev->num_mr, SROCE_MAX_MR))
		return ERR_PTR(-ENOMEM);

	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr) {
		err = -ENOMEM;
		goto err_count;
	}
	refcount_set(&mr->ref, 1);
	init_completion(&mr->idle);
	mr->ibmr.pd = ibpd;
	mr->ibmr.device = ibpd->device;
	mr->access = access;
	mr->iova = iova;
	mr->length = length;

	mr->umem = ib_umem_get_va(ibpd->device, start, length, access);
	if (IS_ERR(mr->umem)) {
		err = PTR_ERR(mr->umem);
		goto err_free;
	}
	err = mr_map_blocks(mr);
	if (err)
		goto err_umem;
	err = mr_alloc_key(sdev, mr);
	if (err)
		goto err_blocks;

	mr->ibmr.lkey = mr->key;
	mr->ibmr.rkey = mr->key;
	return &mr->ibmr;

err_blocks:
	kvfree(mr->block);
err_umem:
	ib_umem_release(mr->umem);
err_free:
	kfree(mr);
err_count:
	atomic_dec(&sdev->num_mr);
	return ERR_PTR(err);
}

/**
 * sroce_dereg_mr - ib_device_ops: take a region away
 * @ibmr: the region
 * @udata: no driver data
 *
 * Waits for packets that are being copied, and for nothing else: a request
 * that is still posted finds the key gone.
 *
 * Return: 0.
 */
int sroce_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct sroce_dev *sdev = to_sdev(ibmr->device);
	struct sroce_mr *mr = to_smr(ibmr);

	xa_erase(&sdev->mrs, mr->key >> KEY_INDEX_SHIFT);
	sroce_mr_put(mr);
	wait_for_completion(&mr->idle);

	kvfree(mr->block);
	ib_umem_release(mr->umem);
	kfree_rcu(mr, rcu);
	atomic_dec(&sdev->num_mr);
	return 0;
}

/**
 * sroce_mr_get - find the region of a key
 * @pd: protection domain of who uses the key
 * @key: lkey or rkey
 *
 * Any context. Return: the region with a reference, or NULL if @pd has no
 * such key.
 */
struct sroce_mr *sroce_mr_get(struct ib_pd *pd, u32 key)
{
	struct sroce_dev *sdev = to_sdev(pd->device);
	struct sroce_mr *mr;

	rcu_read_lock();
	mr = xa_load(&sdev->mrs, key >> KEY_INDEX_SHIFT);
	if (mr && (READ_ONCE(mr->key) != key || mr->ibmr.pd != pd ||
		   !refcount_inc_not_zero(&mr->ref)))
		mr = NULL;
	rcu_read_unlock();
	return mr;
}

/**
 * sroce_mr_put - drop a reference
 * @mr: the region
 *
 * Any context.
 */
void sroce_mr_put(struct sroce_mr *mr)
{
	if (refcount_dec_and_test(&mr->ref))
		complete(&mr->idle);
}

/**
 * sroce_mr_covers - may this be done to these bytes of a region?
 * @mr: the region
 * @addr: address in terms of its iova
 * @len: bytes
 * @access: IB_ACCESS_* that are all needed; reading by the owner needs none
 *
 * Return: whether it may.
 */
bool sroce_mr_covers(const struct sroce_mr *mr, u64 addr, u64 len, int access)
{
	u64 off = addr - mr->iova;

	return (mr->access & access) == access && addr >= mr->iova &&
	       off <= mr->length && len <= mr->length - off;
}

/**
 * sroce_mr_span - where bytes of a region lie
 * @mr: the region
 * @addr: address in terms of its iova, within the region
 * @len: bytes wanted; on return, how many of them lie there in one piece
 * @write: they are to be written
 *
 * Return: their address in the kernel.
 */
void *sroce_mr_span(struct sroce_mr *mr, u64 addr, u32 *len, bool write)
{
	u64 off = addr - mr->iova + mr->offset;
	u64 size = 1ULL << mr->block_shift;
	u64 in_block = off & (size - 1);

	*len = min_t(u64, *len, size - in_block);
	return (void *)(mr->block[off >> mr->block_shift] + in_block);
}

/**
 * sroce_mr_get_remote - find the region of a key that came over the wire
 * @qp: the queue pair that it came to
 * @pd: @qp's protection domain
 * @rkey: the key
 * @addr: first byte; on return, in the terms of the region
 * @len: bytes
 * @access: IB_ACCESS_REMOTE_* that are all needed
 *
 * BH is off until sroce_mr_put(). Return: the region with a reference, or NULL
 * if the access has to be refused.
 */
struct sroce_mr *sroce_mr_get_remote(struct sroce_qp *qp, struct ib_pd *pd, u32 rkey, u64 *addr,
				     u64 len, int access)
{
	struct sroce_mr *mr = sroce_mr_get(pd, rkey);

	if (mr && !sroce_mr_covers(mr, *addr, len, access)) {
		sroce_mr_put(mr);
		mr = NULL;
	}
	return mr;
}

/**
 * sroce_mr_fault - bring pages in that sroce_mr_span() did not find
 * @pd: protection domain
 * @lkey: the region's key
 * @addr: first byte
 * @len: bytes
 * @write: they are to be written
 *
 * Sleeps. Return: 0 to look again, or an errno: the access is refused.
 */
int sroce_mr_fault(struct ib_pd *pd, u32 lkey, u64 addr, u64 len, bool write)
{
	return 0;
}

/**
 * sroce_key_invalidate - take a key out of use
 * @qp: the queue pair that asks
 * @pd: its protection domain
 * @rkey: the key
 *
 * BH is off, and no region held. Return: 0, and no other CPU copies through
 * the key any more; or -EINVAL if it can't be invalidated.
 */
int sroce_key_invalidate(struct sroce_qp *qp, struct ib_pd *pd, u32 rkey)
{
	return -EINVAL;
}
