// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "common.h"

static struct end ea, eb;

/* --- a chain ------------------------------------------------------------------------------- */

#define CHAIN 128

static void chain_read(struct ibv_qp *qp, const struct ibv_mr *mr)
{
	if (POST(qp, .opcode = IBV_WR_RDMA_READ, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
		 .sg_list = SGE(mr->addr, 8, mr->lkey),
		 .wr.rdma = { (uintptr_t)mr->addr + 8, mr->rkey }))
		die("post READ");
}

/*
 * Queue pairs of one link, each with the next as its peer: what the second answers the first,
 * the third gets, which has waited for just that and sends to the fourth. All of it never
 * leaves the link, and so would happen within the first's doorbell.
 */
static void chain(void)
{
	struct ibv_cq *cq = cq_make(&ea, 4 * CHAIN);
	struct ibv_mr *mr = mr_make(&ea, 4096, IBV_ACCESS_REMOTE_READ);
	struct ibv_qp_init_attr ia = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	unsigned int i, num = 0;
	struct conn c = conn_default;
	struct ibv_qp *qp[CHAIN];
	struct ibv_wc wc;

	c.timeout = 0;		/* never */
	for (i = 0; i < CHAIN; i++) {
		qp[i] = ibv_create_qp(ea.pd, &ia);
		if (!qp[i])
			die("create_qp");
	}
	for (i = 0; i < CHAIN; i++) {
		/* the second READ's answer is one for the first READ of the next but one */
		const struct peer p = {
			.qpn = qp[(i + 1) % CHAIN]->qp_num,
			.psn = (i + CHAIN - 1) % CHAIN / 2,
			.gid = ea.gid,
		};

		c.rd_atomic = i ? 1 : 2;
		qp_connect(qp[i], &ea, i / 2, &p, &c);
	}
	for (i = 0; i < CHAIN; i++)
		chain_read(qp[i], mr);
	for (i = 1; i < CHAIN; i++)
		chain_read(qp[i], mr);
	ok(cq_quiet(cq, 0.3), "nobody gets an answer");
	chain_read(qp[0], mr);
	while (num < CHAIN / 2 - 1 && cq_wait(cq, &wc, PATIENCE) && wc.status == IBV_WC_SUCCESS)
		num++;
	is(num, CHAIN / 2 - 1, "every second of them gets another's answer");
	for (i = 0; i < CHAIN; i++)
		if (ibv_destroy_qp(qp[i]))
			die("destroy_qp");
	mr_drop(mr);
	ibv_destroy_cq(cq);
}

static const struct test tests[] = {
	TEST(chain),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
