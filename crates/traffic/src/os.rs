//! Operating system calls: namespaces, programs, and settings of devices and of the network.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{Command, Output, Stdio};
use std::sync::{OnceLock, mpsc};

use rustix::thread::{CapabilitySet, LinkNameSpaceType, UnshareFlags};

use crate::netlink::Netlink;
use crate::seal;
use crate::topology::{Place, Setting};

/// Search path for programs.
const PATH: &str = "/usr/sbin:/sbin:/usr/bin:/bin";

/// Folder in which `tc` finds plug-ins; set once, before the first program runs.
pub static TC_LIB_DIR: OnceLock<String> = OnceLock::new();

/// The network namespaces, and the one that this thread is in.
pub struct Spaces {
    first: OwnedFd,
    places: BTreeMap<Place, OwnedFd>,
    current: Option<Place>,
    /// Sockets by namespace, opened on first use.
    sockets: BTreeMap<Option<Place>, Netlink>,
}

impl Spaces {
    /// Creates the namespaces.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn new(places: &[Place]) -> io::Result<Spaces> {
        let first = own_space()?;
        let mut made = BTreeMap::new();
        for &place in places {
            unshare()?;
            made.insert(place, own_space()?);
        }
        enter(&first)?;
        Ok(Spaces { first, places: made, current: None, sockets: BTreeMap::new() })
    }

    /// Calls `act` in a namespace; `None` is the guest's first one.
    ///
    /// # Errors
    /// Those of `act`, or the namespace cannot be entered.
    pub fn inside<T>(&mut self, place: Option<Place>, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if place != self.current {
            enter(self.space(place)?)?;
            self.current = place;
        }
        act()
    }

    /// Applies a setting in a namespace; `None` is the guest's first one.
    ///
    /// # Errors
    /// The kernel rejects it.
    pub fn apply(&mut self, place: Option<Place>, setting: &Setting) -> io::Result<()> {
        self.netlink(place)?.set(setting)
    }

    /// Moves a device from the guest's first namespace to another one and sets its hardware address.
    ///
    /// # Errors
    /// The device does not exist, or the kernel rejects the request.
    pub fn move_device(&mut self, device: &str, mac: [u8; 6], to: Place) -> io::Result<()> {
        let space = self.space(Some(to))?.as_raw_fd();
        self.netlink(None)?.move_to(device, mac, space)
    }

    /// Returns the socket for a namespace's settings. The thread is in that namespace afterwards.
    fn netlink(&mut self, place: Option<Place>) -> io::Result<&mut Netlink> {
        self.inside(place, || Ok(()))?;
        match self.sockets.entry(place) {
            Entry::Occupied(found) => Ok(found.into_mut()),
            Entry::Vacant(free) => Ok(free.insert(Netlink::open()?)),
        }
    }

    /// Runs several lines with one `tc` in a namespace; `None` is the guest's first one.
    ///
    /// # Errors
    /// `tc` is missing, or a line fails. The error has the line and the message of `tc`.
    pub fn tc(&mut self, place: Option<Place>, lines: &[String]) -> io::Result<()> {
        self.inside(place, || batch(lines))
    }

    /// Runs a program in a namespace and returns its output.
    ///
    /// # Errors
    /// The program is missing or fails. The error has its message.
    pub fn ask(&mut self, place: Option<Place>, program: &str, words: &[String]) -> io::Result<String> {
        self.inside(place, || run(program, words))
    }

    /// Writes a setting in /proc/sys/net of a namespace.
    ///
    /// # Errors
    /// The setting does not exist, or rejects the value.
    pub fn set(&mut self, place: Option<Place>, key: &str, value: &str) -> io::Result<()> {
        let path = format!("/proc/sys/net/{key}");
        self.inside(place, || {
            std::fs::write(&path, value).map_err(|error| io::Error::other(format!("{path} = {value}: {error}")))
        })
    }

    /// Starts a thread in each namespace, which runs tasks there and keeps no capabilities except those over networks.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub fn into_workers(self) -> io::Result<Workers> {
        enter(&self.first)?;
        let mut workers = BTreeMap::new();
        for (place, space) in self.places {
            let (to, tasks) = mpsc::channel::<Task>();
            let work = move || {
                let ready = enter(&space).and_then(|()| seal::keep_only(CapabilitySet::NET_ADMIN));
                for task in tasks {
                    task(ready.as_ref().err().map(ToString::to_string));
                }
            };
            std::thread::Builder::new().spawn(work)?;
            workers.insert(place, to);
        }
        Ok(Workers(workers))
    }

    /// Returns a namespace, for threads that [`enter`] it.
    ///
    /// # Errors
    /// There is no such namespace, or there are too many open files.
    pub fn namespace(&self, place: Place) -> io::Result<OwnedFd> {
        self.space(Some(place))?.try_clone()
    }

    fn space(&self, place: Option<Place>) -> io::Result<&OwnedFd> {
        match place {
            None => Ok(&self.first),
            Some(place) => self.places.get(&place).ok_or_else(|| io::Error::other(format!("no namespace {place:?}"))),
        }
    }
}

/// A task of a worker. Its argument is the reason why it cannot run, if there is one.
type Task = Box<dyn FnOnce(Option<String>) + Send>;

/// The threads, one for each namespace.
pub struct Workers(BTreeMap<Place, mpsc::Sender<Task>>);

impl Workers {
    /// Runs `act` in a namespace and waits for it.
    ///
    /// # Errors
    /// Those of `act`, or the namespace does not exist.
    pub fn inside<T: Send + 'static>(
        &self,
        place: Place,
        act: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (to, answer) = mpsc::channel();
        let gone = || io::Error::other(format!("no thread in {place:?}"));
        let task: Task = Box::new(move |obstacle| {
            let done = obstacle.map_or_else(act, |why| Err(io::Error::other(why)));
            // The caller waits for the result.
            let _ = to.send(done);
        });
        self.0.get(&place).ok_or_else(gone)?.send(task).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }

    /// Runs a program in a namespace and returns its output.
    ///
    /// # Errors
    /// The program is missing or fails. The error has its message.
    pub fn run(&self, place: Place, program: &'static str, words: &[String]) -> io::Result<String> {
        let words = words.to_vec();
        self.inside(place, move || run(program, &words))
    }
}

fn own_space() -> io::Result<OwnedFd> {
    Ok(std::fs::File::open("/proc/thread-self/ns/net")?.into())
}

#[expect(unsafe_code, reason = "rustix calls it unsafe, for the sake of shared file tables")]
fn unshare() -> io::Result<()> {
    // SAFETY: only the network namespace is unshared, no file table.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// Moves the calling thread into a network namespace.
///
/// # Errors
/// The operating system refuses.
pub fn enter(space: impl AsFd) -> io::Result<()> {
    Ok(rustix::thread::move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// Returns a command with these arguments, without a shell, and its environment.
fn command(program: &str, words: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(program);
    command.args(words).env_clear().env("PATH", PATH);
    if let Some(folder) = TC_LIB_DIR.get() {
        command.env("TC_LIB_DIR", folder);
    }
    command
}

/// Runs a program in the current namespace and returns its output.
///
/// # Errors
/// The program is missing or fails. The error has its message.
pub fn run(program: &str, words: &[String]) -> io::Result<String> {
    let fault = |what: String| io::Error::other(format!("{program} {}: {what}", words.join(" ")));
    let done = command(program, words).stdin(Stdio::null()).output().map_err(|error| fault(error.to_string()))?;
    if done.status.success() {
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    } else {
        Err(fault(complaint(&done)))
    }
}

/// Runs these lines with one `tc` in the current namespace. It stops at the first line that fails.
///
/// # Errors
/// `tc` is missing, or a line fails. The error has the line and the message of `tc`.
pub fn batch(lines: &[String]) -> io::Result<()> {
    let fault = |line: &str, what: &str| io::Error::other(format!("tc {line}: {what}"));
    let [first, ..] = lines else { return Ok(()) };
    let started = command("tc", &["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .and_then(|mut tc| {
            // The pipe has room for all lines, so that a `tc` that stops early blocks nothing.
            let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let written = tc.stdin.take().map_or(Ok(()), |mut to| to.write_all(lines.as_bytes()));
            let done = tc.wait_with_output()?;
            if done.status.success() { written.map(|()| done) } else { Ok(done) }
        });
    let done = started.map_err(|error| fault(first, &error.to_string()))?;
    if done.status.success() {
        return Ok(());
    }
    // After the reason, tc prints "Command failed -:LINE".
    let said = complaint(&done);
    let (reason, number) = said.rsplit_once("Command failed -:").unwrap_or((&said, "1"));
    let line = number.trim().parse().ok().and_then(|number: usize| lines.get(number.checked_sub(1)?));
    Err(fault(line.unwrap_or(first), reason.trim()))
}

/// Returns the error output of a program on one line.
fn complaint(done: &Output) -> String {
    String::from_utf8_lossy(&done.stderr).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Ethtool commands for a device's offloads (linux/ethtool.h): TSO, GSO, GRO.
pub const SEGMENTATION: &[u32] = &[0x1f, 0x24, 0x2c];
/// Those of [`SEGMENTATION`], checksums of frames that are sent, and frames in several parts.
pub const ALL_OFFLOADS: &[u32] = &[0x1f, 0x24, 0x2c, 0x17, 0x19];

/// Switches offloads of a device in the current namespace on or off.
///
/// # Errors
/// The device does not support them.
#[expect(unsafe_code, reason = "an ioctl without a safe wrapper")]
pub fn offloads(device: &str, commands: &[u32], on: bool) -> io::Result<()> {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
    for &command in commands {
        let mut value = [command, u32::from(on)];
        // SAFETY: an ifreq of zeros is valid and has no name.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(device.bytes().take(libc::IFNAMSIZ - 1)) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
        const SIOCETHTOOL: u64 = 0x8946;
        // SAFETY: the request names a device and points to a value that outlives the call.
        let done = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
        if done < 0 {
            let error = io::Error::last_os_error();
            return Err(io::Error::other(format!("{device}: offload {command:#x}: {error}")));
        }
    }
    Ok(())
}
