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
