"""`ballast pulsar record`: records the load of a Pulsar cluster to a file. It only reads, and needs nothing else."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.facts import Manager
from controller.brokers.pulsar.poll import ClusterPoll
from controller.brokers.pulsar.recording.file import ROTATE_BYTES, RecordingFile
from controller.brokers.pulsar.recording.names import KEY_SUFFIX, NameHasher
from controller.brokers.pulsar.recording.recorder import Tally
from controller.brokers.pulsar.recording.recorder import record as record_cluster
from controller.brokers.pulsar.topics import TopicReader
from controller.cli.options import PROBLEM, report_errors
from controller.cli.pulsar.connection import Connection, run_until_stopped, takes_connection
from controller.cli.show import duration_text
from controller.cli.times import duration
from controller.config.settings import Settings
from controller.domain.errors import ConfigError
from controller.operations.text import count_text

MIB = 1024 * 1024
Out = Annotated[Path, typer.Option("--out", help="File to record to; one that is there is continued.")]
Every = Annotated[float, typer.Option("--every", help="Time between two polls.", parser=duration, metavar="TIME")]
For = Annotated[
    float | None,
    typer.Option("--for", help="When to stop, such as 1h; by default at Ctrl-C.", parser=duration, metavar="TIME"),
]
Topics = Annotated[
    bool,
    typer.Option(
        "--topics",
        help="Also read broker-stats/topics, once per statistics period: backlog, unacked messages, where to split. "
        "The extensible load manager says nothing about bundles without it.",
    ),
]
HashNames = Annotated[bool, typer.Option("--hash-names", help="Record hashes of tenants' and namespaces' names.")]
RotateMib = Annotated[int, typer.Option("--rotate-mib", help="Size at which a new file is begun.", min=1)]


@report_errors
@takes_connection
def record(
    connection: Connection, out: Out, every: Every = 10.0, for_: For = None, topics: Topics = False,
    hash_names: HashNames = False, rotate_mib: RotateMib = ROTATE_BYTES // MIB,
) -> None:  # fmt: skip
    """Record the load of every broker and bundle, for `backtest`, `replay-reports` and `pulsar advise`. Only reads."""
    settings = connection.settings()
    hasher = NameHasher.beside(out) if hash_names else None
    with RecordingFile(out, rotate_mib * MIB) as file:
        stop = asyncio.Event()
        began = time.monotonic()
        tally = run_until_stopped(_record(settings, file, every, for_, topics, hasher, stop), stop)
        _print_summary(tally, file, 1000 * (time.monotonic() - began), hash_names)
    if not tally.reports:
        raise typer.Exit(PROBLEM)


async def _record(
    settings: Settings, file: RecordingFile, every_s: float, for_s: float | None, topics: bool,
    hasher: NameHasher | None, stop: asyncio.Event,
) -> Tally:  # fmt: skip
    async with PulsarAdmin(settings.pulsar_cluster) as admin, TopicReader(admin) as reader:
        poll = ClusterPoll(admin, reader)
        await poll.start()
        check_manager(poll)
        if poll.manager is Manager.EXTENSIBLE and not topics:
            raise ConfigError(
                f"cluster {poll.cluster} runs the extensible load manager, which tells the load of bundles only by "
                "broker-stats/topics: add --topics"
            )
        poll.with_topics = topics
        _print_start(poll, file, every_s, for_s)
        try:
            return await record_cluster(
                poll, file, every_s=every_s, for_s=for_s, stop=stop, hasher=hasher,
                tell=lambda tally: typer.echo(_progress_text(tally, file), err=True),
            )  # fmt: skip
        finally:
            await poll.stop()


def check_manager(poll: ClusterPoll) -> None:
    """Raise ConfigError for a load manager whose figures are not known."""
    if poll.manager is Manager.OTHER:
        name = poll.configuration.values.get("loadManagerClassName")
        raise ConfigError(f"cluster {poll.cluster} runs {name}: Ballast reads the modular and the extensible one")


def _print_start(poll: ClusterPoll, file: RecordingFile, every_s: float, for_s: float | None) -> None:
    manager = poll.manager.value if poll.manager else "unknown"
    until = f"for {duration_text(1000 * for_s)}" if for_s else "until Ctrl-C"
    does = "continuing" if file.resumed else "recording to"
    typer.echo(
        f"cluster {poll.cluster}, {count_text(len(poll.members.brokers), 'broker')}, {manager} load manager: {does} "
        f"{file.path} every {duration_text(1000 * every_s)}, {until}",
        err=True,
    )
    period_s = poll.configuration.stats_period_s
    if period_s > 2 * every_s:
        typer.echo(
            f"its brokers compute rates anew every {duration_text(1000 * period_s)} (statsUpdateFrequencyInSecs)",
            err=True,
        )
    for broker, failure in poll.members.failures.items():
        typer.echo(f"{broker}: {failure}", err=True)


def _progress_text(tally: Tally, file: RecordingFile) -> str:
    text = f"{_counts_text(tally)}, {file.bytes / MIB:.1f} MiB"
    silent = "; ".join(f"{broker} {failure.outcome.value}" for broker, failure in sorted(tally.failures.items()))
    return text + (f"; no answer now: {silent}" if silent else "")


def _counts_text(tally: Tally) -> str:
    gaps = sum(tally.gaps.values())
    told = f"{_count(tally.polls, 'poll')}, {_count(tally.reports, 'report')} of {_count(len(tally.brokers), 'broker')}"
    return f"{told}, {_count(tally.bundles, 'bundle')}, {_count(gaps, 'gap') if gaps else 'no gaps'}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _print_summary(tally: Tally, file: RecordingFile, took_ms: float, hashed: bool) -> None:
    typer.echo(f"recorded {_counts_text(tally)} in {duration_text(took_ms)}: {file.path}, {file.bytes / MIB:.1f} MiB")
    outcomes: dict[str, Counter[str]] = {}
    for (broker, outcome), count in tally.gaps.items():
        outcomes.setdefault(broker, Counter())[outcome] += count
    for broker, counts in sorted(outcomes.items()):
        typer.echo(f"gaps of {broker}: {', '.join(f'{count} {outcome}' for outcome, count in counts.most_common())}")
    for broker, failure in sorted(tally.failures.items()):
        typer.echo(f"last failure of {broker}: {failure}", err=True)
    for broker, failure in sorted(tally.topics_failures.items()):
        typer.echo(f"statistics of topics of {broker}: {failure}", err=True)
    if tally.policies_failure is not None:
        typer.echo(f"rules of placement could not be read: {tally.policies_failure}", err=True)
    if tally.cpu_unknown:
        typer.echo(
            f"CPU of the process could not be read: {', '.join(sorted(tally.cpu_unknown))}; use Pulsar's host-wide "
            "figure with --set pulsar_cluster.host_cpu=true when you read the recording",
            err=True,
        )
    if file.rotated:
        older = " ".join(shlex.quote(str(path)) for path in file.rotated)
        typer.echo(f"earlier parts: {older}; read them together: cat {older} {shlex.quote(str(file.path))} > all.jsonl")
    if hashed:
        typer.echo(f"names are hashed; the key is {file.path}{KEY_SUFFIX}: keep it to continue, do not hand it out")
    if tally.reports:
        name = shlex.quote(str(file.path))
        typer.echo(f"next: ballast pulsar advise {name}")
        typer.echo(f"      ballast backtest --reports {name} --strategies steady,headroom,threshold")
