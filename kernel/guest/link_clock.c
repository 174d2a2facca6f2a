// SPDX-License-Identifier: GPL-2.0-or-later
/* sojourn_link: times, timers, and values that change in steps. */
#include <linux/version.h>

#include "sojourn_link.h"

u64 link_origin;
u64 link_moment;
u64 link_latest;

/* Records how late a timer is handled. */
void link_timer_served(struct hrtimer *timer)
{
	u64 due = ktime_to_ns(hrtimer_get_expires(timer)), now = ktime_get_ns();

	if (now > due && now - due > link_latest)
		link_latest = now - due;
}

void link_timer_set(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *))
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(timer, function, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	timer->function = function;
#endif
}

void link_timer_start(struct hrtimer *timer, u64 when)
{
	hrtimer_start(timer, ns_to_ktime(when), HRTIMER_MODE_ABS_SOFT);
}

/* Advances to @now; returns the value that holds then, which is @value if no step was passed. */
u64 link_step_to(struct link_steps *steps, u64 now, u64 value)
{
	while (steps->next < steps->count && steps->list[steps->next].at + link_origin <= now)
		value = steps->list[steps->next++].value;
	return value;
}

/* Returns the time of the next step; U64_MAX if there is none. */
u64 link_step_next(const struct link_steps *steps)
{
	return steps->next < steps->count ? steps->list[steps->next].at + link_origin : U64_MAX;
}
