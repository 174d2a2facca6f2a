/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sojourn_link: types and functions that the objects of the module share. link_control.c says what the module does.
 */
#ifndef SOJOURN_LINK_H
#define SOJOURN_LINK_H

#include <linux/etherdevice.h>
#include <linux/hashtable.h>
#include <linux/hrtimer.h>
#include <linux/ip.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/proc_fs.h>
#include <linux/tcp.h>
#include <net/ip.h>
#include <net/sch_generic.h>
#include <net/tcp.h>

/* Hosts are infinitely fast: an interrupt and all that hosts send in response take less than this, in ns. */
#define LINK_SERVED_NS 4000

/* ---- records: 64 bytes each, as crates/traffic/src/probe.rs reads them ---- */

enum record_type { RECORD_PACKET, RECORD_ACKED, RECORD_RETRANSMITTED, RECORD_RING, RECORD_PAUSED };
enum record_fate { FATE_DELIVERED, FATE_DROPPED, FATE_QUEUED };
enum record_ring { RING_SENT, RING_COMPLETED };

/* Drop reasons in addition to those of Linux's enum qdisc_drop_reason: cake's ACK filter; netem, behind the link. */
#define REASON_ACK_FILTERED 0xffff
#define REASON_IMPAIRED 0xfffe

/* Addresses and ports of a packet or a socket. */
struct record_flow {
	u32 saddr, daddr;
	u16 sport, dport;
	u8 protocol, reserved[3];
};

/* A packet passed a link. */
struct record_packet {
	u8 type, fate, ecn, flags;
	u16 link, reason;
	u32 bytes, payload;
	struct record_flow flow;
	u32 seq, ack;
	u64 arrival, start, end;
};

/* An ACK of new data arrived at a sender. */
struct record_acked {
	u8 type, reserved[7];
	u32 rtt_us, payload;
	struct record_flow flow;
	u32 cwnd, srtt_us;
	u64 at, inflight, ssthresh;
};

/* A sender retransmitted segments, as one packet. */
struct record_retransmitted {
	u8 type, reserved[11];
	u32 payload;
	struct record_flow flow;
	u32 seq, reserved_seq;
	u64 at, reserved_at[2];
};

/* A transmit ring changed: @bytes were added or completed (enum record_ring). */
struct record_ring_change {
	u8 type, change, reserved[2];
	u16 link, reserved_link;
	u32 bytes, used;
	u8 reserved_flow[16];
	u32 limit, inflight;
	u64 at, jiffies, reserved_at;
};

/* A pause frame arrived at a link. */
struct record_paused {
	u8 type, stop, reserved[2];
	u16 link, reserved_link;
	u8 reserved_flow[32];
	u64 at, reserved_at[2];
};

union record {
	u8 type;
	struct record_packet packet;
	struct record_acked acked;
	struct record_retransmitted retransmitted;
	struct record_ring_change ring;
	struct record_paused paused;
};

static_assert(sizeof(union record) == 64);
static_assert(sizeof(struct record_packet) == 64 && sizeof(struct record_acked) == 64);
static_assert(sizeof(struct record_retransmitted) == 64 && sizeof(struct record_ring_change) == 64);
static_assert(sizeof(struct record_paused) == 64);
static_assert(offsetof(struct record_packet, flow) == 16 && offsetof(struct record_packet, arrival) == 40);
static_assert(offsetof(struct record_acked, flow) == 16 && offsetof(struct record_acked, at) == 40);
static_assert(offsetof(struct record_retransmitted, flow) == 16 && offsetof(struct record_retransmitted, at) == 40);
static_assert(offsetof(struct record_ring_change, limit) == 32 && offsetof(struct record_paused, at) == 40);

/* ---- devices ---- */

/* Values from given times on, relative to time zero of the run. */
struct link_step {
	u64 at, value;
};

struct link_steps {
	struct link_step *list;
	u32 count, next;
};

/* A queue length at which flow control acts: it is exceeded in packets or in bytes. */
struct link_threshold {
	u64 packets, bytes;
};

struct probe_packet;

/* State of a packet while a device holds it, in skb->cb. */
struct link_cb {
	u64 start, due;
	struct probe_packet *seen;
};

#define LINK_CB(skb) ((struct link_cb *)(skb)->cb)

/* One end of a cable: a network device that transmits to its peer. */
struct link_dev {
	struct list_head all;
	struct net_device *dev;
	struct link_dev *peer;
	/* A device of hosts; byte queue limits; driven by a trace; changes of the ring are recorded. */
	bool hosts, bql, traced, noted;
	/* At the last completion, packets were queued in the discipline. */
	bool awaited;
	/* Index of the link in the scenario; -1 for a device that is no link of the path. */
	int index;
	u32 overhead, ring;
	/* Whether packets fill ATM cells. */
	bool atm;
	/* Descriptors in use; those whose packets were sent but not completed, and their bytes. */
	u32 used, ended, ended_bytes;
	u64 coalesce;
	struct hrtimer interrupt;
	/* The transmitter: the first packet of the queue is in transmission. */
	struct sk_buff_head queue;
	u64 rate, due, last_end;
	struct link_steps rates, delays;
	struct hrtimer tx, change;
	/* Opportunities in milliseconds of the period, whose length is the last one. While one is open, the queue is. */
	u32 *trace, trace_count, trace_next, budget, remaining;
	bool open;
	u64 period_start;
	/* Propagation. */
	u64 delay, last_out;
	struct sk_buff_head wire;
	struct hrtimer out;
	/* The device with netem, to which the other end redirects this link's packets; NULL without impairments. */
	const struct net_device *impairs;
	/* Flow control of the previous link: the thresholds at which it is paused and resumed, and whether it is paused. */
	struct link_dev *before;
	struct link_threshold stop_above, go_at;
	bool stops;
	/* Flow control by the next link: whether this link is paused, and the frames in flight to it. */
	bool stopped, sending;
	struct list_head frames;
	u64 last_frame;
	struct hrtimer frame;
	DECLARE_HASHTABLE(by_id, 10);
	u64 packets, bytes, busy_ns, drops;
	/* The time for which packets waited for the link, which was idle: by a shaper's will, or because the guest was late. */
	u64 stalled_ns;
};

/* ---- link_clock.c: the guest's monotonic clock, in ns ---- */

extern u64 link_origin;		/* time zero of the run */
extern u64 link_moment;		/* time of the event that is being handled */
extern u64 link_latest;		/* greatest lateness of a timer: a guest that is late makes a run invalid */

/*
 * Returns the time of the current event. Packets that a host sends within LINK_SERVED_NS of an event are sent at the
 * event: hosts are infinitely fast, and the time that reading the clock takes is no part of a result. (hosts_xmit() has
 * an exception.)
 */
static inline u64 link_now(void)
{
	u64 now = ktime_get_ns();

	return now - link_moment < LINK_SERVED_NS ? link_moment : now;
}

/* Begins an event. */
static inline void link_moment_is(u64 when)
{
	link_moment = max(link_moment, when);
}

void link_timer_served(struct hrtimer *timer);
void link_timer_set(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *));
void link_timer_start(struct hrtimer *timer, u64 when);
u64 link_step_to(struct link_steps *steps, u64 now, u64 value);
u64 link_step_next(const struct link_steps *steps);

/* ---- link_records.c ---- */

/* Whether records are being kept, and the number of those that were lost. */
extern bool records_on;
extern u64 records_lost;

int records_init(struct proc_dir_entry *folder);
void records_keep(const union record *record);
void records_flush(void);
void records_limit(u64 bytes);

/* ---- link_probe.c ---- */

int probe_init(void);
int probe_set(bool on);
struct probe_packet *probe_noted(const struct sk_buff *skb);
void probe_left(const struct sk_buff *skb, u64 when);

/* ---- link_device.c ---- */

extern struct list_head link_devs;
extern const struct net_device_ops link_ops;

/* Returns the state of a network device, or NULL if it is not one of this module. */
static inline struct link_dev *link_of(const struct net_device *dev)
{
	return dev->netdev_ops == &link_ops ? *(struct link_dev **)netdev_priv(dev) : NULL;
}

u32 link_wire_bytes(const struct link_dev *ld, const struct sk_buff *skb);
u32 link_ip_bytes(const struct sk_buff *skb);
void link_begin(struct link_dev *ld, u64 when);
void link_deliver(struct link_dev *ld, struct sk_buff *skb);
void link_deliver_due(struct link_dev *ld, struct sk_buff_head *wire, struct hrtimer *timer);
void link_count_sent(struct link_dev *ld, const struct sk_buff *skb);
int link_make_pair(const char *first, const char *second, bool queued);
int link_start_all(u64 zero);

/* ---- link_pause.c: flow control (IEEE 802.3x) ---- */

void pause_init(struct link_dev *ld);
void pause_enable(struct link_dev *ld, struct link_dev *before, struct link_threshold stop, struct link_threshold go);
bool pause_holds(const struct link_dev *ld);
void pause_watch(struct link_dev *ld);
void pause_watch_all(void);

/* ---- link_hosts.c ---- */

int hosts_add(struct link_dev *ld, u16 id, u64 delay, u64 rate, u32 limit);
netdev_tx_t hosts_xmit(struct link_dev *ld, struct sk_buff *skb);

/* ---- link_sink.c ---- */

int sink_read(int fd, u64 bytes);

#endif
