// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A process with connections has children: they inherit its context, its rings and a copy of
 * its memory. The device goes on with the parent's, whatever they do with theirs.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

static struct end ea, eb;

#define LEN	200000
#define MSGS	6

static uint64_t key;

/*
 * Its own copy of every page, whoever was there first; of a region it may have none, after
 * ibv_fork_init().
 */
static void writes_all(struct pair *p)
{
	unsigned char in[LEN / 4096 + 1];

	for (int i = 0; i < 2; i++)
		if (!mincore(p->buf[i], LEN, in))
			memset(p->buf[i], CANARY, LEN);
}

static void ends(struct pair *p)
{
	(void)p;
}

/* What it has mapped and opened ends before it does. */
static void execs(struct pair *p)
{
	(void)p;
	execl("/bin/true", "true", (char *)NULL);
	_exit(1);
}

/* By rings that the parent leaves to it: the bytes are those of the parent's memory. */
static void sends(struct pair *p)
{
	struct ibv_wc wc;

	writes_all(p);
	if (pair_send(p, 0, 77, 0, LEN, IBV_SEND_SIGNALED))
		_exit(1);
	_exit(!cq_wait(p->scq[0], &wc, PATIENCE) || wc.status || wc.wr_id != 77);
}

static void post_recv(struct pair *p)
{
	memset(p->buf[1], CANARY, LEN);
	pattern_fill(p->buf[0], ++key, 0, LEN);
	if (pair_recv(p, 1, key, 0, LEN))
		die("post_recv");
}

static bool received(struct pair *p)
{
	struct ibv_wc wc;

	return cq_wait(p->rcq[1], &wc, PATIENCE) && !wc.status && wc.wr_id == key &&
	       wc.byte_len == LEN && pattern_check(p->buf[1], key, 0, LEN) < 0;
}

static void messages(struct pair *p, const char *when)
{
	struct ibv_wc wc;
	unsigned int n;

	for (n = 0; n < MSGS; n++) {
		post_recv(p);
		if (pair_send(p, 0, n, 0, LEN, IBV_SEND_SIGNALED))
			die("post_send");
		if (!cq_wait(p->scq[0], &wc, PATIENCE) || wc.status || wc.wr_id != n ||
		    !received(p))
			break;
	}
	is(n, MSGS, "%s: messages", when);
}

static void up(struct pair *p)
{
	const struct pair_opts o = { .sq = 8, .rq = 8, .sge = 1, .buf = LEN };

	pair_create(p, &ea, &eb, &o);
	p->conn.timeout = 18;
	pair_connect(p);
}

/* @with: what the child does with @theirs, when it is told to: the parent goes on beside it. */
static void child(const char *what, void (*with)(struct pair *p), struct pair *theirs)
{
	int status = -1, go[2];
	struct pair p;
	pid_t pid;

	up(&p);
	messages(&p, "without a child");
	if (pipe(go))
		die("pipe");
	if (theirs)
		post_recv(theirs);
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		char byte;

		if (read(go[0], &byte, 1) != 1)
			_exit(1);
		with(theirs ?: &p);
		_exit(0);
	}
	/* what the key says now is theirs */
	if (!theirs)
		messages(&p, "beside a child");
	if (write(go[1], "", 1) != 1)
		die("write");
	if (theirs)
		ok(received(theirs), "%s: the parent's bytes", what);
	else
		messages(&p, what);
	is(waitpid(pid, &status, 0) == pid ? status : -1, 0, "%s: it ends well", what);
	messages(&p, "when it has ended");
	pair_destroy(&p);
	close(go[0]);
	close(go[1]);
}

static void inherit(void)
{
	struct pair theirs;

	child("a child ends", ends, NULL);
	child("a child writes to all that it has", writes_all, NULL);
	child("a child becomes another program", execs, NULL);
	up(&theirs);
	child("a child sends", sends, &theirs);
	pair_destroy(&theirs);
	diag("ibv_is_fork_initialized() is %d", ibv_is_fork_initialized());
}

static const struct test tests[] = {
	TEST(inherit),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
