"""Traces by OpenTelemetry, where a collector is named and the extra `otel` installed; else none, at no cost."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

logger = logging.getLogger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
SAMPLED_ONE_IN = 100
"""Of repeated work, one span in this many is sent."""

_tracer: Any = None
_passed: Counter[str] = Counter()


@contextmanager
def tracing(role: str, environment: Mapping[str, str]) -> Iterator[None]:
    """Send the spans of the block to the collector that the environment names, if it names one.

    `role` is the last part of the service's name. What is not sent yet is sent at the end.
    """
    global _tracer
    provider = _provider(role) if any(environment.get(name) for name in ENDPOINTS) else None
    if provider is None:
        yield
        return
    _tracer = provider.get_tracer("selat")
    try:
        yield
    finally:
        _tracer = None
        provider.shutdown()


def span(name: str, /, **attributes: str) -> AbstractContextManager[object]:
    """A span around a piece of work; inside another span, its child."""
    if _tracer is None:
        return nullcontext()
    found: AbstractContextManager[object] = _tracer.start_as_current_span(
        name, attributes={f"selat.{key}": value for key, value in attributes.items() if value}
    )
    return found


def sampled_span(name: str, /, **attributes: str) -> AbstractContextManager[object]:
    """A span around repeated work: made the first time, then once in `SAMPLED_ONE_IN` times."""
    if _tracer is None:
        return nullcontext()
    _passed[name] += 1
    return span(name, **attributes) if _passed[name] % SAMPLED_ONE_IN == 1 else nullcontext()


def _provider(role: str) -> Any:
    """The provider of spans; None, with a warning in the log, where OpenTelemetry is not installed."""
    try:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        logger.warning("no traces: a collector is named, but OpenTelemetry is not installed; pip install 'selat[otel]'")
        return None
    provider = TracerProvider(resource=Resource.create({"service.name": f"selat-{role}"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
