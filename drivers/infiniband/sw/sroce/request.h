/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the requester's files share: request.c has requests, from the ring to
 * their completion, send.c the packets that are made of them, and ack.c what
 * becomes of those.
 */
#ifndef SROCE_REQUEST_H
#define SROCE_REQUEST_H

#include "sroce.h"

/* What the requester does with an operation. */
enum send_kind {
	SEND_NONE,		/* no such operation */
	SEND_STREAM,		/* a message of as many packets as it takes */
	SEND_READ,		/* a request whose response is a message */
	SEND_ATOMIC,		/* a request whose response is eight bytes */
	SEND_ATOMIC_WRITE,	/* eight bytes, and a response */
	SEND_FLUSH,		/* a request, and a response */
	SEND_LOCAL,		/* nothing leaves */
};

/**
 * struct sroce_send_op - how an operation goes onto the wire
 * @first: operation of a message's first packet
 * @middle: of those between
 * @last: of its last
 * @only: of the only one
 * @wc: enum ib_uverbs_wc_opcode of its completion
 * @kind: enum send_kind
 * @inlined: it may have data in place of a list
 * @kernel: programs don't have it
 * @qpts: types of queue pairs that have it, a bit each
 */
struct sroce_send_op {
	u8 first;
	u8 middle;
	u8 last;
	u8 only;
	u8 wc;
	u8 kind;
	bool inlined;
	bool kernel;
	u32 qpts;
};

extern const struct sroce_send_op sroce_send_ops[];

static inline const struct sroce_send_op *swqe_op(const struct sroce_sq *sq, u32 index)
{
	return &sroce_send_ops[sq_copy(sq, index)->opcode];
}

/* Does a request take one of the peer's responder resources? */
static inline bool takes_resource(const struct sroce_send_op *op)
{
	return op->kind >= SEND_READ && op->kind <= SEND_FLUSH;
}

/*
 * A response is not acknowledged, so nothing but its request says how much of it is under way at
 * a time. Where the window is smaller than that, a READ goes onto the wire as several: each is a
 * request of its own for the peer, with its own resource (9.7.3.1), PSNs and end.
 */

/* Of @k packets of a response: those of its request from there on. */
static inline u32 part_left(const struct sroce_swqe *swqe, u32 k)
{
	return min(swqe->num_pkts, ((k >> swqe->part) + 1) << swqe->part) - k;
}

/* The first PSN of the request on the wire that has @psn, of a READ that has. */
static inline u32 part_start(const struct sroce_swqe *swqe, u32 psn)
{
	const u32 k = wire_psn_diff(psn, swqe->first_psn);

	return wire_psn_add(swqe->first_psn, k >> swqe->part << swqe->part);
}

/* The PSN behind it. */
static inline u32 part_end(const struct sroce_swqe *swqe, u32 psn)
{
	return wire_psn_add(psn, part_left(swqe, wire_psn_diff(psn, swqe->first_psn)));
}

/* Requests on the wire of which all lies before @psn, of one that was sent and has a response. */
static inline u32 parts_before(const struct sroce_swqe *swqe, u32 psn)
{
	const s32 k = wire_psn_diff(psn, swqe->first_psn);

	if (k >= (s32)swqe->num_pkts)
		return ((swqe->num_pkts - 1) >> swqe->part) + 1;
	return k > 0 ? k >> swqe->part : 0;
}

bool sroce_sq_fetch(struct sroce_qp *qp);

#endif /* SROCE_REQUEST_H */
