from __future__ import annotations

from pathlib import Path

from tests.soak.report import Round, Segment, read, record_of, section, summary, write

ROUNDS = (
    Round(7, {"sharing=sana": 2, "pause": 1, "rows late": 0}, ("kill master", "freeze agent-us 3 s"), 41.4, 120, ""),
    Round(8, {"sharing=sana": 1}, ("kill agent-eu",), 30.0, 0, "q-0001: 3 rows | 4\nof them"),
)


def segment(*rounds: Round, clean: bool = True) -> Segment:
    return Segment("2026-03-01 12:30", 90.0, "abc123", clean, "Linux, 2 cores", "python -m tests.soak", rounds)


def test_the_summary_counts_faults_and_differences() -> None:
    assert summary(ROUNDS) == ("2 rounds, 120 result rows, 3 faults (1 freeze, 2 kill): 1 rounds with a difference")


def test_the_section_has_a_line_per_round_and_sums_up_the_segments() -> None:
    lines = section([segment(ROUNDS[0]), segment(ROUNDS[1], clean=False)]).splitlines()

    assert lines[0].startswith("3.0 minutes in 2 runs: 2 rounds, ")
    assert lines[2].endswith("commit abc123 (clean): `python -m tests.soak`")
    assert lines[4].endswith("commit abc123 (with changes that are not committed): `python -m tests.soak`")
    assert lines[-2:] == [
        "| 7 | sharing=sana 2, pause | kill master; freeze agent-us 3 s | 41 | 120 | equal |",
        "| 8 | sharing=sana | kill agent-eu | 30 | 0 | q-0001: 3 rows / 4 of them |",
    ]


def test_the_section_counts_what_was_covered_by_rounds_and_in_all() -> None:
    lines = section([segment(*ROUNDS)]).splitlines()

    assert [line for line in lines if line.startswith(("| pause", "| sharing", "| rows late"))] == [
        "| pause | 1 | 1 |",
        "| sharing=sana | 2 | 3 |",
    ]


def test_segments_are_read_back_and_what_stands_around_the_section_stays(tmp_path: Path) -> None:
    page = tmp_path / "soak.md"
    page.write_text("# Soak\n\nWords.\n")
    assert read(record_of(page)) == ()
    write(page, [segment(ROUNDS[0])])
    earlier = read(record_of(page))
    assert earlier == (segment(ROUNDS[0]),)
    write(page, [*earlier, segment(ROUNDS[1])])
    assert len(read(record_of(page))) == 2
    text = page.read_text()
    assert text.startswith("# Soak\n\nWords.\n")
    assert text.count("| 7 | ") == text.count("| 8 | ") == 1
