/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Big-endian fields at any alignment. This folder calls no kernel service, so
 * that the unit tests, the sanitizers and the fuzzer compile the same files
 * in user space; the compiler turns each of these into one load or store.
 */
#ifndef SROCE_WIRE_BYTES_H
#define SROCE_WIRE_BYTES_H

#include <linux/types.h>

static inline __u16 wire_get16(const __u8 *p)
{
	return (__u16)(p[0] << 8 | p[1]);
}

static inline __u32 wire_get24(const __u8 *p)
{
	return (__u32)p[0] << 16 | (__u32)p[1] << 8 | p[2];
}

static inline __u32 wire_get32(const __u8 *p)
{
	return (__u32)p[0] << 24 | wire_get24(p + 1);
}

static inline __u64 wire_get64(const __u8 *p)
{
	return (__u64)wire_get32(p) << 32 | wire_get32(p + 4);
}

static inline void wire_put16(__u8 *p, __u16 v)
{
	p[0] = (__u8)(v >> 8);
	p[1] = (__u8)v;
}

static inline void wire_put24(__u8 *p, __u32 v)
{
	p[0] = (__u8)(v >> 16);
	wire_put16(p + 1, (__u16)v);
}

static inline void wire_put32(__u8 *p, __u32 v)
{
	p[0] = (__u8)(v >> 24);
	wire_put24(p + 1, v);
}

static inline void wire_put64(__u8 *p, __u64 v)
{
	wire_put32(p, (__u32)(v >> 32));
	wire_put32(p + 4, (__u32)v);
}

#endif /* SROCE_WIRE_BYTES_H */
