// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Prints the state of a flow when its target, its RTT or its episode of
 * dropping changes, or an epoch ends. Lines are numbered, so that none is
 * missed.
 */
static void ccaq_watch(struct ccaq_sched_data *q, struct ccaq_flow *flow,
		       struct sk_buff *skb, const struct ccaq_vars *was)
{
	const struct ccaq_vars *vars = &flow->vars;
	static u32 number;
	bool ended;

	ended = (vars->raised && !was->raised) ||
		(was->began && !was->raised && was->active && !vars->active);
	if (!ended && vars->target == was->target &&
	    ccaq_rtt(vars) == ccaq_rtt(was) && vars->dropping == was->dropping)
		return;
	pr_err("ccaq %u %llu %u %u %u %u %u %u %u\n", number++, ktime_get_ns(),
	       (u32)(flow - q->flows), skb ? ntohl(ip_hdr(skb)->saddr) : 0,
	       skb ? ntohl(ip_hdr(skb)->daddr) : 0,
	       (u32)div_u64((u64)vars->target << CCAQ_SHIFT, NSEC_PER_USEC),
	       (u32)div_u64((u64)ccaq_rtt(vars) << CCAQ_SHIFT, NSEC_PER_USEC),
	       (u32)vars->dropping, (u32)ended);
}
