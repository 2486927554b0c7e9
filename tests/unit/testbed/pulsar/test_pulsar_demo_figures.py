"""The figures of the Pulsar demo, from entries and client reports made by hand."""

from __future__ import annotations

import re
from typing import Any

from controller.domain.entries import Entry, Kind
from controller.domain.ids import Bundle
from controller.process.paths import ROOT
from controller.testbed.demo.figures import RoundView
from controller.testbed.demo.screen.events import order_line
from controller.testbed.pulsar.demo.figures import Move, PulsarDemoFigures, moves_of, spread_of
from controller.testbed.pulsar.traffic.report import Gap, TrafficReport

LOW, HIGH = "demo/load/0x00000000_0x80000000", "demo/load/0x80000000_0xffffffff"
TOPIC = "persistent://demo/load/topic-000"


def entry(kind: Kind, at_ms: int, bundle: str, data: dict[str, Any]) -> Entry:
    return Entry(1, kind, "x", 1, at_ms, bundle=bundle, reason="100_overloaded", data=data)


def order(at_ms: int, bundle: str, outcome: str, took_ms: int | None = 80) -> list[Entry]:
    name = f"o{at_ms}"
    return [
        entry(Kind.ORDER, at_ms, bundle, {"id": name, "kind": "move", "source": "b1", "target": "b2"}),
        entry(Kind.ORDER_ENDED, at_ms + 100, bundle, {"id": name, "outcome": outcome, "took_ms": took_ms}),
    ]


def test_moves_are_those_that_arrived() -> None:
    entries = [*order(1_000, LOW, "moved"), *order(2_000, HIGH, "refused", None)]
    assert moves_of(entries) == [Move(Bundle.parse(LOW), 1_000, 1_100)]
    figures = PulsarDemoFigures()
    figures.take_orders(entries)
    assert figures.orders == {"moved": 1, "refused": 1}
    assert figures.order_took_ms["max"] == 80


def test_the_gap_of_a_move_is_that_of_its_topics_and_its_time() -> None:
    moves = [Move(bundle, 1_000, 1_100) for bundle in map(Bundle.parse, (LOW, HIGH)) if TOPIC in Move(bundle, 0, 0)]
    gaps = [Gap(TOPIC, 300, 2_000), Gap(TOPIC, 900, 9_000), Gap("persistent://other/load/topic-000", 800, 2_000)]
    figures = PulsarDemoFigures()
    figures.take_clients(TrafficReport(sent=7, lost=1, publish_gaps=gaps), [TOPIC], moves)
    assert len(moves) == 1
    assert figures.move_gap_ms == {"p50": 300, "p99": 300, "max": 300}
    assert (figures.sent, figures.lost, figures.clean) == (7, 1, False)


def test_spread_is_the_highest_over_the_mean() -> None:
    assert spread_of(RoundView(0, 0, {"b1": 0.75, "b2": 0.25})) == 1.5
    assert spread_of(RoundView(0, 0, {})) is None


def test_every_figure_is_explained_in_the_documentation() -> None:
    part = (ROOT / "docs" / "pulsar.md").read_text().partition("## See it act")[2].partition("\n## ")[0]
    explained = {name for line in part.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+)`", line)}
    assert PulsarDemoFigures().to_json().keys() - explained == set()


def test_orders_are_told_in_a_line() -> None:
    opened, ended = order(1_000, LOW, "moved")
    assert order_line(opened).startswith("move load/0x00000000_0x80000000: b1 → b2, ")
    assert order_line(ended) == "  moved after 80 ms: load/0x00000000_0x80000000"
    assert "after" not in order_line(order(1, LOW, "expired", None)[1])
    split = entry(Kind.ORDER, 1, LOW, {"id": "s", "kind": "split", "source": "b1", "boundary": 5})
    assert order_line(split).startswith("split load/0x00000000_0x80000000 on b1")
