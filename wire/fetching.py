"""Fetches the files of a member's certificate directory from a URL."""

from __future__ import annotations

import http.client
import tempfile
import urllib.request
from pathlib import Path

from wire.authority import make_directory
from wire.errors import WireError
from wire.files import CA, KEY, MEMBER, REVOKED, read_material, read_revoked, write

FILES = (CA, REVOKED, MEMBER, KEY)
"""In the order in which they are replaced: until the key is replaced too, members keep their old certificate."""

_MOST_BYTES = 1024 * 1024
_TIMEOUT_S = 60.0


def fetch(url: str, directory: Path) -> bool:
    """Bring a member's directory up to date with the files below a URL; True when any of them was replaced.

    Raises:
        WireError: a file cannot be had, they are not good together, they are another member's, or
            the directory cannot be made or has other files. Nothing was replaced.
    """
    make_directory(directory)
    found = {name: _get(f"{url.rstrip('/')}/{name}") for name in FILES}
    changed = [name for name in FILES if not _is(directory / name, found[name])]
    if changed:
        _check(found, directory, url)
    for name in changed:
        write(directory / name, found[name])
    return bool(changed)


def _get(url: str) -> bytes:
    if not url.startswith(("https://", "http://")):
        raise WireError(f"{url} is no address of the web", "give https://...")
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
            content: bytes = answer.read(_MOST_BYTES + 1)
    except (OSError, http.client.HTTPException) as error:
        raise WireError(f"{url} cannot be had: {error}", "see whether it is there, and who may read it") from None
    if len(content) > _MOST_BYTES:
        raise WireError(f"{url} is longer than {_MOST_BYTES} bytes", "put the files of `selat cert issue` there")
    return content


def _check(found: dict[str, bytes], directory: Path, url: str) -> None:
    with tempfile.TemporaryDirectory(prefix=".fetched-", dir=directory) as scratch:
        for name, content in found.items():
            write(Path(scratch) / name, content)
        try:
            member = read_material(Path(scratch)).certificate.member
            read_revoked(Path(scratch))
        except WireError as error:
            said = error.message.replace(f"{scratch}/", "").replace(f" in {scratch}", "")
            raise WireError(f"what {url} has is not taken over: {said}", error.hint) from None
    if (directory / MEMBER).exists():
        own = read_material(directory, out_of_date=True).certificate.member
        if own != member:
            raise WireError(f"{url} has the certificate of {member}, {directory} that of {own}", "name another URL")


def _is(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except OSError:
        return False
