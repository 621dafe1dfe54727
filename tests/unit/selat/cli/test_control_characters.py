"""Text from data, other users or a master does not control the reader's terminal."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

import selat
from selat.cli.base import errors, jsontext
from selat.cli.commands.query import query_view
from selat.cli.commands.statements import print_explanation
from selat.cli.output.listing import as_text
from selat.cli.output.progress import LiveLine
from selat.cli.output.rows import CsvWriter, JsonWriter, RowWriter, TableWriter
from selat.errors import Detail
from tests.unit.selat.cli.output.test_progress import AT, info

EVIL = "\x1b[2J\x9b2J\x07\x7f"
SPELLED = r"\x1b[2J\x9b2J\x07\x7f"
ROWS = pa.RecordBatch.from_pydict({EVIL: [EVIL, f"a\n{EVIL}"]})


def is_harmless(text: str) -> bool:
    return text.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "make",
    [
        lambda out: TableWriter(out, ROWS.schema),
        lambda out: CsvWriter(out, ROWS.schema, on_terminal=True),
        JsonWriter,
    ],
)
def test_rows(make: Callable[[io.StringIO], RowWriter]) -> None:
    out = io.StringIO()
    writer = make(out)
    writer.write(ROWS)
    writer.close()
    assert is_harmless(out.getvalue())


def test_csv_for_programs_has_what_was_there() -> None:
    out = io.StringIO()
    CsvWriter(out, ROWS.schema).write(ROWS)
    assert out.getvalue() == f'{EVIL}\n{EVIL}\n"a\n{EVIL}"\n'


def test_json_means_the_same() -> None:
    text = jsontext.dumps({EVIL: [EVIL, "\x80ä🚀"]})
    assert is_harmless(text)
    assert json.loads(text) == {EVIL: [EVIL, "\x80ä🚀"]}


def test_an_error_and_the_line_it_quotes() -> None:
    sql = f"SELECT '{EVIL}', `{EVIL}`"
    detail = Detail(line=1, column=sql.index("`") + 1, found=f"`{EVIL}`", hint=f"hint {EVIL}")
    text = errors.render(selat.StatementError(f"no {EVIL}", code="UNKNOWN_COLUMN", detail=detail), sql)
    assert is_harmless(text)
    _, line, caret, _ = text.splitlines()
    assert line[caret.index("^") : caret.rindex("^") + 1] == f"`{SPELLED}`"


def test_a_query_and_its_live_line(monkeypatch: pytest.MonkeyPatch) -> None:
    evil = replace(info(None), name=EVIL, sql=f"SELECT '{EVIL}'\nFROM s", reason=EVIL, gateway=EVIL)
    assert is_harmless(as_text(query_view(evil, now=AT)))
    out = io.StringIO()
    LiveLine(out, enabled=True).show(f"{EVIL}\n")
    assert is_harmless(out.getvalue().removeprefix("\r\x1b[2K"))


def test_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    from selat.cli.base.app import App
    from selat.cli.base.options import Format, Settings

    print_explanation(App(Settings(output=Format.TABLE)), selat.Explanation(text=f"a\n{EVIL}", json="{}"))
    assert capsys.readouterr().out == f"a\n{SPELLED}\n"
