"""Frames of columns by name: what is left out, what is refused, and how bundles come in and go out."""

from __future__ import annotations

import json

import numpy as np
import pytest

from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.domain.state import LIVE
from controller.policy.view.frame import NOBODY, OWNED, BundleFacts, Frame, place_of

NAMES = ("t/n/0x0_0x4", "t/n/0x4_0x8", "t/o/0x0_0x4")


def frame(**broker: object) -> Frame:
    """Two brokers; three bundles, the last of which both report."""
    rows = 4
    return Frame.of(
        1_000,
        LIVE,
        ("b1", "b2"),
        NAMES,
        broker={"incarnation": np.array([3, 5]), "registered": 1, "alive": 1, **broker},
        bundle={"owner": np.array([0, 1, 1]), "status": OWNED, "epoch": np.array([7, 8, 9])},
        row={"bundle": np.array([0, 1, 2, 2]), "reporter": np.array([0, 1, 0, 1]), "reports": 12},
        usage=np.ones((2, len(RESOURCES)), np.int64),
        limit=np.ones((2, len(RESOURCES)), np.int64),
        totals=np.zeros((2, len(BUNDLE_FIELDS)), np.int64),
        row_fields=np.arange(rows * len(BUNDLE_FIELDS)).reshape(rows, -1),
        namespace_bundles={"t/n": 2, "t/o": 1},
    )


def test_a_column_is_found_by_name_one_value_holds_for_all_and_what_is_left_out_is_0() -> None:
    made = frame(reports=np.array([12, 0]))
    assert made.broker("incarnation").tolist() == [3, 5]
    assert made.broker("alive").tolist() == [1, 1]
    assert made.broker("reports").tolist() == [12, 0]
    assert made.broker("last_event_ms").tolist() == [0, 0]
    assert made.bundle("epoch").tolist() == [7, 8, 9]
    assert made.row("reports").tolist() == [12] * 4
    stored = made.to_json()
    assert stored["brokers"][0][:3] == ["b1", 3, 1]
    assert stored["broker_columns"][:3] == ["broker", "incarnation", "registered"]
    assert Frame.from_json(json.loads(json.dumps(stored))).to_json() == stored


def test_a_column_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="asleep"):
        frame(asleep=1)


@pytest.mark.parametrize("fact", ["drained", "leaving", "lagging"])
def test_in_service_is_who_is_alive_and_stays(fact: str) -> None:
    assert frame(**{fact: np.array([0, 1])}).in_service.tolist() == [True, False]
    assert frame(alive=np.array([0, 1])).in_service.tolist() == [False, True]


def test_selected_bundles_keep_their_rows_and_brokers() -> None:
    kept = frame().select(np.array([False, True, True]))
    assert kept.bundles == NAMES[1:]
    assert kept.row("bundle").tolist() == [0, 1, 1]
    assert kept.row("reporter").tolist() == [1, 0, 1]
    assert kept.bundle("epoch").tolist() == [8, 9]
    assert kept.row_fields.tolist() == frame().row_fields[1:].tolist()
    assert kept.brokers == ("b1", "b2")


def test_inserted_bundles_stand_in_order_and_have_no_rows() -> None:
    more = {"t/n/0x2_0x3": BundleFacts(1, OWNED, 20, 0), "a/b/0x0_0x4": BundleFacts(NOBODY, OWNED, 21, 5)}
    grown = frame().insert(more)
    assert grown.bundles == ("a/b/0x0_0x4", NAMES[0], "t/n/0x2_0x3", *NAMES[1:])
    assert grown.bundle("epoch").tolist() == [21, 7, 20, 8, 9]
    assert grown.bundle("owner").tolist() == [NOBODY, 0, 1, 1, 1]
    assert grown.row("bundle").tolist() == [1, 3, 4, 4]
    assert grown.select(np.isin(grown.bundles, NAMES)).to_json() == frame().to_json()


@pytest.mark.parametrize("names", [NAMES, tuple(name.encode() for name in NAMES)])
def test_the_place_of_a_name(names: tuple[str, ...]) -> None:
    assert [place_of(names, name) for name in names] == [0, 1, 2]
    assert place_of(names, names[1] + names[1]) is None
    assert place_of((), names[0]) is None
