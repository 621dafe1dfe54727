from __future__ import annotations

from pathlib import Path

import pytest

from machine.logs import LogFormat
from site_agent.base.errors import SiteAgentError
from site_agent.config import HostedSite, parse_arguments, security_of
from site_agent.connectors.paths import AllowedPaths
from tests.certificates import Certificates
from wire.names import site as member_of


def test_defaults() -> None:
    config = parse_arguments(["--site", "eu", "--data", "/tmp/x"])

    assert config.sites == (HostedSite("eu", 1),)
    assert (config.master, config.listen, config.data) == ("127.0.0.1:7410", "127.0.0.1:0", Path("/tmp/x"))


def test_several_sites_with_slots() -> None:
    config = parse_arguments(["--site", "eu:4", "--site", "us", "--data", "x"])

    assert config.sites == (HostedSite("eu", 4), HostedSite("us", 1))


def test_an_advertised_address() -> None:
    given = [
        "--site",
        "eu",
        "--data",
        "x",
        "--listen",
        "0.0.0.0:7411",
        "--insecure",
        "--advertise",
        "eu.example.com:7411",
    ]

    assert parse_arguments(given).advertise == "eu.example.com:7411"


@pytest.mark.parametrize("address", ["eu.example.com", ":7411", "eu:port", "eu:0", "eu:65536"])
def test_an_advertised_address_that_makes_no_sense_is_refused(address: str) -> None:
    with pytest.raises(SiteAgentError, match="--advertise"):
        parse_arguments(["--site", "eu", "--data", "x", "--advertise", address])


def test_one_address_cannot_be_that_of_two_sites() -> None:
    with pytest.raises(SiteAgentError, match="2 sites"):
        parse_arguments(["--site", "eu", "--site", "us", "--data", "x", "--advertise", "h:1"])


def test_metrics_and_the_form_of_the_log() -> None:
    config = parse_arguments(["--site", "eu", "--data", "x"])
    assert (config.metrics, config.log_format) == ("", LogFormat.TEXT)
    given = ["--site", "eu", "--data", "x", "--metrics-listen", "127.0.0.1:7421", "--log-format", "json"]
    config = parse_arguments(given)
    assert (config.metrics, config.log_format) == ("127.0.0.1:7421", LogFormat.JSON)


@pytest.mark.parametrize("address", ["7421", "127.0.0.1:", "127.0.0.1:65536", "0.0.0.0:7421"])
def test_metrics_are_served_on_loopback_unless_told_otherwise(address: str) -> None:
    with pytest.raises(SiteAgentError, match="--metrics-listen"):
        parse_arguments(["--site", "eu", "--data", "x", "--metrics-listen", address])


@pytest.mark.parametrize("text", ["eu:0", "eu:two", ":1", "eu:-1"])
def test_a_site_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(SiteAgentError, match="--site"):
        parse_arguments(["--site", text, "--data", "x"])


def test_a_site_named_twice_is_refused() -> None:
    with pytest.raises(SiteAgentError, match="twice"):
        parse_arguments(["--site", "eu", "--site", "eu:2", "--data", "x"])


@pytest.mark.parametrize("option", ["--retained-bytes", "--kept-behind-bytes"])
def test_a_budget_is_not_below_nothing(option: str) -> None:
    arguments = ["--site", "eu", "--data", "x", option]
    config = parse_arguments([*arguments, "0"])
    assert 0 in (config.retained_bytes, config.kept_behind_bytes)
    with pytest.raises(SiteAgentError, match=f"{option} -1 is below 0"):
        parse_arguments([*arguments, "-1"])


SITE = ["--site", "eu", "--data", "x"]


@pytest.mark.parametrize(
    "given",
    [
        ["--listen", "0.0.0.0:7411"],
        ["--listen", "[::]:7411"],
        ["--listen", "192.0.2.7:7411"],
        ["--listen", "0:7411"],
        ["--listen", "no-such-host.invalid:7411"],
        ["--spark-master", "spark://hub:7077"],
        ["--spark-master", "yarn"],
        ["--spark-master", "spark://hub:7077", "--spark-conf", "spark.driver.host=192.0.2.7"],
        ["--spark-conf", "spark.driver.bindAddress=0.0.0.0"],
        ["--spark-master", "local-cluster[1,1,512]", "--spark-conf", "spark.driver.bindAddress=0.0.0.0"],
    ],
)
def test_an_agent_listens_elsewhere_than_on_loopback_only_when_told_so(given: list[str]) -> None:
    with pytest.raises(SiteAgentError, match="not on loopback") as refused:
        parse_arguments([*SITE, *given])
    assert "--insecure" in refused.value.hint
    assert parse_arguments([*SITE, *given, "--insecure"]).insecure


@pytest.mark.parametrize("host", ["127.0.0.1", "127.5.6.7", "localhost", "[::1]", "[::ffff:127.0.0.1]"])
def test_loopback_has_many_names(host: str) -> None:
    assert parse_arguments([*SITE, "--listen", f"{host}:0"]).listen == f"{host}:0"


def test_spark_may_have_its_driver_on_loopback() -> None:
    given = ["--spark-master", "spark://127.0.0.1:7077", "--spark-conf", "spark.driver.bindAddress=127.0.0.1"]
    assert not parse_arguments([*SITE, *given]).insecure


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        ([], True),
        (["--python-functions", "refuse"], False),
        (["--insecure"], False),
        (["--insecure", "--python-functions", "allow"], True),
    ],
)
def test_python_functions_are_refused_when_insecure_unless_they_are_allowed(given: list[str], allowed: bool) -> None:
    assert (parse_arguments([*SITE, *given]).functions is not None) is allowed


LIMITS = {
    "--disk-budget-bytes": "disk_budget_bytes",
    "--stop-timeout": "stop_timeout_s",
    "--function-cpu-seconds": "cpu_s",
    "--function-memory-bytes": "memory_bytes",
    "--function-open-files": "open_files",
}


@pytest.mark.parametrize(("flag", "name"), LIMITS.items())
def test_limits_are_whole_numbers_above_0(flag: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    config = parse_arguments([*SITE, flag, "7"])
    assert getattr(config if hasattr(config, name) else config.functions, name) == 7
    for wrong in ("0", "-1", "1.5", "x", "٣"):
        with pytest.raises(SystemExit):
            parse_arguments([*SITE, flag, wrong])
        assert "is no whole number above 0" in capsys.readouterr().err


def test_without_a_flag_a_site_has_no_disk_budget() -> None:
    assert parse_arguments(SITE).disk_budget_bytes == 0


def test_paths_are_allowed_below_the_working_directory_or_where_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_arguments(SITE).allowed == AllowedPaths((tmp_path,))
    assert parse_arguments([*SITE, "--insecure"]).allowed == AllowedPaths(())
    named = ["--allow-path", "in", "--allow-path", "/out"]
    assert parse_arguments([*SITE, "--insecure", *named]).allowed == AllowedPaths((tmp_path / "in", Path("/out")))
    monkeypatch.chdir("/")
    assert parse_arguments(SITE).allowed == AllowedPaths(())


def test_with_certificates_an_agent_may_listen_anywhere(tmp_path: Path) -> None:
    config = parse_arguments([*SITE, "--listen", "0.0.0.0:7411", "--tls-dir", str(tmp_path)])
    assert (config.tls_dir, config.insecure) == (tmp_path, False)
    # Whoever has a certificate could use what is allowed by default at home.
    assert config.functions is None
    assert config.allowed.directories == ()
    at_home = parse_arguments([*SITE, "--tls-dir", str(tmp_path)])
    assert at_home.functions is not None


def test_certificates_do_not_open_sparks_driver(tmp_path: Path) -> None:
    given = ["--spark-conf", "spark.driver.bindAddress=0.0.0.0", "--tls-dir", str(tmp_path)]
    with pytest.raises(SiteAgentError, match="Spark's driver would listen at"):
        parse_arguments([*SITE, *given])


def test_the_certificate_is_that_of_the_site(tmp_path: Path) -> None:
    certificates = Certificates.create(tmp_path / "tls")
    own = certificates.issue("site", "eu")
    alone = parse_arguments([*SITE, "--tls-dir", str(own)])
    assert security_of(alone, "eu").on
    assert not security_of(parse_arguments(SITE), "eu").on
    both = parse_arguments([*SITE, "--site", "us", "--tls-dir", str(tmp_path / "all")])
    certificates.authority.issue(member_of("eu"), tmp_path / "all" / "eu")
    assert security_of(both, "eu").on
    with pytest.raises(SiteAgentError, match=r"cannot read .*us"):
        security_of(both, "us")
    wrong = parse_arguments(["--site", "us", "--data", "x", "--tls-dir", str(own)])
    with pytest.raises(SiteAgentError, match="is that of site/eu, not of site/us"):
        security_of(wrong, "us")
