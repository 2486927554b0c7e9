"""Fuzzed records for the control topics: honest ones with one thing changed, as text or as bytes, and plain noise.

None of them speaks for a living session, so none may change who owns what, however well-formed it is.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from controller.bus.topics import TopicNames
from controller.service.records import Row

UNKNOWN_BUNDLE = "t/none/0x00000000_0xffffffff"
_WHO = {"v": 1, "broker": "ghost:1", "incarnation": 1, "nonce": "n1", "session": 1, "applied_seq": 3, "sent_ms": 5}
HONEST: list[dict[str, Any]] = [
    {**_WHO, "info": {"runtime": "reference", "can_fence": True, "capacity": {"cpu_pct": 200}}},
    {"v": 1, "kind": "tick", "instance": "ghost", "seq": 2**40, "sent_ms": 5},
    *({**_WHO, "kind": k, "bundle": UNKNOWN_BUNDLE, "epoch": 1} for k in ("accepted", "released", "serving", "fenced")),
    {**_WHO, "kind": "split_done", "bundle": UNKNOWN_BUNDLE, "epoch": 1, "data": {"lower_load": 1, "upper_load": 2}},
    {**_WHO, "kind": "split_proposed", "bundle": UNKNOWN_BUNDLE, "epoch": 1, "boundary": 5},
    {**_WHO, "kind": "inventory", "serving": {UNKNOWN_BUNDLE: 1}},
    {**_WHO, "kind": "observed", "serving": {UNKNOWN_BUNDLE: 1}},
    {**_WHO, "kind": "goodbye"},
    {"v": 1, "broker": "ghost:1", "bundle": UNKNOWN_BUNDLE, "sent_ms": 5},
    {"v": 1, "id": "c1", "kind": "unload_bundle", "args": {"bundle": UNKNOWN_BUNDLE}, "who": "m", "why": "w"},
    {"v": 1, "id": "c2", "kind": "create_topic", "args": {"topic": "persistent://t/none/x", "partitions": 2}},
    {"v": 1, "id": "c3", "kind": "split_bundle", "args": {"bundle": UNKNOWN_BUNDLE, "boundary": 5}},
]
_TEXT = st.text(st.characters(), max_size=12) | st.sampled_from(["\ud800", "\x00", "ghost:1", "inventory", "é😀"])
_NUMBER = st.integers() | st.floats() | st.sampled_from([2**63, 10**400, -(10**30), 1e308, float("nan"), float("inf")])
_VALUE = st.recursive(
    st.none() | st.booleans() | _NUMBER | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=12,
)
_DEEP = st.integers(2, 900).map(lambda depth: json.loads("[" * depth + "]" * depth))
_FIELDS = sorted({name for record in HONEST for name in record} | {"boundary", "reason", "data", "extra"})


def _escaped(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode()


def _as_bytes(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _in_utf_16(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode("utf-16")


def _twice(document: dict[str, Any]) -> bytes:
    whole = json.dumps(document)
    return f"{whole[:-1]}, {whole[1:]}".encode()


@st.composite
def values(draw: st.DrawFn) -> bytes:
    """The bytes of one record."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=200))
    document = dict(draw(st.sampled_from(HONEST)))
    for field in draw(st.lists(st.sampled_from([*document, *document, *_FIELDS]), max_size=2)):
        value = draw(_VALUE | _DEEP)
        document[field] = {"inner": value} if isinstance(document.get(field), dict) and draw(st.booleans()) else value
    whole = draw(st.sampled_from([_escaped, _as_bytes, _escaped, _as_bytes, _in_utf_16, _twice]))(document)
    cut = draw(st.sampled_from([None, None, None, len(whole) // 2, -1]))
    flip = draw(st.none() | st.integers(0, len(whole) - 1))
    if flip is not None and draw(st.booleans()):
        whole = whole[:flip] + bytes([whole[flip] ^ draw(st.integers(1, 255))]) + whole[flip + 1 :]
    return whole[:cut]


@st.composite
def rows(draw: st.DrawFn, names: TopicNames, first_offset: int = 0) -> list[Row]:
    """Records for one batch, on any control topic, with any key."""
    found = []
    for number, value in enumerate(draw(st.lists(values(), min_size=1, max_size=12))):
        topic = draw(st.sampled_from(names.control))
        key = draw(st.sampled_from([None, "ghost:1", "other:1"]))
        found.append(Row(topic, 0, first_offset + number, 5, value, key))
    return found
