// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * q_ccaq: tc's plug-in for the ccaq queue discipline.
 *
 * It is built as q_ccaq.so against the sources of the tc that will load it
 * (build.sh in this folder does that). tc looks for it in TC_LIB_DIR.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "utils.h"
#include "tc_util.h"

#include "../ccaq_uapi.h"

static void explain(void)
{
	fprintf(stderr,
		"Usage: ... ccaq	[ limit PACKETS ] [ memory_limit BYTES ]\n"
		"		[ flows NUMBER ] [ quantum BYTES ]\n"
		"		[ idle PERCENTAGE ] [ [no]ecn ]\n"
		"\n"
		"limit		packets in all queues together (10000)\n"
		"memory_limit	bytes of memory in all queues together (32Mb)\n"
		"flows		number of queues, a multiple of 8 (1024)\n"
		"quantum		bytes that a flow may send in its turn (the device's MTU)\n"
		"idle		share of the time for which the link may be idle while a flow\n"
		"		sends (1%%): with more, delays are shorter\n"
		"ecn		ECN-capable packets are marked instead of dropped (on)\n");
}

static int bad(const char *name, const char *value, const char *expected)
{
	fprintf(stderr, "ccaq: %s \"%s\": expected %s\n", name, value, expected);
	return -1;
}

/* Parses a percentage, in hundredths of a percent. */
static int get_share(__u32 *share, const char *text)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || strcmp(end, "%") || !(value >= 0.01 && value <= 25))
		return -1;
	*share = (__u32)llround(value * 100);
	return 0;
}

/* The parameters with a value, and the form of the value. */
static const struct word {
	const char *name;
	enum { COUNT, BYTES, SHARE } form;
	int attribute;
	const char *expected;
} words[] = {
	{ "limit", COUNT, TCA_CCAQ_LIMIT, "packets, at least 1" },
	{ "memory_limit", BYTES, TCA_CCAQ_MEMORY_LIMIT, "bytes, as 32Mb" },
	{ "flows", COUNT, TCA_CCAQ_FLOWS, "a multiple of 8, up to 65536" },
	{ "quantum", BYTES, TCA_CCAQ_QUANTUM, "bytes, as 1514 or 3k" },
	{ "idle", SHARE, TCA_CCAQ_IDLE, "0.01% to 25%" },
};

static int put_value(struct nlmsghdr *n, const struct word *word,
		     const char *text)
{
	__u32 value = 0;
	int wrong = -1;

	switch (word->form) {
	case COUNT:
		wrong = get_u32(&value, text, 0) || !value;
		break;
	case BYTES:
		wrong = get_size(&value, text) || !value;
		break;
	case SHARE:
		wrong = get_share(&value, text);
		break;
	}
	if (wrong)
		return bad(word->name, text, word->expected);
	addattr32(n, 1024, word->attribute, value);
	return 0;
}

static int ccaq_parse_opt(struct qdisc_util *qu, int argc, char **argv,
			  struct nlmsghdr *n, const char *dev)
{
	struct rtattr *tail = addattr_nest(n, 1024, TCA_OPTIONS | NLA_F_NESTED);
	size_t i;

	for (; argc > 0; argc--, argv++) {
		if (strcmp(*argv, "ecn") == 0) {
			addattr32(n, 1024, TCA_CCAQ_ECN, 1);
			continue;
		} else if (strcmp(*argv, "noecn") == 0) {
			addattr32(n, 1024, TCA_CCAQ_ECN, 0);
			continue;
		} else if (strcmp(*argv, "help") == 0) {
			explain();
			return -1;
		}
		for (i = 0; i < ARRAY_SIZE(words); i++)
			if (strcmp(*argv, words[i].name) == 0)
				break;
		if (i == ARRAY_SIZE(words)) {
			fprintf(stderr, "ccaq: \"%s\" is no parameter\n", *argv);
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

static int ccaq_print_opt(struct qdisc_util *qu, FILE *f, struct rtattr *opt)
{
	struct rtattr *tb[TCA_CCAQ_MAX + 1];
	__u32 value;

	if (!opt)
		return 0;
	parse_rtattr_nested(tb, TCA_CCAQ_MAX, opt);
	if (tb[TCA_CCAQ_LIMIT])
		print_uint(PRINT_ANY, "limit", "limit %up ",
			   rta_getattr_u32(tb[TCA_CCAQ_LIMIT]));
	if (tb[TCA_CCAQ_MEMORY_LIMIT])
		print_size(PRINT_ANY, "memory_limit", "memory_limit %s ",
			   rta_getattr_u32(tb[TCA_CCAQ_MEMORY_LIMIT]));
	if (tb[TCA_CCAQ_FLOWS])
		print_uint(PRINT_ANY, "flows", "flows %u ",
			   rta_getattr_u32(tb[TCA_CCAQ_FLOWS]));
	if (tb[TCA_CCAQ_QUANTUM])
		print_uint(PRINT_ANY, "quantum", "quantum %u ",
			   rta_getattr_u32(tb[TCA_CCAQ_QUANTUM]));
	if (tb[TCA_CCAQ_IDLE])
		print_float(PRINT_ANY, "idle", "idle %g%% ",
			    rta_getattr_u32(tb[TCA_CCAQ_IDLE]) / 100.0);
	if (tb[TCA_CCAQ_ECN]) {
		value = rta_getattr_u32(tb[TCA_CCAQ_ECN]);
		print_bool(PRINT_ANY, "ecn", value ? "ecn " : "noecn ", value);
	}
	return 0;
}

/* Prints a time that is in microseconds. */
static void print_us(const char *name, const char *format, __u64 us)
{
	char text[64];

	if (is_json_context())
		print_u64(PRINT_JSON, name, NULL, us);
	else
		print_string(PRINT_FP, NULL, format,
			     sprint_time64((__s64)us * 1000, text));
}

static void print_counter(const char *name, __u32 count)
{
	print_string(PRINT_FP, NULL, " %s", name);
	print_uint(PRINT_ANY, name, " %u", count);
}

static void print_qdisc(const struct tc_ccaq_qd_stats *st)
{
	print_string(PRINT_FP, NULL, "%s", " ");
	print_counter("drop_overlimit", st->drop_overlimit);
	print_counter("drop_overmemory", st->drop_overmemory);
	print_counter("drop_unresponsive", st->drop_unresponsive);
	print_nl();
	print_string(PRINT_FP, NULL, "%s", " ");
	print_counter("new_flow_count", st->new_flow_count);
	print_counter("collisions", st->collisions);
	print_counter("ecn_mark", st->ecn_mark);
	print_counter("ce_mark", st->ce_mark);
	print_counter("memory_used", st->memory_used);
	print_nl();
	print_string(PRINT_FP, NULL, "%s", " ");
	print_counter("new_flows_len", st->new_flows_len);
	print_counter("old_flows_len", st->old_flows_len);
	print_nl();
	print_us("idle_time", "  idle_time %s", st->idle_time);
	print_us("min_target", " target %s", st->min_target);
	print_us("max_target", " to %s", st->max_target);
	print_us("min_rtt", " rtt %s", st->min_rtt);
	print_us("max_rtt", " to %s", st->max_rtt);
}

/*
 * The units are always the same, so that programs can read the text: older
 * versions of tc print no JSON for classes.
 */
static void print_class(const struct tc_ccaq_cl_stats *st)
{
	unsigned int idle = (__u64)st->idle * 10000 >> 16;
	char share[32];

	print_int(PRINT_ANY, "deficit", "  deficit %d", st->deficit);
	print_counter("count", st->count);
	print_uint(PRINT_ANY, "target", " target %uus", st->target);
	print_uint(PRINT_ANY, "rtt", " rtt %uus", st->rtt);
	if (st->guessed && st->rtt)
		print_bool(PRINT_ANY, "guessed", " guessed", true);
	snprintf(share, sizeof(share), "%u.%02u", idle / 100, idle % 100);
	if (is_json_context())
		print_float(PRINT_JSON, "idle", NULL, idle / 100.0);
	else
		print_string(PRINT_FP, NULL, " idle %s%%", share);
	print_uint(PRINT_ANY, "active", " of %uus", st->active);
	if (st->dropping)
		print_bool(PRINT_ANY, "dropping", " dropping", true);
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
	if (st.type == TCA_CCAQ_XSTATS_QDISC)
		print_qdisc(&st.qdisc_stats);
	else if (st.type == TCA_CCAQ_XSTATS_CLASS)
		print_class(&st.class_stats);
	return 0;
}

struct qdisc_util ccaq_qdisc_util = {
	.id		= "ccaq",
	.parse_qopt	= ccaq_parse_opt,
	.print_qopt	= ccaq_print_opt,
	.print_xstats	= ccaq_print_xstats,
};
