// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * q_ccaq_paper: tc's plug-in for ccaq_paper, the ccaq of the paper.
 *
 * It is built as q_ccaq_paper.so against the sources of the tc that will load it
 * (build.sh in this folder does that). tc looks for it in TC_LIB_DIR.
 */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "utils.h"
#include "tc_util.h"

#include "../ccaq_paper_uapi.h"

#define ONE	1000000.0
#define NONE	(~0ULL)

static void explain(void)
{
	fprintf(stderr,
		"Usage: ... ccaq_paper	[ limit PACKETS ] [ flow_limit PACKETS ]\n"
		"		[ quantum BYTES ] [ initial_quantum BYTES ]\n"
		"		[ multiplier FACTOR ] [ max_increase FACTOR ] [ max_gi TIME ]\n"
		"		[ max_gi_rtts NUMBER ]\n"
		"		[ buckets NUMBER ] [ orphan_mask MASK ] [ refill_delay TIME ]\n"
		"		[ [no]pacing ] [ maxrate RATE ] [ low_rate_threshold RATE ]\n"
		"		[ timer_slack TIME ] [ ce_threshold TIME ]\n"
		"		[ horizon TIME ] [ horizon_cap | horizon_drop ]\n"
		"\n"
		"limit		packets in all queues together (10000)\n"
		"flow_limit	initial limit of a flow's queue in packets (100)\n"
		"multiplier	guard interval in units of the longest interval between losses\n"
		"		before it (1.25); more than 1 for BBR\n"
		"max_increase	largest factor by which a flow's limit grows in one step (2)\n"
		"max_gi		longest guard interval (1s): more than the longest RTT\n"
		"max_gi_rtts	longest guard interval in recent RTTs of the flow, as 4 (0: off);\n"
		"		the shorter of both applies; TCP only\n"
		"The other parameters are those of fq. Pacing is off by default: a paced\n"
		"packet waits on purpose, which would look like a standing queue.\n");
}

static int bad(const char *name, const char *value, const char *expected)
{
	fprintf(stderr, "ccaq_paper: %s \"%s\": expected %s\n", name, value, expected);
	return -1;
}

/* Parses a factor of 0 to 1000, in millionths. */
static int get_factor(__u64 *factor, const char *text)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= 0.0 && value <= 1000.0))
		return -1;
	*factor = (__u64)llround(value * ONE);
	return 0;
}

/* The parameters with a value, and the form of the value. */
static const struct word {
	const char *name;
	enum { COUNT, BYTES, FACTOR, TIME, RATE, BUCKETS, MASK } form;
	int attribute;
	const char *expected;
} words[] = {
	{ "limit", COUNT, TCA_CCAQ_PLIMIT, "packets, at least 1" },
	{ "flow_limit", COUNT, TCA_CCAQ_FLOW_PLIMIT, "packets, at least 1" },
	{ "quantum", BYTES, TCA_CCAQ_QUANTUM, "bytes, as 3028 or 3k" },
	{ "initial_quantum", BYTES, TCA_CCAQ_INITIAL_QUANTUM,
	  "bytes, as 15140 or 15k" },
	{ "multiplier", FACTOR, TCA_CCAQ_MULTIPLIER, "a factor, 0 to 1000" },
	{ "max_increase", FACTOR, TCA_CCAQ_MAX_INCREASE,
	  "a factor, 1 to 1000" },
	{ "max_gi", TIME, TCA_CCAQ_MAX_GI, "a time, as 1s" },
	{ "max_gi_rtts", FACTOR, TCA_CCAQ_MAX_GI_RTTS, "a number, 0 to 1000" },
	{ "buckets", BUCKETS, TCA_CCAQ_BUCKETS_LOG,
	  "a power of two, 2 to 262144" },
	{ "orphan_mask", MASK, TCA_CCAQ_ORPHAN_MASK, "a mask, as 1023" },
	{ "refill_delay", TIME, TCA_CCAQ_REFILL_DELAY, "a time, as 40ms" },
	{ "maxrate", RATE, TCA_CCAQ_FLOW_MAX_RATE, "a rate, as 10mbit" },
	{ "low_rate_threshold", RATE, TCA_CCAQ_LOW_RATE_THRESHOLD,
	  "a rate, as 550kbit" },
	{ "timer_slack", TIME, TCA_CCAQ_TIMER_SLACK, "a time, as 10us" },
	{ "ce_threshold", TIME, TCA_CCAQ_CE_THRESHOLD, "a time, as 5ms" },
	{ "horizon", TIME, TCA_CCAQ_HORIZON, "a time, as 10s" },
};

static int log_of(unsigned int buckets)
{
	int log = 0;

	while (log < 18 && 1U << log < buckets)
		log++;
	return log > 0 && 1U << log == buckets ? log : -1;
}

static int put_value(struct nlmsghdr *n, const struct word *word,
		     const char *text)
{
	__s64 time = 0;
	__u64 wide = 0;
	__u32 value = 0;
	int log, wrong = -1;

	switch (word->form) {
	case COUNT:
		wrong = get_u32(&value, text, 0) || !value;
		break;
	case MASK:
		wrong = get_u32(&value, text, 0);
		break;
	case BYTES:
		wrong = get_size(&value, text) || !value;
		break;
	case BUCKETS:
		wrong = get_u32(&value, text, 0);
		log = log_of(value);
		wrong = wrong || log < 0;
		value = log;
		break;
	case FACTOR:
		wrong = get_factor(&wide, text);
		break;
	case RATE:
		wrong = get_rate64(&wide, text);
		break;
	case TIME:
		wrong = get_time64(&time, text) || time < 0;
		wide = time;
		break;
	}
	if (wrong)
		return bad(word->name, text, word->expected);
	if (word->form == FACTOR || word->form == RATE || word->form == TIME)
		addattr64(n, 1024, word->attribute, wide);
	else
		addattr32(n, 1024, word->attribute, value);
	return 0;
}

static int ccaq_parse_opt(struct qdisc_util *qu, int argc, char **argv,
			  struct nlmsghdr *n, const char *dev)
{
	struct rtattr *tail = addattr_nest(n, 1024, TCA_OPTIONS | NLA_F_NESTED);
	size_t i;

	for (; argc > 0; argc--, argv++) {
		if (strcmp(*argv, "pacing") == 0) {
			addattr32(n, 1024, TCA_CCAQ_PACING, 1);
			continue;
		} else if (strcmp(*argv, "nopacing") == 0) {
			addattr32(n, 1024, TCA_CCAQ_PACING, 0);
			continue;
		} else if (strcmp(*argv, "horizon_drop") == 0) {
			addattr32(n, 1024, TCA_CCAQ_HORIZON_DROP, 1);
			continue;
		} else if (strcmp(*argv, "horizon_cap") == 0) {
			addattr32(n, 1024, TCA_CCAQ_HORIZON_DROP, 0);
			continue;
		} else if (strcmp(*argv, "help") == 0) {
			explain();
			return -1;
		}
		for (i = 0; i < ARRAY_SIZE(words); i++)
			if (strcmp(*argv, words[i].name) == 0)
				break;
		if (i == ARRAY_SIZE(words)) {
			fprintf(stderr, "ccaq_paper: \"%s\" is no parameter\n", *argv);
			explain();
			return -1;
		}
		NEXT_ARG();
		if (put_value(n, &words[i], *argv))
			return -1;
	}
	addattr_nest_end(n, tail);
	return 0;
}

static void print_time64(const char *name, const char *format, __u64 ns)
{
	char text[64];

	if (is_json_context())
		print_u64(PRINT_JSON, name, NULL, ns / 1000);
	else
		print_string(PRINT_FP, NULL, format,
			     sprint_time64((__s64)ns, text));
}

static int ccaq_print_opt(struct qdisc_util *qu, FILE *f, struct rtattr *opt)
{
	struct rtattr *tb[TCA_CCAQ_MAX + 1];
	__u64 wide;

	if (!opt)
		return 0;
	parse_rtattr_nested(tb, TCA_CCAQ_MAX, opt);
#define U32(at)	rta_getattr_u32(tb[TCA_CCAQ_##at])
#define U64(at)	rta_getattr_u64(tb[TCA_CCAQ_##at])
	if (tb[TCA_CCAQ_PLIMIT])
		print_uint(PRINT_ANY, "limit", "limit %up ", U32(PLIMIT));
	if (tb[TCA_CCAQ_FLOW_PLIMIT])
		print_uint(PRINT_ANY, "flow_limit", "flow_limit %up ",
			   U32(FLOW_PLIMIT));
	if (tb[TCA_CCAQ_MULTIPLIER])
		print_float(PRINT_ANY, "multiplier", "multiplier %g ",
			    U64(MULTIPLIER) / ONE);
	if (tb[TCA_CCAQ_MAX_INCREASE])
		print_float(PRINT_ANY, "max_increase", "max_increase %g ",
			    U64(MAX_INCREASE) / ONE);
	if (tb[TCA_CCAQ_MAX_GI])
		print_time64("max_gi", "max_gi %s ", U64(MAX_GI));
	if (tb[TCA_CCAQ_MAX_GI_RTTS] && U64(MAX_GI_RTTS))
		print_float(PRINT_ANY, "max_gi_rtts", "max_gi_rtts %g ",
			    U64(MAX_GI_RTTS) / ONE);
	if (tb[TCA_CCAQ_BUCKETS_LOG])
		print_uint(PRINT_ANY, "buckets", "buckets %u ",
			   1U << U32(BUCKETS_LOG));
	if (tb[TCA_CCAQ_ORPHAN_MASK])
		print_uint(PRINT_ANY, "orphan_mask", "orphan_mask %u ",
			   U32(ORPHAN_MASK));
	if (tb[TCA_CCAQ_QUANTUM])
		print_uint(PRINT_ANY, "quantum", "quantum %ub ", U32(QUANTUM));
	if (tb[TCA_CCAQ_INITIAL_QUANTUM])
		print_uint(PRINT_ANY, "initial_quantum", "initial_quantum %ub ",
			   U32(INITIAL_QUANTUM));
	if (tb[TCA_CCAQ_PACING])
		print_bool(PRINT_ANY, "pacing",
			   U32(PACING) ? "pacing " : "nopacing ", U32(PACING));
	if (tb[TCA_CCAQ_FLOW_MAX_RATE]) {
		wide = U64(FLOW_MAX_RATE);
		if (wide != NONE)
			tc_print_rate(PRINT_ANY, "maxrate", "maxrate %s ", wide);
	}
	if (tb[TCA_CCAQ_LOW_RATE_THRESHOLD])
		tc_print_rate(PRINT_ANY, "low_rate_threshold",
			      "low_rate_threshold %s ", U64(LOW_RATE_THRESHOLD));
	if (tb[TCA_CCAQ_REFILL_DELAY])
		print_time64("refill_delay", "refill_delay %s ",
			     U64(REFILL_DELAY));
	if (tb[TCA_CCAQ_TIMER_SLACK])
		print_time64("timer_slack", "timer_slack %s ", U64(TIMER_SLACK));
	if (tb[TCA_CCAQ_CE_THRESHOLD]) {
		wide = U64(CE_THRESHOLD);
		if (wide != NONE)
			print_time64("ce_threshold", "ce_threshold %s ", wide);
	}
	if (tb[TCA_CCAQ_HORIZON])
		print_time64("horizon", "horizon %s ", U64(HORIZON));
	if (tb[TCA_CCAQ_HORIZON_DROP])
		print_bool(PRINT_ANY, "horizon_drop",
			   U32(HORIZON_DROP) ? "horizon_drop " : "horizon_cap ",
			   U32(HORIZON_DROP));
#undef U32
#undef U64
	return 0;
}

static int ccaq_print_xstats(struct qdisc_util *qu, FILE *f,
			     struct rtattr *xstats)
{
	struct tc_ccaq_xstats st = { };

	if (!xstats)
		return 0;
	memcpy(&st, RTA_DATA(xstats),
	       RTA_PAYLOAD(xstats) < sizeof(st) ? RTA_PAYLOAD(xstats)
						: sizeof(st));
#define COUNTER(name) print_u64(PRINT_ANY, #name, " " #name " %llu", st.name)
	print_uint(PRINT_ANY, "flows", "  flows %u", st.flows);
	print_uint(PRINT_ANY, "inactive", " (inactive %u", st.inactive_flows);
	print_uint(PRINT_ANY, "throttled_flows", " throttled %u)",
		   st.throttled_flows);
	print_uint(PRINT_ANY, "min_limit", " limits %u", st.min_limit);
	print_uint(PRINT_ANY, "max_limit", " to %up", st.max_limit);
	if (st.max_rtt) {
		print_time64("min_rtt", " rtt %s", st.min_rtt);
		print_time64("max_rtt", " to %s", st.max_rtt);
	}
	print_nl();
	print_string(PRINT_FP, NULL, "%s", " ");
	COUNTER(enlarged);
	COUNTER(shrunk);
	COUNTER(shed);
	COUNTER(flows_plimit);
	print_nl();
	print_string(PRINT_FP, NULL, "%s", " ");
	print_u64(PRINT_ANY, "gc", " gc %llu", st.gc_flows);
	COUNTER(throttled);
	COUNTER(ce_mark);
	COUNTER(pkts_too_long);
	COUNTER(horizon_drops);
	COUNTER(horizon_caps);
	COUNTER(allocation_errors);
#undef COUNTER
	return 0;
}

struct qdisc_util ccaq_paper_qdisc_util = {
	.id		= "ccaq_paper",
	.parse_qopt	= ccaq_parse_opt,
	.print_qopt	= ccaq_print_opt,
	.print_xstats	= ccaq_print_xstats,
};
