"""The connectors that are declared, and what is asked of their declarations."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from difflib import get_close_matches

from planner.relations.catalog import Binding, Relation, RelationKind
from planner.relations.connectors.files import FILES
from planner.relations.connectors.generator import GENERATOR
from planner.relations.connectors.parquet import PARQUET
from planner.relations.connectors.push import PUSH
from planner.relations.connectors.spec import ConnectorSpec, Options, Traits
from planner.relations.options import CONNECTOR, OptionError
from planner.relations.references import BEGINNING, referred_secret

OWN: Mapping[str, ConnectorSpec] = {spec.name: spec for spec in (FILES, GENERATOR, PUSH, PARQUET)}
"""Selat's own connectors, by name."""

CONNECTORS: dict[str, ConnectorSpec] = dict(OWN)
"""All connectors that this process has a declaration of. A connector of another package may have none here: its options
are then checked at the site alone.
"""


class SecretOptionError(OptionError):
    """A secret option with a literal value, which no message may repeat; or a reference where none is possible."""


def declare(spec: ConnectorSpec) -> None:
    """Let this process know the declaration of another package's connector. Done when the process starts.

    Raises:
        ValueError: it has a name, a role or a trait that is Selat's own; the text goes on from "the connector ...".
    """
    if spec.name in OWN:
        raise ValueError(f"has the name '{spec.name}', which is taken")
    if not spec.roles or RelationKind.VIEW in spec.roles:
        raise ValueError("is not for streams, tables or sinks")
    if spec.traits.has_log:
        raise ValueError("has a log, which agents keep for their own connectors alone")
    CONNECTORS[spec.name] = spec


def find_spec(options: Options) -> ConnectorSpec | None:
    """The declaration of the connector that the options of a binding name; None: there is none here."""
    return CONNECTORS.get(options.get(CONNECTOR, ""))


def traits_of(options: Options) -> Traits:
    """The traits of the connector that the options of a binding name."""
    spec = find_spec(options)
    return Traits() if spec is None else spec.traits


def expected_rate(options: Options) -> float | None:
    """The rows per second that a binding is declared to have, if it is.

    Raises:
        OptionError: the option is wrong.
    """
    option = traits_of(options).rate
    rate = None if option is None or option.name not in options else option.of(options)
    return None if rate is None else float(rate)


def connectors_for(kind: RelationKind) -> tuple[str, ...]:
    """Names of the declared connectors that relations of a kind may have."""
    return tuple(name for name, spec in CONNECTORS.items() if kind in spec.roles)


def check_binding(relation: Relation, options: Options) -> None:
    """Whether a binding of the relation may have these options, as far as that shows without a site.

    Raises:
        OptionError: one is unknown, missing or wrong.
    """
    check_secrets(options)
    spec, kind = find_spec(options), relation.kind
    if relation.by_arrival and not traits_of(options).arrives:
        raise OptionError(
            f"the connector '{options.get(CONNECTOR, '')}' does not note when rows arrive",
            option=CONNECTOR,
            hint=_arrival_hint(),
        )
    if spec is not None and kind in spec.roles:
        spec.check_options(relation, options)
    elif spec is not None or kind is RelationKind.SINK:
        name, known = options.get(CONNECTOR, ""), connectors_for(kind)
        close = get_close_matches(name, known, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"connectors of {kind.value}s: {', '.join(known)}"
        raise OptionError(f"no {kind.value} has the connector '{name}'", option=CONNECTOR, hint=hint)


def _arrival_hint() -> str:
    able = ", ".join(f"'{name}'" for name, spec in CONNECTORS.items() if spec.traits.arrives)
    return f"connectors that do: {able}; else declare a TIMESTAMP column, and WATERMARK FOR it"


def check_secrets(options: Options) -> None:
    """Refuse values in place of references, and references in place of values.

    Args:
        options: Of one binding, with its connector.

    Raises:
        SecretOptionError
    """
    spec = find_spec(options)
    for name, text in sorted(options.items()):
        secret = spec is not None and spec.secret(name)
        if secret and referred_secret(text) is None:
            raise SecretOptionError(
                f"option '{name}' is a secret, and its value does not belong into a declaration",
                option=name,
                hint=f"'{name}' takes a reference as in '${{secret:name}}'; the site's agent has the value in a file "
                "`name` of its --secrets-dir",
            )
        if not secret and BEGINNING in text:
            raise SecretOptionError(
                f"option '{name}' refers to a secret, and is none",
                option=name,
                hint="write its value: it is seen in lists and errors",
            )


def altered_options(relation: Relation, binding: Binding, changes: Options, now: datetime) -> Options:
    """The options of a binding after a change of some of them at an instant.

    Raises:
        OptionError: one is unknown, missing or wrong, or the connector would be another.
    """
    spec = find_spec(binding.options)
    merged = {**binding.options, **changes}
    if merged[CONNECTOR] != binding.options[CONNECTOR]:
        hint = "drop the relation and declare it anew"
        raise OptionError("the connector of a binding cannot change", option=CONNECTOR, hint=hint)
    check_binding(relation, merged)
    return merged if spec is None else spec.altered(relation, binding.options, changes, now)
