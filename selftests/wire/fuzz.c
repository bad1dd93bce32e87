// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * wire_parse() and wire_gaps_get() under libFuzzer. The first two bytes of the input are a length
 * that is added when there is more than the parser may see, so that a small
 * input can be a long packet; the rest is the packet from its BTH on.
 *
 * The answer is held against spec.h: the verdict, every field, and that the
 * parts add up to the whole. spec.h knows the opcodes as text, so that it does
 * not share the parser's faults. What follows the BTH is also read as a gap
 * report, and if it is one, written again.
 */
#include <stdio.h>
#include <stdlib.h>

#include "gaps.h"
#include "spec.h"

#define PREFIX	2

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define must(cond, ...) do {							\
	if (!(cond)) {								\
		fprintf(stderr, "INVARIANT: %s: ", #cond);			\
		fprintf(stderr, __VA_ARGS__);					\
		fputc('\n', stderr);						\
		abort();							\
	}									\
} while (0)

static void check_passed(const uint8_t *p, uint32_t len, const struct wire_pkt *pkt)
{
	const struct wire_opcode *op = pkt->op;
	const char *field;

	must(op == &wire_opcodes[p[0]], "opcode %#04x", p[0]);
	must(op->class != WIRE_CLASS_NONE, "opcode %#04x", p[0]);
	must(op->hdr_len >= WIRE_BTH_LEN && op->hdr_len <= WIRE_MAX_HDR_LEN, "%u", op->hdr_len);
	/* in 64 bits: nothing wrapped */
	must((uint64_t)op->hdr_len + pkt->payload_len + pkt->pad + WIRE_ICRC_LEN == len,
	     "%u + %u + %u + 4, not %u", op->hdr_len, pkt->payload_len, pkt->pad, len);
	must((pkt->payload_len + pkt->pad) % 4 == 0, "%u + %u", pkt->payload_len, pkt->pad);
	must(!pkt->payload_len || op->flags & WIRE_PAYLOAD, "opcode %#04x", p[0]);
	must(!pkt->pad || op->flags & WIRE_END, "opcode %#04x", p[0]);
	must(!pkt->pad || pkt->payload_len, "opcode %#04x", p[0]);
	must(pkt->psn <= WIRE_PSN_MASK && pkt->qpn <= 0xffffff && pkt->msn <= 0xffffff &&
	     pkt->srqn <= 0xffffff && pkt->src_qpn <= 0xffffff, "opcode %#04x", p[0]);
	field = spec_wrong(p, len, pkt);
	must(!field, "opcode %#04x: %s", p[0], field);
}

static void check_gaps(const uint8_t *p, uint32_t len)
{
	struct wire_gaps *gaps = malloc(sizeof(*gaps));
	const int want = spec_gaps(p, len);
	uint8_t *in = malloc(len), *out = malloc(len);
	int rc;

	if (!gaps || !in || !out)
		abort();
	memcpy(in, p, len);
	rc = wire_gaps_get(in, len, gaps);
	must(rc == (want < 0 ? -1 : 0), "%d where there are %d gaps", rc, want);
	if (want >= 0) {
		must(gaps->num == (uint32_t)want, "%u, not %d", gaps->num, want);
		wire_gaps_put(out, gaps);
		must(!memcmp(in, out, len), "%d gaps", want);
	}
	free(out);
	free(in);
	free(gaps);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum wire_verdict v, again, want;
	struct wire_pkt pkt, other;
	size_t n, seen;
	uint32_t len;
	uint8_t *hdr;

	if (size < PREFIX)
		return 0;
	n = size - PREFIX;
	len = (uint32_t)n;
	if (n >= WIRE_MAX_HDR_LEN)
		len += (uint32_t)data[0] << 8 | data[1];

	/* exactly what the parser may read */
	seen = len < WIRE_MAX_HDR_LEN ? len : WIRE_MAX_HDR_LEN;
	hdr = malloc(seen);
	if (!hdr)
		abort();
	memcpy(hdr, data + PREFIX, seen);

	memset(&pkt, 0, sizeof(pkt));
	memset(&other, 0xff, sizeof(other));
	v = wire_parse(hdr, len, &pkt);
	again = wire_parse(hdr, len, &other);
	want = spec_verdict(hdr, len);
	must(v == want, "%d, not %d", v, want);
	must(v == again, "%d, then %d", v, again);
	if (v == WIRE_OK) {
		check_passed(hdr, len, &pkt);
		/* what was there before does not shine through */
		check_passed(hdr, len, &other);
	}
	free(hdr);
	if (n > WIRE_BTH_LEN)
		check_gaps(data + PREFIX + WIRE_BTH_LEN, (uint32_t)n - WIRE_BTH_LEN);
	return 0;
}
