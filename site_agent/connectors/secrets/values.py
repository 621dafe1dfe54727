"""Secrets of a site: a file each, read when a connector is opened, never stored or told.

Connectors get the values in their options. What they raise and log passes `redact` on its way out, because a library
may repeat a password in its messages.
"""

from __future__ import annotations

import logging
import os
import stat
import traceback
from collections.abc import Mapping
from pathlib import Path

from machine.logs import Line, fields_of
from planner.relations.connectors.table import check_secrets, find_spec
from planner.relations.references import referred_secret
from site_agent.base.errors import SecretError, SiteAgentError
from site_agent.base.options import refused

LIMIT_BYTES = 64 * 1024
"""The limit of one secret, in bytes: a key with its chain of certificates is smaller."""

LEAST_REDACTED = 4
"""Values of fewer characters are not looked for in texts: they would be found in words that they are no part of."""


class Secrets:
    """The secrets of one process, by the names of their files."""

    def __init__(self, directory: Path | None = None) -> None:
        """`directory` None: the process has no secrets.

        Raises:
            SiteAgentError: it is no directory, or others may write to it.
        """
        self._directory = directory
        self._references: dict[str, str] = {}
        """By value."""
        if directory is not None:
            _check_directory(directory)

    def resolved(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """The options of a connector with values in place of references, as the files are now.

        Raises:
            ConnectorError: a secret option is no reference, or another option is one.
            SecretError: a secret is missing, or its file cannot be used.
        """
        with refused():
            check_secrets(options)
        spec = find_spec(options)
        secret = {name for name in options if spec is not None and spec.secret(name)}
        if not secret:
            return options
        return {name: self._value(text) if name in secret else text for name, text in options.items()}

    def redact(self, text: str) -> str:
        """The text with references in place of all values that were ever read."""
        # The longest first: one may be part of another.
        for value in sorted(self._references, key=len, reverse=True):
            text = text.replace(value, self._references[value])
        return text

    def _value(self, reference: str) -> str:
        name = referred_secret(reference)
        assert name is not None, "it was checked"
        if self._directory is None:
            raise SecretError(
                f"secret {name} is needed, and this agent has no secrets",
                hint="start it with --secrets-dir DIR",
                ids={"secret": name},
            )
        value = _text(name, _read(name, self._directory / name))
        if len(value) >= LEAST_REDACTED:
            self._references[value] = reference
        return value


NO_SECRETS = Secrets()


class RedactingFilter(logging.Filter):
    """Takes the values of secrets out of everything that a handler writes."""

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets

    def filter(self, record: logging.LogRecord) -> bool:
        """Always lets the record pass."""
        fields = {name: self._secrets.redact(str(value)) for name, value in fields_of(record).items()}
        record.msg, record.args = Line(self._secrets.redact(record.getMessage()), fields), None
        if record.exc_info and not record.exc_text:
            record.exc_text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
        if record.exc_text:
            record.exc_text = self._secrets.redact(record.exc_text)
        return True


def _check_directory(directory: Path) -> None:
    try:
        found = directory.stat()
    except OSError as error:
        raise SiteAgentError(
            f"--secrets-dir {directory} cannot be used: {error.strerror}",
            hint="name a directory with a file per secret",
        ) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise SiteAgentError(
            f"--secrets-dir {directory} is no directory, or others may write to it",
            hint=f"chmod go-w {directory}",
        )


def _read(name: str, path: Path) -> bytes:
    try:
        # Not to wait for whoever writes into a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise SecretError(
            f"there is no secret {name} at this site",
            hint=f"write it to a file {name} in the agent's --secrets-dir, with mode 0600",
            ids={"secret": name},
        ) from None
    except OSError as error:
        raise _unusable(name, f"cannot be read: {error.strerror}", "let the agent's user read its file") from None
    try:
        _check_mode(name, os.fstat(descriptor))
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(LIMIT_BYTES + 1)
    finally:
        os.close(descriptor)


def _check_mode(name: str, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise _unusable(name, "is no file", "write it to a file")
    if found.st_uid not in (os.geteuid(), 0):
        raise _unusable(name, "belongs to another user", "its file must be the agent's user's, or root's")
    # Files that an administrator hands to a service (systemd, Kubernetes) are root's; the service's group reads them.
    closed = stat.S_IRWXO | (stat.S_IWGRP | stat.S_IXGRP if found.st_uid == 0 else stat.S_IRWXG)
    if found.st_mode & closed:
        raise _unusable(name, f"has the mode {stat.S_IMODE(found.st_mode):04o}", "chmod 0600, or 0400")


def _text(name: str, data: bytes) -> str:
    if len(data) > LIMIT_BYTES:
        raise _unusable(name, f"is longer than {LIMIT_BYTES} bytes", "is it the right file?")
    try:
        text = data.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise _unusable(name, "is no UTF-8", "is it the right file?") from None
    if not text:
        raise _unusable(name, "is empty", "write its value to the file")
    return text


def _unusable(name: str, why: str, hint: str) -> SecretError:
    return SecretError(f"the file of secret {name} {why}", hint=hint, ids={"secret": name})
