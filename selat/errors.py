"""What can go wrong for a client: one root, few leaves; place, hint and identifiers are attributes."""

# Names that read as what happened (`except selat.NotFound`), as in `concurrent.futures`.
# ruff: noqa: N818

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Detail:
    """What the master says about an error. `line` and `column` count from 1 in the submitted text, 0 is nowhere."""

    line: int = 0
    column: int = 0
    found: str = ""
    hint: str = ""
    ids: Mapping[str, str] = field(default_factory=dict)


class SelatError(Exception):
    """Root of everything that this package raises.

    `code` is a stable name (docs/errors.md), `message` says what is wrong, `hint` what would be right.
    """

    default_code = "ERROR"

    def __init__(self, message: str, *, code: str = "", detail: Detail | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.detail = detail or Detail()

    @property
    def line(self) -> int:
        """Line in the submitted text, from 1; 0 when the error has no place in it."""
        return self.detail.line

    @property
    def column(self) -> int:
        """Column in that line, from 1; 0 when the error has no place in it."""
        return self.detail.column

    @property
    def found(self) -> str:
        """What stood at that place."""
        return self.detail.found

    @property
    def hint(self) -> str:
        """What would be right, or what to do."""
        return self.detail.hint

    @property
    def ids(self) -> Mapping[str, str]:
        """What the error is about: query, site, stream, ..."""
        return self.detail.ids

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.code, self.detail))


def _rebuild(kind: type[SelatError], message: str, code: str, detail: Detail) -> SelatError:
    return kind(message, code=code, detail=detail)


class Unavailable(SelatError):
    """No master answers, or what it needs for the answer is unreachable."""

    default_code = "UNAVAILABLE"


class ConnectionLost(Unavailable):
    """The master went away during a call and did not come back in time."""

    default_code = "CONNECTION_LOST"


class TimedOut(SelatError, TimeoutError):
    """An answer did not come, or a query was not over, within the time allowed."""

    default_code = "TIMED_OUT"


class StatementError(SelatError):
    """The master refuses a statement or a request; the place, what was found and a hint come with it."""

    default_code = "STATEMENT_REFUSED"


class NotFound(SelatError):
    """No query, site, stream or table has that name."""

    default_code = "NOT_FOUND"


class ResultsGone(StatementError):
    """The requested results of a running query are no longer kept; later ones are.

    `ids` has the query, the channel, the requested epoch, and `first_epoch`.
    """

    default_code = "RESULTS_GONE"

    @property
    def first_epoch(self) -> int:
        """The first epoch of the channel that is kept."""
        return int(self.ids.get("first_epoch", "0"))


class QueryFailed(SelatError):
    """A query whose results were being followed failed; everything it delivered before was handed out."""

    default_code = "QUERY_FAILED"


class InvalidArgument(SelatError, ValueError):
    """The caller gave something that cannot be right; nothing was sent."""

    default_code = "INVALID_ARGUMENT"


class ServerFault(SelatError):
    """The master failed in a way that it does not explain; its log says more."""

    default_code = "SERVER_FAULT"
