// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What a hostile peer can make a device hold: packets of its connection, right in
 * every respect, that come far before their turn and leave gaps. There are bounds,
 * others are served meanwhile, and what was held is given back.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"
#include "../../include/uapi/rdma/sroce-abi.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

static struct end ea, eb;

#define MTU 4096
#define SIG IBV_SEND_SIGNALED
#define CHUNK (64 * MTU)
#define ON_DEMAND (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ON_DEMAND)

/* keep.c's bounds: of a side of a queue pair, and of a link */
#define SIDE_PKTS 8192
#define SIDE_BYTES (32LL << 20)
#define LINK_BYTES (128LL << 20)

/* late.c's: packets that wait for memory, of a queue pair */
#define WAIT_PKTS 2048

/*
 * Of full packets, fewer than what is bounded by number: each pins headers and what is known of it
 * beside its bytes.
 */
#define SIDE_FULL (SIDE_BYTES / (MTU + 512))

/* More packets than a side may hold, full and empty ones; bytes count as they are pinned */
#define FULL (SIDE_PKTS + 500)
#define EMPTY (SIDE_PKTS + 500)

/* That of which RD_ATOMIC take twice as many packets as a side may hold */
#define RD_ATOMIC 8
#define FAR_READ (2 * SIDE_PKTS / RD_ATOMIC * MTU)

/* BTH */
#define SEND_ONLY 0x04
#define WRITE_FIRST 0x06
#define WRITE_MIDDLE 0x07
#define WRITE_ONLY 0x0a
#define READ_RESPONSE_MIDDLE 0x0e

/* --- who sends what nobody asked for ----------------------------------------------------- */

static int forgers[2];		/* on the hosts of the sides */

struct count {
	long long kept, dropped;
};

static struct count count(const struct end *e)
{
	return (struct count) { hw_counter(e, "rx_kept"), hw_counter(e, "rx_kept_dropped") };
}

/*
 * @num packets to one side of a pair as if from the other, the first @step PSNs behind the next
 * one that is due, and so on: their payload is what a message with @key has there.
 * Returns what became of them.
 */
static struct count fill(struct pair *p, int to, uint8_t opcode, uint32_t num, uint32_t step,
			 uint64_t key)
{
	const struct count before = count(p->e[to]);
	struct count now = before, last;
	uint8_t body[MTU] = {};
	size_t len = MTU;
	uint32_t at = 1;

	if (opcode == WRITE_ONLY) {
		len = RETH_LEN;
		reth(body, p->buf[to], p->mr[to]->rkey, 0);
	}
	for (uint32_t i = 0; i < num; i++, at += step) {
		if (len == MTU)
			pattern_fill(body, key, (uint64_t)at * MTU, MTU);
		forge_pkt(forgers[!to], p, !to, opcode, p->psn[0] + at, body, len);
	}
	/* until no more arrive */
	do {
		last = now;
		now = count(p->e[to]);
	} while (now.kept + now.dropped != last.kept + last.dropped);
	return (struct count) { now.kept - before.kept, now.dropped - before.dropped };
}

static void bounded(const struct count *got, long long most, const char *what)
{
	if (!ok(got->kept >= most / 16 && got->kept <= most, "%s: %lld are kept", what, got->kept))
		diag("want: %lld to %lld", most / 16, most);
	ok(got->dropped > 0, "%s: %lld find no room", what, got->dropped);
}

/* --- who wants to be served ---------------------------------------------------------------- */

static uint64_t next_key = 1000;

static void up(struct pair *p, size_t buf)
{
	pair_create(p, &ea, &eb, &(struct pair_opts) {
		.sq = 64, .rq = 32, .sge = 2, .buf = buf,
		.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	});
	if (p->conn.mtu != IBV_MTU_4096)
		die("the path MTU is not 4096");
	p->conn.timeout = 18;		/* 1 s */
	p->conn.rd_atomic = RD_ATOMIC;
	pair_connect(p);
}

/* One request, every byte of it */
static bool served(struct pair *p, enum ibv_wr_opcode opcode, uint32_t len)
{
	const bool read = opcode == IBV_WR_RDMA_READ;
	const uint64_t key = next_key++;
	struct ibv_wc wc;

	pattern_fill(p->buf[read], key, 0, len);
	memset(p->buf[!read], 0, len);
	pair_request(p, opcode, len);
	if (!cq_wait(p->scq[0], &wc, PATIENCE) || wc.status != IBV_WC_SUCCESS)
		return false;
	if (opcode == IBV_WR_SEND &&
	    (!cq_wait(p->rcq[1], &wc, PATIENCE) || wc.status != IBV_WC_SUCCESS))
		return false;
	return pattern_check(p->buf[!read], key, 0, len) < 0;
}

/*
 * Behind READs such as this one, its peer's packets may be further ahead than the number that is
 * kept: it is the bounds of what is kept that end it, though every second one is missing.
 */
static void far_reads(struct pair *p)
{
	ok(served(p, IBV_WR_RDMA_READ, FAR_READ), "a long READ");
}

static void works(struct pair *p, const char *who)
{
	unsigned int good = 0;

	for (int i = 0; i < 8; i++)
		good += served(p, IBV_WR_RDMA_WRITE, CHUNK) && served(p, IBV_WR_SEND, CHUNK) &&
			served(p, IBV_WR_RDMA_READ, CHUNK);
	is(good, 8, "%s: WRITEs, SENDs and READs, every byte", who);
}

/* 2 of 100 packets are lost, each way */
static void lossy(bool on)
{
	if (on)
		command("tc -n a qdisc add dev v0 root netem limit 10000 loss 2% && "
			"tc -n b qdisc add dev v1 root netem limit 10000 loss 2%");
	else
		command("tc -n a qdisc del dev v0 root && tc -n b qdisc del dev v1 root");
}

/* --- tests ----------------------------------------------------------------------------------- */

/* Every second packet of a long WRITE is there long before the others. */
static void requests(void)
{
	const uint32_t len = (2 * FULL + 1) * MTU;
	const uint64_t key = next_key++;
	struct pair p, victim;
	struct count got;

	up(&p, len);
	up(&victim, CHUNK);
	works(&p, "before");
	far_reads(&p);
	got = fill(&p, 1, WRITE_MIDDLE, FULL, 2, key);
	bounded(&got, SIDE_FULL, "packets of a WRITE");
	works(&victim, "another queue pair");
	pattern_fill(p.buf[0], key, 0, len);
	memset(p.buf[1], 0, len);
	pair_request(&p, IBV_WR_RDMA_WRITE, len);
	wc_is(p.scq[0], 1, IBV_WC_SUCCESS, NULL, "then comes the WRITE");
	is(pattern_check(p.buf[1], key, 0, len), -1, "every byte");
	works(&p, "after");
	pair_destroy(&victim);
	pair_destroy(&p);
}

/* Of no bytes: it is not the bytes that are bounded. */
static void empty(void)
{
	struct pair p, victim;
	struct count got;
	struct ibv_wc wc;
	uint32_t i, good = 0;
	double began;

	up(&p, FAR_READ);
	up(&victim, CHUNK);
	far_reads(&p);
	began = now();
	got = fill(&p, 1, WRITE_ONLY, EMPTY, 2, 0);
	if (now() - began > 0.8 * KEPT_AGE) {
		skip("this machine is too slow: what came first has aged", "as many as may be kept");
	} else {
		is(got.kept, SIDE_PKTS, "WRITEs of nothing: as many are kept as may be");
		is(got.dropped, EMPTY - SIDE_PKTS, "the others find no room");
	}
	works(&victim, "another queue pair");
	for (i = 0; i < 2 * EMPTY + 1; i++) {
		if (i >= 32)
			good += cq_wait(p.scq[0], &wc, PATIENCE) && wc.status == IBV_WC_SUCCESS;
		pair_request(&p, IBV_WR_RDMA_WRITE, 0);
	}
	for (i = 0; i < 32; i++)
		good += cq_wait(p.scq[0], &wc, PATIENCE) && wc.status == IBV_WC_SUCCESS;
	is(good, 2 * EMPTY + 1, "then come all of them");
	works(&p, "after");
	pair_destroy(&victim);
	pair_destroy(&p);
}

/* One packet more than @before has come, or is about to: is it kept? */
static bool more_kept(struct count before)
{
	struct count got;

	for (double end = now() + PATIENCE; ; ) {
		got = count(&eb);
		if (got.kept + got.dropped != before.kept + before.dropped)
			return got.kept > before.kept;
		if (now() > end)
			die("a packet is neither kept nor dropped");
	}
}

/* One, @ahead of the next that is due */
static bool kept(struct pair *p, uint32_t ahead)
{
	const struct count before = count(&eb);

	forge_pkt(forgers[0], p, 0, WRITE_MIDDLE, p->psn[0] + ahead, p->buf[0], MTU);
	return more_kept(before);
}

/*
 * All over the half of all PSNs that is ahead: who does not know the peer's PSN would guess half
 * of the time. No further than what the peer can have sent, READs that it is known for among it.
 */
static void far_ahead(void)
{
	struct pair p, victim;
	struct count got, over;
	uint32_t reach = SIDE_PKTS;

	up(&p, CHUNK);
	up(&victim, CHUNK);
	p.psn[0] += 10000;
	got = fill(&p, 1, WRITE_MIDDLE, FULL, ((1 << 23) - 10100) / FULL, 0);
	p.psn[0] -= 10000;
	is(got.kept, 0, "far ahead: nothing is kept");
	is(got.dropped, FULL, "far ahead: all of it is counted");
	ok(!kept(&p, reach + 1), "further than what may be kept: it is not");
	ok(kept(&p, reach), "no further: it is");
	ok(served(&p, IBV_WR_RDMA_READ, CHUNK), "a READ, every byte");
	reach += p.conn.rd_atomic * CHUNK / MTU;
	ok(!kept(&p, reach + 1), "further than it and as many READs: it is not");
	ok(kept(&p, reach), "behind READs: it is");
	over = count(&eb);
	forge_pkt(forgers[0], &p, 0, WRITE_MIDDLE, p.psn[0] + (1 << 23), p.buf[0], MTU);
	got = count(&eb);
	ok(got.kept == over.kept && got.dropped == over.dropped, "beyond the half it is old");
	lossy(true);
	works(&victim, "2 % loss, another queue pair");
	works(&p, "and the one that keeps what is not its peer's");
	lossy(false);
	pair_destroy(&victim);
	pair_destroy(&p);
}

/* A WRITE of a packet that the peer did not send, behind the next that it will. */
static void forge_behind(struct pair *p, uint64_t key)
{
	uint8_t body[RETH_LEN + MTU];
	const long long before = hw_counter(&eb, "rx_kept");

	reth(body, p->buf[1] + CHUNK / 2, p->mr[1]->rkey, MTU);
	pattern_fill(body + RETH_LEN, key, 0, MTU);
	forge_pkt(forgers[0], p, 0, WRITE_ONLY, p->psn[0] + 2, body, sizeof(body));
	wait_counter(&eb, "rx_kept", before);
}

/* When two packets were dropped, of which @dropped had been before; or what there was when not */
static struct count when_dropped(long long dropped, double *when)
{
	const double end = now() + 3 * KEPT_AGE * patience_times();
	unsigned int num = 0;
	struct count got;

	do {
		got = count(&eb);
		while (num < 2 && got.dropped > dropped + num)
			when[num++] = now();
	} while (num < 2 && now() < end);
	return got;
}

/*
 * What was kept long ago is not the peer's, who would have had it acknowledged since. Until then,
 * that it is there hurts nobody; then it goes, whether something comes or not: who is old is looked
 * for once in that time.
 */
static void aged(void)
{
	const long long most = (2 * KEPT_AGE + patience_times()) * 1000;
	const uint64_t key = next_key++;
	double forged[2], dropped[2] = {};
	struct count before, got;
	long long stale;
	struct pair p;

	up(&p, CHUNK);
	works(&p, "before");
	memset(p.buf[1], 0, CHUNK);
	stale = hw_counter(&ea, "stale_ack");
	before = count(&eb);
	forged[0] = now();
	forge_behind(&p, key);
	/* of what is said of it at once, nothing is outstanding */
	wait_counter(&ea, "stale_ack", stale);
	sleep_ms(300);
	stale = hw_counter(&ea, "stale_ack");
	ok(served(&p, IBV_WR_RDMA_WRITE, MTU), "a WRITE before it");
	is(hw_counter(&ea, "stale_ack"), stale, "is acknowledged");
	forged[1] = now();
	forge_behind(&p, key);
	got = when_dropped(before.dropped, dropped);
	is(got.dropped - before.dropped, 2, "they are dropped when they are old");
	between((dropped[0] - forged[0]) * 1e3, AGED_MS, most, "ms until the first is");
	between((dropped[1] - forged[1]) * 1e3, AGED_MS, most, "ms until the second is");
	for (int i = 0; i < 8; i++)
		if (!served(&p, IBV_WR_RDMA_WRITE, MTU))
			die("no WRITE");
	ok(pattern_check(p.buf[1] + CHUNK / 2, key, 0, MTU) >= 0, "and never executed");
	works(&p, "after");
	pair_destroy(&p);
}

/* So does what a requester keeps, of a READ that nobody answers meanwhile. */
static void aged_responses(void)
{
	const long long most = (2 * KEPT_AGE + patience_times()) * 1000;
	const uint64_t key = next_key++;
	struct count before, got;
	uint8_t body[MTU];
	double forged, end;
	uint32_t psn;
	struct pair p;

	up(&p, CHUNK);
	if (qp_to(p.qp[0], IBV_QPS_RESET) || qp_to(p.qp[1], IBV_QPS_RESET))
		die("modify_qp");
	/* 4 s, and up to 17 s seven times again */
	p.conn.timeout = 20;
	pair_connect(&p);
	pattern_fill(p.buf[1], key, 0, CHUNK);
	memset(p.buf[0], 0, CHUNK);
	pattern_fill(body, next_key++, 0, MTU);
	psn = p.psn[0];
	if (qp_to(p.qp[1], IBV_QPS_RESET))
		die("modify_qp");
	pair_request(&p, IBV_WR_RDMA_READ, CHUNK);
	before = count(&ea);
	forged = now();
	forge_pkt(forgers[1], &p, 1, READ_RESPONSE_MIDDLE, psn + 2, body, MTU);
	wait_counter(&ea, "rx_kept", before.kept);
	end = forged + 3 * KEPT_AGE * patience_times();
	do {
		sleep_ms(10);
		got = count(&ea);
	} while (got.dropped == before.dropped && now() < end);
	between((now() - forged) * 1e3, AGED_MS, most, "ms until a response is dropped");
	is(got.dropped - before.dropped, 1, "it is counted");
	qp_connect(p.qp[1], &eb, p.psn[1], &(struct peer) {
		.qpn = p.qp[0]->qp_num, .psn = psn, .gid = ea.gid }, &p.conn);
	wc_is(p.scq[0], 1, IBV_WC_SUCCESS, NULL, "then the READ is answered");
	is(pattern_check(p.buf[0], key, 0, CHUNK), -1, "every byte, and none of that");
	works(&p, "after");
	pair_destroy(&p);
}

/* The responder is reset: what comes of a READ's response is forged. Then it is there again. */
static void responses(void)
{
	const uint32_t len = (2 * FULL + 1) * MTU;
	const uint64_t key = next_key++;
	struct pair p, victim;
	struct count got, over;
	uint32_t psn;

	up(&p, len);
	up(&victim, CHUNK);
	pattern_fill(p.buf[1], key, 0, len);
	memset(p.buf[0], 0, len);
	psn = p.psn[0];
	if (qp_to(p.qp[1], IBV_QPS_RESET))
		die("modify_qp");
	pair_request(&p, IBV_WR_RDMA_READ, len);
	p.psn[0] = psn;
	got = fill(&p, 0, READ_RESPONSE_MIDDLE, FULL, 2, key);
	bounded(&got, SIDE_FULL, "responses of a READ");
	over = count(&ea);
	forge_pkt(forgers[1], &p, 1, READ_RESPONSE_MIDDLE, psn + 2 * FULL + 100, p.buf[1], MTU);
	got = count(&ea);
	ok(got.kept == over.kept && got.dropped == over.dropped, "nor what was not asked for");
	works(&victim, "another queue pair");
	qp_connect(p.qp[1], &eb, p.psn[1], &(struct peer) {
		.qpn = p.qp[0]->qp_num, .psn = psn, .gid = ea.gid }, &p.conn);
	wc_is(p.scq[0], 1, IBV_WC_SUCCESS, NULL, "then comes the response");
	is(pattern_check(p.buf[0], key, 0, len), -1, "every byte");
	works(&p, "after");
	pair_destroy(&victim);
	pair_destroy(&p);
}

/* The sum of what @path has in lines that begin with @name, -1 if there are none */
static long sum_of(const char *path, const char *name)
{
	FILE *f = fopen(path, "r");
	char line[256];
	long sum = -1;

	while (f && fgets(line, sizeof(line), f)) {
		const char *at = line + strspn(line, " ");

		if (!strncmp(at, name, strlen(name)))
			sum = (sum < 0 ? 0 : sum) + strtol(at + strlen(name), NULL, 10);
	}
	if (f)
		fclose(f);
	return sum;
}

/*
 * In KB, roughly. Pages that processors have free for themselves are not among what is
 * available, and since Linux 6.7 (mm/page_alloc.c, zone_highsize()) they are up to an eighth
 * of all.
 */
static long available(void)
{
	return sum_of("/proc/meminfo", "MemAvailable:") +
	       sum_of("/proc/zoneinfo", "count:") * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Many queue pairs of one link, each as full as it gets */
static void link_full(void)
{
	enum { NUM = LINK_BYTES / SIDE_BYTES + 2 };
	static struct pair p[NUM];
	const long before = available();
	long long all = 0, one = 0;
	struct pair victim;
	struct count got;
	long full, after;
	double began;

	up(&victim, CHUNK);
	works(&victim, "before");
	began = now();
	for (int i = 0; i < NUM; i++) {
		up(&p[i], MTU);
		got = fill(&p[i], 1, WRITE_MIDDLE, i ? one + 10 : FULL, 2, 0);
		all += got.kept;
		one = i ? one : got.kept;
	}
	full = available();
	/* a packet pins the same each time */
	if (now() - began > 0.8 * KEPT_AGE) {
		skip("this machine is too slow: what came first has aged", "a full link");
		for (int i = 0; i < NUM; i++)
			pair_destroy(&p[i]);
		works(&victim, "after");
		pair_destroy(&victim);
		return;
	}
	ok(all <= one * LINK_BYTES / SIDE_BYTES + NUM && all >= 2 * one,
	   "%lld are kept, %lld of them for one", all, one);
	is(got.kept, 0, "there is no room for the last one");
	lossy(true);
	works(&victim, "2 % loss, another queue pair");
	lossy(false);
	for (int i = 0; i < NUM; i++)
		pair_destroy(&p[i]);
	/* a grace period and a while */
	for (int i = 0; i < 100 && available() < before - LINK_BYTES / 4096; i++)
		sleep_ms(50);
	after = available();
	diag("MB available: %ld, full %ld, after %ld", before >> 10, full >> 10, after >> 10);
	ok(before - full > LINK_BYTES / 2048 && before - after < LINK_BYTES / 4096,
	   "the memory is given back");
	up(&p[0], MTU);
	got = fill(&p[0], 1, WRITE_MIDDLE, FULL, 2, 0);
	is(got.kept, one, "and there is room as before");
	works(&victim, "after");
	pair_destroy(&p[0]);
	pair_destroy(&victim);
}

/* A WRITE of @len bytes to @mem begins. */
static void forge_first(struct pair *p, const uint8_t *mem, uint32_t rkey, uint32_t len,
			uint64_t key)
{
	uint8_t body[RETH_LEN + MTU];

	reth(body, mem, rkey, len);
	pattern_fill(body + RETH_LEN, key, 0, MTU);
	forge_pkt(forgers[0], p, 0, WRITE_FIRST, p->psn[0], body, sizeof(body));
}

/* A WRITE to the start of @mem, a packet more than may wait and some. Returns how many do. */
static long long wait_for_memory(struct pair *p, const uint8_t *mem, uint32_t rkey, uint32_t len,
				 uint64_t key)
{
	const uint32_t num = len / MTU;
	const long long come = hw_counter(&eb, "rx_pkts");
	const long long lost = hw_counter(&eb, "rx_late_dropped");
	uint8_t body[MTU];

	forge_first(p, mem, rkey, len, key);
	for (uint32_t i = 1; i < num; i++) {
		pattern_fill(body, key, (uint64_t)i * MTU, MTU);
		forge_pkt(forgers[0], p, 0, WRITE_MIDDLE, p->psn[0] + i, body, MTU);
	}
	while (hw_counter(&eb, "rx_pkts") - come < num)
		sleep_ms(10);
	return num - (hw_counter(&eb, "rx_late_dropped") - lost);
}

/* A file's page may be written once its file system thaws, FROZEN; who wants to has to wait. */
static void freeze(int fd, bool on)
{
	if (ioctl(fd, on ? FIFREEZE : FITHAW, 0))
		die("freeze: %s", strerror(errno));
}

/* A file on it, mapped, that comes on demand; -1 if that can't be had. */
static int frozen_memory(uint32_t len, uint8_t **mem, struct ibv_mr **mr)
{
	const char *dir = getenv("FROZEN");
	int fd = dir ? open(dir, O_TMPFILE | O_RDWR, 0600) : -1;

	if (fd < 0 || ftruncate(fd, len)) {
		skip("no file system to freeze", "memory that does not come");
		return -1;
	}
	*mem = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	*mr = *mem == MAP_FAILED ? NULL : ibv_reg_mr(eb.pd, *mem, len, ON_DEMAND);
	if (*mr)
		return fd;
	skip("no on-demand paging in this kernel", "memory that does not come");
	close(fd);
	return -1;
}

static void frozen_end(int fd, uint32_t len, uint8_t *mem, struct ibv_mr *mr)
{
	ibv_dereg_mr(mr);
	munmap(mem, len);
	close(fd);
}

/* Queue pairs of one link whose memory does not come, as a program may see to */
static void waiting(void)
{
	enum { NUM = 10 };
	const uint32_t len = (WAIT_PKTS + 100) * MTU;
	const uint64_t key = next_key++;
	long long num = 0, all = 0;
	struct pair p[NUM], victim;
	struct ibv_mr *mr;
	uint8_t *mem;
	int fd, i;

	fd = frozen_memory(len, &mem, &mr);
	if (fd < 0)
		return;
	up(&victim, CHUNK);
	works(&victim, "before");
	for (i = 0; i < NUM; i++)
		up(&p[i], MTU);
	/* from here on, nothing of ours may be mapped, nor may we fork */
	freeze(fd, true);
	for (i = 0; i < NUM; i++) {
		num = wait_for_memory(&p[i], mem, mr->rkey, len, key);
		if (!i)
			is(num, WAIT_PKTS, "packets of one wait for memory");
		all += num;
	}
	ok(all <= LINK_BYTES / MTU, "%lld packets of the link's wait", all);
	is(num, 0, "there is no room for the last one's");
	works(&victim, "another queue pair");
	freeze(fd, false);
	for (i = 0; i < 1000 && pattern_check(mem, key, 0, WAIT_PKTS * MTU) >= 0; i++)
		sleep_ms(20);
	is(pattern_check(mem, key, 0, WAIT_PKTS * MTU), -1, "memory comes: every byte is written");
	for (i = 0; i < NUM; i++)
		pair_destroy(&p[i]);
	/* its pages are dropped: they have to come again */
	if (ftruncate(fd, 0) || ftruncate(fd, len))
		die("truncate");
	up(&p[0], MTU);
	freeze(fd, true);
	is(wait_for_memory(&p[0], mem, mr->rkey, len, key), WAIT_PKTS, "and there is room as before");
	freeze(fd, false);
	works(&victim, "after");
	pair_destroy(&p[0]);
	pair_destroy(&victim);
	ibv_dereg_mr(mr);
	munmap(mem, len);
	close(fd);
}

/* More of them than threads that the kernel has for a queue of work: others get theirs. */
static void others(void)
{
	enum { NUM = 300 };
	static struct pair p[NUM];
	const uint64_t key = next_key++;
	const struct end all = eb;
	struct ibv_mr *mr, *theirs;
	uint8_t *mem, *want;
	struct pair victim;
	struct ibv_wc wc;
	long long come;
	int fd, i;

	fd = frozen_memory(2 * MTU, &mem, &mr);
	if (fd < 0)
		return;
	for (i = 0; i < NUM; i++)
		up(&p[i], MTU);
	/* a program of its own, as far as the device knows */
	end_open(&eb, all.name, "192.168.77.2");
	up(&victim, CHUNK);
	want = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	theirs = want == MAP_FAILED ? NULL : ibv_reg_mr(eb.pd, want, CHUNK, ON_DEMAND);
	if (!theirs)
		die("no memory on demand");
	come = hw_counter(&eb, "rx_pkts");
	freeze(fd, true);
	for (i = 0; i < NUM; i++)
		forge_first(&p[i], mem, mr->rkey, 2 * MTU, key);
	while (hw_counter(&eb, "rx_pkts") - come < NUM)
		sleep_ms(10);

	pattern_fill(victim.buf[0], key + 1, 0, CHUNK);
	errno = POST(victim.qp[0], .wr_id = 1, .send_flags = SIG, .opcode = IBV_WR_RDMA_WRITE,
		     .num_sge = 1, .sg_list = SGE(victim.buf[0], CHUNK, victim.mr[0]->lkey),
		     .wr.rdma = { .remote_addr = (uintptr_t)want, .rkey = theirs->rkey });
	if (errno)
		die("post_send");
	ok(cq_wait(victim.scq[0], &wc, PATIENCE) && wc.status == IBV_WC_SUCCESS,
	   "another program's memory comes on demand");
	freeze(fd, false);
	is(pattern_check(want, key + 1, 0, CHUNK), -1, "every byte is written");
	for (i = 0; i < 1000 && pattern_check(mem, key, 0, MTU) >= 0; i++)
		sleep_ms(20);
	is(pattern_check(mem, key, 0, MTU), -1, "and so is the first one's");
	next_key++;
	pair_destroy(&victim);
	ibv_dereg_mr(theirs);
	munmap(want, CHUNK);
	end_close(&eb);
	eb = all;
	for (i = 0; i < NUM; i++)
		pair_destroy(&p[i]);
	frozen_end(fd, 2 * MTU, mem, mr);
}

#define HEAD 100

/*
 * Side 1 READs at once: into its own memory and, in the midst of a packet, into @mem; and into its
 * own memory.
 */
static void post_reads(struct pair *p, void *mem, uint32_t lkey, uint32_t len)
{
	struct ibv_sge list[2] = {
		{ .addr = (uintptr_t)p->buf[1], .length = HEAD, .lkey = p->mr[1]->lkey },
		{ .addr = (uintptr_t)mem, .length = len - HEAD, .lkey = lkey },
	};
	struct ibv_send_wr wr[2] = {
		{ .wr_id = 1, .sg_list = list, .num_sge = 2, .next = &wr[1] },
		{ .wr_id = 2, .sg_list = SGE(p->buf[1] + len, len, p->mr[1]->lkey), .num_sge = 1 },
	};
	int i;

	for (i = 0; i < 2; i++) {
		wr[i].opcode = IBV_WR_RDMA_READ;
		wr[i].send_flags = SIG;
		wr[i].wr.rdma.remote_addr = (uintptr_t)p->buf[0] + i * len;
		wr[i].wr.rdma.rkey = p->mr[0]->rkey;
	}
	if (wr_post(p->qp[1], wr))
		die("post_send");
}

/* Who has been answered does not ask again once its memory comes: nobody may be there any more. */
static void answered(void)
{
	const uint32_t len = 3 * MTU;
	const uint64_t key = next_key++;
	long long come, again;
	struct ibv_mr *mr;
	struct pair p;
	uint8_t *mem;
	bool quiet;
	int fd;

	fd = frozen_memory(len, &mem, &mr);
	if (fd < 0)
		return;
	up(&p, 2 * len);
	pattern_fill(p.buf[0], key, 0, 2 * len);
	come = hw_counter(&eb, "rcvd_response") + 2 * 3;
	again = hw_counter(&ea, "duplicate_request");
	freeze(fd, true);
	post_reads(&p, mem, mr->lkey, len);
	wait_counter(&eb, "rcvd_response", come - 1);
	quiet = cq_quiet(p.scq[1], 0.2);
	if (qp_to(p.qp[0], IBV_QPS_ERR))
		die("modify_qp to ERR");
	freeze(fd, false);
	ok(quiet, "READs whose memory does not come have not ended");
	wc_is(p.scq[1], 1, IBV_WC_SUCCESS, NULL, "memory comes: one ends, whose peer has gone");
	wc_is(p.scq[1], 2, IBV_WC_SUCCESS, NULL, "and the one behind it");
	is(pattern_check(p.buf[1], key, 0, HEAD), -1, "every byte is read, before that memory");
	is(pattern_check(mem, key, HEAD, len - HEAD), -1, "into it");
	is(pattern_check(p.buf[1] + len, key, len, len), -1, "and by the other");
	is(hw_counter(&ea, "duplicate_request"), again, "nothing was asked for again");
	pair_destroy(&p);
	frozen_end(fd, len, mem, mr);
}

/* A WRITE of a packet into @p's own memory and, in the same turn, one to @at. */
static void post_two(struct pair *p, const void *at, uint32_t rkey)
{
	struct ibv_send_wr second = {
		.wr_id = 2, .send_flags = SIG, .opcode = IBV_WR_RDMA_WRITE,
		.num_sge = 1, .sg_list = SGE(p->buf[0], MTU, p->mr[0]->lkey),
		.wr.rdma = { .remote_addr = (uintptr_t)at, .rkey = rkey },
	};
	struct ibv_send_wr first = second, *bad;

	first.wr_id = 1;
	first.next = &second;
	first.wr.rdma.remote_addr = (uintptr_t)p->buf[1];
	first.wr.rdma.rkey = p->mr[1]->rkey;
	if (ibv_post_send(p->qp[0], &first, &bad))
		die("post_send");
}

/*
 * The requester asks for an acknowledgement behind the second of two WRITEs, whose memory does not
 * come, and its probes wait with it: the first is acknowledged all the same.
 */
static void ahead(void)
{
	const uint64_t key = next_key++;
	bool first, second;
	struct ibv_wc wc;
	struct ibv_mr *mr;
	struct pair p;
	uint8_t *mem;
	int fd;

	fd = frozen_memory(MTU, &mem, &mr);
	if (fd < 0)
		return;
	up(&p, MTU);
	pattern_fill(p.buf[0], key, 0, MTU);
	freeze(fd, true);
	post_two(&p, mem, mr->rkey);
	first = cq_wait(p.scq[0], &wc, PATIENCE) && !wc.status && wc.wr_id == 1;
	second = ibv_poll_cq(p.scq[0], 1, &wc);
	/* whatever came of it, or nobody could undo what waits */
	freeze(fd, false);
	ok(first, "what is before it is acknowledged");
	ok(!second, "what waits is not");
	ok(cq_wait(p.scq[0], &wc, PATIENCE) && !wc.status && (!first || wc.wr_id == 2),
	   "memory comes: it is");
	is(pattern_check(p.buf[1], key, 0, MTU), -1, "every byte of the first is written");
	is(pattern_check(mem, key, 0, MTU), -1, "every byte of the second is written");
	pair_destroy(&p);
	ibv_dereg_mr(mr);
	munmap(mem, MTU);
	close(fd);
}

/* A chunk of what odp.c notes, and so of what it brings at a time */
#define ODP_CHUNK (2UL << 20)

static bool write_to(struct pair *p, const uint8_t *at, uint32_t rkey)
{
	struct ibv_wc wc;

	errno = POST(p->qp[0], .wr_id = 1, .send_flags = SIG, .opcode = IBV_WR_RDMA_WRITE,
		     .num_sge = 1, .sg_list = SGE(p->buf[0], MTU, p->mr[0]->lkey),
		     .wr.rdma = { .remote_addr = (uintptr_t)at, .rkey = rkey });
	if (errno)
		die("post_send");
	return cq_wait(p->scq[0], &wc, PATIENCE) && wc.status == IBV_WC_SUCCESS;
}

/*
 * A page of a region does not come, for who has asked for it and for more prefetches than there
 * are threads: other pages of the region do.
 */
static void beside(void)
{
	const size_t len = 6 * ODP_CHUNK;
	const uint64_t key = next_key++;
	struct pair p, stuck;
	struct ibv_mr *frozen, *mr;
	bool beside, behind;
	uint8_t *page, *mem;
	int fd, i;

	fd = frozen_memory(MTU, &page, &frozen);
	if (fd < 0)
		return;
	mem = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem == MAP_FAILED ||
	    mmap(mem, MTU, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != mem)
		die("mmap");
	mr = ibv_reg_mr(eb.pd, mem, len, ON_DEMAND);
	if (!mr)
		die("reg_mr");
	up(&p, MTU);
	up(&stuck, MTU);
	pattern_fill(p.buf[0], key, 0, MTU);
	freeze(fd, true);
	wait_for_memory(&stuck, mem, mr->rkey, 2 * MTU, key);
	beside = write_to(&p, mem + 2 * ODP_CHUNK, mr->rkey);
	for (i = 0; beside && i < 20; i++)
		if (ibv_advise_mr(eb.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0,
				  SGE(mem, MTU, mr->lkey), 1))
			die("advise_mr");
	behind = beside && write_to(&p, mem + 4 * ODP_CHUNK, mr->rkey);
	/* whatever came of it, or nobody could undo what waits */
	freeze(fd, false);
	ok(beside, "another page of the region comes");
	ok(behind, "and with prefetches of the one that does not");
	for (i = 0; i < 1000 && pattern_check(mem, key, 0, MTU) >= 0; i++)
		sleep_ms(20);
	is(pattern_check(mem, key, 0, MTU), -1, "memory comes: it is written");
	is(pattern_check(mem + 2 * ODP_CHUNK, key, 0, MTU), -1, "every byte of another page");
	is(pattern_check(mem + 4 * ODP_CHUNK, key, 0, MTU), -1, "every byte of a third");
	pair_destroy(&p);
	pair_destroy(&stuck);
	ibv_dereg_mr(mr);
	ibv_dereg_mr(frozen);
	munmap(mem, len);
	munmap(page, MTU);
	close(fd);
}

/* A process that was there before: what it does needs none of our memory, which is waited for. */
struct helper {
	pid_t pid;
	int go, said;
};

static struct helper helper_start(int (* const does[])(void), int num)
{
	int go[2], said[2], i, err;
	struct helper h;
	char c;

	if (pipe(go) || pipe(said))
		die("pipe");
	fflush(stdout);
	h.pid = fork();
	if (h.pid < 0)
		die("fork");
	if (!h.pid) {
		for (i = 0; i < num; i++) {
			if (read(go[0], &c, 1) != 1)
				_exit(1);
			err = does[i]();
			if (write(said[1], &err, sizeof(err)) != sizeof(err))
				_exit(1);
		}
		_exit(0);
	}
	close(go[0]);
	close(said[1]);
	h.go = go[1];
	h.said = said[0];
	return h;
}

static void helper_go(const struct helper *h)
{
	if (write(h->go, "", 1) != 1)
		die("write");
}

/* What came of it: 0 or an errno; -1 if it is not done in so many seconds. */
static int helper_said(const struct helper *h, double seconds)
{
	struct pollfd p = { .fd = h->said, .events = POLLIN };
	int err;

	if (poll(&p, 1, seconds * 1000) != 1)
		return -1;
	return read(h->said, &err, sizeof(err)) == sizeof(err) ? err : EPIPE;
}

static void helper_end(struct helper *h)
{
	close(h->go);
	close(h->said);
	waitpid(h->pid, NULL, 0);
}

/*
 * What small packets pin of a page that they are cut from. A process cuts those that it sends in
 * pieces from one page after another, and no other process has those.
 */
#define PAGE_PIECES 32768

/* PSNs ahead of the next that is due: the joined ones leave one out, which would part them */
enum { OF_PAGE = 1, AFTER = 2, OF_ANOTHER = 3, JOINED = 5, PARTS = 6, BESIDE = 100 };
#define NUM_JOINED 15

static struct pair crowded;
static int udp_fd;		/* on side 0's host */
static struct sockaddr_in udp_to = { .sin_family = AF_INET };

static void udp_open(void)
{
	struct sockaddr_in from = { .sin_family = AF_INET, .sin_port = htons(FORGED_PORT) };
	const int home = host_enter("a");

	memcpy(&from.sin_addr, ea.gid.raw + 12, 4);
	memcpy(&udp_to.sin_addr, eb.gid.raw + 12, 4);
	udp_to.sin_port = htons(4791);
	udp_fd = socket(AF_INET, SOCK_DGRAM, 0);
	/* which are never cut, and have no ID */
	if (udp_fd < 0 || bind(udp_fd, (void *)&from, sizeof(from)) ||
	    setsockopt(udp_fd, IPPROTO_IP, IP_MTU_DISCOVER, &(int) { IP_PMTUDISC_DO }, sizeof(int)))
		die("UDP socket: %s", strerror(errno));
	host_leave(home);
}

static int udp_send(const uint8_t *buf, size_t len, int flags)
{
	return sendto(udp_fd, buf, len, flags, (void *)&udp_to, sizeof(udp_to)) < 0 ? -1 : 0;
}

/* What is sent in a second piece is put into a page. */
static int send_piece(uint32_t ahead)
{
	uint8_t ip[FORGED_MAX], body[64] = {};
	const size_t len = forge_into(ip, &crowded, 0, 0, SEND_ONLY, crowded.psn[0] + ahead, body,
				      sizeof(body));
	const size_t second = len - sizeof(body);

	if (udp_send(ip + FORGED_BTH, second - FORGED_BTH, MSG_MORE) ||
	    udp_send(ip + second, sizeof(body), 0))
		return errno;
	return 0;
}

static int send_of_page(void)
{
	return send_piece(OF_PAGE);
}

static int send_parting(void)
{
	return send_piece(PARTS);
}

static int send_of_another(void)
{
	return send_piece(OF_ANOTHER);
}

static int send_after(void)
{
	return send_piece(AFTER);
}

#define PIECES 16

/* All of the page that this thread cuts pieces from is gone: of another socket, which sends nothing. */
static void use_page(void)
{
	static const uint8_t rest[PAGE_PIECES];
	const struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	/* what begins a message is not of that page */
	if (fd < 0 || sendto(fd, rest, 1, MSG_MORE, (void *)&to, sizeof(to)) < 0 ||
	    sendto(fd, rest, sizeof(rest), MSG_MORE, (void *)&to, sizeof(to)) < 0)
		die("a page: %s", strerror(errno));
	close(fd);
}

/* A packet of a few bytes, of which almost each has a page to itself */
static void send_pieces(const struct pair *p, uint32_t ahead)
{
	uint8_t ip[FORGED_MAX], body[64] = {};
	size_t len, at, n;

	len = forge_into(ip, p, 0, 0, SEND_ONLY, p->psn[0] + ahead, body, sizeof(body));
	for (at = FORGED_BTH; at < len; at += n) {
		n = (len - FORGED_BTH + PIECES - 1) / PIECES;
		n = len - at < n ? len - at : n;
		if (udp_send(ip + at, n, at + n < len ? MSG_MORE : 0))
			die("a piece: %s", strerror(errno));
		if (at > FORGED_BTH)
			use_page();
	}
}

/*
 * What small packets pin is more than what is in them, by their sender's choice: it counts, and
 * where little room is left it is not pinned, as a copy is kept.
 */
static void pieces(void)
{
	/* of what may be kept, if the pages count, but for that which a packet shares with the next */
	enum { MOST = SIDE_BYTES / ((PIECES - 3) * PAGE_PIECES), NUM = 8 * MOST };
	const long free_before = available();
	struct count before, got;
	struct pair p;
	int home, i;
	long taken;

	udp_open();
	up(&p, CHUNK);
	before = count(&eb);
	home = host_enter("a");
	for (i = 0; i < NUM; i++)
		send_pieces(&p, 2 + 2 * i);
	host_leave(home);
	do {
		got = count(&eb);
	} while (got.kept + got.dropped - before.kept - before.dropped < NUM);
	taken = free_before - available();
	diag("%d packets, %ld MB", NUM, taken >> 10);
	is(got.kept - before.kept, NUM, "packets that pin many pages each: all are kept");
	ok(taken < 2 * SIDE_BYTES / 1024, "and take no more memory than a side may");
	pair_destroy(&p);
	close(udp_fd);
}

/* In one skb, the second right behind the gap */
static long long send_joined(void)
{
	static uint8_t buf[65536];
	const long long before = count(&eb).kept;
	uint8_t ip[FORGED_MAX], body[MTU] = {};
	size_t len = 0, seg = 0;
	int i;

	for (i = 0; i < NUM_JOINED; i++) {
		seg = forge_into(ip, &crowded, 0, 0, WRITE_MIDDLE,
				 crowded.psn[0] + JOINED + i + !!i, body, MTU) - FORGED_BTH;
		memcpy(buf + len, ip + FORGED_BTH, seg);
		len += seg;
	}
	if (setsockopt(udp_fd, IPPROTO_UDP, UDP_SEGMENT, &(int) { seg }, sizeof(int)) ||
	    udp_send(buf, len, 0) ||
	    setsockopt(udp_fd, IPPROTO_UDP, UDP_SEGMENT, &(int) { 0 }, sizeof(int)))
		die("joined packets: %s", strerror(errno));
	wait_counter(&eb, "rx_kept", before + NUM_JOINED - 1);
	return count(&eb).kept - before;
}

static struct count fill_beside(uint32_t num)
{
	struct count got;

	crowded.psn[0] += BESIDE;
	got = fill(&crowded, 1, WRITE_MIDDLE, num, 1, 0);
	crowded.psn[0] -= BESIDE;
	return got;
}

static bool helper_kept(const struct helper *h)
{
	const struct count before = count(&eb);

	helper_go(h);
	if (helper_said(h, PATIENCE))
		die("a helper sent nothing");
	return more_kept(before);
}

/*
 * There is no room for a page, and none is pinned. One that is refused, as it would part what came in
 * one skb, leaves the room as it was.
 */
static void refused(void)
{
	static int (* const of_page[])(void) = { send_of_page, send_parting };
	static int (* const of_another[])(void) = { send_of_another, send_after };
	bool pins, parts, another_before, another_after;
	struct helper page, another;
	long long each, joined;
	struct count got;
	double began;

	udp_open();
	up(&crowded, CHUNK);
	send_joined();
	got = fill_beside(FULL);
	each = SIDE_BYTES / got.kept;
	pair_destroy(&crowded);

	/* room for a few packets: not for a page, nor for all the joined ones again */
	up(&crowded, CHUNK);
	page = helper_start(of_page, 2);
	another = helper_start(of_another, 2);
	began = now();
	joined = send_joined();
	got = fill_beside(got.kept - PAGE_PIECES / 3 / each - 1);
	pins = helper_kept(&page);
	another_before = helper_kept(&another);
	parts = helper_kept(&page);
	another_after = helper_kept(&another);
	if (now() - began > 0.8 * KEPT_AGE) {
		skip("this machine is too slow: what came first has aged", "a page's charge");
	} else {
		is(joined, NUM_JOINED, "packets of one skb are kept");
		is(got.dropped, 0, "many beside them");
		ok(pins, "one that would pin a page");
		ok(another_before, "one of another page");
		ok(!parts, "none that parts what came in one skb");
		ok(another_after, "but still one that does not");
	}
	helper_end(&page);
	helper_end(&another);
	pair_destroy(&crowded);
	close(udp_fd);
}

/* So long is what waits looked at; what does not wait is done in much less. */
#define A_WHILE 1.5

static struct pair stuck, aside;

static int destroy_aside(void)
{
	return ibv_destroy_qp(aside.qp[1]);
}

static int destroy_stuck(void)
{
	return ibv_destroy_qp(stuck.qp[1]);
}

static int end_link(void)
{
	return system(cmd_down) ? ECHILD : 0;
}

/* The page is being waited for. */
static void get_stuck(const uint8_t *mem, uint32_t rkey)
{
	const long long come = hw_counter(&eb, "rx_pkts");

	forge_first(&stuck, mem, rkey, 2 * MTU, next_key);
	wait_counter(&eb, "rx_pkts", come);
	sleep_ms(200);
}

/*
 * Packets that wait for memory are their queue pair's, which is there as long as they are. It is in
 * RESET meanwhile: if its netdev goes, it has no route any more that could be of a namespace that has
 * ended before.
 */
static void destroys(void)
{
	static int (* const does[])(void) = { destroy_aside, destroy_stuck };
	enum { RECVS = 13 };
	struct sroce_ring *ring;
	struct ibv_mr *mr;
	struct helper h;
	uint8_t *mem;
	int fd, other, early, late;
	bool reset;

	fd = frozen_memory(2 * MTU, &mem, &mr);
	if (fd < 0)
		return;
	ring_before();
	up(&stuck, MTU);
	for (int i = 0; i < RECVS; i++)
		if (pair_recv(&stuck, 1, i, 0, MTU))
			die("post_recv");
	ring = ring_at(RECVS);
	up(&aside, MTU);
	h = helper_start(does, 2);
	freeze(fd, true);
	get_stuck(mem, mr->rkey);
	helper_go(&h);
	other = helper_said(&h, PATIENCE);
	helper_go(&h);
	early = helper_said(&h, A_WHILE);
	/* that is what a program sees of it */
	reset = !__atomic_load_n(&ring->prod, __ATOMIC_ACQUIRE);
	/* whatever came of it, or nobody could undo what waits */
	freeze(fd, false);
	late = early < 0 ? helper_said(&h, PATIENCE) : early;
	is(other, 0, "another queue pair is destroyed");
	is(early, -1, "one whose memory does not come is not yet");
	ok(reset, "but it is in RESET");
	is(late, 0, "memory comes: it is");
	helper_end(&h);
	stuck.qp[1] = NULL;
	aside.qp[1] = NULL;
	pair_destroy(&stuck);
	pair_destroy(&aside);
	frozen_end(fd, 2 * MTU, mem, mr);
}

static int reset_stuck(void)
{
	return ibv_modify_qp(stuck.qp[1], &(struct ibv_qp_attr) { .qp_state = IBV_QPS_RESET },
			     IBV_QP_STATE);
}

static int ask_stuck(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return ibv_query_qp(stuck.qp[1], &attr, IBV_QP_STATE, &init);
}

/* Who asks about a queue pair, as anybody's "rdma resource show qp" does, does not wait for that. */
static void asks(void)
{
	static int (* const resets[])(void) = { reset_stuck }, (* const query[])(void) = { ask_stuck };
	struct helper h, asking;
	int fd, told, early, late;
	struct ibv_mr *mr;
	uint8_t *mem;

	fd = frozen_memory(2 * MTU, &mem, &mr);
	if (fd < 0)
		return;
	up(&stuck, MTU);
	h = helper_start(resets, 1);
	asking = helper_start(query, 1);
	freeze(fd, true);
	get_stuck(mem, mr->rkey);
	helper_go(&h);
	early = helper_said(&h, A_WHILE);
	helper_go(&asking);
	told = helper_said(&asking, A_WHILE);
	/* whatever came of it, or nobody could undo what waits */
	freeze(fd, false);
	late = early < 0 ? helper_said(&h, PATIENCE) : early;
	is(early, -1, "a queue pair whose memory does not come is not reset yet");
	is(told, 0, "and can be asked about");
	is(late, 0, "memory comes: it is reset");
	helper_end(&h);
	helper_end(&asking);
	pair_destroy(&stuck);
	frozen_end(fd, 2 * MTU, mem, mr);
}

/* Before a link's end waits for anything, there is none any more for calls. */
static bool end_begins(void)
{
	const double end = now() + PATIENCE;
	struct ibv_port_attr attr;

	while (ibv_query_port(eb.ctx, 1, &attr) != EIO) {
		if (now() > end)
			return false;
		sleep_ms(10);
	}
	return true;
}

/* And so is the link. */
static void ends(void)
{
	static int (* const does[])(void) = { end_link };
	struct ibv_mr *mr;
	struct helper h;
	uint8_t *mem;
	int fd, early, late;
	bool begins;

	if (!cmd_down || !cmd_up)
		die("no --down COMMAND, --up COMMAND");
	fd = frozen_memory(2 * MTU, &mem, &mr);
	if (fd < 0)
		return;
	up(&stuck, MTU);
	h = helper_start(does, 1);
	freeze(fd, true);
	get_stuck(mem, mr->rkey);
	helper_go(&h);
	begins = end_begins();
	early = helper_said(&h, A_WHILE);
	/* whatever came of it, or nobody could undo what waits */
	freeze(fd, false);
	late = early < 0 ? helper_said(&h, PATIENCE) : early;
	ok(begins, "the link is about to end");
	is(early, -1, "while memory does not come it does not");
	is(late, 0, "memory comes: it does");
	helper_end(&h);
	/* what is left of it are the program's own names: EIO or nothing, as libibverbs has it */
	ibv_destroy_qp(stuck.qp[1]);
	ibv_destroy_cq(stuck.scq[1]);
	ibv_destroy_cq(stuck.rcq[1]);
	ibv_dereg_mr(stuck.mr[1]);
	ibv_dereg_mr(mr);
	ibv_dealloc_pd(eb.pd);
	is(ibv_close_device(eb.ctx), 0, "the device is closed");
	munmap(mem, 2 * MTU);
	close(fd);
	command(cmd_up);
	end_open(&eb, eb.name, NULL);
	if (ibv_destroy_qp(stuck.qp[0]) || ibv_destroy_cq(stuck.scq[0]) ||
	    ibv_destroy_cq(stuck.rcq[0]) || ibv_dereg_mr(stuck.mr[0]))
		die("destroy");
	up(&stuck, CHUNK);
	works(&stuck, "the next one");
	pair_destroy(&stuck);
}

static const struct test tests[] = {
	TEST(requests),
	TEST(empty),
	TEST(far_ahead),
	TEST(aged),
	TEST(aged_responses),
	TEST(responses),
	TEST(refused),
	TEST(pieces),
	TEST(link_full),
	TEST(waiting),
	TEST(others),
	TEST(answered),
	TEST(ahead),
	TEST(beside),
	TEST(destroys),
	TEST(asks),
	TEST(ends),
};

int main(int argc, char **argv)
{
	forgers[0] = forger_on("a");
	forgers[1] = forger_on("b");
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
