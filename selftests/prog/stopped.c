// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A program that is stopped (SIGSTOP) with full queues: the kernel answers for it as long
 * as it has posted receives, and says RNR when these are used up; what it has posted to
 * send is sent. What it finds when it goes on is all there, and in order.
 *
 * The parent has side a, a child side b; each opens its device itself.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

#define WINDOW 64
#define LEN 5000
#define SLOT 8192
#define SIG IBV_SEND_SIGNALED

static struct end ea, eb;

/* What the two tell each other, and side b's memory, which a looks at */
static struct both {
	atomic_uint step;
	struct peer peer[2];
	uint64_t addr;
	uint32_t rkey;
	bool failed;
	uint8_t mem[2 * WINDOW * SLOT] __attribute__((aligned(4096)));
} *both;

static struct conn conn;

/* one side's */
static struct side {
	struct end *e;
	struct ibv_cq *scq, *rcq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *mem;
} me;

static void step_wait(unsigned int step)
{
	double end = now() + PATIENCE;

	while (atomic_load(&both->step) < step && now() < end)
		usleep(1000);
	if (atomic_load(&both->step) < step)
		die("the other side did not come to step %u", step);
}

static void side_up(struct end *e, int side, uint8_t *mem)
{
	struct ibv_qp_init_attr ia = {
		.qp_type = IBV_QPT_RC,
		.cap = { 2 * WINDOW, WINDOW, 1, 1, 0 },
	};

	me.e = e;
	me.mem = mem;
	me.scq = cq_make(e, 2 * WINDOW);
	me.rcq = cq_make(e, 2 * WINDOW);
	ia.send_cq = me.scq;
	ia.recv_cq = me.rcq;
	me.qp = ibv_create_qp(e->pd, &ia);
	me.mr = ibv_reg_mr(e->pd, mem, sizeof(both->mem), IBV_ACCESS_LOCAL_WRITE |
			   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	if (!me.qp || !me.mr)
		die("side %d", side);
	both->peer[side] = (struct peer) {
		.qpn = me.qp->qp_num, .psn = 0xfffff0 + side, .gid = e->gid,
		.mtu = e->port.active_mtu,
	};
}

static void side_connect(int side)
{
	qp_connect(me.qp, me.e, both->peer[side].psn, &both->peer[!side], &conn);
}

static void side_down(void)
{
	if (ibv_destroy_qp(me.qp) || ibv_destroy_cq(me.scq) || ibv_destroy_cq(me.rcq) ||
	    ibv_dereg_mr(me.mr))
		die("destroy");
}

static uint8_t *slot(unsigned int i)
{
	return me.mem + i * SLOT;
}

static void post_recv(unsigned int i)
{
	struct ibv_recv_wr wr = {
		.wr_id = i, .sg_list = SGE(slot(i), SLOT, me.mr->lkey), .num_sge = 1,
	}, *bad;

	if (ibv_post_recv(me.qp, &wr, &bad))
		die("post_recv");
}

static void post(enum ibv_wr_opcode opcode, unsigned int i, uint64_t at)
{
	struct ibv_send_wr wr = {
		.wr_id = i, .sg_list = SGE(slot(i), LEN, me.mr->lkey), .num_sge = 1,
		.opcode = opcode, .send_flags = SIG,
		.wr.rdma = { .remote_addr = both->addr + at, .rkey = both->rkey },
	};

	if (wr_post(me.qp, &wr))
		die("post_send");
}

/* Completions @from to @to - 1, with success, in order */
static unsigned int completed(struct ibv_cq *cq, unsigned int from, unsigned int to)
{
	struct ibv_wc wc;
	unsigned int i;

	for (i = from; i < to; i++)
		if (!cq_wait(cq, &wc, PATIENCE) || wc.wr_id != i || wc.status != IBV_WC_SUCCESS) {
			diag("%u: got %llu, %s", i, (unsigned long long)wc.wr_id,
			     ibv_wc_status_str(wc.status));
			break;
		}
	return i;
}

static unsigned int arrived(unsigned int from, unsigned int to, uint64_t key)
{
	unsigned int i;

	for (i = from; i < to; i++)
		if (pattern_check(slot(i), key + i, 0, LEN) >= 0)
			break;
	return i;
}

/* --- the child -------------------------------------------------------------------- */

static void child_is(bool good)
{
	both->failed |= !good;
}

/* What side b is stopped with: half the receives that will be wanted; a window to send */
static void child_receives(void)
{
	unsigned int i;

	for (i = 0; i < WINDOW; i++)
		post_recv(i);
	atomic_store(&both->step, 2);
	raise(SIGSTOP);
	child_is(completed(me.rcq, 0, WINDOW) == WINDOW && arrived(0, WINDOW, 1000) == WINDOW);
	for (i = 0; i < WINDOW; i++)
		post_recv(i);
	child_is(completed(me.rcq, 0, WINDOW) == WINDOW && arrived(0, WINDOW, 2000) == WINDOW);
}

static void child_sends(void)
{
	unsigned int i;

	for (i = 0; i < WINDOW; i++) {
		pattern_fill(slot(i), 3000 + i, 0, LEN);
		post(IBV_WR_SEND, i, 0);
	}
	atomic_store(&both->step, 2);
	raise(SIGSTOP);
	child_is(completed(me.scq, 0, WINDOW) == WINDOW);
}

/* Side b's link goes while it is stopped. */
static void child_loses(void)
{
	struct ibv_async_event ev;
	struct ibv_port_attr port;
	struct ibv_wc wc;
	unsigned int i;

	for (i = 0; i < WINDOW; i++)
		post_recv(i);
	atomic_store(&both->step, 2);
	raise(SIGSTOP);
	child_is(event_wait(me.e, &ev, PATIENCE) && ev.event_type == IBV_EVENT_DEVICE_FATAL);
	child_is(ibv_query_port(me.e->ctx, 1, &port) == EIO);
	for (i = 0; i < WINDOW; i++)
		child_is(cq_wait(me.rcq, &wc, PATIENCE) && wc.wr_id == i &&
			 wc.status == IBV_WC_WR_FLUSH_ERR);
}

static void child(void (*run)(void))
{
	end_open(&eb, eb.name, NULL);
	side_up(&eb, 1, both->mem);
	both->addr = (uintptr_t)both->mem;
	both->rkey = me.mr->rkey;
	atomic_store(&both->step, 1);
	/* until the parent has its side */
	while (!both->peer[0].qpn)
		usleep(1000);
	side_connect(1);
	run();
	exit(0);
}

/* --- the parent -------------------------------------------------------------------- */

static pid_t child_start(void (*run)(void))
{
	pid_t pid;
	int status;

	conn = conn_default;
	memset(both, 0, offsetof(struct both, mem));
	memset(both->mem, CANARY, sizeof(both->mem));
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid)
		child(run);
	step_wait(1);
	side_up(&ea, 0, mmap(NULL, sizeof(both->mem), PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	side_connect(0);
	step_wait(2);
	if (waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status))
		die("the child has not stopped");
	return pid;
}

static void child_goes_on(pid_t pid)
{
	if (kill(pid, SIGCONT))
		die("SIGCONT");
}

static void child_ends(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	ok(!status && !both->failed, "the program that was stopped finds all that is due, in order");
	munmap(me.mem, sizeof(both->mem));
}

/* Messages @from to @to - 1 */
static void send_some(unsigned int from, unsigned int to, uint64_t key)
{
	unsigned int i;

	for (i = from; i < to; i++) {
		pattern_fill(slot(i), key + i - from, 0, LEN);
		post(IBV_WR_SEND, i, 0);
	}
}

static void receiver(void)
{
	pid_t pid = child_start(child_receives);
	long long rnr = counter_of(&ea, "rnr_nak_retry_err");
	unsigned int i, good;
	double end;

	/* to and from memory, of which the program knows nothing */
	for (i = 0; i < WINDOW; i++) {
		pattern_fill(slot(i), 500 + i, 0, LEN);
		post(IBV_WR_RDMA_WRITE, i, (WINDOW + i) * SLOT);
	}
	is(completed(me.scq, 0, WINDOW), WINDOW, "a window of WRITEs to it is acknowledged");
	for (i = 0, good = 0; i < WINDOW; i++)
		good += pattern_check(both->mem + (WINDOW + i) * SLOT, 500 + i, 0, LEN) < 0;
	is(good, WINDOW, "and in its memory");
	memset(me.mem, CANARY, WINDOW * SLOT);
	for (i = 0; i < WINDOW; i++)
		post(IBV_WR_RDMA_READ, i, (WINDOW + i) * SLOT);
	is(completed(me.scq, 0, WINDOW), WINDOW, "a window of READs is answered");
	is(arrived(0, WINDOW, 500), WINDOW, "with its memory");

	send_some(0, WINDOW, 1000);
	send_some(WINDOW, 2 * WINDOW, 2000);
	is(completed(me.scq, 0, WINDOW), WINDOW, "SENDs are acknowledged for which there are receives");
	for (end = now() + PATIENCE; now() < end && counter_of(&ea, "rnr_nak_retry_err") < rnr + 3;)
		usleep(10000);
	ok(counter_of(&ea, "rnr_nak_retry_err") >= rnr + 3, "the others get RNR, again and again");
	ok(cq_quiet(me.scq, 0.2), "and wait");
	child_goes_on(pid);
	is(completed(me.scq, WINDOW, 2 * WINDOW), 2 * WINDOW, "until it goes on");
	child_ends(pid);
	side_down();
}

static void sender(void)
{
	pid_t pid = child_start(child_sends);
	unsigned int i;

	for (i = 0; i < WINDOW; i++)
		post_recv(i);
	is(completed(me.rcq, 0, WINDOW), WINDOW, "a window of a stopped program's is sent");
	is(arrived(0, WINDOW, 3000), WINDOW, "each byte");
	child_goes_on(pid);
	child_ends(pid);
	side_down();
}

static bool link_there(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s", name);
	return !access(path, F_OK);
}

static void link_goes(void)
{
	pid_t pid;

	if (!cmd_down || !cmd_up)
		die("no --down COMMAND, --up COMMAND");
	pid = child_start(child_loses);
	command(cmd_down);
	ok(!link_there(eb.name), "its link goes without it");
	child_goes_on(pid);
	child_ends(pid);
	side_down();
	command(cmd_up);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = { TEST(receiver), TEST(sender), TEST(link_goes) };

	both = mmap(NULL, sizeof(*both), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (both == MAP_FAILED)
		die("no memory");
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
