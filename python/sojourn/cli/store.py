"""`sojourn store`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sojourn import screen
from sojourn.cli.base import cli, fail, format_option, open_store, rows_as_csv, store_option, warn
from sojourn.words import harmless

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BATCH = 1024
"""Rows that are printed at a time."""
MOST_SHOWN = 10_000
"""The most rows of a table."""
SUMMARY = """
SELECT file, world, count(DISTINCT point) AS points, count(*) AS runs, count(DISTINCT engine) AS engines,
       round(sum(duration_s)) AS simulated_s, any_value(title) AS title
FROM runs GROUP BY file, world ORDER BY file, world
"""


@cli.command(
    epilog="""\b
Examples:
  sojourn store
  sojourn store "SELECT qdisc['bottleneck'], avg(hops['bottleneck'].sojourn_ms.p95) FROM runs GROUP BY ALL"
  sojourn store "SELECT seed, unnest(flows, max_depth := 2) FROM runs WHERE file = 'static-1.5mbit'" -f csv
"""
)
@click.argument("sql", required=False)
@store_option
@click.option("--unsafe", is_flag=True, help="Allow SQL to write, and to read any file and the network.")
@format_option()
def store(sql: str | None, store: Path, unsafe: bool, form: str) -> None:
    """Summarise a store of runs, or query it in SQL.

    SQL is DuckDB's, over the table `runs`: one row a run, with its scenario (scenario['hop.bottleneck.rate']) and its
    measures as in the JSON of 'sojourn run'. docs/reference/store.md lists the columns. A query reads the store and
    no other file; with --unsafe SQL may do all that DuckDB can, so give it only SQL that you trust.
    """
    import duckdb

    if sql and Path(sql).is_dir():
        fail(f"{sql}: expected SQL, and this is a folder; a store is named with --store {sql}")
    opened = open_store(store, there=True)
    try:
        with opened.connect(unsafe=unsafe) as connection:
            if sql and not unsafe:
                _refuse_other_than_select(connection, sql)
            found = connection.execute(sql or SUMMARY)
            _show(found, [one[0] for one in found.description or ()], form)
    except duckdb.PermissionException as error:
        fail(f"{sql}: {_first_line(error)}: a query reads the store only; --unsafe lets SQL read and write any file")
    except duckdb.Error as error:
        fail(f"{sql or 'SQL'}: {error}")
    warn(opened.damaged)


def _refuse_other_than_select(connection: DuckDBPyConnection, sql: str) -> None:
    """Refuses SQL that could write to the store's files, which the connection may open."""
    kinds = [str(one.type.name) for one in connection.extract_statements(sql)]
    for kind in kinds:
        if kind != "SELECT":
            word = "PIVOT without IN" if kind == "MULTI" else kind
            fail(f"{sql}: {word}: expected SELECT: a query reads the store only; --unsafe allows every statement")


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def _show(found: DuckDBPyConnection, heads: list[str], form: str) -> None:
    """Prints the rows some at a time, so that a long answer needs little memory. A table has to know all its rows to
    lay them out, so it has the first MOST_SHOWN of them.
    """

    def batches() -> Iterator[list[tuple[object, ...]]]:
        while rows := found.fetchmany(BATCH):
            yield rows

    if form == "json":
        begin = '{\n  "rows": ['
        for rows in batches():
            for row in rows:
                text = json.dumps(dict(zip(heads, row, strict=True)), indent=2, default=str)
                click.echo(f"{begin}\n    {text.replace(chr(10), chr(10) + '    ')}", nl=False)
                begin = ","
        click.echo("\n  ]\n}" if begin == "," else f"{begin}]\n}}")
    elif form == "csv":
        click.echo(rows_as_csv(heads, []), nl=False)
        for rows in batches():
            click.echo(rows_as_csv(heads, _texts(rows), header=False), nl=False)
    else:
        rows = found.fetchmany(MOST_SHOWN + 1)
        screen.print_words("", heads, _texts(rows[:MOST_SHOWN]))
        if len(rows) > MOST_SHOWN:
            screen.say(f"the first {MOST_SHOWN} rows: -f csv and -f json print all")


def _texts(rows: Sequence[Sequence[object]]) -> list[list[str]]:
    return [["" if value is None else _text(value) for value in row] for row in rows]


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, dict | list) else str(value)
    return harmless(text)
