/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ccaq: types of the algorithm, independent of the kernel.
 *
 * Times of flows are in ticks of 1.024 us, as in CoDel; they wrap around after
 * 73 minutes. Times of the link are in nanoseconds of a monotonic clock. The
 * algorithm is in ccaq_impl.h, the discipline in sch_ccaq.c.
 */
#ifndef SOJOURN_CCAQ_H
#define SOJOURN_CCAQ_H

#include <linux/types.h>

/* A time, or a duration, of a flow. */
typedef u32 ccaq_tick;

/*
 * Ticks of a duration in microseconds, and of a time in nanoseconds.
 */
#define CCAQ_SHIFT		10
#define CCAQ_US(us)		((ccaq_tick)((us) * 1000ULL >> CCAQ_SHIFT))
#define CCAQ_MS(ms)		CCAQ_US((ms) * 1000ULL)

/*
 * The interval of a flow whose RTT is shorter or unknown, and the smallest
 * distance of its first drops: CoDel's default.
 */
#define CCAQ_INTERVAL		CCAQ_MS(100)
/* The target of a flow whose RTT is unknown: the best of CUBIC at 80 ms. */
#define CCAQ_FIRST_TARGET	CCAQ_MS(20)
/* Bounds of a target; the upper one applies while the RTT is unknown. */
#define CCAQ_LEAST		CCAQ_MS(1)
#define CCAQ_MOST		CCAQ_MS(300)
/*
 * A target is at least an eighth of the RTT, but not more than this because of
 * the RTT. Otherwise many flows, with which the link is never idle, lower each
 * other's targets so far that the one that remains starves.
 */
#define CCAQ_HIGHEST_FLOOR	CCAQ_MS(20)
/* RTTs outside these bounds are not believed. */
#define CCAQ_SHORTEST_RTT	CCAQ_MS(2)
#define CCAQ_LONGEST_RTT	CCAQ_MS(1000)
/*
 * Without a handshake, the RTT is sought among the gaps of this many first
 * packets.
 */
#define CCAQ_OPENING		8
/* A flow's state is forgotten after this silence. */
#define CCAQ_FORGET		CCAQ_MS(60000)
/*
 * An epoch lasts for at least this many intervals or targets in which the flow
 * sends.
 */
#define CCAQ_EPOCH		4
/*
 * A larger idle share, 3/8, has another cause than the target: after its window
 * is halved, a sender leaves the link idle for a quarter of the time at most.
 */
#define CCAQ_NOT_OURS		(3U << 13)
/* The shortest pause of a sender. */
#define CCAQ_PAUSE		CCAQ_MS(10)
/*
 * With fewer MTUs behind its head, the delay of a queue says more about the
 * other flows than about its sender.
 */
#define CCAQ_FEW		4
/*
 * A packet that is older than its flow's target by this many intervals belongs
 * to a sender that does not respond.
 */
#define CCAQ_OLDEST		8
/*
 * After this many packets of such a sender were dropped, half that age is
 * enough, and so on.
 */
#define CCAQ_PATIENCE		32
#define CCAQ_MOST_HALVINGS	6
/* A packet with ECT(1) is marked above this delay (RFC 9332, section A.1). */
#define CCAQ_STEP		CCAQ_MS(1)
/* The largest number of drops in one dequeue, as in Linux 7. */
#define CCAQ_MOST_DROPS		256
/* Bytes of a busy run after which the cost of a byte is measured. */
#define CCAQ_RUN		(64U << 10)
/* The least sojourn of an epoch without a departure; the longest duration. */
#define CCAQ_NONE		(~(ccaq_tick)0)
/* The number of queues in a set of the table. */
#define CCAQ_WAYS		8

/* The state of a flow's handshake. */
enum ccaq_handshake {
	CCAQ_OVER,	/* none, or it is over */
	CCAQ_SENT,	/* a SYN or SYN-ACK was the last packet */
	CCAQ_REPEATED,	/* it was sent again: an answer may be to any (Karn) */
};

/*
 * struct ccaq_vars - state of one flow, 68 bytes
 * @count: drops since dropping began
 * @lastcount: @count at the last begin of dropping
 * @first_above_time: when the delay will have been above target for an interval
 * @drop_next: when the next drop is due
 * @rec_inv_sqrt: 1/sqrt(@count), in units of 2^-16
 * @discards: packets dropped because the sender does not respond, since the
 *	delay was below target; at most 255
 * @seen: number of packets, up to CCAQ_OPENING
 * @dropping: the flow is in an episode of dropping
 * @handshake: enum ccaq_handshake
 * @guessed: the RTT is a guess, which may be too short
 * @has_answered: an episode of dropping is over
 * @repeated: this episode has had a second signal
 * @shrunk: the queue has shrunk in this episode
 * @shared: packets of other flows may wait in the queue too
 * @began: an epoch has begun
 * @raised: the target was raised at the end of the last epoch, and the drop
 *	waited
 * @target: the delay above which the queue is too long
 * @rtt: the RTT without the queue, 0 if unknown; the longest gap while the
 *	first packets come
 * @second_gap: the second longest gap of the first packets; later the last
 *	response, if it was much shorter than the RTT, otherwise 0
 * @last_arrival: time of the last arrival
 * @least: the least sojourn of the epoch
 * @active: how long the flow was sending in the epoch
 * @idle: for how long of @active the link was idle
 * @seen_idle: the link's idle time at the last arrival
 * @peak: the longest sojourn since the last signal, or since the last time
 *	when the queue had shrunk
 * @signal: time of the first signal of the episode
 * @peak_arrival: arrival of the last packet that waited for about @peak
 */
struct ccaq_vars {
	u32		count;
	u32		lastcount;
	ccaq_tick	first_above_time;
	ccaq_tick	drop_next;
	u16		rec_inv_sqrt;
	u8		discards;
	u8		seen;
	u16		dropping:1,
			handshake:2,
			guessed:1,
			has_answered:1,
			repeated:1,
			shrunk:1,
			shared:1,
			began:1,
			raised:1;
	ccaq_tick	target;
	ccaq_tick	rtt;
	ccaq_tick	second_gap;
	ccaq_tick	last_arrival;
	ccaq_tick	least;
	ccaq_tick	active;
	ccaq_tick	idle;
	ccaq_tick	seen_idle;
	ccaq_tick	peak;
	ccaq_tick	signal;
	ccaq_tick	peak_arrival;
};

/*
 * struct ccaq_head - the packet at the head of a flow's queue
 * @sojourn: how long it has waited
 * @signals: number of signals in this dequeue so far
 * @last: it is the flow's last packet
 * @few: less than CCAQ_FEW MTUs of the flow are queued behind it
 * @small: the backlog of the discipline is at most one MTU without it
 * @scalable: its sender expects marks at a step: ECT(1), RFC 9331
 */
struct ccaq_head {
	ccaq_tick	sojourn;
	u32		signals;
	bool		last;
	bool		few;
	bool		small;
	bool		scalable;
};

/* Decision about the packet at the head of a flow's queue. */
enum ccaq_verdict {
	CCAQ_PASS,	/* it is sent */
	CCAQ_SIGNAL,	/* it is marked and sent, or dropped */
	CCAQ_DISCARD,	/* it is dropped: the sender does not respond */
};

/*
 * struct ccaq_link - model of the link, which says when it is idle
 * @cost: time for 1024 bytes; 0 until it is measured
 * @done: when everything that was dequeued will have been sent
 * @run_start: when the present busy run began
 * @run_bytes: bytes dequeued in it, without the last packet's
 * @busy: the discipline has had packets since @run_start
 */
struct ccaq_link {
	u64	cost;
	u64	done;
	u64	run_start;
	u32	run_bytes;
	bool	busy;
};

/*
 * struct ccaq_table - which queue a flow has
 * @tags: hash of the flow of each queue; 0: it has had none
 * @queues: number of queues, a multiple of CCAQ_WAYS
 */
struct ccaq_table {
	u32	*tags;
	u32	queues;
};

/* How a queue is used. */
enum ccaq_use {
	CCAQ_UNUSED,	/* it is not in the round */
	CCAQ_DRAINED,	/* it is in the round, without packets */
	CCAQ_FILLED,	/* it has packets */
};

/* How ccaq_find() found a queue. */
enum ccaq_found {
	CCAQ_OWN,	/* the flow has had it */
	CCAQ_NEW,	/* it is the flow's from now on; its state is void */
	CCAQ_SHARED,	/* all queues of the set are in use by other flows */
};

#endif
