"""The ids that the master gives, and how a user's name for a query is resolved."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence

from master.base.errors import AmbiguousQueryError, InvalidRequestError, UnknownQueryError
from master.records.model import QueryRecord

RandomHex = Callable[[int], str]
"""Returns this many random hexadecimal digits."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
_ID = re.compile(r"q-(?P<number>\d+)(-[0-9a-f]*)?")


def query_id(number: int, random_hex: RandomHex) -> str:
    """An id such as `q-0001-a1b2c3`."""
    return f"q-{number:04d}-{random_hex(6)}"


def query_number(text: str) -> int | None:
    """The number in a query's id, or in the beginning of one; None for any other text."""
    found = _ID.fullmatch(text)
    return int(found["number"]) if found else None


def cluster_id(random_hex: RandomHex) -> str:
    return f"c-{random_hex(12)}"


def check_query_name(name: str) -> None:
    """Raises InvalidRequestError for a text that cannot be a query's name."""
    if not _NAME.fullmatch(name) or _ID.fullmatch(name):
        raise InvalidRequestError(
            f"{name!r} cannot be a query's name",
            hint="a letter, then up to 62 letters, digits, '_' or '-'; not like a query id (q-0001-...)",
            ids={"name": name},
        )


def find_query(queries: Sequence[QueryRecord], reference: str) -> QueryRecord:
    """The query of that id, name (a live one first, then the newest) or unique prefix of an id.

    Raises:
        UnknownQueryError, AmbiguousQueryError
    """
    exact = [q for q in queries if q.id == reference]
    named = [q for q in queries if reference and q.name == reference]
    named.sort(key=lambda q: (q.state.over, -q.submitted_at.timestamp(), q.id))
    if exact or named:
        return (exact or named)[0]
    started = [q for q in queries if reference and q.id.startswith(reference)]
    if len(started) == 1:
        return started[0]
    if started:
        raise AmbiguousQueryError(
            f"{len(started)} query ids start with {reference!r}",
            hint="give more of the id: " + ", ".join(q.id for q in started[:5]),
            ids={"query": reference},
        )
    raise _unknown(queries, reference)


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """A hint that names the most similar one; empty when none is similar."""
    close = difflib.get_close_matches(word, known, n=3, cutoff=0.6)
    return f"did you mean {' or '.join(close)}?" if close else ""


def _unknown(queries: Sequence[QueryRecord], reference: str) -> UnknownQueryError:
    known = [q.id for q in queries] + [q.name for q in queries if q.name]
    hint = did_you_mean(reference, known) or "SHOW QUERIES lists them"
    return UnknownQueryError(f"there is no query {reference!r}", hint=hint, ids={"query": reference})
