"""Migrations from an empty SQLite file to the present tables. Append only: `PRAGMA user_version` counts
those applied."""

from __future__ import annotations

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE cluster (
        single INTEGER PRIMARY KEY CHECK (single = 1),
        id TEXT NOT NULL,
        version INTEGER NOT NULL,
        query_number INTEGER NOT NULL
    );
    CREATE TABLE relations (
        key TEXT PRIMARY KEY,
        body TEXT NOT NULL
    );
    CREATE TABLE queries (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        sql TEXT NOT NULL,
        plan TEXT NOT NULL,
        state TEXT NOT NULL,
        reason TEXT NOT NULL,
        submitted_at_us INTEGER NOT NULL,
        started_at_us INTEGER,
        ended_at_us INTEGER,
        progress TEXT NOT NULL
    );
    CREATE TABLE sites (
        name TEXT PRIMARY KEY,
        address TEXT NOT NULL,
        incarnation TEXT NOT NULL,
        slots INTEGER NOT NULL,
        version TEXT NOT NULL,
        last_report_at_us INTEGER
    );
    CREATE TABLE incarnations (
        site TEXT NOT NULL,
        incarnation TEXT NOT NULL,
        PRIMARY KEY (site, incarnation)
    );
    CREATE TABLE assignments (
        site TEXT PRIMARY KEY,
        version INTEGER NOT NULL,
        digest TEXT NOT NULL
    );
    CREATE TABLE events (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        query_id TEXT NOT NULL,
        from_state TEXT,
        to_state TEXT NOT NULL,
        reason TEXT NOT NULL,
        at_us INTEGER NOT NULL
    );
    CREATE INDEX events_by_query ON events (query_id, number);
    """,
    """
    CREATE TABLE functions (
        key TEXT PRIMARY KEY,
        body TEXT NOT NULL
    );
    """,
    """
    CREATE TABLE leases (
        site TEXT NOT NULL,
        slot INTEGER NOT NULL,
        holder TEXT NOT NULL,
        fencing INTEGER NOT NULL,
        granted_at_us INTEGER NOT NULL,
        expires_at_us INTEGER NOT NULL,
        grace_us INTEGER NOT NULL,
        PRIMARY KEY (site, slot)
    ) WITHOUT ROWID;
    CREATE TABLE lease_mark (
        single INTEGER PRIMARY KEY CHECK (single = 1),
        fencing INTEGER NOT NULL,
        alive_at_us INTEGER NOT NULL
    );
    CREATE TABLE frameworks (
        name TEXT PRIMARY KEY,
        body TEXT NOT NULL
    );
    """,
    """
    ALTER TABLE queries ADD COLUMN batch TEXT;
    """,
    """
    ALTER TABLE queries ADD COLUMN deployment TEXT NOT NULL DEFAULT '';
    """,
    """
    CREATE TABLE draining (
        site TEXT PRIMARY KEY,
        since_us INTEGER NOT NULL
    );
    """,
    """
    CREATE TABLE restored (
        single INTEGER PRIMARY KEY CHECK (single = 1),
        made_at_us INTEGER NOT NULL
    );
    """,
    """
    ALTER TABLE queries ADD COLUMN owner TEXT NOT NULL DEFAULT '';
    CREATE TABLE tokens (
        id TEXT PRIMARY KEY,
        body TEXT NOT NULL
    );
    CREATE TABLE grants (
        relation TEXT NOT NULL,
        privilege TEXT NOT NULL,
        role TEXT NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (relation, privilege, role)
    ) WITHOUT ROWID;
    CREATE TABLE owners (
        relation TEXT PRIMARY KEY,
        body TEXT NOT NULL
    );
    """,
    """
    UPDATE queries SET progress = with_task_ids(progress), deployment = '';
    """,
    """
    CREATE TABLE placement (
        task TEXT PRIMARY KEY,
        site TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE running (
        single INTEGER PRIMARY KEY CHECK (single = 1),
        version INTEGER NOT NULL
    );
    INSERT INTO running VALUES (1, 0);
    INSERT OR IGNORE INTO placement
        SELECT sites.key, sites.value FROM queries, json_each(placed(queries.id, plan, deployment)) AS sites;
    UPDATE queries SET plan = plan_beside_placement(plan), deployment = deployment_beside_placement(deployment);
    """,
    """
    CREATE TABLE lineages (
        place TEXT PRIMARY KEY,
        body TEXT NOT NULL
    ) WITHOUT ROWID;
    """,
)

PLACEMENT = len(MIGRATIONS) - 1
"""From this version on, plans do not hold the sites of tasks."""

TASK_IDS = PLACEMENT - 1
"""From this version on, task ids hold no site. Running tasks with other ids cannot be adopted."""
