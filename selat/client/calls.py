"""The base of a client's calls."""

from __future__ import annotations

from selat.transport.session import Session


class Calls:
    """Calls about one subject, in one session with a master; `Client` has those of all subjects."""

    def __init__(self, session: Session) -> None:
        self._session = session
