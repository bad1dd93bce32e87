// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The only way from the data path into the kernel.
 */
#include <errno.h>
#include <unistd.h>

#include <infiniband/cmd_ioctl.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>

#include "sroce.h"

struct sroce_doorbell_cmd {
	struct ib_uverbs_cmd_hdr hdr;
	struct sroce_doorbell db;
};

static_assert(sizeof(struct sroce_doorbell_cmd) == 16,
	      "in_words says four words");

/* The same command, wrapped in an ioctl: slower, but open to everyone. */
static int sroce_doorbell_ioctl(struct sroce_context *ctx,
				const struct sroce_doorbell *db)
{
	int ret;

	do {
		DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_DEVICE,
				       UVERBS_METHOD_INVOKE_WRITE, 2);

		fill_attr_const_in(cmd, UVERBS_ATTR_WRITE_CMD,
				   SROCE_CMD_DOORBELL);
		fill_attr_in_ptr(cmd, UVERBS_ATTR_CORE_IN, db);
		ret = execute_ioctl(&ctx->vctx.context, cmd);
	} while (ret == EINTR);

	return ret;
}

/**
 * sroce_doorbell - make the kernel look at the rings of a queue pair
 *
 * The kernel takes no write() from a process that has changed its credentials
 * since the device was opened, as a daemon does that gives up its privileges.
 * That does not become better with time, so the answer is remembered. Threads
 * may race to do so; they all store the same.
 *
 * Return: 0 or a positive errno; EIO if the device is gone.
 */
int sroce_doorbell(struct sroce_context *ctx, uint32_t qp_num)
{
	const struct sroce_doorbell_cmd cmd = {
		.hdr.command = SROCE_CMD_DOORBELL,
		.hdr.in_words = sizeof(cmd) / 4,
		.db.qp_num = qp_num,
	};
	ssize_t len;

	if (__atomic_load_n(&ctx->no_write, __ATOMIC_RELAXED))
		return sroce_doorbell_ioctl(ctx, &cmd.db);

	do {
		len = write(ctx->vctx.context.cmd_fd, &cmd, sizeof(cmd));
	} while (len < 0 && errno == EINTR);

	if (len == sizeof(cmd))
		return 0;
	/* A command is taken whole or not at all; half a one was no command. */
	if (len >= 0)
		return EIO;
	if (errno != EACCES)
		return errno;

	__atomic_store_n(&ctx->no_write, true, __ATOMIC_RELAXED);
	return sroce_doorbell_ioctl(ctx, &cmd.db);
}
