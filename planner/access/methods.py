"""The one table of rights per gRPC method of the master. A method that is not in it is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from planner.access.roles import Right


class Effect(Enum):
    """The effect of a call on data; the audit log has those that read or change some."""

    LOOKS = "looks"
    """At what is known of queries, relations and members; heartbeats, too."""
    READS = "reads"
    CHANGES = "changes"


@dataclass(frozen=True, slots=True)
class Rule:
    """The conditions for calling a method."""

    right: Right | None
    """None: anybody may call it, also without a token."""
    effect: Effect = Effect.LOOKS
    bound: str = ""
    """The field of the request in whose name the caller acts: a member may only name what it is bound to."""
    site: str = ""
    """The field of the request in which a site's agent may only name what it is bound to, whatever others may say."""
    follows: bool = False
    """Its calls last until the caller has enough: they are counted as streams."""


def _rules(service: str, **rules: Rule) -> dict[str, Rule]:
    return {f"/{service}/{method}": rule for method, rule in rules.items()}


_CHANGES = Effect.CHANGES
_LOOK = Rule(Right.LOOK)
_FOLLOW = Rule(Right.LOOK, follows=True)
_SUBMIT = Rule(Right.SUBMIT, _CHANGES)
_OPERATE = Rule(Right.OPERATE, _CHANGES)
_FUNCTION = Rule(Right.CREATE_FUNCTION, _CHANGES)
_ADMINISTER = Rule(Right.ADMINISTER, _CHANGES)

METHODS: Mapping[str, Rule] = {
    **_rules(
        "selat.v1.QueryService",
        # Each statement has a right of its own: planner/access/statements.py.
        Execute=Rule(Right.BE_KNOWN, _CHANGES),
        ListQueries=_LOOK,
        GetQuery=_LOOK,
        ExplainQuery=_LOOK,
        ListSharing=_LOOK,
        WatchQuery=_FOLLOW,
        # And it has to be the caller's own query.
        CancelQuery=_SUBMIT,
        PauseQuery=_SUBMIT,
        ResumeQuery=_SUBMIT,
        FetchResults=Rule(Right.SUBMIT, Effect.READS, follows=True),
    ),
    **_rules(
        "selat.v1.CatalogService",
        ListRelations=_LOOK,
        GetRelation=_LOOK,
        # A view; what else is created takes the right to declare.
        CreateRelation=_SUBMIT,
        DropRelation=_SUBMIT,
        AlterBinding=Rule(Right.DECLARE, _CHANGES),
        ListFunctions=_LOOK,
        GetFunction=_LOOK,
        CreateFunction=_FUNCTION,
        DropFunction=_FUNCTION,
    ),
    **_rules("selat.v1.EventService", ListEvents=_LOOK, WatchEvents=_FOLLOW),
    **_rules("selat.v1.AdaptationService", ListDecisions=_LOOK, GetQueryHistory=_LOOK),
    # It has to be the caller's own query.
    **_rules(
        "selat.v1.HandoverService",
        MoveTask=_SUBMIT,
        ScaleStage=_SUBMIT,
        CombineQuery=_SUBMIT,
        CallOffMove=_SUBMIT,
        ListMoves=_LOOK,
    ),
    **_rules(
        "selat.v1.SiteService",
        Register=Rule(Right.SPEAK_FOR_SITE, _CHANGES, bound="site"),
        Deregister=Rule(Right.SPEAK_FOR_SITE, _CHANGES, bound="site"),
        Report=Rule(Right.SPEAK_FOR_SITE, bound="site"),
        WatchAssignment=Rule(Right.SPEAK_FOR_SITE, bound="site", follows=True),
        ListSites=_LOOK,
        GetSite=_LOOK,
        DrainSite=_OPERATE,
        UndrainSite=_OPERATE,
        # Every member writes a block to its disk for it.
        DescribeMembers=Rule(Right.OPERATE),
    ),
    **_rules("selat.v1.MemberService", DescribeMember=Rule(Right.OPERATE)),
    **_rules("selat.v1.WanService", ListLinks=_LOOK, GetLinkHistory=_LOOK, ProbeLink=_OPERATE),
    **_rules(
        "selat.v1.LeaseService",
        Watch=Rule(Right.WATCH_SLOTS, site="site", follows=True),
        Acquire=Rule(Right.LEASE, _CHANGES, bound="framework"),
        Renew=Rule(Right.LEASE, bound="framework"),
        Release=Rule(Right.LEASE, _CHANGES, bound="framework"),
        WaitFor=Rule(Right.LEASE, bound="framework", follows=True),
        RegisterFramework=Rule(Right.LEASE, _CHANGES, bound="name"),
        ListFrameworks=_LOOK,
        SetQuota=_OPERATE,
    ),
    **_rules(
        "selat.v1.AccessService",
        CreateToken=_ADMINISTER,
        ListTokens=Rule(Right.ADMINISTER),
        RevokeToken=_ADMINISTER,
        GetCaller=Rule(Right.BE_KNOWN),
    ),
    **_rules(
        "spark.connect.SparkConnectService",
        ExecutePlan=Rule(Right.SUBMIT, _CHANGES, follows=True),
        ReattachExecute=Rule(Right.SUBMIT, Effect.READS, follows=True),
        AnalyzePlan=Rule(Right.SUBMIT),
        Config=Rule(Right.SUBMIT),
        AddArtifacts=_SUBMIT,
        ArtifactStatus=Rule(Right.SUBMIT),
        Interrupt=_SUBMIT,
        ReleaseExecute=Rule(Right.SUBMIT),
        ReleaseSession=_SUBMIT,
        FetchErrorDetails=Rule(Right.SUBMIT),
        CloneSession=_SUBMIT,
        GetStatus=Rule(Right.SUBMIT),
    ),
    **_rules(
        "arrow.flight.protocol.FlightService",
        # Each statement has a right of its own, as in Execute; so have lists of relations.
        Handshake=Rule(Right.BE_KNOWN),
        ListFlights=Rule(Right.BE_KNOWN),
        GetFlightInfo=Rule(Right.BE_KNOWN),
        GetSchema=Rule(Right.BE_KNOWN),
        DoGet=Rule(Right.BE_KNOWN, _CHANGES, follows=True),
        DoPut=Rule(Right.BE_KNOWN, _CHANGES),
        DoAction=Rule(Right.BE_KNOWN),
        ListActions=Rule(Right.BE_KNOWN),
    ),
    **_rules("grpc.health.v1.Health", Check=Rule(None), Watch=Rule(None), List=Rule(None)),
}
