"""Who may call what, and in whose name: one rule for each method of each service. A method without a rule is refused.

The roles of members, not of people: what the holder of a client's certificate may do is not asked here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from wire.names import MemberName, Role

M, S, F, C, P = Role.MASTER, Role.SITE, Role.FRAMEWORK, Role.CLIENT, Role.PRODUCER


@dataclass(frozen=True, slots=True)
class Claim:
    """A field of a request, or of the first of a stream, that must fit the caller's name."""

    path: str
    fits: Callable[[str, str], bool]
    """Whether the field's value fits the caller's name."""
    wanted: Callable[[str], str]
    """Describes the values that the caller may give."""

    def refused(self, request: Any, caller: MemberName) -> str:
        """The message that refuses a wrong claim; empty when the claim is right."""
        said = str(reduce(getattr, self.path.split("."), request))
        if self.fits(said, caller.name):
            return ""
        return f"{caller} says {self.path} {said[:80]!r}, and may say only {self.wanted(caller.name)}"


def own(path: str) -> Claim:
    """The caller's own name."""
    return Claim(path, lambda said, name: said == name, lambda name: repr(name))


def below(path: str) -> Claim:
    """The caller's own name, or one that begins with it and a slash."""
    return Claim(
        path,
        lambda said, name: said == name or said.startswith(f"{name}/"),
        lambda name: f"{name!r} or what begins with '{name}/'",
    )


def always(path: str, value: str) -> Claim:
    """One fixed value, for every caller."""
    return Claim(path, lambda said, name: said == value, lambda name: repr(value))


Rule = Mapping[Role, Claim | None]
"""The roles that may call, each with the claim that it must fulfil; None: no claim."""


def anybody(*roles: Role) -> Rule:
    return dict.fromkeys(roles)


_PUSHES: Rule = {P: below("open.producer"), C: below("open.producer")}

_RULES: Mapping[str, Mapping[str, Rule]] = {
    "selat.v1.QueryService": {
        "Execute": anybody(C),
        "ListQueries": anybody(C),
        "GetQuery": anybody(C),
        "ExplainQuery": anybody(C),
        "ListSharing": anybody(C),
        "WatchQuery": anybody(C),
        "CancelQuery": anybody(C),
        "PauseQuery": anybody(C),
        "ResumeQuery": anybody(C),
        "FetchResults": anybody(C),
    },
    "selat.v1.CatalogService": {
        "ListRelations": anybody(C),
        "GetRelation": anybody(C, P),
        "CreateRelation": anybody(C),
        "DropRelation": anybody(C),
        "AlterBinding": anybody(C),
        "ListFunctions": anybody(C),
        "GetFunction": anybody(C),
        "CreateFunction": anybody(C),
        "DropFunction": anybody(C),
    },
    "selat.v1.SiteService": {
        "Register": {S: own("site")},
        "Deregister": {S: own("site")},
        "Report": {S: own("site")},
        "WatchAssignment": {S: own("site")},
        "ListSites": anybody(C, F),
        "GetSite": anybody(C, F, P),
        "DrainSite": anybody(C),
        "UndrainSite": anybody(C),
        "DescribeMembers": anybody(C),
    },
    "selat.v1.MemberService": {"DescribeMember": anybody(M, C)},
    "selat.v1.WanService": {
        "ListLinks": anybody(C, F),
        "GetLinkHistory": anybody(C, F),
        "ProbeLink": anybody(C),
    },
    "selat.v1.LeaseService": {
        "Watch": {S: own("site"), F: None, C: None},
        "Acquire": {F: own("framework")},
        "Renew": {F: own("framework")},
        "Release": {F: own("framework")},
        "WaitFor": {F: own("framework")},
        "RegisterFramework": {F: own("name"), C: None},
        "ListFrameworks": anybody(C, F),
        "SetQuota": anybody(C),
    },
    "selat.v1.AccessService": {
        "CreateToken": anybody(C),
        "ListTokens": anybody(C),
        "RevokeToken": anybody(C),
        "GetCaller": anybody(C, F),
    },
    "selat.v1.AdaptationService": {"ListDecisions": anybody(C), "GetQueryHistory": anybody(C)},
    "selat.v1.HandoverService": {
        "MoveTask": anybody(C),
        "ScaleStage": anybody(C),
        "CombineQuery": anybody(C),
        "CallOffMove": anybody(C),
        "ListMoves": anybody(C),
    },
    "selat.v1.EventService": {"ListEvents": anybody(C), "WatchEvents": anybody(C)},
    "selat.v1.SlotService": {"Occupy": anybody(F)},
    "selat.v1.ExchangeService": {
        "Pull": {S: own("open.consumer"), M: always("open.consumer", "client")},
        "Analyze": anybody(M),
        "ListSplits": anybody(M),
        "AskPlan": anybody(M),
        "RunPlan": anybody(M),
    },
    "selat.v1.IngestService": {
        "Push": _PUSHES,
        "GetProducer": {P: below("producer"), C: None},
        "Finish": anybody(P, C),
    },
    "selat.v1.ProbeService": {"Measure": anybody(M), "Receive": anybody(S), "Echo": anybody(S)},
    "grpc.health.v1.Health": {
        "Check": anybody(*Role),
        "Watch": anybody(*Role),
        "List": anybody(*Role),
    },
}

RULES: Mapping[str, Rule] = {
    f"/{service}/{method}": rule for service, methods in _RULES.items() for method, rule in methods.items()
}
"""By the method's path."""
