"""Two tables of Spark's functions: those that a query may call, and those that it may not, with the reason.

A function in neither table cannot be called. A test compares the tables with the functions of the pinned Spark, so that
a new function of another version stays out until a person has put it into one of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.functions.traits import AGGREGATES, OTHER_WINDOWS, RANKS, SESSION, WINDOW, words

ALLOWED: Mapping[str, frozenset[str]] = {
    "aggregates": AGGREGATES,
    "windows and ranks": frozenset((WINDOW, SESSION, *RANKS))
    | words("cume_dist lag lead nth_value ntile percent_rank"),
    "conditions": words("""
        and assert_true between case coalesce equal_null if ifnull in isnan isnotnull isnull nanvl not nullif nullifzero
        nvl nvl2 or raise_error when zeroifnull
        """),
    "conversions": words("""
        bigint binary boolean cast date decimal double float int smallint string time timestamp tinyint try_cast
        to_binary to_char to_number to_varchar try_to_binary try_to_number typeof
        """),
    "numbers": words("""
        abs acos acosh asin asinh atan atan2 atanh bin bround cbrt ceil ceiling conv cos cosh cot csc degrees div e exp
        expm1 factorial floor greatest hex hypot least ln log log10 log1p log2 mod negative pi pmod positive pow power
        radians rint round sec sign signum sin sinh sqrt tan tanh try_add try_divide try_mod try_multiply try_subtract
        unhex width_bucket
        """),
    "bits and hashes": words("""
        bit_count bit_get bitmap_bit_position bitmap_bucket_number bitmap_count crc32 getbit hash hmac md5 sha sha1 sha2
        shiftleft shiftright shiftrightunsigned xxhash64
        """),
    "strings": words("""
        ascii base64 bit_length btrim char char_length character_length chr collate collation concat_ws contains decode
        elt encode endswith find_in_set format_number format_string from_base32 ilike initcap instr
        is_valid_utf8 jaro_winkler_similarity lcase left len length levenshtein like locate lower lpad ltrim luhn_check
        make_valid_utf8 mask octet_length overlay parse_url position printf quote regexp regexp_count regexp_extract
        regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr repeat replace right rlike rpad rtrim
        sentences soundex space split split_part startswith str_to_map substr substring substring_index to_base32
        translate trim try_parse_url try_url_decode try_validate_utf8 ucase unbase64 upper url_decode url_encode
        validate_utf8
        """),
    "dates and times": words("""
        add_months convert_timezone current_timezone date_add date_diff date_format date_from_unix_date date_part
        date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear extract from_unixtime
        from_utc_timestamp hour last_day make_date make_dt_interval make_interval make_time make_timestamp
        make_timestamp_ltz make_timestamp_ntz make_ym_interval minute month monthname months_between next_day quarter
        second time_bucket time_diff time_from_micros time_from_millis time_from_seconds time_to_micros time_to_millis
        time_to_seconds time_trunc timestamp_micros timestamp_millis timestamp_nanos timestamp_seconds timestampadd
        timestampdiff to_date to_time to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp
        trunc try_make_interval try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz try_to_date
        try_to_time try_to_timestamp unix_date unix_micros unix_millis unix_nanos unix_seconds unix_timestamp weekday
        weekofyear year
        """),
    "arrays, maps and structs": words("""
        aggregate array array_append array_compact array_contains array_distinct array_except array_insert
        array_intersect array_join array_max array_min array_position array_prepend array_remove array_repeat array_size
        array_sort array_union arrays_overlap arrays_zip cardinality concat element_at exists filter flatten forall get
        map map_concat map_contains_key map_entries map_filter map_from_arrays map_from_entries map_keys map_values
        map_zip_with named_struct reduce reverse sequence size slice sort_array struct transform transform_keys
        transform_values try_element_at zip_with
        """),
    "rows of arrays and maps": words("""
        explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer stack variant_explode
        variant_explode_outer
        """),
    "JSON, CSV and variants": words("""
        from_csv from_json get_json_object is_valid_variant is_variant_null json_array_length json_object_keys
        parse_json schema_of_csv schema_of_json schema_of_variant to_csv to_json to_variant_object try_parse_json
        try_variant_array_append try_variant_get try_variant_insert try_variant_set variant_array_append variant_delete
        variant_get variant_insert variant_set variant_strip_nulls
        """),
    "sketches": words("""
        approx_top_k_estimate hll_sketch_estimate hll_union kll_sketch_get_n_bigint kll_sketch_get_n_double
        kll_sketch_get_n_float kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double
        kll_sketch_get_quantile_float kll_sketch_get_rank_bigint kll_sketch_get_rank_double kll_sketch_get_rank_float
        kll_sketch_merge_bigint kll_sketch_merge_double kll_sketch_merge_float kll_sketch_to_string_bigint
        kll_sketch_to_string_double kll_sketch_to_string_float theta_difference theta_intersection theta_sketch_estimate
        theta_union tuple_difference_double tuple_difference_integer tuple_difference_theta_double
        tuple_difference_theta_integer tuple_intersection_double tuple_intersection_integer
        tuple_intersection_theta_double tuple_intersection_theta_integer tuple_sketch_estimate_double
        tuple_sketch_estimate_integer tuple_sketch_summary_double tuple_sketch_summary_integer tuple_sketch_theta_double
        tuple_sketch_theta_integer tuple_union_double tuple_union_integer tuple_union_theta_double
        tuple_union_theta_integer
        """),
    "vectors": words("vector_cosine_similarity vector_inner_product vector_l2_distance vector_norm vector_normalize"),
    "places on Earth": words("st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid"),
}
"""Functions that a query may call, by group; docs/sql.md has the same groups."""

NOT_REPEATABLE = "its value would differ when an epoch is run again"

REFUSED: Mapping[str, frozenset[str]] = {
    NOT_REPEATABLE: words("""
        aes_encrypt curdate current_date current_time current_timestamp localtime localtimestamp
        monotonically_increasing_id now rand randn random randstr shuffle spark_partition_id uniform uuid
        """),
    "it reveals the machine, the files or the user of a site": words("""
        collations current_catalog current_database current_path current_schema current_user input_file_block_length
        input_file_block_start input_file_name python_worker_logs session_user sql_keywords user version
        """),
    "it calls Java methods": words("java_method reflect try_reflect"),
    "it reads schemas or classes from files of a site": words(
        "from_avro from_protobuf schema_of_avro to_avro to_protobuf"
    ),
    "XML can name files": words("""
        from_xml schema_of_xml to_xml xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number
        xpath_short xpath_string
        """),
    "its key would appear in plans and logs": words("aes_decrypt try_aes_decrypt"),
    "windows have the fields start and end alone": frozenset(OTHER_WINDOWS),
    "it returns a table": words("range"),
    "names must be written out": words("identifier"),
    "it has not been tested with Selat": words("counter_diff"),
    "operators must be written as operators": words("! != % & * + - / < << <= <=> <> = == > >= >> >>> ^ | || ~"),
}
"""Functions that a query may not call, by reason."""

NAMES: frozenset[str] = frozenset().union(*ALLOWED.values())
"""Every function of Spark that a query may call, in lower case."""

REASONS: Mapping[str, str] = {name: reason for reason, names in REFUSED.items() for name in names}
"""The reason why a function may not be called, by its name in lower case."""
