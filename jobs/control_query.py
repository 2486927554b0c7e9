"""The control query: Spark reads the control topics and calls `ControlLoop` once per micro-batch.

Only the journal determines where to continue: every start uses a new checkpoint and begins at the journaled offsets,
so a lost, old, damaged or foreign checkpoint does no harm (docs/decisions/0004).
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from controller.bus.reach import SourceSettings
from controller.domain.errors import first_line
from controller.service.loop import ControlLoop
from controller.service.records import Offsets
from jobs.control_source import collect, read_stream
from jobs.spark_context import checkpoint_settings, hadoop_path, scheduler_pool, tell_in_one_line

log = logging.getLogger(__name__)

QUERY_NAME = "control"
POOL = "control"
CHECKPOINTS_KEPT = 3  # of earlier starts: one may belong to a replaced instance that is only paused


def start_control(
    spark: SparkSession, loop: ControlLoop, source: SourceSettings, starting: Offsets, checkpoint: str, trigger_ms: int
) -> StreamingQuery:
    """Start the query. Its batches run in the scheduler pool `control`, separate from the loads query's.

    The loop must have claimed the journal; `checkpoint` must be a folder that no query has used.
    """
    frame = read_stream(spark, source, json.dumps(starting, sort_keys=True))

    def on_batch(batch: DataFrame, batch_id: int) -> None:
        try:
            loop.process(lambda: collect(batch), batch_id)
        except BaseException as error:
            tell_in_one_line(spark.sparkContext, error)
            raise

    with scheduler_pool(spark.sparkContext, POOL), checkpoint_settings(spark, checkpoint, {}):
        return (
            frame.writeStream.queryName(f"{QUERY_NAME} {loop.instance}")  # names are unique within a session
            .foreachBatch(on_batch)
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime=f"{trigger_ms} milliseconds")
            .start()
        )


def stop_control(query: StreamingQuery, loop: ControlLoop) -> None:
    """Let the running batch finish, then stop the query. Later batches fail, so Spark does not count them as done."""
    loop.stop()
    try:
        query.stop()
    except Exception as error:  # an interrupted stop sometimes counts as a failure; the journal is complete
        log.warning("the control query's stop: %s", first_line(error))


def control_checkpoint(root: str, instance: str, wall_ms: int) -> str:
    """The checkpoint folder of one start, below `tables.checkpoints`; names sort by time."""
    folder = f"{root.rstrip('/')}/control" if "://" in root else str(Path(root).absolute() / "control")
    return f"{folder}/{wall_ms:014d}-{instance}"


def remove_old_checkpoints(spark: SparkSession, checkpoint: str) -> None:
    """Remove checkpoints of earlier starts except the newest few. Failures are logged: they only cost disk space."""
    try:
        path, files = hadoop_path(spark, checkpoint)
        parent = path.getParent()
        found = [status.getPath() for status in files.listStatus(parent)] if files.exists(parent) else []
        earlier = sorted((p for p in found if p.getName()[:1].isdigit()), key=lambda p: p.getName())
        for path in earlier[:-CHECKPOINTS_KEPT]:
            files.delete(path, True)
    except Exception as error:
        log.warning("old checkpoints beside %s: %s", checkpoint, first_line(error))
