// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Protection domains, thread domains and parent domains, and whom the memory of
 * an object comes from. The kernel knows protection domains only.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sroce.h"

/* What the program's allocator is asked for: objects share no cache line. */
#define SROCE_OBJ_ALIGN	64

#define SROCE_RES_TYPE(type)	((uint64_t)SROCE_DRIVER_ID << 32 | (type))

static void sroce_hold(int *refs)
{
	__atomic_fetch_add(refs, 1, __ATOMIC_RELAXED);
}

static void sroce_drop(int *refs)
{
	__atomic_fetch_sub(refs, 1, __ATOMIC_RELEASE);
}

static bool sroce_held(const int *refs)
{
	return __atomic_load_n(refs, __ATOMIC_ACQUIRE);
}

struct ibv_pd *sroce_alloc_pd(struct ibv_context *ibctx)
{
	struct ib_uverbs_alloc_pd_resp resp = {};
	struct ibv_alloc_pd cmd = {};
	struct sroce_pd *pd;

	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;

	if (ibv_cmd_alloc_pd(ibctx, &pd->ibpd, &cmd, sizeof(cmd), &resp,
			     sizeof(resp))) {
		free(pd);
		return NULL;
	}
	return &pd->ibpd;
}

/* A handle is all there is to a protection domain: a wrong one shows in use. */
struct ibv_pd *sroce_import_pd(struct ibv_context *ibctx, uint32_t handle)
{
	struct sroce_pd *pd;

	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;

	pd->ibpd.context = ibctx;
	pd->ibpd.handle = handle;
	return &pd->ibpd;
}

void sroce_unimport_pd(struct ibv_pd *ibpd)
{
	free(to_spd(ibpd));
}

static int sroce_dealloc_parent_domain(struct sroce_pd *pd)
{
	sroce_drop(&pd->protection->refs);
	if (pd->td)
		sroce_drop(&pd->td->refs);
	free(pd);
	return 0;
}

int sroce_dealloc_pd(struct ibv_pd *ibpd)
{
	struct sroce_pd *pd = to_spd(ibpd);
	int ret;

	if (sroce_held(&pd->refs))
		return EBUSY;
	if (pd->protection)
		return sroce_dealloc_parent_domain(pd);

	ret = ibv_cmd_dealloc_pd(ibpd);
	if (ret)
		return ret;

	free(pd);
	return 0;
}

struct ibv_td *sroce_alloc_td(struct ibv_context *ibctx,
			      struct ibv_td_init_attr *attr)
{
	struct sroce_td *td;

	if (attr->comp_mask) {
		errno = EOPNOTSUPP;
		return NULL;
	}

	td = calloc(1, sizeof(*td));
	if (!td)
		return NULL;

	td->ibtd.context = ibctx;
	return &td->ibtd;
}

int sroce_dealloc_td(struct ibv_td *ibtd)
{
	struct sroce_td *td = container_of(ibtd, struct sroce_td, ibtd);

	if (sroce_held(&td->refs))
		return EBUSY;

	free(td);
	return 0;
}

struct ibv_pd *sroce_alloc_parent_domain(struct ibv_context *ibctx,
					 struct ibv_parent_domain_init_attr *attr)
{
	/* that memory need not be protected, as rdma-core 65 has it: no memory is bounced here */
	const uint32_t allow_unprotected = 1U << 2;
	const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			       IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT | allow_unprotected;
	struct sroce_pd *pd;

	if (attr->comp_mask & ~known) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (!attr->pd || to_spd(attr->pd)->protection) {
		errno = EINVAL;
		return NULL;
	}

	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;

	pd->ibpd.context = ibctx;
	pd->ibpd.handle = attr->pd->handle;
	pd->protection = to_spd(attr->pd);
	sroce_hold(&pd->protection->refs);
	if (attr->td) {
		pd->td = container_of(attr->td, struct sroce_td, ibtd);
		sroce_hold(&pd->td->refs);
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		pd->alloc = attr->alloc;
		pd->free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		pd->context = attr->pd_context;
	return &pd->ibpd;
}

/* Has the program promised that one thread at a time uses what is in @ibpd? */
bool sroce_one_thread(struct ibv_pd *ibpd)
{
	return ibpd && to_spd(ibpd)->td;
}

/**
 * sroce_obj_alloc - memory for an object
 * @ibpd: the domain it is created in, or NULL
 * @size: bytes
 * @owner_at: where it has its struct sroce_owner, filled for sroce_obj_free()
 * @type: what it is
 *
 * The rings are the kernel's, so this is all that there is for a parent domain's
 * allocator to give.
 *
 * Return: zeroed memory, or NULL with errno.
 */
void *sroce_obj_alloc(struct ibv_pd *ibpd, size_t size, size_t owner_at,
		      enum sroce_res_type type)
{
	struct sroce_pd *pd = ibpd && to_spd(ibpd)->protection ?
			      to_spd(ibpd) : NULL;
	void *obj = IBV_ALLOCATOR_USE_DEFAULT;
	struct sroce_owner *owner;
	bool custom;

	size = (size + SROCE_OBJ_ALIGN - 1) & ~(size_t)(SROCE_OBJ_ALIGN - 1);
	if (pd && pd->alloc)
		obj = pd->alloc(ibpd, pd->context, size, SROCE_OBJ_ALIGN,
				SROCE_RES_TYPE(type));

	custom = obj != IBV_ALLOCATOR_USE_DEFAULT;
	if (!custom)
		obj = aligned_alloc(SROCE_OBJ_ALIGN, size);
	if (!obj) {
		errno = ENOMEM;
		return NULL;
	}

	memset(obj, 0, size);
	owner = (struct sroce_owner *)((uint8_t *)obj + owner_at);
	owner->custom = custom;
	owner->type = type;
	owner->parent = pd;
	if (pd)
		sroce_hold(&pd->refs);
	return obj;
}

/* @owner may lie in @obj. */
void sroce_obj_free(const struct sroce_owner *owner, void *obj)
{
	struct sroce_pd *pd = owner->parent;

	if (!owner->custom)
		free(obj);
	else if (pd->free)
		pd->free(&pd->ibpd, pd->context, obj,
			 SROCE_RES_TYPE(owner->type));
	if (pd)
		sroce_drop(&pd->refs);
}
