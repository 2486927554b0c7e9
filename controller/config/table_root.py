"""The tables that the settings name, with what their store needs to be told: endpoint, region and the like.

Credentials never come from here: delta-rs takes them from the environment, the files of the store's own tools, or the
machine's role.
"""

from __future__ import annotations

from controller.config.settings import Settings
from controller.ledger.tables import TableRoot


def table_root(settings: Settings) -> TableRoot:
    """A new one; each thread needs its own."""
    return TableRoot(settings.tables.root, settings.tables.storage_options)
