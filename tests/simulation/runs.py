"""A run over seeds from one on: what it has shown so far, kept in a directory so that another process can go on."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path

from tests.simulation.report import Tally, readable
from tests.simulation.schedule import Outcome

EVERY = 200
"""After so many schedules progress is stored and told."""
PROGRESS = "progress.json"


@dataclass(slots=True)
class Run:
    """Schedules of one code, by consecutive seeds."""

    first: int
    """Its first seed."""
    code: str
    """The commit."""
    tally: Tally
    directory: Path | None = None

    @classmethod
    def begun(cls, first: int, code: str, directory: Path | None) -> Run:
        """A new one, or the one that is kept in the directory.

        Raises:
            SystemExit: that one is of another commit or another first seed.
        """
        if directory is None or not (directory / PROGRESS).exists():
            return cls(first, code, Tally(), directory)
        kept = json.loads((directory / PROGRESS).read_text())
        if (kept["first"], kept["code"]) != (first, code):
            raise SystemExit(
                f"{directory} keeps a run of commit {kept['code']} from seed {kept['first']} on, and this one would be "
                f"of {code} from seed {first} on; name another directory"
            )
        tally = Tally(**{**kept["tally"], "kinds": Counter(kept["tally"]["kinds"])})
        return cls(first, code, tally, directory)

    @property
    def next_seed(self) -> int:
        """The first one that has not been played."""
        return self.first + self.tally.schedules

    @property
    def is_worth_a_line(self) -> bool:
        """Return whether the run's progress is worth reporting again."""
        return self.tally.schedules % EVERY == 0

    def take(self, outcome: Outcome) -> None:
        """Count an outcome; one that failed is kept as a text at once."""
        self.tally.add(outcome)
        if self.directory is not None and outcome.failed is not None:
            self.directory.mkdir(parents=True, exist_ok=True)
            (self.directory / f"seed-{outcome.plan.seed}.txt").write_text(readable(outcome) + "\n")
        if self.is_worth_a_line or outcome.failed is not None:
            self.keep()

    def keep(self) -> None:
        """Store how far it is."""
        if self.directory is None:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        tally = {field.name: getattr(self.tally, field.name) for field in fields(self.tally)}
        written = self.directory / f"{PROGRESS}.new"
        written.write_text(json.dumps({"first": self.first, "code": self.code, "tally": tally}))
        written.replace(self.directory / PROGRESS)
