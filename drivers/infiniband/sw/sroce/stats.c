// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The port's hw_counters, and those that queue pairs are bound to. */
#include <linux/slab.h>

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
 * sroce_stats_sum - a counter of all CPUs
 * @stats: a link's, or of queue pairs bound to one
 * @id: which
 *
 * Any context.
 *
 * Return: its value.
 */
u64 sroce_stats_sum(struct sroce_stats __percpu *stats, enum sroce_counter id)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu_ptr(stats, cpu)->cnt[id]);
	return sum;
}

static int stats_read(struct rdma_hw_stats *to, struct sroce_stats __percpu *stats)
{
	unsigned int i;

	for (i = 0; i < SROCE_NUM_COUNTERS; i++)
		to->value[i] = sroce_stats_sum(stats, i);
	return SROCE_NUM_COUNTERS;
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
	if (!port || !stats)
		return -EINVAL;
	return stats_read(stats, to_sdev(ibdev)->stats);
}

/* Counters that queue pairs are bound to */

static struct sroce_qp_counter *counter_find(struct rdma_counter *counter)
{
	return xa_load(&to_sdev(counter->device)->counters, counter->id);
}

static void counter_free(struct sroce_qp_counter *cnt)
{
	free_percpu(cnt->stats);
	kfree(cnt);
}

static void counter_free_rcu(struct rcu_head *rcu)
{
	counter_free(container_of(rcu, struct sroce_qp_counter, rcu));
}

/* With the first queue pair; the core's id is ours to give, and not 0. */
static struct sroce_qp_counter *counter_create(struct rdma_counter *counter)
{
	struct sroce_qp_counter *cnt = kzalloc(sizeof(*cnt), GFP_KERNEL);
	int err = -ENOMEM;

	if (!cnt)
		return ERR_PTR(err);
	cnt->stats = alloc_percpu(struct sroce_stats);
	if (!cnt->stats)
		goto err_cnt;
	err = xa_alloc(&to_sdev(counter->device)->counters, &counter->id, cnt, xa_limit_31b,
		       GFP_KERNEL);
	if (err)
		goto err_cnt;
	return cnt;

err_cnt:
	counter_free(cnt);
	return ERR_PTR(err);
}

/*
 * (No kernel-doc, which takes SROCE_COUNTER_PORT for the last parameter.)
 *
 * sroce_counter_bind_qp - ib_device_ops: a queue pair counts for itself
 * @counter: the core's, with its lock held
 * @ibqp: the queue pair, bound to none
 *
 * Return: 0 or an errno.
 */
int sroce_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *ibqp SROCE_COUNTER_PORT)
{
	struct sroce_qp_counter *cnt;

	cnt = counter->id ? counter_find(counter) : counter_create(counter);
	if (IS_ERR(cnt))
		return PTR_ERR(cnt);
	/* its last queue pair has left it meanwhile, see sroce_counter_update_stats() */
	if (!cnt)
		return -ENOENT;
	WRITE_ONCE(to_sqp(ibqp)->stats, cnt->stats);
	ibqp->counter = counter;
	return 0;
}

/*
 * sroce_counter_unbind_qp - ib_device_ops: a queue pair counts for the device
 * @ibqp: the queue pair
 *
 * Return: 0.
 */
int sroce_counter_unbind_qp(struct ib_qp *ibqp SROCE_COUNTER_PORT)
{
	WRITE_ONCE(to_sqp(ibqp)->stats, NULL);
	ibqp->counter = NULL;
	return 0;
}

/**
 * sroce_counter_dealloc - ib_device_ops: the last queue pair has left a counter
 * @counter: the core's
 *
 * Return: 0.
 */
int sroce_counter_dealloc(struct rdma_counter *counter)
{
	struct sroce_qp_counter *cnt;

	cnt = xa_erase(&to_sdev(counter->device)->counters, counter->id);
	if (cnt)
		call_rcu(&cnt->rcu, counter_free_rcu);
	return 0;
}

/**
 * sroce_counter_alloc_stats - ib_device_ops: where a counter's values go
 * @counter: the core's
 *
 * Return: the core's structure, which it frees.
 */
struct rdma_hw_stats *sroce_counter_alloc_stats(struct rdma_counter *counter)
{
	return sroce_alloc_hw_port_stats(counter->device, counter->port);
}

/**
 * sroce_counter_update_stats - ib_device_ops: read a counter
 * @counter: the core's, with its lock held
 *
 * Who reads may have waited for that lock while the last queue pair left: the core has added
 * the values to its history by then, and calls sroce_counter_dealloc() without the lock.
 *
 * Return: 0, or -EINVAL if the counter is no more.
 */
int sroce_counter_update_stats(struct rdma_counter *counter)
{
	struct sroce_qp_counter *cnt;

	rcu_read_lock();
	cnt = counter_find(counter);
	if (cnt)
		stats_read(counter->stats, cnt->stats);
	rcu_read_unlock();
	return cnt ? 0 : -EINVAL;
}
