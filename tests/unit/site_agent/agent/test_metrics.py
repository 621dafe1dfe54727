"""An agent's metrics, from what its sites know."""

from __future__ import annotations

from dataclasses import replace

from contract.tasks import TaskState
from machine.durations import Durations
from site_agent.agent.disk_use import DiskUse
from site_agent.agent.measures import Measured
from site_agent.agent.memory import HeapUse, MemoryUse
from site_agent.agent.metrics import AGENT_METRICS, AgentMetrics, SiteFigures
from site_agent.ingest import StreamLog
from site_agent.tasks.progress import TaskStatus

MAP = TaskStatus(
    task_id="q-1.map-0.us",
    query_id="q-1",
    stage_id="map",
    state=TaskState.RUNNING,
    reason="",
    next_epoch=1,
    rows_in=5,
    rows_out=3,
    bytes_out=70,
    input_bytes=900,
    busy_ratio=0.25,
    epochs=1,
    retained_bytes=70,
    watermark_us=5_000_000,
    failures=2,
)


def series(*sites: SiteFigures) -> dict[str, float]:
    found: dict[str, float] = {}
    for family in AgentMetrics([lambda site=site: site for site in sites]).families():  # type: ignore[misc]
        for sample in family.samples:
            key = " ".join((sample.name, *sample.labels.values()))
            assert key not in found, "a series is there twice"
            found[key] = sample.value
    return found


def test_the_tasks_of_a_stage_are_added_up() -> None:
    other = replace(MAP, task_id="q-1.map-1.us", state=TaskState.ENDED, watermark_us=None)
    found = series(SiteFigures("us", tasks=(MAP, other)))
    assert found["selat_task_rows_in_total q-1 map us"] == 10
    assert found["selat_task_input_bytes_total q-1 map us"] == 1800
    assert found["selat_task_failures_total q-1 map us"] == 4
    assert found["selat_task_busy_ratio q-1 map us"] == 0.25
    assert found["selat_task_state q-1 map us running"] == 1
    assert found["selat_task_state q-1 map us ended"] == 1
    assert found["selat_task_state q-1 map us retrying"] == 0
    assert found["selat_task_watermark_timestamp_seconds q-1 map us"] == 5


def test_the_end_of_time_is_no_watermark() -> None:
    ended = replace(MAP, watermark_us=2**63 - 1)
    found = series(SiteFigures("us", tasks=(ended,)))
    assert not [key for key in found if "watermark" in key]


def test_memory_is_the_processs_and_told_once() -> None:
    measured = Measured(
        MemoryUse(100, 200, HeapUse(10, 20, 40), sites=2),
        (StreamLog("clicks", 5, 6, 7, 8, 9, False, "full"),),
        DiskUse({"q-1": 30}, 1, 2, 0, 1000),
    )
    found = series(SiteFigures("us", ready=True, measured=measured), SiteFigures("eu", measured=measured))
    assert (found["selat_jvm_heap_used_bytes"], found["selat_agent_resident_bytes"]) == (10, 100)
    assert (found["selat_disk_kept_bytes us"], found["selat_disk_free_bytes eu"]) == (33, 1000)
    assert "selat_disk_budget_bytes us" not in found
    assert (found["selat_push_blocked us clicks"], found["selat_push_rows_total us clicks"]) == (1, 8)
    assert (found["selat_agent_ready us"], found["selat_agent_ready eu"]) == (1, 0)


def test_epochs_and_links() -> None:
    durations = Durations()
    durations.observe(0.3, "source")
    found = series(SiteFigures("us", received={"eu": (500, 3)}, epochs=durations.read()))
    assert found["selat_epoch_duration_seconds_count us source"] == 1
    assert found["selat_link_received_bytes_total eu us"] == 500
    assert found["selat_link_received_epochs_total eu us"] == 3


def test_names_tell_types_and_units() -> None:
    names = [metric.name for metric in AGENT_METRICS]
    assert len(set(names)) == len(names)
    for metric in AGENT_METRICS:
        assert metric.name.endswith("_total") == (metric.kind.value == "counter")
        assert metric.unit != "seconds" or "seconds" in metric.name
        assert metric.unit != "bytes" or "bytes" in metric.name
