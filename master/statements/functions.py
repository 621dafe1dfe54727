"""CREATE, DROP, DESCRIBE and SHOW of Python functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from master.base.errors import InvalidRequestError
from master.relations.functions import FunctionManager
from master.views.outcomes import Done, Outcome, Rows
from planner.relations.catalog import Function
from planner.sql.statements import CreateFunction, DescribeFunction, DropFunction


async def run_function_statement(
    statement: CreateFunction | DropFunction | DescribeFunction, functions: FunctionManager, files: Mapping[str, str]
) -> Outcome:
    """The answer of the statement. `files` holds the texts that came with the script.

    Raises:
        InvalidRequestError: the module's text did not come with it.
        InvalidFunctionError, FunctionExistsError, UnknownFunctionError, NoSiteAvailableError
    """
    if isinstance(statement, DropFunction):
        dropped = functions.drop(statement.name, if_exists=statement.if_exists)
        return Done(f"function {statement.name} {'dropped' if dropped else 'does not exist'}")
    if isinstance(statement, DescribeFunction):
        return _description(functions.get(statement.name))
    function, created = await functions.create(
        _declared(statement, files), or_replace=statement.or_replace, if_not_exists=statement.if_not_exists
    )
    return Done(f"function {function.name} {f'created from {function.file}' if created else 'exists already'}")


def function_rows(functions: Iterable[Function]) -> Rows:
    return Rows(
        ("name", "parameters", "returns", "kind", "file", "version"),
        tuple((f.name, _parameters(f), f.returns, _kind(f), f.file, f.versioned_name) for f in functions),
    )


def _description(function: Function) -> Rows:
    rows = [("parameter", p.name, p.type) for p in function.parameters]
    rows.append(("returns", "", function.returns))
    rows.append(("language", "", f"PYTHON, {_kind(function)}"))
    rows.append(("function", function.entry, function.file))
    rows.append(("version", "", function.versioned_name))
    rows += [("source", str(number), text) for number, text in enumerate(function.source.splitlines(), start=1)]
    return Rows(("item", "name", "value"), tuple(rows))


def _declared(statement: CreateFunction, files: Mapping[str, str]) -> Function:
    source = files.get(statement.file)
    if source is None:
        raise InvalidRequestError(
            f"the text of {statement.file} did not come with the statement",
            hint="the master reads no files: selat sql and the Python client send it, others in ExecuteRequest.files",
            ids={"file": statement.file},
        )
    return Function(
        name=statement.name,
        parameters=statement.parameters,
        returns=statement.returns,
        entry=statement.entry,
        file=statement.file.rpartition("/")[2],
        source=source,
    )


def _parameters(function: Function) -> str:
    return ", ".join(f"{p.name} {p.type}" for p in function.parameters)


def _kind(function: Function) -> str:
    return "vectorised" if function.vectorised else "scalar"
