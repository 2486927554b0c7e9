"""Lines of `ballast decide`: each gets one answer, the stream and its state go on."""

from __future__ import annotations

import io
import json
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.cli.tryout.decide import answer_lines
from controller.decide.line import Line, parse_line
from controller.decide.session import DecideSession
from controller.domain.errors import BadRecord
from controller.domain.settings.policy import PolicySettings
from tests.fuzz.hostile import DEEP, LONG, Pairs, records, write
from tests.fuzz.limits import bounded, check_error, fuzzing, read_or_refuse

FIGURES = [100.0, 200.0, 1e6, 2e6, 4, 2, 3]


def broker(load: float, *bundles: str) -> dict[str, Any]:
    """A broker's part of a line."""
    return {
        "cpu": [load, 400.0], "memory": [1e9, 4e9], "directMemory": [1e8, 1e9], "bandwidthIn": [1e6, 1e9],
        "bandwidthOut": [2e6, 1e9], "bundles": {name: [*FIGURES] for name in bundles},
    }  # fmt: skip


def line(now: int) -> dict[str, Any]:
    """Three brokers, of which the first has too much."""
    names = [f"t/n/0x{n:x}0000000_0x{n + 1:x}0000000" for n in range(8)]
    return {"now": now, "membersChanged": False, "brokers": {
        "a:1": broker(390.0, *names[:5]), "b:1": broker(20.0, *names[5:7]), "c:1": broker(10.0, names[7])}}  # fmt: skip


LINES = [line(60_000), {**line(120_000), "membersChanged": True}, {"now": 1, "brokers": {}}]


def read(raw: bytes) -> Line | None:
    """Parse one line, or have it refused."""
    return read_or_refuse(parse_line, raw, BadRecord, len(raw))


@fuzzing(24, 9_000)
@given(records(LINES))
def test_a_line_is_read_or_refused(raw: bytes) -> None:
    found = read(raw)
    if found is None:
        return
    assert found.usage.shape == found.limit.shape == (len(found.brokers), found.usage.shape[1])
    assert found.figures.shape == (len(found.bundles), 7)
    assert sum(found.held) == len(found.bundles)
    again = parse_line(json.dumps(spelled(found)).encode())
    assert (again.brokers, again.bundles, again.now_ms) == (found.brokers, found.bundles, found.now_ms)
    assert (again.figures == found.figures).all()


def spelled(found: Line) -> dict[str, Any]:
    """A line that has the same bundles."""
    brokers, at = {}, 0
    for name, held in zip(found.brokers, found.held.tolist(), strict=True):
        rows = zip(found.bundles[at : at + held], found.figures[at : at + held].tolist(), strict=True)
        brokers[name] = {"bundles": dict(rows)}
        at += held
    return {"now": found.now_ms, "membersChanged": found.members_changed, "brokers": brokers}


def answers(raws: list[bytes]) -> list[dict[str, Any]]:
    """What is printed for these lines, each ended."""
    session, out, ticks = DecideSession("steady", PolicySettings()), io.StringIO(), count()
    with bounded(sum(map(len, raws)), besides=16 * 2**20):
        answer_lines(session, io.BytesIO(b"".join(raw + b"\n" for raw in raws)), out, lambda: next(ticks) * 1e-3)
    return [json.loads(text) for text in out.getvalue().splitlines()]


@fuzzing(5, 300)
@given(st.lists(records(LINES), min_size=1, max_size=3))
def test_each_line_gets_its_answer_and_the_honest_ones_behind_are_decided(hostile: list[bytes]) -> None:
    one_line = [raw.replace(b"\n", b" ") for raw in hostile]
    end = json.dumps(line(2**53 - 60_001)).encode()
    found = answers([json.dumps(line(1)).encode(), *one_line, end, b"x", end])
    assert len(found) == len(hostile) + 4
    for one in found:
        assert "fault of ballast decide" not in one.get("error", ""), one
        if "error" in one:
            check_error(one["error"])
    assert "error" in found[-2]
    assert "decisions" in found[-1] or "of the line before: give lines" in found[-1]["error"], found[-1]


@pytest.mark.parametrize(
    "raw",
    [
        b'{"now":1' + b"0" * 5_000 + b',"brokers":{}}',
        b'{"now":-' + b"9" * 5_000 + b',"brokers":{}}',
        json.dumps({"now": 1, "brokers": {"b" * LONG: 5}}).encode(),
        json.dumps({"now": 1, "brokers": {"\x1b[2J": 5}}).encode(),
        json.dumps({"now": 1, "brokers": {"a": {"bundles": {"b" * LONG: [1]}}}}).encode(),
        json.dumps({"now": 1, "brokers": {"a": {"bundles": {"b\n": [-1, 0, 0, 0, 0, 0, 0]}}}}).encode(),
        b"[" * DEEP,
        b'{"now":[' + b"[" * 90 + b"]" * 90 + b'],"brokers":{}}',
        b'{"now":"\\ud800","brokers":{}}',
        b"\xff" * 100,
        b"",
    ],
    ids=range(11),
)
def test_what_is_wrong_is_told_in_one_short_line(raw: bytes) -> None:
    assert read(raw) is None


@pytest.mark.parametrize("twice", ["brokers", "broker", "bundle"])
def test_a_name_that_stands_twice_is_refused(twice: str) -> None:
    """Of two values of one name the first was dropped without a word."""
    both = Pairs([("a:1", broker(1.0)), ("a:1", broker(2.0))])
    bundles = Pairs([("t/n/x", FIGURES), ("t/n/x", FIGURES)])
    tree = {
        "brokers": Pairs([("now", 1), ("brokers", {}), ("brokers", {})]),
        "broker": {"now": 1, "brokers": both},
        "bundle": {"now": 1, "brokers": {"a:1": {"bundles": bundles}}},
    }[twice]
    with pytest.raises(BadRecord, match="more than once"):
        parse_line(write(tree).encode())


@pytest.mark.parametrize("figure", [2.0**53, 1e300, 1e15])
def test_figures_as_large_as_allowed_are_decided_on(figure: float) -> None:
    """Memory in MiB is multiplied; what does not fit into 64 bits must not turn negative."""
    lines = []
    for now in (1, 60_001, 120_001):
        document = line(now)
        document["brokers"]["a:1"] |= {key: [figure, figure] for key in ("cpu", "memory", "bandwidthIn")}
        document["brokers"]["b:1"] |= {"memory": [figure, 10.0], "directMemory": [figure, 999_999.0]}
        lines.append(json.dumps(document).encode())
    for one in answers(lines):
        assert "fault of ballast decide" not in one.get("error", ""), one
