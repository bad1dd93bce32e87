// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Where one thing meets another: errors before there is a path, windows behind
 * a packet that is sent again, memory that is not there behind requests that are
 * in order, queues of another protection domain.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common.h"

static struct end ea, eb;

#define SIG IBV_SEND_SIGNALED
#define PAGE 4096
#define QKEY 0x1234

/* 10.3.1: RESET to ERR by INIT, and all that is posted is flushed. */
static void early(void)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC };
	struct pair_opts o = { .sq = 8, .rq = 8, .sge = 1, .buf = 8192 };
	struct pair p;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(types); i++) {
		o.type = types[i];
		pair_create(&p, &ea, &eb, &o);
		if (qp_init(p.qp[0], &p.conn) || qp_to(p.qp[0], IBV_QPS_ERR))
			die("INIT to ERR");
		if (pair_send(&p, 0, 1, 0, 5000, SIG) || pair_send(&p, 0, 2, 0, 0, SIG))
			die("post_send");
		wc_is(p.scq[0], 1, IBV_WC_WR_FLUSH_ERR, NULL, "flushed without ever a path");
		wc_is(p.scq[0], 2, IBV_WC_WR_FLUSH_ERR, NULL, "and so is an empty one");
		pair_destroy(&p);
	}
}

static struct ibv_mw *window(struct pair *p, int side)
{
	struct ibv_mw *mw = ibv_alloc_mw(p->e[side]->pd, IBV_MW_TYPE_2);

	if (!mw)
		die("alloc_mw");
	return mw;
}

static struct ibv_send_wr bind_wr(struct pair *p, struct ibv_mw *mw, uint64_t id)
{
	return (struct ibv_send_wr) {
		.wr_id = id, .opcode = IBV_WR_BIND_MW, .send_flags = SIG,
		.bind_mw = { .mw = mw, .rkey = ibv_inc_rkey(mw->rkey),
			     .bind_info = { .mr = p->mr[0], .addr = (uintptr_t)p->buf[0],
					    .length = PAGE,
					    .mw_access_flags = IBV_ACCESS_REMOTE_READ } },
	};
}

static struct ibv_send_wr send_wr(struct pair *p, struct ibv_sge *sge, uint64_t id)
{
	*sge = *SGE(p->buf[0], 100, p->mr[0]->lkey);
	return (struct ibv_send_wr) {
		.wr_id = id, .opcode = IBV_WR_SEND, .send_flags = SIG, .sg_list = sge, .num_sge = 1,
	};
}

/* What precedes a window is sent again; the window is bound once. */
static void bind_behind(void)
{
	struct pair_opts o = { .sq = 16, .rq = 8, .sge = 1, .buf = 8192,
			       .access = IBV_ACCESS_MW_BIND };
	struct ibv_send_wr wr[3], *bad;
	struct ibv_sge sge[2];
	struct ibv_mw *mw;
	struct pair p;

	pair_create(&p, &ea, &eb, &o);
	pair_connect(&p);
	mw = window(&p, 0);
	/* all in one turn of the requester */
	wr[0] = send_wr(&p, &sge[0], 1);
	wr[1] = bind_wr(&p, mw, 2);
	wr[2] = send_wr(&p, &sge[1], 3);
	wr[0].next = &wr[1];
	wr[1].next = &wr[2];
	if (ibv_post_send(p.qp[0], wr, &bad))
		die("post_send");
	/* the peer is not ready, and says so, for a while */
	sleep_ms(50);
	if (pair_recv(&p, 1, 10, 0, 100) || pair_recv(&p, 1, 11, 0, 100))
		die("post_recv");
	wc_is(p.scq[0], 1, IBV_WC_SUCCESS, NULL, "a message that waited for its receive");
	wc_is(p.scq[0], 2, IBV_WC_SUCCESS, NULL, "the window behind it");
	wc_is(p.scq[0], 3, IBV_WC_SUCCESS, NULL, "a message behind that");
	is_state(p.qp[0], IBV_QPS_RTS, "the sender");
	if (ibv_dealloc_mw(mw))
		die("dealloc_mw");
	pair_destroy(&p);
}

/* LOCAL_INV waits for what is before it, which nobody acknowledges. */
static void inv_behind(void)
{
	struct pair_opts o = { .sq = 16, .rq = 8, .sge = 1, .buf = 8192, .type = IBV_QPT_UC,
			       .access = IBV_ACCESS_MW_BIND };
	struct ibv_send_wr bind, inv, send, *bad;
	struct ibv_sge sge;
	struct ibv_mw *mw;
	struct pair p;

	pair_create(&p, &ea, &eb, &o);
	pair_connect(&p);
	mw = window(&p, 0);
	bind = bind_wr(&p, mw, 1);
	if (ibv_post_send(p.qp[0], &bind, &bad))
		die("post_send");
	wc_is(p.scq[0], 1, IBV_WC_SUCCESS, NULL, "UC: a window is bound");
	inv = (struct ibv_send_wr) { .wr_id = 3, .opcode = IBV_WR_LOCAL_INV, .send_flags = SIG,
				     .invalidate_rkey = bind.bind_mw.rkey };
	send = send_wr(&p, &sge, 2);
	send.next = &inv;
	if (ibv_post_send(p.qp[0], &send, &bad))
		die("post_send");
	wc_is(p.scq[0], 2, IBV_WC_SUCCESS, NULL, "UC: a message is sent");
	wc_is(p.scq[0], 3, IBV_WC_SUCCESS, NULL, "UC: the window is invalidated behind it");
	if (ibv_dealloc_mw(mw))
		die("dealloc_mw");
	pair_destroy(&p);
}

/* A region on demand of three pages, the last of which can't be had. */
static struct ibv_mr *holey(struct end *e)
{
	struct ibv_mr *mr;
	void *at;

	at = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		die("mmap");
	mr = ibv_reg_mr(e->pd, at, 3 * PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	/* and no other mapping takes its place */
	if (mr && mprotect((char *)at + 2 * PAGE, PAGE, PROT_NONE))
		die("mprotect");
	return mr;
}

static void read_hole(void)
{
	struct pair_opts o = { .sq = 16, .rq = 8, .sge = 2, .buf = 8 * PAGE,
			       .access = IBV_ACCESS_REMOTE_READ };
	struct ibv_mr *mr = holey(&ea);
	struct pair p;

	if (!mr) {
		skip("no on-demand regions", "a READ into memory that is not there");
		return;
	}
	pair_create(&p, &ea, &eb, &o);
	p.conn.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
	p.conn.rd_atomic = 4;
	pair_connect(&p);
	if (POST(p.qp[0], .wr_id = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = SIG,
		 .sg_list = SGE(mr->addr, 2 * PAGE, mr->lkey), .num_sge = 1,
		 .wr.rdma = { (uintptr_t)p.buf[1], p.mr[1]->rkey }))
		die("post_send");
	wc_is(p.scq[0], 1, IBV_WC_SUCCESS, NULL, "a READ into memory on demand");
	if (POST(p.qp[0], .wr_id = 2, .opcode = IBV_WR_RDMA_READ, .send_flags = SIG,
		 .sg_list = SGE(mr->addr, 3 * PAGE, mr->lkey), .num_sge = 1,
		 .wr.rdma = { (uintptr_t)p.buf[1], p.mr[1]->rkey }))
		die("post_send");
	wc_is(p.scq[0], 2, IBV_WC_LOC_PROT_ERR, NULL, "a READ into memory that is not there");
	pair_destroy(&p);
	ibv_dereg_mr(mr);
}

/*
 * What comes is too long for the request that it took of a shared queue, or is no message. The request
 * ends, as others may wait for it; the queue pair does not.
 */
static void srq_short(void)
{
	enum { SHORT = 256, UC_SEND_FIRST = 0x20, UC_WRITE_MIDDLE = 0x27 };
	const int fd = forger_on("a");
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(eb.pd, &sa);
	struct pair_opts o = { .sq = 4, .rq = 4, .sge = 1, .buf = PAGE, .type = IBV_QPT_UC, .srq = srq };
	struct ibv_ah *ah = ah_to(&ea, &eb.gid);
	struct ibv_qp *qp[2];
	struct ibv_cq *cq;
	struct pair p;
	struct ud s;

	if (!srq)
		die("create_srq");
	ud_up(&s, &ea, QKEY, false);
	cq = cq_make(&eb, 8);
	for (int i = 0; i < 2; i++)
		qp[i] = ud_qp(&eb, cq, srq, 1, 0, QKEY);
	pair_create(&p, &ea, &eb, &o);
	p.conn.mtu = IBV_MTU_256;
	pair_connect(&p);
	pattern_fill(s.buf, 4, 0, PAGE);
	pattern_fill(p.buf[0], 5, 0, PAGE);
	if (pair_recv(&p, 1, 1, 0, SHORT) ||
	    ud_send(&s, false, ah, qp[0]->qp_num, QKEY, 0, SGE(s.buf, 1000, s.mr->lkey), 1, 0, 0))
		die("UD");
	wc_is(cq, 1, IBV_WC_LOC_LEN_ERR, NULL, "UD: a request that is too short");
	is_state(qp[0], IBV_QPS_RTS, "the queue pair that took it");
	if (pair_recv(&p, 1, 2, 0, SHORT) ||
	    ud_send(&s, false, ah, qp[1]->qp_num, QKEY, 1, SGE(s.buf, 100, s.mr->lkey), 1, 0, 0))
		die("UD");
	wc_is(cq, 2, IBV_WC_SUCCESS, NULL, "another queue pair has the next one");
	is(pattern_check(p.buf[1] + GRH, 4, 0, 100), -1, "every byte");
	if (pair_recv(&p, 1, 3, 0, SHORT) || pair_send(&p, 0, 1, 0, 1000, SIG))
		die("UC");
	wc_is(p.rcq[1], 3, IBV_WC_LOC_LEN_ERR, NULL, "UC: a request that is too short");
	is_state(p.qp[1], IBV_QPS_RTS, "the queue pair that took it");
	if (pair_recv(&p, 1, 4, 0, SHORT) || pair_send(&p, 0, 2, 0, 100, SIG))
		die("UC");
	wc_is(p.rcq[1], 4, IBV_WC_SUCCESS, NULL, "the next message has the next one");
	is(pattern_check(p.buf[1], 5, 0, 100), -1, "every byte");
	if (pair_recv(&p, 1, 5, 0, SHORT))
		die("UC");
	forge_pkt(fd, &p, 0, UC_SEND_FIRST, p.psn[0], p.buf[0], SHORT);
	forge_pkt(fd, &p, 0, UC_WRITE_MIDDLE, p.psn[0] + 1, p.buf[0], SHORT);
	wc_is(p.rcq[1], 5, IBV_WC_REM_INV_REQ_ERR, NULL, "UC: a SEND that goes on as a WRITE");
	is_state(p.qp[1], IBV_QPS_RTS, "the queue pair that took it");
	close(fd);
	pair_destroy(&p);
	ud_down(&s);
	if (ibv_destroy_qp(qp[0]) || ibv_destroy_qp(qp[1]) || ibv_destroy_cq(cq) ||
	    ibv_destroy_srq(srq) || ibv_destroy_ah(ah))
		die("destroy");
}

/* UC: a packet of a message is lost, and with it the message; not the next one. */
static void uc_hole(void)
{
	enum { SHORT = 256, UC_SEND_FIRST = 0x20, UC_SEND_LAST = 0x22, UC_SEND_ONLY = 0x24,
	       UC_WRITE_FIRST = 0x26, UC_WRITE_LAST_IMM = 0x29 };
	const int fd = forger_on("a");
	const struct pair_opts o = { .sq = 4, .rq = 4, .sge = 1, .buf = PAGE, .type = IBV_QPT_UC,
				     .access = IBV_ACCESS_REMOTE_WRITE };
	uint8_t write[RETH_LEN + SHORT], last[4 + SHORT] = {};
	struct ibv_wc wc;
	uint32_t psn;
	struct pair p;

	pair_create(&p, &ea, &eb, &o);
	p.conn.mtu = IBV_MTU_256;
	pair_connect(&p);
	psn = p.psn[0];
	pattern_fill(p.buf[0], 6, 0, PAGE);
	if (pair_recv(&p, 1, 1, 0, PAGE))
		die("post_recv");
	forge_pkt(fd, &p, 0, UC_SEND_FIRST, psn, p.buf[0], SHORT);
	forge_pkt(fd, &p, 0, UC_SEND_LAST, psn + 2, p.buf[0] + SHORT, SHORT);
	reth(write, p.buf[1] + 2048, p.mr[1]->rkey, 3 * SHORT);
	memcpy(write + RETH_LEN, p.buf[0], SHORT);
	forge_pkt(fd, &p, 0, UC_WRITE_FIRST, psn + 3, write, sizeof(write));
	forge_pkt(fd, &p, 0, UC_WRITE_LAST_IMM, psn + 5, last, sizeof(last));
	ok(!cq_wait(p.rcq[1], &wc, 0.3), "messages of which a packet is lost: nothing is received");
	memset(p.buf[1], 0, PAGE);
	forge_pkt(fd, &p, 0, UC_SEND_ONLY, psn + 6, p.buf[0] + 512, SHORT);
	wc_is(p.rcq[1], 1, IBV_WC_SUCCESS, &wc, "the next one is");
	is(wc.byte_len, SHORT, "its length");
	ok(!memcmp(p.buf[1], p.buf[0] + 512, SHORT), "every byte");
	is_state(p.qp[1], IBV_QPS_RTS, "the queue pair");
	pair_destroy(&p);
	close(fd);
}

/* A peer has lost its place within a message, and starts it anew: the request that it took says so. */
static void begins_anew(void)
{
	enum { SHORT = 256, SEND_FIRST = 0x00 };
	const int fd = forger_on("a");
	const struct pair_opts o = { .sq = 4, .rq = 4, .sge = 1, .buf = PAGE };
	struct ibv_async_event ev;
	struct pair p;

	pair_create(&p, &ea, &eb, &o);
	p.conn.mtu = IBV_MTU_256;
	pair_connect(&p);
	events_drop(&eb);
	if (pair_recv(&p, 1, 1, 0, PAGE) || pair_recv(&p, 1, 2, 0, PAGE))
		die("post_recv");
	forge_pkt(fd, &p, 0, SEND_FIRST, p.psn[0], p.buf[0], SHORT);
	forge_pkt(fd, &p, 0, SEND_FIRST, p.psn[0] + 1, p.buf[0], SHORT);
	wc_is(p.rcq[1], 1, IBV_WC_REM_INV_REQ_ERR, NULL, "a message within another: its request");
	wc_is(p.rcq[1], 2, IBV_WC_WR_FLUSH_ERR, NULL, "and the next one");
	is_state(p.qp[1], IBV_QPS_ERR, "the queue pair that took it");
	ok(!event_wait(&eb, &ev, 0.3), "there is no event besides");
	pair_destroy(&p);
	close(fd);
}

/* A WRITE whose region goes before its last packet, for which a receive request is taken. */
static void key_gone(void)
{
	enum { SHORT = 256, WRITE_FIRST = 0x06, WRITE_LAST_IMM = 0x09 };
	const int fd = forger_on("a");
	const struct pair_opts o = { .sq = 4, .rq = 4, .sge = 1, .buf = PAGE };
	struct ibv_mr *mr = mr_make(&eb, PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	uint8_t body[RETH_LEN + SHORT], *at = mr->addr;
	struct ibv_async_event ev;
	long long errors;
	struct pair p;
	double begin;

	pair_create(&p, &ea, &eb, &o);
	p.conn.mtu = IBV_MTU_256;
	p.conn.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	pair_connect(&p);
	events_drop(&eb);
	if (pair_recv(&p, 1, 1, 0, PAGE) || pair_recv(&p, 1, 2, 0, PAGE))
		die("post_recv");
	reth(body, at, mr->rkey, 2 * SHORT);
	memset(body + RETH_LEN, 0x5a, SHORT);
	forge_pkt(fd, &p, 0, WRITE_FIRST, p.psn[0], body, sizeof(body));
	for (begin = now(); now() - begin < PATIENCE && !all_are(at, 0x5a, SHORT);)
		sleep_ms(10);
	ok(all_are(at, 0x5a, SHORT), "a WRITE has begun");
	if (ibv_dereg_mr(mr))
		die("dereg_mr");
	memset(body, 0x5a, sizeof(body));
	errors = hw_counter(&eb, "resp_cqe_error");
	forge_pkt(fd, &p, 0, WRITE_LAST_IMM, p.psn[0] + 1, body, 4 + SHORT);
	wc_is(p.rcq[1], 1, IBV_WC_REM_ACCESS_ERR, NULL, "its region is gone: the request that was taken");
	wc_is(p.rcq[1], 2, IBV_WC_WR_FLUSH_ERR, NULL, "and the next one");
	is_state(p.qp[1], IBV_QPS_ERR, "the queue pair");
	ok(!event_wait(&eb, &ev, 0.3), "there is no event besides");
	ok(all_are(at + SHORT, 0, PAGE - SHORT), "nothing more was written");
	is(hw_counter(&eb, "resp_cqe_error") - errors, 1, "the request that was taken is counted, and not the flushed one");
	free(at);
	pair_destroy(&p);
	close(fd);
}

/* A port takes longer packets than when a datagram queue pair became ready. */
static void ud_longer(void)
{
	struct ibv_ah *ah = ah_to(&ea, &eb.gid);
	struct ud from, to;
	struct ibv_wc wc;
	char cmd[200];

	ud_up(&from, &ea, QKEY, false);
	ud_up(&to, &eb, QKEY, false);
	command("ip -n a link set v0 mtu 9000; ip -n b link set v1 mtu 9000");
	snprintf(cmd, sizeof(cmd), "timeout 60 sh -c "
		 "'until rdma -dd resource show qp link %s/1 lqpn %u | grep -q \"mtu 4096\"; do sleep 0.1; done'",
		 ea.name, from.qp->qp_num);
	command(cmd);
	ud_recv(&to, 0, 4096);
	pattern_fill(from.buf + 8192, 9, 0, 4000);
	if (ud_send(&from, false, ah, to.qp->qp_num, QKEY, 1,
		    SGE(from.buf + 8192, 4000, from.mr->lkey), 1, 0, 0))
		die("post_send");
	wc_is(from.scq, 1, IBV_WC_SUCCESS, NULL, "a datagram of 4000 bytes, by a port that has grown");
	wc_is(to.rcq, 0, IBV_WC_SUCCESS, &wc, "it arrives");
	is(wc.byte_len, GRH + 4000, "its length");
	is(pattern_check(to.buf + GRH, 9, 0, 4000), -1, "every byte");
	command("ip -n a link set v0 mtu 1500; ip -n b link set v1 mtu 1500");
	if (ibv_destroy_ah(ah))
		die("destroy_ah");
	ud_down(&from);
	ud_down(&to);
}

/* UC: a message that fails halfway, and the next one, which has a list of its own. */
static void send_hole(void)
{
	struct pair_opts o = { .sq = 16, .rq = 8, .sge = 2, .buf = 8 * PAGE, .type = IBV_QPT_UC };
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS };
	struct ibv_mr *mr = holey(&ea);
	struct ibv_sge sge[2];
	struct ibv_wc wc;
	struct pair p;
	int i;

	if (!mr) {
		skip("no on-demand regions", "a message from memory that is not there");
		return;
	}
	pair_create(&p, &ea, &eb, &o);
	pair_connect(&p);
	for (i = 0; i < 2; i++) {
		sge[0] = *SGE(p.buf[0], PAGE, p.mr[0]->lkey);
		sge[1] = *SGE(mr->addr, 3 * PAGE, mr->lkey);
		if (pair_recv(&p, 1, 10 + i, 0, 8 * PAGE) ||
		    POST(p.qp[0], .wr_id = 1, .opcode = IBV_WR_SEND, .send_flags = SIG,
			 .sg_list = sge, .num_sge = 2))
			die("post");
		wc_is(p.scq[0], 1, IBV_WC_LOC_PROT_ERR, NULL, "UC: a message from a hole");
		is_state(p.qp[0], IBV_QPS_SQE, "its queue pair");
		if (ibv_modify_qp(p.qp[0], &a, IBV_QP_STATE))
			die("SQE to RTS");
		pattern_fill(p.buf[0], 5 + i, 0, 5000);
		memset(p.buf[1], CANARY, 8 * PAGE);
		if (pair_send(&p, 0, 2, 0, 5000, SIG))
			die("post_send");
		wc_is(p.scq[0], 2, IBV_WC_SUCCESS, NULL, "UC: the next message is sent");
		if (wc_is(p.rcq[1], 10 + i, IBV_WC_SUCCESS, &wc, "UC: and received")) {
			is(wc.byte_len, 5000, "with its length");
			ok(pattern_check(p.buf[1], 5 + i, 0, 5000) < 0, "and its bytes");
		}
		/* what was paged in may go again, and come again */
		if (madvise(mr->addr, 2 * PAGE, MADV_DONTNEED))
			die("madvise");
	}
	pair_destroy(&p);
	ibv_dereg_mr(mr);
}

/* 10.2.9: a shared receive queue's domain is its own. */
static void srq_domain(void)
{
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_pd *pd = ibv_alloc_pd(eb.ctx);
	struct ibv_recv_wr wr, *bad;
	struct ibv_qp_init_attr ia;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	struct pair p;
	static uint8_t buf[PAGE];

	if (!pd)
		die("alloc_pd");
	pair_create(&p, &ea, &eb, NULL);
	mr = ibv_reg_mr(pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE);
	ia = (struct ibv_qp_init_attr) {
		.send_cq = p.scq[1], .recv_cq = p.rcq[1], .srq = ibv_create_srq(pd, &sa),
		.cap = { .max_send_wr = 1, .max_send_sge = 1 }, .qp_type = IBV_QPT_RC,
	};
	if (!mr || !ia.srq || ibv_destroy_qp(p.qp[1]))
		die("srq");
	p.qp[1] = ibv_create_qp(eb.pd, &ia);
	if (!p.qp[1])
		die("create_qp");
	pair_connect(&p);
	wr = (struct ibv_recv_wr) { .wr_id = 7, .sg_list = SGE(buf, PAGE, mr->lkey), .num_sge = 1 };
	pattern_fill(p.buf[0], 9, 0, PAGE);
	if (ibv_post_srq_recv(ia.srq, &wr, &bad) || pair_send(&p, 0, 1, 0, PAGE, SIG))
		die("post");
	wc_is(p.scq[0], 1, IBV_WC_SUCCESS, NULL, "a message for another domain's shared queue");
	wc_is(p.rcq[1], 7, IBV_WC_SUCCESS, &wc, "is received");
	ok(pattern_check(buf, 9, 0, PAGE) < 0, "whole");
	pair_destroy(&p);
	if (ibv_destroy_srq(ia.srq) || ibv_dereg_mr(mr) || ibv_dealloc_pd(pd))
		die("destroy");
}

#define XRC_SEND_FIRST	0xa0
#define XRC_SEND_MIDDLE	0xa1

/* Within a message, the shared receive queue goes that it is for: its target hears of it. */
static void srq_gone(void)
{
	struct ibv_srq_attr attr = { .max_wr = 4, .max_sge = 1 };
	struct ibv_xrcd *xrcd = xrcd_make(&eb);
	struct ibv_cq *cq = cq_make(&eb, 16);
	const int fd = forger_on("a");
	const long long come = hw_counter(&eb, "rx_send_requests");
	uint8_t body[4 + PAGE] = {};
	struct ibv_srq *srq;
	unsigned int mtu;
	uint32_t num;
	struct pair p, x;

	if (!ok(xrcd, "an XRC domain"))
		return;
	pair_create(&p, &ea, &eb, NULL);
	pair_connect(&p);
	mtu = mtu_bytes(p.conn.mtu);
	srq = xrc_srq_make(&eb, xrcd, cq, &attr);
	if (ibv_get_srq_num(srq, &num))
		die("get_srq_num");
	if (ibv_post_srq_recv(srq, &(struct ibv_recv_wr) {
			.wr_id = 3, .num_sge = 1, .sg_list = SGE(p.buf[1], PAGE, p.mr[1]->lkey),
		}, &(struct ibv_recv_wr *) { NULL }))
		die("post_srq_recv");
	x = p;
	x.qp[0] = xrc_ini_make(&ea, p.scq[0], 4);
	x.qp[1] = xrc_tgt_make(&eb, xrcd);
	qps_connect(x.qp[0], &ea, 500, x.qp[1], &eb, 500, &p.conn);
	num = htobe32(num);
	memcpy(body, &num, 4);
	forge_pkt(fd, &x, 0, XRC_SEND_FIRST, 500, body, 4 + mtu);
	wait_counter(&eb, "rx_send_requests", come);
	if (ibv_destroy_srq(srq))
		die("destroy_srq");
	forge_pkt(fd, &x, 0, XRC_SEND_MIDDLE, 501, body, 4 + mtu);
	event_is(&eb, IBV_EVENT_QP_REQ_ERR, x.qp[1], "its shared receive queue has gone");
	is(qp_state(x.qp[1]), IBV_QPS_ERR, "which ends the connection");
	if (ibv_destroy_qp(x.qp[0]) || ibv_destroy_qp(x.qp[1]) || ibv_destroy_cq(cq) ||
	    ibv_close_xrcd(xrcd))
		die("destroy");
	pair_destroy(&p);
	close(fd);
}

/* Datagrams that don't leave, by @cmd, are lost, each of them, and the queue goes on. */
static void ud_lost(const char *cmd, const char *where)
{
	struct ibv_ah_attr aa = {
		.is_global = 1, .port_num = 1,
		.grh = { .dgid = eb.gid, .sgid_index = ea.gid_index, .hop_limit = 64 },
	};
	struct ibv_qp_init_attr ia = {
		.cap = { .max_send_wr = 16, .max_send_sge = 1, .max_recv_wr = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_UD,
	};
	struct ibv_ah *ah = ibv_create_ah(ea.pd, &aa);
	struct ibv_mr *mr = mr_make(&ea, PAGE, 0);
	struct ibv_sge sge = { (uintptr_t)mr->addr, 64, mr->lkey };
	struct ibv_send_wr wr[3], *bad;
	struct ibv_qp *qp;
	int i;

	ia.send_cq = ia.recv_cq = cq_make(&ea, 32);
	qp = ibv_create_qp(ea.pd, &ia);
	if (!ah || !qp)
		die("UD");
	ud_ready(qp, QKEY);
	command(cmd);
	for (i = 0; i < 3; i++)
		wr[i] = (struct ibv_send_wr) {
			.wr_id = i, .opcode = IBV_WR_SEND, .send_flags = SIG,
			.sg_list = &sge, .num_sge = 1,
			.wr.ud = { .ah = ah, .remote_qpn = 5, .remote_qkey = QKEY },
			.next = i < 2 ? &wr[i + 1] : NULL,
		};
	if (ibv_post_send(qp, wr, &bad))
		die("post_send");
	for (i = 0; i < 3; i++)
		wc_is(ia.send_cq, i, IBV_WC_SUCCESS, NULL, "datagram %d %s", i, where);
	wr[2].wr_id = 3;
	if (ibv_post_send(qp, &wr[2], &bad))
		die("post_send");
	wc_is(ia.send_cq, 3, IBV_WC_SUCCESS, NULL, "and one that is posted later");
	if (ibv_destroy_qp(qp) || ibv_destroy_ah(ah) || ibv_destroy_cq(ia.send_cq))
		die("destroy");
	mr_drop(mr);
}

static void ud_nowhere(void)
{
	ud_lost("ip -n a link set v0 down", "to nowhere");
}

/* What the host's own rules drop looks like a queue that is full. */
static void ud_denied(void)
{
	command("tc -n a qdisc add dev v0 clsact");
	ud_lost("tc -n a filter add dev v0 egress matchall action drop", "to whom tc denies it");
	command("tc -n a qdisc del dev v0 clsact");
}

/* Members on this host hear it before a queue is asked: what that refuses is not offered again. */
static void group_denied(void)
{
	enum { NUM = 10 };
	union ibv_gid mgid = group_gid(&ea, 8);
	unsigned int num[2] = {}, good = 0;
	struct ibv_ah *ah;
	struct ibv_wc wc;
	struct ud u[2];

	for (int i = 0; i < 2; i++) {
		ud_up(&u[i], &ea, QKEY, false);
		for (int k = 0; k < 4 * NUM; k++)
			ud_recv(&u[i], k, 1000);
		if (ibv_attach_mcast(u[i].qp, &mgid, 0))
			die("attach_mcast");
	}
	ah = ah_to(&ea, &mgid);
	command("tc -n a qdisc add dev v0 clsact");
	command("tc -n a filter add dev v0 egress matchall action drop");
	pattern_fill(u[0].buf + 60 * 8192, 3, 0, 200);
	for (int i = 0; i < NUM; i++) {
		if (ud_send(&u[0], false, ah, 0xffffff, QKEY, i,
			    SGE(u[0].buf + 60 * 8192, 200, u[0].mr->lkey), 1, 0, 0))
			die("post_send");
		wc_is(u[0].scq, i, IBV_WC_SUCCESS, NULL, "datagram %d to a group is sent", i);
	}
	for (int i = 0; i < 2; i++)
		for (; cq_wait(u[i].rcq, &wc, num[i] < NUM ? PATIENCE : 0.2); num[i]++)
			good += !wc.status &&
				pattern_check(u[i].buf + wc.wr_id * 8192 + GRH, 3, 0, 200) < 0;
	is(num[0], NUM, "the sender, a member, hears each once");
	is(num[1], NUM, "and so does another on its host");
	is(good, 2 * NUM, "every byte");
	command("tc -n a qdisc del dev v0 clsact");
	if (ibv_destroy_ah(ah))
		die("destroy_ah");
	for (int i = 0; i < 2; i++) {
		if (ibv_detach_mcast(u[i].qp, &mgid, 0))
			die("detach_mcast");
		ud_down(&u[i]);
	}
}

#define MAX_MSG		(1UL << 30)
#define SEND_MIDDLE	0x01
#define SEND_ONLY	0x04

/*
 * A message is as long as any may be, and goes on. Who sends it is one that fails at its last
 * packet, for its memory, and then a forger. The list has room for four times as much.
 */
static void endless(void)
{
	struct pair_opts o = { .sq = 8, .rq = 8, .sge = 2, .buf = PAGE };
	static const uint8_t body[PAGE];
	struct ibv_mr *from, *to, *gone;
	struct ibv_recv_wr wr = { .wr_id = 5, .num_sge = 2 }, *bad;
	const int fd = forger_on("a");
	unsigned int mtu;
	long long before;
	uint32_t psn;
	struct pair p;

	pair_create(&p, &ea, &eb, &o);
	p.conn.timeout = 20;
	pair_connect(&p);
	from = ibv_alloc_null_mr(ea.pd);
	to = ibv_alloc_null_mr(eb.pd);
	if (!from || !to) {
		skip("the library has no alloc_null_mr", "endless");
		return;
	}
	gone = ibv_reg_mr(ea.pd, p.buf[0], PAGE, 0);
	if (!gone)
		die("reg_mr");
	before = counter_of(&eb, "rx_pkts");
	mtu = mtu_bytes(p.conn.mtu);
	psn = p.psn[0] + MAX_MSG / mtu - 1;
	wr.sg_list = (struct ibv_sge[]) { *SGE(0, 0x80000000, to->lkey),
					  *SGE(0, 0x80000000, to->lkey) };
	if (ibv_post_recv(p.qp[1], &wr, &bad))
		die("post_recv");
	errno = POST(p.qp[0], .wr_id = 1, .send_flags = SIG, .opcode = IBV_WR_SEND, .num_sge = 2,
		     .sg_list = (struct ibv_sge[]) { *SGE(0, MAX_MSG - mtu, from->lkey),
						     *SGE(p.buf[0], mtu, gone->lkey) });
	if (errno)
		die("post_send");
	/* it has begun, or it would fail before that */
	for (int i = 0; i < 10000 && counter_of(&eb, "rx_pkts") == before; i++)
		sleep_ms(1);
	ibv_dereg_mr(gone);
	/* it takes as long as it takes */
	do {
		before = counter_of(&eb, "rx_pkts");
		sleep_ms(1000);
	} while (counter_of(&eb, "rx_pkts") != before);
	wc_is(p.scq[0], 1, IBV_WC_LOC_PROT_ERR, NULL, "all of 1 GiB but a packet");
	forge_pkt(fd, &p, 0, SEND_MIDDLE, psn, body, mtu);
	sleep_ms(1000);
	is(ibv_poll_cq(p.rcq[1], 1, &(struct ibv_wc) {}), 0, "1 GiB: it may go on");
	forge_pkt(fd, &p, 0, SEND_MIDDLE, psn + 1, body, mtu);
	wc_is(p.rcq[1], 5, IBV_WC_LOC_LEN_ERR, NULL, "more than that: too long");
	is(qp_state(p.qp[1]), IBV_QPS_ERR, "which ends the connection");
	pair_destroy(&p);
	ibv_dereg_mr(from);
	ibv_dereg_mr(to);
	close(fd);
}

#define READ_REQUEST	0x0c
#define CNP		0x81

static void forge_read(int fd, const struct pair *p, uint32_t psn, const void *va, uint32_t rkey,
		       uint32_t len)
{
	uint8_t body[RETH_LEN];

	reth(body, va, rkey, len);
	forge_pkt(fd, p, 0, READ_REQUEST, psn, body, sizeof(body));
}

/* It can't hear so fast. */
static void forge_cnp(int fd, const struct pair *p)
{
	static const uint8_t cnp[16];

	forge_pkt(fd, p, 0, CNP, 0, cnp, sizeof(cnp));
}

/*
 * A READ's request comes again when its requester has had it, and gone on: whose memory it was
 * has taken the key back. It is too late, and nothing is wrong with the connection.
 */
static void late_read(void)
{
	struct pair_opts o = { .sq = 8, .rq = 8, .sge = 1, .buf = PAGE };
	const int fd = forger_on("a");
	long long dropped;
	struct ibv_mr *mr;
	struct pair p;
	uint32_t rkey;

	pair_create(&p, &ea, &eb, &o);
	pair_connect(&p);
	mr = ibv_reg_mr(eb.pd, p.buf[1], PAGE, IBV_ACCESS_REMOTE_READ);
	if (!mr)
		die("reg_mr");
	rkey = mr->rkey;
	pattern_fill(p.buf[1], 5, 0, PAGE);
	errno = POST(p.qp[0], .wr_id = 1, .send_flags = SIG, .opcode = IBV_WR_RDMA_READ,
		     .num_sge = 1, .sg_list = SGE(p.buf[0], PAGE, p.mr[0]->lkey),
		     .wr.rdma = { .remote_addr = (uintptr_t)p.buf[1], .rkey = rkey });
	if (errno)
		die("post_send");
	wc_is(p.scq[0], 1, IBV_WC_SUCCESS, NULL, "a READ");
	is(pattern_check(p.buf[0], 5, 0, PAGE), -1, "every byte is read");
	ibv_dereg_mr(mr);
	dropped = counter_of(&eb, "duplicate_dropped");
	forge_read(fd, &p, p.psn[0], p.buf[1], rkey, PAGE);
	for (int i = 0; i < 1000 && counter_of(&eb, "duplicate_dropped") == dropped; i++)
		sleep_ms(10);
	is(counter_of(&eb, "duplicate_dropped"), dropped + 1, "it comes again without its key");
	is(qp_state(p.qp[1]), IBV_QPS_RTS, "and ends nothing");
	if (pair_recv(&p, 1, 2, 0, 100) || pair_send(&p, 0, 3, 0, 100, SIG))
		die("post");
	wc_is(p.scq[0], 3, IBV_WC_SUCCESS, NULL, "what follows is sent");
	wc_is(p.rcq[1], 2, IBV_WC_SUCCESS, NULL, "and received");
	pair_destroy(&p);
	close(fd);
}

/* READs, the first of @mr and the others of @gone, which goes then. Returns: all came in time. */
static bool read_all_psns(struct pair *p, int fd, const void *mem, struct ibv_mr *mr,
			  struct ibv_mr *gone, const uint32_t *packets, uint32_t num)
{
	const long long pkts = counter_of(&eb, "tx_pkts");
	const long long come = counter_of(&eb, "rx_read_requests");
	uint32_t psn = p->psn[0], i;
	bool held;

	for (i = 0; i < 50; i++) {
		forge_cnp(fd, p);
		sleep_ms(1);
	}
	for (i = 0; i < num; i++) {
		forge_read(fd, p, psn, mem, i ? gone->rkey : mr->rkey, packets[i] * 256);
		forge_cnp(fd, p);
		psn += packets[i];
	}
	for (i = 0; i < 1000 && counter_of(&eb, "rx_read_requests") < come + num; i++)
		forge_cnp(fd, p);
	ibv_dereg_mr(gone);
	held = counter_of(&eb, "rx_read_requests") == come + num &&
	       counter_of(&eb, "tx_pkts") < pkts + packets[0];
	for (i = 0; i < 30000 && qp_state(p->qp[1]) != IBV_QPS_ERR; i++)
		sleep_ms(10);
	is(qp_state(p->qp[1]), IBV_QPS_ERR, "the first is done, and it comes to the next");
	if (held)
		is(counter_of(&eb, "tx_pkts") - pkts, packets[0], "no packet is sent twice");
	return held;
}

/*
 * More READs at once than there are PSNs, so that some have the same. Their peer says that it
 * can't hear so fast, until all have come; then each is answered and done, and none again and
 * again: it comes to those whose memory has gone. Where it was too late, it says so once more.
 */
static void all_psns(void)
{
	struct pair_opts o = { .sq = 8, .rq = 8, .sge = 1, .buf = PAGE };
	static const uint32_t packets[] = { 1 << 16, MAX_MSG / 256, MAX_MSG / 256, MAX_MSG / 256,
					    MAX_MSG / 256 };
	const int fd = forger_on("a");
	struct ibv_mr *mr, *gone = NULL;
	bool held = false, ended = true;
	struct pair p;
	void *mem;
	int i;

	mem = mmap(NULL, MAX_MSG, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mem == MAP_FAILED)
		die("mmap");
	mr = ibv_reg_mr(eb.pd, mem, packets[0] * 256, IBV_ACCESS_REMOTE_READ);
	if (!mr)
		die("reg_mr");
	for (i = 0; i < 10 && !held && ended; i++) {
		gone = ibv_reg_mr(eb.pd, mem, MAX_MSG,
				  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND);
		if (!gone) {
			skip("no on-demand paging in this kernel", "more READs than PSNs");
			break;
		}
		pair_create(&p, &ea, &eb, &o);
		p.conn.mtu = IBV_MTU_256;
		p.conn.rd_atomic = 8;
		pair_connect(&p);
		held = read_all_psns(&p, fd, mem, mr, gone, packets, ARRAY_SIZE(packets));
		ended = qp_state(p.qp[1]) == IBV_QPS_ERR;
		pair_destroy(&p);
	}
	if (gone && !held && ended)
		skip("they came too late each time", "more READs than PSNs");
	ibv_dereg_mr(mr);
	munmap(mem, MAX_MSG);
	close(fd);
}

#define LAST_SENDS	64

#define ACKNOWLEDGE	0x11

/* All up to @psn has come, says who did not hear it. */
static void forge_ack(int fd, const struct pair *p, uint32_t psn)
{
	static const uint8_t aeth[4] = { 0x1f, 0, 0, 1 };

	forge_pkt(fd, p, 1, ACKNOWLEDGE, psn, aeth, sizeof(aeth));
}

/* A connection from a to b, which has gone deaf. */
static void pair_deaf(struct pair *p, uint8_t timeout)
{
	const struct pair_opts o = { .sq = 256, .rq = 1, .sge = 1, .buf = 4 * PAGE };

	pair_create(p, &ea, &eb, &o);
	p->conn.timeout = timeout;
	pair_connect(p);
	if (qp_to(p->qp[1], IBV_QPS_RESET))
		die("to RESET");
}

/*
 * A request is to be sent again, and there is no way to the peer; then it is acknowledged
 * after all. Nothing is waited for then, by nobody.
 */
static void had_after_all(void)
{
	/* as if it had come before: a's own host is all that it reaches */
	const int fd = forger_on("a");
	long long before;
	struct pair p;

	/* 0.54 s, or more */
	pair_deaf(&p, 17);
	before = hw_counter(&ea, "local_ack_timeout_err");
	if (pair_send(&p, 0, 1, 0, 100, SIG))
		die("post_send");
	wait_counter(&ea, "local_ack_timeout_err", before);
	before = hw_counter(&ea, "tx_no_route");
	command("ip -n a link set v0 down");
	wait_counter(&ea, "tx_no_route", before);
	forge_ack(fd, &p, p.psn[0]);
	wc_is(p.scq[0], 1, IBV_WC_SUCCESS, NULL, "a request is acknowledged when there is no way back");
	before = hw_counter(&ea, "local_ack_timeout_err");
	sleep_ms(3000);
	is(hw_counter(&ea, "local_ack_timeout_err"), before, "and an idle queue pair has no timeout");
	command("ip -n a link set v0 up");
	pair_destroy(&p);
	close(fd);
}

static void *way_goes(void *unused)
{
	(void)unused;
	command("ip -n a link set v0 down");
	return NULL;
}

/* Requests go on until each of the connections has ended. Return: how many did so by their retries. */
static unsigned int all_end(struct pair *p, unsigned int num, uint32_t len)
{
	unsigned int left = num, ended = 0;
	bool over[num];

	memset(over, 0, sizeof(over));
	for (const double until = now() + PATIENCE; left && now() < until;) {
		for (unsigned int k = 0; k < num; k++) {
			struct ibv_wc wc;

			if (over[k] || ibv_poll_cq(p[k].scq[0], 1, &wc) != 1)
				continue;
			if (!wc.status) {
				pair_request(&p[k], IBV_WR_RDMA_WRITE, len);
				continue;
			}
			over[k] = true;
			left--;
			ended += wc.status == IBV_WC_RETRY_EXC_ERR;
		}
		sched_yield();
	}
	return ended;
}

/*
 * Packets are missing, and there is no way to the peer any more, wherever their recovery is by
 * then: it ends, as where there never was one.
 */
static void way_gone(void)
{
	enum { ROUNDS = 3, PAIRS = 4, NUM = 12, LEN = 65536 };
	const struct pair_opts o = { .sq = NUM, .rq = 1, .sge = 1, .buf = LEN,
				     .access = IBV_ACCESS_REMOTE_WRITE };
	unsigned int ended = 0;
	struct pair p[PAIRS];

	for (int i = 0; i < ROUNDS; i++) {
		pthread_t goes;

		for (int k = 0; k < PAIRS; k++) {
			pair_create(&p[k], &ea, &eb, &o);
			/* 67 ms, or four times as much */
			p[k].conn.timeout = 14;
			p[k].conn.retry_cnt = 5;
			pair_connect(&p[k]);
		}
		command("tc -n a qdisc add dev v0 root netem loss 25%");
		for (int n = 0; n < NUM * PAIRS; n++)
			pair_request(&p[n % PAIRS], IBV_WR_RDMA_WRITE, LEN);
		pthread_create(&goes, NULL, way_goes, NULL);
		ended += all_end(p, PAIRS, LEN);
		pthread_join(goes, NULL);
		command("tc -n a qdisc del dev v0 root");
		command("ip -n a link set v0 up");
		for (int k = 0; k < PAIRS; k++)
			pair_destroy(&p[k]);
	}
	is(ended, ROUNDS * PAIRS, "connections that end by their retries");
}

/*
 * An acknowledgement names a READ's own packet: no responder's does (9.7.5.2.2), and the data has
 * not come. The READ is sent again for it, and not with each request that is posted behind it.
 */
static void read_named(void)
{
	const int fd = forger_on("b");
	enum { BEHIND = 200 };
	long long before;
	struct pair p;
	unsigned int i;

	/* 17 s, or more */
	pair_deaf(&p, 22);
	before = hw_counter(&ea, "retransmitted_pkts");
	errno = POST(p.qp[0], .wr_id = 1, .send_flags = SIG, .opcode = IBV_WR_RDMA_READ,
		     .num_sge = 1, .sg_list = SGE(p.buf[0], 4 * PAGE, p.mr[0]->lkey),
		     .wr.rdma = { .remote_addr = (uintptr_t)p.buf[1], .rkey = p.mr[1]->rkey });
	if (errno)
		die("post_send");
	forge_ack(fd, &p, p.psn[0]);
	wait_counter(&ea, "retransmitted_pkts", before);
	for (i = 0; i < BEHIND; i++) {
		if (pair_send(&p, 0, 2, 0, 8, 0))
			die("post_send");
		sleep_ms(1);
	}
	between(hw_counter(&ea, "retransmitted_pkts") - before, 1, BEHIND / 8,
		"a READ that an acknowledgement names: requests that are sent again");
	is(qp_state(p.qp[0]), IBV_QPS_RTS, "nothing has ended");
	pair_destroy(&p);
	close(fd);
}

/*
 * Others round what their programs say up to a power of two, of READs that they have under way. They
 * are told the same number as we are, and that must not be one READ too many. The first one's response
 * has no room, so that none is done with.
 */
static void rounded(void)
{
	enum { LEN = 4 << 20, SAID = 3, ROOM = 4 };
	const struct pair_opts o = { .sq = 8, .rq = 1, .sge = 1, .buf = LEN, .access = IBV_ACCESS_REMOTE_READ };
	const int fd = forger_on("a");
	long long come, refused;
	struct pair p;

	pair_create(&p, &ea, &eb, &o);
	p.conn.mtu = IBV_MTU_1024;
	p.conn.rd_atomic = SAID;
	pair_connect(&p);
	command("tc -n b qdisc add dev v1 root tbf rate 5mbit burst 70k limit 4m");
	refused = hw_counter(&eb, "sent_err_nak");
	for (int i = 0; i <= ROOM; i++) {
		if (i == ROOM) {
			is(hw_counter(&eb, "sent_err_nak") - refused, 0, "READs at once, %d said: %d", SAID, ROOM);
			is_state(p.qp[1], IBV_QPS_RTS, "the responder");
		}
		come = hw_counter(&eb, "rx_read_requests");
		forge_read(fd, &p, p.psn[0] + i * (LEN / 1024), p.buf[1], p.mr[1]->rkey, LEN);
		if (i < ROOM)
			wait_counter(&eb, "rx_read_requests", come);
	}
	is_state(p.qp[1], IBV_QPS_ERR, "one more: the responder");
	is(hw_counter(&eb, "sent_err_nak") - refused, 1, "it is refused");
	command("tc -n b qdisc del dev v1 root");
	pair_destroy(&p);
	close(fd);
}

/* Its own requests fill the device's queue, for as long as it likes: its peer's are answered. */
static void answers(void)
{
	enum { LEN = 4096, MOST = 1000 };
	const struct pair_opts o = { .sq = 64, .rq = 1, .sge = 1, .buf = 2 * LEN,
				     .access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE };
	struct ibv_wc wc;
	unsigned int posted, done = 0;
	struct pair p;
	bool answered = false;
	double end;

	pair_create(&p, &ea, &eb, &o);
	p.conn.mtu = IBV_MTU_1024;
	p.conn.rd_atomic = 4;
	p.conn.timeout = 20;
	pair_connect(&p);
	command("tc -n a qdisc add dev v0 root tbf rate 5mbit burst 70k limit 4m");
	pattern_fill(p.buf[0] + LEN, 3, 0, LEN);
	for (posted = 0; posted < 64; posted++)
		pair_request(&p, IBV_WR_RDMA_WRITE, LEN);
	/* while they are there: a moment later the queue is empty */
	errno = POST(p.qp[1], .wr_id = 8, .opcode = IBV_WR_RDMA_READ, .send_flags = SIG,
		     .num_sge = 1, .sg_list = SGE(p.buf[1] + LEN, LEN, p.mr[1]->lkey),
		     .wr.rdma = { .remote_addr = (uintptr_t)p.buf[0] + LEN, .rkey = p.mr[0]->rkey });
	if (errno)
		die("post_send");
	for (end = now() + PATIENCE; !answered && done < MOST && now() < end; ) {
		while (ibv_poll_cq(p.scq[0], 1, &wc) == 1) {
			if (wc.status)
				die("a WRITE: %s", ibv_wc_status_str(wc.status));
			done++;
			pair_request(&p, IBV_WR_RDMA_WRITE, LEN);
		}
		if (ibv_poll_cq(p.scq[1], 1, &wc) == 1) {
			is(wc.status, IBV_WC_SUCCESS, "a READ of who is busy with WRITEs");
			answered = true;
		}
	}
	ok(answered, "it is answered, behind %u of them", done);
	is(pattern_check(p.buf[1] + LEN, 3, 0, LEN), -1, "every byte");
	command("tc -n a qdisc del dev v0 root");
	pair_destroy(&p);
}

/* What a requester's sends have cost: beyond what was asked of it, nothing need */
struct toil {
	long long pkts, timeouts, probes, again;
};

static struct toil toil_since(const struct toil *before)
{
	return (struct toil) {
		.pkts = hw_counter(&ea, "tx_pkts") - before->pkts,
		.timeouts = hw_counter(&ea, "local_ack_timeout_err") - before->timeouts,
		.probes = hw_counter(&ea, "tail_probes") - before->probes,
		.again = hw_counter(&ea, "retransmitted_pkts") - before->again,
	};
}

/* A READ is longer than its responder's own queue: what that refuses is offered again, not lost */
static void little_room(void)
{
	enum { LEN = 4 << 20, MTU = 1024 };
	const struct pair_opts o = { .sq = 4, .rq = 1, .sge = 1, .buf = LEN,
				     .access = IBV_ACCESS_REMOTE_READ };
	struct toil toil = {};
	struct pair p;

	pair_create(&p, &ea, &eb, &o);
	p.conn.mtu = IBV_MTU_1024;
	p.conn.rd_atomic = 1;
	p.conn.timeout = 20;
	pair_connect(&p);
	/* one burst, and part of another */
	command("tc -n b qdisc add dev v1 root tbf rate 200mbit burst 70k limit 100k");
	pattern_fill(p.buf[1], 5, 0, LEN);
	memset(p.buf[0], 0, LEN);
	toil = toil_since(&toil);
	pair_request(&p, IBV_WR_RDMA_READ, LEN);
	wc_is(p.scq[0], 1, IBV_WC_SUCCESS, NULL, "a READ of 4 MiB");
	is(pattern_check(p.buf[0], 5, 0, LEN), -1, "every byte");
	toil = toil_since(&toil);
	is(toil.timeouts, 0, "no timeout");
	/* lost, they were asked for once more for each burst: 62 times */
	between(toil.again, 0, 15, "requests sent again");
	diag("%lld probes", toil.probes);
	command("tc -n b qdisc del dev v1 root");
	pair_destroy(&p);
}

/*
 * And a WRITE is longer than its requester's. What is refused was never sent: it counts once, when
 * it leaves.
 */
static void little_room_write(void)
{
	enum { LEN = 4 << 20, MTU = 1024, PKTS = LEN / MTU };
	const struct pair_opts o = { .sq = 4, .rq = 1, .sge = 1, .buf = LEN,
				     .access = IBV_ACCESS_REMOTE_WRITE };
	struct toil toil = {};
	long long refused;
	struct pair p;

	pair_create(&p, &ea, &eb, &o);
	p.conn.mtu = IBV_MTU_1024;
	p.conn.timeout = 20;
	pair_connect(&p);
	command("tc -n a qdisc add dev v0 root tbf rate 200mbit burst 70k limit 100k");
	pattern_fill(p.buf[0], 6, 0, LEN);
	memset(p.buf[1], 0, LEN);
	refused = hw_counter(&ea, "tx_dropped");
	toil = toil_since(&toil);
	pair_request(&p, IBV_WR_RDMA_WRITE, LEN);
	wc_is(p.scq[0], 1, IBV_WC_SUCCESS, NULL, "a WRITE of 4 MiB");
	is(pattern_check(p.buf[1], 6, 0, LEN), -1, "every byte");
	between(hw_counter(&ea, "tx_dropped") - refused, 1, 1000000, "bursts that were refused");
	toil = toil_since(&toil);
	is(toil.timeouts, 0, "no timeout");
	between(toil.again, 0, toil.probes, "packets sent again, by probes");
	is(toil.pkts, PKTS + toil.again, "packets sent, in all");
	command("tc -n a qdisc del dev v0 root");
	pair_destroy(&p);
}

/* What the responder's own rules drop looks like a queue that is full: there is an end to it. */
static void read_denied(void)
{
	enum { LEN = 4 << 20, MTU = 1024, BURSTS = LEN / 65536 };
	const struct pair_opts o = { .sq = 4, .rq = 1, .sge = 1, .buf = LEN,
				     .access = IBV_ACCESS_REMOTE_READ };
	long long before;
	struct pair p;

	pair_create(&p, &ea, &eb, &o);
	p.conn.mtu = IBV_MTU_1024;
	p.conn.rd_atomic = 1;
	/* 1 s, and no second one */
	p.conn.timeout = 18;
	p.conn.retry_cnt = 0;
	pair_connect(&p);
	command("tc -n b qdisc add dev v1 clsact");
	command("tc -n b filter add dev v1 egress matchall action drop");
	before = hw_counter(&eb, "tx_dropped");
	pair_request(&p, IBV_WR_RDMA_READ, LEN);
	wc_is(p.scq[0], 1, IBV_WC_RETRY_EXC_ERR, NULL, "a READ whose response is denied");
	/* a dozen tries of its first burst, and one of those for each time that it was asked for */
	between(hw_counter(&eb, "tx_dropped") - before, 2, BURSTS / 2, "bursts that were refused");
	before = hw_counter(&eb, "tx_dropped");
	sleep_ms(300);
	is(hw_counter(&eb, "tx_dropped"), before, "and none after that");
	command("tc -n b qdisc del dev v1 clsact");
	pair_destroy(&p);
}

/*
 * Who answers a READ ends the connection: by a request of its own that fails, or as the peer's next
 * one is wrong. Then the memory goes that is read. Of the first nothing more is answered, and there is
 * nothing else to be told; of the second the READ fails, which was before it.
 */
static void read_ended(void)
{
	enum { LEN = 6 << 20 };
	const struct pair_opts o = { .sq = 4, .rq = 4, .sge = 1, .buf = LEN,
				     .access = IBV_ACCESS_REMOTE_WRITE };
	static const char *const how[] = {
		"a request of its own", "the peer's next one", "a completion that finds no room",
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(how); i++) {
		struct ibv_async_event ev;
		long long given;
		struct ibv_mr *mr;
		struct pair p;

		pair_create(&p, &ea, &eb, &o);
		p.conn.mtu = IBV_MTU_1024;
		p.conn.rd_atomic = 1;
		/* 1 s, for one that is not answered; or 17 s */
		p.conn.timeout = i == 1 ? 22 : 18;
		p.conn.retry_cnt = 1;
		pair_connect(&p);
		mr = ibv_reg_mr(eb.pd, p.buf[1], LEN, IBV_ACCESS_REMOTE_READ);
		if (!mr)
			die("reg_mr");
		/* it takes a third of it, and lets go of that slowly */
		command("tc -n b qdisc add dev v1 root tbf rate 8mbit burst 100k limit 8m");
		given = hw_counter(&eb, "tx_pkts");
		if (POST(p.qp[0], .wr_id = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = SIG,
			 .sg_list = SGE(p.buf[0], LEN, p.mr[0]->lkey), .num_sge = 1,
			 .wr.rdma = { (uintptr_t)p.buf[1], mr->rkey }))
			die("post READ");
		if (i == 0) {
			wait_counter(&eb, "tx_pkts", given);
			if (POST(p.qp[1], .wr_id = 2, .opcode = IBV_WR_SEND, .num_sge = 1,
				 .sg_list = SGE(p.buf[1], 8, ~p.mr[1]->lkey)))
				die("post SEND");
			wc_is(p.scq[1], 2, IBV_WC_LOC_PROT_ERR, NULL, "%s fails", how[i]);
		} else if (i == 2) {
			wait_counter(&eb, "tx_pkts", given);
			if (ibv_resize_cq(p.scq[1], 1))
				die("resize_cq");
			for (int k = 0; k <= p.scq[1]->cqe; k++)
				if (POST(p.qp[1], .opcode = IBV_WR_SEND, .send_flags = SIG, .num_sge = 1,
					 .sg_list = SGE(p.buf[1], 8, p.mr[1]->lkey)) ||
				    pair_recv(&p, 0, k, 0, 8))
					die("post SEND");
			event_is(&eb, IBV_EVENT_CQ_ERR, p.scq[1], "%s", how[i]);
			event_is(&eb, IBV_EVENT_QP_FATAL, p.qp[1], "and its queue pair's");
		} else {
			/*
			 * At once: if a probe asks for the READ again before, its answer begins anew
			 * there, and the NAK names what has come long ago.
			 */
			if (POST(p.qp[0], .wr_id = 3, .opcode = IBV_WR_RDMA_WRITE, .num_sge = 1,
				 .sg_list = SGE(p.buf[0], 8, p.mr[0]->lkey),
				 .wr.rdma = { (uintptr_t)p.buf[1], ~p.mr[1]->rkey }))
				die("post WRITE");
			event_is(&eb, IBV_EVENT_QP_ACCESS_ERR, p.qp[1], "%s fails", how[i]);
			ok(hw_counter(&eb, "tx_pkts") > given, "and the READ's answer has begun");
		}
		is_state(p.qp[1], IBV_QPS_ERR, "the responder");
		given = hw_counter(&eb, "tx_pkts");
		/* with its key, nothing else would end the answer */
		if (i != 2 && ibv_dereg_mr(mr))
			die("dereg_mr");
		/* the NAK is behind what the queue has */
		if (i != 1)
			command("tc -n b qdisc del dev v1 root");
		wc_is(p.scq[0], 1, i == 1 ? IBV_WC_REM_ACCESS_ERR : IBV_WC_RETRY_EXC_ERR, NULL,
		      "the READ, after %s", how[i]);
		if (i == 1)
			command("tc -n b qdisc del dev v1 root");
		else
			is(hw_counter(&eb, "tx_pkts"), given, "nothing more of it has been given");
		ok(!event_wait(&eb, &ev, 0.2), "the responder hears of nothing else");
		if (i == 2 && ibv_dereg_mr(mr))
			die("dereg_mr");
		pair_destroy(&p);
	}
}

static long long band(unsigned int n)
{
	char cmd[80];

	snprintf(cmd, sizeof(cmd), "tc -n a -s class show dev v0 classid 1:%u", n);
	return output_number(cmd, " Sent ", "bytes");
}

/* What a host's own queues go by: as with a socket, the traffic class, or else the service level */
static void priority(void)
{
	static const struct {
		uint8_t tclass, sl, band;
		const char *what;
	} tries[] = {
		{ 0, 0, 2, "none" },
		{ 0x10, 0, 1, "a traffic class for low delay" },
		{ 0x08, 6, 3, "one for throughput, whatever the service level" },
		{ 0, 6, 1, "a service level" },
	};
	const struct pair_opts o = { .sq = 64, .rq = 1, .sge = 1, .buf = PAGE,
				     .access = IBV_ACCESS_REMOTE_WRITE };

	command("tc -n a qdisc add dev v0 root handle 1: prio");
	for (unsigned int i = 0; i < ARRAY_SIZE(tries); i++) {
		long long before;
		struct pair p;

		pair_create(&p, &ea, &eb, &o);
		p.conn.traffic_class = tries[i].tclass;
		p.conn.sl = tries[i].sl;
		pair_connect(&p);
		before = band(tries[i].band);
		for (int k = 0; k < 20; k++) {
			struct ibv_wc wc;

			pair_request(&p, IBV_WR_RDMA_WRITE, 100);
			if (!cq_wait(p.scq[0], &wc, PATIENCE) || wc.status)
				die("a WRITE");
		}
		ok(before >= 0 && band(tries[i].band) - before >= 20, "%s: band %u",
		   tries[i].what, tries[i].band);
		pair_destroy(&p);
	}
	command("tc -n a qdisc del dev v0 root");
}

/*
 * A READ's PSNs are not acknowledged by number. After half of all of them, the last SEND's looks
 * like one that is to come, to a requester who has such ones under way.
 */
static void ack_far_back(void)
{
	const struct pair_opts o = { .sq = 16, .rq = 16, .sge = 1, .buf = 8 << 20,
				     .access = IBV_ACCESS_REMOTE_READ };
	const uint32_t num = (1 << 21) / (o.buf / 256) + 1;
	const int fd = forger_on("a");
	long long acks, twice;
	uint32_t psn, good = 0;
	struct pair p;
	uint64_t key;

	pair_create(&p, &ea, &eb, &o);
	p.conn.mtu = IBV_MTU_256;
	p.conn.rd_atomic = 8;
	p.conn.timeout = 20;
	pair_connect(&p);
	for (key = 1; key <= 2; key++) {
		psn = p.psn[0];
		pair_request(&p, IBV_WR_SEND, 8);
		wc_is(p.scq[0], 1, IBV_WC_SUCCESS, NULL, "a SEND");
		wc_is(p.rcq[1], 9, IBV_WC_SUCCESS, NULL, "has come");
		acks = hw_counter(&eb, "sent_ack");
		forge_pkt(fd, &p, 0, SEND_ONLY, psn, p.buf[0], 8);
		wait_counter(&eb, "sent_ack", acks);
		pattern_fill(p.buf[1], key, 0, o.buf);
		memset(p.buf[0], 0, o.buf);
		for (uint32_t i = 0; i < num; i++) {
			struct ibv_wc wc;

			pair_request(&p, IBV_WR_RDMA_READ, o.buf);
			good += cq_wait(p.scq[0], &wc, PATIENCE) && !wc.status;
		}
		is(pattern_check(p.buf[0], key, 0, o.buf), -1, "READs of 2^21 PSNs, every byte");
		acks = hw_counter(&eb, "sent_ack");
		twice = hw_counter(&eb, "duplicate_request");
		forge_pkt(fd, &p, 0, SEND_ONLY, psn, p.buf[0], 8);
		wait_counter(&eb, "duplicate_request", twice);
		sleep_ms(200);
		is(hw_counter(&eb, "sent_ack") - acks, 0, "the SEND is acknowledged no more");
	}
	is(good, 2 * num, "all READs were given");
	pair_destroy(&p);
	close(fd);
}

static const char *const endings[] = { "is destroyed", "goes to RESET", "goes to ERR" };

/* The server of a protocol whose last message is the client's */
struct leaver {
	struct pair p;
	unsigned int how;
};

static void *leave(void *arg)
{
	struct leaver *l = arg;
	struct ibv_wc wc;

	while (!ibv_poll_cq(l->p.rcq[1], 1, &wc))
		;
	if (l->how ? qp_to(l->p.qp[1], l->how == 1 ? IBV_QPS_RESET : IBV_QPS_ERR) :
		     ibv_destroy_qp(l->p.qp[1]))
		die("%s", endings[l->how]);
	if (!l->how)
		l->p.qp[1] = NULL;
	return NULL;
}

/* Who has had the message may go: its sender hears that it has come, and of no dead peer. */
static void last_word(void)
{
	struct pair_opts o = { .sq = LAST_SENDS, .rq = LAST_SENDS, .sge = 1, .buf = PAGE };
	struct ibv_send_wr wr[LAST_SENDS], *bad;
	struct ibv_sge sge;
	struct leaver l;
	pthread_t thread;

	for (unsigned int i = 0; i < 8 * ARRAY_SIZE(endings); i++) {
		l.how = i % ARRAY_SIZE(endings);
		pair_create(&l.p, &ea, &eb, &o);
		l.p.conn.timeout = 14;
		l.p.conn.retry_cnt = 1;
		pair_connect(&l.p);
		for (unsigned int k = 0; k < LAST_SENDS; k++) {
			if (pair_recv(&l.p, 1, k, 0, 100))
				die("post_recv");
			wr[k] = send_wr(&l.p, &sge, k);
			wr[k].next = k + 1 < LAST_SENDS ? &wr[k + 1] : NULL;
		}
		if (pthread_create(&thread, NULL, leave, &l))
			die("pthread_create");
		/* it is there, and looks, on another processor */
		sleep_ms(5);
		if (ibv_post_send(l.p.qp[0], wr, &bad))
			die("post_send");
		wc_is(l.p.scq[0], 0, IBV_WC_SUCCESS, NULL, "its receiver %s", endings[l.how]);
		pthread_join(thread, NULL);
		pair_destroy(&l.p);
	}
}

static const struct test tests[] = {
	TEST(early),
	TEST(bind_behind),
	TEST(inv_behind),
	TEST(read_hole),
	TEST(send_hole),
	TEST(srq_domain),
	TEST(srq_gone),
	TEST(srq_short),
	TEST(uc_hole),
	TEST(begins_anew),
	TEST(key_gone),
	TEST(ud_longer),
	TEST(endless),
	TEST(late_read),
	TEST(all_psns),
	TEST(had_after_all),
	TEST(read_named),
	TEST(ack_far_back),
	TEST(way_gone),
	TEST(answers),
	TEST(little_room),
	TEST(little_room_write),
	TEST(read_denied),
	TEST(read_ended),
	TEST(rounded),
	TEST(priority),
	TEST(last_word),
	TEST(ud_nowhere),
	TEST(ud_denied),
	TEST(group_denied),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
