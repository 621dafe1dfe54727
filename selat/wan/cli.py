"""`selat wan`: a WAN on this machine, and its links while it is up."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import click
import yaml

from planner.values.quantities import bandwidth_text
from selat.cli.base.app import App, pass_app
from selat.cli.base.interrupts import interrupted_once
from selat.cli.base.options import settings_options
from selat.cli.output import human
from selat.cli.output.listing import Field, show_list
from selat.local.topology import read_topology, topology_file
from selat.wan.changes import change_of_words, pairs_of
from selat.wan.emulation import DEFAULT_NAME, Emulations, Wish
from selat.wan.errors import WanError
from selat.wan.links import LinkChange
from selat.wan.player import ClusterRates, Stage, play
from selat.wan.probe import PREFERENCE, Capability, capabilities
from selat.wan.record import Record
from selat.wan.scenario import Event, RateEvent, parse_scenario

_NAME = click.option("--name", default=DEFAULT_NAME, metavar="NAME", show_default=True, help="Which emulated WAN.")


@dataclass(frozen=True, slots=True)
class _Site:
    site: str
    namespace: str
    address: str
    state: str
    processes: int


@dataclass(frozen=True, slots=True)
class _Link:
    source: str
    target: str
    bandwidth_bytes_per_s: float
    latency: timedelta
    jitter: timedelta
    loss: float
    severed: bool
    changed: bool


_SITE_FIELDS: Sequence[Field[_Site]] = (
    Field("site", lambda s: s.site),
    Field("namespace", lambda s: s.namespace),
    Field("address", lambda s: s.address),
    Field("state", lambda s: s.state),
    Field("processes", lambda s: s.processes, right=True),
)
_LINK_FIELDS: Sequence[Field[_Link]] = (
    Field("from", lambda e: e.source),
    Field("to", lambda e: e.target),
    Field(
        "bandwidth", lambda e: e.bandwidth_bytes_per_s, lambda e: bandwidth_text(e.bandwidth_bytes_per_s), right=True
    ),
    Field("latency", lambda e: e.latency / timedelta(seconds=1), lambda e: human.duration(e.latency), right=True),
    Field("jitter", lambda e: e.jitter / timedelta(seconds=1), lambda e: human.duration(e.jitter), right=True),
    Field("loss", lambda e: e.loss, lambda e: f"{e.loss * 100:g} %", right=True),
    Field("state", lambda e: _state(e), lambda e: _state(e)),
)
_CAPABILITY_FIELDS: Sequence[Field[Capability]] = (
    Field("backend", lambda c: c.backend),
    Field("works", lambda c: c.works, lambda c: "yes" if c.works else "no"),
    Field("reason", lambda c: c.reason),
)


@click.command()
@click.option(
    "--topology",
    default="three-regions",
    metavar="FILE|NAME",
    show_default=True,
    help="Sites and links: a YAML file, or one that comes with Selat.",
)
@click.option("--backend", type=click.Choice(PREFERENCE), help="How delay comes about.  [default: the best here]")
@click.option("--cpus-per-slot", type=click.FloatRange(min=0.01), metavar="CPUS", help="Hold sites to their slots.")
@_NAME
@settings_options
@pass_app
def up(app: App, *, topology: str, backend: str | None, cpus_per_slot: float | None, name: str) -> None:
    """Create a namespace for each site, and the links between them."""
    file = topology_file(topology)
    emulations = Emulations()
    with interrupted_once():
        record = emulations.up(read_topology(file), str(file.resolve()), Wish(name, backend, cpus_per_slot))
    app.note(f"{name} is up: {len(record.layout.sites)} sites, backend {record.backend}; `selat wan down` removes it")
    show_list(app, _SITE_FIELDS, _sites(emulations, record))


@click.command()
@_NAME
@pass_app
def down(app: App, *, name: str) -> None:
    """End all processes in it and remove it, including what a crash left behind."""
    app.note(f"{name} is removed" if Emulations().down(name) else f"no WAN named {name} is up")


@click.command()
@click.option("--links", is_flag=True, help="The links instead of the sites.")
@_NAME
@settings_options
@pass_app
@click.pass_context
def status(ctx: click.Context, app: App, *, links: bool, name: str) -> None:
    """Show the present sites or links. Exit code 1: something no longer works."""
    emulations = Emulations()
    record = emulations.find(name)
    app.note(f"{name}: backend {record.backend}, topology {record.topology}")
    if links:
        show_list(app, _LINK_FIELDS, _links(record))
    else:
        show_list(app, _SITE_FIELDS, _sites(emulations, record))
    complaint = emulations.complaint(record)
    if complaint:
        app.note(f"broken: {complaint}; `selat wan down` removes it")
        ctx.exit(1)


@click.command("exec", context_settings={"ignore_unknown_options": True})
@_NAME
@click.argument("site")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def execute(*, name: str, site: str, command: tuple[str, ...]) -> None:
    """Run a command inside a site."""
    emulations = Emulations()
    record = emulations.find(name)
    words = (*emulations.entrance(record, _known(record, site)), *command)
    try:
        os.execvp(words[0], words)
    except OSError as error:
        raise WanError.of(f"cannot run {shlex.join(command)}: {error.strerror}", hint="name a program") from None


@click.command("set")
@_NAME
@click.argument("link")
@click.argument("figures", nargs=-1, required=True)
@settings_options
@pass_app
def set_link(app: App, *, name: str, link: str, figures: tuple[str, ...]) -> None:
    """Change links: bandwidth, latency, jitter, loss; a bandwidth may be a factor of the topology's (x0.5).

    \b
    Examples:
      selat wan set 'us->eu' bandwidth=5Mbit/s
      selat wan set '*->*' bandwidth=x0.5 loss=0.1%
    """
    _change(app, name, link, change_of_words(figures))


@click.command()
@_NAME
@click.argument("link")
@settings_options
@pass_app
def sever(app: App, *, name: str, link: str) -> None:
    """Sever links: packets are lost silently."""
    _change(app, name, link, LinkChange(severed=True))


@click.command()
@_NAME
@click.argument("link")
@settings_options
@pass_app
def heal(app: App, *, name: str, link: str) -> None:
    """Open severed links again."""
    _change(app, name, link, LinkChange(severed=False))


@click.command()
@_NAME
@click.argument("site")
@pass_app
def kill(app: App, *, name: str, site: str) -> None:
    """Kill all processes of a site and keep it down until it is revived."""
    emulations = Emulations()
    record = emulations.find(name)
    app.note(f"{site} is down: {emulations.kill(record, _known(record, site))} processes killed")


@click.command()
@_NAME
@click.argument("site")
@pass_app
def revive(app: App, *, name: str, site: str) -> None:
    """Allow a killed site to come back; `selat dev` restarts its agent."""
    emulations = Emulations()
    record = emulations.find(name)
    app.note(f"{site} {'may start again' if emulations.revive(record, _known(record, site)) else 'was not killed'}")


@click.command("play")
@_NAME
@click.option("--speed", type=click.FloatRange(min=0.01), default=1.0, show_default=True, help="2 is twice as fast.")
@click.argument("scenario", type=click.Path(dir_okay=False, path_type=Path))
@settings_options
@pass_app
def play_scenario(app: App, *, name: str, speed: float, scenario: Path) -> None:
    """Play a scenario file: links, sites and rates change at given times. Rates need a cluster (--master).

    \b
    Example:
      selat wan play deploy/scenarios/dynamics.yaml --speed 10
    """
    emulations = Emulations()
    record = emulations.find(name)
    events = _read_scenario(scenario, record.layout.sites)
    app.note(f"{len(events)} events, {human.duration(events[-1].at / speed)}")

    def told(event: Event, after_s: float) -> None:
        app.note(f"{after_s:7.1f} s  {event.text}")

    if any(isinstance(event, RateEvent) for event in events):
        with app.connect() as client:
            play(events, Stage(emulations, record, ClusterRates(client)), speed=speed, report=told)
    else:
        play(events, Stage(emulations, record, None), speed=speed, report=told)


@click.command()
@settings_options
@pass_app
def backends(app: App) -> None:
    """Show how this machine can emulate delay, jitter and loss."""
    show_list(app, _CAPABILITY_FIELDS, capabilities())


def _change(app: App, name: str, link: str, change: LinkChange) -> None:
    emulations = Emulations()
    pairs = pairs_of(link, emulations.find(name).layout.sites)
    record = emulations.change(name, dict.fromkeys(pairs, change))
    show_list(app, _LINK_FIELDS, [shown for shown in _links(record) if (shown.source, shown.target) in pairs])


def _read_scenario(path: Path, sites: Sequence[str]) -> tuple[Event, ...]:
    try:
        return parse_scenario(yaml.safe_load(path.read_text()), sites)
    except OSError as error:
        raise WanError.of(f"cannot read {path}: {error.strerror}", hint="name a scenario file") from None
    except yaml.YAMLError as error:
        raise WanError.of(f"{path} is not YAML: {error}", hint="docs/wan.md shows a scenario") from None
    except WanError as error:
        raise WanError.of(f"{path}: {error.message}", hint=error.hint) from None


def _known(record: Record, site: str) -> str:
    if site not in record.layout.sites:
        raise WanError.of(f"there is no site {site}", hint=f"the sites are {', '.join(record.layout.sites)}")
    return site


def _sites(emulations: Emulations, record: Record) -> list[_Site]:
    layout = record.layout
    return [
        _Site(
            site,
            layout.namespace(site),
            layout.address(site),
            "killed" if emulations.is_held(record, site) else "up",
            len(emulations.processes(record, site)),
        )
        for site in layout.sites
    ]


def _links(record: Record) -> list[_Link]:
    return [
        _Link(
            source,
            target,
            link.bandwidth_bytes_per_s,
            link.latency,
            link.jitter,
            link.loss,
            link.severed,
            link != record.original[source, target],
        )
        for (source, target), link in record.links.items()
    ]


def _state(link: _Link) -> str:
    if link.severed:
        return "severed"
    return "changed" if link.changed else "as declared"
