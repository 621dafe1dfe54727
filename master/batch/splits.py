"""Asks a site's agent for the splits of a table."""

from __future__ import annotations

from typing import Protocol

import grpc
import grpc.aio

from contract.splits import condition_to_proto
from contract.trailers import received_detail
from master.base.errors import SplitsUnavailableError
from master.convert.assignments import split_from_proto
from master.convert.relations import relation_to_proto
from master.records.specs import relation_at
from master.sites.peers import Peers
from master.sites.status import Sites
from planner.graph.plan import Split
from planner.relations.catalog import Relation
from planner.values.ranges import Condition
from selat.v1 import exchange_pb2, exchange_pb2_grpc

TIMEOUT_S = 30.0
"""Long enough to list a directory of very many files."""


class SplitLister(Protocol):
    """Lists the splits of tables."""

    async def splits(
        self, relation: Relation, site: str, split_bytes: int, needed: Condition | None = None
    ) -> tuple[Split, ...]:
        """The splits of a table at one of its sites, of about this size each.

        Args:
            relation: the table.
            site: one of its sites.
            split_bytes: the size.
            needed: rows that do not fulfil it may be left out; None: none may.

        Raises:
            SplitsUnavailableError: the site cannot say.
        """
        ...


class SiteSplits:
    """Asks the agents of the sites."""

    def __init__(self, sites: Sites, peers: Peers) -> None:
        self._sites = sites
        self._peers = peers

    async def splits(
        self, relation: Relation, site: str, split_bytes: int, needed: Condition | None = None
    ) -> tuple[Split, ...]:
        """See SplitLister."""
        request = exchange_pb2.ListSplitsRequest(
            relation=relation_to_proto(relation_at(relation, site)),
            split_bytes=split_bytes,
            needed=None if needed is None else condition_to_proto(needed),
        )
        try:
            connection = self._peers.channel(site, self._sites.get(site).address)
            stub = exchange_pb2_grpc.ExchangeServiceStub(connection)
            response = await stub.ListSplits(request, timeout=TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            message, hint = _said(error)
            raise SplitsUnavailableError(
                f"site {site} cannot list the splits of table {relation.name}: {message}",
                hint=hint or f"look at the site: selat site show {site}",
                ids={"site": site, "relation": relation.name},
            ) from error
        return tuple(split_from_proto(split, site) for split in response.splits)


def _said(error: grpc.aio.AioRpcError) -> tuple[str, str]:
    """The agent's message and hint, if it sent them."""
    told = received_detail(error)
    return (told.message, told.hint) if told else (error.details() or error.code().name, "")
