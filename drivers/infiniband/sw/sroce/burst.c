// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Packets into bursts: consecutive packets of one queue pair share an skb
 * that the stack carries whole and that is segmented where it has to be, as
 * late as can be (SKB_GSO_UDP_L4). All have the same length but the last,
 * which may be shorter.
 *
 * The stack segments by its own rules: packet i of a burst over IPv4 gets the
 * burst's identification plus i, and a length of its own. Both are in the
 * ICRC, so each packet is written with what it will have.
 */
#include <linux/gfp.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/local_lock.h>
#include <linux/percpu.h>
#include <linux/udp.h>
#include <net/inet_ecn.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>

#include "sroce.h"
#include "trace.h"
#include "wire/icrc.h"

/* Fragments that packets are written to: eight pages of 4 KiB, one of 64. */
#define CHUNK_ORDER	get_order(SZ_32K)

/*
 * What an IP header can say: then 64 KiB in packets of 1024 bytes are two bursts,
 * the first two packets, of which one has the RETH, and the other 62.
 */
#define BURST_MAX_LEN	(U16_MAX - WIRE_IP4_LEN - WIRE_UDP_LEN)

/*
 * Of a VM whose netdev takes bursts (VIRTIO_NET_F_HOST_USO) the host drops those of more packets
 * than its UDP_MAX_SEGMENTS, without a word: virtio_net_hdr_to_skb(). It is 128, and 64 in
 * older kernels.
 */
#define BURST_MAX_PKTS	64U

/*
 * As many a CPU as a window needs that nobody has read yet, and some more. A page that is allocated
 * anew is zeroed first where the kernel is built so (init_on_alloc, as Debian's are), which is as
 * much work as the copy.
 */
#define CHUNKS		16

/**
 * struct sroce_chunk - pages that packets are written to
 * @page: the first; NULL if there are none
 * @size: bytes of them
 * @used: bytes of those that packets have
 * @taken: somebody writes one behind those. With PREEMPT_RT that may be preempted by who
 *	writes another
 */
struct sroce_chunk {
	struct page *page;
	u32 size;
	u32 used;
	bool taken;
};

/**
 * struct sroce_chunks - a CPU's fragments, used with bottom halves off
 * @lock: for who looks for one to take
 * @chunk: those that there are; what one burst leaves, the next takes
 * @now: the one that is written to
 */
struct sroce_chunks {
	local_lock_t lock;
	struct sroce_chunk chunk[CHUNKS];
	u32 now;
};

static DEFINE_PER_CPU(struct sroce_chunks, sroce_chunks) = {
	.lock = INIT_LOCAL_LOCK(lock),
};

static bool chunk_taken(const struct sroce_chunk *c)
{
	const bool taken = READ_ONCE(c->taken);

	/* pairs with chunk_leave(), which was on this CPU: the rest is as it was left */
	barrier();
	return taken;
}

/* Has every reader finished with it? A page from the emergency reserve goes back. */
static bool chunk_free(const struct sroce_chunk *c)
{
	return page_ref_count(c->page) == 1 && !page_is_pfmemalloc(c->page);
}

/*
 * Go on with another chunk that is free. The one before this is tried first, and so on back, as
 * caches may still have them. If none is free, the place for a new one.
 */
static void chunk_next(struct sroce_chunks *cs, u32 len)
{
	u32 i, n, place = (cs->now + 1) % CHUNKS;

	for (i = CHUNKS; i; i--) {
		n = (cs->now + i) % CHUNKS;
		if (chunk_taken(&cs->chunk[n]))
			continue;
		if (chunk_taken(&cs->chunk[place]))
			place = n;
		if (!cs->chunk[n].page) {
			place = n;
			continue;
		}
		/* once more from the top */
		if (chunk_free(&cs->chunk[n]) && cs->chunk[n].size >= len) {
			cs->chunk[n].used = 0;
			cs->now = n;
			return;
		}
	}
	cs->now = place;
}

static bool chunk_alloc(struct sroce_chunk *c, u32 len)
{
	unsigned int order = CHUNK_ORDER;
	struct page *page;

	page = alloc_pages(GFP_ATOMIC | __GFP_COMP | __GFP_NOWARN | __GFP_NORETRY, order);
	if (!page) {
		order = get_order(len);
		page = alloc_pages(GFP_ATOMIC | __GFP_COMP | __GFP_NOWARN, order);
		if (!page)
			return false;
	}
	if (c->page)
		put_page(c->page);
	c->page = page;
	c->size = PAGE_SIZE << order;
	c->used = 0;
	return true;
}

static bool chunk_has(const struct sroce_chunk *c, u32 len)
{
	return !chunk_taken(c) && c->page && c->used + len <= c->size;
}

static struct sroce_chunk *chunk_room(struct sroce_chunks *cs, u32 len)
{
	struct sroce_chunk *c = &cs->chunk[cs->now];

	if (likely(chunk_has(c, len)))
		return c;
	chunk_next(cs, len);
	c = &cs->chunk[cs->now];
	return chunk_has(c, len) || (!chunk_taken(c) && chunk_alloc(c, len)) ? c : NULL;
}

/* Return: where the next @len bytes go, until chunk_leave(); or NULL if memory is short. */
static struct sroce_chunk *chunk_take(u32 len)
{
	struct sroce_chunk *c;

	local_lock_nested_bh(&sroce_chunks.lock);
	c = chunk_room(this_cpu_ptr(&sroce_chunks), len);
	if (c)
		WRITE_ONCE(c->taken, true);
	local_unlock_nested_bh(&sroce_chunks.lock);
	return c;
}

/* @len bytes of it have been written. */
static void chunk_leave(struct sroce_chunk *c, u32 len)
{
	c->used += len;
	barrier();
	WRITE_ONCE(c->taken, false);
}

/**
 * sroce_burst_exit - give every CPU's chunks back
 *
 * Nothing is sent any more.
 */
void sroce_burst_exit(void)
{
	int cpu, i;

	for_each_possible_cpu(cpu) {
		struct sroce_chunks *cs = per_cpu_ptr(&sroce_chunks, cpu);

		for (i = 0; i < CHUNKS; i++) {
			if (cs->chunk[i].page)
				put_page(cs->chunk[i].page);
			cs->chunk[i].page = NULL;
		}
	}
}

/* From an address to itself: what is sent never leaves the link. */
static bool path_to_self(const struct sroce_path *path)
{
	if (path->ipv6)
		return ipv6_addr_equal(&path->saddr.in6, &path->daddr.in6);
	return path->saddr.in4 == path->daddr.in4;
}

/**
 * sroce_burst_start - get ready to send
 * @b: the burst
 * @num: who sends
 * @path: where to; its owner's lock is held as long as @b is used
 *
 * Bottom halves are off.
 *
 * Return: 0, or an errno if there is no route.
 */
int sroce_burst_start(struct sroce_burst *b, struct sroce_qpn *num, struct sroce_path *path)
{
	struct net_device *ndev;
	u32 room;

	b->dst = sroce_path_dst(path);
	if (!b->dst)
		return -EHOSTUNREACH;
	b->num = num;
	b->path = path;
	b->net = path->net;
	b->ipv6 = path->ipv6;
	b->oif = path->oif;
	b->tclass = path->tclass;
	b->self = path_to_self(path);
	b->skb = NULL;
	b->num_pkts = 0;

	ndev = sroce_dst_dev(b->dst);
	/* gso_features_check(): a longer skb would be segmented at once */
	room = READ_ONCE(ndev->gso_max_size) - 1;
	room -= min_t(u32, room, LL_RESERVED_SPACE(ndev) + WIRE_IP6_LEN + WIRE_UDP_LEN);
	b->max_len = min_t(u32, room, BURST_MAX_LEN);
	/* IPsec may cut a burst itself, and does not tell what had left when a queue was full */
	b->max_pkts = 1;
	if (!dst_xfrm(b->dst))
		b->max_pkts = min_t(u32, READ_ONCE(ndev->gso_max_segs), BURST_MAX_PKTS);
	return 0;
}

/**
 * sroce_burst_ect - a queue on the way may mark these, in place of a loss
 * @b: the burst, just started: of packets whose sender slows down for it
 */
void sroce_burst_ect(struct sroce_burst *b)
{
	b->tclass = (b->tclass & ~INET_ECN_MASK) | INET_ECN_ECT_0;
}

/**
 * sroce_burst_fits - may a packet join what is collected?
 * @b: the burst
 * @len: bytes of UDP payload
 *
 * Return: false if sroce_burst_flush() has to come first.
 */
bool sroce_burst_fits(const struct sroce_burst *b, u32 len)
{
	const struct skb_shared_info *shinfo;

	if (!b->skb)
		return true;
	shinfo = skb_shinfo(b->skb);
	return !b->closed && len <= b->seg_len && b->num_pkts < b->max_pkts &&
	       b->num_pkts * b->seg_len + len <= b->max_len &&
	       shinfo->nr_frags < MAX_SKB_FRAGS;
}

static void put_ip4(struct sk_buff *skb, const struct sroce_burst *b)
{
	const struct sroce_path *path = b->path;
	struct iphdr *ip = skb_put(skb, sizeof(*ip));

	*ip = (struct iphdr) {
		.version = 4,
		.ihl = WIRE_IP4_LEN / 4,
		.tos = b->tclass,
		.id = htons(path->ip_id),
		.frag_off = htons(IP_DF),
		.ttl = path->hop_limit,
		.protocol = IPPROTO_UDP,
		.saddr = path->saddr.in4,
		.daddr = path->daddr.in4,
	};
}

static void put_ip6(struct sk_buff *skb, const struct sroce_burst *b)
{
	const struct sroce_path *path = b->path;
	struct ipv6hdr *ip = skb_put(skb, sizeof(*ip));

	ip6_flow_hdr(ip, b->tclass, path->flow_label);
	ip->nexthdr = IPPROTO_UDP;
	ip->hop_limit = path->hop_limit;
	ip->saddr = path->saddr.in6;
	ip->daddr = path->daddr.in6;
}

static struct sk_buff *burst_skb(struct sroce_burst *b)
{
	u32 room = LL_RESERVED_SPACE(sroce_dst_dev(b->dst));
	struct sroce_path *path = b->path;
	struct sk_buff *skb;
	struct udphdr *udp;

	skb = alloc_skb(room + WIRE_IP6_LEN + WIRE_UDP_LEN, GFP_ATOMIC | __GFP_NOWARN);
	if (!skb)
		return NULL;

	skb_reserve(skb, room);
	skb_reset_network_header(skb);
	if (path->ipv6)
		put_ip6(skb, b);
	else
		put_ip4(skb, b);
	skb_set_transport_header(skb, skb->len);
	udp = skb_put_zero(skb, sizeof(*udp));
	udp->source = path->sport;
	udp->dest = htons(WIRE_UDP_PORT);
	skb->priority = path->priority;
	skb_dst_set(skb, dst_clone(b->dst));
	return skb;
}

/**
 * sroce_burst_cancel - the packet comes to nothing
 * @b: the burst, of which sroce_burst_reserve() has given room
 */
void sroce_burst_cancel(struct sroce_burst *b)
{
	chunk_leave(b->chunk, 0);
}

/**
 * sroce_burst_reserve - room for the next packet
 * @b: the burst; sroce_burst_fits() has said yes
 * @len: bytes from BTH to ICRC
 *
 * The room is the caller's until sroce_burst_commit(), or sroce_burst_cancel() if
 * it can't fill it. Bottom halves stay off.
 *
 * Return: where to write all but the ICRC, or NULL if memory is short.
 */
u8 *sroce_burst_reserve(struct sroce_burst *b, u32 len)
{
	struct sroce_chunk *c = chunk_take(len);

	if (!c)
		return NULL;
	b->chunk = c;
	if (!b->skb) {
		b->skb = burst_skb(b);
		if (!b->skb) {
			sroce_burst_cancel(b);
			return NULL;
		}
		b->seg_len = len;
		b->num_pkts = 0;
		b->closed = false;
	}

	b->pkt = page_address(c->page) + c->used;
	b->pkt_len = len;
	return b->pkt;
}

/* Of the packet at @b->pkt, which is number @i of the burst. */
static void put_icrc(const struct sroce_burst *b, u32 i)
{
	const u8 *ip = skb_network_header(b->skb);
	u16 udp_len = WIRE_UDP_LEN + b->pkt_len;
	u32 tail = b->pkt_len - WIRE_ICRC_LEN;
	u8 head[WIRE_ICRC_HEAD_MAX];
	u32 len, crc;

	if (b->path->ipv6)
		len = wire_icrc_head6(head, ip, udp_len, b->pkt);
	else
		len = wire_icrc_head4(head, ip, b->path->ip_id + i, udp_len, b->pkt);
	crc = sroce_crc32(WIRE_ICRC_SEED, head, len);
	crc = sroce_crc32(crc, b->pkt + WIRE_BTH_LEN, tail - WIRE_BTH_LEN);
	wire_icrc_put(b->pkt + tail, crc);
}

/**
 * sroce_burst_commit - the packet is written: put its ICRC and let it join
 * @b: the burst
 */
void sroce_burst_commit(struct sroce_burst *b)
{
	struct sroce_chunk *c = b->chunk;
	struct sk_buff *skb = b->skb;
	int n = skb_shinfo(skb)->nr_frags;

	/* bytes that stay in memory are not checked by anybody */
	if (!b->self)
		put_icrc(b, b->num_pkts);
	if (n && skb_can_coalesce(skb, n, c->page, c->used)) {
		skb_frag_size_add(&skb_shinfo(skb)->frags[n - 1], b->pkt_len);
		skb->len += b->pkt_len;
		skb->data_len += b->pkt_len;
		skb->truesize += b->pkt_len;
	} else {
		get_page(c->page);
		skb_add_rx_frag(skb, n, c->page, c->used, b->pkt_len, b->pkt_len);
	}
	/* skb_can_coalesce() needs the next packet right behind this one */
	chunk_leave(c, b->pkt_len);
	b->last = b->pkt;
	b->last_len = b->pkt_len;
	b->num_pkts++;
	b->closed = b->pkt_len < b->seg_len;
}

/**
 * sroce_burst_ask - the last packet asks for an acknowledgement after all
 * @b: the burst; its path's lock is held
 *
 * Return: false if that one has left.
 */
bool sroce_burst_ask(struct sroce_burst *b)
{
	if (!b->skb || !b->num_pkts)
		return false;
	/* room may have been reserved behind it, for one that came to nothing */
	b->pkt = b->last;
	b->pkt_len = b->last_len;
	b->pkt[WIRE_BTH_ACKREQ] |= WIRE_BTH_A;
	if (!b->self)
		put_icrc(b, b->num_pkts - 1);
	return true;
}

/* A bit in an skb's destructor_arg: it is the responder's */
#define TX_RESPONSE	1UL

/* The last reference to a burst's skb: the sender may go on. */
static void tx_free(struct sk_buff *skb)
{
	const unsigned long arg = (unsigned long)skb_shinfo(skb)->destructor_arg;
	struct sroce_qpn *num = (void *)(arg & ~TX_RESPONSE);

	atomic_dec(&num->tx_skbs);
	if (arg & TX_RESPONSE)
		atomic_dec(&num->resp_skbs);
	/* pairs with the barrier in send.c between blocking and looking again */
	smp_mb__after_atomic();
	if (sroce_qpn_use(num)) {
		struct sroce_qp *qp = num->qp;

		if (test_and_clear_bit(SROCE_SQ_BLOCKED, &qp->sq.flags))
			sroce_task_schedule(&qp->sq.task);
		if (test_and_clear_bit(SROCE_RESP_BLOCKED, &qp->rq.flags))
			sroce_task_schedule(&qp->rq.task);
		sroce_qpn_unuse(num);
	}
	sroce_qpn_put(num);
}

/*
 * Without a socket, an skb goes to the transmit queue of the CPU that it is sent on, by XPS, and
 * overtakes those of another that lie in theirs. Change to it when none does, as sockets do
 * (ooo_okay).
 */
static void stay_on_queue(struct sk_buff *skb, struct sroce_qpn *num)
{
#ifdef CONFIG_XPS
	/* of the requester and the responder of a queue pair at once, either will do */
	if (!atomic_read(&num->tx_skbs))
		WRITE_ONCE(num->tx_cpu, raw_smp_processor_id() + 1);
	skb->sender_cpu = READ_ONCE(num->tx_cpu);
#endif
}

/**
 * sroce_tx_charge - an skb goes to the stack
 * @skb: the skb, as a whole: the stack may change what it says of its packets
 * @num: who sends; told when the last reference to @skb goes
 * @response: true for the responder's skbs, which have their own count, so that a device queue
 *	full of requests cannot stop responses
 */
void sroce_tx_charge(struct sk_buff *skb, struct sroce_qpn *num, bool response)
{
	stay_on_queue(skb, num);
	refcount_inc(&num->ref);
	atomic_inc(&num->tx_skbs);
	if (response)
		atomic_inc(&num->resp_skbs);
	skb_shinfo(skb)->destructor_arg =
		(void *)((unsigned long)num | (response ? TX_RESPONSE : 0));
	skb->destructor = tx_free;
}

/*
 * Zero is allowed over IPv4 (RFC 768), but a receiver's GRO does not look at
 * such a packet, and lets it overtake those before it that it holds back to be
 * joined.
 */
static void put_checksum(struct sk_buff *skb, const struct sroce_path *path)
{
	struct udphdr *udp = udp_hdr(skb);
	u32 len = skb->len - skb_transport_offset(skb);

	udp->len = htons(len);
	if (path->ipv6)
		udp->check = ~udp_v6_check(len, &path->saddr.in6, &path->daddr.in6, 0);
	else
		udp->check = ~udp_v4_check(len, path->saddr.in4, path->daddr.in4, 0);
	skb->ip_summed = CHECKSUM_PARTIAL;
	skb->csum_start = skb_transport_header(skb) - skb->head;
	skb->csum_offset = offsetof(struct udphdr, check);
}

/**
 * sroce_burst_seal - what is collected is all
 * @b: the burst; an empty one is fine
 *
 * The last that needs the path: its lock may be dropped before
 * sroce_burst_send().
 */
void sroce_burst_seal(struct sroce_burst *b)
{
	struct sk_buff *skb = b->skb;

	if (!skb)
		return;
	if (!b->num_pkts) {
		kfree_skb(skb);
		b->skb = NULL;
		return;
	}

	if (!b->self)
		put_checksum(skb, b->path);
	if (b->num_pkts > 1) {
		skb_shinfo(skb)->gso_type = SKB_GSO_UDP_L4;
		skb_shinfo(skb)->gso_size = b->seg_len;
		skb_shinfo(skb)->gso_segs = b->num_pkts;
	}
	b->path->ip_id += b->num_pkts;

	sroce_tx_charge(skb, b->num, b->path == &b->num->qp->rq.path);
}

/**
 * sroce_burst_send - hand a sealed burst to the stack
 * @b: the burst; an empty one is fine
 *
 * RCU is held, for the namespace. To an address of this link's, the packets
 * arrive before this returns.
 *
 * Return: 0; -ENOBUFS if the device's queue would not have it, which is
 * back-pressure and no loss: nothing of it may arrive; or another errno, for a
 * loss like any other.
 */
int sroce_burst_send(struct sroce_burst *b)
{
	struct sk_buff *skb = b->skb;
	struct sroce_dev *sdev;
	union ib_gid mgid = {};
	bool multicast;
	u32 len, data;
	int err;

	if (!skb)
		return 0;
	b->skb = NULL;
	sdev = qp_dev(b->num->qp);
	len = skb->len;
	data = len - skb_transport_offset(skb) - WIRE_UDP_LEN;
	multicast = sroce_skb_multicast(skb, b->ipv6);
	sroce_qp_count(b->num->qp, TX_BURSTS);
	if (multicast)
		mgid = sroce_ip_dgid(skb_network_header(skb), b->ipv6);
	if (b->self)
		err = sroce_net_self(skb, b->net, b->ipv6, b->oif);
	else
		err = sroce_net_send(skb, b->net, b->ipv6);
	/*
	 * Members on this host have it before the netdev is asked: ip_mc_output(),
	 * ip6_finish_output2()
	 */
	if (err == -ENOBUFS && multicast && sroce_net_heard(b->net, &mgid))
		err = -EIO;
	trace_sroce_burst(b, len, err);
	if (err) {
		if (err != -ENOBUFS)
			sroce_count_add(sdev, PORT_XMIT_DISCARDS, b->num_pkts);
		return err;
	}
	sroce_count_at(sdev, SROCE_CNT_PORT_UNI_XMIT + multicast, b->num_pkts);
	sroce_count_add(sdev, PORT_XMIT_BYTES, data);
	return 0;
}

/**
 * sroce_burst_lost - a burst that the queue refused is not sent again: count it as discarded
 * @b: the burst, of which sroce_burst_send() has said -ENOBUFS
 */
void sroce_burst_lost(const struct sroce_burst *b)
{
	sroce_count_add(qp_dev(b->num->qp), PORT_XMIT_DISCARDS, b->num_pkts);
}

/**
 * sroce_burst_flush - seal and send a burst that is not retried: one that is refused is lost
 * @b: the burst; its path's lock is held
 *
 * Return: true if the stack has taken it.
 */
bool sroce_burst_flush(struct sroce_burst *b)
{
	int err;

	sroce_burst_seal(b);
	err = sroce_burst_send(b);
	if (err == -ENOBUFS)
		sroce_burst_lost(b);
	return !err;
}
