"""The code of version 0.1.0, from the history of this repository, and a local cluster in which some processes run it.

The older code runs in the environment of this version: what differs is Ballast alone.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from controller.bus.topics import TopicNames, ensure_topics, live_topics
from controller.config.load import load_settings
from controller.config.table_root import table_root
from controller.process.children import Child
from controller.process.paths import ROOT
from controller.testbed.local_cluster import STORE, LocalCluster
from tests.stored_state.archive import extract_all

COMMIT = "6e82608"  # version 0.1.0
CONFIGURATION = """\
profile: demo
kafka: {{bootstrap_servers: '{bootstrap}'}}
tables: {{root: {folder}/tables, checkpoints: {folder}/checkpoints}}
store: {{address: '{store}'}}
loads: {{pane_s: 5, short_horizon_s: 10}}
rounds: {{round_interval_s: 5}}
agent: {{report_interval_ms: 1000}}
"""  # keys and paths that both versions read


def unpack_older_code(folder: Path) -> Path:
    """The older code, with this version's JARs; skips the test where the history does not have it."""
    packed = subprocess.run(["git", "archive", COMMIT], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        pytest.skip(f"this clone has no commit {COMMIT}, which is version 0.1.0: {packed.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        extract_all(archive, folder)
    (folder / ".cache").symlink_to(ROOT / ".cache")
    return folder


class MixedCluster(LocalCluster):
    """A local cluster whose configuration both versions read, with ways to start processes of the older one."""

    def __init__(self, folder: Path, older: Path) -> None:
        super().__init__(folder)
        self._older = older

    def begin(self, of_older_version: bool) -> None:
        """Start Kafka and this version's store; create topics, and tables as one of the versions does."""
        self.start_kafka()
        store = self.start("store", [*STORE, "--data-dir", str(self.folder / "store")])
        address = store.wait_for_line("ballast-store listening", 60).split()[-1]
        self.config_file.write_text(
            CONFIGURATION.format(bootstrap=self.kafka.bootstrap, folder=self.folder, store=address)
        )
        self._settings = load_settings(self.config_file)
        ensure_topics(self.kafka.bootstrap, live_topics(TopicNames(self._settings.kafka.topic_prefix)))
        if of_older_version:
            self._create_older_tables()
        else:
            table_root(self._settings).create_all()

    def start_older_agent(self, broker: str) -> Child:
        """An agent of 0.1.0 with its reference broker."""
        self.agents.add(broker)
        return self.start(broker, self._older_argv("agent", "--broker-id", broker))

    def start_older_job(self) -> Child:
        """The Spark job of 0.1.0."""
        return self.start("job", self._older_argv("run"))

    def _create_older_tables(self) -> None:
        root = str(self.folder / "tables")
        code = f"from controller.ledger.tables import TableRoot; TableRoot({root!r}).create_all()"
        done = subprocess.run([*self._at_older(), "-c", code], capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr

    def _older_argv(self, command: str, *more: str) -> list[str]:
        return [*self._at_older(), "-m", "controller.ops.cli", command, "--conf", str(self.config_file), *more]

    def _at_older(self) -> list[str]:
        """Python in the older checkout, whose modules come before the installed ones."""
        return ["env", "-C", str(self._older), f"PYTHONPATH={self._older}", sys.executable]
