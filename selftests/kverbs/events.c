// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What is asynchronous (IBTA Vol.1 11.6.3): a consumer in the kernel is told by the handler that
 * its queue pair, its queue or its client has, each event of what it is of and of nothing else.
 */
#include <linux/delay.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <rdma/ib_cache.h>

#include "../compat.h"
#include "kverbs_test.h"

#define PATIENCE	(60 * HZ)

static atomic_t strange;

/* Any context: of what @mine is true, the event has come. */
static void event_came(struct side *s, const struct ib_event *event, bool mine)
{
	if (mine && event->device == s->dev) {
		set_bit(event->event, &s->events);
	} else {
		atomic_inc(&strange);
		pr_info("kverbs: # event %d of somebody else's\n", event->event);
	}
}

static void none_strange(void)
{
	ok(!atomic_xchg(&strange, 0), "no event of somebody else's");
}

void qp_event(struct ib_event *event, void *context)
{
	struct side *s = context;

	event_came(s, event, event->element.qp->qp_context == s);
}

static void srq_event(struct ib_event *event, void *context)
{
	struct side *s = context;

	event_came(s, event, event->element.srq == s->srq);
}

/* Once: there is none any more after that. */
static bool event_is(struct side *s, enum ib_event_type type)
{
	const unsigned long end = jiffies + PATIENCE;

	while (!test_and_clear_bit(type, &s->events)) {
		if (time_after(jiffies, end)) {
			pr_info("kverbs: # no event %d, but 0x%lx\n", type, s->events);
			return false;
		}
		msleep(1);
	}
	return true;
}

static void events_forget(void)
{
	sides[0].events = 0;
	sides[1].events = 0;
}

/* The sender may send before the receiver has heard that it is connected. */
static void test_comm_est(struct side *a, struct side *b)
{
	struct ib_sge list = sge(a, 0, 100);
	struct ib_send_wr wr = { .opcode = IB_WR_SEND, .sg_list = &list, .num_sge = 1 };

	if (make_qp(a, IB_QPT_RC) || make_qp(b, IB_QPT_RC) || to_init(a) || to_init(b) ||
	    to_rtr(a, b) || to_rtr(b, a) || to_rts(a)) {
		ok(false, "RC, in RTR");
		return;
	}
	events_forget();
	fill();
	post_recv(b, 0, SIZE);
	ok(!post(a, &wr) && op_wait(&a->send, IB_WC_SUCCESS) &&
	   op_wait(&b->recv, IB_WC_SUCCESS) && !memcmp(a->buf, b->buf, 100), "SEND to RTR");
	ok(event_is(b, IB_EVENT_COMM_EST), "COMM_EST");
	post_recv(b, 0, SIZE);
	ok(!post(a, &wr) && op_wait(&b->recv, IB_WC_SUCCESS) &&
	   op_wait(&a->send, IB_WC_SUCCESS) && !to_rts(b) && !a->events && !b->events, "once");
	pair_down();
}

/* Of what no receive request tells: the requester's completion says it, and an event here. */
static void test_refusals(struct side *a, struct side *b)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RTS };
	struct ib_sge list = sge(a, 0, 100);
	struct ib_rdma_wr wr = write_to(b, &list, b->pd->local_dma_lkey);

	if (pair_up(IB_QPT_RC)) {
		ok(false, "RC, for QP_ACCESS_ERR");
		return;
	}
	events_forget();
	ok(!post(a, &wr.wr) && op_wait(&a->send, IB_WC_REM_ACCESS_ERR) &&
	   event_is(b, IB_EVENT_QP_ACCESS_ERR) && !a->events && !b->events, "QP_ACCESS_ERR");
	pair_down();

	if (pair_up(IB_QPT_RC)) {
		ok(false, "RC, for QP_REQ_ERR");
		return;
	}
	events_forget();
	wr.rkey = b->pd->unsafe_global_rkey;
	ok(!ib_modify_qp(b->qp, &attr, IB_QP_STATE | IB_QP_ACCESS_FLAGS) && !post(a, &wr.wr) &&
	   op_wait(&a->send, IB_WC_REM_INV_REQ_ERR) && event_is(b, IB_EVENT_QP_REQ_ERR) &&
	   !a->events && !b->events, "QP_REQ_ERR");
	pair_down();
}

static void test_drained(struct side *a, struct side *b)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_SQD, .en_sqd_async_notify = 1 };

	if (pair_up(IB_QPT_RC)) {
		ok(false, "RC, for SQ_DRAINED");
		return;
	}
	events_forget();
	ok(!ib_modify_qp(a->qp, &attr, IB_QP_STATE | IB_QP_EN_SQD_ASYNC_NOTIFY) &&
	   event_is(a, IB_EVENT_SQ_DRAINED) && !a->events && !b->events, "SQ_DRAINED");
	pair_down();
}

static void test_srq_events(struct side *a, struct side *b)
{
	struct ib_srq_init_attr init = {
		.event_handler = srq_event,
		.srq_context = b,
		.attr = { .max_wr = DEPTH, .max_sge = 1 },
	};
	struct ib_srq_attr limit = { .srq_limit = 2 };
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct ib_send_wr wr = { .opcode = IB_WR_SEND };

	b->srq = ib_create_srq(b->pd, &init);
	if (IS_ERR(b->srq) || pair_up(IB_QPT_RC)) {
		ok(false, "RC, for a shared receive queue's events");
		return;
	}
	events_forget();
	post_recv(b, 0, 0);
	post_recv(b, 0, 0);
	ok(!ib_modify_srq(b->srq, &limit, IB_SRQ_LIMIT) && !b->events, "a limit");
	ok(!post(a, &wr) && op_wait(&a->send, IB_WC_SUCCESS) &&
	   op_wait(&b->recv, IB_WC_SUCCESS) && event_is(b, IB_EVENT_SRQ_LIMIT_REACHED) &&
	   !b->events, "SRQ_LIMIT_REACHED");
	ok(!ib_modify_qp(b->qp, &attr, IB_QP_STATE) &&
	   event_is(b, IB_EVENT_QP_LAST_WQE_REACHED) && !a->events && !b->events,
	   "QP_LAST_WQE_REACHED");
	pair_down();
	ib_destroy_srq(b->srq);
	b->srq = NULL;
}

static struct ib_cq *unpolled;

static void cq_event(struct ib_event *event, void *context)
{
	event_came(context, event, event->element.cq == unpolled);
}

static void nobody_polls(struct ib_cq *cq, void *context)
{
}

/*
 * One of which nobody polls: of no pool, and not polled by the core either. It has room for what
 * its users may have flushed beside, see drivers/infiniband/core/cq.c, ib_cq_pool_get().
 */
static void test_cq_event(struct side *a, struct side *b)
{
	const struct ib_cq_init_attr init = { .cqe = 1 };
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct ib_send_wr wr = { .opcode = IB_WR_SEND };
	struct ib_cq *before = b->cq, *cq;
	int i, err;

	cq = ib_create_cq(b->dev, nobody_polls, cq_event, b, &init);
	if (IS_ERR(cq)) {
		ok(false, "ib_create_cq()");
		return;
	}
	unpolled = b->cq = cq;
	err = pair_up(IB_QPT_RC);
	/* with IB_POLL_DIRECT, who waits polls what is there */
	b->cq = before;
	events_forget();
	for (i = 0; i < 4 * cq->cqe && !err; i++)
		err = post_recv(b, 0, 0) ?: post(a, &wr) ?: !op_wait(&a->send, IB_WC_SUCCESS);
	ok(!err && !b->events, "completions beyond what was asked for");
	err = post_recv(b, 0, 0) ?: ib_post_send(a->qp, &wr, NULL);
	ok(!err && event_is(b, IB_EVENT_CQ_ERR), "CQ_ERR");
#ifdef SROCE_RESIZE_CQ_KERNEL
	/* where there is the call, it never was for more than programs */
	ok(ib_resize_cq(cq, 100) == -EOPNOTSUPP, "no resize in the kernel");
#endif
	ib_modify_qp(a->qp, &attr, IB_QP_STATE);
	ib_drain_qp(a->qp);
	ib_destroy_qp(a->qp);
	ib_destroy_qp(b->qp);
	ib_destroy_cq(cq);
}

void test_events(struct side *a, struct side *b)
{
	test_comm_est(a, b);
	test_refusals(a, b);
	test_drained(a, b);
	test_srq_events(a, b);
	test_cq_event(a, b);
	none_strange();
}

struct port_events {
	struct ib_event_handler handler;
	struct side *s;
};

static void port_event(struct ib_event_handler *handler, struct ib_event *event)
{
	struct side *s = container_of(handler, struct port_events, handler)->s;

	event_came(s, event, event->element.port_num == 1);
}

static struct net_device *netdev_of(struct side *s)
{
	struct net_device *ndev;

	rcu_read_lock();
	ndev = rdma_read_gid_attr_ndev_rcu(s->gid_attr);
	if (!IS_ERR(ndev))
		dev_hold(ndev);
	rcu_read_unlock();
	return ndev;
}

/* The netdev goes down and comes up again: IPv6's addresses go, IPv4's stay. */
void test_port_events(struct side *a, struct side *b)
{
	struct net_device *ndev = netdev_of(a);
	struct port_events port = { .s = a };
	int err;

	if (IS_ERR(ndev)) {
		ok(false, "a netdev");
		return;
	}
	INIT_IB_EVENT_HANDLER(&port.handler, a->dev, port_event);
	events_forget();
	ib_register_event_handler(&port.handler);
	rtnl_lock();
	dev_close(ndev);
	rtnl_unlock();
	ok(event_is(a, IB_EVENT_PORT_ERR), "PORT_ERR");
	ok(event_is(a, IB_EVENT_GID_CHANGE), "GID_CHANGE");
	ok(!test_bit(IB_EVENT_PORT_ACTIVE, &a->events), "no PORT_ACTIVE before it is up");
	rtnl_lock();
	err = dev_open(ndev, NULL);
	rtnl_unlock();
	ok(!err && event_is(a, IB_EVENT_PORT_ACTIVE), "PORT_ACTIVE");
	ok(!test_bit(IB_EVENT_PORT_ERR, &a->events), "and no PORT_ERR");
	ib_unregister_event_handler(&port.handler);
	none_strange();
	dev_put(ndev);
	if (pair_up(IB_QPT_RC)) {
		ok(false, "RC, after that");
		return;
	}
	test_send(a, b);
	pair_down();
}
