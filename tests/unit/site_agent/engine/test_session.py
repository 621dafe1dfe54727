from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from site_agent.engine.session import _configuration, _environment, _place, _said


def test_a_directory_with_a_space_stays_one_java_option(tmp_path: Path) -> None:
    scratch = tmp_path / "with space"
    scratch.mkdir()
    options = shlex.split(_configuration(scratch, "1g", "-XX:+UseSerialGC").get("spark.driver.extraJavaOptions"))
    assert options == [
        "-Xss8m",
        "-Duser.timezone=UTC",
        f"-Djava.io.tmpdir={scratch}",
        f"-Dlog4j2.configurationFile={(scratch / 'log4j2.properties').as_uri()}",
        "-XX:+UseSerialGC",
    ]
    assert f"appender.file.fileName = {scratch}/spark.log" in (scratch / "log4j2.properties").read_text()


@pytest.mark.parametrize(
    ("master_url", "master", "host"), [(None, "local[3]", "127.0.0.1"), ("spark://hub:7077", "spark://hub:7077", None)]
)
def test_only_a_lone_driver_keeps_to_loopback(
    tmp_path: Path, master_url: str | None, master: str, host: str | None
) -> None:
    conf = _configuration(tmp_path, "1g", "")
    _place(conf, 3, master_url)
    assert (conf.get("spark.master"), conf.get("spark.driver.host", None)) == (master, host)


def test_the_environment_is_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/another/spark")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with _environment(tmp_path, local=True):
        assert os.environ["JAVA_HOME"] == str(tmp_path)
        assert os.environ["SPARK_HOME"] != "/another/spark"
    assert os.environ["SPARK_HOME"] == "/another/spark"
    assert "JAVA_HOME" not in os.environ


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("WARNING: incubator\nInvalid heap: -Xmx1x\n\nError: no VM.\nmore\n", "Invalid heap: -Xmx1x: Error: no VM."),
        ("Boom\n\tat java.lang.Thread\n", "Boom"),
        ("", ""),
    ],
)
def test_what_the_jvm_said(tmp_path: Path, printed: str, said: str) -> None:
    (tmp_path / "jvm.out").write_text(printed)
    assert _said(tmp_path / "jvm.out") == said
