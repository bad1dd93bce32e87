/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Packet sequence numbers: 24 bits, compared within a window of half their
 * range (IBTA Vol.1 9.7.2).
 */
#ifndef SROCE_WIRE_PSN_H
#define SROCE_WIRE_PSN_H

#include <linux/types.h>

#define WIRE_PSN_MASK	0xffffffU
/* more packets than this cannot be outstanding on a connection */
#define WIRE_PSN_WINDOW	0x800000U

static inline __u32 wire_psn_add(__u32 psn, __u32 n)
{
	return (psn + n) & WIRE_PSN_MASK;
}

/**
 * wire_psn_diff - how far @a lies ahead of @b
 * @a: a PSN
 * @b: another
 *
 * Return: between -2^23 and 2^23 - 1; negative if @a lies before @b.
 */
static inline __s32 wire_psn_diff(__u32 a, __u32 b)
{
	return (__s32)((a - b) << 8) >> 8;
}

#endif /* SROCE_WIRE_PSN_H */
