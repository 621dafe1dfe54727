"""From SQLAlchemy's expressions to Selat's SQL: names, literals and types as Spark reads them."""

from __future__ import annotations

from typing import Any, NoReturn

from sqlalchemy import types
from sqlalchemy.exc import CompileError
from sqlalchemy.sql.compiler import DDLCompiler, GenericTypeCompiler, IdentifierPreparer, SQLCompiler

from contract.parameters import NoLiteralError, literal

SCHEMA = "default"
READS_ONLY = (
    "the dialect of Selat reads only: write by text('INSERT INTO sink SELECT ...'), "
    "and declare relations by Selat's own client"
)


class SelatPreparer(IdentifierPreparer):
    """Quotes every name: Spark and Selat's planner have keywords of their own."""

    def __init__(self, dialect: Any, *_: Any, **__: Any) -> None:
        super().__init__(dialect, initial_quote="`", final_quote="`", escape_quote="`")

    @staticmethod
    def schema_for_object(table: Any, /) -> str:
        """Nothing for the only schema that there is: statements do not name it."""
        return "" if table.schema in (None, SCHEMA) else str(table.schema)

    def _requires_quotes(self, value: str) -> bool:
        return True


class SelatCompiler(SQLCompiler):
    """Compiles queries; raises CompileError for all else."""

    def render_literal_value(self, value: Any, type_: types.TypeEngine[Any]) -> str:
        """The value as a literal of Spark, in whose texts a backslash has a meaning."""
        convert = type_._cached_bind_processor(self.dialect)
        try:
            return literal(convert(value) if convert is not None else value)
        except NoLiteralError as error:
            raise CompileError(str(error)) from error

    def limit_clause(self, select: Any, **options: Any) -> str:
        """LIMIT, and OFFSET, which needs no LIMIT."""
        return self._rows(select._limit_clause, select._offset_clause, **options)

    def fetch_clause(self, select: Any, *_: Any, **options: Any) -> str:
        """The same: Spark has no FETCH. Raises CompileError for ties and percentages."""
        if any(select._fetch_clause_options.values()):
            raise CompileError("fetch() takes a number of rows, neither ties nor percentages")
        return self._rows(select._fetch_clause, select._offset_clause, **options)

    def visit_empty_set_expr(self, element_types: Any, **_: Any) -> str:
        """A query without rows, of as many columns."""
        return f"SELECT {', '.join('NULL' for _ in element_types)} WHERE FALSE"

    def visit_regexp_match_op_binary(self, binary: Any, operator: Any, **options: Any) -> str:
        """Spark's operator for regular expressions."""
        return f"{self.process(binary.left, **options)} RLIKE {self.process(binary.right, **options)}"

    def visit_not_regexp_match_op_binary(self, binary: Any, operator: Any, **options: Any) -> str:
        """The same, denied."""
        return f"NOT ({self.visit_regexp_match_op_binary(binary, operator, **options)})"

    def _rows(self, limit: Any, offset: Any, **options: Any) -> str:
        text = "" if limit is None else f"\n LIMIT {self.process(limit, **options)}"
        return text if offset is None else f"{text}\n OFFSET {self.process(offset, **options)}"

    def for_update_clause(self, select: Any, **_: Any) -> NoReturn:
        """Raises CompileError: there are no locks."""
        raise CompileError("Selat has no locks: leave with_for_update() out")

    def visit_insert(self, *_: Any, **__: Any) -> NoReturn:
        """Raises CompileError."""
        raise CompileError(READS_ONLY)

    def visit_update(self, *_: Any, **__: Any) -> NoReturn:
        """Raises CompileError."""
        raise CompileError(READS_ONLY)

    def visit_delete(self, *_: Any, **__: Any) -> NoReturn:
        """Raises CompileError."""
        raise CompileError(READS_ONLY)


class SelatDDLCompiler(DDLCompiler):
    """Refuses what declares or drops anything."""

    def process(self, obj: Any, **_: Any) -> NoReturn:
        """Raises CompileError."""
        raise CompileError(READS_ONLY)


class SelatTypeCompiler(GenericTypeCompiler):
    """Names types as in CAST."""

    def visit_FLOAT(self, type_: types.Float[Any], **_: Any) -> str:  # noqa: N802 - SQLAlchemy's name, as below
        """SQLAlchemy's own has the precision of Python's."""
        return "DOUBLE"

    def visit_REAL(self, type_: types.REAL[Any], **_: Any) -> str:  # noqa: N802
        """Spark's word for it."""
        return "FLOAT"

    def visit_INTEGER(self, type_: types.Integer, **_: Any) -> str:  # noqa: N802
        """Spark's word for it."""
        return "INT"

    def visit_DECIMAL(self, type_: types.Numeric[Any], **_: Any) -> str:  # noqa: N802
        """Spark would take no precision for DECIMAL(10,0)."""
        if type_.precision is None:
            return "DECIMAL(38,18)"
        return f"DECIMAL({type_.precision},{type_.scale or 0})"

    visit_NUMERIC = visit_DECIMAL  # noqa: N815

    def visit_DATETIME(self, type_: types.DateTime, **_: Any) -> str:  # noqa: N802
        """An instant."""
        return "TIMESTAMP"

    def visit_TIMESTAMP(self, type_: types.TIMESTAMP, **_: Any) -> str:  # noqa: N802
        """An instant."""
        return "TIMESTAMP"

    def visit_BINARY(self, type_: Any, **_: Any) -> str:  # noqa: N802
        """Bytes have no length in Spark."""
        return "BINARY"

    visit_BLOB = visit_VARBINARY = visit_BINARY  # noqa: N815

    def visit_TEXT(self, type_: Any, **_: Any) -> str:  # noqa: N802
        """Texts have no length in Spark."""
        return "STRING"

    visit_CHAR = visit_NCHAR = visit_VARCHAR = visit_NVARCHAR = visit_CLOB = visit_NCLOB = visit_TEXT  # noqa: N815
