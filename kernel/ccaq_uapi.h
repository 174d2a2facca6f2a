/* SPDX-License-Identifier: GPL-2.0-or-later WITH Linux-syscall-note */
/*
 * ccaq: netlink attributes and statistics, shared with tc's plug-in. All
 * numbers are in host order.
 */
#ifndef SOJOURN_CCAQ_UAPI_H
#define SOJOURN_CCAQ_UAPI_H

#include <linux/types.h>

enum {
	TCA_CCAQ_UNSPEC,
	TCA_CCAQ_LIMIT,			/* u32: packets in all queues */
	TCA_CCAQ_MEMORY_LIMIT,		/* u32: bytes */
	TCA_CCAQ_FLOWS,			/* u32: number of queues */
	TCA_CCAQ_QUANTUM,		/* u32: bytes */
	TCA_CCAQ_IDLE,			/* u32: hundredths of a percent */
	TCA_CCAQ_ECN,			/* u32: 0 or 1 */
	__TCA_CCAQ_MAX
};

#define TCA_CCAQ_MAX	(__TCA_CCAQ_MAX - 1)

/* Which statistics a struct tc_ccaq_xstats has. */
enum {
	TCA_CCAQ_XSTATS_QDISC,
	TCA_CCAQ_XSTATS_CLASS,
};

/* Statistics of the discipline; @min_ and @max_ are of the flows in the round. */
struct tc_ccaq_qd_stats {
	__u32	drop_overlimit;
	__u32	drop_overmemory;	/* of these, by memory_limit */
	__u32	drop_unresponsive;	/* of flows that do not respond */
	__u32	new_flow_count;
	__u32	collisions;		/* arrivals of flows that share a queue */
	__u32	ecn_mark;
	__u32	ce_mark;		/* marks of packets with ECT(1) */
	__u32	memory_used;		/* bytes */
	__u32	new_flows_len;
	__u32	old_flows_len;
	__u64	idle_time;		/* of the link, in us */
	__u32	min_target;		/* us */
	__u32	max_target;
	__u32	min_rtt;		/* us; 0: none is known */
	__u32	max_rtt;
};

/* Statistics of a flow's queue. */
struct tc_ccaq_cl_stats {
	__s32	deficit;		/* bytes */
	__u32	target;			/* us */
	__u32	rtt;			/* us; 0: unknown */
	__u32	idle;			/* share of the epoch, in 2^-16 */
	__u32	active;			/* time of the epoch, in us */
	__u32	count;			/* drops since dropping began */
	__u32	dropping;		/* 0 or 1 */
	__u32	guessed;		/* whether the RTT is a guess */
};

struct tc_ccaq_xstats {
	__u32	type;			/* TCA_CCAQ_XSTATS_QDISC or _CLASS */
	__u32	pad;
	union {
		struct tc_ccaq_qd_stats	qdisc_stats;
		struct tc_ccaq_cl_stats	class_stats;
	};
};

#endif
