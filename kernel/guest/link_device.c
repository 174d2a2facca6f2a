// SPDX-License-Identifier: GPL-2.0-or-later
/* sojourn_link: the network device, a transmit ring, a transmitter and propagation to the peer. */
#include <linux/interrupt.h>
#include <linux/nsproxy.h>
#include <linux/rtnetlink.h>
#include <linux/sched.h>
#include <net/net_namespace.h>

#include "sojourn_link.h"

/* Bytes of a delivery opportunity. */
#define OPPORTUNITY 1500
/* A longer pause between two transmissions, in ns, is the discipline's, and not that of a guest that was late. */
#define STALLED_MOST_NS 100000

LIST_HEAD(link_devs);

/* ---- lengths ---- */

/* Returns the bytes on a link for this many IP bytes. ATM fills cells of 53 bytes, which carry 48. */
static u32 link_framed(u32 bytes, u32 overhead, bool atm)
{
	bytes += overhead;
	return atm ? DIV_ROUND_UP(bytes, 48) * 53 : bytes;
}

/* A GSO packet counts as its segments, each with headers of its own. */
static u32 link_segments(const struct sk_buff *skb, u32 overhead, bool atm)
{
	u32 bytes = skb->len - ETH_HLEN, whole, headers, size;

	if (!skb_is_gso(skb) || !(skb_shinfo(skb)->gso_type & SKB_GSO_TCPV4))
		return link_framed(bytes, overhead, atm);
	headers = ip_hdrlen(skb) + tcp_hdrlen(skb);
	size = skb_shinfo(skb)->gso_size;
	whole = max_t(u32, DIV_ROUND_UP(bytes - headers, size), 1) - 1;
	return whole * link_framed(headers + size, overhead, atm) + link_framed(bytes - whole * size, overhead, atm);
}

/* Returns the bytes that a link sends for a packet. */
u32 link_wire_bytes(const struct link_dev *ld, const struct sk_buff *skb)
{
	return link_segments(skb, ld->overhead, ld->atm);
}

/* Returns the bytes of a packet's IP datagrams. */
u32 link_ip_bytes(const struct sk_buff *skb)
{
	return link_segments(skb, 0, false);
}

/* ---- propagation ---- */

/* Passes a packet to the namespace of the other end. */
void link_deliver(struct link_dev *ld, struct sk_buff *skb)
{
	struct net_device *dev = ld->peer->dev;
	unsigned int len = skb->len;

	if (__dev_forward_skb(dev, skb) != NET_RX_SUCCESS) {
		ld->drops++;
		return;
	}
	dev->stats.rx_packets++;
	dev->stats.rx_bytes += len;
	/*
	 * TCP sets the truesize of its own ACKs to 2. A router's network card allocates a buffer for an ACK as for any other
	 * packet, and a discipline's memory limit counts it.
	 */
	if (skb_is_tcp_pure_ack(skb))
		skb->truesize = SKB_TRUESIZE(skb_end_offset(skb));
	/* The sender's hash does not cross a cable: classifiers must read the headers. */
	skb_clear_hash(skb);
	netif_receive_skb(skb);
	pause_watch_all();
}

/* Delivers the packets of a wire that are due, and starts the timer for the next one. */
void link_deliver_due(struct link_dev *ld, struct sk_buff_head *wire, struct hrtimer *timer)
{
	struct sk_buff *skb;

	link_timer_served(timer);
	while ((skb = skb_peek(wire)) && LINK_CB(skb)->due <= ktime_get_ns()) {
		__skb_unlink(skb, wire);
		link_moment_is(LINK_CB(skb)->due);
		link_deliver(ld, skb);
	}
	if (skb)
		link_timer_start(timer, LINK_CB(skb)->due);
}

static enum hrtimer_restart link_on_out(struct hrtimer *timer)
{
	struct link_dev *ld = container_of(timer, struct link_dev, out);

	link_deliver_due(ld, &ld->wire, timer);
	return HRTIMER_NORESTART;
}

/* Starts the propagation of a packet at @when; packets stay in order. */
static void link_propagate(struct link_dev *ld, struct sk_buff *skb, u64 when)
{
	bool idle = skb_queue_empty(&ld->wire);

	if (idle && !ld->delay && !ld->delays.count) {
		link_deliver(ld, skb);
		return;
	}
	ld->delay = link_step_to(&ld->delays, when, ld->delay);
	ld->last_out = max(when + ld->delay, ld->last_out);
	LINK_CB(skb)->due = ld->last_out;
	__skb_queue_tail(&ld->wire, skb);
	if (idle)
		link_timer_start(&ld->out, ld->last_out);
}

/* ---- the transmitter ---- */

void link_count_sent(struct link_dev *ld, const struct sk_buff *skb)
{
	ld->packets++;
	ld->dev->stats.tx_packets++;
	ld->dev->stats.tx_bytes += skb->len;
}

static void link_leave(struct link_dev *ld, struct sk_buff *skb, u64 when)
{
	link_count_sent(ld, skb);
	ld->bytes += link_wire_bytes(ld, skb);
	ld->busy_ns += when - LINK_CB(skb)->start;
	probe_left(skb, when);
	link_propagate(ld, skb, when);
}

/* Starts the transmission of the first packet in the ring. On a traced link it waits for opportunities. */
void link_begin(struct link_dev *ld, u64 when)
{
	struct sk_buff *skb = skb_peek(&ld->queue);
	u32 bytes = link_wire_bytes(ld, skb);

	LINK_CB(skb)->start = when;
	ld->sending = true;
	if (ld->traced) {
		ld->remaining = bytes;
		return;
	}
	ld->due = when + (ld->rate ? DIV64_U64_ROUND_UP(bytes * 8000000000ULL, ld->rate) : 0);
	link_timer_start(&ld->tx, ld->due);
}

/* Changes the rate. A packet in transmission continues at the new rate. */
static void link_set_rate(struct link_dev *ld, u64 now, u64 rate)
{
	if (!skb_queue_empty(&ld->queue) && ld->rate && rate && ld->due > now) {
		u64 left = ld->due - now, old = ld->rate;
		u64 span = mul_u64_u64_div_u64(left, old, rate);

		if (span * rate != left * old) /* modulo 2^64: rounded up */
			span++;
		ld->due = now + span;
		link_timer_start(&ld->tx, ld->due);
	}
	ld->rate = rate;
}

static enum hrtimer_restart link_on_change(struct hrtimer *timer)
{
	struct link_dev *ld = container_of(timer, struct link_dev, change);
	u64 now = link_step_next(&ld->rates);

	link_set_rate(ld, now, link_step_to(&ld->rates, now, ld->rate));
	if (link_step_next(&ld->rates) != U64_MAX)
		link_timer_start(timer, link_step_next(&ld->rates));
	return HRTIMER_NORESTART;
}

/* ---- the ring ---- */

/* Records the ring, and the state of dynamic_queue_limits, after @bytes were added or completed. */
static void link_note_ring(struct link_dev *ld, enum record_ring change, u32 bytes)
{
	union record r = { .ring = {
		.type = RECORD_RING, .change = change, .link = ld->index, .bytes = bytes, .used = ld->used,
	} };
#ifdef CONFIG_BQL
	const struct dql *dql = &netdev_get_tx_queue(ld->dev, 0)->dql;

	if (ld->bql) {
		r.ring.limit = dql->limit;
		r.ring.inflight = dql->num_queued - dql->num_completed;
	}
#endif
	r.ring.at = link_now();
	r.ring.jiffies = get_jiffies_64();
	if (records_on && ld->noted)
		records_keep(&r);
}

/* Whether packets wait in the discipline for an opportunity: on a traced link with a single descriptor. */
static bool link_is_gated(const struct link_dev *ld)
{
	return ld->traced && ld->ring == 1;
}

/* Handles the completion interrupt: frees the descriptors of sent packets, and lets the discipline send. */
static void link_complete(struct link_dev *ld)
{
	u32 packets = ld->ended, bytes = ld->ended_bytes;

	ld->used -= packets;
	ld->ended = ld->ended_bytes = 0;
	if (ld->bql)
		netdev_completed_queue(ld->dev, packets, bytes);
	link_note_ring(ld, RING_COMPLETED, bytes);
	ld->awaited = qdisc_qlen(rcu_dereference_bh(netdev_get_tx_queue(ld->dev, 0)->qdisc)) > 0;
	if (netif_queue_stopped(ld->dev) && (!link_is_gated(ld) || (ld->open && ld->budget)) && !pause_holds(ld))
		netif_wake_queue(ld->dev);
	pause_watch(ld);
}

static enum hrtimer_restart link_on_interrupt(struct hrtimer *timer)
{
	struct link_dev *ld = container_of(timer, struct link_dev, interrupt);

	link_moment_is(ktime_to_ns(hrtimer_get_expires(timer)));
	link_complete(ld);
	return HRTIMER_NORESTART;
}

/* Handles the end of a transmission. */
static void link_finish(struct link_dev *ld, u64 when)
{
	struct sk_buff *skb = __skb_dequeue(&ld->queue);

	ld->last_end = when;
	ld->sending = false;
	ld->ended++;
	ld->ended_bytes += skb->len;
	link_moment_is(when);
	link_leave(ld, skb, when);
	if (!skb_queue_empty(&ld->queue) && !ld->stopped && !ld->sending)
		link_begin(ld, when);
	if (!ld->coalesce)
		link_complete(ld);
	else if (ld->ended == 1)
		link_timer_start(&ld->interrupt, when + ld->coalesce);
}

/* ---- delivery opportunities ---- */

static u64 link_opportunity(const struct link_dev *ld)
{
	return link_origin + ld->period_start + ld->trace[ld->trace_next] * (u64)NSEC_PER_MSEC;
}

/* Spends the open opportunity on the packets in the ring. */
static void link_use_opportunity(struct link_dev *ld)
{
	while (ld->budget && !skb_queue_empty(&ld->queue)) {
		u32 used = min(ld->budget, ld->remaining);

		ld->budget -= used;
		ld->remaining -= used;
		if (!ld->remaining)
			link_finish(ld, ld->due);
	}
}

/* Opens all opportunities of this time as one. The discipline may send until it is spent. */
static void link_open_opportunity(struct link_dev *ld)
{
	ld->due = link_opportunity(ld);
	ld->last_end = ld->due;
	link_moment_is(ld->due);
	ld->open = true;
	ld->budget = 0;
	do {
		ld->budget += OPPORTUNITY;
		if (++ld->trace_next == ld->trace_count) {
			ld->period_start += ld->trace[ld->trace_count - 1] * (u64)NSEC_PER_MSEC;
			ld->trace_next = 0;
		}
	} while (link_opportunity(ld) == ld->due);
	if (!skb_queue_empty(&ld->queue))
		link_use_opportunity(ld);
	else if (link_is_gated(ld))
		netif_wake_queue(ld->dev);
}

static enum hrtimer_restart link_on_tx(struct hrtimer *timer)
{
	struct link_dev *ld = container_of(timer, struct link_dev, tx);

	link_timer_served(timer);
	if (!ld->traced) {
		link_finish(ld, ld->due);
	} else if (ld->open) {
		ld->open = false;
		ld->budget = 0;
		if (link_is_gated(ld))
			netif_stop_queue(ld->dev);
		link_timer_start(timer, link_opportunity(ld));
	} else {
		link_open_opportunity(ld);
		link_timer_start(timer, ld->due + LINK_SERVED_NS);
	}
	return HRTIMER_NORESTART;
}

/* ---- the network device ---- */

static netdev_tx_t link_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct link_dev *ld = link_of(dev);
	struct probe_packet *seen;
	u64 now;

	if (ld->hosts)
		return hosts_xmit(ld, skb);
	seen = ld->index >= 0 ? probe_noted(skb) : NULL;
	skb_orphan(skb);
	memset(LINK_CB(skb), 0, sizeof(struct link_cb));
	LINK_CB(skb)->seen = seen;
	if (ld->bql)
		netdev_sent_queue(dev, skb->len);
	__skb_queue_tail(&ld->queue, skb);
	if (++ld->used >= ld->ring)
		netif_stop_queue(dev);
	link_note_ring(ld, RING_SENT, skb->len);
	pause_watch(ld);
	if (skb_queue_len(&ld->queue) > 1 || ld->stopped)
		return NETDEV_TX_OK;
	now = link_now();
	/* The softirq that dequeues may come after those of other events. */
	if (ld->awaited && now - ld->last_end < LINK_SERVED_NS)
		now = ld->last_end;
	else if (ld->awaited && now - ld->last_end < STALLED_MOST_NS)
		ld->stalled_ns += now - ld->last_end;
	ld->awaited = false;
	link_begin(ld, now);
	if (ld->traced)
		link_use_opportunity(ld);
	return NETDEV_TX_OK;
}

static int link_open(struct net_device *dev)
{
	if (link_is_gated(link_of(dev)))
		netif_stop_queue(dev);
	else
		netif_start_queue(dev);
	return 0;
}

static int link_stop(struct net_device *dev)
{
	netif_stop_queue(dev);
	return 0;
}

const struct net_device_ops link_ops = {
	.ndo_open = link_open,
	.ndo_stop = link_stop,
	.ndo_start_xmit = link_xmit,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
};

static void link_setup(struct net_device *dev)
{
	ether_setup(dev);
	dev->netdev_ops = &link_ops;
	dev->needs_free_netdev = true;
	dev->max_mtu = ETH_MAX_MTU;
	dev->features |= NETIF_F_SG | NETIF_F_FRAGLIST | NETIF_F_HW_CSUM | NETIF_F_HIGHDMA;
	dev->hw_features |= dev->features | NETIF_F_GSO_SOFTWARE;
	eth_hw_addr_random(dev);
}

static struct link_dev *link_make(const char *name, bool queued)
{
	struct link_dev *ld = kzalloc(sizeof(*ld), GFP_KERNEL);
	int err;

	if (!ld)
		return ERR_PTR(-ENOMEM);
	ld->dev = alloc_netdev(sizeof(ld), name, NET_NAME_USER, link_setup);
	if (!ld->dev) {
		kfree(ld);
		return ERR_PTR(-ENOMEM);
	}
	*(struct link_dev **)netdev_priv(ld->dev) = ld;
	dev_net_set(ld->dev, current->nsproxy->net_ns);
	ld->index = -1;
	ld->ring = 1;
	ld->overhead = ETH_HLEN;
	/* Such a device has neither a default discipline nor byte limits in /sys. */
	if (!queued)
		ld->dev->priv_flags |= IFF_NO_QUEUE;
	__skb_queue_head_init(&ld->queue);
	__skb_queue_head_init(&ld->wire);
	hash_init(ld->by_id);
	link_timer_set(&ld->tx, link_on_tx);
	link_timer_set(&ld->change, link_on_change);
	link_timer_set(&ld->out, link_on_out);
	link_timer_set(&ld->interrupt, link_on_interrupt);
	pause_init(ld);
	err = register_netdevice(ld->dev);
	if (err) {
		free_netdev(ld->dev);
		kfree(ld);
		return ERR_PTR(err);
	}
	list_add_tail(&ld->all, &link_devs);
	return ld;
}

/* Makes a cable: a pair of devices in the namespace of the caller. */
int link_make_pair(const char *first, const char *second, bool queued)
{
	struct link_dev *a, *b;
	int err = 0;

	rtnl_lock();
	a = link_make(first, queued);
	b = IS_ERR(a) ? a : link_make(second, queued);
	if (IS_ERR(b)) {
		err = PTR_ERR(b);
	} else {
		a->peer = b;
		b->peer = a;
		netif_carrier_on(a->dev);
		netif_carrier_on(b->dev);
	}
	rtnl_unlock();
	return err;
}

/* Sets time zero of the run: the first steps apply, and the timers for later ones start. */
int link_start_all(u64 zero)
{
	struct link_dev *ld;

	link_origin = zero;
	list_for_each_entry(ld, &link_devs, all) {
		ld->rate = link_step_to(&ld->rates, link_origin, 0);
		ld->delay = link_step_to(&ld->delays, link_origin, 0);
		if (link_step_next(&ld->rates) != U64_MAX)
			link_timer_start(&ld->change, link_step_next(&ld->rates));
		if (ld->traced)
			link_timer_start(&ld->tx, link_opportunity(ld));
	}
	return 0;
}
