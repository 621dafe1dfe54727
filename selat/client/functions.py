"""A client's calls about Python functions for SQL."""

from __future__ import annotations

from pathlib import Path

from selat.client.calls import Calls
from selat.convert import relations as convert
from selat.source.functions import functions_of
from selat.v1 import catalog_pb2
from selat.values import Function


class FunctionCalls(Calls):
    """Python functions for SQL."""

    def register_function(self, file: str | Path, *, name: str | None = None, replace: bool = False) -> list[Function]:
        """Makes functions of a Python file known to SQL: that one, or all whose names do not begin with `_`.

        Names and types come from their annotations. The file is read here, and run at the sites. Raises InvalidArgument
        when an annotation means no type of SQL, StatementError when the master or a site refuses it.
        """
        made = []
        for value in functions_of(Path(file), name):
            request = catalog_pb2.CreateFunctionRequest(function=convert.function_message(value), or_replace=replace)
            made.append(convert.function(self._session.ask(self._session.catalog.CreateFunction, request).function))
        return made

    def functions(self) -> list[Function]:
        """All Python functions, by name."""
        answer = self._session.ask(self._session.catalog.ListFunctions, catalog_pb2.ListFunctionsRequest())
        return [convert.function(f) for f in answer.functions]

    def function(self, name: str) -> Function:
        """The Python function of that name. Raises NotFound."""
        request = catalog_pb2.GetFunctionRequest(name=name)
        return convert.function(self._session.ask(self._session.catalog.GetFunction, request).function)

    def drop_function(self, name: str, *, if_exists: bool = False) -> bool:
        """Removes a function. False: there was none and `if_exists` was set.

        Raises:
            NotFound: there is none.
            SelatError: a query that is not over calls it, or a view does (`FUNCTION_IN_USE`).
        """
        request = catalog_pb2.DropFunctionRequest(name=name, if_exists=if_exists)
        return self._session.ask(self._session.catalog.DropFunction, request).dropped
