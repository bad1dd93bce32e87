// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* User contexts: the rings that a process maps, and its doorbell. */
#include <linux/vmalloc.h>
#include <rdma/uverbs_ioctl.h>
#include <rdma/uverbs_std_types.h>

#define UVERBS_MODULE_NAME sroce
#include <rdma/uverbs_named_ioctl.h>

#include "sroce.h"

/**
 * sroce_alloc_ucontext - ib_device_ops: a process opens the device
 * @ibuc: its context
 * @udata: struct sroce_alloc_ucontext_resp
 *
 * Return: 0 or an errno.
 */
int sroce_alloc_ucontext(struct ib_ucontext *ibuc, struct ib_udata *udata)
{
	struct sroce_dev *sdev = to_sdev(ibuc->device);
	struct sroce_alloc_ucontext_resp resp = {
		.max_inline = SROCE_MAX_INLINE,
		.max_sge = SROCE_MAX_SGE,
	};
	int err;

	if (!sroce_udata_clear(udata))
		return -EOPNOTSUPP;
	if (!sroce_take(&sdev->num_ucontext, SROCE_MAX_UCONTEXT))
		return -ENOMEM;

	err = sroce_bells_init(ibuc, &resp.bells);
	if (err)
		goto err_count;
	/* a provider that was built before there were bells does without */
	err = sroce_respond(udata, &resp, sizeof(resp));
	if (err)
		goto err_bells;
	return 0;

err_bells:
	sroce_bells_exit(ibuc);
err_count:
	atomic_dec(&sdev->num_ucontext);
	return err;
}

/**
 * sroce_query_ucontext - ib_device_ops: another process imports the device
 * @ibuc: its context, which it shares
 * @attrs: of the call; the provider asks for nothing
 *
 * The limits are those of every context, which it has by query_device().
 *
 * Return: 0.
 */
int sroce_query_ucontext(struct ib_ucontext *ibuc, struct uverbs_attr_bundle *attrs)
{
	return 0;
}

/**
 * sroce_dealloc_ucontext - ib_device_ops: a process closes the device
 * @ibuc: its context
 */
void sroce_dealloc_ucontext(struct ib_ucontext *ibuc)
{
	sroce_bells_exit(ibuc);
	sroce_faults_exit(container_of(ibuc, struct sroce_ucontext, ibuc));
	atomic_dec(&to_sdev(ibuc->device)->num_ucontext);
}

/**
 * sroce_udata_context - whose request is this?
 * @udata: of a call that creates something
 *
 * Return: the context; NULL for a kernel consumer.
 */
struct ib_ucontext *sroce_udata_context(struct ib_udata *udata)
{
	if (!udata)
		return NULL;
	return &rdma_udata_to_drv_context(udata, struct sroce_ucontext, ibuc)->ibuc;
}

/**
 * sroce_disassociate_ucontext - ib_device_ops: the device goes, a process stays
 * @ibuc: its context
 *
 * Rings are ordinary pages: those that a process has mapped stay with its
 * mapping, and nobody here looks at them any more.
 */
void sroce_disassociate_ucontext(struct ib_ucontext *ibuc)
{
}

/**
 * sroce_mmap - ib_device_ops: map a ring, or device memory, into the process
 * @ibuc: its context
 * @vma: at the offset that a struct sroce_ring_map or sroce_dm_query_resp gave
 *
 * Return: 0, or -EINVAL if there is no such memory or its size is another.
 */
int sroce_mmap(struct ib_ucontext *ibuc, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *entry = rdma_user_mmap_entry_get(ibuc, vma);
	unsigned long off;
	int err = 0;

	if (!entry)
		return -EINVAL;
	/* a child has them, too: as with hardware, it may destroy what it has inherited */
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP);
	for (off = 0; !err && off < vma->vm_end - vma->vm_start; off += PAGE_SIZE)
		err = vm_insert_page(vma, vma->vm_start + off,
				     vmalloc_to_page(to_smapping(entry)->addr + off));
	rdma_user_mmap_entry_put(entry);
	return err;
}

/**
 * sroce_mmap_free - ib_device_ops: nobody can map this memory any more
 * @entry: its mapping
 */
void sroce_mmap_free(struct rdma_user_mmap_entry *entry)
{
	struct sroce_mapping *mapping = to_smapping(entry);

	vfree(mapping->addr);
	kfree(mapping);
}

/**
 * sroce_mapping_alloc - memory for a process to map
 * @ibuc: the context that may map it
 * @size: bytes, whole pages
 *
 * May sleep. It is zero, and goes with the last mapping of it, after
 * rdma_user_mmap_entry_remove().
 *
 * Return: the memory or an error pointer.
 */
struct sroce_mapping *sroce_mapping_alloc(struct ib_ucontext *ibuc, size_t size)
{
	struct sroce_mapping *mapping;
	int err = -ENOMEM;

	mapping = kzalloc(sizeof(*mapping), GFP_KERNEL);
	if (!mapping)
		return ERR_PTR(-ENOMEM);
	/* charged to the program's memory cgroup */
	mapping->addr = __vmalloc(size, GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!mapping->addr)
		goto err_mapping;
	err = rdma_user_mmap_entry_insert(ibuc, &mapping->rdma_entry, size);
	if (err)
		goto err_memory;
	return mapping;

err_memory:
	vfree(mapping->addr);
err_mapping:
	kfree(mapping);
	return ERR_PTR(err);
}

/**
 * sroce_queue_alloc - make a ring
 * @ibuc: the context that may map it; NULL for a kernel consumer
 * @q: filled in
 * @entries: a power of two
 * @entry_size: bytes of each, a power of two
 * @map: filled in for the response to a program
 *
 * May sleep.
 *
 * Return: 0 or an errno.
 */
int sroce_queue_alloc(struct ib_ucontext *ibuc, struct sroce_queue *q, u32 entries,
		      u32 entry_size, struct sroce_ring_map *map)
{
	size_t size = PAGE_ALIGN(sizeof(struct sroce_ring) + (size_t)entries * entry_size);
	struct sroce_mapping *mapping = NULL;
	void *addr;

	if (ibuc) {
		mapping = sroce_mapping_alloc(ibuc, size);
		if (IS_ERR(mapping))
			return PTR_ERR(mapping);
		addr = mapping->addr;
	} else {
		addr = __vmalloc(size, GFP_KERNEL_ACCOUNT | __GFP_ZERO);
		if (!addr)
			return -ENOMEM;
	}

	q->mapping = mapping;
	q->ring = addr;
	q->entries = addr + sizeof(struct sroce_ring);
	q->mask = entries - 1;
	q->entry_size = entry_size;
	if (!mapping)
		return 0;

	map->offset = rdma_user_mmap_get_offset(&mapping->rdma_entry);
	map->size = size;
	map->entries = entries;
	map->entry_size = entry_size;
	return 0;
}

/* Bytes that are copied to another ring in one go */
#define COPY_LOCKED	(128U << 10)

/**
 * sroce_queue_some - how many entries of a ring may be copied with its lock held
 * @q: the ring
 *
 * Return: at least one; no entry is as long as that.
 */
u32 sroce_queue_some(const struct sroce_queue *q)
{
	return COPY_LOCKED / q->entry_size;
}

/**
 * sroce_queue_copy - have entries of a ring in another one, too
 * @to: the other, with entries of the same size; nobody looks at it yet
 * @q: the ring
 * @first: index of the first
 * @num: how many, of those that are in use
 *
 * Without the ring's lock it is for the caller to know that they do not change; a program that lies
 * about its indices gets garbage, and harms only itself.
 */
void sroce_queue_copy(struct sroce_queue *to, struct sroce_queue *q, u32 first, u32 num)
{
	/* data_race(): a program that lies has what is copied written to meanwhile */
	for (; num; num--, first++)
		data_race(memcpy(queue_entry(to, first), queue_entry(q, first), q->entry_size));
}

/**
 * sroce_queue_exchange - have another ring take the place of the one in use
 * @q: the one in use; its lock is held
 * @other: one with entries of the same size, which nobody looks at yet; what
 *	was in use, afterwards
 * @cons: index of the oldest entry
 * @num: entries from there on, on the word of whoever wrote the indices
 * @done: of these, the first which are in @other already
 *
 * Entries keep their indices, so that no index of either side has to change;
 * who has armed the ring still has.
 *
 * Return: 0, or -EINVAL with nothing changed if one of the two has fewer entries.
 */
int sroce_queue_exchange(struct sroce_queue *q, struct sroce_queue *other, u32 cons, u32 num,
			 u32 done)
{
	if (num > q->mask + 1 || num > other->mask + 1)
		return -EINVAL;
	other->ring->cons = cons;
	other->ring->prod = cons + num;
	other->ring->arm = READ_ONCE(q->ring->arm);
	sroce_queue_copy(other, q, cons + done, num - done);
	swap(*q, *other);
	return 0;
}

/**
 * sroce_queue_free - give a ring back
 * @q: the queue; one that was never made is fine
 *
 * The pages go with the last mapping of them. Who posts to a queue pair's until then has to
 * ring, and hears that there is nobody.
 */
void sroce_queue_free(struct sroce_queue *q)
{
	if (q->mapping) {
		WRITE_ONCE(q->ring->flags, SROCE_RING_NEED_WAKEUP);
		rdma_user_mmap_entry_remove(&q->mapping->rdma_entry);
	} else {
		vfree(q->ring);
	}
	q->mapping = NULL;
	q->ring = NULL;
}

/* The macros that declare a method paste its name, which must not expand. */
enum {
	DOORBELL = SROCE_METHOD_DOORBELL,
};

/* The process's own queue pairs only, whatever number it writes. */
static int UVERBS_HANDLER(DOORBELL)(struct uverbs_attr_bundle *attrs)
{
	struct sroce_doorbell cmd;
	struct ib_ucontext *ibuc;
	struct sroce_qp *qp;
	int err;

	ibuc = ib_uverbs_get_ucontext(attrs);
	if (IS_ERR(ibuc))
		return PTR_ERR(ibuc);
	err = uverbs_copy_from(&cmd, attrs, SROCE_ATTR_DOORBELL);
	if (err)
		return err;
	if (cmd.reserved)
		return -EINVAL;

	if (cmd.qp_num == SROCE_DOORBELL_BELLS) {
		sroce_bells_ring(ibuc, NULL);
		return 0;
	}
	if (cmd.qp_num == SROCE_DOORBELL_POLLS) {
		sroce_bells_help(ibuc);
		return 0;
	}
	qp = sroce_qp_get(cmd.qp_num);
	if (!qp)
		return sroce_wq_doorbell(ibuc, cmd.qp_num);
	if (qp->ibuc == ibuc)
		sroce_bells_ring(ibuc, qp);
	else
		err = -EINVAL;
	sroce_qp_put(qp);
	return err;
}

DECLARE_UVERBS_NAMED_METHOD(
	DOORBELL,
	UVERBS_ATTR_PTR_IN(SROCE_ATTR_DOORBELL, UVERBS_ATTR_TYPE(struct sroce_doorbell),
			   UA_MANDATORY));

ADD_UVERBS_METHODS(sroce_device_methods, UVERBS_OBJECT_DEVICE, &UVERBS_METHOD(DOORBELL));

/*
 * The doorbell is on the command file and not on a file of our own: ib_uverbs keeps
 * the device and this module from going while a method runs, and lets both go while
 * the file stays open. Of what drivers declare it does so with methods alone, not with
 * write commands (uverbs_disassociate_api_pre()).
 */
const struct uapi_definition sroce_uapi_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DEVICE, &sroce_device_methods),
	UAPI_DEF_CHAIN(sroce_dm_defs),
	UAPI_DEF_CHAIN(sroce_tm_defs),
	{},
};
