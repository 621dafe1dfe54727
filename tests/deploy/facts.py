"""What a test has found out and the page of results shows: a line for each, with how it was found out."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

VARIABLE = "SELAT_DEPLOY_FACTS"
"""Names the file to which facts are added; without it they are only checked."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A line of a table of the page."""

    section: str
    what: str
    how: str
    found: str


def note(section: str, what: str, *, how: str, found: str) -> None:
    """Add a fact; a test calls it after its assertions."""
    if file := os.environ.get(VARIABLE):
        with Path(file).open("a") as facts:
            facts.write(json.dumps(asdict(Fact(section, what, how, found))) + "\n")


def noted(file: Path) -> list[Fact]:
    """The facts in a file, in the order in which they were added."""
    return [Fact(**json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []


def table(facts: Iterable[Fact]) -> str:
    """Facts as Markdown."""
    rows = [f"| {_cell(f.what)} | {_cell(f.how)} | {_cell(f.found)} |" for f in facts]
    return "\n".join(["| what | how | found |", "|---|---|---|", *rows])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
