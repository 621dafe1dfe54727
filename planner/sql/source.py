"""Text of a script and the places in it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache

from planner.values.errors import Position

START = Position(1, 1)


@dataclass(frozen=True, slots=True)
class Source:
    """A piece of a script; `origin` is where it begins there."""

    text: str
    origin: Position = START

    def position(self, offset: int) -> Position:
        """The place of a character of `text` in the script."""
        at = min(max(offset, 0), len(self.text))
        starts = _line_starts(self.text)
        line = bisect_right(starts, at)
        return self.place(line, at - starts[line - 1] + 1)

    def place(self, line: int, column: int) -> Position:
        """The place in the script of a line and column of `text`, both from 1."""
        if line == 1:
            return Position(self.origin.line, self.origin.column + column - 1)
        return Position(self.origin.line + line - 1, column)

    def offset(self, line: int, column: int) -> int | None:
        """The offset of a line and column of `text`, both from 1; None when outside."""
        starts = _line_starts(self.text)
        if not 1 <= line <= len(starts):
            return None
        end = starts[line] - 1 if line < len(starts) else len(self.text)
        offset = starts[line - 1] + column - 1
        return offset if column >= 1 and offset <= end else None


@lru_cache(maxsize=4)
def _line_starts(text: str) -> tuple[int, ...]:
    """Offsets of the lines' first characters: a script of many statements asks for very many places."""
    starts, at = [0], text.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)
    return tuple(starts)


@dataclass(frozen=True, slots=True)
class ViewSource(Source):
    """The text of a view. All its places are the one where the view is named: the user did not write the rest."""

    reference: Position = START

    def position(self, offset: int) -> Position:
        return self.reference

    def place(self, line: int, column: int) -> Position:
        return self.reference
