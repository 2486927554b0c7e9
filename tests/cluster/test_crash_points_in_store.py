"""The controller is killed at every named point of a batch while its tables are in an object store.

The same stories as `tests/component/test_crash_points`, once each: what differs is the store.
"""

from __future__ import annotations

import random
import uuid
from pathlib import Path

import pytest

from controller.config.sections.platform import Tables
from tests.component.crash_stage import KILLED, CrashCluster, stop_and_check
from tests.component.object_store.conftest import CREDENTIALS, Store
from tests.component.object_store.server import BUCKET
from tests.component.test_crash_points import FAILURES, kills, play

pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize("seed", [2, 3])
def test_killed_at_every_point_and_failed_in_every_way(seed: int, store: Store, tmp_path: Path) -> None:
    """Seed 2 has the kills, seed 3 the failures."""
    choice = random.Random(seed)
    plans = kills(choice) if seed == 2 else list(FAILURES)
    options = {"aws_endpoint": store.address, "aws_allow_http": "true"}
    tables = Tables(root=f"s3://{BUCKET}/{uuid.uuid4().hex[:8]}", storage_options=options)
    cluster = CrashCluster(seed, tmp_path, plans, tables=tables, environment=CREDENTIALS)
    try:
        play(cluster, choice)
        entries = stop_and_check(cluster)
    finally:
        cluster.close()
    assert cluster.ends.count(KILLED) == sum("kill" in plan for plan in plans), cluster.ends
    assert len({entry.instance for entry in entries}) >= 2
    assert not (tmp_path / "tables").exists()


def test_killed_while_the_store_is_slow_and_refuses(store: Store, tmp_path: Path) -> None:
    """Unknown outcomes from the store itself, besides those of the failpoints."""
    choice = random.Random(7)
    plans = ["journal.appended=kill@4", "control.before_journal=kill@9"]
    options = {"aws_endpoint": store.address, "aws_allow_http": "true"}
    tables = Tables(root=f"s3://{BUCKET}/{uuid.uuid4().hex[:8]}", storage_options=options)
    cluster = CrashCluster(7, tmp_path, plans, tables=tables, environment=CREDENTIALS)
    store.set(method="PUT", part="/journal/_delta_log/", lose=25, delay_s=0.05)  # more than one commit tries
    try:
        play(cluster, choice)
        stop_and_check(cluster)
    finally:
        cluster.close()
    assert cluster.ends.count(KILLED) == len(plans), cluster.ends
    assert store.faults().lose == 0
