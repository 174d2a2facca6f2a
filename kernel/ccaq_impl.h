/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ccaq: the algorithm.
 *
 * The best target of a flow is the smallest with which the link is hardly ever
 * idle. It depends on the RTT, on the sender's congestion control and on the
 * number of flows. When CoDel is about to begin dropping, a cycle of the
 * sender's window is over. If the link was idle for more than a given share of
 * the time in which the flow was sending, the flow's target was too low, and it
 * is raised in proportion. Otherwise it is lowered: by three quarters of the
 * least delay, which served nothing, or by a small step. When it is raised
 * above the present delay, the drop waits.
 *
 * - The RTT is the gap after a SYN or SYN-ACK. Without a handshake it is guessed
 *   from the gaps of the first eight packets. Each episode of dropping shows it
 *   again: the packets that waited longest arrived one RTT after the signal. So
 *   the RTT is shortened if two responses in a row say so, a guess is
 *   lengthened too, and an unknown RTT is taken from the response. A guess is
 *   also doubled if the target has reached it and the link is still idle.
 * - A target begins at a quarter of the RTT (at half of it from 200 ms on), and
 *   stays between an eighth (at most 20 ms) and one RTT.
 * - The delay must be above target for max(100 ms, RTT). The second drop
 *   follows 2 RTTs and the present delay later, since no answer to the first is
 *   seen before. While a queue drains, nothing is dropped.
 * - Idle time is the time between the end of everything that the link was given
 *   and the next arrival. If it is longer than half an RTT (at least 10 ms) that
 *   is no guess, the sender pauses, and this gap does not count.
 * - A packet that is older than its target by eight intervals is dropped, as
 *   its sender does not respond. For every 32 such packets the age is halved,
 *   down to an eighth of an interval.
 * - A packet with ECT(1) is marked above 1 ms, and adjusts nothing.
 *
 * The law and its arithmetic are CoDel's. The algorithm needs only 64-bit
 * integers and a few of the kernel's macros, so that tests can compile it in
 * user space: the decisions of sojourn's simulator are the same, packet by
 * packet. There are two divisions: one each epoch, and one for every 64 KiB of
 * a busy link.
 */
#ifndef SOJOURN_CCAQ_IMPL_H
#define SOJOURN_CCAQ_IMPL_H

#include <linux/compiler.h>
#include <linux/math64.h>
#include <linux/minmax.h>

#include "ccaq.h"

/* Returns whether @a is later than @b. */
static inline bool ccaq_after(ccaq_tick a, ccaq_tick b)
{
	return (s32)(a - b) > 0;
}

/* Initialises a flow that has had no packet. */
static inline void ccaq_vars_init(struct ccaq_vars *vars)
{
	*vars = (struct ccaq_vars) {
		.target	= CCAQ_FIRST_TARGET,
		.least	= CCAQ_NONE,
	};
}

/* Returns the RTT without the queue, or 0 if it is unknown. */
static inline ccaq_tick ccaq_rtt(const struct ccaq_vars *vars)
{
	return vars->seen < CCAQ_OPENING ? 0 : vars->rtt;
}

/* Returns the idle share of the epoch, in units of 2^-16. */
static inline u32 ccaq_idle_share(const struct ccaq_vars *vars)
{
	if (!vars->active)
		return 0;
	return (u32)div_u64((u64)vars->idle << 16, vars->active);
}

/* Returns for how long no packet has arrived. */
static inline ccaq_tick ccaq_silence(const struct ccaq_vars *vars,
				     ccaq_tick now)
{
	return now - vars->last_arrival;
}

/* Returns the time for which the delay must have been above target. */
static inline ccaq_tick ccaq_interval(const struct ccaq_vars *vars)
{
	return max(CCAQ_INTERVAL, ccaq_rtt(vars));
}

/*
 * Returns the distance of the first drops: an answer takes an RTT, and another
 * one to be seen.
 */
static inline ccaq_tick ccaq_spacing(const struct ccaq_vars *vars)
{
	return max(CCAQ_INTERVAL, 2 * ccaq_rtt(vars));
}

/*
 * A gap in which the link is idle for longer than this is the sender's own
 * pause, and says nothing about its target. A window that is halved at its
 * largest may stop the sender for half an RTT. BBR stops for a whole one when
 * it looks for the RTT. Links that send in bursts (Wi-Fi, DOCSIS) delay ACKs
 * for some milliseconds. A guess may be too short, so no gap is too long for it.
 */
static inline ccaq_tick ccaq_pause(const struct ccaq_vars *vars)
{
	if (vars->guessed)
		return CCAQ_NONE;
	return max(CCAQ_PAUSE, ccaq_rtt(vars) / 2);
}

/* Returns the age from which on packets are dropped. */
static inline ccaq_tick ccaq_oldest(const struct ccaq_vars *vars)
{
	u32 halvings = min(vars->discards / CCAQ_PATIENCE, CCAQ_MOST_HALVINGS);

	return vars->target + (CCAQ_OLDEST * ccaq_interval(vars) >> halvings);
}

/* The round trip. */

/*
 * Keeps the target within its bounds. With a target of one RTT, a window that
 * is halved at its largest keeps the link busy, so more is never necessary.
 */
static inline void ccaq_bound(struct ccaq_vars *vars)
{
	ccaq_tick most = vars->rtt ? vars->rtt : CCAQ_MOST;
	ccaq_tick least = min(vars->rtt / 8, CCAQ_HIGHEST_FLOOR);

	vars->target = min(vars->target, most);
	vars->target = max(vars->target, max(CCAQ_LEAST, least));
}

/*
 * Returns the target to begin with, for a flow of this RTT: a quarter of it,
 * which CUBIC needs. From 133 ms on it is more, up to half of it from 200 ms
 * on: there a sender takes minutes to recover from a cut that was one too many.
 */
static inline ccaq_tick ccaq_first_target(ccaq_tick rtt)
{
	ccaq_tick beyond = rtt > CCAQ_INTERVAL ? rtt - CCAQ_INTERVAL : 0;

	return max(rtt / 4, min(rtt / 2, beyond));
}

/* Sets the RTT, 0 if it is unknown, and the first target. */
static inline void ccaq_learn(struct ccaq_vars *vars, ccaq_tick rtt,
			      bool guessed)
{
	vars->seen = CCAQ_OPENING;
	vars->rtt = rtt;
	vars->guessed = guessed;
	vars->second_gap = 0;
	if (rtt)
		vars->target = ccaq_first_target(rtt);
	ccaq_bound(vars);
}

/*
 * Looks for the RTT in the first packets of a flow. @opens is set for a SYN or
 * SYN-ACK, whose next packet in the same direction follows one RTT later.
 * Without a handshake the gaps of the first packets are compared: a sender
 * waits for ACKs between its first flights. The longest gap may contain the
 * time that an application thinks. The second longest is an RTT too if it is
 * similar.
 */
static noinline void ccaq_open(struct ccaq_vars *vars, ccaq_tick gap,
			       bool opens)
{
	enum ccaq_handshake handshake = vars->handshake;

	if (opens) {
		ccaq_tick seen_idle = vars->seen_idle;
		bool shared = vars->shared;

		ccaq_vars_init(vars);
		vars->shared = shared;
		vars->seen_idle = seen_idle;
		vars->seen = 1;
		vars->handshake = handshake == CCAQ_OVER ? CCAQ_SENT :
							   CCAQ_REPEATED;
		return;
	}
	vars->handshake = CCAQ_OVER;
	/* A longer gap is a pause. */
	if (gap > CCAQ_LONGEST_RTT)
		gap = 0;
	if (handshake != CCAQ_OVER && gap) {
		ccaq_learn(vars, max(gap, CCAQ_SHORTEST_RTT),
			   handshake == CCAQ_REPEATED);
		return;
	}
	if (gap > vars->rtt) {
		vars->second_gap = vars->rtt;
		vars->rtt = gap;
	} else {
		vars->second_gap = max(vars->second_gap, gap);
	}
	vars->seen++;
	if (vars->seen == CCAQ_OPENING) {
		gap = vars->rtt;
		if (vars->second_gap > vars->rtt / 4)
			gap = vars->second_gap;
		ccaq_learn(vars, gap >= CCAQ_SHORTEST_RTT ? gap : 0, true);
	}
}

/*
 * Handles an arrival. @is_empty is set if the flow has no packets, @opens for a
 * SYN or SYN-ACK; @idle is the link's idle time so far.
 */
static inline void ccaq_arrival(struct ccaq_vars *vars, ccaq_tick now,
				bool is_empty, bool opens, ccaq_tick idle)
{
	ccaq_tick active, idle_in_gap, gap = ccaq_silence(vars, now);

	if (gap > CCAQ_FORGET && is_empty)
		ccaq_vars_init(vars);
	/* A SYN among packets of other flows says nothing about their RTTs. */
	if (vars->shared)
		opens = false;
	if (opens || vars->seen < CCAQ_OPENING) {
		/* The first packet has no gap before it. */
		if (!vars->seen)
			gap = CCAQ_NONE;
		ccaq_open(vars, gap, opens);
	}
	idle_in_gap = idle - vars->seen_idle;
	if (gap <= 2 * ccaq_interval(vars) && idle_in_gap <= ccaq_pause(vars)) {
		active = vars->active + gap;
		vars->active = active < gap ? CCAQ_NONE : active;
		vars->idle += idle_in_gap;
	}
	vars->seen_idle = idle;
	vars->last_arrival = now;
}

/* The servo. */

static inline void ccaq_new_epoch(struct ccaq_vars *vars)
{
	vars->began = true;
	vars->raised = false;
	vars->active = 0;
	vars->idle = 0;
	vars->least = CCAQ_NONE;
}

/* Raises or lowers the target at the end of an epoch. */
static inline void ccaq_adjust(struct ccaq_vars *vars, u32 share)
{
	ccaq_tick least, standing, creep, before = vars->target;
	u32 idle = ccaq_idle_share(vars);
	u64 rise;

	if (idle > share) {
		if (idle <= CCAQ_NOT_OURS) {
			/* As high as it may be: the RTT is longer. */
			if (vars->guessed && before >= vars->rtt)
				vars->rtt = min(2 * vars->rtt,
						CCAQ_LONGEST_RTT);
			rise = (u64)before * (idle - share) >> 12;
			vars->target += (ccaq_tick)min(rise, (u64)before * 3);
		}
	} else {
		least = vars->least == CCAQ_NONE ? 0 : vars->least;
		standing = least - least / 4;
		creep = (ccaq_tick)((u64)before * (share - idle) >> 13);
		vars->target -= min(max(standing, creep), before / 2);
	}
	ccaq_bound(vars);
}

/*
 * CoDel is about to begin dropping: a cycle of the sender's window is over.
 * Adjusts the target, and returns true if the drop is to wait because the
 * target is above the present delay.
 */
static inline bool ccaq_judge(struct ccaq_vars *vars, ccaq_tick sojourn,
			      u32 share)
{
	ccaq_tick before = vars->target;

	if (!vars->began || vars->raised) {
		ccaq_new_epoch(vars);
		return false;
	}
	/* It is the same congestion: the epoch continues. */
	if (vars->active < CCAQ_EPOCH * max(ccaq_interval(vars), vars->target))
		return false;
	ccaq_adjust(vars, share);
	if (vars->target > before && vars->target > sojourn) {
		vars->raised = true;
		return true;
	}
	ccaq_new_epoch(vars);
	return false;
}

/* CoDel's law. */

/* Newton's method for 1/sqrt(count): x := x (3 - count x^2) / 2. */
static inline void ccaq_next_root(struct ccaq_vars *vars)
{
	u64 x = (u64)vars->rec_inv_sqrt << 16;
	u64 square = x * x >> 32;
	u64 rest = (3ULL << 32) - vars->count * square;

	vars->rec_inv_sqrt = (u16)(((rest >> 2) * x >> 31) >> 16);
}

/* Returns @interval / sqrt(count). */
static inline ccaq_tick ccaq_step(const struct ccaq_vars *vars,
				  ccaq_tick interval)
{
	return (ccaq_tick)((u64)interval * ((u32)vars->rec_inv_sqrt << 16) >>
			   32);
}

/*
 * Compares the RTT with the sender's response. The queue is at its longest when
 * the packets arrive that the sender sent just before it learned of the signal:
 * one RTT after the signal. If other flows come or go meanwhile, the response
 * may seem shorter, so two in a row are needed to shorten the RTT; except in
 * the first episode, where slow start makes it clear. It may seem longer as
 * well, so only a guess is lengthened, and not in slow start, which may need
 * several signals. An RTT that is not known is taken from the response.
 */
static noinline void ccaq_check_rtt(struct ccaq_vars *vars)
{
	ccaq_tick last, response = vars->peak_arrival - vars->signal;

	if ((s32)response <= 0)
		return;
	if (!vars->rtt) {
		response = clamp(response, CCAQ_SHORTEST_RTT, CCAQ_LONGEST_RTT);
		ccaq_learn(vars, response, true);
		return;
	}
	last = vars->second_gap;
	vars->second_gap = 0;
	if (!vars->repeated && response < vars->rtt / 2) {
		if (last || !vars->has_answered) {
			response = max(response, last);
			vars->rtt = max(response, CCAQ_SHORTEST_RTT);
			vars->guessed = true;
			vars->target = min(vars->target,
					   ccaq_first_target(vars->rtt));
			ccaq_bound(vars);
		} else {
			vars->second_gap = response;
		}
	} else if (vars->guessed && vars->has_answered &&
		   response > vars->rtt + vars->rtt / 2) {
		vars->rtt = min(response, CCAQ_LONGEST_RTT);
		ccaq_bound(vars);
	}
}

/* Ends the episode of dropping, if there is one. */
static inline void ccaq_stop(struct ccaq_vars *vars)
{
	if (vars->dropping) {
		vars->dropping = false;
		ccaq_check_rtt(vars);
		vars->has_answered = true;
	}
}

/* Starts an episode of dropping with its first signal. */
static inline void ccaq_start(struct ccaq_vars *vars, ccaq_tick now,
			      ccaq_tick sojourn, bool few)
{
	ccaq_tick spacing = ccaq_spacing(vars);
	u32 delta = vars->count - vars->lastcount;

	vars->dropping = true;
	vars->repeated = false;
	vars->shrunk = false;
	vars->signal = now;
	vars->peak = sojourn;
	vars->peak_arrival = now - sojourn;
	/* A first episode has none to resume, whatever a limit has counted. */
	if (vars->lastcount && delta > 1 &&
	    ccaq_after(16 * spacing, now - vars->drop_next)) {
		vars->count = delta;
		ccaq_next_root(vars);
	} else {
		vars->count = 1;
		vars->rec_inv_sqrt = (u16)~0U;
	}
	vars->lastcount = vars->count;
	/* The answer is seen behind the packets that wait now. */
	vars->drop_next = now + ccaq_step(vars, spacing + (few ? 0 : sojourn));
}

/* The delay was above target for an interval, and a signal is due. */
static noinline enum ccaq_verdict ccaq_too_long(struct ccaq_vars *vars,
						ccaq_tick now,
						const struct ccaq_head *head,
						u32 share)
{
	ccaq_tick sojourn = head->sojourn;
	ccaq_tick spacing;
	bool answered;

	if (!vars->dropping) {
		if (ccaq_judge(vars, sojourn, share)) {
			vars->first_above_time = 0;
			return CCAQ_PASS;
		}
		ccaq_start(vars, now, sojourn, head->few);
		return CCAQ_SIGNAL;
	}
	if (!head->signals) {
		/*
		 * If the queue has shrunk since the last signal, the sender has
		 * answered, and the queue drains by itself.
		 */
		answered = !head->few &&
			   sojourn < vars->peak - vars->peak / 16;
		vars->peak = sojourn;
		if (answered) {
			vars->shrunk = true;
			spacing = ccaq_spacing(vars);
			vars->drop_next = now + ccaq_step(vars, spacing);
			return CCAQ_PASS;
		}
		vars->repeated = true;
	}
	spacing = ccaq_spacing(vars);
	if (head->signals == CCAQ_MOST_DROPS) {
		vars->drop_next = now + ccaq_step(vars, spacing);
		return CCAQ_PASS;
	}
	vars->count++;
	ccaq_next_root(vars);
	vars->drop_next += max(ccaq_step(vars, spacing), 1U);
	return CCAQ_SIGNAL;
}

/*
 * Decides about the packet at the head of a flow's queue. @share is the idle
 * share to reach, in units of 2^-16.
 */
static inline enum ccaq_verdict ccaq_head(struct ccaq_vars *vars,
					  ccaq_tick now,
					  const struct ccaq_head *head,
					  u32 share)
{
	ccaq_tick sojourn = head->sojourn;

	if (sojourn > vars->target &&
	    sojourn > ccaq_oldest(vars) && !head->last) {
		vars->count++;
		if (vars->discards < 255)
			vars->discards++;
		return CCAQ_DISCARD;
	}
	/* Such a sender keeps its queue at the step by itself. */
	if (head->scalable)
		return sojourn > CCAQ_STEP && !head->last ? CCAQ_SIGNAL :
							    CCAQ_PASS;
	vars->least = min(vars->least, sojourn);
	if (vars->dropping) {
		vars->peak = max(vars->peak, sojourn);
		if (!vars->shrunk && sojourn >= vars->peak - vars->peak / 16)
			vars->peak_arrival = now - sojourn;
	}
	if (sojourn < vars->target || head->small) {
		vars->discards = 0;
		vars->first_above_time = 0;
		ccaq_stop(vars);
		return CCAQ_PASS;
	}
	if (!vars->first_above_time) {
		vars->first_above_time = max(now + ccaq_interval(vars), 1U);
		ccaq_stop(vars);
		return CCAQ_PASS;
	}
	if (!ccaq_after(now, vars->first_above_time)) {
		ccaq_stop(vars);
		return CCAQ_PASS;
	}
	if (vars->dropping && ccaq_after(vars->drop_next, now))
		return CCAQ_PASS;
	return ccaq_too_long(vars, now, head, share);
}

/* The flow's queue was found empty at its turn. */
static inline void ccaq_empty(struct ccaq_vars *vars)
{
	vars->shared = false;
	vars->discards = 0;
	vars->first_above_time = 0;
	vars->least = 0;
	ccaq_stop(vars);
}

/* The link. */

/*
 * A packet of @bytes bytes is dequeued at @now, in nanoseconds; @more is set if
 * others remain.
 */
static inline void ccaq_link_dequeued(struct ccaq_link *link, u64 now,
				      u32 bytes, bool more)
{
	u64 cost;

	if (!link->busy) {
		link->run_start = now;
		link->run_bytes = 0;
	} else if (link->run_bytes >= CCAQ_RUN) {
		cost = div_u64((now - link->run_start) << 10, link->run_bytes);
		/* Too high a cost would hide idle time. */
		if (!link->cost || cost < link->cost)
			link->cost = cost;
		else
			link->cost += (cost - link->cost) / 8;
		link->run_start = now;
		link->run_bytes = 0;
	}
	link->busy = more;
	link->run_bytes += bytes;
	link->done = max(link->done, now) + (bytes * link->cost >> 10);
}

/*
 * A packet arrives at the empty discipline. Returns for how long the link was
 * idle before.
 */
static inline u64 ccaq_link_idle_before(struct ccaq_link *link, u64 now)
{
	u64 idle = 0;

	if (now > link->done) {
		if (link->cost)
			idle = now - link->done;
		link->done = now;
	}
	return idle;
}

/* The table. */

/*
 * Finds the queue of the flow with this hash: the one to which the hash leads,
 * or another of its set. @look returns the state of a queue's flow, and how the
 * queue is used.
 */
static inline u32 ccaq_find(struct ccaq_table *table, u32 hash, ccaq_tick now,
			    const struct ccaq_vars *(*look)(const void *ctx,
							    u32 queue,
							    enum ccaq_use *use),
			    const void *ctx, enum ccaq_found *found)
{
	u32 direct = (u32)((u64)hash * table->queues >> 32);
	u32 set = direct & ~(CCAQ_WAYS - 1U), tag = max(hash, 1U);
	u32 way, queue, best = direct;
	const struct ccaq_vars *vars;
	u64 age, oldest = 0;
	enum ccaq_use use;

	*found = CCAQ_OWN;
	if (table->tags[direct] == tag)
		return direct;
	for (way = 1; way < CCAQ_WAYS; way++) {
		queue = set | ((direct + way) & (CCAQ_WAYS - 1));
		if (table->tags[queue] == tag)
			return queue;
	}
	/* In another queue its packets would overtake those that wait here. */
	vars = look(ctx, direct, &use);
	if (use == CCAQ_FILLED && vars->shared) {
		*found = CCAQ_SHARED;
		return direct;
	}
	for (way = 0; way < CCAQ_WAYS; way++) {
		queue = set | ((direct + way) & (CCAQ_WAYS - 1));
		if (!table->tags[queue]) {
			/* It has had no flow. */
			age = 1ULL << 32;
		} else {
			vars = look(ctx, queue, &use);
			age = 0;
			if (use == CCAQ_UNUSED)
				age = 1ULL + ccaq_silence(vars, now);
		}
		if (age > oldest) {
			oldest = age;
			best = queue;
		}
	}
	if (!oldest) {
		*found = CCAQ_SHARED;
		return direct;
	}
	*found = CCAQ_NEW;
	table->tags[best] = tag;
	return best;
}

#endif
