"""Statements of Spark's clients about the catalog and the views of their session."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.connect import proto as pb

from master.connect.answers import texts
from master.connect.sessions import Session
from master.connect.statements import catalog_answer, temporary_view


class FakeCatalog:
    """Knows a table and a temporary view, and notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def answer(self, asked: Any, session: Session) -> pa.Table:
        self.asked.append(asked)
        if asked.WhichOneof("cat_type") != "list_tables":
            return texts((), [])
        return pa.Table.from_pylist(
            [
                {"name": "t", "namespace": ["default"], "isTemporary": False},
                {"name": "v", "namespace": [], "isTemporary": True},
            ]
        )


def answered(text: str, catalog: Any = None, session: Session | None = None) -> Any:
    asked: Any = catalog or FakeCatalog()
    found = catalog_answer(text, asked, session or Session("s", "server"))
    return None if found is None else found.to_pylist()


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT CURRENT_DATABASE()", [{"current_database()": "default"}]),
        ("select current_schema ( ) ;", [{"current_schema()": "default"}]),
        ("SELECT current_catalog()", [{"current_catalog()": "spark_catalog"}]),
        ("SHOW CATALOGS", [{"catalog": "spark_catalog"}]),
        ("SHOW  SCHEMAS", [{"namespace": "default"}]),
        (
            "SHOW TABLES IN `default`",
            [
                {"namespace": "default", "tableName": "t", "isTemporary": False},
                {"namespace": "", "tableName": "v", "isTemporary": True},
            ],
        ),
        ("USE CATALOG spark_catalog", []),
        ("SHOW TABLES", None),
        ("SELECT current_database(), 1", None),
        ("SELECT current_user()", None),
        ("DROP VIEW v", None),
        ("USE a.b", None),
    ],
)
def test_statements_as_a_whole(text: str, rows: Any) -> None:
    assert answered(text) == rows


def test_what_is_used_is_asked_of_the_catalog() -> None:
    catalog = FakeCatalog()
    for text in ("USE other", "USE DATABASE `other`", "USE CATALOG other"):
        answered(text, catalog)
    assert catalog.asked == [
        pb.Catalog(set_current_database=pb.SetCurrentDatabase(db_name="other")),
        pb.Catalog(set_current_database=pb.SetCurrentDatabase(db_name="other")),
        pb.Catalog(set_current_catalog=pb.SetCurrentCatalog(catalog_name="other")),
    ]


def test_views_of_the_session_alone_are_dropped() -> None:
    session = Session("s", "server", views={"v": pb.Relation()})
    assert answered("DROP VIEW IF EXISTS `V`", session=session) == []
    assert not session.views
    assert answered("DROP VIEW V", session=session) is None


def test_views_by_sql() -> None:
    found = temporary_view(pb.Relation(sql=pb.SQL(query="CREATE OR REPLACE TEMPORARY VIEW `v` AS\nSELECT 1")))
    assert found == pb.CreateDataFrameViewCommand(
        input=pb.Relation(sql=pb.SQL(query="SELECT 1")), name="v", replace=True
    )
    beside = pb.WithRelations(root=pb.Relation(sql=pb.SQL(query="create temp view w as (SELECT * FROM f)")))
    found = temporary_view(pb.Relation(with_relations=beside))
    assert found is not None
    assert (found.name, found.replace) == ("w", False)
    assert found.input.with_relations.root.sql.query == "(SELECT * FROM f)"
    for other in ("CREATE VIEW v AS SELECT 1", "CREATE TEMP VIEW v (a) AS SELECT 1", "SELECT 'CREATE TEMP VIEW v AS'"):
        assert temporary_view(pb.Relation(sql=pb.SQL(query=other))) is None
    assert temporary_view(pb.Relation(range=pb.Range(end=1, step=1))) is None
