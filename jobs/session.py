"""Builds the Spark session of every job and Spark test: JARs, Delta, Python and loopback binding.

A job started by spark-submit keeps what that gave (master, name, JARs, `--properties-file`, `--conf`, the cluster's
`spark-defaults.conf`); only missing settings are filled in, from the JVM's point of view, which starts before Python.
Under plain `python` (notebooks, benchmarks) the same defaults and the JARs of the project's cache apply. The JVM then
reads them from a file that only this user can read, because everybody can see a command line in the list of processes.

Spark's settings live in `conf/spark/*.conf`, each with its reason; this module only has those the code depends on.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from controller.domain.errors import ConfigError
from controller.process.paths import CONF, JARS, SET_UP, jars_of
from controller.process.setup_java import utf8_locale
from controller.process.spark_submit import check_master

LOCAL_CONF = CONF / "spark" / "local.conf"

GATEWAY = "PYSPARK_GATEWAY_PORT"  # spark-submit sets it in the environment of the driver
SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"

EXTENSIONS, DELTA = "spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension"
# Required settings: Delta's catalog; UTC, because panes are aligned to the epoch.
REQUIRED = {
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
SECRETS = "(?i)secret|passw|token|credential|jaas|(access|account|private|api)[._-]?key|sas[._-]?key"
# Plans show the options of a Kafka source as `name -> value, `, JAAS has `password="value"`.
SECRETS_IN_TEXT = (
    r'(?i)(passw|secret|token)[^\s=]*\s*=\s*"(?:[^"\\]|\\.)*"|(password|key|token|secret) -> .*?(?=, [a-z]+\.|\),|$)'
)
# Used unless spark-submit, the configuration file or `extra` sets them.
FALLBACK = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    # What Spark redacts wherever it shows settings or options; its default pattern misses JAAS and account keys.
    "spark.redaction.regex": SECRETS,
    "spark.sql.redaction.options.regex": f"{SECRETS}|url",
    "spark.redaction.string.regex": SECRETS_IN_TEXT,
    "spark.sql.streaming.stopTimeout": "3s",  # without a limit, a query whose Kafka hangs does not stop
    "spark.scheduler.allocation.file": (CONF / "spark" / "pools.xml").as_uri(),
}
# Used if driver and executors are one process. Remote executors could not reach a driver at this address.
LOOPBACK = {
    "spark.driver.bindAddress": "127.0.0.1",  # resolving the host's own name can take seconds
    "spark.driver.host": "127.0.0.1",
}


def read_conf(path: Path) -> dict[str, str]:
    """Read a Spark properties file (`key value` or `key=value`). Raises ConfigError on a line without a value."""
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
    """A session with Delta and the Kafka source; an active session of this process is returned unchanged.

    Precedence: spark-submit, then `extra`, then `conf_file` (by default `conf/spark/local.conf`, unless the job was
    submitted), then the fallbacks. Raises ConfigError if the JARs are missing, NoMaster if a standalone master does
    not answer.
    """
    existing = SparkSession.getActiveSession()
    if existing is not None:
        return existing
    if GATEWAY in os.environ or SparkContext._gateway is not None:
        SparkContext._ensure_initialized()  # before SparkConf(), which otherwise does not see the JVM's settings
        conf = SparkConf()
        _complete(conf, conf_file, extra)
    else:
        conf = _launch_jvm(conf_file, extra)
    if conf.get("spark.app.name", "") in ("", "pyspark-shell", Path(sys.argv[0]).name):  # a default name
        conf.setAppName(app_name)
    check_master(conf.get("spark.master", ""))
    _keep_interrupt_handler(conf)
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    session.sparkContext.setLogLevel(conf.get("spark.log.level", "WARN"))
    return session


def fill_in(conf: SparkConf, conf_file: Path | None = None, extra: Mapping[str, str] | None = None) -> None:
    """Set what `conf` does not set yet, with the precedence of `build_session`, and the required settings."""
    submitted = conf.contains("spark.submit.deployMode")
    path = conf_file or (LOCAL_CONF if not submitted and LOCAL_CONF.exists() else None)
    for wanted in (extra or {}, read_conf(path) if path is not None else {}, FALLBACK):
        _set_missing(conf, wanted)
    if _is_local(conf):
        _set_missing(conf, LOOPBACK)
    extensions = [name for name in conf.get(EXTENSIONS, "").split(",") if name]
    if DELTA not in extensions:
        conf.set(EXTENSIONS, ",".join([*extensions, DELTA]))
    for key, value in REQUIRED.items():
        conf.set(key, value)


def _keep_interrupt_handler(conf: SparkConf) -> None:
    """Make the context, and restore what the job does on SIGINT: Spark's handler raises wherever the main thread is.

    Where nobody has set one, as in a notebook, Spark's stays.
    """
    before = signal.getsignal(signal.SIGINT)
    SparkContext.getOrCreate(conf)
    if before not in (signal.default_int_handler, signal.getsignal(signal.SIGINT)):
        signal.signal(signal.SIGINT, before)


def _complete(conf: SparkConf, conf_file: Path | None, extra: Mapping[str, str] | None) -> None:
    fill_in(conf, conf_file, extra)
    if not conf.contains("spark.jars") and not conf.contains("spark.jars.packages"):
        conf.set("spark.jars", ",".join(_cached_jars()))
    if _is_local(conf):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Otherwise Python workers use the system's python and miss pandas. Those of a cluster have one of their own.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _launch_jvm(conf_file: Path | None, extra: Mapping[str, str] | None) -> SparkConf:
    """Start the JVM and return its settings. PYSPARK_SUBMIT_ARGS takes precedence, as spark-submit's options do."""
    wanted = SparkConf(loadDefaults=False)
    _complete(wanted, conf_file, extra)
    os.environ.update(utf8_locale())
    before = os.environ.get(SUBMIT_ARGS)
    with tempfile.NamedTemporaryFile("w", prefix="ballast-spark-", suffix=".conf", encoding="utf-8") as file:
        file.writelines(f"{key} {_escape(value)}\n" for key, value in wanted.getAll())
        file.flush()
        os.environ[SUBMIT_ARGS] = f"--properties-file {shlex.quote(file.name)} {before or 'pyspark-shell'}"
        try:
            SparkContext._ensure_initialized()
        finally:
            if before is None:
                del os.environ[SUBMIT_ARGS]
            else:
                os.environ[SUBMIT_ARGS] = before
    conf = SparkConf()
    _set_missing(conf, dict(wanted.getAll()))
    return conf


def _escape(value: str) -> str:
    """Escape a value for a Java properties file."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


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
    jars = [str(path) for path in jars_of("spark")]
    if not jars:
        raise ConfigError(f"no Spark JARs in {JARS}: run `{SET_UP}` once with network access")
    return jars
