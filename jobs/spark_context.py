"""What the jobs use of Spark beyond its typed interface: py4j gateway, scheduler pools, JVM loggers, checkpoints.

S3 has no atomic rename, by which Spark's usual manager puts a file of a checkpoint into place. The one for S3 writes
each as an upload that appears when it is complete, and aborts it otherwise. Only the loads query keeps its checkpoint
there: that of the control query is of no use to anybody but its own run, as the journal says where to go on, and the
query writes to it several times a second.

On a local disk and without libhadoop, the usual manager runs `readlink` and `chmod` as child processes, thirty of them
a micro-batch. Another of Spark's runs eight.
"""

from __future__ import annotations

import atexit
import logging
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from controller.domain.errors import ForeignCommit
from controller.ledger.store.away import is_of_store
from controller.ledger.store.room import NoRoom
from controller.process.spark_submit import S3A
from controller.service.loop import Stopping

CHECKPOINT_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
MANAGER_OF_DISK = "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager"
MANAGER_OF_S3 = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"

log = logging.getLogger(__name__)

JVM_BATCHES = "org.apache.spark.sql.execution.streaming.MicroBatchExecution"
# They write a line with every micro-batch: at five batches a second they hide everything else.
NOISY_JVM_LOGGERS = (
    # "Current batch is falling behind": expected, as the trigger interval is shorter than a batch.
    "org.apache.spark.sql.execution.streaming.ProcessingTimeExecutor",
    # "Kafka property ... is not a known config" and group ids, for every consumer.
    "org.apache.kafka.clients.consumer.ConsumerConfig",
    "org.apache.kafka.clients.admin.AdminClientConfig",
)


def gateway_of(context: SparkContext) -> Any:
    """The py4j gateway to the JVM. It is untyped, and set as soon as there is a context."""
    return context._gateway


def scala_context_of(context: SparkContext) -> Any:
    """The SparkContext of the JVM, which knows more than Python's."""
    return context._jsc.sc()


def hadoop_path(spark: SparkSession, place: str) -> tuple[Any, Any]:
    """Hadoop's path of a place, and the file system that it is on."""
    context = spark.sparkContext
    path = gateway_of(context).jvm.org.apache.hadoop.fs.Path(place)
    return path, path.getFileSystem(scala_context_of(context).hadoopConfiguration())


@contextmanager
def scheduler_pool(context: SparkContext, pool: str) -> Iterator[None]:
    """Queries started inside run their jobs in this pool of Spark's fair scheduler."""
    context.setLocalProperty("spark.scheduler.pool", pool)
    try:
        yield
    finally:
        context.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type]  # None unsets it


def quieten(context: SparkContext) -> None:
    """Let the noisy loggers log errors only, and py4j, which logs every call to the JVM, warnings only."""
    logging.getLogger("py4j").setLevel(logging.WARNING)
    log4j = gateway_of(context).jvm.org.apache.logging.log4j
    for name in NOISY_JVM_LOGGERS:
        log4j.core.config.Configurator.setLevel(name, log4j.Level.ERROR)


def tell_in_one_line(context: SparkContext, error: BaseException) -> None:
    """Call this where a batch is about to fail. Of a full disk, of another controller and of the table store the job's
    own line says all, and a batch after the stop has nothing to say: neither py4j nor Spark shall write the stack as
    well, each some fifty lines. The query ends with this failure, and the process with it."""
    if isinstance(error, NoRoom | ForeignCommit | Stopping) or is_of_store(error):
        log.debug("a batch failed", exc_info=error)
        logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
        log4j = gateway_of(context).jvm.org.apache.logging.log4j
        log4j.core.config.Configurator.setLevel(JVM_BATCHES, log4j.Level.OFF)


@contextmanager
def checkpoint_settings(spark: SparkSession, checkpoint: str, storage_options: Mapping[str, str]) -> Iterator[None]:
    """Start a query inside: it keeps a copy of the session's settings, and other queries of the session have theirs."""
    wanted: dict[str, str] = {}
    if _is_in_s3(checkpoint):
        wanted = settings_of_s3(storage_options)
    elif _is_on_disk(spark, checkpoint) and spark.conf.get(CHECKPOINT_MANAGER, None) is None:
        wanted = {CHECKPOINT_MANAGER: MANAGER_OF_DISK}
    before: dict[str, str | None] = {name: spark.conf.get(name, None) for name in wanted}
    try:
        for name, value in wanted.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, kept in before.items():
            if kept is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, kept)


def settings_of_s3(storage_options: Mapping[str, str]) -> dict[str, str]:
    """Spark's manager of checkpoints there, and S3A's names for what `tables.storage_options` says by delta-rs's."""
    given = {name.lower(): value for name, value in storage_options.items()}
    found = {CHECKPOINT_MANAGER: MANAGER_OF_S3}
    if region := given.get("aws_region"):
        found["fs.s3a.endpoint.region"] = region
    if endpoint := given.get("aws_endpoint") or given.get("aws_endpoint_url"):
        found |= {
            "fs.s3a.endpoint": endpoint,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.connection.ssl.enabled": "false" if endpoint.startswith("http:") else "true",
        }
    return found


def local_instead(root: str) -> str:
    """The folder of the control query's checkpoint: `root`, or one of this process for an address of S3."""
    if not _is_in_s3(root):
        return root
    folder = tempfile.mkdtemp(prefix="ballast-control-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _is_in_s3(checkpoint: str) -> bool:
    return checkpoint.startswith(f"{S3A}:")


def _is_on_disk(spark: SparkSession, checkpoint: str) -> bool:
    """Whether it is on this machine: a path without a scheme may be in HDFS."""
    _, files = hadoop_path(spark, checkpoint)
    return str(files.getUri().getScheme()) == "file"
