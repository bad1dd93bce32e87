/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The rings of sroce-abi.h, seen from the program's side: all that is shared
 * with the kernel is touched here, so that the order of these accesses can be
 * checked in one place.
 */
#ifndef SROCE_RING_H
#define SROCE_RING_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

#include <rdma/sroce-abi.h>

/**
 * struct sroce_ring_view - a mapped ring and this side's copy of its indices
 * @ring: the header, shared with the kernel
 * @entries: the entries behind it
 * @num: how many, a power of two; 0 if there is no ring
 * @entry_size: bytes
 * @prod: where the ring is a work queue: index of the next entry to fill,
 *	changed under the queue's lock
 * @cons: of a work queue: oldest index that is still in use, changed under the
 *	lock of the completion queue, of a shared one under the queue's own; of a
 *	completion queue: next to be polled
 * @map_size: bytes to unmap
 *
 * The copies are what the provider goes by: its own index is never read back
 * from the ring.
 */
struct sroce_ring_view {
	struct sroce_ring *ring;
	uint8_t *entries;
	uint32_t num;
	uint32_t entry_size;
	uint32_t prod;
	uint32_t cons;
	uint32_t map_size;
};

static inline void *sroce_ring_entry(const struct sroce_ring_view *v,
				     uint32_t index)
{
	return v->entries + (size_t)(index & (v->num - 1)) * v->entry_size;
}

/*
 * Entries that may be filled from @prod on. The acquire pairs with the release
 * in sroce_ring_retire(): the entries have been read by whoever freed them.
 */
static inline uint32_t sroce_ring_space(const struct sroce_ring_view *v,
					uint32_t prod)
{
	return v->num - (prod - __atomic_load_n(&v->cons, __ATOMIC_ACQUIRE));
}

/**
 * sroce_ring_lent - can a completion give back the entries before @next?
 *
 * @next comes out of memory that all of the program can store to. One that is
 * not between our own indices must not make the ring look emptier than it is.
 * prod was stored before the kernel could complete anything behind it, so a
 * relaxed load is recent enough.
 */
static inline bool sroce_ring_lent(const struct sroce_ring_view *v, uint32_t next)
{
	uint32_t used = __atomic_load_n(&v->prod, __ATOMIC_RELAXED) - v->cons;

	return next - v->cons <= used;
}

/* A completion gave back the entries before @next. */
static inline void sroce_ring_retire(struct sroce_ring_view *v, uint32_t next)
{
	__atomic_store_n(&v->cons, next, __ATOMIC_RELEASE);
}

/**
 * sroce_ring_refresh - look how far the kernel has got with a shared queue
 *
 * The acquire pairs with the kernel's release: what it gives back, it has read.
 * As in sroce_ring_lent(), an index that is not between ours is none of the
 * kernel's, and frees nothing.
 */
static inline void sroce_ring_refresh(struct sroce_ring_view *v)
{
	uint32_t cons = __atomic_load_n(&v->ring->cons, __ATOMIC_ACQUIRE);

	if (cons - v->cons <= v->prod - v->cons)
		__atomic_store_n(&v->cons, cons, __ATOMIC_RELAXED);
}

/* Hand the entries before @prod to the kernel. */
static inline void sroce_ring_publish(struct sroce_ring_view *v, uint32_t prod)
{
	__atomic_store_n(&v->prod, prod, __ATOMIC_RELAXED);
	__atomic_store_n(&v->ring->prod, prod, __ATOMIC_RELEASE);
}

/* What a program has to do for the kernel to see what it has published. */
enum sroce_ring_state {
	SROCE_RING_AWAKE,	/* nothing */
	SROCE_RING_DELAYED,	/* ring before it waits for anything */
	SROCE_RING_ASLEEP,	/* ring now */
};

/**
 * sroce_ring_state - does the kernel have to be told of what was published?
 *
 * The barrier pairs with the kernel's, which sets the flag and then looks at
 * prod once more: either it sees the new index, or we see the flag. With a
 * flag, and seen or linger from before it, we ring once too often.
 */
static inline enum sroce_ring_state
sroce_ring_state(const struct sroce_ring_view *v)
{
	const struct sroce_ring *ring = v->ring;
	uint32_t flags;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	flags = __atomic_load_n(&ring->flags, __ATOMIC_RELAXED);
	if (flags & SROCE_RING_NEED_WAKEUP)
		return SROCE_RING_ASLEEP;
	if (!(flags & SROCE_RING_LINGER))
		return SROCE_RING_AWAKE;
	if (v->prod - __atomic_load_n(&ring->seen, __ATOMIC_RELAXED) >=
	    __atomic_load_n(&ring->linger, __ATOMIC_RELAXED))
		return SROCE_RING_ASLEEP;
	return SROCE_RING_DELAYED;
}

/* Is there something that a kernel which lingers has not looked at yet? */
static inline bool sroce_ring_unseen(const struct sroce_ring_view *v)
{
	return __atomic_load_n(&v->prod, __ATOMIC_RELAXED) !=
	       __atomic_load_n(&v->ring->seen, __ATOMIC_RELAXED);
}

/* May what is published be left for the kernel to find, up to a number? */
static inline bool sroce_ring_lingers(const struct sroce_ring_view *v)
{
	return __atomic_load_n(&v->ring->flags, __ATOMIC_RELAXED) &
	       SROCE_RING_LINGER;
}

/*
 * Index behind the entries that the kernel has taken; in a send queue, that have
 * completed. The acquire is for who fills those behind.
 */
static inline uint32_t sroce_ring_done(const struct sroce_ring_view *v)
{
	return __atomic_load_n(&v->ring->cons, __ATOMIC_ACQUIRE);
}

/* Entries beyond that. */
static inline uint32_t sroce_ring_waiting(const struct sroce_ring_view *v)
{
	return __atomic_load_n(&v->prod, __ATOMIC_RELAXED) - sroce_ring_done(v);
}

/* Index behind the last entry that has been filled, by whoever fills this ring. */
static inline uint32_t sroce_ring_filled(const struct sroce_ring_view *v)
{
	return __atomic_load_n(&v->ring->prod, __ATOMIC_ACQUIRE);
}

/* Give the entries before @cons back to the kernel. */
static inline void sroce_ring_consume(struct sroce_ring_view *v, uint32_t cons)
{
	v->cons = cons;
	__atomic_store_n(&v->ring->cons, cons, __ATOMIC_RELEASE);
}

/*
 * Is this an index that the kernel can have stored? The ring is memory of the
 * program, too: a stray store must not send the poller around the ring for ever.
 */
static inline bool sroce_ring_sane(const struct sroce_ring_view *v,
				   uint32_t filled)
{
	return filled - v->cons <= v->num;
}

/*
 * The kernel has gone on to a ring that could not be mapped, and touches this one no
 * more: have who polls it find an index that can't be.
 */
static inline void sroce_ring_lose_filled(struct sroce_ring_view *v)
{
	__atomic_store_n(&v->ring->prod, v->cons + v->num + 1, __ATOMIC_RELAXED);
}

/* The same for who fills it: it is full, and what says otherwise makes no sense. */
static inline void sroce_ring_lose_room(struct sroce_ring_view *v)
{
	__atomic_store_n(&v->cons, v->prod - v->num, __ATOMIC_RELAXED);
	__atomic_store_n(&v->ring->cons, v->prod + 1, __ATOMIC_RELAXED);
}

/*
 * Ask for an event. The barrier is for the poll that has to follow: the kernel
 * adds a completion and then looks at arm, we set arm and then look for a
 * completion, and one of the two sees the other.
 */
static inline void sroce_ring_arm(struct sroce_ring_view *v, uint32_t how)
{
	__atomic_fetch_or(&v->ring->arm, how, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

#endif /* SROCE_RING_H */
