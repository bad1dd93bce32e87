// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Management datagrams: side a asks side b for its performance counters by
 * /dev/infiniband/umad*, as perfquery does on InfiniBand (IBTA Vol. 1 16.1), and
 * sends b's QP1 what makes no sense.
 */
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <rdma/ib_user_mad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common.h"

static struct end ea, eb;

#define SIG IBV_SEND_SIGNALED
#define MAD 256

enum { QP1 = 1, QP1_QKEY = 0x80010000 };
/* Methods, 13.4.5; the class, 13.4.4; its attributes, 16.1.2 */
enum { GET = 1, SET = 2, SEND = 3, TRAP = 5, REPORT = 6, TRAP_REPRESS = 7, GET_RESP = 0x81 };
enum { CLASS_SUBN = 0x01, CLASS_SA = 0x03, CLASS_PERF = 0x04, CLASS_VENDOR = 0x0a };
enum {
	CLASS_PORT_INFO = 0x01,
	SAMPLES_CONTROL = 0x10,
	PORT_COUNTERS = 0x12,
	PORT_COUNTERS_EXT = 0x1d,
};

/* 13.4.7 */
enum { BAD_VERSION = 0x04, BAD_METHOD = 0x08, BAD_METHOD_ATTR = 0x0c, BAD_VALUE = 0x1c };

/* On the wire, big endian. What has no name here is 0. */
struct mad {
	uint8_t base_version, mgmt_class, class_version, method;
	uint16_t status, class_specific;
	uint64_t tid;
	uint16_t attr_id, reserved;
	uint32_t attr_mod;
	uint8_t reserved2[40];
	uint8_t data[192];
};

_Static_assert(sizeof(struct mad) == MAD, "13.4.2");

/* Where a counter stands in data[], in bytes; its bit of CounterSelect */
struct field {
	uint16_t attr;
	uint8_t at, size;
	uint16_t select;
};

static const struct field
	link_downed = { PORT_COUNTERS, 7, 1, 0x0004 },
	rcv_errors = { PORT_COUNTERS, 8, 2, 0x0008 },
	xmit_data = { PORT_COUNTERS, 24, 4, 0x1000 },
	rcv_data = { PORT_COUNTERS, 28, 4, 0x2000 },
	xmit_pkts = { PORT_COUNTERS, 32, 4, 0x4000 },
	rcv_pkts = { PORT_COUNTERS, 36, 4, 0x8000 },
	xmit_data64 = { PORT_COUNTERS_EXT, 8, 8, 0x0001 },
	rcv_data64 = { PORT_COUNTERS_EXT, 16, 8, 0x0002 },
	xmit_pkts64 = { PORT_COUNTERS_EXT, 24, 8, 0x0004 },
	rcv_pkts64 = { PORT_COUNTERS_EXT, 32, 8, 0x0008 },
	uni_rcv_pkts64 = { PORT_COUNTERS_EXT, 48, 8, 0x0020 };

static uint64_t field_get(const struct mad *m, const struct field *f)
{
	uint64_t v = 0;

	for (unsigned int i = 0; i < f->size; i++)
		v = v << 8 | m->data[f->at + i];
	return v;
}

static void field_put(struct mad *m, const struct field *f, uint64_t v)
{
	for (unsigned int i = f->size; i-- > 0; v >>= 8)
		m->data[f->at + i] = v;
}

static void put16(uint8_t *at, uint16_t v)
{
	at[0] = v >> 8;
	at[1] = v;
}

/* --- by the kernel's agent ---------------------------------------------------- */

static int umad = -1, agent;

static int umad_open(const struct end *e)
{
	char path[300], name[64];
	struct dirent *d;
	int fd = -1, in;
	ssize_t n;
	DIR *dir = opendir("/sys/class/infiniband_mad");

	while (dir && fd < 0 && (d = readdir(dir))) {
		if (strncmp(d->d_name, "umad", 4))
			continue;
		snprintf(path, sizeof(path), "/sys/class/infiniband_mad/%s/ibdev", d->d_name);
		in = open(path, O_RDONLY);
		n = in < 0 ? 0 : read(in, name, sizeof(name) - 1);
		close(in);
		name[max(n, 1) - 1] = 0;
		if (strcmp(name, e->name))
			continue;
		snprintf(path, sizeof(path), "/dev/infiniband/%s", d->d_name);
		fd = open(path, O_RDWR);
	}
	if (dir)
		closedir(dir);
	if (fd < 0)
		die("no /dev/infiniband/umad of %s: %s", e->name, strerror(errno));
	return fd;
}

/* Return: the agent's id, or -1 with errno */
static int umad_register(int fd, unsigned int qpn, unsigned int mgmt_class)
{
	struct ib_user_mad_reg_req req = {
		.qpn = qpn, .mgmt_class = mgmt_class, .mgmt_class_version = 1,
	};

	return ioctl(fd, IB_USER_MAD_REGISTER_AGENT, &req) ? -1 : (int)req.id;
}

static void with_umad(void (*fn)(void))
{
	umad = umad_open(&ea);
	if (ioctl(umad, IB_USER_MAD_ENABLE_PKEY))
		die("ENABLE_PKEY: %s", strerror(errno));
	agent = umad_register(umad, QP1, CLASS_PERF);
	if (agent < 0)
		die("REGISTER_AGENT: %s", strerror(errno));
	fn();
	close(umad);
}

/* Header and MAD as the device reads and writes them */
struct umad_mad {
	struct ib_user_mad_hdr hdr;
	struct mad mad;
};

/* Return: 0, or ETIMEDOUT if there is no answer within @ms */
static int ask(const struct mad *question, struct mad *answer, unsigned int ms)
{
	static uint32_t tid = 0x5eed;
	struct umad_mad m = {
		.hdr = {
			.id = agent, .timeout_ms = ms, .qpn = htobe32(QP1),
			.qkey = htobe32(QP1_QKEY), .grh_present = 1,
			.gid_index = ea.gid_index, .hop_limit = 64,
		},
		.mad = *question,
	};
	struct pollfd p = { .fd = umad, .events = POLLIN };

	memcpy(m.hdr.gid, &eb.gid, 16);
	m.mad.tid = htobe64(++tid);
	if (write(umad, &m, sizeof(m)) != sizeof(m))
		die("umad: write: %s", strerror(errno));
	/* of a question without an answer, the header comes back */
	if (poll(&p, 1, PATIENCE * 1000) != 1 ||
	    read(umad, &m, sizeof(m)) < (ssize_t)offsetof(struct umad_mad, mad.attr_id))
		die("umad: neither an answer nor a timeout");
	if ((uint32_t)be64toh(m.mad.tid) != tid)
		die("umad: an answer to something else");
	*answer = m.mad;
	return m.hdr.status;
}

static struct mad perf(uint8_t method, uint16_t attr)
{
	struct mad m = {
		.base_version = 1, .mgmt_class = CLASS_PERF, .class_version = 1,
		.method = method, .attr_id = htobe16(attr),
	};

	m.data[1] = 1;	/* PortSelect */
	return m;
}

/* A slow machine answers late; nothing gets lost. */
static struct mad told(const struct mad *question)
{
	struct mad m;

	if (ask(question, &m, PATIENCE * 500) || m.method != GET_RESP || m.status)
		die("attribute 0x%x: status 0x%x", be16toh(question->attr_id), be16toh(m.status));
	return m;
}

static uint64_t get(const struct field *f)
{
	struct mad m = perf(GET, f->attr);

	m = told(&m);
	return field_get(&m, f);
}

static struct mad set(const struct field *f, uint64_t v)
{
	struct mad m = perf(SET, f->attr);

	put16(m.data + 2, f->select);
	field_put(&m, f, v);
	return told(&m);
}

/* What the host itself shows of it, which sends nothing */
static long long sysfs(const struct end *e, const char *name)
{
	long long v = -1;
	char path[300];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/counters/%s", e->name, name);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%lld", &v) != 1)
		die("%s: %s", path, strerror(errno));
	fclose(f);
	return v;
}

/* --- by a queue pair of our own, which may send what it likes --------------------- */

static struct {
	struct ibv_cq *scq, *rcq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	uint8_t *buf;
} ud;

#define RECV_AT	8192

static void recv_post(void)
{
	struct ibv_recv_wr *bad, wr = {
		.sg_list = SGE(ud.buf + RECV_AT, GRH + MAD, ud.mr->lkey), .num_sge = 1,
	};

	errno = ibv_post_recv(ud.qp, &wr, &bad);
	if (errno)
		die("post_recv");
}

static void with_ud(void (*fn)(void))
{
	struct ibv_qp_init_attr ia = {
		.qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_ah_attr aa = {
		.is_global = 1, .port_num = 1,
		.grh = { .dgid = eb.gid, .sgid_index = ea.gid_index, .hop_limit = 64 },
	};

	ud.scq = ia.send_cq = cq_make(&ea, 16);
	ud.rcq = ia.recv_cq = cq_make(&ea, 16);
	ud.mr = mr_make(&ea, 16384, IBV_ACCESS_LOCAL_WRITE);
	ud.buf = ud.mr->addr;
	ud.qp = ibv_create_qp(ea.pd, &ia);
	ud.ah = ibv_create_ah(ea.pd, &aa);
	if (!ud.qp || !ud.ah)
		die("a UD queue pair");
	ud_ready(ud.qp, QP1_QKEY);
	recv_post();
	with_umad(fn);
	if (ibv_destroy_ah(ud.ah) || ibv_destroy_qp(ud.qp) || ibv_destroy_cq(ud.scq) ||
	    ibv_destroy_cq(ud.rcq))
		die("destroy");
	mr_drop(ud.mr);
}

static void ud_post(uint32_t qpn, uint32_t len)
{
	struct ibv_wc wc;

	errno = POST(ud.qp, .opcode = IBV_WR_SEND, .send_flags = SIG, .num_sge = 1,
		     .sg_list = SGE(ud.buf, len, ud.mr->lkey),
		     .wr.ud = { .ah = ud.ah, .remote_qpn = qpn, .remote_qkey = QP1_QKEY });
	if (errno || !cq_wait(ud.scq, &wc, PATIENCE) || wc.status)
		die("a datagram of %u bytes: %s", len, strerror(errno));
}

/* --- tests ---------------------------------------------------------------------- */

static void info(void)
{
	struct mad m = perf(GET, CLASS_PORT_INFO);

	m = told(&m);
	is(m.mgmt_class, CLASS_PERF, "the class");
	is(m.data[0], 1, "base version");
	is(m.data[1], 1, "class version");
	is(m.data[2] << 8 | m.data[3], 0x0300, "all ports together, and extended counters");
	between(m.data[7] & 0x1f, 1, 20, "a response time of some seconds at most");
}

/* WRITEs between two looks at counters */
static void counts(void)
{
	static const char * const names[] = {
		"port_xmit_packets", "port_xmit_data", "port_rcv_packets", "port_rcv_data",
		"unicast_xmit_packets", "unicast_rcv_packets",
		"multicast_xmit_packets", "multicast_rcv_packets", "port_rcv_errors",
		"port_xmit_discards", "link_downed",
	};
	static const char * const again[] = { "retransmitted_pkts", "tail_probes" };
	enum { XP, XD, RP, RD, UX, UR, MX, MR, RE, XDISC, DOWN, NUM };
	static const struct pair_opts po = {
		.sq = 8, .rq = 1, .sge = 1, .buf = 65536, .access = IBV_ACCESS_REMOTE_WRITE,
	};
	const uint32_t len = 60000;
	long long a[NUM], b[NUM], extra[2], more[2], pkts, bytes;
	struct ibv_wc wc;
	struct pair p;
	unsigned int i;

	pair_create(&p, &ea, &eb, &po);
	p.conn.access |= IBV_ACCESS_REMOTE_WRITE;
	pair_connect(&p);
	pkts = (len + mtu_bytes(p.conn.mtu) - 1) / mtu_bytes(p.conn.mtu);
	/* BTH and ICRC of each, RETH of the first */
	bytes = 5 * (len + pkts * (12 + 4) + 16);
	pkts *= 5;
	for (i = 0; i < NUM; i++) {
		a[i] = sysfs(&ea, names[i]);
		b[i] = sysfs(&eb, names[i]);
	}
	counters_read(&ea, again, 2, extra);
	for (i = 0; i < 5; i++) {
		pair_request(&p, IBV_WR_RDMA_WRITE, len);
		if (!cq_wait(p.scq[0], &wc, PATIENCE) || wc.status)
			die("WRITE");
	}
	pair_destroy(&p);
	counters_read(&ea, again, 2, more);
	for (i = 0; i < NUM; i++) {
		a[i] = sysfs(&ea, names[i]) - a[i];
		b[i] = sysfs(&eb, names[i]) - b[i];
	}

	if (more[0] == extra[0] && more[1] == extra[1]) {
		is(a[XP], pkts, "PortXmitPkts of the sender, exactly");
		is(a[XD], bytes / 4, "PortXmitData, from BTH to ICRC in units of 4 bytes");
	} else {
		ok(a[XP] >= pkts, "PortXmitPkts of the sender, some twice");
		ok(a[XD] >= bytes / 4, "PortXmitData");
	}
	is(b[RP], a[XP], "PortRcvPkts of the receiver: what was sent");
	is(b[RD], a[XD], "PortRcvData");
	ok(b[XP] >= 5, "acknowledgements count as well (%lld)", b[XP]);
	/* BTH, AETH, ICRC; without RETH or payload */
	ok(b[XD] >= b[XP] * (12 + 4 + 4) / 4, "and their data");
	is(a[RP], b[XP], "they arrive");
	is(a[RD], b[XD], "with their data");
	is(a[UX] + b[UX] + a[UR] + b[UR], a[XP] + b[XP] + a[RP] + b[RP], "all of it is unicast");
	is(a[MX] + b[MX] + a[MR] + b[MR], 0, "and not multicast");
	is(a[RE] + b[RE], 0, "PortRcvErrors: none");
	is(a[XDISC] + b[XDISC] + a[DOWN] + b[DOWN], 0, "nothing discarded, no link went down");
}

/* What a MAD tells is what sysfs shows, and its own packets come on top. */
static void remote(void)
{
	/* BTH, DETH, MAD, ICRC */
	const long long mad_words = (12 + 8 + MAD + 4) / 4;
	long long before, after, words, told_pkts, told_words;
	struct mad m = perf(GET, PORT_COUNTERS_EXT), short_ones = perf(GET, PORT_COUNTERS);

	before = sysfs(&eb, "port_rcv_packets");
	words = sysfs(&eb, "port_rcv_data");
	m = told(&m);
	told_pkts = field_get(&m, &rcv_pkts64);
	told_words = field_get(&m, &rcv_data64);
	after = sysfs(&eb, "port_rcv_packets");
	ok(told_pkts > before && told_pkts <= after, "PortRcvPkts: %lld, between %lld and %lld",
	   told_pkts, before, after);
	is(told_words - words, (told_pkts - before) * mad_words, "PortRcvData, with the question's");
	is(field_get(&m, &uni_rcv_pkts64), told_pkts, "PortUnicastRcvPkts, as many");
	between(field_get(&m, &xmit_pkts64), 1, sysfs(&eb, "port_xmit_packets"), "PortXmitPkts");
	between(field_get(&m, &xmit_data64), 1, sysfs(&eb, "port_xmit_data"), "PortXmitData");

	short_ones = told(&short_ones);
	ok(field_get(&short_ones, &rcv_pkts) > (uint64_t)told_pkts &&
	   field_get(&short_ones, &rcv_pkts) <= (uint64_t)sysfs(&eb, "port_rcv_packets"),
	   "PortCounters tells the same, in 32 bits");
	is(field_get(&short_ones, &rcv_errors), sysfs(&eb, "port_rcv_errors"), "PortRcvErrors");
	is(field_get(&short_ones, &link_downed), sysfs(&eb, "link_downed"), "LinkDownedCounter");
	m = perf(GET, PORT_COUNTERS);
	m.data[1] = 0xff;
	m = told(&m);
	is(m.data[1], 0xff, "PortSelect of all ports");
}

static void setting(void)
{
	const uint64_t last = UINT32_MAX;
	const long long shown = hw_counter(&eb, "tx_pkts");
	struct mad m;

	m = set(&rcv_data, last - 200);
	is(field_get(&m, &rcv_data), last - 200, "PortRcvData is set");
	is(get(&rcv_pkts), field_get(&m, &rcv_pkts) + 1, "others are left");
	is(get(&rcv_data), last - 200 + 2 * 70, "it counts on, 70 for a MAD");
	is(get(&rcv_data), last, "to its end, and stays there");
	is(get(&rcv_data), last, "for good");
	ok(get(&rcv_data64) > last, "PortCountersExtended has room for more");

	m = perf(SET, PORT_COUNTERS);
	put16(m.data + 2, 0xffff);
	m = told(&m);
	is(field_get(&m, &rcv_data), 0, "all are cleared: PortRcvData");
	is(field_get(&m, &xmit_pkts), 0, "PortXmitPkts");
	ok(get(&xmit_pkts) > 0 && get(&xmit_pkts) < 20, "and begin anew");
	ok(get(&xmit_data) > 0 && get(&xmit_data) < 20 * 70, "PortXmitData, too");
	set(&link_downed, 255);
	is(get(&link_downed), 255, "a counter of 8 bits");
	set(&link_downed, 0);
	set(&rcv_errors, 0x1234);
	is(get(&rcv_errors), 0x1234, "a counter of 16 bits");
	set(&rcv_errors, 0);
	set(&xmit_pkts64, 1ULL << 40);
	ok(get(&xmit_pkts64) > 1ULL << 40, "a counter of 64 bits");
	is(get(&xmit_pkts), last, "of which PortCounters has the 32-bit one");
	set(&xmit_pkts64, 0);
	ok(hw_counter(&eb, "tx_pkts") >= shown, "hw_counters are not for others to change");
}

static void refused(void)
{
	static const struct {
		const char *what;
		uint8_t class, version, method;
		uint16_t attr;
		uint32_t mod;
		uint8_t port;
		int want;	/* a status, or -1: silence */
	} cases[] = {
		{ "class version 2", CLASS_PERF, 2, GET, PORT_COUNTERS, 0, 1, BAD_VERSION },
		{ "a method it has not", CLASS_PERF, 1, REPORT, PORT_COUNTERS, 0, 1, BAD_METHOD },
		{ "nobody's method", CLASS_PERF, 1, 0x7f, PORT_COUNTERS, 0, 1, BAD_METHOD },
		{ "nobody's attribute", CLASS_PERF, 1, GET, 0xfff0, 0, 1, BAD_METHOD_ATTR },
		{ "samples", CLASS_PERF, 1, GET, SAMPLES_CONTROL, 0, 1, BAD_METHOD_ATTR },
		{ "Set of the class", CLASS_PERF, 1, SET, CLASS_PORT_INFO, 0, 1, BAD_METHOD_ATTR },
		{ "port 0", CLASS_PERF, 1, GET, PORT_COUNTERS, 0, 0, BAD_VALUE },
		{ "port 2", CLASS_PERF, 1, GET, PORT_COUNTERS_EXT, 0, 2, BAD_VALUE },
		{ "port 2, to be set", CLASS_PERF, 1, SET, PORT_COUNTERS, 0, 2, BAD_VALUE },
		{ "an attribute modifier", CLASS_PERF, 1, GET, PORT_COUNTERS, 1, 1, BAD_VALUE },
		/* these are ib_mad's to answer */
		{ "a class that is nobody's", CLASS_VENDOR, 1, GET, 1, 0, 1, BAD_METHOD_ATTR },
		{ "subnet management, which is QP0's", CLASS_SUBN, 1, GET, 0x11, 0, 1, -1 },
		{ "TrapRepress", CLASS_PERF, 1, TRAP_REPRESS, PORT_COUNTERS, 0, 1, -1 },
		{ "Trap", CLASS_PERF, 1, TRAP, PORT_COUNTERS, 0, 1, -1 },
		{ "Send", CLASS_PERF, 1, SEND, PORT_COUNTERS, 0, 1, -1 },
	};
	const uint64_t errors = get(&rcv_errors);

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		struct mad m = perf(cases[i].method, cases[i].attr);
		int err, ms = PATIENCE * 500;

		m.mgmt_class = cases[i].class;
		m.class_version = cases[i].version;
		m.attr_mod = htobe32(cases[i].mod);
		m.data[1] = cases[i].port;
		put16(m.data + 2, 0xffff);
		field_put(&m, &rcv_errors, errors + 7);
		if (cases[i].want < 0)
			ms = 500;
		err = ask(&m, &m, ms);
		if (cases[i].want < 0)
			is(err, ETIMEDOUT, "%s: no answer", cases[i].what);
		else
			ok(!err && be16toh(m.status) == cases[i].want, "%s: status 0x%x (%d, 0x%x)",
			   cases[i].what, cases[i].want, err, be16toh(m.status));
	}
	is(get(&rcv_errors), errors, "nothing was set by them");
}

/* QP1's number, the right Q_Key, and nonsense */
static void hostile(void)
{
	static const uint16_t lens[] = { 0, 1, 4, 23, 24, 63, 64, 67, 68, 255, 257, 512, 1024 };
	const struct mad question = perf(GET, PORT_COUNTERS);
	long long drops = hw_counter(&eb, "rx_unreliable_dropped");
	struct rng r = { .s = 6 };
	struct ibv_wc wc;
	unsigned int i, j;

	memcpy(ud.buf, &question, MAD);
	ud_post(QP1, MAD);
	ok(cq_wait(ud.rcq, &wc, PATIENCE) && !wc.status && wc.opcode == IBV_WC_RECV,
	   "a question from a queue pair like any other is answered");
	is(wc.byte_len, GRH + MAD, "with a MAD");
	is(wc.src_qp, QP1, "from QP1");
	recv_post();

	/*
	 * 13.4.2: they have 256 bytes. In a longer one the question would be complete, in a
	 * shorter one what is missing might be there from before.
	 */
	for (i = 0; i < ARRAY_SIZE(lens); i++)
		ud_post(QP1, lens[i]);
	/* sent is not received */
	wait_counter(&eb, "rx_unreliable_dropped", drops + ARRAY_SIZE(lens) - 1);
	is(hw_counter(&eb, "rx_unreliable_dropped") - drops, ARRAY_SIZE(lens),
	   "those of other lengths are dropped");
	ok(cq_quiet(ud.rcq, 0.5), "and not answered");

	/* Of all classes and methods; half of them with a header that makes sense so far */
	for (i = 0; i < 2000; i++) {
		for (j = 0; j < MAD; j++)
			ud.buf[j] = rng_next(&r);
		ud.buf[0] = 1;
		if (i % 2) {
			ud.buf[1] = CLASS_PERF;
			ud.buf[2] = 1;
			/* no Set(), which the tests that follow would see */
			ud.buf[3] = rng_in(&r, 0, 3) ? GET : (rng_next(&r) | 4);
			ud.buf[16] = 0;
			ud.buf[17] %= 0x20;
		}
		ud_post(QP1, MAD);
		while (ibv_poll_cq(ud.rcq, 1, &wc) > 0)
			recv_post();
	}
	while (cq_wait(ud.rcq, &wc, 1))
		recv_post();
	ok(get(&rcv_pkts64) > 2000, "2000 MADs at random, and it answers");
}

static void qp0(void)
{
	long long no_qp = hw_counter(&eb, "rx_no_qp");
	int fd = umad_open(&ea);

	ok(umad_register(fd, 0, CLASS_SUBN) < 0, "there is no agent for QP0");
	close(fd);
	ud_post(0, MAD);
	wait_counter(&eb, "rx_no_qp", no_qp);
	is(hw_counter(&eb, "rx_no_qp") - no_qp, 1, "there is no QP0 to send to");
}

/*
 * The links' QP1s have numbers of their own among all queue pairs, and were there first: to others
 * they are 1, where the address is looked at.
 */
static void own_number(void)
{
	const struct mad question = perf(GET, PORT_COUNTERS);
	const long long no_qp = hw_counter(&eb, "rx_no_qp");
	unsigned int qpn, sent = 0;
	struct ibv_wc wc;

	memcpy(ud.buf, &question, MAD);
	for (qpn = QP1 + 1; qpn < QP1 + 8; qpn++) {
		if (qpn == ud.qp->qp_num)
			continue;
		ud_post(qpn, MAD);
		sent++;
	}
	wait_counter(&eb, "rx_no_qp", no_qp + sent - 1);
	is(hw_counter(&eb, "rx_no_qp") - no_qp, sent, "a question to numbers that nobody was told");
	ok(cq_quiet(ud.rcq, 0.5), "is not answered");
	ud_post(QP1, MAD);
	ok(cq_wait(ud.rcq, &wc, PATIENCE) && !wc.status && wc.src_qp == QP1, "to QP1, it is");
	recv_post();
}

static const struct test tests[] = {
	TEST(info, .with = with_umad),
	TEST(counts),
	TEST(remote, .with = with_umad),
	TEST(setting, .with = with_umad),
	TEST(refused, .with = with_umad),
	TEST(hostile, .with = with_ud),
	TEST(qp0, .with = with_ud),
	TEST(own_number, .with = with_ud),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
