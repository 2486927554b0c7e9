"""Records from outside that must not get in, and the rule each breaks."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.domain.errors import BadRecord
from controller.domain.events import parse_assign_request, parse_broker_event, parse_command, parse_heartbeat
from tests.examples import examples

PARSERS = (parse_heartbeat, parse_broker_event, parse_assign_request, parse_command)
BEAT = {"v": 1, "broker": "a:1", "incarnation": 1, "nonce": "n1", "session": 1, "applied_seq": 0}


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_none_are_refused_wherever_they_stand(number: str) -> None:
    raw = json.dumps({**BEAT, "info": {"capacity": {"cpu_pct": "X"}}}).replace('"X"', number).encode()
    with pytest.raises(BadRecord) as refused:
        parse_heartbeat(raw)
    assert refused.value.rule_id == "not_json"


@settings(max_examples=examples(40))
@given(raw=st.binary(max_size=300))
@pytest.mark.parametrize("parse", PARSERS)
def test_any_bytes_are_parsed_or_refused_by_a_rule(parse, raw: bytes) -> None:
    with pytest.raises(BadRecord) as refused:
        parse(raw)
    assert refused.value.rule_id


@settings(max_examples=examples(40))
@given(
    document=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
        max_leaves=20,
    ),
    field=st.sampled_from([*BEAT, "kind", "bundle", "epoch", "serving", "args", "id", "info", "data", "boundary"]),
    kind=st.sampled_from(["serving", "inventory", "goodbye", "mode"]),
)
@pytest.mark.parametrize("parse", PARSERS)
def test_any_value_in_any_field_is_parsed_or_refused_by_a_rule(parse, document, field: str, kind: str) -> None:
    whole = {
        **BEAT,
        "kind": kind,
        "id": "c1",
        "bundle": "t/n/0x00000000_0xffffffff",
        "epoch": 1,
        "args": {},
        field: document,
    }
    with contextlib.suppress(BadRecord):  # anything else that is raised fails the test
        parse(json.dumps(whole).encode())
