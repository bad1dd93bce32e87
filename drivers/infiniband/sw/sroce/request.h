/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the requester's two halves share: request.c has requests, from the ring
 * to their completion, and send.c the packets that are made of them.
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

bool sroce_sq_fetch(struct sroce_qp *qp);

#endif /* SROCE_REQUEST_H */
