"""The configuration of a captured slice: where its tables are, and what rounds went by.

Addresses, credentials and folders of the cluster stay behind, so that nothing reaches it from the slice.
"""

from __future__ import annotations

import json
from typing import Any

import yaml

from controller.config.settings import DEFINITIONS, Settings
from controller.operations.capture.about import TABLES_FOLDER
from controller.operations.reading import Reader

OF_ROUNDS = ("guard", "loads", "rounds", "shedding", "pacing", "steady", "weighted", "split", "broker", "placement",
             "pulsar")  # fmt: skip
_HEAD = "# The configuration of a captured slice: `--conf` this file. Rounds go by it as they did in the cluster.\n"


def config_text(reader: Reader, settings: Settings, until_ms: int, cluster: str) -> str:
    """The file: the values that the controller had at that time, else those given now."""
    values = {path: row["value"] for path, row in settings.dump().items()} | _ran_with(reader, until_ms)
    tree: dict[str, dict[str, Any]] = {
        "cluster": {"name": cluster},
        "kafka": {"bootstrap_servers": "127.0.0.1:1"},  # nobody listens there
        "tables": {"root": TABLES_FOLDER, "checkpoints": "checkpoints"},
    }
    for path in DEFINITIONS:
        section, _, name = path.partition(".")
        if section in OF_ROUNDS:
            tree.setdefault(section, {})[name] = values[path]
    return _HEAD + yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)


def _ran_with(reader: Reader, until_ms: int) -> dict[str, Any]:
    """The values of the newest configuration that a controller started with by then, of keys that are known here."""
    rows = reader.rows("config_history", "at_ms", -1, until_ms, ["at_ms", "config_json"]).sort_by("at_ms").to_pylist()
    if not rows:
        return {}
    stored = json.loads(rows[-1]["config_json"])
    return {path: row["value"] for path, row in stored.items() if path in DEFINITIONS}
