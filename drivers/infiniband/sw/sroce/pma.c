// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Performance management: the port's counters in IBTA's form, Vol. 1 16.1. */
#include <linux/netdevice.h>
#include <rdma/ib_pma.h>

#include "sroce.h"

#define PMA_VERSION	1
/* 4.096 us << 18: within a second there is an answer */
#define PMA_RESP_TIME	18
#define PMA_ALL_PORTS	0xff

static_assert(sizeof(struct ib_pma_mad) == IB_MGMT_MAD_SIZE);

/* A counter as it stands in an attribute: behind PortSelect and CounterSelect */
struct pma_field {
	enum sroce_pma_counter counter;
	u8 offset;
	u8 size;
	__be16 select;
};

#define PMA_FIELD(type, member, bit, id)					\
	{ SROCE_PMA_##id, offsetof(struct type, member), sizeof_field(struct type, member), bit }

/* What is not here is never other than 0: what only InfiniBand's links and switches have. */
static const struct pma_field port_counters[] = {
	PMA_FIELD(ib_pma_portcounters, link_downed_counter, IB_PMA_SEL_LINK_DOWNED, LINK_DOWNED),
	PMA_FIELD(ib_pma_portcounters, port_rcv_errors, IB_PMA_SEL_PORT_RCV_ERRORS, RCV_ERRORS),
	PMA_FIELD(ib_pma_portcounters, port_xmit_discards, IB_PMA_SEL_PORT_XMIT_DISCARDS,
		  XMIT_DISCARDS),
	PMA_FIELD(ib_pma_portcounters, port_xmit_data, IB_PMA_SEL_PORT_XMIT_DATA, XMIT_DATA),
	PMA_FIELD(ib_pma_portcounters, port_rcv_data, IB_PMA_SEL_PORT_RCV_DATA, RCV_DATA),
	PMA_FIELD(ib_pma_portcounters, port_xmit_packets, IB_PMA_SEL_PORT_XMIT_PACKETS, XMIT_PKTS),
	PMA_FIELD(ib_pma_portcounters, port_rcv_packets, IB_PMA_SEL_PORT_RCV_PACKETS, RCV_PKTS),
};

#define PMA_FIELD_EXT(member, bit, id)	PMA_FIELD(ib_pma_portcounters_ext, member, bit, id)

static const struct pma_field port_counters_ext[] = {
	PMA_FIELD_EXT(port_xmit_data, IB_PMA_SELX_PORT_XMIT_DATA, XMIT_DATA),
	PMA_FIELD_EXT(port_rcv_data, IB_PMA_SELX_PORT_RCV_DATA, RCV_DATA),
	PMA_FIELD_EXT(port_xmit_packets, IB_PMA_SELX_PORT_XMIT_PACKETS, XMIT_PKTS),
	PMA_FIELD_EXT(port_rcv_packets, IB_PMA_SELX_PORT_RCV_PACKETS, RCV_PKTS),
	PMA_FIELD_EXT(port_unicast_xmit_packets, IB_PMA_SELX_PORT_UNI_XMIT_PACKETS, UNI_XMIT_PKTS),
	PMA_FIELD_EXT(port_unicast_rcv_packets, IB_PMA_SELX_PORT_UNI_RCV_PACKETS, UNI_RCV_PKTS),
	PMA_FIELD_EXT(port_multicast_xmit_packets, IB_PMA_SELX_PORT_MULTI_XMIT_PACKETS,
		      MULTI_XMIT_PKTS),
	PMA_FIELD_EXT(port_multicast_rcv_packets, IB_PMA_SELX_PORT_MULTI_RCV_PACKETS,
		      MULTI_RCV_PKTS),
};

/* Both begin alike. */
static_assert(offsetof(struct ib_pma_portcounters, port_select) ==
	      offsetof(struct ib_pma_portcounters_ext, port_select));
static_assert(offsetof(struct ib_pma_portcounters, counter_select) ==
	      offsetof(struct ib_pma_portcounters_ext, counter_select));

struct pma_attr {
	__be16 id;
	const struct pma_field *fields;
	unsigned int num;
};

static const struct pma_attr pma_attrs[] = {
	{ IB_PMA_PORT_COUNTERS, port_counters, ARRAY_SIZE(port_counters) },
	{ IB_PMA_PORT_COUNTERS_EXT, port_counters_ext, ARRAY_SIZE(port_counters_ext) },
};

static u64 link_downed(struct ib_device *ibdev)
{
	struct net_device *ndev = ib_device_get_netdev(ibdev, 1);
	u64 downed;

	if (!ndev)
		return to_sdev(ibdev)->pma.base[SROCE_PMA_LINK_DOWNED];
	downed = atomic_read(&ndev->carrier_down_count);
	dev_put(ndev);
	return downed;
}

/* All that was counted since the link was made; data in units of four bytes, 16.1.3.5. */
static void read_counters(struct sroce_dev *sdev, u64 *now)
{
#define SUM(id) sroce_stats_sum(sdev->stats, SROCE_CNT_##id)
	now[SROCE_PMA_XMIT_DATA] = SUM(PORT_XMIT_BYTES) / 4;
	now[SROCE_PMA_RCV_DATA] = SUM(PORT_RCV_BYTES) / 4;
	now[SROCE_PMA_UNI_XMIT_PKTS] = SUM(PORT_UNI_XMIT);
	now[SROCE_PMA_UNI_RCV_PKTS] = SUM(PORT_UNI_RCV);
	now[SROCE_PMA_MULTI_XMIT_PKTS] = SUM(PORT_MULTI_XMIT);
	now[SROCE_PMA_MULTI_RCV_PKTS] = SUM(PORT_MULTI_RCV);
	now[SROCE_PMA_XMIT_PKTS] = now[SROCE_PMA_UNI_XMIT_PKTS] + now[SROCE_PMA_MULTI_XMIT_PKTS];
	now[SROCE_PMA_RCV_PKTS] = now[SROCE_PMA_UNI_RCV_PKTS] + now[SROCE_PMA_MULTI_RCV_PKTS];
	now[SROCE_PMA_RCV_ERRORS] = SUM(RX_MALFORMED) + SUM(RX_ICRC) + SUM(RX_CSUM);
	now[SROCE_PMA_XMIT_DISCARDS] = SUM(PORT_XMIT_DISCARDS);
	now[SROCE_PMA_LINK_DOWNED] = link_downed(&sdev->ibdev);
#undef SUM
}

static u64 field_get(const u8 *at, u8 size)
{
	u64 v = 0;

	while (size--)
		v = v << 8 | *at++;
	return v;
}

static void field_put(u8 *at, u8 size, u64 v)
{
	for (; size--; v >>= 8)
		at[size] = v;
}

/* A counter stops at the largest value that it has room for, 16.1.3.5. */
static u64 pma_max(u8 size)
{
	return GENMASK_ULL(size * BITS_PER_BYTE - 1, 0);
}

/*
 * Set() gives those that CounterSelect names the values that come with it. Nothing that
 * hw_counters shows changes, nor does what the packet path counts: what is told is the
 * distance from there.
 */
static void set_counters(struct sroce_dev *sdev, const struct pma_attr *attr, const u8 *data,
			 const u64 *now)
{
	const struct ib_pma_portcounters *head = (const void *)data;
	const struct pma_field *f;

	for (f = attr->fields; f < attr->fields + attr->num; f++)
		if (head->counter_select & f->select)
			sdev->pma.base[f->counter] =
				now[f->counter] - field_get(data + f->offset, f->size);
}

static void get_counters(struct sroce_dev *sdev, const struct pma_attr *attr, u8 *data,
			 const u64 *now)
{
	const struct pma_field *f;

	for (f = attr->fields; f < attr->fields + attr->num; f++)
		field_put(data + f->offset, f->size,
			  min(now[f->counter] - sdev->pma.base[f->counter], pma_max(f->size)));
}

static u16 do_counters(struct sroce_dev *sdev, const struct pma_attr *attr,
		       const struct ib_pma_mad *in, struct ib_pma_mad *out)
{
	const struct ib_pma_portcounters *asked = (const void *)in->data;
	struct ib_pma_portcounters *told = (void *)out->data;
	u64 now[SROCE_NUM_PMA];

	told->port_select = asked->port_select;
	told->counter_select = asked->counter_select;
	if (in->mad_hdr.attr_mod ||
	    (asked->port_select != 1 && asked->port_select != PMA_ALL_PORTS))
		return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;

	mutex_lock(&sdev->pma.lock);
	read_counters(sdev, now);
	if (in->mad_hdr.method == IB_MGMT_METHOD_SET)
		set_counters(sdev, attr, in->data, now);
	get_counters(sdev, attr, out->data, now);
	mutex_unlock(&sdev->pma.lock);
	return IB_MGMT_MAD_STATUS_SUCCESS;
}

/* There are no traps, so nothing in it can be set. */
static u16 do_class_port_info(const struct ib_pma_mad *in, struct ib_pma_mad *out)
{
	struct ib_class_port_info *info = (void *)out->data;

	if (in->mad_hdr.method != IB_MGMT_METHOD_GET)
		return IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB;
	info->base_version = IB_MGMT_BASE_VERSION;
	info->class_version = PMA_VERSION;
	info->capability_mask = IB_PMA_CLASS_CAP_ALLPORTSELECT | IB_PMA_CLASS_CAP_EXT_WIDTH;
	info->cap_mask2_resp_time = cpu_to_be32(PMA_RESP_TIME);
	return IB_MGMT_MAD_STATUS_SUCCESS;
}

/* Return: the status of the answer, 13.4.7. */
static u16 do_pma(struct sroce_dev *sdev, const struct ib_pma_mad *in, struct ib_pma_mad *out)
{
	const __be16 id = in->mad_hdr.attr_id;
	const struct pma_attr *attr;

	if (in->mad_hdr.class_version != PMA_VERSION)
		return IB_MGMT_MAD_STATUS_BAD_VERSION;
	if (in->mad_hdr.method != IB_MGMT_METHOD_GET && in->mad_hdr.method != IB_MGMT_METHOD_SET)
		return IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD;
	if (id == IB_PMA_CLASS_PORT_INFO)
		return do_class_port_info(in, out);
	for (attr = pma_attrs; attr < pma_attrs + ARRAY_SIZE(pma_attrs); attr++)
		if (attr->id == id)
			return do_counters(sdev, attr, in, out);
	return IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB;
}

/* Is it neither a response nor one of those that have none, 13.4.5? */
static bool wants_answer(u8 method)
{
	return !(method & IB_MGMT_METHOD_RESP) && method != IB_MGMT_METHOD_SEND &&
	       method != IB_MGMT_METHOD_TRAP && method != IB_MGMT_METHOD_TRAP_REPRESS;
}

/**
 * sroce_process_mad - ib_device_ops: the port's agent for performance management
 * @ibdev: the link's device
 * @flags: of keys, which the class has none of
 * @port: 1
 * @wc: how it came; NULL if it is from sysfs, whose counters/ are these
 * @grh: from where
 * @in: the MAD. All of it is a stranger's
 * @out: the answer, zeroed
 * @out_size: IB_MGMT_MAD_SIZE
 * @out_pkey_index: not for InfiniBand
 *
 * May sleep.
 *
 * Return: that @out is to be sent, or that @in is for somebody else.
 */
int sroce_process_mad(struct ib_device *ibdev, int flags, u32 port, const struct ib_wc *wc,
		      const struct ib_grh *grh, const struct ib_mad *in, struct ib_mad *out,
		      size_t *out_size, u16 *out_pkey_index)
{
	u16 status;

	if (in->mad_hdr.mgmt_class != IB_MGMT_CLASS_PERF_MGMT ||
	    !wants_answer(in->mad_hdr.method))
		return IB_MAD_RESULT_SUCCESS;
	out->mad_hdr = in->mad_hdr;
	out->mad_hdr.method = IB_MGMT_METHOD_GET_RESP;
	status = do_pma(to_sdev(ibdev), (const void *)in, (void *)out);
	out->mad_hdr.status = cpu_to_be16(status);
	return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
}

/**
 * sroce_pma_init - a link's counters begin at 0
 * @sdev: the link, new
 * @ndev: its netdev
 */
void sroce_pma_init(struct sroce_dev *sdev, const struct net_device *ndev)
{
	mutex_init(&sdev->pma.lock);
	sdev->pma.base[SROCE_PMA_LINK_DOWNED] = atomic_read(&ndev->carrier_down_count);
}
