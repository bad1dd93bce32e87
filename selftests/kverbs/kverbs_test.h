/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the parts of kverbs_test.ko share. */
#ifndef KVERBS_TEST_H
#define KVERBS_TEST_H

#include <linux/completion.h>
#include <rdma/ib_verbs.h>

#define SIZE	65536
#define DEPTH	16

struct op {
	struct ib_cqe cqe;
	struct completion done;
	struct ib_wc wc;
};

struct side {
	struct ib_device *dev;
	union ib_gid gid;
	const struct ib_gid_attr *gid_attr;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_srq *srq;
	struct ib_qp *qp;
	u8 *buf;
	u32 rdma_ctxs;
	bool signal_all;
	struct op send;
	struct op recv;
	/* of its queue pair, its shared receive queue, its port: bits, as they come */
	unsigned long events;
};

extern struct side sides[2];
extern unsigned int failed;

#define ok(cond, name) do {						\
	const bool passed = (cond);					\
									\
	pr_info("kverbs: %s - %s\n", passed ? "ok" : "not ok", name);	\
	failed += !passed;						\
} while (0)

/* What byte @i of a buffer that is filled has. */
static inline u8 pattern(u32 i)
{
	return i * 7 + (i >> 8);
}

bool wait_done(struct completion *done);
void op_init(struct op *op);
bool op_wait(struct op *op, enum ib_wc_status status);
struct ib_sge sge(struct side *s, u32 off, u32 len);
struct ib_rdma_wr write_to(struct side *to, struct ib_sge *list, u32 rkey);
int post(struct side *s, struct ib_send_wr *wr);
int post_recv(struct side *s, u32 off, u32 len);
void fill(void);
int make_qp(struct side *s, enum ib_qp_type type);
int to_init(struct side *s);
int to_rtr(struct side *s, struct side *peer);
int to_rts(struct side *s);
int pair_up(enum ib_qp_type type);
void pair_down(void);
bool tell(struct side *a, struct side *b);
void qp_event(struct ib_event *event, void *context);

bool reg(struct side *s, struct ib_mr *mr, int access, enum ib_wc_status status);
bool local_inv(struct side *s, u32 rkey, enum ib_wc_status status);
bool access_by(struct side *s, enum ib_wr_opcode opcode, u64 addr, u32 rkey, u32 len,
	       enum ib_wc_status status);

void test_send(struct side *a, struct side *b);
void test_fastreg(struct side *a, struct side *b);
void test_turns(struct side *a, struct side *b);
void test_gaps(struct side *a, struct side *b);
void test_fastreg_uc(struct side *a, struct side *b);
void test_events(struct side *a, struct side *b);
void test_port_events(struct side *a, struct side *b);

#endif /* KVERBS_TEST_H */
