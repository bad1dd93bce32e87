// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Regions of another driver's buffer. We have no DMA device to attach to it;
 * the processor copies, and so the buffer is mapped for the processor. A mapping
 * pins the buffer.
 */
#include <linux/dma-buf.h>
#include <linux/module.h>
#include <linux/overflow.h>
#include <rdma/uverbs_ioctl.h>

#include "sroce.h"

MODULE_IMPORT_NS(SROCE_NS_DMA_BUF);

static int dmabuf_map(struct sroce_mem *mem, u64 offset)
{
	int err;

	err = dma_buf_vmap_unlocked(mem->dmabuf, &mem->map);
	if (err)
		return err;
	if (mem->map.is_iomem) {
		err = -EOPNOTSUPP;
		goto err_map;
	}
	err = dma_buf_begin_cpu_access(mem->dmabuf, DMA_BIDIRECTIONAL);
	if (err)
		goto err_map;
	err = sroce_mem_linear(mem, mem->map.vaddr, offset);
	if (err)
		goto err_access;
	return 0;

err_access:
	dma_buf_end_cpu_access(mem->dmabuf, DMA_BIDIRECTIONAL);
err_map:
	dma_buf_vunmap_unlocked(mem->dmabuf, &mem->map);
	return err;
}

static int dmabuf_get(struct sroce_mem *mem, int fd, u64 offset, u64 length)
{
	u64 end;
	int err;

	mem->dmabuf = dma_buf_get(fd);
	if (IS_ERR(mem->dmabuf))
		return PTR_ERR(mem->dmabuf);
	if (!length || check_add_overflow(offset, length, &end) || end > mem->dmabuf->size)
		err = -EINVAL;
	else if (!mem->dmabuf->ops->vmap)
		err = -EOPNOTSUPP;
	else
		err = dmabuf_map(mem, offset);
	if (err)
		dma_buf_put(mem->dmabuf);
	return err;
}

/**
 * sroce_dmabuf_release - a region lets go of its buffer
 * @mem: the region's memory
 */
void sroce_dmabuf_release(struct sroce_mem *mem)
{
	dma_buf_end_cpu_access(mem->dmabuf, DMA_BIDIRECTIONAL);
	dma_buf_vunmap_unlocked(mem->dmabuf, &mem->map);
	dma_buf_put(mem->dmabuf);
}

/**
 * sroce_reg_user_mr_dmabuf - ib_device_ops: register another driver's buffer
 * @ibpd: protection domain
 * @offset: of the first byte in the buffer
 * @length: bytes
 * @iova: the address that work requests will use
 * @fd: the buffer
 * @access: IB_ACCESS_*
 * @attrs: no driver data
 *
 * Return: the region or an error pointer; -EOPNOTSUPP if the other driver can't
 * map the buffer into the kernel, or not as memory.
 */
struct ib_mr *sroce_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset, u64 length, u64 iova,
				       int fd, int access,
				       SROCE_REG_MR_DMAH SROCE_DMABUF_ATTRS *attrs)
{
	struct sroce_mem mem = {};
	struct ib_mr *ibmr;
	u64 end;
	int err;

	if (SROCE_REG_MR_HAS_DMAH || access & ~(SROCE_ACCESS_SUPPORTED & ~IB_ACCESS_ON_DEMAND))
		return ERR_PTR(-EOPNOTSUPP);
	if (!sroce_udata_clear(sroce_dmabuf_udata(attrs)) || check_add_overflow(iova, length, &end))
		return ERR_PTR(-EINVAL);

	err = dmabuf_get(&mem, fd, offset, length);
	if (err)
		return ERR_PTR(err);
	ibmr = sroce_mr_create(ibpd, &mem, iova, length, access);
	if (IS_ERR(ibmr)) {
		kvfree(mem.block);
		sroce_dmabuf_release(&mem);
	}
	return ibmr;
}
