// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The state machine of a reliable connected queue pair, as InfiniBand's Vol. 1
 * chapters 10.3 and 11.2.5 have it: which transitions there are, what each
 * requires, what it allows, and that query_qp tells what was set.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

static struct end ea, eb;
static struct pair p;
static struct ibv_qp *qp;

#define N_STATES 7

/* Attributes that a transition of an RC queue pair may be given. */
static const struct {
	int mask;
	const char *name;
} attrs[] = {
	{ IBV_QP_CUR_STATE, "cur_state" },
	{ IBV_QP_EN_SQD_ASYNC_NOTIFY, "en_sqd_async_notify" },
	{ IBV_QP_ACCESS_FLAGS, "access_flags" },
	{ IBV_QP_PKEY_INDEX, "pkey_index" },
	{ IBV_QP_PORT, "port" },
	{ IBV_QP_AV, "av" },
	{ IBV_QP_PATH_MTU, "path_mtu" },
	{ IBV_QP_TIMEOUT, "timeout" },
	{ IBV_QP_RETRY_CNT, "retry_cnt" },
	{ IBV_QP_RNR_RETRY, "rnr_retry" },
	{ IBV_QP_RQ_PSN, "rq_psn" },
	{ IBV_QP_MAX_QP_RD_ATOMIC, "max_rd_atomic" },
	{ IBV_QP_ALT_PATH, "alt_path" },
	{ IBV_QP_MIN_RNR_TIMER, "min_rnr_timer" },
	{ IBV_QP_SQ_PSN, "sq_psn" },
	{ IBV_QP_MAX_DEST_RD_ATOMIC, "max_dest_rd_atomic" },
	{ IBV_QP_PATH_MIG_STATE, "path_mig_state" },
	{ IBV_QP_DEST_QPN, "dest_qpn" },
	{ IBV_QP_QKEY, "qkey" },
};

static const struct transition {
	enum ibv_qp_state from, to;
	int req, opt;
} table[] = {
	{ IBV_QPS_RESET, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPS_RESET, IBV_QPS_INIT,
	  IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0 },
	{ IBV_QPS_INIT, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPS_INIT, IBV_QPS_ERR, 0, 0 },
	{ IBV_QPS_INIT, IBV_QPS_INIT, 0,
	  IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
	{ IBV_QPS_INIT, IBV_QPS_RTR,
	  IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	  IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ IBV_QPS_RTR, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPS_RTR, IBV_QPS_ERR, 0, 0 },
	{ IBV_QPS_RTR, IBV_QPS_RTS,
	  IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
	  IBV_QP_MAX_QP_RD_ATOMIC,
	  IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
	  IBV_QP_PATH_MIG_STATE },
	{ IBV_QPS_RTS, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPS_RTS, IBV_QPS_ERR, 0, 0 },
	{ IBV_QPS_RTS, IBV_QPS_RTS, 0,
	  IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE |
	  IBV_QP_MIN_RNR_TIMER },
	{ IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ IBV_QPS_SQD, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPS_SQD, IBV_QPS_ERR, 0, 0 },
	{ IBV_QPS_SQD, IBV_QPS_RTS, 0,
	  IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
	  IBV_QP_PATH_MIG_STATE },
	{ IBV_QPS_SQD, IBV_QPS_SQD, 0,
	  IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
	  IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC |
	  IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER |
	  IBV_QP_PATH_MIG_STATE },
	{ IBV_QPS_ERR, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPS_ERR, IBV_QPS_ERR, 0, 0 },
};

static const struct transition *find(int from, int to)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(table); i++)
		if ((int)table[i].from == from && (int)table[i].to == to)
			return &table[i];
	return NULL;
}

/* Values that are right for any attribute, in a given state. */
static struct ibv_qp_attr right(int cur)
{
	return (struct ibv_qp_attr) {
		.cur_qp_state = cur,
		.path_mtu = IBV_MTU_1024,
		.path_mig_state = IBV_MIG_MIGRATED,
		.qkey = 1,
		.rq_psn = 0x123456,
		.sq_psn = 0xfedcba,
		.dest_qp_num = p.qp[1]->qp_num,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
		.ah_attr = {
			.is_global = 1,
			.port_num = 1,
			.sl = 0,
			.grh = {
				.dgid = eb.gid,
				.sgid_index = ea.gid_index,
				.hop_limit = 64,
			},
		},
		.pkey_index = 0,
		.en_sqd_async_notify = 0,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.port_num = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.alt_port_num = 1,
		.alt_ah_attr = {
			.is_global = 1,
			.port_num = 1,
			.grh = { .dgid = eb.gid, .sgid_index = ea.gid_index, .hop_limit = 64 },
		},
	};
}

static int modify(int to, int mask)
{
	struct ibv_qp_attr a = right(qp_state(qp));

	a.qp_state = to;
	return ibv_modify_qp(qp, &a, IBV_QP_STATE | mask);
}

static void step(int to)
{
	const struct transition *t = find(qp_state(qp), to);

	errno = t ? modify(to, t->req) : EINVAL;
	if (errno)
		die("modify_qp to %s", state_name(to));
}

/* By the ways that are known to be right. */
static void go(int to)
{
	step(IBV_QPS_RESET);
	if (to == IBV_QPS_RESET)
		return;
	step(IBV_QPS_INIT);
	if (to == IBV_QPS_INIT)
		return;
	if (to == IBV_QPS_ERR) {
		step(IBV_QPS_ERR);
		return;
	}
	step(IBV_QPS_RTR);
	if (to == IBV_QPS_RTR)
		return;
	step(IBV_QPS_RTS);
	if (to == IBV_QPS_SQD)
		step(IBV_QPS_SQD);
}

/* Whatever any transition to a state requires. */
static int any_req(int to)
{
	int mask = 0;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(table); i++)
		if ((int)table[i].to == to)
			mask |= table[i].req;
	return mask;
}

static void transitions(void)
{
	static const int from_states[] = {
		IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_ERR,
	};
	const struct transition *t;
	unsigned int f;
	int from, to, err;

	for (f = 0; f < ARRAY_SIZE(from_states); f++) {
		from = from_states[f];
		for (to = 0; to < N_STATES; to++) {
			t = find(from, to);
			go(from);
			err = modify(to, t ? t->req : any_req(to));
			if (t) {
				is(err, 0, "%s to %s", state_name(from), state_name(to));
				is(qp_state(qp), to, "%s to %s: its state", state_name(from), state_name(to));
				continue;
			}
			is(err, EINVAL, "%s to %s is refused", state_name(from), state_name(to));
			/* and so it is with nothing given */
			is(modify(to, 0), EINVAL, "%s to %s is refused, bare", state_name(from), state_name(to));
			is(qp_state(qp), from, "%s to %s: its state", state_name(from), state_name(to));
		}
		go(from);
		ok(modify(N_STATES, 0) == EINVAL, "%s to state %d is refused", state_name(from), N_STATES);
	}
	go(IBV_QPS_RESET);
}

static void attributes(void)
{
	const struct transition *t;
	const char *from, *to;
	unsigned int i, k;
	int m, err;

	for (i = 0; i < ARRAY_SIZE(table); i++) {
		t = &table[i];
		from = state_name(t->from);
		to = state_name(t->to);
		for (k = 0; k < ARRAY_SIZE(attrs); k++) {
			m = attrs[k].mask;
			/* making the way there each time is what takes long */
			if ((int)qp_state(qp) != (int)t->from)
				go(t->from);
			if (t->req & m) {
				err = modify(t->to, t->req & ~m);
				is(err, EINVAL, "%s to %s without %s is refused", from, to, attrs[k].name);
				is(qp_state(qp), t->from, "its state");
			} else if (m == IBV_QP_ALT_PATH) {
				/* on RoCE, kernels refuse it before a device is asked */
				err = modify(t->to, t->req | m);
				ok(err == EINVAL || err == EOPNOTSUPP,
				   "%s to %s with %s is refused (%s)", from, to, attrs[k].name,
				   strerror(err));
				is(qp_state(qp), t->from, "its state");
			} else if (t->opt & m) {
				err = modify(t->to, t->req | m);
				is(err, 0, "%s to %s with %s", from, to, attrs[k].name);
				is(qp_state(qp), t->to, "its state");
			} else {
				err = modify(t->to, t->req | m);
				is(err, EINVAL, "%s to %s with %s is refused", from, to, attrs[k].name);
				is(qp_state(qp), t->from, "its state");
			}
		}
	}
	go(IBV_QPS_RESET);
}

/* No path is there to migrate to, wherever it might be set: nor is one waited for. */
static void migration(void)
{
	static const struct {
		enum ibv_mig_state to;
		const char *name;
	} none[] = {
		{ IBV_MIG_REARM, "REARM" },
		{ IBV_MIG_ARMED, "ARMED" },
	};
	const struct transition *t;
	struct ibv_qp_attr a;

	is(ea.attr.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG, 0, "no path migration");
	for (unsigned int i = 0; i < ARRAY_SIZE(table) * ARRAY_SIZE(none); i++) {
		t = &table[i / ARRAY_SIZE(none)];
		if (!(t->opt & IBV_QP_PATH_MIG_STATE))
			continue;
		go(t->from);
		a = right(t->from);
		a.qp_state = t->to;
		a.path_mig_state = none[i % ARRAY_SIZE(none)].to;
		is(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PATH_MIG_STATE | t->req), EOPNOTSUPP,
		   "%s to %s with path_mig_state %s is refused", state_name(t->from),
		   state_name(t->to), none[i % ARRAY_SIZE(none)].name);
		is(qp_state(qp), t->from, "its state");
	}
	go(IBV_QPS_RESET);
}

/* cur_state: what the program believes must be so. */
static void cur_state(void)
{
	struct ibv_qp_attr a;

	go(IBV_QPS_RTS);
	a = right(IBV_QPS_SQD);
	a.qp_state = IBV_QPS_RTS;
	is(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL,
	   "RTS to RTS with cur_state SQD is refused");
	go(IBV_QPS_SQD);
	a.cur_qp_state = IBV_QPS_RTS;
	is(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL,
	   "SQD to RTS with cur_state RTS is refused");
	is(qp_state(qp), IBV_QPS_SQD, "its state");
	go(IBV_QPS_RESET);
}

/* Values out of their range, one at a time. */
static void values(void)
{
	static const union ibv_gid nobody = { .raw = { 0 } };
	struct ibv_qp_attr a;
	const struct transition *t;
	int err;

#define TRY(from_state, to_state, set, extra, what) do {				\
	t = find(from_state, to_state);							\
	go(from_state);									\
	a = right(from_state);								\
	a.qp_state = to_state;								\
	set;										\
	err = ibv_modify_qp(qp, &a, IBV_QP_STATE | t->req | (extra));			\
	ok(err == EINVAL || err == EOPNOTSUPP || err == ENODATA, what " is refused (%s)",	\
	   strerror(err));								\
	is(qp_state(qp), from_state, "its state");					\
} while (0)
	TRY(IBV_QPS_RESET, IBV_QPS_INIT, a.port_num = 0, 0, "port 0");
	TRY(IBV_QPS_RESET, IBV_QPS_INIT, a.port_num = 2, 0, "port 2");
	TRY(IBV_QPS_RESET, IBV_QPS_INIT, a.pkey_index = ea.port.pkey_tbl_len, 0, "a P_Key index too high");
	TRY(IBV_QPS_INIT, IBV_QPS_RTR, a.path_mtu = 0, 0, "path MTU 0");
	TRY(IBV_QPS_INIT, IBV_QPS_RTR, a.path_mtu = 6, 0, "path MTU 8192");
	/* eight bits can say no more than 255 */
	if (ea.attr.max_qp_rd_atom < 255)
		TRY(IBV_QPS_INIT, IBV_QPS_RTR, a.max_dest_rd_atomic = ea.attr.max_qp_rd_atom + 1, 0,
		    "more responder resources than there are");
	else
		skip("eight bits say no more", "more responder resources than there are");
	TRY(IBV_QPS_INIT, IBV_QPS_RTR, a.min_rnr_timer = 32, 0, "min_rnr_timer 32");
	TRY(IBV_QPS_INIT, IBV_QPS_RTR, a.ah_attr.grh.sgid_index = ea.port.gid_tbl_len - 1, 0,
	    "a GID index without a GID");
	TRY(IBV_QPS_INIT, IBV_QPS_RTR, a.ah_attr.is_global = 0, 0, "an address without GRH");
	TRY(IBV_QPS_INIT, IBV_QPS_RTR, a.ah_attr.grh.dgid = nobody, 0, "the destination ::");
	TRY(IBV_QPS_INIT, IBV_QPS_RTR, a.ah_attr.port_num = 2, 0, "an address on port 2");
	TRY(IBV_QPS_RTR, IBV_QPS_RTS, a.timeout = 32, 0, "timeout 32");
	TRY(IBV_QPS_RTR, IBV_QPS_RTS, a.retry_cnt = 8, 0, "retry_cnt 8");
	TRY(IBV_QPS_RTR, IBV_QPS_RTS, a.rnr_retry = 8, 0, "rnr_retry 8");
	if (ea.attr.max_qp_init_rd_atom < 255)
		TRY(IBV_QPS_RTR, IBV_QPS_RTS, a.max_rd_atomic = ea.attr.max_qp_init_rd_atom + 1, 0,
		    "more outstanding reads than there are");
	else
		skip("eight bits say no more", "more outstanding reads than there are");
	TRY(IBV_QPS_SQD, IBV_QPS_SQD, a.timeout = 32, IBV_QP_TIMEOUT, "timeout 32 in SQD");
	TRY(IBV_QPS_RTS, IBV_QPS_RTS, a.min_rnr_timer = 32, IBV_QP_MIN_RNR_TIMER, "min_rnr_timer 32 in RTS");
#undef TRY
	go(IBV_QPS_RESET);
}

static void query(void)
{
	struct pair_opts po = { .sq = 33, .rq = 17, .sge = 3, .inl = 77, .sig_all = true, .buf = 4096 };
	static const struct { uint8_t timeout, retry, rnr, min_rnr; enum ibv_mtu mtu; uint32_t psn; } sets[] = {
		{ 14, 7, 7, 12, IBV_MTU_1024, 0x123456 },
		{ 0, 0, 0, 0, IBV_MTU_256, 0 },
		{ 31, 1, 6, 31, IBV_MTU_512, 0xffffff },
	};
	struct ibv_qp_init_attr ia;
	struct ibv_qp_attr a, s;
	struct pair q;
	unsigned int i;
	int access;

	pair_create(&q, &ea, &eb, &po);
	for (i = 0; i < ARRAY_SIZE(sets); i++) {
		access = i == 0 ? IBV_ACCESS_REMOTE_WRITE : i == 1 ? 0 :
			 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
		diag("values %u", i);
		memset(&a, 0x5a, sizeof(a));
		memset(&ia, 0x5a, sizeof(ia));
		if (ibv_query_qp(q.qp[0], &a, IBV_QP_STATE | IBV_QP_CAP, &ia))
			die("query_qp");
		is(a.qp_state, IBV_QPS_RESET, "RESET: qp_state");
		is(a.cur_qp_state, IBV_QPS_RESET, "cur_qp_state");
		ok(a.cap.max_send_wr >= 33 && a.cap.max_recv_wr >= 17 && a.cap.max_send_sge >= 3 &&
		   a.cap.max_recv_sge >= 3 && a.cap.max_inline_data >= 77,
		   "cap: what was asked for at least (%u, %u, %u, %u, %u)", a.cap.max_send_wr,
		   a.cap.max_recv_wr, a.cap.max_send_sge, a.cap.max_recv_sge, a.cap.max_inline_data);
		ok(!memcmp(&a.cap, &ia.cap, sizeof(a.cap)), "the same in both places");
		is(ia.qp_type, IBV_QPT_RC, "qp_type");
		is(ia.sq_sig_all, 1, "sq_sig_all");
		ok(ia.send_cq == q.scq[0] && ia.recv_cq == q.rcq[0], "its CQs");
		ok(!ia.srq, "no SRQ");

		s = right(0);
		s.qp_state = IBV_QPS_INIT;
		s.qp_access_flags = access;
		if (ibv_modify_qp(q.qp[0], &s, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					       IBV_QP_ACCESS_FLAGS))
			die("to INIT");
		ibv_query_qp(q.qp[0], &a, IBV_QP_STATE, &ia);
		is(a.qp_state, IBV_QPS_INIT, "INIT: qp_state");
		is(a.port_num, 1, "port_num");
		is(a.pkey_index, 0, "pkey_index");
		ok(!a.rq_psn && !a.sq_psn, "no PSNs yet (%u, %u)", a.rq_psn, a.sq_psn);
		is(a.qp_access_flags & ~IBV_ACCESS_LOCAL_WRITE, access, "qp_access_flags");

		s.qp_state = IBV_QPS_RTR;
		s.path_mtu = sets[i].mtu;
		s.rq_psn = sets[i].psn;
		s.dest_qp_num = q.qp[1]->qp_num;
		s.min_rnr_timer = sets[i].min_rnr;
		s.max_dest_rd_atomic = min(3U + i, (unsigned int)ea.attr.max_qp_rd_atom);
		s.ah_attr.sl = i;
		s.ah_attr.grh.traffic_class = 0x28 * i;
		s.ah_attr.grh.flow_label = 0x12345 * i & 0xfffff;
		if (ibv_modify_qp(q.qp[0], &s, IBV_QP_STATE | find(IBV_QPS_INIT, IBV_QPS_RTR)->req))
			die("to RTR");
		ibv_query_qp(q.qp[0], &a, IBV_QP_STATE | IBV_QP_AV, &ia);
		is(a.qp_state, IBV_QPS_RTR, "RTR: qp_state");
		is(a.path_mtu, sets[i].mtu, "path_mtu");
		is(a.rq_psn, sets[i].psn, "rq_psn");
		is(a.sq_psn, 0, "no sq_psn yet");
		is(a.dest_qp_num, q.qp[1]->qp_num, "dest_qp_num");
		is(a.min_rnr_timer, sets[i].min_rnr, "min_rnr_timer");
		is(a.max_dest_rd_atomic, s.max_dest_rd_atomic, "max_dest_rd_atomic");
		is(a.ah_attr.is_global, 1, "av: is_global");
		is(a.ah_attr.port_num, 1, "av: port_num");
		is(a.ah_attr.sl, i, "av: sl");
		ok(!memcmp(&a.ah_attr.grh.dgid, &eb.gid, 16), "av: dgid");
		is(a.ah_attr.grh.sgid_index, ea.gid_index, "av: sgid_index");
		is(a.ah_attr.grh.traffic_class, s.ah_attr.grh.traffic_class, "av: traffic_class");
		is(a.ah_attr.grh.flow_label, s.ah_attr.grh.flow_label, "av: flow_label");
		ok(a.ah_attr.grh.hop_limit, "av: hop_limit (%u)", a.ah_attr.grh.hop_limit);

		s.qp_state = IBV_QPS_RTS;
		s.sq_psn = sets[i].psn ^ 0x10101;
		s.timeout = sets[i].timeout;
		s.retry_cnt = sets[i].retry;
		s.rnr_retry = sets[i].rnr;
		s.max_rd_atomic = min(2U + i, (unsigned int)ea.attr.max_qp_init_rd_atom);
		if (ibv_modify_qp(q.qp[0], &s, IBV_QP_STATE | find(IBV_QPS_RTR, IBV_QPS_RTS)->req))
			die("to RTS");
		ibv_query_qp(q.qp[0], &a, IBV_QP_STATE, &ia);
		is(a.qp_state, IBV_QPS_RTS, "RTS: qp_state");
		is(a.cur_qp_state, IBV_QPS_RTS, "cur_qp_state");
		is(a.sq_psn, sets[i].psn ^ 0x10101, "sq_psn");
		is(a.timeout, sets[i].timeout, "timeout");
		is(a.retry_cnt, sets[i].retry, "retry_cnt");
		is(a.rnr_retry, sets[i].rnr, "rnr_retry");
		is(a.max_rd_atomic, s.max_rd_atomic, "max_rd_atomic");
		is(a.path_mtu, sets[i].mtu, "path_mtu, still");

		/* what may be changed on the way */
		s.qp_access_flags = access ^ IBV_ACCESS_REMOTE_READ;
		s.min_rnr_timer = sets[i].min_rnr ^ 1;
		if (ibv_modify_qp(q.qp[0], &s, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER))
			die("RTS to RTS");
		ibv_query_qp(q.qp[0], &a, IBV_QP_STATE, &ia);
		is(a.qp_access_flags & ~IBV_ACCESS_LOCAL_WRITE, s.qp_access_flags,
		   "RTS to RTS: qp_access_flags");
		is(a.min_rnr_timer, s.min_rnr_timer, "min_rnr_timer");
		s.qp_state = IBV_QPS_SQD;
		if (ibv_modify_qp(q.qp[0], &s, IBV_QP_STATE))
			die("to SQD");
		s.timeout ^= 1;
		s.retry_cnt ^= 1;
		if (ibv_modify_qp(q.qp[0], &s, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT))
			die("SQD to SQD");
		ibv_query_qp(q.qp[0], &a, IBV_QP_STATE, &ia);
		is(a.timeout, s.timeout, "SQD to SQD: timeout");
		is(a.retry_cnt, s.retry_cnt, "retry_cnt");
		is(a.qp_state, IBV_QPS_SQD, "qp_state");
		is(a.sq_draining, 0, "an idle queue is drained");
		if (qp_to(q.qp[0], IBV_QPS_RESET))
			die("to RESET");
	}
	pair_destroy(&q);
}

static bool draining(struct ibv_qp *q)
{
	const struct ibv_qp_attr a = qp_query(q);

	return a.qp_state == IBV_QPS_SQD && a.sq_draining;
}

static int to_sqd(struct ibv_qp *q, bool notify)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = notify };

	return ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
}

static void drained(void)
{
	struct ibv_async_event ev;
	struct pair a, b;

	events_drop(&ea);
	pair_up(&a, &ea, &eb, NULL);
	pair_up(&b, &ea, &eb, NULL);

	is(to_sqd(a.qp[0], true), 0, "an idle queue to SQD");
	event_is(&ea, IBV_EVENT_SQ_DRAINED, a.qp[0], "its event");
	ok(!draining(a.qp[0]), "it does not say that it is draining");
	is(qp_to(a.qp[0], IBV_QPS_RTS), 0, "back to RTS");

	/* not asked for, or not this time: the first event to come is the other's */
	for (int said = 0; said < 2; said++) {
		is(said ? to_sqd(a.qp[0], false) : qp_to(a.qp[0], IBV_QPS_SQD), 0,
		   "to SQD without notice");
		is(to_sqd(b.qp[0], true), 0, "another one with notice");
		event_is(&ea, IBV_EVENT_SQ_DRAINED, b.qp[0], "the event is the other one's");
		if (qp_to(a.qp[0], IBV_QPS_RTS) || qp_to(b.qp[0], IBV_QPS_RTS))
			die("modify_qp to RTS");
	}

	/* with a send that cannot end, as there is no receive */
	pattern_fill(a.buf[0], 1, 0, 60000);
	if (pair_send(&a, 0, 1, 0, 30000, IBV_SEND_SIGNALED))
		die("post_send");
	sleep_ms(50);
	is(to_sqd(a.qp[0], true), 0, "a queue with a send under way to SQD");
	ok(draining(a.qp[0]), "it says that it is draining");
	ok(!event_wait(&ea, &ev, 0.3), "there is no event yet");
	is(pair_send(&a, 0, 2, 30000, 30000, IBV_SEND_SIGNALED), 0, "a send in SQD is taken");
	if (pair_recv(&a, 1, 11, 0, 30000) || pair_recv(&a, 1, 12, 30000, 30000))
		die("post_recv");
	wc_is(a.scq[0], 1, IBV_WC_SUCCESS, NULL, "the send that was under way completes");
	wc_is(a.rcq[1], 11, IBV_WC_SUCCESS, NULL, "and is received");
	event_is(&ea, IBV_EVENT_SQ_DRAINED, a.qp[0], "then there is the event");
	ok(!draining(a.qp[0]), "it does not say that it is draining");
	ok(cq_quiet(a.scq[0], 0.3) && cq_quiet(a.rcq[1], 0), "the send that was posted in SQD waits");
	/* a send queue in SQD still receives */
	if (pair_recv(&a, 0, 21, 100000, 100) || pair_send(&a, 1, 22, 0, 100, IBV_SEND_SIGNALED))
		die("post");
	wc_is(a.rcq[0], 21, IBV_WC_SUCCESS, NULL, "the queue pair receives in SQD");
	wc_is(a.scq[1], 22, IBV_WC_SUCCESS, NULL, "and acknowledges");
	is(qp_to(a.qp[0], IBV_QPS_RTS), 0, "back to RTS");
	wc_is(a.scq[0], 2, IBV_WC_SUCCESS, NULL, "it is sent");
	wc_is(a.rcq[1], 12, IBV_WC_SUCCESS, NULL, "and received");
	ok(pattern_check(a.buf[1], 1, 0, 60000) < 0, "all bytes are right");

	/* SQD to ERR: what waits is flushed */
	is(to_sqd(a.qp[0], false), 0, "to SQD");
	if (pair_send(&a, 0, 3, 0, 10, 0))
		die("post_send");
	is(qp_to(a.qp[0], IBV_QPS_ERR), 0, "to ERR");
	wc_is(a.scq[0], 3, IBV_WC_WR_FLUSH_ERR, NULL, "a send posted in SQD is flushed");
	pair_destroy(&a);
	pair_destroy(&b);
}

static void post(void)
{
	static const struct { int state; bool send, recv; } states[] = {
		{ IBV_QPS_RESET, false, false },
		{ IBV_QPS_INIT, false, true },
		{ IBV_QPS_RTR, false, true },
		{ IBV_QPS_RTS, true, true },
		{ IBV_QPS_SQD, true, true },
		{ IBV_QPS_ERR, true, true },
	};
	unsigned int i;
	int err;

	for (i = 0; i < ARRAY_SIZE(states); i++) {
		go(states[i].state);
		err = pair_send(&p, 0, 1, 0, 1, 0);
		ok(states[i].send ? !err : err == EINVAL, "post_send in %s is %s (%s)",
		   state_name(states[i].state), states[i].send ? "taken" : "refused", strerror(err));
		err = pair_recv(&p, 0, 1, 0, 1);
		ok(states[i].recv ? !err : err == EINVAL, "post_recv in %s is %s (%s)",
		   state_name(states[i].state), states[i].recv ? "taken" : "refused", strerror(err));
	}
	go(IBV_QPS_RESET);
}

/* A queue pair that was used and reset is as new: other PSNs, other peer. */
static void again(void)
{
	struct pair q;
	struct ibv_wc wc;
	unsigned int i;

	pair_create(&q, &ea, &eb, NULL);
	for (i = 0; i < 5; i++) {
		q.psn[0] = mix64(i) & 0xffffff;
		q.psn[1] = mix64(i + 100) & 0xffffff;
		pair_connect(&q);
		pattern_fill(q.buf[0], i, 0, 9000);
		if (pair_recv(&q, 1, 10 + i, 0, 9000) || pair_recv(&q, 1, 99, 0, 9000) ||
		    pair_send(&q, 0, 20 + i, 0, 9000, IBV_SEND_SIGNALED))
			die("post");
		wc_is(q.rcq[1], 10 + i, IBV_WC_SUCCESS, NULL, "life %u: received", i);
		wc_is(q.scq[0], 20 + i, IBV_WC_SUCCESS, &wc, "sent");
		ok(pattern_check(q.buf[1], i, 0, 9000) < 0, "its bytes");
		if (qp_to(q.qp[0], IBV_QPS_RESET) || qp_to(q.qp[1], IBV_QPS_RESET))
			die("modify_qp to RESET");
	}
	pair_destroy(&q);
}

/* The netdev of side 0's GID takes no packet of the path MTU any more (--down), and then does again. */
static void too_small(void)
{
	go(IBV_QPS_SQD);
	command(cmd_down);
	is(modify(IBV_QPS_SQD, IBV_QP_AV), EINVAL, "in SQD, an address whose packets would be too large");
	command(cmd_up);
	is(modify(IBV_QPS_SQD, IBV_QP_AV), 0, "and one whose packets are not");
	go(IBV_QPS_RESET);
}

static void with_pair(void (*fn)(void))
{
	pair_create(&p, &ea, &eb, NULL);
	qp = p.qp[0];
	fn();
	pair_destroy(&p);
}

static const struct test tests[] = {
	TEST(transitions, .with = with_pair),
	TEST(attributes, .with = with_pair),
	TEST(migration, .with = with_pair),
	TEST(cur_state, .with = with_pair),
	TEST(values, .with = with_pair),
	TEST(query, .with = with_pair),
	TEST(drained),
	TEST(post, .with = with_pair),
	TEST(again),
	TEST(too_small, .with = with_pair),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests), &ea, &eb);
}
