// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The rate of a send queue (ibv_modify_qp_rate_limit()): it is kept, by requests alone, and can
 * be changed while they wait for it.
 *
 * A machine may be slow: what is measured is never more than that it took too little time.
 */
#include <errno.h>
#include <string.h>

#include "common.h"

static struct end ea, eb;

#define SIG IBV_SEND_SIGNALED
#define QKEY 0x1234
#define KBPS 8000U		/* 1 MB a second */
#define SLOWEST 1U		/* a packet takes seconds */
#define TOTAL 500000U
#define LEN 50000U
#define FRAME 1000U
#define BACK (2 * LEN)

static int limit(struct ibv_qp *qp, uint32_t kbps, uint32_t burst)
{
	struct ibv_qp_rate_limit_attr attr = {
		.rate_limit = kbps,
		.max_burst_sz = burst,
		.typical_pkt_sz = 1024,
	};

	return ibv_modify_qp_rate_limit(qp, &attr);
}

static void up(struct pair *p, enum ibv_qp_type type)
{
	pair_create(p, &ea, &eb, &(struct pair_opts) {
		.sq = 64, .rq = 64, .sge = 1, .buf = TOTAL, .type = type,
		.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	});
	p->conn.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	p->conn.mtu = IBV_MTU_1024;
	p->conn.rd_atomic = 1;
	pair_connect(p);
}

static void caps(void)
{
	struct ibv_packet_pacing_caps *pace;
	struct ibv_device_attr_ex attr;

	if (ibv_query_device_ex(ea.ctx, NULL, &attr))
		die("query_device_ex");
	pace = &attr.packet_pacing_caps;
	is(pace->qp_rate_limit_min, 1, "the least rate, in kb/s");
	is(pace->qp_rate_limit_max, UINT32_MAX, "and the most");
	is(pace->supported_qpts,
	   1 << IBV_QPT_RC | 1 << IBV_QPT_UC | 1 << IBV_QPT_UD | 1 << IBV_QPT_XRC_SEND |
	   (attr.raw_packet_caps ? 1 << IBV_QPT_RAW_PACKET : 0), "of all that send");
}

/* Nothing is sent before RTS, and a target of XRC never sends. */
static void refused(void)
{
	struct ibv_xrcd *xrcd = xrcd_make(&ea);
	struct ibv_qp_rate_limit_attr attr = { .rate_limit = 1, .comp_mask = 1 };
	struct ibv_qp_attr qa = { .rate_limit = KBPS };
	struct ibv_qp *tgt;
	struct peer peer;
	struct pair p;

	pair_create(&p, &ea, &eb, NULL);
	peer = (struct peer) { .qpn = p.qp[1]->qp_num, .psn = p.psn[1], .gid = eb.gid };
	is(limit(p.qp[0], KBPS, 0), EINVAL, "in RESET");
	if (qp_init(p.qp[0], &p.conn))
		die("to INIT");
	is(limit(p.qp[0], KBPS, 0), EINVAL, "in INIT");
	if (qp_rtr(p.qp[0], &ea, &peer, &p.conn))
		die("to RTR");
	is(limit(p.qp[0], KBPS, 0), EINVAL, "in RTR");
	if (qp_rts(p.qp[0], p.psn[0], &p.conn))
		die("to RTS");
	is(limit(p.qp[0], KBPS, 0), 0, "but in RTS it is taken");
	is(ibv_modify_qp(p.qp[0], &qa, IBV_QP_RATE_LIMIT), 0, "and as an attribute");
	is(ibv_modify_qp_rate_limit(p.qp[0], &attr), EOPNOTSUPP, "refused: what nobody knows");
	if (qp_to(p.qp[0], IBV_QPS_ERR))
		die("to ERR");
	is(limit(p.qp[0], KBPS, 0), EINVAL, "in ERR");
	pair_destroy(&p);

	if (!xrcd)
		return skip("no XRC", "a target");
	tgt = xrc_tgt_make(&ea, xrcd);
	peer.qpn = 1;
	qp_connect(tgt, &ea, 1, &peer, &conn_default);
	is(limit(tgt, KBPS, 0), EINVAL, "of a target");
	if (ibv_destroy_qp(tgt) || ibv_close_xrcd(xrcd))
		die("destroy");
}

/* @bytes had a second for a million; the last packets leave, and their time comes after them. */
static void took(double seconds, unsigned int bytes, const char *what)
{
	const double least = bytes / (KBPS * 125.0) * 0.95;

	ok(seconds >= least, "%s: %u bytes took no less than %.2f s (%.3f)", what, bytes, least, seconds);
	ok(seconds < PATIENCE, "and ended");
}

static void paced_by(enum ibv_qp_type type, enum ibv_wr_opcode op, const char *what)
{
	unsigned int i;
	struct pair p;
	double begin;

	up(&p, type);
	is(limit(p.qp[0], KBPS, 0), 0, "%s: has a rate", what);
	pattern_fill(p.buf[0], type + op, 0, TOTAL);
	for (i = 0; op == IBV_WR_SEND && i < TOTAL / LEN; i++)
		if (pair_recv(&p, 1, i, (size_t)i * LEN, LEN))
			die("post_recv");
	begin = now();
	for (i = 0; i < TOTAL / LEN; i++)
		if (POST(p.qp[0], .wr_id = i, .opcode = op, .num_sge = 1, .send_flags = SIG,
			 .sg_list = SGE(p.buf[0] + i * LEN, LEN, p.mr[0]->lkey),
			 .wr.rdma = { .remote_addr = (uintptr_t)p.buf[1] + i * LEN,
				      .rkey = p.mr[1]->rkey }))
			die("post_send");
	for (i = 0; i < TOTAL / LEN; i++)
		wc_is(p.scq[0], i, IBV_WC_SUCCESS, NULL, "%s: message %u is sent", what, i);
	took(now() - begin, TOTAL, what);
	for (i = 0; op == IBV_WR_SEND && i < TOTAL / LEN; i++)
		wc_is(p.rcq[1], i, IBV_WC_SUCCESS, NULL, "and received");
	/* of an unreliable WRITE nobody hears: what came last is waited for */
	for (begin = now(); now() - begin < PATIENCE && pattern_check(p.buf[1], type + op, 0, TOTAL) >= 0;)
		sleep_ms(10);
	is(pattern_check(p.buf[1], type + op, 0, TOTAL), -1, "its bytes");
	pair_destroy(&p);
}

static void paced(void)
{
	paced_by(IBV_QPT_RC, IBV_WR_RDMA_WRITE, "RC, WRITE");
	paced_by(IBV_QPT_RC, IBV_WR_SEND, "RC, SEND");
	paced_by(IBV_QPT_UC, IBV_WR_RDMA_WRITE, "UC, WRITE");
}

static void datagrams(void)
{
	unsigned int i, sent = 0;
	struct ibv_ah *ah;
	struct ud a, b;
	double begin;

	ud_up(&a, &ea, QKEY, false);
	ud_up(&b, &eb, QKEY, false);
	ah = ah_to(&ea, &eb.gid);
	is(limit(a.qp, KBPS, 0), 0, "UD: has a rate");
	for (i = 0; i < 32; i++)
		ud_recv(&b, i, GRH + FRAME);
	begin = now();
	for (i = 0; i < TOTAL / FRAME; i++) {
		struct ibv_wc wc;

		if (i >= 32 && cq_wait(a.scq, &wc, PATIENCE))
			sent += wc.status == IBV_WC_SUCCESS;
		if (ud_send(&a, false, ah, b.qp->qp_num, QKEY, i,
			    SGE(a.buf, FRAME, a.mr->lkey), 1, 0, 0))
			die("post_send");
	}
	for (i = 0; i < 32; i++) {
		struct ibv_wc wc;

		if (cq_wait(a.scq, &wc, PATIENCE))
			sent += wc.status == IBV_WC_SUCCESS;
	}
	took(now() - begin, TOTAL, "UD");
	is(sent, TOTAL / FRAME, "all were sent");
	for (i = 0; i < 32; i++)
		wc_is(b.rcq, i, IBV_WC_SUCCESS, NULL, "datagram %u", i);
	ibv_destroy_ah(ah);
	ud_down(&a);
	ud_down(&b);
}

static void frames(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .rate_limit = KBPS };
	struct ibv_mr *mr = mr_make(&ea, FRAME, 0);
	struct ibv_cq *cq = cq_make(&ea, 64);
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 32, .max_send_sge = 1 },
		.qp_type = IBV_QPT_RAW_PACKET,
		.sq_sig_all = 1,
	};
	unsigned int i, sent = 0;
	struct ibv_qp *qp;
	struct ibv_wc wc;
	uint8_t *frame;
	double begin;

	qp = ibv_create_qp(ea.pd, &init);
	if (!qp) {
		skip(strerror(errno), "raw packets");
		goto out;
	}
	/* to everybody, of an EtherType that is for experiments (IEEE Std 802) */
	frame = mr->addr;
	memset(frame, 0xff, 6);
	frame[6] = 2;
	frame[12] = 0x88;
	frame[13] = 0xb5;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT))
		die("to INIT");
	attr.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE))
		die("to RTR");
	attr.qp_state = IBV_QPS_RTS;
	is(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_RATE_LIMIT), 0, "frames: a rate, with RTS");
	begin = now();
	for (i = 0; i < TOTAL / FRAME + 32; i++) {
		if (i >= 32 && cq_wait(cq, &wc, PATIENCE))
			sent += wc.status == IBV_WC_SUCCESS;
		if (i < TOTAL / FRAME && POST(qp, .opcode = IBV_WR_SEND, .num_sge = 1,
					      .sg_list = SGE(frame, FRAME, mr->lkey)))
			die("post_send");
	}
	took(now() - begin, TOTAL, "frames");
	is(sent, TOTAL / FRAME, "all were sent");
	if (ibv_destroy_qp(qp))
		die("destroy_qp");
out:
	ibv_destroy_cq(cq);
	mr_drop(mr);
}

/* Of what waits for hours, with @burst bytes at once, @first packets leave. */
static void stuck(struct pair *p, uint32_t burst, unsigned int first)
{
	const long long before = hw_counter(&ea, "tx_pkts");

	is(limit(p->qp[0], SLOWEST, burst), 0, "the slowest rate, %u bytes at once", burst);
	pattern_fill(p->buf[0], first, 0, LEN);
	memset(p->buf[1], 0, LEN);
	pair_request(p, IBV_WR_RDMA_WRITE, LEN);
	wait_counter(&ea, "tx_pkts", before + first - 1);
	ok(cq_quiet(p->scq[0], 0.5), "it is not done");
	is(hw_counter(&ea, "tx_pkts") - before, first, "packets that have left");
}

static void done(struct pair *p, uint64_t key, const char *how)
{
	wc_is(p->scq[0], 1, IBV_WC_SUCCESS, NULL, "%s, it is done", how);
	is(pattern_check(p->buf[1], key, 0, LEN), -1, "and its bytes are there");
}

/* Who waits by one rate goes on by the next. */
static void changed(void)
{
	struct pair p;
	double begin;

	up(&p, IBV_QPT_RC);
	stuck(&p, 0, 2);
	begin = now();
	is(limit(p.qp[0], 0, 0), 0, "without one");
	done(&p, 2, "at once");
	/* by the rate that it had, the next packet was for 17 seconds after the first two */
	ok(now() - begin < 10, "and not when its time had come");
	stuck(&p, 1, 1);
	begin = now();
	is(limit(p.qp[0], KBPS, 0), 0, "with a faster one");
	done(&p, 1, "faster");
	ok(now() - begin < 6, "and not 8 seconds later");
	pair_destroy(&p);
}

/* Who sets it again and again has no more of it. */
static void again(void)
{
	long long before;
	struct pair p;

	up(&p, IBV_QPT_RC);
	before = hw_counter(&ea, "tx_pkts");
	stuck(&p, 0, 2);
	for (unsigned int i = 0; i < 100; i++)
		if (limit(p.qp[0], SLOWEST + i % 2, 0))
			die("modify_qp_rate_limit");
	sleep_ms(100);
	is(hw_counter(&ea, "tx_pkts") - before, 2, "packets that have left, of a rate set 100 times");
	is(limit(p.qp[0], 0, 0), 0, "without one");
	done(&p, 2, "at once");
	pair_destroy(&p);
}

/* As all that a queue pair had: it is gone in RESET. */
static void reset(void)
{
	struct pair p;

	up(&p, IBV_QPT_RC);
	stuck(&p, 0, 2);
	if (qp_to(p.qp[0], IBV_QPS_RESET) || qp_to(p.qp[1], IBV_QPS_RESET))
		die("to RESET");
	pair_connect(&p);
	pattern_fill(p.buf[0], 7, 0, LEN);
	pair_request(&p, IBV_WR_RDMA_WRITE, LEN);
	done(&p, 7, "after RESET");
	pair_destroy(&p);
}

/* What waits ends as anything does. */
static void flushed(void)
{
	struct pair p;

	up(&p, IBV_QPT_RC);
	stuck(&p, 0, 2);
	if (qp_to(p.qp[0], IBV_QPS_ERR))
		die("to ERR");
	wc_is(p.scq[0], 1, IBV_WC_WR_FLUSH_ERR, NULL, "in ERR, it is flushed");
	pair_destroy(&p);
}

static void write_back(struct pair *p, uint32_t len)
{
	if (POST(p->qp[1], .wr_id = 5, .opcode = IBV_WR_RDMA_WRITE, .num_sge = 1, .send_flags = SIG,
		 .sg_list = SGE(p->buf[1] + BACK, len, p->mr[1]->lkey),
		 .wr.rdma = { .remote_addr = (uintptr_t)p->buf[0] + BACK, .rkey = p->mr[0]->rkey }))
		die("post_send");
}

/* A rate is of what a program asks for, and not of what it is asked for. */
static void answers(void)
{
	const unsigned int first = 2 * 1024;
	struct pair p;
	double begin;

	up(&p, IBV_QPT_RC);
	is(limit(p.qp[1], SLOWEST, 0), 0, "the responder, as a requester, is slow");
	pattern_fill(p.buf[1], 3, 0, LEN);
	pair_request(&p, IBV_WR_RDMA_READ, LEN);
	wc_is(p.scq[0], 1, IBV_WC_SUCCESS, NULL, "it is read from all the same");
	is(pattern_check(p.buf[0], 3, 0, LEN), -1, "and its bytes are there");
	pattern_fill(p.buf[0], 4, 0, LEN);
	pair_request(&p, IBV_WR_RDMA_WRITE, LEN);
	done(&p, 4, "and written to");

	memset(p.buf[0] + BACK, 0, LEN);
	memset(p.buf[1] + BACK, 0x77, LEN);
	write_back(&p, 8);
	wc_is(p.scq[1], 5, IBV_WC_SUCCESS, NULL, "what it has answered is not on its account");

	/* its next packets are seconds away by now, of which an answer knows nothing */
	write_back(&p, LEN);
	for (begin = now(); now() - begin < PATIENCE && !all_are(p.buf[0] + BACK, 0x77, first);)
		sleep_ms(10);
	ok(all_are(p.buf[0] + BACK, 0x77, first), "it has sent the first two packets");
	pattern_fill(p.buf[1], 6, 0, LEN);
	pair_request(&p, IBV_WR_RDMA_READ, LEN);
	wc_is(p.scq[0], 1, IBV_WC_SUCCESS, NULL, "and can be read from before the next");
	ok(all_are(p.buf[0] + BACK + first, 0, LEN - first), "which it has not sent");
	is(pattern_check(p.buf[0], 6, 0, LEN), -1, "and the bytes are there");
	pair_destroy(&p);
}

/*
 * What is held back by the rate alone is not late: two packets last longer than all retries of an
 * acknowledgement that does not come.
 */
static void not_ready(void)
{
	enum { TIMEOUT = 12, SLOW = 20, SHORT = 6 * 1024 };
	long long timeouts;
	struct pair p;

	pair_create(&p, &ea, &eb, &(struct pair_opts) { .sq = 4, .rq = 4, .sge = 1, .buf = SHORT });
	p.conn.mtu = IBV_MTU_1024;
	p.conn.timeout = TIMEOUT;
	p.conn.rnr_retry = 7;
	p.conn.min_rnr_timer = 1;
	pair_connect(&p);
	is(limit(p.qp[0], SLOW, 0), 0, "a slow rate");
	timeouts = hw_counter(&ea, "local_ack_timeout_err");
	pattern_fill(p.buf[0], 8, 0, SHORT);
	if (pair_send(&p, 0, 1, 0, SHORT, SIG))
		die("post_send");
	ok(cq_quiet(p.scq[0], 1), "nobody is ready to receive");
	if (pair_recv(&p, 1, 2, 0, SHORT))
		die("post_recv");
	wc_is(p.scq[0], 1, IBV_WC_SUCCESS, NULL, "a message that was not taken at first is sent");
	wc_is(p.rcq[1], 2, IBV_WC_SUCCESS, NULL, "and received");
	is(pattern_check(p.buf[1], 8, 0, SHORT), -1, "its bytes");
	diag("acknowledgements that were missed: %lld", hw_counter(&ea, "local_ack_timeout_err") - timeouts);
	pair_destroy(&p);
}

static const struct test tests[] = {
	TEST(caps),
	TEST(refused),
	TEST(paced),
	TEST(datagrams),
	TEST(frames),
	TEST(changed),
	TEST(again),
	TEST(reset),
	TEST(flushed),
	TEST(answers),
	TEST(not_ready),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
