"""iperf3 as a child process: its Python wrapper redirects the output of the whole process while it measures."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from site_agent.base.errors import SiteAgentError
from site_agent.probes.rates import steady_rate

PROGRAM = "iperf3"
_INTERVAL = "0.1"
_SLACK_S = 20.0
_START_S = 5.0
_POLL_S = 0.02
_LISTEN = "0A"
"""The state of a listening socket in /proc/net/tcp."""


def installed() -> bool:
    return shutil.which(PROGRAM) is not None


def free_port(host: str) -> int:
    """A port that is free now."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True, slots=True)
class IperfResult:
    bytes_sent: int
    rate_bytes_per_s: float


async def start_server(host: str, port: int) -> asyncio.subprocess.Process:
    """Start a server for one test; returns when it listens.

    Raises:
        SiteAgentError: it does not come to listen.
    """
    arguments = ("-s", "-1", "-J", "-i", _INTERVAL, "-B", host, "-p", str(port))
    process = await asyncio.create_subprocess_exec(
        PROGRAM, *arguments, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    for _ in range(int(_START_S / _POLL_S)):
        await asyncio.sleep(_POLL_S)
        if process.returncode is not None:
            break
        if _listens(port):
            return process
    await stop(process)
    raise SiteAgentError(f"iperf3 does not listen at {host}:{port}", hint="run it by hand: iperf3 -s")


def _listens(port: int) -> bool:
    """Whether the port listens, according to the kernel: a connection would use up the server. Assumed on other systems
    than Linux."""
    tables = [path for path in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")) if path.exists()]
    ending = f":{port:04X}"
    rows = [line.split() for table in tables for line in table.read_text().splitlines()[1:]]
    return not tables or any(row[1].endswith(ending) and row[3] == _LISTEN for row in rows)


async def stop(process: asyncio.subprocess.Process) -> None:
    """Stop a server that was not used."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def run_client(host: str, port: int, duration_s: float) -> IperfResult:
    """Send for this time.

    The rate is the receiver's, over the second half: the sender counts what is still in its socket.

    Raises:
        SiteAgentError: iperf3 failed.
    """
    seconds = max(1, round(duration_s))
    arguments = ("-J", "-c", host, "-p", str(port), "-t", str(seconds), "-i", _INTERVAL, "--get-server-output")
    process = await asyncio.create_subprocess_exec(
        PROGRAM, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(seconds + _SLACK_S):
            output, _ = await process.communicate()
    except TimeoutError:
        raise SiteAgentError(
            f"iperf3 to {host} does not come back", hint="is the link severed, or the port closed by a firewall?"
        ) from None
    finally:
        await stop(process)
    return read_report(output)


def read_report(output: bytes) -> IperfResult:
    """Read the report that the client printed.

    Raises:
        SiteAgentError: it says that the test failed, or nothing that can be read.
    """
    try:
        report = json.loads(output)
    except ValueError:
        raise SiteAgentError("iperf3 printed no report", hint="run it by hand: iperf3 -J -c HOST") from None
    server = report.get("server_output_json") if isinstance(report, dict) else None
    intervals = [(entry["sum"]["seconds"], entry["sum"]["bytes"]) for entry in (server or {}).get("intervals", [])]
    rate = steady_rate(intervals)
    if rate is None:
        said = report.get("error") if isinstance(report, dict) else None
        raise SiteAgentError(f"iperf3: {said or 'too little was sent to tell'}", hint="is the link severed?")
    return IperfResult(int(report["end"]["sum_sent"]["bytes"]), rate)
