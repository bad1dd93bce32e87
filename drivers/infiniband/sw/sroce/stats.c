// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The port's hw_counters. */
#include "sroce.h"

static const struct rdma_stat_desc sroce_stat_descs[] = {
#define X(id, text) [SROCE_CNT_##id].name = text,
	SROCE_COUNTERS(X)
#undef X
};

/**
 * sroce_alloc_hw_port_stats - ib_device_ops: a port's counters, or the device's
 * @ibdev: the link's device
 * @port: its port
 *
 * Return: the core's structure, which it frees.
 */
struct rdma_hw_stats *sroce_alloc_hw_port_stats(struct ib_device *ibdev, u32 port)
{
	return rdma_alloc_hw_stats_struct(sroce_stat_descs, ARRAY_SIZE(sroce_stat_descs),
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

/**
 * sroce_get_hw_stats - ib_device_ops: read the counters
 * @ibdev: the link's device
 * @stats: filled in
 * @port: 1; the device as a whole has none
 * @index: of the one that is asked for; all are given
 *
 * Return: how many are valid, or -EINVAL.
 */
int sroce_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port,
		       int index)
{
	struct sroce_dev *sdev = to_sdev(ibdev);
	unsigned int i;
	int cpu;

	if (!port || !stats)
		return -EINVAL;

	for (i = 0; i < SROCE_NUM_COUNTERS; i++) {
		u64 sum = 0;

		for_each_possible_cpu(cpu)
			sum += per_cpu_ptr(sdev->stats, cpu)->cnt[i];
		stats->value[i] = sum;
	}
	return SROCE_NUM_COUNTERS;
}
