"""Settings of a site agent process."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from site_agent.errors import SiteAgentError


@dataclass(frozen=True, slots=True)
class HostedSite:
    name: str
    slots: int


@dataclass(frozen=True, slots=True)
class AgentConfig:
    sites: tuple[HostedSite, ...]
    master: str
    """host:port"""
    listen: str
    """host:port; port 0 takes a free one, and is the only one that makes sense with several sites."""
    data: Path
    advertise: str = ""
    """host:port under which other agents and the master reach the exchange; where it listens when empty."""
    ready_file: Path | None = None
    spark_master: str | None = None
    """Spark master URL; `local[slots]` when absent."""
    driver_memory: str = "1g"
    retained_bytes: int = 1024 * 1024 * 1024
    """Most that one channel keeps for its readers before its task admits no more input."""


def parse_arguments(arguments: Sequence[str] | None = None) -> AgentConfig:
    """Raises SiteAgentError for values that make no sense."""
    parser = argparse.ArgumentParser(
        prog="selat agent", description="Run the site agent of one region (or of several on one machine)."
    )
    parser.add_argument(
        "--site",
        action="append",
        required=True,
        metavar="NAME[:SLOTS]",
        help="site to run; slots default to 1; repeatable",
    )
    parser.add_argument("--master", default="127.0.0.1:7410", help="host:port of the master (default %(default)s)")
    parser.add_argument(
        "--listen",
        default="127.0.0.1:0",
        help="host:port to serve other agents and the master at; port 0 takes a free one (default %(default)s)",
    )
    parser.add_argument(
        "--advertise",
        default="",
        metavar="HOST:PORT",
        help="where others reach this agent, when that is not where it listens; for one site only",
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="directory for channels, checkpoints and the assignment"
    )
    parser.add_argument("--ready-file", type=Path, help="written when serving: JSON with sites, addresses and pid")
    parser.add_argument("--spark-master", help="Spark master URL (default local[slots])")
    parser.add_argument("--driver-memory", default="1g", help="heap of the Spark driver (default %(default)s)")
    parser.add_argument(
        "--retained-bytes",
        type=int,
        default=1024 * 1024 * 1024,
        help="bytes a channel may keep for its readers (default %(default)s)",
    )
    values = parser.parse_args(arguments)
    sites = tuple(_hosted_site(text) for text in values.site)
    if len({s.name for s in sites}) != len(sites):
        raise SiteAgentError("a site is named twice", hint="give each --site once")
    _check_advertised(values.advertise, sites)
    return AgentConfig(
        sites=sites,
        master=values.master,
        listen=values.listen,
        advertise=values.advertise,
        data=values.data,
        ready_file=values.ready_file,
        spark_master=values.spark_master,
        driver_memory=values.driver_memory,
        retained_bytes=values.retained_bytes,
    )


def _check_advertised(address: str, sites: tuple[HostedSite, ...]) -> None:
    if not address:
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise SiteAgentError(f"--advertise {address!r} is not HOST:PORT", hint="for example eu.example.com:7411")
    if len(sites) > 1:
        raise SiteAgentError(
            f"--advertise {address} is one address, but {len(sites)} sites are named",
            hint="run an agent process for each site",
        )


def _hosted_site(text: str) -> HostedSite:
    name, _, slots = text.partition(":")
    if not name or (slots and (not slots.isdigit() or int(slots) < 1)):
        raise SiteAgentError(f"--site {text!r} is not NAME or NAME:SLOTS", hint="for example --site eu:2")
    return HostedSite(name, int(slots or "1"))
