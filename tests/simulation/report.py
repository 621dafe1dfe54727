"""The page of results: what was played, what was found, and how soon bugs of the past are found when they are back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from evidence.criteria import Criterion, Direction, Finding, verdicts
from evidence.page import HEAD, Section, origins, put, read_page, write_page
from tests.simulation.plan import Plan
from tests.simulation.schedule import Outcome

RUN, BUGS, TABLES = "run", "bugs", "tables"

EQUAL = Criterion(
    "tables.equal", "random queries over tables that equal DuckDB", Direction.AT_LEAST, 2000, source="SQL over tables"
)
PACE = Criterion("run.pace", "schedules a minute on 2 cores", Direction.AT_LEAST, 300, source="simulated clusters")

Row = tuple[str, ...]
"""Of the table of bugs; the last field is empty for one that was not found."""

_HEAD = """# Simulation

`make simulate MINUTES=5 SEED=1 RECORD=docs/results/simulation.md` writes the section of a run here, `python -m
tests.simulation --tables --schedules 400 --minutes 60 --record docs/results/simulation.md` that of queries over tables,
and `--bugs` in place of `--tables` that of bugs. [Testing](../testing.md#simulation) says what
is simulated."""


@dataclass(slots=True)
class Tally:
    """What some schedules had in common."""

    schedules: int = 0
    queries: int = 0
    lasted_s: float = 0.0
    """The machine's time."""
    virtual_s: float = 0.0
    faults: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    """A line each."""

    def add(self, outcome: Outcome) -> None:
        self.schedules += 1
        self.queries += len(outcome.plan.queries)
        self.virtual_s += outcome.virtual_s
        self.faults += outcome.faults
        self.kinds.update(_kind(fault) for fault in outcome.plan.faults)
        if outcome.failed is not None:
            told = (outcome.told.splitlines() or [""])[0]
            self.failed.append(f"seed {outcome.plan.seed}: {outcome.failed.value}: {told}")

    @property
    def per_minute(self) -> float:
        return self.schedules / self.lasted_s * 60 if self.lasted_s else 0.0

    def line(self) -> str:
        return (
            f"{self.schedules} schedules in {self.lasted_s / 60:.1f} minutes ({self.per_minute:.0f} a minute), "
            f"{self.virtual_s / 3600:.0f} hours of their own time, {self.faults} faults: {len(self.failed)} failed"
        )


def _kind(fault: object) -> str:
    name = type(fault).__name__
    return f"{name}, power" if getattr(fault, "power", False) else name


def run_section(code: str, facts: str, tally: Tally, first: int) -> Section:
    """Return the section of one run over the seeds from the first one on."""
    title = f"Seeds {first} to {first + tally.schedules - 1}"
    return _section(RUN, code, [title, facts], tally, verdicts([PACE], {PACE.key: Finding(tally.per_minute)}))


def tables_section(code: str, facts: str, tally: Tally, first: int) -> Section:
    """Return the section of one run of random queries over tables."""
    title = f"{tally.queries} random queries over tables, seeds {first} to {first + tally.schedules - 1}"
    note = "some schedules failed" if tally.failed else ""
    return _section(TABLES, code, [title, facts], tally, verdicts([EQUAL], {EQUAL.key: Finding(tally.queries, note)}))


def _section(name: str, code: str, told: Sequence[str], tally: Tally, verdict: str) -> Section:
    title, facts = told
    rows = [f"| {kind} | {count} |" for kind, count in sorted(tally.kinds.items())]
    failed = [f"- {line}" for line in tally.failed]
    text = "\n".join(
        [
            f"## {title}",
            "",
            facts,
            "",
            f"**{tally.line()}.**",
            "",
            verdict,
            "",
            "| fault | planned |",
            "| --- | ---: |",
            *rows,
            *(["", *failed] if failed else []),
        ]
    )
    return Section(name, code, text)


def bugs_section(code: str, facts: str, rows: Sequence[Row], page: Path) -> Section:
    """How soon bugs are found that were put back; rows of the page by the same code stay."""
    before = [old for old in read_page(page) if (old.name, old.commit) == (BUGS, code)]
    known = {row[0]: row for row in (*(tuple(row) for old in before for row in old.data["rows"]), *rows)}
    found = sum(bool(row[3]) for row in known.values())
    text = "\n".join(
        [
            "## Bugs that are put back",
            "",
            facts,
            "",
            f"**{found} of {len(known)} are found.**",
            "",
            "| bug | found after schedules | seed | what is wrong then |",
            "| --- | ---: | ---: | --- |",
            *(f"| {' | '.join(row)} |" for row in known.values()),
        ]
    )
    return Section(BUGS, code, text, {"rows": list(known.values())})


def record(page: Path, section: Section) -> None:
    """Put the section on the page, and the head above it."""
    sections = [old for old in put(read_page(page), section) if old.name != HEAD]
    head = Section(HEAD, section.commit, f"{_HEAD}\n\n{origins(sections)}")
    write_page(page, put(sections, head))


def readable(outcome: Outcome, lines: int = 60) -> str:
    """An outcome for people, with the plan and what happened last."""
    check = f"not so: {outcome.failed.value}" if outcome.failed is not None else "passed"
    told = [f"seed {outcome.plan.seed}: {check}", outcome.told, "", shown(outcome.plan), ""]
    return "\n".join([*told, *(line for line in outcome.trace if " world " in line)][-lines - 5 :])


def shown(plan: Plan) -> str:
    """The plan as Python."""
    faults = "\n".join(f"  {fault!r}," for fault in plan.faults)
    return f"{replace(plan, faults=())!r}\n{faults}"
