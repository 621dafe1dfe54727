from __future__ import annotations

import zipfile
from pathlib import Path

import pyspark
import pytest

from site_agent.engine.jvm.jar import find_jar


def jar_for(path: Path, version: str) -> Path:
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("selat/pyspark-version", f"{version}\n")
    return path


def test_a_jar_for_the_installed_spark_is_found(tmp_path: Path) -> None:
    path = jar_for(tmp_path / "epochs.jar", pyspark.__version__)
    assert find_jar(path) == path


@pytest.mark.parametrize("content", [None, b"", b"no zip file"])
def test_a_jar_that_is_not_there_or_broken_is_none(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "epochs.jar"
    if content is not None:
        path.write_bytes(content)
    assert find_jar(path) is None


def test_a_jar_for_another_spark_is_none(tmp_path: Path) -> None:
    assert find_jar(jar_for(tmp_path / "epochs.jar", "3.5.0")) is None
