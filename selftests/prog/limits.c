// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What query_device promises is there: requests, pieces, completions and READs
 * to the last one, and as many objects.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common.h"

static struct end ea, eb;
static bool is_long;

#define SIG IBV_SEND_SIGNALED
#define R_ALL (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* What a device for real work has */
static void promised(void)
{
	const struct ibv_device_attr *a = &ea.attr;
	const struct {
		const char *name;
		long long got, least;
	} want[] = {
		{ "max_qp", a->max_qp, 65536 },
		{ "max_cq", a->max_cq, 65536 },
		{ "max_srq", a->max_srq, 65536 },
		{ "max_qp_wr", a->max_qp_wr, 16384 },
		{ "max_srq_wr", a->max_srq_wr, 16384 },
		{ "max_cqe", a->max_cqe, 4 << 20 },
		{ "max_sge", a->max_sge, 32 },
		{ "max_srq_sge", a->max_srq_sge, 32 },
		{ "max_sge_rd", a->max_sge_rd, 32 },
		{ "max_mr", a->max_mr, 1 << 20 },
		{ "max_mw", a->max_mw, 1 << 20 },
		{ "max_pd", a->max_pd, 1024 },
		{ "max_ah", a->max_ah, 1024 },
		/* struct ibv_qp_attr has a byte for it */
		{ "max_qp_rd_atom", a->max_qp_rd_atom, 255 },
		{ "max_qp_init_rd_atom", a->max_qp_init_rd_atom, 255 },
		{ "max_mcast_grp", a->max_mcast_grp, 1 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(want); i++)
		ok(want[i].got >= want[i].least, "%s: %lld, at least %lld", want[i].name, want[i].got,
		   want[i].least);
	ok(a->atomic_cap != IBV_ATOMIC_NONE, "there are atomics");
}

static struct ibv_qp *qp_make(struct end *e, struct ibv_cq *scq, struct ibv_cq *rcq,
			      struct ibv_srq *srq, const struct ibv_qp_cap *cap)
{
	struct ibv_qp_init_attr ia = {
		.send_cq = scq,
		.recv_cq = rcq,
		.srq = srq,
		.cap = *cap,
		.qp_type = IBV_QPT_RC,
	};

	return ibv_create_qp(e->pd, &ia);
}

static void connect_two(struct ibv_qp *a, struct ibv_qp *b, unsigned int rd_atomic)
{
	struct conn c = conn_default;

	c.access = IBV_ACCESS_LOCAL_WRITE | R_ALL;
	c.rd_atomic = rd_atomic;
	c.timeout = 18;
	qps_connect(a, &ea, 7, b, &eb, 3, &c);
}

/* A queue holds max_qp_wr requests, which all execute. */
static void requests(void)
{
	unsigned int n = ea.attr.max_qp_wr, i, took;
	struct ibv_cq *scq = cq_make(&ea, n), *rcq = cq_make(&eb, n), *cq = cq_make(&ea, 1);
	struct ibv_qp_cap cap = { .max_send_wr = n, .max_recv_wr = n, .max_send_sge = 1,
				  .max_recv_sge = 1, .max_inline_data = 8 };
	struct ibv_mr *mr = mr_make(&eb, 8ULL * n, 0);
	uint64_t v, *got = mr->addr;
	struct ibv_recv_wr rwr, *bad;
	struct ibv_qp *a, *b;
	struct ibv_wc wc;
	int err = 0;

	b = qp_make(&eb, rcq, rcq, NULL, &cap);
	a = qp_make(&ea, scq, cq, NULL, &cap);
	if (!ok(a && b, "queues of %u requests", n))
		goto out;
	connect_two(a, b, 1);
	/* no receive: none of them completes, and the queue fills up */
	for (took = 0; took < 4 * n; took++) {
		v = took + 1;
		err = POST(a, .wr_id = took, .opcode = IBV_WR_SEND, .num_sge = 1,
			   .send_flags = IBV_SEND_INLINE | (took + 1 >= n ? SIG : 0),
			   .sg_list = SGE(&v, 8, 0));
		if (err)
			break;
	}
	ok(took >= n && took < 4 * n && err == ENOMEM, "a send queue takes %u: %s", took,
	   strerror(err));
	for (i = 0; i < n; i++) {
		rwr = (struct ibv_recv_wr) { .wr_id = i, .num_sge = 1,
					     .sg_list = SGE(got + i, 8, mr->lkey) };
		err = ibv_post_recv(b, &rwr, &bad);
		if (err)
			break;
	}
	is(i, n, "a receive queue takes as many");
	for (i = 0; i < n; i++)
		if (!cq_wait(rcq, &wc, PATIENCE) || wc.status || wc.wr_id != i || got[i] != i + 1)
			break;
	is(i, n, "all arrive, in order");
	ok(cq_wait(scq, &wc, PATIENCE) && !wc.status && wc.wr_id == n - 1, "and are acknowledged");
out:
	if ((a && ibv_destroy_qp(a)) || (b && ibv_destroy_qp(b)) || ibv_destroy_cq(scq) ||
	    ibv_destroy_cq(rcq) || ibv_destroy_cq(cq))
		die("destroy");
	mr_drop(mr);

	/* and of a shared one */
	{
		struct ibv_srq_init_attr sa = { .attr = { .max_wr = ea.attr.max_srq_wr, .max_sge = 1 } };
		struct ibv_srq *srq = ibv_create_srq(ea.pd, &sa);

		if (!ok(srq, "a shared queue of %d requests", ea.attr.max_srq_wr))
			return;
		for (i = 0; i < 4U * ea.attr.max_srq_wr; i++) {
			rwr = (struct ibv_recv_wr) { .wr_id = i };
			err = ibv_post_srq_recv(srq, &rwr, &bad);
			if (err)
				break;
		}
		ok(i >= (unsigned int)ea.attr.max_srq_wr && err == ENOMEM, "takes %u: %s", i,
		   strerror(err));
		if (ibv_destroy_srq(srq))
			die("destroy_srq");
	}
}

/* A request of max_sge pieces each way; a queue pair for one more there is not. */
static void pieces(void)
{
	unsigned int n = ea.attr.max_sge, i;
	struct ibv_cq *scq = cq_make(&ea, 16), *rcq = cq_make(&eb, 16), *cq = cq_make(&ea, 1);
	struct ibv_qp_cap cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = n,
				  .max_recv_sge = n };
	struct ibv_mr *s = mr_make(&ea, 65536, 0), *r = mr_make(&eb, 65536, R_ALL);
	struct ibv_sge ss[256], rs[256];
	struct ibv_recv_wr rwr, *bad;
	struct ibv_qp *a, *b, *too;
	struct ibv_wc wc = {};
	uint8_t flat[256 * 40];

	a = qp_make(&ea, scq, cq, NULL, &cap);
	b = qp_make(&eb, rcq, rcq, NULL, &cap);
	if (!ok(a && b && n <= 255, "queue pairs of %u pieces", n))
		return;
	connect_two(a, b, 4);
	for (i = 0; i < n; i++) {
		/* of different sizes, so that no two ends meet */
		ss[i] = (struct ibv_sge) { (uintptr_t)s->addr + i * 100, 37, s->lkey };
		rs[i] = (struct ibv_sge) { (uintptr_t)r->addr + i * 100, i + 1 == n ? 90 : 36, r->lkey };
		pattern_fill((void *)(uintptr_t)ss[i].addr, 5, i * 37, 37);
	}
	rwr = (struct ibv_recv_wr) { .wr_id = 1, .sg_list = rs, .num_sge = n };
	if (ibv_post_recv(b, &rwr, &bad) ||
	    POST(a, .wr_id = 2, .opcode = IBV_WR_SEND, .send_flags = SIG, .sg_list = ss,
		 .num_sge = n))
		die("post");
	wc_is(scq, 2, IBV_WC_SUCCESS, NULL, "SEND of %u pieces", n);
	wc_is(rcq, 1, IBV_WC_SUCCESS, &wc, "received in %u pieces", n);
	is(wc.byte_len, n * 37, "its length");
	for (i = 0; i < n; i++)
		memcpy(flat + i * 36, (void *)(uintptr_t)rs[i].addr, rs[i].length);
	ok(pattern_check(flat, 5, 0, n * 37) < 0, "its bytes");
	memset(r->addr, 0, 65536);
	if (POST(a, .wr_id = 3, .opcode = IBV_WR_RDMA_WRITE, .send_flags = SIG, .sg_list = ss,
		 .num_sge = n, .wr.rdma = { (uintptr_t)r->addr, r->rkey }))
		die("post");
	wc_is(scq, 3, IBV_WC_SUCCESS, NULL, "WRITE of %u pieces", n);
	ok(pattern_check(r->addr, 5, 0, n * 37) < 0, "its bytes");
	for (i = 0; i < n; i++)
		memset((void *)(uintptr_t)ss[i].addr, CANARY, 100);
	if (POST(a, .wr_id = 4, .opcode = IBV_WR_RDMA_READ, .send_flags = SIG, .sg_list = ss,
		 .num_sge = n, .wr.rdma = { (uintptr_t)r->addr, r->rkey }))
		die("post");
	wc_is(scq, 4, IBV_WC_SUCCESS, NULL, "READ into %u pieces", n);
	for (i = 0; i < n; i++)
		if (pattern_check((void *)(uintptr_t)ss[i].addr, 5, i * 37, 37) >= 0 ||
		    canary_check((void *)(uintptr_t)(ss[i].addr + 37), 63) >= 0)
			break;
	is(i, n, "its bytes");
	cap.max_send_sge++;
	too = qp_make(&ea, scq, cq, NULL, &cap);
	ok(!too && errno == EINVAL, "%u pieces to send are refused", n + 1);
	cap.max_send_sge--;
	cap.max_recv_sge++;
	too = qp_make(&ea, scq, cq, NULL, &cap);
	ok(!too && errno == EINVAL, "%u pieces to receive are refused", n + 1);
	cap.max_recv_sge--;
	cap.max_send_wr = ea.attr.max_qp_wr + 1;
	too = qp_make(&ea, scq, cq, NULL, &cap);
	ok(!too && errno == EINVAL, "%u requests are refused", cap.max_send_wr);
	if (ibv_destroy_qp(a) || ibv_destroy_qp(b) || ibv_destroy_cq(scq) || ibv_destroy_cq(rcq) ||
	    ibv_destroy_cq(cq))
		die("destroy");
	mr_drop(s);
	mr_drop(r);
}

/*
 * A CQ of max_cqe entries, full to the last one: what queue pairs in error had
 * been asked for, which costs least. Each one's completions come in order.
 */
static void completions(void)
{
	unsigned int size = ea.attr.max_cqe, n = is_long ? size : 131072, depth = 16384, i, k, qps;
	struct ibv_qp_cap cap = { .max_send_wr = depth, .max_recv_wr = depth, .max_send_sge = 1,
				  .max_recv_sge = 1 };
	struct ibv_cq *cq, *other = cq_make(&eb, 1);
	struct ibv_qp **qp, *b, *a;
	struct ibv_recv_wr rwr, *bad;
	struct ibv_async_event ev;
	uint32_t (*next)[2];
	struct ibv_wc wc[64];
	double end;
	int got;

	cq = ibv_create_cq(ea.ctx, size + 1, NULL, NULL, 0);
	ok(!cq && errno == EINVAL, "a CQ of %u is refused", size + 1);
	cq = ibv_create_cq(ea.ctx, size, NULL, NULL, 0);
	if (!ok(cq && (unsigned int)cq->cqe >= size, "a CQ of %u", size)) {
		diag("%s", strerror(errno));
		return;
	}
	qps = n / depth / 2;
	qp = calloc(qps, sizeof(*qp));
	next = calloc(qps, sizeof(*next));
	cap.max_send_wr = cap.max_recv_wr = 1;
	b = qp_make(&eb, other, other, NULL, &cap);
	cap.max_send_wr = cap.max_recv_wr = depth;
	for (i = 0; i < qps; i++) {
		a = qp[i] = qp_make(&ea, cq, cq, NULL, &cap);
		if (!a || !b)
			die("create_qp");
		connect_two(a, b, 1);
		if (qp_to(a, IBV_QPS_ERR) || qp_to(b, IBV_QPS_RESET))
			die("modify_qp");
		for (k = 0; k < depth; k++) {
			rwr = (struct ibv_recv_wr) { .wr_id = (uint64_t)i << 32 | 1U << 31 | k };
			if (POST(a, .wr_id = (uint64_t)i << 32 | k, .opcode = IBV_WR_RDMA_WRITE) ||
			    ibv_post_recv(a, &rwr, &bad))
				die("post");
		}
	}
	ok(!event_wait(&ea, &ev, 0.5), "%u completions fit", n);
	for (i = 0, end = now() + 10 * PATIENCE; i < n && now() < end;) {
		got = ibv_poll_cq(cq, 64, wc);
		if (got < 0)
			die("poll_cq");
		for (k = 0; k < (unsigned int)got; k++, i++) {
			unsigned int q = wc[k].wr_id >> 32;
			uint32_t *want = &next[q][wc[k].wr_id >> 31 & 1];

			if (q >= qps || wc[k].status != IBV_WC_WR_FLUSH_ERR ||
			    wc[k].qp_num != qp[q]->qp_num || (wc[k].wr_id & 0x7fffffff) != (*want)++)
				break;
		}
		if (k < (unsigned int)got)
			break;
	}
	is(i, n, "and are polled, each queue's in order");
	for (i = 0; i < qps; i++)
		if (ibv_destroy_qp(qp[i]))
			die("destroy_qp");
	if (ibv_destroy_qp(b) || ibv_destroy_cq(cq) || ibv_destroy_cq(other))
		die("destroy");
	free(qp);
	free(next);
}

/* How long @n READs take, posted at once */
static double read_all(struct ibv_qp *a, struct ibv_cq *cq, struct ibv_mr *l, struct ibv_mr *r,
		       unsigned int n)
{
	struct ibv_send_wr wr[256], *bad;
	struct ibv_sge sge[256];
	struct ibv_wc wc;
	unsigned int i;
	double t;

	for (i = 0; i < n; i++) {
		sge[i] = (struct ibv_sge) { (uintptr_t)l->addr + i * 8, 8, l->lkey };
		wr[i] = (struct ibv_send_wr) {
			.wr_id = i,
			.next = i + 1 < n ? &wr[i + 1] : NULL,
			.sg_list = &sge[i],
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_READ,
			.send_flags = SIG,
			.wr.rdma = { (uintptr_t)r->addr + i * 8, r->rkey },
		};
	}
	t = now();
	errno = ibv_post_send(a, wr, &bad);
	if (errno)
		die("post_send");
	for (i = 0; i < n; i++)
		if (!cq_wait(cq, &wc, PATIENCE) || wc.status || wc.wr_id != i) {
			ok(false, "READ %u: %s", i, ibv_wc_status_str(wc.status));
			break;
		}
	return now() - t;
}

/*
 * Over a wire that takes long (the caller sees to that), READs take one round
 * trip while they may all be outstanding, and two when there is one more.
 */
static void outstanding(void)
{
	unsigned int max = min(ea.attr.max_qp_init_rd_atom, eb.attr.max_qp_rd_atom);
	struct ibv_cq *scq = cq_make(&ea, 1024), *cq = cq_make(&ea, 1), *rcq = cq_make(&eb, 1);
	struct ibv_qp_cap cap = { .max_send_wr = 1024, .max_recv_wr = 1, .max_send_sge = 1,
				  .max_recv_sge = 1 };
	struct ibv_mr *l = mr_make(&ea, 8192, 0), *r = mr_make(&eb, 8192, R_ALL);
	struct ibv_qp *a, *b;
	double one, all, more;
	unsigned int i;

	max = min(max, 255U);
	for (i = 0; i < 1024; i++)
		((uint64_t *)r->addr)[i] = mix64(i);
	a = qp_make(&ea, scq, cq, NULL, &cap);
	b = qp_make(&eb, rcq, rcq, NULL, &cap);
	if (!a || !b)
		die("create_qp");
	connect_two(a, b, max);
	read_all(a, scq, l, r, 1);
	one = read_all(a, scq, l, r, 1);
	if (one < 0.1) {
		skip("the wire is too fast to tell", "outstanding READs");
		goto out;
	}
	all = read_all(a, scq, l, r, max);
	ok(all < one * 1.7, "%u READs take one round trip (%.0f ms, one %.0f ms)", max, all * 1e3,
	   one * 1e3);
	more = read_all(a, scq, l, r, max + 1);
	ok(more > one * 1.8, "one more takes two (%.0f ms)", more * 1e3);
	ok(!memcmp(l->addr, r->addr, 8 * (max + 1)), "their data");
out:
	if (ibv_destroy_qp(a) || ibv_destroy_qp(b) || ibv_destroy_cq(scq) || ibv_destroy_cq(cq) ||
	    ibv_destroy_cq(rcq))
		die("destroy");
	mr_drop(l);
	mr_drop(r);
}

/* --- many objects --------------------------------------------------------------------- */

static struct ibv_cq *shared_cq;
static void *page;

static void *make_cq(void)
{
	return ibv_create_cq(ea.ctx, 1, NULL, NULL, 0);
}

static int drop_cq(void *o)
{
	return ibv_destroy_cq(o);
}

static void *make_qp(void)
{
	static const struct ibv_qp_cap cap = { 1, 1, 1, 1, 0 };

	return qp_make(&ea, shared_cq, shared_cq, NULL, &cap);
}

static int drop_qp(void *o)
{
	return ibv_destroy_qp(o);
}

static void *make_srq(void)
{
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 1, .max_sge = 1 } };

	return ibv_create_srq(ea.pd, &sa);
}

static int drop_srq(void *o)
{
	return ibv_destroy_srq(o);
}

static void *make_mr(void)
{
	return ibv_reg_mr(ea.pd, page, 4096, IBV_ACCESS_LOCAL_WRITE);
}

static int drop_mr(void *o)
{
	return ibv_dereg_mr(o);
}

static void *make_mw(void)
{
	return ibv_alloc_mw(ea.pd, IBV_MW_TYPE_1);
}

static int drop_mw(void *o)
{
	return ibv_dealloc_mw(o);
}

static void *make_pd(void)
{
	return ibv_alloc_pd(ea.ctx);
}

static int drop_pd(void *o)
{
	return ibv_dealloc_pd(o);
}

static void *make_ah(void)
{
	struct ibv_ah_attr a = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = eb.gid, .sgid_index = ea.gid_index, .hop_limit = 64 },
	};

	return ibv_create_ah(ea.pd, &a);
}

static int drop_ah(void *o)
{
	return ibv_destroy_ah(o);
}

static void objects(void)
{
	static const struct {
		const char *name;
		unsigned int few, many;
		void *(*make)(void);
		int (*drop)(void *);
	} kinds[] = {
		{ "CQs", 1000, 65000, make_cq, drop_cq },
		{ "queue pairs", 1000, 65000, make_qp, drop_qp },
		{ "SRQs", 1000, 65000, make_srq, drop_srq },
		{ "regions", 4000, 1 << 20, make_mr, drop_mr },
		{ "windows", 4000, 1 << 20, make_mw, drop_mw },
		{ "PDs", 500, 1000, make_pd, drop_pd },
		{ "address handles", 500, 1000, make_ah, drop_ah },
	};
	unsigned int i, n, k;
	double t0, t1, t2;
	void **o;
	int err;

	shared_cq = cq_make(&ea, 1);
	if (posix_memalign(&page, 4096, 4096))
		die("no memory");
	for (k = 0; k < ARRAY_SIZE(kinds); k++) {
		n = is_long ? kinds[k].many : kinds[k].few;
		o = calloc(n, sizeof(*o));
		t0 = now();
		for (i = 0; i < n; i++) {
			o[i] = kinds[k].make();
			if (!o[i])
				break;
		}
		t1 = now();
		if (!is(i, n, "%u %s", n, kinds[k].name))
			diag("%s", strerror(errno));
		for (n = i, err = 0, i = 0; i < n && !err; i++)
			err = kinds[k].drop(o[i]);
		t2 = now();
		is(err, 0, "and none of them (made in %.0f us, removed in %.0f us each)",
		   (t1 - t0) / n * 1e6, (t2 - t1) / n * 1e6);
		free(o);
	}
	if (ibv_destroy_cq(shared_cq))
		die("destroy_cq");
	free(page);
}

static const struct test tests[] = {
	TEST(promised),
	TEST(requests),
	TEST(pieces),
	TEST(completions),
	TEST(outstanding),
	TEST(objects),
};

int main(int argc, char **argv)
{
	struct rlimit l = { RLIM_INFINITY, RLIM_INFINITY };
	const char *env = getenv("LONG");

	is_long = env && *env;
	setrlimit(RLIMIT_MEMLOCK, &l);
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
