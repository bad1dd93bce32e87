/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The wire format of RoCE v2: transport headers (IBTA Vol.1 ch. 9.2 and 9.3,
 * Annex A17 for the encapsulation in UDP) as offsets into bytes.
 */
#ifndef SROCE_WIRE_ROCE_H
#define SROCE_WIRE_ROCE_H

#include "bytes.h"
#include "psn.h"

#define WIRE_UDP_PORT		4791

/* Of a port's management datagrams, 3.5.3 */
#define WIRE_QPN_GSI		1
/* Of all queue pairs of a group, 10.5.2 */
#define WIRE_QPN_MULTICAST	0xffffff

#define WIRE_IP4_LEN		20
#define WIRE_IP6_LEN		40
#define WIRE_UDP_LEN		8
#define WIRE_ICRC_LEN		4

/* Base transport header, 9.2 */
#define WIRE_BTH_LEN		12
#define WIRE_BTH_OPCODE		0
#define WIRE_BTH_FLAGS		1	/* SE:1 M:1 PadCnt:2 TVer:4 */
#define WIRE_BTH_PKEY		2
#define WIRE_BTH_RESV8A		4	/* FECN:1 BECN:1, masked in the ICRC */
#define WIRE_BTH_DQPN		5
#define WIRE_BTH_ACKREQ		8	/* A:1 reserved:7 */
#define WIRE_BTH_PSN		9

#define WIRE_BTH_BECN		0x40
#define WIRE_BTH_SE		0x80
#define WIRE_BTH_MIGREQ		0x40
#define WIRE_BTH_PAD_SHIFT	4
#define WIRE_BTH_PAD_MASK	0x3
#define WIRE_BTH_TVER_MASK	0x0f
#define WIRE_BTH_A		0x80

/* Extension headers, 9.3 */
#define WIRE_DETH_LEN		8
#define WIRE_RETH_LEN		16
#define WIRE_ATOMICETH_LEN	28
#define WIRE_AETH_LEN		4
#define WIRE_ATOMICACK_LEN	8
#define WIRE_IMM_LEN		4
#define WIRE_IETH_LEN		4
#define WIRE_XRCETH_LEN		4
#define WIRE_FETH_LEN		4

/* Congestion notification packet: reserved bytes behind the BTH */
#define WIRE_CNP_OPCODE		0x81
#define WIRE_CNP_RESERVED	16

/* the longest: XRC FETCH_ADD with BTH, XRCETH and AtomicETH */
#define WIRE_MAX_HDR_LEN	(WIRE_BTH_LEN + WIRE_XRCETH_LEN + WIRE_ATOMICETH_LEN)

/* FETH, Annex A19: placement type and selectivity level */
#define WIRE_FETH_GLOBAL	0x01
#define WIRE_FETH_PERSISTENT	0x02
#define WIRE_FETH_LEVEL_MR	0x10
#define WIRE_FETH_MASK		0x13

/* AETH syndrome, 9.7.5.1.1 table 46: two bits of kind, below a reserved one, five of value */
#define WIRE_AETH_KIND_MASK	0xe0
#define WIRE_AETH_VALUE_MASK	0x1f
#define WIRE_AETH_ACK		0x00
#define WIRE_AETH_RNR_NAK	0x20
#define WIRE_AETH_NAK		0x60
/* a responder that gives no end-to-end credits */
#define WIRE_AETH_CREDIT_INVALID 0x1f
/* nothing but an acknowledgement: no credits are counted */
#define WIRE_AETH_PURE_ACK	(WIRE_AETH_ACK | WIRE_AETH_CREDIT_INVALID)

/* NAK codes, table 47 */
enum wire_nak {
	WIRE_NAK_PSN_SEQ	= 0,
	WIRE_NAK_INVALID_REQ	= 1,
	WIRE_NAK_REM_ACCESS	= 2,
	WIRE_NAK_REM_OP		= 3,
	WIRE_NAK_INV_RD_REQ	= 4,
};

/**
 * wire_bth_put - write a base transport header
 * @p: WIRE_BTH_LEN bytes
 * @opcode: BTH opcode
 * @solicited: ask for a solicited event at the responder
 * @pad: bytes of padding behind the payload, 0 to 3
 * @pkey: partition key
 * @dqpn: destination queue pair
 * @ackreq: ask for an acknowledgement
 * @psn: packet sequence number
 *
 * MigReq is set: the path is in the migrated state, the only one of a device
 * without automatic path migration (IBTA Vol.1 17.2.8).
 */
static inline void wire_bth_put(__u8 *p, __u8 opcode, int solicited, __u8 pad,
				__u16 pkey, __u32 dqpn, int ackreq, __u32 psn)
{
	p[WIRE_BTH_OPCODE] = opcode;
	p[WIRE_BTH_FLAGS] = (__u8)((solicited ? WIRE_BTH_SE : 0) | WIRE_BTH_MIGREQ |
				   pad << WIRE_BTH_PAD_SHIFT);
	wire_put16(p + WIRE_BTH_PKEY, pkey);
	p[WIRE_BTH_RESV8A] = 0;
	wire_put24(p + WIRE_BTH_DQPN, dqpn);
	p[WIRE_BTH_ACKREQ] = ackreq ? WIRE_BTH_A : 0;
	wire_put24(p + WIRE_BTH_PSN, psn);
}

/**
 * wire_cnp_put - write a congestion notification, Annex A17.9.3
 * @p: WIRE_BTH_LEN and WIRE_CNP_RESERVED bytes
 * @pkey: of the packet that came marked
 * @dqpn: the queue pair that sent it
 */
static inline void wire_cnp_put(__u8 *p, __u16 pkey, __u32 dqpn)
{
	int i;

	wire_bth_put(p, WIRE_CNP_OPCODE, 0, 0, pkey, dqpn, 0, 0);
	p[WIRE_BTH_FLAGS] = 0;
	p[WIRE_BTH_RESV8A] = WIRE_BTH_BECN;
	for (i = 0; i < WIRE_CNP_RESERVED; i++)
		p[WIRE_BTH_LEN + i] = 0;
}

static inline int wire_aeth_is_ack(__u8 syndrome)
{
	return (syndrome & WIRE_AETH_KIND_MASK) == WIRE_AETH_ACK;
}

static inline void wire_aeth_put(__u8 *p, __u8 syndrome, __u32 msn)
{
	p[0] = syndrome;
	wire_put24(p + 1, msn);
}

#endif /* SROCE_WIRE_ROCE_H */
