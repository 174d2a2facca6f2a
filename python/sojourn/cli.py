"""The command `sojourn`."""

import click


@click.group()
def main() -> None:
    """Compare queue disciplines on one link."""
