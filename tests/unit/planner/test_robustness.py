"""Whatever is submitted, the answer is a plan or an error of the planner with its place."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.planning import draft_query
from planner.sql import Explain, SelectQuery, parse_script
from planner.sql.dialect import tokenize
from planner.sql.source import Source
from planner.values.errors import PlannerError
from tests.unit.planner.build import CATALOG, DECLARATIONS

SCRIPTS = (
    DECLARATIONS,
    "SELECT window.start, page, count(*) AS n, avg(ms) FILTER (WHERE ms > 3) FROM clicks WHERE site IN ('us', 'eu') "
    "GROUP BY window(ts, '10 seconds'), page HAVING count(*) > 1 AND n < 5",
    "SELECT c.*, p.topic, transform(tags, x -> upper(x)) AS t, geo.city FROM clicks c LEFT JOIN pages p USING (page)",
    "SELECT u.name, sum(paid.x) / 2, CASE WHEN c.ms IS NULL THEN 'a' ELSE 'b' END AS k FROM clicks c JOIN users u "
    "ON c.user_id = u.user_id AND u.site = c.site GROUP BY 1, k, window(c.ts, INTERVAL 1 MINUTE) "
    "QUALIFY row_number() OVER (PARTITION BY window, u.name ORDER BY count(*) DESC NULLS LAST) <= 3",
    "ALTER STREAM s AT us SET ('a' = 'b'); SHOW SITES; DESC TABLE t; CANCEL QUERY q-1; EXPLAIN SELECT ms FROM clicks",
)
TOKENS = [[t.text if t.token_type.name != "STRING" else repr(t.text) for t in tokenize(Source(s))] for s in SCRIPTS]
WORDS = sorted({word for tokens in TOKENS for word in tokens} | {"DISTINCT", "UNION", "ORDER BY", "'", "`", "::", "->"})


def answer(text: str) -> PlannerError | None:
    try:
        for statement in parse_script(text):
            if isinstance(statement, SelectQuery | Explain):
                draft_query(statement.query if isinstance(statement, Explain) else statement, CATALOG)
    except PlannerError as error:
        return error
    return None


def submit(text: str) -> None:
    error = answer(text)
    if error is not None:
        assert error.hint
        assert error.position is not None
        lines = text.split("\n")
        assert 1 <= error.position.line <= len(lines)
        assert 1 <= error.position.column <= len(lines[error.position.line - 1]) + 1


edits = st.tuples(st.sampled_from(["drop", "swap", "put", "double"]), st.integers(0, 200), st.sampled_from(WORDS))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(TOKENS), st.lists(edits, min_size=1, max_size=4), st.sampled_from([" ", "\n"]))
def test_edited_scripts(tokens: list[str], edited: list[tuple[str, int, str]], blank: str) -> None:
    words = list(tokens)
    for kind, place, word in edited:
        at = place % len(words)
        if kind == "drop" and len(words) > 1:
            del words[at]
        elif kind == "swap":
            words[at], words[-1] = words[-1], words[at]
        elif kind == "double":
            words.insert(at, words[at])
        else:
            words[at] = word
    submit(blank.join(words))


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60) | st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join))
def test_any_text(text: str) -> None:
    submit(text)
    submit(f"SELECT {text} FROM clicks")
