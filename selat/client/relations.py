"""A client's calls about streams, tables, views and sinks."""

from __future__ import annotations

from collections.abc import Mapping

from selat.client.calls import Calls
from selat.client.push import Producer
from selat.convert import relations as convert
from selat.errors import Detail, NotFound
from selat.transport.retry import Reconnect
from selat.v1 import catalog_pb2, common_pb2
from selat.values import Relation, RelationKind


class RelationCalls(Calls):
    """Streams, tables, views and sinks: what they are, and rows pushed to streams."""

    def streams(self) -> list[Relation]:
        """All streams."""
        return self._relations(RelationKind.STREAM)

    def tables(self) -> list[Relation]:
        """All tables."""
        return self._relations(RelationKind.TABLE)

    def sinks(self) -> list[Relation]:
        """All sinks."""
        return self._relations(RelationKind.SINK)

    def views(self) -> list[Relation]:
        """All views."""
        return self._relations(RelationKind.VIEW)

    def stream(self, name: str) -> Relation:
        """The stream of that name. Raises NotFound."""
        return self._relation(name, RelationKind.STREAM)

    def table(self, name: str) -> Relation:
        """The table of that name. Raises NotFound."""
        return self._relation(name, RelationKind.TABLE)

    def sink(self, name: str) -> Relation:
        """The sink of that name. Raises NotFound."""
        return self._relation(name, RelationKind.SINK)

    def view(self, name: str) -> Relation:
        """The view of that name. Raises NotFound."""
        return self._relation(name, RelationKind.VIEW)

    def create_relation(self, relation: Relation, *, if_not_exists: bool = False, or_replace: bool = False) -> bool:
        """Declares a stream, table, view or sink, as CREATE does. False: it was there and `if_not_exists` was set.

        With `or_replace` a view takes the place of the view of that name.

        Raises StatementError when the definition is refused.
        """
        request = catalog_pb2.CreateRelationRequest(
            relation=convert.relation_message(relation), if_not_exists=if_not_exists, or_replace=or_replace
        )
        return self._session.ask(self._session.catalog.CreateRelation, request).created

    def drop(self, name: str, *, kind: RelationKind | None = None, if_exists: bool = False) -> bool:
        """Removes a relation (`kind` None: of whatever kind). False: there was none and `if_exists` was set.

        Raises NotFound, and StatementError when a running query reads it or writes into it, or a view uses it.
        """
        wanted = convert.RELATION_KINDS[kind] if kind else common_pb2.RELATION_KIND_UNSPECIFIED
        request = catalog_pb2.DropRelationRequest(name=name, kind=wanted, if_exists=if_exists)
        return self._session.ask(self._session.catalog.DropRelation, request).dropped

    def alter(self, name: str, options: Mapping[str, str], *, site: str | None = None) -> Relation:
        """Changes connector options at one site (None: at all of them); running queries follow where they can.

        Raises NotFound, and StatementError when an option is refused.
        """
        request = catalog_pb2.AlterBindingRequest(name=name, site=site or "", options=dict(options))
        return convert.relation(self._session.ask(self._session.catalog.AlterBinding, request).relation)

    def push(self, stream: str, site: str, *, producer_id: str = "", first_sequence: int | None = None) -> Producer:
        """A producer that sends rows to a stream whose connector at that site is `push`.

        Without `producer_id` it gets a new one. One that was used before goes on after its last stored batch;
        `first_sequence=1` sends the same input from the beginning, of which what was stored is skipped. Raises
        NotFound, StatementError when the stream cannot be pushed to there, and ConnectionLost when master or agent stay
        away too long.
        """
        retry = Reconnect(self._session.waits.reconnect, f"push to {stream} at {site}")
        relation = retry.until_answered(lambda: self.stream(stream))
        return Producer(self._session, relation, site=site, producer_id=producer_id, first_sequence=first_sequence)

    def _relations(self, kind: RelationKind) -> list[Relation]:
        request = catalog_pb2.ListRelationsRequest(kind=convert.RELATION_KINDS[kind])
        answer = self._session.ask(self._session.catalog.ListRelations, request)
        return [convert.relation(r) for r in answer.relations]

    def _relation(self, name: str, kind: RelationKind) -> Relation:
        request = catalog_pb2.GetRelationRequest(name=name)
        found = convert.relation(self._session.ask(self._session.catalog.GetRelation, request).relation)
        if found.kind is not kind:
            detail = Detail(hint=f"{name} is a {found.kind.value}", ids={kind.value: name})
            raise NotFound(f"no {kind.value} is named {name}", detail=detail)
        return found
