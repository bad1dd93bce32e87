// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What "rdma resource show -dd" tells of our objects beside what the core
 * knows. Queue pairs are not locked: it is a look at what may be moving.
 */
#include <rdma/restrack.h>
#include <uapi/rdma/rdma_netlink.h>

#include "sroce.h"

/**
 * struct res_value - a number and its name
 * @name: as it is shown
 * @value: the number
 */
struct res_value {
	const char *name;
	u32 value;
};

static int res_put(struct sk_buff *msg, const struct res_value *v, unsigned int num)
{
	struct nlattr *table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);

	if (!table)
		return -EMSGSIZE;
	for (; num; num--, v++)
		if (rdma_nl_put_driver_u32(msg, v->name, v->value)) {
			nla_nest_cancel(msg, table);
			return -EMSGSIZE;
		}
	nla_nest_end(msg, table);
	return 0;
}

/**
 * sroce_fill_res_cq - ib_device_ops: a completion queue's indices
 * @msg: netlink message
 * @ibcq: the queue
 *
 * Return: 0 or -EMSGSIZE.
 */
int sroce_fill_res_cq(struct sk_buff *msg, struct ib_cq *ibcq)
{
	struct sroce_cq *cq = to_scq(ibcq);
	struct res_value v[] = {
		{ "prod", }, { "cons", }, { "arm", }, { "overflown", },
	};
	bool there;

	/* the ring may be exchanged; or be gone, where the core forgets the queue after us */
	spin_lock_bh(&cq->lock);
	there = cq->q.ring;
	if (there) {
		v[0].value = cq->prod;
		v[1].value = READ_ONCE(cq->q.ring->cons);
		v[2].value = READ_ONCE(cq->q.ring->arm);
		v[3].value = cq->overflown;
	}
	spin_unlock_bh(&cq->lock);
	return there ? res_put(msg, v, ARRAY_SIZE(v)) : 0;
}

/**
 * sroce_fill_res_mr - ib_device_ops: how a memory region's memory is kept
 * @msg: netlink message
 * @ibmr: the region
 *
 * Return: 0 or -EMSGSIZE.
 */
int sroce_fill_res_mr(struct sk_buff *msg, struct ib_mr *ibmr)
{
	struct res_value v[] = {
		{ "access", }, { "block_shift", }, { "windows", }, { "odp", }, { "dmabuf", },
	};
	const struct sroce_mr *mr;

	/* registered again, it becomes another */
	rcu_read_lock();
	mr = READ_ONCE(to_sregion(ibmr)->mr);
	v[0].value = mr->access;
	v[1].value = mr->mem.block_shift;
	v[2].value = max(atomic_read(&mr->windows), 0);
	v[3].value = !!mr->mem.odp;
	v[4].value = !!mr->mem.attach;
	rcu_read_unlock();
	return res_put(msg, v, ARRAY_SIZE(v));
}

/**
 * sroce_fill_res_qp - ib_device_ops: where a queue pair's two sides are
 * @msg: netlink message
 * @ibqp: the queue pair
 *
 * Return: 0 or -EMSGSIZE.
 */
int sroce_fill_res_qp(struct sk_buff *msg, struct ib_qp *ibqp)
{
	const struct sroce_qp *qp = to_sqp(ibqp);
	const struct sroce_sq *sq = &qp->sq;
	const struct sroce_rq *rq = &qp->rq;
	const struct sroce_qpn *num;
	struct res_value v[] = {
		{ "sq_una", READ_ONCE(sq->una) },
		{ "sq_nxt", READ_ONCE(sq->nxt) },
		{ "sq_fetched", READ_ONCE(sq->fetched) },
		{ "sq_psn_una", READ_ONCE(sq->psn_una) },
		{ "sq_psn_nxt", READ_ONCE(sq->psn_nxt) },
		{ "sq_psn_end", READ_ONCE(sq->psn_end) },
		{ "sq_retry_left", READ_ONCE(sq->retry_left) },
		{ "sq_cwnd", READ_ONCE(sq->cwnd.pkts) },
		{ "sq_srtt_us", min_t(u64, div64_u64(READ_ONCE(sq->srtt), NSEC_PER_USEC), U32_MAX) },
		{ "rq_cons", READ_ONCE(rq->cons) },
		{ "rq_epsn", READ_ONCE(rq->epsn) },
		{ "rq_msn", READ_ONCE(rq->msn) },
		{ "mtu", READ_ONCE(qp->mtu) },
		/* in kb/s, as it was set; 0 for none */
		{ "rate_limit", READ_ONCE(qp->attr.rate_limit) },
		{ "tx_skbs", },
	};

	/* it may be on its way out, where the core forgets the queue pair after us */
	rcu_read_lock();
	num = READ_ONCE(qp->num);
	if (num)
		v[ARRAY_SIZE(v) - 1].value = atomic_read(&num->tx_skbs);
	rcu_read_unlock();
	return res_put(msg, v, ARRAY_SIZE(v));
}

/**
 * sroce_fill_res_srq - ib_device_ops: a shared receive queue's indices
 * @msg: netlink message
 * @ibsrq: the queue
 *
 * Return: 0 or -EMSGSIZE.
 */
int sroce_fill_res_srq(struct sk_buff *msg, struct ib_srq *ibsrq)
{
	struct sroce_srq *srq = to_ssrq(ibsrq);
	struct res_value v[] = {
		{ "prod", }, { "cons", }, { "entries", }, { "limit", }, { "broken", },
	};
	bool there;

	spin_lock_bh(&srq->lock);
	there = srq->q.ring;
	if (there) {
		v[0].value = READ_ONCE(srq->q.ring->prod);
		v[1].value = srq->cons;
		v[2].value = srq->q.mask + 1;
		v[3].value = srq->limit;
		v[4].value = srq->broken;
	}
	spin_unlock_bh(&srq->lock);
	return there ? res_put(msg, v, ARRAY_SIZE(v)) : 0;
}
