"""Which sites' partials go to the merge over another site, where they are combined once more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

HOP_S = 0.3
"""What a site between takes until it sends on what closes a window: a job, and two syncs of a disk."""
AUTO, OFF = "auto", "off"
_OVER, _AND = ">", ","


@dataclass(frozen=True, slots=True)
class Tree:
    """By site the next one on the way to the merge; sites that are not named send to the merge."""

    over: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parsed(cls, text: str) -> Tree:
        """The tree of a text such as `eu-west > eu-central, eu-north > eu-central > us-east`; `off` has no edges.

        Raises:
            ValueError: a way has one site, a site has two ways on, or ways go in a circle.
        """
        over: dict[str, str] = {}
        for way in [] if text == OFF else text.split(_AND):
            sites = [site.strip() for site in way.split(_OVER)]
            if len(sites) == 1 or not all(sites):
                raise ValueError(text)
            for site, target in pairwise(sites):
                if over.setdefault(site, target) != target:
                    raise ValueError(text)
        tree = cls(over)
        if any(site in tree.beyond(site) for site in over):
            raise ValueError(text)
        return tree

    def beyond(self, site: str) -> tuple[str, ...]:
        """The sites that its partials go over, the next one first; of a circle each once."""
        found: list[str] = []
        while (site := self.over.get(site, "")) and site not in found:
            found.append(site)
        return tuple(found)

    def with_edges(self, sites: Iterable[str], target: str) -> Tree:
        """The tree in which these sites send to that one."""
        return Tree({**self.over, **dict.fromkeys(sites, target)})

    def __str__(self) -> str:
        return f"{_AND} ".join(f"{site} {_OVER} {target}" for site, target in sorted(self.over.items())) or OFF
