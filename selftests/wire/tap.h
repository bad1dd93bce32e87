/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* TAP and random numbers for the tests of wire/. */
#ifndef WIRE_TAP_H
#define WIRE_TAP_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int tap_n, tap_failed;

__attribute__((format(printf, 2, 3), unused))
static int ok(int good, const char *fmt, ...)
{
	va_list ap;

	printf("%sok %d - ", good ? "" : "not ", ++tap_n);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	tap_failed += !good;
	return good;
}

__attribute__((format(printf, 1, 2), unused))
static void diag(const char *fmt, ...)
{
	va_list ap;

	fputs("# ", stdout);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

/*
 * What is wrong within one property that is tried a million times: the first
 * few are shown, and the property fails.
 */
__attribute__((format(printf, 2, 3), unused))
static void wrong(int *count, const char *fmt, ...)
{
	va_list ap;

	if ((*count)++ >= 5)
		return;
	fputs("# ", stdout);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

__attribute__((unused))
static int done_testing(void)
{
	printf("1..%d\n", tap_n);
	return !!tap_failed;
}

/* xorshift64*: the same numbers everywhere, others with SEED=number */
static uint64_t rnd_state;

__attribute__((unused))
static uint64_t rnd(void)
{
	const char *seed;

	if (!rnd_state) {
		seed = getenv("SEED");
		rnd_state = seed ? strtoull(seed, NULL, 0) : 0;
		if (!rnd_state)
			rnd_state = 0x7372636f;
		diag("SEED=%#llx", (unsigned long long)rnd_state);
	}
	rnd_state ^= rnd_state >> 12;
	rnd_state ^= rnd_state << 25;
	rnd_state ^= rnd_state >> 27;
	return rnd_state * 0x2545f4914f6cdd1dULL;
}

__attribute__((unused))
static void rnd_fill(uint8_t *p, size_t n)
{
	while (n--)
		*p++ = (uint8_t)(rnd() >> 32);
}

/* Of exactly this size, so that the sanitizer sees a byte read beyond it. */
__attribute__((unused))
static uint8_t *alloc(size_t n)
{
	uint8_t *p = malloc(n);

	if (!p)
		abort();
	return p;
}

#endif /* WIRE_TAP_H */
