"""`selat wan`: links as the master knows them, and WANs made on this machine."""

from __future__ import annotations

import click

from selat.cli.base.lazy import Lazy, LazyGroup

_MASTER = ("networkx",)
_EXTRAS = "selat[master]"


def _emulated(name: str, summary: str) -> Lazy:
    return Lazy(f"selat.wan.cli:{name}", summary, _EXTRAS, _MASTER)


@click.group(
    cls=LazyGroup,
    lazy={
        "show": Lazy("selat.cli.commands.wan:show", "Show what all links carry; congested ones are marked."),
        "history": Lazy("selat.cli.commands.wan:history", "Plot what was measured of one link."),
        "probe": Lazy("selat.cli.commands.wan:probe", "Measure one link now."),
        "up": _emulated("up", "Make a namespace for each site and the links between them."),
        "status": _emulated("status", "Show sites or links of an emulated WAN."),
        "exec": _emulated("execute", "Run a command inside a site."),
        "set": _emulated("set_link", "Change links while they are up."),
        "sever": _emulated("sever", "Let nothing pass over links."),
        "heal": _emulated("heal", "Open severed links again."),
        "kill": _emulated("kill", "Kill a site and keep it down."),
        "revive": _emulated("revive", "Let a killed site come back."),
        "play": _emulated("play_scenario", "Play a scenario file."),
        "backends": _emulated("backends", "Show how this machine can emulate a WAN."),
        "down": _emulated("down", "Remove an emulated WAN."),
    },
)
def wan() -> None:
    """Show and measure the links between sites; make a WAN on this machine, and change it while it is up.

    \b
    Examples:
      selat wan show                              what all links carry, from the master
      selat wan probe 'us->eu'
      sudo selat wan up --topology three-regions  a namespace per site, links as the file says
      sudo selat wan set 'us->eu' bandwidth=5Mbit/s latency=80ms
      sudo selat wan sever 'us<->asia'; sudo selat wan heal 'us<->asia'
      sudo selat wan down
    """
