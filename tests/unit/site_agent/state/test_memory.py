from __future__ import annotations

from dataclasses import dataclass

from site_agent.state.memory import StateMemory


@dataclass(eq=False)
class Held:
    new_bytes: int
    spare_bytes: int

    @property
    def memory_bytes(self) -> int:
        return self.new_bytes + self.spare_bytes

    def forget(self) -> None:
        self.spare_bytes = 0


def test_whoever_has_most_that_is_on_disk_forgets_it_first() -> None:
    memory = StateMemory(100)
    held = [Held(10, 20), Held(40, 0), Held(10, 30)]
    for each in held:
        memory.hold(each)

    assert memory.make_room()
    assert [each.spare_bytes for each in held] == [20, 0, 0]


def test_what_is_not_on_disk_stays_and_is_told() -> None:
    memory = StateMemory(100)
    held = [Held(80, 5), Held(40, 0)]
    for each in held:
        memory.hold(each)

    assert not memory.make_room()
    assert memory.used_bytes == 120
    memory.release(held[1])
    assert memory.make_room()


def test_rows_that_are_gone_take_no_memory() -> None:
    memory = StateMemory(100)
    memory.hold(Held(80, 0))

    assert memory.used_bytes == 0
