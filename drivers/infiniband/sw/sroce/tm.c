// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Tag matching: shared receive queues that know which buffer a message is for
 * by the tag in its first bytes. The rules are rdma-core's
 * (Documentation/tag_matching.md there); IBTA has none.
 *
 * A message finds the first tag that fits, in the order in which they were
 * posted, or takes an ordinary request: it is unexpected, and the program looks
 * for its buffer. Until the program has said that it has seen all of these, tags
 * that it posts are not looked at: a message that comes later would overtake
 * one that is on its way to the program.
 *
 * A rendezvous asks for its data to be read, and for a word when that is done.
 * Both are ordinary requests, in a send queue that is ours: the queue pair's,
 * whose program has asked for none.
 */
#include <linux/build_bug.h>
#include <linux/overflow.h>
#include <linux/slab.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/uverbs_ioctl.h>
#include <rdma/uverbs_std_types.h>

#define UVERBS_MODULE_NAME sroce
#include <rdma/uverbs_named_ioctl.h>

#include "sroce.h"

/* The header of a message, and what follows it in a rendezvous: tm_types.h */
#define TMH_LEN			16
#define TMH_APP_CTX		4
#define TMH_TAG			8
#define RVH_VA			16
#define RVH_RKEY		24
#define RVH_LENGTH		28
#define RVH_END			32

/* What a message's first byte says it is: enum ibv_tmh_op */
enum tmh_op {
	TMH_NO_TAG,
	TMH_RNDV,
	TMH_FIN,
	TMH_EAGER,
};

/* A rendezvous has to be one packet, and this is the smallest path MTU. */
#define MAX_RNDV_HDR		256

/*
 * Every message may have to be compared with all tags that are posted, under
 * the lock: a few microseconds.
 */
#define MAX_TAGS		1024

/* More unexpected messages that the program has said nothing of: it is asked to. */
#define MAX_UNHANDLED		0x3fff

/* Rendezvous of the longest lists that a queue pair has room for */
#define MAX_RNDV		16

/* The longest READ, and the SEND after it */
#define FIN_LEN			(sizeof(struct sroce_send_wqe) + RVH_END)
#define RNDV_BLOCKS		(SROCE_SQ_MAX_BLOCKS + DIV_ROUND_UP(FIN_LEN, SROCE_SQ_BLOCK))

/**
 * struct sroce_tag - a buffer for messages with a tag
 * @entry: in the list
 * @handle: the program's name for it
 * @armed: the program had seen all unexpected messages when it was posted, or
 *	has since
 * @tag: what a message's tag has to be
 * @mask: in these bits
 * @wr_id: for the completions
 * @length: bytes of the buffer
 * @num_sge: entries of @sge
 * @sge: the buffer
 */
struct sroce_tag {
	struct list_head entry;
	u32 handle;
	bool armed;
	u64 tag;
	u64 mask;
	u64 wr_id;
	u64 length;
	u32 num_sge;
	struct sroce_sge sge[];
};

/**
 * struct sroce_tm - the tags of a shared receive queue
 * @mutex: one operation at a time
 * @cq: the queue's
 * @max_tags: that may be posted
 * @lock: guards what follows; taken under a queue pair's receive lock
 * @tags: in the order in which they were posted; those that are not armed come last
 * @handles: these by handle
 * @handle_next: where the search for a free handle goes on: one that is
 *	deleted too late must not be another's
 * @num_tags: posted
 * @unexpected: messages that found no tag
 * @handled: as many of these has the program seen, it says
 */
struct sroce_tm {
	struct mutex mutex;
	struct sroce_cq *cq;
	u32 max_tags;
	spinlock_t lock;
	struct list_head tags;
	struct xarray handles;
	u32 handle_next;
	u32 num_tags;
	u32 unexpected;
	u32 handled;
};

/**
 * sroce_tm_caps - what query_device says of tag matching
 * @attr: filled in
 */
void sroce_tm_caps(struct ib_device_attr *attr)
{
	attr->tm_caps.max_rndv_hdr_size = MAX_RNDV_HDR;
	attr->tm_caps.max_num_tags = MAX_TAGS;
	attr->tm_caps.max_ops = SROCE_TM_MAX_OPS;
	attr->tm_caps.max_sge = SROCE_MAX_SGE;
	attr->tm_caps.flags = IB_TM_CAP_RNDV_RC;
}

/* Life */

/**
 * sroce_tm_create - give a shared receive queue tags
 * @srq: the queue, a program's
 * @max_tags: that may be posted
 * @cq: for its completions
 *
 * May sleep.
 *
 * Return: 0 or an errno.
 */
int sroce_tm_create(struct sroce_srq *srq, u32 max_tags, struct ib_cq *cq)
{
	struct sroce_tm *tm;

	if (!max_tags || max_tags > MAX_TAGS)
		return -EINVAL;
	tm = kzalloc(sizeof(*tm), GFP_KERNEL_ACCOUNT);
	if (!tm)
		return -ENOMEM;
	mutex_init(&tm->mutex);
	spin_lock_init(&tm->lock);
	INIT_LIST_HEAD(&tm->tags);
	xa_init_flags(&tm->handles, XA_FLAGS_ALLOC | XA_FLAGS_LOCK_BH | XA_FLAGS_ACCOUNT);
	tm->max_tags = max_tags;
	tm->cq = to_scq(cq);
	srq->tm = tm;
	return 0;
}

/**
 * sroce_tm_destroy - the end of sroce_tm_create()
 * @srq: the queue; no queue pair has it any more. One that has no tags is fine
 */
void sroce_tm_destroy(struct sroce_srq *srq)
{
	struct sroce_tm *tm = srq->tm;
	struct sroce_tag *tag, *next;

	if (!tm)
		return;
	list_for_each_entry_safe(tag, next, &tm->tags, entry)
		kfree(tag);
	xa_destroy(&tm->handles);
	kfree(tm);
}

/* The list; its lock is held */

static void tag_remove(struct sroce_tm *tm, struct sroce_tag *tag)
{
	list_del(&tag->entry);
	xa_erase(&tm->handles, tag->handle);
	tm->num_tags--;
}

/* Nothing is on its way to the program that a tag could have been for. */
static void arm_if_synced(struct sroce_tm *tm)
{
	struct sroce_tag *tag;

	if (tm->handled != tm->unexpected)
		return;
	list_for_each_entry_reverse(tag, &tm->tags, entry) {
		if (tag->armed)
			break;
		tag->armed = true;
	}
}

static struct sroce_tag *tag_find(struct sroce_tm *tm, u64 key)
{
	struct sroce_tag *tag;

	list_for_each_entry(tag, &tm->tags, entry) {
		if (!tag->armed)
			break;
		if ((key & tag->mask) == tag->tag)
			return tag;
	}
	return NULL;
}

/* Operations on the list */

static struct sroce_tag *tag_alloc(const struct sroce_tm_op *op)
{
	struct sroce_tag *tag;
	u32 i;

	tag = kzalloc(struct_size(tag, sge, op->num_sge), GFP_KERNEL_ACCOUNT);
	if (!tag)
		return NULL;
	tag->tag = op->tag;
	tag->mask = op->mask;
	tag->wr_id = op->recv_wr_id;
	tag->num_sge = op->num_sge;
	for (i = 0; i < op->num_sge; i++) {
		tag->sge[i] = op->sge[i];
		tag->length += op->sge[i].length;
	}
	return tag;
}

/* A tag with a handle, that is in no list yet. The mutex is held. */
static int tag_create(struct sroce_tm *tm, const struct sroce_tm_op *op, struct sroce_tag **tag)
{
	int err;

	/* messages take some away meanwhile, and nobody adds any */
	if (READ_ONCE(tm->num_tags) >= tm->max_tags)
		return -ENOMEM;
	*tag = tag_alloc(op);
	if (!*tag)
		return -ENOMEM;
	err = xa_alloc_cyclic_bh(&tm->handles, &(*tag)->handle, *tag, xa_limit_32b,
				 &tm->handle_next, GFP_KERNEL);
	if (err >= 0)
		return 0;
	kfree(*tag);
	return err;
}

static enum sroce_cq_result op_complete(struct sroce_tm *tm, const struct sroce_tm_op *op,
					u8 opcode, u8 status)
{
	const struct sroce_cqe cqe = {
		.wr_id = op->wr_id,
		.status = status,
		.opcode = opcode,
		.wc_flags = tm->handled != tm->unexpected ? SROCE_WC_TM_SYNC_REQ : 0,
	};

	if (!(op->flags & SROCE_TM_SIGNALED))
		return SROCE_CQ_QUIET;
	/* under the lock, so that no message for a tag completes before its ADD */
	return sroce_cq_post(tm->cq, &cqe, status != IB_WC_SUCCESS);
}

/* What the operation does to the list. @tag: ADD: the new one */
static enum sroce_cq_result op_run(struct sroce_tm *tm, const struct sroce_tm_op *op,
				   struct sroce_tag *tag)
{
	u8 status = IB_WC_SUCCESS;

	lockdep_assert_held(&tm->lock);
	if (op->flags & SROCE_TM_SYNC_CNT)
		tm->handled = op->unexpected_cnt;
	switch (op->opcode) {
	case SROCE_TM_ADD:
		list_add_tail(&tag->entry, &tm->tags);
		tm->num_tags++;
		arm_if_synced(tm);
		return op_complete(tm, op, SROCE_WC_TM_ADD, status);
	case SROCE_TM_DEL:
		arm_if_synced(tm);
		tag = xa_load(&tm->handles, op->handle);
		if (tag)
			tag_remove(tm, tag);
		else
			status = SROCE_WC_STATUS_TM_ERR;
		kfree(tag);
		return op_complete(tm, op, SROCE_WC_TM_DEL, status);
	default:
		arm_if_synced(tm);
		return op_complete(tm, op, SROCE_WC_TM_SYNC, status);
	}
}

static int tm_op(struct sroce_tm *tm, const struct sroce_tm_op *op, u32 *handle)
{
	struct sroce_tag *tag = NULL;
	enum sroce_cq_result result;
	int err = 0;

	mutex_lock(&tm->mutex);
	if (op->opcode == SROCE_TM_ADD)
		err = tag_create(tm, op, &tag);
	if (!err) {
		/* a message may take the tag as soon as it is there */
		if (tag)
			*handle = tag->handle;
		spin_lock_bh(&tm->lock);
		result = op_run(tm, op, tag);
		spin_unlock_bh(&tm->lock);
		if (result == SROCE_CQ_EVENT)
			sroce_cq_notify(tm->cq);
	}
	mutex_unlock(&tm->mutex);
	return err;
}

static int check_op(const struct sroce_tm_op *op, size_t len)
{
	if (op->opcode > SROCE_TM_SYNC ||
	    op->flags & ~(SROCE_TM_SIGNALED | SROCE_TM_SYNC_CNT) || op->reserved ||
	    op->num_sge > (op->opcode == SROCE_TM_ADD ? SROCE_MAX_SGE : 0) ||
	    len != struct_size(op, sge, op->num_sge))
		return -EINVAL;
	return 0;
}

/* The macros that declare a method paste its name, which must not expand. */
enum {
	TM_OP = SROCE_METHOD_TM_OP,
};

static int UVERBS_HANDLER(TM_OP)(struct uverbs_attr_bundle *attrs)
{
	struct ib_srq *ibsrq = uverbs_attr_get_obj(attrs, SROCE_ATTR_TM_OP_HANDLE);
	const struct sroce_tm_op *op = uverbs_attr_get_alloced_ptr(attrs, SROCE_ATTR_TM_OP_CMD);
	struct sroce_tm *tm = to_ssrq(ibsrq)->tm;
	u32 handle = 0;
	int err;

	if (!tm)
		return -EINVAL;
	err = check_op(op, uverbs_attr_get_len(attrs, SROCE_ATTR_TM_OP_CMD));
	if (!err)
		err = tm_op(tm, op, &handle);
	if (err)
		return err;
	return uverbs_copy_to(attrs, SROCE_ATTR_TM_OP_RESP, &handle, sizeof(handle));
}

DECLARE_UVERBS_NAMED_METHOD(
	TM_OP,
	UVERBS_ATTR_IDR(SROCE_ATTR_TM_OP_HANDLE, UVERBS_OBJECT_SRQ,
			UVERBS_ACCESS_READ, UA_MANDATORY),
	UVERBS_ATTR_PTR_IN(SROCE_ATTR_TM_OP_CMD,
			   UVERBS_ATTR_MIN_SIZE(sizeof(struct sroce_tm_op)),
			   UA_MANDATORY, UA_ALLOC_AND_COPY),
	UVERBS_ATTR_PTR_OUT(SROCE_ATTR_TM_OP_RESP, UVERBS_ATTR_TYPE(u32), UA_MANDATORY));

ADD_UVERBS_METHODS(sroce_tm_methods, UVERBS_OBJECT_SRQ, &UVERBS_METHOD(TM_OP));

const struct uapi_definition sroce_tm_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_SRQ, &sroce_tm_methods),
	{},
};

/* Messages; the queue pair's receive lock is held */

/* Does the header make sense? Nothing that is longer than it says is harmful. */
static bool check_header(const struct sroce_rx *rx, const u8 *hdr)
{
	const struct wire_pkt *pkt = &rx->pkt;

	/* without a byte, nothing is said, and a tag least of all */
	if (!pkt->payload_len)
		return true;
	switch (hdr[0]) {
	case TMH_NO_TAG:
	case TMH_FIN:
		return true;
	case TMH_EAGER:
		return pkt->payload_len >= TMH_LEN;
	case TMH_RNDV:
		return pkt->op->flags & WIRE_END && pkt->payload_len >= RVH_END &&
		       pkt->payload_len <= MAX_RNDV_HDR;
	default:
		return false;
	}
}

/*
 * Can we do what a rendezvous asks for? Else the program, who is given the
 * headers: with a send queue of its own, it has asked for that (mlx5's does, too).
 */
static bool can_read(const struct sroce_qp *qp, const struct sroce_tag *tag, u32 len)
{
	return qp->sq.tagged && qp->state >= IB_QPS_RTS && qp->attr.max_rd_atomic &&
	       len <= tag->length && len <= SROCE_MAX_MSG &&
	       sroce_send_room(qp, RNDV_BLOCKS);
}

/* A tag's buffer becomes the receive request of the message. */
static void tag_take(struct sroce_qp *qp, struct sroce_tm *tm, struct sroce_tag *tag)
{
	struct sroce_tm_msg *msg = &qp->rq.tm_msg;
	struct sroce_recv_wqe *wqe = qp->rq.wqe;

	msg->kind = SROCE_TM_EAGER;
	if (msg->hdr[0] == TMH_RNDV)
		msg->kind = can_read(qp, tag, wire_get32(msg->hdr + RVH_LENGTH)) ?
			    SROCE_TM_RNDV : SROCE_TM_RNDV_SW;
	wqe->wr_id = tag->wr_id;
	wqe->num_sge = tag->num_sge;
	wqe->reserved = 0;
	memcpy(wqe->sge, tag->sge, flex_array_size(tag, sge, tag->num_sge));
	qp->rq.has_wqe = true;
	tag_remove(tm, tag);
	kfree(tag);
}

/* What the first packet begins with, and zeroes; false if that makes no sense. */
static bool get_header(const struct sroce_rx *rx, u8 *hdr)
{
	struct sroce_rx_pos pos = rx->payload;

	memset(hdr, 0, RVH_END);
	sroce_rx_copy(&pos, hdr, min_t(u32, rx->pkt.payload_len, RVH_END));
	return check_header(rx, hdr);
}

static bool has_tag(const u8 *hdr)
{
	return hdr[0] == TMH_EAGER || hdr[0] == TMH_RNDV;
}

/**
 * sroce_tm_match - a message begins: which buffer is it for?
 * @qp: queue pair with a tag matching queue; its receive lock is held
 * @rx: the first packet
 *
 * rq.tm_msg says what it is. With a tag, it has a receive request then; else it
 * needs an ordinary one, and if there is none sroce_tm_abort() is due.
 *
 * Return: false if the header makes no sense.
 */
bool sroce_tm_match(struct sroce_qp *qp, const struct sroce_rx *rx)
{
	struct sroce_tm_msg *msg = &qp->rq.tm_msg;
	struct sroce_tm *tm = qp->rq.tm;
	struct sroce_tag *tag;

	msg->kind = SROCE_TM_NO_TAG;
	msg->sync_req = false;
	msg->last = rx->pkt.op->flags & WIRE_END;
	msg->solicited = rx->pkt.solicited;
	if (!get_header(rx, msg->hdr))
		return false;
	if (!has_tag(msg->hdr))
		return true;

	spin_lock(&tm->lock);
	tag = tag_find(tm, wire_get64(msg->hdr + TMH_TAG));
	if (tag) {
		tag_take(qp, tm, tag);
	} else {
		/* from here on: what is posted before the program sees it is not armed */
		msg->kind = SROCE_TM_UNEXPECTED;
		tm->unexpected++;
		msg->sync_req = tm->unexpected - tm->handled > MAX_UNHANDLED;
	}
	spin_unlock(&tm->lock);
	return true;
}

/**
 * sroce_tm_again - a message begins that has begun before: is it the same one?
 * @qp: queue pair with a tag matching queue, which has a receive request; its receive lock
 *	is held
 * @rx: the first packet
 *
 * It had to wait for its memory; where there was no room to do so, its sender sends it once
 * more, and that can be anything. What was done by its header has to hold still; the payload
 * behind may be another one, as a program may write to what it has not been told is sent.
 *
 * Return: true if it is, as far as its header says.
 */
bool sroce_tm_again(struct sroce_qp *qp, const struct sroce_rx *rx)
{
	const struct sroce_tm_msg *msg = &qp->rq.tm_msg;
	const bool last = rx->pkt.op->flags & WIRE_END;
	u8 hdr[RVH_END];

	if (!get_header(rx, hdr) || last != msg->last)
		return false;
	switch (msg->kind) {
	case SROCE_TM_NO_TAG:
		return !has_tag(hdr);
	case SROCE_TM_RNDV:
	case SROCE_TM_RNDV_SW:
		return !memcmp(hdr, msg->hdr, RVH_END);
	default:
		return !memcmp(hdr, msg->hdr, TMH_LEN);
	}
}

/**
 * sroce_tm_cut - leave of a message's first packet what goes to its buffer
 * @qp: queue pair; its receive lock is held
 * @rx: a copy of the packet
 */
void sroce_tm_cut(struct sroce_qp *qp, struct sroce_rx *rx)
{
	u8 hdr[TMH_LEN];

	switch (qp->rq.tm_msg.kind) {
	case SROCE_TM_EAGER:
		sroce_rx_copy(&rx->payload, hdr, sizeof(hdr));
		rx->pkt.payload_len -= sizeof(hdr);
		break;
	case SROCE_TM_RNDV:
		rx->pkt.payload_len = 0;
		break;
	case SROCE_TM_RNDV_SW:
		rx->pkt.payload_len = RVH_END;
		break;
	default:
		break;
	}
}

/**
 * sroce_tm_waits - has a message begun that has to begin once more, for its memory?
 * @qp: queue pair between two messages; its receive lock is held
 *
 * Then the receive request is the message's: it is counted, or a tag's.
 *
 * Return: true if so.
 */
bool sroce_tm_waits(const struct sroce_qp *qp)
{
	return qp->rq.tm && qp->rq.has_wqe && qp->rq.tm_msg.kind != SROCE_TM_NO_TAG;
}

/**
 * sroce_tm_matched - has the message under way found a tag?
 * @qp: queue pair; its receive lock is held
 *
 * Return: true if so.
 */
bool sroce_tm_matched(const struct sroce_qp *qp)
{
	return qp->rq.tm_msg.kind >= SROCE_TM_EAGER;
}

/**
 * sroce_tm_fill - what a completion says of the message under way
 * @qp: queue pair; its receive lock is held
 * @cqe: filled in but for what every receive has
 * @first: the message has found its tag just now
 * @last: it is here as a whole
 */
void sroce_tm_fill(struct sroce_qp *qp, struct sroce_cqe *cqe, bool first, bool last)
{
	struct sroce_tm_msg *msg = &qp->rq.tm_msg;

	cqe->src_qp = 0;
	cqe->opcode = msg->kind == SROCE_TM_NO_TAG ? SROCE_WC_TM_NO_TAG : SROCE_WC_TM_RECV;
	if (msg->kind == SROCE_TM_UNEXPECTED && msg->sync_req)
		cqe->wc_flags |= SROCE_WC_TM_SYNC_REQ;
	if (msg->kind == SROCE_TM_UNEXPECTED)
		msg->kind = SROCE_TM_NO_TAG;
	if (msg->kind == SROCE_TM_NO_TAG)
		return;
	if (first) {
		cqe->wc_flags |= SROCE_WC_TM_MATCH;
		cqe->tm_tag = wire_get64(msg->hdr + TMH_TAG);
		cqe->src_qp = wire_get32(msg->hdr + TMH_APP_CTX);
	}
	if (msg->kind == SROCE_TM_RNDV_SW)
		cqe->status = SROCE_WC_STATUS_TM_RNDV_INCOMPLETE;
	else if (last && msg->kind == SROCE_TM_EAGER)
		cqe->wc_flags |= SROCE_WC_TM_DATA_VALID;
}

/**
 * sroce_tm_abort - the message under way will not be finished
 * @qp: queue pair; its receive lock is held. One without a message is fine
 *
 * The program does not see it, and so will never count it.
 */
void sroce_tm_abort(struct sroce_qp *qp)
{
	struct sroce_tm *tm = qp->rq.tm;

	if (qp->rq.tm_msg.kind == SROCE_TM_UNEXPECTED) {
		spin_lock(&tm->lock);
		tm->unexpected--;
		arm_if_synced(tm);
		spin_unlock(&tm->lock);
	}
	qp->rq.tm_msg.kind = SROCE_TM_NO_TAG;
}

/* Rendezvous */

/* The first @len bytes of the list, which has as many. */
static void cut_list(struct sroce_recv_wqe *wqe, u32 len)
{
	u32 i;

	for (i = 0; i < wqe->num_sge && len; i++) {
		wqe->sge[i].length = min(wqe->sge[i].length, len);
		len -= wqe->sge[i].length;
	}
	wqe->num_sge = i;
}

/**
 * sroce_tm_read - a message is complete: if it was a rendezvous, do what it asks for
 * @qp: queue pair; its receive lock is held
 *
 * The fence holds the last word back until the data is here: its sender is free
 * to take its memory away then.
 */
void sroce_tm_read(struct sroce_qp *qp)
{
	struct sroce_recv_wqe *wqe = qp->rq.wqe;
	u8 *hdr = qp->rq.tm_msg.hdr;
	struct ib_sge fin_sge = {
		.addr = (uintptr_t)hdr,
		.length = RVH_END,
	};
	struct ib_send_wr fin = {
		.sg_list = &fin_sge,
		.num_sge = 1,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_INLINE | IB_SEND_FENCE,
	};
	struct ib_rdma_wr read = {
		.wr = {
			.next = &fin,
			.wr_id = wqe->wr_id,
			.sg_list = (struct ib_sge *)wqe->sge,
			.opcode = IB_WR_RDMA_READ,
			.send_flags = qp->rq.tm_msg.solicited ? IB_SEND_SOLICITED : 0,
		},
		.remote_addr = wire_get64(hdr + RVH_VA),
		.rkey = wire_get32(hdr + RVH_RKEY),
	};
	const struct ib_send_wr *bad;

	BUILD_BUG_ON(sizeof(struct ib_sge) != sizeof(struct sroce_sge) ||
		     offsetof(struct ib_sge, length) != offsetof(struct sroce_sge, length) ||
		     offsetof(struct ib_sge, lkey) != offsetof(struct sroce_sge, lkey));
	if (qp->rq.tm_msg.kind != SROCE_TM_RNDV)
		return;
	cut_list(wqe, wire_get32(hdr + RVH_LENGTH));
	read.wr.num_sge = wqe->num_sge;
	hdr[0] = TMH_FIN;
	/* there is room, and it stays, as nobody else posts here; or nothing is certain */
	if (sroce_post_send(&qp->ibqp, &read.wr, &bad))
		sroce_qp_error_locked(qp);
}

/**
 * sroce_tm_sent - a request of a send queue of ours is done
 * @cqe: its completion, made that of the rendezvous
 *
 * Any context.
 *
 * Return: false if there is nothing to tell the program.
 */
bool sroce_tm_sent(struct sroce_cqe *cqe)
{
	if (cqe->opcode != IB_UVERBS_WC_RDMA_READ)
		return false;
	cqe->opcode = SROCE_WC_TM_RECV;
	if (cqe->status == IB_WC_SUCCESS)
		cqe->wc_flags = SROCE_WC_TM_DATA_VALID;
	return true;
}

/**
 * sroce_tm_join - a queue pair is to receive from a tag matching queue
 * @qp: new queue pair
 * @init: what is asked for
 * @sq: filled in, if its send queue is to be ours: how large
 *
 * Return: whether it is.
 */
bool sroce_tm_join(struct sroce_qp *qp, const struct ib_qp_init_attr *init, struct ib_qp_cap *sq)
{
	struct ib_srq *ibsrq = init->srq;

	if (!ibsrq || ibsrq->srq_type != IB_SRQT_TM)
		return false;
	qp->rq.tm = to_ssrq(ibsrq)->tm;
	qp->sq.tagged = !init->cap.max_send_wr;
	if (!qp->sq.tagged)
		return false;
	/* lists are those of tags */
	qp->sq.pd = ibsrq->pd;
	qp->sq.cq = qp->rq.tm->cq;
	sq->max_send_wr = DIV_ROUND_UP(MAX_RNDV * RNDV_BLOCKS, SROCE_SQ_MAX_BLOCKS);
	sq->max_send_sge = SROCE_MAX_SGE;
	sq->max_inline_data = RVH_END;
	return true;
}
