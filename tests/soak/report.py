"""What soak runs found: a page in Markdown of one or several segments, and the record that it is made from."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.report import replace_section

HEAD = "| seed | workload | faults | seconds | rows | result |\n|---|---|---|---|---|---|"
SECTION = "soak"
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Round:
    seed: int
    coverage: Mapping[str, int]
    """What the workload had, and how often."""
    faults: tuple[str, ...]
    seconds: float
    rows: int
    difference: str
    """Empty when all results equal the oracle's and nothing was left over."""

    def line(self) -> str:
        words = ", ".join(f"{word} {count}" if count > 1 else word for word, count in self.coverage.items() if count)
        result = " ".join(self.difference.replace("|", "/").split()) or "equal"
        return (
            f"| {self.seed} | {words} | {'; '.join(self.faults) or 'none'} | {self.seconds:.0f} | {self.rows} "
            f"| {result[:300]} |"
        )


@dataclass(frozen=True, slots=True)
class Segment:
    """One run of the command."""

    started: str
    """UTC."""
    seconds: float
    commit: str
    clean: bool
    """The tree was as committed when it began."""
    machine: str
    command: str
    rounds: tuple[Round, ...]

    def lines(self) -> list[str]:
        tree = "clean" if self.clean else "with changes that are not committed"
        return [
            f"- {self.started} UTC, {self.seconds / 60:.1f} minutes, commit {self.commit} ({tree}): `{self.command}`",
            f"  {self.machine}; {summary(self.rounds)}",
        ]


def commit() -> tuple[str, bool]:
    """The commit that runs, and whether the tree is as committed."""

    def git(*arguments: str) -> str:
        return subprocess.run(("git", *arguments), cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()

    return git("rev-parse", "--short=12", "HEAD") or "unknown", not git("status", "--porcelain")


def machine() -> str:
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def summary(rounds: Sequence[Round]) -> str:
    kinds = Counter(fault.split()[0] for r in rounds for fault in r.faults)
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "none"
    different = sum(1 for r in rounds if r.difference)
    return (
        f"{len(rounds)} rounds, {sum(r.rows for r in rounds)} result rows, {sum(kinds.values())} faults ({told}): "
        f"{different} rounds with a difference"
    )


def section(segments: Sequence[Segment]) -> str:
    """All segments: the sum of them, what they covered, and a line for each round."""
    rounds = [r for segment in segments for r in segment.rounds]
    minutes = sum(segment.seconds for segment in segments) / 60
    return "\n".join(
        [
            f"{minutes:.1f} minutes in {len(segments)} runs: {summary(rounds)}.",
            "",
            *(line for segment in segments for line in segment.lines()),
            "",
            *_coverage(rounds),
            "",
            HEAD,
            *(r.line() for r in rounds),
        ]
    )


def _coverage(rounds: Iterable[Round]) -> list[str]:
    """In how many rounds each word occurred, and how often in all."""
    rounds_with, times = Counter[str](), Counter[str]()
    for r in rounds:
        found = {word: count for word, count in r.coverage.items() if count}
        rounds_with.update(found.keys())
        times.update(found)
    lines = [f"| {word} | {count} | {times[word]} |" for word, count in sorted(rounds_with.items())]
    return ["| covered | rounds | times |", "|---|---|---|", *lines]


def read(record: Path) -> tuple[Segment, ...]:
    """Segments of earlier runs; none when there is no such file."""
    if not record.exists():
        return ()
    return tuple(
        Segment(**{**s, "rounds": tuple(Round(**{**r, "faults": tuple(r["faults"])}) for r in s["rounds"])})
        for s in json.loads(record.read_text())
    )


def write(page: Path, segments: Sequence[Segment]) -> None:
    """The record beside the page, and the page's section; what stands around it stays."""
    record_of(page).write_text(json.dumps([asdict(segment) for segment in segments], indent=1) + "\n")
    page.write_text(replace_section(page.read_text() if page.exists() else "", SECTION, section(segments)))


def record_of(page: Path) -> Path:
    return page.with_suffix(".json")
