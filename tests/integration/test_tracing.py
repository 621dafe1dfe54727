"""Traces arrive at a collector that speaks OTLP over gRPC, of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from machine import tracing


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps what it is sent."""

    def __init__(self) -> None:
        self.requests: list[pb.ExportTraceServiceRequest] = []

    def Export(self, request: pb.ExportTraceServiceRequest, context: Any) -> pb.ExportTraceServiceResponse:
        self.requests.append(request)
        return pb.ExportTraceServiceResponse()

    @property
    def services(self) -> set[str]:
        return {
            attribute.value.string_value
            for request in self.requests
            for resource in request.resource_spans
            for attribute in resource.resource.attributes
            if attribute.key == "service.name"
        }

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@contextmanager
def collecting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    collector = Collector()
    server = grpc.server(ThreadPoolExecutor(2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    try:
        yield collector
    finally:
        server.stop(None).wait()


def test_spans_arrive_with_their_parents_and_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    with collecting(monkeypatch) as collector:
        with tracing.tracing("master", {"OTEL_EXPORTER_OTLP_ENDPOINT": "as above"}):
            with tracing.span("submit", name=""), tracing.span("deploy", query="q-1"):
                pass
            for _ in range(tracing.SAMPLED_ONE_IN + 1):
                with tracing.sampled_span("epoch", task="t"):
                    pass
        spans = {span.name: span for span in collector.spans}
    assert collector.services == {"selat-master"}
    assert [span.name for span in collector.spans].count("epoch") == 2
    assert spans["deploy"].parent_span_id == spans["submit"].span_id
    assert not spans["submit"].attributes
    assert [(a.key, a.value.string_value) for a in spans["deploy"].attributes] == [("selat.query", "q-1")]


def test_without_a_collector_there_are_no_spans() -> None:
    with tracing.tracing("master", {}), tracing.span("submit") as made:
        assert made is None
