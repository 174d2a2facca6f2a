//! Links for tests: programs, and the test's own sockets, behind a rate, a delay and a queue discipline.
//!
//! A [`Link`] is up between two hosts, which are network namespaces of this machine: the client, to which packets of the
//! downlink go, and the server. Each test can have one of its own, also in parallel, and nothing needs root. The program
//! `sojourn-live` carries the frames ([`find`] says where it is looked for); all that runs behind a link ends with it.
//!
//! Errors are those of [`std::io`]. Their kind is `InvalidInput` for a value that is not sound, and `NotFound` if there is
//! no such program or file.

mod builder;
mod find;
mod program;

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{bind, connect, listen, sockopt};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sojourn_core::qdisc::param::nearest;
use sojourn_live::control::{self, Request};
use sojourn_live::express;
use sojourn_live::queue::Owner;
use sojourn_live::run::Asked;
use sojourn_model::plan::Plan;
use sojourn_model::units;
use sojourn_traffic::job::{ENDED, JOB, Job, LinkKind, Mode, Sink};
use tempfile::TempDir;

pub use builder::Builder;
pub use find::find;
pub use program::{Child, Command, Stdio};
pub use sojourn_live::control::Protocol;
pub use sojourn_model::workload::Host;

/// The control socket, in the link's folder.
const CONTROL: &str = "control";
/// A link that is not up, or down, after this time has failed.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between two looks at whether a link is up or down.
const LOOK: Duration = Duration::from_millis(1);
/// The connections that wait to be accepted, as for listeners of the standard library.
const BACKLOG: i32 = 128;

/// A change of one queue's link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    queue: Option<String>,
    what: What,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum What {
    Rate(String),
    Delay(String),
    Qdisc(String),
}

impl Change {
    /// Another rate, such as `1mbit`.
    pub fn rate(rate: impl Into<String>) -> Change {
        Change { queue: None, what: What::Rate(rate.into()) }
    }

    /// Another delay behind the queue, such as `20ms`.
    pub fn delay(delay: impl Into<String>) -> Change {
        Change { queue: None, what: What::Delay(delay.into()) }
    }

    /// Other parameters of the discipline, or another one: a line for `tc` such as `codel target 15ms`.
    pub fn qdisc(line: impl Into<String>) -> Change {
        Change { queue: None, what: What::Qdisc(line.into()) }
    }

    /// The queue with this name, such as `link.reverse`, the one to the server. Without it the first one is changed.
    #[must_use]
    pub fn of(self, queue: impl Into<String>) -> Change {
        Change { queue: Some(queue.into()), ..self }
    }

    /// Returns the request for a path with these queues.
    fn request(&self, queues: &[String]) -> io::Result<Request> {
        let link = match &self.queue {
            None => 0,
            Some(name) => queues.iter().position(|known| known == name).ok_or_else(|| unknown(name, queues))?,
        };
        let (mut rate, mut delay_ns, mut qdisc) = (None, None, None);
        match &self.what {
            What::Rate(text) => {
                let read = units::rate(text).filter(|read| read.rate.0 > 0);
                let fault = || invalid(format!("rate = {text}: expected a positive rate such as 10mbit"));
                rate = Some(read.ok_or_else(fault)?.rate.0);
            }
            What::Delay(text) => {
                let fault = || invalid(format!("delay = {text}: expected a time such as 20ms"));
                delay_ns = Some(units::span(text).ok_or_else(fault)?.0);
            }
            What::Qdisc(line) => qdisc = Some(line.clone()),
        }
        Ok(Request::Set { link, rate, delay_ns, qdisc })
    }
}

/// The answer of a link at its end.
#[derive(Clone, Debug, Deserialize)]
pub struct Ended {
    /// How well it kept its times.
    pub truth: Truth,
    /// Its last state, as [`Link::stats`] returns it.
    pub state: Value,
}

/// How well a link kept its times.
#[derive(Clone, Debug, Deserialize)]
pub struct Truth {
    /// True if measurements behind the link may be believed.
    pub valid: bool,
    /// Why not.
    pub reasons: Vec<String>,
    /// All measures: the field `truth` of the program's answer.
    #[serde(flatten)]
    pub measures: serde_json::Map<String, Value>,
}

/// A link that is up until it is dropped.
#[derive(Debug)]
pub struct Link {
    folder: TempDir,
    process: process::Child,
    queues: Vec<String>,
    client: String,
    server: String,
}

/// A job as the program reads it.
#[derive(Serialize)]
struct Whole {
    #[serde(flatten)]
    job: Job,
    #[serde(flatten)]
    asked: Asked,
}

impl Link {
    /// Brings up a plain link with a rate, a base RTT and a discipline, in both directions, for example
    /// `Link::new("10mbit", "50ms", "fq_codel")`. [`Builder`] makes others.
    ///
    /// # Errors
    /// A value is not sound, there is no program `sojourn-live`, or this host cannot do it.
    pub fn new(rate: &str, rtt: &str, qdisc: &str) -> io::Result<Link> {
        Builder::new(rate, rtt, qdisc).open()
    }

    /// Brings up a link for a builder.
    fn open(builder: &Builder) -> io::Result<Link> {
        let plan = builder.plan()?;
        let scenario = plan.scenario(0).map_err(|error| invalid(error.to_string()))?;
        if let Some(reason) = express::refusal(&scenario, &express::Host::read(), Owner::Ours) {
            return Err(invalid(reason));
        }
        let queues = (0..scenario.hops.len() * 2).map(|index| scenario.link_name(index)).collect();
        // Only the user may read it: the control socket is in it.
        let private = fs::Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix("sojourn-link-").permissions(private).tempdir()?;
        fs::write(folder.path().join(JOB), serde_json::to_vec(&whole(&plan, builder, folder.path()))?)?;
        let process = process::Command::new(find()?)
            .arg(folder.path())
            .stdin(process::Stdio::null())
            .stdout(process::Stdio::null())
            .spawn()?;
        let mut link = Link { folder, process, queues, client: String::new(), server: String::new() };
        link.wait_until_up()?;
        let hosts = link.ask(&Request::Hosts {})?;
        let address = |host: Host| {
            let found = hosts[host.name()]["address"].as_str();
            found.map(str::to_owned).ok_or_else(|| io::Error::other(format!("{hosts}: expected the hosts' addresses")))
        };
        (link.client, link.server) = (address(Host::Client)?, address(Host::Server)?);
        Ok(link)
    }

    fn wait_until_up(&mut self) -> io::Result<()> {
        let begin = Instant::now();
        while !self.folder.path().join(CONTROL).exists() {
            if self.process.try_wait()?.is_some() {
                return Err(self.answer().err().unwrap_or_else(gone));
            }
            if begin.elapsed() > PATIENCE {
                return Err(io::Error::other(format!("the link was not up within {PATIENCE:?}")));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// The client's address.
    pub fn client(&self) -> &str {
        &self.client
    }

    /// The server's address.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The names of the queues.
    pub fn queues(&self) -> &[String] {
        &self.queues
    }

    /// Prepares a program that runs on a host.
    pub fn command(&self, at: Host, program: impl AsRef<std::ffi::OsStr>) -> Command<'_> {
        Command::new(self, at, program.as_ref())
    }

    /// Connects the client to a port of the server, and waits until it is connected.
    ///
    /// # Errors
    /// Those of a connection.
    pub fn connect(&self, port: u16) -> io::Result<TcpStream> {
        let socket = self.socket(Host::Client, Protocol::Tcp)?;
        connect(&socket, &self.address(Host::Server, port)?)?;
        Ok(socket.into())
    }

    /// Listens on a port of a host; 0 is any free one.
    ///
    /// # Errors
    /// Those of a listener. Without root, ports below 1024 are refused.
    pub fn listen(&self, at: Host, port: u16) -> io::Result<TcpListener> {
        let socket = self.socket(at, Protocol::Tcp)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &self.address(at, port)?)?;
        listen(&socket, BACKLOG)?;
        Ok(socket.into())
    }

    /// Binds a UDP socket to a port of a host; 0 is any free one.
    ///
    /// # Errors
    /// Those of a bound socket. Without root, ports below 1024 are refused.
    pub fn bind_udp(&self, at: Host, port: u16) -> io::Result<UdpSocket> {
        let socket = self.socket(at, Protocol::Udp)?;
        bind(&socket, &self.address(at, port)?)?;
        Ok(socket.into())
    }

    /// Makes an IPv4 socket on a host, neither bound nor connected. For its whole life it is one of this host, whatever
    /// the test does with it.
    ///
    /// # Errors
    /// The link has ended, or there are too many sockets.
    pub fn socket(&self, at: Host, protocol: Protocol) -> io::Result<OwnedFd> {
        let (_, socket) = self.exchange(&Request::Socket { at: at.name().to_owned(), protocol })?;
        socket.ok_or_else(|| io::Error::other("the answer came without a socket"))
    }

    /// Changes the link of a queue. Packets on their way stay on it.
    ///
    /// # Errors
    /// There is no such queue, or the value is not sound.
    pub fn set(&self, change: &Change) -> io::Result<()> {
        self.ask(&change.request(&self.queues)?).map(|_| ())
    }

    /// Returns the state of the links: rate, queue and counters (`packets`, `bytes`, `drops`) in `links`, in the order of
    /// [`Link::queues`], and the sojourns since the last call in microseconds.
    ///
    /// # Errors
    /// The link has ended.
    pub fn stats(&self) -> io::Result<Value> {
        self.ask(&Request::Stats {})
    }

    /// Ends the link and all that runs behind it, and returns what it says about itself. The end of a dropped link is the
    /// same, without this.
    ///
    /// # Errors
    /// The link had ended before.
    pub fn close(mut self) -> io::Result<Ended> {
        self.end()?;
        let answer = self.answer()?;
        Ok(serde_json::from_value(answer)?)
    }

    /// Ends the program.
    fn end(&mut self) -> io::Result<()> {
        let asked = self.ask(&Request::Stop {});
        let begin = Instant::now();
        while asked.is_ok() && begin.elapsed() < PATIENCE {
            if self.process.try_wait()?.is_some() {
                return Ok(());
            }
            thread::sleep(LOOK);
        }
        // It fails if the process has ended.
        let _ = self.process.kill();
        self.process.wait().map(|_| ())
    }

    /// Reads the program's answer, which it writes at its end.
    fn answer(&self) -> io::Result<Value> {
        let text = fs::read_to_string(self.folder.path().join(ENDED)).map_err(|_| gone())?;
        let answer: Value = serde_json::from_str(&text)?;
        match answer["error"].as_str() {
            Some(error) => Err(io::Error::other(error)),
            None => Ok(answer),
        }
    }

    fn address(&self, at: Host, port: u16) -> io::Result<SocketAddrV4> {
        let text = match at {
            Host::Client => &self.client,
            Host::Server => &self.server,
        };
        let address: Ipv4Addr = text.parse().map_err(io::Error::other)?;
        Ok(SocketAddrV4::new(address, port))
    }

    /// Connects to the control socket.
    fn dial(&self) -> io::Result<UnixStream> {
        UnixStream::connect(self.folder.path().join(CONTROL)).map_err(|_| gone())
    }

    fn ask(&self, request: &Request) -> io::Result<Value> {
        self.exchange(request).map(|(value, _)| value)
    }

    fn exchange(&self, request: &Request) -> io::Result<(Value, Option<OwnedFd>)> {
        let stream = self.dial()?;
        control::send(&stream, request, &[])?;
        let (line, descriptors) = control::receive(&stream)?;
        Ok((answer_of(&line)?, descriptors.into_iter().next()))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Nobody is there for the error, and the process ends with the test's at the latest.
        let _ = self.end();
    }
}

/// Returns the job of a plan's first run.
fn whole(plan: &Plan, builder: &Builder, folder: &Path) -> Whole {
    let mode = Mode { link: LinkKind::Device, probe: true, sink: Sink::Program };
    let (control, asker) = (Some(folder.join(CONTROL)), i32::try_from(process::id()).ok());
    let asked = Asked { flows: builder.flows, control, temporary: true, asker, ..Asked::default() };
    Whole { job: Job::new(plan, &builder.options, 0, mode), asked }
}

/// Reads an answer of the control socket.
fn answer_of(line: &str) -> io::Result<Value> {
    if line.is_empty() {
        return Err(gone());
    }
    let answer: Value = serde_json::from_str(line)?;
    match answer["error"].as_str() {
        Some(error) => Err(invalid(error)),
        None => Ok(answer),
    }
}

fn unknown(queue: &str, queues: &[String]) -> io::Error {
    let near = nearest(queue, queues.iter().map(String::as_str));
    let near = near.map(|name| format!("; did you mean \"{name}\"?")).unwrap_or_default();
    invalid(format!("{queue}: expected one of {}{near}", queues.join(", ")))
}

fn invalid(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what.into())
}

fn gone() -> io::Error {
    io::Error::other("the link has ended")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(change: &Change) -> Result<String, String> {
        let request = change.request(&["link".to_owned(), "link.reverse".to_owned()]);
        request.map(|one| format!("{one:?}")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_change_is_read_before_it_is_sent() {
        let nothing = "rate: None, delay_ns: None, qdisc: None";
        for (change, link, said) in [
            (Change::rate("1.5mbit"), 0, nothing.replace("rate: None", "rate: Some(1500000)")),
            (Change::delay("20ms").of("link"), 0, nothing.replace("delay_ns: None", "delay_ns: Some(20000000)")),
            (Change::qdisc("pie").of("link.reverse"), 1, nothing.replace("qdisc: None", "qdisc: Some(\"pie\")")),
        ] {
            assert_eq!(asked(&change), Ok(format!("Set {{ link: {link}, {said} }}")));
        }
        for (change, said) in [
            (Change::rate("0bit"), "rate = 0bit: expected a positive rate such as 10mbit"),
            (Change::delay("20"), "delay = 20: expected a time such as 20ms"),
            (Change::rate("1mbit").of("lnk"), "lnk: expected one of link, link.reverse; did you mean \"link\"?"),
        ] {
            assert_eq!(asked(&change), Err(said.to_owned()));
        }
    }

    #[test]
    fn an_answer_is_a_value_or_an_error() {
        assert_eq!(answer_of("{\"ok\":true}\n").expect("a value"), serde_json::json!({ "ok": true }));
        assert_eq!(answer_of("{\"error\":\"no\"}\n").expect_err("an error").to_string(), "no");
        assert_eq!(answer_of("").expect_err("no answer").to_string(), "the link has ended");
    }

    #[test]
    fn the_job_is_one_that_the_program_reads() {
        let builder = Builder::new("10mbit", "50ms", "fq_codel").flows(true);
        let plan = builder.plan().expect("a sound plan");
        let text = serde_json::to_string(&whole(&plan, &builder, Path::new("/run"))).expect("JSON");
        let job: Job = serde_json::from_str(&text).expect("a job");
        assert_eq!(job.scenario().expect("a scenario").link_name(1), "link.reverse");
        let asked: Asked = serde_json::from_str(&text).expect("the rest");
        assert_eq!((asked.control, asked.flows), (Some("/run/control".into()), true));
    }
}
