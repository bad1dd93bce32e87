// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Fast registration (IBTA Vol.1, base memory management extensions) between two
 * consumers: b registers pages that lie apart, a is the peer that has their key.
 */
#include <linux/delay.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <rdma/rw.h>

#include "kverbs_test.h"

#define PAGES	7
#define HEAD	100		/* bytes of the first page that are not registered */
#define TAIL	777		/* bytes of the last page that are */
#define LEN	((PAGES - 1) * (u32)PAGE_SIZE - HEAD + TAIL)
#define ROUNDS	300
#define ACCESS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ)

/* Pages that lie apart, and those of them that a region is of. */
struct pages {
	struct page *page[PAGES];
	struct scatterlist sg[PAGES];
	u32 order;
	u32 len;
};

static void pages_free(struct pages *p)
{
	int i;

	for (i = 0; i < PAGES; i++)
		if (p->page[i])
			__free_pages(p->page[i], p->order);
}

static bool pages_alloc(struct pages *p, u32 order)
{
	const u32 size = PAGE_SIZE << order;
	int i;

	memset(p, 0, sizeof(*p));
	p->order = order;
	sg_init_table(p->sg, PAGES);
	/* those that are got one after the other may follow each other: the other way round */
	for (i = PAGES - 1; i >= 0; i--) {
		u32 from = i ? 0 : HEAD, to = i == PAGES - 1 ? TAIL : size;

		p->page[i] = alloc_pages(GFP_KERNEL, order);
		if (!p->page[i]) {
			pages_free(p);
			return false;
		}
		memset(page_address(p->page[i]), 0xee, size);
		sg_set_page(&p->sg[i], p->page[i], to - from, from);
		p->len += to - from;
	}
	return true;
}

static void pages_clear(struct pages *p)
{
	int i;

	for (i = 0; i < PAGES; i++)
		memset(page_address(p->page[i]), 0xee, PAGE_SIZE << p->order);
}

/* Byte @off of the registered ones. */
static u8 *pages_byte(struct pages *p, u32 off)
{
	const u32 size = PAGE_SIZE << p->order;

	off += HEAD;
	return (u8 *)page_address(p->page[off / size]) + off % size;
}

/* Is there the pattern from byte @off on, as it is from byte @from on, and no more? */
static bool pages_have(struct pages *p, u32 off, u32 from, u32 len)
{
	u32 i;

	for (i = 0; i < p->len; i++) {
		const u8 want = i - off < len ? pattern(from + i - off) : 0xee;

		if (*pages_byte(p, i) != want) {
			pr_info("kverbs: # byte %u is 0x%x, not 0x%x\n", i,
				*pages_byte(p, i), want);
			return false;
		}
	}
	return *(pages_byte(p, 0) - 1) == 0xee && *(pages_byte(p, p->len - 1) + 1) == 0xee;
}

static void pages_fill(struct pages *p)
{
	u32 i;

	for (i = 0; i < p->len; i++)
		*pages_byte(p, i) = pattern(i);
}

static bool map(struct side *s, struct ib_mr *mr, struct pages *p)
{
	return ib_dma_map_sg(s->dev, p->sg, PAGES, DMA_BIDIRECTIONAL) == PAGES &&
	       ib_map_mr_sg(mr, p->sg, PAGES, NULL, PAGE_SIZE << p->order) == PAGES &&
	       mr->length == p->len;
}

/* By the same key as before, or the next. */
static struct ib_reg_wr reg_request(struct ib_mr *mr, int access)
{
	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
	return (struct ib_reg_wr) {
		.wr = { .opcode = IB_WR_REG_MR },
		.mr = mr,
		.key = mr->rkey,
		.access = access,
	};
}

bool reg(struct side *s, struct ib_mr *mr, int access, enum ib_wc_status status)
{
	struct ib_reg_wr wr = reg_request(mr, access);

	return !post(s, &wr.wr) && op_wait(&s->send, status) &&
	       (status || s->send.wc.opcode == IB_WC_REG_MR);
}

bool local_inv(struct side *s, u32 rkey, enum ib_wc_status status)
{
	struct ib_send_wr wr = { .opcode = IB_WR_LOCAL_INV, .ex.invalidate_rkey = rkey };

	return !post(s, &wr) && op_wait(&s->send, status) &&
	       (status || s->send.wc.opcode == IB_WC_LOCAL_INV);
}

/* The peer's READ or WRITE of @len bytes at @off, from or to the start of its buffer. */
bool access_by(struct side *s, enum ib_wr_opcode opcode, u64 addr, u32 rkey, u32 len,
	       enum ib_wc_status status)
{
	struct ib_sge list = sge(s, 0, len);
	struct ib_rdma_wr wr = {
		.wr = { .opcode = opcode, .sg_list = &list, .num_sge = 1 },
		.remote_addr = addr,
		.rkey = rkey,
	};

	return !post(s, &wr.wr) && op_wait(&s->send, status);
}

static bool write_by(struct side *s, struct ib_mr *mr, enum ib_wc_status status)
{
	return access_by(s, IB_WR_RDMA_WRITE, mr->iova, mr->rkey, mr->length, status);
}

static bool send_inv(struct side *a, struct side *b, u32 rkey, enum ib_wc_status sent,
		     enum ib_wc_status received)
{
	struct ib_sge list = sge(a, 0, 10);
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND_WITH_INV,
		.sg_list = &list,
		.num_sge = 1,
		.ex.invalidate_rkey = rkey,
	};

	return !post_recv(b, 0, SIZE) && !post(a, &wr) && op_wait(&a->send, sent) &&
	       op_wait(&b->recv, received) &&
	       (received || (b->recv.wc.wc_flags == IB_WC_WITH_INVALIDATE &&
			     b->recv.wc.ex.invalidate_rkey == rkey && b->recv.wc.byte_len == 10));
}

/* A queue pair each for what ends in an error, which is the end of it. */
static void again(void)
{
	pair_down();
	if (pair_up(IB_QPT_RC))
		ok(false, "RC, again");
}

static void test_alloc(struct side *s)
{
	const struct ib_device_attr *attr = &s->dev->attrs;
	const u32 max = attr->max_fast_reg_page_list_len;
	struct ib_mr *mr;

	ok(attr->device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS && max >= 512 &&
	   attr->max_sge_rd >= 16 && attr->kernel_cap_flags & IBK_LOCAL_DMA_LKEY &&
	   ib_uses_virt_dma(s->dev), "what the device says of fast registration");
	ok(PTR_ERR(ib_alloc_mr_integrity(s->pd, 4, 4)) == -EOPNOTSUPP, "integrity is refused");
	ok(PTR_ERR(ib_alloc_mr(s->pd, IB_MR_TYPE_MEM_REG, max + 1)) == -EINVAL, "too many pages");
	mr = ib_alloc_mr(s->pd, IB_MR_TYPE_MEM_REG, max);
	ok(!IS_ERR(mr) && mr->lkey == mr->rkey && !ib_dereg_mr(mr), "as many as there may be");
}

static void test_map(struct side *s, struct ib_mr *mr, struct pages *p)
{
	struct ib_mr *few = ib_alloc_mr(s->pd, IB_MR_TYPE_MEM_REG, 4);
	unsigned int offset = 1000;
	const u64 first = (uintptr_t)pages_byte(p, 0);

	ok(map(s, mr, p) && mr->iova == first, "pages are mapped");
	ok(ib_map_mr_sg_zbva(mr, p->sg, PAGES, NULL, PAGE_SIZE) == PAGES && !mr->iova,
	   "zero-based");
	ok(ib_map_mr_sg(mr, p->sg, PAGES, &offset, PAGE_SIZE) == PAGES && !offset &&
	   mr->iova == first + 1000 && mr->length == p->len - 1000, "not from the start");
	ok(ib_map_mr_sg(mr, p->sg, PAGES, NULL, 3000) == -EINVAL, "pages of no power of two");
	/* an entry that does not end where a page does ends what fits */
	sg_dma_len(&p->sg[3]) -= 8;
	ok(ib_map_mr_sg(mr, p->sg, PAGES, NULL, PAGE_SIZE) == 4 &&
	   mr->length == 4 * PAGE_SIZE - HEAD - 8, "a list with a gap is mapped up to there");
	sg_dma_len(&p->sg[3]) += 8;
	offset = 0;
	ok(!IS_ERR(few) && ib_map_mr_sg(few, p->sg, PAGES, &offset, PAGE_SIZE) == 4 && !offset &&
	   few->length == 4 * PAGE_SIZE - HEAD, "more than the region has room for");
	if (!IS_ERR(few))
		ib_dereg_mr(few);
}

static bool read_back(struct side *a, struct ib_mr *mr)
{
	u32 i;

	memset(a->buf, 0, SIZE);
	if (!access_by(a, IB_WR_RDMA_READ, mr->iova, mr->rkey, mr->length, IB_WC_SUCCESS))
		return false;
	for (i = 0; i < mr->length; i++)
		if (a->buf[i] != pattern(i))
			return false;
	return true;
}

static void test_remote(struct side *a, struct side *b, struct ib_mr *mr, struct pages *p,
			const char *name)
{
	fill();
	pages_clear(p);
	ok(map(b, mr, p) && reg(b, mr, ACCESS, IB_WC_SUCCESS) &&
	   write_by(a, mr, IB_WC_SUCCESS) && pages_have(p, 0, 0, p->len), name);
	ok(read_back(a, mr), "READ of the same");
	ok(access_by(a, IB_WR_RDMA_WRITE, mr->iova + 3000, mr->rkey, 5000, IB_WC_SUCCESS),
	   "WRITE of a part");
	ok(local_inv(b, mr->rkey, IB_WC_SUCCESS), "LOCAL_INV");
}

/* One list: the region is there for what follows it, and comes at no other time. */
static void test_local(struct side *a, struct side *b, struct ib_mr *mr, struct pages *p)
{
	struct ib_send_wr inv = { .opcode = IB_WR_LOCAL_INV };
	struct ib_send_wr wr = { .opcode = IB_WR_SEND, .num_sge = 1 };
	struct ib_reg_wr first;
	struct ib_sge list;
	bool good;

	memset(a->buf, 0, SIZE);
	pages_fill(p);
	good = map(b, mr, p);
	first = reg_request(mr, 0);
	list = (struct ib_sge) { .addr = mr->iova, .length = mr->length, .lkey = mr->lkey };
	inv.ex.invalidate_rkey = mr->lkey;
	first.wr.next = &wr;
	wr.sg_list = &list;
	wr.next = &inv;
	op_init(&b->send);
	inv.wr_cqe = &b->send.cqe;
	inv.send_flags = IB_SEND_SIGNALED;
	ok(good && !post_recv(a, 0, SIZE) && !ib_post_send(b->qp, &first.wr, NULL) &&
	   op_wait(&b->send, IB_WC_SUCCESS) && op_wait(&a->recv, IB_WC_SUCCESS) &&
	   a->recv.wc.byte_len == p->len && a->buf[0] == pattern(0) &&
	   !memcmp(a->buf + PAGE_SIZE, pages_byte(p, PAGE_SIZE), 100) &&
	   a->buf[p->len - 1] == pattern(p->len - 1), "REG_MR, SEND and LOCAL_INV in one list");
	wr.next = NULL;
	ok(!post(b, &wr) && op_wait(&b->send, IB_WC_LOC_PROT_ERR), "the L_Key after that");
	again();

	fill();
	pages_clear(p);
	ok(map(b, mr, p) && reg(b, mr, IB_ACCESS_LOCAL_WRITE, IB_WC_SUCCESS), "no remote rights");
	ok(send_inv(a, b, mr->lkey, IB_WC_REM_ACCESS_ERR, IB_WC_LOC_ACCESS_ERR),
	   "what has no R_Key the peer does not invalidate");
	again();
	ok(write_by(a, mr, IB_WC_REM_ACCESS_ERR) && pages_have(p, 0, 0, 0), "nor does it write");
	again();
	ok(local_inv(b, mr->lkey, IB_WC_SUCCESS), "but its owner does");
}

static void test_invalidated(struct side *a, struct side *b, struct ib_mr *mr, struct pages *p)
{
	u32 old;

	pages_clear(p);
	ok(map(b, mr, p) && reg(b, mr, ACCESS, IB_WC_SUCCESS) &&
	   local_inv(b, mr->rkey, IB_WC_SUCCESS) && write_by(a, mr, IB_WC_REM_ACCESS_ERR) &&
	   pages_have(p, 0, 0, 0), "WRITE after LOCAL_INV");
	again();
	ok(reg(b, mr, ACCESS, IB_WC_SUCCESS) && local_inv(b, mr->rkey, IB_WC_SUCCESS) &&
	   access_by(a, IB_WR_RDMA_READ, mr->iova, mr->rkey, 100, IB_WC_REM_ACCESS_ERR),
	   "READ after LOCAL_INV");
	again();
	ok(local_inv(b, mr->rkey, IB_WC_SUCCESS) && reg(b, mr, ACCESS, IB_WC_SUCCESS) &&
	   write_by(a, mr, IB_WC_SUCCESS), "LOCAL_INV of what is not registered takes nothing away");
	ok(local_inv(b, mr->rkey ^ 1, IB_WC_SUCCESS) && write_by(a, mr, IB_WC_REM_ACCESS_ERR),
	   "LOCAL_INV by another of its keys does");
	again();
	pages_clear(p);

	fill();
	ok(reg(b, mr, ACCESS, IB_WC_SUCCESS) &&
	   send_inv(a, b, mr->rkey, IB_WC_SUCCESS, IB_WC_SUCCESS), "SEND_WITH_INV");
	ok(write_by(a, mr, IB_WC_REM_ACCESS_ERR) && pages_have(p, 0, 0, 0), "WRITE after that");
	again();
	ok(send_inv(a, b, mr->rkey, IB_WC_REM_ACCESS_ERR, IB_WC_LOC_ACCESS_ERR),
	   "SEND_WITH_INV of what is not registered");
	again();

	ok(reg(b, mr, ACCESS, IB_WC_SUCCESS) && local_inv(b, mr->rkey, IB_WC_SUCCESS),
	   "registered, and invalidated");
	old = mr->rkey;
	ok(reg(b, mr, ACCESS, IB_WC_SUCCESS) && mr->rkey != old &&
	   access_by(a, IB_WR_RDMA_READ, mr->iova, mr->rkey, 100, IB_WC_SUCCESS) &&
	   a->buf[99] == 0xee, "again, by another key");
	ok(access_by(a, IB_WR_RDMA_WRITE, mr->iova, old, 100, IB_WC_REM_ACCESS_ERR),
	   "WRITE by the stale key");
	again();
	ok(send_inv(a, b, old, IB_WC_REM_ACCESS_ERR, IB_WC_LOC_ACCESS_ERR),
	   "SEND_WITH_INV of the stale key");
	again();
	fill();
	ok(write_by(a, mr, IB_WC_SUCCESS) && pages_have(p, 0, 0, p->len),
	   "the new one is as good as ever");
	ok(reg(b, mr, ACCESS, IB_WC_MW_BIND_ERR), "REG_MR of what is registered");
	/* which has given the object another key, and not the registration */
	ib_update_fast_reg_key(mr, mr->rkey - 1);
	again();
	ok(local_inv(b, mr->rkey, IB_WC_SUCCESS), "and so it stays");
}

static void test_rights(struct side *a, struct side *b, struct ib_mr *mr, struct pages *p)
{
	fill();
	pages_clear(p);
	ok(map(b, mr, p) && reg(b, mr, IB_ACCESS_REMOTE_READ, IB_WC_SUCCESS) &&
	   write_by(a, mr, IB_WC_REM_ACCESS_ERR) && pages_have(p, 0, 0, 0),
	   "WRITE without the right");
	again();
	ok(local_inv(b, mr->rkey, IB_WC_SUCCESS) &&
	   reg(b, mr, IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE, IB_WC_SUCCESS) &&
	   access_by(a, IB_WR_RDMA_READ, mr->iova, mr->rkey, 100, IB_WC_REM_ACCESS_ERR),
	   "READ without the right");
	again();
	ok(access_by(a, IB_WR_RDMA_WRITE, mr->iova + 1, mr->rkey, mr->length, IB_WC_REM_ACCESS_ERR),
	   "beyond its end");
	again();
	ok(access_by(a, IB_WR_RDMA_WRITE, mr->iova - 1, mr->rkey, 2, IB_WC_REM_ACCESS_ERR) &&
	   pages_have(p, 0, 0, 0), "before its start");
	again();
	ok(local_inv(b, mr->rkey, IB_WC_SUCCESS), "LOCAL_INV");
}

static void test_refused(struct side *b, struct ib_mr *mr)
{
	struct ib_reg_wr wr = reg_request(mr, IB_ACCESS_REMOTE_WRITE);
	const struct ib_send_wr *bad = NULL;

	ok(ib_post_send(b->qp, &wr.wr, &bad) == -EINVAL && bad == &wr.wr,
	   "REMOTE_WRITE without LOCAL_WRITE");
	wr.access = IB_ACCESS_ON_DEMAND;
	ok(ib_post_send(b->qp, &wr.wr, &bad) == -EOPNOTSUPP, "on demand");
	wr.access = ACCESS;
	wr.key += 0x100;
	ok(ib_post_send(b->qp, &wr.wr, &bad) == -EINVAL, "another region's key");
	wr.wr.opcode = IB_WR_REG_MR_INTEGRITY;
	ok(ib_post_send(b->qp, &wr.wr, &bad) == -EOPNOTSUPP, "REG_MR_INTEGRITY");
	wr = reg_request(mr, ACCESS);
	mr->length += PAGE_SIZE;
	ok(!post(b, &wr.wr) && op_wait(&b->send, IB_WC_MW_BIND_ERR), "longer than its pages");
	mr->length -= PAGE_SIZE;
	again();
}

static void test_domains(struct side *a, struct side *b, struct pages *p)
{
	struct ib_pd *pd = b->pd, *other = ib_alloc_pd(b->dev, 0);
	struct ib_mr *mr;
	u64 iova;
	u32 rkey;

	if (IS_ERR(other)) {
		ok(false, "another PD");
		return;
	}
	mr = ib_alloc_mr(other, IB_MR_TYPE_MEM_REG, PAGES);
	fill();
	pages_clear(p);
	ok(!IS_ERR(mr) && map(b, mr, p) && reg(b, mr, ACCESS, IB_WC_MW_BIND_ERR),
	   "REG_MR of another PD's");
	b->pd = other;
	again();
	ok(reg(b, mr, ACCESS, IB_WC_SUCCESS), "by a queue pair of its own");
	b->pd = pd;
	again();
	ok(write_by(a, mr, IB_WC_REM_ACCESS_ERR) && pages_have(p, 0, 0, 0), "WRITE, another PD");
	again();
	ok(send_inv(a, b, mr->rkey, IB_WC_REM_ACCESS_ERR, IB_WC_LOC_ACCESS_ERR),
	   "SEND_WITH_INV, another PD");
	again();
	ok(local_inv(b, mr->rkey, IB_WC_MW_BIND_ERR), "LOCAL_INV, another PD");
	again();
	b->pd = other;
	again();
	ok(write_by(a, mr, IB_WC_SUCCESS) && pages_have(p, 0, 0, p->len),
	   "and it is there all the time");
	iova = mr->iova;
	rkey = mr->rkey;
	ok(!ib_dereg_mr(mr) &&
	   access_by(a, IB_WR_RDMA_WRITE, iova, rkey, 100, IB_WC_REM_ACCESS_ERR),
	   "ib_dereg_mr() ends it");
	b->pd = pd;
	again();
	ib_dealloc_pd(other);
}

/* What a drained queue pair had ended before ib_drain_qp() returned. */
static void test_drain(struct side *b, struct ib_mr *mr)
{
	struct ib_reg_wr wr = reg_request(mr, ACCESS);
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	ok(!ib_modify_qp(b->qp, &attr, IB_QP_STATE) && !post_recv(b, 0, 1) && !post(b, &wr.wr),
	   "posted in ERR");
	ib_drain_qp(b->qp);
	ok(try_wait_for_completion(&b->recv.done) && b->recv.wc.status == IB_WC_WR_FLUSH_ERR &&
	   try_wait_for_completion(&b->send.done) && b->send.wc.status == IB_WC_WR_FLUSH_ERR,
	   "and flushed when it is drained");
	again();
	ok(reg(b, mr, ACCESS, IB_WC_SUCCESS) && local_inv(b, mr->rkey, IB_WC_SUCCESS),
	   "a registration that was flushed is none");
}

/*
 * Rounds of a consumer whose completions drive it, in whatever context they come: b
 * registers pages and tells the peer, which writes and invalidates them.
 */
struct round {
	struct ib_cqe told;
	struct ib_cqe invalidated;
	struct ib_cqe sent;
	struct ib_mr *mr;
	struct pages *pages;
	struct ib_reg_wr reg;
	struct completion done;
	int left;
	bool good;
};

struct offer {
	u64 iova;
	u32 rkey;
	u32 from;
};

static struct round round;

static void round_end(bool good)
{
	round.good = good;
	complete(&round.done);
}

static void round_fails(const char *what, int err)
{
	pr_info("kverbs: # round %d: %s: %d\n", round.left, what, err);
	round_end(false);
}

static void round_sent(struct ib_cq *cq, struct ib_wc *wc)
{
	if (wc->status && wc->status != IB_WC_WR_FLUSH_ERR)
		round_fails("sent", wc->status);
}

static int round_start(struct side *b)
{
	struct ib_sge list = sge(b, 0, 100);
	struct ib_recv_wr recv = { .wr_cqe = &round.invalidated, .sg_list = &list, .num_sge = 1 };
	struct offer offer = { .from = round.left };
	struct ib_sge told = { .addr = (uintptr_t)&offer, .length = sizeof(offer) };
	struct ib_send_wr wr = {
		.wr_cqe = &round.sent,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_INLINE | IB_SEND_SIGNALED,
		.sg_list = &told,
		.num_sge = 1,
	};

	pages_clear(round.pages);
	if (!map(b, round.mr, round.pages))
		return -EIO;
	round.reg = reg_request(round.mr, ACCESS);
	round.reg.wr.wr_cqe = &round.sent;
	round.reg.wr.next = &wr;
	offer.iova = round.mr->iova;
	offer.rkey = round.mr->rkey;
	return ib_post_recv(b->qp, &recv, NULL) ?: ib_post_send(b->qp, &round.reg.wr, NULL);
}

static int round_wait(struct side *a)
{
	struct ib_sge list = sge(a, SIZE - sizeof(struct offer), sizeof(struct offer));
	struct ib_recv_wr recv = { .wr_cqe = &round.told, .sg_list = &list, .num_sge = 1 };

	return ib_post_recv(a->qp, &recv, NULL);
}

/* The peer: it writes to what it was told of, and gives it back. */
static void round_told(struct ib_cq *cq, struct ib_wc *wc)
{
	struct side *a = &sides[0];
	const struct offer offer = *(struct offer *)(a->buf + SIZE - sizeof(offer));
	struct ib_sge list = sge(a, offer.from, LEN);
	struct ib_send_wr inv = {
		.wr_cqe = &round.sent,
		.opcode = IB_WR_SEND_WITH_INV,
		.send_flags = IB_SEND_SIGNALED,
		.ex.invalidate_rkey = offer.rkey,
	};
	struct ib_rdma_wr wr = {
		.wr = {
			.wr_cqe = &round.sent,
			.opcode = IB_WR_RDMA_WRITE,
			.sg_list = &list,
			.num_sge = 1,
			.next = &inv,
		},
		.remote_addr = offer.iova,
		.rkey = offer.rkey,
	};

	int err;

	if (wc->status == IB_WC_WR_FLUSH_ERR)
		return;
	if (wc->status) {
		round_fails("told", wc->status);
		return;
	}
	err = round_wait(a) ?: ib_post_send(a->qp, &wr.wr, NULL);
	if (err)
		round_fails("writing", err);
}

static void round_invalidated(struct ib_cq *cq, struct ib_wc *wc)
{
	int err;

	if (wc->status == IB_WC_WR_FLUSH_ERR)
		return;
	if (wc->status || wc->wc_flags != IB_WC_WITH_INVALIDATE ||
	    wc->ex.invalidate_rkey != round.mr->rkey) {
		round_fails("invalidated", wc->status);
	} else if (!pages_have(round.pages, 0, round.left, LEN)) {
		round_fails("other bytes", 0);
	} else if (!--round.left) {
		round_end(true);
	} else {
		err = round_start(&sides[1]);
		if (err)
			round_fails("registering", err);
	}
}

static void test_rounds(struct side *a, struct side *b, struct ib_mr *mr, struct pages *p)
{
	fill();
	round = (struct round) {
		.told.done = round_told,
		.invalidated.done = round_invalidated,
		.sent.done = round_sent,
		.mr = mr,
		.pages = p,
		.left = ROUNDS,
	};
	init_completion(&round.done);
	ok(!round_wait(a) && !round_start(b) && wait_done(&round.done) && round.good,
	   "registered, written and invalidated by completion handlers");
	if (round.left)
		pr_info("kverbs: # %d rounds are left\n", round.left);
	again();
}

/* rdma_rw: the list as such, or with @mrs by way of regions, which it uses again unseen. */
static void test_rw(struct side *a, struct side *b, struct pages *p, bool mrs)
{
	static struct rdma_rw_ctx ctx;
	struct op *op = &b->send;
	bool good = true;
	int i, n;

	/* what makes it take regions to READ, on a device whose lists were short */
	b->dev->attrs.max_sgl_rd = mrs;
	b->rdma_ctxs = 4;
	again();
	for (i = 0; i < 20 && good; i++) {
		fill();
		pages_clear(p);
		op_init(op);
		n = rdma_rw_ctx_init(&ctx, b->qp, 1, p->sg, PAGES, 0, (uintptr_t)a->buf,
				     a->pd->unsafe_global_rkey, DMA_FROM_DEVICE);
		good = n > 0 && !rdma_rw_ctx_post(&ctx, b->qp, 1, &op->cqe, NULL) &&
		       op_wait(op, IB_WC_SUCCESS) && pages_have(p, 0, 0, p->len);
		if (n > 0)
			rdma_rw_ctx_destroy(&ctx, b->qp, 1, p->sg, PAGES, DMA_FROM_DEVICE);
	}
	ok(good, mrs ? "rdma_rw, READs by regions" : "rdma_rw, READs");

	pages_fill(p);
	memset(a->buf, 0, SIZE);
	op_init(op);
	n = rdma_rw_ctx_init(&ctx, b->qp, 1, p->sg, PAGES, 0, (uintptr_t)a->buf,
			     a->pd->unsafe_global_rkey, DMA_TO_DEVICE);
	good = n > 0 && !rdma_rw_ctx_post(&ctx, b->qp, 1, &op->cqe, NULL) &&
	       op_wait(op, IB_WC_SUCCESS);
	for (i = 0; good && i < p->len; i++)
		good = a->buf[i] == pattern(i);
	if (n > 0)
		rdma_rw_ctx_destroy(&ctx, b->qp, 1, p->sg, PAGES, DMA_TO_DEVICE);
	ok(good, "rdma_rw, WRITEs");
	b->dev->attrs.max_sgl_rd = 0;
	b->rdma_ctxs = 0;
	again();
}

/* As rdma_rw does: mapped before it is invalidated, which goes with the next REG_MR. */
static void test_ahead(struct side *a, struct side *b, struct ib_mr *mr, struct pages *p,
		       struct pages *next)
{
	struct ib_send_wr inv = { .opcode = IB_WR_LOCAL_INV };
	struct ib_reg_wr wr;
	u64 iova;
	bool good;

	fill();
	pages_clear(p);
	pages_clear(next);
	good = map(b, mr, p) && reg(b, mr, ACCESS, IB_WC_SUCCESS);
	iova = mr->iova;
	ok(good && map(b, mr, next) &&
	   access_by(a, IB_WR_RDMA_WRITE, iova, mr->rkey, p->len, IB_WC_SUCCESS) &&
	   pages_have(p, 0, 0, p->len) && pages_have(next, 0, 0, 0),
	   "what is mapped next is not written to before");
	inv.ex.invalidate_rkey = mr->rkey;
	wr = reg_request(mr, ACCESS);
	inv.next = &wr.wr;
	op_init(&b->send);
	wr.wr.wr_cqe = &b->send.cqe;
	wr.wr.send_flags = IB_SEND_SIGNALED;
	ok(!ib_post_send(b->qp, &inv, NULL) && op_wait(&b->send, IB_WC_SUCCESS) &&
	   write_by(a, mr, IB_WC_SUCCESS) && pages_have(next, 0, 0, next->len) &&
	   local_inv(b, mr->rkey, IB_WC_SUCCESS), "LOCAL_INV and REG_MR in one list");
}

/* What is before a LOCAL_INV may use the key until it is complete. */
static void test_behind(struct side *a, struct side *b, struct ib_mr *mr, struct pages *p)
{
	struct ib_send_wr inv = { .opcode = IB_WR_LOCAL_INV };
	struct ib_rdma_wr wr = {
		.wr = { .opcode = IB_WR_RDMA_READ, .num_sge = 1, .next = &inv },
		.remote_addr = (uintptr_t)a->buf,
		.rkey = a->pd->unsafe_global_rkey,
	};
	struct ib_sge list;
	bool good;

	fill();
	pages_clear(p);
	good = map(b, mr, p) && reg(b, mr, IB_ACCESS_LOCAL_WRITE, IB_WC_SUCCESS);
	list = (struct ib_sge) { .addr = mr->iova, .length = mr->length, .lkey = mr->lkey };
	wr.wr.sg_list = &list;
	inv.ex.invalidate_rkey = mr->lkey;
	op_init(&b->send);
	inv.wr_cqe = &b->send.cqe;
	inv.send_flags = IB_SEND_SIGNALED;
	ok(good && !ib_post_send(b->qp, &wr.wr, NULL) && op_wait(&b->send, IB_WC_SUCCESS) &&
	   pages_have(p, 0, 0, p->len), "READ into a region, and LOCAL_INV of it behind that");
}

/*
 * And what names no such key has a LOCAL_INV behind it done at once, complete or not: the peer, by
 * another queue pair, has no right any more.
 */
static void test_prompt(struct side *a, struct side *b, struct ib_mr *mr, struct pages *p)
{
	struct ib_qp *other[2] = { a->qp, b->qp };
	struct ib_send_wr inv = { .opcode = IB_WR_LOCAL_INV };
	struct ib_send_wr wr = { .opcode = IB_WR_SEND, .next = &inv };
	bool good;

	fill();
	pages_clear(p);
	good = map(b, mr, p) && reg(b, mr, ACCESS, IB_WC_SUCCESS);
	if (pair_up(IB_QPT_RC)) {
		ok(false, "a queue pair more");
		return;
	}
	inv.ex.invalidate_rkey = mr->lkey;
	op_init(&b->send);
	inv.wr_cqe = &b->send.cqe;
	inv.send_flags = IB_SEND_SIGNALED;
	/* there is no receive request for it */
	ok(good && !ib_post_send(b->qp, &wr, NULL), "LOCAL_INV behind a SEND that has to wait");
	/* there, what is posted leaves by a task, and this thread may be elsewhere by then */
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		msleep(200);
	swap(a->qp, other[0]);
	ok(write_by(a, mr, IB_WC_REM_ACCESS_ERR) && pages_have(p, 0, 0, 0), "WRITE by that key");
	swap(a->qp, other[0]);
	ok(!try_wait_for_completion(&b->send.done) && !post_recv(a, 0, 0) &&
	   op_wait(&a->recv, IB_WC_SUCCESS) && op_wait(&b->send, IB_WC_SUCCESS), "in their order");
	pair_down();
	a->qp = other[0];
	b->qp = other[1];
	again();
}

#define SETS 5		/* of three requests, in a list */
#define LISTS 200

/* A list for each of many WRITEs has a key of its own, as those of storage do. */
static void test_lists(struct side *a, struct side *b, struct ib_mr *mr, struct pages *p)
{
	struct ib_sge list = sge(b, 0, 4096);
	struct ib_rdma_wr write[SETS];
	struct ib_send_wr inv[SETS];
	struct ib_reg_wr reg[SETS];
	ktime_t begin;
	bool good;
	int i, n;

	fill();
	pages_clear(p);
	memset(b->buf, 0x5a, SIZE);
	good = map(b, mr, p);
	for (i = 0; i < SETS; i++) {
		reg[i] = reg_request(mr, ACCESS);
		write[i] = write_to(a, &list, a->pd->unsafe_global_rkey);
		inv[i] = (struct ib_send_wr) { .opcode = IB_WR_LOCAL_INV };
		inv[i].ex.invalidate_rkey = mr->rkey;
		reg[i].wr.next = &write[i].wr;
		write[i].wr.next = &inv[i];
		inv[i].next = i + 1 < SETS ? &reg[i + 1].wr : NULL;
	}
	inv[SETS - 1].wr_cqe = &b->send.cqe;
	inv[SETS - 1].send_flags = IB_SEND_SIGNALED;
	begin = ktime_get();
	for (n = 0; n < LISTS && good; n++) {
		op_init(&b->send);
		good = !ib_post_send(b->qp, &reg[0].wr, NULL) && op_wait(&b->send, IB_WC_SUCCESS);
	}
	pr_info("kverbs: # %d lists of %d in %lld us\n", LISTS, SETS, ktime_us_delta(ktime_get(), begin));
	ok(good && !memcmp(a->buf, b->buf, 4096), "lists of REG_MR, WRITE, LOCAL_INV");
}

static void test_sizes(struct side *a, struct side *b, struct ib_mr *mr, struct pages *p)
{
	struct pages large;

	test_remote(a, b, mr, p, "WRITE to pages that lie apart");
	ok(ib_map_mr_sg(mr, p->sg, PAGES, NULL, PAGE_SIZE / 2) == PAGES, "mapped as halves");
	fill();
	pages_clear(p);
	ok(reg(b, mr, ACCESS, IB_WC_SUCCESS) && write_by(a, mr, IB_WC_SUCCESS) &&
	   pages_have(p, 0, 0, p->len) && local_inv(b, mr->rkey, IB_WC_SUCCESS), "and written");
	ok(ib_map_mr_sg_zbva(mr, p->sg, PAGES, NULL, PAGE_SIZE) == PAGES, "zero-based");
	pages_clear(p);
	ok(reg(b, mr, ACCESS, IB_WC_SUCCESS) && write_by(a, mr, IB_WC_SUCCESS) &&
	   pages_have(p, 0, 0, p->len) && local_inv(b, mr->rkey, IB_WC_SUCCESS), "and written");
	if (!pages_alloc(&large, 1)) {
		ok(false, "large pages");
		return;
	}
	test_remote(a, b, mr, &large, "WRITE to larger pages");
	test_ahead(a, b, mr, p, &large);
	pages_free(&large);
}

void test_fastreg(struct side *a, struct side *b)
{
	struct ib_mr *mr = ib_alloc_mr(b->pd, IB_MR_TYPE_MEM_REG, 2 * PAGES);
	static struct pages pages;

	if (IS_ERR(mr) || !pages_alloc(&pages, 0) || pair_up(IB_QPT_RC)) {
		ok(false, "fast registration");
		return;
	}
	test_alloc(b);
	test_map(b, mr, &pages);
	test_sizes(a, b, mr, &pages);
	test_behind(a, b, mr, &pages);
	test_prompt(a, b, mr, &pages);
	test_lists(a, b, mr, &pages);
	test_local(a, b, mr, &pages);
	test_invalidated(a, b, mr, &pages);
	test_rights(a, b, mr, &pages);
	test_refused(b, mr);
	test_domains(a, b, &pages);
	test_drain(b, mr);
	test_rounds(a, b, mr, &pages);
	test_rw(a, b, &pages, false);
	test_rw(a, b, &pages, true);
	pair_down();
	ok(!ib_dereg_mr(mr), "ib_dereg_mr()");
	pages_free(&pages);
}

/* Who writes by a key that is none any more is not told so, and goes on. */
void test_fastreg_uc(struct side *a, struct side *b)
{
	struct ib_mr *mr = ib_alloc_mr(b->pd, IB_MR_TYPE_MEM_REG, PAGES);
	static struct pages pages;
	struct ib_send_wr wr = { .opcode = IB_WR_SEND, .num_sge = 1 };
	struct ib_sge list;
	u32 i;

	if (IS_ERR(mr) || !pages_alloc(&pages, 0) || pair_up(IB_QPT_UC)) {
		ok(false, "UC: fast registration");
		return;
	}
	fill();
	ok(map(b, mr, &pages) && reg(b, mr, ACCESS, IB_WC_SUCCESS) &&
	   write_by(a, mr, IB_WC_SUCCESS) && tell(a, b) && pages_have(&pages, 0, 0, pages.len),
	   "UC: REG_MR, and WRITE to it");

	memset(a->buf, 0, SIZE);
	pages_fill(&pages);
	list = (struct ib_sge) { .addr = mr->iova, .length = mr->length, .lkey = mr->lkey };
	wr.sg_list = &list;
	ok(!post_recv(a, 0, SIZE) && !post(b, &wr) && op_wait(&b->send, IB_WC_SUCCESS) &&
	   op_wait(&a->recv, IB_WC_SUCCESS) && a->recv.wc.byte_len == pages.len, "UC: SEND of it");
	for (i = 0; i < pages.len && a->buf[i] == pattern(i); i++)
		;
	ok(i == pages.len, "every byte");

	fill();
	pages_clear(&pages);
	ok(local_inv(b, mr->rkey, IB_WC_SUCCESS) && write_by(a, mr, IB_WC_SUCCESS) &&
	   tell(a, b) && pages_have(&pages, 0, 0, 0), "UC: WRITE after LOCAL_INV is dropped");
	ok(reg(b, mr, IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ, IB_WC_SUCCESS) &&
	   write_by(a, mr, IB_WC_SUCCESS) && tell(a, b) && pages_have(&pages, 0, 0, 0),
	   "UC: and so is one without the right");
	ok(local_inv(b, mr->rkey, IB_WC_SUCCESS) && reg(b, mr, ACCESS, IB_WC_SUCCESS) &&
	   write_by(a, mr, IB_WC_SUCCESS) && tell(a, b) && pages_have(&pages, 0, 0, pages.len),
	   "UC: registered again");
	ok(reg(b, mr, ACCESS, IB_WC_MW_BIND_ERR), "UC: REG_MR of what is registered");
	pair_down();
	ok(!ib_dereg_mr(mr), "UC: ib_dereg_mr()");
	pages_free(&pages);
}
