"""Which sites get echoes, and when."""

from __future__ import annotations

import asyncio

from site_agent.probes.echo import SITES_AT_ONCE, Echoes, EchoLoop


class Recording(EchoLoop):
    """Answers at once, and keeps whom it asked."""

    def __init__(self) -> None:
        super().__init__("here")
        self.asked: list[str] = []

    async def _echo(self, site: str, address: str) -> Echoes:
        self.asked.append(site)
        return Echoes(site, 1, 0, 0.001)


def rounds(loop: Recording, count: int) -> list[list[str]]:
    asked = []
    for _ in range(count):
        asyncio.run(loop.once())
        asked.append(loop.asked)
        loop.asked = []
    return asked


def test_few_sites_are_all_asked_in_every_round() -> None:
    loop = Recording()
    loop.set_addresses({name: f"{name}:1" for name in ("here", "a", "b")})
    assert rounds(loop, 2) == [["a", "b"], ["a", "b"]]
    assert {echoes.to_site for echoes in loop.take()} == {"a", "b"}
    assert loop.take() == ()


def test_many_sites_take_turns_and_none_is_left_out() -> None:
    loop = Recording()
    names = [f"site{number:02d}" for number in range(2 * SITES_AT_ONCE + 3)]
    loop.set_addresses({name: f"{name}:1" for name in names})
    first, second, third = rounds(loop, 3)
    assert {len(first), len(second), len(third)} == {SITES_AT_ONCE}
    assert {*first, *second, *third} == set(names)


def test_turns_outlast_changes_of_the_sites() -> None:
    loop = Recording()
    names = [f"site{number:02d}" for number in range(2 * SITES_AT_ONCE)]
    loop.set_addresses({name: f"{name}:1" for name in names})
    rounds(loop, 1)
    gone, added = names[SITES_AT_ONCE], "zoo"
    loop.set_addresses({name: f"{name}:1" for name in (*(name for name in names if name != gone), added)})
    (second,) = rounds(loop, 1)
    assert second[: SITES_AT_ONCE - 1] == names[SITES_AT_ONCE + 1 :]
    assert gone not in second
    (third,) = rounds(loop, 1)
    assert added in third
