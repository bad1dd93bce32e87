// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Address handles. */
#include "sroce.h"

/**
 * sroce_create_ah - ib_device_ops: keep an address
 * @ibah: the handle
 * @init: the address; the core has checked it and resolved its source GID
 * @udata: no driver data
 *
 * May sleep. Return: 0 or an errno.
 */
int sroce_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init, struct ib_udata *udata)
{
	struct sroce_dev *sdev = to_sdev(ibah->device);

	if (!(rdma_ah_get_ah_flags(init->ah_attr) & IB_AH_GRH))
		return -EINVAL;
	if (!sroce_udata_clear(udata))
		return -EINVAL;
	if (!sroce_take(&sdev->num_ah, SROCE_MAX_AH))
		return -ENOMEM;
	rdma_copy_ah_attr(&to_sah(ibah)->attr, init->ah_attr);
	return 0;
}

/**
 * sroce_query_ah - ib_device_ops: give the address back
 * @ibah: the handle
 * @attr: filled in
 *
 * Return: 0.
 */
int sroce_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr)
{
	*attr = to_sah(ibah)->attr;
	return 0;
}

/**
 * sroce_destroy_ah - ib_device_ops: forget an address
 * @ibah: the handle
 * @flags: nothing here sleeps
 *
 * Return: 0.
 */
int sroce_destroy_ah(struct ib_ah *ibah, u32 flags)
{
	rdma_destroy_ah_attr(&to_sah(ibah)->attr);
	atomic_dec(&to_sdev(ibah->device)->num_ah);
	return 0;
}
