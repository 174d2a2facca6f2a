// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * sojourn_link: a sink in the kernel, which reads the data of a TCP socket and discards it.
 *
 * It reads like a program that is woken for each arrival, but without switches into the program and back. It runs after
 * the softirqs that brought the data, when a program would run.
 */
#include <linux/interrupt.h>
#include <linux/net.h>

#include "sojourn_link.h"

#ifdef CONFIG_UML
struct sink {
	struct list_head due;
	struct socket *sock;
};

/* Sinks whose sockets have data. */
static LIST_HEAD(sinks_due);

/*
 * tcp_recvmsg() tunes the window after each packet, tcp_read_sock() only after the last one. Therefore this function tunes
 * the window before each packet except the first.
 */
static int sink_take(read_descriptor_t *desc, struct sk_buff *skb, unsigned int offset, size_t length)
{
	if (desc->written)
		tcp_rcv_space_adjust(desc->arg.data);
	desc->written += length;
	return length;
}

static void sink_read_due(struct tasklet_struct *tasklet)
{
	struct sink *sink, *next;

	list_for_each_entry_safe(sink, next, &sinks_due, due) {
		struct sock *sk = sink->sock->sk;
		read_descriptor_t desc = { .count = 1, .arg.data = sk };

		bh_lock_sock(sk);
		/* A system call of a program that holds the socket comes first. */
		if (!sock_owned_by_user(sk)) {
			list_del_init(&sink->due);
			tcp_read_sock(sk, &desc, sink_take);
		}
		bh_unlock_sock(sk);
	}
	if (!list_empty(&sinks_due))
		tasklet_schedule(tasklet);
}

static DECLARE_TASKLET(sink_tasklet, sink_read_due);

static void sink_on_data(struct sock *sk)
{
	struct sink *sink = sk->sk_user_data;

	local_bh_disable();
	if (list_empty(&sink->due)) {
		list_add_tail(&sink->due, &sinks_due);
		tasklet_schedule(&sink_tasklet);
	}
	local_bh_enable();
}

/* Starts to read the socket of a file descriptor. It stays open as long as the guest runs. */
int sink_read(int fd)
{
	struct sink *sink;
	struct socket *sock;
	int err;

	sock = sockfd_lookup(fd, &err);
	if (!sock)
		return err;
	sink = kzalloc(sizeof(*sink), GFP_KERNEL);
	if (!sink || sock->sk->sk_protocol != IPPROTO_TCP) {
		kfree(sink);
		sockfd_put(sock);
		return sink ? -EINVAL : -ENOMEM;
	}
	INIT_LIST_HEAD(&sink->due);
	sink->sock = sock;
	lock_sock(sock->sk);
	sock->sk->sk_user_data = sink;
	sock->sk->sk_data_ready = sink_on_data;
	release_sock(sock->sk);
	/* Reads the data that has arrived already. */
	sink_on_data(sock->sk);
	return 0;
}
#else
/* A kernel without our patches does not export the functions that are needed: there the program reads. */
int sink_read(int fd)
{
	return -EOPNOTSUPP;
}
#endif
