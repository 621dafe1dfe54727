"""The figures as a page: each beside what the source found, with a plot."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

from simulator.awan.figures import (
    HIGH_GAP_S,
    LOW_GAP_S,
    Localities,
    Shares,
    Threshold,
    accuracies,
    foresight,
    sharing,
    thresholds,
)
from simulator.awan.models import Model
from simulator.awan.world import WorldSettings
from simulator.plots import Axes, bars, cumulative, lines
from simulator.progress import say
from simulator.statistics import Mean, mean

PAGE = "awan.md"
PLOTS = "awan"
OTHER_WORLDS = {
    "8 cities (above)": WorldSettings(),
    "5 cities": WorldSettings(cities=5),
    "12 cities": WorldSettings(cities=12),
    "8 cities, 2 slots a node": WorldSettings(slots_each=2),
}
_LOADS = {LOW_GAP_S: "low", HIGH_GAP_S: "high"}


def write(directory: Path, rounds: int) -> Path:
    """Run everything; the page with its plots in `directory`."""
    settings = WorldSettings()
    plots = directory / PLOTS
    parts = [
        _head(rounds),
        _sharing(settings, rounds, plots),
        _other_worlds(rounds),
        _foresight(settings, rounds, plots),
        _accuracy(settings, rounds, plots),
        _thresholds(settings, rounds, plots),
    ]
    page = directory / PAGE
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join(parts) + "\n")
    return page


def _head(rounds: int) -> str:
    return f"""# Slots shared by lease, by offer, or directly

Figures 2.3 to 2.5 of the evaluation of Awan, run again in the [simulator](../simulator.md): virtual time, under the
planner's own lease manager, estimates and schedulers. Written by `make reproduce`; {rounds} rounds with a seed
each, the same worlds for every way; means with 95 % confidence intervals. Python {platform.python_version()}.

The source ran on 72 PlanetLab nodes and prints ranges, not the links. Here nodes lie in eight cities at random: 9 to
14 Mbit/s inside a city, 1 to 2 between cities, both changing every minute (sigma 15 %); a chunk of 16 MB takes a
node 28 to 40 s. That gives local tasks of about 45 s and remote ones of about 115 s. Other choices give other
figures: see [other worlds](#other-worlds)."""


def _sharing(settings: WorldSettings, rounds: int, plots: Path) -> str:
    found = []
    for shares in sharing(settings, rounds):
        say(f"figure 2.3: {_LOADS[shares.gap_s]} load, {shares.model.value}")
        found.append(shares)
    turnaround = Axes("Turnaround of the lease-aware framework's jobs", "", "s")
    bars(plots / "2.3-turnaround.svg", turnaround, _by_model([(s, s.lease_turnaround_s) for s in found]))
    locality = Axes("Local tasks of the lease-aware framework", "", "share")
    bars(plots / "2.3-locality.svg", locality, _by_model([(s, s.lease_local) for s in found]))
    rows = [
        [
            _LOADS[s.gap_s],
            s.model.value,
            s.lease_local.text(scale=100),
            s.lease_turnaround_s.text(),
            s.local.text(scale=100),
            s.turnaround_s.text(),
        ]
        for s in found
    ]
    head = ["load", "slots by", "local, %", "turnaround, s", "local, %, all three", "turnaround, s, all three"]
    return f"""## Figure 2.3: three ways to share slots

Three frameworks with a scheduler each (lease-aware, first-come, random) get 12 WordCount jobs in turn, a job every
100 s (low load) or 50 s (high load) on average. The first two columns of figures are those of the lease-aware
framework: with offers or direct access it sees free slots only, and is a second first-come.

{_table(head, rows)}

{_against(found)}

Direct access comes closer to leases here than in the source: its frameworks, too, are told of every change at once and
place by the network. At low load leases still gain, since a job's tasks crowd the few slots near the same shards.

![]({PLOTS}/2.3-locality.svg) ![]({PLOTS}/2.3-turnaround.svg)"""


def _by_model(values: Sequence[tuple[Shares, Mean]]) -> dict[str, dict[str, Mean]]:
    """For each model a bar per load."""
    return {
        model.value: {f"{_LOADS[s.gap_s]} load": value for s, value in values if s.model is model} for model in Model
    }


def _against(found: Sequence[Shares]) -> str:
    """The ratios of high load, beside the source's."""
    at = {(s.gap_s, s.model): s for s in found}
    mine = at[HIGH_GAP_S, Model.LEASE]
    rows = []
    for model in (Model.OFFER, Model.DIRECT):
        base, low = at[HIGH_GAP_S, model], at[LOW_GAP_S, model]
        lease_low = at[LOW_GAP_S, Model.LEASE]
        rows.append(
            [
                model.value,
                f"{100 * (mine.lease_local.value / base.lease_local.value - 1):+.0f} %",
                "+28 %",
                f"{100 * (mine.lease_turnaround_s.value / base.lease_turnaround_s.value - 1):+.0f} %",
                "-18 %",
                f"{100 * (lease_low.lease_turnaround_s.value / low.lease_turnaround_s.value - 1):+.0f} %",
                "about 0",
            ]
        )
    head = ["by lease against", "local", "source", "turnaround", "source", "turnaround at low load", "source"]
    return _table(head, rows)


def _other_worlds(rounds: int) -> str:
    rows = []
    for name, settings in OTHER_WORLDS.items():
        say(f"figure 2.3 with {name}")
        at = {s.model: s for s in sharing(settings, rounds, gaps_s=(HIGH_GAP_S,))}
        cells = [name]
        for model in (Model.OFFER, Model.DIRECT):
            cells.append(f"{100 * (at[Model.LEASE].lease_local.value / at[model].lease_local.value - 1):+.0f} %")
            ratio = at[Model.LEASE].lease_turnaround_s.value / at[model].lease_turnaround_s.value
            cells.append(f"{100 * (ratio - 1):+.0f} %")
        rows.append(cells)
    head = ["high load", "local, against offer", "turnaround", "local, against direct", "turnaround"]
    return f"""## Other worlds

The same figure where fewer nodes are near each shard, or nodes have two slots. The order of the three ways stays;
how far they are apart depends on how scarce local slots are.

{_table(head, rows)}"""


def _foresight(settings: WorldSettings, rounds: int, plots: Path) -> str:
    found: list[Localities] = []
    for localities in foresight(settings, rounds):
        say(f"figure 2.4a: {localities.compute_nodes} compute nodes")
        found.append(localities)
    series = {
        "by estimates": [(float(f.compute_nodes), f.estimated) for f in found],
        "future known": [(float(f.compute_nodes), f.known) for f in found],
    }
    lines(plots / "2.4a.svg", Axes("Local tasks, 60 storage nodes", "compute nodes", "share"), series)
    rows = [
        [
            str(f.compute_nodes),
            f.estimated.text(scale=100),
            f.known.text(scale=100),
            f"{100 * (f.estimated.value / f.known.value - 1):+.1f} %",
            "within 5 %",
            f.reachable.text(scale=100),
        ]
        for f in found
    ]
    head = ["compute nodes", "local by estimates, %", "future known, %", "difference", "source", "have a local node, %"]
    return f"""## Figure 2.4a: estimates against a known future

High load, 60 storage nodes, leases. Future known: every scheduler's estimates are what will be, so that everybody
sees when every slot will be free. The last column bounds both.

{_table(head, rows)}

![]({PLOTS}/2.4a.svg)"""


def _accuracy(settings: WorldSettings, rounds: int, plots: Path) -> str:
    say("figure 2.4b")
    found = accuracies(settings, rounds)
    everything = sorted((*found.informed, *found.first))
    cumulative(plots / "2.4b.svg", Axes("Accuracy of lease estimates", "accuracy", "share of tasks"), everything)
    rows = [
        _quantiles("all", everything, "83 %"),
        _quantiles("with a history", found.informed, ""),
        _quantiles("first of their kind", found.first, ""),
    ]
    head = ["tasks", "number", "mean accuracy", "source", "5th percentile", "25th", "median", "75th"]
    return f"""## Figure 2.4b: accuracy of lease estimates

Tasks of the lease-aware framework at high load: 1 - |actual - predicted| / actual. Until the first task of a kind has
ended the default of 100 s is asked for. Each framework gets four jobs a round, so that the first one weighs much; the
source does not say how many of its tasks were first ones.

{_table(head, rows)}

![]({PLOTS}/2.4b.svg)"""


def _quantiles(name: str, values: Sequence[float], source: str) -> list[str]:
    at = [f"{100 * values[int(len(values) * share)]:.0f} %" for share in (0.05, 0.25, 0.5, 0.75)]
    return [name, f"{len(values):,}", f"{100 * mean(values).value:.0f} %", source, *at]


def _thresholds(settings: WorldSettings, rounds: int, plots: Path) -> str:
    found: list[Threshold] = []
    for threshold in thresholds(settings, rounds):
        say(f"figure 2.5: locality of at least {threshold.least:g}")
        found.append(threshold)
    for name, title, unit, points in (
        ("turnaround", "Turnaround of jobs", "s", [(f.least, f.turnaround_s) for f in found]),
        ("locality", "Local tasks", "share", [(f.least, f.local) for f in found]),
    ):
        lines(plots / f"2.5-{name}.svg", Axes(title, "minimum locality", unit), {"": points})
    first = found[0].turnaround_s.value
    rows = [
        [
            f"{f.least:g}",
            f.turnaround_s.text(),
            f"{100 * (f.turnaround_s.value / first - 1):+.1f} %",
            f.local.text(scale=100),
        ]
        for f in found
    ]
    head = ["minimum locality", "turnaround, s", "against 0", "local, %"]
    return f"""## Figure 2.5: a minimum locality

Three lease-aware frameworks, jobs posted two at a time at high load; a job below the threshold is skipped for at
most 10 s. The source: 13 % shorter turnaround at 0.5 than at 0, longer again towards 1.

{_table(head, rows)}

{_best(found)}

![]({PLOTS}/2.5-turnaround.svg) ![]({PLOTS}/2.5-locality.svg)"""


def _best(found: Sequence[Threshold]) -> str:
    best = min(found, key=lambda f: f.turnaround_s.value)
    place = "between the ends" if 0 < best.least < 1 else "at an end, unlike in the source"
    return f"The shortest turnaround is at {best.least:g}: {place}."


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    marks = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, marks, *rows])
