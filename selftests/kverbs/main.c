// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A consumer in the kernel: every verb of kverbs.c between the links roce0 and
 * roce1, which kverbs.sh makes. The results are in the kernel's log.
 */
#include <linux/delay.h>
#include <linux/in6.h>
#include <linux/inet.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <net/ipv6.h>
#include <rdma/ib_cache.h>

#include "kverbs_test.h"

MODULE_DESCRIPTION("Test of a kernel consumer");
MODULE_LICENSE("Dual BSD/GPL");

static bool irq_poll = true;
module_param(irq_poll, bool, 0);
MODULE_PARM_DESC(irq_poll, "with completions in a softirq, too");

#define ROUNDS	1000
#define QKEY	0x1234
/* An emulated CPU that others use as well */
#define PATIENCE	(120 * HZ)

struct side sides[2];
unsigned int failed;

static void op_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct op *op = container_of(wc->wr_cqe, struct op, cqe);

	op->wc = *wc;
	complete(&op->done);
}

void op_init(struct op *op)
{
	op->cqe.done = op_done;
	init_completion(&op->done);
	op->wc.status = IB_WC_GENERAL_ERR;
}

/* Nobody but us polls a queue that is polled directly. */
bool wait_done(struct completion *done)
{
	const unsigned long end = jiffies + PATIENCE;
	int i;

	if (sides[0].cq->poll_ctx != IB_POLL_DIRECT)
		return wait_for_completion_timeout(done, PATIENCE);
	while (!try_wait_for_completion(done)) {
		if (time_after(jiffies, end))
			return false;
		for (i = 0; i < 2; i++)
			ib_process_cq_direct(sides[i].cq, -1);
		cond_resched();
	}
	return true;
}

bool op_wait(struct op *op, enum ib_wc_status status)
{
	if (!wait_done(&op->done)) {
		pr_info("kverbs: # no completion\n");
		return false;
	}
	if (op->wc.status != status)
		pr_info("kverbs: # status %d, vendor_err 0x%x\n", op->wc.status,
			op->wc.vendor_err);
	return op->wc.status == status;
}

struct ib_sge sge(struct side *s, u32 off, u32 len)
{
	return (struct ib_sge) {
		.addr = (uintptr_t)s->buf + off,
		.length = len,
		.lkey = s->pd->local_dma_lkey,
	};
}

/* A WRITE of @list to the other side's buffer */
struct ib_rdma_wr write_to(struct side *to, struct ib_sge *list, u32 rkey)
{
	return (struct ib_rdma_wr) {
		.wr = { .opcode = IB_WR_RDMA_WRITE, .sg_list = list, .num_sge = 1 },
		.remote_addr = (uintptr_t)to->buf,
		.rkey = rkey,
	};
}

int post_recv(struct side *s, u32 off, u32 len)
{
	struct ib_sge list = sge(s, off, len);
	struct ib_recv_wr wr = { .wr_cqe = &s->recv.cqe, .sg_list = &list, .num_sge = 1 };

	op_init(&s->recv);
	return s->srq ? ib_post_srq_recv(s->srq, &wr, NULL) : ib_post_recv(s->qp, &wr, NULL);
}

int post(struct side *s, struct ib_send_wr *wr)
{
	op_init(&s->send);
	wr->wr_cqe = &s->send.cqe;
	wr->send_flags |= IB_SEND_SIGNALED;
	return ib_post_send(s->qp, wr, NULL);
}

void fill(void)
{
	u32 i;

	for (i = 0; i < SIZE; i++) {
		sides[0].buf[i] = pattern(i);
		sides[1].buf[i] = 0xee;
	}
}

static struct rdma_ah_attr ah_attr(struct side *s, struct side *peer)
{
	struct rdma_ah_attr attr = { .type = RDMA_AH_ATTR_TYPE_ROCE };

	rdma_ah_set_grh(&attr, &peer->gid, 0, s->gid_attr->index, 64, 0);
	rdma_ah_set_port_num(&attr, 1);
	return attr;
}

int to_init(struct side *s)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = 1,
		.qkey = QKEY,
		.qp_access_flags = IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ |
				   IB_ACCESS_REMOTE_ATOMIC | IB_ACCESS_LOCAL_WRITE,
	};
	int mask = IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT;

	mask |= s->qp->qp_type == IB_QPT_UD ? IB_QP_QKEY : IB_QP_ACCESS_FLAGS;
	return ib_modify_qp(s->qp, &attr, mask);
}

int to_rtr(struct side *s, struct side *peer)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTR,
		.path_mtu = IB_MTU_1024,
		.dest_qp_num = peer->qp->qp_num,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
	};
	int mask = IB_QP_STATE;

	attr.ah_attr = ah_attr(s, peer);
	if (s->qp->qp_type != IB_QPT_UD)
		mask |= IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN;
	if (s->qp->qp_type == IB_QPT_RC)
		mask |= IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER;
	return ib_modify_qp(s->qp, &attr, mask);
}

int to_rts(struct side *s)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTS,
		.max_rd_atomic = 4,
		.timeout = 16,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};
	int mask = IB_QP_STATE | IB_QP_SQ_PSN;

	if (s->qp->qp_type == IB_QPT_RC)
		mask |= IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY |
			IB_QP_MAX_QP_RD_ATOMIC;
	return ib_modify_qp(s->qp, &attr, mask);
}

int make_qp(struct side *s, enum ib_qp_type type)
{
	struct ib_qp_init_attr init = {
		.event_handler = qp_event,
		.qp_context = s,
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.srq = s->srq,
		.cap = { DEPTH, s->srq ? 0 : DEPTH, 3, 1, 128 },
		.qp_type = type,
		.sq_sig_type = s->signal_all ? IB_SIGNAL_ALL_WR : IB_SIGNAL_REQ_WR,
		.port_num = 1,
	};

	init.cap.max_rdma_ctxs = s->rdma_ctxs;
	s->qp = ib_create_qp(s->pd, &init);
	return PTR_ERR_OR_ZERO(s->qp);
}

static int side_up(struct side *s, const char *ip, enum ib_poll_context poll)
{
	__be32 addr = in_aton(ip);

	ipv6_addr_set_v4mapped(addr, (struct in6_addr *)&s->gid);
	s->gid_attr = rdma_find_gid(s->dev, &s->gid, IB_GID_TYPE_ROCE_UDP_ENCAP, NULL);
	if (IS_ERR(s->gid_attr))
		return PTR_ERR(s->gid_attr);
	s->pd = ib_alloc_pd(s->dev, IB_PD_UNSAFE_GLOBAL_RKEY);
	s->cq = ib_alloc_cq(s->dev, NULL, 1024, 0, poll);
	s->buf = kvzalloc(SIZE, GFP_KERNEL);
	return IS_ERR(s->pd) || IS_ERR(s->cq) || !s->buf ? -ENOMEM : 0;
}

static void side_down(struct side *s)
{
	kvfree(s->buf);
	ib_free_cq(s->cq);
	ib_dealloc_pd(s->pd);
	rdma_put_gid_attr(s->gid_attr);
}

int pair_up(enum ib_qp_type type)
{
	int i, err = 0;

	for (i = 0; i < 2 && !err; i++) {
		err = make_qp(&sides[i], type);
		if (!err)
			err = to_init(&sides[i]);
	}
	for (i = 0; i < 2 && !err; i++)
		err = to_rtr(&sides[i], &sides[!i]) ?: to_rts(&sides[i]);
	return err;
}

void pair_down(void)
{
	int i;

	for (i = 0; i < 2; i++)
		ib_drain_qp(sides[i].qp);
	for (i = 0; i < 2; i++)
		ib_destroy_qp(sides[i].qp);
}

void test_send(struct side *a, struct side *b)
{
	struct ib_sge list[3] = { sge(a, 0, 5000), sge(a, 5000, 1), sge(a, 5001, 4999) };
	struct ib_send_wr wr = { .opcode = IB_WR_SEND, .sg_list = list, .num_sge = 3 };
	u8 small[100];

	fill();
	post_recv(b, 0, SIZE);
	ok(!post(a, &wr) && op_wait(&a->send, IB_WC_SUCCESS) &&
	   op_wait(&b->recv, IB_WC_SUCCESS) && b->recv.wc.byte_len == 10000 &&
	   b->recv.wc.opcode == IB_WC_RECV && b->recv.wc.qp == b->qp &&
	   a->send.wc.opcode == IB_WC_SEND && a->send.wc.qp == a->qp &&
	   !memcmp(a->buf, b->buf, 10000), "SEND of three pieces");

	memset(small, 0x5a, sizeof(small));
	list[0].addr = (uintptr_t)small;
	list[0].length = 37;
	list[1].addr = (uintptr_t)small + 37;
	list[1].length = 63;
	wr.num_sge = 2;
	wr.opcode = IB_WR_SEND_WITH_IMM;
	wr.ex.imm_data = cpu_to_be32(0x12345678);
	wr.send_flags = IB_SEND_INLINE;
	post_recv(b, 0, SIZE);
	ok(!post(a, &wr) && op_wait(&b->recv, IB_WC_SUCCESS) && b->recv.wc.byte_len == 100 &&
	   b->recv.wc.wc_flags == IB_WC_WITH_IMM &&
	   b->recv.wc.ex.imm_data == cpu_to_be32(0x12345678) &&
	   !memcmp(small, b->buf, 100) && op_wait(&a->send, IB_WC_SUCCESS),
	   "inline, immediate data");
}

/* The peer of an unreliable connection says nothing: what comes behind tells that it is there. */
bool tell(struct side *a, struct side *b)
{
	struct ib_send_wr wr = { .opcode = IB_WR_SEND };

	return !post_recv(b, 0, 0) && !post(a, &wr) && op_wait(&a->send, IB_WC_SUCCESS) &&
	       op_wait(&b->recv, IB_WC_SUCCESS);
}

static bool is_clear(struct side *s, u32 len)
{
	return s->buf[0] == 0xee && !memcmp(s->buf, s->buf + 1, len - 1);
}

/* Every byte of a WRITE arrives, and the data beside it. */
static bool write_imm(struct side *a, struct side *b, struct ib_rdma_wr wr, u32 imm)
{
	const u32 len = wr.wr.sg_list->length;

	wr.wr.opcode = IB_WR_RDMA_WRITE_WITH_IMM;
	wr.wr.ex.imm_data = cpu_to_be32(imm);
	fill();
	post_recv(b, 0, 0);
	return !post(a, &wr.wr) && op_wait(&b->recv, IB_WC_SUCCESS) &&
	       b->recv.wc.opcode == IB_WC_RECV_RDMA_WITH_IMM && b->recv.wc.byte_len == len &&
	       b->recv.wc.ex.imm_data == cpu_to_be32(imm) && op_wait(&a->send, IB_WC_SUCCESS) &&
	       !memcmp(a->buf, b->buf, len);
}

/* Each request completes, whether it asks for that or not. */
static void test_signal_all(struct side *a, struct side *b)
{
	struct ib_sge list = sge(a, 0, 40000);
	struct ib_rdma_wr wr = write_to(b, &list, b->pd->unsafe_global_rkey);
	int err;

	a->signal_all = true;
	err = pair_up(IB_QPT_RC);
	a->signal_all = false;
	if (err) {
		ok(false, "RC, of which all is signaled");
		return;
	}
	fill();
	op_init(&a->send);
	wr.wr.wr_cqe = &a->send.cqe;
	ok(!ib_post_send(a->qp, &wr.wr, NULL) && op_wait(&a->send, IB_WC_SUCCESS) &&
	   a->send.wc.opcode == IB_WC_RDMA_WRITE && !memcmp(a->buf, b->buf, 40000),
	   "a WRITE that does not ask for its completion");
	pair_down();
}

/* 40,000 bytes at a million a second, less the last packets, whose time comes after them */
static void test_rate(struct side *a, struct side *b)
{
	struct ib_qp_attr attr = { .rate_limit = 8000 };
	struct ib_sge list = sge(a, 0, 40000);
	struct ib_rdma_wr wr = write_to(b, &list, b->pd->unsafe_global_rkey);
	ktime_t begin;

	fill();
	ok(!ib_modify_qp(a->qp, &attr, IB_QP_RATE_LIMIT), "a rate");
	begin = ktime_get();
	ok(!post(a, &wr.wr) && op_wait(&a->send, IB_WC_SUCCESS) && !memcmp(a->buf, b->buf, 40000),
	   "a WRITE with it");
	ok(ktime_ms_delta(ktime_get(), begin) >= 35, "which takes its time");
}

static void test_uc(struct side *a, struct side *b)
{
	struct ib_sge list = sge(a, 0, 40000);
	struct ib_rdma_wr wr = write_to(b, &list, b->pd->unsafe_global_rkey);

	if (pair_up(IB_QPT_UC)) {
		ok(false, "UC");
		return;
	}
	test_send(a, b);
	fill();
	ok(!post(a, &wr.wr) && op_wait(&a->send, IB_WC_SUCCESS) && tell(a, b) &&
	   a->send.wc.opcode == IB_WC_SEND && !memcmp(a->buf, b->buf, 40000), "UC: WRITE");
	ok(write_imm(a, b, wr, 98), "UC: WRITE with immediate data");
	wr.rkey = b->pd->local_dma_lkey;
	fill();
	ok(!post(a, &wr.wr) && op_wait(&a->send, IB_WC_SUCCESS) && tell(a, b) &&
	   is_clear(b, SIZE), "UC: WRITE by what is no remote key is dropped");
	wr.wr.opcode = IB_WR_RDMA_READ;
	ok(!post(a, &wr.wr) && op_wait(&a->send, IB_WC_LOC_QP_OP_ERR), "UC: no READ");
	pair_down();
}

/* Memory of the process that loads this, on demand, in a consumer's domain, as RDS has it. */
static void test_on_demand(struct side *a, struct side *b)
{
	struct ib_sge list = sge(a, 0, SIZE);
	struct ib_rdma_wr wr = {
		.wr = { .opcode = IB_WR_RDMA_WRITE, .sg_list = &list, .num_sge = 1 },
	};
	unsigned long addr;
	struct ib_mr *mr;

	if (!(b->dev->attrs.kernel_cap_flags & IBK_ON_DEMAND_PAGING))
		return;
	addr = vm_mmap(NULL, 0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, 0);
	if (IS_ERR_VALUE(addr)) {
		ok(false, "vm_mmap");
		return;
	}
	mr = ib_reg_user_mr(b->pd, addr, SIZE, addr, IB_ACCESS_LOCAL_WRITE |
			    IB_ACCESS_REMOTE_WRITE | IB_ACCESS_ON_DEMAND);
	if (IS_ERR(mr)) {
		ok(false, "an on-demand region");
	} else {
		fill();
		wr.remote_addr = addr;
		wr.rkey = mr->rkey;
		ok(!post(a, &wr.wr) && op_wait(&a->send, IB_WC_SUCCESS),
		   "WRITE to what comes on demand");
		ok(!copy_from_user(b->buf, (void __user *)addr, SIZE) &&
		   !memcmp(a->buf, b->buf, SIZE), "every byte");
		ok(!ib_dereg_mr(mr), "deregistered");
	}
	vm_munmap(addr, SIZE);
}

static void test_atomic(struct side *a, struct side *b)
{
	/* a global rkey is good for READ and WRITE alone */
	struct ib_mr *mr = b->dev->ops.get_dma_mr(b->pd, IB_ACCESS_LOCAL_WRITE |
							 IB_ACCESS_REMOTE_ATOMIC);
	struct ib_sge list = sge(a, 0, 8);
	struct ib_atomic_wr atomic = {
		.wr = { .opcode = IB_WR_ATOMIC_FETCH_AND_ADD, .sg_list = &list, .num_sge = 1 },
		.remote_addr = (uintptr_t)b->buf,
		.compare_add = 5,
	};
	u64 *there = (u64 *)b->buf, *here = (u64 *)a->buf;

	if (IS_ERR(mr)) {
		ok(false, "get_dma_mr");
		return;
	}
	atomic.rkey = mr->rkey;
	*there = 37;
	ok(!post(a, &atomic.wr) && op_wait(&a->send, IB_WC_SUCCESS) && *here == 37 &&
	   *there == 42 && a->send.wc.opcode == IB_WC_FETCH_ADD, "FETCH_ADD");
	atomic.wr.opcode = IB_WR_ATOMIC_CMP_AND_SWP;
	atomic.compare_add = 42;
	atomic.swap = 7;
	ok(!post(a, &atomic.wr) && op_wait(&a->send, IB_WC_SUCCESS) && *here == 42 &&
	   *there == 7 && a->send.wc.opcode == IB_WC_COMP_SWAP, "CMP_SWP");

	atomic.wr.opcode = IB_WR_MASKED_ATOMIC_CMP_AND_SWP;
	atomic.compare_add = 7;
	atomic.swap = 11;
	atomic.compare_add_mask = ~0ULL;
	atomic.swap_mask = ~0ULL;
	ok(!post(a, &atomic.wr) && op_wait(&a->send, IB_WC_SUCCESS) && *here == 7 &&
	   *there == 11 && a->send.wc.opcode == IB_WC_COMP_SWAP, "CMP_SWP of a whole mask");
	atomic.swap_mask = 0xff;
	ok(post(a, &atomic.wr) == -EOPNOTSUPP, "of a part of it");
	atomic.wr.opcode = IB_WR_MASKED_ATOMIC_FETCH_AND_ADD;
	atomic.compare_add = ~0ULL;
	atomic.compare_add_mask = 0;
	ok(!post(a, &atomic.wr) && op_wait(&a->send, IB_WC_SUCCESS) && *here == 11 &&
	   *there == 10 && a->send.wc.opcode == IB_WC_FETCH_ADD, "FETCH_ADD of one field");
	atomic.compare_add_mask = 1ULL << 31;
	ok(post(a, &atomic.wr) == -EOPNOTSUPP && *there == 10, "of two fields");
	mr->device = b->dev;
	ok(!b->dev->ops.dereg_mr(mr, NULL), "dereg_mr");
}

static void test_rdma(struct side *a, struct side *b)
{
	struct ib_sge list = sge(a, 0, 40000);
	struct ib_rdma_wr wr = write_to(b, &list, b->pd->unsafe_global_rkey);

	fill();
	ok(!post(a, &wr.wr) && op_wait(&a->send, IB_WC_SUCCESS) &&
	   a->send.wc.opcode == IB_WC_RDMA_WRITE && !memcmp(a->buf, b->buf, 40000), "WRITE");
	memset(a->buf, 0, SIZE);
	wr.wr.opcode = IB_WR_RDMA_READ;
	ok(!post(a, &wr.wr) && op_wait(&a->send, IB_WC_SUCCESS) &&
	   a->send.wc.opcode == IB_WC_RDMA_READ && !memcmp(a->buf, b->buf, 40000), "READ");
	/* IB_WR_ATOMIC_WRITE and IB_WC_ATOMIC_WRITE, since Linux 6.2 */
	wr.wr.opcode = 15;
	list.length = 8;
	*(u64 *)a->buf = 0x0123456789abcdefULL;
	ok(!post(a, &wr.wr) && op_wait(&a->send, IB_WC_SUCCESS) && a->send.wc.opcode == 9 &&
	   !memcmp(a->buf, b->buf, 40000), "ATOMIC WRITE");
	list.length = 40000;
	ok(write_imm(a, b, wr, 99), "WRITE with immediate data");
}

/* Post as it is, when there is room: another processor may still be at the requests before. */
static int post_patiently(struct side *s, struct ib_send_wr *wr)
{
	int err;

	while ((err = ib_post_send(s->qp, wr, NULL)) == -ENOMEM)
		usleep_range(50, 100);
	return err;
}

/* Requests that make no completion have to give their places back. */
static void test_unsignaled(struct side *a, struct side *b)
{
	struct ib_sge list = sge(a, 0, 100);
	struct ib_rdma_wr wr = write_to(b, &list, b->pd->unsafe_global_rkey);
	int i, err = 0;

	fill();
	for (i = 0; i < ROUNDS && !err; i++)
		err = post_patiently(a, &wr.wr);
	op_init(&a->send);
	wr.wr.wr_cqe = &a->send.cqe;
	wr.wr.send_flags = IB_SEND_SIGNALED;
	ok(!err && !post_patiently(a, &wr.wr) && op_wait(&a->send, IB_WC_SUCCESS) &&
	   !memcmp(a->buf, b->buf, 100), "requests without completions");
}

struct pong {
	struct ib_cqe cqe;
	struct side *from;
	spinlock_t lock;
	int left;
	struct completion done;
	struct delayed_work again;
};

static struct pong pong;

static int pong_recv(struct side *s)
{
	struct ib_sge list = sge(s, 0, 64);
	struct ib_recv_wr recv = { .wr_cqe = &pong.cqe, .sg_list = &list, .num_sge = 1 };

	return ib_post_recv(s->qp, &recv, NULL);
}

static int pong_send(struct side *s)
{
	struct ib_sge list = sge(s, 0, 64);
	struct ib_send_wr wr = { .opcode = IB_WR_SEND, .sg_list = &list, .num_sge = 1 };

	return ib_post_send(s->qp, &wr, NULL);
}

/*
 * The peer may answer before it acknowledges, as often as it likes while the processor that
 * is about to is stopped: then the queue is full.
 */
static void pong_post(struct side *s, bool again)
{
	unsigned long flags;
	int err;

	pong.from = s;
	/* as ib_mad does: interrupts off, and a lock that the handler takes */
	spin_lock_irqsave(&pong.lock, flags);
	err = (again ? 0 : pong_recv(s)) ?: pong_send(s);
	spin_unlock_irqrestore(&pong.lock, flags);
	if (err == -ENOMEM)
		schedule_delayed_work(&pong.again, 1);
	else if (err)
		complete(&pong.done);
}

static void pong_again(struct work_struct *work)
{
	pong_post(pong.from, true);
}

static void pong_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct side *s = wc->qp == sides[0].qp ? &sides[0] : &sides[1];

	if (wc->status || --pong.left <= 0)
		complete(&pong.done);
	else
		pong_post(s, false);
}

static void test_pong(struct side *a, struct side *b)
{
	pong.cqe.done = pong_done;
	pong.left = ROUNDS;
	spin_lock_init(&pong.lock);
	init_completion(&pong.done);
	INIT_DELAYED_WORK(&pong.again, pong_again);
	ok(!pong_recv(b) && (pong_post(a, false), wait_done(&pong.done)) && pong.left <= 0,
	   "posts by completion handlers");
	cancel_delayed_work_sync(&pong.again);
	if (pong.left > 0)
		pr_info("kverbs: # %d are left\n", pong.left);
}

/*
 * Others of the same completion queues come and go meanwhile, and its events wait for more: what
 * a queue pair leaves when it goes, nobody else's is lost with.
 */
static void test_shared(struct side *a, struct side *b)
{
	const unsigned long end = jiffies + PATIENCE;
	struct side other = *a;
	u32 num = 0;
	int i;

	if (a->cq->poll_ctx == IB_POLL_DIRECT)
		return;
	for (i = 0; i < 2; i++)
		rdma_set_cq_moderation(sides[i].cq, 100, 200);
	pong.left = ROUNDS;
	init_completion(&pong.done);
	if (pong_recv(b)) {
		ok(false, "post_recv");
		return;
	}
	pong_post(a, false);
	while (!completion_done(&pong.done) && time_before(jiffies, end)) {
		if (make_qp(&other, IB_QPT_RC))
			break;
		ib_destroy_qp(other.qp);
		num++;
	}
	ok(num && wait_done(&pong.done) && pong.left <= 0, "while others come and go");
	pr_info("kverbs: # %u others, %d are left\n", num, pong.left);
	cancel_delayed_work_sync(&pong.again);
	for (i = 0; i < 2; i++)
		rdma_set_cq_moderation(sides[i].cq, 0, 0);
}

static void test_refused(struct side *a)
{
	struct ib_sge list[4] = { sge(a, 0, 1), sge(a, 0, 1), sge(a, 0, 1), sge(a, 0, 1) };
	struct ib_send_wr wr = { .opcode = IB_WR_SEND, .sg_list = list, .num_sge = 4 };
	const struct ib_send_wr *bad = NULL;

	ok(ib_post_send(a->qp, &wr, &bad) == -EINVAL && bad == &wr, "too many pieces");
	wr.num_sge = 1;
	list[0].length = 4000;
	wr.send_flags = IB_SEND_INLINE;
	ok(ib_post_send(a->qp, &wr, &bad) == -EINVAL && bad == &wr, "too much inline");
	wr.send_flags = 0;
	wr.opcode = IB_WR_RDMA_READ_WITH_INV;
	ok(ib_post_send(a->qp, &wr, &bad) == -EOPNOTSUPP && bad == &wr, "READ_WITH_INV");
}

static void test_flush(struct side *a, struct side *b)
{
	struct ib_sge list = sge(a, 0, 100);
	struct ib_rdma_wr wr = write_to(b, &list, b->pd->local_dma_lkey);
	static DEFINE_SPINLOCK(lock);
	unsigned long flags;

	post_recv(a, 0, SIZE);
	ok(!post(a, &wr.wr) && op_wait(&a->send, IB_WC_REM_ACCESS_ERR),
	   "local_dma_lkey is no remote key");
	ok(op_wait(&a->recv, IB_WC_WR_FLUSH_ERR), "what was posted is flushed");
	ok(!post(a, &wr.wr) && op_wait(&a->send, IB_WC_WR_FLUSH_ERR), "in ERR: send");
	ok(!post_recv(a, 0, SIZE) && op_wait(&a->recv, IB_WC_WR_FLUSH_ERR), "in ERR: receive");
	spin_lock_irqsave(&lock, flags);
	post_recv(a, 0, SIZE);
	spin_unlock_irqrestore(&lock, flags);
	ok(op_wait(&a->recv, IB_WC_WR_FLUSH_ERR), "in ERR: receive, interrupts off");
}

static void test_srq(struct side *a, struct side *b)
{
	struct ib_srq_init_attr init = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };
	struct ib_srq_attr attr = { .max_wr = 4 * DEPTH };
	int n = 0;

	b->srq = ib_create_srq(b->pd, &init);
	if (IS_ERR(b->srq) || pair_up(IB_QPT_RC)) {
		ok(false, "shared receive queue");
		return;
	}
	ok(ib_modify_srq(b->srq, &attr, IB_SRQ_MAX_WR), "no resize in the kernel");
	attr.srq_limit = 3;
	ok(!ib_modify_srq(b->srq, &attr, IB_SRQ_LIMIT), "a limit");
	test_send(a, b);
	while (!post_recv(b, 0, SIZE))
		n++;
	ok(n == DEPTH, "a ring can be filled, and no more");
	pair_down();
	ib_destroy_srq(b->srq);
	b->srq = NULL;
}

/* What was set is told; to set something else, another one is made. */
static void test_query_ah(struct side *s, struct rdma_ah_attr *attr)
{
	struct rdma_ah_attr got = {}, other;
	const struct ib_global_route *grh = rdma_ah_read_grh(&got);
	const u8 group[4] = { 239, 1, 2, 3 };
	struct ib_ah *ah;

	rdma_ah_set_sl(attr, 5);
	attr->static_rate = IB_RATE_10_GBPS;
	attr->grh.flow_label = 0x12345;
	attr->grh.hop_limit = 17;
	attr->grh.traffic_class = 0x60;
	ah = rdma_create_ah(s->pd, attr, RDMA_CREATE_AH_SLEEPABLE);
	if (IS_ERR(ah)) {
		ok(false, "an address handle");
		return;
	}
	ok(!rdma_query_ah(ah, &got) && got.type == RDMA_AH_ATTR_TYPE_ROCE &&
	   rdma_ah_get_port_num(&got) == 1 && rdma_ah_get_sl(&got) == 5 &&
	   got.static_rate == IB_RATE_10_GBPS && rdma_ah_get_ah_flags(&got) == IB_AH_GRH &&
	   !memcmp(&grh->dgid, &attr->grh.dgid, sizeof(grh->dgid)) &&
	   grh->sgid_index == s->gid_attr->index && grh->flow_label == 0x12345 &&
	   grh->hop_limit == 17 && grh->traffic_class == 0x60,
	   "an address handle tells what it is");
	other = *attr;
	ipv6_addr_set_v4mapped(*(__be32 *)group, (struct in6_addr *)&other.grh.dgid);
	ok(rdma_modify_ah(ah, &other) == -EOPNOTSUPP, "it is not modified");
	memset(&got, 0, sizeof(got));
	ok(!rdma_query_ah(ah, &got) &&
	   !memcmp(&grh->dgid, &attr->grh.dgid, sizeof(grh->dgid)), "and stays as it was");
	rdma_destroy_ah(ah, RDMA_DESTROY_AH_SLEEPABLE);
}

static void test_ud(struct side *a, struct side *b)
{
	struct ib_sge list = sge(a, 0, 500);
	struct ib_ud_wr wr = {
		.wr = { .opcode = IB_WR_SEND, .sg_list = &list, .num_sge = 1 },
		.remote_qkey = QKEY,
		/* of a GSI queue pair's requests alone */
		.pkey_index = 0xffff,
	};
	struct rdma_ah_attr attr = ah_attr(a, b);
	bool good;

	if (pair_up(IB_QPT_UD)) {
		ok(false, "UD");
		return;
	}
	fill();
	wr.remote_qpn = b->qp->qp_num;
	wr.ah = rdma_create_ah(a->pd, &attr, RDMA_CREATE_AH_SLEEPABLE);
	post_recv(b, 0, SIZE);
	good = !IS_ERR(wr.ah) && !post(a, &wr.wr) && op_wait(&b->recv, IB_WC_SUCCESS) &&
	       b->recv.wc.byte_len == 540 &&
	       b->recv.wc.wc_flags == (IB_WC_GRH | IB_WC_WITH_NETWORK_HDR_TYPE) &&
	       b->recv.wc.network_hdr_type == RDMA_NETWORK_IPV4 &&
	       b->recv.wc.src_qp == a->qp->qp_num && !memcmp(a->buf, b->buf + 40, 500) &&
	       op_wait(&a->send, IB_WC_SUCCESS);
	ok(good, "UD by address handle");
	wr.ah = IS_ERR(wr.ah) ? NULL : (rdma_destroy_ah(wr.ah, 0), NULL);
	ok(ib_post_send(a->qp, &wr.wr, NULL) == -EINVAL, "UD without");
	test_query_ah(a, &attr);
	good = !post_recv(a, 0, SIZE) && !post_recv(b, 0, SIZE);
	pair_down();
	ok(good && a->recv.wc.status == IB_WC_WR_FLUSH_ERR &&
	   b->recv.wc.status == IB_WC_WR_FLUSH_ERR, "datagram queue pairs are drained");
}

static void test_states(struct side *a)
{
	struct ib_send_wr wr = { .opcode = IB_WR_SEND };

	if (make_qp(a, IB_QPT_RC)) {
		ok(false, "RESET");
		return;
	}
	ok(ib_post_send(a->qp, &wr, NULL) == -EINVAL && post_recv(a, 0, 1) == -EINVAL,
	   "nothing is posted in RESET");
	ok(!to_init(a) && ib_post_send(a->qp, &wr, NULL) == -EINVAL && !post_recv(a, 0, 1),
	   "receive requests are, in INIT");
	ib_drain_rq(a->qp);
	ib_destroy_qp(a->qp);
}

/* Without a look at its completion queue: all that has been posted is completed in SQD. */
static bool drained(struct side *s)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_SQD };
	const unsigned long end = jiffies + PATIENCE;
	struct ib_qp_init_attr init;

	if (ib_modify_qp(s->qp, &attr, IB_QP_STATE))
		return false;
	do {
		if (time_after(jiffies, end) || ib_query_qp(s->qp, &attr, IB_QP_STATE, &init))
			return false;
		msleep(20);
	} while (attr.sq_draining);
	return true;
}

/* What a has sent is there, by its bytes: completions are left where they are. */
static bool arrived(struct side *a, struct side *b, u32 len)
{
	const unsigned long end = jiffies + PATIENCE;

	while (data_race(memcmp(a->buf, b->buf, len))) {
		if (time_after(jiffies, end))
			return false;
		msleep(20);
	}
	return true;
}

/* What has completed and was not polled is nobody's once the queue pair is in RESET. */
static void test_reset(struct side *a, struct side *b)
{
	struct ib_qp_attr reset = { .qp_state = IB_QPS_RESET };
	struct ib_sge list = sge(a, 0, 100);
	struct ib_send_wr wr = { .opcode = IB_WR_SEND, .sg_list = &list, .num_sge = 1 };

	if (a->cq->poll_ctx != IB_POLL_DIRECT)
		return;
	fill();
	post_recv(b, 0, SIZE);
	/* in SQD it would not begin */
	ok(!post(a, &wr) && arrived(a, b, 100) && drained(a), "a SEND that nobody polls for");
	ok(!ib_modify_qp(a->qp, &reset, IB_QP_STATE), "to RESET");
	ok(!to_init(a) && !to_rtr(a, b) && !to_rts(a), "and to RTS again");
	ok(!ib_process_cq_direct(a->cq, -1) && !try_wait_for_completion(&a->send.done),
	   "what it has sent before is not completed any more");
	ok(ib_process_cq_direct(b->cq, -1) == 1 && b->recv.wc.status == IB_WC_SUCCESS &&
	   !memcmp(a->buf, b->buf, 100), "its peer's is");
}

static void test_posts(struct side *a, struct side *b)
{
	test_pong(a, b);
	test_shared(a, b);
}

/* A test that nothing could be set up for has failed, and is not left out. */
static void with_pair(void (*test)(struct side *a, struct side *b), struct side *a,
		      struct side *b, const char *name)
{
	if (pair_up(IB_QPT_RC)) {
		ok(false, name);
		return;
	}
	test(a, b);
	pair_down();
}

static void test_all(struct side *a, struct side *b)
{
	test_states(a);
	if (pair_up(IB_QPT_RC)) {
		ok(false, "RC");
		return;
	}
	test_send(a, b);
	test_rdma(a, b);
	test_on_demand(a, b);
	test_atomic(a, b);
	test_unsignaled(a, b);
	test_refused(a);
	pair_down();
	with_pair(test_posts, a, b, "RC, for handlers that post");
	with_pair(test_flush, a, b, "RC, for what is flushed");
	with_pair(test_reset, a, b, "RC, for RESET");
	with_pair(test_rate, a, b, "RC, for a rate");
	test_signal_all(a, b);
	test_srq(a, b);
	test_uc(a, b);
	test_ud(a, b);
	test_events(a, b);
	test_fastreg(a, b);
	test_gaps(a, b);
	test_fastreg_uc(a, b);
	test_turns(a, b);
}

static int kverbs_run(enum ib_poll_context poll, bool last)
{
	int err;

	err = side_up(&sides[0], "192.168.77.1", poll) ?:
	      side_up(&sides[1], "192.168.77.2", poll);
	if (err)
		return err;
	test_all(&sides[0], &sides[1]);
	/* nothing of it is the poll context's, and it takes its time */
	if (last)
		test_port_events(&sides[0], &sides[1]);
	side_down(&sides[0]);
	side_down(&sides[1]);
	return 0;
}

static int kverbs_add(struct ib_device *dev)
{
	if (!strcmp(dev_name(&dev->dev), "roce0"))
		sides[0].dev = dev;
	else if (!strcmp(dev_name(&dev->dev), "roce1"))
		sides[1].dev = dev;
	else
		return -EOPNOTSUPP;
	return 0;
}

static void kverbs_remove(struct ib_device *dev, void *data)
{
}

static struct ib_client kverbs_client = {
	.name = "kverbs_test",
	.add = kverbs_add,
	.remove = kverbs_remove,
};

static int __init kverbs_init(void)
{
	static const enum ib_poll_context polls[] = {
		IB_POLL_WORKQUEUE, IB_POLL_UNBOUND_WORKQUEUE, IB_POLL_SOFTIRQ, IB_POLL_DIRECT,
	};
	unsigned int i;
	int err;

	err = ib_register_client(&kverbs_client);
	if (err)
		return err;
	err = sides[0].dev && sides[1].dev ? 0 : -ENODEV;
	for (i = 0; i < ARRAY_SIZE(polls) && !err; i++)
		if (irq_poll || polls[i] != IB_POLL_SOFTIRQ)
			err = kverbs_run(polls[i], i == ARRAY_SIZE(polls) - 1);
	pr_info("kverbs: ended: %u failed, error %d\n", failed, err);
	ib_unregister_client(&kverbs_client);
	return err;
}

static void __exit kverbs_exit(void)
{
}

module_init(kverbs_init);
module_exit(kverbs_exit);
