/* For the algorithms of kernel/ in user space. As in the kernel, each argument is evaluated once and both are of one type. */
#ifndef SHIM_LINUX_MINMAX_H
#define SHIM_LINUX_MINMAX_H

#define min(a, b) \
	({ __typeof__(a) min_a = (a); __typeof__(b) min_b = (b); (void)(&min_a == &min_b); min_a < min_b ? min_a : min_b; })
#define max(a, b) \
	({ __typeof__(a) max_a = (a); __typeof__(b) max_b = (b); (void)(&max_a == &max_b); max_a > max_b ? max_a : max_b; })
#define clamp(value, low, high) min(max(value, low), high)

#endif
