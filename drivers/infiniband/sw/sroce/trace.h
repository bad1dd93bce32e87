/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Tracepoints: the story of a packet, for `perf trace -e 'sroce:*'`. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM sroce

#if !defined(SROCE_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define SROCE_TRACE_H

#include <linux/tracepoint.h>

#include "sroce.h"

TRACE_EVENT(sroce_doorbell,
	TP_PROTO(const struct sroce_qp *qp),
	TP_ARGS(qp),
	TP_STRUCT__entry(
		__field(u32, qpn)
	),
	TP_fast_assign(
		__entry->qpn = qp->num->qpn;
	),
	TP_printk("qp=%#x", __entry->qpn)
);

TRACE_EVENT(sroce_burst,
	TP_PROTO(const struct sroce_burst *b, u32 len, int err),
	TP_ARGS(b, len, err),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(u32, pkts)
		__field(u32, seg_len)
		__field(u32, len)
		__field(int, err)
	),
	TP_fast_assign(
		__entry->qpn = b->num->qpn;
		__entry->pkts = b->num_pkts;
		__entry->seg_len = b->seg_len;
		__entry->len = len;
		__entry->err = err;
	),
	TP_printk("qp=%#x pkts=%u seg_len=%u len=%u err=%d", __entry->qpn,
		  __entry->pkts, __entry->seg_len, __entry->len, __entry->err)
);

TRACE_EVENT(sroce_receive,
	TP_PROTO(u32 len, u32 pkts),
	TP_ARGS(len, pkts),
	TP_STRUCT__entry(
		__field(u32, len)
		__field(u32, pkts)
	),
	TP_fast_assign(
		__entry->len = len;
		__entry->pkts = pkts;
	),
	TP_printk("len=%u pkts=%u", __entry->len, __entry->pkts)
);

TRACE_EVENT(sroce_ack,
	TP_PROTO(const struct sroce_qp *qp, u32 psn, u8 syndrome),
	TP_ARGS(qp, psn, syndrome),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(u32, psn)
		__field(u32, una)
		__field(u8, syndrome)
	),
	TP_fast_assign(
		__entry->qpn = qp->num->qpn;
		__entry->psn = psn;
		__entry->una = qp->sq.psn_una;
		__entry->syndrome = syndrome;
	),
	TP_printk("qp=%#x psn=%u una=%u syndrome=%#x", __entry->qpn, __entry->psn,
		  __entry->una, __entry->syndrome)
);

/* The requester goes back: by a NAK, an RNR NAK or its timer. */
TRACE_EVENT(sroce_retransmit,
	TP_PROTO(const struct sroce_qp *qp, u32 psn),
	TP_ARGS(qp, psn),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(u32, psn)
		__field(u32, end)
		__field(u8, retry_left)
		__field(u8, rnr_left)
	),
	TP_fast_assign(
		__entry->qpn = qp->num->qpn;
		__entry->psn = psn;
		__entry->end = qp->sq.psn_end;
		__entry->retry_left = qp->sq.retry_left;
		__entry->rnr_left = qp->sq.rnr_left;
	),
	TP_printk("qp=%#x psn=%u end=%u retry_left=%u rnr_left=%u", __entry->qpn,
		  __entry->psn, __entry->end, __entry->retry_left, __entry->rnr_left)
);

/* A packet came before its turn, and is kept. */
TRACE_EVENT(sroce_kept,
	TP_PROTO(const struct sroce_qp *qp, u32 psn, u32 num, u32 bytes),
	TP_ARGS(qp, psn, num, bytes),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(u32, psn)
		__field(u32, num)
		__field(u32, bytes)
	),
	TP_fast_assign(
		__entry->qpn = qp->num->qpn;
		__entry->psn = psn;
		__entry->num = num;
		__entry->bytes = bytes;
	),
	TP_printk("qp=%#x psn=%u kept=%u bytes=%u", __entry->qpn, __entry->psn,
		  __entry->num, __entry->bytes)
);

/* What was missing has come, and what was kept behind it has been taken. */
TRACE_EVENT(sroce_filled,
	TP_PROTO(const struct sroce_qp *qp, u32 psn, u32 next, u32 kept),
	TP_ARGS(qp, psn, next, kept),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(u32, psn)
		__field(u32, next)
		__field(u32, kept)
	),
	TP_fast_assign(
		__entry->qpn = qp->num->qpn;
		__entry->psn = psn;
		__entry->next = next;
		__entry->kept = kept;
	),
	TP_printk("qp=%#x psn=%u next=%u kept=%u", __entry->qpn, __entry->psn,
		  __entry->next, __entry->kept)
);

/* What is missing is sent again alone: a NAK has told, or it is a guess or a probe. */
TRACE_EVENT(sroce_repair,
	TP_PROTO(const struct sroce_qp *qp, u32 psn, u32 end, bool told, u8 probes),
	TP_ARGS(qp, psn, end, told, probes),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(u32, psn)
		__field(u32, end)
		__field(u8, told)
		__field(u8, probes)
		__field(u8, peer)
		__field(u64, srtt)
		__field(u64, rttvar)
	),
	TP_fast_assign(
		__entry->qpn = qp->num->qpn;
		__entry->psn = psn;
		__entry->end = end;
		__entry->told = told;
		__entry->probes = probes;
		__entry->peer = qp->sq.repair.peer;
		__entry->srtt = qp->sq.srtt;
		__entry->rttvar = qp->sq.rttvar;
	),
	TP_printk("qp=%#x psn=%u end=%u told=%u probes=%u peer=%u srtt=%llu rttvar=%llu",
		  __entry->qpn, __entry->psn, __entry->end, __entry->told, __entry->probes,
		  __entry->peer, __entry->srtt, __entry->rttvar)
);

/* The window has changed. */
TRACE_EVENT(sroce_cwnd,
	TP_PROTO(const struct sroce_qp *qp, bool loss),
	TP_ARGS(qp, loss),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(u32, pkts)
		__field(u32, ssthresh)
		__field(u32, flight)
		__field(u64, rtt)
		__field(u64, least)
		__field(bool, loss)
	),
	TP_fast_assign(
		__entry->qpn = qp->num->qpn;
		__entry->pkts = qp->sq.cwnd.pkts;
		__entry->ssthresh = qp->sq.cwnd.ssthresh;
		__entry->flight = qp->sq.flight;
		__entry->rtt = qp->sq.srtt;
		__entry->least = sroce_cwnd_least(&qp->sq);
		__entry->loss = loss;
	),
	TP_printk("qp=%#x pkts=%u ssthresh=%u flight=%u rtt=%llu least=%llu loss=%u",
		  __entry->qpn, __entry->pkts, __entry->ssthresh, __entry->flight,
		  __entry->rtt, __entry->least, __entry->loss)
);

/* A congestion notification was sent, or has come and left this rate. */
TRACE_EVENT(sroce_cnp,
	TP_PROTO(const struct sroce_qp *qp, bool sent, u64 rate),
	TP_ARGS(qp, sent, rate),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(bool, sent)
		__field(u64, rate)
	),
	TP_fast_assign(
		__entry->qpn = qp->num->qpn;
		__entry->sent = sent;
		__entry->rate = rate;
	),
	TP_printk("qp=%#x %s rate=%llu", __entry->qpn, __entry->sent ? "sent" : "handled",
		  __entry->rate)
);

/* Several packets are missing, as the peer says or as responses tell. */
TRACE_EVENT(sroce_gaps,
	TP_PROTO(const struct sroce_qp *qp, u32 psn, u32 num, u32 end),
	TP_ARGS(qp, psn, num, end),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(u32, psn)
		__field(u32, num)
		__field(u32, end)
		__field(u32, arrived)
		__field(bool, implied)
	),
	TP_fast_assign(
		__entry->qpn = qp->num->qpn;
		__entry->psn = psn;
		__entry->num = num;
		__entry->end = end;
		__entry->arrived = qp->sq.sweep.arrived;
		__entry->implied = qp->sq.sweep.implied;
	),
	TP_printk("qp=%#x psn=%u gaps=%u end=%u arrived=%u implied=%u", __entry->qpn,
		  __entry->psn, __entry->num, __entry->end, __entry->arrived, __entry->implied)
);

TRACE_EVENT(sroce_respond,
	TP_PROTO(const struct sroce_qp *qp, u32 psn, u8 syndrome),
	TP_ARGS(qp, psn, syndrome),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(u32, psn)
		__field(u32, msn)
		__field(u8, syndrome)
	),
	TP_fast_assign(
		__entry->qpn = qp->num->qpn;
		__entry->psn = psn;
		__entry->msn = qp->rq.msn;
		__entry->syndrome = syndrome;
	),
	TP_printk("qp=%#x psn=%u msn=%u syndrome=%#x", __entry->qpn, __entry->psn,
		  __entry->msn, __entry->syndrome)
);

/* perf reads an event's format, where names of an enum say nothing */
TRACE_DEFINE_ENUM(IB_QPS_RESET);
TRACE_DEFINE_ENUM(IB_QPS_INIT);
TRACE_DEFINE_ENUM(IB_QPS_RTR);
TRACE_DEFINE_ENUM(IB_QPS_RTS);
TRACE_DEFINE_ENUM(IB_QPS_SQD);
TRACE_DEFINE_ENUM(IB_QPS_SQE);
TRACE_DEFINE_ENUM(IB_QPS_ERR);

#define show_sroce_state(state)				\
	__print_symbolic(state,				\
			 { IB_QPS_RESET, "RESET" },	\
			 { IB_QPS_INIT, "INIT" },	\
			 { IB_QPS_RTR, "RTR" },		\
			 { IB_QPS_RTS, "RTS" },		\
			 { IB_QPS_SQD, "SQD" },		\
			 { IB_QPS_SQE, "SQE" },		\
			 { IB_QPS_ERR, "ERR" })

TRACE_EVENT(sroce_state,
	TP_PROTO(const struct sroce_qp *qp, int from, int to),
	TP_ARGS(qp, from, to),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(int, from)
		__field(int, to)
	),
	TP_fast_assign(
		__entry->qpn = qp->num->qpn;
		__entry->from = from;
		__entry->to = to;
	),
	TP_printk("qp=%#x from=%s to=%s", __entry->qpn, show_sroce_state(__entry->from),
		  show_sroce_state(__entry->to))
);

#endif /* SROCE_TRACE_H */

#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
