// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The fastest copy of a payload.
 *
 * That is memcpy(), nearly everywhere. But on x86 it is a single instruction where
 * the CPU says that it is good at that ("erms"), and an emulated CPU that says so
 * takes it byte by byte: eight times as long as by words.
 */
#include <linux/ktime.h>
#include <linux/slab.h>

#include "compat.h"
#include "sroce.h"

/* What is tried: a path MTU of Ethernet's, and the best of some runs */
#define TRIAL_LEN	1024
#define TRIAL_RUNS	8

DEFINE_STATIC_KEY_FALSE(sroce_copies_words);

/**
 * sroce_copy_words - memcpy() without its instruction
 * @to: where to
 * @from: where from
 * @len: how many bytes
 *
 * Any context.
 */
void sroce_copy_words(void *to, const void *from, size_t len)
{
	while (len >= 4 * sizeof(u64)) {
		/* not const: sparse takes get_unaligned() of 7.2 to write to what that is of */
		u64 *f = (u64 *)from, *t = to;
		const u64 a = get_unaligned(f), b = get_unaligned(f + 1);
		const u64 c = get_unaligned(f + 2), d = get_unaligned(f + 3);

		put_unaligned(a, t);
		put_unaligned(b, t + 1);
		put_unaligned(c, t + 2);
		/*
		 * A program may wait for the last byte, which is to be the last where stores
		 * keep order
		 */
		barrier();
		put_unaligned(d, t + 3);
		from = f + 4;
		to = t + 4;
		len -= 4 * sizeof(u64);
	}
	memcpy(to, from, len);
}

/**
 * sroce_trial - how long something takes on this CPU
 * @run: what; with half of a buffer, which has as much again behind it
 *
 * May sleep.
 *
 * Return: nanoseconds, of the fastest of some runs, or U64_MAX if there is no
 * memory to try it with.
 */
u64 sroce_trial(void (*run)(u8 *half, size_t len))
{
	u8 *buf = kzalloc(2 * TRIAL_LEN, GFP_KERNEL);
	u64 least = U64_MAX;
	int i;

	for (i = 0; buf && i < TRIAL_RUNS; i++) {
		const u64 start = ktime_get_ns();

		run(buf, TRIAL_LEN);
		least = min(least, ktime_get_ns() - start);
	}
	kfree(buf);
	return least;
}

static void try_memcpy(u8 *half, size_t len)
{
	memcpy(half + len, half, len);
	/* it may be left out where nobody reads it */
	barrier_data(half);
}

static void try_words(u8 *half, size_t len)
{
	sroce_copy_words(half + len, half, len);
}

/**
 * sroce_copy_init - find the fastest copy
 *
 * Before the first link; may sleep. Words have to be twice as fast: a trial of some
 * microseconds should not decide between two that are alike.
 */
void sroce_copy_init(void)
{
	if (sroce_trial(try_words) < sroce_trial(try_memcpy) / 2)
		static_branch_enable(&sroce_copies_words);
}
