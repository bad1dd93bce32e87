// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What a program writes into the rings of a queue pair itself: indices that
 * can't be, which end that queue pair and no other; FLUSH, for which the
 * libibverbs of the day may have no call; and calls of providers that are older or newer.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>

#include "common.h"
#include "../../include/uapi/rdma/sroce-abi.h"

static struct end ea, eb;

#define SIG IBV_SEND_SIGNALED
#define POSTED 37		/* a producer index that no other ring of the pair has */
#define ENTRIES 64
#define NUMBERS 256		/* entries of a context's ring of numbers */

/* kernel's enum ib_uverbs_access_flags, which older headers lack */
#define ACCESS_PERSIST (1 << 9)
/* and enum ib_uverbs_core_support */
#define CORE_SUPPORT_ROBUST_UDATA (1 << 1)

/* The shared receive queue that an XRC requester names; nothing to others */
static uint32_t srqn;

/* beyond what the ring can hold, and back before what is done */
static const uint32_t far[] = { POSTED + ENTRIES + 1, POSTED + 0x80000000, POSTED - 1 };

static void up_as(struct pair *p, struct ibv_cq *scq, uint32_t sq, uint8_t rd_atomic)
{
	const struct pair_opts po = {
		.sq = sq, .rq = ENTRIES, .sge = 1, .buf = 4096,
		.access = IBV_ACCESS_REMOTE_WRITE, .scq = scq,
	};

	/* the context's ring of numbers may be at any index by now */
	ring_before();
	pair_create(p, &ea, &eb, &po);
	/* half a second in all: some wait for the end of it */
	p->conn.timeout = 12;		/* 17 ms */
	p->conn.retry_cnt = 7;
	p->conn.rd_atomic = rd_atomic;
	pair_connect(p);
}

static void up_on(struct pair *p, struct ibv_cq *scq)
{
	up_as(p, scq, ENTRIES, 1);
}

static void up(struct pair *p)
{
	up_on(p, NULL);
}

/* WRITEs are nothing to the other side's rings. */
static void post_writes(struct pair *p, unsigned int n, int last_flags)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		if (POST(p->qp[0], .wr_id = i, .opcode = IBV_WR_RDMA_WRITE, .num_sge = 1,
			 .send_flags = i == n - 1 ? last_flags : 0,
			 .sg_list = SGE(p->buf[0] + i * 8, 8, p->mr[0]->lkey),
			 .qp_type.xrc.remote_srqn = srqn,
			 .wr.rdma = { (uintptr_t)p->buf[1] + i * 8, p->mr[1]->rkey }))
			die("post WRITE");
}

/* Nothing goes on without it, so say what it was. */
static void comes(struct ibv_cq *cq, uint64_t wr_id, const char *what, unsigned int i)
{
	struct ibv_wc wc;

	if (!cq_wait(cq, &wc, PATIENCE))
		die("%s, %u: no completion", what, i);
	if (wc.status || wc.wr_id != wr_id)
		die("%s, %u: %s (vendor_err %#x) of %llu", what, i, ibv_wc_status_str(wc.status),
		    wc.vendor_err, (unsigned long long)wc.wr_id);
}

static void works(struct pair *p)
{
	if (pair_recv(p, 1, 5, 0, 100) || pair_send(p, 0, 6, 0, 100, SIG))
		die("post");
	wc_is(p->scq[0], 6, IBV_WC_SUCCESS, NULL, "it sends");
	wc_is(p->rcq[1], 5, IBV_WC_SUCCESS, NULL, "and receives");
}

/* One side is told, once, is in ERR, and can still be destroyed; others live. */
static void fatal(struct pair *p, int side, struct pair *other)
{
	struct ibv_async_event ev;

	event_is(p->e[side], IBV_EVENT_QP_FATAL, p->qp[side], "its event");
	is_state(p->qp[side], IBV_QPS_ERR, "the queue pair");
	ok(!event_wait(p->e[side], &ev, 0.1), "said once");
	works(other);
}

static void sq(void)
{
	struct pair p, other;
	unsigned int i;

	up(&other);
	for (i = 0; i < ARRAY_SIZE(far); i++) {
		up(&p);
		post_writes(&p, POSTED, SIG);
		comes(p.scq[0], POSTED - 1, "a WRITE", i);
		__atomic_store_n(&ring_at(POSTED)->prod, far[i], __ATOMIC_RELEASE);
		/* has the requester look */
		if (qp_to(p.qp[0], IBV_QPS_SQD) || qp_to(p.qp[0], IBV_QPS_RTS))
			diag("it is in ERR already");
		diag("a send ring's producer at %#x", far[i]);
		fatal(&p, 0, &other);
		pair_destroy(&p);
	}
	pair_destroy(&other);
}

static void rq(void)
{
	struct pair p, other;
	struct sroce_ring *ring;
	unsigned int i, k;
	struct ibv_wc wc;

	up(&other);
	for (i = 0; i < ARRAY_SIZE(far); i++) {
		up(&p);
		for (k = 0; k < POSTED; k++)
			if (pair_recv(&p, 1, k, 0, 8))
				die("post_recv");
		ring = ring_at(POSTED);
		/* so that the last case is back before what has been taken */
		for (k = 0; k < POSTED; k++) {
			if (pair_send(&p, 0, k, 0, 8, SIG))
				die("post_send");
			comes(p.scq[0], k, "a SEND", k);
		}
		__atomic_store_n(&ring->prod, far[i], __ATOMIC_RELEASE);
		if (pair_send(&p, 0, 99, 0, 8, SIG))
			die("post_send");
		diag("a receive ring's producer at %#x", far[i]);
		fatal(&p, 1, &other);
		ok(cq_wait(p.scq[0], &wc, PATIENCE) && wc.status, "the sender hears of it");
		pair_destroy(&p);
	}
	pair_destroy(&other);
}

/*
 * A WRITE, and behind it what no call of the library's posts, posted as a READ of nothing
 * and made another while the queue is drained: so nobody has looked at it before. It goes
 * with the queue pair's next change to RTS.
 */
static struct sroce_send_wqe *post_as(struct pair *p, uint8_t opcode, uint64_t addr, uint32_t rkey)
{
	struct sroce_send_wqe *wqe;
	struct sroce_ring *ring;

	if (qp_to(p->qp[0], IBV_QPS_SQD))
		die("modify_qp to SQD");
	post_writes(p, POSTED - 1, 0);
	if (POST(p->qp[0], .wr_id = 77, .opcode = IBV_WR_RDMA_READ, .send_flags = SIG,
		 .qp_type.xrc.remote_srqn = srqn, .wr.rdma = { addr, rkey }))
		die("post READ");
	ring = ring_at(POSTED);
	wqe = (struct sroce_send_wqe *)((uint8_t *)(ring + 1) + (POSTED - 1) * SROCE_SQ_BLOCK);
	if (wqe->wr_id != 77 || wqe->num_blocks != 1)
		die("not where the request is");
	wqe->opcode = opcode;
	return wqe;
}

static void post_flush(struct pair *p, const struct ibv_mr *mr, uint64_t addr, uint32_t len,
		       uint8_t type, uint8_t level)
{
	struct sroce_send_wqe *wqe = post_as(p, SROCE_WR_FLUSH, addr, mr->rkey);

	wqe->flush_len = len;
	wqe->flush_type = type;
	wqe->flush_level = level;
	if (qp_to(p->qp[0], IBV_QPS_RTS))
		die("modify_qp to RTS");
}

static void flush(void)
{
	enum { GLOBAL = 1, PERSISTENT = 2, RANGE = 0, REGION = 1 };
	static const struct {
		const char *what;
		bool right;		/* of the region */
		int access;		/* of the queue pair */
		int64_t off, len;
		uint8_t type, level;
		enum ibv_wc_status status;
	} cases[] = {
		{ "a range", true, ACCESS_FLUSH, 100, 1000, GLOBAL, RANGE, IBV_WC_SUCCESS },
		{ "a region", true, ACCESS_FLUSH, 0, 0, GLOBAL, REGION, IBV_WC_SUCCESS },
		{ "a region, whatever the range", true, ACCESS_FLUSH, 0, 1 << 30, GLOBAL, REGION,
		  IBV_WC_SUCCESS },
		{ "a region, from before it", true, ACCESS_FLUSH, -8, 0, GLOBAL, REGION,
		  IBV_WC_SUCCESS },
		{ "a region, from far away", true, ACCESS_FLUSH, 1LL << 40, 8, GLOBAL, REGION,
		  IBV_WC_SUCCESS },
		{ "a region, without its right", false, ACCESS_FLUSH, 0, 0, GLOBAL, REGION,
		  IBV_WC_REM_ACCESS_ERR },
		{ "more than the region", true, ACCESS_FLUSH, 100, 4000, GLOBAL, RANGE,
		  IBV_WC_REM_ACCESS_ERR },
		{ "before the region", true, ACCESS_FLUSH, -1, 10, GLOBAL, RANGE,
		  IBV_WC_REM_ACCESS_ERR },
		{ "a region without the right", false, ACCESS_FLUSH, 0, 100, GLOBAL, RANGE,
		  IBV_WC_REM_ACCESS_ERR },
		{ "a queue pair without the right", true, 0, 0, 100, GLOBAL, RANGE,
		  IBV_WC_REM_INV_REQ_ERR },
		{ "to persistence", true, ACCESS_FLUSH, 0, 100, PERSISTENT, RANGE,
		  IBV_WC_REM_INV_REQ_ERR },
		{ "to persistence, which the queue pair may", true, ACCESS_FLUSH | ACCESS_PERSIST,
		  0, 100, PERSISTENT, RANGE, IBV_WC_REM_ACCESS_ERR },
		{ "to both, which the queue pair may", true, ACCESS_FLUSH | ACCESS_PERSIST,
		  0, 100, GLOBAL | PERSISTENT, RANGE, IBV_WC_REM_ACCESS_ERR },
		{ "to both", true, ACCESS_FLUSH, 0, 100, GLOBAL | PERSISTENT, RANGE,
		  IBV_WC_REM_INV_REQ_ERR },
		{ "to nothing", true, ACCESS_FLUSH, 0, 100, 0, RANGE, IBV_WC_REM_INV_REQ_ERR },
	};
	unsigned int i, sent = 0;
	struct ibv_mr *mr;
	long long before;
	struct ibv_wc wc;
	struct pair p;

	before = hw_counter(&eb, "rx_flush_requests");
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

		pair_create(&p, &ea, &eb, &(struct pair_opts) {
			.sq = ENTRIES, .rq = 1, .sge = 1, .buf = 4096,
			.access = IBV_ACCESS_REMOTE_WRITE });
		mr = ibv_reg_mr(eb.pd, p.buf[1], 4096, access | (cases[i].right ? ACCESS_FLUSH : 0));
		if (!mr && !cases[i].right)
			die("reg_mr");
		if (!mr) {
			skip("no FLUSH in this kernel", "FLUSH");
			pair_destroy(&p);
			return;
		}
		p.conn.access = access | IBV_ACCESS_REMOTE_READ | cases[i].access;
		pair_connect(&p);
		pattern_fill(p.buf[0], i, 0, 4096);
		post_flush(&p, mr, (uintptr_t)mr->addr + cases[i].off, cases[i].len,
			   cases[i].type, cases[i].level);
		wc_is(p.scq[0], 77, cases[i].status, &wc, "%s: %s", cases[i].what,
		      ibv_wc_status_str(cases[i].status));
		ok(pattern_check(p.buf[1], i, 0, (POSTED - 1) * 8) < 0, "the WRITEs before it");
		if (cases[i].status == IBV_WC_SUCCESS)
			is(wc.opcode, SROCE_WC_FLUSH, "the completion's opcode");
		sent++;
		is_state(p.qp[0], cases[i].status ? IBV_QPS_ERR : IBV_QPS_RTS, "the requester");
		if (ibv_dereg_mr(mr))
			die("dereg_mr");
		pair_destroy(&p);
	}
	is(hw_counter(&eb, "rx_flush_requests") - before, sent, "each is counted");
}

/* An XRC requester and its target in place of a pair's queue pairs */
static void xrc_up(struct pair *p, struct ibv_xrcd *xrcd, int access)
{
	pair_create(p, &ea, &eb, &(struct pair_opts) {
		.sq = ENTRIES, .rq = 1, .sge = 1, .buf = 4096, .access = IBV_ACCESS_REMOTE_WRITE });
	if (ibv_destroy_qp(p->qp[0]) || ibv_destroy_qp(p->qp[1]))
		die("destroy_qp");
	ring_before();
	p->qp[0] = xrc_ini_make(&ea, p->scq[0], ENTRIES);
	p->qp[1] = xrc_tgt_make(&eb, xrcd);
	p->conn.access = access;
	pair_connect(p);
	pattern_fill(p->buf[0], access, 0, 4096);
}

static void xrc_done(struct pair *p, int opcode, const char *what)
{
	struct ibv_wc wc;

	if (qp_to(p->qp[0], IBV_QPS_RTS))
		die("modify_qp to RTS");
	wc_is(p->scq[0], 77, IBV_WC_SUCCESS, &wc, "XRC: %s", what);
	is(wc.opcode, opcode, "the completion's opcode");
	ok(pattern_check(p->buf[1], p->conn.access, 0, (POSTED - 1) * 8) < 0,
	   "the WRITEs before it");
	is_state(p->qp[1], IBV_QPS_RTS, "the target");
}

static void xrc_atomic_write(struct ibv_xrcd *xrcd)
{
	const uint64_t value = 0x0123456789abcdef;
	struct sroce_send_wqe *wqe;
	struct pair p;
	uint64_t got;

	xrc_up(&p, xrcd, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	wqe = post_as(&p, SROCE_WR_ATOMIC_WRITE, (uintptr_t)p.buf[1] + 2048, p.mr[1]->rkey);
	wqe->flags |= SROCE_WQE_INLINE;
	wqe->inline_len = sizeof(value);
	memcpy(wqe + 1, &value, sizeof(value));
	xrc_done(&p, SROCE_WC_ATOMIC_WRITE, "ATOMIC WRITE");
	memcpy(&got, p.buf[1] + 2048, sizeof(got));
	is(got, value, "its eight bytes");
	ok(canary_check(p.buf[1] + 2040, 8) == -1 && canary_check(p.buf[1] + 2056, 2000) == -1,
	   "and no others");
	pair_destroy(&p);
}

static void xrc_flush(struct ibv_xrcd *xrcd)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | ACCESS_FLUSH;
	struct ibv_mr *may = mr_make(&eb, 4096, 0), *mr;
	struct sroce_send_wqe *wqe;
	struct pair p;

	mr = ibv_reg_mr(eb.pd, may->addr, 4096, access);
	if (!mr) {
		skip("no FLUSH in this kernel", "XRC: FLUSH");
		mr_drop(may);
		return;
	}
	xrc_up(&p, xrcd, access);
	wqe = post_as(&p, SROCE_WR_FLUSH, (uintptr_t)mr->addr + 100, mr->rkey);
	wqe->flush_len = 1000;
	wqe->flush_type = 1;	/* to global visibility, of a range */
	xrc_done(&p, SROCE_WC_FLUSH, "FLUSH");
	pair_destroy(&p);
	if (ibv_dereg_mr(mr))
		die("dereg_mr");
	mr_drop(may);
}

/* Annex A19's operations of an XRC requester: RC's, and the queue's number beside */
static void xrc(void)
{
	struct ibv_srq_attr attr = { .max_wr = 1, .max_sge = 1 };
	struct ibv_xrcd *xrcd = xrcd_make(&eb);
	struct ibv_cq *cq = cq_make(&eb, 1);
	struct ibv_srq *srq;

	if (!ok(xrcd, "an XRC domain"))
		return;
	srq = xrc_srq_make(&eb, xrcd, cq, &attr);
	if (ibv_get_srq_num(srq, &srqn))
		die("get_srq_num");
	xrc_atomic_write(xrcd);
	xrc_flush(xrcd);
	srqn = 0;
	if (ibv_destroy_srq(srq) || ibv_destroy_cq(cq) || ibv_close_xrcd(xrcd))
		die("destroy");
}

/* WRITEs to what comes on demand, and a FLUSH of it and of pages that have never been there */
static void flush_odp(void)
{
	enum { GLOBAL = 1, RANGE = 0, LEN = 3 * 4096 };
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct ibv_mr *mr, *pinned;
	uint8_t *mem, *buf;
	struct pair p;

	if (!odp_there(&eb))
		return;
	mem = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem == MAP_FAILED)
		die("mmap");
	mr = ibv_reg_mr(eb.pd, mem, LEN, access | ACCESS_FLUSH | IBV_ACCESS_ON_DEMAND);
	if (!mr) {
		skip("no FLUSH in this kernel", "FLUSH");
		munmap(mem, LEN);
		return;
	}
	pair_create(&p, &ea, &eb, &(struct pair_opts) {
		.sq = ENTRIES, .rq = 1, .sge = 1, .buf = 4096 });
	p.conn.access = access | IBV_ACCESS_REMOTE_READ | ACCESS_FLUSH;
	pair_connect(&p);
	pattern_fill(p.buf[0], 1, 0, 4096);
	buf = p.buf[1];
	pinned = p.mr[1];
	p.buf[1] = mem;
	p.mr[1] = mr;
	post_flush(&p, mr, (uintptr_t)mem, LEN, GLOBAL, RANGE);
	p.buf[1] = buf;
	p.mr[1] = pinned;
	wc_is(p.scq[0], 77, IBV_WC_SUCCESS, NULL, "FLUSH of what comes on demand");
	ok(pattern_check(mem, 1, 0, (POSTED - 1) * 8) < 0, "the WRITEs before it");
	is_state(p.qp[0], IBV_QPS_RTS, "the requester");
	pair_destroy(&p);
	if (ibv_dereg_mr(mr))
		die("dereg_mr");
	munmap(mem, LEN);
}

/* enum ib_wr_opcode, behind those of programs */
#define WR_REG_MR		0x20
#define WR_REG_MR_INTEGRITY	0x21

/* Physical pages are not a program's to register: what it asks for is the kernel's opcode. */
static void fastreg(void)
{
	static const uint8_t opcodes[] = { WR_REG_MR, WR_REG_MR_INTEGRITY, WR_REG_MR - 1, 0xff };
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct sroce_send_wqe *wqe;
	struct pair p, other;
	unsigned int i;

	up(&other);
	/* and where there may be no READs, which is found out by what an opcode does */
	for (i = 0; i < 2 * ARRAY_SIZE(opcodes); i++) {
		const uint8_t opcode = opcodes[i / 2];

		up_as(&p, NULL, ENTRIES, i % 2);
		wqe = post_as(&p, opcode, 0, p.mr[0]->rkey);
		wqe->bind_addr = (uintptr_t)p.buf[0];
		wqe->bind_len = 8;
		wqe->bind_access = access;
		if (qp_to(p.qp[0], IBV_QPS_RTS))
			die("modify_qp to RTS");
		wc_is(p.scq[0], 77, IBV_WC_LOC_QP_OP_ERR, NULL, "opcode %#x in a program's ring, %u READs",
		      opcode, i % 2);
		is_state(p.qp[0], IBV_QPS_ERR, "the queue pair");
		pair_destroy(&p);
	}
	works(&other);
	pair_destroy(&other);
}

/* How often tasklets have run on this machine. */
static unsigned long tasklets(void)
{
	unsigned long n, sum = 0;
	char line[4096], *p, *end;
	FILE *f = fopen("/proc/softirqs", "r");

	if (!f)
		die("/proc/softirqs");
	while (fgets(line, sizeof(line), f)) {
		p = strstr(line, "TASKLET:");
		for (p = p ? p + 8 : NULL; p && (n = strtoul(p, &end, 10), end != p); p = end)
			sum += n;
	}
	fclose(f);
	return sum;
}

static void doorbell(struct ibv_context *ctx, uint32_t qp_num)
{
	if (ring_doorbell(ctx, qp_num))
		die("doorbell");
}

/* Rung for nothing, again and again, the kernel does nothing, and is done with it. */
static void bells(void)
{
	unsigned long before;
	struct pair p;
	int i;

	up(&p);
	for (i = 0; i < 1000; i++)
		doorbell(p.e[0]->ctx, p.qp[0]->qp_num);
	before = tasklets();
	usleep(300000);
	ok(tasklets() - before < 2000, "the kernel is at rest");
	works(&p);
	pair_destroy(&p);
}

#define MANY 32
#define ROUNDS 40

/* A request to each of many queue pairs, one after another: they share doorbells. */
static void many(void)
{
	struct ibv_cq *cq = cq_make(&ea, MANY);
	unsigned int r, i, wrong = 0;
	struct pair p[MANY];
	double posting = 0;
	long long rung;

	for (i = 0; i < MANY; i++)
		up_on(&p[i], cq);
	rung = hw_counter(&ea, "doorbells");
	for (r = 0; r < ROUNDS; r++) {
		for (i = 0; i < MANY; i++) {
			pattern_fill(p[i].buf[0], r * MANY + i, 0, 1000);
			if (pair_recv(&p[i], 1, r, 0, 1000))
				die("post_recv");
		}
		posting -= now();
		for (i = 0; i < MANY; i++)
			if (pair_send(&p[i], 0, r, 0, 1000, SIG))
				die("post_send");
		posting += now();
		for (i = 0; i < MANY; i++) {
			comes(cq, r, "sent", i);
			comes(p[i].rcq[1], r, "received", i);
			wrong += pattern_check(p[i].buf[1], r * MANY + i, 0, 1000) != -1;
		}
	}
	rung = hw_counter(&ea, "doorbells") - rung;
	is(wrong, 0, "what came is what was sent");
	posting /= ROUNDS * MANY;
	/* the first four ring, and all where a hundred microseconds pass in between */
	if (posting < 5e-5)
		ok(rung < ROUNDS * MANY * 3 / 4, "%u requests share %lld doorbells", ROUNDS * MANY,
		   rung);
	else
		skip("too slow a machine", "requests share doorbells: %.0f us to post one",
		     posting * 1e6);
	for (i = 0; i < MANY; i++)
		pair_destroy(&p[i]);
	ibv_destroy_cq(cq);
}

/* A value to each queue pair's peer's memory, that of @i of those posted. */
static void post_value(struct pair *p, unsigned int i, uint64_t value, int flags)
{
	((uint64_t *)p->buf[0])[i] = value;
	if (POST(p->qp[0], .wr_id = value, .opcode = IBV_WR_RDMA_WRITE, .num_sge = 1,
		 .send_flags = flags, .sg_list = SGE(p->buf[0] + i * 8, 8, p->mr[0]->lkey),
		 .wr.rdma = { (uintptr_t)p->buf[1] + i * 8, p->mr[1]->rkey }))
		die("post WRITE");
}

static bool value_comes(const struct pair *p, unsigned int i, uint64_t value, double end)
{
	const volatile uint64_t *at = (uint64_t *)p->buf[1] + i;

	while (*at != value && now() < end)
		usleep(100);
	return *at == value;
}

static void spin(double seconds)
{
	const double end = now() + seconds;

	while (now() < end)
		;
}

#define STREAMS 4
#define STREAM 256
#define STREAMS_ROUNDS 200

/*
 * A program that posts a stream and then waits for memory, and polls for no completion: what is in
 * its rings leaves all the same, whenever it stops, and however long it takes between two posts.
 */
static void memory(void)
{
	struct ibv_cq *cq = cq_make(&ea, STREAMS);
	unsigned int r, i, q, n, late = 0;
	struct pair p[STREAMS];
	long long rung;
	double end;

	for (q = 0; q < STREAMS; q++)
		up_as(&p[q], cq, STREAM, 1);
	rung = hw_counter(&ea, "doorbells");
	for (r = 1; r <= STREAMS_ROUNDS && !late; r++) {
		const unsigned int streams = r % 2 ? 1 : STREAMS;

		n = 1 + rand() % STREAM;
		for (i = 0; i < n; i++) {
			for (q = 0; q < streams; q++)
				post_value(&p[q], i, r, i == n - 1 ? SIG : 0);
			if (rand() % 16 == 0)
				spin(rand() % 100 * 1e-6);
		}
		for (q = 0, end = now() + PATIENCE; q < streams; q++)
			for (i = 0; i < n; i++)
				late += !value_comes(&p[q], i, r, end);
		for (q = 0; q < streams; q++)
			comes(cq, r, "written", q);
	}
	is(late, 0, "all that was posted came, with nobody polling (%lld doorbells)",
	   hw_counter(&ea, "doorbells") - rung);
	for (q = 0; q < STREAMS; q++)
		pair_destroy(&p[q]);
	ibv_destroy_cq(cq);
}

/* Who polls in vain lets the kernel have the CPU: often at first, then seldom. */
static void polls(void)
{
	/* as the provider counts them: 256, twice as many each time, 8 times as many */
	const unsigned int num = 256 * (1 + 2 + 4 + 8 + 8 + 8 + 8);
	struct ibv_cq *cq = cq_make(&ea, 8);
	struct ibv_wc wc;
	long long rung;
	struct pair p;
	unsigned int i;

	up_on(&p, cq);
	rung = hw_counter(&ea, "poll_doorbells");
	for (i = 1; i < num; i++)
		if (ibv_poll_cq(cq, 1, &wc))
			die("a completion of nothing");
	is(hw_counter(&ea, "poll_doorbells") - rung, 6, "%u polls in vain", num - 1);
	ibv_poll_cq(cq, 1, &wc);
	is(hw_counter(&ea, "poll_doorbells") - rung, 7, "and one more");
	works(&p);
	rung = hw_counter(&ea, "poll_doorbells");
	for (i = 0; i < 256 + 511; i++)
		if (ibv_poll_cq(cq, 1, &wc))
			die("a completion of nothing");
	is(hw_counter(&ea, "poll_doorbells") - rung, 1, "it begins anew with each completion");
	pair_destroy(&p);
	ibv_destroy_cq(cq);
}

/* A WRITE that is not rung for: it stays where it is until somebody does. */
static void post_unseen(struct pair *p)
{
	const double end = now() + PATIENCE;
	struct sroce_ring *sends;
	struct ibv_wc wc;

	post_writes(p, POSTED, SIG);
	comes(p->scq[0], POSTED - 1, "a WRITE", 0);
	sends = ring_at(POSTED);
	/* the kernel may look at the ring once more for what was before */
	do {
		if (now() > end)
			die("the kernel finds all that is posted");
		__atomic_store_n(&sends->flags, 0, __ATOMIC_SEQ_CST);
		post_writes(p, 1, SIG);
	} while (cq_wait(p->scq[0], &wc, 0.3));
}

/* The ring of numbers, scribbled over: at worst, doorbells get lost. */
static void numbers(void)
{
	static const uint32_t odd[] = { 0, 1, 0xffffff, 0xffffffff, 0x80000001 };
	struct sroce_ring *ring;
	struct pair p, other;
	uint32_t *entries;
	unsigned int i, k;
	struct end e = { 0 };

	up(&other);
	post_unseen(&other);
	ring_before();
	end_open(&e, ibv_get_device_name(ea.ctx->device), NULL);
	ring = ring_after();
	entries = (uint32_t *)(ring + 1);
	for (i = 0; i < 2000; i++) {
		for (k = 0; k < NUMBERS; k++)
			entries[k] = k % 3 ? odd[(i + k) % ARRAY_SIZE(odd)] : other.qp[0]->qp_num;
		__atomic_store_n(&ring->prod, ring->prod + i * i * 37, __ATOMIC_RELEASE);
		ring->cons = i * 12345;
		ring->flags = i;
		doorbell(e.ctx, SROCE_DOORBELL_BELLS);
	}
	ok(cq_quiet(other.scq[0], 0.3),
	   "any index, numbers that are none, and another context's: nobody is rung for");
	end_close(&e);
	doorbell(ea.ctx, other.qp[0]->qp_num);
	comes(other.scq[0], 0, "what was posted there", 0);
	up(&p);
	works(&p);
	works(&other);
	pair_destroy(&p);
	pair_destroy(&other);
}

#define CROWD 16
#define CROWD_SENDS 120

/* 4 bytes each, by two address handles in turns: none is joined with the next. */
static void post_datagrams(struct ibv_qp *qp, const struct ibv_mr *mr, struct ibv_ah *ah[2],
			   uint32_t qpn, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		if (POST(qp, .wr_id = i, .opcode = IBV_WR_SEND, .num_sge = 1,
			 .send_flags = i == n - 1 ? SIG : 0,
			 .sg_list = SGE(mr->addr, 4, mr->lkey),
			 .wr.ud = { .ah = ah[i % 2], .remote_qpn = qpn, .remote_qkey = 5 }))
			die("post SEND");
}

static unsigned int datagrams(struct ibv_cq *cq, unsigned int most)
{
	unsigned int n = 0;
	struct ibv_wc wc;

	while (n < most && cq_wait(cq, &wc, n ? 2 : PATIENCE))
		n += wc.status == IBV_WC_SUCCESS;
	return n;
}

static void recv_into(struct ibv_qp *qp, const struct ibv_mr *mr)
{
	struct ibv_recv_wr wr = { .sg_list = SGE(mr->addr, 64, mr->lkey), .num_sge = 1 }, *bad;

	if (ibv_post_recv(qp, &wr, &bad))
		die("post_recv");
}

/* What is posted is not rung for: the kernel may look at the ring once more for what was before. */
static void hush(struct sroce_ring *sends)
{
	do {
		__atomic_store_n(&sends->flags, 0, __ATOMIC_SEQ_CST);
		usleep(100000);
	} while (__atomic_load_n(&sends->flags, __ATOMIC_SEQ_CST));
}

/*
 * Many queue pairs with a turn's worth of datagrams each, and one doorbell for all: on its way to
 * a host nearby, the stack has no room for all of them at once (net.core.netdev_max_backlog).
 */
static void crowd(void)
{
	const unsigned int all = CROWD * (POSTED + CROWD_SENDS);
	struct ibv_mr *mr, *peer_mr = mr_make(&eb, 4096, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_cq *cq, *peer_cq = cq_make(&eb, all);
	struct ibv_qp *qp[CROWD], *peer = ud_qp(&eb, peer_cq, NULL, 1, all, 5);
	struct sroce_ring *numbers;
	struct ibv_ah *ah[2];
	struct end e = { 0 };
	uint32_t *entries;
	long long refused;
	unsigned int i;

	for (i = 0; i < all; i++)
		recv_into(peer, peer_mr);
	ring_before();
	end_open(&e, ibv_get_device_name(ea.ctx->device), NULL);
	numbers = ring_after();
	entries = (uint32_t *)(numbers + 1);
	mr = mr_make(&e, 4096, 0);
	cq = cq_make(&e, 4 * CROWD);
	ah[0] = ah_to(&e, &eb.gid);
	ah[1] = ah_to(&e, &eb.gid);
	for (i = 0; i < CROWD; i++) {
		ring_before();
		qp[i] = ud_qp(&e, cq, NULL, 256, 1, 5);
		post_datagrams(qp[i], mr, ah, peer->qp_num, POSTED);
		comes(cq, POSTED - 1, "a datagram", i);
		hush(ring_at(POSTED));
	}
	is(datagrams(peer_cq, CROWD * POSTED), CROWD * POSTED, "datagrams that rang");
	for (i = 0; i < CROWD; i++) {
		post_datagrams(qp[i], mr, ah, peer->qp_num, CROWD_SENDS);
		entries[(numbers->prod + i) % NUMBERS] = qp[i]->qp_num;
	}
	ok(cq_quiet(peer_cq, 0.3), "%u queue pairs with %u datagrams each have not rung", CROWD,
	   CROWD_SENDS);
	__atomic_store_n(&numbers->prod, numbers->prod + CROWD, __ATOMIC_RELEASE);
	refused = hw_counter(&ea, "tx_dropped");
	doorbell(e.ctx, SROCE_DOORBELL_BELLS);
	is(datagrams(peer_cq, CROWD * CROWD_SENDS), CROWD * CROWD_SENDS,
	   "rung for at once, each comes");
	is(hw_counter(&ea, "tx_dropped"), refused, "and none is refused by the stack on its way");
	for (i = 0; i < CROWD; i++)
		if (ibv_destroy_qp(qp[i]))
			die("destroy_qp");
	if (ibv_destroy_qp(peer) || ibv_destroy_cq(peer_cq) || ibv_destroy_cq(cq) ||
	    ibv_destroy_ah(ah[0]) || ibv_destroy_ah(ah[1]))
		die("destroy");
	mr_drop(mr);
	mr_drop(peer_mr);
	end_close(&e);
}

/* A command by write(), as another version's provider gives it: @len bytes, and room for @room */
static int verb_bare(uint32_t number, const void *in, size_t len, size_t room)
{
	struct ib_uverbs_cmd_hdr hdr = {
		.command = number, .in_words = (sizeof(hdr) + len) / 4, .out_words = room / 4,
	};
	uint8_t buf[256];

	memcpy(buf, &hdr, sizeof(hdr));
	memcpy(buf + sizeof(hdr), in, len);
	return write(ea.ctx->cmd_fd, buf, sizeof(hdr) + len) < 0 ? errno : 0;
}

static int verb(uint32_t number, void *in, size_t len, void *resp, size_t room)
{
	*(uint64_t *)in = (uintptr_t)resp;
	memset(resp, 0xff, room + 8);
	return verb_bare(number, in, len, room);
}

static void drop_pd(uint32_t handle)
{
	struct { struct ib_uverbs_cmd_hdr hdr; uint32_t handle; } c = {
		{ .command = IB_USER_VERBS_CMD_DEALLOC_PD, .in_words = sizeof(c) / 4 }, handle,
	};

	if (write(ea.ctx->cmd_fd, &c, sizeof(c)) != sizeof(c))
		die("DEALLOC_PD");
}

static void drop_cq(uint32_t handle)
{
	struct ib_uverbs_destroy_cq in = { .cq_handle = handle };
	uint8_t resp[sizeof(struct ib_uverbs_destroy_cq_resp) + 8];

	errno = verb(IB_USER_VERBS_CMD_DESTROY_CQ, &in, sizeof(in), resp, sizeof(resp) - 8);
	if (errno)
		die("DESTROY_CQ");
}

/* What a new context is told of its kernel, before the driver has anything to say */
static uint64_t core_support(void)
{
	uint64_t support = 0;
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/dev/infiniband/%s", ea.ctx->device->dev_name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 ||
	    device_method(fd, UVERBS_METHOD_GET_CONTEXT, UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT,
			  sizeof(support), (uintptr_t)&support) || close(fd))
		die("GET_CONTEXT");
	return support;
}

/* From 7.2 on, who knows struct ib_udata's rules says so. */
static bool udata_has_rules(void)
{
	unsigned int major, minor;
	struct utsname u;

	if (uname(&u) || sscanf(u.release, "%u.%u", &major, &minor) != 2)
		die("uname");
	return major > 7 || (major == 7 && minor >= 2);
}

static unsigned int max_wr(struct ibv_srq *srq)
{
	struct ibv_srq_attr attr;

	if (ibv_query_srq(srq, &attr))
		die("query_srq");
	return attr.max_wr;
}

/* A shared receive queue's request says where its answer goes. */
static void resized(void)
{
	struct ibv_srq *srq = ibv_create_srq(ea.pd, &(struct ibv_srq_init_attr) {
		.attr = { .max_wr = 4, .max_sge = 1 },
	});
	struct {
		struct ib_uverbs_modify_srq core;
		struct sroce_modify_srq ours;
		uint64_t more;
	} in = { .core = { .attr_mask = IBV_SRQ_MAX_WR, .max_wr = 8 } };
	const size_t len = offsetof(typeof(in), more);
	struct sroce_create_srq_resp resp;

	if (!srq)
		die("create_srq");
	in.core.srq_handle = srq->handle;
	is(verb_bare(IB_USER_VERBS_CMD_MODIFY_SRQ, &in, len, 0), EINVAL, "resize, with no answer wanted");
	in.ours.resp_addr = (uintptr_t)&resp;
	is(verb_bare(IB_USER_VERBS_CMD_MODIFY_SRQ, &in, len - 4, 0), EINVAL, "half a request");
	in.more = 1;
	is(verb_bare(IB_USER_VERBS_CMD_MODIFY_SRQ, &in, sizeof(in), 0), EOPNOTSUPP, "more than we know");
	is(max_wr(srq), 4, "nothing of it was done");
	in.more = 0;
	is(verb_bare(IB_USER_VERBS_CMD_MODIFY_SRQ, &in, sizeof(in), 0), 0, "a newer provider's");
	is(max_wr(srq), 8, "this was");
	ok(resp.srq.size && resp.srq.entries == 8, "and answered");
	if (ibv_destroy_srq(srq))
		die("destroy_srq");
}

/* struct ib_udata: what is longer on either side is nothing, as long as it is zero. */
static void versions(void)
{
	struct { struct ib_uverbs_alloc_pd in; uint64_t more; } pd = {};
	struct { uint32_t handle; uint8_t more[16 + 8]; } pd_resp;
	struct ib_uverbs_create_cq cq = { .cqe = 16, .comp_channel = -1 };
	struct {
		struct ib_uverbs_create_cq_resp core;
		struct sroce_create_cq_resp ours;
		uint8_t more[32 + 8];
	} cq_resp;
	const size_t len = offsetof(typeof(cq_resp), more);
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_ex_cmd_hdr ex;
		struct ib_uverbs_ex_query_device in;
		uint64_t more;
	} query = {
		.hdr = { .command = 0x80000000 | IB_USER_VERBS_EX_CMD_QUERY_DEVICE,
			 .in_words = sizeof(query.in) / 8,
			 .out_words = sizeof(struct ib_uverbs_ex_query_device_resp) / 8 },
		.ex = { .provider_in_words = 1,
			.provider_out_words = (sizeof(struct sroce_query_device_resp) + 16) / 8 },
	};
	struct {
		struct ib_uverbs_ex_query_device_resp core;
		struct sroce_query_device_resp ours;
		uint8_t more[16 + 8];
	} query_resp;

	is(verb(IB_USER_VERBS_CMD_ALLOC_PD, &pd, sizeof(pd), &pd_resp, 4 + 16), 0,
	   "a newer provider: a request that is zero");
	ok(all_are(pd_resp.more, 0, 16) && all_are(pd_resp.more + 16, 0xff, 8),
	   "what it has room for is zeroed, and no more");
	drop_pd(pd_resp.handle);
	pd.more = 1ULL << 40;
	is(verb(IB_USER_VERBS_CMD_ALLOC_PD, &pd, sizeof(pd), &pd_resp, 4 + 16), EOPNOTSUPP,
	   "a request that is not");

	is(verb(IB_USER_VERBS_CMD_CREATE_CQ, &cq, sizeof(cq), &cq_resp, len + 32), 0,
	   "room for more than a completion queue's response");
	ok(cq_resp.ours.cq.size && cq_resp.ours.cq.entries == 16, "which is there");
	ok(all_are(cq_resp.more, 0, 32) && all_are(cq_resp.more + 32, 0xff, 8),
	   "the rest is zeroed, and no more");
	drop_cq(cq_resp.core.cq_handle);
	is(verb(IB_USER_VERBS_CMD_CREATE_CQ, &cq, sizeof(cq), &cq_resp, len - 8), 0,
	   "an older provider: room for less");
	ok(all_are((uint8_t *)&cq_resp + len - 8, 0xff, 8), "and it gets no more than that");
	drop_cq(cq_resp.core.cq_handle);

	query.ex.response = (uintptr_t)&query_resp;
	memset(&query_resp, 0xff, sizeof(query_resp));
	ok(write(ea.ctx->cmd_fd, &query, sizeof(query)) == sizeof(query) &&
	   query_resp.core.base.max_qp > 0 && query_resp.ours.rate_max,
	   "query_device, with room for what there is not");
	ok(all_are(query_resp.more, 0, 16) && all_are(query_resp.more + 16, 0xff, 8),
	   "that is zeroed, and no more");
	is(!!(core_support() & CORE_SUPPORT_ROBUST_UDATA), udata_has_rules(),
	   "programs are told so, by a kernel that asks");
}

static const struct test tests[] = {
	TEST(many),
	TEST(memory),
	TEST(polls),
	TEST(numbers),
	TEST(bells),
	TEST(crowd),
	TEST(versions),
	TEST(resized),
	TEST(sq),
	TEST(rq),
	TEST(flush),
	TEST(xrc),
	TEST(flush_odp),
	TEST(fastreg),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
