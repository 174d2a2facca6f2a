/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ccaq: recognises the first packets of TCP connections, whose handshakes show
 * the RTT. Shared by sch_ccaq and sch_ccaq_paper.
 */
#ifndef SOJOURN_CCAQ_SYN_H
#define SOJOURN_CCAQ_SYN_H

#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/skbuff.h>
#include <linux/tcp.h>
#include <net/ip.h>
#include <net/ipv6.h>

/*
 * Returns the offset of the TCP header of an IPv4 or IPv6 packet, or a negative
 * number without one.
 */
static inline int ccaq_tcp_offset(const struct sk_buff *skb)
{
	union {
		struct iphdr	v4;
		struct ipv6hdr	v6;
	} room;
	int offset = skb_network_offset(skb);
	const struct ipv6hdr *v6;
	const struct iphdr *v4;
	__be16 fragment;
	u8 next;

	switch (skb_protocol(skb, true)) {
	case htons(ETH_P_IP):
		v4 = skb_header_pointer(skb, offset, sizeof(room.v4), &room.v4);
		if (!v4 || v4->version != 4 || v4->ihl < 5 ||
		    v4->protocol != IPPROTO_TCP ||
		    v4->frag_off & htons(IP_OFFSET))
			return -1;
		return offset + v4->ihl * 4;
	case htons(ETH_P_IPV6):
		v6 = skb_header_pointer(skb, offset, sizeof(room.v6), &room.v6);
		if (!v6 || v6->version != 6)
			return -1;
		next = v6->nexthdr;
		offset = ipv6_skip_exthdr(skb, offset + sizeof(room.v6), &next,
					  &fragment);
		/* Only the first fragment has a TCP header. */
		return next == IPPROTO_TCP ? offset : -1;
	}
	return -1;
}

/* Whether a packet is a SYN or SYN-ACK. */
static inline bool ccaq_opens(const struct sk_buff *skb)
{
	int offset = ccaq_tcp_offset(skb);
	const struct tcphdr *tcp;
	struct tcphdr room;

	if (offset < 0)
		return false;
	tcp = skb_header_pointer(skb, offset, sizeof(room), &room);
	return tcp && tcp->syn;
}

#endif
