// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * sojourn_link: a sink in the kernel, which reads the data of a TCP socket and discards it.
 *
 * It reads like a program that is woken for each arrival, but without switches into the program and back. It runs after
 * the softirqs that brought the data, when a program would run. A program that waits for a message lets the sink read all
 * but the last byte: it is woken once, when that byte arrives.
 */
#include <linux/interrupt.h>
#include <linux/net.h>

#include "sojourn_link.h"

#ifdef CONFIG_UML
struct sink {
	struct list_head due;
	struct socket *sock;
	/* The function that the socket called when data arrived. */
	void (*data_ready)(struct sock *sk);
	/* Whether the sink reads the data before this sequence number only, and then leaves the socket to the program. */
	bool bounded;
	u32 until;
};

/* Sinks whose sockets have data. */
static LIST_HEAD(sinks_due);

/*
 * tcp_recvmsg() tunes the window after each packet, tcp_read_sock() only after the last one. Therefore this function tunes
 * the window before each packet except the first.
 */
static int sink_take(read_descriptor_t *desc, struct sk_buff *skb, unsigned int offset, size_t length)
{
	/* desc->count bytes may still be read. tcp_read_sock() ends when this function returns 0. */
	length = min(length, desc->count);
	if (desc->written && length)
		tcp_rcv_space_adjust(desc->arg.data);
	desc->written += length;
	desc->count -= length;
	return length;
}

/* Returns how many bytes the sink may read. */
static size_t sink_remaining(const struct sink *sink)
{
	s32 bytes = sink->until - tcp_sk(sink->sock->sk)->copied_seq;

	return sink->bounded ? max(bytes, 0) : SIZE_MAX;
}

/* Leaves the socket to the program, which reads the rest. */
static void sink_end(struct sink *sink)
{
	struct sock *sk = sink->sock->sk;

	sk->sk_data_ready = sink->data_ready;
	sk->sk_user_data = NULL;
	if (!skb_queue_empty_lockless(&sk->sk_receive_queue))
		sk->sk_data_ready(sk);
}

static void sink_read_due(struct tasklet_struct *tasklet)
{
	struct sink *sink, *next;

	list_for_each_entry_safe(sink, next, &sinks_due, due) {
		struct socket *sock = sink->sock;
		struct sock *sk = sock->sk;
		read_descriptor_t desc = { .arg.data = sk };
		bool ends = false;

		bh_lock_sock(sk);
		/* A system call of a program that holds the socket comes first. */
		if (!sock_owned_by_user(sk)) {
			list_del_init(&sink->due);
			desc.count = sink_remaining(sink);
			if (desc.count)
				tcp_read_sock(sk, &desc, sink_take);
			ends = !sink_remaining(sink);
			if (ends)
				sink_end(sink);
		}
		bh_unlock_sock(sk);
		if (ends) {
			kfree(sink);
			sockfd_put(sock);
		}
	}
	if (!list_empty(&sinks_due))
		tasklet_schedule(tasklet);
}

static DECLARE_TASKLET(sink_tasklet, sink_read_due);

static void sink_on_data(struct sock *sk)
{
	struct sink *sink;

	local_bh_disable();
	sink = sk->sk_user_data;
	if (sink && list_empty(&sink->due)) {
		list_add_tail(&sink->due, &sinks_due);
		tasklet_schedule(&sink_tasklet);
	}
	local_bh_enable();
}

/*
 * Starts to read the socket of a file descriptor: the next bytes, at most S32_MAX, or all that arrive if their number is
 * zero. The socket stays open until they are read.
 */
int sink_read(int fd, u64 bytes)
{
	struct sink *sink = NULL;
	struct socket *sock;
	struct sock *sk;
	int err;

	sock = sockfd_lookup(fd, &err);
	if (!sock)
		return err;
	sk = sock->sk;
	err = -EINVAL;
	if (sk->sk_protocol != IPPROTO_TCP || bytes > S32_MAX)
		goto refused;
	err = -ENOMEM;
	sink = kzalloc(sizeof(*sink), GFP_KERNEL);
	if (!sink)
		goto refused;
	INIT_LIST_HEAD(&sink->due);
	sink->sock = sock;
	sink->bounded = bytes;
	lock_sock(sk);
	err = -EBUSY;
	if (sk->sk_user_data) {
		release_sock(sk);
		goto refused;
	}
	sink->until = tcp_sk(sk)->copied_seq + bytes;
	sink->data_ready = sk->sk_data_ready;
	sk->sk_user_data = sink;
	sk->sk_data_ready = sink_on_data;
	release_sock(sk);
	/* Reads the data that has arrived already. */
	sink_on_data(sk);
	return 0;
refused:
	kfree(sink);
	sockfd_put(sock);
	return err;
}
#else
/* A kernel without our patches does not export the functions that are needed: there the program reads. */
int sink_read(int fd, u64 bytes)
{
	return -EOPNOTSUPP;
}
#endif
