"""Sites, as clients see them."""

from __future__ import annotations

from collections.abc import Iterable

from contract.times import to_us
from master.convert.reports import (
    disk_to_proto,
    link_to_proto,
    memory_to_proto,
    stream_log_to_proto,
    task_status_to_proto,
)
from master.records.model import SiteState
from master.sites.status import SiteStatus
from planner.place.draining import Work
from planner.values.topology import Link, Location, Topology
from selat.v1 import site_pb2

_STATES = {
    SiteState.EXPECTED: site_pb2.SITE_STATE_EXPECTED,
    SiteState.ALIVE: site_pb2.SITE_STATE_ALIVE,
    SiteState.UNREACHABLE: site_pb2.SITE_STATE_UNREACHABLE,
}


def site_to_proto(status: SiteStatus, topology: Topology, work: Iterable[Work] = ()) -> site_pb2.Site:
    record, report = status.record, status.report
    last_report = record.last_report_at if record else None
    outgoing = [link for _, link in sorted(topology.links.items()) if link.source == status.name]
    return site_pb2.Site(
        name=status.name,
        state=_STATES[status.state],
        address=status.address,
        slots=record.slots if record and record.slots else status.expected.slots,
        version=record.version if record else "",
        last_report_us=to_us(last_report) if last_report else None,
        tasks=[task_status_to_proto(t) for t in report.tasks] if report else [],
        links=[link_to_proto(link) for link in status.links],
        memory_bytes=report.memory_bytes if report else 0,
        memory=memory_to_proto(report.memory) if report else None,
        stream_logs=[stream_log_to_proto(log) for log in report.stream_logs] if report else [],
        disk=disk_to_proto(report.disk) if report else None,
        gateway=status.name == topology.gateway,
        outgoing=[_link_to_proto(link) for link in outgoing],
        label=status.expected.label,
        location=_location_to_proto(status.expected.location),
        draining_since_us=to_us(status.draining_since) if status.draining_since else None,
        work=map(_work_to_proto, work),
    )


def _work_to_proto(work: Work) -> site_pb2.SiteWork:
    return site_pb2.SiteWork(
        kind=work.kind.value,
        query_id=work.query,
        task_id=work.task,
        subject=work.subject,
        movable=work.movable,
        reason=work.reason,
    )


def _location_to_proto(location: Location | None) -> site_pb2.Location | None:
    return None if location is None else site_pb2.Location(lat=location.lat, lon=location.lon)


def _link_to_proto(link: Link) -> site_pb2.Link:
    return site_pb2.Link(
        from_site=link.source,
        to_site=link.target,
        bandwidth_bytes_per_s=link.bandwidth_bytes_per_s,
        latency_s=link.latency.total_seconds(),
    )
