//! ccaq for Linux: the algorithm (`kernel/ccaq_impl.h`) with its table of flows and its model of the link, in a
//! discipline in user space (`shim/ccaq.c`).
#![expect(unsafe_code, reason = "C is on the other side")]

use std::slice;

use sojourn_core::units::{Span, Time};

/// The C side's discipline.
#[repr(C)]
pub struct Opaque {
    _opaque: [u8; 0],
}

/// The algorithm, unmodified or with a planted fault.
pub struct Algorithm {
    /// Description of the fault; `None` for the unmodified algorithm.
    pub fault: Option<&'static str>,
    new: unsafe extern "C" fn(*const Params, u32, u32, u32) -> *mut Opaque,
    free: unsafe extern "C" fn(*mut Opaque),
    enqueue: unsafe extern "C" fn(*mut Opaque, u64, u32, u32, u32, u32, bool),
    dequeue: unsafe extern "C" fn(*mut Opaque, u64, *mut u32, *mut u32) -> bool,
    change: unsafe extern "C" fn(*mut Opaque, u64, *const Params),
    drops: unsafe extern "C" fn(*const Opaque, *mut u32) -> *const Drop,
    look: unsafe extern "C" fn(*const Opaque, *mut View),
}

include!(concat!(env!("OUT_DIR"), "/ccaq.rs"));

/// The unmodified algorithm followed by the faulty ones; empty without a C compiler.
pub fn all() -> &'static [Algorithm] {
    ALGORITHMS
}

/// The clock of the kernel at time zero of core. core's constant for a flow that never dropped assumes this distance
/// from the boot.
pub const SINCE_BOOT: Span = Span(70_400_000_000);

/// Parameters, as the kernel stores them.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Params {
    /// Packets in all queues.
    pub limit: u32,
    /// Bytes of memory in all queues.
    pub memory_limit: u32,
    /// Bytes that a flow may send in its turn.
    pub quantum: u32,
    /// The idle share, in units of 1/65536.
    pub share: u32,
    /// Whether packets are marked.
    pub ecn: bool,
}

/// A packet that was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Drop {
    /// The packet's number.
    pub id: u32,
    /// 0: as a signal; 1: its sender does not respond; 2: `limit`; 3: `memory_limit`.
    pub reason: u32,
}

/// Counters, and what was learned about the flows in the round, as `tc -s` prints it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct View {
    /// Packets dropped by the limits.
    pub overlimit: u64,
    /// The part of these that the limit of memory dropped.
    pub overmemory: u64,
    /// Packets dropped because their senders do not respond.
    pub unresponsive: u64,
    /// Flows that became new.
    pub fresh: u64,
    /// Arrivals of flows that share a queue.
    pub collisions: u64,
    /// Marks instead of drops.
    pub marks: u64,
    /// Marks of ECT(1).
    pub steps: u64,
    /// New flows.
    pub new_len: u64,
    /// Old flows.
    pub old_len: u64,
    /// The link's idle time, in microseconds, as the times below.
    pub idle_us: u64,
    /// The smallest target.
    pub min_target: u64,
    /// The largest target.
    pub max_target: u64,
    /// The shortest RTT that is known; 0 if none is.
    pub min_rtt: u64,
    /// The longest RTT.
    pub max_rtt: u64,
    /// The sum of the targets.
    pub targets: u64,
    /// The sum of the RTTs.
    pub rtts: u64,
    /// The sum of the idle shares, in hundredths of a percent.
    pub idles: u64,
}

/// The discipline.
pub struct Servo {
    algorithm: &'static Algorithm,
    servo: *mut Opaque,
}

impl Algorithm {
    /// Creates the discipline with this many queues in front of a link with this MTU. `skb` is the memory that a packet
    /// takes beyond its length.
    pub fn servo(&'static self, params: &Params, queues: u32, mtu: u32, skb: u32) -> Servo {
        // SAFETY: the C side copies the parameters and allocates its own structs.
        Servo { algorithm: self, servo: unsafe { (self.new)(params, queues, mtu, skb) } }
    }
}

fn clock(now: Time) -> u64 {
    (now + SINCE_BOOT).0
}

impl Servo {
    /// Enqueues a packet. `opens` is set for a SYN.
    pub fn enqueue(&mut self, now: Time, id: u32, bytes: u32, hash: u32, ecn: u32, opens: bool) {
        // SAFETY: `servo` came from `new` and lives as long as self.
        unsafe { (self.algorithm.enqueue)(self.servo, clock(now), id, bytes, hash, ecn, opens) }
    }

    /// Dequeues a packet: its number and its ECN field.
    pub fn dequeue(&mut self, now: Time) -> Option<(u32, u32)> {
        let (mut id, mut ecn) = (0, 0);
        // SAFETY: `servo` came from `new` and lives as long as self; both variables outlive the call.
        unsafe { (self.algorithm.dequeue)(self.servo, clock(now), &raw mut id, &raw mut ecn) }.then_some((id, ecn))
    }

    /// Changes the parameters.
    pub fn change(&mut self, now: Time, params: &Params) {
        // SAFETY: `servo` came from `new` and lives as long as self; the C side copies the parameters.
        unsafe { (self.algorithm.change)(self.servo, clock(now), params) }
    }

    /// The packets that the last operation dropped, in order.
    pub fn drops(&self) -> &[Drop] {
        let mut count = 0;
        // SAFETY: `servo` came from `new` and lives as long as self; the C side has `count` drops there, and changes them
        // only in calls with a mutable self.
        unsafe {
            let drops = (self.algorithm.drops)(self.servo, &raw mut count);
            if count == 0 { &[] } else { slice::from_raw_parts(drops, count as usize) }
        }
    }

    /// Returns the counters, and what was learned.
    pub fn view(&self) -> View {
        let mut view = View::default();
        // SAFETY: `servo` came from `new` and lives as long as self; the struct outlives the call.
        unsafe { (self.algorithm.look)(self.servo, &raw mut view) };
        view
    }
}

impl std::ops::Drop for Servo {
    fn drop(&mut self) {
        // SAFETY: `servo` came from `new`, is freed here only, and self is gone afterwards.
        unsafe { (self.algorithm.free)(self.servo) }
    }
}
