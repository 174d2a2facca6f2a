"""The command `sojourn`: one module for each verb, and the only place that turns errors into exit codes.

0: success. 1: a bug in sojourn. 2: a request that cannot be met; one line says what is wrong, where, and what was
expected. 130: interrupted.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from contextlib import suppress
from importlib.abc import MetaPathFinder
from typing import NoReturn

import click

from sojourn import _core
from sojourn.cli.base import BAD_INPUT, INTERRUPTED, ReaderLeftError, cli
from sojourn.errors import Refusal
from sojourn.words import harmless


def main() -> None:
    """Runs the command; the only place that knows exit codes."""
    atexit.register(_end)  # the first that is registered is the last that is called
    _stop_as_by_ctrl_c()
    _hide_pandas()
    try:
        code = cli.main(standalone_mode=False)
    except (Refusal, _core.Error) as error:
        _say(str(error), BAD_INPUT)
    except (click.exceptions.Abort, KeyboardInterrupt):
        _say("interrupted", INTERRUPTED)
    except SystemExit as error:
        _leave(error.code if isinstance(error.code, int) else int(error.code is not None))
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        _leave(BAD_INPUT)
    except click.UsageError as error:
        verb = error.ctx.command_path if error.ctx else "sojourn"
        _say(f"{error.format_message()} (see {verb} --help)", BAD_INPUT)
    except click.ClickException as error:
        _say(error.format_message(), BAD_INPUT)
    except ReaderLeftError:
        _leave(0)
    except MemoryError:
        _say("out of memory: expected fewer runs, rows or packets at a time, or more memory", BAD_INPUT)
    _leave(code if isinstance(code, int) else 0)


_code: int | None = None
"""The exit code of this process, once it is known."""


def _end() -> None:
    """Ends the process when all that Python has to do at exit is done, without the destructors of libraries in C++.

    pyarrow's threads would otherwise run on while its pools are destroyed, and the process is then aborted after its
    output is complete, about once in a hundred times on a busy machine.
    """
    if _code is not None and "pyarrow" in sys.modules:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(_code)


class _WithoutPandas(MetaPathFinder):
    """An import finder that hides pandas."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        """Raises ModuleNotFoundError for pandas, and leaves other modules to the next finder."""
        if fullname == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name="pandas")


def _hide_pandas() -> None:
    """Makes `import pandas` fail. pyarrow imports pandas if it is installed, which takes longer than a short run.

    No verb needs pandas. Programs that use the Python API are not affected.
    """
    sys.meta_path.insert(0, _WithoutPandas())


def _stop_as_by_ctrl_c() -> None:
    """Treats `kill` and a closed terminal like Ctrl-C, so that finished runs remain readable; `nohup` still works."""

    def interrupt(*_signal: object) -> NoReturn:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, interrupt)


def _say(message: str, code: int) -> NoReturn:
    with suppress(OSError):
        click.echo(f"sojourn: {harmless(' '.join(message.split()))}", err=True)
    _leave(code)


def _leave(code: int) -> NoReturn:
    """Exits. Output that cannot be written any more must not make Python complain at exit."""
    global _code
    _code = code
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)
