"""What is refused once the catalog is known: code, place and what was found; always with a hint."""

from __future__ import annotations

import pytest

from planner.values.errors import PlannerError, Position
from tests.unit.planner.build import CATALOG, draft_of

W = "window(ts, '1 minute')"

REFUSED = [
    # names
    ("SELECT pagee FROM clicks", "UNKNOWN_COLUMN", 1, 8, "pagee"),
    ("SELECT c.pagee FROM clicks c", "UNKNOWN_COLUMN", 1, 8, "c.pagee"),
    ("SELECT page,\n  x.page FROM clicks c", "UNKNOWN_COLUMN", 2, 3, "x.page"),
    ("SELECT page FROM clickz", "UNKNOWN_RELATION", 1, 18, "clickz"),
    ("SELECT c.page FROM clicks c JOIN pagez p ON c.page = p.page", "UNKNOWN_RELATION", 1, 34, "pagez"),
    ("SELECT x.* FROM clicks", "UNKNOWN_RELATION", 1, 8, "x.*"),
    ("SELECT page FROM clicks c JOIN pages p ON c.page = p.page", "UNKNOWN_COLUMN", 1, 8, "page"),
    ("SELECT c.page FROM clicks c JOIN pages p USING (ms)", "UNKNOWN_COLUMN", 1, 49, "ms"),
    ("SELECT site FROM clicks c JOIN pages p ON c.page = p.page AND p.site = 'us'", "UNKNOWN_COLUMN", 1, 8, "site"),
    ("SELECT count(*) AS n FROM clicks WHERE n > 1 GROUP BY " + W, "UNKNOWN_COLUMN", 1, 40, "n"),
    (f"SELECT sum(ms) AS x, min(x) FROM clicks GROUP BY {W}", "UNKNOWN_COLUMN", 1, 26, "x"),
    ("SELECT current_timestamp FROM clicks", "UNSUPPORTED_SQL", 1, 8, "current_timestamp"),
    ("SELECT page FROM clicks WHERE current_date > ts", "UNSUPPORTED_SQL", 1, 31, "current_date"),
    # relations in the wrong place
    ("SELECT c.page FROM clicks c JOIN visits v ON c.page = v.page", "UNSUPPORTED_SQL", 1, 46, "c.page = v.page"),
    ("SELECT p.page FROM pages p LEFT JOIN clicks c ON c.page = p.page", "UNSUPPORTED_SQL", 1, 38, "clicks c"),
    ("SELECT 1 FROM clicks JOIN pages ON true JOIN pages ON true", "UNSUPPORTED_SQL", 1, 46, "pages"),
    # joins
    (
        "SELECT c.page FROM clicks c LEFT JOIN users u ON c.user_id = u.user_id AND u.site = c.site",
        "UNSUPPORTED_SQL",
        1,
        50,
        "u",
    ),
    ("SELECT c.page FROM clicks c JOIN pages p ON c.ms = max(p.weight)", "UNSUPPORTED_SQL", 1, 52, "max"),
    # aggregates and windows
    ("SELECT count(*) FROM clicks", "UNSUPPORTED_SQL", 1, 8, "count"),
    ("SELECT page FROM clicks GROUP BY page", "UNSUPPORTED_SQL", 1, 34, "page"),
    (f"SELECT page, count(*) FROM clicks GROUP BY {W}", "INVALID_EXPRESSION", 1, 8, "page"),
    (f"SELECT count(*) FROM clicks GROUP BY {W} HAVING ms > 1", "INVALID_EXPRESSION", 1, 68, "ms"),
    ("SELECT page FROM clicks HAVING page > 'a'", "UNSUPPORTED_SQL", 1, 32, "page > 'a'"),
    ("SELECT page FROM clicks WHERE count(*) > 1", "UNSUPPORTED_SQL", 1, 31, "count"),
    (f"SELECT sum(count(*)) FROM clicks GROUP BY {W}", "UNSUPPORTED_SQL", 1, 12, "count"),
    (f"SELECT sum(DISTINCT ms, ms) FROM clicks GROUP BY {W}", "INVALID_EXPRESSION", 1, 8, "sum"),
    (f"SELECT count(DISTINCT *) FROM clicks GROUP BY {W}", "UNSUPPORTED_SQL", 1, 23, "*"),
    (f"SELECT approx_count_distinct(ms, 0.5) FROM clicks GROUP BY {W}", "INVALID_EXPRESSION", 1, 34, "0.5"),
    (f"SELECT approx_count_distinct(ms, ms) FROM clicks GROUP BY {W}", "INVALID_EXPRESSION", 1, 34, "ms"),
    (f"SELECT percentile_approx(ms) FROM clicks GROUP BY {W}", "INVALID_EXPRESSION", 1, 8, "percentile_approx"),
    (f"SELECT percentile_approx(ms, 95) FROM clicks GROUP BY {W}", "INVALID_EXPRESSION", 1, 30, "95"),
    (f"SELECT percentile_approx(ms, page) FROM clicks GROUP BY {W}", "INVALID_EXPRESSION", 1, 30, "page"),
    (f"SELECT percentile_approx(ms, 0.5, 1.5) FROM clicks GROUP BY {W}", "INVALID_EXPRESSION", 1, 35, "1.5"),
    (f"SELECT sum(ms, ms) FROM clicks GROUP BY {W}", "INVALID_EXPRESSION", 1, 8, "sum"),
    (f"SELECT count(*) AS n FROM clicks GROUP BY {W}, n", "UNSUPPORTED_SQL", 1, 67, "n"),
    (f"SELECT count(*) FROM clicks GROUP BY {W}, 5", "UNSUPPORTED_SQL", 1, 62, "5"),
    (f"SELECT DISTINCT {W}, count(*) FROM clicks", "UNSUPPORTED_SQL", 1, 41, "count"),
    ("SELECT DISTINCT date(window(ts, '1 day').end) FROM clicks", "UNSUPPORTED_SQL", 1, 17, "date"),
    (f"SELECT {W} FROM clicks", "UNSUPPORTED_SQL", 1, 8, "window"),
    ("SELECT count(*) FROM clicks GROUP BY window(ts, '9 s', '3 s')", "UNSUPPORTED_SQL", 1, 49, "'9 s'"),
    (
        "SELECT count(*) FROM clicks GROUP BY window(ts, '9 seconds', '10 seconds')",
        "UNSUPPORTED_SQL",
        1,
        62,
        "'10 seconds'",
    ),
    (
        "SELECT count(*) FROM clicks GROUP BY window(ts, '1 second', '2 seconds')",
        "UNSUPPORTED_SQL",
        1,
        61,
        "'2 seconds'",
    ),
    ("SELECT count(*) FROM clicks GROUP BY window(ts, '1 hour', '1 second')", "UNSUPPORTED_SQL", 1, 59, "'1 second'"),
    ("SELECT count(*) FROM clicks GROUP BY window(ts, '1 hour', ms)", "UNSUPPORTED_SQL", 1, 59, "ms"),
    (f"SELECT window(ts, '1 minute', '30 seconds') FROM clicks GROUP BY {W}", "UNSUPPORTED_SQL", 1, 66, "window"),
    (
        "SELECT count(*) FROM clicks GROUP BY window(ts, '1 hour', '1 hour', 'noon')",
        "UNSUPPORTED_SQL",
        1,
        69,
        "'noon'",
    ),
    ("SELECT count(*) FROM clicks GROUP BY window(ts)", "UNSUPPORTED_SQL", 1, 38, "window"),
    ("SELECT count(*) FROM clicks GROUP BY window(page, '1 minute')", "UNSUPPORTED_SQL", 1, 45, "page"),
    ("SELECT count(*) FROM clicks GROUP BY window(ts, page)", "UNSUPPORTED_SQL", 1, 49, "page"),
    ("SELECT count(*) FROM clicks GROUP BY window(ts, '1 month')", "UNSUPPORTED_SQL", 1, 49, "'1 month'"),
    ("SELECT count(*) FROM clicks GROUP BY window(ts, '0 seconds')", "UNSUPPORTED_SQL", 1, 49, "'0 seconds'"),
    (f"SELECT window(ts, '1 day') FROM clicks GROUP BY {W}", "UNSUPPORTED_SQL", 1, 49, "window"),
    (f"SELECT window.first FROM clicks GROUP BY {W}", "UNSUPPORTED_SQL", 1, 8, "window.first"),
    (f"SELECT count(c.*) FROM clicks c GROUP BY {W}", "UNSUPPORTED_SQL", 1, 14, "c.*"),
    # result columns
    ("SELECT page, upper(page) AS PAGE FROM clicks", "INVALID_DEFINITION", 1, 14, "upper(page) AS PAGE"),
    ("SELECT page, * FROM clicks", "INVALID_DEFINITION", 1, 14, "*"),
    ("SELECT page AS _bin FROM clicks", "INVALID_DEFINITION", 1, 8, "page AS _bin"),
    # sites
    ("SELECT page FROM clicks\nWHERE site = 'mars'", "INVALID_DEFINITION", 2, 7, "site = 'mars'"),
    (
        "SELECT c.page FROM clicks c JOIN users u USING (user_id, site) WHERE c.site = 'ap'",
        "INVALID_DEFINITION",
        1,
        1,
        "",
    ),
    # top-k
    (f"SELECT count(*) AS n FROM clicks GROUP BY {W} QUALIFY n <= 3", "UNSUPPORTED_SQL", 1, 74, "n <= 3"),
    (
        f"SELECT count(*) FROM clicks GROUP BY {W} QUALIFY sum(ms) OVER (PARTITION BY window ORDER BY ms) <= 3",
        "UNSUPPORTED_SQL",
        1,
        69,
        "sum",
    ),
    (
        f"SELECT page, count(*) FROM clicks GROUP BY {W}, page QUALIFY rank() OVER (PARTITION BY page ORDER BY 1) <= 3",
        "UNSUPPORTED_SQL",
        1,
        81,
        "rank() OVER (PARTITION BY page ORDER BY 1",
    ),
    (
        f"SELECT page FROM clicks GROUP BY {W}, page QUALIFY rank() OVER (PARTITION BY window) <= 3",
        "UNSUPPORTED_SQL",
        1,
        71,
        "rank() OVER (PARTITION BY window",
    ),
    (
        f"SELECT page FROM clicks GROUP BY {W}, page QUALIFY rank() OVER (PARTITION BY window ORDER BY page) <= page",
        "UNSUPPORTED_SQL",
        1,
        122,
        "page",
    ),
    (
        f"SELECT page FROM clicks GROUP BY {W}, page QUALIFY rank() OVER (PARTITION BY window ORDER BY page) = 2",
        "UNSUPPORTED_SQL",
        1,
        121,
        "2",
    ),
    (
        "SELECT page FROM clicks QUALIFY rank() OVER (ORDER BY page) = 1",
        "UNSUPPORTED_SQL",
        1,
        33,
        "rank() OVER (ORDER BY page) = 1",
    ),
]


@pytest.mark.parametrize(("sql", "code", "line", "column", "found"), REFUSED)
def test_refused(sql: str, code: str, line: int, column: int, found: str) -> None:
    with pytest.raises(PlannerError) as caught:
        draft_of(sql)
    error = caught.value
    assert (error.code, error.position, error.found) == (code, Position(line, column), found)
    assert error.hint


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("SELECT pagee FROM clicks", "Did you mean page?"),
        ("SELECT c.usr_id FROM clicks c", "Did you mean user_id?"),
        ("SELECT page FROM click", "Did you mean clicks?"),
        ("SELECT page FROM clicks c JOIN pages p USING (page) WHERE zzzz = 1", "c (user_id, page, "),
        ("SELECT ms FROM clicks c JOIN pages p ON c.page = page", "Write c.page or p.page."),
        ("SELECT page FROM clicks WHERE site = 'mars'", "clicks is bound at ap, eu, us."),
        ("SELECT page, count(*) FROM clicks GROUP BY page", "GROUP BY window(ts, '10 seconds'), key"),
    ],
)
def test_hints_say_what_would_be_right(sql: str, hint: str) -> None:
    with pytest.raises(PlannerError) as caught:
        draft_of(sql)
    assert hint in caught.value.hint


def test_places_are_those_of_the_script() -> None:
    from planner.planning import draft_query
    from planner.sql import SelectQuery, parse_script

    _, statement = parse_script("SHOW STREAMS;\n   SELECT page,\n pagee FROM clicks")
    assert isinstance(statement, SelectQuery)
    with pytest.raises(PlannerError) as caught:
        draft_query(statement, CATALOG)
    assert caught.value.position == Position(3, 2)
