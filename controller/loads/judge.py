"""Validates one load report exactly: the first rule it breaks, or its values. Pure Python, one record at a time.

Records that `controller.loads.columns` cannot prove valid in bulk come here, so this is the definition. It is slow
(some ms per thousand bundles) and need not be fast, because valid reports rarely come here. No content of a record can
raise.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from controller.domain.load import BUNDLE_FIELDS, IMPOSSIBLE_FACTOR, RESOURCES
from controller.domain.strict_json import WHOLE_END
from controller.loads.rules import BROKER_PATTERN, NONCE_PATTERN, VERSION, ReportLimits

_BROKER, _NONCE = re.compile(BROKER_PATTERN[1:-1]), re.compile(NONCE_PATTERN[1:-1])
_BUNDLE = re.compile(r"[^/ ]{1,128}/[^/ ]{1,128}/0x[0-9a-f]{8}_0x[0-9a-f]{8}")
_LONG_DIGITS = 19  # of a 64-bit integer; longer numbers become floats, as in other languages
_NUMBER_WORDS = {
    "NaN",
    "Infinity",
    "+Infinity",
    "-Infinity",
    "INF",
    "+INF",
    "-INF",
}  # never valid, but of the type number
_IDS, _TIMES = ("incarnation", "session", "sequence"), ("rpc_queue_ms", "metadata_latency_ms")
_COUNTED = (*BUNDLE_FIELDS, "bundles")

Document = dict[str, Any]


class Verdict(NamedTuple):
    """`rule` and `detail` of a bad report, or the `report`: only fields of the schema, with numbers as floats."""

    rule: str | None
    detail: str = ""
    report: Document | None = None


def judge(value: bytes | None, size: int, key: bytes | None, event_ms: int, limits: ReportLimits) -> Verdict:
    """Validate one record. `size` is its full size in bytes; `value` may be only its head if it is too large."""
    if not value or size == 0:
        return Verdict("empty")
    if size > limits.max_report_bytes:
        return Verdict("too_large", f"{size} bytes")
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return Verdict("not_utf8")
    document = _parse(text)
    if document is None:
        return Verdict("not_json")
    found = _version(document) or _shape(document)
    broker = document.get("broker")
    if found is not None:
        return found if found.detail else Verdict(found.rule, broker if isinstance(broker, str) else "")
    report = _plain(document)
    return _contents(report, key, event_ms, limits) or Verdict(None, "", report)


def _parse(text: str) -> Document | None:
    try:
        document = json.loads(text, parse_int=_integer)
    except (ValueError, RecursionError, MemoryError):
        return None
    return document if isinstance(document, dict) else None


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _LONG_DIGITS + 1 else float(digits)


def _version(document: Document) -> Verdict | None:
    given = document.get("v")
    if (type(given) is int and given == VERSION) or given == str(VERSION):  # "1" is the wrong type of the right version
        return None
    return Verdict("version", str(given) if isinstance(given, (str, int, float)) else "")


# ---------------------------------------------------------------------------- types and presence


def _shape(document: Document) -> Verdict | None:
    kinds = [_kind(found, wanted) for found, wanted in _fields(document)]
    if "wrong" in kinds:
        return Verdict("wrong_type")
    return Verdict("missing_field") if "missing" in kinds else None


def _fields(document: Document) -> Iterator[tuple[object, str]]:
    """Every field of the schema: the value found, and the kind of value it must be."""
    yield document.get("v"), "long"
    yield from ((document.get(name), "text") for name in ("broker", "nonce"))
    yield from ((document.get(name), "long") for name in _IDS)
    yield from ((document.get(name), "number") for name in _TIMES)
    resources = document.get("resources")
    yield resources, "object"
    for name in RESOURCES:
        resource = _of(resources, name)
        yield resource, "object"
        yield from ((_of(resource, part), "number") for part in ("usage", "limit"))
    yield document.get("totals"), "object"
    yield from ((_of(document.get("totals"), name), "number") for name in _COUNTED)
    if document.get("tail") is not None:
        yield document["tail"], "object"
        yield from ((_of(document["tail"], name), "number") for name in _COUNTED)
    bundles = document.get("bundles")
    yield bundles, "list"
    for bundle in bundles if isinstance(bundles, list) else ():
        yield bundle, "object"
        yield _of(bundle, "bundle"), "text"
        yield from ((_of(bundle, name), "number") for name in BUNDLE_FIELDS)


def _of(place: object, name: str) -> object:
    return place.get(name) if isinstance(place, dict) else None


def _kind(found: object, wanted: str) -> str:
    if found is None:
        return "missing"
    if wanted == "number":
        fits = type(found) in (int, float) or (isinstance(found, str) and found in _NUMBER_WORDS)
    elif wanted == "long":
        fits = type(found) is int and -(2**63) <= found < 2**63
    else:
        fits = isinstance(found, {"text": str, "object": dict, "list": list}[wanted])
    return "fits" if fits else "wrong"


def _plain(document: Document) -> Document:
    """Only the fields of the schema, numbers as floats, ids unchanged."""
    stats, tail = document["totals"], document.get("tail")
    return {
        **{name: document[name] for name in ("v", "broker", "nonce", *_IDS)},
        **{name: _number(document[name]) for name in _TIMES},
        "resources": {
            name: {part: _number(document["resources"][name][part]) for part in ("usage", "limit")}
            for name in RESOURCES
        },
        "totals": {name: _number(stats[name]) for name in _COUNTED},
        "tail": None if tail is None else {name: _number(tail[name]) for name in _COUNTED},
        "bundles": [
            {"bundle": row["bundle"], **{name: _number(row[name]) for name in BUNDLE_FIELDS}}
            for row in document["bundles"]
        ],
    }


def _number(found: Any) -> float:
    return float(found.replace("INF", "Infinity") if isinstance(found, str) else found)


# ---------------------------------------------------------------------------- values


def _contents(report: Document, key: bytes | None, event_ms: int, limits: ReportLimits) -> Verdict | None:
    broker = report["broker"]
    return (
        _identity(report, key, event_ms)
        or _too_many(report, limits)
        or _numbers(report, broker)
        or _names(report, broker)
        or (None if is_conserved(report, limits) else Verdict("conservation", broker))
    )


def _identity(report: Document, key: bytes | None, event_ms: int) -> Verdict | None:
    broker, ids = report["broker"], [report[name] for name in _IDS]
    if not _BROKER.fullmatch(broker):
        return Verdict("broker_id", broker)
    if key != broker.encode():
        return Verdict("key_mismatch", f"{(key or b'').decode('utf-8', 'replace')} reports for {broker}".strip())
    if not _NONCE.fullmatch(report["nonce"]) or min(ids[:2]) < 1 or min(ids) < 0 or max(ids) >= WHOLE_END:
        return Verdict("session", broker)
    return Verdict("no_timestamp", broker) if event_ms < 0 else None


def _too_many(report: Document, limits: ReportLimits) -> Verdict | None:
    count = len(report["bundles"])
    return Verdict("too_many_bundles", f"{count} bundles") if count > limits.max_report_bundles else None


def _numbers(report: Document, broker: str) -> Verdict | None:
    usages = [report["resources"][name] for name in RESOURCES]
    counts = [report[name] for name in _TIMES] + list(report["totals"].values()) + list((report["tail"] or {}).values())
    counts += [bundle[name] for bundle in report["bundles"] for name in BUNDLE_FIELDS]
    if not all(map(math.isfinite, counts)) or not all(math.isfinite(v) for u in usages for v in u.values()):
        return Verdict("nonfinite", broker)
    if min(counts) < 0:
        return Verdict("negative", broker)
    for u in usages:
        if u["limit"] > 0 and (u["usage"] < 0 or u["usage"] > u["limit"] * IMPOSSIBLE_FACTOR):
            return Verdict("impossible", broker)
    return None


def _names(report: Document, broker: str) -> Verdict | None:
    names = [bundle["bundle"] for bundle in report["bundles"]]
    for name in names:
        if not is_good_name(name):
            return Verdict("bundle_name", name)
    return Verdict("duplicate_bundle", broker) if len(set(names)) < len(names) else None


def is_good_name(name: str) -> bool:
    """Whether it is tenant/namespace/0xLLLLLLLL_0xUUUUUUUU, in lower-case hex with lower < upper, and printable."""
    return _BUNDLE.fullmatch(name) is not None and name[-19:-11] < name[-8:] and name.isprintable()


def is_conserved(report: Document, limits: ReportLimits) -> bool:
    """Whether |bundles + tail - total| is within the tolerance for every field, and the number of bundles is exact."""
    tail, totals, bundles = report["tail"], report["totals"], report["bundles"]
    if len(bundles) + (tail["bundles"] if tail else 0.0) != totals["bundles"]:
        return False
    for name in BUNDLE_FIELDS:
        total = totals[name]
        part = sum(bundle[name] for bundle in bundles) + (tail[name] if tail else 0.0)
        if not abs(part - total) <= max(total * limits.conservation_tolerance, limits.conservation_slack):
            return False
    return True
