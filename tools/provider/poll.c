// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Completion queues: polling them either way, asking for events, and finding the
 * work queue that a completion gives room in.
 */
#include <errno.h>
#include <stdlib.h>

#include <rdma/ib_user_verbs.h>

#include "sroce.h"

static_assert(sizeof(struct sroce_cqe) == 64, "the ABI is fixed");
static_assert(sizeof(struct sroce_ring) == 256, "the ABI is fixed");

/* Opcodes and flags are given to the program as they came. */
static_assert((int)IB_UVERBS_WC_SEND == IBV_WC_SEND &&
	      (int)IB_UVERBS_WC_RDMA_WRITE == IBV_WC_RDMA_WRITE &&
	      (int)IB_UVERBS_WC_RDMA_READ == IBV_WC_RDMA_READ &&
	      (int)IB_UVERBS_WC_COMP_SWAP == IBV_WC_COMP_SWAP &&
	      (int)IB_UVERBS_WC_FETCH_ADD == IBV_WC_FETCH_ADD &&
	      (int)IB_UVERBS_WC_BIND_MW == IBV_WC_BIND_MW &&
	      (int)IB_UVERBS_WC_LOCAL_INV == IBV_WC_LOCAL_INV &&
	      SROCE_WC_FLUSH == (int)IBV_WC_FLUSH &&
	      SROCE_WC_ATOMIC_WRITE == (int)IBV_WC_ATOMIC_WRITE &&
	      SROCE_WC_RECV == (int)IBV_WC_RECV &&
	      SROCE_WC_RECV_IMM == (int)IBV_WC_RECV_RDMA_WITH_IMM &&
	      SROCE_WC_TM_ADD == (int)IBV_WC_TM_ADD &&
	      SROCE_WC_TM_DEL == (int)IBV_WC_TM_DEL &&
	      SROCE_WC_TM_SYNC == (int)IBV_WC_TM_SYNC &&
	      SROCE_WC_TM_RECV == (int)IBV_WC_TM_RECV &&
	      SROCE_WC_TM_NO_TAG == (int)IBV_WC_TM_NO_TAG,
	      "opcodes are ibv_wc_opcode");
static_assert(SROCE_WC_GRH == (int)IBV_WC_GRH &&
	      SROCE_WC_WITH_IMM == (int)IBV_WC_WITH_IMM &&
	      SROCE_WC_IP_CSUM_OK == (int)IBV_WC_IP_CSUM_OK &&
	      SROCE_WC_WITH_INV == (int)IBV_WC_WITH_INV &&
	      SROCE_WC_TM_SYNC_REQ == (int)IBV_WC_TM_SYNC_REQ &&
	      SROCE_WC_TM_MATCH == (int)IBV_WC_TM_MATCH &&
	      SROCE_WC_TM_DATA_VALID == (int)IBV_WC_TM_DATA_VALID,
	      "flags are ibv_wc_flags");
static_assert(SROCE_WC_STATUS_TM_ERR == (int)IBV_WC_TM_ERR &&
	      SROCE_WC_STATUS_TM_RNDV_INCOMPLETE ==
	      (int)IBV_WC_TM_RNDV_INCOMPLETE,
	      "statuses are ibv_wc_status");

#define SROCE_TABLE_MIN	16

/* Where nothing holds a poller off, the table can't grow under it: for thousands */
#define SROCE_TABLE_UNLOCKED	1024

int sroce_cq_init(struct sroce_cq *cq, bool unlocked)
{
	cq->table_size = unlocked ? SROCE_TABLE_UNLOCKED : SROCE_TABLE_MIN;
	cq->table = calloc(cq->table_size, sizeof(*cq->table));
	if (!cq->table)
		return ENOMEM;
	sroce_lock_init(&cq->lock, unlocked);
	sroce_lock_init(&cq->attach_lock, false);
	/* who takes events may be another thread than who polls */
	sroce_lock_init(&cq->arm_lock, false);
	return 0;
}

void sroce_cq_fini(struct sroce_cq *cq)
{
	sroce_lock_fini(&cq->lock);
	sroce_lock_fini(&cq->attach_lock);
	sroce_lock_fini(&cq->arm_lock);
	free(cq->table);
}

/*
 * Numbers may be handed out in any pattern; the multiplication spreads them
 * over the high half, the fold brings them to where the mask takes them.
 */
static struct sroce_wq **sroce_cq_bucket(struct sroce_wq **table, uint32_t size,
					 uint32_t key)
{
	uint32_t hash = key * 0x9e3779b1;

	return &table[(hash ^ hash >> 16) & (size - 1)];
}

/* The acquire is for a poller without a lock, see sroce_cq_attach(). */
static struct sroce_wq *sroce_cq_lookup(const struct sroce_cq *cq, uint32_t key)
{
	struct sroce_wq *wq;

	wq = __atomic_load_n(sroce_cq_bucket(cq->table, cq->table_size, key),
			     __ATOMIC_ACQUIRE);
	while (wq && wq->key != key)
		wq = wq->next;
	return wq;
}

static struct sroce_wq *sroce_cq_find(struct sroce_cq *cq, uint32_t key)
{
	struct sroce_wq *wq = cq->last;

	if (wq && wq->key == key)
		return wq;

	wq = sroce_cq_lookup(cq, key);
	if (wq)
		cq->last = wq;
	return wq;
}

/* Without the memory for a longer table, the chains grow; that is all. */
static void sroce_cq_grow_table(struct sroce_cq *cq)
{
	uint32_t size = cq->table_size * 2;
	struct sroce_wq **table;
	uint32_t i;

	table = calloc(size, sizeof(*table));
	if (!table)
		return;

	for (i = 0; i < cq->table_size; i++) {
		struct sroce_wq *wq, *next;

		for (wq = cq->table[i]; wq; wq = next) {
			struct sroce_wq **bucket;

			next = wq->next;
			bucket = sroce_cq_bucket(table, size, wq->key);
			wq->next = *bucket;
			*bucket = wq;
		}
	}

	free(cq->table);
	cq->table = table;
	cq->table_size = size;
}

/**
 * sroce_cq_clean - take back the completions of a queue that were not polled
 * @cq: completion queue, locked
 * @key: whose completions
 *
 * What lies between cons and prod belongs to us, even while the kernel appends:
 * the other queues' completions move up against prod in their order, and cons
 * skips what is left over.
 */
static void sroce_cq_clean(struct sroce_cq *cq, uint32_t key)
{
	uint32_t filled = sroce_ring_filled(&cq->ring);
	uint32_t from, to;

	if (!sroce_ring_sane(&cq->ring, filled))
		return;

	for (from = to = filled; from != cq->ring.cons; ) {
		struct sroce_cqe *cqe = sroce_ring_entry(&cq->ring, --from);

		if (sroce_cqe_key(cqe) == key)
			continue;
		if (--to != from)
			*(struct sroce_cqe *)sroce_ring_entry(&cq->ring, to) =
				*cqe;
	}

	if (to != cq->ring.cons)
		sroce_ring_consume(&cq->ring, to);
}

static void sroce_cq_forget(struct sroce_cq *cq, struct sroce_wq *wq)
{
	struct sroce_wq **p;

	sroce_cq_clean(cq, wq->key);

	p = sroce_cq_bucket(cq->table, cq->table_size, wq->key);
	while (*p != wq)
		p = &(*p)->next;
	*p = wq->next;

	if (cq->last == wq)
		cq->last = NULL;
	wq->attached = false;
	cq->num_wqs--;
}

/**
 * sroce_cq_attach - completions of @wq are going to arrive here
 *
 * A queue pair's number is free again when the kernel has destroyed it, which
 * is before sroce_destroy_qp() gets here to detach it. No lock is held over
 * both, because the kernel's part may wait for the program to acknowledge
 * events. So a new queue may find an old one under its key: finish that one
 * first. The new one cannot have any completions yet.
 *
 * A poller need not be held off: it sees all of @wq or nothing. It may be who is here,
 * between ibv_start_poll() and ibv_end_poll(), or have promised to need no lock.
 */
void sroce_cq_attach(struct sroce_cq *cq, struct sroce_wq *wq)
{
	struct sroce_wq **bucket, *old;

	sroce_lock(&cq->attach_lock);
	if (sroce_cq_lookup(cq, wq->key)) {
		sroce_unlock(&cq->attach_lock);
		sroce_lock(&cq->lock);
		sroce_lock(&cq->attach_lock);
		old = sroce_cq_lookup(cq, wq->key);
		if (old)
			sroce_cq_forget(cq, old);
		sroce_unlock(&cq->lock);
	}
	/* while somebody polls the chains get longer; the next one may find the lock free */
	if (cq->num_wqs >= cq->table_size && !cq->lock.unneeded && sroce_trylock(&cq->lock)) {
		sroce_cq_grow_table(cq);
		sroce_unlock(&cq->lock);
	}

	bucket = sroce_cq_bucket(cq->table, cq->table_size, wq->key);
	wq->next = *bucket;
	wq->attached = true;
	__atomic_store_n(bucket, wq, __ATOMIC_RELEASE);
	cq->num_wqs++;
	sroce_unlock(&cq->attach_lock);
}

/*
 * @wq no longer exists in the kernel: forget it, its completions, and if it is a
 * queue pair's, that its doorbell is to be rung.
 */
void sroce_cq_detach(struct sroce_cq *cq, struct sroce_wq *wq,
		     struct sroce_held *held)
{
	sroce_lock(&cq->lock);
	sroce_lock(&cq->attach_lock);
	if (wq->attached)
		sroce_cq_forget(cq, wq);
	if (held)
		sroce_forget_held(cq, held);
	sroce_unlock(&cq->attach_lock);
	sroce_unlock(&cq->lock);
}

/* The kernel has emptied @wq: so do we, and forget its completions. */
void sroce_cq_reset(struct sroce_cq *cq, struct sroce_wq *wq)
{
	sroce_lock(&cq->lock);
	sroce_cq_clean(cq, wq->key);

	sroce_lock(&wq->lock);
	/* the shared one, too: another thread's post may have come in between */
	if (wq->ring.ring)
		sroce_ring_publish(&wq->ring, 0);
	wq->ring.cons = 0;
	wq->retired = 0;
	if (wq->posted)
		wq->posted[0] = 0;
	sroce_unlock(&wq->lock);
	sroce_unlock(&cq->lock);
}

/* So many SRQs more, or fewer, complete here. */
void sroce_cq_srqs(struct sroce_cq *cq, int srqs)
{
	__atomic_add_fetch(&cq->num_srqs, srqs, __ATOMIC_RELAXED);
}

/* The requests before @next may be used again: what counts them first. */
static void sroce_wq_retire(struct sroce_wq *wq, uint32_t next)
{
	if (!sroce_ring_lent(&wq->ring, next))
		return;
	if (wq->posted)
		__atomic_store_n(&wq->retired, *sroce_wq_posted(wq, next),
				 __ATOMIC_RELAXED);
	sroce_ring_retire(&wq->ring, next);
}

/*
 * Completions of a queue that is not in the table can only be of one that is gone, and are
 * dropped. Not so a message to an XRC SRQ: it bears the number of the XRC target, which
 * completes elsewhere or is another process's; nor what is a tag matching SRQ's.
 */
static bool sroce_cq_known(const struct sroce_cq *cq, const struct sroce_wq *wq,
			   const struct sroce_cqe *cqe)
{
	return wq || (cqe->opcode & SROCE_WC_RECV &&
		      __atomic_load_n(&cq->num_srqs, __ATOMIC_RELAXED));
}

static void sroce_fill_wc(struct ibv_wc *wc, const struct sroce_cqe *cqe)
{
	wc->wr_id = cqe->wr_id;
	wc->status = cqe->status;
	wc->opcode = cqe->opcode;
	wc->vendor_err = cqe->vendor_err;
	wc->byte_len = cqe->byte_len;
	/* The network's order or ours, as wc_flags say: never swapped here. */
	wc->imm_data = cqe->imm_data;
	wc->qp_num = cqe->qp_num;
	wc->src_qp = cqe->src_qp;
	wc->wc_flags = cqe->wc_flags & ~SROCE_WC_VLAN;
	wc->pkey_index = cqe->pkey_index;
	wc->slid = 0;
	wc->sl = cqe->sl;
	wc->dlid_path_bits = 0;
}

/* Doorbells that a poller which finds nothing rings at once */
#define SROCE_MAX_DUE	64

/*
 * After so many polls that found nothing, the kernel gets the CPU: some microseconds,
 * which is much beside a system call. Then after twice as many, up to 8 times.
 */
#define SROCE_PATIENCE	256U
#define SROCE_MAX_TIMES	3

/* Is it time to let the kernel have the CPU? @cq is locked and empty. */
static bool sroce_cq_vain(struct sroce_cq *cq)
{
	if (++cq->vain < SROCE_PATIENCE << cq->times)
		return false;
	cq->vain = 0;
	cq->times += cq->times < SROCE_MAX_TIMES;
	return true;
}

static void sroce_cq_found(struct sroce_cq *cq)
{
	cq->vain = 0;
	cq->times = 0;
}

/* Let @cq go, which was found empty, and have those looked at that fill it. */
static void sroce_cq_unlock_empty(struct sroce_cq *cq)
{
	struct sroce_context *ctx = to_sctx(cq->vcq.cq.context);
	uint32_t due[SROCE_MAX_DUE];
	uint32_t n = 0;
	bool vain;

	if (__atomic_load_n(&cq->held, __ATOMIC_RELAXED))
		n = sroce_take_held(cq, due, SROCE_MAX_DUE);
	vain = sroce_cq_vain(cq);
	sroce_unlock(&cq->lock);
	sroce_doorbell_due(ctx, due, n);
	if (vain)
		sroce_doorbell(ctx, SROCE_DOORBELL_POLLS);
}

/* Completions that are taken at a time */
#define SROCE_POLL_TURN	16

/*
 * Completions from the ring, SROCE_POLL_TURN at most. Their places are given back before
 * the requests that they are of: a thread that posts to the places of those must find room
 * here when they complete, in a queue that is as deep as its requests.
 *
 * Return: how many are for the program.
 */
static int sroce_poll_turn(struct sroce_cq *cq, uint32_t filled, int num,
			   struct ibv_wc *wc)
{
	struct sroce_wq *wq[SROCE_POLL_TURN];
	uint32_t next[SROCE_POLL_TURN];
	uint32_t cons = cq->ring.cons;
	int n = 0, wqs = 0, i;

	for (i = 0; i < SROCE_POLL_TURN && cons != filled && n < num; i++, cons++) {
		const struct sroce_cqe *cqe = sroce_ring_entry(&cq->ring, cons);
		struct sroce_wq *of = sroce_cq_find(cq, sroce_cqe_key(cqe));

		if (of && (!wqs || wq[wqs - 1] != of))
			wq[wqs++] = of;
		if (of)
			next[wqs - 1] = cqe->wqe_next;
		if (sroce_cq_known(cq, of, cqe))
			sroce_fill_wc(&wc[n++], cqe);
	}
	sroce_ring_consume(&cq->ring, cons);
	for (i = 0; i < wqs; i++)
		sroce_wq_retire(wq[i], next[i]);
	return n;
}

/**
 * sroce_poll_cq - verbs poll_cq
 *
 * Return: how many completions there are in @wc, or -EIO when the ring has been
 * overwritten.
 */
int sroce_poll_cq(struct ibv_cq *ibcq, int num, struct ibv_wc *wc)
{
	struct sroce_cq *cq = to_scq(ibcq);
	uint32_t filled;
	int n = 0;

	sroce_lock(&cq->lock);
	filled = sroce_ring_filled(&cq->ring);
	if (!sroce_ring_sane(&cq->ring, filled)) {
		sroce_unlock(&cq->lock);
		return -EIO;
	}

	while (cq->ring.cons != filled && n < num)
		n += sroce_poll_turn(cq, filled, num - n, wc + n);
	if (n)
		sroce_cq_found(cq);
	if (n || !num)
		sroce_unlock(&cq->lock);
	else
		sroce_cq_unlock_empty(cq);

	return n;
}

/**
 * sroce_cq_event - verbs cq_event: the program takes an event
 *
 * What is in the ring by now it will look for, because of it: unless it has polled since
 * it armed, and this event may be an old one.
 */
void sroce_cq_event(struct ibv_cq *ibcq)
{
	struct sroce_cq *cq = to_scq(ibcq);
	uint32_t done;

	sroce_lock(&cq->arm_lock);
	done = sroce_ring_done(&cq->ring);
	cq->heard_done = done;
	/* it may have polled for half of all indices since */
	cq->heard = done - cq->asked_done > cq->asked - cq->asked_done ?
		    done : sroce_ring_filled(&cq->ring);
	sroce_unlock(&cq->arm_lock);
}

/*
 * Is something there that the program need not look for? It may have been on its way to
 * arm, and go to sleep: so do those that wait for several things at once (UCX). Hardware
 * has the consumer's index when it is armed, and says so. But who takes an event, arms,
 * and then polls (perftest) would have an event of nothing each time.
 */
static bool sroce_cq_missed(struct sroce_cq *cq)
{
	uint32_t filled = sroce_ring_filled(&cq->ring);
	uint32_t done = sroce_ring_done(&cq->ring);
	bool missed;

	missed = filled != done &&
		 (filled != cq->heard || done != cq->heard_done);
	cq->asked = missed ? done : filled;
	cq->asked_done = done;
	return missed;
}

/**
 * sroce_req_notify_cq - verbs req_notify_cq
 *
 * One event for one call. A system call is needed for an event that is due already.
 *
 * Return: 0 or a positive errno.
 */
int sroce_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct sroce_cq *cq = to_scq(ibcq);
	bool lost, missed;
	int ret;

	sroce_lock(&cq->arm_lock);
	lost = cq->lost;
	sroce_ring_arm(&cq->ring, solicited_only ? SROCE_CQ_ARM_SOLICITED :
						   SROCE_CQ_ARM_NEXT);
	missed = ibcq->channel && sroce_cq_missed(cq);
	sroce_unlock(&cq->arm_lock);
	/* nobody would see it, and who waits would wait for ever */
	if (lost)
		return EIO;
	if (!missed)
		return 0;
	ret = ibv_cmd_req_notify_cq(ibcq, solicited_only);
	/* a device that has gone wakes who waits; an older module has no such call */
	return ret == EIO || ret == EOPNOTSUPP ? 0 : ret;
}

/*
 * The entry at cons becomes the one that is read from, a copy: as with ibv_poll_cq(), its
 * place is given back before the request that it is of.
 */
static int sroce_cq_advance(struct sroce_cq *cq)
{
	uint32_t filled = sroce_ring_filled(&cq->ring);

	if (!sroce_ring_sane(&cq->ring, filled))
		return EIO;

	while (cq->ring.cons != filled) {
		struct sroce_wq *wq;

		cq->open = *(struct sroce_cqe *)sroce_ring_entry(&cq->ring,
								 cq->ring.cons);
		sroce_ring_consume(&cq->ring, cq->ring.cons + 1);
		wq = sroce_cq_find(cq, sroce_cqe_key(&cq->open));
		if (wq)
			sroce_wq_retire(wq, cq->open.wqe_next);
		if (sroce_cq_known(cq, wq, &cq->open)) {
			cq->vcq.cq_ex.status = cq->open.status;
			cq->vcq.cq_ex.wr_id = cq->open.wr_id;
			sroce_cq_found(cq);
			return 0;
		}
	}
	return ENOENT;
}

static int sroce_start_poll(struct ibv_cq_ex *ibcq,
			    struct ibv_poll_cq_attr *attr)
{
	struct sroce_cq *cq = to_scq_ex(ibcq);
	int ret;

	if (attr->comp_mask)
		return EINVAL;

	sroce_lock(&cq->lock);
	ret = sroce_cq_advance(cq);
	if (ret == ENOENT)
		sroce_cq_unlock_empty(cq);
	else if (ret)
		sroce_unlock(&cq->lock);
	return ret;
}

static int sroce_next_poll(struct ibv_cq_ex *ibcq)
{
	return sroce_cq_advance(to_scq_ex(ibcq));
}

static void sroce_end_poll(struct ibv_cq_ex *ibcq)
{
	sroce_unlock(&to_scq_ex(ibcq)->lock);
}

static enum ibv_wc_opcode sroce_read_opcode(struct ibv_cq_ex *ibcq)
{
	return to_scq_ex(ibcq)->open.opcode;
}

static uint32_t sroce_read_vendor_err(struct ibv_cq_ex *ibcq)
{
	return to_scq_ex(ibcq)->open.vendor_err;
}

static uint32_t sroce_read_byte_len(struct ibv_cq_ex *ibcq)
{
	return to_scq_ex(ibcq)->open.byte_len;
}

static __be32 sroce_read_imm_data(struct ibv_cq_ex *ibcq)
{
	return to_scq_ex(ibcq)->open.imm_data;
}

static uint32_t sroce_read_qp_num(struct ibv_cq_ex *ibcq)
{
	return to_scq_ex(ibcq)->open.qp_num;
}

static uint32_t sroce_read_src_qp(struct ibv_cq_ex *ibcq)
{
	return to_scq_ex(ibcq)->open.src_qp;
}

static unsigned int sroce_read_wc_flags(struct ibv_cq_ex *ibcq)
{
	return to_scq_ex(ibcq)->open.wc_flags & ~SROCE_WC_VLAN;
}

/* Ethernet has no LIDs. */
static uint32_t sroce_read_slid(struct ibv_cq_ex *ibcq)
{
	return 0;
}

static uint8_t sroce_read_dlid_path_bits(struct ibv_cq_ex *ibcq)
{
	return 0;
}

static uint8_t sroce_read_sl(struct ibv_cq_ex *ibcq)
{
	return to_scq_ex(ibcq)->open.sl;
}

static uint64_t sroce_read_timestamp(struct ibv_cq_ex *ibcq)
{
	return to_scq_ex(ibcq)->open.timestamp;
}

static uint64_t sroce_read_wallclock(struct ibv_cq_ex *ibcq)
{
	return to_scq_ex(ibcq)->open.wallclock;
}

static uint16_t sroce_read_cvlan(struct ibv_cq_ex *ibcq)
{
	const struct sroce_cqe *cqe = &to_scq_ex(ibcq)->open;

	return cqe->wc_flags & SROCE_WC_VLAN ? cqe->cvlan : 0;
}

static uint32_t sroce_read_flow_tag(struct ibv_cq_ex *ibcq)
{
	return to_scq_ex(ibcq)->open.flow_tag;
}

static void sroce_read_tm_info(struct ibv_cq_ex *ibcq,
			       struct ibv_wc_tm_info *info)
{
	const struct sroce_cqe *cqe = &to_scq_ex(ibcq)->open;

	info->tag = cqe->tm_tag;
	info->priv = cqe->src_qp;
}

/* Let @cq be polled by ibv_start_poll() and what belongs to it. */
void sroce_cq_set_ex(struct sroce_cq *cq)
{
	struct ibv_cq_ex *ex = &cq->vcq.cq_ex;

	ex->start_poll = sroce_start_poll;
	ex->next_poll = sroce_next_poll;
	ex->end_poll = sroce_end_poll;
	ex->read_opcode = sroce_read_opcode;
	ex->read_vendor_err = sroce_read_vendor_err;
	ex->read_byte_len = sroce_read_byte_len;
	ex->read_imm_data = sroce_read_imm_data;
	ex->read_qp_num = sroce_read_qp_num;
	ex->read_src_qp = sroce_read_src_qp;
	ex->read_wc_flags = sroce_read_wc_flags;
	ex->read_slid = sroce_read_slid;
	ex->read_sl = sroce_read_sl;
	ex->read_dlid_path_bits = sroce_read_dlid_path_bits;
	ex->read_completion_ts = sroce_read_timestamp;
	ex->read_completion_wallclock_ns = sroce_read_wallclock;
	ex->read_cvlan = sroce_read_cvlan;
	ex->read_flow_tag = sroce_read_flow_tag;
	ex->read_tm_info = sroce_read_tm_info;
}
