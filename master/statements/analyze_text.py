"""EXPLAIN ANALYZE for people: the values of `master.statements.analyze` as tables of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from master.statements.analyze import LINKS, OPERATORS, TASKS
from master.statements.columns import count, size, table


def analyze_text(measured: dict[str, Any]) -> str:
    """The lines of text for what `analyze_json` returned."""
    return "\n".join(_lines(measured))


def _lines(measured: dict[str, Any]) -> Iterator[str]:
    name = f" ({measured['name']})" if measured["name"] else ""
    reason = f": {measured['reason']}" if measured["reason"] else ""
    yield f"Query {measured['query']}{name}, {measured['state']} for {_seconds(measured['running_s'])}{reason}"
    yield "Logical plan"
    yield from (f"  {line}" for line in measured["plan"]["logical"])
    yield "Stages"
    for stage, planned in zip(measured["stages"], measured["plan"]["stages"], strict=True):
        yield from _stage(stage, planned)
    yield "Links"
    yield from _links(measured["links"])
    yield "Adaptation"
    yield f"  {measured['adaptation']['mode']}: {measured['adaptation']['last'] or 'nothing was decided'}"
    yield "Result"
    result = measured["result"]
    held = f"{count(result['rows'])} rows, {size(result['bytes'])} at {result['gateway']}"
    yield f"  {held}, watermark {_watermark(result)}{', complete' if result['complete'] else ''}"


def _stage(stage: dict[str, Any], planned: dict[str, Any]) -> Iterator[str]:
    of = f" of {planned['relation']}" if planned["relation"] else ""
    yield f"  {stage['id']}: {stage['kind']}{of}"
    tasks = [(*TASKS.cells(task), _watermark(task)) for task in stage["tasks"]]
    yield from (f"    {line}" for line in table((*TASKS.titles, "watermark"), tasks))
    operators = [(task["site"], *OPERATORS.cells(o)) for task in stage["tasks"] for o in task["operators"]]
    if operators:
        yield "    operators fused in it"
        yield from (f"      {line}" for line in table(("site", *OPERATORS.titles), operators))
    if stage["spread"] is not None:
        yield f"    {_spread(stage['spread'])}"
    yield from (f"    {task['site']}: {task['reason']}" for task in stage["tasks"] if task["reason"])


def _spread(spread: dict[str, Any]) -> str:
    parts = [f"hottest {spread['hottest_site']} ({spread['busy_ratio_max']:.0%}, least {spread['busy_ratio_min']:.0%})"]
    if spread["slowest_site"] is not None:
        parts.append(f"slowest {spread['slowest_site']} (watermark {_seconds(spread['watermark_spread_s'])} behind)")
    if spread["most_lag_site"] is not None:
        parts.append(f"most lag {spread['most_lag_site']} ({count(spread['lag_rows_max'])} rows)")
    return ", ".join(parts)


def _links(links: Sequence[dict[str, Any]]) -> Iterator[str]:
    if not links:
        yield "  nothing crosses between sites"
        return
    yield from (f"  {line}" for line in table(LINKS.titles, [LINKS.cells(link) for link in links]))


def _watermark(part: dict[str, Any]) -> str:
    if part["watermark"] is None:
        return "ended" if part["watermark_ended"] else "-"
    return f"{part['watermark'][:19].replace('T', ' ')}, {_seconds(part['watermark_delay_s'])} behind"


def _seconds(seconds: float) -> str:
    if abs(seconds) < 120:
        return f"{seconds:.1f} s"
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if abs(seconds) >= length * 2 or unit == "min":
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:.1f} s"
