"""The syntax that a query may have: classes of nodes of the syntax tree, and the arguments that each may have.

Everything else is refused. A test walks all classes of the pinned sqlglot, so that a new class of another version stays
out until a person has put it into this table or on the test's list of refused classes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from planner.functions.traits import words
from planner.sql.dialect import exp


def _nodes(text: str, arguments: str) -> dict[type[exp.Expr], frozenset[str]]:
    return {getattr(exp, name): words(arguments) for name in text.split()}


NODES: Mapping[type[exp.Expr], frozenset[str]] = {
    # queries
    **_nodes(
        "Select",
        "with_ distinct expressions from_ joins laterals where group having qualify within order limit offset",
    ),
    **_nodes("Union", "with_ this expression order limit offset"),
    **_nodes("With", "expressions"),
    **_nodes("CTE Subquery", "this alias"),
    **_nodes("Table", "this alias version"),
    **_nodes("TableAlias", "this columns"),
    **_nodes("Join", "this side kind on using method match_condition"),
    **_nodes("Version", "this expression kind"),
    **_nodes("Lateral", "this view outer alias"),
    **_nodes("From Where Having Qualify", "this"),
    **_nodes("Group Order Distinct Tuple Rollup Cube GroupingSets", "expressions"),
    **_nodes("Ordered", "this desc nulls_first"),
    **_nodes("Limit Offset", "expression"),
    **_nodes("Fetch", "direction count limit_options"),
    **_nodes("LimitOptions", "rows"),
    # names
    **_nodes("Identifier", "this quoted"),
    **_nodes("Var", "this"),
    **_nodes("Column", "this table db catalog"),
    **_nodes("Dot", "this expression"),
    **_nodes("Star", "except_"),
    **_nodes("Alias", "this alias"),
    **_nodes("Aliases", "this expressions"),
    # values
    **_nodes("Literal", "this is_string"),
    **_nodes("RawString HexString Boolean", "this"),
    **_nodes("Null", ""),
    **_nodes("Interval", "this unit"),
    **_nodes("IntervalSpan", "this expression"),
    # operators
    **_nodes("Add Sub Mul Mod IntDiv And Or EQ NEQ LT LTE GT GTE NullSafeEQ NullSafeNEQ Is", "this expression"),
    **_nodes("BitwiseAnd BitwiseOr BitwiseXor BitwiseLeftShift BitwiseRightShift", "this expression"),
    **_nodes("Div", "this expression typed safe"),
    **_nodes("DPipe", "this expression safe"),
    **_nodes("Like ILike", "this expression negate"),
    **_nodes("RegexpLike Escape", "this expression"),
    **_nodes("Neg Not BitwiseNot Paren Any All", "this"),
    **_nodes("In", "this expressions query"),
    **_nodes("Exists", "this"),
    **_nodes("Between", "this low high"),
    **_nodes("Bracket", "this expressions"),
    **_nodes("Case", "this ifs default"),
    **_nodes("If", "this true false"),
    # calls
    **_nodes("Anonymous", "this expressions"),
    **_nodes("Filter Transform Extract", "this expression"),
    **_nodes("Lambda", "this expressions"),
    **_nodes("IgnoreNulls RespectNulls", "this"),
    **_nodes("WithinGroup", "this expression"),
    **_nodes("Window", "this partition_by order spec over"),
    **_nodes("WindowSpec", "kind start start_side end end_side"),
    **_nodes("Concat", "expressions safe coalesce"),
    **_nodes("Substring", "this start length"),
    **_nodes("Trim", "this expression position"),
    **_nodes("Overlay", "this expression from_ for_"),
    **_nodes("StrPosition", "this substr"),
    # types
    **_nodes("Cast", "this to"),
    **_nodes("TryCast", "this to safe"),
    **_nodes("DataType", "this expressions nested"),
    **_nodes("DataTypeParam", "this"),
    **_nodes("ColumnDef", "this kind"),
}

TABLE_NODES: Mapping[type[exp.Expr], frozenset[str]] = {
    **NODES,
    # queries
    **_nodes(
        "Select",
        "with_ distinct expressions from_ joins laterals where group having qualify order limit offset windows",
    ),
    **_nodes("Union Except Intersect", "with_ this expression distinct order limit offset"),
    **_nodes("With", "expressions recursive"),
    **_nodes("Subquery", "this alias with_ order limit offset joins laterals pivots"),
    **_nodes("Table", "this alias joins laterals pivots"),
    **_nodes("Values", "expressions alias"),
    **_nodes("Join", "this side kind on using method"),
    **_nodes("Group", "expressions all rollup cube grouping_sets"),
    # Besides what is written, how sqlglot would name the columns.
    exp.Pivot: words("""
        alias columns expressions fields identify_pivot_strings include_nulls pivot_column_naming prefixed_pivot_columns
        unpivot value_columns_first
        """),
    **_nodes("PivotAlias", "this alias"),
    # operators and calls
    **_nodes("In", "this expressions query field"),
    **_nodes("Window", "this partition_by order spec over alias"),
}
"""The same for a query over tables alone that Spark runs as it is written: syntax that cannot run in parts, too."""
TYPES = words("""
    ARRAY BIGINT BINARY BOOLEAN CHAR DATE DECIMAL DOUBLE FLOAT INT INTERVAL MAP SMALLINT STRUCT TEXT TIMESTAMP
    TIMESTAMPLTZ TIMESTAMPNTZ TIMESTAMPTZ TINYINT VARBINARY VARCHAR VARIANT
    """)
"""Types by sqlglot's names: STRING is TEXT."""

UNITS = words("""
    MICROSECOND MILLISECOND SECOND MINUTE HOUR DAY WEEK MONTH QUARTER YEAR MICROSECONDS MILLISECONDS SECONDS MINUTES
    HOURS DAYS WEEKS MONTHS QUARTERS YEARS DAYOFWEEK DAYOFWEEK_ISO DAYOFYEAR DOW DOY YEAROFWEEK EPOCH
    """)
"""Units of intervals and of time, and the fields that EXTRACT takes."""

NUMBER = re.compile(r"\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?", re.ASCII)
MAX_NUMBER_CHARS = 100
"""Spark's longest numbers are decimals of 38 digits; Python reads none of some thousand digits."""

HEX = re.compile(r"[0-9a-fA-F]*")


def what_is_refused(node: exp.Expr, nodes: Mapping[type[exp.Expr], frozenset[str]] = NODES) -> str | None:
    """A description of the first thing in a node that is not in the table; None when there is none.

    Child nodes are not examined.
    """
    arguments = nodes.get(type(node))
    if isinstance(node, exp.QueryTransform):
        return "TRANSFORM ... USING, which runs a command,"
    if arguments is None:
        return spelled(type(node).__name__)
    for name, value in node.args.items():
        if name not in arguments and value not in (None, False, []):
            return f"{spelled(type(node).__name__)} with {spelled(name)}"
    if nodes is TABLE_NODES and isinstance(node, exp.Var) and isinstance(node.parent, exp.Ordered):
        return None if node.name.upper() == "ALL" else f"ORDER BY {node.name}"
    return _refused_word(node)


def _refused_word(node: exp.Expr) -> str | None:
    if isinstance(node, exp.DataType):
        name = getattr(node.this, "name", str(node.this))
        return None if isinstance(node.this, exp.Interval) or name in TYPES else f"the type {name}"
    if isinstance(node, exp.Var):
        return None if node.name.upper() in UNITS else f"the unit {node.name}"
    if isinstance(node, exp.Dot):
        return None if isinstance(node.expression, exp.Identifier) else "a function's name with a qualifier"
    if isinstance(node, exp.Literal) and not node.is_string:
        possible = len(node.name) <= MAX_NUMBER_CHARS and NUMBER.fullmatch(node.name)
        return None if possible else f"the number {node.name[:MAX_NUMBER_CHARS]}"
    if isinstance(node, exp.HexString):
        return None if HEX.fullmatch(node.name) else f"the number {node.name[:MAX_NUMBER_CHARS]}"
    if isinstance(node, exp.Trim):
        position = str(node.args.get("position") or "").upper()
        return None if position in ("", "BOTH", "LEADING", "TRAILING") else f"TRIM with {position}"
    return None


def spelled(name: str) -> str:
    """The words of a name of sqlglot in capitals, as in SQL: `QueryTransform` is QUERY TRANSFORM."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name.rstrip("_").replace("_", " ")).upper()
