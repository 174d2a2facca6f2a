// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * sch_ccaq: a queue for every flow, with a target delay that adapts to the
 * flow's congestion control.
 *
 * The targets are computed in ccaq_impl.h. Scheduling and limits are those of
 * fq_codel: deficit round robin with new flows first, and, beyond a limit,
 * drops from the head of the queue with the most bytes.
 *
 * Differences from fq_codel:
 * - Packets never bypass an empty discipline (TCQ_F_CAN_BYPASS): these are the
 *   packets that show that the link was idle.
 * - Flows are found in sets of eight queues, so that two flows share a queue
 *   only if all eight are in use. A queue keeps what it has learned about its
 *   flow until another flow needs it.
 * - There are no filters: a flow is what skb_get_hash() makes one.
 * - Small packets are examined for SYNs, as handshakes show the RTT.
 *
 * On a device with several hardware queues, each instance below mq sees only
 * its own idle time.
 */
#include <linux/module.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <net/inet_ecn.h>
#include <net/netlink.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>

#include "ccaq_impl.h"
#include "ccaq_syn.h"
#include "ccaq_uapi.h"

#define CCAQ_DROP_BATCH		64	/* packets dropped at once by a limit */
#define CCAQ_MAX_FLOWS		65536
#define CCAQ_MIN_QUANTUM	256
#define CCAQ_MAX_QUANTUM	0x100000
#define CCAQ_MAX_IDLE		2500	/* hundredths of a percent */
#define CCAQ_MAX_SYN		256	/* bytes; longer packets are no SYN */

struct ccaq_skb_cb {
	ccaq_tick	enqueue_time;
	u32		mem_usage;
	bool		ect1;
};

static struct ccaq_skb_cb *ccaq_skb_cb(struct sk_buff *skb)
{
	qdisc_cb_private_validate(skb, sizeof(struct ccaq_skb_cb));
	return (struct ccaq_skb_cb *)qdisc_skb_cb(skb)->data;
}

struct ccaq_flow {
	struct sk_buff		*head;
	struct sk_buff		*tail;
	struct list_head	flowchain;	/* in new_flows or old_flows */
	int			deficit;
	struct ccaq_vars	vars;
};

struct ccaq_sched_data {
	/* parameters */
	u32			quantum;
	u32			memory_limit;
	u32			mtu;
	u32			idle;		/* hundredths of a percent */
	u32			share;		/* idle, in units of 2^-16 */
	bool			ecn;

	/* state */
	struct ccaq_flow	*flows;
	u32			*backlogs;	/* bytes of each flow */
	struct ccaq_table	table;
	struct list_head	new_flows;
	struct list_head	old_flows;
	struct ccaq_link	link;
	u64			idle_time;	/* of the link, in ns */
	u32			memory_usage;
	u32			dropped;	/* by dequeues, and not yet */
	u32			dropped_len;	/* reported to the parents */

	/* counters */
	u32			drop_overlimit;
	u32			drop_overmemory;
	u32			drop_unresponsive;
	u32			new_flow_count;
	u32			collisions;
	u32			ecn_mark;
	u32			ce_mark;
};

/* Drops. */

/* Kbuild finds out which reasons the kernel has. */
#ifdef CCAQ_QDISC_REASONS
#define CCAQ_REASON(name)	QDISC_DROP_##name
#else
#define CCAQ_REASON(name)	SKB_DROP_REASON_QDISC_##name
#endif

/* Frees a packet that a dequeue drops. */
static void ccaq_free(struct Qdisc *sch, struct sk_buff *skb, bool responds)
{
#ifdef TCQ_F_DEQUEUE_DROPS
	qdisc_dequeue_drop(sch, skb, responds ? CCAQ_REASON(CONGESTED) :
						CCAQ_REASON(FLOW_LIMIT));
#else
	kfree_skb(skb);
#endif
}

static void ccaq_overlimit(struct sk_buff *skb, struct sk_buff **to_free)
{
#ifdef CCAQ_QDISC_REASONS
	tcf_set_qdisc_drop_reason(skb, QDISC_DROP_OVERLIMIT);
#endif
	__qdisc_drop(skb, to_free);
}

/*
 * Reports the packets that dequeues dropped to the parents. This must not
 * happen while the packet that the dequeue returns is in nobody's count: a
 * parent would deactivate the class of an empty discipline, and do it again
 * when it gets the packet. Kernels with TCQ_F_DEQUEUE_DROPS tolerate that; in
 * others, an empty discipline waits until the next arrival.
 */
static void ccaq_report_drops(struct Qdisc *sch)
{
	struct ccaq_sched_data *q = qdisc_priv(sch);

#ifndef TCQ_F_DEQUEUE_DROPS
	if (!sch->q.qlen)
		return;
#endif
	if (q->dropped) {
		qdisc_tree_reduce_backlog(sch, q->dropped, q->dropped_len);
		q->dropped = 0;
		q->dropped_len = 0;
	}
}

/* Packets. */

/* Changes the number of packets, which others read without a lock. */
static void ccaq_qlen_add(struct Qdisc *sch, int packets)
{
	WRITE_ONCE(sch->q.qlen, sch->q.qlen + packets);
}

static void ccaq_flow_append(struct ccaq_flow *flow, struct sk_buff *skb)
{
	skb->next = NULL;
	if (flow->head)
		flow->tail->next = skb;
	else
		flow->head = skb;
	flow->tail = skb;
}

/* Returns the head of a flow's queue, which must not be empty. */
static struct sk_buff *ccaq_flow_take(struct ccaq_sched_data *q,
				      struct ccaq_flow *flow)
{
	struct sk_buff *skb = flow->head;

	flow->head = skb->next;
	skb_mark_not_on_list(skb);
	q->backlogs[flow - q->flows] -= qdisc_pkt_len(skb);
	q->memory_usage -= ccaq_skb_cb(skb)->mem_usage;
	return skb;
}

/* Returns the state of a queue's flow, and how the queue is used. */
static const struct ccaq_vars *ccaq_look(const void *flows, u32 queue,
					 enum ccaq_use *use)
{
	const struct ccaq_flow *flow = (const struct ccaq_flow *)flows + queue;

	if (list_empty(&flow->flowchain))
		*use = CCAQ_UNUSED;
	else
		*use = flow->head ? CCAQ_FILLED : CCAQ_DRAINED;
	return &flow->vars;
}

static struct ccaq_flow *ccaq_classify(struct ccaq_sched_data *q,
				       struct sk_buff *skb, ccaq_tick now)
{
	enum ccaq_found found;
	struct ccaq_flow *flow;

	flow = q->flows + ccaq_find(&q->table, skb_get_hash(skb), now,
				    ccaq_look, q->flows, &found);
	if (found == CCAQ_NEW) {
		ccaq_vars_init(&flow->vars);
	} else if (found == CCAQ_SHARED) {
		flow->vars.shared = true;
		q->collisions++;
	}
	return flow;
}

/*
 * A limit is exceeded: drops half of the bytes of the queue with the most from
 * its head, at most CCAQ_DROP_BATCH packets. Returns the flow.
 */
static struct ccaq_flow *ccaq_drop(struct Qdisc *sch, struct sk_buff **to_free)
{
	struct ccaq_sched_data *q = qdisc_priv(sch);
	u32 i, most = 0, fattest = 0, packets = 0, len = 0;
	struct ccaq_flow *flow;
	struct sk_buff *skb;

	for (i = 0; i < q->table.queues; i++) {
		if (q->backlogs[i] > most) {
			most = q->backlogs[i];
			fattest = i;
		}
	}
	flow = &q->flows[fattest];
	do {
		skb = ccaq_flow_take(q, flow);
		qdisc_qstats_backlog_dec(sch, skb);
		len += qdisc_pkt_len(skb);
		packets++;
		ccaq_overlimit(skb, to_free);
	} while (packets < CCAQ_DROP_BATCH && len < most / 2);

	/* The flow's drops shall come faster too. */
	flow->vars.count += packets;
	q->drop_overlimit += packets;
	ccaq_qlen_add(sch, -packets);
	__qdisc_qstats_drop(sch, packets);
	return flow;
}

static int ccaq_enqueue(struct sk_buff *skb, struct Qdisc *sch,
			struct sk_buff **to_free)
{
	struct ccaq_sched_data *q = qdisc_priv(sch);
	u32 qlen, backlog, len = qdisc_pkt_len(skb);
	u64 now_ns = ktime_get_ns();
	ccaq_tick now = now_ns >> CCAQ_SHIFT;
	struct ccaq_skb_cb *cb = ccaq_skb_cb(skb);
	struct ccaq_flow *flow;
	bool opens;

	if (!sch->q.qlen)
		q->idle_time += ccaq_link_idle_before(&q->link, now_ns);

	flow = ccaq_classify(q, skb, now);
	opens = skb->len <= CCAQ_MAX_SYN && ccaq_opens(skb);
	ccaq_arrival(&flow->vars, now, !flow->head, opens,
		     q->idle_time >> CCAQ_SHIFT);

	cb->ect1 = (skb_get_dsfield(skb) & INET_ECN_MASK) == INET_ECN_ECT_1;
	cb->enqueue_time = now;
	cb->mem_usage = skb->truesize;
	ccaq_flow_append(flow, skb);
	q->backlogs[flow - q->flows] += len;
	q->memory_usage += cb->mem_usage;
	qdisc_qstats_backlog_inc(sch, skb);
	ccaq_qlen_add(sch, 1);
	if (list_empty(&flow->flowchain)) {
		list_add_tail(&flow->flowchain, &q->new_flows);
		flow->deficit = q->quantum;
		q->new_flow_count++;
	}
	/* The parents have not counted this packet yet, so none is empty. */
	ccaq_report_drops(sch);

	qlen = sch->q.qlen;
	backlog = sch->qstats.backlog;
	if (q->memory_usage > q->memory_limit) {
		struct ccaq_flow *fattest = ccaq_drop(sch, to_free);

		q->drop_overmemory += qlen - sch->q.qlen;
		if (fattest != flow)
			flow = NULL;
	} else if (qlen > sch->limit) {
		if (ccaq_drop(sch, to_free) != flow)
			flow = NULL;
	} else {
		return NET_XMIT_SUCCESS;
	}

	qlen -= sch->q.qlen;
	backlog -= sch->qstats.backlog;
	if (!flow) {
		qdisc_tree_reduce_backlog(sch, qlen, backlog);
		return NET_XMIT_SUCCESS;
	}
	/* After NET_XMIT_CN the parents do not count this packet. */
	qdisc_tree_reduce_backlog(sch, qlen - 1, backlog - len);
	return NET_XMIT_CN;
}

/*
 * Takes the next packet of a flow, or returns NULL if there is none. A packet
 * that is dropped on the way is counted in @dropped.
 */
static struct sk_buff *ccaq_take(struct Qdisc *sch, struct ccaq_flow *flow,
				 ccaq_tick now)
{
	struct ccaq_sched_data *q = qdisc_priv(sch);
	struct ccaq_head head = { };
	enum ccaq_verdict verdict;
	struct sk_buff *skb;

	while (flow->head) {
		skb = ccaq_flow_take(q, flow);
		ccaq_qlen_add(sch, -1);
		qdisc_qstats_backlog_dec(sch, skb);

		head.sojourn = now - ccaq_skb_cb(skb)->enqueue_time;
		head.last = !flow->head;
		head.few = q->backlogs[flow - q->flows] <
			   (u64)CCAQ_FEW * q->mtu;
		head.small = sch->qstats.backlog <= q->mtu;
		head.scalable = q->ecn && ccaq_skb_cb(skb)->ect1;
		verdict = ccaq_head(&flow->vars, now, &head, q->share);
		if (verdict == CCAQ_PASS)
			return skb;
		if (verdict == CCAQ_SIGNAL && q->ecn && INET_ECN_set_ce(skb)) {
			if (head.scalable)
				q->ce_mark++;
			else
				q->ecn_mark++;
			return skb;
		}
		q->dropped++;
		q->dropped_len += qdisc_pkt_len(skb);
		qdisc_qstats_drop(sch);
		if (verdict == CCAQ_SIGNAL)
			head.signals++;
		else
			q->drop_unresponsive++;
		ccaq_free(sch, skb, verdict == CCAQ_SIGNAL);
	}
	ccaq_empty(&flow->vars);
	return NULL;
}

/* As ccaq_dequeue(), but the parents do not learn of dropped packets yet. */
static struct sk_buff *ccaq_next(struct Qdisc *sch)
{
	struct ccaq_sched_data *q = qdisc_priv(sch);
	struct list_head *head;
	struct ccaq_flow *flow;
	struct sk_buff *skb;
	u64 now = 0;

	for (;;) {
		head = &q->new_flows;
		if (list_empty(head))
			head = &q->old_flows;
		if (list_empty(head))
			return NULL;
		flow = list_first_entry(head, struct ccaq_flow, flowchain);
		if (flow->deficit <= 0) {
			flow->deficit += q->quantum;
			list_move_tail(&flow->flowchain, &q->old_flows);
			continue;
		}
		if (!now)
			now = ktime_get_ns();
		skb = ccaq_take(sch, flow, now >> CCAQ_SHIFT);
		if (skb)
			break;
		/*
		 * Otherwise a flow could stay new, and be served first, by
		 * sending at just the right rate.
		 */
		if (head == &q->new_flows && !list_empty(&q->old_flows))
			list_move_tail(&flow->flowchain, &q->old_flows);
		else
			list_del_init(&flow->flowchain);
	}
	flow->deficit -= qdisc_pkt_len(skb);
	ccaq_link_dequeued(&q->link, now, qdisc_pkt_len(skb), sch->q.qlen);
	qdisc_bstats_update(sch, skb);
	return skb;
}

static struct sk_buff *ccaq_dequeue(struct Qdisc *sch)
{
	struct sk_buff *skb = ccaq_next(sch);

	ccaq_report_drops(sch);
	return skb;
}

/*
 * As qdisc_peek_dequeued(), but drops are reported only when the packet is
 * counted again.
 */
static struct sk_buff *ccaq_peek(struct Qdisc *sch)
{
	struct sk_buff *skb = skb_peek(&sch->gso_skb);

	if (skb)
		return skb;
	skb = ccaq_next(sch);
	if (skb) {
		__skb_queue_head(&sch->gso_skb, skb);
		qdisc_qstats_backlog_inc(sch, skb);
		ccaq_qlen_add(sch, 1);
	}
	ccaq_report_drops(sch);
	return skb;
}

/* Life of a discipline. */

static void ccaq_forget(struct ccaq_sched_data *q)
{
	u32 i;

	INIT_LIST_HEAD(&q->new_flows);
	INIT_LIST_HEAD(&q->old_flows);
	for (i = 0; i < q->table.queues; i++) {
		struct ccaq_flow *flow = &q->flows[i];

		INIT_LIST_HEAD(&flow->flowchain);
		ccaq_vars_init(&flow->vars);
		q->table.tags[i] = 0;
		q->backlogs[i] = 0;
	}
	q->link = (struct ccaq_link) { };
	q->memory_usage = 0;
	q->dropped = 0;
	q->dropped_len = 0;
}

static void ccaq_reset(struct Qdisc *sch)
{
	struct ccaq_sched_data *q = qdisc_priv(sch);
	u32 i;

	for (i = 0; i < q->table.queues; i++) {
		struct ccaq_flow *flow = &q->flows[i];

		rtnl_kfree_skbs(flow->head, flow->tail);
		flow->head = NULL;
	}
	/* The parents still count drops that were not reported. */
	if (q->dropped)
		qdisc_tree_reduce_backlog(sch, q->dropped, q->dropped_len);
	ccaq_forget(q);
}

static const struct nla_policy ccaq_policy[TCA_CCAQ_MAX + 1] = {
	[TCA_CCAQ_LIMIT]	= NLA_POLICY_MIN(NLA_U32, 1),
	[TCA_CCAQ_MEMORY_LIMIT]	= NLA_POLICY_MIN(NLA_U32, 1),
	[TCA_CCAQ_FLOWS]	= { .type = NLA_U32 },
	[TCA_CCAQ_QUANTUM]	= { .type = NLA_U32 },
	[TCA_CCAQ_IDLE]		= NLA_POLICY_RANGE(NLA_U32, 1, CCAQ_MAX_IDLE),
	[TCA_CCAQ_ECN]		= NLA_POLICY_MAX(NLA_U32, 1),
};

/* Returns an error that names the parameter that is out of range. */
static int ccaq_check(struct ccaq_sched_data *q, struct nlattr **tb,
		      struct netlink_ext_ack *extack)
{
	u32 value;

	if (tb[TCA_CCAQ_FLOWS]) {
		value = nla_get_u32(tb[TCA_CCAQ_FLOWS]);
		if (q->flows && value != q->table.queues) {
			NL_SET_ERR_MSG(extack, "flows: can't be changed");
			return -EINVAL;
		}
		if (!value || value > CCAQ_MAX_FLOWS || value % CCAQ_WAYS) {
			NL_SET_ERR_MSG(extack,
				       "flows: a multiple of 8, up to 65536");
			return -EINVAL;
		}
	}
	if (tb[TCA_CCAQ_QUANTUM]) {
		value = nla_get_u32(tb[TCA_CCAQ_QUANTUM]);
		if (!value || value > CCAQ_MAX_QUANTUM) {
			NL_SET_ERR_MSG(extack, "quantum: 1 to 2^20");
			return -EINVAL;
		}
	}
	return 0;
}

static void ccaq_set(struct Qdisc *sch, struct nlattr **tb)
{
	struct ccaq_sched_data *q = qdisc_priv(sch);

	if (tb[TCA_CCAQ_LIMIT])
		sch->limit = nla_get_u32(tb[TCA_CCAQ_LIMIT]);
	if (tb[TCA_CCAQ_MEMORY_LIMIT])
		q->memory_limit = min(nla_get_u32(tb[TCA_CCAQ_MEMORY_LIMIT]),
				      1U << 31);
	/* With less, a large packet would take very many rounds. */
	if (tb[TCA_CCAQ_QUANTUM])
		q->quantum = max_t(u32, nla_get_u32(tb[TCA_CCAQ_QUANTUM]),
				   CCAQ_MIN_QUANTUM);
	if (tb[TCA_CCAQ_IDLE]) {
		q->idle = nla_get_u32(tb[TCA_CCAQ_IDLE]);
		q->share = (q->idle << 16) / 10000;
	}
	if (tb[TCA_CCAQ_ECN])
		q->ecn = nla_get_u32(tb[TCA_CCAQ_ECN]);
}

/* Takes a packet to drop it, the one that a parent has seen first. */
static struct sk_buff *ccaq_take_any(struct Qdisc *sch)
{
	struct sk_buff *skb = __skb_dequeue(&sch->gso_skb);

	if (!skb)
		return ccaq_next(sch);
	qdisc_qstats_backlog_dec(sch, skb);
	ccaq_qlen_add(sch, -1);
	return skb;
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
		err = ccaq_check(q, tb, extack);
	if (err < 0)
		return err;
	if (!q->flows) {
		/* The first time: ccaq_init() will create the queues. */
		if (tb[TCA_CCAQ_FLOWS])
			q->table.queues = nla_get_u32(tb[TCA_CCAQ_FLOWS]);
		ccaq_set(sch, tb);
		return 0;
	}

	sch_tree_lock(sch);
	ccaq_set(sch, tb);
	while (sch->q.qlen > sch->limit || q->memory_usage > q->memory_limit) {
		skb = ccaq_take_any(sch);
		if (!skb)
			break;
		packets++;
		bytes += qdisc_pkt_len(skb);
		rtnl_kfree_skbs(skb, skb);
	}
	qdisc_tree_reduce_backlog(sch, packets + q->dropped,
				  bytes + q->dropped_len);
	q->dropped = 0;
	q->dropped_len = 0;
	sch_tree_unlock(sch);
	return 0;
}

static void ccaq_destroy(struct Qdisc *sch)
{
	struct ccaq_sched_data *q = qdisc_priv(sch);

	kvfree(q->table.tags);
	kvfree(q->backlogs);
	kvfree(q->flows);
}

static int ccaq_init(struct Qdisc *sch, struct nlattr *opt,
		     struct netlink_ext_ack *extack)
{
	struct ccaq_sched_data *q = qdisc_priv(sch);
	u32 queues;
	int err;

	BUILD_BUG_ON(sizeof(struct ccaq_flow) + 2 * sizeof(u32) > 112);

	sch->limit = 10000;
	q->table.queues = 1024;
	q->memory_limit = 32 << 20;
	q->mtu = psched_mtu(qdisc_dev(sch));
	q->quantum = clamp_t(u32, q->mtu, CCAQ_MIN_QUANTUM, CCAQ_MAX_QUANTUM);
	q->idle = 100;
	q->share = (q->idle << 16) / 10000;
	q->ecn = true;
	if (opt) {
		err = ccaq_change(sch, opt, extack);
		if (err)
			goto fail;
	}

	/* ccaq_destroy() frees what there is, also after an error here. */
	queues = q->table.queues;
	q->table.tags = kvcalloc(queues, sizeof(u32), GFP_KERNEL);
	q->backlogs = kvcalloc(queues, sizeof(u32), GFP_KERNEL);
	q->flows = kvcalloc(queues, sizeof(struct ccaq_flow), GFP_KERNEL);
	err = -ENOMEM;
	if (!q->table.tags || !q->backlogs || !q->flows)
		goto fail;
	ccaq_forget(q);
#ifdef TCQ_F_DEQUEUE_DROPS
	sch->flags |= TCQ_F_DEQUEUE_DROPS;
#endif
	return 0;
fail:
	/* Without queues, ccaq_reset() has nothing to do. */
	q->table.queues = 0;
	return err;
}

/* Statistics. */

static int ccaq_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	struct ccaq_sched_data *q = qdisc_priv(sch);
	struct nlattr *opts = nla_nest_start(skb, TCA_OPTIONS);

	if (!opts)
		return -EMSGSIZE;
	if (nla_put_u32(skb, TCA_CCAQ_LIMIT, sch->limit) ||
	    nla_put_u32(skb, TCA_CCAQ_MEMORY_LIMIT, q->memory_limit) ||
	    nla_put_u32(skb, TCA_CCAQ_FLOWS, q->table.queues) ||
	    nla_put_u32(skb, TCA_CCAQ_QUANTUM, q->quantum) ||
	    nla_put_u32(skb, TCA_CCAQ_IDLE, q->idle) ||
	    nla_put_u32(skb, TCA_CCAQ_ECN, q->ecn)) {
		nla_nest_cancel(skb, opts);
		return -EMSGSIZE;
	}
	return nla_nest_end(skb, opts);
}

static u32 ccaq_us(ccaq_tick ticks)
{
	return div_u64((u64)ticks << CCAQ_SHIFT, NSEC_PER_USEC);
}

static void ccaq_range(u32 *least, u32 *most, u32 us)
{
	if (us && (!*least || us < *least))
		*least = us;
	*most = max(*most, us);
}

/* Adds the flows of a list; returns their number. */
static u32 ccaq_learned(struct tc_ccaq_qd_stats *st, struct list_head *list)
{
	struct ccaq_flow *flow;
	u32 count = 0;

	list_for_each_entry(flow, list, flowchain) {
		ccaq_range(&st->min_target, &st->max_target,
			   ccaq_us(flow->vars.target));
		ccaq_range(&st->min_rtt, &st->max_rtt,
			   ccaq_us(ccaq_rtt(&flow->vars)));
		count++;
	}
	return count;
}

static int ccaq_dump_stats(struct Qdisc *sch, struct gnet_dump *d)
{
	struct tc_ccaq_xstats xstats = { .type = TCA_CCAQ_XSTATS_QDISC };
	struct tc_ccaq_qd_stats *st = &xstats.qdisc_stats;
	struct ccaq_sched_data *q = qdisc_priv(sch);

	sch_tree_lock(sch);
	st->drop_overlimit = q->drop_overlimit;
	st->drop_overmemory = q->drop_overmemory;
	st->drop_unresponsive = q->drop_unresponsive;
	st->new_flow_count = q->new_flow_count;
	st->collisions = q->collisions;
	st->ecn_mark = q->ecn_mark;
	st->ce_mark = q->ce_mark;
	st->memory_used = q->memory_usage;
	st->idle_time = div_u64(q->idle_time, NSEC_PER_USEC);
	st->new_flows_len = ccaq_learned(st, &q->new_flows);
	st->old_flows_len = ccaq_learned(st, &q->old_flows);
	sch_tree_unlock(sch);

	return gnet_stats_copy_app(d, &xstats, sizeof(xstats));
}

/* The flows in the round are shown as classes. */

static struct Qdisc *ccaq_leaf(struct Qdisc *sch, unsigned long cl)
{
	return NULL;
}

static unsigned long ccaq_class(struct Qdisc *sch, u32 classid)
{
	return 0;
}

static int ccaq_dump_class(struct Qdisc *sch, unsigned long cl,
			   struct sk_buff *skb, struct tcmsg *tcm)
{
	tcm->tcm_handle |= TC_H_MIN(cl);
	return 0;
}

static int ccaq_dump_class_stats(struct Qdisc *sch, unsigned long cl,
				 struct gnet_dump *d)
{
	struct tc_ccaq_xstats xstats = { .type = TCA_CCAQ_XSTATS_CLASS };
	struct tc_ccaq_cl_stats *st = &xstats.class_stats;
	struct ccaq_sched_data *q = qdisc_priv(sch);
	struct ccaq_flow *flow = &q->flows[cl - 1];
	struct gnet_stats_queue qs = { };
	struct sk_buff *skb;

	sch_tree_lock(sch);
	st->deficit = flow->deficit;
	st->target = ccaq_us(flow->vars.target);
	st->rtt = ccaq_us(ccaq_rtt(&flow->vars));
	st->idle = ccaq_idle_share(&flow->vars);
	st->active = ccaq_us(flow->vars.active);
	st->count = flow->vars.count;
	st->dropping = flow->vars.dropping;
	st->guessed = flow->vars.guessed;
	for (skb = flow->head; skb; skb = skb->next)
		qs.qlen++;
	qs.backlog = q->backlogs[cl - 1];
	sch_tree_unlock(sch);

	if (gnet_stats_copy_queue(d, NULL, &qs, qs.qlen) < 0)
		return -1;
	return gnet_stats_copy_app(d, &xstats, sizeof(xstats));
}

static void ccaq_walk(struct Qdisc *sch, struct qdisc_walker *arg)
{
	struct ccaq_sched_data *q = qdisc_priv(sch);
	u32 i;

	if (arg->stop)
		return;
	for (i = 0; i < q->table.queues; i++) {
		if (list_empty(&q->flows[i].flowchain)) {
			arg->count++;
			continue;
		}
		if (!tc_qdisc_stats_dump(sch, i + 1, arg))
			break;
	}
}

static const struct Qdisc_class_ops ccaq_class_ops = {
	.leaf		= ccaq_leaf,
	.find		= ccaq_class,
	.dump		= ccaq_dump_class,
	.dump_stats	= ccaq_dump_class_stats,
	.walk		= ccaq_walk,
};

static struct Qdisc_ops ccaq_qdisc_ops __read_mostly = {
	.cl_ops		= &ccaq_class_ops,
	.id		= "ccaq",
	.priv_size	= sizeof(struct ccaq_sched_data),
	.enqueue	= ccaq_enqueue,
	.dequeue	= ccaq_dequeue,
	.peek		= ccaq_peek,
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
	return register_qdisc(&ccaq_qdisc_ops);
}

static void __exit ccaq_module_exit(void)
{
	unregister_qdisc(&ccaq_qdisc_ops);
}

module_init(ccaq_module_init)
module_exit(ccaq_module_exit)
MODULE_AUTHOR("The sojourn authors");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Congestion control aware queuing: per-flow CoDel with targets that learn");
MODULE_ALIAS("net-sch-ccaq");
