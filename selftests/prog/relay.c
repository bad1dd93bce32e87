// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#define _GNU_SOURCE
#include <endian.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"
#include "relay.h"

#define HOLD_SECONDS 4

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rule {
	unsigned int way;
	uint32_t psn;
	int opcode;
	unsigned int times;
	bool hit;
	bool waited;
} rules[256];
static unsigned int num_rules;
static unsigned int carried[2], dropped;
static int wire_fd[2];

static struct {
	unsigned int want;
	unsigned int waited;	/* different ones */
	double until;
	unsigned int num;
	struct {
		unsigned int way;
		size_t len;
		uint8_t frame[2048];
	} held[256];
} hold;

static struct {
	unsigned int way;
	uint32_t psn;
	unsigned int behind;	/* so many frames go before it; 0 for none that is late */
	size_t len;
	uint8_t frame[2048];
} late;

void relay_clear(void)
{
	pthread_mutex_lock(&lock);
	num_rules = 0;
	late.behind = 0;
	late.len = 0;
	carried[THERE] = carried[BACK] = dropped = 0;
	hold.want = hold.waited = 0;
	pthread_mutex_unlock(&lock);
}

void relay_drop_op(unsigned int way, uint32_t psn, int opcode, unsigned int times)
{
	pthread_mutex_lock(&lock);
	if (num_rules == ARRAY_SIZE(rules))
		die("relay: too many rules");
	rules[num_rules++] = (struct rule) {
		.way = way,
		.psn = psn == ALL ? ALL : psn & 0xffffff,
		.opcode = opcode,
		.times = times,
	};
	pthread_mutex_unlock(&lock);
}

void relay_drop(unsigned int way, uint32_t psn, unsigned int times)
{
	relay_drop_op(way, psn, -1, times);
}

void relay_late(unsigned int way, uint32_t psn, unsigned int behind)
{
	pthread_mutex_lock(&lock);
	late.way = way;
	late.psn = psn & 0xffffff;
	late.behind = behind;
	late.len = 0;
	pthread_mutex_unlock(&lock);
}

void relay_hold(unsigned int num)
{
	pthread_mutex_lock(&lock);
	hold.want = num;
	pthread_mutex_unlock(&lock);
}

unsigned int relay_waited(void)
{
	unsigned int num;

	pthread_mutex_lock(&lock);
	num = hold.waited;
	pthread_mutex_unlock(&lock);
	return num;
}

unsigned int relay_carried(unsigned int way)
{
	unsigned int num;

	pthread_mutex_lock(&lock);
	num = carried[way];
	pthread_mutex_unlock(&lock);
	return num;
}

unsigned int relay_dropped(void)
{
	unsigned int num;

	pthread_mutex_lock(&lock);
	num = dropped;
	pthread_mutex_unlock(&lock);
	return num;
}

static struct rule *find_rule(unsigned int way, uint32_t psn, uint8_t opcode)
{
	struct rule *hit = NULL;

	for (unsigned int i = 0; i < num_rules; i++) {
		struct rule *r = &rules[i];

		if (r->way != way || (r->psn != ALL && r->psn != psn) ||
		    (r->opcode >= 0 && r->opcode != opcode))
			continue;
		hit = r;
		if (r->times)
			break;
	}
	return hit;
}

/* It comes again: does it wait for others that do? */
static bool waits(struct rule *r, unsigned int way, const uint8_t *p, size_t len)
{
	if (!hold.want || r->psn == ALL || !r->hit || hold.num == ARRAY_SIZE(hold.held) ||
	    len > sizeof(hold.held[0].frame))
		return false;
	if (!hold.num)
		hold.until = now() + HOLD_SECONDS;
	hold.held[hold.num].way = way;
	hold.held[hold.num].len = len;
	memcpy(hold.held[hold.num++].frame, p, len);
	hold.waited += !r->waited;
	r->waited = true;
	return true;
}

/* The one that is to be late waits for others to go before it. */
static bool is_late(unsigned int way, uint32_t psn, const uint8_t *p, size_t len)
{
	if (!late.behind || late.len || late.way != way || late.psn != psn ||
	    len > sizeof(late.frame))
		return false;
	late.len = len;
	memcpy(late.frame, p, len);
	return true;
}

/* Does a frame get through now? */
static bool passes(unsigned int way, const uint8_t *p, size_t len)
{
	struct rule *r;
	bool pass = true;
	uint32_t psn;

	/* IPv4 without options, UDP to port 4791 */
	if (len < 54 || p[12] != 8 || p[13] || p[23] != IPPROTO_UDP ||
	    (p[36] << 8 | p[37]) != 4791)
		return true;
	pthread_mutex_lock(&lock);
	psn = p[51] << 16 | p[52] << 8 | p[53];
	r = find_rule(way, psn, p[42]);
	if (r && r->times) {
		r->times--;
		r->hit = true;
		dropped++;
		pass = false;
	} else {
		carried[way]++;
		pass = !is_late(way, psn, p, len) && (!r || !waits(r, way, p, len));
		if (pass && late.len && late.way == way)
			late.behind--;
	}
	pthread_mutex_unlock(&lock);
	return pass;
}

static void carry(unsigned int way, const uint8_t *p, size_t len)
{
	if (send(wire_fd[!way], p, len, 0) < 0)
		die("relay: send");
}

/* The one that is late goes on, and all that have waited: nothing waits any more. */
static void release(void)
{
	pthread_mutex_lock(&lock);
	if (late.len && !late.behind) {
		carry(late.way, late.frame, late.len);
		late.len = 0;
	}
	if (hold.num && (!hold.want || hold.waited >= hold.want || now() > hold.until)) {
		for (unsigned int i = 0; i < hold.num; i++)
			carry(hold.held[i].way, hold.held[i].frame, hold.held[i].len);
		hold.num = 0;
		hold.want = 0;
	}
	pthread_mutex_unlock(&lock);
}

static void take(unsigned int way)
{
	static uint8_t frame[65536];
	struct sockaddr_ll from;
	socklen_t n = sizeof(from);
	ssize_t len;

	len = recvfrom(wire_fd[way], frame, sizeof(frame), 0, (void *)&from, &n);
	if (len > 0 && from.sll_pkttype != PACKET_OUTGOING && passes(way, frame, len))
		carry(way, frame, len);
}

/* A wire keeps the order; what two processors send, one after the other, may overtake. */
static void stay_here(void)
{
	cpu_set_t cpu;

	CPU_ZERO(&cpu);
	CPU_SET(sched_getcpu(), &cpu);
	if (sched_setaffinity(0, sizeof(cpu), &cpu))
		die("sched_setaffinity");
}

static void *wire_thread(void *arg)
{
	struct pollfd fds[2] = { { .fd = wire_fd[0], .events = POLLIN },
				 { .fd = wire_fd[1], .events = POLLIN } };

	stay_here();
	while (poll(fds, 2, hold.num ? 100 : -1) >= 0) {
		for (unsigned int i = 0; i < 2; i++)
			if (fds[i].revents & POLLIN)
				take(i);
		release();
	}
	return arg;
}

unsigned int relay_lost(void)
{
	struct tpacket_stats stats;
	unsigned int lost = 0;

	for (int i = 0; i < 2; i++) {
		socklen_t len = sizeof(stats);

		if (getsockopt(wire_fd[i], SOL_PACKET, PACKET_STATISTICS, &stats, &len))
			die("PACKET_STATISTICS");
		lost += stats.tp_drops;
	}
	return lost;
}

void relay_up(void)
{
	int home = host_enter("w"), size = 8 << 20;
	pthread_t thread;
	char name[] = "w0";

	for (int i = 0; i < 2; i++) {
		struct sockaddr_ll at = {
			.sll_family = AF_PACKET,
			.sll_protocol = htobe16(ETH_P_ALL),
		};

		name[1] = '0' + i;
		at.sll_ifindex = if_nametoindex(name);
		wire_fd[i] = socket(AF_PACKET, SOCK_RAW, htobe16(ETH_P_ALL));
		if (wire_fd[i] < 0 || bind(wire_fd[i], (void *)&at, sizeof(at)))
			die("packet socket on %s", name);
		setsockopt(wire_fd[i], SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	}
	host_leave(home);
	if (pthread_create(&thread, NULL, wire_thread, NULL))
		die("wire");
}
