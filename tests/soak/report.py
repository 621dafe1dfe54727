"""The page of soak runs: a section for each run, and the sum of all runs in its head."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from evidence.page import HEAD, Section, origins, put, read_page, write_page
from evidence.provenance import code_of

SUBJECT = """# Soak

`make soak MINUTES=60 SEED=1` writes this page; with `APPEND=--append` it adds a run to those that are here. A run
plays rounds on a master and three sites (one process and JVM each, behind proxies). By its seed a round draws queries
over streams of three kinds (replayed files, generators, pushed rows whose producers fall silent, wake and restart),
how they share, who comes late, is paused or cancelled, which write into a Parquet sink, batch queries over tables,
and faults: SIGKILL or SIGSTOP of the master or an agent, a link that loses packets or refuses connections. At its end
every result and sink is compared with DuckDB's over all input; of a query that was cancelled, no row may be there
that DuckDB does not have. No task, shared operator or slot may be left. A round in which nothing moves for four
minutes after its last fault, or that has not ended a quarter of an hour after it, counts as a difference. \
`python -m tests.soak --seed N --rounds 1` draws the same round again;
when its faults strike depends on the machine."""
TABLE = "| seed | workload | faults | seconds | rows | result |\n|---|---|---|---|---|---|"
MOST_TOLD = 300


@dataclass(frozen=True, slots=True)
class Round:
    seed: int
    coverage: Mapping[str, int]
    """The number of times that the workload had each feature."""
    faults: tuple[str, ...]
    seconds: float
    rows: int
    difference: str
    """Empty when all results equal the oracle's and nothing was left over."""

    def line(self) -> str:
        words = ", ".join(f"{word} {count}" if count > 1 else word for word, count in self.coverage.items() if count)
        result = " ".join(self.difference.replace("|", "/").split())[:MOST_TOLD] or "equal"
        faults = "; ".join(self.faults) or "none"
        return f"| {self.seed} | {words} | {faults} | {self.seconds:.0f} | {self.rows} | {result} |"


def summary(rounds: Sequence[Round]) -> str:
    """The numbers of rounds, rows, faults and differences, in one line."""
    kinds = Counter(fault.split()[0] for r in rounds for fault in r.faults)
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "none"
    different = sum(1 for r in rounds if r.difference)
    return (
        f"{len(rounds)} rounds, {sum(r.rows for r in rounds)} result rows, {sum(kinds.values())} faults ({told}): "
        f"{different} rounds with a difference"
    )


def run_section(began: datetime, code: str, facts: str, rounds: Sequence[Round], seconds: float) -> Section:
    """The section of one run of the command."""
    parts = [
        f"## Seeds from {rounds[0].seed}, {began:%Y-%m-%d %H:%M} UTC",
        f"{facts}\n- {seconds / 60:.1f} minutes, {summary(rounds)}",
        "\n".join([TABLE, *(r.line() for r in rounds)]),
    ]
    told = [asdict(r) | {"difference": r.difference.replace("-->", "->")} for r in rounds]
    name = f"run-{began:%Y%m%d-%H%M%S}-{rounds[0].seed}"
    return Section(name, code, "\n\n".join(parts), {"seconds": round(seconds, 1), "rounds": told})


def record(page: Path, run: Section) -> None:
    """Put a run in the place of its earlier section on the page, and the sum of all runs into the head.

    Raises evidence.page.PageError when the page was edited.
    """
    runs = put([section for section in read_page(page) if section.name != HEAD], run)
    parts = [SUBJECT, _sum(runs), origins(runs), _coverage(_rounds(runs))]
    write_page(page, put(runs, Section(HEAD, str(code_of()), "\n\n".join(parts))))


def _sum(runs: Sequence[Section]) -> str:
    minutes = sum(run.data["seconds"] for run in runs) / 60
    return f"**{minutes:.0f} minutes in {len(runs)} runs: {summary(_rounds(runs))}.**"


def _rounds(runs: Iterable[Section]) -> list[Round]:
    return [_round(told) for run in runs for told in run.data["rounds"]]


def _round(told: Mapping[str, Any]) -> Round:
    return Round(**{**told, "faults": tuple(told["faults"])})


def _coverage(rounds: Iterable[Round]) -> str:
    """The number of rounds in which each feature occurred, and the number of times in all."""
    rounds_with, times = Counter[str](), Counter[str]()
    for r in rounds:
        found = {word: count for word, count in r.coverage.items() if count}
        rounds_with.update(found.keys())
        times.update(found)
    lines = [f"| {word} | {count} | {times[word]} |" for word, count in sorted(rounds_with.items())]
    return "\n".join(["| covered | rounds | times |", "|---|---|---|", *lines])
