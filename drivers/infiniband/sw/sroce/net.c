// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The edge to the network stack: routes and transmission, sockets and
 * reception.
 *
 * A namespace with a link has a UDP socket for each family that owns the port
 * and makes the stack join a NIC's packets. The packets themselves are taken
 * by a netfilter hook behind the firewall: that is where a burst is whole, in
 * order, and on the CPU that it came in on (Documentation/decisions.rst).
 */
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <net/addrconf.h>
#include <net/dsfield.h>
#include <net/inet_ecn.h>
#include <net/ip.h>
#include <net/ip6_fib.h>
#include <net/ip6_route.h>
#include <net/l3mdev.h>
#include <net/netfilter/nf_conntrack.h>
#include <net/netns/generic.h>
#include <net/route.h>
#include <net/udp.h>
#include <net/udp_tunnel.h>
#include <net/xfrm.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>

#include "sroce.h"
#include "trace.h"
#include "wire/icrc.h"

/**
 * struct sroce_net - what a namespace with links has
 * @devs: its links
 * @sk4: owns the port over IPv4
 * @sk6: owns it over IPv6; NULL where that is off
 */
struct sroce_net {
	struct list_head devs;
	struct socket *sk4;
	struct socket *sk6;
};

static unsigned int sroce_net_id;

/* Guards every namespace's links and sockets; netlink and its ends only. */
static DEFINE_MUTEX(sroce_net_lock);

/* Transmission */

/*
 * As a socket with this TOS; the service level is for those who set no other. From 8 on it
 * is none of Ethernet's: in a datagram's completion it says what its header was, and who
 * answers gives that back (ibv_create_ah_from_wc()).
 */
static u8 path_priority(u8 tclass, u8 sl)
{
	if (tclass)
		return rt_tos2priority(tclass);
	if (sl >= 8)
		return 0;
	return min_t(u8, sl, TC_PRIO_INTERACTIVE);
}

/**
 * sroce_path_init - the way to a peer
 * @path: filled in, without a route
 * @attr: address vector; the core has looked its source GID up
 * @lqpn: own queue pair, for the flow's UDP source port
 * @rqpn: the peer's
 * @ignored: bits of the traffic class that do not count
 *
 * A VLAN or macvlan above the link's netdev may be in another namespace, where
 * no packet is taken for this link, and whose end it would not hear of.
 *
 * Return: 0; -EINVAL if the two ends speak different protocols; -EOPNOTSUPP if
 * the source GID is of another namespace than the link.
 */
int sroce_path_init(struct sroce_path *path, const struct rdma_ah_attr *attr, u32 lqpn,
		    u32 rqpn, u8 ignored)
{
	const struct ib_global_route *grh = rdma_ah_read_grh(attr);
	union {
		struct sockaddr sa;
		struct sockaddr_in in4;
		struct sockaddr_in6 in6;
	} saddr = {}, daddr = {};
	struct net_device *ndev;

	if (!(rdma_ah_get_ah_flags(attr) & IB_AH_GRH) || !grh->sgid_attr ||
	    grh->sgid_attr->gid_type != IB_GID_TYPE_ROCE_UDP_ENCAP)
		return -EINVAL;

	rdma_gid2ip(&saddr.sa, &grh->sgid_attr->gid);
	rdma_gid2ip(&daddr.sa, &grh->dgid);
	if (saddr.sa.sa_family != daddr.sa.sa_family)
		return -EINVAL;

	memset(path, 0, sizeof(*path));
	rcu_read_lock();
	ndev = rdma_read_gid_attr_ndev_rcu(grh->sgid_attr);
	if (!IS_ERR(ndev)) {
		path->net = dev_net(ndev);
		path->oif = ndev->ifindex;
	}
	rcu_read_unlock();
	if (!path->net)
		return -EINVAL;
	if (path->net != READ_ONCE(to_sdev(grh->sgid_attr->device)->net))
		return -EOPNOTSUPP;

	path->ipv6 = saddr.sa.sa_family == AF_INET6;
	if (path->ipv6) {
		path->saddr.in6 = saddr.in6.sin6_addr;
		path->daddr.in6 = daddr.in6.sin6_addr;
	} else {
		path->saddr.in4 = saddr.in4.sin_addr.s_addr;
		path->daddr.in4 = daddr.in4.sin_addr.s_addr;
	}
	path->tclass = grh->traffic_class & ~ignored;
	path->priority = path_priority(path->tclass, rdma_ah_get_sl(attr));
	path->hop_limit = grh->hop_limit ?: 64;
	path->flow_label = cpu_to_be32(grh->flow_label & IB_GRH_FLOWLABEL_MASK);
	path->sport = htons(rdma_get_udp_sport(grh->flow_label, lqpn, rqpn));
	path->ip_id = get_random_u16();
	return 0;
}

/**
 * sroce_path_mtu - the largest path MTU that leaves by the netdev of a source GID
 * @attr: address vector; the core has looked its source GID up
 *
 * That of a VLAN or a bridge may be less than the port's, and the stack does not send what
 * is more.
 *
 * Return: enum ib_mtu; 0 if there is none.
 */
enum ib_mtu sroce_path_mtu(const struct rdma_ah_attr *attr)
{
	struct net_device *ndev;
	enum ib_mtu mtu = 0;

	rcu_read_lock();
	ndev = rdma_read_gid_attr_ndev_rcu(rdma_ah_read_grh(attr)->sgid_attr);
	if (!IS_ERR(ndev))
		mtu = iboe_get_mtu(READ_ONCE(ndev->mtu));
	rcu_read_unlock();
	return mtu;
}

/**
 * sroce_path_release - forget a path's route
 * @path: the path; one that was never set up is fine
 */
void sroce_path_release(struct sroce_path *path)
{
	dst_release(path->dst);
	path->dst = NULL;
}

static struct dst_entry *route4(struct sroce_path *path)
{
	struct flowi4 fl4 = {
		.flowi4_oif = path->oif,
		.flowi4_proto = IPPROTO_UDP,
		.saddr = path->saddr.in4,
		.daddr = path->daddr.in4,
		.fl4_sport = path->sport,
		.fl4_dport = htons(WIRE_UDP_PORT),
	};
	struct rtable *rt;

	sroce_flowi4_set_tos(&fl4, path->tclass);
	rt = ip_route_output_flow(path->net, &fl4, NULL);
	return IS_ERR(rt) ? NULL : &rt->dst;
}

#if IS_ENABLED(CONFIG_IPV6)
/*
 * ip_route_output_flow() sees to that for IPv4: an address that has gone is somebody else's by
 * now. One of a VRF is known by its netdev alone. The GID that the core makes of a link address
 * need be nobody's: from there, and to there, nothing leaves.
 */
static bool has_addr6(const struct sroce_path *path)
{
	const struct in6_addr *saddr = &path->saddr.in6;
	const struct net_device *ndev;
	bool has;

	/* with ipv6.disable=1 there is no table of addresses */
	if (!ipv6_mod_enabled())
		return false;
	if (ipv6_addr_type(saddr) & IPV6_ADDR_LINKLOCAL &&
	    ipv6_addr_equal(saddr, &path->daddr.in6))
		return true;
	rcu_read_lock();
	ndev = dev_get_by_index_rcu(path->net, path->oif);
	has = ndev && ipv6_chk_addr(path->net, saddr, ndev, 0);
	rcu_read_unlock();
	return has;
}
#endif

static struct dst_entry *route6(struct sroce_path *path)
{
#if IS_ENABLED(CONFIG_IPV6)
	struct flowi6 fl6 = {
		.flowi6_oif = path->oif,
		.flowi6_proto = IPPROTO_UDP,
		.flowlabel = ip6_make_flowinfo(path->tclass, path->flow_label),
		.saddr = path->saddr.in6,
		.daddr = path->daddr.in6,
		.fl6_sport = path->sport,
		.fl6_dport = htons(WIRE_UDP_PORT),
	};
	struct dst_entry *dst;

	if (!has_addr6(path))
		return NULL;
	dst = sroce_ip6_dst_lookup(path->net, &fl6);
	if (IS_ERR(dst))
		return NULL;
	if (dst->error) {
		dst_release(dst);
		return NULL;
	}
	path->dst_cookie = rt6_get_cookie(dst_rt6_info(dst));
	return dst;
#else
	return NULL;
#endif
}

/**
 * sroce_path_dst - a path's route, looked up again if it has changed
 * @path: the path; its owner's lock is held
 *
 * Bottom halves are off.
 *
 * Return: the route, kept by @path; NULL for none.
 */
struct dst_entry *sroce_path_dst(struct sroce_path *path)
{
	if (path->dst && dst_check(path->dst, path->dst_cookie))
		return path->dst;
	sroce_path_release(path);
	path->dst_cookie = 0;
	path->dst = path->ipv6 ? route6(path) : route4(path);
	return path->dst;
}

/**
 * sroce_net_send - hand an skb to the stack
 * @skb: from its IP header on, with its route; consumed
 * @net: namespace; RCU is held
 * @ipv6: which it is
 *
 * Return: 0, -ENOBUFS if a queue on the way out was full, or another errno.
 */
int sroce_net_send(struct sk_buff *skb, struct net *net, bool ipv6)
{
	int err;

	if (ipv6) {
		skb->protocol = htons(ETH_P_IPV6);
		memset(IP6CB(skb), 0, sizeof(*IP6CB(skb)));
		err = ip6_local_out(net, NULL, skb);
	} else {
		skb->protocol = htons(ETH_P_IP);
		memset(IPCB(skb), 0, sizeof(*IPCB(skb)));
		err = ip_local_out(net, NULL, skb);
	}
	/* a queue's verdict; congestion that it only announces drops nothing */
	return err > 0 ? net_xmit_errno(err) : err;
}

/* Reception: places in an skb */

/* The piece that @pos now stands for; false if it has no bytes. */
static bool rx_piece(struct sroce_rx_pos *pos)
{
	const skb_frag_t *frag;

	if (pos->frag < 0) {
		pos->data = pos->skb->data;
		pos->left = skb_headlen(pos->skb);
	} else {
		frag = &skb_shinfo(pos->skb)->frags[pos->frag];
		pos->data = skb_frag_address(frag);
		pos->left = skb_frag_size(frag);
	}
	return pos->left;
}

/* From one piece to the next that has bytes; the skb has more. */
static void rx_next_piece(struct sroce_rx_pos *pos)
{
	do {
		const struct skb_shared_info *shinfo = skb_shinfo(pos->skb);

		if (++pos->frag < shinfo->nr_frags)
			continue;
		/* the head's fragment list, or the next in it */
		pos->skb = pos->listed ? pos->skb->next : shinfo->frag_list;
		pos->listed = true;
		pos->frag = -1;
	} while (!rx_piece(pos));
}

/**
 * sroce_rx_copy_pieces - sroce_rx_copy(), over the end of a piece
 * @pos: from where; moved on
 * @to: where to put them; NULL to skip them
 * @len: how many; the skb has them
 */
void sroce_rx_copy_pieces(struct sroce_rx_pos *pos, void *to, u32 len)
{
	while (len) {
		u32 n;

		if (!pos->left)
			rx_next_piece(pos);
		n = min(pos->left, len);
		sroce_rx_copy(pos, to, n);
		if (to)
			to += n;
		len -= n;
	}
}

static u32 rx_crc(struct sroce_rx_pos *pos, u32 crc, u32 len)
{
	while (len) {
		u32 n;

		if (!pos->left)
			rx_next_piece(pos);
		n = min(pos->left, len);
		crc = sroce_crc32(crc, pos->data, n);
		pos->data += n;
		pos->left -= n;
		len -= n;
	}
	return crc;
}

/* Reception: packets */

/* What a run has of its queue pair. */
enum rx_side {
	RX_NEITHER,
	RX_REQUESTS,		/* the receive lock */
	RX_RESPONSES,		/* the send side */
};

/**
 * struct rx_burst - an skb and how far it has been taken apart
 * @skb: the skb
 * @ip: its IP header
 * @ipv6: which it is
 * @snet: the namespace's links
 * @sdev: one of them, to count what belongs to no queue pair
 * @num: packets of it so far
 * @self: of this link, in memory that nobody else writes: there is no ICRC
 * @id_step: by how much the identification grows from packet to packet
 * @pos: the next packet's BTH
 * @qp: taken for a run of its packets
 * @qpn: its number, or that of none: no number before the first
 * @side: what of it is locked, or owned
 * @run_sq: its send side has something to do
 * @ud_suits: datagrams from there are for this queue pair
 * @admits: the skb is from this queue pair's peer
 * @ce: a queue on its way has marked it
 * @cnp: the sender is to be told
 * @pkts: of the run, that have been let in
 * @bytes: of their payload
 */
struct rx_burst {
	struct sk_buff *skb;
	const u8 *ip;
	bool ipv6;
	struct sroce_net *snet;
	struct sroce_dev *sdev;
	u32 num;
	bool self;
	u32 id_step;
	struct sroce_rx_pos pos;
	struct sroce_qp *qp;
	u32 qpn;
	enum rx_side side;
	bool run_sq;
	bool ud_suits;
	bool admits;
	bool ce;
	bool cnp;
	u32 pkts;
	u32 bytes;
};

static u32 icrc_head(const struct rx_burst *rx, u8 *head, const u8 *bth, u32 len, u32 step)
{
	u16 udp_len = WIRE_UDP_LEN + len;

	if (rx->ipv6)
		return wire_icrc_head6(head, rx->ip, udp_len, bth);
	return wire_icrc_head4(head, rx->ip,
			       wire_get16(rx->ip + 4) + step * rx->num, udp_len, bth);
}

static bool icrc_ok(const struct rx_burst *rx, const u8 *bth, u32 len, u32 step)
{
	const u32 covered = len - WIRE_BTH_LEN - WIRE_ICRC_LEN;
	const u8 *data = rx->pos.data + WIRE_BTH_LEN;
	struct sroce_rx_pos pos = rx->pos;
	u8 head[WIRE_ICRC_HEAD_MAX];
	u8 icrc[WIRE_ICRC_LEN];
	u32 crc;

	crc = sroce_crc32(WIRE_ICRC_SEED, head, icrc_head(rx, head, bth, len, step));
	if (pos.left >= len)
		return wire_icrc_match(data + covered, sroce_crc32(crc, data, covered));
	sroce_rx_copy(&pos, NULL, WIRE_BTH_LEN);
	crc = rx_crc(&pos, crc, covered);
	sroce_rx_copy(&pos, icrc, sizeof(icrc));
	return wire_icrc_match(icrc, crc);
}

/*
 * GRO leaves the first packet's identification alone. What the others had is
 * one more each, or the same for all: the second packet tells. (That of old
 * kernels joins others as well: README.md has which, and what is lost by it.)
 */
static bool rx_icrc(struct rx_burst *rx, const u8 *bth, u32 len)
{
	if (icrc_ok(rx, bth, len, rx->id_step))
		return true;
	if (rx->num != 1 || rx->ipv6 || !icrc_ok(rx, bth, len, 0))
		return false;
	rx->id_step = 0;
	return true;
}

/*
 * Is the netdev of the VRF, if of any, that the packet came by? Addresses have a meaning in one.
 * Asked each time: a netdev joins and leaves a VRF, and its connections with it.
 */
static bool same_vrf(const struct rx_burst *rx, int ifindex)
{
	const struct net_device *dev = rx->skb->dev;

	return dev->ifindex == ifindex ||
	       l3mdev_master_ifindex_by_index(dev_net(dev), ifindex) ==
	       l3mdev_master_ifindex_rcu(dev);
}

/* The netdev that a VRF's has taken the place of; 0 for none. */
static int rx_sdif(const struct sk_buff *skb, bool ipv6)
{
	return ipv6 ? inet6_sdif(skb) : inet_sdif(skb);
}

/* fe80::/10 has a meaning on one link alone: did it come by the netdev? */
static bool same_link(const struct rx_burst *rx, int ifindex)
{
	const struct sk_buff *skb = rx->skb;

	return skb->dev->ifindex == ifindex || rx_sdif(skb, true) == ifindex ||
	       (!rx->self && IP6CB(skb)->iif == ifindex);
}

/* RC: the two ends know each other's addresses (Annex A17.4.5). */
static bool from_peer(const struct sroce_path *path, const struct rx_burst *rx)
{
	if (path->ipv6 != rx->ipv6 || path->net != dev_net(rx->skb->dev) ||
	    !same_vrf(rx, path->oif))
		return false;
	if (rx->ipv6) {
		const struct ipv6hdr *ip = (const void *)rx->ip;

		return ipv6_addr_equal(&ip->saddr, &path->daddr.in6) &&
		       ipv6_addr_equal(&ip->daddr, &path->saddr.in6) &&
		       (!(ipv6_addr_type(&ip->daddr) & IPV6_ADDR_LINKLOCAL) ||
			same_link(rx, path->oif));
	} else {
		const struct iphdr *ip = (const void *)rx->ip;

		return ip->saddr == path->daddr.in4 && ip->daddr == path->saddr.in4;
	}
}

/* Let go of the side that the run has. */
static void side_end(struct rx_burst *rx)
{
	struct sroce_qp *qp = rx->qp;

	switch (rx->side) {
	case RX_REQUESTS:
		/* a run's lock lies between two calls, more than sparse can follow */
		__acquire(&qp->rq.lock);
		sroce_recv_end(qp);
		break;
	case RX_RESPONSES:
		sroce_send_mr_put(qp);
		sroce_send_answered(qp);
		rx->run_sq = false;
		break;
	case RX_NEITHER:
		break;
	}
	rx->side = RX_NEITHER;
}

static void run_end(struct rx_burst *rx)
{
	struct sroce_qp *qp = rx->qp;

	if (!qp)
		return;
	side_end(rx);
	if (rx->pkts) {
		sroce_qp_count_add(qp, RX_PKTS, rx->pkts);
		sroce_qp_count_add(qp, RX_BYTES, rx->bytes);
		rx->pkts = 0;
		rx->bytes = 0;
	}
	rx->qp = NULL;
	if (rx->run_sq)
		sroce_send_run(qp);
	rx->run_sq = false;
	if (rx->cnp)
		sroce_resp_run(qp);
	rx->cnp = false;
	sroce_qp_put(qp);
}

static void run_start(struct rx_burst *rx, u32 qpn)
{
	rx->qpn = qpn;
	rx->qp = sroce_qp_get(qpn);
}

/* A side's path stands still while the run has it, and the skb has one sender. */
static void side_start(struct rx_burst *rx, enum rx_side side, const struct sroce_path *path)
{
	rx->side = side;
	rx->admits = rx->qp->transport == WIRE_UD || from_peer(path, rx);
}

static void side_requests(struct rx_burst *rx)
{
	if (rx->side == RX_REQUESTS)
		return;
	side_end(rx);
	spin_lock_bh(&rx->qp->rq.lock);
	__release(&rx->qp->rq.lock);
	side_start(rx, RX_REQUESTS, &rx->qp->rq.path);
}

/* @num packets that were let in came marked: the sender is told, but not too often. */
static void rx_marked(struct rx_burst *rx, u32 num)
{
	sroce_qp_count_add(rx->qp, RX_MARKED, num);
	if (qp_reliable(rx->qp) && sroce_pace_marked(rx->qp)) {
		set_bit(SROCE_RESP_CNP, &rx->qp->rq.flags);
		rx->cnp = true;
	}
}

/* All of a P_Key but the bit by which full members differ from limited ones */
#define PKEY_BASE	0x7fff

/* Full and limited members alike, 10.9.3: the port is a full one */
static bool wrong_pkey(u16 pkey)
{
	return (pkey ^ IB_DEFAULT_PKEY_FULL) & PKEY_BASE;
}

/* Is the packet of this queue pair's connection, or is there none? */
static bool rx_admit(struct rx_burst *rx, bool admits, const struct wire_pkt *pkt)
{
	if (!admits) {
		sroce_qp_count(rx->qp, RX_WRONG_PEER);
		return false;
	}
	rx->pkts++;
	rx->bytes += pkt->payload_len;
	if (unlikely(rx->ce))
		rx_marked(rx, 1);
	if (wrong_pkey(pkt->pkey)) {
		sroce_qp_count(rx->qp, RX_WRONG_PKEY);
		return false;
	}
	return true;
}

/* The completer runs here and now, if nobody else is at the send side. */
static void rx_response(struct rx_burst *rx, struct sroce_rx *packet)
{
	struct sroce_qp *qp = rx->qp;

	if (rx->side != RX_RESPONSES) {
		side_end(rx);
		if (sroce_send_try_claim(qp)) {
			side_start(rx, RX_RESPONSES, &qp->sq.path);
			/* what came before goes first */
			sroce_ack_run(qp);
		}
	}
	if (rx->side == RX_RESPONSES) {
		if (rx_admit(rx, rx->admits, &packet->pkt))
			sroce_ack_packet(qp, packet);
		return;
	}
	spin_lock_bh(&qp->rq.lock);
	if (rx_admit(rx, from_peer(&qp->rq.path, rx), &packet->pkt))
		sroce_ack_later(qp, packet);
	spin_unlock_bh(&qp->rq.lock);
	rx->run_sq = true;
}

static void rx_request(struct rx_burst *rx, struct sroce_rx *packet)
{
	struct sroce_qp *qp = rx->qp;

	side_requests(rx);
	if (!rx_admit(rx, rx->admits, &packet->pkt))
		return;
	sroce_recv_packet(qp, packet);
	/* an error at the responder flushes the send queue as well */
	rx->run_sq |= READ_ONCE(qp->state) == IB_QPS_ERR;
}

/* The netdev that the packet came by, a VRF's apart; NULL if it has gone. */
static struct net_device *rx_ndev(const struct rx_burst *rx)
{
	const int sdif = rx_sdif(rx->skb, rx->ipv6);

	return sdif ? dev_get_by_index_rcu(dev_net(rx->skb->dev), sdif) : rx->skb->dev;
}

/* Is it this link's netdev? */
static bool came_by(const struct sk_buff *skb, bool ipv6, const struct sroce_dev *sdev)
{
	return sdev->ifindex == skb->dev->ifindex || sdev->ifindex == rx_sdif(skb, ipv6);
}

/**
 * sroce_ip_dgid - the address that a packet is sent to
 * @ip: its IP header
 * @ipv6: which it is
 *
 * Return: that, as a GID.
 */
union ib_gid sroce_ip_dgid(const void *ip, bool ipv6)
{
	union ib_gid gid = {};

	if (ipv6)
		memcpy(&gid, &((const struct ipv6hdr *)ip)->daddr, sizeof(gid));
	else
		ipv6_addr_set_v4mapped(((const struct iphdr *)ip)->daddr, (struct in6_addr *)&gid);
	return gid;
}

static union ib_gid rx_dgid(const struct rx_burst *rx)
{
	return sroce_ip_dgid(rx->ip, rx->ipv6);
}

/*
 * Has the link this address, in the packet's VRF? That of the netdev that it came by goes
 * before others alike: @exact says whether it is that.
 */
static const struct ib_gid_attr *rx_gid(const struct rx_burst *rx, struct sroce_dev *sdev,
					const union ib_gid *gid, bool *exact)
{
	struct net_device *ndev = rx_ndev(rx);
	const struct ib_gid_attr *attr;

	*exact = false;
	if (!ndev)
		return ERR_PTR(-ENOENT);
	attr = rdma_find_gid_by_port(&sdev->ibdev, gid, IB_GID_TYPE_ROCE_UDP_ENCAP, 1, ndev);
	if (!IS_ERR(attr)) {
		*exact = true;
		return attr;
	}
	attr = rdma_find_gid_by_port(&sdev->ibdev, gid, IB_GID_TYPE_ROCE_UDP_ENCAP, 1, NULL);
	if (IS_ERR(attr))
		return attr;
	ndev = rdma_read_gid_attr_ndev_rcu(attr);
	if (!IS_ERR(ndev) && net_eq(dev_net(ndev), dev_net(rx->skb->dev)) &&
	    same_vrf(rx, ndev->ifindex))
		return attr;
	rdma_put_gid_attr(attr);
	return ERR_PTR(-ENOENT);
}

/*
 * Did it come by the link's netdev, or by one above in its place, whose addresses are the link's
 * as well? The connection manager joins groups there for who has one of them. What comes by a
 * macvlan or an ipvlan comes by the netdev, too.
 */
static bool came_above(const struct rx_burst *rx, const struct sroce_dev *sdev)
{
	struct net_device *lower, *upper;

	if (came_by(rx->skb, rx->ipv6, sdev))
		return true;
	upper = rx_ndev(rx);
	if (!upper || !(is_vlan_dev(upper) || netif_is_bridge_master(upper) ||
			netif_is_lag_master(upper)))
		return false;
	lower = dev_get_by_index_rcu(dev_net(rx->skb->dev), sdev->ifindex);
	return lower && netdev_has_upper_dev_all_rcu(lower, upper);
}

/* As same_vrf(), of a netdev whose bridge or bond may be what is in a VRF */
static bool above_in_vrf(const struct rx_burst *rx, int ifindex)
{
	const struct net_device *dev = rx->skb->dev;

	return l3mdev_master_upper_ifindex_by_index_rcu(dev_net(dev), ifindex) ==
	       l3mdev_master_ifindex_rcu(dev);
}

/*
 * Datagrams come from anybody in the networks that the link has an address in. Once for a run:
 * its packets came together, and to look for an address takes long.
 */
static bool rx_ud_suits(const struct rx_burst *rx)
{
	struct sroce_dev *sdev = qp_dev(rx->qp);
	const struct ib_gid_attr *attr;
	union ib_gid dgid;
	bool exact;

	if (sdev->net != dev_net(rx->skb->dev))
		return false;
	if (came_by(rx->skb, rx->ipv6, sdev) || above_in_vrf(rx, sdev->ifindex))
		return true;
	if (sroce_skb_multicast(rx->skb, rx->ipv6))
		return came_above(rx, sdev);
	dgid = rx_dgid(rx);
	attr = rx_gid(rx, sdev, &dgid, &exact);
	if (IS_ERR(attr))
		return false;
	rdma_put_gid_attr(attr);
	return true;
}

/* Can this queue pair have to do with the packet at all? */
static bool rx_suits(const struct rx_burst *rx, const struct wire_pkt *pkt)
{
	const bool response = pkt->op->flags & WIRE_RESPONSE;

	if (pkt->op->class == WIRE_CLASS_GAPS && qp_reliable(rx->qp))
		return true;
	/* XRC: an initiator has nobody's requests to take, and a target no responses */
	if ((pkt->opcode & WIRE_TRANSPORT_MASK) != rx->qp->transport ||
	    (rx->qp->transport == WIRE_UD && !rx->ud_suits) ||
	    rx->qp->type == (response ? IB_QPT_XRC_TGT : IB_QPT_XRC_INI)) {
		sroce_qp_count(rx->qp, RX_WRONG_STATE);
		return false;
	}
	return true;
}

/* The peer says that a queue on the way to it grows, Annex A17.9.3 */
static void rx_notified(struct rx_burst *rx, const struct wire_pkt *pkt)
{
	struct sroce_qp *qp = rx->qp;
	bool admits;

	side_end(rx);
	spin_lock_bh(&qp->rq.lock);
	admits = qp_reliable(qp) && qp->state >= IB_QPS_RTR && from_peer(&qp->rq.path, rx);
	spin_unlock_bh(&qp->rq.lock);
	if (!admits) {
		sroce_qp_count(qp, RX_WRONG_PEER);
		return;
	}
	if (wrong_pkey(pkt->pkey)) {
		sroce_qp_count(qp, RX_WRONG_PKEY);
		return;
	}
	sroce_qp_count(qp, RX_CNP);
	sroce_pace_cnp(qp);
}

/* @gsi: it came to number 1. The number that QP1 has in the table is none on the wire. */
static void rx_packet(struct rx_burst *rx, struct sroce_rx *packet, bool gsi)
{
	const struct wire_pkt *pkt = &packet->pkt;

	if (rx->qpn != pkt->qpn) {
		run_end(rx);
		run_start(rx, pkt->qpn);
		rx->ud_suits = rx->qp && rx->qp->transport == WIRE_UD && rx_ud_suits(rx);
	}
	if (!rx->qp || (rx->qp->type == IB_QPT_GSI) != gsi)
		sroce_count(rx->sdev, RX_NO_QP);
	else if (pkt->op->class == WIRE_CLASS_CNP)
		rx_notified(rx, pkt);
	else if (!rx_suits(rx, pkt))
		return;
	else if (pkt->op->flags & WIRE_RESPONSE)
		rx_response(rx, packet);
	else
		rx_request(rx, packet);
}

/* A datagram for all members of its group, each in its turn (10.5.2.3). */
static void rx_multicast(struct rx_burst *rx, struct sroce_rx *packet)
{
	const union ib_gid mgid = rx_dgid(rx);
	const struct sroce_mcast *group;
	struct sroce_dev *sdev;
	u32 i;

	list_for_each_entry_rcu(sdev, &rx->snet->devs, net_entry) {
		/* two links of one network get one copy each */
		group = sroce_mcast_find(sdev, &mgid);
		if (!group || !came_above(rx, sdev))
			continue;
		for (i = 0; i < group->num; i++) {
			packet->pkt.qpn = group->qpn[i];
			rx_packet(rx, packet, false);
		}
	}
}

/**
 * sroce_net_heard - is a group heard on this host?
 * @net: namespace; RCU is held
 * @mgid: the group's address as a GID, IPv4 mapped
 *
 * Return: true if a queue pair is in that group.
 */
bool sroce_net_heard(struct net *net, const union ib_gid *mgid)
{
	const struct sroce_net *snet = net_generic(net, sroce_net_id);
	struct sroce_dev *sdev;

	list_for_each_entry_rcu(sdev, &snet->devs, net_entry)
		if (sroce_mcast_find(sdev, mgid))
			return true;
	return false;
}

/*
 * A management datagram is for the link that has the address. If several have, as those of a bridge
 * and of its port, it is for the one that RDMA CM knew first that has it of the netdev that the
 * datagram came by: RDMA CM binds who listens at an address to that one, if it may use it there
 * (cma_acquire_dev_by_src_ip()). The connection manager has to know the VLAN of the address.
 */
static void rx_management(struct rx_burst *rx, struct sroce_rx *packet)
{
	const union ib_gid dgid = rx_dgid(rx);
	const struct ib_gid_attr *attr;
	struct sroce_dev *sdev;
	bool exact;

	packet->pkt.qpn = 0;
	list_for_each_entry_rcu(sdev, &rx->snet->devs, net_entry) {
		/* with it, the link has a GID table; without, it may have none yet */
		const u32 qpn = READ_ONCE(sdev->gsi_qpn);

		if (!qpn)
			continue;
		attr = rx_gid(rx, sdev, &dgid, &exact);
		if (IS_ERR(attr))
			continue;
		exact &= rdma_dev_access_netns(&sdev->ibdev, dev_net(rx->skb->dev));
		if (exact || !packet->pkt.qpn || came_by(rx->skb, rx->ipv6, sdev)) {
			packet->pkt.qpn = qpn;
			if (rdma_read_gid_l2_fields(attr, &packet->vlan, NULL))
				packet->vlan = SROCE_NO_VLAN;
		}
		rdma_put_gid_attr(attr);
		if (exact)
			break;
	}
	rx_packet(rx, packet, true);
}

static void rx_segment(struct rx_burst *rx, u32 len)
{
	u8 hdr[WIRE_MAX_HDR_LEN];
	struct sroce_rx_pos pos = rx->pos;
	struct sroce_rx packet;
	bool known;

	sroce_rx_copy(&pos, hdr, min_t(u32, len, sizeof(hdr)));
	known = wire_parse(hdr, len, &packet.pkt) == WIRE_OK;
	if (known && packet.pkt.qpn != rx->qpn)
		sroce_qp_prefetch(packet.pkt.qpn, packet.pkt.op->flags & WIRE_RESPONSE);
	if (!known) {
		sroce_count(rx->sdev, RX_MALFORMED);
	} else if (!rx->self && !rx_icrc(rx, hdr, len)) {
		sroce_count(rx->sdev, RX_ICRC);
	} else {
		packet.skb = rx->skb;
		packet.ipv6 = rx->ipv6;
		packet.vlan = SROCE_NO_VLAN;
		packet.payload = rx->pos;
		sroce_rx_copy(&packet.payload, NULL, packet.pkt.op->hdr_len);
		if (packet.pkt.qpn == WIRE_QPN_MULTICAST)
			rx_multicast(rx, &packet);
		else if (packet.pkt.qpn == WIRE_QPN_GSI)
			rx_management(rx, &packet);
		else
			rx_packet(rx, &packet, false);
	}

	sroce_rx_copy(&rx->pos, NULL, len);
	rx->num++;
}

/* Is this a packet of the middle of the message that the run's queue pair is at? */
static bool rx_is_middle(const struct rx_burst *rx, const u8 *bth, u8 opcode)
{
	return opcode && bth[WIRE_BTH_OPCODE] == opcode &&
	       !(bth[WIRE_BTH_FLAGS] & (WIRE_BTH_PAD_MASK << WIRE_BTH_PAD_SHIFT |
					WIRE_BTH_TVER_MASK)) &&
	       !wrong_pkey(wire_get16(bth + WIRE_BTH_PKEY)) &&
	       wire_get24(bth + WIRE_BTH_DQPN) == rx->qpn;
}

/* Is there a message that the run's side is in the middle of? Its next opcode. */
static u8 rx_expects(const struct rx_burst *rx, const u32 **psn)
{
	switch (rx->side) {
	case RX_REQUESTS:
		*psn = &rx->qp->rq.epsn;
		return sroce_recv_expects(rx->qp);
	case RX_RESPONSES:
		*psn = &rx->qp->sq.rsp_psn;
		return sroce_ack_expects(rx->qp);
	case RX_NEITHER:
		break;
	}
	return 0;
}

static bool rx_middle(struct rx_burst *rx, const u8 *bth)
{
	if (rx->side == RX_RESPONSES)
		return sroce_ack_middle(rx->qp, bth + WIRE_BTH_LEN);
	return sroce_recv_middle(rx->qp, bth + WIRE_BTH_LEN, bth[WIRE_BTH_ACKREQ]);
}

/*
 * The middle of a message, as far as it goes on in this piece of the skb:
 * packets of @seg bytes that differ in their payload and PSN alone. What is
 * not as expected, down to a wrong ICRC, is left for rx_segment() to judge.
 * Return: bytes taken.
 */
static u32 rx_middles(struct rx_burst *rx, u32 left, u32 seg)
{
	const u32 covered = seg - WIRE_BTH_LEN - WIRE_ICRC_LEN;
	const u32 room = min(left, rx->pos.left);
	const u8 *bth = rx->pos.data, *first = bth;
	u8 head[WIRE_ICRC_HEAD_MAX];
	u32 head_len, taken;
	const u32 *psn;

	if (rx->side == RX_NEITHER || !rx->admits || covered != rx->qp->mtu || room < seg ||
	    !rx_is_middle(rx, bth, rx_expects(rx, &psn)))
		return 0;
	head_len = icrc_head(rx, head, bth, seg, rx->id_step);
	for (taken = 0; taken + seg <= room; taken += seg, bth += seg) {
		const u8 *data = bth + WIRE_BTH_LEN;
		u32 crc;

		if (memcmp(bth, first, WIRE_BTH_ACKREQ) ||
		    bth[WIRE_BTH_ACKREQ] & (0xff ^ WIRE_BTH_A) ||
		    wire_get24(bth + WIRE_BTH_PSN) != *psn)
			break;
		if (!rx->self) {
			wire_icrc_head_next(head, head_len, wire_get16(rx->ip + 4) +
					    rx->id_step * rx->num, bth);
			crc = sroce_crc32(WIRE_ICRC_SEED, head, head_len);
			if (!wire_icrc_match(data + covered, sroce_crc32(crc, data, covered)))
				break;
		}
		if (!rx_middle(rx, bth))
			break;
		rx->num++;
	}
	rx->pos.data += taken;
	rx->pos.left -= taken;
	if (unlikely(rx->ce) && taken)
		rx_marked(rx, taken / seg);
	rx->pkts += taken / seg;
	rx->bytes += taken / seg * covered;
	if (rx->side == RX_RESPONSES)
		sroce_ack_middles(rx->qp, taken / seg);
	return taken;
}

/* A link to count on: that of the netdev, or any of its namespace that it may be for. */
static struct sroce_dev *rx_dev(const struct sroce_net *snet, const struct sk_buff *skb, bool ipv6)
{
	struct sroce_dev *sdev, *any = NULL;

	list_for_each_entry_rcu(sdev, &snet->devs, net_entry) {
		if (came_by(skb, ipv6, sdev))
			return sdev;
		any = sdev;
	}
	return any;
}

static bool rx_ce(const struct sk_buff *skb, bool ipv6)
{
	return INET_ECN_is_ce(ipv6 ? ipv6_get_dsfield(ipv6_hdr(skb)) :
				     ipv4_get_dsfield(ip_hdr(skb)));
}

static struct rx_burst rx_start(struct net *net, struct sk_buff *skb, bool ipv6)
{
	struct sroce_net *snet = net_generic(net, sroce_net_id);

	return (struct rx_burst) {
		.skb = skb,
		.ip = skb_network_header(skb),
		.ipv6 = ipv6,
		.snet = snet,
		.sdev = rx_dev(snet, skb, ipv6),
		.ce = rx_ce(skb, ipv6),
		.id_step = 1,
		.qpn = ~0U,
		.pos = { .skb = skb, .frag = -1 },
	};
}

/* Packets of @seg bytes each, the last may be shorter, from @off on. */
static void rx_segments(struct rx_burst *rx, u32 off, u32 seg)
{
	const bool multicast = sroce_skb_multicast(rx->skb, rx->ipv6);
	const u32 len = rx->skb->len - off;
	u32 left = len;

	rx_piece(&rx->pos);
	sroce_rx_copy(&rx->pos, NULL, off);
	trace_sroce_receive(left, DIV_ROUND_UP(left, seg));
	while (left) {
		rx_segment(rx, min(left, seg));
		left -= min(left, seg);
		left -= rx_middles(rx, left, seg);
	}
	/* by a VLAN, a bridge, the loopback device: who it is for has the link that it came by */
	if (rx->qp && !came_by(rx->skb, rx->ipv6, rx->sdev) &&
	    qp_dev(rx->qp)->net == rx->sdev->net)
		rx->sdev = qp_dev(rx->qp);
	sroce_count(rx->sdev, RX_BURSTS);
	sroce_count_add(rx->sdev, PORT_RCV_BYTES, len);
	sroce_count_at(rx->sdev, SROCE_CNT_PORT_UNI_RCV + multicast, rx->num);
	run_end(rx);
}

/* An skb's UDP payload lies at @off; it is ours to free. RCU is held. */
static void rx_skb(struct net *net, struct sk_buff *skb, u32 off, bool ipv6)
{
	const struct udphdr *udp = (const void *)(skb->data + off - WIRE_UDP_LEN);
	struct rx_burst rx = rx_start(net, skb, ipv6);
	struct skb_shared_info *shinfo = skb_shinfo(skb);
	u32 seg = skb->len - off;
	struct sk_buff *part;
	bool listed = false;

	if (!rx.sdev)
		return;
	/* with options or extension headers it is no RoCE packet: the ICRC has no place for them */
	if (off != (ipv6 ? WIRE_IP6_LEN : WIRE_IP4_LEN) + WIRE_UDP_LEN)
		goto malformed;
	if (ntohs(udp->len) != seg + WIRE_UDP_LEN)
		goto malformed;
	if (skb_is_gso(skb)) {
		/* what another protocol has joined, or IP with its headers left in */
		if (!(shinfo->gso_type & SKB_GSO_UDP_L4))
			goto malformed;
		seg = shinfo->gso_size;
		listed = shinfo->gso_type & SKB_GSO_FRAGLIST;
	}
	/* a fragment that was itself put together; rx_next_piece() knows one level */
	skb_walk_frags(skb, part)
		if (skb_has_frag_list(part) || !skb_frags_readable(part))
			goto malformed;
	if (!skb_frags_readable(skb) || !seg)
		goto malformed;
	/* of a list, udp->check is the first packet's alone, and GRO has looked at them all */
	if (udp->check && !listed &&
	    nf_checksum(skb, NF_INET_LOCAL_IN, off - WIRE_UDP_LEN, IPPROTO_UDP,
			ipv6 ? AF_INET6 : AF_INET)) {
		sroce_count(rx.sdev, RX_CSUM);
		return;
	}
	rx_segments(&rx, off, seg);
	return;

malformed:
	sroce_count(rx.sdev, RX_MALFORMED);
}

/*
 * Skbs that arrive within the sending of another; each takes its part of the stack. With PREEMPT_RT
 * those of who was preempted there count as well.
 */
#define SELF_MAX_DEPTH	8

static DEFINE_PER_CPU(unsigned int, sroce_self_depth);

/**
 * sroce_net_self - what is sent to its sender's own address has arrived
 * @skb: from its IP header on, with its route; consumed
 * @net: namespace; RCU is held
 * @ipv6: which it is
 * @oif: netdev that has the address
 *
 * Bottom halves are off. What this makes others send comes back here: a queue
 * pair's sides have one owner at a time, so that one that is at it is left a
 * note, and between two queue pairs this nests no deeper than they have sides. A
 * program can connect many in a ring, where each makes the next one send.
 *
 * Return: 0; -ENOBUFS if this is nested too deep, and it has to be sent again.
 */
int sroce_net_self(struct sk_buff *skb, struct net *net, bool ipv6, int oif)
{
	const u32 off = skb_transport_offset(skb) + WIRE_UDP_LEN;
	struct rx_burst rx;

	if (this_cpu_inc_return(sroce_self_depth) > SELF_MAX_DEPTH) {
		this_cpu_dec(sroce_self_depth);
		kfree_skb(skb);
		return -ENOBUFS;
	}
	/* not the loopback device, which is in no VRF */
	skb->dev = dev_get_by_index_rcu(net, oif) ?: sroce_dst_dev(skb_dst(skb));
	rx = rx_start(net, skb, ipv6);
	rx.self = true;
	if (rx.sdev)
		rx_segments(&rx, off, skb_is_gso(skb) ? skb_shinfo(skb)->gso_size : skb->len - off);
	consume_skb(skb);
	this_cpu_dec(sroce_self_depth);
	return 0;
}

/*
 * We take the packet before the chain's end, where conntrack would confirm
 * its entry: without that, every packet would be NEW to the firewall.
 */
static bool confirm_conntrack(struct sk_buff *skb)
{
#if IS_ENABLED(CONFIG_NF_CONNTRACK)
	const struct nf_ct_hook *hook = rcu_dereference(nf_ct_hook);
	enum ip_conntrack_info info;
	const struct nf_conn *ct = nf_ct_get(skb, &info);

	if (hook && ct && !nf_ct_is_confirmed(ct))
		return sroce_confirm_conntrack(hook, skb) == NF_ACCEPT;
#endif
	return true;
}

static unsigned int rx_steal(const struct nf_hook_state *state, struct sk_buff *skb,
			     u32 ip_len, bool ipv6)
{
	const struct udphdr *udp;

	if (!pskb_may_pull(skb, ip_len + sizeof(*udp)))
		return NF_DROP;
	udp = (const void *)(skb->data + ip_len);
	if (udp->dest != htons(WIRE_UDP_PORT))
		return NF_ACCEPT;
	/* an ipvlan in L3S mode shows whose it is behind this hook: see sock_rcv() */
	if (netif_has_l3_rx_handler(skb->dev) || dev_net(skb->dev) != state->net)
		return NF_ACCEPT;
	/* a sender on this host may still write to its pages; from 7.2 on nobody else has asked */
	if (skb_orphan_frags_rx(skb, GFP_ATOMIC))
		return NF_DROP;
	/* what a socket's receive path would ask */
	if (ipv6 ? !xfrm6_policy_check(NULL, XFRM_POLICY_IN, skb) :
		   !xfrm4_policy_check(NULL, XFRM_POLICY_IN, skb))
		return NF_DROP;
	if (!confirm_conntrack(skb))
		return NF_DROP;

	/* a tap's writer delivers in its own context */
	local_bh_disable();
	rx_skb(state->net, skb, ip_len + sizeof(*udp), ipv6);
	local_bh_enable();
	consume_skb(skb);
	return NF_STOLEN;
}

static unsigned int sroce_hook4(void *priv, struct sk_buff *skb,
				const struct nf_hook_state *state)
{
	const struct iphdr *ip = ip_hdr(skb);

	if (ip->protocol != IPPROTO_UDP || ip->ihl != WIRE_IP4_LEN / 4)
		return NF_ACCEPT;
	return rx_steal(state, skb, WIRE_IP4_LEN, false);
}

static unsigned int sroce_hook6(void *priv, struct sk_buff *skb,
				const struct nf_hook_state *state)
{
	if (ipv6_hdr(skb)->nexthdr != IPPROTO_UDP)
		return NF_ACCEPT;
	return rx_steal(state, skb, WIRE_IP6_LEN, true);
}

static const struct nf_hook_ops sroce_hooks[] = {
	{
		.hook = sroce_hook4,
		.pf = NFPROTO_IPV4,
		.hooknum = NF_INET_LOCAL_IN,
		.priority = NF_IP_PRI_LAST,
	}, {
		.hook = sroce_hook6,
		.pf = NFPROTO_IPV6,
		.hooknum = NF_INET_LOCAL_IN,
		.priority = NF_IP6_PRI_LAST,
	},
};

/* Namespaces */

/*
 * What reaches the socket has passed no hook of ours: it has options or extension headers, and is
 * no RoCE packet; or it was in fragments of IPv6, put together behind LOCAL_IN; or an ipvlan in L3S
 * mode has taken it to another namespace there.
 */
static int sock_rcv(struct sock *sk, struct sk_buff *skb)
{
	const bool ipv6 = sk->sk_family == AF_INET6;
	const u32 ip_len = skb_transport_offset(skb) - skb_network_offset(skb);

	if (skb_orphan_frags_rx(skb, GFP_ATOMIC)) {
		kfree_skb(skb);
		return 0;
	}
	/* with its sum, as what has been pulled was taken off that */
	skb_push_rcsum(skb, -skb_network_offset(skb));
	rx_skb(sock_net(sk), skb, ip_len + WIRE_UDP_LEN, ipv6);
	consume_skb(skb);
	return 0;
}

static void sock_close(struct socket **sock)
{
	if (*sock)
		sroce_tunnel_sock_release(*sock);
	*sock = NULL;
}

static int sock_open(struct net *net, struct socket **sock, bool ipv6)
{
	struct udp_port_cfg port = {
		.family = ipv6 ? AF_INET6 : AF_INET,
		.local_udp_port = htons(WIRE_UDP_PORT),
		.ipv6_v6only = ipv6,
	};
	struct udp_tunnel_sock_cfg cfg = {
		.encap_type = 1,
		.encap_rcv = sock_rcv,
	};
	int one = 1;
	int err;

	err = udp_sock_create(net, &port, sock);
	/* of kernels without CONFIG_IPV6, some say 0 (<net/udp_tunnel.h>) */
	if (!err && !*sock)
		err = -EPFNOSUPPORT;
	if (err)
		return err;
	sroce_setup_tunnel_sock(net, *sock, &cfg);
	/* GRO joins a NIC's packets for a socket that takes bursts */
	err = (*sock)->ops->setsockopt(*sock, SOL_UDP, UDP_GRO, KERNEL_SOCKPTR(&one),
				       sizeof(one));
	if (err)
		sock_close(sock);
	return err;
}

static int net_open(struct net *net, struct sroce_net *snet)
{
	int err;

	err = sock_open(net, &snet->sk4, false);
	if (err)
		return err;
	/* the second without CONFIG_IPV6, the first with ipv6.disable=1 */
	err = sock_open(net, &snet->sk6, true);
	if (err && err != -EAFNOSUPPORT && err != -EPFNOSUPPORT)
		goto err_sk4;
	err = nf_register_net_hooks(net, sroce_hooks, ARRAY_SIZE(sroce_hooks));
	if (err)
		goto err_sk6;
	return 0;

err_sk6:
	sock_close(&snet->sk6);
err_sk4:
	sock_close(&snet->sk4);
	return err;
}

static void net_close(struct net *net, struct sroce_net *snet)
{
	nf_unregister_net_hooks(net, sroce_hooks, ARRAY_SIZE(sroce_hooks));
	sock_close(&snet->sk6);
	sock_close(&snet->sk4);
}

/**
 * sroce_net_attach - a link needs its namespace's port
 * @sdev: the link
 * @net: the namespace of its netdev
 * @ifindex: of its netdev
 *
 * May sleep.
 *
 * Return: 0; -EEXIST if the netdev has a link, which the core may not find by it
 * while it moves or ends; -EADDRINUSE if somebody else has the port; or another
 * errno.
 */
int sroce_net_attach(struct sroce_dev *sdev, struct net *net, int ifindex)
{
	struct sroce_net *snet = net_generic(net, sroce_net_id);
	struct sroce_dev *other;
	int err = 0;

	mutex_lock(&sroce_net_lock);
	list_for_each_entry(other, &snet->devs, net_entry)
		if (other->ifindex == ifindex)
			err = -EEXIST;
	if (!err && list_empty(&snet->devs))
		err = net_open(net, snet);
	if (!err) {
		sdev->net = net;
		sdev->ifindex = ifindex;
		list_add_tail_rcu(&sdev->net_entry, &snet->devs);
	}
	mutex_unlock(&sroce_net_lock);
	return err;
}

/**
 * sroce_net_last - the core is about to tell its clients of a link
 * @sdev: the link, attached
 *
 * May sleep. RDMA CM has links in the order that it is told of them, and so does
 * rx_management(): one that was in another namespace is the last of both. If RDMA CM is loaded
 * after that, it has them in the order in which they were made, of which nobody tells us.
 */
void sroce_net_last(struct sroce_dev *sdev)
{
	struct sroce_net *snet;

	mutex_lock(&sroce_net_lock);
	if (sdev->net) {
		snet = net_generic(sdev->net, sroce_net_id);
		if (!list_is_last(&sdev->net_entry, &snet->devs)) {
			list_del_rcu(&sdev->net_entry);
			synchronize_net();
			list_add_tail_rcu(&sdev->net_entry, &snet->devs);
		}
	}
	mutex_unlock(&sroce_net_lock);
}

static void detach_locked(struct sroce_dev *sdev)
{
	struct sroce_net *snet = net_generic(sdev->net, sroce_net_id);

	list_del_rcu(&sdev->net_entry);
	if (list_empty(&snet->devs))
		net_close(sdev->net, snet);
	sdev->net = NULL;
	synchronize_net();
}

/**
 * sroce_net_detach - a link needs its namespace no more
 * @sdev: the link; one that is detached already is fine
 *
 * May sleep. No packet counts on @sdev any more on return.
 */
void sroce_net_detach(struct sroce_dev *sdev)
{
	mutex_lock(&sroce_net_lock);
	if (sdev->net)
		detach_locked(sdev);
	mutex_unlock(&sroce_net_lock);
}

static int __net_init sroce_pernet_init(struct net *net)
{
	struct sroce_net *snet = net_generic(net, sroce_net_id);

	INIT_LIST_HEAD(&snet->devs);
	return 0;
}

/*
 * Links leave with their netdevs, which go before this; but one that is being
 * deleted is not found by its netdev any more and may still be attached.
 */
static void __net_exit sroce_pernet_exit(struct net *net)
{
	struct sroce_net *snet = net_generic(net, sroce_net_id);
	struct sroce_dev *sdev, *next;

	mutex_lock(&sroce_net_lock);
	list_for_each_entry_safe(sdev, next, &snet->devs, net_entry) {
		sroce_dev_gone(sdev);
		/* its clients may have been told of its end before that */
		sroce_qp_fatal_all(sdev);
		sroce_wq_fatal_all(sdev);
		detach_locked(sdev);
	}
	mutex_unlock(&sroce_net_lock);
}

static struct pernet_operations sroce_net_ops = {
	.init = sroce_pernet_init,
	.exit = sroce_pernet_exit,
	.id = &sroce_net_id,
	.size = sizeof(struct sroce_net),
};

/**
 * sroce_net_init - be told of namespaces
 *
 * Return: 0 or an errno.
 */
int sroce_net_init(void)
{
	return register_pernet_subsys(&sroce_net_ops);
}

/**
 * sroce_net_exit - be told no more; no link is left
 */
void sroce_net_exit(void)
{
	unregister_pernet_subsys(&sroce_net_ops);
}
