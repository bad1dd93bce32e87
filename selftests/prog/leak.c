// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Nothing tells more than it should: what a program or a peer has seen says nothing of
 * another's memory, nor of the next key.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl.h>

#include "common.h"
#include "../wire/spec.h"
#include "../../include/uapi/rdma/sroce-abi.h"

static struct end ea, eb;

/* --- keys ----------------------------------------------------------------------------- */

#define KEYS 2000
/*
 * Of 2000 keys at random, a quarter of one follows another within so far on average, and
 * more than 8 do once in 10^12 times.
 */
#define NEAR 1024
#define FEW 8

static uint32_t apart(uint32_t a, uint32_t b)
{
	uint32_t d = (a >> 8) - (b >> 8);

	return min(d & 0xffffff, -d & 0xffffff);
}

/* Is a key anywhere near the one before it, or is one there twice? */
static void unguessable(const uint32_t *keys, unsigned int n, const char *what)
{
	unsigned int i, k, near = 0, same = 0, low[256] = {}, most = 0;

	for (i = 0; i < n; i++) {
		near += i && apart(keys[i], keys[i - 1]) <= NEAR;
		for (k = 0; k < i; k++)
			same += keys[i] == keys[k];
		low[keys[i] & 0xff]++;
	}
	for (i = 0; i < 256; i++)
		most = max(most, low[i]);
	ok(near <= FEW, "%s: none is near the one before it (%u of %u)", what, near, n);
	ok(same <= 1, "%s: none is another's (%u)", what, same);
	ok(most <= 40, "%s: their last eight bits follow no rule (%u of %u are the same)", what, most,
	   n);
}

/* Of many at a time, of one at a time, of windows; and what registering anew keeps. */
static void keys(void)
{
	static uint32_t key[KEYS];
	static struct ibv_mr *mr[KEYS];
	static struct ibv_mw *mw[KEYS];
	struct ibv_mr *page = mr_make(&ea, 4096, 0);
	unsigned int i;
	uint32_t was;

	for (i = 0; i < KEYS; i++) {
		mr[i] = ibv_reg_mr(ea.pd, page->addr, 4096, IBV_ACCESS_LOCAL_WRITE);
		if (!mr[i])
			die("reg_mr");
		key[i] = mr[i]->rkey;
	}
	unguessable(key, KEYS, "regions");
	was = mr[0]->rkey;
	if (ibv_rereg_mr(mr[0], IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE))
		die("rereg_mr");
	is(mr[0]->rkey, was, "a region that is registered again keeps its key");
	for (i = 0; i < KEYS; i++)
		if (ibv_dereg_mr(mr[i]))
			die("dereg_mr");

	for (i = 0; i < KEYS; i++) {
		mr[0] = ibv_reg_mr(ea.pd, page->addr, 4096, IBV_ACCESS_LOCAL_WRITE);
		if (!mr[0])
			die("reg_mr");
		key[i] = mr[0]->rkey;
		if (ibv_dereg_mr(mr[0]))
			die("dereg_mr");
	}
	unguessable(key, KEYS, "one region after another");

	for (i = 0; i < KEYS; i++) {
		mw[i] = ibv_alloc_mw(ea.pd, i & 1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
		if (!mw[i])
			die("alloc_mw");
		key[i] = mw[i]->rkey;
	}
	unguessable(key, KEYS, "windows");
	for (i = 0; i < KEYS; i++)
		if (ibv_dealloc_mw(mw[i]))
			die("dealloc_mw");
	mr_drop(page);
}

/* --- memory --------------------------------------------------------------------------- */

/* What maps memory, of every kind; of sizes that no two have in common */
struct objects {
	struct end e;
	struct ibv_cq *cq, *resized;
	struct ibv_srq *srq, *xrc, *grown;
	struct ibv_xrcd *xrcd;
	struct ibv_qp *qp, *ud;
	struct ibv_wq *wq;
	struct ibv_dm *dm;
};

#define DM_SIZE (1U << 20)

static void objects_make(struct objects *o)
{
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 900, .max_sge = 3 } };
	struct ibv_alloc_dm_attr da = { .length = DM_SIZE };
	struct ibv_qp_init_attr qa = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 300, .max_recv_wr = 200, .max_send_sge = 32,
			 .max_recv_sge = 16 },
	};
	struct ibv_wq_init_attr wa = { .wq_type = IBV_WQT_RQ, .max_wr = 500, .max_sge = 2 };
	struct ibv_srq_attr xa = { .max_wr = 100, .max_sge = 32 };

	end_open(&o->e, ea.name, NULL);
	o->cq = cq_make(&o->e, 3000);
	o->resized = cq_make(&o->e, 10);
	o->srq = ibv_create_srq(o->e.pd, &sa);
	sa.attr.max_wr = 16;
	o->grown = ibv_create_srq(o->e.pd, &sa);
	o->xrcd = xrcd_make(&o->e);
	o->xrc = o->xrcd ? xrc_srq_make(&o->e, o->xrcd, o->cq, &xa) : NULL;
	qa.send_cq = qa.recv_cq = o->cq;
	o->qp = ibv_create_qp(o->e.pd, &qa);
	qa.qp_type = IBV_QPT_UD;
	qa.cap.max_send_sge = 1;
	o->ud = ibv_create_qp(o->e.pd, &qa);
	wa.pd = o->e.pd;
	wa.cq = o->cq;
	o->wq = ibv_create_wq(o->e.ctx, &wa);
	o->dm = ibv_alloc_dm(o->e.ctx, &da);
	if (!o->srq || !o->grown || !o->xrc || !o->qp || !o->ud || !o->wq || !o->dm)
		die("objects: %s", strerror(errno));
	if (ibv_resize_cq(o->resized, 5000) ||
	    ibv_modify_srq(o->grown, &(struct ibv_srq_attr) { .max_wr = 2000 }, IBV_SRQ_MAX_WR))
		die("resize: %s", strerror(errno));
}

/* What two processes tell this one */
static struct {
	size_t maps, bytes, dirty;
	bool dm;
} *told;

/*
 * A header's indices are zero as well. What the kernel tells there is its flags and, for
 * those, two numbers.
 */
static size_t dirty_bytes(const struct mapping *m)
{
	const struct sroce_ring *ring = (void *)m->at;
	struct sroce_ring head = *ring;
	size_t i, n = 0;

	if (m->len == DM_SIZE)
		told->dm = true;
	else
		head.flags = head.seen = head.linger = 0;
	for (i = 0; i < sizeof(head); i++)
		n += !!((uint8_t *)&head)[i];
	for (; i < m->len; i++)
		n += !!m->at[i];
	return n;
}

/* A process that has secrets in all that it maps, and is killed */
static void secrets(void)
{
	struct mapping maps[MAX_MAPS];
	struct objects o;
	size_t n;

	objects_make(&o);
	for (n = uverbs_maps(maps, MAX_MAPS); n--;)
		memset(maps[n].at, CANARY, maps[n].len);
	raise(SIGKILL);
}

/* And one that looks for them */
static void curious(void)
{
	struct mapping before[MAX_MAPS], maps[MAX_MAPS];
	size_t old = uverbs_maps(before, MAX_MAPS), n, i;
	struct objects o;

	objects_make(&o);
	for (n = uverbs_maps(maps, MAX_MAPS); n--;) {
		for (i = 0; i < old && before[i].at != maps[n].at; i++)
			;
		if (i < old)
			continue;
		told->maps++;
		told->bytes += maps[n].len;
		told->dirty += dirty_bytes(&maps[n]);
	}
}

/* Rings, new and resized, and device memory, where a process before had them full */
static void fresh(void)
{
	unsigned int i;

	told = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (told == MAP_FAILED)
		die("mmap");
	for (i = 0; i < 3; i++) {
		if (WTERMSIG(in_child(secrets)) != SIGKILL || in_child(curious))
			die("a child: %s", strerror(errno));
	}
	ok(told->maps >= 3 * 12 && told->dm, "%zu rings and pieces of device memory", told->maps);
	is(told->dirty, 0, "of %zu bytes of them, so many are not zero", told->bytes);
	munmap(told, 4096);
}

/* --- answers -------------------------------------------------------------------------- */

/* What the driver has answered the last call */
static struct {
	uint8_t b[256];
	size_t len;
} said;

/* Between libibverbs and the kernel: what is to be answered has something else in it before. */
int ioctl(int fd, unsigned long request, ...)
{
	struct ib_uverbs_ioctl_hdr *hdr;
	uint8_t *out = NULL;
	size_t len = 0;
	va_list ap;
	void *arg;
	int i, ret;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	hdr = arg;
	for (i = 0; request == RDMA_VERBS_IOCTL && i < hdr->num_attrs; i++)
		if (hdr->attrs[i].attr_id == UVERBS_ATTR_UHW_OUT && hdr->attrs[i].len) {
			out = (void *)(uintptr_t)hdr->attrs[i].data;
			len = hdr->attrs[i].len;
			memset(out, CANARY, len);
		}
	ret = syscall(SYS_ioctl, fd, request, arg);
	if (out && !ret && len <= sizeof(said.b)) {
		memcpy(said.b, out, len);
		said.len = len;
	}
	return ret;
}

/* The answer has this length, and at these offsets, so many as there are, four bytes of zero */
static void said_is(const char *what, size_t len, const size_t *zero, size_t n)
{
	bool clean = true;

	is(said.len, len, "%s: the answer's length", what);
	while (n--)
		clean &= all_are(said.b + zero[n], 0, 4);
	ok(clean, "%s: what is reserved is zero", what);
	memset(&said, 0, sizeof(said));
}

#define SAID(type, ...) do {							\
	static const size_t zero[] = { __VA_ARGS__ };				\
	said_is(#type, sizeof(struct type), zero, ARRAY_SIZE(zero));		\
} while (0)
#define RESERVED(type, map) offsetof(struct type, map.reserved)

static void answers(void)
{
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 10, .max_sge = 1 } };
	struct ibv_alloc_dm_attr da = { .length = 4096 };
	struct ibv_qp_init_attr qa = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_wq_init_attr wa = { .wq_type = IBV_WQT_RQ, .max_wr = 5, .max_sge = 2 };
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	struct ibv_wq *wq;
	struct ibv_cq *cq;
	struct ibv_dm *dm;
	struct end e;

	end_open(&e, ea.name, NULL);
	SAID(sroce_alloc_ucontext_resp, offsetof(struct sroce_alloc_ucontext_resp, reserved),
	     offsetof(struct sroce_alloc_ucontext_resp, reserved) + 4,
	     RESERVED(sroce_alloc_ucontext_resp, bells));
	cq = cq_make(&e, 10);
	SAID(sroce_create_cq_resp, RESERVED(sroce_create_cq_resp, cq));
	if (ibv_resize_cq(cq, 200))
		die("resize_cq");
	SAID(sroce_resize_cq_resp, RESERVED(sroce_resize_cq_resp, cq));
	srq = ibv_create_srq(e.pd, &sa);
	SAID(sroce_create_srq_resp, RESERVED(sroce_create_srq_resp, srq));
	qa.send_cq = qa.recv_cq = cq;
	qp = ibv_create_qp(e.pd, &qa);
	SAID(sroce_create_qp_resp, RESERVED(sroce_create_qp_resp, sq),
	     RESERVED(sroce_create_qp_resp, rq));
	if (!srq || !qp || ibv_destroy_qp(qp))
		die("objects: %s", strerror(errno));
	/* of a ring that there is not, nothing is told */
	qa.srq = srq;
	qp = ibv_create_qp(e.pd, &qa);
	ok(said.len == sizeof(struct sroce_create_qp_resp) &&
	   all_are(&((struct sroce_create_qp_resp *)said.b)->rq, 0, sizeof(struct sroce_ring_map)),
	   "with a shared receive queue: nothing is said of another");
	SAID(sroce_create_qp_resp, RESERVED(sroce_create_qp_resp, sq),
	     RESERVED(sroce_create_qp_resp, rq));
	wa.pd = e.pd;
	wa.cq = cq;
	wq = ibv_create_wq(e.ctx, &wa);
	SAID(sroce_create_wq_resp, RESERVED(sroce_create_wq_resp, rq));
	ah = ah_to(&e, &eb.gid);
	SAID(sroce_create_ah_resp, offsetof(struct sroce_create_ah_resp, reserved));
	dm = ibv_alloc_dm(e.ctx, &da);
	is(said.len, sizeof(struct sroce_dm_query_resp), "sroce_dm_query_resp: its length");
	if (!qp || !wq || !dm || ibv_destroy_qp(qp) || ibv_destroy_srq(srq) || ibv_destroy_wq(wq) ||
	    ibv_destroy_ah(ah) || ibv_free_dm(dm) || ibv_destroy_cq(cq))
		die("objects: %s", strerror(errno));
	end_close(&e);
}

/* --- completions ---------------------------------------------------------------------- */

static bool cqe_clean(const struct sroce_cqe *c, uint32_t peer)
{
	return !c->timestamp && !c->wallclock && !c->reserved && !c->reserved1 && !c->tm_tag &&
	       !c->pkey_index && !c->sl && !c->vendor_err && (!c->src_qp || c->src_qp == peer) &&
	       (c->imm_data ? c->wc_flags == SROCE_WC_WITH_IMM : !c->wc_flags);
}

/* What an entry has no use for is zero, and there is nothing behind the last one. */
static void entries(void)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		uint32_t len;
		bool receives;
	} ops[] = {
		{ IBV_WR_SEND, 3, true },
		{ IBV_WR_SEND_WITH_IMM, 0, true },
		{ IBV_WR_RDMA_WRITE, 5000, false },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, 7, true },
		{ IBV_WR_RDMA_READ, 9, false },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, 8, false },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, 8, false },
	};
	const int access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			   IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_cq *cq[2];
	struct sroce_ring *ring[2];
	unsigned int i, k, clean;
	struct ibv_wc wc;
	struct pair p;

	for (i = 0; i < 2; i++) {
		ring_before();
		cq[i] = cq_make(i ? &eb : &ea, 64);
		ring[i] = ring_after();
	}
	pair_create(&p, &ea, &eb, &(struct pair_opts) {
		.sq = 16, .rq = 16, .sge = 1, .buf = 8192, .access = access,
		.scq = cq[0], .rcq = cq[1] });
	p.conn.access = access | IBV_ACCESS_LOCAL_WRITE;
	pair_connect(&p);
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		struct ibv_send_wr wr = {
			.wr_id = i,
			.opcode = ops[i].opcode,
			.send_flags = IBV_SEND_SIGNALED,
			.imm_data = htonl(0xabcdef01),
			.num_sge = 1,
			.sg_list = SGE(p.buf[0], ops[i].len, p.mr[0]->lkey),
			.wr.rdma = { (uintptr_t)p.buf[1], p.mr[1]->rkey },
		};

		if (ops[i].len == 8) {
			wr.wr.atomic.remote_addr = (uintptr_t)p.buf[1];
			wr.wr.atomic.rkey = p.mr[1]->rkey;
			wr.wr.atomic.compare_add = 1;
		}
		if ((ops[i].receives && pair_recv(&p, 1, i, 0, 64)) || wr_post(p.qp[0], &wr))
			die("post");
		if (!cq_wait(cq[0], &wc, PATIENCE) || wc.status ||
		    (ops[i].receives && (!cq_wait(cq[1], &wc, PATIENCE) || wc.status)))
			die("request %u: %s", i, ibv_wc_status_str(wc.status));
	}
	for (i = 0; i < 2; i++) {
		const struct sroce_cqe *c = (void *)(ring[i] + 1);

		for (k = clean = 0; k < ring[i]->prod; k++)
			clean += cqe_clean(&c[k], p.qp[!i]->qp_num);
		ok(k && clean == k, "%s: %u entries of %u have nothing that was not asked for",
		   i ? "received" : "sent", clean, k);
		ok(all_are(c + k, 0, (64 - k) * sizeof(*c)), "and nothing is behind them");
	}
	pair_destroy(&p);
	for (i = 0; i < 2; i++)
		if (ibv_destroy_cq(cq[i]))
			die("destroy_cq");
}

/* --- packets -------------------------------------------------------------------------- */

/* IBTA Vol.1 9.2: 1, as of a device whose state is MIGRATED; no reserved bit */
#define MIGREQ_BIT 9
/* So many of them are enough to know. */
#define TELL 10

static struct {
	unsigned int packets, reserved, padding, tail, joined;
	unsigned int opcodes[256], pads[4];
} seen;

static void look_field(void *ctx, const struct spec_header *h, const char *name, size_t bit,
		       unsigned int bits)
{
	const uint64_t v = spec_bits(ctx, bit, bits);
	const uint8_t opcode = *(uint8_t *)ctx;
	bool wrong = false;

	if (!strcmp(name, "-") || !strcmp(name, "tver"))
		wrong = v && bit != MIGREQ_BIT;
	else if (!strcmp(name, "syndrome"))
		wrong = v >> 7;
	else if (!strcmp(name, "flush"))
		wrong = v >> 6;
	else if (!strcmp(name, "compare"))
		wrong = v && spec_says(spec_find(opcode)->name, "FetchAdd");
	if (!wrong)
		return;
	if (seen.reserved++ < TELL)
		diag("opcode %#x: %s has %#llx in bit %zu, %s", opcode, h->name,
		     (unsigned long long)v, bit, name);
}

/* From the BTH on */
static void look_packet(const uint8_t *p, size_t len)
{
	const struct spec_op *op = spec_find(p[0]);
	const unsigned int pad = p[1] >> 4 & 3;
	size_t head;

	seen.packets++;
	if (!op) {
		diag("opcode %#x", p[0]);
		seen.reserved++;
		return;
	}
	seen.opcodes[p[0]]++;
	seen.pads[pad]++;
	head = spec_walk(p[0], look_field, (void *)p);
	if (len < head + pad + 4) {
		seen.tail++;
		return;
	}
	if (!all_are(p + len - 4 - pad, 0, pad)) {
		if (seen.padding++ < TELL)
			diag("opcode %#x: padding of %u", p[0], pad);
	}
	if (spec_says(op->name, "CNP") && !all_are(p + head, 0, len - 4 - head))
		seen.reserved++;
}

static void look_ip(const uint8_t *ip, size_t len)
{
	const bool v6 = ip[0] >> 4 == 6;
	const size_t head = v6 ? 40 : 20;
	const uint8_t *udp = ip + head;
	size_t total;

	if (len < head + 8 + 16 || ip[v6 ? 6 : 9] != IPPROTO_UDP ||
	    (udp[2] << 8 | udp[3]) != 4791)
		return;
	total = v6 ? (size_t)40 + (ip[4] << 8 | ip[5]) : (size_t)(ip[2] << 8 | ip[3]);
	seen.tail += total != len || (size_t)(udp[4] << 8 | udp[5]) != total - head;
	seen.joined += len > 1500;
	look_packet(udp + 8, len - head - 8);
}

static volatile sig_atomic_t enough;

static void on_signal(int sig)
{
	(void)sig;
	enough = 1;
}

/* All packets of this namespace, until SIGINT: with what must be zero in it. */
static void watch(void)
{
	static uint8_t b[65536];
	const struct spec_op *op;
	struct pollfd pfd = { .events = POLLIN };
	int size = 64 << 20, i, kinds = 0;
	ssize_t n;

	pfd.fd = socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_ALL));
	if (pfd.fd < 0)
		die("packet socket");
	setsockopt(pfd.fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	diag("watching");
	fflush(stdout);
	while (poll(&pfd, 1, enough ? 0 : 200) > 0 || !enough) {
		n = recv(pfd.fd, b, sizeof(b), MSG_DONTWAIT);
		if (n > 0)
			look_ip(b, n);
	}
	for (i = 0; i < 256; i++) {
		op = seen.opcodes[i] ? spec_find(i) : NULL;
		kinds += !!op;
		if (op)
			diag("%02x %s: %u", i, op->name, seen.opcodes[i]);
	}
	ok(seen.packets > 1000, "%u packets of %d opcodes", seen.packets, kinds);
	is(seen.joined, 0, "each is one");
	is(seen.reserved, 0, "what is reserved is zero");
	for (i = 1; i < 4; i++)
		ok(seen.pads[i], "%u of them are padded by %d", seen.pads[i], i);
	is(seen.padding, 0, "with zeroes");
	is(seen.tail, 0, "and nothing is behind them");
	ok(seen.opcodes[0x81], "notifications of congestion are among them");
	ok(seen.opcodes[0xd1], "and reports of gaps");
	close(pfd.fd);
}

static const struct test tests[] = {
	TEST(keys),
	TEST(fresh),
	TEST(answers),
	TEST(entries),
	TEST(watch),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
