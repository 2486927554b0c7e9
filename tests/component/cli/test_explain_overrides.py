"""What `ballast explain BUNDLE` and the page say of overrides: which hold, and why a pin does not act."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from controller.cli.main import main
from controller.ui.cluster import LiveCluster
from controller.ui.views.bundle import bundle as bundle_view
from tests.short_run import ShortRun, begin_skewed

PINNED_TO = "b2:8080"


@pytest.fixture
def run(tmp_path: Path) -> ShortRun:
    return begin_skewed(tmp_path / "tables", 3, 6, 0)


def told(run: ShortRun, bundle: str, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    run.project()
    with pytest.raises(SystemExit) as ended:
        main(["explain", bundle, *more, "--set", f"tables.root={run.root.root}"])
    assert not ended.value.code
    return " ".join(capsys.readouterr().out.split())


def pin(run: ShortRun, **more: Any) -> str:
    """A bundle that an operator pins to another broker."""
    bundle = run.owned_by("b1:8080")[0]
    run.command("override", override="pin", bundle=bundle, broker=PINNED_TO, **more)
    return bundle


def pass_round(run: ShortRun) -> None:
    run.panes(2)
    run.round()


def test_a_pin_of_a_frozen_bundle_names_the_freeze(run: ShortRun, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = pin(run)
    run.command("override", override="freeze", bundle=bundle)
    frozen = next(wish.id for wish in run.state.overrides.values() if wish.kind == "freeze")
    pass_round(run)
    assert bundle in run.owned_by("b1:8080"), "the freeze comes first"
    text = told(run, bundle, capsys)
    assert "overrides in force" in text
    assert f"is not carried out: freeze {frozen} comes first" in text
    assert f"considered it and left it: freeze {frozen} keeps it on b1:8080" in text
    assert "was no source" not in text
    run.command("end_override", id=frozen)
    pass_round(run)
    assert bundle in run.owned_by(PINNED_TO)
    assert f"it is on {PINNED_TO}, and rounds leave it there" in told(run, bundle, capsys)


def test_a_pin_to_a_broker_that_is_gone_or_drained_says_so(run: ShortRun, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = pin(run)
    run.command("drain", broker=PINNED_TO)
    pass_round(run)
    text = told(run, bundle, capsys)
    assert f"is not carried out: {PINNED_TO} is drained (`ballast undrain {PINNED_TO}`)" in text
    assert f" to {PINNED_TO} is not carried out: {PINNED_TO} is drained" in text.partition("left it: pin ")[2]
    run.kill(PINNED_TO)
    assert f"is not carried out: {PINNED_TO} is gone" in told(run, bundle, capsys)


def test_a_pin_that_no_round_has_seen_yet_is_to_be_carried_out_by_the_next(
    run: ShortRun, capsys: pytest.CaptureFixture[str]
) -> None:
    pass_round(run)
    bundle = pin(run)
    text = told(run, bundle, capsys)
    assert "the next round moves it there" in text
    assert "left it: in round" in text, "the last round knew nothing of the pin"
    run.command("mode", mode="shadow")
    assert "is not carried out: the mode is shadow" in told(run, bundle, capsys)


def test_a_pin_that_rounds_have_passed_by_promises_nothing(run: ShortRun, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = pin(run)
    run.refusing.add(PINNED_TO)
    pass_round(run)
    assert f"or `ballast explain {PINNED_TO}`" in told(run, bundle, capsys)


def test_an_avoidance_says_whether_it_acts(run: ShortRun, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = run.owned_by("b1:8080")[0]
    run.command("override", override="avoid", namespace="shop/orders", broker="b3:8080")
    run.command("override", override="avoid", bundle=bundle, broker="b1:8080")
    effects = [row["effect"] for row in json.loads(told(run, bundle, capsys, "--json"))["overrides"]]
    assert effects == ["nothing sends it to b3:8080", "the next round moves it off b1:8080"]
    run.command("override", override="exclude_namespace", namespace="shop/orders")
    assert "does not move it off b1:8080: exclude_namespace " in told(run, bundle, capsys)


def test_the_page_says_the_same(run: ShortRun) -> None:
    bundle = pin(run)
    run.command("override", override="freeze", bundle=bundle)
    pass_round(run)
    run.project()
    cluster = LiveCluster(run.settings)
    cluster.poll()
    found = bundle_view(cluster, bundle, run.now_ms)
    assert "comes first" in found["overrides"][0]["effect"]
    assert "freeze " in found["stayed"]["sentence"]
    assert found["stayed"]["sentence"].endswith(" keeps it on b1:8080.")


def test_a_bundle_without_overrides_lists_none(run: ShortRun, capsys: pytest.CaptureFixture[str]) -> None:
    assert "overrides in force" not in told(run, run.owned_by("b1:8080")[0], capsys)
