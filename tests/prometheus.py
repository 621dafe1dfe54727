"""Debian's Prometheus, for tests: what its absence skips, and a server of the test's own."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.needs import Lack, Need

ROOT = Path(__file__).parents[1]
RULES = ROOT / "deploy" / "prometheus" / "alerts.yml"
LACK = None if shutil.which("promtool") and shutil.which("prometheus") else Lack(Need.PACKAGES, "prometheus")

PATIENCE_S = 60.0


def promtool(*arguments: str, text: str | None = None) -> None:
    """Run a check that must find nothing wrong."""
    done = subprocess.run(
        ["promtool", *arguments], input=text, capture_output=True, text=True, check=False, cwd=RULES.parent
    )
    assert done.returncode == 0, done.stdout + done.stderr


def fetched(url: str) -> str:
    """The text at a URL."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


class Server:
    """A Prometheus that scrapes once a second."""

    def __init__(self, url: str) -> None:
        self._url = url

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that an expression has now. An expression that makes no sense fails the test."""
        try:
            answer = json.loads(fetched(f"{self._url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"))
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{expression}: {error.read().decode()}") from error
        assert answer["status"] == "success", answer
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found

    def rules(self) -> list[dict[str, Any]]:
        """All rules, with their health."""
        groups = json.loads(fetched(f"{self._url}/api/v1/rules"))["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def ready(self) -> bool:
        try:
            fetched(f"{self._url}/-/ready")
        except OSError:
            return False
        return True


@contextmanager
def prometheus(directory: Path, targets: Path) -> Iterator[Server]:
    """A server that scrapes what a file of `file_sd_configs` names, on a free port of loopback."""
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [{"job_name": "selat", "file_sd_configs": [{"files": [str(targets)]}]}],
    }
    file = directory / "prometheus.yml"
    # JSON is YAML.
    file.write_text(json.dumps(config))
    promtool("check", "config", str(file))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    with (directory / "prometheus.log").open("w") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={file}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address={address}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        server = Server(f"http://{address}")
        deadline = time.monotonic() + PATIENCE_S
        while not server.ready():
            assert process.poll() is None, (directory / "prometheus.log").read_text()
            assert time.monotonic() < deadline, (directory / "prometheus.log").read_text()
            time.sleep(0.1)
        yield server
    finally:
        process.terminate()
        process.wait(30)
