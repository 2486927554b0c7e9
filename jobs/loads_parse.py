"""Load reports from Kafka's bytes to typed rows, each with the id of the first rule it breaks, or none.

Spark SQL expressions only: no Python worker takes part, and nothing a record contains can raise. Three measured costs
shaped this file:
- `from_json` is evaluated once a record as long as no filter is put on what it yields: Spark pushes such a filter below
  the projection and parses again. So there is none here; good and bad rows leave together.
- Building and analysing these expressions takes a second from Python, so they belong to the streaming frame, which is
  built once, not to each micro-batch. Numbers are judged as arrays, which keeps the expression tree small.
- A number or timestamp that differs from batch to batch (`current_timestamp()` too) becomes part of the generated code,
  which is then compiled again in every batch, by Spark and by the JVM: 1 s of CPU of 2. A string goes by reference.
  So what depends on the batch is judged in `loads_panes.judged`, on times as padded text (`time_key`).
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from controller.domain.load import BUNDLE_FIELDS, IMPOSSIBLE_FACTOR, RESOURCES
from jobs.loads_settings import LoadsSettings

VERSION = 1
BROKER_PATTERN = r"^[A-Za-z0-9._\-\[\]:]{1,255}$"  # as controller.domain.ids.check_broker_id
NONCE_PATTERN = r"^[A-Za-z0-9]{1,64}$"
BUNDLE_PATTERN = r"^[^/\s]{1,128}/[^/\s]{1,128}/0x[0-9a-f]{8}_0x[0-9a-f]{8}$"
_LARGEST_ID = 2**53  # larger integers do not survive JSON in other languages

# Rule id -> what the quarantine row says. The order is the order of judgement, `future` and
# `late` excepted, which are judged last: the first broken rule is named.
RULES: dict[str, str] = {
    "empty": "the record has no value",
    "too_large": "the record is larger than max_report_bytes",
    "not_utf8": "the record is not UTF-8 text",
    "not_json": "the record is not one JSON object",
    "version": "the schema version 'v' is missing or unknown",
    "wrong_type": "a field has another type than the schema of load reports says",
    "missing_field": "a required field is missing or null",
    "broker_id": "the broker id is not host:port of at most 255 plain characters",
    "key_mismatch": "the record's key is not the broker it reports for",
    "session": "incarnation, nonce, session or sequence is not what an agent can send",
    "no_timestamp": "the record has no time",
    "future": "the record is further ahead of the clock than max_future_ms",
    "late": "the record is older than the retention of panes",
    "too_many_bundles": "the report lists more bundles than max_report_bundles",
    "nonfinite": "a number is NaN or infinite",
    "negative": "a count, rate or time is negative",
    "impossible": "with a known limit, usage is negative or above three times the limit",
    "bundle_name": "a bundle is not tenant/namespace/0xLLLLLLLL_0xUUUUUUUU with lower < upper in lower-case hex",
    "duplicate_bundle": "a bundle is listed twice",
    "conservation": "bundles plus tail do not sum up to the totals",
}


def _stats(*extra: T.StructField) -> T.StructType:
    return T.StructType([*[T.StructField(name, T.DoubleType()) for name in BUNDLE_FIELDS], *extra])


_USAGE = T.StructType([T.StructField("usage", T.DoubleType()), T.StructField("limit", T.DoubleType())])
_BUNDLES = T.StructField("bundles", T.DoubleType())
REPORT = T.StructType(
    [
        T.StructField("v", T.LongType()),
        T.StructField("broker", T.StringType()),
        T.StructField("incarnation", T.LongType()),
        T.StructField("nonce", T.StringType()),
        T.StructField("session", T.LongType()),
        T.StructField("sequence", T.LongType()),
        T.StructField("resources", T.StructType([T.StructField(name, _USAGE) for name in RESOURCES])),
        T.StructField("rpc_queue_ms", T.DoubleType()),
        T.StructField("metadata_latency_ms", T.DoubleType()),
        T.StructField("totals", _stats(_BUNDLES)),
        T.StructField("bundles", T.ArrayType(_stats(T.StructField("bundle", T.StringType())))),
        T.StructField("tail", _stats(_BUNDLES)),
        T.StructField("_corrupt_record", T.StringType()),
    ]
)


def classify(records: DataFrame, settings: LoadsSettings) -> DataFrame:
    """Kafka rows (key, value, topic, partition, offset, timestamp) as `report` or as `rule` and `text`.

    Adds `event_ms`, `event_key` (the same as text) and, for bad rows, `raw` and `raw_base64`. Whether a report is late
    or from the future only the batch knows (`loads_panes.judged`).
    """
    body = F.col("value").cast("string")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt_record"}
    size = F.coalesce(F.octet_length("value"), F.lit(0))
    parsed = records.select(
        "topic",
        F.col("partition").cast("long").alias("partition"),
        "offset",
        "timestamp",
        F.unix_millis("timestamp").alias("event_ms"),
        time_key(F.unix_millis("timestamp")).alias("event_key"),
        F.col("key").cast("string").alias("key"),
        "value",
        size.alias("size"),
        F.when((size > 0) & (size <= settings.max_report_bytes), F.from_json(body, REPORT, options)).alias("report"),
    )
    checked = parsed.select(
        "*",
        _array("report.totals", "bundles").alias("totals"),
        _array("report.tail", "bundles").alias("tail"),
        F.array("report.rpc_queue_ms", "report.metadata_latency_ms").alias("times"),
        F.array(*[F.col(f"report.resources.{name}.usage") for name in RESOURCES]).alias("usages"),
        F.array(*[F.col(f"report.resources.{name}.limit") for name in RESOURCES]).alias("limits"),
        _bundle_sums().alias("sums"),
    ).withColumn("rule", _rule(settings))
    bad = F.col("rule").isNotNull()
    head = F.substring("value", 1, settings.quarantine_raw_bytes)
    plain = F.coalesce(F.is_valid_utf8(head.cast("string")), F.lit(True))
    return checked.select(
        "topic",
        "partition",
        "offset",
        "timestamp",
        "event_ms",
        "event_key",
        F.when(~bad, F.col("report")).alias("report"),
        "rule",
        F.when(bad, _text()).alias("text"),
        F.when(bad, F.when(plain, head.cast("string")).otherwise(F.base64(head))).alias("raw"),
        (~plain).alias("raw_base64"),
    )


def time_key(event_ms: Column) -> Column:
    """Milliseconds as text of fixed width, so that text compares as time does; times before 1970 count as 1970."""
    return F.lpad(F.greatest(event_ms, F.lit(0)).cast("string"), 20, "0")


def _array(struct: str, *extra: str) -> Column:
    return F.array(*[F.col(f"{struct}.{name}") for name in (*BUNDLE_FIELDS, *extra)])


def _bundle_sums() -> Column:
    """Per field the sum over bundles: null if any is missing, NaN or infinite if any is."""
    columns = F.array(*[F.col(f"report.bundles.{name}") for name in BUNDLE_FIELDS])
    return F.transform(columns, lambda values: F.aggregate(values, F.lit(0.0), lambda total, value: total + value))


def _smallest() -> Column:
    columns = F.array(*[F.col(f"report.bundles.{name}") for name in BUNDLE_FIELDS])
    return F.array_min(F.transform(columns, lambda values: F.coalesce(F.array_min(values), F.lit(0.0))))


def _any(*conditions: Column) -> Column:
    return reduce(lambda left, right: left | right, conditions)


def _has_null(numbers: Column) -> Column:
    return F.size(F.array_compact(numbers)) < F.size(numbers)


def _nonfinite(numbers: Column) -> Column:
    # NaN is larger than infinity for Spark, so the maximum finds both
    return (F.array_max(numbers) >= float("inf")) | (F.array_min(numbers) == float("-inf"))


def _rule(settings: LoadsSettings) -> Column:
    report, value = F.col("report"), F.col("value").cast("string")
    corrupt = F.col("report._corrupt_record").isNotNull()
    is_object = F.ltrim(value).startswith("{") & F.try_parse_json(value).isNotNull()
    version = F.when(corrupt, F.get_json_object(value, "$.v")).otherwise(F.col("report.v").cast("string"))
    names = F.col("report.bundles.bundle")
    tail_given = F.col("report.tail").isNotNull()
    required = F.concat("totals", "times", "usages", "limits", "sums")
    counts = F.concat("totals", "times")
    scalars = [F.col(f"report.{name}") for name in ("broker", "nonce", "incarnation", "session", "sequence")]
    missing = _any(*[column.isNull() for column in scalars], _has_null(required), F.exists(names, F.isnull))
    ids = F.array(*[F.col(f"report.{name}") for name in ("incarnation", "session", "sequence")])
    first = F.least("report.incarnation", "report.session")
    return (
        F.when(F.col("size") == 0, "empty")
        .when(F.col("size") > settings.max_report_bytes, "too_large")
        .when(~F.is_valid_utf8(value), "not_utf8")
        .when(
            report.isNull() | ~F.rtrim(value).endswith("}") | (corrupt & F.coalesce(~is_object, F.lit(True))),
            "not_json",
        )
        .when(F.coalesce(version != str(VERSION), F.lit(True)), "version")
        .when(corrupt, "wrong_type")
        .when(F.coalesce(missing, F.lit(True)) | (tail_given & _has_null(F.col("tail"))), "missing_field")
        .when(~F.col("report.broker").rlike(BROKER_PATTERN), "broker_id")
        .when(F.coalesce(F.col("key") != F.col("report.broker"), F.lit(True)), "key_mismatch")
        .when(~F.col("report.nonce").rlike(NONCE_PATTERN), "session")
        .when((first < 1) | (F.array_min(ids) < 0) | (F.array_max(ids) >= _LARGEST_ID), "session")
        .when(F.coalesce(F.col("event_ms") < 0, F.lit(True)), "no_timestamp")
        .when(F.size(names) > settings.max_report_bundles, "too_many_bundles")
        .when(_nonfinite(required) | (tail_given & _nonfinite(F.col("tail"))), "nonfinite")
        .when((F.array_min(counts) < 0) | (_smallest() < 0) | (tail_given & (F.array_min("tail") < 0)), "negative")
        .when(F.exists(F.zip_with("usages", "limits", _impossible), lambda found: found), "impossible")
        .when(~F.forall(names, _good_name), "bundle_name")
        .when(F.size(F.array_distinct(names)) < F.size(names), "duplicate_bundle")
        .when(~_conserved(settings), "conservation")
    )


def _good_name(name: Column) -> Column:
    lower, upper = F.substring(name, -19, 8), F.substring(name, -8, 8)
    return name.rlike(BUNDLE_PATTERN) & (lower < upper)


def _impossible(usage: Column, limit: Column) -> Column:
    return (limit > 0) & ((usage < 0) | (usage > limit * IMPOSSIBLE_FACTOR))


def _conserved(settings: LoadsSettings) -> Column:
    """Per field |bundles + tail - total| within the tolerance; the number of bundles exactly."""
    fields = len(BUNDLE_FIELDS)
    given = F.col("report.tail").isNotNull()
    tail = F.when(given, F.slice("tail", 1, fields)).otherwise(F.array_repeat(F.lit(0.0), fields))
    parts = F.zip_with("sums", tail, lambda top, rest: top + rest)

    def close(part: Column, total: Column) -> Column:
        allowed = F.greatest(total * settings.conservation_tolerance, F.lit(settings.conservation_slack))
        return F.abs(part - total) <= allowed

    listed = F.size("report.bundles") + F.coalesce(F.col("report.tail.bundles"), F.lit(0.0))
    sums_agree = F.forall(F.zip_with(parts, F.slice("totals", 1, fields), close), lambda fits: fits)
    return sums_agree & (listed == F.col("report.totals.bundles"))


def _text() -> Column:
    """What an operator reads: the rule's sentence and the offending value where it is short."""
    rule, report = F.col("rule"), F.col("report")
    detail = (
        F.when(rule == "too_large", F.concat(F.col("size").cast("string"), F.lit(" bytes")))
        .when(rule == "version", F.get_json_object(F.col("value").cast("string"), "$.v"))
        .when(rule == "key_mismatch", F.concat_ws(" reports for ", F.col("key"), report["broker"]))
        .when(rule == "bundle_name", F.element_at(F.filter(report["bundles"]["bundle"], lambda n: ~_good_name(n)), 1))
        .when(rule == "too_many_bundles", F.concat(F.size("report.bundles").cast("string"), F.lit(" bundles")))
        .otherwise(report["broker"])
    )
    sentences = F.create_map(*[F.lit(part) for pair in RULES.items() for part in pair])
    shown = F.substring(F.coalesce(detail, F.lit("")), 1, 300)
    return F.concat(sentences[rule], F.when(shown == "", F.lit("")).otherwise(F.concat(F.lit(": "), shown)))
