/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ccaq: the algorithm.
 *
 * Source: "Congestion Control Aware Queuing", Algorithm 1, with the removal of
 * the packets that no longer fit, as in the paper's final version.
 *
 * The right size of a buffer is the one at which it just runs empty after the
 * sender's back-off. An interval is the time between two losses. The flow's
 * queue in an interval shows how far the buffer is from that size. If the queue
 * ran empty, the link lost that time: the limit grows by the packets that could
 * have been sent in it. If the queue never fell below some number of packets,
 * these only added delay: the limit shrinks by that number. Losses in close
 * succession belong to one back-off. Therefore the limit shrinks only at a loss
 * after the end of a guard interval (GI), by the smallest queue of the longest
 * interval (LI) in it. A GI lasts multiplier times the previous LI, at most
 * max_gi and, with max_gi_rtts, at most that many of the flow's most recent
 * RTTs.
 *
 * Decisions where the paper leaves them open:
 * - The link was idle for a flow while the flow's queue was empty.
 * - Growth is in whole packets, rounded down. If it is zero, the arriving
 *   packet is queued all the same (line 5), one above the limit.
 * - If a flow had no active time, its growth is unbounded if packets left, and
 *   otherwise zero.
 * - The first interval begins with the flow and adapts nothing; its length
 *   determines the first GI. The same holds for the interval that ends after an
 *   enlargement.
 * - The first of equally long intervals is the LI.
 * - At its exact end, the GI is over.
 * - An LI without a departure does not reduce the limit.
 * - The limit is at least one packet.
 * - The paper measures RTTs by TCP timestamps, which needs both directions, but
 *   a queue sees only one. In that direction the packet after a SYN-ACK follows
 *   the SYN by one round trip; a retransmitted SYN gives no sample (Karn). This
 *   time minus the SYN's own queueing delay, plus the queueing delay of the
 *   packet that left last, is the most recent RTT. It is read when a GI begins;
 *   without a sample only max_gi applies.
 *
 * The algorithm needs only 64-bit integers, so that tests can compile it in
 * user space: the decisions of sojourn's simulator are the same, packet by
 * packet.
 */
#ifndef SOJOURN_CCAQ_PAPER_IMPL_H
#define SOJOURN_CCAQ_PAPER_IMPL_H

#include <linux/math64.h>

#include "ccaq_paper.h"

/*
 * Returns a * b / c, rounded down, or U64_MAX on overflow. @c must not be 0.
 * Only called when a packet meets a full buffer, which is rare.
 */
static inline u64 ccaq_mul_div(u64 a, u64 b, u64 c)
{
	u64 high = 0, low = 0, rest, quotient = 0;
	int i;

	if (!(a >> 32) && !(b >> 32))
		return div64_u64(a * b, c);

	/* The product in two halves, by shifting and adding. */
	for (i = 63; i >= 0; i--) {
		high = high << 1 | low >> 63;
		low <<= 1;
		if (b >> i & 1) {
			low += a;
			high += low < a;
		}
	}
	if (high >= c)
		return ~0ULL;

	/* Long division, bit by bit; the remainder stays below c. */
	rest = high;
	for (i = 63; i >= 0; i--) {
		u64 carry = rest >> 63;

		rest = rest << 1 | (low >> i & 1);
		quotient <<= 1;
		if (carry || rest >= c) {
			rest -= c;
			quotient |= 1;
		}
	}
	return quotient;
}

/* Starts a new interval. */
static inline void ccaq_begin(struct ccaq_interval *interval, u64 now)
{
	interval->start = now;
	interval->idle = 0;
	interval->packets = 0;
	interval->min_queue = CCAQ_NO_QUEUE;
}

/* Returns the flow's most recent RTT, or CCAQ_NO_RTT if none was measured. */
static inline u64 ccaq_rtt(const struct ccaq_vars *vars)
{
	if (vars->base_rtt == CCAQ_NO_RTT)
		return CCAQ_NO_RTT;
	return vars->base_rtt + vars->waited;
}

/* Returns the longest guard interval that may begin now. */
static inline u64 ccaq_max_gi(const struct ccaq_vars *vars,
			      const struct ccaq_params *params)
{
	u64 rtt = ccaq_rtt(vars), most;

	if (!params->max_gi_rtts || rtt == CCAQ_NO_RTT)
		return params->max_gi;
	most = ccaq_mul_div(rtt, params->max_gi_rtts, CCAQ_ONE);
	return most < params->max_gi ? most : params->max_gi;
}

/*
 * Starts a new interval and a new guard interval after this longest interval.
 */
static inline void ccaq_new_guard(struct ccaq_vars *vars,
				  const struct ccaq_params *params,
				  u64 now, u64 longest)
{
	u64 guard = ccaq_mul_div(longest, params->multiplier, CCAQ_ONE);
	u64 most = ccaq_max_gi(vars, params);

	vars->gi_end = now + (guard < most ? guard : most);
	ccaq_begin(&vars->current_interval, now);
	vars->longest = 0;
	vars->longest_min_queue = CCAQ_NO_QUEUE;
	vars->first = false;
	vars->enlarged = false;
}

/*
 * Raises the limit by what the link could have sent while the queue was empty.
 */
static inline void ccaq_enlarge(struct ccaq_vars *vars,
				const struct ccaq_params *params, u64 now)
{
	const struct ccaq_interval *seen = &vars->current_interval;
	u64 active = now - seen->start - seen->idle;
	u64 most = ccaq_mul_div(vars->limit, params->max_increase, CCAQ_ONE);
	u64 growth, limit = vars->limit;

	if (most < limit)
		most = limit;
	if (!seen->packets)
		growth = 0;
	else if (!active)
		growth = ~0ULL;
	else
		growth = ccaq_mul_div(seen->packets, seen->idle, active);

	limit = growth > most - limit ? most : limit + growth;
	vars->limit = limit > ~0U ? ~0U : (u32)limit;
	vars->enlarged = true;
}

/* Algorithm 1, lines 2 to 19: handles a packet that meets a full buffer. */
static inline enum ccaq_verdict ccaq_full(struct ccaq_vars *vars,
					  const struct ccaq_params *params,
					  struct ccaq_stats *stats, u64 now)
{
	struct ccaq_interval *seen = &vars->current_interval;
	u64 length = now - seen->start;
	u32 standing;

	if (seen->idle && !vars->enlarged && !vars->first) {
		ccaq_enlarge(vars, params, now);
		stats->enlarged++;
		return CCAQ_ACCEPT;
	}
	if (vars->first || vars->enlarged) {
		ccaq_new_guard(vars, params, now, length);
		return CCAQ_REFUSE;
	}
	if (length > vars->longest) {
		vars->longest = length;
		vars->longest_min_queue = seen->min_queue;
	}
	if (now < vars->gi_end) {
		ccaq_begin(seen, now);
		return CCAQ_REFUSE;
	}
	standing = vars->longest_min_queue;
	ccaq_new_guard(vars, params, now, vars->longest);
	if (!standing || standing == CCAQ_NO_QUEUE)
		return CCAQ_REFUSE;
	vars->limit = vars->limit > standing ? vars->limit - standing : 1;
	stats->shrunk++;
	return CCAQ_SHRINK;
}

/* Initialises a flow whose first packet arrives now. */
static inline void ccaq_vars_init(struct ccaq_vars *vars,
				  const struct ccaq_params *params, u64 now)
{
	vars->limit = params->flow_limit;
	vars->first = true;
	vars->enlarged = false;
	vars->empty = false;
	vars->idle_since = 0;
	ccaq_begin(&vars->current_interval, now);
	vars->longest = 0;
	vars->longest_min_queue = CCAQ_NO_QUEUE;
	vars->gi_end = now;
	vars->opening = CCAQ_OPEN;
	vars->opener = 0;
	vars->opened = 0;
	vars->base_rtt = CCAQ_NO_RTT;
	vars->waited = 0;
}

/*
 * Observes a packet for the RTT; if RTTs are used, call it before
 * ccaq_arrival(). @opens is set for a SYN or SYN-ACK.
 */
static inline void ccaq_handshake(struct ccaq_vars *vars, u64 now, u32 hash,
				  bool opens)
{
	if (vars->opening != CCAQ_OPEN && vars->opener == hash) {
		u64 between = now - vars->opened;

		if (opens) {
			vars->opening = CCAQ_AMBIGUOUS;
			return;
		}
		/*
		 * The SYN was the last packet to leave: @waited is its delay.
		 */
		if (vars->opening == CCAQ_OPENING)
			vars->base_rtt = between > vars->waited ?
					 between - vars->waited : 0;
		vars->opening = CCAQ_OPEN;
	} else if (opens) {
		vars->opening = CCAQ_OPENING;
		vars->opener = hash;
		vars->opened = now;
	}
}

/* Handles an arrival while the flow has @queued packets. */
static inline enum ccaq_verdict ccaq_arrival(struct ccaq_vars *vars,
					     const struct ccaq_params *params,
					     struct ccaq_stats *stats,
					     u64 now, u32 queued)
{
	if (vars->empty) {
		vars->current_interval.idle += now - vars->idle_since;
		vars->empty = false;
	}
	if (queued < vars->limit)
		return CCAQ_ACCEPT;
	return ccaq_full(vars, params, stats, now);
}

/*
 * Handles a departure of a packet that arrived at @arrived; @left packets
 * remain.
 */
static inline void ccaq_departure(struct ccaq_vars *vars, u64 now, u32 left,
				  u64 arrived)
{
	struct ccaq_interval *seen = &vars->current_interval;

	vars->waited = now - arrived;
	seen->packets++;
	if (left < seen->min_queue)
		seen->min_queue = left;
	if (!left) {
		vars->idle_since = now;
		vars->empty = true;
	}
}

#endif
