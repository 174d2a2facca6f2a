/* The kernel's own lib/dynamic_queue_limits.c in user space: SOURCE is that file, SERIES the
 * suffix of every name. The headers that it includes are empty, except for its own; the
 * definitions that it needs from them are here. */
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define JOIN_EXPANDED(name, series) name##_##series
#define JOIN(name, series) JOIN_EXPANDED(name, series)
#define NAME(name) JOIN(name, SERIES)

#define BITS_PER_LONG 64
#define BIT_MASK(nr) (1UL << ((nr) % BITS_PER_LONG))
#define READ_ONCE(x) (x)
#define WRITE_ONCE(x, value) ((x) = (value))
#define BUG_ON(condition) ((condition) ? abort() : (void)0)
#define WARN_ON_ONCE(condition) ((condition) ? abort(), 1 : 0)
#define EXPORT_SYMBOL(symbol)
#define ____cacheline_aligned_in_smp
#define barrier()
#define smp_rmb()
#define smp_wmb()
#define unlikely(condition) (condition)
#define max(a, b) ((a) > (b) ? (a) : (b))
#define max_t(type, a, b) max((type)(a), (type)(b))
#define clamp(value, low, high) ((value) < (low) ? (low) : (value) > (high) ? (high) : (value))
#define time_after(a, b) ((long)((b) - (a)) < 0)
#define time_before(a, b) time_after(b, a)
#define time_after_eq(a, b) ((long)((a) - (b)) >= 0)
#define time_before_eq(a, b) time_after_eq(b, a)
#define test_bit(nr, map) (((map)[(nr) / BITS_PER_LONG] >> ((nr) % BITS_PER_LONG)) & 1)
#define trace_dql_stall_detected(...)

/* The clock, set before each call that reads it; thread-local, as tests run in several threads. */
static _Thread_local unsigned long jiffies;

/* Each series has its own names for the library's functions. */
#define dql_init NAME(dql_init)
#define dql_reset NAME(dql_reset)
#define dql_completed NAME(dql_completed)
#define __KERNEL__
#include SOURCE

struct dql *NAME(limits_new)(unsigned int hold_time, unsigned long now, unsigned int least, unsigned int most)
{
	struct dql *dql = calloc(1, sizeof(*dql));

	jiffies = now;
	dql_init(dql, hold_time);
	dql->min_limit = least;
	dql->max_limit = most ? most : DQL_MAX_LIMIT;
	dql_reset(dql);
	return dql;
}

void NAME(limits_free)(struct dql *dql)
{
	free(dql);
}

void NAME(limits_queued)(struct dql *dql, unsigned int bytes)
{
	dql_queued(dql, bytes);
}

void NAME(limits_completed)(struct dql *dql, unsigned int bytes, unsigned long now)
{
	jiffies = now;
	dql_completed(dql, bytes);
}

int NAME(limits_avail)(const struct dql *dql)
{
	return dql_avail(dql);
}

/* Returns the limit and the bytes in flight. */
void NAME(limits_look)(const struct dql *dql, unsigned int *limit, unsigned int *inflight)
{
	*limit = dql->limit;
	*inflight = dql->num_queued - dql->num_completed;
}
