"""The job's command line, and its exit codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from controller.config.arguments import OneLineParser, add_settings_arguments
from controller.domain.errors import AnotherController, ConfigError, ForeignCommit
from controller.process.paths import resolve_location

LOADS, CONTROL = "loads", "control"
EXIT_FAILED, EXIT_CONFIG, EXIT_ANOTHER, EXIT_REPLACED = 1, 2, 3, 4  # of the job, and so of `ballast run`
EXIT_INTERRUPTED = 130  # by Ctrl-C before the job ran, as of any command


@dataclass(frozen=True)
class Arguments:
    """The command line of `jobs/balance.py`; see `--help`."""

    conf: Path | None
    profile: str | None
    overrides: tuple[str, ...]
    only: str | None
    take_over: bool
    accept_new_kafka: str | None
    new_journal: bool
    checkpoint: str | None
    every_round: bool
    pid_file: Path | None

    def runs(self, query: str) -> bool:
        """Whether this process runs the query."""
        return self.only in (None, query)


def parse_arguments(argv: Sequence[str], prog: str = "balance.py") -> Arguments:
    """Parse the command line. `prog`: the command that started the job, for messages."""
    parser = OneLineParser(
        prog=prog,
        description="Ballast's Spark job: the loads query and the control query. SIGTERM stops it after the current "
        "batch.",
        epilog="Exit codes: 0 stopped on request, 1 failed, 2 bad configuration, 3 another controller is alive or "
        "the topics are another journal's, "
        "4 another controller took over, 130 interrupted while it started.",
    )
    add_settings_arguments(parser)
    parser.add_argument("--only", choices=[LOADS, CONTROL], help="run one query alone")
    parser.add_argument("--take-over", action="store_true", help="do not listen for a living controller: replace it")
    parser.add_argument(
        "--accept-new-kafka",
        metavar="CLUSTER_ID",
        help="go on with this Kafka cluster although the journal's offsets are of another one, or of lost records; "
        "for one start, see docs/recovery.md",
    )
    parser.add_argument(
        "--new-journal",
        action="store_true",
        help="take the topics over from a journal whose tables are gone for good: nothing of it is carried out; "
        "for one start, see docs/recovery.md",
    )
    parser.add_argument("--checkpoint", metavar="DIR", help="folder of the checkpoints, instead of tables.checkpoints")
    parser.add_argument(
        "--every-round", action="store_true", help="evaluate every due round in order, for replays; a live job skips"
    )
    parser.add_argument("--pid-file", type=Path, help="write the pid that takes SIGTERM here")
    found = parser.parse_args(argv)
    return Arguments(
        conf=found.conf,
        profile=found.profile,
        overrides=tuple(found.set),
        only=found.only,
        take_over=found.take_over,
        accept_new_kafka=found.accept_new_kafka,
        new_journal=found.new_journal,
        checkpoint=None if found.checkpoint is None else resolve_location(found.checkpoint, Path.cwd()),
        every_round=found.every_round,
        pid_file=found.pid_file,
    )


def exit_code(error: BaseException) -> int:
    """The exit code of a job that ended with this error."""
    if isinstance(error, ConfigError):
        return EXIT_CONFIG
    if isinstance(error, AnotherController):
        return EXIT_ANOTHER
    return EXIT_REPLACED if isinstance(error, ForeignCommit) else EXIT_FAILED
