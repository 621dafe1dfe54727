"""Decisions of adaptation, as clients see them."""

from __future__ import annotations

from contract.times import to_us
from master.adaptation.journal import Entry, OptionEntry
from master.records.model import StateChange
from planner.values.adapting import Adapting
from selat.v1 import adaptation_pb2 as pb

MODES = {
    Adapting.OFF: pb.ADAPTATION_MODE_OFF,
    Adapting.ADVISE: pb.ADAPTATION_MODE_ADVISE,
    Adapting.ON: pb.ADAPTATION_MODE_ON,
}

_TEXTS = ("reason", "cause", "site", "to_site", "seen", "expected", "outcome", "cost")
_NUMBERS = ("number", "expected_per_s", "passed_per_s", "queued_rows", "count")


def decision_to_proto(entry: Entry) -> pb.AdaptationDecision:
    return pb.AdaptationDecision(
        **{name: getattr(entry, name) for name in (*_TEXTS, *_NUMBERS)},
        query_id=entry.query,
        mode=MODES[entry.mode],
        verdict=entry.verdict.value,
        task_id=entry.task,
        considered=map(_option, entry.considered),
        at_us=to_us(entry.at),
        first_at_us=to_us(entry.first_at),
    )


def _option(option: OptionEntry) -> pb.AdaptationOption:
    return pb.AdaptationOption(
        action=option.action,
        change=option.change,
        adapt_s=option.adapt_s,
        link_use=option.link_use,
        note=option.note,
        against=option.against,
    )


def moments(changes: tuple[StateChange, ...], entries: tuple[Entry, ...]) -> list[pb.QueryMoment]:
    """Changes of a query's state and decisions about it, oldest first."""
    found = [
        pb.QueryMoment(at_us=to_us(c.at), change=pb.QueryChange(state=c.target.value, reason=c.reason)) for c in changes
    ]
    found += [pb.QueryMoment(at_us=to_us(e.at), decision=decision_to_proto(e)) for e in entries]
    return sorted(found, key=lambda moment: moment.at_us)
