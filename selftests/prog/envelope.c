// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What a packet may come in, as the host's stack delivers it: UDP checksums that are none, right
 * and wrong, IP options and extension headers, fragments, tags of priority, bytes behind it. One
 * that is a RoCE packet is taken, and any other does nothing, and is counted.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"

static struct end ea, eb;

#define WRITE_ONLY	0x0a
#define LEN		1000
#define IP4		20
#define IP6		40

/* From @e0 to e1, as frames on the netdev of the host a */
static struct pair p;
static int sock;
static struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_halen = 6 };
static uint8_t eth[14];
static uint64_t key;
static uint16_t last_id;

static const char * const dropped[] = {
	"rx_malformed", "rx_icrc_encapsulated", "rx_csum_errors", "rx_no_qp", "rx_wrong_peer",
};

static void netdev_of(const char *host, const char *name, uint8_t *mac, int *index)
{
	const int home = host_enter(host), fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct ifreq r = {};

	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", name);
	if (fd < 0 || ioctl(fd, SIOCGIFHWADDR, &r))
		die("no %s in %s", name, host);
	memcpy(mac, r.ifr_hwaddr.sa_data, 6);
	*index = if_nametoindex(name);
	close(fd);
	host_leave(home);
}

static void up(void)
{
	const struct pair_opts o = {
		.sq = 4, .rq = 4, .sge = 1, .buf = 4096, .access = IBV_ACCESS_REMOTE_WRITE,
	};
	int index, home;

	netdev_of("b", "v1", eth, &index);
	netdev_of("a", "v0", eth + 6, &index);
	memcpy(to.sll_addr, eth, 6);
	to.sll_ifindex = index;
	home = host_enter("a");
	sock = socket(AF_PACKET, SOCK_RAW, 0);
	host_leave(home);
	if (sock < 0)
		die("packet socket");
	pair_create(&p, &ea, &eb, &o);
	pair_connect(&p);
}

static void down(void)
{
	pair_destroy(&p);
	close(sock);
}

static void put16(uint8_t *at, unsigned int v)
{
	at[0] = v >> 8;
	at[1] = v;
}

static uint32_t add16(uint32_t sum, const uint8_t *at, size_t len)
{
	for (; len > 1; at += 2, len -= 2)
		sum += at[0] << 8 | at[1];
	return len ? sum + (at[0] << 8) : sum;
}

static uint16_t folded(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static void ip_sum(uint8_t *ip)
{
	put16(ip + 10, 0);
	put16(ip + 10, folded(add16(0, ip, (ip[0] & 15) * 4)));
}

static bool v6(void)
{
	return !v4_mapped(&ea.gid);
}

static size_t ip_len(void)
{
	return v6() ? IP6 : IP4;
}

/*
 * The next WRITE of the requester, from the IP header on, that nothing is wrong with: may it be
 * fragmented (@df)? The memory is what it was before.
 */
static size_t packet(uint8_t *ip, bool df)
{
	uint8_t four[FORGED_MAX], body[RETH_LEN + LEN];
	size_t total;
	uint32_t v;

	memset(p.buf[1], CANARY, LEN);
	reth(body, p.buf[1], p.mr[1]->rkey, LEN);
	pattern_fill(body + RETH_LEN, ++key, 0, LEN);
	total = forge_into(four, &p, 0, ++last_id, WRITE_ONLY, p.psn[0], body, sizeof(body));
	if (!df)
		four[6] = 0;
	ip_sum(four);
	if (v6()) {
		memset(ip, 0, IP6);
		ip[0] = 0x60;
		put16(ip + 4, total - IP4);
		ip[6] = IPPROTO_UDP;
		ip[7] = 64;
		memcpy(ip + 8, ea.gid.raw, 16);
		memcpy(ip + 24, eb.gid.raw, 16);
		memcpy(ip + IP6, four + IP4, total - IP4);
		total += IP6 - IP4;
	} else {
		memcpy(ip, four, total);
	}
	v = htole32(icrc_of(ip, total - 4));
	memcpy(ip + total - 4, &v, 4);
	return total;
}

static void udp_sum(uint8_t *ip, size_t total, uint8_t *udp)
{
	const size_t len = ip + total - udp;
	uint32_t sum = IPPROTO_UDP + len;

	put16(udp + 6, 0);
	sum = v6() ? add16(sum, ip + 8, 32) : add16(sum, ip + 12, 8);
	put16(udp + 6, folded(add16(sum, udp, len)) ?: 0xffff);
}

/* @tag: 802.1Q's, or -1 for none */
static void emit(const uint8_t *ip, size_t len, int tag)
{
	uint8_t frame[18 + FORGED_MAX];
	const unsigned int type = ip[0] >> 4 == 6 ? ETHERTYPE_IPV6 : ETHERTYPE_IP;
	size_t head = 12;

	memcpy(frame, eth, 12);
	if (tag >= 0) {
		put16(frame + head, ETHERTYPE_VLAN);
		put16(frame + head + 2, tag);
		head += 4;
	}
	put16(frame + head, type);
	head += 2;
	memcpy(frame + head, ip, len);
	if (sendto(sock, frame, head + len, 0, (void *)&to, sizeof(to)) != (ssize_t)(head + len))
		die("packet socket: %s", strerror(errno));
}

/* A request behind it that is well: by then it has been taken, or never will be. */
static bool barrier(void)
{
	uint8_t ip[FORGED_MAX];
	const long long before = hw_counter(&eb, "rx_write_requests");
	uint8_t saved[LEN];
	size_t total;
	bool came;

	memcpy(saved, p.buf[1], LEN);
	total = packet(ip, true);
	emit(ip, total, -1);
	for (double end = now() + PATIENCE; now() < end; sleep_ms(1))
		if (pattern_check(p.buf[1], key, 0, LEN) < 0 &&
		    hw_counter(&eb, "rx_write_requests") > before)
			break;
	came = pattern_check(p.buf[1], key, 0, LEN) < 0;
	p.psn[0]++;
	memcpy(p.buf[1], saved, LEN);
	return came;
}

static void is_taken(const char *what)
{
	const uint64_t mine = key;

	for (double end = now() + PATIENCE; now() < end; sleep_ms(1))
		if (pattern_check(p.buf[1], mine, 0, LEN) < 0)
			break;
	is(pattern_check(p.buf[1], mine, 0, LEN), -1, "%s: every byte is there", what);
	p.psn[0]++;
}

static void counts(long long *n)
{
	counters_read(&eb, dropped, ARRAY_SIZE(dropped), n);
}

/* @counter: the one that counts it, NULL for none of them */
static void is_not(const char *what, const char *counter, const long long *before)
{
	long long after[ARRAY_SIZE(dropped)];

	ok(barrier(), "%s: what comes behind it is taken", what);
	is(canary_check(p.buf[1], LEN), -1, "%s: it does nothing", what);
	counts(after);
	for (size_t i = 0; i < ARRAY_SIZE(dropped); i++)
		if ((counter && !strcmp(counter, dropped[i])) || after[i] != before[i])
			is(after[i] - before[i], counter && !strcmp(counter, dropped[i]), "%s: %s",
			   what, dropped[i]);
}

static void sums(void)
{
	long long before[ARRAY_SIZE(dropped)];
	uint8_t ip[FORGED_MAX];
	size_t total;

	up();
	total = packet(ip, true);
	emit(ip, total, -1);
	is_taken("no UDP checksum");
	total = packet(ip, true);
	udp_sum(ip, total, ip + ip_len());
	emit(ip, total, -1);
	is_taken("a right one");
	counts(before);
	total = packet(ip, true);
	udp_sum(ip, total, ip + ip_len());
	ip[ip_len() + 7] ^= 1;
	emit(ip, total, -1);
	is_not("a wrong one", "rx_csum_errors", before);
	down();
}

static void tags(void)
{
	long long before[ARRAY_SIZE(dropped)];
	uint8_t ip[FORGED_MAX];
	size_t total;

	up();
	for (int priority = 0; priority < 8; priority += 7) {
		total = packet(ip, true);
		emit(ip, total, priority << 13);
		is_taken(priority ? "a tag of priority 7" : "a tag of no priority");
	}
	counts(before);
	total = packet(ip, true);
	emit(ip, total, 7 << 13 | 77);
	is_not("a VLAN that is not there", NULL, before);
	down();
}

/* Behind what UDP has, within what IP has; and what UDP has not all of */
static void lengths(void)
{
	long long before[ARRAY_SIZE(dropped)];
	uint8_t ip[FORGED_MAX];
	size_t total;

	up();
	for (int more = 1; more <= 4; more += 3) {
		counts(before);
		total = packet(ip, true);
		memset(ip + total, 0, more);
		if (v6()) {
			put16(ip + 4, total - IP6 + more);
		} else {
			put16(ip + 2, total + more);
			ip_sum(ip);
		}
		emit(ip, total + more, -1);
		is_not(more == 1 ? "a byte behind it" : "four bytes behind it", "rx_malformed",
		       before);
	}
	counts(before);
	total = packet(ip, true);
	put16(ip + ip_len() + 4, total - ip_len() + 4);
	emit(ip, total, -1);
	is_not("a UDP length that is more than there is", "rx_malformed", before);
	/* beyond IP, as of what is shorter than Ethernet's least */
	total = packet(ip, true);
	memset(ip + total, 0x77, 20);
	emit(ip, total + 20, -1);
	is_taken("padding behind it");
	down();
}

/* @len bytes of @with between the IP header and UDP; for IPv4 they are its own */
static size_t put_between(uint8_t *ip, size_t total, const uint8_t *with, size_t len)
{
	memmove(ip + ip_len() + len, ip + ip_len(), total - ip_len());
	memcpy(ip + ip_len(), with, len);
	if (v6()) {
		put16(ip + 4, total + len - IP6);
	} else {
		ip[0] += len / 4;
		put16(ip + 2, total + len);
		ip_sum(ip);
	}
	return total + len;
}

/* Its ICRC would have no place for them. */
static void options(void)
{
	static const uint8_t nops[8] = { 1, 1, 1, 1, 1, 1, 1, 0 };
	static const uint8_t alert[4] = { 0x94, 4, 0, 0 };
	static const char * const names[2][2] = {
		{ "options of nothing", "the option of an alert" },
		{ "a header for each hop", "a header for the destination" },
	};
	const uint8_t pad[8] = { IPPROTO_UDP, 0, 1, 4 };
	long long before[ARRAY_SIZE(dropped)];
	uint8_t ip[FORGED_MAX];
	size_t total;
	uint32_t v;

	up();
	/* the ICRC of what it is without them, and of all that is there */
	for (int all = 0; all < 2; all++) {
		for (int kind = 0; kind < 2; kind++) {
			counts(before);
			total = packet(ip, true);
			if (v6()) {
				/* hop by hop, or for the destination */
				ip[6] = kind ? 60 : 0;
				total = put_between(ip, total, pad, sizeof(pad));
			} else if (kind) {
				total = put_between(ip, total, alert, sizeof(alert));
			} else {
				total = put_between(ip, total, nops, sizeof(nops));
			}
			v = htole32(icrc_of(ip, total - 4));
			if (all)
				memcpy(ip + total - 4, &v, 4);
			/* which IPv6's sockets would want */
			if (v6())
				udp_sum(ip, total, ip + IP6 + sizeof(pad));
			emit(ip, total, -1);
			is_not(names[v6()][kind], "rx_malformed", before);
		}
	}
	down();
}

/* The part of @ip from @from on, as one fragment of it */
static size_t fragment(uint8_t *to_ip, const uint8_t *ip, size_t total, size_t from, size_t len)
{
	const size_t data = total - ip_len(), n = min(len, data - from);
	const bool more = from + n < data;

	memcpy(to_ip, ip, ip_len());
	if (v6()) {
		uint8_t *f = to_ip + IP6;

		to_ip[6] = 44;
		put16(to_ip + 4, 8 + n);
		memset(f, 0, 8);
		f[0] = IPPROTO_UDP;
		put16(f + 2, from | more);
		put16(f + 6, last_id);
		memcpy(f + 8, ip + IP6 + from, n);
		return IP6 + 8 + n;
	}
	put16(to_ip + 2, IP4 + n);
	put16(to_ip + 6, from / 8 | more << 13);
	ip_sum(to_ip);
	memcpy(to_ip + IP4, ip + IP4 + from, n);
	return IP4 + n;
}

static void fragments(void)
{
	static const struct {
		const char *what;
		size_t len;
		bool backwards, lost, sum;
	} ways[] = {
		{ "two fragments", 600, false, false, false },
		{ "many of them", 64, false, false, false },
		{ "the last one first", 64, true, false, false },
		{ "with a right UDP checksum", 256, false, false, true },
		{ "one is missing", 256, false, true, false },
		{ "a fragment that is all", 2000, false, false, false },
	};
	long long before[ARRAY_SIZE(dropped)];
	uint8_t ip[FORGED_MAX], part[FORGED_MAX];

	up();
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		const size_t total = packet(ip, false), data = total - ip_len();
		const size_t num = (data + ways[i].len - 1) / ways[i].len;

		/* IPv4 has no such thing as that */
		if (num == 1 && !v6())
			continue;
		if (ways[i].sum)
			udp_sum(ip, total, ip + ip_len());
		counts(before);
		for (size_t k = 0; k < num; k++) {
			const size_t which = ways[i].backwards ? num - 1 - k : k;

			if (ways[i].lost && which == 1)
				continue;
			emit(part, fragment(part, ip, total, which * ways[i].len, ways[i].len), -1);
		}
		/* whose header the stack leaves there */
		if (ways[i].lost || num == 1)
			is_not(ways[i].what, ways[i].lost ? NULL : "rx_malformed", before);
		else
			is_taken(ways[i].what);
	}
	down();
}

static const struct test tests[] = {
	TEST(sums),
	TEST(tags),
	TEST(lengths),
	TEST(options),
	TEST(fragments),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
