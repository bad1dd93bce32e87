// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What no software device can be faster than: the two copies, the two CRCs
 * and the stack between them, without queue pairs, rings or answers. A host
 * receives from
 *
 *	echo 1 >/sys/module/ceiling/parameters/receive
 *
 * on; another one sends to it for a time, here a second, in segments of 1024
 * bytes:
 *
 *	echo 192.168.77.2 1024 1000 >/sys/module/ceiling/parameters/send
 *	cat /sys/module/ceiling/parameters/send
 *
 * and the last line tells the bytes that arrived, and the nanoseconds. A host
 * is the network namespace of who writes. If none of this machine receives,
 * it is another machine's, which answers each burst by how many bytes it has.
 */
#include <linux/crc32.h>
#include <linux/inet.h>
#include <linux/ip.h>
#include <linux/module.h>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <linux/nsproxy.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <net/route.h>

MODULE_DESCRIPTION("Copies, CRCs and the stack: the ceiling of a software RDMA device");
MODULE_LICENSE("Dual BSD/GPL");

#define PORT		4791
#define ANSWER_PORT	4792
#define BUF_LEN		65536	/* a message, which is sent again and again */
#define BUF_PAGES	(BUF_LEN / PAGE_SIZE)
#define CHUNK_ORDER	3
#define CHUNK_LEN	(PAGE_SIZE << CHUNK_ORDER)
#define NUM_CHUNKS	2
#define BURST_LEN	61440
#define MAX_MSEC	60000
/* how long a burst may be under way, before it counts as lost */
#define WAIT_NSEC	(100 * NSEC_PER_MSEC)
/* under way at a time to another machine, which takes a moment to answer */
#define REMOTE_WINDOW	(4 * BURST_LEN)

/* as much as a BTH, and at the end there is a CRC: 16 bytes a segment */
struct head {
	__be32 seq;
	__be32 len;	/* of the data */
	__be32 answer;	/* of another machine's sender, the last one of a burst */
};

/* What an ICRC covers before the data: 8 bytes of ones, IP, UDP and BTH */
#define COVERED_LEN	(8 + sizeof(struct iphdr) + sizeof(struct udphdr) + sizeof(struct head))

#define HEADS_LEN	(sizeof(struct iphdr) + sizeof(struct udphdr))
#define SEG_OVERHEAD	(sizeof(struct head) + sizeof(__le32))

/* A program's memory is scattered, so this is, too. */
static struct page *src[BUF_PAGES], *dst[BUF_PAGES];

static struct net *receiver;
static u64 received;
static u64 result_bytes, result_ns;

/* What a sender has; chunks are used again when the receiver let go of them. */
struct sender {
	struct net *net;
	struct rtable *rt;
	struct flowi4 fl4;
	struct page *chunk[NUM_CHUNKS];
	u32 seg_len;
	u32 seq;
	u64 sent;
	bool remote;
};

static u8 *at(struct page **buf, u32 seq, u32 len)
{
	u32 pos = (u64)seq * len % BUF_LEN;

	return page_address(buf[pos / PAGE_SIZE]) + pos % PAGE_SIZE;
}

static bool chunk_refill(struct page **chunk)
{
	struct page *page;

	if (*chunk && page_ref_count(*chunk) == 1)
		return true;
	page = alloc_pages(GFP_ATOMIC | __GFP_COMP | __GFP_NOWARN, CHUNK_ORDER);
	if (!page)
		return false;
	if (*chunk)
		put_page(*chunk);
	*chunk = page;
	return true;
}

/* The bytes that an ICRC has of the heads differ from packet to packet, as these do. */
static u32 segment_crc(const struct head *head, const u8 *data, u32 len)
{
	u8 covered[COVERED_LEN];

	memset(covered, 0xff, sizeof(covered) - sizeof(*head));
	memcpy(covered + sizeof(covered) - sizeof(*head), head, sizeof(*head));
	return crc32_le(crc32_le(~0, covered, sizeof(covered)), data, len);
}

static void put_segment(struct sender *s, u8 *to, bool last)
{
	struct head *head = (void *)to;
	u8 *data = to + sizeof(*head);

	*head = (struct head) {
		.seq = htonl(s->seq),
		.len = htonl(s->seg_len),
		.answer = htonl(s->remote && last),
	};
	memcpy(data, at(src, s->seq, s->seg_len), s->seg_len);
	*(__le32 *)(data + s->seg_len) = cpu_to_le32(segment_crc(head, data, s->seg_len));
	s->seq++;
}

/* As many segments as a chunk holds and the burst still takes. */
static u32 put_chunk(struct sender *s, struct sk_buff *skb, int n, u32 room)
{
	u32 len = s->seg_len + SEG_OVERHEAD, used;
	struct page *page = s->chunk[n];
	bool last;

	room = min_t(u32, CHUNK_LEN, room);
	for (used = 0; used + len <= room; used += len) {
		last = n == NUM_CHUNKS - 1 && used + 2 * len > room;
		put_segment(s, page_address(page) + used, last);
	}
	get_page(page);
	skb_add_rx_frag(skb, n, page, 0, used, used);
	return used;
}

static void put_ip(struct sk_buff *skb, const struct flowi4 *fl4)
{
	struct iphdr *ip = skb_push(skb, sizeof(*ip));

	skb_reset_network_header(skb);
	*ip = (struct iphdr) {
		.version = 4,
		.ihl = 5,
		.frag_off = htons(IP_DF),
		.ttl = 64,
		.protocol = IPPROTO_UDP,
		.saddr = fl4->saddr,
		.daddr = fl4->daddr,
	};
}

static void put_heads(struct sender *s, struct sk_buff *skb)
{
	u32 udp_len = skb->len + sizeof(struct udphdr);
	struct udphdr *udp = skb_push(skb, sizeof(*udp));

	skb_reset_transport_header(skb);
	*udp = (struct udphdr) {
		.source = htons(PORT),
		.dest = htons(PORT),
		.len = htons(udp_len),
		.check = ~csum_tcpudp_magic(s->fl4.saddr, s->fl4.daddr, udp_len, IPPROTO_UDP, 0),
	};
	skb->ip_summed = CHECKSUM_PARTIAL;
	skb->csum_start = skb_transport_header(skb) - skb->head;
	skb->csum_offset = offsetof(struct udphdr, check);

	put_ip(skb, &s->fl4);
	skb_shinfo(skb)->gso_type = SKB_GSO_UDP_L4;
	skb_shinfo(skb)->gso_size = s->seg_len + SEG_OVERHEAD;
	skb_shinfo(skb)->gso_segs = DIV_ROUND_UP(udp_len - sizeof(*udp),
						 s->seg_len + SEG_OVERHEAD);
}

static int send_burst(struct sender *s)
{
	u32 room = LL_RESERVED_SPACE(s->rt->dst.dev) + sizeof(struct iphdr) + sizeof(struct udphdr);
	struct sk_buff *skb = alloc_skb(room, GFP_ATOMIC);
	u32 left = BURST_LEN, first = s->seq;
	int n;

	if (!skb)
		return -ENOMEM;
	skb_reserve(skb, room);
	for (n = 0; n < NUM_CHUNKS; n++) {
		if (!chunk_refill(&s->chunk[n])) {
			kfree_skb(skb);
			return -ENOMEM;
		}
		left -= put_chunk(s, skb, n, left);
	}
	put_heads(s, skb);
	skb_dst_set(skb, dst_clone(&s->rt->dst));
	s->sent += (u64)(s->seq - first) * s->seg_len;
	ip_local_out(s->net, NULL, skb);
	return 0;
}

/* On another processor, or in ksoftirqd, it takes a moment. */
static void wait_for_receiver(struct sender *s)
{
	u64 end = ktime_get_ns() + WAIT_NSEC, window = s->remote ? REMOTE_WINDOW : 0;

	while (READ_ONCE(received) + window < s->sent) {
		if (ktime_get_ns() > end) {
			s->sent = READ_ONCE(received);
			return;
		}
		cond_resched();
	}
}

static int send_for(struct sender *s, u32 msec)
{
	u64 start = ktime_get_ns(), end = start + (u64)msec * NSEC_PER_MSEC;
	int err;

	WRITE_ONCE(received, 0);
	while (ktime_get_ns() < end) {
		local_bh_disable();
		err = send_burst(s);
		local_bh_enable();
		if (err)
			return err;
		wait_for_receiver(s);
		if (signal_pending(current))
			return -EINTR;
	}
	result_bytes = READ_ONCE(received);
	result_ns = ktime_get_ns() - start;
	return 0;
}

/* Is @skb a datagram to @port, of @len bytes at least? */
static bool is_to(struct sk_buff *skb, u16 port, u32 len)
{
	return ip_hdr(skb)->protocol == IPPROTO_UDP && ip_hdr(skb)->ihl == 5 &&
	       pskb_may_pull(skb, HEADS_LEN + len) &&
	       ((struct udphdr *)(skb->data + sizeof(struct iphdr)))->dest == htons(port);
}

static unsigned int take_answer(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	__be64 bytes;

	if (!is_to(skb, ANSWER_PORT, sizeof(bytes)))
		return NF_ACCEPT;
	skb_copy_bits(skb, HEADS_LEN, &bytes, sizeof(bytes));
	WRITE_ONCE(received, be64_to_cpu(bytes));
	consume_skb(skb);
	return NF_STOLEN;
}

static const struct nf_hook_ops answer_hook = {
	.hook = take_answer,
	.pf = NFPROTO_IPV4,
	.hooknum = NF_INET_LOCAL_IN,
	.priority = NF_IP_PRI_LAST,
};

static int send_set(const char *val, const struct kernel_param *kp)
{
	struct sender s = { .net = current->nsproxy->net_ns, .remote = !receiver };
	char addr[sizeof("255.255.255.255")];
	u32 len, msec;
	int err, n;

	if (sscanf(val, "%15s %u %u", addr, &len, &msec) != 3 || msec > MAX_MSEC ||
	    len < 64 || len > PAGE_SIZE || BUF_LEN % len ||
	    !in4_pton(addr, -1, (u8 *)&s.fl4.daddr, -1, NULL))
		return -EINVAL;
	s.fl4.flowi4_proto = IPPROTO_UDP;
	s.rt = ip_route_output_key(s.net, &s.fl4);
	if (IS_ERR(s.rt))
		return PTR_ERR(s.rt);

	s.seg_len = len;
	err = s.remote ? nf_register_net_hook(s.net, &answer_hook) : 0;
	if (!err) {
		err = send_for(&s, msec);
		if (s.remote)
			nf_unregister_net_hook(s.net, &answer_hook);
	}
	for (n = 0; n < NUM_CHUNKS; n++)
		if (s.chunk[n])
			put_page(s.chunk[n]);
	ip_rt_put(s.rt);
	return err;
}

static int send_get(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%llu %llu\n", result_bytes, result_ns);
}

/* A segment may lie across fragments once something has copied the skb. Return: its length. */
static u32 take_segment(const struct sk_buff *skb, u32 pos, bool *answer)
{
	struct head head;
	__le32 crc;
	u32 len;
	u8 *to;

	if (skb_copy_bits(skb, pos, &head, sizeof(head)))
		return 0;
	len = ntohl(head.len);
	if (!len || len > PAGE_SIZE || BUF_LEN % len)
		return 0;
	to = at(dst, ntohl(head.seq), len);
	if (skb_copy_bits(skb, pos + sizeof(head), to, len) ||
	    skb_copy_bits(skb, pos + sizeof(head) + len, &crc, sizeof(crc)) ||
	    segment_crc(&head, to, len) != le32_to_cpu(crc))
		return 0;
	*answer |= head.answer != 0;
	return len;
}

/* To whom @skb is from, over IPv4 with no UDP checksum. */
static void put_answer(struct net *net, const struct sk_buff *skb)
{
	struct flowi4 fl4 = { .daddr = ip_hdr(skb)->saddr, .flowi4_proto = IPPROTO_UDP };
	struct rtable *rt = ip_route_output_key(net, &fl4);
	struct sk_buff *answer;
	struct udphdr *udp;
	u32 room;

	if (IS_ERR(rt))
		return;
	room = LL_RESERVED_SPACE(rt->dst.dev) + sizeof(struct iphdr) + sizeof(*udp);
	answer = alloc_skb(room + sizeof(__be64), GFP_ATOMIC);
	if (!answer) {
		ip_rt_put(rt);
		return;
	}
	skb_reserve(answer, room);
	*(__be64 *)skb_put(answer, sizeof(__be64)) = cpu_to_be64(received);
	udp = skb_push(answer, sizeof(*udp));
	skb_reset_transport_header(answer);
	*udp = (struct udphdr) {
		.source = htons(PORT),
		.dest = htons(ANSWER_PORT),
		.len = htons(answer->len),
	};
	put_ip(answer, &fl4);
	skb_dst_set(answer, &rt->dst);
	ip_local_out(net, NULL, answer);
}

static unsigned int receive(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	bool answer = false;
	u32 pos, len;
	u64 bytes = 0;

	if (!is_to(skb, PORT, 0))
		return NF_ACCEPT;
	for (pos = HEADS_LEN; pos < skb->len; pos += len + SEG_OVERHEAD) {
		len = take_segment(skb, pos, &answer);
		if (!len)
			break;
		bytes += len;
	}
	WRITE_ONCE(received, received + bytes);
	if (answer)
		put_answer(state->net, skb);
	consume_skb(skb);
	return NF_STOLEN;
}

static const struct nf_hook_ops hook = {
	.hook = receive,
	.pf = NFPROTO_IPV4,
	.hooknum = NF_INET_LOCAL_IN,
	.priority = NF_IP_PRI_LAST,
};

static void receive_stop(void)
{
	if (!receiver)
		return;
	nf_unregister_net_hook(receiver, &hook);
	put_net(receiver);
	receiver = NULL;
}

static int receive_set(const char *val, const struct kernel_param *kp)
{
	bool on;
	int err = kstrtobool(val, &on);

	if (err)
		return err;
	/* on the command line that loads the module */
	if (!dst[BUF_PAGES - 1])
		return -EAGAIN;
	receive_stop();
	if (!on)
		return 0;
	WRITE_ONCE(received, 0);
	receiver = get_net(current->nsproxy->net_ns);
	err = nf_register_net_hook(receiver, &hook);
	if (err) {
		put_net(receiver);
		receiver = NULL;
	}
	return err;
}

/* Parameters of a module are written one at a time. */
static const struct kernel_param_ops send_ops = { .set = send_set, .get = send_get };
static const struct kernel_param_ops receive_ops = { .set = receive_set };

module_param_cb(send, &send_ops, NULL, 0600);
MODULE_PARM_DESC(send, "ADDRESS SEGMENT MILLISECONDS; read: bytes that arrived, and nanoseconds");
module_param_cb(receive, &receive_ops, NULL, 0200);
MODULE_PARM_DESC(receive, "1: what comes to the writer's network namespace");

static void free_buffers(void)
{
	int i;

	for (i = 0; i < BUF_PAGES; i++) {
		if (src[i])
			__free_page(src[i]);
		if (dst[i])
			__free_page(dst[i]);
	}
}

static int __init ceiling_init(void)
{
	int i;

	for (i = 0; i < BUF_PAGES; i++) {
		src[i] = alloc_page(GFP_KERNEL | __GFP_ZERO);
		dst[i] = alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!src[i] || !dst[i]) {
			free_buffers();
			return -ENOMEM;
		}
	}
	return 0;
}

static void __exit ceiling_exit(void)
{
	receive_stop();
	free_buffers();
}

module_init(ceiling_init);
module_exit(ceiling_exit);
