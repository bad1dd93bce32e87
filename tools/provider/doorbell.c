// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The only way from the data path into the kernel.
 */
#include <errno.h>
#include <sched.h>
#include <time.h>

#include <infiniband/cmd_ioctl.h>
#include <rdma/ib_user_ioctl_cmds.h>

#include "sroce.h"

/* How often a doorbell is tried for which there is no memory */
#define SROCE_DOORBELL_TRIES	100

/*
 * The command is on our stack: that it can't be read is for want of memory, and no
 * reason to say that requests, which are in the ring already, have not been posted.
 */
static bool sroce_doorbell_again(int err, int *tries)
{
	return err == EINTR || (err == EFAULT && ++*tries < SROCE_DOORBELL_TRIES);
}

/**
 * sroce_doorbell - make the kernel look at the rings of a queue pair
 *
 * Return: 0 or a positive errno; EIO if the device is gone.
 */
int sroce_doorbell(struct sroce_context *ctx, uint32_t qp_num)
{
	const struct sroce_doorbell db = { .qp_num = qp_num };
	int ret, tries = 0;

	do {
		DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_DEVICE, SROCE_METHOD_DOORBELL, 1);

		fill_attr_in_ptr(cmd, SROCE_ATTR_DOORBELL, &db);
		ret = execute_ioctl(&ctx->vctx.context, cmd);
	} while (sroce_doorbell_again(ret, &tries));

	return ret;
}

/* How many forks this process is away from the first; a child is one thread until it returns. */
static uint32_t sroce_forks;
static int sroce_forks_err;

static void sroce_forked(void)
{
	sroce_forks++;
}

static void sroce_count_forks(void)
{
	sroce_forks_err = pthread_atfork(NULL, NULL, sroce_forked);
}

/**
 * sroce_bells_open - map the ring of a new context's queue pair numbers
 *
 * Return: 0 or a positive errno.
 */
int sroce_bells_open(struct sroce_context *ctx, const struct sroce_ring_map *map)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, sroce_count_forks);
	if (sroce_forks_err)
		return sroce_forks_err;
	ctx->bells_forks = sroce_forks;
	return sroce_map_ring(&ctx->vctx.context, &ctx->bells, map, sizeof(uint32_t));
}

/*
 * Is there a ring for numbers that is ours? A child shares the one that it inherits with
 * its parent, but not the index, of which each has a copy: both would write to one entry.
 */
static bool sroce_has_bells(const struct sroce_context *ctx)
{
	return ctx->bells.num && ctx->bells_forks == sroce_forks;
}

/*
 * Write @qp_num where the kernel finds it with the next doorbell. Threads do not
 * wait for each other here: who finds another at it rings by itself.
 */
static bool sroce_bells_push(struct sroce_context *ctx, uint32_t qp_num)
{
	struct sroce_ring_view *bells = &ctx->bells;
	bool fits;

	if (__atomic_exchange_n(&ctx->bells_busy, true, __ATOMIC_ACQUIRE))
		return false;
	fits = sroce_ring_waiting(bells) < bells->num;
	if (fits) {
		uint32_t *entry = sroce_ring_entry(bells, bells->prod);

		__atomic_store_n(entry, qp_num, __ATOMIC_RELAXED);
		sroce_ring_publish(bells, bells->prod + 1);
	}
	__atomic_store_n(&ctx->bells_busy, false, __ATOMIC_RELEASE);
	return fits;
}

/**
 * sroce_doorbell_soon - make the kernel look at a queue pair before long
 *
 * A program that posts to many queue pairs without waiting in between rings for
 * all of them at once, when the kernel says so: with the last that may wait, or
 * when a poll finds nothing.
 *
 * Return: as sroce_doorbell().
 */
int sroce_doorbell_soon(struct sroce_context *ctx, uint32_t qp_num)
{
	if (!sroce_has_bells(ctx) || !sroce_ring_lingers(&ctx->bells) ||
	    !sroce_bells_push(ctx, qp_num))
		return sroce_doorbell(ctx, qp_num);
	if (sroce_ring_state(&ctx->bells) == SROCE_RING_ASLEEP)
		return sroce_doorbell(ctx, SROCE_DOORBELL_BELLS);
	return 0;
}

/**
 * sroce_doorbell_due - ring for all that has been put off
 * @qp_nums: queue pairs that must be told now
 * @num: how many
 *
 * And for those whose numbers wait. The device may be gone: whoever posts, or
 * its event, tells of that.
 */
void sroce_doorbell_due(struct sroce_context *ctx, const uint32_t *qp_nums,
			uint32_t num)
{
	uint32_t i;

	for (i = 0; i + 1 < num; i++)
		if (!sroce_has_bells(ctx) || !sroce_bells_push(ctx, qp_nums[i]))
			sroce_doorbell(ctx, qp_nums[i]);
	if (num)
		sroce_doorbell(ctx, qp_nums[i]);
	else if (sroce_has_bells(ctx) && sroce_ring_waiting(&ctx->bells))
		sroce_doorbell(ctx, SROCE_DOORBELL_BELLS);
}

/**
 * sroce_doorbell_posted - make the kernel look at what was posted and not rung for
 *
 * Its number may wait in the context's ring, or nowhere.
 */
void sroce_doorbell_posted(struct sroce_qp *qp)
{
	const struct sroce_ring_view *sends = &qp->sq.ring;
	const struct ibv_qp *ibqp = &qp->vqp.qp;

	if (sends->ring && sroce_ring_lingers(sends) && sroce_ring_unseen(sends))
		sroce_doorbell(to_sctx(ibqp->context), ibqp->qp_num);
	else
		sroce_doorbell_due(to_sctx(ibqp->context), NULL, 0);
}

void sroce_ud_add(struct sroce_context *ctx, struct sroce_qp *qp)
{
	pthread_mutex_lock(&ctx->ud_lock);
	qp->ud_next = ctx->ud_qps;
	qp->ud_at = &ctx->ud_qps;
	if (qp->ud_next)
		qp->ud_next->ud_at = &qp->ud_next;
	ctx->ud_qps = qp;
	pthread_mutex_unlock(&ctx->ud_lock);
}

void sroce_ud_remove(struct sroce_context *ctx, struct sroce_qp *qp)
{
	pthread_mutex_lock(&ctx->ud_lock);
	*qp->ud_at = qp->ud_next;
	if (qp->ud_next)
		qp->ud_next->ud_at = qp->ud_at;
	pthread_mutex_unlock(&ctx->ud_lock);
}

/* For so long, at most, an address handle is kept for requests that name it. */
#define SROCE_AH_WAIT_MS	1000

static int64_t sroce_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/*
 * Until all that @qp has been asked to send so far has been sent, or flushed: the kernel
 * looks an address up when a request's turn comes, which may be some windows later.
 * While nothing is sent, as in SQD, there is nothing to wait for; nor when the kernel
 * has begun the ring anew, as the queue pair or the device has gone.
 */
static void sroce_ud_settle(struct sroce_qp *qp, int64_t until)
{
	const struct sroce_ring_view *sends = &qp->sq.ring;
	const uint32_t upto = sroce_ring_filled(sends);

	while (qp->state == IBV_QPS_RTS &&
	       (int32_t)(upto - sroce_ring_done(sends)) > 0 &&
	       sroce_ring_filled(sends) - upto <= sends->num &&
	       sroce_now_ms() < until)
		sched_yield();
}

/**
 * sroce_doorbell_users - have all sent that was posted with an address handle
 * @user: as in struct sroce_ah
 *
 * With several, by every queue pair that might have done so and has requests which are
 * not done: one that the kernel knows of may have them in its ring still, as others have
 * their turn or the netdev's queue is full.
 */
void sroce_doorbell_users(struct sroce_context *ctx, uint32_t user)
{
	struct sroce_qp *qp;
	int64_t until;

	if (!user)
		return;

	pthread_mutex_lock(&ctx->ud_lock);
	until = sroce_now_ms() + SROCE_AH_WAIT_MS;
	for (qp = ctx->ud_qps; qp; qp = qp->ud_next) {
		if (!qp->sq.ring.ring || !sroce_ring_waiting(&qp->sq.ring) ||
		    (user != SROCE_AH_SHARED && user != qp->vqp.qp.qp_num))
			continue;
		if (!sroce_doorbell(ctx, qp->vqp.qp.qp_num))
			sroce_ud_settle(qp, until);
	}
	pthread_mutex_unlock(&ctx->ud_lock);
}

/*
 * Doorbells that are put off. While requests come in a stream the kernel looks
 * at the ring by itself after some time, and need not be told of each; but a
 * program that polls and finds nothing would only wait for that. So who posts
 * without ringing leaves a note in the completion queue, and a poller that
 * comes away empty rings. Posters hold no lock of the completion queue, and
 * push with one exchange; who takes notes away takes them all, under its lock.
 */
static void sroce_push_held(struct sroce_cq *cq, struct sroce_held *held)
{
	/* mostly it is there; after the fence of sroce_ring_state(), as sroce_held_due() has it */
	if (__atomic_load_n(&held->queued, __ATOMIC_RELAXED) ||
	    __atomic_exchange_n(&held->queued, true, __ATOMIC_SEQ_CST))
		return;

	held->next = __atomic_load_n(&cq->held, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&cq->held, &held->next, held, true,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

/* Requests of @qp are in its ring, and the doorbell has not been rung. */
void sroce_defer(struct sroce_qp *qp)
{
	const struct ibv_qp *ibqp = &qp->vqp.qp;

	sroce_push_held(to_scq(ibqp->send_cq), &qp->held_send);
	if (ibqp->recv_cq && ibqp->recv_cq != ibqp->send_cq)
		sroce_push_held(to_scq(ibqp->recv_cq), &qp->held_recv);
}

/*
 * Once it is not in the list, whoever posts puts it there again. The exchange
 * comes before the look at the ring: of two, one sees what the other did.
 */
static bool sroce_held_due(struct sroce_held *held)
{
	(void)__atomic_exchange_n(&held->queued, false, __ATOMIC_SEQ_CST);
	return sroce_ring_state(&held->qp->sq.ring) != SROCE_RING_AWAKE &&
	       sroce_ring_unseen(&held->qp->sq.ring);
}

/**
 * sroce_take_held - which doorbells are due?
 * @cq: completion queue, locked, and found empty
 * @qp_nums: filled in
 * @max: elements of it; what is beyond is left for the next poller
 *
 * To be rung without the lock, as the kernel may send packets on it. A queue
 * pair that is gone by then leaves a number that is nobody's, or another's to
 * whom it does no harm.
 *
 * Return: how many.
 */
uint32_t sroce_take_held(struct sroce_cq *cq, uint32_t *qp_nums, uint32_t max)
{
	struct sroce_held *held, *next;
	uint32_t n = 0;

	held = __atomic_exchange_n(&cq->held, NULL, __ATOMIC_ACQUIRE);
	for (; held; held = next) {
		next = held->next;
		if (n == max) {
			__atomic_store_n(&held->queued, false, __ATOMIC_RELAXED);
			sroce_push_held(cq, held);
		} else if (sroce_held_due(held)) {
			qp_nums[n++] = held->qp->vqp.qp.qp_num;
		}
	}
	return n;
}

/* Its queue pair goes: it is not to be found in @cq, locked, any more. */
void sroce_forget_held(struct sroce_cq *cq, struct sroce_held *gone)
{
	struct sroce_held *held, *next;

	held = __atomic_exchange_n(&cq->held, NULL, __ATOMIC_ACQUIRE);
	for (; held; held = next) {
		next = held->next;
		__atomic_store_n(&held->queued, false, __ATOMIC_RELAXED);
		if (held != gone)
			sroce_push_held(cq, held);
	}
}
