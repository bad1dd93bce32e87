// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The opcodes of IBTA Vol.1 table 38 and its annexes: which transport has
 * which operation, and the headers that each carries.
 */
#include "gaps.h"
#include "opcode.h"
#include "roce.h"

#define OP(transport, operation, cls, fl)					\
	[(transport) | (operation)] = {						\
		.class = (cls),							\
		.flags = (fl),							\
		.hdr_len = WIRE_BTH_LEN +					\
			   ((fl) & WIRE_XRCETH ? WIRE_XRCETH_LEN : 0) +		\
			   ((fl) & WIRE_DETH ? WIRE_DETH_LEN : 0) +		\
			   ((fl) & WIRE_FETH ? WIRE_FETH_LEN : 0) +		\
			   ((fl) & WIRE_RETH ? WIRE_RETH_LEN : 0) +		\
			   ((fl) & WIRE_ATOMICETH ? WIRE_ATOMICETH_LEN : 0) +	\
			   ((fl) & WIRE_AETH ? WIRE_AETH_LEN : 0) +		\
			   ((fl) & WIRE_ATOMICACK ? WIRE_ATOMICACK_LEN : 0) +	\
			   ((fl) & WIRE_IMM ? WIRE_IMM_LEN : 0) +		\
			   ((fl) & WIRE_IETH ? WIRE_IETH_LEN : 0),		\
	}

#define ONLY (WIRE_START | WIRE_END)

/* SEND and WRITE: of every connected transport */
#define CONNECTED(tr, x)							\
	OP(tr, WIRE_SEND_FIRST, WIRE_CLASS_SEND, (x) | WIRE_START | WIRE_PAYLOAD), \
	OP(tr, WIRE_SEND_MIDDLE, WIRE_CLASS_SEND, (x) | WIRE_PAYLOAD),		\
	OP(tr, WIRE_SEND_LAST, WIRE_CLASS_SEND, (x) | WIRE_END | WIRE_PAYLOAD),	\
	OP(tr, WIRE_SEND_LAST_IMM, WIRE_CLASS_SEND,				\
	   (x) | WIRE_END | WIRE_IMM | WIRE_PAYLOAD),				\
	OP(tr, WIRE_SEND_ONLY, WIRE_CLASS_SEND, (x) | ONLY | WIRE_PAYLOAD),	\
	OP(tr, WIRE_SEND_ONLY_IMM, WIRE_CLASS_SEND,				\
	   (x) | ONLY | WIRE_IMM | WIRE_PAYLOAD),				\
	OP(tr, WIRE_WRITE_FIRST, WIRE_CLASS_WRITE,				\
	   (x) | WIRE_START | WIRE_RETH | WIRE_PAYLOAD),			\
	OP(tr, WIRE_WRITE_MIDDLE, WIRE_CLASS_WRITE, (x) | WIRE_PAYLOAD),	\
	OP(tr, WIRE_WRITE_LAST, WIRE_CLASS_WRITE, (x) | WIRE_END | WIRE_PAYLOAD), \
	OP(tr, WIRE_WRITE_LAST_IMM, WIRE_CLASS_WRITE,				\
	   (x) | WIRE_END | WIRE_IMM | WIRE_PAYLOAD),				\
	OP(tr, WIRE_WRITE_ONLY, WIRE_CLASS_WRITE,				\
	   (x) | ONLY | WIRE_RETH | WIRE_PAYLOAD),				\
	OP(tr, WIRE_WRITE_ONLY_IMM, WIRE_CLASS_WRITE,				\
	   (x) | ONLY | WIRE_RETH | WIRE_IMM | WIRE_PAYLOAD)

/* What is acknowledged: of the reliable transports. Responses have no XRCETH. */
#define RELIABLE(tr, x)								\
	OP(tr, WIRE_READ_REQUEST, WIRE_CLASS_READ, (x) | ONLY | WIRE_RETH),	\
	OP(tr, WIRE_READ_RESPONSE_FIRST, WIRE_CLASS_READ_RESPONSE,		\
	   WIRE_START | WIRE_AETH | WIRE_PAYLOAD | WIRE_RESPONSE),		\
	OP(tr, WIRE_READ_RESPONSE_MIDDLE, WIRE_CLASS_READ_RESPONSE,		\
	   WIRE_PAYLOAD | WIRE_RESPONSE),					\
	OP(tr, WIRE_READ_RESPONSE_LAST, WIRE_CLASS_READ_RESPONSE,		\
	   WIRE_END | WIRE_AETH | WIRE_PAYLOAD | WIRE_RESPONSE),		\
	OP(tr, WIRE_READ_RESPONSE_ONLY, WIRE_CLASS_READ_RESPONSE,		\
	   ONLY | WIRE_AETH | WIRE_PAYLOAD | WIRE_RESPONSE),			\
	OP(tr, WIRE_ACKNOWLEDGE, WIRE_CLASS_ACK, ONLY | WIRE_AETH | WIRE_RESPONSE), \
	OP(tr, WIRE_ATOMIC_ACKNOWLEDGE, WIRE_CLASS_ATOMIC_ACK,			\
	   ONLY | WIRE_AETH | WIRE_ATOMICACK | WIRE_RESPONSE),			\
	OP(tr, WIRE_CMP_SWAP, WIRE_CLASS_ATOMIC, (x) | ONLY | WIRE_ATOMICETH),	\
	OP(tr, WIRE_FETCH_ADD, WIRE_CLASS_ATOMIC, (x) | ONLY | WIRE_ATOMICETH),	\
	OP(tr, WIRE_SEND_LAST_INV, WIRE_CLASS_SEND,				\
	   (x) | WIRE_END | WIRE_IETH | WIRE_PAYLOAD),				\
	OP(tr, WIRE_SEND_ONLY_INV, WIRE_CLASS_SEND,				\
	   (x) | ONLY | WIRE_IETH | WIRE_PAYLOAD),				\
	OP(tr, WIRE_FLUSH, WIRE_CLASS_FLUSH, (x) | ONLY | WIRE_FETH | WIRE_RETH), \
	OP(tr, WIRE_ATOMIC_WRITE, WIRE_CLASS_ATOMIC_WRITE,			\
	   (x) | ONLY | WIRE_RETH | WIRE_PAYLOAD)

const struct wire_opcode wire_opcodes[256] = {
	CONNECTED(WIRE_RC, 0),
	RELIABLE(WIRE_RC, 0),
	CONNECTED(WIRE_UC, 0),
	CONNECTED(WIRE_XRC, WIRE_XRCETH),
	RELIABLE(WIRE_XRC, WIRE_XRCETH),
	OP(WIRE_UD, WIRE_SEND_ONLY, WIRE_CLASS_SEND, ONLY | WIRE_DETH | WIRE_PAYLOAD),
	OP(WIRE_UD, WIRE_SEND_ONLY_IMM, WIRE_CLASS_SEND,
	   ONLY | WIRE_DETH | WIRE_IMM | WIRE_PAYLOAD),
	/* 16 reserved bytes follow the BTH; they are this packet's payload */
	OP(WIRE_CNP, 0x01, WIRE_CLASS_CNP, ONLY | WIRE_PAYLOAD | WIRE_RESPONSE),
	OP(WIRE_GAPS, 0, WIRE_CLASS_GAPS, ONLY | WIRE_PAYLOAD | WIRE_RESPONSE),
};
