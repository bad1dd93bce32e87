// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Every operation of every transport, drawn at random and checked to the byte.
 *
 * The requester keeps a copy of the responder's memory (the shadow) on which it
 * executes each request when it posts it. What a READ or an ATOMIC then brings
 * back, and at the end all of the responder's memory, has to be what the shadow
 * had. That is only so if requests are executed once and in order; a request
 * that changes what an outstanding READ reads carries a fence, as IBTA 10.8.3
 * asks for.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../include/uapi/rdma/sroce-abi.h"
#include "common.h"

#define SIG IBV_SEND_SIGNALED
#define ACCESS_ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		    IBV_ACCESS_REMOTE_ATOMIC)
#define REGION (128 * 1024)	/* of the responder, that a stream has to itself */
#define ATOMICS 64		/* its first words are for atomics alone, mostly */
#define MAX_SGE 32
#define RING 256		/* requests outstanding at most */
#define GAP 8

static struct end ea, eb;
static bool is_long;

enum {
	SEND = 1 << IBV_WR_SEND,
	SEND_IMM = 1 << IBV_WR_SEND_WITH_IMM,
	WRITE = 1 << IBV_WR_RDMA_WRITE,
	WRITE_IMM = 1 << IBV_WR_RDMA_WRITE_WITH_IMM,
	READ = 1 << IBV_WR_RDMA_READ,
	CMP_SWP = 1 << IBV_WR_ATOMIC_CMP_AND_SWP,
	FETCH_ADD = 1 << IBV_WR_ATOMIC_FETCH_AND_ADD,
	OPS_UC = SEND | SEND_IMM | WRITE | WRITE_IMM,
	OPS_RC = OPS_UC | READ | CMP_SWP | FETCH_ADD,
};

#define EX_UC (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE | \
	       IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
#define EX_RC (EX_UC | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | \
	       IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

/* where messages arrive: a receive queue or a shared one */
struct target {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_srq *srq;
	uint32_t srqn;		/* of XRC */
	struct ibv_mr *mr;
	unsigned int depth;
	unsigned int sharers;	/* streams that it is for; 0: one */
	size_t slot;
	bool filled;
};

/* what is to arrive, or has been asked for */
struct expect {
	unsigned int op;
	uint8_t *data;
	uint32_t len;
	uint32_t imm;
	struct target *t;
	bool here;
	/* of requests that bring data back, where it goes to */
	uint64_t raddr;
	struct ibv_sge sge[MAX_SGE];
	int nsge;
};

/* the requests of one queue pair, in one direction */
struct stream {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct target *t[4];
	unsigned int nt;
	uint32_t peer_qpn;	/* as the receiver's completions name it */
	struct ibv_mr *local, *remote;
	uint8_t *shadow;
	unsigned int ops, window, max_sge, max_inline;
	uint32_t max_len;
	uint64_t count;
	bool ex, reliable;
	struct rng rng;
	uint64_t posted, done;
	unsigned int unsignaled;
	struct expect req[RING];
	uint64_t sent, arrived;
	struct expect msg[RING];
};

static bool broken;	/* the first failure of a run has been told */

#define wrong(...) do { if (!broken) diag(__VA_ARGS__); broken = true; } while (0)

static size_t slot_size(uint32_t max_len)
{
	return (max_len + (MAX_SGE + 1) * GAP + 4095) & ~4095UL;
}

static uint8_t *slot_of(const struct stream *s, uint64_t n)
{
	/* one more than are outstanding: what was read may still be sent on */
	return (uint8_t *)s->local->addr + n % (s->window + 1) * slot_size(s->max_len);
}

static struct target *target_make(struct end *e, struct ibv_cq *cq, struct ibv_qp *qp,
				  struct ibv_srq *srq, unsigned int depth, uint32_t max_len)
{
	struct target *t = calloc(1, sizeof(*t));

	*t = (struct target) { .cq = cq, .qp = qp, .srq = srq, .depth = depth };
	t->slot = slot_size(max_len);
	t->mr = mr_make(e, depth * t->slot, 0);
	return t;
}

static void target_post(const struct target *t, uint64_t i)
{
	uint8_t *at = (uint8_t *)t->mr->addr + i * t->slot;
	/* in two pieces, the first of an odd length */
	struct ibv_sge sge[2] = {
		{ .addr = (uintptr_t)at + GAP, .length = 333, .lkey = t->mr->lkey },
		{ .addr = (uintptr_t)at + GAP + 333, .length = t->slot - 2 * GAP - 333,
		  .lkey = t->mr->lkey },
	};
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = sge, .num_sge = 2 }, *bad;

	memset(at, CANARY, t->slot);
	errno = t->srq ? ibv_post_srq_recv(t->srq, &wr, &bad) : ibv_post_recv(t->qp, &wr, &bad);
	if (errno)
		die("post_recv");
}

static void target_fill(struct target *t)
{
	unsigned int i;

	for (i = 0; i < t->depth && !t->filled; i++)
		target_post(t, i);
	t->filled = true;
}

static uint32_t draw_len(struct stream *s)
{
	uint32_t mtu = 1024, len;

	switch (rng_in(&s->rng, 0, 3)) {
	case 0:
		len = rng_in(&s->rng, 0, 16);
		break;
	case 1:
		len = mtu * rng_in(&s->rng, 0, s->max_len / mtu) + rng_in(&s->rng, 0, 2) - 1;
		break;
	default:
		len = rng_in(&s->rng, 0, s->max_len);
	}
	return len > s->max_len ? 0 : len;
}

/* Pieces of a slot that hold @len bytes, with gaps between them. */
static int cut(struct stream *s, uint8_t *at, uint32_t len, struct ibv_sge *sge)
{
	int i, n = rng_in(&s->rng, !!len, s->max_sge);

	for (i = 0; i < n; i++) {
		at += rng_in(&s->rng, 1, GAP);
		sge[i].addr = (uintptr_t)at;
		sge[i].length = i + 1 == n ? len : rng_in(&s->rng, 0, min(len, 2 * len / (n - i)));
		sge[i].lkey = s->local->lkey;
		len -= sge[i].length;
		at += sge[i].length;
	}
	return n;
}

static void gather(const struct expect *x, uint8_t *to)
{
	int i;

	for (i = 0; i < x->nsge; i++) {
		memcpy(to, (void *)(uintptr_t)x->sge[i].addr, x->sge[i].length);
		to += x->sge[i].length;
	}
}

static bool overlap(const struct expect *x, uint64_t addr, uint32_t len)
{
	return x->raddr < addr + len && addr < x->raddr + x->len;
}

/* Whether an outstanding READ reads what is about to be changed */
static bool read_pending(const struct stream *s, uint64_t addr, uint32_t len)
{
	uint64_t n;

	for (n = s->done; n < s->posted; n++)
		if (s->req[n % RING].op == READ && overlap(&s->req[n % RING], addr, len))
			return true;
	return false;
}

static void expect_copy(struct expect *x, const uint8_t *from)
{
	x->data = malloc(x->len + 1);
	memcpy(x->data, from, x->len);
}

static void message(struct stream *s, const struct expect *x, const uint8_t *data, uint32_t imm)
{
	struct expect *m = &s->msg[s->sent++ % RING];

	*m = (struct expect) { .op = x->op, .len = x->len, .imm = imm, .t = x->t };
	m->data = malloc(x->len + 1);
	if (data)
		memcpy(m->data, data, x->len);
	else
		gather(x, m->data);
}

static int issue(struct stream *s, struct ibv_send_wr *wr)
{
	return s->ex ? wr_post_ex(s->qp, wr) : wr_post(s->qp, wr);
}

/* One request more; the next one after a READ may send on what it has read. */
static void post_one(struct stream *s)
{
	struct expect *x = &s->req[s->posted % RING], *prev = &s->req[(s->posted - 1) % RING];
	uint8_t *base = s->remote->addr, *at = slot_of(s, s->posted), *shadow;
	struct ibv_send_wr wr = { .wr_id = s->posted };
	bool last = s->posted + 1 == s->count, relay;
	uint64_t word, off;
	unsigned int op;
	int err;

	do
		op = 1U << rng_in(&s->rng, 0, 31);
	while (!(s->ops & op));
	/* the last one tells that those before it have arrived */
	if (last && !s->reliable)
		op = SEND;
	relay = s->posted > s->done && prev->op == READ && s->ops & SEND && rng_in(&s->rng, 0, 1);
	if (relay)
		op = SEND;

	free(x->data);
	memset(x, 0, sizeof(*x));
	x->op = op;
	x->t = s->t[rng_in(&s->rng, 0, s->nt - 1)];
	if (s->qp->qp_type == IBV_QPT_XRC_SEND)
		wr.qp_type.xrc.remote_srqn = x->t->srqn;
	wr.sg_list = x->sge;
	wr.opcode = __builtin_ctz(op);
	if (last || s->unsignaled >= s->window / 2 || rng_in(&s->rng, 0, 1))
		wr.send_flags |= SIG;
	s->unsignaled = wr.send_flags & SIG ? 0 : s->unsignaled + 1;
	if (rng_in(&s->rng, 0, 15) == 0)
		wr.send_flags |= IBV_SEND_FENCE;

	memset(at, CANARY, slot_size(s->max_len));
	if (op & (CMP_SWP | FETCH_ADD)) {
		x->len = 8;
		/* words that everything else leaves alone, and now and then any other */
		off = rng_in(&s->rng, 0, 7) ? rng_in(&s->rng, 0, ATOMICS - 1) :
			rng_in(&s->rng, 0, REGION / 8 - 1);
	} else {
		x->len = relay ? prev->len : draw_len(s);
		off = rng_in(&s->rng, 0, REGION - x->len);
	}
	if (op & (CMP_SWP | FETCH_ADD))
		off *= 8;
	shadow = s->shadow + off;
	x->raddr = (uintptr_t)base + off;

	if (relay) {
		memcpy(x->sge, prev->sge, sizeof(x->sge));
		x->nsge = prev->nsge;
		wr.send_flags |= IBV_SEND_FENCE;
	} else if (op & (CMP_SWP | FETCH_ADD)) {
		x->sge[0] = (struct ibv_sge) {
			.addr = (uintptr_t)at + 8 * rng_in(&s->rng, 1, 8),
			.length = 8,
			.lkey = s->local->lkey,
		};
		x->nsge = 1;
	} else {
		x->nsge = cut(s, at, x->len, x->sge);
	}
	wr.num_sge = x->nsge;

	if (op & OPS_UC) {
		if (!relay) {
			uint64_t key = rng_next(&s->rng), o = 0;
			int i;

			for (i = 0; i < x->nsge; i++) {
				pattern_fill((void *)(uintptr_t)x->sge[i].addr, key, o,
					     x->sge[i].length);
				o += x->sge[i].length;
			}
			if (x->len <= s->max_inline && rng_in(&s->rng, 0, 1))
				wr.send_flags |= IBV_SEND_INLINE;
		}
		wr.imm_data = htobe32(rng_next(&s->rng));
	}
	switch (op) {
	case SEND:
	case SEND_IMM:
		x->raddr = 0;
		message(s, x, relay ? prev->data : NULL, wr.imm_data);
		break;
	case WRITE:
	case WRITE_IMM:
		if (read_pending(s, x->raddr, x->len))
			wr.send_flags |= IBV_SEND_FENCE;
		gather(x, shadow);
		if (op == WRITE_IMM)
			message(s, x, NULL, wr.imm_data);
		wr.wr.rdma.remote_addr = x->raddr;
		wr.wr.rdma.rkey = s->remote->rkey;
		break;
	case READ:
		expect_copy(x, shadow);
		wr.wr.rdma.remote_addr = x->raddr;
		wr.wr.rdma.rkey = s->remote->rkey;
		break;
	default:
		if (read_pending(s, x->raddr, 8))
			wr.send_flags |= IBV_SEND_FENCE;
		expect_copy(x, shadow);
		memcpy(&word, shadow, 8);
		wr.wr.atomic.remote_addr = x->raddr;
		wr.wr.atomic.rkey = s->remote->rkey;
		if (op == FETCH_ADD) {
			wr.wr.atomic.compare_add = rng_next(&s->rng);
			word += wr.wr.atomic.compare_add;
		} else {
			/* half of them find what they look for */
			wr.wr.atomic.compare_add = word ^ rng_in(&s->rng, 0, 1) << 40;
			wr.wr.atomic.swap = rng_next(&s->rng);
			if (wr.wr.atomic.compare_add == word)
				word = wr.wr.atomic.swap;
		}
		memcpy(shadow, &word, 8);
	}
	err = issue(s, &wr);
	if (err)
		wrong("request %llu, opcode %u: cannot be posted: %s", (unsigned long long)s->posted,
		      wr.opcode, strerror(err));
	/* inline data was taken when it was posted */
	if (wr.send_flags & IBV_SEND_INLINE)
		memset(at, 0x11, slot_size(s->max_len));
	s->posted++;
}

static void came_back(struct stream *s, uint64_t n)
{
	struct expect *x = &s->req[n % RING];
	uint32_t off = 0, i;
	int k;

	if (!(x->op & (READ | CMP_SWP | FETCH_ADD)))
		return;
	for (k = 0; k < x->nsge; k++) {
		const uint8_t *got = (void *)(uintptr_t)x->sge[k].addr;

		if (canary_check(got - 1, 1) >= 0)
			wrong("request %llu: the byte before piece %d is written",
			      (unsigned long long)n, k);
		for (i = 0; i < x->sge[k].length; i++, off++)
			if (got[i] != x->data[off]) {
				wrong("request %llu, %s of %u bytes: byte %u is 0x%02x, not 0x%02x",
				      (unsigned long long)n, x->op == READ ? "READ" : "ATOMIC",
				      x->len, off, got[i], x->data[off]);
				return;
			}
		if (canary_check(got + i, 1) >= 0)
			wrong("request %llu: the byte after piece %d is written",
			      (unsigned long long)n, k);
	}
}

static enum ibv_wc_opcode wc_opcode(unsigned int op)
{
	switch (op) {
	case WRITE:
	case WRITE_IMM: return IBV_WC_RDMA_WRITE;
	case READ: return IBV_WC_RDMA_READ;
	case CMP_SWP: return IBV_WC_COMP_SWAP;
	case FETCH_ADD: return IBV_WC_FETCH_ADD;
	default: return IBV_WC_SEND;
	}
}

static bool completed(struct stream *s)
{
	struct ibv_wc wc;
	struct expect *x;
	int n;

	n = ibv_poll_cq(s->cq, 1, &wc);
	if (n < 0)
		die("poll_cq");
	if (!n)
		return false;
	x = &s->req[wc.wr_id % RING];
	if (wc.status != IBV_WC_SUCCESS) {
		wrong("request %llu, opcode %d, %u bytes: %s (vendor_err 0x%x)",
		      (unsigned long long)wc.wr_id, wc_opcode(x->op), x->len,
		      ibv_wc_status_str(wc.status), wc.vendor_err);
		return true;
	}
	if (wc.wr_id < s->done || wc.wr_id >= s->posted) {
		wrong("request %llu completes; %llu to %llu are outstanding",
		      (unsigned long long)wc.wr_id, (unsigned long long)s->done,
		      (unsigned long long)s->posted - 1);
		return true;
	}
	if (wc.opcode != wc_opcode(x->op) || wc.qp_num != s->qp->qp_num)
		wrong("request %llu: opcode %d, qp_num 0x%x", (unsigned long long)wc.wr_id,
		      wc.opcode, wc.qp_num);
	if (x->op & (READ | CMP_SWP | FETCH_ADD) && wc.byte_len != x->len)
		wrong("request %llu: byte_len %u, not %u", (unsigned long long)wc.wr_id,
		      wc.byte_len, x->len);
	while (s->done <= wc.wr_id)
		came_back(s, s->done++);
	return true;
}

/* The stream whose message this is, and that message */
static struct expect *whose(struct stream *all, unsigned int n, const struct target *t,
			    const struct ibv_wc *wc)
{
	struct expect *m;
	unsigned int i;
	uint64_t k;

	for (i = 0; i < n; i++) {
		struct stream *s = &all[i];

		if (s->peer_qpn != wc->qp_num)
			continue;
		/* those of one shared queue in order, the queues as they come */
		for (k = s->arrived; k < s->sent; k++) {
			m = &s->msg[k % RING];
			if (m->here || m->t != t)
				continue;
			m->here = true;
			while (s->arrived < s->sent && s->msg[s->arrived % RING].here)
				s->arrived++;
			return m;
		}
	}
	return NULL;
}

static bool received(struct stream *all, unsigned int n, struct target *t)
{
	uint32_t i, len;
	struct expect *m;
	struct ibv_wc wc;
	uint8_t *at;
	int r;

	r = ibv_poll_cq(t->cq, 1, &wc);
	if (r < 0)
		die("poll_cq");
	if (!r)
		return false;
	if (wc.status != IBV_WC_SUCCESS) {
		wrong("receive %llu: %s (vendor_err 0x%x)", (unsigned long long)wc.wr_id,
		      ibv_wc_status_str(wc.status), wc.vendor_err);
		return true;
	}
	m = whose(all, n, t, &wc);
	if (!m) {
		wrong("a message that nobody sent, or that was for another queue (qp_num 0x%x)",
		      wc.qp_num);
		return true;
	}
	if (wc.opcode != (m->op == WRITE_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV) ||
	    wc.byte_len != m->len)
		wrong("receive: opcode %d, byte_len %u, want %u", wc.opcode, wc.byte_len, m->len);
	if (!!(wc.wc_flags & IBV_WC_WITH_IMM) != !!(m->op & (SEND_IMM | WRITE_IMM)) ||
	    (wc.wc_flags & IBV_WC_WITH_IMM && wc.imm_data != m->imm))
		wrong("receive: immediate data 0x%x, want 0x%x (wc_flags 0x%x)",
		      be32toh(wc.imm_data), be32toh(m->imm), wc.wc_flags);
	at = (uint8_t *)t->mr->addr + wc.wr_id * t->slot;
	len = m->op == WRITE_IMM ? 0 : m->len;
	for (i = 0; i < len && at[GAP + i] == m->data[i]; i++)
		;
	if (i < len)
		wrong("receive of %u bytes: byte %u is 0x%02x, not 0x%02x", len, i, at[GAP + i],
		      m->data[i]);
	if (canary_check(at, GAP) >= 0 ||
	    canary_check(at + GAP + len, t->slot - GAP - len) >= 0)
		wrong("receive of %u bytes: something is written around it", len);
	free(m->data);
	m->data = NULL;
	target_post(t, wc.wr_id);
	return true;
}

static unsigned int room(const struct stream *s)
{
	unsigned int n = min(s->window - (s->posted - s->done), s->count - s->posted);

	/* nobody waits for a receive on UC: there has to be one, whatever others take */
	if (!s->reliable) {
		const struct target *t = s->t[0];

		n = min(n, t->depth / max(t->sharers, 1U) - (s->sent - s->arrived));
	}
	return min(n, RING - (s->sent - s->arrived));
}

static void traffic(const char *name, struct stream *all, unsigned int n)
{
	unsigned int i, k, idle = 0;
	double last = now(), start = last;
	uint64_t total = 0;
	bool any, over;

	broken = false;
	for (i = 0; i < n; i++)
		for (k = 0; k < all[i].nt; k++)
			target_fill(all[i].t[k]);
	do {
		any = false;
		over = true;
		for (i = 0; i < n && !broken; i++) {
			struct stream *s = &all[i];

			/* now one, now as many as fit */
			k = rng_in(&s->rng, 1, s->window);
			for (k = min(k, room(s)); k && !broken; k--) {
				post_one(s);
				any = true;
			}
			while (!broken && completed(s))
				any = true;
			for (k = 0; k < s->nt; k++)
				while (!broken && received(all, n, s->t[k]))
					any = true;
			over &= s->done == s->count && s->arrived == s->sent;
		}
		if (any) {
			last = now();
			idle = 0;
		} else if (now() > last + PATIENCE) {
			for (i = 0; i < n; i++)
				if (all[i].done < all[i].count || all[i].arrived < all[i].sent)
					wrong("stream %u: nothing moves: %llu posted, %llu done; %llu messages, %llu arrived; %s",
					      i, (unsigned long long)all[i].posted,
					      (unsigned long long)all[i].done,
					      (unsigned long long)all[i].sent,
					      (unsigned long long)all[i].arrived,
					      state_name(qp_state(all[i].qp)));
			break;
		} else if (++idle > 100) {
			usleep(200);
		}
	} while (!over && !broken);
	for (i = 0; i < n && !broken; i++) {
		uint8_t *mem = all[i].remote->addr;
		uint32_t o;

		for (o = 0; o < REGION && mem[o] == all[i].shadow[o]; o++)
			;
		if (o < REGION)
			wrong("stream %u: byte %u of the responder's memory is 0x%02x, not 0x%02x", i, o,
			      mem[o], all[i].shadow[o]);
		total += all[i].count;
	}
	ok(!broken, "%s: %llu requests of %u queue pairs (%.1f s)", name, (unsigned long long)total, n,
	   now() - start);
}

static void stream_init(struct stream *s, struct end *from, struct end *to, unsigned int ops,
			unsigned int seed)
{
	unsigned int i;

	s->ops = ops;
	s->rng.s = mix64(seed + 1);
	if (!s->window)
		s->window = 48;
	if (!s->max_len)
		s->max_len = 20000;
	if (!s->max_sge)
		s->max_sge = 1;
	if (!s->count)
		s->count = is_long ? 20000 : 500;
	s->local = mr_make(from, (s->window + 1) * slot_size(s->max_len), 0);
	s->remote = mr_make(to, REGION, ACCESS_ALL);
	s->shadow = malloc(REGION);
	for (i = 0; i < REGION / 8; i++)
		((uint64_t *)s->remote->addr)[i] = rng_next(&s->rng);
	memcpy(s->shadow, s->remote->addr, REGION);
}

static void stream_drop(struct stream *s)
{
	unsigned int i;

	mr_drop(s->local);
	mr_drop(s->remote);
	free(s->shadow);
	for (i = 0; i < RING; i++) {
		free(s->req[i].data);
		free(s->msg[i].data);
	}
}

static void target_drop(struct target *t)
{
	mr_drop(t->mr);
	free(t);
}

/* What a run over connected pairs differs in */
struct run {
	const char *name;
	enum ibv_qp_type type;
	unsigned int ops;
	unsigned int qps;
	bool both;
	bool ex;
	unsigned int sge;
	unsigned int inl;
	unsigned int rd_atomic;
	unsigned int window;
	unsigned int depth;	/* of receives: few, and there is RNR */
	uint32_t max_len;
	enum ibv_mtu mtu;
};

static void run(const struct run *r)
{
	struct pair_opts po = {
		.sq = r->window ? r->window : 48,
		.rq = 64,
		.sge = max(r->sge, 2U),
		.inl = r->inl,
		.buf = 4096,
		.type = r->type,
		.send_ops = !r->ex ? 0 : r->type == IBV_QPT_UC ? EX_UC : EX_RC,
	};
	unsigned int i, k, n = 0, ways = 1 + r->both;
	struct pair *p = calloc(r->qps, sizeof(*p));
	struct stream *all = calloc(r->qps * ways, sizeof(*all));
	struct ibv_qp_init_attr ia;
	struct ibv_qp_attr a;

	for (i = 0; i < r->qps; i++) {
		pair_create(&p[i], &ea, &eb, &po);
		p[i].conn.access = ACCESS_ALL;
		p[i].conn.rd_atomic = r->rd_atomic ? r->rd_atomic : 4;
		p[i].conn.timeout = 16;
		if (r->mtu)
			p[i].conn.mtu = r->mtu;
		pair_connect(&p[i]);
		for (k = 0; k < ways; k++) {
			struct stream *s = &all[n++];

			if (ibv_query_qp(p[i].qp[k], &a, IBV_QP_CAP, &ia))
				die("query_qp");
			s->qp = p[i].qp[k];
			s->cq = p[i].scq[k];
			s->peer_qpn = p[i].qp[!k]->qp_num;
			s->max_sge = r->sge;
			s->max_inline = r->inl ? a.cap.max_inline_data : 0;
			s->window = r->window;
			s->max_len = r->max_len;
			s->reliable = r->type != IBV_QPT_UC;
			s->ex = r->ex;
			s->count = (is_long ? 20000 : r->window >= 200 ? 600 : 800) / r->qps / ways + 100;
			stream_init(s, p[i].e[k], p[i].e[!k], r->ops, i * 2 + k);
			s->t[0] = target_make(p[i].e[!k], p[i].rcq[!k], p[i].qp[!k], NULL,
					      r->depth ? r->depth : 64, s->max_len);
			s->nt = 1;
		}
	}
	traffic(r->name, all, n);
	for (i = 0; i < r->qps; i++)
		pair_destroy(&p[i]);
	for (i = 0; i < n; i++) {
		stream_drop(&all[i]);
		target_drop(all[i].t[0]);
	}
	free(all);
	free(p);
}

static void rc(void)
{
	static const struct run runs[] = {
		{ "RC", IBV_QPT_RC, OPS_RC, .qps = 1, .sge = 1 },
		{ "RC, pieces and inline", IBV_QPT_RC, OPS_RC, .qps = 1, .sge = 32, .inl = 256 },
		{ "RC, path MTU 256", IBV_QPT_RC, OPS_RC, .qps = 1, .sge = 3, .mtu = IBV_MTU_256 },
		{ "RC, both directions, 4 pairs", IBV_QPT_RC, OPS_RC, .qps = 4, .both = true, .sge = 4,
		  .inl = 64 },
		{ "RC, receives that are late", IBV_QPT_RC, SEND | SEND_IMM | WRITE_IMM | READ, .qps = 1,
		  .sge = 2, .depth = 2, .max_len = 5000 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(runs); i++)
		run(&runs[i]);
}

static void rc_ex(void)
{
	static const struct run runs[] = {
		{ "RC, ibv_wr", IBV_QPT_RC, OPS_RC, .qps = 1, .ex = true, .sge = 1 },
		{ "RC, ibv_wr, pieces and inline", IBV_QPT_RC, OPS_RC, .qps = 2, .ex = true, .sge = 32,
		  .inl = 256, .both = true },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(runs); i++)
		run(&runs[i]);
}

/* More READs than may be outstanding on the wire: the rest waits its turn. */
static void reads(void)
{
	static const unsigned int limits[] = { 1, 3, 16, 128 };
	struct run r = {
		.type = IBV_QPT_RC, .qps = 1, .sge = 2, .window = 200, .max_len = 6000,
	};
	char name[64];
	unsigned int i;

	for (i = 0; i <= ARRAY_SIZE(limits); i++) {
		r.rd_atomic = min(i < ARRAY_SIZE(limits) ? limits[i] : 255U,
				  (unsigned int)min(ea.attr.max_qp_init_rd_atom, ea.attr.max_qp_rd_atom));
		r.ops = i % 2 ? READ : READ | FETCH_ADD | CMP_SWP | WRITE;
		snprintf(name, sizeof(name), "READs and ATOMICs, %u at a time", r.rd_atomic);
		r.name = name;
		run(&r);
	}
}

static void uc(void)
{
	static const struct run runs[] = {
		{ "UC", IBV_QPT_UC, OPS_UC, .qps = 1, .sge = 1, .window = 8 },
		{ "UC, pieces and inline", IBV_QPT_UC, OPS_UC, .qps = 1, .sge = 32, .inl = 256,
		  .window = 8 },
		{ "UC, ibv_wr", IBV_QPT_UC, OPS_UC, .qps = 1, .sge = 4, .inl = 64, .window = 8,
		  .ex = true },
		{ "UC, both directions, 3 pairs", IBV_QPT_UC, OPS_UC, .qps = 3, .sge = 2, .window = 4,
		  .both = true },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(runs); i++)
		run(&runs[i]);
}

/* --- shared receive queues ---------------------------------------------------- */

#define SRQ_QPS 12

/* Many queue pairs, with two shared receive queues between them */
static void srq_run(const char *name, enum ibv_qp_type type, unsigned int ops)
{
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 64, .max_sge = 2 } };
	struct stream *all = calloc(SRQ_QPS, sizeof(*all));
	struct ibv_qp *rqp[SRQ_QPS];
	struct ibv_srq *srq[2];
	struct ibv_cq *rcq[2];
	struct target *t[2];
	struct conn c = conn_default;
	unsigned int i;

	c.access = ACCESS_ALL;
	c.rd_atomic = 4;
	for (i = 0; i < 2; i++) {
		srq[i] = ibv_create_srq(eb.pd, &sa);
		if (!srq[i])
			die("create_srq");
		rcq[i] = cq_make(&eb, 1000);
		t[i] = target_make(&eb, rcq[i], NULL, srq[i], 24, 8000);
	}
	for (i = 0; i < SRQ_QPS; i++) {
		struct ibv_qp_init_attr ia = {
			.cap = { .max_send_wr = 16, .max_send_sge = 4, .max_recv_wr = 1,
				 .max_recv_sge = 1 },
			.qp_type = type,
		};
		struct stream *s = &all[i];

		s->cq = cq_make(&ea, 64);
		ia.send_cq = ia.recv_cq = s->cq;
		s->qp = ibv_create_qp(ea.pd, &ia);
		ia.srq = srq[i % 2];
		ia.send_cq = ia.recv_cq = rcq[i % 2];
		rqp[i] = ibv_create_qp(eb.pd, &ia);
		if (!s->qp || !rqp[i])
			die("create_qp");
		qps_connect(s->qp, &ea, 1000 + i, rqp[i], &eb, i, &c);
		s->peer_qpn = rqp[i]->qp_num;
		s->max_sge = 4;
		s->window = 16;
		s->max_len = 8000;
		s->reliable = type == IBV_QPT_RC;
		s->count = is_long ? 2000 : 80;
		stream_init(s, &ea, &eb, ops, i);
		s->t[0] = t[i % 2];
		s->t[0]->sharers++;
		s->nt = 1;
	}
	traffic(name, all, SRQ_QPS);
	for (i = 0; i < SRQ_QPS; i++) {
		if (ibv_destroy_qp(all[i].qp) || ibv_destroy_qp(rqp[i]) || ibv_destroy_cq(all[i].cq))
			die("destroy_qp");
		stream_drop(&all[i]);
	}
	for (i = 0; i < 2; i++) {
		if (ibv_destroy_srq(srq[i]) || ibv_destroy_cq(rcq[i]))
			die("destroy_srq");
		target_drop(t[i]);
	}
	free(all);
}

static void srq(void)
{
	srq_run("RC, two SRQs", IBV_QPT_RC, OPS_RC);
}

/* Over a wire that loses nothing */
static void srq_uc(void)
{
	srq_run("UC, two SRQs", IBV_QPT_UC, OPS_UC);
}

#define XRC_QPS 2
#define XRC_SRQS 3

/* Each queue pair to each of several SRQs, which the request names */
static void xrc_run(const char *name, bool ex)
{
	struct stream *all = calloc(XRC_QPS, sizeof(*all));
	struct ibv_srq *srq[XRC_SRQS];
	struct ibv_cq *rcq[XRC_SRQS];
	struct target *t[XRC_SRQS];
	struct ibv_qp *tgt[XRC_QPS];
	struct conn c = conn_default;
	struct ibv_xrcd *xrcd;
	unsigned int i, k;

	c.access = ACCESS_ALL;
	c.rd_atomic = 4;
	xrcd = xrcd_make(&eb);
	if (!xrcd) {
		ok(false, "%s: an XRC domain", name);
		free(all);
		return;
	}
	for (i = 0; i < XRC_SRQS; i++) {
		struct ibv_srq_attr sa = { .max_wr = 64, .max_sge = 2 };

		rcq[i] = cq_make(&eb, 200);
		srq[i] = xrc_srq_make(&eb, xrcd, rcq[i], &sa);
		t[i] = target_make(&eb, rcq[i], NULL, srq[i], 16, 8000);
		if (ibv_get_srq_num(srq[i], &t[i]->srqn))
			die("get_srq_num");
	}
	for (i = 0; i < XRC_QPS; i++) {
		struct ibv_qp_init_attr_ex ia = {
			.cap = { .max_send_wr = 32, .max_send_sge = 4, .max_inline_data = 64 },
			.qp_type = IBV_QPT_XRC_SEND,
			.comp_mask = IBV_QP_INIT_ATTR_PD | (ex ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
			.pd = ea.pd,
			.send_ops_flags = EX_RC,
		};
		struct stream *s = &all[i];

		ia.send_cq = s->cq = cq_make(&ea, 64);
		s->qp = ibv_create_qp_ex(ea.ctx, &ia);
		if (!s->qp)
			die("create_qp_ex");
		tgt[i] = xrc_tgt_make(&eb, xrcd);
		qps_connect(s->qp, &ea, 1000 + i, tgt[i], &eb, i, &c);
		s->peer_qpn = tgt[i]->qp_num;
		s->max_sge = 4;
		s->max_inline = 64;
		s->window = 32;
		s->max_len = 8000;
		s->reliable = true;
		s->ex = ex;
		s->count = is_long ? 10000 : 300;
		stream_init(s, &ea, &eb, OPS_RC, i);
		for (k = 0; k < XRC_SRQS; k++)
			s->t[s->nt++] = t[k];
	}
	traffic(name, all, XRC_QPS);
	for (i = 0; i < XRC_QPS; i++) {
		if (ibv_destroy_qp(all[i].qp) || ibv_destroy_qp(tgt[i]) || ibv_destroy_cq(all[i].cq))
			die("destroy_qp");
		stream_drop(&all[i]);
	}
	for (i = 0; i < XRC_SRQS; i++) {
		if (ibv_destroy_srq(srq[i]) || ibv_destroy_cq(rcq[i]))
			die("destroy_srq");
		target_drop(t[i]);
	}
	if (ibv_close_xrcd(xrcd))
		die("close_xrcd");
	free(all);
}

static void xrc(void)
{
	xrc_run("XRC, three SRQs", false);
	xrc_run("XRC, ibv_wr", true);
}

/* --- an XRC domain of two programs ------------------------------------------------- */

#define GUEST_LEN 3000

static void tell(int fd, uint32_t v)
{
	if (write(fd, &v, sizeof(v)) != sizeof(v))
		die("the other program is gone");
}

static uint32_t hear(int fd)
{
	uint32_t v;

	if (read(fd, &v, sizeof(v)) != sizeof(v))
		die("the other program is gone");
	return v;
}

static struct ibv_xrcd *xrcd_by(const struct end *e, int file, int oflags)
{
	struct ibv_xrcd *xrcd = xrcd_of(e, file, oflags);

	if (!xrcd)
		die("open_xrcd: %s", strerror(errno));
	return xrcd;
}

static void guest_post(struct ibv_srq *srq, const struct ibv_mr *mr)
{
	struct ibv_recv_wr wr = {
		.num_sge = 1, .sg_list = SGE(mr->addr, GUEST_LEN, mr->lkey),
	}, *bad;

	errno = ibv_post_srq_recv(srq, &wr, &bad);
	if (errno)
		die("post_srq_recv");
}

/* Whether a message with @key has come */
static bool guest_got(struct ibv_cq *cq, const struct ibv_mr *mr, uint64_t key)
{
	struct ibv_wc wc;

	return cq_wait(cq, &wc, PATIENCE) && wc.status == IBV_WC_SUCCESS &&
	       wc.byte_len == GUEST_LEN && pattern_check(mr->addr, key, 0, GUEST_LEN) == -1;
}

/*
 * Another program, with a shared receive queue in the domain of @file: it says the queue's
 * number, and then what comes of each thing that it does when it is told to.
 */
static void guest(int fd, int file)
{
	struct ibv_srq_attr attr = { .max_wr = 1024, .max_sge = 1 };
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS, .min_rnr_timer = 5 };
	struct ibv_qp_open_attr oa = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_type = IBV_QPT_XRC_RECV,
	};
	struct ibv_async_event ev;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct end e;
	uint32_t num;

	end_open(&e, eb.name, "");
	oa.xrcd = xrcd_by(&e, file, 0);
	cq = cq_make(&e, 1);
	srq = xrc_srq_make(&e, oa.xrcd, cq, &attr);
	mr = mr_make(&e, GUEST_LEN, 0);
	if (ibv_get_srq_num(srq, &num))
		die("get_srq_num");
	tell(fd, num);

	oa.qp_num = hear(fd);
	qp = ibv_open_qp(e.ctx, &oa);
	tell(fd, qp ? qp_state(qp) : IBV_QPS_UNKNOWN);
	tell(fd, qp ? ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER) : ENOENT);
	guest_post(srq, mr);
	tell(fd, 0);
	tell(fd, guest_got(cq, mr, hear(fd)));

	/* nobody polls any more, and there is a request more than there is room for */
	for (int i = 0; i <= cq->cqe; i++)
		guest_post(srq, mr);
	tell(fd, cq->cqe);
	hear(fd);
	tell(fd, event_wait(&e, &ev, PATIENCE) && ev.event_type == IBV_EVENT_CQ_ERR &&
		 ev.element.cq == cq);
	tell(fd, qp ? wait_state(qp, IBV_QPS_ERR) : false);
	if ((qp && ibv_destroy_qp(qp)) || ibv_destroy_srq(srq) || ibv_destroy_cq(cq) ||
	    ibv_close_xrcd(oa.xrcd))
		die("destroy");
	mr_drop(mr);
	end_close(&e);
	tell(fd, 0);
	_exit(0);
}

/* How a SEND to one of the domain's queues completes */
static int guest_send(struct ibv_qp *ini, struct ibv_cq *cq, const struct ibv_mr *mr, uint64_t key,
		      uint32_t srqn)
{
	struct ibv_wc wc;

	pattern_fill(mr->addr, key, 0, GUEST_LEN);
	errno = POST(ini, .wr_id = 1, .opcode = IBV_WR_SEND, .send_flags = SIG, .num_sge = 1,
		     .sg_list = SGE(mr->addr, GUEST_LEN, mr->lkey),
		     .qp_type.xrc.remote_srqn = srqn);
	if (errno)
		die("post_send");
	return cq_wait(cq, &wc, PATIENCE) ? (int)wc.status : -1;
}

/* The program whose target queue pair it is, and who sends to it */
static void host(int fd, int file)
{
	struct ibv_cq *cq = cq_make(&ea, 16), *rcq = cq_make(&eb, 16);
	struct ibv_srq_attr attr = { .max_wr = 4, .max_sge = 1 };
	struct ibv_mr *from = mr_make(&ea, GUEST_LEN, 0), *to = mr_make(&eb, GUEST_LEN, 0);
	struct ibv_xrcd *xrcd = xrcd_by(&eb, file, O_CREAT);
	struct ibv_srq *srq = xrc_srq_make(&eb, xrcd, rcq, &attr);
	struct conn c = conn_default;
	struct ibv_qp_init_attr ia;
	struct ibv_qp *ini, *tgt;
	struct ibv_qp_attr a;
	uint32_t num, theirs, room, i;

	tell(fd, 0);
	theirs = hear(fd);
	ini = xrc_ini_make(&ea, cq, 4);
	tgt = xrc_tgt_make(&eb, xrcd);
	if (ibv_get_srq_num(srq, &num))
		die("get_srq_num");
	c.retry_cnt = 2;
	qps_connect(ini, &ea, 1000, tgt, &eb, 2000, &c);
	tell(fd, tgt->qp_num);
	is(hear(fd), IBV_QPS_RTS, "another program opens the target queue pair: its state");
	is(hear(fd), 0, "and modifies it");
	if (ibv_query_qp(tgt, &a, IBV_QP_MIN_RNR_TIMER, &ia))
		die("query_qp");
	is(a.min_rnr_timer, 5, "min_rnr_timer is what it set");
	hear(fd);
	is(guest_send(ini, cq, from, 11, theirs), IBV_WC_SUCCESS, "a message to its queue");
	tell(fd, 11);
	ok(hear(fd), "it has every byte");
	guest_post(srq, to);
	is(guest_send(ini, cq, from, 12, num), IBV_WC_SUCCESS, "a message to a queue of ours");
	ok(guest_got(rcq, to, 12), "every byte of it");

	room = hear(fd);
	for (i = 0; i < room && !guest_send(ini, cq, from, i, theirs); i++)
		;
	is(i, room, "messages to its queue, as many as its completion queue has room for");
	is(qp_state(tgt), IBV_QPS_RTS, "the target is well");
	guest_post(srq, to);
	guest_send(ini, cq, from, 13, theirs);
	tell(fd, 0);
	ok(hear(fd), "one more overflows it: it is told");
	ok(hear(fd), "and sees the target end");
	is_state(tgt, IBV_QPS_ERR, "the target of both");
	ok(guest_send(ini, cq, from, 14, num) > 0, "who sends to a queue of ours hears of it");
	ok(cq_quiet(rcq, 0.05), "and nothing is received there");
	hear(fd);
	if (ibv_destroy_qp(ini) || ibv_destroy_qp(tgt) || ibv_destroy_srq(srq) ||
	    ibv_destroy_cq(cq) || ibv_destroy_cq(rcq) || ibv_close_xrcd(xrcd))
		die("destroy");
	mr_drop(from);
	mr_drop(to);
}

/*
 * A domain that is a file's is everybody's who has that: the target queue pair of one program
 * serves the queues of both, and either may end it (trust.rst).
 */
static void xrc_shared(void)
{
	FILE *file = tmpfile();
	int fd[2], status;
	pid_t pid;

	if (!file || socketpair(AF_UNIX, SOCK_STREAM, 0, fd))
		die("no file, or no socket");
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		close(fd[0]);
		/* once the domain is there */
		hear(fd[1]);
		guest(fd[1], fileno(file));
	}
	close(fd[1]);
	host(fd[0], fileno(file));
	is(waitpid(pid, &status, 0) == pid ? status : -1, 0, "the other program ends well");
	close(fd[0]);
	fclose(file);
}

/* --- atomics of many ------------------------------------------------------------- */

#define SUM_QPS 8

/*
 * The same words from many queue pairs of both devices at once: fetched values
 * show that no addition was lost or came twice, and a lock made of CMP_SWP was
 * held by one at a time.
 */
static void sum(void)
{
	struct ibv_mr *mem = mr_make(&eb, 4096, ACCESS_ALL), *loc[SUM_QPS];
	unsigned int i, k, per = is_long ? 5000 : 150, left = SUM_QPS;
	uint64_t *word = mem->addr, total = SUM_QPS * (uint64_t)per;
	uint8_t *seen = calloc(total, 1);
	unsigned int done[SUM_QPS] = {}, posted[SUM_QPS] = {};
	struct pair p[SUM_QPS];
	double last = now();
	bool good = true;

	for (i = 0; i < SUM_QPS; i++) {
		/* half of them on the responder's own device */
		struct end *e = i % 2 ? &eb : &ea;

		pair_create(&p[i], e, &eb, NULL);
		p[i].conn.access = ACCESS_ALL;
		p[i].conn.rd_atomic = 1 + i % 4;
		pair_connect(&p[i]);
		loc[i] = mr_make(e, 32 * 8, 0);
	}
	while (left && good) {
		left = 0;
		for (i = 0; i < SUM_QPS; i++) {
			uint64_t *l = loc[i]->addr;
			struct ibv_wc wc;

			while (posted[i] < per && posted[i] - done[i] < 16) {
				errno = POST(p[i].qp[0], .wr_id = posted[i], .send_flags = SIG,
					     .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .num_sge = 1,
					     .sg_list = SGE(l + posted[i] % 16, 8, loc[i]->lkey),
					     .wr.atomic = { .remote_addr = (uintptr_t)word,
							    .rkey = mem->rkey, .compare_add = 1 });
				if (errno)
					die("post_send");
				posted[i]++;
			}
			while (ibv_poll_cq(p[i].scq[0], 1, &wc) == 1) {
				uint64_t v = l[wc.wr_id % 16];

				last = now();
				if (wc.status != IBV_WC_SUCCESS || wc.wr_id != done[i] || v >= total ||
				    seen[v]) {
					diag("queue pair %u, request %llu: %s, %llu fetched%s", i,
					     (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status),
					     (unsigned long long)v,
					     v < total && seen[v] ? " a second time" : "");
					good = false;
					break;
				}
				seen[v] = 1;
				done[i]++;
			}
			left += done[i] < per;
		}
		if (now() > last + PATIENCE) {
			diag("nothing moves");
			good = false;
		}
	}
	ok(good, "FETCH_ADD: each value was fetched once");
	is(word[0], total, "FETCH_ADD: the sum of %u queue pairs", SUM_QPS);

	/* word[1] is the lock, word[2] what it guards: read, then written back plus one */
	left = is_long ? 2000 : 60;
	for (i = 0, k = 0; good && k < left; i = (i + 1) % SUM_QPS) {
		uint64_t *l = loc[i]->addr;
		struct ibv_wc wc;

		errno = POST(p[i].qp[0], .wr_id = 1, .opcode = IBV_WR_ATOMIC_CMP_AND_SWP, .num_sge = 1,
			     .send_flags = SIG, .sg_list = SGE(l, 8, loc[i]->lkey),
			     .wr.atomic = { .remote_addr = (uintptr_t)(word + 1), .rkey = mem->rkey,
					    .compare_add = 0, .swap = i + 1 });
		if (errno || !cq_wait(p[i].scq[0], &wc, PATIENCE) || wc.status || l[0])
			break;
		/* while it is held nobody else gets it */
		errno = POST(p[(i + 1) % SUM_QPS].qp[0], .wr_id = 2, .num_sge = 1,
			     .opcode = IBV_WR_ATOMIC_CMP_AND_SWP, .send_flags = SIG,
			     .sg_list = SGE(loc[(i + 1) % SUM_QPS]->addr, 8,
					    loc[(i + 1) % SUM_QPS]->lkey),
			     .wr.atomic = { .remote_addr = (uintptr_t)(word + 1), .rkey = mem->rkey,
					    .compare_add = 0, .swap = 99 });
		if (errno || !cq_wait(p[(i + 1) % SUM_QPS].scq[0], &wc, PATIENCE) || wc.status ||
		    *(uint64_t *)loc[(i + 1) % SUM_QPS]->addr != i + 1)
			break;
		errno = POST(p[i].qp[0], .wr_id = 3, .opcode = IBV_WR_RDMA_READ, .num_sge = 1,
			     .send_flags = SIG, .sg_list = SGE(l + 1, 8, loc[i]->lkey),
			     .wr.rdma = { (uintptr_t)(word + 2), mem->rkey });
		if (errno || !cq_wait(p[i].scq[0], &wc, PATIENCE) || wc.status || l[1] != k)
			break;
		l[1]++;
		l[2] = 0;
		errno = POST(p[i].qp[0], .wr_id = 4, .opcode = IBV_WR_RDMA_WRITE, .num_sge = 1,
			     .sg_list = SGE(l + 1, 8, loc[i]->lkey),
			     .wr.rdma = { (uintptr_t)(word + 2), mem->rkey });
		if (!errno)
			errno = POST(p[i].qp[0], .wr_id = 5, .opcode = IBV_WR_RDMA_WRITE, .num_sge = 1,
				     .send_flags = SIG, .sg_list = SGE(l + 2, 8, loc[i]->lkey),
				     .wr.rdma = { (uintptr_t)(word + 1), mem->rkey });
		if (errno || !cq_wait(p[i].scq[0], &wc, PATIENCE) || wc.status)
			break;
		k++;
	}
	is(k, left, "CMP_SWP: a lock, taken and given back");
	is(word[2], left, "CMP_SWP: what it guards");
	for (i = 0; i < SUM_QPS; i++) {
		pair_destroy(&p[i]);
		mr_drop(loc[i]);
	}
	mr_drop(mem);
	free(seen);
}

/* --- UD ---------------------------------------------------------------------------- */

#define QKEY 0x11223344

/* The IP header in a receive's first 40 bytes; IPv4's is in the last 20 of them. */
static void grh_check(const uint8_t *g, const union ibv_gid *src, const union ibv_gid *dst,
		      uint32_t len, bool imm)
{
	uint16_t n;

	if (v4_mapped(dst)) {
		static const uint8_t none[20];

		ok(!memcmp(g, none, 20), "GRH: nothing before the IPv4 header");
		ok(g[20] == 0x45, "GRH: an IPv4 header at byte 20 (0x%02x)", g[20]);
		ok(!memcmp(g + 32, src->raw + 12, 4), "GRH: its source");
		ok(!memcmp(g + 36, dst->raw + 12, 4), "GRH: its destination");
		is(g[29], IPPROTO_UDP, "GRH: its protocol");
		ok(g[28], "GRH: its TTL (%u)", g[28]);
		is(g[21] & 0xfc, 0x20, "GRH: its traffic class");
		memcpy(&n, g + 22, 2);
		/* IP, UDP, BTH, DETH, ImmDt, payload to a multiple of 4, ICRC */
		is(be16toh(n), 20 + 8 + 12 + 8 + 4 * imm + (len + 3) / 4 * 4 + 4, "GRH: its length");
	} else {
		uint32_t w;

		memcpy(&w, g, 4);
		is(be32toh(w) & 0xffcfffff, 0x62012345, "GRH: an IPv6 header with class and flow label");
		ok(!memcmp(g + 8, src, 16), "GRH: its source");
		ok(!memcmp(g + 24, dst, 16), "GRH: its destination");
		is(g[6], IPPROTO_UDP, "GRH: its next header");
		ok(g[7], "GRH: its hop limit (%u)", g[7]);
	}
}

static void ud_sizes(struct ud *a, struct ud *b, bool ex)
{
	uint32_t mtu = mtu_bytes(ea.port.active_mtu);
	const uint32_t sizes[] = { 0, 1, 2, 3, 4, 63, 64, 65, 255, 1000, mtu - 1, mtu };
	struct ibv_ah *ah = ah_to(&ea, &eb.gid), *back;
	struct ibv_wc wc;
	unsigned int i;
	bool good;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		uint32_t len = sizes[i], imm = i % 2 ? 0x1000 + i : 0, one = len / 3;
		/* in two pieces, at odd places */
		struct ibv_sge sge[2] = {
			{ (uintptr_t)a->buf + 5, one, a->mr->lkey },
			{ (uintptr_t)a->buf + 5 + one, len - one, a->mr->lkey },
		};

		pattern_fill(a->buf + 5, i, 0, len);
		/* room to the byte */
		ud_recv(b, i, GRH + len);
		is(ud_send(a, ex, ah, b->qp->qp_num, QKEY, 100 + i, sge, 2,
			   len && len <= 64 ? IBV_SEND_INLINE : 0, imm), 0, "%u bytes: are posted", len);
		wc_is(a->scq, 100 + i, IBV_WC_SUCCESS, NULL, "%u bytes: are sent", len);
		if (!wc_is(b->rcq, i, IBV_WC_SUCCESS, &wc, "%u bytes: are received", len))
			continue;
		good = wc.opcode == IBV_WC_RECV && wc.byte_len == GRH + len && wc.wc_flags & IBV_WC_GRH &&
		       wc.src_qp == a->qp->qp_num && wc.qp_num == b->qp->qp_num && wc.pkey_index == 0 &&
		       !!(wc.wc_flags & IBV_WC_WITH_IMM) == !!imm && (!imm || be32toh(wc.imm_data) == imm);
		if (!ok(good, "%u bytes: the completion", len))
			diag("opcode %d, byte_len %u, wc_flags 0x%x, src_qp 0x%x, imm 0x%x", wc.opcode,
			     wc.byte_len, wc.wc_flags, wc.src_qp, be32toh(wc.imm_data));
		ok(pattern_check(b->buf + i * 8192 + GRH, i, 0, len) < 0 &&
		   canary_check(b->buf + i * 8192 + GRH + len, 100) < 0, "%u bytes: and no others", len);
		if (i && i + 1 < ARRAY_SIZE(sizes))
			continue;
		grh_check(b->buf + i * 8192, &ea.gid, &eb.gid, len, imm);
		is(wc.sl, v4_mapped(&eb.gid) ? SROCE_SL_IPV4 : SROCE_SL_IPV6,
		   "its kind in the completion");
		/* the answer finds its way by what the receive tells */
		back = ibv_create_ah_from_wc(eb.pd, &wc, (void *)(b->buf + i * 8192), 1);
		if (!ok(back, "an address handle from the completion"))
			continue;
		ud_recv(a, 40, 1000);
		sge[0] = (struct ibv_sge) { (uintptr_t)b->buf + 50 * 8192, 77, b->mr->lkey };
		pattern_fill(b->buf + 50 * 8192, 99, 0, 77);
		is(ud_send(b, false, back, wc.src_qp, QKEY, 7, sge, 1, 0, 0), 0, "an answer is posted");
		wc_is(b->scq, 7, IBV_WC_SUCCESS, NULL, "it is sent");
		wc_is(a->rcq, 40, IBV_WC_SUCCESS, NULL, "it is received");
		ok(pattern_check(a->buf + 40 * 8192 + GRH, 99, 0, 77) < 0, "its bytes");
		if (ibv_destroy_ah(back))
			die("destroy_ah");
	}
	if (ibv_destroy_ah(ah))
		die("destroy_ah");
}

/* One after the other: what is dropped leaves no trace, the next one arrives. */
static void ud_dropped(struct ud *a, struct ud *b)
{
	struct ibv_ah *ah = ah_to(&ea, &eb.gid);
	struct ibv_sge sge = { (uintptr_t)a->buf, 100, a->mr->lkey };
	struct ibv_wc wc;

	pattern_fill(a->buf, 3, 0, 100);
	ud_recv(b, 20, 1000);
	is(ud_send(a, false, ah, b->qp->qp_num, QKEY ^ 1, 1, &sge, 1, 0, 0), 0, "with another Q_Key");
	wc_is(a->scq, 1, IBV_WC_SUCCESS, NULL, "it is sent");
	ok(cq_quiet(b->rcq, 0.1), "and dropped");
	/* the high bit stands for the queue pair's own Q_Key, IBTA 10.2.5 */
	is(ud_send(a, false, ah, b->qp->qp_num, 0x80000000 | 5, 2, &sge, 1, 0, 0), 0,
	   "with a Q_Key whose high bit is set");
	wc_is(a->scq, 2, IBV_WC_SUCCESS, NULL, "it is sent");
	wc_is(b->rcq, 20, IBV_WC_SUCCESS, &wc, "with the sender's own Q_Key it is received");
	is(ud_send(a, false, ah, 0xfffffe, QKEY, 3, &sge, 1, 0, 0), 0, "to no queue pair");
	wc_is(a->scq, 3, IBV_WC_SUCCESS, NULL, "it is sent");
	/* no receive: dropped, and no RNR */
	is(ud_send(a, false, ah, b->qp->qp_num, QKEY, 4, &sge, 1, 0, 0), 0, "without a receive");
	wc_is(a->scq, 4, IBV_WC_SUCCESS, NULL, "it is sent");
	sleep_ms(50);
	ud_recv(b, 21, 1000);
	ok(cq_quiet(b->rcq, 0.1), "and was dropped");
	is(ud_send(a, false, ah, b->qp->qp_num, QKEY, 5, &sge, 1, 0, 0), 0, "once more");
	wc_is(a->scq, 5, IBV_WC_SUCCESS, NULL, "it is sent");
	wc_is(b->rcq, 21, IBV_WC_SUCCESS, &wc, "and received");
	is(qp_state(b->qp), IBV_QPS_RTS, "the receiver is well");
	if (ibv_destroy_ah(ah))
		die("destroy_ah");
}

static void ud(void)
{
	struct ud a, b;
	int ex;

	for (ex = 0; ex < 2; ex++) {
		diag("posted by %s", ex ? "ibv_wr" : "ibv_post_send");
		ud_up(&a, &ea, QKEY, ex);
		ud_up(&b, &eb, QKEY, false);
		ud_sizes(&a, &b, ex);
		if (!ex)
			ud_dropped(&a, &b);
		ud_down(&a);
		ud_down(&b);
	}
}

#define SRQ_UD_SLOTS 32
#define SRQ_UD_SLOT 8192

static void srq_ud_post(struct ibv_srq *srq, const struct ibv_mr *mr, uint64_t i)
{
	uint8_t *at = (uint8_t *)mr->addr + i * SRQ_UD_SLOT;
	struct ibv_recv_wr wr = {
		.wr_id = i, .num_sge = 1, .sg_list = SGE(at, SRQ_UD_SLOT, mr->lkey),
	}, *bad;

	memset(at, CANARY, SRQ_UD_SLOT);
	errno = ibv_post_srq_recv(srq, &wr, &bad);
	if (errno)
		die("post_srq_recv");
}

static uint32_t srq_ud_len(unsigned int i)
{
	return i % 4 ? i * 37 % 1000 : mtu_bytes(ea.port.active_mtu) - i / 4;
}

/* Datagram @i, to one of the queue pairs: its number is its immediate data. */
static void srq_ud_send(struct ud *u, struct ibv_ah *ah, const struct ibv_qp *to, unsigned int i)
{
	const uint32_t len = srq_ud_len(i);
	uint8_t *at = u->buf + i * 8192;
	struct ibv_wc wc;

	pattern_fill(at, i, 0, len);
	if (ud_send(u, false, ah, to->qp_num, QKEY, i, SGE(at, len, u->mr->lkey), 1, 0, i + 1) ||
	    !cq_wait(u->scq, &wc, PATIENCE) || wc.status)
		die("a datagram of %u bytes", len);
}

/* Whether a completion is a datagram's that was sent so, every byte of it */
static bool srq_ud_right(const struct ibv_wc *wc, const uint8_t *at, const struct ud *from,
			 struct ibv_qp *const *to)
{
	const uint32_t i = be32toh(wc->imm_data) - 1, len = srq_ud_len(i);

	return !wc->status && wc->wc_flags & IBV_WC_WITH_IMM && wc->wc_flags & IBV_WC_GRH &&
	       i < SRQ_UD_SLOTS && wc->byte_len == GRH + len &&
	       wc->qp_num == to[i % 2]->qp_num && wc->src_qp == from->qp->qp_num &&
	       pattern_check(at + GRH, i, 0, len) == -1 &&
	       canary_check(at + GRH + len, SRQ_UD_SLOT - GRH - len) == -1;
}

/* Datagrams to two queue pairs that take from one shared queue, and one that finds it empty */
static void srq_ud(void)
{
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = SRQ_UD_SLOTS, .max_sge = 1 } };
	struct ibv_mr *mr = mr_make(&eb, SRQ_UD_SLOTS * SRQ_UD_SLOT, 0);
	struct ibv_srq *srq = ibv_create_srq(eb.pd, &sa);
	struct ibv_cq *cq = cq_make(&eb, 2 * SRQ_UD_SLOTS);
	struct ibv_ah *ah = ah_to(&ea, &eb.gid);
	unsigned int i, num = 0;
	struct ibv_qp *qp[2];
	uint32_t seen = 0;
	struct ibv_wc wc;
	struct ud a;

	if (!srq)
		die("create_srq");
	ud_up(&a, &ea, QKEY, false);
	for (i = 0; i < 2; i++)
		qp[i] = ud_qp(&eb, cq, srq, 1, 0, QKEY);
	for (i = 0; i < SRQ_UD_SLOTS; i++)
		srq_ud_post(srq, mr, i);
	for (i = 0; i < SRQ_UD_SLOTS; i++)
		srq_ud_send(&a, ah, qp[i % 2], i);
	while (num < SRQ_UD_SLOTS && cq_wait(cq, &wc, PATIENCE) &&
	       srq_ud_right(&wc, (uint8_t *)mr->addr + wc.wr_id * SRQ_UD_SLOT, &a, qp)) {
		seen |= 1U << (be32toh(wc.imm_data) - 1);
		num++;
	}
	is(num, SRQ_UD_SLOTS, "UD, one SRQ: datagrams of two queue pairs, every byte");
	is(seen, UINT32_MAX, "each of them");
	srq_ud_send(&a, ah, qp[0], 1);
	ok(cq_quiet(cq, 0.1), "it is empty: the next is dropped");
	srq_ud_post(srq, mr, 7);
	srq_ud_send(&a, ah, qp[1], 3);
	ok(cq_wait(cq, &wc, PATIENCE) && wc.wr_id == 7 &&
	   srq_ud_right(&wc, (uint8_t *)mr->addr + 7 * SRQ_UD_SLOT, &a, qp),
	   "the one after a request was posted is received");
	if (ibv_destroy_qp(qp[0]) || ibv_destroy_qp(qp[1]) || ibv_destroy_srq(srq) ||
	    ibv_destroy_cq(cq) || ibv_destroy_ah(ah))
		die("destroy");
	ud_down(&a);
	mr_drop(mr);
}

/* To every queue pair that is attached, here and on the other host, and to no other. */
static void mcast(void)
{
	union ibv_gid mgid = group_gid(&ea, 7);
	struct ibv_ah *ah;
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct ud u[4], s;
	unsigned int i;

	ud_up(&s, &ea, QKEY, false);
	for (i = 0; i < 4; i++) {
		ud_up(&u[i], i == 1 ? &ea : &eb, QKEY, false);
		ud_recv(&u[i], 1, 1000);
		if (i < 3)
			is(ibv_attach_mcast(u[i].qp, &mgid, 0), 0, "queue pair %u is attached", i);
	}
	/* the hosts' stacks have to hear of it */
	sleep_ms(100);
	ah = ah_to(&ea, &mgid);
	sge = (struct ibv_sge) { (uintptr_t)s.buf, 200, s.mr->lkey };
	pattern_fill(s.buf, 8, 0, 200);
	is(ud_send(&s, false, ah, 0xffffff, QKEY, 1, &sge, 1, 0, 0), 0, "one message to all");
	wc_is(s.scq, 1, IBV_WC_SUCCESS, NULL, "it is sent");
	for (i = 0; i < 3; i++) {
		wc_is(u[i].rcq, 1, IBV_WC_SUCCESS, &wc, "queue pair %u has it", i);
		is(wc.byte_len, GRH + 200, "its length");
		is(wc.src_qp, s.qp->qp_num, "its source");
		ok(pattern_check(u[i].buf + 8192 + GRH, 8, 0, 200) < 0, "its bytes");
	}
	ok(cq_quiet(u[3].rcq, 0.1), "one that is not attached has not");
	is(ibv_detach_mcast(u[0].qp, &mgid, 0), 0, "queue pair 0 is detached");
	for (i = 0; i < 2; i++)
		ud_recv(&u[i], 2, 1000);
	is(ud_send(&s, false, ah, 0xffffff, QKEY, 2, &sge, 1, 0, 0), 0, "another message");
	wc_is(u[1].rcq, 2, IBV_WC_SUCCESS, NULL, "queue pair 1 has it");
	ok(cq_quiet(u[0].rcq, 0.1), "queue pair 0 has not");
	is(ibv_detach_mcast(u[1].qp, &mgid, 0), 0, "queue pair 1 is detached");
	is(ibv_detach_mcast(u[2].qp, &mgid, 0), 0, "queue pair 2 is detached");
	ok(ibv_detach_mcast(u[2].qp, &mgid, 0), "which cannot be done twice");
	if (ibv_destroy_ah(ah))
		die("destroy_ah");
	for (i = 0; i < 4; i++)
		ud_down(&u[i]);
	ud_down(&s);
}

/*
 * Datagrams in a row, and queue pair or address handle are gone before any of them is known
 * to be sent.
 */
static void gone(void)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .wr.ud = { .remote_qkey = QKEY } };
	unsigned int i, j;
	struct ibv_ah *ah;
	struct ibv_wc wc;
	struct ud s, r;

	ud_up(&r, &eb, QKEY, false);
	wr.wr.ud.remote_qpn = r.qp->qp_num;
	for (i = 0; i < 4; i++) {
		ud_up(&s, &ea, QKEY, false);
		wr.wr.ud.ah = ah = ah_to(&ea, &eb.gid);
		for (j = 0; j < 14; j++)
			ud_recv(&r, j, 100);
		for (j = 0; j < 14; j++)
			if (wr_post(s.qp, &wr))
				die("post_send");
		if (i % 2 && ibv_destroy_ah(ah))
			die("destroy_ah");
		ud_down(&s);
		if (!(i % 2) && ibv_destroy_ah(ah))
			die("destroy_ah");
		for (j = 0; j < 14 && cq_wait(r.rcq, &wc, 5) && !wc.status; j++)
			;
		is(j, 14, "%s destroyed at once: all arrive", i % 2 ? "address handle" : "queue pair");
		if (j < 14)
			break;
	}
	ud_down(&r);
}

/* An address handle that several queue pairs have sent with is gone before that is known. */
static void gone_shared(void)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .wr.ud = { .remote_qkey = QKEY } };
	struct ud s[3], r;
	unsigned int i, j;
	struct ibv_wc wc;

	ud_up(&r, &eb, QKEY, false);
	for (i = 0; i < ARRAY_SIZE(s); i++)
		ud_up(&s[i], &ea, QKEY, false);
	wr.wr.ud.remote_qpn = r.qp->qp_num;
	wr.wr.ud.ah = ah_to(&ea, &eb.gid);
	for (j = 0; j < 42; j++)
		ud_recv(&r, j, 100);
	/* streams, of which the kernel need not be told at once; then one more of each */
	for (j = 0; j < 42; j++)
		if (wr_post(s[j < 39 ? j / 13 : j - 39].qp, &wr))
			die("post_send");
	if (ibv_destroy_ah(wr.wr.ud.ah))
		die("destroy_ah");
	for (j = 0; j < 42 && cq_wait(r.rcq, &wc, 5) && !wc.status; j++)
		;
	is(j, 42, "an address handle that three had sent with destroyed at once: all arrive");
	for (i = 0; i < ARRAY_SIZE(s); i++)
		ud_down(&s[i]);
	ud_down(&r);
}

/* A slow device takes a few at a time: those that wait for it arrive, and so do others' behind. */
static void gone_slow(void)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .num_sge = 1,
				  .wr.ud = { .remote_qkey = QKEY } };
	struct ibv_ah *ah, *other;
	struct ibv_wc wc;
	struct ud s, r;
	int i;

	if (system("tc -n a qdisc add dev v0 root netem rate 10mbit limit 4 2>/dev/null")) {
		skip("no netem in this kernel", "an address handle of a slow link's");
		return;
	}
	ud_up(&r, &eb, QKEY, false);
	ud_up(&s, &ea, QKEY, false);
	wr.wr.ud.remote_qpn = r.qp->qp_num;
	ah = ah_to(&ea, &eb.gid);
	other = ah_to(&ea, &eb.gid);
	for (i = 0; i < 60; i++)
		ud_recv(&r, i, 1000);
	for (i = 0; i < 60; i++) {
		wr.wr.ud.ah = i < 40 ? ah : other;
		/* a burst has no more than two of these */
		wr.sg_list = SGE(s.buf, i % 2 ? 100 : 900, s.mr->lkey);
		if (wr_post(s.qp, &wr))
			die("post_send");
	}
	if (ibv_destroy_ah(ah))
		die("destroy_ah");
	for (i = 0; i < 60 && cq_wait(r.rcq, &wc, 10) && !wc.status; i++)
		;
	is(i, 60, "an address handle that a slow link's requests have is destroyed: all arrive");
	if (system("tc -n a qdisc del dev v0 root") || ibv_destroy_ah(other))
		die("the end");
	ud_down(&s);
	ud_down(&r);
}

/* Less than IPv6's least MTU takes IPv6 from a netdev, and with it all groups. */
static void mcast_mtu(void)
{
	struct ibv_ah *ah;
	union ibv_gid mgid;
	struct ibv_sge sge;
	struct ud r, s;
	struct ibv_wc wc;
	double end;

	inet_pton(AF_INET6, "ff0e::7:8", &mgid);
	ud_up(&s, &ea, QKEY, false);
	ud_up(&r, &eb, QKEY, false);
	ud_recv(&r, 1, 1000);
	is(ibv_attach_mcast(r.qp, &mgid, 0), 0, "a queue pair is attached");
	if (system("ip -n b link set v1 mtu 1000 && ip -n b link set v1 mtu 1500"))
		die("ip link set mtu");
	ah = ah_to(&ea, &mgid);
	sge = (struct ibv_sge) { (uintptr_t)s.buf, 200, s.mr->lkey };
	pattern_fill(s.buf, 8, 0, 200);
	end = now() + PATIENCE;
	do {
		if (ud_send(&s, false, ah, 0xffffff, QKEY, 1, &sge, 1, 0, 0) ||
		    !cq_wait(s.scq, &wc, PATIENCE) || wc.status)
			die("a message to the group");
	} while (!cq_wait(r.rcq, &wc, 0.1) && now() < end);
	ok(wc.opcode == IBV_WC_RECV && !wc.status && wc.byte_len == GRH + 200 &&
	   pattern_check(r.buf + 8192 + GRH, 8, 0, 200) < 0,
	   "it hears its group when the MTU has been too small for IPv6");
	is(ibv_detach_mcast(r.qp, &mgid, 0), 0, "it is detached");
	ok(system("ip -n b maddr show dev v1 | grep -q ff0e::7:8"),
	   "and the netdev has left the group");
	if (ibv_destroy_ah(ah))
		die("destroy_ah");
	ud_down(&r);
	ud_down(&s);
}

static const struct test tests[] = {
	TEST(rc),
	TEST(rc_ex),
	TEST(reads),
	TEST(uc),
	TEST(srq),
	TEST(srq_uc),
	TEST(xrc),
	TEST(xrc_shared),
	TEST(sum),
	TEST(ud),
	TEST(srq_ud),
	TEST(mcast),
	TEST(mcast_mtu),
	TEST(gone),
	TEST(gone_shared),
	TEST(gone_slow),
};

int main(int argc, char **argv)
{
	const char *l = getenv("LONG");

	is_long = l && *l;
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
