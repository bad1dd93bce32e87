/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SROCE_H
#define SROCE_H

#include <pthread.h>

#include <infiniband/driver.h>

#include "compat.h"
#include "ring.h"

struct sroce_device {
	struct verbs_device vdev;
};

/**
 * struct sroce_context - an open device
 * @vctx: rdma-core's part
 * @max_inline: bytes inline that the kernel takes
 * @max_sge: scatter/gather entries that the kernel takes
 * @qp_ex_at: where this libibverbs keeps verbs_qp.comp_mask, see
 *	sroce_find_qp_ex(); 0 if that is not known
 * @clock_offset: what our time namespace adds to CLOCK_MONOTONIC, nanoseconds
 * @no_clock: that could not be found out
 * @bells: queue pairs that wait for a doorbell, see sroce_doorbell_soon(); of no
 *	entries if the kernel gave none
 * @bells_busy: a thread is writing to it; atomic
 * @bells_forks: whose it is, as a number of forks: a child leaves it alone
 * @ud_lock: for @ud_qps
 * @ud_qps: all that may send by an address handle
 */
struct sroce_context {
	struct verbs_context vctx;
	uint32_t max_inline;
	uint32_t max_sge;
	uint32_t qp_ex_at;
	int64_t clock_offset;
	bool no_clock;
	struct sroce_ring_view bells;
	bool bells_busy;
	uint32_t bells_forks;
	pthread_mutex_t ud_lock;
	struct sroce_qp *ud_qps;
};

/**
 * struct sroce_lock - a lock that a program may make superfluous
 * @spin: held for a few stores, or for the kernel call of a resize
 * @unneeded: the program has promised to serialize
 */
struct sroce_lock {
	pthread_spinlock_t spin;
	bool unneeded;
};

static inline void sroce_lock_init(struct sroce_lock *lock, bool unneeded)
{
	pthread_spin_init(&lock->spin, PTHREAD_PROCESS_PRIVATE);
	lock->unneeded = unneeded;
}

static inline void sroce_lock_fini(struct sroce_lock *lock)
{
	pthread_spin_destroy(&lock->spin);
}

static inline void sroce_lock(struct sroce_lock *lock)
{
	if (!lock->unneeded)
		pthread_spin_lock(&lock->spin);
}

static inline bool sroce_trylock(struct sroce_lock *lock)
{
	return lock->unneeded || !pthread_spin_trylock(&lock->spin);
}

static inline void sroce_unlock(struct sroce_lock *lock)
{
	if (!lock->unneeded)
		pthread_spin_unlock(&lock->spin);
}

/**
 * struct sroce_td - a thread domain
 * @ibtd: rdma-core's part
 * @refs: parent domains with it, atomic
 */
struct sroce_td {
	struct ibv_td ibtd;
	int refs;
};

/**
 * struct sroce_pd - a protection domain or a parent domain
 * @ibpd: rdma-core's part; a parent domain has the handle of its protection
 *	domain, so that the kernel sees that one
 * @protection: of a parent domain: its protection domain; otherwise NULL
 * @td: of a parent domain: its thread domain or NULL
 * @refs: of a protection domain: parent domains over it; of a parent domain:
 *	objects that will need it to be freed. Atomic
 * @alloc: of a parent domain: the program's allocator or NULL
 * @free: likewise
 * @context: for @alloc and @free
 */
struct sroce_pd {
	struct ibv_pd ibpd;
	struct sroce_pd *protection;
	struct sroce_td *td;
	int refs;
	void *(*alloc)(struct ibv_pd *pd, void *context, size_t size,
		       size_t alignment, uint64_t type);
	void (*free)(struct ibv_pd *pd, void *context, void *mem, uint64_t type);
	void *context;
};

/*
 * What a parent domain's allocators are asked for, in their resource_type: ours
 * in the upper half, as other providers have their driver's id there.
 */
enum sroce_res_type {
	SROCE_RES_CQ = 1,
	SROCE_RES_QP,
	SROCE_RES_SRQ,
	SROCE_RES_WQ,
};

/**
 * struct sroce_owner - whom an object's memory came from
 * @parent: parent domain, with a reference, or NULL
 * @type: what it was allocated as
 * @custom: by the program's allocator
 */
struct sroce_owner {
	struct sroce_pd *parent;
	enum sroce_res_type type;
	bool custom;
};

/**
 * struct sroce_wq - a send or receive queue
 * @ring: no entries in a queue pair that receives from an SRQ
 * @lock: serializes posting
 * @key: how completions name this queue, see sroce_cqe_key()
 * @max_sge: longest list that a request may have
 * @max_wr: requests that the queue takes; only where @posted is
 * @posted: how many requests lie before an index of the ring, see sroce_wq_posted();
 *	NULL if no more fit than may be. Under @lock, and read of what has completed
 * @retired: requests that may be used again, as @posted counts; atomic
 * @attached: the completion queue finds this queue
 * @next: in the completion queue's table; both under its lock
 */
struct sroce_wq {
	struct sroce_ring_view ring;
	struct sroce_lock lock;
	uint32_t key;
	uint32_t max_sge;
	uint32_t max_wr;
	uint32_t *posted;
	uint32_t retired;
	bool attached;
	struct sroce_wq *next;
};

/*
 * A send queue's entries are blocks, and a request has one or several. Twice as many
 * elements as blocks: what lies ahead of prod, and is given up, leaves prod's alone.
 */
static inline uint32_t *sroce_wq_posted(const struct sroce_wq *wq, uint32_t index)
{
	return &wq->posted[index & (2 * wq->ring.num - 1)];
}

/**
 * struct sroce_held - posted requests that the kernel was not told of
 * @qp: whose they are
 * @next: in the completion queue's list
 * @queued: it is in that list; atomic
 */
struct sroce_held {
	struct sroce_qp *qp;
	struct sroce_held *next;
	bool queued;
};

/**
 * struct sroce_cq - a completion queue
 * @vcq: rdma-core's part
 * @owner: of its memory
 * @ring: its ring
 * @lock: for all that follows, for polling, and for the cons of the work queues
 *	that complete here
 * @attach_lock: for who puts queues into @table, or takes them out; inside of @lock, which
 *	who makes a queue pair may hold, and a program may have made superfluous for who polls alone
 * @arm_lock: keeps the ring in place while an event is asked for; taken inside
 *	@lock. Not the same, because a program may ask for an event between
 *	ibv_start_poll() and ibv_end_poll(), which hold @lock
 * @lost: the kernel has gone on to a ring that could not be mapped; under both locks
 * @asked: index of the first completion that the event may be for which was asked for
 *	last; under @arm_lock, as the next three are
 * @asked_done: where the program had been then
 * @heard: up to where the program looks because of the event that it took last
 * @heard_done: where it had been when it took it
 * @last: the queue that the latest completion was for
 * @table: the queues that complete here, hashed by key
 * @table_size: buckets, a power of two
 * @num_wqs: queues in @table
 * @num_srqs: SRQs that complete here themselves, see sroce_cq_known(). Atomic
 * @open: what ibv_wc_read_*() read, a copy
 * @held: doorbells to be rung when a poller finds nothing: struct sroce_held.
 *	Put there without a lock, taken from there under @lock
 * @vain: polls in a row that found nothing, since the kernel had the CPU
 * @times: how often it had, since one found something
 *
 * Each completion queue has a table of its own, and not the context one for
 * all: its lock, which polling holds anyway, is then all that keeps a queue
 * from being freed under a poller, and a bogus number leads nowhere.
 */
struct sroce_cq {
	struct verbs_cq vcq;
	struct sroce_owner owner;
	struct sroce_ring_view ring;
	struct sroce_lock lock;
	struct sroce_lock attach_lock;
	struct sroce_lock arm_lock;
	bool lost;
	uint32_t asked;
	uint32_t asked_done;
	uint32_t heard;
	uint32_t heard_done;
	struct sroce_wq *last;
	struct sroce_wq **table;
	uint32_t table_size;
	uint32_t num_wqs;
	uint32_t num_srqs;
	struct sroce_cqe open;
	struct sroce_held *held;
	uint32_t vain;
	uint32_t times;
};

/**
 * struct sroce_wr_build - requests between ibv_wr_start() and ibv_wr_complete()
 * @wqe: header of the latest one
 * @op: its opcode, NULL if there is none yet
 * @prod: where it goes
 * @err: first error, 0 or a positive errno
 */
struct sroce_wr_build {
	struct sroce_send_wqe wqe;
	const struct sroce_op *op;
	uint32_t prod;
	int err;
};

/**
 * struct sroce_qp - a queue pair
 * @vqp: rdma-core's part. All of it: libibverbs looks behind the ibv_qp to see
 *	whether this is an extended one, and finds the zeroes of calloc()
 * @vqp_room: rdma-core grows ibv_qp_ex without a new private ABI, and stores
 *	comp_mask and xrcd of verbs_qp behind its own idea of it
 * @owner: of its memory
 * @state: as it was last modified to. Not what ibv_qp has, which a query whose answer comes
 *	late overwrites with what was
 * @sq: send queue
 * @rq: receive queue
 * @max_inline: bytes inline that a send request may have
 * @sq_sig_all: every send request completes with an entry
 * @send_ops: IBV_QP_EX_WITH_* that ibv_wr_*() may use
 * @build: what they are at, under the send queue's lock
 * @held_send: in the list of the completion queue for what is sent
 * @held_recv: in that for what is received, if it is another
 * @ud_next: in the context's list
 * @ud_at: what points to it there
 */
struct sroce_qp {
	struct verbs_qp vqp;
	uint64_t vqp_room[8];
	struct sroce_owner owner;
	enum ibv_qp_state state;
	struct sroce_wq sq;
	struct sroce_wq rq;
	uint32_t max_inline;
	bool sq_sig_all;
	uint64_t send_ops;
	struct sroce_wr_build build;
	struct sroce_held held_send;
	struct sroce_held held_recv;
	struct sroce_qp *ud_next;
	struct sroce_qp **ud_at;
};

/**
 * struct sroce_srq - a shared receive queue
 * @vsrq: rdma-core's part
 * @owner: of its memory
 * @wq: its queue; @key and what completions need are not used
 */
struct sroce_srq {
	struct verbs_srq vsrq;
	struct sroce_owner owner;
	struct sroce_wq wq;
};

/**
 * struct sroce_rwq - a work queue of an indirection table
 * @ibwq: rdma-core's part
 * @owner: of its memory
 * @rq: its queue
 */
struct sroce_rwq {
	struct ibv_wq ibwq;
	struct sroce_owner owner;
	struct sroce_wq rq;
};

/**
 * struct sroce_ah - an address handle
 * @ibah: rdma-core's part
 * @num: what send requests name it by
 * @user: number of the queue pair that was asked to send with it, SROCE_AH_SHARED
 *	for several, 0 for none; atomic
 */
struct sroce_ah {
	struct ibv_ah ibah;
	uint32_t num;
	uint32_t user;
};

/* Queue pair numbers have 24 bits. */
#define SROCE_AH_SHARED	(1U << 31)

/**
 * struct sroce_dm - device memory
 * @vdm: rdma-core's part
 * @mem: where it is mapped
 * @length: bytes that the program may use
 * @map_size: bytes to unmap
 */
struct sroce_dm {
	struct verbs_dm vdm;
	uint8_t *mem;
	uint64_t length;
	uint64_t map_size;
};

static inline struct sroce_context *to_sctx(struct ibv_context *ibctx)
{
	return container_of(ibctx, struct sroce_context, vctx.context);
}

static inline struct sroce_pd *to_spd(struct ibv_pd *ibpd)
{
	return container_of(ibpd, struct sroce_pd, ibpd);
}

static inline struct sroce_cq *to_scq(struct ibv_cq *ibcq)
{
	return container_of(ibcq, struct sroce_cq, vcq.cq);
}

static inline struct sroce_cq *to_scq_ex(struct ibv_cq_ex *ibcq)
{
	return container_of(ibcq, struct sroce_cq, vcq.cq_ex);
}

static inline struct sroce_qp *to_sqp(struct ibv_qp *ibqp)
{
	return container_of(ibqp, struct sroce_qp, vqp.qp);
}

static inline struct sroce_qp *to_sqp_ex(struct ibv_qp_ex *ibqp)
{
	return container_of(ibqp, struct sroce_qp, vqp.qp_ex);
}

static inline struct sroce_srq *to_ssrq(struct ibv_srq *ibsrq)
{
	return container_of(ibsrq, struct sroce_srq, vsrq.srq);
}

static inline struct sroce_rwq *to_srwq(struct ibv_wq *ibwq)
{
	return container_of(ibwq, struct sroce_rwq, ibwq);
}

static inline struct sroce_ah *to_sah(struct ibv_ah *ibah)
{
	return container_of(ibah, struct sroce_ah, ibah);
}

static inline struct sroce_dm *to_sdm(struct ibv_dm *ibdm)
{
	return container_of(ibdm, struct sroce_dm, vdm.dm);
}

static inline uint32_t sroce_min(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

#define SROCE_WQ_RECV	(1U << 31)

/*
 * What is a tag matching SRQ's has a key that no queue has: it stays where it is
 * when the queue pair goes that it came by, since the program has to count it.
 */
static inline uint32_t sroce_cqe_key(const struct sroce_cqe *cqe)
{
	if (cqe->opcode >= SROCE_WC_TM_ADD)
		return SROCE_WQ_RECV;
	return cqe->qp_num | (cqe->opcode & SROCE_WC_RECV ? SROCE_WQ_RECV : 0);
}

/* doorbell.c */
int sroce_bells_open(struct sroce_context *ctx, const struct sroce_ring_map *map);
int sroce_doorbell(struct sroce_context *ctx, uint32_t qp_num);
int sroce_doorbell_soon(struct sroce_context *ctx, uint32_t qp_num);
void sroce_doorbell_due(struct sroce_context *ctx, const uint32_t *qp_nums,
			uint32_t num);
void sroce_defer(struct sroce_qp *qp);
void sroce_doorbell_posted(struct sroce_qp *qp);
void sroce_doorbell_users(struct sroce_context *ctx, uint32_t user);
uint32_t sroce_take_held(struct sroce_cq *cq, uint32_t *qp_nums, uint32_t max);
void sroce_forget_held(struct sroce_cq *cq, struct sroce_held *held);
void sroce_ud_add(struct sroce_context *ctx, struct sroce_qp *qp);
void sroce_ud_remove(struct sroce_context *ctx, struct sroce_qp *qp);

/* map.c */
int sroce_map_ring(struct ibv_context *ibctx, struct sroce_ring_view *v,
		   const struct sroce_ring_map *map, uint32_t min_entry);
int sroce_map_recv_ring(struct ibv_context *ibctx, struct sroce_wq *wq,
			const struct sroce_ring_map *map, uint32_t max_sge);
void sroce_unmap_ring(struct sroce_ring_view *v);

/* domain.c */
struct ibv_pd *sroce_alloc_pd(struct ibv_context *ibctx);
struct ibv_pd *sroce_import_pd(struct ibv_context *ibctx, uint32_t handle);
void sroce_unimport_pd(struct ibv_pd *ibpd);
int sroce_dealloc_pd(struct ibv_pd *ibpd);
struct ibv_td *sroce_alloc_td(struct ibv_context *ibctx,
			      struct ibv_td_init_attr *attr);
int sroce_dealloc_td(struct ibv_td *ibtd);
struct ibv_pd *sroce_alloc_parent_domain(struct ibv_context *ibctx,
					 struct ibv_parent_domain_init_attr *attr);
bool sroce_one_thread(struct ibv_pd *ibpd);
void *sroce_obj_alloc(struct ibv_pd *ibpd, size_t size, size_t owner_at,
		      enum sroce_res_type type);
void sroce_obj_free(const struct sroce_owner *owner, void *obj);

/* verbs.c */
int sroce_query_device(struct ibv_context *ibctx,
		       const struct ibv_query_device_ex_input *input,
		       struct ibv_device_attr_ex *attr, size_t attr_size);
int sroce_query_port(struct ibv_context *ibctx, uint8_t port,
		     struct ibv_port_attr *attr);
void sroce_find_clock(struct sroce_context *ctx);
int sroce_query_rt_values(struct ibv_context *ibctx,
			  struct ibv_values_ex *values);
struct ibv_ah *sroce_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int sroce_destroy_ah(struct ibv_ah *ah);
struct ibv_xrcd *sroce_open_xrcd(struct ibv_context *ibctx,
				 struct ibv_xrcd_init_attr *attr);
int sroce_close_xrcd(struct ibv_xrcd *ibxrcd);
struct ibv_flow *sroce_create_flow(struct ibv_qp *ibqp,
				   struct ibv_flow_attr *attr);
int sroce_destroy_flow(struct ibv_flow *flow);

/* mem.c */
struct ibv_mr *sroce_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
			    uint64_t iova, int access);
int sroce_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd,
		   void *addr, size_t length, int access);
struct ibv_mr *sroce_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset,
				   size_t length, uint64_t iova, int fd,
				   int access);
struct ibv_mr *sroce_alloc_null_mr(struct ibv_pd *pd);
struct ibv_mr *sroce_import_mr(struct ibv_pd *pd, uint32_t handle);
void sroce_unimport_mr(struct ibv_mr *ibmr);
int sroce_dereg_mr(struct verbs_mr *vmr);
struct ibv_mw *sroce_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int sroce_dealloc_mw(struct ibv_mw *mw);
struct ibv_dm *sroce_alloc_dm(struct ibv_context *ibctx,
			      struct ibv_alloc_dm_attr *attr);
int sroce_free_dm(struct ibv_dm *ibdm);
struct ibv_dm *sroce_import_dm(struct ibv_context *ibctx, uint32_t handle);
void sroce_unimport_dm(struct ibv_dm *ibdm);
struct ibv_mr *sroce_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *ibdm,
			       uint64_t offset, size_t length,
			       unsigned int access);

/* cq.c */
struct ibv_cq *sroce_create_cq(struct ibv_context *ibctx, int cqe,
			       struct ibv_comp_channel *channel,
			       int comp_vector);
struct ibv_cq_ex *sroce_create_cq_ex(struct ibv_context *ibctx,
				     struct ibv_cq_init_attr_ex *attr);
int sroce_resize_cq(struct ibv_cq *ibcq, int cqe);
int sroce_modify_cq(struct ibv_cq *ibcq, struct ibv_modify_cq_attr *attr);
int sroce_destroy_cq(struct ibv_cq *ibcq);

/* poll.c */
int sroce_cq_init(struct sroce_cq *cq, bool unlocked);
void sroce_cq_fini(struct sroce_cq *cq);
void sroce_cq_attach(struct sroce_cq *cq, struct sroce_wq *wq);
void sroce_cq_detach(struct sroce_cq *cq, struct sroce_wq *wq,
		     struct sroce_held *held);
void sroce_cq_reset(struct sroce_cq *cq, struct sroce_wq *wq);
void sroce_cq_srqs(struct sroce_cq *cq, int srqs);
int sroce_poll_cq(struct ibv_cq *ibcq, int num, struct ibv_wc *wc);
void sroce_cq_event(struct ibv_cq *ibcq);
int sroce_req_notify_cq(struct ibv_cq *ibcq, int solicited_only);
void sroce_cq_set_ex(struct sroce_cq *cq);

/* qp.c */
uint32_t sroce_find_qp_ex(void);
struct ibv_qp *sroce_create_qp(struct ibv_pd *pd,
			       struct ibv_qp_init_attr *attr);
struct ibv_qp *sroce_create_qp_ex(struct ibv_context *ibctx,
				  struct ibv_qp_init_attr_ex *attr);
struct ibv_qp *sroce_open_qp(struct ibv_context *ibctx,
			     struct ibv_qp_open_attr *attr);
int sroce_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr,
		   int attr_mask, struct ibv_qp_init_attr *init_attr);
int sroce_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr,
		    int attr_mask);
int sroce_modify_qp_rate_limit(struct ibv_qp *ibqp,
			       struct ibv_qp_rate_limit_attr *limit);
int sroce_destroy_qp(struct ibv_qp *ibqp);

/* post.c */
int sroce_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
		    struct ibv_send_wr **bad_wr);
int sroce_bind_mw(struct ibv_qp *ibqp, struct ibv_mw *mw,
		  struct ibv_mw_bind *bind);
int sroce_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
		    struct ibv_recv_wr **bad_wr);
int sroce_post_recv_list(struct ibv_context *ibctx, struct sroce_wq *wq, bool reset,
			 struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
uint64_t sroce_send_ops(enum ibv_qp_type type);
void sroce_qp_set_ex(struct sroce_qp *qp, bool flush);

/* srq.c */
struct ibv_srq *sroce_create_srq(struct ibv_pd *pd,
				 struct ibv_srq_init_attr *attr);
struct ibv_srq *sroce_create_srq_ex(struct ibv_context *ibctx,
				    struct ibv_srq_init_attr_ex *attr);
int sroce_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr,
		     int attr_mask);
int sroce_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr);
int sroce_get_srq_num(struct ibv_srq *ibsrq, uint32_t *srq_num);
int sroce_destroy_srq(struct ibv_srq *ibsrq);
int sroce_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr,
			struct ibv_recv_wr **bad_wr);

/* tm.c */
int sroce_post_srq_ops(struct ibv_srq *ibsrq, struct ibv_ops_wr *wr,
		       struct ibv_ops_wr **bad_wr);

/* wq.c */
struct ibv_wq *sroce_create_wq(struct ibv_context *ibctx,
			       struct ibv_wq_init_attr *attr);
int sroce_modify_wq(struct ibv_wq *ibwq, struct ibv_wq_attr *attr);
int sroce_destroy_wq(struct ibv_wq *ibwq);
struct ibv_rwq_ind_table *
sroce_create_rwq_ind_table(struct ibv_context *ibctx,
			   struct ibv_rwq_ind_table_init_attr *attr);
int sroce_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table);

#endif /* SROCE_H */
