// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The fastest CRC-32 that this kernel has, in softirq as anywhere. */
#include <linux/crc32.h>

#include "sroce.h"

#ifdef SROCE_CRC32_SHASH
#include <crypto/hash.h>
#include <linux/ktime.h>
#include <linux/slab.h>

/*
 * Up to 6.13, crc32_le() is table-driven on x86 and the carry-less
 * multiplication sits behind the crypto API, whose calls cost more than a
 * short buffer takes.
 */
#define SHASH_MIN_LEN	128

/* What the two are compared by: a path MTU of Ethernet's, and the best of some runs. */
#define TIMED_LEN	1024
#define TIMED_RUNS	8

static struct crypto_shash *sroce_shash;

static u32 crc_by_shash(struct crypto_shash *tfm, u32 crc, const void *p, size_t len)
{
	SHASH_DESC_ON_STACK(desc, tfm);

	desc->tfm = tfm;
	*(u32 *)shash_desc_ctx(desc) = crc;
	crypto_shash_update(desc, p, len);
	return *(u32 *)shash_desc_ctx(desc);
}

/**
 * sroce_crc32 - go on with a CRC over some bytes
 * @crc: so far, or WIRE_ICRC_SEED
 * @p: the bytes
 * @len: how many
 *
 * Any context. Return: the CRC, not yet complemented.
 */
u32 sroce_crc32(u32 crc, const void *p, size_t len)
{
	if (len < SHASH_MIN_LEN || !sroce_shash)
		return crc32_le(crc, p, len);
	return crc_by_shash(sroce_shash, crc, p, len);
}

/* With @tfm, or without; in nanoseconds */
static u64 timed(struct crypto_shash *tfm, const void *p)
{
	u64 least = U64_MAX;
	u32 crc = 0;
	int i;

	for (i = 0; i < TIMED_RUNS; i++) {
		const u64 start = ktime_get_ns();

		crc = tfm ? crc_by_shash(tfm, crc, p, TIMED_LEN) : crc32_le(crc, p, TIMED_LEN);
		/* or a function without effects would not be called */
		barrier_data(&crc);
		least = min(least, ktime_get_ns() - start);
	}
	return least;
}

/**
 * sroce_icrc_init - find the CRC's implementation
 *
 * An emulated CPU has the multiplication, too, and is slower by it than by tables.
 *
 * May sleep. Return: 0 or an errno.
 */
int sroce_icrc_init(void)
{
	struct crypto_shash *tfm = crypto_alloc_shash("crc32", 0, 0);
	void *p;

	/* a kernel without the crypto module has crc32_le() */
	if (IS_ERR(tfm))
		return 0;
	p = kzalloc(TIMED_LEN, GFP_KERNEL);
	if (!p) {
		crypto_free_shash(tfm);
		return -ENOMEM;
	}
	if (timed(tfm, p) < timed(NULL, p))
		sroce_shash = tfm;
	else
		crypto_free_shash(tfm);
	kfree(p);
	return 0;
}

void sroce_icrc_exit(void)
{
	if (sroce_shash)
		crypto_free_shash(sroce_shash);
}
#else
u32 sroce_crc32(u32 crc, const void *p, size_t len)
{
	return crc32_le(crc, p, len);
}

int sroce_icrc_init(void)
{
	return 0;
}

void sroce_icrc_exit(void)
{
}
#endif
