/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR Linux-OpenIB) */
/*
 * sroce: what the kernel module and the user space provider share.
 *
 * A queue is a ring of kernel memory that is mapped into the process: a
 * header of struct sroce_ring, then the entries. Indices run freely over 32
 * bits; an entry's place is its index modulo the number of entries, a power
 * of two. The producer stores its entries, then releases its index; the
 * consumer acquires the index before it reads them.
 *
 *	ring			producer	consumer	entry
 *	send queue		program		kernel		64-byte block
 *	receive queue		program		kernel		struct sroce_recv_wqe
 *	shared receive queue	program		kernel		struct sroce_recv_wqe
 *	completion queue	kernel		program		struct sroce_cqe
 *
 * The kernel believes nothing that it finds in a ring: it copies an entry
 * once, checks the copy, and uses the copy.
 */
#ifndef SROCE_ABI_USER_H
#define SROCE_ABI_USER_H

#include <linux/types.h>

/* "sroc": compared for equality only, by the kernel's and rdma-core's core */
#define SROCE_DRIVER_ID		0x73726f63

/* raised when a change would break a provider that was built before it */
#define SROCE_ABI_VERSION	2

/**
 * struct sroce_ring - the header of every ring
 * @prod: index of the next entry to be produced
 * @cons: index of the next entry to be consumed; in a send queue, of the
 *	oldest request that has not completed. Entries of a shared receive
 *	queue before it may be used again: completions say nothing of them
 * @flags: SROCE_RING_*, written by the kernel
 * @seen: send queue: index of the next entry that the kernel will copy; with
 *	SROCE_RING_LINGER
 * @linger: send queue: entries that may wait behind @seen; with
 *	SROCE_RING_LINGER
 * @arm: completion queues: SROCE_CQ_ARM_*, or-ed in by the program and cleared
 *	by the kernel when it raises the event that was asked for. What was in the
 *	ring before raises none by itself: IB_USER_VERBS_CMD_REQ_NOTIFY_CQ has the
 *	kernel look once, if this is still set
 *
 * Each on a cache line of its own, so that the two sides do not fight.
 */
struct sroce_ring {
	__u32 prod;
	__u32 reserved0[15];
	__u32 cons;
	__u32 reserved1[15];
	__u32 flags;
	__u32 seen;
	__u32 linger;
	__u32 reserved2[13];
	__u32 arm;
	__u32 reserved3[15];
};

/*
 * The kernel does not look at this ring by itself: after a full barrier, a
 * program that has moved @prod and finds this set has to ring the doorbell.
 */
#define SROCE_RING_NEED_WAKEUP	(1U << 0)

/*
 * The kernel will look at this send queue by itself before long. A program
 * rings, as above, once there are @linger entries behind @seen, or when it has
 * nothing else to do: it finds its completion queue empty.
 */
#define SROCE_RING_LINGER	(1U << 1)

#define SROCE_CQ_ARM_NEXT	(1U << 0)
#define SROCE_CQ_ARM_SOLICITED	(1U << 1)

struct sroce_sge {
	__aligned_u64 addr;
	__u32 length;
	__u32 lkey;
};

/* What a send queue is counted in. */
#define SROCE_SQ_BLOCK		64

#define SROCE_MAX_SGE		32
#define SROCE_MAX_INLINE	528

/**
 * struct sroce_send_wqe - a send request: this header, then its data
 * @wr_id: given back in the completion
 * @opcode: enum ib_uverbs_wr_opcode
 * @num_blocks: blocks that this request occupies, this one included
 * @flags: SROCE_WQE_*
 * @num_sge: entries of the scatter/gather list; 0 with SROCE_WQE_INLINE
 * @reserved: zero
 * @inline_len: bytes of data that follow; 0 without SROCE_WQE_INLINE
 * @imm_data: immediate data in network order, or the rkey to invalidate; XRC
 *	ATOMIC: number of the remote shared receive queue
 * @rkey: of the remote memory; BIND_MW: the window's new key, whose index part
 *	names the window
 * @remote_addr: of the remote memory
 * @compare_add: ATOMIC: compare (CMP_SWP) or addend (FETCH_ADD)
 * @swap: ATOMIC CMP_SWP: the value to store
 * @remote_srqn: XRC: number of the remote shared receive queue
 * @flush_type: FLUSH: placement types, FETH bits 0 to 3
 * @flush_level: FLUSH: selectivity, FETH bits 4 and 5
 * @flush_len: FLUSH: bytes of remote memory
 * @bind_addr: BIND_MW: first byte of the window
 * @bind_len: BIND_MW: its bytes; 0 unbinds
 * @bind_lkey: BIND_MW: the region's lkey
 * @bind_access: BIND_MW: enum ib_uverbs_access_flags
 * @ah: UD: number of the address handle
 * @remote_qpn: UD: destination queue pair
 * @remote_qkey: UD: its Q_Key
 * @reserved_flush: FLUSH: zero
 * @reserved_xrc: XRC: zero
 * @reserved_ud: UD: zero
 *
 * The data, inline or struct sroce_sge, starts at byte 48: one entry or 16
 * bytes share the first block. The blocks of a request follow each other in
 * the ring and wrap around its end. What an opcode or a transport does not use
 * is zero. On a raw packet queue pair a SEND carries a whole frame.
 */
struct sroce_send_wqe {
	__aligned_u64 wr_id;
	__u8 opcode;
	__u8 num_blocks;
	__u8 flags;
	__u8 num_sge;
	__u16 reserved;
	__u16 inline_len;
	__u32 imm_data;
	__u32 rkey;
	union {
		struct {
			__aligned_u64 remote_addr;
			union {
				__aligned_u64 compare_add;
				struct {
					__u32 flush_len;
					__u8 flush_type;
					__u8 flush_level;
					__u16 reserved_flush;
				};
			};
			union {
				__aligned_u64 swap;
				struct {
					__u32 remote_srqn;
					__u32 reserved_xrc;
				};
			};
		};
		struct {
			__aligned_u64 bind_addr;
			__aligned_u64 bind_len;
			__u32 bind_lkey;
			__u32 bind_access;
		};
		struct {
			__u32 ah;
			__u32 remote_qpn;
			__u32 remote_qkey;
			__u32 reserved_ud[3];
		};
	};
};

/* Opcodes that enum ib_uverbs_wr_opcode of older headers lacks */
#define SROCE_WR_FLUSH		14
#define SROCE_WR_ATOMIC_WRITE	15

#define SROCE_WQE_FENCE		(1U << 0)
#define SROCE_WQE_SIGNALED	(1U << 1)
#define SROCE_WQE_SOLICITED	(1U << 2)
#define SROCE_WQE_INLINE	(1U << 3)

/* The longest request: header and 32 entries, or 528 bytes inline. */
#define SROCE_SQ_MAX_BLOCKS	9

/**
 * struct sroce_recv_wqe - a receive request
 * @wr_id: given back in the completion
 * @num_sge: entries used of @sge
 * @reserved: zero
 * @sge: where the message goes; as many as fit the ring's entry_size
 */
struct sroce_recv_wqe {
	__aligned_u64 wr_id;
	__u32 num_sge;
	__u32 reserved;
	struct sroce_sge sge[];
};

/**
 * struct sroce_cqe - a completion
 * @wr_id: of the request
 * @timestamp: when it completed, nanoseconds of CLOCK_MONOTONIC as the initial
 *	time namespace has it; 0 where SROCE_CQ_TIMESTAMP was not asked for
 * @byte_len: bytes received, read or swapped
 * @imm_data: immediate data in network order, or the invalidated rkey
 * @qp_num: local queue pair, or work queue of an indirection table
 * @src_qp: UD: the sender's queue pair; tag matching: app_ctx of the TMH
 * @wqe_next: index that follows the request in its ring: with this completion
 *	polled, all before it may be used again; of no meaning for a request
 *	from a shared receive queue
 * @vendor_err: AETH syndrome behind a @status other than success
 * @status: enum ibv_wc_status
 * @opcode: enum ib_uverbs_wc_opcode, 128 and up for receives
 * @wc_flags: SROCE_WC_*
 * @pkey_index: UD, GSI
 * @sl: UD: SROCE_SL_*
 * @reserved: zero
 * @flow_tag: raw packets: of the flow rule that steered it here
 * @cvlan: raw packets, and in the kernel GSI: the VLAN tag, with SROCE_WC_VLAN
 * @reserved1: zero
 * @tm_tag: tag matching: tag of the TMH, with SROCE_WC_TM_MATCH
 * @wallclock: as @timestamp, of CLOCK_REALTIME; for SROCE_CQ_WALLCLOCK
 */
struct sroce_cqe {
	__aligned_u64 wr_id;
	__aligned_u64 timestamp;
	__u32 byte_len;
	__u32 imm_data;
	__u32 qp_num;
	__u32 src_qp;
	__u32 wqe_next;
	__u32 vendor_err;
	__u8 status;
	__u8 opcode;
	__u16 wc_flags;
	__u16 pkey_index;
	__u8 sl;
	__u8 reserved;
	union {
		struct {
			__u32 flow_tag;
			__u16 cvlan;
			__u16 reserved1;
		};
		__aligned_u64 tm_tag;
	};
	__aligned_u64 wallclock;
};

#define SROCE_WC_RECV		0x80
#define SROCE_WC_RECV_IMM	0x81
/* of a tag matching queue; their qp_num is no queue pair's that has to be known */
#define SROCE_WC_TM_ADD		0x82
#define SROCE_WC_TM_DEL		0x83
#define SROCE_WC_TM_SYNC	0x84
#define SROCE_WC_TM_RECV	0x85
#define SROCE_WC_TM_NO_TAG	0x86

#define SROCE_WC_GRH		(1U << 0)
#define SROCE_WC_WITH_IMM	(1U << 1)
#define SROCE_WC_IP_CSUM_OK	(1U << 2)
#define SROCE_WC_WITH_INV	(1U << 3)
#define SROCE_WC_TM_SYNC_REQ	(1U << 4)
#define SROCE_WC_TM_MATCH	(1U << 5)
#define SROCE_WC_TM_DATA_VALID	(1U << 6)
/* not one of enum ibv_wc_flags: for the provider, and kverbs.c */
#define SROCE_WC_VLAN		(1U << 15)

/*
 * A datagram's network header. A17.4.5.1 has a completion tell it, and struct ibv_wc has no field
 * for that: a service level is nothing that RoCE packets carry, and programs (UCX) look for what
 * mlx5 has there. Bit 3: with a UDP header.
 */
#define SROCE_SL_IPV6		(8U | 1)
#define SROCE_SL_IPV4		(8U | 2)

/* enum ibv_wc_status goes on where enum ib_wc_status ends */
#define SROCE_WC_STATUS_TM_ERR			22
#define SROCE_WC_STATUS_TM_RNDV_INCOMPLETE	23

/* Opcodes that enum ib_uverbs_wc_opcode of older headers lacks */
#define SROCE_WC_FLUSH		8
#define SROCE_WC_ATOMIC_WRITE	9

/**
 * struct sroce_ring_map - where to find a ring
 * @offset: for mmap() on the command file descriptor
 * @size: bytes to map
 * @entries: of the ring, a power of two
 * @entry_size: bytes
 * @reserved: zero
 */
struct sroce_ring_map {
	__aligned_u64 offset;
	__u32 size;
	__u32 entries;
	__u32 entry_size;
	__u32 reserved;
};

/**
 * struct sroce_alloc_ucontext_resp - the answer to alloc_context
 * @max_inline: most bytes that a request may have inline
 * @max_sge: most entries of a list
 * @reserved: zero
 * @bells: ring of queue pair numbers, a __u32 each. With SROCE_RING_LINGER in its
 *	flags, a program that has to ring for a queue pair may put its number
 *	there instead; then the flags, @seen and @linger of struct sroce_ring say
 *	when SROCE_DOORBELL_BELLS is to be rung
 */
struct sroce_alloc_ucontext_resp {
	__u32 max_inline;
	__u32 max_sge;
	__aligned_u64 reserved;
	struct sroce_ring_map bells;
};

/* Stamps that a completion queue's entries carry */
#define SROCE_CQ_TIMESTAMP	(1U << 0)
#define SROCE_CQ_WALLCLOCK	(1U << 1)

/**
 * struct sroce_create_cq - what a completion queue is asked to do
 * @flags: SROCE_CQ_*
 * @reserved: zero
 *
 * Optional: a provider that asks for nothing may leave it out.
 */
struct sroce_create_cq {
	__u32 flags;
	__u32 reserved;
};

struct sroce_create_cq_resp {
	struct sroce_ring_map cq;
};

/*
 * The new ring holds what was not polled yet at the indices where it was. The
 * program polls and arms nothing from before the call until it has the new one.
 */
struct sroce_resize_cq_resp {
	struct sroce_ring_map cq;
};

#define SROCE_RX_HASH_KEY_LEN	40

/**
 * struct sroce_create_qp - how a queue pair over an indirection table spreads
 * @rx_hash_fields: enum ibv_rx_hash_fields, its first eight (addresses of IPv4
 *	and IPv6, ports of TCP and UDP); 0 for the first entry always
 * @rx_hash_function: IBV_RX_HASH_FUNC_TOEPLITZ
 * @rx_hash_key_len: SROCE_RX_HASH_KEY_LEN
 * @reserved: zero
 * @rx_hash_key: its first @rx_hash_key_len bytes; the others are zero
 *
 * Left out, or all zero, for other queue pairs.
 */
struct sroce_create_qp {
	__aligned_u64 rx_hash_fields;
	__u8 rx_hash_function;
	__u8 rx_hash_key_len;
	__u8 reserved[6];
	__u8 rx_hash_key[128];
};

/**
 * struct sroce_query_device_resp - what the core's answer has no place for
 * @rate_min: of a send queue, in thousands of bits a second (IB_QP_RATE_LIMIT)
 * @rate_max: of a send queue
 * @rate_qpts: bits of enum ib_qp_type that may have one; 0 for none at all
 * @reserved: zero
 */
struct sroce_query_device_resp {
	__u32 rate_min;
	__u32 rate_max;
	__u32 rate_qpts;
	__u32 reserved;
};

/* Of zero size where there is none: of a shared receive queue, of one side. */
struct sroce_create_qp_resp {
	struct sroce_ring_map sq;
	struct sroce_ring_map rq;
};

/**
 * struct sroce_modify_qp - driver data of a modify_qp with IB_QP_RATE_LIMIT, if any
 * @max_burst: bytes of packets that may leave at once, one packet at least; 0 for what the rate
 *	has in some 1.2 ms
 * @reserved: zero
 */
struct sroce_modify_qp {
	__u32 max_burst;
	__u32 reserved;
};

struct sroce_create_srq_resp {
	struct sroce_ring_map srq;
};

/**
 * struct sroce_modify_srq - driver data of a modify_srq
 * @resp_addr: where struct sroce_create_srq_resp goes: the command has no
 *	response of its own. Needed to resize; the new ring holds what is
 *	posted at the indices where it was, and nothing is posted meanwhile
 */
struct sroce_modify_srq {
	__aligned_u64 resp_addr;
};

/**
 * struct sroce_create_ah_resp - an address handle has a number
 * @ah: goes into struct sroce_send_wqe; never 0
 * @reserved: zero
 */
struct sroce_create_ah_resp {
	__u32 ah;
	__u32 reserved;
};

/* A work queue of an indirection table: a receive queue alone. */
struct sroce_create_wq_resp {
	struct sroce_ring_map rq;
};

/* Any protection domain's: reads as zero, and writes to it go nowhere. */
#define SROCE_NULL_LKEY		0x00000001

/*
 * Device memory is mapped by what this method of UVERBS_OBJECT_DM tells, for
 * one that was allocated as well as for one that was imported.
 */
#define SROCE_METHOD_DM_QUERY	((1U << 12) + 0)

#define SROCE_ATTR_DM_QUERY_HANDLE ((1U << 12) + 0)
#define SROCE_ATTR_DM_QUERY_RESP ((1U << 12) + 1)

/**
 * struct sroce_dm_query_resp - where to find device memory
 * @offset: for mmap() on the command file descriptor
 * @length: bytes to map: those asked for, up to a page
 */
struct sroce_dm_query_resp {
	__aligned_u64 offset;
	__aligned_u64 length;
};

/*
 * Operations on the tags of a shared receive queue: a method of
 * UVERBS_OBJECT_SRQ. It is done when the call returns.
 */
#define SROCE_METHOD_TM_OP	((1U << 12) + 0)

#define SROCE_ATTR_TM_OP_HANDLE	((1U << 12) + 0)
#define SROCE_ATTR_TM_OP_CMD	((1U << 12) + 1)
#define SROCE_ATTR_TM_OP_RESP	((1U << 12) + 2)

/* enum ibv_ops_wr_opcode */
#define SROCE_TM_ADD		0
#define SROCE_TM_DEL		1
#define SROCE_TM_SYNC		2

/* enum ibv_ops_flags */
#define SROCE_TM_SIGNALED	(1U << 0)
#define SROCE_TM_SYNC_CNT	(1U << 1)

/* Nothing is outstanding: that many completions, if nobody polls */
#define SROCE_TM_MAX_OPS	16384

/**
 * struct sroce_tm_op - add a tag, delete one, or say what has been seen
 * @wr_id: given back in the operation's completion
 * @recv_wr_id: ADD: given back in those of the message that takes the tag
 * @tag: ADD: what a message's tag has to be
 * @mask: ADD: in these bits
 * @unexpected_cnt: with SROCE_TM_SYNC_CNT: unexpected messages that the program has
 *	seen, all in all
 * @handle: DEL: what ADD has answered, a __u32
 * @opcode: SROCE_TM_ADD, _DEL, _SYNC
 * @flags: SROCE_TM_SIGNALED, SROCE_TM_SYNC_CNT
 * @num_sge: ADD: entries of @sge, all that there are; else 0
 * @reserved: zero
 * @sge: ADD: the buffer
 */
struct sroce_tm_op {
	__aligned_u64 wr_id;
	__aligned_u64 recv_wr_id;
	__aligned_u64 tag;
	__aligned_u64 mask;
	__u32 unexpected_cnt;
	__u32 handle;
	__u8 opcode;
	__u8 flags;
	__u16 num_sge;
	__u32 reserved;
	struct sroce_sge sge[];
};

/*
 * The doorbell: a method of UVERBS_OBJECT_DEVICE with a struct sroce_doorbell. Rung
 * for a send queue that needs a wake-up, the requester runs in the caller; for
 * a queue pair in the error state, both queues are flushed.
 */
#define SROCE_METHOD_DOORBELL	((1U << 12) + 0)

#define SROCE_ATTR_DOORBELL	((1U << 12) + 0)

/* In the place of a queue pair's number: for those that the context's ring names */
#define SROCE_DOORBELL_BELLS	0xffffffffU

/* For none: the program polls, and what it waits for may wait for its CPU */
#define SROCE_DOORBELL_POLLS	0xfffffffeU

struct sroce_doorbell {
	__u32 qp_num;
	__u32 reserved;
};

#endif /* SROCE_ABI_USER_H */
