//! Disciplines of the user's: a shared library with the functions of `crates/ffi/include/sojourn.h`, or a Python class.
//!
//! Every error of such a discipline is kept in the [`Failure`] of its run, which stops the run.
#![allow(unsafe_code, reason = "a library of the user's is on the other side")]

use std::ffi::{CStr, CString, c_char, c_void};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use sojourn_core::packet::Ecn;
use sojourn_core::qdisc::Context;
use sojourn_core::qdisc::external::{Dropped, Label, Maker, Outside, refuse_name};
use sojourn_core::units::Time;

use crate::Error;
use crate::discipline;

/// The first error of a run's disciplines.
#[derive(Clone, Default)]
pub struct Failure {
    said: Arc<Mutex<Option<String>>>,
    progress: Option<Arc<sojourn_sim::Progress>>,
}

impl Failure {
    /// No error so far. An error will stop the run with this progress.
    pub fn new(progress: Option<Arc<sojourn_sim::Progress>>) -> Failure {
        Failure { progress, ..Failure::default() }
    }

    /// Keeps an error, unless there was one before.
    pub fn keep(&self, problem: String) {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(problem);
        if let Some(progress) = &self.progress {
            progress.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// Returns the error, if there was one, as an exception.
    pub fn check(&self) -> PyResult<()> {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner).take();
        said.map_or(Ok(()), |problem| Err(Error::new_err(problem)))
    }
}

/// A discipline of the user's as Python passes it: its name, and the path of a library or a function that creates it.
pub type Given = (String, Py<PyAny>);

/// Returns the makers of these disciplines.
pub fn makers(py: Python<'_>, given: &[Given], failure: &Failure) -> PyResult<Vec<Arc<dyn Maker>>> {
    given
        .iter()
        .map(|(name, source)| {
            let failure = failure.clone();
            if let Ok(path) = source.extract::<String>(py) {
                let library = Library::open(&path).map_err(Error::new_err)?;
                let file = path.rsplit('/').next().unwrap_or(&path).to_owned();
                return Ok(Arc::new(OfLibrary { name: name.clone(), file, library, failure }) as Arc<dyn Maker>);
            }
            Ok(Arc::new(discipline::OfPython { name: name.clone(), make: source.clone_ref(py), failure })
                as Arc<dyn Maker>)
        })
        .collect()
}

/// Returns the reason why a name cannot be that of a discipline of the user's; None if it can.
#[pyfunction]
pub fn refuse_outside(name: &str) -> Option<String> {
    refuse_name(name)
}

/// `struct sojourn_packet` of sojourn.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CPacket {
    id: u64,
    bytes: u32,
    flow: u32,
    ecn: u8,
}

impl From<Label> for CPacket {
    fn from(label: Label) -> CPacket {
        CPacket { id: label.id, bytes: label.bytes, flow: label.flow, ecn: label.ecn as u8 }
    }
}

impl From<CPacket> for Label {
    fn from(packet: CPacket) -> Label {
        Label { id: packet.id, bytes: packet.bytes, flow: packet.flow, ecn: Ecn::from_bits(packet.ecn) }
    }
}

/// The types of the functions in sojourn.h.
type DroppedFn = unsafe extern "C" fn(context: *mut c_void, packet: *const CPacket, reason: u8);
type New = unsafe extern "C" fn(*const c_char, u32, u64, u64, *mut c_char, usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type Enqueue = unsafe extern "C" fn(*mut c_void, u64, CPacket, DroppedFn, *mut c_void);
type Dequeue = unsafe extern "C" fn(*mut c_void, u64, *mut CPacket, DroppedFn, *mut c_void) -> bool;
type NextEvent = unsafe extern "C" fn(*const c_void) -> u64;

/// The functions of a library. It is never unloaded.
#[derive(Clone, Copy)]
struct Library {
    new: New,
    free: Free,
    enqueue: Enqueue,
    dequeue: Dequeue,
    /// Absent if the discipline never holds packets back.
    next_event: Option<NextEvent>,
}

/// Returns the last error of the dynamic linker.
fn linker_error() -> String {
    // SAFETY: `dlerror` returns null or a string that is valid until the next call in this thread.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() { "no such function".to_owned() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
    }
}

impl Library {
    fn open(path: &str) -> Result<Library, String> {
        let file = CString::new(path).map_err(|_| "a path with a zero byte".to_owned())?;
        // SAFETY: the path is a string. The library's initialisers run here; the user asked for them.
        let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(format!("{}: expected a shared library", linker_error()));
        }
        let find = |name: &CStr| {
            // SAFETY: the handle is open, and the name is a string.
            let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
            let expected = || format!("{path}: no function {}: expected those of sojourn.h", name.to_string_lossy());
            if found.is_null() { Err(expected()) } else { Ok(found) }
        };
        let (new, free, enqueue, dequeue) =
            (find(c"sojourn_new")?, find(c"sojourn_free")?, find(c"sojourn_enqueue")?, find(c"sojourn_dequeue")?);
        let next_event = find(c"sojourn_next_event").ok();
        // SAFETY: functions of these names have the types of sojourn.h; a library in which they have others breaks the
        // header's contract.
        unsafe {
            Ok(Library {
                new: std::mem::transmute::<*mut c_void, New>(new),
                free: std::mem::transmute::<*mut c_void, Free>(free),
                enqueue: std::mem::transmute::<*mut c_void, Enqueue>(enqueue),
                dequeue: std::mem::transmute::<*mut c_void, Dequeue>(dequeue),
                next_event: next_event.map(|found| std::mem::transmute::<*mut c_void, NextEvent>(found)),
            })
        }
    }
}

/// Creates the discipline of a library.
struct OfLibrary {
    name: String,
    /// The file's name, for messages.
    file: String,
    library: Library,
    failure: Failure,
}

impl fmt::Debug for OfLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)
    }
}

impl Maker for OfLibrary {
    fn name(&self) -> &str {
        &self.name
    }

    fn make(&self, line: &str, context: &Context) -> Option<Box<dyn Outside>> {
        let words = CString::new(line).unwrap_or_default();
        let mut room: [c_char; 400] = [0; 400];
        // SAFETY: `words` is a string and `room` has the size that is passed.
        let qdisc = unsafe {
            (self.library.new)(words.as_ptr(), context.mtu, context.rate.0, context.seed, room.as_mut_ptr(), room.len())
        };
        if !qdisc.is_null() {
            return Some(Box::new(OfC { qdisc, library: self.library }));
        }
        if let Some(end) = room.last_mut() {
            *end = 0;
        }
        // SAFETY: the last byte is zero.
        let said = unsafe { CStr::from_ptr(room.as_ptr()) }.to_string_lossy().into_owned();
        let why = if said.is_empty() { "refused without a reason" } else { &said };
        self.failed(format!("{line}: {why}"));
        None
    }

    fn failed(&self, problem: String) {
        self.failure.keep(format!("{}: {problem}", self.file));
    }
}

/// A discipline of a library.
struct OfC {
    qdisc: *mut c_void,
    library: Library,
}

// SAFETY: the header allows any thread, as long as calls are not concurrent, and `&mut` sees to that.
unsafe impl Send for OfC {}

impl Drop for OfC {
    fn drop(&mut self) {
        // SAFETY: it comes from `sojourn_new` and is not used afterwards.
        unsafe { (self.library.free)(self.qdisc) }
    }
}

/// Collects a packet that the library drops.
unsafe extern "C" fn collect(context: *mut c_void, packet: *const CPacket, reason: u8) {
    // SAFETY: the context is the list that was passed together with this function. The packet is the library's, and a
    // null pointer becomes an id that no packet has.
    unsafe {
        let id = packet.as_ref().map_or(u64::MAX, |packet| packet.id);
        (*context.cast::<Vec<Dropped>>()).push((id, reason));
    }
}

impl Outside for OfC {
    fn enqueue(&mut self, now: Time, packet: Label, dropped: &mut Vec<Dropped>) -> Result<(), String> {
        let context = std::ptr::from_mut(dropped).cast();
        // SAFETY: the discipline comes from `sojourn_new`; `collect` gets the list it expects.
        unsafe { (self.library.enqueue)(self.qdisc, now.0, packet.into(), collect, context) }
        Ok(())
    }

    fn dequeue(&mut self, now: Time, dropped: &mut Vec<Dropped>) -> Result<Option<Label>, String> {
        let (context, mut packet) = (std::ptr::from_mut(dropped).cast(), CPacket::default());
        // SAFETY: as for `enqueue`; `packet` has room for one.
        let found = unsafe { (self.library.dequeue)(self.qdisc, now.0, &raw mut packet, collect, context) };
        Ok(found.then(|| packet.into()))
    }

    fn next_event(&mut self) -> Result<Time, String> {
        // SAFETY: the discipline comes from `sojourn_new`.
        Ok(self.library.next_event.map_or(Time::NEVER, |next| Time(unsafe { next(self.qdisc) })))
    }
}
