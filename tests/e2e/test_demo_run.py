"""The demo as a newcomer runs it, small and short: it must move, split, fail over, and lose nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.domain.entries import Kind
from controller.ledger.evidence import read_joined
from controller.ledger.follower import Follower
from controller.ledger.journal import Journal
from tests.e2e.programs import ballast

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1_800)]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """The last line of `ballast demo --json`, and the run's folder."""
    folder = tmp_path_factory.mktemp("demo") / "run"
    # minutes are limits of its steps, not waited for: on a slow machine the split comes later, and it must come
    words = ("demo", "--headless", "--json", "--minutes", "8", "--brokers", "2", "--dir", str(folder))
    done = ballast(*words, timeout_s=1_500)
    assert done.returncode == 0, done.stderr[-4000:] + done.stdout[-2000:]
    print(done.stderr)
    return json.loads(done.stdout.splitlines()[-1]), folder


@pytest.mark.covers("keeps-messages", "keeps-order", "keeps-deduplication")
def test_nothing_is_lost_doubled_or_reordered(demo: tuple[dict[str, Any], Path]) -> None:
    figures, _ = demo
    assert figures["messages_written"] > 1000
    assert figures["messages_read"] >= figures["messages_written"]
    broken = {name: figures[f"messages_{name}"] for name in ("lost", "duplicated", "reordered")}
    assert broken == {"lost": 0, "duplicated": 0, "reordered": 0}
    assert figures["invariants"] == "ok"


@pytest.mark.covers("hot-broker-relieved", "short-blip")
def test_it_moves_splits_and_fails_over(demo: tuple[dict[str, Any], Path]) -> None:
    figures, _ = demo
    assert figures["transfers"] >= 1
    assert figures["splits"] >= 1
    assert figures["rounds"] >= 4
    assert figures["failover_s"] is not None
    assert figures["handover_gap_p50_ms"] <= figures["handover_gap_p99_ms"]
    assert figures["spread_after"] < figures["spread_before"]
    assert figures["skew_to_relief_s"] > 0


def test_its_tables_stay_and_can_be_read(demo: tuple[dict[str, Any], Path]) -> None:
    figures, folder = demo
    assert yaml.safe_load((folder / "ballast.yaml").read_text())["tables"]["root"] == figures["tables"]
    follower = Follower(figures["tables"])
    follower.bootstrap()
    assert not follower.state.controller_running, "the controller said that it stopped"
    rounds = {e.data["round_id"] for e in Journal(figures["tables"]).read_since(0) if e.kind is Kind.ROUND}
    assert len(rounds) >= figures["rounds"], "some come between the last look and the end"
    assert set(read_joined(figures["tables"], "rounds")["round_id"].to_pylist()) == rounds
