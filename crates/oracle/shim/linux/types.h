/* The definitions that the kernel's codel.h and codel_impl.h need, and the algorithms of kernel/, for
 * user space. Those files are compiled unmodified; everything in this folder is ours. */
#ifndef SHIM_LINUX_TYPES_H
#define SHIM_LINUX_TYPES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;

#define NSEC_PER_USEC 1000L
#define NSEC_PER_MSEC 1000000L

#define unlikely(condition) (condition)
/* In the kernel, different types stop the build; all uses in codel.h are of one type. */
#define typecheck(type, value) ((void)sizeof(type), 1)
#define WRITE_ONCE(place, value) ((place) = (value))
#define READ_ONCE(place) (place)
#define max_t(type, a, b) ((type)(a) > (type)(b) ? (type)(a) : (type)(b))
#define do_div(number, base) ((number) /= (base))

static inline u32 reciprocal_scale(u32 value, u32 end)
{
	return (u32)(((u64)value * end) >> 32);
}

#endif
