/* The buffer of one flow around kernel/ccaq_paper_impl.h, in user space. Compiled once unmodified and
 * once for each fault that the build plants into a copy. SERIES is the suffix of every name,
 * IMPL the header. */
#include <stdlib.h>

#include IMPL

#define JOIN_EXPANDED(name, series) name##_##series
#define JOIN(name, series) JOIN_EXPANDED(name, series)
#define NAME(name) JOIN(name, SERIES)

struct buffer {
	struct ccaq_params params;
	struct ccaq_vars vars;
	struct ccaq_stats stats;
};

struct buffer *NAME(ccaq_new)(u32 flow_limit, u64 multiplier, u64 max_increase, u64 max_gi, u64 max_gi_rtts, u64 now)
{
	struct buffer *buffer = calloc(1, sizeof(*buffer));

	buffer->params.flow_limit = flow_limit;
	buffer->params.multiplier = multiplier;
	buffer->params.max_increase = max_increase;
	buffer->params.max_gi = max_gi;
	buffer->params.max_gi_rtts = max_gi_rtts;
	ccaq_vars_init(&buffer->vars, &buffer->params, now);
	return buffer;
}

void NAME(ccaq_free)(struct buffer *buffer)
{
	free(buffer);
}

u32 NAME(ccaq_arrives)(struct buffer *buffer, u64 now, u32 queued, u32 hash, bool opens)
{
	ccaq_handshake(&buffer->vars, now, hash, opens);
	return ccaq_arrival(&buffer->vars, &buffer->params, &buffer->stats, now, queued);
}

void NAME(ccaq_departs)(struct buffer *buffer, u64 now, u32 left, u64 arrived)
{
	ccaq_departure(&buffer->vars, now, left, arrived);
}

void NAME(ccaq_look)(const struct buffer *buffer, u32 *limit, u64 *gi_end, u64 *enlarged, u64 *shrunk,
		     u64 *rtt)
{
	*limit = buffer->vars.limit;
	*gi_end = buffer->vars.gi_end;
	*enlarged = buffer->stats.enlarged;
	*shrunk = buffer->stats.shrunk;
	*rtt = ccaq_rtt(&buffer->vars);
}

u64 NAME(ccaq_times)(u64 a, u64 b, u64 c)
{
	return ccaq_mul_div(a, b, c);
}
