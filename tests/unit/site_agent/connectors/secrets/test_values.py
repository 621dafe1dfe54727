"""Secrets are read from files that only the agent can read, when they are needed, and are told nowhere."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from io import StringIO
from pathlib import Path

import pytest

from machine.terminal import LogFormatter
from planner.relations.catalog import RelationKind
from planner.relations.connectors import table
from planner.relations.connectors.spec import ConnectorSpec
from planner.relations.options import Option
from site_agent.base.errors import ConnectorError, SecretError, SiteAgentError
from site_agent.connectors.secrets.sources import SecretConnector, redacted
from site_agent.connectors.secrets.values import LIMIT_BYTES, RedactingFilter, Secrets
from site_agent.connectors.sources import Source, SourceContext, Table
from tests.needs import Lack, Need, unless
from tests.unit.site_agent.connectors.contexts import source_context

VALUE = "hunter2-and-more"
VAULT = ConnectorSpec(
    "vault",
    frozenset({RelationKind.STREAM}),
    (Option("password", str, "a text", "", secret=True), Option("user", str, "a text", "")),
)
OPTIONS = {"connector": "vault", "password": "${secret:eu}", "user": "me"}


@pytest.fixture(autouse=True)
def vault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connector with a secret."""
    monkeypatch.setitem(table.CONNECTORS, "vault", VAULT)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "secrets"
    made.mkdir(mode=0o700)
    write(made, VALUE)
    return made


def write(directory: Path, value: str, *, mode: int = 0o600) -> Path:
    path = directory / "eu"
    path.unlink(missing_ok=True)
    path.write_text(value)
    path.chmod(mode)
    return path


def test_references_become_values_and_all_else_stays(directory: Path) -> None:
    assert Secrets(directory).resolved(OPTIONS) == {**OPTIONS, "password": VALUE}


def test_options_without_references_are_as_they_are(directory: Path) -> None:
    plain = {"connector": "files", "path": "/data"}
    assert Secrets(directory).resolved(plain) is plain


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_file_of_ones_own_is_read(directory: Path, mode: int) -> None:
    write(directory, f"{VALUE}\n", mode=mode)
    assert Secrets(directory).resolved(OPTIONS)["password"] == VALUE


def test_a_link_within_a_volume_is_followed(directory: Path) -> None:
    data = directory / "..data"
    data.mkdir()
    (directory / "eu").rename(data / "eu")
    (directory / "eu").symlink_to("..data/eu")
    assert Secrets(directory).resolved(OPTIONS)["password"] == VALUE


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o620, 0o666])
def test_a_file_that_others_can_use_is_refused(directory: Path, mode: int) -> None:
    write(directory, VALUE, mode=mode)
    with pytest.raises(SecretError, match=f"has the mode {mode:04o}") as caught:
        Secrets(directory).resolved(OPTIONS)
    assert caught.value.ids == {"secret": "eu"}


@unless(None if os.geteuid() == 0 else Lack(Need.ROOT, "only it can give a file away"))
def test_who_owns_a_file_decides_whether_its_group_may_read(directory: Path) -> None:
    path = write(directory, VALUE, mode=0o440)
    assert Secrets(directory).resolved(OPTIONS)["password"] == VALUE
    os.chown(path, 12345, -1)
    with pytest.raises(SecretError, match="belongs to another user"):
        Secrets(directory).resolved(OPTIONS)


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "is empty"), (b"\n", "is empty"), (b"\xff\xfe", "no UTF-8"), (b"x" * (LIMIT_BYTES + 1), "longer than")],
)
def test_a_file_that_cannot_be_a_secret_is_refused(directory: Path, content: bytes, said: str) -> None:
    (directory / "eu").write_bytes(content)
    with pytest.raises(SecretError, match=said):
        Secrets(directory).resolved(OPTIONS)


def test_what_is_no_file_is_refused_and_not_waited_for(directory: Path) -> None:
    (directory / "eu").unlink()
    with pytest.raises(SecretError, match="there is no secret eu at this site"):
        Secrets(directory).resolved(OPTIONS)
    os.mkfifo(directory / "eu", 0o600)
    with pytest.raises(SecretError, match="is no file"):
        Secrets(directory).resolved(OPTIONS)
    (directory / "eu").unlink()
    (directory / "eu").mkdir()
    with pytest.raises(SecretError, match="is no file"):
        Secrets(directory).resolved(OPTIONS)


def test_an_agent_without_secrets_says_which_option_it_lacks() -> None:
    with pytest.raises(SecretError, match="this agent has no secrets") as caught:
        Secrets().resolved(OPTIONS)
    assert "--secrets-dir" in caught.value.hint


@pytest.mark.parametrize("given", [{"password": "literal-value"}, {"user": "${secret:eu}"}])
def test_an_agent_takes_no_values_for_secrets_and_no_secrets_for_values(directory: Path, given: dict[str, str]) -> None:
    """Whoever sends the options: a path that is a secret would be told in the error about it."""
    with pytest.raises(ConnectorError) as caught:
        Secrets(directory).resolved({**OPTIONS, **given})
    assert "literal-value" not in str(caught.value)
    assert VALUE not in str(caught.value)


def test_a_directory_must_be_there_and_closed_to_writers(tmp_path: Path) -> None:
    with pytest.raises(SiteAgentError, match="--secrets-dir"):
        Secrets(tmp_path / "nowhere")
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(SiteAgentError, match="no directory"):
        Secrets(file)
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(SiteAgentError, match="others may write"):
        Secrets(shared)


def test_values_are_taken_out_of_texts_the_longest_first(directory: Path) -> None:
    secrets = Secrets(directory)
    assert secrets.redact(VALUE) == VALUE
    secrets.resolved(OPTIONS)
    write(directory, f"{VALUE}-longer")
    secrets.resolved(OPTIONS)
    assert secrets.redact(f"a {VALUE}-longer b {VALUE} c") == "a ${secret:eu} b ${secret:eu} c"


def test_a_value_too_short_to_be_found_is_left(directory: Path) -> None:
    write(directory, "abc")
    secrets = Secrets(directory)
    secrets.resolved(OPTIONS)
    assert secrets.redact("abcdef") == "abcdef"


def test_no_log_line_nor_traceback_has_a_value(directory: Path) -> None:
    secrets, written = Secrets(directory), StringIO()
    secrets.resolved(OPTIONS)
    handler = logging.StreamHandler(written)
    handler.setFormatter(LogFormatter("%(message)s"))
    handler.addFilter(RedactingFilter(secrets))
    logger = logging.Logger("test")
    logger.addHandler(handler)
    logger.warning("login with %s refused, 100%% sure", VALUE)
    try:
        raise ValueError(VALUE)
    except ValueError:
        logger.exception("failed")
    assert VALUE not in written.getvalue()
    assert "login with ${secret:eu} refused, 100% sure" in written.getvalue()
    assert "ValueError: ${secret:eu}" in written.getvalue()


class Talkative:
    """A connector that tells its password wherever it can."""

    name = "vault"

    def __init__(self, error: Exception | None = None) -> None:
        self.opened: list[Mapping[str, str]] = []
        self._error = error

    def open_source(self, context: SourceContext) -> Source:
        self.opened.append(context.options)
        password = context.options["password"]
        raise self._error or ConnectorError(f"refused {password}", hint=password, ids={"x": password})

    def open_table(self, context: SourceContext) -> Table:
        raise ConnectorError("no tables")


def test_an_error_of_a_connector_has_the_reference_in_place_of_the_value(tmp_path: Path, directory: Path) -> None:
    with pytest.raises(ConnectorError) as caught:
        SecretConnector(Talkative(), Secrets(directory)).open_source(source_context(tmp_path, OPTIONS))
    error = caught.value
    assert (error.message, error.hint, error.ids) == ("refused ${secret:eu}", "${secret:eu}", {"x": "${secret:eu}"})
    assert VALUE not in str(error)


@pytest.mark.parametrize("error", [RuntimeError(f"at {VALUE}"), OSError(5, f"at {VALUE}")])
def test_errors_of_libraries_are_cleaned_with_their_causes(tmp_path: Path, directory: Path, error: Exception) -> None:
    connector = SecretConnector(Talkative(error), Secrets(directory))
    with pytest.raises((ConnectorError, OSError)) as caught:
        connector.open_source(source_context(tmp_path, OPTIONS))
    assert VALUE not in str(caught.value)
    assert "${secret:eu}" in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert isinstance(caught.value, OSError) == isinstance(error, OSError)


def test_an_error_whose_cause_tells_a_value_loses_the_cause(directory: Path) -> None:
    secrets = Secrets(directory)
    secrets.resolved(OPTIONS)
    error = ConnectorError("refused")
    error.__cause__ = RuntimeError(VALUE)
    with pytest.raises(ConnectorError) as caught, redacted(secrets):
        raise error
    assert caught.value.__cause__ is None


def test_an_error_without_a_value_passes_as_it_is(directory: Path) -> None:
    error = RuntimeError("else")
    with pytest.raises(RuntimeError) as caught, redacted(Secrets(directory)):
        raise error
    assert caught.value is error


def test_a_changed_file_counts_when_the_connector_is_opened_again(tmp_path: Path, directory: Path) -> None:
    talkative = Talkative()
    connector = SecretConnector(talkative, Secrets(directory))
    for value in (VALUE, "another-value"):
        write(directory, value)
        with pytest.raises(ConnectorError):
            connector.open_source(source_context(tmp_path, OPTIONS))
    assert [opened["password"] for opened in talkative.opened] == [VALUE, "another-value"]
