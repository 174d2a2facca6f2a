//! Queue disciplines of core for C: an AQM for tests of a transport stack, as a header and a static library.
//!
//! A discipline never reads a clock: each call passes the time. Drops are reported at once, to a function of the
//! caller. `--library` of the command works with any library that has these functions, so that a discipline in C takes
//! part in runs, and can be verified, if it implements this header.
#![allow(unsafe_code, reason = "C is on the other side")]

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use sojourn_core::packet::{Ecn, Packet};
use sojourn_core::qdisc::tc::Spec;
use sojourn_core::qdisc::{AnyQdisc, Context, DropReason, Drops, Qdisc};
use sojourn_core::units::{Rate, Span, Time};

/// A packet: the fields that a discipline reads, and an id for the caller.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct sojourn_packet {
    /// Chosen by the caller.
    pub id: u64,
    /// Length in bytes, as the link counts it.
    pub bytes: u32,
    /// Flow hash, equal for all packets of a flow.
    pub flow: u32,
    /// The ECN field of the IP header: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE. A mark sets it to 3.
    pub ecn: u8,
}

/// A discipline and its packets.
#[allow(non_camel_case_types, reason = "a C name")]
pub struct sojourn_qdisc(AnyQdisc<Held>);

/// Called for each packet that is dropped, with the caller's `context` and a reason (see `sojourn_reason`).
#[allow(non_camel_case_types, reason = "a C name")]
pub type sojourn_dropped =
    Option<unsafe extern "C" fn(context: *mut c_void, packet: *const sojourn_packet, reason: u8)>;

/// A packet of the caller inside a discipline.
#[derive(Clone, Copy, Default)]
struct Held {
    packet: sojourn_packet,
    enqueue_time: Time,
}

impl Packet for Held {
    fn bytes(&self) -> u32 {
        self.packet.bytes
    }
    fn flow_hash(&self) -> u32 {
        self.packet.flow
    }
    fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.packet.ecn)
    }
    fn set_ecn(&mut self, ecn: Ecn) {
        self.packet.ecn = ecn as u8;
    }
    fn enqueue_time(&self) -> Time {
        self.enqueue_time
    }
    fn set_enqueue_time(&mut self, now: Time) {
        self.enqueue_time = now;
    }
}

/// Reports drops to the caller.
struct Told {
    dropped: sojourn_dropped,
    context: *mut c_void,
}

impl Drops<Held> for Told {
    fn dropped(&mut self, held: Held, reason: DropReason) {
        if let Some(dropped) = self.dropped {
            // SAFETY: the caller passed the function together with its context; the packet lives during the call.
            unsafe { dropped(self.context, &raw const held.packet, reason as u8) }
        }
    }
}

/// Creates a discipline from a line as for `tc`, such as "codel limit 1000 target 5ms", in front of a link of `rate`
/// bits per second whose full packets have `mtu` bytes. `seed` initialises its random numbers. Returns null if the line
/// is invalid, with a message in `error` (`error_size` bytes; may be null).
///
/// # Safety
/// `line` is a string that ends with a zero byte; `error` has room for `error_size` bytes or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sojourn_new(
    line: *const c_char,
    mtu: u32,
    rate: u64,
    seed: u64,
    error: *mut c_char,
    error_size: usize,
) -> *mut sojourn_qdisc {
    let made = if line.is_null() {
        Err("no line: expected one such as codel limit 1000".to_owned())
    } else {
        // SAFETY: guaranteed by the caller.
        let line = unsafe { CStr::from_ptr(line) };
        line.to_str().map_err(|error| error.to_string()).and_then(|line| make(line, mtu, rate, seed))
    };
    match made {
        Ok(qdisc) => Box::into_raw(Box::new(qdisc)),
        Err(words) => {
            if !error.is_null() && error_size > 0 {
                let length = words.len().min(error_size - 1);
                // SAFETY: guaranteed by the caller; `length` and a zero byte fit.
                unsafe {
                    std::ptr::copy_nonoverlapping(words.as_ptr(), error.cast(), length);
                    *error.add(length) = 0;
                }
            }
            std::ptr::null_mut()
        }
    }
}

fn make(line: &str, mtu: u32, rate: u64, seed: u64) -> Result<sojourn_qdisc, String> {
    let (spec, _) = Spec::parse(line).map_err(|error| error.to_string())?;
    if mtu == 0 || rate == 0 {
        return Err(format!("mtu {mtu}, rate {rate}: expected more than zero"));
    }
    let context = Context { mtu, overhead: 14, rate: Rate(rate), delay: Span::ZERO, skb: 0, seed };
    let qdisc = catch_unwind(AssertUnwindSafe(|| spec.build::<Held>(&context)))
        .map_err(|_| format!("{line}: cannot be used in front of this link"))?;
    if qdisc.bufferless() {
        return Err(format!("{line}: has no queue"));
    }
    Ok(sojourn_qdisc(qdisc))
}

/// Frees a discipline and its packets; null is allowed.
///
/// # Safety
/// `qdisc` comes from `sojourn_new` and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sojourn_free(qdisc: *mut sojourn_qdisc) {
    if !qdisc.is_null() {
        // SAFETY: guaranteed by the caller.
        drop(unsafe { Box::from_raw(qdisc) });
    }
}

/// Enqueues a packet at time `now` in nanoseconds, which must not decrease between calls. The packet, or others instead
/// of it, may be dropped.
///
/// # Safety
/// `qdisc` comes from `sojourn_new` and is not used concurrently; `dropped` may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sojourn_enqueue(
    qdisc: *mut sojourn_qdisc,
    now: u64,
    packet: sojourn_packet,
    dropped: sojourn_dropped,
    context: *mut c_void,
) {
    // SAFETY: guaranteed by the caller.
    let sojourn_qdisc(qdisc) = unsafe { &mut *qdisc };
    qdisc.enqueue(Time(now), Held { packet, enqueue_time: Time(now) }, &mut Told { dropped, context });
}

/// Dequeues a packet at time `now` in nanoseconds. Returns true and stores it in `packet` if there is one. Dequeues
/// from an empty discipline matter too.
///
/// # Safety
/// As for `sojourn_enqueue`; `packet` has room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sojourn_dequeue(
    qdisc: *mut sojourn_qdisc,
    now: u64,
    packet: *mut sojourn_packet,
    dropped: sojourn_dropped,
    context: *mut c_void,
) -> bool {
    // SAFETY: guaranteed by the caller.
    let sojourn_qdisc(qdisc) = unsafe { &mut *qdisc };
    let Some(held) = qdisc.dequeue(Time(now), &mut Told { dropped, context }) else { return false };
    // SAFETY: guaranteed by the caller.
    unsafe { packet.write(held.packet) };
    true
}

/// Returns the time in nanoseconds of the next dequeue, after one returned no packet although packets are queued;
/// `UINT64_MAX` means never.
///
/// # Safety
/// `qdisc` comes from `sojourn_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sojourn_next_event(qdisc: *const sojourn_qdisc) -> u64 {
    // SAFETY: guaranteed by the caller.
    let sojourn_qdisc(qdisc) = unsafe { &*qdisc };
    qdisc.next_event().0
}

/// Returns the number of queued packets.
///
/// # Safety
/// `qdisc` comes from `sojourn_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sojourn_packets(qdisc: *const sojourn_qdisc) -> u64 {
    // SAFETY: guaranteed by the caller.
    let sojourn_qdisc(qdisc) = unsafe { &*qdisc };
    qdisc.packets() as u64
}

/// Returns the number of queued bytes.
///
/// # Safety
/// `qdisc` comes from `sojourn_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sojourn_backlog(qdisc: *const sojourn_qdisc) -> u64 {
    // SAFETY: guaranteed by the caller.
    let sojourn_qdisc(qdisc) = unsafe { &*qdisc };
    qdisc.backlog()
}

/// Returns the name of a drop reason, such as "codel" or "overlimit"; null for an unknown number.
#[unsafe(no_mangle)]
pub extern "C" fn sojourn_reason(reason: u8) -> *const c_char {
    let words: &[&CStr] = &[
        c"overlimit",
        c"flow_limit",
        c"memory_limit",
        c"codel",
        c"early",
        c"forced",
        c"shrink",
        c"busy",
        c"loss",
        c"matched",
        c"penalty",
        c"ack_filter",
    ];
    words.get(usize::from(reason)).map_or(std::ptr::null(), |word| word.as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_the_name_that_files_have() {
        for reason in DropReason::ALL {
            // SAFETY: the string is static.
            let word = unsafe { CStr::from_ptr(sojourn_reason(reason as u8)) };
            assert_eq!(word.to_str(), Ok(reason.name()));
        }
        assert!(sojourn_reason(DropReason::ALL.len() as u8).is_null());
    }

    #[test]
    fn a_line_that_is_not_understood_is_said_in_the_room_there_is() {
        let mut room = [1u8; 12];
        // SAFETY: a valid string, and room for twelve bytes.
        let made =
            unsafe { sojourn_new(c"coddle".as_ptr(), 1514, 1, 1, room.as_mut_ptr().cast::<c_char>(), room.len()) };
        assert!(made.is_null());
        let said = CStr::from_bytes_until_nul(&room).expect("a zero byte");
        assert_eq!(said.to_bytes().len(), 11);
    }
}
