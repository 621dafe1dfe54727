"""Python modules with functions for SQL: read at the client, never imported or run here.

Names and types come from the annotations of a module's functions:

    bool BOOLEAN, int BIGINT, float DOUBLE, str STRING, bytes BINARY, date DATE, datetime TIMESTAMP,
    Decimal DECIMAL(38,18), list[T] ARRAY<T>, dict[K, V] MAP<K,V>, T | None and Optional[T] as T,
    Annotated[T, "TYPE"] exactly TYPE; for pyarrow.Array it is the only way.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

from selat.errors import Detail, InvalidArgument
from selat.values import Column, Function

LIMIT_BYTES = 256 * 1024

_CREATE = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*CREATE\s+(?:OR\s+REPLACE\s+)?FUNCTION\b", re.IGNORECASE | re.DOTALL)
_FROM = re.compile(r"""\bFROM\s+(?:'((?:[^'\\]|\\.|'')*)'|"((?:[^"\\]|\\.|"")*)")""", re.IGNORECASE | re.DOTALL)
_SIMPLE = {
    "bool": "BOOLEAN",
    "int": "BIGINT",
    "float": "DOUBLE",
    "str": "STRING",
    "bytes": "BINARY",
    "date": "DATE",
    "datetime": "TIMESTAMP",
    "Decimal": "DECIMAL(38,18)",
}
_MODULES = ("datetime", "decimal", "typing", "t")
_HINT = "Possible are bool, int, float, str, bytes, date, datetime, Decimal, list, dict, and Annotated[T, 'TYPE']."


def module_texts(statements: Iterable[str]) -> dict[str, str]:
    """The texts of the files that CREATE FUNCTION statements name, by that name; relative to where we are.

    Raises InvalidArgument when one cannot be read.
    """
    found = (_file_of(statement) for statement in statements if _CREATE.match(statement))
    return {name: read_module(Path(name)) for name in found if name}


def _file_of(statement: str) -> str:
    matches = list(_FROM.finditer(statement))
    if not matches:
        return ""
    single, double = matches[-1].groups()
    text = single.replace("''", "'") if single is not None else double.replace('""', '"')
    return re.sub(r"\\(.)", r"\1", text)


def read_module(path: Path) -> str:
    """A module's text. Raises InvalidArgument when it cannot be read, is no UTF-8 or too big."""
    try:
        data = path.read_bytes()
        if len(data) > LIMIT_BYTES:
            raise _refuse(f"{path} has {len(data)} bytes", f"{LIMIT_BYTES} at most are possible")
        return data.decode("utf-8")
    except OSError as error:
        raise _refuse(f"cannot read {path}: {error.strerror or error}", "name a Python file") from error
    except UnicodeDecodeError as error:
        raise _refuse(f"{path} is no UTF-8: {error.reason}", "save it as UTF-8") from error


def functions_of(path: Path, name: str | None = None) -> list[Function]:
    """The functions of a module that SQL can call, or that one of them.

    Without a name, all of its top level whose names do not begin with `_`. Raises InvalidArgument when there is none,
    or an annotation is missing or means no type of SQL.
    """
    source = read_module(path)
    try:
        body = ast.parse(source, path.name).body
    except (SyntaxError, ValueError, RecursionError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) else ""
        said = error.msg if isinstance(error, SyntaxError) else error
        raise _refuse(f"{path.name}{line} is not Python: {said}", "correct the file") from error
    public = [n for n in body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")]
    chosen = [n for n in public if name in (None, n.name)]
    if not chosen:
        known = ", ".join(n.name for n in public) or "none"
        raise _refuse(f"{path.name} has no function {name or 'for SQL'}", f"at its top level it has: {known}")
    try:
        return [_function(node, path.name, source) for node in chosen]
    except RecursionError as error:
        raise _refuse(f"an annotation in {path.name} is nested too deeply", _HINT) from error


def _function(node: ast.FunctionDef, file: str, source: str) -> Function:
    place = f"{file}:{node.lineno}: function {node.name}"
    arguments = [*node.args.posonlyargs, *node.args.args]
    if node.args.vararg or node.args.kwonlyargs or node.args.kwarg:
        raise _refuse(f"{place} takes other arguments than by place", "def f(x: str, y: int) -> float")
    return Function(
        name=node.name,
        parameters=tuple(Column(a.arg, _type(a.annotation, f"{place}, parameter {a.arg}")) for a in arguments),
        returns=_type(node.returns, f"{place}, result"),
        entry=node.name,
        file=file,
        source=source,
    )


def _type(annotation: ast.expr | None, place: str) -> str:
    """The SQL type that an annotation means."""
    if annotation is None:
        raise _refuse(f"{place} has no annotation", _HINT)
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            return _type(ast.parse(annotation.value, mode="eval").body, place)
        except SyntaxError:
            raise _refuse(f"{place}: {annotation.value!r} means no type of SQL", _HINT) from None
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return _type(_without_none(annotation, place), place)
    if isinstance(annotation, ast.Subscript):
        return _generic(annotation, place)
    found = _SIMPLE.get(_word(annotation))
    if found is None:
        raise _refuse(f"{place}: {ast.unparse(annotation)} means no type of SQL", _HINT)
    return found


def _without_none(union: ast.BinOp, place: str) -> ast.expr:
    sides = [side for side in (union.left, union.right) if ast.unparse(side) != "None"]
    if len(sides) != 1:
        raise _refuse(f"{place}: {ast.unparse(union)} means no type of SQL", "A union is possible with None only.")
    return sides[0]


def _generic(annotation: ast.Subscript, place: str) -> str:
    word = _word(annotation.value)
    inner = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
    if word == "Annotated" and len(inner) > 1 and isinstance(inner[1], ast.Constant):
        return str(inner[1].value)
    if word == "Optional" and len(inner) == 1:
        return _type(inner[0], place)
    if word in ("list", "List") and len(inner) == 1:
        return f"ARRAY<{_type(inner[0], place)}>"
    if word in ("dict", "Dict") and len(inner) == 2:
        return f"MAP<{_type(inner[0], place)},{_type(inner[1], place)}>"
    raise _refuse(f"{place}: {ast.unparse(annotation)} means no type of SQL", _HINT)


def _word(node: ast.expr) -> str:
    """The name without its module, when it is one that such names come from."""
    text = ast.unparse(node)
    module, _, name = text.rpartition(".")
    return name if module in ("", *_MODULES) else text


def _refuse(message: str, hint: str) -> InvalidArgument:
    return InvalidArgument(message, detail=Detail(hint=hint))
