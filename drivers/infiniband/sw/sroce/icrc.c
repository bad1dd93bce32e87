// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The fastest CRC-32 that this kernel has, in softirq as anywhere. */
#include <linux/crc32.h>

#include "sroce.h"

#ifdef SROCE_CRC32_SHASH
#include <crypto/hash.h>

/*
 * Up to 6.13, crc32_le() is table-driven on x86 and the carry-less
 * multiplication sits behind the crypto API, whose calls cost more than a
 * short buffer takes.
 */
#define SHASH_MIN_LEN	128

static struct crypto_shash *sroce_shash;

static u32 crc_by_shash(u32 crc, const void *p, size_t len)
{
	SHASH_DESC_ON_STACK(desc, sroce_shash);

	desc->tfm = sroce_shash;
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
 * Any context.
 *
 * Return: the CRC, not yet complemented.
 */
u32 sroce_crc32(u32 crc, const void *p, size_t len)
{
	if (len < SHASH_MIN_LEN || !sroce_shash)
		return crc32_le(crc, p, len);
	return crc_by_shash(crc, p, len);
}

static void try_table(u8 *half, size_t len)
{
	u32 crc = crc32_le(0, half, len);

	/* or a function without effects would not be called */
	barrier_data(&crc);
}

static void try_shash(u8 *half, size_t len)
{
	u32 crc = crc_by_shash(0, half, len);

	barrier_data(&crc);
}

/**
 * sroce_icrc_init - find the CRC's implementation
 *
 * An emulated CPU has the multiplication, too, and is slower by it than by tables.
 *
 * May sleep.
 */
void sroce_icrc_init(void)
{
	struct crypto_shash *tfm = crypto_alloc_shash("crc32", 0, 0);

	/* a kernel without the crypto module has crc32_le() */
	if (IS_ERR(tfm))
		return;
	sroce_shash = tfm;
	if (sroce_trial(try_shash) < sroce_trial(try_table))
		return;
	sroce_shash = NULL;
	crypto_free_shash(tfm);
}

/**
 * sroce_icrc_exit - the end of sroce_icrc_init()
 */
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

void sroce_icrc_init(void)
{
}

void sroce_icrc_exit(void)
{
}
#endif
