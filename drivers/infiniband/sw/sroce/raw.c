// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Raw packet queue pairs: a message is an Ethernet frame, header and all but
 * its FCS, to and from the link's netdev.
 */
#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <linux/if_vlan.h>
#include <linux/netdevice.h>

#include "sroce.h"

/* What the requester reckons with: of frames as short, this many to the stack */
#define RAW_MTU			1024

/* enum ibv_rx_hash_fields, which kernel headers lack */
enum {
	HASH_SRC_IP4		= BIT(0),
	HASH_DST_IP4		= BIT(1),
	HASH_SRC_IP6		= BIT(2),
	HASH_DST_IP6		= BIT(3),
	HASH_SPORT_TCP		= BIT(4),
	HASH_DPORT_TCP		= BIT(5),
	HASH_SPORT_UDP		= BIT(6),
	HASH_DPORT_UDP		= BIT(7),
};

#define HASH_FIELDS		GENMASK(7, 0)

/* From those of IPv6 to those of IPv4, and from those of UDP to those of TCP */
#define HASH_SHIFT		2

#define HASH_TOEPLITZ		BIT(0)

/* Two IPv6 addresses and two ports */
#define HASH_INPUT_MAX		36

/**
 * struct sroce_rss - how frames are spread over work queues
 * @fields: HASH_*
 * @key: Toeplitz
 */
struct sroce_rss {
	u32 fields;
	u8 key[SROCE_RX_HASH_KEY_LEN];
};

/* Creation */

/**
 * sroce_raw_able - does this link carry Ethernet frames?
 * @sdev: the link
 *
 * Process context.
 *
 * Return: false for a netdev that is all IP.
 */
bool sroce_raw_able(struct sroce_dev *sdev)
{
	struct net_device *ndev = ib_device_get_netdev(&sdev->ibdev, 1);
	bool able;

	if (!ndev)
		return false;
	able = ndev->type == ARPHRD_ETHER || ndev->type == ARPHRD_LOOPBACK;
	dev_put(ndev);
	return able;
}

static bool reserved_clear(const struct sroce_create_qp *req)
{
	return !memchr_inv(req->reserved, 0, sizeof(req->reserved)) &&
	       !memchr_inv(req->rx_hash_key + SROCE_RX_HASH_KEY_LEN, 0,
			   sizeof(req->rx_hash_key) - SROCE_RX_HASH_KEY_LEN);
}

/* A queue pair over an indirection table receives, and that is all. */
static int rss_create(struct sroce_qp *qp, struct ib_qp_init_attr *init, struct ib_udata *udata)
{
	struct sroce_create_qp req;
	struct sroce_rss *rss;
	int err;

	if (init->send_cq || init->cap.max_send_wr || init->create_flags)
		return -EOPNOTSUPP;
	err = sroce_request(udata, &req, sizeof(req));
	if (err)
		return err;
	if (!reserved_clear(&req))
		return -EINVAL;
	if (req.rx_hash_fields & ~HASH_FIELDS || req.rx_hash_function & ~HASH_TOEPLITZ)
		return -EOPNOTSUPP;
	if (req.rx_hash_fields && (req.rx_hash_function != HASH_TOEPLITZ ||
				   req.rx_hash_key_len != SROCE_RX_HASH_KEY_LEN))
		return -EINVAL;

	rss = kzalloc(sizeof(*rss), GFP_KERNEL_ACCOUNT);
	if (!rss)
		return -ENOMEM;
	rss->fields = req.rx_hash_fields;
	memcpy(rss->key, req.rx_hash_key, sizeof(rss->key));
	qp->rss = rss;
	return 0;
}

/**
 * sroce_raw_allowed - may the caller have the netdev's frames?
 * @sdev: the link
 *
 * The core asks for CAP_NET_RAW in the namespace that the device is in, which may be another than
 * its netdev's. As AF_PACKET does. May sleep.
 *
 * Return: whether it has CAP_NET_RAW where the netdev is.
 */
bool sroce_raw_allowed(struct sroce_dev *sdev)
{
	struct net_device *ndev = ib_device_get_netdev(&sdev->ibdev, 1);
	struct net *net = ndev ? sroce_netdev_net_get(ndev) : NULL;
	bool allowed;

	dev_put(ndev);
	if (!net)
		return false;
	allowed = ns_capable(net->user_ns, CAP_NET_RAW);
	put_net(net);
	return allowed;
}

/**
 * sroce_raw_create - what is special about a new raw packet queue pair
 * @qp: queue pair
 * @init: what is asked for
 * @udata: struct sroce_create_qp, or nothing
 *
 * May sleep.
 *
 * Return: 0 or an errno.
 */
int sroce_raw_create(struct sroce_qp *qp, struct ib_qp_init_attr *init, struct ib_udata *udata)
{
	if (!sroce_raw_able(qp_dev(qp)) || init->srq ||
	    init->create_flags & ~IB_QP_CREATE_CVLAN_STRIPPING)
		return -EOPNOTSUPP;
	if (!sroce_raw_allowed(qp_dev(qp)))
		return -EPERM;
	qp->mtu = RAW_MTU;
	if (init->rwq_ind_tbl)
		return rss_create(qp, init, udata);
	if (!sroce_udata_clear(udata))
		return -EOPNOTSUPP;
	qp->strip_vlan = init->create_flags & IB_QP_CREATE_CVLAN_STRIPPING;
	return 0;
}

/**
 * sroce_raw_destroy - the end of sroce_raw_create()
 * @qp: queue pair, of any type; no rule names it any more
 */
void sroce_raw_destroy(struct sroce_qp *qp)
{
	kfree(qp->rss);
}

/* Transmission */

/* RCU is held, and keeps it. */
static struct net_device *raw_netdev(struct sroce_dev *sdev)
{
	/* detaching waits for RCU before the namespace may go */
	struct net *net = READ_ONCE(sdev->net);

	if (!net || READ_ONCE(sdev->gone))
		return NULL;
	return dev_get_by_index_rcu(net, sdev->ifindex);
}

/**
 * sroce_raw_alloc - memory for a frame
 * @qp: queue pair
 * @len: bytes of it
 *
 * Bottom halves are off, RCU is held.
 *
 * Return: an skb with @len bytes to be written; -EMSGSIZE for a length that no
 * frame of the netdev has, -ENODEV if there is none any more, -ENOMEM.
 */
struct sk_buff *sroce_raw_alloc(struct sroce_qp *qp, u32 len)
{
	struct net_device *ndev = raw_netdev(qp_dev(qp));
	struct sk_buff *skb;

	if (!ndev)
		return ERR_PTR(-ENODEV);
	/* with room for a tag, which raw_parse() asks for */
	if (len < ETH_HLEN || len > READ_ONCE(ndev->mtu) + VLAN_ETH_HLEN)
		return ERR_PTR(-EMSGSIZE);
	skb = alloc_skb(LL_RESERVED_SPACE(ndev) + ndev->needed_tailroom + len,
			GFP_ATOMIC | __GFP_NOWARN);
	if (!skb)
		return ERR_PTR(-ENOMEM);
	skb_reserve(skb, LL_RESERVED_SPACE(ndev));
	skb_put(skb, len);
	skb->dev = ndev;
	return skb;
}

/* As a packet socket's sender does it: the headers, and what they stand for. */
static bool raw_parse(struct sk_buff *skb)
{
	u32 off = ETH_HLEN;

	skb_reset_mac_header(skb);
	skb->protocol = dev_parse_header_protocol(skb);
	if (eth_type_vlan(skb->protocol) && skb->len >= VLAN_ETH_HLEN)
		off = VLAN_ETH_HLEN;
	if (skb->len - off > READ_ONCE(skb->dev->mtu))
		return false;
	skb_set_network_header(skb, off);
	skb_probe_transport_header(skb);
	return true;
}

/**
 * sroce_raw_xmit - send a frame
 * @qp: queue pair; the caller owns its send side
 * @skb: of sroce_raw_alloc(), under the same RCU read lock; consumed
 * @again: it was refused before: local queue pairs have their copies
 *
 * Bottom halves are off.
 *
 * Return: 0; -EMSGSIZE if it is too long for what it is; -ENOBUFS if the device's
 * queue would not have it, which is back-pressure and no loss; or another errno,
 * for a loss.
 */
int sroce_raw_xmit(struct sroce_qp *qp, struct sk_buff *skb, bool again)
{
	struct sroce_dev *sdev = qp_dev(qp);
	int err;

	if (!raw_parse(skb)) {
		kfree_skb(skb);
		return -EMSGSIZE;
	}
	if (!again && sroce_flow_loop(sdev, skb->dev, skb)) {
		consume_skb(skb);
		return 0;
	}
	sroce_tx_charge(skb, qp->num, false);
	err = dev_queue_xmit(skb);
	return err > 0 ? net_xmit_errno(err) : err;
}

/* Reception: real frames */

/* One frame as it was on the wire. Return: it, or NULL with it freed. */
static struct sk_buff *frame_finish(struct sk_buff *skb)
{
	if (skb_vlan_tag_present(skb)) {
		skb = __vlan_hwaccel_push_inside(skb);
		if (!skb)
			return NULL;
	}
	if (skb->ip_summed == CHECKSUM_PARTIAL && skb_csum_hwoffload_help(skb, 0)) {
		kfree_skb(skb);
		return NULL;
	}
	return skb;
}

/* What was joined comes apart again. Return: a list, or NULL with @skb freed. */
static struct sk_buff *frame_segment(struct sk_buff *skb)
{
	struct sk_buff *segs, *seg, *next, *first = NULL, **tail = &first;

	/* without a checksum to go by, the stack would complain of its sender */
	if (skb->ip_summed == CHECKSUM_NONE || skb_cow_head(skb, 0))
		goto drop;
	segs = __skb_gso_segment(skb, 0, false);
	if (IS_ERR_OR_NULL(segs))
		goto drop;
	consume_skb(skb);

	skb_list_walk_safe(segs, seg, next) {
		skb_mark_not_on_list(seg);
		seg = frame_finish(seg);
		if (!seg)
			continue;
		*tail = seg;
		tail = &seg->next;
	}
	return first;

drop:
	kfree_skb(skb);
	return NULL;
}

/**
 * sroce_frames_make - what was on the wire, out of what the stack made of it
 * @frames: filled in; zero before
 * @skb: received; it is not changed, and outlives @frames
 * @mac: offset of its MAC header from its data
 *
 * Joined packets are taken apart, a tag that lies beside is put back, and a
 * checksum that was left to be done is done: all of it on copies.
 *
 * Return: false if memory is short or @skb makes no sense.
 */
bool sroce_frames_make(struct sroce_frames *frames, struct sk_buff *skb, int mac)
{
	struct sk_buff *copy;

	frames->csum_ok = skb->ip_summed == CHECKSUM_UNNECESSARY ||
			  skb->ip_summed == CHECKSUM_PARTIAL;
	if (!skb_is_gso(skb) && skb->ip_summed != CHECKSUM_PARTIAL &&
	    !skb_vlan_tag_present(skb)) {
		frames->skb = skb;
		frames->mac = mac;
		return true;
	}

	copy = skb_clone(skb, GFP_ATOMIC);
	if (!copy)
		return false;
	skb_push(copy, -mac);
	frames->own = true;
	frames->skb = skb_is_gso(copy) ? frame_segment(copy) : frame_finish(copy);
	return frames->skb;
}

/**
 * sroce_frames_free - the end of sroce_frames_make()
 * @frames: frames; none is fine
 */
void sroce_frames_free(struct sroce_frames *frames)
{
	if (frames->own)
		kfree_skb_list(frames->skb);
}

/* Reception: into a queue */

static bool sink_fetch(struct sroce_rq *rq)
{
	rq->has_wqe = !sroce_recv_fetch(rq);
	return rq->has_wqe;
}

/* Return: false if the completion queue is full. */
static bool sink_complete(const struct sroce_sink *sink, struct sroce_cqe *cqe)
{
	cqe->opcode = SROCE_WC_RECV;
	rq_end_wqe(sink->rq, sink->num, cqe);
	return rq_complete(sink->rq, sink->cq, cqe, cqe->status != IB_WC_SUCCESS);
}

/**
 * sroce_sink_flush - end every receive request that is posted
 * @sink: queue in its error state; its lock is held
 *
 * The program is told to ring for what it posts from now on. No more are
 * flushed than the ring has entries: who goes on posting, rings.
 */
void sroce_sink_flush(const struct sroce_sink *sink)
{
	struct sroce_rq *rq = sink->rq;
	u32 left = rq->q.mask + 1 + rq->has_wqe;

	WRITE_ONCE(rq->q.ring->flags, SROCE_RING_NEED_WAKEUP);
	/* pairs with the barrier between a program's index and its look here */
	smp_mb();
	while (left-- && (rq->has_wqe || sink_fetch(rq))) {
		struct sroce_cqe cqe = { .status = IB_WC_WR_FLUSH_ERR };

		sink_complete(sink, &cqe);
	}
}

/* Bytes of a frame into the request's list, where the last ones ended. */
static bool sink_place(const struct sroce_sink *sink, const struct sk_buff *skb, int off, u32 len)
{
	struct sroce_rq *rq = sink->rq;

	while (len) {
		const struct sroce_sge *sge = &rq->wqe->sge[rq->sge];
		u32 n = min(sge->length - rq->sge_off, len);
		u64 addr = sge->addr + rq->sge_off;
		struct sroce_mr *mr;
		int err = -EFAULT;

		if (!n) {
			rq->sge++;
			rq->sge_off = 0;
			continue;
		}
		mr = sroce_mr_get(sink->pd, sge->lkey);
		if (!mr)
			return false;
		if (sroce_mr_covers(mr, addr, n, IB_ACCESS_LOCAL_WRITE)) {
			void *to = sroce_mr_span(mr, addr, &n, true);

			/* no paging for raw packets, which nobody sends again */
			if (to)
				err = skb_copy_bits(skb, off, to, n);
		}
		sroce_mr_put(mr);
		if (err)
			return false;
		rq->sge_off += n;
		rq->placed += n;
		off += n;
		len -= n;
	}
	return true;
}

/* The customer's tag, if that is what the frame begins with. */
static bool frame_tag(const struct sk_buff *skb, int mac, u16 *tci)
{
	__be16 tag[2];

	if (skb_copy_bits(skb, mac + 2 * ETH_ALEN, tag, sizeof(tag)) ||
	    tag[0] != htons(ETH_P_8021Q))
		return false;
	*tci = ntohs(tag[1]);
	return true;
}

static bool sink_fill(const struct sroce_sink *sink, const struct sk_buff *skb, int mac,
		      u32 skip)
{
	const u32 head = skip ? 2 * ETH_ALEN : 0;

	sroce_recv_list_start(sink->rq);
	return sink_place(sink, skb, mac, head) &&
	       sink_place(sink, skb, mac + head + skip, skb->len - mac - head - skip);
}

/* Return: false if this is the end of the queue. */
static bool sink_frame(const struct sroce_sink *sink, const struct sk_buff *skb, int mac,
		       struct sroce_cqe cqe)
{
	struct sroce_rq *rq = sink->rq;
	u32 skip = 0;

	/* a request that was too small for one frame waits for the next */
	if (!rq->has_wqe && !sink_fetch(rq)) {
		sroce_qp_count(sink->qp, RX_NO_WQE);
		return !rq->broken;
	}
	if (!recv_wqe_ok(rq->wqe, sink->max_sge)) {
		cqe.status = IB_WC_LOC_QP_OP_ERR;
		sink_complete(sink, &cqe);
		return false;
	}
	if (sink->strip_vlan && frame_tag(skb, mac, &cqe.cvlan)) {
		cqe.wc_flags |= SROCE_WC_VLAN;
		skip = VLAN_HLEN;
	}
	if (!sroce_recv_fits(rq->wqe, skb->len - mac - skip)) {
		sroce_qp_count(sink->qp, LOCAL_LENGTH);
		return true;
	}
	if (!sink_fill(sink, skb, mac, skip)) {
		cqe.status = IB_WC_LOC_PROT_ERR;
		sink_complete(sink, &cqe);
		return false;
	}
	sroce_qp_count(sink->qp, RX_RAW);
	cqe.byte_len = rq->placed;
	return sink_complete(sink, &cqe);
}

/**
 * sroce_sink_recv - frames for a receive queue
 * @sink: the queue; its lock is held
 * @frames: these
 * @key: of all of them
 * @tag: of the rule that brought them here
 *
 * Return: false if the queue is at fault, or its completion queue full: it
 * has to go to its error state.
 */
bool sroce_sink_recv(const struct sroce_sink *sink, const struct sroce_frames *frames,
		     const struct sroce_flow_key *key, u32 tag)
{
	const struct sk_buff *skb = frames->skb;
	const struct sroce_cqe cqe = {
		.flow_tag = tag,
		.wc_flags = key->ip_ok && key->l4 && frames->csum_ok ?
			    SROCE_WC_IP_CSUM_OK : 0,
	};

	do {
		if (!sink_frame(sink, skb, frames->mac, cqe))
			return false;
		skb = frames->own ? skb->next : NULL;
	} while (skb);
	return true;
}

/* Reception: which queue */

static u32 toeplitz(const u8 *key, const u8 *in, u32 len)
{
	u32 window = get_unaligned_be32(key);
	u32 hash = 0;
	u32 i;
	int bit;

	for (i = 0; i < len; i++) {
		for (bit = 7; bit >= 0; bit--) {
			if (in[i] & BIT(bit))
				hash ^= window;
			window = window << 1 | (key[i + 4] >> bit & 1);
		}
	}
	return hash;
}

static u32 add_field(u8 *in, u32 len, bool take, const void *field, u32 size)
{
	if (!take)
		return len;
	memcpy(in + len, field, size);
	return len + size;
}

/* Those fields that are asked for, and that the frame has, in RSS's order. */
static u32 rss_hash(const struct sroce_rss *rss, const struct sroce_flow_key *key)
{
	const u32 addr_len = key->l3 == 4 ? 4 : 16;
	u8 in[HASH_INPUT_MAX];
	u32 f = rss->fields;
	u32 want = 0;
	u32 len = 0;

	if (key->l3)
		want = key->l3 == 4 ? f : f >> HASH_SHIFT;
	len = add_field(in, len, want & HASH_SRC_IP4, key->src, addr_len);
	len = add_field(in, len, want & HASH_DST_IP4, key->dst, addr_len);
	want = 0;
	if (key->l4)
		want = key->l4 == IPPROTO_TCP ? f : f >> HASH_SHIFT;
	len = add_field(in, len, want & HASH_SPORT_TCP, &key->sport, sizeof(key->sport));
	len = add_field(in, len, want & HASH_DPORT_TCP, &key->dport, sizeof(key->dport));
	return toeplitz(rss->key, in, len);
}

static void rss_recv(struct sroce_qp *qp, const struct sroce_frames *frames,
		     const struct sroce_flow_key *key, u32 tag)
{
	const struct ib_rwq_ind_table *tbl = qp->ibqp.rwq_ind_tbl;
	u32 i = rss_hash(qp->rss, key) & ((1U << tbl->log_ind_tbl_size) - 1);

	sroce_wq_recv(to_swq(tbl->ind_tbl[i]), qp, frames, key, tag);
}

static void qp_recv(struct sroce_qp *qp, const struct sroce_frames *frames,
		    const struct sroce_flow_key *key, u32 tag)
{
	const struct sroce_sink sink = {
		.rq = &qp->rq,
		.qp = qp,
		.pd = qp->ibqp.pd,
		.cq = to_scq(qp->ibqp.recv_cq),
		.num = qp->num->qpn,
		.max_sge = qp->max_recv_sge,
		.strip_vlan = qp->strip_vlan,
	};
	bool failed = false;

	spin_lock_bh(&qp->rq.lock);
	if (qp->state != IB_QPS_RTR && qp->state != IB_QPS_RTS && qp->state != IB_QPS_SQD)
		sroce_qp_count(qp, RX_WRONG_STATE);
	else
		failed = !sroce_sink_recv(&sink, frames, key, tag);
	if (failed && (qp->rq.broken || sroce_cq_overrun(sink.cq)))
		sroce_qp_overrun(qp, false);
	else if (failed)
		sroce_qp_error_locked(qp);
	sroce_rq_unlock(&qp->rq);
	/* the send queue is to be flushed as well */
	if (failed)
		sroce_send_run(qp);
}

/**
 * sroce_raw_recv - a rule steers frames to a queue pair
 * @qp: raw packet queue pair, kept by the rule
 * @frames: these
 * @key: of all of them
 * @tag: the rule's
 *
 * Bottom halves are off, RCU is held, and no receive lock.
 */
void sroce_raw_recv(struct sroce_qp *qp, const struct sroce_frames *frames,
		    const struct sroce_flow_key *key, u32 tag)
{
	if (qp->rss)
		rss_recv(qp, frames, key, tag);
	else
		qp_recv(qp, frames, key, tag);
}
