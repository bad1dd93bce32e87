// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * On-demand regions: pages of a process that are not pinned. They are noted
 * when they are first used, in chunks, and forgotten when the process's page
 * tables change.
 *
 * Not on ib_umem_odp: hmm_range_fault() writes into its list of pages before it
 * is known whether the answer still holds, so that a reader in softirq would see
 * pages that the process has given back.
 */
#include <linux/hmm.h>
#include <linux/magic.h>
#include <linux/memcontrol.h>
#include <linux/mmu_notifier.h>
#include <linux/sched/signal.h>
#include <linux/sched/mm.h>
#include <rdma/ib_verbs.h>

#include "sroce.h"

#define CHUNK_SHIFT	21
#define CHUNK_SIZE	(1UL << CHUNK_SHIFT)
#define CHUNK_PAGES	(CHUNK_SIZE / PAGE_SIZE)

/* Low bits of a noted page's address */
#define PAGE_THERE	1UL	/* may be used */
#define PAGE_WRITABLE	2UL	/* may be written, and has to be dirty afterwards */

/* Brought in at once; a worker comes back for more. */
#define FAULT_MAX	(4UL << 20)

/* Times that who reads looks whether somebody wants to write: they may never cease to come. */
#define ODP_PATIENCE	10000

/* Empty chunks are looked for whenever there are twice as many as last time. */
#define SWEEP_MIN	1024UL

enum odp_how {
	ODP_READ,
	ODP_WRITE,
	ODP_NO_FAULT,	/* only what is there already */
};

/**
 * struct sroce_odp - on-demand memory of a process
 * @lock: held for reading while pages of it are in use, BH off; for writing to
 *	change what is noted
 * @writers: waiting for @lock: readers, who are many, stand back
 * @mm: the process's memory
 * @users: faults and prefetches, and the region
 * @idle: the last of @users is gone
 * @dying: and what @users do is for nothing
 * @chunks_lock: guards @chunks, and who is at each of them
 * @chunks: struct odp_chunk by the address in the process, in chunks
 * @num_chunks: of these
 * @sweep_at: number of them at which to look for empty ones
 * @forget_lock: one at a time takes pages away: it ends before any page does
 */
struct sroce_odp {
	rwlock_t lock;
	atomic_t writers;
	struct mm_struct *mm;
	refcount_t users;
	struct completion idle;
	bool dying;
	struct mutex chunks_lock;
	struct xarray chunks;
	unsigned long num_chunks;
	unsigned long sweep_at;
	struct mutex forget_lock;
};

/**
 * struct odp_chunk - a piece of a process's address space
 * @notifier: hears of changes in it
 * @odp: whose it is
 * @start: its address
 * @users: who bring pages of it
 * @page: addresses in the kernel of the pages noted, and PAGE_*; 0 for none
 */
struct odp_chunk {
	struct mmu_interval_notifier notifier;
	struct sroce_odp *odp;
	unsigned long start;
	unsigned int users;
	unsigned long *page;
};

/* By its key: whoever deregisters the region does not wait for those that have not begun. */
struct odp_prefetch {
	struct work_struct work;
	struct sroce_dev *sdev;
	const struct ib_pd *pd;		/* is compared with the region's, and may be gone */
	struct ib_sge sge;
	enum odp_how how;
};

/**
 * sroce_odp_caps - what can be done with on-demand regions
 * @attr: filled in
 */
void sroce_odp_caps(struct ib_device_attr *attr)
{
	const u32 datagram = IB_ODP_SUPPORT_SEND | IB_ODP_SUPPORT_RECV | IB_ODP_SUPPORT_SRQ_RECV;
	const u32 connected = datagram | IB_ODP_SUPPORT_WRITE | IB_ODP_SUPPORT_READ |
			      IB_ODP_SUPPORT_ATOMIC | SROCE_ODP_A19;

	attr->kernel_cap_flags |= IBK_ON_DEMAND_PAGING;
	attr->odp_caps.general_caps = IB_ODP_SUPPORT | IB_ODP_SUPPORT_IMPLICIT;
	attr->odp_caps.per_transport_caps.rc_odp_caps = connected;
	attr->odp_caps.per_transport_caps.xrc_odp_caps = connected;
	attr->odp_caps.per_transport_caps.uc_odp_caps = datagram | IB_ODP_SUPPORT_WRITE;
	attr->odp_caps.per_transport_caps.ud_odp_caps = datagram;
}

/* Pages noted */

static void write_lock_pages(struct sroce_odp *odp) __acquires(&odp->lock)
{
	/* a softirq here would wait for us */
	local_bh_disable();
	atomic_inc(&odp->writers);
	write_lock(&odp->lock);
}

static void write_unlock_pages(struct sroce_odp *odp) __releases(&odp->lock)
{
	write_unlock(&odp->lock);
	atomic_dec(&odp->writers);
	local_bh_enable();
}

static unsigned long chunk_index(unsigned long addr)
{
	return (addr & (CHUNK_SIZE - 1)) >> PAGE_SHIFT;
}

static unsigned long chunk_end(const struct odp_chunk *chunk, unsigned long end)
{
	return min(chunk->start + CHUNK_SIZE - 1, end);
}

/*
 * In two steps: nobody uses them any more; then they are dirty. A file system's
 * locks must not be taken under ours, which softirqs take.
 */
static void chunk_forget(struct odp_chunk *chunk, unsigned long first, unsigned long last)
{
	unsigned long i, n = chunk_index(last);

	lockdep_assert_held(&chunk->odp->forget_lock);
	for (i = chunk_index(first); i <= n; i++) {
		unsigned long page = chunk->page[i];

		if (page & PAGE_WRITABLE)
			set_page_dirty(virt_to_page((void *)(page & PAGE_MASK)));
		WRITE_ONCE(chunk->page[i], 0);
	}
}

static void chunk_disable(struct odp_chunk *chunk, unsigned long first, unsigned long last)
{
	unsigned long i, n = chunk_index(last);

	lockdep_assert_held_write(&chunk->odp->lock);
	for (i = chunk_index(first); i <= n; i++)
		chunk->page[i] &= ~PAGE_THERE;
}

/*
 * The process's pages change. When this returns nobody is at them, and nobody
 * finds them before the change is over: mmu_interval_read_retry() sees to that.
 */
static bool odp_invalidate(struct mmu_interval_notifier *notifier,
			   const struct mmu_notifier_range *range, unsigned long seq)
{
	struct odp_chunk *chunk = container_of(notifier, struct odp_chunk, notifier);
	const unsigned long first = max(range->start, chunk->start);
	const unsigned long last = chunk_end(chunk, range->end - 1);
	struct sroce_odp *odp = chunk->odp;

	if (mmu_notifier_range_blockable(range))
		mutex_lock(&odp->forget_lock);
	else if (!mutex_trylock(&odp->forget_lock))
		return false;

	write_lock_pages(odp);
	mmu_interval_set_seq(notifier, seq);
	chunk_disable(chunk, first, last);
	write_unlock_pages(odp);
	chunk_forget(chunk, first, last);

	mutex_unlock(&odp->forget_lock);
	return true;
}

static const struct mmu_interval_notifier_ops odp_notifier_ops = {
	.invalidate = odp_invalidate,
};

static bool note_pages(struct odp_chunk *chunk, const struct hmm_range *range)
{
	unsigned long i, n = (range->end - range->start) >> PAGE_SHIFT;
	unsigned long *page = &chunk->page[chunk_index(range->start)];
	struct sroce_odp *odp = chunk->odp;
	bool valid;

	write_lock_pages(odp);
	valid = !mmu_interval_read_retry(&chunk->notifier, range->notifier_seq);
	for (i = 0; valid && i < n; i++) {
		unsigned long pfn = range->hmm_pfns[i];

		if (!(pfn & HMM_PFN_VALID))
			continue;
		page[i] = (unsigned long)page_address(hmm_pfn_to_page(pfn)) | PAGE_THERE |
			  (pfn & HMM_PFN_WRITE ? PAGE_WRITABLE : 0);
	}
	write_unlock_pages(odp);
	return valid;
}

/* Chunks */

static struct odp_chunk *chunk_create(struct sroce_odp *odp, unsigned long start)
{
	struct odp_chunk *chunk;
	int err = -ENOMEM;

	chunk = kzalloc(sizeof(*chunk), GFP_KERNEL_ACCOUNT);
	if (!chunk)
		return ERR_PTR(-ENOMEM);
	chunk->page = kcalloc(CHUNK_PAGES, sizeof(*chunk->page), GFP_KERNEL_ACCOUNT);
	if (!chunk->page)
		goto err_chunk;
	chunk->odp = odp;
	chunk->start = start;
	err = mmu_interval_notifier_insert(&chunk->notifier, odp->mm, start, CHUNK_SIZE,
					   &odp_notifier_ops);
	if (err)
		goto err_page;
	err = xa_insert(&odp->chunks, start >> CHUNK_SHIFT, chunk, GFP_KERNEL_ACCOUNT);
	if (err)
		goto err_notifier;
	odp->num_chunks++;
	return chunk;

err_notifier:
	mmu_interval_notifier_remove(&chunk->notifier);
err_page:
	kfree(chunk->page);
err_chunk:
	kfree(chunk);
	return ERR_PTR(err);
}

static bool chunk_empty(const struct odp_chunk *chunk)
{
	return !memchr_inv(chunk->page, 0, CHUNK_PAGES * sizeof(*chunk->page));
}

/* Nothing is noted in it, and nothing will be. */
static void chunk_free(struct odp_chunk *chunk)
{
	struct sroce_odp *odp = chunk->odp;

	xa_erase(&odp->chunks, chunk->start >> CHUNK_SHIFT);
	odp->num_chunks--;
	/* who found the chunk before has done so under this lock */
	write_lock_pages(odp);
	write_unlock_pages(odp);

	mmu_interval_notifier_remove(&chunk->notifier);
	kfree(chunk->page);
	kfree(chunk);
}

static void chunk_destroy(struct odp_chunk *chunk)
{
	const unsigned long last = chunk->start + CHUNK_SIZE - 1;
	struct sroce_odp *odp = chunk->odp;

	mutex_lock(&odp->forget_lock);
	write_lock_pages(odp);
	chunk_disable(chunk, chunk->start, last);
	write_unlock_pages(odp);
	chunk_forget(chunk, chunk->start, last);
	mutex_unlock(&odp->forget_lock);
	chunk_free(chunk);
}

/* The process may have left chunks behind that it has no memory in any more. */
static void sweep_chunks(struct sroce_odp *odp)
{
	struct odp_chunk *chunk;
	unsigned long i;

	lockdep_assert_held(&odp->chunks_lock);
	xa_for_each(&odp->chunks, i, chunk) {
		if (!chunk->users && chunk_empty(chunk))
			chunk_free(chunk);
		cond_resched();
	}
	odp->sweep_at = max(2 * odp->num_chunks, SWEEP_MIN);
}

/*
 * The chunk of an address, made if need be; it stays until chunk_put(). No lock does: bringing
 * pages in may take for ever, and others want other chunks.
 */
static struct odp_chunk *chunk_get(struct sroce_odp *odp, unsigned long addr)
{
	struct odp_chunk *chunk;

	mutex_lock(&odp->chunks_lock);
	chunk = xa_load(&odp->chunks, addr >> CHUNK_SHIFT);
	if (!chunk) {
		if (odp->num_chunks >= odp->sweep_at)
			sweep_chunks(odp);
		chunk = chunk_create(odp, addr & ~(CHUNK_SIZE - 1));
	}
	if (!IS_ERR(chunk))
		chunk->users++;
	mutex_unlock(&odp->chunks_lock);
	return chunk;
}

static void chunk_put(struct odp_chunk *chunk)
{
	struct sroce_odp *odp = chunk->odp;

	mutex_lock(&odp->chunks_lock);
	chunk->users--;
	mutex_unlock(&odp->chunks_lock);
}

/* Bringing pages in */

/*
 * What hmm_range_fault() has and get_user_pages() has not: pages of memfd_secret(), which are not
 * in the kernel's own mapping, by which everything is copied here; and shadow stacks, which are
 * not written to but by calls. Who maps such memory later invalidates what was noted.
 */
static bool is_off_limits(const struct vm_area_struct *vma)
{
	return vma->vm_flags & VM_SHADOW_STACK ||
	       (vma->vm_file && file_inode(vma->vm_file)->i_sb->s_magic == SECRETMEM_MAGIC);
}

/* @mm's lock is held. */
static bool has_off_limits(struct mm_struct *mm, unsigned long start, unsigned long end)
{
	struct vm_area_struct *vma;

	for (vma = find_vma(mm, start); vma && vma->vm_start < end;
	     vma = find_vma(mm, vma->vm_end))
		if (is_off_limits(vma))
			return true;
	return false;
}

/* Pages from @addr up to @end of one chunk. */
static int chunk_map(struct odp_chunk *chunk, unsigned long addr, unsigned long end,
		     enum odp_how how)
{
	const unsigned long timeout = jiffies + msecs_to_jiffies(HMM_RANGE_DEFAULT_TIMEOUT);
	struct hmm_range range = {
		.notifier = &chunk->notifier,
		.start = addr & PAGE_MASK,
		.end = PAGE_ALIGN(end),
	};
	struct mm_struct *mm = chunk->odp->mm;
	int err;

	if (how != ODP_NO_FAULT)
		range.default_flags = HMM_PFN_REQ_FAULT;
	if (how == ODP_WRITE)
		range.default_flags |= HMM_PFN_REQ_WRITE;
	range.hmm_pfns = kcalloc((range.end - range.start) >> PAGE_SHIFT,
				 sizeof(*range.hmm_pfns), GFP_KERNEL);
	if (!range.hmm_pfns)
		return -ENOMEM;

	do {
		range.notifier_seq = mmu_interval_read_begin(&chunk->notifier);
		mmap_read_lock(mm);
		err = has_off_limits(mm, range.start, range.end) ? -EFAULT :
			hmm_range_fault(&range);
		mmap_read_unlock(mm);
		if (!err && !note_pages(chunk, &range))
			err = -EBUSY;
	} while (err == -EBUSY && time_before(jiffies, timeout));
	kfree(range.hmm_pfns);
	return err;
}

static int odp_map(struct sroce_odp *odp, unsigned long addr, unsigned long end,
		   enum odp_how how)
{
	struct mem_cgroup *memcg, *before;
	int err = 0;

	/* the process may be gone while its device is not */
	if (end > odp->mm->task_size || !mmget_not_zero(odp->mm))
		return -EFAULT;
	/* chunks and page tables are the process's, whoever works for it */
	memcg = get_mem_cgroup_from_mm(odp->mm);
	before = set_active_memcg(memcg);
	while (!err && addr < end) {
		struct odp_chunk *chunk;
		unsigned long n;

		if (fatal_signal_pending(current) || READ_ONCE(odp->dying)) {
			err = -EINTR;
			break;
		}
		chunk = chunk_get(odp, addr);
		if (IS_ERR(chunk)) {
			err = PTR_ERR(chunk);
			break;
		}
		n = chunk_end(chunk, end - 1) + 1;
		err = chunk_map(chunk, addr, n, how);
		addr = n;
		chunk_put(chunk);
		cond_resched();
	}
	set_active_memcg(before);
	mem_cgroup_put(memcg);
	/* the last user's memory is not to be torn down by who waits for this */
	mmput_async(odp->mm);
	return err;
}

static void odp_put(struct sroce_odp *odp)
{
	if (refcount_dec_and_test(&odp->users))
		complete(&odp->idle);
}

/*
 * Where bytes of a region are in the process, and its memory with a reference;
 * NULL if the region's memory is not on-demand. Of more than there are, those
 * that there are.
 */
static struct sroce_odp *odp_of(struct sroce_dev *sdev, const struct ib_pd *pd, u32 key, u64 addr,
				u64 *len, bool write, unsigned long *start)
{
	struct sroce_odp *odp = ERR_PTR(-EFAULT);
	struct sroce_mr *mr;

	local_bh_disable();
	mr = sroce_key_get(sdev, key);
	if (!mr) {
		odp = ERR_PTR(-ENOENT);
		goto out;
	}
	if (mr->pd != pd || (write && !ib_access_writable(mr->access))) {
		odp = ERR_PTR(-EPERM);
	} else if (sroce_mr_covers(mr, addr, 1, 0)) {
		odp = mr->mem.odp;
		*start = mr->mem.start + (addr - mr->iova);
		*len = min(*len, mr->length - (addr - mr->iova));
		if (odp)
			refcount_inc(&odp->users);
	}
	sroce_key_put(mr);
out:
	local_bh_enable();
	return odp;
}

/**
 * sroce_mr_fault - bring pages in that sroce_mr_span() did not find
 * @pd: protection domain
 * @lkey: the region's key
 * @addr: first byte; the one that is waited for
 * @len: bytes, of which some may be left for the next time
 * @write: they are to be written
 *
 * Sleeps.
 *
 * Return: 0 to look again, or an errno: the access is refused.
 */
int sroce_mr_fault(struct ib_pd *pd, u32 lkey, u64 addr, u64 len, bool write)
{
	const enum odp_how how = write ? ODP_WRITE : ODP_READ;
	unsigned long start;
	struct sroce_odp *odp;
	int err;

	odp = odp_of(to_sdev(pd->device), pd, lkey, addr, &len, write, &start);
	if (IS_ERR_OR_NULL(odp))
		return PTR_ERR_OR_ZERO(odp);

	err = odp_map(odp, start, start + clamp_t(u64, len, 1, FAULT_MAX), how);
	/* what lies behind may never be asked for */
	if (err && err != -EBUSY)
		err = odp_map(odp, start, start + 1, how);
	/* there may be other memory under this key by now */
	if (err == -EBUSY || READ_ONCE(odp->dying))
		err = 0;
	odp_put(odp);
	return err;
}

/* The memory that is to be brought, with a reference. */
static struct sroce_odp *prefetch_of(struct sroce_dev *sdev, const struct ib_pd *pd,
				     const struct ib_sge *sge, enum odp_how how,
				     unsigned long *start)
{
	struct sroce_odp *odp;
	u64 len = sge->length;

	odp = odp_of(sdev, pd, sge->lkey, sge->addr, &len, how == ODP_WRITE, start);
	if (!odp)
		return ERR_PTR(-EINVAL);
	if (IS_ERR(odp) || len == sge->length)
		return odp;
	odp_put(odp);
	return ERR_PTR(-EFAULT);
}

static int prefetch_sge(struct sroce_dev *sdev, const struct ib_pd *pd, const struct ib_sge *sge,
			enum odp_how how)
{
	struct sroce_odp *odp;
	unsigned long start;
	int err;

	odp = prefetch_of(sdev, pd, sge, how, &start);
	if (IS_ERR(odp))
		return PTR_ERR(odp);
	err = odp_map(odp, start, start + sge->length, how);
	odp_put(odp);
	return err;
}

static void prefetch_work(struct work_struct *work)
{
	struct odp_prefetch *pf = container_of(work, struct odp_prefetch, work);

	prefetch_sge(pf->sdev, pf->pd, &pf->sge, pf->how);
	kfree(pf);
}

/* What can be said at once of the arguments is. */
static int prefetch_later(struct sroce_dev *sdev, struct ib_pd *pd, const struct ib_sge *sge,
			  enum odp_how how)
{
	struct odp_prefetch *pf;
	struct sroce_odp *odp;
	unsigned long start;

	odp = prefetch_of(sdev, pd, sge, how, &start);
	if (IS_ERR(odp))
		return PTR_ERR(odp);
	odp_put(odp);
	pf = kmalloc(sizeof(*pf), GFP_KERNEL_ACCOUNT);
	if (!pf)
		return -ENOMEM;
	INIT_WORK(&pf->work, prefetch_work);
	pf->sdev = sdev;
	pf->pd = pd;
	pf->sge = *sge;
	pf->how = how;
	sroce_prefetch_queue(pd, &pf->work);
	return 0;
}

/**
 * sroce_advise_mr - ib_device_ops: memory will be used soon
 * @pd: protection domain
 * @advice: what for
 * @flags: IB_UVERBS_ADVISE_MR_FLAG_FLUSH to wait for it
 * @sg_list: the memory, all of on-demand regions
 * @num_sge: entries of it
 * @attrs: no driver data
 *
 * Return: 0 or an errno; without the flag, of the arguments alone.
 */
int sroce_advise_mr(struct ib_pd *pd, enum ib_uverbs_advise_mr_advice advice, u32 flags,
		    struct ib_sge *sg_list, u32 num_sge, struct uverbs_attr_bundle *attrs)
{
	/* a kernel consumer has no thread of its own for this */
	const bool wait = flags & IB_UVERBS_ADVISE_MR_FLAG_FLUSH || !to_spd(pd)->uctx;
	struct sroce_dev *sdev = to_sdev(pd->device);
	enum odp_how how;
	int err = 0;
	u32 i;

	switch (advice) {
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH:
		how = ODP_READ;
		break;
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE:
		how = ODP_WRITE;
		break;
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT:
		how = ODP_NO_FAULT;
		break;
	default:
		return -EOPNOTSUPP;
	}
	for (i = 0; !err && i < num_sge; i++)
		err = wait ? prefetch_sge(sdev, pd, &sg_list[i], how) :
			     prefetch_later(sdev, pd, &sg_list[i], how);
	return err;
}

/* Use */

/**
 * sroce_odp_create - on-demand memory of the calling process
 *
 * May sleep.
 *
 * Return: all of it, or an error pointer.
 */
struct sroce_odp *sroce_odp_create(void)
{
	struct sroce_odp *odp = kzalloc(sizeof(*odp), GFP_KERNEL_ACCOUNT);

	if (!odp)
		return ERR_PTR(-ENOMEM);
	rwlock_init(&odp->lock);
	refcount_set(&odp->users, 1);
	init_completion(&odp->idle);
	mutex_init(&odp->chunks_lock);
	xa_init_flags(&odp->chunks, XA_FLAGS_ACCOUNT);
	odp->sweep_at = SWEEP_MIN;
	mutex_init(&odp->forget_lock);
	odp->mm = current->mm;
	mmgrab(odp->mm);
	return odp;
}

/**
 * sroce_odp_destroy - forget all pages
 * @odp: the memory; not found by the data path any more
 *
 * Sleeps: waits for pages that are being brought in, of a chunk each.
 */
void sroce_odp_destroy(struct sroce_odp *odp)
{
	struct odp_chunk *chunk;
	unsigned long i;

	WRITE_ONCE(odp->dying, true);
	odp_put(odp);
	wait_for_completion(&odp->idle);
	xa_for_each(&odp->chunks, i, chunk) {
		chunk_destroy(chunk);
		cond_resched();
	}
	xa_destroy(&odp->chunks);
	mmdrop(odp->mm);
	kfree(odp);
}

/**
 * sroce_odp_lock - keep the pages that are there
 * @odp: the memory
 *
 * BH is off until sroce_odp_unlock(), and nothing else is locked like this.
 */
void sroce_odp_lock(struct sroce_odp *odp)
{
	unsigned int patience = ODP_PATIENCE;

	/* with BH off, readers would overtake those who wait to write */
	while (atomic_read(&odp->writers) && --patience)
		cpu_relax();
	read_lock(&odp->lock);
	/* for sparse: not every region has such a lock */
	__release(&odp->lock);
}

/**
 * sroce_odp_unlock - let pages go
 * @odp: the memory
 */
void sroce_odp_unlock(struct sroce_odp *odp)
{
	__acquire(&odp->lock);
	read_unlock(&odp->lock);
}

/**
 * sroce_odp_span - where bytes of a process lie
 * @odp: the memory, locked
 * @addr: their address in the process
 * @len: bytes wanted; on return, how many of them lie there in one piece
 * @write: they are to be written
 *
 * Return: their address in the kernel, or NULL if they are not there for that.
 */
void *sroce_odp_span(struct sroce_odp *odp, u64 addr, u32 *len, bool write)
{
	const unsigned long need = PAGE_THERE | (write ? PAGE_WRITABLE : 0);
	struct odp_chunk *chunk;
	unsigned long page;

	rcu_read_lock();
	chunk = xa_load(&odp->chunks, addr >> CHUNK_SHIFT);
	rcu_read_unlock();
	if (!chunk)
		return NULL;
	page = READ_ONCE(chunk->page[chunk_index(addr)]);
	if ((page & need) != need)
		return NULL;
	*len = min_t(u32, *len, PAGE_SIZE - offset_in_page(addr));
	return (void *)(page & PAGE_MASK) + offset_in_page(addr);
}
