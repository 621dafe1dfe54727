"""The options of `python -m master` about access."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from master.access.audit import BYTES, FILES, AuditOptions
from master.access.config import AccessConfig, OidcOptions
from master.base.errors import InvalidRequestError
from planner.access.claims import read_claim_rules
from planner.access.limits import LimitTable
from planner.access.limits_text import read_limits
from planner.values.errors import InvalidDefinitionError, PlannerError

T = TypeVar("T")

_OIDC = ("keys", "issuer", "audience", "roles")


def add_access_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--auth", action="store_true", help="refuse calls without a token, and allow each caller what its roles permit"
    )
    parser.add_argument(
        "--bootstrap-token-file",
        type=Path,
        metavar="FILE",
        help="with --auth: an admin's token is taken from it, or made in it, when there is none yet; closed to others",
    )
    parser.add_argument(
        "--audit-log",
        type=Path,
        metavar="FILE",
        help="with --auth: a JSON line for each call that reads or changes data, and for each that was refused",
    )
    parser.add_argument(
        "--audit-log-bytes",
        type=_positive,
        default=BYTES,
        metavar="BYTES",
        help="the size at which the audit log is rotated; default: %(default)s",
    )
    parser.add_argument(
        "--audit-log-files",
        type=_positive,
        default=FILES,
        metavar="N",
        help="the number of rotated files of the audit log that are kept; default: %(default)s",
    )
    _add_oidc_options(parser)
    parser.add_argument(
        "--limits", type=Path, metavar="FILE", help="with --auth: limits of each caller, in YAML, docs/access.md"
    )


def _add_oidc_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--oidc-keys",
        metavar="FILE|URL",
        help="with --auth: accept tokens that are signed with a key of this set, besides the master's own",
    )
    parser.add_argument("--oidc-issuer", metavar="URL", help="the issuer that they must name")
    parser.add_argument("--oidc-audience", metavar="NAME", help="for whom they have to be")
    parser.add_argument("--oidc-roles", type=Path, metavar="FILE", help="from their claims to roles, in YAML")


def access_config(parsed: argparse.Namespace) -> AccessConfig:
    """The settings in the options.

    Raises:
        InvalidRequestError: options that are of no use without --auth, or without each other.
        InvalidDefinitionError: the file of limits is wrong.
    """
    given = {"--bootstrap-token-file": parsed.bootstrap_token_file, "--audit-log": parsed.audit_log}
    oidc = {f"--oidc-{name}": getattr(parsed, f"oidc_{name}") for name in _OIDC}
    given |= {"--limits": parsed.limits, **oidc}
    for option, value in given.items():
        if value is not None and not parsed.auth:
            raise InvalidRequestError(
                f"{option} has no effect at a master that does not check callers", hint="add --auth"
            )
    audit = None
    if parsed.audit_log is not None:
        audit = AuditOptions(parsed.audit_log, parsed.audit_log_bytes, parsed.audit_log_files)
    limits = LimitTable() if parsed.limits is None else _read(parsed.limits, "limits", read_limits)
    return AccessConfig(parsed.auth, parsed.bootstrap_token_file, audit, limits, _oidc(oidc))


def _oidc(given: Mapping[str, Any]) -> OidcOptions | None:
    """The settings of the external issuer. Raises InvalidRequestError when some of the options are missing."""
    missing = [option for option, value in given.items() if value is None]
    if len(missing) == len(given):
        return None
    if missing:
        raise InvalidRequestError(f"{missing[0]} is missing", hint=f"{', '.join(given)} go together")
    keys, issuer, audience, path = given.values()
    return OidcOptions(keys, issuer, audience, _read(path, "claims", read_claim_rules))


def _read(path: Path, what: str, read: Callable[[bytes], T]) -> T:
    try:
        return read(path.read_bytes())
    except OSError as error:
        raise InvalidDefinitionError(f"cannot read {what} {path}: {error.strerror}") from error
    except PlannerError as error:
        error.message = f"{what} {path}: {error.message}"
        raise


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)
