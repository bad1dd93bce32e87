// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What the core asks of the device and its port. */
#include <linux/etherdevice.h>
#include <linux/utsname.h>
#include <rdma/ib_addr.h>
#include <rdma/uverbs_ioctl.h>

#include "sroce.h"

/**
 * sroce_take - count an object of a limited number
 * @count: how many there are
 * @max: how many there may be
 *
 * Return: false if there are @max already; else atomic_dec() gives it back.
 */
bool sroce_take(atomic_t *count, int max)
{
	return atomic_add_unless(count, 1, max);
}

/**
 * sroce_dev_gone - a link has no netdev any more, or no namespace
 * @sdev: the link, whose device is being unregistered
 *
 * Nothing of it sends from here on. Sleeps. The netdev's end may wait for this with RTNL: what
 * programs have posted, which may be much, is flushed later, by client_remove().
 */
void sroce_dev_gone(struct sroce_dev *sdev)
{
	WRITE_ONCE(sdev->gone, true);
	sroce_qp_gone_all(sdev);
	sroce_av_release_all(sdev);
}

/**
 * sroce_udata_clear - has the provider asked for nothing that we don't know?
 * @udata: its request; NULL for a kernel consumer
 *
 * Return: true if it is empty or all zero; if not, -EOPNOTSUPP is due.
 */
bool sroce_udata_clear(struct ib_udata *udata)
{
	return !udata || !udata->inlen || ib_is_udata_cleared(udata, 0, udata->inlen);
}

/**
 * sroce_request - take the provider's request for an operation
 * @udata: where from; NULL for a kernel consumer, who has none
 * @req: set to it, or to zero without one
 * @len: its bytes
 *
 * Return: 0; -EINVAL if it is shorter, -EOPNOTSUPP if it asks for more, or -EFAULT.
 */
int sroce_request(struct ib_udata *udata, void *req, size_t len)
{
	memset(req, 0, len);
	if (!udata || !udata->inlen)
		return 0;
	if (udata->inlen < len)
		return -EINVAL;
	if (udata->inlen > len && !ib_is_udata_cleared(udata, len, udata->inlen - len))
		return -EOPNOTSUPP;
	return ib_copy_from_udata(req, udata, len);
}

/**
 * sroce_respond - give the provider an operation's response
 * @udata: where to; NULL for a kernel consumer, who gets none
 * @resp: the response
 * @len: its bytes
 *
 * An older provider wants less than there is, a newer one more, which is zeroed: the rules are at
 * struct ib_udata in Linux 7.2, which has a function for it. So both can be told apart without
 * another ABI version.
 *
 * Return: 0 or -EFAULT.
 */
int sroce_respond(struct ib_udata *udata, const void *resp, size_t len)
{
	if (!udata)
		return 0;
	len = min(len, udata->outlen);
	if (copy_to_user(udata->outbuf, resp, len) ||
	    clear_user(udata->outbuf + len, udata->outlen - len))
		return -EFAULT;
	return 0;
}

/**
 * sroce_no_udata - an operation has no data of the driver's
 * @udata: what a provider that knows some has for it; NULL for a kernel consumer
 *
 * Return: 0, -EOPNOTSUPP if it asks for something, or -EFAULT.
 */
int sroce_no_udata(struct ib_udata *udata)
{
	return sroce_udata_clear(udata) ? sroce_respond(udata, NULL, 0) : -EOPNOTSUPP;
}

/* What an Ethernet netdev has besides. */
static void raw_attr(struct ib_device_attr *attr)
{
	if (IS_ENABLED(CONFIG_NETFILTER_INGRESS))
		attr->device_cap_flags |= IB_DEVICE_MANAGED_FLOW_STEERING;
	attr->max_raw_ethy_qp = SROCE_MAX_QP;
	attr->max_wq_type_rq = SROCE_MAX_WQ;
	attr->raw_packet_caps = IB_RAW_PACKET_CAP_CVLAN_STRIPPING;
	attr->rss_caps.supported_qpts = BIT(IB_QPT_RAW_PACKET);
	attr->rss_caps.max_rwq_indirection_tables = SROCE_MAX_IND_TBL;
	attr->rss_caps.max_rwq_indirection_table_size = SROCE_MAX_IND_TBL_SIZE;
}

/* As sroce_get_dev_fw_str() has it, in numbers */
static u64 fw_ver(void)
{
	u16 major = 0, minor = 0, patch = 0;

	if (sscanf(init_utsname()->release, "%hu.%hu.%hu", &major, &minor, &patch) < 2)
		return 0;
	return (u64)major << 32 | (u32)minor << 16 | patch;
}

static int sroce_query_device(struct ib_device *ibdev, struct ib_device_attr *attr,
			      struct ib_udata *udata)
{
	struct sroce_query_device_resp resp = {
		/* any that the attribute has room for, of whatever sends */
		.rate_min = 1,
		.rate_max = U32_MAX,
		.rate_qpts = BIT(IB_QPT_RC) | BIT(IB_QPT_UC) | BIT(IB_QPT_UD) |
			     BIT(IB_QPT_XRC_INI),
	};
	int err;

	if (!sroce_udata_clear(udata))
		return -EOPNOTSUPP;
	memset(attr, 0, sizeof(*attr));
	if (sroce_raw_able(to_sdev(ibdev))) {
		raw_attr(attr);
		resp.rate_qpts |= BIT(IB_QPT_RAW_PACKET);
	}
	err = sroce_respond(udata, &resp, sizeof(resp));
	if (err)
		return err;
	attr->sys_image_guid = ibdev->node_guid;
	/* not rdma_rxe's 0xffffff, whose faults SPDK works around */
	attr->vendor_id = SROCE_VENDOR_ID;
	attr->fw_ver = fw_ver();
	attr->max_mr_size = ~0ULL;
	attr->page_size_cap = ~0ULL << PAGE_SHIFT;
	attr->max_qp = SROCE_MAX_QP;
	attr->max_qp_wr = SROCE_MAX_QP_WR;
	attr->device_cap_flags |= IB_DEVICE_BAD_PKEY_CNTR | IB_DEVICE_BAD_QKEY_CNTR |
				  IB_DEVICE_RC_RNR_NAK_GEN | IB_DEVICE_PORT_ACTIVE_EVENT |
				  IB_DEVICE_SYS_IMAGE_GUID | IB_DEVICE_CURR_QP_STATE_MOD |
				  IB_DEVICE_SRQ_RESIZE | IB_DEVICE_XRC |
				  IB_DEVICE_MEM_WINDOW | IB_DEVICE_MEM_WINDOW_TYPE_2B |
				  IB_DEVICE_MEM_MGT_EXTENSIONS |
				  SROCE_CAP_A19;
	attr->kernel_cap_flags = IBK_ALLOW_USER_UNREG | IBK_LOCAL_DMA_LKEY | IBK_SG_GAPS_REG;
	attr->max_qp_rd_atom = SROCE_MAX_RD_ATOMIC;
	attr->max_qp_init_rd_atom = SROCE_MAX_RD_ATOMIC;
	attr->max_res_rd_atom = SROCE_MAX_QP * SROCE_MAX_RD_ATOMIC;
	attr->atomic_cap = IB_ATOMIC_GLOB;
	attr->max_sge_rd = SROCE_MAX_SGE;
	attr->max_send_sge = SROCE_MAX_SGE;
	attr->max_recv_sge = SROCE_MAX_SGE;
	attr->max_cq = SROCE_MAX_CQ;
	attr->max_cqe = SROCE_MAX_CQE;
	attr->max_mr = SROCE_MAX_MR;
	attr->max_mw = SROCE_MAX_MW;
	attr->max_fast_reg_page_list_len = SROCE_MAX_FAST_PAGES;
	attr->max_dm_size = SROCE_MAX_DM;
	attr->max_pd = SROCE_MAX_PD;
	attr->max_ah = SROCE_MAX_AH;
	attr->max_srq = SROCE_MAX_SRQ;
	attr->max_srq_wr = SROCE_MAX_SRQ_WR;
	attr->max_srq_sge = SROCE_MAX_SGE;
	attr->max_mcast_grp = SROCE_MAX_MCAST_GRP;
	attr->max_mcast_qp_attach = SROCE_MAX_MCAST_ATTACH;
	attr->max_total_mcast_qp_attach = SROCE_MAX_MCAST_GRP * SROCE_MAX_MCAST_ATTACH;
	attr->max_pkeys = 1;
	/* stamps are nanoseconds, and wrap around in no program's lifetime */
	attr->timestamp_mask = ~0ULL;
	attr->hca_core_clock = USEC_PER_SEC;
	attr->cq_caps.max_cq_moderation_count = U16_MAX;
	attr->cq_caps.max_cq_moderation_period = U16_MAX;
	/* 4.096 us << 15: what a busy CPU may keep a packet waiting */
	attr->local_ca_ack_delay = 15;
	sroce_odp_caps(attr);
	sroce_tm_caps(attr);
	return 0;
}

/**
 * sroce_port_up - can packets leave by this netdev?
 * @ndev: of a link
 *
 * Return: true if it is up, has a carrier, and an MTU for the smallest packets.
 */
bool sroce_port_up(const struct net_device *ndev)
{
	return netif_running(ndev) && netif_carrier_ok(ndev) &&
	       iboe_get_mtu(READ_ONCE(ndev->mtu));
}

/**
 * sroce_port_mtu - the largest path MTU that fits the netdev's
 * @ibdev: the link's device
 *
 * Return: at least IB_MTU_256, what there always is.
 */
enum ib_mtu sroce_port_mtu(struct ib_device *ibdev)
{
	struct net_device *ndev = ib_device_get_netdev(ibdev, 1);
	enum ib_mtu mtu = 0;

	if (ndev) {
		mtu = iboe_get_mtu(READ_ONCE(ndev->mtu));
		dev_put(ndev);
	}
	return mtu ?: IB_MTU_256;
}

/*
 * Not every change is told of by the netdev: who asks notices as well. One that is down does not
 * know its speed, and will have it again.
 */
static void note_speed(struct sroce_dev *sdev, u32 speed)
{
	const u32 before = speed ? xchg(&sdev->speed, speed) : cmpxchg(&sdev->speed, 0, SROCE_LANE_SPEED);

	if (!SROCE_EVENT_SPEED || !before || !speed || speed == before)
		return;
	ib_dispatch_event(&(struct ib_event) {
		.device = &sdev->ibdev,
		.element.port_num = 1,
		.event = SROCE_EVENT_SPEED,
	});
}

/* Mb/s; 0 if it is not known, which ib_get_eth_speed() would say in the kernel's log each time. */
static u32 netdev_speed(struct sroce_dev *sdev, struct net_device *ndev)
{
	struct ethtool_link_ksettings ks = {};
	u32 speed = 0;

	rtnl_lock();
	if (ndev->reg_state == NETREG_REGISTERED && !__ethtool_get_link_ksettings(ndev, &ks) &&
	    ks.base.speed != (u32)SPEED_UNKNOWN)
		speed = ks.base.speed;
	/* here, or who is overtaken would note one of before */
	note_speed(sdev, speed);
	rtnl_unlock();
	return speed;
}

/*
 * A counter of 16 bits, which stops at its end (14.2.5.6). What queue pairs count that are bound
 * to a counter of their own is not in it: the core adds that up in hw_counters, past the driver.
 */
static u32 violations(const struct sroce_dev *sdev, enum sroce_counter id)
{
	return min_t(u64, sroce_stats_sum(sdev->stats, id), U16_MAX);
}

/* Its description: rdma-ndd writes the host's name there when the device appears. */
static int sroce_modify_device(struct ib_device *ibdev, int mask, struct ib_device_modify *attr)
{
	if (mask & ~IB_DEVICE_MODIFY_NODE_DESC)
		return -EOPNOTSUPP;
	if (mask & IB_DEVICE_MODIFY_NODE_DESC)
		memcpy(ibdev->node_desc, attr->node_desc, sizeof(ibdev->node_desc));
	return 0;
}

static int sroce_query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *attr)
{
	struct net_device *ndev = ib_device_get_netdev(ibdev, port);
	u32 speed;
	int err = 0;

	/* as many as struct ib_global_route's index can name */
	attr->gid_tbl_len = U8_MAX + 1;
	attr->ip_gids = true;
	attr->port_cap_flags = IB_PORT_CM_SUP;
	attr->max_msg_sz = SROCE_MAX_MSG;
	attr->bad_pkey_cntr = violations(to_sdev(ibdev), SROCE_CNT_RX_WRONG_PKEY);
	attr->qkey_viol_cntr = violations(to_sdev(ibdev), SROCE_CNT_RX_WRONG_QKEY);
	attr->pkey_tbl_len = 1;
	attr->max_vl_num = 1;
	attr->state = IB_PORT_DOWN;
	attr->phys_state = IB_PORT_PHYS_STATE_DISABLED;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = sroce_port_mtu(ibdev);
	attr->active_width = IB_WIDTH_1X;
	attr->active_speed = IB_SPEED_SDR;
	if (!ndev)
		return 0;

	if (sroce_port_up(ndev)) {
		attr->state = IB_PORT_ACTIVE;
		attr->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
	} else if (netif_running(ndev)) {
		attr->phys_state = IB_PORT_PHYS_STATE_POLLING;
	}
	speed = netdev_speed(to_sdev(ibdev), ndev);
	if (speed)
		err = ib_get_eth_speed(ibdev, port, &attr->active_speed, &attr->active_width);
	dev_put(ndev);
	return err == -ENODEV ? 0 : err;
}

/**
 * sroce_query_port_speed - ib_device_ops: the netdev's own, which lanes can only come near to
 * @ibdev: the link's device
 * @port: its port
 * @speed: units of 100 Mb/s
 *
 * Return: 0 or an errno.
 */
int sroce_query_port_speed(struct ib_device *ibdev, u32 port, u64 *speed)
{
	struct ib_port_attr attr = {};
	int err = sroce_query_port(ibdev, port, &attr);

	*speed = DIV_ROUND_UP_ULL(READ_ONCE(to_sdev(ibdev)->speed), 100);
	return err;
}

static int sroce_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey)
{
	if (index)
		return -EINVAL;
	*pkey = IB_DEFAULT_PKEY_FULL;
	return 0;
}

static int sroce_get_port_immutable(struct ib_device *ibdev, u32 port,
				    struct ib_port_immutable *immutable)
{
	struct ib_port_attr attr = {};
	int err;

	immutable->core_cap_flags = RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
	immutable->max_mad_size = IB_MGMT_MAD_SIZE;
	err = ib_query_port(ibdev, port, &attr);
	if (err)
		return err;

	immutable->pkey_tbl_len = attr.pkey_tbl_len;
	immutable->gid_tbl_len = attr.gid_tbl_len;
	return 0;
}

static enum rdma_link_layer sroce_get_link_layer(struct ib_device *ibdev, u32 port)
{
	return IB_LINK_LAYER_ETHERNET;
}

/*
 * GIDs are the core's: it looks for these two to manage the table itself. It would take those of a
 * container's macvlan above the netdev as well, in another namespace, from where the link sends
 * nothing; and RDMA CM would have who is there use this link, not one of its own.
 */
static int sroce_add_gid(const struct ib_gid_attr *attr, void **context)
{
	struct sroce_dev *sdev = to_sdev(attr->device);
	const struct net *net = READ_ONCE(sdev->net);
	const struct net_device *ndev;
	bool ours;

	rcu_read_lock();
	ndev = rcu_dereference(attr->ndev);
	ours = ndev && net_eq(dev_net(ndev), net);
	rcu_read_unlock();
	if (ours)
		return 0;
	/*
	 * The core says each refusal in the log. What is there when the link is made is said once
	 * or twice; who makes more of them after that has it the core's way.
	 */
	return READ_ONCE(sdev->gids_known) && !__ratelimit(&sdev->refusals) ? 0 : -EOPNOTSUPP;
}

static int sroce_del_gid(const struct ib_gid_attr *attr, void **context)
{
	return 0;
}

static void sroce_get_dev_fw_str(struct ib_device *ibdev, char *str)
{
	strscpy(str, init_utsname()->release, IB_FW_VERSION_NAME_MAX);
}

static int sroce_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	const int err = sroce_no_udata(udata);

	if (err)
		return err;
	to_spd(ibpd)->uctx = rdma_udata_to_drv_context(udata, struct sroce_ucontext, ibuc);
	return sroce_take(&to_sdev(ibpd->device)->num_pd, SROCE_MAX_PD) ? 0 : -ENOMEM;
}

static int sroce_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	atomic_dec(&to_sdev(ibpd->device)->num_pd);
	return 0;
}

/* The core has no more use for the device; its memory goes after this. */
static void sroce_dealloc_driver(struct ib_device *ibdev)
{
	struct sroce_dev *sdev = to_sdev(ibdev);

	sroce_net_detach(sdev);
	cancel_delayed_work_sync(&sdev->kept_work);
	sroce_keys_exit(sdev);
	xa_destroy(&sdev->avs);
	xa_destroy(&sdev->srqs);
	xa_destroy(&sdev->counters);
	free_percpu(sdev->stats);
}

const struct ib_device_ops sroce_dev_ops = {
	.owner = THIS_MODULE,
	.driver_id = (enum rdma_driver_id)SROCE_DRIVER_ID,
	.uverbs_abi_ver = SROCE_ABI_VERSION,

	.add_gid = sroce_add_gid,
	.advise_mr = sroce_advise_mr,
	.alloc_dm = sroce_alloc_dm,
	.alloc_hw_port_stats = sroce_alloc_hw_port_stats,
	.alloc_mr = sroce_alloc_mr,
	.alloc_mw = sroce_alloc_mw,
	.alloc_pd = sroce_alloc_pd,
	.alloc_ucontext = sroce_alloc_ucontext,
	.alloc_xrcd = sroce_alloc_xrcd,
	.attach_mcast = sroce_attach_mcast,
	.counter_alloc_stats = sroce_counter_alloc_stats,
	.counter_bind_qp = sroce_counter_bind_qp,
	.counter_dealloc = sroce_counter_dealloc,
	.counter_unbind_qp = sroce_counter_unbind_qp,
	.counter_update_stats = sroce_counter_update_stats,
	.create_ah = sroce_create_ah,
	.create_cq = sroce_create_cq,
	.create_flow = sroce_create_flow,
	.create_qp = sroce_create_qp,
	.create_rwq_ind_table = sroce_create_rwq_ind_table,
	.create_srq = sroce_create_srq,
	.create_user_ah = sroce_create_ah,
	.create_wq = sroce_create_wq,
	.dealloc_dm = sroce_dealloc_dm,
	.dealloc_driver = sroce_dealloc_driver,
	.dealloc_mw = sroce_dealloc_mw,
	.dealloc_pd = sroce_dealloc_pd,
	.dealloc_ucontext = sroce_dealloc_ucontext,
	.dealloc_xrcd = sroce_dealloc_xrcd,
	.del_gid = sroce_del_gid,
	.dereg_mr = sroce_dereg_mr,
	.destroy_ah = sroce_destroy_ah,
	.destroy_cq = sroce_destroy_cq,
	.destroy_flow = sroce_destroy_flow,
	.destroy_qp = sroce_destroy_qp,
	.destroy_rwq_ind_table = sroce_destroy_rwq_ind_table,
	.destroy_wq = sroce_destroy_wq,
	.destroy_srq = sroce_destroy_srq,
	.detach_mcast = sroce_detach_mcast,
	.disassociate_ucontext = sroce_disassociate_ucontext,
	.enable_driver = sroce_enable_driver,
	.fill_res_cq_entry = sroce_fill_res_cq,
	.fill_res_mr_entry = sroce_fill_res_mr,
	.fill_res_qp_entry = sroce_fill_res_qp,
	.get_dev_fw_str = sroce_get_dev_fw_str,
	.get_dma_mr = sroce_get_dma_mr,
	.get_hw_stats = sroce_get_hw_stats,
	.get_link_layer = sroce_get_link_layer,
	SROCE_GET_NETDEV_OP
	.get_port_immutable = sroce_get_port_immutable,
	.map_mr_sg = sroce_map_mr_sg,
	.mmap = sroce_mmap,
	.mmap_free = sroce_mmap_free,
	.modify_cq = sroce_modify_cq,
	.modify_device = sroce_modify_device,
	.modify_qp = sroce_modify_qp,
	.modify_srq = sroce_modify_srq,
	.modify_wq = sroce_modify_wq,
	.poll_cq = sroce_poll_cq,
	.post_recv = sroce_post_recv,
	.post_send = sroce_post_send,
	.post_srq_recv = sroce_post_srq_recv,
	.process_mad = sroce_process_mad,
	.query_ah = sroce_query_ah,
	.query_device = sroce_query_device,
	.query_pkey = sroce_query_pkey,
	.query_port = sroce_query_port,
	.query_qp = sroce_query_qp,
	.query_srq = sroce_query_srq,
	.query_ucontext = sroce_query_ucontext,
	.reg_dm_mr = sroce_reg_dm_mr,
	.reg_user_mr = sroce_reg_user_mr,
	.reg_user_mr_dmabuf = sroce_reg_user_mr_dmabuf,
	.req_notify_cq = sroce_req_notify_cq,
	.rereg_user_mr = sroce_rereg_user_mr,
	.SROCE_RESIZE_CQ_OP = sroce_resize_cq,

	INIT_RDMA_OBJ_SIZE(ib_ah, sroce_ah, ibah),
	INIT_RDMA_OBJ_SIZE(ib_cq, sroce_cq, ibcq),
	INIT_RDMA_OBJ_SIZE(ib_mw, sroce_mw, ibmw),
	INIT_RDMA_OBJ_SIZE(ib_pd, sroce_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_qp, sroce_qp, ibqp),
	.size_ib_rwq_ind_table = sizeof(struct ib_rwq_ind_table),
	INIT_RDMA_OBJ_SIZE(ib_srq, sroce_srq, ibsrq),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, sroce_ucontext, ibuc),
	INIT_RDMA_OBJ_SIZE(ib_xrcd, sroce_xrcd, ibxrcd),
	SROCE_COUNTER_OBJ
	SROCE_PORT_EVENT
	SROCE_PORT_SPEED
	SROCE_ROBUST_UDATA
	SROCE_RES_SRQ
};
