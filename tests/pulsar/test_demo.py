"""The demo on a real Pulsar cluster, as a user types it: Ballast adopts it and moves bundles; clients lose nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pulsar.conftest import spec_on_free_ports

pytest.importorskip("pulsar", reason="pulsar-client is not installed")
pytestmark = [pytest.mark.pulsar, pytest.mark.testbed]

TIMEOUT_S = 1_200
MOST_TO_FIRST_MOVE_S = 180  # from the moment that Ballast is let act; what else takes time depends on the machine


def test_the_short_demo_relieves_a_skew(pulsar_archive: None, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "controller.cli.main", "pulsar", "demo", "--short", "--headless", "--json"]
    more = ["--dir", str(tmp_path / "demo"), "--base-port", str(spec_on_free_ports().base_port)]
    done = subprocess.run([*argv, *more], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["orders"].get("moved", 0) > 0, figures
    assert (figures["lost"], figures["reordered"]) == (0, 0), figures
    assert figures["sent"] == figures["acknowledged"] > 0
    assert figures["spread_after"] < figures["spread_before"], figures
    assert figures["not_seen"] == [], figures
    assert figures["skew_to_first_move_s"] <= MOST_TO_FIRST_MOVE_S, figures
    assert "loadBalancerSheddingEnabled" in done.stderr, "check and adopt say what they find and change"
