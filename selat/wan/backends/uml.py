"""`uml-router`: a User-Mode Linux in the middle, whose kernel has netem whatever this machine's has.

Each site's device leads to a TAP of the router, which bridges them all and shapes what it sends to a site, with one
class for each sender. So queues and losses are where they are on a WAN: behind the sender.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from selat.local.files import read_json, write_json
from selat.local.identity import ProcessIdentity
from selat.wan.backends.bridged import device_lines
from selat.wan.backends.files import last_line
from selat.wan.errors import WanError
from selat.wan.layout import WAN_DEVICE, Layout
from selat.wan.links import LinkState, Pair
from selat.wan.shaping import class_filter, class_line, closing_lines, from_site, netem_line, root_lines
from selat.wan.system import SEARCH_PATH, Batch, System

_INIT = Path(__file__).with_name("uml-init.sh")
_MEMORY = "128M"
_START_S = 60.0
_ANSWER_S = 30.0
_POLL_S = 0.02
_PRIORITY = -10


class UmlBackend:
    """Commands go to the router through files in a directory that both see."""

    def __init__(self, system: System, state: Path) -> None:
        self._system = system
        self._state = state / "uml"

    @property
    def name(self) -> str:
        return "uml-router"

    def connect(self, layout: Layout, links: Mapping[Pair, LinkState]) -> None:
        for site in layout.sites:
            self._system.apply(_join_router(layout, site))
            # The router's kernel gets packets as they are; this machine's must not leave anything for a device to do.
            offloads = ("ethtool", "-K", WAN_DEVICE, "tso", "off", "gso", "off", "tx", "off")
            self._system.output(("ip", "netns", "exec", layout.namespace(site), *offloads))
        self._start(layout)
        self._tell([line for site in layout.sites for line in _shape_receiver(layout, site, links)])

    def change(self, layout: Layout, links: Mapping[Pair, LinkState], pairs: Collection[Pair]) -> None:
        lines = []
        for source, target in pairs:
            device, index, link = _device(layout, target), layout.index(source), links[source, target]
            lines += [class_line(index, link, device), netem_line(index, link, device)]
        for target in dict.fromkeys(target for _, target in pairs):
            lines += _close_ways(layout, target, links)
        # One question for all: an answer takes a few tenths of a second.
        self._tell(lines)

    def complaint(self, layout: Layout) -> str:
        process = self._process()
        if process is not None and process.alive:
            return ""
        return f"the router has died; its log is {self._state / 'router.log'}"

    def _process(self) -> ProcessIdentity | None:
        content = read_json(self._state / "router.json")
        return ProcessIdentity(**content) if content is not None else None

    def _start(self, layout: Layout) -> None:
        self._state.mkdir(parents=True, exist_ok=True)
        devices = [
            f"vec{layout.index(site)}:transport=tap,ifname={_tap(layout, site)},depth=64" for site in layout.sites
        ]
        kernel = ["linux.uml", f"mem={_MEMORY}", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro"]
        kernel += [
            "init=/bin/sh",
            "con=null",
            "con0=null,fd:1",
            "quiet",
            f"umid={layout.hub}",
            f"uml_dir={self._state}/",
        ]
        kernel += [f"UML_OUT={self._state}", f"UML_DEVICES={len(layout.sites)}", *devices, "--", str(_INIT)]
        with (self._state / "router.log").open("ab") as log:
            process = subprocess.Popen(
                # Packets wait for their time, not for the machine's other work; `nice` goes on where it may not.
                ["nice", "-n", str(_PRIORITY), "ip", "netns", "exec", layout.hub, *kernel],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "PATH": SEARCH_PATH, "TMPDIR": "/dev/shm"},
            )
        identity = ProcessIdentity.of(process.pid)
        write_json(self._state / "router.json", {"pid": identity.pid, "started_ticks": identity.started_ticks})
        deadline_s = time.monotonic() + _START_S
        while not (self._state / "ready").exists():
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise WanError.of(
                    f"the router does not start: {last_line(self._state / 'router.log')}",
                    hint="`selat wan backends` says what this machine can do",
                )
            time.sleep(_POLL_S)
        if (failed := self._state / "failed").exists():
            raise WanError.of(f"the router: {failed.read_text().strip()}", hint="`selat wan down`, then up again")

    def _tell(self, lines: Sequence[str]) -> None:
        """Returns when the router has run the lines of tc."""
        number = time.monotonic_ns()
        command, answer = self._state / f"cmd.{number}", self._state / f"done.{number}"
        draft = self._state / f"draft.{number}"
        draft.write_text("\n".join(lines) + "\n")
        draft.replace(command)
        deadline_s = time.monotonic() + _ANSWER_S
        while not answer.exists():
            if time.monotonic() > deadline_s:
                raise WanError.of("the router does not answer", hint="`selat wan down`, then up again")
            time.sleep(_POLL_S)
        code, _, said = answer.read_text().partition("\n")
        answer.unlink()
        if code.strip() != "0":
            raise WanError.of(f"the router: {said.strip()}", hint="`selat wan down`, then up again")


def _tap(layout: Layout, site: str) -> str:
    return f"tap{layout.index(site)}"


def _device(layout: Layout, site: str) -> str:
    """The router's device towards a site."""
    return f"vec{layout.index(site)}"


def _join_router(layout: Layout, site: str) -> list[Batch]:
    """A bridge in the hub between the site's device and the router's TAP, which stays there: it is opened by name."""
    port, namespace, bridge, tap = (
        layout.port_device(site),
        layout.namespace(site),
        f"br{layout.index(site)}",
        _tap(layout, site),
    )
    return [
        Batch(
            "ip",
            layout.hub,
            (
                f"link add {bridge} type bridge",
                f"link set {bridge} up",
                f"tuntap add {tap} mode tap",
                f"link set {tap} master {bridge} up",
                f"link add {port} type veth peer name {WAN_DEVICE} netns {namespace}",
                f"link set {port} master {bridge} up",
            ),
        ),
        Batch("ip", namespace, device_lines(layout, site)),
    ]


def _shape_receiver(layout: Layout, site: str, links: Mapping[Pair, LinkState]) -> list[str]:
    device = _device(layout, site)
    lines = root_lines(device)
    for (source, target), link in links.items():
        if target == site:
            index = layout.index(source)
            lines += [class_line(index, link, device), netem_line(index, link, device)]
            lines.append(class_filter(from_site(layout, source), index, device))
    return [*lines, *_close_ways(layout, site, links)]


def _close_ways(layout: Layout, site: str, links: Mapping[Pair, LinkState]) -> list[str]:
    severed = [from_site(layout, a) for (a, target), link in links.items() if target == site and link.severed]
    return closing_lines(severed, _device(layout, site))
