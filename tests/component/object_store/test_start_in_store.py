"""A start of the job in an object store: it asks whether the store keeps two writers apart before it writes tables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from controller.ledger.store.conditional_put import PROBE
from controller.ledger.tables import TableRoot
from controller.process.paths import CODE
from controller.service.arguments import EXIT_CONFIG
from tests.component.object_store.conftest import Store


@pytest.mark.parametrize("only", [(), ("--only", "control"), ("--only", "loads")], ids=["both", "control", "loads"])
def test_a_start_on_a_store_that_ignores_conditions_is_refused_in_one_line(
    only: tuple[str, ...], root: TableRoot, store: Store, tmp_path: Path
) -> None:
    """Whichever queries run, each creates tables. Neither Kafka nor Spark is there, and neither is asked."""
    store.set(ignore_conditions=True)
    written = store.written()
    tables = {"root": root.root, "checkpoints": str(tmp_path), "storage_options": root.storage_options}
    conf = tmp_path / "ballast.yaml"
    conf.write_text(yaml.safe_dump({"tables": tables, "logging": {"level": "error"}, "http": {"job_port": 0}}))
    command = [sys.executable, str(CODE / "jobs" / "balance.py"), "--conf", str(conf), *only]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (EXIT_CONFIG, "", 1), done.stderr
    assert done.stderr.startswith(f"ballast: tables.root = {root.root} is not allowed: this object store takes two wri")
    keys = store.written()[len(written) :]
    assert keys
    assert [key for key in keys if f"/{PROBE}/" not in key] == []
