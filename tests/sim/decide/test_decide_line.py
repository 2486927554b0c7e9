"""One line of `ballast decide`: what it becomes, and what a wrong one is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from controller.decide.line import parse_line
from controller.domain.errors import BadRecord
from controller.domain.load import RESOURCES
from tests.sim.decide.decide_lines import Lines

CPU, MEMORY, DISK = RESOURCES.index("cpu"), RESOURCES.index("memory"), RESOURCES.index("disk_io")


def document() -> dict[str, Any]:
    return Lines().broker("a", {"x": 10, "y": 20}).broker("b", {"z": 30}).document()


def parsed(doc: object) -> Any:
    return parse_line(json.dumps(doc).encode())


def test_figures_stand_where_the_line_has_them() -> None:
    line = parsed(document())
    assert line.brokers == ("a", "b")
    assert line.bundles == ["x", "y", "z"]
    assert line.held.tolist() == [2, 1]
    assert line.figures[1].tolist() == [1000, 1000, 10_000_000, 10_000_000, 10, 2, 3]
    assert line.usage[:, CPU].tolist() == [30, 30]
    assert line.limit[:, CPU].tolist() == [100, 100]
    assert np.isnan(line.usage[:, DISK]).all()  # the protocol has no disk
    assert (line.now_ms, line.members_changed) == (1_000_000, False)


def test_what_is_not_told_is_unknown() -> None:
    doc = document()
    del doc["brokers"]["a"]["memory"]
    doc["brokers"]["b"]["memory"] = [-1, -1]
    doc["brokers"]["c"] = {}
    line = parsed(doc)
    assert np.isnan(line.usage[:, MEMORY]).all()
    assert np.isnan(line.limit[2]).all()
    assert line.held.tolist() == [2, 1, 0]
    assert line.readable.all()


@pytest.mark.parametrize(("pair", "readable"), [([-1, 100], False), ([301, 100], True), ([1000, 100], True)])
def test_a_negative_usage_makes_its_broker_unreadable_alone_and_none_is_too_large(
    pair: list[float], readable: bool
) -> None:
    doc = document()
    doc["brokers"]["a"]["cpu"] = pair
    assert parsed(doc).readable.tolist() == [readable, True]


def test_a_line_without_brokers_or_bundles_is_a_line() -> None:
    assert parsed({"now": 5, "brokers": {}}).brokers == ()
    assert parsed({"now": 5, "brokers": {"a": {"bundles": {}}}}).figures.shape == (0, 7)


def put(path: str, value: object) -> Callable[[dict[str, Any]], None]:
    def change(doc: dict[str, Any]) -> None:
        *parents, last = path.split("/")
        for name in parents:
            doc = doc[name]
        doc[last] = value

    return change


WRONG = {
    "no time": (put("now", None), "now = 'null'"),
    "a time that is text": (put("now", "12"), "now = '12'"),
    "a time that is true": (put("now", True), "now = 'true'"),
    "a negative time": (put("now", -1), "now = '-1'"),
    "a switch that is a number": (put("membersChanged", 1), "membersChanged = '1'"),
    "brokers as a list": (put("brokers", []), r"brokers = '\[\]'"),
    "a broker as a number": (put("brokers/a", 7), "brokers.a = '7'"),
    "one number for a resource": (put("brokers/a/cpu", [3]), r"a.cpu = '\[3\]': give 2 numbers, \[usage, limit\]"),
    "text for a resource": (put("brokers/a/cpu", ["3", 100]), "a.cpu: usage = '3'"),
    "true for a resource": (put("brokers/a/cpu", [True, 100]), "a.cpu: usage = 'true'"),
    "bundles as a list": (put("brokers/a/bundles", ["x"]), r"a.bundles = "),
    "six figures": (put("brokers/a/bundles/x", [1] * 6), "a.bundles.x = .*give 7 numbers"),
    "an object for figures": (put("brokers/a/bundles/x", {}), "a.bundles.x = '{}'"),
    "text among figures": (put("brokers/b/bundles/z", [1, 2, "many", 4, 5, 6, 7]), "z: throughputIn = 'many'"),
    "null among figures": (put("brokers/b/bundles/z", [1, 2, 3, 4, None, 6, 7]), "z: topics = 'null'"),
    "true among figures": (put("brokers/b/bundles/z", [1, 2, 3, 4, 5, True, 7]), "z: producers = 'true'"),
    "a negative rate": (put("brokers/b/bundles/z", [1, -2, 3, 4, 5, 6, 7]), "z: msgRateOut = -2"),
    "a number beyond all": (put("brokers/b/bundles/z", [1, 2, 10**400, 4, 5, 6, 7]), "z: throughputIn = '1000"),
    "a nameless bundle": (put("brokers/b/bundles/", [1] * 7), "empty name"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_value_is_named(what: str) -> None:
    change, text = WRONG[what]
    doc = document()
    change(doc)
    with pytest.raises(BadRecord, match=text):
        parsed(doc)


@pytest.mark.parametrize("raw", [b"", b"\n", b"[]", b"{", b'{"now": NaN, "brokers": {}}', b"\xff\xfe", b"7", b"null"])
def test_what_is_no_json_object_is_refused(raw: bytes) -> None:
    with pytest.raises(BadRecord):
        parse_line(raw)


def test_a_long_wrong_value_is_cut() -> None:
    with pytest.raises(BadRecord) as refused:
        parse_line(b'{"now": 1, "brokers": "' + b"x" * 10_000 + b'"}')
    assert len(refused.value.text) < 300
