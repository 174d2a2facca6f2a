//! Properties on random paths: all data arrives once and in order, and the counters balance.

use super::*;
use crate::rng::Rng;
use alloc::collections::BTreeSet;
use alloc::rc::Rc;
use core::cell::RefCell;
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Case {
    config: Config,
    seed: u64,
    loss: f64,
    ack_loss: f64,
    reorder: bool,
    rtt_ms: u64,
    service_us: u64,
    writes: Vec<u64>,
}

fn configs() -> impl Strategy<Value = Config> {
    let cc = prop_oneof![
        Just(Cc::Reno),
        Just(Cc::Cubic),
        Just(Cc::Bbr),
        Just(Cc::Bbr3),
        Just(Cc::Ledbat),
        Just(Cc::Vegas),
        Just(Cc::Dctcp),
        Just(Cc::Prague),
        (1u32..40).prop_map(Cc::Fixed)
    ];
    let window = prop_oneof![Just(None), (1..100u32).prop_map(Some)].prop_map(AckPolicy::Window);
    let acks = prop_oneof![Just(AckPolicy::Delayed), Just(AckPolicy::Every), window];
    let rwnd = prop_oneof![1u32..50, Just(u32::MAX)];
    let hystart = prop_oneof![Just(HyStart::Off), Just(HyStart::Linux), Just(HyStart::Plus)];
    let wmem = prop_oneof![Just(None), (4096u32..1 << 16).prop_map(Some), (4096u32..1 << 20).prop_map(Some)];
    (cc, acks, rwnd, wmem, hystart, any::<[bool; 6]>()).prop_map(|(cc, acks, rwnd, wmem, hystart, flags)| Config {
        cc,
        acks,
        rwnd,
        wmem,
        ecn: flags[0],
        timestamps: flags[1],
        quickack: flags[2],
        linux_rto: flags[3],
        hystart,
        rto_min: if flags[3] { Span::from_millis(200) } else { Span::from_secs(1) },
        recovery: if flags[5] { Recovery::Rfc6675 } else { Recovery::Rack },
        gso_max_segs: if flags[4] { 65_535 } else { 1 },
        mss: 1000,
        ..Config::default()
    })
}

fn cases() -> impl Strategy<Value = Case> {
    let loss = prop_oneof![Just(0.0), 0.0..0.05, 0.0..0.4];
    let ack_loss = prop_oneof![Just(0.0), 0.0..0.4];
    let writes = prop::collection::vec(1u64..200_000, 1..6);
    (configs(), any::<u64>(), loss, ack_loss, any::<bool>(), 1u64..200, 0u64..2000, writes).prop_map(
        |(config, seed, loss, ack_loss, reorder, rtt_ms, service_us, writes)| Case {
            config,
            seed,
            loss,
            ack_loss,
            reorder,
            rtt_ms,
            service_us,
            writes,
        },
    )
}

fn random_path(case: &Case) -> Path {
    let mut path = Path::new(case.config, Span::from_millis(case.rtt_ms));
    path.service = Span::from_micros(case.service_us);
    let rng = Rc::new(RefCell::new(Rng::stream(case.seed, "path")));
    let (loss, ack_loss, reorder) = (case.loss, case.ack_loss, case.reorder);
    let late = move |rng: &mut Rng| {
        let late = reorder && rng.below(8) == 0;
        if late { Span::from_micros(rng.below(30_000)) } else { Span::ZERO }
    };
    let mine = Rc::clone(&rng);
    path.data = Box::new(move |_, _| {
        let rng = &mut *mine.borrow_mut();
        let lost = rng.uniform() < loss;
        Fate { lost, twice: reorder && rng.below(20) == 0, ce: rng.below(50) == 0, late: late(rng) }
    });
    path.acks = Box::new(move || {
        let rng = &mut *rng.borrow_mut();
        Fate { lost: rng.uniform() < ack_loss, late: late(rng), ..Fate::default() }
    });
    path
}

/// Compares the receiver with a model: the set of segment numbers that have arrived.
#[derive(Default)]
struct Model {
    held: BTreeSet<u32>,
    next: u32,
}

impl Model {
    fn arrive(&mut self, seq: u32) {
        self.held.insert(seq);
        while self.held.contains(&self.next) {
            self.next += 1;
        }
    }

    /// Every block is a maximal run of received segments above the next one expected; no block is reported twice.
    fn check(&self, receiver: &mut Receiver, newest: u32) -> Result<(), TestCaseError> {
        prop_assert_eq!(receiver.next_expected(), self.next);
        let (blocks, count) = receiver.take_blocks();
        let blocks = &blocks[..count];
        for (i, block) in blocks.iter().enumerate() {
            prop_assert!(block.start > self.next && block.end > block.start);
            prop_assert!((block.start..block.end).all(|seq| self.held.contains(&seq)));
            prop_assert!(!self.held.contains(&(block.start - 1)) && !self.held.contains(&block.end));
            prop_assert!(!blocks[..i].contains(block));
        }
        if newest > self.next {
            prop_assert!(
                blocks[0].start <= newest && newest < blocks[0].end,
                "the newest segment is in the first block"
            );
        }
        Ok(())
    }
}

fn check_sender(path: &Path, snd_una: u32, sent_before: usize) -> Result<(), TestCaseError> {
    let (kept, counted) = path.sender.counts();
    prop_assert_eq!(kept, counted);
    prop_assert_eq!(path.sender.stale_marks(), 0);
    prop_assert!(path.sender.acked() >= snd_una);
    prop_assert!(path.sender.cwnd() >= 1);
    for (_, tx) in &path.sent[sent_before..] {
        prop_assert!(tx.syn || !path.sender.is_sacked(tx.seq), "sends what has arrived");
        prop_assert!(tx.syn || tx.seq - path.sender.acked() < path.config.rwnd, "sends beyond the receive window");
    }
    if let Cc::Fixed(n) = path.config.cc {
        prop_assert_eq!(path.sender.cwnd(), n);
    }
    Ok(())
}

fn play(case: &Case) -> Result<(), TestCaseError> {
    let mut path = random_path(case);
    let mut model = Model::default();
    path.sender.open(Time::ZERO);
    let mut total = 0;
    let mut end = 0;
    let mut waiting = case.writes.clone();
    path.poll();
    for step in 0u32.. {
        prop_assert!(step < 400_000, "no end");
        // A new write now and then, and when everything is done.
        if !waiting.is_empty() && (step % 97 == 0 || path.sender.all_acked()) {
            let bytes = waiting.pop().unwrap();
            total += bytes;
            end = path.sender.write(bytes);
            path.poll();
        }
        let arriving = match path.events.first_key_value() {
            Some((key, Event::Data { seq, syn: false, .. }))
                if key.0 <= path.sender.next_event().min(path.receiver.next_event()) =>
            {
                Some(*seq)
            }
            _ => None,
        };
        let (snd_una, sent_before, discarded) =
            (path.sender.acked(), path.sent.len(), path.receiver.counters().paws_estab);
        if !path.step(Time::NEVER) && waiting.is_empty() {
            break;
        }
        if let Some(seq) = arriving.filter(|_| path.receiver.counters().paws_estab == discarded) {
            model.arrive(seq);
            model.check(&mut path.receiver, seq)?;
        }
        check_sender(&path, snd_una, sent_before)?;
    }
    prop_assert!(path.sender.all_acked());
    prop_assert_eq!(path.sender.acked(), end);
    prop_assert_eq!(path.receiver.next_expected(), end);
    prop_assert_eq!(path.payload_acked, total);
    prop_assert_eq!(path.sender.inflight(), 0);
    prop_assert_eq!(path.sender.next_event(), Time::NEVER);
    let first_time: Vec<u32> = path.sent.iter().filter(|(_, t)| !t.syn && !t.retransmit).map(|(_, t)| t.seq).collect();
    prop_assert!(first_time.iter().copied().eq(0..end), "new segments in order, each once");
    let again = path.sent.iter().filter(|(_, t)| !t.syn && t.retransmit).count() as u64;
    prop_assert_eq!(path.sender.retransmits(), again);
    // With RFC 6298's minimum of 1 s, that is: 200 ms race with a delayed ACK. And a probe does not wait for one at all.
    let probes = case.config.recovery == Recovery::Rack && case.config.acks != AckPolicy::Every;
    let calm = case.loss == 0.0 && case.ack_loss == 0.0 && !case.reorder && !case.config.linux_rto && !probes;
    if calm && case.rtt_ms * 1000 + 50 * case.service_us < 300_000 {
        prop_assert_eq!(again, 0, "nothing was lost");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn every_byte_arrives_once_in_order_over_any_path(case in cases()) {
        play(&case)?;
    }
}
