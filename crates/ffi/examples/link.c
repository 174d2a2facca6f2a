/* A link of 10 Mbit/s with a queue discipline, for ten seconds. One flow that does not react to
 * congestion offers 12 Mbit/s. This is a starting point for tests of a transport stack. */
#include <inttypes.h>
#include <stdio.h>

#include "sojourn.h"

#define MS UINT64_C(1000000)
#define RATE UINT64_C(10000000)

static void dropped(void *context, const struct sojourn_packet *packet, uint8_t reason)
{
	(void)packet;
	(void)reason;
	++*(uint64_t *)context;
}

int main(int argc, char **argv)
{
	char error[400];
	struct sojourn_qdisc *qdisc = sojourn_new(argc > 1 ? argv[1] : "codel", 1514, RATE, 1, error, sizeof(error));
	uint64_t drops = 0, sent = 0, waited = 0, free_at = 0;
	struct sojourn_packet packet;

	if (!qdisc) {
		fprintf(stderr, "%s\n", error);
		return 2;
	}
	for (uint64_t now = 0; now < 10000 * MS; now += MS) {
		/* One packet per millisecond; its id is the time of arrival. */
		sojourn_enqueue(qdisc, now, (struct sojourn_packet){ .id = now, .bytes = 1500, .flow = 7 }, dropped, &drops);
		while (free_at <= now && sojourn_dequeue(qdisc, now, &packet, dropped, &drops)) {
			waited += now - packet.id;
			free_at = (free_at + MS > now ? free_at : now) + packet.bytes * 8 * 1000 * MS / RATE;
			sent++;
		}
	}
	printf("sent %" PRIu64 ", dropped %" PRIu64 ", waiting %" PRIu64 ", mean wait %" PRIu64 " us\n", sent, drops,
	       sojourn_packets(qdisc), sent ? waited / sent / 1000 : 0);
	sojourn_free(qdisc);
	return 0;
}
