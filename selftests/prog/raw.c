// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * raw - Ethernet frames: raw packet queue pairs, flow steering, work queues
 * and how frames are spread over them.
 *
 * Links DEV on netdev v0 of namespace a and DEV2 on v1 of b, both in this
 * process. Packet sockets are the other side of the wire.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

#define SLOT		2048
#define KEY_LEN		40

static struct end ends[2];

/* The netdev under a link, and the stack's side of it. */
struct port {
	struct end *e;
	const char *ns, *dev;
	uint8_t mac[6];
	int ifindex;
	int sock;
};

static struct port ports[2] = {
	{ .e = &ends[0], .ns = "a", .dev = "v0", .sock = -1 },
	{ .e = &ends[1], .ns = "b", .dev = "v1", .sock = -1 },
};

static int ns_socket(const char *ns, int domain, int type, int proto)
{
	const int home = host_enter(ns), fd = socket(domain, type, proto);

	if (fd < 0)
		die("socket in %s", ns);
	host_leave(home);
	return fd;
}

static void ports_open(void)
{
	for (int i = 0; i < 2; i++) {
		struct port *p = &ports[i];
		struct sockaddr_ll ll = { .sll_family = AF_PACKET };
		struct ifreq ifr = {};

		if (p->sock >= 0)
			continue;
		p->sock = ns_socket(p->ns, AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL));
		strcpy(ifr.ifr_name, p->dev);
		if (ioctl(p->sock, SIOCGIFINDEX, &ifr))
			die("%s: %s", p->dev, strerror(errno));
		p->ifindex = ifr.ifr_ifindex;
		if (ioctl(p->sock, SIOCGIFHWADDR, &ifr))
			die("%s: %s", p->dev, strerror(errno));
		memcpy(p->mac, ifr.ifr_hwaddr.sa_data, 6);
		ll.sll_protocol = htons(ETH_P_ALL);
		ll.sll_ifindex = p->ifindex;
		if (bind(p->sock, (void *)&ll, sizeof(ll)))
			die("bind to %s: %s", p->dev, strerror(errno));
	}
}

static void sock_drain(struct port *p)
{
	uint8_t b[SLOT];

	while (recv(p->sock, b, sizeof(b), 0) >= 0)
		;
}

/* Does this frame come in within so long? */
static bool sock_sees(struct port *p, const void *frame, size_t len, double seconds)
{
	double end = now() + seconds;
	uint8_t b[65536];

	do {
		struct sockaddr_ll from;
		socklen_t n = sizeof(from);
		ssize_t r = recvfrom(p->sock, b, sizeof(b), 0, (void *)&from, &n);

		if (r < 0)
			sleep_ms(1);
		else if (from.sll_pkttype != PACKET_OUTGOING && (size_t)r == len &&
			 !memcmp(b, frame, len))
			return true;
	} while (now() < end);
	return false;
}

static void sock_send(struct port *p, const void *frame, size_t len)
{
	if (send(p->sock, frame, len, 0) != (ssize_t)len)
		die("send on %s: %s", p->dev, strerror(errno));
}

/* Frames */

struct frame {
	uint8_t b[SLOT];
	size_t len;
};

enum base { UDP4, TCP4, UDP6, TCP6, VLAN4 };

/* Where things are, without a tag */
#define IP		14
#define L4_4		(IP + 20)
#define L4_6		(IP + 40)

static const uint8_t stranger[6] = { 0x02, 0, 0, 0, 0, 0x99 };
static const uint8_t group[6] = { 0x01, 0x50, 0x56, 0x19, 0x20, 0xa7 };

static void put16(uint8_t *p, unsigned int v)
{
	p[0] = v >> 8;
	p[1] = v;
}

static unsigned int get16(const uint8_t *p)
{
	return p[0] << 8 | p[1];
}

static uint32_t sum16(uint32_t sum, const uint8_t *p, size_t len)
{
	for (; len > 1; p += 2, len -= 2)
		sum += get16(p);
	if (len)
		sum += p[0] << 8;
	return sum;
}

static uint16_t fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static void frame_make(struct frame *f, enum base base, const uint8_t *dmac, size_t payload)
{
	const bool six = base == UDP6 || base == TCP6, tcp = base == TCP4 || base == TCP6;
	const size_t l4 = (tcp ? 20 : 8) + payload;
	uint8_t *p = f->b;

	memset(f, 0, sizeof(*f));
	memcpy(p, dmac, 6);
	memcpy(p + 6, "\x02\x11\x22\x33\x44\x55", 6);
	p += 12;
	if (base == VLAN4) {
		put16(p, 0x8100);
		put16(p + 2, 0x6123);
		p += 4;
	}
	put16(p, six ? 0x86dd : 0x0800);
	p += 2;
	if (six) {
		memcpy(p, "\x6a\xb1\x23\x45", 4);
		put16(p + 4, l4);
		p[6] = tcp ? 6 : 17;
		p[7] = 61;
		memcpy(p + 8, "\xfd\x99\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x01", 16);
		memcpy(p + 24, "\xfd\x99\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x02", 16);
		p += 40;
	} else {
		memcpy(p, "\x45\x28", 2);
		put16(p + 2, 20 + l4);
		put16(p + 6, 0x4000);
		p[8] = 63;
		p[9] = tcp ? 6 : 17;
		memcpy(p + 12, "\x0a\x63\x01\x01\x0a\x63\x01\x02", 8);
		put16(p + 10, ~fold(sum16(0, p, 20)));
		p += 20;
	}
	put16(p, 4321);
	put16(p + 2, 8765);
	if (tcp)
		p[12] = 0x50;
	else
		put16(p + 4, l4);
	p += tcp ? 20 : 8;
	pattern_fill(p, 1, 0, payload);
	f->len = p + payload - f->b;
}

/* Queue pairs */

struct queue {
	struct ibv_pd *pd;
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	unsigned int slots;
};

struct got {
	uint8_t *b;
	uint32_t len;
	int status;
	uint32_t flags;
	uint32_t tag;
	uint32_t qpn;
	uint16_t vlan;
	uint64_t slot;
};

static void queue_post(struct queue *q, uint64_t slot, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)q->mr->addr + slot * SLOT, len, q->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (ibv_post_recv(q->qp, &wr, &bad))
		die("post_recv");
}

static void qp_up(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT) || qp_to(qp, IBV_QPS_RTR) ||
	    qp_to(qp, IBV_QPS_RTS))
		die("raw packet queue pair: %s", strerror(errno));
}

static void queue_make(struct queue *q, struct end *e, unsigned int slots, uint32_t create_flags)
{
	struct ibv_cq_init_attr_ex cq = {
		.cqe = 2 * slots + 16,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM |
			    IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_FLOW_TAG,
	};
	struct ibv_qp_init_attr_ex init = {
		.cap = { .max_send_wr = 16, .max_recv_wr = slots, .max_send_sge = 4, .max_recv_sge = 4,
			 .max_inline_data = 128 },
		.qp_type = IBV_QPT_RAW_PACKET,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | (create_flags ? IBV_QP_INIT_ATTR_CREATE_FLAGS : 0),
		.create_flags = create_flags,
		.pd = e->pd,
	};

	q->pd = e->pd;
	q->slots = slots;
	q->cq = ibv_create_cq_ex(e->ctx, &cq);
	if (!q->cq)
		die("create_cq_ex: %s", strerror(errno));
	init.send_cq = ibv_cq_ex_to_cq(q->cq);
	init.recv_cq = init.send_cq;
	q->qp = ibv_create_qp_ex(e->ctx, &init);
	if (!q->qp)
		die("create_qp_ex: %s", strerror(errno));
	q->mr = mr_make(e, (size_t)slots * SLOT, IBV_ACCESS_LOCAL_WRITE);
	qp_up(q->qp);
	for (unsigned int i = 0; i < slots; i++)
		queue_post(q, i, SLOT);
}

static void queue_drop(struct queue *q)
{
	if (ibv_destroy_qp(q->qp) || ibv_destroy_cq(ibv_cq_ex_to_cq(q->cq)))
		die("destroy: %s", strerror(errno));
	mr_drop(q->mr);
}

static bool queue_get(struct queue *q, struct got *g, double seconds)
{
	struct ibv_poll_cq_attr attr = {};
	double end = now() + seconds;
	struct ibv_cq_ex *cq = q->cq;
	int ret;

	do {
		ret = ibv_start_poll(cq, &attr);
		if (ret == ENOENT)
			sleep_ms(1);
	} while (ret == ENOENT && now() < end);
	if (ret)
		return false;
	*g = (struct got) { .slot = cq->wr_id, .status = cq->status };
	g->qpn = ibv_wc_read_qp_num(cq);
	if (!g->status && ibv_wc_read_opcode(cq) == IBV_WC_RECV) {
		g->len = ibv_wc_read_byte_len(cq);
		g->flags = ibv_wc_read_wc_flags(cq);
		g->tag = ibv_wc_read_flow_tag(cq);
		g->vlan = ibv_wc_read_cvlan(cq);
		g->b = (uint8_t *)q->mr->addr + g->slot * SLOT;
	}
	ibv_end_poll(cq);
	return true;
}

/* What hosts have to say to each other at any time: ARP, ICMPv6 (neighbours, groups) */
static bool chatter(const struct got *g)
{
	const uint16_t type = g->b[12] << 8 | g->b[13];

	return !g->status && (type == 0x0806 || (type == 0x86dd && (g->b[20] == 58 || !g->b[20])));
}

/* The next completion is this frame, but for what hosts say meanwhile. */
static bool queue_has(struct queue *q, const struct frame *f, struct got *g)
{
	struct got got;
	bool it;

	if (!g)
		g = &got;
	for (;;) {
		if (!queue_get(q, g, 5)) {
			diag("no frame");
			return false;
		}
		it = !g->status && g->len == f->len && !memcmp(g->b, f->b, f->len);
		if (!it && !chatter(g))
			break;
		queue_post(q, g->slot, SLOT);
		if (it)
			return true;
	}
	diag("status %d, %u bytes for %zu", g->status, g->len, f->len);
	return false;
}

/* This frame comes, among others that are none of ours. */
static bool queue_sees(struct queue *q, const struct frame *f)
{
	struct got g;

	while (queue_get(q, &g, 5) && !g.status) {
		bool it = g.len == f->len && !memcmp(g.b, f->b, f->len);

		queue_post(q, g.slot, SLOT);
		if (it)
			return true;
	}
	return false;
}

static bool queue_quiet(struct queue *q)
{
	struct got g;
	bool any;

	while ((any = queue_get(q, &g, 0.05)) && chatter(&g))
		queue_post(q, g.slot, SLOT);
	if (!any)
		return true;
	diag("status %d, %u bytes", g.status, g.len);
	return false;
}

/* Send and see it complete; the frame lies behind the queue pair's slots */
static int queue_send(struct queue *q, const struct frame *f, int flags)
{
	struct ibv_mr *mr = NULL;
	struct ibv_sge sge[2] = {};
	struct ibv_send_wr wr = { .wr_id = 77, .opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 2,
				  .send_flags = flags }, *bad;
	struct got g;

	mr = ibv_reg_mr(q->pd, (void *)f->b, sizeof(f->b), 0);
	if (!mr)
		die("reg_mr");
	sge[0] = (struct ibv_sge) { (uintptr_t)f->b, min(f->len, 20), mr->lkey };
	sge[1] = (struct ibv_sge) { (uintptr_t)f->b + sge[0].length, f->len - sge[0].length, mr->lkey };
	if (ibv_post_send(q->qp, &wr, &bad))
		die("post_send");
	if (!queue_get(q, &g, PATIENCE) || g.slot != 77)
		die("the send does not complete");
	ibv_dereg_mr(mr);
	return g.status;
}

/* Rules */

struct rule {
	struct ibv_flow_attr attr;
	uint8_t specs[600];
	size_t len;
};

static void rule_init(struct rule *r, int type, int priority, uint32_t flags)
{
	memset(r, 0, sizeof(*r));
	r->attr.type = type;
	r->attr.priority = priority;
	r->attr.flags = flags;
	r->attr.port = 1;
	r->attr.size = sizeof(r->attr);
}

static void rule_add(struct rule *r, const void *spec, size_t size)
{
	memcpy((uint8_t *)(&r->attr + 1) + r->len, spec, size);
	r->len += size;
	r->attr.size += size;
	r->attr.num_of_specs++;
}

#define ADD(r, ...) do {							\
	__VA_ARGS__;								\
	rule_add(r, &s, sizeof(s));						\
} while (0)

static void rule_dmac(struct rule *r, const uint8_t *mac)
{
	struct ibv_flow_spec_eth s = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof(s) };

	memcpy(s.val.dst_mac, mac, 6);
	memset(s.mask.dst_mac, 0xff, 6);
	rule_add(r, &s, sizeof(s));
}

static void rule_vlan(struct rule *r, const uint8_t *mac, uint16_t vid)
{
	struct ibv_flow_spec_eth s = {
		.type = IBV_FLOW_SPEC_ETH, .size = sizeof(s),
		.val.vlan_tag = htons(vid), .mask.vlan_tag = htons(0xfff),
	};

	memcpy(s.val.dst_mac, mac, 6);
	memset(s.mask.dst_mac, 0xff, 6);
	rule_add(r, &s, sizeof(s));
}

static void rule_dport(struct rule *r, int type, uint16_t port)
{
	struct ibv_flow_spec_tcp_udp s = { .type = type, .size = sizeof(s) };

	s.val.dst_port = htons(port);
	s.mask.dst_port = 0xffff;
	rule_add(r, &s, sizeof(s));
}

static void rule_tag(struct rule *r, uint32_t tag)
{
	struct ibv_flow_spec_action_tag s = {
		.type = IBV_FLOW_SPEC_ACTION_TAG, .size = sizeof(s), .tag_id = tag,
	};

	rule_add(r, &s, sizeof(s));
}

static void rule_drop(struct rule *r)
{
	struct ibv_flow_spec_action_drop s = {
		.type = IBV_FLOW_SPEC_ACTION_DROP, .size = sizeof(s),
	};

	rule_add(r, &s, sizeof(s));
}

static struct ibv_flow *rule_try(struct ibv_qp *qp, struct rule *r)
{
	return ibv_create_flow(qp, &r->attr);
}

static struct ibv_flow *rule_make(struct ibv_qp *qp, struct rule *r)
{
	struct ibv_flow *flow = rule_try(qp, r);

	if (!flow)
		die("create_flow: %s", strerror(errno));
	return flow;
}

static struct ibv_flow *steer_dmac(struct queue *q, const uint8_t *mac)
{
	struct rule r;

	rule_init(&r, IBV_FLOW_ATTR_NORMAL, 0, 0);
	rule_dmac(&r, mac);
	return rule_make(q->qp, &r);
}

static void unsteer(struct ibv_flow *flow)
{
	if (ibv_destroy_flow(flow))
		die("destroy_flow: %s", strerror(errno));
}

/* Both ways over the wire, and to and from the stack */
static void test_wire(void)
{
	struct ibv_flow *flow[2];
	struct queue q[2];
	struct frame f;

	for (int i = 0; i < 2; i++) {
		queue_make(&q[i], &ends[i], 16, 0);
		flow[i] = steer_dmac(&q[i], stranger);
	}
	for (int i = 0; i < 2; i++) {
		for (size_t len = 14; len <= 1514; len += 300) {
			frame_make(&f, UDP4, stranger, 1500 - 28);
			f.len = len;
			is(queue_send(&q[i], &f, 0), IBV_WC_SUCCESS, "%zu bytes are sent", len);
			ok(queue_has(&q[!i], &f, NULL), "and arrive");
		}
		frame_make(&f, VLAN4, stranger, 1500 - 28);
		is(queue_send(&q[i], &f, 0), IBV_WC_SUCCESS, "a whole MTU with a tag");
		ok(queue_has(&q[!i], &f, NULL), "arrives, with its tag");
		frame_make(&f, UDP6, stranger, 40);
		is(queue_send(&q[i], &f, IBV_SEND_INLINE), IBV_WC_SUCCESS, "an inline frame");
		ok(queue_has(&q[!i], &f, NULL), "arrives");
		sock_send(&ports[i], f.b, f.len);
		ok(queue_has(&q[!i], &f, NULL), "so does one from a packet socket");
		frame_make(&f, UDP4, ports[!i].mac, 100);
		sock_drain(&ports[!i]);
		is(queue_send(&q[i], &f, 0), IBV_WC_SUCCESS, "one that nobody steers");
		ok(sock_sees(&ports[!i], f.b, f.len, 5), "reaches the stack");
		ok(queue_quiet(&q[!i]), "and no queue pair");
	}
	for (int i = 0; i < 2; i++) {
		unsteer(flow[i]);
		queue_drop(&q[i]);
	}
}

static void wrong_send(const struct frame *f, int want, const char *what)
{
	struct queue q;

	queue_make(&q, &ends[0], 4, 0);
	is(queue_send(&q, f, 0), want, "%s", what);
	is_state(q.qp, IBV_QPS_ERR, what);
	queue_drop(&q);
}

static void test_wrong(void)
{
	struct ibv_sge sge = { 4096, 64, 0x12345600 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 }, *bad;
	struct queue q;
	struct frame f;
	struct got g;

	frame_make(&f, UDP4, stranger, 1500 - 28);
	f.len = 13;
	wrong_send(&f, IBV_WC_LOC_LEN_ERR, "13 bytes");
	f.len = 1515;
	wrong_send(&f, IBV_WC_LOC_LEN_ERR, "more than the MTU");
	frame_make(&f, VLAN4, stranger, 1500 - 28);
	f.len++;
	wrong_send(&f, IBV_WC_LOC_LEN_ERR, "more than the MTU with a tag");

	queue_make(&q, &ends[0], 4, 0);
	if (ibv_post_send(q.qp, &wr, &bad))
		die("post_send");
	ok(queue_get(&q, &g, PATIENCE) && g.status == IBV_WC_LOC_PROT_ERR, "a wrong key");
	for (int i = 0; i < 4; i++)
		ok(queue_get(&q, &g, PATIENCE) && g.status == IBV_WC_WR_FLUSH_ERR,
		   "receive request %d is flushed", i);
	queue_drop(&q);
}

/* Which bytes of a frame a field of a specification stands for */
struct field {
	const char *name;
	enum base base;
	uint16_t type;
	uint16_t at;		/* of the filter */
	uint16_t len;
	uint16_t from;		/* of the frame */
	uint16_t flip_at;	/* a bit whose change makes another frame of it */
	uint8_t flip;
	uint8_t mask[4];	/* of the field; all of it if zero */
};

#define ETH(f)	offsetof(struct ibv_flow_eth_filter, f)
#define IP4(f)	offsetof(struct ibv_flow_ipv4_ext_filter, f)
#define IP6(f)	offsetof(struct ibv_flow_ipv6_filter, f)
#define L4(f)	offsetof(struct ibv_flow_tcp_udp_filter, f)

static const struct field fields[] = {
	{ "eth dst_mac", UDP4, IBV_FLOW_SPEC_ETH, ETH(dst_mac), 6, 0, 5, 1, {} },
	{ "eth src_mac", UDP4, IBV_FLOW_SPEC_ETH, ETH(src_mac), 6, 6, 6, 4, {} },
	{ "eth ether_type", UDP4, IBV_FLOW_SPEC_ETH, ETH(ether_type), 2, 12, 13, 1, {} },
	{ "eth ether_type behind a tag", VLAN4, IBV_FLOW_SPEC_ETH, ETH(ether_type), 2, 16, 17, 1, {} },
	{ "eth vlan_tag", VLAN4, IBV_FLOW_SPEC_ETH, ETH(vlan_tag), 2, 14, 15, 1, {} },
	{ "eth vlan_tag, its VID", VLAN4, IBV_FLOW_SPEC_ETH, ETH(vlan_tag), 2, 14, 15, 1,
	  { 0x0f, 0xff } },
	{ "ipv4 src", UDP4, IBV_FLOW_SPEC_IPV4_EXT, IP4(src_ip), 4, IP + 12, IP + 15, 8, {} },
	{ "ipv4 src, a network", UDP4, IBV_FLOW_SPEC_IPV4_EXT, IP4(src_ip), 4, IP + 12, IP + 14, 1,
	  { 0xff, 0xff, 0xff } },
	{ "ipv4 dst", UDP4, IBV_FLOW_SPEC_IPV4_EXT, IP4(dst_ip), 4, IP + 16, IP + 16, 8, {} },
	{ "ipv4 proto", UDP4, IBV_FLOW_SPEC_IPV4_EXT, IP4(proto), 1, IP + 9, IP + 9, 1, {} },
	{ "ipv4 tos", UDP4, IBV_FLOW_SPEC_IPV4_EXT, IP4(tos), 1, IP + 1, IP + 1, 4, {} },
	{ "ipv4 ttl", UDP4, IBV_FLOW_SPEC_IPV4_EXT, IP4(ttl), 1, IP + 8, IP + 8, 1, {} },
	{ "ipv4 of a tagged frame", VLAN4, IBV_FLOW_SPEC_IPV4_EXT, IP4(dst_ip), 4, IP + 20, IP + 20, 8,
	  {} },
	{ "ipv6 src", UDP6, IBV_FLOW_SPEC_IPV6, IP6(src_ip), 16, IP + 8, IP + 23, 2, {} },
	{ "ipv6 dst", TCP6, IBV_FLOW_SPEC_IPV6, IP6(dst_ip), 16, IP + 24, IP + 24, 1, {} },
	{ "ipv6 flow label", UDP6, IBV_FLOW_SPEC_IPV6, IP6(flow_label), 4, IP, IP + 3, 1,
	  { 0, 0x0f, 0xff, 0xff } },
	{ "ipv6 next header", UDP6, IBV_FLOW_SPEC_IPV6, IP6(next_hdr), 1, IP + 6, IP + 6, 2, {} },
	{ "ipv6 hop limit", UDP6, IBV_FLOW_SPEC_IPV6, IP6(hop_limit), 1, IP + 7, IP + 7, 2, {} },
	{ "udp dst_port", UDP4, IBV_FLOW_SPEC_UDP, L4(dst_port), 2, L4_4 + 2, L4_4 + 3, 1, {} },
	{ "udp src_port", UDP4, IBV_FLOW_SPEC_UDP, L4(src_port), 2, L4_4, L4_4, 1, {} },
	{ "udp over ipv6", UDP6, IBV_FLOW_SPEC_UDP, L4(dst_port), 2, L4_6 + 2, L4_6 + 2, 1, {} },
	{ "udp behind a tag", VLAN4, IBV_FLOW_SPEC_UDP, L4(dst_port), 2, L4_4 + 6, L4_4 + 7, 1, {} },
	{ "udp is not tcp", UDP4, IBV_FLOW_SPEC_UDP, L4(dst_port), 2, L4_4 + 2, IP + 9, 17 ^ 6, {} },
	{ "udp, not of a fragment", UDP4, IBV_FLOW_SPEC_UDP, L4(dst_port), 2, L4_4 + 2, IP + 6, 0x20,
	  {} },
	{ "tcp dst_port", TCP4, IBV_FLOW_SPEC_TCP, L4(dst_port), 2, L4_4 + 2, L4_4 + 3, 1, {} },
	{ "tcp src_port", TCP4, IBV_FLOW_SPEC_TCP, L4(src_port), 2, L4_4, L4_4, 1, {} },
	{ "tcp over ipv6", TCP6, IBV_FLOW_SPEC_TCP, L4(src_port), 2, L4_6, L4_6 + 1, 1, {} },
	{ "tcp is not udp", TCP4, IBV_FLOW_SPEC_TCP, L4(dst_port), 2, L4_4 + 2, IP + 9, 17 ^ 6, {} },
};

/* All specifications begin alike: type and size, then value and mask. */
static size_t filter_size(int type)
{
	switch (type) {
	case IBV_FLOW_SPEC_ETH:
		return sizeof(struct ibv_flow_eth_filter);
	case IBV_FLOW_SPEC_IPV4_EXT:
		return sizeof(struct ibv_flow_ipv4_ext_filter);
	case IBV_FLOW_SPEC_IPV6:
		return sizeof(struct ibv_flow_ipv6_filter);
	default:
		return sizeof(struct ibv_flow_tcp_udp_filter);
	}
}

static size_t filter_start(int type)
{
	switch (type) {
	case IBV_FLOW_SPEC_ETH:
		return offsetof(struct ibv_flow_spec_eth, val);
	case IBV_FLOW_SPEC_IPV4_EXT:
		return offsetof(struct ibv_flow_spec_ipv4_ext, val);
	case IBV_FLOW_SPEC_IPV6:
		return offsetof(struct ibv_flow_spec_ipv6, val);
	default:
		return offsetof(struct ibv_flow_spec_tcp_udp, val);
	}
}

static size_t spec_size(int type)
{
	switch (type) {
	case IBV_FLOW_SPEC_ETH:
		return sizeof(struct ibv_flow_spec_eth);
	case IBV_FLOW_SPEC_IPV4_EXT:
		return sizeof(struct ibv_flow_spec_ipv4_ext);
	case IBV_FLOW_SPEC_IPV6:
		return sizeof(struct ibv_flow_spec_ipv6);
	default:
		return sizeof(struct ibv_flow_spec_tcp_udp);
	}
}

static void test_field(struct queue *q, const struct field *fd)
{
	static const uint8_t none[4];
	uint8_t spec[200] = {}, *val = spec + filter_start(fd->type) + fd->at;
	uint8_t *mask = val + filter_size(fd->type);
	struct ibv_flow *flow;
	struct frame yes, no;
	struct rule r;
	struct got g;

	frame_make(&yes, fd->base, stranger, 64);
	no = yes;
	no.b[fd->flip_at] ^= fd->flip;
	put16(spec + 4, 0);
	*(uint32_t *)spec = fd->type;
	*(uint16_t *)(spec + 4) = spec_size(fd->type);
	for (int i = 0; i < fd->len; i++) {
		mask[i] = memcmp(fd->mask, none, 4) ? fd->mask[i & 3] : 0xff;
		val[i] = yes.b[fd->from + i] & mask[i];
	}
	rule_init(&r, IBV_FLOW_ATTR_NORMAL, 0, 0);
	rule_add(&r, spec, spec_size(fd->type));
	rule_tag(&r, 0x1234);
	flow = rule_make(q->qp, &r);
	sock_send(&ports[0], yes.b, yes.len);
	sock_send(&ports[0], no.b, no.len);
	sock_send(&ports[0], yes.b, yes.len);
	ok(queue_has(q, &yes, &g) && g.tag == 0x1234 && queue_has(q, &yes, NULL), "%s matches", fd->name);
	ok(queue_quiet(q), "and another does not");
	unsteer(flow);
	sock_send(&ports[0], yes.b, yes.len);
	ok(queue_quiet(q), "nor anything without the rule");
}

static void test_specs(void)
{
	struct queue q;

	queue_make(&q, &ends[1], 16, 0);
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		test_field(&q, &fields[i]);
	queue_drop(&q);
}

static void rule_refused(struct ibv_qp *qp, struct rule *r, int want, const char *what)
{
	struct ibv_flow *flow = rule_try(qp, r);

	is(flow ? 0 : errno, want, "refused: %s", what);
	if (flow)
		unsteer(flow);
}

static void test_refused(void)
{
	static const struct {
		int type;
		size_t size;
		const char *what;
	} specs[] = {
		{ IBV_FLOW_SPEC_VXLAN_TUNNEL, sizeof(struct ibv_flow_spec_tunnel), "a tunnel" },
		{ IBV_FLOW_SPEC_ETH | IBV_FLOW_SPEC_INNER, sizeof(struct ibv_flow_spec_eth),
		  "inner headers" },
		{ IBV_FLOW_SPEC_ESP, sizeof(struct ibv_flow_spec_esp), "ESP" },
		{ IBV_FLOW_SPEC_GRE, sizeof(struct ibv_flow_spec_gre), "GRE" },
		{ IBV_FLOW_SPEC_MPLS, sizeof(struct ibv_flow_spec_mpls), "MPLS" },
	};
	struct ibv_qp_init_attr init = { .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_UD };
	struct queue q;
	struct rule r;

	queue_make(&q, &ends[1], 4, 0);
	for (size_t i = 0; i < ARRAY_SIZE(specs); i++) {
		struct ibv_flow_spec spec = {};

		spec.hdr.type = specs[i].type;
		spec.hdr.size = specs[i].size;
		rule_init(&r, IBV_FLOW_ATTR_NORMAL, 0, 0);
		rule_add(&r, &spec, specs[i].size);
		rule_refused(q.qp, &r, EOPNOTSUPP, specs[i].what);
	}
	rule_init(&r, IBV_FLOW_ATTR_NORMAL, 0, IBV_FLOW_ATTR_FLAGS_EGRESS);
	rule_refused(q.qp, &r, EOPNOTSUPP, "egress");
	rule_init(&r, IBV_FLOW_ATTR_NORMAL, 0, 0);
	rule_dport(&r, IBV_FLOW_SPEC_TCP, 1);
	rule_dport(&r, IBV_FLOW_SPEC_UDP, 1);
	rule_refused(q.qp, &r, EINVAL, "a layer twice");
	rule_init(&r, IBV_FLOW_ATTR_SNIFFER, 0, 0);
	rule_dmac(&r, stranger);
	rule_refused(q.qp, &r, EINVAL, "a sniffer with a specification");
	rule_init(&r, IBV_FLOW_ATTR_NORMAL, 0, IBV_FLOW_ATTR_FLAGS_DONT_TRAP);
	rule_drop(&r);
	rule_refused(q.qp, &r, EINVAL, "to drop and to pass on");

	init.send_cq = ibv_cq_ex_to_cq(q.cq);
	init.recv_cq = init.send_cq;
	{
		struct ibv_qp *ud = ibv_create_qp(q.pd, &init);

		if (!ud)
			die("create_qp: %s", strerror(errno));
		rule_init(&r, IBV_FLOW_ATTR_NORMAL, 0, 0);
		rule_dmac(&r, stranger);
		rule_refused(ud, &r, EINVAL, "a UD queue pair");
		ibv_destroy_qp(ud);
	}
	queue_drop(&q);
}

/* Who takes a frame that several want */
static void test_order(void)
{
	struct ibv_flow *flow[3];
	struct queue q[3];
	long long before;
	struct frame f;
	struct rule r;

	for (int i = 0; i < 3; i++)
		queue_make(&q[i], &ends[1], 16, 0);
	frame_make(&f, UDP4, stranger, 64);

	rule_init(&r, IBV_FLOW_ATTR_NORMAL, 5, 0);
	rule_dmac(&r, stranger);
	flow[0] = rule_make(q[0].qp, &r);
	rule_init(&r, IBV_FLOW_ATTR_NORMAL, 4, 0);
	rule_dport(&r, IBV_FLOW_SPEC_UDP, 8765);
	flow[1] = rule_make(q[1].qp, &r);
	sock_send(&ports[0], f.b, f.len);
	ok(queue_has(&q[1], &f, NULL) && queue_quiet(&q[0]), "the smaller priority first");

	rule_init(&r, IBV_FLOW_ATTR_NORMAL, 3, IBV_FLOW_ATTR_FLAGS_DONT_TRAP);
	rule_dmac(&r, stranger);
	flow[2] = rule_make(q[2].qp, &r);
	sock_send(&ports[0], f.b, f.len);
	ok(queue_has(&q[2], &f, NULL) && queue_has(&q[1], &f, NULL), "what is not trapped goes on");
	ok(queue_quiet(&q[0]) && queue_quiet(&q[1]) && queue_quiet(&q[2]), "and to no other");
	unsteer(flow[2]);

	rule_init(&r, IBV_FLOW_ATTR_NORMAL, 4, 0);
	rule_dport(&r, IBV_FLOW_SPEC_UDP, 8765);
	flow[2] = rule_make(q[2].qp, &r);
	sock_send(&ports[0], f.b, f.len);
	ok(queue_has(&q[1], &f, NULL) && queue_has(&q[2], &f, NULL), "two of the same rule: each has it");
	ok(queue_quiet(&q[0]), "and no later one");
	unsteer(flow[2]);

	rule_init(&r, IBV_FLOW_ATTR_NORMAL, 0, 0);
	rule_dmac(&r, stranger);
	rule_drop(&r);
	flow[2] = rule_make(q[2].qp, &r);
	before = hw_counter(&ends[1], "rx_steering_drops");
	sock_send(&ports[0], f.b, f.len);
	ok(queue_quiet(&q[0]) && queue_quiet(&q[1]) && queue_quiet(&q[2]), "a rule that drops");
	is(hw_counter(&ends[1], "rx_steering_drops") - before, 1, "counts it");
	for (int i = 0; i < 3; i++) {
		unsteer(flow[i]);
		queue_drop(&q[i]);
	}
}

/* UDP over the stack, from a to b */
static bool stack_works(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9876) };
	int s = ns_socket(ports[0].ns, AF_INET, SOCK_DGRAM, 0);
	int r = ns_socket(ports[1].ns, AF_INET, SOCK_DGRAM, 0);
	struct pollfd p = { .fd = r, .events = POLLIN };
	bool good;

	inet_pton(AF_INET, "192.168.77.2", &to.sin_addr);
	if (bind(r, (void *)&to, sizeof(to)))
		die("bind: %s", strerror(errno));
	good = sendto(s, "hello", 5, 0, (void *)&to, sizeof(to)) == 5 && poll(&p, 1, 5000) == 1;
	close(s);
	close(r);
	return good;
}

static void test_default(void)
{
	struct ibv_flow *all, *mc;
	struct queue q, qm;
	struct frame f;
	struct rule r;

	queue_make(&q, &ends[1], 16, 0);
	queue_make(&qm, &ends[1], 16, 0);
	rule_init(&r, IBV_FLOW_ATTR_ALL_DEFAULT, 0, 0);
	all = rule_make(q.qp, &r);
	frame_make(&f, UDP4, stranger, 64);
	sock_send(&ports[0], f.b, f.len);
	ok(queue_has(&q, &f, NULL), "a default rule has what the host has no use for");
	frame_make(&f, UDP4, group, 64);
	sock_send(&ports[0], f.b, f.len);
	ok(queue_has(&q, &f, NULL), "a group that it has not joined");
	ok(stack_works(), "and the host has its own");
	ok(queue_quiet(&q), "alone");
	/* its address is the netdev's now, and not because the host wants it */
	rule_init(&r, IBV_FLOW_ATTR_NORMAL, 0, 0);
	rule_dmac(&r, stranger);
	rule_dport(&r, IBV_FLOW_SPEC_UDP, 8766);
	mc = rule_make(qm.qp, &r);
	frame_make(&f, UDP4, stranger, 64);
	sock_send(&ports[0], f.b, f.len);
	ok(queue_has(&q, &f, NULL) && queue_quiet(&qm), "what another rule does not take of its own address");
	unsteer(mc);
	frame_make(&f, UDP4, group, 64);
	rule_init(&r, IBV_FLOW_ATTR_MC_DEFAULT, 0, 0);
	mc = rule_make(qm.qp, &r);
	sock_send(&ports[0], f.b, f.len);
	ok(queue_has(&qm, &f, NULL) && queue_quiet(&q), "groups go to the default for them");
	frame_make(&f, UDP4, stranger, 64);
	put16(f.b + L4_4 + 2, 4791);
	sock_send(&ports[0], f.b, f.len);
	ok(queue_quiet(&q), "RoCE is nobody's default");
	unsteer(all);
	unsteer(mc);
	queue_drop(&q);
	queue_drop(&qm);
}

static bool netdev_is(const char *show, const char *has)
{
	char cmd[200];

	snprintf(cmd, sizeof(cmd), "ip -n b %s dev v1 | grep -q '%s'", show, has);
	return !system(cmd);
}

static void test_sniffer(void)
{
	struct ibv_flow *flow, *normal;
	struct queue q, qn;
	struct frame f;
	struct rule r;
	struct got g;

	queue_make(&q, &ends[1], 64, 0);
	queue_make(&qn, &ends[1], 16, 0);
	ok(netdev_is("-d link show", "promiscuity 0"), "the netdev's filter is closed");
	rule_init(&r, IBV_FLOW_ATTR_SNIFFER, 0, 0);
	flow = rule_make(q.qp, &r);
	normal = steer_dmac(&qn, stranger);
	frame_make(&f, UDP4, stranger, 64);
	sock_send(&ports[0], f.b, f.len);
	ok(queue_sees(&q, &f) && queue_has(&qn, &f, NULL), "a sniffer's copy");
	frame_make(&f, UDP4, ports[1].mac, 64);
	put16(f.b + L4_4 + 2, 4791);
	sock_drain(&ports[1]);
	sock_send(&ports[0], f.b, f.len);
	ok(queue_sees(&q, &f) && sock_sees(&ports[1], f.b, f.len, 5), "of RoCE as well");
	ok(stack_works(), "the stack has all of its own");
	ok(queue_get(&q, &g, 5) && !g.status, "and the sniffer too");
	queue_post(&q, g.slot, SLOT);
	frame_make(&f, VLAN4, stranger, 64);
	sock_send(&ports[1], f.b, f.len);
	ok(queue_sees(&q, &f), "what is sent, too");
	is(queue_send(&qn, &f, 0), IBV_WC_SUCCESS, "and by a queue pair");
	ok(queue_sees(&q, &f), "likewise");
	ok(netdev_is("-d link show", "promiscuity [1-9]"), "the netdev's filter is open");
	unsteer(normal);
	unsteer(flow);
	ok(netdev_is("-d link show", "promiscuity 0"), "and closed again");
	normal = steer_dmac(&qn, group);
	ok(netdev_is("maddr show", "01:50:56:19:20:a7"), "a rule opens it for its address");
	unsteer(normal);
	ok(!netdev_is("maddr show", "01:50:56:19:20:a7"), "alone");
	queue_drop(&q);
	queue_drop(&qn);
}

static void test_vlan(void)
{
	struct frame f, bare;
	struct ibv_flow *flow[2];
	struct queue q[2];
	struct got g;

	queue_make(&q[0], &ends[1], 8, 0);
	queue_make(&q[1], &ends[1], 8, IBV_QP_CREATE_CVLAN_STRIPPING);
	for (int i = 0; i < 2; i++)
		flow[i] = steer_dmac(&q[i], stranger);
	frame_make(&f, VLAN4, stranger, 100);
	bare = f;
	memmove(bare.b + 12, f.b + 16, f.len - 16);
	bare.len -= 4;
	sock_send(&ports[0], f.b, f.len);
	ok(queue_has(&q[0], &f, NULL), "a tagged frame has its tag");
	ok(queue_has(&q[1], &bare, &g), "or has it stripped");
	is(g.vlan, 0x6123, "which is then in the completion");
	for (int i = 0; i < 2; i++) {
		unsteer(flow[i]);
		queue_drop(&q[i]);
	}
}

/* A card does what it was asked to a while later: a frame is sent until it comes, or does no more. */
static bool comes_to(struct queue *q, const struct frame *f, bool want)
{
	struct got g;

	for (int i = 0; i < 200; i++) {
		bool came = false;

		sock_send(&ports[0], f->b, f->len);
		while (queue_get(q, &g, 0.05)) {
			came |= !g.status && g.len == f->len && !memcmp(g.b, f->b, f->len);
			queue_post(q, g.slot, SLOT);
		}
		if (came == want)
			return true;
	}
	return false;
}

/* For a netdev that filters by VLAN, a rule opens that as well (cards.sh has such ones). */
static void test_vlan_rule(void)
{
	struct ibv_flow *flow;
	struct queue q;
	struct frame f;
	struct rule r;

	queue_make(&q, &ends[1], 8, 0);
	rule_init(&r, IBV_FLOW_ATTR_NORMAL, 0, 0);
	rule_vlan(&r, stranger, 0x123);
	flow = rule_make(q.qp, &r);
	frame_make(&f, VLAN4, stranger, 100);
	ok(comes_to(&q, &f, true), "a frame of a rule's VLAN");
	f.b[15] ^= 1;
	ok(comes_to(&q, &f, false), "and none of another's");
	unsteer(flow);
	flow = steer_dmac(&q, stranger);
	f.b[15] ^= 1;
	/* not one that filters */
	ok(comes_to(&q, &f, !getenv("FILTERS")), "without the rule, the netdev has its filter back");
	unsteer(flow);
	queue_drop(&q);
}

/* A queue pair's own counter has what it receives, and what finds no room. */
static void test_bound(void)
{
	char bind[100], show[100];
	long long before[2];
	struct ibv_flow *flow;
	struct queue q;
	struct frame f;

	queue_make(&q, &ends[1], 2, 0);
	flow = steer_dmac(&q, stranger);
	snprintf(bind, sizeof(bind), "rdma statistic qp bind link %s/1 lqpn %u", ends[1].name,
		 q.qp->qp_num);
	snprintf(show, sizeof(show), "rdma statistic qp show link %s/1", ends[1].name);
	command(bind);
	before[0] = hw_counter(&ends[1], "rx_raw_packets");
	before[1] = hw_counter(&ends[1], "out_of_buffer");
	frame_make(&f, UDP4, stranger, 64);
	for (int i = 0; i < 3; i++)
		sock_send(&ports[0], f.b, f.len);
	wait_counter(&ends[1], "out_of_buffer", before[1]);
	is(output_number(show, "cntn", "rx_raw_packets"), 2, "its counter has what it received");
	is(output_number(show, "cntn", "out_of_buffer"), 1, "and what it had no request for");
	is(hw_counter(&ends[1], "rx_raw_packets") - before[0], 2, "the link's has both");
	is(hw_counter(&ends[1], "out_of_buffer") - before[1], 1, "of them");
	unsteer(flow);
	queue_drop(&q);
}

/* What the host's own rules drop looks like a queue that is full; what is behind it goes on. */
static void test_denied(void)
{
	struct queue q;
	struct frame f;

	if (system("tc -n a qdisc add dev v0 clsact 2>/dev/null && "
		   "tc -n a filter add dev v0 egress matchall action drop 2>/dev/null")) {
		skip("no clsact or no matchall in this kernel", "a frame that tc denies");
		return;
	}
	queue_make(&q, &ends[0], 8, 0);
	sock_drain(&ports[1]);
	frame_make(&f, UDP4, ports[1].mac, 200);
	is(queue_send(&q, &f, 0), IBV_WC_SUCCESS, "a frame that tc denies");
	ok(!sock_sees(&ports[1], f.b, f.len, 0.1), "does not leave");
	if (system("tc -n a qdisc del dev v0 clsact"))
		die("tc");
	is(queue_send(&q, &f, 0), IBV_WC_SUCCESS, "and one that it does not");
	ok(sock_sees(&ports[1], f.b, f.len, 5), "does");
	queue_drop(&q);
}

/* What is sent to oneself stays in the host; what is sent to a group does both */
static void test_loop(void)
{
	struct ibv_flow *flow[2];
	struct queue q[2];
	struct frame f;

	for (int i = 0; i < 2; i++)
		queue_make(&q[i], &ends[0], 8, 0);
	flow[0] = steer_dmac(&q[1], ports[0].mac);
	flow[1] = steer_dmac(&q[1], group);
	sock_drain(&ports[1]);
	frame_make(&f, UDP4, ports[0].mac, 200);
	is(queue_send(&q[0], &f, 0), IBV_WC_SUCCESS, "to the own address");
	ok(queue_has(&q[1], &f, NULL), "another queue pair has it");
	ok(!sock_sees(&ports[1], f.b, f.len, 0.1), "and the wire has not");
	frame_make(&f, UDP4, group, 200);
	is(queue_send(&q[0], &f, 0), IBV_WC_SUCCESS, "to a group");
	ok(queue_has(&q[1], &f, NULL), "another queue pair has it");
	ok(sock_sees(&ports[1], f.b, f.len, 5), "and so has the wire");
	frame_make(&f, UDP4, ports[1].mac, 200);
	is(queue_send(&q[0], &f, 0), IBV_WC_SUCCESS, "to another host");
	ok(sock_sees(&ports[1], f.b, f.len, 5), "the wire has it");
	ok(queue_quiet(&q[1]), "and nobody here");
	unsteer(flow[0]);
	unsteer(flow[1]);
	/* to itself, as a sender that a rule leads back to */
	flow[0] = steer_dmac(&q[0], ports[0].mac);
	frame_make(&f, UDP4, ports[0].mac, 200);
	{
		struct ibv_sge sge = { (uintptr_t)q[0].mr->addr + 7 * SLOT, f.len, q[0].mr->lkey };
		struct ibv_send_wr wr = { .wr_id = 77, .opcode = IBV_WR_SEND, .sg_list = &sge,
					  .num_sge = 1 }, *bad;
		struct got g[2];

		memcpy((uint8_t *)q[0].mr->addr + 7 * SLOT, f.b, f.len);
		if (ibv_post_send(q[0].qp, &wr, &bad))
			die("post_send");
		ok(queue_get(&q[0], &g[0], 5) && queue_get(&q[0], &g[1], 5) && !g[0].status &&
		   !g[1].status && (g[0].slot == 77 || g[1].slot == 77), "a queue pair to itself");
	}
	unsteer(flow[0]);
	for (int i = 0; i < 2; i++)
		queue_drop(&q[i]);
}

static void test_full(void)
{
	struct ibv_flow *flow;
	long long none, len;
	struct queue q;
	struct frame f, small;
	struct got g;

	queue_make(&q, &ends[1], 4, 0);
	flow = steer_dmac(&q, stranger);
	frame_make(&f, UDP4, stranger, 200);
	frame_make(&small, UDP4, stranger, 20);
	none = hw_counter(&ends[1], "out_of_buffer");
	for (int i = 0; i < 7; i++)
		sock_send(&ports[0], f.b, f.len);
	for (int i = 0; i < 4; i++)
		ok(queue_get(&q, &g, 5) && !g.status && g.len == f.len, "frame %d", i);
	ok(queue_quiet(&q), "no request, no frame");
	is(hw_counter(&ends[1], "out_of_buffer") - none, 3, "each is counted");

	queue_post(&q, 0, 100);
	len = hw_counter(&ends[1], "resp_local_length_error");
	sock_send(&ports[0], f.b, f.len);
	ok(queue_quiet(&q), "a request that is too small");
	is(hw_counter(&ends[1], "resp_local_length_error") - len, 1, "is counted");
	sock_send(&ports[0], small.b, small.len);
	ok(queue_get(&q, &g, 5) && !g.status && g.len == small.len, "and waits for a smaller frame");
	is_state(q.qp, IBV_QPS_RTS, "the queue pair");

	/* memory that is not ours to write */
	{
		struct ibv_sge sge = { (uintptr_t)q.mr->addr, SLOT, q.mr->lkey + 1 };
		struct ibv_recv_wr wr = { .wr_id = 9, .sg_list = &sge, .num_sge = 1 }, *bad;

		if (ibv_post_recv(q.qp, &wr, &bad))
			die("post_recv");
		queue_post(&q, 1, SLOT);
		sock_send(&ports[0], f.b, f.len);
		ok(queue_get(&q, &g, 5) && g.status == IBV_WC_LOC_PROT_ERR && g.slot == 9, "a wrong key");
		ok(queue_get(&q, &g, 5) && g.status == IBV_WC_WR_FLUSH_ERR && g.slot == 1, "ends the queue");
		is_state(q.qp, IBV_QPS_ERR, "the queue pair");
	}
	unsteer(flow);
	queue_drop(&q);
}

/* A TCP stream, whose skbs are much longer than frames */
#define STREAM		(2U << 20)

static void stream(int from, int to)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(7777) };
	static uint8_t buf[1 << 16];
	size_t left = STREAM;
	uint64_t off = 0;

	inet_pton(AF_INET, "192.168.77.2", &sin.sin_addr);
	if (connect(from, (void *)&sin, sizeof(sin)))
		_exit(1);
	(void)to;
	while (left) {
		size_t n = min(left, sizeof(buf));
		ssize_t r;

		pattern_fill(buf, 7, off, n);
		r = write(from, buf, n);
		if (r <= 0)
			_exit(2);
		left -= r;
		off += r;
	}
	_exit(0);
}

static bool tcp_right(const struct got *g, uint32_t *isn, uint64_t *bytes)
{
	const uint8_t *ip = g->b + 14, *tcp = ip + 20;
	size_t len, hdr;
	uint32_t seq;

	if (g->len < 54 || g->len > 1514 || get16(g->b + 12) != 0x0800 || get16(ip + 2) + 14U > g->len)
		return false;
	if (fold(sum16(0, ip, 20)) != 0xffff)
		return false;
	len = get16(ip + 2) - 20;
	if (fold(sum16(6 + len, ip + 12, 8) + fold(sum16(0, tcp, len))) != 0xffff)
		return false;
	hdr = tcp[12] >> 4 << 2;
	memcpy(&seq, tcp + 4, 4);
	seq = ntohl(seq);
	if (tcp[13] & 2)
		*isn = seq;
	*bytes += len - hdr;
	return len == hdr || pattern_check(tcp + hdr, 7, seq - *isn - 1, len - hdr) < 0;
}

static void test_gso(void)
{
	const unsigned int slots = 4096;
	int listener = ns_socket(ports[1].ns, AF_INET, SOCK_STREAM, 0);
	int client = ns_socket(ports[0].ns, AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(7777) };
	unsigned int frames = 0, wrong = 0, full = 0;
	uint64_t bytes = 0, arrived = 0;
	struct ibv_flow *flow;
	struct queue q;
	struct rule r;
	struct got g;
	uint32_t isn = 0;
	int one = 1, fd, st;
	pid_t pid;

	queue_make(&q, &ends[1], slots, 0);
	rule_init(&r, IBV_FLOW_ATTR_NORMAL, 0, IBV_FLOW_ATTR_FLAGS_DONT_TRAP);
	rule_dport(&r, IBV_FLOW_SPEC_TCP, 7777);
	flow = rule_make(q.qp, &r);
	inet_pton(AF_INET, "192.168.77.2", &sin.sin_addr);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (void *)&sin, sizeof(sin)) || listen(listener, 1))
		die("listen: %s", strerror(errno));
	pid = fork();
	if (!pid)
		stream(client, listener);
	close(client);
	fd = accept(listener, NULL, NULL);
	for (;;) {
		static uint8_t buf[1 << 16];
		ssize_t n = read(fd, buf, sizeof(buf));

		if (n <= 0)
			break;
		if (pattern_check(buf, 7, arrived, n) >= 0)
			wrong++;
		arrived += n;
	}
	waitpid(pid, &st, 0);
	close(fd);
	close(listener);
	is(arrived, STREAM, "a TCP stream arrives as ever");
	is(wrong, 0, "unchanged");

	while (queue_get(&q, &g, 0.2)) {
		frames++;
		if (g.status || !tcp_right(&g, &isn, &bytes)) {
			if (!wrong++)
				diag("frame %u: status %d, %u bytes", frames, g.status, g.len);
		}
		full += g.len == 1514;
	}
	ok(bytes >= STREAM, "all of it is copied (%u frames, %llu bytes)", frames,
	   (unsigned long long)bytes);
	is(wrong, 0, "as frames with right checksums");
	ok(full > STREAM / 1514 / 2, "as long as frames are (%u)", full);
	unsteer(flow);
	queue_drop(&q);
}

/* RSS */

/* Microsoft's key and its vectors */
static const uint8_t ms_key[KEY_LEN] = {
	0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
	0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
	0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
};

static uint32_t key_bit(unsigned int i)
{
	return ms_key[i / 8] >> (7 - i % 8) & 1;
}

/* The definition: for each bit that is set, the 32 bits of the key from there on */
static uint32_t toeplitz(const uint8_t *in, unsigned int len)
{
	uint32_t hash = 0;

	for (unsigned int i = 0; i < 8 * len; i++) {
		uint32_t w = 0;

		if (!(in[i / 8] >> (7 - i % 8) & 1))
			continue;
		for (unsigned int k = 0; k < 32; k++)
			w = w << 1 | key_bit(i + k);
		hash ^= w;
	}
	return hash;
}

#define NUM_WQ		4
#define LOG_TBL		4

struct rss {
	struct ibv_wq *wq[NUM_WQ];
	struct ibv_cq *cq[NUM_WQ];
	struct ibv_rwq_ind_table *tbl;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
};

/* Which entry has which queue: not simply one after the other */
static int tbl_wq(unsigned int i)
{
	return (i * 7 + (i >> 2)) % NUM_WQ;
}

static void wq_post(struct rss *s, int i, uint64_t slot)
{
	struct ibv_sge sge = { (uintptr_t)s->mr->addr + slot * SLOT, SLOT, s->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (ibv_post_wq_recv(s->wq[i], &wr, &bad))
		die("post_wq_recv");
}

static int wq_to(struct ibv_wq *wq, enum ibv_wq_state state)
{
	struct ibv_wq_attr attr = { .attr_mask = IBV_WQ_ATTR_STATE, .wq_state = state };

	return ibv_modify_wq(wq, &attr);
}

static struct ibv_qp *rss_qp(struct rss *s, struct end *e, uint64_t fields, uint8_t key_len)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
		.pd = e->pd,
		.rwq_ind_tbl = s->tbl,
		.rx_hash_conf = {
			.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
			.rx_hash_key_len = key_len,
			.rx_hash_key = (uint8_t *)ms_key,
			.rx_hash_fields_mask = fields,
		},
	};

	return ibv_create_qp_ex(e->ctx, &init);
}

static void rss_make(struct rss *s, struct end *e, uint64_t fields)
{
	struct ibv_wq *table[1 << LOG_TBL];
	struct ibv_rwq_ind_table_init_attr tbl = { .log_ind_tbl_size = LOG_TBL, .ind_tbl = table };

	s->mr = mr_make(e, 64 * SLOT, IBV_ACCESS_LOCAL_WRITE);
	for (int i = 0; i < NUM_WQ; i++) {
		struct ibv_wq_init_attr init = { .wq_type = IBV_WQT_RQ, .max_wr = 50, .max_sge = 1,
						 .pd = e->pd };

		s->cq[i] = cq_make(e, 128);
		init.cq = s->cq[i];
		s->wq[i] = ibv_create_wq(e->ctx, &init);
		if (!s->wq[i] || wq_to(s->wq[i], IBV_WQS_RDY))
			die("create_wq: %s", strerror(errno));
		is(init.max_wr, 64, "a work queue says what it takes");
		for (int k = 0; k < 16; k++)
			wq_post(s, i, i * 16 + k);
	}
	for (int i = 0; i < 1 << LOG_TBL; i++)
		table[i] = s->wq[tbl_wq(i)];
	s->tbl = ibv_create_rwq_ind_table(e->ctx, &tbl);
	if (!s->tbl)
		die("create_rwq_ind_table: %s", strerror(errno));
	s->qp = rss_qp(s, e, fields, KEY_LEN);
	if (!s->qp)
		die("RSS queue pair: %s", strerror(errno));
}

static void rss_drop(struct rss *s)
{
	ok(!ibv_destroy_qp(s->qp) && !ibv_destroy_rwq_ind_table(s->tbl), "the table goes");
	for (int i = 0; i < NUM_WQ; i++)
		ok(!ibv_destroy_wq(s->wq[i]) && !ibv_destroy_cq(s->cq[i]), "and work queue %d", i);
	mr_drop(s->mr);
}

/* The frame arrives at the queue that the hash says, and at no other. */
static bool rss_gets(struct rss *s, const struct frame *f, uint32_t hash)
{
	int want = tbl_wq(hash & ((1 << LOG_TBL) - 1));
	struct ibv_wc wc;

	sock_send(&ports[0], f->b, f->len);
	if (!cq_wait(s->cq[want], &wc, 5) || wc.status || wc.byte_len != f->len ||
	    wc.qp_num != s->wq[want]->wq_num ||
	    memcmp((uint8_t *)s->mr->addr + wc.wr_id * SLOT, f->b, f->len)) {
		diag("hash %08x: not at queue %d", hash, want);
		return false;
	}
	wq_post(s, want, wc.wr_id);
	for (int i = 0; i < NUM_WQ; i++)
		if (ibv_poll_cq(s->cq[i], 1, &wc)) {
			diag("hash %08x: at queue %d as well", hash, i);
			return false;
		}
	return true;
}

struct spread {
	const char *name;
	enum base base;
	uint64_t fields;
	struct {
		uint8_t from, len;
	} part[4];
};

#define ADDR4	(IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4)
#define ADDR6	(IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6)
#define UDP_P	(IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP)
#define TCP_P	(IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP)

static const struct spread spreads[] = {
	{ "IPv4 addresses", UDP4, ADDR4, { { IP + 12, 8 } } },
	{ "IPv4 addresses and UDP ports", UDP4, ADDR4 | UDP_P, { { IP + 12, 8 }, { L4_4, 4 } } },
	{ "IPv4 addresses and TCP ports", TCP4, ADDR4 | TCP_P, { { IP + 12, 8 }, { L4_4, 4 } } },
	{ "UDP's ports do not count for TCP", TCP4, ADDR4 | UDP_P, { { IP + 12, 8 } } },
	{ "IPv6 addresses and UDP ports", UDP6, ADDR6 | UDP_P, { { IP + 8, 32 }, { L4_6, 4 } } },
	{ "IPv6 addresses and TCP ports", TCP6, ADDR6 | TCP_P, { { IP + 8, 32 }, { L4_6, 4 } } },
	{ "the source alone", UDP4, IBV_RX_HASH_SRC_IPV4, { { IP + 12, 4 } } },
	{ "the destination port alone", UDP4, IBV_RX_HASH_DST_PORT_UDP, { { L4_4 + 2, 2 } } },
	{ "nothing that the frame has", UDP4, ADDR6, { { 0, 0 } } },
};

static void test_spread(const struct spread *sp)
{
	struct rng rng = { 5 };
	struct ibv_flow *flow;
	unsigned int right = 0;
	struct rss s;
	struct rule r;

	rss_make(&s, &ends[1], sp->fields);
	rule_init(&r, IBV_FLOW_ATTR_NORMAL, 0, 0);
	rule_dmac(&r, stranger);
	flow = rule_make(s.qp, &r);
	for (int i = 0; i < 48; i++) {
		unsigned int len = 0;
		struct frame f;
		uint8_t in[36];

		frame_make(&f, sp->base, stranger, 50);
		put16(f.b + (sp->base == UDP4 || sp->base == TCP4 ? L4_4 : L4_6), rng_next(&rng));
		put16(f.b + (sp->base == UDP4 || sp->base == TCP4 ? L4_4 : L4_6) + 2,
		      rng_in(&rng, 5000, 60000));
		for (int k = 0; k < 8; k++)
			f.b[(sp->base == UDP4 || sp->base == TCP4 ? IP + 12 : IP + 20) + k] = rng_next(&rng);
		for (int k = 0; k < 4; k++) {
			memcpy(in + len, f.b + sp->part[k].from, sp->part[k].len);
			len += sp->part[k].len;
		}
		right += rss_gets(&s, &f, toeplitz(in, len));
	}
	is(right, 48, "spread by %s", sp->name);
	ok(ibv_destroy_qp(s.qp) == EBUSY, "a queue pair with a rule stays");
	unsteer(flow);
	rss_drop(&s);
}

static void test_rss(void)
{
	static const uint8_t v4[12] = { 66, 9, 149, 187, 161, 142, 100, 80, 2794 >> 8, 2794 & 255,
					1766 >> 8, 1766 & 255 };
	struct ibv_device_attr_ex attr = {};
	int taken = 0;
	struct rss s;

	if (ibv_query_device_ex(ends[1].ctx, NULL, &attr))
		die("query_device_ex");
	is(attr.rss_caps.supported_qpts, 1 << IBV_QPT_RAW_PACKET, "for raw packet queue pairs");
	is(attr.rss_caps.rx_hash_function, IBV_RX_HASH_FUNC_TOEPLITZ, "by Toeplitz' function");
	is(attr.rss_caps.rx_hash_fields_mask, ADDR4 | ADDR6 | UDP_P | TCP_P, "of these fields");
	is(toeplitz(v4, 8), 0x323e8fc2, "Microsoft's vector, addresses");
	is(toeplitz(v4, 12), 0x51ccc178, "and ports");
	for (size_t i = 0; i < ARRAY_SIZE(spreads); i++)
		test_spread(&spreads[i]);

	rss_make(&s, &ends[1], ADDR4);
	ok(!rss_qp(&s, &ends[1], ADDR4, 39), "refused: a short key");
	ok(!rss_qp(&s, &ends[1], IBV_RX_HASH_IPSEC_SPI, KEY_LEN) && errno == EOPNOTSUPP,
	   "refused: a field that we don't know");
	for (uint64_t bit = 1; bit; bit <<= 1) {
		struct ibv_qp *qp = rss_qp(&s, &ends[1], bit, KEY_LEN);

		if (!qp == !(attr.rss_caps.rx_hash_fields_mask & bit))
			taken++;
		if (qp && ibv_destroy_qp(qp))
			die("destroy_qp");
	}
	is(taken, 64, "each field that is promised is taken, and no other");
	ok(ibv_destroy_wq(s.wq[0]), "a work queue in a table stays");
	is(qp_to(s.qp, IBV_QPS_ERR), EOPNOTSUPP, "it has no states");
	rss_drop(&s);
}

static void test_wq(void)
{
	struct ibv_flow *flow;
	struct frame f;
	struct ibv_wc wc;
	struct rule r;
	struct rss s;
	int n = 0;

	/* all frames to entry 0, and that is queue 0's */
	rss_make(&s, &ends[1], ADDR6);
	rule_init(&r, IBV_FLOW_ATTR_NORMAL, 0, 0);
	rule_dmac(&r, stranger);
	flow = rule_make(s.qp, &r);
	frame_make(&f, UDP4, stranger, 50);
	ok(rss_gets(&s, &f, 0), "a queue that is ready");
	is(wq_to(s.wq[0], IBV_WQS_ERR), 0, "to ERR");
	while (cq_wait(s.cq[0], &wc, 0.1)) {
		if (wc.status != IBV_WC_WR_FLUSH_ERR || wc.qp_num != s.wq[0]->wq_num)
			break;
		n++;
	}
	is(n, 16, "all is flushed, under the queue's number");
	wq_post(&s, 0, 3);
	ok(cq_wait(s.cq[0], &wc, 5) && wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 3,
	   "and so is what is posted then");
	sock_send(&ports[0], f.b, f.len);
	ok(!cq_wait(s.cq[0], &wc, 0.1), "no frame arrives there");
	ok(wq_to(s.wq[0], IBV_WQS_RDY), "not to RDY from there");
	is(wq_to(s.wq[0], IBV_WQS_RESET), 0, "to RESET");
	is(wq_to(s.wq[0], IBV_WQS_RDY), 0, "to RDY");
	for (int i = 0; i < 4; i++)
		wq_post(&s, 0, i);
	ok(rss_gets(&s, &f, 0), "frames arrive again");
	unsteer(flow);
	rss_drop(&s);
}

/* What ends a work queue by itself says so: a request that is wrong, a CQ that is full. */
static void test_fatal(void)
{
	struct ibv_async_event ev;
	struct ibv_flow *flow;
	struct frame f;
	struct ibv_wc wc;
	struct rule r;
	struct rss s;

	rule_init(&r, IBV_FLOW_ATTR_NORMAL, 0, 0);
	rule_dmac(&r, stranger);
	frame_make(&f, UDP4, stranger, 50);

	rss_make(&s, &ends[1], ADDR6);
	flow = rule_make(s.qp, &r);
	mr_drop(s.mr);
	sock_send(&ports[0], f.b, f.len);
	ok(cq_wait(s.cq[0], &wc, PATIENCE) && wc.status == IBV_WC_LOC_PROT_ERR && wc.wr_id == 0,
	   "a request whose region is gone");
	event_is(&ends[1], IBV_EVENT_WQ_FATAL, s.wq[0], "its work queue's event");
	for (int i = 1; i < 16 && cq_wait(s.cq[0], &wc, PATIENCE) &&
	     wc.status == IBV_WC_WR_FLUSH_ERR; i++)
		;
	is(wc.wr_id, 15, "the others are flushed");
	s.mr = mr_make(&ends[1], 64 * SLOT, IBV_ACCESS_LOCAL_WRITE);
	unsteer(flow);
	rss_drop(&s);

	rss_make(&s, &ends[1], ADDR6);
	flow = rule_make(s.qp, &r);
	if (ibv_resize_cq(s.cq[0], 4))
		die("resize_cq");
	for (int i = 0; i < s.cq[0]->cqe; i++)
		sock_send(&ports[0], f.b, f.len);
	ok(!event_wait(&ends[1], &ev, 0.1), "as many frames as completions that fit");
	sock_send(&ports[0], f.b, f.len);
	event_is(&ends[1], IBV_EVENT_CQ_ERR, s.cq[0], "one more: the completion queue's event");
	event_is(&ends[1], IBV_EVENT_WQ_FATAL, s.wq[0], "and the work queue's");
	unsteer(flow);
	rss_drop(&s);
}

/* All that there is of objects, and a way to end without a word to them */
static void leave(const char *how)
{
	struct queue q, sniffer;
	struct ibv_wc wc;
	struct frame f;
	struct rule r;
	struct got g;
	struct rss s;
	int rc;

	queue_make(&q, &ends[1], 4, 0);
	queue_make(&sniffer, &ends[1], 4, 0);
	rss_make(&s, &ends[1], ADDR4);
	steer_dmac(&q, stranger);
	rule_init(&r, IBV_FLOW_ATTR_NORMAL, 0, 0);
	rule_dport(&r, IBV_FLOW_SPEC_UDP, 8765);
	rule_make(s.qp, &r);
	rule_init(&r, IBV_FLOW_ATTR_SNIFFER, 0, 0);
	rule_make(sniffer.qp, &r);
	frame_make(&f, UDP4, stranger, 64);
	sock_send(&ports[0], f.b, f.len);
	ok(queue_has(&q, &f, NULL), "all is in use");
	if (how) {
		if (system(how))
			die("%s", how);
		while (queue_get(&q, &g, PATIENCE) && !g.status)
			;
		is(g.status, IBV_WC_WR_FLUSH_ERR, "the queue pair is flushed");
		ok(cq_wait(s.cq[1], &wc, PATIENCE) && wc.status == IBV_WC_WR_FLUSH_ERR,
		   "and the work queue");
	}
	rc = done_testing();
	fflush(stdout);
	_exit(rc);
}

static void test_leave(void)
{
	leave(NULL);
}

/* The netdev goes under everything: what is left are flushed requests. */
static void test_remove(void)
{
	leave("ip -n b link del v1");
}

static void test_move(void)
{
	leave("ip -n b link set v1 netns a");
}

static void test_unlink(void)
{
	leave("rdma link del roce1");
}

static void with_ports(void (*fn)(void))
{
	ports_open();
	fn();
}

#define T(what) { .name = #what, .fn = test_##what, .with = with_ports }
static const struct test tests[] = {
	T(wire), T(wrong), T(specs), T(refused), T(order), T(default), T(sniffer), T(vlan),
	T(vlan_rule), T(bound), T(denied), T(loop),
	T(full), T(gso), T(rss), T(wq), T(fatal), T(leave), T(unlink), T(move), T(remove),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ends[0], &ends[1]);
}
