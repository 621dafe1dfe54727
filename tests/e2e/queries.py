"""The cases of queries.sql."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    sql: str
    oracle: str


def load_cases() -> tuple[Case, ...]:
    text = Path(__file__).with_name("queries.sql").read_text()
    blocks = text.split("-- name: ")[1:]
    return tuple(_case(block) for block in blocks)


def _case(block: str) -> Case:
    head, oracle = block.split("-- oracle\n")
    name, sql = head.split("\n", 1)
    return Case(name.strip(), sql.strip(), oracle.strip())


CASES = load_cases()
