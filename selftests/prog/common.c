// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What the test programs share.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/udmabuf.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl.h>

#include "../../include/uapi/rdma/sroce-abi.h"

static int tap_n, tap_failed;

static void result(bool good, const char *fmt, va_list ap)
{
	printf("%sok %d - ", good ? "" : "not ", ++tap_n);
	vprintf(fmt, ap);
	printf("\n");
	fflush(stdout);
	tap_failed += !good;
}

bool ok(bool cond, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	result(cond, fmt, ap);
	va_end(ap);
	return cond;
}

bool is(long long got, long long want, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	result(got == want, fmt, ap);
	va_end(ap);
	if (got != want)
		diag("got %lld, want %lld", got, want);
	return got == want;
}

bool between(long long got, long long lo, long long hi, const char *what)
{
	if (ok(got >= lo && got <= hi, "%s: %lld", what, got))
		return true;
	diag("want: %lld to %lld", lo, hi);
	return false;
}

void skip(const char *reason, const char *fmt, ...)
{
	va_list ap;

	printf("ok %d - ", ++tap_n);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf(" # SKIP %s\n", reason);
	fflush(stdout);
}

void diag(const char *fmt, ...)
{
	va_list ap;

	printf("#   ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
}

void die(const char *fmt, ...)
{
	va_list ap;
	int err = errno;

	printf("Bail out! ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf(err ? ": %s\n" : "\n", strerror(err));
	fflush(stdout);
	exit(1);
}

int done_testing(void)
{
	printf("1..%d\n", tap_n);
	return !tap_n || tap_failed;
}

/* Kept open, as opening allocates. */
static int fault_fd(void)
{
	static int fd = -1;

	if (fd < 0)
		fd = open("/proc/self/fail-nth", O_RDWR);
	if (fd < 0)
		die("/proc/self/fail-nth");
	return fd;
}

void fault_nth(unsigned int nth)
{
	char s[16];
	int n = snprintf(s, sizeof(s), "%u", nth);

	if (pwrite(fault_fd(), s, n, 0) != n)
		die("fail-nth");
}

unsigned int fault_left(void)
{
	char s[16] = "";
	int left = 1;

	/* if it is this copy that fails, then nothing did before */
	if (pread(fault_fd(), s, sizeof(s) - 1, 0) > 0)
		left = atoi(s);
	if (left && pwrite(fault_fd(), "0", 1, 0) != 1)
		fault_nth(0);
	return left;
}

bool fault_was(void)
{
	return !fault_left();
}

int in_child(void (*fn)(void))
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		fn();
		fflush(stdout);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		die("fork");
	return status;
}

double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

void sleep_ms(unsigned int ms)
{
	usleep(ms * 1000U);
}

static uint64_t pattern_word(uint64_t key, uint64_t i)
{
	uint64_t z = (key + i) * 0x9e3779b97f4a7c15ULL;

	return z ^ (z >> 29) ^ key;
}

void pattern_fill(void *dst, uint64_t key, uint64_t off, uint64_t len)
{
	uint8_t *p = dst;
	uint64_t w;

	while (len) {
		unsigned int skip = off % 8, n = min(len, 8U - skip);

		w = pattern_word(key, off / 8);
		if (n == 8)
			memcpy(p, &w, 8);
		else
			memcpy(p, (uint8_t *)&w + skip, n);
		p += n;
		off += n;
		len -= n;
	}
}

int64_t pattern_check(const void *src, uint64_t key, uint64_t off, uint64_t len)
{
	const uint8_t *p = src;
	unsigned int i;
	uint64_t w, v;

	while (len) {
		unsigned int skip = off % 8, n = min(len, 8U - skip);

		w = pattern_word(key, off / 8);
		if (n == 8) {
			memcpy(&v, p, 8);
			if (v == w)
				goto next;
		}
		for (i = 0; i < n; i++)
			if (p[i] != ((uint8_t *)&w)[skip + i])
				return off + i;
next:
		p += n;
		off += n;
		len -= n;
	}
	return -1;
}

int64_t canary_check(const void *p, uint64_t len)
{
	const uint8_t *c = p;
	uint64_t i;

	if (!len || (c[0] == CANARY && !memcmp(c, c + 1, len - 1)))
		return -1;
	for (i = 0; c[i] == CANARY; i++)
		;
	return i;
}

static void find_gid(struct end *e, const char *spec)
{
	struct ibv_gid_entry *table;
	union ibv_gid want = {};
	bool any = !spec;
	char *rest;
	int i, n;

	if (!any) {
		i = strtol(spec, &rest, 10);
		if (*spec && !*rest) {
			e->gid_index = i;
			if (ibv_query_gid(e->ctx, 1, i, &e->gid))
				die("%s: no GID %d", e->name, i);
			return;
		}
		want.raw[10] = 0xff;
		want.raw[11] = 0xff;
		if (inet_pton(AF_INET, spec, want.raw + 12) != 1 &&
		    inet_pton(AF_INET6, spec, want.raw) != 1) {
			errno = 0;
			die("%s is neither an index nor an address", spec);
		}
	}
	table = calloc(e->port.gid_tbl_len, sizeof(*table));
	n = ibv_query_gid_table(e->ctx, table, e->port.gid_tbl_len, 0);
	if (n < 0)
		die("%s: query_gid_table", e->name);
	for (i = 0; i < n; i++) {
		const union ibv_gid *gid = &table[i].gid;

		if (table[i].gid_type != IBV_GID_TYPE_ROCE_V2)
			continue;
		if (any ? gid->global.subnet_prefix || gid->raw[10] != 0xff :
			  memcmp(gid, &want, sizeof(want)))
			continue;
		e->gid_index = table[i].gid_index;
		e->gid = *gid;
		free(table);
		return;
	}
	errno = 0;
	die("%s has no RoCE v2 GID for %s", e->name, any ? "an IPv4 address" : spec);
}

void end_open(struct end *e, const char *dev, const char *gid)
{
	struct ibv_device **list;
	int i;

	memset(e, 0, sizeof(*e));
	e->name = dev;
	list = ibv_get_device_list(NULL);
	if (!list)
		die("no list of devices");
	for (i = 0; list[i] && strcmp(ibv_get_device_name(list[i]), dev); i++)
		;
	if (!list[i]) {
		errno = 0;
		die("there is no device %s, or no provider for it", dev);
	}
	e->ctx = ibv_open_device(list[i]);
	if (!e->ctx)
		die("cannot open %s", dev);
	ibv_free_device_list(list);
	if (ibv_query_device(e->ctx, &e->attr))
		die("query_device");
	if (ibv_query_port(e->ctx, 1, &e->port))
		die("query_port");
	e->pd = ibv_alloc_pd(e->ctx);
	if (!e->pd)
		die("alloc_pd");
	if (!gid || *gid)
		find_gid(e, gid);
}

void end_close(struct end *e)
{
	if (ibv_dealloc_pd(e->pd))
		die("%s: dealloc_pd", e->name);
	if (ibv_close_device(e->ctx))
		die("%s: close_device", e->name);
}

const struct conn conn_default = {
	.mtu = 0,		/* the ports' */
	.timeout = 14,		/* 67 ms */
	.retry_cnt = 7,
	.rnr_retry = 7,
	.min_rnr_timer = 12,	/* 0.64 ms */
	.rd_atomic = 1,
	.hop_limit = 64,
	.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
};

int qp_init(struct ibv_qp *qp, const struct conn *c)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = c->access,
	};

	return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				     IBV_QP_ACCESS_FLAGS);
}

int qp_rtr(struct ibv_qp *qp, const struct end *e, const struct peer *p, const struct conn *c)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = c->mtu ? c->mtu : e->port.active_mtu,
		.dest_qp_num = p->qpn,
		.rq_psn = p->psn,
		.max_dest_rd_atomic = c->rd_atomic,
		.min_rnr_timer = c->min_rnr_timer,
		.ah_attr = {
			.sl = c->sl,
			.is_global = 1,
			.port_num = 1,
			.grh = {
				.dgid = p->gid,
				.sgid_index = e->gid_index,
				.hop_limit = c->hop_limit,
				.traffic_class = c->traffic_class,
				.flow_label = c->flow_label,
			},
		},
	};

	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	if (qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_RECV)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return ibv_modify_qp(qp, &a, mask);
}

int qp_rts(struct ibv_qp *qp, uint32_t psn, const struct conn *c)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTS,
		.timeout = c->timeout,
		.retry_cnt = c->retry_cnt,
		.rnr_retry = c->rnr_retry,
		.sq_psn = psn,
		.max_rd_atomic = c->rd_atomic,
	};

	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_SEND)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	else if (qp->qp_type == IBV_QPT_XRC_RECV)
		mask |= IBV_QP_TIMEOUT;
	return ibv_modify_qp(qp, &a, mask);
}

void qp_connect(struct ibv_qp *qp, const struct end *e, uint32_t psn, const struct peer *p,
		const struct conn *c)
{
	errno = qp_init(qp, c);
	if (errno)
		die("%s: modify_qp to INIT", e->name);
	errno = qp_rtr(qp, e, p, c);
	if (errno)
		die("%s: modify_qp to RTR", e->name);
	errno = qp_rts(qp, psn, c);
	if (errno)
		die("%s: modify_qp to RTS", e->name);
}

void qps_connect(struct ibv_qp *qp_a, const struct end *a, uint32_t psn_a,
		 struct ibv_qp *qp_b, const struct end *b, uint32_t psn_b, const struct conn *c)
{
	const struct peer peer_a = { .qpn = qp_a->qp_num, .psn = psn_a, .gid = a->gid };
	const struct peer peer_b = { .qpn = qp_b->qp_num, .psn = psn_b, .gid = b->gid };

	qp_connect(qp_a, a, psn_a, &peer_b, c);
	qp_connect(qp_b, b, psn_b, &peer_a, c);
}

int qp_to(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = { .qp_state = state };

	return ibv_modify_qp(qp, &a, IBV_QP_STATE);
}

struct ibv_qp_attr qp_query(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr ia;
	struct ibv_qp_attr a;

	errno = ibv_query_qp(qp, &a, IBV_QP_STATE, &ia);
	if (errno)
		die("query_qp");
	return a;
}

enum ibv_qp_state qp_state(struct ibv_qp *qp)
{
	return qp_query(qp).qp_state;
}

const char *state_name(int state)
{
	static const char * const names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

	return state >= 0 && state < (int)ARRAY_SIZE(names) ? names[state] : "?";
}

enum ibv_mtu mtu_enum(unsigned int bytes)
{
	enum ibv_mtu m;

	for (m = IBV_MTU_256; m <= IBV_MTU_4096; m++)
		if (mtu_bytes(m) == bytes)
			return m;
	errno = 0;
	die("%u is not an MTU of InfiniBand", bytes);
}

static const struct pair_opts pair_opts_default = {
	.sq = 64, .rq = 64, .sge = 4, .inl = 64, .buf = 1 << 18,
};

static struct ibv_qp *pair_qp(const struct pair *p, int side, const struct pair_opts *o)
{
	struct ibv_srq *srq = side ? o->srq : NULL;
	struct ibv_qp_init_attr_ex ia = {
		.send_cq = p->scq[side],
		.recv_cq = p->rcq[side],
		.srq = srq,
		.cap = {
			.max_send_wr = o->sq,
			.max_recv_wr = srq ? 0 : o->rq,
			.max_send_sge = o->sge,
			.max_recv_sge = srq ? 0 : o->sge,
			.max_inline_data = o->inl,
		},
		.qp_type = o->type ? o->type : IBV_QPT_RC,
		.sq_sig_all = o->sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     (o->send_ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.pd = p->e[side]->pd,
		.send_ops_flags = o->send_ops,
	};
	struct ibv_qp *qp;

	qp = o->send_ops ? ibv_create_qp_ex(p->e[side]->ctx, &ia) :
	     ibv_create_qp(p->e[side]->pd, (struct ibv_qp_init_attr *)&ia);
	if (!qp)
		die("create_qp");
	return qp;
}

struct ibv_xrcd *xrcd_of(const struct end *e, int file, int oflags)
{
	struct ibv_xrcd_init_attr xa = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = file,
		.oflags = oflags,
	};

	return ibv_open_xrcd(e->ctx, &xa);
}

struct ibv_xrcd *xrcd_make(const struct end *e)
{
	return xrcd_of(e, -1, O_CREAT);
}

struct ibv_srq *xrc_srq_make(const struct end *e, struct ibv_xrcd *xrcd, struct ibv_cq *cq,
			     struct ibv_srq_attr *attr)
{
	struct ibv_srq_init_attr_ex ia = {
		.attr = *attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = e->pd,
		.xrcd = xrcd,
		.cq = cq,
	};
	struct ibv_srq *srq = ibv_create_srq_ex(e->ctx, &ia);

	if (!srq)
		die("create_srq_ex: %s", strerror(errno));
	*attr = ia.attr;
	return srq;
}

void pair_create(struct pair *p, struct end *a, struct end *b, const struct pair_opts *o)
{
	int i;

	if (!o)
		o = &pair_opts_default;
	memset(p, 0, sizeof(*p));
	p->conn = conn_default;
	p->e[0] = a;
	p->e[1] = b;
	p->conn.mtu = min(a->port.active_mtu, b->port.active_mtu);
	p->lent_scq = o->scq;
	p->lent_rcq = o->rcq;
	p->srq = o->srq;
	for (i = 0; i < 2; i++) {
		p->scq[i] = !i && o->scq ? o->scq : cq_make(p->e[i], o->sq * 4);
		p->rcq[i] = i && o->rcq ? o->rcq : cq_make(p->e[i], o->rq * 4);
		p->qp[i] = pair_qp(p, i, o);
		if (posix_memalign((void **)&p->buf[i], 4096, o->buf))
			die("no memory");
		memset(p->buf[i], CANARY, o->buf);
		p->mr[i] = ibv_reg_mr(p->e[i]->pd, p->buf[i], o->buf,
				      IBV_ACCESS_LOCAL_WRITE | o->access);
		if (!p->mr[i])
			die("reg_mr");
		p->psn[i] = 0xfffff0 + i * 7;	/* wraps soon */
	}
}

void pair_connect(struct pair *p)
{
	qps_connect(p->qp[0], p->e[0], p->psn[0], p->qp[1], p->e[1], p->psn[1], &p->conn);
}

void pair_up(struct pair *p, struct end *a, struct end *b, const struct conn *c)
{
	enum ibv_mtu mtu;

	pair_create(p, a, b, NULL);
	if (c) {
		mtu = p->conn.mtu;
		p->conn = *c;
		if (!p->conn.mtu)
			p->conn.mtu = mtu;
	}
	pair_connect(p);
}

void pair_destroy(struct pair *p)
{
	int i;

	for (i = 0; i < 2; i++) {
		if (p->qp[i])
			errno = ibv_destroy_qp(p->qp[i]);
		if (p->qp[i] && errno)
			die("destroy_qp");
		errno = !i && p->lent_scq ? 0 : ibv_destroy_cq(p->scq[i]);
		if (errno)
			die("destroy_cq");
		errno = i && p->lent_rcq ? 0 : ibv_destroy_cq(p->rcq[i]);
		if (errno)
			die("destroy_cq");
		errno = p->mr[i] ? ibv_dereg_mr(p->mr[i]) : 0;
		if (errno)
			die("dereg_mr");
		free(p->buf[i]);
	}
}

int pair_send(struct pair *p, int side, uint64_t wr_id, size_t off, uint32_t len, int flags)
{
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = SGE(p->buf[side] + off, len, p->mr[side]->lkey),
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = flags,
	}, *bad;

	return ibv_post_send(p->qp[side], &wr, &bad);
}

int pair_recv(struct pair *p, int side, uint64_t wr_id, size_t off, uint32_t len)
{
	struct ibv_recv_wr wr = {
		.wr_id = wr_id,
		.sg_list = SGE(p->buf[side] + off, len, p->mr[side]->lkey),
		.num_sge = 1,
	}, *bad;

	return side && p->srq ? ibv_post_srq_recv(p->srq, &wr, &bad) :
	       ibv_post_recv(p->qp[side], &wr, &bad);
}

void pair_request(struct pair *p, enum ibv_wr_opcode opcode, uint32_t len)
{
	const uint32_t mtu = 128U << p->conn.mtu;
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.num_sge = 1,
		.sg_list = SGE(p->buf[0], len, p->mr[0]->lkey),
		.wr.rdma = { .remote_addr = (uintptr_t)p->buf[1], .rkey = p->mr[1]->rkey },
	};

	if (opcode == IBV_WR_SEND && pair_recv(p, 1, 9, 0, len))
		die("post_recv");
	if (wr_post(p->qp[0], &wr))
		die("post_send");
	p->psn[0] += len > mtu ? (len + mtu - 1) / mtu : 1;
}

int wr_post(struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(qp, (struct ibv_send_wr *)wr, &bad);
}

int wr_post_ex(struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(qp);
	struct ibv_data_buf data[64];
	int i;

	ibv_wr_start(x);
	x->wr_id = wr->wr_id;
	x->wr_flags = wr->send_flags;
	switch (wr->opcode) {
	case IBV_WR_SEND:
		ibv_wr_send(x);
		break;
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(x, wr->imm_data);
		break;
	case IBV_WR_SEND_WITH_INV:
		ibv_wr_send_inv(x, wr->invalidate_rkey);
		break;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(x, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(x, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, wr->imm_data);
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(x, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(x, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
				      wr->wr.atomic.compare_add, wr->wr.atomic.swap);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		ibv_wr_atomic_fetch_add(x, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
					wr->wr.atomic.compare_add);
		break;
	case IBV_WR_LOCAL_INV:
		ibv_wr_local_inv(x, wr->invalidate_rkey);
		return ibv_wr_complete(x);
	case IBV_WR_BIND_MW:
		ibv_wr_bind_mw(x, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
		return ibv_wr_complete(x);
	default:
		ibv_wr_abort(x);
		return EOPNOTSUPP;
	}
	if (qp->qp_type == IBV_QPT_XRC_SEND)
		ibv_wr_set_xrc_srqn(x, wr->qp_type.xrc.remote_srqn);
	if (qp->qp_type == IBV_QPT_UD)
		ibv_wr_set_ud_addr(x, wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
	if (wr->send_flags & IBV_SEND_INLINE) {
		for (i = 0; i < wr->num_sge; i++)
			data[i] = (struct ibv_data_buf) {
				.addr = (void *)(uintptr_t)wr->sg_list[i].addr,
				.length = wr->sg_list[i].length,
			};
		ibv_wr_set_inline_data_list(x, wr->num_sge, data);
	} else {
		ibv_wr_set_sge_list(x, wr->num_sge, wr->sg_list);
	}
	return ibv_wr_complete(x);
}

struct ibv_qp *xrc_ini_make(const struct end *e, struct ibv_cq *cq, unsigned int sends)
{
	struct ibv_qp *qp = ibv_create_qp_ex(e->ctx, &(struct ibv_qp_init_attr_ex) {
		.cap = { .max_send_wr = sends, .max_send_sge = 1 },
		.qp_type = IBV_QPT_XRC_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = e->pd,
		.send_cq = cq,
	});

	if (!qp)
		die("%s: create_qp_ex, XRC_SEND", e->name);
	return qp;
}

struct ibv_qp *xrc_tgt_make(const struct end *e, struct ibv_xrcd *xrcd)
{
	struct ibv_qp *qp = ibv_create_qp_ex(e->ctx, &(struct ibv_qp_init_attr_ex) {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = xrcd,
	});

	if (!qp)
		die("%s: create_qp_ex, XRC_RECV", e->name);
	return qp;
}

struct ibv_cq *cq_make_on(const struct end *e, int entries, struct ibv_comp_channel *ch)
{
	struct ibv_cq *cq = ibv_create_cq(e->ctx, entries, NULL, ch, 0);

	if (!cq)
		die("%s: create_cq of %d", e->name, entries);
	return cq;
}

struct ibv_cq *cq_make(const struct end *e, int entries)
{
	return cq_make_on(e, entries, NULL);
}

struct ibv_mr *mr_make(const struct end *e, size_t len, int access)
{
	struct ibv_mr *mr;
	void *p;

	if (posix_memalign(&p, 4096, len))
		die("no memory");
	memset(p, 0, len);
	mr = ibv_reg_mr(e->pd, p, len, IBV_ACCESS_LOCAL_WRITE | access);
	if (!mr)
		die("%s: reg_mr of %zu bytes, access 0x%x", e->name, len, access);
	return mr;
}

void mr_drop(struct ibv_mr *mr)
{
	void *p = mr->addr;

	errno = ibv_dereg_mr(mr);
	if (errno)
		die("dereg_mr");
	free(p);
}

bool all_are(const void *mem, uint8_t byte, size_t len)
{
	const uint8_t *p = mem;

	while (len && *p == byte) {
		p++;
		len--;
	}
	return !len;
}

/* Since Linux 6.2 */
bool has_flush(struct end *e)
{
	struct ibv_mr *mr = mr_make(e, 4096, 0), *flush;

	flush = ibv_reg_mr(e->pd, mr->addr, 4096, IBV_ACCESS_LOCAL_WRITE | ACCESS_FLUSH);
	if (flush && ibv_dereg_mr(flush))
		die("dereg_mr");
	mr_drop(mr);
	return flush;
}

void ud_ready(struct ibv_qp *qp, uint32_t qkey)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey };

	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
		die("UD to INIT");
	a.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE))
		die("UD to RTR");
	a.qp_state = IBV_QPS_RTS;
	a.sq_psn = 0xfffffe;
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN))
		die("UD to RTS");
}

void ud_up(struct ud *u, struct end *e, uint32_t qkey, bool ex)
{
	struct ibv_qp_init_attr_ex ia = {
		.cap = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 4, .max_recv_sge = 4,
			 .max_inline_data = 64 },
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_QP_INIT_ATTR_PD | (ex ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
		.pd = e->pd,
	};

	u->e = e;
	ia.send_cq = u->scq = cq_make(e, 128);
	ia.recv_cq = u->rcq = cq_make(e, 128);
	u->qp = ex ? ibv_create_qp_ex(e->ctx, &ia) :
		ibv_create_qp(e->pd, (struct ibv_qp_init_attr *)&ia);
	if (!u->qp)
		die("create_qp, UD");
	ud_ready(u->qp, qkey);
	u->mr = mr_make(e, 64 * 8192, 0);
	u->buf = u->mr->addr;
}

void ud_down(struct ud *u)
{
	if (ibv_destroy_qp(u->qp) || ibv_destroy_cq(u->scq) || ibv_destroy_cq(u->rcq))
		die("destroy UD");
	mr_drop(u->mr);
}

struct ibv_qp *ud_qp(struct end *e, struct ibv_cq *cq, struct ibv_srq *srq, uint32_t sends,
		     uint32_t recvs, uint32_t qkey)
{
	struct ibv_qp *qp = ibv_create_qp(e->pd, &(struct ibv_qp_init_attr) {
		.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = sends, .max_recv_wr = recvs,
			 .max_send_sge = 1, .max_recv_sge = !srq },
	});

	if (!qp)
		die("create_qp, UD");
	ud_ready(qp, qkey);
	return qp;
}

struct ibv_ah *ah_to(const struct end *from, const union ibv_gid *gid)
{
	struct ibv_ah_attr a = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = *gid, .sgid_index = from->gid_index, .hop_limit = 64,
			 .traffic_class = 0x20, .flow_label = 0x12345 },
	};
	struct ibv_ah *ah = ibv_create_ah(from->pd, &a);

	if (!ah)
		die("create_ah");
	return ah;
}

bool v4_mapped(const union ibv_gid *g)
{
	return !g->global.subnet_prefix && g->raw[10] == 0xff && g->raw[11] == 0xff;
}

union ibv_gid group_gid(const struct end *e, uint8_t last)
{
	if (v4_mapped(&e->gid))
		return (union ibv_gid) { .raw = { [10] = 0xff, [11] = 0xff, 230, 7, 7, last } };
	return (union ibv_gid) { .raw = { 0xff, 0x0e, [13] = 7, [15] = last } };
}

void ud_recv(struct ud *u, uint64_t id, uint32_t len)
{
	struct ibv_recv_wr wr = {
		.wr_id = id,
		.sg_list = SGE(u->buf + id * 8192, len, u->mr->lkey),
		.num_sge = 1,
	}, *bad;

	memset(u->buf + id * 8192, CANARY, 8192);
	errno = ibv_post_recv(u->qp, &wr, &bad);
	if (errno)
		die("post_recv");
}

int ud_send(struct ud *u, bool ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey, uint64_t id,
		   struct ibv_sge *sge, int n, int flags, uint32_t imm)
{
	struct ibv_send_wr wr = {
		.wr_id = id,
		.opcode = imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
		.imm_data = htobe32(imm),
		.send_flags = flags | IBV_SEND_SIGNALED,
		.sg_list = sge,
		.num_sge = n,
		.wr.ud = { .ah = ah, .remote_qpn = qpn, .remote_qkey = qkey },
	};

	return ex ? wr_post_ex(u->qp, &wr) : wr_post(u->qp, &wr);
}

int buffer_make(int *memfd, size_t len)
{
	struct udmabuf_create c = { .size = len };
	int dev, fd;

	dev = open("/dev/udmabuf", O_RDWR);
	if (dev < 0)
		return -1;
	*memfd = memfd_create("buffer", MFD_ALLOW_SEALING);
	if (*memfd < 0 || ftruncate(*memfd, len) || fcntl(*memfd, F_ADD_SEALS, F_SEAL_SHRINK))
		die("memfd");
	c.memfd = *memfd;
	fd = ioctl(dev, UDMABUF_CREATE, &c);
	if (fd < 0)
		die("UDMABUF_CREATE");
	close(dev);
	return fd;
}

static uint32_t crc32_of(uint32_t crc, const uint8_t *p, size_t n)
{
	static uint32_t table[256];
	unsigned int i, k;

	for (i = 0; !table[255] && i < 256; i++) {
		uint32_t c = i;

		for (k = 0; k < 8; k++)
			c = c >> 1 ^ (c & 1 ? 0xedb88320 : 0);
		table[i] = c;
	}
	for (; n--; p++)
		crc = crc >> 8 ^ table[(crc ^ *p) & 0xff];
	return crc;
}

uint32_t icrc_of(const uint8_t *ip, size_t len)
{
	static const uint8_t mutable4[] = { 1, 8, 10, 11, 26, 27, 32 };
	static const uint8_t mutable6[] = { 1, 2, 3, 7, 46, 47, 52 };
	const bool v6 = ip[0] >> 4 == 6;
	const uint8_t *mutable = v6 ? mutable6 : mutable4;
	uint8_t head[8 + 64];
	const size_t n = min(len, sizeof(head) - 8);

	/* IBTA annex A17: what routers may change counts as ones, and so do 8 bytes before it */
	memset(head, 0xff, 8);
	memcpy(head + 8, ip, n);
	for (unsigned int i = 0; i < ARRAY_SIZE(mutable4); i++)
		head[8 + mutable[i]] = 0xff;
	if (v6)
		head[8] |= 0x0f;
	return ~crc32_of(crc32_of(~0U, head, 8 + n), ip + n, len - n);
}

int forger(void)
{
	int fd = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);

	if (fd < 0)
		die("raw socket: %s", strerror(errno));
	return fd;
}

int host_enter(const char *host)
{
	int here = open("/proc/self/ns/net", O_RDONLY), there;
	char path[64];

	snprintf(path, sizeof(path), "/run/netns/%s", host);
	there = open(path, O_RDONLY);
	if (here < 0 || there < 0 || setns(there, CLONE_NEWNET))
		die("no namespace %s", host);
	close(there);
	return here;
}

void host_leave(int home)
{
	if (setns(home, CLONE_NEWNET))
		die("setns");
	close(home);
}

int forger_on(const char *host)
{
	const int home = host_enter(host), fd = forger();

	host_leave(home);
	return fd;
}

size_t forge_into(uint8_t *ip, const struct pair *p, int side, uint16_t id, uint8_t opcode,
		  uint32_t psn, const void *body, size_t len)
{
	uint8_t *bth = ip + FORGED_BTH, *udp = bth - 8;
	size_t total = 40 + len + 4;
	uint32_t v;

	if (total > FORGED_MAX)
		die("forge: %zu bytes", len);
	memset(ip, 0, total);
	ip[0] = 0x45;
	ip[2] = total >> 8;
	ip[3] = total;
	ip[4] = id >> 8;
	ip[5] = id;
	ip[6] = 0x40;
	ip[8] = 64;
	ip[9] = IPPROTO_UDP;
	memcpy(ip + 12, p->e[side]->gid.raw + 12, 4);
	memcpy(ip + 16, p->e[!side]->gid.raw + 12, 4);
	udp[0] = FORGED_PORT >> 8;
	udp[1] = FORGED_PORT & 0xff;
	udp[2] = 4791 >> 8;
	udp[3] = 4791 & 0xff;
	udp[4] = (total - 20) >> 8;
	udp[5] = total - 20;
	bth[0] = opcode;
	bth[2] = bth[3] = 0xff;	/* P_Key */
	v = htobe32(p->qp[!side]->qp_num);
	memcpy(bth + 4, &v, 4);
	v = htobe32(psn & 0xffffff);
	memcpy(bth + 8, &v, 4);
	memcpy(bth + 12, body, len);
	v = htole32(icrc_of(ip, total - 4));
	memcpy(ip + total - 4, &v, 4);
	return total;
}

void forge_pkt(int fd, const struct pair *p, int side, uint8_t opcode, uint32_t psn,
	       const void *body, size_t len)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	uint8_t ip[FORGED_MAX];
	/* an ID of our own is kept */
	const size_t total = forge_into(ip, p, side, 0x1200, opcode, psn, body, len);

	memcpy(&to.sin_addr, ip + 16, 4);
	if (sendto(fd, ip, total, 0, (void *)&to, sizeof(to)) != (ssize_t)total)
		die("raw socket: %s", strerror(errno));
}

void reth(uint8_t *body, const void *at, uint32_t rkey, uint32_t len)
{
	uint64_t va = htobe64((uintptr_t)at);

	rkey = htobe32(rkey);
	len = htobe32(len);
	memcpy(body, &va, 8);
	memcpy(body + 8, &rkey, 4);
	memcpy(body + 12, &len, 4);
}

int device_method(int fd, uint16_t method, uint16_t attr, uint16_t len, uint64_t data)
{
	struct {
		struct ib_uverbs_ioctl_hdr hdr;
		struct ib_uverbs_attr attr;
	} c = {
		.hdr = {
			.length = sizeof(c), .object_id = UVERBS_OBJECT_DEVICE,
			.method_id = method, .num_attrs = 1, .driver_id = SROCE_DRIVER_ID,
		},
		.attr = {
			.attr_id = attr, .len = len, .flags = UVERBS_ATTR_F_MANDATORY,
			.data = data,
		},
	};

	return ioctl(fd, RDMA_VERBS_IOCTL, &c) ? errno : 0;
}

int ring_doorbell(struct ibv_context *ctx, uint32_t qpn)
{
	return device_method(ctx->cmd_fd, SROCE_METHOD_DOORBELL, SROCE_ATTR_DOORBELL,
			     sizeof(struct sroce_doorbell), qpn);
}

long long hw_counter(const struct end *e, const char *name)
{
	long long v = -1;
	char path[300];
	FILE *f;

	/* the core reads them anew after 10 ms */
	sleep_ms(30);
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters/%s", e->name, name);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%lld", &v) != 1)
		die("%s: %s", path, strerror(errno));
	fclose(f);
	return v;
}

long long counter_of(const struct end *e, const char *name)
{
	char path[300];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters/%s", e->name, name);
	if (!access(path, R_OK))
		return hw_counter(e, name);
	/* another driver's device has others; ours has what is asked for */
	*strrchr(path, '/') = 0;
	strcat(path, "/rx_kept");
	if (!access(path, R_OK))
		die("%s has no counter %s", e->name, name);
	return 0;
}

void counters_read(const struct end *e, const char * const *names, unsigned int num, long long *to)
{
	for (unsigned int i = 0; i < num; i++)
		to[i] = counter_of(e, names[i]);
}

size_t uverbs_maps(struct mapping *to, size_t max)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512], *end;
	size_t n = 0;

	while (f && fgets(line, sizeof(line), f))
		if (strstr(line, "uverbs") && n < max) {
			to[n].at = (void *)strtoull(line, &end, 16);
			to[n].len = strtoull(end + 1, NULL, 16) - (uintptr_t)to[n].at;
			n++;
		}
	if (f)
		fclose(f);
	return n;
}

static struct mapping maps_before[MAX_MAPS];
static size_t num_before;

void ring_before(void)
{
	num_before = uverbs_maps(maps_before, MAX_MAPS);
}

static bool was_before(const struct mapping *map)
{
	for (size_t i = 0; i < num_before; i++)
		if (maps_before[i].at == map->at)
			return true;
	return false;
}

struct sroce_ring *ring_after(void)
{
	struct mapping maps[MAX_MAPS];
	size_t n = uverbs_maps(maps, MAX_MAPS), i;
	void *found = NULL;

	for (i = 0; i < n; i++) {
		if (was_before(&maps[i]))
			continue;
		if (found)
			die("more than one new mapping");
		found = maps[i].at;
	}
	if (!found)
		die("no new mapping");
	return found;
}

struct sroce_ring *ring_at(uint32_t prod)
{
	struct sroce_ring *found = NULL;
	struct mapping maps[MAX_MAPS];
	size_t n = uverbs_maps(maps, MAX_MAPS);

	while (n--) {
		struct sroce_ring *ring = (void *)maps[n].at;

		if (was_before(&maps[n]) || __atomic_load_n(&ring->prod, __ATOMIC_ACQUIRE) != prod)
			continue;
		if (found)
			die("more than one ring at %u", prod);
		found = ring;
	}
	if (!found)
		die("no ring at %u", prod);
	return found;
}

bool event_next(const struct end *e, struct ibv_async_event *ev, double seconds)
{
	struct pollfd pfd = { .fd = e->ctx->async_fd, .events = POLLIN };
	const double end = now() + seconds;
	int n;

	do {
		n = poll(&pfd, 1, max(end - now(), 0.0) * 1000);
	} while (n < 0 && errno == EINTR);
	if (n != 1)
		return false;
	if (ibv_get_async_event(e->ctx, ev))
		die("%s: get_async_event", e->name);
	ibv_ack_async_event(ev);
	return true;
}

void events_drop(const struct end *e)
{
	struct ibv_async_event ev;

	while (event_next(e, &ev, 0))
		;
}

bool event_wait(const struct end *e, struct ibv_async_event *ev, double seconds)
{
	double end = now() + seconds;

	do {
		if (!event_next(e, ev, seconds))
			return false;
		switch (ev->event_type) {
		case IBV_EVENT_COMM_EST:
		case IBV_EVENT_PORT_ACTIVE:
		case IBV_EVENT_GID_CHANGE:
			break;
		default:
			return true;
		}
	} while (now() < end);
	return false;
}

double patience_times(void)
{
	const char *times = getenv("RUN_PATIENCE");

	return times ? atof(times) : 1.0;
}

bool wait_state(struct ibv_qp *qp, enum ibv_qp_state want)
{
	double end = now() + PATIENCE;

	while (qp_state(qp) != want) {
		if (now() > end)
			return false;
		sleep_ms(1);
	}
	return true;
}

void is_state(struct ibv_qp *qp, enum ibv_qp_state want, const char *what)
{
	if (!ok(wait_state(qp, want), "%s is in %s", what, state_name(want)))
		diag("it is in %s", state_name(qp_state(qp)));
}

bool cq_wait(struct ibv_cq *cq, struct ibv_wc *wc, double seconds)
{
	double end = now() + seconds;
	unsigned int spins = 0;
	int n;

	for (;;) {
		n = ibv_poll_cq(cq, 1, wc);
		if (n < 0)
			die("poll_cq returns %d", n);
		if (n)
			return true;
		if (now() > end)
			return false;
		/* leave the processor to whom we wait for */
		if (++spins > 1000)
			usleep(200);
	}
}

bool cq_quiet(struct ibv_cq *cq, double seconds)
{
	struct ibv_wc wc;

	if (!cq_wait(cq, &wc, seconds))
		return true;
	diag("completion of %llu: %s", (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
	return false;
}

/* Once one thing has not come in all that time, others are not waited for as long. */
static double patience;

static double how_patient(void)
{
	if (!patience)
		patience = PATIENCE;
	return patience;
}

bool wc_is(struct ibv_cq *cq, uint64_t wr_id, int status, struct ibv_wc *out, const char *fmt, ...)
{
	struct ibv_wc wc = {};
	bool got, good;
	va_list ap;

	got = cq_wait(cq, &wc, how_patient());
	if (!got)
		patience = min(patience, 3.0);
	good = got && wc.wr_id == wr_id && (int)wc.status == status;
	va_start(ap, fmt);
	result(good, fmt, ap);
	va_end(ap);
	if (!got)
		diag("there is no completion");
	else if (!good)
		diag("got %s of %llu (vendor_err 0x%x), want %s of %llu",
		     ibv_wc_status_str(wc.status), (unsigned long long)wc.wr_id, wc.vendor_err,
		     ibv_wc_status_str(status), (unsigned long long)wr_id);
	if (out)
		*out = wc;
	return good;
}

bool odp_there(const struct end *e)
{
	struct ibv_device_attr_ex attr = {};

	if (!ibv_query_device_ex(e->ctx, NULL, &attr) && attr.odp_caps.general_caps)
		return true;
	skip("not with this kernel", "on demand");
	return false;
}

bool event_is(const struct end *e, enum ibv_event_type type, const void *element, const char *fmt, ...)
{
	struct ibv_async_event ev = {};
	bool got, good;
	va_list ap;

	got = event_wait(e, &ev, how_patient());
	if (!got)
		patience = min(patience, 3.0);
	good = got && ev.event_type == type && (!element || ev.element.qp == element);
	va_start(ap, fmt);
	result(good, fmt, ap);
	va_end(ap);
	if (!good)
		diag("%s: got %s, want %s", e->name, got ? ibv_event_type_str(ev.event_type) : "none",
		     ibv_event_type_str(type));
	return good;
}

const char *cmd_down, *cmd_up;

void command(const char *cmd)
{
	if (system(cmd))
		die("%s", cmd);
}

long long output_number(const char *cmd, const char *which, const char *name)
{
	static char line[8192];
	long long v = -1;
	char key[64];
	FILE *f = popen(cmd, "r");
	bool here = false;
	char *at;

	snprintf(key, sizeof(key), " %s ", name);
	while (f && v < 0 && fgets(line, sizeof(line), f)) {
		/* one that goes on (iproute2 6.15 breaks them) begins with spaces */
		here = (here && *line == ' ') || strstr(line, which);
		at = here ? strstr(line, key) : NULL;
		if (at)
			v = strtoll(at + strlen(key), NULL, 0);
	}
	if (!f || pclose(f) < 0)
		die("%s", cmd);
	return v;
}

void wait_counter(const struct end *e, const char *name, long long more_than)
{
	double end = now() + PATIENCE;

	while (hw_counter(e, name) <= more_than)
		if (now() > end)
			die("%s stays at %lld", name, more_than);
}

int run_tests(int argc, char **argv, const struct test *tests, size_t n, struct end *a,
	      struct end *b)
{
	static const struct option longs[] = {
		{ "down", 1, NULL, 1 },
		{ "up", 1, NULL, 2 },
		{}
	};
	const char *dev[2] = {}, *gid[2] = {};
	bool any;
	size_t i;
	int c, k;

	while ((c = getopt_long(argc, argv, "d:D:g:G:", longs, NULL)) != -1) {
		switch (c) {
		case 'd': dev[0] = optarg; break;
		case 'D': dev[1] = optarg; break;
		case 'g': gid[0] = optarg; break;
		case 'G': gid[1] = optarg; break;
		case 1: cmd_down = optarg; break;
		case 2: cmd_up = optarg; break;
		default: dev[0] = NULL; optind = argc; break;
		}
	}
	if (!dev[0]) {
		fprintf(stderr, "usage: %s -d DEV [-D DEV2] [-g GID] [-G GID2]\n"
				"       [--down COMMAND --up COMMAND] [TEST...]\n"
				"tests:", argv[0]);
		for (i = 0; i < n; i++)
			fprintf(stderr, " %s", tests[i].name);
		fprintf(stderr, "\n");
		return 2;
	}
	end_open(a, dev[0], gid[0]);
	end_open(b, dev[1] ? dev[1] : dev[0], gid[1]);
	for (i = 0; i < n; i++) {
		any = optind == argc;
		for (k = optind; k < argc; k++)
			any |= !strcmp(argv[k], tests[i].name);
		if (!any)
			continue;
		printf("# %s\n", tests[i].name);
		fflush(stdout);
		if (tests[i].with)
			tests[i].with(tests[i].fn);
		else
			tests[i].fn();
	}
	end_close(a);
	end_close(b);
	return done_testing();
}
