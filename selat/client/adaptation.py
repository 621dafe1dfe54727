"""What adaptation decided about queries, as the master tells it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from selat.client.calls import Calls
from selat.convert.times import to_datetime
from selat.v1 import adaptation_pb2 as pb

_MODES = {pb.ADAPTATION_MODE_OFF: "off", pb.ADAPTATION_MODE_ADVISE: "advise", pb.ADAPTATION_MODE_ON: "on"}


@dataclass(frozen=True, slots=True)
class AdaptationOption:
    """Something that could have been done about a query."""

    action: str
    """`re-assign`, `scale up`, `scale out`, `scale in`, `re-plan`."""
    change: str
    """Where tasks are and would be, by stage."""
    adapt_s: float
    link_use: float | None
    """What the busiest link would have to carry, over what is left of it; None: a link is missing."""
    note: str
    against: str
    """Why it was not taken; empty: it was."""


@dataclass(frozen=True, slots=True)
class AdaptationDecision:
    """A decision about a query, or that there was nothing to decide."""

    number: int
    query_id: str
    mode: str
    verdict: str
    """`act`, `no action`, `not judged`, `healthy`."""
    reason: str
    cause: str
    """Empty: the query is healthy."""
    task_id: str
    site: str
    to_site: str
    """Where the link ends, when the cause is a link."""
    seen: str
    expected_per_s: float
    passed_per_s: float
    queued_rows: float
    considered: tuple[AdaptationOption, ...]
    expected: str
    """What the action is to bring."""
    outcome: str
    """What came of it; empty: not known yet, or there was no action."""
    at: datetime
    """When it was last decided, and below first of so many times in a row."""
    first_at: datetime
    count: int
    cost: str = ""
    """The cost of the action, with its parts; empty: there is none."""


@dataclass(frozen=True, slots=True)
class QueryMoment:
    """Something in the history of a query: a state that it came into, or a decision about it."""

    at: datetime
    state: str
    """Empty: it is a decision."""
    reason: str
    decision: AdaptationDecision | None


def decision(message: pb.AdaptationDecision) -> AdaptationDecision:
    return AdaptationDecision(
        number=message.number,
        query_id=message.query_id,
        mode=_MODES.get(message.mode, "unknown"),
        verdict=message.verdict,
        reason=message.reason,
        cause=message.cause,
        task_id=message.task_id,
        site=message.site,
        to_site=message.to_site,
        seen=message.seen,
        expected_per_s=message.expected_per_s,
        passed_per_s=message.passed_per_s,
        queued_rows=message.queued_rows,
        considered=tuple(map(_option, message.considered)),
        expected=message.expected,
        outcome=message.outcome,
        at=to_datetime(message.at_us),
        first_at=to_datetime(message.first_at_us),
        count=message.count,
        cost=message.cost,
    )


def _option(message: pb.AdaptationOption) -> AdaptationOption:
    link_use = message.link_use if message.HasField("link_use") else None
    return AdaptationOption(message.action, message.change, message.adapt_s, link_use, message.note, message.against)


def _moment(message: pb.QueryMoment) -> QueryMoment:
    at = to_datetime(message.at_us)
    if message.HasField("decision"):
        made = decision(message.decision)
        return QueryMoment(at, "", made.reason, made)
    return QueryMoment(at, message.change.state, message.change.reason, None)


class AdaptationCalls(Calls):
    """Decisions about running queries."""

    def adaptation_decisions(self, query: str = "", *, limit: int = 100) -> list[AdaptationDecision]:
        """The newest decisions, oldest first: about that query, or all (empty).

        Raises NotFound when there is no such query.
        """
        request = pb.ListDecisionsRequest(query=query, limit=limit)
        return [decision(d) for d in self._session.ask(self._session.adaptation.ListDecisions, request).decisions]

    def query_history(self, query: str) -> list[QueryMoment]:
        """The states that a query came into and the decisions about it, oldest first.

        Raises NotFound when there is no such query.
        """
        request = pb.GetQueryHistoryRequest(query=query)
        return [_moment(m) for m in self._session.ask(self._session.adaptation.GetQueryHistory, request).moments]
