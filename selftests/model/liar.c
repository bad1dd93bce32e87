// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A peer that says what is not so: reports of what is missing from the oldest on, and
 * NAKs of requests behind one that it has not answered. Neither acknowledges anything:
 * they cost what is sent for them, and that is bounded.
 */
#include "model.h"

#define sq (&w.sq)

/* At once, in a volley */
#define LIES	300

/* Of what is out, each packet may go as new, alone and as one of several; a READ for each gap. */
#define DRAWN_MAX(out)	(3 * (out) + 2 * WIRE_GAPS_MAX)

static u32 num_out(void)
{
	return (u32)wire_psn_diff(sq->psn_nxt, sq->psn_una);
}

static void hear(struct burst *b)
{
	struct rx rx = { .p = b->pkt[0] };

	if (wire_parse(rx.p->data, rx.p->len, &rx.pkt) != WIRE_OK)
		failed("a lie is no packet");
	ack_packet(&rx);
	send_run();
	burst_free(b);
}

static void report(u32 psn, const struct wire_gaps *gaps)
{
	struct burst b = { .num = 0 };
	u8 *p = burst_reserve(&b, WIRE_BTH_LEN + WIRE_GAPS_LEN(gaps->num) + WIRE_ICRC_LEN);

	wire_bth_put(p, WIRE_GAPS, 0, 0, PKEY, REQUESTER_QPN, 0, psn);
	wire_gaps_put(p + WIRE_BTH_LEN, gaps);
	hear(&b);
}

/* Of what came twice, some say the truth: who is made to wait sends less. */
static bool truthful;

/* Any that begins with what is the oldest, and ends within what is out: two packets or more */
static void lie_gaps(void)
{
	struct wire_gaps gaps = { .num = 0, .twice = w.rq.twice };
	const u32 end = 2 + rnd_below(num_out() - 1);
	u32 first = 0;

	if (!truthful)
		gaps.twice = (u16)rnd_below(0x10000);
	while (first + 1 < end && gaps.num < WIRE_GAPS_MAX) {
		struct wire_gap *gap = &gaps.gap[gaps.num++];

		gap->first = (u16)first;
		gap->num = (u16)(1 + rnd_below(end - first - 1));
		gaps.end = first + gap->num + 1;
		first = gaps.end + rnd_below(3);
	}
	report(sq->psn_una, &gaps);
}

static void lie_nothing(void)
{
	report(wire_psn_add(sq->psn_una, rnd_below(num_out())), &(struct wire_gaps) { .num = 0 });
}

/* One that is kept would acknowledge what is before it, in its turn. */
static void lie_nak(void)
{
	struct burst b = { .num = 0 };
	u8 *p;

	if (!send_awaits(sq->una) || !sq->repair.reports)
		return;
	p = burst_reserve(&b, WIRE_BTH_LEN + WIRE_AETH_LEN + WIRE_ICRC_LEN);
	wire_bth_put(p, WIRE_ACKNOWLEDGE, 0, 0, PKEY, REQUESTER_QPN, 0,
		     wire_psn_add(sq->psn_una, 1 + rnd_below(num_out() - 1)));
	wire_aeth_put(p + WIRE_BTH_LEN, WIRE_AETH_NAK | WIRE_NAK_PSN_SEQ, 0);
	hear(&b);
}

static void (*const lies[])(void) = { lie_gaps, lie_nothing, lie_nak };

/* As no time goes by meanwhile, nothing is overdue a second time. */
void lie(void)
{
	const u32 drawn = w.drawn, psn = sq->psn_una;
	u32 i;

	truthful = chance(500);
	for (i = 0; i < LIES && !sq->err && num_out() >= 2; i++)
		lies[rnd_below(ARRAY_SIZE(lies))]();
	seen[SEEN_LIES] += i;
	if (sq->psn_una != psn)
		failed("a lie acknowledges PSN %u", psn);
	if (w.drawn - drawn > DRAWN_MAX(num_out()))
		failed("%u packets are sent for %u lies, with %u out", w.drawn - drawn, i,
		       num_out());
}
