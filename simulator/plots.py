"""Line and bar plots as SVG files, the same bytes for the same values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes as Plot
from matplotlib.figure import Figure

from simulator.statistics import Mean

_STYLE: Any = {"svg.hashsalt": "selat", "svg.fonttype": "none", "font.size": 9.0}
"""The salt makes the files' ids the same in every run."""
_SIZE_INCHES = (5.2, 3.0)


@dataclass(frozen=True, slots=True)
class Axes:
    title: str
    x: str
    y: str


def lines(path: Path, axes: Axes, series: Mapping[str, Sequence[tuple[float, Mean]]]) -> None:
    """A line with error bars per series."""
    with mpl.rc_context(_STYLE):
        figure, plot = _begun(axes)
        for name, points in series.items():
            plot.errorbar(
                [x for x, _ in points],
                [y.value for _, y in points],
                yerr=[y.half_width for _, y in points],
                label=name,
                capsize=3,
                marker="o",
                markersize=3,
            )
        _ended(figure, plot, path, legend=len(series) > 1)


def bars(path: Path, axes: Axes, series: Mapping[str, Mapping[str, Mean]]) -> None:
    """Groups of bars with error bars: for each group along x one bar per series."""
    groups = list(dict.fromkeys(group for values in series.values() for group in values))
    width = 0.8 / len(series)
    with mpl.rc_context(_STYLE):
        figure, plot = _begun(axes)
        for number, (name, values) in enumerate(series.items()):
            plot.bar(
                [index + (number - (len(series) - 1) / 2) * width for index in range(len(groups))],
                [values[group].value for group in groups],
                width,
                yerr=[values[group].half_width for group in groups],
                label=name,
                capsize=3,
            )
        plot.set_xticks(range(len(groups)), groups)
        _ended(figure, plot, path, legend=len(series) > 1)


def cumulative(path: Path, axes: Axes, values: Sequence[float]) -> None:
    """The share of values up to each; `values` are in order."""
    with mpl.rc_context(_STYLE):
        figure, plot = _begun(axes)
        plot.step(values, [(index + 1) / len(values) for index in range(len(values))], where="post")
        _ended(figure, plot, path, legend=False)


def _begun(axes: Axes) -> tuple[Figure, Plot]:
    figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
    plot = figure.add_subplot()
    plot.set_title(axes.title, fontsize=9.0)
    plot.set_xlabel(axes.x)
    plot.set_ylabel(axes.y)
    plot.grid(visible=True, axis="y", linewidth=0.4)
    return figure, plot


def _ended(figure: Figure, plot: Plot, path: Path, *, legend: bool) -> None:
    if legend:
        plot.legend(fontsize=8.0)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="svg", metadata={"Date": None})
