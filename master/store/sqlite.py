"""The store in one SQLite file."""

from __future__ import annotations

from master.store.access import AccessTables
from master.store.cluster import ClusterTables
from master.store.leases import LeaseTables
from master.store.queries import QueryTables
from master.store.relations import RelationTables
from master.store.sites import SiteTables


class SqliteStore(ClusterTables, RelationTables, QueryTables, SiteTables, LeaseTables, AccessTables):
    """All tables in one file; see `master.store.Store`."""
