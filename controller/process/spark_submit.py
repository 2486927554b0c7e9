"""Starts a Spark application with spark-submit, the cached JARs and the project's Spark settings.

This process does not import pyspark: `controller` never does.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from controller.domain.errors import BallastError, ConfigError, without_login
from controller.process.paths import CODE, CONF, EXTRA_JARS, SET_UP, jars_of, python_path
from controller.process.reachable import why_unreachable
from controller.process.setup_java import find_java, utf8_locale

LOCAL_SPARK_CONF = CONF / "spark" / "local.conf"
JOB = CODE / "jobs" / "balance.py"
DEFAULTS = "spark-defaults.conf"  # a cluster's own settings, in Spark's folder of settings
S3A = "s3a"  # Hadoop's scheme for S3, and the group of its JARs in the lock
STANDALONE = "spark://"  # begins the address of a standalone cluster's masters, which commas separate
MASTER_S = 3.0  # for a master to accept a connection
# Consumers of a Kafka that hangs take half a minute to close. Spark reads this limit as a system property only.
QUICK_EXIT = "-Dspark.shutdown.timeout=3s"


class NoMaster(BallastError):
    """Raised when no standalone master accepts a connection; another start may succeed."""


def spark_submit_command(
    job_arguments: Sequence[str], spark_conf: Path = LOCAL_SPARK_CONF, job: Path = JOB, checkpoints: str = ""
) -> list[str]:
    """The command line. `checkpoints`: where the job keeps them. Raises ConfigError when Spark, its JARs or its
    settings are missing, NoMaster when the master that they name does not answer."""
    jars = jars_of("spark")
    if not jars:
        raise ConfigError(f"Spark's JARs for Delta and Kafka are not in the cache: run `{SET_UP}` once")
    if not spark_conf.is_file():
        raise ConfigError(f"--spark-conf {spark_conf} does not exist: give a Spark properties file")
    check_deploy_mode(spark_conf)
    check_master(_master(settings_text(spark_conf)))
    return [
        str(spark_home() / "bin" / "spark-submit"),
        "--properties-file",
        str(spark_conf),
        *(["--load-spark-defaults"] if _takes_defaults(spark_conf) else []),
        "--jars",
        ",".join(map(str, jars)),
        *_for_checkpoints(checkpoints, spark_conf),
        str(job),
        *job_arguments,
    ]


def spark_environment(environ: Mapping[str, str], spark_conf: Path = LOCAL_SPARK_CONF) -> dict[str, str]:
    """Its environment: a Java that fits and can open any path, this Python for the driver, and loopback with a local
    master.

    On a cluster, executors must reach the driver, so Spark chooses the address there; and they run a Python of their
    own machines: `spark.pyspark.python`, or PYSPARK_PYTHON, or python3.
    """
    local = {}
    if has_local_master(settings_text(spark_conf, environ)):
        local = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    return {
        **local,
        **environ,
        **utf8_locale(),
        "SPARK_SUBMIT_OPTS": " ".join(filter(None, [QUICK_EXIT, environ.get("SPARK_SUBMIT_OPTS", "")])),
        "JAVA_HOME": str(find_java(environ).home),
        "SPARK_HOME": str(spark_home()),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": python_path(environ),
    }


def settings_text(spark_conf: Path, environ: Mapping[str, str] = os.environ) -> str:
    """The properties that spark-submit takes: the cluster's defaults, then the file, because the last one counts."""
    defaults = Path(environ.get("SPARK_CONF_DIR") or spark_home() / "conf") / DEFAULTS
    below = defaults.read_text() if _takes_defaults(spark_conf) and defaults.is_file() else ""
    return f"{below}\n{spark_conf.read_text()}"


def _takes_defaults(spark_conf: Path) -> bool:
    """Not with the shipped settings for one machine: nothing of a cluster's belongs there, such as its event log."""
    return spark_conf != LOCAL_SPARK_CONF


def check_deploy_mode(spark_conf: Path) -> None:
    """Raise ConfigError where the settings ask for a driver on the cluster and Spark has none for Python there."""
    properties = settings_text(spark_conf)
    mode, master = _setting("spark.submit.deployMode", properties), _master(properties)
    place = spark_conf if _setting("spark.submit.deployMode", spark_conf.read_text()) else DEFAULTS
    if mode not in ("", "client", "cluster"):
        raise ConfigError(f"spark.submit.deployMode = {mode} in {place} is no mode of Spark: give client")
    if mode == "cluster" and (not master or master.startswith(("spark:", "local"))):
        raise ConfigError(
            f"spark.submit.deployMode = cluster in {place} is not allowed with {master or 'no spark.master'}: only"
            " YARN and Kubernetes run Python drivers; give client, and start Ballast on a machine that the workers can"
            " reach"
        )


def check_master(master: str) -> None:
    """Raise NoMaster if this is a standalone cluster whose masters accept no connection. Spark itself tries for a
    minute and a half, and ends without naming them."""
    if not master.startswith(STANDALONE):
        return
    if reasons := why_unreachable(master.removeprefix(STANDALONE).split(","), MASTER_S):
        raise NoMaster(
            f"no Spark master answers at {master} ({'; '.join(reasons)}): start it, or name another one (spark.master"
            " in the Spark properties file of --spark-conf, or spark-submit --master)"
        )


def _for_checkpoints(checkpoints: str, spark_conf: Path) -> list[str]:
    """What the driver, who alone reads and writes them, needs for an address of S3."""
    if not checkpoints.startswith(f"{S3A}:"):
        return []
    jars = jars_of(S3A, EXTRA_JARS)
    if not jars:
        raise ConfigError(
            f"checkpoints at {without_login(checkpoints)} need the JARs of Hadoop's S3A, which are not in"
            f" {EXTRA_JARS / S3A}: run `ballast setup --s3a` once, or keep tables.checkpoints in a folder of the driver"
        )
    given = _setting("spark.driver.extraClassPath", settings_text(spark_conf))
    own_logging = sorted((spark_home() / "jars").glob("slf4j-api-*.jar"))  # an old one in these JARs would log nothing
    return ["--driver-class-path", os.pathsep.join([*([given] if given else []), *map(str, [*own_logging, *jars])])]


def has_local_master(properties: str) -> bool:
    """Whether a Spark properties file sets a local master."""
    return _master(properties).startswith("local")


def _master(properties: str) -> str:
    return _setting("spark.master", properties)


def _setting(key: str, properties: str) -> str:
    """The value of a key of a Spark properties file, where the last one counts; empty without one."""
    found = re.findall(rf"^[ \t]*{re.escape(key)}[ \t=:]+(\S+)", properties, re.MULTILINE)
    return found[-1] if found else ""


def spark_home() -> Path:
    """PySpark's folder in this environment, which is a whole Spark. Raises ConfigError without one."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise ConfigError("pyspark is not installed in this environment: install Ballast with its dependencies")
    return Path(found.origin).parent
