"""`ballast run`: runs the Spark job with spark-submit.

Configuration errors are reported before a JVM starts. The command replaces itself by spark-submit (exec), so its pid
takes SIGTERM, and the job's exit code is that of the command.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from controller.bus.cluster import KafkaUnavailable, check_answers
from controller.cli.options import new_app, report_error
from controller.config.load import load_settings
from controller.process.spark_submit import LOCAL_SPARK_CONF, spark_environment, spark_submit_command
from controller.service.arguments import parse_arguments
from controller.service.start_checks import check_job

app = new_app()


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run(
    context: typer.Context,
    spark_conf: Path = typer.Option(LOCAL_SPARK_CONF, "--spark-conf", help="Spark properties file."),
) -> None:
    """Run the job. It takes all other options: --conf, --profile, --set, --only, --take-over, --accept-new-kafka,
    --new-journal, --checkpoint, --every-round, --pid-file."""
    try:
        check_before(context.args)
    except KafkaUnavailable as error:
        raise report_error(error) from None
    command = spark_submit_command(context.args, spark_conf)
    sys.stdout.flush()
    os.execve(command[0], command, spark_environment(os.environ, spark_conf))


def check_before(job_arguments: Sequence[str]) -> None:
    """Raise ConfigError or KafkaUnavailable for errors that the job would only find after its JVM has started."""
    given = parse_arguments(job_arguments, "ballast run")
    settings = load_settings(given.conf, given.profile, given.overrides)
    check_job(settings, given.checkpoint)
    check_answers(settings.kafka.bootstrap_servers, settings.kafka.client)
