"""Prints the outcome of the demo."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from selat.cli.output import human
from selat.demo.outcome import Outcome
from selat.demo.progress import link_table


def print_outcome(console: Console, outcome: Outcome) -> None:
    """Print each query's result and whether it is right, and the traffic over the WAN."""
    console.print(_queries(outcome))
    console.print(link_table(outcome.links))
    for query in outcome.queries:
        if query.difference:
            console.print(f"{query.name} differs: {query.difference}")
    console.print(_wan(outcome))
    console.print(f"First result after {outcome.seconds_to_first_result:.1f} s, all of it {outcome.seconds:.1f} s.")


def _queries(outcome: Outcome) -> Table:
    table = Table("query")
    for name in ("rows", "seconds", "matches oracle"):
        table.add_column(name, justify="right")
    for query in outcome.queries:
        verdict = "yes" if query.matches_oracle else "NO"
        table.add_row(query.name, human.count(query.rows), f"{query.seconds:.1f}", verdict)
    return table


def _wan(outcome: Outcome) -> str:
    crossed, raw = human.size(outcome.wan_bytes), human.size(outcome.all_raw_bytes)
    if not outcome.wan_bytes:
        return f"Nothing crossed the WAN; all rows as zstd-compressed CSV would have been {raw}."
    ratio = outcome.all_raw_bytes / outcome.wan_bytes
    return f"{crossed} crossed the WAN. All rows to the hub as zstd-compressed CSV: {raw}, {ratio:.1f} times as much."
