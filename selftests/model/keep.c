// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * keep.c: packets that came before their turn, and what they may pin. In the
 * place of the tree is a sorted array.
 */
#include "model.h"

#define LATE_LEN	200U		/* sizeof(struct sroce_late), about */

static bool same_skb(const struct late *a, const struct late *b)
{
	return a && b && a->rx.p && b->rx.p && a->rx.p->skb == b->rx.p->skb;
}

static bool charge(struct kept *kept, struct late *late)
{
	const u32 bytes = LATE_LEN + (late->rx.p ? late->rx.p->truesize : 0);

	if (bytes > kept->max_bytes - kept->bytes)
		return false;
	if (w.kept_dev + bytes > w.plan.kept_dev)
		return false;
	w.kept_dev += bytes;
	kept->bytes += bytes;
	late->charge = bytes;
	return true;
}

static void uncharge(struct kept *kept, struct late *late)
{
	w.kept_dev -= late->charge;
	kept->bytes -= late->charge;
	late->charge = 0;
}

static void pass_charge(struct late *from, struct late *to)
{
	to->charge = from->charge;
	from->charge = 0;
}

static bool charge_between(struct kept *kept, struct late *prev, struct late *late,
			   struct late *next)
{
	if (same_skb(prev, late))
		return true;
	if (same_skb(late, next)) {
		pass_charge(next, late);
		return true;
	}
	if (!charge(kept, late))
		return false;
	/* it parts two of one skb */
	if (!same_skb(prev, next) || charge(kept, next))
		return true;
	uncharge(kept, late);
	return false;
}

/* PSNs that it stands for: a READ request takes those of its response. */
static u32 kept_psns(const struct wire_pkt *pkt)
{
	if (pkt->op->class != WIRE_CLASS_READ)
		return 1;
	return pkt->dma_len ? DIV_ROUND_UP(pkt->dma_len, MTU) : 1;
}

/* The first PSN behind it */
static u32 kept_end(const struct late *late)
{
	return wire_psn_add(late->rx.pkt.psn, kept_psns(&late->rx.pkt));
}

/* Return: where it belongs; -1 if one like it is there. */
static int find_place(const struct kept *kept, u32 psn)
{
	u32 i = kept->num;

	while (i) {
		if (wire_psn_diff(psn, kept->entry[i - 1]->rx.pkt.psn) >= 0)
			break;
		i--;
	}
	return i && wire_psn_diff(psn, kept_end(kept->entry[i - 1])) < 0 ? -1 : (int)i;
}

struct late *late_new(const struct rx *rx)
{
	struct late *late = calloc(1, sizeof(*late));

	if (!late)
		abort();
	late->rx = *rx;
	/* all there is of others are headers, and those are in @rx */
	if (!rx->pkt.payload_len)
		late->rx.p = NULL;
	if (late->rx.p)
		late->rx.p->refs++;
	return late;
}

void late_free(struct late *late)
{
	if (late->rx.p)
		pkt_put(late->rx.p);
	free(late);
}

enum keep keep(struct kept *kept, struct rx *rx)
{
	const int i = find_place(kept, rx->pkt.psn);
	struct late *late, *prev, *next;

	if (i < 0)
		return KEPT_TWICE;
	if (kept->num >= kept->max_pkts)
		goto dropped;
	late = late_new(rx);
	prev = i ? kept->entry[i - 1] : NULL;
	next = (u32)i < kept->num ? kept->entry[i] : NULL;
	if (!charge_between(kept, prev, late, next)) {
		late_free(late);
		goto dropped;
	}
	memmove(kept->entry + i + 1, kept->entry + i, (kept->num - (u32)i) * sizeof(late));
	kept->entry[i] = late;
	kept->num++;
	seen[SEEN_KEPT]++;
	trace("kept psn=%u kept=%u bytes=%u", rx->pkt.psn, kept->num, kept->bytes);
	return prev && rx->pkt.psn == kept_end(prev) ? KEPT : KEPT_APART;

dropped:
	seen[SEEN_KEPT_NOT]++;
	trace("no room psn=%u kept=%u bytes=%u", rx->pkt.psn, kept->num, kept->bytes);
	return KEPT_NOT;
}

bool kept_opens(const struct kept *kept, u32 psn)
{
	return !kept->num || wire_psn_diff(psn, kept_end(kept->entry[kept->num - 1])) > 0;
}

void kept_gaps(const struct kept *kept, u32 from, struct wire_gaps *gaps)
{
	u32 i, behind = 0;

	gaps->num = 0;
	for (i = 0; i < kept->num; i++) {
		const struct late *late = kept->entry[i];
		const u32 first = (u32)wire_psn_diff(late->rx.pkt.psn, from);

		if (first > behind) {
			if (gaps->num == WIRE_GAPS_MAX || first >= 0xffff)
				break;
			gaps->gap[gaps->num++] = (struct wire_gap) {
				.first = (u16)behind,
				.num = (u16)(first - behind),
			};
		}
		behind = max(behind, first + kept_psns(&late->rx.pkt));
		behind = min(behind, 0xffffU);
	}
	gaps->end = behind;
}

struct late *kept_first(const struct kept *kept)
{
	return kept->num ? kept->entry[0] : NULL;
}

/* @late is the first. */
void kept_take(struct kept *kept, struct late *late)
{
	struct late *next = kept->num > 1 ? kept->entry[1] : NULL;

	if (same_skb(late, next))
		pass_charge(late, next);
	else
		uncharge(kept, late);
	kept->num--;
	memmove(kept->entry, kept->entry + 1, kept->num * sizeof(late));
}

void kept_purge(struct kept *kept)
{
	struct late *late;

	while ((late = kept_first(kept))) {
		kept_take(kept, late);
		late_free(late);
	}
}

/* The bounds hold, of what is really pinned, and the books are right. */
void kept_audit(const struct kept *kept)
{
	u32 i, bytes = 0;

	if (kept->num > kept->max_pkts || kept->bytes > kept->max_bytes)
		failed("%u packets and %u bytes are kept, of %u and %u", kept->num, kept->bytes,
		       kept->max_pkts, kept->max_bytes);
	if (w.kept_dev != w.sq.kept.bytes + w.rq.kept.bytes || w.kept_dev > w.plan.kept_dev)
		failed("the link keeps %u bytes of %u", w.kept_dev, w.plan.kept_dev);
	for (i = 0; i < kept->num; i++) {
		const struct late *late = kept->entry[i];
		const struct late *prev = i ? kept->entry[i - 1] : NULL;
		u32 pinned = LATE_LEN + (late->rx.p ? late->rx.p->truesize : 0);

		if (prev && wire_psn_diff(late->rx.pkt.psn, prev->rx.pkt.psn) <= 0)
			failed("PSN %u is kept behind %u", late->rx.pkt.psn, prev->rx.pkt.psn);
		if (late->charge != (same_skb(prev, late) ? 0 : pinned))
			failed("PSN %u is charged %u for %u", late->rx.pkt.psn, late->charge,
			       pinned);
		bytes += late->charge;
	}
	if (bytes != kept->bytes)
		failed("%u bytes in the books, %u kept", kept->bytes, bytes);
}
