"""Fields of EXPLAIN: each is written once, and its text, its JSON and its line in docs/explain.md follow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Field(Generic[T]):
    """One field of the objects of a section."""

    name: str
    """Its name in JSON."""
    meaning: str
    value: Callable[[T], Any]
    """A plain value for JSON."""
    text: Callable[[T], str] | None = None
    """What people see of it; an empty text is left out. None: nothing."""
    before: str = ", "
    """What is between the text and that of the field before it; a line break puts it on lines of its own."""


@dataclass
class Section(Generic[T]):
    """Objects of one kind in EXPLAIN, such as its links."""

    path: str
    """Where they are in the JSON, as in `links[]`."""
    head: Callable[[T], str]
    """The beginning of an object's line in the text."""
    fields: tuple[Field[T], ...]

    def json(self, item: T) -> dict[str, Any]:
        """An object as plain values for JSON."""
        return {field.name: field.value(item) for field in self.fields}

    def lines(self, item: T) -> Iterator[str]:
        """An object for people; lines after the first are indented."""
        first, *more = "".join((self.head(item), *self._parts(item))).split("\n")
        yield first
        yield from (f"  {line}" for line in more)

    def _parts(self, item: T) -> Iterator[str]:
        for field in self.fields:
            if field.text is not None and (text := field.text(item)):
                yield field.before + text


class _Named(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def meaning(self) -> str: ...


class Fields(Protocol):
    """Fields of objects at a path of the JSON."""

    @property
    def path(self) -> str: ...

    @property
    def fields(self) -> Sequence[_Named]: ...


def markdown(sections: Iterable[Fields]) -> str:
    """The table of fields as docs/explain.md has it."""
    rows = [f"| `{section.path}.{field.name}` | {field.meaning} |" for section in sections for field in section.fields]
    return "\n".join(["| field | meaning |", "|---|---|", *rows])
