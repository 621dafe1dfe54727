from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.values.trees import Tree

SITES = st.sampled_from(["a", "b", "c", "d-e", "F_1"])


def test_ways_over_several_sites() -> None:
    tree = Tree.parsed("eu-west > eu-central > us,eu-north>eu-central")
    assert tree.over == {"eu-west": "eu-central", "eu-central": "us", "eu-north": "eu-central"}
    assert tree.beyond("eu-west") == ("eu-central", "us")
    assert tree.beyond("asia") == ()
    assert str(tree) == "eu-central > us, eu-north > eu-central, eu-west > eu-central"
    assert str(Tree.parsed("off")) == "off"


@pytest.mark.parametrize(
    "text", ["", "a", "a >", "> a", "a > b, ", "a > a", "a > b, a > c", "a > b > a", "a > b, b > a"]
)
def test_what_is_no_tree(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        Tree.parsed(text)


@given(st.dictionaries(SITES, SITES))
def test_a_tree_is_read_as_it_is_written(over: dict[str, str]) -> None:
    tree = Tree(over)
    assert all(site not in tree.beyond(site)[:-1] for site in over)
    if all(site not in tree.beyond(site) for site in over):
        assert Tree.parsed(str(tree)) == tree
