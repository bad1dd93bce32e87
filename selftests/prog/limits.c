// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What query_device promises is there: requests, pieces, completions and READs
 * to the last one, and as many objects, and not one more. And what the administrator allows,
 * by a cgroup or by RLIMIT_MEMLOCK, and a user without privileges may not.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

static struct end ea, eb;
static bool is_long;

#define SIG IBV_SEND_SIGNALED
#define R_ALL (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* What is said of on-demand memory, by transport */
static void odp_promised(const struct ibv_device_attr_ex *x, bool a19)
{
	const uint32_t datagram = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
				  IBV_ODP_SUPPORT_SRQ_RECV;
	/* FLUSH and ATOMIC WRITE, which this rdma-core need not know */
	const uint32_t connected = datagram | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
				   IBV_ODP_SUPPORT_ATOMIC | (a19 ? 1 << 6 | 1 << 7 : 0);

	if (!odp_there(&ea))
		return;
	is(x->odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
	   "odp_caps: explicit and implicit");
	is(x->odp_caps.per_transport_caps.rc_odp_caps, connected, "odp_caps of RC");
	is(x->xrc_odp_caps, connected, "odp_caps of XRC");
	is(x->odp_caps.per_transport_caps.uc_odp_caps, datagram | IBV_ODP_SUPPORT_WRITE,
	   "odp_caps of UC");
	is(x->odp_caps.per_transport_caps.ud_odp_caps, datagram, "odp_caps of UD");
}

/* What Documentation/verbs.rst has under Limits, to the last one */
static void promised(void)
{
	const struct ibv_device_attr *a = &ea.attr;
	struct ibv_device_attr_ex x = {};
	const struct {
		const char *name;
		long long got, want;
	} limits[] = {
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
		{ "max_pd", a->max_pd, 1 << 20 },
		{ "max_ah", a->max_ah, 1 << 20 },
		{ "max_mr_size", a->max_mr_size, -1 },
		{ "max_msg_sz", ea.port.max_msg_sz, 1 << 30 },
		/* struct ibv_qp_attr has a byte for it */
		{ "max_qp_rd_atom", a->max_qp_rd_atom, 255 },
		{ "max_qp_init_rd_atom", a->max_qp_init_rd_atom, 255 },
		{ "max_res_rd_atom", a->max_res_rd_atom, 65536 * 255 },
		{ "atomic_cap", a->atomic_cap, IBV_ATOMIC_GLOB },
		{ "max_mcast_grp", a->max_mcast_grp, 8192 },
		{ "max_mcast_qp_attach", a->max_mcast_qp_attach, 240 },
		{ "max_pkeys", a->max_pkeys, 1 },
		{ "local_ca_ack_delay", a->local_ca_ack_delay, 15 },
		{ "gid_tbl_len", ea.port.gid_tbl_len, 256 },
		/* rules need a hook that the smallest kernels lack: see raw */
		{ "device_cap_flags", a->device_cap_flags & ~IBV_DEVICE_MANAGED_FLOW_STEERING,
		  IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
		  IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_XRC | IBV_DEVICE_SRQ_RESIZE |
		  IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_CURR_QP_STATE_MOD |
		  IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
		  IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR },
		/* the kernel has a connection manager for it: IB_PORT_CM_SUP */
		{ "port_cap_flags", ea.port.port_cap_flags & ~IBV_PORT_IP_BASED_GIDS, 1 << 16 },
	};
	bool a19;

	for (unsigned int i = 0; i < ARRAY_SIZE(limits); i++)
		is(limits[i].got, limits[i].want, "%s", limits[i].name);
	if (ibv_query_device_ex(ea.ctx, NULL, &x))
		die("query_device_ex");
	/* FLUSH to global visibility and ATOMIC WRITE, where the kernel has their rights */
	a19 = has_flush(&ea);
	is(x.device_cap_flags_ex,
	   (uint32_t)a->device_cap_flags | (a19 ? 1ULL << 38 | 1ULL << 40 : 0),
	   "device_cap_flags_ex");
	odp_promised(&x, a19);
	is(x.max_dm_size, 64 << 20, "max_dm_size");
	is(x.raw_packet_caps, IBV_RAW_PACKET_CAP_CVLAN_STRIPPING, "raw_packet_caps");
	is(x.rss_caps.max_rwq_indirection_tables, 4096, "max_rwq_indirection_tables");
	is(x.rss_caps.max_rwq_indirection_table_size, 4096, "max_rwq_indirection_table_size");
	is(x.rss_caps.supported_qpts, 1 << IBV_QPT_RAW_PACKET, "supported_qpts of RSS");
	is(x.tm_caps.max_num_tags, 1024, "max_num_tags");
	is(x.tm_caps.max_sge, 32, "max_sge of tags");
	is(x.tm_caps.max_ops, 16384, "max_ops of tags");
	is(x.tm_caps.max_rndv_hdr_size, 256, "max_rndv_hdr_size");
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

/* A machine that is busy with something else is so for one of them. */
static double best_of_three(struct ibv_qp *a, struct ibv_cq *cq, struct ibv_mr *l, struct ibv_mr *r,
			    unsigned int n)
{
	double t = read_all(a, cq, l, r, n);

	for (unsigned int i = 1; i < 3; i++) {
		double next = read_all(a, cq, l, r, n);

		t = min(t, next);
	}
	return t;
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
	one = best_of_three(a, scq, l, r, 1);
	if (one < 0.1) {
		skip("the wire is too fast to tell", "outstanding READs");
		goto out;
	}
	all = best_of_three(a, scq, l, r, max);
	ok(all < one * 1.7, "%u READs take one round trip (%.0f ms, one %.0f ms)", max, all * 1e3,
	   one * 1e3);
	more = best_of_three(a, scq, l, r, max + 1);
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
static struct ibv_qp *shared_ud, *shared_raw;
static struct ibv_wq *shared_wq;
static union ibv_gid group;
static uintptr_t groups;
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

static void *make_xrcd(void)
{
	return xrcd_make(&ea);
}

static int drop_xrcd(void *o)
{
	return ibv_close_xrcd(o);
}

static void *make_wq(void)
{
	struct ibv_wq_init_attr wa = { .wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1,
				       .pd = ea.pd, .cq = shared_cq };

	return ibv_create_wq(ea.ctx, &wa);
}

static int drop_wq(void *o)
{
	return ibv_destroy_wq(o);
}

static void *make_table(void)
{
	struct ibv_rwq_ind_table_init_attr ta = { .ind_tbl = &shared_wq };

	return ibv_create_rwq_ind_table(ea.ctx, &ta);
}

static int drop_table(void *o)
{
	return ibv_destroy_rwq_ind_table(o);
}

#define DM_PIECE (1 << 20)

static void *make_dm(void)
{
	struct ibv_alloc_dm_attr da = { .length = DM_PIECE };

	return ibv_alloc_dm(ea.ctx, &da);
}

static int drop_dm(void *o)
{
	return ibv_free_dm(o);
}

static void *make_context(void)
{
	return ibv_open_device(ea.ctx->device);
}

static int drop_context(void *o)
{
	return ibv_close_device(o);
}

static struct ibv_qp *qp_ready(enum ibv_qp_type type)
{
	static const struct ibv_qp_cap cap = { 1, 1, 1, 1, 0 };
	struct ibv_qp_init_attr ia = { .send_cq = shared_cq, .recv_cq = shared_cq, .cap = cap,
				       .qp_type = type };

	return ibv_create_qp(ea.pd, &ia);
}

static void *make_member(void)
{
	struct ibv_qp *qp = qp_ready(IBV_QPT_UD);
	int err = qp ? ibv_attach_mcast(qp, &group, 0) : 0;

	if (!err)
		return qp;
	ibv_destroy_qp(qp);
	errno = err;
	return NULL;
}

static int drop_member(void *o)
{
	return ibv_detach_mcast(o, &group, 0) ?: ibv_destroy_qp(o);
}

/* A group's handle is its number. */
static union ibv_gid group_of(uintptr_t num)
{
	return (union ibv_gid) { .raw = { 0xff, 0x0e, [13] = 1, num >> 8, num } };
}

static void *make_group(void)
{
	union ibv_gid gid = group_of(++groups);

	errno = ibv_attach_mcast(shared_ud, &gid, 0);
	return errno ? NULL : (void *)groups;
}

static int drop_group(void *o)
{
	union ibv_gid gid = group_of((uintptr_t)o);

	return ibv_detach_mcast(shared_ud, &gid, 0);
}

static void *make_rule(void)
{
	static uint16_t num;
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
	} rule = {
		.attr = { .type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(rule), .num_of_specs = 1,
			  .port = 1 },
		.eth = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof(rule.eth),
			 .val.dst_mac = { 2, 0, 0, 1, ++num >> 8, num & 0xff },
			 .mask.dst_mac = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff } },
	};

	return ibv_create_flow(shared_raw, &rule.attr);
}

static int drop_rule(void *o)
{
	return ibv_destroy_flow(o);
}

/* Of what there is not in query_device, Documentation/verbs.rst has the limit. */
static const struct kind {
	const char *name;
	unsigned int few;
	/* the limit: one of query_device's, or this */
	size_t attr;
	unsigned int limit;
	void *(*make)(void);
	int (*drop)(void *o);
	/* a cgroup counts them as objects */
	bool charged;
} kinds[] = {
#define IN(field) offsetof(struct ibv_device_attr, field), 0
	{ "CQs", 1000, IN(max_cq), make_cq, drop_cq, true },
	{ "queue pairs", 1000, IN(max_qp), make_qp, drop_qp, true },
	{ "SRQs", 1000, IN(max_srq), make_srq, drop_srq, true },
	{ "regions", 4000, IN(max_mr), make_mr, drop_mr, true },
	{ "windows", 4000, IN(max_mw), make_mw, drop_mw, true },
	{ "PDs", 500, IN(max_pd), make_pd, drop_pd, true },
	{ "address handles", 500, IN(max_ah), make_ah, drop_ah, true },
	{ "multicast groups", 100, IN(max_mcast_grp), make_group, drop_group, false },
	{ "members of a group", 240, IN(max_mcast_qp_attach), make_member, drop_member, true },
#undef IN
	{ "XRC domains", 500, 0, 65536, make_xrcd, drop_xrcd, true },
	{ "work queues", 500, 0, 65536, make_wq, drop_wq, true },
	{ "indirection tables", 4096, 0, 4096, make_table, drop_table, true },
	{ "pieces of device memory", 64, 0, 64, make_dm, drop_dm, true },
	{ "rules", 500, 0, 4096, make_rule, drop_rule, true },
	{ "contexts", 100, 0, 65536, make_context, drop_context, true },
};

static unsigned int limit_of(const struct kind *k)
{
	return k->limit ?: *(const unsigned int *)((const char *)&ea.attr + k->attr);
}

static void with_shared(void (*fn)(void))
{
	shared_cq = cq_make(&ea, 1);
	shared_ud = qp_ready(IBV_QPT_UD);
	shared_raw = qp_ready(IBV_QPT_RAW_PACKET);
	shared_wq = make_wq();
	group = group_of(0);
	if (!shared_ud || !shared_raw || !shared_wq)
		die("shared objects: %s", strerror(errno));
	if (posix_memalign(&page, 4096, 4096))
		die("no memory");
	fn();
	free(page);
	if (ibv_destroy_wq(shared_wq) || ibv_destroy_qp(shared_raw) || ibv_destroy_qp(shared_ud) ||
	    ibv_destroy_cq(shared_cq))
		die("destroy");
}

/* Some of them are this program's or the kernel's own. */
#define OURS 8

static void objects(void)
{
	const struct kind *k;
	unsigned int i, n, limit;
	double t0, t1, t2;
	bool full;
	void **o;
	int err;

	for (k = kinds; k < kinds + ARRAY_SIZE(kinds); k++) {
		limit = limit_of(k);
		full = is_long || k->few == limit;
		n = full ? limit + 1 : k->few;
		o = calloc(n, sizeof(*o));
		t0 = now();
		for (i = 0, err = 0; i < n; i++) {
			o[i] = k->make();
			if (!o[i]) {
				err = errno;
				break;
			}
		}
		t1 = now();
		if (!full)
			ok(i == n, "%u %s: %s", n, k->name, strerror(err));
		else
			ok(i <= limit && i + OURS >= limit && err == ENOMEM,
			   "%u of %u %s, and no more: %s", i, limit, k->name, strerror(err));
		for (n = i, err = 0, i = 0; i < n && !err; i++)
			err = k->drop(o[i]);
		t2 = now();
		is(err, 0, "and none of them (made in %.0f us, removed in %.0f us each)",
		   (t1 - t0) / n * 1e6, (t2 - t1) / n * 1e6);
		free(o);
	}
}

/* --- what is allowed ------------------------------------------------------------------ */

/* A number in a file of this process's cgroup: behind @word, in the line that begins so */
static long long cgroup_says(const char *file, const char *begin, const char *word)
{
	const char *dir = getenv("CGROUP");
	char path[300], line[300], *p;
	long long v = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir ?: "", file);
	f = fopen(path, "r");
	if (!f)
		die("%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		p = strncmp(line, begin, strlen(begin)) ? NULL : strstr(line, word);
		if (p)
			v = atoll(p + strlen(word));
	}
	fclose(f);
	return v;
}

static long long charged(const char *what)
{
	return cgroup_says("rdma.current", ea.name, what);
}

static void leave_all(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		if (!kinds[i].make())
			_exit(1);
	raise(SIGKILL);
}

static void killed(void)
{
	end_open(&ea, ea.name, NULL);
	with_shared(leave_all);
}

/* rdma's cgroup controller: so many handles and objects as QUOTA_* say, of whatever kind */
static void quota(void)
{
	const long long handles = atoll(getenv("QUOTA_HANDLES") ?: ""),
			objects = atoll(getenv("QUOTA_OBJECTS") ?: "");
	const struct kind *k;
	long long had, full;
	void *o[1000];
	int n, err;

	for (k = kinds; k < kinds + ARRAY_SIZE(kinds); k++) {
		const bool handle = k->make == make_context;

		had = charged("hca_object=");
		for (n = 0; k->charged && n < (int)ARRAY_SIZE(o); n++) {
			o[n] = k->make();
			if (!o[n])
				break;
		}
		err = errno;
		full = handle ? charged("hca_handle=") : charged("hca_object=");
		if (k->charged)
			ok(n && err == EAGAIN && full == (handle ? handles : objects),
			   "%d %s, then %s (%lld)", n, k->name, strerror(err), full);
		while (n--)
			if (k->drop(o[n]))
				die("%s", k->name);
		is(charged("hca_object="), had, "given back");
	}
	had = charged("hca_object=");
	is(WTERMSIG(in_child(killed)), SIGKILL, "a process with one of each is killed");
	is(charged("hca_object="), had, "and all is given back");
	is(charged("hca_handle="), 1, "its handle, too");
}

/*
 * The memory cgroup: rings and device memory are the program's. Each processor charges 64 pages ahead
 * (MEMCG_CHARGE_BATCH), which then are used without being charged again.
 */
#define AHEAD (1 << 20)

static void memory(void)
{
	struct ibv_qp_cap cap = { 16384, 16384, 32, 32, 0 };
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 16384, .max_sge = 32 } };
	struct ibv_alloc_dm_attr da = { .length = 16 << 20 };
	const long long had = cgroup_says("memory.current", "", "");
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_dm *dm;
	long long cq_has, all;

	shared_cq = cq_make(&ea, 1 << 19);
	cq_has = cgroup_says("memory.current", "", "") - had;
	ok(cq_has >= (32 << 20) - AHEAD && cq_has < 40 << 20, "a completion queue of 32 MiB: %lld bytes", cq_has);
	qp = qp_make(&ea, shared_cq, shared_cq, NULL, &cap);
	srq = ibv_create_srq(ea.pd, &sa);
	dm = ibv_alloc_dm(ea.ctx, &da);
	if (!qp || !srq || !dm)
		die("queues: %s", strerror(errno));
	all = cgroup_says("memory.current", "", "") - had - cq_has;
	/* four rings or pieces of 16 MiB each, and what the kernel has of requests */
	ok(all >= (64 << 20) - AHEAD && all < 96 << 20, "other queues, and device memory: %lld bytes", all);
	if (ibv_destroy_qp(qp) || ibv_destroy_srq(srq) || ibv_free_dm(dm) || ibv_destroy_cq(shared_cq))
		die("destroy");
	all = cgroup_says("memory.current", "", "") - had;
	ok(all < 4 << 20, "and none of them: %lld bytes", all);
}

/*
 * What is noted of memory on demand, by threads of the kernel: a page of the process's own
 * for each 512, that is 2 MiB for a gigabyte of nothing.
 */
static void memory_on_demand(void)
{
	const uint32_t len = 1 << 30;
	const long long had = cgroup_says("memory.current", "", "");
	const double end = now() + 10 * PATIENCE;
	struct ibv_sge sge = { .length = len };
	struct ibv_mr *mr;
	long long more;
	void *m;

	if (!odp_there(&ea))
		return;
	m = mmap(NULL, len, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	mr = m == MAP_FAILED ? NULL : ibv_reg_mr(ea.pd, m, len, IBV_ACCESS_ON_DEMAND);
	if (!mr)
		die("memory on demand");
	sge.addr = (uintptr_t)m;
	sge.lkey = mr->lkey;
	if (ibv_advise_mr(ea.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1))
		die("advise_mr");
	do {
		usleep(10000);
		more = cgroup_says("memory.current", "", "") - had;
	} while (more < 2 << 20 && now() < end);
	ok(more >= 2 << 20, "what is noted of memory on demand: %lld bytes", more);
	if (ibv_dereg_mr(mr) || munmap(m, len))
		die("dereg_mr");
}

static struct ibv_srq *tags;

static void *make_tag(void)
{
	struct ibv_ops_wr wr = { .opcode = IBV_WR_TAG_ADD, .tm.add = { .tag = 1, .mask = 1 } }, *bad;

	errno = ibv_post_srq_ops(tags, &wr, &bad);
	return errno ? NULL : (void *)(uintptr_t)(wr.tm.handle + 1ULL);
}

static int drop_tag(void *o)
{
	struct ibv_ops_wr wr = {
		.opcode = IBV_WR_TAG_DEL, .tm.handle = (uintptr_t)o - 1,
	}, *bad;

	return ibv_post_srq_ops(tags, &wr, &bad);
}

/* A node of a table of numbers has so many, and so many bytes at least. */
#define NODE_NUMBERS 64
#define NODE_BYTES 512

/* What is freed after a grace period goes late: when nothing has gone for longer than that takes */
static long long slab_settled(void)
{
	long long v = cgroup_says("memory.stat", "slab ", "slab "), last = v;
	const double end = now() + 10 * PATIENCE;
	double since = now();

	while (now() < since + 6 && now() < end) {
		sleep_ms(100);
		v = cgroup_says("memory.stat", "slab ", "slab ");
		if (v < last - NODE_BYTES * NODE_NUMBERS / 4) {
			last = v;
			since = now();
		}
	}
	return v;
}

/* What @num objects take, of which each was made as the last of @apart: the others are dropped. */
static long long slab_of(void **o, unsigned int num, unsigned int apart, void *(*make)(void),
			 int (*drop)(void *o))
{
	const long long had = slab_settled();
	unsigned int i, j;

	for (i = 0; i < num; i++) {
		for (j = 0; j < apart; j++) {
			o[i] = make();
			if (!o[i] || (j + 1 < apart && drop(o[i])))
				die("object %u, %u", i, j);
		}
	}
	return slab_settled() - had;
}

/* Who keeps one of many numbers keeps a node of the table of numbers for it. */
static void sparse(const char *what, void *(*make)(void), int (*drop)(void *o))
{
	enum { NUM = 256 };
	void *close_by[NUM], *apart[NUM];
	long long few, many;

	few = slab_of(close_by, NUM, 1, make, drop);
	many = slab_of(apart, NUM, NODE_NUMBERS, make, drop);
	ok(many - few >= (NUM - 8) * NODE_BYTES, "%u %s far apart: %lld bytes more than %lld", NUM,
	   what, many - few, few);
	for (unsigned int i = 0; i < NUM; i++)
		if (drop(close_by[i]) || drop(apart[i]))
			die("%s", what);
}

static void memory_numbers(void)
{
	struct ibv_srq_init_attr_ex sa = {
		.attr = { .max_wr = 1, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = ea.pd,
		.tm_cap = { .max_num_tags = 1024, .max_ops = 16 },
	};

	shared_cq = sa.cq = cq_make(&ea, 16);
	tags = ibv_create_srq_ex(ea.ctx, &sa);
	if (!tags)
		die("create_srq_ex");
	sparse("tags", make_tag, drop_tag);
	sparse("address handles", make_ah, drop_ah);
	if (ibv_destroy_srq(tags) || ibv_destroy_cq(shared_cq))
		die("destroy");
}

/* What is pinned of this process, in bytes */
static long long pinned(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	long long v = 0;

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "VmPin:", 6))
			v = atoll(line + 6) * 1024;
	if (f)
		fclose(f);
	return v;
}

static struct ibv_mr *try_mr(void *at, size_t len, int access)
{
	errno = 0;
	return ibv_reg_mr(ea.pd, at, len, IBV_ACCESS_LOCAL_WRITE | access);
}

/* Who has no CAP_IPC_LOCK: as much is pinned as RLIMIT_MEMLOCK says, and given back. */
static void memlock(void)
{
	struct ibv_mr *mr, *half, *none;
	struct rlimit l;
	int fd, memfd;
	size_t max;
	uint8_t *m;

	getrlimit(RLIMIT_MEMLOCK, &l);
	max = l.rlim_cur;
	if (max > 1 << 30 || max % 8192)
		die("RLIMIT_MEMLOCK is %zu", max);
	m = mmap(NULL, 4 * max, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED)
		die("mmap");
	is(pinned(), 0, "rings are not pinned memory");
	mr = try_mr(m, max, 0);
	ok(mr && pinned() == (long long)max, "a region of all of %zu bytes", max);
	none = try_mr(m + max, 1, 0);
	ok(!none && errno == ENOMEM, "one of a byte more: %s", strerror(errno));
	is(pinned(), max, "and no more is pinned");
	if (!mr || ibv_dereg_mr(mr))
		die("dereg_mr");
	is(pinned(), 0, "given back");
	none = try_mr(m, max + 1, 0);
	ok(!none && errno == ENOMEM && !pinned(), "a region that is too long: %s", strerror(errno));

	/* anew: both are pinned for a moment */
	half = try_mr(m, max / 2, 0);
	mr = try_mr(m, 4096, 0);
	if (!half || !mr)
		die("reg_mr");
	ok(ibv_rereg_mr(half, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, m + max, max / 2, 0) &&
	   pinned() == (long long)max / 2 + 4096, "no room to register another half: %s", strerror(errno));
	if (ibv_dereg_mr(mr))
		die("dereg_mr");
	ok(!ibv_rereg_mr(half, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, m + max, max / 2, 0) &&
	   pinned() == (long long)max / 2, "and room");
	if (ibv_dereg_mr(half))
		die("dereg_mr");
	is(pinned(), 0, "given back");

	/* what does not pin */
	mr = try_mr(m, 4 * max, IBV_ACCESS_ON_DEMAND);
	ok(mr && !pinned(), "memory on demand: %s", strerror(errno));
	if (mr && ibv_dereg_mr(mr))
		die("dereg_mr");
	fd = buffer_make(&memfd, 4 * max);
	if (fd < 0) {
		skip("no /dev/udmabuf for this user", "another driver's buffer");
	} else {
		errno = 0;
		mr = ibv_reg_dmabuf_mr(ea.pd, 0, 4 * max, 0, fd, IBV_ACCESS_LOCAL_WRITE);
		ok(mr && !pinned(), "another driver's buffer, which is its to count: %s", strerror(errno));
		if (mr && ibv_dereg_mr(mr))
			die("dereg_mr");
		close(fd);
		close(memfd);
	}
	munmap(m, 4 * max);
}

/* --- who may not ---------------------------------------------------------------------- */

#define NOBODY 65534
/* what management has, and programs have not: IBTA Vol.1 10.2.5 */
#define HIGH_QKEY 0x80010000

static struct ud management;

/* What IBTA, or the core, has for the privileged alone */
static void refused(void)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = HIGH_QKEY };
	struct ibv_flow_attr sniff = { .type = IBV_FLOW_ATTR_SNIFFER, .size = sizeof(sniff), .port = 1 };
	struct ibv_sge sge;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	struct ibv_wc wc;
	struct ud u;
	void *o;

	if (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
	    setresuid(NOBODY, NOBODY, NOBODY))
		die("nobody");
	if (getenv("CONTAINER") && unshare(CLONE_NEWUSER | CLONE_NEWNET)) {
		skip(strerror(errno), "a user namespace");
		return;
	}
	end_open(&ea, ea.name, NULL);
	shared_cq = cq_make(&ea, 4);
	qp = qp_ready(IBV_QPT_RAW_PACKET);
	ok(!qp && errno == EPERM, "no raw queue pair: %s", strerror(errno));
	ud_up(&u, &ea, 0x1234, false);
	errno = 0;
	o = ibv_create_flow(u.qp, &sniff);
	ok(!o && errno == EPERM, "no rule, nor a sniffer: %s", strerror(errno));
	qp = qp_ready(IBV_QPT_UD);
	if (!qp)
		die("create_qp, UD");
	errno = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	is(errno, EPERM, "no Q_Key of management");
	ah = ah_to(&ea, &eb.gid);
	memset(u.buf, 1, 64);
	sge = *SGE(u.buf, 64, u.mr->lkey);
	if (ud_send(&u, false, ah, management.qp->qp_num, HIGH_QKEY, 1, &sge, 1, 0, 0))
		die("post_send");
	wc_is(u.scq, 1, IBV_WC_SUCCESS, &wc, "a datagram with such a Q_Key goes out with its own");
	if (ibv_destroy_ah(ah) || ibv_destroy_qp(qp))
		die("destroy");
	ud_down(&u);
	exit(done_testing());
}

/* A user; with CONTAINER one that is root in a user namespace of its own */
static void nobody(void)
{
	const long long before = hw_counter(&eb, "qkey_viol_cntr");
	const double end = now() + PATIENCE;
	struct ibv_port_attr port;

	ud_up(&management, &eb, HIGH_QKEY, false);
	ud_recv(&management, 0, 200);
	is(in_child(refused), 0, "what nobody may do");
	while (hw_counter(&eb, "qkey_viol_cntr") == before && now() < end)
		sleep_ms(20);
	is(hw_counter(&eb, "qkey_viol_cntr") - before, 1, "which is another's");
	if (ibv_query_port(eb.ctx, 1, &port))
		die("query_port");
	is(port.qkey_viol_cntr, before + 1, "ibv_query_port: qkey_viol_cntr");
	is(port.bad_pkey_cntr, hw_counter(&eb, "rx_wrong_pkey"), "and bad_pkey_cntr");
	ok(cq_quiet(management.rcq, 0.1), "and is not received");
	ud_down(&management);
}

static const struct test tests[] = {
	TEST(promised),
	TEST(requests),
	TEST(pieces),
	TEST(completions),
	TEST(outstanding),
	TEST(objects, .with = with_shared),
	TEST(quota, .with = with_shared),
	TEST(memory),
	TEST(memory_on_demand),
	TEST(memory_numbers),
	TEST(memlock),
	TEST(nobody),
};

int main(int argc, char **argv)
{
	/* two files a context */
	struct rlimit files = { 200000, 200000 };
	const char *env = getenv("LONG");

	is_long = env && *env;
	if (is_long)
		setrlimit(RLIMIT_NOFILE, &files);
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
