// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Schedules, by their numbers, and what has to hold in each of them: every message
 * is completed once and in order; it has been delivered once, in order and intact; an
 * ATOMIC has been executed once, and its result is right; what is kept stays within
 * its bounds; an error comes only when its retries have been made; and it ends.
 */
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include "model.h"

struct world w;
u64 seen[NUM_SEEN];
int verbose;

static const char *const seen_names[NUM_SEEN] = {
	[SEEN_KEPT] = "kept",
	[SEEN_KEPT_NOT] = "kept_not",
	[SEEN_GAP_NAK] = "gap_nak",
	[SEEN_RNR_NAK] = "rnr_nak",
	[SEEN_DUPLICATE] = "duplicate",
	[SEEN_REPLAYED] = "replayed",
	[SEEN_PART] = "part_of_read",
	[SEEN_PARTED] = "parted_read",
	[SEEN_ASKED_ON] = "asked_on",
	[SEEN_RESUMED] = "resumed",
	[SEEN_REPAIR] = "repair",
	[SEEN_PROBE] = "probe",
	[SEEN_TIMEOUT] = "timeout",
	[SEEN_GO_BACK] = "go_back",
	[SEEN_IMPLIED] = "implied_nak",
	[SEEN_KEEPS] = "peer_keeps",
	[SEEN_DROPS] = "peer_drops",
	[SEEN_LATE] = "late",
	[SEEN_REPORT] = "gap_report",
	[SEEN_SWEPT] = "swept",
	[SEEN_PART_LATER] = "part_later",
	[SEEN_GREETED] = "greeted",
	[SEEN_REQUEST_AGAIN] = "request_again",
	[SEEN_OVERTAKEN] = "overtaken",
	[SEEN_PASSED] = "passed",
	[SEEN_CONTRADICTED] = "contradicted",
	[SEEN_HELD] = "held",
	[SEEN_RELEASED] = "released",
	[SEEN_WAITS_MORE] = "waits_more",
	[SEEN_WAITS_LESS] = "waits_less",
	[SEEN_STOPPED] = "stopped",
	[SEEN_LIES] = "lies",
	[SEEN_REFUSED] = "refused",
	[SEEN_NO_MEMORY] = "no_memory",
	[SEEN_CORRUPT] = "corrupt",
	[SEEN_LOST] = "lost",
	[SEEN_SENT] = "packets",
};

static const char *const status_names[NUM_STATUS] = {
	[WC_NONE] = "none",
	[WC_SUCCESS] = "success",
	[WC_WR_FLUSH_ERR] = "WR_FLUSH_ERR",
	[WC_BAD_RESP_ERR] = "BAD_RESP_ERR",
	[WC_REM_INV_REQ_ERR] = "REM_INV_REQ_ERR",
	[WC_REM_ACCESS_ERR] = "REM_ACCESS_ERR",
	[WC_REM_OP_ERR] = "REM_OP_ERR",
	[WC_RETRY_EXC_ERR] = "RETRY_EXC_ERR",
	[WC_RNR_RETRY_EXC_ERR] = "RNR_RETRY_EXC_ERR",
};

/* Random numbers: xorshift64*, from a schedule's number */

static u64 rnd_state;

static u64 mix(u64 v)
{
	v += 0x9e3779b97f4a7c15ULL;
	v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9ULL;
	v = (v ^ v >> 27) * 0x94d049bb133111ebULL;
	return v ^ v >> 31;
}

u64 rnd(void)
{
	rnd_state ^= rnd_state >> 12;
	rnd_state ^= rnd_state << 25;
	rnd_state ^= rnd_state >> 27;
	return rnd_state * 0x2545f4914f6cdd1dULL;
}

u32 rnd_below(u32 n)
{
	return (u32)((rnd() >> 32) * n >> 32);
}

static u32 rnd_from(u32 lo, u32 hi)
{
	return lo + rnd_below(hi - lo + 1);
}

bool chance(u32 of_thousand)
{
	return of_thousand && rnd_below(1000) < of_thousand;
}

/* Often nothing of it, else up to @most. */
static u32 rnd_often_none(u32 most)
{
	return chance(500) ? 0 : rnd_below(most + 1);
}

static void rnd_fill(u8 *p, u32 len)
{
	u64 v = 0;

	for (; len; len--, v >>= 8) {
		if (len % 8 == 0 || !v)
			v = rnd() | 1ULL << 63;
		*p++ = (u8)v;
	}
}

/* What is said */

void say(const char *fmt, ...)
{
	const ktime_t t = ktime_get() - NSEC_PER_SEC;
	va_list ap;

	printf("# %10lld.%03lld ", (long long)(t / 1000), (long long)(t % 1000));
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

void failed(const char *fmt, ...)
{
	va_list ap;

	printf("SCHEDULE %llu: ", (unsigned long long)w.plan.number);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf(" (at %lld us)\n", (long long)(ktime_get() - NSEC_PER_SEC) / 1000);
	exit(1);
}

/* What has to hold */

static u32 completed;
static bool ended;

/*
 * A peer that has refused a request answers no other: a READ or ATOMIC before that whose answer
 * was lost can't end well any more, and ends when its retries have been made.
 */
static void check_error(u32 index, enum status status)
{
	switch (status) {
	case WC_RETRY_EXC_ERR:
	case WC_RNR_RETRY_EXC_ERR:
		return;
	case WC_REM_ACCESS_ERR:
		if (index == w.plan.bad_key)
			return;
		break;
	default:
		break;
	}
	failed("message %u ends with %s", index, status_names[status]);
}

static void check_success(u32 index)
{
	const struct msg *m = &w.msg[index];

	if (index >= w.executed)
		failed("message %u is complete, and was not executed", index);
	if (takes_resource(&send_ops[m->opcode]) && m->length &&
	    memcmp(m->buf, m->want, m->length))
		failed("message %u: what it has read is not what was there", index);
}

void check_completion(u32 index, enum status status)
{
	trace("message %u: %s", index, status_names[status]);
	if (index != completed || w.msg[index].status != WC_NONE)
		failed("message %u is completed in the place of %u", index, completed);
	if (ended != (status == WC_WR_FLUSH_ERR))
		failed("message %u ends with %s, the one before it %s", index,
		       status_names[status], ended ? "did not" : "did");
	completed++;
	w.msg[index].status = status;
	if (status == WC_SUCCESS) {
		check_success(index);
	} else if (!ended) {
		check_error(index, status);
		ended = true;
	}
}

void check_progress(void)
{
	w.progress = ktime_get();
	w.naks = 0;
	w.rnr_naks = 0;
}

/* The packets of a READ's response are asked for with it. */
void note_sent(u32 psn, u32 psns)
{
	u32 i = (u32)wire_psn_diff(psn, w.plan.psn);

	if (i + psns > ARRAY_SIZE(w.sends))
		failed("PSN %u was never to be sent", psn);
	if (!w.sends[i] && psn == w.sq.psn_una)
		check_progress();
	w.drawn++;
	while (psns--)
		w.sends[i++]++;
}

/*
 * It ends where something is that has come, which is kept until the part has, too; or, by itself,
 * is as long as one may be. It is of a request that the peer has: else it would be one by itself.
 */
void check_part(u32 psn, u32 len, bool alone)
{
	const u32 end = wire_psn_add(psn, len / MTU);
	bool ends = alone && len / MTU <= max(w.plan.ask, w.plan.window);
	u32 i;

	for (i = 0; i < w.sq.kept.num; i++)
		ends |= w.sq.kept.entry[i]->rx.pkt.psn == end;
	if (!ends || len % MTU)
		failed("%u bytes of a READ are asked for, from PSN %u: what follows is not kept", len,
		       psn);
	if (wire_psn_diff(w.rq.epsn, end) < 0)
		failed("%u bytes of a READ are asked for, from PSN %u: the peer has no such request",
		       len, psn);
}

/* The peer is to have these by this sweep, or has them. */
void note_swept(u32 psn, u32 psns)
{
	u32 i = (u32)wire_psn_diff(psn, w.plan.psn);

	while (psns--)
		w.swept[i++] = w.sweeps;
}

/* What counts as sent by a sweep was sent by it: else nobody comes for it until it is overdue. */
void check_swept(u32 psn, u32 end)
{
	for (; wire_psn_diff(psn, end) < 0; psn = wire_psn_add(psn, 1))
		if (w.swept[wire_psn_diff(psn, w.plan.psn)] != w.sweeps)
			failed("PSN %u is missing, and counts as sent when it was not", psn);
}

static u32 sends_of_oldest(void)
{
	return w.sends[wire_psn_diff(w.sq.psn_una, w.plan.psn)];
}

/*
 * It gives up: has the oldest packet been sent as often as it may be? A device that
 * takes nothing for a while may have been in the way of one. What no NAK has asked
 * for took a timeout each.
 */
void check_retries(u8 syndrome)
{
	const ktime_t least = 4096LL << w.plan.timeout;
	const ktime_t waited = ktime_get() - w.progress;
	const u32 tries = 1 + w.plan.retry_cnt;

	if (sends_of_oldest() < tries && !w.plan.refuse && !w.plan.no_memory)
		failed("gives up after %u sendings, syndrome %#x, with %u retries",
		       sends_of_oldest(), syndrome, w.plan.retry_cnt);
	if (w.naks < tries && waited < (tries - w.naks) * least)
		failed("gives up after %lld us and %u NAKs, with %u retries",
		       (long long)waited / 1000, w.naks, w.plan.retry_cnt);
}

/*
 * One that the network doubles counts once, but for a copy that comes when its wait is
 * over: nothing tells that from another.
 */
void check_rnr_retries(void)
{
	if (w.plan.rnr_retry == 7 || w.rnr_naks < 1 + w.plan.rnr_retry)
		failed("gives up after %u RNR NAKs, with %u retries", w.rnr_naks,
		       w.plan.rnr_retry);
}

/* Does message @m to @mem. What it returns goes to @result. */
static void execute(const struct msg *m, u8 *mem, u8 *result)
{
	u8 *at = mem + (m->remote_addr - w.va);
	u64 word;

	switch (m->opcode) {
	case OP_WRITE:
	case OP_WRITE_IMM:
		if (m->length)
			memcpy(at, m->buf, m->length);
		break;
	case OP_READ:
		if (result && m->length)
			memcpy(result, at, m->length);
		break;
	case OP_FETCH_ADD:
	case OP_CMP_SWAP:
		memcpy(&word, at, sizeof(word));
		if (result)
			memcpy(result, &word, sizeof(word));
		if (m->opcode == OP_FETCH_ADD)
			word += m->swap_add;
		else if (word == m->compare)
			word = m->swap_add;
		memcpy(at, &word, sizeof(word));
		break;
	default:
		break;
	}
}

static const u8 classes[NUM_OPCODES] = {
	[OP_SEND] = WIRE_CLASS_SEND,
	[OP_SEND_IMM] = WIRE_CLASS_SEND,
	[OP_WRITE] = WIRE_CLASS_WRITE,
	[OP_WRITE_IMM] = WIRE_CLASS_WRITE,
	[OP_READ] = WIRE_CLASS_READ,
	[OP_FETCH_ADD] = WIRE_CLASS_ATOMIC,
	[OP_CMP_SWAP] = WIRE_CLASS_ATOMIC,
};

/* A READ may come as several requests: the next of them. Return: that is all. */
static bool read_whole(const struct msg *m, const struct wire_pkt *pkt)
{
	const u32 left = m->length - w.read_done;

	if (pkt->va != m->remote_addr + w.read_done || pkt->dma_len > left ||
	    (pkt->dma_len < left && (!pkt->dma_len || pkt->dma_len % MTU)))
		failed("%u bytes are read in the place of %u of message %u", pkt->dma_len, left,
		       w.executed);
	w.read_done += pkt->dma_len;
	if (w.read_done < m->length)
		return false;
	w.read_done = 0;
	return true;
}

/* The responder has done with a message: the next, and all its memory is as it has to be. */
void check_message(const struct wire_pkt *pkt)
{
	const struct msg *m = &w.msg[w.executed];

	trace("message %u executed, psn=%u", w.executed, pkt->psn);
	if (w.executed == w.plan.num_msgs || w.executed == w.plan.bad_key)
		failed("message %u is executed, which never may be", w.executed);
	if (pkt->op->class != classes[m->opcode])
		failed("message %u is executed as another", w.executed);
	if (m->opcode == OP_READ && !read_whole(m, pkt)) {
		seen[SEEN_PARTED]++;
		return;
	}
	execute(m, w.shadow, NULL);
	if (memcmp(w.mem, w.shadow, MEM_LEN))
		failed("after message %u, memory is not as it should be", w.executed);
	w.executed++;
}

/* Before check_message() of it */
void check_atomic(const struct wire_pkt *pkt, u64 orig)
{
	const struct msg *m = &w.msg[w.executed];

	if (w.executed == w.plan.num_msgs || pkt->va != m->remote_addr ||
	    memcmp(&orig, m->want, sizeof(orig)))
		failed("an ATOMIC is executed in the place of message %u", w.executed);
}

/* After check_message() of it */
void check_received(const struct wire_pkt *pkt, u32 len)
{
	const struct msg *m = &w.msg[w.executed - 1];
	const bool send = m->opcode == OP_SEND || m->opcode == OP_SEND_IMM;

	if (!send && m->opcode != OP_WRITE_IMM)
		failed("message %u is received", w.executed - 1);
	if (send && (len != m->length || (len && memcmp(w.rq.buf, m->buf, len))))
		failed("message %u is not received as it was sent", w.executed - 1);
	if (m->opcode != OP_SEND && wire_get32(pkt->imm) != m->imm)
		failed("message %u comes with another's immediate data", w.executed - 1);
	w.received++;
}

/* A schedule */

static void plan_network(struct plan *p)
{
	static const u32 most[] = { 0, 20, 100, 300 };
	const u32 loss = most[rnd_below(ARRAY_SIZE(most))];

	p->loss[0] = chance(850) ? rnd_below(loss + 1) : 0;
	p->loss[1] = chance(850) ? rnd_below(loss + 1) : 0;
	p->loss_more = rnd_often_none(600);
	p->dup = rnd_often_none(100);
	p->reorder = rnd_often_none(200);
	p->corrupt = rnd_often_none(50);
	p->refuse = chance(750) ? 0 : rnd_below(60);
	p->no_memory = chance(750) ? 0 : rnd_below(60);
	p->late = rnd_often_none(500);
	p->delay = (2 + rnd_below(20)) * NSEC_PER_USEC << rnd_below(8);
	p->jitter = p->delay * rnd_from(1, 4) + 100 * NSEC_PER_USEC;
	p->pkt_ns = rnd_from(100, 1000) << rnd_below(5);
	p->queue = rnd_from(4, 8) << rnd_below(6);
	p->run_ns = rnd_below(50) * NSEC_PER_USEC;
	p->resp_ns = chance(500) ? 0 : rnd_from(1, 100) * NSEC_PER_USEC;
	p->stop = rnd_often_none(50);
	p->outage = chance(40) ? ktime_get() + rnd_below(20 * NSEC_PER_MSEC) : KTIME_MAX;
}

static void plan_sides(struct plan *p)
{
	u32 i;

	p->window = rnd_from(2, 8) << rnd_below(4);
	p->burst = rnd_from(1, chance(500) ? 4 : MAX_BURST);
	p->budget = rnd_from(1, 64);
	p->max_res = rnd_from(1, MAX_RES);
	p->max_rd = rnd_from(1, p->max_res);
	p->parted = chance(500) ? 0 : rnd_below(1001);
	p->ask = rnd_from(1, 8);
	p->timeout = rnd_from(8, 13);
	p->wait = chance(700) ? 0 : rnd_below(1024U << p->timeout);
	p->order_sample = rnd_from(2, 32);
	p->retry_cnt = chance(600) ? 7 : rnd_below(8);
	p->never_ready = chance(30);
	p->rnr_retry = chance(600) && !p->never_ready ? 7 : rnd_below(7);
	p->min_rnr_timer = rnd_from(1, 12);
	p->plain_requester = chance(120);
	p->plain_responder = chance(200);
	p->lies = !p->plain_requester && chance(60) ? rnd_from(1, 4) : 0;
	p->ipv6 = chance(300);
	p->gso = chance(400);
	for (i = 0; i < 2; i++) {
		p->kept_pkts[i] = chance(500) ? MAX_KEPT : rnd_below(MAX_KEPT);
		p->kept_bytes[i] = chance(500) ? 1U << 24 : rnd_below(40000);
	}
	p->kept_dev = chance(500) ? 1U << 25 : rnd_below(40000);
}

static enum opcode pick_opcode(void)
{
	static const u32 weight[NUM_OPCODES] = { 25, 5, 20, 5, 25, 15, 5 };
	u32 n = rnd_below(100), i = 0;

	while (n >= weight[i])
		n -= weight[i++];
	return (enum opcode)i;
}

static u32 pick_length(void)
{
	const u32 pkts = chance(400) ? rnd_from(1, MAX_PKTS) : rnd_from(1, 3);

	if (chance(40))
		return 0;
	return (pkts - 1) * MTU + (chance(300) ? MTU : rnd_from(1, MTU));
}

/* Where READs read what WRITEs may write */
static bool read_from[RW_LEN / MTU];

/* A WRITE to what a READ before it may not have got has to wait for that. */
static bool touches(u32 off, u32 len, bool mark)
{
	bool any = false;
	u32 i;

	if (!len)
		return false;
	for (i = off / MTU; i <= (off + len - 1) / MTU; i++) {
		any |= read_from[i];
		read_from[i] |= mark;
	}
	return any;
}

static void pick_memory(struct msg *m)
{
	u32 off;

	switch (m->opcode) {
	case OP_WRITE:
	case OP_WRITE_IMM:
		off = rnd_below(RW_LEN - m->length);
		m->fence = touches(off, m->length, false);
		off += RO_LEN;
		break;
	case OP_READ:
		off = rnd_below(RO_LEN - m->length);
		if (chance(500)) {
			off = rnd_below(RW_LEN - m->length);
			touches(off, m->length, true);
			off += RO_LEN;
		}
		break;
	case OP_FETCH_ADD:
	case OP_CMP_SWAP:
		off = RO_LEN + RW_LEN + 8 * rnd_below(NUM_WORDS);
		break;
	default:
		off = 0;
		break;
	}
	m->remote_addr = w.va + off;
}

static u8 *alloc(u32 len)
{
	u8 *p = malloc(len);

	if (!p && len)
		abort();
	return p;
}

/* @mem is what memory will be when its turn comes. */
static void plan_message(struct msg *m, enum opcode opcode, u8 *mem)
{
	const bool atomic = send_ops[opcode].kind == SEND_ATOMIC;

	*m = (struct msg) { .opcode = opcode, .rkey = w.rkey, .fence = false };
	m->length = atomic ? 8 : pick_length();
	m->imm = (u32)rnd();
	m->buf = alloc(m->length);
	m->want = alloc(m->length);
	rnd_fill(m->buf, m->length);
	pick_memory(m);
	m->fence |= chance(30);
	m->swap_add = rnd();
	/* half of them swap */
	if (atomic && chance(500))
		memcpy(&m->compare, mem + (m->remote_addr - w.va), 8);
	execute(m, mem, m->want);
}

static bool needs_key(const struct msg *m)
{
	return m->opcode >= OP_WRITE && m->length;
}

static void plan_messages(struct plan *p)
{
	static u8 mem[MEM_LEN];
	const bool same = chance(150);
	const enum opcode first = pick_opcode();
	u32 i;

	w.va = rnd() >> 20 << 4;
	w.rkey = (u32)rnd();
	rnd_fill(mem, MEM_LEN);
	memcpy(w.mem, mem, MEM_LEN);
	memcpy(w.shadow, mem, MEM_LEN);
	memset(read_from, 0, sizeof(read_from));
	p->num_msgs = chance(200) ? rnd_from(1, 3) : rnd_from(4, 24);
	for (i = 0; i < p->num_msgs; i++)
		plan_message(&w.msg[i], same ? first : pick_opcode(), mem);

	p->bad_key = MAX_MSGS;
	i = rnd_below(p->num_msgs);
	if (chance(40) && needs_key(&w.msg[i])) {
		p->bad_key = i;
		w.msg[i].rkey ^= 1U << rnd_below(32);
	}
}

/* When the two programs do something */
static void plan_posts(const struct plan *p)
{
	u32 left = p->num_msgs, n;
	ktime_t at = ktime_get();

	while (left) {
		n = chance(500) ? left : rnd_from(1, left);
		event_at(at, EV_POST, n, NULL);
		at += rnd_below(2 * NSEC_PER_MSEC);
		left -= n;
	}
	for (n = 0; n < p->lies; n++)
		event_at(ktime_get() + rnd_below(4 * NSEC_PER_MSEC), EV_LIE, 0, NULL);
	at = ktime_get();
	left = p->never_ready ? rnd_below(p->num_msgs) : p->num_msgs;
	while (left) {
		n = chance(500) ? left : rnd_from(1, left);
		if (chance(300))
			at += rnd_below(4 * NSEC_PER_MSEC);
		event_at(at, EV_POST_RECV, n, NULL);
		left -= n;
	}
}

static u32 rnd_psn(void)
{
	if (chance(500))
		return (u32)rnd() & WIRE_PSN_MASK;
	/* before it wraps, or half way round */
	return (WIRE_PSN_MASK - rnd_below(96)) ^ (chance(300) ? WIRE_PSN_WINDOW : 0);
}

static u64 ends[NUM_STATUS];

static void check_end(void)
{
	enum status end = WC_SUCCESS;
	u32 i, good = 0, received = 0;

	for (i = 0; i < w.plan.num_msgs; i++) {
		const struct msg *m = &w.msg[i];

		if (m->status == WC_NONE)
			failed("message %u never ends", i);
		if (m->status == WC_SUCCESS)
			good++;
		else if (end == WC_SUCCESS)
			end = m->status;
		received += i < w.executed && (m->opcode <= OP_SEND_IMM ||
					       m->opcode == OP_WRITE_IMM);
	}
	ends[end]++;
	if (w.executed < good || (end == WC_SUCCESS && w.executed != w.plan.num_msgs))
		failed("%u messages are executed, %u complete", w.executed, good);
	if (w.received != received)
		failed("%u messages are received, of %u", w.received, received);
	if (end == WC_SUCCESS && (w.sq.num_rd || w.sq.psn_una != w.sq.psn_end || w.sq.flight))
		failed("%u requests and %u packets are left over", w.sq.num_rd, w.sq.flight);
	kept_purge(&w.sq.kept);
	kept_purge(&w.rq.kept);
	if (w.kept_dev)
		failed("%u bytes are kept of nothing", w.kept_dev);
}

static void run_schedule(u64 number)
{
	u32 i;

	rnd_state = mix(number) | 1;
	memset(&w, 0, sizeof(w));
	completed = 0;
	ended = false;
	w.plan.number = number;
	net_reset();
	w.plan.psn = rnd_psn();
	plan_network(&w.plan);
	plan_sides(&w.plan);
	plan_messages(&w.plan);
	requester_reset(w.plan.psn);
	responder_reset(w.plan.psn);
	plan_posts(&w.plan);

	while (event_run())
		;
	check_end();
	net_end();
	for (i = 0; i < w.plan.num_msgs; i++) {
		free(w.msg[i].buf);
		free(w.msg[i].want);
	}
}

static void summary(void)
{
	u32 i;

	for (i = WC_SUCCESS; i < NUM_STATUS; i++)
		if (ends[i])
			printf("# ended %s %llu\n", status_names[i], (unsigned long long)ends[i]);
	for (i = 0; i < NUM_SEEN; i++)
		printf("# seen %s %llu\n", seen_names[i], (unsigned long long)seen[i]);
}

static void usage(FILE *f)
{
	fputs("usage: model [-f FIRST] [-n SCHEDULES] [-p] | -s SCHEDULE [-v]\n"
	      "  -p  show progress\n"
	      "  -s  this schedule alone\n"
	      "  -v  show each of its packets, and what is done about it\n", f);
}

int main(int argc, char **argv)
{
	u64 first = 0, num = 1000, i;
	bool progress = false;
	int opt;

	while ((opt = getopt(argc, argv, "f:n:ps:vh")) != -1) {
		switch (opt) {
		case 'f': first = strtoull(optarg, NULL, 0); break;
		case 'n': num = strtoull(optarg, NULL, 0); break;
		case 'p': progress = true; break;
		case 's': first = strtoull(optarg, NULL, 0); num = 1; break;
		case 'v': verbose = 1; break;
		case 'h': usage(stdout); return 0;
		default: usage(stderr); return 2;
		}
	}
	for (i = 0; i < num; i++) {
		run_schedule(first + i);
		if (progress && (i + 1) % 50000 == 0)
			fprintf(stderr, "  %llu schedules\n", (unsigned long long)(i + 1));
	}
	summary();
	return 0;
}
