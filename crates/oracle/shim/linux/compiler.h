/* For the algorithms of kernel/ in user space. */
#ifndef SHIM_LINUX_COMPILER_H
#define SHIM_LINUX_COMPILER_H

#define noinline __attribute__((noinline))

#endif
