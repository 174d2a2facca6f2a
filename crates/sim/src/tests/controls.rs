//! The purposes of congestion controls, in both engines.

use sojourn_core::packet::Ecn;
use sojourn_model::plan::{LoadOptions, Plan};
use sojourn_model::records::Kind;

use super::*;

/// Plays the text of a scenario file in both engines.
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

/// RFC 8257 §1: with marks above a short threshold, DCTCP keeps the queue there and the link full, whereas NewReno,
/// which halves its window for every mark, leaves the link idle.
#[test]
fn rfc8257_dctcp_fills_the_link_above_a_queue_that_marks_early() {
    let run = |cc: &str| {
        let output = play(&format!(
            "duration = \"10s\"\nmeasure = [\"2s\", \"end\"]\n[[hop]]\nrate = \"100mbit\"\ndelay = \"5ms\"\n\
             qdisc = \"codel limit 10000 target 200ms interval 1s ecn ce_threshold 2ms\"\noverhead = 0\n\
             [[flow]]\nkind = \"bulk\"\ncount = 2\ncc = \"{cc}\"\necn = true\nstart = \"uniform 0s..100ms\"\n"
        ));
        let main = &output.links[0].main;
        assert_eq!(main.drops, 0, "{cc}");
        (main.utilisation.expect("a constant rate"), main.sojourn_ms.expect("packets passed"))
    };
    let (full, sojourn) = run("dctcp");
    assert!(full > 0.99 && (1.0..2.5).contains(&sojourn.p50) && sojourn.p99 < 4.0, "{full} {sojourn:?}");
    let (idle, _) = run("reno");
    assert!(idle < 0.97 && idle < full, "{idle}");
}

/// Prague alone fills the link. As it is paced at the rate of its window, it rarely fills the window, and must increase
/// it nevertheless. ACKs of many segments that report no mark are not taken as marks.
#[test]
fn prague_fills_a_link_alone_whether_acks_are_many_or_few() {
    for (mbit, acks) in [(50, "delayed"), (100, "delayed"), (200, "delayed"), (50, "window 20")] {
        let output = play(&format!(
            "duration = \"40s\"\nmeasure = [\"20s\", \"end\"]\n[[hop]]\nrate = \"{mbit}mbit\"\ndelay = \"10ms\"\n\
             qdisc = \"dualpi2\"\noverhead = 0\n\
             [[flow]]\nkind = \"bulk\"\ncc = \"prague\"\necn = true\nacks = \"{acks}\"\n",
        ));
        let main = &output.links[0].main;
        let used = main.utilisation.expect("a constant rate");
        assert!(used > if acks == "delayed" { 0.95 } else { 0.8 }, "{mbit} Mbit/s, acks {acks}: {used}");
        assert!(main.marks > 0, "{mbit} Mbit/s, acks {acks}");
    }
}

/// RFC 9332 §1: with CUBIC in the other queue of one dualpi2, Prague has about a millisecond of queue, CUBIC its own,
/// and they share the link. This holds for RFC 9438's CUBIC; Linux's, in whole segments, has less than half of Prague's
/// share here.
#[test]
fn rfc9332_prague_keeps_the_l4s_queue_short_beside_cubic_and_both_get_their_share() {
    let output = play(
        "duration = \"40s\"\nmeasure = [\"15s\", \"end\"]\n[[hop]]\nrate = \"40mbit\"\ndelay = \"10ms\"\n\
         qdisc = \"dualpi2\"\noverhead = 0\n\
         [host]\nwindows = \"rfc\"\n\
         [[flow]]\nkind = \"bulk\"\ncc = \"prague\"\necn = true\n[[flow]]\nkind = \"bulk\"\ncc = \"cubic\"\n",
    );
    let delay = |flow: usize| output.flows[flow].main.rtt_ms.expect("samples").mean - 20.0;
    let goodput = |flow: usize| output.flows[flow].main.goodput_mbit.expect("a bulk flow's");
    assert!(delay(0) < 2.0, "{} ms of queue", delay(0));
    assert!((8.0..25.0).contains(&delay(1)), "{} ms of queue", delay(1));
    let ratio = goodput(0) / goodput(1);
    assert!((0.5..2.0).contains(&ratio), "{} and {} Mbit/s", goodput(0), goodput(1));
    assert!(output.links[0].main.utilisation.expect("a constant rate") > 0.97);
}

/// RFC 3168 §6.1.1.1: a sender whose SYN was lost does not request ECN again, and none of its packets can be marked.
#[test]
fn rfc3168_6_1_1_1_a_connection_whose_syn_was_lost_sends_nothing_ecn_capable() {
    let output = play(
        "duration = \"30s\"\n[[hop]]\nrate = \"542kbit\"\ndelay = \"90ms\"\noverhead = 0\n\
         qdisc = \"red limit 120000 min 10000 max 30000 avpkt 1514 burst 12 probability 0.02 bandwidth 542kbit ecn\"\n\
         [[flow]]\nkind = \"bulk\"\ncount = 18\necn = true\nstart = \"uniform 0s..1s\"\n\
         [[flow]]\nkind = \"web\"\nrate = 1\necn = true\n",
    );
    let at = |link| output.packets.iter().filter(move |one| one.link == link);
    let lost: Vec<u32> =
        at(0).filter(|one| one.kind == Kind::Syn && one.fate != Fate::Delivered).map(|one| one.connection).collect();
    let (mut capable, mut not) = (0, 0);
    for one in at(0).filter(|one| one.kind == Kind::Data) {
        let forgone = lost.contains(&one.connection);
        assert!(!forgone || one.ecn_in == Ecn::NotEct, "connection {}: {:?}", one.connection, one.ecn_in);
        (capable, not) = (capable + u32::from(!forgone), not + u32::from(forgone));
    }
    assert!(capable > 100 && not > 100, "{capable} {not}");
}
