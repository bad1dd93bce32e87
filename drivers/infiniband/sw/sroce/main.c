// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The module: links come and go, and follow their netdevs. */
#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <linux/if_vlan.h>
#include <linux/inetdevice.h>
#include <linux/module.h>
#include <net/addrconf.h>
#include <rdma/ib_addr.h>
#include <rdma/rdma_netlink.h>

#include "sroce.h"

/* GIDs that a link may refuse every 5 s: a container adds as many addresses as it likes */
#define REFUSALS_MAX	32

MODULE_AUTHOR("The sroce authors");
MODULE_DESCRIPTION("Software RoCE v2 device");
MODULE_VERSION("1");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_ALIAS_RDMA_LINK("sroce");

/* Can RoCE v2 be carried over this netdev? */
static int check_netdev(struct net_device *ndev)
{
	if (ndev->type != ARPHRD_ETHER && ndev->type != ARPHRD_LOOPBACK &&
	    ndev->type != ARPHRD_NONE) {
		netdev_dbg(ndev, "sroce: only for Ethernet, lo, tun and WireGuard\n");
		return -EOPNOTSUPP;
	}
	/* the core gives its addresses to the netdev below (is_eth_port_of_netdev_filter()) */
	if (is_vlan_dev(ndev)) {
		netdev_dbg(ndev, "sroce: a VLAN: use the netdev below, which has its addresses\n");
		return -EOPNOTSUPP;
	}
	if (!iboe_get_mtu(ndev->mtu)) {
		netdev_dbg(ndev, "sroce: an MTU of %u is too small: 352 is the least\n",
			   ndev->mtu);
		return -EINVAL;
	}
	return 0;
}

static void set_guid(struct ib_device *ibdev, struct net_device *ndev)
{
	u8 mac[ETH_ALEN];

	if (ndev->addr_len == ETH_ALEN && !is_zero_ether_addr(ndev->dev_addr))
		ether_addr_copy(mac, ndev->dev_addr);
	else
		eth_random_addr(mac);
	addrconf_addr_eui48((u8 *)&ibdev->node_guid, mac);
}

/* Work that netdev events cause and that takes RTNL, which the notifier holds */
static struct workqueue_struct *sroce_follow_wq;

/* The work gets the reference, if it has not one already. */
static void follow(struct ib_device *ibdev, struct work_struct *work)
{
	if (!queue_work(sroce_follow_wq, work))
		ib_device_put(ibdev);
}

/* Where the caller needs its own. */
static void follow_too(struct ib_device *ibdev, struct work_struct *work)
{
	if (ib_device_try_get(ibdev))
		follow(ibdev, work);
}

static void gids_work(struct work_struct *work)
{
	struct sroce_dev *sdev = container_of(work, struct sroce_dev, gids_work);

	rdma_roce_rescan_device(&sdev->ibdev);
	WRITE_ONCE(sdev->gids_known, true);
	ib_device_put(&sdev->ibdev);
}

static void port_work(struct work_struct *work)
{
	struct sroce_dev *sdev = container_of(work, struct sroce_dev, port_work);
	struct ib_port_attr attr;

	/* the port notes its netdev's speed when it is asked for it */
	ib_query_port(&sdev->ibdev, 1, &attr);
	sroce_qp_mtu_all(sdev);
	ib_device_put(&sdev->ibdev);
}

static void mcast_work(struct work_struct *work)
{
	struct sroce_dev *sdev = container_of(work, struct sroce_dev, mcast_work);

	sroce_mcast_rejoin(sdev);
	ib_device_put(&sdev->ibdev);
}

static struct sroce_dev *dev_alloc(struct net *net, struct net_device *ndev)
{
	struct sroce_dev *sdev = ib_alloc_device_with_net(sroce_dev, ibdev, net);

	if (!sdev)
		return NULL;
	/* udev has no better one */
	ib_mark_name_assigned_by_user(&sdev->ibdev);
	sdev->stats = alloc_percpu(struct sroce_stats);
	if (!sdev->stats)
		goto err_device;
	if (sroce_keys_init(sdev))
		goto err_stats;

	xa_init_flags(&sdev->avs, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_IRQ | XA_FLAGS_ACCOUNT);
	xa_init_flags(&sdev->srqs, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
	xa_init_flags(&sdev->counters, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
	mutex_init(&sdev->mcast_lock);
	sdev->mcast_seed = get_random_u32();
	sdev->mcast_ip[false] = 1;
	sdev->mcast_ip[true] = 1;
	INIT_WORK(&sdev->mcast_work, mcast_work);
	INIT_LIST_HEAD(&sdev->net_entry);
	INIT_LIST_HEAD(&sdev->flows.rules);
	INIT_WORK(&sdev->gids_work, gids_work);
	INIT_WORK(&sdev->port_work, port_work);
	INIT_DELAYED_WORK(&sdev->kept_work, sroce_kept_work);
	ratelimit_state_init(&sdev->refusals, DEFAULT_RATELIMIT_INTERVAL, REFUSALS_MAX);
	ratelimit_set_flags(&sdev->refusals, RATELIMIT_MSG_ON_RELEASE);

	sdev->ibdev.node_type = RDMA_NODE_IB_CA;
	sdev->ibdev.phys_port_cnt = 1;
	sdev->ibdev.local_dma_lkey = SROCE_LOCAL_DMA_LKEY;
	sdev->ibdev.num_comp_vectors = num_possible_cpus();
	sdev->ibdev.driver_def = sroce_uapi_defs;
	/* one of those that a driver has to ask for (ib_alloc_device()): sroce_cq_missed() */
	sdev->ibdev.uverbs_cmd_mask |= BIT_ULL(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ);
	strscpy(sdev->ibdev.node_desc, "sroce", sizeof(sdev->ibdev.node_desc));
	set_guid(&sdev->ibdev, ndev);
	sroce_pma_init(sdev, ndev);
	ib_set_device_ops(&sdev->ibdev, &sroce_dev_ops);
	return sdev;

err_stats:
	free_percpu(sdev->stats);
err_device:
	ib_dealloc_device(&sdev->ibdev);
	return NULL;
}

/* The device over a netdev, with a reference, or NULL. */
static struct ib_device *link_of(struct net_device *ndev)
{
	return ib_device_get_by_netdev(ndev, (enum rdma_driver_id)SROCE_DRIVER_ID);
}

static int newlink_in(struct net *net, const char *name, struct net_device *ndev)
{
	struct sroce_dev *sdev;
	int err;

	sdev = dev_alloc(net, ndev);
	if (!sdev)
		return -ENOMEM;
	err = sroce_net_attach(sdev, net, ndev->ifindex);
	if (err == -EEXIST) {
		netdev_dbg(ndev, "sroce: has a link already: see rdma link show\n");
		goto err_dealloc;
	}
	if (err) {
		netdev_dbg(ndev, "sroce: cannot use UDP port %d (%d): see ss -lunp 'sport = :%d'\n",
			   WIRE_UDP_PORT, err, WIRE_UDP_PORT);
		goto err_dealloc;
	}
	err = ib_device_set_netdev(&sdev->ibdev, ndev, 1);
	if (err)
		goto err_dealloc;
	err = ib_register_device(&sdev->ibdev, name, NULL);
	if (!err)
		return 0;

err_dealloc:
	ib_dealloc_device(&sdev->ibdev);
	return err;
}

/**
 * sroce_netdev_net_get - the namespace that a netdev is in now
 * @ndev: the caller's, but it may leave its namespace, which may end then
 *
 * Any context.
 *
 * Return: the namespace with a reference, or NULL if it ends.
 */
struct net *sroce_netdev_net_get(struct net_device *ndev)
{
	struct net *net;

	rcu_read_lock();
	net = maybe_get_net(dev_net(ndev));
	rcu_read_unlock();
	return net;
}

static int sroce_newlink(const char *name, struct net_device *ndev)
{
	struct net *net;
	int err;

	err = check_netdev(ndev);
	if (err)
		return err;
	net = sroce_netdev_net_get(ndev);
	if (!net)
		return -ENODEV;
	err = newlink_in(net, name, ndev);
	put_net(net);
	return err;
}

static struct rdma_link_ops sroce_link_ops = {
	.type = "sroce",
	.newlink = sroce_newlink,
};

/**
 * sroce_port_event - a port's netdev may have changed: tell programs if the port has
 * @ibdev: the link's device
 * @ndev: its netdev
 * @event: netdev notification that says so
 *
 * An ib_device_ops as well, or the core would raise events by its own idea of the netdev, which
 * leaves out bonds and an MTU that is too small (handle_port_event()). RTNL is held. Nothing is
 * kept of a port but what was last said of it.
 */
void sroce_port_event(struct ib_device *ibdev, struct net_device *ndev, unsigned long event)
{
	struct sroce_dev *sdev = to_sdev(ibdev);
	const bool up = sroce_port_up(ndev);
	struct ib_event port = {
		.device = ibdev,
		.event = up ? IB_EVENT_PORT_ACTIVE : IB_EVENT_PORT_ERR,
		.element.port_num = 1,
	};

	if (up == sdev->port_up)
		return;
	sdev->port_up = up;
	ib_dispatch_event(&port);
}

/*
 * The link's netdev goes, or leaves its namespace: the rest of the link goes in the core's own
 * time; what sends must not outlive that namespace.
 */
static void netdev_gone(struct ib_device *ibdev)
{
	struct sroce_dev *sdev = to_sdev(ibdev);

	sroce_dev_gone(sdev);
	sroce_flow_detach(sdev);
	sroce_net_detach(sdev);
	ib_unregister_device_queued(ibdev);
}

/**
 * sroce_enable_driver - ib_device_ops: the notifier finds the link from here on
 * @ibdev: the link's device
 *
 * While the device is registered or changes namespace, the notifier does not find the link; what it
 * missed is caught up on here. With RTNL: a netdev that is leaving its namespace looks unchanged
 * until all notifiers have run.
 *
 * Return: 0, or -ENODEV if the netdev has gone, and the link goes.
 */
int sroce_enable_driver(struct ib_device *ibdev)
{
	struct sroce_dev *sdev = to_sdev(ibdev);
	struct net_device *ndev;
	int err = 0;

	rtnl_lock();
	ndev = ib_device_get_netdev(ibdev, 1);
	if (ndev && ndev->reg_state == NETREG_REGISTERED &&
	    net_eq(dev_net(ndev), sdev->net) && ndev->ifindex == sdev->ifindex) {
		sdev->port_up = sroce_port_up(ndev);
		sroce_net_last(sdev);
		WRITE_ONCE(sdev->gids_known, false);
		/* addr_event() and the notifier did not find it */
		follow_too(ibdev, &sdev->gids_work);
		follow_too(ibdev, &sdev->port_work);
	} else {
		netdev_gone(ibdev);
		err = -ENODEV;
	}
	dev_put(ndev);
	rtnl_unlock();
	return err;
}

static int sroce_netdev_event(struct notifier_block *nb, unsigned long event, void *ptr)
{
	struct net_device *ndev = netdev_notifier_info_to_dev(ptr);
	struct ib_device *ibdev = link_of(ndev);

	if (!ibdev)
		return NOTIFY_DONE;

	switch (event) {
	case NETDEV_UNREGISTER:
		netdev_gone(ibdev);
		break;
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
	case NETDEV_CHANGEMTU:
		sroce_port_event(ibdev, ndev, event);
		/* not from here: some events come with the netdev's own lock, which asking takes */
		follow_too(ibdev, &to_sdev(ibdev)->port_work);
		if (!sroce_mcast_changed(to_sdev(ibdev), ndev))
			break;
		follow(ibdev, &to_sdev(ibdev)->mcast_work);
		return NOTIFY_DONE;
	}
	ib_device_put(ibdev);
	return NOTIFY_DONE;
}

static struct notifier_block sroce_netdev_nb = {
	.notifier_call = sroce_netdev_event,
};

/*
 * The core follows the addresses of Ethernet netdevs alone (addr_event()). For others
 * it looks again, which finds what has come; what has gone stays in the table. No packet leaves
 * from there.
 */
static int addr_event(unsigned long event, struct net_device *ndev)
{
	struct ib_device *ibdev;

	if (event != NETDEV_UP || ndev->type == ARPHRD_ETHER)
		return NOTIFY_DONE;
	ibdev = link_of(ndev);
	if (ibdev)
		follow(ibdev, &to_sdev(ibdev)->gids_work);
	return NOTIFY_DONE;
}

static int sroce_inetaddr_event(struct notifier_block *nb, unsigned long event, void *ptr)
{
	return addr_event(event, ((struct in_ifaddr *)ptr)->ifa_dev->dev);
}

static struct notifier_block sroce_inetaddr_nb = {
	.notifier_call = sroce_inetaddr_event,
};

static int sroce_inet6addr_event(struct notifier_block *nb, unsigned long event, void *ptr)
{
	return addr_event(event, ((struct inet6_ifaddr *)ptr)->idev->dev);
}

static struct notifier_block sroce_inet6addr_nb = {
	.notifier_call = sroce_inet6addr_event,
};

/* These add a block to a chain, and fail in no way. */
static void addr_events_on(void)
{
	register_inetaddr_notifier(&sroce_inetaddr_nb);
	if (IS_ENABLED(CONFIG_IPV6))
		register_inet6addr_notifier(&sroce_inet6addr_nb);
}

static void addr_events_off(void)
{
	if (IS_ENABLED(CONFIG_IPV6))
		unregister_inet6addr_notifier(&sroce_inet6addr_nb);
	unregister_inetaddr_notifier(&sroce_inetaddr_nb);
}

/*
 * A client of our own devices, to hear of their end before ib_uverbs does: it
 * came before us and so goes after us. While programs still have their rings,
 * everything they posted is flushed, so that those that poll see their
 * device go, however it goes. Clients that came after us, which most of the
 * kernel's own may be, have been told before; the others are told after.
 */
static int client_add(struct ib_device *ibdev)
{
	return ibdev->ops.driver_id == (enum rdma_driver_id)SROCE_DRIVER_ID ? 0 : -EOPNOTSUPP;
}

static void client_remove(struct ib_device *ibdev, void *data)
{
	sroce_qp_fatal_all(to_sdev(ibdev));
	sroce_wq_fatal_all(to_sdev(ibdev));
}

static struct ib_client sroce_client = {
	.name = "sroce",
	.add = client_add,
	.remove = client_remove,
	.no_kverbs_req = true,
};

static int __init sroce_init(void)
{
	int err;

	sroce_copy_init();
	sroce_icrc_init();
	sroce_tasks_init();
	sroce_qp_init();
	err = sroce_late_init();
	if (err)
		goto err_icrc;
	sroce_follow_wq = alloc_workqueue("sroce_follow", WQ_UNBOUND, 0);
	if (!sroce_follow_wq) {
		err = -ENOMEM;
		goto err_late;
	}
	err = sroce_net_init();
	if (err)
		goto err_gids;
	err = ib_register_client(&sroce_client);
	if (err)
		goto err_net;
	err = register_netdevice_notifier(&sroce_netdev_nb);
	if (err)
		goto err_client;
	addr_events_on();
	rdma_link_register(&sroce_link_ops);
	return 0;

err_client:
	ib_unregister_client(&sroce_client);
err_net:
	sroce_net_exit();
err_gids:
	destroy_workqueue(sroce_follow_wq);
err_late:
	sroce_late_exit();
err_icrc:
	sroce_icrc_exit();
	return err;
}

static void __exit sroce_exit(void)
{
	rdma_link_unregister(&sroce_link_ops);
	/* before the notifier, whose end is the end of every netdev to it */
	ib_unregister_driver((enum rdma_driver_id)SROCE_DRIVER_ID);
	addr_events_off();
	unregister_netdevice_notifier(&sroce_netdev_nb);
	ib_unregister_client(&sroce_client);
	destroy_workqueue(sroce_follow_wq);
	sroce_net_exit();
	sroce_qpn_wait();
	sroce_late_exit();
	sroce_tasks_exit();
	sroce_burst_exit();
	/* memory that went by RCU, and callbacks of this module */
	rcu_barrier();
	sroce_icrc_exit();
}

module_init(sroce_init);
module_exit(sroce_exit);
