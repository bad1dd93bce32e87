// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Every status with which a software device's requests can complete, made to
 * happen: what completes with it, what follows, the states of the queue pairs
 * afterwards, and the asynchronous events that go with them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

static struct end ea, eb;

#define SIG IBV_SEND_SIGNALED
#define R_ALL (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define LEN 3000		/* more than one packet */

static const struct op {
	const char *name;
	enum ibv_wr_opcode wr;
	bool recv;		/* takes a receive */
	bool places;		/* its data goes there */
	bool atomic, back;	/* brings data back */
} ops[] = {
	{ "SEND", IBV_WR_SEND, true, true, false, false },
	{ "SEND_IMM", IBV_WR_SEND_WITH_IMM, true, true, false, false },
	{ "WRITE", IBV_WR_RDMA_WRITE, false, false, false, false },
	{ "WRITE_IMM", IBV_WR_RDMA_WRITE_WITH_IMM, true, false, false, false },
	{ "READ", IBV_WR_RDMA_READ, false, false, false, true },
	{ "CMP_SWP", IBV_WR_ATOMIC_CMP_AND_SWP, false, false, true, true },
	{ "FETCH_ADD", IBV_WR_ATOMIC_FETCH_AND_ADD, false, false, true, true },
};

static struct ibv_mr *target;	/* of the responder's device */

#define PAIR_OPTS .sq = 32, .rq = 32, .sge = 4, .inl = 64, .buf = 1 << 16

static void up_with(struct pair *p, const struct pair_opts *po, const struct conn *c)
{
	enum ibv_mtu mtu;

	pair_create(p, &ea, &eb, po);
	mtu = p->conn.mtu;
	if (c)
		p->conn = *c;
	p->conn.mtu = mtu;
	p->conn.access = IBV_ACCESS_LOCAL_WRITE | R_ALL;
	if (!c)
		p->conn.rd_atomic = 4;
	pair_connect(p);
}

static void up(struct pair *p, enum ibv_qp_type type, const struct conn *c)
{
	up_with(p, &(struct pair_opts) { PAIR_OPTS, .type = type }, c);
}

/* A right request of each operation, but for what the caller changes */
static struct ibv_send_wr request(struct pair *p, const struct op *op, struct ibv_sge *sge)
{
	struct ibv_send_wr wr = {
		.wr_id = 2,
		.opcode = op->wr,
		.sg_list = sge,
		.num_sge = 1,
	};

	*sge = (struct ibv_sge) {
		.addr = (uintptr_t)p->buf[0] + 8192,
		.length = op->atomic ? 8 : LEN,
		.lkey = p->mr[0]->lkey,
	};
	if (op->atomic) {
		wr.wr.atomic.remote_addr = (uintptr_t)target->addr;
		wr.wr.atomic.rkey = target->rkey;
	} else if (!op->places) {
		wr.wr.rdma.remote_addr = (uintptr_t)target->addr;
		wr.wr.rdma.rkey = target->rkey;
	}
	return wr;
}

/*
 * A good SEND, @wr, and two more: the first succeeds, @wr has its status though
 * it is not signaled, the rest is flushed.
 */
static void fails(struct pair *p, const struct ibv_send_wr *wr, int status, const char *fmt,
		  const char *name, const char *what)
{
	long long errors = hw_counter(&ea, "req_cqe_error");
	char title[128];
	int err;

	snprintf(title, sizeof(title), fmt, name, what);
	if (pair_recv(p, 1, 31, 30000, 100) || pair_send(p, 0, 1, 0, 100, SIG))
		die("post");
	err = wr_post(p->qp[0], wr);
	if (err) {
		is(err, 0, "%s: is taken", title);
		return;
	}
	if (pair_send(p, 0, 3, 0, 100, 0) || pair_send(p, 0, 4, 0, 100, SIG))
		die("post");
	wc_is(p->scq[0], 1, IBV_WC_SUCCESS, NULL, "%s: the one before", title);
	wc_is(p->rcq[1], 31, IBV_WC_SUCCESS, NULL, "its receive");
	wc_is(p->scq[0], 2, status, NULL, "%s: %s", title, ibv_wc_status_str(status));
	wc_is(p->scq[0], 3, IBV_WC_WR_FLUSH_ERR, NULL, "the one after");
	wc_is(p->scq[0], 4, IBV_WC_WR_FLUSH_ERR, NULL, "and the next");
	is_state(p->qp[0], IBV_QPS_ERR, "the requester");
	is(hw_counter(&ea, "req_cqe_error") - errors, 1, "of which one is counted");
}

/* --- by the requester itself ---------------------------------------------------- */

static void local(void)
{
	struct ibv_mr *ro, *small;
	struct ibv_send_wr wr;
	struct ibv_sge sge[2];
	struct pair p;
	unsigned int i, k;

	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		const struct op *op = &ops[i];

		for (k = 0; k < 8; k++) {
			static const char * const what[] = {
				"no such key", "a region that ends too early",
				"a region that may not be written", "a second piece without key",
				"as much as there may be, and of a region that ends",
				"far more than there may be", "a byte more than there may be",
				"a length that is not 8",
			};
			int status = k < 5 ? IBV_WC_LOC_PROT_ERR : IBV_WC_LOC_LEN_ERR;
			struct conn c = conn_default;

			/* reading from a region that may not be written is right */
			if ((k == 2 && !op->back) || (k >= 3 && (k == 7) != op->atomic))
				continue;
			c.rd_atomic = 4;
			up(&p, IBV_QPT_RC, &c);
			ro = ibv_reg_mr(ea.pd, p.buf[0] + 8192, 8192, 0);
			small = ibv_reg_mr(ea.pd, p.buf[0] + 8192, 7, IBV_ACCESS_LOCAL_WRITE);
			if (!ro || !small)
				die("reg_mr");
			wr = request(&p, op, sge);
			switch (k) {
			case 0:
				sge[0].lkey = ~sge[0].lkey;
				break;
			case 1:
				sge[0].lkey = small->lkey;
				break;
			case 2:
				sge[0].lkey = ro->lkey;
				break;
			case 3:
				sge[1] = sge[0];
				sge[1].lkey = 0;
				wr.num_sge = 2;
				break;
			case 4:
				sge[0].length = ea.port.max_msg_sz;
				break;
			case 5:
				sge[1] = sge[0];
				sge[0].length = sge[1].length = 0x60000000;
				wr.num_sge = 2;
				break;
			case 6:
				sge[1] = sge[0];
				sge[0].length = ea.port.max_msg_sz;
				sge[1].length = 1;
				wr.num_sge = 2;
				break;
			case 7:
				sge[0].length = 16;
				break;
			}
			fails(&p, &wr, status, "%s of %s", op->name, what[k]);
			is_state(p.qp[1], IBV_QPS_RTS, "the responder");
			if (ibv_dereg_mr(ro) || ibv_dereg_mr(small))
				die("dereg_mr");
			pair_destroy(&p);
		}
	}
}

/* An operation for which the queue pair was not made: refused at once, or it completes so. */
static void not_possible(void)
{
	struct conn c = conn_default;
	struct ibv_send_wr wr;
	struct ibv_sge sge[1];
	struct ibv_wc wc;
	unsigned int i;
	struct pair p;
	int err;

	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		if (!ops[i].back)
			continue;
		c.rd_atomic = 0;
		up(&p, IBV_QPT_RC, &c);
		wr = request(&p, &ops[i], sge);
		fails(&p, &wr, IBV_WC_LOC_QP_OP_ERR, "%s with %s", ops[i].name,
		      "max_rd_atomic 0");
		pair_destroy(&p);

		up(&p, IBV_QPT_UC, NULL);
		wr = request(&p, &ops[i], sge);
		err = wr_post(p.qp[0], &wr);
		ok(err == EINVAL || err == EOPNOTSUPP ||
		   (!err && cq_wait(p.scq[0], &wc, PATIENCE) && wc.status == IBV_WC_LOC_QP_OP_ERR),
		   "%s on UC: %s", ops[i].name, err ? strerror(err) : "completes in error");
		pair_destroy(&p);
	}
}

/* What UC and UD send wrongly stops only their send queue, and it can be set going again. */
static void send_queue_error(void)
{
	struct ibv_sge sge[1];
	struct ibv_send_wr wr;
	struct pair p;

	up(&p, IBV_QPT_UC, NULL);
	wr = request(&p, &ops[2], sge);
	sge[0].lkey = ~sge[0].lkey;
	if (wr_post(p.qp[0], &wr) || pair_send(&p, 0, 3, 0, 10, SIG))
		die("post_send");
	wc_is(p.scq[0], 2, IBV_WC_LOC_PROT_ERR, NULL, "UC: a WRITE of no such key");
	wc_is(p.scq[0], 3, IBV_WC_WR_FLUSH_ERR, NULL, "UC: the one after");
	is_state(p.qp[0], IBV_QPS_SQE, "UC: the requester");
	if (pair_recv(&p, 0, 40, 0, 100) || pair_send(&p, 1, 41, 0, 100, SIG))
		die("post");
	wc_is(p.rcq[0], 40, IBV_WC_SUCCESS, NULL, "UC: it still receives");
	is(qp_to(p.qp[0], IBV_QPS_RTS), 0, "UC: SQE to RTS");
	if (pair_recv(&p, 1, 42, 0, 100) || pair_send(&p, 0, 43, 0, 100, SIG))
		die("post");
	wc_is(p.scq[0], 43, IBV_WC_SUCCESS, NULL, "UC: it sends again");
	wc_is(p.rcq[1], 42, IBV_WC_SUCCESS, NULL, "UC: which is received");
	pair_destroy(&p);
}

/* --- by the responder -------------------------------------------------------------- */

static void remote(void)
{
	struct ibv_recv_wr rwr, *bad;
	struct ibv_send_wr wr;
	struct ibv_sge sge[1];
	struct ibv_wc wc;
	unsigned int i, k;
	struct pair p;

	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		const struct op *op = &ops[i];

		if (!op->places)
			continue;
		for (k = 0; k < 2; k++) {
			static const char * const what[] = { "a receive that is too short",
							     "a receive without key" };

			up(&p, IBV_QPT_RC, NULL);
			wr = request(&p, op, sge);
			/* the one before takes the first receive */
			rwr = (struct ibv_recv_wr) {
				.wr_id = 32,
				.sg_list = SGE(p.buf[1], k ? LEN : LEN - 1, k ? 0 : p.mr[1]->lkey),
				.num_sge = 1,
			};
			if (pair_recv(&p, 1, 30, 40000, 100) ||
			    pair_send(&p, 0, 9, 0, 100, SIG))
				die("post");
			wc_is(p.scq[0], 9, IBV_WC_SUCCESS, NULL, "a message");
			wc_is(p.rcq[1], 30, IBV_WC_SUCCESS, NULL, "its receive");
			if (ibv_post_recv(p.qp[1], &rwr, &bad) || pair_recv(&p, 1, 33, 0, 100))
				die("post_recv");
			if (wr_post(p.qp[0], &wr) || pair_send(&p, 0, 3, 0, 100, 0))
				die("post_send");
			wc_is(p.scq[0], 2, k ? IBV_WC_REM_OP_ERR : IBV_WC_REM_INV_REQ_ERR, &wc,
			      "%s to %s", op->name, what[k]);
			is(wc.vendor_err, k ? 0x63 : 0x61, "the syndrome");
			wc_is(p.scq[0], 3, IBV_WC_WR_FLUSH_ERR, NULL, "the one after");
			wc_is(p.rcq[1], 32, k ? IBV_WC_LOC_PROT_ERR : IBV_WC_LOC_LEN_ERR, NULL,
			      "the receive");
			wc_is(p.rcq[1], 33, IBV_WC_WR_FLUSH_ERR, NULL, "the receive after");
			is_state(p.qp[0], IBV_QPS_ERR, "the requester");
			is_state(p.qp[1], IBV_QPS_ERR, "the responder");
			pair_destroy(&p);
		}
	}
}

/* SEND_INV of a key that is none: an error of both */
static void invalidate(void)
{
	struct ibv_sge sge[1];
	struct ibv_send_wr wr;
	struct ibv_wc wc = {};
	struct pair p;

	up(&p, IBV_QPT_RC, NULL);
	wr = request(&p, &ops[0], sge);
	wr.opcode = IBV_WR_SEND_WITH_INV;
	wr.invalidate_rkey = 0x12345600;
	if (pair_recv(&p, 1, 31, 0, LEN) || wr_post(p.qp[0], &wr))
		die("post");
	wc_is(p.scq[0], 2, IBV_WC_REM_ACCESS_ERR, NULL, "SEND_INV of no key: the requester");
	wc_is(p.rcq[1], 31, IBV_WC_LOC_ACCESS_ERR, &wc, "the receive");
	is_state(p.qp[1], IBV_QPS_ERR, "the responder");
	pair_destroy(&p);
}

static void no_receive(void)
{
	struct conn c = conn_default;
	struct ibv_sge sge[1];
	struct ibv_send_wr wr;
	struct ibv_wc wc;
	unsigned int i;
	struct pair p;

	c.rnr_retry = 1;
	c.min_rnr_timer = 1;
	c.rd_atomic = 4;
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		up(&p, IBV_QPT_RC, &c);
		wr = request(&p, &ops[i], sge);
		wr.send_flags = ops[i].recv ? 0 : SIG;
		if (wr_post(p.qp[0], &wr) || (ops[i].recv && pair_send(&p, 0, 3, 0, 10, 0)))
			die("post_send");
		if (ops[i].recv) {
			wc_is(p.scq[0], 2, IBV_WC_RNR_RETRY_EXC_ERR, &wc, "%s without a receive",
			      ops[i].name);
			/* RNR NAK with the responder's timer */
			is(wc.vendor_err, 0x20 | 1, "the syndrome");
			wc_is(p.scq[0], 3, IBV_WC_WR_FLUSH_ERR, NULL, "the one after");
			is_state(p.qp[0], IBV_QPS_ERR, "the requester");
		} else {
			wc_is(p.scq[0], 2, IBV_WC_SUCCESS, NULL, "%s needs no receive", ops[i].name);
		}
		is_state(p.qp[1], IBV_QPS_RTS, "the responder");
		pair_destroy(&p);
	}
}

static void no_answer(void)
{
	struct conn c = conn_default;
	struct ibv_sge sge[1];
	struct ibv_send_wr wr;
	unsigned int i;
	struct pair p;

	c.timeout = 10;		/* 4.2 ms */
	c.retry_cnt = 1;
	c.rd_atomic = 4;
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		up(&p, IBV_QPT_RC, &c);
		if (qp_to(p.qp[1], IBV_QPS_RESET))
			die("modify_qp");
		wr = request(&p, &ops[i], sge);
		if (wr_post(p.qp[0], &wr) || pair_send(&p, 0, 3, 0, 10, 0))
			die("post_send");
		wc_is(p.scq[0], 2, IBV_WC_RETRY_EXC_ERR, NULL, "%s without an answer", ops[i].name);
		wc_is(p.scq[0], 3, IBV_WC_WR_FLUSH_ERR, NULL, "the one after");
		is_state(p.qp[0], IBV_QPS_ERR, "the requester");
		pair_destroy(&p);
	}
}

/* --- windows ------------------------------------------------------------------------ */

static void bind_errors(void)
{
	static const char * const what[] = {
		"a region that may not have windows", "a window that begins before the region",
		"a window that ends after the region", "a region of another PD", "no region",
		"remote write without local write", "a window that is bound", "another window's key",
		"LOCAL_INV of no key", "LOCAL_INV of the region's key",
	};
	struct ibv_pd *pd = ibv_alloc_pd(ea.ctx);
	struct ibv_mr *mr, *nobind, *alien, *ro;
	struct ibv_send_wr wr;
	struct ibv_mw *mw;
	struct pair p;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(what); i++) {
		up(&p, IBV_QPT_RC, NULL);
		mr = ibv_reg_mr(ea.pd, p.buf[0] + 4096, 4096,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND | R_ALL);
		nobind = ibv_reg_mr(ea.pd, p.buf[0], 8192, IBV_ACCESS_LOCAL_WRITE | R_ALL);
		alien = ibv_reg_mr(pd, p.buf[0], 8192,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND | R_ALL);
		ro = ibv_reg_mr(ea.pd, p.buf[0] + 4096, 4096,
				IBV_ACCESS_MW_BIND | IBV_ACCESS_REMOTE_READ);
		mw = ibv_alloc_mw(ea.pd, IBV_MW_TYPE_2);
		if (!mr || !nobind || !alien || !ro || !mw)
			die("reg_mr");
		wr = (struct ibv_send_wr) {
			.wr_id = 2,
			.opcode = IBV_WR_BIND_MW,
			.bind_mw = {
				.mw = mw,
				.rkey = ibv_inc_rkey(mw->rkey),
				.bind_info = {
					.mr = mr,
					.addr = (uintptr_t)p.buf[0] + 4096,
					.length = 4096,
					.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
				},
			},
		};
		switch (i) {
		case 0: wr.bind_mw.bind_info.mr = nobind; break;
		case 1: wr.bind_mw.bind_info.addr--; break;
		case 2: wr.bind_mw.bind_info.length++; break;
		case 3: wr.bind_mw.bind_info.mr = alien; break;
		case 4: alien->lkey = 0x77777700; wr.bind_mw.bind_info.mr = alien; break;
		case 5: wr.bind_mw.bind_info.mr = ro; break;
		case 6:
			wr.send_flags = SIG;
			if (wr_post(p.qp[0], &wr))
				die("post_send");
			wc_is(p.scq[0], 2, IBV_WC_SUCCESS, NULL, "a window is bound");
			wr.send_flags = 0;
			wr.bind_mw.rkey = ibv_inc_rkey(wr.bind_mw.rkey);
			break;
		case 7: wr.bind_mw.rkey = mr->rkey + 1; break;
		case 8:
		case 9:
			wr.opcode = IBV_WR_LOCAL_INV;
			wr.invalidate_rkey = i == 8 ? 0x77777700 : mr->rkey;
			break;
		}
		/* the provider may see for itself what needs no look at the regions */
		if (wr_post(p.qp[0], &wr) == EINVAL) {
			ok(true, "%s: %s is refused when it is posted", "bind", what[i]);
		} else {
			wc_is(p.scq[0], 2, IBV_WC_MW_BIND_ERR, NULL, "bind: %s", what[i]);
			is_state(p.qp[0], IBV_QPS_ERR, "the requester");
		}
		if (ibv_dealloc_mw(mw) || ibv_dereg_mr(mr) || ibv_dereg_mr(nobind) ||
		    ibv_dereg_mr(alien) || ibv_dereg_mr(ro))
			die("dereg_mr");
		pair_destroy(&p);
	}
	if (ibv_dealloc_pd(pd))
		die("dealloc_pd");
}

/* --- answers that no responder gives -------------------------------------------------- */

/* A response as if from side 1 */
static void forge(const struct pair *p, uint8_t opcode, uint32_t psn, const void *body, size_t len)
{
	int fd = forger();

	forge_pkt(fd, p, 1, opcode, psn, body, len);
	close(fd);
}

/*
 * To be run on the responder's host. The responder itself is reset: only what is
 * forged answers.
 */
static void bad_response(void)
{
	static const struct {
		const char *what;
		unsigned int op;
		uint8_t opcode;		/* BTH */
		size_t len;
		uint8_t body[64];	/* AETH and what follows it */
		int status;
	} cases[] = {
		{ "a NAK with a reserved code", 0, 0x11, 4, { 0x65 }, IBV_WC_BAD_RESP_ERR },
		{ "a READ response that is too short", 4, 0x10, 8, { 0x1f }, IBV_WC_BAD_RESP_ERR },
		{ "a READ response where a SEND waits", 0, 0x10, 8, { 0x1f }, 0 },
		{ "an ATOMIC response where a READ waits", 4, 0x12, 12, { 0x1f }, IBV_WC_BAD_RESP_ERR },
		{ "a remote access NAK", 2, 0x11, 4, { 0x62 }, IBV_WC_REM_ACCESS_ERR },
		{ "an invalid request NAK", 2, 0x11, 4, { 0x61 }, IBV_WC_REM_INV_REQ_ERR },
		{ "a remote operational NAK", 0, 0x11, 4, { 0x63 }, IBV_WC_REM_OP_ERR },
		{ "an acknowledgement", 0, 0x11, 4, { 0x1f }, IBV_WC_SUCCESS },
	};
	struct conn c = conn_default;
	struct ibv_sge sge[1];
	struct ibv_send_wr wr;
	struct ibv_wc wc = {};
	unsigned int i;
	struct pair p;

	if (ea.gid.global.subnet_prefix) {
		skip("forges IPv4 only", "responses that are wrong");
		return;
	}
	c.timeout = 18;		/* 1 s */
	c.rd_atomic = 4;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		up(&p, IBV_QPT_RC, &c);
		if (qp_to(p.qp[1], IBV_QPS_RESET))
			die("modify_qp");
		wr = request(&p, &ops[cases[i].op], sge);
		wr.send_flags = SIG;
		/* one packet, one response */
		sge[0].length = 100;
		if (wr_post(p.qp[0], &wr))
			die("post_send");
		sleep_ms(20);
		/* of a PSN that was never sent: not so much as looked at */
		forge(&p, cases[i].opcode, (p.psn[0] + 5) & 0xffffff, cases[i].body, cases[i].len);
		ok(cq_quiet(p.scq[0], 0.05), "%s of a PSN that was not sent is ignored", cases[i].what);
		forge(&p, cases[i].opcode, p.psn[0], cases[i].body, cases[i].len);
		/* 0 with an unexpected opcode: dropped or an error, but never a success */
		if (i == 2) {
			ok(!cq_wait(p.scq[0], &wc, 0.1) || wc.status == IBV_WC_BAD_RESP_ERR,
			   "%s is no success", cases[i].what);
		} else {
			wc_is(p.scq[0], 2, cases[i].status, NULL, "%s: %s", cases[i].what,
			      ibv_wc_status_str(cases[i].status));
			is_state(p.qp[0], cases[i].status ? IBV_QPS_ERR : IBV_QPS_RTS, "the requester");
		}
		pair_destroy(&p);
	}
}

/* --- events ----------------------------------------------------------------------------- */

static void srq_events(void)
{
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 32, .max_sge = 1 } };
	struct ibv_srq_attr limit = { .srq_limit = 4 };
	struct pair_opts po = { PAIR_OPTS };
	struct ibv_async_event ev;
	struct ibv_srq *srq;
	struct pair p;
	unsigned int i;

	events_drop(&eb);
	srq = ibv_create_srq(eb.pd, &sa);
	if (!srq)
		die("create_srq");
	po.srq = srq;
	up_with(&p, &po, NULL);

	for (i = 0; i < 6; i++)
		if (pair_recv(&p, 1, 50 + i, i * 100, 100))
			die("post_srq_recv");
	is(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0, "a limit of 4");
	for (i = 0; i < 2; i++) {
		if (pair_send(&p, 0, i, 0, 10, SIG))
			die("post_send");
		wc_is(p.rcq[1], 50 + i, IBV_WC_SUCCESS, NULL, "message %u", i);
	}
	ok(!event_wait(&eb, &ev, 0.1), "no event while there are 4");
	if (pair_send(&p, 0, 2, 0, 10, SIG))
		die("post_send");
	wc_is(p.rcq[1], 52, IBV_WC_SUCCESS, NULL, "message 2");
	event_is(&eb, IBV_EVENT_SRQ_LIMIT_REACHED, srq, "the limit's event when there are 3");
	if (pair_send(&p, 0, 3, 0, 10, SIG))
		die("post_send");
	wc_is(p.rcq[1], 53, IBV_WC_SUCCESS, NULL, "message 3");
	ok(!event_wait(&eb, &ev, 0.1), "the limit's event comes once");
	limit.srq_limit = 77;
	ibv_query_srq(srq, &limit);
	is(limit.srq_limit, 0, "the limit is disarmed");
	limit.srq_limit = 2;
	is(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0, "a limit of 2, which there are");
	if (pair_send(&p, 0, 4, 0, 10, SIG))
		die("post_send");
	wc_is(p.rcq[1], 54, IBV_WC_SUCCESS, NULL, "message 4");
	event_is(&eb, IBV_EVENT_SRQ_LIMIT_REACHED, srq, "the event once more");

	if (qp_to(p.qp[1], IBV_QPS_ERR))
		die("modify_qp");
	event_is(&eb, IBV_EVENT_QP_LAST_WQE_REACHED, p.qp[1], "in error: the last request is reached");
	ok(cq_quiet(p.rcq[1], 0.05), "the shared queue's requests are not flushed");
	for (i = 0; i < 5; i++) {
		struct ibv_wc wc;

		if (!cq_wait(p.scq[0], &wc, PATIENCE) || wc.status != IBV_WC_SUCCESS)
			ok(false, "send %u", i);
	}
	pair_destroy(&p);
	if (ibv_destroy_srq(srq))
		die("destroy_srq");
}

/* More completions than a queue holds: it is in error, and its queue pairs. */
static void cq_overrun(void)
{
	struct ibv_cq *cq = cq_make(&ea, 8);
	struct pair_opts po = { .sq = 256, .rq = 1, .sge = 1, .buf = 4096, .scq = cq };
	struct ibv_async_event ev;
	bool found = false;
	struct pair p;
	int i;

	events_drop(&ea);
	up_with(&p, &po, NULL);
	if (!ok(cq->cqe < 256, "a queue pair with a CQ of %d", cq->cqe))
		goto out;
	for (i = 0; i < cq->cqe; i++)
		if (POST(p.qp[0], .wr_id = i, .send_flags = SIG, .opcode = IBV_WR_RDMA_WRITE,
			 .wr.rdma = { (uintptr_t)target->addr, target->rkey }))
			die("post_send");
	ok(!event_wait(&ea, &ev, 0.3), "%d completions fit", cq->cqe);
	for (i = 0; i < 2; i++)
		if (POST(p.qp[0], .wr_id = i, .send_flags = SIG, .opcode = IBV_WR_RDMA_WRITE,
			 .wr.rdma = { (uintptr_t)target->addr, target->rkey }))
			die("post_send");
	while (!found && event_wait(&ea, &ev, 5))
		found = ev.event_type == IBV_EVENT_CQ_ERR && ev.element.cq == cq;
	ok(found, "one more: CQ_ERR");
	event_is(&ea, IBV_EVENT_QP_FATAL, p.qp[0], "its queue pair's event");
	is_state(p.qp[0], IBV_QPS_ERR, "its queue pair");
out:
	pair_destroy(&p);
	if (ibv_destroy_cq(cq))
		die("destroy_cq");
}

/* The first message to one that is ready to receive only */
static void comm_est(void)
{
	struct ibv_async_event ev;
	struct peer peer;
	struct pair p;

	events_drop(&eb);
	up(&p, IBV_QPT_RC, NULL);
	if (qp_to(p.qp[1], IBV_QPS_RESET))
		die("modify_qp");
	peer = (struct peer) { .qpn = p.qp[0]->qp_num, .psn = p.psn[0], .gid = ea.gid };
	if (qp_init(p.qp[1], &p.conn) || qp_rtr(p.qp[1], &eb, &peer, &p.conn))
		die("modify_qp");
	if (pair_recv(&p, 1, 1, 0, 100) || pair_send(&p, 0, 2, 0, 100, SIG))
		die("post");
	wc_is(p.scq[0], 2, IBV_WC_SUCCESS, NULL, "a message to one in RTR");
	ok(event_next(&eb, &ev, PATIENCE) && ev.event_type == IBV_EVENT_COMM_EST, "its event");
	ok(ev.element.qp == p.qp[1], "of that queue pair");
	is_state(p.qp[1], IBV_QPS_RTR, "the receiver");
	wc_is(p.rcq[1], 1, IBV_WC_SUCCESS, NULL, "the message");
	pair_destroy(&p);
}

/* IBV_EVENT_DEVICE_SPEED_CHANGE, of Linux 7.0 */
#define SPEED_CHANGE	(IBV_EVENT_WQ_FATAL + 1)

/* The next event that is not about a GID or a speed is the port's */
static bool port_says(const struct end *e, enum ibv_event_type type)
{
	struct ibv_async_event ev;

	while (event_next(e, &ev, PATIENCE))
		if (ev.event_type != IBV_EVENT_GID_CHANGE && (int)ev.event_type != SPEED_CHANGE)
			return ev.event_type == type && ev.element.port_num == 1;
	return false;
}

/* What side b's netdev loses by command, side a's loses with its carrier. */
static void port(void)
{
	if (!cmd_down) {
		skip("no --down COMMAND", "events of a port");
		return;
	}
	events_drop(&ea);
	events_drop(&eb);
	command(cmd_down);
	ok(port_says(&eb, IBV_EVENT_PORT_ERR), "the netdev is down: PORT_ERR");
	ok(port_says(&ea, IBV_EVENT_PORT_ERR), "the carrier is gone: PORT_ERR");
	command(cmd_up);
	ok(port_says(&eb, IBV_EVENT_PORT_ACTIVE), "the netdev is up: PORT_ACTIVE");
	ok(port_says(&ea, IBV_EVENT_PORT_ACTIVE), "the carrier is there: PORT_ACTIVE");
}

/* The netdev of side a becomes faster by command. */
static void speed(void)
{
	struct ibv_async_event ev = {};

	if (!cmd_up) {
		skip("no --up COMMAND", "the event of a port's speed");
		return;
	}
	events_drop(&ea);
	command(cmd_up);
	while (event_next(&ea, &ev, PATIENCE))
		if ((int)ev.event_type == SPEED_CHANGE)
			break;
	is((int)ev.event_type, SPEED_CHANGE, "the netdev's speed changes: an event");
	is(ev.element.port_num, 1, "of its port");
}

static void with_target(void (*fn)(void))
{
	target = mr_make(&eb, 65536, R_ALL);
	fn();
	mr_drop(target);
}

#define T(fn) TEST(fn, .with = with_target)
static const struct test tests[] = {
	T(local), T(not_possible), T(send_queue_error), T(remote), T(invalidate), T(no_receive),
	T(no_answer), T(bind_errors), T(bad_response), T(srq_events), T(cq_overrun), T(comm_est),
	TEST(port), TEST(speed),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
