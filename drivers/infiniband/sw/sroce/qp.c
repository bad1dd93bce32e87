// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Queue pairs: their life and their state machine. */
#include <linux/delay.h>
#include <linux/log2.h>
#include <linux/prefetch.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/vmalloc.h>
#include <rdma/uverbs_ioctl.h>

#include "sroce.h"
#include "trace.h"

/* 0 and 1 are the management queue pairs' (IBTA Vol.1 3.5.3) */
#define QPN_MIN		2
#define QPN_MAX		0xfffffe

/* The first is one of so many: few, as the table is as deep as its largest number has it */
#define QPN_FIRST	(1U << 18)

/*
 * Of all links, so that a packet's queue pair is found by its number and no
 * guess at the link is needed: packets of one link may come in by lo, a
 * VLAN or a bridge. Whether the packet may be meant for it, its addresses say.
 */
static DEFINE_XARRAY_FLAGS(sroce_qps, XA_FLAGS_ALLOC | XA_FLAGS_ACCOUNT);
static u32 sroce_qpn_next;

/* Numbers whose memory is in use, with or without a queue pair */
static atomic_t sroce_num_qpn;

/* Numbers */

/**
 * sroce_qpn_use - use a queue pair by its number
 * @num: the number, held
 *
 * Any context.
 *
 * Return: false if the queue pair is being destroyed.
 */
bool sroce_qpn_use(struct sroce_qpn *num)
{
	return refcount_inc_not_zero(&num->users);
}

/**
 * sroce_qpn_unuse - the end of sroce_qpn_use()
 * @num: the number
 */
void sroce_qpn_unuse(struct sroce_qpn *num)
{
	if (refcount_dec_and_test(&num->users))
		complete(&num->idle);
}

/**
 * sroce_qpn_put - drop a reference on a number
 * @num: the number
 */
void sroce_qpn_put(struct sroce_qpn *num)
{
	if (!refcount_dec_and_test(&num->ref))
		return;
	kfree_rcu(num, rcu);
	atomic_dec(&sroce_num_qpn);
}

/**
 * sroce_qpn_wait - wait until no number is held
 *
 * The module ends: an skb that the stack still has would call into it. A
 * qdisc that delays packets lets go of them in its own time. May sleep.
 */
void sroce_qpn_wait(void)
{
	while (atomic_read(&sroce_num_qpn))
		msleep(20);
	/* for who is on the way out of sroce_qpn_put(), preempted or not */
	synchronize_rcu_tasks();
}

/**
 * sroce_qp_get - find a queue pair
 * @qpn: its number
 *
 * Any context.
 *
 * Return: the queue pair, not to be destroyed until sroce_qp_put(), or NULL.
 */
struct sroce_qp *sroce_qp_get(u32 qpn)
{
	struct sroce_qp *qp = NULL;
	struct sroce_qpn *num;

	rcu_read_lock();
	num = xa_load(&sroce_qps, qpn);
	if (num && sroce_qpn_use(num))
		qp = num->qp;
	rcu_read_unlock();
	return qp;
}

static void prefetch_lines(const void *from, size_t len)
{
	size_t off;

	for (off = 0; off < len; off += L1_CACHE_BYTES)
		prefetch(from + off);
}

/**
 * sroce_qp_prefetch - a queue pair will be looked at soon
 * @qpn: its number, or any other; RCU is held
 * @sends: at its send side, for a response or a doorbell; else at its receive side, for a request
 *
 * Of many queue pairs none is in the caches. A packet's ICRC is checked meanwhile.
 */
void sroce_qp_prefetch(u32 qpn, bool sends)
{
	const struct sroce_qpn *num = xa_load(&sroce_qps, qpn);
	const struct sroce_qp *qp = num ? num->qp : NULL;

	if (!qp)
		return;
	prefetch(&qp->sdev);
	if (sends)
		prefetch_lines(&qp->sq.sweep.due, offsetofend(struct sroce_sq, fault.err) -
						  offsetof(struct sroce_sq, sweep.due));
	else
		prefetch_lines(&qp->rq.kept.bytes, offsetofend(struct sroce_rq, fault.err) -
						   offsetof(struct sroce_rq, kept.bytes));
}

/**
 * sroce_qp_put - the end of sroce_qp_get()
 * @qp: queue pair
 */
void sroce_qp_put(struct sroce_qp *qp)
{
	sroce_qpn_unuse(qp->num);
}

/**
 * sroce_qp_init - choose where numbers begin
 *
 * The peer of a machine that has crashed still has its connections. It refuses a new one of the same
 * number as stale (cm_match_req()).
 */
void __init sroce_qp_init(void)
{
	sroce_qpn_next = QPN_MIN + get_random_u32() % QPN_FIRST;
}

/**
 * sroce_qpn_reserve - a number that no queue pair gets
 * @qpn: filled in
 *
 * May sleep.
 *
 * Return: 0 or an errno.
 */
int sroce_qpn_reserve(u32 *qpn)
{
	int err;

	err = xa_alloc_cyclic(&sroce_qps, qpn, NULL, XA_LIMIT(QPN_MIN, QPN_MAX),
			      &sroce_qpn_next, GFP_KERNEL);
	return min(err, 0);
}

/**
 * sroce_qpn_unreserve - the end of sroce_qpn_reserve()
 * @qpn: the number
 */
void sroce_qpn_unreserve(u32 qpn)
{
	xa_erase(&sroce_qps, qpn);
}

static struct sroce_qpn *qpn_alloc(struct sroce_qp *qp)
{
	struct sroce_qpn *num = kzalloc(sizeof(*num), GFP_KERNEL_ACCOUNT);

	if (!num)
		return NULL;
	refcount_set(&num->ref, 1);
	refcount_set(&num->users, 1);
	init_completion(&num->idle);
	num->qp = qp;
	/* one that only receives is known by who made it */
	if (qp->ibuc)
		num->ringer = task_pid_nr(current);
	atomic_inc(&sroce_num_qpn);
	return num;
}

/* Nobody finds it any more, and who has found it is done. May sleep. */
static void qpn_retire(struct sroce_qpn *num)
{
	xa_erase(&sroce_qps, num->qpn);
	sroce_qpn_unuse(num);
	wait_for_completion(&num->idle);
}

/* Errors and events */

/**
 * sroce_qp_event - raise an asynchronous event of a queue pair
 * @qp: queue pair
 * @type: the event
 */
void sroce_qp_event(struct sroce_qp *qp, enum ib_event_type type)
{
	struct ib_event event = {
		.device = qp->ibqp.device,
		.event = type,
		.element.qp = &qp->ibqp,
	};

	if (qp->ibqp.event_handler)
		qp->ibqp.event_handler(&event, qp->ibqp.qp_context);
}

/**
 * sroce_rq_unlock - drop the receive lock, and raise the event that is due
 * @rq: receive side of a queue pair, or of a work queue; its lock is held, bottom halves are off
 */
void sroce_rq_unlock(struct sroce_rq *rq)
	__releases(&rq->lock)
{
	struct sroce_cq *notify = rq->notify;

	rq->notify = NULL;
	spin_unlock_bh(&rq->lock);
	if (notify)
		sroce_cq_notify(notify);
}

/* Return: true if its receive requests are to be flushed. */
static bool enter_error(struct sroce_qp *qp)
{
	if (qp->state == IB_QPS_RESET || qp->state == IB_QPS_ERR)
		return false;
	trace_sroce_state(qp, qp->state, IB_QPS_ERR);
	WRITE_ONCE(qp->state, IB_QPS_ERR);
	return true;
}

/**
 * sroce_qp_error_locked - move a queue pair to ERR
 * @qp: queue pair; its receive lock is held
 *
 * Receive requests are flushed here; the send queue is, by the next
 * sroce_send_run(), which is due.
 */
void sroce_qp_error_locked(struct sroce_qp *qp)
{
	if (enter_error(qp))
		sroce_recv_flush(qp);
}

/*
 * Nothing is read for the peer any more, and what is behind a READ can't be said then. What has
 * been done is acknowledged still: its completion may be what the program ends for.
 */
static void end_answers(struct sroce_rq *rq)
{
	if (rq->num_owed)
		rq->respond = false;
	rq->num_owed = 0;
	rq->num_res = 0;
}

/* Not for what the peer has sent: that is answered, and what was before it. */
static void error_of_ours(struct sroce_qp *qp)
{
	if (!enter_error(qp))
		return;
	end_answers(&qp->rq);
	sroce_recv_flush(qp);
}

/**
 * sroce_qp_overrun - a completion has found no room, and nor will others: to ERR
 * @qp: queue pair; its receive lock is held
 * @sent: it was of a request of ours, and the peer is answered no more
 *
 * With an event: there is nothing else that the program could see.
 */
void sroce_qp_overrun(struct sroce_qp *qp, bool sent)
{
	if (!enter_error(qp))
		return;
	sroce_qp_event(qp, IB_EVENT_QP_FATAL);
	if (sent)
		end_answers(&qp->rq);
	sroce_recv_flush(qp);
}

/**
 * sroce_qp_error - move a queue pair to ERR, and answer its peer no more
 * @qp: queue pair
 *
 * Process context or softirq, also by the owner of the send side.
 */
void sroce_qp_error(struct sroce_qp *qp)
{
	spin_lock_bh(&qp->rq.lock);
	error_of_ours(qp);
	sroce_rq_unlock(&qp->rq);
}

/**
 * sroce_qp_send_error - a send request has failed
 * @qp: queue pair; the caller owns its send side, and its receive lock is held
 *
 * Where nobody relies on the connection, receiving goes on and the send queue
 * alone is in error: SQE, 10.3.1.
 *
 * Return: true if receive requests are to be flushed, behind that request's completion.
 */
bool sroce_qp_send_error(struct sroce_qp *qp)
{
	if (qp->transport != WIRE_UC && qp->transport != WIRE_UD) {
		if (!enter_error(qp))
			return false;
		end_answers(&qp->rq);
		return true;
	}
	if (qp->state == IB_QPS_RTS || qp->state == IB_QPS_SQD) {
		trace_sroce_state(qp, qp->state, IB_QPS_SQE);
		WRITE_ONCE(qp->state, IB_QPS_SQE);
	}
	return false;
}

/**
 * sroce_qp_last_wqe - no request of its shared receive queue is in use any more
 * @qp: queue pair; its receive lock is held
 *
 * In ERR, its consumer is told so, once (11.6.3.4).
 */
void sroce_qp_last_wqe(struct sroce_qp *qp)
{
	if (qp->state != IB_QPS_ERR || qp->last_wqe)
		return;
	qp->last_wqe = true;
	sroce_qp_event(qp, IB_EVENT_QP_LAST_WQE_REACHED);
}

/**
 * sroce_qp_kick - see to what has been posted
 * @qp: queue pair
 *
 * As sroce_send_run(), and in ERR the receive queue is flushed as well.
 */
void sroce_qp_kick(struct sroce_qp *qp)
{
	sroce_send_run(qp);
	if (READ_ONCE(qp->state) != IB_QPS_ERR)
		return;
	spin_lock_bh(&qp->rq.lock);
	if (qp->state == IB_QPS_ERR)
		sroce_recv_flush(qp);
	sroce_rq_unlock(&qp->rq);
}

/* All that the data path uses is the caller's, to change it. May sleep. */
static void claim_both(struct sroce_qp *qp)
	__acquires(&qp->rq.lock)
{
	sroce_send_claim(qp);
	sroce_resp_claim(qp);
	spin_lock_bh(&qp->rq.lock);
}

static void release_both(struct sroce_qp *qp)
	__releases(&qp->rq.lock)
{
	sroce_rq_unlock(&qp->rq);
	sroce_resp_release(qp);
	sroce_send_release(qp);
}

static void qp_fatal(struct sroce_qp *qp)
{
	sroce_qp_error(qp);
	sroce_send_run(qp);
}

static void qp_gone(struct sroce_qp *qp)
{
	claim_both(qp);
	sroce_path_release(&qp->sq.path);
	sroce_path_release(&qp->rq.path);
	release_both(qp);
	if (!qp->ibuc && qp->transport != WIRE_XRC)
		qp_fatal(qp);
}

/*
 * Kernel consumers are told of the link's end, and end their queue pairs in an
 * order of their own, in which the connection manager still says goodbye to
 * peers; but when the netdev goes, nothing can be sent, and all has to end.
 */
static bool qp_ends(const struct sroce_qp *qp)
{
	return qp->ibuc || qp->transport == WIRE_XRC || READ_ONCE(qp_dev(qp)->gone);
}

/**
 * sroce_qp_each - do something with each queue pair of a link
 * @sdev: the link
 * @what: to be done; may sleep
 *
 * Sleeps.
 */
void sroce_qp_each(struct sroce_dev *sdev, void (*what)(struct sroce_qp *qp))
{
	struct sroce_qpn *num;
	unsigned long index;

	rcu_read_lock();
	xa_for_each(&sroce_qps, index, num) {
		if (!sroce_qpn_use(num))
			continue;
		rcu_read_unlock();
		if (qp_dev(num->qp) == sdev)
			what(num->qp);
		cond_resched();
		rcu_read_lock();
		sroce_qpn_unuse(num);
	}
	rcu_read_unlock();
}

/**
 * sroce_qp_gone_all - a netdev goes, which the routes of its link's queue pairs may hold
 * @sdev: the link, which is gone: no route is looked for any more
 *
 * Sleeps. Consumers in the kernel may be waiting for what they have posted, and be told of the end
 * before us or have been: theirs is flushed. How much programs have is for them to say,
 * and RTNL may be held here: see sroce_qp_fatal_all().
 */
void sroce_qp_gone_all(struct sroce_dev *sdev)
{
	sroce_qp_each(sdev, qp_gone);
}

static void qp_mtu(struct sroce_qp *qp)
{
	const u32 mtu = ib_mtu_enum_to_int(sroce_port_mtu(qp->ibqp.device));

	if (qp->transport == WIRE_UD && READ_ONCE(qp->state) >= IB_QPS_RTR && mtu > READ_ONCE(qp->mtu))
		WRITE_ONCE(qp->mtu, mtu);
}

/**
 * sroce_qp_mtu_all - a port's MTU may have changed, and with it how long a datagram may be
 * @sdev: the link
 *
 * Sleeps. Where it is less now, datagrams that have been posted may still be longer: they are lost,
 * as those on their way.
 */
void sroce_qp_mtu_all(struct sroce_dev *sdev)
{
	sroce_qp_each(sdev, qp_mtu);
}

static void qp_end(struct sroce_qp *qp)
{
	if (qp_ends(qp))
		qp_fatal(qp);
}

/**
 * sroce_qp_fatal_all - a link goes: end all that its queue pairs have posted
 * @sdev: the link
 *
 * Sleeps.
 */
void sroce_qp_fatal_all(struct sroce_dev *sdev)
{
	sroce_qp_each(sdev, qp_end);
}

/* Creation */

static int check_cap(const struct ib_qp_cap *cap)
{
	if (cap->max_send_wr > SROCE_MAX_QP_WR || cap->max_recv_wr > SROCE_MAX_QP_WR ||
	    cap->max_send_sge > SROCE_MAX_SGE || cap->max_recv_sge > SROCE_MAX_SGE ||
	    cap->max_inline_data > SROCE_MAX_INLINE)
		return -EINVAL;
	return 0;
}

/* Blocks of the largest send request that @cap allows. */
static u32 send_blocks(const struct ib_qp_cap *cap)
{
	u32 data = max_t(u32, cap->max_send_sge * sizeof(struct sroce_sge),
			 cap->max_inline_data);

	return DIV_ROUND_UP(sizeof(struct sroce_send_wqe) + data, SROCE_SQ_BLOCK);
}

static int sq_create(struct sroce_qp *qp, struct ib_qp_cap *cap, struct ib_ucontext *ibuc,
		     struct sroce_ring_map *map)
{
	u32 blocks = send_blocks(cap);
	u32 entries = roundup_pow_of_two(max(cap->max_send_wr, 1U) * blocks);
	struct sroce_sq *sq = &qp->sq;
	int err;

	qp->max_send_sge = cap->max_send_sge;
	qp->max_inline = blocks * SROCE_SQ_BLOCK - sizeof(struct sroce_send_wqe);
	cap->max_inline_data = qp->max_inline;

	err = -ENOMEM;
	sq->copy = kvcalloc(entries, SROCE_SQ_BLOCK, GFP_KERNEL_ACCOUNT);
	if (!sq->copy)
		return err;
	sq->wqe = kvcalloc(entries, sizeof(*sq->wqe), GFP_KERNEL_ACCOUNT);
	if (!sq->wqe)
		goto err_copy;
	err = sroce_queue_alloc(ibuc, &sq->q, entries, SROCE_SQ_BLOCK, map);
	if (err)
		goto err_wqe;
	return 0;

err_wqe:
	kvfree(sq->wqe);
err_copy:
	kvfree(sq->copy);
	return err;
}

static void sq_destroy(struct sroce_qp *qp)
{
	sroce_queue_free(&qp->sq.q);
	kvfree(qp->sq.wqe);
	kvfree(qp->sq.copy);
}

/* The program's; or that of its tag matching queue, which the program does not see. */
static int sq_create_for(struct sroce_qp *qp, struct ib_qp_init_attr *init,
			 struct sroce_ring_map *map)
{
	struct ib_qp_cap cap = {};
	int err;

	qp->sq.pd = qp->ibqp.pd;
	qp->sq.cq = to_scq(init->send_cq);
	if (!sroce_tm_join(qp, init, &cap))
		return sq_create(qp, &init->cap, qp->ibuc, map);
	err = sq_create(qp, &cap, NULL, NULL);
	init->cap.max_send_sge = 0;
	init->cap.max_inline_data = 0;
	return err;
}

static int rq_create(struct sroce_qp *qp, struct ib_qp_init_attr *init,
		     struct sroce_ring_map *map)
{
	const bool shared = init->srq || init->qp_type == IB_QPT_XRC_TGT;
	const u32 sges = shared ? SROCE_MAX_SGE : max(init->cap.max_recv_sge, 1U);
	struct ib_qp_cap *cap = &init->cap;
	struct sroce_rq *rq = &qp->rq;
	u32 size = roundup_pow_of_two(struct_size(rq->wqe, sge, sges));
	int err;

	qp->max_recv_sge = cap->max_recv_sge;
	rq->wqe = kzalloc(size, GFP_KERNEL_ACCOUNT);
	if (!rq->wqe)
		return -ENOMEM;
	if (shared)
		return 0;
	/* what the ring holds is what may be posted, and what is reported */
	cap->max_recv_wr = roundup_pow_of_two(max(cap->max_recv_wr, 1U));
	err = sroce_queue_alloc(qp->ibuc, &rq->q, cap->max_recv_wr, size, map);
	if (err) {
		kfree(rq->wqe);
		rq->wqe = NULL;
	}
	return err;
}

static void rq_destroy(struct sroce_qp *qp)
{
	sroce_queue_free(&qp->rq.q);
	kfree(qp->rq.wqe);
	kvfree(qp->rq.res);
}

/**
 * struct qp_type - what a type of queue pair is to us
 * @transport: enum wire_transport of its packets
 * @sends: it has a send queue
 * @receives: it has a receive queue, of its own or shared
 * @program: programs may have it
 * @kernel: kernel consumers may have it
 */
struct qp_type {
	u8 transport;
	bool sends;
	bool receives;
	bool program;
	bool kernel;
};

/* By enum ib_qp_type */
static const struct qp_type qp_types[] = {
	[IB_QPT_GSI] = { WIRE_UD, true, true, .kernel = true },
	[IB_QPT_RC] = { WIRE_RC, true, true, .program = true, .kernel = true },
	[IB_QPT_UC] = { WIRE_UC, true, true, .program = true, .kernel = true },
	[IB_QPT_UD] = { WIRE_UD, true, true, .program = true, .kernel = true },
	/* a work request of the kernel has no place for a number of theirs */
	[IB_QPT_XRC_INI] = { WIRE_XRC, true, false, .program = true },
	/* a program's, but the core asks for it in its own name */
	[IB_QPT_XRC_TGT] = { WIRE_XRC, false, true, .kernel = true },
	/* without a path, none of our packets are its */
	[IB_QPT_RAW_PACKET] = { WIRE_RC, true, true, .program = true },
};

static bool has_type(enum ib_qp_type type, bool program)
{
	return type < ARRAY_SIZE(qp_types) &&
	       (program ? qp_types[type].program : qp_types[type].kernel);
}

/* No path yet, or no more: requests are flushed, and counted in packets. */
static void no_peer(struct sroce_qp *qp)
{
	WRITE_ONCE(qp->mtu, ib_mtu_enum_to_int(IB_MTU_256));
}

/* What every type has, so that nobody has to ask for the type. */
static void sides_init(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;
	struct sroce_rq *rq = &qp->rq;

	no_peer(qp);
	rq->pd = qp->ibqp.pd;
	sq->by_key = -1;
	mutex_init(&qp->mutex);
	spin_lock_init(&sq->post_lock);
	spin_lock_init(&sq->late_lock);
	INIT_LIST_HEAD(&sq->late);
	sroce_fault_init(&sq->fault, qp, sroce_send_fault_done);
	sroce_task_init(&sq->task, sroce_send_task);
	hrtimer_setup(&sq->timer, sroce_retry_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	sroce_pace_init(qp);
	hrtimer_setup(&sq->linger, sroce_doorbell_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	timer_setup(&sq->watch, sroce_doorbell_watch, 0);

	spin_lock_init(&rq->lock);
	spin_lock_init(&rq->post_lock);
	INIT_LIST_HEAD(&rq->late);
	sroce_fault_init(&rq->fault, qp, sroce_recv_fault_done);
	sroce_fault_init(&rq->resp_fault, qp, sroce_resp_fault_done);
	sroce_task_init(&rq->task, sroce_resp_task);
}

/*
 * Every link has a QP1, so in the table of all links each has a number of its
 * own; a packet's address says which is meant (net.c).
 */
static int gsi_register(struct sroce_qp *qp)
{
	if (qp->type != IB_QPT_GSI)
		return 0;
	if (cmpxchg(&qp_dev(qp)->gsi_qpn, 0, qp->num->qpn))
		return -EBUSY;
	qp->ibqp.qp_num = WIRE_QPN_GSI;
	return 0;
}

static void gsi_unregister(struct sroce_qp *qp)
{
	if (qp->type == IB_QPT_GSI)
		WRITE_ONCE(qp_dev(qp)->gsi_qpn, 0);
}

static int check_init(const struct ib_qp_init_attr *init, struct ib_udata *udata)
{
	const bool raw = init->qp_type == IB_QPT_RAW_PACKET;

	/* over an indirection table it would have no queues, and the core takes it for any type */
	if (!has_type(init->qp_type, udata) ||
	    ((init->create_flags || init->rwq_ind_tbl) && !raw) ||
	    (!raw && !sroce_udata_clear(udata)))
		return -EOPNOTSUPP;
	/* a queue of another kind would be taken for one of ours (11.2.4.1) */
	if (init->srq && init->srq->srq_type != IB_SRQT_BASIC &&
	    (init->srq->srq_type != IB_SRQT_TM || init->qp_type != IB_QPT_RC))
		return -EINVAL;
	return 0;
}

/* One over an indirection table has no queues of its own. */
static int queues_create(struct sroce_qp *qp, struct ib_qp_init_attr *init,
			 struct sroce_create_qp_resp *resp)
{
	const struct qp_type *type = &qp_types[init->qp_type];
	int err = 0;

	if (qp->rss)
		return 0;
	if (type->sends)
		err = sq_create_for(qp, init, &resp->sq);
	if (err || !type->receives)
		return err;
	err = rq_create(qp, init, &resp->rq);
	if (err)
		sq_destroy(qp);
	return err;
}

/**
 * sroce_create_qp - ib_device_ops: make a queue pair
 * @ibqp: the queue pair
 * @init: what is asked for; its capabilities are updated to what there is
 * @udata: struct sroce_create_qp_resp; NULL for a kernel consumer
 *
 * Return: 0 or an errno.
 */
int sroce_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init, struct ib_udata *udata)
{
	struct sroce_dev *sdev = to_sdev(ibqp->device);
	struct sroce_create_qp_resp resp = {};
	struct sroce_qp *qp = to_sqp(ibqp);
	int err;

	err = check_init(init, udata);
	if (err)
		return err;
	/* what is received with is another's: nothing is asked for here (ibv_create_qp(3)) */
	if (init->srq || init->qp_type == IB_QPT_XRC_INI || init->qp_type == IB_QPT_XRC_TGT)
		init->cap.max_recv_wr = init->cap.max_recv_sge = 0;
	err = check_cap(&init->cap);
	if (err)
		return err;
	if (!sroce_take(&sdev->num_qp, SROCE_MAX_QP))
		return -ENOMEM;

	/* an XRC target belongs to its domain, and to no process: it has no rings */
	qp->ibuc = sroce_udata_context(udata);
	qp->sdev = sdev;
	qp->type = init->qp_type;
	sides_init(qp);
	qp->transport = qp_types[init->qp_type].transport;
	qp->sq_sig_all = init->sq_sig_type == IB_SIGNAL_ALL_WR;
	if (init->qp_type == IB_QPT_RAW_PACKET) {
		err = sroce_raw_create(qp, init, udata);
		if (err)
			goto err_count;
	}
	qp->num = qpn_alloc(qp);
	if (!qp->num) {
		err = -ENOMEM;
		goto err_raw;
	}
	err = queues_create(qp, init, &resp);
	if (err)
		goto err_num;
	qp->attr.cap = init->cap;
	sroce_retry_reset(qp);
	err = sroce_respond(udata, &resp, sizeof(resp));
	if (err)
		goto err_queues;
	err = xa_alloc_cyclic(&sroce_qps, &qp->num->qpn, qp->num, XA_LIMIT(QPN_MIN, QPN_MAX),
			      &sroce_qpn_next, GFP_KERNEL);
	if (err < 0)
		goto err_queues;
	ibqp->qp_num = qp->num->qpn;
	err = gsi_register(qp);
	if (err)
		goto err_table;
	return 0;

err_table:
	qpn_retire(qp->num);
err_queues:
	rq_destroy(qp);
	sq_destroy(qp);
err_num:
	sroce_qpn_put(qp->num);
err_raw:
	sroce_raw_destroy(qp);
err_count:
	atomic_dec(&sdev->num_qp);
	return err;
}

/* Modification */

static int check_attr(const struct sroce_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	if (mask & IB_QP_ALT_PATH ||
	    (mask & IB_QP_PATH_MIG_STATE && attr->path_mig_state != IB_MIG_MIGRATED))
		return -EOPNOTSUPP;
	if ((mask & IB_QP_PKEY_INDEX && attr->pkey_index) ||
	    (mask & IB_QP_PORT && attr->port_num != 1) ||
	    (mask & IB_QP_TIMEOUT && attr->timeout > 31) ||
	    (mask & IB_QP_RETRY_CNT && attr->retry_cnt > 7) ||
	    (mask & IB_QP_RNR_RETRY && attr->rnr_retry > 7) ||
	    (mask & IB_QP_MIN_RNR_TIMER && attr->min_rnr_timer > 31) ||
	    (mask & IB_QP_DEST_QPN && attr->dest_qp_num > IB_QPN_MASK) ||
	    (mask & IB_QP_ACCESS_FLAGS && attr->qp_access_flags & ~IB_ACCESS_SUPPORTED))
		return -EINVAL;
	if (mask & IB_QP_PATH_MTU &&
	    (attr->path_mtu < IB_MTU_256 || attr->path_mtu > sroce_port_mtu(qp->ibqp.device)))
		return -EINVAL;
	return 0;
}

#define KEEP(bit, field)						\
	do {								\
		if (mask & (bit))					\
			qp->attr.field = attr->field;			\
	} while (0)

static void keep_attr(struct sroce_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	KEEP(IB_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
	KEEP(IB_QP_ACCESS_FLAGS, qp_access_flags);
	KEEP(IB_QP_PKEY_INDEX, pkey_index);
	KEEP(IB_QP_PORT, port_num);
	KEEP(IB_QP_QKEY, qkey);
	KEEP(IB_QP_PATH_MTU, path_mtu);
	KEEP(IB_QP_TIMEOUT, timeout);
	KEEP(IB_QP_RETRY_CNT, retry_cnt);
	KEEP(IB_QP_RNR_RETRY, rnr_retry);
	KEEP(IB_QP_MIN_RNR_TIMER, min_rnr_timer);
	KEEP(IB_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	KEEP(IB_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	KEEP(IB_QP_DEST_QPN, dest_qp_num);
	KEEP(IB_QP_RQ_PSN, rq_psn);
	KEEP(IB_QP_SQ_PSN, sq_psn);
	KEEP(IB_QP_RATE_LIMIT, rate_limit);
	if (mask & IB_QP_AV) {
		qp->attr.ah_attr = attr->ah_attr;
		/* the core keeps the reference on the GID, not we */
		qp->attr.ah_attr.grh.sgid_attr = NULL;
	}
}
#undef KEEP

static void set_path(struct sroce_path *to, const struct sroce_path *path)
{
	sroce_path_release(to);
	*to = *path;
}

/* Those that every message looks at: see struct sroce_qp */
static void copy_attr(struct sroce_qp *qp)
{
	qp->dqpn = qp->attr.dest_qp_num;
	qp->access = qp->attr.qp_access_flags;
	qp->timeout = qp->attr.timeout;
	qp->retry_cnt = qp->attr.retry_cnt;
	qp->rnr_retry = qp->attr.rnr_retry;
}

/* From the attributes to what the two sides use. Both are locked. */
static void apply_attr(struct sroce_qp *qp, const struct ib_qp_attr *attr, int mask,
		       const struct sroce_path *path)
{
	struct sroce_sq *sq = &qp->sq;

	if (mask & IB_QP_PATH_MTU)
		WRITE_ONCE(qp->mtu, ib_mtu_enum_to_int(attr->path_mtu));
	copy_attr(qp);
	if (mask & IB_QP_AV) {
		set_path(&sq->path, path);
		set_path(&qp->rq.path, path);
	}
	if (mask & IB_QP_RQ_PSN) {
		qp->rq.epsn = attr->rq_psn & WIRE_PSN_MASK;
		qp->rq.ack_psn = wire_psn_add(qp->rq.epsn, -1);
		qp->rq.ack_stale = false;
	}
	if (mask & IB_QP_SQ_PSN) {
		sq->psn_una = attr->sq_psn & WIRE_PSN_MASK;
		sq->psn_nxt = sq->psn_una;
		sq->psn_end = sq->psn_una;
		sq->psn_left = sq->psn_una;
		sroce_gaps_reset(qp);
		sroce_cwnd_reset(qp);
	}
	if (mask & IB_QP_TIMEOUT)
		sq->cwnd.timeouts = 0;
	if (mask & (IB_QP_RETRY_CNT | IB_QP_RNR_RETRY | IB_QP_TIMEOUT))
		sroce_retry_progress(qp);
}

/**
 * sroce_ring_reset - as in a new ring
 * @q: of a side whose lock is held; one without a ring is fine
 */
void sroce_ring_reset(struct sroce_queue *q)
{
	if (!q->ring)
		return;
	WRITE_ONCE(q->ring->prod, 0);
	WRITE_ONCE(q->ring->cons, 0);
	WRITE_ONCE(q->ring->flags, 0);
}

static void enter_reset(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;

	sroce_path_release(&sq->path);
	sroce_path_release(&qp->rq.path);
	memset(&sq->path, 0, sizeof(sq->path));
	memset(&qp->rq.path, 0, sizeof(qp->rq.path));
	/* a frame's is for ever (raw.c) */
	if (qp->type != IB_QPT_RAW_PACKET)
		no_peer(qp);

	sq->una = 0;
	sq->nxt = 0;
	sq->fetched = 0;
	sq->newest = 0;
	sq->by_key = -1;
	sq->stream.lingers = false;
	sq->asleep = false;
	WRITE_ONCE(sq->stream.streak, 0);
	sq->stream.vain = 0;
	sq->psn_una = 0;
	sq->psn_nxt = 0;
	sq->psn_end = 0;
	sq->psn_left = 0;
	sq->flight = 0;
	sq->num_rd = 0;
	sq->unasked = 0;
	sq->broken = false;
	sq->sge = 0;
	sq->sge_off = 0;
	spin_lock(&sq->late_lock);
	sroce_late_purge(&sq->late, &sq->num_late);
	spin_unlock(&sq->late_lock);
	sroce_retry_reset(qp);
	sroce_recv_reset(qp);
	sroce_ring_reset(&sq->q);
	sroce_ring_reset(&qp->rq.q);
	qp->comm_est = false;
	qp->last_wqe = false;
	qp->attr = (struct ib_qp_attr) { .cap = qp->attr.cap };
	copy_attr(qp);
}

static void enter_rts(struct sroce_qp *qp)
{
	/* the first post has to find somebody awake */
	if (qp->sq.q.ring)
		WRITE_ONCE(qp->sq.q.ring->flags, SROCE_RING_NEED_WAKEUP);
}

static void enter_err(struct sroce_qp *qp)
{
	end_answers(&qp->rq);
	sroce_recv_flush(qp);
}

static void enter_sqd(struct sroce_qp *qp)
{
	qp->sq.drained = false;
	/* what waited for a route has not begun: it does not fail now, and has all retries then */
	if (!sroce_send_draining(qp))
		sroce_retry_progress(qp);
}

/*
 * What a state does on being entered; both sides are locked. Which state may
 * follow which, and with what attributes, is in the core's table of IBTA
 * Vol.1 table 91, ib_modify_qp_is_ok().
 */
static void (*const enter_state[])(struct sroce_qp *qp) = {
	[IB_QPS_RESET] = enter_reset,
	[IB_QPS_RTS] = enter_rts,
	[IB_QPS_SQD] = enter_sqd,
	[IB_QPS_ERR] = enter_err,
};

static void set_state(struct sroce_qp *qp, enum ib_qp_state next)
{
	if (qp->state == next && next != IB_QPS_RESET)
		return;
	trace_sroce_state(qp, qp->state, next);
	WRITE_ONCE(qp->state, next);
	if (next < ARRAY_SIZE(enter_state) && enter_state[next])
		enter_state[next](qp);
}

/*
 * In SQD, requests of the peer may still be to be answered, or come again: the newest
 * stay, as many as there is room for. Return: the old ones, to be freed.
 */
static struct sroce_res *set_resources(struct sroce_qp *qp, struct sroce_res *res, u32 num)
{
	struct sroce_rq *rq = &qp->rq;
	u32 i = rq->num_res - min3(rq->num_res, rq->max_res, num);
	u32 n = 0;

	rq->num_owed = 0;
	for (; i != rq->num_res; i++) {
		res[n] = rq->res[i % rq->max_res];
		rq->num_owed += res[n++].owed;
	}
	rq->num_res = n;
	rq->first_owed = 0;
	swap(rq->res, res);
	rq->max_res = num;
	return res;
}

/*
 * A power of two, as others have it: who was told 10 by its program, as we were by ours, has up to
 * 16 READs under way (mlx5's and mlx4's log_sra_max, rdma_rxe), and none of these is one too many.
 */
static u32 resources(u8 max_dest_rd_atomic)
{
	return max_dest_rd_atomic ? roundup_pow_of_two(max_dest_rd_atomic) : 0;
}

/* @burst: as in struct sroce_modify_qp. Return: 0, an errno; -EAGAIN if the state has changed. */
static int modify_locked(struct sroce_qp *qp, const struct ib_qp_attr *attr, int mask, u32 burst)
{
	enum ib_qp_state cur = READ_ONCE(qp->state);
	enum ib_qp_state next = mask & IB_QP_STATE ? attr->qp_state : cur;
	struct sroce_res *res = NULL;
	struct sroce_path path;
	enum ib_mtu path_mtu;
	u32 port_mtu, num_res;
	int err;

	if (mask & IB_QP_CUR_STATE && attr->cur_qp_state != cur)
		return -EINVAL;
	/* of raw packets alone there, and of other devices' queue pairs by their drivers */
	if (!ib_modify_qp_is_ok(cur, next, qp->ibqp.qp_type, mask & ~IB_QP_RATE_LIMIT))
		return -EINVAL;
	if (mask & IB_QP_RATE_LIMIT && (next != IB_QPS_RTS || !qp->sq.q.ring))
		return -EINVAL;
	err = check_attr(qp, attr, mask);
	if (err)
		return err;
	if (mask & IB_QP_AV) {
		/*
		 * Who says 106 means the DSCP, and not that acknowledgements are ECT, which are not
		 * paced (RFC 3168, section 6.1.4): data packets are (sroce_burst_ect()).
		 */
		err = sroce_path_init(&path, &attr->ah_attr, qp->num->qpn,
				      mask & IB_QP_DEST_QPN ? attr->dest_qp_num : qp->dqpn,
				      qp_reliable(qp) ? INET_ECN_MASK : 0);
		if (err)
			return err;
		/* in SQD, the address changes alone, and may be one of another netdev */
		path_mtu = mask & IB_QP_PATH_MTU ? attr->path_mtu : qp->attr.path_mtu;
		if (path_mtu > sroce_path_mtu(&attr->ah_attr))
			return -EINVAL;
	}

	num_res = mask & IB_QP_MAX_DEST_RD_ATOMIC ? resources(attr->max_dest_rd_atomic) : 0;
	if (num_res) {
		res = kvcalloc(num_res, sizeof(*res), GFP_KERNEL_ACCOUNT);
		if (!res)
			return -ENOMEM;
	}

	/* the core's lock that this takes is not for softirqs, as ours are */
	port_mtu = ib_mtu_enum_to_int(sroce_port_mtu(qp->ibqp.device));
	if (next == IB_QPS_RESET)
		sroce_resp_settle(qp);
	claim_both(qp);
	/* the data path may have moved it to ERR meanwhile */
	if (qp->state == cur) {
		/* asked for each time, as hardware has it */
		if (cur == IB_QPS_RTS && next == IB_QPS_SQD)
			qp->attr.en_sqd_async_notify = 0;
		keep_attr(qp, attr, mask);
		/* a datagram has no path MTU of its own */
		if (qp->transport == WIRE_UD && next == IB_QPS_RTR)
			WRITE_ONCE(qp->mtu, port_mtu);
		apply_attr(qp, attr, mask, &path);
		if (mask & IB_QP_MAX_DEST_RD_ATOMIC)
			res = set_resources(qp, res, num_res);
		if (mask & IB_QP_RATE_LIMIT)
			sroce_retry_cap(qp, attr->rate_limit, burst);
		if (mask & IB_QP_STATE)
			set_state(qp, next);
	} else {
		err = -EAGAIN;
	}
	release_both(qp);
	kvfree(res);
	return err;
}

/* Paging for what is forgotten: its outcome must not be taken for another's. */
static void settle_faults(struct sroce_qp *qp)
{
	flush_work(&qp->sq.fault.work);
	flush_work(&qp->rq.fault.work);
	flush_work(&qp->rq.resp_fault.work);
	claim_both(qp);
	clear_bit(SROCE_SQ_FAULT, &qp->sq.flags);
	qp->sq.fault.active = false;
	qp->sq.fault.err = 0;
	qp->sq.missed = false;
	qp->rq.fault.err = 0;
	qp->rq.resp_fault.err = 0;
	release_both(qp);
}

/* A program's library sees to its own. */
static void forget_in(struct sroce_qp *qp, struct ib_cq *ibcq)
{
	if (!ibcq)
		return;
	if (qp->ibuc)
		sroce_cq_shrinks(to_scq(ibcq));
	else
		sroce_cq_forget(to_scq(ibcq), qp->num->qpn);
}

static void forget_completions(struct sroce_qp *qp)
{
	struct ib_qp *ibqp = &qp->ibqp;

	forget_in(qp, ibqp->send_cq);
	if (ibqp->recv_cq != ibqp->send_cq)
		forget_in(qp, ibqp->recv_cq);
}

/**
 * sroce_modify_qp - ib_device_ops: change a queue pair's state or attributes
 * @ibqp: the queue pair
 * @attr: new values
 * @mask: which of them count
 * @udata: no driver data; with IB_QP_RATE_LIMIT, struct sroce_modify_qp or none
 *
 * Return: 0 or an errno, with nothing changed.
 */
int sroce_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		    struct ib_udata *udata)
{
	struct sroce_qp *qp = to_sqp(ibqp);
	struct sroce_modify_qp req = {};
	int err;

	if (mask & ~(IB_QP_ATTR_STANDARD_BITS | IB_QP_RATE_LIMIT) || qp->rss)
		return -EOPNOTSUPP;
	if (mask & IB_QP_RATE_LIMIT) {
		err = sroce_request(udata, &req, sizeof(req));
		if (!err && req.reserved)
			err = -EINVAL;
		if (!err)
			err = sroce_respond(udata, NULL, 0);
	} else {
		err = sroce_no_udata(udata);
	}
	if (err)
		return err;

	mutex_lock(&qp->mutex);
	/* the state was another by then: is it still allowed? */
	do {
		err = modify_locked(qp, attr, mask, req.max_burst);
	} while (err == -EAGAIN);
	/* the port's may have changed since it was asked for, and qp_mtu() have found no RTR */
	if (!err && mask & IB_QP_STATE && attr->qp_state == IB_QPS_RTR)
		qp_mtu(qp);
	if (!err && mask & IB_QP_STATE && attr->qp_state == IB_QPS_RESET) {
		settle_faults(qp);
		forget_completions(qp);
	}
	mutex_unlock(&qp->mutex);
	return err;
}

/*
 * The core may ask for others (nldev) about a queue pair that is being destroyed: then there is
 * nothing to claim, which could leave work behind.
 */
static bool still_draining(struct sroce_qp *qp)
{
	struct sroce_qpn *num;
	bool draining;

	rcu_read_lock();
	num = READ_ONCE(qp->num);
	if (num && !sroce_qpn_use(num))
		num = NULL;
	rcu_read_unlock();
	if (!num)
		return false;
	sroce_send_claim(qp);
	draining = sroce_send_draining(qp);
	sroce_send_release(qp);
	sroce_qpn_unuse(num);
	return draining;
}

/**
 * sroce_query_qp - ib_device_ops: what a queue pair has been set to, and the PSNs it is at
 * @ibqp: the queue pair
 * @attr: filled in, whatever @mask says
 * @mask: what is asked for
 * @init: filled in
 *
 * Return: 0.
 */
int sroce_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_qp_init_attr *init)
{
	struct sroce_qp *qp = to_sqp(ibqp);

	/* without the mutex: who goes to RESET has it until its memory has come */
	spin_lock_bh(&qp->rq.lock);
	*attr = qp->attr;
	attr->qp_state = qp->state;
	attr->rq_psn = qp->rq.epsn;
	spin_unlock_bh(&qp->rq.lock);
	/* of the next new packet: what is sent again goes back with psn_nxt */
	attr->sq_psn = READ_ONCE(qp->sq.psn_end);
	attr->cur_qp_state = attr->qp_state;
	attr->path_mig_state = IB_MIG_MIGRATED;
	if (attr->qp_state == IB_QPS_SQD)
		attr->sq_draining = still_draining(qp);

	init->event_handler = ibqp->event_handler;
	init->qp_context = ibqp->qp_context;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->srq = ibqp->srq;
	init->cap = attr->cap;
	init->sq_sig_type = qp->sq_sig_all ? IB_SIGNAL_ALL_WR : IB_SIGNAL_REQ_WR;
	init->qp_type = ibqp->qp_type;
	return 0;
}

static void to_reset(struct sroce_qp *qp)
{
	sroce_resp_settle(qp);
	claim_both(qp);
	set_state(qp, IB_QPS_RESET);
	release_both(qp);
}

/**
 * sroce_destroy_qp - ib_device_ops: end a queue pair
 * @ibqp: the queue pair
 * @udata: no driver data
 *
 * First what it sends with, then its number, then who uses that, then what could wake it. skbs that
 * the stack still has keep the number's memory and nothing else.
 *
 * Return: 0.
 */
int sroce_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct sroce_dev *sdev = to_sdev(ibqp->device);
	struct sroce_qp *qp = to_sqp(ibqp);
	struct sroce_qpn *num = qp->num;

	gsi_unregister(qp);
	/*
	 * In RESET, no turn does anything or arms the timer. While memory is brought for it, which may
	 * take for ever, its netdev may go (sroce_qp_gone_all()), and the namespace that its routes
	 * are of: they are let go as long as it can be found, or before anybody waits.
	 */
	to_reset(qp);
	qpn_retire(num);
	/* what has come to wait for that memory meanwhile */
	to_reset(qp);
	hrtimer_cancel(&qp->sq.timer);
	hrtimer_cancel(&qp->sq.linger);
	timer_delete_sync(&qp->sq.watch);
	sroce_pace_exit(qp);
	sroce_task_kill(&qp->sq.task);
	sroce_task_kill(&qp->rq.task);

	forget_completions(qp);
	rq_destroy(qp);
	sq_destroy(qp);
	sroce_raw_destroy(qp);
	WRITE_ONCE(qp->num, NULL);
	sroce_qpn_put(num);
	atomic_dec(&sdev->num_qp);
	return 0;
}
