/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Links by RDMA netlink, without a program being started for each.
 */
#ifndef SELFTESTS_NEWLINK_H
#define SELFTESTS_NEWLINK_H

/*
 * rdma link add NAME type TYPE netdev NDEV; rdma link del NAME. Return: 0 or an errno:
 * ENODEV of a link that there is not, ETIME if there is no answer.
 */
int newlink(const char *name, const char *type, const char *ndev);
int dellink(const char *name);

#endif
