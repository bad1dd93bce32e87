/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SROCE_WIRE_OPCODE_H
#define SROCE_WIRE_OPCODE_H

#include <linux/types.h>

/* BTH opcode: the transport in three bits, the operation in five (9.2.1) */
#define WIRE_TRANSPORT_MASK	0xe0
enum wire_transport {
	WIRE_RC		= 0x00,
	WIRE_UC		= 0x20,
	WIRE_RD		= 0x40,
	WIRE_UD		= 0x60,
	WIRE_CNP	= 0x80,		/* Annex A17.9.3 */
	WIRE_XRC	= 0xa0,		/* Annex A14 */
};

enum wire_operation {
	WIRE_SEND_FIRST			= 0x00,
	WIRE_SEND_MIDDLE		= 0x01,
	WIRE_SEND_LAST			= 0x02,
	WIRE_SEND_LAST_IMM		= 0x03,
	WIRE_SEND_ONLY			= 0x04,
	WIRE_SEND_ONLY_IMM		= 0x05,
	WIRE_WRITE_FIRST		= 0x06,
	WIRE_WRITE_MIDDLE		= 0x07,
	WIRE_WRITE_LAST			= 0x08,
	WIRE_WRITE_LAST_IMM		= 0x09,
	WIRE_WRITE_ONLY			= 0x0a,
	WIRE_WRITE_ONLY_IMM		= 0x0b,
	WIRE_READ_REQUEST		= 0x0c,
	WIRE_READ_RESPONSE_FIRST	= 0x0d,
	WIRE_READ_RESPONSE_MIDDLE	= 0x0e,
	WIRE_READ_RESPONSE_LAST		= 0x0f,
	WIRE_READ_RESPONSE_ONLY		= 0x10,
	WIRE_ACKNOWLEDGE		= 0x11,
	WIRE_ATOMIC_ACKNOWLEDGE		= 0x12,
	WIRE_CMP_SWAP			= 0x13,
	WIRE_FETCH_ADD			= 0x14,
	WIRE_SEND_LAST_INV		= 0x16,
	WIRE_SEND_ONLY_INV		= 0x17,
	WIRE_FLUSH			= 0x1c,	/* Annex A19 */
	WIRE_ATOMIC_WRITE		= 0x1d,
};

#define wire_operation(opcode)	((opcode) & ~WIRE_TRANSPORT_MASK)

/* What a packet is to the one who takes it. */
enum wire_class {
	WIRE_CLASS_NONE,	/* no such opcode */
	WIRE_CLASS_SEND,
	WIRE_CLASS_WRITE,
	WIRE_CLASS_READ,
	WIRE_CLASS_ATOMIC,
	WIRE_CLASS_ATOMIC_WRITE,
	WIRE_CLASS_FLUSH,
	WIRE_CLASS_READ_RESPONSE,
	WIRE_CLASS_ACK,
	WIRE_CLASS_ATOMIC_ACK,
	WIRE_CLASS_CNP,
	WIRE_CLASS_GAPS,
};

/* Its place in a message: an ONLY packet is both ends of one. */
#define WIRE_START	(1U << 0)
#define WIRE_END	(1U << 1)
/* Extension headers, in the order in which they follow the BTH */
#define WIRE_XRCETH	(1U << 2)
#define WIRE_DETH	(1U << 3)
#define WIRE_FETH	(1U << 4)
#define WIRE_RETH	(1U << 5)
#define WIRE_ATOMICETH	(1U << 6)
#define WIRE_AETH	(1U << 7)
#define WIRE_ATOMICACK	(1U << 8)
#define WIRE_IMM	(1U << 9)
#define WIRE_IETH	(1U << 10)
/* May a payload follow? */
#define WIRE_PAYLOAD	(1U << 11)
/* Taken by the requester; without it, by the responder */
#define WIRE_RESPONSE	(1U << 12)

/**
 * struct wire_opcode - what the table says of a BTH opcode
 * @class: what it does
 * @hdr_len: bytes of BTH and extension headers
 * @flags: WIRE_START and so on
 */
struct wire_opcode {
	__u8 class;
	__u8 hdr_len;
	__u16 flags;
};

/* Indexed by the BTH's opcode byte. */
extern const struct wire_opcode wire_opcodes[256];

#endif /* SROCE_WIRE_OPCODE_H */
