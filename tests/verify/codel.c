/*
 * CoDel after RFC 8289 §5, as a program that `sojourn verify` can ask: a trace
 * on standard input, fates on standard output. With -DFAULT=N one decision is
 * wrong; tests/test_verify.py says which, and that each is noticed.
 */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef FAULT
#define FAULT 0
#endif
#define FAULTY(n) (FAULT == (n))

#define TARGET 5000000u
#define INTERVAL 100000000u
#define LIMIT 1000u
#define MTU 1514u
#define MOST 10000000u

struct packet {
	uint64_t at;
	uint64_t gone;
	uint32_t bytes;
	const char *fate;
};

static struct packet *packets;
static uint32_t *queue;
static uint32_t arrived, head, tail, bytes;

/* RFC 8289's state. */
static uint64_t first_above_time, drop_next;
static uint32_t count, lastcount;
static bool dropping;

static uint64_t control_law(uint64_t t)
{
	if (FAULTY(9))
		return t + INTERVAL / count;
	return t + (uint64_t)(INTERVAL / sqrt(count));
}

static struct packet *remove_head(void)
{
	struct packet *packet = &packets[queue[head++]];

	bytes -= packet->bytes;
	return packet;
}

/* The head, and whether it may be dropped (§5.6). */
static struct packet *dodequeue(uint64_t now, bool *ok_to_drop)
{
	struct packet *packet;
	uint64_t sojourn;
	uint32_t left;

	*ok_to_drop = false;
	if (head == tail) {
		first_above_time = 0;
		return NULL;
	}
	left = bytes;
	packet = remove_head();
	if (!FAULTY(11))
		left = bytes;
	sojourn = now - packet->at;
	if (FAULTY(14) && head != tail)
		sojourn = now - packets[queue[tail - 1]].at;
	if (FAULTY(4) ? sojourn <= TARGET : sojourn < TARGET) {
		if (!FAULTY(12))
			first_above_time = 0;
	} else if (left <= MTU && !FAULTY(10)) {
		first_above_time = 0;
	} else if (first_above_time == 0) {
		first_above_time = now + (FAULTY(17) ? 0 : INTERVAL);
		*ok_to_drop = FAULTY(17);
	} else if (now >= first_above_time) {
		*ok_to_drop = true;
	}
	return packet;
}

static void drop(struct packet *packet, uint64_t now)
{
	packet->fate = "dropped";
	packet->gone = now;
	if (FAULTY(20))
		bytes += packet->bytes;
}

/* Drops the packet, gives the next; the fault drops the next and gives the packet. */
static struct packet *drop_and_go_on(struct packet *packet, uint64_t now, bool *ok_to_drop, bool wrong)
{
	struct packet *next = dodequeue(now, ok_to_drop);

	if (wrong && next) {
		drop(next, now);
		return packet;
	}
	drop(packet, now);
	return next;
}

/* §5.5 */
static void dequeue(uint64_t now)
{
	bool ok;
	struct packet *packet = dodequeue(now, &ok);

	if (packet && dropping) {
		if (!ok && !FAULTY(13))
			dropping = false;
		while (dropping && packet && now >= drop_next) {
			packet = drop_and_go_on(packet, now, &ok, FAULTY(2));
			if (!FAULTY(8))
				count++;
			if (!ok && !FAULTY(13))
				dropping = false;
			else
				drop_next = control_law(FAULTY(3) ? now : drop_next);
			if (FAULTY(19))
				break;
		}
	} else if (packet && ok) {
		uint32_t delta = count - lastcount;
		uint64_t soon = (FAULTY(7) ? 8 : 16) * (uint64_t)INTERVAL;

		packet = drop_and_go_on(packet, now, &ok, FAULTY(1));
		dropping = true;
		count = 1;
		if (delta > 1 && !FAULTY(6) && (now - drop_next < soon || FAULTY(5)))
			count = delta;
		drop_next = control_law(now);
		if (!FAULTY(18))
			lastcount = count;
	} else if (!packet) {
		dropping = false;
	}
	if (packet) {
		packet->fate = "delivered";
		packet->gone = now;
	}
}

static void enqueue(uint64_t now, uint32_t length)
{
	struct packet *packet = &packets[arrived];
	uint32_t limit = LIMIT + FAULTY(15);

	*packet = (struct packet){ .at = now, .bytes = length, .fate = "queued" };
	if (tail - head >= limit && FAULTY(16))
		drop(remove_head(), now);
	if (tail - head >= limit) {
		drop(packet, now);
	} else {
		queue[tail++] = arrived;
		bytes += length;
	}
	arrived++;
}

int main(void)
{
	char line[256], op[16];
	uint64_t now;

	packets = calloc(MOST, sizeof(*packets));
	queue = calloc(MOST, sizeof(*queue));
	if (!packets || !queue || !fgets(line, sizeof(line), stdin))
		return 1;
	while (fgets(line, sizeof(line), stdin) && arrived < MOST) {
		uint32_t length = 0;

		if (sscanf(line, "%" SCNu64 ",%15[a-z],%*u,%" SCNu32, &now, op, &length) < 2)
			return 1;
		if (strcmp(op, "enqueue") == 0)
			enqueue(now, length);
		else
			dequeue(now);
	}
	puts("packet,fate_ns,fate");
	for (uint32_t number = 0; number < arrived; number++)
		printf("%" PRIu32 ",%" PRIu64 ",%s\n", number, packets[number].gone, packets[number].fate);
	return 0;
}
