"""A sharing plan for people: with which query each task is shared, or why it is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from planner.graph.ids import VertexId
from planner.sharing.candidates import Candidate, Share
from planner.sharing.plans import Action, Decision, SharingPlan
from planner.sharing.vertices import RESULTS

_WITH = {
    Action.SHARED: "shared with",
    Action.CONTAINED: "made of the output of",
    Action.CO_LOCATED: "shares inputs with",
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


def _line(decision: Decision, plan: SharingPlan) -> str:
    if decision.action is Action.UNNEEDED:
        return f"{decision.vertex}: not needed, {decision.reason}"
    head = f"{decision.vertex} at {decision.site}"
    words = _WITH.get(decision.action)
    if words is not None:
        return f"{head}: {words} {decision.query} ({decision.operator}): {decision.reason}"
    return f"{head}: not shared, {not_shared(decision, plan)}; {decision.reason}"


def _candidates(decision: Decision) -> Iterator[str]:
    """The other candidates, and why they were not taken."""
    yield from (f"not with {_named(candidate)}: {candidate.obstacle}" for candidate in decision.rejected)
    for candidate in decision.others:
        rate = _rate(candidate.shared_bytes_per_s)
        yield f"as well with {_named(candidate)}: {rate} of its inputs at {candidate.site}"


def _named(candidate: Candidate) -> str:
    what = "its output" if candidate.share is Share.IN_OP else "its inputs"
    return f"{candidate.operator.id}, {what}"


def _rate(bytes_per_s: float) -> str:
    return f"{bytes_per_s:.0f} bytes/s"
