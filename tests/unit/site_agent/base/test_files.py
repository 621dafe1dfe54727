from __future__ import annotations

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from site_agent.base.files import Files, write_json

LIMIT_BYTES = 5000


@contextmanager
def largest_file(size_bytes: int) -> Iterator[None]:
    """The kernel writes as much of a file as fits, and refuses the rest: as on a disk that is nearly full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size_bytes", [LIMIT_BYTES + 1, 3 * LIMIT_BYTES])
def test_a_file_that_does_not_fit_is_not_there_at_all(tmp_path: Path, size_bytes: int) -> None:
    path = tmp_path / "epoch.tmp"
    with largest_file(LIMIT_BYTES), pytest.raises(OSError, match="File too large") as caught:
        Files().write(path, [b"x" * size_bytes], sync=True)
    assert caught.value.errno == errno.EFBIG
    assert not path.exists()


def test_a_file_that_just_fits_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "epoch.tmp"
    with largest_file(LIMIT_BYTES):
        Files().write(path, [b"a" * 10, b"x" * (LIMIT_BYTES - 10)], sync=False)
    assert path.read_bytes() == b"a" * 10 + b"x" * (LIMIT_BYTES - 10)


def test_json_that_cannot_be_replaced_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "consumers.json"
    write_json(Files(), path, {"a": 1}, durable=True)
    with largest_file(100), pytest.raises(OSError, match="File too large"):
        write_json(Files(), path, {"a": "x" * 200}, durable=True)
    assert path.read_text() == '{"a": 1}'
    assert [entry.name for entry in tmp_path.iterdir()] == ["consumers.json"]
