"""Aggregates over streams that are written in others: what of, what is refused, and what EXPLAIN shows."""

from __future__ import annotations

import pytest

from planner.functions.settled import SETTLED
from planner.text.logical import logical_lines
from planner.values.errors import PlannerError
from tests.unit.planner.build import draft_of

W = "GROUP BY window(ts, '1 minute'), page"
OVER_WINDOWS = f"FROM (SELECT window AS w, page, count(*) AS n FROM clicks {W}) AS d GROUP BY w"


def stages(select_list: str, *, after: str = f"FROM clicks {W}") -> str:
    return " ".join(stage.sql for stage in draft_of(f"SELECT {select_list} {after}").stages)


@pytest.mark.parametrize(
    "name", sorted(name for name, entry in SETTLED.items() if entry.template and name != "percentiles")
)
def test_every_entry_is_written_in_aggregates_of_any_order(name: str) -> None:
    entry = SETTLED[name]
    arguments = ("ms", "0.5" if name == "percentile" else "user_id")[: entry.arguments[0]]
    sql = stages(f"{name}({', '.join(arguments)}) FILTER (WHERE ms > 3) AS x")
    assert f" {name}(" not in sql or name.startswith("collect")
    assert sql.count("FILTER(WHERE") == 1


def test_an_alias_in_having_stands_for_what_was_written() -> None:
    sql = stages("collect_list(ms) AS x", after=f"FROM clicks {W} HAVING size(x) > 2")
    assert sql.count("named_struct('t'") == 1


def test_the_best_of_several_rows_are_those_of_all_values() -> None:
    assert "slice(reverse(l), 1, 3)" in stages("max_by(page, ms, 3) AS x")
    assert "slice(l, 1, 2)" in stages("min_by(page, ms, 2) AS x")


def test_nulls_are_ignored_where_that_is_said() -> None:
    first, other, flag = (stages(f"{call} AS x") for call in ("first(ms)", "first(ms) IGNORE NULLS", "first(ms, true)"))
    assert first != other
    assert other == flag
    assert stages("any_value(ms, false) AS x") == first


def test_over_the_rows_of_windows_lists_are_in_the_order_of_their_values() -> None:
    assert "TRANSFORM(array(sort_array(collect_list(" in stages("collect_list(n) AS x", after=OVER_WINDOWS)


def test_explain_shows_what_the_query_has() -> None:
    draft = draft_of(f"SELECT page, median(ms) AS x, last(ms) FILTER (WHERE ms > 1) AS y FROM clicks {W}")
    assert logical_lines(draft.logical)[0] == (
        "Project[page, median(input.ms) AS x, last(input.ms) FILTER(WHERE input.ms > 1) AS y]"
    )


def test_tables_keep_them_as_they_are() -> None:
    assert "median(" in stages("topic, median(weight) AS m", after="FROM pages GROUP BY topic")
    assert "collect_list(_c0) AS _a0" in stages("topic, collect_list(page) AS m", after="FROM pages GROUP BY topic")


def test_within_group_sorts_by_what_it_says_and_then_by_event_time() -> None:
    ascending = stages("listagg(page, '-') WITHIN GROUP (ORDER BY ms) AS x")
    descending = stages("listagg(page, '-') WITHIN GROUP (ORDER BY ms DESC) AS x")
    fields = "named_struct('o', _c1, 't', _c2, 'x', _c0)"
    assert fields in ascending
    assert fields in descending
    assert "(reverse(sort_array(" not in ascending
    assert "(reverse(sort_array(" in descending
    assert "named_struct('o', r1.n, 'x', r1.page)" in stages(
        "listagg(page) WITHIN GROUP (ORDER BY n) AS x", after=OVER_WINDOWS
    )
    assert "ceil(CAST(0.3 AS DOUBLE) * size(l))" in stages("percentile_disc(0.3) WITHIN GROUP (ORDER BY ms) AS x")


def test_over_tables_within_group_runs_whole() -> None:
    assert draft_of("SELECT percentile_cont(0.3) WITHIN GROUP (ORDER BY weight) AS x FROM pages").whole is not None


REFUSED = [
    (f"SELECT percentile_cont(0.3) FROM clicks {W}", "INVALID_EXPRESSION", 8, "percentile_cont"),
    (f"SELECT percentile_cont(2) WITHIN GROUP (ORDER BY ms) FROM clicks {W}", "INVALID_EXPRESSION", 24, "2"),
    (f"SELECT median(ms) WITHIN GROUP (ORDER BY ms) FROM clicks {W}", "", 8, "median"),
    (f"SELECT listagg(page) WITHIN GROUP (ORDER BY ms, page) FROM clicks {W}", "", 8, "listagg"),
    (f"SELECT listagg(DISTINCT page) WITHIN GROUP (ORDER BY page) FROM clicks {W}", "", 8, "listagg"),
    (f"SELECT first(ms, page) FROM clicks {W}", "INVALID_EXPRESSION", 18, "page"),
    (f"SELECT median(ms, 1) FROM clicks {W}", "INVALID_EXPRESSION", 8, "median"),
    (f"SELECT percentile(ms, 1.5) FROM clicks {W}", "INVALID_EXPRESSION", 23, "1.5"),
    (f"SELECT percentile(ms, user_id) FROM clicks {W}", "INVALID_EXPRESSION", 23, "user_id"),
    (f"SELECT listagg(page, page) FROM clicks {W}", "INVALID_EXPRESSION", 22, "page"),
    (f"SELECT max_by(page, ms, user_id) FROM clicks {W}", "INVALID_EXPRESSION", 25, "user_id"),
    (f"SELECT max_by(sum(ms), ms) FROM clicks {W}", "UNSUPPORTED_SQL", 15, "sum"),
    (f"SELECT first(n) FROM (SELECT window AS w, page, count(*) AS n FROM clicks {W}) AS d GROUP BY w", "", 8, "first"),
    ("SELECT first(ms) FROM clicks", "UNSUPPORTED_SQL", 8, "first"),
]


@pytest.mark.parametrize(("sql", "code", "column", "found"), REFUSED)
def test_what_is_refused(sql: str, code: str, column: int, found: str) -> None:
    with pytest.raises(PlannerError) as caught:
        draft_of(sql)
    error = caught.value
    assert error.position is not None
    assert (error.code, error.position.column, error.found) == (code or "UNSUPPORTED_SQL", column, found)
    assert error.hint
