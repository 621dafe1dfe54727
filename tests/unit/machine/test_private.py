from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from machine.private import NotPrivateError, make_private, opener, way_to_close
from tests.needs import Lack, Need, unless


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_new_directory_is_its_owners_alone(tmp_path: Path) -> None:
    make_private(tmp_path / "deep" / "state")
    assert mode(tmp_path / "deep" / "state") == 0o700


def test_a_directory_that_others_could_enter_is_closed_with_all_that_is_in_it(tmp_path: Path) -> None:
    state, outside = tmp_path / "state", tmp_path / "outside"
    (state / "sub").mkdir(parents=True)
    for path in (state / "rows", state / "sub" / "more", outside):
        path.write_text("x")
        path.chmod(0o664)
    (state / "run").write_text("x")
    (state / "run").chmod(0o755)
    (state / "link").symlink_to(outside)
    state.chmod(0o755)
    make_private(state)
    assert [mode(p) for p in (state, state / "sub", state / "rows", state / "sub" / "more")] == [
        0o700,
        0o700,
        0o600,
        0o600,
    ]
    assert mode(state / "run") == 0o700
    assert mode(outside) == 0o664


def test_a_directory_that_many_share_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with pytest.raises(NotPrivateError, match="shared by many users") as refused:
        make_private(tmp_path)
    assert str(tmp_path / "selat") in refused.value.hint
    assert mode(tmp_path) == 0o1777


@unless(None if os.geteuid() == 0 else Lack(Need.ROOT, "only it can give a directory away"))
def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, 12345)
    with pytest.raises(NotPrivateError, match="belongs to user 12345"):
        make_private(tmp_path)


def state(mode: int, owner: int) -> os.stat_result:
    return os.stat_result((stat.S_IFREG | mode, 1, 1, 1, owner, 10001, 0, 0, 0, 0))


KEY = Path("key")


@pytest.mark.parametrize(
    ("owner", "open_modes", "closed_modes"),
    [
        (10001, (0o640, 0o440, 0o604, 0o620, 0o610, 0o644), (0o600, 0o400)),
        (0, (0o660, 0o650, 0o644, 0o641, 0o642, 0o444, 0o460), (0o640, 0o440, 0o600, 0o400)),
        (10002, (0o640, 0o440, 0o644), (0o600,)),
    ],
)
def test_a_secret_is_for_its_owner_or_roots_for_a_group(
    monkeypatch: pytest.MonkeyPatch, owner: int, open_modes: tuple[int, ...], closed_modes: tuple[int, ...]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 10001)
    wanted = "chmod 640 key" if owner == 0 else "chmod 600 key"
    assert [way_to_close(KEY, state(m, owner)) for m in open_modes] == [wanted] * len(open_modes)
    assert [way_to_close(KEY, state(m, owner)) for m in closed_modes] == [None] * len(closed_modes)


@pytest.mark.parametrize("owner", [0, 10001])
def test_to_root_a_group_is_others(monkeypatch: pytest.MonkeyPatch, owner: int) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert [way_to_close(KEY, state(m, owner)) for m in (0o640, 0o440, 0o600)] == ["chmod 600 key"] * 2 + [None]


def test_a_file_is_made_for_its_owner(tmp_path: Path) -> None:
    with open(tmp_path / "log", "wb", opener=opener):
        pass
    assert mode(tmp_path / "log") == 0o600
