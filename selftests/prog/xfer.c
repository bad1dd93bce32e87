// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Send messages whose every byte depends on message and position, and check where
 * they arrive each byte, each byte around it, and each field of the completions
 * on both sides. What is written, read or changed in the other side's memory is
 * looked at from here, so both sides have to be this program's.
 *
 * What message n of a flow looks like (length, pieces, immediate data ...) is
 * drawn from a random sequence that is seeded with the flow and n: both sides
 * know it without talking about it.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"

#define MAX_SGE 64
#define MAX_SIZES 64
#define GAP 64		/* at most so much between two pieces */
#define BATCH 64
#define WORDS 64	/* of a flow, for atomics */
#define GRH_ROOM 64		/* what a datagram's 40 bytes are given */
#define QKEY 0x1234567
#define ROUNDS 64	/* of 16 completions, in one look at a queue */
#define TELL 8		/* UC: every so many WRITEs, one tells that they have arrived */

enum op_id { OP_SEND, OP_SEND_IMM, OP_WRITE, OP_WRITE_IMM, OP_READ, OP_ADD, OP_SWAP };

#define REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define OPS_SEND (1U << OP_SEND | 1U << OP_SEND_IMM)
#define OPS_UC (OPS_SEND | 1U << OP_WRITE | 1U << OP_WRITE_IMM)
#define OPS_ATOMIC (1U << OP_ADD | 1U << OP_SWAP)

/* What is to be expected of an operation, at both ends. */
static const struct op {
	const char *name;
	enum ibv_wr_opcode wr;
	enum ibv_wc_opcode swc;		/* at the sender */
	enum ibv_wc_opcode rwc;		/* at the receiver, if it consumes a receive */
	bool recv;
	bool imm;
} ops[] = {
	[OP_SEND] = { "send", IBV_WR_SEND, IBV_WC_SEND, IBV_WC_RECV, true, false },
	[OP_SEND_IMM] = { "send_imm", IBV_WR_SEND_WITH_IMM, IBV_WC_SEND, IBV_WC_RECV, true, true },
	[OP_WRITE] = { "write", IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE, 0, false, false },
	[OP_WRITE_IMM] = { "write_imm", IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE,
			   IBV_WC_RECV_RDMA_WITH_IMM, true, true },
	[OP_READ] = { "read", IBV_WR_RDMA_READ, IBV_WC_RDMA_READ, 0, false, false },
	[OP_ADD] = { "fetch_add", IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD, 0, false, false },
	[OP_SWAP] = { "cmp_swp", IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP, 0, false, false },
};

struct range {
	uint64_t lo, hi;
};

static struct {
	/* both ends of a two-process run must agree on these */
	struct shared {
		uint64_t count;		/* messages of each flow; 0: until stopped */
		uint64_t seed;
		struct range sizes[MAX_SIZES];
		uint32_t nsizes;
		uint32_t ops;		/* mask of op_id */
		uint32_t window;	/* sends outstanding */
		uint32_t depth;		/* receives posted */
		uint32_t qps;
		uint32_t sge;		/* pieces at most */
		uint32_t solicited;	/* every so many */
		uint32_t unaligned;
		uint32_t both;		/* directions */
		uint32_t mtu;
	} s;
	const char *dev[2], *gid[2];
	const char *host;
	const char *port;
	bool listen;
	bool events;
	bool inl;
	bool sig_all;
	bool huge;
	bool iova;
	bool verbose;
	bool show;
	uint32_t signal;
	uint32_t batch;
	uint32_t posts;		/* between looks for completions */
	uint32_t pause;		/* ms between messages posted */
	double time;		/* s; then no more is posted */
	enum ibv_qp_type type;
	struct conn conn;
	double patience;
	uint64_t max_len;
	uint32_t max_inline;
	size_t slot;
} o = {
	.s = {
		.count = 100,
		.ops = OPS_SEND,
		.window = 16,
		.qps = 1,
		.sge = 1,
	},
	.port = "18515",
	.signal = 1,
	.batch = 16,
	.posts = 1,
	.type = IBV_QPT_RC,
	.patience = 60,
};

struct msg {
	const struct op *op;
	uint64_t len, cap;
	uint64_t key;
	uint32_t imm;
	bool solicited;
	uint32_t nsge[2];
	struct rng layout[2];	/* of the sender's pieces, of the receiver's */
};

/* the messages of one queue pair in one direction */
struct flow {
	unsigned int qp;
	unsigned int from;	/* side */
	uint64_t end;		/* messages in all */
	uint8_t *sbuf, *rbuf;
	/* at the receiver, for what names its memory: slots, words */
	uint8_t *tbuf;
	uint64_t *words;
	/* of the sender: posted, completed */
	uint64_t posted, sent;
	double last_post;
	/* what the words are once all that is posted is done, and what each brings back */
	uint64_t shadow[WORDS];
	uint64_t *fetched;
	/* of the receiver: the next messages that consume a receive */
	uint64_t rposted, received;
	/* receives posted, consumed by what was posted, completed */
	uint64_t rcount, rwanted, rdone;
};

enum arm { UNARMED, ARMED_POLL, ARMED };

struct cq {
	struct ibv_cq *cq;
	enum arm arm;
	bool solicited;
	uint64_t events;
	uint64_t solicited_seen;
	uint64_t completions;
};

struct side {
	struct end e;
	bool local;
	struct ibv_comp_channel *channel;
	struct cq s, r;
	struct ibv_qp **qp;
	struct ibv_ah *ah;	/* to the other side */
	struct peer *peer;
	uint8_t *mem;
	size_t mem_len;
	struct ibv_mr *mr;
	uint64_t iova;
};

static struct side sides[2];
static struct flow *flows;
static unsigned int nflows;
static uint64_t total_msgs, total_bytes;
static volatile sig_atomic_t stop;
static int cmd_argc;
static char **cmd_argv;

/* The program's status */
enum {
	ENDED = 1,	/* a connection, or the patience */
	GONE = 3,	/* the device */
	WRONG = 4,	/* data or completions */
};

#define fail(...) end_with(ENDED, __VA_ARGS__)
#define wrong(...) end_with(WRONG, __VA_ARGS__)

static void end_with(int status, const char *fmt, ...) printf_like(2, 3) __attribute__((noreturn));

static void state_dump(void)
{
	unsigned int i;

	for (i = 0; i < nflows && i < 8; i++)
		printf("xfer: flow %u of qp %u from side %u: posted %" PRIu64 ", sent %" PRIu64
		       ", receives posted %" PRIu64 ", received %" PRIu64 "\n",
		       i, flows[i].qp, flows[i].from, flows[i].posted, flows[i].sent,
		       flows[i].rposted, flows[i].received);
	for (i = 0; i < 2; i++)
		if (sides[i].local)
			printf("xfer: side %u: %" PRIu64 " send completions, %" PRIu64 " events; %"
			       PRIu64 " receive completions, %" PRIu64 " events; qp 0 in %s\n",
			       i, sides[i].s.completions, sides[i].s.events,
			       sides[i].r.completions, sides[i].r.events,
			       sides[i].qp && sides[i].qp[0] ? state_name(qp_state(sides[i].qp[0])) : "-");
}

static void end_with(int status, const char *fmt, ...)
{
	va_list ap;
	int i;

	printf("xfer: FAILED: ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\nxfer: again with:");
	for (i = 0; i < cmd_argc; i++)
		printf(" %s", cmd_argv[i]);
	printf(" --seed %" PRIu64 "\n", o.s.seed);
	fflush(stdout);
	state_dump();
	fflush(stdout);
	exit(status);
}

/* --- messages ------------------------------------------------------------- */

static uint64_t draw_len(struct rng *r, uint64_t n)
{
	const struct range *s = &o.s.sizes[n % o.s.nsizes];
	uint64_t span = s->hi - s->lo, bits;

	if (!span)
		return s->lo;
	/* small ones as often as large ones */
	bits = rng_in(r, 0, 64 - __builtin_clzll(span));
	if (bits < 64)
		span = min(span, (1ULL << bits) - 1);
	return s->lo + rng_in(r, 0, span);
}

static void describe(const struct flow *f, uint64_t n, struct msg *m)
{
	struct rng r = { mix64(o.s.seed) ^ mix64(n * 4096 + f->qp * 2 + f->from + 1) };
	unsigned int op;
	int i;

	do
		op = rng_in(&r, 0, ARRAY_SIZE(ops) - 1);
	while (!(o.s.ops & 1U << op));
	/* by which the receiver knows of those before */
	if (o.type == IBV_QPT_UC && op == OP_WRITE && ((n + 1) % TELL == 0 || n + 1 == f->end))
		op = OP_WRITE_IMM;
	m->op = &ops[op];
	m->len = 1U << op & OPS_ATOMIC ? 8 : draw_len(&r, n);
	m->key = rng_next(&r);
	m->imm = rng_next(&r);
	m->solicited = m->op->recv && o.s.solicited &&
		       ((n + 1) % o.s.solicited == 0 || n + 1 == f->end);
	for (i = 0; i < 2; i++) {
		m->nsge[i] = rng_in(&r, min(m->len, 1), 1U << op & OPS_ATOMIC ? 1 : o.s.sge);
		m->layout[i].s = rng_next(&r);
	}
	/* room to the byte, a bit more, or as much as there is */
	switch (rng_in(&r, 0, 3)) {
	case 0:
		m->cap = m->len;
		break;
	case 1:
		m->cap = min(m->len + rng_in(&r, 1, 100), o.max_len);
		break;
	default:
		m->cap = o.max_len;
	}
	if (m->cap && !m->nsge[1])
		m->nsge[1] = 1;
	/* it arrives at a place that is named, in one piece */
	if (m->op->wr != IBV_WR_SEND && m->op->wr != IBV_WR_SEND_WITH_IMM) {
		m->cap = m->len;
		m->nsge[1] = 1;
	}
}

static bool consumes_recv(const struct flow *f, uint64_t n)
{
	struct msg m;

	/* nearly always all or nothing, which is cheap to tell */
	if (!(o.s.ops & ~(OPS_SEND | 1U << OP_WRITE_IMM)))
		return true;
	describe(f, n, &m);
	return m.op->recv;
}

static bool any_recv(void)
{
	return o.s.ops & (OPS_SEND | 1U << OP_WRITE_IMM) || o.type == IBV_QPT_UC;
}

/* From @n on, the first message that consumes a receive */
static uint64_t next_recv(const struct flow *f, uint64_t n)
{
	if (!any_recv())
		return f->end;
	while (n < f->end && !consumes_recv(f, n))
		n++;
	return n;
}

/* Cut @len bytes into pieces somewhere in a slot of memory. */
static void cut(struct rng r, uint8_t *slot, uint64_t len, uint32_t pieces, struct ibv_sge *sge)
{
	uint64_t cuts[MAX_SGE + 1], t;
	uint8_t *p = slot;
	uint32_t i, j;

	cuts[0] = 0;
	for (i = 1; i < pieces; i++)
		cuts[i] = rng_in(&r, 0, len);
	cuts[pieces] = len;
	for (i = 2; i < pieces; i++)
		for (j = i; j > 1 && cuts[j] < cuts[j - 1]; j--) {
			t = cuts[j];
			cuts[j] = cuts[j - 1];
			cuts[j - 1] = t;
		}
	for (i = 0; i < pieces; i++) {
		p += o.s.unaligned ? rng_in(&r, 1, GAP) : GAP;
		sge[i].addr = (uintptr_t)p;
		sge[i].length = cuts[i + 1] - cuts[i];
		p += sge[i].length;
		if (!o.s.unaligned)
			p = (uint8_t *)(((uintptr_t)p + 7) & ~7UL);
	}
}

static void to_iova(const struct side *s, struct ibv_sge *sge, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		sge[i].addr = sge[i].addr - (uintptr_t)s->mem + s->iova;
		sge[i].lkey = s->mr->lkey;
	}
}

static uint64_t wr_id(const struct flow *f, uint64_t n)
{
	return (uint64_t)(f - flows) << 40 | (n & 0xffffffffffULL);
}

static bool signaled(const struct flow *f, uint64_t n)
{
	return o.sig_all || (n + 1) % o.signal == 0 || n + 1 == f->end;
}

static uint8_t *local_slot(const struct flow *f, uint64_t n)
{
	return f->sbuf + n % o.s.window * o.slot;
}

/* Where a message that names the other side's memory has its bytes there */
static uint8_t *target(const struct flow *f, uint64_t n, const struct msg *m, struct ibv_sge *sge)
{
	uint8_t *slot = f->tbuf + n % o.s.window * o.slot;

	cut(m->layout[1], slot, m->len, 1, sge);
	return slot;
}

static uint64_t remote_addr(const struct side *s, const void *at)
{
	return (const uint8_t *)at - s->mem + s->iova;
}

/* An ATOMIC, on one of the flow's words; done at once on our copy of it. */
static void set_atomic(struct flow *f, uint64_t n, const struct msg *m, struct ibv_send_wr *wr)
{
	const struct side *to = &sides[!f->from];
	uint64_t *word = &f->shadow[m->key % WORDS];

	wr->wr.atomic.remote_addr = remote_addr(to, &f->words[m->key % WORDS]);
	wr->wr.atomic.rkey = to->mr->rkey;
	f->fetched[n % o.s.window] = *word;
	if (m->op == &ops[OP_ADD]) {
		wr->wr.atomic.compare_add = m->key;
		*word += m->key;
	} else {
		/* half of them find what they look for */
		wr->wr.atomic.compare_add = *word ^ (uint64_t)(m->imm & 1) << 40;
		wr->wr.atomic.swap = m->key;
		if (!(m->imm & 1))
			*word = m->key;
	}
}

/* What a request has beside its list, and memory ready for what it does. */
static void set_request(struct flow *f, uint64_t n, const struct msg *m, const struct ibv_sge *sge,
			struct ibv_send_wr *wr)
{
	const struct side *s = &sides[f->from], *to = &sides[!f->from];
	struct ibv_sge at;
	uint64_t off;
	uint32_t i;

	if (m->op->imm)
		wr->imm_data = htobe32(m->imm);
	if (o.type == IBV_QPT_UD) {
		wr->wr.ud.ah = s->ah;
		wr->wr.ud.remote_qpn = to->peer[f->qp].qpn;
		wr->wr.ud.remote_qkey = QKEY;
	}
	switch (m->op - ops) {
	case OP_ADD:
	case OP_SWAP:
		memset(local_slot(f, n), CANARY, o.slot);
		set_atomic(f, n, m, wr);
		return;
	case OP_READ:
		memset(local_slot(f, n), CANARY, o.slot);
		target(f, n, m, &at);
		pattern_fill((void *)at.addr, m->key, 0, m->len);
		break;
	case OP_WRITE:
	case OP_WRITE_IMM:
		memset(target(f, n, m, &at), CANARY, o.slot);
		break;
	}
	if (m->op->wr != IBV_WR_SEND && m->op->wr != IBV_WR_SEND_WITH_IMM) {
		wr->wr.rdma.remote_addr = remote_addr(to, (void *)at.addr);
		wr->wr.rdma.rkey = to->mr->rkey;
	}
	if (m->op == &ops[OP_READ])
		return;
	for (i = 0, off = 0; i < m->nsge[0]; i++) {
		pattern_fill((void *)sge[i].addr, m->key, off, sge[i].length);
		off += sge[i].length;
	}
}

/* How many messages may be posted now */
static uint32_t room_for(const struct flow *f)
{
	uint64_t room = o.s.window - (f->posted - f->sent), seen = f->posted;

	/* what was written to a slot is looked at when the receiver hears of it */
	if (o.type == IBV_QPT_UC)
		seen = f->received;
	else if (o.s.ops & 1U << OP_WRITE_IMM)
		seen = next_recv(f, f->received);
	if (f->posted > seen)
		room = min(room, o.s.window - min(o.s.window, f->posted - seen));
	/* nobody waits for a receive there: it has to be posted */
	if (o.type != IBV_QPT_RC)
		room = min(room, f->rcount - f->rwanted);
	room = min(room, f->end - f->posted);
	return min(room, o.batch);
}

static bool post_sends(struct flow *f)
{
	static struct ibv_send_wr wrs[BATCH];
	static struct ibv_sge sges[BATCH][MAX_SGE];
	struct side *s = &sides[f->from];
	struct ibv_send_wr *bad = NULL;
	uint32_t i, k, room;
	struct msg m;
	uint64_t n;
	int err;

	room = room_for(f);
	if (!room)
		return false;
	if (o.pause) {
		if (now() - f->last_post < o.pause / 1e3)
			return false;
		f->last_post = now();
		room = 1;
	}
	for (k = 0; k < room; k++) {
		n = f->posted + k;
		describe(f, n, &m);
		cut(m.layout[0], local_slot(f, n), m.len, m.nsge[0], sges[k]);
		wrs[k] = (struct ibv_send_wr) {
			.wr_id = wr_id(f, n),
			.next = k + 1 < room ? &wrs[k + 1] : NULL,
			.sg_list = sges[k],
			.num_sge = m.nsge[0],
			.opcode = m.op->wr,
			/* with --sig-all, all are, whatever they say */
			.send_flags = (signaled(f, n) && !o.sig_all ? IBV_SEND_SIGNALED : 0) |
				      (m.solicited ? IBV_SEND_SOLICITED : 0),
		};
		set_request(f, n, &m, sges[k], &wrs[k]);
		f->rwanted += m.op->recv;
		if (o.inl && m.len <= o.max_inline && m.op - ops < OP_READ)
			wrs[k].send_flags |= IBV_SEND_INLINE;
		else
			to_iova(s, sges[k], m.nsge[0]);
	}
	err = ibv_post_send(s->qp[f->qp], wrs, &bad);
	if (err)
		fail("post_send of message %" PRIu64 ": %s; %" PRIu64 " outstanding of %u",
		     bad ? bad->wr_id & 0xffffffffff : 0, strerror(err),
		     f->posted - f->sent, o.s.window);
	/* inline data has been taken: it is ours again */
	for (k = 0; k < room; k++)
		if (wrs[k].send_flags & IBV_SEND_INLINE)
			for (i = 0; i < (uint32_t)wrs[k].num_sge; i++)
				memset((void *)sges[k][i].addr, 0x11, sges[k][i].length);
	f->posted += room;
	return true;
}

static void post_recv(struct flow *f)
{
	struct side *s = &sides[!f->from];
	uint8_t *slot = f->rbuf + f->rcount % o.s.depth * o.slot;
	const bool ud = o.type == IBV_QPT_UD;
	struct ibv_sge sge[MAX_SGE + 1] = {};
	struct ibv_recv_wr wr = { .sg_list = sge }, *bad;
	struct msg m;
	int err;

	f->rposted = next_recv(f, f->rposted);
	if (f->rposted == f->end)
		return;
	describe(f, f->rposted, &m);
	memset(slot, CANARY, o.slot);
	wr.wr_id = wr_id(f, f->rposted);
	if (m.op != &ops[OP_WRITE_IMM]) {
		sge[0] = (struct ibv_sge) { .addr = (uintptr_t)slot, .length = 40 };
		cut(m.layout[1], slot + GRH_ROOM * ud, m.cap, m.nsge[1], sge + ud);
		wr.num_sge = m.nsge[1] + ud;
		to_iova(s, sge, wr.num_sge);
	}
	err = ibv_post_recv(s->qp[f->qp], &wr, &bad);
	if (err)
		fail("post_recv of message %" PRIu64 ": %s", f->rposted, strerror(err));
	f->rposted++;
	f->rcount++;
}

/* --- completions ------------------------------------------------------------ */

/* Those of a request that is not one that its queue pair, or its memory, takes */
static bool mistaken(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_LOC_LEN_ERR:
	case IBV_WC_LOC_QP_OP_ERR:
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_LOC_ACCESS_ERR:
	case IBV_WC_BAD_RESP_ERR:
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
		return true;
	default:
		return false;
	}
}

static struct flow *wc_flow(const struct ibv_wc *wc, unsigned int side, bool recv)
{
	struct flow *f;

	if (wc->wr_id >> 40 >= nflows)
		wrong("a completion of wr_id 0x%" PRIx64 ", which was never posted", wc->wr_id);
	f = &flows[wc->wr_id >> 40];
	if ((f->from == side) == recv)
		wrong("a %s completion on side %u of wr_id 0x%" PRIx64 ", of the other direction",
		      recv ? "receive" : "send", side, wc->wr_id);
	if (wc->status != IBV_WC_SUCCESS)
		end_with(mistaken(wc->status) ? WRONG : ENDED,
			 "%s of message %" PRIu64 " of flow %u: %s (vendor_err 0x%x)",
			 recv ? "receive" : "send", wc->wr_id & 0xffffffffff,
			 (unsigned int)(f - flows), ibv_wc_status_str(wc->status), wc->vendor_err);
	if (wc->qp_num != sides[side].qp[f->qp]->qp_num)
		wrong("a completion with qp_num 0x%x, not 0x%x", wc->qp_num,
		      sides[side].qp[f->qp]->qp_num);
	return f;
}

/* A message's bytes are in the pieces, and nothing was written elsewhere in the slot. */
static void verify(uint64_t n, const struct msg *m, const uint8_t *slot, size_t size,
		   const struct ibv_sge *sge, uint32_t pieces)
{
	const uint8_t *at = slot;
	uint64_t off = 0, part;
	int64_t bad;
	uint32_t i;

	for (i = 0; i < pieces; i++) {
		const uint8_t *p = (void *)sge[i].addr;

		bad = canary_check(at, p - at);
		if (bad >= 0)
			wrong("message %" PRIu64 " (%s) of %" PRIu64 " bytes: written %td bytes before piece %u",
			      n, m->op->name, m->len, p - at - bad, i);
		part = min(m->len - off, sge[i].length);
		bad = pattern_check(p, m->key, off, part);
		if (bad >= 0)
			wrong("message %" PRIu64 " (%s) of %" PRIu64 " bytes: byte %" PRId64
			      " is wrong (0x%02x; piece %u of %u, address %p)", n, m->op->name, m->len,
			      bad, p[bad - off], i, pieces, p + (bad - off));
		off += part;
		at = p + part;
	}
	bad = canary_check(at, slot + size - at);
	if (bad >= 0)
		wrong("message %" PRIu64 " (%s) of %" PRIu64 " bytes: written %" PRId64
		      " bytes after its end", n, m->op->name, m->len, bad);
}

static void counted(const struct msg *m)
{
	total_msgs++;
	total_bytes += m->len;
}

/* What was written is at the other side. */
static void written(const struct flow *f, uint64_t n, const struct msg *m)
{
	struct ibv_sge at;
	uint8_t *slot = target(f, n, m, &at);

	verify(n, m, slot, o.slot, &at, 1);
	counted(m);
}

/* A request is complete: what it brought back, or did there */
static void request_done(struct flow *f, uint64_t n)
{
	struct ibv_sge sge[MAX_SGE];
	uint64_t got;
	struct msg m;

	describe(f, n, &m);
	cut(m.layout[0], local_slot(f, n), m.len, m.nsge[0], sge);
	switch (m.op - ops) {
	case OP_WRITE:
		if (o.type == IBV_QPT_RC)
			written(f, n, &m);
		break;
	case OP_READ:
		verify(n, &m, local_slot(f, n), o.slot, sge, m.nsge[0]);
		counted(&m);
		break;
	case OP_ADD:
	case OP_SWAP:
		memcpy(&got, (void *)sge[0].addr, sizeof(got));
		if (got != f->fetched[n % o.s.window])
			wrong("message %" PRIu64 " (%s) fetched 0x%" PRIx64 ", not 0x%" PRIx64, n,
			      m.op->name, got, f->fetched[n % o.s.window]);
		pattern_fill((void *)sge[0].addr, m.key, 0, sizeof(got));
		verify(n, &m, local_slot(f, n), o.slot, sge, 1);
		counted(&m);
		break;
	}
}

static void send_done(unsigned int side, const struct ibv_wc *wc)
{
	struct flow *f = wc_flow(wc, side, false);
	uint64_t n = f->sent;
	struct msg m;

	/* those that are not signaled complete with the next that is */
	while (!signaled(f, n))
		n++;
	if (wc->wr_id != wr_id(f, n))
		wrong("send completion of message %" PRIu64 ", expected %" PRIu64,
		      wc->wr_id & 0xffffffffff, n);
	if (n >= f->posted)
		wrong("send completion of message %" PRIu64 " before it was posted", n);
	describe(f, n, &m);
	if (wc->opcode != m.op->swc)
		wrong("send completion of message %" PRIu64 " has opcode %d, not %d", n, wc->opcode,
		      m.op->swc);
	if (m.op - ops >= OP_READ && wc->byte_len != m.len)
		wrong("%s of message %" PRIu64 " has byte_len %u, not %" PRIu64, m.op->name, n,
		      wc->byte_len, m.len);
	if (o.s.ops & ~OPS_SEND)
		for (; f->sent < n; f->sent++)
			request_done(f, f->sent);
	if (o.s.ops & ~OPS_SEND)
		request_done(f, n);
	f->sent = n + 1;
}

/* UC: those before a message that has arrived have, too. */
static void written_before(const struct flow *f, uint64_t n, uint64_t end)
{
	struct msg m;

	for (; n < end; n++) {
		describe(f, n, &m);
		written(f, n, &m);
	}
}

static void recv_verify(struct flow *f, uint64_t n, const struct msg *m)
{
	uint8_t *slot = f->rbuf + f->rdone % o.s.depth * o.slot;
	const size_t grh = o.type == IBV_QPT_UD ? GRH_ROOM : 0;
	struct ibv_sge sge[MAX_SGE];
	int64_t bad;

	if (m->op == &ops[OP_WRITE_IMM]) {
		bad = canary_check(slot, o.slot);
		if (bad >= 0)
			wrong("message %" PRIu64 " (write_imm): its receive is written to", n);
		written(f, n, m);
		return;
	}
	bad = grh ? canary_check(slot + 40, grh - 40) : -1;
	if (bad >= 0)
		wrong("message %" PRIu64 ": written %" PRId64 " bytes after its GRH", n, bad);
	cut(m->layout[1], slot + grh, m->cap, m->nsge[1], sge);
	verify(n, m, slot + grh, o.slot - grh, sge, m->nsge[1]);
	counted(m);
}

static void recv_done(unsigned int side, const struct ibv_wc *wc)
{
	struct flow *f = wc_flow(wc, side, true);
	const uint64_t n = next_recv(f, f->received);
	const uint32_t grh = o.type == IBV_QPT_UD ? 40 : 0;
	struct msg m;

	if (wc->wr_id != wr_id(f, n))
		wrong("receive completion of message %" PRIu64 ", expected %" PRIu64,
		      wc->wr_id & 0xffffffffff, n);
	describe(f, n, &m);
	if (wc->opcode != m.op->rwc)
		wrong("receive completion of message %" PRIu64 " has opcode %d, not %d", n,
		      wc->opcode, m.op->rwc);
	if (wc->byte_len != m.len + grh)
		wrong("message %" PRIu64 " has byte_len %u, not %" PRIu64, n, wc->byte_len,
		      m.len + grh);
	if (!!(wc->wc_flags & IBV_WC_WITH_IMM) != m.op->imm)
		wrong("message %" PRIu64 " (%s) has wc_flags 0x%x", n, m.op->name, wc->wc_flags);
	if (m.op->imm && be32toh(wc->imm_data) != m.imm)
		wrong("message %" PRIu64 " has immediate data 0x%x, not 0x%x", n,
		      be32toh(wc->imm_data), m.imm);
	if (wc->wc_flags & IBV_WC_WITH_INV)
		wrong("message %" PRIu64 " has wc_flags 0x%x: nothing was invalidated", n, wc->wc_flags);
	if (o.type == IBV_QPT_UC)
		written_before(f, f->received, n);
	recv_verify(f, n, &m);
	f->received = n + 1;
	f->rdone++;
	sides[side].r.solicited_seen += m.solicited;
	post_recv(f);
}

static void async_check(struct side *s)
{
	struct ibv_async_event ev;
	struct pollfd pfd = { .fd = s->e.ctx->async_fd, .events = POLLIN };

	if (poll(&pfd, 1, 0) <= 0)
		return;
	if (ibv_get_async_event(s->e.ctx, &ev))
		fail("get_async_event on %s: %s", s->e.name, strerror(errno));
	ibv_ack_async_event(&ev);
	switch (ev.event_type) {
	case IBV_EVENT_DEVICE_FATAL:
		printf("xfer: %s is gone\n", s->e.name);
		fflush(stdout);
		_exit(GONE);
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_LID_CHANGE:
		break;
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_CQ_ERR:
		wrong("event on %s: %s", s->e.name, ibv_event_type_str(ev.event_type));
	default:
		fail("event on %s: %s", s->e.name, ibv_event_type_str(ev.event_type));
	}
}

static void arm(struct cq *c)
{
	int err = ibv_req_notify_cq(c->cq, c->solicited);

	if (err)
		fail("req_notify_cq: %s", strerror(err));
}

/*
 * With events, a CQ is looked at only after one: polled until it is empty,
 * armed, and polled once more.
 */
static bool poll_one(unsigned int side, struct cq *c, bool recv)
{
	struct ibv_wc wc[16];
	bool any = false;
	int i, n, rounds = 0;

	if (c->arm == ARMED)
		return false;
	for (;;) {
		n = ibv_poll_cq(c->cq, ARRAY_SIZE(wc), wc);
		if (n < 0)
			fail("poll_cq returns %d", n);
		for (i = 0; i < n; i++)
			if (recv)
				recv_done(side, &wc[i]);
			else
				send_done(side, &wc[i]);
		c->completions += n;
		any |= n;
		/* else those that it has, or one side's would be taken faster than the other's */
		if (!o.events && (n < (int)ARRAY_SIZE(wc) || ++rounds == ROUNDS))
			return any;
		if (n)
			continue;
		if (c->arm == ARMED_POLL) {
			c->arm = ARMED;
			return any;
		}
		arm(c);
		c->arm = ARMED_POLL;
	}
}

static bool wait_events(void)
{
	struct pollfd pfd[2];
	struct ibv_cq *cq;
	bool any = false;
	void *ctx;
	int i, n = 0;

	for (i = 0; i < 2; i++)
		if (sides[i].local)
			pfd[n++] = (struct pollfd) { .fd = sides[i].channel->fd, .events = POLLIN };
	if (poll(pfd, n, o.pause ? (int)o.pause : 1000) <= 0)
		return false;
	for (i = 0; i < 2; i++) {
		if (!sides[i].local)
			continue;
		while (!ibv_get_cq_event(sides[i].channel, &cq, &ctx)) {
			struct cq *c = ctx;

			if (c->cq != cq || (c != &sides[i].s && c != &sides[i].r))
				wrong("an event of a CQ of some other channel");
			if (c->arm == UNARMED)
				wrong("a completion event that was not asked for");
			ibv_ack_cq_events(cq, 1);
			c->arm = UNARMED;
			c->events++;
			any = true;
		}
		if (errno != EAGAIN)
			fail("get_cq_event: %s", strerror(errno));
	}
	return any;
}

static bool flow_done(const struct flow *f)
{
	return (!sides[f->from].local || f->sent == f->end) &&
	       (!sides[!f->from].local || next_recv(f, f->received) == f->end);
}

/*
 * No more than what makes the last message one that completes and, if they do,
 * tells.
 */
static void time_is_up(void)
{
	const uint64_t step = (uint64_t)o.signal * TELL * max(o.s.solicited, 1U);
	unsigned int i;

	for (i = 0; i < nflows; i++)
		flows[i].end = min(flows[i].end, (flows[i].posted + step - 1) / step * step);
	o.time = 0;
}

static bool two_programs(void)
{
	return o.listen || o.host;
}

/* One of two programs: the other one would go on. */
static bool cut_off(void)
{
	return stop && two_programs();
}

/* Post some. Return: whether there was something to post. */
static bool post_some(struct flow *f)
{
	uint32_t i;

	for (i = 0; i < o.posts && post_sends(f); i++)
		;
	return i;
}

static void traffic(void)
{
	double last = now(), t, checked = last;
	const double end = last + o.time;
	bool busy, done, ending = false;
	unsigned int i;

	while (!cut_off()) {
		busy = false;
		done = true;
		for (i = 0; i < 2; i++) {
			if (!sides[i].local)
				continue;
			busy |= poll_one(i, &sides[i].r, true);
			busy |= poll_one(i, &sides[i].s, false);
		}
		for (i = 0; i < nflows; i++) {
			if (sides[flows[i].from].local)
				busy |= post_some(&flows[i]);
			done &= flow_done(&flows[i]);
		}
		if (done)
			break;
		if (!busy && o.events)
			busy = wait_events();
		t = now();
		if (busy)
			last = t;
		if (t - checked < 0.05)
			continue;
		checked = t;
		if (!ending && (stop || (o.time && t > end))) {
			time_is_up();
			ending = true;
		}
		for (i = 0; i < 2; i++)
			if (sides[i].local)
				async_check(&sides[i]);
		if (t - last > o.patience)
			fail("nothing has happened for %.0f s", o.patience);
	}
}

/* --- setting up --------------------------------------------------------------- */

static void *get_memory(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | (o.huge ? MAP_HUGETLB : 0), -1, 0);

	if (p == MAP_FAILED)
		die("%zu MiB of %smemory", len >> 20, o.huge ? "huge page " : "");
	return p;
}

static void side_up(unsigned int i)
{
	struct side *s = &sides[i];
	struct ibv_qp_init_attr ia;
	uint32_t sge = o.s.sge;
	const int access = IBV_ACCESS_LOCAL_WRITE | (o.s.ops & ~OPS_SEND ? REMOTE : 0);
	const uint32_t targets = o.s.ops & ~OPS_SEND ? o.s.window : 0;
	unsigned int q, n, off;
	uint8_t *p;

	end_open(&s->e, o.dev[i], o.gid[i]);
	s->local = true;
	if (sge == UINT32_MAX)
		sge = s->e.attr.max_sge;
	if (sge > (uint32_t)s->e.attr.max_sge || sge > MAX_SGE) {
		errno = 0;
		die("%s takes %d pieces, not %u", o.dev[i], s->e.attr.max_sge, sge);
	}
	o.s.sge = sge;
	o.slot = (max(o.max_len, 8U) + (size_t)(GAP + 8) * sge + GAP + 63) & ~63UL;
	if (o.type == IBV_QPT_UD)
		o.slot += GRH_ROOM;

	s->channel = ibv_create_comp_channel(s->e.ctx);
	if (!s->channel)
		die("create_comp_channel");
	fcntl(s->channel->fd, F_SETFL, O_NONBLOCK);
	s->s.cq = ibv_create_cq(s->e.ctx, o.s.qps * o.s.window, &s->s, s->channel, 0);
	s->r.cq = ibv_create_cq(s->e.ctx, o.s.qps * o.s.depth, &s->r, s->channel, 0);
	if (!s->s.cq || !s->r.cq)
		die("create_cq");
	s->r.solicited = o.s.solicited;

	/* memory of all this side's slots, registered as one, not at a page's start */
	off = o.s.unaligned ? 37 : 0;
	for (n = 0, q = 0; q < nflows; q++)
		n += flows[q].from == i ? o.s.window : o.s.depth + targets;
	s->mem_len = n * o.slot + nflows * WORDS * 8 + 8;
	n = o.huge ? 2 << 20 : 4096;
	p = get_memory((s->mem_len + off + n - 1) & ~((size_t)n - 1));
	s->mem = p + off;
	s->iova = o.iova ? 0x100000000000ULL + off : (uintptr_t)s->mem;
	s->mr = o.iova ? ibv_reg_mr_iova(s->e.pd, s->mem, s->mem_len, s->iova, access) :
			 ibv_reg_mr(s->e.pd, s->mem, s->mem_len, access);
	if (!s->mr)
		die("reg_mr of %zu bytes", s->mem_len);
	for (p = s->mem, q = 0; q < nflows; q++) {
		if (flows[q].from == i) {
			flows[q].sbuf = p;
			flows[q].fetched = calloc(o.s.window, sizeof(uint64_t));
			p += o.s.window * o.slot;
		} else {
			flows[q].rbuf = p;
			p += o.s.depth * o.slot;
			flows[q].tbuf = p;
			p += targets * o.slot;
		}
	}
	/* at the end, aligned where the device sees them: slots are multiples of 64 */
	p += -(s->iova + (p - s->mem)) & 7;
	for (q = 0; q < nflows; q++)
		if (flows[q].from != i)
			flows[q].words = (uint64_t *)p + q * WORDS;

	s->qp = calloc(o.s.qps, sizeof(*s->qp));
	s->peer = calloc(o.s.qps, sizeof(*s->peer));
	for (q = 0; q < o.s.qps; q++) {
		ia = (struct ibv_qp_init_attr) {
			.send_cq = s->s.cq,
			.recv_cq = s->r.cq,
			.cap = {
				.max_send_wr = o.s.window,
				.max_recv_wr = o.s.depth,
				.max_send_sge = sge,
				.max_recv_sge = sge + (o.type == IBV_QPT_UD),
				.max_inline_data = o.inl ? 64 : 0,
			},
			.qp_type = o.type,
			.sq_sig_all = o.sig_all,
		};
		s->qp[q] = ibv_create_qp(s->e.pd, &ia);
		if (!s->qp[q])
			die("create_qp %u of %u", q, o.s.qps);
		o.max_inline = ia.cap.max_inline_data;
		s->peer[q].qpn = s->qp[q]->qp_num;
		s->peer[q].psn = mix64(o.s.seed + q * 2 + i) & 0xffffff;
		s->peer[q].gid = s->e.gid;
		s->peer[q].mtu = o.s.mtu ? mtu_enum(o.s.mtu) : s->e.port.active_mtu;
	}
}

/* Datagrams need no connection, but the other side's address. */
static void datagrams_up(struct side *s, const struct side *t)
{
	struct ibv_qp_attr a = { .port_num = 1, .qkey = QKEY };
	struct ibv_ah_attr ah = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = t->peer[0].gid, .sgid_index = s->e.gid_index, .hop_limit = 64,
			 .traffic_class = o.conn.traffic_class },
	};
	unsigned int q;

	s->ah = ibv_create_ah(s->e.pd, &ah);
	if (!s->ah)
		die("create_ah");
	for (q = 0; q < o.s.qps; q++) {
		a.qp_state = IBV_QPS_INIT;
		errno = ibv_modify_qp(s->qp[q], &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						    IBV_QP_QKEY);
		a.qp_state = IBV_QPS_RTR;
		if (!errno)
			errno = ibv_modify_qp(s->qp[q], &a, IBV_QP_STATE);
		a.qp_state = IBV_QPS_RTS;
		a.sq_psn = s->peer[q].psn;
		if (!errno)
			errno = ibv_modify_qp(s->qp[q], &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
		if (errno)
			die("modify_qp");
	}
}

static void connect_all(unsigned int i)
{
	struct side *s = &sides[i], *t = &sides[!i];
	struct conn c = o.conn;
	unsigned int q;

	c.mtu = min(s->peer[0].mtu, t->peer[0].mtu);
	if (o.s.ops & OPS_ATOMIC)
		c.access |= IBV_ACCESS_REMOTE_ATOMIC;
	if (o.type == IBV_QPT_UD) {
		datagrams_up(s, t);
		return;
	}
	for (q = 0; q < o.s.qps; q++)
		qp_connect(s->qp[q], &s->e, s->peer[q].psn, &t->peer[q], &c);
}

static void side_down(unsigned int i)
{
	struct side *s = &sides[i];
	unsigned int q;

	for (q = 0; q < o.s.qps; q++)
		if (ibv_destroy_qp(s->qp[q]))
			die("destroy_qp");
	if (s->ah && ibv_destroy_ah(s->ah))
		die("destroy_ah");
	if (ibv_destroy_cq(s->s.cq) || ibv_destroy_cq(s->r.cq))
		die("destroy_cq");
	if (ibv_dereg_mr(s->mr))
		die("dereg_mr");
	if (ibv_destroy_comp_channel(s->channel))
		die("destroy_comp_channel");
	end_close(&s->e);
}

/* --- two processes -------------------------------------------------------------- */

static int tcp_open(void)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = o.listen ? AI_PASSIVE : 0 };
	struct addrinfo *ai;
	double end = now() + o.patience;
	int fd, one = 1, err, l;

	err = getaddrinfo(o.listen ? NULL : o.host, o.port, &hints, &ai);
	if (err) {
		errno = 0;
		die("%s: %s", o.host, gai_strerror(err));
	}
	if (o.listen) {
		l = socket(ai->ai_family, SOCK_STREAM, 0);
		setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (l < 0 || bind(l, ai->ai_addr, ai->ai_addrlen) || listen(l, 1))
			die("cannot listen on port %s", o.port);
		fd = accept(l, NULL, NULL);
		if (fd < 0)
			die("accept");
		close(l);
		return fd;
	}
	for (;;) {
		fd = socket(ai->ai_family, SOCK_STREAM, 0);
		if (!connect(fd, ai->ai_addr, ai->ai_addrlen))
			return fd;
		if (now() > end)
			die("cannot connect to %s port %s", o.host, o.port);
		close(fd);
		sleep_ms(100);
	}
}

static void tcp_swap(int fd, const void *out, void *in, size_t len)
{
	size_t done;
	ssize_t n;

	for (done = 0; done < len; done += n) {
		n = write(fd, (const char *)out + done, len - done);
		if (n <= 0)
			die("the other side is gone");
	}
	for (done = 0; done < len; done += n) {
		n = read(fd, (char *)in + done, len - done);
		if (n <= 0) {
			errno = n ? errno : 0;
			fail("the other side has ended");
		}
	}
}

static int two_processes(void)
{
	unsigned int i = !o.listen;
	struct shared other;
	int fd;

	if (i) {
		o.dev[1] = o.dev[0];
		o.gid[1] = o.gid[0];
	}
	fd = tcp_open();
	side_up(i);
	tcp_swap(fd, &o.s, &other, sizeof(other));
	if (memcmp(&o.s, &other, sizeof(other))) {
		errno = 0;
		die("the two sides were given different options");
	}
	sides[!i].peer = calloc(o.s.qps, sizeof(struct peer));
	tcp_swap(fd, sides[i].peer, sides[!i].peer, o.s.qps * sizeof(struct peer));
	return fd;
}

/* --- options ------------------------------------------------------------------------ */

static const char usage_text[] =
"usage: xfer -d DEV [-D DEV2] [-g GID] [-G GID2] [options]\n"
"       xfer -d DEV [-g GID] -l | -c HOST [options]\n"
"\n"
"Send messages from DEV to DEV2 (default: DEV itself), both opened by this\n"
"program; or with -l and -c between two of them, to the one that listens from\n"
"the other. Check every byte.\n"
"\n"
"  -g, -G GID      an index or an address (default: the first of IPv4)\n"
"  -l / -c HOST    listen for / connect to the other process, -p PORT\n"
"  -n COUNT        messages a flow; 0: until SIGINT, when what is under way still\n"
"                  arrives and is checked if both ends are in one program; another\n"
"                  one ends it at once (default 100)\n"
"  -s SIZES        e.g. 0,1,4K-64K: in turn, ranges at random (default 0-64K)\n"
"  -o OPS          of send, send_imm, write, write_imm, read, fetch_add, cmp_swp, at\n"
"                  random (default: the first two; others within one program only)\n"
"  -t TYPE         of the queue pairs: rc, uc, ud (default rc)\n"
"  -w N            sends outstanding (default 16)\n"
"  -r N            receives posted (default: as -w)\n"
"  -q N            queue pairs (default 1)\n"
"  -b              both directions\n"
"  -m MTU          path MTU (default: the ports')\n"
"  -e              wait for completion events instead of polling\n"
"  -S N            wake the receiver only for every Nth message (with -e)\n"
"  -k N            up to N pieces a message; 'max': what the device takes\n"
"  -i              inline what is short enough\n"
"  -u              odd addresses and lengths of pieces\n"
"  -v              numbers\n"
"  --show          tell DEV's MTU, port state and GID index, and send nothing\n"
"  --signal N      ask for a completion of every Nth send only\n"
"  --sig-all       create the queue pairs with sq_sig_all\n"
"  --batch N       work requests a post (default 16)\n"
"  --posts N       posts between two looks for completions (default 1)\n"
"  --time S        so long, instead of COUNT messages; within one program only\n"
"  --rd-atomic N   READs and ATOMICs outstanding (default 1)\n"
"  --pause MS      between messages\n"
"  --iova          memory registered at another address\n"
"  --huge          memory of huge pages\n"
"  --timeout T --retry N --rnr N --min-rnr T --tclass N    of the connection\n"
"  --patience S    give up when nothing has happened for so long\n"
"  --seed N        of all that is random (default: another each time)\n"
"  --random        random options, too\n"
"\n"
"Status 0: all that was sent has arrived, and is right; 1: a connection has ended,\n"
"nothing has happened for long, or something could not be made; 2: the options;\n"
"3: the device has gone; 4: data or completions are wrong.\n";

static uint64_t number(const char *s, char **end)
{
	uint64_t n = strtoull(s, end, 0);

	switch (**end) {
	case 'K':
		n <<= 10;
		break;
	case 'M':
		n <<= 20;
		break;
	case 'G':
		n <<= 30;
		break;
	default:
		return n;
	}
	++*end;
	return n;
}

static void parse_sizes(const char *s)
{
	struct range *r;
	char *end;

	o.s.nsizes = 0;
	for (;; s = end + 1) {
		if (o.s.nsizes == MAX_SIZES)
			break;
		r = &o.s.sizes[o.s.nsizes++];
		r->lo = r->hi = number(s, &end);
		if (*end == '-')
			r->hi = number(end + 1, &end);
		if (r->hi < r->lo || r->hi > 1ULL << 31)
			break;
		if (!*end)
			return;
		if (*end != ',')
			break;
	}
	errno = 0;
	die("sizes: %s", s);
}

static void parse_ops(const char *arg)
{
	/* the arguments are shown as they were when something fails */
	char *s = strdup(arg), *op, *all = s;
	unsigned int i;

	o.s.ops = 0;
	while ((op = strsep(&s, ","))) {
		for (i = 0; i < ARRAY_SIZE(ops) && strcmp(op, ops[i].name); i++)
			;
		if (i == ARRAY_SIZE(ops)) {
			errno = 0;
			die("no operation %s", op);
		}
		o.s.ops |= 1U << i;
	}
	free(all);
}

static void parse_type(const char *s)
{
	o.type = !strcmp(s, "rc") ? IBV_QPT_RC : !strcmp(s, "uc") ? IBV_QPT_UC : IBV_QPT_UD;
	if (o.type == IBV_QPT_UD && strcmp(s, "ud")) {
		errno = 0;
		die("no type %s", s);
	}
}

/* What does not go together, or with two processes */
static bool options_fit(void)
{
	const uint32_t can = o.type == IBV_QPT_UD ? OPS_SEND : o.type == IBV_QPT_UC ? OPS_UC : ~0U;
	const bool two = two_programs();

	if (o.s.ops & ~can || (two && (o.s.ops & ~OPS_SEND || o.type != IBV_QPT_RC || o.time)))
		return false;
	/* one that tells has to be among those that fit */
	return o.type != IBV_QPT_UC || o.s.window >= TELL;
}

static void randomize(void)
{
	struct rng r = { o.s.seed };

	o.s.window = rng_in(&r, 1, 64);
	o.s.depth = rng_in(&r, 1, 64);
	o.s.qps = rng_in(&r, 1, 8);
	o.s.sge = rng_in(&r, 1, 4);
	o.s.unaligned = rng_in(&r, 0, 3) != 0;
	o.s.both = rng_in(&r, 0, 1);
	o.signal = rng_in(&r, 1, o.s.window);
	o.batch = rng_in(&r, 1, BATCH);
	o.inl = rng_in(&r, 0, 1);
	o.iova = rng_in(&r, 0, 1);
	o.events = rng_in(&r, 0, 1);
	if (o.events && rng_in(&r, 0, 1))
		o.s.solicited = rng_in(&r, 1, o.s.depth);
	o.s.mtu = 256U << rng_in(&r, 0, 2);
}

enum { O_SIGNAL = 256, O_SIG_ALL, O_BATCH, O_PAUSE, O_IOVA, O_HUGE, O_TIMEOUT, O_RETRY, O_RNR,
	O_MIN_RNR, O_TCLASS, O_PATIENCE, O_SEED, O_RANDOM, O_SHOW, O_POSTS, O_TIME, O_RD_ATOMIC };

static void options(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "signal", 1, NULL, O_SIGNAL },
		{ "sig-all", 0, NULL, O_SIG_ALL },
		{ "batch", 1, NULL, O_BATCH },
		{ "posts", 1, NULL, O_POSTS },
		{ "time", 1, NULL, O_TIME },
		{ "rd-atomic", 1, NULL, O_RD_ATOMIC },
		{ "pause", 1, NULL, O_PAUSE },
		{ "iova", 0, NULL, O_IOVA },
		{ "huge", 0, NULL, O_HUGE },
		{ "timeout", 1, NULL, O_TIMEOUT },
		{ "retry", 1, NULL, O_RETRY },
		{ "rnr", 1, NULL, O_RNR },
		{ "min-rnr", 1, NULL, O_MIN_RNR },
		{ "tclass", 1, NULL, O_TCLASS },
		{ "patience", 1, NULL, O_PATIENCE },
		{ "seed", 1, NULL, O_SEED },
		{ "random", 0, NULL, O_RANDOM },
		{ "show", 0, NULL, O_SHOW },
		{ "help", 0, NULL, 'h' },
		{}
	};
	bool random = false, seeded = false;
	unsigned int i;
	char *end;
	int c;

	o.conn = conn_default;
	o.s.seed = (uint64_t)(now() * 1e6) % 1000000007;
	parse_sizes("0-64K");
	while ((c = getopt_long(argc, argv, "d:D:g:G:lc:p:n:s:o:t:w:r:q:bm:eS:k:iuvh", longs, NULL)) != -1) {
		switch (c) {
		case 'd': o.dev[0] = optarg; break;
		case 'D': o.dev[1] = optarg; break;
		case 'g': o.gid[0] = optarg; break;
		case 'G': o.gid[1] = optarg; break;
		case 'l': o.listen = true; break;
		case 'c': o.host = optarg; break;
		case 'p': o.port = optarg; break;
		case 'n': o.s.count = number(optarg, &end); break;
		case 's': parse_sizes(optarg); break;
		case 'o': parse_ops(optarg); break;
		case 't': parse_type(optarg); break;
		case 'w': o.s.window = atoi(optarg); break;
		case 'r': o.s.depth = atoi(optarg); break;
		case 'q': o.s.qps = atoi(optarg); break;
		case 'b': o.s.both = 1; break;
		case 'm': o.s.mtu = atoi(optarg); break;
		case 'e': o.events = true; break;
		case 'S': o.s.solicited = atoi(optarg); o.events = true; break;
		case 'k': o.s.sge = strcmp(optarg, "max") ? (uint32_t)atoi(optarg) : UINT32_MAX; break;
		case 'i': o.inl = true; break;
		case 'u': o.s.unaligned = 1; break;
		case 'v': o.verbose = true; break;
		case O_SIGNAL: o.signal = atoi(optarg); break;
		case O_SIG_ALL: o.sig_all = true; break;
		case O_BATCH: o.batch = atoi(optarg); break;
		case O_POSTS: o.posts = atoi(optarg); break;
		case O_TIME: o.time = atof(optarg); break;
		case O_RD_ATOMIC: o.conn.rd_atomic = atoi(optarg); break;
		case O_PAUSE: o.pause = atoi(optarg); break;
		case O_IOVA: o.iova = true; break;
		case O_HUGE: o.huge = true; break;
		case O_TIMEOUT: o.conn.timeout = atoi(optarg); break;
		case O_RETRY: o.conn.retry_cnt = atoi(optarg); break;
		case O_RNR: o.conn.rnr_retry = atoi(optarg); break;
		case O_MIN_RNR: o.conn.min_rnr_timer = atoi(optarg); break;
		case O_TCLASS: o.conn.traffic_class = strtoul(optarg, NULL, 0); break;
		case O_PATIENCE: o.patience = atof(optarg); break;
		case O_SEED: o.s.seed = strtoull(optarg, NULL, 0); seeded = true; break;
		case O_RANDOM: random = true; break;
		case O_SHOW: o.show = true; break;
		case 'h': fputs(usage_text, stdout); exit(0);
		default: fputs(usage_text, stderr); exit(2);
		}
	}
	/* two processes have to agree on it */
	if (two_programs() && !seeded)
		o.s.seed = 1;
	if (random)
		randomize();
	if (!o.s.depth)
		o.s.depth = o.s.window;
	if (!o.dev[0] || argc != optind || !o.s.window || !o.s.qps || !o.s.sge || !o.signal ||
	    o.signal > o.s.window || o.s.solicited > o.s.depth || !o.batch || o.batch > BATCH ||
	    !o.posts || !options_fit()) {
		fputs(usage_text, stderr);
		exit(2);
	}
	if (!o.dev[1])
		o.dev[1] = o.dev[0];
	for (i = 0; i < o.s.nsizes; i++)
		o.max_len = max(o.max_len, o.s.sizes[i].hi);
	cmd_argc = argc;
	cmd_argv = argv;
}

/* System calls that write, of which a doorbell is one; -1 if the kernel does not count them. */
static long long writes(void)
{
	long long n = -1;
	char line[80];
	FILE *f = fopen("/proc/self/io", "r");

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "syscw: %lld", &n);
	if (f)
		fclose(f);
	return n;
}

static long long switches(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u.ru_nvcsw;
}

/* All that was done to the words is in them, and no more. */
static void words_check(const struct flow *f)
{
	unsigned int i;

	for (i = 0; i < WORDS && sides[!f->from].local && o.s.ops & OPS_ATOMIC; i++)
		if (f->words[i] != f->shadow[i])
			wrong("word %u of flow %td is 0x%" PRIx64 ", not 0x%" PRIx64, i, f - flows,
			      f->words[i], f->shadow[i]);
}

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

int main(int argc, char **argv)
{
	bool two;
	unsigned int i, q, pass;
	long long calls, waits;
	uint64_t want;
	int fd = -1;
	char byte = 0;
	double t;

	options(argc, argv);
	/* the next one ends it */
	sigaction(SIGINT, &(struct sigaction) { .sa_handler = on_signal,
						.sa_flags = SA_RESTART | SA_RESETHAND }, NULL);
	signal(SIGPIPE, SIG_IGN);

	if (o.show) {
		end_open(&sides[0].e, o.dev[0], o.gid[0] ? o.gid[0] : "");
		printf("%s: active_mtu %u, state %s, gid_index %d\n", o.dev[0],
		       mtu_bytes(sides[0].e.port.active_mtu),
		       ibv_port_state_str(sides[0].e.port.state), sides[0].e.gid_index);
		end_close(&sides[0].e);
		return 0;
	}
	two = two_programs();
	flows = calloc(o.s.qps * 2, sizeof(*flows));
	/* of two processes, the one that connects sends */
	for (pass = 0; pass <= o.s.both; pass++)
		for (q = 0; q < o.s.qps; q++)
			flows[nflows++] = (struct flow) {
				.qp = q,
				.from = two ? !pass : pass,
				.end = o.s.count && !o.time ? o.s.count : UINT64_MAX,
			};

	if (two) {
		fd = two_processes();
		connect_all(!o.listen);
	} else {
		side_up(0);
		side_up(1);
		connect_all(0);
		connect_all(1);
	}
	for (i = 0; i < nflows; i++) {
		if (!sides[!flows[i].from].local)
			continue;
		for (q = 0; q < o.s.depth; q++)
			post_recv(&flows[i]);
	}
	if (fd >= 0)
		tcp_swap(fd, &byte, &byte, 1);

	calls = writes();
	waits = switches();
	t = now();
	traffic();
	t = now() - t;
	calls = calls < 0 ? calls : writes() - calls;
	waits = switches() - waits;

	/* the other one may still be waiting for an acknowledgement */
	if (fd >= 0)
		tcp_swap(fd, &byte, &byte, 1);

	for (i = 0; i < 2; i++) {
		struct side *s = &sides[i];

		if (!s->local)
			continue;
		if (!cut_off() && (poll_one(i, &s->r, true) || poll_one(i, &s->s, false)) &&
		    !o.events)
			wrong("a completion after the last");
		if (s->r.solicited && s->r.events > s->r.solicited_seen)
			wrong("%" PRIu64 " events for %" PRIu64 " solicited messages", s->r.events,
			      s->r.solicited_seen);
		if (o.verbose)
			printf("xfer: %s: %" PRIu64 " send completions, %" PRIu64 " events; %" PRIu64
			       " receive completions, %" PRIu64 " events\n", s->e.name,
			       s->s.completions, s->s.events, s->r.completions, s->r.events);
		async_check(s);
	}
	for (want = 0, i = 0; i < nflows; i++)
		want += sides[!flows[i].from].local ? flows[i].end : 0;
	for (i = 0; i < nflows && !cut_off(); i++)
		words_check(&flows[i]);
	if (!cut_off() && total_msgs != want)
		wrong("%" PRIu64 " messages of %" PRIu64, total_msgs, want);
	for (i = 0; i < 2; i++)
		if (sides[i].local)
			side_down(i);
	if (o.verbose)
		printf("xfer: %lld writes to the kernel, %lld waits\n", calls, waits);
	printf("xfer: %" PRIu64 " messages, %" PRIu64 " bytes verified, %.3f s, %.1f MB/s, seed %" PRIu64 "\n",
	       total_msgs, total_bytes, t, total_bytes / t / 1e6, o.s.seed);
	return 0;
}
