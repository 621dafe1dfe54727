"""`tun`: rates by HTB where sites send, the rest by our own process between TUN devices (`selat.wan.delayline`)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from selat.local.files import read_json, write_json
from selat.local.identity import ProcessIdentity
from selat.wan.backends.bridged import device_lines
from selat.wan.backends.files import last_line
from selat.wan.errors import WanError
from selat.wan.layout import WAN_DEVICE, Layout
from selat.wan.links import LinkState, Pair
from selat.wan.shaping import reshape_senders, shape_sender
from selat.wan.system import SEARCH_PATH, Batch, System

_START_S = 20.0
_POLL_S = 0.02
_ANSWER_S = 5.0


class TunBackend:
    """Keeps the process's number in the state directory, so that another process can find it again."""

    def __init__(self, system: System, state: Path) -> None:
        self._system = system
        self._state = state

    @property
    def name(self) -> str:
        return "tun"

    def connect(self, layout: Layout, links: Mapping[Pair, LinkState]) -> None:
        self._start(layout, links)
        for site in layout.sites:
            device, namespace = layout.port_device(site), layout.namespace(site)
            self._system.apply(
                [
                    Batch("ip", layout.hub, (f"link set {device} netns {namespace} name {WAN_DEVICE}",)),
                    Batch("ip", namespace, device_lines(layout, site)),
                ]
            )
            self._system.apply([shape_sender(layout, site, links, netem=False)])

    def change(self, layout: Layout, links: Mapping[Pair, LinkState], pairs: Collection[Pair]) -> None:
        self._tell([_figures(layout, pair, links[pair]) for pair in pairs])
        self._system.apply(reshape_senders(layout, links, pairs, netem=False))

    def complaint(self, layout: Layout) -> str:
        process = self._process()
        if process is not None and process.alive:
            return ""
        return f"the process that delays packets has died; its log is {self._log}"

    @property
    def _log(self) -> Path:
        return self._state / "delayline.log"

    @property
    def _socket(self) -> Path:
        return self._state / "delayline.sock"

    def _process(self) -> ProcessIdentity | None:
        content = read_json(self._state / "delayline.json")
        return ProcessIdentity(**content) if content is not None else None

    def _start(self, layout: Layout, links: Mapping[Pair, LinkState]) -> None:
        config, ready = self._state / "delayline.config.json", self._state / "delayline.ready"
        ready.unlink(missing_ok=True)
        self._socket.unlink(missing_ok=True)
        devices = [{"device": layout.port_device(s), "address": layout.address(s)} for s in layout.sites]
        write_json(
            config,
            {
                "devices": devices,
                "socket": str(self._socket),
                "ready": str(ready),
                "links": [_figures(layout, pair, link) for pair, link in links.items()],
            },
        )
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                ["ip", "netns", "exec", layout.hub, sys.executable, "-P", "-m", "selat.wan.delayline", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "PATH": SEARCH_PATH, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        identity = ProcessIdentity.of(process.pid)
        write_json(self._state / "delayline.json", {"pid": identity.pid, "started_ticks": identity.started_ticks})
        deadline_s = time.monotonic() + _START_S
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise WanError.of(
                    f"the process that delays packets does not start: {last_line(self._log)}",
                    hint="`selat wan backends` says what this machine can do",
                )
            time.sleep(_POLL_S)

    def _tell(self, figures: Sequence[Mapping[str, Any]]) -> None:
        """Returns when the process has taken the change over."""
        # A name in the file system: one that is bound automatically would be the network namespace's.
        answers = self._state / f"answers.{os.getpid()}"
        answers.unlink(missing_ok=True)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
                client.settimeout(_ANSWER_S)
                client.bind(str(answers))
                for link in figures:
                    client.sendto(json.dumps(link).encode(), str(self._socket))
                    client.recv(1024)
        except OSError:
            raise WanError.of(
                "the process that delays packets does not answer", hint="`selat wan down`, then up again"
            ) from None
        finally:
            answers.unlink(missing_ok=True)


def _figures(layout: Layout, pair: Pair, link: LinkState) -> dict[str, Any]:
    microsecond = timedelta(microseconds=1)
    return {
        "from": layout.address(pair[0]),
        "to": layout.address(pair[1]),
        "delay_us": link.latency // microsecond,
        "jitter_us": link.jitter // microsecond,
        "loss": link.loss,
    }
