// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Threads of one program at the same queues of a device: they post to one queue pair, receive
 * by one shared queue, and poll one completion queue, which is resized meanwhile. Each request
 * completes once, each thread's in the order that it posted them, with its own data. What one of
 * them finds is the state that another has left.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

static struct end ea, eb;

#define MAX_CREW	4
#define ROUNDS		400
#define SLOTS		8		/* rounds of a thread that are under way */
#define LEN		2500		/* up to three packets */
#define PLACES		24		/* for messages, a receiving thread */

#define ALL_OPS	(IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE | \
		 IBV_QP_EX_WITH_RDMA_READ)

enum kind { READ, SEND, KINDS };

/* One round of a thread: a WRITE, a READ of the same, and a message */
struct slot {
	atomic_int open;		/* completions to come */
	uint8_t out[LEN], back[LEN];
};

struct crew {
	unsigned int num;		/* threads that send, and as many that receive */
	unsigned int qps;		/* 1, or one for each */
	bool shared;			/* one receive queue for all, and not one a queue pair */
	struct pair p[MAX_CREW];
	struct ibv_srq *srq;
	struct ibv_cq *scq, *rcq;
	struct ibv_mr *slots, *target, *places;
	atomic_uchar seen[MAX_CREW][ROUNDS][KINDS + 1];
	atomic_uint completed, received, wrong;
	atomic_bool stop;
	atomic_ullong moved;		/* changes with each completion */
};

struct member {
	struct crew *c;
	unsigned int i;
	pthread_t sends, receives;
};

static void fault(struct crew *c, const char *what, unsigned int t, unsigned int n)
{
	if (atomic_fetch_add(&c->wrong, 1) < 10)
		diag("%s: round %u of thread %u", what, n, t);
}

static uint64_t key_of(unsigned int t, unsigned int n)
{
	return mix64((uint64_t)t << 32 | n);
}

static uint32_t len_of(unsigned int t, unsigned int n)
{
	return 1 + key_of(t, n) % LEN;
}

static struct slot *slot_at(const struct crew *c, unsigned int t, unsigned int n)
{
	return (struct slot *)c->slots->addr + t * SLOTS + n % SLOTS;
}

static size_t target_off(unsigned int t, unsigned int n)
{
	return (t * SLOTS + n % SLOTS) * (size_t)LEN;
}

/* Nothing has moved for so long that it has ended. */
static bool stuck(struct crew *c, unsigned long long *moved, double *since)
{
	const unsigned long long m = atomic_load(&c->moved);

	if (m != *moved || !*since) {
		*moved = m;
		*since = now();
	}
	if (now() - *since > PATIENCE && !atomic_exchange(&c->stop, true)) {
		atomic_fetch_add(&c->wrong, 1);
		diag("nothing moves: %u of %u completed, %u received", atomic_load(&c->completed),
		     c->num * ROUNDS * KINDS, atomic_load(&c->received));
	}
	if (atomic_load(&c->stop))
		return true;
	sched_yield();
	return false;
}

/* One that polls sees each thread's requests in their order. */
static void in_turn(struct crew *c, unsigned int *next, unsigned int t, unsigned int at,
		    unsigned int n)
{
	if (at < next[t])
		fault(c, "before its turn", t, n);
	next[t] = at + 1;
}

static void completes(struct crew *c, const struct ibv_wc *wc, unsigned int *next)
{
	const unsigned int t = wc->wr_id >> 32, n = (uint32_t)wc->wr_id / KINDS;
	const enum kind kind = wc->wr_id % KINDS;
	struct slot *s;

	if (t >= c->num || n >= ROUNDS) {
		fault(c, "no such request", t, n);
		return;
	}
	if (wc->status)
		die("thread %u, round %u: %s (vendor_err %#x)", t, n, ibv_wc_status_str(wc->status),
		    wc->vendor_err);
	if (atomic_exchange(&c->seen[t][n][kind], 1))
		fault(c, "completed twice", t, n);
	if (wc->qp_num != c->p[t % c->qps].qp[0]->qp_num)
		fault(c, "another queue pair's", t, n);
	in_turn(c, next, t, n * KINDS + kind, n);
	s = slot_at(c, t, n);
	if (kind == READ && pattern_check(s->back, key_of(t, n), 0, len_of(t, n)) >= 0)
		fault(c, "what was read is not what was written", t, n);
	atomic_fetch_sub(&s->open, 1);
	atomic_fetch_add(&c->completed, 1);
	atomic_fetch_add(&c->moved, 1);
}

static void poll_sent(struct crew *c, unsigned int *next)
{
	struct ibv_wc wc[3];
	int n = ibv_poll_cq(c->scq, ARRAY_SIZE(wc), wc);

	if (n < 0)
		die("poll_cq: %d", n);
	for (int i = 0; i < n; i++)
		completes(c, &wc[i], next);
}

/* The odd ones by ibv_wr_*() */
static bool post(struct member *m, const struct ibv_send_wr *wr, unsigned int *next)
{
	struct ibv_qp *qp = m->c->p[m->i % m->c->qps].qp[0];
	unsigned long long moved = 0;
	double since = 0;
	int err;

	/* room comes back by polling */
	while ((err = m->i % 2 ? wr_post_ex(qp, wr) : wr_post(qp, wr)) == ENOMEM) {
		poll_sent(m->c, next);
		if (stuck(m->c, &moved, &since))
			return false;
	}
	errno = err;
	if (err)
		die("thread %u: post_send", m->i);
	return true;
}

static bool one_round(struct member *m, unsigned int n, unsigned int *next)
{
	struct crew *c = m->c;
	struct slot *s = slot_at(c, m->i, n);
	const uint32_t len = len_of(m->i, n);
	const uint64_t id = (uint64_t)m->i << 32 | n * KINDS;
	const uint64_t at = (uintptr_t)c->target->addr + target_off(m->i, n);

	pattern_fill(s->out, key_of(m->i, n), 0, len);
	memset(s->back, CANARY, len);
	atomic_store(&s->open, KINDS);
	return post(m, &(struct ibv_send_wr) {
			.opcode = IBV_WR_RDMA_WRITE, .num_sge = 1,
			.sg_list = SGE(s->out, len, c->slots->lkey),
			.wr.rdma = { .remote_addr = at, .rkey = c->target->rkey } }, next) &&
	       post(m, &(struct ibv_send_wr) {
			.wr_id = id + READ, .opcode = IBV_WR_RDMA_READ, .num_sge = 1,
			.send_flags = IBV_SEND_SIGNALED,
			.sg_list = SGE(s->back, len, c->slots->lkey),
			.wr.rdma = { .remote_addr = at, .rkey = c->target->rkey } }, next) &&
	       post(m, &(struct ibv_send_wr) {
			.wr_id = id + SEND, .opcode = IBV_WR_SEND_WITH_IMM, .num_sge = 1,
			.send_flags = IBV_SEND_SIGNALED, .imm_data = htobe32(m->i << 24 | n),
			.sg_list = SGE(s->out, len, c->slots->lkey) }, next);
}

static void *sends(void *arg)
{
	struct member *m = arg;
	struct crew *c = m->c;
	unsigned int next[MAX_CREW] = {};
	unsigned long long moved = 0;
	double since = 0;

	for (unsigned int n = 0; n < ROUNDS; n++) {
		while (atomic_load(&slot_at(c, m->i, n)->open)) {
			poll_sent(c, next);
			if (stuck(c, &moved, &since))
				return NULL;
		}
		if (!one_round(m, n, next))
			return NULL;
	}
	/* and what is left, whoever's it is */
	while (atomic_load(&c->completed) < c->num * ROUNDS * KINDS && !stuck(c, &moved, &since))
		poll_sent(c, next);
	return NULL;
}

/* To the shared queue, or to the queue pair that had the last one from there */
static void post_place(struct crew *c, unsigned int qp, unsigned int place)
{
	struct ibv_recv_wr *bad, wr = {
		.wr_id = place, .num_sge = 1,
		.sg_list = SGE((uint8_t *)c->places->addr + place * LEN, LEN, c->places->lkey),
	};

	errno = c->srq ? ibv_post_srq_recv(c->srq, &wr, &bad) :
		ibv_post_recv(c->p[qp].qp[1], &wr, &bad);
	if (errno)
		die("post_recv");
}

static void comes(struct crew *c, const struct ibv_wc *wc, unsigned int *next)
{
	const uint8_t *place = (uint8_t *)c->places->addr + wc->wr_id * LEN;
	const uint32_t imm = be32toh(wc->imm_data);
	const unsigned int t = imm >> 24, n = imm & 0xffffff;
	unsigned int qp = 0;

	if (wc->status)
		die("a receive: %s (vendor_err %#x)", ibv_wc_status_str(wc->status),
		    wc->vendor_err);
	while (qp < c->qps && c->p[qp].qp[1]->qp_num != wc->qp_num)
		qp++;
	if (t >= c->num || n >= ROUNDS || qp != t % c->qps) {
		fault(c, "no such message", t, n);
		return;
	}
	if (atomic_exchange(&c->seen[t][n][KINDS], 1))
		fault(c, "received twice", t, n);
	in_turn(c, next, t, n, n);
	if (wc->byte_len != len_of(t, n) ||
	    pattern_check(place, key_of(t, n), 0, len_of(t, n)) >= 0)
		fault(c, "not the message's bytes", t, n);
	post_place(c, qp, wc->wr_id);
	atomic_fetch_add(&c->received, 1);
	atomic_fetch_add(&c->moved, 1);
}

static void *receives(void *arg)
{
	struct member *m = arg;
	struct crew *c = m->c;
	unsigned int next[MAX_CREW] = {};
	unsigned long long moved = 0;
	double since = 0;
	struct ibv_wc wc[3];

	for (unsigned int i = 0; i < PLACES; i++)
		post_place(c, m->i % c->qps, m->i * PLACES + i);
	while (atomic_load(&c->received) < c->num * ROUNDS && !stuck(c, &moved, &since)) {
		int n = ibv_poll_cq(c->rcq, ARRAY_SIZE(wc), wc);

		if (n < 0)
			die("poll_cq: %d", n);
		for (int i = 0; i < n; i++)
			comes(c, &wc[i], next);
	}
	return NULL;
}

static void crew_up(struct crew *c)
{
	struct pair_opts o = { .sge = 1, .rq = MAX_CREW * PLACES, .buf = 64, .send_ops = ALL_OPS };

	/* less than what they have under way: posting is refused now and then */
	o.sq = c->num / c->qps * SLOTS * 3 / 2;
	c->scq = o.scq = cq_make(&ea, MAX_CREW * SLOTS * 3);
	c->rcq = o.rcq = cq_make(&eb, MAX_CREW * PLACES);
	if (c->shared) {
		c->srq = o.srq = ibv_create_srq(eb.pd, &(struct ibv_srq_init_attr) {
			.attr = { .max_wr = MAX_CREW * PLACES, .max_sge = 1 } });
		if (!c->srq)
			die("create_srq");
	}
	c->slots = mr_make(&ea, MAX_CREW * SLOTS * sizeof(struct slot), 0);
	c->target = mr_make(&eb, MAX_CREW * SLOTS * LEN,
			    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
	c->places = mr_make(&eb, MAX_CREW * PLACES * LEN, 0);
	for (unsigned int i = 0; i < c->qps; i++) {
		pair_create(&c->p[i], &ea, &eb, &o);
		c->p[i].conn.rd_atomic = 1 + i % 4;
		c->p[i].conn.timeout = 18;
		pair_connect(&c->p[i]);
	}
}

static void crew_down(struct crew *c)
{
	for (unsigned int i = 0; i < c->qps; i++)
		pair_destroy(&c->p[i]);
	if (c->srq && ibv_destroy_srq(c->srq))
		die("destroy_srq");
	is(ibv_destroy_cq(c->scq) + ibv_destroy_cq(c->rcq), 0,
	   "the completion queues are destroyed");
	mr_drop(c->slots);
	mr_drop(c->target);
	mr_drop(c->places);
}

/* While the crew works: both completion queues, and the shared one, other sizes in turn */
static unsigned int resize(struct crew *c)
{
	const unsigned int all = c->num * ROUNDS * KINDS;
	unsigned int n = 0;

	while (atomic_load(&c->completed) < all && !atomic_load(&c->stop)) {
		const int twice = 1 + n % 2;

		if (ibv_resize_cq(c->scq, MAX_CREW * SLOTS * 3 * twice) ||
		    ibv_resize_cq(c->rcq, MAX_CREW * PLACES * twice))
			die("resize_cq, the %uth time", n);
		if (c->srq && ibv_modify_srq(c->srq, &(struct ibv_srq_attr) {
				.max_wr = MAX_CREW * PLACES * twice }, IBV_SRQ_MAX_WR))
			die("resize_srq, the %uth time", n);
		n++;
		sleep_ms(1);
	}
	return n;
}

static void work(unsigned int num, bool one_qp, bool shared, bool resized)
{
	struct crew *c = calloc(1, sizeof(*c));
	struct member m[MAX_CREW];
	unsigned int t, n, kind, times = 0, missing = 0;

	if (!c)
		die("no memory");
	c->num = num;
	c->qps = one_qp ? 1 : num;
	c->shared = shared;
	crew_up(c);
	for (t = 0; t < num; t++) {
		m[t] = (struct member) { .c = c, .i = t };
		if (pthread_create(&m[t].receives, NULL, receives, &m[t]) ||
		    pthread_create(&m[t].sends, NULL, sends, &m[t]))
			die("pthread_create");
	}
	if (resized)
		times = resize(c);
	for (t = 0; t < num; t++) {
		pthread_join(m[t].sends, NULL);
		pthread_join(m[t].receives, NULL);
	}
	for (t = 0; t < num; t++)
		for (n = 0; n < ROUNDS; n++)
			for (kind = 0; kind <= KINDS; kind++)
				missing += !c->seen[t][n][kind];
	is(missing, 0, "%u threads, %s: requests that never completed", num,
	   one_qp ? "one queue pair" : "one each");
	is(c->wrong, 0, "completions that are wrong in number, order or data");
	is(c->completed, num * ROUNDS * KINDS, "completions in all");
	is(c->received, num * ROUNDS, "messages in all");
	ok(cq_quiet(c->scq, 0.05) && cq_quiet(c->rcq, 0.05), "and no more");
	if (resized)
		ok(times > 1, "resized %u times meanwhile", times);
	crew_down(c);
	free(c);
}

static void one_qp(void)
{
	work(2, true, false, false);
	work(4, true, false, false);
}

static void one_cq(void)
{
	work(4, false, false, false);
}

static void one_cq_resized(void)
{
	work(2, false, false, true);
	work(4, false, false, true);
}

static void one_qp_resized(void)
{
	work(4, true, false, true);
}

static void one_srq(void)
{
	work(2, true, true, false);
	work(4, false, true, false);
}

static void one_srq_resized(void)
{
	work(4, false, true, true);
}

/*
 * A thread that hardly gets the processor posts a stream, and is kept from running wherever it
 * is, in the midst of a doorbell, too. What another one posts meanwhile does not wait for it.
 */
#define STALLED_TRIES	41
#define STALLED_LONG	0.3	/* seconds: nothing here takes as long but the scheduler */

struct stalled {
	struct pair p;
	struct ibv_mr *target;		/* a word for each of the two */
	atomic_bool stop;
	atomic_ulong streamed;
};

static void on_cpu(int cpu, int policy)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	errno = pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	if (!errno)
		errno = pthread_setschedparam(pthread_self(), policy, &(struct sched_param) {
			.sched_priority = policy == SCHED_FIFO });
	if (errno)
		die("on processor %d", cpu);
}

static int post_word(struct stalled *st, unsigned int who, uint64_t value, int flags)
{
	uint64_t *target = (uint64_t *)st->target->addr + who;

	return POST(st->p.qp[0], .opcode = IBV_WR_RDMA_WRITE, .send_flags = flags | IBV_SEND_INLINE,
		    .num_sge = 1, .sg_list = SGE(&value, sizeof(value), 0),
		    .wr.rdma = { .remote_addr = (uintptr_t)target, .rkey = st->target->rkey });
}

static void *streams(void *arg)
{
	struct stalled *st = arg;
	struct ibv_wc wc;
	int n;

	on_cpu(0, SCHED_IDLE);
	while (!atomic_load(&st->stop)) {
		const unsigned long i = atomic_load(&st->streamed);
		int err = post_word(st, 0, i, i % 32 ? 0 : IBV_SEND_SIGNALED);

		if (!err)
			atomic_store(&st->streamed, i + 1);
		else if (err != ENOMEM)
			die("post_send: %s", strerror(err));
		else if ((n = ibv_poll_cq(st->p.scq[0], 1, &wc)) < 0 || (n && wc.status))
			die("a completion: %d, %s", n, ibv_wc_status_str(wc.status));
	}
	return NULL;
}

static void *hogs(void *arg)
{
	struct stalled *st = arg;

	on_cpu(0, SCHED_OTHER);
	while (!atomic_load(&st->stop))
		;
	return NULL;
}

/* Return: how long the word took to get there, seconds. */
static double word_arrives(struct stalled *st, uint64_t value)
{
	const volatile uint64_t *target = (uint64_t *)st->target->addr + 1;
	double since;
	int err;

	while ((err = post_word(st, 1, value, 0)) == ENOMEM)
		sched_yield();
	errno = err;
	if (err)
		die("post_send");
	since = now();
	while (*target != value)
		if (now() - since > PATIENCE)
			return PATIENCE;
	return now() - since;
}

static void stalled(void)
{
	const struct pair_opts o = { .sge = 1, .sq = 256, .rq = 1, .buf = 64,
				     .inl = sizeof(uint64_t) };
	struct stalled st = {};
	pthread_t streamer, hog;
	unsigned int i, slow = 0, lost = 0;
	double took, worst = 0;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		skip("one processor", "nor do they wait for who is kept from running");
		return;
	}
	pair_create(&st.p, &ea, &eb, &o);
	pair_connect(&st.p);
	st.target = mr_make(&eb, 2 * sizeof(uint64_t), IBV_ACCESS_REMOTE_WRITE);
	if (pthread_create(&streamer, NULL, streams, &st))
		die("pthread_create");
	while (atomic_load(&st.streamed) < 1000)
		sleep_ms(1);
	if (pthread_create(&hog, NULL, hogs, &st))
		die("pthread_create");
	on_cpu(1, SCHED_OTHER);
	for (i = 1; i <= STALLED_TRIES && !lost; i++) {
		/* long enough for it to get on meanwhile */
		sleep_ms(100 + 10 * i);
		took = word_arrives(&st, i);
		slow += took > STALLED_LONG;
		lost += took >= PATIENCE;
		worst = took > worst ? took : worst;
	}
	atomic_store(&st.stop, true);
	pthread_join(streamer, NULL);
	pthread_join(hog, NULL);
	diag("%lu streamed, the longest took %.1f ms, %u of %u more than %.0f", st.streamed,
	     worst * 1e3, slow, STALLED_TRIES, STALLED_LONG * 1e3);
	is(lost, 0, "words that never came");
	ok(slow <= 2, "nor do they wait for who is kept from running");
	mr_drop(st.target);
	pair_destroy(&st.p);
}

/*
 * Who finds a request's error finds the queue pair in SQE (10.3.1), and may set it going again: also
 * if it is woken by that error, and comes before the thread in whose call it happens, as in
 * a kernel for real time.
 */
#define WRONG_ROUNDS	1000

struct wrong {
	struct pair p;
	atomic_uint round;		/* asked for; WRONG_ROUNDS + 1 to end */
};

static void *posts_wrong(void *arg)
{
	struct wrong *wr = arg;
	unsigned int done = 0, round;

	on_cpu(0, SCHED_OTHER);
	while ((round = atomic_load(&wr->round)) <= WRONG_ROUNDS) {
		if (round == done)
			continue;
		done = round;
		errno = POST(wr->p.qp[0], .opcode = IBV_WR_SEND, .wr_id = round, .num_sge = 1,
			     .send_flags = IBV_SEND_SIGNALED,
			     .sg_list = SGE(wr->p.buf[0], 1, ~wr->p.mr[0]->lkey));
		if (errno)
			die("post_send");
	}
	return NULL;
}

static void in_error(void)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(ea.ctx);
	struct pair_opts o = { .sq = 4, .rq = 1, .sge = 1, .buf = 64, .type = IBV_QPT_UC,
			       .scq = cq_make_on(&ea, 4, ch) };
	struct ibv_qp_attr again = { .qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE };
	unsigned int i, not_yet = 0, refused = 0, other = 0;
	struct wrong wr = {};
	pthread_t poster;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *ctx;

	pair_create(&wr.p, &ea, &eb, &o);
	pair_connect(&wr.p);
	if (pthread_create(&poster, NULL, posts_wrong, &wr))
		die("pthread_create");
	on_cpu(0, SCHED_FIFO);
	for (i = 1; i <= WRONG_ROUNDS; i++) {
		if (ibv_req_notify_cq(o.scq, 0))
			die("req_notify_cq");
		atomic_store(&wr.round, i);
		if (ibv_get_cq_event(ch, &cq, &ctx) || ibv_poll_cq(o.scq, 1, &wc) != 1)
			die("no completion of round %u", i);
		ibv_ack_cq_events(cq, 1);
		other += wc.status != IBV_WC_LOC_PROT_ERR || wc.wr_id != i;
		/* by turns, as either takes the time that the other is after */
		if (i & 1)
			not_yet += qp_state(wr.p.qp[0]) != IBV_QPS_SQE;
		if (!ibv_modify_qp(wr.p.qp[0], &again, IBV_QP_STATE | IBV_QP_CUR_STATE))
			continue;
		refused++;
		while (qp_state(wr.p.qp[0]) != IBV_QPS_SQE)
			sleep_ms(1);
		if (qp_to(wr.p.qp[0], IBV_QPS_RTS))
			die("SQE to RTS");
	}
	atomic_store(&wr.round, i);
	pthread_join(poster, NULL);
	is(other, 0, "completions of something else");
	is(not_yet, 0, "queue pairs that were not in error when their request's error was found");
	is(refused, 0, "and that were not set going again from there");
	pair_destroy(&wr.p);
	ibv_destroy_cq(o.scq);
	ibv_destroy_comp_channel(ch);
}

static const struct test tests[] = {
	TEST(one_qp),
	TEST(one_qp_resized),
	TEST(one_cq),
	TEST(one_cq_resized),
	TEST(one_srq),
	TEST(one_srq_resized),
	TEST(in_error),
	TEST(stalled),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
