//! The kernel's CoDel: `codel_dequeue` of its own header, in a qdisc of ours (`shim/drive.c`).
#![expect(unsafe_code, reason = "C is on the other side")]

use sojourn_core::qdisc::codel::Params;
use sojourn_core::units::Time;

use crate::trace::{Departure, Machine};

/// The C side's qdisc.
#[repr(C)]
pub struct Oracle {
    _opaque: [u8; 0],
}

/// State and counters of the kernel's CoDel.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct View {
    /// Number of signals since dropping began.
    pub count: u32,
    /// Value of `count` when dropping last began.
    pub lastcount: u32,
    /// 1 in the dropping state, otherwise 0.
    pub dropping: u32,
    /// Size of the largest packet so far, in bytes.
    pub maxpacket: u32,
    /// Number of packets marked instead of dropped.
    pub ecn_mark: u32,
    /// Number of packets marked because of `ce_threshold`.
    pub ce_mark: u32,
}

type Dequeue = unsafe extern "C" fn(*mut Oracle, u64, *mut u32, *mut u32, *mut *const u32, *mut u32) -> u32;

/// CoDel of one kernel.
pub struct Kernel {
    /// Version of the package: `6.1.192-2`.
    pub version: &'static str,
    /// The corresponding variant of ours.
    pub variant: &'static str,
    new: unsafe extern "C" fn(u32, u32, u32, u32, i64, u32) -> *mut Oracle,
    free: unsafe extern "C" fn(*mut Oracle),
    enqueue: unsafe extern "C" fn(*mut Oracle, u64, u32, u32, u32) -> u32,
    dequeue: Dequeue,
    view: unsafe extern "C" fn(*const Oracle, *mut View),
}

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// The kernels whose headers were in the cache at build time.
pub fn all() -> &'static [Kernel] {
    ALL
}

/// A codel qdisc of one kernel.
pub struct Codel {
    kernel: &'static Kernel,
    oracle: *mut Oracle,
}

impl Kernel {
    /// Creates an empty qdisc in front of a link with this MTU.
    pub fn codel(&'static self, params: &Params, mtu: u32) -> Codel {
        let micros = |ns: u64| u32::try_from(ns / 1_000).expect("tc's times fit 32 bits of µs");
        let ce_threshold = params.ce_threshold.map_or(-1, |span| i64::from(micros(span.0)));
        let (target, interval) = (micros(params.target.0), micros(params.interval.0));
        // SAFETY: only integers are passed; the C side allocates.
        let oracle = unsafe { (self.new)(params.limit, target, interval, u32::from(params.ecn), ce_threshold, mtu) };
        Codel { kernel: self, oracle }
    }
}

impl Codel {
    /// Returns the current state and counters.
    pub fn view(&self) -> View {
        let mut view = View::default();
        // SAFETY: `oracle` came from `new` and lives as long as self; `View` has the C struct's layout.
        unsafe { (self.kernel.view)(self.oracle, &mut view) };
        view
    }
}

impl Machine for Codel {
    fn enqueue(&mut self, now: Time, id: u32, bytes: u32, ecn: u8) -> bool {
        // SAFETY: `oracle` came from `new` and lives as long as self; the rest are plain numbers.
        unsafe { (self.kernel.enqueue)(self.oracle, now.0, id, bytes, u32::from(ecn)) != 0 }
    }

    fn dequeue(&mut self, now: Time) -> Departure {
        let (mut id, mut ecn, mut dropped, mut ndropped) = (0, 0, std::ptr::null(), 0);
        // SAFETY: `oracle` came from `new` and lives as long as self; the four variables outlive the call.
        let some =
            unsafe { (self.kernel.dequeue)(self.oracle, now.0, &mut id, &mut ecn, &mut dropped, &mut ndropped) != 0 };
        // SAFETY: the C side points `dropped` at an array of its own with `ndropped` valid elements, which does not
        // change until the next dequeue.
        let dropped = unsafe { std::slice::from_raw_parts(dropped, ndropped as usize) };
        Departure { dropped: dropped.to_vec(), packet: some.then_some((id, ecn as u8)) }
    }
}

impl Drop for Codel {
    fn drop(&mut self) {
        // SAFETY: `oracle` came from `new`, is freed here only, and self is gone afterwards.
        unsafe { (self.kernel.free)(self.oracle) }
    }
}
