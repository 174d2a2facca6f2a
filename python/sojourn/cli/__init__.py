"""The command `sojourn`: one module for each verb, and the only place that turns errors into exit codes.

0: success. 1: a bug in sojourn. 2: a request that cannot be met; one line says what is wrong, where, and what was
expected. 130: interrupted.
"""

from __future__ import annotations

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
    _stop_as_by_ctrl_c()
    _hide_pandas()
    try:
        code = cli.main(standalone_mode=False)
    except (Refusal, _core.Error) as error:
        _say(str(error), BAD_INPUT)
    except (click.exceptions.Abort, KeyboardInterrupt):
        _say("interrupted", INTERRUPTED)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        sys.exit(BAD_INPUT)
    except click.UsageError as error:
        verb = error.ctx.command_path if error.ctx else "sojourn"
        _say(f"{error.format_message()} (see {verb} --help)", BAD_INPUT)
    except click.ClickException as error:
        _say(error.format_message(), BAD_INPUT)
    except ReaderLeftError:
        _leave(0)
    except MemoryError:
        _say("out of memory: expected fewer runs, rows or packets at a time, or more memory", BAD_INPUT)
    sys.exit(code if isinstance(code, int) else 0)


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
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)
