"""Records that must end in quarantine: malformed, out of range, forged, oversized, and each by which rule.

Hostile load reports are made from a real one that would make its broker the hottest of all, were it believed.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from typing import Any, NamedTuple

Document = dict[str, Any]


class Hostile(NamedTuple):
    """One record, its key, and the rule that must name it."""

    value: bytes
    key: str
    rule: str


def hostile_reports(real: Document, count: int) -> list[Hostile]:
    """Load reports as from `real`'s own session; `real` lists two bundles or more."""
    hot = copy.deepcopy(real)
    cpu = hot["resources"]["cpu"]
    cpu["usage"] = 0.99 * cpu["limit"]
    broker = str(real["broker"])
    raw = [(b"", "empty"), (b"\xff\xfe\x00{", "not_utf8"), (b"ping", "not_json"), (b"[" * 5_000, "not_json")]
    whole = json.dumps(hot).encode()
    raw += [(whole[: len(whole) // 2], "not_json"), (b"[" + whole + b"]", "not_json")]
    fixed = [Hostile(value, broker, rule) for value, rule in raw]
    fixed += [Hostile(_changed(hot, change), broker, rule) for change, rule in _REPORT_CHANGES]
    forged = {**hot, "broker": "../../etc/passwd"}
    fixed += [Hostile(json.dumps(forged).encode(), "../../etc/passwd", "broker_id")]
    fixed += [Hostile(whole, "another-broker", "key_mismatch")]
    return list(islice(cycle(fixed), count))


def hostile_heartbeats(count: int) -> list[Hostile]:
    """Heartbeats of a broker that does not exist, each with one thing wrong."""
    good = {"v": 1, "broker": "ghost", "incarnation": 1, "nonce": "abc", "session": 1, "applied_seq": 0, "info": {}}
    return _cycled(good, count, [
        ({"v": 2}, "version"), ({"broker": "a b"}, "broker_id"), ({"broker": ""}, "field_broker"),
        ({"incarnation": 0}, "field_incarnation"), ({"incarnation": True}, "field_incarnation"),
        ({"session": 2**60}, "field_session"), ({"nonce": "a.b"}, "nonce"), ({"applied_seq": -1}, "field_applied_seq"),
        ({"info": [1]}, "heartbeat_info"), ({"nonce": "x" * 65}, "field_nonce"),
    ])  # fmt: skip


def hostile_events(session: Document, bundle: str, count: int) -> list[Hostile]:
    """Answers in the name of a living session, about a bundle that another one owns."""
    good = {"v": 1, **session, "kind": "serving", "applied_seq": 0, "bundle": bundle, "epoch": 10**6}
    return _cycled(good, count, [
        ({"kind": "take_over"}, "event_kind"), ({"kind": ["serving"]}, "event_kind"),
        ({"bundle": None}, "event_bundle"),
        ({"bundle": "a/b/0x0_0x1"}, "bundle_name"), ({"bundle": f"{bundle}' OR 1=1"}, "bundle_name"),
        ({"epoch": -1}, "field_epoch"), ({"epoch": "1e400"}, "field_epoch"), ({"boundary": 2**33}, "split_boundary"),
        ({"kind": "inventory", "serving": {bundle: -1}}, "event_serving"),
        ({"kind": "inventory", "serving": [bundle]}, "event_serving"), ({"nonce": None}, "field_nonce"),
    ])  # fmt: skip


def hostile_assign_requests(bundle: str, count: int) -> list[Hostile]:
    """Lookups of nonsense."""
    return _cycled({"v": 1, "broker": "ghost", "bundle": bundle}, count, [
        ({"bundle": "no bundle"}, "bundle_name"), ({"bundle": 7}, "field_bundle"), ({"broker": "\n"}, "field_broker"),
        ({"v": None}, "version"), ({"bundle": "x" * 600}, "field_bundle"),
    ])  # fmt: skip


def hostile_commands(bundle: str, count: int) -> list[Hostile]:
    """Commands that would unload a bundle, were they well-formed."""
    good = {"v": 1, "id": "h", "kind": "unload_bundle", "args": {"bundle": bundle}, "who": "mallory"}
    return _cycled(good, count, [
        ({"args": [bundle]}, "command_args"), ({"id": None}, "field_id"), ({"id": "x" * 65}, "field_id"),
        ({"kind": {"$ne": None}}, "field_kind"), ({"v": "1"}, "version"), ({"who": "\ud800"}, "not_unicode"),
    ])  # fmt: skip


def _cycled(good: Document, count: int, changes: list[tuple[Document, str]]) -> list[Hostile]:
    fixed = [
        Hostile(b"", "k", "empty"),
        Hostile(b"{", "k", "not_json"),
        Hostile(b"[" * 100_000, "k", "not_json"),
        Hostile(b"null", "k", "not_object"),
        Hostile(b"\xc3\x28", "k", "not_json"),
    ]
    fixed += [Hostile(json.dumps({**good, **change}).encode(), "k", rule) for change, rule in changes]
    return list(islice(cycle(fixed), count))


def _changed(report: Document, change: Callable[[Document], object]) -> bytes:
    document = copy.deepcopy(report)
    change(document)
    return json.dumps(document).encode()


def _put(*path: str | int, value: object) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        place: Any = document
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return change


def _numbers() -> Iterator[tuple[Callable[[Document], object], str]]:
    for value in (float("nan"), float("inf"), float("-inf")):
        yield _put("resources", "cpu", "usage", value=value), "nonfinite"
        yield _put("bundles", 0, "msg_rate_in", value=value), "nonfinite"
    yield _put("totals", "msg_rate_in", value=-1), "negative"
    yield _put("bundles", 0, "throughput_out", value=-5.0), "negative"
    yield _put("rpc_queue_ms", value=-0.5), "negative"
    yield lambda d: d["resources"]["cpu"].update(usage=3.01 * d["resources"]["cpu"]["limit"]), "impossible"
    yield _put("resources", "cpu", "usage", value=-1.0), "impossible"
    yield _put("totals", "msg_rate_in", value=10.0**12), "conservation"
    yield lambda d: d["totals"].update(bundles=d["totals"]["bundles"] + 1), "conservation"


_REPORT_CHANGES: list[tuple[Callable[[Document], object], str]] = [
    (_put("v", value=2), "version"),
    (lambda d: d.pop("v"), "version"),
    (_put("resources", value="none"), "wrong_type"),
    (_put("bundles", value={"a": 1}), "wrong_type"),
    (_put("sequence", value="'; DROP TABLE journal; --"), "wrong_type"),
    (lambda d: d.pop("totals"), "missing_field"),
    (lambda d: d["resources"].pop("cpu"), "missing_field"),
    (_put("nonce", value=None), "missing_field"),
    (_put("nonce", value="a b"), "session"),
    (_put("incarnation", value=0), "session"),
    (_put("sequence", value=-1), "session"),
    (_put("bundles", 0, "bundle", value="../../etc/passwd"), "bundle_name"),
    (_put("bundles", 0, "bundle", value="a/b/0x80000000_0x40000000"), "bundle_name"),
    (lambda d: d["bundles"][0].update(bundle=d["bundles"][1]["bundle"]), "duplicate_bundle"),
    *_numbers(),
]
