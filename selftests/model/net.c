// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Packets with their ICRC, bursts of them, and the network between the two sides:
 * each packet is lost, doubled, held up or spoilt as the schedule has it. And what
 * drives it all: events in the order of their time.
 */
#include "model.h"

#define MAX_EVENTS	8192U
/* A receiver that is not scheduled loses packets, too. */
#define MAX_RUN		64U

struct event {
	ktime_t at;
	u64 order;			/* of two at the same time */
	enum event_type type;
	u32 arg;
	struct pkt *p;
};

static struct event heap[MAX_EVENTS];
static u32 num_events;
static u64 order, events;
static ktime_t now;
static u32 next_id;

/* By which way they go: 0 from the requester */
static struct way {
	ktime_t free;			/* when the wire is */
	bool losing;
	struct pkt *run[MAX_RUN];	/* at its end, for a softirq */
	u32 num_run;
} ways[2];

ktime_t ktime_get(void)
{
	return now;
}

/* Events */

static bool before(const struct event *a, const struct event *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void event_at(ktime_t at, enum event_type type, u32 arg, struct pkt *p)
{
	struct event e = { .at = at, .order = order++, .type = type, .arg = arg, .p = p };
	u32 i = num_events++;

	if (num_events > MAX_EVENTS)
		failed("%u events wait: a storm", num_events);
	for (; i && before(&e, &heap[(i - 1) / 2]); i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = e;
}

static struct event event_take(void)
{
	const struct event first = heap[0], e = heap[--num_events];
	u32 i = 0, child;

	while ((child = 2 * i + 1) < num_events) {
		if (child + 1 < num_events && before(&heap[child + 1], &heap[child]))
			child++;
		if (!before(&heap[child], &e))
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = e;
	return first;
}

/* Packets */

void pkt_put(struct pkt *p)
{
	if (!--p->refs)
		free(p);
}

const u8 *rx_payload(const struct rx *rx)
{
	return rx->p ? rx->p->data + rx->pkt.op->hdr_len : NULL;
}

/* CRC-32 of Ethernet, eight bytes at a time */
static u32 crc_table[8][256];

static void crc_init(void)
{
	u32 i, j, crc;

	for (i = 0; i < 256; i++) {
		crc = i;
		for (j = 0; j < 8; j++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320U : 0);
		crc_table[0][i] = crc;
	}
	for (i = 0; i < 256; i++)
		for (j = 1; j < 8; j++)
			crc_table[j][i] = crc_table[j - 1][i] >> 8 ^
					  crc_table[0][crc_table[j - 1][i] & 0xff];
}

static u32 crc32(u32 crc, const u8 *p, u32 len)
{
	for (; len >= 8; len -= 8, p += 8) {
		crc ^= (u32)p[0] | (u32)p[1] << 8 | (u32)p[2] << 16 | (u32)p[3] << 24;
		crc = crc_table[7][crc & 0xff] ^ crc_table[6][crc >> 8 & 0xff] ^
		      crc_table[5][crc >> 16 & 0xff] ^ crc_table[4][crc >> 24] ^
		      crc_table[3][p[4]] ^ crc_table[2][p[5]] ^
		      crc_table[1][p[6]] ^ crc_table[0][p[7]];
	}
	while (len--)
		crc = crc >> 8 ^ crc_table[0][(crc ^ *p++) & 0xff];
	return crc;
}

/* What precedes the BTH, as far as the ICRC looks at it */
static u32 icrc_head(const struct pkt *p, bool from_requester, u8 *head)
{
	u8 ip[WIRE_IP6_LEN + WIRE_UDP_LEN] = { 0 };
	const u8 last = from_requester ? 1 : 2;
	const u16 udp_len = (u16)(WIRE_UDP_LEN + p->len);

	if (w.plan.ipv6) {
		ip[0] = 0x60;
		ip[6] = 17;
		ip[23] = last;
		ip[39] = 3 - last;
		wire_put16(ip + WIRE_IP6_LEN + 2, WIRE_UDP_PORT);
		return wire_icrc_head6(head, ip, udp_len, p->data);
	}
	ip[0] = 0x45;
	ip[9] = 17;
	ip[15] = last;
	ip[19] = 3 - last;
	wire_put16(ip + WIRE_IP4_LEN + 2, WIRE_UDP_PORT);
	return wire_icrc_head4(head, ip, p->id, udp_len, p->data);
}

static u32 icrc(const struct pkt *p, bool from_requester)
{
	u8 head[WIRE_ICRC_HEAD_MAX];
	u32 crc = crc32(WIRE_ICRC_SEED, head, icrc_head(p, from_requester, head));

	return crc32(crc, p->data + WIRE_BTH_LEN, p->len - WIRE_BTH_LEN - WIRE_ICRC_LEN);
}

/* Bursts */

bool burst_fits(const struct burst *b)
{
	return b->num < w.plan.burst;
}

u8 *burst_reserve(struct burst *b, u32 len)
{
	struct pkt *p = malloc(sizeof(*p) + len);

	if (!p)
		abort();
	*p = (struct pkt) { .refs = 1, .len = len, .id = (u16)next_id };
	b->pkt[b->num++] = p;
	p->skb = next_id++;
	return p->data;
}

/* The packets of a burst may come to its receiver in one skb. */
static void burst_seal(struct burst *b, bool from_requester)
{
	u32 i, len = 0;

	for (i = 0; i < b->num; i++) {
		struct pkt *p = b->pkt[i];

		wire_icrc_put(p->data + p->len - WIRE_ICRC_LEN, icrc(p, from_requester));
		len += p->len;
		p->truesize = 512 + p->len;
	}
	for (i = 0; w.plan.gso && i < b->num; i++) {
		b->pkt[i]->skb = b->pkt[0]->skb;
		b->pkt[i]->truesize = 512 + len;
	}
}

void burst_free(struct burst *b)
{
	while (b->num)
		pkt_put(b->pkt[--b->num]);
}

static void net_send(struct pkt *p, u32 way);

/* Return: not 0 if the device's queue is full, and nothing has left. */
int burst_send(struct burst *b, bool from_requester)
{
	u32 i;

	if (chance(w.plan.refuse)) {
		seen[SEEN_REFUSED]++;
		trace("refused: %u packets", b->num);
		burst_free(b);
		return 1;
	}
	burst_seal(b, from_requester);
	for (i = 0; i < b->num; i++)
		net_send(b->pkt[i], !from_requester);
	b->num = 0;
	return 0;
}

/* The network */

static bool lost(u32 way)
{
	struct way *on = &ways[way];

	if (now >= w.plan.outage)
		return true;
	on->losing = chance(on->losing ? max(w.plan.loss_more, w.plan.loss[way])
				       : w.plan.loss[way]);
	return on->losing;
}

/* One byte of a copy changes. FECN and BECN may, and what is reserved beside them. */
static struct pkt *spoil(struct pkt *p)
{
	struct pkt *copy = malloc(sizeof(*p) + p->len);
	u32 i;

	if (!copy)
		abort();
	memcpy(copy, p, sizeof(*p) + p->len);
	copy->refs = 1;
	pkt_put(p);
	i = rnd_below(copy->len);
	copy->data[i] ^= (u8)(1 + rnd_below(255));
	copy->spoilt = i != WIRE_BTH_RESV8A;
	return copy;
}

static void net_arrive(struct pkt *p, u32 way, ktime_t at)
{
	if (chance(w.plan.reorder))
		at += rnd_below((u32)w.plan.jitter);
	event_at(at, EV_ARRIVE, way, p);
}

static void net_send(struct pkt *p, u32 way)
{
	struct way *on = &ways[way];
	ktime_t at;

	seen[SEEN_SENT]++;
	if (verbose)
		say("%s %02x psn=%u ask=%d len=%u", way ? "<-" : "->", p->data[WIRE_BTH_OPCODE],
		    wire_get24(p->data + WIRE_BTH_PSN), p->data[WIRE_BTH_ACKREQ] >> 7, p->len);
	on->free = max(on->free, now);
	if (lost(way) || on->free - now > w.plan.queue * w.plan.pkt_ns) {
		trace("   lost");
		seen[SEEN_LOST]++;
		pkt_put(p);
		return;
	}
	on->free += w.plan.pkt_ns;
	at = on->free + w.plan.delay;
	if (chance(w.plan.dup)) {
		p->refs++;
		net_arrive(p, way, at + rnd_below((u32)w.plan.jitter));
	}
	net_arrive(chance(w.plan.corrupt) ? spoil(p) : p, way, at);
}

/* It is taken with those that come until the softirq runs. */
static void arrived(struct pkt *p, u32 way)
{
	struct way *on = &ways[way];

	if (on->num_run == MAX_RUN) {
		pkt_put(p);
		return;
	}
	if (!on->num_run)
		event_at(now + w.plan.run_ns, EV_RUN, way, NULL);
	on->run[on->num_run++] = p;
}

/* Return: it is whole, and taken apart. */
static bool rx_pkt(struct pkt *p, u32 way, struct rx *rx)
{
	const bool whole = wire_icrc_match(p->data + p->len - WIRE_ICRC_LEN, icrc(p, !way));
	enum wire_verdict verdict;

	if (!whole) {
		seen[SEEN_CORRUPT]++;
		return false;
	}
	if (p->spoilt)
		failed("a spoilt packet passes for whole");
	rx->p = p;
	verdict = wire_parse(p->data, p->len, &rx->pkt);
	if (verdict != WIRE_OK)
		failed("a packet of ours is not taken: opcode %#x, %u bytes, verdict %d",
		       p->data[WIRE_BTH_OPCODE], p->len, verdict);
	if (rx->pkt.qpn != (way ? REQUESTER_QPN : RESPONDER_QPN) || rx->pkt.pkey != PKEY ||
	    !(rx->pkt.op->flags & WIRE_RESPONSE) != !way)
		failed("a packet of ours goes astray");
	return true;
}

/* Requests, under one lock, and one answer for all */
static void run_requests(struct pkt **run, u32 num)
{
	struct rx rx;
	u32 i;

	for (i = 0; i < num; i++)
		if (rx_pkt(run[i], 0, &rx))
			recv_packet(&rx);
	recv_end();
	kept_audit(&w.rq.kept);
}

/* Responses: somebody may be at the send side, who takes them later. */
static void run_responses(struct pkt **run, u32 num)
{
	const bool late = chance(w.plan.late);
	struct rx rx;
	u32 i;

	for (i = 0; i < num; i++) {
		if (!rx_pkt(run[i], 1, &rx))
			continue;
		if (late)
			ack_later(&rx);
		else
			ack_packet(&rx);
	}
	send_run();
	kept_audit(&w.sq.kept);
}

static void net_run(u32 way)
{
	struct way *on = &ways[way];
	struct pkt *run[MAX_RUN];
	u32 i, num = on->num_run;

	memcpy(run, on->run, num * sizeof(*run));
	on->num_run = 0;
	if (way)
		run_responses(run, num);
	else
		run_requests(run, num);
	for (i = 0; i < num; i++)
		pkt_put(run[i]);
}

void net_reset(void)
{
	static bool ready;

	if (!ready)
		crc_init();
	ready = true;
	memset(ways, 0, sizeof(ways));
	num_events = 0;
	order = 0;
	events = 0;
	next_id = (u32)rnd();
	/* 0 stands for never, as it does in a kernel that has just started */
	now = NSEC_PER_SEC;
}

void net_end(void)
{
	u32 i;

	while (num_events) {
		struct event e = event_take();

		if (e.p)
			pkt_put(e.p);
	}
	for (i = 0; i < 2; i++)
		while (ways[i].num_run)
			pkt_put(ways[i].run[--ways[i].num_run]);
	burst_free(&w.rq.burst);
}

/* Bounds of a schedule: far beyond what any of them takes */
#define MAX_TIME	(600 * NSEC_PER_SEC)
#define MAX_TOTAL	1000000U

/* Return: false if nothing will happen any more. */
bool event_run(void)
{
	struct event e;

	if (!num_events)
		return false;
	e = event_take();
	now = e.at;
	if (now > MAX_TIME || ++events > MAX_TOTAL)
		failed("it does not end: %llu events", (unsigned long long)events);
	switch (e.type) {
	case EV_ARRIVE:
		arrived(e.p, e.arg);
		break;
	case EV_RUN:
		net_run(e.arg);
		break;
	case EV_TIMER:
		/* one that was armed anew does not fire as it was */
		if (e.arg == w.sq.timer_gen)
			retry_timer();
		break;
	case EV_POST:
		w.sq.posted = min(w.sq.posted + e.arg, w.plan.num_msgs);
		send_run();
		break;
	case EV_POST_RECV:
		w.rq.posted += e.arg;
		break;
	case EV_RESP:
		resp_finish();
		break;
	case EV_LIE:
		lie();
		break;
	}
	return true;
}
