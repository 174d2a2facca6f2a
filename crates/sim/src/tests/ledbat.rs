//! LEDBAT in competition with NewReno: the discipline decides whether it yields.

use sojourn_model::plan::{LoadOptions, Plan};

use super::*;

/// The share of the link, in percent, of a LEDBAT flow that starts five seconds after a NewReno flow.
fn share(qdisc: &str) -> f64 {
    let text = format!(
        "duration = \"60s\"\nmeasure = [\"20s\", \"end\"]\n[[hop]]\nrate = \"10mbit\"\ndelay = \"10ms\"\nqdisc = \"{qdisc}\"\n\
         [[flow]]\nkind = \"bulk\"\ncc = \"reno\"\nrtt = \"50ms\"\n\
         [[flow]]\nkind = \"bulk\"\ncc = \"ledbat\"\nrtt = \"50ms\"\nstart = \"5s\"\n"
    );
    let plan = Plan::load("ledbat.toml", text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let output = assert_engines_agree(qdisc, &plan.scenario(0).unwrap_or_else(|e| panic!("{e}")));
    let goodput = |index: usize| output.flows[index].main.goodput_mbit.expect("a bulk flow's goodput");
    100.0 * goodput(1) / (goodput(0) + goodput(1))
}

/// RFC 6817: in a queue longer than its target, LEDBAT leaves the link to others. RFC 8290 §6.3: with a queue of its
/// own it sees no delay but its own, and takes an equal share.
#[test]
fn rfc8290_6_3_ledbat_loses_its_low_priority_below_fq_codel() {
    let (alone, apart) = (share("pfifo limit 250"), share("fq_codel"));
    assert!(alone < 10.0, "{alone} % of a queue that NewReno fills");
    assert!((40.0..60.0).contains(&apart), "{apart} % with a queue of its own");
}
