from __future__ import annotations

import re
from pathlib import Path

import pytest

from site_agent.base.errors import SiteAgentError
from site_agent.config import parse_arguments
from site_agent.engine.jvm.session import SparkOptions

SITE = ["--site", "eu", "--data", "x"]
HUB = ["--spark-master", "spark://hub:7077"]
TLS = ["--tls-dir", "certificates"]
SECRET = "known-to-all"


@pytest.fixture
def secret(tmp_path: Path) -> list[str]:
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    file.chmod(0o600)
    return ["--spark-secret-file", str(file)]


def spark(*given: str) -> SparkOptions:
    return parse_arguments([*SITE, *given]).spark


def refused(*given: str) -> SiteAgentError:
    with pytest.raises(SiteAgentError) as caught:
        spark(*given)
    return caught.value


def test_a_cluster() -> None:
    settings = ["--spark-conf", "spark.executor.memory=4g", "--spark-conf", "spark.x=a=b"]
    given = [*HUB, *settings, "--driver-memory", "2g", "--files-port", "7500", "--insecure"]
    assert spark(*given) == SparkOptions(
        "spark://hub:7077", "2g", settings={"spark.executor.memory": "4g", "spark.x": "a=b"}
    )
    assert parse_arguments([*SITE, *given]).files_port == 7500


@pytest.mark.parametrize(
    ("setting", "hint"),
    [
        ("spark.executor.memory", "KEY=VALUE|executor.memory=4g"),
        ("executor.memory=4g", "spark.executor.memory"),
        ("spark.master=yarn", "--spark-master"),
        ("spark.driver.memory=2g", "--driver-memory"),
        ("spark.authenticate.secret=word", "--spark-secret-file"),
    ],
)
def test_a_setting_that_cannot_be(setting: str, hint: str) -> None:
    error = refused("--spark-conf", setting)
    assert str(error).startswith("--spark-conf")
    assert re.search(hint, error.hint)
    assert "word" not in str(error)


def test_a_cluster_is_encrypted_where_members_have_certificates(secret: list[str]) -> None:
    found = spark(*HUB, *TLS, *secret)
    assert (found.encrypted, found.secret) == (True, SECRET)
    assert SECRET not in repr(found)


@pytest.mark.parametrize("url", ["yarn", "k8s://https://kube"])
def test_clusters_that_make_a_secret_need_none(url: str) -> None:
    assert spark("--spark-master", url, *TLS).encrypted


def test_a_standalone_cluster_needs_its_secret() -> None:
    for url in ("spark://hub:7077", "local-cluster[1,1,512]"):
        error = refused("--spark-master", url, *TLS)
        assert url in str(error)
        assert "--spark-secret-file" in error.hint


@pytest.mark.parametrize(
    "setting", ["spark.authenticate=false", "spark.network.crypto.enabled=no", "spark.network.crypto.saslFallback=true"]
)
def test_no_setting_turns_encryption_off(secret: list[str], setting: str) -> None:
    given = [*HUB, *TLS, *secret, "--spark-conf", setting]
    assert setting in str(refused(*given))
    assert not spark(*given, "--insecure").encrypted


@pytest.mark.parametrize("given", [[], ["--spark-master", "local[2]"], [*HUB, "--insecure"]])
def test_nothing_else_is_encrypted(given: list[str]) -> None:
    assert not spark(*given, *TLS).encrypted


def test_a_secret_is_its_owners(secret: list[str]) -> None:
    Path(secret[1]).chmod(0o644)
    error = refused(*HUB, *TLS, *secret)
    assert "others may read" in str(error)
    assert "chmod 600" in error.hint


def test_an_insecure_agent_can_know_the_secret_of_a_cluster_that_authenticates(secret: list[str]) -> None:
    found = spark(*HUB, *secret, "--insecure", "--spark-conf", "spark.authenticate=true")
    assert (found.encrypted, found.secret) == (False, SECRET)


def test_a_driver_that_is_not_on_loopback_is_told_of_encryption() -> None:
    assert "--tls-dir" in refused(*HUB).hint
