from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from site_agent.tasks import marks as _marks
from site_agent.tasks.marks import Marks, marked


def test_marks_are_read_while_the_process_that_set_them_lives(tmp_path: Path) -> None:
    marks = Marks(tmp_path)
    for task in ("q.m1.0", "q.s1.0", "q.s2.0"):
        marks.set(task)
    marks.clear("q.s1.0")
    assert marked(tmp_path) == {"q.m1.0", "q.s2.0"}
    marks.set("q.s1.0")
    marks.clear("q.never")
    assert marked(tmp_path) == {"q.m1.0", "q.s1.0", "q.s2.0"}


def test_a_directory_without_marks_has_none(tmp_path: Path) -> None:
    (tmp_path / "q.s1.0").touch()
    assert marked(tmp_path) == set()


def test_marks_outlast_a_process_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, signal, sys\n"
        "from site_agent.tasks.marks import Marks\n"
        "marks = Marks(pathlib.Path(sys.argv[1]))\n"
        "marks.set('a'); marks.set('b'); marks.clear('a')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert done.returncode == -9
    assert marked(tmp_path) == {"b"}


def test_more_tasks_than_the_file_had_room_for(tmp_path: Path) -> None:
    count = _marks._GROWTH + 10
    marks = Marks(tmp_path)
    for number in range(count):
        marks.set(f"t{number}")
    for number in range(count - 1):
        marks.clear(f"t{number}")
    assert marked(tmp_path) == {f"t{count - 1}"}
    assert os.stat(tmp_path / "marks").st_size == 2 * _marks._GROWTH
