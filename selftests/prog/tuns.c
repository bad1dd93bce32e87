// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Two tun or tap netdevs, each in a namespace, with this program as the wire between
 * them; they are there as long as it is.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common.h"

static int make(const char *ns, const char *name, short type)
{
	struct ifreq req = { .ifr_flags = type | IFF_NO_PI };
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/run/netns/%s", ns);
	fd = open(path, O_RDONLY);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		die("%s", path);
	close(fd);
	fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
	if (fd < 0)
		die("/dev/net/tun");
	snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", name);
	if (ioctl(fd, TUNSETIFF, &req))
		die("TUNSETIFF of %s", name);
	return fd;
}

/* What the other one does not take, down or full as it is, is lost. */
static void carry(int from, int to)
{
	static char packet[1 << 16];
	ssize_t len;

	while ((len = read(from, packet, sizeof(packet))) > 0)
		if (write(to, packet, len) != len)
			continue;
}

int main(int argc, char **argv)
{
	struct pollfd fds[2];
	short type;
	int i;

	if (argc != 6) {
		fprintf(stderr, "usage: tuns tun|tap NAMESPACE NAME NAMESPACE NAME\n");
		return 2;
	}
	type = strcmp(argv[1], "tun") ? IFF_TAP : IFF_TUN;
	for (i = 0; i < 2; i++)
		fds[i] = (struct pollfd) {
			.fd = make(argv[2 + 2 * i], argv[3 + 2 * i], type),
			.events = POLLIN,
		};
	printf("up\n");
	fflush(stdout);
	for (;;) {
		/* an end whose netdev was deleted has nothing to say any more */
		for (i = 0; i < 2; i++)
			if (fds[i].revents & (POLLERR | POLLHUP))
				fds[i].fd = -1;
		if (fds[0].fd < 0 && fds[1].fd < 0)
			return 0;
		if (poll(fds, 2, -1) < 0)
			die("poll");
		carry(fds[0].fd, fds[1].fd);
		carry(fds[1].fd, fds[0].fd);
	}
}
