//! RACK-TLP, F-RTO and DSACK, according to RFC 8985, RFC 5682 and Linux.

use super::*;

const RTT: Span = Span::from_millis(100);

fn config() -> Config {
    Config { cc: Cc::Reno, iw: 20, acks: AckPolicy::Every, ..Config::default() }
}

/// An established connection that knows its RTT.
fn path(config: Config) -> Path {
    let mut path = Path::new(config, RTT);
    path.sender.establish(Time::ZERO, Some(RTT));
    path
}

/// The retransmissions: their times in ms, and the segments.
fn again(path: &Path) -> Vec<(u64, u32)> {
    path.sent.iter().filter(|(_, tx)| tx.retransmit).map(|(at, tx)| (at.0 / 1_000_000, tx.seq)).collect()
}

/// Loses each of these copies: the time in ms at which it is sent, and its segment.
fn lose(path: &mut Path, copies: &'static [(u64, u32)]) {
    path.data = Box::new(move |at, tx| {
        let lost = copies.contains(&(at.0 / 1_000_000, tx.seq));
        Fate { lost, ..Fate::default() }
    });
}

/// RFC 8985 §3.4, figure 1: P1 to P3 are lost. PRR allows one segment for each that arrives; the figure shows two.
#[test]
fn figure_1_of_rfc_8985_a_lost_tail_needs_no_timeout() {
    let mut path = path(config());
    lose(&mut path, &[(0, 1), (0, 2), (0, 3)]);
    path.sender.write(4 * 1448);
    path.run_until(at_ms(2000));
    // The probe is sent two round trips and 2 ms after the ACK, rounded up to ticks, plus one tick. Its SACK shows that P1 and P2 are lost.
    assert_eq!(again(&path), [(308, 3), (408, 1), (508, 2)]);
    assert!(path.sender.all_acked());
    assert_eq!((path.sender.timeouts(), path.sender.ssthresh()), (0, 10));
}

/// RFC 8985 §3.4, events 6 and 7: the retransmission is lost, because a segment that was sent later has arrived.
#[test]
fn a_lost_retransmission_is_found_without_a_timeout() {
    let mut path = path(config());
    path.service = Span::from_millis(1);
    lose(&mut path, &[(0, 0), (0, 1), (103, 0)]);
    path.sender.write(20 * 1448);
    path.run_until(at_ms(2000));
    let repeated = again(&path);
    assert_eq!(repeated.iter().map(|&(_, seq)| seq).collect::<Vec<u32>>(), [0, 1, 0]);
    assert!(repeated[0].0 == 103 && repeated[2].0 < 103 + 100 + 30, "{repeated:?}");
    assert!(path.sender.all_acked());
    assert_eq!((path.sender.timeouts(), path.sender.ssthresh()), (0, 10), "one reduction");
}

/// RFC 8985 §3.5: the sender sends one segment, and two more shortly before the first one's timeout.
#[test]
fn a_timeout_takes_nothing_for_lost_that_left_less_than_a_round_trip_ago() {
    let mut path = path(Config { timestamps: false, ..config() });
    path.data =
        Box::new(|_, tx| Fate { late: Span::from_millis(if tx.seq == 0 { 650 } else { 0 }), ..Fate::default() });
    path.sender.write(1448);
    path.run_until(at_ms(550));
    path.sender.write(2 * 1448);
    path.run_until(at_ms(3000));
    assert!(path.sender.all_acked());
    // The probe is sent one timeout after the first transmission, at a multiple of 32 ms like all of Linux's timers of more than 252 ms.
    // A second probe would be due at 624 ms, but only one is allowed: the timeout follows as soon as a timer can expire.
    assert_eq!((again(&path), path.sender.timeouts()), ([(320, 0), (632, 0)].to_vec(), 1));
}

#[test]
fn a_lost_tail_of_one_is_repaired_by_the_probe_and_counts_as_congestion() {
    let mut path = path(config());
    lose(&mut path, &[(0, 9)]);
    path.sender.write(10 * 1448);
    path.run_until(at_ms(420));
    // One segment is outstanding, so the probe waits 200 ms more for a delayed ACK, but not longer than the timeout. A timer of more
    // than 252 ms expires at the next multiple of 32 ms.
    assert_eq!(again(&path), [(416, 9)]);
    path.run_until(at_ms(1000));
    assert_eq!(
        (path.sender.all_acked(), path.sender.ssthresh()),
        (true, u32::MAX),
        "a duplicate may still be reported"
    );
    let before = path.sender.cwnd();
    path.sender.write(2 * 1448);
    path.run_until(at_ms(2000));
    assert!(path.sender.all_acked());
    assert_eq!((path.sender.ssthresh(), path.sender.timeouts()), (before / 2, 0));
}

#[test]
fn a_probe_that_repaired_nothing_is_reported_as_a_duplicate_and_costs_nothing() {
    let mut path = path(config());
    // All ACKs of the flight arrive 250 ms late.
    path.acks = Box::new({
        let mut count = 0;
        move || {
            count += 1;
            Fate { late: Span::from_millis(if count <= 10 { 250 } else { 0 }), ..Fate::default() }
        }
    });
    path.sender.write(10 * 1448);
    path.run_until(at_ms(1000));
    assert_eq!(again(&path), [(208, 9)]);
    path.sender.write(20 * 1448);
    path.run_until(at_ms(2000));
    assert!(path.sender.all_acked());
    assert_eq!((path.sender.ssthresh(), path.sender.retransmits(), path.sender.timeouts()), (u32::MAX, 1, 0));
}

#[test]
fn the_probe_is_new_data_if_there_is_any_whatever_the_window() {
    let mut path = path(Config { iw: 10, ..config() });
    lose(&mut path, &[(0, 8), (0, 9)]);
    // No ACK of the first ten segments arrives. Ten more segments wait for the window.
    let mut count = 0;
    path.acks = Box::new(move || {
        count += 1;
        Fate { lost: count <= 8, ..Fate::default() }
    });
    path.sender.write(20 * 1448);
    path.run_until(at_ms(213));
    let probe = path.sent.last().unwrap();
    assert_eq!((probe.0, probe.1.seq, probe.1.retransmit), (at_ms(208), 10, false));
    assert_eq!((path.sender.cwnd(), path.sender.inflight()), (10, 11));
    path.run_until(at_ms(3000));
    assert!(path.sender.all_acked());
    assert_eq!(again(&path), [(308, 8), (308, 9)], "by the SACK of the probe");
    assert_eq!(path.sender.timeouts(), 0);
}

/// Linux `tcp_send_loss_probe` passes a single segment to `tcp_transmit_skb`, so the probe is not the end of a burst.
#[test]
fn a_probe_of_new_data_has_no_psh_of_the_burst_before_it() {
    for tsq in [None, Some(1 << 20)] {
        let mut path = path(Config { iw: 10, gso_max_segs: 65_535, tsq, ..config() });
        path.acks = Box::new(|| Fate { lost: true, ..Fate::default() });
        path.sender.write(20 * 1448);
        path.run_until(at_ms(213));
        let sent: Vec<(u32, bool)> = path.sent.iter().map(|(_, tx)| (tx.seq, tx.push)).collect();
        assert_eq!(sent.len(), 11, "{tsq:?}");
        assert_eq!((sent[9], sent[10]), ((9, true), (10, false)), "{tsq:?}");
    }
}

#[test]
fn reordering_within_a_quarter_of_the_rtt_repeats_nothing() {
    let mut path = path(config());
    path.service = Span::from_millis(1);
    // Many segments overtake every eleventh one, but it is only 20 ms late.
    path.data =
        Box::new(|_, tx| Fate { late: Span::from_millis(if tx.seq % 11 == 5 { 20 } else { 0 }), ..Fate::default() });
    path.sender.write(40 * 1448);
    path.run_until(at_ms(3000));
    // While no reordering has been seen, three SACKed segments make a hole lost.
    assert!(again(&path).len() <= 2, "{:?}", again(&path));
    let known = path.sent.len();
    path.sender.write(400 * 1448);
    path.run_until(at_ms(9000));
    assert!(path.sender.all_acked());
    assert!(path.sent[known..].iter().all(|(_, tx)| !tx.retransmit), "{:?}", again(&path));
}

#[test]
fn what_was_repeated_in_vain_is_undone_when_all_of_it_is_reported() {
    for timestamps in [true, false] {
        let mut path = path(Config { timestamps, ..config() });
        // The other nineteen overtake the first segment. It is retransmitted at the third SACK, but the original arrives 30 ms late.
        path.data = Box::new(|at, tx| {
            let late = at == Time::ZERO && tx.seq == 0;
            Fate { late: Span::from_millis(if late { 30 } else { 0 }), ..Fate::default() }
        });
        path.sender.write(20 * 1448);
        path.run_until(at_ms(120));
        assert_eq!((again(&path), path.sender.ssthresh()), ([(100, 0)].to_vec(), 10));
        path.run_until(at_ms(250));
        assert!(path.sender.all_acked());
        assert!(path.sender.ssthresh() > 10 && path.sender.cwnd() >= 20, "{timestamps}");
    }
}

#[test]
fn the_window_of_tolerance_is_a_quarter_of_the_smallest_rtt_times_the_rounds_with_dsack() {
    let ms = Span::from_millis;
    let mut rack = crate::tcp::rack::Rack::default();
    assert_eq!(rack.reo_wnd(false, 2, ms(100), ms(120)), ms(25));
    assert_eq!(rack.reo_wnd(false, 3, ms(100), ms(120)), Span::ZERO, "three SACKed, no reordering seen");
    assert_eq!(rack.reo_wnd(true, 0, ms(100), ms(120)), Span::ZERO, "repairing, no reordering seen");
    rack.note_dsack(0, 10);
    rack.note_reordering(4);
    assert_eq!(rack.reo_wnd(true, 9, ms(100), ms(120)), ms(25), "a DSACK without reordering says nothing");
    rack.note_dsack(0, 10);
    rack.note_dsack(5, 14);
    assert_eq!(rack.reo_wnd(true, 9, ms(100), ms(120)), ms(50), "one a round trip");
    rack.note_dsack(10, 20);
    rack.note_dsack(20, 30);
    rack.note_dsack(30, 40);
    assert_eq!(rack.reo_wnd(true, 9, ms(100), ms(120)), ms(120), "no more than SRTT");
    (0..15).for_each(|_| rack.on_recovery());
    assert_eq!(rack.reo_wnd(true, 9, ms(100), ms(200)), ms(125));
    rack.on_recovery();
    assert_eq!(rack.reo_wnd(true, 9, ms(100), ms(200)), ms(25), "sixteen recoveries later as at first");
}

/// RFC 5682: the path delivers nothing for 700 ms. Without timestamps, only the late arrivals show that the timeout was spurious.
#[test]
fn f_rto_finds_a_spurious_timeout_without_timestamps_and_repeats_one_segment() {
    for timestamps in [false, true] {
        let mut path = path(Config { timestamps, ..config() });
        path.data = Box::new(|at, _| Fate { late: at_ms(900).since(at.max(at_ms(200))), ..Fate::default() });
        path.sender.write(60 * 1448);
        path.run_until(at_ms(250));
        let before = path.sender.cwnd();
        path.run_until(at_ms(2000));
        assert!(path.sender.all_acked() && path.sender.timeouts() > 0);
        let seqs: Vec<u32> = again(&path).iter().map(|&(_, seq)| seq).collect();
        assert!(seqs.iter().all(|seq| seq == &seqs[0]), "{seqs:?}");
        assert!(path.sender.cwnd() >= before, "{before} {}", path.sender.cwnd());
    }
}

/// RFC 5682 §3.1: after the first retransmission, new data is sent. Its SACK shows that the other segments are lost.
#[test]
fn after_a_real_timeout_new_data_is_sent_first_and_then_all_that_is_lost() {
    let mut path = path(Config { iw: 10, ..config() });
    path.data = Box::new(|at, _| Fate { lost: at < at_ms(400), ..Fate::default() });
    path.sender.write(30 * 1448);
    path.run_until(at_ms(5000));
    assert!(path.sender.all_acked());
    let from = path.sent.iter().position(|(at, _)| *at >= at_ms(400)).unwrap();
    let sent: Vec<(u32, bool)> = path.sent[from..from + 4].iter().map(|(_, tx)| (tx.seq, tx.retransmit)).collect();
    assert_eq!(sent, [(0, true), (11, false), (12, false), (1, true)], "ten and the probe were lost");
    let mut all: Vec<u32> = again(&path).iter().map(|&(_, seq)| seq).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all, (0..11).collect::<Vec<u32>>());
    assert_eq!(again(&path).len(), 11, "each once");
}

/// RFC 3168 §6.1.1.1: a middlebox may drop SYNs with ECN.
#[test]
fn who_has_to_repeat_a_syn_asks_for_no_ecn() {
    for (lost_for, late, expected) in [(0, 0, true), (500, 0, false), (0, 970, true)] {
        let mut path = Path::new(Config { ecn: true, ..config() }, RTT);
        path.data = Box::new(move |at, tx| Fate {
            lost: tx.syn && at < at_ms(lost_for),
            late: Span::from_millis(if tx.syn && at == Time::ZERO { late } else { 0 }),
            ..Fate::default()
        });
        path.sender.open(Time::ZERO);
        path.sender.write(40 * 1448);
        path.run_until(at_ms(1400));
        let data = path.sent.iter().filter(|(_, tx)| !tx.syn);
        assert!(data.clone().count() > 0 && data.clone().all(|(_, tx)| tx.ect == expected), "{lost_for} {late}");
    }
}

/// Linux: a FIN is in the retransmission queue, detected as lost and retransmitted like data; but it is not ECN-capable.
#[test]
fn a_fin_that_is_lost_is_sent_again() {
    let mut path = Path::new(Config { ecn: true, ..config() }, RTT);
    let is_fin = |tx: &Transmit| tx.payload == 0 && !tx.syn;
    path.data = Box::new(move |_, tx| Fate { lost: is_fin(tx) && !tx.retransmit, ..Fate::default() });
    path.sender.open(Time::ZERO);
    path.sender.write(4 * 1448);
    path.run_until(at_ms(500));
    path.sender.finish();
    path.sender.finish();
    path.run_until(at_ms(5000));
    let fins: Vec<_> = path.sent.iter().filter(|(_, tx)| is_fin(tx)).collect();
    assert_eq!(
        fins.iter().map(|(_, tx)| (tx.seq, tx.retransmit, tx.ect)).collect::<Vec<_>>(),
        [(4, false, false), (4, true, false)]
    );
    assert_eq!((path.sender.acked(), path.sender.retransmits()), (5, 1));
}

/// Linux `tcp_try_undo_spurious_syn`: timestamps show that the first SYN arrived; the answer shows which SYN asked for ECN.
#[test]
fn the_window_outlives_repeated_syns_if_the_first_of_them_came() {
    for (timestamps, echo, cwnd, ecn) in
        [(true, 0, 20, true), (true, 1, 1, false), (false, 0, 1, true), (false, 1, 1, false)]
    {
        let mut sender = Sender::new(&Config { ecn: true, timestamps, ..config() });
        sender.open(Time::ZERO);
        let mut sent = Vec::new();
        while sent.len() < 4 {
            let now = if sent.is_empty() { Time::ZERO } else { sender.next_event() };
            sender.on_timer(now);
            while sender.poll_transmit(now).is_some_and(|tx| tx.syn) {
                sent.push(now);
            }
        }
        let stamp = (sent[echo].0 / 1000) as u32;
        let answer = Ack { ts_first: stamp, ts_last: stamp, window: 1000, syn: true, ..Ack::default() };
        sender.on_ack(sent[3] + RTT, &answer, &[]);
        assert_eq!((sender.cwnd(), sender.has_ecn()), (cwnd, ecn), "timestamps {timestamps}, SYN {echo}");
    }
}

#[test]
fn the_first_four_waits_for_an_answer_to_a_syn_are_a_second_each() {
    let mut path = Path::new(config(), RTT);
    path.data = Box::new(|_, tx| Fate { lost: tx.syn, ..Fate::default() });
    path.sender.open(Time::ZERO);
    path.run_until(at_ms(12_000));
    let syns: Vec<u64> = path.sent.iter().map(|(at, _)| at.0 / 1_000_000_000).collect();
    assert_eq!(syns, [0, 1, 2, 3, 4, 5, 7, 11]);
}

/// The RTT is taken from the timestamp, in whole milliseconds. The timer expires at ticks, so a timeout of one second takes 1024 ms.
#[test]
fn a_syn_that_is_repeated_is_timed_by_its_stamp() {
    for (lost, rtt_us, expected) in [(false, 100_700, &[0][..]), (true, 100_000, &[0, 1024])] {
        let mut path = Path::new(config(), Span::from_micros(100_700));
        path.data = Box::new(move |at, _| Fate { lost: lost && at == Time::ZERO, ..Fate::default() });
        path.sender.open(Time::ZERO);
        path.run_until(at_ms(1200));
        let syns: Vec<u64> = path.sent.iter().map(|(at, _)| at.0 / 1_000_000).collect();
        assert_eq!(syns, expected);
        assert_eq!(path.sender.srtt(), Some(Span::from_micros(rtt_us)));
    }
}

#[test]
fn a_receiver_reports_a_duplicate_once_and_first() {
    let mut receiver = Receiver::new(&config());
    let mut arrive = |seq| {
        receiver.accept(
            Time::ZERO,
            Arrival { seq, full: true, pushed: false, ts: 0, rtt_us: 0, ecn: Ecn::NotEct, cwr: false },
        );
        let (blocks, count) = receiver.take_blocks();
        blocks[..count].iter().map(|block| (block.start, block.end)).collect::<Vec<_>>()
    };
    assert_eq!(arrive(0), []);
    assert_eq!(arrive(0), [(0, 1)], "below the ACK");
    assert_eq!(arrive(3), [(3, 4)]);
    assert_eq!(arrive(5), [(5, 6), (3, 4)]);
    assert_eq!(arrive(3), [(3, 4), (3, 4), (5, 6)], "inside the block that follows");
    assert_eq!(arrive(0), [(0, 1), (3, 4), (5, 6)]);
    assert_eq!(arrive(1), [(3, 4), (5, 6)]);
}

/// After two timeouts, the original of a segment arrives that was marked lost. Its retransmissions, and those of its neighbours, lose
/// their marks. The ACK that SACKs them does not take the short cut.
#[test]
fn segments_whose_repetition_was_undone_are_not_taken_for_sent_once() {
    for cc in [Cc::Reno, Cc::Bbr] {
        let mut path = path(Config { cc, ..config() });
        path.data = Box::new(|_, _| Fate { lost: true, ..Fate::default() });
        path.sender.write(20 * 1448);
        path.poll();
        let last = |path: &Path, seq: u32| path.sent.iter().rev().find(|(_, tx)| tx.seq == seq).unwrap().0;
        let ack = |path: &mut Path, cum: u32, sent: Time, blocks: &[Block]| {
            let ts = (sent.0 / 1000) as u32;
            let ack = Ack { cum, ts_first: ts, ts_last: ts, window: 1000, ..Ack::default() };
            path.compare_short_cut(&ack, blocks);
            path.sender.on_ack(path.now, &ack, blocks);
            path.run_until(path.now);
        };
        let wait = |path: &mut Path, ms: u64| path.run_until(path.now + Span::from_millis(ms));
        while path.sender.timeouts() == 0 {
            path.step(at_ms(20_000));
        }
        for cum in [1, 3] {
            wait(&mut path, 100);
            let sent = last(&path, cum - 1);
            ack(&mut path, cum, sent, &[]);
        }
        wait(&mut path, 90);
        while path.sender.timeouts() == 1 {
            path.step(at_ms(20_000));
        }
        assert!(again(&path).iter().filter(|&&(_, seq)| seq > 3).count() >= 3);
        wait(&mut path, 10);
        ack(&mut path, 4, Time::ZERO, &[]);
        wait(&mut path, 10);
        ack(&mut path, 4, Time::ZERO, &[Block { start: 5, end: 6 }]);
        wait(&mut path, 91);
        ack(&mut path, 4, Time::ZERO, &[Block { start: 5, end: 14 }]);
    }
}

/// A sender with a spurious timeout. Its first segment is CE-marked. Each of the others arrives half a second after the one before.
fn behind_a_growing_queue(cc: Cc, segments: u64) -> Path {
    let mut path = path(Config { ecn: true, iw: 10, cc, ..config() });
    path.data =
        Box::new(|_, tx| Fate { ce: tx.seq == 0, late: Span::from_millis(450 * u64::from(tx.seq)), ..Fate::default() });
    path.sender.write(segments * 1448);
    path.run_until(at_ms(60_000));
    path
}

/// Linux `tcp_enter_loss`, `tcp_process_loss`: the echo has already reduced the window, so a timeout during CWR leaves nothing to
/// undo. The arrival of a segment that was not retransmitted still shows that nothing is lost (RFC 5682 §3.1, step 3 b).
#[test]
fn a_spurious_timeout_after_an_echo_repeats_one_segment() {
    let path = behind_a_growing_queue(Cc::Reno, 15);
    assert_eq!((again(&path).len(), path.sender.timeouts(), path.sender.all_acked()), (1, 1, true));
    assert!(path.sender.ssthresh() <= 5, "the reduction for the echo stands");
}

/// Linux `tcp_tsq_write`: a sender that waits for its pacing timer retransmits the segments that the timeout marked lost, although
/// F-RTO asked for new data. The ACK of a retransmitted segment cannot show that the original arrived.
#[test]
fn a_timer_of_pacing_repeats_what_frto_waits_for() {
    let path = behind_a_growing_queue(Cc::Bbr, 40);
    let repeated = again(&path);
    assert_eq!((path.sender.timeouts(), path.sender.all_acked()), (1, true));
    assert!(repeated.len() > 5, "{repeated:?}");
}

/// Linux `tcp_xmit_retransmit_queue`: each skb is paced, and segments that were sent in one skb still are one. After the first ten
/// segments, an skb has two.
#[test]
fn what_is_repeated_leaves_at_its_pace_and_together_only_if_it_had() {
    for (lost, together) in [([10, 11], true), ([11, 12], false), ([10, 12], false)] {
        let mut path = path(Config { iw: 40, cc: Cc::Bbr, gso_max_segs: 64, ..config() });
        path.data = Box::new(move |_, tx| Fate { lost: !tx.retransmit && lost.contains(&tx.seq), ..Fate::default() });
        // One ACK reports all of them.
        let mut acks = 0;
        path.acks = Box::new(move || {
            acks += 1;
            Fate { lost: acks < 38, ..Fate::default() }
        });
        path.sender.write(40 * 1448);
        path.run_until(at_ms(2000));
        let times: Vec<Time> = path.sent.iter().filter(|(_, tx)| tx.retransmit).map(|&(at, _)| at).collect();
        assert_eq!((times.len(), path.sender.all_acked()), (2, true));
        assert_eq!(times[0] == times[1], together, "{lost:?}: {times:?}");
    }
}

/// Linux `tcp_write_xmit`, `tcp_xmit_recovery`: pacing only delays segments that exist. If F-RTO sent the last data, no pacing timer may
/// end its wait.
#[test]
fn frto_waits_where_pace_has_nothing_to_hold_back() {
    let path = behind_a_growing_queue(Cc::Bbr, 15);
    assert_eq!(
        (again(&path).len(), path.sender.timeouts(), path.sender.all_acked()),
        (1, 1, true),
        "{:?}",
        again(&path)
    );
}

/// With a full window off the clean path, the sender answers at once, paced or not. Each time the result of the full path is compared.
#[test]
fn a_full_window_is_asked_nothing_more() {
    for cc in [Cc::Reno, Cc::Cubic, Cc::Bbr] {
        let mut path = path(Config { cc, ..config() });
        lose(&mut path, &[(0, 3), (0, 7)]);
        path.service = Span::from_millis(2);
        path.sender.write(200 * 1448);
        path.run_until(at_ms(20_000));
        assert!(path.sender.all_acked() && path.spared > 10, "{cc:?}: {}", path.spared);
    }
}

/// Linux `tcp_mark_skb_lost`, `tcp_retransmit_skb`: "retrans_out leaked". F-RTO undoes a timeout, because the second segment was late; the
/// retransmission still counts as in flight when the next timeout retransmits the segment again.
#[test]
fn after_an_undone_timeout_a_repetition_counts_twice_until_all_is_acknowledged() {
    let mut path = path(config());
    path.data = Box::new(|at, tx| Fate {
        lost: tx.seq != 1 && at < at_ms(1000),
        late: Span::from_millis(if tx.seq == 1 { 800 } else { 0 }),
        ..Fate::default()
    });
    path.sender.write(10 * 1448);
    path.run_until(at_ms(899));
    assert_eq!((path.sender.timeouts(), path.sender.inflight()), (1, 1), "all are lost, one was sent again");
    path.run_until(at_ms(901));
    assert_eq!(path.sender.inflight(), 10, "all but one are on their way, and that one twice");
    while path.sender.timeouts() == 1 {
        path.step(at_ms(20_000));
    }
    assert_eq!(path.sender.inflight(), 2, "of which there is one");
    assert_eq!(again(&path).iter().filter(|&&(at, _)| at >= 1000).count(), 1);
    let counts = path.sender.counts();
    assert_eq!(counts.0, counts.1);
    path.run_until(at_ms(20_000));
    assert!(path.sender.all_acked());
    // One segment is lost and one retransmission counts as in flight, which is the limit: the last one waits for a timeout.
    assert_eq!((again(&path).last(), path.sender.timeouts()), (Some(&(3584, 9)), 3));
    assert_eq!((path.sender.inflight(), path.sender.stale_marks()), (0, 0));
}

/// Linux `tcp_set_rto`, `tcp_retransmit_timer`: 101 ms and 200 are 76 ticks of 4 ms.
#[test]
fn a_timeout_doubles_in_whole_ticks() {
    let mut sender = Sender::new(&config());
    sender.establish(Time::ZERO, Some(Span::from_millis(101)));
    sender.write(1448);
    sender.poll_transmit(Time::ZERO);
    let mut now = Time::ZERO;
    while sender.timeouts() == 0 {
        now = sender.next_event();
        sender.on_timer(now);
        while sender.poll_transmit(now).is_some() {}
    }
    assert_eq!(sender.next_event(), now + Span::from_millis(2 * 304));
}
