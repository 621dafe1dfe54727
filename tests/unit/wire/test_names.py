"""Names of members as they stand in certificates."""

from __future__ import annotations

import pytest

from wire.errors import WireError
from wire.names import MASTER, MemberName, Role, from_uri, member_name, site


@pytest.mark.parametrize("name", [MASTER, site("us"), site("US_1"), MemberName(Role.PRODUCER, "a.b-c")])
def test_a_name_comes_back_from_its_uri(name: MemberName) -> None:
    assert from_uri(name.uri) == name


@pytest.mark.parametrize(
    "uri", ["", "https://site/us", "selat://site", "selat://king/us", "selat://site/a b", "selat://master/other"]
)
def test_what_names_no_member_is_none(uri: str) -> None:
    assert from_uri(uri) is None


def test_a_plain_name_is_its_own_label() -> None:
    assert site("eu-west-1").host == "eu-west-1.site.selat"
    assert MASTER.host == "master.master.selat"


def test_hosts_differ_even_where_dns_sees_no_difference() -> None:
    names = ["us", "US", "u_s", "x--us", "us-", "Us"]
    hosts = {site(name).host for name in names}
    assert len(hosts) == len(names)
    assert all(host == host.lower() and len(host.split(".")[0]) <= 63 for host in hosts)
    assert MemberName(Role.CLIENT, "us").host not in hosts


@pytest.mark.parametrize("name", ["", "-us", "a/b", "ü", "a" * 64])
def test_a_name_that_cannot_stand_in_a_certificate_is_refused(name: str) -> None:
    with pytest.raises(WireError, match="cannot be a member's name"):
        member_name("site", name)


def test_an_unknown_role_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(WireError, match="there is no role 'king'") as caught:
        member_name("king", "us")
    assert caught.value.hint == "one of master, site, framework, client, producer"


def test_a_cluster_has_one_master() -> None:
    with pytest.raises(WireError, match="a master cannot be named"):
        member_name("master", "second")
