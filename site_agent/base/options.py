"""Connector options at a site: the declarations' options, with errors of the agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

from planner.relations.connectors.common import IDLE_TIMEOUT
from planner.relations.options import OptionError
from site_agent.base.errors import ConnectorError


@contextmanager
def refused() -> Iterator[None]:
    """Turns an error of an option, raised within the block, into a ConnectorError."""
    try:
        yield
    except OptionError as error:
        raise ConnectorError(error.message, hint=error.hint) from None


def idle_timeout_of(options: Mapping[str, str]) -> timedelta:
    """The time without rows after which readers do not wait for a source's watermark.

    Raises:
        ConnectorError: the option is not a duration.
    """
    with refused():
        return IDLE_TIMEOUT.of(options)
