// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Completion queues and shared receive queues as objects: resized with
 * entries in them, with their events moderated, their entries stamped, their
 * limits armed, and their rings scribbled over.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common.h"
#include "../../include/uapi/rdma/sroce-abi.h"

static struct end ea, eb;

#define SLOTS	256
#define SLOT	64

/* A connection from a to b, whose queues a test brings along or leaves NULL. */
struct way {
	struct pair p;
	uint64_t sent, posted;
};

static void way_up_rnr(struct way *w, struct ibv_cq *scq, struct ibv_cq *rcq,
		       struct ibv_srq *srq, unsigned int rnr_retry)
{
	const struct pair_opts po = {
		.sq = SLOTS, .rq = SLOTS, .sge = 1, .buf = SLOTS * SLOT,
		.scq = scq, .rcq = rcq, .srq = srq,
	};

	memset(w, 0, sizeof(*w));
	pair_create(&w->p, &ea, &eb, &po);
	w->p.conn.rnr_retry = rnr_retry;
	pair_connect(&w->p);
}

static void way_up(struct way *w, struct ibv_cq *scq, struct ibv_cq *rcq, struct ibv_srq *srq)
{
	way_up_rnr(w, scq, rcq, srq, 7);
}

static void way_down(struct way *w)
{
	pair_destroy(&w->p);
}

#define SIGNAL_EVERY	64

/* seconds in which what does not come would have come */
#define QUIET		0.2

/* Message n, with n as its bytes and as its wr_id. */
static void way_send(struct way *w, int flags)
{
	size_t at = w->sent % SLOTS * SLOT;
	struct ibv_wc wc;

	/* who does not ask for completions gets no room back */
	if (!w->p.lent_scq && w->sent % SIGNAL_EVERY == SIGNAL_EVERY - 1)
		flags |= IBV_SEND_SIGNALED;
	if (!w->p.lent_scq && w->sent && !(w->sent % SIGNAL_EVERY) &&
	    (!cq_wait(w->p.scq[0], &wc, PATIENCE) || wc.status))
		die("message %" PRIu64 " is not sent", w->sent - 1);
	pattern_fill(w->p.buf[0] + at, w->sent, 0, SLOT);
	if (pair_send(&w->p, 0, w->sent, at, SLOT, flags))
		die("post_send %" PRIu64, w->sent);
	w->sent++;
}

static int way_recv(struct way *w)
{
	int err = pair_recv(&w->p, 1, w->posted, w->posted % SLOTS * SLOT, SLOT);

	if (!err)
		w->posted++;
	return err;
}

static void way_recvs(struct way *w, unsigned int n)
{
	while (n--)
		if (way_recv(w))
			die("post_recv %" PRIu64, w->posted);
}

/* The next completion is that of @want: no result of its own, as there are many. */
static bool next_is(struct ibv_cq *cq, uint64_t want, const struct way *data)
{
	struct ibv_wc wc;

	if (!cq_wait(cq, &wc, PATIENCE)) {
		diag("no completion; %" PRIu64 " was to come", want);
		return false;
	}
	if (wc.status || wc.wr_id != want) {
		diag("wr_id %" PRIu64 " status %d; %" PRIu64 " was to come", wc.wr_id, wc.status, want);
		return false;
	}
	if (data && pattern_check(data->p.buf[1] + want % SLOTS * SLOT, want, 0, SLOT) >= 0) {
		diag("wr_id %" PRIu64 ": not its bytes", want);
		return false;
	}
	return true;
}

static bool next_are(struct ibv_cq *cq, uint64_t *next, unsigned int n, const struct way *data)
{
	while (n--)
		if (!next_is(cq, (*next)++, data))
			return false;
	return true;
}

/* --- events ------------------------------------------------------------------- */

static bool fd_ready(int fd, double seconds)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, seconds * 1000) == 1;
}

static struct ibv_comp_channel *make_channel(struct end *e)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(e->ctx);

	if (!ch)
		die("create_comp_channel");
	return ch;
}

static bool comp_event(struct ibv_comp_channel *ch, double seconds)
{
	struct ibv_cq *cq;
	void *ctx;

	if (!fd_ready(ch->fd, seconds))
		return false;
	if (ibv_get_cq_event(ch, &cq, &ctx))
		die("get_cq_event");
	ibv_ack_cq_events(cq, 1);
	return true;
}

static void arm(struct ibv_cq *cq, bool solicited)
{
	if (ibv_req_notify_cq(cq, solicited))
		die("req_notify_cq");
}

/* --- completion queues ----------------------------------------------------------- */

static void wait_filled(struct sroce_ring *ring, uint32_t want)
{
	double end = now() + PATIENCE;

	while (__atomic_load_n(&ring->prod, __ATOMIC_ACQUIRE) - ring->cons != want)
		if (now() > end)
			die("completions are missing");
}

static void cq_resize(void)
{
	struct rng rng = { 4711 };
	uint64_t polled = 0, received = 0;
	unsigned int i, n, grown = 0, shrunk = 0, refused = 0;
	struct sroce_ring *ring;
	struct ibv_cq *cq;
	bool good = true;
	struct way w;

	ring_before();
	cq = cq_make(&ea, 4);
	ring = ring_after();
	way_up(&w, cq, NULL, NULL);
	for (i = 0; i < 150 && good; i++) {
		unsigned int in = w.sent - polled, size;
		int old = cq->cqe, err;

		n = rng_in(&rng, 0, min(cq->cqe - in, 40));
		way_recvs(&w, n);
		while (n--)
			way_send(&w, IBV_SEND_SIGNALED);
		good = next_are(w.p.rcq[1], &received, w.sent - received, &w);
		n = rng_in(&rng, 0, w.sent - polled);
		good &= next_are(cq, &polled, n, NULL);
		/* received is not yet acknowledged */
		in = w.sent - polled;
		wait_filled(ring, in);
		size = rng_in(&rng, 1, 100);
		ring_before();
		err = ibv_resize_cq(cq, size);
		if (err) {
			refused++;
			good &= err == EINVAL && size < in && cq->cqe == old;
		} else {
			ring = ring_after();
			grown += cq->cqe > old;
			shrunk += cq->cqe < old;
			good &= cq->cqe >= (int)size;
		}
		if (!good)
			diag("round %u: %u in a queue of %d, resize to %u: %d", i, in, old, size, err);
	}
	ok(good, "resized %u times, everything polled once and in order", i);
	ok(grown && shrunk && refused, "it grew %u times, shrank %u times, and refused %u times",
	   grown, shrunk, refused);
	ok(next_are(cq, &polled, w.sent - polled, NULL), "the rest is there");
	is(ibv_resize_cq(cq, ea.attr.max_cqe + 1), EINVAL, "more than max_cqe is refused");
	way_down(&w);
	is(ibv_destroy_cq(cq), 0, "the queue is destroyed");
}

#define MANY	16000

/* WRITEs of nothing, each a completion */
static void *many_writes(void *arg)
{
	struct ibv_qp *qp = arg;
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};

	for (wr.wr_id = 0; wr.wr_id < MANY; wr.wr_id++)
		if (ibv_post_send(qp, &wr, &bad))
			die("post_send %" PRIu64, wr.wr_id);
	return NULL;
}

/* More than is copied at a time, while more comes in. */
static void cq_resize_busy(void)
{
	const struct pair_opts po = { .sq = MANY, .rq = 1, .sge = 1, .buf = 64 };
	unsigned int held, full = 0, i = 0;
	struct sroce_ring *ring;
	struct pair_opts o = po;
	uint64_t polled = 0;
	pthread_t writer;
	struct pair p;

	o.scq = cq_make(&ea, MANY);
	pair_create(&p, &ea, &eb, &o);
	pair_connect(&p);
	if (pthread_create(&writer, NULL, many_writes, p.qp[0]))
		die("pthread_create");
	do {
		ring_before();
		if (ibv_resize_cq(o.scq, ++i & 1 ? 2 * MANY : MANY))
			die("resize_cq, the %uth time", i);
		ring = ring_after();
		held = __atomic_load_n(&ring->prod, __ATOMIC_ACQUIRE);
		full += held > 2048 && held < MANY;
	} while (held < MANY);
	pthread_join(writer, NULL);
	ok(full, "resized %u times, %u of them with thousands in it while more came", i, full);
	ok(next_are(o.scq, &polled, MANY, NULL), "everything is polled once and in order");
	pair_destroy(&p);
	is(ibv_destroy_cq(o.scq), 0, "the queue is destroyed");
}

/* What was asked for before is still asked for afterwards. */
static void cq_resize_armed(void)
{
	struct ibv_comp_channel *ch = make_channel(&ea);
	struct ibv_cq *cq = cq_make_on(&ea, 4, ch);
	uint64_t polled = 0;
	struct way w;

	way_up(&w, cq, NULL, NULL);
	arm(cq, false);
	is(ibv_resize_cq(cq, 64), 0, "an armed queue is resized");
	ok(!comp_event(ch, 0.2), "which is no event");
	way_recvs(&w, 2);
	way_send(&w, IBV_SEND_SIGNALED);
	ok(comp_event(ch, PATIENCE), "the next completion is");
	way_send(&w, IBV_SEND_SIGNALED);
	ok(next_are(cq, &polled, 2, NULL), "there are two");
	ok(!comp_event(ch, 0.2), "one event was asked for");
	way_down(&w);
	ibv_destroy_cq(cq);
	ibv_destroy_comp_channel(ch);
}

static void moderate(struct ibv_cq *cq, unsigned int count, unsigned int period)
{
	struct ibv_modify_cq_attr a = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = { .cq_count = count, .cq_period = period },
	};
	int err = ibv_modify_cq(cq, &a);

	if (err)
		die("modify_cq: %s", strerror(err));
}

/* Bring @n completions into @cq, which nobody polls. */
static void way_fill(struct way *w, struct sroce_ring *ring, unsigned int n, int flags)
{
	const uint32_t want = ring->prod - ring->cons + n;

	way_recvs(w, n);
	while (n--)
		way_send(w, flags);
	wait_filled(ring, want);
}

/*
 * Who has polled everything and arms may sleep then (UCX): what came in between raises
 * the event at once, as hardware does, whose arming names the consumer's index.
 */
static void cq_missed(void)
{
	struct ibv_comp_channel *ch = make_channel(&eb);
	struct sroce_ring *ring;
	uint64_t polled = 0;
	struct way w, gone;
	struct ibv_cq *cq;
	unsigned int i;
	bool good;

	ring_before();
	cq = cq_make_on(&eb, SLOTS, ch);
	ring = ring_after();
	way_up(&w, NULL, cq, NULL);

	way_fill(&w, ring, 1, 0);
	ok(!fd_ready(ch->fd, 0), "nobody asked: no event");
	arm(cq, false);
	ok(comp_event(ch, PATIENCE), "a completion that came before arming raises the event");
	arm(cq, false);
	ok(!fd_ready(ch->fd, QUIET), "once, and the event that was taken was for it");
	way_fill(&w, ring, 1, 0);
	ok(comp_event(ch, PATIENCE), "armed is armed: the next one raises one");
	way_fill(&w, ring, 1, 0);
	arm(cq, false);
	ok(comp_event(ch, PATIENCE), "one that came after the event does, too");
	ok(!fd_ready(ch->fd, QUIET), "one event for three that wait");
	ok(next_are(cq, &polled, 3, &w), "they are there");
	arm(cq, false);
	ok(!fd_ready(ch->fd, QUIET), "all polled: no event");
	way_fill(&w, ring, 1, 0);
	ok(comp_event(ch, PATIENCE) && next_are(cq, &polled, 1, &w), "until the next one comes");

	way_fill(&w, ring, 2, 0);
	arm(cq, true);
	ok(!fd_ready(ch->fd, QUIET), "solicited: what was not solicited raises none");
	way_fill(&w, ring, 1, IBV_SEND_SOLICITED);
	ok(comp_event(ch, PATIENCE), "what comes solicited does");
	way_fill(&w, ring, 1, IBV_SEND_SOLICITED);
	way_fill(&w, ring, 1, 0);
	arm(cq, true);
	ok(comp_event(ch, PATIENCE), "what came solicited before arming does");
	ok(next_are(cq, &polled, 5, &w), "they are there");
	way_fill(&w, ring, 1, 0);
	arm(cq, true);
	ok(!fd_ready(ch->fd, QUIET), "a solicited one that has been polled raises none");
	ok(next_are(cq, &polled, 1, &w), "it is there");

	/* disarm: the event for what is solicited */
	way_fill(&w, ring, 1, IBV_SEND_SOLICITED);
	ok(comp_event(ch, PATIENCE) && next_are(cq, &polled, 1, &w), "the next solicited one does");
	moderate(cq, 4, 0);
	way_fill(&w, ring, 2, 0);
	arm(cq, false);
	way_fill(&w, ring, 1, 0);
	ok(!fd_ready(ch->fd, QUIET), "count 4: none for two before and one after arming");
	way_fill(&w, ring, 1, 0);
	ok(comp_event(ch, PATIENCE), "one for one more");
	ok(next_are(cq, &polled, 4, &w), "they are there");
	way_fill(&w, ring, 5, 0);
	arm(cq, false);
	ok(comp_event(ch, PATIENCE), "one for five before arming");
	ok(next_are(cq, &polled, 5, &w), "they are there");
	moderate(cq, 0, 0);

	/* an event that is taken late is none for what came after the last look */
	arm(cq, false);
	way_fill(&w, ring, 1, 0);
	ok(next_are(cq, &polled, 1, &w), "one is polled, and its event waits");
	way_fill(&w, ring, 1, 0);
	ok(comp_event(ch, PATIENCE), "it is taken when another one has come");
	arm(cq, false);
	ok(comp_event(ch, PATIENCE), "for which there is one, too");
	ok(next_are(cq, &polled, 1, &w), "it is there");

	/* nor is one for what is left over */
	arm(cq, false);
	way_fill(&w, ring, 3, 0);
	ok(comp_event(ch, PATIENCE) && next_are(cq, &polled, 1, &w), "one of three is polled");
	arm(cq, false);
	ok(comp_event(ch, PATIENCE) && next_are(cq, &polled, 1, &w), "an event, and the second is");
	arm(cq, false);
	ok(comp_event(ch, PATIENCE) && next_are(cq, &polled, 1, &w), "an event, and the third is");
	arm(cq, false);
	ok(!fd_ready(ch->fd, QUIET), "and that is all");
	way_fill(&w, ring, 1, 0);
	ok(comp_event(ch, PATIENCE) && next_are(cq, &polled, 1, &w), "the next one is heard");

	/* against a kernel that adds meanwhile: nobody sleeps for ever */
	good = true;
	for (i = 0; i < 2000 && good; i++) {
		struct ibv_wc wc;

		way_recvs(&w, 1);
		way_send(&w, 0);
		while (ibv_poll_cq(cq, 1, &wc) > 0)
			good &= !wc.status && wc.wr_id == polled++;
		/* armed only for what is to come: what was not caught is not heard by the next */
		while (good && polled != w.sent) {
			arm(cq, false);
			good &= comp_event(ch, PATIENCE);
			while (ibv_poll_cq(cq, 1, &wc) > 0)
				good &= !wc.status && wc.wr_id == polled++;
		}
	}
	ok(good, "polled, armed and slept %u times", i);

	/* those of a queue pair that has gone were behind what came solicited, which moves up */
	way_up(&gone, NULL, cq, NULL);
	way_fill(&w, ring, 1, IBV_SEND_SOLICITED);
	way_fill(&gone, ring, 3, 0);
	way_down(&gone);
	arm(cq, true);
	ok(comp_event(ch, PATIENCE), "what came solicited does, behind others that have gone");
	ok(next_are(cq, &polled, 1, &w), "it is there");
	way_down(&w);
	is(ibv_destroy_cq(cq), 0, "the queue is destroyed");
	ibv_destroy_comp_channel(ch);
}

static void cq_moderation(void)
{
	struct ibv_device_attr_ex attr = {};
	struct ibv_comp_channel *ch = make_channel(&eb);
	struct ibv_cq *cq = cq_make_on(&eb, SLOTS, ch);
	uint64_t polled = 0;
	unsigned int i, n;
	struct ibv_wc wc;
	struct way w;
	double t;

	if (ibv_query_device_ex(eb.ctx, NULL, &attr))
		die("query_device_ex");
	is(attr.cq_mod_caps.max_cq_count, 65535, "max_cq_count");
	is(attr.cq_mod_caps.max_cq_period, 65535, "max_cq_period");

	way_up(&w, NULL, cq, NULL);
	way_recvs(&w, SLOTS);

	moderate(cq, 8, 0);
	for (i = n = 0; i < 5; i++) {
		unsigned int k;

		arm(cq, false);
		for (k = 0; k < 7; k++)
			way_send(&w, 0);
		n += comp_event(ch, 0.1);
		way_send(&w, 0);
		n += 10 * comp_event(ch, PATIENCE);
		if (!next_are(cq, &polled, 8, &w))
			break;
	}
	is(n, 50, "count 8: five events for 5 times 8 completions, each at the eighth");

	moderate(cq, 0, 50000);
	arm(cq, false);
	t = now();
	for (i = 0; i < 3; i++)
		way_send(&w, 0);
	ok(comp_event(ch, PATIENCE), "period 50 ms: an event for three completions");
	t = now() - t;
	ok(t >= 0.05, "after %.1f ms", t * 1e3);
	ok(!comp_event(ch, 0.2), "and no other");
	ok(next_are(cq, &polled, 3, &w), "they are there");

	moderate(cq, 100, 0);
	arm(cq, false);
	way_send(&w, 0);
	ok(!comp_event(ch, 0.1), "count 100: none for one completion");
	way_send(&w, IBV_SEND_SOLICITED);
	ok(comp_event(ch, PATIENCE), "one at once for a solicited one");
	ok(next_are(cq, &polled, 2, &w), "they are there");

	arm(cq, false);
	way_send(&w, 0);
	ok(!comp_event(ch, 0.1), "none for one completion");
	moderate(cq, 0, 0);
	ok(comp_event(ch, PATIENCE), "one when moderation ends");
	arm(cq, false);
	way_send(&w, 0);
	ok(comp_event(ch, PATIENCE), "one for one completion without moderation");
	ok(next_are(cq, &polled, 2, &w), "they are there");

	/* by count alone: it is for no other reason that it comes */
	moderate(cq, 5000, 0);
	arm(cq, false);
	way_send(&w, 0);
	ok(!comp_event(ch, 0.1), "count 5000: none for one completion");
	if (qp_to(w.p.qp[1], IBV_QPS_ERR))
		die("to ERR");
	ok(comp_event(ch, PATIENCE), "one at once for an error");
	way_down(&w);
	while (ibv_poll_cq(cq, 1, &wc) > 0)
		;

	way_up(&w, NULL, cq, NULL);
	way_recvs(&w, 1);
	moderate(cq, 5000, 65535);
	arm(cq, false);
	way_send(&w, IBV_SEND_SIGNALED);
	ok(cq_wait(w.p.scq[0], &wc, PATIENCE) && !wc.status, "a completion whose event waits");
	way_down(&w);
	/* with its timer running, but on a slow machine */
	is(ibv_destroy_cq(cq), 0, "the queue is destroyed");
	ibv_destroy_comp_channel(ch);
}

static uint64_t clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static void cq_stamps(void)
{
	struct ibv_cq_init_attr_ex ia = {
		.cqe = SLOTS,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
	};
	struct ibv_poll_cq_attr pa = {};
	struct ibv_device_attr_ex attr = {};
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	uint64_t lo, hi, wlo, whi, last = 0, t, wt;
	bool in_order = true, within = true, wall = true;
	struct ibv_cq_ex *cq;
	unsigned int i;
	double end;
	struct way w;

	if (ibv_query_device_ex(ea.ctx, NULL, &attr))
		die("query_device_ex");
	is(attr.hca_core_clock, 1000000, "hca_core_clock in kHz");
	ok(attr.completion_timestamp_mask == UINT64_MAX, "all bits of a stamp count");
	cq = ibv_create_cq_ex(ea.ctx, &ia);
	if (!ok(cq, "a queue with stamps"))
		return;

	way_up(&w, ibv_cq_ex_to_cq(cq), NULL, NULL);
	way_recvs(&w, 200);
	for (i = 0; i < 200; i++) {
		lo = clock_ns(CLOCK_MONOTONIC);
		wlo = clock_ns(CLOCK_REALTIME);
		way_send(&w, IBV_SEND_SIGNALED);
		end = now() + PATIENCE;
		while (ibv_start_poll(cq, &pa))
			if (now() > end)
				die("no completion");
		t = ibv_wc_read_completion_ts(cq);
		wt = ibv_wc_read_completion_wallclock_ns(cq);
		ibv_end_poll(cq);
		hi = clock_ns(CLOCK_MONOTONIC);
		whi = clock_ns(CLOCK_REALTIME);
		in_order &= t >= last;
		within &= t >= lo && t <= hi;
		wall &= wt >= wlo && wt <= whi;
		last = t;
	}
	ok(in_order, "stamps never go back");
	ok(within, "they lie between the post and the poll");
	ok(wall, "so do those of the wall clock");
	if (ibv_query_rt_values_ex(ea.ctx, &values)) {
		skip("the provider has none", "the device's clock");
	} else {
		t = values.raw_clock.tv_sec * 1000000000ULL + values.raw_clock.tv_nsec;
		ok(t >= last && t <= clock_ns(CLOCK_MONOTONIC), "the device's clock is the stamps'");
	}
	way_down(&w);
	is(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0, "the queue is destroyed");
}

#define BATCH_QPS	40

/* Waits for the batch. */
static void *destroys(void *qp)
{
	errno = ibv_destroy_qp(qp);
	return errno ? "wrong" : NULL;
}

static struct ibv_qp *ud_on(struct ibv_cq *cq)
{
	struct ibv_qp_init_attr qa = {
		.send_cq = cq, .recv_cq = cq,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1 }, .qp_type = IBV_QPT_UD,
	};

	return ibv_create_qp(ea.pd, &qa);
}

/*
 * A program that is told of a peer in a completion makes a queue pair for it, on the same completion
 * queue, before it ends its batch, while another thread destroys one: so many that the provider's
 * table of them is full. Who waits for itself there is ended by the alarm.
 */
static void cq_batch(void)
{
	struct ibv_cq_init_attr_ex ia = { .cqe = SLOTS, .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(ea.ctx, &ia);
	struct ibv_poll_cq_attr pa = {};
	struct ibv_qp *qp[BATCH_QPS] = {};
	const double end = now() + PATIENCE;
	unsigned int i, made = 0, found = 0;
	struct ibv_qp *old = cq ? ud_on(ibv_cq_ex_to_cq(cq)) : NULL;
	struct way w, more;
	pthread_t other;
	struct ibv_wc wc;
	void *wrong;

	if (!ok(old, "a queue, and a queue pair"))
		return;
	way_up(&w, ibv_cq_ex_to_cq(cq), NULL, NULL);
	way_recvs(&w, 2);
	way_send(&w, IBV_SEND_SIGNALED);
	while (ibv_start_poll(cq, &pa))
		if (now() > end)
			die("no completion");
	alarm(PATIENCE);
	if (pthread_create(&other, NULL, destroys, old))
		die("pthread_create");
	/* it has nothing else to do than to get to where it waits */
	sleep_ms(200);
	for (i = 0; i < BATCH_QPS; i++) {
		qp[i] = ud_on(ibv_cq_ex_to_cq(cq));
		made += !!qp[i];
	}
	way_up(&more, ibv_cq_ex_to_cq(cq), NULL, NULL);
	alarm(0);
	is(made, BATCH_QPS, "queue pairs are made in the midst of a batch");
	is(cq->wr_id, 0, "which goes on");
	ibv_end_poll(cq);
	pthread_join(other, &wrong);
	ok(!wrong, "and another thread's is destroyed");
	way_recvs(&more, 2);
	for (i = 1; i < 4; i++) {
		way_send(i & 1 ? &more : &w, IBV_SEND_SIGNALED);
		if (cq_wait(ibv_cq_ex_to_cq(cq), &wc, PATIENCE) && !wc.status)
			found += wc.qp_num == (i & 1 ? &more : &w)->p.qp[0]->qp_num;
	}
	is(found, 3, "completions of old and new ones");
	for (i = 0; i < BATCH_QPS; i++)
		if (qp[i])
			ibv_destroy_qp(qp[i]);
	way_down(&more);
	way_down(&w);
	is(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0, "the queue is destroyed");
}

/* An index that makes no sense reads as a full queue: its error, and no more. */
static void cq_hostile(void)
{
	struct sroce_ring *ring;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	struct ibv_async_event ev;
	struct way w;

	ring_before();
	cq = cq_make(&ea, 16);
	ring = ring_after();
	way_up(&w, cq, NULL, NULL);
	way_recvs(&w, 4);
	way_send(&w, IBV_SEND_SIGNALED);
	ok(cq_wait(cq, &wc, PATIENCE) && !wc.status, "a completion");
	__atomic_store_n(&ring->cons, 0x12345678, __ATOMIC_RELEASE);
	is(ibv_resize_cq(cq, 64), EINVAL, "a scribbled ring is not resized");
	way_send(&w, IBV_SEND_SIGNALED);
	event_is(&ea, IBV_EVENT_CQ_ERR, cq, "the next completion is the queue's error");
	event_is(&ea, IBV_EVENT_QP_FATAL, w.p.qp[0], "and its queue pair's");
	ok(!event_wait(&ea, &ev, 0.3), "said once");
	ok(qp_state(w.p.qp[0]) == IBV_QPS_ERR, "its queue pair is in ERR");
	is(ibv_resize_cq(cq, 64), EINVAL, "nor is one that has overflown");
	way_down(&w);
	is(ibv_destroy_cq(cq), 0, "the queue is destroyed");
}

/* --- shared receive queues ---------------------------------------------------------- */

static struct ibv_srq *make_srq(unsigned int max_wr)
{
	struct ibv_srq_init_attr ia = { .attr = { .max_wr = max_wr, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(eb.pd, &ia);

	if (!srq)
		die("create_srq: %s", strerror(errno));
	return srq;
}

static struct ibv_srq_attr query_srq(struct ibv_srq *srq)
{
	struct ibv_srq_attr a = {};

	if (ibv_query_srq(srq, &a))
		die("query_srq");
	return a;
}

static int resize_srq(struct ibv_srq *srq, unsigned int max_wr)
{
	struct ibv_srq_attr a = { .max_wr = max_wr };

	return ibv_modify_srq(srq, &a, IBV_SRQ_MAX_WR);
}

static int arm_srq(struct ibv_srq *srq, unsigned int limit)
{
	struct ibv_srq_attr a = { .srq_limit = limit };

	return ibv_modify_srq(srq, &a, IBV_SRQ_LIMIT);
}

static void srq_resize(void)
{
	struct ibv_srq *srq = make_srq(8);
	struct rng rng = { 815 };
	unsigned int i, n, grown = 0, shrunk = 0, refused = 0;
	uint64_t received = 0;
	bool good = true;
	struct way w;

	way_up(&w, NULL, NULL, srq);
	for (i = 0; i < 150 && good; i++) {
		unsigned int old = query_srq(srq).max_wr, in = w.posted - received, size, real;
		int err;

		way_recvs(&w, rng_in(&rng, 0, old - in));
		in = w.posted - received;
		n = rng_in(&rng, 0, in);
		while (n--)
			way_send(&w, 0);
		good = next_are(w.p.rcq[1], &received, w.sent - received, &w);
		in = w.posted - received;
		size = rng_in(&rng, 1, 100);
		err = resize_srq(srq, size);
		real = query_srq(srq).max_wr;
		if (err) {
			refused++;
			good &= err == EINVAL && size < in && real == old;
		} else {
			grown += real > old;
			shrunk += real < old;
			good &= real >= size && real >= in;
		}
		if (!good)
			diag("round %u: %u in a queue of %u, resize to %u: %d, %u", i, in, old, size, err,
			     real);
	}
	ok(good, "resized %u times, everything received once and in order", i);
	ok(grown && shrunk && refused, "it grew %u times, shrank %u times, and refused %u times",
	   grown, shrunk, refused);
	n = w.posted - received;
	while (n--)
		way_send(&w, 0);
	ok(next_are(w.p.rcq[1], &received, w.sent - received, &w), "the rest is there");
	is(resize_srq(srq, eb.attr.max_srq_wr + 1), EINVAL, "more than max_srq_wr is refused");
	is(resize_srq(srq, eb.attr.max_srq_wr), 0, "max_srq_wr is not");
	for (i = 0; i < (unsigned int)eb.attr.max_srq_wr && !way_recv(&w); i++)
		;
	is(i, eb.attr.max_srq_wr, "so many can be posted");
	ok(way_recv(&w), "and no more");
	way_down(&w);
	is(ibv_destroy_srq(srq), 0, "the queue is destroyed");
}

/* So many messages of nothing to the SRQ */
static void *many_sends(void *arg)
{
	struct ibv_qp *qp = arg;
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND };
	struct ibv_wc wc;

	for (wr.wr_id = 0; wr.wr_id < MANY; wr.wr_id++) {
		const bool ask = wr.wr_id % SIGNAL_EVERY == SIGNAL_EVERY - 1;

		wr.send_flags = ask ? IBV_SEND_SIGNALED : 0;
		if (ibv_post_send(qp, &wr, &bad))
			die("post_send %" PRIu64, wr.wr_id);
		if (ask && (!cq_wait(qp->send_cq, &wc, PATIENCE) || wc.status))
			die("message %" PRIu64, wr.wr_id);
	}
	return NULL;
}

/* More than is copied at a time, while messages take from it. */
static void srq_resize_busy(void)
{
	struct ibv_srq *srq = make_srq(MANY);
	struct pair_opts o = { .sq = SIGNAL_EVERY, .rq = 1, .sge = 1, .buf = 64, .srq = srq };
	struct ibv_recv_wr *bad, wr = {};
	unsigned int busy = 0, i = 0;
	struct sroce_ring *ring;
	uint64_t received = 0;
	pthread_t sender;
	struct pair p;

	o.rcq = cq_make(&eb, MANY);
	pair_create(&p, &ea, &eb, &o);
	pair_connect(&p);
	for (wr.wr_id = 0; wr.wr_id < MANY; wr.wr_id++)
		if (ibv_post_srq_recv(srq, &wr, &bad))
			die("post_srq_recv %" PRIu64, wr.wr_id);
	if (pthread_create(&sender, NULL, many_sends, p.qp[0]))
		die("pthread_create");
	do {
		uint32_t taken;

		ring_before();
		if (resize_srq(srq, MANY))
			die("resize_srq, the %uth time", i);
		ring = ring_after();
		taken = __atomic_load_n(&ring->cons, __ATOMIC_ACQUIRE);
		busy += taken && MANY - taken > 2048;
		i++;
	} while (__atomic_load_n(&ring->cons, __ATOMIC_ACQUIRE) < MANY);
	pthread_join(sender, NULL);
	ok(busy, "resized %u times, %u of them with thousands in it while messages took some", i, busy);
	ok(next_are(o.rcq, &received, MANY, NULL), "each request is taken once and in order");
	pair_destroy(&p);
	is(ibv_destroy_cq(o.rcq), 0, "the completion queue is destroyed");
	is(ibv_destroy_srq(srq), 0, "the queue is destroyed");
}

static void srq_limit(void)
{
	struct ibv_srq *srq = make_srq(8);
	uint64_t received = 0;
	struct ibv_async_event ev;
	struct way w;
	int i;

	way_up(&w, NULL, NULL, srq);
	way_recvs(&w, 8);
	is(query_srq(srq).srq_limit, 0, "a new queue's limit is not armed");
	is(arm_srq(srq, 9), EINVAL, "a limit beyond its size is refused");
	is(arm_srq(srq, 4), 0, "it is armed at 4 of 8");
	is(query_srq(srq).srq_limit, 4, "and says so");
	for (i = 0; i < 4; i++)
		way_send(&w, 0);
	next_are(w.p.rcq[1], &received, 4, &w);
	ok(!event_wait(&eb, &ev, 0.2), "no event with four left");
	way_send(&w, 0);
	event_is(&eb, IBV_EVENT_SRQ_LIMIT_REACHED, srq, "one with three left");
	is(query_srq(srq).srq_limit, 0, "it is not armed any more");
	way_send(&w, 0);
	next_are(w.p.rcq[1], &received, 2, &w);
	ok(!event_wait(&eb, &ev, 0.2), "one event for an arming");
	is(arm_srq(srq, 4), 0, "armed again below the limit");
	way_send(&w, 0);
	event_is(&eb, IBV_EVENT_SRQ_LIMIT_REACHED, srq, "the next message says so");
	next_are(w.p.rcq[1], &received, 1, &w);
	way_down(&w);
	is(ibv_destroy_srq(srq), 0, "the queue is destroyed");
}

static void srq_hostile(void)
{
	static const uint32_t far[] = { 17, 0x80000000, -1 };
	struct sroce_ring *ring;
	struct ibv_srq *srq;
	struct ibv_wc wc;
	unsigned int i;
	struct ibv_async_event ev;
	struct way w;

	for (i = 0; i < ARRAY_SIZE(far); i++) {
		ring_before();
		srq = make_srq(16);
		ring = ring_after();
		way_up_rnr(&w, NULL, NULL, srq, 1);
		way_recvs(&w, 2);
		/* what the kernel writes there is for show */
		__atomic_store_n(&ring->cons, 0x7777, __ATOMIC_RELEASE);
		way_send(&w, IBV_SEND_SIGNALED);
		ok(next_is(w.p.rcq[1], 0, &w), "its consumer index is not believed");
		if (!cq_wait(w.p.scq[0], &wc, PATIENCE))
			die("no completion");
		__atomic_store_n(&ring->prod, 1 + far[i], __ATOMIC_RELEASE);
		is(resize_srq(srq, 64), EINVAL, "producer index %#x off: not resized", far[i]);
		way_send(&w, IBV_SEND_SIGNALED);
		event_is(&eb, IBV_EVENT_SRQ_ERR, srq, "the next message is the queue's error");
		way_send(&w, IBV_SEND_SIGNALED);
		ok(cq_wait(w.p.scq[0], &wc, PATIENCE) && wc.status, "the sender hears of it");
		ok(!event_wait(&eb, &ev, 0.3), "said once");
		way_down(&w);
		is(ibv_destroy_srq(srq), 0, "the queue is destroyed");
	}
}

static void srq_xrc(void)
{
	struct ibv_xrcd *xrcd = xrcd_make(&eb);
	struct ibv_cq *cq = cq_make(&eb, 16);
	struct ibv_srq *srq[3];
	uint32_t num[3] = {};
	unsigned int i;

	if (!ok(xrcd, "an XRC domain"))
		return;
	for (i = 0; i < 3; i++) {
		struct ibv_srq_attr attr = { .max_wr = 10, .max_sge = 3 };

		srq[i] = xrc_srq_make(&eb, xrcd, cq, &attr);
		ok(!ibv_get_srq_num(srq[i], &num[i]) && num[i] && num[i] <= 0xffffff,
		   "number %u", num[i]);
		ok(attr.max_wr >= 10 && attr.max_sge >= 3, "as large as asked for");
	}
	ok(num[0] != num[1] && num[1] != num[2] && num[0] != num[2], "all differ");
	is(ibv_close_xrcd(xrcd), EBUSY, "the domain stays while they are there");
	for (i = 0; i < 3; i++)
		is(ibv_destroy_srq(srq[i]), 0, "queue %u is destroyed", i);
	is(ibv_close_xrcd(xrcd), 0, "the domain is closed");
	ibv_destroy_cq(cq);
}

static const struct test tests[] = {
	TEST(cq_resize),
	TEST(cq_resize_armed),
	TEST(cq_resize_busy),
	TEST(cq_missed),
	TEST(cq_moderation),
	TEST(cq_stamps),
	TEST(cq_batch),
	TEST(cq_hostile),
	TEST(srq_resize),
	TEST(srq_resize_busy),
	TEST(srq_limit),
	TEST(srq_hostile),
	TEST(srq_xrc),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
