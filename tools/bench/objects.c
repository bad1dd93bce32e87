// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What objects cost, which perftest does not measure: registering memory, the
 * kernel's memory for queue pairs and regions, setting up connections. And what
 * two programs that share a processor need to take turns, without any device. A line
 * a figure: a name, the unit, the value; of the first, the name is a dot.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NUM_QPS		1024
#define QP_DEPTH	128
#define MAX_REPS	1000
#define MAX_SECONDS	1
#define TURNS		1000
#define ACCESS		(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static void usage(FILE *to)
{
	fputs("usage: objects mr DEVICE BYTES               time of reg_mr and dereg_mr\n"
	      "       objects memory-qp DEVICE              of the kernel, by queue pair\n"
	      "       objects memory-mr DEVICE              of the kernel, by registered GB\n"
	      "       objects serve ADDRESS PORT            accept connections until killed\n"
	      "       objects connect ADDRESS PORT SECONDS  connections by second\n"
	      "       objects turns SECONDS                 time of one, of two on a processor\n", to);
}

static void die(const char *what)
{
	fprintf(stderr, "%s failed: %s\n", what, strerror(errno));
	exit(1);
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static struct ibv_pd *open_pd(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;
	struct ibv_pd *pd;
	int i;

	for (i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	if (!ctx)
		die("opening the device");
	pd = ibv_alloc_pd(ctx);
	if (!pd)
		die("ibv_alloc_pd");
	return pd;
}

/* Memory that is there, so that pages that have yet to come are not measured. */
static void *buffer(size_t len)
{
	void *buf = mmap(NULL, len, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (buf == MAP_FAILED)
		die("mmap");
	return buf;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *list, int n)
{
	qsort(list, n, sizeof(*list), by_value);
	return list[n / 2];
}

static void time_mr(const char *dev, size_t len)
{
	static double reg[MAX_REPS], dereg[MAX_REPS];
	struct ibv_pd *pd = open_pd(dev);
	void *buf = buffer(len);
	struct ibv_mr *mr;
	double start, t;
	int n = 0;

	start = now();
	do {
		t = now();
		mr = ibv_reg_mr(pd, buf, len, ACCESS);
		reg[n] = now() - t;
		if (!mr)
			die("ibv_reg_mr");
		t = now();
		if (ibv_dereg_mr(mr))
			die("ibv_dereg_mr");
		dereg[n] = now() - t;
	} while (++n < MAX_REPS && now() - start < MAX_SECONDS);
	printf(". us %.2f\n", median(reg, n) * 1e6);
	printf("dereg us %.2f\n", median(dereg, n) * 1e6);
}

/* What the kernel has left, in KB. */
static long mem_free(void)
{
	FILE *f = fopen("/proc/meminfo", "r");
	char line[128];
	long kb = -1;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemFree: %ld", &kb) == 1)
			break;
	if (f)
		fclose(f);
	return kb;
}

static void memory_qp(const char *dev)
{
	struct ibv_pd *pd = open_pd(dev);
	struct ibv_cq *cq = ibv_create_cq(pd->context, QP_DEPTH, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = QP_DEPTH, .max_recv_wr = QP_DEPTH,
			 .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	long before = mem_free();
	double start = now();
	int i;

	if (!cq)
		die("ibv_create_cq");
	for (i = 0; i < NUM_QPS; i++)
		if (!ibv_create_qp(pd, &attr))
			die("ibv_create_qp");
	printf(". KB/QP %.2f\n", (double)(before - mem_free()) / NUM_QPS);
	printf("create us %.2f\n", (now() - start) / NUM_QPS * 1e6);
}

static void memory_mr(const char *dev)
{
	struct ibv_pd *pd = open_pd(dev);
	size_t len = 1 << 30;
	void *buf = buffer(len);
	long before = mem_free();

	if (!ibv_reg_mr(pd, buf, len, ACCESS))
		die("ibv_reg_mr");
	printf(". MB/GB %.3f\n", (before - mem_free()) * 1024.0 / 1e6 / (len / 1e9));
}

static struct rdma_addrinfo *resolve(const char *addr, const char *port, int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP }, *res;

	if (rdma_getaddrinfo(addr, port, &hints, &res))
		die("rdma_getaddrinfo");
	return res;
}

static struct ibv_qp_init_attr small_qp(void)
{
	return (struct ibv_qp_init_attr) {
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_all = 1,
	};
}

/* One connection after the other, each until its client leaves. */
static void serve(const char *addr, const char *port)
{
	struct ibv_qp_init_attr attr = small_qp();
	struct rdma_cm_id *listener, *id;
	struct rdma_cm_event *event;

	if (rdma_create_ep(&listener, resolve(addr, port, RAI_PASSIVE), NULL, &attr))
		die("rdma_create_ep");
	if (rdma_listen(listener, 128))
		die("rdma_listen");
	puts("listening");
	fflush(stdout);
	while (!rdma_get_request(listener, &id)) {
		/* to leave by rdma_disconnect() would be to wait for the end of time-wait */
		if (!rdma_accept(id, NULL) && !rdma_get_cm_event(id->channel, &event))
			rdma_ack_cm_event(event);
		rdma_destroy_ep(id);
	}
	die("rdma_get_request");
}

static void connect_once(struct rdma_addrinfo *res)
{
	struct ibv_qp_init_attr attr = small_qp();
	struct rdma_cm_id *id;

	if (rdma_create_ep(&id, res, NULL, &attr))
		die("rdma_create_ep");
	if (rdma_connect(id, NULL))
		die("rdma_connect");
	rdma_disconnect(id);
	rdma_destroy_ep(id);
}

static void connect_many(const char *addr, const char *port, double seconds)
{
	struct rdma_addrinfo *res = resolve(addr, port, 0);
	double start, end;
	int n = 0;

	connect_once(res);
	start = now();
	do {
		connect_once(res);
		n++;
		end = now();
	} while (end - start < seconds);
	printf(". 1/s %.1f\n", n / (end - start));
}

/* It is @me's turn @n times, with a system call each, as a doorbell is one. */
static void take_turns(atomic_int *turn, int me, int n)
{
	while (n--) {
		while (atomic_load(turn) != me)
			sched_yield();
		atomic_store(turn, !me);
		sched_yield();
	}
}

/*
 * Memory is all that they exchange, so what is left is one way into the kernel, to the
 * other program, and out again: what a message costs without a device.
 */
static void time_turns(double seconds)
{
	atomic_int *turn = mmap(NULL, sizeof(*turn), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double best = 0, start = now(), t;
	int reps, status;
	cpu_set_t one;
	pid_t pid;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	if (turn == MAP_FAILED || sched_setaffinity(0, sizeof(one), &one))
		die("getting ready");
	for (reps = 0; !reps || now() - start < seconds; reps++) {
		pid = fork();
		if (pid < 0)
			die("fork");
		if (!pid) {
			take_turns(turn, 1, TURNS);
			_exit(0);
		}
		/* the second waits for the other, which is there then */
		take_turns(turn, 0, 2);
		t = now();
		take_turns(turn, 0, TURNS - 2);
		t = (now() - t) / (2 * (TURNS - 2));
		if (waitpid(pid, &status, 0) != pid || status)
			die("the other");
		if (!best || t < best)
			best = t;
	}
	printf(". us %.2f\n", best * 1e6);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (argc == 4 && !strcmp(what, "mr")) {
		time_mr(argv[2], strtoul(argv[3], NULL, 0));
	} else if (argc == 3 && !strcmp(what, "memory-qp")) {
		memory_qp(argv[2]);
	} else if (argc == 3 && !strcmp(what, "memory-mr")) {
		memory_mr(argv[2]);
	} else if (argc == 4 && !strcmp(what, "serve")) {
		serve(argv[2], argv[3]);
	} else if (argc == 5 && !strcmp(what, "connect")) {
		connect_many(argv[2], argv[3], atof(argv[4]));
	} else if (argc == 3 && !strcmp(what, "turns")) {
		time_turns(atof(argv[2]));
	} else {
		usage(stderr);
		return 2;
	}
	return 0;
}
