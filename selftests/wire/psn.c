// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * PSN arithmetic against a naive model in integers that cannot wrap: every
 * distance from the corners, and random ones.
 */
#include "psn.h"
#include "tap.h"

#define RANGE	(1LL << 24)
#define HALF	(1LL << 23)

static const __u32 corners[] = {
	0, 1, 2, 0x7ffffe, 0x7fffff, 0x800000, 0x800001, 0xfffffe, 0xffffff,
};

#define CORNERS	(int)(sizeof(corners) / sizeof(corners[0]))
#define RANDOM	1000000

static long long model_mod(long long v)
{
	v %= RANGE;
	return v < 0 ? v + RANGE : v;
}

/* the representative of a - b that is nearest to 0, -2^23 for the far point */
static long long model_diff(long long a, long long b)
{
	long long d = model_mod(a - b);

	return d >= HALF ? d - RANGE : d;
}

static void check_add(int *bad, __u32 a, __u32 n)
{
	__u32 got = wire_psn_add(a, n);

	if (got != model_mod((long long)a + n))
		wrong(bad, "add(%#x, %#x) = %#x", a, n, got);
}

static void check_diff(int *bad, __u32 a, __u32 b)
{
	__s32 got = wire_psn_diff(a, b), back = wire_psn_diff(b, a);

	if (got != model_diff(a, b))
		wrong(bad, "diff(%#x, %#x) = %d", a, b, got);
	if (got < -HALF || got >= HALF)
		wrong(bad, "diff(%#x, %#x) = %d: out of its range", a, b, got);
	/* the far point is as far ahead as behind: said to be behind, both ways */
	if (back != (got == -HALF ? got : -got))
		wrong(bad, "diff(%#x, %#x) = %d, and back %d", a, b, got, back);
	if ((got == 0) != (a == b))
		wrong(bad, "diff(%#x, %#x) = %d: 0 means the same", a, b, got);
	if (wire_psn_add(b, (__u32)got) != a)
		wrong(bad, "add(b, diff(a, b)) is not a for %#x, %#x", a, b);
}

static void check_inverse(int *bad, __u32 b, __s32 d)
{
	__s32 got = wire_psn_diff(wire_psn_add(b, (__u32)d), b);

	if (got != d)
		wrong(bad, "diff(add(%#x, %d), b) = %d", b, d, got);
}

static void test_corners(void)
{
	int bad = 0, i, j, k;

	for (i = 0; i < CORNERS; i++)
		for (j = 0; j < CORNERS; j++) {
			check_diff(&bad, corners[i], corners[j]);
			check_add(&bad, corners[i], corners[j]);
			check_add(&bad, corners[i], -corners[j]);
			for (k = 0; k < CORNERS; k++)
				if (wire_psn_add(wire_psn_add(corners[i], corners[j]), corners[k]) !=
				    wire_psn_add(corners[i], corners[j] + corners[k]))
					wrong(&bad, "add of %#x, %#x, %#x: order matters",
					      corners[i], corners[j], corners[k]);
		}
	ok(!bad, "add and diff of the corners are the model's");
}

static void test_every_distance(void)
{
	long long d;
	int bad = 0;

	for (d = -HALF; d < HALF; d++) {
		check_inverse(&bad, 0, (__s32)d);
		check_inverse(&bad, 0xfffff0, (__s32)d);
	}
	ok(!bad, "each of the 2^24 distances survives add and diff, across the wrap too");
}

static void test_random(void)
{
	int bad_add = 0, bad_diff = 0, bad_inv = 0, i;
	__u32 a, b, n;

	for (i = 0; i < RANDOM; i++) {
		a = rnd() >> 40;
		b = rnd() >> 40;
		n = rnd() >> 32;
		check_add(&bad_add, a, n);
		check_diff(&bad_diff, a, b);
		/* neighbours are what a connection has */
		check_diff(&bad_diff, a, wire_psn_add(a, n >> 28));
		check_inverse(&bad_inv, a, (__s32)(n & 0xffffff) - (__s32)HALF);
	}
	ok(!bad_add, "add of %d random PSNs and any 32 bits", RANDOM);
	ok(!bad_diff, "diff of %d random pairs: model, antisymmetry, inverse of add", RANDOM);
	ok(!bad_inv, "%d random distances survive add and diff", RANDOM);
}

static void test_window(void)
{
	int bad = 0, i;
	__u32 b;

	for (i = 0; i < RANDOM; i++) {
		b = i < CORNERS ? corners[i] : (__u32)(rnd() >> 40);
		if (wire_psn_diff(wire_psn_add(b, WIRE_PSN_WINDOW - 1), b) != WIRE_PSN_WINDOW - 1)
			wrong(&bad, "the last PSN of the window from %#x is not ahead", b);
		if (wire_psn_diff(wire_psn_add(b, WIRE_PSN_WINDOW), b) >= 0)
			wrong(&bad, "the PSN after the window from %#x is ahead", b);
		if (wire_psn_diff(b, wire_psn_add(b, 1)) != -1)
			wrong(&bad, "the PSN before %#x is not behind", b + 1);
	}
	ok(!bad, "a window ends where the PSNs behind begin");
	ok(WIRE_PSN_MASK == RANGE - 1 && WIRE_PSN_WINDOW == HALF, "24 bits, a window of half of them");
}

int main(void)
{
	test_corners();
	test_every_distance();
	test_random();
	test_window();
	return done_testing();
}
