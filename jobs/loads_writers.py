"""Appends load rows with Spark jobs: seconds a commit, but distributed. `controller.loads.driver_writer` has the same
contract from the driver, at 8 ms a commit."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from controller.ledger.tables import TableRoot
from controller.loads.driver_writer import Marker
from schemas.catalog import TABLES
from schemas.spark import ddl_type


class SparkWriter:
    """Appends DataFrames with Spark jobs; each partition becomes a file."""

    def __init__(self, root: TableRoot) -> None:
        self._root = root

    def append(self, name: str, rows: DataFrame, marker: Marker, constants: Mapping[str, str | int]) -> None:
        """Append `rows` with `constants` as further columns; a no-op if the batch is already in the table."""
        record = TABLES[name]
        columns = [
            (F.lit(constants[f.name]) if f.name in constants else F.col(f.name)).cast(ddl_type(f.type)).alias(f.name)
            for f in record
        ]
        (
            rows.select(*columns)
            .write.format("delta")
            .mode("append")
            .option("txnAppId", marker.app_id(name))
            .option("txnVersion", marker.batch_id)
            .option("userMetadata", json.dumps(dict(marker.metadata)))
            .save(self._root.uri(name))
        )
