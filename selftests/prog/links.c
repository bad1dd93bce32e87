// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Add and delete a link, again and again, without a program being started for
 * each: rdma link add NAME type TYPE netdev NETDEV; rdma link del NAME.
 */
#include <errno.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int fd;

static struct {
	struct nlmsghdr h;
	char data[1024];
} req;

static void begin(int cmd, int flags)
{
	memset(&req, 0, sizeof(req));
	req.h.nlmsg_len = NLMSG_HDRLEN;
	req.h.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, cmd);
	req.h.nlmsg_flags = NLM_F_REQUEST | flags;
}

static void put(int type, const void *value, size_t len)
{
	struct nlattr *a = (void *)((char *)&req + NLMSG_ALIGN(req.h.nlmsg_len));

	a->nla_type = type;
	a->nla_len = NLA_HDRLEN + len;
	memcpy((char *)a + NLA_HDRLEN, value, len);
	req.h.nlmsg_len = NLMSG_ALIGN(req.h.nlmsg_len) + NLA_ALIGN(a->nla_len);
}

static void put_string(int type, const char *s)
{
	put(type, s, strlen(s) + 1);
}

/* The index of a device in one message of a dump, if it has that name; or -1. */
static long named(const struct nlmsghdr *h, const char *name)
{
	const char *end = (const char *)h + h->nlmsg_len;
	const struct nlattr *a;
	uint32_t index = 0;
	int found = 0;

	for (a = (void *)((char *)h + NLMSG_HDRLEN); (const char *)a + NLA_HDRLEN <= end;
	     a = (void *)((char *)a + NLA_ALIGN(a->nla_len))) {
		if (a->nla_len < NLA_HDRLEN)
			break;
		if (a->nla_type == RDMA_NLDEV_ATTR_DEV_INDEX)
			memcpy(&index, (char *)a + NLA_HDRLEN, sizeof(index));
		if (a->nla_type == RDMA_NLDEV_ATTR_DEV_NAME)
			found = !strcmp((char *)a + NLA_HDRLEN, name);
	}
	return found ? (long)index : -1;
}

/* Send the request. Return: 0 or an errno; *index of the device called @name. */
static int ask(const char *name, long *index)
{
	static char buf[1 << 16];
	struct nlmsghdr *h;
	ssize_t len;
	int err;

	if (send(fd, &req, req.h.nlmsg_len, 0) < 0)
		return errno;
	for (;;) {
		len = recv(fd, buf, sizeof(buf), 0);
		if (len < 0)
			return errno;
		for (h = (void *)buf; NLMSG_OK(h, len); h = NLMSG_NEXT(h, len)) {
			if (h->nlmsg_type == NLMSG_ERROR) {
				memcpy(&err, NLMSG_DATA(h), sizeof(err));
				return -err;
			}
			if (h->nlmsg_type == NLMSG_DONE)
				return 0;
			if (index && named(h, name) >= 0)
				*index = named(h, name);
		}
	}
}

static int add(const char *name, const char *type, const char *ndev)
{
	begin(RDMA_NLDEV_CMD_NEWLINK, NLM_F_ACK);
	put_string(RDMA_NLDEV_ATTR_DEV_NAME, name);
	put_string(RDMA_NLDEV_ATTR_LINK_TYPE, type);
	put_string(RDMA_NLDEV_ATTR_NDEV_NAME, ndev);
	return ask(NULL, NULL);
}

static int del(const char *name)
{
	long index = -1;
	uint32_t i;
	int err;

	begin(RDMA_NLDEV_CMD_GET, NLM_F_ACK | NLM_F_DUMP);
	err = ask(name, &index);
	if (err)
		return err;
	if (index < 0)
		return ENODEV;
	i = index;
	begin(RDMA_NLDEV_CMD_DELLINK, NLM_F_ACK);
	put(RDMA_NLDEV_ATTR_DEV_INDEX, &i, sizeof(i));
	return ask(NULL, NULL);
}

int main(int argc, char **argv)
{
	long n, i, refused = 0;
	int err, race;

	if (argc < 5) {
		fprintf(stderr, "usage: links TYPE NAME NETDEV COUNT [race]\n\n"
				"Add and delete a link COUNT times. With 'race' others do so, too, and\n"
				"to be refused is no failure.\n");
		return 2;
	}
	race = argc > 5;
	n = atol(argv[4]);
	fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA);
	if (fd < 0) {
		perror("netlink");
		return 1;
	}
	for (i = 0; i < n; i++) {
		err = add(argv[2], argv[1], argv[3]);
		if (err && race) {
			refused++;
			continue;
		}
		if (err) {
			printf("links: add %ld: %s\n", i, strerror(err));
			return 1;
		}
		err = del(argv[2]);
		if (err && !race) {
			printf("links: delete %ld: %s\n", i, strerror(err));
			return 1;
		}
	}
	printf("links: %ld of %ld added and deleted\n", n - refused, n);
	return 0;
}
