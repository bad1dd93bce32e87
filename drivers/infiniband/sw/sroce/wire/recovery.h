/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Times and numbers of the recovery (repair.c, gaps.c, recv.c, resp.c), which
 * selftests/model has to have as well. Times are in nanoseconds.
 */
#ifndef SROCE_WIRE_RECOVERY_H
#define SROCE_WIRE_RECOVERY_H

/* A packet that is missing: repair.c */

/* Until a round trip is known: 10 ms */
#define PROBE_FIRST_NS	10000000L

/* Below that, it is the peer's processor that is busy, or ours: 100 us */
#define PROBE_MIN_NS	100000L

/*
 * A timer that fires for nothing costs as much as a message. Where nothing has been
 * missing for a while, 10 s, the first that is may wait for that long: 4 ms.
 */
#define PROBE_CALM_NS	4000000L
#define LOSSY_NS	10000000000L

/* In a row, each after twice the time: what has not helped by then does not. */
#define PROBES_MAX	8

/*
 * The first of the next row waits as long as the last one has, until a round trip has been measured:
 * a way that has become that much longer would never be, as what is sent again is not timed. So
 * often twice as long, and up to a second.
 */
#define PROBE_SHIFT_MAX	14
#define PROBE_LAST_NS	1000000000L

/* Of a READ's response, packets that are asked for where nothing tells what has become of it */
#define PROBE_READ	16U

/* Packets in a row that are sent again, where more than one is missing */
#define REPAIR_MAX	64

/* Times that a peer which keeps nothing gets all, before it is asked again. */
#define RELEARN		64

/* Several of them: gaps.c */

/* In a row: few of those packets that were sent again came twice */
#define ORDER_FEW	4

/* What came twice is known a round trip later: of so many, the last one's are few */
#define ORDER_RTTS	3

/* It begins with that part of a round trip, as RACK does with a fourth (RFC 8985, section 6.2) */
#define ORDER_RTT_PART	8

/*
 * What is later than the longest, 4 ms on a short way, has to be sent again. Below the shortest,
 * 128 us, none is late.
 */
#define ORDER_MIN_NS	128000U
#define ORDER_MAX_NS	4000000U

/* Where a round trip is longer, as long as that, but no longer than 1 s. */
#define ORDER_FAR_NS	1000000000UL

/* Networks change. To learn it once more, after 10 s, costs ORDER_SAMPLE packets. */
#define ORDER_AGE_NS	10000000000L

/* More of them would hide for long what is learned from others */
#define ORDER_PROBED	1024U

/* A peer's count that is so much less than it was is of another report, which came late */
#define TWICE_LATE	1024

/* Lost, when more that were sent behind it have come; RFC 9002, 6.1.1, has as many */
#define OVERTAKEN	3

/* What the peer is told: recv.c, resp.c */

/*
 * Of the reports that a requester would get which goes back: every so manyth. One of ours that
 * sent again too much looks like that, and goes on to do so if it is told nothing any more.
 */
#define UNREPORTED	8

/*
 * Since the last report, when one that asks comes behind a gap: 500 us. On a long way one gap
 * alone is open for a round trip, in which all that comes counts as under way, and the window
 * closes.
 */
#define REPORT_NS	500000L

/* Times that a READ's requester is told that gaps may be asked for together: some get lost. */
#define GREETINGS	8

#endif /* SROCE_WIRE_RECOVERY_H */
