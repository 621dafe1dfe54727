"""The first token: an admin's, in a file that only its user can read."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

from machine.bearer import TokenFileError, new_token, read_token
from master.access.tokens import TokenManager, TokenWish, is_token
from master.base.errors import InvalidRequestError
from master.base.logs import line
from planner.access.roles import ADMIN

logger = logging.getLogger(__name__)


def bootstrap(tokens: TokenManager, path: Path) -> None:
    """Create the admin's token unless a live one exists. A token that is in the file already is adopted.

    The file is written first: a token that is stored and told to nobody would keep everybody out.

    Raises:
        InvalidRequestError: the file cannot be written, may be read by others, or has no token, or one that is over.
    """
    if tokens.has_live_admin():
        return
    if path.exists():
        text = _found(path)
        if tokens.find(text) is not None:
            raise InvalidRequestError(
                f"the token in {path} has expired or was revoked, and there is no other token of an admin",
                hint="remove the file: the next start creates a new token",
            )
    else:
        text = new_token()
        _write(path, text)
    tokens.create(TokenWish("admin", (ADMIN,)), by="the master's first start", token=text)
    logger.info(line("token of an admin made", file=path))


def _found(path: Path) -> str:
    try:
        text = read_token(path)
    except TokenFileError as error:
        raise InvalidRequestError(str(error), hint=error.hint) from error
    if not is_token(text):
        raise InvalidRequestError(f"{path} has no token of a master", hint="name a file that is not there yet")
    return text


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR)
        with open(descriptor, "w") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise InvalidRequestError(
            f"the first token cannot be written to {path}: {error.strerror}", hint="name another --bootstrap-token-file"
        ) from error
