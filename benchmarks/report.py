"""Arguments, tables and the record of results, the same for all benchmarks."""

from __future__ import annotations

import argparse
import os
import platform
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from time import monotonic

_STARTED_S = monotonic()


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser that knows `--record`."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", type=Path, metavar="FILE", help="replace this benchmark's section of FILE")
    return parser


def say(text: str) -> None:
    """One line of progress, with the seconds since the start."""
    print(f"[{monotonic() - _STARTED_S:5.0f} s] {text}", file=sys.stderr, flush=True)


def publish(name: str, title: str, parts: Sequence[str], record: Path | None) -> None:
    """Print a section, and with `record` put it in the place of the benchmark's last one."""
    body = "\n\n".join([f"## {title}", facts(name), *parts])
    print(body)
    if record is not None:
        before = record.read_text() if record.exists() else ""
        record.write_text(replace_section(before, name, body))
        say(f"recorded in {record}")


def facts(name: str) -> str:
    """Date, machine and command of this run."""
    command = " ".join(["python -m", f"benchmarks.{name}", *_arguments_without_record(sys.argv[1:])])
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return "\n".join(
        [
            f"- Date: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            f"- Machine: {machine}, load average {os.getloadavg()[0]:.1f} at the end",
            f"- Versions: Python {platform.python_version()}, PySpark {version('pyspark')}, gRPC {version('grpcio')}, "
            f"Arrow {version('pyarrow')}",
            f"- Command: `{command}`",
        ]
    )


def _arguments_without_record(arguments: Sequence[str]) -> list[str]:
    kept: list[str] = []
    skip = False
    for argument in arguments:
        if not skip and argument != "--record" and not argument.startswith("--record="):
            kept.append(argument)
        skip = argument == "--record"
    return kept


def replace_section(text: str, name: str, body: str) -> str:
    """The text with this body between the benchmark's two markers, which are added at the end if they are not there."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    section = f"{begin}\n{body.strip()}\n{end}"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if pattern.search(text):
        return pattern.sub(lambda _: section, text, count=1)
    return "\n\n".join(part for part in (text.rstrip(), section) if part) + "\n"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first column is text, the others are figures."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def quantile(values: Sequence[float], fraction: float) -> float:
    """Linear between the nearest two values.

    Raises:
        ValueError: no values, or a fraction outside 0 to 1.
    """
    if not values or not 0 <= fraction <= 1:
        raise ValueError(f"no quantile {fraction} of {len(values)} values")
    ordered = sorted(values)
    place = fraction * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def median(values: Sequence[float]) -> float:
    """Raises ValueError when there are no values."""
    return quantile(values, 0.5)


def met(value: float, *, at_least: float | None = None, at_most: float | None = None) -> str:
    """Whether a figure is where it was wanted."""
    good = (at_least is None or value >= at_least) and (at_most is None or value <= at_most)
    return "yes" if good else "**no**"
