/* The ccaq discipline around kernel/ccaq_impl.h, in user space: its queues, rounds and limits are as in
 * kernel/sch_ccaq.c, with packets that are only numbers. Compiled once unmodified and once for each
 * fault that the build plants into a copy. SERIES is the suffix of every name, IMPL the header. */
#include <stdlib.h>
#include <string.h>

#include IMPL

#define JOIN_EXPANDED(name, series) name##_##series
#define JOIN(name, series) JOIN_EXPANDED(name, series)
#define NAME(name) JOIN(name, SERIES)

#define BATCH 64
#define ECT1 1
#define CE 3

enum reason { SIGNALLED, UNRESPONSIVE, OVERLIMIT, MEMORY };

struct packet {
	struct packet *next;
	u32 id, bytes;
	ccaq_tick at;
	u32 ecn;
};

struct flow {
	struct packet *head, *tail;
	struct flow *next; /* in the round */
	bool listed;
	int deficit;
	u32 bytes, packets;
	struct ccaq_vars vars;
};

struct list {
	struct flow *first, *last;
	u32 len;
};

struct drop {
	u32 id, reason;
};

struct params {
	u32 limit, memory_limit, quantum, share;
	bool ecn;
};

struct servo {
	struct params params;
	u32 mtu, skb;
	struct ccaq_table table;
	struct flow *flows;
	struct list new_flows, old_flows;
	struct ccaq_link link;
	u64 idle, bytes, packets;
	struct drop *drops;
	u32 ndrops, room;
	u32 overlimit, overmemory, unresponsive, fresh, collisions, marks, steps;
};

struct view {
	u64 overlimit, overmemory, unresponsive, fresh, collisions, marks, steps, new_len, old_len, idle_us, min_target,
		max_target, min_rtt, max_rtt;
	u64 targets, rtts, idles;
};

struct servo *NAME(servo_new)(const struct params *params, u32 queues, u32 mtu, u32 skb)
{
	struct servo *q = calloc(1, sizeof(*q));

	q->params = *params;
	q->mtu = mtu;
	q->skb = skb;
	q->table.queues = queues;
	q->table.tags = calloc(queues, sizeof(u32));
	q->flows = calloc(queues, sizeof(struct flow));
	for (u32 i = 0; i < queues; i++)
		ccaq_vars_init(&q->flows[i].vars);
	return q;
}

static struct packet *take(struct servo *q, struct flow *flow)
{
	struct packet *packet = flow->head;

	flow->head = packet->next;
	flow->bytes -= packet->bytes;
	flow->packets--;
	q->bytes -= packet->bytes;
	q->packets--;
	return packet;
}

void NAME(servo_free)(struct servo *q)
{
	for (u32 i = 0; i < q->table.queues; i++)
		while (q->flows[i].head)
			free(take(q, &q->flows[i]));
	free(q->table.tags);
	free(q->flows);
	free(q->drops);
	free(q);
}

static void drop(struct servo *q, struct packet *packet, enum reason reason)
{
	if (q->ndrops == q->room) {
		q->room = 2 * q->room + 64;
		q->drops = realloc(q->drops, q->room * sizeof(struct drop));
	}
	q->drops[q->ndrops++] = (struct drop){ packet->id, reason };
	free(packet);
}

static void append(struct list *list, struct flow *flow)
{
	flow->next = NULL;
	flow->listed = true;
	if (list->first)
		list->last->next = flow;
	else
		list->first = flow;
	list->last = flow;
	list->len++;
}

static struct flow *detach(struct list *list)
{
	struct flow *flow = list->first;

	list->first = flow->next;
	list->len--;
	flow->listed = false;
	return flow;
}

static const struct ccaq_vars *look(const void *flows, u32 queue, enum ccaq_use *use)
{
	const struct flow *flow = (const struct flow *)flows + queue;

	*use = !flow->listed ? CCAQ_UNUSED : flow->head ? CCAQ_FILLED : CCAQ_DRAINED;
	return &flow->vars;
}

static u64 memory(const struct servo *q)
{
	return q->bytes + q->packets * q->skb;
}

static void overflow(struct servo *q, enum reason reason)
{
	u32 most = 0, fattest = 0, packets = 0, bytes = 0;
	struct packet *packet;

	for (u32 i = 0; i < q->table.queues; i++)
		if (q->flows[i].bytes > most) {
			most = q->flows[i].bytes;
			fattest = i;
		}
	do {
		packet = take(q, &q->flows[fattest]);
		bytes += packet->bytes;
		packets++;
		drop(q, packet, reason);
	} while (q->flows[fattest].head && packets < BATCH && bytes < most / 2);
	q->flows[fattest].vars.count += packets;
	q->overlimit += packets;
	if (reason == MEMORY)
		q->overmemory += packets;
}

void NAME(servo_enqueue)(struct servo *q, u64 now_ns, u32 id, u32 bytes, u32 hash, u32 ecn, bool opens)
{
	ccaq_tick now = (ccaq_tick)(now_ns >> CCAQ_SHIFT);
	struct packet *packet = calloc(1, sizeof(*packet));
	enum ccaq_found found;
	struct flow *flow;

	q->ndrops = 0;
	if (!q->packets)
		q->idle += ccaq_link_idle_before(&q->link, now_ns);
	flow = q->flows + ccaq_find(&q->table, hash, now, look, q->flows, &found);
	if (found == CCAQ_NEW) {
		ccaq_vars_init(&flow->vars);
	} else if (found == CCAQ_SHARED) {
		flow->vars.shared = true;
		q->collisions++;
	}
	ccaq_arrival(&flow->vars, now, !flow->head, opens, (ccaq_tick)(q->idle >> CCAQ_SHIFT));

	*packet = (struct packet){ NULL, id, bytes, now, ecn };
	if (flow->head)
		flow->tail->next = packet;
	else
		flow->head = packet;
	flow->tail = packet;
	flow->bytes += bytes;
	flow->packets++;
	q->bytes += bytes;
	q->packets++;
	if (!flow->listed) {
		append(&q->new_flows, flow);
		flow->deficit = (int)q->params.quantum;
		q->fresh++;
	}
	if (memory(q) > q->params.memory_limit)
		overflow(q, MEMORY);
	else if (q->packets > q->params.limit)
		overflow(q, OVERLIMIT);
}

static struct packet *next_of(struct servo *q, struct flow *flow, ccaq_tick now)
{
	struct ccaq_head head = { 0 };
	enum ccaq_verdict verdict;

	while (flow->head) {
		struct packet *packet = take(q, flow);

		head.sojourn = now - packet->at;
		head.last = !flow->head;
		head.few = flow->bytes < (u64)CCAQ_FEW * q->mtu;
		head.small = q->bytes <= q->mtu;
		head.scalable = q->params.ecn && packet->ecn == ECT1;
		verdict = ccaq_head(&flow->vars, now, &head, q->params.share);
		if (verdict == CCAQ_PASS)
			return packet;
		if (verdict == CCAQ_SIGNAL && q->params.ecn && packet->ecn) {
			if (head.scalable)
				q->steps++;
			else
				q->marks++;
			packet->ecn = CE;
			return packet;
		}
		if (verdict == CCAQ_SIGNAL)
			head.signals++;
		else
			q->unresponsive++;
		drop(q, packet, verdict == CCAQ_SIGNAL ? SIGNALLED : UNRESPONSIVE);
	}
	ccaq_empty(&flow->vars);
	return NULL;
}

static struct packet *dequeue(struct servo *q, u64 now)
{
	for (;;) {
		bool is_new = q->new_flows.first;
		struct list *list = is_new ? &q->new_flows : &q->old_flows;
		struct flow *flow = list->first;
		struct packet *packet;

		if (!flow)
			return NULL;
		if (flow->deficit <= 0) {
			flow->deficit += (int)q->params.quantum;
			append(&q->old_flows, detach(list));
			continue;
		}
		packet = next_of(q, flow, (ccaq_tick)(now >> CCAQ_SHIFT));
		if (packet) {
			flow->deficit -= (int)packet->bytes;
			ccaq_link_dequeued(&q->link, now, packet->bytes, q->packets);
			return packet;
		}
		detach(list);
		if (is_new && q->old_flows.first)
			append(&q->old_flows, flow);
	}
}

/* Returns false if there is no packet. */
bool NAME(servo_dequeue)(struct servo *q, u64 now, u32 *id, u32 *ecn)
{
	struct packet *packet;

	q->ndrops = 0;
	packet = dequeue(q, now);
	if (!packet)
		return false;
	*id = packet->id;
	*ecn = packet->ecn;
	free(packet);
	return true;
}

void NAME(servo_change)(struct servo *q, u64 now, const struct params *params)
{
	struct packet *packet;

	q->ndrops = 0;
	q->params = *params;
	while (q->packets > q->params.limit || memory(q) > q->params.memory_limit) {
		packet = dequeue(q, now);
		if (!packet)
			break;
		drop(q, packet, OVERLIMIT);
	}
}

/* The packets that the last call dropped, in order. */
const struct drop *NAME(servo_drops)(const struct servo *q, u32 *count)
{
	*count = q->ndrops;
	return q->drops;
}

static u64 micros(u64 ticks)
{
	return (ticks << CCAQ_SHIFT) / 1000;
}

static void widen(u64 *least, u64 *most, u64 us)
{
	if (us && (!*least || us < *least))
		*least = us;
	if (us > *most)
		*most = us;
}

void NAME(servo_look)(const struct servo *q, struct view *view)
{
	*view = (struct view){
		.overlimit = q->overlimit,
		.overmemory = q->overmemory,
		.unresponsive = q->unresponsive,
		.fresh = q->fresh,
		.collisions = q->collisions,
		.marks = q->marks,
		.steps = q->steps,
		.new_len = q->new_flows.len,
		.old_len = q->old_flows.len,
		.idle_us = q->idle / 1000,
	};
	for (u32 i = 0; i < q->table.queues; i++) {
		const struct ccaq_vars *vars = &q->flows[i].vars;

		if (!q->flows[i].listed)
			continue;
		widen(&view->min_target, &view->max_target, micros(vars->target));
		widen(&view->min_rtt, &view->max_rtt, micros(ccaq_rtt(vars)));
		view->targets += micros(vars->target);
		view->rtts += micros(ccaq_rtt(vars));
		view->idles += (u64)ccaq_idle_share(vars) * 10000 >> 16;
	}
}
