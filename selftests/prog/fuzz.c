// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Programs that do what none should: calls with any argument, in any order, from several
 * threads; rings that are scribbled over while they are in use; mappings of what is not there;
 * objects that go while they are used; a program that is killed in the middle of it. And one of
 * another user, that knows every number of another's. None of it may be felt but by who does it:
 * the test that runs this has others beside it.
 *
 * FUZZ_SECONDS of it (10), from SEED (the time).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "common.h"
#include "../../include/uapi/rdma/sroce-abi.h"

static struct end ea, eb;

static unsigned long long env(const char *name, unsigned long long without)
{
	const char *s = getenv(name);

	return s && *s ? strtoull(s, NULL, 0) : without;
}

/* --- any call ---------------------- */

/* What has been made, by the numbers that the kernel gave. Threads share it, and nobody cares. */
enum kind { PD, CQ, QP, SRQ, MR, MW, AH, XRCD, WQ, TABLE, DM, LKEY, QPN, AV, KINDS };

#define KNOWN 16
static uint32_t known[KINDS][KNOWN];
static unsigned int num_known[KINDS];

static struct map {
	uint8_t *at;
	size_t len;
	enum kind kind;
	bool receives;
	uint32_t qpn;
	uint32_t entries, entry_size;
} maps[24];

static struct {
	int fd;
	union ibv_gid gid;
	uint8_t gid_index;
	uint8_t *mem;		/* 64 pages of it */
} self;

#define MEM (64 * 4096)

static __thread struct rng rng;
/* what is done is meant to succeed */
static __thread bool straight;
/* Of all processes */
static struct {
	unsigned long long calls, accepted;
} *sum;

static uint32_t pick(uint32_t n)
{
	return rng_next(&rng) % n;
}

static uint32_t number(enum kind kind)
{
	const uint32_t num = min(num_known[kind], KNOWN);

	if (!num || (!straight && !pick(24)))
		return pick(2) ? pick(64) : (uint32_t)rng_next(&rng);
	/* keys are good in one domain alone: most are of the first */
	return known[kind][(kind == PD || kind == LKEY) && pick(8) ? 0 : pick(num)];
}

/* Return: where */
static unsigned int know(enum kind kind, uint32_t number)
{
	const unsigned int i = num_known[kind] < KNOWN ? num_known[kind]++ % KNOWN : pick(KNOWN);

	known[kind][i] = number;
	return i;
}

static uint32_t odd_number(void)
{
	static const uint32_t odd[] = { 0, 1, 2, 3, 4, 16, 31, 32, 33, 255, 4096, 16384, 16385, 65536,
					0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff };

	return odd[pick(ARRAY_SIZE(odd))];
}

/* Mostly what makes sense */
static uint32_t about(uint32_t most)
{
	return straight || pick(32) ? pick(most + 1) : odd_number();
}

static void *any_address(void)
{
	switch (pick(8)) {
	case 0: return NULL;
	case 1: return (void *)~0UL;
	case 2: return (void *)0xffff888000000000UL;
	case 3: return maps[pick(ARRAY_SIZE(maps))].at;
	default: return self.mem + pick(MEM - 4096);
	}
}

/* A command by write(): what is sent and what may be answered are a little wrong now and then. */
static bool cmd(uint32_t command, void *in, size_t len, void *resp, size_t resp_len)
{
	uint8_t buf[1024];
	struct ib_uverbs_cmd_hdr hdr = {
		.command = command,
		.in_words = (sizeof(hdr) + len) / 4,
		.out_words = resp_len / 4,
	};
	size_t n = sizeof(hdr) + len;

	if (resp_len)
		*(uint64_t *)in = (uintptr_t)(straight || pick(64) ? resp : any_address());
	if (!straight && !pick(16))
		((uint8_t *)in)[8 + pick(max(len, 9U) - 8)] ^= 1 << pick(8);
	if (!straight && !pick(32))
		hdr.in_words += pick(9) - 4;
	if (!straight && !pick(32))
		hdr.out_words += pick(17) - 8;
	memset(buf, straight || pick(8) ? 0 : 0xff, sizeof(buf));
	memcpy(buf, &hdr, sizeof(hdr));
	memcpy(buf + sizeof(hdr), in, len);
	if (!straight && !pick(32))
		n = 4 * hdr.in_words;
	memset(resp, 0, resp_len);
	sum->calls++;
	if (write(self.fd, buf, min(n, sizeof(buf))) < 0)
		return false;
	sum->accepted++;
	return true;
}

#define CMD(command, in, resp) \
	cmd(IB_USER_VERBS_CMD_##command, &(in), sizeof(in), &(resp), sizeof(resp))

/* One with the longer header, whose words are of eight bytes; the provider's come behind the core's. */
static bool excmd(uint32_t command, const void *in, size_t len, void *resp, size_t core_len,
		  size_t resp_len)
{
	uint8_t buf[1024];
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_ex_cmd_hdr ex;
	} h = {
		.hdr = {
			.command = 0x80000000 | command,
			.in_words = len / 8,
			.out_words = core_len / 8,
		},
		.ex = {
			.response = (uintptr_t)(straight || pick(64) ? resp : any_address()),
			.provider_out_words = (resp_len - core_len) / 8,
		},
	};

	if (!straight && !pick(32))
		h.hdr.in_words += pick(5) - 2;
	if (!straight && !pick(32))
		h.ex.provider_out_words += pick(9) - 4;
	memset(buf, 0, sizeof(buf));
	memcpy(buf, &h, sizeof(h));
	memcpy(buf + sizeof(h), in, len);
	if (!straight && !pick(16))
		buf[sizeof(h) + pick(len)] ^= 1 << pick(8);
	memset(resp, 0, resp_len);
	sum->calls++;
	if (write(self.fd, buf, sizeof(h) + h.hdr.in_words * 8) < 0)
		return false;
	sum->accepted++;
	return true;
}

/* @resp has the core's answer first, as .core */
#define EXCMD(command, in, resp) \
	excmd(IB_USER_VERBS_EX_CMD_##command, &(in), sizeof(in), &(resp), sizeof((resp).core), \
	      sizeof(resp))

static uint8_t nothing[64];
#define CMD_ONLY(command, in) cmd(IB_USER_VERBS_CMD_##command, &(in), sizeof(in), nothing, 0)

static void take_map(const struct sroce_ring_map *r, enum kind kind, bool receives, uint32_t qpn)
{
	struct map *m = &maps[pick(ARRAY_SIZE(maps))];
	void *at;

	if (!r->size)
		return;
	at = mmap(NULL, r->size, PROT_READ | PROT_WRITE, pick(16) ? MAP_SHARED : MAP_PRIVATE, self.fd,
		  r->offset);
	if (at == MAP_FAILED)
		return;
	/* twice, as well */
	if (pick(8) && m->at)
		munmap(m->at, m->len);
	*m = (struct map) { at, r->size, kind, receives, qpn, r->entries, r->entry_size };
}

static void create_pd(void)
{
	struct ib_uverbs_alloc_pd in = {};
	struct { uint32_t handle, pad; } resp;

	if (CMD(ALLOC_PD, in, resp))
		know(PD, resp.handle);
}

static void create_cq(void)
{
	struct ib_uverbs_create_cq in = { .cqe = about(512), .comp_channel = -1 };
	struct {
		struct ib_uverbs_create_cq_resp core;
		struct sroce_create_cq_resp ours;
	} resp;

	if (!CMD(CREATE_CQ, in, resp))
		return;
	know(CQ, resp.core.cq_handle);
	take_map(&resp.ours.cq, CQ, false, 0);
}

static void resize_cq(void)
{
	struct ib_uverbs_resize_cq in = { .cq_handle = number(CQ), .cqe = about(512) };
	struct {
		struct ib_uverbs_resize_cq_resp core;
		struct sroce_resize_cq_resp ours;
	} resp;

	if (CMD(RESIZE_CQ, in, resp))
		take_map(&resp.ours.cq, CQ, false, 0);
}

static void create_qp(void)
{
	static const uint8_t types[] = { IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC,
					 IBV_QPT_UD, IBV_QPT_RAW_PACKET, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV, 1, 255 };
	struct ib_uverbs_create_qp in = {
		.pd_handle = number(pick(16) ? PD : XRCD),
		.send_cq_handle = number(CQ),
		.recv_cq_handle = number(CQ),
		.srq_handle = number(SRQ),
		.max_send_wr = 1 + about(64), .max_recv_wr = 1 + about(64),
		.max_send_sge = 4, .max_recv_sge = about(4),
		.max_inline_data = about(128),
		.sq_sig_all = pick(2),
		.qp_type = types[pick(ARRAY_SIZE(types))],
		.is_srq = !pick(4),
	};
	struct {
		struct ib_uverbs_create_qp_resp core;
		struct sroce_create_qp_resp ours;
	} resp;

	if (!CMD(CREATE_QP, in, resp))
		return;
	known[QPN][know(QP, resp.core.qp_handle)] = resp.core.qpn;
	num_known[QPN] = num_known[QP];
	take_map(&resp.ours.sq, QP, false, resp.core.qpn);
	take_map(&resp.ours.rq, QP, true, resp.core.qpn);
}

static void create_wq(void)
{
	struct ib_uverbs_ex_create_wq in = {
		.pd_handle = number(PD), .cq_handle = number(CQ), .max_wr = 1 + about(64),
		.max_sge = 1 + about(3),
	};
	struct {
		struct ib_uverbs_ex_create_wq_resp core;
		struct sroce_create_wq_resp ours;
	} resp;

	if (!EXCMD(CREATE_WQ, in, resp))
		return;
	know(WQ, resp.core.wq_handle);
	take_map(&resp.ours.rq, WQ, true, resp.core.wqn);
}

/*
 * With a state that is none, the core loses a reference, and warns of it at the end
 * (ib_uverbs_ex_modify_wq(), 7.2 as well).
 */
static void modify_wq(void)
{
	struct ib_uverbs_ex_modify_wq in = {
		.attr_mask = pick(4), .wq_handle = number(WQ), .wq_state = pick(3),
		.curr_wq_state = pick(3),
	};
	struct { uint64_t core; } resp;
	const bool was = straight;

	straight = true;
	EXCMD(MODIFY_WQ, in, resp);
	straight = was;
}

static void create_table(void)
{
	struct {
		struct ib_uverbs_ex_create_rwq_ind_table core;
		uint32_t wq[4];
	} in = { .core.log_ind_tbl_size = 1 + pick(2) };
	const unsigned int num = 1 << in.core.log_ind_tbl_size;
	struct { struct ib_uverbs_ex_create_rwq_ind_table_resp core; } resp;

	/* what is behind them is to be zero */
	for (unsigned int i = 0; i < num; i++)
		in.wq[i] = number(WQ);
	if (EXCMD(CREATE_RWQ_IND_TBL, in, resp))
		know(TABLE, resp.core.ind_tbl_handle);
}

/* Of any type, over a table. Return: whether it was made. */
static bool create_over(uint8_t type, uint32_t table, uint32_t depth)
{
	struct ib_uverbs_ex_create_qp in = {
		.pd_handle = number(PD), .send_cq_handle = number(CQ), .recv_cq_handle = number(CQ),
		.max_send_wr = depth, .max_send_sge = depth, .qp_type = type,
		.comp_mask = IB_UVERBS_CREATE_QP_MASK_IND_TABLE, .rwq_ind_tbl_handle = table,
	};
	struct {
		struct ib_uverbs_ex_create_qp_resp core;
		struct sroce_create_qp_resp ours;
	} resp;

	if (!EXCMD(CREATE_QP, in, resp))
		return false;
	known[QPN][know(QP, resp.core.base.qp_handle)] = resp.core.base.qpn;
	num_known[QPN] = num_known[QP];
	take_map(&resp.ours.sq, QP, false, resp.core.base.qpn);
	take_map(&resp.ours.rq, QP, true, resp.core.base.qpn);
	return true;
}

static void create_any_over(void)
{
	static const uint8_t types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_RAW_PACKET,
					 IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV };

	create_over(types[pick(ARRAY_SIZE(types))], number(TABLE), pick(4));
}

static void destroy_ex(void)
{
	struct ib_uverbs_ex_destroy_wq wq = { .wq_handle = number(WQ) };
	struct { struct ib_uverbs_ex_destroy_wq_resp core; } resp;
	struct ib_uverbs_ex_destroy_rwq_ind_table table = { .ind_tbl_handle = number(TABLE) };
	struct { uint64_t core; } none;

	if (pick(2))
		EXCMD(DESTROY_WQ, wq, resp);
	else
		EXCMD(DESTROY_RWQ_IND_TBL, table, none);
}

static void create_srq(void)
{
	struct ib_uverbs_create_srq in = {
		.pd_handle = number(PD), .max_wr = about(64), .max_sge = about(4),
		.srq_limit = about(8),
	};
	struct {
		struct ib_uverbs_create_srq_resp core;
		struct sroce_create_srq_resp ours;
	} resp;

	if (!CMD(CREATE_SRQ, in, resp))
		return;
	know(SRQ, resp.core.srq_handle);
	take_map(&resp.ours.srq, SRQ, true, 0);
}

static void create_xsrq(void)
{
	struct ib_uverbs_create_xsrq in = {
		.srq_type = pick(4), .pd_handle = number(PD), .max_wr = about(64),
		.max_sge = about(4), .max_num_tags = about(16), .xrcd_handle = number(XRCD),
		.cq_handle = number(CQ),
	};
	struct {
		struct ib_uverbs_create_srq_resp core;
		struct sroce_create_srq_resp ours;
	} resp;

	if (!CMD(CREATE_XSRQ, in, resp))
		return;
	know(SRQ, resp.core.srq_handle);
	take_map(&resp.ours.srq, SRQ, true, 0);
}

static void modify_srq(void)
{
	struct {
		struct ib_uverbs_modify_srq core;
		struct sroce_modify_srq ours;
	} in = {};
	struct sroce_create_srq_resp resp = {};

	in.core.srq_handle = number(SRQ);
	in.core.attr_mask = about(3);
	in.core.max_wr = about(64);
	in.core.srq_limit = about(8);
	in.ours.resp_addr = (uintptr_t)(pick(8) ? &resp : any_address());
	/* it has no room for an answer in front */
	if (cmd(IB_USER_VERBS_CMD_MODIFY_SRQ, &in, sizeof(in), nothing, 0))
		take_map(&resp.srq, SRQ, true, 0);
}

static void reg_mr(void)
{
	const uint64_t at = pick(16) ? (uintptr_t)self.mem + pick(MEM) : (uintptr_t)any_address();
	struct ib_uverbs_reg_mr in = {
		.start = at, .hca_va = pick(8) ? at : rng_next(&rng), .length = pick(32) ? pick(MEM) :
			 rng_next(&rng),
		.pd_handle = number(PD), .access_flags = pick(8) ? pick(256) : odd_number(),
	};
	struct ib_uverbs_reg_mr_resp resp;

	/* one of all there is, mostly */
	if (pick(4)) {
		in.start = in.hca_va = (uintptr_t)self.mem;
		in.length = MEM;
		in.access_flags = 0xf;
	}
	/* the core wants the same place in a page */
	if (pick(8))
		in.hca_va = (in.hca_va & ~4095ULL) | (at & 4095);
	if (!CMD(REG_MR, in, resp))
		return;
	know(MR, resp.mr_handle);
	know(LKEY, resp.lkey);
}

static void rereg_mr(void)
{
	const uint64_t at = (uintptr_t)self.mem + pick(MEM);
	struct ib_uverbs_rereg_mr in = {
		.mr_handle = number(MR), .flags = about(7), .start = at, .length = pick(MEM),
		.hca_va = at, .pd_handle = number(PD), .access_flags = pick(256),
	};
	struct ib_uverbs_rereg_mr_resp resp;

	if (CMD(REREG_MR, in, resp))
		know(LKEY, resp.lkey);
}

static void alloc_mw(void)
{
	struct ib_uverbs_alloc_mw in = { .pd_handle = number(PD), .mw_type = about(2) };
	struct ib_uverbs_alloc_mw_resp resp;

	if (!CMD(ALLOC_MW, in, resp))
		return;
	know(MW, resp.mw_handle);
	know(LKEY, resp.rkey);
}

static void create_ah(void)
{
	struct ib_uverbs_create_ah in = {
		.pd_handle = number(PD),
		.attr = { .is_global = 1, .port_num = 1,
			  .grh = { .sgid_index = pick(8) ? self.gid_index : pick(256),
				   .hop_limit = 64 } },
	};
	struct {
		uint32_t handle;
		struct sroce_create_ah_resp ours;
		uint32_t pad;
	} resp;

	memcpy(in.attr.grh.dgid, &self.gid, 16);
	if (!CMD(CREATE_AH, in, resp))
		return;
	know(AH, resp.handle);
	know(AV, resp.ours.ah);
}

static void open_xrcd(void)
{
	struct ib_uverbs_open_xrcd in = { .fd = -1, .oflags = pick(2) ? O_CREAT : pick(256) };
	struct { uint32_t handle, pad; } resp;

	if (CMD(OPEN_XRCD, in, resp))
		know(XRCD, resp.handle);
}

/* A state with all that it takes, or with anything */
static void modify_to(uint32_t handle, uint8_t state, uint32_t qpn)
{
	static const uint32_t masks[] = {
		[IBV_QPS_RESET] = IBV_QP_STATE,
		[IBV_QPS_INIT] = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		[IBV_QPS_RTR] = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		[IBV_QPS_RTS] = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
		[IBV_QPS_SQD] = IBV_QP_STATE, [IBV_QPS_SQE] = IBV_QP_STATE, [IBV_QPS_ERR] = IBV_QP_STATE,
	};
	struct ib_uverbs_modify_qp in = {
		.qp_handle = handle, .attr_mask = masks[state % ARRAY_SIZE(masks)],
		.qp_state = state, .port_num = 1, .qp_access_flags = straight || pick(8) ? 0xf : pick(512),
		.path_mtu = straight || pick(8) ? IBV_MTU_1024 : pick(8), .dest_qp_num = qpn,
		.max_rd_atomic = straight ? 8 : about(8),
		.max_dest_rd_atomic = straight ? 8 : about(8), .min_rnr_timer = pick(16),
		.timeout = about(14), .retry_cnt = about(7), .rnr_retry = about(7), .qkey = pick(4),
		.dest = { .is_global = 1, .port_num = 1, .sgid_index = self.gid_index,
			  .hop_limit = 64 },
	};

	memcpy(in.dest.dgid, &self.gid, 16);
	if (!straight && !pick(8))
		in.attr_mask ^= 1U << pick(26);
	if (!straight && !pick(32))
		in.attr_mask = rng_next(&rng);
	CMD_ONLY(MODIFY_QP, in);
}

static void modify_qp(void)
{
	modify_to(number(QP), pick(8), number(QPN));
}

/* So that something goes on */
static void connect_qp(void)
{
	const unsigned int i = pick(max(min(num_known[QP], KNOWN), 1U));
	/* mostly with itself: who answers is who was asked */
	const uint32_t qpn = pick(4) ? known[QPN][i] : number(QPN);

	straight = pick(4);
	modify_to(known[QP][i], IBV_QPS_RESET, 0);
	for (uint8_t state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++)
		modify_to(known[QP][i], state, qpn);
	straight = false;
}

static void query_qp(void)
{
	struct ib_uverbs_query_qp in = { .qp_handle = number(QP), .attr_mask = rng_next(&rng) };
	struct ib_uverbs_query_qp_resp resp;

	CMD(QUERY_QP, in, resp);
}

static void attach(void)
{
	struct ib_uverbs_attach_mcast in = { .qp_handle = number(QP) };
	const uint8_t gid[16] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 224, 0, 1, pick(8) };

	memcpy(in.gid, gid, 16);
	if (pick(3))
		CMD_ONLY(ATTACH_MCAST, in);
	else
		CMD_ONLY(DETACH_MCAST, in);
}

/* The first word of what is only a handle */
static void destroy(void)
{
	static const struct { uint32_t command; enum kind kind; bool answers; } how[] = {
		{ IB_USER_VERBS_CMD_DEALLOC_PD, PD, false },
		{ IB_USER_VERBS_CMD_DESTROY_CQ, CQ, true },
		{ IB_USER_VERBS_CMD_DESTROY_QP, QP, true },
		{ IB_USER_VERBS_CMD_DESTROY_QP, QP, true },
		{ IB_USER_VERBS_CMD_DESTROY_SRQ, SRQ, true },
		{ IB_USER_VERBS_CMD_DEREG_MR, MR, false },
		{ IB_USER_VERBS_CMD_DEALLOC_MW, MW, false },
		{ IB_USER_VERBS_CMD_DESTROY_AH, AH, false },
		{ IB_USER_VERBS_CMD_CLOSE_XRCD, XRCD, false },
	};
	const unsigned int i = pick(ARRAY_SIZE(how));
	struct { uint64_t response; uint32_t handle, reserved; } in = { .handle = number(how[i].kind) };
	uint32_t alone = in.handle, resp[2];

	if (how[i].answers)
		cmd(how[i].command, &in, sizeof(in), resp, sizeof(resp));
	else
		cmd(how[i].command, &alone, sizeof(alone), nothing, 0);
}

/* --- calls by attributes ---------------------- */

struct call {
	struct ib_uverbs_ioctl_hdr hdr;
	struct ib_uverbs_attr attr[16];
};

static bool call(struct call *c, uint16_t object, uint16_t method)
{
	c->hdr.length = sizeof(c->hdr) + c->hdr.num_attrs * sizeof(c->attr[0]);
	c->hdr.object_id = object;
	c->hdr.method_id = method;
	c->hdr.driver_id = pick(16) ? SROCE_DRIVER_ID : pick(32);
	if (!pick(8) && c->hdr.num_attrs)
		c->attr[pick(c->hdr.num_attrs)].len += pick(17) - 8;
	if (!pick(16) && c->hdr.num_attrs)
		c->attr[pick(c->hdr.num_attrs)].data = pick(2) ? rng_next(&rng) : (uintptr_t)any_address();
	if (!pick(32))
		c->hdr.length += pick(64);
	sum->calls++;
	if (ioctl(self.fd, _IOWR(0x1b, 1, struct ib_uverbs_ioctl_hdr), &c->hdr))
		return false;
	sum->accepted++;
	return true;
}

static void attr(struct call *c, uint16_t id, const void *p, uint16_t len)
{
	c->attr[c->hdr.num_attrs++] = (struct ib_uverbs_attr) {
		.attr_id = id, .len = len, .flags = UVERBS_ATTR_F_MANDATORY, .data = (uintptr_t)p,
	};
}

static void attr_number(struct call *c, uint16_t id, uint64_t number)
{
	attr(c, id, NULL, 0);
	c->attr[c->hdr.num_attrs - 1].data = number;
}

static void attr_inline(struct call *c, uint16_t id, uint64_t value, uint16_t len)
{
	attr_number(c, id, value);
	c->attr[c->hdr.num_attrs - 1].len = len;
}

static void ring(const struct sroce_doorbell *db)
{
	struct call c = {};
	uint64_t value;

	memcpy(&value, db, sizeof(value));
	attr_inline(&c, SROCE_ATTR_DOORBELL, value, sizeof(*db));
	call(&c, UVERBS_OBJECT_DEVICE, SROCE_METHOD_DOORBELL);
}

static void doorbell(void)
{
	struct sroce_doorbell db = {
		.qp_num = pick(4) ? number(QPN) : pick(2) ? SROCE_DOORBELL_BELLS : SROCE_DOORBELL_POLLS,
	};

	ring(&db);
}

/* --- rings ---------------------- */

static struct sroce_sge any_sge(void)
{
	return (struct sroce_sge) {
		.addr = (uintptr_t)self.mem + pick(MEM), .length = pick(16) ? pick(5000) : odd_number(),
		.lkey = pick(16) ? number(LKEY) : pick(4),
	};
}

static void put_send(struct sroce_ring *ring, uint32_t mask)
{
	uint8_t *entries = (uint8_t *)(ring + 1);
	union {
		struct sroce_send_wqe wqe;
		struct sroce_sge sge[4 + 3];
		uint8_t b[128];
	} u = {};

	for (size_t i = 0; i < sizeof(u) / 8; i++)
		((uint64_t *)u.b)[i] = pick(4) ? 0 : rng_next(&rng);
	u.wqe.opcode = pick(16) ? pick(16) : pick(256);
	u.wqe.num_blocks = pick(16) ? 2 : pick(12);
	u.wqe.flags = pick(16) ? pick(8) : pick(256);
	u.wqe.num_sge = u.wqe.flags & SROCE_WQE_INLINE ? 0 : pick(16) ? pick(5) : pick(256);
	u.wqe.reserved = pick(64) ? 0 : 1;
	u.wqe.inline_len = u.wqe.flags & SROCE_WQE_INLINE ? about(80) : 0;
	u.wqe.rkey = number(LKEY);
	u.wqe.remote_addr = (uintptr_t)self.mem + pick(MEM);
	if (!pick(4)) {
		u.wqe.ah = number(AV);
		u.wqe.remote_qpn = number(QPN);
		u.wqe.remote_qkey = pick(4);
	}
	for (int i = 0; i < 4; i++)
		u.sge[3 + i] = any_sge();
	for (uint32_t i = 0; i < 2; i++)
		memcpy(entries + ((ring->prod + i) & mask) * SROCE_SQ_BLOCK, u.b + i * SROCE_SQ_BLOCK,
		       SROCE_SQ_BLOCK);
	__atomic_store_n(&ring->prod, ring->prod + u.wqe.num_blocks, __ATOMIC_RELEASE);
}

static void put_recv(struct sroce_ring *ring, const struct map *m)
{
	struct sroce_recv_wqe *wqe = (void *)((uint8_t *)(ring + 1) +
					      (ring->prod & (m->entries - 1)) * m->entry_size);

	wqe->wr_id = rng_next(&rng);
	wqe->num_sge = about(2);
	wqe->reserved = !pick(32);
	wqe->sge[0] = any_sge();
	if (m->entry_size >= sizeof(*wqe) + 2 * sizeof(wqe->sge[0]))
		wqe->sge[1] = any_sge();
	__atomic_store_n(&ring->prod, ring->prod + 1, __ATOMIC_RELEASE);
}

/* Requests as a program might post them, with anything in them */
static void post(void)
{
	const struct map m = maps[pick(ARRAY_SIZE(maps))];
	struct sroce_doorbell db = { .qp_num = m.qpn };

	if (!m.at || m.kind == CQ || !m.entries)
		return;
	if (m.receives) {
		put_recv((void *)m.at, &m);
		return;
	}
	put_send((void *)m.at, m.entries - 1);
	ring(&db);
}

/* Over indices and flags mostly, as the rest is checked more easily */
static void scribble(void)
{
	const struct map m = maps[pick(ARRAY_SIZE(maps))];
	uint32_t *word;

	if (!m.at)
		return;
	word = (uint32_t *)(m.at + 4 * pick((pick(2) ? sizeof(struct sroce_ring) : m.len) / 4));
	if (pick(2))
		*(volatile uint32_t *)word += pick(9) - 4;
	else
		*(volatile uint32_t *)word = pick(2) ? odd_number() : rng_next(&rng);
}

/* Mappings that are not there, are there already, or are cut in two */
static void map_anything(void)
{
	const size_t len = 4096UL * (pick(16) ? 1 + pick(8) : odd_number());
	const off_t off = 4096LL * (pick(8) ? pick(512) : (off_t)odd_number());
	struct map *m = &maps[pick(ARRAY_SIZE(maps))];
	void *at;

	switch (pick(6)) {
	case 0: case 1: case 2:
		at = mmap(NULL, len, pick(8) + !pick(8), pick(8) ? MAP_SHARED : MAP_PRIVATE, self.fd, off);
		if (at != MAP_FAILED)
			munmap(at, len);
		break;
	case 3:
		if (m->at)
			mremap(m->at, m->len, m->len * 2, MREMAP_MAYMOVE);
		break;
	case 4:
		if (m->at)
			madvise(m->at, m->len, pick(26));
		break;
	case 5:
		if (m->at && m->len > 4096)
			mprotect(m->at, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
		break;
	}
}

/* --- what they are for ---------------------- */

static void tag_op(void)
{
	struct {
		struct sroce_tm_op op;
		struct sroce_sge sge[4];
	} in = { .op = {
		.tag = pick(4), .mask = pick(4), .handle = pick(16), .opcode = about(2),
		.flags = about(3), .num_sge = about(4), .unexpected_cnt = pick(4),
	} };
	struct call c = {};
	uint32_t handle;

	for (int i = 0; i < 4; i++)
		in.sge[i] = any_sge();
	attr_number(&c, SROCE_ATTR_TM_OP_HANDLE, number(SRQ));
	attr(&c, SROCE_ATTR_TM_OP_CMD, &in, sizeof(in.op) + 16 * (in.op.num_sge & 7));
	attr(&c, SROCE_ATTR_TM_OP_RESP, &handle, sizeof(handle));
	call(&c, UVERBS_OBJECT_SRQ, SROCE_METHOD_TM_OP);
}

static void dm_alloc(void)
{
	struct call c = {};

	attr_number(&c, UVERBS_ATTR_ALLOC_DM_HANDLE, 0);
	attr_inline(&c, UVERBS_ATTR_ALLOC_DM_LENGTH, about(16384), 8);
	attr_inline(&c, UVERBS_ATTR_ALLOC_DM_ALIGNMENT, about(12), 4);
	if (call(&c, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC))
		know(DM, c.attr[0].data);
}

static void dm_use(void)
{
	struct sroce_dm_query_resp resp = {};
	struct sroce_ring_map map = {};
	uint32_t lkey = 0, rkey = 0;
	struct call c = {};

	switch (pick(3)) {
	case 0:
		attr_number(&c, SROCE_ATTR_DM_QUERY_HANDLE, number(DM));
		attr(&c, SROCE_ATTR_DM_QUERY_RESP, &resp, sizeof(resp));
		if (call(&c, UVERBS_OBJECT_DM, SROCE_METHOD_DM_QUERY)) {
			map.offset = resp.offset;
			map.size = resp.length;
			take_map(&map, CQ, false, 0);
		}
		break;
	case 1:
		attr_number(&c, UVERBS_ATTR_FREE_DM_HANDLE, number(DM));
		call(&c, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE);
		break;
	case 2:
		attr_number(&c, UVERBS_ATTR_REG_DM_MR_HANDLE, 0);
		attr_inline(&c, UVERBS_ATTR_REG_DM_MR_OFFSET, about(8192), 8);
		attr_inline(&c, UVERBS_ATTR_REG_DM_MR_LENGTH, about(8192), 8);
		attr_number(&c, UVERBS_ATTR_REG_DM_MR_PD_HANDLE, number(PD));
		attr_inline(&c, UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, (1 << 5) | pick(16), 4);
		attr_number(&c, UVERBS_ATTR_REG_DM_MR_DM_HANDLE, number(DM));
		attr(&c, UVERBS_ATTR_REG_DM_MR_RESP_LKEY, &lkey, 4);
		attr(&c, UVERBS_ATTR_REG_DM_MR_RESP_RKEY, &rkey, 4);
		if (call(&c, UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG)) {
			know(MR, c.attr[0].data);
			know(LKEY, lkey);
		}
		break;
	}
}

static void advise(void)
{
	struct ibv_sge sge[2];
	struct call c = {};

	for (int i = 0; i < 2; i++)
		memcpy(&sge[i], &(struct sroce_sge[1]) { any_sge() }, sizeof(sge[i]));
	attr_number(&c, UVERBS_ATTR_ADVISE_MR_PD_HANDLE, number(PD));
	attr_inline(&c, UVERBS_ATTR_ADVISE_MR_ADVICE, pick(4), 4);
	attr_inline(&c, UVERBS_ATTR_ADVISE_MR_FLAGS, pick(2), 4);
	attr(&c, UVERBS_ATTR_ADVISE_MR_SGE_LIST, sge, sizeof(sge));
	call(&c, UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR);
}

/* Whatever there may be */
static void any_call(void)
{
	static __thread uint8_t buf[256];
	const uint16_t own = pick(8) ? 0 : 1 << UVERBS_ID_NS_SHIFT;
	struct call c = {};
	unsigned int n = pick(10);

	for (unsigned int i = 0; i < n; i++) {
		attr(&c, (pick(8) ? i : pick(20)) | (pick(8) ? 0 : 1 << UVERBS_ID_NS_SHIFT), buf, pick(65));
		c.attr[i].flags = pick(4);
		if (pick(2))
			c.attr[i].data = pick(2) ? number(pick(KINDS)) : rng_next(&rng);
	}
	for (unsigned int i = 0; i < sizeof(buf) / 4; i++)
		((uint32_t *)buf)[i] = pick(2) ? number(pick(KINDS)) : odd_number();
	call(&c, pick(18), pick(14) | own);
}

/* Commands, and those with a longer header, of which not a word is ours */
static void any_command(void)
{
	uint32_t buf[64];
	struct ib_uverbs_cmd_hdr *hdr = (void *)buf;
	struct ib_uverbs_ex_cmd_hdr *ex = (void *)(hdr + 1);
	const unsigned int words = 2 + pick(60);

	for (unsigned int i = 0; i < ARRAY_SIZE(buf); i++)
		buf[i] = pick(2) ? number(pick(KINDS)) : pick(2) ? odd_number() : pick(8);
	hdr->command = pick(64);
	hdr->in_words = words;
	hdr->out_words = pick(64);
	*(uint64_t *)(hdr + 1) = (uintptr_t)self.mem;
	if (pick(2)) {
		hdr->command |= 0x80000000;
		hdr->in_words = (words - 6) / 2;
		hdr->out_words = pick(8);
		ex->response = (uintptr_t)self.mem;
		ex->provider_in_words = pick(4);
		ex->provider_out_words = pick(8);
		ex->cmd_hdr_reserved = 0;
	}
	/* none that closes what the test goes on with, or opens it twice */
	sum->calls++;
	sum->accepted += write(self.fd, buf, 4 * words) > 0;
}

/* --- who does it ---------------------- */

static const struct {
	void (*fn)(void);
	unsigned int weight;
} deeds[] = {
	{ create_pd, 4 }, { create_cq, 8 }, { resize_cq, 4 }, { create_qp, 12 }, { create_srq, 4 },
	{ create_xsrq, 4 }, { modify_srq, 4 }, { reg_mr, 8 }, { rereg_mr, 2 }, { alloc_mw, 4 },
	{ create_ah, 4 }, { open_xrcd, 2 }, { modify_qp, 2 }, { connect_qp, 20 }, { query_qp, 2 },
	{ attach, 2 }, { destroy, 8 }, { doorbell, 8 }, { post, 60 }, { scribble, 4 },
	{ map_anything, 4 }, { tag_op, 4 }, { dm_alloc, 2 }, { dm_use, 4 }, { advise, 2 },
	{ any_call, 8 }, { any_command, 8 }, { create_wq, 6 }, { modify_wq, 3 }, { create_table, 4 },
	{ create_any_over, 6 }, { destroy_ex, 2 },
};

static void deed(void)
{
	unsigned int sum = 0, n;

	for (unsigned int i = 0; i < ARRAY_SIZE(deeds); i++)
		sum += deeds[i].weight;
	n = pick(sum);
	for (unsigned int i = 0; i < ARRAY_SIZE(deeds); i++) {
		if (n < deeds[i].weight) {
			deeds[i].fn();
			return;
		}
		n -= deeds[i].weight;
	}
}

static void *evil_thread(void *arg)
{
	rng.s = (uintptr_t)arg;
	for (;;)
		deed();
	return NULL;
}

static void open_raw(const char *path)
{
	struct ib_uverbs_get_context in = {};
	struct {
		struct ib_uverbs_get_context_resp core;
		struct sroce_alloc_ucontext_resp ours;
	} resp;

	rng.s = 0;
	self.fd = open(path, O_RDWR | O_CLOEXEC);
	if (self.fd < 0)
		_exit(2);
	while (!CMD(GET_CONTEXT, in, resp))
		;
	take_map(&resp.ours.bells, CQ, false, 0);
}

/* A process of threads, until it is killed. Its memory is shared with who comes after. */
static void evil(const char *path, uint64_t seed)
{
	pthread_t t;

	signal(SIGSEGV, SIG_DFL);
	memset(maps, 0, sizeof(maps));
	memset(known, 0, sizeof(known));
	memset(num_known, 0, sizeof(num_known));
	open_raw(path);
	rng.s = seed;
	/* something to begin with */
	for (int i = 0; i < 4; i++) {
		straight = true;
		create_pd();
		create_cq();
		reg_mr();
		create_qp();
		connect_qp();
	}
	for (int i = 0; i < 3; i++)
		pthread_create(&t, NULL, evil_thread, (void *)(uintptr_t)mix64(seed + i + 1));
	/* one that has all of it, too, and goes sooner or later */
	if (!(seed & 3) && !fork()) {
		pthread_create(&t, NULL, evil_thread, (void *)(uintptr_t)mix64(seed + 9));
		usleep(200000);
		_exit(0);
	}
	evil_thread((void *)(uintptr_t)seed);
}

static bool gone(pid_t pid, double seconds)
{
	const double end = now() + seconds;
	int status;

	while (!waitpid(pid, &status, WNOHANG)) {
		if (now() > end)
			return false;
		usleep(1000);
	}
	return true;
}

/* What calls need, and where they go */
static void any_up(char *path, size_t len)
{
	snprintf(path, len, "/dev/infiniband/%s", ea.ctx->device->dev_name);
	self.gid = ea.gid;
	self.gid_index = ea.gid_index;
	self.mem = mmap(NULL, MEM, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	sum = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

/* One after another, each for a moment */
static void any(void)
{
	/* what the program beside these has none of */
	static const char * const names[] = { "rx_atomic_requests", "rx_flush_requests",
					      "sent_err_nak", "cq_overflows" };
	long long before[ARRAY_SIZE(names)], after[ARRAY_SIZE(names)];
	const double seconds = env("FUZZ_SECONDS", 10), end = now() + seconds;
	uint64_t seed = env("SEED", time(NULL));
	unsigned int num = 0;
	char path[300];

	diag("%.0f s from SEED=%llu", seconds, (unsigned long long)seed);
	any_up(path, sizeof(path));
	counters_read(&ea, names, ARRAY_SIZE(names), before);
	while (now() < end) {
		struct rng life = { .s = seed };
		pid_t pid = fork();

		if (!pid)
			evil(path, seed);
		usleep(rng_in(&life, 1000, rng_in(&life, 0, 3) ? 500000 : 2000000));
		kill(pid, SIGKILL);
		num++;
		if (!gone(pid, 60)) {
			ok(false, "a process that was killed goes, from seed %llu",
			   (unsigned long long)seed);
			return;
		}
		seed++;
	}
	ok(num, "%u processes that do anything: none hangs", num);
	between(sum->accepted, num, sum->calls, "calls that were accepted");
	diag("%llu calls", sum->calls);
	counters_read(&ea, names, ARRAY_SIZE(names), after);
	for (unsigned int i = 0; i < ARRAY_SIZE(names); i++)
		diag("%s: %lld", names[i], after[i] - before[i]);
}

/* --- another user's program ---------------------- */

/* All that one would have to guess of the one that is attacked */
struct secrets {
	uint64_t addr;
	uint32_t lkey, rkey, qpn, srqn;
};

#define NOBODY 65534
#define OTHERS 100

/* Its own pair, and another's keys */
static void other_keys(const struct secrets *s)
{
	static const struct {
		const char *what;
		enum ibv_wr_opcode opcode;
		bool theirs;		/* the local key, too */
	} tries[] = {
		{ "reading by another's R_Key", IBV_WR_RDMA_READ, false },
		{ "writing by another's R_Key", IBV_WR_RDMA_WRITE, false },
		{ "an atomic by another's R_Key", IBV_WR_ATOMIC_FETCH_AND_ADD, false },
		{ "sending by another's L_Key", IBV_WR_SEND, true },
		{ "reading into another's L_Key", IBV_WR_RDMA_READ, true },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(tries); i++) {
		struct pair p;

		pair_create(&p, &ea, &ea, &(struct pair_opts) {
			.sq = 4, .rq = 4, .sge = 1, .buf = 4096, .access = IBV_ACCESS_REMOTE_READ,
		});
		p.conn.access |= IBV_ACCESS_REMOTE_ATOMIC;
		pair_connect(&p);
		if (tries[i].theirs)
			errno = POST(p.qp[0], .wr_id = 7, .opcode = tries[i].opcode, .num_sge = 1,
				     .send_flags = IBV_SEND_SIGNALED,
				     .sg_list = SGE(s->addr, 8, s->lkey),
				     .wr.rdma = { (uintptr_t)p.buf[1], p.mr[1]->rkey });
		else if (tries[i].opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
			errno = POST(p.qp[0], .wr_id = 7, .opcode = tries[i].opcode, .num_sge = 1,
				     .send_flags = IBV_SEND_SIGNALED,
				     .sg_list = SGE(p.buf[0], 8, p.mr[0]->lkey),
				     .wr.atomic = { s->addr, 1, 1, s->rkey });
		else
			errno = POST(p.qp[0], .wr_id = 7, .opcode = tries[i].opcode, .num_sge = 1,
				     .send_flags = IBV_SEND_SIGNALED,
				     .sg_list = SGE(p.buf[0], 8, p.mr[0]->lkey),
				     .wr.rdma = { s->addr, s->rkey });
		if (errno)
			die("post");
		wc_is(p.scq[0], 7, tries[i].theirs ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_ACCESS_ERR,
		      NULL, "%s", tries[i].what);
		pair_destroy(&p);
	}
}

/* In a ring of its own: address handles of another's, whose numbers are small */
static void other_av(const struct secrets *s)
{
	struct ibv_cq *cq = cq_make(&ea, 4);
	struct ibv_qp_init_attr ia = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = 4, .max_send_sge = 1 },
	};
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct sroce_send_wqe *wqe;
	unsigned int num = 0;
	struct sroce_ring *ring;
	struct ibv_wc wc = {};
	struct ibv_qp *qp;

	ia.srq = ibv_create_srq(ea.pd, &sa);
	ring_before();
	qp = ibv_create_qp(ea.pd, &ia);
	if (!ia.srq || !qp)
		die("UD");
	ud_ready(qp, 1);
	ring = ring_after();
	for (uint32_t i = 0; i < OTHERS; i++) {
		wqe = (void *)((uint8_t *)(ring + 1) + (i % 4) * SROCE_SQ_BLOCK);
		*wqe = (struct sroce_send_wqe) {
			.wr_id = i, .opcode = IBV_WR_SEND, .num_blocks = 1,
			.flags = SROCE_WQE_SIGNALED, .ah = i, .remote_qpn = s->qpn,
		};
		__atomic_store_n(&ring->prod, i + 1, __ATOMIC_RELEASE);
		ring_doorbell(ea.ctx, qp->qp_num);
		if (!cq_wait(cq, &wc, PATIENCE) || wc.status != IBV_WC_LOC_QP_OP_ERR || qp_to(qp, IBV_QPS_RTS))
			break;
		num++;
	}
	is(num, OTHERS, "another's address handles: none is any to it");
	if (ibv_destroy_qp(qp) || ibv_destroy_srq(ia.srq) || ibv_destroy_cq(cq))
		die("destroy");
}

/* To a queue of another's domain */
static void other_srq(const struct secrets *s)
{
	struct ibv_xrcd *xrcd = xrcd_make(&ea);
	struct ibv_cq *cq = cq_make(&ea, 4);
	struct ibv_qp *ini, *tgt;

	if (!xrcd)
		die("XRC");
	ini = xrc_ini_make(&ea, cq, 1);
	tgt = xrc_tgt_make(&ea, xrcd);
	qps_connect(ini, &ea, 1, tgt, &ea, 2, &conn_default);
	if (POST(ini, .wr_id = 7, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
		 .qp_type.xrc.remote_srqn = s->srqn))
		die("post");
	wc_is(cq, 7, IBV_WC_REM_INV_REQ_ERR, NULL, "another's shared receive queue");
	if (ibv_destroy_qp(ini) || ibv_destroy_qp(tgt) || ibv_destroy_cq(cq) || ibv_close_xrcd(xrcd))
		die("destroy");
}

/* Handles are a context's own: none but that of its domain is anything. */
static void other_handles(void)
{
	static const struct { uint32_t command; bool answers; } tries[] = {
		{ IB_USER_VERBS_CMD_DESTROY_QP, true }, { IB_USER_VERBS_CMD_DESTROY_CQ, true },
		{ IB_USER_VERBS_CMD_DESTROY_SRQ, true }, { IB_USER_VERBS_CMD_DEREG_MR, false },
		{ IB_USER_VERBS_CMD_DEALLOC_MW, false }, { IB_USER_VERBS_CMD_DESTROY_AH, false },
		{ IB_USER_VERBS_CMD_CLOSE_XRCD, false },
	};
	unsigned int done = 0;

	for (unsigned int i = 0; i < ARRAY_SIZE(tries); i++)
		for (uint32_t handle = 0; handle < 1000; handle++) {
			uint32_t resp[4];
			struct {
				struct ib_uverbs_cmd_hdr hdr;
				uint64_t response;
				uint32_t handle, reserved;
			} with = { { tries[i].command, 6, 2 }, (uintptr_t)resp, handle, 0 };
			struct {
				struct ib_uverbs_cmd_hdr hdr;
				uint32_t handle;
			} without = { { tries[i].command, 3, 0 }, handle };

			done += (tries[i].answers ? write(ea.ctx->cmd_fd, &with, sizeof(with)) :
				 write(ea.ctx->cmd_fd, &without, sizeof(without))) > 0;
		}
	is(done, 0, "another's handles: nothing is destroyed by any");
}

/* What is mapped already is its own ring of doorbells; another's rings are nowhere. */
static void other_maps(void)
{
	unsigned int num = 0;

	for (off_t page = 0; page < 2000; page++)
		for (size_t pages = 1; pages <= 64; pages *= 2) {
			void *at = mmap(NULL, pages * 4096, PROT_READ, MAP_SHARED, ea.ctx->cmd_fd,
					page * 4096);

			if (at == MAP_FAILED)
				continue;
			num++;
			munmap(at, pages * 4096);
		}
	is(num, 1, "mappings of any offset and size: its own ring");
}

static void other_program(const struct secrets *s)
{
	const char *name = ea.name;

	close(ea.ctx->cmd_fd);
	close(eb.ctx->cmd_fd);
	if (setgid(NOBODY) || setuid(NOBODY))
		die("setuid");
	end_open(&ea, name, NULL);
	other_maps();
	other_handles();
	is(ring_doorbell(ea.ctx, s->qpn), EINVAL, "another's doorbell");
	other_keys(s);
	other_av(s);
	other_srq(s);
	_exit(done_testing());
}

/* Another user's program knows every number of ours. */
static void other_user(void)
{
	struct ibv_ah_attr aa = {
		.is_global = 1, .port_num = 1,
		.grh = { .dgid = ea.gid, .sgid_index = ea.gid_index, .hop_limit = 64 },
	};
	struct ibv_srq_attr sa = { .max_wr = 4, .max_sge = 1 };
	struct ibv_mr *mr = mr_make(&ea, 4096, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
						       IBV_ACCESS_REMOTE_ATOMIC);
	struct ibv_xrcd *xrcd = xrcd_make(&ea);
	struct ibv_cq *cq = cq_make(&ea, 8);
	struct ibv_ah *ah = ibv_create_ah(ea.pd, &aa);
	struct secrets s = { .addr = (uintptr_t)mr->addr, .lkey = mr->lkey, .rkey = mr->rkey };
	struct ibv_srq *srq;
	struct ibv_wc wc;
	struct pair p;
	int status;
	pid_t pid;

	if (!xrcd || !ah)
		die("XRC domain, or address handle");
	srq = xrc_srq_make(&ea, xrcd, cq, &sa);
	if (ibv_get_srq_num(srq, &s.srqn))
		die("get_srq_num");
	pair_up(&p, &ea, &eb, NULL);
	s.qpn = p.qp[0]->qp_num;
	memset(mr->addr, CANARY, 4096);
	fflush(stdout);
	pid = fork();
	if (!pid)
		other_program(&s);
	is(waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0,
	   "that is all it got");
	ok(canary_check(mr->addr, 4096) < 0, "the memory is as it was");
	pattern_fill(p.buf[0], 3, 0, 5000);
	if (pair_recv(&p, 1, 2, 0, 5000) || pair_send(&p, 0, 1, 0, 5000, IBV_SEND_SIGNALED))
		die("post");
	wc_is(p.scq[0], 1, IBV_WC_SUCCESS, &wc, "the queue pair sends");
	wc_is(p.rcq[1], 2, IBV_WC_SUCCESS, &wc, "and what it sends is received");
	ok(pattern_check(p.buf[1], 3, 0, 5000) < 0, "every byte");
	pair_destroy(&p);
	if (ibv_destroy_srq(srq) || ibv_destroy_cq(cq) || ibv_close_xrcd(xrcd) || ibv_destroy_ah(ah))
		die("destroy");
	mr_drop(mr);
}

/* --- a queue pair over a table ---------------------- */

/*
 * Such a one has no queues of its own, and the core takes it for any type. rdma-core would not
 * ask for one that is not for raw packets, so this does.
 */
static void tables(void)
{
	static const struct { const char *name; uint8_t type; } types[] = {
		{ "RC", IBV_QPT_RC }, { "UC", IBV_QPT_UC }, { "UD", IBV_QPT_UD },
		{ "XRC initiator", IBV_QPT_XRC_SEND },
	};

	char path[300];

	any_up(path, sizeof(path));
	straight = true;
	open_raw(path);
	create_pd();
	create_cq();
	for (int i = 0; i < 4; i++)
		create_wq();
	create_table();
	is(num_known[TABLE], 1, "an indirection table");
	/* so it is not the call itself that is wrong */
	ok(create_over(IBV_QPT_RAW_PACKET, known[TABLE][0], 0), "a raw queue pair over it");
	for (unsigned int i = 0; i < ARRAY_SIZE(types); i++) {
		ok(!create_over(types[i].type, known[TABLE][0], 0) && errno == EOPNOTSUPP,
		   "no %s queue pair over it", types[i].name);
		ok(!create_over(types[i].type, known[TABLE][0], 4) && errno == EOPNOTSUPP,
		   "nor one that sends");
	}
	close(self.fd);
	straight = false;
}

/* --- a chain ---------------------- */

#define CHAIN 128

static void chain_read(struct ibv_qp *qp, const struct ibv_mr *mr)
{
	if (POST(qp, .opcode = IBV_WR_RDMA_READ, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
		 .sg_list = SGE(mr->addr, 8, mr->lkey),
		 .wr.rdma = { (uintptr_t)mr->addr + 8, mr->rkey }))
		die("post READ");
}

/*
 * Queue pairs of one link, each with the next as its peer: what the second answers the first,
 * the third gets, which has waited for just that and sends to the fourth. All of it never
 * leaves the link, and so would happen within the first's doorbell, if a call that is nested too
 * deep were not refused, and made again from outside.
 */
static void chain(void)
{
	struct ibv_cq *cq = cq_make(&ea, 4 * CHAIN);
	struct ibv_mr *mr = mr_make(&ea, 4096, IBV_ACCESS_REMOTE_READ);
	struct ibv_qp_init_attr ia = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	unsigned int i, num = 0;
	struct conn c = conn_default;
	struct ibv_qp *qp[CHAIN];
	long long before, refused;
	struct ibv_wc wc;

	c.timeout = 0;		/* never */
	for (i = 0; i < CHAIN; i++) {
		qp[i] = ibv_create_qp(ea.pd, &ia);
		if (!qp[i])
			die("create_qp");
	}
	for (i = 0; i < CHAIN; i++) {
		/* the second READ's answer is one for the first READ of the next but one */
		const struct peer p = {
			.qpn = qp[(i + 1) % CHAIN]->qp_num,
			.psn = (i + CHAIN - 1) % CHAIN / 2,
			.gid = ea.gid,
		};

		c.rd_atomic = i ? 1 : 2;
		qp_connect(qp[i], &ea, i / 2, &p, &c);
	}
	for (i = 0; i < CHAIN; i++)
		chain_read(qp[i], mr);
	for (i = 1; i < CHAIN; i++)
		chain_read(qp[i], mr);
	ok(cq_quiet(cq, 0.3), "nobody gets an answer");
	before = hw_counter(&ea, "tx_dropped");
	chain_read(qp[0], mr);
	while (num < CHAIN / 2 - 1 && cq_wait(cq, &wc, PATIENCE) && wc.status == IBV_WC_SUCCESS)
		num++;
	is(num, CHAIN / 2 - 1, "every second of them gets another's answer");
	refused = hw_counter(&ea, "tx_dropped") - before;
	ok(refused > 0, "%lld calls would have been too deep", refused);
	for (i = 0; i < CHAIN; i++)
		if (ibv_destroy_qp(qp[i]))
			die("destroy_qp");
	mr_drop(mr);
	ibv_destroy_cq(cq);
}

static const struct test tests[] = {
	TEST(chain),
	TEST(tables),
	TEST(any),
	TEST(other_user),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
