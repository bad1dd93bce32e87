// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory: regions, windows, and the device's own.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <infiniband/cmd_ioctl.h>
#include <rdma/ib_user_ioctl_cmds.h>

#include "sroce.h"

struct ibv_mr *sroce_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
			    uint64_t iova, int access)
{
	struct ib_uverbs_reg_mr_resp resp = {};
	struct ibv_reg_mr cmd = {};
	struct verbs_mr *vmr;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;

	if (ibv_cmd_reg_mr(pd, addr, length, iova, access, vmr, &cmd,
			   sizeof(cmd), &resp, sizeof(resp))) {
		free(vmr);
		return NULL;
	}
	return &vmr->ibv_mr;
}

int sroce_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd,
		   void *addr, size_t length, int access)
{
	struct ib_uverbs_rereg_mr_resp resp = {};
	struct ibv_rereg_mr cmd = {};

	/* the kernel does not know it, and its handle is another object's */
	if (vmr->mr_type == IBV_MR_TYPE_NULL_MR) {
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	return ibv_cmd_rereg_mr(vmr, flags, addr, length, (uintptr_t)addr,
				access, pd, &cmd, sizeof(cmd), &resp,
				sizeof(resp));
}

/*
 * Up to rdma-core 53, ibv_cmd_reg_dmabuf_mr() has no last argument. The caller
 * removes the arguments of a C function in every ABI that uverbs runs on, so
 * one too many is not noticed.
 */
struct ibv_mr *sroce_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset,
				   size_t length, uint64_t iova, int fd,
				   int access)
{
	struct verbs_mr *vmr;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;

	if (ibv_cmd_reg_dmabuf_mr(pd, offset, length, iova, fd, access, vmr,
				  NULL)) {
		free(vmr);
		return NULL;
	}
	return &vmr->ibv_mr;
}

/* Its key is the same for everyone, and the kernel knows it already. */
struct ibv_mr *sroce_alloc_null_mr(struct ibv_pd *pd)
{
	struct verbs_mr *vmr;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;

	vmr->mr_type = IBV_MR_TYPE_NULL_MR;
	vmr->ibv_mr.context = pd->context;
	vmr->ibv_mr.pd = pd;
	vmr->ibv_mr.lkey = SROCE_NULL_LKEY;
	return &vmr->ibv_mr;
}

struct ibv_mr *sroce_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct verbs_mr *vmr;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;

	if (ibv_cmd_query_mr(pd, vmr, handle)) {
		free(vmr);
		return NULL;
	}
	return &vmr->ibv_mr;
}

void sroce_unimport_mr(struct ibv_mr *ibmr)
{
	free(verbs_get_mr(ibmr));
}

int sroce_dereg_mr(struct verbs_mr *vmr)
{
	int ret;

	if (vmr->mr_type != IBV_MR_TYPE_NULL_MR) {
		ret = ibv_cmd_dereg_mr(vmr);
		if (ret)
			return ret;
	}

	free(vmr);
	return 0;
}

struct ibv_mw *sroce_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ib_uverbs_alloc_mw_resp resp = {};
	struct ibv_alloc_mw cmd = {};
	struct ibv_mw *mw;

	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return NULL;

	if (ibv_cmd_alloc_mw(pd, type, mw, &cmd, sizeof(cmd), &resp,
			     sizeof(resp))) {
		free(mw);
		return NULL;
	}
	return mw;
}

int sroce_dealloc_mw(struct ibv_mw *mw)
{
	int ret;

	ret = ibv_cmd_dealloc_mw(mw);
	if (ret)
		return ret;

	free(mw);
	return 0;
}

/* By subtraction: an offset near the end of 64 bits must not wrap around. */
static bool sroce_dm_holds(const struct sroce_dm *dm, uint64_t offset,
			   uint64_t length)
{
	return offset <= dm->length && length <= dm->length - offset;
}

/*
 * No rule asks for it, but devices with such memory take whole words only, and
 * rdma-core's suite has come to expect that of all.
 */
static bool sroce_dm_words(uint64_t offset, uint64_t length)
{
	return !((offset | length) % 4);
}

static int sroce_memcpy_to_dm(struct ibv_dm *ibdm, uint64_t offset,
			      const void *from, size_t length)
{
	struct sroce_dm *dm = to_sdm(ibdm);

	if (!sroce_dm_holds(dm, offset, length) ||
	    !sroce_dm_words(offset, length))
		return EINVAL;

	memcpy(dm->mem + offset, from, length);
	return 0;
}

static int sroce_memcpy_from_dm(void *to, struct ibv_dm *ibdm, uint64_t offset,
				size_t length)
{
	struct sroce_dm *dm = to_sdm(ibdm);

	if (!sroce_dm_holds(dm, offset, length) ||
	    !sroce_dm_words(offset, length))
		return EINVAL;

	memcpy(to, dm->mem + offset, length);
	return 0;
}

/*
 * Map what @dm's handle names. @length is what the program may use of it, 0 for
 * all that there is.
 */
static int sroce_map_dm(struct ibv_context *ibctx, struct sroce_dm *dm,
			uint64_t length)
{
	DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_DM, SROCE_METHOD_DM_QUERY, 2);
	struct sroce_dm_query_resp resp = {};
	void *mem;
	int ret;

	fill_attr_in_obj(cmd, SROCE_ATTR_DM_QUERY_HANDLE, dm->vdm.handle);
	fill_attr_out_ptr(cmd, SROCE_ATTR_DM_QUERY_RESP, &resp);
	ret = execute_ioctl(ibctx, cmd);
	if (ret)
		return ret;
	if (!resp.length || length > resp.length)
		return EPROTO;

	mem = mmap(NULL, resp.length, PROT_READ | PROT_WRITE, MAP_SHARED,
		   ibctx->cmd_fd, resp.offset);
	if (mem == MAP_FAILED)
		return errno;

	dm->mem = mem;
	dm->map_size = resp.length;
	dm->length = length ? length : resp.length;
	dm->vdm.dm.memcpy_to_dm = sroce_memcpy_to_dm;
	dm->vdm.dm.memcpy_from_dm = sroce_memcpy_from_dm;
	return 0;
}

struct ibv_dm *sroce_alloc_dm(struct ibv_context *ibctx,
			      struct ibv_alloc_dm_attr *attr)
{
	struct sroce_dm *dm;
	int ret;

	if (attr->comp_mask || !attr->length) {
		errno = EINVAL;
		return NULL;
	}

	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return NULL;

	ret = ibv_cmd_alloc_dm(ibctx, attr, &dm->vdm, NULL);
	if (ret)
		goto err_free;

	ret = sroce_map_dm(ibctx, dm, attr->length);
	if (ret)
		goto err_free_dm;

	return &dm->vdm.dm;

err_free_dm:
	ibv_cmd_free_dm(&dm->vdm);
err_free:
	free(dm);
	errno = ret;
	return NULL;
}

/* While the kernel refuses, because a region is left, it stays mapped. */
int sroce_free_dm(struct ibv_dm *ibdm)
{
	struct sroce_dm *dm = to_sdm(ibdm);
	int ret;

	ret = ibv_cmd_free_dm(&dm->vdm);
	if (ret)
		return ret;

	sroce_unimport_dm(ibdm);
	return 0;
}

struct ibv_dm *sroce_import_dm(struct ibv_context *ibctx, uint32_t handle)
{
	struct sroce_dm *dm;
	int ret;

	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return NULL;

	dm->vdm.handle = handle;
	dm->vdm.dm.handle = handle;
	dm->vdm.dm.comp_mask = IBV_DM_MASK_HANDLE;
	dm->vdm.dm.context = ibctx;
	ret = sroce_map_dm(ibctx, dm, 0);
	if (ret) {
		free(dm);
		errno = ret;
		return NULL;
	}
	return &dm->vdm.dm;
}

void sroce_unimport_dm(struct ibv_dm *ibdm)
{
	struct sroce_dm *dm = to_sdm(ibdm);

	munmap(dm->mem, dm->map_size);
	free(dm);
}

struct ibv_mr *sroce_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *ibdm,
			       uint64_t offset, size_t length,
			       unsigned int access)
{
	struct sroce_dm *dm = to_sdm(ibdm);
	struct verbs_mr *vmr;

	if (!sroce_dm_holds(dm, offset, length)) {
		errno = EINVAL;
		return NULL;
	}

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;

	if (ibv_cmd_reg_dm_mr(pd, &dm->vdm, offset, length, access, vmr,
			      NULL)) {
		free(vmr);
		return NULL;
	}
	return &vmr->ibv_mr;
}
