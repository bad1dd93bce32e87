// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * libsroce against a kernel that is part of the test: the rings are in a
 * memfd, the ibv_cmd_* functions answer as the kernel would, and write() and
 * execute_ioctl() are looked at instead of being carried out.
 *
 * Everything that is expected of a ring is computed here a second time, byte
 * by byte, from the text of sroce-abi.h.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>

#include "sroce.h"

static int tests, failures, broken;

#define CHECK(cond)							\
	do {								\
		if (!(cond)) {						\
			printf("# %s:%d: %s\n", __FILE__, __LINE__, #cond); \
			broken = 1;					\
		}							\
	} while (0)

static void done(const char *what)
{
	printf("%sok %d - %s\n", broken ? "not " : "", ++tests, what);
	failures += broken;
	broken = 0;
	fflush(stdout);
}

/* The kernel's side. */

#define SHM_SIZE	(64 << 20)

static uint8_t *shm;
static size_t shm_used;
static struct verbs_device fake_dev;
static struct sroce_context ctx;

static uint32_t next_qpn = 17;
static uint32_t sq_wrs = 16, sq_blocks = 16, rq_entries = 8, cq_entries = 16;
static struct sroce_ring_map bend;	/* or-ed into the kernel's answers */
static int leak;	/* objects that exist in the kernel */
static size_t qp_ex_at = 352;	/* where libibverbs looks for VERBS_QP_EX */

static void make_ring(struct sroce_ring_map *map, uint32_t entries,
		      uint32_t entry_size)
{
	size_t size = sizeof(struct sroce_ring) + (size_t)entries * entry_size;

	map->offset = shm_used;
	map->size = (size + 4095) & ~4095UL;
	map->entries = entries | bend.entries;
	map->entry_size = entry_size | bend.entry_size;
	memset(shm + shm_used, 0, map->size);
	shm_used += map->size;
	if (shm_used > SHM_SIZE)
		abort();
}

static struct sroce_create_cq cq_asked;	/* by the latest create_cq */

int ibv_cmd_create_cq_ex(struct ibv_context *context,
			 const struct ibv_cq_init_attr_ex *attr,
			 struct verbs_create_cq_prov_attr *mem,
			 struct verbs_cq *vcq, struct ibv_create_cq_ex *cmd,
			 size_t cmd_size,
			 struct ib_uverbs_ex_create_cq_resp *resp,
			 size_t resp_size, uint32_t cmd_flags)
{
	struct sroce_create_cq_resp *drv = (void *)(resp + 1);

	memset(&cq_asked, 0, sizeof(cq_asked));
	if (cmd_size > sizeof(*cmd))
		memcpy(&cq_asked, cmd + 1, sizeof(cq_asked));
	if (resp_size != sizeof(*resp) + sizeof(*drv) || cmd_flags ||
	    attr->wc_flags || attr->comp_mask)
		abort();
	vcq->cq.context = context;
	make_ring(&drv->cq, cq_entries, sizeof(struct sroce_cqe));
	leak++;
	return 0;
}

int ibv_cmd_destroy_cq(struct ibv_cq *cq)
{
	leak--;
	return 0;
}

static void make_qp(struct ibv_context *context, struct verbs_qp *vqp,
		    struct ibv_qp_init_attr_ex *attr,
		    struct sroce_create_qp_resp *drv)
{
	struct ibv_qp *qp = &vqp->qp;
	enum ibv_qp_type type = attr->qp_type;

	qp->context = context;
	qp->pd = attr->pd;
	qp->send_cq = attr->send_cq;
	qp->recv_cq = attr->recv_cq;
	qp->srq = attr->srq;
	qp->qp_type = type;
	qp->qp_num = next_qpn++ & 0xffffff;
	/* As the library does, at its own place: comp_mask, then xrcd. */
	memset((uint8_t *)vqp + qp_ex_at, 0, 4);
	memset((uint8_t *)vqp + qp_ex_at + 8, 0x5a, 8);
	leak++;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_IND_TABLE)
		return;
	if (type != IBV_QPT_XRC_RECV)
		make_ring(&drv->sq, sq_blocks, SROCE_SQ_BLOCK);
	if (!attr->srq && type != IBV_QPT_XRC_RECV && type != IBV_QPT_XRC_SEND)
		make_ring(&drv->rq, rq_entries,
			  16 + 16 * attr->cap.max_recv_sge);
}

int ibv_cmd_create_qp_ex(struct ibv_context *context, struct verbs_qp *vqp,
			 struct ibv_qp_init_attr_ex *attr,
			 struct ibv_create_qp *cmd, size_t cmd_size,
			 struct ib_uverbs_create_qp_resp *resp,
			 size_t resp_size)
{
	struct sroce_create_qp_resp *drv = (void *)(resp + 1);

	if (resp_size != sizeof(*resp) + sizeof(*drv) ||
	    cmd_size != sizeof(*cmd))
		abort();
	/* as the library does, which knows no others here */
	if (attr->comp_mask & ~(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
				IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		return EINVAL;
	make_qp(context, vqp, attr, drv);
	return 0;
}

static struct sroce_create_qp qp_asked;	/* by the latest create_qp_ex */

int ibv_cmd_create_qp_ex2(struct ibv_context *context, struct verbs_qp *vqp,
			  struct ibv_qp_init_attr_ex *attr,
			  struct ibv_create_qp_ex *cmd, size_t cmd_size,
			  struct ib_uverbs_ex_create_qp_resp *resp,
			  size_t resp_size, struct ibv_command_buffer *attrs)
{
	struct sroce_create_qp_resp *drv = (void *)(resp + 1);

	memset(&qp_asked, 0, sizeof(qp_asked));
	if (cmd_size > sizeof(*cmd))
		memcpy(&qp_asked, cmd + 1, sizeof(qp_asked));
	if (resp_size != sizeof(*resp) + sizeof(*drv))
		abort();
	make_qp(context, vqp, attr, drv);
	return 0;
}

/* libibverbs of any version: 352 is 44.0's place for it, 360 is 56.1's. */
struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	uint32_t comp_mask;

	memcpy(&comp_mask, (uint8_t *)qp + qp_ex_at, sizeof(comp_mask));
	return comp_mask & VERBS_QP_EX ? (struct ibv_qp_ex *)qp : NULL;
}

static int destroy_errno;

int ibv_cmd_destroy_qp(struct ibv_qp *qp)
{
	if (destroy_errno)
		return destroy_errno;
	leak--;
	return 0;
}

int ibv_cmd_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr,
		      int attr_mask, struct ibv_modify_qp *cmd, size_t cmd_size)
{
	struct sroce_qp *sqp = to_sqp(qp);

	if (attr->qp_state == IBV_QPS_RESET) {
		/* a thread that has seen no RESET yet posts before we are back */
		memset(sqp->sq.ring.ring, 0, sizeof(struct sroce_ring));
		sqp->sq.ring.ring->prod = sqp->sq.ring.prod + 1;
		if (sqp->rq.ring.ring) {
			memset(sqp->rq.ring.ring, 0, sizeof(struct sroce_ring));
			sqp->rq.ring.ring->prod = sqp->rq.ring.prod + 1;
		}
	}
	qp->state = attr->qp_state;
	return 0;
}

int ibv_cmd_modify_qp_ex(struct ibv_qp *qp, struct ibv_qp_attr *attr,
			 int attr_mask, struct ibv_modify_qp_ex *cmd,
			 size_t cmd_size,
			 struct ib_uverbs_ex_modify_qp_resp *resp,
			 size_t resp_size)
{
	return EOPNOTSUPP;
}

int ibv_dontfork_range(void *base, size_t size)
{
	return 0;
}

int ibv_dofork_range(void *base, size_t size)
{
	return 0;
}

static int logged;

void __verbs_log(struct verbs_context *vctx, uint32_t level, const char *fmt,
		 ...)
{
	logged++;
}

/* Shared receive queues and work queues. */

static uint32_t next_srqn = 5;

int ibv_cmd_create_srq(struct ibv_pd *pd, struct ibv_srq *srq,
		       struct ibv_srq_init_attr *attr,
		       struct ibv_create_srq *cmd, size_t cmd_size,
		       struct ib_uverbs_create_srq_resp *resp, size_t resp_size)
{
	struct sroce_create_srq_resp *drv = (void *)(resp + 1);

	if (resp_size != sizeof(*resp) + sizeof(*drv))
		abort();
	srq->context = pd->context;
	make_ring(&drv->srq, rq_entries, 16 + 16 * attr->attr.max_sge);
	leak++;
	return 0;
}

int ibv_cmd_create_srq_ex(struct ibv_context *context, struct verbs_srq *srq,
			  struct ibv_srq_init_attr_ex *attr,
			  struct ibv_create_xsrq *cmd, size_t cmd_size,
			  struct ib_uverbs_create_srq_resp *resp,
			  size_t resp_size)
{
	struct sroce_create_srq_resp *drv = (void *)(resp + 1);

	if (resp_size != sizeof(*resp) + sizeof(*drv))
		abort();
	srq->srq.context = context;
	srq->srq_type = attr->srq_type;
	srq->srq_num = next_srqn++;
	srq->cq = attr->cq;
	make_ring(&drv->srq, rq_entries, 16 + 16 * attr->attr.max_sge);
	leak++;
	return 0;
}

int ibv_cmd_destroy_srq(struct ibv_srq *srq)
{
	leak--;
	return 0;
}

/* A ring of other length that holds what is between the indices. */
static void resize_ring(struct sroce_ring_map *map, const struct sroce_ring *old,
			uint32_t old_entries, uint32_t entries,
			uint32_t entry_size)
{
	struct sroce_ring *new;
	uint32_t i;

	make_ring(map, entries, entry_size);
	new = (void *)(shm + map->offset);
	*new = *old;
	for (i = old->cons; i != old->prod; i++)
		memcpy((uint8_t *)(new + 1) + i % entries * entry_size,
		       (uint8_t *)(old + 1) + i % old_entries * entry_size,
		       entry_size);
}

static int resize_errno;

int ibv_cmd_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr,
		       int mask, struct ibv_modify_srq *cmd, size_t cmd_size)
{
	struct sroce_ring_view *v = &to_ssrq(ibsrq)->wq.ring;
	struct sroce_create_srq_resp *resp;
	struct sroce_modify_srq drv;

	if (resize_errno)
		return resize_errno;
	if (!(mask & IBV_SRQ_MAX_WR)) {
		CHECK(cmd_size == sizeof(*cmd));
		return 0;
	}
	CHECK(cmd_size == sizeof(*cmd) + sizeof(drv));
	memcpy(&drv, cmd + 1, sizeof(drv));
	resp = (void *)(uintptr_t)drv.resp_addr;
	resize_ring(&resp->srq, v->ring, v->num, attr->max_wr, v->entry_size);
	return 0;
}

static int notify_calls, notify_errno;

int ibv_cmd_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	notify_calls++;
	return notify_errno;
}

int ibv_cmd_resize_cq(struct ibv_cq *ibcq, int cqe, struct ibv_resize_cq *cmd,
		      size_t cmd_size, struct ib_uverbs_resize_cq_resp *resp,
		      size_t resp_size)
{
	struct sroce_resize_cq_resp *drv = (void *)(resp + 1);
	struct sroce_ring_view *v = &to_scq(ibcq)->ring;

	if (resp_size != sizeof(*resp) + sizeof(*drv))
		abort();
	if (resize_errno)
		return resize_errno;
	resize_ring(&drv->cq, v->ring, v->num, cqe, v->entry_size);
	/* Whoever goes on with the old one finds rubbish; not who could not go on. */
	if (!bend.entries)
		memset(v->ring, 0xee, v->map_size);
	ibcq->cqe = cqe;
	return 0;
}

int ibv_cmd_create_wq(struct ibv_context *context,
		      struct ibv_wq_init_attr *attr, struct ibv_wq *wq,
		      struct ibv_create_wq *cmd, size_t cmd_size,
		      struct ib_uverbs_ex_create_wq_resp *resp,
		      size_t resp_size)
{
	struct sroce_create_wq_resp *drv = (void *)(resp + 1);

	if (resp_size != sizeof(*resp) + sizeof(*drv))
		abort();
	wq->context = context;
	wq->cq = attr->cq;
	wq->wq_num = next_qpn++;
	make_ring(&drv->rq, rq_entries, 16 + 16 * attr->max_sge);
	leak++;
	return 0;
}

int ibv_cmd_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr,
		      struct ibv_modify_wq *cmd, size_t cmd_size)
{
	if (attr->wq_state == IBV_WQS_RESET)
		memset(to_srwq(wq)->rq.ring.ring, 0, sizeof(struct sroce_ring));
	wq->state = attr->wq_state;
	return 0;
}

int ibv_cmd_destroy_wq(struct ibv_wq *wq)
{
	leak--;
	return 0;
}

/* Domains, handles, memory. */

static int handle_pd;

int ibv_cmd_alloc_pd(struct ibv_context *context, struct ibv_pd *ibpd,
		     struct ibv_alloc_pd *cmd, size_t cmd_size,
		     struct ib_uverbs_alloc_pd_resp *resp, size_t resp_size)
{
	ibpd->context = context;
	ibpd->handle = ++handle_pd;
	leak++;
	return 0;
}

int ibv_cmd_dealloc_pd(struct ibv_pd *ibpd)
{
	leak--;
	return 0;
}

int ibv_cmd_create_ah(struct ibv_pd *ibpd, struct ibv_ah *ah,
		      struct ibv_ah_attr *attr,
		      struct ib_uverbs_create_ah_resp *resp, size_t resp_size)
{
	struct sroce_create_ah_resp drv = { .ah = 0x00abcdef };

	if (resp_size != sizeof(*resp) + sizeof(drv))
		abort();
	memcpy(resp + 1, &drv, sizeof(drv));
	ah->context = ibpd->context;
	leak++;
	return 0;
}

int ibv_cmd_destroy_ah(struct ibv_ah *ah)
{
	leak--;
	return 0;
}

int ibv_cmd_alloc_mw(struct ibv_pd *ibpd, enum ibv_mw_type type,
		     struct ibv_mw *mw, struct ibv_alloc_mw *cmd,
		     size_t cmd_size, struct ib_uverbs_alloc_mw_resp *resp,
		     size_t resp_size)
{
	mw->context = ibpd->context;
	mw->pd = ibpd;
	mw->rkey = 0x1234ff;
	mw->type = type;
	leak++;
	return 0;
}

int ibv_cmd_dealloc_mw(struct ibv_mw *mw)
{
	leak--;
	return 0;
}

int ibv_cmd_alloc_dm(struct ibv_context *context,
		     const struct ibv_alloc_dm_attr *attr, struct verbs_dm *dm,
		     struct ibv_command_buffer *link)
{
	dm->handle = 77;
	dm->dm.context = context;
	leak++;
	return 0;
}

int ibv_cmd_free_dm(struct verbs_dm *dm)
{
	leak--;
	return 0;
}

static int dm_regs;

int ibv_cmd_reg_dm_mr(struct ibv_pd *ibpd, struct verbs_dm *dm, uint64_t offset,
		      size_t length, unsigned int access, struct verbs_mr *vmr,
		      struct ibv_command_buffer *link)
{
	dm_regs++;
	return 0;
}

static int deregs;

int ibv_cmd_dereg_mr(struct verbs_mr *m)
{
	deregs++;
	return 0;
}

/* The sources refer to them; nothing here calls them. */
#define UNUSED(decl) decl { abort(); }
UNUSED(int ibv_cmd_query_device_any(struct ibv_context *c,
	const struct ibv_query_device_ex_input *i,
	struct ibv_device_attr_ex *a, size_t s,
	struct ib_uverbs_ex_query_device_resp *r, size_t *rs))
UNUSED(int ibv_cmd_query_port(struct ibv_context *c, uint8_t p,
	struct ibv_port_attr *a, struct ibv_query_port *cmd, size_t s))
UNUSED(int ibv_cmd_reg_mr(struct ibv_pd *p, void *a, size_t l, uint64_t v,
	int access, struct verbs_mr *m, struct ibv_reg_mr *cmd, size_t s,
	struct ib_uverbs_reg_mr_resp *r, size_t rs))
UNUSED(int ibv_cmd_rereg_mr(struct verbs_mr *m, uint32_t f, void *a, size_t l,
	uint64_t v, int access, struct ibv_pd *p, struct ibv_rereg_mr *cmd,
	size_t s, struct ib_uverbs_rereg_mr_resp *r, size_t rs))
UNUSED(int ibv_cmd_reg_dmabuf_mr(struct ibv_pd *p, uint64_t o, size_t l,
	uint64_t v, int fd, int access, struct verbs_mr *m,
	struct ibv_command_buffer *d))
UNUSED(int ibv_cmd_query_mr(struct ibv_pd *p, struct verbs_mr *m, uint32_t h))
UNUSED(int ibv_cmd_query_qp(struct ibv_qp *q, struct ibv_qp_attr *a, int m,
	struct ibv_qp_init_attr *i, struct ibv_query_qp *cmd, size_t s))
UNUSED(int ibv_cmd_open_qp(struct ibv_context *c, struct verbs_qp *q, int s,
	struct ibv_qp_open_attr *a, struct ibv_open_qp *cmd, size_t cs,
	struct ib_uverbs_create_qp_resp *r, size_t rs))
UNUSED(int ibv_cmd_modify_cq(struct ibv_cq *c, struct ibv_modify_cq_attr *a,
	struct ibv_modify_cq *cmd, size_t s))
UNUSED(int ibv_cmd_query_srq(struct ibv_srq *s, struct ibv_srq_attr *a,
	struct ibv_query_srq *cmd, size_t cs))
UNUSED(int ibv_cmd_open_xrcd(struct ibv_context *c, struct verbs_xrcd *x,
	int xs, struct ibv_xrcd_init_attr *a, struct ibv_open_xrcd *cmd,
	size_t s, struct ib_uverbs_open_xrcd_resp *r, size_t rs))
UNUSED(int ibv_cmd_close_xrcd(struct verbs_xrcd *x))
UNUSED(int ibv_cmd_create_flow(struct ibv_qp *q, struct ibv_flow *f,
	struct ibv_flow_attr *a, void *u, size_t s))
UNUSED(int ibv_cmd_destroy_flow(struct ibv_flow *f))
UNUSED(int ibv_cmd_create_rwq_ind_table(struct ibv_context *c,
	struct ibv_rwq_ind_table_init_attr *a, struct ibv_rwq_ind_table *t,
	struct ib_uverbs_ex_create_rwq_ind_table_resp *r, size_t rs))
UNUSED(int ibv_cmd_destroy_rwq_ind_table(struct ibv_rwq_ind_table *t))

/* What the doorbell gives the kernel, and what it gets for it. */
static struct {
	int rings;
	int eintr;		/* so many times first */
	int err;
	uint32_t qp_num;
	bool sends;		/* all that a datagram queue pair has posted, at once */
} db;

static struct sroce_dm_query_resp dm_resp;

static int query_dm(const struct ib_uverbs_attr *attr, uint16_t method)
{
	CHECK(method == SROCE_METHOD_DM_QUERY);
	CHECK(attr[0].attr_id == SROCE_ATTR_DM_QUERY_HANDLE);
	CHECK(attr[0].data == 77);
	CHECK(attr[1].attr_id == SROCE_ATTR_DM_QUERY_RESP);
	CHECK(attr[1].len == sizeof(dm_resp));
	memcpy((void *)(uintptr_t)attr[1].data, &dm_resp, sizeof(dm_resp));
	return 0;
}

/* What an operation on tags gives the kernel, and what it gets for it. */
static struct {
	int calls, err;
	size_t len;
	union {
		struct sroce_tm_op op;
		uint8_t room[1024];
	};
} tm;

static int run_tm_op(const struct ib_uverbs_attr *attr, uint16_t method)
{
	CHECK(method == SROCE_METHOD_TM_OP);
	CHECK(attr[0].attr_id == SROCE_ATTR_TM_OP_HANDLE);
	CHECK(attr[0].data == 88);
	CHECK(attr[1].attr_id == SROCE_ATTR_TM_OP_CMD);
	CHECK(attr[1].len <= sizeof(tm.room));
	CHECK(attr[2].attr_id == SROCE_ATTR_TM_OP_RESP && attr[2].len == 4);
	tm.calls++;
	tm.len = attr[1].len;
	memcpy(tm.room, (void *)(uintptr_t)attr[1].data, attr[1].len);
	*(uint32_t *)(uintptr_t)attr[2].data = 0x1234567;
	return tm.err;
}

int execute_ioctl(struct ibv_context *context, struct ibv_command_buffer *cmd)
{
	struct ib_uverbs_attr *attr = cmd->hdr.attrs;
	struct sroce_doorbell body;
	struct sroce_qp *qp;

	if (cmd->hdr.object_id == UVERBS_OBJECT_DM)
		return query_dm(attr, cmd->hdr.method_id);
	if (cmd->hdr.object_id == UVERBS_OBJECT_SRQ)
		return run_tm_op(attr, cmd->hdr.method_id);

	if (db.eintr) {
		db.eintr--;
		return EINTR;
	}
	db.rings++;
	CHECK(context == &ctx.vctx.context);
	CHECK(cmd->hdr.object_id == UVERBS_OBJECT_DEVICE);
	CHECK(cmd->hdr.method_id == SROCE_METHOD_DOORBELL);
	CHECK(cmd->next_attr - attr == 1);
	CHECK(attr[0].attr_id == SROCE_ATTR_DOORBELL && attr[0].len == sizeof(body));
	memcpy(&body, &attr[0].data, sizeof(body));
	CHECK(!body.reserved);
	db.qp_num = body.qp_num;
	for (qp = db.sends ? ctx.ud_qps : NULL; qp; qp = qp->ud_next)
		if (qp->vqp.qp.qp_num == body.qp_num)
			qp->sq.ring.ring->cons = qp->sq.ring.ring->prod;
	return db.err;
}

/* Objects to test with. */

static struct sroce_pd spd = { .ibpd.context = &ctx.vctx.context };
static struct ibv_pd *const pd = &spd.ibpd;

static struct sroce_cq *new_cq(void)
{
	struct ibv_cq *cq = sroce_create_cq(pd->context, 1, NULL, 0);

	return cq ? to_scq(cq) : NULL;
}

static struct sroce_qp *new_qp_type(struct sroce_cq *scq, struct sroce_cq *rcq,
				    enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = &scq->vcq.cq, .recv_cq = &rcq->vcq.cq,
		.cap = { .max_send_wr = sq_wrs, .max_recv_wr = 1, .max_send_sge = 32,
			 .max_recv_sge = 3, .max_inline_data = 528 },
		.qp_type = type,
	};
	struct ibv_qp *qp = sroce_create_qp(pd, &attr);

	if (!qp)
		return NULL;
	to_sqp(qp)->state = IBV_QPS_RTS;
	return to_sqp(qp);
}

static struct sroce_qp *new_qp(struct sroce_cq *scq, struct sroce_cq *rcq)
{
	return new_qp_type(scq, rcq, IBV_QPT_RC);
}

static void drop_qp(struct sroce_qp *qp)
{
	CHECK(!sroce_destroy_qp(&qp->vqp.qp));
}

static void drop_cq(struct sroce_cq *cq)
{
	CHECK(!sroce_destroy_cq(&cq->vcq.cq));
}

/* Let all the indices of a work queue begin at @index. */
static void start_wq(struct sroce_wq *wq, uint32_t index)
{
	wq->ring.prod = wq->ring.cons = index;
	wq->retired = 0;
	if (wq->posted)
		*sroce_wq_posted(wq, index) = 0;
	wq->ring.ring->prod = wq->ring.ring->cons = index;
}

static void start_cq(struct sroce_cq *cq, uint32_t index)
{
	cq->ring.cons = index;
	cq->ring.ring->prod = cq->ring.ring->cons = index;
}

/* The kernel completes. */
static void complete(struct sroce_cq *cq, uint32_t qpn, uint8_t opcode,
		     uint64_t wr_id, uint32_t wqe_next)
{
	struct sroce_ring *ring = cq->ring.ring;
	uint32_t prod = ring->prod;
	struct sroce_cqe *cqe;

	if (prod - __atomic_load_n(&ring->cons, __ATOMIC_ACQUIRE) >=
	    cq->ring.num)
		abort();
	cqe = (struct sroce_cqe *)(ring + 1) + prod % cq->ring.num;
	memset(cqe, 0, sizeof(*cqe));
	cqe->wr_id = wr_id;
	cqe->qp_num = qpn;
	cqe->opcode = opcode;
	cqe->wqe_next = wqe_next;
	__atomic_store_n(&ring->prod, prod + 1, __ATOMIC_RELEASE);
}

static int poll1(struct sroce_cq *cq, struct ibv_wc *wc)
{
	return sroce_poll_cq(&cq->vcq.cq, 1, wc);
}

static int post1(struct sroce_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	int ret = sroce_post_send(&qp->vqp.qp, wr, &bad);

	CHECK(!ret == !bad);
	return ret;
}

static uint32_t rnd(void)
{
	static uint32_t x = 1;

	return x = x * 1664525 + 1013904223;
}

static uint32_t pick(uint32_t n)
{
	return (uint64_t)rnd() * n >> 32;
}

/*
 * Run one post at @index of a ring full of a pattern, and take apart what it
 * left there. Nothing outside the request's blocks may have changed.
 */
static struct sroce_send_wqe head;
static uint8_t data[SROCE_SQ_MAX_BLOCKS * SROCE_SQ_BLOCK];

static int post_at(struct sroce_qp *qp, uint32_t index, struct ibv_send_wr *wr)
{
	struct sroce_ring *ring = qp->sq.ring.ring;
	size_t size = (size_t)sq_blocks * SROCE_SQ_BLOCK;
	uint8_t *mem = (uint8_t *)(ring + 1);
	size_t tail = qp->sq.ring.map_size - sizeof(*ring) - size;
	size_t at = (size_t)(index % sq_blocks) * SROCE_SQ_BLOCK;
	size_t i, len;
	int ret;

	start_wq(&qp->sq, index);
	memset(mem, 0xa5, size + tail);
	ret = post1(qp, wr);
	len = (size_t)(ring->prod - index) * SROCE_SQ_BLOCK;
	CHECK(!ret == !!len);
	CHECK(len <= sizeof(data));

	for (i = 0; i < sizeof(head); i++)
		((uint8_t *)&head)[i] = mem[(at + i) % size];
	for (i = 48; i < len; i++)
		data[i - 48] = mem[(at + i) % size];
	for (i = len; i < size; i++)
		if (mem[(at + i) % size] != 0xa5)
			break;
	CHECK(i == size);
	for (i = 0; i < tail; i++)
		if (mem[size + i] != 0xa5)
			break;
	CHECK(i == tail);
	if (!ret)
		CHECK(head.num_blocks * 64u == len);
	return ret;
}

/*
 * Which opcodes a queue pair takes from a list of requests, from the tables of
 * IBTA 10.7.2 and of ibv_post_send(3): bit n is opcode n.
 */
static uint32_t opcodes_of(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
	case IBV_QPT_XRC_SEND:
		return 0x83ff;	/* 0 to 9, and ATOMIC_WRITE */
	case IBV_QPT_UC:
		return 0x018f;	/* WRITE, SEND, LOCAL_INV, BIND_MW */
	case IBV_QPT_UD:
		return 0x000c;	/* SEND with and without immediate data */
	case IBV_QPT_RAW_PACKET:
		return 0x0004;	/* SEND */
	default:
		return 0;
	}
}

static void check_opcode(struct sroce_qp *qp, int op, struct ibv_ah *ah,
			 struct ibv_mw *mw)
{
	struct ibv_sge sge = { .addr = 0x1122334455667788, .length = 7,
			       .lkey = 0x99aabbcc };
	struct ibv_mr mr = { .lkey = 0x4444 };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = op,
				  .wr_id = 0xdeadbeefcafe0001,
				  .imm_data = 0x01020304,
				  .send_flags = op % 8 };
	int imm = op == 1 || op == 3, inv = op == 7 || op == 9;
	int rdma = op == 0 || op == 1 || op == 4 || op == 15;
	int atomic = op == 5 || op == 6, bind = op == 8;
	int list = op != 7 && op != 8;
	enum ibv_qp_type type = qp->vqp.qp.qp_type;
	int xrc = type == IBV_QPT_XRC_SEND;
	uint8_t want[48] = {};
	uint16_t sges = list;
	uint32_t word;
	uint64_t quad;

	if (rdma || atomic) {
		memset(&wr.wr, 0x77, sizeof(wr.wr));
		wr.wr.rdma.remote_addr = 0x1000000000000001;
		wr.wr.rdma.rkey = 0x1001;
	}
	if (atomic) {
		wr.wr.atomic.rkey = 0x1001;
		wr.wr.atomic.compare_add = 0x2000000000000002;
		wr.wr.atomic.swap = 0x3000000000000003;
	}
	if (type == IBV_QPT_UD) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = 0x123456;
		wr.wr.ud.remote_qkey = 0x80000001;
	}
	wr.qp_type.xrc.remote_srqn = 0x5150;
	if (bind) {
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = 0x1234aa;
		wr.bind_mw.bind_info.mr = &mr;
		wr.bind_mw.bind_info.addr = 0x6000000000000006;
		wr.bind_mw.bind_info.length = 0x7000000000000007;
		wr.bind_mw.bind_info.mw_access_flags = 0x23;
	}

	if (op >= 32 || !(opcodes_of(type) & 1U << op)) {
		CHECK(post_at(qp, op, &wr) == EINVAL);
		return;
	}
	CHECK(post_at(qp, op, &wr) == 0);

#define PUT(at, val) memcpy(want + (at), &(val), sizeof(val))
	PUT(0, wr.wr_id);
	want[8] = op;
	want[9] = 1;
	want[10] = op % 8;
	want[11] = sges;
	word = imm || inv ? 0x01020304 : xrc && atomic ? 0x5150 : 0;
	PUT(16, word);
	word = rdma || atomic ? 0x1001 : bind ? 0x1234aa : 0;
	PUT(20, word);
	if (rdma || atomic)
		PUT(24, wr.wr.rdma.remote_addr);
	if (atomic)
		PUT(32, wr.wr.atomic.compare_add);
	if (op == 5)
		PUT(40, wr.wr.atomic.swap);
	else if (xrc && !atomic && op != 7 && !bind)
		PUT(40, wr.qp_type.xrc.remote_srqn);
	if (bind) {
		quad = 0x6000000000000006;
		PUT(24, quad);
		quad = 0x7000000000000007;
		PUT(32, quad);
		PUT(40, mr.lkey);
		word = 0x23;
		PUT(44, word);
	}
	if (type == IBV_QPT_UD) {
		word = 0x00abcdef;
		PUT(24, word);
		PUT(28, wr.wr.ud.remote_qpn);
		PUT(32, wr.wr.ud.remote_qkey);
	}
#undef PUT
	CHECK(!memcmp(&head, want, sizeof(want)));
	if (broken)
		printf("# opcode %d, queue pair type %d\n", op, type);
	if (!list)
		return;
	CHECK(!memcmp(data, &sge.addr, 8));
	CHECK(!memcmp(data + 8, &sge.length, 4));
	CHECK(!memcmp(data + 12, &sge.lkey, 4));
}

/* All that can be posted to */
static const enum ibv_qp_type types[] = {
	IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND, IBV_QPT_RAW_PACKET,
};

static void test_opcodes(struct sroce_cq *cq)
{
	struct ibv_ah_attr attr = {};
	struct ibv_ah *ah = sroce_create_ah(pd, &attr);
	struct ibv_mw *mw = sroce_alloc_mw(pd, IBV_MW_TYPE_2);
	struct ibv_mw *mw1 = sroce_alloc_mw(pd, IBV_MW_TYPE_1);
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW };
	struct ibv_mw_bind bind = { .wr_id = 8, .send_flags = 2 };
	struct ibv_mr mr = { .lkey = 9 };
	struct sroce_qp *qp;
	unsigned int i;
	int op;

	for (i = 0; i < 5; i++) {
		qp = new_qp_type(cq, cq, types[i]);
		CHECK(!!qp->rq.ring.num == (types[i] != IBV_QPT_XRC_SEND));
		for (op = 0; op < 40; op++)
			check_opcode(qp, op, ah, mw);
		drop_qp(qp);
	}
	done("the header of every opcode on every kind of queue pair");

	qp = new_qp(cq, cq);
	wr.bind_mw.mw = mw1;
	CHECK(post_at(qp, 0, &wr) == EINVAL);
	wr.bind_mw.mw = mw;
	wr.send_flags = IBV_SEND_INLINE;
	CHECK(post_at(qp, 0, &wr) == EINVAL);
	wr.send_flags = 0;
	wr.bind_mw.bind_info.length = 1;
	CHECK(post_at(qp, 0, &wr) == EINVAL);
	wr.bind_mw.bind_info.length = 0;
	CHECK(post_at(qp, 0, &wr) == 0 && head.num_blocks == 1);
	CHECK(!head.bind_lkey && !head.bind_len);

	start_wq(&qp->sq, 0);
	bind.bind_info.mr = &mr;
	bind.bind_info.length = 5;
	CHECK(mw1->rkey == 0x1234ff);
	CHECK(sroce_bind_mw(&qp->vqp.qp, mw, &bind) == EINVAL);
	bind.bind_info.mw_access_flags = IBV_ACCESS_ZERO_BASED;
	CHECK(sroce_bind_mw(&qp->vqp.qp, mw1, &bind) == EINVAL);
	bind.bind_info.mw_access_flags = 0;
	CHECK(mw1->rkey == 0x1234ff && !qp->sq.ring.prod);
	CHECK(sroce_bind_mw(&qp->vqp.qp, mw1, &bind) == 0);
	memcpy(&head, qp->sq.ring.entries, sizeof(head));
	CHECK(mw1->rkey == 0x123400 && head.rkey == 0x123400);
	CHECK(head.opcode == IBV_WR_BIND_MW && head.bind_lkey == 9);
	CHECK(head.wr_id == 8 && head.flags == 2 && head.bind_len == 5);
	drop_qp(qp);
	CHECK(!sroce_dealloc_mw(mw) && !sroce_dealloc_mw(mw1));
	CHECK(!sroce_destroy_ah(ah));
	done("windows: type 2 by request, type 1 by ibv_bind_mw()");
}

static void test_refusals(struct sroce_qp *qp)
{
	static uint8_t buf[600];
	struct ibv_sge sge[33] = {};
	struct ibv_send_wr wr = { .sg_list = sge, .num_sge = 1,
				  .opcode = IBV_WR_SEND };
	enum ibv_qp_state s;

	wr.num_sge = -1;
	CHECK(post_at(qp, 0, &wr) == EINVAL);
	wr.num_sge = 33;
	CHECK(post_at(qp, 0, &wr) == EINVAL);
	qp->sq.max_sge = 4;
	wr.num_sge = 5;
	CHECK(post_at(qp, 0, &wr) == EINVAL);
	wr.num_sge = 4;
	CHECK(post_at(qp, 0, &wr) == 0);
	qp->sq.max_sge = 32;

	sge[0].addr = (uintptr_t)buf;
	wr.num_sge = 1;
	wr.send_flags = IBV_SEND_INLINE;
	sge[0].length = 529;
	CHECK(post_at(qp, 0, &wr) == EINVAL);
	sge[0].length = 528;
	CHECK(post_at(qp, 0, &wr) == 0);
	qp->max_inline = 100;
	CHECK(post_at(qp, 0, &wr) == EINVAL);
	qp->max_inline = 528;
	wr.num_sge = 2;
	sge[0].length = sge[1].length = 0x80000008;
	CHECK(post_at(qp, 0, &wr) == EINVAL);
	wr.num_sge = 1;
	sge[0].length = 8;
	wr.opcode = IBV_WR_RDMA_READ;
	CHECK(post_at(qp, 0, &wr) == EINVAL);
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	CHECK(post_at(qp, 0, &wr) == EINVAL);
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = IBV_SEND_IP_CSUM;
	CHECK(post_at(qp, 0, &wr) == EINVAL);
	wr.send_flags = 0x100 | IBV_SEND_SIGNALED;
	CHECK(post_at(qp, 0, &wr) == EINVAL);

	wr.send_flags = 0;
	for (s = IBV_QPS_RESET; s <= IBV_QPS_ERR; s++) {
		qp->state = s;
		CHECK(post_at(qp, 0, &wr) == (s < IBV_QPS_RTS ? EINVAL : 0));
	}
	qp->state = IBV_QPS_RTS;
	/* a query that was answered before it became so, and came back later */
	qp->vqp.qp.state = IBV_QPS_RTR;
	CHECK(post_at(qp, 0, &wr) == 0);
	qp->vqp.qp.state = IBV_QPS_RTS;
	wr.wr_id = 0xffffffffffffffff;
	qp->sq_sig_all = true;
	CHECK(post_at(qp, 0, &wr) == 0 && head.flags == SROCE_WQE_SIGNALED);
	qp->sq_sig_all = false;
	done("states, list lengths, inline lengths and flags");
}

static void test_data(struct sroce_qp *qp)
{
	static const uint32_t base[] = { 0, 0x7fffffe0, 0xffffffe0 };
	uint8_t buf[600], want[600];
	struct ibv_sge sge[32];
	struct ibv_send_wr wr = { .sg_list = sge, .opcode = IBV_WR_SEND };
	uint32_t b, i, k, n, off;

	for (b = 0; b < 3; b++)
		for (i = 0; i < 2 * sq_blocks; i++)
			for (n = 0; n <= 32; n++) {
				uint32_t at = base[b] + i;

				wr.num_sge = n;
				for (k = 0; k < n; k++)
					sge[k] = (struct ibv_sge){
						.addr = (uint64_t)rnd() << 32 | k,
						.length = rnd(), .lkey = rnd() };
				CHECK(post_at(qp, at, &wr) == 0);
				CHECK(head.num_blocks ==
				      (n <= 1 ? 1 : (n + 3 + 3) / 4));
				CHECK(head.num_sge == n);
				for (k = 0; k < n; k++) {
					struct sroce_sge s;

					memcpy(&s, data + 16 * k, 16);
					CHECK(s.addr == sge[k].addr &&
					      s.length == sge[k].length &&
					      s.lkey == sge[k].lkey);
				}
			}
	done("lists of 0 to 32 entries at every place of the ring");

	wr.send_flags = IBV_SEND_INLINE;
	for (b = 0; b < 3; b++)
		for (n = 0; n <= 528; n++) {
			uint32_t at = base[b] + pick(2 * sq_blocks);

			for (k = 0; k < n; k++)
				buf[k] = rnd() >> 24;
			wr.num_sge = 1 + pick(32);
			for (off = k = 0; k < (uint32_t)wr.num_sge; k++) {
				uint32_t len = k + 1 == (uint32_t)wr.num_sge ?
					       n - off : pick(n - off + 1) / 2;

				sge[k].addr = len ? (uintptr_t)buf + off : 0;
				sge[k].length = len;
				memcpy(want + off, buf + off, len);
				off += len;
			}
			CHECK(post_at(qp, at, &wr) == 0);
			CHECK(head.inline_len == n && head.num_sge == 0);
			CHECK(head.flags == SROCE_WQE_INLINE);
			CHECK(head.num_blocks ==
			      (n <= 16 ? 1 : 1 + (n - 16 + 63) / 64));
			CHECK(!memcmp(data, want, n));
		}
	done("0 to 528 bytes inline, in pieces, across the end of the ring");
}

/* Of a queue with @most requests, in as many blocks or more */
static void test_space(struct sroce_qp *qp, struct sroce_cq *cq, uint32_t most)
{
	struct ibv_sge sge[32] = {};
	struct ibv_send_wr wr = { .sg_list = sge, .opcode = IBV_WR_SEND };
	struct { uint32_t next; uint64_t id; } fifo[64];
	uint32_t head_ = 0, tail = 0, used = 0, oldest = 0xfffffff0;
	uint64_t id = 0;
	struct ibv_wc wc;
	int i, ret, full = 0, many = 0;

	start_wq(&qp->sq, 0xfffffff0);
	start_cq(cq, 0xfffffff8);
	for (i = 0; i < 20000; i++) {
		if (pick(100) < 60) {
			uint32_t n = pick(most < sq_blocks ? 3 : 33);
			uint32_t blocks = n <= 1 ? 1 : (n + 6) / 4;

			wr.num_sge = n;
			wr.wr_id = id;
			ret = post1(qp, &wr);
			CHECK(ret == (used + blocks > sq_blocks ||
				      tail - head_ == most ? ENOMEM : 0));
			full += !!ret;
			many += tail - head_ == most;
			if (!ret) {
				used += blocks;
				fifo[tail % 64].next = qp->sq.ring.prod;
				fifo[tail++ % 64].id = id++;
			}
			/* The kernel's cons is not what frees. */
			qp->sq.ring.ring->cons = qp->sq.ring.prod;
		} else if (head_ != tail) {
			/* Unsignaled ones complete with a later one. */
			head_ += pick(tail - head_);
			complete(cq, qp->sq.key, IBV_WC_SEND,
				 fifo[head_ % 64].id, fifo[head_ % 64].next);
			CHECK(poll1(cq, &wc) == 1);
			CHECK(wc.wr_id == fifo[head_ % 64].id);
			used -= fifo[head_ % 64].next - oldest;
			oldest = fifo[head_++ % 64].next;
		}
		CHECK(qp->sq.ring.prod - qp->sq.ring.cons == used);
	}
	CHECK(full > 100 && qp->sq.ring.prod < 0xfffffff0);
	CHECK((many > 100) == (most < sq_blocks));
	done("room is given back by polling, and never more than there is");
	if (most < sq_blocks)
		return;

	/* What a stray store left must not free anything. */
	start_wq(&qp->sq, 5);
	wr.num_sge = 32;
	CHECK(post1(qp, &wr) == 0);
	complete(cq, qp->sq.key, IBV_WC_SEND, 1, 4);
	complete(cq, qp->sq.key, IBV_WC_SEND, 1, 15);
	complete(cq, qp->sq.key, IBV_WC_SEND, 1, 0x80000000);
	for (i = 0; i < 3; i++)
		CHECK(poll1(cq, &wc) == 1 && qp->sq.ring.cons == 5);
	complete(cq, qp->sq.key, IBV_WC_SEND, 1, 14);
	CHECK(poll1(cq, &wc) == 1 && qp->sq.ring.cons == 14);
	done("an index that is not in the queue frees nothing");
}

/* Fewer requests than there are blocks */
static void test_few(struct sroce_cq *cq)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct ibv_qp_init_attr_ex ia = {
		.send_cq = &cq->vcq.cq, .recv_cq = &cq->vcq.cq,
		.cap = { .max_send_wr = 3, .max_send_sge = 1 },
		.qp_type = IBV_QPT_RC, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp *ibqp = sroce_create_qp_ex(pd->context, &ia);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(ibqp);
	struct sroce_qp *qp = to_sqp(ibqp);
	int i, round;

	for (round = 0; round < 2; round++) {
		qp->state = IBV_QPS_RTS;
		for (i = 0; i < 20; i++) {
			ibv_wr_start(ex);
			ibv_wr_send(ex);
			ibv_wr_send(ex);
			ibv_wr_abort(ex);
		}
		ibv_wr_start(ex);
		ibv_wr_send(ex);
		ibv_wr_send(ex);
		CHECK(!ibv_wr_complete(ex));
		ibv_wr_start(ex);
		ibv_wr_send(ex);
		ibv_wr_send(ex);
		CHECK(ibv_wr_complete(ex) == ENOMEM);
		CHECK(!post1(qp, &wr) && post1(qp, &wr) == ENOMEM);
		CHECK(qp->sq.ring.prod == 3);
		CHECK(!sroce_modify_qp(ibqp, &attr, IBV_QP_STATE));
	}
	drop_qp(qp);
	done("requests that are given up, and those before a reset, do not count");
}

static void test_list(struct sroce_qp *qp)
{
	struct ibv_sge sge = {};
	struct ibv_send_wr wr[4], *bad;
	struct sroce_ring *ring = qp->sq.ring.ring;
	int i;

	for (i = 0; i < 4; i++)
		wr[i] = (struct ibv_send_wr){ .sg_list = &sge, .num_sge = 1,
			.opcode = IBV_WR_SEND, .next = i < 3 ? wr + i + 1 : NULL };

	start_wq(&qp->sq, 0);
	memset(&db, 0, sizeof(db));
	ring->flags = 0;
	bad = NULL;
	CHECK(!sroce_post_send(&qp->vqp.qp, wr, &bad) && !bad);
	CHECK(ring->prod == 4 && !db.rings);

	ring->flags = ~(SROCE_RING_NEED_WAKEUP | SROCE_RING_LINGER);
	CHECK(!sroce_post_send(&qp->vqp.qp, wr, &bad) && !db.rings);

	ring->flags = SROCE_RING_NEED_WAKEUP;
	CHECK(!sroce_post_send(&qp->vqp.qp, wr, &bad) && !bad);
	CHECK(ring->prod == 12 && db.rings == 1 && db.qp_num == qp->sq.key);

	start_wq(&qp->sq, 0);
	wr[2].opcode = 99;
	CHECK(sroce_post_send(&qp->vqp.qp, wr, &bad) == EINVAL);
	CHECK(bad == wr + 2 && ring->prod == 2 && db.rings == 2);
	wr[0].opcode = 99;
	CHECK(sroce_post_send(&qp->vqp.qp, wr, &bad) == EINVAL);
	CHECK(bad == wr && ring->prod == 2 && db.rings == 2);
	wr[0].opcode = wr[2].opcode = IBV_WR_SEND;

	start_wq(&qp->sq, sq_blocks - 3);
	qp->sq.ring.cons = 0;
	CHECK(sroce_post_send(&qp->vqp.qp, wr, &bad) == ENOMEM);
	CHECK(bad == wr + 3 && ring->prod == sq_blocks);
	done("a list: one index, one doorbell, and those before a bad one");

	/* The doorbell's ways to fail. */
	start_wq(&qp->sq, 0);
	memset(&db, 0, sizeof(db));
	db.eintr = 3;
	CHECK(!sroce_post_send(&qp->vqp.qp, wr, &bad) && db.rings == 1);
	db.err = EIO;
	bad = NULL;
	CHECK(sroce_post_send(&qp->vqp.qp, wr, &bad) == EIO && bad == wr);
	memset(&db, 0, sizeof(db));
	ring->flags = 0;
	done("doorbell: interrupted, device gone");
}

/* Doorbells that are put off are rung by a poller that finds nothing, once. */
static void test_linger(struct sroce_qp *qp, struct sroce_cq *cq)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	struct sroce_ring *ring = qp->sq.ring.ring;
	struct ibv_wc wc;
	int i;

	start_wq(&qp->sq, 0xfffffffe);
	memset(&db, 0, sizeof(db));
	ring->flags = SROCE_RING_LINGER;
	ring->seen = 0xfffffffe;
	ring->linger = 4;
	for (i = 0; i < 3; i++)
		CHECK(!sroce_post_send(&qp->vqp.qp, &wr, &bad) && !db.rings);
	CHECK(!sroce_post_send(&qp->vqp.qp, &wr, &bad) && db.rings == 1);
	done("so many entries behind what was seen, and it is rung");

	/* the kernel has seen none of them, then all */
	CHECK(!sroce_poll_cq(&cq->vcq.cq, 1, &wc) && db.rings == 2);
	CHECK(db.qp_num == qp->sq.key && !cq->held);
	CHECK(!sroce_poll_cq(&cq->vcq.cq, 1, &wc) && db.rings == 2);
	ring->seen = ring->prod;
	CHECK(!sroce_post_send(&qp->vqp.qp, &wr, &bad) && db.rings == 2);
	complete(cq, qp->sq.key, IBV_WC_SEND, 0, 0xffffffff);
	CHECK(sroce_poll_cq(&cq->vcq.cq, 1, &wc) == 1 && db.rings == 2);
	ring->seen = ring->prod;
	CHECK(!sroce_poll_cq(&cq->vcq.cq, 1, &wc) && db.rings == 2);
	CHECK(!sroce_post_send(&qp->vqp.qp, &wr, &bad) && cq->held);
	ring->flags = 0;
	CHECK(!sroce_poll_cq(&cq->vcq.cq, 1, &wc) && db.rings == 2);
	done("a poller that finds nothing rings for what was not seen");

	ring->flags = SROCE_RING_LINGER;
	CHECK(!sroce_post_send(&qp->vqp.qp, &wr, &bad) && cq->held);
	sroce_forget_held(cq, &qp->held_send);
	CHECK(!cq->held);
	CHECK(!sroce_poll_cq(&cq->vcq.cq, 1, &wc) && db.rings == 2);
	CHECK(!sroce_post_send(&qp->vqp.qp, &wr, &bad) && cq->held);
	sroce_forget_held(cq, &qp->held_recv);
	CHECK(cq->held == &qp->held_send);
	CHECK(!sroce_poll_cq(&cq->vcq.cq, 1, &wc) && db.rings == 3);
	ring->flags = 0;
	memset(&db, 0, sizeof(db));
	done("a queue pair that goes is not rung for");
}

/* With a ring for numbers, queue pairs share a doorbell when the kernel says so. */
static void test_bells(struct sroce_cq *cq)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	struct sroce_qp *qp[3] = { new_qp(cq, cq), new_qp(cq, cq), new_qp(cq, cq) };
	struct sroce_ring_map map = {};
	struct sroce_ring *bells;
	uint32_t *entry;
	struct ibv_wc wc;
	uint32_t i;

	make_ring(&map, 4, sizeof(uint32_t));
	CHECK(!sroce_bells_open(&ctx, &map));
	bells = ctx.bells.ring;
	entry = (uint32_t *)(bells + 1);
	bells->prod = bells->cons = bells->seen = ctx.bells.prod = 0xfffffffe;
	bells->linger = 3;
	memset(&db, 0, sizeof(db));
	for (i = 0; i < 3; i++) {
		start_wq(&qp[i]->sq, 0);
		qp[i]->sq.ring.ring->flags = SROCE_RING_NEED_WAKEUP;
	}

	bells->flags = SROCE_RING_NEED_WAKEUP;
	CHECK(!sroce_post_send(&qp[0]->vqp.qp, &wr, &bad) && db.rings == 1);
	CHECK(db.qp_num == qp[0]->sq.key && bells->prod == 0xfffffffe);
	bells->flags = SROCE_RING_LINGER;
	for (i = 0; i < 2; i++)
		CHECK(!sroce_post_send(&qp[i]->vqp.qp, &wr, &bad) && db.rings == 1);
	CHECK(!bells->prod && entry[2] == qp[0]->sq.key && entry[3] == qp[1]->sq.key);
	CHECK(!sroce_post_send(&qp[2]->vqp.qp, &wr, &bad) && db.rings == 2);
	CHECK(db.qp_num == SROCE_DOORBELL_BELLS && bells->prod == 1 && entry[0] == qp[2]->sq.key);
	done("queue pairs whose numbers wait, and the one that rings for all");

	bells->cons = bells->seen = 1;
	CHECK(!sroce_poll_cq(&cq->vcq.cq, 1, &wc) && db.rings == 2);
	CHECK(!sroce_post_send(&qp[1]->vqp.qp, &wr, &bad) && db.rings == 2);
	complete(cq, qp[1]->sq.key, IBV_WC_SEND, 0, 1);
	CHECK(sroce_poll_cq(&cq->vcq.cq, 1, &wc) == 1 && db.rings == 2);
	CHECK(!sroce_poll_cq(&cq->vcq.cq, 1, &wc) && db.rings == 3);
	CHECK(db.qp_num == SROCE_DOORBELL_BELLS);
	done("a poller that finds nothing rings for them, too");

	/* one of them lingers itself: the others' numbers go along with it */
	bells->cons = bells->seen = bells->prod;
	qp[0]->sq.ring.ring->flags = SROCE_RING_LINGER;
	qp[0]->sq.ring.ring->linger = 9;
	CHECK(!sroce_post_send(&qp[0]->vqp.qp, &wr, &bad));
	CHECK(!sroce_post_send(&qp[1]->vqp.qp, &wr, &bad) && db.rings == 3);
	CHECK(!sroce_poll_cq(&cq->vcq.cq, 1, &wc) && db.rings == 4);
	CHECK(db.qp_num == qp[0]->sq.key);
	/* and of several, all but one are put there */
	bells->cons = bells->seen = bells->prod;
	qp[1]->sq.ring.ring->flags = SROCE_RING_LINGER;
	qp[1]->sq.ring.ring->linger = 9;
	CHECK(!sroce_post_send(&qp[0]->vqp.qp, &wr, &bad));
	CHECK(!sroce_post_send(&qp[1]->vqp.qp, &wr, &bad) && db.rings == 4);
	CHECK(!sroce_poll_cq(&cq->vcq.cq, 1, &wc) && db.rings == 5);
	CHECK(bells->prod - bells->cons == 1);
	CHECK(entry[(bells->prod - 1) % 4] + db.qp_num == qp[0]->sq.key + qp[1]->sq.key);
	done("many that linger share a doorbell");

	/* no room, another thread at it, no ring: it is rung at once */
	qp[2]->sq.ring.ring->seen = qp[2]->sq.ring.ring->prod;
	bells->linger = 99;
	bells->cons = bells->prod - 4;
	CHECK(!sroce_post_send(&qp[2]->vqp.qp, &wr, &bad) && db.rings == 6);
	CHECK(db.qp_num == qp[2]->sq.key && bells->prod - bells->cons == 4);
	bells->cons = bells->prod;
	ctx.bells_busy = true;
	CHECK(!sroce_post_send(&qp[2]->vqp.qp, &wr, &bad) && db.rings == 7);
	ctx.bells_busy = false;
	sroce_unmap_ring(&ctx.bells);
	memset(&ctx.bells, 0, sizeof(ctx.bells));
	CHECK(!sroce_post_send(&qp[2]->vqp.qp, &wr, &bad) && db.rings == 8);
	for (i = 0; i < 3; i++) {
		qp[i]->sq.ring.ring->flags = 0;
		drop_qp(qp[i]);
	}
	memset(&db, 0, sizeof(db));
	done("no room, another thread, no ring: it is rung at once");
}

/* A child shares its parent's ring of numbers, but not the index: it rings by itself. */
static void test_bells_fork(struct sroce_cq *cq)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	struct sroce_qp *qp[2] = { new_qp(cq, cq), new_qp(cq, cq) };
	uint32_t i, *entry, num[2] = { qp[0]->sq.key, qp[1]->sq.key };
	struct sroce_ring_map map = {};
	struct sroce_ring *bells;
	struct ibv_wc wc;
	int status;
	pid_t pid;

	make_ring(&map, 8, sizeof(uint32_t));
	CHECK(!sroce_bells_open(&ctx, &map));
	bells = ctx.bells.ring;
	entry = (uint32_t *)(bells + 1);
	bells->linger = 99;
	bells->flags = SROCE_RING_LINGER;
	memset(&db, 0, sizeof(db));
	for (i = 0; i < 2; i++) {
		start_wq(&qp[i]->sq, 0);
		qp[i]->sq.ring.ring->flags = SROCE_RING_NEED_WAKEUP;
	}
	CHECK(!sroce_post_send(&qp[0]->vqp.qp, &wr, &bad) && bells->prod == 1);

	fflush(stdout);
	pid = fork();
	if (!pid) {
		CHECK(!sroce_post_send(&qp[1]->vqp.qp, &wr, &bad) && db.rings == 1);
		CHECK(db.qp_num == num[1] && bells->prod == 1);
		/* nor is a poll for what the parent has put off */
		CHECK(!sroce_poll_cq(&cq->vcq.cq, 1, &wc) && db.rings == 1);
		/* of what lingers in the child, each is rung for */
		for (i = 0; i < 2; i++) {
			qp[i]->sq.ring.ring->flags = SROCE_RING_LINGER;
			qp[i]->sq.ring.ring->linger = 9;
			CHECK(!sroce_post_send(&qp[i]->vqp.qp, &wr, &bad));
		}
		CHECK(db.rings == 1 && !sroce_poll_cq(&cq->vcq.cq, 1, &wc) && db.rings == 3);
		for (i = 0; i < 2; i++)
			qp[i]->sq.ring.ring->flags = SROCE_RING_NEED_WAKEUP;
		fflush(stdout);
		_exit(broken);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && !status);
	CHECK(!sroce_post_send(&qp[0]->vqp.qp, &wr, &bad) && !db.rings);
	CHECK(bells->prod == 2 && entry[0] == num[0] && entry[1] == num[0]);
	CHECK(!sroce_poll_cq(&cq->vcq.cq, 1, &wc) && db.rings == 1);
	CHECK(db.qp_num == SROCE_DOORBELL_BELLS);

	/* what the child opens is its own */
	pid = fork();
	if (!pid) {
		sroce_unmap_ring(&ctx.bells);
		memset(&ctx.bells, 0, sizeof(ctx.bells));
		make_ring(&map, 8, sizeof(uint32_t));
		CHECK(!sroce_bells_open(&ctx, &map));
		ctx.bells.ring->linger = 99;
		ctx.bells.ring->flags = SROCE_RING_LINGER;
		CHECK(!sroce_post_send(&qp[1]->vqp.qp, &wr, &bad) && db.rings == 1);
		CHECK(ctx.bells.ring->prod == 1);
		fflush(stdout);
		_exit(broken);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && !status);

	sroce_unmap_ring(&ctx.bells);
	memset(&ctx.bells, 0, sizeof(ctx.bells));
	for (i = 0; i < 2; i++) {
		qp[i]->sq.ring.ring->flags = 0;
		drop_qp(qp[i]);
	}
	memset(&db, 0, sizeof(db));
	done("a child rings by itself, and leaves its parent's numbers alone");
}

/* An XRC initiator receives nothing: the queue that was named for that may go first. */
static void test_xrc_send_cq(struct sroce_cq *cq)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	struct sroce_cq *other = new_cq();
	struct sroce_qp *qp = new_qp_type(cq, other, IBV_QPT_XRC_SEND);

	CHECK(!qp->vqp.qp.recv_cq && !other->num_wqs);
	drop_cq(other);
	qp->sq.ring.ring->flags = SROCE_RING_LINGER;
	qp->sq.ring.ring->linger = 9;
	CHECK(!sroce_post_send(&qp->vqp.qp, &wr, &bad));
	drop_qp(qp);
	memset(&db, 0, sizeof(db));
	done("an XRC initiator leaves the other completion queue alone");
}

/* The kernel has taken what is posted, and completed it. */
static void all_done(struct sroce_qp *qp)
{
	struct sroce_ring *ring = qp->sq.ring.ring;

	ring->seen = ring->prod;
	ring->cons = ring->prod;
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* The kernel ends the queue pair, and begins its ring anew. */
static void *ring_ends(void *arg)
{
	struct sroce_ring *ring = ((struct sroce_qp *)arg)->sq.ring.ring;

	usleep(100000);
	__atomic_store_n(&ring->prod, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&ring->cons, 0, __ATOMIC_RELEASE);
	return NULL;
}

/* An address handle goes: whoever has posted with it is rung for, once each. */
static void test_ah_users(struct sroce_cq *cq)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	struct sroce_qp *qp[3];
	struct ibv_ah_attr attr = {};
	pthread_t thread;
	uint32_t i, users;
	double began;

	memset(&db, 0, sizeof(db));
	db.sends = true;
	for (i = 0; i < 3; i++) {
		qp[i] = new_qp_type(cq, cq, IBV_QPT_UD);
		qp[i]->state = IBV_QPS_RTS;
		qp[i]->sq.ring.ring->flags = SROCE_RING_LINGER;
		qp[i]->sq.ring.ring->linger = 9;
	}
	for (users = 0; users <= 3; users++) {
		wr.wr.ud.ah = sroce_create_ah(pd, &attr);
		for (i = 0; i < users; i++)
			CHECK(!sroce_post_send(&qp[i]->vqp.qp, &wr, &bad));
		CHECK(!db.rings);
		CHECK(!sroce_destroy_ah(wr.wr.ud.ah));
		CHECK((uint32_t)db.rings == users);
		for (i = 0; i < users; i++)
			all_done(qp[i]);
		db.rings = 0;
	}
	/* of three, one is done, one goes, and one is known to the kernel, which has not got on */
	wr.wr.ud.ah = sroce_create_ah(pd, &attr);
	for (i = 0; i < 3; i++)
		CHECK(!sroce_post_send(&qp[i]->vqp.qp, &wr, &bad));
	all_done(qp[0]);
	drop_qp(qp[1]);
	CHECK(db.rings == 1);
	qp[2]->sq.ring.ring->seen = qp[2]->sq.ring.ring->prod;
	qp[2]->sq.ring.ring->flags = 0;
	CHECK(!sroce_destroy_ah(wr.wr.ud.ah) && db.rings == 2);
	CHECK(db.qp_num == qp[2]->sq.key);
	CHECK(qp[2]->sq.ring.ring->cons == qp[2]->sq.ring.ring->prod);

	/* what is not sent is waited for, though not for ever; nor where nothing is sent */
	db.sends = false;
	for (i = 0; i < 3; i++) {
		wr.wr.ud.ah = sroce_create_ah(pd, &attr);
		CHECK(!sroce_post_send(&qp[0]->vqp.qp, &wr, &bad));
		CHECK(!sroce_post_send(&qp[2]->vqp.qp, &wr, &bad));
		if (i == 1)
			qp[0]->state = qp[2]->state = IBV_QPS_SQD;
		if (i == 2) {
			/* the device has gone */
			qp[0]->state = qp[2]->state = IBV_QPS_RTS;
			db.err = EIO;
		}
		began = seconds();
		CHECK(!sroce_destroy_ah(wr.wr.ud.ah));
		CHECK((seconds() - began > 0.9) == !i);
		all_done(qp[0]);
		all_done(qp[2]);
	}
	db.err = 0;

	/* nor for one that goes meanwhile */
	wr.wr.ud.ah = sroce_create_ah(pd, &attr);
	CHECK(!sroce_post_send(&qp[0]->vqp.qp, &wr, &bad));
	began = seconds();
	CHECK(!pthread_create(&thread, NULL, ring_ends, qp[0]));
	CHECK(!sroce_destroy_ah(wr.wr.ud.ah));
	CHECK(seconds() - began < 0.9);
	CHECK(!pthread_join(thread, NULL));
	drop_qp(qp[0]);
	drop_qp(qp[2]);
	CHECK(!ctx.ud_qps);
	memset(&db, 0, sizeof(db));
	done("an address handle that goes: all who sent with it are rung for");
}

static void test_recv(struct sroce_qp *qp, struct sroce_cq *cq)
{
	struct ibv_sge sge[4] = { { 1, 2, 3 }, { 4, 5, 6 }, { 7, 8, 9 } };
	struct ibv_recv_wr wr[9], *bad = NULL;
	struct sroce_ring *ring = qp->rq.ring.ring;
	struct sroce_recv_wqe *wqe;
	struct ibv_wc wc[16];
	uint32_t i, k;

	CHECK(qp->rq.ring.entry_size == 64 && qp->rq.ring.num == 8);
	start_wq(&qp->rq, 0xfffffffc);
	memset(ring + 1, 0xa5, 8 * 64);
	for (i = 0; i < 9; i++)
		wr[i] = (struct ibv_recv_wr){ .wr_id = i, .sg_list = sge,
			.num_sge = i % 4, .next = i < 8 ? wr + i + 1 : NULL };
	CHECK(sroce_post_recv(&qp->vqp.qp, wr, &bad) == ENOMEM);
	CHECK(bad == wr + 8 && ring->prod == 4 && !db.rings);
	for (i = 0; i < 8; i++) {
		wqe = (void *)((uint8_t *)(ring + 1) + (i + 4) % 8 * 64);
		CHECK(wqe->wr_id == i && wqe->num_sge == i % 4);
		CHECK(!wqe->reserved);
		for (k = 0; k < 3; k++)
			CHECK(k < i % 4 ?
			      wqe->sge[k].addr == sge[k].addr &&
			      wqe->sge[k].length == sge[k].length &&
			      wqe->sge[k].lkey == sge[k].lkey :
			      wqe->sge[k].lkey == 0xa5a5a5a5);
	}

	complete(cq, qp->sq.key, IBV_WC_RECV, 0, 0xfffffffd);
	complete(cq, qp->sq.key, IBV_WC_RECV_RDMA_WITH_IMM, 1, 0xfffffffe);
	CHECK(sroce_poll_cq(&cq->vcq.cq, 16, wc) == 2);
	CHECK(wc[1].opcode == IBV_WC_RECV_RDMA_WITH_IMM);
	wr[1].next = NULL;
	ring->flags = SROCE_RING_NEED_WAKEUP;
	CHECK(!sroce_post_recv(&qp->vqp.qp, wr, &bad) && db.rings == 1);
	CHECK(sroce_post_recv(&qp->vqp.qp, wr + 1, &bad) == ENOMEM);
	wr[1].num_sge = 4;
	CHECK(sroce_post_recv(&qp->vqp.qp, wr + 1, &bad) == EINVAL);
	wr[1].num_sge = -1;
	CHECK(sroce_post_recv(&qp->vqp.qp, wr + 1, &bad) == EINVAL);
	wr[1].num_sge = 0;
	start_wq(&qp->rq, 0);
	qp->state = IBV_QPS_RESET;
	CHECK(sroce_post_recv(&qp->vqp.qp, wr + 1, &bad) == EINVAL);
	qp->state = IBV_QPS_INIT;
	CHECK(sroce_post_recv(&qp->vqp.qp, wr + 1, &bad) == 0);
	qp->state = IBV_QPS_RTS;
	done("receive requests: layout, stride, room, doorbell, states");
}

static void test_poll(struct sroce_qp *qp, struct sroce_cq *cq)
{
	struct ibv_comp_channel channel = {};
	struct sroce_ring *ring = cq->ring.ring;
	struct sroce_cqe *cqe = (void *)(ring + 1);
	struct ibv_wc wc[20], want;
	uint32_t i;

	start_cq(cq, 0xfffffff0);
	start_wq(&qp->sq, 0);
	memset(wc, 0xff, sizeof(wc));
	memset(&want, 0, sizeof(want));
	complete(cq, qp->sq.key, IBV_WC_RECV, 0x1234567890, 0);
	cqe->timestamp = ~0ULL;
	cqe->byte_len = 11;
	cqe->imm_data = 12;
	cqe->src_qp = 13;
	cqe->vendor_err = 14;
	cqe->status = IBV_WC_RNR_RETRY_EXC_ERR;
	cqe->wc_flags = SROCE_WC_GRH | SROCE_WC_WITH_IMM;
	cqe->pkey_index = 15;
	cqe->sl = 3;
	CHECK(poll1(cq, wc) == 1);
	want.wr_id = 0x1234567890;
	want.status = IBV_WC_RNR_RETRY_EXC_ERR;
	want.opcode = IBV_WC_RECV;
	want.vendor_err = 14;
	want.byte_len = 11;
	want.imm_data = 12;
	want.qp_num = qp->sq.key;
	want.src_qp = 13;
	want.wc_flags = IBV_WC_GRH | IBV_WC_WITH_IMM;
	want.pkey_index = 15;
	want.sl = 3;
	CHECK(!memcmp(wc, &want, offsetof(struct ibv_wc, dlid_path_bits) + 1));
	CHECK(ring->cons == 0xfffffff1);
	CHECK(poll1(cq, wc) == 0 && ring->cons == 0xfffffff1);

	for (i = 0; i < 16; i++)
		complete(cq, i % 4 == 1 ? 0xabcdef : qp->sq.key,
			 IBV_WC_SEND, i, 0);
	CHECK(sroce_poll_cq(&cq->vcq.cq, 0, wc) == 0);
	CHECK(sroce_poll_cq(&cq->vcq.cq, 5, wc) == 5 && wc[4].wr_id == 6);
	CHECK(ring->cons == 0xfffffff8);
	CHECK(sroce_poll_cq(&cq->vcq.cq, 20, wc) == 7);
	CHECK(wc[0].wr_id == 7 && wc[6].wr_id == 15 && ring->cons == 1);
	complete(cq, 0xabcdef, IBV_WC_SEND, 0, 0);
	CHECK(poll1(cq, wc) == 0 && ring->cons == 2);
	done("polling: every field, batches, unknown queue pairs");

	ring->prod = 2 + cq_entries + 1;
	CHECK(poll1(cq, wc) == -EIO && ring->cons == 2);
	ring->prod = 1;
	CHECK(poll1(cq, wc) == -EIO && ring->cons == 2);
	memset(ring, 0, sizeof(*ring));
	CHECK(poll1(cq, wc) == -EIO && ring->cons == 0);
	done("polling: a ring with an index that cannot be");

	start_cq(cq, 0);
	sroce_req_notify_cq(&cq->vcq.cq, 0);
	CHECK(ring->arm == SROCE_CQ_ARM_NEXT);
	sroce_req_notify_cq(&cq->vcq.cq, 1);
	CHECK(ring->arm == (SROCE_CQ_ARM_NEXT | SROCE_CQ_ARM_SOLICITED));
	ring->arm = 0;
	sroce_req_notify_cq(&cq->vcq.cq, 1);
	CHECK(ring->arm == SROCE_CQ_ARM_SOLICITED);
	done("asking for events");

	/* nobody would hear it */
	complete(cq, qp->sq.key, IBV_WC_SEND, 0, 0);
	CHECK(!sroce_req_notify_cq(&cq->vcq.cq, 0) && !notify_calls);
	cq->vcq.cq.channel = &channel;
	CHECK(!sroce_req_notify_cq(&cq->vcq.cq, 0) && notify_calls == 1);
	CHECK(!sroce_req_notify_cq(&cq->vcq.cq, 1) && notify_calls == 2);
	/* the event is taken: it is for this one */
	sroce_cq_event(&cq->vcq.cq);
	CHECK(!sroce_req_notify_cq(&cq->vcq.cq, 0) && notify_calls == 2);
	/* and not for this one */
	complete(cq, qp->sq.key, IBV_WC_SEND, 1, 0);
	CHECK(!sroce_req_notify_cq(&cq->vcq.cq, 0) && notify_calls == 3);
	CHECK(poll1(cq, wc) == 1);
	CHECK(!sroce_req_notify_cq(&cq->vcq.cq, 0) && notify_calls == 4);
	CHECK(poll1(cq, wc) == 1);
	CHECK(!sroce_req_notify_cq(&cq->vcq.cq, 0) && notify_calls == 4);
	complete(cq, qp->sq.key, IBV_WC_SEND, 2, 0);
	notify_errno = ENOMEM;
	CHECK(sroce_req_notify_cq(&cq->vcq.cq, 0) == ENOMEM && notify_calls == 5);
	/* gone, and what has been flushed is there; or older */
	notify_errno = EIO;
	CHECK(!sroce_req_notify_cq(&cq->vcq.cq, 0) && notify_calls == 6);
	notify_errno = EOPNOTSUPP;
	CHECK(!sroce_req_notify_cq(&cq->vcq.cq, 0) && notify_calls == 7);
	notify_errno = 0;
	CHECK(ring->arm == (SROCE_CQ_ARM_NEXT | SROCE_CQ_ARM_SOLICITED));
	done("asking for events: what came before is not missed");

	/* the event was left alone for as long as it took to poll for more than half of all indices */
	start_cq(cq, 1);
	CHECK(!sroce_req_notify_cq(&cq->vcq.cq, 0) && notify_calls == 7);
	start_cq(cq, 0x80000002);
	complete(cq, qp->sq.key, IBV_WC_SEND, 3, 0);
	sroce_cq_event(&cq->vcq.cq);
	CHECK(!sroce_req_notify_cq(&cq->vcq.cq, 0) && notify_calls == 8);
	done("asking for events: an old one is not for what came now");
}

static void test_clean(void)
{
	struct sroce_cq *cq = new_cq(), *other = new_cq();
	size_t base = shm_used;
	int round;

	for (round = 0; round < 2000; round++) {
		struct sroce_qp *qp[3] = { new_qp(cq, cq), new_qp(cq, other),
					   new_qp(other, cq) };
		struct { uint32_t qpn; uint64_t id; } want[16];
		uint32_t i, k, n = pick(17), left = 0;
		uint32_t at = 0xfffffff8 + pick(32);
		int victim = pick(3), reset = pick(2);
		struct ibv_wc wc[20];

		start_cq(cq, at);
		for (i = 0; i < n; i++) {
			int q = pick(3);
			uint8_t op = q == 0 ? pick(2) * 128 : q == 1 ? 0 : 128;

			complete(cq, qp[q]->sq.key, op, i, 0);
			if (q == victim)
				continue;
			want[left].qpn = qp[q]->sq.key;
			want[left++].id = i;
		}
		if (reset) {
			struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

			start_wq(&qp[victim]->sq, 77);
			start_wq(&qp[victim]->rq, 77);
			CHECK(!sroce_modify_qp(&qp[victim]->vqp.qp, &attr,
					       IBV_QP_STATE));
			CHECK(!qp[victim]->sq.ring.prod &&
			      !qp[victim]->sq.ring.cons &&
			      !qp[victim]->rq.ring.prod &&
			      !qp[victim]->rq.ring.cons);
			CHECK(!qp[victim]->sq.ring.ring->prod &&
			      !qp[victim]->rq.ring.ring->prod);
		} else {
			drop_qp(qp[victim]);
		}
		CHECK(cq->ring.ring->prod - cq->ring.ring->cons == left);
		CHECK(sroce_poll_cq(&cq->vcq.cq, 20, wc) == (int)left);
		for (i = 0; i < left; i++)
			CHECK(wc[i].wr_id == want[i].id &&
			      wc[i].qp_num == want[i].qpn);
		for (k = 0; k < 3; k++)
			if (reset || (int)k != victim)
				drop_qp(qp[k]);
		CHECK(!cq->num_wqs && !other->num_wqs);
		shm_used = base;
	}
	drop_cq(cq);
	drop_cq(other);
	done("destroy and reset take their completions along, and no others");
}

static void test_lookup(void)
{
	struct sroce_cq *cq;
	struct sroce_qp *qp[1000], *old, *new;
	struct ibv_wc wc[4];
	uint32_t i;

	sq_blocks = 1;
	rq_entries = 1;
	cq = new_cq();
	for (i = 0; i < 1000; i++) {
		/* Neighbours, multiples and random ones, some of both ends. */
		next_qpn = i < 300 ? 0xfffff0 + i :
			   i < 600 ? i << 14 : 0x200000 + i * 1237;
		qp[i] = new_qp(cq, cq);
	}
	CHECK(cq->num_wqs == 2000 && cq->table_size >= 1024);
	for (i = 0; i < 1000; i++) {
		complete(cq, qp[i]->sq.key, IBV_WC_SEND, i, 0);
		complete(cq, qp[i]->sq.key, IBV_WC_RECV, i + 5000, 0);
		CHECK(sroce_poll_cq(&cq->vcq.cq, 4, wc) == 2);
		CHECK(wc[0].wr_id == i && cq->last == &qp[i]->rq);
	}
	for (i = 0; i < 1000; i++) {
		uint32_t qpn = qp[i]->sq.key;

		drop_qp(qp[i]);
		complete(cq, qpn, IBV_WC_RECV, i, 0);
		CHECK(poll1(cq, wc) == 0);
	}
	CHECK(cq->num_wqs == 0 && !cq->last);
	done("a thousand queue pairs are found, and not found any more");

	next_qpn = 1000;
	old = new_qp(cq, cq);
	complete(cq, 1000, IBV_WC_SEND, 1, 0);
	complete(cq, 1000, IBV_WC_RECV, 2, 0);
	next_qpn = 1000;
	new = new_qp(cq, cq);
	CHECK(!old->sq.attached && !old->rq.attached && cq->num_wqs == 2);
	CHECK(poll1(cq, wc) == 0);
	complete(cq, 1000, IBV_WC_SEND, 3, 0);
	drop_qp(old);
	CHECK(cq->num_wqs == 2);
	CHECK(poll1(cq, wc) == 1 && wc[0].wr_id == 3);
	destroy_errno = EBUSY;
	CHECK(sroce_destroy_qp(&new->vqp.qp) == EBUSY);
	destroy_errno = 0;
	complete(cq, 1000, IBV_WC_SEND, 4, 0);
	CHECK(poll1(cq, wc) == 1 && wc[0].wr_id == 4);
	drop_qp(new);
	drop_cq(cq);
	sq_blocks = 16;
	rq_entries = 8;
	done("a number that is given out again before the old one is detached");
}

static void test_answers(void)
{
	static const struct sroce_ring_map bends[] = {
		{ .entries = 3 }, { .entries = 1U << 30 },
		{ .entry_size = 1 }, { .entry_size = 1 << 20 },
	};
	struct sroce_cq *cq = new_cq();
	struct ibv_srq srq = {};
	struct ibv_qp_init_attr attr = {
		.send_cq = &cq->vcq.cq, .recv_cq = &cq->vcq.cq, .srq = &srq,
		.cap = { .max_send_wr = sq_wrs, .max_send_sge = 1000,
			 .max_inline_data = 100000 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_recv_wr wr = {}, *bad;
	struct ibv_wc wc;
	struct ibv_qp *qp;
	unsigned int i;

	for (i = 0; i < 4; i++) {
		bend = bends[i];
		errno = 0;
		CHECK(!new_qp(cq, cq) && errno == EPROTO);
		errno = 0;
		CHECK(!new_cq() && errno == EPROTO);
	}
	memset(&bend, 0, sizeof(bend));
	CHECK(leak == 1 && logged);

	qp = sroce_create_qp(pd, &attr);
	CHECK(qp && to_sqp(qp)->sq.max_sge == 32);
	CHECK(to_sqp(qp)->max_inline == 528);
	to_sqp(qp)->state = IBV_QPS_RTS;
	CHECK(sroce_post_recv(qp, &wr, &bad) == EINVAL && bad == &wr);
	complete(cq, qp->qp_num, IBV_WC_RECV, 8, 1234);
	CHECK(poll1(cq, &wc) == 1 && wc.wr_id == 8);
	drop_qp(to_sqp(qp));
	drop_cq(cq);
	CHECK(leak == 0);
	done("answers that cannot be right; a queue pair with an SRQ");
}

/* Shared receive queues. */

static struct ibv_recv_wr srq_wr(uint64_t id, struct ibv_sge *sge, int num)
{
	return (struct ibv_recv_wr){ .wr_id = id, .sg_list = sge,
				     .num_sge = num };
}

static void test_srq(struct sroce_cq *cq)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_sge = 2 } };
	struct ibv_srq *ibsrq = sroce_create_srq(pd, &attr);
	struct sroce_ring *ring = to_ssrq(ibsrq)->wq.ring.ring;
	struct ibv_srq_attr mod = { .max_wr = 32 };
	struct sroce_ring_view *v = &to_ssrq(ibsrq)->wq.ring;
	struct ibv_recv_wr wr, *bad = NULL;
	struct ibv_sge sge[3] = { { 1, 2, 3 }, { 4, 5, 6 } };
	uint64_t id = 0, taken = 0;
	uint32_t num;
	int i, full = 0;

	memset(&db, 0, sizeof(db));
	CHECK(sroce_get_srq_num(ibsrq, &num) == EOPNOTSUPP);
	v->prod = v->cons = ring->prod = ring->cons = 0xfffffff0;
	for (i = 0; i < 5000; i++) {
		struct sroce_recv_wqe *wqe;

		if (pick(100) < 55) {
			int ret;

			wr = srq_wr(id, sge, pick(3));
			ret = sroce_post_srq_recv(ibsrq, &wr, &bad);
			CHECK(ret == (id - taken == rq_entries ? ENOMEM : 0));
			full += !!ret;
			id += !ret;
		} else if (taken != id) {
			/* The kernel takes one, in order. */
			wqe = sroce_ring_entry(v, ring->cons);
			CHECK(wqe->wr_id == taken && wqe->num_sge <= 2);
			taken++;
			__atomic_store_n(&ring->cons, ring->cons + 1,
					 __ATOMIC_RELEASE);
		}
		CHECK(ring->prod - ring->cons == id - taken);
	}
	CHECK(full > 20 && !db.rings);
	wr = srq_wr(0, sge, 3);
	CHECK(sroce_post_srq_recv(ibsrq, &wr, &bad) == EINVAL && bad == &wr);
	done("SRQ: entries are used again when the kernel says so");

	v->prod = v->cons = ring->prod = ring->cons = 100;
	wr = srq_wr(1, sge, 1);
	for (i = 0; i < (int)rq_entries; i++)
		CHECK(!sroce_post_srq_recv(ibsrq, &wr, &bad));
	ring->cons = 99;
	CHECK(sroce_post_srq_recv(ibsrq, &wr, &bad) == ENOMEM);
	ring->cons = 101 + rq_entries;
	CHECK(sroce_post_srq_recv(ibsrq, &wr, &bad) == ENOMEM);
	ring->cons = 102;
	CHECK(!sroce_post_srq_recv(ibsrq, &wr, &bad));
	CHECK(!sroce_post_srq_recv(ibsrq, &wr, &bad));
	CHECK(sroce_post_srq_recv(ibsrq, &wr, &bad) == ENOMEM);
	done("SRQ: an index that cannot be frees nothing");

	for (i = 102; i < 110; i++)
		((struct sroce_recv_wqe *)sroce_ring_entry(v, i))->wr_id = i;
	resize_errno = EINVAL;
	CHECK(sroce_modify_srq(ibsrq, &mod, IBV_SRQ_MAX_WR) == EINVAL);
	CHECK(v->num == rq_entries);
	resize_errno = 0;
	CHECK(!sroce_modify_srq(ibsrq, &mod, IBV_SRQ_LIMIT));
	CHECK(!sroce_modify_srq(ibsrq, &mod, IBV_SRQ_MAX_WR));
	CHECK(v->num == 32 && v->ring != ring && v->ring->prod == 110);
	for (i = 0; i < 24; i++)
		CHECK(!sroce_post_srq_recv(ibsrq, &wr, &bad));
	CHECK(sroce_post_srq_recv(ibsrq, &wr, &bad) == ENOMEM);
	for (i = 102; i < 110; i++)
		CHECK(((struct sroce_recv_wqe *)
		       sroce_ring_entry(v, i))->wr_id == (uint64_t)i);
	done("SRQ: resize with entries in it");

	v->ring->cons = 104;
	CHECK(!sroce_post_srq_recv(ibsrq, &wr, &bad));
	bend.entries = 1;
	CHECK(sroce_modify_srq(ibsrq, &mod, IBV_SRQ_MAX_WR) == EPROTO);
	bend.entries = 0;
	for (i = 0; i < 2; i++)
		CHECK(sroce_post_srq_recv(ibsrq, &wr, &bad) == ENOMEM);
	CHECK(!sroce_destroy_srq(ibsrq));
	done("SRQ: a resized ring that can't be mapped takes nothing");
}

static void test_xrc_srq(struct sroce_cq *cq)
{
	struct ibv_xrcd xrcd;
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_sge = 1 }, .srq_context = &xrcd,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_XRCD,
		.srq_type = IBV_SRQT_XRC, .pd = pd, .cq = &cq->vcq.cq,
		.xrcd = &xrcd,
	};
	struct ibv_qp_init_attr_ex tgt = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = &xrcd,
	};
	struct ibv_recv_wr rwr = {}, *rbad;
	struct ibv_send_wr wr = {}, *bad;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_wc wc;
	uint32_t num;

	attr.srq_type = IBV_SRQT_TM;
	CHECK(!sroce_create_srq_ex(pd->context, &attr) && errno == EOPNOTSUPP);
	attr.srq_type = IBV_SRQT_XRC;
	srq = sroce_create_srq_ex(pd->context, &attr);
	CHECK(srq && srq->srq_context == &xrcd && srq->pd == pd);
	CHECK(!sroce_get_srq_num(srq, &num) && num == next_srqn - 1);

	/* The target has no rings and no completion queues. */
	qp = sroce_create_qp_ex(pd->context, &tgt);
	CHECK(qp && !to_sqp(qp)->sq.ring.num && !to_sqp(qp)->rq.ring.num);
	to_sqp(qp)->state = IBV_QPS_RTS;
	CHECK(sroce_post_send(qp, &wr, &bad) == EINVAL);
	CHECK(sroce_post_recv(qp, &rwr, &rbad) == EINVAL);
	complete(cq, qp->qp_num, IBV_WC_RECV, 7, 0);
	complete(cq, qp->qp_num, IBV_WC_SEND, 8, 0);
	CHECK(poll1(cq, &wc) == 1 && wc.wr_id == 7);
	CHECK(poll1(cq, &wc) == 0);
	CHECK(!sroce_destroy_qp(qp));

	/* flags may be named that are none */
	tgt.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	qp = sroce_create_qp_ex(pd->context, &tgt);
	CHECK(qp && !sroce_destroy_qp(qp));
	CHECK(tgt.comp_mask == (IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_CREATE_FLAGS));
	tgt.create_flags = IBV_QP_CREATE_CVLAN_STRIPPING;
	CHECK(!sroce_create_qp_ex(pd->context, &tgt) && errno == EOPNOTSUPP);
	CHECK(!sroce_destroy_srq(srq));
	complete(cq, 1, IBV_WC_RECV, 7, 0);
	CHECK(poll1(cq, &wc) == 0);
	done("XRC: a target without rings; its messages on the SRQ's queue");
}

/* One that is basic in the end is made as any, whatever else was named. */
static void test_basic_srq_ex(struct sroce_cq *cq)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_sge = 2 }, .srq_context = &attr, .pd = pd,
		.srq_type = IBV_SRQT_BASIC, .cq = &cq->vcq.cq,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ,
	};
	const uint32_t num = cq->num_srqs, srqn = next_srqn;
	struct ibv_recv_wr wr = { .wr_id = 5 }, *bad;
	struct ibv_srq *srq;

	for (int i = 0; i < 2; i++) {
		srq = sroce_create_srq_ex(pd->context, &attr);
		CHECK(srq && srq->srq_context == &attr && srq->pd == pd && next_srqn == srqn);
		if (srq) {
			const struct sroce_ring *ring = to_ssrq(srq)->wq.ring.ring;

			CHECK(!sroce_post_srq_recv(srq, &wr, &bad) && ring->prod == 1);
			CHECK(!sroce_destroy_srq(srq) && cq->num_srqs == num);
		}
		/* the type that is meant where none is */
		attr.comp_mask &= ~IBV_SRQ_INIT_ATTR_TYPE;
		attr.srq_type = IBV_SRQT_XRC;
	}
	attr.comp_mask |= IBV_SRQ_INIT_ATTR_TM;
	CHECK(!sroce_create_srq_ex(pd->context, &attr) && errno == EOPNOTSUPP);
	attr.comp_mask = IBV_SRQ_INIT_ATTR_CQ;
	CHECK(!sroce_create_srq_ex(pd->context, &attr) && errno == EINVAL);
	attr.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_RESERVED;
	CHECK(!sroce_create_srq_ex(pd->context, &attr) && errno == EOPNOTSUPP);
	done("SRQ: a basic one, by the extended call");
}

static void tm_fails(struct ibv_srq *srq, struct ibv_ops_wr *wr)
{
	const int calls = tm.calls;
	struct ibv_ops_wr *bad = NULL;

	CHECK(sroce_post_srq_ops(srq, wr, &bad) == EINVAL);
	CHECK(bad == wr && tm.calls == calls);
}

static void test_tm_ops(struct ibv_srq *srq)
{
	struct ibv_sge sges[33] = { { 1, 2, 3 }, { 4, 5, 6 } };
	struct ibv_ops_wr sync = {
		.wr_id = 12, .opcode = IBV_WR_TAG_SYNC, .flags = IBV_OPS_TM_SYNC,
		.tm = { .unexpected_cnt = 9, .handle = 4, .add.num_sge = 77 },
	};
	struct ibv_ops_wr wr = {
		.wr_id = 11, .opcode = IBV_WR_TAG_ADD, .flags = IBV_OPS_SIGNALED,
		.next = &sync,
		.tm = {
			.unexpected_cnt = 8, .handle = 3,
			.add = { 10, sges, 2, 0xabcdef0123456789, 0xff },
		},
	}, *bad = NULL;

	CHECK(!sroce_post_srq_ops(srq, &wr, &bad) && !bad && tm.calls == 2);
	CHECK(wr.tm.handle == 0x1234567 && sync.tm.handle == 4);
	CHECK(tm.len == sizeof(tm.op) && tm.op.opcode == SROCE_TM_SYNC);
	CHECK(tm.op.wr_id == 12 && tm.op.flags == SROCE_TM_SYNC_CNT);
	CHECK(tm.op.unexpected_cnt == 9 && !tm.op.handle && !tm.op.num_sge);

	wr.next = NULL;
	CHECK(!sroce_post_srq_ops(srq, &wr, &bad) && tm.calls == 3);
	CHECK(tm.len == sizeof(tm.op) + 32 && tm.op.opcode == SROCE_TM_ADD);
	CHECK(tm.op.wr_id == 11 && tm.op.recv_wr_id == 10);
	CHECK(tm.op.tag == 0xabcdef0123456789 && tm.op.mask == 0xff);
	CHECK(tm.op.num_sge == 2 && !memcmp(tm.op.sge, sges, 32));
	CHECK(tm.op.flags == SROCE_TM_SIGNALED && !tm.op.reserved);

	wr.tm.add.num_sge = 32;
	CHECK(!sroce_post_srq_ops(srq, &wr, &bad));
	wr.tm.add.num_sge = 33;
	tm_fails(srq, &wr);
	wr.tm.add.num_sge = -1;
	tm_fails(srq, &wr);
	wr.tm.add.num_sge = 0;
	wr.flags = 4;
	tm_fails(srq, &wr);
	wr.flags = 0;
	wr.opcode = 3;
	tm_fails(srq, &wr);

	wr.opcode = IBV_WR_TAG_DEL;
	wr.tm.handle = 6;
	wr.next = &sync;
	tm.err = ENOMEM;
	CHECK(sroce_post_srq_ops(srq, &wr, &bad) == ENOMEM && bad == &wr);
	tm.err = 0;
	CHECK(tm.op.opcode == SROCE_TM_DEL && tm.op.handle == 6);
	CHECK(wr.tm.handle == 6);
}

static void test_tm_srq(struct sroce_cq *cq)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_sge = 1 }, .srq_type = IBV_SRQT_TM, .pd = pd,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
		.cq = &cq->vcq.cq,
		.tm_cap = { .max_num_tags = 1, .max_ops = SROCE_TM_MAX_OPS + 1 },
	};
	struct sroce_qp *qp = new_qp(cq, cq);
	struct ibv_srq *srq;
	struct ibv_wc wc;
	uint32_t num;

	CHECK(!sroce_create_srq_ex(pd->context, &attr) && errno == EINVAL);
	attr.tm_cap.max_ops--;
	attr.srq_type = IBV_SRQT_XRC;
	CHECK(!sroce_create_srq_ex(pd->context, &attr) && errno == EOPNOTSUPP);
	attr.srq_type = IBV_SRQT_TM;
	srq = sroce_create_srq_ex(pd->context, &attr);
	CHECK(srq && sroce_get_srq_num(srq, &num) == EOPNOTSUPP);
	srq->handle = 88;
	test_tm_ops(srq);

	/* What is the SRQ's stays when the queue pair goes that it came by. */
	complete(cq, qp->sq.key, IBV_WC_TM_RECV, 1, 0xffff);
	complete(cq, qp->sq.key, IBV_WC_RECV_RDMA_WITH_IMM, 2, 0);
	complete(cq, qp->sq.key, IBV_WC_TM_NO_TAG, 3, 0xffff);
	complete(cq, 0, IBV_WC_TM_ADD, 4, 0);
	drop_qp(qp);
	CHECK(poll1(cq, &wc) == 1 && wc.wr_id == 1 && wc.opcode == IBV_WC_TM_RECV);
	CHECK(poll1(cq, &wc) == 1 && wc.wr_id == 3);
	CHECK(poll1(cq, &wc) == 1 && wc.wr_id == 4 && wc.opcode == IBV_WC_TM_ADD);
	CHECK(poll1(cq, &wc) == 0);
	CHECK(!sroce_destroy_srq(srq));
	complete(cq, 0, IBV_WC_TM_ADD, 5, 0);
	CHECK(poll1(cq, &wc) == 0);
	done("tag matching: operations, and completions that are the SRQ's");
}

/* ibv_wr_*() */

static struct sroce_qp *new_qp_ex(struct sroce_cq *cq, enum ibv_qp_type type,
				  uint64_t ops)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = &cq->vcq.cq, .recv_cq = &cq->vcq.cq,
		.cap = { .max_send_wr = sq_wrs, .max_recv_wr = 1, .max_send_sge = 32,
			 .max_recv_sge = 3, .max_inline_data = 528 },
		.qp_type = type, .pd = pd, .send_ops_flags = ops,
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	};
	struct ibv_qp *qp = sroce_create_qp_ex(pd->context, &attr);

	if (!qp)
		return NULL;
	to_sqp(qp)->state = IBV_QPS_RTS;
	return to_sqp(qp);
}

static void test_qp_ex_place(struct sroce_cq *cq)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = &cq->vcq.cq, .recv_cq = &cq->vcq.cq,
		.qp_type = IBV_QPT_RC, .pd = pd, .max_tso_header = 64,
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_MAX_TSO_HEADER,
	};
	static const struct { size_t at; int flush; } places[] = {
		{ 352, 0 }, { 360, 1 }, { 376, 1 }, { 424, 1 },
	};
	struct sroce_qp *qp;
	unsigned int i;

	for (i = 0; i < 4; i++) {
		qp_ex_at = places[i].at;
		ctx.qp_ex_at = sroce_find_qp_ex();
		CHECK(ctx.qp_ex_at == qp_ex_at);
		qp = new_qp(cq, cq);
		CHECK(!ibv_qp_to_qp_ex(&qp->vqp.qp));
		drop_qp(qp);
		qp = new_qp_ex(cq, IBV_QPT_RC, IBV_QP_EX_WITH_SEND);
		CHECK(ibv_qp_to_qp_ex(&qp->vqp.qp) == &qp->vqp.qp_ex);
		CHECK(qp->vqp.qp_ex.wr_start && qp->vqp.qp_ex.wr_atomic_write);
		/* comp_mask and xrcd as libibverbs left them, but for the flag */
		CHECK(*(uint32_t *)((uint8_t *)qp + qp_ex_at) == VERBS_QP_EX);
		CHECK(*((uint8_t *)qp + qp_ex_at + 8) == 0x5a);
		CHECK(!qp->owner.custom && !qp->owner.parent);
		drop_qp(qp);
		qp = new_qp_ex(cq, IBV_QPT_RC, IBV_QP_EX_WITH_FLUSH);
		CHECK(!!qp == places[i].flush);
		if (qp)
			drop_qp(qp);
		else
			CHECK(errno == EOPNOTSUPP);
	}
	qp_ex_at = 432;
	CHECK(!sroce_find_qp_ex());
	ctx.qp_ex_at = 0;
	CHECK(!new_qp_ex(cq, IBV_QPT_RC, IBV_QP_EX_WITH_SEND));
	CHECK(errno == EOPNOTSUPP);
	qp_ex_at = 360;
	ctx.qp_ex_at = sroce_find_qp_ex();

	CHECK(!new_qp_ex(cq, IBV_QPT_RC, IBV_QP_EX_WITH_TSO));
	CHECK(!new_qp_ex(cq, IBV_QPT_RC, 1ULL << 40) && errno == EOPNOTSUPP);
	CHECK(!new_qp_ex(cq, IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_READ));
	CHECK(!new_qp_ex(cq, IBV_QPT_UC, IBV_QP_EX_WITH_SEND_WITH_INV));
	CHECK(!new_qp_ex(cq, IBV_QPT_RAW_PACKET, IBV_QP_EX_WITH_SEND_WITH_IMM));
	CHECK(!sroce_create_qp_ex(pd->context, &attr) && errno == EOPNOTSUPP);
	done("extended queue pairs, wherever libibverbs looks for the flag");
}

/*
 * The same request by a list and by the calls, at the same place: the bytes
 * have to be the same.
 */
static uint8_t snap[1024], snap2[1024];

static void snapshot(struct sroce_qp *qp, uint8_t *to)
{
	memcpy(to, qp->sq.ring.ring + 1, sq_blocks * SROCE_SQ_BLOCK);
}

static void test_wr_same(struct sroce_cq *cq)
{
	struct ibv_ah_attr ah_attr = {};
	struct ibv_ah *ah = sroce_create_ah(pd, &ah_attr);
	struct ibv_mw *mw = sroce_alloc_mw(pd, IBV_MW_TYPE_2);
	struct ibv_mr mr = { .lkey = 12 };
	uint8_t buf[528], *text = buf;
	uint32_t round, i, k;

	for (i = 0; i < sizeof(buf); i++)
		buf[i] = rnd() >> 24;

	for (round = 0; round < 4000; round++) {
		enum ibv_qp_type type = types[pick(5)];
		size_t base = shm_used;
		struct sroce_qp *qp = new_qp_ex(cq, type, sroce_send_ops(type));
		struct ibv_qp_ex *ex = &qp->vqp.qp_ex;
		uint32_t at = 0xfffffff0 + pick(32), op, len = 0;
		struct ibv_data_buf bufs[8];
		struct ibv_sge sge[32];
		struct ibv_send_wr wr = { .sg_list = sge, .wr_id = rnd(),
					  .imm_data = rnd() };
		int how = pick(4), plain;

		do
			op = pick(16);
		while (!(opcodes_of(type) & 1U << op));
		wr.opcode = op;
		plain = op == 7 || op == 8;
		wr.send_flags = pick(8);
		wr.num_sge = how < 2 ? 1 : pick(8);
		if (op > 3 && op != 9)
			how &= 2;
		if (plain)
			wr.num_sge = 0;
		for (k = 0; k < (uint32_t)wr.num_sge; k++) {
			sge[k].length = op == 15 ? 8 : pick(60);
			sge[k].lkey = rnd();
			sge[k].addr = (uintptr_t)text + len;
			bufs[k].addr = text + len;
			bufs[k].length = sge[k].length;
			len += sge[k].length;
		}
		if (how & 1)
			wr.send_flags |= IBV_SEND_INLINE;
		if (op <= 1 || op == 4 || op == 15) {
			wr.wr.rdma.remote_addr = rnd();
			wr.wr.rdma.rkey = rnd();
		} else if (op == 5 || op == 6) {
			wr.wr.atomic.remote_addr = rnd();
			wr.wr.atomic.rkey = rnd();
			wr.wr.atomic.compare_add = rnd();
			wr.wr.atomic.swap = rnd();
		} else if (op == 8) {
			wr.bind_mw.mw = mw;
			wr.bind_mw.rkey = rnd();
			wr.bind_mw.bind_info.mr = &mr;
			wr.bind_mw.bind_info.addr = rnd();
			wr.bind_mw.bind_info.length = rnd();
			wr.bind_mw.bind_info.mw_access_flags = pick(64);
		}
		if (type == IBV_QPT_UD) {
			wr.wr.ud.ah = ah;
			wr.wr.ud.remote_qpn = rnd();
			wr.wr.ud.remote_qkey = rnd();
		}
		wr.qp_type.xrc.remote_srqn = rnd();
		qp->sq_sig_all = pick(2);
		if (op == 15) {
			wr.num_sge = 1;
			sge[0].length = 8;
			sge[0].addr = (uintptr_t)buf;
			wr.send_flags |= IBV_SEND_INLINE;
		}

		CHECK(post_at(qp, at, &wr) == 0);
		snapshot(qp, snap);

		start_wq(&qp->sq, at);
		memset(qp->sq.ring.ring + 1, 0xa5, sq_blocks * SROCE_SQ_BLOCK);
		ex->wr_id = wr.wr_id;
		ex->wr_flags = wr.send_flags;
		ibv_wr_start(ex);
		switch (op) {
		case 0:
			ibv_wr_rdma_write(ex, wr.wr.rdma.rkey,
					  wr.wr.rdma.remote_addr);
			break;
		case 1:
			ibv_wr_rdma_write_imm(ex, wr.wr.rdma.rkey,
					      wr.wr.rdma.remote_addr,
					      wr.imm_data);
			break;
		case 2:
			ibv_wr_send(ex);
			break;
		case 3:
			ibv_wr_send_imm(ex, wr.imm_data);
			break;
		case 4:
			ibv_wr_rdma_read(ex, wr.wr.rdma.rkey,
					 wr.wr.rdma.remote_addr);
			break;
		case 5:
			ibv_wr_atomic_cmp_swp(ex, wr.wr.atomic.rkey,
					      wr.wr.atomic.remote_addr,
					      wr.wr.atomic.compare_add,
					      wr.wr.atomic.swap);
			break;
		case 6:
			ibv_wr_atomic_fetch_add(ex, wr.wr.atomic.rkey,
						wr.wr.atomic.remote_addr,
						wr.wr.atomic.compare_add);
			break;
		case 7:
			ibv_wr_local_inv(ex, wr.invalidate_rkey);
			break;
		case 8:
			ibv_wr_bind_mw(ex, mw, wr.bind_mw.rkey,
				       &wr.bind_mw.bind_info);
			break;
		case 9:
			ibv_wr_send_inv(ex, wr.invalidate_rkey);
			break;
		case 15:
			ibv_wr_atomic_write(ex, wr.wr.rdma.rkey,
					    wr.wr.rdma.remote_addr, buf);
			break;
		}
		if (type == IBV_QPT_UD)
			ibv_wr_set_ud_addr(ex, ah, wr.wr.ud.remote_qpn,
					   wr.wr.ud.remote_qkey);
		if (type == IBV_QPT_XRC_SEND && !plain)
			ibv_wr_set_xrc_srqn(ex, wr.qp_type.xrc.remote_srqn);
		if (plain || op == 15)
			;
		else if (how == 0)
			ibv_wr_set_sge(ex, sge[0].lkey, sge[0].addr,
				       sge[0].length);
		else if (how == 1)
			ibv_wr_set_inline_data(ex, bufs[0].addr,
					       bufs[0].length);
		else if (how == 2)
			ibv_wr_set_sge_list(ex, wr.num_sge, sge);
		else
			ibv_wr_set_inline_data_list(ex, wr.num_sge, bufs);
		/* Nothing is to be seen before the end. */
		CHECK(qp->sq.ring.ring->prod == at);
		CHECK(ibv_wr_complete(ex) == 0);
		CHECK(qp->sq.ring.ring->prod == at + head.num_blocks);
		snapshot(qp, snap2);
		CHECK(!memcmp(snap, snap2, sq_blocks * SROCE_SQ_BLOCK));
		if (broken) {
			printf("# type %d opcode %d how %d\n", type, op, how);
			break;
		}
		drop_qp(qp);
		shm_used = base;
	}
	CHECK(!sroce_dealloc_mw(mw) && !sroce_destroy_ah(ah));
	done("ibv_wr_*(): the same bytes as by ibv_post_send()");
}

static void test_wr_batch(struct sroce_cq *cq)
{
	struct sroce_qp *qp = new_qp_ex(cq, IBV_QPT_RC,
					sroce_send_ops(IBV_QPT_RC));
	struct sroce_qp *few = new_qp_ex(cq, IBV_QPT_RC, IBV_QP_EX_WITH_SEND);
	struct ibv_qp_ex *ex = &qp->vqp.qp_ex;
	struct sroce_ring *ring = qp->sq.ring.ring;
	struct ibv_data_buf huge[2];
	struct sroce_send_wqe *wqe;
	uint8_t buf[600] = { 1, 2, 3 };
	struct ibv_sge sge[33] = {};
	int i;

	memset(&db, 0, sizeof(db));
	start_wq(&qp->sq, 0xfffffff8);
	ring->flags = SROCE_RING_NEED_WAKEUP;
	ex->wr_flags = 0;
	ibv_wr_start(ex);
	for (i = 0; i < 5; i++) {
		ex->wr_id = i;
		ibv_wr_send(ex);
		ibv_wr_set_inline_data(ex, buf, 80);
	}
	CHECK(ring->prod == 0xfffffff8 && !db.rings);
	CHECK(!ibv_wr_complete(ex));
	CHECK(ring->prod == 2 && db.rings == 1 && db.qp_num == qp->sq.key);
	for (i = 0; i < 5; i++) {
		wqe = sroce_ring_entry(&qp->sq.ring, 0xfffffff8 + 2 * i);
		CHECK(wqe->wr_id == (uint64_t)i && wqe->num_blocks == 2);
	}
	ibv_wr_start(ex);
	CHECK(!ibv_wr_complete(ex) && ring->prod == 2 && db.rings == 1);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_abort(ex);
	CHECK(ring->prod == 2 && qp->sq.ring.prod == 2 && db.rings == 1);
	ex->wr_id = 9;
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	CHECK(!ibv_wr_complete(ex) && ring->prod == 3 && db.rings == 2);
	wqe = sroce_ring_entry(&qp->sq.ring, 2);
	CHECK(wqe->wr_id == 9 && wqe->num_blocks == 1 && !wqe->num_sge);
	db.err = EIO;
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	CHECK(ibv_wr_complete(ex) == EIO);
	memset(&db, 0, sizeof(db));
	done("ibv_wr_*(): one index, one doorbell; abort leaves nothing");

#define FAILS(err, calls)						\
	do {								\
		uint32_t prod = ring->prod;				\
									\
		ibv_wr_start(ex);					\
		ibv_wr_send(ex);					\
		calls;							\
		ibv_wr_send(ex);					\
		CHECK(ibv_wr_complete(ex) == (err));			\
		CHECK(ring->prod == prod && qp->sq.ring.prod == prod);	\
		CHECK(!db.rings);					\
	} while (0)

	start_wq(&qp->sq, 0);
	huge[0] = (struct ibv_data_buf){ buf, SIZE_MAX };
	huge[1] = (struct ibv_data_buf){ buf, 2 };
	FAILS(EINVAL, ibv_wr_set_sge_list(ex, 33, sge));
	FAILS(EINVAL, ibv_wr_set_inline_data(ex, buf, 529));
	FAILS(EINVAL, ibv_wr_set_inline_data_list(ex, 2, huge));
	FAILS(EINVAL, ibv_wr_set_ud_addr(ex, NULL, 1, 2));
	FAILS(EINVAL, ibv_wr_set_xrc_srqn(ex, 1));
	FAILS(EINVAL, (ibv_wr_rdma_read(ex, 1, 2),
		       ibv_wr_set_inline_data(ex, buf, 1)));
	FAILS(EINVAL, (ibv_wr_local_inv(ex, 1), ibv_wr_set_sge(ex, 1, 2, 3)));
	FAILS(EINVAL, ex->wr_flush(ex, 1, 2, 1ULL << 32, 1, 0));
	FAILS(EINVAL, (ex->wr_flags = IBV_SEND_IP_CSUM));
	ex->wr_flags = 0;
	FAILS(ENOMEM, for (i = 0; i < 20; i++) ibv_wr_send(ex));
	FAILS(ENOMEM, (ibv_wr_set_inline_data(ex, buf, 528), ibv_wr_send(ex),
		       ibv_wr_set_inline_data(ex, buf, 400)));
	/* The first error is the one that is told. */
	FAILS(ENOMEM, (ibv_wr_set_inline_data(ex, buf, 528), ibv_wr_send(ex),
		       ibv_wr_set_inline_data(ex, buf, 528),
		       ibv_wr_set_sge_list(ex, 33, sge)));
	qp->state = IBV_QPS_RTR;
	FAILS(EINVAL, (void)0);
	qp->state = IBV_QPS_RTS;
	ibv_wr_start(ex);
	ibv_wr_set_sge(ex, 1, 2, 3);
	CHECK(ibv_wr_complete(ex) == EINVAL);
	ex = &few->vqp.qp_ex;
	ring = few->sq.ring.ring;
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_rdma_write(ex, 1, 2);
	CHECK(ibv_wr_complete(ex) == EINVAL && !ring->prod);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	CHECK(!ibv_wr_complete(ex) && ring->prod == 1);
	done("ibv_wr_*(): any error and nothing is posted");

	ex = &qp->vqp.qp_ex;
	start_wq(&qp->sq, 3);
	ex->wr_id = 5;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(ex);
	ibv_wr_flush(ex, 0x11, 0x22, 0x33, IBV_FLUSH_PERSISTENT, IBV_FLUSH_MR);
	CHECK(!ibv_wr_complete(ex));
	memcpy(&head, sroce_ring_entry(&qp->sq.ring, 3), sizeof(head));
	CHECK(head.opcode == 14 && head.rkey == 0x11 && head.num_blocks == 1);
	CHECK(head.remote_addr == 0x22 && head.flush_len == 0x33);
	CHECK(head.flush_type == 2 && head.flush_level == 1 && !head.swap);
	CHECK(!head.reserved_flush && !head.num_sge && head.flags == 2);
	done("FLUSH");
	drop_qp(qp);
	drop_qp(few);
}

/* Extended completion queues. */

static struct sroce_cq *new_cq_ex(uint64_t wc_flags)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 1, .wc_flags = wc_flags };
	struct ibv_cq_ex *cq = sroce_create_cq_ex(pd->context, &attr);

	return cq ? to_scq_ex(cq) : NULL;
}

static void test_cq_ex(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 1,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS };
	struct ibv_poll_cq_attr poll = {};
	struct sroce_cq *cq = new_cq_ex(IBV_WC_STANDARD_FLAGS);
	struct ibv_cq_ex *ex = &cq->vcq.cq_ex;
	struct sroce_ring *ring = cq->ring.ring;
	struct sroce_qp *qp = new_qp(cq, cq);
	struct ibv_wc_tm_info info;
	struct sroce_cqe *cqe;
	int i;

	CHECK(!cq_asked.flags);
	drop_cq(new_cq_ex(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP));
	CHECK(cq_asked.flags == SROCE_CQ_TIMESTAMP);
	drop_cq(new_cq_ex(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK |
			  IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_FLOW_TAG |
			  IBV_WC_EX_WITH_TM_INFO));
	CHECK(cq_asked.flags == SROCE_CQ_WALLCLOCK);
	CHECK(!new_cq_ex(1ULL << 40) && errno == EOPNOTSUPP);
	attr.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	CHECK(!sroce_create_cq_ex(pd->context, &attr) && errno == EOPNOTSUPP);
	done("extended completion queues: which flags there are");

	start_cq(cq, 0xfffffffe);
	start_wq(&qp->sq, 0);
	qp->sq.ring.prod = 9;
	poll.comp_mask = 1;
	CHECK(ibv_start_poll(ex, &poll) == EINVAL);
	poll.comp_mask = 0;
	CHECK(ibv_start_poll(ex, &poll) == ENOENT);
	complete(cq, 0xabcdef, IBV_WC_SEND, 1, 0);
	CHECK(ibv_start_poll(ex, &poll) == ENOENT && ring->cons == 0xffffffff);

	complete(cq, qp->sq.key, IBV_WC_SEND, 2, 3);
	complete(cq, 0xabcdef, IBV_WC_SEND, 3, 0);
	complete(cq, qp->sq.key, IBV_WC_RECV, 4, 0);
	cqe = sroce_ring_entry(&cq->ring, 1);
	cqe->timestamp = 0x1111111111111111;
	cqe->wallclock = 0x2222222222222222;
	cqe->byte_len = 11;
	cqe->imm_data = 12;
	cqe->src_qp = 13;
	cqe->vendor_err = 14;
	cqe->status = IBV_WC_LOC_LEN_ERR;
	cqe->wc_flags = SROCE_WC_GRH | SROCE_WC_VLAN | SROCE_WC_IP_CSUM_OK;
	cqe->sl = 3;
	cqe->flow_tag = 0x777;
	cqe->cvlan = 0x6abc;
	CHECK(ibv_start_poll(ex, &poll) == 0);
	CHECK(ex->wr_id == 2 && ex->status == IBV_WC_SUCCESS);
	CHECK(ibv_wc_read_opcode(ex) == IBV_WC_SEND);
	CHECK(ibv_wc_read_cvlan(ex) == 0);
	/* its place is given back, and that of its request */
	CHECK(qp->sq.ring.cons == 3 && ring->cons == 0);
	/* An event may be asked for while polling. */
	CHECK(!sroce_req_notify_cq(&cq->vcq.cq, 0) && ring->arm);
	CHECK(ibv_next_poll(ex) == 0 && ring->cons == 2);
	CHECK(ex->wr_id == 4 && ex->status == IBV_WC_LOC_LEN_ERR);
	CHECK(ibv_wc_read_opcode(ex) == IBV_WC_RECV);
	CHECK(ibv_wc_read_vendor_err(ex) == 14);
	CHECK(ibv_wc_read_byte_len(ex) == 11);
	CHECK(ibv_wc_read_imm_data(ex) == 12);
	CHECK(ibv_wc_read_qp_num(ex) == qp->sq.key);
	CHECK(ibv_wc_read_src_qp(ex) == 13);
	CHECK(ibv_wc_read_wc_flags(ex) == (IBV_WC_GRH | IBV_WC_IP_CSUM_OK));
	CHECK(ibv_wc_read_slid(ex) == 0 && ibv_wc_read_sl(ex) == 3);
	CHECK(ibv_wc_read_dlid_path_bits(ex) == 0);
	CHECK(ibv_wc_read_completion_ts(ex) == 0x1111111111111111);
	CHECK(ibv_wc_read_completion_wallclock_ns(ex) == 0x2222222222222222);
	CHECK(ibv_wc_read_cvlan(ex) == 0x6abc);
	CHECK(ibv_wc_read_flow_tag(ex) == 0x777);
	cq->open.tm_tag = 0x123456789abcdef;
	ibv_wc_read_tm_info(ex, &info);
	CHECK(info.tag == 0x123456789abcdef && info.priv == 13);
	CHECK(ibv_next_poll(ex) == ENOENT && ring->cons == 2);
	ibv_end_poll(ex);
	CHECK(ring->cons == 2);

	/* What ends in the middle keeps the rest, and the ring may fill up. */
	for (i = 0; i < (int)cq_entries; i++)
		complete(cq, qp->sq.key, IBV_WC_SEND, i, 3);
	CHECK(ibv_start_poll(ex, &poll) == 0 && ex->wr_id == 0);
	CHECK(ibv_next_poll(ex) == 0 && ex->wr_id == 1);
	ibv_end_poll(ex);
	CHECK(ring->cons == 4);
	CHECK(ibv_start_poll(ex, &poll) == 0 && ex->wr_id == 2);
	ring->prod = 4 + cq_entries + 2;
	CHECK(ibv_next_poll(ex) == EIO);
	ibv_end_poll(ex);
	CHECK(ibv_start_poll(ex, &poll) == EIO);
	start_cq(cq, 0);
	CHECK(ibv_start_poll(ex, &poll) == ENOENT);
	drop_qp(qp);
	drop_cq(cq);
	done("extended completion queues: every field, one by one, and a bad ring");
}

/* With no lock, a thread may end a queue pair whose completion it reads from. */
static void test_clean_polled(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 16,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED };
	struct ibv_poll_cq_attr poll = {};
	size_t base = shm_used;
	int round;

	for (round = 0; round < 1000; round++) {
		struct sroce_cq *cq =
			to_scq_ex(sroce_create_cq_ex(pd->context, &attr));
		struct ibv_cq_ex *ex = &cq->vcq.cq_ex;
		struct sroce_qp *qp[2] = { new_qp(cq, cq), new_qp(cq, cq) };
		int n = 1 + pick(16), i, victim = pick(2), next = 0;
		uint32_t key[2] = { qp[0]->sq.key, qp[1]->sq.key };
		int at[16];

		start_cq(cq, 0xfffffff8 + pick(32));
		for (i = 0; i < n; i++) {
			at[i] = pick(2);
			complete(cq, key[at[i]], IBV_WC_RECV, i, 0);
		}
		for (i = 1 + pick(n); next < i; next++)
			CHECK((next ? ibv_next_poll(ex) :
				      ibv_start_poll(ex, &poll)) == 0);
		drop_qp(qp[victim]);
		CHECK(ex->wr_id == (uint64_t)next - 1 &&
		      ibv_wc_read_qp_num(ex) == key[at[next - 1]]);
		for (; next < n; next++)
			if (at[next] != victim)
				CHECK(ibv_next_poll(ex) == 0 &&
				      ex->wr_id == (uint64_t)next &&
				      ibv_wc_read_qp_num(ex) == key[!victim]);
		CHECK(ibv_next_poll(ex) == ENOENT);
		ibv_end_poll(ex);
		CHECK(cq->ring.ring->cons == cq->ring.ring->prod);
		drop_qp(qp[!victim]);
		drop_cq(cq);
		shm_used = base;
	}
	done("a queue pair that ends while its completion is read from");
}

static void test_resize_cq(void)
{
	struct sroce_cq *cq = new_cq();
	struct sroce_qp *qp = new_qp(cq, cq);
	struct ibv_wc wc[80];
	int i;

	start_cq(cq, 0xfffffff9);
	for (i = 0; i < 12; i++)
		complete(cq, qp->sq.key, IBV_WC_SEND, i, 0);
	CHECK(sroce_poll_cq(&cq->vcq.cq, 3, wc) == 3);
	CHECK(sroce_resize_cq(&cq->vcq.cq, 0) == EINVAL);
	resize_errno = ENOMEM;
	CHECK(sroce_resize_cq(&cq->vcq.cq, 64) == ENOMEM);
	resize_errno = 0;
	CHECK(cq->ring.num == cq_entries);
	CHECK(sroce_resize_cq(&cq->vcq.cq, 64) == 0);
	CHECK(cq->ring.num == 64 && cq->vcq.cq.cqe == 64);
	CHECK(!sroce_req_notify_cq(&cq->vcq.cq, 0));
	CHECK(cq->ring.ring->arm == SROCE_CQ_ARM_NEXT);
	for (i = 12; i < 3 + 64; i++)
		complete(cq, qp->sq.key, IBV_WC_SEND, i, 0);
	CHECK(sroce_poll_cq(&cq->vcq.cq, 80, wc) == 64);
	for (i = 0; i < 64; i++)
		CHECK(wc[i].wr_id == (uint64_t)i + 3);
	CHECK(sroce_resize_cq(&cq->vcq.cq, 16) == 0 && cq->ring.num == 16);
	complete(cq, qp->sq.key, IBV_WC_SEND, 99, 0);
	CHECK(poll1(cq, wc) == 1 && wc[0].wr_id == 99);
	done("resize with completions in the ring, up and down");

	bend.entries = 1;
	CHECK(sroce_resize_cq(&cq->vcq.cq, 64) == EPROTO);
	bend.entries = 0;
	CHECK(poll1(cq, wc) == -EIO);
	CHECK(sroce_req_notify_cq(&cq->vcq.cq, 0) == EIO);
	/* the kernel has gone on by the indices that it knows */
	cq->ring.ring->prod = cq->ring.cons;
	CHECK(sroce_resize_cq(&cq->vcq.cq, 64) == 0);
	CHECK(sroce_req_notify_cq(&cq->vcq.cq, 0) == 0);
	complete(cq, qp->sq.key, IBV_WC_SEND, 100, 0);
	CHECK(poll1(cq, wc) == 1 && wc[0].wr_id == 100);
	drop_qp(qp);
	drop_cq(cq);
	done("a resized ring that can't be mapped: polling and asking fail, until one can");
}

static int resize_stop;

static void *resize_poll(void *arg)
{
	struct sroce_cq *cq = arg;
	struct ibv_poll_cq_attr attr = {};
	struct ibv_cq_ex *ex = &cq->vcq.cq_ex;
	struct ibv_wc wc[4];
	int i;

	for (i = 0; !__atomic_load_n(&resize_stop, __ATOMIC_ACQUIRE); i++) {
		if (i % 3 == 0)
			sroce_req_notify_cq(&cq->vcq.cq, 0);
		if (i % 3 == 1)
			CHECK(sroce_poll_cq(&cq->vcq.cq, 4, wc) >= 0);
		if (i % 3 == 2 && !ibv_start_poll(ex, &attr)) {
			/* Both locks, in the order of a resize. */
			sroce_req_notify_cq(&cq->vcq.cq, 1);
			ibv_next_poll(ex);
			ibv_end_poll(ex);
		}
	}
	return NULL;
}

static void test_resize_threads(void)
{
	struct sroce_cq *cq = new_cq_ex(IBV_WC_STANDARD_FLAGS);
	struct sroce_qp *qp = new_qp(cq, cq);
	size_t base = shm_used;
	pthread_t t[2];
	int i, k;

	for (i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, resize_poll, cq);
	for (i = 0; i < 2000; i++) {
		/* The kernel appends under a lock that its resize takes, too. */
		sroce_lock(&cq->lock);
		for (k = 0; k < 3; k++)
			if (cq->ring.ring->prod - cq->ring.ring->cons < 8)
				complete(cq, qp->sq.key, IBV_WC_SEND, i, 0);
		sroce_unlock(&cq->lock);
		if (i % 100 == 0)
			shm_used = base;
		CHECK(!sroce_resize_cq(&cq->vcq.cq, 16 << pick(3)));
	}
	__atomic_store_n(&resize_stop, 1, __ATOMIC_RELEASE);
	for (i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	drop_qp(qp);
	drop_cq(cq);
	done("resize while others poll and ask for events");
}

/* Memory. */

static void test_dm(void)
{
	struct ibv_alloc_dm_attr attr = { .length = 5000 };
	uint8_t in[5000], out[5000];
	struct ibv_dm *dm, *imp;
	struct ibv_mr *mr;
	uint32_t i;

	for (i = 0; i < sizeof(in); i++)
		in[i] = rnd() >> 24;
	dm_resp.offset = shm_used;
	dm_resp.length = 8192;
	shm_used += 8192;
	memset(shm + dm_resp.offset, 0xa5, 8192);

	attr.length = 8193;
	CHECK(!sroce_alloc_dm(pd->context, &attr) && errno == EPROTO);
	attr.length = 0;
	CHECK(!sroce_alloc_dm(pd->context, &attr) && errno == EINVAL);
	attr.length = 5000;
	attr.comp_mask = 1;
	CHECK(!sroce_alloc_dm(pd->context, &attr) && errno == EINVAL);
	attr.comp_mask = 0;
	dm = sroce_alloc_dm(pd->context, &attr);
	CHECK(!ibv_memcpy_to_dm(dm, 0, in, 5000));
	CHECK(!memcmp(shm + dm_resp.offset, in, 5000));
	CHECK(shm[dm_resp.offset + 5000] == 0xa5);
	CHECK(!ibv_memcpy_to_dm(dm, 4996, in, 4));
	CHECK(!memcmp(shm + dm_resp.offset + 4996, in, 4));
	CHECK(!ibv_memcpy_from_dm(out, dm, 4, 4000));
	CHECK(!memcmp(out, in + 4, 4000));
	for (i = 1; i < 4; i++) {
		CHECK(ibv_memcpy_to_dm(dm, i, in, 4) == EINVAL);
		CHECK(ibv_memcpy_to_dm(dm, 4, in, i) == EINVAL);
		CHECK(ibv_memcpy_from_dm(out, dm, i, 4) == EINVAL);
		CHECK(ibv_memcpy_from_dm(out, dm, 4, i) == EINVAL);
	}
	CHECK(!ibv_memcpy_from_dm(out, dm, 5000, 0));
	CHECK(ibv_memcpy_to_dm(dm, 0, in, 5004) == EINVAL);
	CHECK(ibv_memcpy_to_dm(dm, 5000, in, 4) == EINVAL);
	CHECK(ibv_memcpy_to_dm(dm, 5004, in, 0) == EINVAL);
	CHECK(ibv_memcpy_to_dm(dm, UINT64_MAX - 3, in, 8) == EINVAL);
	CHECK(ibv_memcpy_from_dm(out, dm, 4, SIZE_MAX - 3) == EINVAL);
	CHECK(ibv_memcpy_from_dm(out, dm, 4996, 8) == EINVAL);
	mr = sroce_reg_dm_mr(pd, dm, 1000, 4000, IBV_ACCESS_ZERO_BASED);
	CHECK(mr && dm_regs == 1 && !sroce_dereg_mr(verbs_get_mr(mr)));
	CHECK(!sroce_reg_dm_mr(pd, dm, 1000, 4001, 0) && errno == EINVAL);
	CHECK(!sroce_reg_dm_mr(pd, dm, UINT64_MAX, 2, 0) && dm_regs == 1);

	imp = sroce_import_dm(pd->context, 77);
	CHECK(imp && imp->handle == 77);
	CHECK(!ibv_memcpy_from_dm(out, imp, 0, 100) && !memcmp(out, in, 100));
	CHECK(ibv_memcpy_from_dm(out, imp, 8192, 4) == EINVAL);
	sroce_unimport_dm(imp);
	CHECK(!sroce_free_dm(dm));
	dm_resp.length = 0;
	CHECK(!sroce_import_dm(pd->context, 77) && errno == EPROTO);
	done("device memory: what is copied, and not a byte beyond");

	i = deregs;
	mr = sroce_alloc_null_mr(pd);
	CHECK(mr->lkey == SROCE_NULL_LKEY && mr->pd == pd && !mr->rkey);
	CHECK(mr->context == pd->context);
	CHECK(!sroce_dereg_mr(verbs_get_mr(mr)) && deregs == (int)i);
	done("the null region is no business of the kernel's");
}

/* Domains. */

static struct { int allocs, frees, mode; void *context; uint64_t types; } al;

static void *al_alloc(struct ibv_pd *parent, void *context, size_t size,
		      size_t alignment, uint64_t type)
{
	al.allocs++;
	al.context = context;
	al.types |= 1ULL << (type & 63);
	CHECK(type >> 32 == SROCE_DRIVER_ID && !(size % alignment));
	if (al.mode == 1)
		return IBV_ALLOCATOR_USE_DEFAULT;
	if (al.mode == 2)
		return NULL;
	return memset(aligned_alloc(alignment, size), 0xcc, size);
}

static void al_free(struct ibv_pd *parent, void *context, void *mem,
		    uint64_t type)
{
	al.frees++;
	CHECK(context == al.context && type >> 32 == SROCE_DRIVER_ID);
	free(mem);
}

static void use_parent(struct ibv_pd *parent, bool unlocked)
{
	struct ibv_cq_init_attr_ex cq_attr = {
		.cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
		.parent_domain = parent,
	};
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_sge = 1 } };
	struct ibv_cq_ex *cq = sroce_create_cq_ex(pd->context, &cq_attr);
	struct ibv_srq *srq = sroce_create_srq(parent, &srq_attr);
	struct ibv_wq_init_attr wq_attr = { .pd = parent, .max_sge = 1,
					    .cq = ibv_cq_ex_to_cq(cq) };
	struct ibv_qp_init_attr attr = {
		.send_cq = ibv_cq_ex_to_cq(cq), .recv_cq = ibv_cq_ex_to_cq(cq),
		.cap = { .max_send_wr = sq_wrs, .max_recv_wr = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = sroce_create_qp(parent, &attr);
	struct ibv_wq *wq = sroce_create_wq(pd->context, &wq_attr);

	/* who polls may be another thread than who resets or destroys */
	CHECK(!to_scq_ex(cq)->lock.unneeded);
	CHECK(to_sqp(qp)->sq.lock.unneeded == unlocked);
	CHECK(to_sqp(qp)->rq.lock.unneeded == unlocked);
	CHECK(to_ssrq(srq)->wq.lock.unneeded == unlocked);
	CHECK(!((uintptr_t)qp & 63) && qp->pd == parent);
	CHECK(sroce_dealloc_pd(parent) == EBUSY);
	CHECK(!sroce_destroy_wq(wq) && !sroce_destroy_qp(qp));
	CHECK(!sroce_destroy_srq(srq));
	CHECK(!sroce_destroy_cq(ibv_cq_ex_to_cq(cq)));
}

static void test_domains(void)
{
	struct ibv_parent_domain_init_attr attr = {};
	struct ibv_td_init_attr td_attr = {};
	struct ibv_pd *base = sroce_alloc_pd(pd->context), *parent;
	struct ibv_cq_init_attr_ex cq_attr = {
		.cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
		.parent_domain = base,
	};
	struct ibv_srq_init_attr srq_attr = {};
	struct ibv_cq_ex *cq;
	struct ibv_td *td;
	int marker;

	CHECK(!sroce_alloc_parent_domain(pd->context, &attr) && errno == EINVAL);
	attr.pd = base;
	attr.comp_mask = 1 << 20;
	CHECK(!sroce_alloc_parent_domain(pd->context, &attr) && errno == EOPNOTSUPP);
	attr.comp_mask = 0;
	parent = sroce_alloc_parent_domain(pd->context, &attr);
	CHECK(parent && parent->handle == base->handle);
	attr.pd = parent;
	CHECK(!sroce_alloc_parent_domain(pd->context, &attr) && errno == EINVAL);
	attr.pd = base;
	CHECK(sroce_dealloc_pd(base) == EBUSY);
	CHECK(!sroce_create_cq_ex(pd->context, &cq_attr) && errno == EINVAL);
	use_parent(parent, false);
	CHECK(!sroce_dealloc_pd(parent));
	done("a parent domain and what holds on to whom");

	attr.alloc = al_alloc;
	attr.free = al_free;
	attr.pd_context = &marker;
	attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			 IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
	parent = sroce_alloc_parent_domain(pd->context, &attr);
	use_parent(parent, false);
	CHECK(al.allocs == 4 && al.frees == 4 && al.context == &marker);
	CHECK(al.types == (1 << SROCE_RES_CQ | 1 << SROCE_RES_QP |
			   1 << SROCE_RES_SRQ | 1 << SROCE_RES_WQ));
	al.mode = 1;
	use_parent(parent, false);
	CHECK(al.allocs == 8 && al.frees == 4);
	al.mode = 2;
	CHECK(!sroce_create_srq(parent, &srq_attr) && errno == ENOMEM);
	CHECK(al.frees == 4 && !sroce_dealloc_pd(parent));
	done("a parent domain's allocators");

	td_attr.comp_mask = 1;
	CHECK(!sroce_alloc_td(pd->context, &td_attr) && errno == EOPNOTSUPP);
	td_attr.comp_mask = 0;
	td = sroce_alloc_td(pd->context, &td_attr);
	attr.comp_mask = 0;
	attr.td = td;
	parent = sroce_alloc_parent_domain(pd->context, &attr);
	CHECK(sroce_dealloc_td(td) == EBUSY);
	use_parent(parent, true);
	CHECK(!sroce_dealloc_pd(parent) && !sroce_dealloc_td(td));
	CHECK(!sroce_dealloc_pd(base));
	cq_attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	cq_attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	cq = sroce_create_cq_ex(pd->context, &cq_attr);
	CHECK(to_scq_ex(cq)->lock.unneeded);
	drop_cq(to_scq_ex(cq));
	done("a thread domain takes the locks away");
}

static void test_rss(struct sroce_cq *cq)
{
	struct ibv_wq_init_attr attr = { .pd = pd, .max_sge = 1,
					 .cq = &cq->vcq.cq };
	struct ibv_wq *wq = sroce_create_wq(pd->context, &attr);
	struct ibv_wq_attr mod = { .attr_mask = IBV_WQ_ATTR_STATE,
				   .wq_state = IBV_WQS_RDY };
	uint8_t key[129] = { 1, 2, 3, [39] = 40 };
	struct ibv_qp_init_attr_ex qp_attr = {
		.qp_type = IBV_QPT_RAW_PACKET, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE |
			     IBV_QP_INIT_ATTR_RX_HASH,
		.rx_hash_conf = { IBV_RX_HASH_FUNC_TOEPLITZ, 40, key,
				  IBV_RX_HASH_SRC_IPV4 },
	};
	struct sroce_ring *ring = to_srwq(wq)->rq.ring.ring;
	struct ibv_recv_wr wr = { .wr_id = 3 }, *bad;
	struct ibv_qp *qp;
	struct ibv_wc wc;
	int i;

	CHECK(wq->post_recv(wq, &wr, &bad) == EINVAL && bad == &wr);
	CHECK(!sroce_modify_wq(wq, &mod));
	for (i = 0; i < (int)rq_entries; i++)
		CHECK(wq->post_recv(wq, &wr, &bad) == 0);
	CHECK(wq->post_recv(wq, &wr, &bad) == ENOMEM);
	complete(cq, wq->wq_num, IBV_WC_RECV, 3, 1);
	CHECK(poll1(cq, &wc) == 1 && wc.wr_id == 3);
	CHECK(wc.qp_num == wq->wq_num);
	CHECK(wq->post_recv(wq, &wr, &bad) == 0 && ring->prod == 9);
	complete(cq, wq->wq_num, IBV_WC_RECV, 4, 2);
	mod.wq_state = IBV_WQS_RESET;
	CHECK(!sroce_modify_wq(wq, &mod) && !to_srwq(wq)->rq.ring.prod);
	CHECK(poll1(cq, &wc) == 0);
	CHECK(!sroce_destroy_wq(wq));

	qp = sroce_create_qp_ex(pd->context, &qp_attr);
	CHECK(qp && !to_sqp(qp)->sq.ring.num && !to_sqp(qp)->rq.ring.num);
	CHECK(qp_asked.rx_hash_function == IBV_RX_HASH_FUNC_TOEPLITZ);
	CHECK(qp_asked.rx_hash_fields == IBV_RX_HASH_SRC_IPV4);
	CHECK(qp_asked.rx_hash_key_len == 40);
	CHECK(!memcmp(qp_asked.rx_hash_key, key, 128));
	CHECK(!sroce_destroy_qp(qp));
	qp_attr.rx_hash_conf.rx_hash_key_len = 129;
	CHECK(!sroce_create_qp_ex(pd->context, &qp_attr) && errno == EINVAL);
	qp_attr.comp_mask &= ~IBV_QP_INIT_ATTR_IND_TABLE;
	CHECK(!sroce_create_qp_ex(pd->context, &qp_attr) && errno == EINVAL);
	done("RSS: a work queue, and a queue pair that has no rings");
}

static void test_clock(void)
{
	struct ibv_values_ex v = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	struct timespec before, after;

	sroce_find_clock(&ctx);
	CHECK(!ctx.no_clock);
	ctx.clock_offset = -1500000000;
	clock_gettime(CLOCK_MONOTONIC, &before);
	CHECK(!sroce_query_rt_values(pd->context, &v));
	clock_gettime(CLOCK_MONOTONIC, &after);
#define NS(t) ((t).tv_sec * 1000000000LL + (t).tv_nsec)
	/* all of it where programs look for it */
	CHECK(!v.raw_clock.tv_sec);
	CHECK(v.raw_clock.tv_nsec >= NS(before) + 1500000000);
	CHECK(v.raw_clock.tv_nsec <= NS(after) + 1500000000);
	v.comp_mask = 2;
	CHECK(sroce_query_rt_values(pd->context, &v) == EINVAL);
	v.comp_mask = 1;
	ctx.no_clock = true;
	CHECK(sroce_query_rt_values(pd->context, &v) == EOPNOTSUPP);
	done("the clock, from another time namespace");
}

/*
 * Three at once: posting on one queue pair, polling, and creating and
 * destroying others whose completions are on their way all the time. The
 * kernel's thread executes what is posted.
 */
static struct {
	struct sroce_cq *cq;
	struct sroce_qp *qp;
	uint32_t others[4];
	int stop;
	uint64_t executed, polled, stray;
} live;

#define LIVE_POSTS	60000

static void *live_kernel(void *arg)
{
	struct sroce_ring *sq = live.qp->sq.ring.ring;
	struct sroce_ring *cq = live.cq->ring.ring;
	uint32_t cons = sq->cons, spin = 0;

	while (!__atomic_load_n(&live.stop, __ATOMIC_ACQUIRE)) {
		uint32_t room = live.cq->ring.num - (cq->prod -
			__atomic_load_n(&cq->cons, __ATOMIC_ACQUIRE));
		const struct sroce_send_wqe *wqe;

		if (room < 2) {
			sched_yield();
			continue;
		}
		if (++spin % 3 == 0) {
			uint32_t qpn = __atomic_load_n(&live.others[spin % 4],
						       __ATOMIC_ACQUIRE);

			if (qpn)
				complete(live.cq, qpn, spin % 2 * 128,
					 ~0ULL, 0);
		}
		if (cons == __atomic_load_n(&sq->prod, __ATOMIC_ACQUIRE))
			continue;
		wqe = (void *)((uint8_t *)(sq + 1) +
			       cons % sq_blocks * SROCE_SQ_BLOCK);
		if (wqe->wr_id != live.executed ||
		    wqe->num_blocks != 1 + live.executed % 3)
			__atomic_store_n(&live.stop, 2, __ATOMIC_RELEASE);
		live.executed++;
		cons += wqe->num_blocks;
		if (wqe->flags & SROCE_WQE_SIGNALED)
			complete(live.cq, live.qp->sq.key, IBV_WC_SEND,
				 wqe->wr_id, cons);
	}
	return NULL;
}

static void *live_poll(void *arg)
{
	struct ibv_wc wc[7];
	int i, n;

	while (!__atomic_load_n(&live.stop, __ATOMIC_ACQUIRE)) {
		n = sroce_poll_cq(&live.cq->vcq.cq, 7, wc);
		for (i = 0; i < n; i++) {
			if (wc[i].qp_num != live.qp->sq.key) {
				live.stray++;
				continue;
			}
			/* Every fourth is signaled, in order. */
			if (wc[i].wr_id != live.polled * 4 + 3)
				__atomic_store_n(&live.stop, 3,
						 __ATOMIC_RELEASE);
			live.polled++;
		}
		if (live.polled == LIVE_POSTS / 4)
			__atomic_store_n(&live.stop, 1, __ATOMIC_RELEASE);
		if (!n)
			sched_yield();
	}
	return NULL;
}

static void *live_churn(void *arg)
{
	struct sroce_qp *qp[4] = {};
	size_t base = shm_used;
	uint32_t i;

	for (i = 0; !__atomic_load_n(&live.stop, __ATOMIC_ACQUIRE); i++) {
		uint32_t k = i % 4;

		if (qp[k]) {
			/* Some completions come until the very end, and after. */
			if (i & 4)
				__atomic_store_n(&live.others[k], 0,
						 __ATOMIC_RELEASE);
			drop_qp(qp[k]);
		}
		if (shm_used > SHM_SIZE - 65536)
			shm_used = base;
		qp[k] = new_qp(live.cq, live.cq);
		__atomic_store_n(&live.others[k], qp[k]->sq.key,
				 __ATOMIC_RELEASE);
		usleep(20);
	}
	for (i = 0; i < 4; i++)
		if (qp[i])
			drop_qp(qp[i]);
	return NULL;
}

/* Who makes queue pairs is another thread than who polls, without a lock. */
#define MADE	200

static void *live_make(void *arg)
{
	struct sroce_qp **qp = arg;

	for (int i = 0; i < MADE; i++)
		qp[i] = new_qp(live.cq, live.cq);
	__atomic_store_n(&live.stop, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void test_make_polled(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 16,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED };
	static struct sroce_qp *qp[MADE];
	size_t base = shm_used;
	struct sroce_wq **table;
	struct sroce_qp *first;
	uint64_t n, found = 0;
	struct ibv_wc wc;
	pthread_t t;
	int i;

	live.cq = to_scq_ex(sroce_create_cq_ex(pd->context, &attr));
	CHECK(live.cq->lock.unneeded);
	table = live.cq->table;
	first = new_qp(live.cq, live.cq);
	start_cq(live.cq, 0);
	live.stop = 0;
	pthread_create(&t, NULL, live_make, qp);
	for (n = 0; !__atomic_load_n(&live.stop, __ATOMIC_ACQUIRE) || n < MADE; n++) {
		live.cq->last = NULL;
		complete(live.cq, first->rq.key, IBV_WC_RECV, n, 0);
		found += sroce_poll_cq(&live.cq->vcq.cq, 1, &wc) == 1 && wc.wr_id == n;
	}
	pthread_join(t, NULL);
	CHECK(found == n && live.cq->num_wqs == 2 * MADE + 2);
	/* who polls may be looking at it */
	CHECK(live.cq->table == table);
	for (i = 0; i < MADE; i++) {
		complete(live.cq, qp[i]->rq.key, IBV_WC_RECV, i, 0);
		CHECK(sroce_poll_cq(&live.cq->vcq.cq, 1, &wc) == 1);
		drop_qp(qp[i]);
	}
	drop_qp(first);
	drop_cq(live.cq);
	shm_used = base;
	live.stop = 0;
	CHECK(!leak);
	done("no lock: queue pairs made while another thread polls");
}

static void test_threads(void)
{
	uint8_t bytes[144] = {};
	struct ibv_sge sge = { .addr = (uintptr_t)bytes };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1,
				  .opcode = IBV_WR_SEND };
	pthread_t t[3];
	uint64_t n;
	int i;

	live.cq = new_cq();
	next_qpn = 50;
	live.qp = new_qp(live.cq, live.cq);
	start_wq(&live.qp->sq, 0xffffff00);
	start_cq(live.cq, 0xffffff00);
	pthread_create(&t[0], NULL, live_kernel, NULL);
	pthread_create(&t[1], NULL, live_poll, NULL);
	pthread_create(&t[2], NULL, live_churn, NULL);
	for (n = 0; n < LIVE_POSTS; ) {
		struct ibv_send_wr *bad;

		wr.wr_id = n;
		sge.length = 16 + 64 * (n % 3);
		wr.send_flags = IBV_SEND_INLINE |
				(n % 4 == 3 ? IBV_SEND_SIGNALED : 0);
		if (!sroce_post_send(&live.qp->vqp.qp, &wr, &bad))
			n++;
		else if (__atomic_load_n(&live.stop, __ATOMIC_ACQUIRE))
			break;
		else
			sched_yield();
	}
	for (i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	CHECK(live.stop == 1 && live.executed == LIVE_POSTS);
	printf("# %llu completions of queue pairs that came and went\n",
	       (unsigned long long)live.stray);
	drop_qp(live.qp);
	CHECK(!live.cq->num_wqs);
	drop_cq(live.cq);
	CHECK(!leak);
	done("post, poll, create and destroy at the same time");
}

int main(void)
{
	struct sroce_cq *cq;
	struct sroce_qp *qp;
	int fd = memfd_create("sroce", 0);

	/* A lock that is not given back is a failure, not a hang. */
	alarm(120);
	if (fd < 0 || ftruncate(fd, SHM_SIZE))
		return 1;
	shm = mmap(NULL, SHM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (shm == MAP_FAILED)
		return 1;
	ctx.vctx.context.cmd_fd = fd;
	ctx.vctx.context.device = &fake_dev.device;
	ctx.vctx.context.abi_compat = (void *)UINTPTR_MAX;
	ctx.max_inline = SROCE_MAX_INLINE;
	ctx.max_sge = SROCE_MAX_SGE;
	ctx.qp_ex_at = sroce_find_qp_ex();

	cq = new_cq();
	qp = new_qp(cq, cq);
	if (!cq || !qp)
		return 1;

	test_opcodes(cq);
	test_refusals(qp);
	test_data(qp);
	test_space(qp, cq, sq_blocks);
	for (sq_wrs = 1; sq_wrs <= 5; sq_wrs += 2) {
		struct sroce_qp *few = new_qp(cq, cq);

		test_space(few, cq, sq_wrs);
		drop_qp(few);
	}
	sq_wrs = 16;
	test_few(cq);
	test_list(qp);
	test_linger(qp, cq);
	test_bells(cq);
	test_bells_fork(cq);
	test_xrc_send_cq(cq);
	test_ah_users(cq);
	test_recv(qp, cq);
	test_poll(qp, cq);
	drop_qp(qp);
	test_srq(cq);
	test_xrc_srq(cq);
	test_basic_srq_ex(cq);
	test_tm_srq(cq);
	test_qp_ex_place(cq);
	test_wr_same(cq);
	test_wr_batch(cq);
	test_rss(cq);
	drop_cq(cq);
	test_cq_ex();
	test_clean_polled();
	test_resize_cq();
	test_resize_threads();
	test_dm();
	test_domains();
	test_clock();
	test_answers();
	test_clean();
	test_lookup();
	test_make_polled();
	test_threads();

	printf("1..%d\n", tests);
	return failures ? 1 : 0;
}
