// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Gap reports against spec.h's map of the run. What is read is in a buffer of
 * exactly its bytes, and so is the answer.
 */
#include "gaps.h"
#include "spec.h"
#include "tap.h"

/* longer than any report */
#define ROOM	(SPEC_GAPS_LEN + 64)

static uint8_t map[SPEC_RUN];

/* Is @gaps what spec_put_gaps() says of @map? */
static int same(const struct wire_gaps *gaps, uint32_t end)
{
	static uint8_t other[SPEC_RUN];
	uint32_t i;

	if (gaps->num > SPEC_GAPS_MAX || gaps->end != end)
		return 0;
	memset(other, 0, sizeof(other));
	for (i = 0; i < gaps->num; i++)
		memset(other + gaps->gap[i].first, 1, gaps->gap[i].num);
	return !memcmp(other, map, sizeof(map));
}

/* wire_gaps_get() on copies; of a length that no report has, nothing may be read. */
static int get(const uint8_t *p, uint32_t len, struct wire_gaps *gaps)
{
	const size_t room = len < SPEC_GAPS_LEN + 1 ? len : 0;
	struct wire_gaps *out = (struct wire_gaps *)alloc(sizeof(*out));
	uint8_t *in = alloc(room);
	int rc;

	if (room)
		memcpy(in, p, room);
	memset(out, 0xa5, sizeof(*out));
	rc = wire_gaps_get(in, len, out);
	if (gaps)
		*gaps = *out;
	free(in);
	free(out);
	return rc;
}

static void put_word(uint8_t *p, uint32_t first, uint32_t num)
{
	spec_put_bits(p, 0, 16, first);
	spec_put_bits(p, 16, 16, num);
}

/* A report of these words, which need not be good. Return: its bytes. */
static uint32_t make(uint8_t *p, const uint32_t (*words)[2], uint32_t num)
{
	uint32_t i;

	memcpy(p, SPEC_GAPS_MAGIC, 4);
	for (i = 0; i < num; i++)
		put_word(p + 4 + 4 * i, words[i][0], words[i][1]);
	return 4 + 4 * num;
}

/* In @map, @num gaps of up to @most packets each. Return: the run's packets. */
static uint32_t make_map(uint32_t num, uint32_t most)
{
	uint32_t at = 0, len;

	memset(map, 0, sizeof(map));
	while (num--) {
		len = 1 + rnd() % most;
		memset(map + at, 1, len);
		at += len + 1 + rnd() % most;
	}
	return at;
}

/* A good report, random. Return: its bytes. */
static uint32_t make_good(uint8_t *p, uint32_t num)
{
	return (uint32_t)spec_put_gaps(p, map, make_map(num, 1 + rnd() % 1000), rnd() & 0xffff);
}

static void test_round_trips(void)
{
	int bad_put = 0, bad_get = 0, i;
	struct wire_gaps gaps;
	uint8_t want[ROOM];
	uint8_t *p;

	for (i = 0; i < 32 * 600; i++) {
		const uint32_t num = i % (SPEC_GAPS_MAX + 1);
		const uint32_t end = make_map(num, 1 + rnd() % 1000);
		const uint32_t twice = rnd() & 0xffff;
		const uint32_t len = (uint32_t)spec_put_gaps(want, map, end, twice);

		if (get(want, len, &gaps) || gaps.num != num || gaps.twice != twice ||
		    !same(&gaps, end)) {
			wrong(&bad_get, "%u gaps of %u packets", num, end);
			continue;
		}
		p = alloc(len);
		rnd_fill(p, len);
		wire_gaps_put(p, &gaps);
		if (memcmp(p, want, len) || WIRE_GAPS_LEN(num) != len)
			wrong(&bad_put, "%u gaps of %u packets", num, end);
		free(p);
	}
	ok(!bad_get, "0 to 31 gaps are read as they are");
	ok(!bad_put, "and written in as many bytes, over anything");
	ok(WIRE_GAPS_MAX == SPEC_GAPS_MAX && WIRE_GAPS_MAX_LEN == SPEC_GAPS_LEN,
	   "the longest has 31 gaps, and no more bytes than it says");
}

/* Does the answer follow from spec.h? Return: true. */
static int judged(const uint8_t *p, uint32_t len)
{
	struct wire_gaps gaps;
	const int num = spec_gaps(p, len), rc = get(p, len, &gaps);

	if (num < 0)
		return rc;
	return !rc && gaps.num == (uint32_t)num && spec_bits(p + len - 4, 0, 16) == gaps.end &&
	       spec_bits(p + len - 2, 0, 16) == gaps.twice;
}

static void test_lengths(void)
{
	static const uint32_t ends[] = {
		ROOM, 0xffff, 0x10000, 0x7ffffffc, 0x80000000, 0xfffffff8, 0xfffffffc, 0xffffffff,
	};
	uint32_t num, len, good;
	uint8_t p[ROOM];
	int bad = 0;
	size_t i;

	for (num = 0; num <= SPEC_GAPS_MAX; num++) {
		memset(p, 0, sizeof(p));
		good = make_good(p, num);
		/* cut by words, its last gap may be taken for the end: the ICRC is to find that */
		for (len = 0; len < ROOM; len++)
			if (len > good || len % 4 ? !get(p, len, NULL) : !judged(p, len))
				wrong(&bad, "%u gaps, %u bytes", num, len);
		for (i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
			if (!get(p, ends[i], NULL))
				wrong(&bad, "%u gaps, %u bytes", num, ends[i]);
	}
	ok(!bad, "a report that is cut is judged as the map has it, one that is longer refused");
}

static void test_too_many(void)
{
	uint32_t words[40][2], i;
	uint8_t p[ROOM];
	int bad = 0;

	for (i = 0; i < 40; i++) {
		words[i][0] = 2 * i;
		words[i][1] = 1;
		if (i < 2)
			continue;
		words[i][1] = 0;
		if (!get(p, make(p, words, i + 1), NULL) != (i <= SPEC_GAPS_MAX))
			wrong(&bad, "%u gaps", i);
		words[i][1] = 1;
	}
	ok(!bad, "31 gaps are taken and not one more");
}

struct report {
	const char *what;
	uint32_t num;
	uint32_t words[4][2];
};

static const struct report taken[] = {
	{ "nothing is missing", 1, { { 0, 0 } } },
	{ "nothing is, and packets came twice", 1, { { 0, 0xffff } } },
	{ "one is missing, and one came twice", 2, { { 0, 1 }, { 2, 1 } } },
	{ "one packet, and one behind it", 2, { { 0, 1 }, { 2, 0 } } },
	{ "as many as can be missing", 2, { { 0, 0xfffe }, { 0xffff, 0 } } },
	{ "the last that can be missing", 3, { { 0, 1 }, { 0xfffd, 1 }, { 0xffff, 0 } } },
	{ "with one packet between", 3, { { 0, 1 }, { 2, 1 }, { 4, 0 } } },
};

static const struct report refused[] = {
	{ "no gap, and an end", 1, { { 1, 0 } } },
	{ "no gap, and two ends", 2, { { 0, 0 }, { 1, 0 } } },
	{ "first gap not at 0", 2, { { 1, 1 }, { 3, 0 } } },
	{ "empty gap", 3, { { 0, 1 }, { 2, 0 }, { 4, 0 } } },
	{ "gaps that touch", 3, { { 0, 1 }, { 1, 1 }, { 3, 0 } } },
	{ "gaps that overlap", 3, { { 0, 3 }, { 2, 4 }, { 9, 0 } } },
	{ "a gap within another", 3, { { 0, 9 }, { 3, 2 }, { 12, 0 } } },
	{ "the same gap twice", 3, { { 0, 1 }, { 0, 1 }, { 3, 0 } } },
	{ "gaps out of order", 4, { { 0, 1 }, { 6, 1 }, { 3, 1 }, { 9, 0 } } },
	{ "end of 0", 2, { { 0, 1 }, { 0, 0 } } },
	{ "end inside the last gap", 2, { { 0, 4 }, { 3, 0 } } },
	{ "end at the last gap", 2, { { 0, 4 }, { 4, 0 } } },
	{ "end before the last gap", 3, { { 0, 4 }, { 9, 1 }, { 7, 0 } } },
	{ "a gap to the end of 16 bits", 2, { { 0, 0xffff }, { 0xffff, 0 } } },
	{ "the same, and an end beyond", 2, { { 0, 0xffff }, { 0, 0 } } },
	{ "a gap across the end of 16 bits", 3, { { 0, 1 }, { 0x8000, 0x8001 }, { 0xffff, 0 } } },
	{ "the same, and an end behind it", 3, { { 0, 1 }, { 0x8000, 0x8001 }, { 2, 0 } } },
	{ "another gap behind it", 4, { { 0, 1 }, { 0xffff, 0xffff }, { 0xffff, 1 }, { 9, 0 } } },
	{ "another gap around the corner", 4, { { 0, 1 }, { 9, 0xffff }, { 10, 1 }, { 12, 0 } } },
};

static void test_words(void)
{
	struct wire_gaps gaps;
	uint8_t p[ROOM];
	int bad;
	size_t i;

	for (i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
		const struct report *r = &taken[i];
		uint32_t j;

		bad = get(p, make(p, r->words, r->num), &gaps) || gaps.num != r->num - 1;
		for (j = 0; !bad && j < gaps.num; j++)
			bad = gaps.gap[j].first != r->words[j][0] ||
			      gaps.gap[j].num != r->words[j][1];
		ok(!bad, "taken: %s", r->what);
	}
	for (i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		ok(get(p, make(p, refused[i].words, refused[i].num), NULL), "refused: %s",
		   refused[i].what);
}

static void test_bits(void)
{
	int bad = 0, bad_magic = 0, i;
	uint32_t bit, len;
	uint8_t p[ROOM];

	for (i = 0; i < 40; i++) {
		len = make_good(p, 1 + (uint32_t)i % SPEC_GAPS_MAX);
		for (bit = 0; bit < 8 * len; bit++) {
			p[bit / 8] ^= (uint8_t)(1 << bit % 8);
			if (bit < 32 && !get(p, len, NULL))
				wrong(&bad_magic, "bit %u", bit);
			if (!judged(p, len))
				wrong(&bad, "%u bytes, bit %u", len, bit);
			p[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
	}
	ok(!bad_magic, "every bit of the word in front counts");
	ok(!bad, "any bit turned over is judged as the model judges it");
}

/* A number that is likely to be near to what another has. */
static uint32_t near(uint32_t at)
{
	switch (rnd() >> 61) {
	case 0:
		return 0;
	case 1:
		return rnd() >> 48;
	case 2:
		return 0xffff - (uint32_t)(rnd() >> 62);
	default:
		return (at + (uint32_t)(rnd() >> 62)) & 0xffff;
	}
}

static void test_random(void)
{
	int bad = 0, passed = 0, i;
	uint32_t num, len, at, j;
	uint8_t p[ROOM];

	for (i = 0; i < 100000; i++) {
		num = 1 + rnd() % (rnd() >> 63 ? 3 : SPEC_GAPS_MAX);
		len = make_good(p, num);
		/* one to three of its words are others */
		for (j = rnd() % 3; j < 3; j++) {
			at = 4 + 4 * (rnd() % (num + 1));
			put_word(p + at, near((uint32_t)spec_bits(p + at, 0, 16)),
				 near((uint32_t)spec_bits(p + at, 16, 16)));
		}
		passed += spec_gaps(p, len) >= 0;
		if (!judged(p, len))
			wrong(&bad, "%u bytes, the model says %d gaps", len, spec_gaps(p, len));
	}
	ok(!bad, "100000 reports with other numbers in them get the model's verdict");
	ok(passed > 1000 && passed < 99000, "some pass and some don't: %d", passed);
}

int main(void)
{
	test_round_trips();
	test_lengths();
	test_too_many();
	test_words();
	test_bits();
	test_random();
	return done_testing();
}
