"""Fails when a module, a class or a function is longer than we allow; left out are stubs and classes of tests.

python scripts/check_sizes.py [ROOT]
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

MODULE_LINES = 600
FUNCTION_LINES = 60
CLASS_LINES = 300

PACKAGES = (
    *("selat", "planner", "master", "site_agent", "contract", "machine", "wire"),
    *("simulator", "evidence", "benchmarks", "tests", "scripts"),
)
GENERATED = (Path("selat/v1"), Path("master/flight/protocol"))


def main(root: Path) -> int:
    """Exit code: 1 when something is too long, each said in one line."""
    complaints = [text for path in modules(root) for text in too_long(path, path.relative_to(root))]
    for text in complaints:
        print(text)
    return 1 if complaints else 0


def modules(root: Path) -> Iterator[Path]:
    """All modules of ours."""
    for package in PACKAGES:
        for path in sorted(root.joinpath(package).rglob("*.py")):
            if not any(map(path.relative_to(root).is_relative_to, GENERATED)):
                yield path


def too_long(path: Path, name: Path) -> Iterator[str]:
    """What is too long in a module, as `path:line: ...`."""
    text = path.read_text()
    lines = len(text.splitlines())
    if lines > MODULE_LINES:
        yield f"{name}:1: {lines} lines; split it ({MODULE_LINES} at most)"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = function_lines(node)
            if length > FUNCTION_LINES:
                yield f"{name}:{node.lineno}: {node.name} has {length} lines; split it ({FUNCTION_LINES} at most)"
        elif isinstance(node, ast.ClassDef) and name.parts[0] != "tests":
            length = class_lines(node)
            if length > CLASS_LINES:
                yield f"{name}:{node.lineno}: {node.name} has {length} lines; split it ({CLASS_LINES} at most)"


def function_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, the docstring not counted."""
    return (node.end_lineno or node.lineno) - node.lineno + 1 - docstring_lines(node)


def class_lines(node: ast.ClassDef) -> int:
    """Lines from `class` to the end, its docstring and those of its methods not counted."""
    described = docstring_lines(node)
    described += sum(docstring_lines(n) for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return (node.end_lineno or node.lineno) - node.lineno + 1 - described


def docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    """0: there is none."""
    docstring = node.body[0] if ast.get_docstring(node) is not None else None
    return (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1 if docstring else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1]))
