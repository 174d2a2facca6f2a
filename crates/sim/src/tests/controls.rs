//! What congestion controls are for, in both engines.

use sojourn_model::plan::{LoadOptions, Plan};

use super::*;

/// Plays a scenario file's text in both engines.
fn play(text: &str) -> Output {
    let plan = Plan::load("controls.toml", text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    assert_engines_agree(text, &plan.scenario(0).unwrap_or_else(|e| panic!("{e}")))
}

/// RFC 9406 §1: classic slow start overshoots the buffer and loses many packets; HyStart++ leaves before.
#[test]
fn rfc9406_hystart_plus_plus_leaves_slow_start_before_the_queue_overflows() {
    for cc in ["reno", "cubic"] {
        let drops = |hystart: &str| {
            let output = play(&format!(
                "duration = \"6s\"\n[[hop]]\nrate = \"12mbit\"\ndelay = \"50ms\"\nqdisc = \"pfifo limit 800\"\noverhead = 0\n\
                 [host]\nhystart = {hystart}\n[[flow]]\nkind = \"bulk\"\ncc = \"{cc}\"\n"
            ));
            output.links[0].main.drops
        };
        let (classic, plus) = (drops("false"), drops("\"plus\""));
        assert!(classic > 200 && plus == 0, "{cc}: {classic} and {plus} drops");
    }
}

/// Vegas keeps alpha to beta packets in a queue that has room for a thousand.
#[test]
fn vegas_keeps_two_to_four_packets_in_the_queue() {
    let output = play(
        "duration = \"40s\"\nmeasure = [\"10s\", \"end\"]\n[[hop]]\nrate = \"12mbit\"\ndelay = \"25ms\"\noverhead = 0\n\
         qdisc = \"pfifo limit 1000\"\n[[flow]]\nkind = \"bulk\"\ncc = \"vegas\"\n",
    );
    let main = &output.links[0].main;
    let sojourn = main.sojourn_ms.expect("packets passed");
    // A packet takes 1 ms.
    assert!((2.0..5.5).contains(&sojourn.mean), "{}", sojourn.mean);
    assert!(main.utilisation.expect("a constant rate") > 0.999 && main.drops == 0);
}
