// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Open MPI: all ranks sum their vectors, of many lengths, and each compares the result
 * with what it has to be; then a message goes around.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_LEN (1 << 18)

static long long value(int rank, int i)
{
	return (long long)(rank + 1) * (i % 1000 + 7);
}

static int reduce(int rank, int ranks, int len, long long *mine, long long *sum)
{
	long long factor = (long long)ranks * (ranks + 1) / 2;
	int wrong = 0;

	for (int i = 0; i < len; i++) {
		mine[i] = value(rank, i);
		sum[i] = -1;
	}
	MPI_Allreduce(mine, sum, len, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < len; i++)
		wrong += sum[i] != factor * (i % 1000 + 7);
	return wrong;
}

static int ring(int rank, int ranks, int len, long long *out, long long *in)
{
	int from = (rank + ranks - 1) % ranks, wrong = 0;

	for (int i = 0; i < len; i++)
		out[i] = value(rank, i);
	MPI_Sendrecv(out, len, MPI_LONG_LONG, (rank + 1) % ranks, 1,
		     in, len, MPI_LONG_LONG, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (int i = 0; i < len; i++)
		wrong += in[i] != value(from, i);
	return wrong;
}

int main(int argc, char **argv)
{
	long long *a = malloc(MAX_LEN * sizeof(*a)), *b = malloc(MAX_LEN * sizeof(*b));
	int rank, ranks, wrong = 0, all;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int len = 1; len <= MAX_LEN; len *= 4)
		wrong += reduce(rank, ranks, len, a, b) + ring(rank, ranks, len, a, b);
	MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (!rank)
		printf("%d ranks, %d wrong values\n", ranks, all);
	MPI_Finalize();
	return all || ranks < 2;
}
