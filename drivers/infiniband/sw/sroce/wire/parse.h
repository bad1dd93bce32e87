/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SROCE_WIRE_PARSE_H
#define SROCE_WIRE_PARSE_H

#include "opcode.h"
#include "roce.h"

/* Why a packet was not taken; the responder never sees one of these. */
enum wire_verdict {
	WIRE_OK,
	WIRE_BAD_LENGTH,	/* too short for its headers, or not whole words */
	WIRE_BAD_VERSION,	/* transport header version other than 0 */
	WIRE_BAD_OPCODE,	/* reserved, or of a transport we do not speak */
	WIRE_BAD_PAD,		/* padding that the opcode or the length forbids */
};

/**
 * struct wire_pkt - a packet, taken apart
 * @op: the opcode's row in the table
 * @opcode: BTH opcode
 * @solicited: BTH solicited event
 * @ackreq: BTH acknowledge request
 * @becn: BTH backward congestion notification, of which a CNP says no more than its opcode does
 * @pad: bytes of padding behind the payload
 * @pkey: partition key
 * @qpn: destination queue pair
 * @psn: packet sequence number
 * @payload_len: bytes of payload
 * @syndrome: AETH
 * @msn: AETH message sequence number, which no requester here needs: PSNs tell
 * @imm: ImmDt in network order, as it lies on the wire
 * @ieth_rkey: IETH: the key to invalidate
 * @va: RETH, AtomicETH virtual address
 * @rkey: RETH, AtomicETH
 * @dma_len: RETH
 * @swap_add: AtomicETH
 * @compare: AtomicETH
 * @orig: AtomicAckETH
 * @qkey: DETH
 * @src_qpn: DETH
 * @srqn: XRCETH
 * @flush: FETH: placement type and selectivity
 *
 * A field of a header that @op does not have is zero.
 */
struct wire_pkt {
	const struct wire_opcode *op;
	__u8 opcode;
	__u8 solicited:1;
	__u8 ackreq:1;
	__u8 becn:1;
	__u8 pad:2;
	__u8 syndrome;
	__u16 pkey;
	__u32 qpn;
	__u32 psn;
	__u32 payload_len;
	__u32 msn;
	__u8 imm[4];
	__u32 ieth_rkey;
	__u32 rkey;
	__u32 dma_len;
	__u64 va;
	__u64 swap_add;
	__u64 compare;
	__u64 orig;
	__u32 qkey;
	__u32 src_qpn;
	__u32 srqn;
	__u32 flush;
};

enum wire_verdict wire_parse(const __u8 *hdr, __u32 len, struct wire_pkt *pkt);

#endif /* SROCE_WIRE_PARSE_H */
