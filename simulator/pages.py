"""The page of an evaluation, which is a single section."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from evidence.page import Section, write_page
from evidence.provenance import code_at_start, facts


def write_evaluation(page: Path, parts: Sequence[str]) -> Path:
    """Write the page: the first part, the facts of this run, then the other parts. Returns the page."""
    code = code_at_start()
    run = facts(code, " ".join(["python -m simulator", *sys.argv[1:]]), {"NetworkX": "networkx", "SQLGlot": "sqlglot"})
    write_page(page, [Section(page.stem, str(code), "\n\n".join([parts[0], run, *parts[1:]]))])
    return page
