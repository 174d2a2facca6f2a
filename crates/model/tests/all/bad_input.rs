//! Bad input of every kind is reported with file, line, key, value and the expected form, and never causes a panic.

use proptest::prelude::*;
use sojourn_model::error::Error;
use sojourn_model::plan::{LoadOptions, Plan};

const SOUND: &str = r#"title = "sound"
duration = "10s"
[[hop]]
name = "bottleneck"
rate = "10mbit"
delay = "10ms"
qdisc = "codel limit 100"
[[flow]]
kind = "bulk"
"#;

fn load(text: &[u8], options: &LoadOptions) -> Result<Plan, Error> {
    Plan::load("scenarios/x.toml", text, options)
}

/// Returns the error of the valid scenario after replacing `from` by `to`.
fn error(from: &str, to: &str) -> Error {
    assert!(SOUND.contains(from), "{from}");
    load(SOUND.replacen(from, to, 1).as_bytes(), &LoadOptions::default()).err().expect("an error")
}

/// Asserts that the error names file, line and key, and contains `what`.
fn says(error: &Error, line: u32, key: &str, what: &str) {
    let text = error.to_string();
    assert!(text.starts_with(&format!("scenarios/x.toml:{line}: {key}")), "{text}");
    assert!(text.contains(what), "{text} should say {what}");
    assert!(!text.contains('\n') && !error.not_built, "{text}");
}

#[test]
fn the_sound_scenario_is_sound() {
    let plan = load(SOUND.as_bytes(), &LoadOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((plan.runs.len(), plan.title.as_str()), (1, "sound"));
}

#[test]
fn an_unknown_key_is_answered_with_the_nearest() {
    says(&error("delay =", "dellay ="), 6, "hop.bottleneck.dellay", "unknown key; did you mean \"delay\"?");
    says(&error("duration", "duratoin"), 2, "duratoin", "did you mean \"duration\"?");
    says(&error("kind = \"bulk\"", "kind = \"bulk\"\nccs = \"reno\""), 10, "flow.bulk0.ccs", "did you mean \"cc\"?");
}

#[test]
fn a_key_of_another_kind_is_named_as_such() {
    says(
        &error("kind = \"bulk\"", "kind = \"bulk\"\nsize = 5"),
        10,
        "flow.bulk0.size",
        "does not belong to kind = \"bulk\"",
    );
}

#[test]
fn a_packet_too_long_for_its_length_field_is_refused() {
    let pings = "kind = \"pings\"\nsize = 65000\ninterval = \"1s\"";
    says(&error("kind = \"bulk\"", pings), 10, "flow.pings0.size", "64535");
    says(&error("kind = \"bulk\"", "kind = \"bulk\"\nmss = 65000"), 10, "flow.bulk0.mss", "64483");
}

#[test]
fn a_wrong_unit_is_answered_with_a_right_one() {
    says(&error("10mbit", "10mb/s"), 5, "hop.bottleneck.rate = \"10mb/s\"", "expected a rate such as \"10mbit\"");
    says(&error("\"10ms\"", "\"10mss\""), 6, "hop.bottleneck.delay = \"10mss\"", "expected a time such as \"10ms\"");
    says(&error("\"10ms\"", "10"), 6, "hop.bottleneck.delay = 10", "expected a time such as");
    says(&error("\"10s\"", "10"), 2, "duration = 10", "expected a time such as");
}

#[test]
fn a_code_point_has_a_known_name_or_six_bits() {
    let flow = |dscp: &str| error("kind = \"bulk\"", &format!("kind = \"bulk\"\ndscp = {dscp}"));
    for wrong in ["64", "-1", "1.5", "\"AF44\"", "\"46\"", "[46]", "\"\""] {
        says(&flow(wrong), 10, "flow.bulk0.dscp", "such as \"EF\"");
    }
    assert!(flow("\"af14\"").to_string().contains("did you mean \"AF1"), "{}", flow("\"af14\""));
}

#[test]
fn an_ecn_field_is_for_datagrams_and_a_flag_for_tcp() {
    let key = |name: &str| format!("flow.{name}.ecn");
    let flow = |text: &str| error("kind = \"bulk\"", text);
    let datagrams = |kind: &str, ecn: &str| flow(&format!("kind = \"{kind}\"\n{ecn}"));
    for wrong in ["true", "\"ECT(1)\"", "1", "\"ce\""] {
        says(&datagrams("voip", &format!("ecn = {wrong}")), 10, &key("voip0"), "expected one of off, ect0, ect1");
    }
    says(&datagrams("pings", "ecn = \"ect2\""), 10, &key("pings0"), "did you mean \"ect");
    let udp = "rate = \"1mbit\"\necn = true";
    says(&datagrams("onoff", udp), 11, &key("onoff0"), "expected one of off, ect0, ect1");
    let tcp = "rate = \"1mbit\"\necn = \"ect1\"\ntransport = \"tcp\"";
    says(&datagrams("onoff", tcp), 11, &key("onoff0"), "true or false over TCP");
    says(&datagrams("bulk", "ecn = \"ect1\""), 10, &key("bulk0"), "expected true or false");
}

#[test]
fn a_user_is_one_host_with_a_bounded_number_of_flows() {
    let flow = |text: &str| error("kind = \"bulk\"", &format!("kind = \"bulk\"\n{text}"));
    says(&flow("user = \"a b\""), 10, "flow.bulk0.user", "expected a name");
    says(&flow("user = \"ann\"\ntunnel = \"vpn\""), 10, "flow.bulk0.user", "not with tunnel");
    says(&flow("user = \"ann\"\ncount = 1025"), 8, "flow.bulk0.user", "a user has at most 1024");
    says(&flow("user = \"ann\"\n[access]\nrate = \"1gbit\""), 8, "flow.bulk0.user", "not with [access]");
    let two = "[[hop]]\nrate = \"1mbit\"\n[[flow]]\nkind = \"bulk\"\nuser = \"ann\"\nvia = [\"bottleneck\"]\n[[flow]]\nuser = \"ann\"";
    says(&error("[[flow]]", two), 14, "flow.bulk1.user = \"ann\"", "expected via to end at the same hop");
    let many: String = (0..513).map(|i| format!("[[flow]]\nkind = \"bulk\"\nuser = \"u{i}\"\n")).collect();
    let error = load(format!("{SOUND}{many}").as_bytes(), &LoadOptions::default()).err().expect("an error");
    assert!(error.to_string().contains("flow.bulk513.user = \"u512\": too many users: at most 512"), "{error}");
}

#[test]
fn a_direction_of_a_hop_is_given_once() {
    let hop = |text: &str| error("qdisc = \"codel limit 100\"", &format!("qdisc = \"codel limit 100\"\n{text}"));
    let rate = "{ rate = \"1mbit\" }";
    says(&hop(&format!("up = {rate}\nreverse = {rate}")), 8, "hop.bottleneck.up", "also as reverse");
    says(&hop(&format!("down = {rate}")), 8, "hop.bottleneck.down.rate = \"1mbit\"", "also in the hop itself");
    says(&hop("down = \"1mbit\""), 8, "hop.bottleneck.down", "expected a table such as");
    says(&hop("down = { ratee = \"1mbit\" }"), 8, "hop.bottleneck.ratee", "did you mean \"rate\"?");
    says(&hop("down = { up = { rate = \"1mbit\" } }"), 8, "hop.bottleneck.down.up", "does not belong to one direction");
    says(&hop("up = \"1mbit\""), 8, "hop.bottleneck.up", "expected a table such as");
    says(&hop("up = { rate = \"fast\" }"), 8, "hop.bottleneck.up.rate = \"fast\"", "expected a rate");
    says(
        &error("kind = \"bulk\"", "kind = \"bulk\"\ndirection = \"ups\""),
        10,
        "flow.bulk0.direction",
        "did you mean \"up\"?",
    );
}

#[test]
fn a_delay_of_an_impairment_is_no_base_rtt() {
    let text = error("delay = \"10ms\"", "impair = \"delay 10ms\"").to_string();
    assert!(
        text.contains("flow.bulk0.rtt: expected a base RTT above zero: the delay of an impair is no part of it"),
        "{text}"
    );
    let text = error("delay = \"10ms\"", "impair = \"loss 1%\"").to_string();
    assert!(text.contains("flow.bulk0.rtt: expected a base RTT above zero: give the flow an rtt"), "{text}");
}

#[test]
fn an_outage_is_a_step_and_not_the_whole_run() {
    let key = "hop.bottleneck.rate";
    says(&error("10mbit", "0bit"), 5, key, "an outage is a step of \"0bit\"");
    says(&error("\"10mbit\"", r#"[["0s", "0bit"], ["5s", "0mbit"]]"#), 5, key, "never carries anything");
    says(&error("10mbit", "5 Mbit/s"), 5, key, "did you mean \"5mbit\"?");
    says(&error("10mbit", "5mbits"), 5, key, "did you mean \"5mbit\"?");
}

#[test]
fn rates_must_be_above_zero() {
    for rate in ["-10mbit", "0mbit", "0.0000001bit"] {
        says(&error("10mbit", rate), 5, "hop.bottleneck.rate", "above zero");
    }
}

#[test]
fn a_discipline_must_be_known_and_its_line_possible() {
    let key = "hop.bottleneck.qdisc";
    says(&error("codel limit 100", "kodel limit 100"), 7, key, "codel");
    says(&error("codel limit 100", "codel limmit 100"), 7, key, "limit");
    says(&error("codel limit 100", "codel limit"), 7, key, "limit");
    says(&error("codel limit 100", "codel limit -5"), 7, key, "-5");
    says(&error("codel limit 100", ""), 7, key, "");
    says(&error("codel limit 100", "codel limit xbdp"), 7, key, "xbdp");
}

#[test]
fn a_discipline_that_changes_is_checked_step_by_step() {
    let key = "hop.bottleneck.qdisc";
    let steps = |steps: &str| error("qdisc = \"codel limit 100\"", &format!("qdisc = {steps}"));
    says(&steps("[]"), 7, key, "or one from each time on");
    says(&steps("[\"codel\"]"), 7, key, "or one from each time on");
    says(&steps("[[\"1s\", \"codel\"]]"), 7, key, "expected the first step at \"0s\"");
    says(&steps("[[\"0s\", \"codel\"], [\"0s\", \"fq\"]]"), 7, key, "expected a later time");
    let second = |line: &str| steps(&format!("[[\"0s\", \"fq_codel\"],\n[\"3s\", \"{line}\"]]"));
    says(&second("fq_codel flows 99"), 8, &format!("{key} = \"fq_codel flows 99\""), "cannot be changed after setup");
    says(&second("fq_codel tarjet 5ms"), 8, key, "did you mean \"target\"?");
    says(&second("fq_kodel"), 8, key, "did you mean \"fq_codel\"?");
    says(&second("noqueue"), 8, key, "expected noqueue for the whole run");
    let sfq = "[[\"0s\", \"sfq\"], [\"3s\", \"sfq perturb 10\"]]";
    says(&steps(sfq), 7, key, "expected one line for the whole run");
    let hop = "[[hop]]\nrate = \"1mbit\"\nqdisc = [[\"0s\", \"pfifo limit 1000\"], [\"3s\", \"pfifo limit 50\"]]\npause = true";
    says(
        &error("[[flow]]", &format!("{hop}\n[[flow]]")),
        11,
        "hop.hop1.pause",
        "expected a discipline that does not change",
    );
}

#[test]
fn the_path_and_the_traffic_must_not_be_empty() {
    let none = load(b"duration = \"10s\"\n[[flow]]\nkind = \"bulk\"", &LoadOptions::default()).err().expect("an error");
    assert_eq!(none.to_string(), "scenarios/x.toml: hop: the path is empty: expected at least one [[hop]]");
    let none = load(b"duration = \"10s\"\nhop = []\nflow = []", &LoadOptions::default()).err().expect("an error");
    assert!(none.to_string().contains("the path is empty"), "{none}");
    let none = load(b"duration = \"10s\"\n[[hop]]\nrate = \"1mbit\"", &LoadOptions::default()).err().expect("an error");
    assert!(none.to_string().contains("no traffic"), "{none}");
    let many = error("[[flow]]", &format!("{}[[flow]]", "[[hop]]\nrate = \"1mbit\"\n".repeat(100)));
    says(&many, 206, "hop", "at most 100 hops");
    says(&error("[[hop]]", "[hop]"), 3, "hop", "expected [[hop]] with two brackets");
}

#[test]
fn a_trace_must_be_there_and_sound() {
    let folder = std::env::temp_dir().join(format!("sojourn-model-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let rate = |name: &str| {
        let trace = folder.join(name);
        error("\"10mbit\"", &format!("{{ trace = '{}' }}", trace.display()))
    };
    says(&rate("missing.down"), 5, "hop.bottleneck.rate", "cannot read");
    for (name, text, what) in [
        ("word.down", "1\nx\n", "word.down:2: expected a time in whole milliseconds, found \"x\""),
        ("falling.down", "1\n5\n4\n", "falling.down:3: expected a time that does not fall"),
        ("empty.down", "", "empty"),
        ("zero.down", "0\n0\n", "above zero"),
        ("float.down", "1.5\n", "whole milliseconds"),
        ("days.down", "5\n86400001\n", "days.down:2: expected at most 86400000 ms (24h)"),
        ("word.csv", "time,rate_mbit\n0,5\n1,much\n", "word.csv:3: expected a rate such as 12 or \"12mbit\""),
        ("head.csv", "0,5\n1,5\n", "head.csv:1: expected a header with a column for the time (time, time_s, time_ms"),
        ("pair.json", "[[0, 5], [1]]", "pair.json: entry 2: expected [time, rate]"),
        ("text.json", "[[0, 5],\n", "text.json:2: not valid JSON"),
        ("fine.csv", "time_ns,rate\n0,5\n1,6\n", "repeated every 2ns: expected at most 1000000 steps"),
    ] {
        std::fs::write(folder.join(name), text).expect("written");
        says(&rate(name), 5, "hop.bottleneck.rate", what);
    }
    let scaled = |name: &str, scale: &str| {
        let trace = folder.join(name);
        error("\"10mbit\"", &format!("{{ trace = '{}', scale = {scale} }}", trace.display()))
    };
    std::fs::write(folder.join("sound.csv"), "time,rate_gbit\n0,1\n9,2\n").expect("written");
    std::fs::write(folder.join("sound.down"), "1\n2\n").expect("written");
    for (name, scale, what) in [
        ("sound.csv", "0", "expected a number above zero"),
        ("sound.csv", "\"1\"", "expected a number above zero"),
        ("sound.csv", "1000000000", "at most 10tbit"),
        ("sound.down", "2", "expected only for a trace of rates"),
    ] {
        says(&scaled(name, scale), 5, &format!("hop.bottleneck.rate.scale = {scale}"), what);
    }
    std::fs::write(folder.join("binary.down"), [0u8, 159, 146, 150]).expect("written");
    says(&rate("binary.down"), 5, "hop.bottleneck.rate", "no text");
    says(&rate(""), 5, "hop.bottleneck.rate", "cannot read");
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn steps_start_at_zero_and_rise() {
    let key = "hop.bottleneck.rate";
    let steps = |steps: &str| error("\"10mbit\"", steps);
    says(&steps(r#"[["1s", "1mbit"]]"#), 5, key, "expected the first step at \"0s\"");
    says(&steps(r#"[["0s", "1mbit"], ["5s", "2mbit"], ["5s", "1mbit"]]"#), 5, key, "expected a later time");
    says(&steps(r#"[["0s", "1mbit"], ["5s", "2mbit"], ["4s", "1mbit"]]"#), 5, key, "expected a later time");
    says(&steps("[]"), 5, key, "expected a rate");
    says(&steps(r#"[["0s"]]"#), 5, key, "expected a rate");
    says(&steps(r#"{ square = ["1mbit", "2mbit"], period = "0s" }"#), 5, key, "expected a period");
    says(&steps(r#"{ square = ["1mbit", "2mbit"], period = "1ns" }"#), 5, key, "expected a period");
    says(&steps(r#"{ squre = ["1mbit", "2mbit"], period = "1s" }"#), 5, key, "expected a rate");
}

#[test]
fn a_run_of_years_is_refused() {
    says(&error("\"10s\"", "\"100000h\""), 2, "duration = \"100000h\"", "at most 24h");
    says(&error("\"10s\"", "\"99999999999999999999999h\""), 2, "duration", "at most 24h");
    says(&error("\"10s\"", "\"0s\""), 2, "duration", "above zero");
    let long = SOUND.replace("10mbit", "1000gbit").replace("\"10s\"", "\"20h\"");
    let error = load(long.as_bytes(), &LoadOptions::default()).err().expect("an error");
    says(&error, 2, "duration = \"20h\"", "2^31 segments");
}

#[test]
fn a_huge_count_is_refused() {
    let flow = |more: &str| error("kind = \"bulk\"", &format!("kind = \"bulk\"\n{more}"));
    says(&flow("count = 100001"), 10, "flow.bulk0.count = 100001", "from 0 to 100000");
    says(&flow("count = 0"), 8, "flow", "every flow's count is 0");
    says(&flow("count = -3"), 10, "flow.bulk0.count", "from 0 to 100000");
    says(&flow("count = \"1000000*S\""), 8, "flow.bulk0.count", "too many flows");
    says(&flow("count = \"S*S\""), 10, "flow.bulk0.count", "an expression such as");
    says(&flow("count = 60000\n[[flow]]\nkind = \"bulk\"\ncount = 60000"), 11, "flow.bulk1.count", "too many flows");
    let web = |rate: &str| error("kind = \"bulk\"", &format!("kind = \"web\"\nrate = {rate}"));
    says(&web("1e12"), 8, "flow.web0", "too many");
    says(&web("0"), 10, "flow.web0.rate", "a number above zero");
    says(&web("nan"), 10, "rate = nan", "expected a finite number");
    says(&web("inf"), 10, "rate = inf", "expected a finite number");
}

#[test]
fn files_of_other_programs_are_named_with_what_to_do() {
    let said = |bytes: &[u8]| load(bytes, &LoadOptions::default()).err().expect("an error").to_string();
    for (bytes, kind) in [
        (
            &b"\xd4\xc3\xb2\xa1\x02\x00"[..],
            "is a capture of packets (pcap), and no scenario: expected a scenario in TOML; sojourn new",
        ),
        (b"\x0a\x0d\x0d\x0a\x1c\x00\xff", "(pcapng)"),
        (b"\x1f\x8b\x08\x00\xff", "is compressed by gzip, as flent's .flent.gz are"),
        (b"PAR1\x15\xff", "Parquet"),
        (b"{\"version\": 4, \"results\": {}}", "is JSON, as flent, irtt and iperf3 write it"),
        (b"[ {\"kind\": \"codel\"} ]", "is a line of tc"),
        (b"qdisc codel 8001: root refcnt 2 limit 9p", "as the key qdisc of a hop"),
    ] {
        let text = said(bytes);
        assert!(text.contains(kind) && !text.contains('\n'), "{text}");
    }
}

#[test]
fn a_list_without_times_names_sweep() {
    for (key, list) in [("qdisc", "[\"codel\", \"pie\"]"), ("rate", "[\"1mbit\", \"5mbit\"]")] {
        let written = if key == "rate" { "rate = \"10mbit\"" } else { "qdisc = \"codel limit 100\"" };
        let text = error(written, &format!("{key} = {list}")).to_string();
        assert!(text.contains("write under [sweep]: \"hop.") && text.contains(list), "{text}");
    }
}

#[test]
fn what_is_no_toml_is_named_with_its_line() {
    let binary = load(&[b'a', b'\n', 0xff, 0xfe, 0], &LoadOptions::default()).err().expect("an error");
    assert_eq!(binary.to_string(), "scenarios/x.toml:2: no text in UTF-8: expected a scenario file in TOML");
    let zeros = load(&[0; 64], &LoadOptions::default()).err().expect("an error");
    assert!(zeros.to_string().contains("not valid TOML"), "{zeros}");
    let broken = error("rate = \"10mbit\"", "rate = ");
    assert!(broken.to_string().starts_with("scenarios/x.toml:5: not valid TOML"), "{broken}");
    let twice = error("delay =", "rate =");
    assert!(twice.to_string().starts_with("scenarios/x.toml:6: not valid TOML"), "{twice}");
    let deep = format!("a = {}1{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(load(deep.as_bytes(), &LoadOptions::default()).is_err());
}

#[test]
fn rtts_must_hold_the_path() {
    let flow = |more: &str| error("kind = \"bulk\"", &format!("kind = \"bulk\"\n{more}"));
    says(&flow("rtt = \"19ms\""), 10, "flow.bulk0.rtt = \"19ms\"", "at least 20ms");
    says(&flow("rtt = \"10ms..100ms\""), 10, "flow.bulk0.rtt", "at least 20ms");
    says(&flow("rtt = \"30ms\"\njitter = \"11ms\""), 10, "flow.bulk0.rtt", "at least 20ms");
    says(&flow("rtt = [\"30ms\", \"40ms\"]"), 10, "flow.bulk0.rtt", "at most as many as count = 1");
    says(&flow("rtt = []"), 10, "flow.bulk0.rtt", "expected a time such as");
    says(&error("delay = \"10ms\"", "delay = \"0s\""), 8, "flow.bulk0.rtt", "above zero");
}

#[test]
fn names_and_references_are_checked() {
    let flow = |more: &str| error("kind = \"bulk\"", more);
    says(&flow("kind = \"bulc\""), 9, "flow.bulc0.kind", "did you mean \"bulk\"?");
    says(&flow("count = 1"), 8, "flow.flow0.kind", "missing");
    says(&flow("kind = \"bulk\"\nvia = [\"bottlenek\"]"), 10, "flow.bulk0.via", "did you mean \"bottleneck\"?");
    says(&flow("kind = \"sizes\"\nrate = 1\ngroup = \"g\""), 11, "flow.sizes0.group", "unknown group");
    says(&flow("kind = \"bulk\"\ncc = \"qubic\""), 10, "flow.bulk0.cc", "did you mean \"cubic\"?");
    says(&flow("kind = \"bulk\"\ncc = \"fixed 0\""), 10, "flow.bulk0.cc", "a window of 1 to");
    says(&flow("kind = \"bulk\"\nacks = \"windows\""), 10, "flow.bulk0.acks", "did you mean \"window\"?");
    says(&flow("kind = \"bulk\"\nacks = \"window 0\""), 10, "flow.bulk0.acks", "with 1 to 1000000 segments");
    says(&flow("kind = \"bulk\"\nacks = \"window 2 3\""), 10, "flow.bulk0.acks", "\"window 20\"");
    says(&flow("kind = \"bulk\"\nacks = 2"), 10, "flow.bulk0.acks", "expected \"delayed\", \"every\"");
    says(&flow("kind = \"bulk\"\nname = \"a.b\""), 10, "flow.a.b.name", "a name of letters");
    says(
        &flow("kind = \"bulk\"\nname = \"a\"\n[[flow]]\nkind = \"web\"\nname = \"a\""),
        11,
        "flow.a.name",
        "no other flow",
    );
    says(&flow("kind = \"bulk\"\nstop = \"0s\""), 10, "flow.bulk0.stop", "a time after the start");
    says(&flow("kind = \"bulk\"\nrtt_at = \"middle\""), 10, "flow.bulk0.rtt_at", "split, left, right, ack");
    says(&flow("kind = \"download\""), 8, "flow.download0.size", "missing: expected a size");
    says(
        &flow("kind = \"bulk\"\nactive = [[\"5s\", \"2s\"]]"),
        10,
        "flow.bulk0.active",
        "the first time before the second",
    );
}

#[test]
fn streams_that_cannot_be_are_refused() {
    let flow = |rows: &str| error("kind = \"bulk\"", rows);
    says(&flow("kind = \"cbr\""), 8, "flow.cbr0.rate", "missing: expected a rate");
    says(&flow("kind = \"cbr\"\nrate = \"1mbit\"\nsize = 39"), 11, "flow.cbr0.size", "from 40 to 64535");
    says(&flow("kind = \"cbr\"\nrate = \"10tbit\"\nsize = 40"), 10, "flow.cbr0.rate", "a lower rate");
    says(&flow("kind = \"cbr\"\nrate = \"1mbit\"\ncc = \"reno\""), 11, "flow.cbr0.cc", "does not belong to kind");
    says(&flow("kind = \"onoff\"\nrate = \"1mbit\"\ncc = \"reno\""), 11, "flow.onoff0.cc", "only with transport");
    says(&flow("kind = \"onoff\"\nrate = \"1mbit\"\non = \"1us\""), 11, "flow.onoff0.on", "at least 100us");
    says(&flow("kind = \"sizes\"\nrate = 1\nfile = \"none.csv\""), 11, "flow.sizes0.file", "cannot read");
    says(&flow("kind = \"web\""), 8, "flow.web0.rate", "missing: expected a number");
    says(&flow("kind = \"web\"\npage = true\nrate = 5"), 11, "flow.web0.rate", "not with page");
    says(&flow("kind = \"web\"\npage = true\npool = 3"), 11, "flow.web0.pool", "expected true or false");
    says(&flow("kind = \"bulk\"\npool = true"), 10, "flow.bulk0.pool", "does not belong to kind");
    says(&flow("kind = \"web\"\nrate = 5\nconnections = 6"), 11, "flow.web0.connections", "only with page");
    says(&flow("kind = \"web\"\nrate = 5\nobjects = 50"), 11, "flow.web0.objects", "only with page");
    says(&flow("kind = \"video\"\nladder = [\"2mbit\", \"1mbit\"]"), 10, "flow.video0.ladder", "rising");
    says(&flow("kind = \"video\"\nbuffer = \"5s\""), 10, "flow.video0.buffer", "room for two pieces");
    says(&flow("kind = \"video\"\nchunk = \"0s\""), 10, "flow.video0.chunk", "a longer time");
    says(&flow("kind = \"rpm\"\ninterval = \"50ms\""), 10, "flow.rpm0.interval", "at least 100ms");
    says(&flow("kind = \"rpm\"\nconnections = 0"), 10, "flow.rpm0.connections", "from 1 to 1000");
    says(&flow("kind = \"voip\"\ncodec = \"g712\""), 10, "flow.voip0.codec", "did you mean \"g711\"?");
    says(&flow("kind = \"voip\"\nplayout = \"p30\""), 10, "flow.voip0.playout", "a percentile");
}

#[test]
fn a_command_that_makes_no_sense_is_refused() {
    let flow = |text: &str| error("kind = \"bulk\"", &format!("kind = \"command\"\n{text}"));
    let key = "flow.command0.command";
    says(&flow(""), 8, key, "missing: expected a program and its arguments");
    for empty in ["\"\"", "\" \"", "[]", "[\"\"]", "7", "[\"ls\", 7]"] {
        says(&flow(&format!("command = {empty}")), 10, key, "expected a program and its arguments");
    }
    says(&flow("command = \"sh -c 'ls\""), 10, key, "expected a closing '");
    says(&flow("command = 'sh -c \"ls'"), 10, key, "expected a closing \"");
    says(&flow("command = [\"a\\u0000b\"]"), 10, key, "without the character NUL");
    says(&flow("command = \"ls\"\nat = \"router\""), 11, "flow.command0.at", "expected one of client, server");
    says(&flow("command = \"ls\"\nat = \"sever\""), 11, "flow.command0.at", "did you mean \"server\"?");
    says(&flow("comand = \"ls\""), 10, "flow.command0.comand", "did you mean \"command\"?");
    says(&flow("command = \"ls\"\nstart = \"2s\"\nstop = \"1s\""), 12, "flow.command0.stop", "after the start");
    for of_ours in
        ["cc = \"cubic\"", "direction = \"left\"", "dscp = \"EF\"", "tunnel = \"t\"", "user = \"u\"", "pool = true"]
    {
        let name = of_ours.split(' ').next().expect("a key");
        let text = flow(&format!("command = \"ls\"\n{of_ours}"));
        says(&text, 11, &format!("flow.command0.{name}"), "does not belong to kind = \"command\"");
    }
}

#[test]
fn a_command_that_looks_like_a_line_for_a_shell_has_a_warning() {
    let text = SOUND.replacen("kind = \"bulk\"", "kind = \"command\"\ncommand = \"ls | wc\"", 1);
    let plan = load(text.as_bytes(), &LoadOptions::default()).expect("sound");
    assert!(plan.warnings.iter().any(|one| one.contains("no shell runs it: | is an argument")), "{:?}", plan.warnings);
}

#[test]
fn what_comes_later_says_so() {
    let cc = error("kind = \"bulk\"", "kind = \"bulk\"\ncc = \"bbr2\"");
    assert!(cc.not_built && cc.to_string().contains("not built yet"), "{cc}");
    let error = error("codel limit 100", "etf clockid CLOCK_TAI");
    assert!(error.not_built && error.to_string().contains("use fq for pacing"), "{error}");
}

#[test]
fn a_rate_with_a_misspelt_unit_or_of_zero_is_answered_with_what_to_write() {
    for (wrong, answer) in [
        ("5mbits", "did you mean \"5mbit\"?"),
        ("5 Mbit/s", "did you mean \"5mbit\"?"),
        ("5M", "did you mean \"5mbit\"?"),
        ("0bit", "an outage is a step of \"0bit\""),
    ] {
        let error = error("rate = \"10mbit\"", &format!("rate = \"{wrong}\""));
        assert!(error.to_string().contains(answer), "{error}");
    }
}

#[test]
fn a_discipline_may_be_a_whole_command_or_what_tc_shows() {
    let show =
        "\"\"\"\nqdisc codel 8001: root refcnt 2 limit 100p target 5ms interval 100ms \n Sent 0 bytes 0 pkt\n\"\"\"";
    for line in [
        "\"tc qdisc add dev eth0 root codel limit 100\"",
        "\"sudo tc qdisc replace dev eth0 root codel limit 1bdp\"",
        show,
    ] {
        let text = SOUND.replace("\"codel limit 100\"", line);
        let plan = load(text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(plan.scenario(0).expect("a scenario").hops[0].right.qdisc.kind(), "codel", "{line}");
    }
    let said = error("\"codel limit 100\"", "\"tc qdisc show dev eth0\"").to_string();
    assert!(said.contains("what tc qdisc show prints"), "{said}");
}

#[test]
fn a_setting_that_passes_nothing_is_warned_of() {
    for (line, what) in [
        ("tbf rate 1mbit burst 1000 latency 50ms", "full ones of 1514 bytes never pass"),
        ("codel target 5", "microseconds"),
        ("pie target 0", "treat a zero as not given"),
    ] {
        let text = SOUND.replace("codel limit 100", line);
        let plan = load(text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert!(plan.warnings.iter().any(|said| said.contains(what)), "{line}: {:?}", plan.warnings);
    }
}

#[test]
fn a_congestion_control_that_answers_to_marks_wants_ecn() {
    let error = error("kind = \"bulk\"", "kind = \"bulk\"\ncc = \"dctcp\"");
    assert!(error.to_string().contains("expected ecn = true too"), "{error}");
    let text = SOUND.replace("kind = \"bulk\"", "kind = \"bulk\"\necn = true\ncc = \"dctcp\"");
    let plan = load(text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    let scenario = plan.scenario(0).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(scenario.workload.entries[0].tcp.cc, sojourn_core::tcp::Cc::Dctcp);
}

#[test]
fn what_only_linux_has_is_read_for_the_world_that_is_linux() {
    let text = SOUND.replace("codel limit 100", "hhf limit 500");
    let text = text.replace("kind = \"bulk\"", "kind = \"bulk\"\ncc = \"illinois\"");
    let plan = load(text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    let scenario = plan.scenario(0).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(scenario.hops[0].right.qdisc.tc_line().as_deref(), Some("hhf limit 500"));
    assert_eq!(scenario.workload.entries[0].tcp.cc, sojourn_core::tcp::Cc::Linux("illinois"));
}

#[test]
fn a_sweep_skips_what_is_not_built_unless_nothing_is_left() {
    let text = format!("{SOUND}[sweep]\n\"hop.bottleneck.qdisc\" = [\"etf\", \"codel\", \"gred\"]\nseeds = 2\n");
    let plan = load(text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((plan.runs.len(), plan.skipped.len()), (2, 2));
    assert_eq!(plan.skipped[0].set[0], ("hop.bottleneck.qdisc".into(), "etf".into()));
    assert!(plan.skipped[0].reason.contains("use fq for pacing"), "{}", plan.skipped[0].reason);
    let none = load(text.replace(", \"codel\"", "").as_bytes(), &LoadOptions::default()).err().expect("an error");
    assert_eq!(none.line, Some(11));
}

#[test]
fn a_sweep_is_checked_throughout() {
    let sweep = |text: &str| {
        load(format!("{SOUND}[sweep]\n{text}").as_bytes(), &LoadOptions::default()).err().expect("an error")
    };
    says(&sweep("\"hop.bottlenck.rate\" = [\"1mbit\"]"), 11, "hop.bottlenck.rate", "did you mean \"bottleneck\"?");
    says(&sweep("hop.bottleneck.rate = [\"1mbit\", \"1mb\"]"), 11, "hop.bottleneck.rate = \"1mb\"", "expected a rate");
    says(&sweep("\"duration\" = \"5s\""), 11, "duration = \"5s\"", "expected a list, a range");
    says(&sweep("\"duration\" = []"), 11, "duration = []", "expected a list, a range");
    says(&sweep("seeds = 0"), 11, "sweep.seeds = 0", "from 1 to 100000");
    says(
        &sweep("\"duration\" = \"1s..9s lin 1000\"\n\"hop.bottleneck.delay\" = \"1ms..9ms lin 101\""),
        10,
        "sweep",
        "too many runs",
    );
    says(&sweep("\"duration\" = [\"5s\"]\nseeds = 100001"), 12, "sweep.seeds", "from 1 to 100000");
}

#[test]
fn a_key_has_one_name_in_a_sweep_and_on_the_command_line() {
    let text = |one: &str, other: &str| {
        format!("{SOUND}[sweep]\n\"hop.bottleneck.{one}\" = [\"1mbit\"]\n\"hop.bottleneck.{other}\" = [\"2mbit\"]\n")
    };
    for (one, other) in [("up.rate", "reverse.rate"), ("rate", "down.rate"), ("reverse.nic.ring", "up.nic.ring")] {
        let error = load(text(one, other).as_bytes(), &LoadOptions::default()).err().expect("an error");
        says(&error, 12, &format!("hop.bottleneck.{other}"), &format!("hop.bottleneck.{one} is the same key"));
        let set = [one, other].map(|key| (format!("hop.bottleneck.{key}"), "3".into())).to_vec();
        let error = load(SOUND.as_bytes(), &LoadOptions { set, ..LoadOptions::default() }).err().expect("an error");
        assert!(error.to_string().contains(&format!("hop.bottleneck.{one} is the same key")), "{error}");
    }
    // Both directions are separate keys, and a key that is set is not swept, under either name.
    assert!(load(text("rate", "up.rate").as_bytes(), &LoadOptions::default()).is_ok());
    let set = vec![("hop.bottleneck.reverse.rate".into(), "3mbit".into())];
    let plan = load(text("rate", "up.rate").as_bytes(), &LoadOptions { set, ..LoadOptions::default() });
    assert_eq!(plan.unwrap_or_else(|error| panic!("{error}")).runs[0].set.len(), 2);
}

#[test]
fn the_command_lines_values_are_checked_alike() {
    let set = |key: &str, value: &str| {
        let options = LoadOptions { set: vec![(key.into(), value.into())], ..LoadOptions::default() };
        load(SOUND.as_bytes(), &options).err().expect("an error").to_string()
    };
    let text = set("hop.bottleneck.rate", "10mb/s");
    assert!(text.starts_with("scenarios/x.toml: hop.bottleneck.rate = \"10mb/s\": expected a rate"), "{text}");
    assert!(set("hop.bottleneck.rat", "1mbit").contains("did you mean \"rate\"?"));
    assert!(set("flow.bulk1.cc", "reno").contains("did you mean \"bulk0\"?"));
    let seeds = LoadOptions { seeds: Some(0), ..LoadOptions::default() };
    assert!(load(SOUND.as_bytes(), &seeds).is_err());
    let seed = LoadOptions { seed: Some(u64::MAX), seeds: Some(2), ..LoadOptions::default() };
    assert!(load(SOUND.as_bytes(), &seed).is_err());
}

#[test]
fn a_flow_that_never_starts_is_warned_of() {
    let text = format!("{SOUND}start = \"10s\"\n");
    let plan = load(text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(plan.warnings, ["flow.bulk0: starts when the run is over"]);
}

#[test]
fn a_step_at_or_after_the_end_is_warned_of() {
    for (key, old, first, later) in [
        ("qdisc", "codel limit 100", "codel", "fq_codel"),
        ("rate", "10mbit", "10mbit", "1mbit"),
        ("delay", "10ms", "10ms", "20ms"),
    ] {
        for (time, count) in [("9999ms", 0), ("10s", 1), ("30s", 1)] {
            let steps = format!("{key} = [[\"0s\", \"{first}\"], [\"{time}\", \"{later}\"]]");
            let text = SOUND.replace(&format!("{key} = \"{old}\""), &steps);
            let plan = load(text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(plan.warnings.len(), count, "{key} {time}: {:?}", plan.warnings);
            for said in &plan.warnings {
                assert!(said.starts_with(&format!("hop.bottleneck.{key} = \"{time}\": the run ends at 10s")), "{said}");
            }
        }
    }
}

#[test]
fn a_window_beyond_the_end_says_which_would_do() {
    let text = SOUND.replace("\"10s\"", "\"5s\"\nmeasure = [\"10s\", \"end\"]");
    let error = load(text.as_bytes(), &LoadOptions::default()).err().expect("an error");
    says(&error, 3, "measure", "such as [\"500ms\", \"end\"]; a run that is made shorter needs another measure too");
}

#[test]
fn megabytes_a_second_are_warned_of() {
    let text = SOUND.replace("10mbit", "2mbps");
    let plan = load(text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(plan.warnings.len(), 1);
    assert!(plan.warnings[0].contains("bytes per second: this is 16mbit"), "{}", plan.warnings[0]);
}

/// Words that a mutation may insert anywhere.
const WORDS: &[&str] = &[
    "\"\"",
    "[]",
    "{}",
    "-1",
    "0",
    "1e308",
    "nan",
    "\"-1ms\"",
    "\"0s\"",
    "\"24h\"",
    "\"1..2\"",
    "\"1ns..24h\"",
    "\"8bdp\"",
    "\"1e9*S\"",
    "[[]]",
    "true",
    "1979-05-27",
    "18446744073709551615",
    "\"exp 0s\"",
    "\"normal 1s 9s\"",
    "[hop]",
    "[[flow]]",
    "[sweep]",
    "\"hop.bottleneck.rate\" = [\"1mbit\"]",
    "active = [[\"0s\",\"end\"]]",
    "kind = \"web\"",
    "rate = 3",
    "kind = \"sizes\"",
    "kind = \"download\"",
    "size = 5",
    "gap = \"0s\"",
    "reverse = { rate = \"1bit\" }",
    "count = \"S\"",
    "stop = \"0s\"",
    "jitter = \"1ns\"",
    "direction = \"both\"",
    "zip = [[]]",
    "mss = 1",
    "rwnd = \"1\"",
    "=",
    "\n",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Loading and drawing mutated scenarios returns a plan or an error and never panics.
    #[test]
    fn no_text_makes_it_panic(edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..12, 0usize..WORDS.len()), 1..6)) {
        let mut text = SOUND.to_owned();
        for (place, cut, word) in edits {
            let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).filter(|at| {
                *at == 0 || matches!(text.as_bytes()[at - 1], b'\n' | b' ' | b'"')
            }).collect();
            let from = *place.get(&starts);
            let to = (from..=text.len()).filter(|at| text.is_char_boundary(*at)).nth(cut).unwrap_or(text.len());
            // Whole lines are inserted as lines.
            let line = WORDS[word].contains('=') || WORDS[word].starts_with("[[f") || WORDS[word].starts_with("[h");
            text.replace_range(from..to, &if line { format!("\n{}\n", WORDS[word]) } else { WORDS[word].to_owned() });
        }
        if let Ok(plan) = load(text.as_bytes(), &LoadOptions::default()) {
            for run in 0..plan.runs.len().min(2) {
                prop_assert!(plan.scenario(run).is_ok());
            }
        }
    }

    /// Any value at any key is answered.
    #[test]
    fn no_value_makes_it_panic(key in 0usize..14, value in prop_oneof!["\\PC{0,20}", "[0-9a-z.* ]{0,12}", (0usize..WORDS.len()).prop_map(|i| WORDS[i].to_owned())]) {
        let keys = [
            "duration", "measure", "title", "seeds", "hop.bottleneck.rate", "hop.bottleneck.delay", "hop.bottleneck.qdisc",
            "hop.bottleneck.reverse.qdisc", "flow.bulk0.rtt", "flow.bulk0.count", "flow.bulk0.start", "flow.bulk0.stop",
            "flow.bulk0.rwnd", "host.rto_min",
        ];
        let options = LoadOptions { set: vec![(keys[key].into(), value)], ..LoadOptions::default() };
        if let Ok(plan) = load(SOUND.as_bytes(), &options) {
            prop_assert!(plan.scenario(0).is_ok());
        }
    }

    /// Neither does any file of bytes.
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(load(&bytes, &LoadOptions::default()).is_err());
    }
}
