from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.values.errors import InvalidDefinitionError
from planner.values.topology_text import read_topology_text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"sites: [", "it is no YAML: expected the node content, but found '<stream end>', line 1, column 9"),
        (b"sites: {us: {}}\n\tgateway: us", "it is no YAML: found character .* that cannot start any token, line 2"),
        (b"\xb4\xff\x00garbage", "it is no YAML: "),
        (b"\x00\x01", "it is no YAML: "),
        (b"", "the topology is nothing"),
        (b"sites: {us: {}, us: {}}", "us is there twice, the second time in line 1, column 17"),
        (b"sites: {us: {}}\nsites: {eu: {}}", "sites is there twice, the second time in line 2, column 1"),
        (b"sites: {us: {slot: 1}}", "sites.us.slot is not a key of a topology"),
        (b"sites: {us: {}}\ndefault_link: {bandwidth: 20}", "default_link.bandwidth is 20"),
        (b"sites: {us: {}}\ndefault_link: {bandwidth: 20Mbps}", "default_link.bandwidth is 20Mbps"),
        (b"sites: {us: {}}\nlinks: [{from: us, to: mars}]", r"links\[0\].to is mars"),
        (b"sites: {us: {}}\ngateway: mars", "gateway is mars"),
        (b"sites: !!python/object:os.system {}", "it is no YAML: could not determine a constructor"),
        (b"[" * 20_000, "it is no YAML of a topology|it is no YAML"),
        (b"sites: {2026-13-99: {}}", "sites.2026-13-99|it is no YAML of a topology"),
    ],
)
def test_what_is_wrong_is_said(content: bytes, message: str) -> None:
    with pytest.raises(InvalidDefinitionError, match=message) as caught:
        read_topology_text(content)
    assert caught.value.hint


@given(st.one_of(st.binary(max_size=200), st.text("{}[]:,-&*!|>'\"#%@` \n\tsiteu0.", max_size=80).map(str.encode)))
def test_whatever_a_file_holds_only_definitions_are_refused(content: bytes) -> None:
    try:
        read_topology_text(content)
    except InvalidDefinitionError as error:
        assert error.message  # noqa: PT017 - both ends are right
