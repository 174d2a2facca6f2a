//! The meaning of a scenario file: defaults, sizes in bdp, the location of the RTT, the order of a sweep's runs.

use std::sync::Arc;

use sojourn_core::packet::Ecn;
use sojourn_core::qdisc::tc::Spec;
use sojourn_core::tcp::{AckPolicy, Cc, Config, HyStart, Recovery};
use sojourn_core::units::{Rate, Span, Time};
use sojourn_model::plan::{LoadOptions, Plan};
use sojourn_model::scenario::{Capacity, QdiscChange, Scenario};
use sojourn_model::workload::stream::{Playout, Transport};
use sojourn_model::workload::video::Rule;
use sojourn_model::workload::{App, Direction, Entry};

const MS: u64 = 1_000_000;

fn plan_with(text: &str, options: &LoadOptions) -> Plan {
    Plan::load("x.toml", text.as_bytes(), options).unwrap_or_else(|error| panic!("{error}"))
}

fn scenario(hop: &str, rest: &str) -> Scenario {
    let text = format!("duration = \"100s\"\n[[hop]]\nname = \"b\"\n{hop}\n{rest}");
    plan_with(&text, &LoadOptions::default()).scenario(0).unwrap_or_else(|error| panic!("{error}"))
}

/// One flow over 10 Mbit/s and 10 ms.
fn flow(flow: &str) -> Vec<Entry> {
    scenario("rate = \"10mbit\"\ndelay = \"10ms\"", &format!("[[flow]]\n{flow}")).workload.entries
}

fn spec(line: &str) -> Spec {
    line.parse().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_discipline_changes_as_tc_change_and_tc_replace_would() {
    let lines =
        r#"[["0s", "cake bandwidth 20mbit diffserv4"], ["30s", "cake bandwidth 8mbit"], ["40s", "pfifo limit 8bdp"]]"#;
    let hop = format!("rate = \"1mbit\"\nqdisc = {lines}\nreverse = {{ qdisc = [[\"0s\", \"codel\"]] }}");
    let scenario = scenario(&hop, "[[flow]]\nkind = \"bulk\"\nrtt = \"300ms\"");
    let link = &scenario.hops[0].right;
    assert_eq!(link.qdisc, spec("cake bandwidth 20mbit diffserv4"));
    let [(first, QdiscChange::Parameters(change)), (second, QdiscChange::Discipline(other))] = &link.changes[..] else {
        panic!("{:?}", link.changes)
    };
    assert_eq!((first, second), (&Time(30_000 * MS), &Time(40_000 * MS)));
    assert_eq!((change.line.as_str(), &change.spec), ("cake bandwidth 8mbit", &spec("cake bandwidth 8mbit diffserv4")));
    assert_eq!(other, &spec("pfifo limit 198"), "8 times 37 500 bytes, in packets of 1514");
    assert_eq!(link.qdisc_at(Time(30_000 * MS)), &change.spec);
    assert_eq!(link.qdisc_at(Time(30_000 * MS - 1)), &link.qdisc);
    let text = "cake bandwidth 20mbit diffserv4; 30s: cake bandwidth 8mbit diffserv4; 40s: pfifo limit 198";
    assert_eq!(link.qdisc_text(), text);
    assert!(scenario.hops[0].left.changes.is_empty(), "one step is none");
}

#[test]
fn a_discipline_that_changes_can_be_swept_and_set() {
    let sweep = r#"[["0s", "codel"], ["1s", "codel target 1ms"]]"#;
    let text = format!(
        "duration = \"9s\"\n[[hop]]\nname = \"b\"\nrate = \"1mbit\"\ndelay = \"1ms\"\n[[flow]]\nkind = \"bulk\"\n\
         [sweep]\n\"hop.b.qdisc\" = [\"pfifo\", {sweep}]\n"
    );
    let plan = Plan::load("x.toml", text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let texts: Vec<String> =
        [0, 1].map(|i| plan.scenario(i).expect("a run").hops[0].right.qdisc_text()).into_iter().collect();
    assert_eq!(texts, ["pfifo limit 1000", "codel limit 1000; 1s: codel limit 1000 target 1ms"]);
    let set = vec![("hop.b.qdisc".to_owned(), sweep.to_owned())];
    let plan = Plan::load("x.toml", text.as_bytes(), &LoadOptions { set, ..LoadOptions::default() });
    let plan = plan.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((plan.runs.len(), plan.scenario(0).expect("a run").hops[0].right.changes.len()), (1, 1));
}

#[test]
fn flows_that_name_the_same_user_are_numbered_as_that_host_s() {
    let entries = flow(
        "kind = \"bulk\"\n[[flow]]\nkind = \"bulk\"\nuser = \"ann\"\ncount = 2\n[[flow]]\nkind = \"voip\"\nuser = \"bob\"\n[[flow]]\nkind = \"pings\"\ndirection = \"both\"\nuser = \"ann\"",
    );
    let users: Vec<_> =
        entries.iter().map(|entry| entry.user.map(|user| (user.number, user.flow, user.first))).collect();
    let ann = |flow| Some((0, flow, 1));
    assert_eq!(users, [None, ann(0), ann(1), Some((1, 0, 3)), ann(2), ann(3)]);
}

#[test]
fn down_is_right_and_up_is_left() {
    let flow = "[[flow]]\nkind = \"bulk\"\nrtt = \"9ms\"\ndirection = \"up\"\n[[flow]]\nkind = \"upload\"\nsize = 9\nrtt = \"9ms\"\ndirection = \"down\"";
    let words =
        scenario("down = { rate = \"20mbit\", qdisc = \"fq\" }\nup = { rate = \"2mbit\", qdisc = \"codel\" }", flow);
    let plain = scenario("rate = \"20mbit\"\nqdisc = \"fq\"\nreverse = { rate = \"2mbit\", qdisc = \"codel\" }", flow);
    assert_eq!(format!("{words:?}"), format!("{plain:?}"));
    let directions: Vec<Direction> = words.workload.entries.iter().map(|entry| entry.direction).collect();
    assert_eq!(directions, [Direction::Left, Direction::Right]);
    assert_eq!(words.link_name(1), format!("{}.reverse", words.hops[0].name));
}

#[test]
fn what_is_set_upward_is_not_swept_in_reverse_and_stays_as_it_was_written() {
    let text = "duration = \"9s\"\n[[hop]]\nname = \"b\"\nrate = \"9mbit\"\ndelay = \"1ms\"\n[[flow]]\nkind = \"bulk\"\n\
                [sweep]\n\"hop.b.up.qdisc\" = [\"pfifo\", \"codel\"]\n";
    let load = |options: LoadOptions| {
        Plan::load("x.toml", text.as_bytes(), &options).unwrap_or_else(|error| panic!("{error}"))
    };
    let plan = load(LoadOptions::default());
    assert_eq!((plan.runs.len(), plan.runs[1].set[0].0.as_str()), (2, "hop.b.up.qdisc"));
    assert_eq!(plan.scenario(1).expect("a run").hops[0].left.qdisc, spec("codel"));
    let set = vec![("hop.b.reverse.qdisc".to_owned(), "fq".to_owned())];
    let plan = load(LoadOptions { set, ..LoadOptions::default() });
    assert_eq!((plan.runs.len(), plan.runs[0].set[0].0.as_str()), (1, "hop.b.reverse.qdisc"));
    assert_eq!(plan.scenario(0).expect("a run").hops[0].left.qdisc, spec("fq"));
}

#[test]
fn a_trace_of_rates_is_steps_that_repeat_and_an_outage_is_a_bit_per_second() {
    let folder = std::env::temp_dir().join(format!("sojourn-rates-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("walk.csv");
    std::fs::write(&file, "time_s,rate_mbit\n0,10\n40,0\n50,20\n").expect("written");
    let rate = |keys: &str| {
        let hop = format!("rate = {{ trace = '{}'{keys} }}\ndelay = \"1ms\"", file.display());
        match scenario(&hop, "[[flow]]\nkind = \"bulk\"").hops[0].right.rate.clone() {
            Capacity::Steps(steps) => steps.iter().map(|(at, rate)| (at.0 / 1000 / MS, rate.0)).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(rate(""), [(0, 10_000_000), (40, 1), (50, 20_000_000), (60, 10_000_000)]);
    assert_eq!(rate(", scale = 0.5")[2], (50, 10_000_000));
    std::fs::remove_dir_all(&folder).expect("removed");
    let outage = r#"rate = [["0s", "10mbit"], ["5s", "0bit"], ["6s", "10mbit"]]"#;
    let steps = scenario(&format!("{outage}\ndelay = \"1ms\""), "[[flow]]\nkind = \"bulk\"");
    assert!(matches!(&steps.hops[0].right.rate, Capacity::Steps(steps) if steps[1].1 == Rate(1)));
}

#[test]
fn a_trace_whose_rates_are_too_low_for_a_link_gets_a_warning_with_the_unit_that_was_taken() {
    let folder = std::env::temp_dir().join(format!("sojourn-units-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("walk.csv");
    let warnings = |rows: &str, keys: &str| {
        std::fs::write(&file, rows).expect("written");
        let hop = format!("name = \"b\"\nrate = {{ trace = '{}'{keys} }}\ndelay = \"1ms\"", file.display());
        plan_with(&format!("duration = \"9s\"\n[[hop]]\n{hop}\n[[flow]]\nkind = \"bulk\""), &LoadOptions::default())
            .warnings
    };
    let said = warnings("time,rate\n0,20\n5,5\n", "");
    assert!(
        matches!(&said[..], [one] if one.starts_with("hop.b.rate") && one.contains("highest rate is 20bit")),
        "{said:?}"
    );
    assert_eq!(warnings("time,rate\n0,20\n5,5\n", ", scale = 1e6"), [""; 0]);
    assert_eq!(warnings("time,rate_mbit\n0,20\n5,5\n", ""), [""; 0]);
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn datagrams_leave_with_the_ecn_field_that_is_asked_for() {
    let ecn = |text: &str| flow(text)[0].ecn;
    assert_eq!(ecn("kind = \"voip\""), Ecn::NotEct);
    assert_eq!(ecn("kind = \"voip\"\necn = \"off\""), Ecn::NotEct);
    assert_eq!(ecn("kind = \"pings\"\necn = \"ect0\""), Ecn::Ect0);
    assert_eq!(ecn("kind = \"cbr\"\nrate = \"1mbit\"\necn = \"ect1\""), Ecn::Ect1);
    let onoff = "kind = \"onoff\"\nrate = \"1mbit\"\n";
    assert_eq!(ecn(&format!("{onoff}ecn = \"ect1\"")), Ecn::Ect1);
    let tcp = &flow(&format!("{onoff}transport = \"tcp\"\necn = true"))[0];
    assert_eq!((tcp.ecn, tcp.tcp.ecn), (Ecn::NotEct, true), "TCP decides for each packet");
}

#[test]
fn defaults_are_those_of_the_reference() {
    let scenario = scenario("rate = \"10mbit\"\ndelay = \"10ms\"", "[[flow]]\nkind = \"bulk\"");
    assert_eq!(scenario.title, "x");
    assert_eq!(scenario.measure, (Time::ZERO, Time(100_000 * MS)));
    assert_eq!((scenario.seed, scenario.longest_rtt), (1, Span(20 * MS)));
    let hop = &scenario.hops[0];
    assert_eq!((hop.right.overhead, hop.right.qdisc.clone()), (14, spec("pfifo limit 1000")));
    let entry = &scenario.workload.entries[0];
    assert_eq!((entry.name.as_str(), entry.kind, entry.direction), ("bulk0", "bulk", Direction::Right));
    assert_eq!((entry.tcp.cc, entry.tcp.iw, entry.tcp.mss, entry.tcp.rwnd), (Cc::Cubic, 10, 1448, u32::MAX));
    assert_eq!(entry.delays.data_in + entry.delays.ack_out, Span::ZERO);
    assert!(matches!(&entry.app, App::Bulk { active } if active[..] == [(Time::ZERO, Time::NEVER)]));
}

#[test]
fn atm_fills_cells_of_48_bytes() {
    let hop = |text: &str| scenario(text, "[[flow]]\nkind = \"bulk\"\nrtt = \"9ms\"").hops.remove(0);
    let framed = |keys: &str| {
        let hop = hop(&format!("rate = \"1mbit\"\n{keys}"));
        [40, 86, 1500].map(|ip| hop.right.wire_bytes(ip))
    };
    assert_eq!(framed(""), [54, 100, 1514]);
    // LLC/SNAP and AAL5: 10 + 8 bytes. 1518 bytes are 31.6 cells.
    assert_eq!(framed("overhead = 10\nlinklayer = \"atm\""), [2 * 53, 2 * 53, 32 * 53]);
    let reverse = hop("rate = \"1mbit\"\nlinklayer = \"atm\"\nreverse = { rate = \"2mbit\" }");
    assert_eq!(reverse.left.wire_bytes(1500), reverse.right.wire_bytes(1500));
    let other = hop("rate = \"1mbit\"\nlinklayer = \"atm\"\nreverse = { linklayer = \"ethernet\" }");
    assert_eq!(other.left.wire_bytes(1500), 1514);
}

#[test]
fn the_way_back_is_a_fifo_of_the_same_limit_and_what_it_is_told() {
    let rest = "[[flow]]\nkind = \"bulk\"";
    let hop = |text: &str| scenario(text, rest).hops.remove(0);
    let same = hop("rate = \"10mbit\"\ndelay = \"10ms\"\noverhead = 0\nqdisc = \"fq_codel limit 50\"");
    assert_eq!((same.left.qdisc, same.left.overhead, same.left.delay), (spec("pfifo limit 50"), 0, same.right.delay));
    let bytes = hop("rate = \"10mbit\"\ndelay = \"10ms\"\nqdisc = \"bfifo limit 120000\"");
    assert_eq!(bytes.left.qdisc, spec("bfifo limit 120000"));
    let none = hop("rate = \"10mbit\"\ndelay = \"10ms\"\nqdisc = \"noqueue\"");
    assert_eq!(none.left.qdisc, spec("noqueue"));
    let told = hop("rate = \"10mbit\"\ndelay = \"10ms\"\nreverse = { rate = \"1mbit\", qdisc = \"codel\" }");
    assert!(matches!(&told.left.rate, Capacity::Steps(steps) if steps[..] == [(Time::ZERO, Rate(1_000_000))]));
    assert_eq!((told.left.qdisc, told.left.delay), (spec("codel"), vec![(Time::ZERO, Span(10 * MS))]));
}

#[test]
fn sizes_in_bdp_take_the_first_rate_and_the_longest_base_rtt() {
    // 1 Mbit/s x 300 ms = 37500 bytes: 25 packets of 1500, 24.8 of 1514.
    let hop = "rate = [[\"0s\", \"1mbit\"], [\"5s\", \"9mbit\"]]\noverhead = 0\nqdisc = ";
    let rest = "[[flow]]\nkind = \"bulk\"\ncount = 2\nrtt = [\"100ms\", \"300ms\"]";
    let qdisc = |line: &str| scenario(&format!("{hop}\"{line}\""), rest).hops[0].right.qdisc.clone();
    assert_eq!(qdisc("pfifo limit 8bdp"), spec("pfifo limit 200"));
    assert_eq!(qdisc("codel limit 0.5bdp"), spec("codel limit 13"));
    assert_eq!(qdisc("bfifo limit 0.5bdp"), spec("bfifo limit 18750"));
    assert_eq!(qdisc("pfifo limit 0.0001bdp"), spec("pfifo limit 1"));
}

#[test]
fn a_count_of_none_takes_a_flow_away_and_the_buffer_it_asked_for() {
    let hop = "rate = \"12mbit\"\noverhead = 0\nqdisc = \"pfifo limit 1bdp\"";
    let two = |count: u32| {
        let far = format!("[[flow]]\nkind = \"bulk\"\nrtt = [\"400ms\", \"500ms\"]\ncount = {count}");
        scenario(hop, &format!("[[flow]]\nkind = \"thin\"\nrtt = \"100ms\"\n{far}"))
    };
    let (without, with) = (two(0), two(2));
    assert_eq!(without.workload.entries.len(), 1);
    assert_eq!(without.hops[0].right.qdisc, spec("pfifo limit 100"));
    assert_eq!((with.workload.entries.len(), with.hops[0].right.qdisc.clone()), (3, spec("pfifo limit 500")));
}

#[test]
fn counts_in_s_are_of_bdp_plus_buffer() {
    let hop = "rate = \"10mbit\"\noverhead = 0\nqdisc = \"pfifo limit 1bdp\"";
    let count = |count: &str| {
        scenario(hop, &format!("[[flow]]\nkind = \"bulk\"\nrtt = \"120ms\"\ncount = {count}")).workload.entries.len()
    };
    // BDP 100 packets, S 200.
    assert_eq!(count("\"0.036*S\""), 7);
    assert_eq!(count("\"bdp*0.1\""), 10);
    assert_eq!(count("\"0.0001*S\""), 1);
}

#[test]
fn base_rtts_are_made_of_the_path_and_what_lies_beyond() {
    let text = "rate = \"10mbit\"\ndelay = \"10ms\"\nreverse = { delay = \"5ms\" }";
    let rest = "[access]\nrate = \"1gbit\"\ndelay = \"2ms\"\n[[flow]]\nkind = \"bulk\"\nrtt = \"100ms\"\nrtt_at = ";
    for place in ["split", "left", "right", "ack"] {
        let scenario = scenario(text, &format!("{rest}\"{place}\""));
        let d = scenario.workload.entries[0].delays;
        // 100 ms minus 15 ms of the hop and four times 2 ms of the access links.
        assert_eq!(d.data_in + d.data_out + d.ack_in + d.ack_out, Span(77 * MS), "{place}");
        assert_eq!(scenario.longest_rtt, Span(100 * MS));
    }
}

#[test]
fn a_growing_delay_grows_the_longest_rtt() {
    let hop = "rate = \"10mbit\"\ndelay = [[\"0s\", \"10ms\"], [\"5s\", \"30ms\"], [\"9s\", \"5ms\"]]";
    assert_eq!(scenario(hop, "[[flow]]\nkind = \"bulk\"").longest_rtt, Span(60 * MS));
}

#[test]
fn lists_are_dealt_in_turn_and_ranges_are_drawn() {
    let listed = flow("kind = \"bulk\"\ncount = 3\nrtt = [\"30ms\", \"50ms\"]\nrtt_at = \"ack\"");
    let beyond: Vec<u64> = listed.iter().map(|entry| entry.delays.ack_out.0 / MS).collect();
    assert_eq!(beyond, [10, 30, 10]);
    assert_eq!(listed.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["bulk0.0", "bulk0.1", "bulk0.2"]);
    let drawn = flow("kind = \"bulk\"\ncount = 50\nrtt = \"50ms..550ms\"\nrtt_at = \"ack\"");
    let rtts: Vec<u64> = drawn.iter().map(|entry| entry.delays.ack_out.0 + 20 * MS).collect();
    assert!(rtts.iter().all(|rtt| (50 * MS..=550 * MS).contains(rtt)) && rtts.iter().max() > rtts.iter().min());
    let near = flow("kind = \"bulk\"\ncount = 50\nrtt = \"50ms\"\njitter = \"3ms\"\nrtt_at = \"ack\"");
    let off = |entry: &Entry| (entry.delays.ack_out.0 + 20 * MS).abs_diff(50 * MS);
    assert!(near.iter().all(|entry| off(entry) <= 3 * MS) && near.iter().any(|entry| off(entry) > MS));
}

#[test]
fn flows_in_both_directions_are_two_of_the_same_hosts() {
    let both = flow("kind = \"bulk\"\nname = \"x\"\ndirection = \"both\"\nrtt = \"50ms..550ms\"");
    assert_eq!((both[0].name.as_str(), both[1].name.as_str()), ("x.right", "x.left"));
    assert_eq!((both[0].direction, both[1].direction), (Direction::Right, Direction::Left));
    assert_eq!(both[0].delays, both[1].delays);
    assert_eq!(flow("kind = \"upload\"\nsize = 5")[0].direction, Direction::Left);
}

#[test]
fn tcps_are_as_asked_for() {
    let one = flow("kind = \"bulk\"\ncc = \"fixed 25\"\nacks = \"every\"\niw = 3\necn = true\nrwnd = \"64k\"")[0].tcp;
    assert_eq!((one.cc, one.acks, one.iw, one.ecn, one.rwnd), (Cc::Fixed(25), AckPolicy::Every, 3, true, 45));
    assert_eq!(flow("kind = \"bulk\"\nrwnd = 7")[0].tcp.rwnd, 7);
    let acks = |text: &str| flow(&format!("kind = \"bulk\"\nacks = \"{text}\""))[0].tcp.acks;
    assert_eq!(acks("delayed"), AckPolicy::Delayed);
    assert_eq!([acks("window"), acks("window 20")], [AckPolicy::Window(None), AckPolicy::Window(Some(20))]);
    let host = "[host]\ntimestamps = false\nhystart = false\nrto_min = \"1s\"\n[[flow]]\nkind = \"bulk\"";
    let tcp = scenario("rate = \"10mbit\"\ndelay = \"10ms\"", host).workload.entries[0].tcp;
    let plus = scenario("rate = \"10mbit\"\ndelay = \"10ms\"", "[host]\nhystart = \"plus\"\n[[flow]]\nkind = \"bulk\"");
    assert_eq!(plus.workload.entries[0].tcp.hystart, HyStart::Plus);
    assert_eq!((tcp.header, tcp.mss, tcp.hystart, tcp.rto_min), (40, 1460, HyStart::Off, Span::from_secs(1)));
}

#[test]
fn hosts_of_linux_3_2_repair_as_it_did_and_any_key_alone_overrides() {
    let hosts = |keys: &str| {
        let asked = format!("[host]\n{keys}\n[[flow]]\nkind = \"bulk\"");
        scenario("rate = \"10mbit\"\ndelay = \"10ms\"", &asked).workload.entries[0].tcp
    };
    let (now, old) = (hosts("linux = \"now\""), hosts("linux = \"3.2\""));
    assert_eq!(now, hosts(""));
    assert_eq!((now.recovery, now.comp_sack_nr), (Recovery::Rack, 44));
    assert_eq!(old, Config { recovery: Recovery::Rfc6675, comp_sack_nr: 0, ..now });
    assert_eq!(hosts("linux = \"3.2\"\nrecovery = \"rack\""), now);
    assert_eq!(hosts("linux = \"3.2\"\ncomp_sack_nr = 44"), Config { comp_sack_nr: 44, ..old });
    assert_eq!(hosts("linux = \"3.2\"\nrto_min = \"1s\""), Config { rto_min: Span::from_secs(1), ..old });
}

#[test]
fn gaps_between_files_outlast_the_run() {
    for gap in ["0s", "exp 9.5s", "uniform 5s..15s", "1h"] {
        let entries = flow(&format!("kind = \"download\"\nsize = 1000000\nstart = \"3s\"\ngap = \"{gap}\""));
        let App::Download { start, gaps, size, stop } = &entries[0].app else { panic!("a download") };
        assert_eq!((*start, *size, *stop), (Time(3_000 * MS), 1_000_000, Time::NEVER));
        // Each file adds one base RTT.
        let sum: u64 = gaps.iter().map(|gap| gap.0 + 20 * MS).sum();
        assert!(sum >= 97_000 * MS, "{gap}: {sum}");
    }
}

#[test]
fn streams_have_the_pace_of_their_rate() {
    let stream = |rows: &str| {
        let App::Stream(stream) = flow(rows)[0].app.clone() else { panic!("a stream") };
        stream
    };
    // 100 bytes at 64 kbit/s.
    let cbr = stream("kind = \"cbr\"\nrate = \"64kbit\"\nsize = 100\nstart = \"1s\"\nstop = \"3s\"");
    assert_eq!((cbr.interval, cbr.bytes, cbr.transport), (Span::from_micros(12_500), 100, Transport::Udp));
    assert_eq!(cbr.active, [(Time(1000 * MS), Time(3000 * MS))]);
    let call = stream("kind = \"voip\"\nplayout = \"60ms\"");
    assert_eq!((call.interval, call.bytes), (Span(20 * MS), 200));
    assert_eq!(call.voice.map(|voice| voice.playout), Some(Playout::Fixed(Span(60 * MS))));
    assert_eq!(flow("kind = \"voip\"\ndirection = \"both\"").len(), 2);
    let turns = stream("kind = \"onoff\"\nrate = \"1mbit\"\ntransport = \"tcp\"\non = \"2s\"\noff = \"3s\"");
    assert_eq!((turns.transport, turns.active[1]), (Transport::Tcp, (Time(5000 * MS), Time(7000 * MS))));
}

#[test]
fn flows_of_a_pool_are_the_same_flows_and_share_a_row_of_the_results() {
    let flows = |pool: &str| {
        let asked =
            "kind = \"web\"\npage = true\ncount = 3\ndirection = \"both\"\nrtt = [\"30ms\", \"40ms\", \"50ms\"]";
        let text = format!("[[flow]]\nkind = \"bulk\"\n[[flow]]\n{asked}\nstart = \"uniform 0s..1s\"\n{pool}");
        scenario("rate = \"10mbit\"\ndelay = \"10ms\"", &text).workload
    };
    let (pooled, each) = (flows("pool = true"), flows("pool = false"));
    assert_eq!(each.pools(), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(pooled.pools(), [0, 1, 2, 1, 2, 1, 2]);
    assert_eq!(pooled.entries[2].pool.as_deref(), Some("web0.left"));
    let alone = |entry: &Entry| format!("{:?}", Entry { pool: None, ..entry.clone() });
    assert!(pooled.entries.iter().map(alone).eq(each.entries.iter().map(alone)));
}

#[test]
fn readers_and_viewers_are_as_asked_for() {
    let readers = flow("kind = \"web\"\npage = true\ncount = 2\nconnections = 4");
    let App::Pages(browsing) = &readers[1].app else { panic!("pages") };
    assert_eq!((browsing.connections, browsing.stop, readers.len()), (4, Time::NEVER, 2));
    assert!(browsing.pages.len() > 1 && readers[0].answers());
    let App::Video(video) = &flow("kind = \"video\"\nladder = [\"1mbit\", \"2mbit\"]\nrule = \"rate\"")[0].app else {
        panic!("a video")
    };
    assert_eq!((video.chunk, video.ladder[1], video.rule), (Span(4000 * MS), Rate(2_000_000), Rule::Rate));
    let App::Video(video) = &flow("kind = \"video\"")[0].app else { panic!("a video") };
    assert_eq!((video.ladder.len(), video.rule, video.buffer), (6, Rule::Buffer, Span(60_000 * MS)));
}

#[test]
fn a_test_of_responsiveness_has_the_parameters_of_the_draft() {
    let tests = flow("kind = \"rpm\"\ndirection = \"both\"");
    let App::Rpm(rpm) = &tests[1].app else { panic!("a test") };
    assert_eq!((rpm.interval, rpm.connections, rpm.tls), (Span(1000 * MS), 16, true));
    assert_eq!((tests[0].name.as_str(), tests[1].direction), ("rpm0.right", Direction::Left));
    assert!(tests[0].answers());
    let App::Rpm(rpm) = &flow("kind = \"rpm\"\ninterval = \"5s\"\nconnections = 4\ntls = false")[0].app else {
        panic!("a test")
    };
    assert_eq!((rpm.interval, rpm.connections, rpm.tls), (Span(5000 * MS), 4, false));
}

#[test]
fn sizes_may_come_from_a_file_beside_the_scenario() {
    let folder = std::env::temp_dir().join(format!("sojourn-sizes-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("sizes.csv"), "flow,bytes\n1,700\n2,700\n").expect("written");
    let text = "duration = \"10s\"\n[[hop]]\nrate = \"1mbit\"\ndelay = \"1ms\"\n[[flow]]\nkind = \"sizes\"\nrate = 5\n\
                file = \"sizes.csv\"\n";
    let path = folder.join("x.toml");
    let plan = Plan::load(&path.to_string_lossy(), text.as_bytes(), &LoadOptions::default());
    let plan = plan.unwrap_or_else(|error| panic!("{error}"));
    std::fs::remove_dir_all(&folder).expect("removed");
    let scenario = plan.scenario(0).unwrap_or_else(|error| panic!("{error}"));
    let App::Sizes { arrivals, .. } = &scenario.workload.entries[0].app else { panic!("sizes") };
    assert!(!arrivals.is_empty() && arrivals.iter().all(|(_, bytes)| *bytes == 700));
    assert_eq!(plan.sizes()[0].1[..], [700, 700]);
}

#[test]
fn arrivals_keep_to_start_and_stop() {
    let entries = flow("kind = \"sizes\"\nrate = 50\nstart = \"10s\"\nstop = \"20s\"");
    let App::Sizes { arrivals, group: None } = &entries[0].app else { panic!("sizes") };
    assert!((400..600).contains(&arrivals.len()), "{}", arrivals.len());
    assert!(arrivals.iter().all(|(at, _)| (Time(10_000 * MS)..Time(20_000 * MS)).contains(at)));
    let entries = flow("kind = \"web\"\nrate = 50\nstart = \"10s\"\nstop = \"20s\"");
    let App::Web { connections } = &entries[0].app else { panic!("web") };
    assert!(connections.iter().all(|one| (Time(10_000 * MS)..Time(20_000 * MS)).contains(&one.start)));
}

#[test]
fn runs_share_the_web_traffic_of_their_seed_and_have_what_a_plan_of_their_own_would_give_them() {
    let text = "duration = \"20s\"\n[[hop]]\nname = \"b\"\nrate = \"10mbit\"\ndelay = \"10ms\"\n\
        [[flow]]\nkind = \"web\"\nrate = 5\n[sweep]\n\"hop.b.qdisc\" = [\"pfifo\", \"codel\"]\nseeds = 2\n";
    let load = || plan_with(text, &LoadOptions::default());
    let web = |plan: &Plan, run| {
        let mut scenario = plan.scenario(run).unwrap_or_else(|error| panic!("{error}"));
        let App::Web { connections } = scenario.workload.entries.remove(0).app else { panic!("web") };
        connections
    };
    let plan = load();
    let webs: Vec<_> = (0..4).map(|run| web(&plan, run)).collect();
    assert!(Arc::ptr_eq(&webs[0], &webs[2]) && Arc::ptr_eq(&webs[1], &webs[3]));
    assert_ne!(webs[0], webs[1]);
    assert_eq!(webs[3], web(&load(), 3));
}

#[test]
fn one_flow_does_not_change_what_another_draws() {
    let hop = "rate = \"10mbit\"\ndelay = \"10ms\"";
    let web = "[[flow]]\nkind = \"web\"\nrate = 5\n";
    let alone = scenario(hop, web);
    let beside = scenario(hop, &format!("{web}[[flow]]\nkind = \"bulk\"\nstart = \"uniform 0s..1s\""));
    assert_eq!(format!("{:?}", alone.workload.entries[0]), format!("{:?}", beside.workload.entries[0]));
}

#[test]
fn tunnels_share_one_flow_key() {
    let hop = "rate = \"10mbit\"\ndelay = \"10ms\"";
    let flows = "[[flow]]\nkind = \"bulk\"\ncount = 2\ntunnel = \"vpn\"\n[[flow]]\nkind = \"pings\"\ntunnel = \"vpn\"\n\
                 [[flow]]\nkind = \"pings\"\ntunnel = \"other\"";
    let keys: Vec<_> = scenario(hop, flows).workload.entries.iter().map(|entry| entry.tunnel).collect();
    assert!(keys[0].is_some() && keys[0] == keys[1] && keys[1] == keys[2] && keys[2] != keys[3], "{keys:?}");
}

#[test]
fn part_of_the_path_has_part_of_its_delay() {
    let text = "duration = \"9s\"\n[[hop]]\nname = \"a\"\nrate = \"1mbit\"\ndelay = \"1ms\"\n[[hop]]\nname = \"b\"\n\
                rate = \"1mbit\"\ndelay = \"2ms\"\n[[flow]]\nkind = \"bulk\"\nvia = [\"b\"]\n[[flow]]\nkind = \"bulk\"";
    let scenario = plan_with(text, &LoadOptions::default()).scenario(0).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((scenario.workload.entries[0].via, scenario.workload.entries[1].via), ((1, 1), (0, 1)));
    assert_eq!(scenario.longest_rtt, Span(6 * MS));
    assert_eq!((scenario.link_name(2), scenario.link_name(3)), ("b".into(), "b.reverse".into()));
}

#[test]
fn a_square_wave_changes_every_half_period() {
    let scenario = scenario(
        "rate = { square = [\"100mbit\", \"10mbit\"], period = \"40s\" }\ndelay = \"10ms\"",
        "[[flow]]\nkind = \"bulk\"",
    );
    let Capacity::Steps(steps) = &scenario.hops[0].right.rate else { panic!("steps") };
    let (fast, slow) = (Rate(100_000_000), Rate(10_000_000));
    let at = |seconds: u64| Time(seconds * 1000 * MS);
    assert_eq!(steps[..], [(at(0), fast), (at(20), slow), (at(40), fast), (at(60), slow), (at(80), fast)]);
}

const SWEPT: &str = "duration = \"9s\"\n[[hop]]\nname = \"b\"\nrate = \"1mbit\"\ndelay = \"1ms\"\n[[flow]]\nkind = \"bulk\"\n\
    [sweep]\n\"hop.b.qdisc\" = [\"pfifo limit 8bdp\", \"codel\"]\n\"flow.bulk0.count\" = [1, 2]\nseeds = 2\n";

fn sets(plan: &Plan) -> Vec<String> {
    let set = |run: &sojourn_model::plan::Run| {
        let values = run.set.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>();
        format!("{} seed={}", values.join(" "), run.seed)
    };
    plan.runs.iter().map(set).collect()
}

#[test]
fn the_first_swept_key_is_outermost_the_seed_innermost_and_values_stay_as_written() {
    let options = LoadOptions { seed: Some(7), ..LoadOptions::default() };
    let plan = plan_with(SWEPT, &options);
    let expected: Vec<String> = ["\"pfifo limit 8bdp\"", "\"codel\""]
        .iter()
        .flat_map(|qdisc| [1, 2].map(|count| format!("hop.b.qdisc={qdisc} flow.bulk0.count={count}")))
        .flat_map(|set| [7, 8].map(|seed| format!("{set} seed={seed}")))
        .collect();
    assert_eq!(sets(&plan), expected);
    let scenario = plan.scenario(7).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((scenario.seed, scenario.workload.entries.len()), (8, 2));
    assert_eq!(scenario.hops[0].right.qdisc, spec("codel"));
}

#[test]
fn what_is_set_does_not_vary() {
    let set = vec![("hop.b.qdisc".into(), "fq_codel".into()), ("duration".into(), "3s".into())];
    let plan = plan_with(SWEPT, &LoadOptions { set, seeds: Some(1), ..LoadOptions::default() });
    let set = "hop.b.qdisc=\"fq_codel\" duration=\"3s\"";
    assert_eq!(sets(&plan), [1, 2].map(|count| format!("{set} flow.bulk0.count={count} seed=1")));
    assert_eq!(plan.runs[0].duration, Time(3_000 * MS));
    assert_eq!(plan.scenario(0).unwrap_or_else(|error| panic!("{error}")).hops[0].right.qdisc, spec("fq_codel"));
}

#[test]
fn a_word_that_is_a_number_may_stand_as_one() {
    for hz in ["1000", "\"1000\""] {
        let rest = format!("[host]\nhz = {hz}\n[[flow]]\nkind = \"bulk\"\nrtt = \"9ms\"");
        assert_eq!(scenario("rate = \"1mbit\"", &rest).host.hz, 1000);
    }
}
