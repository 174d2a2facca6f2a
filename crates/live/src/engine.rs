//! The loop in real time: frames from the cables into the path, and from the path to the cables when they are due.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec};
use serde_json::Value;
use sojourn_core::units::{Span, Time};
use sojourn_traffic::flows::clock;
use sojourn_traffic::{os, tc_stats};

use crate::cable::{Cable, Counts};
use crate::control::{Asked, ChangeOf, Question};
use crate::detour::{self, Counted};
use crate::network::{KernelQueue, Port};
use crate::path::{Given, Path};
use crate::truth::{self, Balance, Truth};

/// The shortest sleep: waking up more often would cost more than it gives.
const SHORTEST: Span = Span::from_micros(20);
/// The longest sleep. The ring of a cable must not fill meanwhile.
const LONGEST: Span = Span::from_millis(5);
/// With at least this much time between an arrival and its leaving, the loop does not wait for arrivals: the kernel
/// stamps them, and they are read in time.
const AHEAD: Span = Span::from_micros(200);
/// A timer wakes the program about this much later than it was set. So the sleep ends as much earlier, and the program
/// waits for the rest without sleeping.
const EARLY: Span = Span::from_micros(25);
/// A sleep that is shorter than this does not end earlier, so that the program sleeps most of the time.
const WORTH: Span = Span::from_micros(60);
/// Time between two hand-overs of the records to their writer.
const PERIOD: Span = Span::from_millis(500);

/// The rate in bit/s at which the kernel's queues are emptied at the end of a run. A ring holds 15 ms of full packets.
const FLUSHING: u64 = 2_000_000_000;
/// A queue counts as empty when nothing has come out of it for this long. One that is blocked is given up.
const FLUSHED: Span = Span::from_millis(20);
const FLUSH_LIMIT: Span = Span::from_secs(1);

/// The loop's parts.
pub struct Engine {
    /// The path.
    pub path: Path,
    /// The path's ports, in their order.
    pub ports: Vec<Port>,
    /// The kernel's queues, in the order of the links; none if the queues are ours.
    pub kernel_queues: Vec<KernelQueue>,
    /// The counters of the kernel's queues, at the end of the run.
    pub kernel: Vec<Value>,
    /// Time zero of the run, on the monotonic clock in nanoseconds.
    pub origin: u64,
    /// Take the records, the bytes of the capture, and those of the traces.
    pub writers: Vec<mpsc::Sender<Vec<u8>>>,
    /// The run's measures of its own truth.
    pub truth: Truth,
    /// Questions of the control socket.
    questions: mpsc::Receiver<Asked>,
    offset: i64,
    /// True if the last sleep ended before its time.
    is_early: bool,
}

/// Returns the time of a run that began at `origin` on the monotonic clock.
fn now(origin: u64) -> Time {
    Time(clock().saturating_sub(origin))
}

/// Returns the difference between the system's clock and the monotonic one, in nanoseconds.
pub fn offset() -> i64 {
    let now = rustix::time::clock_gettime(ClockId::Realtime);
    now.tv_sec * 1_000_000_000 + now.tv_nsec as i64 - clock() as i64
}

impl Engine {
    /// Joins the parts. The second value takes questions about the path.
    pub fn new(
        path: Path,
        (ports, kernel_queues): (Vec<Port>, Vec<KernelQueue>),
        origin: u64,
        writers: Vec<mpsc::Sender<Vec<u8>>>,
    ) -> (Engine, mpsc::Sender<Asked>) {
        let (to, questions) = mpsc::channel();
        (
            Engine {
                path,
                ports,
                kernel_queues,
                kernel: Vec::new(),
                origin,
                writers,
                truth: Truth::default(),
                questions,
                offset: offset(),
                is_early: false,
            },
            to,
        )
    }

    /// Plays until `end`, or until `stop` is set.
    ///
    /// # Errors
    /// The operating system refuses something, or a discipline refuses a change.
    pub fn play(&mut self, end: Time, stop: &AtomicBool) -> io::Result<()> {
        let (begin, cpu) = (clock(), cpu_time());
        let mut handed_over = Time::ZERO;
        loop {
            let now = self.now();
            if now >= end || stop.load(Ordering::Relaxed) {
                break;
            }
            // First the frames that were waiting for their time: the rest of the round takes time, too.
            self.path.release_due(now);
            self.send();
            self.receive();
            self.path.advance(now).map_err(io::Error::other)?;
            self.give()?;
            self.send();
            self.answer();
            if now.since(handed_over) > PERIOD {
                handed_over = now;
                self.watch_clock();
                if !self.kernel_queues.is_empty() {
                    self.find_empty()?;
                }
                self.hand_over();
            }
            let next = self.path.next_call(now).min(end);
            self.sleep(next)?;
            let gap = self.now().since(next.max(now));
            self.truth.longest_gap = self.truth.longest_gap.max(gap);
        }
        self.receive();
        self.path.advance(end.min(self.now())).map_err(io::Error::other)?;
        self.give()?;
        // A frame that is lost from now on is none of the run's.
        self.count_lost()?;
        self.truth.host[1] = truth::Host::read();
        let kernel = self.end_kernel_queues()?;
        self.path.finish(&kernel);
        for (link, (queue, (counted, _))) in self.kernel_queues.iter().zip(&kernel).enumerate() {
            let (inferred, strays) = self.path.inferred(link);
            self.truth.balances.push(Balance { link: queue.link.clone(), counted: counted.drops, inferred, strays });
        }
        self.hand_over();
        self.truth.counts = self.path.counts();
        self.truth.wall = Span(clock() - begin);
        self.truth.cpu = Span(cpu_time() - cpu);
        Ok(())
    }

    /// Adds up what the packet sockets have lost.
    fn count_lost(&mut self) -> io::Result<()> {
        let cables = self.ports.iter_mut().map(|port| &mut port.cable);
        for cable in cables.chain(self.kernel_queues.iter_mut().map(|queue| &mut queue.back)) {
            let Counts { dropped, cut, unsent } = cable.counts()?;
            for (sum, count) in self.truth.socket_drops.iter_mut().zip([dropped, cut, unsent]) {
                *sum += count;
            }
        }
        Ok(())
    }

    /// The time of the run.
    fn now(&self) -> Time {
        now(self.origin)
    }

    /// Passes the frames that have arrived to the path.
    fn receive(&mut self) {
        let (path, zero) = (&mut self.path, self.offset + self.origin as i64);
        let at = |stamp: u64| Time((stamp as i64 - zero).max(0) as u64);
        for (port, Port { cable, .. }) in self.ports.iter_mut().enumerate() {
            while cable.receive(|stamp, frame| path.arrive(at(stamp), port, frame)) {}
        }
        for (link, KernelQueue { back, .. }) in self.kernel_queues.iter_mut().enumerate() {
            while back.receive(|stamp, frame| path.comes_back(at(stamp), link, frame)) {}
        }
    }

    /// Gives the packets that have arrived at links of the kernel's to its queues.
    fn give(&mut self) -> io::Result<()> {
        for (link, KernelQueue { feed, .. }) in self.kernel_queues.iter_mut().enumerate() {
            while let Some(Given { number, due, priority, frame }) = self.path.next_given(link) {
                let at = now(self.origin);
                let is_taken = feed.give(frame, priority)?;
                self.path.given(link, number, at, is_taken);
                self.truth.late_arrivals.add(at.since(due));
            }
        }
        Ok(())
    }

    /// Tells the path which of the kernel's queues are empty: no later packet of its flow may show that the last one was
    /// dropped.
    fn find_empty(&mut self) -> io::Result<()> {
        let mut empty = Vec::new();
        for (link, KernelQueue { feed, .. }) in self.kernel_queues.iter().enumerate() {
            if feed.is_empty()? {
                empty.push((link, self.path.next_number(link)));
            }
        }
        // All that has left these queues is received before the path learns that nothing else will come.
        self.receive();
        let now = self.now();
        empty.into_iter().for_each(|(link, end)| self.path.was_empty(now, link, end));
        Ok(())
    }

    /// Reads the counters of the kernel's queues at the end of the run, and then empties the queues at once. Returns for
    /// each link the counters, and the numbers of the packets that come back after the end.
    fn end_kernel_queues(&mut self) -> io::Result<Vec<(Counted, Vec<u64>)>> {
        let mut ended = Vec::new();
        for KernelQueue { device, back, .. } in &mut self.kernel_queues {
            let asked = tc_stats::ask(|words| os::run("tc", words), &format!("dev {}", device.name))?;
            let root = tc_stats::discipline(&asked, &device.name).unwrap_or_default();
            let count = |key: &str| root[key].as_u64().unwrap_or(0);
            let counted = Counted { packets: count("packets"), qlen: count("qlen"), drops: count("drops") };
            self.kernel.push(root.get("child").cloned().unwrap_or_default());
            ended.push((counted, flush(&device.change(FLUSHING), back)?));
        }
        Ok(ended)
    }

    /// Answers what the control socket asks.
    fn answer(&mut self) {
        while let Ok((question, to)) = self.questions.try_recv() {
            let done = |()| Value::Null;
            let answer = match question {
                Question::Stats => Ok(self.path.state()),
                Question::Change(link, change) => match *change {
                    ChangeOf::Link(change) => self.path.change(link, &change).map(done),
                    ChangeOf::Qdisc(line) if !self.kernel_queues.is_empty() => {
                        Err(format!("qdisc = {line}: not while a link of --engine tc is up; expected rate or delay"))
                    }
                    ChangeOf::Qdisc(line) => self.path.change_qdisc(link, &line).map(done),
                },
            };
            // The one who asked may have gone.
            let _ = to.send(answer);
        }
    }

    /// Sends the frames that are due.
    fn send(&mut self) {
        while let Some(leaving) = self.path.next_leaving() {
            let Port { cable, header } = &mut self.ports[leaving.port];
            let frame = self.path.frame(&leaving);
            frame[..header.len()].copy_from_slice(header);
            cable.send(frame);
            self.path.release(&leaving);
            self.truth.lateness.add(now(self.origin).since(leaving.due));
        }
        self.ports.iter_mut().for_each(|port| port.cable.flush());
    }

    /// Sleeps until `next`, or until a frame arrives if this may be earlier than an event that depends on it. May return
    /// a little earlier.
    fn sleep(&mut self, next: Time) -> io::Result<()> {
        let now = self.now();
        let wait = next.since(now).min(LONGEST);
        if std::mem::take(&mut self.is_early) && wait <= EARLY {
            while self.now() < next {
                std::hint::spin_loop();
            }
            return Ok(());
        }
        if wait < SHORTEST || self.path.lookahead() >= AHEAD {
            self.is_early = wait >= WORTH;
            let rest = if self.is_early { wait - EARLY } else { wait.max(SHORTEST) };
            return sleep_until(self.origin + now.0 + rest.0);
        }
        let cables =
            self.ports.iter().map(|port| &port.cable).chain(self.kernel_queues.iter().map(|queue| &queue.back));
        let mut watched: Vec<PollFd<'_>> = cables.map(|cable| PollFd::new(cable, PollFlags::IN)).collect();
        let limit = Timespec { tv_sec: 0, tv_nsec: wait.0 as _ };
        match poll(&mut watched, Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Compares the system's clock, which stamps the frames, with the monotonic one.
    fn watch_clock(&mut self) {
        let found = offset();
        self.truth.clock_step = self.truth.clock_step.max(Span(found.abs_diff(self.offset)));
        self.offset = found;
    }

    fn hand_over(&mut self) {
        let both = [self.path.take_records(), self.path.take_capture()];
        for (writer, bytes) in self.writers.iter().zip(both.into_iter().chain(self.path.take_traces())) {
            // The writers end only after this.
            let _ = writer.send(bytes);
        }
    }
}

/// Empties the kernel's queue of a link with this change for `tc`. Returns the numbers of the packets that come back.
fn flush(change: &[String], back: &mut Cable) -> io::Result<Vec<u64>> {
    let mut late = Vec::new();
    thread::scope(|scope| {
        // The ring would fill while this thread waited for `tc`.
        let changed = scope.spawn(|| os::run("tc", change));
        let (begin, mut last) = (clock(), clock());
        while clock() - begin < FLUSH_LIMIT.0 && (!changed.is_finished() || clock() - last < FLUSHED.0) {
            let mut see = |_: u64, frame: &[u8]| late.extend(detour::number(frame));
            while back.receive(&mut see) {
                last = clock();
            }
            sleep_until(clock() + SHORTEST.0)?;
        }
        changed.join().map_err(|_| io::Error::other("a bug: a thread for tc has panicked"))?.map(drop)
    })?;
    Ok(late)
}

/// Sleeps until a time on the monotonic clock, in nanoseconds.
fn sleep_until(at: u64) -> io::Result<()> {
    let at = Timespec { tv_sec: (at / 1_000_000_000) as i64, tv_nsec: (at % 1_000_000_000) as _ };
    match clock_nanosleep_absolute(ClockId::Monotonic, &at) {
        Ok(()) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Processor time of this thread in nanoseconds.
fn cpu_time() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Asks for real-time scheduling of this thread, exact timers, and memory that is never paged out. Future memory is left
/// out: with a limit for users it could not be had. Returns whether real-time scheduling was granted; the rest is granted
/// to everyone, or does not matter.
#[expect(unsafe_code, reason = "scheduling policies have no safe wrapper")]
pub fn hurry() -> bool {
    let parameters = libc::sched_param { sched_priority: 10 };
    // SAFETY: the calls have no pointers but that to the parameters, which outlive them.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1usize);
        libc::mlockall(libc::MCL_CURRENT);
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) == 0
    }
}
