"""The Spark session of every job and Spark test: one place for JARs, Delta, Python and loopback binding.

Started by spark-submit, a job keeps what `--properties-file` and `--conf` gave and only what is missing is filled in.
Started by plain `python` (tests, notebooks, benchmarks), the same defaults and the JARs of the project's cache apply.
Spark's settings live in `conf/spark/*.conf`, each with its why; here is only what the code cannot work without.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkConf
from pyspark.sql import SparkSession

from controller.domain.errors import ConfigError

ROOT = Path(__file__).resolve().parents[1]
JAR_FOLDER = ROOT / ".cache" / "jars" / "spark"
LOCAL_CONF = ROOT / "conf" / "spark" / "local.conf"

# Without these nothing works: Delta's SQL extension and catalog; UTC, because panes are cut from the epoch.
REQUIRED = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
# Used where neither spark-submit nor the configuration file nor `extra` says otherwise.
FALLBACK = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
}
# The same, where driver and executors are one process. Executors elsewhere could not reach a driver at this address.
LOOPBACK = {
    "spark.driver.bindAddress": "127.0.0.1",  # a look-up of the host's own name can take seconds
    "spark.driver.host": "127.0.0.1",
}


def read_conf(path: Path) -> dict[str, str]:
    """A Spark properties file (`key value` or `key=value`). Raises ConfigError on a line without value."""
    found: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        key, value = _split(text)
        if not key.startswith("spark.") or not value:
            raise ConfigError(f"{path}:{number}: {line.strip()!r} is not 'spark.<key> <value>'")
        found[key] = value
    return found


def build_session(
    app_name: str,
    conf_file: Path | None = None,
    extra: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session with Delta and the Kafka source; an existing session of this process is returned as it is.

    Precedence: what spark-submit gave, then `extra`, then `conf_file` (default `conf/spark/local.conf` when the job was
    not submitted), then the fallbacks. Raises ConfigError when the JARs are missing.
    """
    conf = SparkConf()  # holds spark.* of spark-submit
    fill_in(conf, conf_file, extra)
    if not conf.contains("spark.jars") and not conf.contains("spark.jars.packages"):
        conf.set("spark.jars", ",".join(_cached_jars()))
    if _is_local(conf):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Without this, Python workers take the system's python and miss pyarrow and pandas.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = SparkSession.builder.appName(app_name).config(conf=conf).getOrCreate()
    session.sparkContext.setLogLevel(conf.get("spark.log.level", "WARN"))
    return session


def fill_in(conf: SparkConf, conf_file: Path | None = None, extra: Mapping[str, str] | None = None) -> None:
    """Set what `conf` does not say yet, by `build_session`'s precedence, and what nobody may change."""
    submitted = conf.contains("spark.submit.deployMode")
    path = conf_file or (LOCAL_CONF if not submitted and LOCAL_CONF.exists() else None)
    for wanted in (extra or {}, read_conf(path) if path is not None else {}, FALLBACK):
        _set_missing(conf, wanted)
    if _is_local(conf):
        _set_missing(conf, LOOPBACK)
    for key, value in REQUIRED.items():
        conf.set(key, value)


def _set_missing(conf: SparkConf, wanted: Mapping[str, str]) -> None:
    for key, value in wanted.items():
        if not conf.contains(key):
            conf.set(key, value)


def _is_local(conf: SparkConf) -> bool:
    return str(conf.get("spark.master")).startswith("local")


def _split(text: str) -> tuple[str, str]:
    for position, char in enumerate(text):
        if char in " \t=":
            return text[:position], text[position + 1 :].strip(" \t=")
    return text, ""


def _cached_jars() -> list[str]:
    jars = sorted(str(path) for path in JAR_FOLDER.glob("*.jar"))
    if not jars:
        raise ConfigError(f"no Spark JARs in {JAR_FOLDER}: run 'make setup' once with network access")
    return jars
