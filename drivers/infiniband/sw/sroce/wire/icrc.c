// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What the invariant CRC of RoCE v2 covers (IBTA Annex A17.3.3): the packet
 * from its IP header on, with the fields that a router may change taken as
 * ones, behind 64 ones in the place of InfiniBand's local route header. The
 * polynomial is Ethernet's.
 *
 * These build the masked front; the caller runs its CRC over that, and then
 * over the bytes between BTH and ICRC as they are.
 */
#include "icrc.h"

static __u8 *put_ones(__u8 *p, __kernel_size_t n)
{
	__builtin_memset(p, 0xff, n);
	return p + n;
}

static __u8 *put_bytes(__u8 *p, const __u8 *from, __kernel_size_t n)
{
	__builtin_memcpy(p, from, n);
	return p + n;
}

static __u8 *put_udp_bth(__u8 *p, const __u8 *udp, __u16 udp_len, const __u8 *bth)
{
	p = put_bytes(p, udp, 4);
	wire_put16(p, udp_len);
	p = put_ones(p + 2, 2);				/* checksum */
	p = put_bytes(p, bth, WIRE_BTH_RESV8A);
	p = put_ones(p, 1);				/* FECN, BECN, reserved */
	return put_bytes(p, bth + WIRE_BTH_DQPN, WIRE_BTH_LEN - WIRE_BTH_DQPN);
}

/**
 * wire_icrc_head4 - the masked front of a packet over IPv4
 * @out: WIRE_ICRC_HEAD4_LEN bytes
 * @ip: IPv4 header without options, the UDP header behind it
 * @id: the identification that this packet has on the wire
 * @udp_len: the UDP length that this packet has on the wire
 * @bth: its base transport header
 *
 * @id and @udp_len are given apart because @ip may belong to a burst, whose
 * packets get theirs when it is segmented.
 *
 * Return: bytes written to @out.
 */
__u32 wire_icrc_head4(__u8 *out, const __u8 *ip, __u16 id, __u16 udp_len, const __u8 *bth)
{
	__u8 *p = put_ones(out, 8);

	*p++ = ip[0];
	*p++ = 0xff;					/* DSCP, ECN */
	wire_put16(p, WIRE_IP4_LEN + udp_len);
	wire_put16(p + 2, id);
	p = put_bytes(p + 4, ip + 6, 2);		/* flags, fragment offset */
	*p++ = 0xff;					/* TTL */
	*p++ = ip[9];
	p = put_ones(p, 2);				/* checksum */
	p = put_bytes(p, ip + 12, 8);
	p = put_udp_bth(p, ip + WIRE_IP4_LEN, udp_len, bth);
	return (__u32)(p - out);
}

/**
 * wire_icrc_head6 - the masked front of a packet over IPv6
 * @out: WIRE_ICRC_HEAD6_LEN bytes
 * @ip: IPv6 header, the UDP header right behind it
 * @udp_len: the UDP length that this packet has on the wire
 * @bth: its base transport header
 *
 * Return: bytes written to @out.
 */
__u32 wire_icrc_head6(__u8 *out, const __u8 *ip, __u16 udp_len, const __u8 *bth)
{
	__u8 *p = put_ones(out, 8);

	*p++ = ip[0] | 0x0f;				/* traffic class, flow label */
	p = put_ones(p, 3);
	wire_put16(p, udp_len);
	p[2] = ip[6];
	p[3] = 0xff;					/* hop limit */
	p = put_bytes(p + 4, ip + 8, 32);
	p = put_udp_bth(p, ip + WIRE_IP6_LEN, udp_len, bth);
	return (__u32)(p - out);
}
