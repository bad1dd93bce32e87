/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What /dev/sroce_exporter (exporter_test.c) does, for programs as well. */
#ifndef EXPORTER_TEST_H
#define EXPORTER_TEST_H

#include <linux/ioctl.h>

#define EXPORTER_SIZE	(256 << 10)

#define EXPORTER_FD	_IO('x', 1)	/* the buffer, as a dma-buf */
#define EXPORTER_MOVE	_IO('x', 2)	/* to another place; EBUSY if it is pinned */

#endif
