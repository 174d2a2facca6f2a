//! Comparison of the kernel's codel with ours, packet by packet. `cargo test -p sojourn-oracle -- --nocapture` shows
//! the coverage.
#![expect(clippy::print_stdout, reason = "the counts are part of the evidence")]

use std::fmt::Write;

use sojourn_core::qdisc::DropReason;
use sojourn_core::qdisc::codel::Params;
use sojourn_core::qdisc::tc::Spec;
use sojourn_core::units::Time;
use sojourn_oracle::kernel::{self, Kernel, View};
use sojourn_oracle::mutant::{Fault, Mutant};
use sojourn_oracle::skipped;
use sojourn_oracle::trace::{Departure, MTU, Plan, plans};
use sojourn_replay::{Fate, Row};

const NO_KERNEL: &str =
    "no kernel headers or no C compiler at build time; crates/oracle/fetch-headers.sh gets the headers";

/// The hard cases that occurred in a trace.
#[derive(Clone, Copy, Default, Debug)]
struct Seen {
    codel_drops: usize,
    overlimit: usize,
    marks: usize,
    reentries: usize,
    several_at_once: usize,
    wraps_while_dropping: usize,
}

fn spec(plan: &Plan, variant: &str) -> Spec {
    format!("{} variant {variant}", plan.line).parse().expect("the plan's line")
}

fn params(plan: &Plan) -> Params {
    match spec(plan, "linux") {
        Spec::Codel(params) => params,
        other => panic!("{other} is no codel"),
    }
}

/// The kernel's results for a trace, and its coverage.
fn kernels(kernel: &'static Kernel, plan: &Plan) -> (Vec<Row>, Seen) {
    let mut seen = Seen::default();
    let mut before = (View::default(), Time::ZERO);
    let watch = |codel: &kernel::Codel, now: Time, departure: &Departure| {
        let view = codel.view();
        seen.several_at_once += usize::from(departure.dropped.len() > 1);
        seen.reentries += usize::from(before.0.dropping == 0 && view.dropping == 1 && view.count > 1);
        let wrapped = (before.1.0 >> 42) != (now.0 >> 42);
        seen.wraps_while_dropping += usize::from(wrapped && before.0.dropping == 1 && view.dropping == 1);
        before = (view, now);
    };
    let rows = plan.play(&mut kernel.codel(&params(plan), MTU), watch);
    let count = |fate| rows.iter().filter(|row| row.fate == fate).count();
    seen.codel_drops = count(Fate::Dropped(DropReason::Codel));
    seen.overlimit = count(Fate::Dropped(DropReason::Overlimit));
    seen.marks = count(Fate::Marked);
    (rows, seen)
}

fn first_difference(ours: &[Row], theirs: &[Row]) -> Option<String> {
    let place = ours.iter().zip(theirs).position(|(a, b)| a != b)?;
    Some(format!("packet {place}: ours {:?}, the kernel's {:?}", ours[place], theirs[place]))
}

#[test]
fn replay_gives_every_packet_the_fate_that_the_kernels_codel_gives_it() {
    for variant in ["linux", "linux7"] {
        if !kernel::all().iter().any(|kernel| kernel.variant == variant) {
            skipped(&format!("codel variant {variant} against the kernel's"), NO_KERNEL);
        }
    }
    let plans = plans();
    for kernel in kernel::all() {
        let mut report = String::new();
        let (mut total, mut with_many_drops) = (Seen::default(), 0);
        for plan in &plans {
            let (theirs, seen) = kernels(kernel, plan);
            let spec = spec(plan, kernel.variant);
            let ours =
                sojourn_replay::run(&plan.csv(), &plan.name, &spec, plan.rate, MTU).expect("a well-formed trace");
            assert_eq!(ours.len(), theirs.len());
            let difference = first_difference(&ours, &theirs);
            assert_eq!(difference, None, "Linux {}, trace {}", kernel.version, plan.name);
            writeln!(report, "  {}: {seen:?}", plan.name).expect("a string takes everything");
            with_many_drops += usize::from(seen.codel_drops > 1000);
            total.codel_drops += seen.codel_drops;
            total.overlimit += seen.overlimit;
            total.marks += seen.marks;
            total.reentries += seen.reentries;
            total.several_at_once += seen.several_at_once;
            total.wraps_while_dropping += seen.wraps_while_dropping;
        }
        println!(
            "Linux {} ({}): {} traces equal\n{report}  in all: {total:?}",
            kernel.version,
            kernel.variant,
            plans.len()
        );
        assert!(with_many_drops >= 15, "{with_many_drops} traces with over 1000 CoDel drops\n{report}");
        let Seen { overlimit, marks, reentries, several_at_once, wraps_while_dropping, .. } = total;
        assert!(overlimit > 0 && marks > 0 && reentries > 0 && several_at_once > 0, "{total:?}");
        assert!(wraps_while_dropping > 0, "{total:?}");
    }
}

#[test]
fn the_traces_offer_the_loads_that_they_are_said_to() {
    let plans = plans();
    assert_eq!((plans[0].load, plans[17].load), (60, 200));
    for (plan, offered) in plans.iter().filter_map(|plan| Some((plan, plan.offered()?))) {
        assert!((offered / plan.load as f64 - 1.).abs() < 0.15, "{}: {offered} %", plan.name);
    }
}

#[test]
fn ce_threshold_marks_what_the_kernel_marks() {
    for kernel in kernel::all() {
        for mut plan in plans().into_iter().filter(|plan| [70, 180].contains(&plan.load)) {
            plan.line.push_str(" ce_threshold 20ms");
            let (theirs, seen) = kernels(kernel, &plan);
            let ours = sojourn_replay::run(&plan.csv(), &plan.name, &spec(&plan, kernel.variant), plan.rate, MTU);
            let difference = first_difference(&ours.expect("a well-formed trace"), &theirs);
            assert_eq!(difference, None, "Linux {}, trace {}", kernel.version, plan.name);
            assert!(seen.marks > 50_000, "{seen:?}");
        }
    }
    if kernel::all().is_empty() {
        skipped("ce_threshold against the kernel's", NO_KERNEL);
    }
}

#[test]
fn the_comparison_sees_every_planted_fault() {
    let Some(kernel) = kernel::all().iter().find(|kernel| kernel.variant == "linux") else {
        return skipped("faults planted in codel", NO_KERNEL);
    };
    let plans = plans();
    let truths: Vec<_> = plans.iter().map(|plan| kernels(kernel, plan).0).collect();
    let differing = |fault| {
        let differs = |(plan, truth): &(&Plan, &Vec<Row>)| {
            plan.play(&mut Mutant::new(&params(plan), MTU, fault), |_, _, _| {}) != **truth
        };
        plans.iter().zip(&truths).filter(differs).count()
    };
    assert_eq!(differing(Fault::None), 0, "the copy without a fault equals the kernel");
    for fault in Fault::ALL {
        let caught = differing(fault);
        println!("{fault:?}: seen in {caught} of {} traces", plans.len());
        assert!(caught > 0, "{fault:?} is not seen");
    }
}

#[test]
fn linux_7_and_6_differ_where_we_say_they_do() {
    let find = |variant: &str| kernel::all().iter().find(|kernel| kernel.variant == variant);
    let (Some(six), Some(seven)) = (find("linux"), find("linux7")) else {
        return skipped("Linux 7 against Linux 6", "headers of one of them are missing");
    };
    // Every packet waits for 20 s before a dequeue: Linux 6 keeps dropping, Linux 7 stops after 256 and continues
    // later.
    let mut trace = String::from("time_ns,op,flow,bytes,ecn\n");
    for _ in 0..9000 {
        trace.push_str("0,enqueue,1,1500,0\n");
    }
    for at in [10, 200, 20_000, 20_000, 20_150, 40_000] {
        writeln!(trace, "{at}000000,dequeue,,,").expect("a string takes everything");
    }
    let ops = sojourn_replay::parse(trace.as_bytes(), "stall", true).expect("well-formed");
    let plan = Plan { name: "stall".into(), line: "codel limit 10000".into(), load: 0, rate: None, ops };
    let fates = |kernel: &'static Kernel| {
        let (theirs, seen) = kernels(kernel, &plan);
        let ours = sojourn_replay::run(trace.as_bytes(), "stall", &spec(&plan, kernel.variant), None, MTU)
            .expect("well-formed");
        assert_eq!(first_difference(&ours, &theirs), None, "Linux {}", kernel.version);
        seen.codel_drops
    };
    let (six, seven) = (fates(six), fates(seven));
    assert!(seven < 600 && six > 5000, "{six} and {seven} drops");
}
