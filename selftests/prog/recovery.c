// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What one lost packet costs. The wire between the two hosts is relay.c; side 0 is
 * the requester.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common.h"
#include "relay.h"

static struct end ea, eb;

#define MTU 1024
#define LEN (64 * MTU)
#define SIG IBV_SEND_SIGNALED

/* --- what was counted -------------------------------------------------------------------- */

static const char * const names[] = {
	"retransmitted_pkts", "tail_probes", "go_backs", "packet_seq_err", "implied_nak_seq_err",
	"local_ack_timeout_err", "rx_kept", "sent_gap_reports",
};
enum { RETRANSMITTED, PROBES, GO_BACKS, SEQ_ERR, IMPLIED, TIMEOUTS, KEPT, REPORTS };

static long long before[2][ARRAY_SIZE(names)];

static void mark(void)
{
	counters_read(&ea, names, ARRAY_SIZE(names), before[0]);
	counters_read(&eb, names, ARRAY_SIZE(names), before[1]);
}

static long long since(unsigned int side, unsigned int i)
{
	return counter_of(side ? &eb : &ea, names[i]) - before[side][i];
}

/* Sent again other than by a probe, of which a slow machine may see some. */
static long long repaired(void)
{
	return since(0, RETRANSMITTED) - since(0, PROBES);
}

/* --- requests ------------------------------------------------------------------------------ */

static uint64_t next_key = 1;

static void up_as(struct pair *p, uint8_t timeout, uint8_t retry_cnt)
{
	pair_create(p, &ea, &eb, &(struct pair_opts) {
		.sq = 32, .rq = 32, .sge = 1, .buf = 4 * LEN,
		.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			  IBV_ACCESS_REMOTE_ATOMIC,
	});
	p->conn.mtu = IBV_MTU_1024;
	p->conn.timeout = timeout;
	p->conn.retry_cnt = retry_cnt;
	p->conn.rd_atomic = 8;
	p->conn.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	pair_connect(p);
	relay_clear();
}

/* A timeout is 17 s: who waits for one is seen. */
static void up(struct pair *p)
{
	up_as(p, 22, 7);
}

/* @at: in side 0's buffer, @there: in side 1's */
static void post_at(struct pair *p, enum ibv_wr_opcode opcode, size_t at, size_t there,
		    uint32_t len)
{
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.opcode = opcode,
		.send_flags = SIG,
		.num_sge = 1,
		.sg_list = SGE(p->buf[0] + at, len, p->mr[0]->lkey),
		.wr.rdma = {
			.remote_addr = (uintptr_t)p->buf[1] + there,
			.rkey = p->mr[1]->rkey,
		},
	};

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)p->buf[1] + there;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.rkey = p->mr[1]->rkey;
	}
	if (wr_post(p->qp[0], &wr))
		die("post_send");
}

static void post(struct pair *p, enum ibv_wr_opcode opcode, uint32_t len)
{
	post_at(p, opcode, 0, 0, len);
}

/* One request, its data checked; and next_psn moves on. */
static void done(struct pair *p, enum ibv_wr_opcode opcode, uint32_t len, const char *what)
{
	const bool read = opcode == IBV_WR_RDMA_READ;
	const uint64_t key = next_key++;

	pattern_fill(p->buf[read], key, 0, len);
	memset(p->buf[!read], 0, len);
	if (opcode == IBV_WR_SEND && pair_recv(p, 1, 9, 0, len))
		die("post_recv");
	post(p, opcode, len);
	wc_is(p->scq[0], 1, IBV_WC_SUCCESS, NULL, "%s", what);
	if (opcode == IBV_WR_SEND)
		wc_is(p->rcq[1], 9, IBV_WC_SUCCESS, NULL, "%s: is received", what);
	is(pattern_check(p->buf[!read], key, 0, len), -1, "%s: every byte", what);
	p->psn[0] += len > MTU ? len / MTU : 1;
}

/* So that a round trip is known */
static void warm_up(struct pair *p)
{
	for (int i = 0; i < 8; i++)
		done(p, IBV_WR_RDMA_WRITE, 100, "a small WRITE");
	relay_clear();
	mark();
}

static void quiet(void)
{
	is(since(0, TIMEOUTS), 0, "no timeout");
}

/* --- tests ----------------------------------------------------------------------------------- */

static void one(enum ibv_wr_opcode opcode, const char *what)
{
	struct pair p;

	up(&p);
	warm_up(&p);
	/* the second time, more is known of the peer */
	for (int i = 0; i < 2; i++) {
		mark();
		relay_drop(THERE, p.psn[0] + 10, 1);
		done(&p, opcode, LEN, what);
		is(repaired(), 1, "%s: one packet is sent again", what);
		is(since(0, SEQ_ERR), 1, "%s: by a NAK", what);
		is(since(0, GO_BACKS), 0, "%s: nothing behind it", what);
		between(since(1, KEPT), 1, 53, "kept meanwhile");
		quiet();
	}
	pair_destroy(&p);
}

static void one_write(void)
{
	one(IBV_WR_RDMA_WRITE, "a WRITE");
}

static void one_send(void)
{
	one(IBV_WR_SEND, "a SEND");
}

static void several(void)
{
	struct pair p;

	up(&p);
	warm_up(&p);
	relay_drop(THERE, p.psn[0] + 5, 1);
	relay_drop(THERE, p.psn[0] + 20, 1);
	relay_drop(THERE, p.psn[0] + 40, 1);
	relay_drop(THERE, p.psn[0] + 41, 1);
	done(&p, IBV_WR_RDMA_WRITE, LEN, "four packets of a WRITE are lost");
	/* a busy machine may take some of them for lost again */
	between(repaired(), 4, 16, "sent again");
	is(since(0, GO_BACKS), 0, "nothing else");
	quiet();
	pair_destroy(&p);
}

/* What is sent again is lost as well, more than once: nobody says so. */
static void again(void)
{
	struct pair p;

	up(&p);
	warm_up(&p);
	relay_drop(THERE, p.psn[0] + 10, 1);
	done(&p, IBV_WR_RDMA_WRITE, LEN, "a packet of a WRITE is lost");
	relay_clear();
	relay_drop(THERE, p.psn[0] + 10, 3);
	done(&p, IBV_WR_RDMA_WRITE, LEN, "and another three times");
	between(since(0, PROBES), 2, 20, "found by probes");
	is(since(0, GO_BACKS), 0, "nothing else is sent");
	quiet();
	pair_destroy(&p);
}

static void last(void)
{
	struct pair p;
	double t;

	up(&p);
	warm_up(&p);
	relay_drop(THERE, p.psn[0], 1);
	t = now();
	done(&p, IBV_WR_SEND, 100, "a lone SEND is lost");
	t = now() - t;
	ok(t < 5, "found in %.1f ms", t * 1e3);
	between(since(0, PROBES), 1, 8, "by probes");
	quiet();
	is(qp_query(p.qp[0]).retry_cnt, 7, "retry_cnt");

	relay_clear();
	mark();
	relay_drop(BACK, p.psn[0], 1);
	done(&p, IBV_WR_SEND, 100, "the acknowledgement is lost");
	between(since(0, PROBES), 1, 8, "by probes");
	quiet();
	ok(cq_quiet(p.rcq[1], 0.05), "it is received once");
	pair_destroy(&p);
}

/* With no retry to spend, probes are none. */
static void no_retry(void)
{
	struct pair p;

	up_as(&p, 22, 0);
	warm_up(&p);
	relay_drop(THERE, p.psn[0], 2);
	done(&p, IBV_WR_SEND, 100, "retry_cnt 0, a lone SEND is lost twice");
	between(since(0, PROBES), 2, 8, "by probes");
	quiet();
	pair_destroy(&p);
}

/* A probe may ask for all that is left, and for some of it in the message before. */
static void arrived(long long probes)
{
	const long long most = 64 + 64 * (hw_counter(&ea, "tail_probes") - probes);

	/* before those that are given again, whom it asks is told */
	between(relay_carried(BACK) - since(1, REPORTS), 64, most, "responses that arrived");
}

static void one_read(void)
{
	long long probes;
	long long implied = 0;
	struct pair p;

	up(&p);
	probes = hw_counter(&ea, "tail_probes");
	warm_up(&p);
	/* a slow machine's probe may be first, and mostly is not */
	for (int i = 0; i < 2 || (i < 8 && !implied); i++) {
		relay_clear();
		mark();
		relay_drop(BACK, p.psn[0] + 10, 1);
		done(&p, IBV_WR_RDMA_READ, LEN, "a response of a READ is lost");
		between(since(0, IMPLIED) + since(0, PROBES), 1, 1000, "seen by the next, or a probe");
		between(repaired(), 0, 1, "the request is sent again");
		arrived(probes);
		between(since(0, KEPT), 1, 53, "kept meanwhile");
		quiet();
		implied += since(0, IMPLIED);
	}
	ok(implied, "the next response tells, not a probe alone");
	relay_clear();
	mark();
	relay_drop(BACK, p.psn[0] + 63, 1);
	done(&p, IBV_WR_RDMA_READ, LEN, "the last response is lost");
	between(since(0, PROBES), 1, 1000, "probes");
	arrived(probes);
	quiet();

	relay_clear();
	mark();
	relay_drop(BACK, p.psn[0] + 3, 1);
	relay_drop(BACK, p.psn[0] + 30, 1);
	relay_drop(BACK, p.psn[0] + 31, 1);
	done(&p, IBV_WR_RDMA_READ, LEN, "three responses are lost");
	between(since(0, IMPLIED) + since(0, PROBES), 1, 1000, "seen");
	quiet();
	pair_destroy(&p);
}

static void one_atomic(void)
{
	uint64_t value;
	struct pair p;

	up(&p);
	warm_up(&p);
	memset(p.buf[1], 0, 8);
	relay_drop(BACK, p.psn[0] + 1, 2);
	for (uint64_t i = 0; i < 3; i++) {
		post(&p, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
		wc_is(p.scq[0], 1, IBV_WC_SUCCESS, NULL, "FETCH_ADD %d", (int)i);
		memcpy(&value, p.buf[0], 8);
		is(value, i, "its result");
	}
	memcpy(&value, p.buf[1], 8);
	is(value, 3, "each is done once");
	is(relay_dropped(), 2, "responses were lost");
	quiet();
	pair_destroy(&p);
}

/* What mixed() posts: where in both buffers, and the PSNs of it */
enum {
	READ_AT = 0,			/* 0 to 7 */
	ATOMIC_AT = 8 * MTU,		/* 8 */
	WRITE_AT = 16 * MTU,		/* 9 to 16 */
	READ_BACK_AT = 32 * MTU,	/* 17, in side 0's: the last of what was written */
	WRITE_END = WRITE_AT + 7 * MTU,
};

/*
 * Is there a packet of this PSN? Of a READ's there is one request, the first; and
 * a WRITE is acknowledged at its end.
 */
static bool on_wire(unsigned int way, unsigned int psn)
{
	return way == THERE ? !(psn >= 1 && psn <= 7) : !(psn >= 9 && psn <= 15);
}

/* Whether each byte is where it belongs, and what the ATOMIC did was done once */
static bool mixed_arrived(const struct pair *p, uint64_t key)
{
	uint64_t was, is_now;

	memcpy(&was, p->buf[0] + ATOMIC_AT, 8);
	memcpy(&is_now, p->buf[1] + ATOMIC_AT, 8);
	return pattern_check(p->buf[0] + READ_AT, key, 0, 8 * MTU) == -1 &&
	       was == key && is_now == key + 1 &&
	       pattern_check(p->buf[1] + WRITE_AT, key + 1, 0, 8 * MTU) == -1 &&
	       pattern_check(p->buf[0] + READ_BACK_AT, key + 1, 7 * MTU, MTU) == -1 &&
	       canary_check(p->buf[0] + ATOMIC_AT + 8, WRITE_AT - ATOMIC_AT - 8) == -1 &&
	       canary_check(p->buf[1] + ATOMIC_AT + 8, WRITE_AT - ATOMIC_AT - 8) == -1 &&
	       canary_check(p->buf[1] + WRITE_AT + 8 * MTU, MTU) == -1;
}

/* Several at a time, and what is missing is a READ's, a WRITE's or an ATOMIC's */
static void mixed_without(unsigned int way, unsigned int lost)
{
	const uint64_t key = next_key;
	unsigned int good = 0, dropped;
	struct ibv_wc wc;
	long long probes;
	struct pair p;

	next_key += 2;
	up(&p);
	probes = counter_of(&ea, "tail_probes");
	pattern_fill(p.buf[1] + READ_AT, key, 0, 8 * MTU);
	memcpy(p.buf[1] + ATOMIC_AT, &key, 8);
	pattern_fill(p.buf[0] + WRITE_AT, key + 1, 0, 8 * MTU);
	relay_drop(way, p.psn[0] + lost, 1);
	post_at(&p, IBV_WR_RDMA_READ, READ_AT, READ_AT, 8 * MTU);
	post_at(&p, IBV_WR_ATOMIC_FETCH_AND_ADD, ATOMIC_AT, ATOMIC_AT, 8);
	post_at(&p, IBV_WR_RDMA_WRITE, WRITE_AT, WRITE_AT, 8 * MTU);
	post_at(&p, IBV_WR_RDMA_READ, READ_BACK_AT, WRITE_END, MTU);
	while (good < 4 && cq_wait(p.scq[0], &wc, PATIENCE) && wc.status == IBV_WC_SUCCESS)
		good++;
	if (good == 4)
		ok(mixed_arrived(&p, key), "way %u, packet %u: every byte", way, lost);
	else
		is(good, 4, "way %u, packet %u: requests that succeed", way, lost);
	/* on a slow machine a probe asks for the rest of a READ, or is answered within a WRITE */
	dropped = relay_dropped();
	if (dropped && !on_wire(way, lost) && counter_of(&ea, "tail_probes") > probes)
		dropped = 0;
	is(dropped, on_wire(way, lost), "packets lost");
	pair_destroy(&p);
}

static void mixed(void)
{
	for (unsigned int way = THERE; way <= BACK; way++)
		for (unsigned int lost = 0; lost < 18; lost++)
			mixed_without(way, lost);
}

static void exhausted(void)
{
	struct ibv_wc wc;
	struct pair p;
	double t;

	/* 4.096 us * 2^16 = 268 ms */
	for (uint8_t retry = 0; retry < 3; retry++) {
		up_as(&p, 16, retry);
		warm_up(&p);
		relay_drop(THERE, ALL, 1000000);
		t = now();
		post(&p, IBV_WR_RDMA_WRITE, 100);
		wc_is(p.scq[0], 1, IBV_WC_RETRY_EXC_ERR, &wc, "retry_cnt %u", retry);
		t = now() - t;
		/* T, 2T, 4T */
		ok(t >= ((1 << (retry + 1)) - 1) * 0.268 * 0.95, "in %.0f ms", t * 1e3);
		is(since(0, TIMEOUTS), retry + 1, "timeouts");
		between(since(0, PROBES), 0, 8, "probes, and no more");
		pair_destroy(&p);
	}
}

/* With no ACK timeout, probes alone find out that a wire is back that was cut for longer than 8 of them. */
static void no_timeout(void)
{
	const uint64_t key = next_key++;
	double since_eighth;
	long long probes;
	struct pair p;

	up_as(&p, 0, 7);
	warm_up(&p);
	pattern_fill(p.buf[0], key, 0, LEN);
	memset(p.buf[1], 0, LEN);
	relay_drop(THERE, ALL, 1000000);
	post(&p, IBV_WR_RDMA_WRITE, LEN);
	wait_counter(&ea, "tail_probes", before[0][PROBES] + 7);
	since_eighth = now();
	ok(cq_quiet(p.scq[0], 1.5), "timeout 0: a WRITE waits while the wire is cut");
	probes = since(0, PROBES);
	/* the one that is about to be sent, and one a second */
	between(probes, 8, 10 + (long long)(now() - since_eighth), "probes until then");
	relay_clear();
	wc_is(p.scq[0], 1, IBV_WC_SUCCESS, NULL, "and ends when it is not");
	is(pattern_check(p.buf[1], key, 0, LEN), -1, "every byte");
	quiet();
	pair_destroy(&p);
}

/* A READ, and behind it a WRITE whose R_Key is wrong */
static void post_wrong_behind(struct pair *p, uint64_t key)
{
	struct ibv_sge sge[2];
	struct ibv_send_wr wr[2], *bad;

	pattern_fill(p->buf[1], key, 0, LEN);
	memset(p->buf[0], 0, LEN);
	for (int i = 0; i < 2; i++) {
		sge[i] = *SGE(p->buf[0] + i * LEN, LEN, p->mr[0]->lkey);
		wr[i] = (struct ibv_send_wr) {
			.wr_id = 1 + i,
			.next = i ? NULL : &wr[1],
			.opcode = i ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
			.send_flags = SIG,
			.num_sge = 1,
			.sg_list = &sge[i],
			.wr.rdma = { (uintptr_t)p->buf[1] + i * LEN, p->mr[1]->rkey ^ i },
		};
	}
	if (ibv_post_send(p->qp[0], wr, &bad))
		die("post_send");
}

/*
 * The NAK that names the WRITE overtakes the READ's last response: each ends as it has to. Where the
 * response is lost, a peer in that state answers no more, and the READ ends by its retries.
 */
static void wrong_behind(void)
{
	const uint64_t key = next_key++;
	struct pair p;

	up(&p);
	warm_up(&p);
	relay_late(BACK, p.psn[0] + LEN / MTU - 1, 1);
	post_wrong_behind(&p, key);
	wc_is(p.scq[0], 1, IBV_WC_SUCCESS, NULL, "a READ whose last response is overtaken by a NAK");
	is(pattern_check(p.buf[0], key, 0, LEN), -1, "every byte");
	wc_is(p.scq[0], 2, IBV_WC_REM_ACCESS_ERR, NULL, "the WRITE that it names");
	is(since(0, KEPT), 1, "the NAK was kept");
	pair_destroy(&p);

	up_as(&p, 14, 1);
	warm_up(&p);
	relay_drop(BACK, p.psn[0] + LEN / MTU - 1, 1000000);
	post_wrong_behind(&p, key);
	wc_is(p.scq[0], 1, IBV_WC_RETRY_EXC_ERR, NULL, "a READ whose last response is lost");
	wc_is(p.scq[0], 2, IBV_WC_WR_FLUSH_ERR, NULL, "and a WRITE whose R_Key is wrong");
	pair_destroy(&p);
}

static void not_ready(void)
{
	const uint64_t key = next_key++;
	struct pair p;

	up(&p);
	warm_up(&p);
	pair_destroy(&p);
	up_as(&p, 22, 7);
	pattern_fill(p.buf[0], key, 0, LEN + 100);
	relay_drop(THERE, p.psn[0] + 10, 1);
	/* the second has no receive: with the first's gap filled it is kept, and refused */
	if (pair_recv(&p, 1, 9, 0, LEN) || pair_send(&p, 0, 1, 0, LEN, SIG) ||
	    pair_send(&p, 0, 2, LEN, 100, SIG))
		die("post");
	wc_is(p.scq[0], 1, IBV_WC_SUCCESS, NULL, "the first SEND");
	wc_is(p.rcq[1], 9, IBV_WC_SUCCESS, NULL, "its receive");
	sleep_ms(20);
	if (pair_recv(&p, 1, 10, LEN, 100))
		die("post_recv");
	wc_is(p.scq[0], 2, IBV_WC_SUCCESS, NULL, "the second, whose receive was late");
	wc_is(p.rcq[1], 10, IBV_WC_SUCCESS, NULL, "its receive");
	is(pattern_check(p.buf[1], key, 0, LEN + 100), -1, "every byte of both");
	is(canary_check(p.buf[1] + LEN + 100, LEN), -1, "and none behind");
	is(relay_dropped(), 1, "packets lost");
	pair_destroy(&p);
}

/* A peer that goes by IBTA's word gets all again, and soon at once. */
static void drops(void)
{
	struct pair p;

	up(&p);
	warm_up(&p);
	for (int i = 0; i < 4; i++) {
		relay_clear();
		relay_drop(THERE, p.psn[0] + 10, 1);
		done(&p, IBV_WR_RDMA_WRITE, LEN, "a WRITE to one that keeps nothing");
	}
	between(since(0, GO_BACKS), 4, 12, "times all was sent again");
	relay_drop(BACK, p.psn[0] + 10, 1);
	done(&p, IBV_WR_RDMA_READ, LEN, "a READ of one that keeps nothing");
	quiet();
	pair_destroy(&p);
}

/* What comes again names another queue than the message that has a packet missing. */
static void xrc(void)
{
	struct ibv_srq_attr attr = { .max_wr = 4, .max_sge = 1 };
	struct ibv_xrcd *xrcd = xrcd_make(&eb);
	struct ibv_cq *cq = cq_make(&eb, 16);
	struct ibv_qp *ini, *tgt;
	struct ibv_srq *srq[2];
	uint32_t num[2];
	struct pair p;

	if (!ok(xrcd, "an XRC domain"))
		return;
	up(&p);
	for (int i = 0; i < 2; i++) {
		srq[i] = xrc_srq_make(&eb, xrcd, cq, &attr);
		if (ibv_get_srq_num(srq[i], &num[i]))
			die("get_srq_num");
	}
	ini = xrc_ini_make(&ea, p.scq[0], 4);
	tgt = xrc_tgt_make(&eb, xrcd);
	qps_connect(ini, &ea, 500, tgt, &eb, 500, &p.conn);
	if (ibv_post_srq_recv(srq[1], &(struct ibv_recv_wr) {
			.wr_id = 3, .num_sge = 1,
			.sg_list = SGE(p.buf[1] + LEN, 3 * MTU, p.mr[1]->lkey),
		}, &(struct ibv_recv_wr *) { NULL }))
		die("post_srq_recv");
	pattern_fill(p.buf[1], 5, 0, 100);
	pattern_fill(p.buf[0] + LEN, 6, 0, 3 * MTU);
	relay_drop(BACK, 500, 1);
	relay_drop(THERE, 502, 1);
	if (POST(ini, .wr_id = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = SIG, .num_sge = 1,
		 .sg_list = SGE(p.buf[0], 100, p.mr[0]->lkey), .qp_type.xrc.remote_srqn = num[0],
		 .wr.rdma = { .remote_addr = (uintptr_t)p.buf[1], .rkey = p.mr[1]->rkey }) ||
	    POST(ini, .wr_id = 2, .opcode = IBV_WR_SEND, .send_flags = SIG, .num_sge = 1,
		 .sg_list = SGE(p.buf[0] + LEN, 3 * MTU, p.mr[0]->lkey),
		 .qp_type.xrc.remote_srqn = num[1]))
		die("post_send");
	wc_is(p.scq[0], 1, IBV_WC_SUCCESS, NULL, "a READ for one queue, whose response is lost");
	wc_is(p.scq[0], 2, IBV_WC_SUCCESS, NULL, "a SEND for another, of which a packet is");
	wc_is(cq, 3, IBV_WC_SUCCESS, NULL, "it is received");
	is(relay_dropped(), 2, "both were lost");
	is(pattern_check(p.buf[0], 5, 0, 100), -1, "every byte of the READ");
	is(pattern_check(p.buf[1] + LEN, 6, 0, 3 * MTU), -1, "and of the SEND");
	if (ibv_destroy_qp(ini) || ibv_destroy_qp(tgt) || ibv_destroy_srq(srq[0]) ||
	    ibv_destroy_srq(srq[1]) || ibv_destroy_cq(cq) || ibv_close_xrcd(xrcd))
		die("destroy");
	pair_destroy(&p);
}

static const struct test tests[] = {
	TEST(one_write),
	TEST(one_send),
	TEST(several),
	TEST(again),
	TEST(last),
	TEST(no_retry),
	TEST(one_read),
	TEST(one_atomic),
	TEST(mixed),
	TEST(xrc),
	TEST(exhausted),
	TEST(no_timeout),
	TEST(wrong_behind),
	TEST(not_ready),
	TEST(drops),
};

int main(int argc, char **argv)
{
	relay_up();
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
