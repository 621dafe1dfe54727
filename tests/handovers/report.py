"""The page of handovers: a section for each run of the command, and the sum of all in its head."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from evidence.page import HEAD, Section, origins, put, read_page, write_page
from evidence.provenance import code_of

SUBJECT = """# Handovers

`make handovers` writes this page; `python -m tests.handovers --seed N --runs 1` plays the handover of one seed again.
Each is on a master and three sites (one process and JVM each, behind proxies): queries over a stream that clients push
at two sites, a handover in the middle, and one fault in the middle of that. At the end, all results are compared with
DuckDB's over all rows. As many seeds in a row as there are pairs of a handover and a fault that can come together have
each pair once. No row may be late. No task, shared operator, slot or file of a query may be left. Without a fault a
handover has to take place; with one, it takes place or is rolled back, within four minutes."""
TABLE = """| seed | handover | fault | rows come | struck | it was | after | in all | result |
|---|---|---|---|---|---|---|---|---|"""
MOST_TOLD = 300


@dataclass(frozen=True, slots=True)
class Run:
    seed: int
    kind: str
    fault: str
    rows: str
    struck: bool
    """The fault took place; false: there is none, or the process did not come to its point."""
    step: str
    """The step in which the handover ended."""
    took_s: float
    """From the request to its end."""
    seconds: float
    """All of it, with the end of the queries."""
    wrong: Sequence[str]
    """The differences; none: all is as it has to be."""

    def line(self) -> str:
        result = " ".join("; ".join(self.wrong).replace("|", "/").split())[:MOST_TOLD] or "equal"
        told = (
            self.seed,
            self.kind,
            self.fault,
            self.rows,
            "yes" if self.struck else "no",
            self.step.replace("_", " "),
        )
        return f"| {' | '.join(map(str, told))} | {self.took_s:.0f} s | {self.seconds:.0f} s | {result} |"


def summary(runs: Sequence[Run]) -> str:
    """The numbers of runs, of faults, of ends and of differences, in one line."""
    ends = Counter(run.step.replace("_", " ") for run in runs)
    told = ", ".join(f"{count} {step}" for step, count in ends.most_common())
    wrong = sum(bool(run.wrong) for run in runs)
    return f"{len(runs)} handovers ({told}), {sum(run.struck for run in runs)} faults: {wrong} with a difference"


def run_section(began: datetime, code: str, facts: str, runs: Sequence[Run], seconds: float) -> Section:
    """The section of one run of the command."""
    parts = [
        f"## Seeds from {runs[0].seed}, {began:%Y-%m-%d %H:%M} UTC",
        f"{facts}\n- {seconds / 60:.1f} minutes, {summary(runs)}",
        "\n".join([TABLE, *(run.line() for run in runs)]),
    ]
    told = [asdict(run) | {"wrong": [text.replace("-->", "->") for text in run.wrong]} for run in runs]
    name = f"run-{began:%Y%m%d-%H%M%S}-{runs[0].seed}"
    return Section(name, code, "\n\n".join(parts), {"seconds": round(seconds, 1), "runs": told})


def record(page: Path, section: Section) -> None:
    """Put a run of the command on the page, in the place of its earlier section, and the sum of all into the head.

    Raises evidence.page.PageError when the page was edited.
    """
    sections = put([one for one in read_page(page) if one.name != HEAD], section)
    runs = [_run(told) for one in sections for told in one.data["runs"]]
    minutes = sum(one.data["seconds"] for one in sections) / 60
    parts = [SUBJECT, f"**{minutes:.0f} minutes: {summary(runs)}.**", origins(sections), _by_kind(runs)]
    write_page(page, put(sections, Section(HEAD, str(code_of()), "\n\n".join(parts))))


def _run(told: Mapping[str, Any]) -> Run:
    return Run(**{**told, "wrong": tuple(told["wrong"])})


def _by_kind(runs: Sequence[Run]) -> str:
    """The number of handovers of each kind, and what became of them."""
    lines = []
    for kind in sorted({run.kind for run in runs}):
        of = [run for run in runs if run.kind == kind]
        moved, wrong = sum(run.step == "moved" for run in of), sum(bool(run.wrong) for run in of)
        lines.append(
            f"| {kind} | {len(of)} | {sum(run.struck for run in of)} | {moved} | {len(of) - moved} | {wrong} |"
        )
    return "\n".join(
        ["| handover | runs | faults | took place | did not | differences |", "|---|---|---|---|---|---|", *lines]
    )
