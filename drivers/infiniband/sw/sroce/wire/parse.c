// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The only door for what comes from the wire: a packet that passes has every
 * header that its opcode names, and a payload and padding that add up. What
 * depends on a queue pair (its state, its path MTU, its PSN) comes later.
 */
#include "parse.h"

static void parse_extensions(const __u8 *p, __u16 flags, struct wire_pkt *pkt)
{
	if (flags & WIRE_XRCETH) {
		pkt->srqn = wire_get24(p + 1);
		p += WIRE_XRCETH_LEN;
	}
	if (flags & WIRE_DETH) {
		pkt->qkey = wire_get32(p);
		pkt->src_qpn = wire_get24(p + 5);
		p += WIRE_DETH_LEN;
	}
	if (flags & WIRE_FETH) {
		pkt->flush = wire_get32(p);
		p += WIRE_FETH_LEN;
	}
	if (flags & WIRE_RETH) {
		pkt->va = wire_get64(p);
		pkt->rkey = wire_get32(p + 8);
		pkt->dma_len = wire_get32(p + 12);
		p += WIRE_RETH_LEN;
	}
	if (flags & WIRE_ATOMICETH) {
		pkt->va = wire_get64(p);
		pkt->rkey = wire_get32(p + 8);
		pkt->swap_add = wire_get64(p + 12);
		pkt->compare = wire_get64(p + 20);
		p += WIRE_ATOMICETH_LEN;
	}
	if (flags & WIRE_AETH) {
		pkt->syndrome = p[0];
		pkt->msn = wire_get24(p + 1);
		p += WIRE_AETH_LEN;
	}
	if (flags & WIRE_ATOMICACK) {
		pkt->orig = wire_get64(p);
		p += WIRE_ATOMICACK_LEN;
	}
	if (flags & WIRE_IMM) {
		pkt->imm[0] = p[0];
		pkt->imm[1] = p[1];
		pkt->imm[2] = p[2];
		pkt->imm[3] = p[3];
		p += WIRE_IMM_LEN;
	}
	if (flags & WIRE_IETH)
		pkt->ieth_rkey = wire_get32(p);
}

/**
 * wire_parse - check a packet and take it apart
 * @hdr: its first bytes from the BTH on, min(@len, WIRE_MAX_HDR_LEN) of them
 * @len: bytes from the BTH to the end of the ICRC
 * @pkt: filled in
 *
 * Order as in IBTA Vol.1 9.6: length, version, opcode, then the rest. Whether
 * the ICRC is right is the caller's to check. Any context.
 *
 * Return: WIRE_OK, or why the packet has to be dropped; @pkt then holds
 * nothing to be used.
 */
enum wire_verdict wire_parse(const __u8 *hdr, __u32 len, struct wire_pkt *pkt)
{
	static const struct wire_pkt empty;
	const struct wire_opcode *op;
	__u32 rest;
	__u8 flags;

	if (len < WIRE_BTH_LEN + WIRE_ICRC_LEN || len % 4)
		return WIRE_BAD_LENGTH;

	flags = hdr[WIRE_BTH_FLAGS];
	if (flags & WIRE_BTH_TVER_MASK)
		return WIRE_BAD_VERSION;

	op = &wire_opcodes[hdr[WIRE_BTH_OPCODE]];
	if (op->class == WIRE_CLASS_NONE)
		return WIRE_BAD_OPCODE;
	if (len < (__u32)op->hdr_len + WIRE_ICRC_LEN)
		return WIRE_BAD_LENGTH;

	*pkt = empty;
	pkt->op = op;
	pkt->opcode = hdr[WIRE_BTH_OPCODE];
	pkt->solicited = !!(flags & WIRE_BTH_SE);
	pkt->pad = flags >> WIRE_BTH_PAD_SHIFT & WIRE_BTH_PAD_MASK;

	/* a full packet has nothing to pad: its PMTU is a power of two */
	if (pkt->pad && !(op->flags & WIRE_END))
		return WIRE_BAD_PAD;
	rest = len - op->hdr_len - WIRE_ICRC_LEN;
	if (rest < pkt->pad)
		return WIRE_BAD_PAD;
	if (rest && !(op->flags & WIRE_PAYLOAD))
		return WIRE_BAD_LENGTH;
	pkt->payload_len = rest - pkt->pad;

	pkt->pkey = wire_get16(hdr + WIRE_BTH_PKEY);
	pkt->becn = hdr[WIRE_BTH_RESV8A] >> 6 & 1;
	pkt->qpn = wire_get24(hdr + WIRE_BTH_DQPN);
	pkt->ackreq = hdr[WIRE_BTH_ACKREQ] >> 7;
	pkt->psn = wire_get24(hdr + WIRE_BTH_PSN);
	if (op->hdr_len > WIRE_BTH_LEN)
		parse_extensions(hdr + WIRE_BTH_LEN, op->flags, pkt);
	return WIRE_OK;
}
