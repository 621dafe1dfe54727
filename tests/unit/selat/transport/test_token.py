"""Tokens of clients: where they come from, and where they may go."""

from __future__ import annotations

from pathlib import Path

import pytest

import selat
from selat.transport.token import check_private, find_token


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("from_file\n")
    path.chmod(0o600)
    return path


def test_what_is_given_comes_before_files(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SELAT_TOKEN_FILE", raising=False)
    assert find_token(None, None) == ""
    assert find_token(None, file) == "from_file"
    monkeypatch.setenv("SELAT_TOKEN_FILE", str(file))
    assert find_token(None, None) == "from_file"
    assert find_token("given", None) == "given"


def test_a_token_that_cannot_be_used_is_told_without_it(file: Path) -> None:
    file.chmod(0o644)
    with pytest.raises(selat.InvalidArgument, match="others may read"):
        find_token(None, file)
    with pytest.raises(selat.InvalidArgument) as caught:
        find_token("two words", None)
    assert "two words" not in str(caught.value)


@pytest.mark.parametrize("address", ["127.0.0.1:7410", "localhost:7410", "[::1]:7410"])
def test_on_this_machine_a_token_is_sent_as_it_is(address: str) -> None:
    check_private(address, insecure=False)


def test_to_another_machine_only_when_told_so() -> None:
    check_private("192.0.2.1:7410", insecure=True)
    with pytest.raises(selat.InvalidArgument, match="not encrypted") as caught:
        selat.connect("192.0.2.1:7410", token="abc")
    assert "--insecure" in caught.value.hint
    assert "abc" not in str(caught.value)
