// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Regions of another driver's buffer. The processor copies, and so the buffer is
 * mapped for the processor; and it is attached to, as a mapping alone does not pin
 * the buffers of every driver.
 */
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/module.h>
#include <linux/overflow.h>
#include <rdma/uverbs_ioctl.h>

#include "sroce.h"

MODULE_IMPORT_NS(SROCE_NS_DMA_BUF);

/* To where it is pinned, a buffer may have to move first. */
static void __maybe_unused dmabuf_moved(struct dma_buf_attachment *attach)
{
	struct ib_device *ibdev = attach->importer_priv;

	if (ibdev)
		ibdev_warn_ratelimited(ibdev, "%s has moved a buffer that is pinned\n",
				       attach->dmabuf->exp_name);
}

static const struct dma_buf_attach_ops dmabuf_pinned = SROCE_DMABUF_PINNED(dmabuf_moved);

/* And what moves it at the moment has ended. */
static int dmabuf_pin(struct dma_buf_attachment *attach, struct ib_device *ibdev)
{
	struct dma_resv *resv = attach->dmabuf->resv;
	long err;

	err = dma_resv_lock_interruptible(resv, NULL);
	if (err)
		return err;
	err = dma_buf_pin(attach);
	if (!err) {
		err = dma_resv_wait_timeout(resv, DMA_RESV_USAGE_KERNEL, true,
					    MAX_SCHEDULE_TIMEOUT);
		if (err < 0)
			dma_buf_unpin(attach);
		else
			attach->importer_priv = ibdev;
	}
	dma_resv_unlock(resv);
	return min(err, 0L);
}

/*
 * A buffer that can move is pinned. Others stay for who is attached, as an importer who knows of no
 * moves: else older kernels map it for our device at once, and where that bounces (swiotlb), what
 * we write is written over with what was there.
 */
static int dmabuf_attach(struct sroce_mem *mem, struct ib_device *ibdev, struct dma_buf *dmabuf)
{
	const bool moves = dmabuf->ops->pin;
	int err;

	mem->attach = dma_buf_dynamic_attach(dmabuf, &ibdev->dev, moves ? &dmabuf_pinned : NULL,
					     NULL);
	if (IS_ERR(mem->attach))
		return PTR_ERR(mem->attach);
	err = moves ? dmabuf_pin(mem->attach, ibdev) : 0;
	if (err)
		dma_buf_detach(dmabuf, mem->attach);
	return err;
}

static void dmabuf_detach(struct sroce_mem *mem)
{
	struct dma_buf *dmabuf = mem->attach->dmabuf;

	if (mem->attach->importer_ops) {
		dma_resv_lock(dmabuf->resv, NULL);
		dma_buf_unpin(mem->attach);
		dma_resv_unlock(dmabuf->resv);
	}
	dma_buf_detach(dmabuf, mem->attach);
}

static int dmabuf_map(struct sroce_mem *mem, u64 offset)
{
	struct dma_buf *dmabuf = mem->attach->dmabuf;
	int err;

	err = dma_buf_vmap_unlocked(dmabuf, &mem->map);
	if (err)
		return err;
	if (mem->map.is_iomem) {
		err = -EOPNOTSUPP;
		goto err_map;
	}
	err = dma_buf_begin_cpu_access(dmabuf, DMA_BIDIRECTIONAL);
	if (err)
		goto err_map;
	err = sroce_mem_linear(mem, mem->map.vaddr, offset);
	if (err)
		goto err_access;
	return 0;

err_access:
	dma_buf_end_cpu_access(dmabuf, DMA_BIDIRECTIONAL);
err_map:
	dma_buf_vunmap_unlocked(dmabuf, &mem->map);
	return err;
}

static int dmabuf_get(struct sroce_mem *mem, struct ib_device *ibdev, int fd, u64 offset,
		      u64 length)
{
	struct dma_buf *dmabuf;
	u64 end;
	int err;

	dmabuf = dma_buf_get(fd);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	if (!length || check_add_overflow(offset, length, &end) || end > dmabuf->size)
		err = -EINVAL;
	else if (!dmabuf->ops->vmap)
		err = -EOPNOTSUPP;
	else
		err = dmabuf_attach(mem, ibdev, dmabuf);
	if (err)
		goto err_put;
	err = dmabuf_map(mem, offset);
	if (err)
		goto err_attach;
	return 0;

err_attach:
	dmabuf_detach(mem);
err_put:
	dma_buf_put(dmabuf);
	return err;
}

/**
 * sroce_dmabuf_release - a region lets go of its buffer
 * @mem: the region's memory
 *
 * Sleeps.
 */
void sroce_dmabuf_release(struct sroce_mem *mem)
{
	struct dma_buf *dmabuf = mem->attach->dmabuf;

	dma_buf_end_cpu_access(dmabuf, DMA_BIDIRECTIONAL);
	dma_buf_vunmap_unlocked(dmabuf, &mem->map);
	dmabuf_detach(mem);
	dma_buf_put(dmabuf);
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
 * map the buffer into the kernel, or not as memory, or for what SROCE_ACCESS_DMABUF has not, and
 * what the other says itself to who attaches.
 */
struct ib_mr *sroce_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset, u64 length, u64 iova,
				       int fd, int access,
				       SROCE_REG_MR_DMAH SROCE_DMABUF_ATTRS *attrs)
{
	struct sroce_mem mem = {};
	struct ib_mr *ibmr;
	int err;

	if (SROCE_REG_MR_HAS_DMAH || access & ~SROCE_ACCESS_DMABUF)
		return ERR_PTR(-EOPNOTSUPP);
	err = sroce_no_udata(sroce_dmabuf_udata(attrs));
	if (err)
		return ERR_PTR(err);
	if (!sroce_mr_suits(iova, length))
		return ERR_PTR(-EINVAL);

	err = dmabuf_get(&mem, ibpd->device, fd, offset, length);
	if (err)
		return ERR_PTR(err);
	ibmr = sroce_mr_create(ibpd, &mem, iova, length, access);
	if (IS_ERR(ibmr))
		sroce_mem_release(&mem);
	return ibmr;
}
