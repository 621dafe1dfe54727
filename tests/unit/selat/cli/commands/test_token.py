"""`selat token new`, as a user runs it: no master is asked."""

from __future__ import annotations

import json
import stat
from pathlib import Path

from click.testing import CliRunner

from master.access.tokens import is_token
from selat.cli import cli


def test_the_first_token_is_written_for_its_user_alone(tmp_path: Path) -> None:
    file = tmp_path / "admin.token"
    made = CliRunner().invoke(cli, ["token", "new", "--to", str(file)])
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout) == {"file": str(file)}
    assert is_token(file.read_text().strip())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    file = tmp_path / "admin.token"
    file.write_text("mine")
    refused = CliRunner().invoke(cli, ["token", "new", "--to", str(file)])
    assert refused.exit_code == 2
    assert "is there already" in refused.output
    assert file.read_text() == "mine"


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    refused = CliRunner().invoke(cli, ["token", "new", "--to", str(tmp_path / "none" / "admin.token")])
    assert refused.exit_code == 2
    assert "cannot be written: No such file or directory" in refused.output
