// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Messages there and back over RDS sockets:
 *
 *	rds PORT OWN				answers, until a message of no bytes
 *	rds PORT OWN PEER MESSAGES LENGTH	asks, and compares what it gets
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "common.h"

#ifndef AF_RDS
#define AF_RDS 21
#endif
#define MAX (1 << 20)

static uint8_t buf[MAX], back[MAX];

static struct sockaddr_in address(const char *ip, int port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(port) };

	if (inet_pton(AF_INET, ip, &sin.sin_addr) != 1)
		die("'%s' is no address", ip);
	return sin;
}

static int bound(const struct sockaddr_in *own)
{
	const struct timeval patience = { .tv_sec = 60 };
	int fd = socket(AF_RDS, SOCK_SEQPACKET, 0);

	if (fd < 0)
		die("socket: %s", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (bind(fd, (const struct sockaddr *)own, sizeof(*own)))
		die("bind: %s", strerror(errno));
	return fd;
}

/* Messages, each of them whole, of no connection. */
static void answer(const struct sockaddr_in *own, unsigned int num)
{
	unsigned int answered = 0;
	int fd = bound(own);
	struct sockaddr_in peer;
	socklen_t size;
	ssize_t n;

	diag("ready");
	for (;;) {
		size = sizeof(peer);
		n = recvfrom(fd, buf, MAX, 0, (struct sockaddr *)&peer, &size);
		if (n < 0)
			die("recvfrom: %s", strerror(errno));
		if (!n)
			break;
		if (sendto(fd, buf, n, 0, (struct sockaddr *)&peer, size) != n)
			die("sendto: %s", strerror(errno));
		answered++;
	}
	is(answered, num, "all is answered");
	close(fd);
}

static void ask(const struct sockaddr_in *own, const struct sockaddr_in *peer,
		unsigned int num, size_t len)
{
	int fd = bound(own);
	unsigned int i, wrong = 0;
	struct rng rng = { 1 };

	for (i = 0; i < num; i++) {
		const ssize_t n = rng_in(&rng, 1, len);

		pattern_fill(buf, i, 0, n);
		if (sendto(fd, buf, n, 0, (const struct sockaddr *)peer, sizeof(*peer)) != n)
			die("sendto: %s", strerror(errno));
		if (recv(fd, back, MAX, 0) != n)
			die("recv: %s", strerror(errno));
		wrong += pattern_check(back, i, 0, n) >= 0;
	}
	is(wrong, 0, "%u messages of up to %zu bytes came back as they were", num, len);
	if (sendto(fd, buf, 0, 0, (const struct sockaddr *)peer, sizeof(*peer)))
		die("sendto: %s", strerror(errno));
	/* what is closed with messages that are under way is not told */
	sleep_ms(1000);
	close(fd);
}

int main(int argc, char **argv)
{
	struct sockaddr_in own, peer;

	if (argc != 4 && argc != 6)
		die("usage: rds PORT OWN MESSAGES | PORT OWN PEER MESSAGES LENGTH");
	own = address(argv[2], atoi(argv[1]));
	if (argc == 4) {
		answer(&own, atoi(argv[3]));
		return done_testing();
	}
	peer = address(argv[3], atoi(argv[1]));
	if (atoi(argv[5]) < 1 || atoi(argv[5]) > MAX)
		die("LENGTH is 1 to %d", MAX);
	ask(&own, &peer, atoi(argv[4]), atoi(argv[5]));
	return done_testing();
}
