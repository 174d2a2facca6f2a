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

/* The RTT of a flow that has shown none. */
#define CCAQ_NO_RTT	(~0ULL)

/*
 * struct ccaq_params - what holds for all flows
 * @flow_limit: packets in one flow's queue at first
 * @multiplier: a guard interval (GI) in units of the longest interval (LI)
 *	before it, in millionths
 * @max_increase: greatest factor by which a limit grows at once, in millionths
 * @max_gi: longest GI
 * @max_gi_rtts: longest GI in the flow's most recent RTTs, in millionths;
 *	0: only @max_gi counts
 */
struct ccaq_params {
	u32	flow_limit;
	u64	multiplier;
	u64	max_increase;
	u64	max_gi;
	u64	max_gi_rtts;
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
 * enum ccaq_opening - the handshake of a flow, as one direction shows it
 * @CCAQ_OPEN: no answer is awaited
 * @CCAQ_OPENING: a SYN came, its answer has not
 * @CCAQ_AMBIGUOUS: another SYN came before the answer: whose it is, is not known
 */
enum ccaq_opening {
	CCAQ_OPEN,
	CCAQ_OPENING,
	CCAQ_AMBIGUOUS,
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
 * @opening: whether the answer to a SYN is awaited
 * @opener: the SYN's hash, all of it: packets of other flows don't answer it
 * @opened: when the SYN came
 * @base_rtt: of the latest handshake, without the wait in this queue
 * @waited: how long the packet that left last had waited
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
