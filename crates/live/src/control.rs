//! The control socket of a link that is up: it starts programs on the hosts, changes the path, and tells its state.
//!
//! A request is one line of JSON, and so is each answer. `run` starts a program in a host's namespace; its standard
//! streams come with the request as descriptors (SCM_RIGHTS). `set` changes a link, `stats` tells what has passed it, and
//! `stop` ends the link. When a connection sends no more, the program that it has started is killed.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{PidfdFlags, Signal};
use serde::Deserialize;
use serde_json::{Value, json};
use sojourn_core::units::{Rate, Span};
use sojourn_traffic::os;

use crate::hop::Change;

/// The longest request in bytes: it has the environment of a program.
const LONGEST: usize = 1 << 20;

/// A request.
#[derive(Deserialize, Debug)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
enum Request {
    /// Starts a program.
    Run {
        /// The host: `client` or `server`.
        at: String,
        argv: Vec<String>,
        env: BTreeMap<String, String>,
        cwd: String,
    },
    /// Changes a link, whose index is that in the scenario.
    Set { link: usize, rate: Option<u64>, delay_ns: Option<u64>, qdisc: Option<String> },
    /// Asks for the addresses of the hosts.
    Hosts {},
    /// Asks for the state of all links.
    Stats {},
    /// Ends the link.
    Stop {},
}

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

/// A host on which programs can be started.
pub struct Host {
    /// Its namespace.
    pub space: OwnedFd,
    /// Its address.
    pub address: Ipv4Addr,
    /// Its IPv6 address, if it has one.
    pub ipv6: Option<Ipv6Addr>,
}

/// The parts that all connections share.
pub struct Control {
    /// The hosts, by name.
    pub hosts: BTreeMap<&'static str, Host>,
    /// The loop.
    pub questions: mpsc::Sender<Asked>,
    /// Ends the link.
    pub stop: Arc<AtomicBool>,
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

fn connection(mut stream: UnixStream, control: &Control) {
    let answer = match receive(&stream) {
        Ok((line, streams)) => match serde_json::from_str(&line) {
            Ok(request) => answer(&stream, request, streams, control),
            Err(error) => Err(format!("request: {error}")),
        },
        Err(error) => Err(format!("request: {error}")),
    };
    let text = match answer {
        Ok(value) => value,
        Err(error) => json!({ "error": error }),
    };
    // The other end may have gone.
    let _ = writeln!(stream, "{text}");
}

/// Receives a line, and the descriptors that come with its first byte.
fn receive(stream: &UnixStream) -> io::Result<(String, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
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

fn answer(stream: &UnixStream, request: Request, streams: Vec<OwnedFd>, control: &Control) -> Result<Value, String> {
    match request {
        Request::Run { at, argv, env, cwd } => {
            let host = control.hosts.get(at.as_str());
            let host = host.ok_or_else(|| format!("at = {at}: expected client or server"))?;
            let child = start(&host.space, &argv, &env, &cwd, streams);
            let child = child.map_err(|error| format!("{}: {error}", argv.first().map_or("", |word| word)))?;
            follow(stream, child).map_err(|error| error.to_string())
        }
        Request::Set { link, rate, delay_ns, qdisc } => {
            let changes = [
                rate.map(|rate| ChangeOf::Link(Change::Rate(Rate(rate)))),
                delay_ns.map(|delay| ChangeOf::Link(Change::Delay(Span(delay)))),
                qdisc.map(ChangeOf::Qdisc),
            ];
            for change in changes.into_iter().flatten() {
                ask(control, Question::Change(link, Box::new(change)))?;
            }
            Ok(json!({ "ok": true }))
        }
        Request::Hosts {} => {
            let of = |host: &Host| json!({ "address": host.address, "ipv6": host.ipv6 });
            Ok(control.hosts.iter().map(|(name, host)| ((*name).to_owned(), of(host))).collect())
        }
        Request::Stats {} => ask(control, Question::Stats),
        Request::Stop {} => {
            control.stop.store(true, Ordering::Relaxed);
            Ok(json!({ "ok": true }))
        }
    }
}

fn ask(control: &Control, question: Question) -> Result<Value, String> {
    let (to, answer) = mpsc::channel();
    let gone = |_| "the link has ended".to_owned();
    control.questions.send((question, to)).map_err(|_| "the link has ended".to_owned())?;
    answer.recv().map_err(gone)?
}

/// Starts a program in a namespace, which this thread enters for good.
fn start(
    host: &OwnedFd,
    argv: &[String],
    env: &BTreeMap<String, String>,
    cwd: &str,
    streams: Vec<OwnedFd>,
) -> io::Result<Child> {
    let [program, words @ ..] = argv else { return Err(io::Error::other("argv is empty")) };
    os::enter(host)?;
    let mut command = Command::new(program);
    command.args(words).env_clear().envs(env).current_dir(cwd);
    let mut streams = streams.into_iter().map(Stdio::from);
    command.stdin(streams.next().unwrap_or_else(Stdio::null));
    command.stdout(streams.next().unwrap_or_else(Stdio::null));
    command.stderr(streams.next().unwrap_or_else(Stdio::null));
    interruptible(&mut command);
    command.spawn()
}

/// Lets Ctrl-C end the program, which this process itself may ignore.
#[expect(unsafe_code, reason = "the child of a fork may call only what is safe there")]
fn interruptible(command: &mut Command) {
    let reset = || {
        for signal in [libc::SIGINT, libc::SIGQUIT] {
            // SAFETY: the call is safe after a fork, and has no pointers.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: the closure only resets signals.
    unsafe { command.pre_exec(reset) };
}

/// Waits for a program's end, and returns it. If the other end of the connection sends no more, the program is killed.
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
    let process = rustix::process::pidfd_open(rustix::process::Pid::from_child(child), PidfdFlags::empty())?;
    thread::Builder::new().spawn(move || {
        let _ = other.read_to_end(&mut Vec::new());
        // It fails if the program has ended.
        let _ = rustix::process::pidfd_send_signal(process, Signal::KILL);
    })?;
    Ok(())
}
