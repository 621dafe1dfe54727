"""Cells and tables of the page."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.statistics import Mean


def percent(change: Mean) -> str:
    """As in `+12 % ± 3`; 0.12 is 12 %."""
    return f"{100 * change.value:+.0f} % ± {100 * change.half_width:.0f}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown, the first column to the left and all others to the right."""
    marks = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, marks, *rows])
