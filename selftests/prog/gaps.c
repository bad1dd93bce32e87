// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Several packets of one window are lost: the peer reports all of them, and each is
 * sent again once. Then what a peer can do with reports and notifications that it
 * ought not to send. The wire is relay.c; side 0 is the requester.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common.h"
#include "relay.h"

static struct end ea, eb;

#define MTU 1024
#define PKTS 256		/* a window of a new queue pair */
#define LEN (PKTS * MTU)
#define SIG IBV_SEND_SIGNALED

/* BTH */
#define GAP_REPORT 0xd1
#define CNP 0x81

#define MAGIC 0x73726f63

/* --- what was counted -------------------------------------------------------------------- */

static const char * const names[] = {
	"retransmitted_pkts", "tail_probes", "go_backs", "local_ack_timeout_err",
	"sent_gap_reports", "rcvd_gap_reports", "stale_ack", "rx_wrong_peer", "rp_cnp_handled",
	"packet_seq_err", "implied_nak_seq_err",
};
enum { RETRANSMITTED, PROBES, GO_BACKS, TIMEOUTS, SENT, RCVD, STALE, WRONG_PEER, CNPS, SEQ_ERR, IMPLIED };

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

/* --- requests ------------------------------------------------------------------------------ */

static uint64_t next_key = 1;

/* @timeout: 22 is 17 s, so that who waits for one is seen; 20 is 4 s */
static void up_mtu(struct pair *p, uint8_t timeout, enum ibv_mtu mtu)
{
	pair_create(p, &ea, &eb, &(struct pair_opts) {
		.sq = 32, .rq = 32, .sge = 1, .buf = 16 * LEN,
		.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	});
	p->conn.mtu = mtu;
	p->conn.timeout = timeout;
	p->conn.rd_atomic = 8;
	pair_connect(p);
	relay_clear();
}

static void up(struct pair *p, uint8_t timeout)
{
	up_mtu(p, timeout, IBV_MTU_1024);
}

static uint64_t begin(struct pair *p, enum ibv_wr_opcode opcode, uint32_t len)
{
	const bool read = opcode == IBV_WR_RDMA_READ;
	const uint64_t key = next_key++;

	pattern_fill(p->buf[read], key, 0, len);
	memset(p->buf[!read], 0, len);
	pair_request(p, opcode, len);
	return key;
}

/* Has it come to its end, with every byte? */
static bool ended(struct pair *p, enum ibv_wr_opcode opcode, uint32_t len, uint64_t key)
{
	struct ibv_wc wc;

	if (!cq_wait(p->scq[0], &wc, PATIENCE) || wc.status != IBV_WC_SUCCESS)
		return false;
	if (opcode == IBV_WR_SEND &&
	    (!cq_wait(p->rcq[1], &wc, PATIENCE) || wc.status != IBV_WC_SUCCESS))
		return false;
	return pattern_check(p->buf[opcode != IBV_WR_RDMA_READ], key, 0, len) < 0;
}

static bool served(struct pair *p, enum ibv_wr_opcode opcode, uint32_t len)
{
	return ended(p, opcode, len, begin(p, opcode, len));
}

/* So that a round trip is known, and that the peer keeps what is early */
static void warm_up(struct pair *p)
{
	unsigned int good = 0;

	for (int i = 0; i < 4; i++)
		good += served(p, IBV_WR_RDMA_WRITE, 100);
	relay_drop(THERE, p->psn[0] + 10, 1);
	good += served(p, IBV_WR_RDMA_WRITE, 64 * MTU);
	/* behind whose response no acknowledgement is under way */
	good += served(p, IBV_WR_RDMA_READ, 100);
	if (good != 6)
		die("nothing works");
	relay_clear();
}

/* --- several are lost ------------------------------------------------------------------------ */

/* @num runs of @len packets each, @step from one to the next */
static const struct loss {
	const char *what;
	unsigned int first, len, step, num;
} losses[] = {
	{ "one", 10, 1, 1, 1 },
	{ "two in a row", 10, 2, 2, 1 },
	{ "five", 5, 1, 45, 5 },
	{ "three bursts of 30", 10, 30, 80, 3 },
	{ "31 gaps", 3, 1, 8, 31 },
	{ "60 gaps", 2, 1, 4, 60 },
	{ "every second of 120", 100, 1, 2, 60 },
};

static unsigned int lose(const struct pair *p, unsigned int way, const struct loss *l)
{
	for (unsigned int i = 0; i < l->num; i++)
		for (unsigned int j = 0; j < l->len; j++)
			relay_drop(way, p->psn[0] + l->first + i * l->step + j, 1);
	return l->num * l->len;
}

/* A slow machine's answers are overdue now and then, and then a packet of a probe goes once more. */
#define ROUNDS 5

/* @kbps: the program's rate, in thousands of bits a second; 0 for none */
static void lost(enum ibv_wr_opcode opcode, const struct loss *l, uint32_t kbps)
{
	struct ibv_qp_rate_limit_attr rate = { .rate_limit = kbps };
	const bool read = opcode == IBV_WR_RDMA_READ;
	const unsigned int way = read ? BACK : THERE;
	unsigned int num = 0, good = 0, i = 0;
	long long waste = 1, told = 0, probes = 0;
	struct pair p;

	while (i < ROUNDS && waste) {
		up(&p, 22);
		warm_up(&p);
		if (ibv_modify_qp_rate_limit(p.qp[0], &rate))
			die("modify_qp_rate_limit");
		mark();
		num = lose(&p, way, l);
		good += served(&p, opcode, LEN) && relay_dropped() == num;
		/* whom it asks, a READ's requester is told on the same way */
		told = read ? since(1, SENT) : 0;
		waste = (long long)relay_carried(way) - PKTS - told;
		probes = since(0, PROBES);
		diag("%s: round %u: %lld more than needed, %lld probes", l->what, i++, waste, probes);
		pair_destroy(&p);
	}
	is(good, i, "%s: every byte", l->what);
	ok(waste >= 0 && waste <= probes, "%s: each is sent again exactly once, but for probes", l->what);
	if (waste)
		return;
	/* all of a gap is asked for by one request */
	is(since(0, RETRANSMITTED), read ? l->num : num, "%s: and so it is counted", l->what);
	if (read)
		between(told, 1, l->num < 8 ? l->num : 8, "reports of nothing");
	else
		between(since(0, RCVD), 1, since(1, SENT), "reports, of one gap as well");
	is(since(0, GO_BACKS), 0, "nothing behind them");
	is(since(0, TIMEOUTS), 0, "no timeout");
}

/* None that comes again gets through before all do. */
static void together(enum ibv_wr_opcode opcode, const struct loss *l)
{
	struct pair p;
	unsigned int num;

	up(&p, 22);
	warm_up(&p);
	num = lose(&p, opcode == IBV_WR_RDMA_READ ? BACK : THERE, l);
	relay_hold(num);
	ok(served(&p, opcode, LEN), "%s: every byte", l->what);
	is(relay_waited(), num, "%s: sent again all at once", l->what);
	pair_destroy(&p);
}

static void all_lost(enum ibv_wr_opcode opcode)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(losses); i++) {
		lost(opcode, &losses[i], 0);
		/* a report has room for 31 */
		if (losses[i].num <= 31)
			together(opcode, &losses[i]);
	}
}

static void lost_write(void)
{
	all_lost(IBV_WR_RDMA_WRITE);
}

static void lost_send(void)
{
	all_lost(IBV_WR_SEND);
}

static void lost_read(void)
{
	all_lost(IBV_WR_RDMA_READ);
}

/* A gap goes in parts, a few packets each: the first arrive, and the rest is reported, meanwhile. */
static void lost_paced(void)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(losses); i++)
		if (losses[i].len > 2)
			lost(IBV_WR_RDMA_WRITE, &losses[i], 2000);
}

/* A gap that stays open is reported again, by what comes behind it and asks. */
static void stays_open(void)
{
	long long opened = 0;
	struct pair p;
	uint64_t key;

	up(&p, 22);
	warm_up(&p);
	mark();
	relay_drop(THERE, p.psn[0] + 10, UINT32_MAX);
	key = begin(&p, IBV_WR_RDMA_WRITE, 64 * MTU);
	for (double end = now() + PATIENCE; !opened && now() < end; opened = since(1, SENT))
		sleep_ms(1);
	/* all of that has come */
	sleep_ms(300);
	opened = since(1, SENT);
	is(ibv_poll_cq(p.scq[0], 1, &(struct ibv_wc) {}), 0, "a WRITE waits for one packet");
	pair_request(&p, IBV_WR_RDMA_WRITE, 64 * MTU);
	for (double end = now() + PATIENCE; since(1, SENT) <= opened && now() < end; )
		sleep_ms(1);
	ok(since(1, SENT) > opened, "the same gap, and another WRITE: %lld reports, then %lld", opened,
	   since(1, SENT));
	relay_clear();
	ok(ended(&p, IBV_WR_RDMA_WRITE, 64 * MTU, key), "it comes: every byte");
	ok(ended(&p, IBV_WR_RDMA_WRITE, 64 * MTU, key), "and so does the other");
	pair_destroy(&p);
}

/* The report behind it says what it said. */
static void lost_nak(void)
{
	unsigned int good = 0;
	long long probes = 1;
	int rounds = 0;
	struct pair p;

	for (; rounds < ROUNDS && probes; rounds++) {
		up(&p, 22);
		warm_up(&p);
		mark();
		relay_drop(THERE, p.psn[0] + 10, 1);
		relay_drop(THERE, p.psn[0] + 100, 1);
		/* the NAK of the first */
		relay_drop(BACK, p.psn[0] + 10, 1);
		good += served(&p, IBV_WR_RDMA_WRITE, LEN) && relay_dropped() == 3;
		probes = since(0, PROBES);
		diag("round %d: %lld stale, %lld probes", rounds, since(0, STALE), probes);
		pair_destroy(&p);
	}
	is(good, rounds, "a NAK is lost: every byte");
	is(since(0, SEQ_ERR), 1, "the one of the second is heard");
	is(since(0, STALE), 0, "the report is not stale");
	is(probes, 0, "and nothing has to be probed");
	is(since(0, RETRANSMITTED), 2, "both are sent again, once");
}

/*
 * Of the parts of a READ all but the last are lost once more: it tells so, as parts come in the order
 * that they are asked for. They are more than a turn asks for, where packets are this long: 16. By
 * themselves they would be implied or probed for one after the other, a round trip each; where
 * only time tells, five are, and a part that counts as sent when it was not takes two probes more.
 */
static void parts_again(void)
{
	enum { PARTS = 31, STEP = 8 };
	long long alone = PARTS;
	unsigned int good = 0;
	int rounds = 0;
	struct pair p;

	for (; rounds < ROUNDS && alone > 3; rounds++) {
		up_mtu(&p, 22, IBV_MTU_4096);
		warm_up(&p);
		mark();
		for (unsigned int i = 0; i < PARTS; i++)
			relay_drop(BACK, p.psn[0] + 3 + i * STEP, i < PARTS - 1 ? 2 : 1);
		good += served(&p, IBV_WR_RDMA_READ, PKTS * 4096) && relay_dropped() == 2 * PARTS - 1;
		alone = since(0, IMPLIED) + since(0, PROBES);
		diag("round %d: %lld implied, %lld probes", rounds, since(0, IMPLIED), since(0, PROBES));
		pair_destroy(&p);
	}
	is(good, rounds, "%d parts of a READ, lost twice: every byte", PARTS);
	between(alone, 0, 3, "times that one was asked for by itself");
}

/* Side 0 is one that sends all again: it is told now and then. */
static void goes_back(void)
{
	long long sent = 0, late = 0;
	unsigned int good = 0;
	struct pair p;

	up(&p, 22);
	mark();
	for (int i = 0; i < 16; i++) {
		relay_clear();
		for (unsigned int j = 0; j < 5; j++)
			relay_drop(THERE, p.psn[0] + 10 + 4 * j, 1);
		good += served(&p, IBV_WR_RDMA_WRITE, 64 * MTU);
		if (i == 7)
			sent = since(1, SENT);
	}
	late = since(1, SENT) - sent;
	is(good, 16, "a requester that goes back: every byte");
	between(sent, 0, 16, "reports to it");
	between(late, 0, 16, "and then, of 40 packets that are missing");
	pair_destroy(&p);
}

#define WRITE_MIDDLE 0x07

/* Side 0's host sends what is forged. */
static int forger_a;

/* The last packet of a WRITE once more: of one that has sent too much, or goes back */
static void last_again(const struct pair *p)
{
	const unsigned int num = relay_carried(THERE);
	static const uint8_t body[MTU];

	forge_pkt(forger_a, p, 0, WRITE_MIDDLE, p->psn[0] - 1, body, sizeof(body));
	for (int i = 0; i < 5000 && relay_carried(THERE) == num; i++)
		usleep(i < 100 ? 10 : 1000);
}

static bool served_without(struct pair *p, unsigned int num)
{
	relay_clear();
	for (unsigned int i = 0; i < num; i++)
		relay_drop(THERE, p->psn[0] + 10 + 4 * i, 1);
	return served(p, IBV_WR_RDMA_WRITE, 64 * MTU);
}

/* Who has looked once like one that goes back is told again when it does no more. */
static void misjudged(void)
{
	unsigned int good = 0;
	struct pair p;

	forger_a = forger_on("a");
	up(&p, 22);
	warm_up(&p);
	mark();
	for (int i = 0; i < 16; i++) {
		good += served_without(&p, 5);
		last_again(&p);
	}
	is(good, 16, "one that seems to go back: every byte");
	/* a gap that stays open is told of by time: more, where all takes longer */
	between(since(1, SENT), 16, 200 * patience_times(), "reports to it");
	ok(served_without(&p, 1), "and then does not: every byte");
	mark();
	ok(served_without(&p, 5), "of five missing: every byte");
	/* as each gap opens and is filled, and behind one, by what asks or is sent again */
	between(since(1, SENT), 1, 18 * patience_times(), "reports to it");
	between(since(0, RETRANSMITTED), 5, 8, "sent again");
	pair_destroy(&p);
	close(forger_a);
}

/*
 * Of the first window one packet arrives, where answers take longer than is waited for as
 * long as nobody knows. Who never learns it sends everything several times.
 */
static void first_lost(void)
{
	const unsigned int num = 64, got = 10;
	struct pair p;

	up(&p, 22);
	mark();
	for (unsigned int i = 0; i < num; i++)
		if (i != got)
			relay_drop(THERE, p.psn[0] + i, 1);
	ok(served(&p, IBV_WR_RDMA_WRITE, num * MTU), "of a window one arrives: every byte");
	diag("%lld sent again, %lld probes", since(0, RETRANSMITTED), since(0, PROBES));
	is(relay_dropped(), num - 1, "the others are lost");
	between(since(0, RETRANSMITTED), num - 1, num + num / 4, "sent again, of 63");
	is(since(0, TIMEOUTS), 0, "no timeout");
	pair_destroy(&p);
}

/*
 * Where a queue has overflowed, little leaves at a time, and the rest when that is acknowledged.
 * What leaves nothing is not acknowledged.
 */
static void local_first(void)
{
	enum { WINDOWS = 11 };
	struct ibv_send_wr wr[WINDOWS + 1] = {}, *bad;
	struct ibv_mw *mw[WINDOWS];
	struct ibv_mr *mr;
	struct ibv_wc wc = {};
	struct pair p;
	bool ends;

	up(&p, 22);
	warm_up(&p);
	lose(&p, THERE, &losses[3]);
	ok(served(&p, IBV_WR_RDMA_WRITE, LEN), "a third of a window is lost: every byte");
	relay_clear();
	ok(served(&p, IBV_WR_RDMA_WRITE, LEN), "and one more, whole");
	mr = ibv_reg_mr(ea.pd, p.buf[0], MTU, IBV_ACCESS_MW_BIND);
	if (!mr)
		die("reg_mr");
	for (int i = 0; i < WINDOWS; i++) {
		mw[i] = ibv_alloc_mw(ea.pd, IBV_MW_TYPE_2);
		if (!mw[i])
			die("alloc_mw");
		wr[i] = (struct ibv_send_wr) {
			.next = &wr[i + 1], .wr_id = 2, .opcode = IBV_WR_BIND_MW,
			.bind_mw = { .mw = mw[i], .rkey = ibv_inc_rkey(mw[i]->rkey),
				     .bind_info = { .mr = mr, .addr = (uintptr_t)p.buf[0],
						    .length = MTU,
						    .mw_access_flags = IBV_ACCESS_REMOTE_READ } },
		};
	}
	wr[WINDOWS] = (struct ibv_send_wr) {
		.wr_id = 3, .opcode = IBV_WR_RDMA_WRITE, .send_flags = SIG,
		.sg_list = SGE(p.buf[0], 8 * MTU, p.mr[0]->lkey), .num_sge = 1,
		.wr.rdma = { .remote_addr = (uintptr_t)p.buf[1], .rkey = p.mr[1]->rkey },
	};
	mark();
	if (ibv_post_send(p.qp[0], wr, &bad))
		die("post_send");
	ends = cq_wait(p.scq[0], &wc, PATIENCE);
	ok(ends && wc.status == IBV_WC_SUCCESS && wc.wr_id == 3, "a WRITE behind %d binds ends",
	   WINDOWS);
	is(since(0, PROBES), 0, "by itself, and not by a probe");
	pair_destroy(&p);
	for (int i = 0; i < WINDOWS; i++)
		ibv_dealloc_mw(mw[i]);
	ibv_dereg_mr(mr);
}

/* @len bytes that can be paged out and keep what is in them; NULL if @e has no on-demand regions */
static struct ibv_mr *paged(struct end *e, size_t len, int access)
{
	void *mem = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return mem == MAP_FAILED ? NULL : ibv_reg_mr(e->pd, mem, len, access | IBV_ACCESS_ON_DEMAND);
}

static void page_out(const struct ibv_mr *mr, size_t from)
{
	if (madvise((char *)mr->addr + from, mr->length - from, MADV_DONTNEED))
		die("madvise");
}

static void paged_drop(struct ibv_mr *mr)
{
	void *mem = mr->addr;
	const size_t len = mr->length;

	if (ibv_dereg_mr(mr) || munmap(mem, len))
		die("dereg_mr");
}

static void begin_paged(struct pair *p, struct ibv_mr *from, struct ibv_mr *to)
{
	errno = POST(p->qp[0], .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = SIG,
		     .sg_list = SGE(from->addr, LEN, from->lkey), .num_sge = 1,
		     .wr.rdma = { (uintptr_t)to->addr, to->rkey });
	if (errno)
		die("post_send");
	p->psn[0] += PKTS;
}

/*
 * Of a burst that is to be sent again, the second half has been paged out meanwhile: it is brought,
 * and all of it is sent then. The peer says nothing more within a gap.
 */
static void paged_out(void)
{
	enum { NUM = 24, GONE = 100 };
	static const struct loss run = { "a burst", GONE - NUM / 2, NUM, NUM, 1 };
	struct ibv_mr *mr = paged(&ea, LEN, 0);
	const uint64_t key = next_key++;
	struct ibv_wc wc;
	struct pair p;

	if (!mr) {
		skip("no on-demand regions", "packets that are sent again from pages that are gone");
		return;
	}
	up(&p, 22);
	warm_up(&p);
	pattern_fill(mr->addr, key, 0, LEN);
	memset(p.buf[1], 0, LEN);
	mark();
	lose(&p, THERE, &run);
	begin_paged(&p, mr, p.mr[1]);
	/* all has left, and nothing has come back yet */
	for (int i = 0; i < 5000 && relay_carried(THERE) + relay_dropped() < PKTS; i++)
		usleep(1000);
	page_out(mr, GONE * MTU);
	ok(cq_wait(p.scq[0], &wc, PATIENCE) && wc.status == IBV_WC_SUCCESS,
	   "a WRITE whose pages go before it is sent again");
	is(pattern_check(p.buf[1], key, 0, LEN), -1, "every byte");
	is(since(0, TIMEOUTS), 0, "no timeout");
	between(since(0, PROBES), 0, NUM / 6, "not one after the other: probes");
	pair_destroy(&p);
	paged_drop(mr);
}

/*
 * What was missing comes, and the page of what was kept behind it is not there: the peer says that
 * it has the one packet. It has the others as well, and gets on when it has the page.
 */
static void waits_for_page(void)
{
	enum { GONE = 100 };
	static const struct loss last = { "one", GONE - 1, 1, 1, 1 };
	struct ibv_mr *mr = paged(&eb, LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	const uint64_t key = next_key;
	unsigned int good = 0;
	long long kept;
	struct ibv_wc wc;
	struct pair p;

	if (!mr) {
		skip("no on-demand regions", "a peer that waits for a page");
		return;
	}
	next_key += 2;
	up(&p, 22);
	warm_up(&p);
	for (int i = 0; i < 2; i++) {
		pattern_fill(p.buf[0], key + i, 0, LEN);
		if (i) {
			mark();
			lose(&p, THERE, &last);
		}
		kept = counter_of(&eb, "rx_kept");
		begin_paged(&p, p.mr[0], mr);
		for (int k = 0; i && k < 5000 && counter_of(&eb, "rx_kept") - kept < PKTS - GONE; k++)
			usleep(1000);
		if (i)
			page_out(mr, GONE * MTU);
		good += cq_wait(p.scq[0], &wc, PATIENCE) && wc.status == IBV_WC_SUCCESS;
	}
	is(good, 2, "WRITEs into memory on demand");
	is(pattern_check(mr->addr, key + 1, 0, LEN), -1, "every byte");
	is(since(0, GO_BACKS), 0, "all behind a packet that was missing is kept, and not sent again");
	between(since(0, RETRANSMITTED), 1, 8, "packets that are");
	pair_destroy(&p);
	paged_drop(mr);
}

/* --- what a peer should not send --------------------------------------------------------------- */

/* Side 1's host sends what is forged. */
static int forger_b;

/* A report's words; the pair's packets begin at @psn */
struct report {
	const char *what;
	uint32_t magic;
	int32_t off;		/* of the BTH's PSN */
	unsigned int num;
	uint16_t words[4][2];
};

/* It has arrived before this returns. */
static void forge(const struct pair *p, uint8_t opcode, uint32_t psn, const void *body, size_t len)
{
	const unsigned int num = relay_carried(BACK);

	forge_pkt(forger_b, p, 1, opcode, psn, body, len);
	for (int i = 0; i < 5000 && relay_carried(BACK) == num; i++)
		usleep(i < 100 ? 10 : 1000);
}

static void forge_report(const struct pair *p, uint32_t psn, const struct report *r)
{
	uint16_t body[34] = { htobe16(r->magic >> 16), htobe16(r->magic & 0xffff) };

	for (unsigned int i = 0; i < r->num; i++) {
		body[2 + 2 * i] = htobe16(r->words[i][0]);
		body[3 + 2 * i] = htobe16(r->words[i][1]);
	}
	forge(p, GAP_REPORT, psn + r->off, body, 4 + 4 * r->num);
}

#define OUT 64

/* Until a sum of counters of side 0's stays as it is */
static void settled(void)
{
	long long last, sum = -1;

	do {
		last = sum;
		sleep_ms(300);
		sum = 0;
		for (unsigned int i = 0; i < ARRAY_SIZE(names); i++)
			sum += counter_of(&ea, names[i]);
	} while (sum != last);
}

/* A WRITE of which nothing arrives, with all probes made: returns where it begins */
static uint32_t swallowed(struct pair *p, uint64_t *key)
{
	const uint32_t psn = p->psn[0];

	relay_clear();
	relay_drop(THERE, ALL, UINT32_MAX);
	*key = begin(p, IBV_WR_RDMA_WRITE, OUT * MTU);
	settled();
	return psn;
}

static void works(struct pair *p, const char *what)
{
	unsigned int good = 0;

	relay_clear();
	for (int i = 0; i < 4; i++)
		good += served(p, IBV_WR_RDMA_WRITE, LEN) && served(p, IBV_WR_SEND, LEN) &&
			served(p, IBV_WR_RDMA_READ, LEN);
	is(good, 4, "%s: WRITEs, SENDs and READs, every byte", what);
}

static const struct report wrong[] = {
	{ "another magic", MAGIC + 1, 0, 2, { { 0, 4 }, { 8, 0 } } },
	{ "the last PSN", MAGIC, OUT - 1, 2, { { 0, 4 }, { 8, 0 } } },
	{ "an end beyond what was sent", MAGIC, 0, 2, { { 0, 4 }, { OUT + 1, 0 } } },
	{ "an end far beyond", MAGIC, 0, 2, { { 0, 4 }, { 0xffff, 0 } } },
	{ "gaps that touch", MAGIC, 0, 3, { { 0, 4 }, { 4, 4 }, { 16, 0 } } },
	{ "gaps out of order", MAGIC, 0, 4, { { 0, 4 }, { 16, 4 }, { 8, 4 }, { 32, 0 } } },
	{ "no gap at 0", MAGIC, 0, 2, { { 1, 4 }, { 8, 0 } } },
	{ "an empty gap", MAGIC, 0, 3, { { 0, 4 }, { 8, 0 }, { 32, 0 } } },
	{ "nothing but the magic", MAGIC, 0, 0, { { 0, 0 } } },
	{ "one word", MAGIC, 0, 1, { { 8, 0 } } },
};

/*
 * A slow machine may see a timeout meanwhile, and probes. On two processors packets
 * overtake each other: the peer asks for those, and what is sent for that says nothing.
 * A probe may be sent between two counters' being read; a gap that is believed is of
 * four packets at least.
 */
static void nothing_again(const char *what)
{
	const long long more = since(0, RETRANSMITTED) - since(0, PROBES) - since(0, TIMEOUTS);

	if (since(0, SEQ_ERR))
		diag("%s: the peer asked for packets that were overtaken", what);
	else
		ok(more >= -2 && more <= 2, "%s: nothing is sent for it (%lld)", what, more);
}

static void no_effect(const char *what)
{
	nothing_again(what);
}

static void malformed(void)
{
	uint64_t key;
	uint32_t psn;
	struct pair p;

	up(&p, 20);
	warm_up(&p);
	psn = swallowed(&p, &key);
	for (unsigned int i = 0; i < ARRAY_SIZE(wrong); i++) {
		mark();
		forge_report(&p, psn, &wrong[i]);
		for (int j = 0; j < 1000 && !since(0, STALE); j++)
			sleep_ms(1);
		is(since(0, STALE), 1, "%s: is refused", wrong[i].what);
		no_effect(wrong[i].what);
	}
	relay_clear();
	ok(ended(&p, IBV_WR_RDMA_WRITE, OUT * MTU, key), "then comes the WRITE, every byte");
	works(&p, "after");
	pair_destroy(&p);
}

/* PSNs that are not outstanding, all over the half of them that is behind and ahead */
static void anywhere(void)
{
	const struct report r = { "", MAGIC, 0, 2, { { 0, 4 }, { 8, 0 } } };
	const int32_t half = 1 << 23, step = 8191;
	unsigned int num = 0;
	uint64_t key;
	uint32_t psn;
	struct pair p;

	up(&p, 20);
	warm_up(&p);
	psn = swallowed(&p, &key);
	mark();
	for (int32_t off = -half; off < half; off += step) {
		if (off >= 0 && off < OUT)
			continue;
		forge_report(&p, psn + off, &r);
		num++;
	}
	settled();
	is(since(0, STALE), num, "reports from all over the PSNs: refused");
	is(since(0, RCVD), 0, "unread");
	no_effect("all over the PSNs");
	relay_clear();
	ok(ended(&p, IBV_WR_RDMA_WRITE, OUT * MTU, key), "then comes the WRITE, every byte");
	works(&p, "after");
	pair_destroy(&p);
}

/* Returns packets sent for each report of many, of which every second is @b. */
static double flood_of(const char *what, const struct report *a, const struct report *b)
{
	const int num = getenv("LONG") ? 10000 : 3000;
	double took, per;
	uint64_t key;
	uint32_t psn;
	struct pair p;

	up(&p, 20);
	warm_up(&p);
	psn = swallowed(&p, &key);
	mark();
	took = now();
	for (int i = 0; i < num; i++)
		forge_report(&p, psn, i & 1 ? b : a);
	took = now() - took;
	settled();
	per = (double)since(0, RETRANSMITTED) / num;
	diag("%s: %lld reports in %.1f s, %.3f packets for each", what, since(0, RCVD), took, per);
	/* some may have been too much for a socket */
	between(since(0, RCVD), num * 9 / 10, num, "reports taken");
	relay_clear();
	ok(ended(&p, IBV_WR_RDMA_WRITE, OUT * MTU, key), "then comes the WRITE, every byte");
	works(&p, "after");
	pair_destroy(&p);
	return per;
}

/*
 * All is missing, again and again: it is sent again once in a round trip, however
 * many say so, and whatever they said before.
 */
static void flood(void)
{
	const struct report all = { "", MAGIC, 0, 2, { { 0, OUT - 1 }, { OUT, 0 } } };
	const struct report few = { "", MAGIC, 0, 2, { { 0, 1 }, { OUT, 0 } } };
	const struct report most = { "", MAGIC, 0, 3, { { 0, 1 }, { 2, OUT - 3 }, { OUT, 0 } } };
	const struct report one = { "", MAGIC, 0, 2, { { 0, 1 }, { 2, 0 } } };

	ok(flood_of("all is missing", &all, &all) < 2, "less than two packets for each report");
	ok(flood_of("more and less", &few, &most) < 2, "nor for those that contradict each other");
	ok(flood_of("far and near", &one, &most) < 2, "nor where they end now here, now there");
}

static void strangers(void)
{
	const struct report all = { "", MAGIC, 0, 2, { { 0, OUT - 1 }, { OUT, 0 } } };
	struct end stranger;
	struct pair p, q;
	uint8_t cnp[16] = {};
	uint64_t key;
	uint32_t psn;

	up(&p, 20);
	warm_up(&p);
	stranger = *p.e[1];
	stranger.gid.raw[15] = 77;
	psn = swallowed(&p, &key);
	q = p;
	q.e[1] = &stranger;
	mark();
	for (int i = 0; i < 100; i++)
		forge_report(&q, psn, &all);
	settled();
	is(since(0, WRONG_PEER), 100, "reports of a stranger's: not of this connection");
	is(since(0, RCVD), 0, "unread");
	no_effect("a stranger");
	mark();
	for (int i = 0; i < 100; i++)
		forge(&q, CNP, 0, cnp, sizeof(cnp));
	settled();
	is(since(0, WRONG_PEER), 100, "notifications of a stranger's: not of this connection");
	is(since(0, CNPS), 0, "nobody is notified");
	relay_clear();
	ok(ended(&p, IBV_WR_RDMA_WRITE, OUT * MTU, key), "then comes the WRITE, every byte");
	works(&p, "after");
	pair_destroy(&p);
}

/* --- notifications ------------------------------------------------------------------------------ */

static double transfer(struct pair *p, uint32_t len, const char *what)
{
	const double t = now();

	ok(served(p, IBV_WR_RDMA_WRITE, len), "%s: every byte", what);
	return now() - t;
}

/* A few, between requests */
static void notified(void)
{
	uint8_t cnp[16] = {};
	struct pair p;

	up(&p, 20);
	warm_up(&p);
	mark();
	for (int i = 0; i < 20; i++) {
		forge(&p, CNP, 0, cnp, sizeof(cnp));
		if (!served(&p, IBV_WR_RDMA_WRITE, 64 * MTU))
			break;
	}
	is(since(0, CNPS), 20, "notifications of the peer's");
	works(&p, "notified");
	nothing_again("notifications");
	pair_destroy(&p);
}

static struct {
	const struct pair *p;
	bool stop;
} flooder;

static void *flood_cnps(void *arg)
{
	uint8_t cnp[16] = {};

	while (!__atomic_load_n(&flooder.stop, __ATOMIC_RELAXED)) {
		for (int i = 0; i < 31; i++)
			forge_pkt(forger_b, flooder.p, 1, CNP, 0, cnp, sizeof(cnp));
		forge(flooder.p, CNP, 0, cnp, sizeof(cnp));
	}
	return arg;
}

/*
 * As many as there can be: it goes on, how fast ever (congestion/ecn.sh has the rate),
 * and slower by half for every round trip, which this machine makes what it likes.
 */
static void notified_much(void)
{
	const uint32_t len = 4 * LEN;
	double without, with = 0, after;
	unsigned int lost;
	int times = 0;
	pthread_t thread;
	struct pair p;

	up(&p, 20);
	warm_up(&p);
	transfer(&p, len, "to warm up");
	without = transfer(&p, len, "without");
	mark();
	relay_lost();
	flooder.p = &p;
	flooder.stop = false;
	if (pthread_create(&thread, NULL, flood_cnps, NULL))
		die("thread");
	sleep_ms(50);
	/* 8 s at the least rate there is; the flood is work as well, but not that much */
	while (with < 2 && times++ < 100)
		with = transfer(&p, len, "with a flood of notifications");
	__atomic_store_n(&flooder.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	after = transfer(&p, len, "after");
	diag("1 MB in %.0f ms, with %lld notifications %.0f ms, %d times, then %.0f ms", without * 1e3,
	     since(0, CNPS), with * 1e3, times, after * 1e3);
	between(since(0, CNPS), 100, 100000000, "notifications");
	ok(with > 2, "slower by the rate");
	lost = relay_lost();
	diag("%u frames found no room on the wire", lost);
	/* answers to all probes may have been among them */
	between(since(0, TIMEOUTS), 0, lost ? 8 : 0, "timeouts");
	works(&p, "after");
	pair_destroy(&p);
}

static const struct test tests[] = {
	TEST(lost_write),
	TEST(lost_send),
	TEST(lost_read),
	TEST(lost_paced),
	TEST(stays_open),
	TEST(lost_nak),
	TEST(parts_again),
	TEST(malformed),
	TEST(anywhere),
	TEST(flood),
	TEST(strangers),
	TEST(notified),
	TEST(notified_much),
	TEST(goes_back),
	TEST(misjudged),
	TEST(first_lost),
	TEST(local_first),
	TEST(paged_out),
	TEST(waits_for_page),
};

int main(int argc, char **argv)
{
	relay_up();
	forger_b = forger_on("b");
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
