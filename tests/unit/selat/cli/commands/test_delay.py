"""The plot of how long after their end windows are out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from selat.cli.commands.delay import BAR_COLUMNS, Emitted, Plot, bar
from selat.client.adaptation import QueryMoment
from selat.convert.queries import query_info
from selat.v1 import query_pb2, site_pb2
from selat.values import QueryInfo

NOW = datetime(2026, 11, 1, tzinfo=UTC)


def task(stage: str, emissions: int, delay_s: float, site: str = "us") -> site_pb2.TaskStatus:
    figures = {"emissions": float(emissions), "emit_delay_s": delay_s}
    return site_pb2.TaskStatus(task_id=f"q-0001-abcdef.{stage}.p0", stage_id=stage, site=site, figures=figures)


def look(*tasks: site_pb2.TaskStatus) -> QueryInfo:
    return query_info(query_pb2.Query(id="q-0001-abcdef", tasks=tasks))


def told(plot: Plot, info: QueryInfo, history: Sequence[QueryMoment] = ()) -> list[Emitted | QueryMoment]:
    return list(plot.news(info, history, NOW))


def moment(second: int, state: str, reason: str = "") -> QueryMoment:
    return QueryMoment(NOW + timedelta(seconds=second), state, reason, None)


def test_windows_that_are_out_are_told_once_and_the_latest_of_several() -> None:
    plot = Plot()
    assert told(plot, look(task("m1", 1, 0.4), task("f1", 0, 0.0))) == [Emitted(NOW, "m1", "us", 0.4)]
    assert told(plot, look(task("m1", 1, 0.4), task("f1", 1, 1.0))) == [Emitted(NOW, "f1", "us", 1.0)]
    assert told(plot, look(task("m1", 1, 0.4), task("f1", 1, 1.0))) == []
    assert told(plot, look(task("m1", 2, 70.0), task("f1", 2, 80.0))) == [Emitted(NOW, "f1", "us", 80.0)]


def test_a_task_counts_anew_at_another_site() -> None:
    plot = Plot()
    told(plot, look(task("m1", 9, 0.4)))
    assert told(plot, look(task("m1", 1, 2.5, "eu"))) == [Emitted(NOW, "m1", "eu", 2.5)]


def test_a_moment_is_told_once_and_one_that_repeats_is_not() -> None:
    plot, history = Plot(), [moment(0, "deploying"), moment(1, "running")]
    assert told(plot, look(), history) == history
    history += [moment(2, "running"), moment(3, "paused")]
    assert told(plot, look(), history) == [history[3]]
    assert told(plot, look(), history) == []


def test_a_bar_has_a_column_for_each_part_of_the_scale_up_to_a_limit() -> None:
    delays = (0.4, 8.0, 80.0)
    bars = [bar(Emitted(NOW, "m1", "us", delay_s), 0.5) for delay_s in delays]
    assert bars == ["█", "█" * 16, "█" * BAR_COLUMNS + "+"]
