"""A site's report as the message that its agent sends."""

from __future__ import annotations

from dataclasses import asdict

from master.convert.reports import (
    disk_to_proto,
    link_to_proto,
    memory_to_proto,
    stream_log_to_proto,
    task_status_to_proto,
)
from master.records.model import InputStatus, SiteReport
from selat.v1 import site_pb2


def report_to_proto(report: SiteReport) -> site_pb2.ReportRequest:
    """The message that `report_from_proto` reads as an equal report."""
    return site_pb2.ReportRequest(
        site=report.site,
        incarnation=report.incarnation,
        assignment_version=report.assignment_version,
        tasks=[task_status_to_proto(task) for task in report.tasks],
        channels=[site_pb2.ChannelUse(**asdict(use) | {"channel": str(use.channel)}) for use in report.channels],
        results=[site_pb2.ResultStatus(**asdict(result)) for result in report.results],
        links=[link_to_proto(link) for link in report.links],
        memory_bytes=report.memory_bytes,
        memory=memory_to_proto(report.memory),
        stream_logs=[stream_log_to_proto(log) for log in report.stream_logs],
        disk=disk_to_proto(report.disk),
        inputs=[
            site_pb2.InputStatus(**asdict(one) | {"channel": str(one.channel), "reader": _reader(one)})
            for one in report.inputs
        ],
    )


def _reader(one: InputStatus) -> str:
    return f"results:{one.reader.query}" if one.of_results else str(one.reader)
