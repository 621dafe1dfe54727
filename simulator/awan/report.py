"""The figures as a page: each beside what the source found, with a plot."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from planner.batch import Policy
from simulator.awan.figures import (
    EQUALLY_FAST_S,
    HIGH_GAP_S,
    LOW_GAP_S,
    REFRESHES_S,
    ROUNDS,
    THRESHOLDS,
    Localities,
    Shares,
    Threshold,
    Way,
    accuracies,
    foresight,
    shares,
    threshold,
)
from simulator.awan.framework import THINK_S
from simulator.awan.models import Model
from simulator.awan.world import WorldSettings
from simulator.pages import write_evaluation
from simulator.plots import Axes, bars, cumulative, lines
from simulator.progress import say
from simulator.statistics import Mean, mean, paired_change

PAGE = "awan.md"
PLOTS = "awan"
FIRST_WORLD = WorldSettings(cities=5)
"""The setting that the simulator began with."""
OTHER_WORLDS = {
    "8 cities (above)": WorldSettings(),
    "5 cities (above)": FIRST_WORLD,
    "12 cities": WorldSettings(cities=12),
    "8 cities, 2 slots a node": WorldSettings(slots_each=2),
}
_LOADS = {LOW_GAP_S: "low", HIGH_GAP_S: "high"}


def write(directory: Path, rounds: int) -> Path:
    """Run everything, `rounds` seeds each; the page with its plots in `directory`."""
    settings = WorldSettings()
    plots = directory / PLOTS
    parts = [
        _head(rounds),
        _sharing(settings, rounds, plots),
        _copies(settings, rounds),
        _races(settings, rounds),
        _other_worlds(rounds),
        _foresight(settings, rounds, plots),
        _accuracy(settings, rounds, plots),
        _thresholds(settings, rounds, plots),
    ]
    return write_evaluation(directory / PAGE, parts)


def _head(seeds: int) -> str:
    return f"""# Slots shared by lease, by offer, or directly

Figures 2.3 to 2.5 of the evaluation of Awan, run again in the [simulator](../simulator.md): virtual time, under the
planner's own lease manager, estimates and schedulers. Written by `make reproduce`: {seeds} deployments of nodes, one
for each seed, and on each {ROUNDS} rounds of 12 jobs one after the other, as in the source; frameworks keep their
history from round to round. Every way gets the same worlds. Means over deployments with 95 % confidence intervals;
those of differences are of the differences within each deployment. Python {platform.python_version()}.

The source ran on 72 PlanetLab nodes and prints ranges, not the links. Here nodes lie in eight cities at random: 9 to
14 Mbit/s inside a city, 1 to 2 between cities, both changing every minute (sigma 15 %); a chunk of 16 MB takes a
node 28 to 40 s. That gives local tasks of about 45 s and remote ones of about 115 s. Other choices give other
figures: see [other worlds](#other-worlds)."""


def _at(settings: WorldSettings, gap_s: float, way: Way, seeds: int) -> Shares:
    name = f"{settings.cities} cities, {_LOADS[gap_s]} load"
    say(f"figure 2.3: {name}, {way.model.value}")
    return shares(replace(settings, gap_s=gap_s), way, seeds)


def _sharing(settings: WorldSettings, seeds: int, plots: Path) -> str:
    found = [_at(settings, gap_s, Way(model), seeds) for gap_s in _LOADS for model in Model]
    first = [_at(FIRST_WORLD, gap_s, Way(model), seeds) for gap_s in _LOADS for model in Model]
    turnaround = Axes("Turnaround of the lease-aware framework's jobs", "", "s")
    bars(plots / "2.3-turnaround.svg", turnaround, _by_model([(s, mean(s.lease_turnaround_s)) for s in found]))
    locality = Axes("Local tasks of the lease-aware framework", "", "share")
    bars(plots / "2.3-locality.svg", locality, _by_model([(s, mean(s.lease_local)) for s in found]))
    head = ["load", "slots by", "local, %", "turnaround, s", "local, %, all three", "turnaround, s, all three"]
    changes = [*_against(FIRST_WORLD, seeds), *_against(settings, seeds)]
    return f"""## Figure 2.3: three ways to share slots

Three frameworks with a scheduler each (lease-aware, first-come, random) get 12 WordCount jobs in turn, a job every
100 s (low load) or 50 s (high load) on average. The first two columns of figures are those of the lease-aware
framework: with offers or direct access it sees free slots only, and is a second first-come. The source does not say
whether its figures are those of this framework or of all three: both are here.

{_table(["high load", "by lease against", "frameworks", "local", "source", "turnaround", "source"], changes)}

{_low(settings, seeds)}

The simulator began with nodes in five cities; eight came before its first page, and are in force in all other figures.
With more cities fewer nodes are near a shard, so local slots are scarcer and leases gain more: the five cities are the
smaller figures, and nearer to the source's locality. In eight cities:

{_table(head, _rows(found))}

In five cities:

{_table(head, _rows(first))}

Turnaround gains more than in the source, at low load too. A job ends with its last task, its tasks crowd the few slots
near the same shards, and without leases more than a third of them are remote here, and take more than twice as long.
The gain of all three frameworks together is smaller: of the three only one knows how to use leases.

![]({PLOTS}/2.3-locality.svg) ![]({PLOTS}/2.3-turnaround.svg)"""


def _rows(found: Sequence[Shares]) -> list[list[str]]:
    return [
        [
            _LOADS[s.gap_s],
            s.model.value,
            mean(s.lease_local).text(scale=100),
            mean(s.lease_turnaround_s).text(),
            mean(s.local).text(scale=100),
            mean(s.turnaround_s).text(),
        ]
        for s in found
    ]


def _by_model(values: Sequence[tuple[Shares, Mean]]) -> dict[str, dict[str, Mean]]:
    """For each model a bar per load."""
    return {
        model.value: {f"{_LOADS[s.gap_s]} load": value for s, value in values if s.model is model} for model in Model
    }


def _against(settings: WorldSettings, seeds: int) -> list[list[str]]:
    """The change of both figures by leases at high load: of the lease-aware framework, and of all three."""
    mine = _at(settings, HIGH_GAP_S, Way(Model.LEASE), seeds)
    rows = []
    for model in (Model.OFFER, Model.DIRECT):
        base = _at(settings, HIGH_GAP_S, Way(model), seeds)
        for whose, changes in (("lease-aware", _changes(mine, base)), ("all three", _changes_of_all(mine, base))):
            rows.append([f"{settings.cities} cities", model.value, whose, changes[0], "+28 %", changes[1], "-18 %"])
    return rows


def _low(settings: WorldSettings, seeds: int) -> str:
    rows = []
    for world in (FIRST_WORLD, settings):
        mine = _at(world, LOW_GAP_S, Way(Model.LEASE), seeds)
        for model in (Model.OFFER, Model.DIRECT):
            base = _at(world, LOW_GAP_S, Way(model), seeds)
            cells = [_changes(mine, base)[1], _changes_of_all(mine, base)[1]]
            rows.append([f"{world.cities} cities", model.value, *cells, "about 0"])
    head = ["low load", "by lease against", "turnaround, lease-aware", "all three", "source"]
    return _table(head, rows)


def _changes(mine: Shares, base: Shares) -> list[str]:
    """The relative difference in the lease-aware framework's locality and turnaround."""
    return [
        paired_change(mine.lease_local, base.lease_local).change_text(),
        paired_change(mine.lease_turnaround_s, base.lease_turnaround_s).change_text(),
    ]


def _changes_of_all(mine: Shares, base: Shares) -> list[str]:
    """The relative difference in the locality and turnaround of all tasks and jobs."""
    return [
        paired_change(mine.local, base.local).change_text(),
        paired_change(mine.turnaround_s, base.turnaround_s).change_text(),
    ]


def _copies(settings: WorldSettings, seeds: int) -> str:
    mine = _at(settings, HIGH_GAP_S, Way(Model.LEASE), seeds)
    ways = {"told of every change at once (above)": Way(Model.DIRECT)}
    ways |= {f"a copy, refreshed every {s:g} s": Way(Model.DIRECT, refresh_s=s) for s in REFRESHES_S}
    rows = []
    for name, way in ways.items():
        base = _at(settings, HIGH_GAP_S, way, seeds)
        rows.append([name, *_changes(mine, base), *_changes_of_all(mine, base)])
    head = ["by lease, against direct access with", "local", "turnaround", "local, all three", "turnaround, all three"]
    return f"""### How fresh the shared state is

Of direct access the source says that the state is shared by all frameworks, not how fresh it is. Omega, to which it
points, gives each framework a copy that is refreshed often, and after each of its own commits; a commit that comes too
late is tried again. Here it knows of slots that its own tasks leave at once, of others from the next refresh on.
High load:

{_table(head, rows)}

Leases gain under both readings: who does not know when busy slots will be free is helped little by fresher news of
free ones."""


def _races(settings: WorldSettings, seeds: int) -> str:
    rows = []
    for name, think_s in (("0.1 to 0.3 s, drawn (above)", THINK_S), ("0.2 s, always", EQUALLY_FAST_S)):
        found = {m: _at(settings, HIGH_GAP_S, Way(m, think_s=think_s), seeds) for m in (Model.LEASE, Model.DIRECT)}
        mine, base = found[Model.LEASE], found[Model.DIRECT]
        whole = [mean(base.lease_turnaround_s).text(), mean(base.turnaround_s).text()]
        rows.append([name, *whole, *_changes(mine, base), *_changes_of_all(mine, base)])
    head = [
        "a framework answers after",
        "direct: turnaround, lease-aware, s",
        "all three, s",
        "by lease: local",
        "turnaround",
        "local, all three",
        "turnaround, all three",
    ]
    return f"""### Who wins a race

An earlier state of this page had direct access much closer to leases in turnaround (-15 %). All frameworks took the
same time to answer a change then, and were told of it in the same order, so the lease-aware framework, which is the
first of them, won every race for a free slot, at the cost of the two others. Now each takes 0.1 to 0.3 s, drawn anew
for each change. Both, at high load:

{_table(head, rows)}"""


def _other_worlds(seeds: int) -> str:
    rows = []
    for name, settings in OTHER_WORLDS.items():
        mine = _at(settings, HIGH_GAP_S, Way(Model.LEASE), seeds)
        bases = [_at(settings, HIGH_GAP_S, Way(model), seeds) for model in (Model.OFFER, Model.DIRECT)]
        rows.append([name, *(cell for base in bases for cell in _changes(mine, base))])
    head = ["high load", "local, against offer", "turnaround", "local, against direct", "turnaround"]
    return f"""## Other worlds

The same figure of the lease-aware framework where fewer nodes are near each shard, or nodes have two slots. Leases
stay ahead; how far depends on how scarce local slots are.

{_table(head, rows)}"""


def _foresight(settings: WorldSettings, seeds: int, plots: Path) -> str:
    found: list[Localities] = []
    for localities in foresight(settings, seeds):
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


def _accuracy(settings: WorldSettings, seeds: int, plots: Path) -> str:
    rows = []
    for anew in (False, True):
        say(f"figure 2.4b: {'a history of each round' if anew else 'one history for all rounds'}")
        found = accuracies(settings, seeds, anew=anew)
        everything = sorted((*found.informed, *found.first))
        if not anew:
            axes = Axes("Accuracy of lease estimates", "accuracy", "share of tasks")
            cumulative(plots / "2.4b.svg", axes, everything)
        kept = "anew each round" if anew else "kept"
        rows.append(_quantiles("all", kept, everything, "83 %"))
        rows.append(_quantiles("with a history", kept, found.informed, ""))
        rows.append(_quantiles("first of their kind", kept, found.first, ""))
    head = ["tasks", "history", "number", "mean accuracy", "source", "5th percentile", "25th", "median", "75th"]
    return f"""## Figure 2.4b: accuracy of lease estimates

Tasks of the lease-aware framework at high load: 1 - |actual - predicted| / actual. Until the first task of a kind has
ended the default of 100 s is asked for, or what the transfers take when that is longer. The source ran {ROUNDS} rounds
and does not say that histories were dropped between them, so they are kept here; below is what dropping them does.

{_table(head, rows)}

![]({PLOTS}/2.4b.svg)"""


def _quantiles(name: str, kept: str, values: Sequence[float], source: str) -> list[str]:
    at = [f"{100 * values[int(len(values) * share)]:.0f} %" for share in (0.05, 0.25, 0.5, 0.75)]
    return [name, kept, f"{len(values):,}", f"{100 * mean(values).value:.0f} %", source, *at]


def _thresholds(settings: WorldSettings, seeds: int, plots: Path) -> str:
    found: dict[Policy, list[Threshold]] = {}
    for policy in (Policy.LEASE, Policy.FIRST_COME):
        for least in THRESHOLDS:
            say(f"figure 2.5: {policy.value}, locality of at least {least:g}")
            found.setdefault(policy, []).append(threshold(settings, policy, least, seeds))
    turnaround = {p.value: [(t.least, mean(t.turnaround_s)) for t in points] for p, points in found.items()}
    lines(plots / "2.5-turnaround.svg", Axes("Turnaround of jobs", "minimum locality", "s"), turnaround)
    against = {p.value: [(t.least, _against_end(t, points[0])) for t in points] for p, points in found.items()}
    lines(plots / "2.5-against-0.svg", Axes("Turnaround against that at 0", "minimum locality", "share"), against)
    local = {p.value: [(t.least, mean(t.local)) for t in points] for p, points in found.items()}
    lines(plots / "2.5-locality.svg", Axes("Local tasks", "minimum locality", "share"), local)
    rows = [
        [
            policy.value,
            f"{t.least:g}",
            mean(t.turnaround_s).text(),
            _against_end(t, points[0]).change_text() if t is not points[0] else "",
            _against_end(t, points[-1]).change_text() if t is not points[-1] else "",
            mean(t.local).text(scale=100),
        ]
        for policy, points in found.items()
        for t in points
    ]
    head = ["schedulers", "minimum locality", "turnaround, s", "against 0", "against 1", "local, %"]
    return f"""## Figure 2.5: a minimum locality

Three frameworks with the same scheduler, jobs posted two at a time to one of them at high load; a job below the
threshold is skipped for at most 10 s. The source has lease-aware schedulers: 13 % shorter turnaround at 0.5 than at 0,
longer again towards 1.

{_table(head, rows)}

{_best(found)}

Jobs that are posted together meet in one framework's queue: the source's reason for posting two. The gain is smaller
than the source's 13 %, where locality rose up to 0.5. Here it stays as it is, whatever the threshold: a framework
places the tasks of all jobs in its queue together, those that end first before others, so that remote tasks of a job
do not take the places of another's local ones even at 0; and a lease-aware task waits for a slot near its input by
itself when that is faster. What skipping changes is mostly which job goes first.

![]({PLOTS}/2.5-against-0.svg) ![]({PLOTS}/2.5-turnaround.svg) ![]({PLOTS}/2.5-locality.svg)"""


def _against_end(point: Threshold, end: Threshold) -> Mean:
    return paired_change(point.turnaround_s, end.turnaround_s)


def _best(found: Mapping[Policy, Sequence[Threshold]]) -> str:
    """Where the turnaround is shortest, and where it is surely shorter than at both ends."""
    said = []
    for policy, points in found.items():
        best = min(points, key=lambda point: mean(point.turnaround_s).value)
        sure = [f"{point.least:g}" for point in points[1:-1] if _is_surely_less(point, (points[0], points[-1]))]
        text = f"{policy.value}: the shortest turnaround is at {best.least:g}"
        said.append(f"- {text}; with 95 % certainty shorter than at both ends: {', '.join(sure) or 'none'}.")
    return "\n".join(said)


def _is_surely_less(point: Threshold, ends: Sequence[Threshold]) -> bool:
    changes = [_against_end(point, end) for end in ends]
    return all(change.value + change.half_width < 0 for change in changes)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    marks = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, marks, *rows])
