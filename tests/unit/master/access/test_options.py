from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from master.access.audit import AuditOptions
from master.access.config import AccessConfig, OidcOptions
from master.access.options import access_config, add_access_options
from master.base.errors import InvalidRequestError
from master.config.values import MasterConfig
from planner.access.claims import ClaimRule
from planner.access.limits import Limits, LimitTable
from planner.access.principal import Kind
from planner.values.errors import InvalidDefinitionError


def said(*arguments: str) -> AccessConfig:
    parser = argparse.ArgumentParser()
    add_access_options(parser)
    return access_config(parser.parse_args(arguments))


def test_it_is_off_by_default() -> None:
    assert said() == AccessConfig()
    assert not AccessConfig().on


def test_what_is_said(tmp_path: Path) -> None:
    limits = tmp_path / "limits.yaml"
    limits.write_text("person: {streams: 3}")
    options = ("--bootstrap-token-file", "t", "--audit-log", "a", "--audit-log-bytes", "9", "--audit-log-files", "2")
    config = said("--auth", *options, "--limits", str(limits))
    assert (config.on, config.bootstrap_token_file) == (True, Path("t"))
    assert config.audit == AuditOptions(Path("a"), 9, 2)
    assert config.limits.kinds[Kind.PERSON] == Limits(streams=3)


@pytest.mark.parametrize("option", ["--bootstrap-token-file", "--audit-log", "--limits"])
def test_what_needs_auth_says_so(option: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"{option} has no effect") as caught:
        said(option, "file")
    assert caught.value.hint == "add --auth"


def test_a_wrong_file_of_limits_is_named(tmp_path: Path) -> None:
    limits = tmp_path / "limits.yaml"
    with pytest.raises(InvalidDefinitionError, match="cannot read limits"):
        said("--auth", "--limits", str(limits))
    limits.write_text("persons: {}")
    with pytest.raises(InvalidDefinitionError) as caught:
        said("--auth", "--limits", str(limits))
    assert caught.value.message == f"limits {limits}: the file has persons"


def test_limits_beyond_the_masters_own_are_refused() -> None:
    table = LimitTable({Kind.PERSON: Limits(message_bytes=2**30, statement_bytes=2**30)})
    problems = MasterConfig(access=AccessConfig(limits=table)).validate()
    assert [p.partition(" is ")[0] for p in problems] == ["limits: message_bytes", "limits: statement_bytes"]
    assert MasterConfig().validate() == ()


def test_options_of_an_issuer_go_together(tmp_path: Path) -> None:
    roles = tmp_path / "roles.yaml"
    roles.write_text("- {claim: groups, value: data, roles: [submitter]}")
    options = ("--oidc-keys", "keys.json", "--oidc-issuer", "https://login.example", "--oidc-audience", "selat")
    found = said("--auth", *options, "--oidc-roles", str(roles)).oidc
    assert found == OidcOptions(
        "keys.json", "https://login.example", "selat", (ClaimRule("groups", "data", ("submitter",)),)
    )
    with pytest.raises(InvalidRequestError, match="--oidc-roles is missing"):
        said("--auth", *options)
    with pytest.raises(InvalidRequestError, match="--oidc-keys has no effect"):
        said(*options)
    roles.write_text("{}")
    with pytest.raises(InvalidDefinitionError) as caught:
        said("--auth", *options, "--oidc-roles", str(roles))
    assert caught.value.message == f"claims {roles}: it is no list of rules"
