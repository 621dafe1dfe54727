"""A sharing plan in words: for every operator the query that it is shared with, or why it is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planner.graph.ids import TaskId, VertexId
from planner.sharing.candidates import Candidate, Share
from planner.sharing.schedule import Action, Decision, SharingPlan
from planner.sharing.vertices import RESULTS

_WITH = {
    Action.SHARED: "shared with",
    Action.CONTAINED: "made of the output of",
    Action.CO_LOCATED: "shares inputs with",
}


def sharing_lines(plan: SharingPlan) -> tuple[str, ...]:
    """For people: one line for each operator, and one for each sharing that was turned down."""
    return tuple(_lines(plan))


def sharing_json(plan: SharingPlan) -> dict[str, Any]:
    """The same as plain values for JSON; rates are bytes per second."""
    return {
        "mode": plan.sharing.value,
        "wan_bytes_per_s": plan.wan_bytes_per_s,
        "operators": [
            {
                "operator": str(decision.vertex),
                "action": decision.action.value,
                "site": decision.site,
                "with": _text(decision.operator),
                "query": decision.query or None,
                "reason": decision.reason,
                "not_shared": not_shared(decision, plan) or None,
                "rejected": [
                    {"operator": str(c.operator.id), "share": c.share.value, "reason": c.obstacle}
                    for c in decision.rejected
                ],
                "others": [
                    {
                        "operator": str(c.operator.id),
                        "share": c.share.value,
                        "site": c.site,
                        "shared_bytes_per_s": c.shared_bytes_per_s,
                    }
                    for c in decision.others
                ],
            }
            for decision in plan.decisions
        ],
    }


def sharing_notes(plan: SharingPlan) -> Mapping[VertexId, str]:
    """The lines of each vertex that is a task, by vertex."""
    return {
        decision.vertex: "\n  ".join((_line(decision, plan), *_candidates(decision)))
        for decision in plan.decisions
        if decision.vertex.stage != RESULTS
    }


def not_shared(decision: Decision, plan: SharingPlan) -> str:
    """Why no running operator stands for a vertex or gives it its inputs; empty when one does, or none is needed."""
    if decision.action in _WITH or decision.action is Action.UNNEEDED:
        return ""
    rules = plan.sharing.rules
    if not (rules.operators or rules.inputs):
        return f"nothing is shared in the mode {plan.sharing.value}"
    if decision.rejected:
        return "sharing would contend for links"
    return "nothing that runs does the same" + (", or reads the same elsewhere" if rules.inputs else "")


def _lines(plan: SharingPlan) -> Iterator[str]:
    yield f"Sharing ({plan.sharing.value}): {_rate(plan.wan_bytes_per_s)} more over the WAN"
    for decision in plan.decisions:
        yield f"  {_line(decision, plan)}"
        yield from (f"    {line}" for line in _candidates(decision))


def _line(decision: Decision, plan: SharingPlan) -> str:
    if decision.action is Action.UNNEEDED:
        return f"{decision.vertex}: not needed, {decision.reason}"
    head = f"{decision.vertex} at {decision.site}"
    words = _WITH.get(decision.action)
    if words is not None:
        return f"{head}: {words} {decision.query} ({decision.operator}): {decision.reason}"
    return f"{head}: not shared, {not_shared(decision, plan)}; {decision.reason}"


def _candidates(decision: Decision) -> Iterator[str]:
    """What else was looked at."""
    yield from (f"not with {_named(candidate)}: {candidate.obstacle}" for candidate in decision.rejected)
    for candidate in decision.others:
        rate = _rate(candidate.shared_bytes_per_s)
        yield f"as well with {_named(candidate)}: {rate} of its inputs at {candidate.site}"


def _named(candidate: Candidate) -> str:
    what = "its output" if candidate.share is Share.IN_OP else "its inputs"
    return f"{candidate.operator.id}, {what}"


def _text(operator: TaskId | None) -> str | None:
    return None if operator is None else str(operator)


def _rate(bytes_per_s: float) -> str:
    return f"{bytes_per_s:.0f} bytes/s"
