// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory regions of every kind, by what arrives in them: registered again, of
 * nothing, of device memory, of another driver's buffer, on demand.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kverbs/exporter_test.h"
#include "common.h"

static struct end ea, eb;

#define LW IBV_ACCESS_LOCAL_WRITE
#define RW IBV_ACCESS_REMOTE_WRITE
#define RR IBV_ACCESS_REMOTE_READ
#define RA IBV_ACCESS_REMOTE_ATOMIC
#define ALL (LW | RW | RR | RA)
#define ODP IBV_ACCESS_ON_DEMAND
#define BIND IBV_ACCESS_MW_BIND
#define PAGE 4096UL
#define BUF (1UL << 20)

/* The requester is side 0, and has its memory in the pair's buffer. */
static void up(struct pair *p)
{
	const struct pair_opts o = {
		.sq = 64, .rq = 64, .sge = 4, .inl = 64, .buf = 2 * BUF,
	};

	pair_create(p, &ea, &eb, &o);
	p->conn.access = ALL;
	/* 1 s: it is not how long memory takes that is tested */
	p->conn.timeout = 18;
	pair_connect(p);
}

static struct ibv_mr *reg(void *addr, size_t len, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(eb.pd, addr, len, access);

	if (!mr)
		die("reg_mr, access 0x%x", access);
	return mr;
}

static void dereg(struct ibv_mr *mr)
{
	errno = ibv_dereg_mr(mr);
	if (errno)
		die("dereg_mr");
}

static void *map(size_t len)
{
	void *m = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (m == MAP_FAILED)
		die("mmap");
	return m;
}

static int wait_for(struct ibv_cq *cq)
{
	struct ibv_wc wc = {};

	return cq_wait(cq, &wc, PATIENCE) ? (int)wc.status : -1;
}

static int rdma(struct pair *p, enum ibv_wr_opcode op, size_t off, size_t len, uint64_t raddr,
		uint32_t rkey)
{
	errno = POST(p->qp[0], .wr_id = 1, .send_flags = IBV_SEND_SIGNALED, .opcode = op,
		     .num_sge = 1, .sg_list = SGE(p->buf[0] + off, len, p->mr[0]->lkey),
		     .wr.rdma = { .remote_addr = raddr, .rkey = rkey });
	if (errno)
		die("post_send");
	return wait_for(p->scq[0]);
}

static uint64_t key;	/* of the pattern that was written last */

static int rdma_write(struct pair *p, uint64_t raddr, size_t len, uint32_t rkey)
{
	pattern_fill(p->buf[0], ++key, 0, len);
	return rdma(p, IBV_WR_RDMA_WRITE, 0, len, raddr, rkey);
}

/* What is read lands in the second half of the buffer. */
static int rdma_read(struct pair *p, uint64_t raddr, size_t len, uint32_t rkey)
{
	memset(p->buf[0] + BUF, CANARY, len);
	return rdma(p, IBV_WR_RDMA_READ, BUF, len, raddr, rkey);
}

static bool fetch_add(struct pair *p, uint64_t raddr, uint32_t rkey, uint64_t add, uint64_t *old)
{
	errno = POST(p->qp[0], .wr_id = 1, .send_flags = IBV_SEND_SIGNALED,
		     .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		     .num_sge = 1, .sg_list = SGE(p->buf[0] + BUF, 8, p->mr[0]->lkey),
		     .wr.atomic = { .remote_addr = raddr, .rkey = rkey, .compare_add = add });
	if (errno)
		die("post_send");
	if (wait_for(p->scq[0]))
		return false;
	memcpy(old, p->buf[0] + BUF, 8);
	return true;
}

static bool zero(const void *mem, size_t len)
{
	const uint8_t *c = mem;

	return !len || (!c[0] && !memcmp(c, c + 1, len - 1));
}

/* A refusal ends the connection: each has one to itself. */
static void refused(uint64_t raddr, uint32_t rkey, size_t len, enum ibv_wr_opcode op,
		    const char *what)
{
	struct pair p;

	up(&p);
	is(rdma(&p, op, 0, len, raddr, rkey), IBV_WC_REM_ACCESS_ERR, "%s: refused", what);
	pair_destroy(&p);
}

/* What is made after an munmap() may lie where it was: the pairs come first. */
static void unmap_refused(void *mem, size_t len, uint64_t raddr, uint32_t rkey)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE };
	struct pair p[2];
	int i;

	for (i = 0; i < 2; i++)
		up(&p[i]);
	munmap(mem, len);
	for (i = 0; i < 2; i++)
		is(rdma(&p[i], ops[i], 0, 8, raddr, rkey), IBV_WC_REM_ACCESS_ERR,
		   "not mapped any more: refused");
	if (mmap(mem, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
		 -1, 0) != mem)
		die("there is something");
	munmap(mem, len);
	for (i = 0; i < 2; i++)
		pair_destroy(&p[i]);
}

/* --- registered again ------------------------------------------------------------------ */

static void rereg(void)
{
	uint8_t *x = map(BUF), *y = map(BUF), *ro;
	struct ibv_pd *pd2 = ibv_alloc_pd(eb.ctx);
	struct ibv_mr *mr = reg(x, BUF, LW | RW);
	uint32_t rkey = mr->rkey;
	struct pair p;

	up(&p);
	is(rdma_write(&p, (uintptr_t)x, 9000, rkey), 0, "written");

	is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, LW), 0, "access changed");
	refused((uintptr_t)x, rkey, 8, IBV_WR_RDMA_WRITE, "without the right");
	is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL), 0, "and back");
	ok(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL | IBV_ACCESS_ON_DEMAND) &&
	   errno == EOPNOTSUPP, "pinned memory does not come on demand from now on");
	is(rdma_write(&p, (uintptr_t)x, 9000, rkey), 0, "written");
	is(rdma_read(&p, (uintptr_t)x, 9000, rkey), 0, "read");
	ok(pattern_check(p.buf[0] + BUF, key, 0, 9000) < 0, "what was written");

	is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd2, NULL, 0, 0), 0, "protection domain changed");
	refused((uintptr_t)x, rkey, 8, IBV_WR_RDMA_WRITE, "of another protection domain");
	is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, eb.pd, NULL, 0, 0), 0, "and back");

	is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, y, BUF / 2, 0), 0, "moved");
	ok(mr->rkey == rkey && mr->lkey == rkey, "its key stays");
	is(rdma_write(&p, (uintptr_t)y + BUF / 2 - 5000, 5000, rkey), 0, "written at its end");
	ok(pattern_check(y + BUF / 2 - 5000, key, 0, 5000) < 0, "there it is");
	refused((uintptr_t)x, rkey, 8, IBV_WR_RDMA_WRITE, "where it was");
	refused((uintptr_t)y + BUF / 2 - 4, rkey, 8, IBV_WR_RDMA_WRITE, "beyond its end");

	is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD |
			    IBV_REREG_MR_CHANGE_ACCESS, pd2, x, BUF, LW | RR), 0, "all at once");
	is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, eb.pd, NULL, 0, 0), 0, "one of it undone");
	is(rdma_read(&p, (uintptr_t)x, 9000, rkey), 0, "read");
	refused((uintptr_t)x, rkey, 8, IBV_WR_RDMA_WRITE, "written");

	ro = mmap(NULL, BUF, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ok(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS, NULL,
			ro, BUF, ALL), "not to what may not be touched");
	is(rdma_read(&p, (uintptr_t)x, 9000, rkey), 0, "the region is what it was");
	refused((uintptr_t)x, rkey, 8, IBV_WR_RDMA_WRITE, "written");

	is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			LW | RW | IBV_ACCESS_ZERO_BASED), 0, "zero-based");
	is(rdma_write(&p, 100, 5000, rkey), 0, "written");
	ok(pattern_check(x + 100, key, 0, 5000) < 0, "there it is");
	is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, LW | RW), 0, "no more");
	refused(100, rkey, 8, IBV_WR_RDMA_WRITE, "from 0 on");
	is(rdma_write(&p, (uintptr_t)x + 7000, 5000, rkey), 0, "written where it was");
	ok(pattern_check(x + 7000, key, 0, 5000) < 0, "there it is");
	dereg(mr);

	mr = ibv_reg_mr_iova(eb.pd, x, BUF, -(uint64_t)BUF, LW | RW | RR);
	if (ok(mr, "up to the last address of all")) {
		is(rdma_write(&p, -9000ULL, 9000, mr->rkey), 0, "written");
		ok(pattern_check(x + BUF - 9000, key, 0, 9000) < 0, "there it is");
		is(rdma_read(&p, -9000ULL, 9000, mr->rkey), 0, "read");
		refused(-4ULL, mr->rkey, 8, IBV_WR_RDMA_WRITE, "around it");
		refused(-4ULL, mr->rkey, 8, IBV_WR_RDMA_READ, "read around it");
		dereg(mr);
	}
	ok(!ibv_reg_mr_iova(eb.pd, x, BUF, -(uint64_t)BUF + 4096, LW), "no further");

	mprotect(ro, BUF, PROT_READ);
	mr = ibv_reg_mr(eb.pd, ro, BUF, RR);
	if (ok(mr, "memory that may be read")) {
		ok(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL) && errno == EACCES,
		   "does not become writable");
		is(rdma_read(&p, (uintptr_t)ro, 9000, mr->rkey), 0, "read");
		/* what the program has mapped there since is not what the key names */
		mmap(ro, BUF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		ok(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL) && errno == EACCES,
		   "nor by what is at its address now");
		refused((uintptr_t)ro, mr->rkey, 8, IBV_WR_RDMA_WRITE, "written");
		is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
				ro, BUF, ALL), 0, "unless that is asked for");
		is(rdma_write(&p, (uintptr_t)ro, 9000, mr->rkey), 0, "written");
		ok(pattern_check(ro, key, 0, 9000) < 0, "there it is");
		dereg(mr);
	}
	pair_destroy(&p);
	ibv_dealloc_pd(pd2);
	munmap(ro, BUF);
	munmap(x, BUF);
	munmap(y, BUF);
}

static atomic_bool stop;

static void *rereg_thread(void *arg)
{
	long n = 0;

	while (!stop) {
		errno = ibv_rereg_mr(arg, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				     LW | RW | (n & 1 ? RR : 0));
		if (errno)
			die("rereg_mr");
		n++;
		sched_yield();
	}
	return (void *)n;
}

static void rereg_traffic(void)
{
	struct ibv_mr *mr = mr_make(&eb, BUF, RW);
	pthread_t t;
	struct pair p;
	void *n;
	int i;

	up(&p);
	stop = false;
	pthread_create(&t, NULL, rereg_thread, mr);
	for (i = 0; i < 200; i++)
		if (rdma_write(&p, (uintptr_t)mr->addr, 100000, mr->rkey))
			break;
	stop = true;
	pthread_join(t, &n);
	is(i, 200, "writes while the region is registered again (%ld times)", (long)n);
	pair_destroy(&p);
	mr_drop(mr);
}

/* --- of nothing ------------------------------------------------------------------------ */

static void null(void)
{
	struct ibv_mr *none, *there = ibv_alloc_null_mr(eb.pd);
	struct ibv_sge list[3];
	struct ibv_recv_wr wr = { .wr_id = 2, .sg_list = list, .num_sge = 3 }, *bad;
	struct pair p;
	int i;

	none = ibv_alloc_null_mr(ea.pd);
	if (!none || !there) {
		skip("the library has no alloc_null_mr", "null");
		return;
	}
	is(ibv_rereg_mr(none, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT,
	   "it cannot be changed");
	up(&p);
	for (i = 0; i < 2; i++) {
		list[0] = *SGE(p.buf[1], 1000, p.mr[1]->lkey);
		list[1] = *SGE(0x123456, 20000, there->lkey);
		list[2] = *SGE(p.buf[1] + 1000, 9000, p.mr[1]->lkey);
		errno = ibv_post_recv(p.qp[1], &wr, &bad);
		if (errno)
			die("post_recv");
		pattern_fill(p.buf[0], 5, 0, 30000);
		errno = POST(p.qp[0], .wr_id = 1, .send_flags = IBV_SEND_SIGNALED,
			     .opcode = IBV_WR_SEND, .num_sge = 1,
			     .sg_list = i ? SGE(-1000000UL, 30000, none->lkey) :
					    SGE(p.buf[0], 30000, p.mr[0]->lkey));
		if (errno)
			die("post_send");
		is(wait_for(p.scq[0]), 0, "%s sent", i ? "nothing" : "something");
		is(wait_for(p.rcq[1]), 0, "and received, the middle of it into nothing");
		if (i)
			ok(zero(p.buf[1], 10000), "it is zeroes");
		else
			ok(pattern_check(p.buf[1], 5, 0, 1000) < 0 &&
			   pattern_check(p.buf[1] + 1000, 5, 21000, 9000) < 0, "around it the rest");
	}
	errno = POST(p.qp[0], .wr_id = 1, .send_flags = IBV_SEND_SIGNALED,
		     .opcode = IBV_WR_RDMA_WRITE, .num_sge = 1,
		     .sg_list = SGE(p.buf[0], 8, p.mr[0]->lkey),
		     .wr.rdma = { .remote_addr = 0x1000, .rkey = there->lkey });
	is(wait_for(p.scq[0]), IBV_WC_REM_ACCESS_ERR, "its key means nothing to a peer");
	pair_destroy(&p);
	ibv_dereg_mr(none);
	ibv_dereg_mr(there);
}

/* Who is handed a region, as another process may be, learns how long it is. */
static void imported(const struct ibv_mr *mr, uint64_t len, const char *what)
{
	struct ibv_context *ctx = ibv_import_device(dup(eb.ctx->cmd_fd));
	struct ibv_pd *pd = ctx ? ibv_import_pd(ctx, eb.pd->handle) : NULL;
	struct ibv_mr *there = pd ? ibv_import_mr(pd, mr->handle) : NULL;

	if (!ok(there, "%s: imported", what))
		return;
	ok(there->length == len && there->rkey == mr->rkey, "%s: all of it", what);
	ibv_unimport_mr(there);
	ibv_unimport_pd(pd);
	ibv_close_device(ctx);
}

/* --- device memory --------------------------------------------------------------------- */

static struct ibv_dm *dm_make(size_t len)
{
	return ibv_alloc_dm(eb.ctx, &(struct ibv_alloc_dm_attr) { .length = len });
}

static void dm(void)
{
	struct ibv_device_attr_ex attr;
	static uint8_t back[16384];
	struct ibv_dm *a, *b;
	struct ibv_mr *mr, *part;
	struct pair p;
	uint64_t old;

	if (ibv_query_device_ex(eb.ctx, NULL, &attr) || !attr.max_dm_size) {
		skip("the device has none", "device memory");
		return;
	}
	a = dm_make(16384);
	if (!ok(a, "16384 bytes"))
		return;
	mr = ibv_reg_dm_mr(eb.pd, a, 0, 16384, ALL | IBV_ACCESS_ZERO_BASED);
	part = ibv_reg_dm_mr(eb.pd, a, 8192, 4096, ALL | IBV_ACCESS_ZERO_BASED);
	if (!ok(mr && part, "a region of it, and of a part"))
		return;
	imported(mr, 16384, "device memory");
	ok(!ibv_reg_dm_mr(eb.pd, a, 8192, 8196, ALL | IBV_ACCESS_ZERO_BASED), "not of more");
	ok(!ibv_reg_dm_mr(eb.pd, a, 0, 4096, ALL), "not at an address");
	if (attr.odp_caps.general_caps)
		is(ibv_reg_dm_mr(eb.pd, a, 0, 4096,
				 ALL | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND) ? 0 : errno,
		   EOPNOTSUPP, "not on demand");

	up(&p);
	is(rdma_read(&p, 0, 16384, mr->rkey), 0, "read");
	ok(zero(p.buf[0] + BUF, 16384), "zeroes");
	is(rdma_write(&p, 100, 15000, mr->rkey), 0, "written");
	ok(!ibv_memcpy_from_dm(back, a, 100, 15000) && pattern_check(back, key, 0, 15000) < 0,
	   "the program finds it");
	is(rdma_read(&p, 0, 4096, part->rkey), 0, "the part read");
	ok(pattern_check(p.buf[0] + BUF, key, 8092, 4096) < 0, "and found as well");
	memset(back, 0, 8);
	back[0] = 40;
	ok(!ibv_memcpy_to_dm(a, 8192, back, 8), "a number put there");
	ok(fetch_add(&p, 0, part->rkey, 2, &old) && old == 40, "added to it");
	ok(!ibv_memcpy_from_dm(back, a, 8192, 8) && back[0] == 42, "the sum");
	refused(16380, mr->rkey, 8, IBV_WR_RDMA_WRITE, "beyond the end");
	refused(4092, part->rkey, 8, IBV_WR_RDMA_WRITE, "beyond the end of the part");
	pair_destroy(&p);

	ok(ibv_free_dm(a), "not freed while there are regions of it");
	dereg(mr);
	dereg(part);
	is(ibv_free_dm(a), 0, "freed then");

	a = dm_make(attr.max_dm_size);
	ok(a, "all of it");
	b = dm_make(4);
	ok(!b, "and no more");
	if (a)
		ok(!ibv_memcpy_from_dm(back, a, 0, 16384) && zero(back, 16384),
		   "none of what was there before");
	if (a)
		ibv_free_dm(a);
	b = dm_make(4);
	if (ok(b, "again, once it is freed"))
		ibv_free_dm(b);
	ok(!dm_make(attr.max_dm_size + 1), "more than there is");
}

/* --- another driver's buffer ----------------------------------------------------------- */

static void dmabuf(void)
{
	const uint64_t iova = 0x100001000;
	struct ibv_mr *mr;
	struct pair p;
	uint8_t *mem;
	int fd, memfd;

	fd = buffer_make(&memfd, BUF);
	if (fd < 0) {
		skip("no /dev/udmabuf", "another driver's buffer");
		return;
	}
	mr = ibv_reg_dmabuf_mr(eb.pd, PAGE, BUF - 2 * PAGE, iova, fd, LW | RW | RR);
	if (!mr && errno == EOPNOTSUPP) {
		skip("this kernel's udmabuf cannot be mapped", "another driver's buffer");
		return;
	}
	if (!ok(mr, "registered"))
		return;
	imported(mr, BUF - 2 * PAGE, "another driver's buffer");
	ok(!ibv_reg_dmabuf_mr(eb.pd, PAGE, BUF, iova, fd, LW), "not more than there is");
	ok(!ibv_reg_dmabuf_mr(eb.pd, 0, PAGE, 0, memfd, LW), "not a file");
	close(fd);

	up(&p);
	is(rdma_write(&p, iova + 123, 100000, mr->rkey), 0, "written");
	mem = mmap(NULL, BUF, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	ok(zero(mem, PAGE + 123) && pattern_check(mem + PAGE + 123, key, 0, 100000) < 0,
	   "its owner finds it");
	pattern_fill(mem + PAGE, 77, 0, 100000);
	is(rdma_read(&p, iova, 100000, mr->rkey), 0, "read");
	ok(pattern_check(p.buf[0] + BUF, 77, 0, 100000) < 0, "what its owner wrote");
	refused(iova + BUF - 2 * PAGE - 4, mr->rkey, 8, IBV_WR_RDMA_WRITE, "beyond the end");
	pair_destroy(&p);
	dereg(mr);
	munmap(mem, BUF);
	close(memfd);
}

/* One that its driver moves, unless it is pinned: what is written must not go where it was. */
static void dmabuf_moves(void)
{
	const size_t len = EXPORTER_SIZE;
	const int dev = open("/dev/sroce_exporter", O_RDWR);
	const int fd = dev < 0 ? -1 : ioctl(dev, EXPORTER_FD);
	uint8_t *there = malloc(len);
	struct ibv_mr *mr;
	struct pair p;
	int err;

	if (dev < 0 || !there) {
		skip("no /dev/sroce_exporter: make kverbs", "a buffer that moves");
		free(there);
		return;
	}
	ok(fd >= 0 && !ioctl(dev, EXPORTER_MOVE), "it can move");
	/* kernels refuse it before they ask the device */
	err = ibv_reg_dmabuf_mr(eb.pd, 0, len, 0, fd, LW | IBV_ACCESS_ON_DEMAND) ? 0 : errno;
	ok(err == EOPNOTSUPP || err == EINVAL, "not on demand (%s)", strerror(err));
	mr = ibv_reg_dmabuf_mr(eb.pd, 0, len, 0, fd, LW | RW | RR);
	if (!ok(mr, "registered"))
		return;
	ok(ioctl(dev, EXPORTER_MOVE) && errno == EBUSY, "it can't any more");
	close(fd);
	up(&p);
	is(rdma_write(&p, 0, len, mr->rkey), 0, "written");
	ok(pread(dev, there, len, 0) == (ssize_t)len && pattern_check(there, key, 0, len) < 0,
	   "its owner finds it");
	is(rdma_read(&p, 0, len, mr->rkey), 0, "read");
	ok(!memcmp(p.buf[0] + BUF, there, len), "what is there");
	pair_destroy(&p);
	dereg(mr);
	ok(!ioctl(dev, EXPORTER_MOVE), "deregistered: it can move");
	ok(!ibv_reg_dmabuf_mr(eb.pd, PAGE, len, 0, dev, LW), "not a file");
	free(there);
	close(dev);
}

/* --- windows, from the region's side ---------------------------------------------------- */

static int bind(struct pair *p, struct ibv_mw *mw, uint32_t rkey, struct ibv_mr *mr,
		uint64_t addr, uint64_t len, int access)
{
	errno = POST(p->qp[1], .wr_id = 3, .send_flags = IBV_SEND_SIGNALED,
		     .opcode = IBV_WR_BIND_MW,
		     .bind_mw = {
			     .mw = mw, .rkey = rkey,
			     .bind_info = {
				     .mr = mr, .addr = addr, .length = len,
				     .mw_access_flags = access,
			     },
		     });
	return errno ? -2 : wait_for(p->scq[1]);
}

/* Not at all, be it by the library or by the kernel. */
static void not_bound(struct ibv_mr *mr, uint64_t addr, uint64_t len, int access, const char *what)
{
	struct ibv_mw *mw = ibv_alloc_mw(eb.pd, IBV_MW_TYPE_2);
	struct pair p;
	int status;

	if (!mw)
		die("alloc_mw");
	up(&p);
	status = bind(&p, mw, ibv_inc_rkey(mw->rkey), mr, addr, len, access);
	ok(status == IBV_WC_MW_BIND_ERR || status == -2, "%s: not bound (%d)", what, status);
	refused(addr, ibv_inc_rkey(mw->rkey), 8, IBV_WR_RDMA_WRITE, what);
	is(ibv_dealloc_mw(mw), 0, "%s: window gone", what);
	pair_destroy(&p);
}

static void windows(void)
{
	struct ibv_pd *pd2 = ibv_alloc_pd(eb.ctx);
	uint8_t *mem = map(BUF);
	struct ibv_mr *mr = reg(mem, BUF, LW | BIND), *other;
	struct ibv_mw *mw = ibv_alloc_mw(eb.pd, IBV_MW_TYPE_2);
	uint64_t at = (uintptr_t)mem + 3000;
	struct pair p;
	uint32_t rkey;

	if (!mw)
		die("alloc_mw");
	rkey = ibv_inc_rkey(mw->rkey);
	up(&p);
	is(bind(&p, mw, rkey, mr, at, 5000, RW), 0, "bound");
	is(ibv_dereg_mr(mr), EBUSY, "its region stays");
	ok(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, LW | BIND | RR),
	   "as it is");
	is(rdma_write(&p, at, 5000, rkey), 0, "written through it");
	ok(zero(mem, 3000) && pattern_check(mem + 3000, key, 0, 5000) < 0, "there it is");
	is(bind(&p, mw, ibv_inc_rkey(rkey), mr, at, 50, RW), IBV_WC_MW_BIND_ERR,
	   "not bound again before it is invalidated");
	pair_destroy(&p);
	is(ibv_dereg_mr(mr), EBUSY, "bound still, without the queue pair");
	is(ibv_dealloc_mw(mw), 0, "window gone");
	dereg(mr);

	/* addresses that count from the window's beginning */
	mr = reg(mem, BUF, LW | BIND);
	mw = ibv_alloc_mw(eb.pd, IBV_MW_TYPE_2);
	rkey = ibv_inc_rkey(mw->rkey);
	up(&p);
	is(bind(&p, mw, rkey, mr, at, 5000, RW | IBV_ACCESS_ZERO_BASED), 0, "bound, zero-based");
	is(rdma_write(&p, 1, 4999, rkey), 0, "written from 1 on");
	ok(pattern_check(mem + 3001, key, 0, 4999) < 0, "there it is");
	refused(at, rkey, 8, IBV_WR_RDMA_WRITE, "another queue pair");
	ibv_dealloc_mw(mw);
	pair_destroy(&p);

	not_bound(mr, at, BUF, RW, "more than the region");
	not_bound(mr, (uintptr_t)mem - 8, 8, RW, "before the region");
	not_bound(mr, at, 0, RW, "type 2, of nothing");
	not_bound(mr, at, 8, RW | BIND, "an access there is not");
	dereg(mr);
	mr = reg(mem, BUF, ALL);
	not_bound(mr, at, 8, RW, "a region for no windows");
	dereg(mr);
	mr = reg(mem, BUF, BIND | RR);
	not_bound(mr, at, 8, RW, "a region that may not be written");
	dereg(mr);
	other = ibv_reg_mr(pd2, mem, BUF, LW | BIND);
	not_bound(other, at, 8, RW, "a region of another protection domain");
	dereg(other);
	ibv_dealloc_pd(pd2);
	munmap(mem, BUF);
}

/* A process ends with all that it has. */
static void leave(void)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		struct end a = ea, b = eb;
		struct ibv_mw *mw;
		struct ibv_mr *mr;
		struct pair p;

		end_open(&ea, a.name, NULL);
		end_open(&eb, b.name, NULL);
		up(&p);
		mr = mr_make(&eb, BUF, BIND);
		mw = ibv_alloc_mw(eb.pd, IBV_MW_TYPE_2);
		ibv_reg_mr(eb.pd, NULL, SIZE_MAX, ALL | ODP);
		dm_make(BUF);
		_exit(!mw || bind(&p, mw, ibv_inc_rkey(mw->rkey), mr, (uintptr_t)mr->addr, BUF, RR));
	}
	waitpid(pid, &status, 0);
	is(status, 0, "a process leaves a bound window behind");
}

/* --- on demand ------------------------------------------------------------------------- */

static void odp(void)
{
	uint8_t *mem = map(8 * BUF);
	struct ibv_mr *mr;
	uint64_t old, at = (uintptr_t)mem;
	struct pair p;

	if (!odp_there(&eb))
		return;
	mr = reg(mem, 8 * BUF, ALL | ODP);
	up(&p);
	is(rdma_write(&p, at + 10, BUF, mr->rkey), 0, "written where nothing was yet");
	ok(!mem[9] && pattern_check(mem + 10, key, 0, BUF) < 0, "there it is");
	is(rdma_read(&p, at + 3 * BUF - 10, BUF, mr->rkey), 0, "read where nothing was yet");
	ok(zero(p.buf[0] + BUF, BUF), "zeroes");
	is(rdma_write(&p, at + 3 * BUF, 100000, mr->rkey), 0, "written where it was only read");
	ok(pattern_check(mem + 3 * BUF, key, 0, 100000) < 0, "there it is");
	ok(fetch_add(&p, at + 5 * BUF, mr->rkey, 7, &old) && !old && mem[5 * BUF] == 7, "added");

	errno = ibv_post_recv(p.qp[1], &(struct ibv_recv_wr) {
			.num_sge = 1, .sg_list = SGE(at + 6 * BUF, 2 * BUF, mr->lkey) },
			&(struct ibv_recv_wr *) { NULL });
	pattern_fill(p.buf[0], ++key, 0, BUF);
	if (errno || pair_send(&p, 0, 1, 0, BUF, IBV_SEND_SIGNALED))
		die("post");
	is(wait_for(p.rcq[1]), 0, "received");
	is(wait_for(p.scq[0]), 0, "sent");
	ok(pattern_check(mem + 6 * BUF, key, 0, BUF) < 0, "there it is");

	if (pair_recv(&p, 0, 1, 0, BUF))
		die("post_recv");
	errno = POST(p.qp[1], .wr_id = 1, .send_flags = IBV_SEND_SIGNALED, .opcode = IBV_WR_SEND,
		     .num_sge = 1, .sg_list = SGE(at + 4 * BUF, 70000, mr->lkey));
	is(wait_for(p.rcq[0]), 0, "sent from where nothing was yet");
	is(wait_for(p.scq[1]), 0, "completed");
	ok(zero(p.buf[0], 70000), "zeroes");

	/* what the process does to it */
	madvise(mem, BUF, MADV_DONTNEED);
	is(rdma_read(&p, at, BUF, mr->rkey), 0, "read what was given back");
	ok(zero(p.buf[0] + BUF, BUF), "zeroes");
	is(rdma_write(&p, at, BUF, mr->rkey), 0, "written");
	ok(pattern_check(mem, key, 0, BUF) < 0, "there it is");

	mprotect(mem, BUF, PROT_READ);
	is(rdma_read(&p, at, BUF, mr->rkey), 0, "read what may be read");
	ok(pattern_check(p.buf[0] + BUF, key, 0, BUF) < 0, "there it is");
	refused(at + 8, mr->rkey, 8, IBV_WR_RDMA_WRITE, "written then");
	ok(pattern_check(mem, key, 0, BUF) < 0, "it is what it was");
	mprotect(mem, BUF, PROT_READ | PROT_WRITE);
	is(rdma_write(&p, at, BUF, mr->rkey), 0, "written again");
	ok(pattern_check(mem, key, 0, BUF) < 0, "there it is");

	unmap_refused(mem + 2 * BUF, BUF, at + 2 * BUF, mr->rkey);
	if (mmap(mem + 2 * BUF, BUF, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		die("mmap");
	is(rdma_write(&p, at + 2 * BUF, BUF, mr->rkey), 0, "once there is something again");
	ok(pattern_check(mem + 2 * BUF, key, 0, BUF) < 0, "there it is");
	pair_destroy(&p);
	dereg(mr);
	munmap(mem, 8 * BUF);
}

#define UC_LEN 200000

/* The peer of an unreliable connection tells nothing: what comes behind does. */
static int write_uc(struct pair *p, uint64_t raddr, uint32_t rkey)
{
	int status;

	if (pair_recv(p, 1, 2, 0, 8))
		die("post_recv");
	status = rdma_write(p, raddr, UC_LEN, rkey);
	if (pair_send(p, 0, 2, 0, 8, IBV_SEND_SIGNALED))
		die("post_send");
	return status ?: wait_for(p->scq[0]) ?: wait_for(p->rcq[1]);
}

/* Nobody sends again what comes before its memory does: it waits, whole messages of it. */
static void odp_uc(void)
{
	uint8_t *mem = map(4 * BUF);
	uint64_t at = (uintptr_t)mem;
	struct ibv_mr *mr;
	struct pair p;

	if (!odp_there(&eb))
		return;
	mr = reg(mem, 4 * BUF, LW | RW | ODP);
	pair_create(&p, &ea, &eb, &(struct pair_opts) {
		.sq = 64, .rq = 64, .sge = 4, .buf = 2 * BUF, .type = IBV_QPT_UC });
	p.conn.access = LW | RW;
	pair_connect(&p);

	errno = ibv_post_recv(p.qp[1], &(struct ibv_recv_wr) {
			.num_sge = 1, .sg_list = SGE(at + 10, BUF, mr->lkey) },
			&(struct ibv_recv_wr *) { NULL });
	pattern_fill(p.buf[0], ++key, 0, UC_LEN);
	if (errno || pair_send(&p, 0, 1, 0, UC_LEN, IBV_SEND_SIGNALED))
		die("post");
	is(wait_for(p.rcq[1]), 0, "received where nothing was yet");
	is(wait_for(p.scq[0]), 0, "sent");
	ok(zero(mem, 10) && pattern_check(mem + 10, key, 0, UC_LEN) < 0, "there it is");

	is(write_uc(&p, at + BUF + 10, mr->rkey), 0, "written where nothing was yet");
	ok(zero(mem + BUF, 10) && pattern_check(mem + BUF + 10, key, 0, UC_LEN) < 0, "there it is");
	madvise(mem + BUF, BUF, MADV_DONTNEED);
	is(write_uc(&p, at + BUF + 10, mr->rkey), 0, "written where it was given back");
	ok(zero(mem + BUF, 10) && pattern_check(mem + BUF + 10, key, 0, UC_LEN) < 0, "there it is");

	pattern_fill(p.buf[0], ++key, 0, UC_LEN);
	if (pair_recv(&p, 1, 3, 0, 0) ||
	    POST(p.qp[0], .wr_id = 1, .send_flags = IBV_SEND_SIGNALED, .num_sge = 1,
		 .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		 .sg_list = SGE(p.buf[0], UC_LEN, p.mr[0]->lkey),
		 .wr.rdma = { .remote_addr = at + 2 * BUF, .rkey = mr->rkey }))
		die("post");
	is(wait_for(p.rcq[1]), 0, "written with immediate data");
	is(wait_for(p.scq[0]), 0, "sent");
	ok(pattern_check(mem + 2 * BUF, key, 0, UC_LEN) < 0, "there it is");

	memset(p.buf[0], CANARY, UC_LEN);
	if (pair_recv(&p, 0, 4, 0, UC_LEN))
		die("post_recv");
	errno = POST(p.qp[1], .wr_id = 1, .send_flags = IBV_SEND_SIGNALED, .opcode = IBV_WR_SEND,
		     .num_sge = 1, .sg_list = SGE(at + 3 * BUF, UC_LEN, mr->lkey));
	is(wait_for(p.rcq[0]), 0, "sent from where nothing was yet");
	is(wait_for(p.scq[1]), 0, "completed");
	ok(zero(p.buf[0], UC_LEN), "zeroes");
	pair_destroy(&p);
	dereg(mr);
	munmap(mem, 4 * BUF);
}

static void up_atomic_write(struct pair *p)
{
	pair_create(p, &ea, &eb, &(struct pair_opts) {
		.sq = 64, .rq = 64, .sge = 1, .inl = 64, .buf = PAGE,
		.send_ops = IBV_QP_EX_WITH_ATOMIC_WRITE });
	p->conn.access = ALL;
	p->conn.timeout = 18;
	pair_connect(p);
}

static int atomic_write(struct pair *p, uint64_t raddr, uint32_t rkey, uint64_t word)
{
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(p->qp[0]);

	ibv_wr_start(x);
	x->wr_id = 1;
	x->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_write(x, rkey, raddr, &word);
	errno = ibv_wr_complete(x);
	if (errno)
		die("ATOMIC WRITE");
	return wait_for(p->scq[0]);
}

static bool word_is(const uint8_t *mem, uint64_t word)
{
	return !memcmp(mem, &word, sizeof(word)) && zero(mem + sizeof(word), PAGE - sizeof(word));
}

static void odp_atomic_write(void)
{
	uint8_t *mem = map(2 * PAGE);
	uint64_t at = (uintptr_t)mem;
	struct ibv_mr *mr;
	struct pair p;

	if (!odp_there(&eb))
		return;
	mr = reg(mem, 2 * PAGE, ALL | ODP);
	up_atomic_write(&p);
	is(atomic_write(&p, at, mr->rkey, 0x0123456789abcdef), 0, "written where nothing was yet");
	ok(word_is(mem, 0x0123456789abcdef), "there it is");
	madvise(mem, PAGE, MADV_DONTNEED);
	is(atomic_write(&p, at, mr->rkey, 42), 0, "written where it was given back");
	ok(word_is(mem, 42), "there it is");
	ok(zero(mem + PAGE, PAGE), "and nothing beside it");
	mprotect(mem, PAGE, PROT_READ);
	is(atomic_write(&p, at, mr->rkey, 43), IBV_WC_REM_ACCESS_ERR,
	   "to what may be read: refused");
	ok(word_is(mem, 42), "it is what it was");
	pair_destroy(&p);
	dereg(mr);
	munmap(mem, 2 * PAGE);
}

/* Parent and child share pages until one writes: by whatever way. */
static void odp_fork(void)
{
	uint8_t *mem = map(BUF);
	struct ibv_mr *mr;
	struct pair p;
	uint64_t before;
	int i, status = -1, go[2];
	pid_t pid;
	char c;

	if (!odp_there(&eb))
		return;
	mr = reg(mem, BUF, ALL | ODP);
	up(&p);
	for (i = 0; i < 3; i++) {
		is(rdma_write(&p, (uintptr_t)mem, BUF, mr->rkey), 0, "written");
		before = key;
		fflush(stdout);
		if (pipe(go))
			die("pipe");
		pid = fork();
		if (!pid) {
			/* the middle one writes as well */
			if (i == 1)
				memset(mem + PAGE, 1, PAGE);
			if (read(go[0], &c, 1) != 1 || pattern_check(mem, before, 0, PAGE) >= 0 ||
			    pattern_check(mem + 2 * PAGE, before, 2 * PAGE, BUF - 2 * PAGE) >= 0)
				_exit(1);
			_exit(0);
		}
		is(rdma_write(&p, (uintptr_t)mem, BUF, mr->rkey), 0, "written with a child");
		ok(pattern_check(mem, key, 0, BUF) < 0, "the parent has it");
		if (write(go[1], "", 1) != 1)
			die("write");
		waitpid(pid, &status, 0);
		is(status, 0, "the child has not");
		close(go[0]);
		close(go[1]);
	}
	is(rdma_write(&p, (uintptr_t)mem, BUF, mr->rkey), 0, "written without");
	ok(pattern_check(mem, key, 0, BUF) < 0, "there it is");
	pair_destroy(&p);
	dereg(mr);
	munmap(mem, BUF);
}

static void odp_shared(void)
{
	int fd = memfd_create("shared", 0);
	static uint8_t back[BUF];
	struct ibv_mr *mr;
	struct pair p;
	uint8_t *mem;

	if (!odp_there(&eb))
		return;
	if (fd < 0 || ftruncate(fd, BUF))
		die("memfd");
	mem = mmap(NULL, BUF, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	mr = reg(mem, BUF, ALL | ODP);
	up(&p);
	is(rdma_read(&p, (uintptr_t)mem, BUF, mr->rkey), 0, "a file read");
	is(rdma_write(&p, (uintptr_t)mem, BUF, mr->rkey), 0, "and written");
	unmap_refused(mem, BUF, (uintptr_t)mem, mr->rkey);
	ok(pread(fd, back, BUF, 0) == (ssize_t)BUF && pattern_check(back, key, 0, BUF) < 0,
	   "the file has it");
	pair_destroy(&p);
	dereg(mr);
	close(fd);
}

/* more chunks of address space (2 MiB each) than are kept when they are empty */
#define CHUNK ((size_t)2 << 20)
#define FAR (1200 * CHUNK)

static void odp_implicit(void)
{
	uint8_t *mem = map(8 * BUF), *space, *far;
	struct ibv_mr *mr;
	struct pair p;
	size_t i;

	if (!odp_there(&eb))
		return;
	mr = ibv_reg_mr(eb.pd, NULL, SIZE_MAX, ALL | ODP);
	if (!ok(mr, "all of the process"))
		return;
	up(&p);
	for (i = 0; i < 8; i++)
		if (rdma_write(&p, (uintptr_t)mem + i * BUF, BUF, mr->rkey) ||
		    pattern_check(mem + i * BUF, key, 0, BUF) >= 0)
			break;
	is(i, 8, "written");
	unmap_refused(mem, 8 * BUF, (uintptr_t)mem + 4 * BUF, mr->rkey);
	refused(0, mr->rkey, 8, IBV_WR_RDMA_READ, "address 0");
	refused(-PAGE, mr->rkey, 8, IBV_WR_RDMA_READ, "the kernel's");
	refused(-PAGE, mr->rkey, 8, IBV_WR_RDMA_WRITE, "the kernel's");
	refused((1UL << 47) - 8, mr->rkey, 16, IBV_WR_RDMA_WRITE, "up to the kernel's");

	space = mmap(NULL, FAR + CHUNK, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (space == MAP_FAILED)
		die("mmap");
	/* a huge page that is given back in part is no smaller: they would be all of the memory */
	far = (uint8_t *)(((uintptr_t)space + CHUNK - 1) & -CHUNK);
	for (i = 0; i < FAR; i += CHUNK) {
		if (rdma_write(&p, (uintptr_t)far + i, 64, mr->rkey) ||
		    pattern_check(far + i, key, 0, 64) >= 0)
			break;
		madvise(far + i, CHUNK, MADV_DONTNEED);
	}
	is(i, FAR, "here and there");
	munmap(space, FAR + CHUNK);
	pair_destroy(&p);
	dereg(mr);
}

static int advise(uint64_t addr, uint32_t len, uint32_t lkey, enum ibv_advise_mr_advice advice,
		  bool flush)
{
	struct ibv_sge sge = { .addr = addr, .length = len, .lkey = lkey };

	return ibv_advise_mr(eb.pd, advice, flush ? IBV_ADVISE_MR_FLAG_FLUSH : 0, &sge, 1);
}

static void odp_advise(void)
{
	const enum ibv_advise_mr_advice rd = IBV_ADVISE_MR_ADVICE_PREFETCH;
	const enum ibv_advise_mr_advice wr = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	const enum ibv_advise_mr_advice no = IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
	struct ibv_pd *pd2 = ibv_alloc_pd(eb.ctx);
	struct ibv_mr *mr, *ro, *pinned, *foreign;
	uint8_t *mem = map(BUF);
	uint64_t at = (uintptr_t)mem;
	unsigned char in[BUF / PAGE];
	struct pair p;

	if (!odp_there(&eb))
		return;
	mr = reg(mem, BUF, ALL | ODP);
	ro = reg(mem, BUF, RR | ODP);
	pinned = mr_make(&eb, PAGE, 0);
	foreign = ibv_reg_mr(pd2, mem, BUF, ALL | ODP);
	is(advise(at, BUF, mr->lkey, no, true), 0, "what is there already");
	is(mincore(mem, BUF, in) || in[0] & 1, 0, "brings nothing in");
	is(advise(at + 100, 100000, mr->lkey, rd, true), 0, "to be read");
	is(advise(at, BUF / 2, mr->lkey, wr, true), 0, "to be written");
	ok(!mincore(mem, BUF, in) && in[0] & in[BUF / 2 / PAGE - 1] & 1 &&
	   !(in[BUF / 2 / PAGE] & 1), "brings so much in");
	is(advise(at, BUF, mr->lkey, wr, false), 0, "later");
	up(&p);
	is(rdma_write(&p, at, BUF, mr->rkey), 0, "written");
	ok(pattern_check(mem, key, 0, BUF) < 0, "there it is");

	is(advise(at, BUF + 1, mr->lkey, rd, true), EFAULT, "more than the region");
	is(advise(at, BUF + 1, mr->lkey, rd, false), EFAULT, "more than the region, later");
	is(advise(at, PAGE, mr->lkey + 1, rd, true), ENOENT, "no such key");
	is(advise(at, PAGE, foreign->lkey, rd, true), EPERM, "another protection domain");
	is(advise(at, PAGE, ro->lkey, wr, true), EPERM, "to be written, what may be read");
	is(advise((uintptr_t)pinned->addr, PAGE, pinned->lkey, rd, true), EINVAL, "a pinned region");
	munmap(mem + BUF / 2, BUF / 2);
	is(advise(at, BUF, mr->lkey, rd, true), EFAULT, "what is not there");
	is(advise(at, BUF, mr->lkey, rd, false), 0, "what is not there, later");
	is(advise(at, BUF, mr->lkey, no, true), 0, "what is there of it");

	/* the region goes while it is being brought in */
	is(advise(at, BUF / 2, mr->lkey, wr, false), 0, "later");
	pair_destroy(&p);
	dereg(mr);
	dereg(ro);
	dereg(foreign);
	mr_drop(pinned);
	ibv_dealloc_pd(pd2);
	munmap(mem, BUF / 2);
}

static long page_tables(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[128];
	long kb = -1;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmPTE: %ld", &kb) == 1)
			break;
	if (f)
		fclose(f);
	return kb;
}

/* 4 GiB are to be brought, and then the region goes. */
static void odp_advise_ends(void)
{
	const size_t len = 4UL << 30;
	const uint64_t all = len / PAGE * 8 / 1024;
	struct ibv_mr *mr;
	uint8_t *mem;
	long before;

	if (!odp_there(&eb))
		return;
	mem = mmap(NULL, len, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mem == MAP_FAILED)
		die("mmap");
	madvise(mem, len, MADV_NOHUGEPAGE);
	mr = reg(mem, len, RR | ODP);
	before = page_tables();
	is(advise((uintptr_t)mem, UINT32_MAX, mr->lkey, IBV_ADVISE_MR_ADVICE_PREFETCH, false), 0,
	   "4 GiB are to be read soon");
	while (page_tables() == before)
		sleep_ms(1);
	dereg(mr);
	between(page_tables() - before, 1, all * 3 / 4, "KB of page tables: the region goes first");
	munmap(mem, len);
}

/* Memory that not even the kernel can see: neither can a device that is software. */
static void odp_secret(void)
{
	int fd = syscall(SYS_memfd_secret, 0);
	uint8_t *mem, *secret;
	struct ibv_mr *mr;
	struct pair p;

	if (!odp_there(&eb))
		return;
	if (fd < 0) {
		skip("no memfd_secret() in this kernel", "secret memory");
		return;
	}
	mem = map(3 * PAGE);
	secret = mem + PAGE;
	if (ftruncate(fd, PAGE) ||
	    mmap(secret, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != secret)
		die("memfd_secret");
	pattern_fill(mem, 7, 0, 3 * PAGE);
	is(ibv_reg_mr(eb.pd, secret, PAGE, ALL) == NULL, 1, "pinned: refused");
	mr = reg(mem, 3 * PAGE, ALL | ODP);
	is(advise((uintptr_t)secret, PAGE, mr->lkey, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, true),
	   EFAULT, "on demand: not brought in");
	up(&p);
	is(rdma_read(&p, (uintptr_t)mem, PAGE, mr->rkey), 0, "what is before it is read");
	is(rdma_read(&p, (uintptr_t)secret, 8, mr->rkey), IBV_WC_REM_ACCESS_ERR, "it is not read");
	pair_destroy(&p);
	up(&p);
	is(rdma_write(&p, (uintptr_t)secret + PAGE, PAGE, mr->rkey), 0, "what is behind it is written");
	is(rdma_write(&p, (uintptr_t)secret, 8, mr->rkey), IBV_WC_REM_ACCESS_ERR, "it is not written");
	pair_destroy(&p);
	up(&p);
	errno = POST(p.qp[1], .wr_id = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
		     .num_sge = 1, .sg_list = SGE(secret, 8, mr->lkey));
	if (errno)
		die("post_send");
	wc_is(p.scq[1], 1, IBV_WC_LOC_PROT_ERR, NULL, "nor sent");
	pair_destroy(&p);
	ok(pattern_check(secret, 7, PAGE, PAGE) < 0, "every byte is as it was");
	dereg(mr);
	munmap(mem, 3 * PAGE);
	close(fd);
}

static uint8_t *sent_from;

static void *drop_thread(void *arg)
{
	struct rng r = { .s = 1 };
	long n = 0;

	while (!stop) {
		size_t page = rng_in(&r, 0, BUF / PAGE - 1);

		switch (rng_in(&r, 0, 9)) {
		case 0:
			madvise(arg, BUF, MADV_DONTNEED);
			break;
		case 1:
			/* who writes there itself would die of it */
			if (arg == sent_from)
				break;
			mprotect((char *)arg + page * PAGE, PAGE, PROT_READ);
			mprotect((char *)arg + page * PAGE, PAGE, PROT_READ | PROT_WRITE);
			break;
		default:
			madvise((char *)arg + page * PAGE, PAGE, MADV_DONTNEED);
		}
		n++;
		if (!(n % 8))
			usleep(100);
	}
	return (void *)n;
}

/* Programs of a link that may have memory on demand: SROCE_MAX_FAULTING */
#define FAULTING 512

/* Threads of the kernel wait for such memory, which nobody is charged for: so many programs' at most. */
static void odp_programs(void)
{
	struct ibv_context *ctx[FAULTING] = {};
	struct ibv_pd *pd[FAULTING] = {};
	struct ibv_mr *mr[FAULTING] = {}, *mine;
	uint8_t *mem = map(PAGE);
	unsigned int made = 0;

	if (!odp_there(&eb))
		return;
	if (setrlimit(RLIMIT_NOFILE, &(struct rlimit) { 4 * FAULTING, 4 * FAULTING }))
		die("setrlimit");
	mine = reg(mem, PAGE, ALL | ODP);
	for (made = 0; made < FAULTING; made++) {
		ctx[made] = ibv_open_device(eb.ctx->device);
		pd[made] = ctx[made] ? ibv_alloc_pd(ctx[made]) : NULL;
		if (!pd[made])
			die("context %u", made);
		mr[made] = ibv_reg_mr(pd[made], mem, PAGE, ALL | ODP);
		if (!mr[made])
			break;
	}
	is(made < FAULTING ? errno : 0, ENOMEM, "memory on demand for one more program");
	is(made, FAULTING - 1, "after so many, beside this one");
	if (made < FAULTING) {
		mr[made] = ibv_reg_mr(pd[made], mem, PAGE, ALL);
		ok(mr[made], "pinned memory, it may have");
		ibv_dereg_mr(mr[made]);
	}
	ibv_dereg_mr(mr[0]);
	ibv_dealloc_pd(pd[0]);
	ibv_close_device(ctx[0]);
	if (made < FAULTING) {
		mr[made] = ibv_reg_mr(pd[made], mem, PAGE, ALL | ODP);
		ok(mr[made], "and on demand, when another one has gone");
	}
	for (unsigned int i = 1; i < FAULTING && ctx[i]; i++) {
		if (mr[i])
			ibv_dereg_mr(mr[i]);
		ibv_dealloc_pd(pd[i]);
		ibv_close_device(ctx[i]);
	}
	ibv_dereg_mr(mine);
	munmap(mem, PAGE);
}

/* Pages go all the time: what arrives is what was written, or given back since. */
static void odp_traffic(void)
{
	uint8_t *mem = map(BUF), *src = map(BUF);
	uint8_t *want = malloc(BUF);
	struct ibv_mr *mr, *from;
	int i, writes = 0;
	size_t bad = 0, k;
	pthread_t t, u;
	struct pair p;
	void *n;

	if (!odp_there(&eb))
		return;
	mr = reg(mem, BUF, ALL | ODP);
	from = ibv_reg_mr(ea.pd, src, BUF, LW | ODP);
	up(&p);
	stop = false;
	sent_from = src;
	pthread_create(&t, NULL, drop_thread, mem);
	pthread_create(&u, NULL, drop_thread, src);
	pattern_fill(want, ++key, 0, BUF);
	for (i = 0; i < 60; i++) {
		memcpy(src, want, BUF);
		errno = POST(p.qp[0], .wr_id = 1, .send_flags = IBV_SEND_SIGNALED,
			     .opcode = IBV_WR_RDMA_WRITE, .num_sge = 1,
			     .sg_list = SGE(src, BUF, from->lkey),
			     .wr.rdma = { .remote_addr = (uintptr_t)mem, .rkey = mr->rkey });
		if (errno)
			die("post_send");
		switch (wait_for(p.scq[0])) {
		case IBV_WC_SUCCESS:
			writes++;
			break;
		case IBV_WC_REM_ACCESS_ERR:
		case IBV_WC_LOC_PROT_ERR:
			/* it met a page that may just then not be written */
			pair_destroy(&p);
			up(&p);
			break;
		default:
			i = 1000;
		}
		for (k = 0; k < BUF; k++)
			bad += mem[k] && mem[k] != want[k];
	}
	stop = true;
	pthread_join(t, &n);
	pthread_join(u, NULL);
	ok(i == 60 && writes, "%d writes of 60 while pages go (%ld times)", writes, (long)n);
	is(bad, 0, "no byte that is neither new nor given back");
	memcpy(src, want, BUF);
	is(rdma_write(&p, (uintptr_t)mem, BUF, mr->rkey), 0, "written in peace");
	ok(pattern_check(mem, key, 0, BUF) < 0, "there it is");
	pair_destroy(&p);
	dereg(mr);
	dereg(from);
	munmap(mem, BUF);
	munmap(src, BUF);
	free(want);
}

/* --- pages that the kernel moves --------------------------------------------------------- */

#define HUGE (2UL << 20)
#define STIRRED (2 * HUGE)

/* older headers lack them */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

static uint8_t *map_huge(size_t len)
{
	const uintptr_t at = (uintptr_t)map(len + HUGE), from = (at + HUGE - 1) & ~(HUGE - 1);

	if ((from > at && munmap((void *)at, from - at)) ||
	    munmap((void *)(from + len), at + HUGE - from))
		die("munmap");
	return (uint8_t *)from;
}

/* A line of /proc/vmstat */
static long vmstat(const char *name)
{
	FILE *f = fopen("/proc/vmstat", "r");
	char line[128], which[64];
	long n, found = -1;

	while (f && found < 0 && fgets(line, sizeof(line), f))
		if (sscanf(line, "%63s %ld", which, &n) == 2 && !strcmp(which, name))
			found = n;
	if (f)
		fclose(f);
	return found;
}

static bool sysfs(const char *name, const char *value)
{
	FILE *f = fopen(name, "w");
	const bool done = f && fputs(value, f) >= 0;

	return f && !fclose(f) && done;
}

/* What a thread does to memory again and again, none of which changes what it says */
static void stir_out(uint8_t *mem, struct rng *r)
{
	const size_t page = rng_in(r, 0, STIRRED / PAGE - 1);
	const size_t n = rng_in(r, 1, min(STIRRED / PAGE - page, 100UL));

	madvise(mem + page * PAGE, n * PAGE, MADV_PAGEOUT);
}

static void stir_huge(uint8_t *mem, struct rng *r)
{
	uint8_t *page = mem + rng_in(r, 0, STIRRED / PAGE - 1) * PAGE;

	madvise(mem + rng_in(r, 0, 1) * HUGE, HUGE, MADV_COLLAPSE);
	usleep(rng_in(r, 0, 2000));
	/* a mapping of its own for one page splits it */
	mprotect(page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
	mprotect(page, PAGE, PROT_READ | PROT_WRITE);
}

/* A child has all of it until one of the two writes there. */
static void stir_fork(uint8_t *mem, struct rng *r)
{
	const size_t page = rng_in(r, 0, STIRRED / PAGE - 1);
	const unsigned int us = rng_in(r, 0, 3000);
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (!pid) {
		memset(mem + page * PAGE, CANARY, min(STIRRED / PAGE - page, 20UL) * PAGE);
		usleep(us);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static const struct stir {
	const char *name;
	void (*fn)(uint8_t *mem, struct rng *r);
	const char *counted;		/* of vmstat's, for memory that is not pinned */
} stirs[] = {
	{ "paged out", stir_out, "pswpout" },
	{ "huge pages made and split", stir_huge, "thp_split_pmd" },
	{ "children", stir_fork, NULL },
};

struct stirring {
	const struct stir *how;
	uint8_t *mem;
	atomic_uint n;
};

#define STIRS 40

static void *stir_thread(void *arg)
{
	struct stirring *s = arg;
	struct rng r = { .s = 1 };

	for (; !stop; s->n++) {
		s->how->fn(s->mem, &r);
		usleep(300);
	}
	return NULL;
}

/* READs, WRITEs and ATOMICs, and the process itself: all of them find what is in @want. */
static unsigned int stirred_traffic(struct pair *p, struct stirring *s, uint8_t *want,
				    uint32_t rkey)
{
	struct rng r = { .s = 2 };
	uint8_t *mem = s->mem;
	unsigned int bad = 0;

	for (int i = 0; (i < 300 || s->n < STIRS) && bad < 5; i++) {
		const size_t len = rng_in(&r, 1, 20000), off = rng_in(&r, 0, STIRRED - len) & ~7UL;
		const uint64_t at = (uintptr_t)mem + off;
		uint64_t old, was;
		int status = 0;
		bool good = true;

		switch (i % 5) {
		case 0:
			status = rdma_write(p, at, len, rkey);
			pattern_fill(want + off, key, 0, len);
			break;
		case 1:
			status = rdma_read(p, at, len, rkey);
			good = !memcmp(p->buf[0] + BUF, want + off, len);
			break;
		case 2:
			memcpy(&was, want + off % (STIRRED - 8), 8);
			status = !fetch_add(p, (uintptr_t)mem + off % (STIRRED - 8), rkey, i, &old);
			good = old == was;
			was += i;
			memcpy(want + off % (STIRRED - 8), &was, 8);
			break;
		case 3:
			pattern_fill(mem + off, ++key, 0, len);
			pattern_fill(want + off, key, 0, len);
			break;
		default:
			good = !memcmp(mem + off, want + off, len);
		}
		if (status || !good) {
			diag("round %d, %zu bytes at %#zx: status %d, %s", i, len, off, status,
			     good ? "the data is right" : "other data");
			bad++;
		}
	}
	return bad;
}

static void stirred(int access)
{
	const char *kind = access & ODP ? "on demand" : "pinned";

	for (size_t i = 0; i < ARRAY_SIZE(stirs); i++) {
		struct stirring s = { .how = &stirs[i], .mem = map_huge(STIRRED) };
		uint8_t *want = calloc(1, STIRRED);
		struct ibv_mr *mr = reg(s.mem, STIRRED, ALL | access);
		long before = s.how->counted ? vmstat(s.how->counted) : 0, since;
		pthread_t t;
		struct pair p;

		up(&p);
		stop = false;
		if (!want || pthread_create(&t, NULL, stir_thread, &s))
			die("no memory, or no thread");
		is(stirred_traffic(&p, &s, want, mr->rkey), 0, "%s, %s: what is wrong", kind,
		   s.how->name);
		stop = true;
		pthread_join(t, NULL);
		since = s.how->counted ? vmstat(s.how->counted) - before : s.n;
		ok(!memcmp(s.mem, want, STIRRED), "every byte, after %u times", s.n);
		if (access & ODP && since)
			ok(true, "the kernel did so: %ld", since);
		else if (access & ODP)
			skip("no such thing in this kernel, or no swap", "the kernel did so");
		pair_destroy(&p);
		dereg(mr);
		munmap(s.mem, STIRRED);
		free(want);
	}
}

static void pinned_stirred(void)
{
	stirred(0);
}

static void odp_stirred(void)
{
	if (odp_there(&eb))
		stirred(ODP);
}

static void move(uint8_t *from, uint8_t *to)
{
	if (mremap(from, HUGE, HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to)
		die("mremap");
}

/*
 * Other memory takes the region's address, page by page or by huge pages. A region on demand is
 * its addresses, and a pinned one its pages.
 */
static void moved(int access, bool huge)
{
	uint8_t *mem = map_huge(HUGE), *other = map_huge(HUGE), *away = map_huge(HUGE);
	const char *kind = access & ODP ? "on demand" : "pinned";
	const uint64_t at = (uintptr_t)mem;
	uint8_t *there = access & ODP ? mem : away;
	uint64_t first, second = 1000, old, was;
	struct ibv_mr *mr;
	struct pair p;

	for (int i = 0; i < 2; i++)
		madvise(i ? mem : other, HUGE, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	pattern_fill(other, second, 0, HUGE);
	mr = reg(mem, HUGE, ALL | access);
	up(&p);
	is(rdma_write(&p, at, BUF, mr->rkey), 0, "%s, %s pages: written", kind,
	   huge ? "huge" : "small");
	first = key;
	move(mem, away);
	move(other, mem);
	is(rdma_read(&p, at, BUF, mr->rkey), 0, "other memory has come there: read");
	ok(pattern_check(p.buf[0] + BUF, access & ODP ? second : first, 0, BUF) < 0,
	   "it is what is %s", access & ODP ? "there" : "pinned");
	is(rdma_write(&p, at + PAGE, BUF, mr->rkey), 0, "written");
	ok(pattern_check(there + PAGE, key, 0, BUF) < 0, "it is in the one");
	ok(pattern_check(access & ODP ? away : mem, access & ODP ? first : second, 0, BUF) < 0,
	   "and not in the other");
	memcpy(&was, there, 8);
	ok(fetch_add(&p, at, mr->rkey, 5, &old) && old == was, "added");
	memcpy(&old, there, 8);
	is(old - was, 5, "to that");
	pair_destroy(&p);
	dereg(mr);
	munmap(mem, HUGE);
	munmap(away, HUGE);
}

static void pinned_moved(void)
{
	moved(0, false);
	moved(0, true);
}

static void odp_moved(void)
{
	if (!odp_there(&eb))
		return;
	moved(ODP, false);
	moved(ODP, true);
}

#define SAME 64		/* pages */

/* Pages that say the same become one, until somebody writes to one of them: by whatever way. */
static void odp_merged(void)
{
	uint8_t *mem = map(SAME * PAGE);
	const uint64_t at = (uintptr_t)mem;
	uint64_t old, was, ours;
	struct ibv_mr *mr;
	struct pair p;
	double end;
	int i;

	if (!odp_there(&eb))
		return;
	if (!sysfs("/sys/kernel/mm/ksm/pages_to_scan", "5000") ||
	    !sysfs("/sys/kernel/mm/ksm/sleep_millisecs", "5") ||
	    !sysfs("/sys/kernel/mm/ksm/run", "1") ||
	    madvise(mem, SAME * PAGE, MADV_MERGEABLE)) {
		skip("no KSM in this kernel", "pages that are merged");
		return;
	}
	mr = reg(mem, SAME * PAGE, ALL | ODP);
	up(&p);
	pattern_fill(p.buf[0], ++key, 0, PAGE);
	for (i = 0; i < SAME; i++)
		if (rdma(&p, IBV_WR_RDMA_WRITE, 0, PAGE, at + i * PAGE, mr->rkey))
			break;
	is(i, SAME, "the same is written to %d pages", SAME);
	ours = key;
	for (end = now() + PATIENCE; now() < end; sleep_ms(10)) {
		FILE *f = fopen("/sys/kernel/mm/ksm/pages_sharing", "r");
		long n = 0;

		if (f && fscanf(f, "%ld", &n) != 1)
			n = 0;
		if (f)
			fclose(f);
		if (n >= SAME - 2)
			break;
	}
	ok(now() < end, "they are one");
	is(rdma_read(&p, at, SAME * PAGE, mr->rkey), 0, "read");
	for (i = 0; i < SAME && pattern_check(p.buf[0] + BUF + i * PAGE, ours, 0, PAGE) < 0; i++)
		;
	is(i, SAME, "pages that are what they were");
	is(rdma_write(&p, at + 3 * PAGE, PAGE, mr->rkey), 0, "one is written to");
	memcpy(&was, mem + 5 * PAGE, 8);
	ok(fetch_add(&p, at + 5 * PAGE, mr->rkey, 1, &old) && old == was, "another is added to");
	ok(pattern_check(mem + 3 * PAGE, key, 0, PAGE) < 0, "it is what was written");
	memcpy(&old, mem + 5 * PAGE, 8);
	is(old - was, 1, "and that what was added");
	ok(pattern_check(mem + 5 * PAGE + 8, ours, 8, PAGE - 8) < 0, "and nothing else");
	for (i = 0; i < SAME; i++)
		if (i != 3 && i != 5 && pattern_check(mem + i * PAGE, ours, 0, PAGE) >= 0)
			break;
	is(i, SAME, "the others have nothing of it");
	is(rdma_read(&p, at, SAME * PAGE, mr->rkey), 0, "read");
	ok(!memcmp(p.buf[0] + BUF, mem, SAME * PAGE), "it is what the process has");
	sysfs("/sys/kernel/mm/ksm/run", "2");
	sysfs("/sys/kernel/mm/ksm/run", "0");
	pair_destroy(&p);
	dereg(mr);
	munmap(mem, SAME * PAGE);
}

static const struct test tests[] = {
	TEST(rereg),
	TEST(rereg_traffic),
	TEST(null),
	TEST(dm),
	TEST(dmabuf),
	TEST(dmabuf_moves),
	TEST(windows),
	TEST(leave),
	TEST(odp),
	TEST(odp_uc),
	TEST(odp_atomic_write),
	TEST(odp_fork),
	TEST(odp_shared),
	TEST(odp_implicit),
	TEST(odp_advise),
	TEST(odp_advise_ends),
	TEST(odp_secret),
	TEST(odp_programs),
	TEST(odp_traffic),
	TEST(pinned_stirred),
	TEST(odp_stirred),
	TEST(pinned_moved),
	TEST(odp_moved),
	TEST(odp_merged),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
