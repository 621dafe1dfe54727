"""Converts registrations and heartbeats of agents to values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from google.protobuf.message import Message

from contract.figures import figures_of, put_figures
from contract.handover import handover_from_proto
from contract.tasks import TASK_STATES, TASK_STATES_BACK, TaskState
from master.base.errors import InvalidRequestError
from master.records.model import (
    ChannelUse,
    DiskUse,
    InputStatus,
    LinkUse,
    MemoryUse,
    OperatorStatus,
    QueryBehind,
    ResultStatus,
    SiteRecord,
    SiteReport,
    StreamLog,
    TaskStatus,
)
from planner.graph.ids import TaskId
from planner.sharing.vertices import RESULTS
from planner.values.topology import MOST_SLOTS
from selat.v1 import common_pb2, site_pb2

M = TypeVar("M")
V = TypeVar("V")

LARGEST_COUNT = 2**53
"""Counts of rows and bytes stay far below; the sum of a thousand of them fits 64 bits, and JSON keeps each exactly."""
_INSTANTS = ("watermark_us", "starts_at_us")

# Fields that have the same name and type in message and value.
_TASK_FIELDS = ("query_id", "stage_id", "site", "reason", "next_epoch")
_OPERATOR_FIELDS = ("name", "rows_out", "rows_out_per_s")
_BEHIND_FIELDS = ("query_id", "bytes", "sites", "left")
_MEMORY_FIELDS = ("agent_bytes", "jvm_bytes", "heap_used_bytes", "heap_committed_bytes", "heap_max_bytes", "sites")
_LOG_FIELDS = ("stream", "size_bytes", "rows", "batches", "rows_stored", "limit_bytes", "ended", "reason")
_DISK_FIELDS = ("replay_bytes", "stream_log_bytes", "budget_bytes", "free_bytes")
_USE_FIELDS = ("query_id", "from_site", "bytes", "epochs", "readers")
_INPUT_FIELDS = ("stored_epoch", "next_epoch", "waiting_rows", "taken_rows")
_RESULT_FIELDS = ("query_id", "rows", "bytes", "complete")
_LINK_FIELDS = ("from_site", "to_site", "bytes", "epochs", "bytes_per_s")


def task_status_to_proto(status: TaskStatus) -> site_pb2.TaskStatus:
    message = site_pb2.TaskStatus(
        **_shared(status, _TASK_FIELDS),
        task_id=str(status.task_id),
        state=TASK_STATES[status.state],
        watermark_us=status.watermark_us,
        missed_inputs=map(str, status.missed_inputs),
        starts_at_us=status.starts_at_us,
        operators=[site_pb2.OperatorStatus(**_shared(o, _OPERATOR_FIELDS)) for o in status.operators],
        behind=[site_pb2.QueryBehind(**_shared(b, _BEHIND_FIELDS)) for b in status.behind],
    )
    put_figures(message, status)
    return message


def task_status_from_proto(message: site_pb2.TaskStatus) -> TaskStatus:
    """The status of a task. A missing state counts as STARTING. Raises ValueError for an invalid id."""
    return TaskStatus(
        **_shared(message, _TASK_FIELDS),
        **figures_of(message),
        task_id=TaskId.parse(message.task_id),
        state=TASK_STATES_BACK.get(message.state, TaskState.STARTING),
        watermark_us=_optional_watermark(message),
        missed_inputs=tuple(map(TaskId.parse, message.missed_inputs)),
        starts_at_us=_optional_start(message),
        operators=tuple(OperatorStatus(**_shared(o, _OPERATOR_FIELDS)) for o in message.operators),
        behind=tuple(QueryBehind(b.query_id, b.bytes, tuple(b.sites), b.left) for b in message.behind),
        handover=handover_from_proto(message.handover) if message.HasField("handover") else None,
    )


def result_status_from_proto(message: site_pb2.ResultStatus) -> ResultStatus:
    return ResultStatus(
        **_shared(message, _RESULT_FIELDS),
        watermark_us=_optional_watermark(message),
        starts_at_us=_optional_start(message),
    )


def link_to_proto(link: LinkUse) -> common_pb2.LinkUse:
    return common_pb2.LinkUse(**_shared(link, _LINK_FIELDS))


def memory_to_proto(memory: MemoryUse) -> site_pb2.MemoryUse:
    return site_pb2.MemoryUse(**_shared(memory, _MEMORY_FIELDS))


def stream_log_to_proto(log: StreamLog) -> site_pb2.StreamLog:
    return site_pb2.StreamLog(**_shared(log, _LOG_FIELDS))


def disk_to_proto(disk: DiskUse) -> site_pb2.DiskUse:
    return site_pb2.DiskUse(**_shared(disk, _DISK_FIELDS), query_bytes=disk.query_bytes)


def _disk_from_proto(message: site_pb2.DiskUse) -> DiskUse:
    return DiskUse(**_shared(message, _DISK_FIELDS), query_bytes=dict(message.query_bytes))


def report_from_proto(message: site_pb2.ReportRequest) -> SiteReport:
    """The report. Raises InvalidRequestError for numbers that cannot be counts."""
    operators = (operator for task in message.tasks for operator in task.operators)
    behind = (item for task in message.tasks for item in task.behind)
    for part in (
        message,
        message.memory,
        message.disk,
        *message.tasks,
        *operators,
        *behind,
        *message.channels,
        *message.results,
        *message.links,
        *message.stream_logs,
        *message.inputs,
    ):
        _check_numbers(part, site=message.site)
    return SiteReport(
        site=message.site,
        incarnation=message.incarnation,
        assignment_version=message.assignment_version,
        tasks=tuple(_known(task_status_from_proto, message.tasks)),
        channels=tuple(_known(_use_from_proto, message.channels)),
        results=tuple(result_status_from_proto(r) for r in message.results),
        links=tuple(LinkUse(**_shared(link, _LINK_FIELDS)) for link in message.links),
        memory_bytes=message.memory_bytes,
        memory=MemoryUse(**_shared(message.memory, _MEMORY_FIELDS)),
        stream_logs=tuple(StreamLog(**_shared(log, _LOG_FIELDS)) for log in message.stream_logs),
        disk=_disk_from_proto(message.disk),
        inputs=tuple(_known(_input_from_proto, message.inputs)),
    )


def _known(convert: Callable[[M], V], messages: Iterable[M]) -> Iterator[V]:
    """Without statuses whose task id is not one of this version: an agent may still have tasks of an earlier one."""
    for message in messages:
        with suppress(ValueError):
            yield convert(message)


def _use_from_proto(message: site_pb2.ChannelUse) -> ChannelUse:
    return ChannelUse(TaskId.parse(message.channel), **_shared(message, _USE_FIELDS))


def _input_from_proto(message: site_pb2.InputStatus) -> InputStatus:
    """Raises ValueError for an invalid id."""
    return InputStatus(
        _reader(message.reader),
        TaskId.parse(message.channel),
        **_shared(message, _INPUT_FIELDS),
        watermark_us=message.watermark_us if message.HasField("watermark_us") else None,
    )


def _reader(text: str) -> TaskId:
    """Of results the agent knows the query alone, and which of its copies it is not."""
    query = text.removeprefix("results:")
    return TaskId.parse(text) if query == text else TaskId(query, RESULTS)


def registration_from_proto(message: site_pb2.RegisterRequest) -> SiteRecord:
    """The registration. Raises InvalidRequestError when something is missing."""
    missing = [name for name in ("site", "address", "incarnation") if not getattr(message, name)]
    if missing:
        raise InvalidRequestError(f"a registration needs {' and '.join(missing)}", ids={"site": message.site})
    if not 0 <= message.slots <= MOST_SLOTS:
        raise InvalidRequestError(
            f"site {message.site} cannot have {message.slots} slots",
            hint=f"it has to be from 1 to {MOST_SLOTS}, or 0 for the topology's number",
            ids={"site": message.site},
        )
    return SiteRecord(
        name=message.site,
        address=message.address,
        incarnation=message.incarnation,
        slots=message.slots,
        version=message.version,
    )


def _check_numbers(message: Message, *, site: str) -> None:
    for field, value in message.ListFields():
        # Most fields are numbers in their range. NaN fails every comparison.
        if isinstance(value, int | float) and 0 <= value <= LARGEST_COUNT:
            continue
        if isinstance(value, str) or field.name in _INSTANTS or field.enum_type is not None:
            continue
        if wrong := [number for number in _numbers(value) if not 0 <= number <= LARGEST_COUNT]:
            raise InvalidRequestError(
                f"{message.DESCRIPTOR.name}.{field.name} of site {site} is {wrong[0]}",
                hint=f"it has to be from 0 to {LARGEST_COUNT}",
                ids={"site": site},
            )


def _numbers(value: object) -> Iterable[int | float]:
    """The numbers in a field: of a map, its values."""
    found = value.values() if isinstance(value, Mapping) else (value,)
    return (number for number in found if isinstance(number, int | float))


def _shared(value: object, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def _optional_watermark(message: site_pb2.TaskStatus | site_pb2.ResultStatus) -> int | None:
    return message.watermark_us if message.HasField("watermark_us") else None


def _optional_start(message: site_pb2.TaskStatus | site_pb2.ResultStatus) -> int | None:
    return message.starts_at_us if message.HasField("starts_at_us") else None
