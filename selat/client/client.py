"""The client: a connection to one master."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from selat.client.events import Event, EventKind, EventWatch, event, event_filter
from selat.client.links import LinkPoint, LinkView, ProbeResult, link_point, link_view, probe_result
from selat.client.members import Members, members
from selat.client.push import Producer
from selat.client.query import Query
from selat.client.tokens import Caller, NewToken, Token, caller_of, token_of
from selat.convert import messages as _convert
from selat.errors import Detail, InvalidArgument, NotFound, SelatError, ServerFault
from selat.framework.framework import Framework, SlotWatch
from selat.leases import FrameworkInfo, SlotInfo, framework_info
from selat.source.functions import functions_of, module_texts
from selat.source.statements import split_statements
from selat.transport.channel import resolve_address, resolve_security, translated
from selat.transport.retry import Reconnect
from selat.transport.session import Session, Waits
from selat.transport.token import check_private, find_token
from selat.v1 import access_pb2, catalog_pb2, common_pb2, event_pb2, lease_pb2, query_pb2, site_pb2, wan_pb2
from selat.values import Done, Explanation, Function, QueryState, Relation, RelationKind, Rows, SharedOperator, Site

Outcome = Query | Rows | Explanation | Done
"""What a statement comes to: SELECT, INSERT a Query; SHOW, DESCRIBE Rows; EXPLAIN an Explanation; the rest Done."""

_ANSWER = timedelta(seconds=60)
_MOST_SLOTS = 2**32 - 1
_PAGE = 1000
"""Summaries in one answer."""
_RECONNECT = timedelta(minutes=2)
CALLER_REFUSED = "CALLER_REFUSED"
"""Code of the refusal of a call that is not for the caller's role."""
_PROBE = timedelta(minutes=3)
"""A probe may have to wait for others at its sites."""


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
        # Frameworks and producers may not list queries; that they are told so is an answer.
        if error.code != CALLER_REFUSED:
            raise


class Client:
    """A connection to one master; made by `connect`, closed by `close` or at the end of a `with` block.

    It may be used from several threads. Every method raises Unavailable when the master does not answer.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
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
        # A call that is not heard out counts as cancelled, also in the audit log; the statement is done either way.
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
                return Query(self._session, _convert.query_info(response.query))
            case "rows":
                return _convert.rows(response.rows)
            case "explanation":
                return _convert.explanation(response.explanation)
            case _:
                return Done(response.done)

    def queries(
        self, *, all: bool = False, states: Iterable[QueryState] = (), text: str = "", summary: bool = False
    ) -> list[Query]:
        """The queries that run; with `all` also those that are over. `Query.last` is what the master said of each.

        Args:
            all: Also those that are over.
            states: Only those in one of these states, over or not; none: all states.
            text: Only those whose id, name or SQL has it, whatever the case.
            summary: Without tasks, links, columns and what is shared; for lists of many.
        """
        request = query_pb2.ListQueriesRequest(
            all=all,
            states=[wire for wire, state in _convert.QUERY_STATES.items() if state in tuple(states)],
            text=text,
            detail=query_pb2.QUERY_DETAIL_SUMMARY if summary else query_pb2.QUERY_DETAIL_UNSPECIFIED,
            page_size=_PAGE if summary else 0,
        )
        found: list[Query] = []
        while True:
            answer = self._session.ask(self._session.queries.ListQueries, request)
            found += [Query(self._session, _convert.query_info(q)) for q in answer.queries]
            if not answer.next_page_token:
                return found
            request.page_token = answer.next_page_token

    def sharing(self) -> list[SharedOperator]:
        """The tasks that several queries need, by id."""
        answer = self._session.ask(self._session.queries.ListSharing, query_pb2.ListSharingRequest())
        return [_convert.shared_operator(o) for o in answer.operators]

    def query(self, query: str) -> Query:
        """The query with that id, unique beginning of an id, or name. Raises NotFound."""
        request = query_pb2.GetQueryRequest(query=query)
        answer = self._session.ask(self._session.queries.GetQuery, request)
        return Query(self._session, _convert.query_info(answer.query))

    def streams(self) -> list[Relation]:
        """All streams."""
        return self._relations(RelationKind.STREAM)

    def tables(self) -> list[Relation]:
        """All tables."""
        return self._relations(RelationKind.TABLE)

    def sinks(self) -> list[Relation]:
        """All sinks."""
        return self._relations(RelationKind.SINK)

    def views(self) -> list[Relation]:
        """All views."""
        return self._relations(RelationKind.VIEW)

    def stream(self, name: str) -> Relation:
        """The stream of that name. Raises NotFound."""
        return self._relation(name, RelationKind.STREAM)

    def table(self, name: str) -> Relation:
        """The table of that name. Raises NotFound."""
        return self._relation(name, RelationKind.TABLE)

    def sink(self, name: str) -> Relation:
        """The sink of that name. Raises NotFound."""
        return self._relation(name, RelationKind.SINK)

    def view(self, name: str) -> Relation:
        """The view of that name. Raises NotFound."""
        return self._relation(name, RelationKind.VIEW)

    def create_relation(self, relation: Relation, *, if_not_exists: bool = False, or_replace: bool = False) -> bool:
        """Declares a stream, table, view or sink, as CREATE does. False: it was there and `if_not_exists` was set.

        With `or_replace` a view takes the place of the view of that name.

        Raises StatementError when the definition is refused.
        """
        request = catalog_pb2.CreateRelationRequest(
            relation=_convert.relation_message(relation), if_not_exists=if_not_exists, or_replace=or_replace
        )
        return self._session.ask(self._session.catalog.CreateRelation, request).created

    def drop(self, name: str, *, kind: RelationKind | None = None, if_exists: bool = False) -> bool:
        """Removes a relation (`kind` None: of whatever kind). False: there was none and `if_exists` was set.

        Raises NotFound, and StatementError when a running query reads it or writes into it, or a view uses it.
        """
        wanted = _convert.RELATION_KINDS[kind] if kind else common_pb2.RELATION_KIND_UNSPECIFIED
        request = catalog_pb2.DropRelationRequest(name=name, kind=wanted, if_exists=if_exists)
        return self._session.ask(self._session.catalog.DropRelation, request).dropped

    def alter(self, name: str, options: Mapping[str, str], *, site: str | None = None) -> Relation:
        """Changes connector options at one site (None: at all of them); running queries follow where they can.

        Raises NotFound, and StatementError when an option is refused.
        """
        request = catalog_pb2.AlterBindingRequest(name=name, site=site or "", options=dict(options))
        return _convert.relation(self._session.ask(self._session.catalog.AlterBinding, request).relation)

    def push(self, stream: str, site: str, *, producer_id: str = "", first_sequence: int | None = None) -> Producer:
        """A producer that sends rows to a stream whose connector at that site is `push`.

        Without `producer_id` it gets a new one. One that was used before goes on after its last stored batch;
        `first_sequence=1` sends the same input from the beginning, of which what was stored is skipped. Raises
        NotFound, StatementError when the stream cannot be pushed to there, and ConnectionLost when master or agent stay
        away too long.
        """
        retry = Reconnect(self._session.waits.reconnect, f"push to {stream} at {site}")
        relation = retry.until_answered(lambda: self.stream(stream))
        return Producer(self._session, relation, site=site, producer_id=producer_id, first_sequence=first_sequence)

    def register_function(self, file: str | Path, *, name: str | None = None, replace: bool = False) -> list[Function]:
        """Makes functions of a Python file known to SQL: that one, or all whose names do not begin with `_`.

        Names and types come from their annotations. The file is read here, and run at the sites. Raises InvalidArgument
        when an annotation means no type of SQL, StatementError when the master or a site refuses it.
        """
        made = []
        for value in functions_of(Path(file), name):
            request = catalog_pb2.CreateFunctionRequest(function=_convert.function_message(value), or_replace=replace)
            made.append(_convert.function(self._session.ask(self._session.catalog.CreateFunction, request).function))
        return made

    def functions(self) -> list[Function]:
        """All Python functions, by name."""
        answer = self._session.ask(self._session.catalog.ListFunctions, catalog_pb2.ListFunctionsRequest())
        return [_convert.function(f) for f in answer.functions]

    def function(self, name: str) -> Function:
        """The Python function of that name. Raises NotFound."""
        request = catalog_pb2.GetFunctionRequest(name=name)
        return _convert.function(self._session.ask(self._session.catalog.GetFunction, request).function)

    def drop_function(self, name: str, *, if_exists: bool = False) -> bool:
        """Removes a function. False: there was none and `if_exists` was set.

        Raises:
            NotFound: there is none.
            SelatError: a query that is not over calls it, or a view does (`FUNCTION_IN_USE`).
        """
        request = catalog_pb2.DropFunctionRequest(name=name, if_exists=if_exists)
        return self._session.ask(self._session.catalog.DropFunction, request).dropped

    def links(self) -> list[LinkView]:
        """Every directed link between two sites as it is known now, measured or declared."""
        answer = self._session.ask(self._session.wan.ListLinks, wan_pb2.ListLinksRequest())
        return [link_view(link) for link in answer.links]

    def link_history(self, from_site: str, to_site: str, *, last: timedelta = timedelta(hours=1)) -> list[LinkPoint]:
        """What was measured of a link lately, oldest first. Raises NotFound."""
        request = wan_pb2.GetLinkHistoryRequest(from_site=from_site, to_site=to_site, last_s=last.total_seconds())
        return [link_point(p) for p in self._session.ask(self._session.wan.GetLinkHistory, request).points]

    def probe_link(self, from_site: str, to_site: str) -> ProbeResult:
        """Measures a link now, thoroughly: fills it for a second or two. Raises NotFound, Unavailable."""
        request = wan_pb2.ProbeLinkRequest(from_site=from_site, to_site=to_site)
        return probe_result(self._session.ask(self._session.wan.ProbeLink, request, wait=_PROBE))

    def events(
        self, *, kinds: Iterable[EventKind] = (), query: str = "", site: str = "", limit: int = 100
    ) -> list[Event]:
        """The newest events, oldest first: of these kinds (none: all), about that query, about that site or its links.

        Raises NotFound when there is no such query.
        """
        request = event_pb2.ListEventsRequest(filter=event_filter(tuple(kinds), query, site), limit=limit)
        return [event(e) for e in self._session.ask(self._session.events.ListEvents, request).events]

    def watch_events(
        self, *, kinds: Iterable[EventKind] = (), query: str = "", site: str = "", after: int = 0
    ) -> EventWatch:
        """The events after a number (0: all that are kept), then each new one, until the watch is closed."""
        return EventWatch(self._session, event_filter(tuple(kinds), query, site), after=after)

    def slots(self) -> list[SlotInfo]:
        """Every slot, busy ones included, by site and index."""
        with self.watch_slots() as watch:
            return list(next(watch).slots)

    def watch_slots(self) -> SlotWatch:
        """All slots, then what changes, until the watch is closed."""
        return SlotWatch(self._session)

    def register_framework(self, name: str, *, comment: str = "") -> Framework:
        """Makes a framework known, so that it can take slots; one that is known stays as it is.

        Raises StatementError when the name cannot be one.
        """
        request = lease_pb2.RegisterFrameworkRequest(name=name, comment=comment)
        return Framework(
            self._session, self._session.ask(self._session.leases.RegisterFramework, request).framework.name
        )

    def frameworks(self) -> list[FrameworkInfo]:
        """All frameworks, by name."""
        answer = self._session.ask(self._session.leases.ListFrameworks, lease_pb2.ListFrameworksRequest())
        return [framework_info(f) for f in answer.frameworks]

    def set_quota(self, framework: str, quota: int | None) -> FrameworkInfo:
        """Limits how many slots a framework is granted (None: not at all); what it holds stays its. Raises NotFound."""
        if quota is not None and not 0 <= quota <= _MOST_SLOTS:
            raise InvalidArgument(f"{quota} is no number of slots", detail=Detail(hint="0 or more; None is no quota"))
        request = lease_pb2.SetQuotaRequest(name=framework, quota=quota)
        return framework_info(self._session.ask(self._session.leases.SetQuota, request).framework)

    def sites(self) -> list[Site]:
        """All sites, those included that were never seen."""
        answer = self._session.ask(self._session.sites.ListSites, site_pb2.ListSitesRequest())
        return [_convert.site(s) for s in answer.sites]

    def site(self, name: str) -> Site:
        """The site of that name. Raises NotFound."""
        request = site_pb2.GetSiteRequest(name=name)
        return _convert.site(self._session.ask(self._session.sites.GetSite, request).site)

    def members(self) -> Members:
        """The master and all agents as they are now: the master asks each of them."""
        return members(self._session.ask(self._session.sites.DescribeMembers, site_pb2.DescribeMembersRequest()))

    def drain_site(self, name: str) -> Site:
        """Gives the site no new work from now on; what runs there goes on. `Site.work` says what that is.

        Raises NotFound.
        """
        request = site_pb2.DrainSiteRequest(name=name)
        return _convert.site(self._session.ask(self._session.sites.DrainSite, request).site)

    def undrain_site(self, name: str) -> Site:
        """Gives the site work again. Raises NotFound."""
        request = site_pb2.UndrainSiteRequest(name=name)
        return _convert.site(self._session.ask(self._session.sites.UndrainSite, request).site)

    def caller(self) -> Caller:
        """Who the master takes this client for."""
        return caller_of(self._session.ask(self._session.access.GetCaller, access_pb2.GetCallerRequest()))

    def tokens(self) -> list[Token]:
        """All tokens, those included that are over, in the order in which they were made."""
        answer = self._session.ask(self._session.access.ListTokens, access_pb2.ListTokensRequest())
        return [token_of(t) for t in answer.tokens]

    def create_token(
        self, name: str, roles: Iterable[str], *, bound_to: Iterable[str] = (), lifetime: timedelta | None = None
    ) -> NewToken:
        """Makes a token; without `lifetime` it does not expire. A member's names its sites, or its framework.

        Raises StatementError when the roles contradict each other, or the master checks nobody.
        """
        request = access_pb2.CreateTokenRequest(
            name=name,
            roles=list(roles),
            bound_to=list(bound_to),
            lifetime_s=0 if lifetime is None else max(1, int(lifetime.total_seconds())),
        )
        answer = self._session.ask(self._session.access.CreateToken, request)
        return NewToken(token_of(answer.token), answer.secret)

    def revoke_token(self, token: str) -> list[Token]:
        """Takes back the token of that id, or all of that name.

        Raises NotFound, and StatementError for the last one of an admin.
        """
        request = access_pb2.RevokeTokenRequest(token=token)
        return [token_of(t) for t in self._session.ask(self._session.access.RevokeToken, request).tokens]

    def _relations(self, kind: RelationKind) -> list[Relation]:
        request = catalog_pb2.ListRelationsRequest(kind=_convert.RELATION_KINDS[kind])
        answer = self._session.ask(self._session.catalog.ListRelations, request)
        return [_convert.relation(r) for r in answer.relations]

    def _relation(self, name: str, kind: RelationKind) -> Relation:
        request = catalog_pb2.GetRelationRequest(name=name)
        found = _convert.relation(self._session.ask(self._session.catalog.GetRelation, request).relation)
        if found.kind is not kind:
            detail = Detail(hint=f"{name} is a {found.kind.value}", ids={kind.value: name})
            raise NotFound(f"no {kind.value} is named {name}", detail=detail)
        return found
