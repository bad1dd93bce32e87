// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Flow steering: which frames of a netdev go to which raw packet queue pairs.
 *
 * As long as a link has rules, a netfilter hook sees every frame that its
 * netdev receives, behind the taps and before anything that knows protocols.
 * A frame that a rule takes is stolen from the stack, as a NIC's steering
 * would do it. A sniffer gets copies, of what is sent as well.
 */
#include <linux/etherdevice.h>
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/netfilter.h>
#include <linux/rtnetlink.h>
#include <net/ip.h>
#include <net/ipv6.h>

#include "sroce.h"

/* Where a rule stands among the others: who comes first takes the frame. */
enum flow_class {
	FLOW_SNIFFER,		/* sees all, takes nothing */
	FLOW_NORMAL,
	FLOW_MC_DEFAULT,	/* these two get what the host has no use for */
	FLOW_ALL_DEFAULT,
};

/**
 * struct sroce_flow - a rule
 * @ibflow: the core's
 * @entry: in its link's list, in the order in which rules are asked
 * @qp: where frames go
 * @class: enum flow_class
 * @priority: within @class; a smaller one comes first
 * @pass: what matches goes on to later rules and to the stack
 * @drop: what matches goes nowhere
 * @tag: for the completion
 * @value: what a frame's key has to be
 * @mask: in these bits
 */
struct sroce_flow {
	struct ib_flow ibflow;
	struct list_head entry;
	struct sroce_qp *qp;
	enum flow_class class;
	u16 priority;
	bool pass;
	bool drop;
	u32 tag;
	struct sroce_flow_key value;
	struct sroce_flow_key mask;
};

static struct sroce_flow *to_sflow(struct ib_flow *ibflow)
{
	return container_of(ibflow, struct sroce_flow, ibflow);
}

/* From a frame to its key */

/* Bytes of headers that are looked at: two tags, and the longest of IPv4. */
#define HEAD_LEN	(ETH_HLEN + 2 * VLAN_HLEN + 60 + 4)

/* As many of a frame's bytes as there are and fit. */
static u32 read_head(const struct sk_buff *skb, int mac, u8 *head)
{
	u32 len = min_t(u32, skb->len - mac, HEAD_LEN);

	return skb_copy_bits(skb, mac, head, len) ? 0 : len;
}

static void put_ports(struct sroce_flow_key *key, u8 proto, const u8 *p, u32 len)
{
	if ((proto != IPPROTO_TCP && proto != IPPROTO_UDP) || len < 4)
		return;
	key->l4 = proto;
	memcpy(&key->sport, p, 2);
	memcpy(&key->dport, p + 2, 2);
}

static void put_ip4(struct sroce_flow_key *key, const u8 *p, u32 len)
{
	struct iphdr ip;

	if (len < sizeof(ip))
		return;
	memcpy(&ip, p, sizeof(ip));
	if (ip.version != 4 || ip.ihl < 5)
		return;
	key->l3 = 4;
	memcpy(key->src, &ip.saddr, sizeof(ip.saddr));
	memcpy(key->dst, &ip.daddr, sizeof(ip.daddr));
	key->proto = ip.protocol;
	key->tos = ip.tos;
	key->ttl = ip.ttl;
	if (ip.frag_off & htons(IP_DF))
		key->ip_flags |= IB_IPV4_DONT_FRAG;
	if (ip.frag_off & htons(IP_MF))
		key->ip_flags |= IB_IPV4_MORE_FRAG;
	key->ip_ok = len >= ip.ihl * 4 && !ip_compute_csum(p, ip.ihl * 4);
	/* not of the first fragment either: all of them have to go one way */
	if (!ip_is_fragment(&ip) && len > ip.ihl * 4)
		put_ports(key, ip.protocol, p + ip.ihl * 4, len - ip.ihl * 4);
}

/* Extension headers are not followed: what lies behind them is no TCP or UDP. */
static void put_ip6(struct sroce_flow_key *key, const u8 *p, u32 len)
{
	struct ipv6hdr ip;

	if (len < sizeof(ip))
		return;
	memcpy(&ip, p, sizeof(ip));
	if (ip.version != 6)
		return;
	key->l3 = 6;
	memcpy(key->src, &ip.saddr, sizeof(ip.saddr));
	memcpy(key->dst, &ip.daddr, sizeof(ip.daddr));
	key->flow_label = ip6_flowlabel(&ip);
	key->proto = ip.nexthdr;
	key->tos = ipv6_get_dsfield(&ip);
	key->ttl = ip.hop_limit;
	key->ip_ok = 1;
	put_ports(key, ip.nexthdr, p + sizeof(ip), len - sizeof(ip));
}

/* The outermost tag counts, and the type behind the innermost of two. */
static u32 put_eth(const struct sk_buff *skb, struct sroce_flow_key *key, const u8 *head, u32 len)
{
	u32 off = ETH_HLEN;

	memcpy(key->dmac, head, ETH_ALEN);
	memcpy(key->smac, head + ETH_ALEN, ETH_ALEN);
	memcpy(&key->type, head + 2 * ETH_ALEN, 2);
	if (skb_vlan_tag_present(skb)) {
		key->has_vlan = 1;
		key->vlan = htons(skb_vlan_tag_get(skb));
	}
	while (eth_type_vlan(key->type) && off + VLAN_HLEN <= len &&
	       off < ETH_HLEN + 2 * VLAN_HLEN) {
		if (!key->has_vlan)
			memcpy(&key->vlan, head + off, 2);
		key->has_vlan = 1;
		memcpy(&key->type, head + off + 2, 2);
		off += VLAN_HLEN;
	}
	return off;
}

/* Return: false if it is no frame. */
static bool make_key(const struct sk_buff *skb, int mac, struct sroce_flow_key *key)
{
	u8 head[HEAD_LEN];
	u32 len, off;

	len = read_head(skb, mac, head);
	if (len < ETH_HLEN)
		return false;
	memset(key, 0, sizeof(*key));
	off = put_eth(skb, key, head, len);
	if (key->type == htons(ETH_P_IP))
		put_ip4(key, head + off, len - off);
	else if (key->type == htons(ETH_P_IPV6))
		put_ip6(key, head + off, len - off);
	return true;
}

/* Matching */

static bool key_matches(const struct sroce_flow *flow, const struct sroce_flow_key *key)
{
	const u64 *value = (const u64 *)&flow->value;
	const u64 *mask = (const u64 *)&flow->mask;
	const u64 *k = (const u64 *)key;
	u64 diff = 0;
	int i;

	BUILD_BUG_ON(sizeof(*key) % sizeof(u64));
	for (i = 0; i < sizeof(*key) / sizeof(u64); i++)
		diff |= (k[i] ^ value[i]) & mask[i];
	return !diff;
}

/* The same frames at the same place: each of such rules gets a copy. */
static bool same_rule(const struct sroce_flow *a, const struct sroce_flow *b)
{
	return a->class == b->class && a->priority == b->priority &&
	       !memcmp(&a->value, &b->value, sizeof(a->value)) &&
	       !memcmp(&a->mask, &b->mask, sizeof(a->mask));
}

/* Whose frames alone have to come in for a rule; NULL if they do anyway. */
static const u8 *wanted_addr(const struct sroce_flow *flow)
{
	const u8 *mac = flow->value.dmac;

	if (flow->class != FLOW_NORMAL || !is_broadcast_ether_addr(flow->mask.dmac) ||
	    is_broadcast_ether_addr(mac) || is_zero_ether_addr(mac))
		return NULL;
	return mac;
}

/* How often is an address among the netdev's for the sake of rules? */
static int rules_want(const struct sroce_dev *sdev, const u8 *dmac)
{
	const struct sroce_flow *flow;
	const u8 *mac;
	int num = 0;

	list_for_each_entry_rcu(flow, &sdev->flows.rules, entry) {
		mac = wanted_addr(flow);
		num += mac && ether_addr_equal_unaligned(mac, dmac);
	}
	return num;
}

/*
 * Default rules get what is left over, as with mlx5: the frames that this
 * host's stack does not want. What is bridged or bonded is the stack's.
 */
static bool host_wants(const struct sroce_dev *sdev, const struct net_device *ndev,
		       const u8 *dmac)
{
	const struct netdev_hw_addr_list *list = is_multicast_ether_addr(dmac) ?
						 &ndev->mc : &ndev->uc;
	const struct netdev_hw_addr *ha;

	if (ether_addr_equal(dmac, ndev->dev_addr) || is_broadcast_ether_addr(dmac) ||
	    rcu_access_pointer(ndev->rx_handler))
		return true;
	list_for_each_entry_rcu(ha, &list->list, list)
		if (ether_addr_equal(dmac, ha->addr))
			/* who is below may have taken it over, which counts as well */
			return READ_ONCE(ha->refcount) - READ_ONCE(ha->sync_cnt) >
			       rules_want(sdev, dmac);
	return false;
}

static bool is_roce(const struct sroce_flow_key *key)
{
	return key->l4 == IPPROTO_UDP && key->dport == htons(WIRE_UDP_PORT);
}

/**
 * struct flow_run - a frame on its way past the rules
 * @sdev: link
 * @ndev: its netdev
 * @skb: the frame, which is not changed
 * @mac: offset of its MAC header from its data; 0 or less
 * @key: what rules look at
 * @asked: whether the host wants it
 * @host: it does
 * @frames: what queue pairs get of @skb, once somebody gets it
 */
struct flow_run {
	struct sroce_dev *sdev;
	const struct net_device *ndev;
	struct sk_buff *skb;
	int mac;
	struct sroce_flow_key key;
	bool asked;
	bool host;
	struct sroce_frames frames;
};

/* Once for a frame: that is a walk over the rules, too. */
static bool default_wants(struct flow_run *run)
{
	if (!run->asked)
		run->host = host_wants(run->sdev, run->ndev, run->key.dmac);
	run->asked = true;
	return !run->host;
}

static bool rule_wants(struct flow_run *run, const struct sroce_flow *flow)
{
	if (!key_matches(flow, &run->key))
		return false;
	switch (flow->class) {
	case FLOW_SNIFFER:
		return true;
	case FLOW_NORMAL:
		/* the link's own traffic only goes to who names its port */
		return !is_roce(&run->key) || flow->mask.dport == htons(0xffff);
	default:
		return !is_roce(&run->key) && default_wants(run);
	}
}

static void deliver(struct flow_run *run, const struct sroce_flow *flow)
{
	if (flow->drop) {
		sroce_count(run->sdev, RX_RAW_DROP);
		return;
	}
	if (!run->frames.skb && !sroce_frames_make(&run->frames, run->skb, run->mac)) {
		sroce_count(run->sdev, RX_RAW_DROP);
		return;
	}
	sroce_raw_recv(flow->qp, &run->frames, &run->key, flow->tag);
}

/* Ask the rules of some classes in order. Return: one has taken the frame. */
static bool run_rules(struct flow_run *run, enum flow_class first, enum flow_class last)
{
	const struct sroce_flow *flow, *taken = NULL;

	list_for_each_entry_rcu(flow, &run->sdev->flows.rules, entry) {
		if (flow->class < first)
			continue;
		if (flow->class > last)
			break;
		if (taken ? !same_rule(flow, taken) : !rule_wants(run, flow))
			continue;
		deliver(run, flow);
		if (!flow->pass)
			taken = flow;
	}
	return taken;
}

static unsigned int flow_hook(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	struct flow_run run = {
		.sdev = priv,
		.ndev = state->in,
		.skb = skb,
		.mac = skb_mac_offset(skb),
	};
	bool taken;

	if (!skb_frags_readable(skb) || !make_key(skb, run.mac, &run.key))
		return NF_ACCEPT;
	/* a tap's writer delivers in its own context */
	local_bh_disable();
	taken = run_rules(&run, FLOW_SNIFFER, FLOW_ALL_DEFAULT);
	local_bh_enable();
	sroce_frames_free(&run.frames);
	if (!taken)
		return NF_ACCEPT;
	consume_skb(skb);
	return NF_STOLEN;
}

static unsigned int sniff_hook(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	struct flow_run run = {
		.sdev = priv,
		.ndev = state->out,
		.skb = skb,
		.mac = skb_mac_offset(skb),
	};

	if (!skb_frags_readable(skb) || !make_key(skb, run.mac, &run.key))
		return NF_ACCEPT;
	run_rules(&run, FLOW_SNIFFER, FLOW_SNIFFER);
	sroce_frames_free(&run.frames);
	return NF_ACCEPT;
}

/**
 * sroce_flow_loop - what the switch inside a NIC does with a frame that is sent
 * @sdev: the link that sends it
 * @ndev: its netdev
 * @skb: from its MAC header on; it stays the caller's
 *
 * A frame to the netdev's own address or to a group meets the link's own
 * rules, except for sniffers: they see the wire. Bottom halves are off, RCU
 * is held, and no queue pair's receive lock.
 *
 * Return: true if it stays in this host.
 */
bool sroce_flow_loop(struct sroce_dev *sdev, const struct net_device *ndev, struct sk_buff *skb)
{
	struct flow_run run = {
		.sdev = sdev,
		.ndev = ndev,
		.skb = skb,
	};
	bool taken;

	/* a loopback device brings it back by itself */
	if (list_empty(&sdev->flows.rules) || ndev->flags & IFF_LOOPBACK)
		return false;
	if (!make_key(skb, 0, &run.key))
		return false;
	if (!is_multicast_ether_addr(run.key.dmac) &&
	    !ether_addr_equal(run.key.dmac, ndev->dev_addr))
		return false;
	taken = run_rules(&run, FLOW_NORMAL, FLOW_ALL_DEFAULT);
	sroce_frames_free(&run.frames);
	return taken && !is_multicast_ether_addr(run.key.dmac);
}

/* From a program's specifications to a rule */

#define PUT(key_field, filter_field) do {					\
	memcpy(&flow->mask.key_field, &mask->filter_field,			\
	       sizeof(mask->filter_field));					\
	memcpy(&flow->value.key_field, &val->filter_field,			\
	       sizeof(val->filter_field));					\
} while (0)

static void set_byte(u8 *value, u8 *mask, u8 is)
{
	*value = is;
	*mask = 0xff;
}

static void spec_eth(struct sroce_flow *flow, const struct ib_flow_spec_eth *spec)
{
	const struct ib_flow_eth_filter *val = &spec->val, *mask = &spec->mask;

	PUT(dmac, dst_mac);
	PUT(smac, src_mac);
	PUT(type, ether_type);
	PUT(vlan, vlan_tag);
	if (mask->vlan_tag)
		set_byte(&flow->value.has_vlan, &flow->mask.has_vlan, 1);
}

static void spec_ip4(struct sroce_flow *flow, const struct ib_flow_spec_ipv4 *spec)
{
	const struct ib_flow_ipv4_filter *val = &spec->val, *mask = &spec->mask;

	set_byte(&flow->value.l3, &flow->mask.l3, 4);
	PUT(src, src_ip);
	PUT(dst, dst_ip);
	PUT(proto, proto);
	PUT(tos, tos);
	PUT(ttl, ttl);
	PUT(ip_flags, flags);
}

static void spec_ip6(struct sroce_flow *flow, const struct ib_flow_spec_ipv6 *spec)
{
	const struct ib_flow_ipv6_filter *val = &spec->val, *mask = &spec->mask;

	set_byte(&flow->value.l3, &flow->mask.l3, 6);
	PUT(src, src_ip);
	PUT(dst, dst_ip);
	PUT(flow_label, flow_label);
	PUT(proto, next_hdr);
	PUT(tos, traffic_class);
	PUT(ttl, hop_limit);
}

static void spec_l4(struct sroce_flow *flow, const struct ib_flow_spec_tcp_udp *spec, u8 proto)
{
	const struct ib_flow_tcp_udp_filter *val = &spec->val, *mask = &spec->mask;

	set_byte(&flow->value.l4, &flow->mask.l4, proto);
	PUT(sport, src_port);
	PUT(dport, dst_port);
}

/*
 * A layer of headers, or a kind of action, is given once. What the rule's
 * class matches by itself has no specification to add to.
 */
static int add_spec(struct sroce_flow *flow, const union ib_flow_spec *spec, u32 *seen)
{
	u32 kind = spec->type >= IB_FLOW_SPEC_ACTION_TAG ?
		   8 + (spec->type & 0xf) : (spec->type & IB_FLOW_SPEC_LAYER_MASK) >> 4;

	if (spec->type & IB_FLOW_SPEC_INNER)
		return -EOPNOTSUPP;
	if (*seen & BIT(kind))
		return -EINVAL;
	*seen |= BIT(kind);
	if (spec->type < IB_FLOW_SPEC_ACTION_TAG && flow->class != FLOW_NORMAL)
		return -EINVAL;

	switch (spec->type) {
	case IB_FLOW_SPEC_ETH:
		spec_eth(flow, &spec->eth);
		return 0;
	case IB_FLOW_SPEC_IPV4:
		spec_ip4(flow, &spec->ipv4);
		return 0;
	case IB_FLOW_SPEC_IPV6:
		spec_ip6(flow, &spec->ipv6);
		return 0;
	case IB_FLOW_SPEC_TCP:
		spec_l4(flow, &spec->tcp_udp, IPPROTO_TCP);
		return 0;
	case IB_FLOW_SPEC_UDP:
		spec_l4(flow, &spec->tcp_udp, IPPROTO_UDP);
		return 0;
	case IB_FLOW_SPEC_ACTION_TAG:
		flow->tag = spec->flow_tag.tag_id;
		return 0;
	case IB_FLOW_SPEC_ACTION_DROP:
		flow->drop = true;
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

static int set_class(struct sroce_flow *flow, const struct ib_flow_attr *attr)
{
	switch (attr->type) {
	case IB_FLOW_ATTR_NORMAL:
		flow->class = FLOW_NORMAL;
		return 0;
	case IB_FLOW_ATTR_ALL_DEFAULT:
		flow->class = FLOW_ALL_DEFAULT;
		return 0;
	case IB_FLOW_ATTR_MC_DEFAULT:
		flow->class = FLOW_MC_DEFAULT;
		flow->value.dmac[0] = 1;
		flow->mask.dmac[0] = 1;
		return 0;
	case IB_FLOW_ATTR_SNIFFER:
		flow->class = FLOW_SNIFFER;
		flow->pass = true;
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

static int set_rule(struct sroce_flow *flow, const struct ib_flow_attr *attr)
{
	const void *spec = attr + 1;
	u64 *value = (u64 *)&flow->value;
	u64 *mask = (u64 *)&flow->mask;
	u32 seen = 0;
	int err, i;

	err = set_class(flow, attr);
	if (err)
		return err;
	flow->priority = attr->priority;
	if (attr->flags & IB_FLOW_ATTR_FLAGS_DONT_TRAP)
		flow->pass = true;
	for (i = 0; i < attr->num_of_specs; i++) {
		err = add_spec(flow, spec, &seen);
		if (err)
			return err;
		spec += ((const union ib_flow_spec *)spec)->size;
	}
	/* to drop a copy means nothing */
	if (flow->drop && flow->pass)
		return -EINVAL;
	for (i = 0; i < sizeof(flow->value) / sizeof(u64); i++)
		value[i] &= mask[i];
	return 0;
}

/* The netdev's part: all under RTNL */

static int filter_addr(const struct sroce_flow *flow, struct net_device *ndev, bool add)
{
	const u8 *mac = wanted_addr(flow);

	if (!mac)
		return 0;
	if (is_multicast_ether_addr(mac))
		return add ? dev_mc_add(ndev, mac) : dev_mc_del(ndev, mac);
	return add ? dev_uc_add(ndev, mac) : dev_uc_del(ndev, mac);
}

static int filter_vlan(const struct sroce_flow *flow, struct net_device *ndev, bool add)
{
	const u16 vid = ntohs(flow->value.vlan) & VLAN_VID_MASK;

	if (!IS_ENABLED(CONFIG_VLAN_8021Q) || ~ntohs(flow->mask.vlan) & VLAN_VID_MASK)
		return 0;
	if (add)
		return vlan_vid_add(ndev, htons(ETH_P_8021Q), vid);
	vlan_vid_del(ndev, htons(ETH_P_8021Q), vid);
	return 0;
}

/* Frames that its filters would keep out have to come in for this rule. */
static int filter(const struct sroce_flow *flow, struct net_device *ndev, bool add)
{
	int err;

	switch (flow->class) {
	case FLOW_SNIFFER:
	case FLOW_ALL_DEFAULT:
		return dev_set_promiscuity(ndev, add ? 1 : -1);
	case FLOW_MC_DEFAULT:
		return dev_set_allmulti(ndev, add ? 1 : -1);
	case FLOW_NORMAL:
		break;
	}
	err = filter_addr(flow, ndev, add);
	if (err)
		return err;
	err = filter_vlan(flow, ndev, add);
	if (err && add)
		filter_addr(flow, ndev, false);
	return err;
}

static int hook_on(struct sroce_dev *sdev, struct net_device *ndev, struct nf_hook_ops *ops,
		   nf_hookfn *fn, unsigned int hooknum)
{
	*ops = (struct nf_hook_ops) {
		.hook = fn,
		.dev = ndev,
		.priv = sdev,
		.pf = NFPROTO_NETDEV,
		.hooknum = hooknum,
		/* behind the firewall's */
		.priority = INT_MAX,
	};
	return nf_register_net_hook(dev_net(ndev), ops);
}

/* The first rule brings the hook, and the first sniffer the other. */
static int hooks_get(struct sroce_dev *sdev, const struct sroce_flow *flow)
{
	struct sroce_flows *flows = &sdev->flows;
	struct net_device *ndev = flows->ndev;
	int err;

	ASSERT_RTNL();
	if (!ndev) {
		ndev = ib_device_get_netdev(&sdev->ibdev, 1);
		if (!ndev)
			return -ENODEV;
		err = hook_on(sdev, ndev, &flows->in, flow_hook, NF_NETDEV_INGRESS);
		if (err)
			goto err_ndev;
	}
	if (flow->class == FLOW_SNIFFER && !flows->num_sniffers) {
		err = hook_on(sdev, ndev, &flows->out, sniff_hook, NF_NETDEV_EGRESS);
		if (err)
			goto err_in;
	}
	flows->ndev = ndev;
	return 0;

err_in:
	/* there for other rules */
	if (flows->ndev)
		return err;
	nf_unregister_net_hook(dev_net(ndev), &flows->in);
	synchronize_net();
err_ndev:
	dev_put(ndev);
	return err;
}

/* What has no rules any more. Who runs in it does so until synchronize_net(). */
static void hooks_put(struct sroce_flows *flows, bool out, bool in)
{
	struct net_device *ndev = flows->ndev;

	if (out)
		nf_unregister_net_hook(dev_net(ndev), &flows->out);
	if (!in)
		return;
	nf_unregister_net_hook(dev_net(ndev), &flows->in);
	flows->ndev = NULL;
	dev_put(ndev);
}

/* Behind those that are asked before it, and behind its equals. */
static void list_insert(struct sroce_flows *flows, struct sroce_flow *flow)
{
	struct list_head *at = &flows->rules;
	struct sroce_flow *f;

	list_for_each_entry(f, &flows->rules, entry) {
		if (f->class > flow->class ||
		    (f->class == flow->class && f->priority > flow->priority))
			break;
		at = &f->entry;
	}
	list_add_rcu(&flow->entry, at);
}

static int rule_insert(struct sroce_dev *sdev, struct sroce_flow *flow)
{
	struct sroce_flows *flows = &sdev->flows;
	int err;

	if (READ_ONCE(sdev->gone))
		return -ENODEV;
	if (flows->num == SROCE_MAX_FLOWS)
		return -ENOMEM;
	err = hooks_get(sdev, flow);
	if (err)
		return err;
	err = filter(flow, flows->ndev, true);
	if (err) {
		hooks_put(flows, flow->class == FLOW_SNIFFER && !flows->num_sniffers,
			  !flows->num);
		synchronize_net();
		return err;
	}
	list_insert(flows, flow);
	flows->num++;
	flows->num_sniffers += flow->class == FLOW_SNIFFER;
	return 0;
}

/**
 * sroce_create_flow - ib_device_ops: steer frames to a queue pair
 * @ibqp: raw packet queue pair
 * @attr: which frames
 * @udata: no driver data
 *
 * May sleep, and takes RTNL.
 *
 * Return: the rule or an error pointer.
 */
struct ib_flow *sroce_create_flow(struct ib_qp *ibqp, struct ib_flow_attr *attr,
				  struct ib_udata *udata)
{
	struct sroce_flow *flow;
	int err;

	if (ibqp->qp_type != IB_QPT_RAW_PACKET)
		return ERR_PTR(-EINVAL);
	err = sroce_no_udata(udata);
	if (err)
		return ERR_PTR(err);
	if (attr->flags & ~IB_FLOW_ATTR_FLAGS_DONT_TRAP)
		return ERR_PTR(-EOPNOTSUPP);
	if (!sroce_raw_allowed(to_sdev(ibqp->device)))
		return ERR_PTR(-EPERM);

	flow = kzalloc(sizeof(*flow), GFP_KERNEL_ACCOUNT);
	if (!flow)
		return ERR_PTR(-ENOMEM);
	flow->qp = to_sqp(ibqp);
	err = set_rule(flow, attr);
	if (err)
		goto err_free;

	rtnl_lock();
	err = rule_insert(to_sdev(ibqp->device), flow);
	rtnl_unlock();
	if (err)
		goto err_free;
	return &flow->ibflow;

err_free:
	kfree(flow);
	return ERR_PTR(err);
}

/**
 * sroce_destroy_flow - ib_device_ops: steer them no more
 * @ibflow: the rule
 *
 * May sleep, and takes RTNL. On return nothing is delivered by the rule any
 * more: the queue pair may go.
 *
 * Return: 0.
 */
int sroce_destroy_flow(struct ib_flow *ibflow)
{
	struct sroce_dev *sdev = to_sdev(ibflow->device);
	struct sroce_flow *flow = to_sflow(ibflow);
	const bool sniffer = flow->class == FLOW_SNIFFER;
	struct sroce_flows *flows = &sdev->flows;

	rtnl_lock();
	list_del_rcu(&flow->entry);
	flows->num--;
	flows->num_sniffers -= sniffer;
	if (flows->ndev) {
		filter(flow, flows->ndev, false);
		hooks_put(flows, sniffer && !flows->num_sniffers, !flows->num);
	}
	/* under RTNL it is quick */
	synchronize_net();
	rtnl_unlock();
	kfree(flow);
	return 0;
}

/**
 * sroce_flow_detach - a link's netdev goes: leave it alone
 * @sdev: the link, marked as gone
 *
 * RTNL is held. The rules stay, for their owners to destroy; nothing meets
 * them any more.
 */
void sroce_flow_detach(struct sroce_dev *sdev)
{
	struct sroce_flows *flows = &sdev->flows;
	struct sroce_flow *flow;

	ASSERT_RTNL();
	if (!flows->ndev)
		return;
	list_for_each_entry(flow, &flows->rules, entry)
		filter(flow, flows->ndev, false);
	hooks_put(flows, flows->num_sniffers, true);
	synchronize_net();
}
