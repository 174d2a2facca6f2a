/* Queue disciplines: generated from crates/ffi/src/lib.rs. */

#ifndef SOJOURN_H
#define SOJOURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 A discipline and its packets.
 */
struct sojourn_qdisc;

/*
 A packet: the fields that a discipline reads, and an id for the caller.
 */
struct sojourn_packet {
  /*
   Chosen by the caller.
   */
  uint64_t id;
  /*
   Length in bytes, as the link counts it.
   */
  uint32_t bytes;
  /*
   Flow hash, equal for all packets of a flow.
   */
  uint32_t flow;
  /*
   The ECN field of the IP header: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE. A mark sets it to 3.
   */
  uint8_t ecn;
};

/*
 Called for each packet that is dropped, with the caller's `context` and a reason (see `sojourn_reason`).
 */
typedef void (*sojourn_dropped)(void *context, const struct sojourn_packet *packet, uint8_t reason);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Creates a discipline from a line as for `tc`, such as "codel limit 1000 target 5ms", in front of a link of `rate`
 bits per second whose full packets have `mtu` bytes. `seed` initialises its random numbers. Returns null if the line
 is invalid, with a message in `error` (`error_size` bytes; may be null).

 # Safety
 `line` is a string that ends with a zero byte; `error` has room for `error_size` bytes or is null.
 */
struct sojourn_qdisc *sojourn_new(const char *line,
                                  uint32_t mtu,
                                  uint64_t rate,
                                  uint64_t seed,
                                  char *error,
                                  size_t error_size);

/*
 Frees a discipline and its packets; null is allowed.

 # Safety
 `qdisc` comes from `sojourn_new` and is not used afterwards.
 */
void sojourn_free(struct sojourn_qdisc *qdisc);

/*
 Enqueues a packet at time `now` in nanoseconds, which must not decrease between calls. The packet, or others instead
 of it, may be dropped.

 # Safety
 `qdisc` comes from `sojourn_new` and is not used concurrently; `dropped` may be called with `context`.
 */
void sojourn_enqueue(struct sojourn_qdisc *qdisc,
                     uint64_t now,
                     struct sojourn_packet packet,
                     sojourn_dropped dropped,
                     void *context);

/*
 Dequeues a packet at time `now` in nanoseconds. Returns true and stores it in `packet` if there is one. Dequeues
 from an empty discipline matter too.

 # Safety
 As for `sojourn_enqueue`; `packet` has room for one.
 */
bool sojourn_dequeue(struct sojourn_qdisc *qdisc,
                     uint64_t now,
                     struct sojourn_packet *packet,
                     sojourn_dropped dropped,
                     void *context);

/*
 Returns the time in nanoseconds of the next dequeue, after one returned no packet although packets are queued;
 `UINT64_MAX` means never.

 # Safety
 `qdisc` comes from `sojourn_new`.
 */
uint64_t sojourn_next_event(const struct sojourn_qdisc *qdisc);

/*
 Returns the number of queued packets.

 # Safety
 `qdisc` comes from `sojourn_new`.
 */
uint64_t sojourn_packets(const struct sojourn_qdisc *qdisc);

/*
 Returns the number of queued bytes.

 # Safety
 `qdisc` comes from `sojourn_new`.
 */
uint64_t sojourn_backlog(const struct sojourn_qdisc *qdisc);

/*
 Returns the name of a drop reason, such as "codel" or "overlimit"; null for an unknown number.
 */
const char *sojourn_reason(uint8_t reason);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* SOJOURN_H */
