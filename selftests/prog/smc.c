// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A stream there and back over SMC sockets, and what their kernel has to be told and can tell:
 *
 *	smc eid NAME			the enterprise ID without which version 2 talks to nobody
 *	smc told			connections by SMC-R version 2, and why others fell back to TCP
 *	smc serve PORT OWN		sends back what comes, of one connection after another,
 *					until one brings nothing
 *	smc ask PORT PEER CONNECTIONS LENGTH	compares what it gets
 *	smc hold PORT PEER		a connection that brings nothing, until it breaks
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/genetlink.h>
#include <linux/smc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

#ifndef AF_SMC
#define AF_SMC 43
#endif
#define CHUNK 100000

/* Generic netlink */

struct message {
	struct nlmsghdr nl;
	struct genlmsghdr genl;
	uint8_t attrs[16384];
};

static struct message msg;

static void message_start(int family, int cmd, int flags)
{
	msg.nl = (struct nlmsghdr) {
		.nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN),
		.nlmsg_type = family,
		.nlmsg_flags = NLM_F_REQUEST | flags,
	};
	msg.genl = (struct genlmsghdr) { .cmd = cmd, .version = 1 };
}

static void message_add(int type, const char *string)
{
	struct nlattr *attr = (struct nlattr *)((uint8_t *)&msg + msg.nl.nlmsg_len);
	const size_t len = strlen(string) + 1;

	attr->nla_type = type;
	attr->nla_len = NLA_HDRLEN + len;
	memcpy(attr + 1, string, len);
	msg.nl.nlmsg_len += NLA_ALIGN(attr->nla_len);
}

static void message_send(int fd)
{
	if (send(fd, &msg, msg.nl.nlmsg_len, 0) < 0)
		die("netlink");
}

/* The value of an attribute among others; NULL if it is not there */
static const void *attr_find(const void *attrs, size_t len, int type, size_t *size)
{
	const uint8_t *p = attrs;

	while (len >= NLA_HDRLEN) {
		const struct nlattr *attr = (const void *)p;
		size_t step = NLA_ALIGN(attr->nla_len);

		if (attr->nla_len < NLA_HDRLEN || step > len)
			break;
		if ((attr->nla_type & NLA_TYPE_MASK) == type) {
			*size = attr->nla_len - NLA_HDRLEN;
			return attr + 1;
		}
		p += step;
		len -= step;
	}
	return NULL;
}

static uint64_t attr_number(const void *attrs, size_t len, int type)
{
	uint64_t n = 0;
	size_t size;
	const void *value = attr_find(attrs, len, type, &size);

	if (value)
		memcpy(&n, value, min(size, sizeof(n)));
	return n;
}

static int netlink_open(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC);

	if (fd < 0)
		die("netlink");
	return fd;
}

/* The next message of an answer into msg: the length of its attributes; -1 at the end */
static ssize_t answer(int fd)
{
	static uint8_t buf[sizeof(msg)];
	static size_t at, end;
	const struct nlmsghdr *nl;
	ssize_t n;
	int err;

	if (at >= end) {
		n = recv(fd, buf, sizeof(buf), 0);
		if (n < 0)
			die("netlink");
		at = 0;
		end = n;
	}
	nl = (const void *)(buf + at);
	at += NLMSG_ALIGN(nl->nlmsg_len);
	if (nl->nlmsg_type == NLMSG_DONE)
		return -1;
	if (nl->nlmsg_type == NLMSG_ERROR) {
		memcpy(&err, NLMSG_DATA(nl), sizeof(err));
		errno = -err;
		if (err)
			die("netlink's answer");
		return -1;
	}
	memcpy(&msg, nl, nl->nlmsg_len);
	return nl->nlmsg_len - NLMSG_LENGTH(GENL_HDRLEN);
}

static int family_id(int fd, const char *name)
{
	ssize_t len;
	int id;

	message_start(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, NLM_F_ACK);
	message_add(CTRL_ATTR_FAMILY_NAME, name);
	message_send(fd);
	len = answer(fd);
	id = attr_number(msg.attrs, len, CTRL_ATTR_FAMILY_ID);
	answer(fd);
	return id;
}

static void eid_add(const char *name)
{
	int fd = netlink_open();
	char eid[SMC_MAX_EID_LEN + 1];

	snprintf(eid, sizeof(eid), "%-*s", SMC_MAX_EID_LEN, name);
	message_start(family_id(fd, SMC_GENL_FAMILY_NAME), SMC_NETLINK_ADD_UEID, NLM_F_ACK);
	message_add(SMC_NLA_EID_TABLE_ENTRY, eid);
	message_send(fd);
	answer(fd);
	close(fd);
}

static void told(void)
{
	const void *stats, *smcr;
	size_t stats_len, len;
	int fd = netlink_open();
	int family = family_id(fd, SMC_GENL_FAMILY_NAME);
	ssize_t n;

	message_start(family, SMC_NETLINK_GET_STATS, NLM_F_DUMP);
	message_send(fd);
	while ((n = answer(fd)) >= 0) {
		stats = attr_find(msg.attrs, n, SMC_GEN_STATS, &stats_len);
		smcr = stats ? attr_find(stats, stats_len, SMC_NLA_STATS_SMCR_TECH, &len) : NULL;
		if (smcr)
			printf("called %llu answered %llu\n",
			       (unsigned long long)attr_number(smcr, len, SMC_NLA_STATS_T_CLNT_V2_SUCC),
			       (unsigned long long)attr_number(smcr, len, SMC_NLA_STATS_T_SRV_V2_SUCC));
	}
	message_start(family, SMC_NETLINK_GET_FBACK_STATS, NLM_F_DUMP);
	message_send(fd);
	while ((n = answer(fd)) >= 0) {
		stats = attr_find(msg.attrs, n, SMC_GEN_FBACK_STATS, &stats_len);
		if (stats)
			printf("fell back: 0x%08llx\n", (unsigned long long)
			       attr_number(stats, stats_len, SMC_NLA_FBACK_STATS_RSN_CODE));
	}
	close(fd);
}

/* Sockets */

static uint8_t buf[CHUNK];

static struct sockaddr_in address(const char *ip, int port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(port) };

	if (inet_pton(AF_INET, ip, &sin.sin_addr) != 1)
		die("'%s' is no address", ip);
	return sin;
}

static int smc_socket(void)
{
	const struct timeval patience = { .tv_sec = 60 };
	int fd = socket(AF_SMC, SOCK_STREAM, 0);

	if (fd < 0)
		die("socket");
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	return fd;
}

static int connected(const char *peer, int port)
{
	const struct sockaddr_in sin = address(peer, port);
	int fd = smc_socket();

	if (connect(fd, (const struct sockaddr *)&sin, sizeof(sin)))
		die("connect");
	return fd;
}

static void send_all(int fd, const uint8_t *p, size_t len)
{
	ssize_t n;

	for (; len; p += n, len -= n) {
		n = send(fd, p, len, MSG_NOSIGNAL);
		if (n <= 0)
			die("send");
	}
}

/* Connections, until one says nothing: it may break as well as end. */
static void serve(const struct sockaddr_in *own, unsigned int num)
{
	unsigned int ended = 0;
	int listener = smc_socket();
	bool any = true;
	ssize_t n;
	int fd;

	if (bind(listener, (const struct sockaddr *)own, sizeof(*own)) || listen(listener, 5))
		die("listen");
	diag("ready");
	while (any) {
		fd = accept(listener, NULL, NULL);
		if (fd < 0)
			die("accept");
		for (any = false; (n = recv(fd, buf, sizeof(buf), 0)) > 0; any = true)
			send_all(fd, buf, n);
		if (n < 0)
			diag("recv: %s", strerror(errno));
		ended += any && !n;
		close(fd);
	}
	is(ended, num, "so many connections are answered, to their end");
	close(listener);
}

/* By a process of its own: as long as nobody reads what comes back, little can be sent. */
static pid_t send_stream(int fd, uint64_t key, size_t len)
{
	struct rng rng = { key };
	size_t off, n;
	pid_t pid = fork();

	if (pid)
		return pid;
	for (off = 0; off < len; off += n) {
		n = rng_in(&rng, 1, CHUNK);
		n = min(n, len - off);
		pattern_fill(buf, key, off, n);
		send_all(fd, buf, n);
	}
	shutdown(fd, SHUT_WR);
	_exit(0);
}

/* Return: the offset of the first wrong byte; -1 if all came and are right */
static long long recv_stream(int fd, uint64_t key, size_t len)
{
	size_t off = 0;
	int64_t wrong;
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
		wrong = pattern_check(buf, key, off, n);
		if (wrong >= 0)
			return wrong;
		off += n;
	}
	if (n < 0)
		diag("recv: %s", strerror(errno));
	return off == len ? -1 : (long long)off;
}

static void ask(const char *peer, int port, unsigned int num, size_t len)
{
	unsigned int i;
	pid_t pid;
	int fd;

	for (i = 0; i < num; i++) {
		fd = connected(peer, port);
		pid = send_stream(fd, i, len);
		is(recv_stream(fd, i, len), -1, "connection %u: %zu bytes came back as they were", i, len);
		close(fd);
		waitpid(pid, NULL, 0);
	}
}

/* Return: has it come to an end? */
static bool hold(const char *peer, int port)
{
	int fd = connected(peer, port);
	ssize_t n;

	diag("held");
	n = recv(fd, buf, 1, 0);
	diag("recv: %s", n < 0 ? strerror(errno) : "the end");
	return !n || errno != EAGAIN;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "eid") && argc == 3) {
		eid_add(argv[2]);
		return 0;
	}
	if (!strcmp(what, "told") && argc == 2) {
		told();
		return 0;
	}
	if (!strcmp(what, "serve") && argc == 5) {
		const struct sockaddr_in own = address(argv[3], atoi(argv[2]));

		serve(&own, atoi(argv[4]));
		return done_testing();
	}
	if (!strcmp(what, "ask") && argc == 6) {
		ask(argv[3], atoi(argv[2]), atoi(argv[4]), atol(argv[5]));
		return done_testing();
	}
	if (!strcmp(what, "hold") && argc == 4)
		return !hold(argv[3], atoi(argv[2]));
	die("usage: smc eid NAME | told | serve PORT OWN CONNECTIONS | "
	    "ask PORT PEER CONNECTIONS LENGTH | hold PORT PEER");
}
