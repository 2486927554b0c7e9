"""The tables that the settings name, with what their store needs to be told: endpoint, region and the like.

Credentials never come from here: delta-rs takes them from the environment, the files of the store's own tools, or the
machine's role.
"""

from __future__ import annotations

import os

from controller.config.settings import Settings
from controller.config.store_options import check_plain_http
from controller.ledger.tables import TableRoot

S3 = ("s3://", "s3a://")


def table_root(settings: Settings) -> TableRoot:
    """A new one; each thread needs its own. Raises ConfigError for an address of the store that would be refused."""
    tables = settings.tables
    if tables.root.lower().startswith(S3):
        check_plain_http(tables.storage_options, os.environ, settings.origin("tables.storage_options"))
    return TableRoot(tables.root, tables.storage_options)
