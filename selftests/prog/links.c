// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Add and delete a link, again and again, without a program being started for
 * each: rdma link add NAME type TYPE netdev NETDEV; rdma link del NAME.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "newlink.h"

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
	for (i = 0; i < n; i++) {
		err = newlink(argv[2], argv[1], argv[3]);
		if (err && race) {
			refused++;
			continue;
		}
		if (err) {
			printf("links: add %ld: %s\n", i, strerror(err));
			return 1;
		}
		err = dellink(argv[2]);
		if (err && !race) {
			printf("links: delete %ld: %s\n", i, strerror(err));
			return 1;
		}
	}
	printf("links: %ld of %ld added and deleted\n", n - refused, n);
	return 0;
}
