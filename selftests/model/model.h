/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The requester and the responder in user space, to be run against any network
 * that a schedule can think of. What is on the wire is written and read by the
 * module's own wire/, which has times and numbers for both, too; the rules are a
 * model of the module's: a function that has the name of one of the module's
 * (without its sroce_) does what that does, and stands beside the same neighbours,
 * so that the two can be read side by side.
 *
 *	here		there				what
 *	requester.c	repair.c, retry.c, send.c	what is missing; time; packets
 *	completer.c	ack.c, request.c		what answers do; completions
 *	responder.c	recv.c, resp.c			requests; answers
 *	sweep.c		gaps.c				all that is missing, at once
 *	keep.c		keep.c				what came before its turn
 *	net.c		burst.c, net.c			packets, ICRC, runs; and a network
 *	liar.c						what a peer should not say
 *	model.c						schedules, and what has to hold
 *
 * Not here, as it makes no difference to what is proven: XRC, tag matching, keys
 * but for a wrong one, memory that has to be paged in (but that it stops the
 * requester), lists of more than one piece, SQD, pages that several skbs are cut
 * from, congestion (pace.c: a window is the schedule's, and stays so), and the
 * shortcuts for the middle of a message (sroce_recv_middle, sroce_ack_middle,
 * send_middles), which do what is done here for each packet.
 *
 * Other peers are here, too: a responder that keeps nothing and a requester that
 * goes back for everything, as rdma_rxe has them. Each is marked "plain".
 */
#ifndef MODEL_H
#define MODEL_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gaps.h"
#include "icrc.h"
#include "parse.h"
#include "recovery.h"

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;
typedef s64 ktime_t;

#define KTIME_MAX	INT64_MAX
#define NSEC_PER_USEC	1000LL
#define NSEC_PER_MSEC	1000000LL
#define NSEC_PER_SEC	1000000000LL

#define min(a, b) ({ __typeof__(a) a_ = (a); __typeof__(b) b_ = (b); a_ < b_ ? a_ : b_; })
#define max(a, b) ({ __typeof__(a) a_ = (a); __typeof__(b) b_ = (b); a_ > b_ ? a_ : b_; })
#define ARRAY_SIZE(a)		(sizeof(a) / sizeof((a)[0]))
#define DIV_ROUND_UP(n, d)	(((n) + (d) - 1) / (d))

#define MTU		256U
#define MAX_PKTS	12U
#define MAX_LEN		(MAX_PKTS * MTU)
#define MAX_MSGS	32U
#define MAX_RES		8U
#define MAX_KEPT	64U
#define MAX_BURST	64U
#define MAX_PARTS	32U

#define PKEY		0xffff
#define REQUESTER_QPN	0x11
#define RESPONDER_QPN	0x12

/* IB_WC_..., as far as they can come */
enum status {
	WC_NONE,
	WC_SUCCESS,
	WC_WR_FLUSH_ERR,
	WC_BAD_RESP_ERR,
	WC_REM_INV_REQ_ERR,
	WC_REM_ACCESS_ERR,
	WC_REM_OP_ERR,
	WC_RETRY_EXC_ERR,
	WC_RNR_RETRY_EXC_ERR,
	NUM_STATUS,
};

enum opcode {
	OP_SEND,
	OP_SEND_IMM,
	OP_WRITE,
	OP_WRITE_IMM,
	OP_READ,
	OP_FETCH_ADD,
	OP_CMP_SWAP,
	NUM_OPCODES,
};

enum send_kind {
	SEND_STREAM,
	SEND_READ,
	SEND_ATOMIC,
};

struct send_op {
	u8 first;
	u8 middle;
	u8 last;
	u8 only;
	u8 kind;
};

extern const struct send_op send_ops[NUM_OPCODES];

/* A request, and all that is known of it: sroce_send_wqe and sroce_swqe */
struct msg {
	enum opcode opcode;
	bool fence;
	u32 length;
	u64 remote_addr;
	u32 rkey;
	u64 swap_add;
	u64 compare;
	u8 *buf;			/* from which, or into which */
	u8 *want;			/* what has to be there in the end */
	u32 imm;
	/* the requester's */
	u32 first_psn;
	u32 num_pkts;
	u8 part;			/* of a READ: a request asks for 2 ^ part packets */
	bool sent;
	bool answered;
	enum status status;
};

/* Bytes on the wire, from the BTH on. What came in one skb has one @skb. */
struct pkt {
	u32 refs;
	u32 skb;
	u32 truesize;
	u16 id;
	bool spoilt;
	u32 len;
	u8 data[];
};

struct rx {
	struct wire_pkt pkt;
	struct pkt *p;
};

/* keep.c */

struct late {
	struct rx rx;
	u32 charge;
};

struct kept {
	struct late *entry[MAX_KEPT];	/* by PSN: the module has a tree */
	u32 num;
	u32 bytes;
	u32 max_pkts;
	u32 max_bytes;
};

enum keep {
	KEPT,			/* behind one that is */
	KEPT_APART,		/* with something missing before it */
	KEPT_TWICE,
	KEPT_NOT,
};

enum keep keep(struct kept *kept, struct rx *rx);
bool kept_opens(const struct kept *kept, u32 psn);
void kept_gaps(const struct kept *kept, u32 from, struct wire_gaps *gaps);
struct late *kept_first(const struct kept *kept);
void kept_take(struct kept *kept, struct late *late);
void kept_purge(struct kept *kept);
void kept_audit(const struct kept *kept);
struct late *late_new(const struct rx *rx);
void late_free(struct late *late);

/* A burst: packets that are given to the device together */

struct burst {
	struct pkt *pkt[MAX_BURST];
	u32 num;
};

u8 *burst_reserve(struct burst *b, u32 len);
bool burst_fits(const struct burst *b);
int burst_send(struct burst *b, bool from_requester);
void burst_free(struct burst *b);

/* requester.c */

enum peer {
	PEER_UNKNOWN,
	PEER_KEEPS,
	PEER_DROPS,
};

struct repair {
	bool due;
	bool out;
	bool told;
	bool blind;
	bool once;
	bool hold;
	u8 peer;
	bool reports;
	u8 vain;
	u8 probes;
	u8 backed_off;
	u8 num;
	bool twice;
	u32 psn;
	u32 end;
	u32 lacks;
	ktime_t sent;
	u32 behind;
	ktime_t lossy;
	u64 took;
	u64 took_var;
	ktime_t probe_due;
	ktime_t rest_due;
};

/* sweep.c */

struct order {
	u32 wait;
	u32 again;
	u32 probed;
	u32 twice;
	ktime_t since;
	u8 few;
	u16 peer_twice;
	ktime_t until;
};

struct gap {
	u32 psn;
	u16 num;
	bool due;
	bool held;
	bool told;
	u32 behind;
	ktime_t sent;
};

struct sweep {
	bool due;
	bool implied;
	u32 num;
	struct gap gap[WIRE_GAPS_MAX];
	u32 end;
	u32 arrived;
	struct gap request;
	u32 newest;
	u32 came;
	ktime_t came_sent;
};

void gaps_reset(void);
void gaps_arrived(u32 psn);
bool gaps_came(u32 psn);
void gaps_moved(u32 num);
bool gaps_overtaken(ktime_t sent, u32 behind, ktime_t now);
void gaps_sent(struct gap *gap, ktime_t now);
bool gaps_under_way(ktime_t now);
ktime_t gaps_due(ktime_t now);
void gaps_repaired(u32 end, ktime_t now);
void gaps_report(const struct rx *rx);
void gaps_implied(void);
void gaps_request(u32 psn);
void gaps_await(void);
bool gaps_hold(bool told);
bool gaps_release(ktime_t now);
void gaps_audit(void);
void order_reset(void);
void order_judge(void);
void order_again(u32 num, bool probe);

#define MAX_LATE	64U

struct sq {
	bool err;			/* the queue pair's state */
	bool timer_bit;			/* SROCE_SQ_TIMER */
	u32 una;
	u32 nxt;
	u32 fetched;
	u32 posted;			/* the ring's index */
	u32 psn_una;
	u32 psn_nxt;
	u32 psn_end;
	u32 psn_left;
	u32 flight;
	u32 num_rd;
	u32 unasked;
	u8 retry_left;
	u8 rnr_left;
	u8 timeouts;
	bool rnr_wait;
	bool rnr_probe;
	ktime_t deadline;
	ktime_t backoff;
	u64 srtt;
	u64 rttvar;
	u32 rtt_psn;
	ktime_t rtt_start;
	ktime_t went_back;
	ktime_t nak_due;
	struct repair repair;
	bool rtt_held;
	u64 rtt_least;
	struct order order;
	struct sweep sweep;
	u32 sge_off;
	u32 rsp_psn;
	u32 rsp_end;
	u32 rsp_off;
	struct kept kept;
	u32 num_late;
	struct late *late[MAX_LATE];
	ktime_t timer;			/* when it fires; KTIME_MAX: not queued */
	u32 timer_gen;
};

void requester_reset(u32 psn);
void send_run(void);
void send_seek(u32 psn);
u32 send_whole(void);
void retry_timer(void);
void retry_go_back(ktime_t now, u8 syndrome, bool counts);
void retry_nak(u8 syndrome);
void retry_acked(void);
void retry_arrived(void);
u64 cwnd_least(void);
u64 repair_answer_ns(ktime_t now);
void retry_progress(void);
void retry_rnr(u8 code);
void repair_forget(void);
void repair_missing(ktime_t now);
void repair_told(bool alone);
void repair_nak(u8 syndrome);
void repair_moved(void);
void repair_acked(void);

static inline bool takes_resource(const struct send_op *op)
{
	return op->kind != SEND_STREAM;
}

/* More packets than any response has: it is asked for as a whole */
#define PART_ALL	31U

/* Of @k packets of a response: those of its request from there on. */
static inline u32 part_left(const struct msg *swqe, u32 k)
{
	return min(swqe->num_pkts, ((k >> swqe->part) + 1) << swqe->part) - k;
}

static inline u32 part_start(const struct msg *swqe, u32 psn)
{
	const u32 k = (u32)wire_psn_diff(psn, swqe->first_psn);

	return wire_psn_add(swqe->first_psn, k >> swqe->part << swqe->part);
}

static inline u32 part_end(const struct msg *swqe, u32 psn)
{
	return wire_psn_add(psn, part_left(swqe, (u32)wire_psn_diff(psn, swqe->first_psn)));
}

/* Requests on the wire of which all lies before @psn */
static inline u32 parts_before(const struct msg *swqe, u32 psn)
{
	const s32 k = wire_psn_diff(psn, swqe->first_psn);

	if (k >= (s32)swqe->num_pkts)
		return ((swqe->num_pkts - 1) >> swqe->part) + 1;
	return k > 0 ? (u32)k >> swqe->part : 0;
}

/* completer.c */

bool send_awaits(u32 index);
void send_complete(enum status status);
void send_fail(enum status status, u8 syndrome);
void ack_later(struct rx *rx);
void ack_packet(struct rx *rx);
void ack_before(u32 psn);
void ack_run(void);

/* responder.c */

enum recv_op {
	RECV_IDLE,
	RECV_SEND,
	RECV_WRITE,
};

struct res {
	u8 class;
	bool owed;
	bool given;
	u32 psn;
	u32 num_pkts;
	u32 start;
	u32 next;
	u32 end;
	u32 resume;
	u32 msn;
	u32 rkey;
	u64 va;
	u32 len;
	u64 orig;
};

struct part {
	u32 psn;
	u32 end;
};

struct rq {
	bool err;			/* the queue pair's state */
	u32 posted;			/* receive requests, and those taken */
	u32 cons;
	u32 epsn;
	u32 ack_psn;
	u32 msn;
	enum recv_op op;
	bool nak_sent;
	bool not_ready;
	bool respond;
	u8 syndrome;
	bool has_wqe;
	u32 placed;
	u64 va;
	u32 rkey;
	u32 left;
	struct kept kept;
	bool owned;			/* SROCE_RESP_OWNED */
	struct res res[MAX_RES];
	u32 max_res;
	u32 num_res;
	u32 num_owed;
	u32 first_owed;
	struct part parts[MAX_PARTS];
	u32 num_parts;
	bool filled;
	u32 filled_psn;
	bool goes_back;
	ktime_t reported;
	u8 unreported;
	bool report;
	bool greet;
	u8 greetings;
	u16 twice;
	/* what its owner has written, and not sent */
	bool giving_ack;
	u8 giving;
	struct res *owed;
	struct res before;
	struct res done;
	struct burst burst;
	u8 buf[MAX_LEN];		/* of the receive request that is taken */
};

void responder_reset(u32 psn);
void recv_packet(struct rx *rx);
void recv_end(void);
void resp_run(void);
void resp_finish(void);

/* net.c */

enum event_type {
	EV_ARRIVE,			/* a packet, at the other end */
	EV_RUN,				/* a softirq takes what has arrived */
	EV_TIMER,			/* the requester's */
	EV_POST,			/* the program posts requests */
	EV_POST_RECV,			/* the peer's posts receive requests */
	EV_RESP,			/* the owner of the responses goes on */
	EV_LIE,				/* the peer says what is not so */
};

ktime_t ktime_get(void);
void event_at(ktime_t at, enum event_type type, u32 arg, struct pkt *p);
bool event_run(void);
void net_reset(void);
void net_end(void);
void pkt_put(struct pkt *p);
const u8 *rx_payload(const struct rx *rx);

/* liar.c */

void lie(void);

/* model.c */

#define RO_LEN		4096U
#define RW_LEN		8192U
#define NUM_WORDS	8U
#define MEM_LEN		(RO_LEN + RW_LEN + NUM_WORDS * 8)

/* What a schedule is made of. Probabilities are of a thousand. */
struct plan {
	u64 number;
	u32 num_msgs;
	u32 psn;
	u32 window;			/* packets */
	u32 burst;
	u32 budget;
	u32 max_rd;
	u32 parted;			/* READs go in parts */
	u32 ask;			/* packets of a response that a probe asks for */
	u32 max_res;
	u32 timeout;
	u32 retry_cnt;
	u32 rnr_retry;
	u32 min_rnr_timer;
	u32 kept_pkts[2];		/* of the requester, of the responder */
	u32 kept_bytes[2];
	u32 kept_dev;
	bool plain_requester;
	bool plain_responder;
	bool ipv6;
	bool gso;
	u32 loss[2];			/* of requests, of responses */
	u32 loss_more;			/* that the next is lost, too */
	u32 dup;
	u32 reorder;
	u32 corrupt;
	u32 refuse;			/* the device's queue is full */
	u32 no_memory;			/* a packet can't be written yet */
	u32 late;			/* the send side is somebody else's */
	ktime_t delay;
	ktime_t jitter;			/* of those that overtake others */
	ktime_t pkt_ns;			/* a packet takes of the wire's time */
	u32 queue;			/* packets that wait for it */
	ktime_t run_ns;			/* until a softirq takes what has come */
	ktime_t resp_ns;		/* between writing an answer and sending it */
	ktime_t outage;			/* KTIME_MAX: none */
	u32 wait;			/* ns: the requester knows a network that reorders */
	u32 order_sample;		/* packets by which it learns that */
	u32 stop;			/* the timer is late */
	u32 lies;			/* volleys of them */
	bool never_ready;
	u32 bad_key;			/* index of a message; MAX_MSGS: none */
};

/* What the rules were seen to do; the order is that of the names in model.c. */
enum seen {
	SEEN_KEPT,
	SEEN_KEPT_NOT,
	SEEN_GAP_NAK,
	SEEN_RNR_NAK,
	SEEN_DUPLICATE,
	SEEN_REPLAYED,
	SEEN_PART,
	SEEN_PARTED,
	SEEN_ASKED_ON,
	SEEN_RESUMED,
	SEEN_REPAIR,
	SEEN_PROBE,
	SEEN_TIMEOUT,
	SEEN_GO_BACK,
	SEEN_IMPLIED,
	SEEN_KEEPS,
	SEEN_DROPS,
	SEEN_LATE,
	SEEN_REPORT,
	SEEN_SWEPT,
	SEEN_PART_LATER,
	SEEN_GREETED,
	SEEN_REQUEST_AGAIN,
	SEEN_OVERTAKEN,
	SEEN_PASSED,
	SEEN_CONTRADICTED,
	SEEN_HELD,
	SEEN_RELEASED,
	SEEN_WAITS_MORE,
	SEEN_WAITS_LESS,
	SEEN_STOPPED,
	SEEN_LIES,
	SEEN_REFUSED,
	SEEN_NO_MEMORY,
	SEEN_CORRUPT,
	SEEN_LOST,
	SEEN_SENT,
	NUM_SEEN,
};

/* All there is in a schedule's world. */
struct world {
	struct plan plan;
	struct sq sq;
	struct rq rq;
	struct msg msg[MAX_MSGS + 1];	/* the last is never posted */
	u8 mem[MEM_LEN];		/* the responder's */
	u8 shadow[MEM_LEN];		/* what it has to be, between two messages */
	u64 va;
	u32 rkey;
	u32 read_done;			/* bytes of the next, if it is a READ */
	u32 executed;			/* messages, at the responder */
	u32 received;			/* of those, with a receive request */
	u32 kept_dev;
	u32 sends[MAX_MSGS * MAX_PKTS];	/* how often each request packet was sent */
	u32 swept[MAX_MSGS * MAX_PKTS];	/* and by which sweep last: of a READ's, what it asked for */
	u32 sweeps;
	u32 drawn;			/* request packets, in all */
	ktime_t progress;		/* when psn_una last moved */
	u32 naks;			/* NAKs for what is missing, since then */
	u32 rnr_naks;
};

extern struct world w;
extern u64 seen[NUM_SEEN];
extern int verbose;

u64 rnd(void);
u32 rnd_below(u32 n);
bool chance(u32 of_thousand);

void failed(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
#define trace(...) do { if (verbose) say(__VA_ARGS__); } while (0)

/* What has to hold, at each step of the two sides. */
void check_completion(u32 index, enum status status);
void check_progress(void);
void check_message(const struct wire_pkt *pkt);
void check_received(const struct wire_pkt *pkt, u32 len);
void check_atomic(const struct wire_pkt *pkt, u64 orig);
void check_retries(u8 counted_out);
void check_rnr_retries(void);
void note_sent(u32 psn, u32 psns);
void check_part(u32 psn, u32 len, bool alone);
void note_swept(u32 psn, u32 psns);
void check_swept(u32 psn, u32 end);

#endif /* MODEL_H */
