// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The control path: what goes through the kernel, and the rings it answers with.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "sroce.h"

struct sroce_create_cq_full_resp {
	struct ib_uverbs_create_cq_resp ibv_resp;
	struct sroce_create_cq_resp drv;
};

struct sroce_create_qp_full_resp {
	struct ib_uverbs_create_qp_resp ibv_resp;
	struct sroce_create_qp_resp drv;
};

static_assert(sizeof(struct sroce_ring_map) == 24, "the ABI is fixed");
static_assert(sizeof(struct sroce_create_cq_full_resp) ==
	      sizeof(struct ib_uverbs_create_cq_resp) +
	      sizeof(struct sroce_create_cq_resp),
	      "the kernel's answers do not follow each other");
static_assert(sizeof(struct sroce_create_qp_full_resp) ==
	      sizeof(struct ib_uverbs_create_qp_resp) +
	      sizeof(struct sroce_create_qp_resp),
	      "the kernel's answers do not follow each other");

static uint32_t sroce_min(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

int sroce_query_device(struct ibv_context *ibctx,
		       const struct ibv_query_device_ex_input *input,
		       struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct ib_uverbs_ex_query_device_resp resp;
	size_t resp_size = sizeof(resp);
	uint64_t ver;
	int ret;

	ret = ibv_cmd_query_device_any(ibctx, input, attr, attr_size, &resp,
				       &resp_size);
	if (ret)
		return ret;

	ver = resp.base.fw_ver;
	snprintf(attr->orig_attr.fw_ver, sizeof(attr->orig_attr.fw_ver),
		 "%" PRIu64 ".%" PRIu64 ".%" PRIu64,
		 ver >> 32, ver >> 16 & 0xffff, ver & 0xffff);
	return 0;
}

int sroce_query_port(struct ibv_context *ibctx, uint8_t port,
		     struct ibv_port_attr *attr)
{
	struct ibv_query_port cmd;

	return ibv_cmd_query_port(ibctx, port, attr, &cmd, sizeof(cmd));
}

struct ibv_pd *sroce_alloc_pd(struct ibv_context *ibctx)
{
	struct ib_uverbs_alloc_pd_resp resp = {};
	struct ibv_alloc_pd cmd = {};
	struct ibv_pd *pd;

	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;

	if (ibv_cmd_alloc_pd(ibctx, pd, &cmd, sizeof(cmd), &resp,
			     sizeof(resp))) {
		free(pd);
		return NULL;
	}
	return pd;
}

int sroce_dealloc_pd(struct ibv_pd *pd)
{
	int ret;

	ret = ibv_cmd_dealloc_pd(pd);
	if (ret)
		return ret;

	free(pd);
	return 0;
}

struct ibv_mr *sroce_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
			    uint64_t iova, int access)
{
	struct ib_uverbs_reg_mr_resp resp = {};
	struct ibv_reg_mr cmd = {};
	struct verbs_mr *vmr;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;

	if (ibv_cmd_reg_mr(pd, addr, length, iova, access, vmr, &cmd,
			   sizeof(cmd), &resp, sizeof(resp))) {
		free(vmr);
		return NULL;
	}
	return &vmr->ibv_mr;
}

int sroce_dereg_mr(struct verbs_mr *vmr)
{
	int ret;

	ret = ibv_cmd_dereg_mr(vmr);
	if (ret)
		return ret;

	free(vmr);
	return 0;
}

/**
 * sroce_map_ring - map a ring that the kernel has made
 * @ibctx: context
 * @v: where to put it
 * @map: the kernel's answer
 * @min_entry: what an entry must have room for
 *
 * A @map of zeroes is also what a kernel leaves that does not know of rings:
 * the rings that must be there are looked at like any other. The sizes are
 * checked once, so that no index can lead out of the mapping afterwards.
 *
 * Return: 0 or a positive errno.
 */
static int sroce_map_ring(struct ibv_context *ibctx, struct sroce_ring_view *v,
			  const struct sroce_ring_map *map, uint32_t min_entry)
{
	void *mem;
	int ret;

	if (!map->entries || map->entries & (map->entries - 1) ||
	    map->entry_size < min_entry || map->entry_size % 8 ||
	    sizeof(struct sroce_ring) +
	    (uint64_t)map->entries * map->entry_size > map->size) {
		verbs_err(verbs_get_ctx(ibctx),
			  "ring of %u entries of %u bytes in %u bytes\n",
			  map->entries, map->entry_size, map->size);
		return EPROTO;
	}

	mem = mmap(NULL, map->size, PROT_READ | PROT_WRITE, MAP_SHARED,
		   ibctx->cmd_fd, map->offset);
	if (mem == MAP_FAILED)
		return errno;

	/* After a fork, only one of the two processes can be the producer. */
	if (ibv_dontfork_range(mem, map->size)) {
		ret = errno;
		munmap(mem, map->size);
		return ret;
	}

	v->ring = mem;
	v->entries = (uint8_t *)mem + sizeof(struct sroce_ring);
	v->num = map->entries;
	v->entry_size = map->entry_size;
	v->map_size = map->size;
	return 0;
}

static void sroce_unmap_ring(struct sroce_ring_view *v)
{
	if (!v->ring)
		return;

	ibv_dofork_range(v->ring, v->map_size);
	munmap(v->ring, v->map_size);
}

struct ibv_cq *sroce_create_cq(struct ibv_context *ibctx, int cqe,
			       struct ibv_comp_channel *channel,
			       int comp_vector)
{
	struct sroce_create_cq_full_resp resp = {};
	struct ibv_create_cq cmd = {};
	struct sroce_cq *cq;
	int ret;

	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return NULL;

	ret = sroce_cq_init(cq);
	if (ret)
		goto err_free;

	ret = ibv_cmd_create_cq(ibctx, cqe, channel, comp_vector, &cq->vcq.cq,
				&cmd, sizeof(cmd), &resp.ibv_resp,
				sizeof(resp));
	if (ret)
		goto err_fini;

	ret = EPROTO;
	if (resp.drv.cq.entry_size == sizeof(struct sroce_cqe))
		ret = sroce_map_ring(ibctx, &cq->ring, &resp.drv.cq,
				     sizeof(struct sroce_cqe));
	if (ret)
		goto err_destroy;

	return &cq->vcq.cq;

err_destroy:
	ibv_cmd_destroy_cq(&cq->vcq.cq);
err_fini:
	sroce_cq_fini(cq);
err_free:
	free(cq);
	errno = ret;
	return NULL;
}

int sroce_destroy_cq(struct ibv_cq *ibcq)
{
	struct sroce_cq *cq = to_scq(ibcq);
	int ret;

	ret = ibv_cmd_destroy_cq(ibcq);
	if (ret)
		return ret;

	sroce_unmap_ring(&cq->ring);
	sroce_cq_fini(cq);
	free(cq);
	return 0;
}

static int sroce_map_sq(struct ibv_context *ibctx, struct sroce_qp *qp,
			const struct sroce_ring_map *map,
			const struct ibv_qp_cap *cap)
{
	struct sroce_context *ctx = to_sctx(ibctx);

	/* What a request may be at most, whatever the kernel allows. */
	qp->sq.max_sge = sroce_min(cap->max_send_sge,
				   sroce_min(ctx->max_sge, SROCE_MAX_SGE));
	qp->max_inline = sroce_min(cap->max_inline_data,
				   sroce_min(ctx->max_inline,
					     SROCE_MAX_INLINE));

	if (!map->size && !cap->max_send_wr)
		return 0;
	if (map->entry_size != SROCE_SQ_BLOCK)
		return EPROTO;
	return sroce_map_ring(ibctx, &qp->sq.ring, map, SROCE_SQ_BLOCK);
}

static int sroce_map_rq(struct ibv_context *ibctx, struct sroce_qp *qp,
			const struct sroce_ring_map *map,
			const struct ibv_qp_init_attr *attr)
{
	uint32_t max_sge = sroce_min(attr->cap.max_recv_sge, SROCE_MAX_SGE);

	if (attr->srq || (!map->size && !attr->cap.max_recv_wr))
		return 0;

	qp->rq.max_sge = max_sge;
	return sroce_map_ring(ibctx, &qp->rq.ring, map,
			      sizeof(struct sroce_recv_wqe) +
			      max_sge * sizeof(struct sroce_sge));
}

struct ibv_qp *sroce_create_qp(struct ibv_pd *pd,
			       struct ibv_qp_init_attr *attr)
{
	struct sroce_create_qp_full_resp resp = {};
	struct ibv_create_qp cmd = {};
	struct sroce_qp *qp;
	struct ibv_qp *ibqp;
	int ret;

	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;

	ibqp = &qp->vqp.qp;
	ret = ibv_cmd_create_qp(pd, ibqp, attr, &cmd, sizeof(cmd),
				&resp.ibv_resp, sizeof(resp));
	if (ret)
		goto err_free;

	ret = sroce_map_sq(pd->context, qp, &resp.drv.sq, &attr->cap);
	if (ret)
		goto err_destroy;

	ret = sroce_map_rq(pd->context, qp, &resp.drv.rq, attr);
	if (ret)
		goto err_unmap;

	qp->sq_sig_all = attr->sq_sig_all;
	qp->sq.key = ibqp->qp_num;
	qp->rq.key = ibqp->qp_num | SROCE_WQ_RECV;
	pthread_spin_init(&qp->sq.lock, PTHREAD_PROCESS_PRIVATE);
	pthread_spin_init(&qp->rq.lock, PTHREAD_PROCESS_PRIVATE);

	/* The receive queue also if it has no ring: an SRQ's completions. */
	sroce_cq_attach(to_scq(attr->send_cq), &qp->sq);
	sroce_cq_attach(to_scq(attr->recv_cq), &qp->rq);
	return ibqp;

err_unmap:
	sroce_unmap_ring(&qp->sq.ring);
err_destroy:
	ibv_cmd_destroy_qp(ibqp);
err_free:
	free(qp);
	errno = ret;
	return NULL;
}

int sroce_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr,
		   int attr_mask, struct ibv_qp_init_attr *init_attr)
{
	struct ibv_query_qp cmd;

	return ibv_cmd_query_qp(ibqp, attr, attr_mask, init_attr, &cmd,
				sizeof(cmd));
}

/*
 * In the reset state the kernel's indices are zero again, and completions from
 * before are not of interest to anyone.
 */
int sroce_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr,
		    int attr_mask)
{
	struct sroce_qp *qp = to_sqp(ibqp);
	struct ibv_modify_qp cmd = {};
	int ret;

	ret = ibv_cmd_modify_qp(ibqp, attr, attr_mask, &cmd, sizeof(cmd));
	if (ret)
		return ret;

	if (attr_mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RESET) {
		sroce_cq_reset(to_scq(ibqp->send_cq), &qp->sq);
		sroce_cq_reset(to_scq(ibqp->recv_cq), &qp->rq);
	}
	return 0;
}

/*
 * The kernel first: as long as it knows the queue pair, completions may come.
 * Until it is detached, a poller may still return some, as it might have done
 * before the call.
 */
int sroce_destroy_qp(struct ibv_qp *ibqp)
{
	struct sroce_qp *qp = to_sqp(ibqp);
	int ret;

	ret = ibv_cmd_destroy_qp(ibqp);
	if (ret)
		return ret;

	sroce_cq_detach(to_scq(ibqp->send_cq), &qp->sq);
	sroce_cq_detach(to_scq(ibqp->recv_cq), &qp->rq);
	sroce_unmap_ring(&qp->sq.ring);
	sroce_unmap_ring(&qp->rq.ring);
	pthread_spin_destroy(&qp->sq.lock);
	pthread_spin_destroy(&qp->rq.lock);
	free(qp);
	return 0;
}

struct ibv_ah *sroce_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct ib_uverbs_create_ah_resp resp = {};
	struct ibv_ah *ah;

	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return NULL;

	if (ibv_cmd_create_ah(pd, ah, attr, &resp, sizeof(resp))) {
		free(ah);
		return NULL;
	}
	return ah;
}

int sroce_destroy_ah(struct ibv_ah *ah)
{
	int ret;

	ret = ibv_cmd_destroy_ah(ah);
	if (ret)
		return ret;

	free(ah);
	return 0;
}
