"""Python scalar functions of users: what a definition must say, and what its module must have. Nothing is run here.

A function's version is the digest of all that decides its results. Queries name the version, so that replacing a
function changes no query that runs.
"""

from __future__ import annotations

import ast
import hashlib
import re
from dataclasses import replace

from planner.functions.table import NAMES, REASONS
from planner.relations.catalog import Function
from planner.sql.cursor import Cursor
from planner.sql.dialect import OWN_SYNTAX, name_node, tokenize
from planner.sql.source import Source
from planner.sql.types import parse_type
from planner.values.errors import InvalidFunctionError, PlannerError

MODULE_LIMIT_BYTES = 256 * 1024
MAX_PARAMETERS = 64
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_ARROW = ("pa.Array", "pyarrow.Array")


def checked_function(function: Function) -> Function:
    """The function with normalised types, how it is called, and its digest.

    Raises:
        InvalidFunctionError: says what is wrong, in the module with its line.
    """
    _check_name(function)
    if not function.parameters or len(function.parameters) > MAX_PARAMETERS:
        raise _invalid(function, f"it needs 1 to {MAX_PARAMETERS} parameters", "name(x STRING, y INT)")
    names = [p.name.lower() for p in function.parameters]
    double = next((name for name in names if names.count(name) > 1), None)
    if double:
        raise _invalid(function, f"two parameters are called {double}", "Names are compared without case.")
    typed = replace(
        function,
        parameters=tuple(replace(p, type=_type(function, p.type)) for p in function.parameters),
        returns=_type(function, function.returns),
    )
    vectorised = _check_module(typed)
    return replace(typed, vectorised=vectorised, digest=_digest(typed))


def _check_name(function: Function) -> None:
    name = function.name
    taken = {*NAMES, *REASONS, *(word.lower() for word in OWN_SYNTAX)}
    if not _NAME.fullmatch(name) or name_node(name).args.get("quoted"):
        raise _invalid(
            function, "it cannot have this name", "A letter, then letters, digits or _ (64 at most), and no keyword."
        )
    if name.lower() in taken:
        raise _invalid(function, "it has the name of a function of Spark", "Choose another name.")


def _type(function: Function, text: str) -> str:
    source = Source(text)
    try:
        cursor = Cursor(tokenize(source), source)
        if not cursor.tokens:
            raise _invalid(function, "a type is missing", "As in name(x STRING, y INT) RETURNS DOUBLE.")
        kind = parse_type(cursor)
        cursor.finish()
    except InvalidFunctionError:
        raise
    except PlannerError as error:
        raise _invalid(function, error.message, error.hint) from error
    return kind


def _check_module(function: Function) -> bool:
    """Whether the module's function is vectorised."""
    size_bytes = len(function.source.encode("utf-8", "replace"))
    if size_bytes > MODULE_LIMIT_BYTES:
        raise _invalid(function, f"its module has {size_bytes} bytes", f"{MODULE_LIMIT_BYTES} at most are possible.")
    try:
        module = ast.parse(function.source, function.file)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = error.lineno if isinstance(error, SyntaxError) else None
        place = f"{function.file}:{line}" if line else function.file
        said = error.msg if isinstance(error, SyntaxError) else str(error) or type(error).__name__
        raise _invalid(function, f"{place} is not Python: {said}", "Correct the file.") from error
    found = [n for n in module.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    definition = next((n for n in reversed(found) if n.name == function.entry), None)
    if definition is None:
        known = ", ".join(n.name for n in found[:10]) or "none"
        raise _invalid(
            function, f"{function.file} defines no function {function.entry}", f"At its top level it has: {known}."
        )
    try:
        return _check_definition(function, definition)
    except RecursionError as error:
        place = f"{function.file}:{definition.lineno}"
        raise _invalid(function, f"{place} is nested too deeply", "Use simpler annotations.") from error


def _check_definition(function: Function, definition: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    place = f"{function.file}:{definition.lineno}"
    yields = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(definition))
    if isinstance(definition, ast.AsyncFunctionDef) or yields:
        raise _invalid(function, f"{place} is a coroutine or generator", "A plain function that returns a value.")
    arguments = definition.args
    positional = [*arguments.posonlyargs, *arguments.args]
    least, most = len(positional) - len(arguments.defaults), len(positional)
    wanted = len(function.parameters)
    required = [a.arg for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if not default]
    if required or wanted < least or (wanted > most and arguments.vararg is None):
        raise _invalid(
            function,
            f"{place} takes {f'{least} to {most}' if least < most else most} arguments by place, not {wanted}",
            "Declare as many parameters as the Python function has.",
        )
    arrow = [a.annotation is not None and ast.unparse(_bare(a.annotation)) in _ARROW for a in positional[:wanted]]
    if any(arrow) and not all(arrow):
        raise _invalid(function, f"{place} takes arrays and values", "All parameters pyarrow.Array, or none.")
    return bool(arrow) and all(arrow)


def _bare(annotation: ast.expr) -> ast.expr:
    """`T` of `Annotated[T, ...]`."""
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) in ("Annotated", "typing.Annotated"):
        return annotation.slice.elts[0] if isinstance(annotation.slice, ast.Tuple) else annotation.slice
    return annotation


def _digest(function: Function) -> str:
    parts = [function.name.lower(), function.entry, function.file, function.returns, function.source]
    parts += [f"{p.name} {p.type}" for p in function.parameters]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()


def _invalid(function: Function, message: str, hint: str) -> InvalidFunctionError:
    return InvalidFunctionError(
        f"function {function.name[:64]}: {message}", hint=hint, ids={"function": function.name[:64]}
    )
