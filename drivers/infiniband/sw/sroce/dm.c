// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Device memory: there is no device, so it is the kernel's. What remains is its
 * interface: memory of its own, for regions of it and for processes that map it.
 */
#include <rdma/uverbs_ioctl.h>
#include <rdma/uverbs_std_types.h>

#define UVERBS_MODULE_NAME sroce
#include <rdma/uverbs_named_ioctl.h>

#include "sroce.h"

/**
 * struct sroce_dm - device memory
 * @ibdm: the core's
 * @mapping: the memory
 * @size: bytes, whole pages
 */
struct sroce_dm {
	struct ib_dm ibdm;
	struct sroce_mapping *mapping;
	size_t size;
};

static struct sroce_dm *to_sdm(struct ib_dm *ibdm)
{
	return container_of(ibdm, struct sroce_dm, ibdm);
}

static bool dm_take(struct sroce_dev *sdev, size_t size)
{
	const long n = size >> PAGE_SHIFT;
	long taken = atomic_long_read(&sdev->dm_pages);

	/* who asks for too much is in nobody's way */
	do {
		if (taken + n > SROCE_MAX_DM >> PAGE_SHIFT)
			return false;
	} while (!atomic_long_try_cmpxchg(&sdev->dm_pages, &taken, taken + n));
	return true;
}

/**
 * sroce_alloc_dm - ib_device_ops: get device memory
 * @ibdev: the device
 * @ibuc: the context that may map it
 * @attr: length, and alignment as a power of two
 * @attrs: no driver data
 *
 * Return: the memory, which is zero, or an error pointer.
 */
struct ib_dm *sroce_alloc_dm(struct ib_device *ibdev, struct ib_ucontext *ibuc,
			     struct ib_dm_alloc_attr *attr, struct uverbs_attr_bundle *attrs)
{
	struct sroce_dev *sdev = to_sdev(ibdev);
	struct sroce_dm *dm;
	int err;

	if (!attr->length || attr->alignment > PAGE_SHIFT)
		return ERR_PTR(-EINVAL);
	if (attr->length > SROCE_MAX_DM)
		return ERR_PTR(-ENOMEM);

	dm = kzalloc(sizeof(*dm), GFP_KERNEL);
	if (!dm)
		return ERR_PTR(-ENOMEM);
	dm->size = PAGE_ALIGN(attr->length);
	err = -ENOMEM;
	if (!dm_take(sdev, dm->size))
		goto err_dm;
	dm->mapping = sroce_mapping_alloc(ibuc, dm->size);
	if (IS_ERR(dm->mapping)) {
		err = PTR_ERR(dm->mapping);
		goto err_count;
	}
	return &dm->ibdm;

err_count:
	atomic_long_sub(dm->size >> PAGE_SHIFT, &sdev->dm_pages);
err_dm:
	kfree(dm);
	return ERR_PTR(err);
}

/**
 * sroce_dealloc_dm - ib_device_ops: give device memory back
 * @ibdm: the memory; the core knows of no region of it any more
 * @attrs: no driver data
 *
 * Return: 0.
 */
int sroce_dealloc_dm(struct ib_dm *ibdm, struct uverbs_attr_bundle *attrs)
{
	struct sroce_dm *dm = to_sdm(ibdm);

	atomic_long_sub(dm->size >> PAGE_SHIFT, &to_sdev(ibdm->device)->dm_pages);
	rdma_user_mmap_entry_remove(&dm->mapping->rdma_entry);
	kfree(dm);
	return 0;
}

/**
 * sroce_reg_dm_mr - ib_device_ops: register device memory
 * @ibpd: protection domain
 * @ibdm: the memory
 * @attr: the part of it, which the core has checked, and IB_ACCESS_*
 * @attrs: no driver data
 *
 * Return: the region or an error pointer.
 */
struct ib_mr *sroce_reg_dm_mr(struct ib_pd *ibpd, struct ib_dm *ibdm,
			      struct ib_dm_mr_attr *attr, struct uverbs_attr_bundle *attrs)
{
	struct sroce_mem mem = {};
	struct ib_mr *ibmr;
	int err;

	if (attr->access_flags & ~(SROCE_ACCESS_SUPPORTED & ~IB_ACCESS_ON_DEMAND))
		return ERR_PTR(-EOPNOTSUPP);
	err = sroce_mem_linear(&mem, to_sdm(ibdm)->mapping->addr, attr->offset);
	if (err)
		return ERR_PTR(err);
	ibmr = sroce_mr_create(ibpd, &mem, 0, attr->length, attr->access_flags);
	if (IS_ERR(ibmr))
		sroce_mem_release(&mem);
	return ibmr;
}

/* The macros that declare a method paste its name, which must not expand. */
enum {
	DM_QUERY = SROCE_METHOD_DM_QUERY,
};

static int UVERBS_HANDLER(DM_QUERY)(struct uverbs_attr_bundle *attrs)
{
	struct ib_dm *ibdm = uverbs_attr_get_obj(attrs, SROCE_ATTR_DM_QUERY_HANDLE);
	struct sroce_dm *dm = to_sdm(ibdm);
	struct sroce_dm_query_resp resp = {
		.offset = rdma_user_mmap_get_offset(&dm->mapping->rdma_entry),
		.length = dm->size,
	};

	return uverbs_copy_to_struct_or_zero(attrs, SROCE_ATTR_DM_QUERY_RESP, &resp,
					     sizeof(resp));
}

DECLARE_UVERBS_NAMED_METHOD(
	DM_QUERY,
	UVERBS_ATTR_IDR(SROCE_ATTR_DM_QUERY_HANDLE, UVERBS_OBJECT_DM,
			UVERBS_ACCESS_READ, UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(SROCE_ATTR_DM_QUERY_RESP,
			    UVERBS_ATTR_STRUCT(struct sroce_dm_query_resp, length),
			    UA_MANDATORY));

ADD_UVERBS_METHODS(sroce_dm_methods, UVERBS_OBJECT_DM, &UVERBS_METHOD(DM_QUERY));

const struct uapi_definition sroce_dm_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DM, &sroce_dm_methods),
	{},
};
