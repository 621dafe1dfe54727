"""A query may contain only listed syntax: everything else, in every spelling, is refused by the planner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.sql import parse_script
from planner.sql.allowed import NODES, TABLE_NODES, what_is_refused
from planner.sql.dialect import exp, name_node, parse_select_tree, render
from planner.sql.source import Source
from planner.values.errors import PlannerError
from tests.unit.planner.build import catalog_of, draft_of, known_names

REFUSED = frozenset(Path(__file__).with_name("refused_nodes.txt").read_text().split())
"""Classes of the pinned sqlglot that a query may not have."""

OF_STREAMS_ALONE = {(exp.Join, "match_condition"), (exp.Select, "within"), (exp.Table, "version")}
"""Arguments that queries over tables, which are Spark's own, may not have."""

CATALOG = catalog_of(
    "CREATE STREAM s (page STRING, ms INT, ts TIMESTAMP, WATERMARK FOR ts) AT us WITH ('connector' = 'other');"
    "CREATE TABLE t (page STRING, ms INT, ts TIMESTAMP) AT us WITH ('connector' = 'other');"
)

EXPRESSIONS = (
    "TRANSFORM(page) USING 'id'",
    *(
        "reflect('a', 'b')",
        "REFLECT('a', 'b')",
        "java_method('a', 'b')",
        "try_reflect('a', 'b')",
        "`reflect`('a', 'b')",
    ),
    *("`ReFlect` ('a', 'b')", "reflect /* a */ ('a', 'b')", "reflect -- a\n ('a', 'b')", "builtin.reflect('a', 'b')"),
    *("system.builtin.reflect('a', 'b')", "`system`.`builtin`.`reflect`('a', 'b')", "session.reflect('a', 'b')"),
    *("{fn reflect('a', 'b')}", "upper(reflect('a', 'b'))", "transform(array(1), x -> reflect('a', 'b'))"),
    *("CASE WHEN true THEN reflect('a', 'b') END", "array(1)[reflect('a', 'b')]", "CAST(reflect('a', 'b') AS INT)"),
    *(
        "IDENTIFIER('reflect')",
        "IDENTIFIER('reflect')('a', 'b')",
        "`re``flect`('a', 'b')",
        "`reflect('a') , upper`(page)",
    ),
    *(":x", "?", "${x}", "@x", "$1", "f(a => 1)", "upper(str => page)", "NEXT VALUE FOR q", "page ->> 'a'", "page:a"),
    *("input_file_name()", "input_file_block_start()", "input_file_block_length()", "current_user", "current_user()"),
    *("user()", "session_user", "version()", "current_catalog()", "current_database()", "spark_partition_id()"),
    *("monotonically_increasing_id()", "rand()", "uuid()", "now()", "aes_encrypt(page, 'k')", "aes_decrypt(page, 'k')"),
    *("xpath(page, 'a')", "from_xml(page, 'a INT')", "from_avro(page, 'a')", "from_protobuf(page, 'a')", "range(3)"),
    *("read_files('/etc')", "sql_keywords()", "python_worker_logs()", "nope(page)", "`+`(1, 2)", "`||`('a', 'b')"),
    *(
        "dateadd(`day), evil(`, 1, ts)",
        "dateadd(nope, 1, ts)",
        "EXTRACT(`day FROM ts), (1` FROM ts)",
        "EXTRACT(a FROM ts)",
    ),
    *(
        "CAST(page AS TIME)",
        "CAST(page AS JSON)",
        "CAST(page AS INT FORMAT 'x')",
        "ms AT TIME ZONE 'x'",
        "MAP {'a': 1}",
    ),
    *(
        "DEFAULT",
        "CURRENT_TIMESTAMP",
        "N'x'",
        "INTERVAL '1' `x y`",
    ),
)
STATEMENTS = (
    "SELECT TRANSFORM(page) USING 'id > /tmp/x; cat' AS y FROM {}",
    "SELECT MAP page USING 'cat' AS y FROM {}",
    "FROM {} MAP page USING 'cat' AS y",
    "FROM {} SELECT TRANSFORM(page) USING 'cat'",
    "FROM {} INSERT INTO x SELECT page",
    "SELECT page FROM (SELECT TRANSFORM(page) USING 'cat' AS page FROM {}) AS d",
    "WITH d AS (SELECT TRANSFORM(page) USING 'cat' AS page FROM {}) SELECT page FROM d",
    "SELECT page FROM {} UNION ALL SELECT TRANSFORM(page) USING 'cat' AS page FROM {}",
    "CREATE VIEW v AS SELECT TRANSFORM(page) USING 'cat' AS page FROM {}",
    "INSERT INTO x SELECT TRANSFORM(page) USING 'cat' AS page FROM {}",
    "EXPLAIN SELECT TRANSFORM(page) USING 'cat' AS page FROM {}",
    "SELECT page FROM {} WHERE reflect('a', 'b') = 'c'",
    "SELECT count(*) AS n FROM {} GROUP BY window(ts, '1 s'), reflect('a', 'b')",
    "SELECT page FROM {} JOIN t AS u ON u.page = reflect('a', 'b')",
    "SELECT page FROM {} QUALIFY row_number() OVER (PARTITION BY window ORDER BY reflect('a', 'b')) = 1",
    "SELECT page FROM {} ORDER BY reflect('a', 'b')",
    "SELECT page FROM {} LIMIT reflect('a', 'b')",
    "SELECT page FROM {} LATERAL VIEW explode(array(reflect('a', 'b'))) x AS y",
    "SELECT page FROM {} LATERAL VIEW range(3) x AS y",
    "SELECT sum(ms) FILTER (WHERE reflect('a', 'b') = 'c') AS n FROM {} GROUP BY window(ts, '1 s')",
    "SELECT /*+ BROADCAST({}) */ page FROM {}",
    "SELECT page FROM {} TABLESAMPLE (5 ROWS)",
    "SELECT page FROM {} VERSION AS OF 1",
    "SELECT page FROM {} WITH ('a' = 'b')",
    "SELECT page FROM {} |> SELECT page",
    "SELECT page FROM {} FOR UPDATE",
    "SELECT page INTO x FROM {}",
    "SELECT page FROM {} CONNECT BY page = page",
    "SELECT page FROM csv.`/etc/passwd`",
    "SELECT page FROM parquet.`/x`",
    "SELECT * FROM range(3)",
    "SELECT * FROM read_files('/etc')",
    "SELECT * FROM IDENTIFIER('{}')",
    "SELECT * FROM VALUES (reflect('a', 'b')) AS v",
    "TABLE {}",
    "ADD JAR '/x.jar'",
    "ADD FILE '/x'",
    "SET spark.sql.x = y; SELECT page FROM {}; ADD JAR 'x'",
    "INSERT OVERWRITE DIRECTORY '/tmp/x' USING csv SELECT page FROM {}",
    "INSERT INTO x PARTITION (a = 1) SELECT page FROM {}",
    "CREATE TABLE x AS SELECT page FROM {}",
    "CREATE TABLE x (a INT GENERATED ALWAYS AS (reflect('a', 'b'))) AT us WITH ('connector' = 'other')",
    "CREATE TABLE x (a INT DEFAULT reflect('a', 'b')) AT us WITH ('connector' = 'other')",
    "CREATE STREAM x (ts TIMESTAMP, WATERMARK FOR ts AS reflect('a', 'b')) AT us WITH ('connector' = 'other')",
    "CREATE STREAM x (ts TIMESTAMP, WATERMARK FOR ts AS ts - reflect('a', 'b')) AT us WITH ('connector' = 'other')",
    "CREATE FUNCTION x(a INT) RETURNS INT RETURN reflect('a', 'b')",
    "CREATE FUNCTION x AS 'java.lang.System' USING JAR '/x.jar'",
    "CREATE TEMPORARY FUNCTION x AS 'java.lang.System'",
    "EXECUTE IMMEDIATE 'SELECT 1'",
    "BEGIN SELECT 1; END",
    "CALL x()",
    "DECLARE x INT DEFAULT 1",
)


WHOLE = (
    "SELECT page FROM {r} WHERE ms IN (SELECT ms FROM t WHERE {x} = 'c')",
    "SELECT page FROM {r} WHERE EXISTS (SELECT {x} FROM t)",
    "SELECT (SELECT max({x}) FROM t) AS q FROM {r}",
    "SELECT page FROM {r} EXCEPT SELECT {x} FROM t",
    "SELECT * FROM {r} PIVOT (max({x}) FOR page IN ('a'))",
    "SELECT page FROM {r}, LATERAL (SELECT {x}) AS d",
    "SELECT page FROM {r} FULL JOIN t AS u ON {x} = u.page",
    "SELECT page, count(*) AS n FROM {r} GROUP BY CUBE (page, {x})",
    "SELECT sum(ms) OVER w AS n FROM {r} WINDOW w AS (PARTITION BY {x})",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY {x}) AS q FROM {r}",
    "SELECT v.a FROM {r} CROSS JOIN (VALUES ({x})) AS v (a)",
)
"""What a query over tables alone may have, around a call that no query may have."""
OVER_STREAMS = 3
"""This many of them, from the first on, are possible over streams as well."""
UNSAFE = ("reflect('a', 'b')", "input_file_name()", "rand()", "now()", "current_timestamp", "from_avro(page, 'a')")
WHOLE_STATEMENTS = (
    "SELECT a.page FROM {} AS a RIGHT JOIN csv.`/etc/passwd` AS b ON a.page = b.page",
    "SELECT page FROM {} WHERE ms IN (SELECT id FROM range(3))",
    "SELECT page FROM {} UNION SELECT TRANSFORM(page) USING 'cat' AS page FROM t",
    "SELECT page FROM {} WHERE EXISTS (SELECT * FROM t TABLESAMPLE (5 ROWS))",
    "SELECT /*+ BROADCAST(t) */ page FROM {} CROSS JOIN t",
    "SELECT page FROM {} WHERE EXISTS (SELECT * FROM IDENTIFIER('t'))",
    "SELECT page FROM {} WHERE EXISTS (SELECT * FROM nothing)",
    "SELECT page FROM {} WHERE EXISTS (SELECT * FROM t WHERE :x)",
)


def attacks() -> Iterator[str]:
    for relation in ("s", "t"):
        yield from (f"SELECT {text} AS q FROM {relation}" for text in EXPRESSIONS)
        yield from (text.replace("{}", relation) for text in (*STATEMENTS, *WHOLE_STATEMENTS))
        yield from (text.replace("{r}", relation).replace("{x}", call) for text in WHOLE for call in UNSAFE)
    yield from (text.replace("{r}", "s").replace("{x}", "ms") for text in WHOLE[OVER_STREAMS:])


def submit(text: str) -> None:
    """Submit a text as the master does, up to the planner's draft; names that are unknown to it are to Spark, too."""
    parse_script(text)
    known_names(draft_of(text, CATALOG))


@pytest.mark.parametrize("text", sorted(set(attacks())))
def test_attacks_are_refused_with_their_place(text: str) -> None:
    with pytest.raises(PlannerError) as caught:
        submit(text)
    assert caught.value.position is not None
    assert caught.value.found
    assert caught.value.hint


def test_a_name_that_is_nearly_one_of_a_function_is_suggested() -> None:
    with pytest.raises(PlannerError) as caught:
        draft_of("SELECT uper(page) AS p FROM s", CATALOG)
    assert caught.value.hint == "Did you mean upper?"


def test_every_class_of_sqlglot_was_looked_at() -> None:
    assert {kind.__name__ for kind in TABLE_NODES} | REFUSED == {kind.__name__ for kind in kinds(exp.Expr)}
    assert not {kind.__name__ for kind in TABLE_NODES} & REFUSED
    assert NODES.keys() < TABLE_NODES.keys()
    lost = {(kind, argument) for kind, arguments in NODES.items() for argument in arguments - TABLE_NODES[kind]}
    assert lost == OF_STREAMS_ALONE


def kinds(root: type[exp.Expr]) -> Iterator[type[exp.Expr]]:
    for kind in root.__subclasses__():
        yield kind
        yield from kinds(kind)


@pytest.mark.parametrize("kind", TABLE_NODES, ids=lambda kind: kind.__name__)
def test_an_argument_that_is_not_listed_is_refused(kind: type[exp.Expr]) -> None:
    for nodes in (NODES, TABLE_NODES):
        for argument in {*kind.arg_types, "something_new"} - nodes.get(kind, frozenset()):
            assert what_is_refused(kind(**{argument: exp.Literal.string("x")}), nodes) is not None
            assert what_is_refused(kind(**{argument: [exp.Literal.string("x")]}), nodes) is not None


@pytest.mark.parametrize("kind", sorted(REFUSED))
def test_a_class_that_is_not_listed_is_refused(kind: str) -> None:
    found = next(k for k in kinds(exp.Expr) if k.__name__ == kind)
    assert what_is_refused(found.__new__(found), TABLE_NODES) is not None


class TestRendering:
    @given(name=st.text(min_size=1))
    def test_any_name_comes_back(self, name: str) -> None:
        text = render(exp.select(exp.column(name_node(name), table=name_node(name))).from_("s"))
        column = parse_select_tree(Source(text)).expressions[0]
        assert (column.name, column.table) == (name, name)

    @given(text=st.text())
    def test_any_text_comes_back(self, text: str) -> None:
        written = render(exp.select(exp.Literal.string(text)).from_("s"))
        literal = parse_select_tree(Source(written)).expressions[0]
        assert isinstance(literal, exp.Literal)
        assert literal.name == text

    def test_a_functions_name_stays_one_name(self) -> None:
        tree = parse_select_tree(Source("SELECT `upper(a), reflect`(b) FROM s"))
        assert render(tree) == "SELECT `upper(a), reflect`(b) FROM s"
        for call in tree.find_all(exp.Anonymous):
            call.set("this", call.name)
        assert render(tree) == "SELECT `upper(a), reflect`(b) FROM s"

    @pytest.mark.parametrize(
        ("written", "text"),
        [
            (r"'\u0041\101\n\Z\%\_\q\\'", "AA\n\x1a\\%\\_q\\"),
            ("'it''s'", "it's"),
            (r"'it\'s'", "it's"),
            ("\"a''b\"", "a''b"),
            ('"a""b"', 'a"b'),
            (r"r'a\n'", r"a\n"),
            (r"'\ud83d\ude00'", "\U0001f600"),
        ],
    )
    def test_texts_are_read_as_spark_reads_them(self, written: str, text: str) -> None:
        literal = parse_select_tree(Source(f"SELECT {written} FROM s")).expressions[0]
        assert literal.name == text
