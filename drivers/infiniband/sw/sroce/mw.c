// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Memory windows. */
#include "sroce.h"

/**
 * sroce_mw_bind - bind a window to a part of a region, or unbind it
 * @qp: the queue pair that does
 * @wqe: the request, the kernel's copy
 *
 * BH is off, and no region held. Return: 0, and no other CPU copies through
 * the window's former key any more; or an errno.
 */
int sroce_mw_bind(struct sroce_qp *qp, const struct sroce_send_wqe *wqe)
{
	return -EINVAL;
}
