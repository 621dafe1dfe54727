"""The frameworks that may hold slots."""

from __future__ import annotations

from planner.leases.model import Framework
from planner.values.errors import InvalidDefinitionError, UnknownFrameworkError


class Frameworks:
    """All frameworks, by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, Framework] = {}
        self.changes = 0
        """It counts how often one was put."""

    def all(self) -> tuple[Framework, ...]:
        """Ordered by name."""
        return tuple(self._by_name[name] for name in sorted(self._by_name))

    def get(self, name: str) -> Framework:
        """The framework of that name.

        Raises:
            UnknownFrameworkError: there is none.
        """
        found = self._by_name.get(name)
        if found is None:
            raise UnknownFrameworkError(
                f"there is no framework {name!r}", found=name, hint="register it first", ids={"framework": name}
            )
        return found

    def put(self, framework: Framework) -> None:
        """Add a framework, or replace the one of that name.

        Raises:
            InvalidDefinitionError: the quota is negative, or the name is empty.
        """
        if not framework.name:
            raise InvalidDefinitionError("a framework needs a name", hint="give it one")
        if framework.quota is not None and framework.quota < 0:
            raise InvalidDefinitionError(
                f"the quota of framework {framework.name} is {framework.quota}",
                found=str(framework.quota),
                hint="it is a number of slots, 0 or more",
                ids={"framework": framework.name},
            )
        self._by_name[framework.name] = framework
        self.changes += 1
