"""A page of results: Markdown in sections, each between two markers that name the code and a digest of the text.

    <!-- begin exchange: commit 894709e3a1b2, clean; sha256 0123456789abcdef -->
    ...
    <!-- end exchange -->

Only tools write sections. An edit by hand makes the digest wrong, and a test fails.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from evidence.provenance import UNKNOWN

HEAD = "head"
"""The name of the first section."""
_SECTION = re.compile(
    r"<!-- begin (?P<name>[\w-]+): commit (?P<commit>.+?); sha256 (?P<digest>[0-9a-f]{16}) -->\n"
    r"(?P<body>.*?)\n<!-- end (?P=name) -->",
    re.DOTALL,
)
_DATA = re.compile(r"\n\n<!-- data (?P<data>.*) -->\Z")


class PageError(Exception):
    """A page that differs from the one that a tool wrote."""

    def __init__(self, page: Path, reason: str) -> None:
        super().__init__(f"{page}: {reason}")
        self.page = page


@dataclass(frozen=True, slots=True)
class Section:
    """Markdown that a tool wrote."""

    name: str
    commit: str
    """The code that ran, as `str(Code)`."""
    text: str
    data: Mapping[str, Any] = field(default_factory=dict)
    """JSON that the head is made from, kept in a comment below the text."""

    @property
    def body(self) -> str:
        comment = f"\n\n<!-- data {json.dumps(dict(self.data), sort_keys=True)} -->" if self.data else ""
        return self.text.strip() + comment

    @property
    def digest(self) -> str:
        return sha256("\n".join([self.name, self.commit, self.body]).encode()).hexdigest()[:16]

    def __str__(self) -> str:
        begin = f"<!-- begin {self.name}: commit {self.commit}; sha256 {self.digest} -->"
        return f"{begin}\n{self.body}\n<!-- end {self.name} -->"


def read_page(page: Path) -> list[Section]:
    """The sections of a page in their order; none when there is no such file.

    Raises:
        PageError: text outside the sections, two sections of one name, or a section that was edited.
    """
    text = page.read_text() if page.exists() else ""
    outside = _SECTION.sub("", text).strip()
    if outside:
        raise PageError(page, f"text outside the sections: {outside.splitlines()[0]!r}")
    sections = [_checked(page, found) for found in _SECTION.finditer(text)]
    if len({section.name for section in sections}) < len(sections):
        raise PageError(page, "two sections of one name")
    return sections


def _checked(page: Path, found: re.Match[str]) -> Section:
    text = found["body"]
    comment = _DATA.search(text)
    data = json.loads(comment["data"]) if comment else {}
    section = Section(found["name"], found["commit"], text[: comment.start()] if comment else text, data)
    if section.digest != found["digest"] or section.body != text:
        raise PageError(page, f"section {section.name} is not as a tool wrote it: write it by its command again")
    return section


def write_page(page: Path, sections: Sequence[Section]) -> None:
    """Replace the whole page in one step: a reader sees the old page or the new one."""
    page.parent.mkdir(parents=True, exist_ok=True)
    new = page.with_name(page.name + ".new")
    new.write_text("\n\n".join(map(str, sections)) + "\n")
    new.replace(page)


def put(sections: Sequence[Section], section: Section) -> list[Section]:
    """The sections with this one in place of its namesake. A new section becomes the last, a new head the first."""
    if any(old.name == section.name for old in sections):
        return [section if old.name == section.name else old for old in sections]
    return [section, *sections] if section.name == HEAD else [*sections, section]


def origins(sections: Sequence[Section]) -> str:
    """A sentence when all sections but the head are of one known commit, else a table with the commit of each."""
    ran = [section for section in sections if section.name != HEAD]
    commits = sorted({section.commit for section in ran})
    if len(commits) == 1 and not commits[0].startswith(UNKNOWN):
        return f"All sections are of one commit: {commits[0]}."
    rows = [f"| {section.name} | {section.commit} |" for section in ran]
    return "\n".join(["Sections are **not of one commit**:", "", "| section | commit, tree |", "| --- | --- |", *rows])
