/* For kernel/ccaq_impl.h in user space. */
#ifndef SHIM_LINUX_COMPILER_H
#define SHIM_LINUX_COMPILER_H

#define noinline __attribute__((noinline))

#endif
