// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * sojourn_link: the probe, which records every packet of the path and events of TCP senders.
 *
 * It uses tracepoints. A packet is noted when it is passed to a device's queue; its record is written when it has left, or
 * when it is freed. The probe delays nothing and changes nothing in a packet.
 */
#include <linux/tracepoint.h>
#include <linux/udp.h>

#include "sojourn_link.h"

/* A packet in a queue or in transmission. */
struct probe_packet {
	struct hlist_node node;
	struct list_head order;
	const struct sk_buff *skb;
	struct record_packet record;
};

static DEFINE_HASHTABLE(probe_packets, 14);
static LIST_HEAD(probe_order);
static struct kmem_cache *probe_cache;

static void probe_keep(const struct record_packet *packet)
{
	union record record = { .packet = *packet };

	records_keep(&record);
}

static struct probe_packet *probe_find(const struct sk_buff *skb)
{
	struct probe_packet *seen;

	hash_for_each_possible(probe_packets, seen, node, (unsigned long)skb)
		if (seen->skb == skb)
			return seen;
	return NULL;
}

static void probe_forget(struct probe_packet *seen)
{
	hash_del(&seen->node);
	list_del(&seen->order);
	kmem_cache_free(probe_cache, seen);
}

static u8 probe_ecn(const struct sk_buff *skb)
{
	return skb->protocol == htons(ETH_P_IP) ? ip_hdr(skb)->tos & 3 : 0;
}

/* Records that a packet left its link at @when. */
void probe_left(const struct sk_buff *skb, u64 when)
{
	struct probe_packet *seen = LINK_CB(skb)->seen;

	if (!seen)
		return;
	seen->record.start = max(LINK_CB(skb)->start, seen->record.arrival);
	seen->record.end = when;
	seen->record.ecn |= probe_ecn(skb) << 2;
	if (records_on)
		probe_keep(&seen->record);
	probe_forget(seen);
}

static void probe_describe_tcp(struct record_packet *r, const struct sk_buff *skb, int at, int rest)
{
	struct tcphdr room;
	const struct tcphdr *tcp = skb_header_pointer(skb, at, sizeof(room), &room);

	if (!tcp)
		return;
	r->flow.sport = ntohs(tcp->source);
	r->flow.dport = ntohs(tcp->dest);
	r->seq = ntohl(tcp->seq);
	r->ack = ntohl(tcp->ack_seq);
	r->flags = tcp_flag_byte(tcp);
	r->payload = rest - tcp->doff * 4;
}

/* The type is stored as flags, the identifier as both ports. */
static void probe_describe_icmp(struct record_packet *r, const struct sk_buff *skb, int at, int rest)
{
	u8 room[8];
	const u8 *icmp = skb_header_pointer(skb, at, sizeof(room), room);

	if (!icmp)
		return;
	r->flags = icmp[0];
	r->flow.sport = r->flow.dport = icmp[4] << 8 | icmp[5];
	r->seq = icmp[6] << 8 | icmp[7];
	r->payload = rest - 8;
}

/* The payload of a stream's datagram begins with its number. */
static void probe_describe_udp(struct record_packet *r, const struct sk_buff *skb, int at, int rest)
{
	struct udphdr room;
	__be32 word;
	const __be32 *number;
	const struct udphdr *udp = skb_header_pointer(skb, at, sizeof(room), &room);

	if (!udp)
		return;
	r->flow.sport = ntohs(udp->source);
	r->flow.dport = ntohs(udp->dest);
	r->payload = rest - 8;
	number = skb_header_pointer(skb, at + sizeof(room), sizeof(word), &word);
	r->seq = number ? ntohl(*number) : 0;
}

static void probe_describe(struct record_packet *r, const struct sk_buff *skb)
{
	const struct iphdr *ip = ip_hdr(skb);
	int at = skb_network_offset(skb) + ip->ihl * 4;
	int rest = ntohs(ip->tot_len) - ip->ihl * 4;

	r->flow.saddr = ntohl(ip->saddr);
	r->flow.daddr = ntohl(ip->daddr);
	r->flow.protocol = ip->protocol;
	r->ecn = ip->tos & 3;
	if (ip->protocol == IPPROTO_TCP)
		probe_describe_tcp(r, skb, at, rest);
	else if (ip->protocol == IPPROTO_ICMP)
		probe_describe_icmp(r, skb, at, rest);
	else if (ip->protocol == IPPROTO_UDP)
		probe_describe_udp(r, skb, at, rest);
}

/* A packet is passed to a device's queue. */
static void probe_queue(void *data, struct sk_buff *skb)
{
	struct link_dev *ld = link_of(skb->dev);
	struct probe_packet *seen;

	if (!ld || ld->index < 0 || skb->protocol != htons(ETH_P_IP))
		return;
	seen = kmem_cache_zalloc(probe_cache, GFP_ATOMIC);
	if (!seen) {
		records_lost++;
		return;
	}
	seen->skb = skb;
	seen->record.link = ld->index;
	seen->record.bytes = link_wire_bytes(ld, skb);
	seen->record.arrival = link_now();
	probe_describe(&seen->record, skb);
	hash_add(probe_packets, &seen->node, (unsigned long)skb);
	list_add_tail(&seen->order, &probe_order);
}

/* A discipline reports the reason of a drop, before the packet is freed (since Linux 7.1). */
static void probe_qdisc_drop(void *data, struct Qdisc *q, const struct netdev_queue *txq, struct net_device *dev,
			     struct sk_buff *skb, u32 reason)
{
	struct probe_packet *seen = probe_find(skb);

	if (seen)
		seen->record.reason = reason & 0xffff;
}

/*
 * Records that netem dropped a packet behind its link. The link has sent the packet, and the record of that exists. The
 * time is the end of the transmission: netem is at the far end of the cable, and the simulator's at the near end.
 */
static void probe_impaired(const struct sk_buff *skb)
{
	union record r = { .packet = { .type = RECORD_PACKET, .fate = FATE_DROPPED, .reason = REASON_IMPAIRED } };
	const struct link_dev *ld;

	if (!records_on)
		return;
	list_for_each_entry(ld, &link_devs, all) {
		/* A queue of sockets keeps something else in skb->dev, so it is not dereferenced. */
		if (!ld->impairs || ld->impairs != skb->dev || skb->protocol != htons(ETH_P_IP))
			continue;
		r.packet.link = ld->index;
		r.packet.bytes = link_wire_bytes(ld, skb);
		r.packet.arrival = r.packet.start = r.packet.end = link_now() - ld->delay;
		probe_describe(&r.packet, skb);
		records_keep(&r);
		return;
	}
}

/* A packet is freed without having left. */
static void probe_free(void *data, struct sk_buff *skb, void *location, u32 reason)
{
	struct probe_packet *seen = probe_find(skb);

	if (!seen) {
		probe_impaired(skb);
		return;
	}
	seen->record.fate = FATE_DROPPED;
	seen->record.start = seen->record.end = link_now();
	if (records_on)
		probe_keep(&seen->record);
	probe_forget(seen);
}

/* cake's ACK filter frees packets with consume_skb(). tc counts them as drops, and so do we. */
static void probe_consume(void *data, struct sk_buff *skb, void *location)
{
	struct probe_packet *seen = probe_find(skb);

	if (!seen || seen->record.flow.protocol != IPPROTO_TCP || seen->record.payload)
		return;
	seen->record.reason = REASON_ACK_FILTERED;
	probe_free(data, skb, location, 0);
}

static void probe_flow(struct record_flow *flow, const struct sock *sk)
{
	const struct inet_sock *inet = inet_sk(sk);

	flow->saddr = ntohl(inet->inet_saddr);
	flow->daddr = ntohl(inet->inet_daddr);
	flow->sport = ntohs(inet->inet_sport);
	flow->dport = ntohs(inet->inet_dport);
	flow->protocol = IPPROTO_TCP;
}

/* An ACK of new data arrived at a sender, which has not handled it yet. */
static void probe_ack(void *data, struct sock *sk, const struct sk_buff *skb)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct tcphdr *th = (const struct tcphdr *)skb->data;
	u32 ack = ntohl(th->ack_seq);
	union record r = { .acked = { .type = RECORD_ACKED } };

	if (!records_on || sk->sk_family != AF_INET || !th->ack || !after(ack, tp->snd_una) || after(ack, tp->snd_nxt))
		return;
	probe_flow(&r.acked.flow, sk);
	r.acked.payload = ack - tp->snd_una;
	r.acked.rtt_us = tp->rack.rtt_us;
	r.acked.cwnd = tcp_snd_cwnd(tp);
	r.acked.srtt_us = tp->srtt_us >> 3;
	r.acked.at = link_now();
	r.acked.inflight = tcp_packets_in_flight(tp);
	r.acked.ssthresh = tp->snd_ssthresh;
	records_keep(&r);
}

static void probe_retransmit(void *data, const struct sock *sk, const struct sk_buff *skb)
{
	union record r = { .retransmitted = { .type = RECORD_RETRANSMITTED } };

	if (!records_on || sk->sk_family != AF_INET)
		return;
	probe_flow(&r.retransmitted.flow, sk);
	r.retransmitted.seq = TCP_SKB_CB(skb)->seq;
	r.retransmitted.payload = TCP_SKB_CB(skb)->end_seq - TCP_SKB_CB(skb)->seq;
	r.retransmitted.at = link_now();
	records_keep(&r);
}

static struct probe_hook {
	const char *name;
	void *function;
	struct tracepoint *point;
	bool on;
} probe_hooks[] = {
	{ "net_dev_queue", probe_queue },   { "qdisc_drop", probe_qdisc_drop },
	{ "kfree_skb", probe_free },	    { "consume_skb", probe_consume },
	{ "tcp_probe", probe_ack },	    { "tcp_retransmit_skb", probe_retransmit },
};

/* Returns what the probe noted of a packet; NULL if nothing. */
struct probe_packet *probe_noted(const struct sk_buff *skb)
{
	return probe_hooks[0].on ? probe_find(skb) : NULL;
}

static void probe_match(struct tracepoint *point, void *data)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(probe_hooks); i++)
		if (!strcmp(point->name, probe_hooks[i].name))
			probe_hooks[i].point = point;
}

/* Records the packets that have not left when the probe ends. For packets in transmission the end is known. */
static void probe_keep_rest(void)
{
	struct probe_packet *seen;
	struct link_dev *ld;

	list_for_each_entry(ld, &link_devs, all) {
		const struct sk_buff *skb = ld->traced || !ld->sending ? NULL : skb_peek(&ld->queue);

		seen = skb ? LINK_CB(skb)->seen : NULL;
		if (!seen)
			continue;
		seen->record.start = max(LINK_CB(skb)->start, seen->record.arrival);
		seen->record.end = ld->due;
		seen->record.ecn |= probe_ecn(skb) << 2;
	}
	list_for_each_entry(seen, &probe_order, order) {
		if (!seen->record.end) {
			seen->record.fate = FATE_QUEUED;
			seen->record.start = seen->record.end = U64_MAX;
		}
		probe_keep(&seen->record);
		/* The packet may still leave, which is not recorded. */
		hash_del(&seen->node);
	}
}

/* Starts or ends the probe. */
int probe_set(bool on)
{
	int i, err = 0;

	for_each_kernel_tracepoint(probe_match, NULL);
	for (i = 0; i < ARRAY_SIZE(probe_hooks); i++) {
		struct probe_hook *hook = &probe_hooks[i];

		if (!hook->point || hook->on == on)
			continue;
		err = on ? tracepoint_probe_register(hook->point, hook->function, NULL) :
			   tracepoint_probe_unregister(hook->point, hook->function, NULL);
		if (err)
			return err;
		hook->on = on;
	}
	if (records_on && !on) {
		probe_keep_rest();
		records_flush();
	}
	records_on = on;
	return 0;
}

int probe_init(void)
{
	probe_cache = KMEM_CACHE(probe_packet, 0);
	return probe_cache ? 0 : -ENOMEM;
}
