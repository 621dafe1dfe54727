"""What a soak run found, as a Markdown table."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

HEAD = "| round | seed | faults | seconds | rows | result |\n|---|---|---|---|---|---|"


@dataclass(frozen=True, slots=True)
class Round:
    number: int
    seed: int
    faults: tuple[str, ...]
    seconds: float
    rows: int
    difference: str
    """Empty when all results equal the oracle's."""

    def line(self) -> str:
        faults = "; ".join(self.faults) or "none"
        return (
            f"| {self.number} | {self.seed} | {faults} | {self.seconds:.0f} | {self.rows} "
            f"| {self.difference.replace('|', '/') or 'equal'} |"
        )


def summary(rounds: Sequence[Round], lasted: timedelta) -> str:
    kinds = Counter(fault.split()[0] for r in rounds for fault in r.faults)
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "none"
    different = sum(1 for r in rounds if r.difference)
    return (
        f"{len(rounds)} rounds in {lasted.total_seconds() / 60:.1f} minutes, "
        f"{sum(r.rows for r in rounds)} result rows, "
        f"{sum(kinds.values())} faults ({told}): {different} rounds with a difference."
    )


def document(rounds: Sequence[Round], lasted: timedelta, *, started: datetime, command: str) -> str:
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    lines = [f"- Date: {started:%Y-%m-%d %H:%M} UTC", f"- Machine: {machine}", f"- Command: `{command}`"]
    return "\n".join([*lines, f"- {summary(rounds, lasted)}", "", HEAD, *(r.line() for r in rounds)]) + "\n"
