"""Text of a script and the places in it."""

from __future__ import annotations

from dataclasses import dataclass

from planner.errors import Position

START = Position(1, 1)


@dataclass(frozen=True, slots=True)
class Source:
    """A piece of a script; `origin` is where it begins there."""

    text: str
    origin: Position = START

    def position(self, offset: int) -> Position:
        """The place of a character of `text` in the script."""
        before = self.text[: max(offset, 0)]
        return self.place(before.count("\n") + 1, len(before) - before.rfind("\n"))

    def place(self, line: int, column: int) -> Position:
        """The place in the script of a line and column of `text`, both from 1."""
        if line == 1:
            return Position(self.origin.line, self.origin.column + column - 1)
        return Position(self.origin.line + line - 1, column)

    def offset(self, line: int, column: int) -> int | None:
        """The offset of a line and column of `text`, both from 1; None when outside."""
        lines = self.text.split("\n")
        if not 1 <= line <= len(lines) or not 1 <= column <= len(lines[line - 1]) + 1:
            return None
        return sum(len(previous) + 1 for previous in lines[: line - 1]) + column - 1
