// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What goes wrong, and what is to be heard of it: receivers that are late or
 * gone, flushed queues, wrong requests. After each, exactly the completions
 * that are due, in order.
 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

static struct end ea, eb;

#define SIG IBV_SEND_SIGNALED

/* The pair still carries a message from side 0 to side 1, whole. */
static void works(struct pair *p, const char *what)
{
	struct ibv_wc wc;
	int err;

	pattern_fill(p->buf[0], 0x77, 0, 5000);
	memset(p->buf[1], CANARY, 6000);
	err = pair_recv(p, 1, 901, 0, 5000);
	if (!err)
		err = pair_send(p, 0, 900, 0, 5000, SIG);
	if (err) {
		is(err, 0, "%s: a message can be posted", what);
		return;
	}
	wc_is(p->scq[0], 900, IBV_WC_SUCCESS, NULL, "%s: a message is sent", what);
	if (wc_is(p->rcq[1], 901, IBV_WC_SUCCESS, &wc, "%s: it is received", what)) {
		is(wc.byte_len, 5000, "%s: with its length", what);
		ok(pattern_check(p->buf[1], 0x77, 0, 5000) < 0 &&
		   canary_check(p->buf[1] + 5000, 1000) < 0, "%s: its bytes, and no others", what);
	}
}

/* --- receivers that are late, or gone ---------------------------------------- */

static void rnr_late(void)
{
	struct conn c = conn_default;
	long long counted;
	struct pair p;
	int i;

	c.min_rnr_timer = 20;	/* 10 ms */
	pair_up(&p, &ea, &eb, &c);
	counted = counter_of(&eb, "rx_send_requests");
	for (i = 0; i < 3; i++) {
		pattern_fill(p.buf[0] + i * 8192, i, 0, 8000);
		if (pair_send(&p, 0, 10 + i, i * 8192, 8000, SIG))
			die("post_send");
	}
	ok(cq_quiet(p.scq[0], 0.5), "nothing completes while there is no receive");
	for (i = 0; i < 3; i++)
		if (pair_recv(&p, 1, 20 + i, i * 8192, 8000))
			die("post_recv");
	for (i = 0; i < 3; i++) {
		wc_is(p.rcq[1], 20 + i, IBV_WC_SUCCESS, NULL, "late receive %d", i);
		wc_is(p.scq[0], 10 + i, IBV_WC_SUCCESS, NULL, "send %d", i);
		ok(pattern_check(p.buf[1] + i * 8192, i, 0, 8000) < 0, "its bytes");
	}
	if (counter_of(&eb, "rx_send_requests"))
		is(counter_of(&eb, "rx_send_requests") - counted, 3, "each is counted once");
	else
		skip("the device does not count them", "each is counted once");
	works(&p, "afterwards");
	pair_destroy(&p);
}

static void rnr_exceeded(void)
{
	static const unsigned int tries[] = { 0, 1, 3 };
	struct ibv_wc wc;
	struct conn c = conn_default;
	struct pair p;
	double t;
	unsigned int i;

	c.min_rnr_timer = 24;	/* 40.96 ms */
	for (i = 0; i < ARRAY_SIZE(tries); i++) {
		c.rnr_retry = tries[i];
		pair_up(&p, &ea, &eb, &c);
		t = now();
		if (pair_send(&p, 0, 1, 0, 100, 0) || pair_send(&p, 0, 2, 0, 100, 0))
			die("post_send");
		wc_is(p.scq[0], 1, IBV_WC_RNR_RETRY_EXC_ERR, &wc, "rnr_retry %u: gives up", tries[i]);
		t = now() - t;
		ok(t >= tries[i] * 0.04096, "after %u RNR timers at least (%.0f ms)", tries[i], t * 1e3);
		is(wc.qp_num, p.qp[0]->qp_num, "the completion names its queue pair");
		wc_is(p.scq[0], 2, IBV_WC_WR_FLUSH_ERR, NULL, "the next one is flushed");
		is_state(p.qp[0], IBV_QPS_ERR, "the sender");
		is_state(p.qp[1], IBV_QPS_RTS, "the receiver");
		ok(cq_quiet(p.rcq[1], 0.05), "the receiver hears nothing");
		pair_destroy(&p);
	}
}

static void gone_check(struct pair *p, unsigned int retry, double timer, const char *what)
{
	double t = now();

	if (pair_send(p, 0, 1, 0, 3000, 0) || pair_send(p, 0, 2, 0, 100, 0))
		die("post_send");
	wc_is(p->scq[0], 1, IBV_WC_RETRY_EXC_ERR, NULL, "%s, retry_cnt %u: gives up", what, retry);
	t = now() - t;
	ok(t >= (retry + 1) * timer * 0.9, "after %u timeouts of %.0f ms at least (%.0f ms)", retry + 1,
	   timer * 1e3, t * 1e3);
	wc_is(p->scq[0], 2, IBV_WC_WR_FLUSH_ERR, NULL, "the next one is flushed");
	is_state(p->qp[0], IBV_QPS_ERR, "the sender");
}

static void peer_gone(void)
{
	static const unsigned int tries[] = { 0, 1, 3 };
	struct conn c = conn_default;
	struct pair p;
	unsigned int i;

	c.timeout = 13;		/* 4.096 us * 2^13 = 33.5 ms */
	for (i = 0; i < ARRAY_SIZE(tries); i++) {
		c.retry_cnt = tries[i];
		pair_up(&p, &ea, &eb, &c);
		works(&p, "before");
		if (qp_to(p.qp[1], IBV_QPS_RESET))
			die("modify_qp to RESET");
		gone_check(&p, tries[i], 0.0335, "peer reset");
		pair_destroy(&p);

		pair_up(&p, &ea, &eb, &c);
		if (ibv_destroy_qp(p.qp[1]))
			die("destroy_qp");
		p.qp[1] = NULL;
		gone_check(&p, tries[i], 0.0335, "peer destroyed");
		pair_destroy(&p);
	}

	pair_up(&p, &ea, &eb, &c);
	if (qp_to(p.qp[1], IBV_QPS_ERR))
		die("modify_qp to ERR");
	gone_check(&p, c.retry_cnt, 0.0335, "peer in error");
	pair_destroy(&p);
}

static void link_down(void)
{
	struct conn c = conn_default;
	struct pair p;

	if (!cmd_down) {
		skip("no --down COMMAND", "link down");
		return;
	}
	c.timeout = 14;		/* 67 ms */
	c.retry_cnt = 2;
	pair_up(&p, &ea, &eb, &c);
	works(&p, "link up");
	command(cmd_down);
	gone_check(&p, c.retry_cnt, 0.067, "link down");
	is_state(p.qp[1], IBV_QPS_RTS, "the receiver");
	pair_destroy(&p);

	/* and it heals when the link comes back in time */
	command(cmd_up);
	end_close(&ea);
	end_close(&eb);
	end_open(&ea, ea.name, NULL);
	end_open(&eb, eb.name, NULL);
	c.timeout = 18;		/* 1.07 s */
	c.retry_cnt = 7;
	pair_up(&p, &ea, &eb, &c);
	command(cmd_down);
	pattern_fill(p.buf[0], 5, 0, 9000);
	if (pair_recv(&p, 1, 2, 0, 9000) || pair_send(&p, 0, 1, 0, 9000, SIG))
		die("post");
	ok(cq_quiet(p.scq[0], 0.3), "link down: nothing completes");
	command(cmd_up);
	wc_is(p.scq[0], 1, IBV_WC_SUCCESS, NULL, "link up again: sent");
	wc_is(p.rcq[1], 2, IBV_WC_SUCCESS, NULL, "and received");
	ok(pattern_check(p.buf[1], 5, 0, 9000) < 0, "its bytes");
	pair_destroy(&p);
}

/* In SQD nothing begins, so what has not begun does not fail (10.3.1.1). */
static void sqd_no_route(void)
{
	struct ibv_qp_attr more = { .qp_state = IBV_QPS_SQD, .timeout = 18, .retry_cnt = 7 };
	struct conn c = conn_default;
	struct pair p;

	if (!cmd_down) {
		skip("no --down COMMAND", "no route in SQD");
		return;
	}
	c.timeout = 15;		/* 134 ms, and 1.5 s until the last retry is over */
	c.retry_cnt = 3;
	pair_up(&p, &ea, &eb, &c);
	works(&p, "before");
	command(cmd_down);
	pattern_fill(p.buf[1], 6, 0, 9000);
	if (pair_recv(&p, 0, 2, 0, 9000) || pair_send(&p, 1, 1, 0, 9000, SIG))
		die("post");
	ok(cq_quiet(p.scq[1], 0.05), "no route: nothing completes");
	is(qp_to(p.qp[1], IBV_QPS_SQD), 0, "to SQD");
	ok(cq_quiet(p.scq[1], 3), "in SQD it does not fail, after more than all retries");
	is_state(p.qp[1], IBV_QPS_SQD, "the sender");
	/* a route takes its time, too */
	is(ibv_modify_qp(p.qp[1], &more, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT), 0,
	   "more retries");
	command(cmd_up);
	is(qp_to(p.qp[1], IBV_QPS_RTS), 0, "to RTS, with a route");
	wc_is(p.scq[1], 1, IBV_WC_SUCCESS, NULL, "sent");
	wc_is(p.rcq[0], 2, IBV_WC_SUCCESS, NULL, "and received");
	ok(pattern_check(p.buf[0], 6, 0, 9000) < 0, "its bytes");
	pair_destroy(&p);
	end_close(&ea);
	end_close(&eb);
	end_open(&ea, ea.name, NULL);
	end_open(&eb, eb.name, NULL);
}

/* Nor does one that is wrong, when its turn has come. */
static void sqd_wrong(void)
{
	struct ibv_sge sge[2];
	struct ibv_send_wr wrong = {
		.wr_id = 2, .sg_list = &sge[1], .num_sge = 1, .opcode = IBV_WR_SEND,
	};
	/* by one doorbell: the second has been looked at before the first is answered */
	struct ibv_send_wr right = {
		.wr_id = 1, .sg_list = &sge[0], .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = SIG, .next = &wrong,
	}, *bad;
	struct conn c = conn_default;
	struct pair p;

	c.min_rnr_timer = 20;	/* 10 ms */
	pair_up(&p, &ea, &eb, &c);
	pattern_fill(p.buf[0], 8, 0, 8000);
	sge[0] = (struct ibv_sge) { (uintptr_t)p.buf[0], 8000, p.mr[0]->lkey };
	sge[1] = (struct ibv_sge) { (uintptr_t)p.buf[0], 100, p.mr[0]->lkey + 1 };
	if (ibv_post_send(p.qp[0], &right, &bad))
		die("post_send");
	ok(cq_quiet(p.scq[0], 0.1), "a wrong one behind one that waits for a receive");
	is(qp_to(p.qp[0], IBV_QPS_SQD), 0, "to SQD");
	if (pair_recv(&p, 1, 11, 0, 8000))
		die("post_recv");
	wc_is(p.rcq[1], 11, IBV_WC_SUCCESS, NULL, "the first is received");
	wc_is(p.scq[0], 1, IBV_WC_SUCCESS, NULL, "and complete");
	ok(pattern_check(p.buf[1], 8, 0, 8000) < 0, "its bytes");
	ok(cq_quiet(p.scq[0], 0.3), "the wrong one does not fail in SQD");
	is_state(p.qp[0], IBV_QPS_SQD, "its queue pair");
	is(qp_to(p.qp[0], IBV_QPS_RTS), 0, "to RTS");
	wc_is(p.scq[0], 2, IBV_WC_LOC_PROT_ERR, NULL, "where it does");
	is_state(p.qp[0], IBV_QPS_ERR, "its queue pair");
	pair_destroy(&p);
}

/* A READ that waits for another, and then may not begin at all: SQD has changed that. */
static void sqd_no_reads(void)
{
	static const struct pair_opts po = {
		.sq = 4, .rq = 4, .sge = 1, .buf = 8192, .access = IBV_ACCESS_REMOTE_READ,
	};
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_SQD };
	struct pair p;
	unsigned int i;

	if (!cmd_down) {
		skip("no --down COMMAND", "no READs in SQD");
		return;
	}
	pair_create(&p, &ea, &eb, &po);
	p.conn.timeout = 18;	/* 1.07 s */
	p.conn.rd_atomic = 1;
	pair_connect(&p);
	works(&p, "before");
	command(cmd_down);
	pattern_fill(p.buf[1], 7, 0, 2000);
	for (i = 1; i <= 2; i++)
		if (POST(p.qp[0], .wr_id = i, .opcode = IBV_WR_RDMA_READ, .num_sge = 1, .send_flags = SIG,
			 .sg_list = SGE(p.buf[0] + (i - 1) * 1000, 1000, p.mr[0]->lkey),
			 .wr.rdma = { (uintptr_t)p.buf[1] + (i - 1) * 1000, p.mr[1]->rkey }))
			die("post READ");
	sleep_ms(50);
	is(qp_to(p.qp[0], IBV_QPS_SQD), 0, "one READ out and one not begun: to SQD");
	is(ibv_modify_qp(p.qp[0], &a, IBV_QP_STATE | IBV_QP_MAX_QP_RD_ATOMIC), 0, "max_rd_atomic 0");
	command(cmd_up);
	wc_is(p.scq[0], 1, IBV_WC_SUCCESS, NULL, "the READ that was out completes");
	ok(pattern_check(p.buf[0], 7, 0, 1000) < 0, "its bytes");
	ok(cq_quiet(p.scq[0], 0.2), "the other waits");
	is(qp_to(p.qp[0], IBV_QPS_RTS), 0, "to RTS");
	wc_is(p.scq[0], 2, IBV_WC_LOC_QP_OP_ERR, NULL, "it ends in error");
	is_state(p.qp[0], IBV_QPS_ERR, "the requester");
	pair_destroy(&p);
	end_close(&ea);
	end_close(&eb);
	end_open(&ea, ea.name, NULL);
	end_open(&eb, eb.name, NULL);
}

/* --- flushing ------------------------------------------------------------------- */

/* The completions @from to @to - 1, flushed, in order, and no more. */
static void flushed(struct ibv_cq *cq, struct ibv_qp *qp, unsigned int from, unsigned int to,
		    const char *what)
{
	struct ibv_wc wc;
	unsigned int i;

	for (i = from; i < to; i++) {
		if (!cq_wait(cq, &wc, PATIENCE)) {
			ok(false, "%s: request %u of %u to %u completes", what, i, from, to - 1);
			return;
		}
		if (wc.wr_id != i || wc.status != IBV_WC_WR_FLUSH_ERR || wc.qp_num != qp->qp_num) {
			ok(false, "%s: request %u is flushed", what, i);
			diag("got wr_id %llu, %s, qp_num 0x%x", (unsigned long long)wc.wr_id,
			     ibv_wc_status_str(wc.status), wc.qp_num);
			return;
		}
	}
	ok(true, "%s: requests %u to %u are flushed, in order", what, from, to - 1);
	ok(cq_quiet(cq, 0.05), "%s: and nothing else", what);
}

static void flush_idle(void)
{
	struct conn c = conn_default;
	struct pair p;
	unsigned int i;

	pair_up(&p, &ea, &eb, &c);
	/* the receiver never posts, so that all stay outstanding */
	for (i = 0; i < 40; i++)
		if (pair_send(&p, 0, i, 0, 100 * i, i % 3 ? 0 : SIG) ||
		    pair_recv(&p, 0, i, 0, 100))
			die("post");
	if (qp_to(p.qp[0], IBV_QPS_ERR))
		die("modify_qp to ERR");
	flushed(p.scq[0], p.qp[0], 0, 40, "sends");
	flushed(p.rcq[0], p.qp[0], 0, 40, "receives");
	for (i = 40; i < 50; i++)
		if (pair_send(&p, 0, i, 0, 100, i % 3 ? 0 : SIG) || pair_recv(&p, 0, i, 0, 100))
			die("post in ERR");
	flushed(p.scq[0], p.qp[0], 40, 50, "sends posted after the error");
	flushed(p.rcq[0], p.qp[0], 40, 50, "receives posted after the error");

	/* a reset takes what has not completed away without a word */
	if (qp_to(p.qp[0], IBV_QPS_RESET) || qp_to(p.qp[1], IBV_QPS_RESET))
		die("modify_qp to RESET");
	pair_connect(&p);
	for (i = 60; i < 70; i++)
		if (pair_send(&p, 0, i, 0, 100, SIG) || pair_recv(&p, 0, i, 0, 100))
			die("post");
	if (qp_to(p.qp[0], IBV_QPS_RESET) || qp_to(p.qp[1], IBV_QPS_RESET))
		die("modify_qp to RESET");
	ok(cq_quiet(p.scq[0], 0.1) && cq_quiet(p.rcq[0], 0.1), "a reset completes nothing");
	pair_connect(&p);
	works(&p, "after a reset");
	pair_destroy(&p);
}

/* To ERR in the middle of traffic: every request completes once, in order. */
static void flush_busy(void)
{
	unsigned int round, done[2], flush[2], posted[2], side;
	struct conn c = conn_default;
	struct pair p;
	struct ibv_wc wc;
	unsigned int target;
	double end;
	bool bad;

	c.timeout = 12;
	c.retry_cnt = 2;
	for (round = 0; round < 12; round++) {
		pair_up(&p, &ea, &eb, &c);
		memset(done, 0, sizeof(done));
		memset(flush, 0, sizeof(flush));
		memset(posted, 0, sizeof(posted));
		bad = false;
		target = 20 + round * 17;
		end = now() + PATIENCE;
		/* side 0 sends, side 1 receives; then either goes to ERR */
		while (now() < end && !bad) {
			bool over = done[0] >= target;

			if (over && posted[0] && qp_state(p.qp[round % 2]) != IBV_QPS_ERR) {
				while (posted[0] - done[0] < 60)
					if (pair_send(&p, 0, posted[0]++, 0, 3000, SIG))
						die("post_send");
				if (qp_to(p.qp[round % 2], IBV_QPS_ERR))
					die("modify_qp to ERR");
			}
			while (!over && posted[1] - done[1] < 60)
				if (pair_recv(&p, 1, posted[1]++, 0, 4000))
					die("post_recv");
			while (!over && posted[0] - done[0] < 30)
				if (pair_send(&p, 0, posted[0]++, 0, 3000, SIG))
					die("post_send");
			for (side = 0; side < 2; side++) {
				struct ibv_cq *cq = side ? p.rcq[1] : p.scq[0];

				while (ibv_poll_cq(cq, 1, &wc) == 1) {
					bool f = wc.status != IBV_WC_SUCCESS;

					if (wc.wr_id != done[side] || (!f && flush[side])) {
						bad = true;
						diag("side %u: got %llu (%s), want %u", side,
						     (unsigned long long)wc.wr_id,
						     ibv_wc_status_str(wc.status), done[side]);
					}
					done[side]++;
					flush[side] += f;
				}
			}
			if (over && done[0] == posted[0]) {
				/* the other one is told by us */
				if (qp_to(p.qp[1], IBV_QPS_ERR))
					die("modify_qp to ERR");
				if (done[1] == posted[1])
					break;
			}
		}
		ok(!bad && done[0] == posted[0] && done[1] == posted[1],
		   "ERR at the %s after %u: %u sends and %u receives complete once, in order",
		   round % 2 ? "receiver" : "sender", target, posted[0], posted[1]);
		if (done[0] != posted[0] || done[1] != posted[1])
			diag("completed: %u sends of %u, %u receives of %u", done[0], posted[0],
			     done[1], posted[1]);
		ok(done[0] - flush[0] <= done[1] - flush[1],
		   "what was sent well was received well (%u, %u)", done[0] - flush[0],
		   done[1] - flush[1]);
		ok(cq_quiet(p.scq[0], 0.02) && cq_quiet(p.rcq[1], 0.02), "and nothing completes twice");
		pair_destroy(&p);
	}
}

/* --- wrong requests ---------------------------------------------------------------- */

struct keys {
	struct ibv_mr *ro;	/* no local write */
	struct ibv_mr *small;	/* bytes 4096 to 5095 of side's buffer */
	struct ibv_mr *alien;	/* of another PD */
	struct ibv_pd *pd;
	uint32_t stale;
};

static void keys_make(struct keys *k, struct pair *p, int side)
{
	struct end *e = p->e[side];
	struct ibv_mr *mr;

	k->pd = ibv_alloc_pd(e->ctx);
	k->ro = ibv_reg_mr(e->pd, p->buf[side], 8192, 0);
	k->small = ibv_reg_mr(e->pd, p->buf[side] + 4096, 1000, IBV_ACCESS_LOCAL_WRITE);
	k->alien = ibv_reg_mr(k->pd, p->buf[side], 8192, IBV_ACCESS_LOCAL_WRITE);
	mr = ibv_reg_mr(e->pd, p->buf[side], 8192, IBV_ACCESS_LOCAL_WRITE);
	if (!k->pd || !k->ro || !k->small || !k->alien || !mr)
		die("reg_mr");
	k->stale = mr->lkey;
	if (ibv_dereg_mr(mr))
		die("dereg_mr");
}

static void keys_drop(struct keys *k)
{
	if (ibv_dereg_mr(k->ro) || ibv_dereg_mr(k->small) || ibv_dereg_mr(k->alien) ||
	    ibv_dealloc_pd(k->pd))
		die("dereg_mr");
}

enum { K_OWN, K_NONE, K_INVERTED, K_STALE, K_ALIEN, K_SMALL, K_RO };

static uint32_t key_of(const struct keys *k, struct pair *p, int side, int which)
{
	switch (which) {
	case K_NONE: return 0;
	case K_INVERTED: return ~p->mr[side]->lkey;
	case K_STALE: return k->stale;
	case K_ALIEN: return k->alien->lkey;
	case K_SMALL: return k->small->lkey;
	case K_RO: return k->ro->lkey;
	default: return p->mr[side]->lkey;
	}
}

static const struct wrong {
	const char *what;
	int key;
	int64_t off;
	uint32_t len;
	bool good_send, good_recv;
} wrongs[] = {
	{ "no key", K_NONE, 0, 100, false, false },
	{ "a key that is none", K_INVERTED, 0, 100, false, false },
	{ "the key of a region deregistered", K_STALE, 0, 100, false, false },
	{ "a key of another PD", K_ALIEN, 0, 100, false, false },
	{ "a region to its last byte", K_SMALL, 4096, 1000, true, true },
	{ "a region and one byte after it", K_SMALL, 4096, 1001, false, false },
	{ "the last byte of a region", K_SMALL, 5095, 1, true, true },
	{ "one byte after a region", K_SMALL, 5096, 1, false, false },
	{ "a region and one byte before it", K_SMALL, 4095, 1000, false, false },
	{ "one byte before a region", K_SMALL, 4095, 1, false, false },
	{ "a region that begins within, many packets", K_SMALL, 4596, 60000, false, false },
	{ "a region without local write", K_RO, 0, 100, true, false },
	{ "an address that wraps around", K_SMALL, INT64_MIN, 4096, false, false },
};

static struct ibv_sge wrong_sge(const struct wrong *w, struct keys *k, struct pair *p, int side)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)p->buf[side] + w->off,
		.length = w->len,
		.lkey = key_of(k, p, side, w->key),
	};

	if (w->off == INT64_MIN)
		sge.addr = UINT64_MAX - 100;
	return sge;
}

static void wrong_send(void)
{
	struct ibv_send_wr wr, *bad;
	struct ibv_sge sge[2];
	struct keys k;
	struct pair p;
	struct ibv_wc wc;
	unsigned int i, second;
	int err;

	for (i = 0; i < ARRAY_SIZE(wrongs); i++) {
		const struct wrong *w = &wrongs[i];

		/* as the only piece, and as the second of two */
		for (second = 0; second < 2; second++) {
			pair_up(&p, &ea, &eb, NULL);
			keys_make(&k, &p, 0);
			sge[second] = wrong_sge(w, &k, &p, 0);
			if (second)
				sge[0] = (struct ibv_sge) {
					.addr = (uintptr_t)p.buf[0] + 100000,
					.length = 50,
					.lkey = p.mr[0]->lkey,
				};
			wr = (struct ibv_send_wr) {
				.wr_id = 2,
				.sg_list = sge,
				.num_sge = 1 + second,
				.opcode = IBV_WR_SEND,
			};
			if (pair_recv(&p, 1, 11, 0, 100000) || pair_recv(&p, 1, 12, 0, 100000) ||
			    pair_send(&p, 0, 1, 0, 100, SIG))
				die("post");
			if (w->good_send)
				wr.send_flags = SIG;
			err = ibv_post_send(p.qp[0], &wr, &bad);
			if (err) {
				is(err, 0, "send of %s%s: is taken", w->what, second ? ", second piece" : "");
				goto next;
			}
			if (!w->good_send && pair_send(&p, 0, 3, 0, 100, SIG))
				die("post_send");
			wc_is(p.scq[0], 1, IBV_WC_SUCCESS, NULL, "the send before");
			wc_is(p.rcq[1], 11, IBV_WC_SUCCESS, NULL, "it is received");
			wc_is(p.scq[0], 2, w->good_send ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR, NULL,
			      "send of %s%s", w->what, second ? ", second piece" : "");
			if (w->good_send) {
				wc_is(p.rcq[1], 12, IBV_WC_SUCCESS, &wc, "it is received");
				is(wc.byte_len, w->len + second * 50, "with its length");
			} else {
				wc_is(p.scq[0], 3, IBV_WC_WR_FLUSH_ERR, NULL, "the send after");
				is_state(p.qp[0], IBV_QPS_ERR, "the sender");
				is_state(p.qp[1], IBV_QPS_RTS, "the receiver");
				ok(cq_quiet(p.rcq[1], 0.02), "the receiver gets no message");
			}
next:
			keys_drop(&k);
			pair_destroy(&p);
		}
	}
}

static void wrong_recv(void)
{
	struct ibv_recv_wr wr, *bad;
	struct ibv_sge sge;
	struct keys k;
	struct pair p;
	uint32_t len;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(wrongs); i++) {
		const struct wrong *w = &wrongs[i];

		pair_up(&p, &ea, &eb, NULL);
		keys_make(&k, &p, 1);
		sge = wrong_sge(w, &k, &p, 1);
		len = sge.length;
		wr = (struct ibv_recv_wr) { .wr_id = 12, .sg_list = &sge, .num_sge = 1 };
		if (pair_recv(&p, 1, 11, 200000, 100))
			die("post_recv");
		if (ibv_post_recv(p.qp[1], &wr, &bad)) {
			ok(false, "receive into %s: is taken", w->what);
			goto next;
		}
		if (pair_recv(&p, 1, 13, 200000, 100) || pair_send(&p, 0, 1, 0, 100, SIG) ||
		    pair_send(&p, 0, 2, 100, len, SIG))
			die("post");
		wc_is(p.scq[0], 1, IBV_WC_SUCCESS, NULL, "the message before");
		wc_is(p.rcq[1], 11, IBV_WC_SUCCESS, NULL, "it is received");
		wc_is(p.rcq[1], 12, w->good_recv ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR, NULL,
		      "receive into %s", w->what);
		wc_is(p.scq[0], 2, w->good_recv ? IBV_WC_SUCCESS : IBV_WC_REM_OP_ERR, NULL,
		      "the sender hears of it");
		if (!w->good_recv) {
			wc_is(p.rcq[1], 13, IBV_WC_WR_FLUSH_ERR, NULL, "the receive after");
			is_state(p.qp[0], IBV_QPS_ERR, "the sender");
			is_state(p.qp[1], IBV_QPS_ERR, "the receiver");
			/* bytes 4096 to 5095 may hold what came before the end was met */
			ok(canary_check(p.buf[1], 4096) < 0 &&
			   canary_check(p.buf[1] + 5096, 65536) < 0, "nothing is written outside");
		}
next:
		keys_drop(&k);
		pair_destroy(&p);
	}
}

static void too_long(void)
{
	static const struct { uint32_t send, recv; } cases[] = {
		{ 1, 0 }, { 101, 100 }, { 5000, 4999 }, { 100000, 50000 }, { 4096, 1 },
	};
	struct pair p;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		uint32_t s = cases[i].send, r = cases[i].recv;

		pair_up(&p, &ea, &eb, NULL);
		if (pair_recv(&p, 1, 11, 0, r) || pair_recv(&p, 1, 12, 0, s) ||
		    pair_send(&p, 0, 1, 0, s, 0) || pair_send(&p, 0, 2, 0, 1, 0))
			die("post");
		wc_is(p.rcq[1], 11, IBV_WC_LOC_LEN_ERR, NULL, "%u bytes into %u: the receiver", s, r);
		wc_is(p.rcq[1], 12, IBV_WC_WR_FLUSH_ERR, NULL, "its next receive");
		wc_is(p.scq[0], 1, IBV_WC_REM_INV_REQ_ERR, NULL, "%u bytes into %u: the sender", s, r);
		wc_is(p.scq[0], 2, IBV_WC_WR_FLUSH_ERR, NULL, "its next send");
		is_state(p.qp[0], IBV_QPS_ERR, "the sender");
		is_state(p.qp[1], IBV_QPS_ERR, "the receiver");
		ok(canary_check(p.buf[1] + r, 1 << 17) < 0, "nothing is written behind the buffer");
		pair_destroy(&p);
	}
}

/* What the provider has to refuse, at the request that is wrong. */
static void refused(void)
{
	struct pair_opts po = { .sq = 16, .rq = 16, .sge = 3, .inl = 100, .buf = 1 << 16 };
	struct ibv_send_wr wr[3], *bad;
	struct ibv_recv_wr rr[3], *rbad;
	struct ibv_qp_init_attr ia;
	struct ibv_qp_attr a;
	struct ibv_sge sge[64];
	struct ibv_wc wc;
	struct pair p;
	unsigned int i, n;
	int err;

	pair_create(&p, &ea, &eb, &po);
	pair_connect(&p);
	if (ibv_query_qp(p.qp[0], &a, IBV_QP_CAP, &ia))
		die("query_qp");
	for (i = 0; i < ARRAY_SIZE(sge); i++)
		sge[i] = (struct ibv_sge) {
			.addr = (uintptr_t)p.buf[0] + i * 200,
			.length = 7,
			.lkey = p.mr[0]->lkey,
		};

	/* three at once, the second of which has a piece too many */
	for (i = 0; i < 3; i++)
		wr[i] = (struct ibv_send_wr) {
			.wr_id = i,
			.next = i < 2 ? &wr[i + 1] : NULL,
			.sg_list = sge,
			.num_sge = i == 1 ? (int)ia.cap.max_send_sge + 1 : (int)ia.cap.max_send_sge,
			.opcode = IBV_WR_SEND,
			.send_flags = SIG,
		};
	for (i = 0; i < 4; i++)
		if (pair_recv(&p, 1, 100 + i, 0, 4096))
			die("post_recv");
	bad = NULL;
	err = ibv_post_send(p.qp[0], wr, &bad);
	ok(err == EINVAL || err == ENOMEM, "a piece too many to send is refused (%s)", strerror(err));
	ok(bad == &wr[1], "bad_wr is the one");
	wc_is(p.scq[0], 0, IBV_WC_SUCCESS, NULL, "the one before it was posted");
	wc_is(p.rcq[1], 100, IBV_WC_SUCCESS, &wc, "and is received");
	is(wc.byte_len, ia.cap.max_send_sge * 7, "with its length");
	ok(cq_quiet(p.scq[0], 0.05), "the one after it was not");

	/* inline to the last byte, and one more */
	sge[0].length = ia.cap.max_inline_data;
	wr[0].num_sge = 1;
	wr[0].next = NULL;
	wr[0].send_flags = SIG | IBV_SEND_INLINE;
	sge[0].lkey = 0;
	pattern_fill(p.buf[0], 3, 0, 4096);
	err = ibv_post_send(p.qp[0], wr, &bad);
	is(err, 0, "%u bytes inline are taken", ia.cap.max_inline_data);
	if (!err) {
		wc_is(p.scq[0], 0, IBV_WC_SUCCESS, NULL, "and sent");
		wc_is(p.rcq[1], 101, IBV_WC_SUCCESS, NULL, "and received");
		ok(pattern_check(p.buf[1], 3, 0, sge[0].length) < 0, "its bytes");
	}
	sge[0].length++;
	bad = NULL;
	err = ibv_post_send(p.qp[0], wr, &bad);
	ok(err == EINVAL || err == ENOMEM, "one more is refused (%s)", strerror(err));
	ok(bad == &wr[0], "bad_wr is the one");
	sge[0].length = 7;
	sge[0].lkey = p.mr[0]->lkey;

	/* an operation that is none */
	wr[0].opcode = 99;
	wr[0].send_flags = SIG;
	bad = NULL;
	err = ibv_post_send(p.qp[0], wr, &bad);
	if (err)
		ok(bad == &wr[0], "opcode 99 is refused (%s)", strerror(err));
	else
		wc_is(p.scq[0], 0, IBV_WC_LOC_QP_OP_ERR, NULL, "opcode 99 completes in error");
	if (!err) {
		pair_destroy(&p);
		pair_create(&p, &ea, &eb, &po);
		pair_connect(&p);
	}

	/* receives */
	for (i = 0; i < 3; i++)
		rr[i] = (struct ibv_recv_wr) {
			.wr_id = 200 + i,
			.next = i < 2 ? &rr[i + 1] : NULL,
			.sg_list = sge,
			.num_sge = i == 1 ? (int)ia.cap.max_recv_sge + 1 : (int)ia.cap.max_recv_sge,
		};
	rbad = NULL;
	err = ibv_post_recv(p.qp[0], rr, &rbad);
	ok(err == EINVAL || err == ENOMEM, "a piece too many to receive is refused (%s)", strerror(err));
	ok(rbad == &rr[1], "bad_wr is the one");

	/* the queues end where they say */
	for (n = 1; n < 100000 && !pair_recv(&p, 0, n, 0, 10); n++)
		;
	ok(n >= ia.cap.max_recv_wr && n < 100000, "a receive queue of %u takes %u", ia.cap.max_recv_wr, n);
	for (n = 0; n < 100000 && !(err = pair_send(&p, 1, n, 0, 10, 0)); n++)
		if (n % 16 == 0)
			sleep_ms(0);
	/* 16 reached the receives above; unsignaled, so nothing came back */
	is(n, ia.cap.max_send_wr, "a send queue takes as many requests as it says");
	is(err, ENOMEM, "then it is full");
	pair_destroy(&p);
}

/* What there is no use for here: 0, or the errno */
static int ece_query(struct ibv_qp *qp)
{
	struct ibv_ece ece;

	return ibv_query_ece(qp, &ece);
}

static int ece_set(struct ibv_qp *qp)
{
	struct ibv_ece ece = { .vendor_id = 0x15b3 };

	return ibv_set_ece(qp, &ece);
}

static int counters(struct ibv_qp *qp)
{
	return ibv_create_counters(qp->context, &(struct ibv_counters_init_attr) {}) ? 0 : errno;
}

static int flow_action(struct ibv_qp *qp)
{
	return ibv_create_flow_action_esp(qp->context, &(struct ibv_flow_action_esp_attr) {}) ?
	       0 : errno;
}

static int cq_overrun(struct ibv_qp *qp)
{
	struct ibv_cq_init_attr_ex ia = {
		.cqe = 1,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
	};

	return ibv_create_cq_ex(qp->context, &ia) ? 0 : errno;
}

/* Calls that are refused whole: who asks hears it, and the queue pair is what it was. */
static void unsupported(void)
{
	static const struct {
		const char *name;
		int (*call)(struct ibv_qp *qp);
	} calls[] = {
		{ "ibv_query_ece", ece_query },
		{ "ibv_set_ece", ece_set },
		{ "ibv_create_counters", counters },
		{ "ibv_create_flow_action_esp", flow_action },
		{ "IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN", cq_overrun },
	};
	struct pair p;

	pair_up(&p, &ea, &eb, NULL);
	for (unsigned int i = 0; i < ARRAY_SIZE(calls); i++)
		is(calls[i].call(p.qp[0]), EOPNOTSUPP, "%s", calls[i].name);
	works(&p, "the queue pair");
	pair_destroy(&p);
}

/* An error stays with its queue pair. */
static void isolated(void)
{
	struct pair good, bad;
	unsigned int sent = 0, done = 0, recvd = 0, errors = 0, i;
	double end = now() + PATIENCE;
	struct ibv_wc wc;
	bool right = true;

	pair_up(&good, &ea, &eb, NULL);
	for (i = 0; i < 32; i++)
		if (pair_recv(&good, 1, i, i % 64 * 4096, 4096))
			die("post_recv");
	while (recvd < 600 || done < 600) {
		if (now() > end)
			break;
		if (sent < 600 && sent - done < 16) {
			pattern_fill(good.buf[0] + sent % 64 * 4096, sent, 0, 3001);
			if (pair_send(&good, 0, sent, sent % 64 * 4096, 3001, SIG))
				die("post_send");
			sent++;
		}
		if (sent % 40 == 20 && errors < sent / 40 + 1) {
			/* beside it: a wrong key, a message too long, an ERR, a destroy */
			pair_up(&bad, &ea, &eb, NULL);
			switch (errors % 4) {
			case 0:
				bad.mr[0]->lkey ^= 0x5a5a5a;
				pair_send(&bad, 0, 1, 0, 3000, 0);
				break;
			case 1:
				pair_recv(&bad, 1, 1, 0, 1000);
				pair_send(&bad, 0, 1, 0, 3000, 0);
				break;
			case 2:
				pair_send(&bad, 0, 1, 0, 3000, 0);
				qp_to(bad.qp[0], IBV_QPS_ERR);
				break;
			case 3:
				pair_send(&bad, 0, 1, 0, 3000, 0);
				break;
			}
			if (errors % 4 < 3) {
				if (!cq_wait(bad.scq[0], &wc, PATIENCE) || wc.status == IBV_WC_SUCCESS)
					right = false;
			}
			pair_destroy(&bad);
			errors++;
		}
		while (ibv_poll_cq(good.scq[0], 1, &wc) == 1) {
			if (wc.status || wc.wr_id != done)
				right = false;
			done++;
		}
		while (ibv_poll_cq(good.rcq[1], 1, &wc) == 1) {
			if (wc.status || wc.byte_len != 3001 || wc.wr_id != recvd ||
			    pattern_check(good.buf[1] + recvd % 64 * 4096, recvd, 0, 3001) >= 0)
				right = false;
			if (pair_recv(&good, 1, recvd + 32, (recvd + 32) % 64 * 4096, 4096))
				die("post_recv");
			recvd++;
		}
		if (!right)
			break;
	}
	ok(right && done == 600 && recvd == 600,
	   "600 messages pass beside %u queue pairs in error (%u sent, %u received)", errors, done, recvd);
	ok(errors >= 12, "there were some");
	is_state(good.qp[0], IBV_QPS_RTS, "the sender");
	is_state(good.qp[1], IBV_QPS_RTS, "the receiver");
	pair_destroy(&good);
}

static const struct test tests[] = {
	TEST(rnr_late),
	TEST(rnr_exceeded),
	TEST(peer_gone),
	TEST(link_down),
	TEST(sqd_no_route),
	TEST(sqd_wrong),
	TEST(sqd_no_reads),
	TEST(flush_idle),
	TEST(flush_busy),
	TEST(wrong_send),
	TEST(wrong_recv),
	TEST(too_long),
	TEST(refused),
	TEST(unsupported),
	TEST(isolated),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
