"""Options that are secrets take references, all others take none; no error repeats what was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.relations.catalog import RelationKind
from planner.relations.connectors import table
from planner.relations.connectors.spec import ConnectorSpec
from planner.relations.connectors.table import SecretOptionError, check_secrets
from planner.relations.options import Option
from planner.relations.references import referred_secret
from planner.sql import CreateRelation, parse_script
from planner.values.errors import InvalidDefinitionError

VAULT = ConnectorSpec(
    "vault",
    frozenset({RelationKind.STREAM}),
    (Option("password", str, "a text", "", secret=True), Option("user", str, "a text", "")),
)
STREAM = "CREATE STREAM s (ts TIMESTAMP, WATERMARK FOR ts) "


@pytest.fixture(autouse=True)
def vault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connector with a secret."""
    monkeypatch.setitem(table.CONNECTORS, "vault", VAULT)


def test_only_marked_options_are_secrets() -> None:
    assert [name for name in ("password", "user", "nothing") if VAULT.secret(name)] == ["password"]


@pytest.mark.parametrize("name", ["kafka-eu", "a", "A.b_c-9", "x" * 100])
def test_a_reference_names_a_file(name: str) -> None:
    assert referred_secret(f"${{secret:{name}}}") == name


@pytest.mark.parametrize(
    "text",
    ["", "hunter2", "${secret:}", "${secret:../etc}", "${secret:.x}", "${secret:a/b}", "${secret:a}x", "${SECRET:a}",
     "${secret:a", "$secret:a", "${secret:é}", "${secret:a\n}", "${secret:" + "x" * 101 + "}"],
)  # fmt: skip
def test_anything_else_is_no_reference(text: str) -> None:
    assert referred_secret(text) is None


@given(st.text(max_size=120))
def test_what_is_taken_for_a_reference_could_never_leave_its_directory(text: str) -> None:
    name = referred_secret(text)
    assert name is None or not (set(name) & set("/\\\0") or name.startswith("."))


def test_a_reference_is_taken_where_it_belongs() -> None:
    (statement,) = parse_script(STREAM + "AT us WITH ('connector' = 'vault', 'password' = '${secret:eu}')")
    assert isinstance(statement, CreateRelation)
    assert statement.relation.bindings[0].options["password"] == "${secret:eu}"


@pytest.mark.parametrize("literal", ["hunter2", "${secret:../x}", "pre${secret:eu}", ""])
def test_a_value_is_refused_at_its_place_and_not_repeated(literal: str) -> None:
    sql = STREAM + f"AT us\n WITH ('connector' = 'vault', 'password' = '{literal}')"
    with pytest.raises(InvalidDefinitionError, match="'password' is a secret") as caught:
        parse_script(sql)
    error = caught.value
    assert error.position is not None
    assert (error.position.line, sql.splitlines()[1][error.position.column - 1 :][0]) == (2, "'")
    assert "${secret:name}" in error.hint
    told = (error.message, error.found, error.hint, *error.ids.values())
    assert not literal or not any(literal in text for text in told)


@pytest.mark.parametrize(
    "given", [{"user": "${secret:eu}"}, {"user": "a${secret:eu}b"}, {"connector": "files", "path": "${secret:eu}"}]
)
def test_a_reference_in_another_option_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(SecretOptionError, match="is none") as caught:
        check_secrets({"connector": "vault", **given})
    assert caught.value.option in given
