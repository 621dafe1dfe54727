"""EXPLAIN ANALYZE for people: the values of `master.statements.analyze` as tables of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from contract.figures import FIGURES, Unit

_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB")


def analyze_text(measured: dict[str, Any]) -> str:
    """What `analyze_json` gave, in lines."""
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
    yield "Result"
    result = measured["result"]
    held = f"{_count(result['rows'])} rows, {_size(result['bytes'])} at {result['gateway']}"
    yield f"  {held}, watermark {_watermark(result)}{', complete' if result['complete'] else ''}"


def _stage(stage: dict[str, Any], planned: dict[str, Any]) -> Iterator[str]:
    of = f" of {planned['relation']}" if planned["relation"] else ""
    yield f"  {stage['id']}: {stage['kind']}{of}"
    yield from (f"    {line}" for line in _table(_TASK_TITLES, map(_task_cells, stage["tasks"])))
    operators = [
        (task["site"], o["operator"], _count(o["rows_out"]), _rate(o["rows_in_per_s"]), _rate(o["rows_out_per_s"]))
        for task in stage["tasks"]
        for o in task["operators"]
    ]
    if operators:
        yield "    operators fused in it"
        yield from (f"      {line}" for line in _table(_OPERATOR_TITLES, operators))
    if stage["spread"] is not None:
        yield f"    {_spread(stage['spread'])}"
    yield from (f"    {task['site']}: {task['reason']}" for task in stage["tasks"] if task["reason"])


_TASK_TITLES = ("site", "state", *(figure.column.replace("_", " ") for figure in FIGURES), "watermark")
_OPERATOR_TITLES = ("site", "operator", "rows out", "in/s", "out/s")
_LINK_TITLES = ("from", "to", "expected", "measured", "ratio", "of bandwidth", "moved", "epochs")


def _task_cells(task: dict[str, Any]) -> tuple[str, ...]:
    return (
        task["site"],
        task["state"],
        *(_written(task[figure.name], figure.traits.unit) for figure in FIGURES),
        _watermark(task),
    )


def _spread(spread: dict[str, Any]) -> str:
    parts = [f"hottest {spread['hottest_site']} ({spread['busy_ratio_max']:.0%}, least {spread['busy_ratio_min']:.0%})"]
    if spread["slowest_site"] is not None:
        parts.append(f"slowest {spread['slowest_site']} (watermark {_seconds(spread['watermark_spread_s'])} behind)")
    if spread["most_lag_site"] is not None:
        parts.append(f"most lag {spread['most_lag_site']} ({_count(spread['lag_rows_max'])} rows)")
    return ", ".join(parts)


def _links(links: Sequence[dict[str, Any]]) -> Iterator[str]:
    if not links:
        yield "  nothing crosses between sites"
        return
    yield from (f"  {line}" for line in _table(_LINK_TITLES, map(_link_cells, links)))


def _link_cells(link: dict[str, Any]) -> tuple[str, ...]:
    expected, ratio, bandwidth = (
        link[name] for name in ("expected_bytes_per_s", "measured_to_expected", "bandwidth_bytes_per_s")
    )
    return (
        link["from"],
        link["to"],
        "-" if expected is None else f"{_size(expected)}/s",
        f"{_size(link['bytes_per_s'])}/s",
        "-" if ratio is None else f"{ratio:.3g}",
        f"{100 * link['bytes_per_s'] / bandwidth:.3g} %" if bandwidth else "-",
        _size(link["bytes"]),
        _count(link["epochs"]),
    )


def _watermark(part: dict[str, Any]) -> str:
    if part["watermark"] is None:
        return "ended" if part["watermark_ended"] else "-"
    return f"{part['watermark'][:19].replace('T', ' ')}, {_seconds(part['watermark_delay_s'])} behind"


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as their widest cell; numbers to the right."""
    lines = [tuple(titles), *(tuple(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(titles))]
    for line in lines:
        cells = (_aligned(cell, width) for cell, width in zip(line, widths, strict=True))
        yield "  ".join(cells).rstrip()


def _aligned(cell: str, width: int) -> str:
    return cell.rjust(width) if cell[:1].isdigit() else cell.ljust(width)


def _written(value: float, unit: Unit) -> str:
    match unit:
        case Unit.BYTES:
            return _size(value)
        case Unit.BYTES_PER_S:
            return f"{_size(value)}/s"
        case Unit.ROWS_PER_S:
            return f"{_rate(value)}/s"
        case Unit.RATIO:
            return f"{value:.0%}"
        case _:
            return _count(int(value))


def _count(number: int) -> str:
    return f"{number:,}"


def _rate(rate: float) -> str:
    return f"{rate:,.1f}"


def _size(size: float) -> str:
    value, unit = float(size), 0
    while round(value, 1) >= 1000 and unit < len(_BYTE_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.0f} B" if unit == 0 else f"{value:.1f} {_BYTE_UNITS[unit]}"


def _seconds(seconds: float) -> str:
    if abs(seconds) < 120:
        return f"{seconds:.1f} s"
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if abs(seconds) >= length * 2 or unit == "min":
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:.1f} s"
