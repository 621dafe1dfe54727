"""The exceptions of PEP 249. Those about an error of Selat have it as their cause, and its hint in their text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from selat.errors import InvalidArgument, NotFound, QueryFailed, SelatError, StatementError, TimedOut, Unavailable


class Warning(Exception):  # noqa: N818 - the name is the standard's
    """Something of importance that is no error; never raised."""


class Error(Exception):
    """Root of the others."""


class InterfaceError(Error):
    """The module was used in a way that is not possible, as with a connection that is closed."""


class DatabaseError(Error):
    """An error of Selat."""


class DataError(DatabaseError):
    """A value cannot be what it should be."""


class OperationalError(DatabaseError):
    """The master cannot be reached, an answer takes too long, or a query failed."""


class IntegrityError(DatabaseError):
    """Never raised: there are no constraints."""


class InternalError(DatabaseError):
    """The master failed in a way that it does not explain."""


class ProgrammingError(DatabaseError):
    """A statement is refused, or there is no such thing as it names."""


class NotSupportedError(DatabaseError):
    """The standard has it, and Selat has not."""


_KINDS: tuple[tuple[type[SelatError], type[DatabaseError]], ...] = (
    (Unavailable, OperationalError),
    (TimedOut, OperationalError),
    (QueryFailed, OperationalError),
    (StatementError, ProgrammingError),
    (NotFound, ProgrammingError),
    (InvalidArgument, ProgrammingError),
)


@contextmanager
def translated() -> Iterator[None]:
    """Raises errors of Selat as the standard's."""
    try:
        yield
    except SelatError as error:
        kind = next((found for known, found in _KINDS if isinstance(error, known)), InternalError)
        raise kind(str(error)) from error
