"""`sojourn store`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from sojourn import screen
from sojourn.cli.base import cli, fail, format_option, open_store, rows_as_csv, store_option, warn

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
@format_option()
def store(sql: str | None, store: Path, form: str) -> None:
    """Summarise a store of runs, or query it in SQL.

    SQL is DuckDB's, over the table `runs`: one row a run, with its scenario (scenario['hop.bottleneck.rate']) and its
    measures as in the JSON of 'sojourn run'. docs/reference/store.md lists the columns.
    """
    import duckdb

    if sql and Path(sql).is_dir():
        fail(f"{sql}: expected SQL, and this is a folder; a store is named with --store {sql}")
    opened = open_store(store, there=True)
    try:
        with opened.connect() as connection:
            found = connection.execute(sql or SUMMARY)
            heads = [one[0] for one in found.description or ()]
            rows = found.fetchall()
    except duckdb.Error as error:
        fail(f"{sql or 'SQL'}: {error}")
    warn(opened.damaged)
    texts = [["" if value is None else _text(value) for value in row] for row in rows]
    if form == "json":
        click.echo(json.dumps({"rows": [dict(zip(heads, row, strict=True)) for row in rows]}, indent=2, default=str))
    elif form == "csv":
        click.echo(rows_as_csv(heads, texts), nl=False)
    else:
        screen.print_words("", heads, texts)


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, dict | list) else str(value)
