// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory regions, and the keys of regions and windows. Pages are kept as blocks
 * of one size, the largest that the region's layout allows, so that an address
 * is found by a shift and huge pages stay huge.
 */
#include <linux/overflow.h>
#include <linux/random.h>
#include <linux/rhashtable.h>
#include <linux/uaccess.h>
#include <rdma/ib_umem.h>
#include <rdma/uverbs_ioctl.h>

#include "sroce.h"

/*
 * A key: 24 bits of index, and 8 that are the consumer's where work requests take the key
 * into use (IBTA Vol.1 10.6.7.2). All are at random, so that no key says anything of another.
 */
#define KEY_INDEX_SHIFT	8

/* Where writes to SROCE_NULL_LKEY go; nobody reads it. */
static u8 null_sink[PAGE_SIZE] __aligned(PAGE_SIZE);

/* Keys */

/*
 * An index is spread by one multiplication, of whose product each bit here depends on all bits
 * of the index. With a secret factor nobody can tell which keys share a bucket; it has 32 bits,
 * as with a small one few buckets would do. This and key_differs() become part of the lookup,
 * which a message needs up to three of: Documentation/decisions.rst has what others cost.
 */
static u32 key_hash(const void *index, u32 len, u32 seed)
{
	return (u64)*(const u32 *)index * (seed | BIT(31) | 1) >> 24;
}

static int key_differs(struct rhashtable_compare_arg *arg, const void *mr)
{
	return ((const struct sroce_mr *)mr)->index != *(const u32 *)arg->key;
}

static const struct rhashtable_params key_params = {
	.key_len = sizeof_field(struct sroce_mr, index),
	.key_offset = offsetof(struct sroce_mr, index),
	.head_offset = offsetof(struct sroce_mr, node),
	.hashfn = key_hash,
	.obj_cmpfn = key_differs,
	.automatic_shrinking = true,
};

/**
 * sroce_keys_init - set a new device's key table up
 * @sdev: the device
 *
 * May sleep.
 *
 * Return: 0 or an errno.
 */
int sroce_keys_init(struct sroce_dev *sdev)
{
	struct sroce_mr *null = &sdev->null_mr;
	struct sroce_mr *dma = &sdev->dma_mr;

	refcount_set(&null->ref, 1);
	null->kind = SROCE_MR_NULL;
	null->key = SROCE_NULL_LKEY;
	null->access = IB_ACCESS_LOCAL_WRITE;
	null->length = U64_MAX;

	refcount_set(&dma->ref, 1);
	dma->kind = SROCE_MR_DMA;
	dma->key = SROCE_LOCAL_DMA_LKEY;
	dma->access = IB_ACCESS_LOCAL_WRITE;
	dma->length = U64_MAX;

	return rhashtable_init(&sdev->keys, &key_params);
}

/**
 * sroce_keys_exit - the end of sroce_keys_init()
 * @sdev: the device, which has no regions and no windows any more
 *
 * May sleep.
 */
void sroce_keys_exit(struct sroce_dev *sdev)
{
	rhashtable_destroy(&sdev->keys);
}

/*
 * Who revokes a key that is in use waits for those who copy. With PREEMPT_RT these may be preempted, and
 * want a lock of who waits for that very CPU: there it sleeps, on a lock that they read.
 */
#ifdef CONFIG_PREEMPT_RT
static void copying_init(struct sroce_mr *mr)
{
	rwlock_init(&mr->copying);
}

static void copying_begin(struct sroce_mr *mr)
{
	if (mr->kind == SROCE_MR_WINDOW || mr->kind == SROCE_MR_FAST)
		read_lock(&mr->copying);
}

static void copying_end(struct sroce_mr *mr)
{
	if (mr->kind == SROCE_MR_WINDOW || mr->kind == SROCE_MR_FAST)
		read_unlock(&mr->copying);
}

static void copying_wait(struct sroce_mr *mr)
{
	write_lock(&mr->copying);
	write_unlock(&mr->copying);
}
#else
static void copying_init(struct sroce_mr *mr) {}
static void copying_begin(struct sroce_mr *mr) {}
static void copying_end(struct sroce_mr *mr) {}

static void copying_wait(struct sroce_mr *mr)
{
	cpu_relax();
}
#endif

/**
 * sroce_key_alloc - enter a region or a window into the key table
 * @sdev: the device
 * @mr: found from now on by its index, and of no use before it has @key
 * @key: the key that it may use now
 *
 * May sleep.
 *
 * Return: 0 or an errno.
 */
int sroce_key_alloc(struct sroce_dev *sdev, struct sroce_mr *mr, u32 *key)
{
	int err;

	copying_init(mr);
	do {
		*key = get_random_u32();
		mr->index = *key >> KEY_INDEX_SHIFT;
		/* 0 is that of SROCE_NULL_LKEY and the like */
		err = mr->index ? rhashtable_lookup_insert_fast(&sdev->keys, &mr->node, key_params)
				: -EEXIST;
	} while (err == -EEXIST);
	return err;
}

/**
 * sroce_key_free - take a region or a window out of the key table
 * @sdev: the device
 * @mr: the region or window
 *
 * Who looked it up before may still have it: by RCU or by a reference.
 */
void sroce_key_free(struct sroce_dev *sdev, struct sroce_mr *mr)
{
	rhashtable_remove_fast(&sdev->keys, &mr->node, key_params);
}

/**
 * sroce_key_find - what has the index of a key?
 * @sdev: the device
 * @key: the key; what differs between uses of its index is not looked at
 *
 * RCU is held, and holds what is returned.
 *
 * Return: the region or the window, or NULL.
 */
struct sroce_mr *sroce_key_find(struct sroce_dev *sdev, u32 key)
{
	const u32 index = key >> KEY_INDEX_SHIFT;

	return rhashtable_lookup(&sdev->keys, &index, key_params);
}

/* What a key stands for, with a reference. RCU is held. */
static struct sroce_mr *key_hold(struct sroce_dev *sdev, u32 key)
{
	struct sroce_mr *mr, *next;

	for (mr = sroce_key_find(sdev, key); mr; mr = next) {
		if (READ_ONCE(mr->key) != key)
			return NULL;
		copying_begin(mr);
		if (refcount_inc_not_zero(&mr->ref))
			return mr;
		copying_end(mr);
		/* its successor was there before it went: pairs with mr_drain() */
		smp_rmb();
		next = sroce_key_find(sdev, key);
		if (next == mr)
			return NULL;
	}
	return NULL;
}

/**
 * sroce_key_get - find the region or the bound window of a key
 * @sdev: the device
 * @key: the key
 *
 * BH is off as long as the reference is kept: who binds a window anew spins for
 * it.
 *
 * Return: what it is with a reference, or NULL.
 */
struct sroce_mr *sroce_key_get(struct sroce_dev *sdev, u32 key)
{
	struct sroce_mr *mr;

	rcu_read_lock();
	mr = key_hold(sdev, key);
	rcu_read_unlock();
	if (!mr)
		return NULL;

	/* a window may have been bound anew in between; from here on it is not */
	smp_acquire__after_ctrl_dep();
	if (READ_ONCE(mr->key) == key)
		return mr;
	sroce_key_put(mr);
	return NULL;
}

/**
 * sroce_key_put - drop a reference
 * @mr: from sroce_key_get()
 *
 * Any context.
 */
void sroce_key_put(struct sroce_mr *mr)
{
	const bool region = mr->kind == SROCE_MR_REGION;

	if (refcount_dec_and_test(&mr->ref) && region)
		complete(&mr->idle);
	/* a region may be gone; the others are not before an RCU grace period, and BH is off */
	if (!region)
		copying_end(mr);
}

/**
 * sroce_key_publish - let a window or a region for fast registration be found
 * @mr: which is filled in, and nobody has
 * @key: by this key
 *
 * Under the lock that guards its state.
 */
void sroce_key_publish(struct sroce_mr *mr, u32 key)
{
	WRITE_ONCE(mr->key, key);
	/* pairs with smp_acquire__after_ctrl_dep() in sroce_key_get() */
	smp_wmb();
	refcount_set(&mr->ref, 1);
}

/**
 * sroce_key_revoke - have nobody find it any more, and nobody have it
 * @mr: from sroce_key_publish()
 *
 * Under the same lock, with BH off and no region held. What is being copied through it
 * takes microseconds: whoever does has BH off, too, and waits for nobody.
 */
void sroce_key_revoke(struct sroce_mr *mr)
{
	WRITE_ONCE(mr->key, 0);
	if (!refcount_dec_and_test(&mr->ref))
		while (refcount_read(&mr->ref))
			copying_wait(mr);
	smp_acquire__after_ctrl_dep();
}

/**
 * sroce_key_invalidate - take a key out of use
 * @qp: the queue pair that asks, or whose peer does
 * @pd: its protection domain
 * @rkey: the key
 * @remote: the peer asks
 *
 * That of a type 2 window that is bound to @qp, or of a fast registration (IBTA Vol.1
 * 9.4.1.1.3): what was registered otherwise stays. BH is off, and no region held.
 *
 * Return: 0, and no other CPU copies through the key any more; or -EINVAL.
 */
int sroce_key_invalidate(struct sroce_qp *qp, struct ib_pd *pd, u32 rkey, bool remote)
{
	struct sroce_mr *mr;
	int err = -EINVAL;

	rcu_read_lock();
	mr = sroce_key_find(qp_dev(qp), rkey);
	if (mr && mr->kind == SROCE_MR_WINDOW)
		err = sroce_window_invalidate(mr, qp, pd, rkey);
	else if (mr && mr->kind == SROCE_MR_FAST)
		err = sroce_fast_invalidate(mr, pd, rkey, remote);
	rcu_read_unlock();
	return err;
}

/* Memory of a process */

/* A gigabyte, the largest of pages */
#define MEM_BLOCK_MAX_SHIFT	30

static int mem_map_blocks(struct sroce_mem *mem)
{
	struct ib_umem *umem = mem->umem;
	struct ib_block_iter iter;
	unsigned long size;
	size_t n, i = 0;

	/*
	 * Aligned to the pages' own addresses and not to the iova: the two need
	 * not agree even within a page. Of blocks of 4 GiB some kernels lose the size
	 * ("RDMA/umem: Fix truncation for block sizes >= 4G").
	 */
	size = ib_umem_find_best_pgsz(umem, GENMASK(MEM_BLOCK_MAX_SHIFT, PAGE_SHIFT),
				      umem->address);
	if (!size)
		return -EINVAL;

	n = ib_umem_num_dma_blocks(umem, size);
	/* of a TiB in small pages, more than kvmalloc() has: refused, without a complaint */
	mem->block = kvmalloc_array(n, sizeof(*mem->block), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!mem->block)
		return -ENOMEM;

	/* with ib_uses_virt_dma(), a DMA address is a kernel address */
	rdma_umem_for_each_dma_block(umem, &iter, size)
		mem->block[i++] = rdma_block_iter_dma_address(&iter);
	mem->block_shift = __ffs(size);
	mem->offset = umem->address & (size - 1);
	return 0;
}

static int mem_pin(struct ib_device *ibdev, u64 start, u64 length, int access,
		   struct sroce_mem *mem)
{
	int err;

	mem->umem = ib_umem_get_va(ibdev, start, length, access);
	if (IS_ERR(mem->umem))
		return PTR_ERR(mem->umem);
	err = mem_map_blocks(mem);
	if (err)
		ib_umem_release(mem->umem);
	return err;
}

static int mem_on_demand(struct ib_pd *ibpd, u64 start, u64 length, struct sroce_mem *mem)
{
	u64 end;
	int err;

	/* all of the process: 0 and ~0 */
	if (!length || check_add_overflow(start, length, &end))
		return -EINVAL;
	err = sroce_faults_init(ibpd);
	if (err)
		return err;
	mem->odp = sroce_odp_create();
	return PTR_ERR_OR_ZERO(mem->odp);
}

static int mem_get(struct ib_pd *ibpd, u64 start, u64 length, int access,
		   struct sroce_mem *mem)
{
	/* a pointer's tag is no part of the address (mm/gup.c) */
	mem->start = untagged_addr(start);
	if (access & IB_ACCESS_ON_DEMAND)
		return mem_on_demand(ibpd, mem->start, length, mem);
	return mem_pin(ibpd->device, start, length, access, mem);
}

/**
 * sroce_mem_release - the end of memory of any kind
 * @mem: the memory, which no region has
 *
 * May sleep.
 */
void sroce_mem_release(struct sroce_mem *mem)
{
	kvfree(mem->block);
	if (mem->odp)
		sroce_odp_destroy(mem->odp);
	else if (mem->attach)
		sroce_dmabuf_release(mem);
	else
		ib_umem_release(mem->umem);
}

/**
 * sroce_mem_linear - memory that is in one piece
 * @mem: the memory; filled in
 * @addr: where it is in the kernel
 * @offset: of the first byte to be used
 *
 * Return: 0 or -ENOMEM.
 */
int sroce_mem_linear(struct sroce_mem *mem, void *addr, u64 offset)
{
	mem->block = kvmalloc(sizeof(*mem->block), GFP_KERNEL_ACCOUNT);
	if (!mem->block)
		return -ENOMEM;
	mem->block[0] = (unsigned long)addr;
	mem->block_shift = BITS_PER_LONG - 1;
	mem->offset = offset;
	return 0;
}

/* Regions */

static struct sroce_mr *mr_alloc(struct ib_pd *pd, const struct sroce_mem *mem, u64 iova,
				 u64 length, int access)
{
	struct sroce_mr *mr;

	mr = kzalloc(sizeof(*mr), GFP_KERNEL_ACCOUNT);
	if (!mr)
		return NULL;
	refcount_set(&mr->ref, 1);
	init_completion(&mr->idle);
	mr->kind = SROCE_MR_REGION;
	mr->pd = pd;
	mr->access = access;
	mr->iova = access & IB_ZERO_BASED ? 0 : iova;
	mr->length = length;
	mr->mem = *mem;
	return mr;
}

static bool mr_close(struct sroce_mr *mr)
{
	return !atomic_cmpxchg(&mr->windows, 0, INT_MIN);
}

/* It can't be found any more: wait for those who have found it. */
static void mr_drain(struct sroce_mr *mr)
{
	sroce_key_put(mr);
	wait_for_completion(&mr->idle);
}

/**
 * sroce_mr_suits - can there be a region at these addresses?
 * @iova: the address that work requests will use
 * @length: bytes
 *
 * Any context. Its last byte may be the last one of all.
 *
 * Return: true if so.
 */
bool sroce_mr_suits(u64 iova, u64 length)
{
	return !length || iova <= U64_MAX - (length - 1);
}

/**
 * sroce_mr_create - make a region of memory that has been got
 * @pd: protection domain
 * @mem: the memory; the region's only if it is made
 * @iova: the address that work requests will use
 * @length: bytes
 * @access: IB_ACCESS_*
 *
 * May sleep.
 *
 * Return: the region or an error pointer.
 */
struct ib_mr *sroce_mr_create(struct ib_pd *pd, const struct sroce_mem *mem, u64 iova,
			      u64 length, int access)
{
	struct sroce_dev *sdev = to_sdev(pd->device);
	struct sroce_region *region;
	int err = -ENOMEM;
	u32 key;

	if (!sroce_take(&sdev->num_mr, SROCE_MAX_MR))
		return ERR_PTR(-ENOMEM);
	region = kzalloc(sizeof(*region), GFP_KERNEL_ACCOUNT);
	if (!region)
		goto err_count;
	region->mr = mr_alloc(pd, mem, iova, length, access);
	if (!region->mr)
		goto err_region;
	region->iova = iova;
	err = sroce_key_alloc(sdev, region->mr, &key);
	if (err)
		goto err_mr;
	WRITE_ONCE(region->mr->key, key);

	region->ibmr.device = pd->device;
	region->ibmr.lkey = key;
	region->ibmr.rkey = key;
	/* for who imports it: not all of the core's ways here set them */
	region->ibmr.iova = region->mr->iova;
	region->ibmr.length = length;
	return &region->ibmr;

err_mr:
	kfree(region->mr);
err_region:
	kfree(region);
err_count:
	atomic_dec(&sdev->num_mr);
	return ERR_PTR(err);
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
	struct sroce_mem mem = {};
	struct ib_mr *ibmr;
	int err;

	if (SROCE_REG_MR_HAS_DMAH || access & ~SROCE_ACCESS_SUPPORTED)
		return ERR_PTR(-EOPNOTSUPP);
	err = sroce_no_udata(udata);
	if (err)
		return ERR_PTR(err);
	if (!sroce_mr_suits(iova, length))
		return ERR_PTR(-EINVAL);

	err = mem_get(ibpd, start, length, access, &mem);
	if (err)
		return ERR_PTR(err);
	ibmr = sroce_mr_create(ibpd, &mem, iova, length, access);
	if (IS_ERR(ibmr))
		sroce_mem_release(&mem);
	return ibmr;
}

/**
 * sroce_get_dma_mr - ib_device_ops: a region of all the kernel's memory
 * @ibpd: protection domain of a kernel consumer
 * @access: IB_ACCESS_*
 *
 * Return: the region or an error pointer.
 */
struct ib_mr *sroce_get_dma_mr(struct ib_pd *ibpd, int access)
{
	const struct sroce_mem mem = {};

	if (access & ~SROCE_ACCESS_SUPPORTED)
		return ERR_PTR(-EOPNOTSUPP);
	return sroce_mr_create(ibpd, &mem, 0, U64_MAX, access);
}

/*
 * The data path finds the old region or the new one. What can fail does so
 * before anything is changed.
 */
static int mr_replace(struct sroce_region *region, struct sroce_mr *mr)
{
	struct sroce_dev *sdev = to_sdev(region->ibmr.device);
	struct sroce_mr *old = region->mr;

	/* IBTA Vol.1 11.2.8: not while windows are bound to it */
	if (!mr_close(old))
		return -EBUSY;
	mr->index = old->index;
	mr->key = old->key;
	/* it takes no memory, and cannot fail: the old one is there */
	rhashtable_replace_fast(&sdev->keys, &old->node, &mr->node, key_params);
	region->mr = mr;
	mr_drain(old);
	return 0;
}

/**
 * sroce_rereg_user_mr - ib_device_ops: change a region; its key stays
 * @ibmr: the region
 * @flags: IB_MR_REREG_*, what to change
 * @start: address in the process; with IB_MR_REREG_TRANS
 * @length: bytes; with IB_MR_REREG_TRANS
 * @iova: the address that work requests will use; with IB_MR_REREG_TRANS
 * @access: IB_ACCESS_*; with IB_MR_REREG_ACCESS
 * @pd: protection domain
 * @udata: no driver data
 *
 * Return: NULL, as the core's object remains; or an error pointer, and the
 * region is what it was. Without IB_MR_REREG_TRANS: -EACCES if its pages are to
 * be read alone and @access would write, -EOPNOTSUPP if those that are pinned
 * were to come on demand, or the other way, or @access is not for a dma-buf.
 */
struct ib_mr *sroce_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length,
				  u64 iova, int access, struct ib_pd *pd,
				  struct ib_udata *udata)
{
	struct sroce_region *region = to_sregion(ibmr);
	struct sroce_mr *old = region->mr;
	struct sroce_mem mem = old->mem;
	const bool fresh = flags & IB_MR_REREG_TRANS;
	struct sroce_mr *mr;
	int err;

	if (!(flags & IB_MR_REREG_ACCESS))
		access = old->access;
	/* the memory that it has: at its address there may be other by now */
	if (!fresh) {
		if ((old->access ^ access) & IB_ACCESS_ON_DEMAND ||
		    (mem.attach && access & ~SROCE_ACCESS_DMABUF))
			return ERR_PTR(-EOPNOTSUPP);
		if (mem.umem && !mem.umem->writable && ib_access_writable(access))
			return ERR_PTR(-EACCES);
		length = old->length;
		iova = region->iova;
	}
	if (access & ~SROCE_ACCESS_SUPPORTED)
		return ERR_PTR(-EOPNOTSUPP);
	err = sroce_no_udata(udata);
	if (err)
		return ERR_PTR(err);
	if (!sroce_mr_suits(iova, length))
		return ERR_PTR(-EINVAL);

	if (fresh) {
		mem = (struct sroce_mem) {};
		err = mem_get(ibmr->pd, start, length, access, &mem);
		if (err)
			return ERR_PTR(err);
	}
	mr = mr_alloc(pd, &mem, iova, length, access);
	err = mr ? mr_replace(region, mr) : -ENOMEM;
	if (err) {
		kfree(mr);
		if (fresh)
			sroce_mem_release(&mem);
		return ERR_PTR(err);
	}
	region->iova = iova;
	if (fresh)
		sroce_mem_release(&old->mem);
	kfree_rcu(old, rcu);
	return NULL;
}

/**
 * sroce_dereg_mr - ib_device_ops: take a region away
 * @ibmr: the region
 * @udata: no driver data
 *
 * Waits for packets that are being copied, and for nothing else: a request
 * that is still posted finds the key gone.
 *
 * Return: 0; -EBUSY as long as windows are bound to it (IBTA Vol.1 11.2.8).
 */
int sroce_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct sroce_dev *sdev = to_sdev(ibmr->device);
	struct sroce_region *region = to_sregion(ibmr);
	struct sroce_mr *mr = region->mr;

	if (!mr_close(mr))
		return -EBUSY;
	sroce_key_free(sdev, mr);
	if (mr->kind == SROCE_MR_FAST) {
		sroce_fast_destroy(mr);
	} else {
		mr_drain(mr);
		sroce_mem_release(&mr->mem);
		kfree_rcu(mr, rcu);
	}
	kfree(region);
	atomic_dec(&sdev->num_mr);
	return 0;
}

/* The data path */

/**
 * sroce_mr_get - find the region of a local key
 * @pd: protection domain of who uses the key
 * @lkey: the key
 *
 * BH is off until sroce_mr_put(), and no other region is held meanwhile.
 *
 * Return: the region with a reference, or NULL if @pd has no such key.
 */
struct sroce_mr *sroce_mr_get(struct ib_pd *pd, u32 lkey)
{
	struct sroce_dev *sdev = to_sdev(pd->device);
	struct sroce_mr *mr;

	if (lkey == SROCE_NULL_LKEY) {
		refcount_inc(&sdev->null_mr.ref);
		return &sdev->null_mr;
	}
	/* all of the kernel's memory: for the kernel's own domains alone */
	if (lkey == SROCE_LOCAL_DMA_LKEY && rdma_is_kernel_res(&pd->res)) {
		refcount_inc(&sdev->dma_mr.ref);
		return &sdev->dma_mr;
	}

	mr = sroce_key_get(sdev, lkey);
	if (!mr)
		return NULL;
	if (mr->kind == SROCE_MR_WINDOW || mr->pd != pd) {
		sroce_key_put(mr);
		return NULL;
	}
	if (mr->mem.odp)
		sroce_odp_lock(mr->mem.odp);
	return mr;
}

static bool remote_may(const struct sroce_mr *mr, const struct sroce_qp *qp,
		       const struct ib_pd *pd)
{
	return mr->pd == pd && (!mr->num || mr->num == qp->num);
}

/**
 * sroce_mr_get_remote - find the region or window of a key from the wire
 * @qp: the queue pair that it came to
 * @pd: @qp's protection domain
 * @rkey: the key
 * @addr: first byte; on return, in the terms of what is returned
 * @len: bytes
 * @access: IB_ACCESS_REMOTE_* and the like that are all needed
 *
 * IBTA Vol.1 9.7.4.1.5. BH is off until sroce_mr_put(), and no other
 * region is held meanwhile.
 *
 * Return: the region with a reference, or NULL if the access has to be refused.
 */
struct sroce_mr *sroce_mr_get_remote(struct sroce_qp *qp, struct ib_pd *pd, u32 rkey, u64 *addr,
				     u64 len, int access)
{
	struct sroce_mr *mr = sroce_key_get(to_sdev(pd->device), rkey);

	if (!mr)
		return NULL;
	if (!remote_may(mr, qp, pd) || !sroce_mr_covers(mr, *addr, len, access)) {
		sroce_key_put(mr);
		return NULL;
	}
	if (mr->mem.odp)
		sroce_odp_lock(mr->mem.odp);
	return mr;
}

/**
 * sroce_mr_allows_remote - may a key from the wire do this, wherever it is?
 * @qp: the queue pair that it came to
 * @pd: @qp's protection domain
 * @rkey: the key
 * @access: IB_ACCESS_* that are all needed
 *
 * For what is done to a whole region. BH is off, and no other region is held.
 *
 * Return: whether it may.
 */
bool sroce_mr_allows_remote(struct sroce_qp *qp, struct ib_pd *pd, u32 rkey, int access)
{
	struct sroce_mr *mr = sroce_key_get(to_sdev(pd->device), rkey);
	bool may;

	if (!mr)
		return false;
	may = remote_may(mr, qp, pd) && (mr->access & access) == access;
	sroce_key_put(mr);
	return may;
}

/**
 * sroce_mr_put - let a region go
 * @mr: from sroce_mr_get() or sroce_mr_get_remote()
 */
void sroce_mr_put(struct sroce_mr *mr)
{
	if (mr->mem.odp)
		sroce_odp_unlock(mr->mem.odp);
	sroce_key_put(mr);
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

static void *null_span(u64 addr, u32 *len, bool write)
{
	*len = min_t(u32, *len, PAGE_SIZE - offset_in_page(addr));
	return (write ? (void *)null_sink : page_address(ZERO_PAGE(0))) + offset_in_page(addr);
}

/* In the last piece that begins at or before @off. */
static void *piece_span(const struct sroce_mem *mem, u64 off, u32 *len)
{
	const struct sroce_piece *piece = mem->piece;
	u32 low = 0, high = mem->num - 1;
	u64 start;

	while (low < high) {
		u32 mid = low + (high - low) / 2;

		if (piece[mid].end > off)
			high = mid;
		else
			low = mid + 1;
	}
	start = low ? piece[low - 1].end : 0;
	*len = min_t(u64, *len, piece[low].end - off);
	return (void *)(piece[low].addr + (off - start));
}

/**
 * sroce_mr_span - where bytes of a region lie
 * @mr: the region
 * @addr: address in terms of its iova, within the region
 * @len: bytes wanted; on return, how many of them lie there in one piece
 * @write: they are to be written
 *
 * Return: their address in the kernel. NULL if they are not there for that:
 * let go of the region and have sroce_mr_fault() called, then look again.
 */
void *sroce_mr_span(struct sroce_mr *mr, u64 addr, u32 *len, bool write)
{
	u64 off = addr - mr->iova + mr->mem.offset;
	u64 size = 1ULL << mr->mem.block_shift;
	u64 in_block = off & (size - 1);

	if (mr->mem.odp)
		return sroce_odp_span(mr->mem.odp, mr->mem.start + (addr - mr->iova), len, write);
	if (mr->kind == SROCE_MR_NULL)
		return null_span(addr, len, write);
	if (!mr->mem.block)
		/* all of the kernel's memory is where its address says: ib_uses_virt_dma() */
		return mr->mem.piece ? piece_span(&mr->mem, off, len) : (void *)(uintptr_t)addr;

	*len = min_t(u64, *len, size - in_block);
	return (void *)(mr->mem.block[off >> mr->mem.block_shift] + in_block);
}
