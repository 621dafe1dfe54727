"""Names and addresses of an emulated WAN.

    host --uplink-- namespace of the gateway's site
    namespace of each site --wan0-- ... --wan0-- namespace of each other site

Everything of an emulation carries its name or its number, so that it can be found and removed after a crash.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from selat.wan.errors import WanError

MOST_SITES = 250
NAME_FORM = re.compile(r"[a-z][a-z0-9]{0,7}", re.ASCII)
WAN_DEVICE = "wan0"
"""A site's device towards all other sites."""
UPLINK_DEVICE = "host0"
"""In the gateway's namespace: the unshaped device towards the machine itself, for clients."""

_PREFIX = "selat-"


@dataclass(frozen=True, slots=True)
class Layout:
    """The names and addresses of one emulation."""

    name: str
    number: int
    """0 to 255; two emulations at once have different ones."""
    sites: tuple[str, ...]
    gateway: str

    def __post_init__(self) -> None:
        if not NAME_FORM.fullmatch(self.name):
            raise WanError.of(
                f"{self.name!r} is no name for an emulated WAN", hint="up to 8 lower-case letters and digits, as in lab"
            )
        if len(self.sites) > MOST_SITES:
            raise WanError.of(
                f"{len(self.sites)} sites are too many for one machine", hint=f"at most {MOST_SITES} can be emulated"
            )

    @property
    def hub(self) -> str:
        """The namespace in the middle."""
        return f"{_PREFIX}{self.name}"

    def namespace(self, site: str) -> str:
        return f"{_PREFIX}{self.name}.{site}"

    @property
    def namespaces(self) -> tuple[str, ...]:
        """All namespaces, the hub's first."""
        return (self.hub, *(self.namespace(site) for site in self.sites))

    def index(self, site: str) -> int:
        """1, 2, ...: the last part of the site's address and the number of its classes."""
        return self.sites.index(site) + 1

    def address(self, site: str) -> str:
        """The site's address on the WAN."""
        return f"10.77.{self.number}.{self.index(site)}"

    @property
    def host_address(self) -> str:
        """The machine's own end of the uplink."""
        return f"10.78.{self.number}.1"

    @property
    def uplink_address(self) -> str:
        """The address at which the machine reaches the gateway's namespace."""
        return f"10.78.{self.number}.2"

    @property
    def host_device(self) -> str:
        return f"selat{self.number}"

    def port_device(self, site: str) -> str:
        """The hub's device towards a site, and before it is moved, a site's device in the machine's own namespace."""
        return f"sw{self.number}p{self.index(site)}"


def belongs_to(namespace: str, name: str) -> bool:
    """Whether a namespace is one of the emulation of that name."""
    return namespace == f"{_PREFIX}{name}" or namespace.startswith(f"{_PREFIX}{name}.")


def emulation_of(namespace: str) -> str | None:
    """The emulation that a namespace belongs to; None: it belongs to none."""
    if not namespace.startswith(_PREFIX):
        return None
    name = namespace.removeprefix(_PREFIX).partition(".")[0]
    return name if NAME_FORM.fullmatch(name) else None
