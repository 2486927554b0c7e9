"""The control query: Spark reads the control topics, `ControlLoop` does the rest, once a micro-batch.

Where to go on is the journal's word alone: every start takes a new checkpoint and begins at the journaled offsets, so
a checkpoint that is lost, old, damaged or of other tables cannot matter (docs/decisions/0004).
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from controller.service.loop import ControlLoop
from controller.service.reach import SourceSettings
from controller.service.records import Offsets
from jobs.control_source import collect, read_stream

log = logging.getLogger(__name__)

QUERY_NAME = "control"
POOL = "control"
CHECKPOINTS_KEPT = 3  # of earlier starts: one of them may be a replaced instance that still sleeps


def start_control(
    spark: SparkSession, loop: ControlLoop, source: SourceSettings, starting: Offsets, checkpoint: str, trigger_ms: int
) -> StreamingQuery:
    """Start the query; its batches run in the scheduler pool `control`, beside the loads query's.

    The loop must have claimed the journal before; `checkpoint` must be a folder that no query has used.
    """
    frame = read_stream(spark, source, json.dumps(starting, sort_keys=True))

    def on_batch(batch: DataFrame, batch_id: int) -> None:
        loop.process(lambda: collect(batch), batch_id)

    spark.sparkContext.setLocalProperty("spark.scheduler.pool", POOL)
    try:
        return (
            frame.writeStream.queryName(f"{QUERY_NAME} {loop.instance}")  # a name is unique in its session
            .foreachBatch(on_batch)
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime=f"{trigger_ms} milliseconds")
            .start()
        )
    finally:
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", None)


def stop_control(query: StreamingQuery, loop: ControlLoop) -> None:
    """Let the batch in hand finish, then end the query. Later batches fail, so Spark does not count them as done."""
    loop.stop()
    try:
        query.stop()
    except Exception as error:  # stopping reports the interruption as a failure now and then; the journal is complete
        log.warning("the control query's stop: %s", str(error).splitlines()[0] if str(error) else error)


def control_checkpoint(root: str, instance: str, wall_ms: int) -> str:
    """The checkpoint of one start, below `tables.checkpoints`; names sort by time."""
    folder = f"{root.rstrip('/')}/control" if "://" in root else str(Path(root).absolute() / "control")
    return f"{folder}/{wall_ms:014d}-{instance}"


def remove_old_checkpoints(spark: SparkSession, checkpoint: str) -> None:
    """Remove those of earlier starts but the newest few. A failure is logged: it costs some small files."""
    jvm, configuration = spark._jvm, spark._jsc.hadoopConfiguration()
    try:
        parent = jvm.org.apache.hadoop.fs.Path(checkpoint).getParent()
        files = parent.getFileSystem(configuration)
        found = [status.getPath() for status in files.listStatus(parent)] if files.exists(parent) else []
        earlier = sorted((p for p in found if p.getName()[:1].isdigit()), key=lambda p: p.getName())
        for path in earlier[:-CHECKPOINTS_KEPT]:
            files.delete(path, True)
    except Exception as error:
        log.warning("old checkpoints beside %s: %s", checkpoint, str(error).splitlines()[0])
