"""What must hold of the repository as a whole."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("selat", "planner", "master", "site_agent", "contract", "machine", "wire")
GENERATED = ROOT / "selat" / "v1"
LOCKS = ("requirements.lock", "requirements-java.lock", "requirements-bench.lock")
IMPURE = frozenset(
    {
        "asyncio",
        "datetime.now",
        "logging",
        "open",
        "os",
        "pathlib",
        "random",
        "socket",
        "subprocess",
        "threading",
        "time",
    }
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def modules(package: str) -> Iterator[Path]:
    return (p for p in sorted((ROOT / package).rglob("*.py")) if GENERATED not in p.parents)


def documents() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_says_what_it_is(package: str) -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in modules(package)
        if path.name == "__init__.py" and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_is_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").exists()


def names_used(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def test_the_planner_has_no_clock_no_chance_and_no_files() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules("planner")
        for name in names_used(ast.parse(path.read_text()))
        if name in IMPURE
    }
    assert found == set()


def test_sql_reaches_spark_through_one_module() -> None:
    takes_sql = {"sql", "expr", "selectExpr", "parsePlan", "parseQuery", "parseExpression", "ofRows"}
    found = {
        str(path.relative_to(ROOT))
        for path in modules("site_agent")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in takes_sql or (node.func.attr in ("where", "filter") and _is_text(node.args))
        if ast.unparse(node.func) != "_KINDS[spec.kind].sql"
    }
    assert found == {"site_agent/engine/sql/statements.py"}


def _is_text(arguments: list[ast.expr]) -> bool:
    return any(
        isinstance(a, ast.JoinedStr) or (isinstance(a, ast.Constant) and isinstance(a.value, str)) for a in arguments
    )


def test_unfinished_work_is_not_left_in_the_code() -> None:
    marks = re.compile("|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "NotImplemented" + "Error"]))
    files = [p for package in (*PACKAGES, "tests", "benchmarks", "scripts") for p in modules(package)]
    assert [str(p.relative_to(ROOT)) for p in files if marks.search(p.read_text())] == []


def test_links_in_documents_lead_somewhere() -> None:
    broken = [
        f"{document.relative_to(ROOT)}: {target}"
        for document in documents()
        for target in LINK.findall(document.read_text())
        if "://" not in target and not (document.parent / target.partition("#")[0]).exists()
    ]
    assert broken == []


def test_every_document_can_be_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    todo = [ROOT / "README.md"]
    while todo:
        document = todo.pop()
        if document in seen:
            continue
        seen.add(document)
        for target in LINK.findall(document.read_text()):
            path = (document.parent / target.partition("#")[0]).resolve()
            if path.is_dir():
                path /= "README.md"
            if path.suffix == ".md" and path.exists():
                todo.append(path)
    assert {str(d.relative_to(ROOT)) for d in documents()} - {str(s.relative_to(ROOT)) for s in seen} <= {
        "docs/README.md"
    }


def test_make_help_lists_every_target() -> None:
    text = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony is not None
    targets = set(re.findall(r"^([a-z0-9_-]+):", text, re.MULTILINE))
    assert targets == set(phony.group(1).split())
    shown = subprocess.run(
        ["make", "-C", str(ROOT), "--no-print-directory"], capture_output=True, text=True, check=True
    )
    listed = [line.split()[1] for line in shown.stdout.splitlines()]
    assert set(listed) == targets
    assert all(len(line.split()) > 3 for line in shown.stdout.splitlines())


def test_the_lock_files_pin_with_hashes_and_name_no_index() -> None:
    for name in LOCKS:
        text = (ROOT / name).read_text()
        assert "://" not in text
        assert "--index" not in text
        pins = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
        assert pins
        assert [pin for pin in pins if "==" not in pin] == []
        assert len(pins) <= text.count("--hash=sha256:")


def test_the_lock_file_has_every_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(d for ds in project["optional-dependencies"].values() for d in ds)]
    names = {re.split(r"[\[<>=;!~ ]", d)[0].lower().replace("_", "-") for d in wanted} - {"selat"}
    locks = "\n".join((ROOT / name).read_text() for name in LOCKS)
    assert names - set(re.findall(r"^([a-z0-9-]+)==", locks, re.MULTILINE)) == set()


def test_the_licence_is_what_the_project_says() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text.splitlines()[0]
    assert "END OF TERMS AND CONDITIONS" in text
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"] == "Apache-2.0"


def test_what_is_too_long_is_found(tmp_path: Path) -> None:
    package = tmp_path / "planner"
    package.mkdir()
    docstring = '    """' + "\n".join(["a long story"] * 60) + '"""\n'
    (package / "short.py").write_text("def f():\n" + docstring + "    x = 1\n" * 59)
    (package / "long.py").write_text("def f():\n" + "    x = 1\n" * 60 + "\n" * 600)
    (package / "wide.py").write_text("class C:\n" + docstring + "    x = 1\n" * 300)
    command = [sys.executable, str(ROOT / "scripts" / "check_sizes.py"), str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stdout.splitlines() == [
        "planner/long.py:1: 661 lines; split it (600 at most)",
        "planner/long.py:1: f has 61 lines; split it (60 at most)",
        "planner/wide.py:1: C has 301 lines; split it (300 at most)",
    ]
