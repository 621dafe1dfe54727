"""Arguments, tables and the record of results, the same for all benchmarks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic

from benchmarks.criteria import CRITERIA
from benchmarks.pages import record_section
from evidence.criteria import Finding, findings_to, verdicts
from evidence.page import Section
from evidence.provenance import code_at_start, facts

PACKAGES = {"PySpark": "pyspark", "gRPC": "grpcio", "Arrow": "pyarrow"}
_STARTED_S = monotonic()


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser that knows `--record`."""
    code_at_start()
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", type=Path, metavar="FILE", help="replace this benchmark's section of FILE")
    return parser


def make_text_parser(description: str | None, *, scale: float, unit: str, example: str) -> argparse.ArgumentParser:
    """A parser for benchmarks that run texts over generated rows: it knows `--scale` and `--only`, too.

    Args:
        description: of the benchmark.
        scale: the default; whole where scales are.
        unit: what scale 1 is.
        example: two names of texts.
    """
    parser = make_parser(description)
    parser.add_argument("--scale", type=type(scale), default=scale, help=f"1: {unit}")
    parser.add_argument("--only", nargs="*", default=[], help=f"as in {example}; default: all")
    return parser


def say(text: str) -> None:
    """One line of progress, with the seconds since the start."""
    print(f"[{monotonic() - _STARTED_S:5.0f} s] {text}", file=sys.stderr, flush=True)


def publish(
    name: str,
    title: str,
    parts: Sequence[str],
    record: Path | None,
    findings: Mapping[str, float | Finding] | None = None,
) -> None:
    """Print a section, and with `record` put it in the place of the benchmark's last one.

    `findings` are the figures of the benchmark's criteria, by the part of their keys behind the dot.
    """
    found = {f"{name}.{key}": x if isinstance(x, Finding) else Finding(x) for key, x in (findings or {}).items()}
    judged = [criterion for criterion in CRITERIA if criterion.section == name]
    unknown = found.keys() - {criterion.key for criterion in judged}
    if unknown:
        raise ValueError(f"no criterion {min(unknown)}")
    command = " ".join(["python -m", f"benchmarks.{name}", *_arguments_without_record(sys.argv[1:])])
    code = code_at_start()
    text = [f"## {title}", facts(code, command, PACKAGES), *parts, *([verdicts(judged, found)] if judged else [])]
    section = Section(name, str(code), "\n\n".join(text), {"findings": findings_to(found)} if found else {})
    print(section.text)
    if record is not None:
        record_section(record, section)
        say(f"recorded in {record}")


def _arguments_without_record(arguments: Sequence[str]) -> list[str]:
    kept: list[str] = []
    skip = False
    for argument in arguments:
        if not skip and argument != "--record" and not argument.startswith("--record="):
            kept.append(argument)
        skip = argument == "--record"
    return kept


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


def ratio(mine: Sequence[float], base: Sequence[float]) -> float:
    """The median over rounds of the ratio within a round, whose two runs had the same conditions."""
    return median([own / other for own, other in zip(mine, base, strict=True)])


def spread(values: Sequence[float], form: str = "{:.1f}") -> str:
    """The median of several rounds, followed by the least and the most."""
    least, most = form.format(min(values)), form.format(max(values))
    middle = form.format(median(values))
    return middle if least == most else f"{middle} ({least} to {most})"


def median(values: Sequence[float]) -> float:
    """Raises ValueError when there are no values."""
    return quantile(values, 0.5)
