"""The certificates of a cluster on one machine: an authority of its own, and one for each member and a client."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

from selat.local.errors import DevError
from wire.errors import WireError
from wire.names import MASTER, MemberName, Role, site

LIFE = timedelta(days=365)
"""Longer than elsewhere: only the next start renews these certificates."""

TLS = "tls"
"""Directory of the certificates, in that of the data."""

CLIENT = MemberName(Role.CLIENT, "dev")


class DevCertificates:
    """The certificates below one directory; see `wire.authority`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def authority(self) -> Path:
        """The authority, for `selat cert` to issue further certificates for frameworks and producers."""
        return self._root / "authority"

    @property
    def master(self) -> Path:
        return self._root / "master"

    @property
    def sites(self) -> Path:
        """Has a directory for each site."""
        return self._root / "sites"

    @property
    def client(self) -> Path:
        return self._root / "client"

    def issue(self, sites: Iterable[str]) -> None:
        """Issue new certificates for all; the authority stays.

        Raises DevError when they cannot be written.
        """
        from wire.authority import CA_KEY, Authority  # loads cryptography

        try:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            there = (self.authority / CA_KEY).exists()
            authority = Authority(self.authority) if there else Authority.create(self.authority, "selat dev")
            authority.issue(MASTER, self.master, LIFE)
            for name in sites:
                authority.issue(site(name), self.sites / name, LIFE)
            authority.issue(CLIENT, self.client, LIFE)
        except WireError as error:
            raise DevError.of(error.message, hint=error.hint) from None
        except OSError as error:
            raise DevError.of(
                f"certificates cannot be written to {self._root}: {error.strerror}",
                hint="give --data another directory",
            ) from None
