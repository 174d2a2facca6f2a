//! Tests of the segments that a full send buffer holds back.

use super::*;

/// Loses one segment again and again for two seconds. Returns the largest number of segments outstanding in this time, the largest
/// window in this time, and the segments acknowledged after five seconds. With an RTT of 50 ms and 1000 segments/s, the
/// bandwidth-delay product is 50 segments.
fn above_a_hole(cc: Cc, wmem: Option<u32>, gso_max_segs: u32) -> (u32, u32, u32) {
    let config = Config { cc, wmem, gso_max_segs, ..Config::default() };
    let mut path = Path::established(config, Span::from_millis(50));
    path.service = Span::from_millis(1);
    path.queue = Span::from_millis(50);
    path.data = Box::new(|now, tx| Fate { lost: tx.seq == 100 && now < at_ms(2000), ..Fate::default() });
    path.sender.write_forever();
    let (mut most, mut cwnd) = (0, 0);
    path.poll();
    while path.step(at_ms(5000)) {
        if path.sender.acked() <= 100 {
            cwnd = cwnd.max(path.sender.cwnd());
            most = most.max(path.sender.sent() - path.sender.acked());
        }
    }
    (most, cwnd, path.sender.acked())
}

/// Linux `tcp_sndbuf_expand`: the buffer holds two windows (BBR: three) and one more skb. A segment takes 2304 bytes of it, of which 1448
/// are payload. Without this bound the sender would continue as long as the hole stays open, here for nearly two seconds.
#[test]
fn a_sender_with_a_hole_that_stays_open_stops_some_windows_above_it() {
    for (cc, windows) in [(Cc::Reno, 2.0), (Cc::Cubic, 2.0), (Cc::Bbr, 3.0)] {
        for gso_max_segs in [1, 44] {
            let (free, ..) = above_a_hole(cc, None, gso_max_segs);
            let (most, cwnd, acked) = above_a_hole(cc, Some(64 << 20), gso_max_segs);
            let skb = f64::from(gso_max_segs.min(44));
            let room = f64::from(cwnd) * windows * 2304.0 / 1448.0;
            // At least two thirds of the buffer are in use: with less, the application would write again.
            let bounds = room * 0.6..room + 2.0 * skb;
            assert!(bounds.contains(&f64::from(most)), "{cc:?}, {gso_max_segs}: {most} of {bounds:?}, {cwnd}");
            assert!(free > most * 3 / 2, "{cc:?}: {free} without, {most} with a send buffer");
            assert!(acked > 100 + most, "{cc:?}: it goes on when the hole is filled: {acked}");
        }
    }
}

/// `tcp_wmem[2]` bounds the segments outstanding, even if the window is larger. The kernel world sends 60, 60, 163 and 90 segments an RTT
/// in these cases. The application writes when a third of the buffer is free: 28 segments of 2344 bytes if each is sent alone. If the
/// window is open, a write is accepted whole.
#[test]
fn a_small_send_buffer_is_the_window() {
    for (cc, gso_max_segs, segments) in [(Cc::Reno, 1, 60), (Cc::Bbr, 1, 60), (Cc::Reno, 44, 163), (Cc::Bbr, 44, 90)] {
        let config = Config { cc, wmem: Some(204_800), gso_max_segs, ..Config::default() };
        let mut path = Path::established(config, Span::from_millis(100));
        path.service = Span::from_micros(121);
        path.sender.write_forever();
        path.run_until(at_ms(10_000));
        let rate = path.sender.acked() / 100;
        assert!(rate.abs_diff(segments) <= segments / 10, "{cc:?}, {gso_max_segs}: {rate} segments an RTT");
    }
}

/// Linux calls `tcp_rate_check_app_limited` when the application writes again.
#[test]
fn who_waited_for_room_was_limited_by_its_application() {
    let config = Config { cc: Cc::Bbr, wmem: Some(100_000), gso_max_segs: 44, ..Config::default() };
    let mut path = Path::established(config, Span::from_millis(100));
    path.service = Span::from_micros(100);
    path.sender.write_forever();
    path.run_until(at_ms(2000));
    assert!(path.sender.flow_now(at_ms(2000)).is_some_and(|flow| flow.app_limited));
}

/// A FIN needs no room in the send buffer (Linux `tcp_send_fin`). Data that waits for room when the application closes is still sent.
#[test]
fn a_fin_follows_what_waited_for_room() {
    let config = Config { wmem: Some(20_000), gso_max_segs: 44, ..Config::default() };
    let mut path = Path::established(config, Span::from_millis(50));
    path.sender.write(1_000_000);
    path.sender.finish();
    path.run_until(at_ms(5000));
    assert!(path.sender.all_acked());
    assert_eq!(path.sender.acked(), 1_000_000_u32.div_ceil(1448) + 1);
}
