/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ccaq: types of the algorithm, independent of the kernel.
 *
 * Times are nanoseconds of a monotonic clock; queue lengths are in packets. The
 * algorithm is in ccaq_paper_impl.h, the discipline in sch_ccaq_paper.c.
 */
#ifndef SOJOURN_CCAQ_PAPER_H
#define SOJOURN_CCAQ_PAPER_H

#include <linux/types.h>

/* Factors are in millionths, as the kernel has no floating point. */
#define CCAQ_ONE	1000000ULL

/* Value of @min_queue in an interval without a departure. */
#define CCAQ_NO_QUEUE	(~0U)

/* The RTT of a flow for which none was measured. */
#define CCAQ_NO_RTT	(~0ULL)

/*
 * struct ccaq_params - parameters common to all flows
 * @flow_limit: initial limit of a flow's queue, in packets
 * @multiplier: length of a guard interval (GI) in units of the longest
 *	interval (LI) before it, in millionths
 * @max_increase: largest factor by which a limit grows in one step, in
 *	millionths
 * @max_gi: longest GI
 * @max_gi_rtts: longest GI in units of the flow's most recent RTT, in
 *	millionths; 0: only @max_gi applies
 */
struct ccaq_params {
	u32	flow_limit;
	u64	multiplier;
	u64	max_increase;
	u64	max_gi;
	u64	max_gi_rtts;
};

/*
 * struct ccaq_interval - observations of a flow since its last loss
 * @start: start of the interval
 * @idle: time for which the flow's queue was empty
 * @packets: number of departures
 * @min_queue: smallest queue that a departure left behind
 */
struct ccaq_interval {
	u64	start;
	u64	idle;
	u64	packets;
	u32	min_queue;
};

/*
 * enum ccaq_opening - state of a flow's handshake, as seen in one direction
 * @CCAQ_OPEN: no response is pending
 * @CCAQ_OPENING: a SYN was seen, its response was not
 * @CCAQ_AMBIGUOUS: another SYN was seen before the response, so that the
 *	response belongs to either
 */
enum ccaq_opening {
	CCAQ_OPEN,
	CCAQ_OPENING,
	CCAQ_AMBIGUOUS,
};

/*
 * struct ccaq_vars - the buffer of one flow: its limit and measurements
 * @limit: limit in packets
 * @first: the flow's first interval has not ended
 * @enlarged: the limit was raised in this interval
 * @empty: the queue has been empty since @idle_since
 * @idle_since: valid if @empty
 * @current_interval: the interval since the last loss
 * @longest: length of the LI
 * @longest_min_queue: @min_queue of the LI
 * @gi_end: end of the GI
 * @opening: whether the response to a SYN is pending
 * @opener: full flow hash of the SYN, to ignore packets of other flows
 * @opened: time of the SYN
 * @base_rtt: RTT of the latest handshake, without the delay in this
 *	queue
 * @waited: queueing delay of the packet that left last
 */
struct ccaq_vars {
	u32	limit;
	bool	first;
	bool	enlarged;
	bool	empty;
	u64	idle_since;
	struct ccaq_interval current_interval;
	u64	longest;
	u32	longest_min_queue;
	u64	gi_end;
	enum ccaq_opening opening;
	u32	opener;
	u64	opened;
	u64	base_rtt;
	u64	waited;
};

/*
 * struct ccaq_stats - number of changes of all limits
 * @enlarged: number of times that a limit was raised
 * @shrunk: number of times that a limit was lowered
 */
struct ccaq_stats {
	u64	enlarged;
	u64	shrunk;
};

/*
 * Decision about an arriving packet: it is queued; it is dropped; or it is
 * dropped together with all queued packets beyond the first @limit.
 */
enum ccaq_verdict {
	CCAQ_ACCEPT,
	CCAQ_REFUSE,
	CCAQ_SHRINK,
};

#endif
