// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * sojourn_link: cables for a guest in virtual time, and a probe that sees every packet of them.
 *
 * A cable is a pair of network devices. Each of them is a transmitter: a ring of descriptors before a link with a rate
 * (in steps, or as delivery opportunities of 1500 bytes), then propagation in order. A packet leaves its descriptor when
 * its serialisation is over, and only then is the queue discipline asked for another: with one descriptor it is asked
 * exactly when the link becomes free. With coalescing the descriptors of what was sent are free only when the interrupt
 * has been served; the link goes on with what the ring holds. A queue may stop the link before it (flow control). A device of hosts has instead a link of its own for each host: a FIFO with a rate,
 * a limit and a delay; the low sixteen bits of the address say which.
 *
 * Times are those of the guest's monotonic clock. A packet that waited starts when the one before it ended, not when the
 * interrupt was served, so the rate is exact.
 *
 * The probe stands on tracepoints: a packet is noted when it is given to a device's queue, and its record is written when
 * it has left, or when somebody freed it. Nothing waits for it, and nothing of a packet changes. A device with a ring
 * notes each descriptor's use and what dynamic_queue_limits made of it.
 *
 * /proc/sojourn/control takes lines (docs/explanation/kernel-link.md), /proc/sojourn/stats says what each device did. Records go
 * to the host's file RECORDS_FILE; where the kernel is no program of the host, /proc/sojourn/records gives them and forgets them.
 */
#include <linux/etherdevice.h>
#include <linux/hashtable.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/ip.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/nsproxy.h>
#include <linux/proc_fs.h>
#include <linux/rtnetlink.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/tcp.h>
#include <linux/tracepoint.h>
#include <linux/udp.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <linux/vmalloc.h>
#include <net/ip.h>
#include <net/net_namespace.h>
#include <net/sch_generic.h>
#include <net/tcp.h>
#ifdef CONFIG_UML
#include <os.h>
#endif

#define OPPORTUNITY 1500
/* An interrupt is served within this, with all that hosts do in answer. */
#define SERVED_NS 4000
/* What waited starts at the end of the one before, though another device's interrupt has come between. */
#define JOINED_NS 512
/* Bytes of records that are kept until they are read, at most. */
#define MOST_RECORDS (384UL << 20)
/* Records are allocated, and written to the host's file, in pieces of this size. */
#define CHUNK (1UL << 20)
/* The host's file with the records: a name in the folder of the process that is this kernel. */
#define RECORDS_FILE "run/seen.bin"

struct step {
	u64 at, value;
};

struct steps {
	struct step *list;
	u32 count, next;
};

/* A host's own link. */
struct host {
	struct hlist_node node;
	u16 id;
	u64 rate, delay, free, last_out;
	u32 limit, first, waiting;
	u64 *starts;
	struct sk_buff_head wire;
	struct hrtimer timer;
	struct end *end;
};

/* A pause frame on its way. */
struct frame {
	struct list_head order;
	u64 due;
	bool stop;
};

/* What may wait in a queue until something is done. */
struct filling {
	u64 packets, bytes;
};

struct end {
	struct list_head all;
	struct net_device *dev;
	struct end *peer;
	bool hosts, bql, traced, noted;
	/* The packet that comes next waits in the discipline. */
	bool awaited;
	int index;
	u32 overhead, ring;
	/* Descriptors in use; and of those, sent but not yet served by an interrupt. */
	u32 used, ended, ended_bytes;
	u64 coalesce;
	struct hrtimer interrupt;
	/* The transmitter: the packet at the head of the queue is being serialised. */
	struct sk_buff_head queue;
	u64 rate, due, last_end;
	struct steps rates, delays;
	struct hrtimer tx, change;
	/* Opportunities: milliseconds in the period, which is their last one. The queue is open while one lasts. */
	u32 *trace, trace_count, trace_next, budget, remaining;
	bool open;
	u64 period_start;
	/* The wire. */
	u64 delay, last_out;
	struct sk_buff_head wire;
	struct hrtimer out;
	/* Flow control: the link before, which is stopped above one filling and goes on at another; whether it was told to stop. */
	struct end *before;
	struct filling stop_above, go_at;
	bool stops;
	/* What the link behind told this one, and the frames that are still under way. */
	bool stopped, sending;
	struct list_head frames;
	u64 last_frame;
	struct hrtimer frame;
	DECLARE_HASHTABLE(by_id, 10);
	u64 packets, bytes, busy_ns, drops;
};

/* What the device notes on a packet while it holds it. */
struct note {
	u64 start, due;
	struct seen *seen;
};

#define NOTE(skb) ((struct note *)(skb)->cb)

/* 64 bytes, as crates/traffic/src/probe.rs reads them. */
struct record {
	u8 type, fate, ecn, flags;
	u16 link, reason;
	u32 bytes, payload;
	u32 saddr, daddr;
	u16 sport, dport;
	u8 protocol, pad[3];
	u32 seq, ack;
	u64 arrival, start, end;
};

enum { PACKET, ACKED, RETRANSMITTED, RING, PAUSED };
/* What a ring's record tells of: packets came to it, or left it. */
enum { SENT, COMPLETED };
enum { DELIVERED, DROPPED, QUEUED };
/* A reason of a drop beside those of Linux's enum qdisc_drop_reason. */
#define ACK_FILTERED 0xffff

/* A packet that is on its way through a queue. */
struct seen {
	struct hlist_node node;
	struct list_head order;
	const struct sk_buff *skb;
	struct record record;
};

static LIST_HEAD(ends);
static u64 origin;
static DEFINE_HASHTABLE(on_the_way, 14);
static LIST_HEAD(in_order);
static struct kmem_cache *seen_cache;
static u8 **chunks;
static size_t written, taken;
/* Bytes of all records, and how many there may be. */
static u64 recorded, most_records = U64_MAX;
static u64 lost;
/* The host's descriptor of RECORDS_FILE; -1: records wait in memory for a reader of /proc/sojourn/records. */
static int records_file = -1;
/* How late an interrupt of ours was served at worst: a processor that does not keep up makes a run worthless. */
static u64 latest;
static bool recording;
/* Whether a queue stops the link before it. */
static bool flow_control;

/*
 * The moment that is being handled. What a host sends within SERVED_NS of a packet's arrival it sends at that arrival: hosts
 * are infinitely fast, and what reading the clock costs them is not part of a result. (But see sent_at().)
 */
static u64 moment;

static u64 now_ns(void)
{
	u64 now = ktime_get_ns();

	return now - moment < SERVED_NS ? moment : now;
}

static void moment_is(u64 when)
{
	moment = max(moment, when);
}

/* An interrupt that was due then is served. */
static void served(u64 due)
{
	u64 now = ktime_get_ns();

	if (now > due && now - due > latest)
		latest = now - due;
}

/* ---- records ---- */

#ifdef CONFIG_UML
/*
 * A User-Mode Linux kernel is a process of the host: it writes to the host's file itself. The way through the guest's own
 * file system copies each byte twice more. O_EXCL: the file is ours, whatever a guest's program has put into the folder.
 */
static int open_records(void)
{
	struct openflags flags = of_create(of_write(OPENFLAGS()));

	flags.e = 1;
	records_file = os_open_file(RECORDS_FILE, flags, 0644);
	return min(records_file, 0);
}

static void write_records(void)
{
	size_t bytes = written;

	written = 0;
	if (os_write_file(records_file, chunks[0], bytes) != bytes)
		lost += bytes / sizeof(struct record);
}
#else
static int open_records(void)
{
	most_records = MOST_RECORDS;
	return 0;
}

static void write_records(void)
{
}
#endif

static void keep(const struct record *record)
{
	size_t chunk = written / CHUNK;

	if (recorded + sizeof(*record) > most_records) {
		lost++;
		return;
	}
	if (!chunks[chunk]) {
		chunks[chunk] = kmalloc(CHUNK, GFP_ATOMIC | __GFP_NOWARN);
		if (!chunks[chunk]) {
			lost++;
			return;
		}
	}
	memcpy(chunks[chunk] + written % CHUNK, record, sizeof(*record));
	written += sizeof(*record);
	recorded += sizeof(*record);
	if (records_file >= 0 && written == CHUNK)
		write_records();
}

static struct seen *find_seen(const struct sk_buff *skb)
{
	struct seen *seen;

	hash_for_each_possible(on_the_way, seen, node, (unsigned long)skb)
		if (seen->skb == skb)
			return seen;
	return NULL;
}

static void forget(struct seen *seen)
{
	hash_del(&seen->node);
	list_del(&seen->order);
	kmem_cache_free(seen_cache, seen);
}

static u8 ecn_of(const struct sk_buff *skb)
{
	return skb->protocol == htons(ETH_P_IP) ? ip_hdr(skb)->tos & 3 : 0;
}

/* IP bytes as they pass a cable: each segment of a packet that the network card would cut has headers of its own. */
static u32 ip_bytes(const struct sk_buff *skb, u32 *segments)
{
	u32 whole = skb->len - ETH_HLEN, headers;

	*segments = 1;
	if (!skb_is_gso(skb) || !(skb_shinfo(skb)->gso_type & SKB_GSO_TCPV4))
		return whole;
	headers = ip_hdrlen(skb) + tcp_hdrlen(skb);
	*segments = max_t(u32, DIV_ROUND_UP(whole - headers, skb_shinfo(skb)->gso_size), 1);
	return whole + (*segments - 1) * headers;
}

static u32 wire_bytes(const struct sk_buff *skb, u32 overhead)
{
	u32 segments, bytes = ip_bytes(skb, &segments);

	return bytes + segments * overhead;
}

static void describe(struct record *r, const struct sk_buff *skb)
{
	const struct iphdr *ip = ip_hdr(skb);
	struct tcphdr tcp;
	int at = skb_network_offset(skb) + ip->ihl * 4;
	int rest = ntohs(ip->tot_len) - ip->ihl * 4;

	r->saddr = ntohl(ip->saddr);
	r->daddr = ntohl(ip->daddr);
	r->protocol = ip->protocol;
	r->ecn = ip->tos & 3;
	if (ip->protocol == IPPROTO_TCP) {
		const struct tcphdr *th = skb_header_pointer(skb, at, sizeof(tcp), &tcp);

		if (!th)
			return;
		r->sport = ntohs(th->source);
		r->dport = ntohs(th->dest);
		r->seq = ntohl(th->seq);
		r->ack = ntohl(th->ack_seq);
		r->flags = tcp_flag_byte(th);
		r->payload = rest - th->doff * 4;
	} else if (ip->protocol == IPPROTO_ICMP) {
		u8 icmp[8];
		const u8 *head = skb_header_pointer(skb, at, sizeof(icmp), icmp);

		if (!head)
			return;
		/* Type and identifier stand where ports would. */
		r->flags = head[0];
		r->sport = r->dport = head[4] << 8 | head[5];
		r->seq = head[6] << 8 | head[7];
		r->payload = rest - 8;
	} else if (ip->protocol == IPPROTO_UDP) {
		struct udphdr udp;
		__be32 word;
		const __be32 *number;
		const struct udphdr *uh = skb_header_pointer(skb, at, sizeof(udp), &udp);

		if (!uh)
			return;
		r->sport = ntohs(uh->source);
		r->dport = ntohs(uh->dest);
		r->payload = rest - 8;
		/* A stream's datagram begins with its number. */
		number = skb_header_pointer(skb, at + sizeof(udp), sizeof(word), &word);
		r->seq = number ? ntohl(*number) : 0;
	}
}

static const struct net_device_ops link_ops;

/* A packet is given to a device's queue. */
static void on_queue(void *data, struct sk_buff *skb)
{
	struct net_device *dev = skb->dev;
	struct end *end;
	struct seen *seen;

	if (dev->netdev_ops != &link_ops)
		return;
	end = *(struct end **)netdev_priv(dev);
	if (end->index < 0 || skb->protocol != htons(ETH_P_IP))
		return;
	seen = kmem_cache_zalloc(seen_cache, GFP_ATOMIC);
	if (!seen) {
		lost++;
		return;
	}
	seen->skb = skb;
	seen->record.link = end->index;
	seen->record.bytes = wire_bytes(skb, end->overhead);
	seen->record.arrival = now_ns();
	describe(&seen->record, skb);
	hash_add(on_the_way, &seen->node, (unsigned long)skb);
	list_add_tail(&seen->order, &in_order);
}

/* A discipline's own reason, told before the packet is freed (since Linux 7.1). */
static void on_qdisc_drop(void *data, struct Qdisc *q, const struct netdev_queue *txq, struct net_device *dev,
			  struct sk_buff *skb, u32 reason)
{
	struct seen *seen = find_seen(skb);

	if (seen)
		seen->record.reason = reason & 0xffff;
}

static void on_free(void *data, struct sk_buff *skb, void *location, u32 reason)
{
	struct seen *seen = find_seen(skb);

	if (!seen)
		return;
	seen->record.fate = DROPPED;
	seen->record.start = seen->record.end = now_ns();
	if (recording)
		keep(&seen->record);
	forget(seen);
}

/* cake's filter of ACKs frees what it takes out of a queue as if it had been used up. tc counts it as a drop, and so do we. */
static void on_consume(void *data, struct sk_buff *skb, void *location)
{
	struct seen *seen = find_seen(skb);

	if (!seen || seen->record.protocol != IPPROTO_TCP || seen->record.payload)
		return;
	seen->record.reason = ACK_FILTERED;
	on_free(data, skb, location, 0);
}

/* The sender's view of an ACK that acknowledges something for the first time, before it acts on it. */
static void on_ack(void *data, struct sock *sk, const struct sk_buff *skb)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct inet_sock *inet = inet_sk(sk);
	const struct tcphdr *th = (const struct tcphdr *)skb->data;
	u32 ack = ntohl(th->ack_seq);
	struct record r = { .type = ACKED };

	if (!recording || sk->sk_family != AF_INET || !th->ack || !after(ack, tp->snd_una) || after(ack, tp->snd_nxt))
		return;
	r.saddr = ntohl(inet->inet_saddr);
	r.daddr = ntohl(inet->inet_daddr);
	r.sport = ntohs(inet->inet_sport);
	r.dport = ntohs(inet->inet_dport);
	r.protocol = IPPROTO_TCP;
	r.payload = ack - tp->snd_una;
	r.bytes = tp->rack.rtt_us;
	r.seq = tcp_snd_cwnd(tp);
	r.ack = tp->srtt_us >> 3;
	r.arrival = now_ns();
	r.start = tcp_packets_in_flight(tp);
	r.end = tp->snd_ssthresh;
	keep(&r);
}

static void on_retransmit(void *data, const struct sock *sk, const struct sk_buff *skb)
{
	const struct inet_sock *inet = inet_sk(sk);
	struct record r = { .type = RETRANSMITTED };

	if (!recording || sk->sk_family != AF_INET)
		return;
	r.saddr = ntohl(inet->inet_saddr);
	r.daddr = ntohl(inet->inet_daddr);
	r.sport = ntohs(inet->inet_sport);
	r.dport = ntohs(inet->inet_dport);
	r.protocol = IPPROTO_TCP;
	r.seq = TCP_SKB_CB(skb)->seq;
	r.payload = TCP_SKB_CB(skb)->end_seq - TCP_SKB_CB(skb)->seq;
	r.arrival = now_ns();
	keep(&r);
}

static struct hook {
	const char *name;
	void *function;
	struct tracepoint *point;
	bool on;
} hooks[] = {
	{ "net_dev_queue", on_queue },		 { "qdisc_drop", on_qdisc_drop },
	{ "kfree_skb", on_free },		 { "consume_skb", on_consume },
	{ "tcp_probe", on_ack },		 { "tcp_retransmit_skb", on_retransmit },
};

static void match_hook(struct tracepoint *point, void *data)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(hooks); i++)
		if (!strcmp(point->name, hooks[i].name))
			hooks[i].point = point;
}

/* What waits when the probe ends has a record too; what is in transmission has a start, and an end to come. */
static void keep_the_rest(void)
{
	struct seen *seen;
	struct end *end;

	list_for_each_entry(end, &ends, all) {
		const struct sk_buff *skb = end->traced || !end->sending ? NULL : skb_peek(&end->queue);

		seen = skb ? NOTE(skb)->seen : NULL;
		if (!seen)
			continue;
		seen->record.start = max(NOTE(skb)->start, seen->record.arrival);
		seen->record.end = end->due;
		seen->record.ecn |= ecn_of(skb) << 2;
	}
	list_for_each_entry(seen, &in_order, order) {
		if (!seen->record.end) {
			seen->record.fate = QUEUED;
			seen->record.start = seen->record.end = U64_MAX;
		}
		keep(&seen->record);
		/* It may still leave, but nobody looks at it any more. */
		hash_del(&seen->node);
	}
}

static int hook_all(bool on)
{
	int i, err;

	for_each_kernel_tracepoint(match_hook, NULL);
	for (i = 0; i < ARRAY_SIZE(hooks); i++) {
		struct hook *h = &hooks[i];

		if (!h->point || h->on == on)
			continue;
		err = on ? tracepoint_probe_register(h->point, h->function, NULL) :
			   tracepoint_probe_unregister(h->point, h->function, NULL);
		if (err)
			return err;
		h->on = on;
	}
	if (recording && !on) {
		keep_the_rest();
		write_records();
	}
	recording = on;
	return 0;
}

/* ---- the device ---- */

static u64 step_to(struct steps *steps, u64 now, u64 value)
{
	while (steps->next < steps->count && steps->list[steps->next].at + origin <= now)
		value = steps->list[steps->next++].value;
	return value;
}

static u64 next_step(const struct steps *steps)
{
	return steps->next < steps->count ? steps->list[steps->next].at + origin : U64_MAX;
}

static void at(struct hrtimer *timer, u64 when)
{
	hrtimer_start(timer, ns_to_ktime(when), HRTIMER_MODE_ABS_SOFT);
}

static void look_at_all(void);

/* Hands a packet to the other end's namespace. */
static void deliver(struct end *end, struct sk_buff *skb)
{
	struct net_device *dev = end->peer->dev;
	unsigned int len = skb->len;

	if (__dev_forward_skb(dev, skb) != NET_RX_SUCCESS) {
		end->drops++;
		return;
	}
	dev->stats.rx_packets++;
	dev->stats.rx_bytes += len;
	/* No wire carries it: who classifies flows must look at the headers, not at the sender's socket. */
	skb_clear_hash(skb);
	netif_receive_skb(skb);
	if (flow_control)
		look_at_all();
}

static enum hrtimer_restart on_out(struct hrtimer *timer)
{
	struct end *end = container_of(timer, struct end, out);
	struct sk_buff *skb;

	served(ktime_to_ns(hrtimer_get_expires(timer)));
	while ((skb = skb_peek(&end->wire)) && NOTE(skb)->due <= ktime_get_ns()) {
		__skb_unlink(skb, &end->wire);
		moment_is(NOTE(skb)->due);
		deliver(end, skb);
	}
	if (skb)
		at(timer, NOTE(skb)->due);
	return HRTIMER_NORESTART;
}

/* A transmission is over: the packet propagates, in order. */
static void propagate(struct end *end, struct sk_buff *skb, u64 when)
{
	bool idle = skb_queue_empty(&end->wire);

	/* Where there is no delay it is there. */
	if (idle && !end->delay && !end->delays.count) {
		deliver(end, skb);
		return;
	}
	end->delay = step_to(&end->delays, when, end->delay);
	end->last_out = max(when + end->delay, end->last_out);
	NOTE(skb)->due = end->last_out;
	__skb_queue_tail(&end->wire, skb);
	if (idle)
		at(&end->out, end->last_out);
}

static void count_sent(struct end *end, const struct sk_buff *skb)
{
	end->packets++;
	end->dev->stats.tx_packets++;
	end->dev->stats.tx_bytes += skb->len;
}

static void leave(struct end *end, struct sk_buff *skb, u64 when)
{
	struct seen *seen = NOTE(skb)->seen;

	count_sent(end, skb);
	end->bytes += wire_bytes(skb, end->overhead);
	end->busy_ns += when - NOTE(skb)->start;
	if (seen) {
		seen->record.start = max(NOTE(skb)->start, seen->record.arrival);
		seen->record.end = when;
		seen->record.ecn |= ecn_of(skb) << 2;
		if (recording)
			keep(&seen->record);
		forget(seen);
	}
	propagate(end, skb, when);
}

static void begin(struct end *end, u64 when)
{
	struct sk_buff *skb = skb_peek(&end->queue);

	NOTE(skb)->start = when;
	end->sending = true;
	if (end->traced) {
		end->remaining = wire_bytes(skb, end->overhead);
		return;
	}
	end->due = when + (end->rate ? DIV_ROUND_UP_ULL(wire_bytes(skb, end->overhead) * 8000000000ULL, end->rate) : 0);
	at(&end->tx, end->due);
}

/* What the ring holds now, and what dynamic_queue_limits keeps: after so many bytes came to it or left it. */
static void note_ring(struct end *end, u8 what, u32 bytes)
{
	struct record r = { .type = RING, .fate = what, .link = end->index, .bytes = bytes, .payload = end->used };
#ifdef CONFIG_BQL
	const struct dql *dql = &netdev_get_tx_queue(end->dev, 0)->dql;

	if (end->bql) {
		r.seq = dql->limit;
		r.ack = dql->num_queued - dql->num_completed;
	}
#endif
	r.arrival = now_ns();
	r.start = get_jiffies_64();
	if (recording && end->noted)
		keep(&r);
}

/* With a single descriptor a trace's packets wait in the discipline until an opportunity begins. */
static bool gated(const struct end *end)
{
	return end->traced && end->ring == 1;
}

/* ---- flow control (IEEE 802.3x), as crates/sim/src/link/pause.rs ---- */

/* Without a network card of its own a link that is stopped does not ask its discipline; a card goes on until its ring is full. */
static bool held(const struct end *end)
{
	return end->stopped && !end->noted;
}

/* A frame arrives: the transmission under way goes on to its end, and nothing begins, or the next does at once. */
static void frame_arrives(struct end *end, bool stop, u64 when)
{
	struct record r = { .type = PAUSED, .fate = stop, .link = end->index, .arrival = when };

	if (recording)
		keep(&r);
	end->stopped = stop;
	if (end->sending)
		return;
	end->awaited = false;
	if (!stop && !skb_queue_empty(&end->queue))
		begin(end, when);
	if (held(end))
		netif_stop_queue(end->dev);
	else if (!stop && end->used < end->ring)
		netif_wake_queue(end->dev);
}

static enum hrtimer_restart on_frame(struct hrtimer *timer)
{
	struct end *end = container_of(timer, struct end, frame);
	struct frame *frame;

	served(ktime_to_ns(hrtimer_get_expires(timer)));
	while ((frame = list_first_entry_or_null(&end->frames, struct frame, order)) && frame->due <= ktime_get_ns()) {
		list_del(&frame->order);
		moment_is(frame->due);
		frame_arrives(end, frame->stop, frame->due);
		kfree(frame);
	}
	if (frame)
		at(timer, frame->due);
	return HRTIMER_NORESTART;
}

/* A frame takes the delay of the other direction. */
static void send_frame(struct end *to, bool stop, u64 when)
{
	struct end *way = to->peer;
	struct frame *frame;

	way->delay = step_to(&way->delays, when, way->delay);
	to->last_frame = max(when + way->delay, to->last_frame);
	if (list_empty(&to->frames) && to->last_frame <= when) {
		frame_arrives(to, stop, when);
		return;
	}
	frame = kmalloc(sizeof(*frame), GFP_ATOMIC);
	if (!frame) {
		lost++;
		return;
	}
	frame->due = to->last_frame;
	frame->stop = stop;
	if (list_empty(&to->frames))
		at(&to->frame, frame->due);
	list_add_tail(&frame->order, &to->frames);
}

/* After anything that changes the queue. */
static void look(struct end *end)
{
	const struct Qdisc *q = rcu_dereference_bh(netdev_get_tx_queue(end->dev, 0)->qdisc);
	const struct filling *most = end->stops ? &end->go_at : &end->stop_above;
	u64 packets = qdisc_qlen(q), bytes = q->qstats.backlog;
	bool above = packets > most->packets || bytes > most->bytes;

	if (above == end->stops)
		return;
	end->stops = above;
	send_frame(end->before, above, now_ns());
}

static void look_at_all(void)
{
	struct end *end;

	list_for_each_entry(end, &ends, all)
		if (end->before)
			look(end);
}

/* ---- the device's interrupts ---- */

/* The interrupt: descriptors of what was sent are free again, and the discipline may send. */
static void serve(struct end *end)
{
	u32 packets = end->ended, bytes = end->ended_bytes;

	end->used -= packets;
	end->ended = end->ended_bytes = 0;
	if (end->bql)
		netdev_completed_queue(end->dev, packets, bytes);
	note_ring(end, COMPLETED, bytes);
	end->awaited = qdisc_qlen(rcu_dereference_bh(netdev_get_tx_queue(end->dev, 0)->qdisc)) > 0;
	if (netif_queue_stopped(end->dev) && (!gated(end) || (end->open && end->budget)) && !held(end))
		netif_wake_queue(end->dev);
	if (end->before)
		look(end);
}

static enum hrtimer_restart on_interrupt(struct hrtimer *timer)
{
	struct end *end = container_of(timer, struct end, interrupt);

	moment_is(ktime_to_ns(hrtimer_get_expires(timer)));
	serve(end);
	return HRTIMER_NORESTART;
}

/* The packet at the head has been serialised. */
static void finish(struct end *end, u64 when)
{
	struct sk_buff *skb = __skb_dequeue(&end->queue);

	end->last_end = when;
	end->sending = false;
	end->ended++;
	end->ended_bytes += skb->len;
	moment_is(when);
	leave(end, skb, when);
	if (!skb_queue_empty(&end->queue) && !end->stopped && !end->sending)
		begin(end, when);
	if (!end->coalesce)
		serve(end);
	else if (end->ended == 1)
		at(&end->interrupt, when + end->coalesce);
}

static u64 opportunity_at(const struct end *end)
{
	return origin + end->period_start + end->trace[end->trace_next] * (u64)NSEC_PER_MSEC;
}

/* What is left of an opportunity goes to the packets at the head. */
static void use_opportunity(struct end *end)
{
	while (end->budget && !skb_queue_empty(&end->queue)) {
		u32 used = min(end->budget, end->remaining);

		end->budget -= used;
		end->remaining -= used;
		if (!end->remaining)
			finish(end, end->due);
	}
}

/* All opportunities of a moment begin: the discipline may give packets as long as they last. */
static void open_opportunities(struct end *end)
{
	end->due = opportunity_at(end);
	end->last_end = end->due;
	moment_is(end->due);
	end->open = true;
	end->budget = 0;
	do {
		end->budget += OPPORTUNITY;
		if (++end->trace_next == end->trace_count) {
			end->period_start += end->trace[end->trace_count - 1] * (u64)NSEC_PER_MSEC;
			end->trace_next = 0;
		}
	} while (opportunity_at(end) == end->due);
	if (!skb_queue_empty(&end->queue))
		use_opportunity(end);
	else if (gated(end))
		netif_wake_queue(end->dev);
}

static enum hrtimer_restart on_tx(struct hrtimer *timer)
{
	struct end *end = container_of(timer, struct end, tx);

	served(ktime_to_ns(hrtimer_get_expires(timer)));
	if (!end->traced) {
		finish(end, end->due);
	} else if (end->open) {
		end->open = false;
		end->budget = 0;
		if (gated(end))
			netif_stop_queue(end->dev);
		at(timer, opportunity_at(end));
	} else {
		open_opportunities(end);
		at(timer, end->due + SERVED_NS);
	}
	return HRTIMER_NORESTART;
}

/* The rate changes; the packet in transmission goes on with what is left of it. */
static void set_rate(struct end *end, u64 now, u64 rate)
{
	if (!skb_queue_empty(&end->queue) && end->rate && rate && end->due > now) {
		u64 left = end->due - now, old = end->rate;
		u64 span = mul_u64_u64_div_u64(left, old, rate);

		if (span * rate != left * old) /* modulo 2^64: rounded up */
			span++;
		end->due = now + span;
		at(&end->tx, end->due);
	}
	end->rate = rate;
}

static enum hrtimer_restart on_change(struct hrtimer *timer)
{
	struct end *end = container_of(timer, struct end, change);
	u64 now = next_step(&end->rates);

	set_rate(end, now, step_to(&end->rates, now, end->rate));
	if (next_step(&end->rates) != U64_MAX)
		at(timer, next_step(&end->rates));
	return HRTIMER_NORESTART;
}

/* ---- hosts' own links ---- */

/* By the left host, whichever way the packet goes: the right one may be that of several flows. Left hosts are 10.1 to 10.100. */
static struct host *host_of(struct end *end, const struct sk_buff *skb)
{
	u32 from = ntohl(ip_hdr(skb)->saddr), to = ntohl(ip_hdr(skb)->daddr);
	u16 id = ((from >> 16 & 0xff) <= 100 ? from : to) & 0xffff;
	struct host *host;

	hash_for_each_possible(end->by_id, host, node, id)
		if (host->id == id)
			return host;
	return NULL;
}

static enum hrtimer_restart on_host(struct hrtimer *timer)
{
	struct host *host = container_of(timer, struct host, timer);
	struct sk_buff *skb;

	served(ktime_to_ns(hrtimer_get_expires(timer)));
	while ((skb = skb_peek(&host->wire)) && NOTE(skb)->due <= ktime_get_ns()) {
		__skb_unlink(skb, &host->wire);
		moment_is(NOTE(skb)->due);
		deliver(host->end, skb);
	}
	if (skb)
		at(timer, NOTE(skb)->due);
	return HRTIMER_NORESTART;
}

/* A FIFO in closed form, as crates/sim/src/access.rs: a departure goes before an arrival at the same time. */
static bool host_pass(struct host *host, u32 bytes, u64 now, u64 *due)
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
	host->free = start + DIV_ROUND_UP_ULL(bytes * 8000000000ULL, host->rate);
	*due = host->free + host->delay;
	return true;
}

/*
 * When a host sends this. What a socket that paces sends leaves at its own time, which TCP has stamped it with, not at that of an
 * arrival shortly before: else TCP would see an RTT shorter than there is.
 */
static u64 sent_at(const struct sk_buff *skb)
{
	u64 now = now_ns();
	const struct sock *sk = skb->sk;

	if (!sk || !sk_fullsock(sk) || !tcp_needs_internal_pacing(sk))
		return now;
	return clamp_t(u64, skb->tstamp, now, ktime_get_ns());
}

static netdev_tx_t host_xmit(struct end *end, struct sk_buff *skb)
{
	struct host *host = skb->protocol == htons(ETH_P_IP) ? host_of(end, skb) : NULL;
	bool idle;
	u64 due;

	if (!host || !host_pass(host, wire_bytes(skb, 0), sent_at(skb), &due)) {
		end->drops++;
		kfree_skb(skb);
		return NETDEV_TX_OK;
	}
	count_sent(end, skb);
	end->bytes += wire_bytes(skb, 0);
	skb_orphan(skb);
	idle = skb_queue_empty(&host->wire);
	/* In order, also where what does not pace is sent at an event and what paces just after it. */
	host->last_out = max(due, host->last_out);
	NOTE(skb)->due = host->last_out;
	__skb_queue_tail(&host->wire, skb);
	if (idle)
		at(&host->timer, host->last_out);
	return NETDEV_TX_OK;
}

static netdev_tx_t link_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct end *end = *(struct end **)netdev_priv(dev);
	struct seen *seen = NULL;
	u64 now;

	if (end->hosts)
		return host_xmit(end, skb);
	if (end->index >= 0 && hooks[0].on)
		seen = find_seen(skb);
	skb_orphan(skb);
	memset(NOTE(skb), 0, sizeof(struct note));
	NOTE(skb)->seen = seen;
	if (end->bql)
		netdev_sent_queue(dev, skb->len);
	__skb_queue_tail(&end->queue, skb);
	if (++end->used >= end->ring)
		netif_stop_queue(dev);
	note_ring(end, SENT, skb->len);
	if (end->before)
		look(end);
	if (skb_queue_len(&end->queue) > 1 || end->stopped)
		return NETDEV_TX_OK;
	now = now_ns();
	if (end->awaited && now - end->last_end < JOINED_NS)
		now = end->last_end;
	end->awaited = false;
	begin(end, now);
	if (end->traced)
		use_opportunity(end);
	return NETDEV_TX_OK;
}

static int link_open(struct net_device *dev)
{
	if (gated(*(struct end **)netdev_priv(dev)))
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

static const struct net_device_ops link_ops = {
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

static void set_timer(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *))
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(timer, function, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	timer->function = function;
#endif
}

static struct end *make_end(const char *name, bool queued)
{
	struct end *end = kzalloc(sizeof(*end), GFP_KERNEL);
	int err;

	if (!end)
		return ERR_PTR(-ENOMEM);
	end->dev = alloc_netdev(sizeof(end), name, NET_NAME_USER, link_setup);
	if (!end->dev) {
		kfree(end);
		return ERR_PTR(-ENOMEM);
	}
	*(struct end **)netdev_priv(end->dev) = end;
	dev_net_set(end->dev, current->nsproxy->net_ns);
	end->index = -1;
	end->ring = 1;
	end->overhead = ETH_HLEN;
	/* Its queue is what it is told; without one it has none, nor has it limits of bytes that /sys would show. */
	if (!queued)
		end->dev->priv_flags |= IFF_NO_QUEUE;
	__skb_queue_head_init(&end->queue);
	__skb_queue_head_init(&end->wire);
	hash_init(end->by_id);
	set_timer(&end->tx, on_tx);
	set_timer(&end->change, on_change);
	set_timer(&end->out, on_out);
	set_timer(&end->interrupt, on_interrupt);
	set_timer(&end->frame, on_frame);
	INIT_LIST_HEAD(&end->frames);
	err = register_netdevice(end->dev);
	if (err) {
		free_netdev(end->dev);
		kfree(end);
		return ERR_PTR(err);
	}
	list_add_tail(&end->all, &ends);
	return end;
}

/* ---- a sink in the kernel ---- */

#ifdef CONFIG_UML
/*
 * Reads what arrives on a socket as a program does that is woken for it, without the switches into the program and back. It
 * reads when the softirqs that brought the data are done: then a program would run.
 */
struct drain {
	struct list_head due;
	struct socket *sock;
};

static LIST_HEAD(drains_due);

/*
 * tcp_recvmsg() tunes the window after each packet, tcp_read_sock() only after the last. So the window is tuned here before
 * each packet but the first.
 */
static int take_packet(read_descriptor_t *desc, struct sk_buff *skb, unsigned int offset, size_t length)
{
	if (desc->written)
		tcp_rcv_space_adjust(desc->arg.data);
	desc->written += length;
	return length;
}

static void read_due(struct tasklet_struct *tasklet)
{
	struct drain *drain, *next;

	list_for_each_entry_safe(drain, next, &drains_due, due) {
		struct sock *sk = drain->sock->sk;
		read_descriptor_t desc = { .count = 1, .arg.data = sk };

		bh_lock_sock(sk);
		/* A program's system call that holds the socket comes first. */
		if (!sock_owned_by_user(sk)) {
			list_del_init(&drain->due);
			tcp_read_sock(sk, &desc, take_packet);
		}
		bh_unlock_sock(sk);
	}
	if (!list_empty(&drains_due))
		tasklet_schedule(tasklet);
}

static DECLARE_TASKLET(reader, read_due);

static void on_data(struct sock *sk)
{
	struct drain *drain = sk->sk_user_data;

	local_bh_disable();
	if (list_empty(&drain->due)) {
		list_add_tail(&drain->due, &drains_due);
		tasklet_schedule(&reader);
	}
	local_bh_enable();
}

/* The socket stays open as long as the guest runs: nobody closes it, and nothing is put back. */
static int drain_socket(int fd)
{
	struct drain *drain;
	struct socket *sock;
	int err;

	sock = sockfd_lookup(fd, &err);
	if (!sock)
		return err;
	drain = kzalloc(sizeof(*drain), GFP_KERNEL);
	if (!drain || sock->sk->sk_protocol != IPPROTO_TCP) {
		kfree(drain);
		sockfd_put(sock);
		return drain ? -EINVAL : -ENOMEM;
	}
	INIT_LIST_HEAD(&drain->due);
	drain->sock = sock;
	lock_sock(sock->sk);
	sock->sk->sk_user_data = drain;
	sock->sk->sk_data_ready = on_data;
	release_sock(sock->sk);
	/* What came before. */
	on_data(sock->sk);
	return 0;
}
#else
/* A kernel without our patches does not export what a reader needs: there the program reads. */
static int drain_socket(int fd)
{
	return -EOPNOTSUPP;
}
#endif

/* ---- control ---- */

static char *word(char **line)
{
	char *found;

	do
		found = strsep(line, " ");
	while (found && !*found);
	return found;
}

static int number(char **line, u64 *value)
{
	char *text = word(line);

	return text ? kstrtou64(text, 10, value) : -EINVAL;
}

static int numbers(char **line, u64 *values, int count)
{
	int i, err = 0;

	for (i = 0; i < count && !err; i++)
		err = number(line, &values[i]);
	return err;
}

static struct end *named(char **line)
{
	const char *name = word(line);
	struct end *end;

	list_for_each_entry(end, &ends, all)
		if (name && !strcmp(end->dev->name, name))
			return end;
	return NULL;
}

static int read_steps(char **line, struct steps *steps)
{
	size_t most = strlen(*line) / 4 + 1;
	u64 pair[2];
	int err = 0;

	steps->list = kvmalloc_array(most, sizeof(*steps->list), GFP_KERNEL);
	if (!steps->list)
		return -ENOMEM;
	while (*line && **line && steps->count < most) {
		err = numbers(line, pair, 2);
		if (err)
			return err;
		steps->list[steps->count++] = (struct step){ pair[0], pair[1] };
	}
	return 0;
}

static int read_trace(char **line, struct end *end)
{
	size_t most = strlen(*line) / 2 + 1;
	u64 ms;
	int err;

	end->trace = kvmalloc_array(most, sizeof(*end->trace), GFP_KERNEL);
	if (!end->trace)
		return -ENOMEM;
	while (*line && **line && end->trace_count < most) {
		err = number(line, &ms);
		if (err)
			return err;
		end->trace[end->trace_count++] = ms;
	}
	end->traced = true;
	return end->trace_count ? 0 : -EINVAL;
}

static int add_host(char **line, struct end *end)
{
	struct host *host;
	u64 v[4];
	int err = numbers(line, v, 4);

	if (err)
		return err;
	host = kzalloc(sizeof(*host), GFP_KERNEL);
	if (!host)
		return -ENOMEM;
	host->id = v[0];
	host->delay = v[1];
	host->rate = v[2];
	host->limit = max_t(u64, v[3], 1);
	host->end = end;
	if (host->rate) {
		host->starts = kvmalloc_array(host->limit, sizeof(u64), GFP_KERNEL);
		if (!host->starts) {
			kfree(host);
			return -ENOMEM;
		}
	}
	__skb_queue_head_init(&host->wire);
	set_timer(&host->timer, on_host);
	end->hosts = true;
	hash_add(end->by_id, &host->node, host->id);
	return 0;
}

/* Time zero: the first steps hold, the timers of the later ones run. */
static int start_all(u64 zero)
{
	struct end *end;

	origin = zero;
	list_for_each_entry(end, &ends, all) {
		end->rate = step_to(&end->rates, origin, 0);
		end->delay = step_to(&end->delays, origin, 0);
		if (next_step(&end->rates) != U64_MAX)
			at(&end->change, next_step(&end->rates));
		if (end->traced)
			at(&end->tx, opportunity_at(end));
	}
	return 0;
}

static int make_pair(char **line)
{
	const char *first = word(line), *second = word(line);
	struct end *a, *b;
	u64 queued;
	int err;

	if (!first || !second)
		return -EINVAL;
	err = number(line, &queued);
	if (err)
		return err;
	rtnl_lock();
	a = make_end(first, queued);
	b = IS_ERR(a) ? a : make_end(second, queued);
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

static int obey(char *text)
{
	const char *verb = word(&text);
	struct end *end;
	u64 v[6];
	int err;

	if (!verb)
		return -EINVAL;
	if (!strcmp(verb, "pair"))
		return make_pair(&text);
	if (!strcmp(verb, "start"))
		return number(&text, v) ?: start_all(v[0]);
	if (!strcmp(verb, "drain"))
		return number(&text, v) ?: drain_socket(v[0]);
	if (!strcmp(verb, "probe"))
		return number(&text, v) ?: hook_all(v[0]);
	if (!strcmp(verb, "most")) {
		err = number(&text, v);
		most_records = err ? most_records : min_t(u64, v[0], MOST_RECORDS);
		return err;
	}
	end = named(&text);
	if (!end || !text)
		return -ENODEV;
	if (!strcmp(verb, "link")) {
		err = numbers(&text, v, 6);
		if (err)
			return err;
		end->index = v[0];
		end->overhead = v[1];
		end->ring = max_t(u64, v[2], 1);
		end->bql = v[3];
		end->coalesce = v[4];
		end->noted = v[5];
		return 0;
	}
	if (!strcmp(verb, "pause")) {
		end->before = named(&text);
		err = end->before && text ? numbers(&text, v, 4) : -ENODEV;
		end->stop_above = (struct filling){ v[0], v[1] };
		end->go_at = (struct filling){ v[2], v[3] };
		flow_control = true;
		return err;
	}
	if (!strcmp(verb, "rate"))
		return read_steps(&text, &end->rates);
	if (!strcmp(verb, "delay"))
		return read_steps(&text, &end->delays);
	if (!strcmp(verb, "trace"))
		return read_trace(&text, end);
	if (!strcmp(verb, "host"))
		return add_host(&text, end);
	return -EINVAL;
}

static ssize_t control_write(struct file *file, const char __user *from, size_t count, loff_t *offset)
{
	char *text;
	int err;

	if (count > 64 << 20)
		return -E2BIG;
	text = kvmalloc(count + 1, GFP_KERNEL);
	if (!text)
		return -ENOMEM;
	text[count] = 0;
	err = copy_from_user(text, from, count) ? -EFAULT : obey(strim(text));
	kvfree(text);
	return err ?: count;
}

static ssize_t records_read(struct file *file, char __user *to, size_t count, loff_t *offset)
{
	size_t done = 0;

	/* What goes to the host's file is not for a reader. */
	while (records_file < 0 && done < count && taken < written) {
		size_t some = min3(count - done, written - taken, CHUNK - taken % CHUNK);

		if (copy_to_user(to + done, chunks[taken / CHUNK] + taken % CHUNK, some))
			return -EFAULT;
		done += some;
		taken += some;
	}
	if (taken == written)
		taken = written = recorded = 0;
	return done;
}

static int stats_show(struct seq_file *m, void *v)
{
	struct end *end;

	seq_printf(m, "lost %llu\nlate_ns %llu\n", lost, latest);
	list_for_each_entry(end, &ends, all)
		seq_printf(m, "%s packets %llu bytes %llu busy_ns %llu drops %llu\n", end->dev->name, end->packets,
			   end->bytes, end->busy_ns, end->drops);
	return 0;
}

static const struct proc_ops control_ops = { .proc_write = control_write };
static const struct proc_ops records_ops = { .proc_read = records_read };

static int __init sojourn_link_init(void)
{
	struct proc_dir_entry *folder = proc_mkdir("sojourn", NULL);
	int err = open_records();

	if (err)
		return err;
	chunks = kvcalloc(MOST_RECORDS / CHUNK + 1, sizeof(*chunks), GFP_KERNEL);
	seen_cache = KMEM_CACHE(seen, 0);
	if (!folder || !chunks || !seen_cache)
		return -ENOMEM;
	proc_create("control", 0600, folder, &control_ops);
	proc_create("records", 0400, folder, &records_ops);
	proc_create_single("stats", 0400, folder, stats_show);
	return 0;
}

module_init(sojourn_link_init);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Cables for a guest in virtual time, and a probe that sees every packet");
