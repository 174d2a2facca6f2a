//! Comparison of the kernel's byte queue limits with ours, call by call.
#![expect(clippy::print_stdout, reason = "the counts are part of the evidence")]

use proptest::prelude::*;
use sojourn_core::dql::Dql;
use sojourn_core::rng::Rng;
use sojourn_oracle::dql::{self, Library, Limits};
use sojourn_oracle::skipped;

const NO_SOURCES: &str =
    "no kernel sources or no C compiler at build time; crates/oracle/fetch-sources.sh gets the sources";

/// One call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    /// An object of this many bytes is queued if the limit allows it, or unconditionally if `asked` is false.
    Queue { bytes: u32, asked: bool },
    /// A fraction of the bytes in flight, in 1/16, is completed, some ticks later.
    Complete { share: u32, ticks: u64 },
}

/// Both implementations in the same state.
struct Pair {
    ours: Dql,
    kernels: Limits,
    jiffies: u64,
    hold: u32,
    rises: usize,
    falls: usize,
}

impl Pair {
    /// If `most` is zero, the upper bound is the largest possible one.
    fn new(library: &'static Library, hold: u32, jiffies: u64, (least, most): (u32, u32)) -> Pair {
        let greatest = u32::MAX / 2 - u32::MAX / 16;
        let ours = Dql::bounded(hold, jiffies, least, if most == 0 { greatest } else { most });
        Pair { ours, kernels: library.limits(hold, jiffies, least, most), jiffies, hold, rises: 0, falls: 0 }
    }

    fn call(&mut self, call: Call) {
        let limit = self.ours.limit();
        match call {
            Call::Queue { bytes, asked } => {
                if !asked || self.ours.avail() >= 0 {
                    self.ours.queued(bytes);
                    self.kernels.queued(bytes);
                }
            }
            Call::Complete { share, ticks } => {
                self.jiffies = self.jiffies.wrapping_add(ticks);
                let bytes = (u64::from(self.ours.inflight()) * u64::from(share) / 16) as u32;
                self.ours.completed(bytes, self.jiffies);
                self.kernels.completed(bytes, self.jiffies);
            }
        }
        self.rises += usize::from(self.ours.limit() > limit);
        self.falls += usize::from(self.ours.limit() < limit);
        assert_eq!((self.ours.limit(), self.ours.inflight()), self.kernels.look(), "after {call:?}");
        assert_eq!(self.ours.avail(), self.kernels.avail(), "after {call:?}");
    }
}

fn libraries() -> &'static [Library] {
    if dql::all().is_empty() {
        skipped("byte queue limits against the kernel's", NO_SOURCES);
    }
    dql::all()
}

fn call() -> impl Strategy<Value = Call> {
    let bytes = prop_oneof![Just(60u32), Just(1514), 60u32..9000, Just(65_536)];
    // Exact ties: everything completes, and the tick is that of the hold time or next to it.
    let ticks = prop_oneof![Just(0u64), 0u64..4, 240u64..260];
    prop_oneof![
        3 => (bytes, prop::bool::weighted(0.9)).prop_map(|(bytes, asked)| Call::Queue { bytes, asked }),
        2 => (prop_oneof![Just(16u32), 0u32..16], ticks).prop_map(|(share, ticks)| Call::Complete { share, ticks }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    #[test]
    fn the_limit_is_the_kernel_s_after_every_call(
        calls in prop::collection::vec(call(), 1..200),
        hold in prop_oneof![Just(250u32), 0u32..10],
        jiffies in prop_oneof![Just(0u64), Just(u64::MAX - 300), any::<u64>()],
        bounds in prop_oneof![2 => Just((0u32, 0u32)), 1 => (0u32..5000, 5000u32..20_000)],
    ) {
        for library in libraries() {
            let mut pair = Pair::new(library, hold, jiffies, bounds);
            calls.iter().for_each(|&call| pair.call(call));
        }
    }
}

/// A card whose interrupts complete bursts of drifting sizes. Totals exceed 2^32.
fn long_run(pair: &mut Pair, seed: u64, completions: u32) {
    let mut rng = Rng::stream(seed, "byte queue limits");
    let mut share = 16;
    for round in 0..completions {
        if rng.below(500) == 0 {
            share = 1 + rng.below(16) as u32;
        }
        let bytes = [60, 1514, 1514, 9014, 65_226][rng.below(5) as usize];
        for _ in 0..[200, 3, 0][rng.below(40).min(2) as usize].max(u32::from(round % 7 != 0) * 40) {
            pair.call(Call::Queue { bytes, asked: true });
        }
        let ticks = u64::from(rng.below(3) == 0) * rng.below(u64::from(pair.hold) / 20 + 2);
        pair.call(Call::Complete { share, ticks });
    }
}

#[test]
fn long_sequences_of_completions_give_the_kernel_s_limits() {
    for library in libraries() {
        let (mut rises, mut falls) = (0, 0);
        for seed in 0..20u64 {
            let mut pair = Pair::new(library, 250, seed.wrapping_sub(10), (0, 0));
            long_run(&mut pair, seed, 50_000);
            (rises, falls) = (rises + pair.rises, falls + pair.falls);
        }
        println!(
            "Linux {}: 20 x 50000 completions: the limit rose {rises} times and fell {falls} times",
            library.version
        );
        assert!(rises > 1000 && falls > 1000, "{rises} {falls}");
    }
}
