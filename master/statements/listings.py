"""SHOW and DESCRIBE as rows."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from master.sites.status import SiteStatus
from master.views.outcomes import Rows
from master.views.queries import QueryView
from planner.relations.catalog import Relation, RelationKind


def relation_rows(relations: Iterable[Relation], kind: RelationKind) -> Rows:
    if kind is RelationKind.STREAM:
        return Rows(
            ("name", "sites", "columns", "event_time", "watermark_delay", "comment"),
            tuple(
                (r.name, ", ".join(r.sites), _columns(r), r.event_time or "", _length(r.watermark_delay), r.comment)
                for r in relations
            ),
        )
    if kind is RelationKind.VIEW:
        return Rows(
            ("name", "columns", "definition", "comment"),
            tuple((r.name, _columns(r), " ".join(r.definition.split()), r.comment) for r in relations),
        )
    return Rows(
        ("name", "sites", "columns", "comment"),
        tuple((r.name, ", ".join(r.sites), _columns(r), r.comment) for r in relations),
    )


def query_rows(views: Iterable[QueryView]) -> Rows:
    return Rows(
        ("id", "name", "state", "owner", "submitted", "rows_in", "rows_out", "reason", "sql"),
        tuple(
            (
                v.record.id,
                v.record.name,
                v.record.state.name,
                v.record.owner,
                _instant(v.record.submitted_at),
                str(v.totals.rows_in),
                str(v.totals.rows_out),
                v.reason,
                " ".join(v.record.sql.split()),
            )
            for v in views
        ),
    )


def site_rows(sites: Iterable[SiteStatus], gateway: str) -> Rows:
    return Rows(
        ("name", "state", "slots", "tasks", "gateway", "address", "last_report"),
        tuple(
            (
                s.name,
                s.state.name,
                str(s.record.slots if s.record and s.record.slots else s.expected.slots),
                str(len(s.report.tasks)) if s.report else "0",
                "yes" if s.name == gateway else "",
                s.address,
                _instant(s.record.last_report_at if s.record else None),
            )
            for s in sites
        ),
    )


def description(relation: Relation) -> Rows:
    """Columns, event time and bindings of one stream or table; columns and query of a view."""
    rows = [("column", c.name, c.type) for c in relation.columns]
    if relation.statistics is not None:
        when = relation.statistics.analyzed_at
        how = f"analysed at {_instant(when)}" if when is not None else "as last read"
        rows.append(("rows", "", f"{relation.statistics.rows}, {how}"))
        rows += [("distinct values", name, f"about {n}") for name, n in relation.statistics.distinct.items()]
    if relation.event_time:
        behind = f"{_length(relation.watermark_delay)} behind"
        rows.append(("watermark", relation.event_time, "the site's clock" if relation.by_arrival else behind))
    for binding in relation.bindings:
        options = ", ".join(f"{key}={value}" for key, value in sorted(binding.options.items()))
        rows.append(("binding", binding.site, options))
    if relation.definition:
        rows.append(("definition", "", relation.definition))
    if relation.comment:
        rows.append(("comment", "", relation.comment))
    rows.append(("kind", "", relation.kind.value))
    return Rows(("item", "name", "value"), tuple(rows))


def _columns(relation: Relation) -> str:
    return ", ".join(f"{c.name} {c.type}" for c in relation.columns)


def _length(length: timedelta) -> str:
    return f"{length.total_seconds():g} s"


def _instant(instant: datetime | None) -> str:
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ") if instant else ""
