//! The algorithm of the ccaq queue discipline for Linux (`kernel/ccaq_impl.h`), one buffer a flow.
#![expect(unsafe_code, reason = "C is on the other side")]

use sojourn_core::units::{Span, Time};

/// The C side's buffer.
#[repr(C)]
pub struct Opaque {
    _opaque: [u8; 0],
}

/// The algorithm as it stands, or with a fault planted into a copy.
pub struct Algorithm {
    /// What is wrong with it; nothing if it is the real one.
    pub fault: Option<&'static str>,
    new: unsafe extern "C" fn(u32, u64, u64, u64, u64, u64) -> *mut Opaque,
    free: unsafe extern "C" fn(*mut Opaque),
    arrives: unsafe extern "C" fn(*mut Opaque, u64, u32, u32, bool) -> u32,
    departs: unsafe extern "C" fn(*mut Opaque, u64, u32, u64),
    look: unsafe extern "C" fn(*const Opaque, *mut u32, *mut u64, *mut u64, *mut u64, *mut u64),
    times: unsafe extern "C" fn(u64, u64, u64) -> u64,
}

include!(concat!(env!("OUT_DIR"), "/ccaq.rs"));

/// The real algorithm first, then the faulty ones; nothing without a C compiler.
pub fn all() -> &'static [Algorithm] {
    ALGORITHMS
}

/// Parameters: packets, factors in millionths, time.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Packets in a flow's queue at first.
    pub flow_limit: u32,
    /// Guard interval in longest intervals, in millionths.
    pub multiplier: u64,
    /// Greatest growth at once, in millionths.
    pub max_increase: u64,
    /// Longest guard interval.
    pub max_gi: Span,
    /// Longest guard interval in RTTs, in millionths; 0 is off.
    pub max_gi_rtts: u64,
}

/// What becomes of an arriving packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It joins the queue.
    Accept,
    /// It is dropped.
    Refuse,
    /// It is dropped, and what is behind the limit too.
    Shrink,
}

/// What a buffer has learned.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct View {
    /// Packets.
    pub limit: u32,
    /// End of the guard interval.
    pub gi_end: u64,
    /// Times the limit was raised.
    pub enlarged: u64,
    /// Times the limit was lowered.
    pub shrunk: u64,
    /// The most recent RTT; all ones if none is known.
    pub rtt: u64,
}

/// One flow's buffer.
pub struct Buffer {
    algorithm: &'static Algorithm,
    buffer: *mut Opaque,
}

impl Algorithm {
    /// The buffer of a flow whose first packet arrives at `now`.
    pub fn buffer(&'static self, params: &Params, now: Time) -> Buffer {
        let Params { flow_limit, multiplier, max_increase, max_gi, max_gi_rtts } = *params;
        // SAFETY: plain numbers go in; the C side allocates its own struct.
        let buffer = unsafe { (self.new)(flow_limit, multiplier, max_increase, max_gi.0, max_gi_rtts, now.0) };
        Buffer { algorithm: self, buffer }
    }

    /// a · b / c, rounded down; the greatest number if it does not fit. Panics if c is zero.
    pub fn times(&self, a: u64, b: u64, c: u64) -> u64 {
        assert!(c > 0);
        // SAFETY: plain numbers, and no division by zero.
        unsafe { (self.times)(a, b, c) }
    }
}

impl Buffer {
    /// A packet with this hash, a SYN or not, arrives while `queued` wait.
    pub fn arrives(&mut self, now: Time, queued: u32, hash: u32, opens: bool) -> Verdict {
        // SAFETY: `buffer` came from `new` and lives as long as self.
        match unsafe { (self.algorithm.arrives)(self.buffer, now.0, queued, hash, opens) } {
            0 => Verdict::Accept,
            1 => Verdict::Refuse,
            _ => Verdict::Shrink,
        }
    }

    /// A packet that came at `arrived` has left, and `left` remain.
    pub fn departs(&mut self, now: Time, left: u32, arrived: Time) {
        // SAFETY: `buffer` came from `new` and lives as long as self.
        unsafe { (self.algorithm.departs)(self.buffer, now.0, left, arrived.0) }
    }

    /// What it has learned so far.
    pub fn view(&self) -> View {
        let mut view = View::default();
        let View { limit, gi_end, enlarged, shrunk, rtt } = &mut view;
        // SAFETY: `buffer` came from `new` and lives as long as self; the five places outlive the call.
        unsafe { (self.algorithm.look)(self.buffer, limit, gi_end, enlarged, shrunk, rtt) };
        view
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: `buffer` came from `new`, is freed here only, and self is gone afterwards.
        unsafe { (self.algorithm.free)(self.buffer) }
    }
}
