"""A member that knows the connector `vault`: a generator behind a password, which tells the password when it refuses.

python -m tests.e2e.vault master|agent ARGUMENT...
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.relations.catalog import RelationKind
from planner.relations.connectors.generator import GENERATOR
from planner.relations.connectors.spec import ConnectorSpec
from planner.relations.connectors.table import CONNECTORS
from planner.relations.options import Option
from site_agent.base.errors import ConnectorError
from site_agent.connectors.generator.connector import GeneratorConnector
from site_agent.connectors.secrets.sources import SecretConnector
from site_agent.connectors.sources import Connector, Source, SourceContext, Table

PASSWORD = "SELAT_TEST_PASSWORD"
"""Variable of the environment with the right one."""

VAULT = ConnectorSpec(
    "vault",
    frozenset({RelationKind.STREAM, RelationKind.TABLE}),
    (Option("password", str, "a text", "", required=True, secret=True), *GENERATOR.options),
)

logger = logging.getLogger(__name__)


class Vault:
    """See `site_agent.connectors.Connector`."""

    name = VAULT.name

    def __init__(self) -> None:
        self._generator = GeneratorConnector()

    def open_source(self, context: SourceContext) -> Source:
        _log_in(context.options)
        return self._generator.open_source(_inner(context))

    def open_table(self, context: SourceContext) -> Table:
        _log_in(context.options)
        return self._generator.open_table(_inner(context))


def _log_in(options: Mapping[str, str]) -> None:
    logger.warning("login with %s", options["password"])
    if options["password"] != os.environ[PASSWORD]:
        raise ConnectorError(f"login refused with {options['password']}", hint=f"not {options['password']}")


def _inner(context: SourceContext) -> SourceContext:
    options = {name: text for name, text in context.options.items() if name != "password"}
    return replace(context, options={**options, "connector": "generator"})


def main() -> int:
    member, *arguments = sys.argv[1:]
    CONNECTORS[VAULT.name] = VAULT
    if member == "master":
        from master.__main__ import main as run_master

        return run_master(arguments)
    from site_agent import __main__ as agent

    known = vars(agent)["make_connectors"]

    def with_vault(*args: Any, **named: Any) -> Mapping[str, Connector]:
        return {**known(*args, **named), "vault": SecretConnector(Vault(), named["secrets"])}

    vars(agent)["make_connectors"] = with_vault
    sys.argv = ["selat agent", *arguments]
    return agent.main()


if __name__ == "__main__":
    sys.exit(main())
