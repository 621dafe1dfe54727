"""A plan that a client of Spark Connect made itself, to run as it is over what MAPs send of its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ClientView:
    """A name that the plan, or a later view, reads: of SQL, or of a plan."""

    name: str
    sql: str = ""
    """Empty: it is a plan."""
    relation: str = ""
    """A `spark.connect.Relation`, serialized, in base64."""
    columns: tuple[str, ...] = ()
    """The names of its columns; empty: those that it has."""


@dataclass(frozen=True, slots=True)
class ClientPlan:
    """A relation, and all that its names stand for."""

    relation: str
    """A `spark.connect.Relation`, serialized, in base64."""
    views: tuple[ClientView, ...] = ()
    """Each after those that it reads."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """These are settings of Spark's session."""
    site: str = ""
    """The plan is to run at this site; empty: where the fewest bytes must be sent."""

    @property
    def moves_clock(self) -> bool:
        """Return whether texts and dates are read in another time zone than that of the sites, which is UTC."""
        return self.settings.get("spark.sql.session.timeZone", "UTC") != "UTC"


@dataclass(frozen=True, slots=True)
class ClientQuery:
    """A client's plan, and what it names, before the names are looked up."""

    plan: ClientPlan
    names: tuple[str, ...] = ()
    """It reads relations by these names, which are as written."""
    texts: tuple[str, ...] = ()
    """The SQL queries in it."""
    local: frozenset[str] = frozenset()
    """Lower-case names of relations beside SQL texts in it: they hide tables of the same name."""
