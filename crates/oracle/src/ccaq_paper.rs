//! The algorithm of the paper's ccaq for Linux (`kernel/ccaq_paper_impl.h`), with one buffer per flow.
#![expect(unsafe_code, reason = "C is on the other side")]

use sojourn_core::units::{Span, Time};

/// The C side's buffer.
#[repr(C)]
pub struct Opaque {
    _opaque: [u8; 0],
}

/// The algorithm, unmodified or with a planted fault.
pub struct Algorithm {
    /// Description of the fault; `None` for the unmodified algorithm.
    pub fault: Option<&'static str>,
    new: unsafe extern "C" fn(u32, u64, u64, u64, u64, u64) -> *mut Opaque,
    free: unsafe extern "C" fn(*mut Opaque),
    arrives: unsafe extern "C" fn(*mut Opaque, u64, u32, u32, bool) -> u32,
    departs: unsafe extern "C" fn(*mut Opaque, u64, u32, u64),
    look: unsafe extern "C" fn(*const Opaque, *mut u32, *mut u64, *mut u64, *mut u64, *mut u64),
    times: unsafe extern "C" fn(u64, u64, u64) -> u64,
}

include!(concat!(env!("OUT_DIR"), "/ccaq_paper.rs"));

/// The unmodified algorithm followed by the faulty ones; empty without a C compiler.
pub fn all() -> &'static [Algorithm] {
    ALGORITHMS
}

/// Parameters of the algorithm.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Initial limit of a flow's queue, in packets.
    pub flow_limit: u32,
    /// Guard interval in longest intervals, in millionths.
    pub multiplier: u64,
    /// Largest growth in one step, in millionths.
    pub max_increase: u64,
    /// Longest guard interval.
    pub max_gi: Span,
    /// Longest guard interval in RTTs, in millionths; 0 is off.
    pub max_gi_rtts: u64,
}

/// Decision about an arriving packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The packet is enqueued.
    Accept,
    /// The packet is dropped.
    Refuse,
    /// The packet is dropped, and so are queued packets beyond the limit.
    Shrink,
}

/// State of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct View {
    /// Limit in packets.
    pub limit: u32,
    /// End of the guard interval, in nanoseconds.
    pub gi_end: u64,
    /// Number of times that the limit was raised.
    pub enlarged: u64,
    /// Number of times that the limit was lowered.
    pub shrunk: u64,
    /// The most recent RTT; all ones if unknown.
    pub rtt: u64,
}

/// The buffer of one flow.
pub struct Buffer {
    algorithm: &'static Algorithm,
    buffer: *mut Opaque,
}

impl Algorithm {
    /// Creates the buffer of a flow whose first packet arrives at `now`.
    pub fn buffer(&'static self, params: &Params, now: Time) -> Buffer {
        let Params { flow_limit, multiplier, max_increase, max_gi, max_gi_rtts } = *params;
        // SAFETY: plain numbers go in; the C side allocates its own struct.
        let buffer = unsafe { (self.new)(flow_limit, multiplier, max_increase, max_gi.0, max_gi_rtts, now.0) };
        Buffer { algorithm: self, buffer }
    }

    /// a · b / c, rounded down; `u64::MAX` on overflow. Panics if c is zero.
    pub fn times(&self, a: u64, b: u64, c: u64) -> u64 {
        assert!(c > 0);
        // SAFETY: plain numbers, and no division by zero.
        unsafe { (self.times)(a, b, c) }
    }
}

impl Buffer {
    /// Handles the arrival of a packet with this hash while `queued` packets wait. `opens` is set for a SYN.
    pub fn arrives(&mut self, now: Time, queued: u32, hash: u32, opens: bool) -> Verdict {
        // SAFETY: `buffer` came from `new` and lives as long as self.
        match unsafe { (self.algorithm.arrives)(self.buffer, now.0, queued, hash, opens) } {
            0 => Verdict::Accept,
            1 => Verdict::Refuse,
            _ => Verdict::Shrink,
        }
    }

    /// Handles the departure of a packet that arrived at `arrived`; `left` packets remain.
    pub fn departs(&mut self, now: Time, left: u32, arrived: Time) {
        // SAFETY: `buffer` came from `new` and lives as long as self.
        unsafe { (self.algorithm.departs)(self.buffer, now.0, left, arrived.0) }
    }

    /// Returns the current state.
    pub fn view(&self) -> View {
        let mut view = View::default();
        let View { limit, gi_end, enlarged, shrunk, rtt } = &mut view;
        // SAFETY: `buffer` came from `new` and lives as long as self; the five variables outlive the call.
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
