"""Programs that fail with secrets in hand: `failing_programs.py WHICH BALLAST_YAML`, by python or spark-submit."""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from controller.bus.security import reveal_secrets, spark_options
from controller.config.load import load_settings
from controller.config.settings import Settings
from controller.process.logs import configure_logs


def spark_reads(settings: Settings) -> None:
    """A stream and a batch from Kafka; a refused password fails in the JVM, which tells plans and options."""
    from jobs.session import build_session

    spark = build_session("failing")
    options = {"kafka.bootstrap.servers": settings.kafka.bootstrap_servers, "subscribe": "load-reports"}
    options |= {"kafka.request.timeout.ms": "5000", "kafka.default.api.timeout.ms": "5000"}
    options |= reveal_secrets(spark_options(settings.kafka.client))
    frame = spark.readStream.format("kafka").options(**options).load()
    frame.explain(True)
    query = frame.writeStream.format("noop").start()
    try:
        query.awaitTermination(90)
    except Exception as error:
        print(f"the stream: {error}", query.lastProgress, query.status)
        query.explain(True)
    spark.read.format("kafka").options(**options).load().collect()


def spark_starts_by_itself(settings: Settings) -> None:
    """A session by plain python, with an object store's key among its settings, which is then refused."""
    from jobs.session import build_session

    key = settings.kafka.client["sasl_plain_password"].get_secret_value()  # type: ignore[union-attr]
    conf = Path(sys.argv[2]).with_name("spark.conf")
    conf.write_text(f"spark.hadoop.fs.s3a.secret.key {key}\nspark.log.level INFO\nspark.logConf true\n")
    spark = build_session("failing", conf)
    spark.sql("SET -v").count()
    assert spark.sparkContext.getConf().get("spark.hadoop.fs.s3a.secret.key") == key
    spark.read.text("s3a://nowhere/x").collect()


def threads_and_children(settings: Settings) -> None:
    """Whatever does not run in the main thread."""
    configure_logs("debug", settings.logging.json_lines)
    thread = threading.Thread(target=_fail, args=(settings,))
    thread.start()
    thread.join()
    child = multiprocessing.get_context("spawn").Process(target=_fail, args=(settings,))
    child.start()
    child.join()

    async def later() -> None:
        asyncio.get_running_loop().call_soon(_fail, settings)
        task = asyncio.create_task(asyncio.to_thread(_fail, settings))
        await asyncio.wait([task])

    asyncio.run(later())
    _fail(settings)


def _fail(settings: Settings) -> None:
    opened = reveal_secrets(settings.kafka.client)
    raise RuntimeError(f"a fault with {len(opened)} settings in hand")


if __name__ == "__main__":
    globals()[sys.argv[1]](load_settings(Path(sys.argv[2])))
