"""A link that is up between two hosts, for programs of the user's: `sojourn shell`, and a fixture for tests."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal

from sojourn import _core
from sojourn.api import load
from sojourn.errors import Refusal, nearest_of
from sojourn.kernel.guest import End
from sojourn.line import FASTEST_BPS, LONGEST_S, rate_of, seconds_of
from sojourn.live.run import ENDED, JOB, Engine, answer_of, find_program, refusal

CONTROL = "control"
"""The control socket, in the link's folder."""
LONGEST = 65536
"""Bytes of an answer that are read at once."""
LEAST_S = 0.001
"""The shortest time in seconds that a program's end is waited for."""
UP_S = 10.0
"""Seconds after which a link that is not up has failed."""
GONE = "the link has ended"
Host = Literal["client", "server"]
Stream = int | IO[Any] | None
Word = str | os.PathLike[str]
Socket = socket.socket


def plan_of(rate: str, rtt: str, qdisc: str = "fq_codel", up: str | None = None) -> _core.Plan:
    """Returns the plan of a plain link: one hop with a rate, a base RTT and a discipline, in both directions. `up` is
    the rate from the client to the server, if it differs.
    """
    one = {"rate": rate, "qdisc": qdisc}
    hop = {"name": "link", "down": one, "up": {**one, "rate": up or rate}}
    flow = {"kind": "pings", "name": "pings", "rtt": rtt}
    return load({"title": f"{rate}, {rtt}, {qdisc}", "duration": "1s", "hop": [hop], "flow": [flow]})


class Program:
    """A program that runs on a host of a link. Raises Refusal if it cannot be started."""

    def __init__(self, connection: Socket, argv: list[str]) -> None:
        self.argv = argv
        self._connection = connection
        self.returncode: int | None = None
        """The exit code; negative: the signal that ended it. None until `poll` or `wait` has noticed its end."""
        self.is_lost = False
        """Whether the link ended before it, which killed it."""
        with _kept(connection):
            _read_line(connection)

    def wait(self, timeout_s: float | None = None) -> int:
        """Waits for its end, and returns its exit code. The end of the link kills it. Raises subprocess.TimeoutExpired
        if it runs longer.
        """
        if self.returncode is None:
            # A timeout of zero would mean a socket that does not block.
            self._connection.settimeout(None if timeout_s is None else max(timeout_s, LEAST_S))
            try:
                answer = _read_line(self._connection)
            except TimeoutError:
                raise subprocess.TimeoutExpired(self.argv, timeout_s or 0.0) from None
            except Refusal:
                self.is_lost = True
                answer = {"exit": None, "signal": signal.SIGKILL}
            self._connection.close()
            self.returncode = answer["exit"] if answer["exit"] is not None else -answer["signal"]
        return self.returncode

    def poll(self) -> int | None:
        """Returns its exit code if it has ended, and None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def kill(self) -> None:
        """Kills it, if it still runs. As with subprocess, `wait` then tells when it has ended."""
        if self.returncode is None:
            with suppress(OSError):
                self._connection.shutdown(socket.SHUT_WR)


class Link:
    """A link that is up: a context manager. All that runs behind it ends with it. With the engine `tc` its queues are
    those of this host's kernel.

    Raises Refusal if this host cannot do it.
    """

    def __init__(self, plan: _core.Plan, *, index: int = 0, flows: bool = False, engine: Engine = "ours") -> None:
        if (reason := refusal(plan, index, engine)) is not None:
            raise Refusal(reason)
        self.names = [hop["name"] for hop in plan.describe(index)["hops"]]
        """The names of the queues, in the order of the links."""
        self._programs: list[Program] = []
        self.truth: dict[str, Any] = {}
        """How well the link kept its times, known when it has ended."""
        self.state: dict[str, Any] = {}
        """The counters of the link at its end."""
        self.error = ""
        """Why the link has ended by itself, if that is known."""
        self._temporary = tempfile.TemporaryDirectory(prefix="sojourn-link-")
        self.folder = Path(self._temporary.name)
        control = str(self.folder / CONTROL)
        job = json.loads(plan.kernel_job(index, sink="program"))
        job |= {"control": control, "flows": flows, "engine": engine, "temporary": True, "asker": os.getpid()}
        (self.folder / JOB).write_text(json.dumps(job))
        self._begin = time.monotonic()
        self._process = subprocess.Popen(
            [str(find_program()), str(self.folder)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        try:
            self._await(control)
            hosts = self._ask({"do": "hosts"})
            self.client, self.server = str(hosts["client"]["address"]), str(hosts["server"]["address"])
            """The addresses of the hosts. The client is right of the path, where packets of the downlink arrive."""
            self.client_ipv6: str | None = hosts["client"]["ipv6"]
            self.server_ipv6: str | None = hosts["server"]["ipv6"]
            """Their IPv6 addresses. None: this machine's kernel has no IPv6."""
        except BaseException:
            self._process.kill()
            self._process.wait()
            self._temporary.cleanup()
            raise

    @property
    def addresses(self) -> dict[str, str]:
        """The addresses of the hosts, by the names that commands use."""
        ipv6 = {"client_ipv6": self.client_ipv6, "server_ipv6": self.server_ipv6}
        known = {name: address for name, address in ipv6.items() if address is not None}
        return {"client": self.client, "server": self.server} | known

    def _await(self, control: str) -> None:
        while not Path(control).exists():
            if self._process.poll() is not None or time.monotonic() - self._begin > UP_S:
                self._answer()
                raise Refusal(f"the link was not up within {UP_S:g} s")
            time.sleep(0.002)

    def _answer(self) -> dict[str, Any]:
        self._process.kill()
        code = self._process.wait()
        return answer_of(self.folder, End(code, "", "", time.monotonic() - self._begin))

    def __enter__(self) -> Link:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the link and all that runs behind it."""
        for program in self._programs:
            program.kill()
        if self._process.poll() is None:
            with suppress(OSError, Refusal):
                self._ask({"do": "stop"})
            try:
                self._process.wait(UP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for program in self._programs:
            with suppress(Refusal):
                program.wait()
        if (self.folder / ENDED).exists():
            answer = json.loads((self.folder / ENDED).read_text(encoding="utf-8"))
            self.truth, self.state = answer.get("truth", {}), answer.get("state", {})
            self.error = answer.get("error", "")
        self._temporary.cleanup()

    def popen(
        self,
        argv: Sequence[Word],
        *,
        at: Host = "client",
        stdin: Stream = None,
        stdout: Stream = None,
        stderr: Stream = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> Program:
        """Starts a program on a host. Each stream is a file, a descriptor or subprocess.DEVNULL; None is that of this
        process. There are no pipes: `run` collects the output. The environment has the hosts' addresses as
        SOJOURN_SERVER and SOJOURN_CLIENT, and in `argv` they replace `{server}` and `{client}`; those of IPv6 are
        SOJOURN_SERVER_IPV6, `{server_ipv6}` and so on. Raises Refusal for an argument that is not sound, and if the
        program cannot be started.
        """
        words = [_with_addresses(word, self.addresses) for word in _words(argv)]
        variables = os.environ if env is None else env
        request = {
            "do": "run",
            "at": at,
            "argv": words,
            "env": {name: _text(f"env[{name!r}]", value, "a text in UTF-8") for name, value in variables.items()},
            "cwd": _folder(cwd),
        }
        with Path(os.devnull).open("r+b") as nothing:
            streams = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
            given = [
                _descriptor(name, stream, usual, nothing.fileno())
                for usual, (name, stream) in enumerate(streams.items())
            ]
            program = Program(self._send(request, given), words)
        self._programs.append(program)
        return program

    def run(
        self,
        argv: Sequence[Word],
        *,
        at: Host = "client",
        timeout_s: float | None = None,
        check: bool = False,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program on a host to its end, and returns its output as text. Bytes that are not UTF-8 become U+FFFD.
        The arguments are those of `popen`.
        """
        with _text_file() as out, _text_file() as err:
            with Path(os.devnull).open("rb") as nothing:
                program = self.popen(argv, at=at, stdin=nothing, stdout=out, stderr=err, env=env, cwd=cwd)
            try:
                code = program.wait(timeout_s)
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait()
                raise
            out.seek(0)
            err.seek(0)
            done = subprocess.CompletedProcess(program.argv, code, out.read(), err.read())
        if check:
            done.check_returncode()
        return done

    def connect(self, port: int) -> Socket:
        """Connects this process, on the client, to a port of the server. Raises OSError as any connection does."""
        with _kept(self.socket("client")) as connection:
            connection.connect((self.server, port))
        return connection

    def listen(self, at: Host = "server", port: int = 0) -> Socket:
        """Listens in this process on a port of a host; 0 is any free one. Without root, none below 1024 is allowed."""
        with _kept(self.socket(at)) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self.client if at == "client" else self.server, port))
            listener.listen()
        return listener

    def socket(self, at: Host = "client", protocol: Literal["tcp", "udp"] = "tcp") -> Socket:
        """Makes an IPv4 socket on a host, neither bound nor connected. For its whole life it is one of this host,
        whatever this process does with it.
        """
        with self._send({"do": "socket", "at": at, "protocol": protocol}, []) as connection:
            line, descriptors, _, _ = socket.recv_fds(connection, LONGEST, 1)
        _answer_of(line)
        os.set_inheritable(descriptors[0], False)
        return socket.socket(fileno=descriptors[0])

    def set(
        self, queue: str | None = None, *, rate: str | None = None, delay: str | None = None, qdisc: str | None = None
    ) -> None:
        """Changes a queue's link while it is up: its rate, its delay, its discipline or parameters of this. `queue` is
        a name such as `link` or `link.reverse`; None is the first one.

        `delay` is the propagation delay of this queue's link, and is added to the rest of the RTT: a link of
        `plan_of(rate, "50ms")` has the delay 0 and the RTT 50 ms, and `set(delay="25ms")` makes the RTT 75 ms.

        Raises Refusal for a value that is not sound.
        """
        name = self.names[0] if queue is None else _text("queue", queue, f"one of {', '.join(self.names)}")
        if name not in self.names:
            raise Refusal(f"{name}: expected one of {', '.join(self.names)}{nearest_of(name, self.names)}")
        request: dict[str, Any] = {"do": "set", "link": self.names.index(name)}
        if rate is not None:
            expected = "a rate such as 10mbit, above zero, at most 10tbit"
            request["rate"] = rate_of(_text("rate", rate, expected))
            if not 0 < (request["rate"] or 0) <= FASTEST_BPS:
                raise Refusal(f"rate = {rate}: expected {expected}; 1bit is as good as an outage")
        if delay is not None:
            expected = "a time such as 20ms, at most 24h"
            seconds = seconds_of(_text("delay", delay, expected))
            if seconds is None or seconds > LONGEST_S:
                raise Refusal(f"delay = {delay}: expected {expected}")
            request["delay_ns"] = round(seconds * 1e9)
        if qdisc is not None:
            request["qdisc"] = _text("qdisc", qdisc, "a text such as fq_codel limit 100")
        self._ask(request)

    def stats(self) -> dict[str, Any]:
        """Returns the state of the links: rate, queue and counters, by link and by flow, and the sojourns since the
        last call in microseconds.
        """
        return self._ask({"do": "stats"})

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        with self._send(request, []) as connection:
            return _read_line(connection)

    def _send(self, request: Mapping[str, Any], streams: Sequence[int]) -> Socket:
        with _kept(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as connection:
            try:
                connection.connect(str(self.folder / CONTROL))
                line = (json.dumps(request) + "\n").encode()
                sent = socket.send_fds(connection, [line], list(streams)) if streams else 0
                if sent < len(line):
                    connection.sendall(line[sent:])
            except (FileNotFoundError, ConnectionError):
                raise Refusal(GONE) from None
        return connection


def _text(what: str, value: object, expected: str) -> str:
    """Refuses a value that is no text, or one with bytes that are not UTF-8: the control socket takes no other."""
    if not isinstance(value, str) or value.encode(errors="ignore").decode() != value:
        raise Refusal(f"{what} = {value!r}: expected {expected}")
    return value


def _words(argv: Sequence[Word]) -> list[str]:
    """The words of a command, with paths as text."""
    if isinstance(argv, str | bytes | os.PathLike) or not argv:
        raise Refusal(f"argv = {argv!r}: expected a list of words, such as ['ls', '-l']")
    words = (os.fspath(word) if isinstance(word, os.PathLike) else word for word in argv)
    return [_text(f"argv[{number}]", word, "a text or a path, in UTF-8") for number, word in enumerate(words)]


def _folder(cwd: Word | None) -> str:
    """The absolute path of a program's folder; None is that of this process."""
    folder = Path.cwd() if cwd is None else Path(cwd).absolute()
    if not (folder.is_dir() and os.access(folder, os.X_OK)):
        raise Refusal(f"cwd = {cwd}: expected a folder that this user may enter")
    return _text("cwd", str(folder), "a folder with a name in UTF-8")


def _text_file() -> IO[str]:
    """A nameless file for a program's output."""
    return tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")


def _with_addresses(word: str, addresses: Mapping[str, str]) -> str:
    for name, address in addresses.items():
        word = word.replace(f"{{{name}}}", address)
    return word


def _descriptor(name: str, stream: Stream, usual: int, nothing: int) -> int:
    """The descriptor of a stream: `usual` for None, and `nothing` for subprocess.DEVNULL."""
    if stream == subprocess.DEVNULL:
        return nothing
    try:
        found = usual if stream is None else stream if isinstance(stream, int) else stream.fileno()
        os.fstat(found)
    except (OSError, ValueError, AttributeError):
        special = {subprocess.PIPE: "subprocess.PIPE", subprocess.STDOUT: "subprocess.STDOUT"}
        given = special.get(stream, stream) if isinstance(stream, int) else repr(stream)
        raise Refusal(
            f"{name} = {given}: expected an open file, a descriptor or subprocess.DEVNULL; `run` collects the output"
        ) from None
    return found


@contextmanager
def _kept(one: Socket) -> Iterator[Socket]:
    """Closes a socket if the block fails."""
    try:
        yield one
    except BaseException:
        one.close()
        raise


def _read_line(connection: Socket) -> dict[str, Any]:
    """Reads an answer, and nothing of the next one."""
    line = bytearray()
    # A link that is killed resets its connections.
    with suppress(ConnectionError):
        while not line.endswith(b"\n"):
            peeked = connection.recv(LONGEST, socket.MSG_PEEK)
            if not peeked:
                break
            line += connection.recv(peeked.find(b"\n") + 1 or len(peeked))
    return _answer_of(line)


def _answer_of(line: bytes | bytearray) -> dict[str, Any]:
    if not line:
        raise Refusal(GONE)
    found: dict[str, Any] | None = json.loads(line)
    if found and "error" in found:
        raise Refusal(found["error"])
    return found or {}
