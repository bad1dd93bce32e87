// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Multicast groups: which queue pairs hear what comes to a group, and the
 * netdev's own membership, without which the stack drops it on the way.
 */
#include <linux/hash.h>
#include <linux/igmp.h>
#include <linux/inetdevice.h>
#include <linux/jhash.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <net/addrconf.h>
#include <rdma/ib_addr.h>

#include "sroce.h"

/* Membership of the netdev; rtnl is held */

static bool is_ipv4(const union ib_gid *mgid)
{
	return ipv6_addr_v4mapped((const void *)mgid);
}

/*
 * Below the minimum MTU of IPv4 or IPv6 (1280) the netdev loses that protocol and all its
 * memberships. Is it still a member of this group?
 */
static bool group_joined(const struct sroce_dev *sdev, const struct sroce_mcast *grp)
{
	return grp->joined == sdev->mcast_ip[is_ipv4(&grp->mgid)];
}

/* ip_mc_inc_group() does not say whether there was memory for it. */
static int ip4_join(struct in_device *in_dev, __be32 addr)
{
	const struct ip_mc_list *im;

	ip_mc_inc_group(in_dev, addr);
	for (im = rtnl_dereference(in_dev->mc_list); im; im = rtnl_dereference(im->next_rcu))
		if (im->multiaddr == addr)
			return 0;
	return -ENOMEM;
}

static int group_join(struct sroce_dev *sdev, struct net_device *ndev, struct sroce_mcast *grp)
{
	const struct in6_addr *addr = (const void *)&grp->mgid;
	struct in_device *in_dev;
	int err = 0;

	if (group_joined(sdev, grp))
		return 0;
	if (is_ipv4(&grp->mgid)) {
		in_dev = __in_dev_get_rtnl(ndev);
		if (!in_dev)
			return -ENODEV;
		err = ip4_join(in_dev, addr->s6_addr32[3]);
	} else {
		err = IS_ENABLED(CONFIG_IPV6) ? ipv6_dev_mc_inc(ndev, addr) : -EAFNOSUPPORT;
	}
	if (!err)
		grp->joined = sdev->mcast_ip[is_ipv4(&grp->mgid)];
	return err;
}

/* If the netdev has lost our membership, one that it has now is somebody else's. */
static int group_leave(struct sroce_dev *sdev, struct net_device *ndev, struct sroce_mcast *grp)
{
	const struct in6_addr *addr = (const void *)&grp->mgid;
	struct in_device *in_dev;

	if (!group_joined(sdev, grp))
		return 0;
	if (!is_ipv4(&grp->mgid))
		return IS_ENABLED(CONFIG_IPV6) ? ipv6_dev_mc_dec(ndev, addr) : -EAFNOSUPPORT;
	in_dev = __in_dev_get_rtnl(ndev);
	if (in_dev)
		ip_mc_dec_group(in_dev, addr->s6_addr32[3]);
	return 0;
}

/*
 * On the netdev and not on the namespace's sockets, as the connection manager
 * does: a socket may have 20 groups. A netdev that is gone, to nowhere or to
 * another namespace, has lost them all.
 */
static int netdev_do(struct sroce_dev *sdev, struct sroce_mcast *grp,
		     int (*what)(struct sroce_dev *sdev, struct net_device *ndev,
				 struct sroce_mcast *grp))
{
	struct net_device *ndev;
	int err = -ENODEV;

	rtnl_lock();
	ndev = READ_ONCE(sdev->gone) ? NULL : ib_device_get_netdev(&sdev->ibdev, 1);
	if (ndev) {
		err = what(sdev, ndev, grp);
		dev_put(ndev);
	}
	rtnl_unlock();
	return err;
}

/**
 * sroce_mcast_changed - a netdev goes up or down, or has another MTU
 * @sdev: its link
 * @ndev: the netdev; some tell of their MTU when they go up (ipvlan)
 *
 * rtnl is held, and IP knows already.
 *
 * Return: whether sroce_mcast_rejoin() is due.
 */
bool sroce_mcast_changed(struct sroce_dev *sdev, struct net_device *ndev)
{
	if (!__in_dev_get_rtnl(ndev))
		sdev->mcast_ip[true]++;
	if (IS_ENABLED(CONFIG_IPV6) && !__in6_dev_get(ndev))
		sdev->mcast_ip[false]++;
	return READ_ONCE(sdev->num_mcast);
}

/**
 * sroce_mcast_rejoin - have a netdev in the groups that it should be in
 * @sdev: its link
 *
 * What fails is tried again with the next change. Takes rtnl.
 */
void sroce_mcast_rejoin(struct sroce_dev *sdev)
{
	struct sroce_mcast *grp;
	unsigned int i;

	mutex_lock(&sdev->mcast_lock);
	for (i = 0; i < ARRAY_SIZE(sdev->mcasts); i++)
		hlist_for_each_entry(grp, &sdev->mcasts[i], node)
			netdev_do(sdev, grp, group_join);
	mutex_unlock(&sdev->mcast_lock);
}

/* Groups */

static struct hlist_head *mcast_bucket(struct sroce_dev *sdev, const union ib_gid *mgid)
{
	u32 hash = jhash2((const u32 *)mgid, sizeof(*mgid) / sizeof(u32), sdev->mcast_seed);

	return &sdev->mcasts[hash_min(hash, SROCE_MCAST_HASH_BITS)];
}

static struct sroce_mcast *mcast_lookup(struct sroce_dev *sdev, const union ib_gid *mgid)
{
	struct sroce_mcast *grp;

	hlist_for_each_entry_rcu(grp, mcast_bucket(sdev, mgid), node,
				 lockdep_is_held(&sdev->mcast_lock))
		if (!memcmp(&grp->mgid, mgid, sizeof(*mgid)))
			return grp;
	return NULL;
}

/**
 * sroce_mcast_find - the members of a group
 * @sdev: the link
 * @mgid: the group's address as a GID, IPv4 mapped
 *
 * RCU is held.
 *
 * Return: the group as it is at the moment, for as long as RCU is held, or NULL.
 */
const struct sroce_mcast *sroce_mcast_find(struct sroce_dev *sdev, const union ib_gid *mgid)
{
	return mcast_lookup(sdev, mgid);
}

static struct sroce_mcast *mcast_alloc(const union ib_gid *mgid, u32 num, gfp_t gfp)
{
	struct sroce_mcast *grp;

	grp = kvmalloc(struct_size(grp, qpn, num), gfp);
	if (!grp)
		return NULL;
	grp->mgid = *mgid;
	grp->joined = 0;
	grp->num = num;
	return grp;
}

/* @old makes way for @new; either may be none. */
static void mcast_replace(struct sroce_dev *sdev, struct sroce_mcast *old,
			  struct sroce_mcast *new)
{
	if (old && new)
		hlist_replace_rcu(&old->node, &new->node);
	else if (new)
		hlist_add_head_rcu(&new->node, mcast_bucket(sdev, &new->mgid));
	else
		hlist_del_rcu(&old->node);
	if (old)
		kvfree_rcu(old, rcu);
}

static bool mcast_index(const struct sroce_mcast *grp, u32 qpn, u32 *index)
{
	for (*index = 0; grp && *index < grp->num; ++*index)
		if (grp->qpn[*index] == qpn)
			return true;
	return false;
}

/* A group with its first member: the netdev has to be in it. */
static int mcast_open(struct sroce_dev *sdev, struct sroce_mcast *grp)
{
	int err;

	if (sdev->num_mcast == SROCE_MAX_MCAST_GRP)
		return -ENOMEM;
	/* before: what the netdev loses from then on is looked for */
	WRITE_ONCE(sdev->num_mcast, sdev->num_mcast + 1);
	err = netdev_do(sdev, grp, group_join);
	if (err)
		WRITE_ONCE(sdev->num_mcast, sdev->num_mcast - 1);
	return err;
}

static int attach_locked(struct sroce_dev *sdev, const union ib_gid *mgid, u32 qpn)
{
	struct sroce_mcast *old = mcast_lookup(sdev, mgid);
	u32 num = old ? old->num : 0;
	struct sroce_mcast *new;
	u32 index;
	int err;

	if (mcast_index(old, qpn, &index))
		return -EEXIST;
	if (num == SROCE_MAX_MCAST_ATTACH)
		return -ENOMEM;
	new = mcast_alloc(mgid, num + 1, GFP_KERNEL_ACCOUNT);
	if (!new)
		return -ENOMEM;
	if (old) {
		new->joined = old->joined;
		memcpy(new->qpn, old->qpn, array_size(num, sizeof(*new->qpn)));
	} else {
		err = mcast_open(sdev, new);
		if (err) {
			kvfree(new);
			return err;
		}
	}
	new->qpn[num] = qpn;
	mcast_replace(sdev, old, new);
	return 0;
}

static int detach_locked(struct sroce_dev *sdev, const union ib_gid *mgid, u32 qpn)
{
	struct sroce_mcast *old = mcast_lookup(sdev, mgid);
	struct sroce_mcast *new = NULL;
	u32 index;

	if (!mcast_index(old, qpn, &index))
		return -EINVAL;
	if (old->num > 1) {
		/* ib_uverbs lets a queue pair go whatever we say */
		new = mcast_alloc(mgid, old->num - 1, GFP_KERNEL_ACCOUNT | __GFP_NOFAIL);
		new->joined = old->joined;
		memcpy(new->qpn, old->qpn, array_size(index, sizeof(*new->qpn)));
		memcpy(new->qpn + index, old->qpn + index + 1,
		       array_size(new->num - index, sizeof(*new->qpn)));
	}
	if (!new) {
		netdev_do(sdev, old, group_leave);
		WRITE_ONCE(sdev->num_mcast, sdev->num_mcast - 1);
	}
	mcast_replace(sdev, old, new);
	return 0;
}

/**
 * sroce_attach_mcast - ib_device_ops: a queue pair is to hear a group
 * @ibqp: a UD queue pair
 * @mgid: the group's address
 * @lid: of no meaning here
 *
 * The core has checked type and address. Takes rtnl.
 *
 * Return: 0 or an errno.
 */
int sroce_attach_mcast(struct ib_qp *ibqp, union ib_gid *mgid, u16 lid)
{
	struct sroce_dev *sdev = to_sdev(ibqp->device);
	int err;

	mutex_lock(&sdev->mcast_lock);
	err = attach_locked(sdev, mgid, ibqp->qp_num);
	mutex_unlock(&sdev->mcast_lock);
	return err;
}

/**
 * sroce_detach_mcast - ib_device_ops: a queue pair is to hear a group no more
 * @ibqp: the queue pair
 * @mgid: the group's address
 * @lid: of no meaning here
 *
 * Takes rtnl.
 *
 * Return: 0, or -EINVAL if it did not.
 */
int sroce_detach_mcast(struct ib_qp *ibqp, union ib_gid *mgid, u16 lid)
{
	struct sroce_dev *sdev = to_sdev(ibqp->device);
	int err;

	mutex_lock(&sdev->mcast_lock);
	err = detach_locked(sdev, mgid, ibqp->qp_num);
	mutex_unlock(&sdev->mcast_lock);
	return err;
}
