"""Tokens in files: read anew for each call, so that a token can be exchanged while its reader runs."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from machine.private import way_to_close

_MOST_CHARS = 16 * 1024
"""Tokens of other issuers may be long; gRPC takes no more than 16 KiB of metadata by default."""

HEADER = "authorization"

PREFIX = "selat_"
"""Begins every token of ours, so that scanners for secrets find one in a text."""

Metadata = tuple[tuple[str, str], ...]


class TokenFileError(Exception):
    """A file that has no token to use. The message says why, `hint` what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def new_token() -> str:
    """A new token: 256 random bits as text."""
    return PREFIX + secrets.token_urlsafe(32)


def read_token(path: Path) -> str:
    """The token in a file.

    Raises:
        TokenFileError: it cannot be read, others may read or write it, or it has not one word of ASCII.
    """
    try:
        with open(path, encoding="ascii") as file:
            found = os.fstat(file.fileno())
            text = file.read(_MOST_CHARS + 1).strip()
    except OSError as error:
        raise TokenFileError(f"the token file {path} cannot be read: {error.strerror}", "name another") from None
    except UnicodeDecodeError:
        raise TokenFileError(f"the token file {path} has no token: it is no ASCII text", "name another") from None
    if stat.S_ISREG(found.st_mode) and (hint := way_to_close(path, found)):
        raise TokenFileError(f"others may read or write the token file {path}", hint)
    return checked_token(text, f"the token file {path}")


def checked_token(text: str, where: str) -> str:
    """The token. Raises TokenFileError when it is not one printable word."""
    if (
        not text
        or len(text) > _MOST_CHARS
        or not text.isascii()
        or not all(c.isalnum() or c in "-._~+/=" for c in text)
    ):
        raise TokenFileError(f"{where} has no token: it has to be one word", "write the token and nothing else into it")
    return text


def metadata_of(token: str) -> Metadata:
    """The gRPC metadata that carries the token."""
    return ((HEADER, f"Bearer {token}"),)


class Bearer:
    """A member's token, read from its file when it is needed; a member without a file has none."""

    def __init__(self, path: Path | None = None) -> None:
        """Raises TokenFileError when there is no token in the file."""
        self._path = path
        self._token = "" if path is None else read_token(path)

    def metadata(self) -> Metadata:
        """The metadata of a call; empty without a file. The last good token, while the file is replaced."""
        if self._path is None:
            return ()
        with suppress(TokenFileError):
            self._token = read_token(self._path)
        return metadata_of(self._token)
