from __future__ import annotations

import pytest

from planner.access.grants import Grant, Grants, Need, Owner
from planner.access.principal import EVERYBODY, Kind, Principal
from planner.sql import statements
from planner.sql.script import parse_script
from planner.values.errors import InvalidDefinitionError, PlannerError, SqlSyntaxError
from planner.values.privileges import Privilege

SELECT, INSERT = Privilege.SELECT, Privilege.INSERT


def grants(*granted: tuple[str, Privilege, str], owners: dict[str, Owner] | None = None) -> Grants:
    return Grants({key: Grant(*key) for key in granted}, owners or {})


def person(name: str, *roles: str) -> Principal:
    return Principal(Kind.PERSON, name, frozenset(roles))


ANN = person("ann", "submitter", "analysts")


def test_a_relation_is_read_by_its_owner_by_grantees_and_by_those_who_manage_all() -> None:
    known = grants(("clicks", SELECT, "analysts"), owners={"pages": Owner("ann")})
    query = [("", ("Clicks", "pages"))]
    assert list(known.lacking(ANN, query)) == []
    assert list(known.lacking(person("op", "operator"), query)) == []
    assert list(known.lacking(EVERYBODY, query)) == []
    assert list(known.lacking(person("bob", "submitter"), query)) == [
        Need("clicks", SELECT),
        Need("pages", SELECT),
    ]


def test_a_grant_to_read_is_none_to_write() -> None:
    assert not grants(("out", SELECT, "analysts")).may("ann", ANN.roles, "out", INSERT)


def test_what_is_below_a_view_is_read_by_the_rights_of_the_views_owner() -> None:
    texts = [("front", ("clicks",)), ("", ("front",))]
    granted = (("front", SELECT, "analysts"), ("clicks", SELECT, "press"))
    assert list(grants(*granted, owners={"front": Owner("eve", ("press",))}).lacking(ANN, texts)) == []
    # The owner's right is gone.
    assert list(grants(granted[0], owners={"front": Owner("eve", ("press",))}).lacking(ANN, texts)) == [
        Need("clicks", SELECT, "front")
    ]
    # One's own right below a view does not help the view's owner.
    own = (("front", SELECT, "analysts"), ("clicks", SELECT, "analysts"))
    assert list(grants(*own, owners={"front": Owner("eve", ("press",))}).lacking(ANN, texts)) == [
        Need("clicks", SELECT, "front")
    ]


def test_a_view_that_was_declared_when_nobody_was_checked_reads_what_is_below_it() -> None:
    known = grants(("front", SELECT, "analysts"))
    assert list(known.lacking(ANN, [("front", ("clicks",)), ("", ("front",))])) == []


def test_the_empty_name_owns_nothing() -> None:
    assert not grants(owners={"clicks": Owner("")}).may("", ["submitter"], "clicks", SELECT)


def test_the_statements() -> None:
    first, second, third = parse_script(
        "GRANT SELECT ON clicks TO Analysts; revoke insert on out from `night-jobs`; SHOW GRANTS"
    )
    assert isinstance(first, statements.Grant)
    assert (first.privilege, first.relation, first.role) == (SELECT, "clicks", "analysts")
    assert isinstance(second, statements.Revoke)
    assert (second.privilege, second.relation, second.role) == (INSERT, "out", "night-jobs")
    assert isinstance(third, statements.Show)
    assert third.target is statements.ShowTarget.GRANTS


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("GRANT ALL ON clicks TO a", SqlSyntaxError),
        ("GRANT SELECT clicks TO a", SqlSyntaxError),
        ("GRANT SELECT ON clicks FROM a", SqlSyntaxError),
        ("REVOKE SELECT ON clicks TO a", SqlSyntaxError),
        ("GRANT SELECT ON clicks TO a WITH GRANT OPTION", SqlSyntaxError),
        ("GRANT SELECT ON clicks TO `no role`", InvalidDefinitionError),
        ("GRANT SELECT ON clicks TO", SqlSyntaxError),
    ],
)
def test_what_is_no_grant_is_refused_with_its_place(text: str, kind: type[PlannerError]) -> None:
    with pytest.raises(kind) as caught:
        parse_script(text)
    assert caught.value.position is not None
    assert caught.value.hint
