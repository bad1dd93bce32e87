/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The only place that knows kernel versions: the rest is written for the
 * newest kernel, and what older ones lack or name otherwise stands here.
 */
#ifndef SROCE_COMPAT_H
#define SROCE_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/skbuff.h>
#include <linux/timer.h>
#include <linux/version.h>
#include <net/dst.h>
#include <net/flow.h>
#include <net/inet_dscp.h>
#include <net/ip6_fib.h>
#include <net/ipv6.h>
#include <net/udp_tunnel.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

/* a part of rdma/ib_umem.h until then, see the Makefile */
#ifdef SROCE_RDMA_ITER
#include <rdma/iter.h>
#endif

#ifndef VM_SHADOW_STACK
#define VM_SHADOW_STACK VM_NONE
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
#include <linux/netdevice.h>
#else
#include <net/gso.h>
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
#include <asm/unaligned.h>
#else
#include <linux/unaligned.h>
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
/* bottom halves exclude each other on a CPU, with PREEMPT_RT as well */
#define local_lock_nested_bh(lock)	((void)(lock))
#define local_unlock_nested_bh(lock)	((void)(lock))
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
static inline bool skb_frags_readable(const struct sk_buff *skb)
{
	return true;
}
#endif

/* 6.17 has it: every device was made in the first namespace until then */
#ifndef ib_alloc_device_with_net
#define ib_alloc_device_with_net(drv_struct, member, net) \
	((void)(net), ib_alloc_device(drv_struct, member))
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
/* udev could not be told */
static inline void ib_mark_name_assigned_by_user(struct ib_device *ibdev)
{
}
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
/* there, but the core's own */
static inline struct net_device *sroce_get_netdev(struct ib_device *ibdev, u32 port)
{
	struct net_device *ndev;

	rcu_read_lock();
	ndev = rcu_dereference(ibdev->port_data[port].netdev);
	/* a bit-field, as it may be there, has no READ_ONCE() */
	if (ndev && ndev->reg_state == NETREG_REGISTERED)
		dev_hold(ndev);
	else
		ndev = NULL;
	rcu_read_unlock();
	return ndev;
}
#define ib_device_get_netdev(ibdev, port) sroce_get_netdev(ibdev, port)
/* SMC asks the driver there, and takes no notice of a device without */
#define SROCE_GET_NETDEV_OP .get_netdev = sroce_get_netdev,
#else
#define SROCE_GET_NETDEV_OP
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 17, 0)
/* renamed when it became RCU-protected; exists in some stable series too */
#define sroce_dst_dev(dst) READ_ONCE((dst)->dev)
#else
#define sroce_dst_dev(dst) dst_dev(dst)
#endif

static inline void sroce_flowi4_set_tos(struct flowi4 *fl4, u8 tos)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 18, 0)
	fl4->flowi4_tos = tos & INET_DSCP_MASK;
#else
	fl4->flowi4_dscp = inet_dsfield_to_dscp(tos);
#endif
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 2, 0)
#include <net/ipv6_stubs.h>

/* IPv6 was a module that others reached through stubs. */
#define sroce_ip6_dst_lookup(net, fl6) \
	ipv6_stub->ipv6_dst_lookup_flow(net, NULL, fl6, NULL)
#define ib_umem_get_va(device, addr, size, access) \
	ib_umem_get(device, addr, size, access)
#else
#define sroce_ip6_dst_lookup(net, fl6) \
	ip6_dst_lookup_flow(net, NULL, fl6, NULL)
#endif

/* 6.10 has it, and so have later ones of stable kernels */
#ifndef dst_rt6_info
#define dst_rt6_info(entry) container_of(entry, struct rt6_info, dst)
#endif

/*
 * Both were given the socket, and are given its sock now. Ubuntu has changed the first alone, in
 * the midst of its 7.0, and a version does not tell: the prototypes do, one by one.
 */
#define sroce_setup_tunnel_sock(net, sock, cfg)						\
	setup_udp_tunnel_sock(net, _Generic(&setup_udp_tunnel_sock,			\
		void (*)(struct net *, struct socket *, struct udp_tunnel_sock_cfg *): (sock), \
		default: (sock)->sk), cfg)
#define sroce_tunnel_sock_release(sock)							\
	udp_tunnel_sock_release(_Generic(&udp_tunnel_sock_release,			\
		void (*)(struct socket *): (sock), default: (sock)->sk))

/* Conntrack's hooks had no confirm(), and so its module is needed where there is one. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 81) ||	\
	(LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0) &&	\
	 LINUX_VERSION_CODE < KERNEL_VERSION(6, 6, 21)) ||	\
	(LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0) &&	\
	 LINUX_VERSION_CODE < KERNEL_VERSION(6, 7, 9))
#include <net/netfilter/nf_conntrack_core.h>

#define sroce_confirm_conntrack(hook, skb) nf_conntrack_confirm(skb)
#else
#define sroce_confirm_conntrack(hook, skb) (hook)->confirm(skb)
#endif

/* FLUSH came with its access rights; without them nobody can be allowed it. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
#define SROCE_ACCESS_FLUSH 0
#define SROCE_ACCESS_PERSIST 0
#define SROCE_CAP_A19 0
#define SROCE_ODP_A19 0
#else
#define SROCE_ACCESS_FLUSH IB_ACCESS_FLUSH_GLOBAL
#define SROCE_ACCESS_PERSIST IB_ACCESS_FLUSH_PERSISTENT
/* Annex A19, Memory Placement Extensions */
#define SROCE_CAP_A19 (IB_DEVICE_FLUSH_GLOBAL | IB_DEVICE_ATOMIC_WRITE)
/* IB_ODP_SUPPORT_FLUSH and _ATOMIC_WRITE, whose names came later; programs see the bits */
#define SROCE_ODP_A19 (BIT(6) | BIT(7))
#endif

/* The carry-less CRC-32 was reached through the crypto API alone. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0)
#define SROCE_CRC32_SHASH
#endif

/* The core raises a port's events for drivers that have no such operation. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0)
#define SROCE_PORT_EVENT
#else
#define SROCE_PORT_EVENT .report_port_event = sroce_port_event,
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
static inline void vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags |= flags;
}
#endif

/* create_cq() was given the udata, and is given the attributes now. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
#define SROCE_CQ_ATTRS struct ib_udata
#define sroce_cq_udata(attrs) (attrs)
#else
#define SROCE_CQ_ATTRS struct uverbs_attr_bundle
#define sroce_cq_udata(attrs) ((attrs) ? &(attrs)->driver_udata : NULL)
#endif

/* Counters of queue pairs: the core's is a part of the driver's, by port. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 15, 0)
#define SROCE_COUNTER_PORT
#define SROCE_COUNTER_OBJ
#else
struct sroce_rdma_counter {
	struct rdma_counter counter;
};

static inline void sroce_counter_init(struct rdma_counter *counter)
{
}

#define SROCE_COUNTER_PORT , u32 port
#define SROCE_COUNTER_OBJ						\
	.counter_init = sroce_counter_init,				\
	INIT_RDMA_OBJ_SIZE(rdma_counter, sroce_rdma_counter, counter),
#endif

/* A driver's own attributes of shared receive queues */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 7, 0)
#define SROCE_RES_SRQ
#else
#define SROCE_RES_SRQ .fill_res_srq_entry = sroce_fill_res_srq,
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 84)
#define timer_delete_sync del_timer_sync
#endif

/* The speed of a port, of which query_port says no more than speed and width of lanes */
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
#define SROCE_PORT_SPEED
#define SROCE_EVENT_SPEED 0
#else
#define SROCE_PORT_SPEED .query_port_speed = sroce_query_port_speed,
#define SROCE_EVENT_SPEED IB_EVENT_DEVICE_SPEED_CHANGE
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 1, 0)
#define SROCE_RESIZE_CQ_OP resize_cq
/* there is a call for it in the kernel, too: ib_resize_cq() */
#define SROCE_RESIZE_CQ_KERNEL
#define SROCE_RESIZE_CQ_CQE int
#else
#define SROCE_RESIZE_CQ_OP resize_user_cq
#define SROCE_RESIZE_CQ_CQE unsigned int
#endif

/* reg_user_mr() has an argument more for memory placement hints. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 17, 0)
#define SROCE_REG_MR_DMAH
#define SROCE_REG_MR_HAS_DMAH false
#else
#define SROCE_REG_MR_DMAH struct ib_dmah *dmah,
#define SROCE_REG_MR_HAS_DMAH (dmah != NULL)
#endif

/* reg_user_mr_dmabuf() was given the udata, and is given the attributes now. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
#define SROCE_DMABUF_ATTRS struct ib_udata
#define sroce_dmabuf_udata(attrs) (attrs)
#else
#define SROCE_DMABUF_ATTRS struct uverbs_attr_bundle
#define sroce_dmabuf_udata(attrs) (&(attrs)->driver_udata)
#endif

/* Programs can ask whether longer requests and responses are handled as struct ib_udata has it. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 2, 0)
#define SROCE_ROBUST_UDATA
#else
#define SROCE_ROBUST_UDATA .uverbs_robust_udata = true,
#endif

/* Callers of the plain functions have the reservation lock since then. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
#define dma_buf_vmap_unlocked(dmabuf, map) dma_buf_vmap(dmabuf, map)
#define dma_buf_vunmap_unlocked(dmabuf, map) dma_buf_vunmap(dmabuf, map)
#endif

/*
 * Who pins a buffer had to say what is done when it moves all the same, and now says by that
 * that it need not stay. The function's name in the structure has changed in between.
 */
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 2, 0)
#define SROCE_DMABUF_PINNED(moved) { false, (moved) }
#else
#define SROCE_DMABUF_PINNED(moved) {}
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#define SROCE_NS_DMA_BUF DMA_BUF
#else
#define SROCE_NS_DMA_BUF "DMA_BUF"
#endif

#endif /* SROCE_COMPAT_H */
