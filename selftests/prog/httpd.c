// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A web server for one file, of plain sockets: to be run with librspreload, by
 * which they become RDMA. Packaged ones accept by accept4() or send by sendfile64(),
 * which that library has not.
 *
 *	httpd ADDRESS PORT FILE
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common.h"

static void put(int fd, const char *buf, size_t len)
{
	while (len) {
		ssize_t n = write(fd, buf, len);

		if (n <= 0)
			die("write");
		buf += n;
		len -= n;
	}
}

/* A request ends with an empty line. */
static bool get_request(int fd)
{
	char buf[4096];
	size_t len = 0;
	ssize_t n;

	do {
		n = read(fd, buf + len, sizeof(buf) - 1 - len);
		if (n <= 0)
			return false;
		len += n;
		buf[len] = 0;
	} while (!strstr(buf, "\r\n\r\n") && len < sizeof(buf) - 1);
	return !strncmp(buf, "GET ", 4);
}

static void answer(int fd, const char *path)
{
	static char buf[65536];
	FILE *f = fopen(path, "r");
	struct stat st;
	size_t n;

	if (!f || fstat(fileno(f), &st))
		die("%s", path);
	n = snprintf(buf, sizeof(buf), "HTTP/1.0 200 OK\r\nContent-Length: %lld\r\n\r\n",
		     (long long)st.st_size);
	put(fd, buf, n);
	while ((n = fread(buf, 1, sizeof(buf), f)))
		put(fd, buf, n);
	fclose(f);
}

int main(int argc, char **argv)
{
	struct addrinfo hints = { .ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM }, *ai;
	int listener, fd;

	if (argc != 4 || getaddrinfo(argv[1], argv[2], &hints, &ai))
		die("usage: httpd ADDRESS PORT FILE");
	listener = socket(ai->ai_family, ai->ai_socktype, ai->ai_protocol);
	if (listener < 0 || bind(listener, ai->ai_addr, ai->ai_addrlen) || listen(listener, 8))
		die("cannot listen at %s", argv[1]);
	for (;;) {
		fd = accept(listener, NULL, NULL);
		if (fd < 0)
			die("accept");
		if (get_request(fd))
			answer(fd, argv[3]);
		shutdown(fd, SHUT_RDWR);
		close(fd);
	}
}
