from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from site_agent.engine.jvm.session import SparkOptions, _configuration, _environment, _said, clear_scratch


def test_a_directory_with_a_space_stays_one_java_option(tmp_path: Path) -> None:
    scratch = tmp_path / "with space"
    scratch.mkdir()
    conf = _configuration(scratch, 1, SparkOptions(java_options="-XX:+UseSerialGC"))
    assert shlex.split(conf.get("spark.driver.extraJavaOptions")) == [
        "-Xss8m",
        "-Duser.timezone=UTC",
        f"-Djava.io.tmpdir={scratch}",
        f"-Dlog4j2.configurationFile={(scratch / 'log4j2.properties').as_uri()}",
        "-XX:+UseSerialGC",
    ]
    assert f"appender.file.fileName = {scratch}/spark.log" in (scratch / "log4j2.properties").read_text()


@pytest.mark.parametrize(
    ("master_url", "master", "host", "elsewhere"),
    [
        (None, "local[3]", "127.0.0.1", False),
        ("local[7]", "local[7]", "127.0.0.1", False),
        ("local", "local", "127.0.0.1", False),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]", "127.0.0.1", True),
        ("spark://hub:7077", "spark://hub:7077", None, True),
    ],
)
def test_only_a_lone_driver_keeps_to_loopback(
    tmp_path: Path, master_url: str | None, master: str, host: str | None, elsewhere: bool
) -> None:
    options = SparkOptions(master_url)
    conf = _configuration(tmp_path, 3, options)
    assert (conf.get("spark.master"), conf.get("spark.driver.host", None)) == (master, host)
    assert options.executors_elsewhere is elsewhere


def test_no_setting_that_is_launched_with_has_the_secret(tmp_path: Path) -> None:
    conf = _configuration(tmp_path, 1, SparkOptions("spark://hub:7077", encrypted=True, secret="known-to-all"))
    assert conf.get("spark.network.crypto.enabled") == "true"
    assert not any("known-to-all" in value for _, value in conf.getAll())


def test_given_settings_win_over_ours(tmp_path: Path) -> None:
    settings = {"spark.driver.host": "eu.example.com", "spark.executor.memory": "4g"}
    conf = _configuration(tmp_path, 1, SparkOptions("k8s://https://k", settings=settings))
    assert {key: conf.get(key) for key in settings} == settings


def test_a_cleared_scratch_keeps_only_logs(tmp_path: Path) -> None:
    (tmp_path / "engine-1" / "task-2").mkdir(parents=True)
    (tmp_path / "engine-1" / "task-2" / "rows.parquet").touch()
    (tmp_path / "spark.log").touch()
    clear_scratch(tmp_path)
    clear_scratch(tmp_path / "new")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new", "spark.log"]


def test_the_environment_is_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/another/spark")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with _environment(tmp_path, loopback=True):
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
