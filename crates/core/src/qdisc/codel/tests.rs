//! CoDel: the vectors of the literature, and RFC 8289 statement by statement. The kernel's own code is compared in the
//! oracle crate.

use alloc::vec::Vec;

use super::*;
use crate::packet::Ecn;
use crate::qdisc::AnyQdisc;
use crate::qdisc::tc::Spec;
use crate::qdisc::testing::{CONTEXT, Parcel, counter};
use proptest::prelude::{Just, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};

const MS: u64 = 1_000_000;

/// A discipline and the packets that it dropped.
struct Bench {
    qdisc: AnyQdisc<Parcel>,
    drops: Vec<(Parcel, DropReason)>,
    arrived: u32,
}

impl Bench {
    fn new(line: &str) -> Bench {
        let spec: Spec = line.parse().expect(line);
        Bench { qdisc: spec.build(&CONTEXT), drops: Vec::new(), arrived: 0 }
    }

    fn put_one(&mut self, at: u64, bytes: u32, ecn: Ecn) {
        let packet = Parcel { id: self.arrived, bytes, ecn, ..Parcel::default() };
        self.arrived += 1;
        self.qdisc.enqueue(Time(at), packet, &mut self.drops);
    }

    fn put(&mut self, at: u64, count: u32) {
        (0..count).for_each(|_| self.put_one(at, 1500, Ecn::NotEct));
    }

    fn take(&mut self, at: u64) -> Option<Parcel> {
        self.qdisc.dequeue(Time(at), &mut self.drops)
    }

    fn stat(&self, key: &str) -> u64 {
        counter(&self.qdisc.stats(), key)
    }

    fn codel_drops(&self) -> usize {
        self.drops.iter().filter(|(_, reason)| *reason == DropReason::Codel).count()
    }

    /// Dequeues a packet every `every` ns from `from` to `to`, and returns the times of the drops.
    fn drop_times(&mut self, from: u64, to: u64, every: u64) -> Vec<u64> {
        let mut times = Vec::new();
        let mut now = from;
        while now <= to {
            let before = self.codel_drops();
            self.take(now);
            times.extend((before..self.codel_drops()).map(|_| now));
            now += every;
        }
        times
    }
}

/// Returns the drop times, in ms, of an endless backlog that is dequeued every `every` ns. Its delay is above target
/// from 0 on.
fn endless(line: &str, every: u64, to: u64) -> Vec<f64> {
    let mut bench = Bench::new(line);
    bench.put(0, 100_000);
    let start = 5 * MS; // here the delay reaches the target
    bench.drop_times(start, start + to, every).iter().map(|t| (t - start) as f64 / MS as f64).collect()
}

#[test]
fn vector_an_endless_backlog_read_every_ms_drops_when_the_rfc_says() {
    let drops = endless("codel limit 200000 variant rfc8289", MS, 690 * MS);
    assert_eq!(drops, [100., 200., 271., 329., 379., 424., 464., 502., 538., 571., 603., 633., 662., 689.]);
}

#[test]
fn vector_ns2_drops_an_endless_backlog_as_the_rfc() {
    let drops = endless("codel limit 200000 variant ns2", MS, 690 * MS);
    assert_eq!(drops, [100., 200., 271., 329., 379., 424., 464., 502., 538., 571., 603., 633., 662., 689.]);
}

/// Ends dropping with `count` 14, and builds another queue after `pause`. Returns the time in ms from when its delay
/// reaches the target until its first drop, and the `count` with which dropping resumed.
fn ns2_again(pause: u64) -> (f64, u64) {
    let mut bench = Bench::new("codel limit 200000 variant ns2");
    bench.put(0, 800);
    bench.drop_times(5 * MS, 695 * MS, MS);
    assert_eq!((bench.stat("dropping"), bench.stat("count")), (1, 14));
    while bench.take(696 * MS).is_some() {}
    let from = 696 * MS + pause;
    bench.put(from, 4000);
    let drops = bench.drop_times(from + 5 * MS, from + 200 * MS, MS / 10);
    ((drops[0] - from - 5 * MS) as f64 / MS as f64, bench.stat("lastcount"))
}

#[test]
fn vector_ns2_resumes_within_eight_intervals_sooner_and_with_two_less() {
    // drop_next was 716 ms. 100 ms / sqrt(14) = 26.73 ms; a packet leaves every 0.1 ms.
    assert_eq!(ns2_again(100 * MS), (26.8, 12));
    assert_eq!(ns2_again(700 * MS), (26.8, 12));
    assert_eq!(ns2_again(900 * MS), (100.0, 1), "later it begins anew");
}

#[test]
fn vector_ns2_count_decays_by_two_or_above_128_by_a_64th() {
    let resumed = [2, 3, 128, 129, 1000].map(|count| Ns2::<true>::resumed(count, 0));
    assert_eq!(resumed, [None, Some(1), Some(126), Some(126), Some(984)]);
    assert_eq!(Ns2::<false>::resumed(1000, 0), Some(998), "sfqcodel's earlier state has no such decay");
}

#[test]
fn vector_ns2_counts_a_drop_only_if_the_next_packet_is_late_too() {
    for (line, count) in [("codel variant ns2", 1), ("codel variant rfc8289", 2)] {
        let mut bench = Bench::new(line);
        bench.put(0, 202);
        bench.drop_times(6 * MS, 203 * MS, MS);
        bench.put(203 * MS, 10);
        // The second drop is due at 206 ms: it takes the last old packet.
        assert_eq!(bench.drop_times(204 * MS, 210 * MS, MS), [206 * MS], "{line}");
        assert_eq!((bench.stat("count"), bench.stat("dropping")), (count, 0), "{line}");
    }
}

#[test]
fn vector_ns2_never_drops_while_no_more_than_the_largest_packet_seen_is_left() {
    let mut bench = Bench::new("codel variant ns2");
    // Never more than 300 bytes left, old ones: below ns-2's least packet of 256 bytes plus one.
    for at in (0..1000).map(|i| i * 10 * MS) {
        (0..if at == 0 { 3 } else { 1 }).for_each(|_| bench.put_one(at, 100, Ecn::NotEct));
        bench.take(at + 9 * MS);
    }
    assert_eq!((bench.codel_drops(), bench.qdisc.packets()), (0, 2));
    (0..20).for_each(|_| bench.put_one(10_000 * MS, 100, Ecn::NotEct));
    assert!(bench.drop_times(10_010 * MS, 10_200 * MS, 12 * MS).len() == 1, "an RFC MTU of 1514 bytes would hide it");
}

fn assert_near(times: &[f64], expected: &[f64], tolerance: f64) {
    assert!(times.len() >= expected.len(), "{times:?}");
    for (time, expected) in times.iter().zip(expected) {
        assert!((time - times[0] - expected).abs() < tolerance, "{time} against {expected} in {times:?}");
    }
}

#[test]
fn vector_the_idealised_spacing_of_the_rfc_shrinks_with_the_square_root() {
    let drops = endless("codel limit 200000 variant rfc8289", MS / 100, 600 * MS);
    let expected = [0., 100., 170.71, 228.45, 278.45, 323.17, 363.99, 401.79, 437.14, 470.48];
    assert_near(&drops, &expected, 0.02);
}

#[test]
fn vector_linux_spaces_its_drops_by_one_newton_step_each() {
    for line in ["codel limit 200000", "codel limit 200000 variant linux7"] {
        let drops = endless(line, MS / 100, 600 * MS);
        assert_near(&drops, &[0., 100., 150.00, 206.25, 255.03, 299.18, 339.59, 377.11, 412.26, 445.44], 0.04);
    }
}

#[test]
fn vector_the_newton_step_is_the_kernels_integer_arithmetic() {
    // Computed from the formula x (3 - count x²) / 2 in Q0.32, truncated to 16 bits after each step.
    let roots: Vec<u16> = (2..6)
        .scan(Linux::first_root(), |root, count| {
            *root = Linux::next_root(*root, count);
            Some(*root)
        })
        .collect();
    for (root, spacing) in roots.iter().zip([50.0, 56.25, 48.78, 44.15]) {
        let interval = Linux::tick(100 * MS);
        let step = Linux::control_law(0, interval, *root);
        assert!((f64::from(step) * 1.024e-3 - spacing).abs() < 0.02, "{step} ticks against {spacing} ms");
    }
}

#[test]
fn vector_ns3_twenty_packets() {
    let (target, interval) = (5 * MS, 100 * MS);
    for line in ["codel limit 500", "codel limit 500 variant linux7", "codel limit 500 variant rfc8289"] {
        let mut bench = Bench::new(line);
        bench.put(0, 20);
        assert!(bench.take(2 * target).is_some());
        assert_eq!((bench.codel_drops(), bench.qdisc.packets()), (0, 19), "{line}: above target, first time");
        assert!(bench.take(2 * target + 2 * interval).is_some());
        assert_eq!((bench.codel_drops(), bench.qdisc.packets()), (1, 17), "{line}: one dropped, the next delivered");
        assert!(bench.take(2 * target + 2 * interval).is_some());
        assert_eq!((bench.codel_drops(), bench.qdisc.packets()), (1, 16), "{line}: not at once again");
        assert!(bench.take(2 * target + 4 * interval).is_some());
        assert!(bench.codel_drops() > 2, "{line}: several drops are due together");
    }
}

#[test]
fn vector_ns3_five_hundred_and_three_packets_overflow_by_three() {
    let mut bench = Bench::new("codel limit 500");
    bench.put(0, 503);
    assert_eq!((bench.drops.len(), bench.stat("drop_overlimit"), bench.qdisc.packets()), (3, 3, 500));
}

const ALL: [&str; 4] = [
    "codel limit 1000",
    "codel limit 1000 variant linux7",
    "codel limit 1000 variant rfc8289",
    "codel limit 1000 variant ns2",
];

#[test]
fn rfc8289_1_enqueue_only_stamps_and_tail_drops_do_not_touch_codel() {
    for line in ["codel limit 10", "codel limit 10 variant rfc8289"] {
        let mut bench = Bench::new(line);
        bench.put(7, 5);
        let before: Vec<_> = ["count", "lastcount", "dropping", "ldelay"].iter().map(|key| bench.stat(key)).collect();
        bench.put(8, 20);
        assert_eq!(bench.drops.len(), 15);
        assert!(bench.drops.iter().all(|(_, reason)| *reason == DropReason::Overlimit));
        assert!(bench.drops.iter().all(|(packet, _)| packet.id >= 10), "the arriving packets are refused");
        let after: Vec<_> = ["count", "lastcount", "dropping", "ldelay"].iter().map(|key| bench.stat(key)).collect();
        assert_eq!(before, after);
        assert_eq!(bench.take(9).map(|packet| packet.enqueue_time), Some(Time(7)));
    }
}

#[test]
fn rfc8289_2_the_defaults_are_5_ms_and_100_ms() {
    let params = Params::default();
    assert_eq!((params.target, params.interval), (Span::from_millis(5), Span::from_millis(100)));
    assert_eq!(params.target * 20, params.interval);
}

#[test]
fn rfc8289_3_only_a_whole_interval_above_target_makes_a_drop() {
    for line in ALL {
        let mut bench = Bench::new(line);
        bench.put(0, 900);
        // Above target for 99 ms: nothing; then one packet below target resets, and it takes another 100 ms.
        assert_eq!(bench.drop_times(6 * MS, 105 * MS, MS), [], "{line}");
        let mut bench = Bench::new(line);
        bench.put(0, 60);
        bench.drop_times(6 * MS, 65 * MS, MS);
        bench.put(63 * MS, 1);
        bench.put(65 * MS, 500);
        // The packet of 63 ms leaves at 66 ms, 3 ms old.
        let times = bench.drop_times(66 * MS, 300 * MS, MS);
        assert_eq!(bench.drops[0].0.enqueue_time, Time(65 * MS), "{line}");
        assert!((170..=171).contains(&(times[0] / MS)), "{line}: above target from 70 ms on: {times:?}");
    }
}

#[test]
fn rfc8289_4_nothing_is_dropped_while_no_more_than_an_mtu_is_left() {
    for line in ALL {
        let mut bench = Bench::new(line);
        for at in (0..1000).map(|i| i * 10 * MS) {
            // Always old, but after each removal a single packet of 1500 bytes (at most an MTU) is left.
            bench.put(at, if at == 0 { 2 } else { 1 });
            bench.take(at + 9 * MS);
        }
        assert_eq!((bench.codel_drops(), bench.qdisc.packets()), (0, 1), "{line}");
    }
}

#[test]
fn rfc8289_5_a_burst_that_drains_within_an_interval_loses_nothing() {
    for line in ALL {
        let mut bench = Bench::new(line);
        for start in (0..10).map(|i| i * 150 * MS) {
            bench.put(start, 100);
            assert_eq!(bench.drop_times(start, start + 100 * MS, MS), [], "{line}");
            assert_eq!(bench.qdisc.packets(), 0);
        }
    }
}

#[test]
fn rfc8289_6_the_next_packet_is_delivered_and_the_schedule_runs_from_the_old_drop_next() {
    let mut bench = Bench::new("codel limit 1000 variant rfc8289");
    bench.put(0, 900);
    assert_eq!(bench.take(10 * MS).map(|p| p.id), Some(0));
    assert_eq!(bench.take(110 * MS).map(|p| p.id), Some(2), "1 is dropped, 2 delivered");
    assert_eq!((bench.drops[0].0.id, bench.stat("count")), (1, 1));
    // drop_next is 210 ms. The link stalls: at 300 ms the drops of 210 and 280.7 ms are due, with counts 2 and 3;
    // the next, at 338.4 ms, is due after it. From now on, two drops would have been impossible.
    assert_eq!(bench.take(300 * MS).map(|p| p.id), Some(5));
    assert_eq!((bench.codel_drops(), bench.stat("count")), (3, 3));
    let next = 210. + 100. / 2f64.sqrt() + 100. / 3f64.sqrt();
    assert_eq!(bench.drop_times((next * 1e6) as u64 - MS, (next * 1e6) as u64 + MS, MS / 4).len(), 1);
    assert!(bench.take((next * 1e6) as u64 + 2 * MS).is_some());
}

#[test]
fn rfc8289_7_a_delay_below_target_ends_dropping_and_nothing_is_pending() {
    for line in ALL {
        let mut bench = Bench::new(line);
        bench.put(0, 200);
        bench.drop_times(6 * MS, 190 * MS, MS);
        assert_eq!((bench.stat("dropping"), bench.codel_drops()), (1, 1), "{line}");
        while bench.qdisc.packets() > 0 {
            bench.take(190 * MS);
        }
        bench.put(190 * MS, 200);
        bench.take(191 * MS);
        assert_eq!(bench.stat("dropping"), 0, "{line}");
        // The old drop_next passes, and delays rise again: no drop before a new interval is over.
        let times = bench.drop_times(192 * MS, 294 * MS, MS);
        assert_eq!(times, [], "{line}");
    }
}

/// Waits for this number of drops, lets the delay fall below target, and lets it rise again after a pause. Returns
/// `count` before and after re-entry.
fn reentry(line: &str, drops: usize, pause: u64) -> (u64, u64) {
    let mut bench = Bench::new(line);
    bench.put(0, 950);
    let mut now = 6 * MS;
    while bench.codel_drops() < drops {
        bench.take(now);
        now += MS;
    }
    let count = bench.stat("count");
    while bench.qdisc.packets() > 0 {
        // Emptied at once: the queue's state must not see old packets.
        let old = bench.qdisc.packets();
        bench.take(now);
        assert!(bench.qdisc.packets() < old);
    }
    let before = bench.codel_drops();
    now += pause;
    bench.put(now, 950);
    while bench.codel_drops() == before {
        now += MS;
        bench.take(now);
    }
    (count, bench.stat("count"))
}

#[test]
fn rfc8289_8_dropping_resumes_its_pace_within_16_intervals() {
    for line in ALL.into_iter().filter(|line| !line.contains("ns2")) {
        let (count, resumed) = reentry(line, 8, 10 * MS);
        assert_eq!((count, resumed), (8, 7), "{line}: count - lastcount");
        let (count, fresh) = reentry(line, 8, 1700 * MS);
        assert_eq!((count, fresh), (8, 1), "{line}: forgotten after 16 intervals");
        let (count, fresh) = reentry(line, 2, 10 * MS);
        assert_eq!((count, fresh), (2, 1), "{line}: a delta of one is no pace");
    }
}

#[test]
fn rfc8289_9_an_empty_queue_resets_first_above_time() {
    for line in ALL {
        let mut bench = Bench::new(line);
        bench.put(0, 30);
        bench.take(10 * MS); // above target; first_above_time is 110 ms
        while bench.take(20 * MS).is_some() {}
        // Old again at the first look: without the reset the clock of the first time would run on.
        bench.put(100 * MS, 30);
        assert_eq!(bench.drop_times(111 * MS, 130 * MS, MS), [], "{line}");
    }
}

#[test]
fn rfc8289_10_the_first_spacing_is_the_interval() {
    for (line, interval) in [("codel limit 5000 target 65ms interval 300ms", 300), ("codel limit 5000", 100)] {
        let mut bench = Bench::new(line);
        bench.put(0, 5000);
        let times = bench.drop_times(70 * MS, 1100 * MS, MS / 4);
        assert!(((times[1] - times[0]) / MS).abs_diff(interval) <= 1, "{line}: {times:?}");
    }
}

/// Runs an unresponsive source at `load` times the link's packet rate for `seconds`. The link sends one packet per ms,
/// and one per 4 ms from `slow_from` on. Returns the sojourn times of the departures in ms.
fn overload(line: &str, load: f64, seconds: u64, slow_from: u64) -> (Bench, Vec<f64>) {
    let mut bench = Bench::new(line);
    let (mut delays, mut due, mut next_departure) = (Vec::new(), 0.0, 0);
    for now in (0..seconds * 1000).map(|ms| ms * MS) {
        let slow = now >= slow_from;
        due += if slow { load / 4. } else { load };
        while due >= 1. {
            bench.put(now, 1);
            due -= 1.;
        }
        if now >= next_departure {
            delays.extend(bench.take(now).map(|packet| Time(now).since(packet.enqueue_time).as_millis_f64()));
            next_departure = now + if slow { 4 * MS } else { MS };
        }
    }
    (bench, delays)
}

#[test]
fn rfc8289_11_a_change_of_the_links_rate_needs_no_new_parameters() {
    // (The half about long-lived TCP is a test of the simulator.) A source of 1.05 times the link's rate, which falls
    // to a quarter after 60 s: both queues are brought below 2.5 targets, with the same parameters.
    for line in ["codel limit 100000", "codel limit 100000 variant rfc8289"] {
        let (_, delays) = overload(line, 1.05, 180, 60_000 * MS);
        let (fast, slow) = (&delays[50_000..60_000], &delays[delays.len() - 10_000..]);
        let median = |slice: &[f64]| {
            let mut sorted = slice.to_vec();
            sorted.sort_by(f64::total_cmp);
            sorted[sorted.len() / 2]
        };
        assert!(median(fast) < 12.5, "{line}: {} ms", median(fast));
        assert!(median(slow) < 25.0, "{line}: {} ms", median(slow));
    }
}

#[test]
fn rfc8289_12_against_an_unresponsive_source_drops_ramp_up_until_the_delay_is_below_target() {
    for line in ["codel limit 100000", "codel limit 100000 variant rfc8289"] {
        let (bench, delays) = overload(line, 1.25, 120, u64::MAX);
        let worst = delays.iter().copied().fold(0., f64::max);
        assert!(worst > 300., "{line}: the queue grows at first: {worst}");
        let first_below = delays.iter().skip(200).position(|delay| *delay < 5.);
        assert!(first_below.is_some(), "{line}: never below target");
        let count: usize = bench.codel_drops();
        assert!(count > 20_000, "{line}: {count} of 150000 packets, of which 30000 are too many");
    }
}

#[test]
fn rfc8289_13_the_clock_is_finer_than_a_millisecond() {
    assert_eq!(Linux::tick(MS), 976);
    assert_eq!(Linux7::tick(MS), 976);
    assert_eq!(Rfc8289::tick(MS), MS);
}

/// One queue of several before the same link.
struct OneOfSeveral {
    mine: Queue<Parcel>,
    others: u64,
}

impl Source<Parcel> for OneOfSeveral {
    fn pop(&mut self, packet: &mut Parcel) -> bool {
        self.mine.pop(packet)
    }
    fn backlog(&self) -> u64 {
        self.mine.backlog() + self.others
    }
}

#[test]
fn rfc8289_14_with_several_queues_the_mtu_test_takes_the_whole_backlog_of_the_link() {
    let drops_with = |others| {
        let control = Control::<Linux>::new(Span::from_millis(5), Span::from_millis(100), None, 1514, false);
        let (mut vars, mut stats, mut drops) = (Vars::default(), Stats::default(), Vec::new());
        let mut packet = Parcel::default();
        let mut source = OneOfSeveral { mine: Queue { packets: Ring::default(), backlog: 0 }, others };
        for at in (0..100).map(|i| i * 10 * MS) {
            // Two small packets, 10 ms old: never more than an MTU of this queue's own.
            for _ in 0..2 {
                source.mine.packets.push(Parcel { bytes: 100, enqueue_time: Time(at), ..Parcel::default() });
                source.mine.backlog += 100;
            }
            vars.dequeue(Time(at + 10 * MS), &mut packet, &control, &mut stats, &mut source, &mut drops);
            vars.dequeue(Time(at + 10 * MS), &mut packet, &control, &mut stats, &mut source, &mut drops);
        }
        drops.len()
    };
    assert_eq!(drops_with(0), 0);
    assert!(drops_with(10_000) > 5);
}

#[test]
fn linux_compares_strictly_where_the_rfc_does_not() {
    // Exact ties: ticks of 1024 ns; first_above_time at the tick 100 000 000 / 1024 after the first look.
    let at = |tick: u64| tick * 1024;
    let interval = u64::from(Linux::tick(100 * MS));
    for (line, drops) in [("codel limit 50", 0), ("codel limit 50 interval 100ms variant rfc8289", 1)] {
        let mut bench = Bench::new(line);
        bench.put(0, 40);
        bench.take(at(10_000));
        let tie = if drops == 0 { at(10_000 + interval) } else { at(10_000) + 100 * MS };
        bench.take(tie);
        assert_eq!(bench.codel_drops(), drops, "{line}");
        bench.take(tie + 1024);
        assert_eq!(bench.codel_drops(), 1, "{line}");
    }
}

/// On Linux's 32-bit clock, a time more than 37 minutes ago looks like the future. Therefore a `drop_next` of long ago
/// must not be compared.
#[test]
fn linux_drops_although_its_clock_has_turned_halfway_since_the_last_drop() {
    for (line, rest) in [("codel", 40 * 60_000 * MS), ("codel variant linux7", 60 * 60_000 * MS)] {
        for before in [false, true] {
            let mut bench = Bench::new(line);
            if before {
                bench.put(0, 50);
                assert_eq!(bench.drop_times(10 * MS, 130 * MS, 10 * MS), [120 * MS], "{line}");
                while bench.take(140 * MS).is_some() {}
            }
            bench.put(rest, 50);
            let first = bench.drop_times(rest + 10 * MS, rest + 150 * MS, 10 * MS);
            assert_eq!(first, [rest + 120 * MS], "{line}, dropped before: {before}");
        }
    }
}

#[test]
fn linux7_drops_at_most_256_in_one_dequeue_and_starts_its_schedule_anew() {
    let run = |line| {
        let mut bench = Bench::new(line);
        bench.put(0, 5000);
        bench.take(10 * MS);
        bench.take(200 * MS);
        assert_eq!(bench.codel_drops(), 1);
        bench.take(20_000 * MS);
        let at_once = bench.codel_drops() - 1;
        bench.take(20_000 * MS);
        (at_once, bench.codel_drops() - 1 - at_once)
    };
    assert_eq!(run("codel limit 5000 variant linux7"), (256, 0));
    let (at_once, again) = run("codel limit 5000");
    assert!(at_once > 2000 && again == 0, "{at_once}, {again}");
}

#[test]
fn linux7_makes_no_step_shorter_than_a_tick() {
    assert_eq!(Linux::control_law(7, 1, 30_000), 7);
    assert_eq!(Linux7::control_law(7, 1, 30_000), 8);
}

#[test]
fn ecn_marks_the_packet_that_would_have_been_dropped() {
    for line in ["codel limit 1000 ecn", "codel limit 1000 ecn variant linux7", "codel limit 1000 ecn variant rfc8289"]
    {
        let mut bench = Bench::new(line);
        for i in 0..900 {
            bench.put_one(0, 1500, if i % 2 == 0 { Ecn::Ect0 } else { Ecn::NotEct });
        }
        let (mut marked, mut now) = (0, 6 * MS);
        while now < 600 * MS {
            marked += usize::from(bench.take(now).is_some_and(|p| p.ecn == Ecn::Ce));
            now += MS;
        }
        assert!(marked > 2 && bench.codel_drops() > 2, "{line}: {marked} marks, {} drops", bench.codel_drops());
        assert_eq!(bench.stat("ecn_mark") as usize, marked);
        assert!(bench.drops.iter().all(|(packet, _)| packet.ecn == Ecn::NotEct), "{line}");
    }
}

#[test]
fn ce_threshold_marks_what_waited_longer_and_is_ecn_capable() {
    for line in ["codel ce_threshold 1ms", "codel ce_threshold 1ms variant rfc8289"] {
        let mut bench = Bench::new(line);
        bench.put_one(0, 1500, Ecn::Ect0);
        bench.put_one(0, 1500, Ecn::NotEct);
        bench.put_one(0, 1500, Ecn::Ect1);
        let fields: Vec<_> = [MS / 2, 2 * MS, 2 * MS].iter().map(|at| bench.take(*at).map(|p| p.ecn)).collect();
        assert_eq!(fields, [Some(Ecn::Ect0), Some(Ecn::NotEct), Some(Ecn::Ce)], "{line}");
        assert_eq!((bench.stat("ce_mark"), bench.stat("ecn_mark")), (1, 0));
    }
}

proptest! {
    #[test]
    fn packets_and_bytes_are_conserved_and_leave_in_order(
        line in prop_oneof![Just(ALL[0]), Just(ALL[1]), Just(ALL[2]), Just("codel limit 20 ecn target 1ms interval 5ms")],
        steps in prop::collection::vec((0u64..3_000_000, 0u8..3, 40u32..1515, 0u8..4), 0..600),
    ) {
        let mut bench = Bench::new(line);
        let (mut now, mut delivered, mut bytes_in) = (0, Vec::new(), 0u64);
        for (gap, op, bytes, ecn) in steps {
            now += gap;
            if op == 0 {
                delivered.extend(bench.take(now));
            } else {
                bench.put_one(now, bytes, Ecn::from_bits(ecn));
                bytes_in += u64::from(bytes);
            }
            let dropped: u64 = bench.drops.iter().map(|(p, _)| u64::from(p.bytes)).sum();
            let sent: u64 = delivered.iter().map(|p: &Parcel| u64::from(p.bytes)).sum();
            prop_assert_eq!(bytes_in, sent + dropped + bench.qdisc.backlog());
            prop_assert_eq!(bench.arrived as usize, delivered.len() + bench.drops.len() + bench.qdisc.packets());
        }
        prop_assert!(delivered.windows(2).all(|pair| pair[0].id < pair[1].id));
    }
}
