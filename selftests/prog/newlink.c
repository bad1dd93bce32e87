// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * RDMA netlink's requests that add and delete a link.
 */
#include <errno.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "common.h"
#include "newlink.h"

static struct {
	struct nlmsghdr h;
	char data[1024];
} req;

static uint32_t seq;

static void begin(int cmd, int flags)
{
	memset(&req, 0, sizeof(req));
	req.h.nlmsg_len = NLMSG_HDRLEN;
	req.h.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, cmd);
	req.h.nlmsg_flags = NLM_F_REQUEST | flags;
	req.h.nlmsg_seq = ++seq;
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

/* Kept open, as opening allocates; -1: not open. */
static int fd = -1;

static int netlink_fd(void)
{
	const struct timeval patience = { .tv_sec = PATIENCE };

	if (fd >= 0)
		return fd;
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
		die("netlink");
	return fd;
}

/* Is that all? Of an earlier request there may be answers, too, if it failed half-way. */
static bool answer(const struct nlmsghdr *h, const char *name, long *index, int *err)
{
	*err = 0;
	if (h->nlmsg_seq != seq)
		return false;
	/* of a dump, too, what became of it */
	if (h->nlmsg_type == NLMSG_ERROR || h->nlmsg_type == NLMSG_DONE) {
		memcpy(err, NLMSG_DATA(h), sizeof(*err));
		*err = -*err;
		return true;
	}
	if (index && named(h, name) >= 0)
		*index = named(h, name);
	return false;
}

/* Send the request. Return: 0 or an errno; *index of the device called @name. */
static int ask(const char *name, long *index)
{
	static char buf[1 << 16];
	struct nlmsghdr *h;
	ssize_t len;
	int err;

	if (send(netlink_fd(), &req, req.h.nlmsg_len, 0) < 0)
		return errno;
	for (;;) {
		len = recv(netlink_fd(), buf, sizeof(buf), 0);
		if (len < 0)
			return errno == EAGAIN ? ETIME : errno;
		for (h = (void *)buf; NLMSG_OK(h, len); h = NLMSG_NEXT(h, len)) {
			if (answer(h, name, index, &err))
				return err;
		}
	}
}

int newlink(const char *name, const char *type, const char *ndev)
{
	begin(RDMA_NLDEV_CMD_NEWLINK, NLM_F_ACK);
	put_string(RDMA_NLDEV_ATTR_DEV_NAME, name);
	put_string(RDMA_NLDEV_ATTR_LINK_TYPE, type);
	put_string(RDMA_NLDEV_ATTR_NDEV_NAME, ndev);
	return ask(NULL, NULL);
}

int dellink(const char *name)
{
	long index = -1;
	uint32_t i;
	int err;

	begin(RDMA_NLDEV_CMD_GET, NLM_F_ACK | NLM_F_DUMP);
	err = ask(name, &index);
	if (err) {
		/* a dump that has failed half-way may still be running: EBUSY for the next */
		close(fd);
		fd = -1;
		return err;
	}
	if (index < 0)
		return ENODEV;
	i = index;
	begin(RDMA_NLDEV_CMD_DELLINK, NLM_F_ACK);
	put(RDMA_NLDEV_ATTR_DEV_INDEX, &i, sizeof(i));
	return ask(NULL, NULL);
}
