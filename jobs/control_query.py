"""The control query: Spark reads the control topics, `ControlLoop` does the rest, once a micro-batch.

The streaming checkpoint is only Spark's bookmark: a lost one starts again from the journaled offsets, a stale one
replays records that the loop drops.
"""

from __future__ import annotations

import logging
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from jobs.control_loop import ControlLoop
from jobs.control_source import SourceSettings, collect, read_stream, starting_offsets

log = logging.getLogger(__name__)

QUERY_NAME = "control"
POOL = "control"


def start_control(
    spark: SparkSession, loop: ControlLoop, source: SourceSettings, checkpoint: str, trigger_ms: int
) -> StreamingQuery:
    """Start the query; its batches run in the scheduler pool `control`, beside the loads query's.

    The loop must have claimed the journal before: nobody else may be moving this checkpoint.
    """
    frame = read_stream(spark, source, starting_offsets(source, loop.state.offsets))

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


def control_checkpoint(root: str) -> str:
    """Where the query's checkpoint lies below `tables.checkpoints`."""
    return f"{root.rstrip('/')}/control" if "://" in root else str(Path(root).absolute() / "control")
