"""Tables of the loads query: mergeable partial panes, rolling averages, quarantine.

A pane row is partial: a pane is the merge of all its rows (sums add, maxima take the largest). A row of averages is
whole, but not final: each batch with a further report of its window appends a newer one. Columns follow the order of
`controller.domain.load`.
"""

from __future__ import annotations

from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from schemas.record import BOOLEAN, DOUBLE, LONG, STRING, Field, Record, TableOptions
from schemas.units import FIELD_UNITS, RESOURCE_UNITS

_BROKER = Field("broker", STRING, "", "broker id")
_INCARNATION = Field("incarnation", LONG, "", "incarnation of the broker")
_BUNDLE = Field("bundle", STRING, "", "bundle name; tail for everything not among the busiest")
_NAMESPACE = Field("namespace", STRING, "", "tenant/namespace; empty for the tail")
_PANE_END = Field("pane_end_ms", LONG, "ms since epoch", "end of the pane, exclusive, on the axis of event time")
_AS_OF = Field("as_of_ms", LONG, "ms since epoch", "pane end the averages are taken at")
_REPORTS = Field("reports", LONG, "count", "reports that went in")
_LISTED = Field("reports", LONG, "count", "reports of the broker that went in: those that list the bundle")
_LATE = "a late report adds a row, and the one with the most reports counts"
_MARKER = (
    Field("writer", STRING, "", "application id of the writing query"),
    Field("batch_id", LONG, "", "micro-batch that wrote the row"),
)


def _pane_resource(name: str) -> tuple[Field, ...]:
    unit = RESOURCE_UNITS[name]
    return (
        Field(f"{name}_usage_sum", DOUBLE, unit, f"sum of known {name} usage"),
        Field(f"{name}_usage_max", DOUBLE, unit, f"largest known {name} usage"),
        Field(f"{name}_limit_sum", DOUBLE, unit, f"sum of known {name} limits"),
        Field(f"{name}_known", LONG, "count", f"reports with known {name} usage and limit"),
    )


def _sum_and_max(name: str, unit: str, what: str) -> tuple[Field, ...]:
    return (
        Field(f"{name}_sum", DOUBLE, unit, f"sum over the reports: {what}"),
        Field(f"{name}_max", DOUBLE, unit, f"largest of the reports: {what}"),
    )


def _average_resource(name: str) -> tuple[Field, ...]:
    unit = RESOURCE_UNITS[name]
    return (
        Field(f"{name}_usage", DOUBLE, unit, f"short average of {name} usage; null: unknown", nullable=True),
        Field(f"{name}_limit", DOUBLE, unit, f"short average of the {name} limit; null: unknown", nullable=True),
        Field(f"{name}_utilisation", DOUBLE, "fraction", f"short average of {name} utilisation", nullable=True),
        Field(f"{name}_utilisation_long", DOUBLE, "fraction", f"decayed average over hours of {name}", nullable=True),
    )


def _average(name: str, what: str) -> Field:
    return Field(name, DOUBLE, FIELD_UNITS[name], f"short average: {name.replace('_', ' ')} of {what}")


BROKER_PANES = Record(
    "broker_panes",
    "one tumbling window of load reports of one broker, as mergeable parts",
    (
        _PANE_END,
        _BROKER,
        _INCARNATION,
        _REPORTS,
        *(f for name in RESOURCES for f in _pane_resource(name)),
        *_sum_and_max("rpc_queue_ms", "ms", "time in the request queue"),
        *_sum_and_max("metadata_latency_ms", "ms", "latency of the metadata store"),
        *(
            Field(f"{name}_sum", DOUBLE, FIELD_UNITS[name], f"sum over the reports: {name} of the broker")
            for name in BUNDLE_FIELDS
        ),
        Field("bundles_sum", DOUBLE, "count", "sum over the reports: bundles served"),
        Field("last_sequence", LONG, "", "largest sequence of the reports"),
        Field("first_event_ms", LONG, "ms since epoch", "event time of the first report"),
        Field("last_event_ms", LONG, "ms since epoch", "event time of the last report"),
        *_MARKER,
    ),
    TableOptions(
        key=("pane_end_ms", "broker", "incarnation", "writer", "batch_id"),
        statistics=("pane_end_ms", "first_event_ms", "last_event_ms"),
        expires_by="pane_end_ms",
        kept_as="loads_days",
    ),
)

BUNDLE_PANES = Record(
    "bundle_panes",
    "one tumbling window of one bundle on one broker, as mergeable parts",
    (
        _PANE_END,
        _BUNDLE,
        _NAMESPACE,
        _BROKER,
        _LISTED,
        *(f for name in BUNDLE_FIELDS for f in _sum_and_max(name, FIELD_UNITS[name], f"{name} of the bundle")),
        *_MARKER,
    ),
    TableOptions(
        key=("pane_end_ms", "bundle", "broker", "writer", "batch_id"),
        statistics=("pane_end_ms",),
        expires_by="pane_end_ms",
        kept_as="loads_days",
    ),
)

BROKER_LOAD = Record(
    "broker_load",
    f"rolling averages of a broker as of a pane end; {_LATE}",
    (
        _AS_OF,
        _BROKER,
        _INCARNATION,
        Field("short_from_ms", LONG, "ms since epoch", "start of the window of the short averages"),
        _REPORTS,
        *(f for name in RESOURCES for f in _average_resource(name)),
        Field("rpc_queue_ms", DOUBLE, "ms", "short average: time in the request queue"),
        Field("metadata_latency_ms", DOUBLE, "ms", "short average: latency of the metadata store"),
        *(_average(name, "the broker") for name in BUNDLE_FIELDS),
        Field("bundles", DOUBLE, "count", "short average: bundles served"),
        *_MARKER,
    ),
    TableOptions(
        key=("as_of_ms", "broker", "incarnation", "writer", "batch_id"),
        statistics=("as_of_ms",),
        expires_by="as_of_ms",
        kept_as="loads_days",
    ),
)

BUNDLE_LOAD = Record(
    "bundle_load",
    "rolling averages of a bundle on a broker as of a pane end, over the reports that list it and not over the whole "
    f"window, so that bundles need not sum to their broker; {_LATE}",
    (
        _AS_OF,
        _BUNDLE,
        _NAMESPACE,
        _BROKER,
        _LISTED,
        *(_average(name, "the bundle") for name in BUNDLE_FIELDS),
        Field("msg_rate_long", DOUBLE, "messages/s", "decayed average over hours: messages in and out"),
        Field("throughput_long", DOUBLE, "bytes/s", "decayed average over hours: bytes in and out"),
        *_MARKER,
    ),
    TableOptions(
        key=("as_of_ms", "bundle", "broker", "writer", "batch_id"),
        statistics=("as_of_ms",),
        expires_by="as_of_ms",
        kept_as="loads_days",
    ),
)

QUARANTINE = Record(
    "quarantine",
    "records from outside that break a rule; they influence nothing else",
    (
        Field("detected_ms", LONG, "ms since epoch", "wall time of the batch that found it"),
        Field("topic", STRING, "", "Kafka topic"),
        Field("partition", LONG, "", "Kafka partition"),
        Field("kafka_offset", LONG, "", "Kafka offset"),
        Field("kafka_timestamp_ms", LONG, "ms since epoch", "timestamp of the Kafka record", nullable=True),
        Field("rule", STRING, "", "id of the rule it breaks"),
        Field("text", STRING, "", "what is wrong, with the offending value"),
        Field("raw", STRING, "", "the record, as text or base64; null for an empty one", nullable=True),
        Field("raw_base64", BOOLEAN, "", "raw is base64, because it is not UTF-8"),
        Field("source", STRING, "", "loads or control"),
        Field("batch_id", LONG, "", "micro-batch that found it"),
    ),
    TableOptions(
        key=("topic", "partition", "kafka_offset"),
        statistics=("detected_ms",),
        expires_by="detected_ms",
        kept_as="quarantine_days",
    ),
)
