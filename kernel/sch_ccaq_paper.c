// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * sch_ccaq_paper: ccaq as the paper has it, a queue for every flow with a
 * packet limit that adapts to the flow's congestion control. sch_ccaq is the
 * discipline for routers; both can be loaded at once.
 *
 * The limits are computed in ccaq_paper_impl.h. Scheduling, pacing and flow
 * lifetime are those of fq: deficit round robin with credits in bytes, new
 * flows first, and removal of flows that were unused for three seconds once
 * there are many.
 *
 * Differences from fq:
 * - There are no fast path and no bands: every packet passes its flow's queue,
 *   which thereby knows when it runs empty.
 * - Pacing is off by default: a packet that waits for its departure time would
 *   look like a standing queue. If it is on, maxrate, the pacing rate of a
 *   socket and the departure time of a packet are obeyed, the latter in order
 *   of arrival.
 * - Times are in nanoseconds instead of jiffies.
 * - With max_gi_rtts, TCP headers are read to observe a flow's handshake.
 * - Packets beyond a lowered limit are dropped from the tail at once, and are
 *   accounted for up to the root.
 */
#include <linux/hash.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/rbtree.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <net/inet_ecn.h>
#include <net/netlink.h>
#include <net/pkt_sched.h>
#include <net/sock.h>
#include <net/tcp_states.h>

#include "ccaq_paper_impl.h"
#include "ccaq_paper_uapi.h"
#include "ccaq_syn.h"

#define CCAQ_GC_AGE	(3ULL * NSEC_PER_SEC)	/* remove if unused for longer */
#define CCAQ_GC_MAX	8			/* removals per packet */
#define CCAQ_NEVER	(~0ULL)
#define CCAQ_NO_RATE	(~0ULL)

struct ccaq_skb_cb {
	u64	enqueue_time;
	u64	time_to_send;
};

static struct ccaq_skb_cb *ccaq_skb_cb(struct sk_buff *skb)
{
	qdisc_cb_private_validate(skb, sizeof(struct ccaq_skb_cb));
	return (struct ccaq_skb_cb *)qdisc_skb_cb(skb)->data;
}

/* State of a flow. */
enum ccaq_place {
	CCAQ_DETACHED,		/* not scheduled, and empty */
	CCAQ_IN_ROUND,
	CCAQ_THROTTLED,		/* waits for its next departure time */
};

struct ccaq_flow {
	struct sk_buff		*head;
	struct sk_buff		*tail;
	u32			qlen;
	int			credit;		/* remaining bytes in this round */
	enum ccaq_place		place;
	struct ccaq_flow	*next;		/* in the round */
	unsigned long		key;
	struct hlist_node	node;		/* in the table */
	struct rb_node		rate_node;	/* among the throttled */
	u64			age;		/* time at which it was descheduled */
	u64			time_next_packet;
	struct ccaq_vars	vars;
};

struct ccaq_list {
	struct ccaq_flow	*first;
	struct ccaq_flow	*last;
};

struct ccaq_sched_data {
	/* parameters */
	struct ccaq_params	params;
	u32			quantum;
	u32			initial_quantum;
	u32			buckets_log;
	u32			orphan_mask;
	u64			refill_delay;
	u64			max_rate;		/* bytes per second */
	u64			low_rate_threshold;
	u64			timer_slack;
	u64			ce_threshold;
	u64			horizon;
	bool			pacing;
	bool			horizon_drop;

	/* state */
	struct ccaq_list	new_flows;
	struct ccaq_list	old_flows;
	struct rb_root		delayed;
	u64			time_next_delayed_flow;
	struct hlist_head	*table;
	struct qdisc_watchdog	watchdog;
	u32			flows;
	u32			inactive_flows;
	u32			throttled_flows;

	/* counters */
	struct ccaq_stats	stats;
	u64			gc_flows;
	u64			throttled;
	u64			flows_plimit;
	u64			pkts_too_long;
	u64			allocation_errors;
	u64			ce_mark;
	u64			horizon_drops;
	u64			horizon_caps;
	u64			shed;
};

static struct kmem_cache *ccaq_flow_cachep __read_mostly;

/* Scheduling. */

static void ccaq_list_append(struct ccaq_list *list, struct ccaq_flow *flow)
{
	if (list->first)
		list->last->next = flow;
	else
		list->first = flow;
	list->last = flow;
	flow->next = NULL;
	flow->place = CCAQ_IN_ROUND;
}

static struct ccaq_flow *ccaq_list_take(struct ccaq_list *list)
{
	struct ccaq_flow *flow = list->first;

	list->first = flow->next;
	flow->next = NULL;
	return flow;
}

static void ccaq_detach(struct ccaq_sched_data *q, struct ccaq_flow *flow,
			u64 now)
{
	flow->place = CCAQ_DETACHED;
	flow->age = now;
	q->inactive_flows++;
}

/* Flows with equal times keep their order of arrival. */
static void ccaq_throttle(struct ccaq_sched_data *q, struct ccaq_flow *flow)
{
	struct rb_node **place = &q->delayed.rb_node, *parent = NULL;

	while (*place) {
		struct ccaq_flow *other;

		parent = *place;
		other = rb_entry(parent, struct ccaq_flow, rate_node);
		if (flow->time_next_packet >= other->time_next_packet)
			place = &parent->rb_right;
		else
			place = &parent->rb_left;
	}
	rb_link_node(&flow->rate_node, parent, place);
	rb_insert_color(&flow->rate_node, &q->delayed);
	flow->place = CCAQ_THROTTLED;
	q->throttled_flows++;
	q->throttled++;
	if (q->time_next_delayed_flow > flow->time_next_packet)
		q->time_next_delayed_flow = flow->time_next_packet;
}

/* Reschedules the throttled flows whose time has come. */
static void ccaq_release(struct ccaq_sched_data *q, u64 now)
{
	struct rb_node *node;

	if (q->time_next_delayed_flow > now)
		return;
	q->time_next_delayed_flow = CCAQ_NEVER;
	while ((node = rb_first(&q->delayed)) != NULL) {
		struct ccaq_flow *flow;

		flow = rb_entry(node, struct ccaq_flow, rate_node);
		if (flow->time_next_packet > now) {
			q->time_next_delayed_flow = flow->time_next_packet;
			break;
		}
		rb_erase(node, &q->delayed);
		q->throttled_flows--;
		ccaq_list_append(&q->old_flows, flow);
	}
}

/* The table of flows. */

static struct hlist_head *ccaq_bucket(struct hlist_head *table, u32 log,
				      unsigned long key)
{
	return &table[hash_long(key, log)];
}

static void ccaq_gc(struct ccaq_sched_data *q, struct hlist_head *bucket,
		    unsigned long key, u64 now)
{
	struct hlist_node *next;
	struct ccaq_flow *flow;
	int forgotten = 0;

	hlist_for_each_entry_safe(flow, next, bucket, node) {
		if (flow->place != CCAQ_DETACHED || flow->key == key ||
		    now - flow->age <= CCAQ_GC_AGE)
			continue;
		hlist_del(&flow->node);
		kmem_cache_free(ccaq_flow_cachep, flow);
		if (++forgotten == CCAQ_GC_MAX)
			break;
	}
	q->flows -= forgotten;
	q->inactive_flows -= forgotten;
	q->gc_flows += forgotten;
}

/*
 * Returns the key of a packet's flow: the socket for packets of this host, and
 * otherwise the masked hash, made odd so that it is no address.
 */
static unsigned long ccaq_key(struct ccaq_sched_data *q, struct sk_buff *skb)
{
	struct sock *sk = skb->sk;

	if (sk && sk_fullsock(sk) && sk->sk_state != TCP_LISTEN &&
	    sk->sk_state != TCP_CLOSE)
		return (unsigned long)sk;
	return ((unsigned long)(skb_get_hash(skb) & q->orphan_mask) << 1) | 1UL;
}

static struct ccaq_flow *ccaq_classify(struct ccaq_sched_data *q,
				       struct sk_buff *skb, u64 now)
{
	unsigned long key = ccaq_key(q, skb);
	struct hlist_head *bucket;
	struct ccaq_flow *flow;

	bucket = ccaq_bucket(q->table, q->buckets_log, key);
	if (q->flows >= (2U << q->buckets_log) &&
	    q->inactive_flows > q->flows / 2)
		ccaq_gc(q, bucket, key, now);

	hlist_for_each_entry(flow, bucket, node) {
		if (flow->key == key)
			return flow;
	}

	flow = kmem_cache_zalloc(ccaq_flow_cachep, GFP_ATOMIC | __GFP_NOWARN);
	if (unlikely(!flow)) {
		q->allocation_errors++;
		return NULL;
	}
	flow->key = key;
	flow->credit = q->initial_quantum;
	flow->place = CCAQ_DETACHED;
	flow->age = now;
	ccaq_vars_init(&flow->vars, &q->params, now);
	hlist_add_head(&flow->node, bucket);
	q->flows++;
	q->inactive_flows++;
	return flow;
}

/* Packets. */

static void ccaq_flow_append(struct ccaq_flow *flow, struct sk_buff *skb)
{
	skb->next = NULL;
	if (flow->head)
		flow->tail->next = skb;
	else
		flow->head = skb;
	flow->tail = skb;
	flow->qlen++;
}

static struct sk_buff *ccaq_flow_take(struct ccaq_flow *flow)
{
	struct sk_buff *skb = flow->head;

	if (skb) {
		flow->head = skb->next;
		skb_mark_not_on_list(skb);
		flow->qlen--;
	}
	return skb;
}

/* Drops all but the flow's first @keep packets; @keep must not be 0. */
static void ccaq_shed(struct Qdisc *sch, struct ccaq_flow *flow, u32 keep,
		      struct sk_buff **to_free)
{
	struct ccaq_sched_data *q = qdisc_priv(sch);
	struct sk_buff *last = flow->head, *skb;
	unsigned int packets = 0, bytes = 0;
	u32 i;

	if (flow->qlen <= keep)
		return;
	for (i = 1; i < keep; i++)
		last = last->next;
	skb = last->next;
	last->next = NULL;
	flow->tail = last;
	flow->qlen = keep;

	while (skb) {
		struct sk_buff *next = skb->next;

		skb_mark_not_on_list(skb);
		packets++;
		bytes += qdisc_pkt_len(skb);
		qdisc_qstats_backlog_dec(sch, skb);
		qdisc_drop(skb, sch, to_free);
		skb = next;
	}
	WRITE_ONCE(sch->q.qlen, sch->q.qlen - packets);
	q->shed += packets;
	q->flows_plimit += packets;
	/*
	 * The parents have counted these packets, but not yet the arriving one.
	 */
	qdisc_tree_reduce_backlog(sch, packets, bytes);
}

/*
 * Sets the departure time of a packet; returns false if it is beyond the
 * horizon.
 */
static bool ccaq_departure_time(struct ccaq_sched_data *q, struct sk_buff *skb,
				u64 now)
{
	u64 wanted = ktime_to_ns(skb->tstamp);

	ccaq_skb_cb(skb)->time_to_send = now;
	if (!q->pacing || wanted <= now)
		return true;
	if (wanted - now > q->horizon) {
		if (q->horizon_drop) {
			q->horizon_drops++;
			return false;
		}
		q->horizon_caps++;
		wanted = now + q->horizon;
	}
	ccaq_skb_cb(skb)->time_to_send = wanted;
	return true;
}

static int ccaq_enqueue(struct sk_buff *skb, struct Qdisc *sch,
			struct sk_buff **to_free)
{
	struct ccaq_sched_data *q = qdisc_priv(sch);
	u64 now = ktime_get_ns();
	struct ccaq_flow *flow;

	if (unlikely(sch->q.qlen >= sch->limit))
		return qdisc_drop(skb, sch, to_free);
	ccaq_skb_cb(skb)->enqueue_time = now;
	if (!ccaq_departure_time(q, skb, now))
		return qdisc_drop(skb, sch, to_free);

	flow = ccaq_classify(q, skb, now);
	if (unlikely(!flow))
		return qdisc_drop(skb, sch, to_free);

	if (q->params.max_gi_rtts) {
		/*
		 * The hash of a socket may change, but it has a flow of its
		 * own.
		 */
		u32 hash = flow->key & 1 ? skb_get_hash(skb) : 0;

		ccaq_handshake(&flow->vars, now, hash, ccaq_opens(skb));
	}

	switch (ccaq_arrival(&flow->vars, &q->params, &q->stats, now,
			     flow->qlen)) {
	case CCAQ_ACCEPT:
		break;
	case CCAQ_SHRINK:
		ccaq_shed(sch, flow, flow->vars.limit, to_free);
		fallthrough;
	case CCAQ_REFUSE:
		q->flows_plimit++;
		return qdisc_drop(skb, sch, to_free);
	}

	if (flow->place == CCAQ_DETACHED) {
		q->inactive_flows--;
		ccaq_list_append(&q->new_flows, flow);
		if (now - flow->age > q->refill_delay)
			flow->credit = max_t(int, flow->credit, q->quantum);
	}
	qdisc_qstats_backlog_inc(sch, skb);
	ccaq_flow_append(flow, skb);
	WRITE_ONCE(sch->q.qlen, sch->q.qlen + 1);
	return NET_XMIT_SUCCESS;
}

/*
 * Returns the rate in bytes per second at which a flow may continue after this
 * packet.
 */
static u64 ccaq_rate(const struct ccaq_sched_data *q, const struct sk_buff *skb)
{
	u64 rate = q->max_rate;

	if (q->pacing && skb->sk && sk_fullsock(skb->sk)) {
		unsigned long paced = READ_ONCE(skb->sk->sk_pacing_rate);

		if (paced != ~0UL)
			rate = min_t(u64, rate, paced);
	}
	return rate;
}

/* Sets the time of the flow's next departure, after this packet. */
static void ccaq_pace(struct ccaq_sched_data *q, struct ccaq_flow *flow,
		      u32 bytes, u64 rate, u64 now)
{
	u64 hold;

	if (rate <= q->low_rate_threshold) {
		flow->credit = 0;
	} else {
		/* A whole quantum leaves at once, and is paced as a unit. */
		bytes = max(bytes, q->quantum);
		if (flow->credit > 0)
			return;
	}
	hold = div64_u64((u64)bytes * NSEC_PER_SEC, max(rate, 1ULL));
	if (hold > NSEC_PER_SEC) {
		hold = NSEC_PER_SEC;
		q->pkts_too_long++;
	}
	/* Lateness is compensated for, by at most half an interval. */
	if (flow->time_next_packet)
		hold -= min(hold / 2, now - flow->time_next_packet);
	flow->time_next_packet = now + hold;
}

static struct sk_buff *ccaq_dequeue(struct Qdisc *sch)
{
	struct ccaq_sched_data *q = qdisc_priv(sch);
	u64 now, due, rate;

	if (!sch->q.qlen)
		return NULL;
	now = ktime_get_ns();
	ccaq_release(q, now);

	for (;;) {
		bool is_new = q->new_flows.first;
		struct ccaq_list *list = is_new ? &q->new_flows : &q->old_flows;
		struct ccaq_flow *flow = list->first;
		struct sk_buff *skb;

		if (!flow) {
			if (q->time_next_delayed_flow != CCAQ_NEVER)
				qdisc_watchdog_schedule_range_ns(&q->watchdog,
								 q->time_next_delayed_flow,
								 q->timer_slack);
			return NULL;
		}
		if (flow->credit <= 0) {
			flow->credit += q->quantum;
			ccaq_list_append(&q->old_flows, ccaq_list_take(list));
			continue;
		}
		skb = flow->head;
		if (!skb) {
			ccaq_list_take(list);
			/*
			 * Does not deschedule it yet: a flow could otherwise
			 * stay new for ever.
			 */
			if (is_new && q->old_flows.first)
				ccaq_list_append(&q->old_flows, flow);
			else
				ccaq_detach(q, flow, now);
			continue;
		}
		due = max(flow->time_next_packet,
			  q->pacing ? ccaq_skb_cb(skb)->time_to_send : 0);
		if (now < due) {
			flow->time_next_packet = due;
			ccaq_list_take(list);
			ccaq_throttle(q, flow);
			continue;
		}

		ccaq_flow_take(flow);
		flow->credit -= qdisc_pkt_len(skb);
		WRITE_ONCE(sch->q.qlen, sch->q.qlen - 1);
		qdisc_qstats_backlog_dec(sch, skb);
		ccaq_departure(&flow->vars, now, flow->qlen,
			       ccaq_skb_cb(skb)->enqueue_time);

		due = max(due, ccaq_skb_cb(skb)->enqueue_time);
		if (now - due > q->ce_threshold && INET_ECN_set_ce(skb))
			q->ce_mark++;
		rate = ccaq_rate(q, skb);
		if (rate != CCAQ_NO_RATE)
			ccaq_pace(q, flow, qdisc_pkt_len(skb), rate, now);
		qdisc_bstats_update(sch, skb);
		return skb;
	}
}

/* Life of a discipline. */

static void ccaq_reset(struct Qdisc *sch)
{
	struct ccaq_sched_data *q = qdisc_priv(sch);
	struct hlist_node *next;
	struct ccaq_flow *flow;
	u32 i;

	if (q->table) {
		for (i = 0; i < 1U << q->buckets_log; i++) {
			hlist_for_each_entry_safe(flow, next, &q->table[i],
						  node) {
				rtnl_kfree_skbs(flow->head, flow->tail);
				hlist_del(&flow->node);
				kmem_cache_free(ccaq_flow_cachep, flow);
			}
		}
	}
	WRITE_ONCE(sch->q.qlen, 0);
	WRITE_ONCE(sch->qstats.backlog, 0);
	q->new_flows.first = NULL;
	q->old_flows.first = NULL;
	q->delayed = RB_ROOT;
	q->time_next_delayed_flow = CCAQ_NEVER;
	q->flows = 0;
	q->inactive_flows = 0;
	q->throttled_flows = 0;
	qdisc_watchdog_cancel(&q->watchdog);
}

static int ccaq_resize(struct Qdisc *sch, u32 log)
{
	struct ccaq_sched_data *q = qdisc_priv(sch);
	struct hlist_head *table, *old;
	struct hlist_node *next;
	struct ccaq_flow *flow;
	u32 i, old_log;

	if (q->table && log == q->buckets_log)
		return 0;
	table = kvcalloc(1U << log, sizeof(*table), GFP_KERNEL);
	if (!table)
		return -ENOMEM;

	sch_tree_lock(sch);
	old = q->table;
	old_log = q->buckets_log;
	if (old) {
		for (i = 0; i < 1U << old_log; i++) {
			hlist_for_each_entry_safe(flow, next, &old[i], node) {
				hlist_del(&flow->node);
				hlist_add_head(&flow->node,
					       ccaq_bucket(table, log,
							   flow->key));
			}
		}
	}
	q->table = table;
	q->buckets_log = log;
	sch_tree_unlock(sch);
	kvfree(old);
	return 0;
}

static const struct nla_policy ccaq_policy[TCA_CCAQ_MAX + 1] = {
	[TCA_CCAQ_PLIMIT]		= NLA_POLICY_MIN(NLA_U32, 1),
	[TCA_CCAQ_FLOW_PLIMIT]		= NLA_POLICY_MIN(NLA_U32, 1),
	[TCA_CCAQ_QUANTUM]		= { .type = NLA_U32 },
	[TCA_CCAQ_INITIAL_QUANTUM]	= { .type = NLA_U32 },
	[TCA_CCAQ_MULTIPLIER]		= { .type = NLA_U64 },
	[TCA_CCAQ_MAX_INCREASE]		= { .type = NLA_U64 },
	[TCA_CCAQ_MAX_GI]		= { .type = NLA_U64 },
	[TCA_CCAQ_BUCKETS_LOG]		= NLA_POLICY_RANGE(NLA_U32, 1, 18),
	[TCA_CCAQ_ORPHAN_MASK]		= { .type = NLA_U32 },
	[TCA_CCAQ_REFILL_DELAY]		= { .type = NLA_U64 },
	[TCA_CCAQ_PACING]		= NLA_POLICY_MAX(NLA_U32, 1),
	[TCA_CCAQ_FLOW_MAX_RATE]	= { .type = NLA_U64 },
	[TCA_CCAQ_LOW_RATE_THRESHOLD]	= { .type = NLA_U64 },
	[TCA_CCAQ_TIMER_SLACK]		= { .type = NLA_U64 },
	[TCA_CCAQ_CE_THRESHOLD]		= { .type = NLA_U64 },
	[TCA_CCAQ_HORIZON]		= { .type = NLA_U64 },
	[TCA_CCAQ_HORIZON_DROP]		= NLA_POLICY_MAX(NLA_U32, 1),
	[TCA_CCAQ_MAX_GI_RTTS]		= { .type = NLA_U64 },
};

/* Returns an error that names the parameter that is out of range. */
static int ccaq_check(struct nlattr **tb, struct netlink_ext_ack *extack)
{
	u64 value;

	if (tb[TCA_CCAQ_QUANTUM]) {
		value = nla_get_u32(tb[TCA_CCAQ_QUANTUM]);
		if (!value || value > 1 << 20) {
			NL_SET_ERR_MSG(extack, "quantum: 1 to 2^20");
			return -EINVAL;
		}
	}
	if (tb[TCA_CCAQ_INITIAL_QUANTUM] &&
	    nla_get_u32(tb[TCA_CCAQ_INITIAL_QUANTUM]) > INT_MAX) {
		NL_SET_ERR_MSG(extack, "initial_quantum: at most 2^31 - 1");
		return -EINVAL;
	}
	if (tb[TCA_CCAQ_MULTIPLIER] &&
	    nla_get_u64(tb[TCA_CCAQ_MULTIPLIER]) > 1000 * CCAQ_ONE) {
		NL_SET_ERR_MSG(extack, "multiplier: 0 to 1000");
		return -EINVAL;
	}
	if (tb[TCA_CCAQ_MAX_INCREASE]) {
		value = nla_get_u64(tb[TCA_CCAQ_MAX_INCREASE]);
		if (value < CCAQ_ONE || value > 1000 * CCAQ_ONE) {
			NL_SET_ERR_MSG(extack, "max_increase: 1 to 1000");
			return -EINVAL;
		}
	}
	if (tb[TCA_CCAQ_MAX_GI]) {
		value = nla_get_u64(tb[TCA_CCAQ_MAX_GI]);
		if (!value || value > 3600ULL * NSEC_PER_SEC) {
			NL_SET_ERR_MSG(extack, "max_gi: up to an hour");
			return -EINVAL;
		}
	}
	if (tb[TCA_CCAQ_MAX_GI_RTTS] &&
	    nla_get_u64(tb[TCA_CCAQ_MAX_GI_RTTS]) > 1000 * CCAQ_ONE) {
		NL_SET_ERR_MSG(extack, "max_gi_rtts: 0 to 1000");
		return -EINVAL;
	}
	return 0;
}

static void ccaq_set(struct Qdisc *sch, struct nlattr **tb)
{
	struct ccaq_sched_data *q = qdisc_priv(sch);

	if (tb[TCA_CCAQ_PLIMIT])
		sch->limit = nla_get_u32(tb[TCA_CCAQ_PLIMIT]);
	if (tb[TCA_CCAQ_FLOW_PLIMIT])
		q->params.flow_limit = nla_get_u32(tb[TCA_CCAQ_FLOW_PLIMIT]);
	if (tb[TCA_CCAQ_QUANTUM])
		q->quantum = nla_get_u32(tb[TCA_CCAQ_QUANTUM]);
	if (tb[TCA_CCAQ_INITIAL_QUANTUM])
		q->initial_quantum = nla_get_u32(tb[TCA_CCAQ_INITIAL_QUANTUM]);
	if (tb[TCA_CCAQ_MULTIPLIER])
		q->params.multiplier = nla_get_u64(tb[TCA_CCAQ_MULTIPLIER]);
	if (tb[TCA_CCAQ_MAX_INCREASE])
		q->params.max_increase = nla_get_u64(tb[TCA_CCAQ_MAX_INCREASE]);
	if (tb[TCA_CCAQ_MAX_GI])
		q->params.max_gi = nla_get_u64(tb[TCA_CCAQ_MAX_GI]);
	if (tb[TCA_CCAQ_MAX_GI_RTTS])
		q->params.max_gi_rtts = nla_get_u64(tb[TCA_CCAQ_MAX_GI_RTTS]);
	if (tb[TCA_CCAQ_ORPHAN_MASK])
		q->orphan_mask = nla_get_u32(tb[TCA_CCAQ_ORPHAN_MASK]);
	if (tb[TCA_CCAQ_REFILL_DELAY])
		q->refill_delay = nla_get_u64(tb[TCA_CCAQ_REFILL_DELAY]);
	if (tb[TCA_CCAQ_PACING])
		q->pacing = nla_get_u32(tb[TCA_CCAQ_PACING]);
	if (tb[TCA_CCAQ_FLOW_MAX_RATE])
		q->max_rate = nla_get_u64(tb[TCA_CCAQ_FLOW_MAX_RATE]);
	if (tb[TCA_CCAQ_LOW_RATE_THRESHOLD])
		q->low_rate_threshold =
			nla_get_u64(tb[TCA_CCAQ_LOW_RATE_THRESHOLD]);
	if (tb[TCA_CCAQ_TIMER_SLACK])
		q->timer_slack = nla_get_u64(tb[TCA_CCAQ_TIMER_SLACK]);
	if (tb[TCA_CCAQ_CE_THRESHOLD])
		q->ce_threshold = nla_get_u64(tb[TCA_CCAQ_CE_THRESHOLD]);
	if (tb[TCA_CCAQ_HORIZON])
		q->horizon = nla_get_u64(tb[TCA_CCAQ_HORIZON]);
	if (tb[TCA_CCAQ_HORIZON_DROP])
		q->horizon_drop = nla_get_u32(tb[TCA_CCAQ_HORIZON_DROP]);
}

static int ccaq_change(struct Qdisc *sch, struct nlattr *opt,
		       struct netlink_ext_ack *extack)
{
	struct ccaq_sched_data *q = qdisc_priv(sch);
	unsigned int packets = 0, bytes = 0;
	struct nlattr *tb[TCA_CCAQ_MAX + 1];
	struct sk_buff *skb;
	int err;

	if (!opt)
		return -EINVAL;
	err = nla_parse_nested_deprecated(tb, TCA_CCAQ_MAX, opt, ccaq_policy,
					  extack);
	if (!err)
		err = ccaq_check(tb, extack);
	if (!err && tb[TCA_CCAQ_BUCKETS_LOG])
		err = ccaq_resize(sch, nla_get_u32(tb[TCA_CCAQ_BUCKETS_LOG]));
	if (err < 0)
		return err;

	sch_tree_lock(sch);
	ccaq_set(sch, tb);
	while (sch->q.qlen > sch->limit) {
		skb = ccaq_dequeue(sch);
		if (!skb)
			break;
		packets++;
		bytes += qdisc_pkt_len(skb);
		qdisc_qstats_drop(sch);
		rtnl_kfree_skbs(skb, skb);
	}
	qdisc_tree_reduce_backlog(sch, packets, bytes);
	qdisc_watchdog_cancel(&q->watchdog);
	if (q->time_next_delayed_flow != CCAQ_NEVER)
		qdisc_watchdog_schedule_ns(&q->watchdog,
					   q->time_next_delayed_flow);
	sch_tree_unlock(sch);
	return 0;
}

static int ccaq_init(struct Qdisc *sch, struct nlattr *opt,
		     struct netlink_ext_ack *extack)
{
	struct ccaq_sched_data *q = qdisc_priv(sch);
	int err;

	sch->limit = 10000;
	q->params.flow_limit = 100;
	q->params.multiplier = CCAQ_ONE * 5 / 4;
	q->params.max_increase = CCAQ_ONE * 2;
	q->params.max_gi = NSEC_PER_SEC;
	q->quantum = 2 * psched_mtu(qdisc_dev(sch));
	q->initial_quantum = 10 * psched_mtu(qdisc_dev(sch));
	q->refill_delay = 40 * NSEC_PER_MSEC;
	q->max_rate = CCAQ_NO_RATE;
	q->low_rate_threshold = 550000 / 8;
	q->timer_slack = 10 * NSEC_PER_USEC;
	q->ce_threshold = CCAQ_NEVER;
	q->horizon = 10ULL * NSEC_PER_SEC;
	q->horizon_drop = true;
	q->orphan_mask = 1023;
	q->delayed = RB_ROOT;
	q->time_next_delayed_flow = CCAQ_NEVER;
	qdisc_watchdog_init_clockid(&q->watchdog, sch, CLOCK_MONOTONIC);

	err = ccaq_resize(sch, 10);
	if (!err && opt)
		err = ccaq_change(sch, opt, extack);
	return err;
}

static void ccaq_destroy(struct Qdisc *sch)
{
	struct ccaq_sched_data *q = qdisc_priv(sch);

	ccaq_reset(sch);
	kvfree(q->table);
	qdisc_watchdog_cancel(&q->watchdog);
}

static int ccaq_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	struct ccaq_sched_data *q = qdisc_priv(sch);
	struct nlattr *opts = nla_nest_start(skb, TCA_OPTIONS);

	if (!opts)
		return -EMSGSIZE;
	if (nla_put_u32(skb, TCA_CCAQ_PLIMIT, sch->limit) ||
	    nla_put_u32(skb, TCA_CCAQ_FLOW_PLIMIT, q->params.flow_limit) ||
	    nla_put_u32(skb, TCA_CCAQ_QUANTUM, q->quantum) ||
	    nla_put_u32(skb, TCA_CCAQ_INITIAL_QUANTUM, q->initial_quantum) ||
	    nla_put_u64_64bit(skb, TCA_CCAQ_MULTIPLIER, q->params.multiplier,
			      TCA_CCAQ_PAD) ||
	    nla_put_u64_64bit(skb, TCA_CCAQ_MAX_INCREASE,
			      q->params.max_increase, TCA_CCAQ_PAD) ||
	    nla_put_u64_64bit(skb, TCA_CCAQ_MAX_GI, q->params.max_gi,
			      TCA_CCAQ_PAD) ||
	    nla_put_u32(skb, TCA_CCAQ_BUCKETS_LOG, q->buckets_log) ||
	    nla_put_u32(skb, TCA_CCAQ_ORPHAN_MASK, q->orphan_mask) ||
	    nla_put_u64_64bit(skb, TCA_CCAQ_REFILL_DELAY, q->refill_delay,
			      TCA_CCAQ_PAD) ||
	    nla_put_u32(skb, TCA_CCAQ_PACING, q->pacing) ||
	    nla_put_u64_64bit(skb, TCA_CCAQ_FLOW_MAX_RATE, q->max_rate,
			      TCA_CCAQ_PAD) ||
	    nla_put_u64_64bit(skb, TCA_CCAQ_LOW_RATE_THRESHOLD,
			      q->low_rate_threshold, TCA_CCAQ_PAD) ||
	    nla_put_u64_64bit(skb, TCA_CCAQ_TIMER_SLACK, q->timer_slack,
			      TCA_CCAQ_PAD) ||
	    nla_put_u64_64bit(skb, TCA_CCAQ_CE_THRESHOLD, q->ce_threshold,
			      TCA_CCAQ_PAD) ||
	    nla_put_u64_64bit(skb, TCA_CCAQ_HORIZON, q->horizon,
			      TCA_CCAQ_PAD) ||
	    nla_put_u32(skb, TCA_CCAQ_HORIZON_DROP, q->horizon_drop) ||
	    nla_put_u64_64bit(skb, TCA_CCAQ_MAX_GI_RTTS, q->params.max_gi_rtts,
			      TCA_CCAQ_PAD)) {
		nla_nest_cancel(skb, opts);
		return -EMSGSIZE;
	}
	return nla_nest_end(skb, opts);
}

/*
 * Computes the smallest and largest limits and RTTs of all flows; zeros without
 * flows.
 */
static void ccaq_learned(const struct ccaq_sched_data *q,
			 struct tc_ccaq_xstats *st)
{
	const struct ccaq_flow *flow;
	u32 i;

	for (i = 0; i < 1U << q->buckets_log; i++) {
		hlist_for_each_entry(flow, &q->table[i], node) {
			u32 limit = flow->vars.limit;
			u64 rtt = ccaq_rtt(&flow->vars);

			if (!st->min_limit || limit < st->min_limit)
				st->min_limit = limit;
			st->max_limit = max(st->max_limit, limit);
			if (rtt == CCAQ_NO_RTT)
				continue;
			if (!st->min_rtt || rtt < st->min_rtt)
				st->min_rtt = rtt;
			st->max_rtt = max_t(u64, st->max_rtt, rtt);
		}
	}
}

static int ccaq_dump_stats(struct Qdisc *sch, struct gnet_dump *d)
{
	struct ccaq_sched_data *q = qdisc_priv(sch);
	struct tc_ccaq_xstats st = { };

	sch_tree_lock(sch);
	st.gc_flows = q->gc_flows;
	st.throttled = q->throttled;
	st.flows_plimit = q->flows_plimit;
	st.pkts_too_long = q->pkts_too_long;
	st.allocation_errors = q->allocation_errors;
	st.ce_mark = q->ce_mark;
	st.horizon_drops = q->horizon_drops;
	st.horizon_caps = q->horizon_caps;
	st.enlarged = q->stats.enlarged;
	st.shrunk = q->stats.shrunk;
	st.shed = q->shed;
	if (q->throttled_flows)
		st.time_next_delayed_flow =
			q->time_next_delayed_flow - ktime_get_ns();
	st.flows = q->flows;
	st.inactive_flows = q->inactive_flows;
	st.throttled_flows = q->throttled_flows;
	ccaq_learned(q, &st);
	sch_tree_unlock(sch);

	return gnet_stats_copy_app(d, &st, sizeof(st));
}

static struct Qdisc_ops ccaq_qdisc_ops __read_mostly = {
	.id		= "ccaq_paper",
	.priv_size	= sizeof(struct ccaq_sched_data),
	.enqueue	= ccaq_enqueue,
	.dequeue	= ccaq_dequeue,
	.peek		= qdisc_peek_dequeued,
	.init		= ccaq_init,
	.reset		= ccaq_reset,
	.destroy	= ccaq_destroy,
	.change		= ccaq_change,
	.dump		= ccaq_dump,
	.dump_stats	= ccaq_dump_stats,
	.owner		= THIS_MODULE,
};

static int __init ccaq_module_init(void)
{
	int err;

	ccaq_flow_cachep = kmem_cache_create("ccaq_paper_flow_cache",
					     sizeof(struct ccaq_flow), 0,
					     SLAB_HWCACHE_ALIGN, NULL);
	if (!ccaq_flow_cachep)
		return -ENOMEM;
	err = register_qdisc(&ccaq_qdisc_ops);
	if (err)
		kmem_cache_destroy(ccaq_flow_cachep);
	return err;
}

static void __exit ccaq_module_exit(void)
{
	unregister_qdisc(&ccaq_qdisc_ops);
	kmem_cache_destroy(ccaq_flow_cachep);
}

module_init(ccaq_module_init)
module_exit(ccaq_module_exit)
MODULE_AUTHOR("The sojourn authors");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Congestion control aware queuing, the paper's: per-flow limits that learn");
MODULE_ALIAS("net-sch-ccaq_paper");
