"""`ballast run`: the Spark job by spark-submit, with the JARs of the cache and the project's Spark settings.

What the configuration gets wrong is said before a JVM starts. The command becomes spark-submit (exec): the pid that was
started is the pid that takes SIGTERM, and the job's exit code is the command's. Without pyspark in this process:
`controller` never imports it.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from controller.bus.cluster import KafkaUnavailable, check_answers
from controller.config.arguments import add_settings_arguments
from controller.config.load import load_settings
from controller.domain.errors import ConfigError
from controller.ops.cli_options import new_app, refused
from controller.ops.paths import CONF, ROOT, jars_of
from controller.ops.setup_java import find_java
from controller.ops.start_checks import check_job

LOCAL_SPARK_CONF = CONF / "spark" / "local.conf"
JOB = ROOT / "jobs" / "balance.py"

app = new_app()


def spark_submit_command(
    job_arguments: Sequence[str], spark_conf: Path = LOCAL_SPARK_CONF, job: Path = JOB
) -> list[str]:
    """The command line. Raises ConfigError when Spark, its JARs or its settings are missing."""
    jars = jars_of("spark")
    if not jars:
        raise ConfigError("Spark's JARs for Delta and Kafka are not in the cache: run `make setup` once")
    if not spark_conf.is_file():
        raise ConfigError(f"--spark-conf {spark_conf} does not exist: give a Spark properties file")
    return [
        str(_spark_home() / "bin" / "spark-submit"),
        "--properties-file",
        str(spark_conf),
        "--jars",
        ",".join(map(str, jars)),
        str(job),
        *job_arguments,
    ]


def spark_environment(environ: Mapping[str, str], spark_conf: Path = LOCAL_SPARK_CONF) -> dict[str, str]:
    """The environment for it: a Java that fits, this very Python on both sides; with a local master loopback names.

    On a cluster the driver must be found by its executors, so there Spark chooses the address.
    """
    local = {"SPARK_LOCAL_IP": "127.0.0.1"} if has_local_master(spark_conf.read_text()) else {}
    return {
        **local,
        **environ,
        "JAVA_HOME": str(find_java(environ).home),
        "SPARK_HOME": str(_spark_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), environ.get("PYTHONPATH", "")])),
    }


def has_local_master(properties: str) -> bool:
    """Whether a Spark properties file names a local master."""
    return re.search(r"^\s*spark\.master[\s=:]+local", properties, re.MULTILINE) is not None


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run(
    context: typer.Context,
    spark_conf: Path = typer.Option(LOCAL_SPARK_CONF, "--spark-conf", help="Spark properties file."),
) -> None:
    """Start the job; all other options go to it: --conf, --profile, --set, --only, --take-over, --accept-new-kafka,
    --new-journal, --checkpoint, --every-round, --pid-file."""
    try:
        check_before(context.args)
    except KafkaUnavailable as error:
        raise refused(error) from None
    command = spark_submit_command(context.args, spark_conf)
    sys.stdout.flush()
    os.execve(command[0], command, spark_environment(os.environ, spark_conf))


def check_before(job_arguments: Sequence[str]) -> None:
    """Raises ConfigError and KafkaUnavailable for what the job would find only after its JVM has started."""
    parser = argparse.ArgumentParser(prog="ballast run", add_help=False, allow_abbrev=False)
    add_settings_arguments(parser)
    parser.add_argument("--checkpoint")
    given, _ = parser.parse_known_args(list(job_arguments))
    settings = load_settings(given.conf, given.profile, given.set)
    check_job(settings, given.checkpoint)
    check_answers(settings.kafka.bootstrap_servers, settings.kafka.client)


def _spark_home() -> Path:
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise ConfigError("pyspark is not installed in this environment: run `make setup` once")
    return Path(found.origin).parent
