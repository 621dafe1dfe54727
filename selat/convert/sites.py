"""Sites, their tasks, and what they use."""

from __future__ import annotations

from datetime import timedelta

from contract.figures import figures_of
from selat.convert.times import to_datetime
from selat.v1 import common_pb2, site_pb2
from selat.values import (
    DiskUse,
    Link,
    LinkUse,
    Location,
    MemoryUse,
    Site,
    SiteState,
    SiteWork,
    StreamLog,
    TaskState,
    TaskStatus,
)

TASK_STATES = {
    site_pb2.TASK_STATE_STARTING: TaskState.STARTING,
    site_pb2.TASK_STATE_RUNNING: TaskState.RUNNING,
    site_pb2.TASK_STATE_BACK_PRESSURED: TaskState.BACK_PRESSURED,
    site_pb2.TASK_STATE_RETRYING: TaskState.RETRYING,
    site_pb2.TASK_STATE_ENDED: TaskState.ENDED,
    site_pb2.TASK_STATE_FAILED: TaskState.FAILED,
    site_pb2.TASK_STATE_PAUSED: TaskState.PAUSED,
}


SITE_STATES = {
    site_pb2.SITE_STATE_EXPECTED: SiteState.EXPECTED,
    site_pb2.SITE_STATE_ALIVE: SiteState.ALIVE,
    site_pb2.SITE_STATE_UNREACHABLE: SiteState.UNREACHABLE,
}


def link_use(message: common_pb2.LinkUse) -> LinkUse:
    return LinkUse(message.from_site, message.to_site, message.bytes, message.epochs, message.bytes_per_s)


def task_status(message: site_pb2.TaskStatus) -> TaskStatus:
    return TaskStatus(
        task_id=message.task_id,
        query_id=message.query_id,
        stage_id=message.stage_id,
        site=message.site,
        state=TASK_STATES.get(message.state, TaskState.UNKNOWN),
        reason=message.reason,
        watermark=to_datetime(message.watermark_us) if message.HasField("watermark_us") else None,
        **figures_of(message),
    )


def site(message: site_pb2.Site) -> Site:
    return Site(
        name=message.name,
        state=SITE_STATES.get(message.state, SiteState.UNKNOWN),
        address=message.address,
        slots=message.slots,
        version=message.version,
        last_report=to_datetime(message.last_report_us) if message.HasField("last_report_us") else None,
        memory_bytes=message.memory_bytes,
        memory=_memory(message.memory),
        gateway=message.gateway,
        tasks=tuple(map(task_status, message.tasks)),
        links=tuple(map(link_use, message.links)),
        outgoing=tuple(
            Link(o.from_site, o.to_site, o.bandwidth_bytes_per_s, timedelta(seconds=o.latency_s))
            for o in message.outgoing
        ),
        stream_logs=tuple(map(_stream_log, message.stream_logs)),
        draining_since=to_datetime(message.draining_since_us) if message.HasField("draining_since_us") else None,
        work=tuple(map(_site_work, message.work)),
        disk=_disk(message.disk) if message.HasField("disk") else None,
        label=message.label,
        location=Location(message.location.lat, message.location.lon) if message.HasField("location") else None,
    )


def _disk(message: site_pb2.DiskUse) -> DiskUse:
    return DiskUse(
        query_bytes=dict(sorted(message.query_bytes.items())),
        replay_bytes=message.replay_bytes,
        stream_log_bytes=message.stream_log_bytes,
        budget_bytes=message.budget_bytes,
        free_bytes=message.free_bytes,
    )


def _site_work(message: site_pb2.SiteWork) -> SiteWork:
    return SiteWork(
        kind=message.kind,
        query_id=message.query_id,
        task_id=message.task_id,
        subject=message.subject,
        movable=message.movable,
        reason=message.reason,
    )


def _stream_log(message: site_pb2.StreamLog) -> StreamLog:
    return StreamLog(
        stream=message.stream,
        size_bytes=message.size_bytes,
        rows=message.rows,
        batches=message.batches,
        rows_stored=message.rows_stored,
        limit_bytes=message.limit_bytes,
        ended=message.ended,
        reason=message.reason,
    )


def _memory(message: site_pb2.MemoryUse) -> MemoryUse:
    return MemoryUse(
        agent_bytes=message.agent_bytes,
        jvm_bytes=message.jvm_bytes,
        heap_used_bytes=message.heap_used_bytes,
        heap_committed_bytes=message.heap_committed_bytes,
        heap_max_bytes=message.heap_max_bytes,
        sites=message.sites,
    )
