"""`ballast run`: runs the Spark job with spark-submit.

Errors that can be told without a JVM are reported before one starts, those that need no Kafka first. The command
replaces itself by spark-submit (exec), so its pid takes SIGTERM, and the job's exit code is that of the command.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer

from controller.bus.cluster import KafkaUnavailable, check_answers
from controller.cli.options import new_app, report_error
from controller.config.load import load_settings
from controller.domain.errors import AnotherController, PortTaken, without_login
from controller.process.spark_submit import LOCAL_SPARK_CONF, NoMaster, spark_environment, spark_submit_command
from controller.service.arguments import CONTROL, EXIT_ANOTHER, parse_arguments
from controller.service.start_checks import check_job, check_topics

app = new_app()


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run(
    context: typer.Context,
    spark_conf: Path = typer.Option(LOCAL_SPARK_CONF, "--spark-conf", help="Spark properties file."),
) -> None:
    """Run the job. It takes all other options: --conf, --profile, --set, --only, --take-over, --accept-new-kafka,
    --new-journal, --checkpoint, --every-round, --pid-file."""
    given = parse_arguments(context.args, "ballast run")
    settings = load_settings(given.conf, given.profile, given.overrides)
    taken: PortTaken | None = None
    try:
        check_job(settings, given.checkpoint, given.pid_file)
    except PortTaken as error:  # perhaps by the controller that holds the journal: then that is what to say
        taken = error
    checkpoints = given.checkpoint or settings.tables.checkpoints
    try:
        command = spark_submit_command(context.args, spark_conf, checkpoints=checkpoints)
        environment = spark_environment(os.environ, spark_conf)
        check_answers(settings.kafka.bootstrap_servers, settings.kafka.client)
        if given.runs(CONTROL) and not given.new_journal:
            check_topics(settings, given.take_over)
    except (KafkaUnavailable, NoMaster) as error:
        raise report_error(error) from None
    except AnotherController as error:
        typer.echo(f"ballast: {without_login(str(error))}", err=True)
        raise typer.Exit(EXIT_ANOTHER) from None
    if taken is not None and not given.take_over:
        raise taken
    sys.stdout.flush()
    os.execve(command[0], command, environment)
