/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SROCE_WIRE_ICRC_H
#define SROCE_WIRE_ICRC_H

#include "roce.h"

/* 8 bytes in the place of the LRH, then IP, UDP and BTH */
#define WIRE_ICRC_HEAD4_LEN	(8 + WIRE_IP4_LEN + WIRE_UDP_LEN + WIRE_BTH_LEN)
#define WIRE_ICRC_HEAD6_LEN	(8 + WIRE_IP6_LEN + WIRE_UDP_LEN + WIRE_BTH_LEN)
#define WIRE_ICRC_HEAD_MAX	WIRE_ICRC_HEAD6_LEN

#define WIRE_ICRC_SEED		0xffffffffU

__u32 wire_icrc_head4(__u8 *out, const __u8 *ip, __u16 id, __u16 udp_len, const __u8 *bth);
__u32 wire_icrc_head6(__u8 *out, const __u8 *ip, __u16 udp_len, const __u8 *bth);

/**
 * wire_icrc_head_next - the masked front of the next packet of the same length
 * @head: that of the one before it in its burst; changed into the next's
 * @len: what it is long
 * @id: the identification that the packet has on the wire; over IPv6 it has none
 * @bth: its base transport header, whose first eight bytes are the same
 */
static inline void wire_icrc_head_next(__u8 *head, __u32 len, __u16 id, const __u8 *bth)
{
	if (len == WIRE_ICRC_HEAD4_LEN)
		wire_put16(head + 8 + 4, id);
	__builtin_memcpy(head + len - 4, bth + WIRE_BTH_ACKREQ, 4);
}

/* The ICRC is sent from its low byte up, unlike everything else here. */
static inline void wire_icrc_put(__u8 *p, __u32 crc)
{
	crc = ~crc;
	p[0] = (__u8)crc;
	p[1] = (__u8)(crc >> 8);
	p[2] = (__u8)(crc >> 16);
	p[3] = (__u8)(crc >> 24);
}

static inline int wire_icrc_match(const __u8 *p, __u32 crc)
{
	__u8 want[WIRE_ICRC_LEN];

	wire_icrc_put(want, crc);
	return p[0] == want[0] && p[1] == want[1] && p[2] == want[2] && p[3] == want[3];
}

#endif /* SROCE_WIRE_ICRC_H */
