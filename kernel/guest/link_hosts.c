// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * sojourn_link: access links. A device of hosts has a link for each host, a FIFO with a rate, a limit and a delay,
 * selected by the low 16 bits of the left host's address.
 */
#include <linux/vmalloc.h>

#include "sojourn_link.h"

/* The access link of a host. */
struct hosts_link {
	struct hlist_node node;
	u16 id;
	u64 rate, delay, free, last_out;
	/* Starts of transmission of the queued packets, a ring of @limit entries. */
	u32 limit, first, waiting;
	u64 *starts;
	struct sk_buff_head wire;
	struct hrtimer timer;
	struct link_dev *ld;
};

/* Finds the access link by the left host (10.1 to 10.100), in both directions: a right host may have several flows. */
static struct hosts_link *hosts_find(struct link_dev *ld, const struct sk_buff *skb)
{
	u32 from = ntohl(ip_hdr(skb)->saddr), to = ntohl(ip_hdr(skb)->daddr);
	u16 id = ((from >> 16 & 0xff) <= 100 ? from : to) & 0xffff;
	struct hosts_link *host;

	hash_for_each_possible(ld->by_id, host, node, id)
		if (host->id == id)
			return host;
	return NULL;
}

static enum hrtimer_restart hosts_on_timer(struct hrtimer *timer)
{
	struct hosts_link *host = container_of(timer, struct hosts_link, timer);

	link_deliver_due(host->ld, &host->wire, timer);
	return HRTIMER_NORESTART;
}

/*
 * Computes the time @due at which a packet reaches the far end; returns false if the queue is full. A FIFO in closed form,
 * as in crates/sim/src/access.rs: a departure precedes an arrival at the same time.
 */
static bool hosts_pass(struct hosts_link *host, u32 bytes, u64 now, u64 *due)
{
	u64 start = max(host->free, now);

	if (!host->rate) {
		*due = now + host->delay;
		return true;
	}
	while (host->waiting && host->starts[host->first] <= now) {
		host->first = (host->first + 1) % host->limit;
		host->waiting--;
	}
	if (host->free > now) {
		if (host->waiting >= host->limit)
			return false;
		host->starts[(host->first + host->waiting++) % host->limit] = start;
	}
	host->free = start + DIV64_U64_ROUND_UP(bytes * 8000000000ULL, host->rate);
	*due = host->free + host->delay;
	return true;
}

/*
 * Returns the time at which a host sends a packet. For a paced socket it is the departure time that TCP has stamped on it,
 * instead of the time of an event shortly before: otherwise TCP would measure an RTT below the path's.
 */
static u64 hosts_sent_at(const struct sk_buff *skb)
{
	u64 now = link_now();
	const struct sock *sk = skb->sk;

	if (!sk || !sk_fullsock(sk) || !tcp_needs_internal_pacing(sk))
		return now;
	return clamp_t(u64, skb->tstamp, now, ktime_get_ns());
}

netdev_tx_t hosts_xmit(struct link_dev *ld, struct sk_buff *skb)
{
	struct hosts_link *host = skb->protocol == htons(ETH_P_IP) ? hosts_find(ld, skb) : NULL;
	bool idle;
	u64 due;

	if (!host || !hosts_pass(host, link_ip_bytes(skb), hosts_sent_at(skb), &due)) {
		ld->drops++;
		kfree_skb(skb);
		return NETDEV_TX_OK;
	}
	link_count_sent(ld, skb);
	ld->bytes += link_ip_bytes(skb);
	skb_orphan(skb);
	idle = skb_queue_empty(&host->wire);
	/* Keeps packets in order, also if an unpaced one is sent at an event and a paced one just after it. */
	host->last_out = max(due, host->last_out);
	LINK_CB(skb)->due = host->last_out;
	__skb_queue_tail(&host->wire, skb);
	if (idle)
		link_timer_start(&host->timer, host->last_out);
	return NETDEV_TX_OK;
}

/* Adds an access link to a device. @rate 0 is unlimited. */
int hosts_add(struct link_dev *ld, u16 id, u64 delay, u64 rate, u32 limit)
{
	struct hosts_link *host = kzalloc(sizeof(*host), GFP_KERNEL);

	if (!host)
		return -ENOMEM;
	host->id = id;
	host->delay = delay;
	host->rate = rate;
	host->limit = limit;
	host->ld = ld;
	if (host->rate) {
		host->starts = kvmalloc_array(host->limit, sizeof(u64), GFP_KERNEL);
		if (!host->starts) {
			kfree(host);
			return -ENOMEM;
		}
	}
	__skb_queue_head_init(&host->wire);
	link_timer_set(&host->timer, hosts_on_timer);
	ld->hosts = true;
	hash_add(ld->by_id, &host->node, host->id);
	return 0;
}
