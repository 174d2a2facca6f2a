//! The control socket of a link that is up: it starts programs on the hosts, changes the path, and tells its state.
//!
//! A request is one line of JSON, and so is each answer. `run` starts a program in a host's namespace; its standard
//! streams come with the request as descriptors (SCM_RIGHTS). Its first answer says that it has started, the second one
//! how it has ended. `socket` makes a socket on a host, which comes with the answer in the same way. `set` changes a link,
//! `stats` tells what has passed it, and `stop` ends the link. When a connection sends no more, the program that it has
//! started is killed.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{PidfdFlags, Signal};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sojourn_core::units::{Rate, Span};
use sojourn_model::units;
use sojourn_traffic::os;

use crate::files;
use crate::hop::Change;
use crate::network::Device;

/// The longest line in bytes: a request has the environment of a program.
const LONGEST: usize = 1 << 20;
/// The most descriptors that come with a line: the standard streams of a program.
const MOST: usize = 3;

/// A request.
#[derive(Serialize, Deserialize, Debug)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    /// Starts a program.
    Run {
        /// The host: `client` or `server`.
        at: String,
        /// The program and its arguments.
        argv: Vec<String>,
        /// All of its environment.
        env: BTreeMap<String, String>,
        /// Its folder.
        cwd: String,
    },
    /// Asks for a socket on a host, over IPv4 and without an address. It is bound or connected by its new owner, but for
    /// its whole life it is one of the host's namespace.
    Socket {
        /// The host: `client` or `server`.
        at: String,
        /// Its protocol.
        protocol: Protocol,
    },
    /// Changes a link.
    Set {
        /// Its index in the scenario.
        link: usize,
        /// The rate in bit/s.
        rate: Option<u64>,
        /// The delay in nanoseconds.
        delay_ns: Option<u64>,
        /// A line for `tc`: a discipline, or parameters of the present one.
        qdisc: Option<String>,
    },
    /// Asks for the addresses of the hosts.
    Hosts {},
    /// Asks for the state of all links.
    Stats {},
    /// Ends the link.
    Stop {},
}

/// The protocol of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Streams.
    Tcp,
    /// Datagrams.
    Udp,
}

/// An answer, and the socket that comes with it.
type Answer = (Value, Option<OwnedFd>);

/// A question to the loop, which alone has the path.
pub enum Question {
    /// Change a link.
    Change(usize, Box<ChangeOf>),
    /// Tell the state of all links.
    Stats,
}

/// A change that a request asks for.
pub enum ChangeOf {
    /// The rate or the delay.
    Link(Change),
    /// The discipline or its parameters, by a line for `tc`.
    Qdisc(String),
}

/// A question, and where its answer goes.
pub type Asked = (Question, mpsc::Sender<Result<Value, String>>);

/// The hosts, by name.
pub type Hosts = BTreeMap<&'static str, Host>;

/// A host on which programs can be started.
pub struct Host {
    /// Its namespace.
    pub space: OwnedFd,
    /// Its address.
    pub address: Ipv4Addr,
    /// Its IPv6 address, if it has one.
    pub ipv6: Option<Ipv6Addr>,
}

/// Returns the addresses of the hosts by the names that programs use: that of a host, and `NAME_ipv6`.
pub fn addresses(hosts: &Hosts) -> Vec<(String, String)> {
    let of = |(name, host): (&&'static str, &Host)| {
        let ipv4 = ((*name).to_owned(), host.address.to_string());
        let ipv6 = host.ipv6.map(|address| (format!("{name}_ipv6"), address.to_string()));
        std::iter::once(ipv4).chain(ipv6)
    };
    hosts.iter().flat_map(of).collect()
}

/// Returns these addresses as variables of a program's environment, such as `SOJOURN_SERVER`.
pub fn variables(addresses: Vec<(String, String)>) -> impl Iterator<Item = (String, String)> {
    addresses.into_iter().map(|(name, address)| (format!("SOJOURN_{}", name.to_uppercase()), address))
}

/// The parts that all connections share.
pub struct Control {
    /// The hosts.
    pub hosts: Hosts,
    /// The loop.
    pub questions: mpsc::Sender<Asked>,
    /// Ends the link.
    pub stop: Arc<AtomicBool>,
    /// The devices with the kernel's queues, in the order of the links; none if the queues are ours.
    pub devices: Mutex<Vec<Device>>,
}

/// Serves the socket until the process ends.
///
/// # Errors
/// No thread can be started.
pub fn serve(listener: UnixListener, control: Control) -> io::Result<()> {
    let control = Arc::new(control);
    thread::Builder::new().spawn(move || {
        for stream in listener.incoming().flatten() {
            let control = Arc::clone(&control);
            // Without a thread the connection is closed, which its other end notices.
            let _ = thread::Builder::new().spawn(move || connection(stream, &control));
        }
    })?;
    Ok(())
}

fn connection(stream: UnixStream, control: &Control) {
    let request = receive(&stream).and_then(|(line, streams)| Ok((serde_json::from_str(&line)?, streams)));
    let ends = matches!(request, Ok((Request::Stop {}, _)));
    let done = request
        .map_err(|error| format!("request: {error}"))
        .and_then(|(request, streams)| answer(&stream, request, streams, control));
    let (answer, socket) = done.unwrap_or_else(|error| (json!({ "error": error }), None));
    let socket: Vec<BorrowedFd<'_>> = socket.iter().map(OwnedFd::as_fd).collect();
    // The other end may have gone.
    let _ = send(&stream, &answer, &socket);
    if ends {
        // Only now: the process ends with the link.
        control.stop.store(true, Ordering::Relaxed);
    }
}

/// Sends a line, and descriptors with its first byte.
///
/// # Errors
/// The other end has gone, or there are too many descriptors.
pub fn send(mut stream: &UnixStream, line: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fits = descriptors.len() <= MOST;
    if !fits || !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other(format!("{} descriptors: expected at most {MOST}", descriptors.len())));
    }
    let sent = sendmsg(stream, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    stream.write_all(&bytes[sent..])
}

/// Receives a line, and the descriptors that come with its first byte. Bytes after the line are lost, so that nothing may
/// follow it before the answer. The line is empty if the other end has gone.
///
/// # Errors
/// Those of the socket, or the line is no text.
pub fn receive(stream: &UnixStream) -> io::Result<(String, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = vec![0; 4096];
    let got = recvmsg(stream, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    bytes.truncate(got.bytes);
    let streams = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => fds.collect::<Vec<_>>(),
        _ => Vec::new(),
    });
    let streams = streams.collect();
    if !bytes.ends_with(b"\n") {
        let mut rest = BufReader::new(stream);
        rest.by_ref().take(LONGEST as u64).read_until(b'\n', &mut bytes)?;
    }
    Ok((String::from_utf8(bytes).map_err(io::Error::other)?, streams))
}

fn answer(stream: &UnixStream, request: Request, streams: Vec<OwnedFd>, control: &Control) -> Result<Answer, String> {
    let host = |at: &str| control.hosts.get(at).ok_or_else(|| format!("at = {at}: expected client or server"));
    let ok = json!({ "ok": true });
    let value = match request {
        Request::Run { at, argv, env, cwd } => {
            let env = env.into_iter().chain(variables(addresses(&control.hosts)));
            let child = start(host(&at)?, &argv, env, &cwd, streams);
            let child = child.map_err(|error| format!("{}: {error}", argv.first().map_or("", |word| word)))?;
            follow(stream, child).map_err(|error| error.to_string())?
        }
        Request::Socket { at, protocol } => {
            let made = socket(host(&at)?, protocol).map_err(|error| format!("socket: {error}"))?;
            return Ok((ok, Some(made)));
        }
        Request::Set { link, rate, delay_ns, qdisc } => {
            let (rate, delay) = (rate.map(Rate), delay_ns.map(Span));
            bounded(rate, delay)?;
            let changes = [
                rate.map(|rate| ChangeOf::Link(Change::Rate(rate))),
                delay.map(|delay| ChangeOf::Link(Change::Delay(delay))),
                qdisc.map(ChangeOf::Qdisc),
            ];
            // One request at a time, so that the path and the kernel's queue make changes in the same order.
            let devices = control.devices.lock().unwrap_or_else(PoisonError::into_inner);
            for change in changes.into_iter().flatten() {
                ask(control, Question::Change(link, Box::new(change)))?;
            }
            if let (Some(device), Some(rate)) = (devices.get(link), rate) {
                os::run("tc", &device.change(rate.0)).map_err(|error| error.to_string())?;
            }
            ok
        }
        Request::Hosts {} => {
            let of = |host: &Host| json!({ "address": host.address, "ipv6": host.ipv6 });
            control.hosts.iter().map(|(name, host)| ((*name).to_owned(), of(host))).collect()
        }
        Request::Stats {} => ask(control, Question::Stats)?,
        Request::Stop {} => ok,
    };
    Ok((value, None))
}

/// Refuses a rate and a delay that no scenario may have, before anything is changed.
fn bounded(rate: Option<Rate>, delay: Option<Span>) -> Result<(), String> {
    if let Some(rate) = rate.filter(|rate| *rate > units::FASTEST) {
        return Err(format!("rate = {rate}: expected a rate of at most 10tbit"));
    }
    if let Some(delay) = delay.filter(|delay| *delay > units::LONGEST) {
        return Err(format!("delay = {delay}: expected a time of at most 24h"));
    }
    Ok(())
}

fn ask(control: &Control, question: Question) -> Result<Value, String> {
    let (to, answer) = mpsc::channel();
    let gone = || "the link has ended".to_owned();
    control.questions.send((question, to)).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}

/// Makes a socket in a host's namespace, which this thread enters for good.
fn socket(host: &Host, protocol: Protocol) -> io::Result<OwnedFd> {
    os::enter(&host.space)?;
    let kind = match protocol {
        Protocol::Tcp => SocketType::STREAM,
        Protocol::Udp => SocketType::DGRAM,
    };
    Ok(socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, None)?)
}

/// Starts a program in a host's namespace, which this thread enters for good.
fn start(
    host: &Host,
    argv: &[String],
    env: impl Iterator<Item = (String, String)>,
    cwd: &str,
    streams: Vec<OwnedFd>,
) -> io::Result<Child> {
    let [program, words @ ..] = argv else { return Err(io::Error::other("argv is empty")) };
    os::enter(&host.space)?;
    let mut command = Command::new(program);
    command.args(words).env_clear().envs(env).current_dir(cwd);
    let mut streams = streams.into_iter().map(Stdio::from);
    command.stdin(streams.next().unwrap_or_else(Stdio::null));
    command.stdout(streams.next().unwrap_or_else(Stdio::null));
    command.stderr(streams.next().unwrap_or_else(Stdio::null));
    as_usual(&mut command);
    command.spawn()
}

/// Gives a program of the user's what this process has changed for itself: Ctrl-C ends it, and it may have as many open
/// files as the one who asked.
#[expect(unsafe_code, reason = "the child of a fork may call only what is safe there")]
pub fn as_usual(command: &mut Command) {
    let files = files::given();
    let reset = move || {
        for signal in [libc::SIGINT, libc::SIGQUIT] {
            // SAFETY: the call is safe after a fork, and has no pointers.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        files::set(files)
    };
    // SAFETY: the closure only resets signals and a limit, by system calls.
    unsafe { command.pre_exec(reset) };
}

/// Says that a program has started, waits for its end, and returns it. If the other end of the connection sends no more,
/// the program is killed.
fn follow(stream: &UnixStream, mut child: Child) -> io::Result<Value> {
    if let Err(error) = kill_at_end_of(stream, &child) {
        child.kill()?;
        child.wait()?;
        return Err(error);
    }
    let status = child.wait()?;
    Ok(json!({ "exit": status.code(), "signal": status.signal() }))
}

/// Kills a program at the end of the stream.
fn kill_at_end_of(stream: &UnixStream, child: &Child) -> io::Result<()> {
    let mut other = stream.try_clone()?;
    // The other end may have gone: then it is killed.
    let _ = send(stream, &json!({ "started": true }), &[]);
    let process = rustix::process::pidfd_open(rustix::process::Pid::from_child(child), PidfdFlags::empty())?;
    thread::Builder::new().spawn(move || {
        let _ = other.read_to_end(&mut Vec::new());
        // It fails if the program has ended.
        let _ = rustix::process::pidfd_send_signal(process, Signal::KILL);
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_comes_with_its_descriptors() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let asked = Request::Run {
            at: "client".to_owned(),
            argv: vec!["x".repeat(10_000)],
            env: BTreeMap::new(),
            cwd: "/".to_owned(),
        };
        let (mut far, near) = io::pipe().expect("a pipe");
        send(&one, &asked, &[near.as_fd(), near.as_fd()]).expect("sent");
        drop(near);
        let (line, descriptors) = receive(&other).expect("a line");
        let read: Request = serde_json::from_str(&line).expect("a request");
        assert_eq!(format!("{read:?}"), format!("{asked:?}"));
        assert_eq!(descriptors.len(), 2);
        for descriptor in descriptors {
            std::fs::File::from(descriptor).write_all(b"!").expect("the pipe");
        }
        let mut said = String::new();
        far.read_to_string(&mut said).expect("its end");
        assert_eq!(said, "!!");
        assert!(send(&one, &asked, &[far.as_fd(); MOST + 1]).is_err(), "too many");
        drop(one);
        assert_eq!(receive(&other).expect("the end").0, "");
    }

    #[test]
    fn a_link_gets_only_a_rate_and_a_delay_that_a_scenario_may_have() {
        let (day, fastest) = (24 * 3600 * 1_000_000_000, 10_000_000_000_000);
        assert_eq!(bounded(Some(Rate(fastest)), Some(Span(day))), Ok(()));
        assert_eq!(bounded(None, None), Ok(()));
        for (rate, delay_ns, said) in [
            (Some(fastest + 1), None, "rate = 10000000000001bit: expected a rate of at most 10tbit"),
            (None, Some(day + 1), "delay = 86400000000001ns: expected a time of at most 24h"),
            (Some(1), Some(u64::MAX), "delay = 18446744073709551615ns: expected a time of at most 24h"),
        ] {
            assert_eq!(bounded(rate.map(Rate), delay_ns.map(Span)), Err(said.to_owned()));
        }
    }

    #[test]
    fn a_socket_is_made_in_the_namespace_and_comes_with_the_answer() {
        let space = std::fs::File::open("/proc/thread-self/ns/net").expect("this one").into();
        let host = Host { space, address: Ipv4Addr::LOCALHOST, ipv6: None };
        let (questions, _) = mpsc::channel();
        let control =
            Control { hosts: [("client", host)].into(), questions, stop: Arc::default(), devices: Mutex::default() };
        let ask = |at: &str| {
            let (one, other) = UnixStream::pair().expect("a pair");
            send(&one, &Request::Socket { at: at.to_owned(), protocol: Protocol::Udp }, &[]).expect("sent");
            connection(other, &control);
            receive(&one).expect("an answer")
        };
        let (line, sockets) = ask("router");
        assert_eq!((line.as_str(), sockets.len()), ("{\"error\":\"at = router: expected client or server\"}\n", 0));
        // Only a user with privileges may enter even its own namespace.
        let (line, sockets) = ask("client");
        let is_made = line == "{\"ok\":true}\n" && sockets.len() == 1;
        assert!(is_made || line.contains("socket: Operation not permitted"), "{line}");
    }

    #[test]
    fn the_rate_of_a_kernels_queue_is_changed_by_the_connection_and_not_by_the_loop() {
        let (questions, asked) = mpsc::channel();
        let devices = Mutex::new(vec![Device::of(0, 1500)]);
        let control = Control { hosts: BTreeMap::new(), questions, stop: Arc::default(), devices };
        let the_loop = thread::spawn(move || {
            for (_, to) in asked {
                let () = to.send(Ok(Value::Null)).expect("the one who asked waits");
            }
        });
        let set = |link, rate| {
            let (one, other) = UnixStream::pair().expect("a pair");
            send(&one, &Request::Set { link, rate, delay_ns: Some(5), qdisc: None }, &[]).expect("sent");
            connection(other, &control);
            receive(&one).expect("an answer").0
        };
        // There is no such device here, or no tc.
        let said = set(0, Some(8000));
        assert!(
            said.starts_with("{\"error\":\"tc class change dev queue0 ") && said.contains(" rate 8000bit "),
            "{said}"
        );
        assert_eq!((set(0, None), set(1, Some(8000))), ("{\"ok\":true}\n".to_owned(), "{\"ok\":true}\n".to_owned()));
        drop(control);
        the_loop.join().expect("no panic");
    }
}
