// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The ICRC of packets that others made, of every packet that differs from one
 * of those in a bit, and of the packets of a burst. The CRC here goes a bit at
 * a time: it shares nothing with zlib's, which scapy uses, nor the kernel's.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "icrc.h"
#include "tap.h"

#define MAX_VECTORS	1000
#define MAX_PACKET	2048

struct vector {
	char name[64];
	char source[32];
	uint8_t icrc[4];
	uint8_t *packet;	/* from the IP header on */
	size_t len;
	bool grh;		/* RoCE v1: no UDP header behind it */
};

static struct vector vectors[MAX_VECTORS];
static int n_vectors;

/* as the kernel's crc32_le(): the caller gives the seed and inverts */
static uint32_t crc32_bits(uint32_t crc, const uint8_t *p, size_t n)
{
	int i;

	while (n--) {
		crc ^= *p++;
		for (i = 0; i < 8; i++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320U : 0);
	}
	return crc;
}

static unsigned int be16(const uint8_t *p)
{
	return (unsigned int)p[0] << 8 | p[1];
}

static void put_be16(uint8_t *p, unsigned int v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static size_t ip_len(const uint8_t *packet)
{
	return packet[0] >> 4 == 4 ? WIRE_IP4_LEN : WIRE_IP6_LEN;
}

/* --- what the specification masks ------------------------------------------ */

/* Is this bit of the packet one that the way may change? */
static bool is_masked(const uint8_t *packet, size_t byte, unsigned int bit)
{
	size_t ip = ip_len(packet);

	if (byte == ip + 6 || byte == ip + 7)		/* UDP checksum */
		return true;
	if (byte == ip + WIRE_UDP_LEN + 4)		/* BTH FECN, BECN, reserved */
		return true;
	if (ip == WIRE_IP4_LEN)				/* class, TTL, checksum */
		return byte == 1 || byte == 8 || byte == 10 || byte == 11;
	/* class, flow label, hop limit; the version shares a byte with the class */
	return (byte == 0 && bit < 4) || (byte >= 1 && byte <= 3) || byte == 7;
}

/* IP's length, which the code under test derives from UDP's */
static bool is_ip_length(const uint8_t *packet, size_t byte)
{
	size_t at = ip_len(packet) == WIRE_IP4_LEN ? 2 : 4;

	return byte == at || byte == at + 1;
}

static bool is_version(size_t byte, unsigned int bit)
{
	return byte == 0 && bit >= 4;
}

/* --- the code under test, on a whole packet -------------------------------- */

/*
 * Headers in buffers of their own, so that the sanitizer sees what is read
 * beside them, and a result of exactly the size that is promised.
 */
static size_t head(uint8_t *to, const uint8_t *ip, size_t iplen, unsigned int id,
		   unsigned int udp_len, const uint8_t *bth)
{
	size_t want = iplen == WIRE_IP4_LEN ? WIRE_ICRC_HEAD4_LEN : WIRE_ICRC_HEAD6_LEN, got;
	uint8_t *iph = alloc(iplen + WIRE_UDP_LEN), *bthh = alloc(WIRE_BTH_LEN), *out = alloc(want);

	memcpy(iph, ip, iplen + WIRE_UDP_LEN);
	memcpy(bthh, bth, WIRE_BTH_LEN);
	if (iplen == WIRE_IP4_LEN)
		got = wire_icrc_head4(out, iph, (uint16_t)id, (uint16_t)udp_len, bthh);
	else
		got = wire_icrc_head6(out, iph, (uint16_t)udp_len, bthh);
	if (got != want)
		got = 0;
	memcpy(to, out, want);
	free(iph);
	free(bthh);
	free(out);
	return got;
}

static uint32_t packet_crc(const uint8_t *packet, size_t len)
{
	size_t iplen = ip_len(packet), bth = iplen + WIRE_UDP_LEN, n;
	uint8_t front[WIRE_ICRC_HEAD_MAX];
	uint32_t crc;

	n = head(front, packet, iplen, be16(packet + 4), be16(packet + iplen + 4), packet + bth);
	crc = crc32_bits(WIRE_ICRC_SEED, front, n);
	return crc32_bits(crc, packet + bth + WIRE_BTH_LEN,
			  len - bth - WIRE_BTH_LEN - WIRE_ICRC_LEN);
}

/* The GRH of RoCE v1 is masked as IPv6 is; the UDP header is cut out again. */
static uint32_t grh_crc(const uint8_t *packet, size_t len)
{
	uint8_t ip[WIRE_IP6_LEN + WIRE_UDP_LEN] = { 0 }, front[WIRE_ICRC_HEAD_MAX];
	size_t bth = WIRE_IP6_LEN;
	uint32_t crc;

	memcpy(ip, packet, WIRE_IP6_LEN);
	head(front, ip, WIRE_IP6_LEN, 0, be16(packet + 4), packet + bth);
	crc = crc32_bits(WIRE_ICRC_SEED, front, 8 + WIRE_IP6_LEN);
	crc = crc32_bits(crc, front + 8 + WIRE_IP6_LEN + WIRE_UDP_LEN, WIRE_BTH_LEN);
	return crc32_bits(crc, packet + bth + WIRE_BTH_LEN,
			  len - bth - WIRE_BTH_LEN - WIRE_ICRC_LEN);
}

static uint32_t vector_crc(const struct vector *v)
{
	return v->grh ? grh_crc(v->packet, v->len) : packet_crc(v->packet, v->len);
}

/* --- vectors --------------------------------------------------------------- */

static size_t unhex(uint8_t *to, size_t room, const char *hex)
{
	unsigned int byte;
	size_t n = 0;

	for (; n < room && sscanf(hex, "%2x", &byte) == 1 && hex[1]; hex += 2)
		to[n++] = (uint8_t)byte;
	return *hex ? 0 : n;
}

static void read_vectors(const char *path)
{
	static char line[2 * MAX_PACKET + 200], hex[2 * MAX_PACKET + 1];
	static uint8_t packet[MAX_PACKET];
	FILE *f = fopen(path, "r");

	if (!f) {
		printf("Bail out! %s: %s\n", path, strerror(errno));
		exit(1);
	}
	while (fgets(line, sizeof(line), f)) {
		struct vector *v = &vectors[n_vectors];
		char icrc[9];

		if (line[0] == '#')
			continue;
		if (n_vectors == MAX_VECTORS ||
		    sscanf(line, "%63[^\t]\t%31[^\t]\t%8[0-9a-f]\t%4096[0-9a-f]", v->name, v->source,
			   icrc, hex) != 4 || unhex(v->icrc, 4, icrc) != 4 ||
		    !(v->len = unhex(packet, sizeof(packet), hex)) || v->len < 44) {
			printf("Bail out! %s: not a vector: %.60s\n", path, line);
			exit(1);
		}
		v->grh = !strncmp(v->name, "roce1-", 6);
		v->packet = alloc(v->len);
		memcpy(v->packet, packet, v->len);
		n_vectors++;
	}
	fclose(f);
}

static void test_source(const char *source, const char *what)
{
	int bad = 0, n4 = 0, n6 = 0, i;

	for (i = 0; i < n_vectors; i++) {
		const struct vector *v = &vectors[i];
		uint32_t crc;
		uint8_t got[4];

		if (strcmp(v->source, source))
			continue;
		if (ip_len(v->packet) == WIRE_IP4_LEN)
			n4++;
		else
			n6++;
		crc = vector_crc(v);
		wire_icrc_put(got, crc);
		if (memcmp(got, v->icrc, 4))
			wrong(&bad, "%s: %02x%02x%02x%02x, not %02x%02x%02x%02x", v->name, got[0],
			      got[1], got[2], got[3], v->icrc[0], v->icrc[1], v->icrc[2], v->icrc[3]);
		if (!wire_icrc_match(v->packet + v->len - 4, crc))
			wrong(&bad, "%s: the ICRC that it carries does not match", v->name);
	}
	ok(!bad && n4 + n6, "%s: %d of IPv4, %d of IPv6", what, n4, n6);
}

static struct vector *find(const char *name)
{
	int i;

	for (i = 0; i < n_vectors; i++)
		if (!strcmp(vectors[i].name, name))
			return &vectors[i];
	printf("Bail out! no vector %s\n", name);
	exit(1);
}

/* The judges' word on what is masked, apart from what the ICRC's value is. */
static void test_variations(const char *prefix)
{
	int bad_same = 0, bad_other = 0, same = 0, other = 0, i;
	const struct vector *base, *v;
	char name[64];
	bool equal;

	snprintf(name, sizeof(name), "%s-base", prefix);
	base = find(name);
	for (i = 0; i < n_vectors; i++) {
		v = &vectors[i];
		if (strncmp(v->name, prefix, strlen(prefix)))
			continue;
		equal = vector_crc(v) == vector_crc(base);
		if (strstr(v->name, "-same-")) {
			same++;
			if (!equal || memcmp(v->icrc, base->icrc, 4))
				wrong(&bad_same, "%s", v->name);
		} else if (strstr(v->name, "-other-")) {
			other++;
			if (equal || !memcmp(v->icrc, base->icrc, 4))
				wrong(&bad_other, "%s", v->name);
		}
	}
	ok(!bad_same && same, "%s: %d changes on the way leave the ICRC alone", prefix, same);
	ok(!bad_other && other, "%s: %d other changes give another ICRC", prefix, other);
}

/* Every opcode that there is over both IPs, every padding */
static void test_vectors_cover(void)
{
	bool op[2][256] = { { false } }, pad[2][4] = { { false } };
	int i, n[2] = { 0, 0 }, v6;

	for (i = 0; i < n_vectors; i++) {
		const struct vector *v = &vectors[i];
		const uint8_t *bth = v->packet + ip_len(v->packet) + WIRE_UDP_LEN;

		if (v->grh)
			continue;
		v6 = ip_len(v->packet) == WIRE_IP6_LEN;
		n[v6] += !op[v6][bth[0]];
		op[v6][bth[0]] = true;
		pad[v6][bth[1] >> 4 & 3] = true;
	}
	for (v6 = 0; v6 < 2; v6++)
		ok(n[v6] >= 65 && pad[v6][0] && pad[v6][1] && pad[v6][2] && pad[v6][3],
		   "the vectors of IPv%d have each padding and %d opcodes", v6 ? 6 : 4, n[v6]);
}

/* --- single bits ----------------------------------------------------------- */

static void test_bits(void)
{
	int bad_same = 0, bad_other = 0, bad_length = 0, bad_match = 0, i;
	long same = 0, other = 0;
	unsigned int bit;
	size_t byte;

	for (i = 0; i < n_vectors; i++) {
		const struct vector *v = &vectors[i];
		uint32_t crc = vector_crc(v);
		uint8_t *p = v->packet;

		if (v->grh || v->len > 200)
			continue;
		for (byte = 0; byte < v->len; byte++)
			for (bit = 0; bit < 8; bit++) {
				bool match, equal;

				if (is_version(byte, bit))
					continue;
				p[byte] ^= (uint8_t)(1 << bit);
				equal = packet_crc(p, v->len) == crc;
				match = wire_icrc_match(p + v->len - 4, packet_crc(p, v->len));
				p[byte] ^= (uint8_t)(1 << bit);
				if (byte >= v->len - 4) {
					if (match)
						wrong(&bad_match, "%s: bit %u of byte %zu", v->name,
						      bit, byte);
				} else if (is_ip_length(p, byte)) {
					if (!equal)
						wrong(&bad_length, "%s", v->name);
				} else if (is_masked(p, byte, bit)) {
					same++;
					if (!equal || !match)
						wrong(&bad_same, "%s: bit %u of byte %zu", v->name,
						      bit, byte);
				} else {
					other++;
					if (equal || match)
						wrong(&bad_other, "%s: bit %u of byte %zu", v->name,
						      bit, byte);
				}
			}
	}
	ok(!bad_same, "each masked bit of each vector, inverted: the same ICRC (%ld)", same);
	ok(!bad_other, "each other bit inverted: another ICRC (%ld)", other);
	ok(!bad_length, "IP's length is derived from the UDP length given");
	ok(!bad_match, "an ICRC with one wrong bit does not match");
}

/* --- bursts ---------------------------------------------------------------- */

/* One header in front of many packets, as it is before segmentation. */
struct burst {
	uint8_t ip[WIRE_IP6_LEN + WIRE_UDP_LEN];
	size_t ip_len;
	unsigned int id;
	unsigned int udp_len;	/* of each, but the last may be shorter */
	unsigned int last_len;
	unsigned int n;
};

static void make_burst(struct burst *b, bool v6)
{
	unsigned int total;

	rnd_fill(b->ip, sizeof(b->ip));
	b->ip_len = v6 ? WIRE_IP6_LEN : WIRE_IP4_LEN;
	b->n = 1 + (rnd() >> 60);
	b->udp_len = WIRE_UDP_LEN + WIRE_BTH_LEN + WIRE_ICRC_LEN + 4 * (rnd() >> 56);
	b->last_len = b->udp_len - (b->udp_len > 24 ? 4 * (rnd() % ((b->udp_len - 24) / 4 + 1)) : 0);
	/* half of them cross the wrap */
	b->id = rnd() >> 63 ? (unsigned int)(rnd() >> 48) : 0xffff - (unsigned int)(rnd() >> 61);
	total = WIRE_UDP_LEN + (b->n - 1) * (b->udp_len - WIRE_UDP_LEN) + b->last_len - WIRE_UDP_LEN;
	if (v6) {
		b->ip[0] = 0x60 | (b->ip[0] & 0x0f);
		put_be16(b->ip + 4, total);
	} else {
		b->ip[0] = 0x45;
		put_be16(b->ip + 2, WIRE_IP4_LEN + total);
		put_be16(b->ip + 4, b->id);
	}
	put_be16(b->ip + b->ip_len + 4, total);
}

/* Packet @i, written out as segmentation will. Return: its bytes without ICRC. */
static size_t serialise(const struct burst *b, unsigned int i, uint8_t *p)
{
	unsigned int udp_len = i + 1 < b->n ? b->udp_len : b->last_len;
	size_t ip = b->ip_len;

	memcpy(p, b->ip, ip + WIRE_UDP_LEN);
	if (ip == WIRE_IP4_LEN) {
		put_be16(p + 2, WIRE_IP4_LEN + udp_len);
		put_be16(p + 4, (b->id + i) & 0xffff);
		rnd_fill(p + 10, 2);			/* the stack's checksum */
	} else {
		put_be16(p + 4, udp_len);
	}
	put_be16(p + ip + 4, udp_len);
	rnd_fill(p + ip + 6, udp_len - 6);		/* its checksum, BTH and payload */
	return ip + udp_len - WIRE_ICRC_LEN;
}

/* By the mask of the specification, bit by bit, over the whole packet */
static uint32_t masked_crc(const uint8_t *packet, size_t len)
{
	static const uint8_t lrh[8] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	uint32_t crc = crc32_bits(WIRE_ICRC_SEED, lrh, sizeof(lrh));
	unsigned int bit;
	size_t byte;
	uint8_t v;

	for (byte = 0; byte < len; byte++) {
		v = packet[byte];
		for (bit = 0; bit < 8; bit++)
			if (is_masked(packet, byte, bit))
				v |= (uint8_t)(1 << bit);
		crc = crc32_bits(crc, &v, 1);
	}
	return crc;
}

/* What the head of packet @i becomes, made from that of one like it before it */
static void head_by_step(uint8_t *to, const struct burst *b, unsigned int i, unsigned int udp_len,
			 const uint8_t *bth)
{
	uint8_t before[WIRE_BTH_LEN];
	size_t n;

	memcpy(before, bth, 8);
	rnd_fill(before + 8, 4);
	n = head(to, b->ip, b->ip_len, b->id + i - 1, udp_len, before);
	wire_icrc_head_next(to, (uint32_t)n, (uint16_t)(b->id + i), bth);
}

static void test_burst(bool v6)
{
	uint8_t from_burst[WIRE_ICRC_HEAD_MAX], from_packet[WIRE_ICRC_HEAD_MAX];
	int bad_head = 0, bad_crc = 0, bad_step = 0, bursts, wraps = 0;
	uint8_t by_step[WIRE_ICRC_HEAD_MAX];
	static uint8_t packet[MAX_PACKET];
	unsigned int i, udp_len;
	struct burst b;
	uint32_t crc;
	size_t len, n, bth;

	for (bursts = 0; bursts < 1000; bursts++) {
		make_burst(&b, v6);
		wraps += b.id + b.n > 0x10000;
		bth = b.ip_len + WIRE_UDP_LEN;
		for (i = 0; i < b.n; i++) {
			len = serialise(&b, i, packet);
			udp_len = be16(packet + b.ip_len + 4);
			n = head(from_burst, b.ip, b.ip_len, b.id + i, udp_len, packet + bth);
			head(from_packet, packet, b.ip_len, be16(packet + 4), udp_len, packet + bth);
			if (!n || memcmp(from_burst, from_packet, n))
				wrong(&bad_head, "packet %u of %u, id %#x, %u bytes", i, b.n,
				      b.id + i, udp_len);
			head_by_step(by_step, &b, i, udp_len, packet + bth);
			if (memcmp(from_burst, by_step, n))
				wrong(&bad_step, "packet %u of %u, id %#x, %u bytes", i, b.n,
				      b.id + i, udp_len);
			crc = crc32_bits(WIRE_ICRC_SEED, from_burst, n);
			crc = crc32_bits(crc, packet + bth + WIRE_BTH_LEN, len - bth - WIRE_BTH_LEN);
			if (crc != masked_crc(packet, len))
				wrong(&bad_crc, "packet %u of %u, id %#x, %u bytes", i, b.n,
				      b.id + i, udp_len);
		}
	}
	ok(!bad_head, "IPv%d: from a burst's header the head of each packet that it becomes",
	   v6 ? 6 : 4);
	ok(!bad_step, "IPv%d: from the head of the packet before it, too", v6 ? 6 : 4);
	ok(!bad_crc, "IPv%d: and its ICRC by the specification's mask", v6 ? 6 : 4);
	if (!v6)
		ok(wraps > 100, "the identification wrapped in %d of %d bursts", wraps, bursts);
}

/* --- the file -------------------------------------------------------------- */

/* Does the generator write the file that is committed? */
static void test_regenerated(const char *committed, const char *fresh)
{
	const char *name = "scapy gives these vectors today";
	static char want[2 * MAX_PACKET + 200], got[2 * MAX_PACKET + 200];
	FILE *c, *f;
	int n = 1;

	if (!fresh) {
		printf("ok %d - %s # SKIP no python3-scapy with contrib.roce\n", ++tap_n, name);
		return;
	}
	c = fopen(committed, "r");
	f = fopen(fresh, "r");
	if (!c || !f) {
		ok(0, "%s", name);
		return;
	}
	for (;; n++) {
		const char *w = fgets(want, sizeof(want), c), *g = fgets(got, sizeof(got), f);

		if (!w && !g)
			break;
		if (w && g && !strcmp(w, g))
			continue;
		diag("line %d", n);
		diag("got:  %.100s", g ? g : "the end\n");
		diag("want: %.100s", w ? w : "the end\n");
		n = 0;
		break;
	}
	ok(n > 1, "%s", name);
	fclose(c);
	fclose(f);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: icrc VECTORS [REGENERATED]\n");
		return 2;
	}
	read_vectors(argv[1]);
	test_source("capture", "captures of others (IPv6: the GRH of RoCE v1)");
	test_source("scapy-test", "what scapy's regression test publishes");
	test_source("scapy", "what scapy computed");
	test_source("reference", "what the reference in vectors.py computed");
	test_vectors_cover();
	test_variations("var4");
	test_variations("var6");
	test_bits();
	test_burst(false);
	test_burst(true);
	test_regenerated(argv[1], argc > 2 ? argv[2] : NULL);
	return done_testing();
}
