from __future__ import annotations

from pathlib import Path

import pytest

from machine.bearer import Bearer, TokenFileError, read_token
from tests.handed import ROOT_LACK, as_service, handed
from tests.needs import unless


def token_file(directory: Path, text: str, mode: int = 0o600) -> Path:
    path = directory / "token"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_the_word_in_the_file_is_the_token(tmp_path: Path) -> None:
    assert read_token(token_file(tmp_path, "  selat_abc-_1\n")) == "selat_abc-_1"


@pytest.mark.parametrize("text", ["", "\n", "two words", "with\nline", "semi;colon", "a" * 20_000, "tab\tbed"])
def test_what_is_no_word_is_no_token(tmp_path: Path, text: str) -> None:
    with pytest.raises(TokenFileError, match="has no token"):
        read_token(token_file(tmp_path, text))


def test_other_bytes_are_no_token(tmp_path: Path) -> None:
    path = token_file(tmp_path, "")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(TokenFileError, match="no ASCII"):
        read_token(path)


def test_a_file_that_others_may_read_is_refused_and_told_how_to_close_it(tmp_path: Path) -> None:
    path = token_file(tmp_path, "abc", 0o640)
    with pytest.raises(TokenFileError, match="others may read") as caught:
        read_token(path)
    assert caught.value.hint == f"chmod 600 {path}"
    with pytest.raises(TokenFileError, match="cannot be read"):
        read_token(tmp_path / "none")


@unless(ROOT_LACK)
def test_a_file_that_root_hands_to_a_group_is_taken_by_its_members(tmp_path: Path) -> None:
    with handed(token_file(tmp_path, "abc").parent) as directory:
        path = directory / "token"
        with as_service():
            assert read_token(path) == "abc"
        path.chmod(0o444)
        with as_service(), pytest.raises(TokenFileError, match="others may read") as caught:
            read_token(path)
        assert caught.value.hint == f"chmod 640 {path}"


def test_a_member_shows_what_its_file_has_now_and_the_last_token_meanwhile(tmp_path: Path) -> None:
    path = token_file(tmp_path, "first")
    bearer = Bearer(path)
    path.write_text("second")
    assert bearer.metadata() == (("authorization", "Bearer second"),)
    path.unlink()
    assert bearer.metadata() == (("authorization", "Bearer second"),)
    assert Bearer().metadata() == ()
