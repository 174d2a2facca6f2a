//! The kernel's byte queue limits: its own `lib/dynamic_queue_limits.c` (`shim/dql.c`), one copy for each series of
//! kernels.
#![expect(unsafe_code, reason = "C is on the other side")]

/// The C side's `struct dql`.
#[repr(C)]
pub struct Opaque {
    _opaque: [u8; 0],
}

/// The library of one kernel.
pub struct Library {
    /// Version of the package: `6.1.192-2`.
    pub version: &'static str,
    new: unsafe extern "C" fn(u32, u64, u32, u32) -> *mut Opaque,
    free: unsafe extern "C" fn(*mut Opaque),
    queued: unsafe extern "C" fn(*mut Opaque, u32),
    completed: unsafe extern "C" fn(*mut Opaque, u32, u64),
    avail: unsafe extern "C" fn(*const Opaque) -> i32,
    look: unsafe extern "C" fn(*const Opaque, *mut u32, *mut u32),
}

include!(concat!(env!("OUT_DIR"), "/dql.rs"));

/// The kernels whose sources were in the cache at build time.
pub fn all() -> &'static [Library] {
    LIBRARIES
}

/// The limits of one queue.
pub struct Limits {
    library: &'static Library,
    dql: *mut Opaque,
}

impl Library {
    /// Creates an empty queue at this tick. If `most` is zero, the upper bound is the library's own.
    pub fn limits(&'static self, hold_time: u32, jiffies: u64, least: u32, most: u32) -> Limits {
        // SAFETY: plain numbers go in; the C side allocates.
        Limits { library: self, dql: unsafe { (self.new)(hold_time, jiffies, least, most) } }
    }
}

impl Limits {
    /// `dql_queued`.
    pub fn queued(&mut self, bytes: u32) {
        // SAFETY: `dql` came from `new` and lives as long as self.
        unsafe { (self.library.queued)(self.dql, bytes) }
    }

    /// `dql_completed`.
    pub fn completed(&mut self, bytes: u32, jiffies: u64) {
        // SAFETY: `dql` came from `new` and lives as long as self; no more completes than was queued, or C aborts.
        unsafe { (self.library.completed)(self.dql, bytes, jiffies) }
    }

    /// `dql_avail`.
    pub fn avail(&self) -> i32 {
        // SAFETY: `dql` came from `new` and lives as long as self.
        unsafe { (self.library.avail)(self.dql) }
    }

    /// Returns the limit and the bytes in flight.
    pub fn look(&self) -> (u32, u32) {
        let (mut limit, mut inflight) = (0, 0);
        // SAFETY: `dql` came from `new` and lives as long as self; the two variables outlive the call.
        unsafe { (self.library.look)(self.dql, &mut limit, &mut inflight) }
        (limit, inflight)
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        // SAFETY: `dql` came from `new`, is freed here only, and self is gone afterwards.
        unsafe { (self.library.free)(self.dql) }
    }
}
