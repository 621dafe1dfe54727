"""The client: a connection to one master."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from selat.client.adaptation import AdaptationCalls
from selat.client.events import EventCalls
from selat.client.functions import FunctionCalls
from selat.client.links import LinkCalls
from selat.client.moves import MoveCalls
from selat.client.queries import QueryCalls
from selat.client.query import Query
from selat.client.relations import RelationCalls
from selat.client.sites import SiteCalls
from selat.client.slots import SlotCalls
from selat.client.tokens import AccessCalls
from selat.convert import queries as convert
from selat.errors import Detail, InvalidArgument, SelatError, ServerFault
from selat.source.functions import module_texts
from selat.source.statements import split_statements
from selat.transport.channel import resolve_address, resolve_security, translated
from selat.transport.session import Session, Waits
from selat.transport.token import check_private, find_token
from selat.v1 import query_pb2
from selat.values import Done, Explanation, Rows

Outcome = Query | Rows | Explanation | Done
"""SELECT and INSERT give a Query, SHOW and DESCRIBE Rows, EXPLAIN an Explanation, other statements Done."""

_ANSWER = timedelta(seconds=60)
_RECONNECT = timedelta(minutes=2)
CALLER_REFUSED = "CALLER_REFUSED"
"""The error code of a call that the caller's role may not make."""


def connect(  # noqa: PLR0913 - each is a setting of its own
    address: str | None = None,
    *,
    timeout: timedelta = _ANSWER,
    reconnect: timedelta = _RECONNECT,
    tls_dir: Path | str | None = None,
    token: str | None = None,
    insecure: bool = False,
) -> Client:
    """A client of the master at `address`, else at SELAT_MASTER, else at 127.0.0.1:7410.

    `timeout` bounds one call; `reconnect` is how long readers of results go on trying while the master is away.
    `tls_dir` has this client's certificate, made by `selat cert issue`; without it the directory in SELAT_TLS_DIR is
    taken, if there is one, and with "" none. `token` is shown to a master that checks who calls; None: that in the file
    that SELAT_TOKEN_FILE names, if it names one. A token goes to another machine only over TLS, or with `insecure`.

    Raises Unavailable when no master answers, StatementError when it refuses the token, InvalidArgument for a
    certificate that cannot be used and a token that cannot be sent.
    """
    found, shown, security = resolve_address(address), find_token(token, None), resolve_security(tls_dir)
    if shown and not security.on:
        check_private(found, insecure=insecure)
    client = Client(Session(found, Waits(timeout, reconnect), security, shown))
    try:
        _reach(client)
    except BaseException:
        client.close()
        raise
    return client


def _reach(client: Client) -> None:
    """Raises Unavailable when the master does not answer."""
    try:
        client.queries(summary=True)
    except SelatError as error:
        # Frameworks and producers may not list queries; the refusal shows that the master answers.
        if error.code != CALLER_REFUSED:
            raise


class Client(
    QueryCalls,
    AdaptationCalls,
    RelationCalls,
    FunctionCalls,
    LinkCalls,
    MoveCalls,
    EventCalls,
    SlotCalls,
    SiteCalls,
    AccessCalls,
):
    """A connection to one master; made by `connect`, closed by `close` or at the end of a `with` block.

    It may be used from several threads. Every method raises Unavailable when the master does not answer.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._settings: dict[str, str] = {}

    @property
    def address(self) -> str:
        """`host:port` of the master."""
        return self._session.address

    def close(self) -> None:
        """Closes the connection; queries run on."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def sql(self, text: str, *, name: str = "") -> Outcome:
        """Runs one statement. A SELECT or INSERT is submitted and comes back as a Query, which may be given a name.

        Raises StatementError when the master refuses it, InvalidArgument when the text is not one statement.
        """
        count = len(split_statements(text).statements)
        if count != 1:
            hint = "use `script` for several" if count else "write a statement"
            raise InvalidArgument(f"sql() takes one statement, found {count}", detail=Detail(hint=hint))
        outcomes = self.script(text, name=name)
        outcome = next(outcomes, None)
        if outcome is None:
            raise ServerFault("the master did not say what became of the statement")
        # Read to its end: a call that is left early counts as cancelled in the audit log, though the statement is done.
        with suppress(SelatError):
            deque(outcomes, maxlen=0)
        return outcome

    def script(self, text: str, *, name: str = "") -> Iterator[Outcome]:
        """Runs statements separated by semicolons, in order, and yields what each comes to.

        What SET changes holds for this client from then on. Files that CREATE FUNCTION names are read here, relative
        to the current directory. Raises StatementError at the first that is refused; those before it stay done.
        """
        parts = split_statements(text).statements
        request = query_pb2.ExecuteRequest(
            text=text, query_name=name, files=module_texts(parts), settings=self._settings
        )
        statements = max(1, len(parts))
        with translated(self.address):
            call = self._session.queries.Execute(request, timeout=self._session.waits.call.total_seconds() * statements)
            for response in call:
                self._settings.update(response.settings)
                yield self._outcome(response)

    def _outcome(self, response: query_pb2.ExecuteResponse) -> Outcome:
        match response.WhichOneof("outcome"):
            case "query":
                return Query(self._session, convert.query_info(response.query))
            case "rows":
                return convert.rows(response.rows)
            case "explanation":
                return convert.explanation(response.explanation)
            case _:
                return Done(response.done)
