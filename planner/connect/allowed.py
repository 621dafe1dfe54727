"""The fields of Spark Connect's messages that a plan may set, by message (without the prefix `spark.connect.`).

Left out are, with all that is below them: files and data sources by name, functions of the client's own code in any
language, writing, streams, machine learning, pipelines, plugins and whatever keeps something at the server.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.functions.table import NAMES
from planner.functions.traits import words

_RELATIONS: Mapping[str, str] = {
    "Relation": """
        common read project filter join set_op sort limit aggregate sql local_relation sample offset deduplicate range
        subquery_alias repartition to_df with_columns_renamed show_string drop tail with_columns hint unpivot to_schema
        repartition_by_expression html_string as_of_join with_relations transpose unresolved_table_valued_function
        lateral_join fill_na drop_na replace summary crosstab describe cov corr approx_quantile freq_items sample_by
        """,
    "RelationCommon": "source_info plan_id origin",
    "ExpressionCommon": "origin",
    "Origin": "python_origin",
    "PythonOrigin": "fragment call_site",
    "Read": "named_table",
    "Read.NamedTable": "unparsed_identifier",
    "Project": "input expressions",
    "Filter": "input condition",
    "Join": "left right join_condition join_type using_columns join_data_type",
    "Join.JoinDataType": "is_left_struct is_right_struct",
    "SetOperation": "left_input right_input set_op_type is_all by_name allow_missing_columns",
    "Sort": "input order is_global",
    "Limit": "input limit",
    "Offset": "input offset",
    "Tail": "input limit",
    "Aggregate": "input group_type grouping_expressions aggregate_expressions pivot grouping_sets",
    "Aggregate.Pivot": "col values",
    "Aggregate.GroupingSets": "grouping_set",
    # Its arguments are in the text before a plan is checked.
    "SQL": "query",
    "LocalRelation": "data schema",
    "Sample": "input lower_bound upper_bound with_replacement seed deterministic_order",
    "Deduplicate": "input column_names all_columns_as_keys",
    "Range": "start end step num_partitions",
    "SubqueryAlias": "input alias",
    "Repartition": "input num_partitions shuffle",
    "RepartitionByExpression": "input partition_exprs num_partitions",
    "ToDF": "input column_names",
    "WithColumnsRenamed": "input rename_columns_map renames",
    "WithColumnsRenamed.RenameColumnsMapEntry": "key value",
    "WithColumnsRenamed.Rename": "col_name new_col_name",
    "WithColumns": "input aliases",
    "ShowString": "input num_rows truncate vertical",
    "HtmlString": "input num_rows truncate",
    "Drop": "input columns column_names",
    "Hint": "input name parameters",
    "Unpivot": "input ids values variable_column_name value_column_name",
    "Unpivot.Values": "values",
    "ToSchema": "input schema",
    "AsOfJoin": """
        left right left_as_of right_as_of join_expr using_columns join_type tolerance allow_exact_matches direction
        """,
    "WithRelations": "root references",
    "Transpose": "input index_columns",
    "UnresolvedTableValuedFunction": "function_name arguments",
    "LateralJoin": "left right join_condition join_type",
    "NAFill": "input cols values",
    "NADrop": "input cols min_non_nulls",
    "NAReplace": "input cols replacements",
    "NAReplace.Replacement": "old_value new_value",
    "StatSummary": "input statistics",
    "StatDescribe": "input cols",
    "StatCrosstab": "input col1 col2",
    "StatCov": "input col1 col2",
    "StatCorr": "input col1 col2 method",
    "StatApproxQuantile": "input cols probabilities relative_error",
    "StatFreqItems": "input cols support",
    "StatSampleBy": "input col fractions seed",
    "StatSampleBy.Fraction": "stratum fraction",
}

_EXPRESSIONS: Mapping[str, str] = {
    "Expression": """
        common literal unresolved_attribute unresolved_function expression_string unresolved_star alias cast
        unresolved_regex sort_order lambda_function window unresolved_extract_value update_fields
        unresolved_named_lambda_variable call_function named_argument_expression subquery_expression
        """,
    "Expression.Literal": """
        null binary boolean byte short integer long float double decimal string date timestamp timestamp_ntz
        calendar_interval year_month_interval day_time_interval array map struct specialized_array time
        timestamp_ntz_nanos timestamp_ltz_nanos data_type
        """,
    "Expression.Literal.Decimal": "value precision scale",
    "Expression.Literal.CalendarInterval": "months days microseconds",
    "Expression.Literal.Array": "element_type elements",
    "Expression.Literal.Map": "key_type value_type keys values",
    "Expression.Literal.Struct": "struct_type elements",
    "Expression.Literal.SpecializedArray": "bools ints longs floats doubles strings",
    "Expression.Literal.Time": "nano precision",
    "Expression.Literal.TimestampNTZNanos": "epoch_micros nanos_within_micro precision",
    "Expression.Literal.TimestampLTZNanos": "epoch_micros nanos_within_micro precision",
    "Expression.UnresolvedAttribute": "unparsed_identifier plan_id",
    "Expression.UnresolvedFunction": "function_name arguments is_distinct is_user_defined_function",
    "Expression.ExpressionString": "expression",
    "Expression.UnresolvedStar": "unparsed_target plan_id",
    "Expression.Alias": "expr name metadata",
    "Expression.Cast": "expr type type_str eval_mode",
    "Expression.UnresolvedRegex": "col_name plan_id",
    "Expression.SortOrder": "child direction null_ordering",
    "Expression.LambdaFunction": "function arguments",
    "Expression.UnresolvedNamedLambdaVariable": "name_parts",
    "Expression.Window": "window_function partition_spec order_spec frame_spec",
    "Expression.Window.WindowFrame": "frame_type lower upper",
    "Expression.Window.WindowFrame.FrameBoundary": "current_row unbounded value",
    "Expression.UnresolvedExtractValue": "child extraction",
    "Expression.UpdateFields": "struct_expression field_name value_expression",
    "CallFunction": "function_name arguments",
    "NamedArgumentExpression": "key value",
    "SubqueryExpression": "plan_id subquery_type in_subquery_values",
    **dict.fromkeys(("Bools", "Ints", "Longs", "Floats", "Doubles", "Strings"), "values"),
}

_VARIATION = "type_variation_reference"
_PLAIN_TYPES = (
    "NULL Binary Boolean Byte Short Integer Long Float Double Date Timestamp TimestampNTZ CalendarInterval Variant"
)
_TYPES: Mapping[str, str] = {
    "DataType": """
        null binary boolean byte short integer long float double decimal string char var_char date timestamp
        timestamp_ntz calendar_interval year_month_interval day_time_interval array struct map variant unparsed time
        timestamp_ntz_nanos timestamp_ltz_nanos
        """,
    **{f"DataType.{name}": _VARIATION for name in _PLAIN_TYPES.split()},
    "DataType.Decimal": f"scale precision {_VARIATION}",
    "DataType.String": f"collation {_VARIATION}",
    **{f"DataType.{name}": f"length {_VARIATION}" for name in ("Char", "VarChar")},
    **{f"DataType.{name}": f"start_field end_field {_VARIATION}" for name in ("YearMonthInterval", "DayTimeInterval")},
    "DataType.Array": f"element_type contains_null {_VARIATION}",
    "DataType.Struct": f"fields {_VARIATION}",
    "DataType.StructField": "name data_type nullable metadata",
    "DataType.Map": f"key_type value_type value_contains_null {_VARIATION}",
    "DataType.Unparsed": "data_type_string",
    **{f"DataType.{name}": f"precision {_VARIATION}" for name in ("Time", "TimestampNTZNanos", "TimestampLTZNanos")},
}

FIELDS: Mapping[str, frozenset[str]] = {
    message: words(fields) for message, fields in {**_RELATIONS, **_EXPRESSIONS, **_TYPES}.items()
}
"""The fields that may be set, by message."""

OPERATORS = words("! != % & * + - / < << <=> <= <> == > >= >> >>> ^ | || ~ bitwisenot in bitwise_not")
"""Functions by which the messages call what is an operator in SQL."""

FUNCTIONS = NAMES | OPERATORS
"""Functions that an expression may call, in lower case."""

TABLE_FUNCTIONS = words("explode explode_outer inline inline_outer posexplode posexplode_outer range stack json_tuple")
"""Functions that may stand for a relation."""

FUNCTION_NAMES: Mapping[str, frozenset[str]] = {
    "Expression.UnresolvedFunction": FUNCTIONS,
    "CallFunction": FUNCTIONS,
    "UnresolvedTableValuedFunction": TABLE_FUNCTIONS,
}
"""It lists, by message, what `function_name` may be."""

EAGER = words(
    "show_string html_string summary crosstab describe cov corr approx_quantile freq_items sample_by transpose"
)
"""Relations whose plan Spark makes by running a query of their input, or may."""

COMMANDS = words("sql_command create_dataframe_view write_operation write_operation_v2")
"""Commands of the protocol that a client may send."""

ANALYSES = words("""
    schema explain tree_string is_local is_streaming input_files spark_version ddl_parse same_semantics semantic_hash
    persist unpersist get_storage_level json_to_ddl
    """)
"""A client may ask these questions about plans without running them."""

ANSWERED_BY_SPARK = ANALYSES - words("persist unpersist get_storage_level spark_version is_streaming")
"""A site's Spark answers these analyses; the others need no Spark, or would change something of a session."""
