/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the specification says of a packet, as the tests read it: the opcodes
 * of IBTA Vol.1 table 38 (XRC: Annex A14, CNP: Annex A17.9.3, FLUSH and
 * ATOMIC WRITE: Annex A19) as text, the headers in the order in which they
 * follow the BTH, and the fields of each header bit by bit. Nothing of wire/
 * but its result structure and its names of flags is used here.
 */
#ifndef WIRE_SPEC_H
#define WIRE_SPEC_H

#include <stdint.h>
#include <string.h>

#include "parse.h"

struct spec_op {
	uint8_t code;		/* five bits */
	const char *name;
	const char *headers;	/* and "payload", if it may have one */
};

/* SEND and RDMA WRITE of RC, UC and XRC */
static const struct spec_op spec_connected[] = {
	{ 0x00, "SEND First", "payload" },
	{ 0x01, "SEND Middle", "payload" },
	{ 0x02, "SEND Last", "payload" },
	{ 0x03, "SEND Last with Immediate", "ImmDt payload" },
	{ 0x04, "SEND Only", "payload" },
	{ 0x05, "SEND Only with Immediate", "ImmDt payload" },
	{ 0x06, "RDMA WRITE First", "RETH payload" },
	{ 0x07, "RDMA WRITE Middle", "payload" },
	{ 0x08, "RDMA WRITE Last", "payload" },
	{ 0x09, "RDMA WRITE Last with Immediate", "ImmDt payload" },
	{ 0x0a, "RDMA WRITE Only", "RETH payload" },
	{ 0x0b, "RDMA WRITE Only with Immediate", "RETH ImmDt payload" },
	{ 0 }
};

/* RC and XRC */
static const struct spec_op spec_reliable[] = {
	{ 0x0c, "RDMA READ Request", "RETH" },
	{ 0x0d, "RDMA READ response First", "AETH payload" },
	{ 0x0e, "RDMA READ response Middle", "payload" },
	{ 0x0f, "RDMA READ response Last", "AETH payload" },
	{ 0x10, "RDMA READ response Only", "AETH payload" },
	{ 0x11, "Acknowledge", "AETH" },
	{ 0x12, "ATOMIC Acknowledge", "AETH AtomicAckETH" },
	{ 0x13, "CmpSwap", "AtomicETH" },
	{ 0x14, "FetchAdd", "AtomicETH" },
	{ 0x16, "SEND Last with Invalidate", "IETH payload" },
	{ 0x17, "SEND Only with Invalidate", "IETH payload" },
	{ 0x1c, "FLUSH", "FETH RETH" },
	{ 0x1d, "ATOMIC WRITE", "RETH payload" },
	{ 0 }
};

static const struct spec_op spec_datagram[] = {
	{ 0x04, "SEND Only", "DETH payload" },
	{ 0x05, "SEND Only with Immediate", "DETH ImmDt payload" },
	{ 0 }
};

/* its 16 reserved bytes lie where others have their payload */
static const struct spec_op spec_cnp[] = {
	{ 0x01, "CNP", "payload" },
	{ 0 }
};

/* 110 is for manufacturers. This one is ours (wire/gaps.h), and none of IBTA's. */
static const struct spec_op spec_ours[] = {
	{ 0x11, "gap report", "payload" },
	{ 0 }
};

/* opcode[7-5]; 010 is RD, which RoCE does not have */
static const struct spec_op *const spec_transports[8][2] = {
	[0] = { spec_connected, spec_reliable },	/* RC */
	[1] = { spec_connected },			/* UC */
	[3] = { spec_datagram },			/* UD */
	[4] = { spec_cnp },
	[5] = { spec_connected, spec_reliable },	/* XRC */
	[6] = { spec_ours },
};

static inline const struct spec_op *spec_find(uint8_t opcode)
{
	const struct spec_op *op;
	int i;

	for (i = 0; i < 2; i++)
		for (op = spec_transports[opcode >> 5][i]; op && op->name; op++)
			if (op->code == (opcode & 0x1f))
				return op;
	return NULL;
}

static inline int spec_says(const char *text, const char *word)
{
	size_t n = strlen(word);
	const char *p = text;

	while ((p = strstr(p, word))) {
		if ((p == text || p[-1] == ' ') && (!p[n] || p[n] == ' '))
			return 1;
		p += n;
	}
	return 0;
}

static inline int spec_is_response(const struct spec_op *op)
{
	return spec_says(op->name, "response") || spec_says(op->name, "Acknowledge") ||
	       spec_says(op->name, "CNP") || spec_says(op->name, "report");
}

/* A request on XRC names its SRQ; nothing else does. */
static inline int spec_has(uint8_t opcode, const char *header)
{
	const struct spec_op *op = spec_find(opcode);

	if (!op)
		return 0;
	if (!strcmp(header, "XRCETH"))
		return opcode >> 5 == 5 && !spec_is_response(op);
	return spec_says(op->headers, header);
}

/* What has no First, Middle or Last is whole. */
static inline int spec_starts(const struct spec_op *op)
{
	return !spec_says(op->name, "Middle") && !spec_says(op->name, "Last");
}

static inline int spec_ends(const struct spec_op *op)
{
	return !spec_says(op->name, "First") && !spec_says(op->name, "Middle");
}

/*
 * The headers, 9.3: their fields from the first bit on. A field that wire_pkt
 * has not is called "-".
 */
struct spec_field {
	const char *name;
	unsigned int bits;
};

struct spec_header {
	const char *name;
	struct spec_field fields[7];
};

static const struct spec_header spec_bth = {
	"BTH", { { "opcode", 8 }, { "solicited", 1 }, { "-", 1 }, { "pad", 2 }, { "tver", 4 },
		 { "pkey", 16 }, }
};

static const struct spec_header spec_bth_rest = {
	"BTH", { { "-", 1 }, { "becn", 1 }, { "-", 6 }, { "qpn", 24 },
		 { "ackreq", 1 }, { "-", 7 }, { "psn", 24 } }
};

/* in their order on the wire */
static const struct spec_header spec_headers[] = {
	{ "XRCETH", { { "-", 8 }, { "srqn", 24 } } },
	{ "DETH", { { "qkey", 32 }, { "-", 8 }, { "src_qpn", 24 } } },
	{ "FETH", { { "flush", 32 } } },
	{ "RETH", { { "va", 64 }, { "rkey", 32 }, { "dma_len", 32 } } },
	{ "AtomicETH", { { "va", 64 }, { "rkey", 32 }, { "swap_add", 64 }, { "compare", 64 } } },
	{ "AETH", { { "syndrome", 8 }, { "msn", 24 } } },
	{ "AtomicAckETH", { { "orig", 64 } } },
	{ "ImmDt", { { "imm", 32 } } },
	{ "IETH", { { "ieth_rkey", 32 } } },
};

#define SPEC_HEADERS	(int)(sizeof(spec_headers) / sizeof(spec_headers[0]))
#define SPEC_FIELDS	20
#define SPEC_MAX_HDR	256

/* The parser's answer, a field by its name */
static inline uint64_t spec_got(const struct wire_pkt *pkt, const char *name)
{
#define GOT(field) do { if (!strcmp(name, #field)) return pkt->field; } while (0)
	GOT(opcode);
	GOT(solicited);
	GOT(pad);
	GOT(pkey);
	GOT(becn);
	GOT(qpn);
	GOT(ackreq);
	GOT(psn);
	GOT(srqn);
	GOT(qkey);
	GOT(src_qpn);
	GOT(flush);
	GOT(va);
	GOT(rkey);
	GOT(dma_len);
	GOT(swap_add);
	GOT(compare);
	GOT(syndrome);
	GOT(msn);
	GOT(orig);
	GOT(ieth_rkey);
#undef GOT
	if (!strcmp(name, "imm"))
		return (uint64_t)pkt->imm[0] << 24 | (uint64_t)pkt->imm[1] << 16 |
		       (uint64_t)pkt->imm[2] << 8 | pkt->imm[3];
	return 0;	/* tver: the only one that passes */
}

static inline uint64_t spec_bits(const uint8_t *p, size_t bit, unsigned int n)
{
	uint64_t v = 0;

	for (; n--; bit++)
		v = v << 1 | (p[bit / 8] >> (7 - bit % 8) & 1);
	return v;
}

static inline void spec_put_bits(uint8_t *p, size_t bit, unsigned int n, uint64_t v)
{
	while (n--) {
		uint8_t mask = (uint8_t)(1 << (7 - bit % 8));

		if (v >> n & 1)
			p[bit / 8] |= mask;
		else
			p[bit / 8] &= (uint8_t)~mask;
		bit++;
	}
}

/* Calls back for each field of a packet with this opcode, in order. */
typedef void (*spec_visit)(void *ctx, const struct spec_header *h, const char *name,
			   size_t bit, unsigned int bits);

static inline size_t spec_walk_header(const struct spec_header *h, size_t bit,
				      spec_visit visit, void *ctx)
{
	const struct spec_field *f;

	for (f = h->fields; f < h->fields + 7 && f->name; f++) {
		if (visit)
			visit(ctx, h, f->name, bit, f->bits);
		bit += f->bits;
	}
	return bit;
}

/* Return: bytes of BTH and extension headers. */
static inline size_t spec_walk(uint8_t opcode, spec_visit visit, void *ctx)
{
	size_t bit = 0;
	int i;

	bit = spec_walk_header(&spec_bth, bit, visit, ctx);
	bit = spec_walk_header(&spec_bth_rest, bit, visit, ctx);
	for (i = 0; i < SPEC_HEADERS; i++)
		if (spec_has(opcode, spec_headers[i].name))
			bit = spec_walk_header(&spec_headers[i], bit, visit, ctx);
	return bit / 8;
}

/*
 * May a packet of @len bytes with these first bytes pass? Of @p, only what is
 * inside the packet is read.
 */
static inline enum wire_verdict spec_verdict(const uint8_t *p, uint64_t len)
{
	const struct spec_op *op;
	uint64_t hdr, rest, pad;

	if (len < 12 + 4 || len % 4)
		return WIRE_BAD_LENGTH;
	if (spec_bits(p, 12, 4))
		return WIRE_BAD_VERSION;
	op = spec_find(p[0]);
	if (!op)
		return WIRE_BAD_OPCODE;
	hdr = spec_walk(p[0], NULL, NULL);
	if (len < hdr + 4)
		return WIRE_BAD_LENGTH;
	rest = len - hdr - 4;
	pad = spec_bits(p, 10, 2);
	/* a middle of a message is as long as the path MTU: whole words */
	if (pad && !spec_ends(op))
		return WIRE_BAD_PAD;
	if (pad > rest)
		return WIRE_BAD_PAD;
	if (rest && !spec_has(p[0], "payload"))
		return WIRE_BAD_LENGTH;
	return WIRE_OK;
}

struct spec_check {
	const struct wire_pkt *pkt;
	const uint8_t *p;
	const char *bad;	/* the first field that is wrong */
	const char *seen[SPEC_FIELDS];
	int n;
};

static inline void spec_check_field(void *ctx, const struct spec_header *h, const char *name,
				    size_t bit, unsigned int bits)
{
	struct spec_check *c = ctx;

	(void)h;
	if (!strcmp(name, "-"))
		return;
	c->seen[c->n++] = name;
	if (!c->bad && spec_got(c->pkt, name) != spec_bits(c->p, bit, bits))
		c->bad = name;
}

/*
 * Is @pkt what lies at @p, and nothing else? Return: NULL, or the name of
 * what is wrong.
 */
static inline const char *spec_wrong(const uint8_t *p, uint64_t len, const struct wire_pkt *pkt)
{
	struct spec_check c = { .pkt = pkt, .p = p };
	const struct spec_field *f;
	size_t hdr;
	int i, j;

	hdr = spec_walk(p[0], spec_check_field, &c);
	if (c.bad)
		return c.bad;
	for (i = 0; i < SPEC_HEADERS; i++)
		for (f = spec_headers[i].fields; f->name; f++) {
			for (j = 0; j < c.n && strcmp(c.seen[j], f->name); j++)
				;
			/* of a header that is not there */
			if (j == c.n && strcmp(f->name, "-") && spec_got(pkt, f->name))
				return f->name;
		}
	if (pkt->op != &wire_opcodes[p[0]])
		return "op";
	if (pkt->op->hdr_len != hdr)
		return "hdr_len";
	if (hdr + pkt->payload_len + pkt->pad + 4 != len)
		return "payload_len";
	return NULL;
}

/*
 * The gap report as a map of the packets of its run. A report is good if what
 * it says, written down from the map, is the report: there is one way to say it.
 */
#define SPEC_GAPS_MAGIC	"sroc"
#define SPEC_GAPS_MAX	31
#define SPEC_GAPS_LEN	(4 + 4 * (SPEC_GAPS_MAX + 1))
/* a gap of most packets that begins last */
#define SPEC_RUN	(2 * 65536)

/* With what came twice. Return: bytes at @p; 0 for what can't be said. */
static inline size_t spec_put_gaps(uint8_t *p, const uint8_t *missing, uint32_t end,
				   uint32_t twice)
{
	const uint8_t *const stop = missing + SPEC_RUN, *at, *behind;
	size_t len = 4;

	memcpy(p, SPEC_GAPS_MAGIC, 4);
	if (!end) {
		spec_put_bits(p + 4, 0, 16, 0);
		spec_put_bits(p + 4, 16, 16, twice);
		return memchr(missing, 1, SPEC_RUN) ? 0 : 8;
	}
	if (!missing[0] || end > 0xffff || memchr(missing + end, 1, SPEC_RUN - end) ||
	    missing[end - 1])
		return 0;
	for (at = missing; at; at = memchr(behind, 1, (size_t)(stop - behind))) {
		behind = memchr(at, 0, (size_t)(stop - at));
		if (len == SPEC_GAPS_LEN - 4)
			return 0;
		spec_put_bits(p + len, 0, 16, (uint64_t)(at - missing));
		spec_put_bits(p + len, 16, 16, (uint64_t)(behind - at));
		len += 4;
	}
	spec_put_bits(p + len, 0, 16, end);
	spec_put_bits(p + len, 16, 16, twice);
	return len + 4;
}

/* Return: gaps of the report at @p; -1 if it is none. */
static inline int spec_gaps(const uint8_t *p, size_t len)
{
	static uint8_t missing[SPEC_RUN];
	uint8_t again[SPEC_GAPS_LEN];
	const uint8_t *word;
	uint32_t end, twice;

	if (len < 8 || len > SPEC_GAPS_LEN || len % 4)
		return -1;
	memset(missing, 0, sizeof(missing));
	for (word = p + 4; word < p + len - 4; word += 4)
		memset(missing + spec_bits(word, 0, 16), 1, spec_bits(word, 16, 16));
	end = (uint32_t)spec_bits(word, 0, 16);
	twice = (uint32_t)spec_bits(word, 16, 16);
	if (spec_put_gaps(again, missing, end, twice) != len || memcmp(again, p, len))
		return -1;
	return (int)(len / 4 - 2);
}

#endif /* WIRE_SPEC_H */
