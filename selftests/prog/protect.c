// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What a peer may not touch it does not touch: each operation with each kind of
 * wrong key, address and right. The requester hears IBTA's status and syndrome,
 * the responder's queue pair is in error and says why, and memory is as it was.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

static struct end ea, eb;

#define SIG IBV_SEND_SIGNALED
#define R_ALL (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define RLEN 8192		/* of the region that is aimed at, several packets */
#define GUARD 4096
#define SCRATCH 65536		/* offset in the requester's buffer */

/* AETH syndromes, IBTA 9.7.5.2.8: a NAK and its code */
#define NAK_INVALID_REQUEST 0x61
#define NAK_REMOTE_ACCESS 0x62
#define NAK_REMOTE_OP 0x63

static const struct op {
	const char *name;
	enum ibv_wr_opcode wr;
	int right;		/* of region and queue pair */
	bool atomic, reads;
} ops[] = {
	{ "WRITE", IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE, false, false },
	{ "WRITE_IMM", IBV_WR_RDMA_WRITE_WITH_IMM, IBV_ACCESS_REMOTE_WRITE, false, false },
	{ "READ", IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ, false, true },
	{ "CMP_SWP", IBV_WR_ATOMIC_CMP_AND_SWP, IBV_ACCESS_REMOTE_ATOMIC, true, true },
	{ "FETCH_ADD", IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_ATOMIC, true, true },
};

/* the responder's memory: guard, region, guard */
static uint8_t *mem;

static uint8_t *at(int64_t off)
{
	return mem + GUARD + off;
}

static struct ibv_mr *reg(struct ibv_pd *pd, int64_t off, size_t len, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, at(off), len, IBV_ACCESS_LOCAL_WRITE | access);

	if (!mr)
		die("reg_mr");
	return mr;
}

static void dereg(struct ibv_mr *mr)
{
	errno = ibv_dereg_mr(mr);
	if (errno)
		die("dereg_mr");
}

static void pair_make(struct pair *p, int access)
{
	pair_create(p, &ea, &eb, NULL);
	p->conn.access = IBV_ACCESS_LOCAL_WRITE | access;
	p->conn.rd_atomic = 4;
	pair_connect(p);
}

static bool good;

/* One of several conditions of one result */
#define must(cond, ...) do {			\
	if (!(cond)) {				\
		diag(__VA_ARGS__);		\
		good = false;			\
	}					\
} while (0)

static int request(struct pair *p, const struct op *op, uint64_t raddr, uint32_t rkey, uint32_t len)
{
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.opcode = op->wr,
		.send_flags = SIG,
		.sg_list = SGE(p->buf[0] + (op->reads ? SCRATCH : 0), len, p->mr[0]->lkey),
		.num_sge = 1,
	};

	if (op->atomic) {
		wr.wr.atomic.remote_addr = raddr;
		wr.wr.atomic.rkey = rkey;
		/* memory is CANARY throughout: the comparison would hold */
		memset(&wr.wr.atomic.compare_add, CANARY, 8);
		wr.wr.atomic.swap = 1;
	} else {
		wr.wr.rdma.remote_addr = raddr;
		wr.wr.rdma.rkey = rkey;
	}
	return wr_post(p->qp[0], &wr);
}

/* It is refused: here, there, and in memory. */
static void refused(struct pair *p, const struct op *op, uint64_t raddr, uint32_t rkey, uint32_t len,
		    int status, const char *fmt, const char *what)
{
	unsigned int syndrome = status == IBV_WC_REM_ACCESS_ERR ? NAK_REMOTE_ACCESS :
				NAK_INVALID_REQUEST;
	enum ibv_event_type type = status == IBV_WC_REM_ACCESS_ERR ? IBV_EVENT_QP_ACCESS_ERR :
				   IBV_EVENT_QP_REQ_ERR;
	struct ibv_async_event ev = {};
	struct ibv_wc wc = {};
	int64_t bad;
	int err;

	good = true;
	memset(mem, CANARY, RLEN + 2 * GUARD);
	memset(p->buf[0] + SCRATCH, CANARY, 2 * RLEN);
	memset(p->buf[0], 0x33, SCRATCH);
	events_drop(&eb);
	if (pair_recv(p, 1, 50, 0, 100))
		die("post_recv");
	err = request(p, op, raddr, rkey, len);
	must(!err, "post_send: %s", strerror(err));
	err = pair_send(p, 0, 2, 0, 10, 0);
	must(!err, "post_send: %s", strerror(err));

	must(cq_wait(p->scq[0], &wc, PATIENCE), "it does not complete");
	must(wc.wr_id == 1 && (int)wc.status == status, "request %llu: %s, want %s",
	     (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
	must(wc.vendor_err == syndrome, "syndrome 0x%x, want 0x%x", wc.vendor_err, syndrome);
	must(cq_wait(p->scq[0], &wc, PATIENCE) && wc.wr_id == 2 && wc.status == IBV_WC_WR_FLUSH_ERR,
	     "the next request: %s", ibv_wc_status_str(wc.status));
	must(wait_state(p->qp[0], IBV_QPS_ERR), "the requester is in %s",
	     state_name(qp_state(p->qp[0])));
	must(wait_state(p->qp[1], IBV_QPS_ERR), "the responder is in %s",
	     state_name(qp_state(p->qp[1])));
	must(event_wait(&eb, &ev, PATIENCE) && ev.event_type == type && ev.element.qp == p->qp[1],
	     "the responder's event: %s, want %s",
	     ev.element.qp ? ibv_event_type_str(ev.event_type) : "none", ibv_event_type_str(type));
	/* a WRITE_IMM may have taken the receive already: then it is that one's error */
	must(cq_wait(p->rcq[1], &wc, PATIENCE) && wc.wr_id == 50 &&
	     (wc.status == IBV_WC_WR_FLUSH_ERR ||
	      (op->wr == IBV_WR_RDMA_WRITE_WITH_IMM && wc.status == IBV_WC_LOC_ACCESS_ERR)),
	     "the receive: %s", ibv_wc_status_str(wc.status));
	bad = canary_check(mem, RLEN + 2 * GUARD);
	must(bad < 0, "byte %lld of the responder's memory is written", (long long)bad - GUARD);
	must(canary_check(p->buf[0] + SCRATCH, 2 * RLEN) < 0, "the requester's buffer is written");
	ok(good, fmt, op->name, what);
}

/* It succeeds and has its effect, and no other. */
static void granted(struct pair *p, const struct op *op, uint64_t raddr, uint32_t rkey, uint32_t len,
		    const char *fmt, const char *what)
{
	uint8_t *to = (uint8_t *)(uintptr_t)raddr;
	struct ibv_wc wc = {};
	int err;

	good = true;
	memset(mem, CANARY, RLEN + 2 * GUARD);
	memset(p->buf[0] + SCRATCH, 0x33, 2 * RLEN);
	pattern_fill(p->buf[0], 5, 0, len);
	if (op->wr == IBV_WR_RDMA_WRITE_WITH_IMM && pair_recv(p, 1, 50, 0, 100))
		die("post_recv");
	err = request(p, op, raddr, rkey, len);
	must(!err, "post_send: %s", strerror(err));
	must(cq_wait(p->scq[0], &wc, PATIENCE) && wc.status == IBV_WC_SUCCESS, "it completes: %s (0x%x)",
	     ibv_wc_status_str(wc.status), wc.vendor_err);
	if (op->wr == IBV_WR_RDMA_WRITE_WITH_IMM)
		must(cq_wait(p->rcq[1], &wc, PATIENCE) && wc.status == IBV_WC_SUCCESS,
		     "it is received: %s", ibv_wc_status_str(wc.status));
	if (op->reads)
		must(canary_check(p->buf[0] + SCRATCH, len) < 0, "the data is not what was there");
	else if (len)
		must(pattern_check(to, 5, 0, len) < 0, "the data has not arrived");
	if (op->atomic)
		must(canary_check(to, 8) >= 0, "the word is as it was");
	if (len && (op->atomic || !op->reads))
		memset(to, CANARY, len);
	must(canary_check(mem, RLEN + 2 * GUARD) < 0, "something else was written");
	ok(good, fmt, op->name, what);
}

enum key {
	OWN,		/* of the region */
	BIT,		/* another one in the low byte */
	INDEX,		/* another index */
	ZERO,
	INVERTED,
	ALIEN,		/* of a region of another PD */
	STALE,		/* deregistered */
	RIGHTS,		/* of a region without the right */
	LOCAL,		/* of a region without any */
	SHORT,		/* of a region that ends one byte earlier */
	LATE,		/* of a region that begins one byte later */
};

static const struct wrong {
	const char *what;
	enum key key;
	int64_t off;
	uint32_t len;
	bool ok;
	int for_atomics;	/* -1: not, 1: only */
} wrongs[] = {
	{ "all of a region", OWN, 0, RLEN, true, -1 },
	{ "the first bytes of a region", OWN, 0, 8, true, 0 },
	{ "the last bytes of a region", OWN, RLEN - 8, 8, true, 0 },
	{ "no byte of no region", ZERO, 0, 0, true, -1 },
	{ "a region and one byte after it", OWN, 0, RLEN + 1, false, -1 },
	{ "a region and one byte before it", OWN, -1, RLEN + 1, false, -1 },
	{ "a byte after a region", OWN, RLEN, 1, false, -1 },
	{ "a byte before a region", OWN, -1, 1, false, -1 },
	{ "the word after a region", OWN, RLEN, 8, false, 1 },
	{ "the word before a region", OWN, -8, 8, false, 1 },
	{ "eight bytes, one of them after the region", SHORT, RLEN - 8, 8, false, 0 },
	{ "eight bytes, one of them before the region", LATE, 0, 8, false, 0 },
	{ "an address that wraps around", OWN, INT64_MIN, 4096, false, -1 },
	{ "the last address there is", OWN, INT64_MIN + 1, 8, false, 0 },
	{ "a key with another low byte", BIT, 0, 8, false, 0 },
	{ "a key with another index", INDEX, 0, 8, false, 0 },
	{ "key 0", ZERO, 0, 8, false, 0 },
	{ "a key that is none", INVERTED, 0, 8, false, 0 },
	{ "a key of another PD", ALIEN, 0, 8, false, 0 },
	{ "a key of another PD, many packets", ALIEN, 0, RLEN, false, -1 },
	{ "the key of a region deregistered", STALE, 0, 8, false, 0 },
	{ "a region without the right", RIGHTS, 0, 8, false, 0 },
	{ "a region without the right, many packets", RIGHTS, 0, RLEN, false, -1 },
	{ "a region without remote rights", LOCAL, 0, 8, false, 0 },
};

static void region_op(const struct op *op)
{
	struct ibv_pd *pd = ibv_alloc_pd(eb.ctx);
	struct ibv_mr *own = reg(eb.pd, 0, RLEN, R_ALL);
	struct ibv_mr *alien = pd ? reg(pd, 0, RLEN, R_ALL) : NULL;
	struct ibv_mr *rights = reg(eb.pd, 0, RLEN, R_ALL & ~op->right);
	struct ibv_mr *local = reg(eb.pd, 0, RLEN, 0);
	struct ibv_mr *shorter = reg(eb.pd, 0, RLEN - 1, R_ALL);
	struct ibv_mr *late = reg(eb.pd, 1, RLEN - 1, R_ALL);
	struct ibv_mr *gone = reg(eb.pd, 0, RLEN, R_ALL);
	uint32_t stale = gone->rkey;
	struct pair p;
	unsigned int i;

	dereg(gone);
	for (i = 0; i < ARRAY_SIZE(wrongs); i++) {
		const struct wrong *w = &wrongs[i];
		uint64_t raddr = (uintptr_t)at(w->off);
		uint32_t key = 0;

		if (op->atomic ? w->for_atomics < 0 : w->for_atomics > 0)
			continue;
		if (w->off == INT64_MIN)
			raddr = UINT64_MAX - 100;
		else if (w->off == INT64_MIN + 1)
			raddr = UINT64_MAX - 7;
		switch (w->key) {
		case OWN: key = own->rkey; break;
		case BIT: key = own->rkey ^ 1; break;
		case INDEX: key = own->rkey ^ 0x40000000; break;
		case ZERO: break;
		case INVERTED: key = ~own->rkey; break;
		case ALIEN: key = alien->rkey; break;
		case STALE: key = stale; break;
		case RIGHTS: key = rights->rkey; break;
		case LOCAL: key = local->rkey; break;
		case SHORT: key = shorter->rkey; break;
		case LATE: key = late->rkey; break;
		}
		pair_make(&p, R_ALL);
		if (w->ok)
			granted(&p, op, raddr, key, w->len, "%s: %s", w->what);
		else
			refused(&p, op, raddr, key, w->len, IBV_WC_REM_ACCESS_ERR, "%s: %s", w->what);
		pair_destroy(&p);
	}
	/* of a function that is not enabled the queue pair knows nothing, IBTA table 57 */
	pair_make(&p, R_ALL & ~op->right);
	refused(&p, op, (uintptr_t)at(0), own->rkey, 8, IBV_WC_REM_INV_REQ_ERR, "%s: %s",
		"a queue pair without the right");
	pair_destroy(&p);
	if (op->atomic) {
		pair_make(&p, R_ALL);
		refused(&p, op, (uintptr_t)at(4), own->rkey, 8, IBV_WC_REM_INV_REQ_ERR, "%s: %s",
			"an address that is not aligned");
		pair_destroy(&p);
	}
	dereg(own);
	dereg(alien);
	dereg(rights);
	dereg(local);
	dereg(shorter);
	dereg(late);
	if (ibv_dealloc_pd(pd))
		die("dealloc_pd");
}

static void regions(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ops); i++)
		region_op(&ops[i]);
}

/* --- windows ------------------------------------------------------------------------- */

#define WOFF 512
#define WLEN 4096

/* Bind on the responder's own queue pair; the window's key afterwards */
static uint32_t bind_mw(struct pair *p, struct ibv_mw *mw, struct ibv_mr *mr, int64_t off, size_t len,
			int access)
{
	struct ibv_mw_bind_info info = {
		.mr = mr,
		.addr = (uintptr_t)at(off),
		.length = len,
		.mw_access_flags = access,
	};
	struct ibv_wc wc = {};
	uint32_t key;

	if (mw->type == IBV_MW_TYPE_1) {
		struct ibv_mw_bind b = { .wr_id = 70, .send_flags = SIG, .bind_info = info };

		errno = ibv_bind_mw(p->qp[1], mw, &b);
		key = mw->rkey;
	} else {
		key = ibv_inc_rkey(mw->rkey);
		errno = POST(p->qp[1], .wr_id = 70, .send_flags = SIG, .opcode = IBV_WR_BIND_MW,
			     .bind_mw = { .mw = mw, .rkey = key, .bind_info = info });
		mw->rkey = key;
	}
	if (errno)
		die("bind_mw");
	if (!cq_wait(p->scq[1], &wc, PATIENCE) || wc.status != IBV_WC_SUCCESS) {
		errno = 0;
		die("bind_mw: %s", ibv_wc_status_str(wc.status));
	}
	if (wc.wr_id != 70 || wc.opcode != IBV_WC_BIND_MW)
		ok(false, "the completion of a bind: wr_id %llu, opcode %d",
		   (unsigned long long)wc.wr_id, wc.opcode);
	return key;
}

static int unbind(struct pair *p, struct ibv_mw *mw, struct ibv_mr *mr)
{
	struct ibv_wc wc = {};

	if (mw->type == IBV_MW_TYPE_1) {
		struct ibv_mw_bind b = { .wr_id = 71, .send_flags = SIG, .bind_info.mr = mr };

		errno = ibv_bind_mw(p->qp[1], mw, &b);
	} else {
		errno = POST(p->qp[1], .wr_id = 71, .send_flags = SIG, .opcode = IBV_WR_LOCAL_INV,
			     .invalidate_rkey = mw->rkey);
	}
	if (errno)
		die("unbind");
	if (!cq_wait(p->scq[1], &wc, PATIENCE))
		die("unbind: no completion");
	return wc.status;
}

enum wcase { W_GOOD, W_BEFORE, W_AFTER, W_RIGHT, W_UNBOUND, W_OLD, W_QP, W_PD, W_FREED };

static const struct {
	enum wcase c;
	const char *what;
} wcases[] = {
	{ W_GOOD, "all of a window" },
	{ W_BEFORE, "eight bytes, some of them before the window" },
	{ W_AFTER, "eight bytes, some of them after the window" },
	{ W_RIGHT, "a window without the right, of a region with it" },
	{ W_UNBOUND, "a window that is unbound" },
	{ W_OLD, "the former key of a window bound again" },
	{ W_QP, "the window of another queue pair" },
	{ W_PD, "the window of another PD" },
	{ W_FREED, "a key that a window had before it was freed" },
};

static void window_case(const struct op *op, enum ibv_mw_type type, enum wcase c, const char *what)
{
	bool two_b = eb.attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	struct ibv_pd *pd = c == W_PD ? ibv_alloc_pd(eb.ctx) : eb.pd, *own = eb.pd;
	const char *fmt = type == IBV_MW_TYPE_1 ? "type 1, %s: %s" : "type 2, %s: %s";
	struct pair p, other;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	int64_t off = WOFF;
	uint32_t key, old;
	int access = R_ALL;

	pair_make(&p, R_ALL);
	/* the queue pair that binds, if it is another one: in the PD of the window */
	eb.pd = pd;
	pair_make(&other, R_ALL);
	eb.pd = own;
	mr = reg(pd, 0, RLEN, R_ALL | IBV_ACCESS_MW_BIND);
	mw = ibv_alloc_mw(pd, type);
	if (!mw) {
		ok(false, "a window of type %d can be allocated: %s", type, strerror(errno));
		goto out;
	}
	if (c == W_RIGHT)
		access &= ~op->right;
	old = bind_mw(c == W_QP || c == W_PD ? &other : &p, mw, mr, WOFF, WLEN, access);
	key = old;
	switch (c) {
	case W_GOOD:
		granted(&p, op, (uintptr_t)at(WOFF), key, op->atomic ? 8 : WLEN, fmt, what);
		is(unbind(&p, mw, mr), IBV_WC_SUCCESS, "it can be unbound");
		goto free_mw;
	case W_QP:
		/* only a window of type 2B is tied to its queue pair */
		if (type == IBV_MW_TYPE_1 || !two_b) {
			granted(&p, op, (uintptr_t)at(WOFF), key, 8, fmt, what);
			goto free_mw;
		}
		break;
	case W_UNBOUND:
		is(unbind(&p, mw, mr), IBV_WC_SUCCESS, "it is unbound");
		break;
	case W_OLD:
		if (type == IBV_MW_TYPE_2 && unbind(&p, mw, mr) != IBV_WC_SUCCESS)
			ok(false, "it can be invalidated");
		key = bind_mw(&p, mw, mr, WOFF, WLEN, access);
		ok(key != old, "another bind gives another key");
		granted(&p, op, (uintptr_t)at(WOFF), key, 8, fmt, "a window bound again");
		key = old;
		break;
	case W_FREED:
		if (ibv_dealloc_mw(mw))
			die("dealloc_mw");
		mw = NULL;
		break;
	default:
		break;
	}
	if (c == W_BEFORE)
		off -= op->atomic ? 8 : 1;
	else if (c == W_AFTER)
		off += op->atomic ? WLEN : WLEN - 7;
	refused(&p, op, (uintptr_t)at(off), key, 8, IBV_WC_REM_ACCESS_ERR, fmt, what);
free_mw:
	if (mw && ibv_dealloc_mw(mw))
		die("dealloc_mw");
out:
	dereg(mr);
	pair_destroy(&p);
	pair_destroy(&other);
	if (c == W_PD && ibv_dealloc_pd(pd))
		die("dealloc_pd");
}

static void windows(enum ibv_mw_type type)
{
	unsigned int i, k;

	for (i = 0; i < ARRAY_SIZE(ops); i++)
		for (k = 0; k < ARRAY_SIZE(wcases); k++)
			window_case(&ops[i], type, wcases[k].c, wcases[k].what);
}

static void windows1(void)
{
	windows(IBV_MW_TYPE_1);
}

static void windows2(void)
{
	windows(IBV_MW_TYPE_2);
}

/* WRITEs without a pause until one is refused */
static struct {
	struct pair *p;
	uint32_t key;
	atomic_uint done;
	enum ibv_wc_status status;
} writer;

static void *write_on(void *arg)
{
	unsigned int posted = 0;
	struct ibv_wc wc;

	while (writer.status == IBV_WC_SUCCESS) {
		while (posted - writer.done < 16) {
			errno = POST(writer.p->qp[0], .wr_id = posted++, .send_flags = SIG,
				     .opcode = IBV_WR_RDMA_WRITE, .num_sge = 1,
				     .sg_list = SGE(writer.p->buf[0], RLEN, writer.p->mr[0]->lkey),
				     .wr.rdma = { (uintptr_t)at(0), writer.key });
			if (errno)
				die("post_send");
		}
		if (!cq_wait(writer.p->scq[0], &wc, PATIENCE))
			wc.status = IBV_WC_RESP_TIMEOUT_ERR;
		writer.status = wc.status;
		writer.done += wc.status == IBV_WC_SUCCESS;
	}
	return arg;
}

/*
 * A key is taken away while WRITEs through it arrive: once that has completed,
 * not a byte of memory changes any more.
 */
static void take_away(const char *what, bool window, enum ibv_mw_type type)
{
	struct ibv_mw *mw = NULL;
	unsigned int round, seen;
	struct ibv_mr *mr;
	pthread_t thread;
	struct pair p;
	int64_t bad;
	int status;

	for (round = 0; round < 12; round++) {
		pair_make(&p, R_ALL);
		mr = reg(eb.pd, 0, RLEN, R_ALL | (window ? IBV_ACCESS_MW_BIND : 0));
		if (window) {
			mw = ibv_alloc_mw(eb.pd, type);
			if (!mw)
				die("alloc_mw");
		}
		memset(p.buf[0], round + 1, SCRATCH);
		writer.p = &p;
		writer.done = 0;
		writer.status = IBV_WC_SUCCESS;
		writer.key = window ? bind_mw(&p, mw, mr, 0, RLEN, R_ALL) : mr->rkey;
		if (pthread_create(&thread, NULL, write_on, NULL))
			die("pthread_create");
		while (writer.done < 5 + round && writer.status == IBV_WC_SUCCESS)
			usleep(50 * round);
		seen = writer.done;
		if (window)
			status = unbind(&p, mw, mr);
		else
			status = ibv_dereg_mr(mr);
		memset(mem, CANARY, RLEN + 2 * GUARD);
		pthread_join(thread, NULL);
		sleep_ms(5);
		bad = canary_check(mem, RLEN + 2 * GUARD);
		if (!ok(!status && bad < 0 && seen >= 5 + round &&
			writer.status == IBV_WC_REM_ACCESS_ERR,
			"%s after %u WRITEs: the next is refused, and memory stays as it is", what,
			writer.done))
			diag("taken away after %u WRITEs: %d; %s; byte %lld", seen, status,
			     ibv_wc_status_str(writer.status), (long long)bad - GUARD);
		if (window) {
			if (ibv_dealloc_mw(mw))
				die("dealloc_mw");
			dereg(mr);
		}
		pair_destroy(&p);
	}
}

static void revoke1(void)
{
	take_away("a type 1 window is unbound", true, IBV_MW_TYPE_1);
}

static void revoke2(void)
{
	take_away("a type 2 window is invalidated", true, IBV_MW_TYPE_2);
}

static void revoke_region(void)
{
	take_away("a region is deregistered", false, 0);
}

/* SEND with invalidate: takes a window away, and nothing that it may not */
static void send_inv(void)
{
	struct ibv_wc wc = {};
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct pair p, other;
	uint32_t key;
	int what;

	for (what = 0; what < 4; what++) {
		static const char * const names[] = {
			"a window", "no key at all", "the key of a region", "another queue pair's window",
		};

		pair_make(&p, R_ALL);
		pair_make(&other, R_ALL);
		mr = reg(eb.pd, 0, RLEN, R_ALL | IBV_ACCESS_MW_BIND);
		mw = ibv_alloc_mw(eb.pd, IBV_MW_TYPE_2);
		if (!mw)
			die("alloc_mw");
		key = bind_mw(what == 3 ? &other : &p, mw, mr, WOFF, WLEN, R_ALL);
		if (what == 1)
			key = ~key;
		else if (what == 2)
			key = mr->rkey;
		pattern_fill(p.buf[0], 9, 0, 3000);
		if (pair_recv(&p, 1, 60, 0, 4000))
			die("post_recv");
		errno = POST(p.qp[0], .wr_id = 3, .send_flags = SIG, .opcode = IBV_WR_SEND_WITH_INV,
			     .invalidate_rkey = key, .num_sge = 1,
			     .sg_list = SGE(p.buf[0], 3000, p.mr[0]->lkey));
		if (!is(errno, 0, "SEND_INV of %s is posted", names[what]))
			goto next;
		if (!what) {
			wc_is(p.scq[0], 3, IBV_WC_SUCCESS, NULL, "it is sent");
			wc_is(p.rcq[1], 60, IBV_WC_SUCCESS, &wc, "it is received");
			ok(wc.wc_flags & IBV_WC_WITH_INV && wc.invalidated_rkey == key && wc.byte_len == 3000,
			   "the completion names the key (flags 0x%x, 0x%x)", wc.wc_flags,
			   wc.invalidated_rkey);
			ok(pattern_check(p.buf[1], 9, 0, 3000) < 0, "its bytes");
			refused(&p, &ops[0], (uintptr_t)at(WOFF), key, 8, IBV_WC_REM_ACCESS_ERR,
				"%s: %s", "a window that SEND_INV took away");
		} else {
			if (!cq_wait(p.scq[0], &wc, PATIENCE))
				wc.status = 0;
			ok(wc.status == IBV_WC_REM_ACCESS_ERR || wc.status == IBV_WC_REM_INV_REQ_ERR ||
			   wc.status == IBV_WC_REM_OP_ERR, "it is refused: %s",
			   ibv_wc_status_str(wc.status));
			/* nothing was taken away */
			key = what == 2 ? mr->rkey : mw->rkey;
			if (what == 1)
				is_state(p.qp[1], IBV_QPS_ERR, "the responder");
			else
				granted(&other, &ops[0], (uintptr_t)at(WOFF), key, 8, "%s: %s",
					"what SEND_INV may not take away is still there");
		}
next:
		if (ibv_dealloc_mw(mw))
			die("dealloc_mw");
		dereg(mr);
		pair_destroy(&p);
		pair_destroy(&other);
	}
}

/* An XRC requester and its target, connected anew each time */
struct xrc {
	struct ibv_xrcd *xrcd;
	struct ibv_cq *scq, *rcq;
	struct ibv_qp *ini, *tgt;
	struct ibv_srq *srq;
	uint32_t srqn;
};

static bool xrc_make(struct xrc *x)
{
	struct ibv_srq_attr attr = { .max_wr = 4, .max_sge = 1 };

	x->xrcd = xrcd_make(&eb);
	if (!ok(x->xrcd, "an XRC domain"))
		return false;
	x->scq = cq_make(&ea, 16);
	x->rcq = cq_make(&eb, 16);
	x->srq = xrc_srq_make(&eb, x->xrcd, x->rcq, &attr);
	x->ini = xrc_ini_make(&ea, x->scq, 4);
	x->tgt = xrc_tgt_make(&eb, x->xrcd);
	if (ibv_get_srq_num(x->srq, &x->srqn))
		die("get_srq_num");
	return true;
}

static void xrc_connect(struct xrc *x)
{
	if (qp_to(x->ini, IBV_QPS_RESET) || qp_to(x->tgt, IBV_QPS_RESET))
		die("modify_qp to RESET");
	qps_connect(x->ini, &ea, 1000, x->tgt, &eb, 2000, &conn_default);
}

static void xrc_drop(struct xrc *x)
{
	if (ibv_destroy_qp(x->ini) || ibv_destroy_qp(x->tgt) || ibv_destroy_srq(x->srq) ||
	    ibv_destroy_cq(x->scq) || ibv_destroy_cq(x->rcq) || ibv_close_xrcd(x->xrcd))
		die("destroy");
}

/* A window of the requester's: bound, taken away, and not taken away twice */
static void xrc_window(struct xrc *x)
{
	struct ibv_mr *mr = mr_make(&ea, 4096, R_ALL | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(ea.pd, IBV_MW_TYPE_2);
	struct ibv_wc wc;
	uint32_t key;

	if (!mw)
		die("alloc_mw");
	key = ibv_inc_rkey(mw->rkey);
	xrc_connect(x);
	is(POST(x->ini, .wr_id = 80, .send_flags = SIG, .opcode = IBV_WR_BIND_MW,
		.bind_mw = { .mw = mw, .rkey = key, .bind_info = {
			.mr = mr, .addr = (uintptr_t)mr->addr, .length = 100,
			.mw_access_flags = R_ALL } }), 0, "XRC: BIND_MW is posted");
	wc_is(x->scq, 80, IBV_WC_SUCCESS, &wc, "it is done");
	is(wc.opcode, IBV_WC_BIND_MW, "its opcode");
	is(ibv_dereg_mr(mr), EBUSY, "the region stays while the window is bound");
	is(POST(x->ini, .wr_id = 81, .send_flags = SIG, .opcode = IBV_WR_LOCAL_INV,
		.invalidate_rkey = key), 0, "LOCAL_INV is posted");
	wc_is(x->scq, 81, IBV_WC_SUCCESS, &wc, "it is done");
	is(wc.opcode, IBV_WC_LOCAL_INV, "its opcode");
	is(POST(x->ini, .wr_id = 82, .send_flags = SIG, .opcode = IBV_WR_LOCAL_INV,
		.invalidate_rkey = key), 0, "once more is posted");
	wc_is(x->scq, 82, IBV_WC_MW_BIND_ERR, NULL, "there is nothing to take away");
	is_state(x->ini, IBV_QPS_ERR, "the requester");
	is_state(x->tgt, IBV_QPS_RTS, "the target");
	if (ibv_dealloc_mw(mw))
		die("dealloc_mw");
	mr_drop(mr);
}

/* A target has no send queue to bind with: any window is another queue pair's. */
static void xrc_inv(struct xrc *x)
{
	struct ibv_recv_wr wr = { .wr_id = 60, .num_sge = 1 }, *bad;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct pair p;
	uint32_t key;

	pair_make(&p, R_ALL);
	mr = reg(eb.pd, 0, RLEN, R_ALL | IBV_ACCESS_MW_BIND);
	mw = ibv_alloc_mw(eb.pd, IBV_MW_TYPE_2);
	if (!mw)
		die("alloc_mw");
	key = bind_mw(&p, mw, mr, WOFF, WLEN, R_ALL);
	xrc_connect(x);
	wr.sg_list = SGE(p.buf[1], 4000, p.mr[1]->lkey);
	if (ibv_post_srq_recv(x->srq, &wr, &bad))
		die("post_srq_recv");
	is(POST(x->ini, .wr_id = 3, .send_flags = SIG, .opcode = IBV_WR_SEND_WITH_INV,
		.invalidate_rkey = key, .num_sge = 1, .qp_type.xrc.remote_srqn = x->srqn,
		.sg_list = SGE(p.buf[0], 3000, p.mr[0]->lkey)), 0, "XRC: SEND_INV is posted");
	wc_is(x->scq, 3, IBV_WC_REM_ACCESS_ERR, NULL, "it is refused");
	wc_is(x->rcq, 60, IBV_WC_LOC_ACCESS_ERR, NULL, "the receive says so");
	is_state(x->tgt, IBV_QPS_ERR, "the target");
	granted(&p, &ops[0], (uintptr_t)at(WOFF), key, 8, "%s: %s",
		"what SEND_INV may not take away is still there");
	if (ibv_dealloc_mw(mw))
		die("dealloc_mw");
	dereg(mr);
	pair_destroy(&p);
}

static void xrc(void)
{
	struct xrc x;

	if (!xrc_make(&x))
		return;
	xrc_window(&x);
	xrc_inv(&x);
	xrc_drop(&x);
}

static const struct test tests[] = {
	TEST(regions),
	TEST(windows1),
	TEST(windows2),
	TEST(revoke1),
	TEST(revoke2),
	TEST(revoke_region),
	TEST(send_inv),
	TEST(xrc),
};

int main(int argc, char **argv)
{
	if (posix_memalign((void **)&mem, 4096, RLEN + 2 * GUARD))
		die("no memory");
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
