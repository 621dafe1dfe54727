"""The store ports: the durable state of the master, one port for each subject, and `Store` for all of them.

`sqlite` implements them; tests/unit/master/store holds the contract. Every method is one transaction and returns when
it is durable. It raises StoreError where the state cannot be used. One writer: the master's event loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from machine.durations import Distribution
from master.records.access import TokenRecord
from master.records.model import AssignmentMark, BatchState, Progress, QueryRecord, SiteRecord, StateChange
from planner.access.grants import Grant, Owner
from planner.graph.ids import TaskId
from planner.handover.model import Lineage
from planner.leases import Framework, Lease, Slot
from planner.relations.catalog import Function, Relation
from planner.values.privileges import Privilege

INCARNATIONS_KEPT = 100
"""The number of an agent's starts that are remembered for each site: after so many, a displaced one is long gone."""


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    id: str
    version: int
    """The version of the newest assignment given to any site."""


@dataclass(frozen=True, slots=True)
class StoredLeases:
    """All leases, as they were last stored."""

    leases: tuple[Lease, ...] = ()
    """Ordered by slot."""
    fencing: int = 0
    """The last fencing number given."""
    alive_at: datetime | None = None
    """When the master was last known to be running; None: it never held a lease."""


@dataclass(frozen=True, slots=True)
class LeaseUpdate:
    """Changes of some slots' leases."""

    held: tuple[Lease, ...]
    """New and renewed leases; each replaces its slot's."""
    freed: tuple[Slot, ...]
    fencing: int
    """The last fencing number given."""
    alive_at: datetime


@dataclass(frozen=True, slots=True)
class StoreFigures:
    """The store's figures."""

    size_bytes: int = 0
    """The size of the state file."""
    errors: int = 0
    """Transactions that failed since the start."""
    commits: Mapping[tuple[str, ...], Distribution] = field(default_factory=dict)
    """The durations of transactions since the start, until they were durable."""


class ClusterStore(Protocol):
    """The cluster, and the version of the assignment that each site was last given."""

    def cluster(self, proposed_id: str) -> ClusterRecord:
        """The cluster; a store without one adopts the proposed id."""
        ...

    def assignment_marks(self) -> tuple[AssignmentMark, ...]:
        """All marks, by site."""
        ...

    def put_assignment_marks(self, marks: Iterable[AssignmentMark]) -> None:
        """Replace the marks of these sites; the cluster's version becomes the largest one."""
        ...


class RelationStore(Protocol):
    """The catalog."""

    def relations(self) -> tuple[Relation, ...]:
        """All relations, by name."""
        ...

    def put_relation(self, relation: Relation) -> None:
        """Add a relation, or replace the one of that name (names ignore case)."""
        ...

    def delete_relation(self, name: str) -> None: ...

    def functions(self) -> tuple[Function, ...]:
        """All functions, by name."""
        ...

    def put_function(self, function: Function) -> None:
        """Add a function, or replace the one of that name (names ignore case)."""
        ...

    def delete_function(self, name: str) -> None: ...


class QueryStore(Protocol):
    """Queries, the logs of their states, and whether they were restored from a backup."""

    def next_query_number(self) -> int:
        """The next number: 1, 2, ...; never the same twice."""
        ...

    def last_query_number(self) -> int:
        """The last number given; 0 before the first."""
        ...

    def queries(self) -> tuple[QueryRecord, ...]:
        """All queries, in order of submission."""
        ...

    def placement(self) -> Mapping[TaskId, str]:
        """The site of each task that was placed."""
        ...

    def running_version(self) -> int:
        """The number of calls of `put_query` and `put_lineage`."""
        ...

    def put_query(
        self,
        record: QueryRecord,
        change: StateChange,
        placement: Mapping[TaskId, str],
        lineages: Sequence[Lineage] = (),
    ) -> int:
        """Add or replace the query, log its state, place these tasks and replace these lineages, all or nothing.

        Returns the version after that.
        """
        ...

    def lineages(self) -> Mapping[TaskId, Lineage]:
        """Return, by place, the tasks that were in it, where there was more than one or a handover is under way."""
        ...

    def put_lineage(self, lineage: Lineage, placement: Mapping[TaskId, str]) -> int:
        """Add or replace the lineage of a place, and place these tasks; returns the version after that."""
        ...

    def put_progress(self, progress: Mapping[str, Progress]) -> None:
        """Store progress by query id; unknown ids are ignored."""
        ...

    def put_batch(self, query_id: str, batch: BatchState) -> None:
        """Store the states of a batch query's tasks; an unknown id is ignored."""
        ...

    def delete_queries(self, query_ids: Collection[str], unplaced: Collection[TaskId]) -> None:
        """Delete queries, their logs, and the sites and lineages of these tasks; unknown ids are ignored."""
        ...

    def changes(self, query_id: str) -> tuple[StateChange, ...]:
        """The query's log, oldest first."""
        ...

    def restored_from(self) -> datetime | None:
        """The time of the backup that the state was restored from; None: there was none, or that is settled."""
        ...

    def settle_restored(self) -> None:
        """Record that the queries of a restored state are settled."""
        ...


class SiteStore(Protocol):
    """Sites and their agents."""

    def sites(self) -> tuple[SiteRecord, ...]:
        """Sites whose agent has registered, by name."""
        ...

    def put_site(self, record: SiteRecord) -> None:
        """Add or replace a site; its incarnation becomes a seen one (INCARNATIONS_KEPT for each site)."""
        ...

    def put_last_reports(self, last_reports: Mapping[str, datetime]) -> None:
        """Store times of last reports, by site; unknown sites are ignored."""
        ...

    def draining(self) -> Mapping[str, datetime]:
        """The draining sites, each with the time since when."""
        ...

    def put_draining(self, site: str, since: datetime | None) -> None:
        """Record that the site has been draining since that time; None: it is not draining."""
        ...

    def incarnation_seen(self, site: str, incarnation: str) -> bool:
        """Whether that agent has ever registered."""
        ...


class LeaseStore(Protocol):
    """Leases of slots, and the frameworks that hold them."""

    def leases(self) -> StoredLeases: ...

    def put_leases(self, update: LeaseUpdate) -> None:
        """Store all of the update, or nothing."""
        ...

    def frameworks(self) -> tuple[Framework, ...]:
        """All frameworks, by name."""
        ...

    def put_framework(self, framework: Framework) -> None:
        """Add a framework, or replace the one of that name."""
        ...


class AccessStore(Protocol):
    """Tokens, and rights on relations."""

    def tokens(self) -> tuple[TokenRecord, ...]:
        """All tokens, by id; including revoked and expired ones."""
        ...

    def put_token(self, record: TokenRecord) -> None:
        """Add a token, or replace the one of that id."""
        ...

    def grants(self) -> tuple[Grant, ...]:
        """All grants, by relation, privilege and role."""
        ...

    def put_grant(self, grant: Grant) -> None:
        """Add a grant, or replace the one of that relation, privilege and role."""
        ...

    def delete_grant(self, relation: str, privilege: Privilege, role: str) -> None: ...

    def owners(self) -> Mapping[str, Owner]:
        """Owners by relation, in lower case."""
        ...

    def put_owner(self, relation: str, owner: Owner) -> None: ...

    def forget_relation(self, relation: str) -> None:
        """Delete the owner of a relation and all grants on it."""
        ...


class Store(ClusterStore, RelationStore, QueryStore, SiteStore, LeaseStore, AccessStore, Protocol):
    """All ports, and their file."""

    def figures(self) -> StoreFigures: ...

    def close(self) -> None: ...
