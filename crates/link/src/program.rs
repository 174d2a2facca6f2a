//! A program on a host, with the interface of [`std::process`].

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, PipeReader, PipeWriter, Read as _, Seek as _};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use sojourn_live::control::{self, Request};

use crate::{Host, Link, answer_of, gone, invalid};

/// The shortest time for which a socket waits.
const MOMENT: Duration = Duration::from_millis(1);

/// A standard stream of a program.
#[derive(Debug)]
pub enum Stdio {
    /// That of the test.
    Inherit,
    /// Nothing.
    Null,
    /// A pipe to the test.
    Piped,
    /// A file, a pipe or a socket.
    Descriptor(OwnedFd),
}

impl<T: Into<OwnedFd>> From<T> for Stdio {
    fn from(one: T) -> Stdio {
        Stdio::Descriptor(one.into())
    }
}

impl Stdio {
    /// Returns the program's end of a stream: a copy of the test's own one, or that of a new pipe.
    fn end(&self, own: BorrowedFd<'_>, pipe: impl FnOnce() -> io::Result<OwnedFd>) -> io::Result<OwnedFd> {
        match self {
            Stdio::Inherit => own.try_clone_to_owned(),
            Stdio::Null => Ok(File::options().read(true).write(true).open("/dev/null")?.into()),
            Stdio::Piped => pipe(),
            Stdio::Descriptor(one) => one.try_clone(),
        }
    }
}

/// Makes a pipe that the program reads.
fn pipe_to(kept: &mut Option<PipeWriter>) -> io::Result<OwnedFd> {
    let (reader, writer) = io::pipe()?;
    *kept = Some(writer);
    Ok(reader.into())
}

/// Makes a pipe that the program writes.
fn pipe_from(kept: &mut Option<PipeReader>) -> io::Result<OwnedFd> {
    let (reader, writer) = io::pipe()?;
    *kept = Some(reader);
    Ok(writer.into())
}

/// Prepares a program, as [`std::process::Command`] does. Its environment is that of the test, and always has the hosts'
/// addresses as `SOJOURN_SERVER` and `SOJOURN_CLIENT`, and with `_IPV6` those of IPv6.
#[derive(Debug)]
pub struct Command<'link> {
    link: &'link Link,
    at: Host,
    argv: Vec<OsString>,
    env: BTreeMap<OsString, OsString>,
    folder: Option<PathBuf>,
    streams: [Option<Stdio>; 3],
    limit: Option<Duration>,
}

impl<'link> Command<'link> {
    pub(crate) fn new(link: &'link Link, at: Host, program: &OsStr) -> Command<'link> {
        let (env, streams) = (env::vars_os().collect(), [None, None, None]);
        Command { link, at, argv: vec![program.to_owned()], env, folder: None, streams, limit: None }
    }

    /// Adds an argument.
    pub fn arg(&mut self, word: impl AsRef<OsStr>) -> &mut Self {
        self.argv.push(word.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args(&mut self, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Self {
        self.argv.extend(words.into_iter().map(|word| word.as_ref().to_owned()));
        self
    }

    /// Sets a variable of the environment.
    pub fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.env.insert(name.as_ref().to_owned(), value.as_ref().to_owned());
        self
    }

    /// Removes a variable of the environment.
    pub fn env_remove(&mut self, name: impl AsRef<OsStr>) -> &mut Self {
        self.env.remove(name.as_ref());
        self
    }

    /// Removes all variables so far.
    pub fn env_clear(&mut self) -> &mut Self {
        self.env.clear();
        self
    }

    /// Sets its folder; without it, that of the test.
    pub fn current_dir(&mut self, folder: impl AsRef<Path>) -> &mut Self {
        self.folder = Some(folder.as_ref().to_owned());
        self
    }

    /// Sets what it reads; without it, the test's standard input, and nothing for [`Command::output`].
    pub fn stdin(&mut self, stream: impl Into<Stdio>) -> &mut Self {
        self.streams[0] = Some(stream.into());
        self
    }

    /// Sets its standard output; without it, that of the test.
    pub fn stdout(&mut self, stream: impl Into<Stdio>) -> &mut Self {
        self.streams[1] = Some(stream.into());
        self
    }

    /// Sets its standard error; without it, that of the test.
    pub fn stderr(&mut self, stream: impl Into<Stdio>) -> &mut Self {
        self.streams[2] = Some(stream.into());
        self
    }

    /// Kills it after this time, if something waits for it then, with an error of the kind `TimedOut`.
    pub fn timeout(&mut self, limit: Duration) -> &mut Self {
        self.limit = Some(limit);
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn spawn(&mut self) -> io::Result<Child> {
        let (mut stdin, mut stdout, mut stderr) = (None, None, None);
        let stream = |number: usize| self.streams[number].as_ref().unwrap_or(&Stdio::Inherit);
        let ends = [
            stream(0).end(io::stdin().as_fd(), || pipe_to(&mut stdin))?,
            stream(1).end(io::stdout().as_fd(), || pipe_from(&mut stdout))?,
            stream(2).end(io::stderr().as_fd(), || pipe_from(&mut stderr))?,
        ];
        let connection = self.link.dial()?;
        control::send(&connection, &self.request()?, &ends.each_ref().map(OwnedFd::as_fd))?;
        drop(ends);
        let deadline = self.limit.map(|limit| Instant::now() + limit);
        let mut child = Child { connection: BufReader::new(connection), stdin, stdout, stderr, deadline, status: None };
        answer_of(&child.line()?)?;
        Ok(child)
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// It cannot be started, or does not end in time.
    pub fn status(&mut self) -> io::Result<ExitStatus> {
        self.spawn()?.wait()
    }

    /// Runs it to its end, and returns its output. It reads nothing unless [`Command::stdin`] says so.
    ///
    /// # Errors
    /// It cannot be started, or does not end in time.
    pub fn output(&mut self) -> io::Result<Output> {
        let mut files = [memory()?, memory()?];
        self.streams[0].get_or_insert(Stdio::Null);
        for (stream, file) in self.streams[1..].iter_mut().zip(&files) {
            *stream = Some(file.try_clone()?.into());
        }
        let status = self.status()?;
        let [stdout, stderr] = files.each_mut().map(|file| {
            let mut bytes = Vec::new();
            file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map(|_| bytes)
        });
        Ok(Output { status, stdout: stdout?, stderr: stderr? })
    }

    fn request(&self) -> io::Result<Request> {
        let env = self.env.iter().map(|(name, value)| Ok((text(name)?, text(value)?)));
        let mut folder = env::current_dir()?;
        folder.extend(&self.folder);
        Ok(Request::Run {
            at: self.at.name().to_owned(),
            argv: self.argv.iter().map(|word| text(word)).collect::<io::Result<_>>()?,
            env: env.collect::<io::Result<_>>()?,
            cwd: text(folder.as_os_str())?,
        })
    }
}

/// A file without a name.
fn memory() -> io::Result<File> {
    Ok(memfd_create("output", MemfdFlags::CLOEXEC)?.into())
}

fn text(word: &OsStr) -> io::Result<String> {
    word.to_str().map(str::to_owned).ok_or_else(|| invalid(format!("{}: expected UTF-8", word.display())))
}

/// A program that runs on a host. It is killed when this is dropped.
#[must_use = "the program is killed when this is dropped"]
#[derive(Debug)]
pub struct Child {
    connection: BufReader<UnixStream>,
    /// Its standard input, if piped.
    pub stdin: Option<PipeWriter>,
    /// Its standard output, if piped.
    pub stdout: Option<PipeReader>,
    /// Its standard error, if piped.
    pub stderr: Option<PipeReader>,
    deadline: Option<Instant>,
    status: Option<ExitStatus>,
}

impl Child {
    /// Waits for its end. A piped standard input is closed before.
    ///
    /// # Errors
    /// It does not end in time, or the link has ended.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        match self.wait_until(self.deadline)? {
            Some(status) => Ok(status),
            None => {
                self.kill()?;
                Err(io::Error::new(io::ErrorKind::TimedOut, "the program did not end in time and was killed"))
            }
        }
    }

    /// Returns how it has ended; `None` while it runs.
    ///
    /// # Errors
    /// The link has ended.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.wait_until(Some(Instant::now()))
    }

    /// Kills it, if it still runs.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn kill(&mut self) -> io::Result<()> {
        // The other side kills the program at the end of the connection, and then answers how it has ended.
        match self.connection.get_ref().shutdown(Shutdown::Write) {
            Err(error) if error.kind() != io::ErrorKind::NotConnected => Err(error),
            _ => Ok(()),
        }
    }

    fn wait_until(&mut self, deadline: Option<Instant>) -> io::Result<Option<ExitStatus>> {
        if self.status.is_some() {
            return Ok(self.status);
        }
        let limit = deadline.map(|at| at.saturating_duration_since(Instant::now()).max(MOMENT));
        self.connection.get_ref().set_read_timeout(limit)?;
        let answer = match self.line() {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Ok(None);
            }
            line => answer_of(&line?)?,
        };
        let number = |key: &str| answer[key].as_i64().map(|number| number as i32);
        // As wait(2) tells it.
        let raw = number("exit").map(|code| code << 8).or_else(|| number("signal")).ok_or_else(gone)?;
        self.status = Some(ExitStatus::from_raw(raw));
        Ok(self.status)
    }

    /// Reads an answer, which is written at once.
    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.connection.read_line(&mut line)?;
        Ok(line)
    }
}
