/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ccaq: types of the algorithm, without the kernel.
 *
 * Times are nanoseconds of one clock that never goes back, queues are counted
 * in packets. ccaq_impl.h has the algorithm, sch_ccaq.c the discipline.
 */
#ifndef SOJOURN_CCAQ_H
#define SOJOURN_CCAQ_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stdint.h>
typedef uint32_t u32;
typedef uint64_t u64;
#endif

/* Factors are kept in millionths: there are no real numbers in a kernel. */
#define CCAQ_ONE	1000000ULL

/* The least queue of an interval without a departure. */
#define CCAQ_NO_QUEUE	(~0U)

/*
 * struct ccaq_params - what holds for all flows
 * @flow_limit: packets in one flow's queue at first
 * @multiplier: a guard interval (GI) in units of the longest interval (LI)
 *	before it, in millionths
 * @max_increase: greatest factor by which a limit grows at once, in millionths
 * @max_gi: longest GI
 */
struct ccaq_params {
	u32	flow_limit;
	u64	multiplier;
	u64	max_increase;
	u64	max_gi;
};

/*
 * struct ccaq_interval - what was seen of a flow since its last loss
 * @start: when it began
 * @idle: how long the flow's queue was empty
 * @packets: departures
 * @min_queue: fewest packets that a departure left behind
 */
struct ccaq_interval {
	u64	start;
	u64	idle;
	u64	packets;
	u32	min_queue;
};

/*
 * struct ccaq_vars - one flow's buffer: its limit and what it has learned
 * @limit: packets
 * @first: the flow's first interval is not over
 * @enlarged: the limit was raised in this interval
 * @empty: the queue is empty, since @idle_since
 * @idle_since: valid if @empty
 * @current_interval: since the last loss
 * @longest: length of the LI
 * @longest_min_queue: its least queue
 * @gi_end: end of the GI
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
};

/*
 * struct ccaq_stats - how often the limits of all flows moved
 * @enlarged: times a limit was raised
 * @shrunk: times a limit was lowered
 */
struct ccaq_stats {
	u64	enlarged;
	u64	shrunk;
};

/*
 * What becomes of an arriving packet: it joins its flow's queue; it is dropped;
 * it is dropped, and so is what no longer fits behind the first @limit packets.
 */
enum ccaq_verdict {
	CCAQ_ACCEPT,
	CCAQ_REFUSE,
	CCAQ_SHRINK,
};

#endif
