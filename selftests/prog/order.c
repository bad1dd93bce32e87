// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The order of what a connection does to memory, as a thread sees it that watches that memory:
 * who finds what a request wrote finds all that those before it wrote, and who is told of a
 * message as well. How the bytes of one request come is not promised, and not looked at.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common.h"

static struct end ea, eb;

#define PAGE		4096UL
#define MANY		250
#define DATA		(PAGE - 8)	/* a flag is behind it */
#define DEPTH		24		/* pairs of requests that are under way */
#define ODP		IBV_ACCESS_ON_DEMAND
#define REMOTE		(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
			 IBV_ACCESS_REMOTE_ATOMIC)

/* What comes behind a WRITE of data, and tells of it */
enum second { WRITE, INLINE, FETCH_ADD, CMP_SWP, ATOMIC_WRITE, SEND, WRITE_IMM, SECONDS };

static const char * const name[SECONDS] = {
	"WRITE", "WRITE of inline data", "FETCH_ADD", "CMP_SWP", "ATOMIC WRITE", "SEND",
	"WRITE of nothing with immediate data",
};

/* A page for each round, whose last word is its flag if those have none of their own */
struct watch {
	struct pair p;
	struct ibv_mr *out, *in, *flags;
	uint64_t round;
	enum second second;
	bool apart;
	atomic_bool stop;
	atomic_uint seen, wrong;
};

static uint64_t key_of(const struct watch *w, unsigned int n)
{
	return mix64(w->round << 32 | n);
}

/* Every fourth reaches the flag */
static uint32_t len_of(const struct watch *w, unsigned int n)
{
	return n % 4 ? 1 + key_of(w, n) % DATA : DATA;
}

static uint64_t *flag_at(const struct watch *w, unsigned int n)
{
	return w->apart ? (uint64_t *)w->flags->addr + n :
		(uint64_t *)((uint8_t *)w->in->addr + n * PAGE + DATA);
}

static void has_data(struct watch *w, unsigned int n)
{
	const int64_t at = pattern_check((uint8_t *)w->in->addr + n * PAGE, key_of(w, n), 0,
					 len_of(w, n));

	if (at >= 0 && atomic_fetch_add(&w->wrong, 1) < 10)
		diag("round %u, %u: byte %u of %u is not there, and what comes behind is",
		     (unsigned int)w->round, n, (unsigned int)at, len_of(w, n));
}

/* As far as the last flag that is there */
static void *watch_flags(void *arg)
{
	struct watch *w = arg;
	unsigned int n = 0, last;

	while (n < MANY && !atomic_load(&w->stop)) {
		for (last = MANY; last > n; last--)
			if (__atomic_load_n(flag_at(w, last - 1), __ATOMIC_ACQUIRE) == w->round)
				break;
		if (last == n)
			sched_yield();
		for (; n < last; n++)
			has_data(w, n);
		atomic_store(&w->seen, n);
	}
	return NULL;
}

static void *watch_messages(void *arg)
{
	struct watch *w = arg;
	unsigned int n = 0;
	struct ibv_wc wc;

	while (n < MANY && !atomic_load(&w->stop)) {
		if (ibv_poll_cq(w->p.rcq[1], 1, &wc) != 1) {
			sched_yield();
			continue;
		}
		if (wc.status || be32toh(wc.imm_data) != n)
			die("message %u: %s, immediate data %u", n, ibv_wc_status_str(wc.status),
			    be32toh(wc.imm_data));
		has_data(w, n++);
		atomic_store(&w->seen, n);
	}
	return NULL;
}

static void post_pair(struct watch *w, unsigned int n)
{
	uint8_t *from = (uint8_t *)w->out->addr + n * PAGE;
	uint64_t *word = (uint64_t *)(from + DATA);
	const uint32_t rkey = w->apart ? w->flags->rkey : w->in->rkey;
	const uint64_t at = (uintptr_t)flag_at(w, n);
	struct ibv_send_wr wr = {
		.wr_id = n, .send_flags = IBV_SEND_SIGNALED, .num_sge = 1,
		.sg_list = SGE(word, 8, w->out->lkey),
		.wr.rdma = { .remote_addr = at, .rkey = rkey },
		.imm_data = htobe32(n),
	};

	pattern_fill(from, key_of(w, n), 0, len_of(w, n));
	*word = w->round;
	errno = POST(w->p.qp[0], .wr_id = n, .opcode = IBV_WR_RDMA_WRITE, .num_sge = 1,
		     .sg_list = SGE(from, len_of(w, n), w->out->lkey),
		     .wr.rdma = { .remote_addr = (uintptr_t)w->in->addr + n * PAGE,
				  .rkey = w->in->rkey });
	if (errno)
		die("post the WRITE of %u", n);
	switch (w->second) {
	case INLINE:
		wr.send_flags |= IBV_SEND_INLINE;
		/* fall through */
	case WRITE:
		wr.opcode = IBV_WR_RDMA_WRITE;
		break;
	case FETCH_ADD:
	case CMP_SWP:
		wr.opcode = w->second == CMP_SWP ? IBV_WR_ATOMIC_CMP_AND_SWP :
			    IBV_WR_ATOMIC_FETCH_AND_ADD;
		wr.wr.atomic.remote_addr = at;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = w->second == CMP_SWP ? w->round - 1 : 1;
		wr.wr.atomic.swap = w->round;
		break;
	case ATOMIC_WRITE: {
		struct ibv_qp_ex *x = ibv_qp_to_qp_ex(w->p.qp[0]);

		ibv_wr_start(x);
		x->wr_id = n;
		x->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_atomic_write(x, rkey, at, word);
		errno = ibv_wr_complete(x);
		if (errno)
			die("post ATOMIC WRITE %u", n);
		return;
	}
	case SEND:
		wr.opcode = IBV_WR_SEND_WITH_IMM;
		break;
	default:
		wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		wr.num_sge = 0;
	}
	errno = wr_post(w->p.qp[0], &wr);
	if (errno)
		die("post what tells of %u", n);
}

static void complete(struct watch *w, unsigned int n)
{
	struct ibv_wc wc;

	if (!cq_wait(w->p.scq[0], &wc, PATIENCE))
		die("%s: no completion of %u", name[w->second], n);
	if (wc.status || wc.wr_id != n)
		die("%s: completion of %llu, where %u was to come: %s (vendor_err %#x)",
		    name[w->second], (unsigned long long)wc.wr_id, n,
		    ibv_wc_status_str(wc.status), wc.vendor_err);
}

static void watch_up(struct watch *w, enum second second, int access, bool apart)
{
	const struct pair_opts o = {
		.sq = 2 * DEPTH, .rq = MANY, .sge = 1, .inl = 8, .buf = MANY * 8,
		.send_ops = second == ATOMIC_WRITE ? IBV_QP_EX_WITH_ATOMIC_WRITE |
			IBV_QP_EX_WITH_RDMA_WRITE : 0,
	};
	uint8_t *in = mmap(NULL, MANY * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (in == MAP_FAILED)
		die("mmap");
	/* or all of them would come with the first */
	madvise(in, MANY * PAGE, MADV_NOHUGEPAGE);
	memset(w, 0, sizeof(*w));
	w->second = second;
	w->apart = apart;
	w->out = mr_make(&ea, MANY * PAGE, 0);
	w->flags = mr_make(&eb, MANY * 8, REMOTE);
	w->in = ibv_reg_mr(eb.pd, in, MANY * PAGE, IBV_ACCESS_LOCAL_WRITE | REMOTE | access);
	if (!w->in)
		die("reg_mr");
	pair_create(&w->p, &ea, &eb, &o);
	w->p.conn.access |= REMOTE;
	w->p.conn.rd_atomic = 8;
	w->p.conn.timeout = 16;		/* 0.27 s */
	pair_connect(&w->p);
}

static void watch_down(struct watch *w)
{
	uint8_t *in = w->in->addr;

	pair_destroy(&w->p);
	if (ibv_dereg_mr(w->in))
		die("dereg_mr");
	munmap(in, MANY * PAGE);
	mr_drop(w->flags);
	mr_drop(w->out);
}

/* All pages of it once */
static void watch_round(struct watch *w)
{
	const bool messages = w->second >= SEND;
	unsigned int n;
	pthread_t eye;

	w->round++;
	atomic_store(&w->seen, 0);
	for (n = 0; messages && n < MANY; n++)
		if (pair_recv(&w->p, 1, n, n * 8, 8))
			die("post_recv");
	if (pthread_create(&eye, NULL, messages ? watch_messages : watch_flags, w))
		die("pthread_create");
	for (n = 0; n < MANY; n++) {
		if (n >= DEPTH)
			complete(w, n - DEPTH);
		post_pair(w, n);
	}
	for (n = MANY - DEPTH; n < MANY; n++)
		complete(w, n);
	for (double end = now() + PATIENCE; atomic_load(&w->seen) < MANY && now() < end; )
		sleep_ms(1);
	atomic_store(&w->stop, true);
	pthread_join(eye, NULL);
	atomic_store(&w->stop, false);
}

#define ROUNDS 3

static void watch_all(int access, bool apart, bool gone)
{
	for (enum second s = 0; s < SECONDS; s++) {
		unsigned int seen = 0;
		struct watch w;

		watch_up(&w, s, access, apart);
		for (int i = 0; i < ROUNDS; i++) {
			if (gone && madvise(w.in->addr, MANY * PAGE, MADV_DONTNEED))
				die("madvise");
			watch_round(&w);
			seen += w.seen;
		}
		is(w.wrong, 0, "behind a WRITE, %s: what is there before the WRITE's data",
		   name[s]);
		is(seen, ROUNDS * MANY, "%s: all of them are seen", name[s]);
		watch_down(&w);
	}
}

static void behind(void)
{
	watch_all(0, false, false);
}

/* The pages for the data have to be brought, and what comes behind needs none. */
static void behind_odp(void)
{
	if (odp_there(&eb))
		watch_all(ODP, true, true);
}

/* --- the same bytes, again and again ----------------------------------------------- */

#define SAME	(2 * PAGE)
#define TIMES	2000
#define UNDER_WAY 40

struct same {
	uint8_t *at;
	atomic_uint posted, done;
	unsigned int back, looks;
};

/*
 * What a byte says is no older than what it said before. Numbers of 8 bits tell that as long as
 * less than half of all can have come in between.
 */
static void *watch_same(void *arg)
{
	struct same *s = arg;
	struct rng r = { .s = 1 };

	while (atomic_load(&s->done) < TIMES) {
		const uint8_t *at = s->at + rng_in(&r, 0, SAME - 1);
		const unsigned int since = atomic_load(&s->done);
		const uint8_t before = __atomic_load_n(at, __ATOMIC_ACQUIRE);
		uint8_t after;

		for (int i = rng_in(&r, 0, 2000); i; i--)
			atomic_signal_fence(memory_order_seq_cst);
		if (!rng_in(&r, 0, 15))
			sched_yield();
		after = __atomic_load_n(at, __ATOMIC_ACQUIRE);
		if (atomic_load(&s->posted) - since > 127)
			continue;
		s->looks += before != after;
		s->back += (int8_t)(after - before) < 0;
	}
	return NULL;
}

static void same(void)
{
	const struct pair_opts o = {
		.sq = UNDER_WAY, .rq = 1, .sge = 1, .buf = UNDER_WAY * SAME,
		.access = IBV_ACCESS_REMOTE_WRITE,
	};
	struct ibv_mr *mr = mr_make(&eb, SAME, IBV_ACCESS_REMOTE_WRITE);
	struct same s = { .at = mr->addr };
	unsigned int n, last = 0;
	struct ibv_wc wc;
	pthread_t eye;
	struct pair p;

	pair_create(&p, &ea, &eb, &o);
	p.conn.timeout = 16;
	pair_connect(&p);
	if (pthread_create(&eye, NULL, watch_same, &s))
		die("pthread_create");
	for (n = 0; n < TIMES + UNDER_WAY; n++) {
		uint8_t *from = p.buf[0] + n % UNDER_WAY * SAME;

		if (n >= UNDER_WAY) {
			if (!cq_wait(p.scq[0], &wc, PATIENCE) || wc.status)
				die("WRITE %u: %s", n - UNDER_WAY, ibv_wc_status_str(wc.status));
			atomic_store(&s.done, n - UNDER_WAY + 1);
		}
		/* with one processor, who watches has it now and then */
		if (!(n % 8))
			sched_yield();
		if (n >= TIMES)
			continue;
		memset(from, n + 1, SAME);
		atomic_store(&s.posted, n + 1);
		errno = POST(p.qp[0], .opcode = IBV_WR_RDMA_WRITE, .num_sge = 1,
			     .send_flags = IBV_SEND_SIGNALED,
			     .sg_list = SGE(from, SAME, p.mr[0]->lkey),
			     .wr.rdma = { .remote_addr = (uintptr_t)s.at, .rkey = mr->rkey });
		if (errno)
			die("post_send");
	}
	pthread_join(eye, NULL);
	is(s.back, 0, "WRITEs to the same bytes: those that became older");
	ok(s.looks, "seen to change %u times", s.looks);
	for (n = 0; n < SAME; n++)
		last += s.at[n] == (uint8_t)TIMES;
	is(last, SAME, "bytes that are the last one's in the end");
	pair_destroy(&p);
	mr_drop(mr);
}

static const struct test tests[] = {
	TEST(behind),
	TEST(behind_odp),
	TEST(same),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
