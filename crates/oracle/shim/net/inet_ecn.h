/* The ECN field (RFC 3168 section 5), in the two low bits of dsfield. */
#ifndef SHIM_NET_INET_ECN_H
#define SHIM_NET_INET_ECN_H

static inline int skb_get_dsfield(struct sk_buff *skb)
{
	return skb->dsfield;
}

static inline int INET_ECN_set_ce(struct sk_buff *skb)
{
	if ((skb->dsfield & 3) == 0)
		return 0;
	skb->dsfield |= 3;
	return 1;
}

#endif
