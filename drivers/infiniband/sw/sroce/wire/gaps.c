// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The gap report, written and read. */
#include "gaps.h"

static void put_pair(__u8 *p, __u32 first, __u32 num)
{
	wire_put16(p, (__u16)first);
	wire_put16(p + 2, (__u16)num);
}

/**
 * wire_gaps_put - write a report
 * @p: WIRE_GAPS_LEN(@gaps->num) bytes, behind a BTH
 * @gaps: what to say
 */
void wire_gaps_put(__u8 *p, const struct wire_gaps *gaps)
{
	__u32 i;

	put_pair(p, WIRE_GAPS_MAGIC >> 16, WIRE_GAPS_MAGIC & 0xffff);
	p += 4;
	for (i = 0; i < gaps->num; i++, p += 4)
		put_pair(p, gaps->gap[i].first, gaps->gap[i].num);
	put_pair(p, gaps->end, gaps->twice);
}

/**
 * wire_gaps_get - read a report
 * @p: what follows the BTH
 * @len: bytes of it
 * @gaps: filled in
 *
 * Return: 0; or -1 if that is no report, with nothing in @gaps to be used. One
 * that is has nothing at all, or begins with a gap at 0, its gaps are in order and do
 * not touch, and a packet that has arrived is the last.
 */
int wire_gaps_get(const __u8 *p, __u32 len, struct wire_gaps *gaps)
{
	__u32 i, num, behind = 0;

	if (len < WIRE_GAPS_LEN(0) || len > WIRE_GAPS_MAX_LEN || len % 4 ||
	    wire_get32(p) != WIRE_GAPS_MAGIC)
		return -1;
	num = len / 4 - 2;
	p += 4;
	for (i = 0; i < num; i++, p += 4) {
		struct wire_gap *gap = &gaps->gap[i];

		gap->first = wire_get16(p);
		gap->num = wire_get16(p + 2);
		if (!gap->num || (i ? gap->first <= behind : gap->first))
			return -1;
		behind = (__u32)gap->first + gap->num;
	}
	gaps->num = num;
	gaps->end = wire_get16(p);
	gaps->twice = wire_get16(p + 2);
	return (num ? gaps->end <= behind : gaps->end) ? -1 : 0;
}
