// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * sojourn_link: Ethernet flow control (IEEE 802.3x) between hops, as in crates/sim/src/link/pause.rs.
 *
 * A queue that exceeds a threshold pauses the previous link, and resumes it at another threshold.
 */
#include "sojourn_link.h"

/* A pause frame in flight. */
struct pause_frame {
	struct list_head order;
	u64 due;
	bool stop;
};

/* Whether any queue pauses the previous link. */
static bool pause_used;

/* Whether a paused link does not dequeue. A link with a network card dequeues until its ring is full. */
bool pause_holds(const struct link_dev *ld)
{
	return ld->stopped && !ld->noted;
}

/*
 * Handles the arrival of a frame. A transmission in progress is finished. If the frame pauses the link, no other one
 * starts; otherwise the next one starts at once.
 */
static void pause_arrives(struct link_dev *ld, bool stop, u64 when)
{
	union record r = { .paused = { .type = RECORD_PAUSED, .stop = stop, .link = ld->index, .at = when } };

	if (records_on)
		records_keep(&r);
	ld->stopped = stop;
	if (ld->sending)
		return;
	ld->awaited = false;
	if (!stop && !skb_queue_empty(&ld->queue))
		link_begin(ld, when);
	if (pause_holds(ld))
		netif_stop_queue(ld->dev);
	else if (!stop && ld->used < ld->ring)
		netif_wake_queue(ld->dev);
}

static enum hrtimer_restart pause_on_frame(struct hrtimer *timer)
{
	struct link_dev *ld = container_of(timer, struct link_dev, frame);
	struct pause_frame *frame;

	link_timer_served(timer);
	while ((frame = list_first_entry_or_null(&ld->frames, struct pause_frame, order)) &&
	       frame->due <= ktime_get_ns()) {
		list_del(&frame->order);
		link_moment_is(frame->due);
		pause_arrives(ld, frame->stop, frame->due);
		kfree(frame);
	}
	if (frame)
		link_timer_start(timer, frame->due);
	return HRTIMER_NORESTART;
}

/* Sends a frame to a link. It takes the delay of the reverse direction. */
static void pause_send(struct link_dev *to, bool stop, u64 when)
{
	struct link_dev *reverse = to->peer;
	struct pause_frame *frame;

	reverse->delay = link_step_to(&reverse->delays, when, reverse->delay);
	to->last_frame = max(when + reverse->delay, to->last_frame);
	if (list_empty(&to->frames) && to->last_frame <= when) {
		pause_arrives(to, stop, when);
		return;
	}
	frame = kmalloc(sizeof(*frame), GFP_ATOMIC);
	if (!frame) {
		records_lost++;
		return;
	}
	frame->due = to->last_frame;
	frame->stop = stop;
	if (list_empty(&to->frames))
		link_timer_start(&to->frame, frame->due);
	list_add_tail(&frame->order, &to->frames);
}

/* Sends a frame if a threshold is crossed; call it after every change of the queue. */
void pause_watch(struct link_dev *ld)
{
	const struct link_threshold *threshold = ld->stops ? &ld->go_at : &ld->stop_above;
	const struct Qdisc *q;
	bool above;

	if (!ld->before)
		return;
	q = rcu_dereference_bh(netdev_get_tx_queue(ld->dev, 0)->qdisc);
	above = qdisc_qlen(q) > threshold->packets || q->qstats.backlog > threshold->bytes;
	if (above == ld->stops)
		return;
	ld->stops = above;
	pause_send(ld->before, above, link_now());
}

/* Checks all queues; call it after a delivery, which may change any. */
void pause_watch_all(void)
{
	struct link_dev *ld;

	if (!pause_used)
		return;
	list_for_each_entry(ld, &link_devs, all)
		pause_watch(ld);
}

void pause_enable(struct link_dev *ld, struct link_dev *before, struct link_threshold stop, struct link_threshold go)
{
	ld->before = before;
	ld->stop_above = stop;
	ld->go_at = go;
	pause_used = true;
}

void pause_init(struct link_dev *ld)
{
	link_timer_set(&ld->frame, pause_on_frame);
	INIT_LIST_HEAD(&ld->frames);
}
