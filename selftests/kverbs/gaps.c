// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Fast registration of lists with gaps (IB_MR_TYPE_SG_GAPS): b registers pieces that begin and
 * end anywhere, a is the peer that has their key.
 */
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "kverbs_test.h"

#define PAGES	7
#define ACCESS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
		 IB_ACCESS_REMOTE_ATOMIC)

/* Of one byte, that follow each other or not, with words that they cut in two, and of a whole page */
static const struct {
	u32 page;
	u32 from;
	u32 len;
} pieces[] = {
	{ 0, 101, 1 }, { 1, 0, 13 }, { 1, 13, 700 }, { 3, 4095, 1 }, { 2, 3, 4090 },
	{ 4, 0, 4096 }, { 5, 8, 11 }, { 5, 2000, 1029 }, { 6, 8, 20 }, { 0, 1024, 24 },
};

#define PIECES	((u32)ARRAY_SIZE(pieces))

struct gaps {
	u8 *mem;
	u8 *want;
	struct scatterlist sg[ARRAY_SIZE(pieces)];
	u32 len;
};

static void gaps_free(struct gaps *g)
{
	kfree(g->mem);
	kfree(g->want);
}

static bool gaps_alloc(struct gaps *g)
{
	u32 i;

	g->mem = kmalloc(PAGES * PAGE_SIZE, GFP_KERNEL);
	g->want = kmalloc(PAGES * PAGE_SIZE, GFP_KERNEL);
	if (!g->mem || !g->want)
		return false;
	sg_init_table(g->sg, PIECES);
	g->len = 0;
	for (i = 0; i < PIECES; i++) {
		sg_set_buf(&g->sg[i], g->mem + pieces[i].page * PAGE_SIZE + pieces[i].from,
			   pieces[i].len);
		g->len += pieces[i].len;
	}
	return true;
}

/* Where byte @off of the list is. */
static u8 *gaps_byte(struct gaps *g, u8 *mem, u32 off)
{
	u32 i;

	for (i = 0; off >= pieces[i].len; i++)
		off -= pieces[i].len;
	return mem + pieces[i].page * PAGE_SIZE + pieces[i].from + off;
}

static void gaps_clear(struct gaps *g)
{
	memset(g->mem, 0xee, PAGES * PAGE_SIZE);
	memset(g->want, 0xee, PAGES * PAGE_SIZE);
}

/* Bytes @off and on are to be what a's buffer has from its start. */
static void gaps_expect(struct gaps *g, u32 off, u32 len)
{
	u32 i;

	for (i = 0; i < len; i++)
		*gaps_byte(g, g->want, off + i) = pattern(i);
}

/* Those, and what lies between the pieces. */
static bool gaps_as_expected(struct gaps *g)
{
	return !memcmp(g->mem, g->want, PAGES * PAGE_SIZE);
}

static bool map_all(struct side *s, struct ib_mr *mr, struct gaps *g)
{
	return ib_dma_map_sg(s->dev, g->sg, PIECES, DMA_BIDIRECTIONAL) == PIECES &&
	       ib_map_mr_sg(mr, g->sg, PIECES, NULL, PAGE_SIZE) == PIECES &&
	       mr->length == g->len && mr->iova == (uintptr_t)gaps_byte(g, g->mem, 0);
}

static bool write_all(struct side *s, struct ib_mr *mr)
{
	return access_by(s, IB_WR_RDMA_WRITE, mr->iova, mr->rkey, mr->length, IB_WC_SUCCESS);
}

static void again(void)
{
	pair_down();
	if (pair_up(IB_QPT_RC))
		ok(false, "gaps: RC, again");
}

static void test_map(struct side *peer, struct side *s, struct ib_mr *mr, struct gaps *g)
{
	struct ib_mr *few = ib_alloc_mr(s->pd, IB_MR_TYPE_SG_GAPS, 3);
	unsigned int offset = 0;
	u32 i;

	ok(s->dev->attrs.kernel_cap_flags & IBK_SG_GAPS_REG && map_all(s, mr, g),
	   "gaps: pieces are mapped");
	ok(ib_map_mr_sg_zbva(mr, g->sg, PIECES, NULL, 3000) == PIECES && !mr->iova,
	   "gaps: zero-based, and whatever the page size");
	offset = 8;
	ok(ib_map_mr_sg(mr, g->sg + 1, PIECES - 1, &offset, PAGE_SIZE) == PIECES - 1 && !offset &&
	   mr->length == g->len - 1 - 8 && mr->iova == (uintptr_t)gaps_byte(g, g->mem, 9),
	   "gaps: not from the start");
	fill();
	gaps_clear(g);
	for (i = 0; i < mr->length; i++)
		*gaps_byte(g, g->want, 9 + i) = pattern(i);
	ok(reg(s, mr, ACCESS, IB_WC_SUCCESS) && write_all(peer, mr) && gaps_as_expected(g) &&
	   local_inv(s, mr->rkey, IB_WC_SUCCESS), "gaps: WRITE to that");
	offset = 14;
	ok(ib_map_mr_sg(mr, g->sg + 1, PIECES - 1, &offset, PAGE_SIZE) == -EINVAL &&
	   ib_map_mr_sg(mr, g->sg, 0, NULL, PAGE_SIZE) == -EINVAL,
	   "gaps: from beyond the first, and none at all");
	/* which leaves nothing of what was mapped before */
	ok(mr->length && reg(s, mr, ACCESS, IB_WC_MW_BIND_ERR), "gaps: registered after that");
	again();
	ok(!IS_ERR(few) && ib_map_mr_sg(few, g->sg, PIECES, NULL, PAGE_SIZE) == 3 &&
	   few->length == 714 && !ib_dereg_mr(few), "gaps: more than the region has room for");
}

static bool read_back(struct side *a, struct ib_mr *mr, struct gaps *g)
{
	u32 i;

	memset(a->buf, 0, SIZE);
	if (!access_by(a, IB_WR_RDMA_READ, mr->iova, mr->rkey, g->len, IB_WC_SUCCESS))
		return false;
	for (i = 0; i < g->len; i++)
		if (a->buf[i] != *gaps_byte(g, g->want, i))
			return false;
	return true;
}

/* Parts of all lengths up to two of the small pieces, wherever they begin. */
static void test_parts(struct side *a, struct ib_mr *mr, struct gaps *g)
{
	bool good = true;
	u32 off, len;

	for (len = 1; good && len < 40; len += 3) {
		for (off = 0; good && off + len <= g->len; off += off < 800 ? 7 : 211) {
			gaps_expect(g, off, len);
			good = access_by(a, IB_WR_RDMA_WRITE, mr->iova + off, mr->rkey, len,
					 IB_WC_SUCCESS) && gaps_as_expected(g);
		}
	}
	ok(good, "gaps: parts of it are where they belong");
	gaps_expect(g, g->len - 30, 30);
	ok(access_by(a, IB_WR_RDMA_WRITE, mr->iova + g->len - 30, mr->rkey, 30, IB_WC_SUCCESS) &&
	   gaps_as_expected(g) && read_back(a, mr, g), "gaps: up to the last byte, and READ of all");
}

static bool fetch_add(struct side *a, struct ib_mr *mr, u32 off, enum ib_wc_status status)
{
	struct ib_sge list = sge(a, 0, sizeof(u64));
	struct ib_atomic_wr wr = {
		.wr = { .opcode = IB_WR_ATOMIC_FETCH_AND_ADD, .sg_list = &list, .num_sge = 1 },
		.remote_addr = mr->iova + off,
		.compare_add = 5,
		.rkey = mr->rkey,
	};

	return !post(a, &wr.wr) && op_wait(&a->send, status);
}

/* The list's last two pieces, 20 and 24 bytes: a word has to be in one of them. */
static void test_atomic(struct side *a, struct side *b, struct ib_mr *mr, struct gaps *g)
{
	u64 *word = (u64 *)(g->mem + 6 * PAGE_SIZE + 8);

	gaps_clear(g);
	*word = 37;
	ok(ib_map_mr_sg_zbva(mr, g->sg + PIECES - 2, 2, NULL, PAGE_SIZE) == 2 && mr->length == 44 &&
	   reg(b, mr, ACCESS, IB_WC_SUCCESS) && fetch_add(a, mr, 0, IB_WC_SUCCESS) && *word == 42,
	   "gaps: FETCH_ADD");
	*word = 0xeeeeeeeeeeeeeeeeULL;
	ok(fetch_add(a, mr, 16, IB_WC_REM_ACCESS_ERR) && gaps_as_expected(g),
	   "gaps: FETCH_ADD of a word in two pieces");
	again();
	ok(local_inv(b, mr->rkey, IB_WC_SUCCESS), "gaps: LOCAL_INV");
}

static bool sent_and_received(struct side *a, struct side *b, struct ib_sge *from,
			      struct ib_sge *to)
{
	struct ib_send_wr wr = { .opcode = IB_WR_SEND, .sg_list = from, .num_sge = 1 };
	struct ib_recv_wr recv = { .wr_cqe = &b->recv.cqe, .sg_list = to, .num_sge = 1 };

	op_init(&b->recv);
	return !ib_post_recv(b->qp, &recv, NULL) && !post(a, &wr) &&
	       op_wait(&a->send, IB_WC_SUCCESS) && op_wait(&b->recv, IB_WC_SUCCESS) &&
	       b->recv.wc.byte_len == from->length;
}

static void test_local(struct side *a, struct side *b, struct ib_mr *mr, struct gaps *g)
{
	struct ib_sge whole = sge(a, 0, SIZE), list;
	bool good;
	u32 i;

	gaps_clear(g);
	for (i = 0; i < g->len; i++)
		*gaps_byte(g, g->mem, i) = pattern(i);
	memset(a->buf, 0, SIZE);
	good = map_all(b, mr, g) && reg(b, mr, IB_ACCESS_LOCAL_WRITE, IB_WC_SUCCESS);
	list = (struct ib_sge) { .addr = mr->iova, .length = mr->length, .lkey = mr->lkey };
	good &= sent_and_received(b, a, &list, &whole);
	for (i = 0; i < g->len && a->buf[i] == pattern(i); i++)
		;
	ok(good && i == g->len && !a->buf[g->len], "gaps: SEND of it");

	fill();
	gaps_clear(g);
	gaps_expect(g, 0, 1000);
	whole.length = 1000;
	ok(sent_and_received(a, b, &whole, &list) && gaps_as_expected(g), "gaps: RECV into it");
	ok(local_inv(b, mr->rkey, IB_WC_SUCCESS), "gaps: LOCAL_INV");
}

/* Longer than its list, the consumer has said. */
static void test_longer(struct side *b, struct ib_mr *mr, struct gaps *g)
{
	ok(map_all(b, mr, g), "gaps: mapped again");
	mr->length++;
	ok(reg(b, mr, ACCESS, IB_WC_MW_BIND_ERR), "gaps: longer than its pieces");
	again();
}

void test_gaps(struct side *a, struct side *b)
{
	struct ib_mr *mr = ib_alloc_mr(b->pd, IB_MR_TYPE_SG_GAPS, 2 * PIECES);
	static struct gaps gaps;

	if (IS_ERR(mr) || !gaps_alloc(&gaps) || pair_up(IB_QPT_RC)) {
		ok(false, "lists with gaps");
		return;
	}
	test_map(a, b, mr, &gaps);
	fill();
	gaps_clear(&gaps);
	gaps_expect(&gaps, 0, gaps.len);
	ok(map_all(b, mr, &gaps) && reg(b, mr, ACCESS, IB_WC_SUCCESS) &&
	   write_all(a, mr) && gaps_as_expected(&gaps), "gaps: WRITE to all of it");
	ok(read_back(a, mr, &gaps), "gaps: READ of the same");
	fill();
	test_parts(a, mr, &gaps);
	ok(local_inv(b, mr->rkey, IB_WC_SUCCESS), "gaps: LOCAL_INV");
	test_atomic(a, b, mr, &gaps);
	test_local(a, b, mr, &gaps);
	test_longer(b, mr, &gaps);
	pair_down();
	ok(!ib_dereg_mr(mr), "gaps: ib_dereg_mr()");
	gaps_free(&gaps);
}
