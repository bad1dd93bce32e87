// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Packets that came before their turn, by PSN, until what is missing before
 * them has come: requests at the responder, responses at the requester.
 *
 * A packet is kept with its skb, not copied. What an skb pins is all of it, so
 * that is what counts against the bounds, once for all its packets that follow
 * each other here: the first of such a run is charged for it.
 */
#include <linux/slab.h>

#include "sroce.h"
#include "trace.h"

/* Of a side of a queue pair. A window of single packets pins twice its bytes, or more. */
#define KEPT_MAX_BYTES	(3 * SROCE_WINDOW_MAX)

/* Of a link: a peer that leaves its gaps open takes it from others, who then go back. */
#define KEPT_DEV_BYTES	(128L << 20)

static struct sroce_late *kept_entry(struct rb_node *node)
{
	return rb_entry_safe(node, struct sroce_late, node);
}

static bool same_skb(const struct sroce_late *a, const struct sroce_late *b)
{
	return a && b && a->rx.skb && a->rx.skb == b->rx.skb;
}

/* What @late pins, as the first packet of its skb: with the books, or off them. */
static bool charge(struct sroce_qp *qp, struct sroce_kept *kept, struct sroce_late *late)
{
	const u32 bytes = sizeof(*late) + (late->rx.skb ? late->rx.skb->truesize : 0);
	atomic_long_t *all = &qp_dev(qp)->kept_bytes;

	if (bytes > KEPT_MAX_BYTES - kept->bytes)
		return false;
	if (atomic_long_add_return(bytes, all) > KEPT_DEV_BYTES) {
		atomic_long_sub(bytes, all);
		return false;
	}
	kept->bytes += bytes;
	late->charge = bytes;
	return true;
}

static void uncharge(struct sroce_qp *qp, struct sroce_kept *kept, struct sroce_late *late)
{
	atomic_long_sub(late->charge, &qp_dev(qp)->kept_bytes);
	kept->bytes -= late->charge;
	late->charge = 0;
}

static void pass_charge(struct sroce_late *from, struct sroce_late *to)
{
	to->charge = from->charge;
	from->charge = 0;
}

/* Into the tree goes @late, between @prev and @next: who is charged for what? */
static bool charge_between(struct sroce_qp *qp, struct sroce_kept *kept, struct sroce_late *prev,
			   struct sroce_late *late, struct sroce_late *next)
{
	if (same_skb(prev, late))
		return true;
	if (same_skb(late, next)) {
		pass_charge(next, late);
		return true;
	}
	if (!charge(qp, kept, late))
		return false;
	/* it parts two of one skb */
	if (!same_skb(prev, next) || charge(qp, kept, next))
		return true;
	uncharge(qp, kept, late);
	return false;
}

static struct rb_node **find_place(struct sroce_kept *kept, u32 psn, struct rb_node **parent)
{
	struct rb_node **link = &kept->tree.rb_node;

	*parent = NULL;
	/* most come in their order, but for the gap */
	if (kept->last && wire_psn_diff(psn, kept->last->rx.pkt.psn) > 0) {
		*parent = &kept->last->node;
		return &kept->last->node.rb_right;
	}
	while (*link) {
		s32 diff = wire_psn_diff(psn, kept_entry(*link)->rx.pkt.psn);

		*parent = *link;
		if (!diff)
			return NULL;
		link = diff < 0 ? &(*link)->rb_left : &(*link)->rb_right;
	}
	return link;
}

static struct sroce_late *kept_alloc(const struct sroce_kept *kept, const struct sroce_rx *rx)
{
	struct sroce_late *late;

	if (kept->num >= SROCE_KEPT_MAX_PKTS)
		return NULL;
	late = kmalloc(sizeof(*late), GFP_ATOMIC | __GFP_NOWARN);
	if (!late)
		return NULL;
	late->rx = *rx;
	late->charge = 0;
	/* all there is of others are headers, and those are in @rx */
	if (!rx->pkt.payload_len)
		late->rx.skb = NULL;
	return late;
}

/**
 * sroce_keep - keep a packet until its turn
 * @qp: queue pair
 * @kept: of that of its sides whose lock is held, or which the caller owns
 * @rx: the packet, less than half of all PSNs ahead of the side
 *
 * Softirq.
 *
 * Return: what became of it.
 */
enum sroce_keep sroce_keep(struct sroce_qp *qp, struct sroce_kept *kept, struct sroce_rx *rx)
{
	struct rb_node *parent, **link;
	struct sroce_late *late, *prev, *next;

	link = find_place(kept, rx->pkt.psn, &parent);
	if (!link)
		return SROCE_KEPT_TWICE;
	late = kept_alloc(kept, rx);
	if (!late)
		goto dropped;
	rb_link_node(&late->node, parent, link);
	rb_insert_color(&late->node, &kept->tree);
	prev = kept_entry(rb_prev(&late->node));
	next = kept_entry(rb_next(&late->node));
	if (!charge_between(qp, kept, prev, late, next)) {
		rb_erase(&late->node, &kept->tree);
		kfree(late);
		goto dropped;
	}
	if (late->rx.skb)
		sroce_late_hold(late->rx.skb);
	if (!next)
		kept->last = late;
	kept->num++;
	sroce_qp_count(qp, RX_KEPT);
	trace_sroce_kept(qp, rx->pkt.psn, kept->num, kept->bytes);
	return SROCE_KEPT;

dropped:
	sroce_qp_count(qp, RX_KEPT_DROPPED);
	return SROCE_KEPT_NOT;
}

/* PSNs that it stands for: a READ request takes those of its response. */
static u32 kept_psns(const struct sroce_qp *qp, const struct wire_pkt *pkt)
{
	if (pkt->op->class != WIRE_CLASS_READ)
		return 1;
	return pkt->dma_len ? DIV_ROUND_UP(pkt->dma_len, qp->mtu) : 1;
}

/**
 * sroce_kept_opens - is something missing between what is kept and this packet?
 * @qp: queue pair
 * @kept: as for sroce_keep()
 * @psn: of the packet, before it is kept
 */
bool sroce_kept_opens(const struct sroce_qp *qp, const struct sroce_kept *kept, u32 psn)
{
	const struct wire_pkt *last;

	if (!kept->last)
		return true;
	last = &kept->last->rx.pkt;
	return wire_psn_diff(psn, wire_psn_add(last->psn, kept_psns(qp, last))) > 0;
}

/**
 * sroce_kept_gaps - what is missing before and between what is kept
 * @qp: queue pair
 * @kept: as for sroce_keep()
 * @from: the packet whose turn it is: it is missing
 * @gaps: filled in, as far as it goes
 */
void sroce_kept_gaps(const struct sroce_qp *qp, const struct sroce_kept *kept, u32 from,
		     struct wire_gaps *gaps)
{
	struct sroce_late *late;
	u32 behind = 0;

	gaps->num = 0;
	for (late = sroce_kept_first(kept); late; late = kept_entry(rb_next(&late->node))) {
		const u32 first = wire_psn_diff(late->rx.pkt.psn, from);

		if (first > behind) {
			if (gaps->num == WIRE_GAPS_MAX || first >= U16_MAX)
				break;
			gaps->gap[gaps->num++] = (struct wire_gap) {
				.first = behind,
				.num = first - behind,
			};
		}
		behind = max(behind, first + kept_psns(qp, &late->rx.pkt));
		behind = min_t(u32, behind, U16_MAX);
	}
	gaps->end = behind;
}

/**
 * sroce_kept_first - the packet whose turn comes first
 * @kept: as for sroce_keep()
 *
 * Return: the packet, or NULL.
 */
struct sroce_late *sroce_kept_first(const struct sroce_kept *kept)
{
	return kept_entry(rb_first(&kept->tree));
}

/**
 * sroce_kept_take - a packet is kept no more
 * @qp: queue pair
 * @kept: as for sroce_keep()
 * @late: the first packet; the caller's, and then sroce_late_free()'s
 */
void sroce_kept_take(struct sroce_qp *qp, struct sroce_kept *kept, struct sroce_late *late)
{
	struct sroce_late *next = kept_entry(rb_next(&late->node));

	if (same_skb(late, next))
		pass_charge(late, next);
	else
		uncharge(qp, kept, late);
	if (!next)
		kept->last = NULL;
	rb_erase(&late->node, &kept->tree);
	kept->num--;
}

/**
 * sroce_kept_purge - nobody will take these any more
 * @qp: queue pair
 * @kept: as for sroce_keep()
 */
void sroce_kept_purge(struct sroce_qp *qp, struct sroce_kept *kept)
{
	struct sroce_late *late;

	while ((late = sroce_kept_first(kept))) {
		sroce_kept_take(qp, kept, late);
		sroce_late_free(late);
	}
}
