"""`selat cert`, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from selat.cli import cli


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    run("cert", "init", str(tmp_path / "authority"))
    return tmp_path / "authority"


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    return result


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def issue(authority: Path, role: str, name: str, out: Path) -> dict[str, Any]:
    (line,) = lines(run("cert", "issue", role, name, "--authority", str(authority), "--out", str(out), "--json"))
    return line


def test_a_certificate_is_issued_shown_renewed_and_revoked(authority: Path, tmp_path: Path) -> None:
    own = tmp_path / "us"
    issued = issue(authority, "site", "us", own)
    assert (issued["member"], issued["state"]) == ("site/us", "valid")
    assert lines(run("cert", "show", str(own))) == [issued]

    (renewed,) = lines(run("cert", "renew", str(own), "--authority", str(authority), "--days", "7"))
    assert renewed["member"] == "site/us"
    assert renewed["serial"] != issued["serial"]
    assert renewed["ends_at"] < issued["ends_at"]

    revoke = ("cert", "revoke", "site", "us", "--authority", str(authority), "--copy-to", str(own))
    assert {line["serial"] for line in lines(run(*revoke))} == {issued["serial"], renewed["serial"]}
    assert lines(run("cert", "show", str(own)))[0]["state"] == "revoked"
    shown = lines(run("cert", "show", str(authority)))
    assert [(line["member"], line["state"]) for line in shown] == [
        ("authority", "valid"),
        ("site/us", "revoked"),
        ("site/us", "revoked"),
    ]


def test_one_certificate_of_a_member_is_revoked_by_its_number(authority: Path, tmp_path: Path) -> None:
    first, second = (issue(authority, "client", "alice", tmp_path / place) for place in ("desk", "laptop"))
    (gone,) = lines(run("cert", "revoke", "--serial", second["serial"], "--authority", str(authority)))
    assert gone["serial"] == second["serial"]
    states = {line["serial"]: line["state"] for line in lines(run("cert", "show", str(authority)))}
    assert (states[first["serial"]], states[second["serial"]]) == ("valid", "revoked")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("init", "{authority}"), 2, "there is an authority in"),
        (("issue", "site", "a b", "--authority", "{authority}", "--out", "{tmp}/x"), 2, "cannot be a member's name"),
        (("issue", "site", "us", "--authority", "{tmp}", "--out", "{tmp}/x"), 2, "cannot read"),
        (("renew", "{tmp}/x", "--authority", "{authority}"), 2, "cannot read"),
        (("revoke", "--authority", "{authority}"), 2, "a member or a serial number is needed"),
        (("revoke", "site", "us", "--authority", "{authority}"), 4, "has issued no certificate of site/us"),
        (("revoke", "--serial", "ab", "--authority", "{authority}"), 4, "has issued no certificate ab"),
        (("show", "{tmp}/x"), 2, "cannot read"),
    ],
)
def test_what_is_wrong_is_said_with_a_hint(
    authority: Path, tmp_path: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    words = [word.format(authority=authority, tmp=tmp_path) for word in arguments]
    result = CliRunner().invoke(cli, ["cert", *words])
    assert result.exit_code == code
    assert said in result.stderr
    assert "hint: " in result.stderr
    assert "Traceback" not in result.output


def test_a_certificate_that_cannot_be_used_is_said_before_anything_is_sent(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["query", "list", "--tls-dir", str(tmp_path)])
    assert result.exit_code == 2
    assert f"cannot read {tmp_path / 'ca.pem'}" in result.stderr


def test_files_that_cannot_be_fetched_are_said_with_a_hint(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["cert", "fetch", "http://127.0.0.1:1/tls", str(tmp_path / "own")])
    assert result.exit_code == 2
    assert "http://127.0.0.1:1/tls/ca.pem cannot be had" in result.output
    assert "who may read it" in result.output
