//! Hosts that behave like Linux: tuned windows and compressed ACKs.

use sojourn_model::plan::{LoadOptions, Plan};

use super::*;

fn played(text: &str) -> Output {
    let plan = Plan::load("t.toml", text.as_bytes(), &LoadOptions::default()).expect("a sound file");
    let scenario = plan.scenario(0).expect("a sound run");
    run(&scenario, &Options { series: true, ..Options::default() }).expect("nobody stops it")
}

/// One flow with an RTT of 100 ms, over a link that holds ten times the window.
fn far(host: &str) -> Output {
    played(&format!(
        "duration = \"6s\"\nmeasure = [\"3s\", \"end\"]\n[[hop]]\nrate = \"1gbit\"\ndelay = \"5ms\"\n\
         qdisc = \"pfifo limit 50000\"\n[[flow]]\nkind = \"bulk\"\nrtt = \"100ms\"\n[host]\n{host}\n"
    ))
}

/// Paper 004: windows of up to 4 MB. In the kernel world, Linux 7.3 has 3 883 008 bytes and 310.6 Mbit/s with the same
/// file. There `rmem_max` makes windows multiples of 2048 bytes; here they are multiples of 128.
#[test]
fn a_window_grows_to_what_six_megabytes_hold_and_bounds_the_sender() {
    let output = far("rmem = \"6mb\"");
    let columns = output.flows[0].series.state_columns();
    let (_, windows) = columns.iter().find(|column| column.0 == "window").expect("a series of the window");
    assert_eq!(windows[0], 45.0, "64 kB at first");
    assert_eq!(windows.last().copied(), Some(f64::from(3_881_600 / 1448)));
    assert!(windows.windows(2).all(|pair| pair[1] > pair[0] * 0.5));
    let goodput = output.flows[0].main.goodput_mbit.expect("a goodput");
    assert!((goodput / 310.6 - 1.0).abs() < 0.01, "{goodput}");
}

/// In the kernel world, Linux 7.3 has 62.78 and 18.82 Mbit/s with the same file, and queues of 21.95 and 10.96 ms.
#[test]
fn a_send_buffer_bounds_a_flow_and_is_filled_in_writes() {
    for (cc, wmem, goodput, queue) in [("cubic", "1mb", 62.78, 21.95), ("reno", "200kb", 18.82, 10.96)] {
        let output = played(&format!(
            "duration = \"20s\"\nmeasure = [\"5s\", \"end\"]\n[[hop]]\nrate = \"100mbit\"\ndelay = \"25ms\"\nqdisc = \"pfifo limit 1000\"\n\
             [[flow]]\nkind = \"bulk\"\ncc = \"{cc}\"\nrtt = \"100ms\"\n[host]\nrmem = \"64mb\"\nwmem = \"{wmem}\"\n"
        ));
        let found = output.flows[0].main.goodput_mbit.expect("a goodput");
        assert!((found / goodput - 1.0).abs() < 0.01, "{cc}, {wmem}: {found} Mbit/s");
        let mean = output.links[0].main.sojourn_ms.as_ref().expect("packets").mean;
        assert!((mean / queue - 1.0).abs() < 0.01, "{cc}, {wmem}: {mean} ms");
    }
}

#[test]
fn a_window_without_bound_is_no_series() {
    let columns = far("rto_min = \"200ms\"").flows[0].series.state_columns();
    assert!(columns.len() == 4 && columns.iter().all(|column| column.0 != "window"));
}

/// The receiver's RTT is that of the arriving segment. With the sender's last RTT sample, which lacks the growth of the
/// queue since then, the window would open too slowly: 800 packets would be dropped instead of 1,324.
#[test]
fn a_tuned_window_lets_a_slow_start_fill_a_deep_queue() {
    let drops = |host: &str| {
        let output = played(&format!(
            "duration = \"2s\"\n[[hop]]\nrate = \"60mbit\"\ndelay = \"16ms\"\nqdisc = \"pfifo limit 1000\"\n\
             [[flow]]\nkind = \"bulk\"\ncc = \"reno\"\nrtt = \"64ms\"\n[host]\n{host}\n"
        ));
        output.links[0].main.drops
    };
    let (tuned, unbound) = (drops("rmem = \"256mb\""), drops("hz = 250"));
    assert!(unbound > 1000 && tuned.abs_diff(unbound) < 10, "{tuned} and {unbound}");
}

/// A burst of losses leaves many segments above a hole.
#[test]
fn a_receiver_of_today_sends_fewer_acks_of_what_is_out_of_order() {
    let acks = |host: &str| {
        let output = played(&format!(
            "duration = \"10s\"\n[[hop]]\nname = \"b\"\nrate = \"100mbit\"\ndelay = \"5ms\"\nqdisc = \"pfifo limit 80\"\n\
             [[flow]]\nkind = \"bulk\"\nrtt = \"40ms\"\n[host]\n{host}\n"
        ));
        let packets = |link: usize| output.links[link].main.delivered_packets as f64;
        packets(1) / packets(0)
    };
    let (waiting, at_once) = (acks("comp_sack_nr = 44"), acks("comp_sack_nr = 0"));
    assert!(waiting < at_once - 0.002 && waiting > 0.45, "{waiting} and {at_once} ACKs a packet");
}

/// Mean RTT in ms of a host whose access link is the bottleneck.
fn rtt_behind_a_slow_link(host: &str) -> f64 {
    let text = format!(
        "duration = \"6s\"\nmeasure = [\"2s\", \"end\"]\n[access]\nrate = \"5mbit\"\nlimit = 2000\n\
         [[hop]]\nrate = \"100mbit\"\ndelay = \"5ms\"\n[[flow]]\nkind = \"bulk\"\nrtt = \"40ms\"\n[host]\n{host}\n"
    );
    let plan = Plan::load("t.toml", text.as_bytes(), &LoadOptions::default()).expect("a sound file");
    let output = assert_engines_agree(host, &plan.scenario(0).expect("a sound run"));
    let main = &output.flows[0].main;
    assert!(main.goodput_mbit.is_some_and(|goodput| goodput > 4.6), "{host}: {:?}", main.goodput_mbit);
    main.rtt_ms.as_ref().expect("samples").mean
}

/// Linux `tcp_small_queue_check`: two packets plus one are queued in the host, 7 ms at this rate, instead of the whole
/// window.
#[test]
fn with_small_queues_a_slow_link_of_the_host_s_own_is_no_bloated_buffer() {
    let (bloated, small) = (rtt_behind_a_slow_link("hz = \"250\""), rtt_behind_a_slow_link("tsq = \"4mb\""));
    assert!(bloated > 150.0 && small < 55.0, "{bloated} and {small} ms");
}

#[test]
fn what_a_card_hands_up_together_is_acknowledged_once() {
    let acks = |host: &str| {
        let text = format!(
            "duration = \"5s\"\n[[hop]]\nrate = \"1gbit\"\ndelay = \"5ms\"\n\
             [[flow]]\nkind = \"bulk\"\nrtt = \"20ms\"\n[host]\n{host}\n"
        );
        let output = played(&text);
        let packets = |link: usize| output.links[link].main.delivered_packets as f64;
        packets(0) / packets(1)
    };
    let (each, merged) = (acks("hz = \"250\""), acks("gro_flush_timeout = \"200us\""));
    assert!(each < 2.2 && merged > 8.0, "{each} and {merged} packets an ACK");
}

/// The last segment of a burst has PSH, which Linux's receiver acknowledges at once (`__tcp_cleanup_rbuf`). In the
/// kernel world there are 0.553 ACKs per packet with the same file, with windows of some hundred segments. With bursts
/// of one segment, every second one is acknowledged.
#[test]
fn the_last_of_a_burst_is_acknowledged_at_once() {
    let acks = |host: &str| {
        let output = played(&format!(
            "duration = \"10s\"\n[[hop]]\nname = \"b\"\nrate = \"100mbit\"\ndelay = \"5ms\"\nqdisc = \"pfifo limit 80\"\n\
             [[flow]]\nkind = \"bulk\"\ncount = 2\nrtt = \"40ms\"\n[host]\nrmem = \"64mb\"\n{host}\n"
        ));
        output.links[1].main.delivered_packets as f64 / output.links[0].main.delivered_packets as f64
    };
    let (bursts, singly) = (acks("gso_max_segs = 65535"), acks("gso_max_segs = 1"));
    assert!((bursts - 0.553).abs() < 0.02 && (singly - 0.5).abs() < 0.02, "{bursts} and {singly}");
}
