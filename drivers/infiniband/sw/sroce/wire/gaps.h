/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The gap report: what a side lacks of a run of packets, all at once. IBTA's
 * NAK names the first packet alone; on a long way that loses several of each
 * window, one round trip goes by for each.
 *
 * It is a packet of a manufacturer's own opcode (IBTA Vol.1 table 38: 110xxxxx),
 * which others drop unseen, and is seldom sent to who has been seen to send all
 * again that lay behind the last gap. Behind the BTH, whose PSN is the first
 * that is missing: a word that says whose it is, then words of two numbers of 16
 * bits each, for every gap the first packet, counted from the BTH's PSN, and how
 * many there are. The last word has the packet behind all that is known of, and
 * how many requests have come twice since the connection began, modulo 2^16: where
 * that grows with what is sent again, it had not been lost, and the network reorders.
 *
 * A report without gaps says who its sender is, and counts: who is asked again for
 * a READ tells by it that several parts may be asked for at a time.
 */
#ifndef SROCE_WIRE_GAPS_H
#define SROCE_WIRE_GAPS_H

#include "bytes.h"

#define WIRE_GAPS		0xd1	/* BTH opcode */
#define WIRE_GAPS_MAGIC		0x73726f63
#define WIRE_GAPS_MAX		31
#define WIRE_GAPS_LEN(num)	(4 + 4 * ((num) + 1))
#define WIRE_GAPS_MAX_LEN	WIRE_GAPS_LEN(WIRE_GAPS_MAX)

/**
 * struct wire_gaps - packets that are missing, of a run
 *
 * The run begins at the PSN of the BTH, which is the first that is missing: all before it have
 * arrived, as if a NAK had named it.
 *
 * @num: gaps
 * @end: packets of the run, those that are missing included
 * @twice: requests that had come before; it wraps
 * @gap: by PSN: its first packet, counted from that of the run, and its packets
 */
struct wire_gaps {
	__u32 num;
	__u32 end;
	__u16 twice;
	struct wire_gap {
		__u16 first;
		__u16 num;
	} gap[WIRE_GAPS_MAX];
};

void wire_gaps_put(__u8 *p, const struct wire_gaps *gaps);
int wire_gaps_get(const __u8 *p, __u32 len, struct wire_gaps *gaps);

#endif /* SROCE_WIRE_GAPS_H */
