// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Packets from somebody who knows the protocol, and wants no good. The queue pairs of side 0's
 * link that are attacked are connected to the other host, where no queue pair but this
 * program answers: it sends what it likes, the ICRC right so that it gets in, and sees all that
 * comes back. Beside that, messages of other queue pairs go their way over the same links.
 *
 * Two parts: every opcode against every kind of queue pair in every state with every fault,
 * held against what IBTA has (Documentation/conformance.rst); and a fuzzer. COUNT packets of
 * that (200000), from SEED (the time).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common.h"
#include "../wire/spec.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

#define PORT 4791
#define MTU 256
#define QKEY 0x1234567
#define RNR_TIMER 13
#define GAP_REPORT 0xd1		/* wire/gaps.h */
#define CNP 0x81

/* numbers of queue pairs that are nobody's but ours */
#define OURS 0xa50000
/* and one that is nobody's at all */
#define NOBODY 0x5fffff

static struct end ea, eb;
static struct conn conn;

/* --- the other host's wire ---------------------- */

static int udp_fd, stranger_fd, raw_fd, see_fd;
static struct in6_addr addr6[2], stranger6;

enum how { V6, V4, STRANGER };

/* A packet from the BTH on; in front of it is room for what is before that */
struct pkt {
	uint8_t room[48];
	uint8_t b[9000];
	size_t len;		/* with the ICRC */
};

static void put(uint8_t *p, uint64_t v, unsigned int bytes)
{
	while (bytes--) {
		p[bytes] = v;
		v >>= 8;
	}
}

static uint64_t get(const uint8_t *p, unsigned int bytes)
{
	uint64_t v = 0;

	while (bytes--)
		v = v << 8 | *p++;
	return v;
}

static void put_ip4(uint8_t *ip, size_t udp_len)
{
	memset(ip, 0, 20);
	ip[0] = 0x45;
	put(ip + 2, 20 + udp_len, 2);
	put(ip + 4, 0x1234, 2);
	ip[6] = 0x40;
	ip[8] = 64;
	ip[9] = IPPROTO_UDP;
	memcpy(ip + 12, eb.gid.raw + 12, 4);
	memcpy(ip + 16, ea.gid.raw + 12, 4);
}

static void put_ip6(uint8_t *ip, size_t udp_len, const struct in6_addr *from)
{
	memset(ip, 0, 8);
	ip[0] = 0x60;
	put(ip + 4, udp_len, 2);
	ip[6] = IPPROTO_UDP;
	memcpy(ip + 8, from, 16);
	memcpy(ip + 24, &addr6[0], 16);
}

/* The last four bytes become what covers the rest. */
static void seal(struct pkt *k, enum how how)
{
	uint8_t *udp = k->b - 8, *ip = udp - (how == V4 ? 20 : 40);
	const size_t udp_len = 8 + k->len;
	uint32_t icrc;

	put(udp, 0xc001, 2);
	put(udp + 2, PORT, 2);
	put(udp + 4, udp_len, 2);
	put(udp + 6, 0, 2);
	if (how == V4)
		put_ip4(ip, udp_len);
	else
		put_ip6(ip, udp_len, how == STRANGER ? &stranger6 : &addr6[1]);
	if (k->len < 4)
		return;
	icrc = htole32(icrc_of(ip, k->b + k->len - 4 - ip));
	memcpy(k->b + k->len - 4, &icrc, 4);
}

static void put_out(struct pkt *k, enum how how)
{
	struct sockaddr_in to4 = { .sin_family = AF_INET };
	ssize_t n;

	if (how == V4) {
		memcpy(&to4.sin_addr, ea.gid.raw + 12, 4);
		n = sendto(raw_fd, k->b - 28, 28 + k->len, 0, (void *)&to4, sizeof(to4));
	} else {
		n = send(how == STRANGER ? stranger_fd : udp_fd, k->b, k->len, 0);
	}
	if (n < 0 && errno != ENOBUFS && errno != ECONNREFUSED)
		die("send of %zu bytes", k->len);
}

static int udp6(const struct in6_addr *from)
{
	struct sockaddr_in6 me = { .sin6_family = AF_INET6, .sin6_port = htons(0xc001) },
			    to = { .sin6_family = AF_INET6, .sin6_port = htons(PORT) };
	int fd = socket(AF_INET6, SOCK_DGRAM, 0), size = 8 << 20;

	me.sin6_addr = *from;
	to.sin6_addr = addr6[0];
	if (fd < 0 || bind(fd, (void *)&me, sizeof(me)) || connect(fd, (void *)&to, sizeof(to)))
		die("UDP socket");
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
	return fd;
}

/* Sees what comes for our numbers: the upper byte of the BTH's destination */
static int seer(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x40, 0, 2),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 20 + 8 + 5),
		BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 40 + 8 + 5),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OURS >> 16, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0xffff),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog prog = { ARRAY_SIZE(code), code };
	int fd = socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_ALL)), size = 32 << 20;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)))
		die("packet socket");
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	return fd;
}

static void wire_up(void)
{
	int home;

	if (inet_pton(AF_INET6, "fd77::1", &addr6[0]) != 1 ||
	    inet_pton(AF_INET6, "fd77::2", &addr6[1]) != 1 ||
	    inet_pton(AF_INET6, "fd77::99", &stranger6) != 1)
		die("addresses");
	home = host_enter("b");
	udp_fd = udp6(&addr6[1]);
	stranger_fd = udp6(&stranger6);
	raw_fd = forger();
	see_fd = seer();
	host_leave(home);
}

/* --- who is attacked ---------------------- */

enum type { RC, UC, UD, XRC, TYPES };
static const char * const type_names[] = { "RC", "UC", "UD", "XRC" };
static const uint8_t transports[] = { 0, 1, 3, 5 };

/* What may be written to: in the middle of what must stay as it is */
#define ROOM 8192
static struct ibv_mr *room;
static uint8_t *around;		/* 3 * ROOM bytes */

struct victim {
	enum type type;
	enum how how;
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	uint32_t srqn;
	uint32_t num;		/* ours, that it believes to be connected with */
	uint32_t psn;		/* that it expects */
	uint32_t sq_psn;	/* of its own next request */
	int access;
	unsigned int posted;
	/* the fuzzer's: the message that it is in; the last request seen, and how much is answered */
	uint8_t cls;
	uint32_t first, pkts, tail;
	uint32_t asked, asked_len, given;
	uint8_t asked_op;
	bool dead;
};

static struct ibv_xrcd *xrcd;

static void victim_create(struct victim *v, enum type type, enum how how, unsigned int i)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD,
						  IBV_QPT_XRC_RECV };
	struct ibv_qp_init_attr_ex ia = {
		.qp_type = types[type],
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = ea.pd,
	};
	struct ibv_srq_attr sa = { .max_wr = 16, .max_sge = 1 };

	*v = (struct victim) {
		.type = type, .how = how, .num = OURS + i,
		.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			  IBV_ACCESS_REMOTE_ATOMIC,
	};
	v->cq = cq_make(&ea, 256);
	ia.send_cq = ia.recv_cq = v->cq;
	if (type == XRC) {
		v->srq = xrc_srq_make(&ea, xrcd, v->cq, &sa);
		if (ibv_get_srq_num(v->srq, &v->srqn))
			die("get_srq_num");
		memset(&ia, 0, sizeof(ia));
		ia.qp_type = IBV_QPT_XRC_RECV;
		ia.comp_mask = IBV_QP_INIT_ATTR_XRCD;
		ia.xrcd = xrcd;
	}
	v->qp = ibv_create_qp_ex(ea.ctx, &ia);
	if (!v->qp)
		die("create_qp");
}

static void victim_destroy(struct victim *v)
{
	errno = ibv_destroy_qp(v->qp);
	if (!errno && v->srq)
		errno = ibv_destroy_srq(v->srq);
	if (!errno)
		errno = ibv_destroy_cq(v->cq);
	if (errno)
		die("destroy");
}

/* The other host's end, as far as the attacked one knows */
static struct peer victim_peer(const struct victim *v)
{
	struct peer p = { .qpn = v->num, .psn = v->psn, .gid = eb.gid, .mtu = IBV_MTU_256 };

	if (v->how != V4)
		memcpy(p.gid.raw, &addr6[1], 16);
	return p;
}

static struct end end6;		/* ea by its IPv6 address */

static int ud_to(struct victim *v, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = { .qp_state = state, .port_num = 1, .qkey = QKEY };
	int mask = IBV_QP_STATE;

	if (state == IBV_QPS_INIT)
		mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
	if (state == IBV_QPS_RTS)
		mask |= IBV_QP_SQ_PSN;
	return ibv_modify_qp(v->qp, &a, mask);
}

static int step(struct victim *v, enum ibv_qp_state state)
{
	const struct end *e = v->how == V4 ? &ea : &end6;
	const struct peer p = victim_peer(v);
	struct conn c = conn;

	c.access = v->access;
	if (v->type == UD && state <= IBV_QPS_RTS)
		return ud_to(v, state);
	switch (state) {
	case IBV_QPS_INIT:
		return qp_init(v->qp, &c);
	case IBV_QPS_RTR:
		return qp_rtr(v->qp, e, &p, &c);
	case IBV_QPS_RTS:
		return qp_rts(v->qp, v->sq_psn, &c);
	default:
		return qp_to(v->qp, state);
	}
}

/* A request that is wrong: where nobody relies on the connection, the send queue alone ends. */
static int to_sqe(struct victim *v)
{
	struct ibv_wc wc;

	if (v->type == UD) {
		struct ibv_ah_attr aa = {
			.is_global = 1, .port_num = 1,
			.grh = { .dgid = eb.gid, .sgid_index = ea.gid_index, .hop_limit = 64 },
		};
		struct ibv_ah *ah = ibv_create_ah(ea.pd, &aa);

		if (!ah || POST(v->qp, .wr_id = 1, .opcode = IBV_WR_SEND, .num_sge = 1,
				.sg_list = SGE(room->addr, 8, ~room->lkey),
				.wr.ud = { ah, OURS, QKEY }))
			die("post");
		if (!cq_wait(v->cq, &wc, PATIENCE))
			die("nothing fails");
		ibv_destroy_ah(ah);
		return 0;
	}
	if (POST(v->qp, .wr_id = 1, .opcode = IBV_WR_SEND, .num_sge = 1,
		 .sg_list = SGE(room->addr, 8, ~room->lkey)))
		die("post");
	return !cq_wait(v->cq, &wc, PATIENCE);
}

/* From RESET to @state. Return: false if it has none such. */
static bool victim_to(struct victim *v, enum ibv_qp_state state)
{
	static const enum ibv_qp_state way[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };
	const enum ibv_qp_state last = min(state, IBV_QPS_RTS);
	struct ibv_wc wc;
	unsigned int i;

	if (state == IBV_QPS_SQE && v->type != UC && v->type != UD)
		return false;
	errno = qp_to(v->qp, IBV_QPS_RESET);
	if (errno)
		die("to RESET");
	while (ibv_poll_cq(v->cq, 1, &wc) > 0)
		v->posted -= v->posted && wc.opcode & IBV_WC_RECV;
	if (v->type != XRC)
		v->posted = 0;
	v->cls = 0;
	for (i = 0; i < ARRAY_SIZE(way) && way[i] <= last; i++) {
		errno = step(v, way[i]);
		if (errno)
			die("%s: modify_qp to %s", type_names[v->type], state_name(way[i]));
	}
	if (state == IBV_QPS_SQE)
		return !to_sqe(v);
	return state <= IBV_QPS_RTS || !step(v, state);
}

/* Receives of so many bytes, until there are @num */
static void victim_post(struct victim *v, unsigned int num, uint32_t len)
{
	struct ibv_recv_wr wr = {
		.sg_list = SGE(room->addr, len, room->lkey), .num_sge = 1,
	}, *bad;

	for (; v->posted < num; v->posted++) {
		wr.wr_id = v->posted;
		errno = v->srq ? ibv_post_srq_recv(v->srq, &wr, &bad) :
			ibv_post_recv(v->qp, &wr, &bad);
		if (errno)
			die("post_recv");
	}
}

/* --- packets that are right ---------------------- */

static uint8_t *put_header(uint8_t *p, const struct victim *v, const char *name, uint8_t opcode,
			   uint32_t len)
{
	const uint64_t va = (uintptr_t)room->addr + 64;

	memset(p, 0, 32);
	if (!strcmp(name, "XRCETH")) {
		put(p, v->srqn, 4);
		return p + 4;
	}
	if (!strcmp(name, "DETH")) {
		put(p, QKEY, 4);
		put(p + 4, v->num, 4);
		return p + 8;
	}
	if (!strcmp(name, "FETH")) {
		put(p, 1, 4);
		return p + 4;
	}
	if (!strcmp(name, "RETH")) {
		put(p, va, 8);
		put(p + 8, room->rkey, 4);
		put(p + 12, len, 4);
		return p + 16;
	}
	if (!strcmp(name, "AtomicETH")) {
		put(p, va, 8);
		put(p + 8, room->rkey, 4);
		put(p + 19, opcode, 1);
		return p + 28;
	}
	if (!strcmp(name, "AETH")) {
		put(p, 0x1f000001, 4);
		return p + 4;
	}
	return p + (!strcmp(name, "AtomicAckETH") ? 8 : 4);
}

/* Bytes before the payload */
static size_t header_len(uint8_t opcode)
{
	static const uint8_t lens[] = { 4, 8, 4, 16, 28, 4, 8, 4, 4 };
	size_t len = 12;

	for (int i = 0; i < SPEC_HEADERS; i++)
		if (spec_has(opcode, spec_headers[i].name))
			len += lens[i];
	return len;
}

/* @len bytes of payload; @total of the message that its RETH tells of */
static void build_len(struct pkt *k, const struct victim *v, uint8_t opcode, uint32_t psn,
		      uint32_t len, uint32_t total)
{
	const unsigned int pad = -len & 3;
	uint8_t *p = k->b;

	put(p, opcode, 1);
	put(p + 1, 0x40 | pad << 4, 1);
	put(p + 2, 0xffff, 2);
	put(p + 4, v->qp->qp_num, 4);
	put(p + 8, 0x80000000 | (psn & 0xffffff), 4);
	p += 12;
	for (int i = 0; i < SPEC_HEADERS; i++)
		if (spec_has(opcode, spec_headers[i].name))
			p = put_header(p, v, spec_headers[i].name, opcode, total);
	pattern_fill(p, opcode, 0, len);
	memset(p + len, 0, pad);
	k->len = p + len + pad + 4 - k->b;
}

#define SHORT 16		/* bytes of a last packet */

static bool op_is(uint8_t opcode, const char *word)
{
	const struct spec_op *op = spec_find(opcode);

	return op && strstr(op->name, word);
}

static uint32_t payload_len(uint8_t opcode)
{
	const struct spec_op *op = spec_find(opcode);

	if (!op || !spec_has(opcode, "payload"))
		return 0;
	if (op_is(opcode, "ATOMIC WRITE"))
		return 8;
	return spec_ends(op) ? SHORT : MTU;
}

static void build(struct pkt *k, const struct victim *v, uint8_t opcode, uint32_t psn)
{
	const struct spec_op *op = spec_find(opcode);
	uint32_t len = payload_len(opcode);

	build_len(k, v, opcode, psn, len,
		  op && !spec_ends(op) ? len + SHORT : op_is(opcode, "READ Req") ? SHORT : len);
}

/* --- what comes back ---------------------- */

struct answer {
	uint32_t num, psn, len, msn;
	uint8_t opcode, syndrome;
};

/* The next that is there. Return: false for none. */
static bool see(struct answer *a, int flags)
{
	uint8_t buf[512], *bth;
	ssize_t n = recv(see_fd, buf, sizeof(buf), flags | MSG_TRUNC);

	if (n < 0)
		return false;
	bth = buf + (buf[0] >> 4 == 4 ? 28 : 48);
	*a = (struct answer) {
		.opcode = bth[0],
		.num = get(bth + 5, 3),
		.psn = get(bth + 9, 3),
		.syndrome = bth[12],
		.msn = get(bth + 13, 3),
		/* of a request with a RETH */
		.len = get(bth + 24, 4),
	};
	return true;
}

/* One that is well, and answers: then all that was sent before has been taken. */
static struct victim control;

#define MAX_ANSWERS 64

/* What came for  until then */
static unsigned int answers(struct answer *got, uint32_t to)
{
	static struct pkt k;
	const double end = now() + PATIENCE;
	unsigned int num = 0;
	struct answer a;

	build_len(&k, &control, 0x0a, control.psn, 0, 0);
	seal(&k, V6);
	put_out(&k, V6);
	for (;;) {
		if (!see(&a, MSG_DONTWAIT)) {
			if (now() > end)
				die("a queue pair that was not attacked does not answer");
			continue;
		}
		if (a.num == control.num && a.psn == control.psn)
			break;
		/* reports are of a NAK */
		if (num < MAX_ANSWERS && a.num == to && a.opcode != GAP_REPORT)
			got[num++] = a;
	}
	control.psn = (control.psn + 1) & 0xffffff;
	return num;
}

/* The next that comes for @to. Return: false if none does. */
static bool next_answer(struct answer *a, uint32_t to)
{
	const double end = now() + PATIENCE;

	while (now() < end)
		if (see(a, MSG_DONTWAIT) && a->num == to && a->opcode != GAP_REPORT)
			return true;
	return false;
}

static void control_up(void)
{
	victim_create(&control, RC, V6, 0xffff);
	control.psn = 1;
	if (!victim_to(&control, IBV_QPS_RTS))
		die("control");
}

/* --- every opcode, kind, state and fault ---------------------- */

enum fault {
	NONE, PAD1, PAD2, PAD3, VERSION, PKEY, PKEY_0, ICRC, FROM, QPN, PSN_LAST, PSN_OLD, PSN_NEXT,
	PSN_FAR, PSN_HALF, LONG_PAYLOAD, NO_PAYLOAD, BAD_RKEY, NO_RKEY, VA_BEFORE, VA_BEHIND,
	VA_WRAPS, UNALIGNED, DMALEN, DMALEN_HUGE, BAD_QKEY, BAD_SRQN, NO_RECV, SHORT_RECV, NO_RIGHTS,
	FAULTS
};

static const char * const fault_names[] = {
	"right", "1 byte of padding", "2 bytes of padding", "3 bytes of padding", "version 1",
	"another P_Key", "P_Key 0", "wrong ICRC", "a stranger's address", "nobody's number",
	"the last PSN again", "an old PSN", "the PSN after the next", "a PSN far ahead",
	"a PSN half of all away", "more than the path MTU", "no payload", "wrong R_Key",
	"no R_Key", "a byte before the region", "a byte behind the region", "an address that wraps",
	"an address that is not aligned", "a length that is another", "a length of 4 GiB",
	"wrong Q_Key", "nobody's SRQ", "no receive request", "a receive request too short",
	"no rights",
};

/* How it should end */
enum { SILENCE = -1, ACK = 0x1f, RNR = 0x20 | RNR_TIMER, NAK_SEQ = 0x60, NAK_INV, NAK_ACC, NAK_OP,
       DATA = 0x100 };

struct verdict {
	int answer;
	int32_t off;		/* of its PSN from the one expected */
	bool fatal;
	bool taken;		/* a message is received */
	bool unseen;		/* it is dropped before anything is looked at */
};

static bool names_memory(uint8_t opcode)
{
	return spec_has(opcode, "RETH") || spec_has(opcode, "AtomicETH");
}

static bool applies(uint8_t opcode, enum fault f)
{
	const bool addr = names_memory(opcode);

	switch (f) {
	case LONG_PAYLOAD: return spec_find(opcode);
	case NO_PAYLOAD: return payload_len(opcode);
	case BAD_RKEY: case NO_RKEY: case VA_BEFORE: case VA_BEHIND: case VA_WRAPS: return addr;
	case UNALIGNED: return spec_has(opcode, "AtomicETH") || op_is(opcode, "ATOMIC WRITE");
	case DMALEN: case DMALEN_HUGE: return spec_has(opcode, "RETH") && !op_is(opcode, "FLUSH");
	case BAD_QKEY: return spec_has(opcode, "DETH");
	case BAD_SRQN: return spec_has(opcode, "XRCETH");
	case NO_RECV: return op_is(opcode, "SEND") || op_is(opcode, "Immediate");
	case SHORT_RECV: return op_is(opcode, "SEND");
	default: return true;
	}
}

static size_t find_header(uint8_t opcode, const char *name)
{
	static const uint8_t lens[] = { 4, 8, 4, 16, 28, 4, 8, 4, 4 };
	size_t off = 12;

	for (int i = 0; strcmp(spec_headers[i].name, name); i++)
		if (spec_has(opcode, spec_headers[i].name))
			off += lens[i];
	return off;
}

/* Where the address is, in a RETH or an AtomicETH */
static uint8_t *addr_of(struct pkt *k, uint8_t opcode)
{
	return k->b + find_header(opcode, spec_has(opcode, "RETH") ? "RETH" : "AtomicETH");
}

static uint32_t fault_psn(enum fault f, uint32_t psn)
{
	switch (f) {
	case PSN_LAST: return psn - 1;
	case PSN_OLD: return psn - 70000;
	case PSN_NEXT: return psn + 1;
	case PSN_FAR: return psn + 70000;
	case PSN_HALF: return psn + 0x800000;
	default: return psn;
	}
}

/* A packet with one fault, sealed but for a fault that is there */
static void build_fault(struct pkt *k, struct victim *v, uint8_t opcode, enum fault f)
{
	build(k, v, opcode, fault_psn(f, v->psn));
	switch (f) {
	case PAD1: case PAD2: case PAD3: k->b[1] = 0x40 | (f - PAD1 + 1) << 4; break;
	case VERSION: k->b[1] |= 1; break;
	case PKEY: put(k->b + 2, 0x9234, 2); break;
	case PKEY_0: put(k->b + 2, 0x8000, 2); break;
	case QPN: put(k->b + 5, NOBODY, 3); break;
	case LONG_PAYLOAD: k->len += v->type == UD ? 16 * MTU : MTU; break;
	case NO_PAYLOAD: k->len = header_len(opcode) + 4; break;
	case BAD_RKEY: put(addr_of(k, opcode) + 8, room->rkey ^ 1, 4); break;
	case NO_RKEY: put(addr_of(k, opcode) + 8, 0, 4); break;
	case VA_BEFORE: put(addr_of(k, opcode), (uintptr_t)room->addr - 8, 8); break;
	case VA_BEHIND: put(addr_of(k, opcode), (uintptr_t)room->addr + ROOM, 8); break;
	case VA_WRAPS: put(addr_of(k, opcode), -8ULL, 8); break;
	case UNALIGNED: put(addr_of(k, opcode), (uintptr_t)room->addr + 4, 8); break;
	case DMALEN: put(addr_of(k, opcode) + 12, SHORT - 4, 4); break;
	case DMALEN_HUGE: put(addr_of(k, opcode) + 12, 0xfffffff0, 4); break;
	case BAD_QKEY: put(k->b + 12, QKEY + 1, 4); break;
	case BAD_SRQN: put(k->b + 12, 0xfffff, 4); break;
	default: break;
	}
	seal(k, f == FROM ? STRANGER : v->how);
	if (f == ICRC)
		k->b[k->len - 1] ^= 1;
}

static bool connected(enum type t)
{
	return t != UD;
}

/* What is dropped unseen, whatever the queue pair is at: 9.6 */
static bool dropped(const struct victim *v, enum ibv_qp_state state, uint8_t opcode, enum fault f)
{
	const struct spec_op *op = spec_find(opcode);

	if (state < IBV_QPS_RTR || state == IBV_QPS_ERR || !op || opcode >> 5 != transports[v->type])
		return true;
	switch (f) {
	case VERSION: case PKEY: case PKEY_0: case ICRC: case QPN: case BAD_QKEY:
		return true;
	case FROM:
		return connected(v->type);
	case PAD1: case PAD2: case PAD3:
		/* there has to be something that it is padding of, and a packet of the middle is full */
		return spec_is_response(op) || !spec_ends(op) || !payload_len(opcode);
	case LONG_PAYLOAD:
		return spec_is_response(op) || !spec_has(opcode, "payload");
	default:
		return spec_is_response(op);
	}
}

#define FATAL(nak) ((struct verdict) { .answer = (nak), .fatal = true })

/* Reliable, and its turn: 9.7.4 */
static struct verdict verdict_turn(uint8_t opcode, enum fault f)
{
	const struct spec_op *op = spec_find(opcode);
	const bool send = op_is(opcode, "SEND"), write = op_is(opcode, "RDMA WRITE");
	const bool addr = names_memory(opcode);
	const bool data = addr && !write;

	if (f == BAD_SRQN || !spec_starts(op))
		return FATAL(NAK_INV);
	/* nobody asked for the right to it */
	if (op_is(opcode, "FLUSH"))
		return FATAL(NAK_INV);
	if (f == NO_RIGHTS && addr)
		return FATAL(NAK_INV);
	if (f == UNALIGNED || f == DMALEN_HUGE)
		return FATAL(NAK_INV);
	if (f == LONG_PAYLOAD || (f == NO_PAYLOAD && (!send || !spec_ends(op))))
		return FATAL(NAK_INV);
	if (op_is(opcode, "ATOMIC WRITE") && (f == DMALEN || (f >= PAD1 && f <= PAD3)))
		return FATAL(NAK_INV);
	if (f >= BAD_RKEY && f <= VA_WRAPS)
		return FATAL(NAK_ACC);
	if (write && (f == DMALEN || (f >= PAD1 && f <= PAD3)))
		return FATAL(NAK_INV);
	if (f == NO_RECV && spec_ends(op))
		return (struct verdict) { .answer = RNR };
	if (f == NO_RECV && send)
		return (struct verdict) { .answer = RNR };
	if (f == SHORT_RECV)
		return FATAL(NAK_INV);
	/* there is no such window */
	if (op_is(opcode, "Invalidate"))
		return FATAL(NAK_ACC);
	if (data)
		return (struct verdict) { .answer = DATA };
	return (struct verdict) {
		.answer = ACK,
		.taken = spec_ends(op) && (send || op_is(opcode, "Immediate")),
	};
}

static struct verdict verdict_reliable(uint8_t opcode, enum fault f)
{
	const bool data = !op_is(opcode, "SEND") && !op_is(opcode, "RDMA WRITE");

	switch (f) {
	case PSN_LAST: case PSN_OLD: case PSN_HALF:
		/* nothing of the kind is remembered; the rest has been taken, 9.7.5.1.2 */
		return (struct verdict) { .answer = data ? SILENCE : ACK, .off = -1 };
	case PSN_NEXT: case PSN_FAR:
		return (struct verdict) { .answer = NAK_SEQ };
	default:
		return verdict_turn(opcode, f);
	}
}

/* Nobody is told, and nothing ends: 9.8.2.2, 9.8.3.2 */
static struct verdict verdict_unreliable(uint8_t opcode, enum fault f)
{
	const struct spec_op *op = spec_find(opcode);
	struct verdict r = { .answer = SILENCE };
	const bool write = op_is(opcode, "RDMA WRITE");

	/* a WRITE with immediate data alone is seen by the program */
	if (!spec_starts(op) || !spec_ends(op) || (write && !op_is(opcode, "Immediate")))
		return r;
	switch (f) {
	case LONG_PAYLOAD: case NO_RECV: case SHORT_RECV:
		return r;
	case NO_PAYLOAD: case PAD1: case PAD2: case PAD3: case BAD_RKEY: case NO_RKEY: case VA_BEFORE:
	case VA_BEHIND: case VA_WRAPS: case DMALEN: case DMALEN_HUGE: case NO_RIGHTS:
		r.taken = !write;
		return r;
	default:
		r.taken = true;
		return r;
	}
}

static struct verdict verdict_of(const struct victim *v, enum ibv_qp_state state, uint8_t opcode,
				 enum fault f)
{
	if (dropped(v, state, opcode, f))
		return (struct verdict) { .answer = SILENCE, .unseen = true };
	if (v->type == UC || v->type == UD)
		return verdict_unreliable(opcode, f);
	return verdict_reliable(opcode, f);
}

static unsigned int received(struct victim *v)
{
	unsigned int num = 0;
	struct ibv_wc wc;

	while (ibv_poll_cq(v->cq, 1, &wc) > 0) {
		if (!(wc.opcode & IBV_WC_RECV) && wc.status == IBV_WC_SUCCESS)
			continue;
		num += wc.status == IBV_WC_SUCCESS;
		v->posted -= !!v->posted;
	}
	return num;
}

static int kind_of(const struct answer *a)
{
	switch (a->opcode & 0x1f) {
	case 0x11:
		return a->syndrome;
	case 0x10: case 0x12: case 0x0d:
		return DATA;
	default:
		return -2;
	}
}

static const char *name_of(uint8_t opcode)
{
	return spec_find(opcode) ? spec_find(opcode)->name : "none such";
}

static unsigned int complaints;

static void complain(const struct victim *v, enum ibv_qp_state state, uint8_t opcode, const char *f,
		     const char *what, int got, int want)
{
	if (++complaints <= 20)
		diag("%s in %s, opcode %#04x (%s), %s: %s %#x, not %#x", type_names[v->type],
		     state_name(state), opcode, name_of(opcode), f, what, got, want);
}

/* Is all that nobody may touch as it was? */
static bool room_whole(void)
{
	return canary_check(around, ROOM) < 0 && canary_check(around + 2 * ROOM, ROOM) < 0;
}

/* What came back for one packet, held against the verdict */
static bool judge(struct victim *v, enum ibv_qp_state state, uint8_t opcode, const char *f,
		  const struct verdict *want)
{
	struct answer got[MAX_ANSWERS];
	unsigned int num = answers(got, v->num), taken = received(v);
	const enum ibv_qp_state after = want->fatal ? IBV_QPS_ERR : state;
	const double end = now() + 1;
	enum ibv_qp_state is_in;
	int answer;

	/* another processor may be at it still: packets of two flows know no order */
	while ((taken < want->taken || (!num && want->answer != SILENCE)) && now() < end) {
		if (!num)
			num = answers(got, v->num);
		taken += received(v);
	}
	answer = num ? kind_of(&got[0]) : SILENCE;
	/* of what is dropped unseen there are many: see undisturbed() */
	is_in = want->unseen ? after : qp_state(v->qp);
	if (num > 1 || answer != want->answer)
		complain(v, state, opcode, f, num > 1 ? "several answers" : "answer",
			 num > 1 ? (int)num : answer, want->answer);
	else if (num && got[0].psn != ((v->psn + want->off) & 0xffffff))
		complain(v, state, opcode, f, "the answer's PSN", got[0].psn, v->psn + want->off);
	else if (taken != want->taken)
		complain(v, state, opcode, f, "messages received", taken, want->taken);
	else if (is_in != after)
		complain(v, state, opcode, f, "state", is_in, after);
	else if (!room_whole())
		complain(v, state, opcode, f, "memory touched", 1, 0);
	else
		return true;
	return false;
}

/* The packet as it is: the attacked one stands at @state with all that is needed. */
static bool attack(struct victim *v, enum ibv_qp_state state, uint8_t opcode, enum fault f)
{
	const struct verdict want = verdict_of(v, state, opcode, f);
	/* without a key or a right to it: an unreliable WRITE says nothing of what it did */
	const bool kept_out = names_memory(opcode) &&
			      ((f >= BAD_RKEY && f <= VA_WRAPS) || f == NO_RIGHTS);
	static struct pkt k;

	if (kept_out)
		memset(room->addr, CANARY, ROOM);
	build_fault(&k, v, opcode, f);
	put_out(&k, f == FROM ? STRANGER : v->how);
	if (!judge(v, state, opcode, fault_names[f], &want))
		return false;
	if (!kept_out || canary_check(room->addr, ROOM) < 0)
		return true;
	complain(v, state, opcode, fault_names[f], "memory written", 1, 0);
	return false;
}

/* What was dropped, as one after another was, has left nothing behind. */
static bool undisturbed(struct victim *v, enum ibv_qp_state state, uint8_t opcode, enum fault f)
{
	const enum ibv_qp_state is_in = qp_state(v->qp);

	if (is_in == state)
		return true;
	complain(v, state, opcode, fault_names[f], "state after what came before it", is_in, state);
	return false;
}

static void prepare(struct victim *v, enum ibv_qp_state state, enum fault f)
{
	const int access = v->access;

	v->psn = (v->psn + 12345) & 0xffffff;
	v->access = f == NO_RIGHTS ? 0 : access;
	if (!victim_to(v, state))
		die("to %s", state_name(state));
	v->access = access;
	if (f == NO_RECV && v->type == XRC && v->posted)
		die("there is a receive request");
	if (state > IBV_QPS_RESET && f != NO_RECV)
		victim_post(v, 1, f == SHORT_RECV ? 4 : ROOM);
}

/* Of an XRC queue pair, what is posted stays. */
static void use_up(struct victim *v)
{
	static struct pkt k;
	struct answer got[MAX_ANSWERS];

	if (v->type != XRC || !v->posted)
		return;
	if (!victim_to(v, IBV_QPS_RTS))
		die("to RTS");
	build_len(&k, v, transports[XRC] << 5 | 0x04, v->psn, 0, 0);
	seal(&k, v->how);
	put_out(&k, v->how);
	answers(got, v->num);
	received(v);
	/* or it was a message's that was not finished, and went with that */
	v->posted = 0;
}

/* Every opcode and fault in one state */
static void attack_state(struct victim *v, enum ibv_qp_state state)
{
	const uint8_t own = transports[v->type];
	unsigned int num = 0, good = 0;
	bool fresh = false;

	complaints = 0;
	for (int opcode = 0; opcode < 256; opcode++) {
		for (enum fault f = NONE; f < FAULTS; f++) {
			const bool quiet = dropped(v, state, opcode, f);

			if (f != NONE && (opcode >> 5 != own || !spec_find(opcode) || !applies(opcode, f)))
				continue;
			if (fresh && !quiet) {
				num++;
				good += undisturbed(v, state, opcode, f);
			}
			if (!quiet || !fresh) {
				use_up(v);
				prepare(v, state, f);
			}
			fresh = quiet;
			num++;
			good += attack(v, state, opcode, f);
		}
	}
	is(good, num, "%s in %s: packets of every opcode and fault", type_names[v->type],
	   state_name(state));
	/* what was dropped has left nothing behind */
	if (fresh)
		is(qp_state(v->qp), state, "and it is still in %s", state_name(state));
	use_up(v);
}

static void attack_type(enum type type, enum how how)
{
	struct victim v;

	victim_create(&v, type, how, 1);
	v.psn = 0xfffff0;
	for (enum ibv_qp_state state = IBV_QPS_RESET; state <= IBV_QPS_ERR; state++)
		if (victim_to(&v, state))
			attack_state(&v, state);
	victim_destroy(&v);
}

/* Cut off at each byte: what is left says of itself that it is whole, and its ICRC is right. */
static void attack_cut(struct victim *v, uint8_t opcode, unsigned int *num, unsigned int *good)
{
	const struct verdict none = { .answer = SILENCE, .unseen = true };
	static struct pkt k;
	size_t whole, len;

	build(&k, v, opcode, v->psn);
	whole = k.len;
	for (len = 0; len < whole; len++) {
		/* fewer bytes of payload are another packet */
		if (len >= header_len(opcode) + 4 && !(len % 4))
			continue;
		build(&k, v, opcode, v->psn);
		k.len = len;
		seal(&k, v->how);
		put_out(&k, v->how);
		++*num;
		*good += judge(v, IBV_QPS_RTS, opcode, "cut off", &none);
	}
}

/*
 * An ATOMIC comes again, its answer was lost. While the program sets in SQD how many it
 * answers at a time, what has been done is not forgotten but for want of room.
 */
static void remembered(void)
{
	static const struct { int max; unsigned int answers; } tries[] = {
		{ 4, 1 }, { 1, 1 }, { 8, 1 }, { 2, 1 }, { 0, 0 },
	};
	const uint8_t opcode = transports[RC] << 5 | 0x14;
	struct answer got[MAX_ANSWERS];
	static struct pkt k;
	struct victim v;
	uint64_t word;

	victim_create(&v, RC, V6, 1);
	prepare(&v, IBV_QPS_RTS, NONE);
	build(&k, &v, opcode, v.psn);
	seal(&k, V6);
	put_out(&k, V6);
	is(answers(got, v.num), 1, "an ATOMIC is answered");
	word = *(uint64_t *)((uint8_t *)room->addr + 64);
	if (qp_to(v.qp, IBV_QPS_SQD))
		die("SQD");
	for (unsigned int i = 0; i < ARRAY_SIZE(tries); i++) {
		struct ibv_qp_attr a = { .qp_state = IBV_QPS_SQD, .max_dest_rd_atomic = tries[i].max };

		errno = ibv_modify_qp(v.qp, &a, IBV_QP_STATE | IBV_QP_MAX_DEST_RD_ATOMIC);
		if (errno)
			die("max_dest_rd_atomic");
		put_out(&k, V6);
		is(answers(got, v.num), tries[i].answers, "with room for %d it is answered again, if at all",
		   tries[i].max);
		if (tries[i].answers)
			is(kind_of(&got[0]), DATA, "by what it was");
	}
	ok(*(volatile uint64_t *)((uint8_t *)room->addr + 64) == word, "and not done again");
	victim_destroy(&v);
}

#define READ_REQUEST 0x0c
#define FLUSH 0x1c
#define FLUSH_GLOBAL 1
#define ATOMIC_WRITE 0x1d

/* Of @value, @n packets behind the expected one */
static void atomic_write(const struct victim *v, uint32_t n, uint64_t value)
{
	static struct pkt k;

	build(&k, v, ATOMIC_WRITE, v->psn + n);
	put(k.b + k.len - 12, value, 8);
	seal(&k, v->how);
	put_out(&k, v->how);
}

/* To all that see memory: what was written before into @mr */
static void flush(const struct victim *v, const struct ibv_mr *mr, uint32_t n)
{
	static struct pkt k;

	build_len(&k, v, FLUSH, v->psn + n, 0, 64);
	put(k.b + find_header(FLUSH, "FETH"), FLUSH_GLOBAL, 4);
	put(addr_of(&k, FLUSH), (uintptr_t)mr->addr, 8);
	put(addr_of(&k, FLUSH) + 8, mr->rkey, 4);
	seal(&k, v->how);
	put_out(&k, v->how);
}

#define BUSY_LEN (3 << 20)
#define BUSY_PKTS (BUSY_LEN / MTU)

/*
 * With a READ that takes minutes to be answered, until busy_less(): its queue holds whole bursts, headers of
 * packets and all
 */
static struct ibv_mr *busy(struct victim *v, int access)
{
	struct ibv_mr *mr = mr_make(&ea, BUSY_LEN, IBV_ACCESS_REMOTE_READ | access);
	static struct pkt k;

	victim_create(v, RC, V6, 1);
	v->access |= access;
	prepare(v, IBV_QPS_RTS, NONE);
	command("tc -n a qdisc add dev v0 root tbf rate 200kbit burst 100k limit 8m");
	build_len(&k, v, READ_REQUEST, v->psn, 0, BUSY_LEN);
	put(addr_of(&k, READ_REQUEST), (uintptr_t)mr->addr, 8);
	put(addr_of(&k, READ_REQUEST) + 8, mr->rkey, 4);
	seal(&k, V6);
	put_out(&k, V6);
	return mr;
}

/* What is behind the READ has been sent */
static void busy_less(void)
{
	command("tc -n a qdisc change dev v0 root tbf rate 100mbit burst 100k limit 8m");
}

static void busy_no_more(struct victim *v, struct ibv_mr *mr)
{
	command("tc -n a qdisc del dev v0 root");
	victim_destroy(v);
	mr_drop(mr);
}

/* The next answer to what is behind the READ; false if there is none */
static bool answer_behind(const struct victim *v, struct answer *a, uint32_t *n)
{
	do {
		if (!next_answer(a, v->num))
			return false;
		*n = (a->psn - v->psn) & 0xffffff;
	} while (*n < BUSY_PKTS);
	return true;
}

/*
 * More FLUSHes than there are resources, while there is a READ to be answered: rdma_rxe, which does
 * not count them, sends them. Each is done and answered in its turn.
 */
static void uncounted(void)
{
	enum { FLUSHES = 20 };
	unsigned int num = 0, naks = 0, i;
	struct ibv_mr *mr;
	struct answer a;
	struct victim v;
	uint32_t n;

	if (!has_flush(&ea)) {
		skip("no FLUSH in this kernel", "more FLUSHes than there are resources");
		return;
	}
	mr = busy(&v, ACCESS_FLUSH);
	for (i = 0; i < FLUSHES; i++)
		flush(&v, mr, BUSY_PKTS + i);
	busy_less();
	while (num < FLUSHES && answer_behind(&v, &a, &n) && n == BUSY_PKTS + num) {
		if (kind_of(&a) == NAK_SEQ) {
			naks++;
			flush(&v, mr, n);
		} else if (kind_of(&a) == DATA) {
			num++;
		} else {
			break;
		}
	}
	is(num, FLUSHES, "FLUSHes behind a READ, answered in their order");
	ok(naks, "those that found no resource were asked for again: %u", naks);
	is(qp_state(v.qp), IBV_QPS_RTS, "and the connection lives");
	busy_no_more(&v, mr);
}

/* ATOMIC WRITEs are counted, as all else that takes a resource: 9.7.4.1.4. */
static void counted(void)
{
	unsigned int num = 0, i;
	struct ibv_mr *mr;
	struct answer a;
	struct victim v;
	uint32_t n = 0;

	mr = busy(&v, 0);
	for (i = 0; i < 20; i++)
		atomic_write(&v, BUSY_PKTS + i, i + 1);
	busy_less();
	while (answer_behind(&v, &a, &n) && kind_of(&a) == DATA && n == BUSY_PKTS + num)
		num++;
	between(num, 1, 15, "ATOMIC WRITEs behind a READ, that found a resource");
	is(kind_of(&a), NAK_INV, "the next one ends the connection");
	is(n, BUSY_PKTS + num, "it is the next");
	is(get((uint8_t *)room->addr + 64, 8), num, "and was not done");
	busy_no_more(&v, mr);
}

/*
 * The victim's own queue has room for one packet, which is the answer of another. What it has to
 * say waits for that, and is said once.
 */
static void refused(void)
{
	static const struct {
		const char *what;
		enum fault fault;
		uint8_t opcode;
		int kind;
	} tries[] = {
		{ "an acknowledgement", NONE, 0x04, ACK },
		{ "a NAK of a gap", PSN_NEXT, 0x04, NAK_SEQ },
		{ "an RNR NAK", NO_RECV, 0x04, RNR },
		{ "a NAK that ends the connection", BAD_RKEY, 0x0a, NAK_ACC },
	};
	struct answer got[MAX_ANSWERS];
	struct victim before, v;
	static struct pkt k[2];

	victim_create(&before, RC, V6, 1);
	victim_create(&v, RC, V6, 2);
	for (unsigned int i = 0; i < ARRAY_SIZE(tries); i++) {
		unsigned int num = 0, good = 0;
		long long dropped;

		/* on a busy machine there may be room by then */
		do {
			prepare(&before, IBV_QPS_RTS, NONE);
			prepare(&v, IBV_QPS_RTS, tries[i].fault);
			build(&k[0], &before, 0x04, before.psn);
			seal(&k[0], V6);
			build_fault(&k[1], &v, tries[i].opcode, tries[i].fault);
			command("tc -n a qdisc add dev v0 root netem delay 40ms limit 1");
			dropped = hw_counter(&ea, "tx_dropped");
			put_out(&k[0], V6);
			put_out(&k[1], V6);
			good += next_answer(got, v.num) && kind_of(got) == tries[i].kind;
			num++;
			dropped = hw_counter(&ea, "tx_dropped") - dropped;
			command("tc -n a qdisc del dev v0 root");
		} while (!dropped && num < 50);
		ok(dropped, "%s is refused", tries[i].what);
		is(good, num, "and is said when there is room");
		is(answers(got, v.num), 0, "once");
	}
	victim_destroy(&v);
	victim_destroy(&before);
}

/*
 * XRC: a message for one queue whose second packet names another, of a domain that is a
 * stranger's: what has been taken ends where it was taken, and the stranger hears nothing.
 */
static void strange_srq(void)
{
	struct ibv_xrcd *domain = xrcd_make(&ea);
	struct ibv_srq_attr sa = { .max_wr = 16, .max_sge = 1 };
	struct ibv_cq *cq = cq_make(&ea, 16);
	struct answer got[MAX_ANSWERS];
	struct ibv_srq *srq;
	struct victim v;
	struct ibv_wc wc;
	static struct pkt k;
	uint32_t srqn;

	srq = domain ? xrc_srq_make(&ea, domain, cq, &sa) : NULL;
	if (!srq || ibv_get_srq_num(srq, &srqn))
		die("XRC SRQ");
	victim_create(&v, XRC, V6, 1);
	prepare(&v, IBV_QPS_RTS, NONE);
	build(&k, &v, transports[XRC] << 5 | 0x00, v.psn);
	seal(&k, V6);
	put_out(&k, V6);
	is(answers(got, v.num), 1, "the first packet of a message is acknowledged");
	build(&k, &v, transports[XRC] << 5 | 0x01, v.psn + 1);
	put(k.b + find_header(transports[XRC] << 5 | 0x01, "XRCETH"), srqn, 4);
	seal(&k, V6);
	put_out(&k, V6);
	is(answers(got, v.num), 1, "a middle for a stranger's queue is answered");
	is(kind_of(&got[0]), NAK_INV, "by a NAK");
	ok(cq_wait(v.cq, &wc, PATIENCE) && wc.status == IBV_WC_REM_INV_REQ_ERR && !wc.wr_id &&
	   wc.qp_num == v.qp->qp_num, "and ends where it was taken");
	ok(!ibv_poll_cq(cq, 1, &wc), "of which the stranger hears nothing");
	v.posted = 0;
	victim_destroy(&v);
	if (ibv_destroy_srq(srq) || ibv_destroy_cq(cq) || ibv_close_xrcd(domain))
		die("destroy");
}

/* What an answer says of messages: so many are complete, 9.7.5.1.1 and 9.7.7.1.1 */
static void numbered(void)
{
	static const struct {
		const char *what;
		uint8_t opcode;
		unsigned int off, msn;
	} steps[] = {
		{ "a SEND", 0x04, 0, 1 }, { "the first packet of one", 0x00, 1, 1 }, { "its last", 0x02, 2, 2 },
		{ "a WRITE", 0x0a, 3, 3 }, { "a READ", 0x0c, 4, 4 }, { "an ATOMIC", 0x13, 5, 5 },
		{ "the SEND again", 0x04, 0, 5 }, { "the READ again", 0x0c, 4, 4 }, { "one that comes early", 0x04, 9, 5 },
		{ "a WRITE", 0x0a, 6, 6 },
	};
	struct answer got[MAX_ANSWERS];
	static struct pkt k;
	struct victim v;

	victim_create(&v, RC, V6, 1);
	prepare(&v, IBV_QPS_RTS, NONE);
	victim_post(&v, 2, ROOM);
	for (unsigned int i = 0; i < ARRAY_SIZE(steps); i++) {
		build(&k, &v, steps[i].opcode, v.psn + steps[i].off);
		seal(&k, V6);
		put_out(&k, V6);
		if (is(answers(got, v.num), 1, "%s is answered", steps[i].what))
			is(got[0].msn, steps[i].msn, "its MSN");
	}
	received(&v);
	victim_destroy(&v);
}

/* Congestion notifications are of no queue pair's type; one that is heeded slows it down. */
static void notified(void)
{
	static const struct {
		const char *what;
		enum fault fault;
		unsigned int counts;
	} tries[] = {
		{ "from the peer", NONE, 1 }, { "with another P_Key", PKEY, 0 },
		{ "of a stranger", FROM, 0 }, { "with a wrong ICRC", ICRC, 0 },
		{ "for a number that is nobody's", QPN, 0 },
	};
	struct answer got[MAX_ANSWERS];
	struct ibv_port_attr port;
	static struct pkt k;
	struct victim v;

	victim_create(&v, RC, V6, 1);
	prepare(&v, IBV_QPS_RTS, NONE);
	for (unsigned int i = 0; i < ARRAY_SIZE(tries); i++) {
		const long long before = hw_counter(&ea, "rp_cnp_handled");

		build_fault(&k, &v, CNP, tries[i].fault);
		put_out(&k, tries[i].fault == FROM ? STRANGER : V6);
		is(answers(got, v.num), 0, "a notification %s: nothing is answered", tries[i].what);
		is(hw_counter(&ea, "rp_cnp_handled") - before, tries[i].counts, "and heeded, or not");
	}
	if (ibv_query_port(ea.ctx, 1, &port))
		die("query_port");
	ok(port.bad_pkey_cntr, "a P_Key that is another is counted (%u)", port.bad_pkey_cntr);
	is(port.bad_pkey_cntr, min(hw_counter(&ea, "rx_wrong_pkey"), 0xffffLL),
	   "and told by ibv_query_port");
	victim_destroy(&v);
}

static void truncated(void)
{
	for (enum type type = RC; type < TYPES; type++) {
		unsigned int num = 0, good = 0;
		struct victim v;

		complaints = 0;
		victim_create(&v, type, type & 1 ? V4 : V6, 1);
		prepare(&v, IBV_QPS_RTS, NONE);
		for (int op = 0; op < 32; op++)
			if (spec_find(transports[type] << 5 | op))
				attack_cut(&v, transports[type] << 5 | op, &num, &good);
		is(good, num, "%s: every packet, cut off at each byte", type_names[type]);
		is(attack(&v, IBV_QPS_RTS, transports[type] << 5 | 4, NONE), 1,
		   "and a message is received as ever");
		victim_destroy(&v);
	}
}

static void every_rc(void)
{
	attack_type(RC, V6);
}

static void every_rc4(void)
{
	attack_type(RC, V4);
}

static void every_uc(void)
{
	attack_type(UC, V4);
}

static void every_ud(void)
{
	attack_type(UD, V6);
}

static void every_xrc(void)
{
	attack_type(XRC, V4);
}

/* --- what a requester makes of answers ---------------------- */

enum { WRITES, READS, ADDS };

#define ASKED (2 * MTU + 88)	/* three packets */
#define NOTHING (-1)

static const struct reply {
	const char *what;
	uint8_t request, opcode;
	int32_t off;		/* from its first PSN */
	uint8_t syndrome;
	uint32_t len;
	int status;		/* the request ends so, or NOTHING */
} replies[] = {
	{ "the acknowledgement of all", WRITES, 0x11, 2, 0x1f, 0, IBV_WC_SUCCESS },
	{ "that of the first packet", WRITES, 0x11, 0, 0x1f, 0, NOTHING },
	{ "that of one before", WRITES, 0x11, -1, 0x1f, 0, NOTHING },
	{ "that of one long ago", WRITES, 0x11, -100000, 0x1f, 0, NOTHING },
	{ "that of one never sent", WRITES, 0x11, 3, 0x1f, 0, NOTHING },
	{ "that of one half of all away", WRITES, 0x11, 0x7fffff, 0x1f, 0, NOTHING },
	{ "a sequence error", WRITES, 0x11, 1, 0x60, 0, NOTHING },
	{ "not ready", WRITES, 0x11, 0, 0x21, 0, NOTHING },
	{ "invalid request", WRITES, 0x11, 0, 0x61, 0, IBV_WC_REM_INV_REQ_ERR },
	{ "remote access error", WRITES, 0x11, 0, 0x62, 0, IBV_WC_REM_ACCESS_ERR },
	{ "remote operational error", WRITES, 0x11, 1, 0x63, 0, IBV_WC_REM_OP_ERR },
	{ "an error of one never sent", WRITES, 0x11, 3, 0x62, 0, NOTHING },
	{ "an error of one before", WRITES, 0x11, -1, 0x62, 0, NOTHING },
	{ "a reserved kind", WRITES, 0x11, 2, 0x40, 0, NOTHING },
	{ "another reserved kind", WRITES, 0x11, 2, 0x9f, 0, NOTHING },
	{ "data that nobody asked for", WRITES, 0x10, 0, 0x1f, MTU, NOTHING },
	{ "a result that nobody asked for", WRITES, 0x12, 0, 0x1f, 0, NOTHING },
	{ "the first of it", READS, 0x0d, 0, 0x1f, MTU, NOTHING },
	{ "the last of it first", READS, 0x0f, 2, 0x1f, 88, NOTHING },
	{ "too little", READS, 0x0d, 0, 0x1f, MTU - 4, IBV_WC_BAD_RESP_ERR },
	{ "too much", READS, 0x0d, 0, 0x1f, MTU + 4, IBV_WC_BAD_RESP_ERR },
	{ "a result", READS, 0x12, 0, 0x1f, 0, IBV_WC_BAD_RESP_ERR },
	{ "an acknowledgement", READS, 0x11, 2, 0x1f, 0, NOTHING },
	{ "remote access error", READS, 0x11, 0, 0x62, 0, IBV_WC_REM_ACCESS_ERR },
	{ "more than there is", READS, 0x10, 3, 0x1f, 88, NOTHING },
	{ "the result", ADDS, 0x12, 0, 0x1f, 0, IBV_WC_SUCCESS },
	{ "data", ADDS, 0x10, 0, 0x1f, 8, IBV_WC_BAD_RESP_ERR },
	{ "an acknowledgement", ADDS, 0x11, 0, 0x1f, 0, NOTHING },
	{ "invalid request", ADDS, 0x11, 0, 0x61, 0, IBV_WC_REM_INV_REQ_ERR },
};

static void reply(struct victim *v, uint8_t opcode, int32_t off, uint8_t syndrome, uint32_t len)
{
	static struct pkt k;

	build_len(&k, v, opcode, v->sq_psn + off, len, len);
	if (spec_has(opcode, "AETH"))
		k.b[12] = syndrome;
	seal(&k, v->how);
	put_out(&k, v->how);
}

static void ask(struct victim *v, uint8_t request)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						  IBV_WR_ATOMIC_FETCH_AND_ADD };
	struct ibv_send_wr wr = {
		.wr_id = 5, .opcode = ops[request], .send_flags = IBV_SEND_SIGNALED, .num_sge = 1,
		.sg_list = SGE(room->addr, request == ADDS ? 8 : ASKED, room->lkey),
	};

	/* whatever the peer's memory is like */
	if (request == ADDS)
		wr.wr.atomic.remote_addr = 64;
	if (wr_post(v->qp, &wr))
		die("post_send");
}

/* What it waits for, all of it */
static void reply_well(struct victim *v, uint8_t request)
{
	switch (request) {
	case WRITES:
		reply(v, 0x11, 2, 0x1f, 0);
		break;
	case READS:
		reply(v, 0x0d, 0, 0x1f, MTU);
		reply(v, 0x0e, 1, 0x1f, MTU);
		reply(v, 0x0f, 2, 0x1f, ASKED - 2 * MTU);
		break;
	case ADDS:
		reply(v, 0x12, 0, 0x1f, 0);
		break;
	}
}

static void responses(void)
{
	static const char * const names[] = { "a WRITE", "a READ", "an ATOMIC" };
	struct answer got[MAX_ANSWERS];
	struct victim v;
	struct ibv_wc wc;

	victim_create(&v, RC, V6, 1);
	for (unsigned int i = 0; i < ARRAY_SIZE(replies); i++) {
		const struct reply *r = &replies[i];

		v.sq_psn = (v.sq_psn + 0xfffff0) & 0xffffff;
		prepare(&v, IBV_QPS_RTS, NONE);
		ask(&v, r->request);
		/* it has left by then */
		answers(got, v.num);
		reply(&v, r->opcode, r->off, r->syndrome, r->len);
		answers(got, v.num);
		if (r->status != NOTHING) {
			wc_is(v.cq, 5, r->status, NULL, "%s, %s: %s", names[r->request], r->what,
			      ibv_wc_status_str(r->status));
			is_state(v.qp, r->status ? IBV_QPS_ERR : IBV_QPS_RTS, "the requester");
			continue;
		}
		ok(!ibv_poll_cq(v.cq, 1, &wc), "%s, %s: it goes on", names[r->request], r->what);
		reply_well(&v, r->request);
		wc_is(v.cq, 5, IBV_WC_SUCCESS, NULL, "and ends well with what is right");
	}
	ok(room_whole(), "no byte elsewhere");

	prepare(&v, IBV_QPS_RTS, NONE);
	ask(&v, WRITES);
	ask(&v, WRITES);
	answers(got, v.num);
	reply(&v, 0x11, 5, 0x40, 0);
	answers(got, v.num);
	ok(!ibv_poll_cq(v.cq, 1, &wc), "a reserved kind acknowledges nothing before it either");
	reply(&v, 0x11, 5, 0x1f, 0);
	wc_is(v.cq, 5, IBV_WC_SUCCESS, NULL, "a WRITE");
	wc_is(v.cq, 5, IBV_WC_SUCCESS, NULL, "and another");
	victim_destroy(&v);
}

/* --- messages beside it ---------------------- */

static struct {
	pthread_t thread;
	bool stop;
	unsigned int good, bad;
} beside;

#define BESIDE 20000

static bool message(struct pair *p, enum ibv_wr_opcode opcode, uint64_t key)
{
	const bool read = opcode == IBV_WR_RDMA_READ;
	struct ibv_wc wc;

	pattern_fill(p->buf[read], key, 0, BESIDE);
	memset(p->buf[!read], CANARY, 2 * BESIDE);
	pair_request(p, opcode, BESIDE);
	if (!cq_wait(p->scq[0], &wc, PATIENCE) || wc.status != IBV_WC_SUCCESS)
		return false;
	if (opcode == IBV_WR_SEND && (!cq_wait(p->rcq[1], &wc, PATIENCE) || wc.status))
		return false;
	return pattern_check(p->buf[!read], key, 0, BESIDE) < 0 &&
	       canary_check(p->buf[!read] + BESIDE, BESIDE) < 0;
}

static void *beside_thread(void *arg)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						      IBV_WR_RDMA_READ };
	struct pair *p = arg;

	for (unsigned int i = 0; !__atomic_load_n(&beside.stop, __ATOMIC_RELAXED); i++) {
		if (message(p, opcodes[i % ARRAY_SIZE(opcodes)], i))
			beside.good++;
		else
			beside.bad++;
		if (beside.bad)
			break;
		usleep(1000);
	}
	return NULL;
}

static struct pair beside_pair;

static void beside_start(void)
{
	pair_create(&beside_pair, &ea, &eb, &(struct pair_opts) {
		.sq = 32, .rq = 32, .sge = 1, .buf = 2 * BESIDE,
		.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	});
	beside_pair.conn.timeout = 16;
	pair_connect(&beside_pair);
	memset(&beside, 0, sizeof(beside));
	if (pthread_create(&beside.thread, NULL, beside_thread, &beside_pair))
		die("thread");
}

static void beside_end(void)
{
	const double end = now() + PATIENCE;

	/* with one processor, a short test may be over before the thread has had it */
	while (!__atomic_load_n(&beside.good, __ATOMIC_RELAXED) && now() < end)
		sleep_ms(1);
	__atomic_store_n(&beside.stop, true, __ATOMIC_RELAXED);
	pthread_join(beside.thread, NULL);
	is(beside.bad, 0, "messages of others beside it: %u, every byte", beside.good);
	ok(beside.good, "and there were some");
	pair_destroy(&beside_pair);
}

static void with_room(void (*fn)(void))
{
	cpu_set_t one;

	if (!xrcd)
		xrcd = xrcd_make(&ea);
	if (!xrcd)
		die("no XRC domain");
	conn = conn_default;
	conn.mtu = IBV_MTU_256;
	conn.min_rnr_timer = RNR_TIMER;
	conn.rd_atomic = 4;
	end6 = ea;
	for (int i = 0; i < ea.port.gid_tbl_len; i++) {
		struct ibv_gid_entry entry;

		if (!ibv_query_gid_ex(ea.ctx, 1, i, &entry, 0) &&
		    entry.gid_type == IBV_GID_TYPE_ROCE_V2 && !memcmp(&entry.gid, &addr6[0], 16))
			end6.gid_index = i;
	}
	around = aligned_alloc(4096, 3 * ROOM);
	memset(around, CANARY, 3 * ROOM);
	room = ibv_reg_mr(ea.pd, around + ROOM, ROOM, IBV_ACCESS_LOCAL_WRITE |
			  IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			  IBV_ACCESS_REMOTE_ATOMIC);
	if (!room)
		die("reg_mr");
	/* what is sent from one processor arrives in its order */
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	control_up();
	fn();
	victim_destroy(&control);
	if (ibv_dereg_mr(room) || ibv_close_xrcd(xrcd))
		die("dereg");
	xrcd = NULL;
	free(around);
}

/* Its thread may run anywhere. */
static void with_all(void (*fn)(void))
{
	beside_start();
	with_room(fn);
	beside_end();
}

/* --- a fuzzer ---------------------- */

#define VICTIMS 14
#define FIRST_REQUESTER 10
#define MAX_BURST 40
#define MILLION 1000000

static struct victim victims[VICTIMS];
static struct rng rng;

static struct {
	unsigned long long pkts, bursts, pieces, mutated, dead, received, done;
	unsigned long long acks, naks, rnrs, data, requests;
} count;

static unsigned int one_in(unsigned int n)
{
	return !rng_in(&rng, 0, n - 1);
}

static bool requests(const struct victim *v)
{
	return v - victims >= FIRST_REQUESTER;
}

/* What a requester has out, for somebody who may answer */
static void post_requests(struct victim *v)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						  IBV_WR_ATOMIC_FETCH_AND_ADD };

	for (int i = 0; i < 8; i++) {
		const enum ibv_wr_opcode op = ops[rng_in(&rng, 0, 3)];
		const bool atomic = op == IBV_WR_ATOMIC_FETCH_AND_ADD;
		const uint32_t len = atomic ? 8 : rng_in(&rng, 0, 4000);
		struct ibv_send_wr wr = {
			.wr_id = 1000, .opcode = op, .send_flags = IBV_SEND_SIGNALED, .num_sge = 1,
			.sg_list = SGE(room->addr, len, room->lkey),
		};

		if (atomic)
			wr.wr.atomic.remote_addr = 64;
		else
			wr.wr.rdma.remote_addr = 64;
		wr_post(v->qp, &wr);
	}
}

static void revive(struct victim *v)
{
	static const enum ibv_qp_state states[] = { IBV_QPS_RTS, IBV_QPS_RTS, IBV_QPS_RTS,
						    IBV_QPS_RTR, IBV_QPS_SQD };

	v->psn = rng_next(&rng) & 0xffffff;
	v->sq_psn = v->asked = rng_next(&rng) & 0xffffff;
	v->asked_op = 0;
	v->pkts = 0;
	if (!victim_to(v, requests(v) ? IBV_QPS_RTS : states[rng_in(&rng, 0, 4)]))
		die("to life");
	victim_post(v, 12, rng_in(&rng, 0, ROOM));
	if (requests(v))
		post_requests(v);
}

static int32_t psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

/* All but what is READ is a packet of a message or one whole. */
static void begin(struct victim *v, uint8_t *opcode, uint32_t *len, uint32_t *total)
{
	const struct spec_op *op;

	do {
		*opcode = transports[v->type] << 5 | rng_in(&rng, 0, 31);
		op = spec_find(*opcode);
	} while (!op || spec_is_response(op) || !spec_starts(op) ||
		 (strstr(op->name, "Invalidate") && !one_in(20)) ||
		 (strstr(op->name, "FLUSH") && !one_in(20)));
	v->first = v->psn;
	v->pkts = spec_ends(op) ? 1 : rng_in(&rng, 2, 20);
	v->tail = rng_in(&rng, 1, MTU);
	*len = payload_len(*opcode);
	if (spec_ends(op) && *len && *len != 8)
		*len = rng_in(&rng, 0, MTU);
	*total = spec_ends(op) ? *len : (v->pkts - 1) * MTU + v->tail;
	if (op_is(*opcode, "READ Req"))
		*total = rng_in(&rng, 0, 4000);
	v->cls = *opcode & 0x1f;
}

static void go_on(struct victim *v, uint8_t *opcode, uint32_t *len)
{
	const bool last = psn_diff(v->psn, v->first) == (int32_t)v->pkts - 1;
	const bool write = v->cls == 0x06;
	static const uint8_t lasts[] = { 0x02, 0x02, 0x03 };

	*opcode = transports[v->type] << 5 | (write ? 6 : 0) |
		  (last ? lasts[rng_in(&rng, 0, 2)] : 1);
	*len = last ? v->tail : MTU;
}

/* What comes next of what a peer in its right mind sends */
static void next_request(struct victim *v, struct pkt *k)
{
	uint32_t len, total = 0, psns = 1;
	uint8_t opcode;
	const int32_t at = psn_diff(v->psn, v->first);

	if (v->pkts > 1 && at > 0 && at < (int32_t)v->pkts)
		go_on(v, &opcode, &len);
	else
		begin(v, &opcode, &len, &total);
	build_len(k, v, opcode, v->psn, len, total);
	if (op_is(opcode, "READ Req") && total)
		psns = (total + MTU - 1) / MTU;
	v->psn = (v->psn + psns) & 0xffffff;
}

/* An answer to what the requester has sent last, good or bad */
static void next_response(struct victim *v, struct pkt *k)
{
	static const uint8_t ops[] = { 0x11, 0x11, 0x11, 0x0d, 0x0e, 0x0f, 0x10, 0x12, GAP_REPORT, 0x81 };
	static const uint8_t syndromes[] = { 0x1f, 0x1f, 0x1f, 0x1f, 0x00, 0x60, 0x60, 0x20 };
	uint8_t opcode = ops[rng_in(&rng, 0, ARRAY_SIZE(ops) - 1)];
	uint32_t psn = v->asked, num = (v->asked_len + MTU - 1) / MTU, len = payload_len(opcode);

	if (v->asked_op == 0x0c && one_in(2)) {
		/* of a READ, one after the other */
		num = max(num, 1U);
		psn += v->given;
		opcode = num == 1 ? 0x10 : !v->given ? 0x0d : v->given + 1 < num ? 0x0e : 0x0f;
		len = v->given + 1 < num ? MTU : v->asked_len - v->given * MTU;
		v->given = (v->given + 1) % num;
	} else if (v->asked_op == 0x14 && one_in(2)) {
		opcode = 0x12;
		len = 0;
	} else if (!one_in(3)) {
		psn += rng_in(&rng, 0, 24) - 8;
	}
	build_len(k, v, opcode, psn, len, len);
	if (spec_has(opcode, "AETH"))
		k->b[12] = one_in(50) ? rng_next(&rng) :
			   syndromes[rng_in(&rng, 0, ARRAY_SIZE(syndromes) - 1)];
	if (opcode == GAP_REPORT) {
		const unsigned int words = rng_in(&rng, 1, 33);
		unsigned int at = 0;

		put(k->b + 12, 0x73726f63, 4);
		for (unsigned int i = 0; i < words; i++) {
			put(k->b + 16 + 4 * i, at, 2);
			put(k->b + 18 + 4 * i, i + 1 < words ? rng_in(&rng, 1, 3) : 0, 2);
			at += rng_in(&rng, 1, 6);
		}
		k->len = 16 + 4 * words + 4;
	}
}

/* Something of it becomes something else. */
static void mutate(struct pkt *k, size_t header)
{
	static const uint64_t odd[] = { 0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0xffffff00, 0x40000000 };
	const size_t at = rng_in(&rng, 0, min(header, k->len - 1));

	switch (rng_in(&rng, 0, 11)) {
	case 0: case 1: case 2:
		k->b[at] ^= 1 << rng_in(&rng, 0, 7);
		break;
	case 3:
		k->b[at] = rng_next(&rng);
		break;
	case 4:
		put(k->b + (at & ~3), odd[rng_in(&rng, 0, ARRAY_SIZE(odd) - 1)], 4);
		break;
	case 5:
		k->len = rng_in(&rng, 0, k->len);
		break;
	case 6:
		k->len = min(k->len + 4 * rng_in(&rng, 0, 100), (size_t)1400);
		break;
	case 7:
		put(k->b + 9, get(k->b + 9, 3) + rng_in(&rng, 0, 40) - 20, 3);
		break;
	case 8:
		put(k->b + 9, rng_next(&rng), 3);
		break;
	case 9:
		k->b[0] = (k->b[0] & 0xe0) | rng_in(&rng, 0, 31);
		break;
	case 10:
		put(k->b + 5, victims[rng_in(&rng, 0, VICTIMS - 1)].qp->qp_num, 3);
		break;
	case 11:
		k->b[1] ^= rng_in(&rng, 0, 3) << 4;
		break;
	}
	/* who sends from the right address to the right number is whom it is connected with */
	if (get(k->b + 5, 3) == control.qp->qp_num || get(k->b + 5, 3) == beside_pair.qp[0]->qp_num)
		put(k->b + 5, NOBODY, 3);
	/* in all that was touched there may be more than there is of it */
	if (k->len < 16)
		memset(k->b + k->len, 0, 16);
}

static void next_packet(struct victim *v, struct pkt *k)
{
	if (requests(v) && !one_in(4))
		next_response(v, k);
	else
		next_request(v, k);
	if (one_in(4)) {
		const uint32_t psn = v->psn;

		do
			mutate(k, header_len(k->b[0]) + 4);
		while (one_in(3));
		count.mutated++;
		/* it may be that nobody has noticed */
		if (one_in(2))
			v->psn = (psn - 1) & 0xffffff;
	}
	seal(k, v->how);
	if (one_in(50) && k->len)
		k->b[rng_in(&rng, 0, k->len - 1)] ^= 1 << rng_in(&rng, 0, 7);
}

/* Packets of one length, and perhaps a shorter one: an skb that is to be segmented */
static void send_burst(struct victim *v)
{
	static uint8_t buf[65536];
	char control_buf[CMSG_SPACE(sizeof(uint16_t))] = {};
	struct iovec iov = { .iov_base = buf };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control_buf, .msg_controllen = sizeof(control_buf),
	};
	struct cmsghdr *cm = CMSG_FIRSTHDR(&msg);
	const unsigned int most = rng_in(&rng, 2, MAX_BURST);
	unsigned int num = 0;
	static struct pkt k;
	size_t len = 0, seg = 0;

	while (num < most && len < sizeof(buf) - sizeof(k.b)) {
		next_packet(v, &k);
		/* the first says how long they are, and the first of another length is the last */
		if (!k.len || (seg && k.len > seg))
			break;
		if (!seg)
			seg = k.len;
		memcpy(buf + len, k.b, k.len);
		len += k.len;
		num++;
		if (k.len < seg)
			break;
	}
	if (!seg)
		return;
	iov.iov_len = len;
	cm->cmsg_level = SOL_UDP;
	cm->cmsg_type = UDP_SEGMENT;
	cm->cmsg_len = CMSG_LEN(sizeof(uint16_t));
	*(uint16_t *)CMSG_DATA(cm) = seg;
	if (num < 2)
		msg.msg_controllen = 0;
	if (sendmsg(udp_fd, &msg, 0) < 0 && errno != ENOBUFS && errno != EMSGSIZE && errno != EINVAL)
		die("sendmsg of %zu bytes in %zu", len, seg);
	count.bursts++;
	count.pkts += num;
}

/* More than the netdev takes: it arrives in pieces, and is put together. */
static void send_pieces(struct victim *v, struct pkt *k)
{
	static const uint8_t ops[] = { 0x04, 0x0a, 0x01, 0x07, 0x0e };
	const uint8_t op = transports[v->type] << 5 | ops[rng_in(&rng, 0, ARRAY_SIZE(ops) - 1)];
	const uint32_t len = rng_in(&rng, 1400, 8000);

	build_len(k, v, op, v->psn, len, len);
	seal(k, V6);
	put_out(k, V6);
	count.pieces++;
	count.pkts++;
}

/* It says that it has got less than we think, or more. */
static void learn(struct victim *v, const struct answer *a)
{
	switch (a->opcode & 0x1f) {
	case 0x11:
		if (a->syndrome <= 0x1f) {
			count.acks++;
			if (psn_diff(a->psn + 1, v->psn) > 0)
				v->psn = (a->psn + 1) & 0xffffff;
			break;
		}
		count.naks += a->syndrome >= 0x60;
		count.rnrs += a->syndrome >> 5 == 1;
		if (a->syndrome > 0x60)
			v->dead = true;
		else
			v->psn = a->psn;
		break;
	case 0x0d: case 0x0e: case 0x0f: case 0x10: case 0x12:
		count.data++;
		break;
	default:
		/* a request of its own */
		count.requests++;
		v->asked = a->psn;
		v->asked_op = a->opcode & 0x1f;
		v->asked_len = a->len;
		v->given = 0;
	}
}

static void look(void)
{
	struct answer a;

	while (see(&a, MSG_DONTWAIT))
		if (a.num - OURS < VICTIMS)
			learn(&victims[a.num - OURS], &a);
}

static void tend(struct victim *v)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(v->cq, 1, &wc) > 0) {
		/* of one that failed, only the status counts */
		if (wc.wr_id < 1000)
			v->posted -= !!v->posted;
		count.received += wc.wr_id < 1000 && wc.status == IBV_WC_SUCCESS;
		count.done += wc.wr_id >= 1000;
		if (wc.status != IBV_WC_SUCCESS)
			v->dead = true;
	}
	if (v->dead) {
		v->dead = false;
		count.dead++;
		revive(v);
	} else if (v->posted < 6) {
		victim_post(v, 12, rng_in(&rng, 0, ROOM));
	}
}

static void fuzz_round(struct pkt *k)
{
	for (int i = 0; i < 32; i++) {
		struct victim *v = &victims[rng_in(&rng, 0, VICTIMS - 1)];

		if (v->how == V6 && one_in(8)) {
			send_burst(v);
		} else if (one_in(100)) {
			send_pieces(v, k);
		} else {
			next_packet(v, k);
			put_out(k, v->how);
			count.pkts++;
		}
	}
	look();
	for (int i = 0; i < VICTIMS; i++)
		tend(&victims[i]);
}

static unsigned long long env(const char *name, unsigned long long without)
{
	const char *s = getenv(name);

	return s && *s ? strtoull(s, NULL, 0) : without;
}

/*
 * packets.sh has them taken by several processors, and so in any order. What is judged by
 * its answers wants one processor, as all tests but this have.
 */
static void one_by_one(void)
{
	if (system("for h in a/v0 b/v1; do ip netns exec ${h%/*} sh -c \""
		   "for q in /sys/class/net/${h#*/}/queues/rx-*/rps_cpus; do echo 0 >\\$q; done\"; "
		   "done 2>/dev/null"))
		diag("no RPS");
}

static void fuzz(void)
{
	const unsigned long long want = env("COUNT", 50000);
	const uint64_t seed = env("SEED", time(NULL));
	unsigned int good = 0;
	unsigned long long said = 0;
	static struct pkt k;
	double took = now();
	struct answer late;

	rng.s = seed;
	complaints = 0;
	diag("%llu packets, SEED=%llu", want, (unsigned long long)seed);
	for (unsigned int i = 0; i < VICTIMS; i++) {
		static const enum type types[VICTIMS] = { RC, RC, RC, RC, UC, UC, UD, UD, XRC, XRC };

		victim_create(&victims[i], types[i], i & 1 ? V4 : V6, i);
		revive(&victims[i]);
	}
	for (unsigned int round = 0; count.pkts < want && !beside.bad; round++) {
		fuzz_round(&k);
		if (count.pkts / MILLION != said) {
			said = count.pkts / MILLION;
			diag("%llu million after %.0f s", said, now() - took);
		}
		/* some end without a word */
		for (int i = 0; round % 64 == 63 && i < VICTIMS; i++)
			victims[i].dead = qp_state(victims[i].qp) > IBV_QPS_SQD || one_in(32);
	}
	took = now() - took;
	diag("%llu packets in %.1f s, %llu of them mutated; %llu bursts, %llu in pieces", count.pkts, took,
	     count.mutated, count.bursts, count.pieces);
	diag("%llu ACKs, %llu NAKs, %llu RNR NAKs, %llu with data; %llu messages received", count.acks,
	     count.naks, count.rnrs, count.data, count.received);
	diag("%llu requests of theirs, %llu completed; %llu times one had to begin anew",
	     count.requests, count.done, count.dead);
	ok(count.pkts >= want, "all were sent");
	ok(room_whole(), "no byte was written that nobody has the key to");
	for (int i = 0; i < VICTIMS; i++)
		if (qp_to(victims[i].qp, IBV_QPS_RESET))
			die("to RESET");
	one_by_one();
	/* what another processor was still at has been answered */
	usleep(100000 * patience_times());
	while (see(&late, MSG_DONTWAIT))
		;
	for (int i = 0; i < VICTIMS; i++) {
		struct victim *v = &victims[i];

		use_up(v);
		prepare(v, IBV_QPS_RTS, NONE);
		good += attack(v, IBV_QPS_RTS, transports[v->type] << 5 | 4, NONE);
		victim_destroy(v);
	}
	is(good, VICTIMS, "each of them, set up anew, receives a message");
}

static const struct test tests[] = {
	TEST(every_rc, .with = with_all),
	TEST(every_rc4, .with = with_all),
	TEST(every_uc, .with = with_all),
	TEST(every_ud, .with = with_all),
	TEST(every_xrc, .with = with_all),
	TEST(truncated, .with = with_all),
	TEST(responses, .with = with_all),
	TEST(notified, .with = with_all),
	TEST(remembered, .with = with_all),
	TEST(strange_srq, .with = with_all),
	TEST(numbered, .with = with_room),
	TEST(uncounted, .with = with_room),
	TEST(counted, .with = with_room),
	TEST(refused, .with = with_room),
	TEST(fuzz, .with = with_all),
};

int main(int argc, char **argv)
{
	wire_up();
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
