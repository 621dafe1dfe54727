"""A statement's text with pieces put in other words, and the way back from its places to those of the original."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edit:
    """Other words for the characters from `start` up to `end`."""

    start: int
    end: int
    words: str


def edited(text: str, edits: Iterable[Edit]) -> str:
    """The text with all edits done; they do not overlap."""
    parts, at = [], 0
    for edit in sorted(edits, key=lambda e: e.start):
        parts += [text[at : edit.start], edit.words]
        at = edit.end
    return "".join([*parts, text[at:]])


def original_offset(offset: int, edits: Iterable[Edit]) -> int:
    """The offset in the original text; the beginning of an edit for places inside its words."""
    shift = 0
    for edit in sorted(edits, key=lambda e: e.start):
        begin = edit.start + shift
        if offset < begin:
            break
        if offset < begin + len(edit.words):
            return edit.start
        shift += len(edit.words) - (edit.end - edit.start)
    return offset - shift
