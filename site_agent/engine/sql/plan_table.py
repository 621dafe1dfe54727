"""The classes, by their Java names, of which a plan from Spark's parser may consist.

A part of any other class is refused. A test has Spark parse all syntax that a query may have.
"""

from __future__ import annotations

from planner.functions.traits import words

_CATALYST = "org.apache.spark.sql.catalyst"

FUNCTIONS = frozenset((f"{_CATALYST}.analysis.UnresolvedFunction", f"{_CATALYST}.FunctionIdentifier"))
"""Classes whose texts are a function's name; the second stands behind LATERAL VIEW."""

RELATION = f"{_CATALYST}.analysis.UnresolvedRelation"
WITH_ENTRY = "scala.Tuple3"
"""The class whose text is the name of an entry of WITH."""

OPTIONS = "org.apache.spark.sql.util.CaseInsensitiveStringMap"
"""The class whose texts are the options of a relation, which must have none."""

_BY_PACKAGE = {
    "": words("[B"),
    "java.lang": words("Character"),
    f"{_CATALYST}": words("AliasIdentifier"),
    f"{_CATALYST}.analysis": words("""
        MultiAlias UnresolvedAlias UnresolvedAttribute UnresolvedExtractValue UnresolvedGenerator
        UnresolvedHaving UnresolvedOrdinal UnresolvedQualify UnresolvedStar UnresolvedStarExceptOrReplace
        UnresolvedSubqueryColumnAliases
        """),
    # FIRST, LAST and ANY_VALUE are syntax to Spark's parser.
    f"{_CATALYST}.expressions.aggregate": words("AggregateExpression AnyValue Complete$ First Last"),
    "java.util": words("UUID"),
    f"{_CATALYST}.expressions": words("""
        Add Alias And Ascending$ AttributeReference BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CaseWhen Cast
        Coalesce Concat CreateNamedStruct Cube CurrentRow$ Descending$ Divide EqualNullSafe EqualTo Exists ExprId
        GenericInternalRow GreaterThan GreaterThanOrEqual GroupingSets ILike In InSubquery IntegralDivide IsNotNull
        IsNotUnknown$$anon$2 IsNull IsUnknown$$anon$1 LambdaFunction LateralSubquery LessThan LessThanOrEqual Like
        LikeAll LikeAny ListQuery Literal Multiply Not NotLikeAll NotLikeAny NullsFirst$ NullsLast$
        NumericEvalContext Or Overlay RLike RangeFrame$ Remainder Rollup RowFrame$ ScalarSubquery ShiftLeft
        ShiftRight ShiftRightUnsigned SortOrder SpecifiedWindowFrame StringLocate StringTrim StringTrimLeft
        StringTrimRight Substring Subtract TimestampAdd TimestampDiff UnaryMinus UnaryPositive
        UnboundedFollowing$ UnboundedPreceding$ UnresolvedNamedLambdaVariable UnresolvedWindowExpression
        UnspecifiedFrame$ WindowExpression WindowSpecDefinition WindowSpecReference
        """),
    f"{_CATALYST}.plans": words(
        "Cross$ FullOuter$ Inner$ LeftAnti$ LeftOuter$ LeftSemi$ NaturalJoin RightOuter$ UsingJoin"
    ),
    # A list of VALUES without calls is a LocalRelation to Spark's parser.
    f"{_CATALYST}.plans.logical": words("""
        Aggregate Distinct Except Filter Generate GlobalLimit Intersect Join JoinHint LateralJoin LocalLimit
        LocalRelation Offset OneRowRelation Pivot Project Sort SubqueryAlias Union UnresolvedWith Unpivot
        WithWindowDefinition
        """),
    "org.apache.spark.sql.types": words("""
        ArrayType BinaryType$ BooleanType$ ByteType$ CalendarIntervalType$ DateType$ DayTimeIntervalType
        Decimal DecimalType DoubleType$ FloatType$ IntegerType$ LongType$ MapType Metadata NullType$
        ShortType$ StringType$ StructField TimeType TimestampNTZType$ TimestampType$ VariantType$
        YearMonthIntervalType
        """),
    "org.apache.spark.unsafe.types": words("CalendarInterval UTF8String"),
    "scala": words("Enumeration$Val Tuple2 Tuple3"),
}

PARTS: frozenset[str] = frozenset(
    f"{package}.{name}".lstrip(".") for package, names in _BY_PACKAGE.items() for name in names
)

QUERIES: frozenset[str] = frozenset(
    f"{_CATALYST}.expressions.{name}" for name in words("Exists InSubquery LateralSubquery ListQuery ScalarSubquery")
)
"""Classes of queries within expressions: not possible where an expression stands alone."""
