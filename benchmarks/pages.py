"""The pages that benchmarks write: the page of each section, and the head with all verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.criteria import CRITERIA
from evidence.criteria import Finding, findings_from, verdicts
from evidence.page import HEAD, Section, origins, put, read_page, write_page
from evidence.provenance import code_of

OWN_PAGES = {"monitor": "wan-monitor.md", "tpch": "tpch.md", "tpch_times": "tpch.md", "nexmark": "nexmark.md"}
"""The pages of benchmarks that do not write to the common page."""
PERFORMANCE = """# Performance

`make bench` writes this page whole: a section for each benchmark, by the command that stands in it. Nothing is typed: a
test compares each section with the digest that its command left. Baseline and Selat ran in one run on one machine, in
turn where a section says so. Take the ratios: the machine has few cores, and others may have been at work on it."""
LINKS = """# The monitor of links

`sudo python -m benchmarks.monitor --record docs/results/wan-monitor.md` writes this page: it makes a WAN of three
network namespaces whose bandwidths are known, runs a master and three agents in it (the real ones, but without Spark)
at default settings, and compares."""
TPCH = """# Queries over tables

`make tpch RECORD=docs/results/tpch.md` and `make tpch-times RECORD=docs/results/tpch.md` write this page: the 22 texts
of TPC-H, unchanged, over tables at three sites."""
NEXMARK = """# NEXMark

`make nexmark RECORD=docs/results/nexmark.md` writes this page: the texts of
NEXMark that run, over streams of three sites, each compared with DuckDB over all rows."""
HEADS = {"wan-monitor.md": LINKS, "tpch.md": TPCH, "nexmark.md": NEXMARK}


def page_of(page: Path, benchmark: str) -> Path:
    """The page of a benchmark's section, given the common page."""
    return page.with_name(OWN_PAGES.get(benchmark, page.name))


def record_section(page: Path, section: Section) -> None:
    """Put a section in the place of its namesake on the page, and write the head again."""
    sections = put(read_page(page), section)
    write_page(page, put(sections, head(page.name, sections)))


def failed(benchmark: str, reason: str, written: Section | None) -> Section:
    """The section of a benchmark that failed: the text that it wrote before, if any, and the reason."""
    code = str(code_of())
    wrote = written or Section(benchmark, code, f"## {benchmark}\n\n- Commit: {code}")
    return Section(benchmark, wrote.commit, f"{wrote.text}\n\n**Failed**: {reason}.", {**wrote.data, "failed": reason})


def tidy(page: Path, benchmarks: Sequence[str]) -> None:
    """Put the sections into the order of these benchmarks, and remove all others."""
    found = {section.name: section for section in read_page(page)}
    sections = [found[name] for name in benchmarks if name in found]
    write_page(page, put(sections, head(page.name, sections)))


def head(page: str, sections: Sequence[Section]) -> Section:
    """The head of a page: its subject, the code that ran, failures, and every criterion with its verdict."""
    own = page if page in OWN_PAGES.values() else None
    criteria = [criterion for criterion in CRITERIA if OWN_PAGES.get(criterion.section) == own]
    findings: dict[str, Finding] = {}
    for section in sections:
        found = findings_from(section.data.get("findings", {}))
        # A benchmark that failed because its two sides disagree has figures, too.
        note = "the benchmark failed" if "failed" in section.data else ""
        findings |= {key: replace(finding, note=finding.note or note) for key, finding in found.items()}
    failures = [f"- **{s.name} failed**: {s.data['failed']}" for s in sections if "failed" in s.data]
    parts = [HEADS.get(page, PERFORMANCE), origins(sections), "\n".join(failures)]
    parts += [verdicts(criteria, findings)] if criteria else []
    return Section(HEAD, str(code_of()), "\n\n".join(part for part in parts if part))
