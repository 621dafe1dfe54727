"""JWK sets of external issuers, from a file or a URL."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPMessage
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from jwt import PyJWK
from jwt.exceptions import PyJWTError

from machine.loopback import is_loopback
from master.base.errors import InvalidRequestError, KeySetError

ALGORITHMS = {"RSA": "RS256", "EC": "ES256"}
"""The only algorithm accepted for each type of key: the algorithm that a token names decides nothing."""

LEAST_RSA_BITS = 2048
_FETCH_S = 5.0
_MOST_BYTES = 1024 * 1024

KeySet = Mapping[str, PyJWK]
"""Public keys, by id."""


def key_source(text: str) -> Callable[[], KeySet]:
    """A function that reads the key set of a file or URL; it blocks.

    Raises:
        InvalidRequestError: the URL would be read by a connection that others can change.
    """
    if "://" not in text:
        return lambda: parse_keys(_file(Path(text)), text)
    parts = urlsplit(text)
    local = parts.scheme == "http" and is_loopback(parts.hostname or "")
    if parts.scheme != "https" and not local:
        raise InvalidRequestError(
            f"keys from {text} could be exchanged on their way", hint="give https://..., http:// on loopback, or a file"
        )
    return lambda: parse_keys(_fetched(text, local=local), text)


def parse_keys(content: bytes, where: str) -> KeySet:
    """The usable keys of a set; others are ignored.

    Raises:
        KeySetError: it is no key set, or has no such key.
    """
    try:
        listed = json.loads(content)["keys"]
        found = {key.key_id or "": key for key in map(_usable, listed) if key is not None}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, PyJWTError) as error:
        raise KeySetError(f"{where} is no key set: {type(error).__name__}", hint='as in {"keys": [...]}') from error
    if not found:
        raise KeySetError(f"{where} has no key for RS256 or ES256", hint="other algorithms are not taken")
    return found


def _usable(data: Mapping[str, Any]) -> PyJWK | None:
    algorithm = ALGORITHMS.get(data["kty"])
    if algorithm is None or data.get("use", "sig") != "sig" or data.get("alg", algorithm) != algorithm:
        return None
    if data["kty"] == "EC" and data.get("crv") != "P-256":
        return None
    key = PyJWK.from_dict({**data, "alg": algorithm})
    return key if data["kty"] == "EC" or key.key.key_size >= LEAST_RSA_BITS else None


def _file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise KeySetError(f"cannot read keys {path}: {error.strerror}", hint="name another file") from error


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirects: only the configured address was checked."""

    def redirect_request(  # noqa: PLR0913 - as urllib has it
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """See `urllib.request.HTTPRedirectHandler`."""
        return


def _fetched(url: str, *, local: bool) -> bytes:
    handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
    if local:
        # A proxy from the environment must not intercept connections within this machine.
        handlers.append(urllib.request.ProxyHandler({}))
    try:
        with urllib.request.build_opener(*handlers).open(url, timeout=_FETCH_S) as answer:
            content: bytes = answer.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise KeySetError(f"cannot fetch keys from {url}: {error}", hint="does the issuer answer?") from error
    if len(content) > _MOST_BYTES:
        raise KeySetError(f"{url} has more than {_MOST_BYTES} bytes", hint="that is no key set")
    return content
