/* A codel qdisc in user space around the kernel's own codel_dequeue(). Compiled once for each
 * series of kernels, with SERIES as the suffix of every name. */
#include <stdlib.h>

#include <linux/types.h>
#include <net/codel.h>
#include <net/codel_impl.h>

#define JOIN_EXPANDED(name, series) name##_##series
#define JOIN(name, series) JOIN_EXPANDED(name, series)
#define NAME(name) JOIN(name, SERIES)

struct oracle {
	struct codel_params params;
	struct codel_vars vars;
	struct codel_stats stats;
	u32 backlog;
	struct sk_buff *ring;
	u32 limit, head, qlen;
	u32 *dropped;
	u32 ndropped;
};

struct oracle_view {
	u32 count, lastcount, dropping, maxpacket, ecn_mark, ce_mark;
};

static u32 packet_len(const struct sk_buff *skb)
{
	return skb->len;
}

static codel_time_t packet_time(const struct sk_buff *skb)
{
	return skb->enqueue_time;
}

static void drop_packet(struct sk_buff *skb, void *context)
{
	struct oracle *oracle = context;

	oracle->dropped[oracle->ndropped++] = skb->id;
}

/* The slot remains unchanged until the next enqueue. */
static struct sk_buff *take_packet(struct codel_vars *vars, void *context)
{
	struct oracle *oracle = context;
	struct sk_buff *skb;

	(void)vars;
	if (oracle->qlen == 0)
		return NULL;
	skb = &oracle->ring[oracle->head];
	oracle->head = oracle->head + 1 == oracle->limit ? 0 : oracle->head + 1;
	oracle->qlen--;
	oracle->backlog -= skb->len;
	return skb;
}

static codel_time_t from_us(u32 us)
{
	return ((u64)us * NSEC_PER_USEC) >> CODEL_SHIFT;
}

struct oracle *NAME(oracle_new)(u32 limit, u32 target_us, u32 interval_us, u32 ecn, s64 ce_threshold_us, u32 mtu)
{
	struct oracle *oracle = calloc(1, sizeof(*oracle));

	codel_params_init(&oracle->params);
	codel_vars_init(&oracle->vars);
	codel_stats_init(&oracle->stats);
	oracle->params.target = from_us(target_us);
	oracle->params.interval = from_us(interval_us);
	oracle->params.ecn = ecn != 0;
	oracle->params.mtu = mtu;
	if (ce_threshold_us >= 0)
		oracle->params.ce_threshold = from_us((u32)ce_threshold_us);
	oracle->limit = limit;
	oracle->ring = calloc(limit, sizeof(*oracle->ring));
	oracle->dropped = calloc(limit, sizeof(*oracle->dropped));
	return oracle;
}

void NAME(oracle_free)(struct oracle *oracle)
{
	free(oracle->ring);
	free(oracle->dropped);
	free(oracle);
}

/* Returns 0 if the queue is full. */
u32 NAME(oracle_enqueue)(struct oracle *oracle, u64 now_ns, u32 id, u32 len, u32 ecn)
{
	u32 tail;

	shim_now_ns = now_ns;
	if (oracle->qlen >= oracle->limit)
		return 0;
	tail = oracle->head + oracle->qlen;
	if (tail >= oracle->limit)
		tail -= oracle->limit;
	oracle->ring[tail] = (struct sk_buff){ id, len, codel_get_time(), (u8)ecn };
	oracle->qlen++;
	oracle->backlog += len;
	return 1;
}

/* Returns 0 if no packet leaves. Dropped packets are in *dropped until the next dequeue. */
u32 NAME(oracle_dequeue)(struct oracle *oracle, u64 now_ns, u32 *id, u32 *ecn, const u32 **dropped, u32 *ndropped)
{
	struct sk_buff *skb;

	shim_now_ns = now_ns;
	oracle->ndropped = 0;
	skb = codel_dequeue(oracle, &oracle->backlog, &oracle->params, &oracle->vars, &oracle->stats, packet_len,
			    packet_time, drop_packet, take_packet);
	*dropped = oracle->dropped;
	*ndropped = oracle->ndropped;
	if (!skb)
		return 0;
	*id = skb->id;
	*ecn = skb->dsfield & 3;
	return 1;
}

void NAME(oracle_view)(const struct oracle *oracle, struct oracle_view *view)
{
	view->count = oracle->vars.count;
	view->lastcount = oracle->vars.lastcount;
	view->dropping = oracle->vars.dropping;
	view->maxpacket = oracle->stats.maxpacket;
	view->ecn_mark = oracle->stats.ecn_mark;
	view->ce_mark = oracle->stats.ce_mark;
}
