/* SPDX-License-Identifier: GPL-2.0-or-later WITH Linux-syscall-note */
/*
 * ccaq: netlink attributes and statistics, shared with tc's plug-in. All
 * numbers are in host order; times are in nanoseconds, rates in bytes per
 * second.
 */
#ifndef SOJOURN_CCAQ_PAPER_UAPI_H
#define SOJOURN_CCAQ_PAPER_UAPI_H

#include <linux/types.h>

enum {
	TCA_CCAQ_UNSPEC,
	TCA_CCAQ_PLIMIT,		/* u32: packets in all queues */
	TCA_CCAQ_FLOW_PLIMIT,		/* u32: initial limit of a flow */
	TCA_CCAQ_QUANTUM,		/* u32: bytes */
	TCA_CCAQ_INITIAL_QUANTUM,	/* u32: bytes */
	TCA_CCAQ_MULTIPLIER,		/* u64: millionths */
	TCA_CCAQ_MAX_INCREASE,		/* u64: millionths */
	TCA_CCAQ_MAX_GI,		/* u64: ns */
	TCA_CCAQ_BUCKETS_LOG,		/* u32 */
	TCA_CCAQ_ORPHAN_MASK,		/* u32 */
	TCA_CCAQ_REFILL_DELAY,		/* u64: ns */
	TCA_CCAQ_PACING,		/* u32: 0 or 1 */
	TCA_CCAQ_FLOW_MAX_RATE,		/* u64; all ones: unlimited */
	TCA_CCAQ_LOW_RATE_THRESHOLD,	/* u64 */
	TCA_CCAQ_TIMER_SLACK,		/* u64: ns */
	TCA_CCAQ_CE_THRESHOLD,		/* u64: ns; all ones: off */
	TCA_CCAQ_HORIZON,		/* u64: ns */
	TCA_CCAQ_HORIZON_DROP,		/* u32: 0 or 1 */
	TCA_CCAQ_PAD,
	TCA_CCAQ_MAX_GI_RTTS,		/* u64: millionths; 0: off */
	__TCA_CCAQ_MAX
};

#define TCA_CCAQ_MAX	(__TCA_CCAQ_MAX - 1)

/* Statistics, as tc -s prints them. */
struct tc_ccaq_xstats {
	__u64	gc_flows;		/* flows removed from the table */
	__u64	throttled;		/* times a flow was held back */
	__u64	flows_plimit;		/* dropped at a flow's limit */
	__u64	pkts_too_long;		/* delays truncated to 1 s */
	__u64	allocation_errors;
	__u64	ce_mark;
	__u64	horizon_drops;
	__u64	horizon_caps;
	__u64	enlarged;		/* times a limit was raised */
	__u64	shrunk;			/* times a limit was lowered */
	__u64	shed;			/* packets dropped by lowering */
	__s64	time_next_delayed_flow;	/* ns from now */
	__u32	flows;
	__u32	inactive_flows;
	__u32	throttled_flows;
	__u32	min_limit;		/* smallest limit of a flow, packets */
	__u32	max_limit;		/* largest */
	__u32	pad;
	__u64	min_rtt;		/* smallest RTT of a flow, ns; 0: none */
	__u64	max_rtt;		/* largest */
};

#endif
