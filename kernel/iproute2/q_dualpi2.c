// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * q_dualpi2: dualpi2 for versions of tc that are older than the kernel's
 * discipline (before 6.17).
 *
 * The syntax is that of newer versions of tc. Built as q_dualpi2.so (see
 * q_ccaq.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "utils.h"
#include "tc_util.h"

/* Attributes and statistics, as the kernel numbers them. */
enum {
	LIMIT = 1, MEMORY_LIMIT, TARGET, TUPDATE, ALPHA, BETA, STEP_PACKETS,
	STEP_TIME, MIN_QLEN_STEP, COUPLING, DROP_OVERLOAD, DROP_EARLY,
	C_PROTECTION, ECN_MASK, SPLIT_GSO, LAST = SPLIT_GSO,
};

struct xstats {
	__u32 prob, delay_c, delay_l, packets_in_c, packets_in_l, maxq;
	__u32 ecn_mark, step_marks;
	__s32 credit;
	__u32 memory_used, max_memory_used, memory_limit;
};

enum form { PACKETS, BYTES, TIME, GAIN, FACTOR, SHARE, STEP };

static const struct word {
	const char *name;
	enum form form;
	int attribute;
	const char *expected;
} words[] = {
	{ "limit", PACKETS, LIMIT, "a number of packets" },
	{ "memlimit", BYTES, MEMORY_LIMIT, "a number of bytes" },
	{ "target", TIME, TARGET, "a time, as 15ms" },
	{ "tupdate", TIME, TUPDATE, "a time, as 16ms" },
	{ "alpha", GAIN, ALPHA, "a number, as 0.16" },
	{ "beta", GAIN, BETA, "a number, as 3.2" },
	{ "step_thresh", STEP, 0, "a time, as 1ms, or packets, as 5p" },
	{ "min_qlen_step", PACKETS, MIN_QLEN_STEP, "a number of packets" },
	{ "coupling_factor", FACTOR, COUPLING, "a number from 1 to 255" },
	{ "classic_protection", SHARE, C_PROTECTION, "a percentage, as 10%" },
};

static const struct flag {
	const char *name;
	int attribute;
	__u8 value;
} flags[] = {
	{ "drop_on_overload", DROP_OVERLOAD, 1 },
	{ "overflow", DROP_OVERLOAD, 0 },
	{ "drop_enqueue", DROP_EARLY, 1 },
	{ "drop_dequeue", DROP_EARLY, 0 },
	{ "l4s_ect", ECN_MASK, 1 },
	{ "any_ect", ECN_MASK, 3 },
	{ "split_gso", SPLIT_GSO, 1 },
	{ "no_split_gso", SPLIT_GSO, 0 },
};

static void explain(void)
{
	size_t i;

	fprintf(stderr, "Usage: ... dualpi2\n");
	for (i = 0; i < ARRAY_SIZE(words); i++)
		fprintf(stderr, "\t%s: %s\n", words[i].name, words[i].expected);
	fprintf(stderr, "\tmax_rtt, typical_rtt: a time, as 100ms\n");
	for (i = 0; i < ARRAY_SIZE(flags); i += 2)
		fprintf(stderr, "\t%s | %s\n", flags[i].name, flags[i + 1].name);
}

static int bad(const char *name, const char *value, const char *expected)
{
	fprintf(stderr, "dualpi2: %s \"%s\": expected %s\n", name, value,
		expected);
	return -1;
}

/* Parses a number, which may be followed by a unit. */
static int get_number(double *value, const char *text, const char *unit)
{
	char *end;

	*value = strtod(text, &end);
	return end == text || (*end && strcmp(end, unit)) || *value < 0;
}

static int put_value(struct nlmsghdr *n, const struct word *word,
		     const char *text)
{
	int attribute = word->attribute, wrong = -1;
	double number = 0;
	__u32 value = 0;

	switch (word->form) {
	case PACKETS:
	case BYTES:
		wrong = get_u32(&value, text, 10);
		break;
	case TIME:
		wrong = get_time(&value, text);
		break;
	case GAIN:
		wrong = get_number(&number, text, "");
		/* In single precision, as in newer versions of tc. */
		value = (float)number * 256.0f;
		break;
	case FACTOR:
		wrong = get_u32(&value, text, 0) || value > 255;
		break;
	case SHARE:
		wrong = get_number(&number, text, "%") || number > 100;
		value = number + 0.5;
		break;
	case STEP:
		attribute = STEP_TIME;
		wrong = get_time(&value, text);
		if (wrong) {
			attribute = STEP_PACKETS;
			wrong = get_number(&number, text, "p");
			value = number;
		}
		break;
	}
	if (wrong)
		return bad(word->name, text, word->expected);
	if (word->form == FACTOR || word->form == SHARE)
		addattr8(n, 1024, attribute, value);
	else
		addattr32(n, 1024, attribute, value);
	return 0;
}

/*
 * Derives parameters from round-trip times in microseconds (RFC 9332, appendix
 * A).
 */
static int put_rtts(struct nlmsghdr *n, __u32 max, __u32 typical)
{
	double third, alpha, beta;
	__u32 tupdate;

	if (!typical)
		typical = max / 6 ? max / 6 : 1;
	else if (!max)
		max = typical * 6;
	if (typical > max)
		return bad("typical_rtt", "", "no more than max_rtt");
	third = max / 3.0;
	tupdate = typical < third ? typical : third;
	if (!tupdate)
		tupdate = 1;
	alpha = (double)tupdate / max / max * 1e6 * 0.1f * 256;
	beta = 0.3f / (double)max * 1e6 * 256;
	if (alpha < 1 || beta < 1)
		return bad("max_rtt", "", "a shorter time");
	addattr32(n, 1024, TUPDATE, tupdate);
	addattr32(n, 1024, TARGET, typical);
	addattr32(n, 1024, ALPHA, alpha);
	addattr32(n, 1024, BETA, beta);
	return 0;
}

static int dualpi2_parse_opt(struct qdisc_util *qu, int argc, char **argv,
			     struct nlmsghdr *n, const char *dev)
{
	struct rtattr *tail = addattr_nest(n, 1024, TCA_OPTIONS | NLA_F_NESTED);
	__u32 max_rtt = 0, typical_rtt = 0;
	size_t i;

	for (; argc > 0; argc--, argv++) {
		__u32 *rtt = strcmp(*argv, "max_rtt") == 0 ? &max_rtt :
			     strcmp(*argv, "typical_rtt") == 0 ? &typical_rtt :
			     NULL;

		if (rtt) {
			NEXT_ARG();
			if (get_time(rtt, *argv))
				return bad("RTT", *argv, "a time, as 100ms");
			continue;
		}
		for (i = 0; i < ARRAY_SIZE(flags); i++)
			if (strcmp(*argv, flags[i].name) == 0)
				break;
		if (i < ARRAY_SIZE(flags)) {
			addattr8(n, 1024, flags[i].attribute, flags[i].value);
			continue;
		}
		for (i = 0; i < ARRAY_SIZE(words); i++)
			if (strcmp(*argv, words[i].name) == 0)
				break;
		if (i == ARRAY_SIZE(words)) {
			explain();
			return -1;
		}
		NEXT_ARG();
		if (put_value(n, &words[i], *argv))
			return -1;
	}
	/*
	 * These override the other parameters, wherever they are in the line.
	 */
	if ((max_rtt || typical_rtt) && put_rtts(n, max_rtt, typical_rtt))
		return -1;
	addattr_nest_end(n, tail);
	return 0;
}

/*
 * Prints a parameter; the JSON number is in packets, bytes, microseconds or a
 * share.
 */
static void print_word(const char *name, enum form form, struct rtattr *one)
{
	bool wide = form != SHARE && form != FACTOR;
	unsigned int value = wide ? rta_getattr_u32(one) : rta_getattr_u8(one);
	char text[64];

	print_string(PRINT_FP, NULL, "%s ", name);
	if (form == GAIN)
		print_float(PRINT_ANY, name, "%f ", value / 256.0);
	else if (form == TIME)
		print_string(PRINT_FP, NULL, "%s ", sprint_time(value, text));
	else if (form == SHARE)
		print_uint(PRINT_ANY, name, "%u%% ", value);
	else if (form == FACTOR)
		print_uint(PRINT_ANY, name, "%u ", value);
	else if (form == BYTES)
		print_uint(PRINT_ANY, name, "%uB ", value);
	else
		print_uint(PRINT_ANY, name, "%up ", value);
	if (form == TIME)
		print_uint(PRINT_JSON, name, NULL, value);
}

static int dualpi2_print_opt(struct qdisc_util *qu, FILE *f, struct rtattr *opt)
{
	struct rtattr *tb[LAST + 1];
	size_t i;

	if (!opt)
		return 0;
	parse_rtattr_nested(tb, LAST, opt);
	for (i = 0; i < ARRAY_SIZE(words); i++) {
		struct rtattr *one = tb[words[i].attribute];
		enum form form = words[i].form;

		if (form == STEP) {
			form = tb[STEP_TIME] ? TIME : PACKETS;
			one = tb[STEP_TIME] ? tb[STEP_TIME] : tb[STEP_PACKETS];
		}
		if (one)
			print_word(words[i].name, form, one);
	}
	for (i = 0; i < ARRAY_SIZE(flags); i++)
		if (tb[flags[i].attribute] &&
		    rta_getattr_u8(tb[flags[i].attribute]) == flags[i].value) {
			print_bool(PRINT_JSON, flags[i].name, NULL, true);
			print_string(PRINT_FP, NULL, "%s ", flags[i].name);
		}
	return 0;
}

static int dualpi2_print_xstats(struct qdisc_util *qu, FILE *f,
				struct rtattr *xstats)
{
	struct xstats st;

	if (!xstats || RTA_PAYLOAD(xstats) < sizeof(st))
		return 0;
	memcpy(&st, RTA_DATA(xstats), sizeof(st));
	print_float(PRINT_ANY, "prob", "  prob %f", st.prob / 4294967295.0);
	print_uint(PRINT_ANY, "delay-c", " delay_c %uus", st.delay_c);
	print_uint(PRINT_ANY, "delay-l", " delay_l %uus", st.delay_l);
	print_uint(PRINT_ANY, "pkts-in-c", " pkts_in_c %u", st.packets_in_c);
	print_uint(PRINT_ANY, "pkts-in-l", " pkts_in_l %u", st.packets_in_l);
	print_uint(PRINT_ANY, "maxq", " maxq %u", st.maxq);
	print_uint(PRINT_ANY, "ecn-mark", " ecn_mark %u", st.ecn_mark);
	print_uint(PRINT_ANY, "step-mark", " step_mark %u", st.step_marks);
	print_int(PRINT_ANY, "credit", " credit %d", st.credit);
	print_uint(PRINT_ANY, "memory-used", " memory_used %u", st.memory_used);
	print_uint(PRINT_ANY, "max-memory-used", " (max %u)",
		   st.max_memory_used);
	print_uint(PRINT_ANY, "memory-limit", " of %u", st.memory_limit);
	print_nl();
	return 0;
}

struct qdisc_util dualpi2_qdisc_util = {
	.id		= "dualpi2",
	.parse_qopt	= dualpi2_parse_opt,
	.print_qopt	= dualpi2_print_opt,
	.print_xstats	= dualpi2_print_xstats,
};
