// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Each allocation that a verb makes, and each copy from and to the program, fails in
 * turn: the first, the second ..., until the verb gets through without. What fails says
 * so by an errno, and works when it is called again.
 *
 * /proc/self/fail-nth (CONFIG_FAULT_INJECTION_DEBUG_FS) is what makes them fail: its
 * number counts down with all that this process does in the kernel.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common.h"
#include "newlink.h"

#define PAGE	4096
#define BUF	(1 << 20)
#define BIG	(16 << 20)
#define QKEY	0x11111111
/* None of the verbs allocates as often */
#define MANY	5000

#define LW	IBV_ACCESS_LOCAL_WRITE
#define ALL	(LW | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)

static struct end ea, eb;

/* --- each in turn ------------------------------------------------------------------------ */

struct op {
	const char *name;
	/* 0 or an errno; drop() undoes it */
	int (*make)(void);
	int (*drop)(void);
	/* what libibverbs says when it cannot open a file */
	int also;
};

/* What becomes of a call in which something failed */
struct tally {
	unsigned int refused;
	unsigned int absorbed;	/* it was done all the same */
	unsigned int wrong;	/* an errno that does not say why */
	unsigned int stuck;	/* it does not work the next time either */
};

/* No memory; none for a packet; a copy that failed */
static bool expected(const struct op *op, int err)
{
	return err == ENOMEM || err == ENOBUFS || err == EFAULT || err == op->also;
}

static void again(const struct op *op, int (*call)(void), unsigned int n, struct tally *t)
{
	int err = call();

	if (!err)
		return;
	t->stuck++;
	diag("%s, after failure %u: %s", op->name, n, strerror(err));
}

/* The core tells of what it has destroyed, and if that copy fails it is destroyed all the same. */
static void gone(const struct op *op, unsigned int n, int first, struct tally *t)
{
	int err = op->drop();

	if (!err || (first == EFAULT && err == ENOENT))
		return;
	t->stuck++;
	diag("%s, after failure %u, %s: %s", op->name, n, strerror(first), strerror(err));
}

static void count(const struct op *op, unsigned int n, int err, struct tally *t)
{
	if (!err) {
		t->absorbed++;
		return;
	}
	t->refused++;
	if (expected(op, err))
		return;
	t->wrong++;
	diag("%s, failure %u: %s", op->name, n, strerror(err));
}

static void said(const struct op *op, const char *what, unsigned int n, const struct tally *t)
{
	ok(n > 1 && n < MANY && !t->wrong && !t->stuck, "%s: %s, %u failures", op->name, what, n - 1);
	diag("%u refused, %u without effect", t->refused, t->absorbed);
}

static void each_make(const struct op *op)
{
	struct tally t = {};
	unsigned int n;
	int err;

	for (n = 1; n < MANY && !t.stuck; n++) {
		fault_nth(n);
		err = op->make();
		if (!fault_was())
			break;
		count(op, n, err, &t);
		if (!err)
			again(op, op->drop, n, &t);
		again(op, op->make, n, &t);
		again(op, op->drop, n, &t);
	}
	if (n < MANY && !t.stuck)
		again(op, err ? op->make : op->drop, n, &t);
	said(op, "made", n, &t);
}

static void each_drop(const struct op *op)
{
	struct tally t = {};
	unsigned int n;
	int err;

	for (n = 1; n < MANY && !t.stuck; n++) {
		again(op, op->make, n, &t);
		fault_nth(n);
		err = op->drop();
		if (!fault_was())
			break;
		count(op, n, err, &t);
		if (err)
			gone(op, n, err, &t);
	}
	ok(n < MANY && !t.wrong && !t.stuck, "%s: undone, %u failures", op->name, n - 1);
	diag("%u refused, %u without effect", t.refused, t.absorbed);
}

static void each(const struct op *ops, size_t num)
{
	size_t i;

	for (i = 0; i < num; i++) {
		each_make(&ops[i]);
		each_drop(&ops[i]);
	}
}

static int failed(const void *object)
{
	return object ? 0 : errno ? errno : EINVAL;
}

/* --- objects --------------------------------------------------------------------------- */

/* What others are made of */
static struct ibv_cq *cq;
static struct ibv_pd *pd;
static struct ibv_mr *mem;
static struct ibv_xrcd *xrcd;
static struct ibv_dm *dm;
static struct ibv_qp *qps[4];
static struct ibv_wq *wqs[2];
static struct ibv_rwq_ind_table *table;

/* What is made */
static struct ibv_context *made_ctx;
static struct ibv_pd *made_pd;
static struct ibv_td *made_td;
static struct ibv_comp_channel *made_ch;
static struct ibv_cq *made_cq;
static struct ibv_mr *made_mr;
static struct ibv_mw *made_mw;
static struct ibv_dm *made_dm;
static struct ibv_ah *made_ah;
static struct ibv_xrcd *made_xrcd;
static struct ibv_srq *made_srq;
static struct ibv_qp *made_qp;
static struct ibv_wq *made_wq;
static struct ibv_rwq_ind_table *made_table;
static struct ibv_flow *made_flow;

#define MAKE(name, call)		\
static int make_##name(void)		\
{					\
	errno = 0;			\
	return failed(call);		\
}

#define DROP(name, call)		\
static int drop_##name(void)		\
{					\
	return call;			\
}

#define OP(what, by, undo) { .name = what, .make = make_##by, .drop = drop_##undo }

MAKE(ctx, made_ctx = ibv_open_device(ea.ctx->device))
DROP(ctx, ibv_close_device(made_ctx))
MAKE(pd, made_pd = ibv_alloc_pd(ea.ctx))
DROP(pd, ibv_dealloc_pd(made_pd))
MAKE(td, made_td = ibv_alloc_td(ea.ctx, &(struct ibv_td_init_attr) {}))
DROP(td, ibv_dealloc_td(made_td))
MAKE(channel, made_ch = ibv_create_comp_channel(ea.ctx))
DROP(channel, ibv_destroy_comp_channel(made_ch))

MAKE(cq, made_cq = ibv_create_cq(ea.ctx, 100, NULL, NULL, 0))
DROP(cq, ibv_destroy_cq(made_cq))

static struct ibv_cq *cq_ex(void)
{
	struct ibv_cq_init_attr_ex ia = { .cqe = 5000, .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_cq_ex *ex = ibv_create_cq_ex(ea.ctx, &ia);

	return ex ? ibv_cq_ex_to_cq(ex) : NULL;
}
MAKE(cq_ex, made_cq = cq_ex())

static int make_cq_size(void)
{
	return ibv_resize_cq(cq, 4000);
}
DROP(cq_size, ibv_resize_cq(cq, 1000))

static uint8_t *buf;

MAKE(mr, made_mr = ibv_reg_mr(pd, buf + 5, PAGE, ALL))
MAKE(mr_big, made_mr = ibv_reg_mr(pd, buf, BIG, ALL))
MAKE(mr_odp, made_mr = ibv_reg_mr(pd, buf, BUF, LW | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ON_DEMAND))
MAKE(mr_implicit, made_mr = ibv_reg_mr(pd, NULL, SIZE_MAX, LW | IBV_ACCESS_ON_DEMAND))
MAKE(mr_dm, made_mr = ibv_reg_dm_mr(pd, dm, 0, PAGE, LW | IBV_ACCESS_ZERO_BASED))
DROP(mr, ibv_dereg_mr(made_mr))

static int buffer = -1;
MAKE(mr_dmabuf, made_mr = ibv_reg_dmabuf_mr(pd, 0, BUF, 0, buffer, LW))

static int rereg(void *at, size_t len, int access)
{
	int err = ibv_rereg_mr(mem, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS,
			       NULL, at, len, access);

	/* after any other error the region is as it was, or no more than to be deregistered */
	return !err ? 0 : errno ? errno : EINVAL;
}

static int make_rereg(void)
{
	return rereg(buf + PAGE, 4 * PAGE, LW);
}
DROP(rereg, rereg(buf, BUF, ALL))

static int advise(struct ibv_mr *mr, size_t len)
{
	struct ibv_sge sge = { .addr = (uintptr_t)mr->addr, .length = len, .lkey = mr->lkey };

	return ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
}

static struct ibv_mr *odp;

static int make_prefetch(void)
{
	return advise(odp, 16 * PAGE);
}
DROP(prefetch, madvise(odp->addr, 16 * PAGE, MADV_DONTNEED) ? errno : 0)

MAKE(mw, made_mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2))
DROP(mw, ibv_dealloc_mw(made_mw))
MAKE(dm, made_dm = ibv_alloc_dm(ea.ctx, &(struct ibv_alloc_dm_attr) { .length = 3 * PAGE }))
DROP(dm, ibv_free_dm(made_dm))

static struct ibv_ah_attr ah_attr(void)
{
	return (struct ibv_ah_attr) {
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = eb.gid, .sgid_index = ea.gid_index, .hop_limit = 64 },
	};
}

static struct ibv_ah *ah_make(void)
{
	struct ibv_ah_attr a = ah_attr();

	return ibv_create_ah(pd, &a);
}
MAKE(ah, made_ah = ah_make())
DROP(ah, ibv_destroy_ah(made_ah))

MAKE(xrcd, made_xrcd = xrcd_make(&ea))
DROP(xrcd, ibv_close_xrcd(made_xrcd))

MAKE(srq, made_srq = ibv_create_srq(pd, &(struct ibv_srq_init_attr) {
	.attr = { .max_wr = 100, .max_sge = 3 } }))
DROP(srq, ibv_destroy_srq(made_srq))

static struct ibv_srq *srq_of(enum ibv_srq_type type)
{
	struct ibv_srq_init_attr_ex ia = {
		.attr = { .max_wr = 100, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			     (type == IBV_SRQT_TM ? IBV_SRQ_INIT_ATTR_TM : IBV_SRQ_INIT_ATTR_XRCD),
		.srq_type = type,
		.pd = pd,
		.cq = cq,
		.xrcd = xrcd,
		.tm_cap = { .max_num_tags = 16, .max_ops = 4 },
	};

	return ibv_create_srq_ex(ea.ctx, &ia);
}
MAKE(srq_xrc, made_srq = srq_of(IBV_SRQT_XRC))
MAKE(srq_tm, made_srq = srq_of(IBV_SRQT_TM))

static struct ibv_srq *srq;

static int srq_size(unsigned int wrs)
{
	return ibv_modify_srq(srq, &(struct ibv_srq_attr) { .max_wr = wrs }, IBV_SRQ_MAX_WR);
}

static int make_srq_size(void)
{
	return srq_size(4000);
}
DROP(srq_size, srq_size(1000))

static struct ibv_qp *qp_of(enum ibv_qp_type type, unsigned int wrs)
{
	struct ibv_qp_init_attr_ex ia = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = wrs, .max_recv_wr = wrs, .max_send_sge = 2, .max_recv_sge = 2,
			 .max_inline_data = 64 },
		.qp_type = type,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};

	if (type == IBV_QPT_XRC_SEND)
		ia.cap.max_recv_wr = ia.cap.max_recv_sge = 0;
	return ibv_create_qp_ex(ea.ctx, &ia);
}
MAKE(rc, made_qp = qp_of(IBV_QPT_RC, 64))
MAKE(rc_big, made_qp = qp_of(IBV_QPT_RC, 8192))
MAKE(uc, made_qp = qp_of(IBV_QPT_UC, 64))
MAKE(ud, made_qp = qp_of(IBV_QPT_UD, 64))
MAKE(xrc_send, made_qp = qp_of(IBV_QPT_XRC_SEND, 64))
MAKE(raw, made_qp = qp_of(IBV_QPT_RAW_PACKET, 64))
DROP(qp, ibv_destroy_qp(made_qp))

static struct ibv_wq *wq_make(void)
{
	struct ibv_wq_init_attr ia = {
		.wq_type = IBV_WQT_RQ, .max_wr = 64, .max_sge = 1, .pd = pd, .cq = cq,
	};

	return ibv_create_wq(ea.ctx, &ia);
}
MAKE(wq, made_wq = wq_make())
DROP(wq, ibv_destroy_wq(made_wq))

static struct ibv_rwq_ind_table *table_make(void)
{
	struct ibv_rwq_ind_table_init_attr ia = { .log_ind_tbl_size = 1, .ind_tbl = wqs };

	return ibv_create_rwq_ind_table(ea.ctx, &ia);
}
MAKE(table, made_table = table_make())
DROP(table, ibv_destroy_rwq_ind_table(made_table))

static struct ibv_qp *rss_make(void)
{
	static uint8_t key[40];
	struct ibv_qp_init_attr_ex ia = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE |
			     IBV_QP_INIT_ATTR_RX_HASH,
		.pd = pd,
		.rwq_ind_tbl = table,
		.rx_hash_conf = {
			.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
			.rx_hash_key_len = sizeof(key),
			.rx_hash_key = key,
			.rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4,
		},
	};

	return ibv_create_qp_ex(ea.ctx, &ia);
}
MAKE(rss, made_qp = rss_make())

static struct ibv_flow *flow_make(void)
{
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
	} rule = {
		.attr = { .type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(rule), .num_of_specs = 1, .port = 1 },
		.eth = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof(rule.eth),
			 .val.dst_mac = { 2, 1, 1, 1, 1, 1 },
			 .mask.dst_mac = { 255, 255, 255, 255, 255, 255 } },
	};

	return ibv_create_flow(qps[3], &rule.attr);
}
MAKE(flow, made_flow = flow_make())
DROP(flow, ibv_destroy_flow(made_flow))

static const union ibv_gid group = { .raw = { [10] = 0xff, [11] = 0xff, 230, 7, 7, 7 } };

static int make_mcast(void)
{
	return ibv_attach_mcast(qps[2], &group, 0);
}
DROP(mcast, ibv_detach_mcast(qps[2], &group, 0))

static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_RAW_PACKET };

static void with_parts(void (*fn)(void))
{
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 1000, .max_sge = 1 } };
	unsigned int i;
	int memfd;

	pd = ea.pd;
	buf = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cq = cq_make(&ea, 1000);
	mem = ibv_reg_mr(pd, buf, BUF, ALL);
	odp = ibv_reg_mr(pd, buf + BUF, BUF, LW | IBV_ACCESS_ON_DEMAND);
	xrcd = xrcd_make(&ea);
	dm = ibv_alloc_dm(ea.ctx, &(struct ibv_alloc_dm_attr) { .length = PAGE });
	srq = ibv_create_srq(pd, &sa);
	if (buf == MAP_FAILED || !mem || !odp || !xrcd || !dm || !srq)
		die("what is needed");
	for (i = 0; i < ARRAY_SIZE(types); i++) {
		qps[i] = qp_of(types[i], 64);
		if (!qps[i])
			die("queue pair %u", i);
	}
	for (i = 0; i < ARRAY_SIZE(wqs); i++) {
		wqs[i] = wq_make();
		if (!wqs[i] || ibv_modify_wq(wqs[i], &(struct ibv_wq_attr) {
				.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY }))
			die("work queue %u", i);
	}
	table = table_make();
	buffer = buffer_make(&memfd, BUF);

	fn();

	if (buffer >= 0) {
		close(buffer);
		close(memfd);
	}
	ibv_destroy_rwq_ind_table(table);
	for (i = 0; i < ARRAY_SIZE(wqs); i++)
		ibv_destroy_wq(wqs[i]);
	for (i = 0; i < ARRAY_SIZE(types); i++)
		ibv_destroy_qp(qps[i]);
	if (ibv_destroy_srq(srq) || ibv_free_dm(dm) || ibv_close_xrcd(xrcd) || ibv_dereg_mr(odp) ||
	    ibv_dereg_mr(mem) || ibv_destroy_cq(cq))
		die("something is in use");
	munmap(buf, BIG);
}

static void objects(void)
{
	static const struct op ops[] = {
		{ "context", make_ctx, drop_ctx, .also = ENOENT },
		OP("PD", pd, pd),
		OP("channel", channel, channel),
		OP("CQ", cq, cq),
		OP("extended CQ", cq_ex, cq),
		OP("CQ's size", cq_size, cq_size),
		OP("SRQ", srq, srq),
		OP("SRQ's size", srq_size, srq_size),
		OP("XRC domain", xrcd, xrcd),
		OP("XRC SRQ", srq_xrc, srq),
		OP("SRQ for tags", srq_tm, srq),
		OP("AH", ah, ah),
		OP("MW", mw, mw),
		OP("DM", dm, dm),
		OP("WQ", wq, wq),
		OP("table of WQs", table, table),
	};

	each(ops, ARRAY_SIZE(ops));
	/* the program's own */
	is(make_td() || drop_td(), 0, "a thread domain");
}

static void regions(void)
{
	static const struct op ops[] = {
		OP("MR", mr, mr),
		OP("MR of 16 MiB", mr_big, mr),
		OP("MR on demand", mr_odp, mr),
		OP("implicit MR", mr_implicit, mr),
		OP("MR of device memory", mr_dm, mr),
		OP("MR that is registered anew", rereg, rereg),
		OP("prefetch", prefetch, prefetch),
	};
	static const struct op ops_dmabuf[] = {
		OP("MR of a dma-buf", mr_dmabuf, mr),
	};
	struct ibv_mr *mapped;

	each(ops, ARRAY_SIZE(ops));
	if (buffer < 0) {
		skip("no /dev/udmabuf", "MR of a dma-buf");
		return;
	}
	/*
	 * Mapped already: dma_buf_vmap() has a warning in the log where an exporter has no
	 * memory for a map, whoever asked for it.
	 */
	mapped = ibv_reg_dmabuf_mr(pd, 0, BUF, 0, buffer, LW);
	is(!mapped, 0, "a region of the same dma-buf");
	each(ops_dmabuf, ARRAY_SIZE(ops_dmabuf));
	if (mapped)
		ibv_dereg_mr(mapped);
}

/*
 * Not among these are queue pairs that receive XRC: create_xrc_qp_user() of the core does
 * not let go of the domain when it fails.
 */
static void queue_pairs(void)
{
	static const struct op ops[] = {
		OP("RC", rc, qp),
		OP("RC with 8192 requests", rc_big, qp),
		OP("UC", uc, qp),
		OP("UD", ud, qp),
		OP("XRC sender", xrc_send, qp),
		OP("RAW_PACKET", raw, qp),
		OP("RSS", rss, qp),
	};

	each(ops, ARRAY_SIZE(ops));
}

static void steering(void)
{
	static const struct op ops[] = {
		OP("flow", flow, flow),
		OP("multicast", mcast, mcast),
	};
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };

	if (ibv_modify_qp(qps[2], &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) ||
	    ibv_modify_qp(qps[3], &a, IBV_QP_STATE | IBV_QP_PORT))
		die("to INIT");
	each(ops, ARRAY_SIZE(ops));
}

/* --- connections ----------------------------------------------------------------------- */

static struct pair linked;

static int make_connected(void)
{
	const struct peer to[2] = {
		{ linked.qp[1]->qp_num, linked.psn[1], eb.gid, linked.conn.mtu },
		{ linked.qp[0]->qp_num, linked.psn[0], ea.gid, linked.conn.mtu },
	};
	int i, err = 0;

	for (i = 0; !err && i < 2; i++) {
		err = qp_to(linked.qp[i], IBV_QPS_RESET);
		if (!err)
			err = qp_init(linked.qp[i], &linked.conn);
		if (!err)
			err = qp_rtr(linked.qp[i], linked.e[i], &to[i], &linked.conn);
		if (!err)
			err = qp_rts(linked.qp[i], linked.psn[i], &linked.conn);
	}
	return err;
}

static int drop_connected(void)
{
	return qp_to(linked.qp[0], IBV_QPS_ERR);
}

static int make_queried(void)
{
	struct ibv_qp_init_attr ia;
	struct ibv_qp_attr a;

	return ibv_query_qp(linked.qp[0], &a, IBV_QP_STATE, &ia);
}
DROP(queried, 0)

static void connections(void)
{
	static const struct op ops[] = {
		OP("connection", connected, connected),
		OP("query", queried, queried),
	};
	static const enum ibv_qp_type kinds[] = { IBV_QPT_RC, IBV_QPT_UC };
	const struct pair_opts o = { .sq = 16, .rq = 16, .sge = 1, .buf = PAGE };
	struct pair_opts with;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		with = o;
		with.type = kinds[i];
		pair_create(&linked, &ea, &eb, &with);
		linked.conn.rd_atomic = 16;
		diag("%s", kinds[i] == IBV_QPT_RC ? "RC" : "UC");
		each(ops, ARRAY_SIZE(ops));
		pair_destroy(&linked);
	}
}

/* --- messages -------------------------------------------------------------------------- */

#define MSG	200000

struct message {
	const char *name;
	enum ibv_qp_type type;
	enum ibv_wr_opcode opcode;
	uint32_t len;
	int flags;
};

static struct pair way;

static int post_message(const struct message *m, unsigned int n)
{
	const bool atomic = m->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct ibv_send_wr wr = {
		.wr_id = n,
		.opcode = m->opcode,
		.send_flags = IBV_SEND_SIGNALED | m->flags,
		.num_sge = 1,
		.sg_list = SGE(way.buf[0], m->len, way.mr[0]->lkey),
	};

	if (atomic) {
		wr.wr.atomic.remote_addr = (uintptr_t)way.buf[1];
		wr.wr.atomic.rkey = way.mr[1]->rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)way.buf[1];
		wr.wr.rdma.rkey = way.mr[1]->rkey;
	}
	return wr_post(way.qp[0], &wr);
}

/* Who is sent to has what was sent; who asked has what is there. */
static bool message_is_there(const struct message *m, unsigned int n)
{
	uint64_t word;

	switch (m->opcode) {
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		memcpy(&word, way.buf[1], sizeof(word));
		return word == n + 1;
	case IBV_WR_RDMA_READ:
		return pattern_check(way.buf[0], n, 0, m->len) < 0;
	default:
		return pattern_check(way.buf[1], n, 0, m->len) < 0;
	}
}

static bool received(const struct message *m)
{
	return m->opcode == IBV_WR_SEND || m->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* One message, in which the nth fails: it arrives all the same, once. Return: NULL, or what is wrong. */
static const char *exchange(const struct message *m, unsigned int n, bool *was, int *err)
{
	const bool read = m->opcode == IBV_WR_RDMA_READ;
	struct ibv_wc wc = {};

	if (m->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		uint64_t word = n;

		memcpy(way.buf[1], &word, sizeof(word));
	} else {
		pattern_fill(way.buf[read], n, 0, m->len);
		memset(way.buf[!read], CANARY, m->len);
	}
	if (received(m) && pair_recv(&way, 1, n, 0, m->len))
		die("post_recv");

	fault_nth(n);
	*err = post_message(m, n);
	if (*err)
		*was = fault_was();
	if (*err && !*was)
		return "refused without a failure";
	if (*err && post_message(m, n))
		return "refused again";
	if (!cq_wait(way.scq[0], &wc, PATIENCE))
		return "no completion";
	/* what was done while waiting, too */
	if (!*err)
		*was = fault_was();
	if (wc.status || wc.wr_id != n)
		return ibv_wc_status_str(wc.status);
	if (received(m) && !cq_wait(way.rcq[1], &wc, PATIENCE))
		return "not received";
	if (received(m) && (wc.status || wc.wr_id != n || wc.byte_len != m->len))
		return "received, but not well";
	return message_is_there(m, n) ? NULL : "other bytes";
}

static void message(const struct message *m)
{
	const struct pair_opts o = { .sq = 16, .rq = 16, .sge = 1, .inl = 64, .buf = MSG, .type = m->type,
				     .access = ALL };
	unsigned int n, refused = 0;
	const char *wrong = NULL;
	bool was = true;
	int err;

	pair_create(&way, &ea, &eb, &o);
	way.conn.access = ALL & ~LW;
	pair_connect(&way);
	for (n = 1; n < MANY && was && !wrong; n++) {
		wrong = exchange(m, n, &was, &err);
		refused += !!err;
	}
	ok(n > 2 && n < MANY && !wrong, "%s: arrives, %u failures", m->name, n - 2);
	diag("%u refused%s%s", refused, wrong ? "; then: " : "", wrong ? wrong : "");
	pair_destroy(&way);
}

static void messages(void)
{
	static const struct message all[] = {
		{ "SEND", IBV_QPT_RC, IBV_WR_SEND, 100, 0 },
		{ "SEND inline", IBV_QPT_RC, IBV_WR_SEND, 64, IBV_SEND_INLINE },
		{ "SEND of 200000", IBV_QPT_RC, IBV_WR_SEND, MSG, 0 },
		{ "WRITE", IBV_QPT_RC, IBV_WR_RDMA_WRITE, 100, 0 },
		{ "WRITE of 200000", IBV_QPT_RC, IBV_WR_RDMA_WRITE, MSG, 0 },
		{ "WRITE with immediate", IBV_QPT_RC, IBV_WR_RDMA_WRITE_WITH_IMM, 5000, 0 },
		{ "READ", IBV_QPT_RC, IBV_WR_RDMA_READ, 100, 0 },
		{ "READ of 200000", IBV_QPT_RC, IBV_WR_RDMA_READ, MSG, 0 },
		{ "FETCH_ADD", IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0 },
		{ "SEND, UC", IBV_QPT_UC, IBV_WR_SEND, 5000, 0 },
		{ "WRITE with immediate, UC", IBV_QPT_UC, IBV_WR_RDMA_WRITE_WITH_IMM, MSG, 0 },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(all); i++)
		message(&all[i]);
}

static void datagrams(void)
{
	struct ibv_ah *ah = ah_to(&ea, &eb.gid);
	const char *wrong = NULL;
	unsigned int n, refused = 0;
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct ud a, b;
	bool was = true;
	int err;

	ud_up(&a, &ea, QKEY, false);
	ud_up(&b, &eb, QKEY, false);
	sge = (struct ibv_sge) { (uintptr_t)a.buf, 1000, a.mr->lkey };
	for (n = 1; n < MANY && was && !wrong; n++) {
		pattern_fill(a.buf, n, 0, 1000);
		ud_recv(&b, 1, 40 + 1000);
		fault_nth(n);
		err = ud_send(&a, false, ah, b.qp->qp_num, QKEY, n, &sge, 1, 0, 0);
		was = fault_was();
		refused += !!err;
		if (err && (!was || ud_send(&a, false, ah, b.qp->qp_num, QKEY, n, &sge, 1, 0, 0)))
			wrong = "refused";
		else if (!cq_wait(a.scq, &wc, PATIENCE) || wc.status || wc.wr_id != n)
			wrong = "not sent";
		else if (!cq_wait(b.rcq, &wc, PATIENCE) || wc.status || wc.byte_len != 40 + 1000)
			wrong = "not received";
		else if (pattern_check(b.buf + 8192 + 40, n, 0, 1000) >= 0)
			wrong = "other bytes";
	}
	ok(n > 2 && n < MANY && !wrong, "SEND, UD: arrives, %u failures", n - 2);
	diag("%u refused%s%s", refused, wrong ? "; then: " : "", wrong ? wrong : "");
	ud_down(&a);
	ud_down(&b);
	ibv_destroy_ah(ah);
}

/* --- links ----------------------------------------------------------------------------- */

#define LINK	"roce2"
#define NETDEV	"sroce_t"

static int tap = -1;

/* A netdev that goes when it is closed */
static int tap_open(void)
{
	struct ifreq r = { .ifr_name = NETDEV, .ifr_flags = IFF_TAP | IFF_NO_PI };
	int err;

	tap = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
	if (tap < 0)
		return errno;
	if (!ioctl(tap, TUNSETIFF, &r))
		return 0;
	err = errno;
	close(tap);
	tap = -1;
	return err;
}

static void tap_close(void)
{
	if (tap >= 0)
		close(tap);
	tap = -1;
}

static int inet = -1;

/* A socket's ioctl on the netdev: 0 or an errno */
static int tap_set(unsigned long what, struct ifreq r)
{
	strcpy(r.ifr_name, NETDEV);
	return ioctl(inet, what, &r) ? errno : 0;
}

static int tap_addr(const char *s)
{
	struct ifreq r = {};
	struct sockaddr_in sin = { .sin_family = AF_INET };

	if (inet_pton(AF_INET, s, &sin.sin_addr) != 1)
		die("%s", s);
	memcpy(&r.ifr_addr, &sin, sizeof(sin));
	return tap_set(SIOCSIFADDR, r);
}

static int make_link(void)
{
	return newlink(LINK, "sroce", NETDEV);
}

static int drop_link(void)
{
	return dellink(LINK);
}

/*
 * The core makes 6,000 allocations for a link, all but some hundred of them for the
 * files of its GIDs in sysfs (ib_setup_port_attrs): of those only some fail, else it
 * would take hours. What comes before and after does in turn.
 */
#define EDGE	(getenv("LONG") ? 1000 : 150)
#define BETWEEN	(getenv("LONG") ? 200 : 15)

static unsigned int next(unsigned int n, unsigned int total)
{
	const unsigned int step = total / BETWEEN;

	if (n < EDGE || n + EDGE >= total || step < 2)
		return n + 1;
	return n + step + EDGE < total ? n + step : total - EDGE;
}

/* Done once without a failure, to know how many there may be */
static unsigned int total_of(int (*call)(void))
{
	const unsigned int never = 1000000000;
	int err;

	fault_nth(never);
	err = call();
	if (err)
		die("a link: %s", strerror(err));
	return never - fault_left();
}

/* What is refused leaves no link, unless its answer got lost. */
static void each_link(int (*call)(void), bool made, unsigned int total)
{
	const struct op op = { made ? "link" : "link's end", .also = ENFILE };
	/* what fails may be tried in another way; that is some more */
	const unsigned int most = 2 * total + 100;
	struct tally t = {};
	unsigned int n, done = 0;
	int err;

	for (n = 1; n < most && !t.stuck; n = next(n, total)) {
		if (!made)
			again(&op, make_link, n, &t);
		fault_nth(n);
		err = call();
		if (!fault_was())
			break;
		done++;
		count(&op, n, err, &t);
		err = drop_link();
		if (err == 0 || err == ENODEV)
			continue;
		t.stuck++;
		diag("%s, after failure %u: it cannot be deleted: %s", op.name, n, strerror(err));
	}
	drop_link();
	again(&op, make_link, n, &t);
	again(&op, drop_link, n, &t);
	ok(n > 2 && n < most && !t.wrong && !t.stuck, "%s: %u failures in %u", op.name, done, n);
	diag("%u refused, %u without effect", t.refused, t.absorbed);
}

#define TAP(name, what, ...)						\
static int name(void)							\
{									\
	return tap_set(what, (struct ifreq) { __VA_ARGS__ });		\
}

TAP(make_up, SIOCSIFFLAGS, .ifr_flags = IFF_UP)
TAP(drop_up, SIOCSIFFLAGS, .ifr_flags = 0)
TAP(make_mtu, SIOCSIFMTU, .ifr_mtu = 600)
TAP(drop_mtu, SIOCSIFMTU, .ifr_mtu = 1500)

static int make_addr(void)
{
	return tap_addr("192.168.78.1");
}
DROP(addr, tap_addr("192.168.78.2"))

/* Told of by notifiers, whose failures a netdev may ignore: there is a link all the same. */
static void links(void)
{
	static const struct op events[] = {
		OP("up and down", up, up),
		OP("MTU", mtu, mtu),
		OP("address", addr, addr),
	};
	unsigned int total;

	inet = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (inet < 0 || tap_open())
		die("a tap");
	total = total_of(make_link);
	each_link(drop_link, false, total_of(drop_link));
	each_link(make_link, true, total);
	if (make_link())
		die("a link");
	each(events, ARRAY_SIZE(events));
	is(drop_link(), 0, "its link is deleted");
	tap_close();
	close(inet);
}

/* When the one before has gone, by itself: nobody but the netdev's end deletes it. */
static int make_next_link(void)
{
	double end = now() + PATIENCE;
	int err;

	while ((err = make_link()) == ENFILE && now() < end)
		sleep_ms(5);
	return err;
}

/* A netdev that goes takes its link along, whatever fails meanwhile. */
static void netdevs(void)
{
	unsigned int n;
	bool was = true;
	int err = 0;

	for (n = 1; n < MANY && was && !err; n++) {
		err = tap_open();
		if (!err)
			err = make_next_link();
		fault_nth(n);
		tap_close();
		was = fault_was();
	}
	ok(n > 2 && n < MANY && !err, "netdev: goes with its link, %u failures", n - 2);
	if (err)
		diag("the next one: %s", strerror(err));
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(objects, .with = with_parts),
		TEST(regions, .with = with_parts),
		TEST(queue_pairs, .with = with_parts),
		TEST(steering, .with = with_parts),
		TEST(connections),
		TEST(messages),
		TEST(datagrams),
		TEST(links),
		TEST(netdevs),
	};

	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
