"""Tables and checkpoints in an object store: a driver that dies is followed by one that finds everything there."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.ledger.tables import TableRoot
from controller.process.paths import CONF
from tests.cluster.site import Reports, Site, check_exact
from tests.component.object_store.conftest import Store

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def in_store(s3a: None, folder: Path, root: TableRoot) -> Iterator[Site]:
    """The job on this machine alone, whose folder holds nothing that a next driver needs."""
    options = ", ".join(f"{name}: '{value}'" for name, value in root.storage_options.items())
    file = folder / "ballast.yaml"
    places = f"root: '{root.root}', checkpoints: '{root.root.replace('s3://', 's3a://')}-checkpoints'"
    file.write_text(
        file.read_text().replace("root: tables, checkpoints: checkpoints", f"{places}, storage_options: {{{options}}}")
    )
    site = Site(folder, CONF / "spark" / "local.conf")
    site.root = root
    yield site
    for job in site.jobs:
        job.end()


def test_a_driver_on_another_machine_goes_on_where_the_first_died(
    in_store: Site, reports: Reports, store: Store, tmp_path: Path
) -> None:
    first = in_store.start()
    reports.send(300)
    in_store.wait(lambda: in_store.counted() >= 80, "some of many batches")
    os.killpg(first.process.pid, signal.SIGKILL)
    first.wait()
    assert "-checkpoints/loads/offsets/0" in store.listing()
    assert not list(tmp_path.rglob("offsets"))
    shutil.rmtree(tmp_path / "run", ignore_errors=True)
    reports.send(100)
    in_store.start()
    check_exact(in_store, reports)
