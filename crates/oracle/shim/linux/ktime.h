/* The kernel's clock. The driver sets it before each operation. */
#ifndef SHIM_LINUX_KTIME_H
#define SHIM_LINUX_KTIME_H

static _Thread_local u64 shim_now_ns;

static inline u64 ktime_get_ns(void)
{
	return shim_now_ns;
}

#endif
