"""A tally of several pytest runs: a plugin notes each run, and `python -m tests.tally DIRECTORY` judges them all.

`.ci/run` loads the plugin (`-p tests.tally`) and names the directory in `SELAT_TALLY`.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from uuid import uuid4

import pytest
from _pytest.terminal import TerminalReporter

from tests.needs import Need

OUTCOMES = ("failed", "error", "passed", "skipped", "xfailed", "xpassed")
VARIABLE = "SELAT_TALLY"


@dataclass(frozen=True, slots=True)
class Run:
    """One run of pytest."""

    command: str
    exit_code: int
    outcomes: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    """The number of skipped tests by reason."""


def pytest_terminal_summary(terminalreporter: TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    """Write the run's outcome to the directory. Its worker processes have no outcome of their own."""
    if hasattr(config, "workerinput"):
        return
    stats = terminalreporter.stats
    run = Run(
        " ".join(config.invocation_params.args),
        int(exitstatus),
        {outcome: len(stats[outcome]) for outcome in OUTCOMES if stats.get(outcome)},
        dict(Counter(reason_of(report) for report in stats.get("skipped", ()))),
    )
    (Path(os.environ[VARIABLE]) / f"{uuid4()}.json").write_text(json.dumps(asdict(run)))


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The reason of a skip."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def load(directory: Path) -> list[Run]:
    """The runs that were noted."""
    return [Run(**json.loads(path.read_text())) for path in directory.glob("*.json")]


def summary(runs: Iterable[Run]) -> list[str]:
    """Lines for the log: each reason with its count, then all outcomes."""
    runs = list(runs)
    reasons = sum((Counter(run.skipped) for run in runs), Counter[str]())
    outcomes = sum((Counter(run.outcomes) for run in runs), Counter[str]())
    counts = ", ".join(f"{outcomes[outcome]} {outcome}" for outcome in OUTCOMES if outcomes[outcome])
    return [
        f"tests skipped: {reasons.total()}",
        *(f"{count:6d}  {reason}" for reason, count in reasons.most_common()),
        f"{len(runs)} runs of pytest: {counts or 'no tests'}",
    ]


def faults(runs: Iterable[Run], *, is_root: bool) -> list[str]:
    """The reasons why the runs together are no success, even if each is; empty when they are."""
    runs = list(runs)
    found = [f"pytest {run.command}: exit code {run.exit_code}" for run in runs if run.exit_code]
    if not runs:
        found.append("pytest was never run to its end")
    for reason in sorted({reason for run in runs for reason in run.skipped}):
        need = Need.of(reason)
        if need is None:
            found.append(f"a skip's reason names no kind of tests/needs.py: {reason}")
        elif need.ends_as_root and is_root:
            found.append(f"skipped, though root can have what it needs: {reason}")
    return found


def main(arguments: Sequence[str]) -> int:
    """Print the summary and the faults. Returns 1 if there are any."""
    runs = load(Path(arguments[0]))
    wrong = faults(runs, is_root=os.geteuid() == 0)
    lines = [*summary(runs), *(f"FAILED: {fault}" for fault in wrong)]
    sys.stdout.write("\n".join(["", *lines, ""]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
