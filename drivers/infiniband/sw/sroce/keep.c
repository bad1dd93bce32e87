// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Packets that came before their turn, by PSN, until what is missing before
 * them has come: requests at the responder, responses at the requester.
 *
 * They are a tree of runs: packets that follow each other, in a list. Most come
 * behind the last one, and leave in their order, which costs no look at the tree.
 *
 * A packet is kept with its skb, and copied only where that pins much more than the packet and
 * there is not much room left. What an skb pins is all of it, so that is what counts against the
 * bounds, once for all its packets that follow each other here: the first of such a run is charged
 * for it.
 *
 * Requests whose turn it is, but whose memory has to be brought first, are kept
 * in a list of their own, and count with the others. Responses wait for theirs here.
 */
#include <linux/slab.h>

#include "sroce.h"
#include "trace.h"

/*
 * Of a side of a queue pair. A window of single packets pins twice its bytes, or more; of drivers
 * that cut pages into packets more than three times, as each page is charged for beside them.
 */
#define KEPT_MAX_BYTES	(4 * SROCE_WINDOW_MAX)

/*
 * Where a packet's turn does not come for so long, its sender has either given up or never was the
 * peer. It has not been acknowledged, and who still wants it sends it again.
 */
#define KEPT_MAX_AGE	(20 * HZ)

/* Of a link: a peer that leaves its gaps open takes it from others, who then go back. */
#define KEPT_DEV_BYTES	(128L << 20)

/* Where so much of either is in use, a packet that pins much more than itself is copied */
#define KEPT_SCARCE(max)	((max) / 2)

static struct sroce_late *kept_entry(struct rb_node *node)
{
	return rb_entry_safe(node, struct sroce_late, node);
}

static bool same_skb(const struct sroce_late *a, const struct sroce_late *b)
{
	return a && b && a->rx.skb && a->rx.skb == b->rx.skb;
}

/*
 * The page that an skb's data begins in. A small packet may be all that is left of a large one:
 * senders on this host, many drivers and the stack itself (napi_alloc_skb()) cut them into pieces.
 */
static struct page *data_page(const struct sk_buff *skb)
{
	struct page *page;

	if (!skb)
		return NULL;
	if (!skb_shinfo(skb)->nr_frags)
		return skb->head_frag ? virt_to_head_page(skb->head) : NULL;
	page = skb_frag_page(&skb_shinfo(skb)->frags[0]);
	return page ? compound_head(page) : NULL;
}

static u32 page_excess(const struct sk_buff *skb, struct page *page)
{
	return page_size(page) > skb->truesize ? page_size(page) - skb->truesize : 0;
}

/* Pages of an skb's fragments, but @first: one that goes on in the next fragment counts once. */
static u64 other_pages(const struct sk_buff *skb, const struct page *first)
{
	const struct skb_shared_info *info = skb_shinfo(skb);
	const struct page *before = first;
	u64 bytes = 0;
	int i;

	for (i = 0; i < info->nr_frags; i++) {
		struct page *page = skb_frag_page(&info->frags[i]);

		page = page ? compound_head(page) : NULL;
		if (page && page != before)
			bytes += page_size(page);
		before = page;
	}
	return bytes;
}

/*
 * What an skb pins beside the page that its data begins in: truesize has the bytes that lie in a
 * page, for those who send it in pieces of many pages (MSG_MORE, splice()).
 */
static u64 pinned(const struct sk_buff *skb, const struct page *page)
{
	u64 bytes = other_pages(skb, page);
	const struct page *before = page;
	const struct sk_buff *part;

	skb_walk_frags(skb, part) {
		struct page *first = data_page(part);

		if (first && first != before)
			bytes += page_size(first);
		bytes += other_pages(part, first);
		before = first;
	}
	return max_t(u64, bytes, skb->truesize);
}

/*
 * Several packets in a row may lie in one page: the one that leaves last is charged for what the
 * page is larger than its skbs.
 */
static void hold_page(struct sroce_kept *kept, struct sroce_late *late, struct page *page,
		      u32 excess)
{
	struct sroce_held *held = &kept->held_page;

	if (page && page == held->page) {
		if (wire_psn_diff(late->rx.pkt.psn, held->holder->rx.pkt.psn) < 0)
			return;
		held->holder->charge -= held->excess;
		late->charge += held->excess;
		held->holder = late;
	} else if (page) {
		*held = (struct sroce_held) { page, excess, late };
	}
}

/*
 * @late is not kept after all: the charge for the page goes back to the packet that had it
 * @before.
 */
static void hold_as_before(struct sroce_kept *kept, struct sroce_late *late,
			   const struct sroce_held *before)
{
	if (kept->held_page.holder != late)
		return;
	if (kept->held_page.page == before->page) {
		late->charge -= before->excess;
		before->holder->charge += before->excess;
	}
	kept->held_page = *before;
}

/*
 * An skb from the emergency reserve (pfmemalloc) has to be freed soon (sk_filter_trim_cap()): it is
 * processed now, or dropped, and never kept.
 */
static bool last_memory(const struct sk_buff *skb)
{
	return skb && skb_pfmemalloc(skb);
}

/* What it costs to keep @late, by its skb; and of that, the rest of the page that its data is in. */
static u64 cost(const struct sroce_kept *kept, const struct sroce_late *late, u32 *excess)
{
	const struct sk_buff *skb = late->rx.skb;
	struct page *page = data_page(skb);

	*excess = page && page != kept->held_page.page ? page_excess(skb, page) : 0;
	return sizeof(*late) + (skb ? pinned(skb, page) : 0) + *excess;
}

static bool scarce(struct sroce_qp *qp, const struct sroce_kept *kept)
{
	return kept->bytes > KEPT_SCARCE(KEPT_MAX_BYTES) ||
	       atomic_long_read(&qp_dev(qp)->kept_bytes) > KEPT_SCARCE(KEPT_DEV_BYTES);
}

/*
 * Where a network reorders much, packets that are kept one after the other lie in pages of their own,
 * each of which pins what others had in it as well, and a window would not fit. So @late, whose skb is
 * not held yet and has no other packet here, gets its payload in memory of its own. All of the skb is
 * what it is measured by: of many packets in one, those that follow share what this one is charged.
 */
static void copy_if_scarce(struct sroce_qp *qp, const struct sroce_kept *kept,
			   struct sroce_late *late)
{
	const u32 len = late->rx.pkt.payload_len;
	struct sroce_rx_pos from = late->rx.payload;
	struct sk_buff *skb;
	u32 excess;

	if (!scarce(qp, kept) || !late->rx.skb || last_memory(late->rx.skb) ||
	    cost(kept, late, &excess) <= 2 * SKB_TRUESIZE(late->rx.skb->len))
		return;
	skb = alloc_skb(len, GFP_ATOMIC | __GFP_NOWARN);
	if (!skb)
		return;
	sroce_rx_copy(&from, skb_put(skb, len), len);
	late->rx.skb = skb;
	late->rx.payload = (struct sroce_rx_pos) {
		.skb = skb,
		.frag = -1,
		.data = skb->data,
		.left = len,
	};
}

/*
 * Charge @late, the first kept packet of its skb, for all memory that the skb pins. Return: false
 * if a limit does not allow it.
 */
static bool charge(struct sroce_qp *qp, struct sroce_kept *kept, struct sroce_late *late)
{
	const struct sk_buff *skb = late->rx.skb;
	atomic_long_t *all = &qp_dev(qp)->kept_bytes;
	u32 excess;
	const u64 bytes = cost(kept, late, &excess);

	if (last_memory(skb))
		return false;
	if (bytes > KEPT_MAX_BYTES - kept->bytes)
		return false;
	if (atomic_long_add_return(bytes, all) > KEPT_DEV_BYTES) {
		atomic_long_sub(bytes, all);
		return false;
	}
	kept->bytes += bytes;
	late->charge = bytes;
	hold_page(kept, late, data_page(skb), excess);
	if (!delayed_work_pending(&qp_dev(qp)->kept_work))
		schedule_delayed_work(&qp_dev(qp)->kept_work, KEPT_MAX_AGE);
	return true;
}

static void uncharge(struct sroce_qp *qp, struct sroce_kept *kept, struct sroce_late *late)
{
	atomic_long_sub(late->charge, &qp_dev(qp)->kept_bytes);
	kept->bytes -= late->charge;
	late->charge = 0;
	if (kept->held_page.holder == late)
		kept->held_page = (struct sroce_held) {};
}

static void pass_charge(struct sroce_kept *kept, struct sroce_late *from, struct sroce_late *to)
{
	to->charge += from->charge;
	from->charge = 0;
	if (kept->held_page.holder == from)
		kept->held_page.holder = to;
}

/* @late leaves: its charge goes to @next, the packet behind it, if that is of the same skb. */
static void discharge(struct sroce_qp *qp, struct sroce_kept *kept, struct sroce_late *late,
		      struct sroce_late *next)
{
	if (same_skb(late, next))
		pass_charge(kept, late, next);
	else
		uncharge(qp, kept, late);
}

/*
 * @late goes into the tree, between @prev and @next: charge the right one of the three for its
 * skb. Return: false if a limit does not allow it.
 */
static bool charge_between(struct sroce_qp *qp, struct sroce_kept *kept, struct sroce_late *prev,
			   struct sroce_late *late, struct sroce_late *next)
{
	struct sroce_held before;

	if (same_skb(prev, late))
		return true;
	if (same_skb(late, next)) {
		pass_charge(kept, next, late);
		return true;
	}
	copy_if_scarce(qp, kept, late);
	before = kept->held_page;
	if (!charge(qp, kept, late))
		return false;
	/* it parts two of one skb */
	if (!same_skb(prev, next) || charge(qp, kept, next))
		return true;
	hold_as_before(kept, late, &before);
	uncharge(qp, kept, late);
	return false;
}

/* PSNs that it stands for: a READ request takes those of its response. */
static u32 kept_psns(const struct sroce_qp *qp, const struct wire_pkt *pkt)
{
	if (pkt->op->class != WIRE_CLASS_READ)
		return 1;
	/* more is refused when its turn comes */
	return max(DIV_ROUND_UP(min(pkt->dma_len, SROCE_MAX_MSG), qp->mtu), 1U);
}

/* The first PSN behind a run. */
static u32 run_end(const struct sroce_qp *qp, const struct sroce_late *run)
{
	const struct wire_pkt *pkt = &run->tail->rx.pkt;

	return wire_psn_add(pkt->psn, kept_psns(qp, pkt));
}

static struct sroce_late *next_run(const struct sroce_late *run)
{
	return kept_entry(rb_next(&run->node));
}

/*
 * The last run that begins at @psn or before it, if there is one; and where one
 * that begins at @psn would go.
 */
static struct sroce_late *find_run(struct sroce_kept *kept, u32 psn, struct rb_node **parent,
				   struct rb_node ***place)
{
	struct rb_node **link = &kept->tree.rb_root.rb_node;
	struct sroce_late *run = kept->last;

	/* most come in their order, but for the gap */
	if (run && wire_psn_diff(psn, run->rx.pkt.psn) >= 0) {
		*parent = &run->node;
		*place = &run->node.rb_right;
		return run;
	}
	run = NULL;
	*parent = NULL;
	while (*link) {
		*parent = *link;
		if (wire_psn_diff(psn, kept_entry(*link)->rx.pkt.psn) < 0) {
			link = &(*link)->rb_left;
		} else {
			run = kept_entry(*link);
			link = &(*link)->rb_right;
		}
	}
	*place = link;
	return run;
}

static struct sroce_late *kept_alloc(const struct sroce_kept *kept, const struct sroce_rx *rx)
{
	struct sroce_late *late;

	if (kept->num >= SROCE_KEPT_MAX_PKTS)
		return NULL;
	late = sroce_late_alloc(rx);
	if (!late)
		return NULL;
	late->next = NULL;
	late->tail = late;
	/* all there is of others are headers, and those are in @rx */
	if (!rx->pkt.payload_len)
		late->rx.skb = NULL;
	return late;
}

/* What is missing between two runs has come. */
static void join(struct sroce_kept *kept, struct sroce_late *run, struct sroce_late *next)
{
	run->tail->next = next;
	run->tail = next->tail;
	rb_erase_cached(&next->node, &kept->tree);
	if (kept->last == next)
		kept->last = run;
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
	struct sroce_late *late, *run, *next;
	const u32 psn = rx->pkt.psn;
	struct rb_node *parent, **place;
	bool apart;

	run = find_run(kept, psn, &parent, &place);
	if (run && wire_psn_diff(psn, run_end(qp, run)) < 0)
		return SROCE_KEPT_TWICE;
	if (run == kept->last)
		next = NULL;
	else
		next = run ? next_run(run) : sroce_kept_first(kept);
	late = kept_alloc(kept, rx);
	if (!late)
		goto dropped;
	if (!charge_between(qp, kept, run ? run->tail : NULL, late, next)) {
		if (late->rx.skb != rx->skb)
			kfree_skb(late->rx.skb);
		kfree(late);
		goto dropped;
	}
	apart = !run || psn != run_end(qp, run);
	if (!apart) {
		run->tail->next = late;
		run->tail = late;
	} else {
		rb_link_node(&late->node, parent, place);
		rb_insert_color_cached(&late->node, &kept->tree, !run);
		run = late;
		if (!next)
			kept->last = run;
	}
	if (next && next->rx.pkt.psn == run_end(qp, run))
		join(kept, run, next);
	if (late->rx.skb && late->rx.skb == rx->skb)
		sroce_late_hold(late->rx.skb);
	kept->num++;
	sroce_qp_count(qp, RX_KEPT);
	trace_sroce_kept(qp, psn, kept->num, kept->bytes);
	return apart ? SROCE_KEPT_APART : SROCE_KEPT;

dropped:
	sroce_qp_count(qp, RX_KEPT_DROPPED);
	return SROCE_KEPT_NOT;
}

/**
 * sroce_kept_opens - is something missing between what is kept and this packet?
 * @qp: queue pair
 * @kept: as for sroce_keep()
 * @psn: of the packet, before it is kept
 *
 * Return: true if so.
 */
bool sroce_kept_opens(const struct sroce_qp *qp, const struct sroce_kept *kept, u32 psn)
{
	return !kept->last || wire_psn_diff(psn, run_end(qp, kept->last)) > 0;
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
	struct sroce_late *run;
	u32 behind = 0;

	gaps->num = 0;
	for (run = sroce_kept_first(kept); run; run = next_run(run)) {
		const u32 first = wire_psn_diff(run->rx.pkt.psn, from);

		if (first > behind) {
			if (gaps->num == WIRE_GAPS_MAX || first >= U16_MAX)
				break;
			gaps->gap[gaps->num++] = (struct wire_gap) {
				.first = behind,
				.num = first - behind,
			};
		}
		behind = max(behind, (u32)wire_psn_diff(run_end(qp, run), from));
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
	return kept_entry(rb_first_cached(&kept->tree));
}

/**
 * sroce_kept_take - a packet is kept no more
 * @qp: queue pair
 * @kept: as for sroce_keep()
 * @late: the first packet; the caller's, and then sroce_late_free()'s
 */
void sroce_kept_take(struct sroce_qp *qp, struct sroce_kept *kept, struct sroce_late *late)
{
	discharge(qp, kept, late, late->next ?: next_run(late));
	if (late->next) {
		late->next->tail = late->tail;
		rb_replace_node_cached(&late->node, &late->next->node, &kept->tree);
	} else {
		rb_erase_cached(&late->node, &kept->tree);
	}
	if (kept->last == late)
		kept->last = late->next;
	kept->num--;
}

static bool aged(const struct sroce_late *late)
{
	return (u32)jiffies - late->since > KEPT_MAX_AGE;
}

/*
 * From the front on. Older packets may lie behind a young one: they are dropped when it has been
 * taken or has aged.
 */
static bool drop_aged(struct sroce_qp *qp, struct sroce_kept *kept)
{
	struct sroce_late *late;
	bool any = false;

	while ((late = sroce_kept_first(kept)) && aged(late)) {
		sroce_kept_take(qp, kept, late);
		sroce_late_free(late);
		sroce_qp_count(qp, RX_KEPT_DROPPED);
		any = true;
	}
	return any;
}

/**
 * sroce_kept_expire - drop what has waited longer for its turn than a recovery takes
 * @qp: queue pair; its receive lock is held
 *
 * Return: the request whose turn comes first then, or NULL.
 */
struct sroce_late *sroce_kept_expire(struct sroce_qp *qp)
{
	struct sroce_rq *rq = &qp->rq;

	/* who was told of a gap before it has not heard, or was not meant */
	if (drop_aged(qp, &rq->kept))
		rq->nak_sent = false;
	return sroce_kept_first(&rq->kept);
}

/*
 * Drop requests and responses that have aged. Where somebody owns the send side, its responses stay
 * until the next time: the owner may be about to take them.
 */
static void expire(struct sroce_qp *qp)
{
	spin_lock_bh(&qp->rq.lock);
	sroce_kept_expire(qp);
	sroce_rq_unlock(&qp->rq);
	if (!READ_ONCE(qp->sq.kept.num) || !sroce_send_try_claim(qp))
		return;
	/* what waits for memory of the program's own has come, and is not sent again */
	if (!qp->sq.fault.active)
		drop_aged(qp, &qp->sq.kept);
	sroce_send_release(qp);
}

/**
 * sroce_kept_work - a link's queue pairs drop what has waited for too long
 * @work: the link's
 *
 * Queue pairs for which no packet comes any more need this: what they keep counts against the limit
 * of the link's others.
 */
void sroce_kept_work(struct work_struct *work)
{
	struct sroce_dev *sdev = container_of(work, struct sroce_dev, kept_work.work);

	sroce_qp_each(sdev, expire);
	if (atomic_long_read(&sdev->kept_bytes))
		schedule_delayed_work(&sdev->kept_work, KEPT_MAX_AGE);
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

/**
 * sroce_wait - keep a request packet whose turn it is, but whose memory is not there yet
 * @qp: queue pair; its receive lock is held
 * @rx: the packet
 *
 * Softirq. How long that takes is for the program to say whose memory it is, so
 * what waits counts with what is kept before its turn.
 *
 * Return: false if it is lost.
 */
bool sroce_wait(struct sroce_qp *qp, struct sroce_rx *rx)
{
	struct sroce_rq *rq = &qp->rq;
	struct sroce_late *late, *last;

	last = rq->num_late ? list_last_entry(&rq->late, struct sroce_late, entry) : NULL;
	late = sroce_late_add(&rq->late, &rq->num_late, SROCE_MAX_LATE, rx);
	if (!late)
		return false;
	if (same_skb(last, late) || charge(qp, &rq->kept, late))
		return true;
	sroce_wait_over(qp, late);
	return false;
}

/**
 * sroce_wait_again - keep a request packet whose turn has come, for its memory, before all others
 * @qp: queue pair; its receive lock is held
 * @late: the packet, taken from those that are kept
 *
 * Softirq.
 *
 * Return: false if there is no room for it, and it is lost.
 */
bool sroce_wait_again(struct sroce_qp *qp, struct sroce_late *late)
{
	struct sroce_rq *rq = &qp->rq;
	struct sroce_late *next;

	next = list_first_entry_or_null(&rq->late, struct sroce_late, entry);
	list_add(&late->entry, &rq->late);
	rq->num_late++;
	if (same_skb(late, next)) {
		pass_charge(&rq->kept, next, late);
		return true;
	}
	if (charge(qp, &rq->kept, late))
		return true;
	sroce_wait_over(qp, late);
	return false;
}

/**
 * sroce_wait_over - a request packet waits no more
 * @qp: queue pair; its receive lock is held
 * @late: the packet, one of @qp->rq.late; it is gone then
 */
void sroce_wait_over(struct sroce_qp *qp, struct sroce_late *late)
{
	struct sroce_rq *rq = &qp->rq;

	discharge(qp, &rq->kept, late,
		  list_is_last(&late->entry, &rq->late) ? NULL : list_next_entry(late, entry));
	list_del(&late->entry);
	rq->num_late--;
	sroce_late_free(late);
}
