// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * sojourn_replay: drives the queue discipline of a device with a trace of
 * packets at exact times, and reports the fate of each packet.
 *
 * The module creates a network device, replay0, that sends nothing. tc can
 * attach any discipline to it. The module has these files in
 * /proc/sojourn_replay:
 *
 *  trace   write: struct replay_op, in sequence; times must not decrease
 *  numbers write "NUMBERS", before tc: the seed of the discipline's random
 *          numbers, including those of its set-up
 *  changes write "COUNT", after the discipline is set up: the next COUNT
 *          changes by tc are stored instead of applied, and are applied in
 *          order at the trace's rows for changes
 *  go      write "ORIGIN RATE AWAKE": plays the trace. ORIGIN is the guest's
 *          clock at the trace's time zero, in ns, in the future. RATE is that
 *          of a busy server in bit/s, or 0 if the trace has its own dequeues.
 *          AWAKE 1 waits without sleep, which is slower. It is necessary for
 *          disciplines with timers in ns, which expire late if they are close
 *          to another timer.
 *  fates   read: struct replay_fate, by packet
 *
 * The server is that of sojourn's simulator. A packet takes its length times
 * 8e9 / RATE ns, rounded up. At each completion the server dequeues once, after
 * all arrivals of that time, even from an empty discipline. An idle server
 * dequeues after the arrivals of each time. This does not work for disciplines
 * that hold packets back: -EOPNOTSUPP. They can be replayed if the trace has
 * its own dequeues, which ignore the discipline's own timers.
 *
 * Time: between two operations the module sleeps until shortly before the next
 * one, and then lets the guest's clock advance to the exact time of the trace.
 */
#include <linux/delay.h>
#include <linux/etherdevice.h>
#include <linux/hrtimer.h>
#if __has_include(<linux/hrtimer_bases.h>)
#include <linux/hrtimer_bases.h>
#endif
#include <linux/ip.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/proc_fs.h>
#include <linux/random.h>
#include <linux/rtnetlink.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <linux/vmalloc.h>
#include <net/inet_ecn.h>
#include <net/ip.h>
#include <net/pkt_sched.h>
#include <net/route.h>
#include <net/sch_generic.h>
#include <trace/events/skb.h>

#define REPLAY_HEADERS	(ETH_HLEN + sizeof(struct iphdr))
#define REPLAY_NEVER	(~0ULL)
/*
 * Times nearer than this are waited for without sleep. A timer that is set less
 * than 500 ns ahead expires late, and after a tick or two our timer can be so
 * close.
 */
#define REPLAY_NEAR	5000ULL
#define REPLAY_AHEAD	3000ULL
#define REPLAY_MOST_OPS	(64U << 20)
/* A packet's mark: a flag that it belongs to the trace, and its number. */
#define REPLAY_NUMBER	(REPLAY_MOST_OPS - 1)
#define REPLAY_OURS	(42U << 26)

/* Maximum number of changes in a trace. */
#define REPLAY_MOST_CHANGES	1000U

enum { REPLAY_ENQUEUE, REPLAY_DEQUEUE, REPLAY_CHANGE };

struct replay_op {
	__u64	at;
	__u32	hash;
	__u32	bytes;
	__u8	op;
	__u8	ecn;
	__u8	pad[6];
};

enum {
	REPLAY_QUEUED,
	REPLAY_DELIVERED,
	REPLAY_MARKED,
	REPLAY_DROPPED_AT_ENQUEUE,
	REPLAY_DROPPED_AT_DEQUEUE,
	REPLAY_DROPPED_AT_CHANGE,
};

struct replay_fate {
	__u64	at;
	__u8	fate;
	__u8	pad[7];
};

static struct net_device *replay_dev;
static struct proc_dir_entry *replay_dir;
static DEFINE_MUTEX(replay_lock);
static struct replay_op *replay_ops;
static struct replay_fate *replay_fates;
static size_t replay_op_bytes, replay_op_room;
static u32 replay_packets;

/* The current operation. */
static u64 replay_origin, replay_present;
static unsigned int replay_awake;
/* Never armed: its base knows when the next timer expires. */
static struct hrtimer replay_events;
static u8 replay_drop_fate;
/* Whether a packet that is not in the trace was in the queue. */
static bool replay_stray;

/*
 * Changes by tc: the stored ones, their intended number, and the number
 * applied.
 */
static struct nlattr **replay_changes;
static unsigned int replay_changes_kept, replay_changes_wanted;
static unsigned int replay_changes_made;
/* The discipline's own operations, while tc's changes are stored. */
static struct Qdisc_ops *replay_changed_ops;
static int (*replay_own_change)(struct Qdisc *q, struct nlattr *opt,
		     struct netlink_ext_ack *extack);

/* Defined by patches/0004-numbers.patch; Debian's own kernel lacks it. */
extern u64 (*random_numbers)(void) __weak;

static u64 replay_numbers;

/* Returns the discipline's next random number: SplitMix64, as in core::rng. */
static u64 replay_number(void)
{
	u64 mixed;

	replay_numbers += 0x9e3779b97f4a7c15ULL;
	mixed = (replay_numbers ^ replay_numbers >> 30) * 0xbf58476d1ce4e5b9ULL;
	mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebULL;
	return mixed ^ mixed >> 31;
}

/*
 * Returns a random number while tc sets the discipline up. The caller is the
 * discipline if it is tc and holds the lock.
 */
static u64 replay_first_number(void)
{
	u64 number;

	if (in_task() && rtnl_is_locked() && !strcmp(current->comm, "tc"))
		return replay_number();
	WRITE_ONCE(random_numbers, NULL);
	number = get_random_u64();
	WRITE_ONCE(random_numbers, replay_first_number);
	return number;
}

/* Begins a call of the discipline, exclusively and with our random numbers. */
static void replay_enter(struct Qdisc *q)
{
	spin_lock(qdisc_lock(q));
	if (&random_numbers)
		WRITE_ONCE(random_numbers, replay_number);
}

static void replay_leave(struct Qdisc *q)
{
	if (&random_numbers)
		WRITE_ONCE(random_numbers, NULL);
	spin_unlock(qdisc_lock(q));
}

static struct Qdisc *replay_qdisc(void)
{
	return rcu_dereference_protected(netdev_get_tx_queue(replay_dev, 0)->qdisc,
					 lockdep_is_held(&replay_lock));
}

static bool replay_is_ours(const struct sk_buff *skb)
{
	return skb->dev == replay_dev && (skb->mark & ~REPLAY_NUMBER) == REPLAY_OURS;
}

static struct replay_fate *replay_fate_of(const struct sk_buff *skb)
{
	return &replay_fates[skb->mark & REPLAY_NUMBER];
}

/*
 * Observes packets that the kernel frees. A destructor would not do, because fq
 * removes it on arrival.
 */
static void replay_freed(void *data, struct sk_buff *skb, void *location,
			 enum skb_drop_reason reason)
{
	if (!replay_is_ours(skb))
		return;
	replay_fate_of(skb)->fate = replay_drop_fate;
	replay_fate_of(skb)->at = replay_present;
}

static struct sk_buff *replay_packet(const struct replay_op *op, u32 number)
{
	struct sk_buff *skb = alloc_skb(REPLAY_HEADERS + 16, GFP_ATOMIC);
	struct iphdr *ip;

	if (!skb)
		return NULL;
	skb_reserve(skb, 2);
	skb_reset_mac_header(skb);
	skb_put_zero(skb, ETH_HLEN);
	skb_set_network_header(skb, ETH_HLEN);
	ip = skb_put_zero(skb, sizeof(*ip));
	ip->version = 4;
	ip->ihl = 5;
	ip->tos = op->ecn;
	ip->tot_len = htons(sizeof(*ip));
	ip->ttl = 64;
	/*
	 * For disciplines that read a packet's addresses instead of its hash.
	 */
	ip->saddr = (__force __be32)op->hash;
	ip_send_check(ip);
	skb->protocol = htons(ETH_P_IP);
	skb->dev = replay_dev;
	skb->mark = REPLAY_OURS | number;
	/* As in a router. */
	skb->priority = rt_tos2priority(op->ecn);
	/* The packet's length and memory are those of the trace. */
	skb->truesize = op->bytes;
	qdisc_skb_cb(skb)->pkt_len = op->bytes;
	/*
	 * Some disciplines (pie) read skb->len: the packet gets a length
	 * without data.
	 */
	if (op->bytes > skb->len) {
		skb->data_len = op->bytes - skb->len;
		skb->len = op->bytes;
	}
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 19, 0)
	qdisc_skb_cb(skb)->pkt_segs = 1;
#endif
	skb_set_hash(skb, op->hash, PKT_HASH_TYPE_L4);
	return skb;
}

static int replay_enqueue(const struct replay_op *op, u32 number)
{
	struct Qdisc *q = replay_qdisc();
	struct sk_buff *skb = replay_packet(op, number);
	struct sk_buff *to_free = NULL;

	if (!skb)
		return -ENOMEM;
	replay_drop_fate = REPLAY_DROPPED_AT_ENQUEUE;
	replay_enter(q);
	q->enqueue(skb, q, &to_free);
	replay_leave(q);
	kfree_skb_list(to_free);
	return 0;
}

/*
 * Since 7.0, packets that a discipline drops while dequeuing are collected at
 * the root for the caller.
 */
static struct sk_buff *replay_dropped(struct Qdisc *q)
{
	struct sk_buff *list = NULL;

#ifdef TCQ_F_DEQUEUE_DROPS
	swap(list, q->to_free);
#endif
	return list;
}

/* Returns the bytes of the packet that left, or 0. */
static u32 replay_dequeue(void)
{
	struct Qdisc *q = replay_qdisc();
	struct sk_buff *to_free;
	struct replay_fate *fate;
	struct sk_buff *skb;
	u8 ecn_in, ecn;
	u32 bytes;

	replay_drop_fate = REPLAY_DROPPED_AT_DEQUEUE;
	replay_enter(q);
	skb = q->dequeue(q);
	to_free = replay_dropped(q);
	replay_leave(q);
	kfree_skb_list(to_free);
	if (!skb)
		return 0;
	if (WARN_ON_ONCE(!replay_is_ours(skb))) {
		replay_stray = true;
		kfree_skb(skb);
		return 0;
	}
	fate = replay_fate_of(skb);
	ecn_in = fate->pad[0];
	ecn = ip_hdr(skb)->tos & INET_ECN_MASK;
	fate->fate = ecn == INET_ECN_CE && ecn_in != INET_ECN_CE ?
		     REPLAY_MARKED : REPLAY_DELIVERED;
	fate->at = replay_present;
	bytes = qdisc_pkt_len(skb);
	consume_skb(skb);
	return bytes;
}

/*
 * Replaces the discipline's own change operation: stores tc's attributes for
 * later.
 */
static int replay_keep_change(struct Qdisc *q, struct nlattr *opt,
			      struct netlink_ext_ack *extack)
{
	struct nlattr *copy;

	if (replay_changes_kept == replay_changes_wanted)
		return -ENOSPC;
	copy = kmemdup(opt, opt->nla_len, GFP_KERNEL);
	if (!copy)
		return -ENOMEM;
	replay_changes[replay_changes_kept++] = copy;
	return 0;
}

static void replay_give_change_back(void)
{
	if (replay_changed_ops)
		replay_changed_ops->change = replay_own_change;
	replay_changed_ops = NULL;
}

static void replay_forget_changes(void)
{
	replay_give_change_back();
	while (replay_changes_kept)
		kfree(replay_changes[--replay_changes_kept]);
	kvfree(replay_changes);
	replay_changes = NULL;
	replay_changes_wanted = 0;
}

/*
 * Applies a stored change, as if tc made it now. Packets that the discipline
 * drops are freed when the lock is released.
 */
static int replay_change(void)
{
	struct netlink_ext_ack extack = {};
	struct Qdisc *q = replay_qdisc();
	struct sk_buff *to_free;
	int err = -EINVAL;

	rtnl_lock();
	replay_drop_fate = REPLAY_DROPPED_AT_CHANGE;
	if (&random_numbers)
		WRITE_ONCE(random_numbers, replay_number);
	if (replay_changes_made < replay_changes_kept && q->ops->change)
		err = q->ops->change(q, replay_changes[replay_changes_made++],
				     &extack);
	if (&random_numbers)
		WRITE_ONCE(random_numbers, NULL);
	spin_lock_bh(qdisc_lock(q));
	to_free = replay_dropped(q);
	spin_unlock_bh(qdisc_lock(q));
	rtnl_unlock();
	kfree_skb_list(to_free);
	if (err)
		pr_err("sojourn_replay: change %u: error %d, %s\n",
		       replay_changes_made, -err, extack._msg ?: "without words");
	return err ? -EDOM : 0;
}

/*
 * Returns how far the clock may advance from @now towards @until in one step. A
 * delay disables interrupts. It has to end at each event (the guest's come one
 * nanosecond late), or the event would be handled after the operation.
 */
static u64 replay_step(u64 now, u64 until)
{
	u64 event = ktime_to_ns(replay_events.base->cpu_base->expires_next) + 1;

	if (event > until)
		return until - now;
	return event > now ? event - now : 1;
}

/*
 * Waits until the trace's clock is @at. Returns with bottom halves disabled, so
 * that reading the clock does not advance it. Returns -ETIME if it is later
 * already.
 */
static int replay_wait(u64 at)
{
	u64 until = replay_origin + at;
	u64 now;

	for (;;) {
		ktime_t wake;

		local_bh_disable();
		now = ktime_get_ns();
		if (now >= until)
			break;
		local_bh_enable();
		if (replay_awake || until - now <= REPLAY_NEAR) {
			u64 step = replay_step(now, until);

			ndelay(step);
			if (until - now - step > REPLAY_NEAR)
				cond_resched();
			continue;
		}
		wake = ns_to_ktime(until - REPLAY_AHEAD);
		set_current_state(TASK_UNINTERRUPTIBLE);
		schedule_hrtimeout_range(&wake, 0, HRTIMER_MODE_ABS);
	}
	replay_present = at;
	if (now > until)
		pr_err("sojourn_replay: %llu ns after %llu\n", now - until, at);
	return now == until ? 0 : -ETIME;
}

struct replay_server {
	u64	rate;
	u64	next;
	bool	busy;
};

static int replay_serve(struct replay_server *server, u64 end)
{
	while (server->next < end) {
		u64 at = server->next;
		int err = replay_wait(at);
		u32 bytes;

		if (err) {
			local_bh_enable();
			return err;
		}
		bytes = replay_dequeue();
		server->busy = bytes;
		server->next = REPLAY_NEVER;
		if (bytes)
			server->next = at + DIV64_U64_ROUND_UP(bytes * 8000000000ULL,
							       server->rate);
		else if (replay_qdisc()->q.qlen)
			err = -EOPNOTSUPP;
		local_bh_enable();
		if (fatal_signal_pending(current))
			err = -EINTR;
		if (err)
			return err;
	}
	return 0;
}

static int replay_play(u64 rate)
{
	struct replay_server server = { .rate = rate, .next = REPLAY_NEVER };
	size_t count = replay_op_bytes / sizeof(*replay_ops), i;
	int err = 0;

	replay_packets = 0;
	replay_stray = false;
	replay_changes_made = 0;
	/* Nothing else dequeues, not even for the discipline's own timer. */
	netif_stop_queue(replay_dev);
	for (i = 0; i < count && !err; i++) {
		const struct replay_op *op = &replay_ops[i];

		if (rate)
			err = replay_serve(&server, op->at);
		if (err)
			break;
		err = replay_wait(op->at);
		if (!err && op->op == REPLAY_ENQUEUE) {
			replay_fates[replay_packets].fate = REPLAY_QUEUED;
			replay_fates[replay_packets].at = 0;
			replay_fates[replay_packets].pad[0] = op->ecn & INET_ECN_MASK;
			err = replay_enqueue(op, replay_packets++);
			if (rate && !server.busy)
				server.next = op->at;
		} else if (!err && op->op == REPLAY_DEQUEUE) {
			replay_dequeue();
		}
		local_bh_enable();
		/* It may sleep in theory; the clock does not advance. */
		if (!err && op->op == REPLAY_CHANGE)
			err = replay_change();
		if (fatal_signal_pending(current))
			err = -EINTR;
	}
	if (!err && rate)
		err = replay_serve(&server, REPLAY_NEVER);
	return replay_stray ? -EPROTO : err;
}

static ssize_t replay_trace_write(struct file *file, const char __user *data,
				  size_t length, loff_t *offset)
{
	ssize_t done = length;

	mutex_lock(&replay_lock);
	if (length > replay_op_room - replay_op_bytes)
		done = -ENOSPC;
	else if (copy_from_user((char *)replay_ops + replay_op_bytes, data,
				length))
		done = -EFAULT;
	else
		replay_op_bytes += length;
	mutex_unlock(&replay_lock);
	return done;
}

/*
 * The first write announces the number of rows, for which memory is allocated.
 */
static ssize_t replay_room_write(struct file *file, const char __user *data,
				 size_t length, loff_t *offset)
{
	ssize_t done = length;
	unsigned int rows;

	if (kstrtouint_from_user(data, length, 0, &rows) || !rows ||
	    rows > REPLAY_MOST_OPS)
		return -EINVAL;
	mutex_lock(&replay_lock);
	vfree(replay_ops);
	vfree(replay_fates);
	replay_op_bytes = 0;
	replay_packets = 0;
	replay_op_room = (size_t)rows * sizeof(*replay_ops);
	replay_ops = vzalloc(replay_op_room);
	replay_fates = vzalloc((size_t)rows * sizeof(*replay_fates));
	if (!replay_ops || !replay_fates) {
		replay_op_room = 0;
		done = -ENOMEM;
	}
	mutex_unlock(&replay_lock);
	return done;
}

static ssize_t replay_go_write(struct file *file, const char __user *data,
			       size_t length, loff_t *offset)
{
	char text[64];
	u64 rate;
	int err;

	if (length >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, data, length))
		return -EFAULT;
	text[length] = '\0';
	mutex_lock(&replay_lock);
	err = -EINVAL;
	if (&random_numbers)
		WRITE_ONCE(random_numbers, NULL);
	rtnl_lock();
	replay_give_change_back();
	rtnl_unlock();
	if (replay_ops && sscanf(text, "%llu %llu %u", &replay_origin, &rate,
				 &replay_awake) == 3)
		err = replay_play(rate);
	mutex_unlock(&replay_lock);
	return err ? err : length;
}

static ssize_t replay_changes_write(struct file *file, const char __user *data,
				    size_t length, loff_t *offset)
{
	struct Qdisc_ops *own;
	unsigned int count;
	int err;

	err = kstrtouint_from_user(data, length, 0, &count);
	if (err || count > REPLAY_MOST_CHANGES)
		return err ?: -EINVAL;
	mutex_lock(&replay_lock);
	rtnl_lock();
	replay_forget_changes();
	own = (struct Qdisc_ops *)replay_qdisc()->ops;
	if (count && own->change) {
		replay_changes = kvcalloc(count, sizeof(*replay_changes),
					  GFP_KERNEL);
		if (replay_changes) {
			replay_changes_wanted = count;
			replay_changed_ops = own;
			replay_own_change = own->change;
			own->change = replay_keep_change;
		} else {
			err = -ENOMEM;
		}
	}
	rtnl_unlock();
	mutex_unlock(&replay_lock);
	return err ? err : length;
}

static ssize_t replay_numbers_write(struct file *file, const char __user *data,
				    size_t length, loff_t *offset)
{
	int err;

	mutex_lock(&replay_lock);
	err = kstrtou64_from_user(data, length, 0, &replay_numbers);
	if (!err && &random_numbers)
		WRITE_ONCE(random_numbers, replay_first_number);
	mutex_unlock(&replay_lock);
	return err ? err : length;
}

static ssize_t replay_fates_read(struct file *file, char __user *data,
				 size_t length, loff_t *offset)
{
	ssize_t done;

	mutex_lock(&replay_lock);
	done = simple_read_from_buffer(data, length, offset, replay_fates,
				       (size_t)replay_packets * sizeof(*replay_fates));
	mutex_unlock(&replay_lock);
	return done;
}

static const struct proc_ops replay_room_ops = {
	.proc_write	= replay_room_write,
};

static const struct proc_ops replay_trace_ops = {
	.proc_write	= replay_trace_write,
};

static const struct proc_ops replay_go_ops = {
	.proc_write	= replay_go_write,
};

static const struct proc_ops replay_numbers_ops = {
	.proc_write	= replay_numbers_write,
};

static const struct proc_ops replay_changes_ops = {
	.proc_write	= replay_changes_write,
};

static const struct proc_ops replay_fates_ops = {
	.proc_read	= replay_fates_read,
	.proc_lseek	= default_llseek,
};

static netdev_tx_t replay_xmit(struct sk_buff *skb, struct net_device *dev)
{
	dev_kfree_skb(skb);
	return NETDEV_TX_OK;
}

static const struct net_device_ops replay_netdev_ops = {
	.ndo_start_xmit	= replay_xmit,
};

static void replay_setup(struct net_device *dev)
{
	ether_setup(dev);
	dev->netdev_ops = &replay_netdev_ops;
	dev->needs_free_netdev = true;
	/*
	 * Suppresses other packets: no ARP, no membership reports. (IPv6 is off
	 * in the guest.)
	 */
	dev->flags |= IFF_NOARP;
	dev->flags &= ~IFF_MULTICAST;
	dev->min_mtu = 1;
	dev->max_mtu = 65535 + 14;
	eth_hw_addr_random(dev);
}

static enum hrtimer_restart replay_no_event(struct hrtimer *timer)
{
	return HRTIMER_NORESTART;
}

static void replay_setup_events(void)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(&replay_events, replay_no_event, CLOCK_MONOTONIC,
		      HRTIMER_MODE_ABS);
#else
	hrtimer_init(&replay_events, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	replay_events.function = replay_no_event;
#endif
}

static int __init replay_init(void)
{
	int err = tracepoint_probe_register(&__tracepoint_kfree_skb,
					    (void *)replay_freed, NULL);

	if (err)
		return err;

	replay_setup_events();
	replay_dev = alloc_netdev(0, "replay%d", NET_NAME_ENUM, replay_setup);
	err = replay_dev ? register_netdev(replay_dev) : -ENOMEM;
	if (err)
		goto free;
	replay_dir = proc_mkdir("sojourn_replay", NULL);
	if (replay_dir &&
	    proc_create("room", 0200, replay_dir, &replay_room_ops) &&
	    proc_create("trace", 0200, replay_dir, &replay_trace_ops) &&
	    proc_create("numbers", 0200, replay_dir, &replay_numbers_ops) &&
	    proc_create("changes", 0200, replay_dir, &replay_changes_ops) &&
	    proc_create("go", 0200, replay_dir, &replay_go_ops) &&
	    proc_create("fates", 0400, replay_dir, &replay_fates_ops))
		return 0;
	err = -ENOMEM;
	proc_remove(replay_dir);
	unregister_netdev(replay_dev);
	replay_dev = NULL;
free:
	if (replay_dev)
		free_netdev(replay_dev);
	tracepoint_probe_unregister(&__tracepoint_kfree_skb,
				    (void *)replay_freed, NULL);
	tracepoint_synchronize_unregister();
	return err;
}

static void __exit replay_exit(void)
{
	proc_remove(replay_dir);
	if (&random_numbers)
		WRITE_ONCE(random_numbers, NULL);
	rtnl_lock();
	replay_forget_changes();
	rtnl_unlock();
	/* Packets that are still queued belong to the discipline. */
	unregister_netdev(replay_dev);
	tracepoint_probe_unregister(&__tracepoint_kfree_skb,
				    (void *)replay_freed, NULL);
	tracepoint_synchronize_unregister();
	vfree(replay_ops);
	vfree(replay_fates);
}

module_init(replay_init);
module_exit(replay_exit);
MODULE_AUTHOR("The sojourn authors");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A queue discipline driven by a packet trace");
