/* Queue disciplines: generated from crates/ffi/src/lib.rs. */

#ifndef SOJOURN_H
#define SOJOURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 A discipline with its packets.
 */
struct sojourn_qdisc;

/*
 A packet: what a discipline looks at, and a number by which the caller knows it.
 */
struct sojourn_packet {
  /*
   The caller's.
   */
  uint64_t id;
  /*
   As the link counts them.
   */
  uint32_t bytes;
  /*
   A hash, the same for all packets of a flow.
   */
  uint32_t flow;
  /*
   The two bits of the IP header: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE. A mark sets it to 3.
   */
  uint8_t ecn;
};

/*
 Is told of each packet that is dropped, with the caller's `context` and a reason (see `sojourn_reason`).
 */
typedef void (*sojourn_dropped)(void *context, const struct sojourn_packet *packet, uint8_t reason);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Makes a discipline from a line of `tc` words, such as "codel limit 1000 target 5ms", before a link of `rate` bits per second
 whose full packets have `mtu` bytes. Its random numbers follow from `seed`. Null if the line is not understood: `error` (of
 `error_size` bytes, may be null) then says why.

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
 A packet arrives at `now` nanoseconds, no earlier than any time before. It, or others in its place, may be dropped.

 # Safety
 `qdisc` comes from `sojourn_new`, nobody else uses it meanwhile; `dropped` may be called with `context`.
 */
void sojourn_enqueue(struct sojourn_qdisc *qdisc,
                     uint64_t now,
                     struct sojourn_packet packet,
                     sojourn_dropped dropped,
                     void *context);

/*
 The link asks for a packet at `now` nanoseconds. True if there is one, in `packet`. Asking an empty discipline counts too.

 # Safety
 As for `sojourn_enqueue`; `packet` has room for one.
 */
bool sojourn_dequeue(struct sojourn_qdisc *qdisc,
                     uint64_t now,
                     struct sojourn_packet *packet,
                     sojourn_dropped dropped,
                     void *context);

/*
 When to ask again after nothing came although packets wait, in nanoseconds; `UINT64_MAX`: never.

 # Safety
 `qdisc` comes from `sojourn_new`.
 */
uint64_t sojourn_next_event(const struct sojourn_qdisc *qdisc);

/*
 Packets that wait.

 # Safety
 `qdisc` comes from `sojourn_new`.
 */
uint64_t sojourn_packets(const struct sojourn_qdisc *qdisc);

/*
 Bytes that wait.

 # Safety
 `qdisc` comes from `sojourn_new`.
 */
uint64_t sojourn_backlog(const struct sojourn_qdisc *qdisc);

/*
 A reason in words, such as "codel" or "overlimit"; null for a number that is none.
 */
const char *sojourn_reason(uint8_t reason);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* SOJOURN_H */
