// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The device goes (--down COMMAND) under a program with full queues: all that it had
 * posted is flushed, it gets IBV_EVENT_DEVICE_FATAL, and then EIO from every call. Then
 * (--up COMMAND) there is one again. "both" go, or "one", and its peer hears nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

#define WINDOW 32

static struct end ea, eb;
static struct ibv_comp_channel *channel;
static struct ibv_cq *armed;

/* A port may have gone down first. */
static void is_fatal(struct end *e, const char *what)
{
	struct ibv_async_event ev = { .event_type = IBV_EVENT_PORT_ERR };

	while (ev.event_type == IBV_EVENT_PORT_ERR && event_wait(e, &ev, PATIENCE))
		;
	if (!ok(ev.event_type == IBV_EVENT_DEVICE_FATAL, "%s: %s", e->name, what))
		diag("the last event: %s", ibv_event_type_str(ev.event_type));
}

static void window_is_flushed(struct ibv_cq *cq, const char *what)
{
	struct ibv_wc wc = {};
	unsigned int i;

	for (i = 0; i < WINDOW; i++)
		if (!cq_wait(cq, &wc, PATIENCE) || wc.wr_id != i ||
		    wc.status != IBV_WC_WR_FLUSH_ERR)
			break;
	if (!is(i, WINDOW, "%s: each is flushed, in order", what))
		diag("the last completion: %llu, %s", (unsigned long long)wc.wr_id,
		     ibv_wc_status_str(wc.status));
	ok(cq_quiet(cq, 0.02), "%s: and no more", what);
}

/* It has ended with @err, or did nothing */
static void is_eio(bool failed, int err, const char *what)
{
	if (!ok(failed && err == EIO, "%s: EIO", what))
		diag("%s", failed ? strerror(err) : "it succeeded");
}

static void every_call(struct pair *p)
{
	struct ibv_qp_init_attr ia = {
		.send_cq = p->scq[0], .recv_cq = p->rcq[0], .qp_type = IBV_QPT_RC,
		.cap = { 1, 1, 1, 1, 0 },
	};
	struct ibv_ah_attr ah = {
		.is_global = 1, .port_num = 1,
		.grh = { .dgid = eb.gid, .sgid_index = ea.gid_index, .hop_limit = 64 },
	};
	struct ibv_device_attr attr;
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_port_attr port;
	struct ibv_qp_attr a;
	struct ibv_cq *cq;
	void *ctx;
	int err;

	err = ibv_query_device(ea.ctx, &attr);
	is_eio(err, err, "query_device");
	err = ibv_query_port(ea.ctx, 1, &port);
	is_eio(err, err, "query_port");
	is_eio(!ibv_alloc_pd(ea.ctx), errno, "alloc_pd");
	is_eio(!ibv_reg_mr(ea.pd, p->buf[0], 4096, 0), errno, "reg_mr");
	is_eio(!ibv_create_comp_channel(ea.ctx), errno, "create_comp_channel");
	is_eio(!ibv_create_cq(ea.ctx, 1, NULL, NULL, 0), errno, "create_cq");
	is_eio(!ibv_create_srq(ea.pd, &sa), errno, "create_srq");
	is_eio(!ibv_create_qp(ea.pd, &ia), errno, "create_qp");
	is_eio(!ibv_create_ah(ea.pd, &ah), errno, "create_ah");
	err = ibv_query_qp(p->qp[0], &a, IBV_QP_STATE, &ia);
	is_eio(err, err, "query_qp");
	err = qp_to(p->qp[0], IBV_QPS_RESET);
	is_eio(err, err, "modify_qp");
	err = ibv_resize_cq(p->scq[0], 256);
	is_eio(err, err, "resize_cq");
	/* there may be events of what was flushed */
	while (!(err = ibv_get_cq_event(channel, &cq, &ctx)))
		ibv_ack_cq_events(cq, 1);
	is_eio(err, errno, "get_cq_event");
	/* posts are stores to memory, which is still there */
	err = pair_send(p, 0, 100, 0, 100, IBV_SEND_SIGNALED);
	is_eio(err, err, "post_send");
	err = pair_recv(p, 0, 100, 0, 100);
	is_eio(err, err, "post_recv");
	ok(cq_quiet(p->scq[0], 0.05) && cq_quiet(p->rcq[0], 0.05), "nothing completes any more");
}

/* Destroying says EIO or nothing, as librdmacm's or libibverbs' settings have it. */
static void all_destroyed(struct pair *p, struct end *e, int side)
{
	int err[5] = {
		ibv_destroy_qp(p->qp[side]), ibv_destroy_cq(p->scq[side]),
		ibv_destroy_cq(p->rcq[side]), ibv_dereg_mr(p->mr[side]), ibv_dealloc_pd(e->pd),
	};
	unsigned int i, bad = 0;

	for (i = 0; i < ARRAY_SIZE(err); i++)
		bad += err[i] && err[i] != EIO;
	is(bad, 0, "%s: objects can be destroyed, or say EIO", e->name);
	is(ibv_close_device(e->ctx), 0, "%s: the device can be closed", e->name);
}

static void window_full(struct pair *p)
{
	unsigned int i;

	/* with no receive at the other side, sends stay */
	for (i = 0; i < WINDOW; i++)
		if (pair_send(p, 0, i, 0, 2000, 0) || pair_recv(p, 0, i, 0, 2000))
			die("post");
}

static void go(struct pair *p)
{
	struct pair_opts po = { .sq = WINDOW + 8, .rq = WINDOW + 8, .sge = 1, .buf = 1 << 16 };

	if (!cmd_down || !cmd_up)
		die("no --down COMMAND, --up COMMAND");
	channel = ibv_create_comp_channel(ea.ctx);
	if (!channel)
		die("create_comp_channel");
	armed = cq_make_on(&ea, 4 * WINDOW, channel);
	po.scq = armed;
	pair_create(p, &ea, &eb, &po);
	pair_connect(p);
	if (ibv_req_notify_cq(armed, 0))
		die("req_notify_cq");
	window_full(p);
	command(cmd_down);
	is_fatal(&ea, "IBV_EVENT_DEVICE_FATAL");
	window_is_flushed(p->scq[0], "sends");
	window_is_flushed(p->rcq[0], "receives");
	every_call(p);
	all_destroyed(p, &ea, 0);
	ibv_destroy_comp_channel(channel);
}

static void again(void)
{
	command(cmd_up);
	end_open(&ea, ea.name, NULL);
	end_open(&eb, eb.name, NULL);
}

static void both(void)
{
	struct pair p;

	go(&p);
	is_fatal(&eb, "it as well");
	all_destroyed(&p, &eb, 1);
	again();
}

static void one(void)
{
	struct ibv_port_attr port;
	struct pair p;

	go(&p);
	is_state(p.qp[1], IBV_QPS_RTS, "its peer");
	if (pair_send(&p, 1, 1, 0, 100, 0))
		die("post_send");
	wc_is(p.scq[1], 1, IBV_WC_RETRY_EXC_ERR, NULL, "the peer gets no answer any more");
	is(ibv_query_port(eb.ctx, 1, &port), 0, "the peer's device is there");
	all_destroyed(&p, &eb, 1);
	again();
}

int main(int argc, char **argv)
{
	static const struct test tests[] = { TEST(both), TEST(one) };

	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
