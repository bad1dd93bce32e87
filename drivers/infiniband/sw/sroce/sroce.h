/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The module's objects, and what its files call of each other. Contexts and
 * locks: Documentation/architecture.rst.
 */
#ifndef SROCE_H
#define SROCE_H

#include <linux/completion.h>
#include <linux/hrtimer.h>
#include <linux/in6.h>
#include <linux/interrupt.h>
#include <linux/iosys-map.h>
#include <linux/mutex.h>
#include <linux/netfilter.h>
#include <linux/ratelimit.h>
#include <linux/rbtree.h>
#include <linux/refcount.h>
#include <linux/rhashtable-types.h>
#include <linux/skbuff.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_verbs.h>

#include <rdma/sroce-abi.h>

#include "compat.h"
#include "stats.h"
#include "wire/gaps.h"
#include "wire/parse.h"

/*
 * Limits. They are what query_device reports, and are kept.
 */
#define SROCE_MAX_QP		65536
#define SROCE_MAX_QP_WR		16384
#define SROCE_MAX_CQ		65536
#define SROCE_MAX_CQE		(1U << 22)
#define SROCE_MAX_MR		(1U << 20)
#define SROCE_MAX_MW		(1U << 20)
/* of a fast registration; 64 MiB of small ones */
#define SROCE_MAX_FAST_PAGES	16384
#define SROCE_MAX_DM		(64U << 20)
#define SROCE_MAX_PD		(1U << 20)
#define SROCE_MAX_AH		(1U << 20)
#define SROCE_MAX_SRQ		65536
#define SROCE_MAX_SRQ_WR	16384
#define SROCE_MAX_XRCD		65536
#define SROCE_MAX_MCAST_GRP	8192
/* each of up to 64 datagrams that GRO has joined goes to all of them, in one go: so few, as mlx5 has */
#define SROCE_MAX_MCAST_ATTACH	240
#define SROCE_MAX_UCONTEXT	65536
/* contexts with on-demand memory: each may keep 18 threads of the kernel waiting (late.c) */
#define SROCE_MAX_FAULTING	512
/* at a path MTU of 256, within half the range of PSNs */
#define SROCE_MAX_MSG		(1U << 30)
/* locally administered: nobody's OUI (IEEE 802) */
#define SROCE_VENDOR_ID		0x73726f
#define SROCE_MAX_FLOWS		4096
#define SROCE_MAX_WQ		65536
#define SROCE_MAX_IND_TBL	4096
#define SROCE_MAX_IND_TBL_SIZE	4096
/* what a program can say in eight bits */
#define SROCE_MAX_RD_ATOMIC	255

#define SROCE_ACCESS_SUPPORTED						\
	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |		\
	 IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC |		\
	 IB_ACCESS_MW_BIND | IB_ZERO_BASED | IB_ACCESS_HUGETLB |	\
	 SROCE_ACCESS_FLUSH | SROCE_ACCESS_ODP | IB_ACCESS_OPTIONAL)

/*
 * To a dma-buf. Its exporter may map it uncached, and does not say so: there, of what we run on,
 * only x86 is known to have atomic operations.
 */
#define SROCE_ACCESS_DMABUF						\
	(SROCE_ACCESS_SUPPORTED & ~(IB_ACCESS_ON_DEMAND |		\
	 (IS_ENABLED(CONFIG_X86) ? 0 : IB_ACCESS_REMOTE_ATOMIC)))

struct dma_buf_attachment;
struct sroce_odp;
struct sroce_qpn;
struct sroce_tm;
struct sroce_window;

/**
 * struct sroce_piece - some of a region's bytes, where pieces are as long as they like
 * @addr: of the first in the kernel
 * @end: how many bytes of the region there are up to its last
 */
struct sroce_piece {
	unsigned long addr;
	u64 end;
};

/**
 * struct sroce_mem - the memory behind a region
 * @umem: pinned pages of a process, or NULL
 * @odp: pages of a process that come and go, or NULL
 * @attach: to another driver's buffer, or NULL
 * @map: where that is mapped
 * @start: address of the first byte in the process; @umem and @odp only
 * @offset: of the first byte in the first block
 * @block_shift: all blocks have this size
 * @block: their addresses in the kernel; NULL with @odp and @piece
 * @piece: what it is of in place of blocks, or NULL
 * @num: of @block or @piece; fast registration only
 */
struct sroce_mem {
	struct ib_umem *umem;
	struct sroce_odp *odp;
	struct dma_buf_attachment *attach;
	struct iosys_map map;
	u64 start;
	u64 offset;
	unsigned int block_shift;
	unsigned long *block;
	struct sroce_piece *piece;
	u32 num;
};

/* What a key stands for. */
enum sroce_mr_kind {
	SROCE_MR_REGION,
	SROCE_MR_WINDOW,
	SROCE_MR_FAST,		/* a region that work requests register */
	SROCE_MR_NULL,		/* SROCE_NULL_LKEY */
	SROCE_MR_DMA,		/* SROCE_LOCAL_DMA_LKEY */
};

/**
 * struct sroce_mr - what the data path knows of a memory region or window
 * @ref: the key table's, and one of each packet or burst that copies. A window
 *	that is not bound has none, nor has a fast region that is not registered
 * @idle: the last of @ref is gone; regions
 * @rcu: lookups go by RCU
 * @node: in the table of keys
 * @index: that part of its keys which never changes
 * @kind: never changes
 * @pd: protection domain
 * @num: the queue pair that alone may use it, or NULL; holds a reference
 * @key: lkey and rkey
 * @copying: who copies reads it, who revokes the key writes it: to sleep on, where it cannot spin
 * @access: IB_ACCESS_*
 * @iova: the address that names the first byte
 * @length: bytes
 * @mem: the memory; a window's is a part of its region's
 * @windows: that are bound to it; negative once there can be no more
 *
 * Nothing of it changes while somebody but the key table has a reference.
 */
struct sroce_mr {
	refcount_t ref;
	struct completion idle;
	struct rcu_head rcu;
	struct rhash_head node;
	u32 index;
	enum sroce_mr_kind kind;
	struct ib_pd *pd;
	struct sroce_qpn *num;
	u32 key;
#ifdef CONFIG_PREEMPT_RT
	rwlock_t copying;
#endif
	int access;
	u64 iova;
	u64 length;
	struct sroce_mem mem;
	atomic_t windows;
};

/**
 * struct sroce_region - a memory region
 * @ibmr: the core's
 * @mr: the data path's; registered again, it becomes another
 * @iova: what work requests use, where it is not zero-based
 */
struct sroce_region {
	struct ib_mr ibmr;
	struct sroce_mr *mr;
	u64 iova;
};

/**
 * struct sroce_mw - a memory window, as the core has it
 * @ibmw: the core's
 * @win: what it stands for (mw.c)
 */
struct sroce_mw {
	struct ib_mw ibmw;
	struct sroce_window *win;
};

/* Keys have an index of 1 at least: like SROCE_NULL_LKEY, it is nobody's. */
#define SROCE_LOCAL_DMA_LKEY	0x00000002

#define SROCE_MCAST_HASH_BITS	8

/**
 * struct sroce_flows - which frames a link takes from its netdev
 * @rules: in the order in which they are asked; written under RTNL, read by
 *	RCU
 * @num: of them; RTNL
 * @num_sniffers: of them, those that see all; RTNL
 * @ndev: where the hooks are, held; NULL where they are not. RTNL
 * @in: sees the frames that come in
 * @out: sees those that leave; there while there is a sniffer
 */
struct sroce_flows {
	struct list_head rules;
	u32 num;
	u32 num_sniffers;
	struct net_device *ndev;
	struct nf_hook_ops in;
	struct nf_hook_ops out;
};

/* Counters of performance management, IBTA Vol. 1 16.1.3.5 and 16.1.4.11 */
enum sroce_pma_counter {
	SROCE_PMA_XMIT_DATA,
	SROCE_PMA_RCV_DATA,
	SROCE_PMA_XMIT_PKTS,
	SROCE_PMA_RCV_PKTS,
	SROCE_PMA_UNI_XMIT_PKTS,
	SROCE_PMA_UNI_RCV_PKTS,
	SROCE_PMA_MULTI_XMIT_PKTS,
	SROCE_PMA_MULTI_RCV_PKTS,
	SROCE_PMA_RCV_ERRORS,
	SROCE_PMA_XMIT_DISCARDS,
	SROCE_PMA_LINK_DOWNED,
	SROCE_NUM_PMA,
};

/**
 * struct sroce_pma - what performance management has been told to begin from
 * @lock: of one Get() or Set() at a time
 * @base: what each counter had counted when it was 0, in the counter's own units
 */
struct sroce_pma {
	struct mutex lock;
	u64 base[SROCE_NUM_PMA];
};

/**
 * struct sroce_dev - a link
 * @ibdev: the core's device
 * @net: the namespace of its netdev, whose sockets it uses; NULL once given
 *	back. Protected by sroce_net_lock.
 * @net_entry: in @net's list
 * @ifindex: of its netdev in @net
 * @gsi_qpn: number of its GSI queue pair; 0 for none
 * @gids_work: looks for addresses that the core tells nobody of; has a reference
 * @port_up: as the last port event said; netdev events only
 * @gone: its netdev is being unregistered: nothing may be sent any more
 * @speed: of its netdev, in Mb/s
 * @port_work: asks for that, and the MTU, when the netdev has changed; has a reference
 * @stats: counters of each CPU
 * @keys: struct sroce_mr of regions and windows by the index part of their keys
 * @null_mr: what SROCE_NULL_LKEY stands for
 * @dma_mr: what SROCE_LOCAL_DMA_LKEY stands for, in domains of the kernel
 * @dm_pages: device memory that is allocated
 * @avs: address vectors by number
 * @av_next: where the search for a free number goes on
 * @srqs: struct sroce_srqn of XRC shared receive queues, by number
 * @srq_next: where the search for a free number goes on
 * @counters: struct sroce_qp_counter by the core's id
 * @mcast_lock: guards multicast groups; rtnl is taken under it
 * @mcasts: these, for RCU
 * @mcast_seed: of their hash
 * @num_mcast: how many there are
 * @mcast_ip: counts the netdev's IPv6, and its IPv4, as it may lose them; rtnl
 * @mcast_work: joins groups again; has a reference
 * @num_ucontext: user contexts
 * @num_faulting: of these, that have had on-demand memory
 * @num_pd: protection domains
 * @num_ah: address handles
 * @num_cq: completion queues
 * @num_qp: queue pairs
 * @num_mr: memory regions
 * @num_mw: memory windows
 * @num_srq: shared receive queues
 * @num_xrcd: XRC domains
 * @num_wq: work queues
 * @num_ind_tbl: indirection tables
 * @gids_known: what there was when the link was made or moved has been offered by the core
 * @refusals: of GIDs since, which the core says in the log
 * @kept_bytes: pinned by what queue pairs keep before its turn, or until its memory is there
 * @kept_work: looks for those that have aged
 * @flows: flow steering
 * @pma: performance management
 */
struct sroce_dev {
	struct ib_device ibdev;
	struct net *net;
	struct list_head net_entry;
	int ifindex;
	u32 gsi_qpn;
	struct work_struct gids_work;
	bool port_up;
	bool gone;
	u32 speed;
	struct work_struct port_work;
	struct sroce_stats __percpu *stats;
	struct rhashtable keys;
	struct sroce_mr null_mr;
	struct sroce_mr dma_mr;
	atomic_long_t dm_pages;
	struct xarray avs;
	u32 av_next;
	struct xarray srqs;
	u32 srq_next;
	struct xarray counters;
	struct mutex mcast_lock;
	struct hlist_head mcasts[1 << SROCE_MCAST_HASH_BITS];
	u32 mcast_seed;
	u32 num_mcast;
	u32 mcast_ip[2];
	struct work_struct mcast_work;
	atomic_t num_ucontext;
	atomic_t num_faulting;
	atomic_t num_pd;
	atomic_t num_ah;
	atomic_t num_cq;
	atomic_t num_qp;
	atomic_t num_mr;
	atomic_t num_mw;
	atomic_t num_srq;
	atomic_t num_xrcd;
	atomic_t num_wq;
	atomic_t num_ind_tbl;
	bool gids_known;
	struct ratelimit_state refusals;
	atomic_long_t kept_bytes;
	struct delayed_work kept_work;
	struct sroce_flows flows;
	struct sroce_pma pma;
};

/* Doorbells in a row that make a stream */
#define SROCE_STREAM_MIN	4

/* How many more it takes where lingering was in vain: twice as many each time */
#define SROCE_STREAM_PENALTY	8
#define SROCE_STREAM_MAX_VAIN	5

/* Between two doorbells of a stream, from the end of one to the next */
#define SROCE_STREAM_GAP_NS	(100LL * NSEC_PER_USEC)

/* Of a lane of IB_SPEED_SDR, which is what query_port says of a netdev that says nothing: in Mb/s */
#define SROCE_LANE_SPEED	2500

/**
 * struct sroce_stream - does a program post without waiting for anything? (doorbell.c, bells.c)
 * @rung: when the last doorbell was done with
 * @streak: doorbells in a row by a program that does
 * @vain: how often in a row a stream was none
 * @lingers: the program was told that it may put doorbells off
 */
struct sroce_stream {
	ktime_t rung;
	s16 streak;
	u8 vain;
	bool lingers;
};

/**
 * struct sroce_pd - a protection domain
 * @ibpd: the core's
 * @uctx: whose it is; NULL for a kernel consumer
 */
struct sroce_pd {
	struct ib_pd ibpd;
	struct sroce_ucontext *uctx;
};

struct sroce_ah {
	struct ib_ah ibah;
	struct sroce_av *av;
};

struct sroce_xrcd {
	struct ib_xrcd ibxrcd;
};

/**
 * struct sroce_mapping - memory of a ring, or of a device's, and the key to its mapping
 * @rdma_entry: the core's; mmap() holds a reference while it works
 * @addr: the memory, from __vmalloc()
 */
struct sroce_mapping {
	struct rdma_user_mmap_entry rdma_entry;
	void *addr;
};

/**
 * struct sroce_queue - the kernel's view of a ring
 * @ring: its header, written by both sides
 * @entries: what lies behind it
 * @mask: number of entries - 1
 * @entry_size: bytes, a power of two
 * @mapping: what the process maps; freed with its last user. NULL for a
 *	kernel consumer
 */
struct sroce_queue {
	struct sroce_ring *ring;
	void *entries;
	u32 mask;
	u32 entry_size;
	struct sroce_mapping *mapping;
};

/* sroce_task.state */
#define SROCE_TASK_QUEUED	1	/* it will run, from its beginning */
#define SROCE_TASK_RUNS		2

/**
 * struct sroce_task - what is left to do when a caller has done its share
 * @run: does it
 * @entry: in @on's list
 * @on: what is to be done on a CPU, while it is in that list; changes under the list's lock
 * @state: SROCE_TASK_QUEUED, SROCE_TASK_RUNS
 */
struct sroce_task {
	void (*run)(struct sroce_task *task);
	struct list_head entry;
	struct sroce_tasks *on;
	atomic_t state;
};

/**
 * struct sroce_bells - the doorbells of a context: a ring of queue pair numbers
 * @q: the ring; with SROCE_RING_LINGER the program puts doorbells off
 * @task: sees to what is in it, when the program does not
 * @timer: when that is
 * @ringing: calls that are seeing to it right now
 * @lock: for what follows
 * @cons: the kernel's own index: what stands in the ring is for show
 * @ends: the context goes
 * @late: the timer has fired: for @task to judge
 * @stream: while it lingers, the timer runs, or @task starts it
 * @doubts: how often in a row the program neither came by nor polled
 * @due: until when the program may put doorbells off
 * @qpn: queue pair that was rung for last
 * @awaited: who polled in vain last was waiting for an acknowledgement
 */
struct sroce_bells {
	struct sroce_queue q;
	struct sroce_task task;
	struct hrtimer timer;
	atomic_t ringing;
	spinlock_t lock;
	u32 cons;
	bool ends;
	bool late;
	u8 doubts;
	struct sroce_stream stream;
	ktime_t due;
	u32 qpn;
	bool awaited;
};

/**
 * struct sroce_ucontext - a program that has opened the device
 * @ibuc: the core's
 * @bells: the ring of queue pairs that it has posted to
 * @faults: what brings its on-demand memory; NULL if it has not got any
 * @prefetches: and what brings it before it is asked for
 */
struct sroce_ucontext {
	struct ib_ucontext ibuc;
	struct sroce_bells bells;
	struct workqueue_struct *faults;
	struct workqueue_struct *prefetches;
};

/**
 * struct sroce_cq - a completion queue
 * @ibcq: the core's
 * @ibuc: the context that maps its ring; NULL for a kernel consumer
 * @stamps: SROCE_CQ_*
 * @resize: keeps @q the same ring; taken before @lock
 * @lock: one producer at a time; taken last of all locks. Guards what follows
 * @q: the ring
 * @prod: the kernel's own index: what stands in the ring is for show
 * @overflown: an entry was lost; nothing more is added (IBTA Vol.1 11.6.3.3)
 * @polled: what the program had taken when it rang last
 * @solicited: index behind the latest completion that was solicited, or an error, or may be
 * @missed_events: those that were raised by sroce_cq_missed()
 * @mod_count: an event waits for so many completions; 0 for no number
 * @mod_period: or until the first of them is so many microseconds old; 0 for
 *	no time
 * @moderated: completions that an event waits with
 * @mod_timer: when it waits no longer
 * @events: kernel consumers: completion events due or being delivered
 * @poll_lock: kernel consumers: one poller at a time; any context
 */
struct sroce_cq {
	struct ib_cq ibcq;
	struct ib_ucontext *ibuc;
	u32 stamps;
	struct mutex resize;
	spinlock_t lock;
	struct sroce_queue q;
	u32 prod;
	bool overflown;
	u32 polled;
	u32 solicited;
	u32 missed_events;
	u16 mod_count;
	u16 mod_period;
	u32 moderated;
	struct hrtimer mod_timer;
	atomic_t events;
	spinlock_t poll_lock;
};

/**
 * struct sroce_srqn - what the number of an XRC shared receive queue stands for
 * @users: keep @srq usable: its own, and one of everybody who looked it up
 * @idle: the last of @users is gone
 * @rcu: lookups go by RCU, and the core frees the queue at once
 * @srq: the queue
 * @num: the number, 24 bits
 */
struct sroce_srqn {
	refcount_t users;
	struct completion idle;
	struct rcu_head rcu;
	struct sroce_srq *srq;
	u32 num;
};

/**
 * struct sroce_srq - a shared receive queue
 * @ibsrq: the core's
 * @ibuc: the context that maps its ring; NULL for a kernel consumer
 * @num: of an XRC queue, else NULL
 * @srqn: its number, @num->num: here as every message needs it; 0 for none
 * @max_sge: entries of a receive request
 * @resize: one ring at a time takes the place of another
 * @lock: guards all that follows; taken under a queue pair's receive lock
 * @q: the ring
 * @cons: next entry to be taken from the ring
 * @limit: fewer requests than that raise IB_EVENT_SRQ_LIMIT_REACHED once;
 *	0: not armed
 * @broken: the ring's indices made no sense: it is not looked at again
 * @post_lock: kernel consumers: one producer at a time; any context
 * @tm: its tags, or NULL
 */
struct sroce_srq {
	struct ib_srq ibsrq;
	struct ib_ucontext *ibuc;
	struct sroce_srqn *num;
	u32 srqn;
	u8 max_sge;
	struct mutex resize;
	spinlock_t lock;
	struct sroce_queue q;
	u32 cons;
	u32 limit;
	bool broken;
	spinlock_t post_lock;
	struct sroce_tm *tm;
};

/**
 * struct sroce_path - the way to a peer, as one side of a queue pair uses it
 * @net: namespace
 * @dst: cached route, checked at each use
 * @dst_cookie: for that check
 * @oif: interface to leave by
 * @flow_label: IPv6
 * @sport: UDP source port: one flow to routers, NICs and GRO
 * @ip_id: the next packet's IPv4 identification; it is in the ICRC
 * @tclass: traffic class or TOS
 * @priority: of skbs, for queues of this host
 * @hop_limit: hop limit or TTL
 * @ipv6: IPv6, else IPv4
 * @saddr: own address (the first word of it for IPv4)
 * @daddr: the peer's
 *
 * Of IPv4, all that is used is in 56 bytes.
 */
struct sroce_path {
	struct net *net;
	struct dst_entry *dst;
	u32 dst_cookie;
	int oif;
	__be32 flow_label;
	__be16 sport;
	u16 ip_id;
	u8 tclass;
	u8 priority;
	u8 hop_limit;
	bool ipv6;
	union {
		struct in6_addr in6;
		__be32 in4;
	} saddr, daddr;
};

/**
 * struct sroce_av - an address vector: what a number of an address handle
 *	stands for
 * @ref: the handle's, and one of everybody who writes packets by it
 * @rcu: lookups go by RCU
 * @pd: who may use it; for comparison only
 * @num: the number
 * @lock: guards @path; under it, sroce_dev.gone is looked at before a route
 *	is looked up
 * @path: to the peer
 * @attr: as set
 */
struct sroce_av {
	refcount_t ref;
	struct rcu_head rcu;
	struct ib_pd *pd;
	u32 num;
	spinlock_t lock;
	struct sroce_path path;
	struct rdma_ah_attr attr;
};

/**
 * struct sroce_qpn - what a queue pair's number stands for
 * @ref: keeps this; one of each skb that the stack holds for the queue pair
 * @users: keeps @qp usable: its own, and one of everybody who looked it up
 * @qp: the queue pair; valid for who holds one of @users
 * @qpn: the number
 * @tx_skbs: handed to the stack and not yet released
 * @resp_skbs: of these, the responder's
 * @tx_cpu: one more than the CPU whose transmit queue they are in
 * @ringer: thread that rang last, or made it; 0 for the kernel's
 * @idle: the last of @users is gone
 * @rcu: lookups go by RCU
 *
 * A line of the cache has what each packet looks at: with thousands of queue pairs each line
 * is waited for.
 *
 * Apart from struct sroce_qp because the core frees that one as soon as
 * destroy_qp() returns, while an skb may lie in a qdisc for as long as it
 * likes.
 */
struct sroce_qpn {
	refcount_t ref;
	refcount_t users;
	struct sroce_qp *qp;
	u32 qpn;
	atomic_t tx_skbs;
	atomic_t resp_skbs;
	pid_t ringer;
	u32 tx_cpu;
	struct completion idle;
	struct rcu_head rcu;
} ____cacheline_aligned;

/**
 * struct sroce_swqe - what the requester knows of a send request
 * @first_psn: of its first packet, once @sent
 * @num_pkts: PSNs that it takes: packets, those of a READ's response; none for
 *	what is done here
 * @length: bytes of its message
 * @num_blocks: of the ring
 * @part: of a READ: it is asked for by requests of 2 ^ @part packets each, the last of fewer
 * @sent: its first packet has left, its PSNs are taken; of a READ in parts, some of those are
 *	still to be sent, from @psn_end of the send side on
 * @answered: all that it asked for has come: READ, ATOMIC and their kin
 * @status: enum ib_wc_status; other than success, it fails when all before
 *	it are complete
 */
struct sroce_swqe {
	u32 first_psn;
	u32 num_pkts;
	u32 length;
	u8 num_blocks;
	u8 part;
	u8 sent:1;
	u8 answered:1;
	u8 status;
};

/* More packets than any response has: it is asked for as a whole */
#define SROCE_PART_ALL		31U

/**
 * struct sroce_rx_pos - a place in a received skb
 * @skb: the skb, or the one of its fragment list
 * @frag: page fragment; -1 for the linear part
 * @listed: @skb is one of a fragment list
 * @data: the bytes there
 * @left: how many follow each other; then comes the next piece
 */
struct sroce_rx_pos {
	const struct sk_buff *skb;
	int frag;
	bool listed;
	const u8 *data;
	u32 left;
};

/**
 * struct sroce_rx - a packet that has come in
 * @pkt: its headers; valid by its ICRC
 * @skb: which it is in
 * @payload: where in @skb
 * @ipv6: IPv6, else IPv4
 * @vlan: of the address that it was sent to, if it is for a GSI queue pair;
 *	else SROCE_NO_VLAN
 */
struct sroce_rx {
	struct wire_pkt pkt;
	struct sk_buff *skb;
	struct sroce_rx_pos payload;
	bool ipv6;
	u16 vlan;
};

/* as the core says it, rdma_read_gid_l2_fields() */
#define SROCE_NO_VLAN		0xffff

/**
 * struct sroce_late - a packet that has to wait until it can be processed
 * @entry: in the list of a queue pair's side
 * @node: or, of the first packet of a run, in the tree of those that the side keeps
 * @next: then, the next packet of the run
 * @tail: of the first, the last packet of the run
 * @charge: bytes charged for this packet and for those of the same skb that follow it
 * @since: when it came, in jiffies
 * @rx: the packet; its skb is held, if it has one: headers are here
 */
struct sroce_late {
	union {
		struct list_head entry;
		struct {
			struct rb_node node;
			struct sroce_late *next;
			struct sroce_late *tail;
		};
	};
	u32 charge;
	u32 since;
	struct sroce_rx rx;
};

/**
 * struct sroce_held - a page that packets pin
 * @page: the page; NULL for none
 * @excess: bytes that are charged for it on top of its packets' skbs
 * @holder: packet that they are charged to
 */
struct sroce_held {
	struct page *page;
	u32 excess;
	struct sroce_late *holder;
};

/**
 * struct sroce_kept - packets that came before their turn
 * @held_page: that the data of the last one is in
 * @tree: runs of struct sroce_late, by the first one's PSN
 * @last: the first of the last run
 * @bytes: that they pin, and those of the side that wait for memory
 * @num: packets
 */
struct sroce_kept {
	struct sroce_held held_page;
	struct rb_root_cached tree;
	struct sroce_late *last;
	u32 bytes;
	u32 num;
};

/* Packets that may wait; one more is lost, and recovered as such. */
#define SROCE_MAX_LATE		2048

/**
 * struct sroce_fault - memory that a side needs paged in before it can go on
 * @active: from sroce_fault_start() until the side has taken @done's outcome
 * @err: outcome of the last paging, for the next try at the same address: 0 or an errno
 * @work: pages it in
 * @qp: the side's queue pair; its number is in use as long as @active
 * @done: called by @work with the outcome
 * @srq: held, where @pd is its
 * @pd: protection domain
 * @lkey: region
 * @addr: in terms of its iova
 * @len: bytes
 * @write: they are to be written
 */
struct sroce_fault {
	bool active;
	int err;
	struct work_struct work;
	struct sroce_qp *qp;
	void (*done)(struct sroce_qp *qp, int err);
	struct sroce_srq *srq;
	struct ib_pd *pd;
	u32 lkey;
	u64 addr;
	u64 len;
	bool write;
};

/*
 * Bytes that may be unacknowledged. Enough for 10 Gb/s over 200 us; little
 * enough that a receiver on the same CPU finds them in its cache.
 */
#define SROCE_SEND_WINDOW	(256U << 10)

/* Microseconds to sleep while others are at it: who ends a task, with PREEMPT_RT who changes a queue pair */
#define SROCE_TURN_US		50

/*
 * Bytes from the oldest packet that is missing on, what has arrived behind it included.
 * A window grows to half of that (pace.c).
 */
#define SROCE_WINDOW_MAX	(8U << 20)

/* Of a side of a queue pair that came before their turn; so far ahead is sent, too. */
#define SROCE_KEPT_MAX_PKTS	8192

/* Of these, taken with their region held: who revokes it, or moves its pages, spins until it is let go. */
#define SROCE_REGION_RUN	64U

/*
 * Nanoseconds until the next try where a local queue was full, or no page free: half a jiffy at
 * HZ=1000
 */
#define SROCE_BACKOFF_NS	(500 * NSEC_PER_USEC)

/* What a requester has seen of its peer's way with packets before their turn. */
enum sroce_peer {
	SROCE_PEER_UNKNOWN,
	SROCE_PEER_KEEPS,	/* acknowledges them when the gap is filled */
	SROCE_PEER_DROPS,	/* has to get them again */
};

/**
 * struct sroce_repair - a packet that is missing, and is sent again alone
 * @due: the next turn begins with that
 * @out: it has been sent, and nothing beyond @end was acknowledged since
 * @told: a NAK has asked for it; else it is a guess
 * @blind: of which nothing that came tells
 * @once: no probe, and it has not had to be sent once more since
 * @twice: nothing had come since it was sent before
 * @hold: nothing else is sent until there is an answer
 * @peer: enum sroce_peer
 * @reports: and it reports gaps, as far as is known
 * @vain: with SROCE_PEER_DROPS: times until that is looked at again
 * @probes: in a row
 * @backed_off: the next waits so often twice as long, until a time has been measured
 * @num: packets, of requests that are made of packets
 * @psn: the packet; with @due, only as long as it is psn_una
 * @probe_due: nothing was heard for so long that we ask; KTIME_MAX for never
 * @rest_due: the rest is sent if nothing more was heard; KTIME_MAX for never
 * @lossy: until when the network is taken for one that loses packets
 * @took: how long an answer took, in nanoseconds, smoothed; 0 before the first
 * @took_var: how far that is off, on the average
 * @sent: when it was
 * @end: the first behind what was sent, or, of a READ, asked for
 * @lacks: of a READ request that the peer has, packets that were missing of the response; else 0
 * @behind: and the first PSN that had not been sent before that
 */
struct sroce_repair {
	bool due;
	bool out;
	bool told;
	bool blind;
	bool once;
	bool twice;
	bool hold;
	u8 peer;
	bool reports;
	u8 vain;
	u8 probes;
	u8 backed_off;
	u8 num;
	u32 psn;
	ktime_t probe_due;
	ktime_t rest_due;
	ktime_t lossy;
	u64 took;
	u64 took_var;
	ktime_t sent;
	u32 end;
	u32 lacks;
	u32 behind;
};

/**
 * struct sroce_order - does the network reorder? (gaps.c)
 * @wait: nanoseconds that a packet may come later than others, before it is taken for lost
 * @again: packets sent again since that was looked at, as others came before them
 * @probed: those that were for other reasons, and whose peer may have had them
 * @twice: packets that came twice meanwhile
 * @since: when the first of @again was
 * @few: times in a row that those were few
 * @until: if they have not been many by then, @wait is shorter
 * @peer_twice: the peer's count of requests, as it was last heard
 */
struct sroce_order {
	u32 wait;
	u32 again;
	u32 probed;
	u32 twice;
	ktime_t since;
	u8 few;
	u16 peer_twice;
	ktime_t until;
};

/**
 * struct sroce_gap - packets of a window that are missing, in a row
 * @psn: the first
 * @num: how many
 * @done: with @due: so many of them have been, as the rate let no more leave, or the turn, or alone
 * @due: they are to be sent again
 * @held: they have not been: they may only be late
 * @told: and a NAK has asked for the first
 * @sent: else, when they last were; with @held, when that was seen
 * @behind: and the first PSN that had not been sent before that
 */
struct sroce_gap {
	u32 psn;
	u16 num;
	u16 done;
	bool due;
	bool held;
	bool told;
	u32 behind;
	ktime_t sent;
};

/**
 * struct sroce_sweep - all that is known to be missing (gaps.c)
 * @gap: by PSN
 * @request: one that the peer lacks, with responses missing before it
 * @due: some of it is to be sent again
 * @implied: responses tell of it: requests that have none have arrived
 * @num: gaps
 * @end: the packet behind all that reports have told of
 * @arrived: PSNs of what the peer has, behind a packet that it lacks
 * @spare: of these, that stand for no packet: a READ request is one
 * @newest: all that has come, of requests or responses, lies before this PSN
 * @came: of the responses that were asked for again, the last that has come
 * @came_sent: when it was asked for so; 0 for none
 */
struct sroce_sweep {
	struct sroce_gap gap[WIRE_GAPS_MAX];
	struct sroce_gap request;
	/* and this begins a line: see struct sroce_sq */
	bool due;
	bool implied;
	u32 num;
	u32 end;
	u32 arrived;
	u32 spare;
	u32 newest;
	u32 came;
	ktime_t came_sent;
};

/* A processor that was busy makes one of them long; a queue, all. */
#define SROCE_CWND_RTTS		4

/* After so many timeouts in a row, a round trip is taken as it comes */
#define SROCE_CWND_VAIN		2

/**
 * struct sroce_cwnd - packets that may be under way (pace.c)
 * @limit: less what is not a whole burst
 * @most: with those that have arrived behind one that is missing
 * @ask: after so many, an acknowledgement is asked for
 * @burst_arrived: the packet behind all that had arrived in the last turn
 * @ssthresh: twice as many each round trip up to here, then a few more
 * @rtt_arrived: the packet behind all that had arrived when the one that is timed
 *	left, but for those that were missing
 * @recover: losses of packets before this one have been heeded
 * @lost: packets since the last round trip was measured
 * @uncut: packets of the window before it was cut for the last time
 * @gone: and how many of those are known to be lost
 * @cut_psn: the oldest packet then
 * @undo_pkts: packets of the window before it was cut for what may only have been late; 0 for none
 * @undo_ssthresh: and @ssthresh
 * @num_rtt: how many were measured
 * @pkts: so many
 * @full: it has held packets back since the last round trip was measured
 * @sparing: a slow queue has overflowed lately: little leaves at a time
 * @timeouts: in a row; since then, no round trip was measured
 * @span_end: when a new one begins
 * @rtt_least: the shortest of this span of time, and of the one before
 * @rtt: the last round trips, in nanoseconds
 * @fits: packets that were delivered in each, as many as that is of the least
 * @cut: when the window was cut for the last time
 */
struct sroce_cwnd {
	u32 limit;
	u32 most;
	u32 ask;
	u32 burst_arrived;
	u32 ssthresh;
	u32 rtt_arrived;
	u32 recover;
	u32 lost;
	u32 uncut;
	u32 gone;
	u32 cut_psn;
	u32 undo_pkts;
	u32 undo_ssthresh;
	u32 num_rtt;
	u32 pkts;
	bool full;
	bool sparing;
	u8 timeouts;
	ktime_t span_end;
	u64 rtt_least[2];
	u64 rtt[SROCE_CWND_RTTS];
	u32 fits[SROCE_CWND_RTTS];
	ktime_t cut;
};

/**
 * struct sroce_pace - the rate at which a queue pair sends, once it was notified
 *	of congestion (DCQCN, pace.c), and that which its program has set
 * @lock: guards what follows, but for @cnp_sent_at
 * @paced: there is one of the two
 * @limited: there is the first
 * @rate: bytes a second, R_C there
 * @target: R_T: to recover to
 * @alpha: of 1 << 16: how much of its packets are marked
 * @alpha_at: when the last notification came
 * @raised: @rate was last raised for the time that went by; before that
 *	a cut has not been felt yet: there is no other, and time raises nothing
 * @times: so often since it was cut
 * @volumes: and so often for bytes that were sent
 * @bytes: since then
 * @next: when a packet may be sent
 * @cap: bytes a second, by the program (IB_QP_RATE_LIMIT): of requests alone; 0 for none
 * @cap_burst: bytes that may leave at once by that; 0 for those of QUANTUM_NS and CAP_CREDIT_NS
 * @cap_next: when a request's packet may be sent by that
 * @timer: fires when somebody who waits may send
 * @answered: the responder has sent last
 * @cnp_sent_at: when the peer was last notified, in nanoseconds; 0 for never
 */
struct sroce_pace {
	spinlock_t lock;
	bool paced;
	bool limited;
	u64 rate;
	u64 target;
	u32 alpha;
	ktime_t alpha_at;
	ktime_t raised;
	u32 times;
	u32 volumes;
	u64 bytes;
	ktime_t next;
	u64 cap;
	u32 cap_burst;
	ktime_t cap_next;
	struct hrtimer timer;
	bool answered;
	u64 cnp_sent_at;
};

/* What others ask of the owner of a send side: bits of sroce_sq.flags */
enum sroce_sq_flag {
	SROCE_SQ_OWNED,		/* somebody is at it */
	SROCE_SQ_WORK,		/* look again before you leave */
	SROCE_SQ_TIMER,		/* the timer has fired */
	SROCE_SQ_BLOCKED,	/* waits for the stack to release skbs */
	SROCE_SQ_FAULT,		/* memory has been paged in, or has not */
	SROCE_SQ_RANG,		/* the program has rung its doorbell */
	SROCE_SQ_RINGING,	/* and has not come back from that */
	SROCE_SQ_LATE,		/* it has not, for as long as it may */
};

/**
 * struct sroce_sq - the send side: requester and completer
 * @sweep: where it is known that more than one packet is missing
 * @flags: enum sroce_sq_flag. Who can't have SROCE_SQ_OWNED sets SROCE_SQ_WORK and goes
 * @una: oldest request that is not complete
 * @nxt: request to send next from; its packet is @psn_nxt
 * @fetched: next block to be fetched from the ring
 * @newest: the last that was fetched
 * @psn_una: oldest packet that is not acknowledged
 * @psn_nxt: packet to be sent next, older ones than @psn_end again
 * @psn_end: packet to be sent for the first time next
 * @psn_left: the packet behind all that the stack has taken: before @psn_end, if it refused some
 * @flight: request packets among those from @psn_una to @psn_nxt
 * @num_rd: requests on the wire that wait for data, READ, ATOMIC and kin; of no meaning in ERR
 * @unasked: packets since the last one that asked for an acknowledgement
 * @num_late: packets left for the owner
 * @retry_left: until IB_WC_RETRY_EXC_ERR
 * @rnr_left: until IB_WC_RNR_RETRY_EXC_ERR
 * @rnr_wait: the peer was not ready: nothing is sent before @deadline
 * @rnr_probe: one packet is sent, until it is acknowledged
 * @no_route: what is to be sent waits for one
 * @broken: the ring's indices made no sense: it is not looked at again
 * @drained: the event for this stay in SQD has been raised
 * @refusals: of the same packet, in a row, by what sends it
 * @deadline: of the retransmission or RNR timer; KTIME_MAX for none
 * @backoff: the device was full: try again at this time; KTIME_MAX for never
 * @timer_due: the first deadline of all, at the end of a turn: for the timer, which owns nothing
 * @nak_due: go back to @psn_una then, if it is still missing; KTIME_MAX for no
 * @repair: the packet that is missing, sent again alone before that
 * @srtt: smoothed round trip, in nanoseconds; 0 before the first
 * @rttvar: how far it is off, on the average (RFC 6298)
 * @rtt_start: when it left; 0 while none is timed
 * @rtt_psn: packet that is being timed
 * @rtt_held: something before it is missing, and with that its acknowledgement
 * @tagged: the requests are not the program's, but those of its tag matching queue
 * @missed: responses were dropped for @fault: they have to be asked for again
 * @asleep: the ring is empty, and who posts has to ring
 * @mr: the last region used in this turn, held
 * @linger_due: when the ring is to be looked at, if nobody has by then
 * @cwnd: how much may be under way
 * @stream: the doorbells of this queue pair; its rung is written by who has rung
 * @resumed: when the last was done with, and the program had the CPU again, if it was handed
 *	over; by who has rung
 * @gap: from one doorbell of a stream to the next, in nanoseconds, smoothed
 * @heard: struct sroce_rq.news as the last doorbell found it
 * @polled: what the program had taken from its completion queue by then
 * @sge: entry of the current request's list that @psn_nxt starts in
 * @sge_off: bytes into it
 * @rsp_psn: packet of a READ's response that @rsp_sge stands at
 * @rsp_end: packet behind the last that ended a response
 * @rsp_sge: entry of the oldest request's list that its payload goes to
 * @rsp_off: bytes into it
 * @by_key: the last that was sent with a fast registration's key in its list; before @una for none
 * @pd: protection domain of the requests' lists
 * @cq: where requests complete
 * @q: the ring
 * @copy: the requests as they were when fetched: what is checked and used
 * @wqe: what is known of the requests, by the index of their first block
 * @path: to the peer
 * @timer: retransmission and RNR; armed by the owner alone
 * @kept: responses behind one that is missing, or that wait for @fault to end
 * @fault: of memory to be sent from or read into
 * @went_back: when packets were last sent again
 * @order: does the network reorder?
 * @post_lock: kernel consumers: one producer at a time; any context
 * @late_lock: guards what is late
 * @late: these, struct sroce_late
 * @linger: timer that has the ring looked at, doorbell or not
 * @watch: timer that does the same, and what is left to do, while somebody rings for long
 * @task: runs the requester where the caller of its reason must not
 *
 * Its comments say what guards the members that follow.
 */
struct sroce_sq {
	/* for where packets are missing; but from its @due on, where a line begins, for all */
	struct sroce_sweep sweep;

	/*
	 * What every message of many queue pairs has to load, by lines. SROCE_SQ_OWNED; some are
	 * read without, by READ_ONCE(). @flags: nothing; @tagged: nothing, the same from creation
	 * on; @num_late: late_lock
	 */
	unsigned long flags;
	u32 una;
	u32 nxt;
	u32 fetched;
	u32 newest;

	u32 psn_una;
	u32 psn_nxt;
	u32 psn_end;
	u32 psn_left;
	u32 flight;
	u32 num_rd;
	u32 unasked;
	u32 num_late;
	u8 retry_left;
	u8 rnr_left;
	bool rnr_wait;
	bool rnr_probe;
	bool no_route;
	bool broken;
	bool drained;
	u8 refusals;
	ktime_t deadline;
	ktime_t backoff;
	ktime_t timer_due;

	ktime_t nak_due;
	struct sroce_repair repair;
	u64 srtt;
	u64 rttvar;
	ktime_t rtt_start;
	u32 rtt_psn;
	bool rtt_held;
	bool tagged;
	bool missed;
	bool asleep;
	struct sroce_mr *mr;
	ktime_t linger_due;

	struct sroce_cwnd cwnd;

	/* @resumed, and rung of @stream, as linger_due: nothing, written by who has rung as well */
	struct sroce_stream stream;
	ktime_t resumed;
	s64 gap;
	u32 heard;
	u32 polled;
	u32 sge;
	u32 sge_off;
	u32 rsp_psn;
	u32 rsp_end;
	u32 rsp_sge;
	u32 rsp_off;
	u32 by_key;

	/* nothing: the same from creation on; what @copy and @wqe point to, SROCE_SQ_OWNED */
	struct ib_pd *pd;
	struct sroce_cq *cq;
	struct sroce_queue q;
	u8 *copy;
	struct sroce_swqe *wqe;

	/* SROCE_SQ_OWNED */
	struct sroce_path path;
	struct hrtimer timer;
	struct sroce_kept kept;

	/* large, and seldom used but for its beginning; what it ends with is written by its worker */
	struct sroce_fault fault;
	ktime_t went_back;
	struct sroce_order order;

	spinlock_t post_lock;
	spinlock_t late_lock;

	/* late_lock */
	struct list_head late;

	/* nothing: the owner and who has rung */
	struct hrtimer linger;
	struct timer_list watch;

	struct sroce_task task;
};

/* What message the responder is in the middle of. */
enum sroce_recv_op {
	SROCE_RECV_IDLE,
	SROCE_RECV_SEND,
	SROCE_RECV_WRITE,
};

/* What a message to a tag matching queue is. */
enum sroce_tm_kind {
	SROCE_TM_NO_TAG,	/* for the program to look at */
	SROCE_TM_UNEXPECTED,	/* the same, and counted until it is complete */
	SROCE_TM_EAGER,		/* its payload goes to a tag's buffer */
	SROCE_TM_RNDV,		/* it says from where to read what goes there */
	SROCE_TM_RNDV_SW,	/* the same, and the program has to */
};

/**
 * struct sroce_tm_msg - the message under way to a tag matching queue
 * @kind: from its first packet on
 * @sync_req: the program is asked how many unexpected ones it has seen
 * @last: its first packet is its last
 * @solicited: that of this packet; of a rendezvous, to be told when its data is there
 * @hdr: TMH and RVH, as far as they have come
 */
struct sroce_tm_msg {
	enum sroce_tm_kind kind;
	bool sync_req;
	bool last;
	bool solicited;
	u8 hdr[32];
};

/**
 * struct sroce_res - a request whose response carries data, and may have to be
 * given again: a responder resource (IBTA Vol.1 9.7.4.1.4 and 9.7.5.1.2)
 * @class: enum wire_class of the request
 * @owed: a response is
 * @given: the whole response has been given before
 * @psn: of its first packet
 * @num_pkts: of the whole response
 * @start: packet that this giving of it started with
 * @next: packet to be sent next
 * @end: packet to end before
 * @resume: packet to go on with then, having ended for what was asked for in
 *	between; 0 for none
 * @msn: as its AETHs report it
 * @srqn: XRC: whose protection domain @rkey is of
 * @rkey: READ
 * @va: READ
 * @len: READ
 * @orig: ATOMIC: what was there before
 */
struct sroce_res {
	u8 class;
	bool owed;
	bool given;
	u32 psn;
	u32 num_pkts;
	u32 start;
	u32 next;
	u32 end;
	u32 resume;
	u32 msn;
	u32 srqn;
	u32 rkey;
	u64 va;
	u32 len;
	u64 orig;
};

/**
 * struct sroce_part - packets of a READ's response, to be given again
 * @psn: the first
 * @end: the packet of that READ to end before
 */
struct sroce_part {
	u32 psn;
	u32 end;
};

/* One more is lost, and asked for again. */
#define SROCE_MAX_PARTS		32

/* What others ask of the owner of the responses: bits of sroce_rq.flags */
enum sroce_resp_flag {
	SROCE_RESP_OWNED,	/* somebody is at it */
	SROCE_RESP_WORK,	/* look again before you leave */
	SROCE_RESP_BLOCKED,	/* waits for the stack to release skbs */
	SROCE_RESP_CNP,		/* a packet of the peer's came marked: tell it */
};

/**
 * struct sroce_rq - the receive side: the responder
 * @q: the ring; none with a shared receive queue
 * @wqe: copy of the receive request that is taken
 * @tm: the shared receive queue's tags, or NULL
 * @cons: next entry to be taken from the ring
 * @sge: entry of its list that the next byte goes to
 * @sge_off: bytes into it
 * @placed: bytes of the message so far
 * @read_psns: the most that a READ of this connection took
 * @filled_psn: the last packet that was taken with it
 * @wqe_srqn: XRC: number of the shared receive queue that it is from
 * @resp_skbs_refused: skbs that the stack had at the last: with fewer, there may be room sooner
 * @kept: packets behind @epsn that came before it
 * @lock: guards the queue pair's state as well
 * @epsn: PSN that is expected
 * @ack_psn: the last that an acknowledgement alone answers
 * @msn: messages completed, as AETHs report it
 * @news: messages that a program can have noticed
 * @news_told: of those, what the doorbell has been told
 * @op: message under way
 * @drop: UC: the message under way has lost a packet
 * @nak_sent: a NAK for @epsn is out, and none is for what follows
 * @not_ready: an RNR NAK is: what follows is dropped
 * @respond: an answer is owed for what came in this run
 * @ack_stale: @ack_psn lies so far back that a requester could take it for one ahead
 * @syndrome: AETH syndrome of the answer that is owed: a NAK acknowledges all before it
 * @filled: what was missing there has just come
 * @report: else, one of what is missing is due
 * @greet: it is to be told that there are such reports
 * @goes_back: its requester has sent all again that lay behind the last gap
 * @broken: the ring's indices made no sense: it is not looked at again
 * @has_wqe: a receive request is taken and not complete
 * @flags: enum sroce_resp_flag
 * @backoff: nothing is given until then, after one; 0 without
 * @mr: the last region used in this run, held
 * @mr_delta: what to add to an address under @mr_key for one of @mr's
 * @va: WRITE: where its next byte goes
 * @mr_key: key by which it was found
 * @rkey: WRITE: key for it
 * @left: WRITE: bytes of it to come
 * @written: WRITE: bytes of it in all
 * @num_owed: responses owed
 * @refusals: of answers, in a row, by what sends them
 * @srq: XRC: that of the packet in hand, held
 * @mr_remote: as a remote one, up to the end of a WRITE's message
 * @max_sge: entries that this request may have
 * @unreported: what such a requester was not told of
 * @greetings: times that it has been told so
 * @twice: packets that had come before; it wraps
 * @notify: this completion queue's event is due, once @lock is dropped
 * @path: to the peer
 * @pd: protection domain of remote keys, the queue pair's: here as every WRITE needs it
 * @res: responder resources, a ring
 * @max_res: of so many
 * @num_res: resources taken, up to a multiple of @max_res: the next is this
 *	modulo @max_res
 * @first_owed: by none before this, as @num_res counts
 * @num_parts: entries of @parts
 * @reported: when it was told last
 * @fault: of memory that a packet goes to
 * @num_late: packets that wait for @fault
 * @late: these, struct sroce_late
 * @parts: of READs' responses, that are asked for again while one of them is
 *	being given
 * @tm_msg: with @tm: the message under way
 * @refused_at: when the first of these was
 * @resp_fault: of memory that a READ's response comes from
 * @post_lock: kernel consumers: one producer at a time; any context
 * @task: gives responses where the caller of their reason must not
 *
 * Its comments say what guards the members that follow.
 */
struct sroce_rq {
	/*
	 * lock; to write @path, SROCE_RESP_OWNED as well. The doorbell reads @news without. First
	 * what takes a receive request
	 */
	struct sroce_queue q;
	struct sroce_recv_wqe *wqe;
	struct sroce_tm *tm;
	u32 cons;
	u32 sge;
	u32 sge_off;
	u32 placed;

	u32 read_psns;
	u32 filled_psn;
	u32 wqe_srqn;
	/* SROCE_RESP_OWNED */
	int resp_skbs_refused;

	/* lock; a line begins with its bytes, and what every message has to load. @flags: nothing */
	struct sroce_kept kept;
	spinlock_t lock;
	u32 epsn;
	u32 ack_psn;
	u32 msn;
	u32 news;
	u32 news_told;
	enum sroce_recv_op op;
	bool drop;
	bool nak_sent;
	bool not_ready;
	bool respond;
	bool ack_stale;
	u8 syndrome;
	bool filled;
	bool report;
	bool greet;
	bool goes_back;
	bool broken;
	bool has_wqe;
	unsigned long flags;
	/* SROCE_RESP_OWNED */
	ktime_t backoff;

	/* lock; @refusals: SROCE_RESP_OWNED; @pd: nothing, the same from creation on */
	struct sroce_mr *mr;
	u64 mr_delta;
	u64 va;
	u32 mr_key;
	u32 rkey;
	u32 left;
	u32 written;
	u32 num_owed;
	u32 refusals;
	struct sroce_srq *srq;
	bool mr_remote;
	u8 max_sge;
	u8 unreported;
	u8 greetings;
	u16 twice;

	struct sroce_cq *notify;
	struct sroce_path path;
	struct ib_pd *pd;

	/* lock; to put another ring in its place, SROCE_RESP_OWNED as well */
	struct sroce_res *res;
	u32 max_res;
	u32 num_res;
	u32 first_owed;
	u32 num_parts;

	/* lock; @fault, large and seldom used but for its beginning, ends under it as well */
	ktime_t reported;
	struct sroce_fault fault;
	u32 num_late;
	struct list_head late;
	struct sroce_part parts[SROCE_MAX_PARTS];
	struct sroce_tm_msg tm_msg;

	/* SROCE_RESP_OWNED; @resp_fault ends under lock */
	ktime_t refused_at;
	struct sroce_fault resp_fault;

	spinlock_t post_lock;

	struct sroce_task task;
};

/**
 * struct sroce_qp - a queue pair
 * @ibqp: the core's
 * @sdev: the link, @ibqp.device: here, as what follows, as every packet needs it
 * @num: its number; outlives it
 * @stats: of the counter that it is bound to; NULL: the device's
 * @ibuc: the context that may ring for it; NULL for a kernel consumer
 * @state: written under rq.lock; read anywhere, and where it matters under
 *	one of the two sides
 * @mtu: path MTU in bytes, which @attr.path_mtu says by an enum, and not for datagrams
 * @dqpn: the peer's number, @attr.dest_qp_num: here as every packet needs the two
 * @access: @attr.qp_access_flags
 * @transport: enum wire_transport of its packets
 * @type: @ibqp.qp_type
 * @timeout: @attr.timeout
 * @retry_cnt: @attr.retry_cnt
 * @rnr_retry: @attr.rnr_retry
 * @sq_sig_all: every send request makes a completion
 * @max_send_sge: entries of a send request
 * @comm_est: IB_EVENT_COMM_EST has been raised
 * @pace: the rate at which it sends, if it has one
 * @last_wqe: IB_EVENT_QP_LAST_WQE_REACHED has been raised
 * @max_recv_sge: entries of a receive request
 * @max_inline: bytes
 * @strip_vlan: raw packets: a VLAN tag goes into the completion
 * @rss: raw packets: how they are spread over an indirection table, or NULL
 * @mutex: one modify, query or destroy at a time
 * @attr: attributes as last set; its state is @state
 * @sq: send side
 * @rq: receive side
 */
struct sroce_qp {
	struct ib_qp ibqp;

	/* a line: what every packet looks at, of either side; and @lock and @paced of @pace */
	struct sroce_dev *sdev ____cacheline_aligned;
	struct sroce_qpn *num;
	struct sroce_stats __percpu *stats;
	struct ib_ucontext *ibuc;
	enum ib_qp_state state;
	u32 mtu;
	u32 dqpn;
	int access;
	u8 transport;
	u8 type;
	u8 timeout;
	u8 retry_cnt;
	u8 rnr_retry;
	bool sq_sig_all;
	u8 max_send_sge;
	bool comm_est;
	struct sroce_pace pace;

	bool last_wqe;
	u8 max_recv_sge;
	u16 max_inline;
	bool strip_vlan;
	struct sroce_rss *rss;
	struct mutex mutex;
	struct ib_qp_attr attr;

	struct sroce_sq sq ____cacheline_aligned;
	struct sroce_rq rq ____cacheline_aligned;
};

/* What a message loads begins with a line on each side; see sroce_qp_prefetch() */
#define SROCE_BEGINS_LINE(type, member)							\
	static_assert(!IS_ENABLED(CONFIG_64BIT) || L1_CACHE_BYTES != 64 ||		\
		      offsetof(type, member) % 64 == 0)
SROCE_BEGINS_LINE(struct sroce_sq, sweep.due);
SROCE_BEGINS_LINE(struct sroce_rq, kept.bytes);

/**
 * struct sroce_wq - a receive queue of an indirection table
 * @ibwq: the core's; its state is written under rq.lock
 * @ibuc: the context that may ring for it; NULL for a kernel consumer
 * @rcu: lookups go by RCU
 * @users: its own, and one of each doorbell
 * @idle: the last of @users is gone
 * @strip_vlan: a VLAN tag goes into the completion
 * @max_sge: entries of a receive request
 * @rq: the queue; what a responder needs besides is not used
 */
struct sroce_wq {
	struct ib_wq ibwq;
	struct ib_ucontext *ibuc;
	struct rcu_head rcu;
	refcount_t users;
	struct completion idle;
	bool strip_vlan;
	u8 max_sge;
	struct sroce_rq rq;
};

/**
 * struct sroce_flow_key - what rules and hashes look at of a frame
 * @dmac: destination
 * @smac: source
 * @type: behind VLAN tags
 * @vlan: the outermost tag, with @has_vlan
 * @has_vlan: there is one
 * @l3: 4 or 6 for IP, else all but the above is zero
 * @l4: IPPROTO_TCP or IPPROTO_UDP where @sport and @dport are
 * @ip_ok: its IP header is right; no rule asks for this
 * @src: IP address; IPv4 in the first four bytes
 * @dst: IP address
 * @flow_label: IPv6
 * @proto: protocol or next header
 * @tos: TOS or traffic class
 * @ttl: TTL or hop limit
 * @ip_flags: enum ib_ipv4_flags
 * @sport: port
 * @dport: port
 *
 * Without holes: compared as 64-bit words.
 */
struct sroce_flow_key {
	u8 dmac[6];
	u8 smac[6];
	__be16 type;
	__be16 vlan;
	u8 src[16];
	u8 dst[16];
	__be32 flow_label;
	u8 proto;
	u8 tos;
	u8 ttl;
	u8 ip_flags;
	__be16 sport;
	__be16 dport;
	u8 has_vlan;
	u8 l3;
	u8 l4;
	u8 ip_ok;
} __aligned(8);

/**
 * struct sroce_frames - a received skb as real frames
 * @skb: the first; linked by next where @own
 * @mac: offset of the MAC header from their data; 0 or less
 * @own: they are copies, and not the skb that was received
 * @csum_ok: TCP's or UDP's checksum is right
 */
struct sroce_frames {
	struct sk_buff *skb;
	int mac;
	bool own;
	bool csum_ok;
};

/**
 * struct sroce_sink - a receive queue, as far as frames and a flush are concerned
 * @rq: the queue
 * @qp: whose frames they are, and are counted; NULL if none come
 * @pd: its protection domain
 * @cq: its completion queue
 * @num: for the completions
 * @max_sge: entries of a receive request
 * @strip_vlan: a VLAN tag goes into the completion
 */
struct sroce_sink {
	struct sroce_rq *rq;
	struct sroce_qp *qp;
	struct ib_pd *pd;
	struct sroce_cq *cq;
	u32 num;
	u8 max_sge;
	bool strip_vlan;
};

/**
 * struct sroce_mcast - a multicast group; its members never change once it is found
 * @node: in its bucket
 * @rcu: lookups go by RCU
 * @mgid: its address as a GID, IPv4 mapped
 * @joined: with which of its IP the netdev is in it, by @mcast_ip of struct sroce_dev; 0 for
 *	none. Changed with mcast_lock and rtnl
 * @num: of its members
 * @qpn: their numbers, which may be nobody's any more
 */
struct sroce_mcast {
	struct hlist_node node;
	struct rcu_head rcu;
	union ib_gid mgid;
	u32 joined;
	u32 num;
	u32 qpn[];
};

static inline struct sroce_pd *to_spd(struct ib_pd *ibpd)
{
	return container_of(ibpd, struct sroce_pd, ibpd);
}

static inline struct sroce_dev *to_sdev(struct ib_device *ibdev)
{
	return container_of(ibdev, struct sroce_dev, ibdev);
}

static inline struct sroce_cq *to_scq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct sroce_cq, ibcq);
}

static inline struct sroce_region *to_sregion(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct sroce_region, ibmr);
}

static inline struct sroce_mw *to_smw(struct ib_mw *ibmw)
{
	return container_of(ibmw, struct sroce_mw, ibmw);
}

static inline struct sroce_ah *to_sah(struct ib_ah *ibah)
{
	return container_of(ibah, struct sroce_ah, ibah);
}

static inline struct sroce_srq *to_ssrq(struct ib_srq *ibsrq)
{
	return container_of(ibsrq, struct sroce_srq, ibsrq);
}

static inline struct sroce_qp *to_sqp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct sroce_qp, ibqp);
}

static inline struct sroce_wq *to_swq(struct ib_wq *ibwq)
{
	return container_of(ibwq, struct sroce_wq, ibwq);
}

static inline struct sroce_mapping *to_smapping(struct rdma_user_mmap_entry *entry)
{
	return container_of(entry, struct sroce_mapping, rdma_entry);
}

static inline struct sroce_dev *qp_dev(const struct sroce_qp *qp)
{
	return qp->sdev;
}

/* Are its packets acknowledged? */
static inline bool qp_reliable(const struct sroce_qp *qp)
{
	return qp->transport == WIRE_RC || qp->transport == WIRE_XRC;
}

/* Local ACK timeout, 4.096 us * 2^timeout (11.2.5.2, QP attributes); 0 for none */
static inline u64 qp_ack_timeout_ns(const struct sroce_qp *qp)
{
	return qp->timeout ? 4096ULL << qp->timeout : 0;
}

static inline bool stream_runs(const struct sroce_stream *stream)
{
	return READ_ONCE(stream->streak) >= SROCE_STREAM_MIN;
}

/* The program has waited, or stopped. */
static inline void stream_over(struct sroce_stream *stream)
{
	WRITE_ONCE(stream->streak, min_t(s16, stream->streak, 0));
}

/* It has rung once more, without waiting. */
static inline void stream_seen(struct sroce_stream *stream)
{
	WRITE_ONCE(stream->streak, min(stream->streak + 1, SROCE_STREAM_MIN));
}

/* What was taken for a stream is none. */
static inline void stream_vain(struct sroce_stream *stream)
{
	WRITE_ONCE(stream->streak, -(SROCE_STREAM_PENALTY << stream->vain));
	stream->vain = min(stream->vain + 1, SROCE_STREAM_MAX_VAIN);
}

static inline void *queue_entry(const struct sroce_queue *q, u32 index)
{
	return q->entries + (size_t)(index & q->mask) * q->entry_size;
}

/* How many entries there are from @cons on. Return: false if there can't be so many. */
static inline bool queue_avail(const struct sroce_queue *q, u32 cons, u32 *num)
{
	/* pairs with the program's release: the entries before it are whole */
	*num = smp_load_acquire(&q->ring->prod) - cons;
	return *num <= q->mask + 1;
}

/* A receive request is the program's word: can it be used, where lists have @max_sge entries? */
static inline bool recv_wqe_ok(const struct sroce_recv_wqe *wqe, u8 max_sge)
{
	return wqe->num_sge <= max_sge && !wqe->reserved;
}

/* The request of which the block at @index is the first. */
static inline struct sroce_swqe *sq_wqe(const struct sroce_sq *sq, u32 index)
{
	return &sq->wqe[index & sq->q.mask];
}

/* The kernel's copy of its first block. */
static inline struct sroce_send_wqe *sq_copy(const struct sroce_sq *sq, u32 index)
{
	return (struct sroce_send_wqe *)
		(sq->copy + (size_t)(index & sq->q.mask) * SROCE_SQ_BLOCK);
}

/* Byte @off of a request's copy; good up to the end of its block. */
static inline void *sq_copy_byte(const struct sroce_sq *sq, u32 index, u32 off)
{
	return (u8 *)sq_copy(sq, index + off / SROCE_SQ_BLOCK) + off % SROCE_SQ_BLOCK;
}

/* Entries are 16 bytes from byte 48 on: none straddles two blocks. */
static inline struct sroce_sge *sq_sge(const struct sroce_sq *sq, u32 index, u32 n)
{
	return sq_copy_byte(sq, index, sizeof(struct sroce_send_wqe) +
				       n * sizeof(struct sroce_sge));
}

/* The first PSN behind it */
static inline u32 gap_end(const struct sroce_gap *gap)
{
	return wire_psn_add(gap->psn, gap->num);
}

/**
 * struct sroce_burst - packets of one queue pair on their way into one skb
 * @num: charged for them
 * @path: to the peer
 * @dst: its route, held by @path
 * @net: @path's, for when its lock has been dropped
 * @ipv6: @path's
 * @oif: @path's
 * @tclass: @path's, or that with ECT (sroce_burst_ect())
 * @self: from an address to itself
 * @skb: NULL between bursts
 * @seg_len: UDP payload of every packet, and of the last at most
 * @num_pkts: in @skb
 * @max_len: UDP payload that one skb may carry
 * @max_pkts: packets that one skb may carry
 * @closed: the last packet was shorter: nothing may follow
 * @pkt: the packet that is being written
 * @pkt_len: its length
 * @chunk: where it lies
 * @last: the last packet that is in @skb
 * @last_len: its length
 */
struct sroce_burst {
	struct sroce_qpn *num;
	struct sroce_path *path;
	struct dst_entry *dst;
	struct net *net;
	bool ipv6;
	int oif;
	u8 tclass;
	bool self;
	struct sk_buff *skb;
	u32 seg_len;
	u32 num_pkts;
	u32 max_len;
	u32 max_pkts;
	bool closed;
	u8 *pkt;
	u32 pkt_len;
	struct sroce_chunk *chunk;
	u8 *last;
	u32 last_len;
};

/* ucontext.c */
int sroce_alloc_ucontext(struct ib_ucontext *ibuc, struct ib_udata *udata);
int sroce_query_ucontext(struct ib_ucontext *ibuc, struct uverbs_attr_bundle *attrs);
void sroce_dealloc_ucontext(struct ib_ucontext *ibuc);
struct ib_ucontext *sroce_udata_context(struct ib_udata *udata);
void sroce_disassociate_ucontext(struct ib_ucontext *ibuc);
int sroce_mmap(struct ib_ucontext *ibuc, struct vm_area_struct *vma);
void sroce_mmap_free(struct rdma_user_mmap_entry *entry);
struct sroce_mapping *sroce_mapping_alloc(struct ib_ucontext *ibuc, size_t size);
int sroce_queue_alloc(struct ib_ucontext *ibuc, struct sroce_queue *q, u32 entries,
		      u32 entry_size, struct sroce_ring_map *map);
u32 sroce_queue_some(const struct sroce_queue *q);
void sroce_queue_copy(struct sroce_queue *to, struct sroce_queue *q, u32 first, u32 num);
int sroce_queue_exchange(struct sroce_queue *q, struct sroce_queue *other, u32 cons, u32 num,
			 u32 done);
void sroce_queue_free(struct sroce_queue *q);
extern const struct uapi_definition sroce_uapi_defs[];

/* main.c */
int sroce_enable_driver(struct ib_device *ibdev);
struct net *sroce_netdev_net_get(struct net_device *ndev);
void sroce_port_event(struct ib_device *ibdev, struct net_device *ndev, unsigned long event);

/* device.c */
extern const struct ib_device_ops sroce_dev_ops;
bool sroce_port_up(const struct net_device *ndev);
int sroce_query_port_speed(struct ib_device *ibdev, u32 port, u64 *speed);
enum ib_mtu sroce_port_mtu(struct ib_device *ibdev);
bool sroce_take(atomic_t *count, int max);
void sroce_dev_gone(struct sroce_dev *sdev);
bool sroce_udata_clear(struct ib_udata *udata);
int sroce_respond(struct ib_udata *udata, const void *resp, size_t len);
int sroce_no_udata(struct ib_udata *udata);
int sroce_request(struct ib_udata *udata, void *req, size_t len);

/* ah.c */
int sroce_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init, struct ib_udata *udata);
int sroce_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr);
int sroce_destroy_ah(struct ib_ah *ibah, u32 flags);
struct sroce_av *sroce_av_get(struct ib_pd *pd, u32 num);
void sroce_av_put(struct sroce_av *av);
void sroce_av_release_all(struct sroce_dev *sdev);

/* srq.c */
int sroce_alloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata);
int sroce_dealloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata);
int sroce_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init,
		     struct ib_udata *udata);
int sroce_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		     enum ib_srq_attr_mask mask, struct ib_udata *udata);
int sroce_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
int sroce_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);
bool sroce_srq_fetch(struct sroce_srq *srq, struct sroce_recv_wqe *wqe);
struct sroce_srq *sroce_srq_get(const struct sroce_qp *qp, u32 srqn);
void sroce_srq_put(struct sroce_srq *srq);

/* tm.c */
void sroce_tm_caps(struct ib_device_attr *attr);
int sroce_tm_create(struct sroce_srq *srq, u32 max_tags, struct ib_cq *cq);
void sroce_tm_destroy(struct sroce_srq *srq);
bool sroce_tm_join(struct sroce_qp *qp, const struct ib_qp_init_attr *init,
		   struct ib_qp_cap *sq);
bool sroce_tm_match(struct sroce_qp *qp, const struct sroce_rx *rx);
bool sroce_tm_again(struct sroce_qp *qp, const struct sroce_rx *rx);
void sroce_tm_cut(struct sroce_qp *qp, struct sroce_rx *rx);
bool sroce_tm_waits(const struct sroce_qp *qp);
bool sroce_tm_matched(const struct sroce_qp *qp);
void sroce_tm_fill(struct sroce_qp *qp, struct sroce_cqe *cqe, bool first, bool last);
void sroce_tm_abort(struct sroce_qp *qp);
void sroce_tm_read(struct sroce_qp *qp);
bool sroce_tm_sent(struct sroce_cqe *cqe);
extern const struct uapi_definition sroce_tm_defs[];

/* mr.c */
int sroce_keys_init(struct sroce_dev *sdev);
void sroce_keys_exit(struct sroce_dev *sdev);
int sroce_key_alloc(struct sroce_dev *sdev, struct sroce_mr *mr, u32 *key);
void sroce_key_free(struct sroce_dev *sdev, struct sroce_mr *mr);
struct sroce_mr *sroce_key_find(struct sroce_dev *sdev, u32 key);
struct sroce_mr *sroce_key_get(struct sroce_dev *sdev, u32 key);
void sroce_key_put(struct sroce_mr *mr);
void sroce_key_publish(struct sroce_mr *mr, u32 key);
void sroce_key_revoke(struct sroce_mr *mr);
int sroce_key_invalidate(struct sroce_qp *qp, struct ib_pd *pd, u32 rkey, bool remote);
int sroce_mem_linear(struct sroce_mem *mem, void *addr, u64 offset);
void sroce_mem_release(struct sroce_mem *mem);
bool sroce_mr_suits(u64 iova, u64 length);
struct ib_mr *sroce_mr_create(struct ib_pd *pd, const struct sroce_mem *mem, u64 iova,
			      u64 length, int access);
struct ib_mr *sroce_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 iova,
				int access, SROCE_REG_MR_DMAH struct ib_udata *udata);
struct ib_mr *sroce_get_dma_mr(struct ib_pd *ibpd, int access);
struct ib_mr *sroce_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length,
				  u64 iova, int access, struct ib_pd *pd,
				  struct ib_udata *udata);
int sroce_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);
struct sroce_mr *sroce_mr_get(struct ib_pd *pd, u32 lkey);
struct sroce_mr *sroce_mr_get_remote(struct sroce_qp *qp, struct ib_pd *pd, u32 rkey, u64 *addr,
				     u64 len, int access);
bool sroce_mr_allows_remote(struct sroce_qp *qp, struct ib_pd *pd, u32 rkey, int access);
void sroce_mr_put(struct sroce_mr *mr);
bool sroce_mr_covers(const struct sroce_mr *mr, u64 addr, u64 len, int access);
void *sroce_mr_span(struct sroce_mr *mr, u64 addr, u32 *len, bool write);

/* mw.c */
int sroce_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata);
int sroce_dealloc_mw(struct ib_mw *ibmw);
int sroce_mw_bind(struct sroce_qp *qp, const struct sroce_send_wqe *wqe);
int sroce_window_invalidate(struct sroce_mr *mr, struct sroce_qp *qp, struct ib_pd *pd, u32 rkey);

/* fastreg.c */
struct ib_mr *sroce_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type, u32 max_num_sg);
int sroce_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int num, unsigned int *offset);
int sroce_fast_prepare(struct sroce_send_wqe *wqe, const struct ib_reg_wr *wr);
int sroce_fast_register(struct sroce_qp *qp, const struct sroce_send_wqe *wqe);
int sroce_fast_invalidate(struct sroce_mr *mr, struct ib_pd *pd, u32 rkey, bool remote);
void sroce_fast_destroy(struct sroce_mr *mr);

/* odp.c */
#ifdef CONFIG_INFINIBAND_ON_DEMAND_PAGING
#define SROCE_ACCESS_ODP IB_ACCESS_ON_DEMAND
void sroce_odp_caps(struct ib_device_attr *attr);
struct sroce_odp *sroce_odp_create(void);
void sroce_odp_destroy(struct sroce_odp *odp);
void sroce_odp_lock(struct sroce_odp *odp);
void sroce_odp_unlock(struct sroce_odp *odp);
void *sroce_odp_span(struct sroce_odp *odp, u64 addr, u32 *len, bool write);
int sroce_mr_fault(struct ib_pd *pd, u32 lkey, u64 addr, u64 len, bool write);
int sroce_advise_mr(struct ib_pd *pd, enum ib_uverbs_advise_mr_advice advice, u32 flags,
		    struct ib_sge *sg_list, u32 num_sge, struct uverbs_attr_bundle *attrs);
#else
#define SROCE_ACCESS_ODP 0
static inline void sroce_odp_caps(struct ib_device_attr *attr)
{
}

static inline struct sroce_odp *sroce_odp_create(void)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static inline void sroce_odp_destroy(struct sroce_odp *odp)
{
}

static inline void sroce_odp_lock(struct sroce_odp *odp)
{
}

static inline void sroce_odp_unlock(struct sroce_odp *odp)
{
}

static inline void *sroce_odp_span(struct sroce_odp *odp, u64 addr, u32 *len, bool write)
{
	return NULL;
}

static inline int sroce_mr_fault(struct ib_pd *pd, u32 lkey, u64 addr, u64 len, bool write)
{
	return -EFAULT;
}

#define sroce_advise_mr NULL
#endif

/* dmabuf.c */
struct ib_mr *sroce_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset, u64 length, u64 iova,
				       int fd, int access,
				       SROCE_REG_MR_DMAH SROCE_DMABUF_ATTRS *attrs);
void sroce_dmabuf_release(struct sroce_mem *mem);

/* dm.c */
struct ib_dm *sroce_alloc_dm(struct ib_device *ibdev, struct ib_ucontext *ibuc,
			     struct ib_dm_alloc_attr *attr, struct uverbs_attr_bundle *attrs);
int sroce_dealloc_dm(struct ib_dm *ibdm, struct uverbs_attr_bundle *attrs);
struct ib_mr *sroce_reg_dm_mr(struct ib_pd *ibpd, struct ib_dm *ibdm,
			      struct ib_dm_mr_attr *attr, struct uverbs_attr_bundle *attrs);
extern const struct uapi_definition sroce_dm_defs[];

/* cq.c */
int sroce_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		    SROCE_CQ_ATTRS *attrs);
int sroce_modify_cq(struct ib_cq *ibcq, u16 count, u16 period);
int sroce_resize_cq(struct ib_cq *ibcq, SROCE_RESIZE_CQ_CQE cqe, struct ib_udata *udata);
int sroce_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);

enum sroce_cq_result {
	SROCE_CQ_QUIET,		/* added; nobody waits for it */
	SROCE_CQ_EVENT,		/* added; sroce_cq_notify() is due */
	SROCE_CQ_FULL,		/* lost: sroce_qp_overrun() is due */
};

bool sroce_cq_overrun(const struct sroce_cq *cq);
enum sroce_cq_result sroce_cq_post(struct sroce_cq *cq, const struct sroce_cqe *cqe,
				   bool solicited);

/* The request that a receive side has taken ends, and this is what its completion says of it. */
static inline void rq_end_wqe(struct sroce_rq *rq, u32 num, struct sroce_cqe *cqe)
{
	cqe->wr_id = rq->wqe->wr_id;
	cqe->qp_num = num;
	cqe->wqe_next = rq->cons;
	rq->has_wqe = false;
}

/* A receive side's completion. Return: false if there is no room: the queue has to go to ERR. */
static inline bool rq_complete(struct sroce_rq *rq, struct sroce_cq *cq,
			       const struct sroce_cqe *cqe, bool solicited)
{
	const enum sroce_cq_result result = sroce_cq_post(cq, cqe, solicited);

	if (result == SROCE_CQ_EVENT)
		rq->notify = cq;
	return result != SROCE_CQ_FULL;
}

void sroce_cq_settle(struct sroce_cq *cq);
void sroce_cq_missed(struct sroce_cq *cq);
void sroce_cq_shrinks(struct sroce_cq *cq);
void sroce_cq_notify(struct sroce_cq *cq);

/* kverbs.c */
int sroce_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		    const struct ib_send_wr **bad_wr);
bool sroce_send_room(const struct sroce_qp *qp, u32 blocks);
int sroce_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		    const struct ib_recv_wr **bad_wr);
int sroce_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
			const struct ib_recv_wr **bad_wr);
int sroce_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc);
void sroce_cq_forget(struct sroce_cq *cq, u32 qpn);
int sroce_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);

/* mcast.c */
int sroce_attach_mcast(struct ib_qp *ibqp, union ib_gid *mgid, u16 lid);
int sroce_detach_mcast(struct ib_qp *ibqp, union ib_gid *mgid, u16 lid);
bool sroce_mcast_changed(struct sroce_dev *sdev, struct net_device *ndev);
void sroce_mcast_rejoin(struct sroce_dev *sdev);
const struct sroce_mcast *sroce_mcast_find(struct sroce_dev *sdev, const union ib_gid *mgid);

/* restrack.c */
int sroce_fill_res_cq(struct sk_buff *msg, struct ib_cq *ibcq);
int sroce_fill_res_mr(struct sk_buff *msg, struct ib_mr *ibmr);
int sroce_fill_res_qp(struct sk_buff *msg, struct ib_qp *ibqp);
int sroce_fill_res_srq(struct sk_buff *msg, struct ib_srq *ibsrq);

/* qp.c */
int sroce_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init, struct ib_udata *udata);
int sroce_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		    struct ib_udata *udata);
int sroce_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_qp_init_attr *init);
int sroce_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);
void sroce_qp_init(void);
struct sroce_qp *sroce_qp_get(u32 qpn);
void sroce_qp_prefetch(u32 qpn, bool sends);
void sroce_qp_put(struct sroce_qp *qp);
void sroce_qpn_put(struct sroce_qpn *num);
void sroce_qpn_wait(void);
int sroce_qpn_reserve(u32 *qpn);
void sroce_qpn_unreserve(u32 qpn);
bool sroce_qpn_use(struct sroce_qpn *num);
void sroce_qpn_unuse(struct sroce_qpn *num);
void sroce_qp_event(struct sroce_qp *qp, enum ib_event_type event);
void sroce_qp_error(struct sroce_qp *qp);
bool sroce_qp_send_error(struct sroce_qp *qp);
void sroce_qp_last_wqe(struct sroce_qp *qp);
void sroce_qp_error_locked(struct sroce_qp *qp);
void sroce_qp_overrun(struct sroce_qp *qp, bool sent);
void sroce_rq_unlock(struct sroce_rq *rq) __releases(&rq->lock);
void sroce_ring_reset(struct sroce_queue *q);
void sroce_qp_kick(struct sroce_qp *qp);
void sroce_qp_each(struct sroce_dev *sdev, void (*what)(struct sroce_qp *qp));
void sroce_qp_gone_all(struct sroce_dev *sdev);
void sroce_qp_mtu_all(struct sroce_dev *sdev);
void sroce_qp_fatal_all(struct sroce_dev *sdev);

/* task.c */
void sroce_task_init(struct sroce_task *task, void (*run)(struct sroce_task *task));
void sroce_task_schedule(struct sroce_task *task);
void sroce_task_kill(struct sroce_task *task);
void sroce_tasks_init(void);
void sroce_tasks_exit(void);

/* bells.c */
int sroce_bells_init(struct ib_ucontext *ibuc, struct sroce_ring_map *map);
void sroce_bells_exit(struct ib_ucontext *ibuc);
void sroce_bells_ring(struct ib_ucontext *ibuc, struct sroce_qp *qp);
void sroce_bells_help(struct ib_ucontext *ibuc);

/* doorbell.c */
void sroce_doorbell_start(void);
void sroce_doorbell_begin(struct sroce_qp *qp);
bool sroce_doorbell_end(struct sroce_qp *qp);
bool sroce_doorbell_hand_over(struct sroce_qp *qp);
void sroce_doorbell_help(bool awaits);
bool sroce_doorbell_waited(struct sroce_qp *qp);
bool sroce_doorbell_polled(struct sroce_qp *qp);
void sroce_doorbell_heard(struct sroce_qp *qp);
enum hrtimer_restart sroce_doorbell_timer(struct hrtimer *timer);
void sroce_doorbell_stuck(struct sroce_sq *sq);
void sroce_doorbell_watch(struct timer_list *timer);
void sroce_doorbell_judge(struct sroce_qp *qp);
void sroce_doorbell_awake(struct sroce_qp *qp);
void sroce_doorbell_rest(struct sroce_qp *qp);
void sroce_doorbell_late(struct sroce_qp *qp);

/* request.c */
void sroce_send_complete(struct sroce_qp *qp, enum ib_wc_status status);
void sroce_send_fail(struct sroce_qp *qp, enum ib_wc_status status, u32 vendor_err);
u32 sroce_send_whole(const struct sroce_sq *sq);
u32 sroce_send_lost(const struct sroce_sq *sq, u32 *at, u32 psn, u32 num, bool implied);
u32 sroce_send_spare(const struct sroce_sq *sq, const struct wire_gaps *gaps);
bool sroce_send_awaits(const struct sroce_sq *sq, u32 index);

/* send.c */
void sroce_send_run(struct sroce_qp *qp);
bool sroce_send_some(struct sroce_qp *qp, u32 *work);
void sroce_send_claim(struct sroce_qp *qp);
void sroce_send_release(struct sroce_qp *qp);
void sroce_send_answered(struct sroce_qp *qp);
void sroce_send_task(struct sroce_task *task);
void sroce_send_seek(struct sroce_qp *qp, u32 psn);
bool sroce_send_fault(struct sroce_qp *qp, const struct sroce_sge *sge, u32 off, bool write);
bool sroce_send_try_claim(struct sroce_qp *qp);
struct sroce_mr *sroce_send_mr(struct sroce_qp *qp, u32 lkey);
void sroce_send_mr_put(struct sroce_qp *qp);
void sroce_send_fault_done(struct sroce_qp *qp, int err);
bool sroce_send_draining(const struct sroce_qp *qp);

/* burst.c */
int sroce_burst_start(struct sroce_burst *b, struct sroce_qpn *num, struct sroce_path *path);
bool sroce_burst_fits(const struct sroce_burst *b, u32 len);
u8 *sroce_burst_reserve(struct sroce_burst *b, u32 len);
void sroce_burst_commit(struct sroce_burst *b);
void sroce_burst_cancel(struct sroce_burst *b);
bool sroce_burst_ask(struct sroce_burst *b);
void sroce_burst_seal(struct sroce_burst *b);
int sroce_burst_send(struct sroce_burst *b);
void sroce_burst_lost(const struct sroce_burst *b);
bool sroce_burst_flush(struct sroce_burst *b);
void sroce_tx_charge(struct sk_buff *skb, struct sroce_qpn *num, bool response);
void sroce_burst_ect(struct sroce_burst *b);
void sroce_burst_exit(void);

/* copy.c */
DECLARE_STATIC_KEY_FALSE(sroce_copies_words);
void sroce_copy_init(void);
void sroce_copy_words(void *to, const void *from, size_t len);
u64 sroce_trial(void (*run)(u8 *half, size_t len));

/**
 * sroce_copy - copy a payload
 * @to: where to
 * @from: where from
 * @len: how many bytes
 */
static inline void sroce_copy(void *to, const void *from, size_t len)
{
	if (static_branch_unlikely(&sroce_copies_words))
		sroce_copy_words(to, from, len);
	else
		memcpy(to, from, len);
}

/* net.c */
int sroce_net_init(void);
void sroce_net_exit(void);
int sroce_net_attach(struct sroce_dev *sdev, struct net *net, int ifindex);
void sroce_net_last(struct sroce_dev *sdev);
void sroce_net_detach(struct sroce_dev *sdev);
int sroce_path_init(struct sroce_path *path, const struct rdma_ah_attr *attr, u32 lqpn,
		    u32 rqpn, u8 ignored);
enum ib_mtu sroce_path_mtu(const struct rdma_ah_attr *attr);
void sroce_path_release(struct sroce_path *path);
struct dst_entry *sroce_path_dst(struct sroce_path *path);
int sroce_net_send(struct sk_buff *skb, struct net *net, bool ipv6);
union ib_gid sroce_ip_dgid(const void *ip, bool ipv6);
bool sroce_net_heard(struct net *net, const union ib_gid *mgid);
int sroce_net_self(struct sk_buff *skb, struct net *net, bool ipv6, int oif);
void sroce_rx_copy_pieces(struct sroce_rx_pos *pos, void *to, u32 len);

static inline bool sroce_skb_multicast(const struct sk_buff *skb, bool ipv6)
{
	return ipv6 ? ipv6_addr_is_multicast(&ipv6_hdr(skb)->daddr) :
		      ipv4_is_multicast(ip_hdr(skb)->daddr);
}

/**
 * sroce_rx_copy - read bytes of a received skb
 * @pos: from where; moved on
 * @to: where to put them; NULL to skip them
 * @len: how many; the skb has them
 */
static inline void sroce_rx_copy(struct sroce_rx_pos *pos, void *to, u32 len)
{
	if (len > pos->left) {
		sroce_rx_copy_pieces(pos, to, len);
		return;
	}
	if (to)
		sroce_copy(to, pos->data, len);
	pos->data += len;
	pos->left -= len;
}

/* recv.c */
void sroce_recv_packet(struct sroce_qp *qp, struct sroce_rx *rx);
u8 sroce_recv_expects(const struct sroce_qp *qp);
bool sroce_recv_middle(struct sroce_qp *qp, const u8 *payload, bool ackreq);
void sroce_recv_end(struct sroce_qp *qp) __releases(&qp->rq.lock);
void sroce_recv_fault_done(struct sroce_qp *qp, int err);
void sroce_recv_flush(struct sroce_qp *qp);
void sroce_recv_reset(struct sroce_qp *qp);
int sroce_recv_fetch(struct sroce_rq *rq);
void sroce_recv_list_start(struct sroce_rq *rq);
bool sroce_recv_fits(const struct sroce_recv_wqe *wqe, u32 len);

/* resp.c */
void sroce_resp_request(struct sroce_qp *qp, const struct sroce_res *res);
bool sroce_resp_again(struct sroce_qp *qp, const struct wire_pkt *pkt);
void sroce_resp_run(struct sroce_qp *qp);
void sroce_resp_claim(struct sroce_qp *qp);
void sroce_resp_release(struct sroce_qp *qp);
void sroce_resp_settle(struct sroce_qp *qp);
void sroce_resp_task(struct sroce_task *task);
void sroce_resp_fault_done(struct sroce_qp *qp, int err);

/* ack.c */
void sroce_ack_waited(struct sroce_qp *qp);
u8 sroce_ack_expects(const struct sroce_qp *qp);
bool sroce_ack_middle(struct sroce_qp *qp, const u8 *payload);
void sroce_ack_middles(struct sroce_qp *qp, u32 num);
void sroce_ack_packet(struct sroce_qp *qp, struct sroce_rx *rx);
void sroce_ack_later(struct sroce_qp *qp, struct sroce_rx *rx);
void sroce_ack_advance(struct sroce_qp *qp, u32 psn);
u32 sroce_ack_run(struct sroce_qp *qp);
void sroce_ack_before(struct sroce_qp *qp, u32 psn);

/* late.c */
void sroce_late_hold(struct sk_buff *skb);
struct sroce_late *sroce_late_alloc(const struct sroce_rx *rx);
struct sroce_late *sroce_late_add(struct list_head *list, u32 *num, u32 max, struct sroce_rx *rx);
void sroce_late_free(struct sroce_late *late);
void sroce_late_purge(struct list_head *list, u32 *num);
int sroce_late_init(void);
void sroce_late_exit(void);
int sroce_faults_init(struct ib_pd *ibpd);
void sroce_faults_exit(struct sroce_ucontext *uctx);
void sroce_prefetch_queue(struct ib_pd *ibpd, struct work_struct *work);
void sroce_fault_init(struct sroce_fault *fault, struct sroce_qp *qp,
		      void (*done)(struct sroce_qp *qp, int err));
void sroce_fault_start(struct sroce_fault *fault, struct ib_pd *pd, struct sroce_srq *srq,
		       u32 lkey, u64 addr, u64 len, bool write);
bool sroce_fault_refused(struct sroce_fault *fault, u32 lkey, u64 addr, bool write);
void sroce_fault_forget(struct sroce_fault *fault, u32 lkey, u64 addr, u32 len, bool write);

/* keep.c */
enum sroce_keep {
	SROCE_KEPT,		/* behind one that is */
	SROCE_KEPT_APART,	/* with something missing before it */
	SROCE_KEPT_TWICE,	/* one like it is kept already */
	SROCE_KEPT_NOT,		/* lost, for want of room or memory */
};

enum sroce_keep sroce_keep(struct sroce_qp *qp, struct sroce_kept *kept, struct sroce_rx *rx);
bool sroce_kept_opens(const struct sroce_qp *qp, const struct sroce_kept *kept, u32 psn);
void sroce_kept_gaps(const struct sroce_qp *qp, const struct sroce_kept *kept, u32 from,
		     struct wire_gaps *gaps);
struct sroce_late *sroce_kept_first(const struct sroce_kept *kept);
struct sroce_late *sroce_kept_expire(struct sroce_qp *qp);
void sroce_kept_work(struct work_struct *work);
void sroce_kept_take(struct sroce_qp *qp, struct sroce_kept *kept, struct sroce_late *late);
void sroce_kept_purge(struct sroce_qp *qp, struct sroce_kept *kept);
bool sroce_wait(struct sroce_qp *qp, struct sroce_rx *rx);
bool sroce_wait_again(struct sroce_qp *qp, struct sroce_late *late);
void sroce_wait_over(struct sroce_qp *qp, struct sroce_late *late);

/* gaps.c */
void sroce_gaps_reset(struct sroce_qp *qp);
void sroce_gaps_report(struct sroce_qp *qp, const struct sroce_rx *rx);
void sroce_gaps_implied(struct sroce_qp *qp);
void sroce_gaps_request(struct sroce_qp *qp, u32 psn);
void sroce_gaps_sent(const struct sroce_sq *sq, struct sroce_gap *gap, ktime_t now);
void sroce_gaps_arrived(struct sroce_sq *sq, u32 psn);
bool sroce_gaps_came(struct sroce_sq *sq, u32 psn);
bool sroce_gaps_full(const struct sroce_sq *sq);
bool sroce_gaps_passed(const struct sroce_sq *sq, u32 behind);
bool sroce_gaps_overtaken(const struct sroce_sq *sq, ktime_t sent, u32 behind, ktime_t now);
void sroce_gaps_moved(struct sroce_qp *qp, u32 num);
bool sroce_gaps_under_way(const struct sroce_sq *sq, ktime_t now);
ktime_t sroce_gaps_due(const struct sroce_sq *sq, ktime_t now);
void sroce_gaps_repaired(struct sroce_qp *qp, u32 end, ktime_t now);
void sroce_gaps_await(struct sroce_sq *sq);
bool sroce_gaps_hold(struct sroce_qp *qp, bool told);
bool sroce_gaps_release(struct sroce_qp *qp, ktime_t now);
void sroce_order_reset(struct sroce_sq *sq);
void sroce_order_judge(struct sroce_sq *sq);
void sroce_order_again(struct sroce_sq *sq, u32 num, bool probe);

/* pace.c */
void sroce_cwnd_reset(struct sroce_qp *qp);
bool sroce_cwnd_open(struct sroce_qp *qp);
void sroce_cwnd_time(struct sroce_qp *qp);
u32 sroce_cwnd_burst(struct sroce_qp *qp);
void sroce_cwnd_rtt(struct sroce_qp *qp, u64 ns);
void sroce_cwnd_acked(struct sroce_qp *qp, u32 pkts);
void sroce_cwnd_loss(struct sroce_qp *qp, u32 pkts);
void sroce_cwnd_judged(struct sroce_qp *qp, bool late);
u64 sroce_cwnd_least(const struct sroce_sq *sq);
void sroce_cwnd_timeout(struct sroce_qp *qp);
void sroce_pace_init(struct sroce_qp *qp);
void sroce_pace_exit(struct sroce_qp *qp);
void sroce_pace_reset(struct sroce_qp *qp);
void sroce_pace_cap(struct sroce_qp *qp, u32 kbps, u32 burst);
void sroce_pace_cnp(struct sroce_qp *qp);
bool sroce_pace_marked(struct sroce_qp *qp);
bool sroce_pace_wait(struct sroce_qp *qp, int bit, unsigned long *flags);
void sroce_pace_until(struct sroce_qp *qp, ktime_t when, int bit, unsigned long *flags);
ktime_t sroce_pace_due(const struct sroce_qp *qp, bool response);
u32 sroce_pace_quantum(const struct sroce_qp *qp, bool response);
void sroce_pace_spend(struct sroce_qp *qp, u32 pkts, u32 bytes, bool response);
void sroce_pace_spend_cap(struct sroce_qp *qp, u32 bytes);

/**
 * sroce_pace_open - may a queue pair send now, as far as its rate goes?
 * @qp: queue pair; the caller owns the side that sends
 * @bit: set in @flags if not: that side is then woken in time
 * @flags: of that side
 *
 * Return: true if so; else as sroce_pace_wait().
 */
static inline bool sroce_pace_open(struct sroce_qp *qp, int bit, unsigned long *flags)
{
	return likely(!READ_ONCE(qp->pace.paced)) || sroce_pace_wait(qp, bit, flags);
}

/*
 * Until when is the oldest packet that is out, or all, to be sent again and kept back by a rate?
 * Return: that time, which is after @now; 0 if there is nothing to wait for.
 */
static inline ktime_t sroce_repair_kept_until(const struct sroce_qp *qp, ktime_t now)
{
	const struct sroce_sq *sq = &qp->sq;
	ktime_t due;

	if (likely(!READ_ONCE(qp->pace.paced)) ||
	    (!sq->repair.due && sq->psn_nxt != sq->psn_una))
		return 0;
	due = sroce_pace_due(qp, false);
	return ktime_before(now, due) ? due : 0;
}

/* Packets that may leave at once, of the requester's or @response's. */
static inline u32 sroce_pace_burst(const struct sroce_qp *qp, bool response)
{
	return likely(!READ_ONCE(qp->pace.paced)) ? U32_MAX : sroce_pace_quantum(qp, response);
}

/* So much has been sent. */
static inline void sroce_pace_sent(struct sroce_qp *qp, u32 pkts, u32 bytes, bool response)
{
	if (unlikely(READ_ONCE(qp->pace.limited)))
		sroce_pace_spend(qp, pkts, bytes, response);
}

/* retry.c */
enum hrtimer_restart sroce_retry_timer(struct hrtimer *timer);
void sroce_retry_run(struct sroce_qp *qp);
void sroce_retry_progress(struct sroce_qp *qp);
void sroce_retry_smooth(u64 *mean, u64 *off, u64 ns);
void sroce_retry_acked(struct sroce_qp *qp);
void sroce_retry_arrived(struct sroce_qp *qp);
void sroce_retry_rnr(struct sroce_qp *qp, u8 code);
void sroce_retry_nak(struct sroce_qp *qp);
void sroce_retry_time(struct sroce_qp *qp, u32 psn);
void sroce_retry_backoff(struct sroce_qp *qp);
void sroce_retry_arm(struct sroce_qp *qp);
void sroce_retry_cap(struct sroce_qp *qp, u32 kbps, u32 burst);
void sroce_retry_no_route(struct sroce_qp *qp);
void sroce_retry_reset(struct sroce_qp *qp);
void sroce_retry_go_back(struct sroce_qp *qp, ktime_t now, u8 syndrome, bool counts);

/* repair.c */
void sroce_repair_nak(struct sroce_qp *qp, bool told);
void sroce_repair_oldest(struct sroce_qp *qp);
void sroce_repair_told(struct sroce_qp *qp, bool alone);
void sroce_repair_missing(struct sroce_sq *sq, ktime_t now);
void sroce_repair_sent(struct sroce_qp *qp, u32 end, u32 lacks);
void sroce_repair_moved(struct sroce_qp *qp);
void sroce_repair_acked(struct sroce_qp *qp);
void sroce_repair_vain(struct sroce_qp *qp);
void sroce_repair_run(struct sroce_qp *qp, ktime_t now);
void sroce_repair_arm(struct sroce_qp *qp, ktime_t now);
u64 sroce_repair_slack(const struct sroce_sq *sq, ktime_t due);
void sroce_repair_forget(struct sroce_qp *qp);
void sroce_repair_reset(struct sroce_qp *qp);
u64 sroce_repair_answer_ns(const struct sroce_sq *sq, ktime_t now);
void sroce_repair_swept(struct sroce_qp *qp);

/* raw.c */
bool sroce_raw_able(struct sroce_dev *sdev);
bool sroce_raw_allowed(struct sroce_dev *sdev);
int sroce_raw_create(struct sroce_qp *qp, struct ib_qp_init_attr *init,
		     struct ib_udata *udata);
void sroce_raw_destroy(struct sroce_qp *qp);
struct sk_buff *sroce_raw_alloc(struct sroce_qp *qp, u32 len);
int sroce_raw_xmit(struct sroce_qp *qp, struct sk_buff *skb, bool again);
bool sroce_frames_make(struct sroce_frames *frames, struct sk_buff *skb, int mac);
void sroce_frames_free(struct sroce_frames *frames);
void sroce_raw_recv(struct sroce_qp *qp, const struct sroce_frames *frames,
		    const struct sroce_flow_key *key, u32 tag);
bool sroce_sink_recv(const struct sroce_sink *sink, const struct sroce_frames *frames,
		     const struct sroce_flow_key *key, u32 tag);
void sroce_sink_flush(const struct sroce_sink *sink);

/* flow.c */
struct ib_flow *sroce_create_flow(struct ib_qp *ibqp, struct ib_flow_attr *attr,
				  struct ib_udata *udata);
int sroce_destroy_flow(struct ib_flow *ibflow);
void sroce_flow_detach(struct sroce_dev *sdev);
bool sroce_flow_loop(struct sroce_dev *sdev, const struct net_device *ndev,
		     struct sk_buff *skb);

/* wq.c */
struct ib_wq *sroce_create_wq(struct ib_pd *ibpd, struct ib_wq_init_attr *init,
			      struct ib_udata *udata);
int sroce_modify_wq(struct ib_wq *ibwq, struct ib_wq_attr *attr, u32 mask,
		    struct ib_udata *udata);
int sroce_destroy_wq(struct ib_wq *ibwq, struct ib_udata *udata);
int sroce_create_rwq_ind_table(struct ib_rwq_ind_table *tbl,
			       struct ib_rwq_ind_table_init_attr *init,
			       struct ib_udata *udata);
int sroce_destroy_rwq_ind_table(struct ib_rwq_ind_table *tbl);
void sroce_wq_recv(struct sroce_wq *wq, struct sroce_qp *qp, const struct sroce_frames *frames,
		   const struct sroce_flow_key *key, u32 tag);
int sroce_wq_doorbell(struct ib_ucontext *ibuc, u32 num);
void sroce_wq_fatal_all(struct sroce_dev *sdev);

/* pma.c */
int sroce_process_mad(struct ib_device *ibdev, int flags, u32 port, const struct ib_wc *wc,
		      const struct ib_grh *grh, const struct ib_mad *in, struct ib_mad *out,
		      size_t *out_size, u16 *out_pkey_index);
void sroce_pma_init(struct sroce_dev *sdev, const struct net_device *ndev);

/* icrc.c */
void sroce_icrc_init(void);
void sroce_icrc_exit(void);
u32 sroce_crc32(u32 crc, const void *p, size_t len);

#endif /* SROCE_H */
