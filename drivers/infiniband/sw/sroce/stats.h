/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SROCE_STATS_H
#define SROCE_STATS_H

#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <rdma/ib_verbs.h>

#include "compat.h"

/*
 * One list of the hw_counters: X(enumerator, name). Names are mlx5's where it
 * has the thing, since that is what exporters and people look for.
 */
#define SROCE_COUNTERS(X)						\
	X(TX_PKTS, "tx_pkts")						\
	X(TX_BYTES, "tx_bytes")						\
	X(TX_BURSTS, "tx_bursts")					\
	X(TX_DROPPED, "tx_dropped")					\
	X(TX_NO_ROUTE, "tx_no_route")					\
	X(RX_PKTS, "rx_pkts")						\
	X(RX_BYTES, "rx_bytes")						\
	X(RX_BURSTS, "rx_bursts")					\
	X(RX_MALFORMED, "rx_malformed")					\
	X(RX_ICRC, "rx_icrc_encapsulated")				\
	X(RX_CSUM, "rx_csum_errors")					\
	X(RX_NO_QP, "rx_no_qp")						\
	X(RX_WRONG_PEER, "rx_wrong_peer")				\
	X(RX_WRONG_STATE, "rx_wrong_state")				\
	X(RX_WRONG_PKEY, "rx_wrong_pkey")				\
	X(RX_WRONG_QKEY, "qkey_viol_cntr")				\
	X(RX_UNRELIABLE_DROPPED, "rx_unreliable_dropped")		\
	X(RX_NO_WQE, "out_of_buffer")					\
	X(RX_LATE_DROPPED, "rx_late_dropped")				\
	X(RX_KEPT, "rx_kept")						\
	X(RX_KEPT_DROPPED, "rx_kept_dropped")				\
	X(RX_SEND, "rx_send_requests")					\
	X(RX_WRITE, "rx_write_requests")				\
	X(RX_READ, "rx_read_requests")					\
	X(RX_ATOMIC, "rx_atomic_requests")				\
	X(RX_FLUSH, "rx_flush_requests")				\
	X(RX_CNP, "rp_cnp_handled")					\
	X(RX_MARKED, "np_ecn_marked_roce_packets")			\
	X(SENT_CNP, "np_cnp_sent")					\
	X(OUT_OF_SEQUENCE, "out_of_sequence")				\
	X(DUPLICATE, "duplicate_request")				\
	X(DUPLICATE_DROPPED, "duplicate_dropped")			\
	X(SENT_SEQ_NAK, "sent_seq_nak")					\
	X(SENT_RNR_NAK, "sent_rnr_nak")					\
	X(SENT_ERR_NAK, "sent_err_nak")					\
	X(SENT_ACK, "sent_ack")						\
	X(SENT_GAPS, "sent_gap_reports")				\
	X(RCVD_ACK, "rcvd_ack")						\
	X(RCVD_RESPONSE, "rcvd_response")				\
	X(RCVD_GAPS, "rcvd_gap_reports")				\
	X(STALE_ACK, "stale_ack")					\
	X(SEQ_ERR, "packet_seq_err")					\
	X(IMPLIED_NAK, "implied_nak_seq_err")				\
	X(RNR_NAK, "rnr_nak_retry_err")					\
	X(ACK_TIMEOUT, "local_ack_timeout_err")				\
	X(TAIL_PROBES, "tail_probes")					\
	X(GO_BACKS, "go_backs")						\
	X(RETRANSMITTED, "retransmitted_pkts")				\
	X(TX_RAW, "tx_raw_packets")					\
	X(RX_RAW, "rx_raw_packets")					\
	X(RX_RAW_DROP, "rx_steering_drops")				\
	X(LOCAL_LENGTH, "resp_local_length_error")			\
	X(REQ_CQE_ERR, "req_cqe_error")					\
	X(RESP_CQE_ERR, "resp_cqe_error")				\
	X(DOORBELLS, "doorbells")					\
	X(POLL_DOORBELLS, "poll_doorbells")				\
	X(CQ_OVERFLOW, "cq_overflows")

enum sroce_counter {
#define X(id, name) SROCE_CNT_##id,
	SROCE_COUNTERS(X)
#undef X
	SROCE_NUM_COUNTERS,
	/* the port's, which pma.c tells of: every packet, whatever becomes of it */
	SROCE_CNT_PORT_UNI_XMIT = SROCE_NUM_COUNTERS,	/* multicast follows unicast */
	SROCE_CNT_PORT_MULTI_XMIT,
	SROCE_CNT_PORT_UNI_RCV,
	SROCE_CNT_PORT_MULTI_RCV,
	/* from BTH to ICRC */
	SROCE_CNT_PORT_XMIT_BYTES,
	SROCE_CNT_PORT_RCV_BYTES,
	SROCE_CNT_PORT_XMIT_DISCARDS,
	SROCE_NUM_ALL_COUNTERS,
};

struct sroce_stats {
	u64 cnt[SROCE_NUM_ALL_COUNTERS];
};

/**
 * struct sroce_qp_counter - what queue pairs bound to a counter of the core count in
 * @rcu: who counts does so under RCU
 * @stats: of each CPU
 */
struct sroce_qp_counter {
	struct rcu_head rcu;
	struct sroce_stats __percpu *stats;
};

/* Any context; @sdev's memory outlives its queue pairs. */
#define sroce_count(sdev, id) this_cpu_inc((sdev)->stats->cnt[SROCE_CNT_##id])
#define sroce_count_add(sdev, id, n) sroce_count_at(sdev, SROCE_CNT_##id, n)
#define sroce_count_at(sdev, index, n) this_cpu_add((sdev)->stats->cnt[index], n)

/*
 * What is a queue pair's: counted by the counter that it is bound to, and not
 * by the device; the core adds the two when it shows the device's.
 */
#define sroce_qp_count(qp, id) sroce_qp_count_add(qp, id, 1)
#define sroce_qp_count_add(qp, id, n) sroce_qp_count_at(qp, SROCE_CNT_##id, n)
#define sroce_qp_count_at(qp, index, n)						\
	do {									\
		struct sroce_stats __percpu *__stats;				\
										\
		rcu_read_lock();						\
		__stats = READ_ONCE((qp)->stats) ?: qp_dev(qp)->stats;		\
		this_cpu_add(__stats->cnt[index], n);				\
		rcu_read_unlock();						\
	} while (0)

u64 sroce_stats_sum(struct sroce_stats __percpu *stats, enum sroce_counter id);
struct rdma_hw_stats *sroce_alloc_hw_port_stats(struct ib_device *ibdev, u32 port);
int sroce_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port,
		       int index);
int sroce_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *ibqp SROCE_COUNTER_PORT);
int sroce_counter_unbind_qp(struct ib_qp *ibqp SROCE_COUNTER_PORT);
int sroce_counter_dealloc(struct rdma_counter *counter);
struct rdma_hw_stats *sroce_counter_alloc_stats(struct rdma_counter *counter);
int sroce_counter_update_stats(struct rdma_counter *counter);

#endif /* SROCE_STATS_H */
