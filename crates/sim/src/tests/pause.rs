//! Flow control between hops, as configured in scenario files.

use sojourn_core::qdisc::DropReason;
use sojourn_measure::LinkWindow;
use sojourn_model::plan::{LoadOptions, Plan};

use super::*;

/// Plays the text of a scenario file in both engines.
fn play(text: &str) -> Output {
    let plan = Plan::load("test.toml", text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    assert_engines_agree(text, &plan.scenario(0).unwrap_or_else(|e| panic!("{e}")))
}

/// A fast router followed by a slow modem, with these keys.
fn two_hops(router: &str, modem: &str, flows: &str) -> Output {
    play(&format!(
        "duration = \"10s\"\nmeasure = [\"2s\", \"end\"]\n[[hop]]\nname = \"router\"\n{router}\n\
         [[hop]]\nname = \"modem\"\nrate = \"2mbit\"\ndelay = \"10ms\"\n{modem}\n{flows}"
    ))
}

const BULK: &str = "[[flow]]\nkind = \"bulk\"\ncount = 2\nrtt = \"50ms\"\n";

fn overlimit(window: &LinkWindow) -> u64 {
    window.drops_by_reason.of(DropReason::Overlimit)
}

#[test]
fn a_paused_hop_has_the_queue_and_the_drops_and_the_throughput_stays() {
    let router = "rate = \"100mbit\"\nqdisc = \"pfifo limit 50\"";
    let [off, on] =
        ["", "pause = true"].map(|pause| two_hops(router, &format!("qdisc = \"pfifo limit 20\"\n{pause}"), BULK));
    let [(router_off, modem_off), (router_on, modem_on)] =
        [&off, &on].map(|output| (&output.links[0].main, &output.links[2].main));
    assert!(modem_off.drops > 0 && router_off.drops == 0 && router_off.paused_fraction.is_none());
    assert!(modem_on.drops == 0 && overlimit(router_on) > 0);
    let queue = |window: &LinkWindow| window.queue_packets.expect("a queue").mean;
    assert!(queue(router_off) < 1.0 && queue(router_on) > 20.0, "{} {}", queue(router_off), queue(router_on));
    // The modem's queue stays between its two thresholds, 16 and 18, except for data in flight.
    let modem = modem_on.queue_packets.expect("a queue");
    assert!(modem.p50 >= 16.0 && modem.max <= 20.0, "{modem:?}");
    assert!(modem_on.utilisation > Some(0.999), "{:?}", modem_on.utilisation);
    // The router sends 2 of 100 Mbit/s and is paused for the rest of the time.
    assert!((0.97..0.99).contains(&router_on.paused_fraction.expect("it can be")), "{:?}", router_on.paused_fraction);
    assert_eq!((modem_on.paused_fraction, on.links[1].main.paused_fraction), (None, None));
}

#[test]
fn the_discipline_before_a_paused_hop_manages_the_queue() {
    let [off, on] = ["", "pause = true"].map(|pause| {
        two_hops("rate = \"100mbit\"\nqdisc = \"fq_codel\"", &format!("qdisc = \"pfifo limit 256\"\n{pause}"), BULK)
    });
    let sum = |output: &Output| [0, 2].map(|i| output.links[i].main.queue_delay_ms.expect("a queue").mean);
    assert!(sum(&off)[0] < 1.0 && sum(&off)[1] > 300.0, "{:?}", sum(&off));
    assert!(on.links[0].main.drops_by_reason.of(DropReason::Codel) > 0);
    assert_eq!(on.links[2].main.drops, 0);
}

/// Floods of the smallest packets, of full packets, and of both.
const FLOODS: [&str; 3] = [
    "[[flow]]\nkind = \"pings\"\nsize = 28\ninterval = \"30us\"\nrtt = \"50ms\"\n",
    "[[flow]]\nkind = \"bulk\"\ncc = \"fixed 200\"\nrtt = \"50ms\"\n",
    "[[flow]]\nkind = \"bulk\"\ncc = \"fixed 200\"\nrtt = \"50ms\"\n\
     [[flow]]\nkind = \"pings\"\nsize = 28\ninterval = \"100us\"\nrtt = \"50ms\"\n",
];

#[test]
fn the_least_queue_that_is_accepted_never_drops_what_comes_over_the_hop_before() {
    let least = |text: &str| -> String {
        let error = Plan::load("test.toml", text.as_bytes(), &LoadOptions::default()).err().expect("too small");
        let words: Vec<&str> = error.problem.split(' ').collect();
        let at = words.iter().position(|word| *word == "least").expect("the least");
        words[at + 1].trim_end_matches(':').to_owned()
    };
    for link in [
        "rate = \"20mbit\"",
        "rate = \"20mbit\"\ndelay = \"1ms\"",
        "rate = \"20mbit\"\ndelay = \"0s\"\nreverse = { delay = \"3ms\" }",
        "rate = [[\"0s\", \"10mbit\"], [\"3s\", \"20mbit\"]]\ndelay = [[\"0s\", \"100us\"], [\"4s\", \"2ms\"], [\"5s\", \"0s\"]]",
        "rate = \"20mbit\"\ndelay = \"200us\"\nnic = { ring = 64, bql = true }",
    ] {
        for (qdisc, unit) in [("pfifo", 1), ("bfifo", 1), ("pfifo_head_drop", 1)] {
            for flood in FLOODS {
                let text = |limit: &str| {
                    format!(
                        "duration = \"8s\"\n[[hop]]\nname = \"a\"\nqdisc = \"pfifo limit 100\"\n{link}\n[[hop]]\n\
                         name = \"b\"\nrate = \"2mbit\"\nqdisc = \"{qdisc} limit {limit}\"\npause = true\n{flood}"
                    )
                };
                let limit = least(&text(&unit.to_string()));
                let output = play(&text(&limit));
                let (a, b) = (&output.links[0].main, &output.links[2].main);
                assert_eq!(b.drops, 0, "{link} {qdisc} {limit} {flood}");
                assert!(overlimit(a) > 0 && a.paused_fraction > Some(0.1), "{link} {qdisc} {limit} {flood}");
            }
        }
    }
}

#[test]
fn pauses_go_from_hop_to_hop_and_in_either_direction() {
    let hop = |name: &str, rate: u32, first: bool, last: bool| {
        let pause = |no: bool| if no { "" } else { "pause = true" };
        format!(
            "[[hop]]\nname = \"{name}\"\nrate = \"{rate}mbit\"\ndelay = \"10us\"\nqdisc = \"pfifo limit 60\"\n{}\n\
             reverse = {{ rate = \"{}mbit\", qdisc = \"pfifo limit 60\"{}{} }}\n",
            pause(first),
            18 / rate,
            if last { "" } else { ", " },
            pause(last)
        )
    };
    let path = hop("a", 9, true, false) + &hop("b", 3, false, false) + &hop("c", 2, false, true);
    let flows = "[[flow]]\nkind = \"bulk\"\ncc = \"fixed 40\"\ncount = 8\nrtt = \"50ms\"\ndirection = \"both\"\n";
    let output = play(&format!("duration = \"5s\"\nmeasure = [\"1s\", \"end\"]\n{path}{flows}"));
    let drops: Vec<u64> = output.links.iter().map(|link| link.main.drops).collect();
    assert!(drops[0] > 0 && drops[5] > 0, "{drops:?}");
    assert_eq!(drops[1..5], [0; 4]);
    let paused: Vec<bool> = output.links.iter().map(|link| link.main.paused_fraction > Some(0.0)).collect();
    assert_eq!(paused, [true, false, true, true, false, true]);
}

#[test]
fn a_frame_takes_the_delay_of_the_other_direction_and_finds_a_transmission_that_ends() {
    // On the router's link a packet of 1500 bytes takes 1.2 ms; the modem pauses it at more than 6 packets.
    let output = two_hops(
        "rate = \"10mbit\"\noverhead = 0\nqdisc = \"pfifo limit 1000\"\ndelay = \"0s\"\nreverse = { delay = \"600us\" }",
        "overhead = 0\nqdisc = \"pfifo limit 36\"\npause = true",
        "[[flow]]\nkind = \"bulk\"\ncc = \"fixed 100\"\niw = 100\nrtt = \"50ms\"\n",
    );
    let of = |link| output.packets.iter().filter(move |packet| packet.link == link && packet.bytes == 1500);
    let (router, modem): (Vec<_>, Vec<_>) = (of(0).collect(), of(2).collect());
    // Headroom: 26 packets of 28 bytes take 600 us at 10 Mbit/s. With two more, the modem pauses the router above 36 -
    // 28 = 8 packets.
    let waiting = |now: Time| modem.iter().filter(|packet| packet.arrival <= now && packet.start >= now).count();
    let stop = modem.iter().find(|packet| waiting(packet.arrival) > 8).expect("it fills").arrival;
    // One more transmission begins when the frame is sent, and continues after the frame arrives. The router then sends
    // nothing until another frame resumes it.
    let late: Vec<_> = router.iter().filter(|packet| packet.start >= stop).take(2).collect();
    assert_eq!((late[0].start, late[0].end), (stop, stop + Span(1_200_000)));
    let go = modem.iter().map(|packet| packet.start).find(|&start| start > stop && waiting(start + Span(1)) <= 6);
    assert_eq!(late[1].start, go.expect("it drains") + Span(600_000));
}
