// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A driver whose buffers move, unless they are pinned: mapping them for the
 * processor does not pin them. Who opens /dev/sroce_exporter has one: EXPORTER_FD
 * is its dma-buf, EXPORTER_MOVE moves it, and read() is what is in it now.
 */
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/fs.h>
#include <linux/iosys-map.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "../compat.h"
#include "exporter_test.h"

MODULE_DESCRIPTION("Test of buffers that move");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_IMPORT_NS(SROCE_NS_DMA_BUF);

/* Where the buffer is, and where it was; the first is guarded by the dma-buf's reservation. */
struct buffer {
	void *now;
	void *old;
	unsigned int pins;
};

static int buffer_pin(struct dma_buf_attachment *attach)
{
	struct buffer *b = attach->dmabuf->priv;

	dma_resv_assert_held(attach->dmabuf->resv);
	b->pins++;
	return 0;
}

static void buffer_unpin(struct dma_buf_attachment *attach)
{
	struct buffer *b = attach->dmabuf->priv;

	dma_resv_assert_held(attach->dmabuf->resv);
	b->pins--;
}

/* No device of this test's needs one. */
static struct sg_table *buffer_map(struct dma_buf_attachment *attach, enum dma_data_direction dir)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static void buffer_unmap(struct dma_buf_attachment *attach, struct sg_table *sgt,
			 enum dma_data_direction dir)
{
}

static int buffer_vmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	struct buffer *b = dmabuf->priv;

	iosys_map_set_vaddr(map, b->now);
	return 0;
}

static void buffer_release(struct dma_buf *dmabuf)
{
	struct buffer *b = dmabuf->priv;

	vfree(b->now);
	vfree(b->old);
	kfree(b);
}

static const struct dma_buf_ops buffer_ops = {
	.pin = buffer_pin,
	.unpin = buffer_unpin,
	.map_dma_buf = buffer_map,
	.unmap_dma_buf = buffer_unmap,
	.vmap = buffer_vmap,
	.release = buffer_release,
};

static int buffer_open(struct inode *inode, struct file *file)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct dma_buf *dmabuf;
	struct buffer *b;

	b = kzalloc(sizeof(*b), GFP_KERNEL);
	if (!b)
		return -ENOMEM;
	b->now = vzalloc(EXPORTER_SIZE);
	b->old = vzalloc(EXPORTER_SIZE);
	info.ops = &buffer_ops;
	info.size = EXPORTER_SIZE;
	info.flags = O_RDWR;
	info.priv = b;
	dmabuf = b->now && b->old ? dma_buf_export(&info) : ERR_PTR(-ENOMEM);
	if (IS_ERR(dmabuf)) {
		vfree(b->now);
		vfree(b->old);
		kfree(b);
		return PTR_ERR(dmabuf);
	}
	file->private_data = dmabuf;
	return 0;
}

static int buffer_close(struct inode *inode, struct file *file)
{
	dma_buf_put(file->private_data);
	return 0;
}

static ssize_t buffer_read(struct file *file, char __user *to, size_t len, loff_t *pos)
{
	struct dma_buf *dmabuf = file->private_data;
	struct buffer *b = dmabuf->priv;

	return simple_read_from_buffer(to, len, pos, b->now, EXPORTER_SIZE);
}

static int buffer_move(struct dma_buf *dmabuf)
{
	struct buffer *b = dmabuf->priv;
	int err;

	err = dma_resv_lock(dmabuf->resv, NULL);
	if (err)
		return err;
	if (b->pins) {
		err = -EBUSY;
	} else {
		memcpy(b->old, b->now, EXPORTER_SIZE);
		swap(b->now, b->old);
	}
	dma_resv_unlock(dmabuf->resv);
	return err;
}

static long buffer_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct dma_buf *dmabuf = file->private_data;
	int fd;

	switch (cmd) {
	case EXPORTER_FD:
		get_dma_buf(dmabuf);
		fd = dma_buf_fd(dmabuf, O_CLOEXEC);
		if (fd < 0)
			dma_buf_put(dmabuf);
		return fd;
	case EXPORTER_MOVE:
		return buffer_move(dmabuf);
	default:
		return -ENOTTY;
	}
}

static const struct file_operations buffer_fops = {
	.owner = THIS_MODULE,
	.open = buffer_open,
	.release = buffer_close,
	.read = buffer_read,
	.unlocked_ioctl = buffer_ioctl,
};

static struct miscdevice exporter = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "sroce_exporter",
	.fops = &buffer_fops,
};
module_misc_device(exporter);
