/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A wire that is this program: it carries packets from one netdev to the other, and
 * drops or holds those it is told to, by their PSN. Side 0 is the requester.
 */
#ifndef SELFTESTS_RELAY_H
#define SELFTESTS_RELAY_H

#include <stdint.h>

enum { THERE, BACK };		/* requests, responses */

#define ALL UINT32_MAX		/* any PSN */

/* w0 is towards side 0, w1 towards side 1, both in the namespace w */
void relay_up(void);

/* All gets through, and nothing has been carried. */
void relay_clear(void);
void relay_drop(unsigned int way, uint32_t psn, unsigned int times);
/* @opcode: or -1 */
void relay_drop_op(unsigned int way, uint32_t psn, int opcode, unsigned int times);

/* The next packet of this PSN comes after @behind others that follow it. */
void relay_late(unsigned int way, uint32_t psn, unsigned int behind);

/*
 * What has been dropped by its PSN and comes again waits, until @num different ones
 * do, or some seconds have gone by: relay_waited() says how many did.
 */
void relay_hold(unsigned int num);
unsigned int relay_waited(void);

/* RoCE packets since relay_clear() */
unsigned int relay_carried(unsigned int way);
unsigned int relay_dropped(void);
/* Frames for which there was no room, since this was asked last: nobody has named them */
unsigned int relay_lost(void);

#endif
