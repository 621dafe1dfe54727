"""Families that are described as data."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from machine.durations import Durations
from machine.metrics import Kind, Metric, Sheet, markdown

TABLE = (
    Metric("selat_rows_total", Kind.COUNTER, ("query",), "rows", "Rows."),
    Metric("selat_up", Kind.GAUGE, (), "", "1 when up."),
    Metric("selat_state", Kind.GAUGE, ("site", "state"), "", "1 for the state that holds."),
    Metric("selat_epoch_seconds", Kind.HISTOGRAM, ("kind",), "seconds", "Epochs."),
    Metric("selat_never", Kind.GAUGE, (), "", "Never told."),
)


def exposed(sheet: Sheet) -> list[str]:
    class Told(Collector):
        def collect(self) -> object:  # type: ignore[override]
            return sheet.families()

    registry = CollectorRegistry()
    registry.register(Told())
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


def test_series_have_the_names_of_the_table() -> None:
    sheet = Sheet(TABLE)
    sheet.put("selat_rows_total", 3, "q-1")
    sheet.put("selat_up", 1)
    sheet.put_one_of("selat_state", ("alive", "gone"), "alive", "us")
    assert exposed(sheet) == [
        'selat_rows_total{query="q-1"} 3.0',
        "selat_up 1.0",
        'selat_state{site="us",state="alive"} 1.0',
        'selat_state{site="us",state="gone"} 0.0',
    ]


def test_texts_of_users_cannot_make_up_series() -> None:
    sheet = Sheet(TABLE)
    sheet.put("selat_rows_total", 3, 'x"} 1\nselat_up 1 #\\')
    assert exposed(sheet) == ['selat_rows_total{query="x\\"} 1\\nselat_up 1 #\\\\"} 3.0']


def test_a_histogram_ends_with_all() -> None:
    durations = Durations((0.5, 1.0))
    durations.observe(0.7, "source")
    durations.observe(9.0, "source")
    sheet = Sheet(TABLE)
    sheet.put_durations("selat_epoch_seconds", durations.read())
    assert exposed(sheet) == [
        'selat_epoch_seconds_bucket{kind="source",le="0.5"} 0.0',
        'selat_epoch_seconds_bucket{kind="source",le="1"} 1.0',
        'selat_epoch_seconds_bucket{kind="source",le="+Inf"} 2.0',
        'selat_epoch_seconds_count{kind="source"} 2.0',
        'selat_epoch_seconds_sum{kind="source"} 9.7',
    ]


def test_what_is_not_in_the_table_cannot_be_told() -> None:
    with pytest.raises(KeyError):
        Sheet(TABLE).put("selat_other", 1)


def test_the_table_for_people() -> None:
    assert markdown(TABLE[:1]).splitlines() == [
        "| name | type | labels | unit | meaning |",
        "|---|---|---|---|---|",
        "| `selat_rows_total` | counter | `query` | rows | Rows. |",
    ]
