"""Load reports for the tests of the loads query: good ones, and one bad one for each rule."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from controller.domain.load import BUNDLE_FIELDS, COUNTS, RATES, RESOURCES
from controller.loads.settings import LoadsSettings

START_MS = 1_790_000_000_000
KAFKA_ROW = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"


def bundle_name(number: int, namespace: str = "t/ns") -> str:
    """The number-th of 65,536 equal bundles."""
    return f"{namespace}/0x{number << 16:08x}_0x{min((number + 1) << 16, 0xFFFFFFFF):08x}"


def report(
    broker: str, sequence: int, bundles: list[int], rng: random.Random, namespace: str = "t/ns", tail: bool = True
) -> dict[str, Any]:
    """A good report: its bundles and tail sum up to its totals."""

    def stats() -> dict[str, Any]:
        rates = {name: round(rng.uniform(0, 1000), 3) for name in RATES}
        return rates | {name: rng.randrange(1000) for name in COUNTS}

    listed = [{"bundle": bundle_name(n, namespace), **stats(), "partitioned_topics": []} for n in bundles]
    rest = {**stats(), "bundles": 3} if tail else None
    rows: list[dict[str, Any]] = [*listed, *([rest] if rest else [])]
    totals: dict[str, Any] = {name: sum(row[name] for row in rows) for name in BUNDLE_FIELDS}
    totals["bundles"] = len(listed) + (3 if tail else 0)
    return {
        "v": 1,
        "broker": broker,
        "incarnation": 1,
        "nonce": "abc123",
        "session": 1,
        "sequence": sequence,
        "sent_ms": START_MS,
        "resources": {name: {"usage": rng.uniform(0, 100), "limit": 100.0} for name in RESOURCES},
        "rpc_queue_ms": rng.uniform(0, 5),
        "metadata_latency_ms": rng.uniform(0, 5),
        "totals": totals,
        "bundles": listed,
        "tail": rest,
    }


Row = tuple[bytes | None, bytes | None, str, int, int, datetime]


def row(value: bytes | str | dict[str, Any] | None, key: str | None, offset: int, event_ms: int = START_MS) -> Row:
    """A record as Spark's Kafka source gives it."""
    if isinstance(value, dict):
        value = json.dumps(value)
    if isinstance(value, str):
        value = value.encode()
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=event_ms)
    return (None if key is None else key.encode(), value, "load-reports", 0, offset, moment)


def frame(spark: SparkSession, rows: list[Row]) -> DataFrame:
    """The records as a DataFrame."""
    return spark.createDataFrame(rows, KAFKA_ROW)


def _with(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    """A good report with the fields at dotted paths replaced; DROP removes one."""

    def change(good: dict[str, Any]) -> Any:
        for path, value in changes.items():
            place: Any = good
            *parents, last = path.split("__")
            for name in parents:
                place = place[int(name)] if name.isdigit() else place[name]
            slot: Any = int(last) if last.isdigit() else last
            if value is DROP:
                del place[slot]
            else:
                place[slot] = value(place[slot]) if callable(value) else value
        return good

    return change


DROP = object()
NAN, INF = float("nan"), float("inf")
SMALL = LoadsSettings(max_report_bytes=60_000, max_report_bundles=50)

# name -> (rule, what becomes of a good report); a str or bytes is the whole record
BAD: dict[str, tuple[str, Any]] = {
    "null value": ("empty", None),
    "no bytes": ("empty", b""),
    "oversized": ("too_large", b'{"v":1,' + b" " * 60_000 + b"}"),
    "latin-1": ("not_utf8", '{"v":1,"broker":"é"}'.encode("latin-1")),
    "words": ("not_json", "hello"),
    "cut off": ("not_json", '{"v":1,"broker":"b1'),
    "an array": ("not_json", "[1,2]"),
    "a number": ("not_json", "17"),
    "blank": ("not_json", "   "),
    "null document": ("not_json", "null"),
    "trailing words": ("not_json", '{"v":1} and more'),
    "deep nesting": ("not_json", '{"v":' + "[" * 5000 + "]" * 5000 + "}"),
    "version 2": ("version", _with(v=2)),
    "version 2 of another shape": ("version", '{"v":2,"bundles":{"a":1}}'),
    "no version": ("version", _with(v=DROP)),
    "an empty object": ("version", "{}"),
    "bundles is text": ("wrong_type", _with(bundles="none")),
    "rate is text": ("wrong_type", _with(bundles__0__msg_rate_in="12")),
    "sequence is a fraction": ("wrong_type", _with(sequence=1.5)),
    "incarnation beyond 64 bits": ("wrong_type", _with(incarnation=2**70)),
    "resource is a list": ("wrong_type", _with(resources__cpu=[1, 2])),
    "no broker": ("missing_field", _with(broker=DROP)),
    "null nonce": ("missing_field", _with(nonce=None)),
    "no resource": ("missing_field", _with(resources__cpu=DROP)),
    "no limit": ("missing_field", _with(resources__cpu__limit=DROP)),
    "no totals": ("missing_field", _with(totals=DROP)),
    "no total of one field": ("missing_field", _with(totals__topics=DROP)),
    "no bundles": ("missing_field", _with(bundles=DROP)),
    "a null bundle": ("missing_field", _with(bundles__0=None)),
    "bundle without a rate": ("missing_field", _with(bundles__0__msg_rate_in=DROP)),
    "bundle without a name": ("missing_field", _with(bundles__0__bundle=DROP)),
    "tail without a field": ("missing_field", _with(tail__topics=DROP)),
    "broker id with a path": ("broker_id", _with(broker="../../etc/passwd")),
    "broker id with blanks": ("broker_id", _with(broker="b 1")),
    "broker id too long": ("broker_id", _with(broker="b" * 256)),
    "another's name": ("key_mismatch", _with(broker="victim:8080")),
    "session 0": ("session", _with(session=0)),
    "negative incarnation": ("session", _with(incarnation=-1)),
    "nonce with signs": ("session", _with(nonce="a'; DROP")),
    "NaN usage": ("nonfinite", _with(resources__cpu__usage=NAN)),
    "infinite rate": ("nonfinite", _with(bundles__0__msg_rate_in=INF)),
    "minus infinity": ("nonfinite", _with(resources__cpu__limit=-INF)),
    "NaN in the tail": ("nonfinite", _with(tail__msg_rate_in=NAN)),
    "NaN as text": ("nonfinite", _with(totals__msg_rate_in="NaN")),
    "number too large": ("nonfinite", lambda good: json.dumps(good).replace('"topics": ', '"topics": 1e999, "x": ', 1)),
    "negative rate": ("negative", _with(bundles__0__msg_rate_in=-1.0)),
    "negative total": ("negative", _with(totals__topics=-1)),
    "negative tail": ("negative", _with(tail__unacked=-5)),
    "negative time": ("negative", _with(rpc_queue_ms=-0.1)),
    "usage 3.1 times the limit": ("impossible", _with(resources__cpu__usage=310.0)),
    "negative usage of a known limit": ("impossible", _with(resources__memory__usage=-1.0)),
    "bundle of nowhere": ("bundle_name", _with(bundles__0__bundle="0x00000000_0x10000000")),
    "upper-case hex": ("bundle_name", _with(bundles__0__bundle="t/ns/0xABCD0000_0xABCE0000")),
    "empty range": ("bundle_name", _with(bundles__0__bundle="t/ns/0x10000000_0x10000000")),
    "called tail": ("bundle_name", _with(bundles__0__bundle="tail")),
    "one bundle twice": ("duplicate_bundle", _with(bundles__0__bundle=bundle_name(1))),
    "totals too high": ("conservation", _with(totals__msg_rate_in=lambda old: old * 1.02)),
    "totals too low": ("conservation", _with(totals__storage_bytes=lambda old: old * 0.98 - 2)),
    "bundles not counted": ("conservation", _with(totals__bundles=17)),
}


def bad_value(case: str, broker: str, rng: random.Random) -> tuple[str, bytes | str | dict[str, Any] | None]:
    """The rule a case breaks, and the record."""
    rule, change = BAD[case]
    if not callable(change):
        return rule, change
    return rule, change(copy.deepcopy(report(broker, 1, [0, 1, 2], rng)))
