// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The requester: from requests (request.c) to packets.
 *
 * The send side has one owner at a time, as NAPI has: who finds it free does
 * all there is to do, others leave a note and go. A doorbell, an
 * acknowledgement, the timer and the stack's release of an skb are such
 * others. Nobody waits, and nobody needs a thread of ours.
 */
#include <rdma/ib_user_verbs.h>

#include "request.h"
#include "trace.h"
#include "wire/recovery.h"

/*
 * Bytes of one turn, at full packets, and packets of it at least. Then the stack gets
 * the CPU: what it has been given is still in the cache, where a receiver of
 * this host finds it (measured: a window at a time costs half as much again).
 */
#define SEND_TURN_BYTES		(64U << 10)
#define SEND_TURN_PKTS		16U

/*
 * Turns in a row. In a softirq, the stack has to wait for who called: the rest
 * is the task's. A program goes on until its ring is empty or the window full,
 * unless others keep leaving notes.
 */
#define SEND_TURNS_SOFTIRQ	8
#define SEND_TURNS_PROCESS	64

/*
 * How often a local queue may refuse a packet of an unreliable queue pair before it is dropped: at
 * least 32 ms of back-off (retry.c)
 */
#define REFUSALS_MAX		64

/* Probes in a row that ask for part of what is left of a response */
#define ASKS_MAX		2U

/* Where a window was cut lately, and round trips take so long, there is a queue */
#define READ_SLOW_NS		(500 * NSEC_PER_USEC)
#define READ_CUT_NS		(10 * NSEC_PER_SEC)
/* There, requests that make a window, and packets that one asks for at least */
#define PARTS_WINDOW		4U
#define PART_MIN		8U
/* Of an exponent of two: for so much more those under way are waited for */
#define PART_GROWTH		2U

/* Packets, their payload, all of them on Ethernet, and those of them that had been sent before */
struct send_count {
	u32 pkts;
	u32 bytes;
	u32 wire;
	u32 again;
};

/* One turn at a send side. */
struct send_turn {
	struct sroce_qp *qp;
	struct sroce_burst burst;
	struct sroce_av *av;		/* UD: the address handle in use, held */
	bool started;			/* @burst has a path; with @av, locked */
	u32 start;			/* PSN of the first packet in @burst */
	u32 end;			/* and that behind the last packet that was written */
	struct send_count written;	/* what is in @burst */
	struct send_count left;		/* what the stack has taken, and is not counted yet */
	u32 budget;
	bool alone;			/* it is sent again by itself: sroce_repair, sroce_sweep */
	u32 ask_psn;			/* then, the packet that asks for an acknowledgement */
	u32 read_len;			/* then, bytes that a READ asks for at most */
	u32 lacks;			/* and packets that are missing, if the peer has its request */
	bool request;			/* it is sweep.request */
	u32 swept;			/* PSNs in @burst that may come twice by that */
	bool owes;			/* a message has ended, and nothing since then has asked */
	bool again;			/* the last packet has been sent before */
	bool idle;			/* the ring has been found empty */
};

/* A frame of @len bytes on Ethernet: what is short is padded, and all is checked. */
static u32 frame_on_wire(u32 len)
{
	return max_t(u32, len, ETH_ZLEN) + ETH_FCS_LEN;
}

/* A burst's packets on Ethernet, but for a VLAN's tag: all are as long but the last. */
static u32 burst_on_wire(const struct sroce_burst *b)
{
	const u32 headers = ETH_HLEN + (b->ipv6 ? WIRE_IP6_LEN : WIRE_IP4_LEN) + WIRE_UDP_LEN;

	return (b->num_pkts - 1) * frame_on_wire(headers + b->seg_len) +
	       frame_on_wire(headers + b->last_len);
}

/* From the copy to packets */

static void next_sge(struct sroce_sq *sq)
{
	sq->sge++;
	sq->sge_off = 0;
}

static void list_start(struct sroce_sq *sq)
{
	sq->sge = 0;
	sq->sge_off = 0;
}

/* On to the request behind the one at nxt. */
static void next_request(struct sroce_sq *sq)
{
	sq->nxt += sq_wqe(sq, sq->nxt)->num_blocks;
	list_start(sq);
}

/**
 * sroce_send_mr - the region of an lkey
 * @qp: queue pair; the caller owns its send side
 * @lkey: the key
 *
 * Bottom halves are off. Who has a region takes no lock under which others ask
 * for one, of an address vector or a receive side: with the pages of an
 * on-demand region about to change, they wait for it to be let go.
 *
 * Return: the region, held until another is asked for or sroce_send_mr_put();
 * or NULL.
 */
struct sroce_mr *sroce_send_mr(struct sroce_qp *qp, u32 lkey)
{
	struct sroce_sq *sq = &qp->sq;

	if (sq->mr && sq->mr->key == lkey)
		return sq->mr;
	sroce_send_mr_put(qp);
	sq->mr = sroce_mr_get(sq->pd, lkey);
	return sq->mr;
}

/**
 * sroce_send_mr_put - let go of the region in use
 * @qp: queue pair; the caller owns its send side
 */
void sroce_send_mr_put(struct sroce_qp *qp)
{
	if (qp->sq.mr)
		sroce_mr_put(qp->sq.mr);
	qp->sq.mr = NULL;
}

enum send_result {
	SENT,
	SEND_LOST,		/* on its way to nowhere: on with the next */
	SEND_STOP,		/* for a reason that somebody will end */
	SEND_BACK,		/* the burst was refused: it is to be sent again */
};

/* A request that is wrong fails when it is the oldest. */
static enum send_result send_wrong(struct sroce_swqe *swqe, enum ib_wc_status status)
{
	swqe->status = status;
	return SEND_STOP;
}

/**
 * sroce_send_fault - memory of a request's list is not there: have it brought
 * @qp: queue pair; the caller owns its send side
 * @sge: entry of the list
 * @off: bytes into it
 * @write: to be read into, not sent from
 *
 * Return: false if it can't be.
 */
bool sroce_send_fault(struct sroce_qp *qp, const struct sroce_sge *sge, u32 off, bool write)
{
	struct sroce_fault *fault = &qp->sq.fault;

	if (sroce_fault_refused(fault, sge->lkey, sge->addr + off, write))
		return false;
	sroce_fault_start(fault, qp->sq.pd, NULL, sge->lkey, sge->addr + off, sge->length - off,
			  write);
	return true;
}

static enum send_result copy_sges(struct sroce_qp *qp, u8 *to, u32 len)
{
	struct sroce_sq *sq = &qp->sq;
	struct sroce_swqe *swqe = sq_wqe(sq, sq->nxt);
	u32 i = sq->sge, off = sq->sge_off;

	while (len) {
		const struct sroce_sge *sge = sq_sge(sq, sq->nxt, i);
		u64 addr = sge->addr + off;
		u32 n = min(sge->length - off, len);
		struct sroce_mr *mr;
		void *from;

		if (!n) {
			i++;
			off = 0;
			continue;
		}
		mr = sroce_send_mr(qp, sge->lkey);
		if (!mr || !sroce_mr_covers(mr, addr, n, 0))
			return send_wrong(swqe, IB_WC_LOC_PROT_ERR);
		from = sroce_mr_span(mr, addr, &n, false);
		if (!from)
			return sroce_send_fault(qp, sge, off, false) ?
				SEND_STOP : send_wrong(swqe, IB_WC_LOC_PROT_ERR);
		if (unlikely(sq->fault.err))
			sroce_fault_forget(&sq->fault, sge->lkey, addr, n, false);
		sroce_copy(to, from, n);
		to += n;
		len -= n;
		off += n;
	}
	/* only now: a packet that was given up starts where it started */
	sq->sge = i;
	sq->sge_off = off;
	return SENT;
}

static void copy_inline(const struct sroce_sq *sq, u32 off, u8 *to, u32 len)
{
	off += sizeof(struct sroce_send_wqe);
	while (len) {
		u32 n = min(len, SROCE_SQ_BLOCK - off % SROCE_SQ_BLOCK);

		memcpy(to, sq_copy_byte(sq, sq->nxt, off), n);
		to += n;
		off += n;
		len -= n;
	}
}

/* Every key before the first byte: a request that is wrong sends nothing. */
static bool check_sges(struct sroce_qp *qp, int access)
{
	struct sroce_sq *sq = &qp->sq;
	const struct sroce_send_wqe *wqe = sq_copy(sq, sq->nxt);
	u32 i;

	for (i = 0; i < wqe->num_sge; i++) {
		const struct sroce_sge *sge = sq_sge(sq, sq->nxt, i);
		struct sroce_mr *mr;

		if (!sge->length)
			continue;
		mr = sroce_send_mr(qp, sge->lkey);
		if (!mr || !sroce_mr_covers(mr, sge->addr, sge->length, access))
			return false;
		if (mr->kind == SROCE_MR_FAST)
			sq->by_key = sq->nxt;
	}
	return true;
}

/*
 * Has a request that is not complete such a region in its list? It may have to be sent again from
 * there, or its response has yet to be put there.
 */
static bool keys_in_use(struct sroce_sq *sq)
{
	if (sq->nxt != sq->una && (s32)(sq->by_key - sq->una) >= 0)
		return true;
	/* it is not to come round again */
	sq->by_key = sq->una - 1;
	return false;
}

static u8 pick_operation(const struct sroce_send_op *op, bool first, bool last)
{
	if (first)
		return last ? op->only : op->first;
	return last ? op->last : op->middle;
}

/* Packets of a request that was sent, before @psn: of a response, those that ask for it. */
static u32 pkts_before(const struct sroce_sq *sq, u32 index, u32 psn)
{
	const struct sroce_swqe *swqe = sq_wqe(sq, index);

	if (!swqe->num_pkts)
		return 0;
	if (takes_resource(swqe_op(sq, index)))
		return parts_before(swqe, psn);
	return clamp_t(s32, wire_psn_diff(psn, swqe->first_psn), 0, swqe->num_pkts);
}

/**
 * sroce_send_seek - go back to a packet
 * @qp: queue pair; the caller owns its send side
 * @psn: to be sent next; not acknowledged, and not beyond what was sent
 */
void sroce_send_seek(struct sroce_qp *qp, u32 psn)
{
	struct sroce_sq *sq = &qp->sq;
	const struct sroce_swqe *swqe = NULL;
	u64 off;

	sq->psn_nxt = psn;
	list_start(sq);
	sq->rtt_held = true;
	sq->flight = 0;
	for (sq->nxt = sq->una; sq->nxt != sq->fetched; sq->nxt += swqe->num_blocks) {
		swqe = sq_wqe(sq, sq->nxt);
		if (!swqe->sent)
			break;
		sq->flight += pkts_before(sq, sq->nxt, psn);
		if (wire_psn_diff(psn, swqe->first_psn) < (s32)swqe->num_pkts)
			break;
	}
	/* what was acknowledged of the oldest is not in flight */
	if (sq->flight)
		sq->flight -= min(sq->flight, pkts_before(sq, sq->una, sq->psn_una));
	if (sq->nxt == sq->fetched || !swqe->sent || swqe_op(sq, sq->nxt)->kind != SEND_STREAM ||
	    sq_copy(sq, sq->nxt)->flags & SROCE_WQE_INLINE)
		return;

	off = (u64)wire_psn_diff(psn, swqe->first_psn) * qp->mtu;
	while (off) {
		u32 len = sq_sge(sq, sq->nxt, sq->sge)->length;

		if (off < len) {
			sq->sge_off = off;
			break;
		}
		off -= len;
		next_sge(sq);
	}
}

/* Held from one call to another, which is more than sparse can follow. */
static void av_lock(struct sroce_av *av)
{
	spin_lock(&av->lock);
	__release(&av->lock);
}

static void av_unlock(struct sroce_av *av)
{
	__acquire(&av->lock);
	spin_unlock(&av->lock);
}

/*
 * A device's queue that is full has room soon. What the host's rules will not have (tc's
 * "drop") looks the same and stays refused: where nobody counts retries, it is lost in the
 * end, as it would be on the way, and what is behind it goes on.
 */
static bool send_refused_for_good(struct sroce_qp *qp)
{
	if ((qp_reliable(qp) && qp->type != IB_QPT_RAW_PACKET) ||
	    ++qp->sq.refusals < REFUSALS_MAX)
		return false;
	qp->sq.refusals = 0;
	return true;
}

/* The stack has taken the burst: its packets have been sent, or were lost on their way. */
static void send_taken(struct send_turn *turn)
{
	struct sroce_sq *sq = &turn->qp->sq;

	if (turn->written.pkts && wire_psn_diff(turn->end, sq->psn_left) > 0)
		sq->psn_left = turn->end;
	turn->left.pkts += turn->written.pkts;
	turn->left.bytes += turn->written.bytes;
	turn->left.wire += turn->written.wire;
	turn->left.again += turn->written.again;
	turn->written = (struct send_count) {};
	if (turn->swept)
		sroce_order_again(sq, turn->swept, turn->request);
	turn->swept = 0;
}

/*
 * The local queue has refused the burst: none of its packets was sent, and none is timed. A packet
 * that left before them still is timed.
 */
static void send_refused(struct send_turn *turn)
{
	struct sroce_sq *sq = &turn->qp->sq;
	const bool held = sq->rtt_held;

	turn->written = (struct send_count) {};
	turn->swept = 0;
	sroce_send_seek(turn->qp, turn->start);
	sq->rtt_held = held;
	if (wire_psn_diff(sq->rtt_psn, sq->psn_left) >= 0)
		sq->rtt_start = 0;
}

/*
 * Send the burst that has been collected. One that the local queue refuses was never sent: its PSNs
 * are still to be used. Unreliable packets are complete once the stack has them.
 */
static enum send_result send_burst(struct send_turn *turn)
{
	struct sroce_qp *qp = turn->qp;
	int err;

	if (!turn->started)
		return SENT;
	sroce_burst_seal(&turn->burst);
	if (unlikely(READ_ONCE(qp->pace.cap)) && turn->written.pkts)
		turn->written.wire = burst_on_wire(&turn->burst);
	if (turn->av) {
		av_unlock(turn->av);
		turn->started = false;
	}
	/* tc may have the stack take it in again right here, for another queue pair */
	sroce_send_mr_put(qp);
	err = sroce_burst_send(&turn->burst);
	if (err == -ENOBUFS) {
		sroce_qp_count(qp, TX_DROPPED);
		if (!send_refused_for_good(qp)) {
			send_refused(turn);
			return SEND_BACK;
		}
		sroce_burst_lost(&turn->burst);
	} else {
		qp->sq.refusals = 0;
	}
	send_taken(turn);
	if (!qp_reliable(qp))
		sroce_ack_advance(qp, qp->sq.psn_nxt);
	return SENT;
}

/*
 * There is no route to the peer. A reliable queue pair looks for one again; a packet of an
 * unreliable one counts as lost on its way.
 */
static enum send_result send_no_route(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;
	struct sroce_swqe *swqe = sq_wqe(sq, sq->nxt);

	sroce_qp_count(qp, TX_NO_ROUTE);
	if (qp_reliable(qp)) {
		sroce_retry_no_route(qp);
		return SEND_STOP;
	}
	if (!swqe->sent) {
		swqe->sent = true;
		swqe->first_psn = sq->psn_nxt;
	}
	sq->psn_nxt = wire_psn_add(swqe->first_psn, swqe->num_pkts);
	sq->psn_end = sq->psn_nxt;
	next_request(sq);
	sroce_ack_advance(qp, sq->psn_nxt);
	return SEND_LOST;
}

/* Get ready to send the next request: where to? */
static enum send_result send_start(struct send_turn *turn)
{
	struct sroce_qp *qp = turn->qp;
	struct sroce_sq *sq = &qp->sq;
	const u32 ah = sq_copy(sq, sq->nxt)->ah;
	struct sroce_path *path = &sq->path;
	enum send_result res;

	if (qp->transport == WIRE_UD) {
		if (turn->started && turn->av->num == ah)
			return SENT;
		res = send_burst(turn);
		if (res != SENT)
			return res;
		if (turn->av && turn->av->num != ah) {
			sroce_av_put(turn->av);
			turn->av = NULL;
		}
		if (!turn->av)
			turn->av = sroce_av_get(qp->ibqp.pd, ah);
		if (!turn->av)
			return send_wrong(sq_wqe(sq, sq->nxt), IB_WC_LOC_QP_OP_ERR);
		sroce_send_mr_put(qp);
		av_lock(turn->av);
		path = &turn->av->path;
	} else if (turn->started) {
		return SENT;
	}

	if (READ_ONCE(qp_dev(qp)->gone) || sroce_burst_start(&turn->burst, qp->num, path)) {
		if (turn->av)
			av_unlock(turn->av);
		return send_no_route(qp);
	}
	if (qp_reliable(qp))
		sroce_burst_ect(&turn->burst);
	turn->started = true;
	sq->no_route = false;
	return SENT;
}

/* CMP_SWP on an XRC queue pair has no other place for it. */
static u32 wqe_srqn(const struct sroce_send_wqe *wqe)
{
	return sroce_send_ops[wqe->opcode].kind == SEND_ATOMIC ? wqe->imm_data : wqe->remote_srqn;
}

static u32 reth_len(const struct send_turn *turn, const struct sroce_send_wqe *wqe,
		    const struct sroce_swqe *swqe, u32 off)
{
	const u32 mtu = turn->qp->mtu;
	const u32 rest = swqe->length - off;

	switch (sroce_send_ops[wqe->opcode].kind) {
	case SEND_FLUSH:
		return wqe->flush_len;
	case SEND_READ:
		return turn->read_len ?: min(rest, part_left(swqe, off / mtu) * mtu);
	default:
		return rest;
	}
}

/* The extension headers that the opcode's row names, for @off bytes on. */
static void put_headers(const struct send_turn *turn, u16 flags, u32 off, u8 *p)
{
	const struct sroce_qp *qp = turn->qp;
	const struct sroce_sq *sq = &qp->sq;
	const struct sroce_send_wqe *wqe = sq_copy(sq, sq->nxt);
	const bool swap = wqe->opcode == IB_UVERBS_WR_ATOMIC_CMP_AND_SWP;

	if (flags & WIRE_XRCETH) {
		p[0] = 0;
		wire_put24(p + 1, wqe_srqn(wqe));
		p += WIRE_XRCETH_LEN;
	}
	if (flags & WIRE_DETH) {
		/* the top bit stands for the queue pair's own Q_Key, 10.2.5 */
		wire_put32(p, wqe->remote_qkey >> 31 ? qp->attr.qkey : wqe->remote_qkey);
		p[4] = 0;
		/* not its number in our table: a GSI queue pair is 1 to others */
		wire_put24(p + 5, qp->ibqp.qp_num);
		p += WIRE_DETH_LEN;
	}
	if (flags & WIRE_FETH) {
		wire_put32(p, (wqe->flush_type & 0xf) | (wqe->flush_level & 0x3) << 4);
		p += WIRE_FETH_LEN;
	}
	if (flags & WIRE_RETH) {
		wire_put64(p, wqe->remote_addr + off);
		wire_put32(p + 8, wqe->rkey);
		wire_put32(p + 12, reth_len(turn, wqe, sq_wqe(sq, sq->nxt), off));
		p += WIRE_RETH_LEN;
	}
	if (flags & WIRE_ATOMICETH) {
		wire_put64(p, wqe->remote_addr);
		wire_put32(p + 8, wqe->rkey);
		wire_put64(p + 12, swap ? wqe->swap : wqe->compare_add);
		wire_put64(p + 20, swap ? wqe->compare_add : 0);
		p += WIRE_ATOMICETH_LEN;
	}
	if (flags & WIRE_IMM)
		memcpy(p, &wqe->imm_data, WIRE_IMM_LEN);
	if (flags & WIRE_IETH)
		wire_put32(p, wqe->imm_data);
}

/* A packet is in the burst, with @payload bytes: @psns from psn_nxt on are used. */
static void send_sent(struct send_turn *turn, u32 payload, u32 psns, bool ask, bool last)
{
	struct sroce_qp *qp = turn->qp;
	struct sroce_sq *sq = &qp->sq;
	struct sroce_swqe *swqe = sq_wqe(sq, sq->nxt);

	if (!swqe->sent) {
		swqe->sent = true;
		swqe->first_psn = sq->psn_nxt;
	}
	turn->written.pkts++;
	turn->written.bytes += payload;
	sq->flight++;
	sq->unasked = ask ? 0 : sq->unasked + 1;
	turn->owes = !ask && (turn->owes || (last && !turn->alone));
	turn->again = wire_psn_diff(sq->psn_nxt, sq->psn_left) < 0;
	if (turn->again) {
		turn->written.again++;
		/* which of two sendings was acknowledged nobody knows (Karn) */
		if (sq->psn_nxt == sq->rtt_psn)
			sq->rtt_start = 0;
	} else if (ask) {
		sroce_retry_time(qp, sq->psn_nxt);
	}
	sq->psn_nxt = wire_psn_add(sq->psn_nxt, psns);
	turn->end = sq->psn_nxt;
	if (wire_psn_diff(sq->psn_nxt, sq->psn_end) > 0)
		sq->psn_end = sq->psn_nxt;
	if (last)
		next_request(sq);
}

/* May one more packet be under way? */
static bool flight_open(struct sroce_qp *qp)
{
	if (!qp_reliable(qp))
		return true;
	if (qp->sq.rnr_probe)
		return !qp->sq.flight;
	return sroce_cwnd_open(qp);
}

static bool on_demand(struct ib_ucontext *ibuc)
{
	return READ_ONCE(container_of(ibuc, struct sroce_ucontext, ibuc)->faults);
}

/*
 * Does another message follow in this turn? Then its end is soon enough to ask at: what is
 * acknowledged is acknowledged with all before it (9.7.5.1.2). If it comes to nothing, ask_late()
 * asks.
 */
static bool more_follows(const struct send_turn *turn)
{
	const struct sroce_qp *qp = turn->qp;
	const struct sroce_sq *sq = &qp->sq;

	if (!turn->budget || !qp_reliable(qp) || swqe_op(sq, sq->nxt)->kind != SEND_STREAM)
		return false;
	/* the next may have to wait for its memory, for as long as another program likes */
	if (qp->ibuc && on_demand(qp->ibuc))
		return false;
	return sq->nxt + sq_wqe(sq, sq->nxt)->num_blocks != sq->fetched ||
	       READ_ONCE(sq->q.ring->prod) != sq->fetched;
}

/*
 * Messages of this turn that did not ask for an acknowledgement rely on a later packet to do so:
 * let the last one ask, before it leaves.
 */
static void ask_late(struct send_turn *turn)
{
	struct sroce_sq *sq = &turn->qp->sq;

	if (!turn->owes || !turn->started || !sroce_burst_ask(&turn->burst))
		return;
	turn->owes = false;
	sq->unasked = 0;
	if (!turn->again)
		sroce_retry_time(turn->qp, wire_psn_add(sq->psn_nxt, -1));
}

/*
 * An acknowledgement is asked for several times a window, and at the end of the last message
 * of a turn; at a rate, as often as something leaves, or nothing would be heard for so long
 * that it is taken for lost. @budget: what the turn may send besides.
 */
static bool ask_now(const struct sroce_qp *qp, u32 budget)
{
	const struct sroce_sq *sq = &qp->sq;

	return sq->rnr_probe || (READ_ONCE(qp->pace.paced) && !budget) ||
	       sq->unasked + 1 >= min(sq->cwnd.ask, sroce_pace_burst(qp, false));
}

/*
 * The middle of a message, as far as it fits the burst: packets that differ in
 * their payload and PSN alone. What stops them is for send_packet() to see to.
 */
static enum send_result send_middles(struct send_turn *turn)
{
	struct sroce_qp *qp = turn->qp;
	struct sroce_sq *sq = &qp->sq;
	const struct sroce_swqe *swqe = sq_wqe(sq, sq->nxt);
	const bool inlined = sq_copy(sq, sq->nxt)->flags & SROCE_WQE_INLINE;
	const u8 opcode = qp->transport | swqe_op(sq, sq->nxt)->middle;
	const u32 len = wire_opcodes[opcode].hdr_len + qp->mtu + WIRE_ICRC_LEN;
	u32 k = wire_psn_diff(sq->psn_nxt, swqe->first_psn);

	if (inlined || qp->transport == WIRE_XRC)
		return SENT;
	while (turn->budget && ++k < swqe->num_pkts && sroce_burst_fits(&turn->burst, len) &&
	       flight_open(qp)) {
		const bool ask = ask_now(qp, turn->budget - 1);
		enum send_result res;
		u8 *p;

		p = sroce_burst_reserve(&turn->burst, len);
		if (!p)
			return SENT;
		wire_bth_put(p, opcode, false, 0, IB_DEFAULT_PKEY_FULL, qp->dqpn,
			     ask && qp_reliable(qp), sq->psn_nxt);
		res = copy_sges(qp, p + WIRE_BTH_LEN, qp->mtu);
		if (res != SENT) {
			sroce_burst_cancel(&turn->burst);
			return res;
		}
		sroce_burst_commit(&turn->burst);
		turn->budget--;
		send_sent(turn, qp->mtu, 1, ask, false);
	}
	return SENT;
}

/* The peer has a completion of it: else the bit means nothing (9.2.3). */
static bool solicits(const struct wire_opcode *row, const struct sroce_send_wqe *wqe)
{
	return wqe->flags & SROCE_WQE_SOLICITED && row->flags & WIRE_END &&
	       (row->class == WIRE_CLASS_SEND || row->flags & WIRE_IMM);
}

/* The packet with which the request at nxt begins, or goes on. */
struct send_pkt {
	u8 opcode;
	const struct wire_opcode *row;
	u32 psns;			/* that it takes */
	u32 off;			/* of its payload in the message */
	u32 payload;
	bool last;			/* of the request */
	bool ask;			/* for an acknowledgement */
};

static struct send_pkt next_packet(const struct send_turn *turn)
{
	struct sroce_qp *qp = turn->qp;
	const struct sroce_sq *sq = &qp->sq;
	const struct sroce_swqe *swqe = sq_wqe(sq, sq->nxt);
	const struct sroce_send_op *op = swqe_op(sq, sq->nxt);
	const u32 k = swqe->sent ? wire_psn_diff(sq->psn_nxt, swqe->first_psn) : 0;
	struct send_pkt pkt = { .off = k * qp->mtu };

	if (op->kind == SEND_STREAM) {
		pkt.psns = 1;
		pkt.last = k + 1 == swqe->num_pkts;
		pkt.opcode = qp->transport | pick_operation(op, !k, pkt.last);
	} else {
		pkt.psns = part_left(swqe, k);
		pkt.last = k + pkt.psns == swqe->num_pkts;
		pkt.opcode = qp->transport | op->only;
	}
	pkt.row = &wire_opcodes[pkt.opcode];
	if (pkt.row->flags & WIRE_PAYLOAD)
		pkt.payload = min(swqe->length - pkt.off, qp->mtu);
	if (turn->alone)
		pkt.ask = wire_psn_diff(turn->ask_psn, sq->psn_nxt) < (s32)pkt.psns;
	else
		pkt.ask = op->kind != SEND_STREAM || (pkt.last && !more_follows(turn)) ||
			  ask_now(qp, turn->budget);
	return pkt;
}

/* A burst with room for a packet of @len bytes: this one, or else the next. */
static enum send_result send_room(struct send_turn *turn, u32 len)
{
	enum send_result res = send_start(turn);

	if (res != SENT || sroce_burst_fits(&turn->burst, len))
		return res;
	res = send_burst(turn);
	return res == SENT ? send_start(turn) : res;
}

static enum send_result send_packet(struct send_turn *turn)
{
	struct sroce_qp *qp = turn->qp;
	struct sroce_sq *sq = &qp->sq;
	struct sroce_swqe *swqe = sq_wqe(sq, sq->nxt);
	const struct sroce_send_wqe *wqe = sq_copy(sq, sq->nxt);
	const bool stream = !takes_resource(swqe_op(sq, sq->nxt));
	const struct send_pkt pkt = next_packet(turn);
	const struct wire_opcode *row = pkt.row;
	const u32 pad = -pkt.payload & 3;
	const u32 len = row->hdr_len + pkt.payload + pad + WIRE_ICRC_LEN;
	enum send_result res;
	u8 *p;

	if (!swqe->sent &&
	    !check_sges(qp, row->flags & WIRE_PAYLOAD ? 0 : IB_ACCESS_LOCAL_WRITE))
		return send_wrong(swqe, IB_WC_LOC_PROT_ERR);
	res = send_room(turn, len);
	if (res != SENT)
		return res;
	if (!turn->written.pkts)
		turn->start = sq->psn_nxt;
	p = sroce_burst_reserve(&turn->burst, len);
	if (!p) {
		sroce_retry_backoff(qp);
		return SEND_STOP;
	}

	wire_bth_put(p, pkt.opcode, solicits(row, wqe), pad, IB_DEFAULT_PKEY_FULL,
		     qp->transport == WIRE_UD ? wqe->remote_qpn : qp->dqpn,
		     pkt.ask && qp_reliable(qp), sq->psn_nxt);
	put_headers(turn, row->flags, pkt.off, p + WIRE_BTH_LEN);
	p += row->hdr_len;
	if (wqe->flags & SROCE_WQE_INLINE) {
		copy_inline(sq, pkt.off, p, pkt.payload);
	} else {
		res = copy_sges(qp, p, pkt.payload);
		if (res != SENT) {
			sroce_burst_cancel(&turn->burst);
			return res;
		}
	}
	memset(p + pkt.payload, 0, pad);
	sroce_burst_commit(&turn->burst);

	if (!stream)
		sq->num_rd += wire_psn_diff(sq->psn_nxt, sq->psn_end) >= 0;
	send_sent(turn, pkt.payload, pkt.psns, pkt.ask, pkt.last);
	return !stream || pkt.last || turn->alone ? SENT : send_middles(turn);
}

static int do_local(struct sroce_qp *qp, const struct sroce_send_wqe *wqe)
{
	switch (wqe->opcode) {
	case IB_WR_LOCAL_INV:
		return sroce_key_invalidate(qp, qp->ibqp.pd, wqe->imm_data, false);
	case IB_WR_REG_MR:
		return sroce_fast_register(qp, wqe);
	default:
		return sroce_mw_bind(qp, wqe);
	}
}

/* What a key stands for changes. Nothing of it is sent, and so nothing is again. */
static enum send_result send_local(struct send_turn *turn)
{
	struct sroce_qp *qp = turn->qp;
	struct sroce_sq *sq = &qp->sq;
	struct sroce_swqe *swqe = sq_wqe(sq, sq->nxt);
	const struct sroce_send_wqe *wqe = sq_copy(sq, sq->nxt);
	enum send_result res;

	if (swqe->sent) {
		/* what is before it is being sent again */
		next_request(sq);
		return SENT;
	}
	if (wqe->opcode == IB_UVERBS_WR_LOCAL_INV && keys_in_use(sq)) {
		ask_late(turn);
		res = send_burst(turn);
		if (res != SENT)
			return res;
		if (keys_in_use(sq))
			return SEND_STOP;
	}

	sroce_send_mr_put(qp);
	if (do_local(qp, wqe))
		return send_wrong(swqe, IB_WC_MW_BIND_ERR);

	swqe->sent = true;
	swqe->first_psn = sq->psn_nxt;
	next_request(sq);
	sroce_ack_advance(qp, sq->psn_una);
	return SENT;
}

/* A raw packet queue pair's message is a frame, done with when the stack has it. */
static enum send_result send_frame(struct send_turn *turn)
{
	struct sroce_qp *qp = turn->qp;
	struct sroce_sq *sq = &qp->sq;
	struct sroce_swqe *swqe = sq_wqe(sq, sq->nxt);
	const bool again = swqe->sent;
	enum send_result res = SENT;
	struct sk_buff *skb;
	int err;

	list_start(sq);
	skb = sroce_raw_alloc(qp, swqe->length);
	err = PTR_ERR_OR_ZERO(skb);
	if (!err) {
		if (sq_copy(sq, sq->nxt)->flags & SROCE_WQE_INLINE)
			copy_inline(sq, 0, skb->data, swqe->length);
		else
			res = copy_sges(qp, skb->data, swqe->length);
		if (res != SENT) {
			kfree_skb(skb);
			return res;
		}
		swqe->sent = true;
		/* queue pairs of this host may get it at once, with regions of their own */
		sroce_send_mr_put(qp);
		err = sroce_raw_xmit(qp, skb, again);
	}

	switch (err) {
	case -EMSGSIZE:
		return send_wrong(swqe, IB_WC_LOC_LEN_ERR);
	case -ENOMEM:
	case -ENOBUFS:
		sroce_qp_count(qp, TX_DROPPED);
		if (!send_refused_for_good(qp))
			return SEND_BACK;
		break;
	case -ENODEV:
		/* the queue pair is about to hear of it */
		return SEND_STOP;
	default:
		sq->refusals = 0;
		sroce_qp_count(qp, TX_RAW);
		turn->left.wire += frame_on_wire(swqe->length);
	}
	next_request(sq);
	sroce_send_complete(qp, IB_WC_SUCCESS);
	return SENT;
}

/* Responses to READs take PSNs: old and new are told apart within half of all, 9.7.2 */
static bool psns_free(const struct sroce_qp *qp)
{
	const struct sroce_sq *sq = &qp->sq;
	u32 begun = wire_psn_diff(sq->psn_nxt, sq->psn_una);

	return !qp_reliable(qp) || begun + sq_wqe(sq, sq->nxt)->num_pkts < WIRE_PSN_WINDOW;
}

/*
 * What READs ask for comes without being asked again, and is in flight as well: more than this
 * overflows queues on its way, and what is kept behind a gap. READs as they are may be as large as
 * a window, and the next is to be there when one ends; parts are made to fit.
 */
static bool read_window_open(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;
	const struct sroce_swqe *swqe = sq_wqe(sq, sq->nxt);
	const u32 begun = wire_psn_diff(sq->psn_nxt, sq->psn_una), pkts = sq->cwnd.pkts;
	const u32 k = swqe->sent ? wire_psn_diff(sq->psn_nxt, swqe->first_psn) : 0;
	const u32 with = begun + part_left(swqe, k);
	bool open;

	if (swqe->part != SROCE_PART_ALL)
		open = with <= pkts + sq->kept.num;
	else
		open = begun < max(min(2 * pkts, 2 * SROCE_SEND_WINDOW / qp->mtu), pkts) +
			       sq->kept.num;
	if (open && with <= sq->cwnd.most)
		return true;
	sq->cwnd.full = true;
	return false;
}

/*
 * A READ begins, or goes on after @k packets with nothing of it under way: how many is a request to
 * ask for? All of them; but where a window has been too large for a queue, a few requests are to
 * make one. Without a queue, losses cut windows as well, and parts would cost speed. As a power of
 * two, and packet @k is to begin one: see struct sroce_swqe.
 */
static u8 read_part(const struct sroce_qp *qp, u32 num_pkts, u32 k)
{
	const u32 requests = clamp_t(u32, qp->attr.max_rd_atomic, 1, PARTS_WINDOW);
	const struct sroce_cwnd *w = &qp->sq.cwnd;
	u32 part = SROCE_PART_ALL;

	if (w->ssthresh != U32_MAX && qp->sq.srtt >= READ_SLOW_NS && num_pkts - k > w->pkts &&
	    ktime_before(ktime_get(), ktime_add_ns(w->cut, READ_CUT_NS)))
		part = ilog2(max(w->pkts / requests, PART_MIN));
	return k ? min_t(u32, part, __ffs(k)) : part;
}

/*
 * The next request of a READ is to be made. Return: false if it is to wait, for those under way to
 * end: then it may ask for much more.
 */
static bool part_ready(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;
	struct sroce_swqe *swqe = sq_wqe(sq, sq->nxt);
	const u32 k = swqe->sent ? wire_psn_diff(sq->psn_nxt, swqe->first_psn) : 0;

	if (swqe->sent && swqe->part == SROCE_PART_ALL)
		return true;
	/* what fits the window goes on as it is: nothing is gained by waiting for the last of them */
	if (swqe->sent && sq->psn_nxt != sq->psn_una)
		return swqe->num_pkts - k <= sq->cwnd.pkts ||
		       read_part(qp, swqe->num_pkts, k) < swqe->part + PART_GROWTH;
	swqe->part = read_part(qp, swqe->num_pkts, k);
	return true;
}

/*
 * A request with a response, or the next part of one: may it go onto the wire? What has begun ends,
 * with the resources taken away in SQD, too: without another.
 */
static bool resource_open(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;
	const bool again = wire_psn_diff(sq->psn_nxt, sq->psn_end) < 0;
	const struct sroce_swqe *swqe = sq_wqe(sq, sq->nxt);

	if (!again && swqe_op(sq, sq->nxt)->kind == SEND_READ && !part_ready(qp))
		return false;
	if (!again && sq->num_rd >= max_t(u32, qp->attr.max_rd_atomic, swqe->sent)) {
		/* a part is as large as the window lets it be */
		sq->cwnd.full |= swqe->part != SROCE_PART_ALL;
		return false;
	}
	return !sq->num_rd || sq->psn_nxt == sq->psn_una || read_window_open(qp);
}

/* May the request begin now? 10.8.3 for the fence, 9.7.3.1 for the resources */
static bool may_begin(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;

	/* SQD: what has begun is finished, nothing begins (10.3.1.1) */
	if (READ_ONCE(qp->state) == IB_QPS_SQD)
		return false;
	if (sq_copy(sq, sq->nxt)->flags & SROCE_WQE_FENCE && sq->num_rd)
		return false;
	if (!psns_free(qp))
		return false;
	if (!takes_resource(swqe_op(sq, sq->nxt)))
		return true;
	return resource_open(qp);
}

/*
 * The next request is wrong. Errors are in order, too: all before it come first, and in SQD nothing
 * begins.
 */
static void fail_next(struct sroce_qp *qp)
{
	const struct sroce_sq *sq = &qp->sq;
	const struct sroce_swqe *swqe = sq_wqe(sq, sq->nxt);

	if (sq->nxt == sq->una && (swqe->sent || READ_ONCE(qp->state) != IB_QPS_SQD))
		sroce_send_fail(qp, swqe->status, 0);
}

/* The next request to send from, if it may be sent from now. */
static bool send_ready(struct send_turn *turn)
{
	struct sroce_qp *qp = turn->qp;
	const bool sqd = READ_ONCE(qp->state) == IB_QPS_SQD;
	struct sroce_sq *sq = &qp->sq;
	struct sroce_swqe *swqe;

	if (sq->fault.active)
		return false;
	if (sq->nxt == sq->fetched && (sqd || !sroce_sq_fetch(qp))) {
		turn->idle = !sqd;
		return false;
	}
	swqe = sq_wqe(sq, sq->nxt);
	/* an opcode is one that there is, unless there is a status */
	if (!swqe->status && sq->nxt == sq->una && !swqe->sent && !sqd &&
	    !qp->attr.max_rd_atomic && takes_resource(swqe_op(sq, sq->nxt)))
		/* it was right when it was fetched, but SQD has taken the resources away */
		swqe->status = IB_WC_LOC_QP_OP_ERR;
	if (swqe->status) {
		fail_next(qp);
		return false;
	}
	if (!swqe->sent)
		return may_begin(qp);
	return !takes_resource(swqe_op(sq, sq->nxt)) || resource_open(qp);
}

static bool window_open(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;
	u32 limit = SROCE_SEND_WINDOW / qp->mtu;

	if (!flight_open(qp) || !sroce_pace_open(qp, SROCE_SQ_BLOCKED, &sq->flags))
		return false;
	if (atomic_read(&qp->num->tx_skbs) < limit)
		return true;
	set_bit(SROCE_SQ_BLOCKED, &sq->flags);
	/* pairs with tx_free(): it sees the bit, or we see its skb gone */
	smp_mb__after_atomic();
	return atomic_read(&qp->num->tx_skbs) < limit;
}

/*
 * Of a READ's request, what is missing before the first response that is kept; all that is left of
 * it where asking for that has not helped. But not more than a window: it comes as a burst, and
 * what is lost of that is asked for here. A request of which nothing has come goes as it was: for
 * the peer it may be the first, and a longer one later would be none that it knows (9.7.5.1.2).
 * Return: the PSN behind it.
 */
static u32 ask_for_gap(struct send_turn *turn)
{
	struct sroce_sq *sq = &turn->qp->sq;
	const struct sroce_swqe *swqe = sq_wqe(sq, sq->nxt);
	const struct sroce_late *kept = sroce_kept_first(&sq->kept);
	const u32 end = part_end(swqe, sq->psn_nxt);
	const u32 rest = wire_psn_diff(end, sq->psn_nxt);
	const bool guess = sq->repair.blind || sq->repair.probes;
	bool known = sq->psn_nxt != part_start(swqe, sq->psn_nxt);
	u32 num = rest;

	turn->read_len = 0;
	if (swqe_op(sq, sq->nxt)->kind != SEND_READ)
		return end;
	/* an acknowledgement that is kept may name this very packet: no gap ends there */
	if (kept && wire_psn_diff(kept->rx.pkt.psn, end) < 0 &&
	    wire_psn_diff(kept->rx.pkt.psn, sq->psn_nxt) > 0) {
		num = wire_psn_diff(kept->rx.pkt.psn, sq->psn_nxt);
		known = true;
	}
	if (sq->repair.probes > ASKS_MAX)
		num = rest;
	turn->lacks = known ? num : 0;
	if (known && sq->repair.probes <= ASKS_MAX)
		num = min(num, guess ? PROBE_READ : sq->cwnd.pkts);
	if (num < rest)
		turn->read_len = num * turn->qp->mtu;
	return wire_psn_add(sq->psn_nxt, num);
}

/* Packets from psn_nxt on, by themselves: @end becomes the PSN behind them. */
static enum send_result send_alone(struct send_turn *turn, u32 limit, u32 *end)
{
	struct sroce_sq *sq = &turn->qp->sq;
	enum send_result res = SENT;
	u32 left = min_t(u32, sq->repair.num, sroce_pace_burst(turn->qp, false));
	bool stream;

	turn->alone = true;
	turn->lacks = 0;
	turn->ask_psn = wire_psn_add(sq->psn_nxt, left - 1);
	if (wire_psn_diff(turn->ask_psn, limit) >= 0)
		turn->ask_psn = wire_psn_add(limit, -1);
	*end = sq->psn_nxt;
	while (left-- && res == SENT && wire_psn_diff(sq->psn_nxt, limit) < 0) {
		stream = swqe_op(sq, sq->nxt)->kind == SEND_STREAM;
		/* a request that is answered with data goes alone indeed */
		if (!stream && *end != sq->repair.psn)
			break;
		if (!stream) {
			left = 0;
			limit = ask_for_gap(turn);
		}
		res = send_packet(turn);
		if (res == SENT)
			*end = stream ? sq->psn_nxt : limit;
	}
	/* there were fewer that follow each other: the last of them asks */
	if (*end == sq->psn_nxt && *end != sq->repair.psn && turn->started &&
	    wire_psn_diff(*end, turn->ask_psn) <= 0)
		sroce_burst_ask(&turn->burst);
	turn->alone = false;
	turn->read_len = 0;
	return res;
}

/* Where the requester is, while it sends something again. */
struct send_place {
	u32 nxt;
	u32 psn_nxt;
	u32 sge;
	u32 sge_off;
	u32 flight;
	u32 unasked;
};

static struct send_place place_save(const struct sroce_sq *sq)
{
	return (struct send_place) {
		.nxt = sq->nxt,
		.psn_nxt = sq->psn_nxt,
		.sge = sq->sge,
		.sge_off = sq->sge_off,
		.flight = sq->flight,
		.unasked = sq->unasked,
	};
}

/*
 * What was sent again has left, and the requester goes on from where it was. Return:
 * false if it does not: a list has become wrong meanwhile, which fails as any
 * that is sent again.
 */
static bool place_restore(struct sroce_sq *sq, const struct send_place *place)
{
	const struct sroce_swqe *swqe = sq_wqe(sq, sq->nxt);

	/* one that was never sent and is invalid fails when it becomes the oldest, not here */
	if (sq->nxt != sq->fetched && swqe->sent && swqe->status)
		return false;
	sq->nxt = place->nxt;
	sq->psn_nxt = place->psn_nxt;
	sq->sge = place->sge;
	sq->sge_off = place->sge_off;
	sq->flight = place->flight;
	sq->unasked = place->unasked;
	return true;
}

/* The oldest packet again, at once; then on from where we were. */
static enum send_result repair_one(struct send_turn *turn)
{
	struct sroce_qp *qp = turn->qp;
	struct sroce_sq *sq = &qp->sq;
	const struct send_place place = place_save(sq);
	enum send_result res, flushed;
	u32 end;

	sroce_send_seek(qp, sq->repair.psn);
	res = send_alone(turn, place.psn_nxt, &end);
	flushed = send_burst(turn);
	if (!place_restore(sq, &place))
		return SENT;
	/* refused, some of it or all, or not even written: it is still to be sent */
	if (flushed != SENT)
		return flushed;
	if (res == SEND_BACK || end == sq->repair.psn)
		return res;
	sq->repair.due = false;
	sroce_repair_sent(qp, end, turn->lacks);
	return res;
}

/*
 * Send again what is missing: of a READ, ask for the part of its response up to @end; of other
 * requests, send the packet at psn_nxt.
 */
static enum send_result send_missing(struct send_turn *turn, u32 end)
{
	struct sroce_qp *qp = turn->qp;
	struct sroce_sq *sq = &qp->sq;
	const struct sroce_swqe *swqe = sq_wqe(sq, sq->nxt);
	const u32 psn = sq->psn_nxt;
	enum send_result res;
	u32 num;

	if (sq->sweep.implied && swqe_op(sq, sq->nxt)->kind == SEND_READ &&
	    wire_psn_diff(end, part_end(swqe, psn)) < 0)
		turn->read_len = wire_psn_diff(end, psn) * qp->mtu;
	res = send_packet(turn);
	/* so much may come twice; of a READ request, all of its response */
	num = turn->read_len ? wire_psn_diff(end, psn) : wire_psn_diff(sq->psn_nxt, psn);
	if (res == SENT)
		turn->swept += num;
	turn->read_len = 0;
	return res;
}

/*
 * One gap, from psn_nxt to @end. Where responses tell of it, requests that have
 * none have arrived.
 */
static enum send_result send_gap(struct send_turn *turn, u32 end)
{
	struct sroce_qp *qp = turn->qp;
	struct sroce_sq *sq = &qp->sq;
	enum send_result res = SENT;

	while (res == SENT && turn->budget && wire_psn_diff(sq->psn_nxt, end) < 0 &&
	       sq->nxt != sq->fetched && sq_wqe(sq, sq->nxt)->sent) {
		const struct sroce_swqe *swqe = sq_wqe(sq, sq->nxt);

		turn->budget--;
		/* a READ request that has not arrived goes as a whole */
		if (!sq->sweep.implied && takes_resource(swqe_op(sq, sq->nxt)) &&
		    sq->psn_nxt != part_start(swqe, sq->psn_nxt))
			sroce_send_seek(qp, part_start(swqe, sq->psn_nxt));
		if (swqe_op(sq, sq->nxt)->kind == SEND_LOCAL) {
			next_request(sq);
		} else if (sq->sweep.implied && !sroce_send_awaits(sq, sq->nxt)) {
			/* to seek it would be a walk over all before it */
			sq->psn_nxt = wire_psn_add(swqe->first_psn, swqe->num_pkts);
			next_request(sq);
		} else {
			res = send_missing(turn, end);
		}
	}
	return res;
}

/* Is it still missing, and has it been sent at all? */
static bool gap_open(const struct sroce_sq *sq, const struct sroce_gap *gap, u32 psn_nxt)
{
	const u32 end = gap_end(gap);

	return wire_psn_diff(end, sq->psn_una) > 0 && wire_psn_diff(end, psn_nxt) <= 0;
}

/* Send as much of a gap as a turn takes: all before psn_nxt, once the burst has left. */
static enum send_result sweep_gap(struct send_turn *turn, const struct sroce_gap *gap)
{
	struct sroce_qp *qp = turn->qp;
	struct sroce_sq *sq = &qp->sq;
	const u32 end = gap_end(gap), first = wire_psn_add(gap->psn, gap->done);

	sroce_send_seek(qp, wire_psn_diff(first, sq->psn_una) < 0 ? sq->psn_una : first);
	turn->ask_psn = wire_psn_add(end, -1);
	return send_gap(turn, end);
}

/*
 * sweep_gap() has sent the packets of this gap that lie before psn_nxt, and they have left. The
 * others are still due, whatever it was that stopped them.
 */
static void swept_gap(struct sroce_sq *sq, struct sroce_gap *gap, ktime_t now)
{
	const u32 end = gap_end(gap);

	if (wire_psn_diff(sq->psn_nxt, end) >= 0) {
		sroce_gaps_sent(sq, gap, now);
	} else {
		gap->done = max(wire_psn_diff(sq->psn_nxt, gap->psn), (s32)gap->done);
	}
}

/* A request that is missing, as a whole: it has not been answered. */
static enum send_result sweep_request(struct send_turn *turn, u32 psn_nxt)
{
	struct sroce_sq *sq = &turn->qp->sq;
	struct sroce_sweep *sweep = &sq->sweep;
	const bool implied = sweep->implied;
	enum send_result res;

	sweep->request.due &= gap_open(sq, &sweep->request, psn_nxt);
	if (!sweep->request.due)
		return SENT;
	sweep->implied = false;
	turn->request = true;
	res = sweep_gap(turn, &sweep->request);
	/* by itself: it is behind the gaps */
	if (send_burst(turn) != SENT)
		res = SEND_BACK;
	swept_gap(sq, &sweep->request, ktime_get());
	turn->request = false;
	sweep->implied = implied;
	return res;
}

/* Send all gaps that are due, by PSN, as far as a turn goes. Return: how many were looked at. */
static u32 sweep_gaps(struct send_turn *turn, u32 psn_nxt, enum send_result *res)
{
	struct sroce_sq *sq = &turn->qp->sq;
	u32 i;

	for (i = 0; i < sq->sweep.num && *res == SENT && turn->budget; i++) {
		const struct sroce_gap *gap = &sq->sweep.gap[i];

		if (!gap->due || !gap_open(sq, gap, psn_nxt))
			continue;
		*res = sweep_gap(turn, gap);
		if (wire_psn_diff(sq->psn_nxt, gap_end(gap)) < 0) {
			i++;
			break;
		}
	}
	/* psn_nxt goes back to what has not left */
	if (send_burst(turn) != SENT)
		*res = SEND_BACK;
	return i;
}

/* Send again what is known to be missing, as much as a turn takes; the next turn sends the rest. */
static enum send_result send_gaps(struct send_turn *turn)
{
	struct sroce_qp *qp = turn->qp;
	struct sroce_sq *sq = &qp->sq;
	struct sroce_sweep *sweep = &sq->sweep;
	const struct send_place place = place_save(sq);
	enum send_result res;
	u32 looked, i;
	ktime_t now;

	turn->alone = true;
	res = sweep_request(turn, place.psn_nxt);
	looked = sweep_gaps(turn, place.psn_nxt, &res);
	now = ktime_get();
	turn->alone = false;
	sweep->due = sweep->request.due;
	for (i = 0; i < sweep->num; i++) {
		struct sroce_gap *gap = &sweep->gap[i];

		if (!gap->due || !gap_open(sq, gap, place.psn_nxt))
			continue;
		/* behind a part of a READ, psn_nxt is behind all of it */
		if (i < looked)
			swept_gap(sq, gap, now);
		sweep->due |= gap->due;
	}
	if (!place_restore(sq, &place))
		return SENT;
	sroce_repair_swept(qp);
	return res;
}

/* Something is missing at the peer. Return: may more be sent? */
static enum send_result send_repair(struct send_turn *turn)
{
	struct sroce_sq *sq = &turn->qp->sq;
	struct sroce_repair *r = &sq->repair;
	const u32 psn = sq->psn_nxt;
	enum send_result res = SENT;

	/* its memory is being brought: then, with the rest that may be held for it */
	if (sq->fault.active)
		return SEND_STOP;
	if (r->due && (r->psn != sq->psn_una || psn == sq->psn_una))
		sroce_repair_forget(turn->qp);
	if (r->due)
		res = repair_one(turn);
	if (res == SENT && sq->sweep.due)
		res = send_gaps(turn);
	return res == SENT && r->hold ? SEND_STOP : res;
}

/* What the stack has taken in this turn. */
static void count_left(struct send_turn *turn)
{
	struct sroce_qp *qp = turn->qp;

	if (turn->left.pkts) {
		sroce_qp_count_add(qp, TX_PKTS, turn->left.pkts);
		sroce_qp_count_add(qp, TX_BYTES, turn->left.bytes);
		sroce_pace_sent(qp, turn->left.pkts, turn->left.bytes, false);
	}
	if (unlikely(READ_ONCE(qp->pace.cap)) && turn->left.wire)
		sroce_pace_spend_cap(qp, turn->left.wire);
	if (unlikely(turn->left.again))
		sroce_qp_count_add(qp, RETRANSMITTED, turn->left.again);
}

static void send_packets(struct send_turn *turn)
{
	struct sroce_qp *qp = turn->qp;
	struct sroce_sq *sq = &qp->sq;
	const u32 budget = turn->budget;
	enum send_result res = SENT;
	u32 later;

	if (sq->rnr_wait || sq->backoff != KTIME_MAX)
		return;
	if (unlikely(sq->repair.due || sq->repair.hold || sq->sweep.due))
		res = sroce_pace_open(qp, SROCE_SQ_BLOCKED, &sq->flags) ? send_repair(turn) :
									  SEND_STOP;
	/* by a rate, that was some of the turn's */
	if (unlikely(READ_ONCE(qp->pace.paced)))
		turn->budget = min(turn->budget, budget - min(budget, turn->left.pkts));
	/* the rest is for the next acknowledgement: one has been asked for among these */
	later = turn->budget - min(turn->budget, sroce_cwnd_burst(qp));
	turn->budget -= later;
	while (turn->budget && (res == SENT || res == SEND_LOST) && window_open(qp) &&
	       send_ready(turn)) {
		turn->budget--;
		if (swqe_op(sq, sq->nxt)->kind == SEND_LOCAL) {
			res = send_local(turn);
			/* no packet: there is one more to be sent, if any was left for later */
			if (later) {
				turn->budget++;
				later--;
			}
		} else if (qp->type == IB_QPT_RAW_PACKET) {
			res = send_frame(turn);
		} else {
			res = send_packet(turn);
		}
	}
	/* unless nothing is out, of which one could come */
	if (turn->budget || sq->psn_una != sq->psn_end)
		turn->budget += later;
	ask_late(turn);
	if (res != SEND_BACK)
		res = send_burst(turn);
	count_left(turn);
	if (turn->av)
		sroce_av_put(turn->av);
	turn->av = NULL;
	if (res == SEND_BACK)
		sroce_retry_backoff(qp);
	/* a request that was found wrong may be the oldest by now */
	else if (!sq->fault.active && sq->nxt != sq->fetched && sq_wqe(sq, sq->nxt)->status)
		fail_next(qp);
}

/* ERR: all that is posted ends, in order, once (10.3.1, WR_FLUSH_ERR). */
static void send_flush_all(struct send_turn *turn)
{
	struct sroce_qp *qp = turn->qp;
	struct sroce_sq *sq = &qp->sq;

	/* who has a region takes no rq.lock, and this does */
	sroce_send_mr_put(qp);
	sroce_kept_purge(qp, &sq->kept);
	sq->refusals = 0;
	while (turn->budget && (sq->una != sq->fetched || sroce_sq_fetch(qp))) {
		turn->budget--;
		sroce_send_complete(qp, IB_WC_WR_FLUSH_ERR);
	}
	sq->nxt = sq->una;
	/* the next after SQE starts at its own list's start */
	list_start(sq);
	turn->idle = turn->budget != 0;
	if (!turn->idle || !sq->tagged)
		return;
	/* the buffers of its tags have been in use until now */
	spin_lock_bh(&qp->rq.lock);
	sroce_qp_last_wqe(qp);
	sroce_rq_unlock(&qp->rq);
}

/**
 * sroce_send_draining - is something begun and not complete?
 * @qp: queue pair
 *
 * Return: true if so.
 */
bool sroce_send_draining(const struct sroce_qp *qp)
{
	return qp->sq.una != qp->sq.fetched && sq_wqe(&qp->sq, qp->sq.una)->sent;
}

static void check_drained(struct sroce_qp *qp)
{
	if (READ_ONCE(qp->state) != IB_QPS_SQD || qp->sq.drained || sroce_send_draining(qp))
		return;
	qp->sq.drained = true;
	if (qp->attr.en_sqd_async_notify)
		sroce_qp_event(qp, IB_EVENT_SQ_DRAINED);
}

/* What was to be paged in is there, or never will be. */
static void fault_run(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;

	if (!test_and_clear_bit(SROCE_SQ_FAULT, &sq->flags))
		return;
	sq->fault.active = false;
	sroce_ack_waited(qp);
	if (sq->fault.active)
		return;
	if (sq->missed && sq->una != sq->fetched) {
		sroce_repair_forget(qp);
		sroce_gaps_reset(qp);
		sroce_order_again(sq, wire_psn_diff(sq->psn_nxt, sq->psn_una), true);
		sroce_send_seek(qp, sq->psn_una);
	}
	sq->missed = false;
}

/**
 * sroce_send_fault_done - paging in has ended
 * @qp: queue pair
 * @err: 0, or why the memory can't be had
 *
 * Process context.
 */
void sroce_send_fault_done(struct sroce_qp *qp, int err)
{
	qp->sq.fault.err = err;
	/* the outcome before the news of it */
	smp_mb__before_atomic();
	set_bit(SROCE_SQ_FAULT, &qp->sq.flags);
	sroce_send_run(qp);
}

/*
 * One turn; what it takes is added to @work, see sroce_send_some(). Return: there is more, and
 * others should have the CPU first.
 */
static bool send_turn(struct sroce_qp *qp, u32 *work)
{
	const u32 pkts = max(SEND_TURN_BYTES / qp->mtu, SEND_TURN_PKTS);
	const u32 budget = min(pkts, sroce_pace_burst(qp, false));
	struct send_turn turn = { .qp = qp, .budget = budget };

	if (test_and_clear_bit(SROCE_SQ_RANG, &qp->sq.flags))
		sroce_doorbell_judge(qp);
	if (test_and_clear_bit(SROCE_SQ_LATE, &qp->sq.flags))
		sroce_doorbell_late(qp);
	*work += sroce_ack_run(qp);
	sroce_retry_run(qp);
	sroce_doorbell_awake(qp);
	fault_run(qp);

	if (READ_ONCE(qp->state) == IB_QPS_RTS || READ_ONCE(qp->state) == IB_QPS_SQD)
		send_packets(&turn);
	/* sent to its own address, it is acknowledged: say so before others go on from there */
	*work += sroce_ack_run(qp);
	if (READ_ONCE(qp->state) == IB_QPS_ERR || READ_ONCE(qp->state) == IB_QPS_SQE)
		send_flush_all(&turn);
	sroce_send_mr_put(qp);
	/* what is sent again alone has no budget */
	*work += max(budget - turn.budget, turn.left.pkts) * qp->mtu;

	check_drained(qp);
	/* else blocked by the window, the device or time: those will wake us */
	if (turn.idle)
		sroce_doorbell_rest(qp);
	sroce_retry_arm(qp);
	return !turn.budget;
}

/*
 * A turn, if there is something to do and nobody else is at it. Return: there
 * is more. Between two turns the stack gets the CPU, unless it called.
 */
static bool run_once(struct sroce_qp *qp, u32 *work)
{
	struct sroce_sq *sq = &qp->sq;
	bool more = false;

	local_bh_disable();
	rcu_read_lock();
	if (test_bit(SROCE_SQ_WORK, &sq->flags) &&
	    !test_and_set_bit_lock(SROCE_SQ_OWNED, &sq->flags)) {
		/* the note first: with another state, whoever made it ERR leaves one */
		if (test_and_clear_bit(SROCE_SQ_WORK, &sq->flags) &&
		    READ_ONCE(qp->state) >= IB_QPS_RTS && send_turn(qp, work))
			set_bit(SROCE_SQ_WORK, &sq->flags);
		clear_bit_unlock(SROCE_SQ_OWNED, &sq->flags);
		/* a note left while we were leaving is seen by one of the two */
		smp_mb__after_atomic();
		more = test_bit(SROCE_SQ_WORK, &sq->flags);
		/* with bottom halves on, the caller may lose the CPU before it comes back for that */
		if (more)
			sroce_doorbell_stuck(sq);
	}
	rcu_read_unlock();
	local_bh_enable();
	return more;
}

/**
 * sroce_send_run - see to a send side
 * @qp: queue pair
 *
 * Process context or softirq, with no lock held that a completion handler or
 * the network stack may want. Returns at once if somebody is at it: that one
 * looks again.
 */
void sroce_send_run(struct sroce_qp *qp)
{
	struct sroce_sq *sq = &qp->sq;
	int turns = softirq_count() ? SEND_TURNS_SOFTIRQ : SEND_TURNS_PROCESS;
	u32 work = 0;

	/* XRC TGT queue pairs have none */
	if (!sq->q.ring)
		return;
	/* what is to be seen before the note: it is taken by who has no other lock of ours */
	smp_mb__before_atomic();
	set_bit(SROCE_SQ_WORK, &sq->flags);
	while (turns && run_once(qp, &work))
		turns--;
	if (!turns)
		sroce_task_schedule(&sq->task);
}

/**
 * sroce_send_some - see to a send side, for a turn
 * @qp: queue pair
 * @work: what the turn has taken is added, in bytes: of packets and requests a path MTU each, as
 *	short ones cost about as much, and the payload of responses
 *
 * As sroce_send_run(). For who sees to several: with bottom halves off, the stack gets the CPU when
 * all have sent something.
 *
 * Return: sroce_qp_kick() is due.
 */
bool sroce_send_some(struct sroce_qp *qp, u32 *work)
{
	struct sroce_sq *sq = &qp->sq;

	if (!sq->q.ring)
		return false;
	/* as there */
	smp_mb__before_atomic();
	set_bit(SROCE_SQ_WORK, &sq->flags);
	return run_once(qp, work) || READ_ONCE(qp->state) == IB_QPS_ERR;
}

/**
 * sroce_send_task - run the requester where its caller could not
 * @task: the send side's
 */
void sroce_send_task(struct sroce_task *task)
{
	sroce_qp_kick(container_of(task, struct sroce_qp, sq.task));
}

/**
 * sroce_send_try_claim - become a send side's owner, if it has none
 * @qp: queue pair
 *
 * Any context but hard interrupts.
 *
 * Return: true, with bottom halves off until sroce_send_release(), which is due.
 */
bool sroce_send_try_claim(struct sroce_qp *qp)
{
	local_bh_disable();
	if (!test_and_set_bit_lock(SROCE_SQ_OWNED, &qp->sq.flags))
		return true;
	local_bh_enable();
	return false;
}

/**
 * sroce_send_claim - become a send side's owner, to change it
 * @qp: queue pair
 *
 * Process context. An owner's turn is bounded and has bottom halves off, as has the caller until
 * sroce_send_release(). With PREEMPT_RT it may be preempted, and want a lock of who waits for this
 * CPU: that one has to be given time.
 */
void sroce_send_claim(struct sroce_qp *qp)
{
	while (!sroce_send_try_claim(qp)) {
		if (IS_ENABLED(CONFIG_PREEMPT_RT))
			usleep_range(SROCE_TURN_US, 2 * SROCE_TURN_US);
		else
			cond_resched();
	}
}

/**
 * sroce_send_release - let a send side go
 * @qp: queue pair that was claimed
 *
 * What was asked of it meanwhile is done here.
 */
void sroce_send_release(struct sroce_qp *qp)
{
	clear_bit_unlock(SROCE_SQ_OWNED, &qp->sq.flags);
	sroce_send_run(qp);
	local_bh_enable();
}

/* What a turn would have to see to */
#define SENDS_FOR (BIT(SROCE_SQ_WORK) | BIT(SROCE_SQ_TIMER) | BIT(SROCE_SQ_FAULT) | \
		   BIT(SROCE_SQ_RANG) | BIT(SROCE_SQ_LATE))

/* Is there nothing to do but to wait, for answers or for a doorbell? */
static bool at_rest(const struct sroce_qp *qp)
{
	const struct sroce_sq *sq = &qp->sq;

	/* with a sparing window, turns see what arrives in between */
	if (!sq->asleep || sq->nxt != sq->fetched || sq->repair.due || sq->repair.hold ||
	    sq->sweep.due || READ_ONCE(sq->num_late) || sq->fault.active || sq->cwnd.sparing ||
	    READ_ONCE(qp->state) != IB_QPS_RTS || READ_ONCE(sq->flags) & SENDS_FOR)
		return false;
	/* a completion handler, or a tag, may have posted, and what that has called for waits for a task */
	return (qp->ibuc && !sq->tagged) || READ_ONCE(sq->q.ring->prod) == sq->fetched;
}

/**
 * sroce_send_answered - let a send side go that was claimed for what its peer has sent
 * @qp: queue pair
 *
 * As sroce_send_release(); but a lone request that is answered leaves nothing to do, and a turn
 * would say to the program once more that it has to ring.
 */
void sroce_send_answered(struct sroce_qp *qp)
{
	if (!at_rest(qp)) {
		sroce_send_release(qp);
		return;
	}
	sroce_retry_arm(qp);
	clear_bit_unlock(SROCE_SQ_OWNED, &qp->sq.flags);
	/* a note left while we were leaving is seen by one of the two */
	smp_mb__after_atomic();
	if (test_bit(SROCE_SQ_WORK, &qp->sq.flags))
		sroce_send_run(qp);
	local_bh_enable();
}
