// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Tag matching SRQs: what is done to their tags. The list is the kernel's, and
 * each operation a call.
 */
#include <errno.h>
#include <string.h>

#include <infiniband/cmd_ioctl.h>
#include <rdma/ib_user_ioctl_cmds.h>

#include "sroce.h"

static_assert(SROCE_TM_ADD == (int)IBV_WR_TAG_ADD &&
	      SROCE_TM_DEL == (int)IBV_WR_TAG_DEL &&
	      SROCE_TM_SYNC == (int)IBV_WR_TAG_SYNC,
	      "opcodes are ibv_ops_wr_opcode");
static_assert(SROCE_TM_SIGNALED == (int)IBV_OPS_SIGNALED &&
	      SROCE_TM_SYNC_CNT == (int)IBV_OPS_TM_SYNC,
	      "flags are ibv_ops_flags");

/* The longest operation */
union sroce_tm_buf {
	struct sroce_tm_op op;
	uint8_t room[sizeof(struct sroce_tm_op) +
		     SROCE_MAX_SGE * sizeof(struct sroce_sge)];
};

/* Return: its bytes, 0 for one that can't be. */
static size_t sroce_tm_build(const struct ibv_ops_wr *wr,
			     struct sroce_tm_op *op)
{
	const unsigned int flags = wr->flags;
	int i;

	if ((unsigned int)wr->opcode > SROCE_TM_SYNC ||
	    flags & ~(SROCE_TM_SIGNALED | SROCE_TM_SYNC_CNT))
		return 0;

	*op = (struct sroce_tm_op) {
		.wr_id = wr->wr_id,
		.unexpected_cnt = wr->tm.unexpected_cnt,
		.opcode = wr->opcode,
		.flags = flags,
	};
	if (wr->opcode == IBV_WR_TAG_DEL)
		op->handle = wr->tm.handle;
	if (wr->opcode != IBV_WR_TAG_ADD)
		return sizeof(*op);

	if (wr->tm.add.num_sge < 0 || wr->tm.add.num_sge > SROCE_MAX_SGE)
		return 0;
	op->recv_wr_id = wr->tm.add.recv_wr_id;
	op->tag = wr->tm.add.tag;
	op->mask = wr->tm.add.mask;
	op->num_sge = wr->tm.add.num_sge;
	for (i = 0; i < op->num_sge; i++) {
		op->sge[i].addr = wr->tm.add.sg_list[i].addr;
		op->sge[i].length = wr->tm.add.sg_list[i].length;
		op->sge[i].lkey = wr->tm.add.sg_list[i].lkey;
	}
	return sizeof(*op) + op->num_sge * sizeof(op->sge[0]);
}

static int sroce_tm_call(struct ibv_srq *ibsrq, struct ibv_ops_wr *wr)
{
	DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_SRQ, SROCE_METHOD_TM_OP, 3);
	union sroce_tm_buf buf;
	uint32_t handle = 0;
	size_t len;
	int ret;

	len = sroce_tm_build(wr, &buf.op);
	if (!len)
		return EINVAL;

	fill_attr_in_obj(cmd, SROCE_ATTR_TM_OP_HANDLE, ibsrq->handle);
	fill_attr_in(cmd, SROCE_ATTR_TM_OP_CMD, &buf, len);
	fill_attr_out_ptr(cmd, SROCE_ATTR_TM_OP_RESP, &handle);
	ret = execute_ioctl(ibsrq->context, cmd);
	if (!ret && wr->opcode == IBV_WR_TAG_ADD)
		wr->tm.handle = handle;
	return ret;
}

/**
 * sroce_post_srq_ops - verbs post_srq_ops: add tags, delete them, count
 *
 * One call of the kernel for each, which is done when it returns; those before
 * a bad one are.
 *
 * Return: 0 or a positive errno.
 */
int sroce_post_srq_ops(struct ibv_srq *ibsrq, struct ibv_ops_wr *wr,
		       struct ibv_ops_wr **bad_wr)
{
	int ret;

	for (; wr; wr = wr->next) {
		ret = to_ssrq(ibsrq)->vsrq.srq_type == IBV_SRQT_TM ?
		      sroce_tm_call(ibsrq, wr) : EINVAL;
		if (ret) {
			*bad_wr = wr;
			return ret;
		}
	}
	return 0;
}
