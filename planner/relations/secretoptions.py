"""Secrets in connector options: a declaration has a reference, `${secret:name}`, and sites have the values.

An option that is marked `secret` takes a reference and nothing else, so that no value is ever stored, listed or sent.
All other options take no reference: what they are is seen in errors and lists.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from planner.relations.options import CONNECTOR, OPTIONS, OptionError

_BEGINNING = "${secret:"
_REFERENCE = re.compile(r"\$\{secret:([A-Za-z0-9][A-Za-z0-9._-]{0,99})\}", re.ASCII)


class SecretOptionError(OptionError):
    """A secret option with a literal value, which no message may repeat; or a reference where none is possible."""


def referred_secret(text: str) -> str | None:
    """The name of the secret that the text refers to; None when it is no reference."""
    found = _REFERENCE.fullmatch(text)
    return found.group(1) if found else None


def secret_options(connector: str) -> frozenset[str]:
    """Names of the options of the connector that take a reference."""
    return frozenset(option.name for option in OPTIONS.get(connector, ()) if option.secret)


def check_secrets(options: Mapping[str, str]) -> None:
    """Refuse values in place of references, and references in place of values.

    Args:
        options: Of one binding, with its connector.

    Raises:
        SecretOptionError
    """
    secret = secret_options(options.get(CONNECTOR, ""))
    for name, text in sorted(options.items()):
        if name in secret and referred_secret(text) is None:
            raise SecretOptionError(
                name,
                f"option '{name}' is a secret, and its value does not belong into a declaration",
                f"'{name}' takes a reference as in '${{secret:name}}'; the site's agent has the value in a file `name` "
                "of its --secrets-dir",
            )
        if name not in secret and _BEGINNING in text:
            raise SecretOptionError(
                name,
                f"option '{name}' refers to a secret, and is none",
                "write its value: it is seen in lists and errors",
            )
