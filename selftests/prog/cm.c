// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * RDMA CM, both ends in one process that moves between the namespaces a and b of lib.sh:
 * data by multicast, with the sender a member and not, and connections that don't come
 * about, each with a clear word to who tried.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

static struct end ea, eb;

#define PORT	7400
/* What of a REQ's 92 bytes the CM's own header leaves (IBTA Vol. 1 A11), and of a REP */
#define REQ_PRIVATE	56
#define REP_PRIVATE	196

/* Identifiers belong to the namespace in which they are made. */
static void at_host(const char *ns)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/run/netns/%s", ns);
	fd = open(path, O_RDONLY);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		die("%s: %s", path, strerror(errno));
	close(fd);
}

static struct sockaddr_storage address(const struct end *e, uint16_t port)
{
	struct sockaddr_storage to = {};
	struct sockaddr_in6 *in6 = (void *)&to;
	struct sockaddr_in *in = (void *)&to;

	if (!e->gid.global.subnet_prefix) {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		memcpy(&in->sin_addr, e->gid.raw + 12, 4);
	} else {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		memcpy(&in6->sin6_addr, &e->gid, 16);
	}
	return to;
}

/* An identifier with a channel of its own, as nothing here is in order */
static struct rdma_cm_id *id_make(const char *ns, enum rdma_port_space ps)
{
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id;

	at_host(ns);
	ch = rdma_create_event_channel();
	if (!ch || rdma_create_id(ch, &id, NULL, ps))
		die("create_id: %s", strerror(errno));
	return id;
}

static void id_drop(struct rdma_cm_id *id)
{
	struct rdma_event_channel *ch = id->channel;

	if (id->qp)
		rdma_destroy_qp(id);
	if (rdma_destroy_id(id))
		die("destroy_id: %s", strerror(errno));
	rdma_destroy_event_channel(ch);
}

static struct rdma_cm_event *event(struct rdma_cm_id *id)
{
	struct pollfd p = { .fd = id->channel->fd, .events = POLLIN };
	struct rdma_cm_event *ev;

	if (poll(&p, 1, PATIENCE * 1000) != 1 || rdma_get_cm_event(id->channel, &ev))
		die("no event: %s", strerror(errno));
	return ev;
}

/* The next event is this one; its status */
static int expect(struct rdma_cm_id *id, enum rdma_cm_event_type want)
{
	struct rdma_cm_event *ev = event(id);
	int status = ev->status;

	if (ev->event != want)
		die("%s (%d) instead of %s", rdma_event_str(ev->event), status,
		    rdma_event_str(want));
	rdma_ack_cm_event(ev);
	return status;
}

static struct rdma_cm_id *listener_make(void)
{
	struct sockaddr_storage at = address(&eb, PORT);
	struct rdma_cm_id *id = id_make("b", RDMA_PS_TCP);

	if (rdma_bind_addr(id, (void *)&at) || rdma_listen(id, 8))
		die("listen: %s", strerror(errno));
	return id;
}

static void qp_make(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr a = {
		.qp_type = id->qp_type,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	if (rdma_create_qp(id, NULL, &a))
		die("create_qp: %s", strerror(errno));
}

static struct rdma_cm_id *caller_make(uint16_t port)
{
	struct sockaddr_storage to = address(&eb, port);
	struct rdma_cm_id *id = id_make("a", RDMA_PS_TCP);

	if (rdma_resolve_addr(id, NULL, (void *)&to, 10000) ||
	    expect(id, RDMA_CM_EVENT_ADDR_RESOLVED) || rdma_resolve_route(id, 10000) ||
	    expect(id, RDMA_CM_EVENT_ROUTE_RESOLVED))
		die("resolve: %s", strerror(errno));
	qp_make(id);
	return id;
}

static int call(struct rdma_cm_id *id, const void *data, uint8_t len)
{
	struct rdma_conn_param param = {
		.private_data = data, .private_data_len = len,
		.responder_resources = 1, .initiator_depth = 1, .retry_count = 3,
	};

	return rdma_connect(id, &param);
}

/* A caller at the listener's door; the identifier for its call, acknowledged */
static struct rdma_cm_id *request(struct rdma_cm_id *listener, struct rdma_cm_event **ev)
{
	*ev = event(listener);
	if ((*ev)->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		die("%s instead of a request", rdma_event_str((*ev)->event));
	return (*ev)->id;
}

/* The identifier for the call of which nothing is to be known, with a queue pair */
static struct rdma_cm_id *taken(struct rdma_cm_id *listener)
{
	struct rdma_cm_event *ev;
	struct rdma_cm_id *called = request(listener, &ev);

	rdma_ack_cm_event(ev);
	qp_make(called);
	return called;
}

static void called_drop(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	if (rdma_destroy_id(id))
		die("destroy_id: %s", strerror(errno));
}

/* --- tests ---------------------------------------------------------------------- */

/* As much as there is room for arrives, one byte more is refused before it is sent. */
static void private_data(void)
{
	struct rdma_cm_id *listener = listener_make(), *caller = caller_make(PORT), *called;
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };
	struct rdma_cm_event *ev;
	uint8_t data[256];

	pattern_fill(data, 1, 0, sizeof(data));
	ok(call(caller, data, REQ_PRIVATE + 1) && errno == EINVAL, "%d bytes with a call: EINVAL",
	   REQ_PRIVATE + 1);
	ok(call(caller, data, 255) && errno == EINVAL, "255 bytes: EINVAL");
	is(call(caller, data, REQ_PRIVATE), 0, "%d bytes", REQ_PRIVATE);
	called = request(listener, &ev);
	ok(ev->param.conn.private_data_len >= REQ_PRIVATE &&
	   pattern_check(ev->param.conn.private_data, 1, 0, REQ_PRIVATE) < 0, "these arrive");
	rdma_ack_cm_event(ev);
	qp_make(called);
	param.private_data = data;
	param.private_data_len = REP_PRIVATE + 1;
	ok(rdma_accept(called, &param) && errno == EINVAL, "%d bytes with an answer: EINVAL",
	   REP_PRIVATE + 1);
	called_drop(called);
	ok(expect(caller, RDMA_CM_EVENT_REJECTED), "the caller is rejected");
	id_drop(caller);

	caller = caller_make(PORT);
	if (call(caller, NULL, 0))
		die("connect");
	called = taken(listener);
	param.private_data_len = REP_PRIVATE;
	is(rdma_accept(called, &param), 0, "%d bytes", REP_PRIVATE);
	ev = event(caller);
	ok(ev->event == RDMA_CM_EVENT_ESTABLISHED &&
	   ev->param.conn.private_data_len >= REP_PRIVATE &&
	   pattern_check(ev->param.conn.private_data, 1, 0, REP_PRIVATE) < 0, "these arrive");
	rdma_ack_cm_event(ev);
	expect(listener, RDMA_CM_EVENT_ESTABLISHED);
	rdma_disconnect(caller);
	expect(listener, RDMA_CM_EVENT_DISCONNECTED);
	rdma_disconnect(called);
	expect(caller, RDMA_CM_EVENT_DISCONNECTED);
	called_drop(called);
	id_drop(caller);
	id_drop(listener);
}

/* Who listens is gone before it has answered; with the request unread, and read. */
static void listener_gone(void)
{
	struct rdma_cm_id *listener, *caller, *called;
	struct rdma_cm_event *ev;
	struct pollfd p;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		listener = listener_make();
		caller = caller_make(PORT);
		if (call(caller, NULL, 0))
			die("connect");
		p = (struct pollfd) { .fd = listener->channel->fd, .events = POLLIN };
		if (poll(&p, 1, PATIENCE * 1000) != 1)
			die("no request");
		if (i) {
			called = request(listener, &ev);
			rdma_ack_cm_event(ev);
			rdma_destroy_id(called);
		}
		id_drop(listener);
		ok(expect(caller, RDMA_CM_EVENT_REJECTED), "the listener goes, its request %s: rejected",
		   i ? "read" : "unread");
		is_state(caller->qp, IBV_QPS_ERR, "the caller's queue pair");
		id_drop(caller);
	}
}

static void qp_to_err(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };

	if (ibv_modify_qp(qp, &a, IBV_QP_STATE))
		die("to ERR");
}

/* A queue pair in ERR can't be connected, on either side. */
static void qp_in_error(void)
{
	struct rdma_cm_id *listener = listener_make(), *caller, *called;
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };
	struct rdma_cm_event *ev;

	caller = caller_make(PORT);
	if (call(caller, NULL, 0))
		die("connect");
	called = taken(listener);
	qp_to_err(called->qp);
	ok(rdma_accept(called, &param) && errno == EINVAL, "accept with a queue pair in ERR: EINVAL");
	called_drop(called);
	ok(expect(caller, RDMA_CM_EVENT_REJECTED), "the caller is rejected");
	id_drop(caller);

	/* librdmacm looks at it only when it is to be connected */
	caller = caller_make(PORT);
	qp_to_err(caller->qp);
	called = NULL;
	if (call(caller, NULL, 0)) {
		ok(errno == EINVAL, "a call with a queue pair in ERR: EINVAL");
	} else {
		called = taken(listener);
		if (rdma_accept(called, &param))
			die("accept: %s", strerror(errno));
		ev = event(caller);
		ok(ev->event == RDMA_CM_EVENT_CONNECT_ERROR && ev->status,
		   "a call with a queue pair in ERR: %s", rdma_event_str(ev->event));
		rdma_ack_cm_event(ev);
	}
	id_drop(caller);
	if (called) {
		ok(expect(listener, RDMA_CM_EVENT_REJECTED), "who accepted it is told");
		called_drop(called);
	}
	id_drop(listener);
}

/* Many calls, and nobody is there; some at a time. */
static void nobody(void)
{
	const char *more = getenv("LONG");
	const unsigned int num = more && *more ? 10000 : 300, batch = 20;
	struct rdma_cm_id *id[batch];
	unsigned int i, j, rejected = 0;
	const double start = now();

	for (i = 0; i < num; i += batch) {
		for (j = 0; j < batch; j++) {
			id[j] = caller_make(PORT + 1);
			if (call(id[j], NULL, 0))
				die("connect");
		}
		for (j = 0; j < batch; j++) {
			/* 12.6.7.2: 8, invalid service ID */
			rejected += expect(id[j], RDMA_CM_EVENT_REJECTED) == 8;
			id_drop(id[j]);
		}
	}
	is(rejected, num, "%u calls to nobody: all told so", num);
	diag("%.1f ms each", (now() - start) * 1000 / num);
}

/* One message to a group from @from, which is a member or not; b's member gets it. */
static void mcast_message(struct rdma_cm_id *from, struct ibv_ah *ah, uint32_t qkey,
			  struct rdma_cm_id *to, uint64_t key, const char *what)
{
	struct ibv_mr *out = mr_make(&ea, 4096, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *in = mr_make(&eb, 4096, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_recv_wr *bad, recv = { .sg_list = SGE(in->addr, 4096, 0), .num_sge = 1 };
	struct ibv_mr *mr[2];
	struct ibv_wc wc;

	/* identifiers have domains of their own */
	mr[0] = ibv_reg_mr(from->pd, out->addr, 4096, IBV_ACCESS_LOCAL_WRITE);
	mr[1] = ibv_reg_mr(to->pd, in->addr, 4096, IBV_ACCESS_LOCAL_WRITE);
	if (!mr[0] || !mr[1])
		die("reg_mr");
	recv.sg_list->lkey = mr[1]->lkey;
	pattern_fill(out->addr, key, 0, 900);
	if (ibv_post_recv(to->qp, &recv, &bad) ||
	    POST(from->qp, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED, .num_sge = 1,
		 .sg_list = SGE(out->addr, 900, mr[0]->lkey),
		 .wr.ud = { .ah = ah, .remote_qpn = 0xffffff, .remote_qkey = qkey }))
		die("post");
	ok(cq_wait(from->send_cq, &wc, PATIENCE) && !wc.status && cq_wait(to->recv_cq, &wc, PATIENCE) &&
	   !wc.status && wc.byte_len == 940 && pattern_check((char *)in->addr + 40, key, 0, 900) < 0,
	   "%s: the message is there", what);
	if (ibv_dereg_mr(mr[0]) || ibv_dereg_mr(mr[1]))
		die("dereg_mr");
	mr_drop(out);
	mr_drop(in);
}

static struct rdma_cm_id *ud_make(const char *ns, const struct end *e)
{
	struct sockaddr_storage at = address(e, 0);
	struct rdma_cm_id *id = id_make(ns, RDMA_PS_UDP);

	if (rdma_bind_addr(id, (void *)&at))
		die("bind: %s", strerror(errno));
	qp_make(id);
	return id;
}

static void join(struct rdma_cm_id *id, struct sockaddr_storage *group, struct ibv_ah_attr *to,
		 uint32_t *qkey)
{
	struct rdma_cm_event *ev;

	if (rdma_join_multicast(id, (void *)group, NULL))
		die("join: %s", strerror(errno));
	ev = event(id);
	if (ev->event != RDMA_CM_EVENT_MULTICAST_JOIN || ev->status)
		die("join: %s, %d", rdma_event_str(ev->event), ev->status);
	*to = ev->param.ud.ah_attr;
	*qkey = ev->param.ud.qkey;
	is(ev->param.ud.qp_num, 0xffffff, "the group's queue pair");
	rdma_ack_cm_event(ev);
}

static void multicast(void)
{
	struct rdma_cm_id *from = ud_make("a", &ea), *to = ud_make("b", &eb);
	struct sockaddr_storage group = address(&ea, 0);
	struct ibv_ah_attr attr;
	struct ibv_ah *ah;
	uint32_t qkey;

	inet_pton(AF_INET, "239.77.0.9", &((struct sockaddr_in *)&group)->sin_addr);
	join(to, &group, &attr, &qkey);
	attr.grh.sgid_index = ea.gid_index;
	attr.grh.hop_limit = 64;
	ah = ibv_create_ah(from->pd, &attr);
	if (!ah)
		die("create_ah: %s", strerror(errno));
	mcast_message(from, ah, qkey, to, 1, "the sender is no member");
	ibv_destroy_ah(ah);
	join(from, &group, &attr, &qkey);
	ah = ibv_create_ah(from->pd, &attr);
	if (!ah)
		die("create_ah: %s", strerror(errno));
	mcast_message(from, ah, qkey, to, 2, "the sender is a member");
	is(rdma_leave_multicast(from, (void *)&group), 0, "it leaves");
	mcast_message(from, ah, qkey, to, 3, "and sends");
	ibv_destroy_ah(ah);
	id_drop(from);
	id_drop(to);
}

static const struct test tests[] = {
	TEST(private_data),
	TEST(listener_gone),
	TEST(qp_in_error),
	TEST(nobody),
	TEST(multicast),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
