// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What the device tells of itself: its counters, those that a queue pair is
 * bound to, and what "rdma resource show" has of its objects, are what happened.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

static struct end ea, eb;

#define SIG IBV_SEND_SIGNALED

static void up(struct pair *p, const struct pair_opts *po)
{
	pair_create(p, &ea, &eb, po);
	p->conn.access |= IBV_ACCESS_REMOTE_ATOMIC;
	p->conn.rd_atomic = 4;
	p->conn.min_rnr_timer = 16;	/* 2.6 ms */
	p->conn.timeout = 18;		/* 1 s */
	pair_connect(p);
}

/* What a busy machine answers late is asked for by a probe, and counts again. */
static const char * const again[] = { "retransmitted_pkts", "tail_probes" };

static void sent_again(long long *to)
{
	counters_read(&ea, again, ARRAY_SIZE(again), to);
}

/* Was each packet sent once, since then? */
static bool each_once(const long long *since)
{
	long long v[ARRAY_SIZE(again)];

	sent_again(v);
	return !memcmp(v, since, sizeof(v));
}

/* Exactly what there was to count, if all of it was sent once */
static void counted(long long got, long long want, bool once, const char *what)
{
	if (once)
		is(got, want, "%s", what);
	else
		ok(got >= want, "%s, some twice: %lld", what, got);
}

/* @n messages of @len, one after the other */
static void sends(struct pair *p, unsigned int n, uint32_t len)
{
	struct ibv_wc wc;

	while (n--)
		if (pair_recv(p, 1, 1, 0, len) || pair_send(p, 0, 2, 0, len, SIG) ||
		    !cq_wait(p->scq[0], &wc, PATIENCE) || wc.status ||
		    !cq_wait(p->rcq[1], &wc, PATIENCE) || wc.status)
			die("a message of %u bytes", len);
}

static void remote(struct pair *p, enum ibv_wr_opcode op, unsigned int n, uint32_t len)
{
	struct ibv_send_wr wr = {
		.opcode = op, .send_flags = SIG, .num_sge = 1,
		.sg_list = SGE(p->buf[0], len, p->mr[0]->lkey),
	};
	struct ibv_wc wc;

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)p->buf[1];
		wr.wr.atomic.rkey = p->mr[1]->rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)p->buf[1];
		wr.wr.rdma.rkey = p->mr[1]->rkey;
	}
	while (n--)
		if (wr_post(p->qp[0], &wr) || !cq_wait(p->scq[0], &wc, PATIENCE) || wc.status)
			die("opcode %d", op);
}

/* Each by as many as there were */
static void counters(void)
{
	static const struct {
		const char *name;
		bool receiver;
		long long want;
		bool never;	/* nor where something was sent again */
	} cases[] = {
		/* 7 SENDs, 5 WRITEs, 3 READs, 2 ATOMICs, a SEND of three packets */
		{ "tx_pkts", false, 7 + 5 + 3 + 2 + 3, false },
		{ "rx_pkts", true, 7 + 5 + 3 + 2 + 3, false },
		{ "tx_bytes", false, 7 * 100 + 5 * 200 + 3000, false },
		{ "rx_bytes", true, 7 * 100 + 5 * 200 + 3000, false },
		{ "rx_write_requests", true, 5, false },
		{ "rx_read_requests", true, 3, false },
		{ "rx_atomic_requests", true, 2, false },
		/* a READ of 2500 bytes has three packets; and one for each ATOMIC */
		{ "rcvd_response", false, 3 * 3 + 2, false },
		{ "tx_bytes", true, 3 * 2500, false },
		{ "rx_bytes", false, 3 * 2500, false },
		{ "retransmitted_pkts", false, 0, false },
		{ "local_ack_timeout_err", false, 0, false },
		{ "out_of_sequence", true, 0, false },
		{ "duplicate_request", true, 0, false },
		{ "sent_err_nak", true, 0, true },
		{ "sent_rnr_nak", true, 0, true },
		{ "rx_no_qp", true, 0, true },
		{ "cq_overflows", true, 0, true },
	};
	static const struct pair_opts po = {
		.sq = 16, .rq = 16, .sge = 1, .buf = 4096,
		.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};
	long long before[ARRAY_SIZE(cases)], extra[ARRAY_SIZE(again)], acks, sent, rnr, rnr_rcvd;
	struct ibv_wc wc;
	struct pair p;
	unsigned int i;
	char what[64];
	bool once;

	up(&p, &po);
	for (i = 0; i < ARRAY_SIZE(cases); i++)
		before[i] = hw_counter(cases[i].receiver ? &eb : &ea, cases[i].name);
	acks = hw_counter(&ea, "rcvd_ack");
	sent = hw_counter(&eb, "sent_ack");
	sent_again(extra);
	sends(&p, 7, 100);
	remote(&p, IBV_WR_RDMA_WRITE, 5, 200);
	remote(&p, IBV_WR_RDMA_READ, 3, 2500);
	remote(&p, IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 8);
	sends(&p, 1, 3000);
	once = each_once(extra);
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		snprintf(what, sizeof(what), "%s of the %s", cases[i].name,
			 cases[i].receiver ? "receiver" : "sender");
		counted(hw_counter(cases[i].receiver ? &eb : &ea, cases[i].name) - before[i],
			cases[i].want, once || cases[i].never, what);
	}
	acks = hw_counter(&ea, "rcvd_ack") - acks;
	ok(acks >= 8 && (acks <= 7 + 5 + 3 || !once),
	   "rcvd_ack: one for a SEND or a WRITE, or more (%lld)", acks);
	is(hw_counter(&eb, "sent_ack") - sent, acks, "sent_ack, as many");

	rnr = hw_counter(&eb, "sent_rnr_nak");
	rnr_rcvd = hw_counter(&ea, "rnr_nak_retry_err");
	if (pair_send(&p, 0, 3, 0, 10, SIG))
		die("post_send");
	ok(cq_quiet(p.scq[0], 0.05), "a SEND without a receive waits");
	if (pair_recv(&p, 1, 4, 0, 10))
		die("post_recv");
	wc_is(p.scq[0], 3, IBV_WC_SUCCESS, &wc, "until there is one");
	rnr = hw_counter(&eb, "sent_rnr_nak") - rnr;
	ok(rnr > 0, "sent_rnr_nak (%lld)", rnr);
	is(hw_counter(&ea, "rnr_nak_retry_err") - rnr_rcvd, rnr, "rnr_nak_retry_err, as many");
	pair_destroy(&p);
}

static void shows(const char *what, const char *cmd, const char *which, const char *name,
		  long long want)
{
	char full[64];

	snprintf(full, sizeof(full), "drv_%s", name);
	is(output_number(cmd, which, full), want, "%s: %s", what, name);
}

static void resources(void)
{
	static const int access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 32, .max_sge = 1 } };
	struct ibv_srq_attr limit = { .srq_limit = 3 };
	struct pair_opts po = { .sq = 100, .rq = 20, .sge = 1, .buf = 4096, .access = access };
	char cmd[2][128], mine[64];
	struct pair p;
	uint32_t next;
	long long rtt;
	int i;

	po.srq = ibv_create_srq(eb.pd, &sa);
	if (!po.srq)
		die("create_srq");
	errno = ibv_modify_srq(po.srq, &limit, IBV_SRQ_LIMIT);
	if (errno)
		die("modify_srq");
	up(&p, &po);
	for (i = 0; i < 5; i++)
		if (pair_recv(&p, 1, i, 0, 100))
			die("post_srq_recv");
	sends(&p, 7, 100);
	next = (p.psn[0] + 7) & 0xffffff;
	is(qp_query(p.qp[0]).sq_psn, next, "ibv_query_qp: sq_psn of who has sent 7 packets");
	is(qp_query(p.qp[0]).rq_psn, p.psn[1], "rq_psn, as set");
	is(qp_query(p.qp[1]).rq_psn, next, "rq_psn of who has received them");
	is(qp_query(p.qp[1]).sq_psn, p.psn[1], "sq_psn, as set");

	for (i = 0; i < 2; i++)
		snprintf(cmd[i], sizeof(cmd[i]), "rdma -dd resource show qp link %s/1 lqpn %u",
			 p.e[i]->name, p.qp[i]->qp_num);
	shows("sender", cmd[0], " RTS ", "sq_una", 7);
	shows("sender", cmd[0], " RTS ", "sq_nxt", 7);
	shows("sender", cmd[0], " RTS ", "sq_fetched", 7);
	shows("sender", cmd[0], " RTS ", "sq_psn_una", next);
	shows("sender", cmd[0], " RTS ", "sq_psn_nxt", next);
	shows("sender", cmd[0], " RTS ", "sq_psn_end", next);
	is(output_number(cmd[0], " RTS ", "sq-psn"), next, "sender: sq-psn");
	is(output_number(cmd[1], " RTS ", "rq-psn"), next, "receiver: rq-psn");
	shows("sender", cmd[0], " RTS ", "sq_retry_left", p.conn.retry_cnt);
	/* 256 KB until a round trip was measured in which that was too little */
	shows("sender", cmd[0], " RTS ", "sq_cwnd", 262144 / mtu_bytes(p.conn.mtu));
	rtt = output_number(cmd[0], " RTS ", "drv_sq_srtt_us");
	ok(rtt > 0 && rtt < PATIENCE * 1000000, "sender: sq_srtt_us, as it was measured (%lld)", rtt);
	shows("receiver", cmd[1], " RTS ", "sq_srtt_us", 0);
	shows("sender", cmd[0], " RTS ", "mtu", mtu_bytes(p.conn.mtu));
	shows("sender", cmd[0], " RTS ", "rate_limit", 0);
	errno = ibv_modify_qp_rate_limit(p.qp[0], &(struct ibv_qp_rate_limit_attr) { .rate_limit = 123456 });
	if (errno)
		die("modify_qp_rate_limit: %s", strerror(errno));
	shows("sender", cmd[0], " RTS ", "rate_limit", 123456);
	shows("receiver", cmd[1], " RTS ", "rq_epsn", next);
	shows("receiver", cmd[1], " RTS ", "rq_msn", 7);
	shows("receiver", cmd[1], " RTS ", "sq_nxt", 0);

	snprintf(cmd[0], sizeof(cmd[0]), "rdma -dd resource show cq dev %s", ea.name);
	snprintf(mine, sizeof(mine), " cqe %d ", p.scq[0]->cqe);
	shows("send CQ", cmd[0], mine, "prod", 7);
	shows("send CQ", cmd[0], mine, "cons", 7);
	shows("send CQ", cmd[0], mine, "arm", 0);
	errno = ibv_req_notify_cq(p.scq[0], 0);
	if (errno)
		die("req_notify_cq");
	shows("send CQ, armed", cmd[0], mine, "arm", 1);
	shows("send CQ", cmd[0], mine, "overflown", 0);

	snprintf(cmd[0], sizeof(cmd[0]), "rdma -dd resource show mr dev %s", eb.name);
	snprintf(mine, sizeof(mine), " lkey 0x%x ", p.mr[1]->lkey);
	shows("region", cmd[0], mine, "access", IBV_ACCESS_LOCAL_WRITE | access);
	shows("region", cmd[0], mine, "odp", 0);
	shows("region", cmd[0], mine, "dmabuf", 0);
	shows("region", cmd[0], mine, "windows", 0);

	snprintf(cmd[0], sizeof(cmd[0]), "rdma -dd resource show srq dev %s", eb.name);
	snprintf(mine, sizeof(mine), " pid %d ", getpid());
	/* drivers are asked from Linux 6.7 on */
	if (output_number(cmd[0], mine, "drv_prod") < 0) {
		skip("not in this kernel", "SRQ");
	} else {
		shows("SRQ", cmd[0], mine, "prod", 5 + 7);
		shows("SRQ", cmd[0], mine, "cons", 7);
		shows("SRQ", cmd[0], mine, "entries", 32);
		shows("SRQ", cmd[0], mine, "limit", 3);
		shows("SRQ", cmd[0], mine, "broken", 0);
	}
	pair_destroy(&p);
	if (ibv_destroy_srq(po.srq))
		die("destroy_srq");
}

/* A queue pair with a counter of its own */
static void bound(void)
{
	static const struct pair_opts po = { .sq = 16, .rq = 16, .sge = 1, .buf = 4096 };
	long long before, cntn, extra[ARRAY_SIZE(again)];
	char bind[128], unbind[128], show[128];
	struct pair p, other;
	bool once;

	up(&p, &po);
	up(&other, &po);
	sent_again(extra);
	before = hw_counter(&ea, "tx_pkts");
	snprintf(bind, sizeof(bind), "rdma statistic qp bind link %s/1 lqpn %u", ea.name,
		 p.qp[0]->qp_num);
	snprintf(show, sizeof(show), "rdma statistic qp show link %s/1", ea.name);
	sends(&p, 4, 10);
	command(bind);
	cntn = output_number(show, "cntn", "cntn");
	ok(cntn > 0, "a counter for one queue pair, number %lld", cntn);
	sends(&p, 3, 100);
	sends(&other, 5, 10);
	once = each_once(extra);
	counted(output_number(show, "cntn", "tx_pkts"), 3, once, "tx_pkts: its own, since then");
	counted(output_number(show, "cntn", "tx_bytes"), 300, once, "tx_bytes");
	counted(output_number(show, "cntn", "rcvd_ack"), 3, once, "rcvd_ack");
	counted(hw_counter(&ea, "tx_pkts") - before, 4 + 3 + 5, once, "the link's has them all");
	snprintf(unbind, sizeof(unbind), "rdma statistic qp unbind link %s/1 cntn %lld lqpn %u",
		 ea.name, cntn, p.qp[0]->qp_num);
	command(unbind);
	is(output_number(show, "cntn", "cntn"), -1, "the counter goes with its last queue pair");
	sends(&p, 2, 10);
	counted(hw_counter(&ea, "tx_pkts") - before, 4 + 3 + 5 + 2, each_once(extra),
		"and the link's still has them all");
	pair_destroy(&other);
	pair_destroy(&p);
}

static const struct test tests[] = {
	TEST(counters),
	TEST(resources),
	TEST(bound),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
