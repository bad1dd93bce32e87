/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SROCE_H
#define SROCE_H

#include <pthread.h>

#include <infiniband/driver.h>

#include "ring.h"

struct sroce_device {
	struct verbs_device vdev;
};

/**
 * struct sroce_context - an open device
 * @vctx: rdma-core's part
 * @max_inline: bytes inline that the kernel takes
 * @max_sge: scatter/gather entries that the kernel takes
 * @no_write: write() on the command file descriptor was refused once, see
 *	sroce_doorbell()
 */
struct sroce_context {
	struct verbs_context vctx;
	uint32_t max_inline;
	uint32_t max_sge;
	bool no_write;
};

/**
 * struct sroce_wq - a send or receive queue
 * @ring: no entries in a queue pair that receives from an SRQ
 * @lock: serializes posting
 * @key: how completions name this queue, see sroce_cqe_key()
 * @max_sge: longest list that a request may have
 * @attached: the completion queue finds this queue
 * @next: in the completion queue's table; both under its lock
 */
struct sroce_wq {
	struct sroce_ring_view ring;
	pthread_spinlock_t lock;
	uint32_t key;
	uint32_t max_sge;
	bool attached;
	struct sroce_wq *next;
};

/**
 * struct sroce_cq - a completion queue
 * @vcq: rdma-core's part
 * @ring: its ring
 * @lock: for all that follows, for polling, and for the cons of the work queues
 *	that complete here
 * @last: the queue that the latest completion was for
 * @table: the queues that complete here, hashed by key
 * @table_size: buckets, a power of two
 * @num_wqs: queues in @table
 *
 * Each completion queue has a table of its own, and not the context one for
 * all: its lock, which polling holds anyway, is then all that keeps a queue
 * from being freed under a poller, and a bogus number leads nowhere.
 */
struct sroce_cq {
	struct verbs_cq vcq;
	struct sroce_ring_view ring;
	pthread_spinlock_t lock;
	struct sroce_wq *last;
	struct sroce_wq **table;
	uint32_t table_size;
	uint32_t num_wqs;
};

/**
 * struct sroce_qp - a queue pair
 * @vqp: rdma-core's part. All of it: libibverbs looks behind the ibv_qp to see
 *	whether this is an extended one, and finds the zeroes of calloc().
 *	rdma-core grew ibv_qp_ex without a new private ABI, so comp_mask is not
 *	at the same place in every libibverbs that this is built for: nothing
 *	here may set it.
 * @sq: send queue
 * @rq: receive queue
 * @max_inline: bytes inline that a send request may have
 * @sq_sig_all: every send request completes with an entry
 */
struct sroce_qp {
	struct verbs_qp vqp;
	struct sroce_wq sq;
	struct sroce_wq rq;
	uint32_t max_inline;
	bool sq_sig_all;
};

static inline struct sroce_context *to_sctx(struct ibv_context *ibctx)
{
	return container_of(ibctx, struct sroce_context, vctx.context);
}

static inline struct sroce_cq *to_scq(struct ibv_cq *ibcq)
{
	return container_of(ibcq, struct sroce_cq, vcq.cq);
}

static inline struct sroce_qp *to_sqp(struct ibv_qp *ibqp)
{
	return container_of(ibqp, struct sroce_qp, vqp.qp);
}

/* Queue pair numbers have 24 bits. */
#define SROCE_WQ_RECV	(1U << 31)

static inline uint32_t sroce_cqe_key(const struct sroce_cqe *cqe)
{
	return cqe->qp_num | (cqe->opcode & SROCE_WC_RECV ? SROCE_WQ_RECV : 0);
}

/* doorbell.c */
int sroce_doorbell(struct sroce_context *ctx, uint32_t qp_num);

/* verbs.c */
int sroce_query_device(struct ibv_context *ibctx,
		       const struct ibv_query_device_ex_input *input,
		       struct ibv_device_attr_ex *attr, size_t attr_size);
int sroce_query_port(struct ibv_context *ibctx, uint8_t port,
		     struct ibv_port_attr *attr);
struct ibv_pd *sroce_alloc_pd(struct ibv_context *ibctx);
int sroce_dealloc_pd(struct ibv_pd *pd);
struct ibv_mr *sroce_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
			    uint64_t iova, int access);
int sroce_dereg_mr(struct verbs_mr *vmr);
struct ibv_cq *sroce_create_cq(struct ibv_context *ibctx, int cqe,
			       struct ibv_comp_channel *channel,
			       int comp_vector);
int sroce_destroy_cq(struct ibv_cq *ibcq);
struct ibv_qp *sroce_create_qp(struct ibv_pd *pd,
			       struct ibv_qp_init_attr *attr);
int sroce_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr,
		   int attr_mask, struct ibv_qp_init_attr *init_attr);
int sroce_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr,
		    int attr_mask);
int sroce_destroy_qp(struct ibv_qp *ibqp);
struct ibv_ah *sroce_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int sroce_destroy_ah(struct ibv_ah *ah);

/* qp.c */
int sroce_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
		    struct ibv_send_wr **bad_wr);
int sroce_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
		    struct ibv_recv_wr **bad_wr);

/* cq.c */
int sroce_cq_init(struct sroce_cq *cq);
void sroce_cq_fini(struct sroce_cq *cq);
void sroce_cq_attach(struct sroce_cq *cq, struct sroce_wq *wq);
void sroce_cq_detach(struct sroce_cq *cq, struct sroce_wq *wq);
void sroce_cq_reset(struct sroce_cq *cq, struct sroce_wq *wq);
int sroce_poll_cq(struct ibv_cq *ibcq, int num, struct ibv_wc *wc);
int sroce_req_notify_cq(struct ibv_cq *ibcq, int solicited_only);

#endif /* SROCE_H */
