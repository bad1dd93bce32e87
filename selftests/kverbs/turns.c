// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Many queue pairs that have much to send at once, which none of them may while who posts has bottom
 * halves off: what the kernel does for them then is not done in one go.
 */
#include <linux/interrupt.h>
#include <linux/slab.h>

#include "kverbs_test.h"

#define PAIRS	128
/* with what a queue pair may send at once (SROCE_SEND_WINDOW) in each */
#define WRITES	4

struct turns {
	struct ib_qp *qp[2][PAIRS];
	struct op op[PAIRS];
	struct tasklet_struct other;
	ktime_t begin;
	s64 other_ns;
};

/* Queued behind all that the queue pairs have queued, on the same CPU */
static void other_run(struct tasklet_struct *other)
{
	struct turns *t = container_of(other, struct turns, other);

	t->other_ns = ktime_to_ns(ktime_sub(ktime_get(), t->begin));
}

static int turn_up(struct turns *t, int n)
{
	int i, err;

	/* what was there before is somebody else's, or gone */
	for (i = 0; i < 2; i++)
		sides[i].qp = NULL;
	err = pair_up(IB_QPT_RC);
	for (i = 0; i < 2; i++)
		t->qp[i][n] = IS_ERR(sides[i].qp) ? NULL : sides[i].qp;
	return err;
}

static void turn_down(struct turns *t, int n)
{
	int i;

	for (i = 0; i < 2; i++)
		if (t->qp[i][n])
			ib_drain_qp(t->qp[i][n]);
	for (i = 0; i < 2; i++)
		if (t->qp[i][n])
			ib_destroy_qp(t->qp[i][n]);
}

static int turn_post(struct turns *t, int n, struct side *a, struct side *b)
{
	struct ib_sge list = sge(a, 0, SIZE);
	struct ib_rdma_wr wr = write_to(b, &list, b->pd->unsafe_global_rkey);
	int i, err = 0;

	op_init(&t->op[n]);
	wr.wr.wr_cqe = &t->op[n].cqe;
	for (i = 0; i < WRITES && !err; i++) {
		if (i == WRITES - 1)
			wr.wr.send_flags = IB_SEND_SIGNALED;
		err = ib_post_send(t->qp[0][n], &wr.wr, NULL);
	}
	return err;
}

static void turns_run(struct turns *t, struct side *a, struct side *b)
{
	int n, err = 0, bad = 0;
	s64 all_ns;

	fill();
	t->begin = ktime_get();
	local_bh_disable();
	for (n = 0; n < PAIRS && !err; n++)
		err = turn_post(t, n, a, b);
	tasklet_schedule(&t->other);
	local_bh_enable();
	ok(!err, "WRITEs by many queue pairs");
	if (err)
		return;
	for (n = 0; n < PAIRS; n++)
		bad += !op_wait(&t->op[n], IB_WC_SUCCESS);
	all_ns = ktime_to_ns(ktime_sub(ktime_get(), t->begin));
	ok(!bad && !memcmp(a->buf, b->buf, SIZE), "all have arrived");
	pr_info("kverbs: # the other after %lld us, all after %lld us\n",
		t->other_ns / NSEC_PER_USEC, all_ns / NSEC_PER_USEC);
	/* to post and a task's turn take as long where all of it is quick */
	ok(t->other_ns && t->other_ns < max(all_ns / 8, 2 * NSEC_PER_MSEC) && t->other_ns < all_ns / 2,
	   "others have had their turn meanwhile");
}

/**
 * test_turns - many queue pairs share a CPU with others
 * @a: side that has no queue pair
 * @b: its peer, which has none either
 */
void test_turns(struct side *a, struct side *b)
{
	struct turns *t = kvzalloc(sizeof(*t), GFP_KERNEL);
	int n, num = 0, err = -ENOMEM;

	if (t) {
		tasklet_setup(&t->other, other_run);
		for (err = 0; num < PAIRS && !err; num++)
			err = turn_up(t, num);
	}
	if (err)
		ok(false, "many queue pairs");
	else
		turns_run(t, a, b);
	for (n = 0; n < num; n++)
		turn_down(t, n);
	if (t)
		tasklet_kill(&t->other);
	kvfree(t);
}
