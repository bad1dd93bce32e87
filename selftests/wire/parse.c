// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The opcode table and the parser against spec.h. The parser gets its bytes in
 * a buffer that ends where it has to stop reading.
 */
#include "spec.h"
#include "tap.h"

/* longer than any header, and some payload */
#define ROOM	128

static enum wire_verdict parse(const uint8_t *p, uint32_t len, struct wire_pkt *pkt)
{
	size_t n = len < WIRE_MAX_HDR_LEN ? len : WIRE_MAX_HDR_LEN;
	enum wire_verdict v;
	uint8_t *hdr;

	hdr = alloc(n);
	if (n)
		memcpy(hdr, p, n);
	/* what the parser leaves alone shows */
	memset(pkt, 0xa5, sizeof(*pkt));
	v = wire_parse(hdr, len, pkt);
	free(hdr);
	return v;
}

/* A packet that passes but for @len: random fields, version 0, no padding. */
static size_t make(uint8_t *p, uint8_t opcode)
{
	rnd_fill(p, ROOM);
	p[0] = opcode;
	spec_put_bits(p, 10, 6, 0);
	return spec_walk(opcode, NULL, NULL);
}

static void set_pad(uint8_t *p, unsigned int pad)
{
	spec_put_bits(p, 10, 2, pad);
}

/* --- the table ------------------------------------------------------------- */

static enum wire_class spec_class(const struct spec_op *op)
{
	static const struct {
		const char *begins;
		enum wire_class class;
	} classes[] = {
		{ "SEND", WIRE_CLASS_SEND },
		{ "RDMA WRITE", WIRE_CLASS_WRITE },
		{ "RDMA READ Request", WIRE_CLASS_READ },
		{ "RDMA READ response", WIRE_CLASS_READ_RESPONSE },
		{ "Acknowledge", WIRE_CLASS_ACK },
		{ "ATOMIC Acknowledge", WIRE_CLASS_ATOMIC_ACK },
		{ "ATOMIC WRITE", WIRE_CLASS_ATOMIC_WRITE },
		{ "CmpSwap", WIRE_CLASS_ATOMIC },
		{ "FetchAdd", WIRE_CLASS_ATOMIC },
		{ "FLUSH", WIRE_CLASS_FLUSH },
		{ "CNP", WIRE_CLASS_CNP },
		{ "gap report", WIRE_CLASS_GAPS },
	};
	size_t i;

	for (i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
		if (!strncmp(op->name, classes[i].begins, strlen(classes[i].begins)))
			return classes[i].class;
	return WIRE_CLASS_NONE;
}

static unsigned int spec_flags(uint8_t opcode, const struct spec_op *op)
{
	static const struct {
		const char *header;
		unsigned int flag;
	} flags[] = {
		{ "XRCETH", WIRE_XRCETH },
		{ "DETH", WIRE_DETH },
		{ "FETH", WIRE_FETH },
		{ "RETH", WIRE_RETH },
		{ "AtomicETH", WIRE_ATOMICETH },
		{ "AETH", WIRE_AETH },
		{ "AtomicAckETH", WIRE_ATOMICACK },
		{ "ImmDt", WIRE_IMM },
		{ "IETH", WIRE_IETH },
		{ "payload", WIRE_PAYLOAD },
	};
	unsigned int v = 0;
	size_t i;

	for (i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (spec_has(opcode, flags[i].header))
			v |= flags[i].flag;
	return v | (spec_starts(op) ? WIRE_START : 0) | (spec_ends(op) ? WIRE_END : 0) |
	       (spec_is_response(op) ? WIRE_RESPONSE : 0);
}

static void test_table(void)
{
	int bad_none = 0, bad_class = 0, bad_flags = 0, bad_len = 0, known = 0, opcode;
	size_t longest = 0;

	for (opcode = 0; opcode < 256; opcode++) {
		const struct wire_opcode *got = &wire_opcodes[opcode];
		const struct spec_op *op = spec_find((uint8_t)opcode);
		size_t len;

		if (!op) {
			if (got->class != WIRE_CLASS_NONE)
				wrong(&bad_none, "%#04x has class %d", opcode, got->class);
			continue;
		}
		known++;
		len = spec_walk((uint8_t)opcode, NULL, NULL);
		if (got->class != spec_class(op))
			wrong(&bad_class, "%#04x %s: class %d", opcode, op->name, got->class);
		if (got->flags != spec_flags((uint8_t)opcode, op))
			wrong(&bad_flags, "%#04x %s: flags %#x, not %#x", opcode, op->name,
			      got->flags, spec_flags((uint8_t)opcode, op));
		if (got->hdr_len != len)
			wrong(&bad_len, "%#04x %s: hdr_len %d, not %zu", opcode, op->name,
			      got->hdr_len, len);
		if (len > longest)
			longest = len;
	}
	diag("%d opcodes are defined", known);
	ok(!bad_none, "reserved opcodes and RD have no row");
	ok(!bad_class, "every opcode has its class");
	ok(!bad_flags, "every opcode has its headers, its place in a message, its direction");
	ok(!bad_len, "every opcode has the length of its headers");
	ok(longest == WIRE_MAX_HDR_LEN, "WIRE_MAX_HDR_LEN is the longest of them, %zu", longest);
}

/* --- fields ---------------------------------------------------------------- */

static void test_fields(void)
{
	int bad = 0, opcode, i;
	struct wire_pkt pkt;
	uint8_t p[ROOM];

	for (opcode = 0; opcode < 256; opcode++) {
		const char *field;
		uint32_t len;
		size_t hdr;

		if (!spec_find((uint8_t)opcode))
			continue;
		for (i = 0; i < 200; i++) {
			hdr = make(p, (uint8_t)opcode);
			len = (uint32_t)hdr + 4;
			if (spec_has((uint8_t)opcode, "payload"))
				len += 4 * (rnd() >> 50);
			if (parse(p, len, &pkt) != WIRE_OK) {
				wrong(&bad, "opcode %#04x, %u bytes: refused", opcode, len);
				continue;
			}
			field = spec_wrong(p, len, &pkt);
			if (field)
				wrong(&bad, "opcode %#04x: %s is wrong", opcode, field);
		}
	}
	ok(!bad, "random fields of every opcode come out as they went in, all others as 0");
}

static void test_bytes(void)
{
	uint8_t want[8], *p;
	int bad = 0, i, n;

	for (i = 0; i < 100000; i++) {
		uint64_t v = rnd(), got;

		for (n = 16; n <= 64; n += n == 32 ? 32 : 8) {
			spec_put_bits(want, 0, n, v);
			p = alloc(n / 8);
			rnd_fill(p, n / 8);
			if (n == 16)
				wire_put16(p, (__u16)v);
			else if (n == 24)
				wire_put24(p, (__u32)v & 0xffffff);
			else if (n == 32)
				wire_put32(p, (__u32)v);
			else
				wire_put64(p, v);
			got = n == 16 ? wire_get16(p) : n == 24 ? wire_get24(p) :
			      n == 32 ? wire_get32(p) : wire_get64(p);
			if (memcmp(p, want, n / 8) || got != spec_bits(want, 0, n))
				wrong(&bad, "%d bits of %#llx", n, (unsigned long long)v);
			free(p);
		}
	}
	ok(!bad, "16, 24, 32 and 64 bits are put and got with the first byte first");
}

static void test_builders(void)
{
	int bad_bth = 0, bad_aeth = 0, i;
	uint8_t want[ROOM], *got;

	for (i = 0; i < 100000; i++) {
		int solicited = rnd() >> 63, ackreq = rnd() >> 63;
		uint32_t pad = rnd() >> 62, qpn = rnd() >> 40, psn = rnd() >> 40;
		uint16_t pkey = rnd() >> 48;
		uint8_t opcode = rnd() >> 56;

		memset(want, 0, sizeof(want));
		spec_put_bits(want, 0, 8, opcode);
		spec_put_bits(want, 8, 1, solicited);
		spec_put_bits(want, 9, 1, 1);		/* MigReq, as hardware sends it */
		spec_put_bits(want, 10, 2, pad);
		spec_put_bits(want, 16, 16, pkey);
		spec_put_bits(want, 40, 24, qpn);
		spec_put_bits(want, 64, 1, ackreq);
		spec_put_bits(want, 72, 24, psn);
		got = alloc(WIRE_BTH_LEN);
		rnd_fill(got, WIRE_BTH_LEN);
		wire_bth_put(got, opcode, solicited, (uint8_t)pad, pkey, qpn, ackreq, psn);
		if (memcmp(got, want, WIRE_BTH_LEN))
			wrong(&bad_bth, "opcode %#04x pad %u pkey %#x qpn %#x psn %#x",
			      opcode, pad, pkey, qpn, psn);
		free(got);

		spec_put_bits(want, 0, 8, opcode);
		spec_put_bits(want, 8, 24, psn);
		got = alloc(WIRE_AETH_LEN);
		rnd_fill(got, WIRE_AETH_LEN);
		wire_aeth_put(got, opcode, psn);
		if (memcmp(got, want, WIRE_AETH_LEN))
			wrong(&bad_aeth, "syndrome %#04x msn %#x", opcode, psn);
		free(got);
	}
	ok(!bad_bth, "wire_bth_put writes each field in its place, over anything");
	ok(!bad_aeth, "wire_aeth_put writes each field in its place, over anything");
}

static void test_cnp(void)
{
	const size_t len = WIRE_BTH_LEN + WIRE_CNP_RESERVED;
	struct wire_pkt pkt;
	uint8_t want[ROOM], *got;
	int bad = 0, i;

	for (i = 0; i < 1000; i++) {
		uint32_t qpn = rnd() >> 40;
		uint16_t pkey = rnd() >> 48;

		memset(want, 0, sizeof(want));
		spec_put_bits(want, 0, 8, 0x81);
		spec_put_bits(want, 16, 16, pkey);
		spec_put_bits(want, 33, 1, 1);		/* BECN */
		spec_put_bits(want, 40, 24, qpn);
		got = alloc(len + WIRE_ICRC_LEN);
		rnd_fill(got, len + WIRE_ICRC_LEN);
		wire_cnp_put(got, pkey, qpn);
		if (len != 12 + 16 || memcmp(got, want, len) ||
		    parse(got, (uint32_t)len + 4, &pkt) != WIRE_OK || !pkt.becn || pkt.qpn != qpn)
			wrong(&bad, "pkey %#x qpn %#x", pkey, qpn);
		free(got);
	}
	ok(!bad, "wire_cnp_put writes BECN, and nothing where nothing is said to be");
}

/* --- lengths --------------------------------------------------------------- */

static void test_truncated(void)
{
	int bad = 0, opcode;
	struct wire_pkt pkt;
	uint8_t p[ROOM];
	uint32_t len;
	size_t hdr;

	for (opcode = 0; opcode < 256; opcode++) {
		hdr = make(p, (uint8_t)opcode);
		for (len = 0; len < hdr + 4; len++)
			if (parse(p, len, &pkt) != spec_verdict(p, len))
				wrong(&bad, "opcode %#04x cut to %u bytes", opcode, len);
	}
	ok(!bad, "every opcode cut at every byte is refused, and nothing behind is read");
}

static void test_lengths(void)
{
	static const uint32_t ends[] = {
		4096, 4100, 65507, 65508, 0x7ffffffc, 0x80000000, 0xfffffff0, 0xfffffffc,
		0xffffffff,
	};
	int bad = 0, bad_end = 0, opcode;
	struct wire_pkt pkt;
	const char *field;
	uint8_t p[ROOM];
	uint32_t len;
	size_t i;

	for (opcode = 0; opcode < 256; opcode++) {
		make(p, (uint8_t)opcode);
		for (len = 0; len < 200; len++) {
			enum wire_verdict v = parse(p, len, &pkt), want = spec_verdict(p, len);

			field = v == WIRE_OK && want == WIRE_OK ? spec_wrong(p, len, &pkt) : NULL;
			if (v != want || field)
				wrong(&bad, "opcode %#04x, %u bytes: %d, not %d; %s", opcode, len,
				      v, want, field ? field : "");
			if (v == WIRE_OK && len % 4)
				wrong(&bad, "opcode %#04x, %u bytes: not whole words", opcode, len);
		}
		for (i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
			enum wire_verdict v = parse(p, ends[i], &pkt);

			if (v != spec_verdict(p, ends[i]) ||
			    (v == WIRE_OK && spec_wrong(p, ends[i], &pkt)))
				wrong(&bad_end, "opcode %#04x, %u bytes: %d", opcode, ends[i], v);
		}
	}
	ok(!bad, "every opcode at every length up to 200");
	ok(!bad_end, "lengths at the ends of 16 and 32 bits do not wrap");
}

static void test_zero_payload(void)
{
	int bad = 0, bad_pad = 0, opcode, pad;
	struct wire_pkt pkt;
	uint8_t p[ROOM];
	uint32_t len;

	for (opcode = 0; opcode < 256; opcode++) {
		if (!spec_find((uint8_t)opcode))
			continue;
		len = (uint32_t)make(p, (uint8_t)opcode) + 4;
		if (parse(p, len, &pkt) != WIRE_OK || pkt.payload_len || pkt.pad)
			wrong(&bad, "opcode %#04x", opcode);
		for (pad = 1; pad < 4; pad++) {
			set_pad(p, pad);
			if (parse(p, len, &pkt) != WIRE_BAD_PAD)
				wrong(&bad_pad, "opcode %#04x, pad %d", opcode, pad);
		}
	}
	ok(!bad, "every opcode passes with no payload");
	ok(!bad_pad, "no opcode passes with nothing but padding");
}

/* --- padding and version --------------------------------------------------- */

static void test_pad(void)
{
	int bad = 0, bad_middle = 0, bad_none = 0, opcode, pad;
	const struct spec_op *op;
	struct wire_pkt pkt;
	enum wire_verdict v;
	uint8_t p[ROOM];
	uint32_t len;
	size_t hdr;

	for (opcode = 0; opcode < 256; opcode++) {
		op = spec_find((uint8_t)opcode);
		if (!op)
			continue;
		hdr = make(p, (uint8_t)opcode);
		for (pad = 1; pad < 4; pad++) {
			set_pad(p, pad);
			for (len = hdr + 8; len < hdr + 64; len += 4) {
				v = parse(p, len, &pkt);
				if (!spec_has((uint8_t)opcode, "payload")) {
					if (v == WIRE_OK)
						wrong(&bad_none, "opcode %#04x", opcode);
				} else if (!spec_ends(op)) {
					if (v != WIRE_BAD_PAD)
						wrong(&bad_middle, "opcode %#04x: %d", opcode, v);
				} else if (v != WIRE_OK || spec_wrong(p, len, &pkt) ||
					   pkt.payload_len != len - hdr - 4 - pad) {
					wrong(&bad, "opcode %#04x, pad %d, %u bytes: %d", opcode,
					      pad, len, v);
				}
			}
		}
	}
	ok(!bad, "1 to 3 bytes of padding behind the end of a message are not payload");
	ok(!bad_middle, "padding behind a First or Middle is refused");
	ok(!bad_none, "payload or padding behind what has none is refused");
}

static void test_version(void)
{
	int bad = 0, bad_first = 0, opcode, tver;
	struct wire_pkt pkt;
	uint8_t p[ROOM];

	for (opcode = 0; opcode < 256; opcode++) {
		make(p, (uint8_t)opcode);
		for (tver = 1; tver < 16; tver++) {
			spec_put_bits(p, 12, 4, tver);
			if (parse(p, 64, &pkt) != WIRE_BAD_VERSION)
				wrong(&bad, "opcode %#04x, version %d", opcode, tver);
			if (parse(p, 63, &pkt) != WIRE_BAD_LENGTH ||
			    parse(p, 12, &pkt) != WIRE_BAD_LENGTH)
				wrong(&bad_first, "opcode %#04x, version %d", opcode, tver);
		}
	}
	ok(!bad, "every transport version but 0 is refused, before the opcode is looked at");
	ok(!bad_first, "and a length that cannot be, before the version");
}

/* --- anything -------------------------------------------------------------- */

static void test_random(void)
{
	int bad = 0, passed = 0, i;
	struct wire_pkt pkt;
	enum wire_verdict v;
	uint8_t p[ROOM];
	uint32_t len;

	for (i = 0; i < 1000000; i++) {
		rnd_fill(p, WIRE_MAX_HDR_LEN);
		if (rnd() >> 61)
			spec_put_bits(p, 12, 4, 0);
		len = rnd() >> 56;
		if (rnd() >> 62)
			len &= ~3U;
		v = parse(p, len, &pkt);
		passed += v == WIRE_OK;
		if (v != spec_verdict(p, len))
			wrong(&bad, "opcode %#04x flags %#04x, %u bytes: %d, not %d", p[0], p[1],
			      len, v, spec_verdict(p, len));
		else if (v == WIRE_OK && spec_wrong(p, len, &pkt))
			wrong(&bad, "opcode %#04x: %s", p[0], spec_wrong(p, len, &pkt));
	}
	ok(!bad, "1000000 random packets get the model's verdict");
	ok(passed > 10000, "enough of them pass to mean something: %d", passed);
}

int main(void)
{
	test_table();
	test_bytes();
	test_fields();
	test_builders();
	test_cnp();
	test_truncated();
	test_lengths();
	test_zero_payload();
	test_pad();
	test_version();
	test_random();
	return done_testing();
}
