/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the test programs share: TAP, devices by name, GIDs by address, pairs
 * of connected queue pairs, and payload that depends on message and position.
 */
#ifndef SELFTESTS_COMMON_H
#define SELFTESTS_COMMON_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define printf_like(f, a) __attribute__((format(printf, f, a)))

/* TAP; ok() returns its condition */
bool ok(bool cond, const char *fmt, ...) printf_like(2, 3);
bool is(long long got, long long want, const char *fmt, ...) printf_like(3, 4);
bool between(long long got, long long lo, long long hi, const char *what);
void skip(const char *reason, const char *fmt, ...) printf_like(2, 3);
void diag(const char *fmt, ...) printf_like(1, 2);
/* ends the program: something that is not the subject went wrong */
void die(const char *fmt, ...) printf_like(1, 2) __attribute__((noreturn));
/* prints the plan; the program's status */
int done_testing(void);

/*
 * The @nth allocation, or copy from or to this process, that its next calls make fails;
 * how many there were still to come, and whether there have been as many. None fails
 * after that (CONFIG_FAULT_INJECTION_DEBUG_FS).
 */
void fault_nth(unsigned int nth);
unsigned int fault_left(void);
bool fault_was(void);

/* Runs in a process of its own, what it says being said here. Return: its status */
int in_child(void (*fn)(void));

double now(void);
void sleep_ms(unsigned int ms);

/* a random sequence that is the same everywhere */
struct rng {
	uint64_t s;
};

static inline uint64_t mix64(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static inline uint64_t rng_next(struct rng *r)
{
	return mix64(r->s += 0x9e3779b97f4a7c15ULL);
}

/* from lo to hi, both included */
static inline uint64_t rng_in(struct rng *r, uint64_t lo, uint64_t hi)
{
	return hi - lo == UINT64_MAX ? rng_next(r) : lo + rng_next(r) % (hi - lo + 1);
}

/*
 * The payload: byte @off of the message with @key. pattern_check() returns
 * the offset within the message of the first wrong byte, or -1.
 */
void pattern_fill(void *dst, uint64_t key, uint64_t off, uint64_t len);
int64_t pattern_check(const void *src, uint64_t key, uint64_t off, uint64_t len);

/* memory around a receive buffer that must stay as it is */
#define CANARY 0xa5
int64_t canary_check(const void *p, uint64_t len);

/* one side: a device, a GID */
struct end {
	const char *name;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	int gid_index;
	union ibv_gid gid;
};

/* @gid: an index, or an address, or NULL for the first IPv4 one, or "" for none */
void end_open(struct end *e, const char *dev, const char *gid);
void end_close(struct end *e);

/* how two queue pairs are connected; defaults in conn_default */
struct conn {
	enum ibv_mtu mtu;
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t min_rnr_timer;
	uint8_t rd_atomic;
	uint8_t hop_limit;
	uint8_t traffic_class;
	uint8_t sl;
	uint32_t flow_label;
	int access;
};

extern const struct conn conn_default;

/* what one side tells the other */
struct peer {
	uint32_t qpn;
	uint32_t psn;
	union ibv_gid gid;
	enum ibv_mtu mtu;
};

int qp_init(struct ibv_qp *qp, const struct conn *c);
int qp_rtr(struct ibv_qp *qp, const struct end *e, const struct peer *p, const struct conn *c);
int qp_rts(struct ibv_qp *qp, uint32_t psn, const struct conn *c);
/* reset to ready to send */
void qp_connect(struct ibv_qp *qp, const struct end *e, uint32_t psn, const struct peer *p,
		const struct conn *c);
/* two with each other */
void qps_connect(struct ibv_qp *qp_a, const struct end *a, uint32_t psn_a,
		 struct ibv_qp *qp_b, const struct end *b, uint32_t psn_b, const struct conn *c);
int qp_to(struct ibv_qp *qp, enum ibv_qp_state state);
struct ibv_qp_attr qp_query(struct ibv_qp *qp);
enum ibv_qp_state qp_state(struct ibv_qp *qp);
const char *state_name(int state);

enum ibv_mtu mtu_enum(unsigned int bytes);
static inline unsigned int mtu_bytes(enum ibv_mtu m)
{
	return 128U << m;
}

/* two queue pairs with CQs of their own and one registered buffer each */
struct pair {
	struct end *e[2];
	struct ibv_cq *scq[2], *rcq[2];
	struct ibv_qp *qp[2];
	struct ibv_mr *mr[2];
	uint8_t *buf[2];
	uint32_t psn[2];
	struct conn conn;
	/* what the test brought along, and destroys itself */
	struct ibv_srq *srq;
	bool lent_scq, lent_rcq;
};

struct pair_opts {
	unsigned int sq, rq, sge, inl;
	bool sig_all;
	size_t buf;
	enum ibv_qp_type type;	/* 0: RC */
	int access;		/* of the buffers' regions, beside local write */
	uint64_t send_ops;	/* IBV_QP_EX_WITH_*: to be posted to by ibv_wr_*() */
	struct ibv_cq *scq;	/* side 0's, if not one of its own */
	struct ibv_cq *rcq;	/* side 1's */
	struct ibv_srq *srq;	/* side 1's; pair_recv() posts to it */
};

void pair_create(struct pair *p, struct end *a, struct end *b, const struct pair_opts *o);
void pair_connect(struct pair *p);
void pair_up(struct pair *p, struct end *a, struct end *b, const struct conn *c);
void pair_destroy(struct pair *p);

/* one SGE at an offset of a pair's buffer */
int pair_send(struct pair *p, int side, uint64_t wr_id, size_t off, uint32_t len, int flags);
int pair_recv(struct pair *p, int side, uint64_t wr_id, size_t off, uint32_t len);
/* All of side 0's buffer from or to side 1's: SEND, WRITE or READ of @len bytes; psn[0] moves on. */
void pair_request(struct pair *p, enum ibv_wr_opcode opcode, uint32_t len);

/* One request, by ibv_post_send() or by what ibv_wr_*() has for its opcode */
int wr_post(struct ibv_qp *qp, const struct ibv_send_wr *wr);
int wr_post_ex(struct ibv_qp *qp, const struct ibv_send_wr *wr);
#define POST(qp, ...) wr_post(qp, &(struct ibv_send_wr) { __VA_ARGS__ })
#define SGE(at, len, key) \
	&(struct ibv_sge) { .addr = (uintptr_t)(at), .length = (len), .lkey = (key) }

/* NULL where there is none */
struct ibv_xrcd *xrcd_make(const struct end *e);
struct ibv_xrcd *xrcd_of(const struct end *e, int file, int oflags);
/* @attr: becomes what it has */
struct ibv_srq *xrc_srq_make(const struct end *e, struct ibv_xrcd *xrcd, struct ibv_cq *cq,
			     struct ibv_srq_attr *attr);

/* A requester, and a target in a domain: they take no receive requests of their own */
struct ibv_qp *xrc_ini_make(const struct end *e, struct ibv_cq *cq, unsigned int sends);
struct ibv_qp *xrc_tgt_make(const struct end *e, struct ibv_xrcd *xrcd);

struct ibv_cq *cq_make(const struct end *e, int entries);
struct ibv_cq *cq_make_on(const struct end *e, int entries, struct ibv_comp_channel *ch);
/* What this process has mapped of devices: as many as there are, of @max */
#define MAX_MAPS 1024
struct mapping {
	uint8_t *at;
	size_t len;
};
size_t uverbs_maps(struct mapping *to, size_t max);
/* The one ring that is mapped between the two: for a test that scribbles on it */
struct sroce_ring;
void ring_before(void);
struct sroce_ring *ring_after(void);
/* The one ring, mapped since ring_before(), whose producer is there: the test has posted so many */
struct sroce_ring *ring_at(uint32_t prod);
/* zeroed and aligned to pages; and its region */
struct ibv_mr *mr_make(const struct end *e, size_t len, int access);
void mr_drop(struct ibv_mr *mr);	/* with its memory */

/* A dma-buf of another driver's, which is @memfd's memory; -1 where there is no /dev/udmabuf */
int buffer_make(int *memfd, size_t len);

/* a queue pair for datagrams, with CQs of its own and places of 8 KiB to receive in */
struct ud {
	struct end *e;
	struct ibv_cq *scq, *rcq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *buf;
};

/* From RESET on: it may send and receive */
void ud_ready(struct ibv_qp *qp, uint32_t qkey);
void ud_up(struct ud *u, struct end *e, uint32_t qkey, bool ex);
void ud_down(struct ud *u);
/* One that is ready, without memory; with an @srq, @recvs is 0 */
struct ibv_qp *ud_qp(struct end *e, struct ibv_cq *cq, struct ibv_srq *srq, uint32_t sends,
		     uint32_t recvs, uint32_t qkey);

/* What a datagram's receive begins with */
#define GRH 40
bool v4_mapped(const union ibv_gid *g);
/* 230.7.7.@last, or ff0e::7:@last for an end whose address is IPv6 */
union ibv_gid group_gid(const struct end *e, uint8_t last);
void ud_recv(struct ud *u, uint64_t id, uint32_t len);
/* @ex: by ibv_wr_*(); @imm: 0 for none */
int ud_send(struct ud *u, bool ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey, uint64_t id,
	    struct ibv_sge *sge, int n, int flags, uint32_t imm);
struct ibv_ah *ah_to(const struct end *from, const union ibv_gid *gid);
/*
 * What this thread opens is a host's, "a" or "b" or "w" as hosts_up has them, until it leaves.
 * Return: where it was
 */
int host_enter(const char *host);
void host_leave(int home);
/* The ICRC of a packet: its @len bytes from the IP header on, without that */
uint32_t icrc_of(const uint8_t *ip, size_t len);

#define FORGED_MAX 4500
#define FORGED_BTH 28
#define FORGED_PORT 0xc000

/*
 * A packet as if from @side of a pair, with its ICRC: IPv4, UDP, BTH, and the headers and
 * payload that the caller gives. Returns how long it is, from the IP header on, which has @id.
 */
size_t forge_into(uint8_t *ip, const struct pair *p, int side, uint16_t id, uint8_t opcode,
		  uint32_t psn, const void *body, size_t len);

/* And it is sent. @fd: forger()'s, made on that side's host */
int forger(void);
int forger_on(const char *host);
void forge_pkt(int fd, const struct pair *p, int side, uint8_t opcode, uint32_t psn,
	       const void *body, size_t len);
#define RETH_LEN 16
void reth(uint8_t *body, const void *at, uint32_t rkey, uint32_t len);

/* Poll until there is a completion or the time is up: whether there is one. */
bool cq_wait(struct ibv_cq *cq, struct ibv_wc *wc, double seconds);
/* The next asynchronous event, acknowledged */
bool event_next(const struct end *e, struct ibv_async_event *ev, double seconds);
/* Those that have come */
void events_drop(const struct end *e);
/* The next one but those that say nothing */
bool event_wait(const struct end *e, struct ibv_async_event *ev, double seconds);
/* Is there memory on demand? Otherwise the test is skipped. */
bool odp_there(const struct end *e);
/* The next one is @type; a TAP result */
bool event_is(const struct end *e, enum ibv_event_type type, const void *element, const char *fmt, ...)
	printf_like(4, 5);
bool wait_state(struct ibv_qp *qp, enum ibv_qp_state want);
/* A TAP result: "@what is in STATE" */
void is_state(struct ibv_qp *qp, enum ibv_qp_state want, const char *what);

/* For a queue pair, as the provider does: 0 or an errno */
/* A method of a device with one attribute, on a command file. Return: 0 or an errno */
int device_method(int fd, uint16_t method, uint16_t attr, uint16_t len, uint64_t data);
int ring_doorbell(struct ibv_context *ctx, uint32_t qpn);

/* One of the port's counters */
long long hw_counter(const struct end *e, const char *name);
/* Until it is more than @more_than */
void wait_counter(const struct end *e, const char *name, long long more_than);
/* The same, or 0: another driver's device has not all of them. */
long long counter_of(const struct end *e, const char *name);
void counters_read(const struct end *e, const char * const *names, unsigned int num, long long *to);

/* How side b's link goes down and up again: --down COMMAND --up COMMAND, or NULL */
extern const char *cmd_down, *cmd_up;
/* ends the program if the command fails */
void command(const char *cmd);
/* The first line of its output that has @which: the number behind @name, or -1 */
long long output_number(const char *cmd, const char *which, const char *name);

/*
 * What every program's main() does: options -d DEV [-D DEV2] [-g GID] [-G GID2]
 * [--down COMMAND --up COMMAND], then the tests named, or all.
 */
struct test {
	const char *name;
	void (*fn)(void);
	/* calls fn between making and dropping what it needs; NULL: nothing */
	void (*with)(void (*fn)(void));
};

#define TEST(f, ...) { .name = #f, .fn = (f), ##__VA_ARGS__ }

int run_tests(int argc, char **argv, const struct test *tests, size_t n, struct end *a,
	      struct end *b);

/* No completion for so long */
bool cq_quiet(struct ibv_cq *cq, double seconds);
/* The next completion is @status of @wr_id; a TAP result */
bool wc_is(struct ibv_cq *cq, uint64_t wr_id, int status, struct ibv_wc *out, const char *fmt, ...)
	printf_like(5, 6);

/* The kernel's enum ib_access_flags, which older headers lack: FLUSH to global visibility */
#define ACCESS_FLUSH (1 << 8)
bool all_are(const void *mem, uint8_t byte, size_t len);
bool has_flush(struct end *e);

/* Seconds after which what is kept before its turn is dropped: KEPT_MAX_AGE in keep.c */
#define KEPT_AGE 20
/*
 * The milliseconds that this is at least: age is counted in jiffies, and where a host is busy,
 * those were behind the clock as the packet came.
 */
#define AGED_MS (KEPT_AGE * 1000 - 250)

/* A limit for what should have happened long ago on the slowest machine */
#define PATIENCE (30.0 * patience_times())

/* On one that has each access watched, so many times longer: see selftests/run */
double patience_times(void);

#endif
