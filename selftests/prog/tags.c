// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Tag matching: eager and rendezvous messages to tags and past them, the
 * operations on tags, and what hostile peers send. The rules are those of
 * rdma-core's Documentation/tag_matching.md.
 */
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <infiniband/tm_types.h>

#include "common.h"

static struct end ea, eb;

#define MEM		(8U << 20)	/* of either side */
#define SLOT		8192		/* of an ordinary request */
#define RECVS		64
#define TMH		sizeof(struct ibv_tmh)
#define HDRS		(TMH + sizeof(struct ibv_rvh))
#define GUARD		64

#define MATCH		IBV_WC_TM_MATCH
#define VALID		IBV_WC_TM_DATA_VALID
#define SYNC_REQ	IBV_WC_TM_SYNC_REQ
#define ANY		(1 << 30)	/* whatever flags there are */
#define SIGNALED	IBV_OPS_SIGNALED
#define COUNT		IBV_OPS_TM_SYNC

/* What a test may want otherwise */
static unsigned int rd_atomic = 4, cq_entries = 4096;

/* A tag matching queue at b, and a queue pair that sends to it from a. */
struct matcher {
	struct ibv_comp_channel *channel;
	struct ibv_cq_ex *cq;
	struct ibv_srq *srq;
	struct ibv_cq *scq, *rcq;
	struct ibv_qp *qp[2];
	struct ibv_mr *mr[2], *recvs, *fins;
	uint32_t seen;		/* unexpected messages */
};

/* A completion, as the extended calls tell it */
struct told {
	uint64_t wr_id, tag;
	int status, opcode, flags;
	uint32_t len, priv, imm;
};

static uint8_t *at(struct matcher *m, int side, size_t off)
{
	return (uint8_t *)m->mr[side]->addr + off;
}

static void recv_post(struct matcher *m, uint64_t slot)
{
	struct ibv_recv_wr wr = {
		.wr_id = slot,
		.sg_list = SGE((uint8_t *)m->recvs->addr + slot * SLOT, SLOT, m->recvs->lkey),
		.num_sge = 1,
	}, *bad;

	errno = ibv_post_srq_recv(m->srq, &wr, &bad);
	if (errno)
		die("post_srq_recv");
}

static void fin_post(struct matcher *m, uint64_t slot)
{
	struct ibv_recv_wr wr = {
		.wr_id = slot,
		.sg_list = SGE((uint8_t *)m->fins->addr + slot * HDRS, HDRS, m->fins->lkey),
		.num_sge = 1,
	}, *bad;

	errno = ibv_post_recv(m->qp[0], &wr, &bad);
	if (errno)
		die("post_recv");
}

static struct ibv_qp *qp_make(struct end *e, struct ibv_cq *scq, struct ibv_cq *rcq,
			      struct ibv_srq *srq, enum ibv_qp_type type, unsigned int sends)
{
	struct ibv_qp_init_attr ia = {
		.send_cq = scq,
		.recv_cq = rcq,
		.srq = srq,
		.cap = {
			.max_send_wr = sends,
			.max_recv_wr = srq ? 0 : RECVS,
			.max_send_sge = sends ? 1 : 0,
			.max_recv_sge = srq ? 0 : 1,
		},
		.qp_type = type,
		.sq_sig_all = 1,
	};

	return ibv_create_qp(e->pd, &ia);
}

static void connect_both(struct matcher *m)
{
	struct conn c = conn_default;

	c.mtu = min(ea.port.active_mtu, eb.port.active_mtu);
	c.rd_atomic = rd_atomic;
	qps_connect(m->qp[0], &ea, 0xfffff0, m->qp[1], &eb, 0xfffff1, &c);
}

static void qps_up(struct matcher *m, unsigned int sends)
{
	m->qp[0] = qp_make(&ea, m->scq, m->rcq, NULL, IBV_QPT_RC, RECVS);
	m->qp[1] = qp_make(&eb, ibv_cq_ex_to_cq(m->cq), ibv_cq_ex_to_cq(m->cq), m->srq,
			   IBV_QPT_RC, sends);
	if (!m->qp[0] || !m->qp[1])
		die("create_qp");
	connect_both(m);
}

static void qps_down(struct matcher *m)
{
	int i;

	for (i = 0; i < 2; i++)
		if (m->qp[i] && ibv_destroy_qp(m->qp[i]))
			die("destroy_qp");
}

static void up_sends(struct matcher *m, unsigned int sends)
{
	struct ibv_cq_init_attr_ex ca = {
		.cqe = cq_entries,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_TM_INFO,
	};
	struct ibv_srq_init_attr_ex sa = {
		.attr = { .max_wr = RECVS, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = eb.pd,
		.tm_cap = { .max_num_tags = 64, .max_ops = 16 },
	};

	memset(m, 0, sizeof(*m));
	m->channel = ibv_create_comp_channel(eb.ctx);
	if (!m->channel)
		die("create_comp_channel");
	ca.channel = m->channel;
	m->cq = ibv_create_cq_ex(eb.ctx, &ca);
	if (!m->cq)
		die("create_cq_ex");
	sa.cq = ibv_cq_ex_to_cq(m->cq);
	m->srq = ibv_create_srq_ex(eb.ctx, &sa);
	if (!m->srq)
		die("create_srq_ex");
	m->scq = cq_make(&ea, RECVS * 2);
	m->rcq = cq_make(&ea, RECVS * 2);
	m->mr[0] = mr_make(&ea, MEM, IBV_ACCESS_REMOTE_READ);
	m->mr[1] = mr_make(&eb, MEM, 0);
	m->recvs = mr_make(&eb, RECVS * SLOT, 0);
	m->fins = mr_make(&ea, RECVS * HDRS, 0);
	qps_up(m, sends);
}

static void up(struct matcher *m)
{
	unsigned int i;

	up_sends(m, 0);
	for (i = 0; i < RECVS / 2; i++)
		recv_post(m, i);
}

static void down(struct matcher *m)
{
	qps_down(m);
	errno = ibv_destroy_srq(m->srq);
	if (errno)
		die("destroy_srq");
	if (ibv_destroy_cq(ibv_cq_ex_to_cq(m->cq)) || ibv_destroy_cq(m->scq) ||
	    ibv_destroy_cq(m->rcq))
		die("destroy_cq");
	ibv_destroy_comp_channel(m->channel);
	mr_drop(m->mr[0]);
	mr_drop(m->mr[1]);
	mr_drop(m->recvs);
	mr_drop(m->fins);
}

static bool next_told(struct matcher *m, struct told *t, double seconds)
{
	struct ibv_poll_cq_attr attr = {};
	double end = now() + seconds;
	struct ibv_wc_tm_info info;
	unsigned int spins = 0;
	int ret;

	while ((ret = ibv_start_poll(m->cq, &attr))) {
		if (ret != ENOENT || now() > end)
			return false;
		/* leave the processor to whom we wait for */
		if (++spins > 1000)
			usleep(200);
	}
	memset(t, 0, sizeof(*t));
	t->wr_id = m->cq->wr_id;
	t->status = m->cq->status;
	t->opcode = ibv_wc_read_opcode(m->cq);
	if (!t->status || t->status == IBV_WC_TM_RNDV_INCOMPLETE) {
		t->flags = ibv_wc_read_wc_flags(m->cq);
		t->len = ibv_wc_read_byte_len(m->cq);
		t->imm = ibv_wc_read_imm_data(m->cq);
		ibv_wc_read_tm_info(m->cq, &info);
		t->tag = info.tag;
		t->priv = info.priv;
	}
	ibv_end_poll(m->cq);
	return true;
}

static void explain(const struct told *t)
{
	diag("wr_id %llu, status %d, opcode %d, flags 0x%x, %u bytes, tag 0x%llx",
	     (unsigned long long)t->wr_id, t->status, t->opcode, t->flags, t->len,
	     (unsigned long long)t->tag);
}

/* The next completion is this; a TAP result unless it is right and @what is NULL */
static bool told_is(struct matcher *m, uint64_t wr_id, int status, int opcode, int flags,
		    struct told *out, const char *what)
{
	struct told t = {};
	bool good;

	good = next_told(m, &t, PATIENCE) && t.wr_id == wr_id && t.status == status &&
	       (status || (t.opcode == opcode && (flags == ANY || t.flags == flags)));
	if (out)
		*out = t;
	if (good && !what)
		return true;
	if (!ok(good, "%s", what ? what : "a completion"))
		explain(&t);
	return good;
}

static int op_post(struct matcher *m, struct ibv_ops_wr *wr)
{
	struct ibv_ops_wr *bad;

	return ibv_post_srq_ops(m->srq, wr, &bad);
}

/* A buffer for a tag, and its completion; @len bytes of b's memory at @off */
static uint32_t add_masked(struct matcher *m, uint64_t id, uint64_t tag, uint64_t mask, size_t off,
			   uint32_t len, int flags)
{
	struct ibv_ops_wr wr = {
		.wr_id = id,
		.opcode = IBV_WR_TAG_ADD,
		.flags = SIGNALED | COUNT,
		.tm = {
			.unexpected_cnt = m->seen,
			.add = {
				.recv_wr_id = id,
				.sg_list = SGE(at(m, 1, off), len, m->mr[1]->lkey),
				.num_sge = 1,
				.tag = tag,
				.mask = mask,
			},
		},
	};

	errno = op_post(m, &wr);
	if (errno)
		die("TAG_ADD");
	told_is(m, id, IBV_WC_SUCCESS, IBV_WC_TM_ADD, flags, NULL, NULL);
	return wr.tm.handle;
}

static uint32_t add(struct matcher *m, uint64_t id, uint64_t tag, size_t off, uint32_t len)
{
	return add_masked(m, id, tag, UINT64_MAX, off, len, 0);
}

static void del(struct matcher *m, uint32_t handle, int status, const char *what)
{
	struct ibv_ops_wr wr = {
		.wr_id = 4711,
		.opcode = IBV_WR_TAG_DEL,
		.flags = SIGNALED,
		.tm.handle = handle,
	};

	errno = op_post(m, &wr);
	if (errno)
		die("TAG_DEL");
	told_is(m, 4711, status, IBV_WC_TM_DEL, 0, NULL, what);
}

static void sync_seen(struct matcher *m, uint32_t seen, int flags, const char *what)
{
	struct ibv_ops_wr wr = {
		.wr_id = 4712,
		.opcode = IBV_WR_TAG_SYNC,
		.flags = SIGNALED | COUNT,
		.tm.unexpected_cnt = seen,
	};

	errno = op_post(m, &wr);
	if (errno)
		die("TAG_SYNC");
	told_is(m, 4712, IBV_WC_SUCCESS, IBV_WC_TM_SYNC, flags, NULL, what);
}

static void put_tmh(void *p, int op, uint64_t tag)
{
	struct ibv_tmh tmh = {
		.opcode = op,
		.app_ctx = htobe32(tag ^ 0x5a5a5a5a),
		.tag = htobe64(tag),
	};

	memcpy(p, &tmh, sizeof(tmh));
}

static void put_rvh(struct matcher *m, void *p, size_t from, uint32_t len)
{
	struct ibv_rvh rvh = {
		.va = htobe64((uintptr_t)at(m, 0, from)),
		.rkey = htobe32(m->mr[0]->rkey),
		.len = htobe32(len),
	};

	memcpy((uint8_t *)p + TMH, &rvh, sizeof(rvh));
}

static void send_len(struct matcher *m, size_t off, uint32_t len)
{
	errno = POST(m->qp[0], .wr_id = off, .opcode = IBV_WR_SEND_WITH_IMM,
		     .imm_data = htobe32(len), .num_sge = 1,
		     .sg_list = SGE(at(m, 0, off), len, m->mr[0]->lkey));
	if (errno)
		die("post_send");
}

/* A message of @len bytes, with the tag as its pattern's key */
static void eager(struct matcher *m, size_t off, uint64_t tag, uint32_t len)
{
	put_tmh(at(m, 0, off), IBV_TMH_EAGER, tag);
	pattern_fill(at(m, 0, off) + TMH, tag, 0, len);
	send_len(m, off, TMH + len);
}

/* The same, for the other side to fetch from @from */
static void rndv(struct matcher *m, size_t off, uint64_t tag, size_t from, uint32_t len)
{
	put_tmh(at(m, 0, off), IBV_TMH_RNDV, tag);
	put_rvh(m, at(m, 0, off), from, len);
	/* it may say more than there is */
	pattern_fill(at(m, 0, from), tag, 0, min(len, MEM / 2));
	send_len(m, off, HDRS);
}

static void sent(struct matcher *m, int status)
{
	struct ibv_wc wc = {};

	if (!cq_wait(m->scq, &wc, PATIENCE) || wc.status != (enum ibv_wc_status)status)
		ok(false, "the sender's completion: status %d and not %d", wc.status, status);
}

static void clear(struct matcher *m, size_t off, size_t len)
{
	memset(at(m, 1, off), CANARY, len);
}

static bool data_is(struct matcher *m, uint64_t key, size_t off, uint32_t len)
{
	const int64_t bad = pattern_check(at(m, 1, off), key, 0, len);

	if (bad >= 0)
		diag("wrong at byte %lld of %u", (long long)bad, len);
	return bad < 0 && canary_check(at(m, 1, off) + len, GUARD) < 0;
}

/* Eager */

static void eager_one(struct matcher *m, uint32_t len, uint32_t room)
{
	const bool one = TMH + len <= mtu_bytes(min(ea.port.active_mtu, eb.port.active_mtu));
	const uint64_t tag = 0xabcd000000000000ULL + len;
	struct told t;
	bool good = true;

	clear(m, 0, room + GUARD);
	add(m, 77, tag, 0, room);
	eager(m, 0, tag, len);
	if (!one) {
		good &= told_is(m, 77, 0, IBV_WC_TM_RECV, MATCH, &t, NULL);
		good &= t.tag == tag && t.priv == (uint32_t)(tag ^ 0x5a5a5a5a);
	}
	good &= told_is(m, 77, 0, IBV_WC_TM_RECV, IBV_WC_WITH_IMM | VALID | (one ? MATCH : 0), &t,
			NULL);
	if (one)
		good &= t.tag == tag && t.priv == (uint32_t)(tag ^ 0x5a5a5a5a);
	good &= t.len == len && t.imm == htobe32(TMH + len);
	good &= data_is(m, tag, 0, len);
	sent(m, IBV_WC_SUCCESS);
	if (!ok(good, "%u bytes for a tag with a buffer of %u", len, room))
		explain(&t);
}

static void test_eager(void)
{
	static const uint32_t lens[] = { 0, 1, 15, 16, 1008, 1009, 4080, 4081, 100000, 300000 };
	struct matcher m;
	unsigned int i;

	up(&m);
	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		eager_one(&m, lens[i], lens[i]);
		eager_one(&m, lens[i], lens[i] + 10000);
	}
	down(&m);
}

/* Which tag a message takes */
static void test_order(void)
{
	struct matcher m;
	struct told t;

	up(&m);
	add_masked(&m, 1, 0x1200, 0xff00, 0, 64, 0);
	add(&m, 2, 0x1234, 64, 64);
	add(&m, 3, 0x1234, 128, 64);
	add_masked(&m, 4, 0, 0, 192, 64, 0);

	eager(&m, 0, 0x1234, 5);
	told_is(&m, 1, 0, IBV_WC_TM_RECV, MATCH | VALID | IBV_WC_WITH_IMM, NULL,
		"the first that fits, by its mask");
	eager(&m, 0, 0x1234, 5);
	told_is(&m, 2, 0, IBV_WC_TM_RECV, MATCH | VALID | IBV_WC_WITH_IMM, NULL,
		"of two alike the one posted first");
	eager(&m, 0, 0x9999, 5);
	told_is(&m, 4, 0, IBV_WC_TM_RECV, MATCH | VALID | IBV_WC_WITH_IMM, &t,
		"one that takes any tag");
	is(t.tag, 0x9999, "it tells which");
	eager(&m, 0, 0x1234, 5);
	told_is(&m, 3, 0, IBV_WC_TM_RECV, MATCH | VALID | IBV_WC_WITH_IMM, NULL,
		"and the last one");
	/* bits of a tag beside its mask: nothing can equal it */
	add_masked(&m, 5, 0x1234, 0xff00, 0, 64, 0);
	eager(&m, 0, 0x1234, 5);
	told_is(&m, 0, 0, IBV_WC_TM_RECV, IBV_WC_WITH_IMM, NULL,
		"a tag with bits beside its mask takes nothing");
	down(&m);
}

/* Unexpected ones, and messages that are none of tag matching's */

static void unexpected(struct matcher *m, uint64_t slot, uint64_t tag, uint32_t len,
		       const char *what)
{
	const uint8_t *got = (uint8_t *)m->recvs->addr + slot * SLOT;
	struct told t;
	bool good;

	eager(m, 0, tag, len);
	good = told_is(m, slot, 0, IBV_WC_TM_RECV, IBV_WC_WITH_IMM, &t, NULL) &&
	       t.len == TMH + len && !memcmp(got, at(m, 0, 0), TMH + len);
	m->seen++;
	if (!ok(good, "%s", what))
		explain(&t);
	recv_post(m, slot);
}

static void other(struct matcher *m, uint64_t slot, int op, uint32_t len, const char *what)
{
	const uint8_t *got = (uint8_t *)m->recvs->addr + slot * SLOT;
	struct told t;
	bool good;

	put_tmh(at(m, 0, 0), op, 0x42);
	send_len(m, 0, len);
	good = told_is(m, slot, 0, IBV_WC_TM_NO_TAG, IBV_WC_WITH_IMM, &t, NULL) && t.len == len &&
	       !memcmp(got, at(m, 0, 0), len);
	if (!ok(good, "%s", what))
		explain(&t);
	recv_post(m, slot);
}

static void test_unexpected(void)
{
	struct matcher m;

	up(&m);
	unexpected(&m, 0, 1, 100, "without a tag, the whole message takes an ordinary request");
	unexpected(&m, 1, 2, 5000, "likewise one of many packets");
	m.seen--;
	/* one of two has been seen */
	add_masked(&m, 50, 3, UINT64_MAX, 0, 64, SYNC_REQ);
	unexpected(&m, 2, 3, 20, "a tag posted before they all have been seen takes nothing");
	/* which is three of them now */
	sync_seen(&m, 1, SYNC_REQ, "a count that is behind asks for another");
	unexpected(&m, 3, 3, 20, "and arms nothing");
	m.seen = 4;
	sync_seen(&m, m.seen, 0, "a count that is right is enough");
	eager(&m, 0, 3, 20);
	told_is(&m, 50, 0, IBV_WC_TM_RECV, MATCH | VALID | IBV_WC_WITH_IMM, NULL,
		"then the tag is armed");

	add(&m, 51, 7, 0, 64);
	unexpected(&m, 4, 8, 20, "another message finds none");
	eager(&m, 0, 7, 20);
	told_is(&m, 51, 0, IBV_WC_TM_RECV, MATCH | VALID | IBV_WC_WITH_IMM, NULL,
		"which disarms no tag that is armed");

	add_masked(&m, 52, 0, 0, 0, 64, 0);
	other(&m, 5, IBV_TMH_NO_TAG, 100, "NO_TAG is looked at by no tag");
	other(&m, 6, IBV_TMH_NO_TAG, 1, "not even a header is needed");
	other(&m, 7, IBV_TMH_FIN, HDRS, "FIN likewise");
	other(&m, 8, IBV_TMH_NO_TAG, 0, "nor a byte");
	sync_seen(&m, m.seen, 0, "none of these counts");
	down(&m);
}

/* No ordinary request: the message comes again, and is none until it is taken. */
static void test_not_ready(void)
{
	struct matcher m;

	up_sends(&m, 0);
	eager(&m, 0, 1, 2000);
	sleep_ms(50);
	/* while it is being refused, it counts */
	add_masked(&m, 60, 1, UINT64_MAX, 0, 4096, ANY);
	told_is(&m, 60, 0, IBV_WC_TM_RECV, MATCH, NULL, "a message that had to wait finds the tag");
	told_is(&m, 60, 0, IBV_WC_TM_RECV, VALID | IBV_WC_WITH_IMM, NULL, "and is placed there");
	sync_seen(&m, 0, 0, "it was never unexpected");
	down(&m);
}

/* Operations */

static void test_delete(void)
{
	struct matcher m;
	uint32_t h, h2;

	up(&m);
	h = add(&m, 1, 5, 0, 64);
	del(&m, h, IBV_WC_SUCCESS, "a tag is deleted");
	del(&m, h, IBV_WC_TM_ERR, "but once");
	unexpected(&m, 0, 5, 10, "then it takes nothing");
	h = add(&m, 2, 5, 0, 64);
	eager(&m, 0, 5, 10);
	told_is(&m, 2, 0, IBV_WC_TM_RECV, MATCH | VALID | IBV_WC_WITH_IMM, NULL, "it is taken");
	h2 = add(&m, 3, 5, 0, 64);
	ok(h != h2, "another has another handle");
	del(&m, h, IBV_WC_TM_ERR, "too late to be deleted");
	eager(&m, 0, 5, 10);
	told_is(&m, 3, 0, IBV_WC_TM_RECV, MATCH | VALID | IBV_WC_WITH_IMM, NULL,
		"which left the other alone");
	down(&m);
}

#define RACES 400

static uint32_t race_handle[RACES];

static void *delete_thread(void *arg)
{
	struct matcher *m = arg;
	int i;

	for (i = 0; i < RACES; i++) {
		struct ibv_ops_wr wr = {
			.wr_id = 10000 + i,
			.opcode = IBV_WR_TAG_DEL,
			.flags = SIGNALED,
		};

		while (!(wr.tm.handle = __atomic_load_n(&race_handle[i], __ATOMIC_ACQUIRE)))
			sched_yield();
		wr.tm.handle--;
		if (op_post(m, &wr))
			return (void *)1;
	}
	return NULL;
}

/* Each tag is either taken or deleted, whoever comes first. */
static void test_race(void)
{
	unsigned int taken = 0, deleted = 0, late = 0, missed = 0, i, n = 0;
	pthread_t thread;
	struct matcher m;
	struct told t;
	void *failed;

	up(&m);
	memset(race_handle, 0, sizeof(race_handle));
	pthread_create(&thread, NULL, delete_thread, &m);
	for (i = 0; i < RACES; i++) {
		struct ibv_ops_wr wr = {
			.opcode = IBV_WR_TAG_ADD,
			.flags = COUNT,
			.tm = {
				.unexpected_cnt = missed,
				.add = {
					.recv_wr_id = 20000 + i,
					.sg_list = SGE(at(&m, 1, 0), 64, m.mr[1]->lkey),
					.num_sge = 1,
					.tag = i,
					.mask = UINT64_MAX,
				},
			},
		};

		errno = op_post(&m, &wr);
		if (errno)
			die("TAG_ADD");
		if (i % 2) {
			__atomic_store_n(&race_handle[i], wr.tm.handle + 1, __ATOMIC_RELEASE);
			sched_yield();
		}
		eager(&m, 0, i, 8);
		__atomic_store_n(&race_handle[i], wr.tm.handle + 1, __ATOMIC_RELEASE);
		/* of the message and of the deletion */
		for (n = 0; n < 2 && next_told(&m, &t, PATIENCE); n++) {
			if (t.opcode == IBV_WC_TM_DEL || t.status) {
				deleted += !t.status;
				late += t.status == IBV_WC_TM_ERR;
			} else if (t.flags & MATCH) {
				taken++;
			} else {
				missed++;
				recv_post(&m, t.wr_id);
			}
		}
		sent(&m, IBV_WC_SUCCESS);
	}
	pthread_join(thread, &failed);
	ok(!failed && n == 2, "%d messages and deletions complete", RACES);
	is(taken + missed, RACES, "each message is placed once: %u in a tag's buffer", taken);
	is(deleted + late, RACES, "each deletion works or not: %u did", deleted);
	is(taken, late, "it does not if the tag is taken");
	down(&m);
}

static void refuse(struct matcher *m, struct ibv_ops_wr *wr, int err, const char *what)
{
	is(op_post(m, wr), err, "%s", what);
}

static void test_refused(void)
{
	struct ibv_srq_init_attr basic = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_sge sges[33] = {};
	struct ibv_ops_wr wr = {
		.opcode = IBV_WR_TAG_ADD,
		.tm.add = { .sg_list = sges, .mask = UINT64_MAX },
	}, *bad, list[2];
	struct ibv_device_attr_ex attr = {};
	struct ibv_srq *srq;
	struct matcher m;
	int i;

	if (ibv_query_device_ex(eb.ctx, NULL, &attr))
		die("query_device_ex");
	ok(attr.tm_caps.flags & IBV_TM_CAP_RC && attr.tm_caps.max_rndv_hdr_size >= HDRS &&
	   attr.tm_caps.max_num_tags >= 64 && attr.tm_caps.max_ops && attr.tm_caps.max_sge,
	   "tm_caps: %u tags, %u operations, %u pieces, headers of %u bytes",
	   attr.tm_caps.max_num_tags, attr.tm_caps.max_ops, attr.tm_caps.max_sge,
	   attr.tm_caps.max_rndv_hdr_size);
	up(&m);
	for (i = 0; i < 64; i++)
		if (op_post(&m, &wr))
			break;
	is(i, 64, "as many tags as were asked for");
	refuse(&m, &wr, ENOMEM, "and no more");
	wr.opcode = IBV_WR_TAG_DEL;
	wr.tm.handle = 12345678;
	refuse(&m, &wr, 0, "no such handle: nobody asked to be told");
	wr.opcode = 3;
	refuse(&m, &wr, EINVAL, "no such operation");
	wr.opcode = IBV_WR_TAG_SYNC;
	wr.flags = 4;
	refuse(&m, &wr, EINVAL, "no such flag");
	wr.flags = 0;
	wr.opcode = IBV_WR_TAG_ADD;
	wr.tm.add.num_sge = attr.tm_caps.max_sge + 1;
	refuse(&m, &wr, EINVAL, "too many pieces");
	wr.tm.add.num_sge = -1;
	refuse(&m, &wr, EINVAL, "less than none");
	wr.tm.add.num_sge = 0;

	list[0] = (struct ibv_ops_wr) { .opcode = IBV_WR_TAG_SYNC, .wr_id = 9, .flags = SIGNALED,
					.next = &list[1] };
	list[1] = wr;
	is(ibv_post_srq_ops(m.srq, list, &bad), ENOMEM, "a list with a bad one");
	ok(bad == &list[1], "it says which");
	told_is(&m, 9, 0, IBV_WC_TM_SYNC, 0, NULL, "the one before is done");

	srq = ibv_create_srq(eb.pd, &basic);
	if (!srq)
		die("create_srq");
	is(ibv_post_srq_ops(srq, list, &bad), EINVAL, "tags of a basic SRQ");
	ibv_destroy_srq(srq);
	ok(!qp_make(&eb, m.scq, m.scq, m.srq, IBV_QPT_UC, 0), "a UC queue pair with tags");
	is(POST(m.qp[1], .opcode = IBV_WR_SEND), EINVAL, "posting to a send queue that is the tags'");
	down(&m);
}

/* Rendezvous */

static bool fin_is(struct matcher *m, uint64_t slot, size_t off)
{
	uint8_t want[HDRS], *got = (uint8_t *)m->fins->addr + slot * HDRS;
	struct ibv_wc wc;

	memcpy(want, at(m, 0, off), HDRS);
	want[0] = IBV_TMH_FIN;
	return cq_wait(m->rcq, &wc, PATIENCE) && !wc.status && wc.opcode == IBV_WC_RECV &&
	       wc.wr_id == slot && wc.byte_len == HDRS && !memcmp(got, want, HDRS);
}

static void rndv_one(struct matcher *m, uint32_t len, uint32_t room)
{
	const uint64_t tag = 0x1234000000000000ULL + len;
	struct told t;
	bool good;

	clear(m, 0, room + GUARD);
	fin_post(m, 3);
	add(m, 88, tag, 0, room);
	rndv(m, 0, tag, 4096, len);
	sent(m, IBV_WC_SUCCESS);
	good = told_is(m, 88, 0, IBV_WC_TM_RECV, MATCH | IBV_WC_WITH_IMM, &t, NULL) && t.tag == tag;
	good &= fin_is(m, 3, 0);
	good &= told_is(m, 88, 0, IBV_WC_TM_RECV, VALID, &t, NULL) && t.len == len;
	good &= data_is(m, tag, 0, len);
	if (!ok(good, "%u bytes fetched into a buffer of %u, and FIN", len, room))
		explain(&t);
}

#define LONG_RNDV	(MEM / 2)

/*
 * Who waits for what is solicited alone hears of the data that is fetched, too. Return: false if
 * that was there before it waited.
 */
static bool rndv_solicited(struct matcher *m)
{
	struct pollfd event = { .fd = m->channel->fd, .events = POLLIN };
	struct ibv_cq *cq = ibv_cq_ex_to_cq(m->cq);
	struct told t = {};
	bool early, good;
	void *ctx;

	clear(m, 0, LONG_RNDV + GUARD);
	fin_post(m, 3);
	add(m, 88, 77, 0, LONG_RNDV);
	put_tmh(at(m, 0, 0), IBV_TMH_RNDV, 77);
	put_rvh(m, at(m, 0, 0), 4096, LONG_RNDV);
	pattern_fill(at(m, 0, 4096), 77, 0, LONG_RNDV);
	errno = POST(m->qp[0], .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htobe32(HDRS),
		     .num_sge = 1, .sg_list = SGE(at(m, 0, 0), HDRS, m->mr[0]->lkey),
		     .send_flags = IBV_SEND_SOLICITED | IBV_SEND_SIGNALED);
	if (errno)
		die("post_send");
	good = next_told(m, &t, PATIENCE) && t.flags == (MATCH | IBV_WC_WITH_IMM);
	if (ibv_req_notify_cq(cq, 1))
		die("req_notify_cq");
	early = next_told(m, &t, 0);
	if (!early) {
		ok(poll(&event, 1, PATIENCE * 1000) == 1, "the data of a rendezvous is solicited");
		good &= next_told(m, &t, PATIENCE);
	}
	/* what was armed in vain is not to be in the way */
	while (poll(&event, 1, 0) == 1) {
		if (ibv_get_cq_event(m->channel, &cq, &ctx))
			die("get_cq_event");
		ibv_ack_cq_events(cq, 1);
	}
	sent(m, IBV_WC_SUCCESS);
	good &= t.flags == VALID && !t.status && fin_is(m, 3, 0) && data_is(m, 77, 0, LONG_RNDV);
	if (!good && !ok(false, "a rendezvous"))
		explain(&t);
	return !early;
}

#define MANY	32
#define PART	20000

/* More at once than may be read at once; some may be left to the program. */
static void rndv_many(struct matcher *m)
{
	unsigned int i, whole = 0, left = 0, matched = 0, good = 0;
	struct told t;

	clear(m, 0, MEM);
	for (i = 0; i < MANY; i++) {
		fin_post(m, i);
		add(m, i, 1000 + i, i * (PART + GUARD), PART);
	}
	for (i = 0; i < MANY; i++)
		rndv(m, i * HDRS, 1000 + i, 4096 + i * PART, PART);
	while (whole + left < MANY && next_told(m, &t, PATIENCE)) {
		left += t.status == IBV_WC_TM_RNDV_INCOMPLETE;
		matched += t.flags & MATCH ? 1 : 0;
		if (t.status || !(t.flags & VALID))
			continue;
		whole++;
		good += data_is(m, 1000 + t.wr_id, t.wr_id * (PART + GUARD), PART);
	}
	is(matched, MANY, "%d at once: each is matched", MANY);
	is(whole + left, MANY, "each is complete, %u left to the program", left);
	is(good, whole, "with the data of those that were fetched");
	for (i = 0; i < MANY; i++)
		sent(m, IBV_WC_SUCCESS);
	for (i = 0; i < whole; i++) {
		struct ibv_wc wc = {};

		if (!cq_wait(m->rcq, &wc, PATIENCE) || wc.status)
			break;
	}
	is(i, whole, "and as many FINs");
}

/* Over several pieces, of which the last is not needed */
static void rndv_pieces(struct matcher *m)
{
	struct ibv_sge sges[4] = {
		{ (uintptr_t)at(m, 1, 1000), 1000, m->mr[1]->lkey },
		{ (uintptr_t)at(m, 1, 0), 0, m->mr[1]->lkey },
		{ (uintptr_t)at(m, 1, 9000), 5000, m->mr[1]->lkey },
		{ (uintptr_t)at(m, 1, 30000), 100, 0x666 },
	};
	struct ibv_ops_wr wr = {
		.opcode = IBV_WR_TAG_ADD,
		.tm.add = { .recv_wr_id = 5, .sg_list = sges, .num_sge = 4, .tag = 5,
			    .mask = UINT64_MAX },
	};

	clear(m, 0, 40000);
	fin_post(m, 1);
	errno = op_post(m, &wr);
	if (errno)
		die("TAG_ADD");
	rndv(m, 0, 5, 4096, 4000);
	sent(m, IBV_WC_SUCCESS);
	told_is(m, 5, 0, IBV_WC_TM_RECV, MATCH | IBV_WC_WITH_IMM, NULL, NULL);
	told_is(m, 5, 0, IBV_WC_TM_RECV, VALID, NULL, "into pieces");
	ok(fin_is(m, 1, 0), "its FIN");
	ok(pattern_check(at(m, 1, 1000), 5, 0, 1000) < 0 &&
	   pattern_check(at(m, 1, 9000), 5, 1000, 3000) < 0 &&
	   canary_check(at(m, 1, 2000), 7000) < 0 && canary_check(at(m, 1, 12000), 20000) < 0,
	   "each byte where it belongs");
}

/* What a tag's keys are of is the SRQ's domain. */
static void rndv_other_pd(struct matcher *m)
{
	struct end other = eb;

	other.pd = ibv_alloc_pd(eb.ctx);
	if (!other.pd || ibv_destroy_qp(m->qp[1]))
		die("another domain");
	m->qp[1] = qp_make(&other, ibv_cq_ex_to_cq(m->cq), ibv_cq_ex_to_cq(m->cq), m->srq,
			   IBV_QPT_RC, 0);
	if (!m->qp[1] || qp_to(m->qp[0], IBV_QPS_RESET))
		die("create_qp");
	connect_both(m);
	eager_one(m, 3000, 3000);
	rndv_one(m, 3000, 3000);
	if (ibv_destroy_qp(m->qp[1]) || ibv_dealloc_pd(other.pd))
		die("another domain");
	m->qp[1] = NULL;
}

static void test_rndv(void)
{
	static const uint32_t lens[] = { 0, 1, 1024, 4096, 50001, 65537 };
	struct matcher m;
	unsigned int i;

	up(&m);
	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		rndv_one(&m, lens[i], lens[i]);
		rndv_one(&m, lens[i], lens[i] + 500);
	}
	/* to itself, or with one processor, a device reads before it has told of the match */
	if (!strcmp(ea.ctx->device->name, eb.ctx->device->name) ||
	    sysconf(_SC_NPROCESSORS_ONLN) == 1) {
		rndv_solicited(&m);
	} else {
		for (i = 0; i < 200 && !rndv_solicited(&m); i++)
			;
		ok(i < 200, "who waited for it had to");
	}
	rndv_pieces(&m);
	rndv_many(&m);
	put_tmh(at(&m, 0, 0), IBV_TMH_RNDV, 999);
	put_rvh(&m, at(&m, 0, 0), 4096, 10);
	send_len(&m, 0, HDRS + 100);
	told_is(&m, 0, 0, IBV_WC_TM_RECV, IBV_WC_WITH_IMM, NULL,
		"without a tag, an ordinary request has the headers");
	ok(!memcmp(m.recvs->addr, at(&m, 0, 0), HDRS + 100), "and what else was sent");
	m.seen++;
	sync_seen(&m, m.seen, 0, "it counts");
	diag("of a queue pair in another domain:");
	rndv_other_pd(&m);
	down(&m);
}

/* What is left to the program: no room, or a send queue that is its own */
static void rndv_left(struct matcher *m, uint32_t len, uint32_t room, const char *what)
{
	struct pollfd event = { .fd = m->channel->fd, .events = POLLIN };
	struct ibv_cq *cq = ibv_cq_ex_to_cq(m->cq);
	struct told t;
	void *ctx;

	clear(m, 0, room + GUARD);
	add(m, 90, 6, 0, room);
	if (ibv_req_notify_cq(cq, 1))
		die("req_notify_cq");
	rndv(m, 0, 6, 4096, len);
	if (ok(poll(&event, 1, PATIENCE * 1000) == 1, "%s: who waits for what is solicited hears it", what)) {
		if (ibv_get_cq_event(m->channel, &cq, &ctx))
			die("get_cq_event");
		ibv_ack_cq_events(cq, 1);
	}
	told_is(m, 90, IBV_WC_TM_RNDV_INCOMPLETE, 0, 0, &t, what);
	ok(t.opcode == IBV_WC_TM_RECV && t.flags == (MATCH | IBV_WC_WITH_IMM) && t.len == HDRS &&
	   t.tag == 6, "it says that there is a match");
	ok(!memcmp(at(m, 1, 0), at(m, 0, 0), HDRS) && canary_check(at(m, 1, HDRS), room - HDRS) < 0,
	   "the headers are in the buffer");
	sent(m, IBV_WC_SUCCESS);
}

#define PIECES	32
#define CROWD	40

/* More than a queue pair has room for, of long lists, while no FIN gets through */
static void rndv_crowd(struct matcher *m)
{
	struct ibv_sge sges[PIECES] = {};
	struct ibv_ops_wr wr = {
		.opcode = IBV_WR_TAG_ADD,
		.flags = COUNT,
		.tm = {
			.unexpected_cnt = m->seen,
			.add = { .sg_list = sges, .num_sge = PIECES, .mask = UINT64_MAX },
		},
	};
	unsigned int i, left = 0, whole = 0, good = 0;
	struct ibv_wc wc;
	struct told t;

	clear(m, 0, CROWD * 256);
	for (i = 0; i < CROWD; i++) {
		wr.tm.add.recv_wr_id = i;
		wr.tm.add.tag = 500 + i;
		sges[PIECES - 1] = *SGE(at(m, 1, i * 256), 128, m->mr[1]->lkey);
		errno = op_post(m, &wr);
		if (errno)
			die("TAG_ADD");
		rndv(m, i * HDRS, 500 + i, 4096 + i * 128, 128);
	}
	for (i = 0; i < CROWD; i++)
		sent(m, IBV_WC_SUCCESS);
	for (i = 0; i < CROWD && next_told(m, &t, PATIENCE); i++) {
		left += t.status == IBV_WC_TM_RNDV_INCOMPLETE;
		/* the first is fetched meanwhile */
		if (t.flags == VALID) {
			whole++;
			i--;
		}
	}
	ok(left && left < CROWD - 16, "of %d at once, %u are left to the program", CROWD, left);
	for (i = 0; i < CROWD - left; i++)
		fin_post(m, i);
	while (whole < CROWD - left && next_told(m, &t, PATIENCE) && !t.status)
		whole++;
	is(whole, CROWD - left, "the others are complete");
	for (i = 0; i < whole && cq_wait(m->rcq, &wc, PATIENCE) && !wc.status; i++)
		good += pattern_check(at(m, 1, i * 256), 500 + i, 0, 128) < 0;
	is(good, whole, "with their data and FINs");
}

static void test_left(void)
{
	struct matcher m;

	up(&m);
	rndv_left(&m, 5000, 4999, "a rendezvous that does not fit its buffer");
	rndv_left(&m, UINT32_MAX, 4999, "nor does one that says 4 GiB");
	rndv_one(&m, 5000, 5000);
	rndv_crowd(&m);
	rndv_one(&m, 5000, 5000);
	qps_down(&m);
	rd_atomic = 0;
	qps_up(&m, 0);
	rndv_left(&m, 5000, 5000, "a queue pair that may read nothing");
	rd_atomic = 4;
	down(&m);

	up_sends(&m, 4);
	rndv_left(&m, 5000, 5000, "a queue pair with a send queue of its own");
	/* which the program uses then */
	errno = POST(m.qp[1], .opcode = IBV_WR_RDMA_READ, .num_sge = 1,
		     .sg_list = SGE(at(&m, 1, 0), 5000, m.mr[1]->lkey),
		     .wr.rdma = { (uintptr_t)at(&m, 0, 4096), m.mr[0]->rkey });
	if (errno)
		die("post_send");
	told_is(&m, 0, 0, IBV_WC_RDMA_READ, 0, NULL, "where the program reads");
	ok(data_is(&m, 6, 0, 5000), "what it was told of");
	down(&m);
}

/* Errors */

/* @prepare has put a message of @len bytes at 0 */
static void hostile(struct matcher *m, uint32_t len, int status, const char *what)
{
	send_len(m, 0, len);
	sent(m, status);
	is_state(m->qp[1], IBV_QPS_ERR, what);
	qps_down(m);
	events_drop(&eb);
	qps_up(m, 0);
}

static void test_hostile(void)
{
	struct matcher m;

	up(&m);
	add_masked(&m, 1, 0, 0, 0, 5000, 0);
	put_tmh(at(&m, 0, 0), IBV_TMH_EAGER, 1);
	hostile(&m, TMH - 1, IBV_WC_REM_INV_REQ_ERR, "EAGER without all of its header");
	hostile(&m, 1, IBV_WC_REM_INV_REQ_ERR, "EAGER alone");
	put_tmh(at(&m, 0, 0), IBV_TMH_RNDV, 1);
	put_rvh(&m, at(&m, 0, 0), 4096, 10);
	hostile(&m, HDRS - 1, IBV_WC_REM_INV_REQ_ERR, "RNDV without all of its headers");
	hostile(&m, TMH, IBV_WC_REM_INV_REQ_ERR, "RNDV without an RVH");
	hostile(&m, 257, IBV_WC_REM_INV_REQ_ERR, "RNDV that is too long");
	hostile(&m, 100000, IBV_WC_REM_INV_REQ_ERR, "RNDV of many packets");
	put_tmh(at(&m, 0, 0), 4, 1);
	hostile(&m, 100, IBV_WC_REM_INV_REQ_ERR, "no such operation");
	put_tmh(at(&m, 0, 0), 255, 1);
	hostile(&m, 100, IBV_WC_REM_INV_REQ_ERR, "nor this");
	ok(!next_told(&m, &(struct told) {}, 0), "nobody hears of these");
	eager(&m, 0, 12, 50);
	told_is(&m, 1, 0, IBV_WC_TM_RECV, MATCH | VALID | IBV_WC_WITH_IMM, NULL,
		"the tag is there for the next");
	sent(&m, 0);

	add(&m, 2, 2, 0, 5000);
	put_tmh(at(&m, 0, 0), IBV_TMH_EAGER, 2);
	send_len(&m, 0, TMH + 5001);
	told_is(&m, 2, 0, IBV_WC_TM_RECV, MATCH, NULL, "EAGER that is longer than the buffer");
	told_is(&m, 2, IBV_WC_LOC_LEN_ERR, 0, 0, NULL, "fails");
	sent(&m, IBV_WC_REM_INV_REQ_ERR);
	qps_down(&m);
	qps_up(&m, 0);
	add(&m, 3, 3, 0, HDRS - 1);
	rndv(&m, 0, 3, 4096, HDRS);
	told_is(&m, 3, IBV_WC_LOC_LEN_ERR, 0, 0, NULL, "RNDV, and not even its headers fit");
	sent(&m, IBV_WC_REM_INV_REQ_ERR);
	down(&m);
}

static void rndv_wrong(struct matcher *m, uint64_t va, uint32_t rkey, uint32_t len, int status,
		       const char *what)
{
	struct ibv_rvh rvh = { .va = htobe64(va), .rkey = htobe32(rkey), .len = htobe32(len) };

	add(m, 3, 3, 0, 5000);
	put_tmh(at(m, 0, 0), IBV_TMH_RNDV, 3);
	memcpy(at(m, 0, TMH), &rvh, sizeof(rvh));
	send_len(m, 0, HDRS);
	told_is(m, 3, 0, IBV_WC_TM_RECV, MATCH | IBV_WC_WITH_IMM, NULL, NULL);
	told_is(m, 3, status, 0, 0, NULL, what);
	is_state(m->qp[1], IBV_QPS_ERR, "its queue pair");
	sent(m, IBV_WC_SUCCESS);
	qps_down(m);
	qps_up(m, 0);
}

static void test_wrong(void)
{
	struct ibv_ops_wr wr = {
		.opcode = IBV_WR_TAG_ADD,
		.tm.add = { .recv_wr_id = 4, .num_sge = 1, .tag = 4, .mask = UINT64_MAX },
	};
	struct matcher m;

	up(&m);
	rndv_wrong(&m, 4096, 0x12345, 100, IBV_WC_REM_ACCESS_ERR, "a key that is none");
	rndv_wrong(&m, (uintptr_t)at(&m, 0, MEM - 50), m.mr[0]->rkey, 100, IBV_WC_REM_ACCESS_ERR,
		   "memory beyond its region");
	wr.tm.add.sg_list = SGE(at(&m, 1, 0), 100, 0x54321);
	errno = op_post(&m, &wr);
	if (errno)
		die("TAG_ADD");
	rndv(&m, 0, 4, 4096, 100);
	told_is(&m, 4, 0, IBV_WC_TM_RECV, MATCH | IBV_WC_WITH_IMM, NULL, NULL);
	told_is(&m, 4, IBV_WC_LOC_PROT_ERR, 0, 0, NULL, "a tag whose own key is wrong");
	down(&m);
}

/* Rendezvous that are under way when their queue pair ends */
static void rndv_hang(struct matcher *m)
{
	unsigned int i;

	for (i = 0; i < 8; i++) {
		add(m, i, 100 + i, i * 1000, 1000);
		rndv(m, i * HDRS, 100 + i, 4096, 1000);
		sent(m, IBV_WC_SUCCESS);
		told_is(m, i, 0, IBV_WC_TM_RECV, MATCH | IBV_WC_WITH_IMM, NULL, NULL);
		/* without a request for FIN, the first goes no further */
		if (!i)
			told_is(m, i, 0, IBV_WC_TM_RECV, VALID, NULL, NULL);
	}
}

static void test_ends(void)
{
	struct ibv_async_event ev;
	struct matcher m;
	unsigned int i;

	up(&m);
	rndv_hang(&m);
	errno = qp_to(m.qp[1], IBV_QPS_ERR);
	if (errno)
		die("modify_qp");
	ok(event_wait(&eb, &ev, PATIENCE) && ev.event_type == IBV_EVENT_QP_LAST_WQE_REACHED,
	   "the end of a queue pair with rendezvous under way is told");
	for (i = 1; i < 8; i++)
		if (!told_is(&m, i, IBV_WC_WR_FLUSH_ERR, 0, 0, NULL, NULL))
			break;
	is(i, 8, "as are theirs");
	ok(!next_told(&m, &(struct told) {}, 0.1), "and nothing else");

	qps_down(&m);
	qps_up(&m, 0);
	rndv_hang(&m);
	errno = qp_to(m.qp[1], IBV_QPS_RESET);
	if (errno)
		die("modify_qp");
	ok(!next_told(&m, &(struct told) {}, 0.1), "RESET forgets them");
	qps_down(&m);
	qps_up(&m, 0);
	rndv_hang(&m);
	qps_down(&m);
	ok(!next_told(&m, &(struct told) {}, 0.1), "as does destruction");
	qps_up(&m, 0);
	fin_post(&m, 3);
	rndv_one(&m, 5000, 5000);
	down(&m);
}

/* Nobody polls */
static void test_overrun(void)
{
	struct ibv_ops_wr wr = {
		.opcode = IBV_WR_TAG_ADD,
		.tm.add = { .num_sge = 1 },
	};
	struct ibv_ops_wr sync = { .opcode = IBV_WR_TAG_SYNC, .flags = SIGNALED };
	struct matcher m;

	cq_entries = 1;
	up(&m);
	cq_entries = 4096;
	wr.tm.add.sg_list = SGE(at(&m, 1, 0), 5000, m.mr[1]->lkey);
	clear(&m, 0, 5000);
	is(op_post(&m, &wr) || op_post(&m, &sync), 0, "operations that fill the completion queue");
	eager(&m, 0, 1, 3000);
	event_is(&eb, IBV_EVENT_CQ_ERR, ibv_cq_ex_to_cq(m.cq), "a match that can't be told");
	event_is(&eb, IBV_EVENT_QP_FATAL, m.qp[1], "and its queue pair's event");
	is_state(m.qp[1], IBV_QPS_ERR, "its queue pair");
	ok(canary_check(at(&m, 1, 0), 5000) < 0, "and nothing is placed");
	is(op_post(&m, &wr) || op_post(&m, &sync), 0, "operations still work");
	down(&m);
}

/* A tag's buffer that is not there yet */
static void test_odp(void)
{
	struct matcher m;
	int i;

	if (!odp_there(&eb))
		return;
	up(&m);
	for (i = 0; i < 3; i++) {
		mr_drop(m.mr[1]);
		m.mr[1] = mr_make(&eb, MEM, IBV_ACCESS_ON_DEMAND);
		if (i == 0)
			eager_one(&m, 500, 600);
		else if (i == 1)
			eager_one(&m, 300000, 300000);
		else
			rndv_one(&m, 300000, 300000);
	}
	down(&m);
}

/*
 * It could not even wait for its memory, as b holds as much as it may, and something else comes
 * in its place: what is forged is all that a sends, so that nobody fills the gaps.
 */
#define SEND_FIRST	0x00
#define SEND_MIDDLE	0x01
#define SEND_ONLY	0x04
#define WRITE_ONLY_IMM	0x0b
#define FULL		8000	/* packets that are more than b may hold */

/* Ever more of @len bytes, none of them behind another, until one finds no room */
static bool fill(const struct pair *p, int fd, uint32_t *num, uint32_t len)
{
	const long long full = hw_counter(&eb, "rx_kept_dropped");
	const uint8_t body[4096] = {};

	while (*num < FULL && hw_counter(&eb, "rx_kept_dropped") == full)
		for (int i = 0; i < 16; i++)
			forge_pkt(fd, p, 0, SEND_MIDDLE, 0xfffff0 + 1 + 2 * (*num)++, body, len);
	return *num < FULL;
}

static void again_end(struct matcher *m)
{
	struct told t;

	qps_down(m);
	/* where all was too slow, it may have been taken after all */
	while (next_told(m, &t, 0))
		;
	events_drop(&eb);
	qps_up(m, 0);
}

/*
 * b holds as much as it may, and then the message of a tag, whose memory is not there, comes.
 * Return: false, with all ended, if what came first may have been dropped by then.
 */
static bool again_start(struct matcher *m, int fd, const struct pair *p, const uint8_t *body,
			const char *what)
{
	const double began = now();
	uint32_t num = 0;

	mr_drop(m->mr[1]);
	m->mr[1] = mr_make(&eb, MEM, IBV_ACCESS_ON_DEMAND);
	clear(m, 0, 1000);
	add(m, 77, 5, 0, 1000);
	ok(fill(p, fd, &num, 4096) && fill(p, fd, &num, 0), "b holds all that it may");
	forge_pkt(fd, p, 0, SEND_ONLY, 0xfffff0, body, 1000);
	if (now() - began < 0.8 * KEPT_AGE)
		return true;
	skip("this machine is too slow: what came first has aged", "%s", what);
	again_end(m);
	return false;
}

static void again(struct matcher *m, int fd, uint8_t opcode, const uint8_t *in_place, uint32_t len,
		  const char *what)
{
	struct pair p = { .e = { &ea, &eb }, .qp = { m->qp[0], m->qp[1] } };
	uint8_t body[1000] = {};
	double end;

	put_tmh(body, IBV_TMH_EAGER, 5);
	if (!again_start(m, fd, &p, body, what))
		return;
	/* as long as somebody brings the memory, what comes is dropped, too */
	end = now() + PATIENCE;
	do
		forge_pkt(fd, &p, 0, opcode, 0xfffff0, in_place, len);
	while (qp_state(m->qp[1]) != IBV_QPS_ERR && now() < end);
	is_state(m->qp[1], IBV_QPS_ERR, what);
	told_is(m, 77, IBV_WC_REM_INV_REQ_ERR, ANY, ANY, NULL, "the tag's request ends with it");
	again_end(m);
}

/* What is not told of as sent may be written to, and be sent so the second time */
static void again_rewritten(struct matcher *m, int fd)
{
	struct pair p = { .e = { &ea, &eb }, .qp = { m->qp[0], m->qp[1] } };
	uint8_t body[1000] = {};
	struct told t = {};
	double end;

	put_tmh(body, IBV_TMH_EAGER, 5);
	if (!again_start(m, fd, &p, body, "other bytes"))
		return;
	memset(body + TMH, 7, sizeof(body) - TMH);
	end = now() + PATIENCE;
	do
		forge_pkt(fd, &p, 0, SEND_ONLY, 0xfffff0, body, sizeof(body));
	while (!next_told(m, &t, 0.05) && now() < end);
	ok(t.wr_id == 77 && !t.status && t.flags == (MATCH | VALID) &&
	   t.len == sizeof(body) - TMH && !memcmp(at(m, 1, 0), body + TMH, t.len),
	   "the same message with other bytes is taken, and has these");
	again_end(m);
}

static void test_again(void)
{
	const uint32_t mtu = mtu_bytes(min(ea.port.active_mtu, eb.port.active_mtu));
	uint8_t same[4096] = {}, none[4096] = {};
	int fd = forger_on("a");
	struct matcher m;

	if (!odp_there(&eb))
		return;
	up(&m);
	put_tmh(same, IBV_TMH_EAGER, 5);
	again(&m, fd, SEND_ONLY, none, 12, "another message, without all of the header");
	again(&m, fd, SEND_ONLY, none, 4, "with next to nothing of it");
	again(&m, fd, SEND_ONLY, none, 0, "with nothing");
	again(&m, fd, SEND_FIRST, same, mtu, "the first packet of many");
	/* RETH, of no bytes and so without a key, and immediate data */
	again(&m, fd, WRITE_ONLY_IMM, none, 20, "a WRITE that takes a request");
	again_rewritten(&m, fd);
	down(&m);
	close(fd);
}

static const struct test tests[] = {
	{ .name = "eager", .fn = test_eager },
	{ .name = "order", .fn = test_order },
	{ .name = "unexpected", .fn = test_unexpected },
	{ .name = "not_ready", .fn = test_not_ready },
	{ .name = "delete", .fn = test_delete },
	{ .name = "race", .fn = test_race },
	{ .name = "refused", .fn = test_refused },
	{ .name = "rndv", .fn = test_rndv },
	{ .name = "left", .fn = test_left },
	{ .name = "hostile", .fn = test_hostile },
	{ .name = "wrong", .fn = test_wrong },
	{ .name = "ends", .fn = test_ends },
	{ .name = "overrun", .fn = test_overrun },
	{ .name = "odp", .fn = test_odp },
	{ .name = "again", .fn = test_again },
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
