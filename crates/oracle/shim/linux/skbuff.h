/* A packet with the fields that CoDel reads. */
#ifndef SHIM_LINUX_SKBUFF_H
#define SHIM_LINUX_SKBUFF_H

struct sk_buff {
	u32 id;
	u32 len;
	u32 enqueue_time;
	u8 dsfield;
};

#endif
