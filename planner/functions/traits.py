"""What the planner must know of Spark's functions: which aggregate, which rank, which are not repeatable.

It takes all others for scalar functions; `planner.functions.table` lists those that can be called.
"""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


RANKS = ("row_number", "rank", "dense_rank")

WINDOW = "window"

CUMULATE = "cumulate_window"
"""Selat's own: windows that begin together and end one step after the other. Spark never sees it."""

SESSION = "session_window"
"""Sessions of a key: rows that follow one another within a gap."""

WINDOWS = (WINDOW, CUMULATE, SESSION)

TOTAL_SCALARS = words("window named_struct struct upper lower length least greatest")
"""Some of those that have a value for any argument, and do not fail."""

TIME_UNIT_FUNCTIONS = words("dateadd date_add timestampadd datediff date_diff timestampdiff time_diff")
"""Their first of three arguments is a unit (`DAY`), not a column."""

AGGREGATES = words("""
    any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate approx_top_k_combine
    array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg bool_and
    bool_or collect_list collect_set collect_union corr count count_if count_min_sketch covar_pop
    covar_samp every first first_value grouping grouping_id histogram_numeric hll_sketch_agg hll_union_agg
    kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double
    kll_sketch_agg_float kurtosis last last_value listagg max max_by mean measure median min min_by mode percentile
    percentile_approx percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2
    regr_slope regr_sxx regr_sxy regr_syy schema_of_variant_agg skewness some std stddev stddev_pop stddev_samp
    string_agg sum theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum
    tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_agg_double tuple_sketch_agg_integer
    tuple_union_agg_double tuple_union_agg_integer var_pop var_samp variance vector_avg vector_sum
    """)
"""Every aggregate function of Spark 4.3's SQL; over streams, those that are not mergeable are refused."""

ONE_COLUMN_GENERATORS = {"explode": "explode", "explode_outer": "explode"}
"""Generators of one column, with what LATERAL VIEW calls; another name there is that of an OUTER one."""

GENERATORS = words("""
    explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple variant_explode
    variant_explode_outer
    """)
"""Functions that make several rows of one."""

BARE_NOT_REPEATABLE = words(
    "current_catalog current_database current_date current_path current_schema current_time current_timestamp "
    "current_user localtime localtimestamp session_user user"
)
"""Those that are written without brackets as well."""

OTHER_WINDOWS = frozenset(("window_time",))
