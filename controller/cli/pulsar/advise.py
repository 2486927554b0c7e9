"""`ballast pulsar advise`: what Ballast would do now on a Pulsar cluster, or at the end of a recording, and why."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from controller.backtest.advise.advice import Advice, advice_of
from controller.backtest.advise.live import FIRST_READING_S, Watched, watch
from controller.backtest.advise.rounds import ShadowRound, shadow_rounds
from controller.backtest.recording.input import open_lines, read_input, rules_text
from controller.backtest.store import QUARANTINE
from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.facts import Manager
from controller.brokers.pulsar.outcomes import CallFailed
from controller.brokers.pulsar.policies import read_policies
from controller.brokers.pulsar.poll import ClusterPoll
from controller.brokers.pulsar.topics import TopicReader
from controller.cli.advice_text import SHOWN_BROKERS, describe_failures, print_advice, round_text
from controller.cli.choices import strategy_names
from controller.cli.options import AsJson, BrokerLimit, report_errors
from controller.cli.pulsar.connection import Connection, run_until_stopped, takes_connection
from controller.cli.pulsar.record import check_manager
from controller.cli.show import duration_text, emit_json
from controller.cli.times import duration
from controller.config.policy_values import policy_settings
from controller.config.settings import Settings
from controller.domain.errors import BallastError, ConfigError
from controller.domain.facts import Facts
from controller.domain.load import RESOURCES
from controller.domain.pulsar_policies import placement_of
from controller.domain.settings.policy import PolicySettings
from controller.loads.recorded import Overrides
from controller.operations.text import count_text
from controller.policy.strategies import get
from controller.process.paths import RUN, is_address
from controller.process.plugins import use_installed_strategies

LIVE_ROUNDS, FILE_ROUNDS = 8, 30  # the longest evidence that `steady` asks for; what a recording's end needs


def _recording(given: str) -> Path:
    """A file that is there. Whoever forgot the option before an address is told so."""
    if is_address(given):
        raise typer.BadParameter(f"{given} is an address, not a recording: write --service-url {given}")
    if not Path(given).exists():
        raise typer.BadParameter(f"{given!r} does not exist: name a recording, or a cluster with --service-url")
    return Path(given)


File = Annotated[
    Path | None,
    typer.Argument(
        help="A recording, in place of a live cluster.", show_default=False, parser=_recording, metavar="FILE"
    ),
]
Every = Annotated[
    float | None,
    typer.Option(
        "--every", help="Time between rounds; by default Pulsar's statistics period, or 10s if that is shorter.",
        parser=duration, metavar="TIME", show_default=False,
    ),
]  # fmt: skip
Rounds = Annotated[
    int | None,
    typer.Option(
        "--rounds", help=f"At most this many rounds; by default {LIVE_ROUNDS}, of a recording the last {FILE_ROUNDS}.",
        min=1, show_default=False,
    ),
]  # fmt: skip
Strategy = Annotated[
    str | None, typer.Option("--strategy", help="Strategy; by default rounds.strategy.", autocompletion=strategy_names)
]
Topics = Annotated[
    bool, typer.Option("--topics", help="Read broker-stats/topics, to say where to split a bundle by load.")
]


@report_errors
@takes_connection
def advise(
    connection: Connection, file: File = None, every: Every = None, rounds: Rounds = None,
    strategy: Strategy = None, topics: Topics = False, as_json: AsJson = False, limit: BrokerLimit = SHOWN_BROKERS,
) -> None:  # fmt: skip
    """Say what Ballast would do now and why, with the pulsar-admin command for each step. Changes nothing."""
    use_installed_strategies()
    settings = connection.settings(*([f"rounds.strategy={get(strategy).name}"] if strategy else []))
    if file is not None and connection.service_url is not None:
        raise ConfigError(f"both {file} and --service-url are given: name a recording or a cluster")
    if file is not None:
        about, advice, notes = _advise_on_file(file, settings, rounds or FILE_ROUNDS)
    else:
        stop = asyncio.Event()
        found = run_until_stopped(_advise_on_cluster(settings, every, rounds or LIVE_ROUNDS, topics, stop), stop)
        if found is None:
            raise BallastError("stopped before the first round: nothing to advise yet")
        about, advice, notes = found
    if as_json:
        emit_json({**about, "configuration": settings.description, **advice.to_json(), "notes": notes})
    else:
        print_advice(advice, notes, limit)
        typer.echo(f"configuration: {settings.description}")


Found = tuple[dict[str, Any], Advice, list[str]]


async def _advise_on_cluster(
    settings: Settings, every_s: float | None, most: int, topics: bool, stop: asyncio.Event
) -> Found | None:
    async with PulsarAdmin(settings.pulsar_cluster) as admin, TopicReader(admin) as reader:
        poll = ClusterPoll(admin, reader)
        await poll.start()
        check_manager(poll)
        poll.with_topics = topics or poll.manager is Manager.EXTENSIBLE
        every_s = every_s or max(10.0, poll.configuration.stats_period_s)
        _print_start(poll, every_s, most)
        policies = await _read_policies(admin, poll)

        def tell(of: ShadowRound, watched: Watched) -> None:
            typer.echo(round_text(len(watched.rounds), most, of), err=True)

        try:
            watched = await watch(
                poll, with_policies(policy_settings(settings), policies), Overrides.of(settings), every_s=every_s,
                most_rounds=most, stop=stop, tell=tell,
            )  # fmt: skip
            if not watched.rounds:
                return None
        finally:
            await poll.stop()
    advice = advice_of(watched.rounds, watched.boundaries)
    about = {"cluster": poll.cluster, "manager": poll.manager.value if poll.manager else None}
    return about, advice, [*_notes_of_cluster(poll, policies, every_s), *_notes(advice, watched.rounds, watched)]


def _print_start(poll: ClusterPoll, every_s: float, most: int) -> None:
    manager = poll.manager.value if poll.manager else "unknown"
    longest_ms = 1000 * (min(FIRST_READING_S, every_s) + (most - 1) * every_s)
    brokers = count_text(len(poll.members.brokers), "broker")
    typer.echo(f"cluster {poll.cluster}, {brokers}, {manager} load manager", err=True)
    typer.echo(
        f"a round every {duration_text(1000 * every_s)} until one would act, at most {most}: up to "
        f"{duration_text(longest_ms)}; Ctrl-C shows what is known by then",
        err=True,
    )
    if poll.with_topics and poll.manager is Manager.EXTENSIBLE:
        typer.echo("reads broker-stats/topics once per round: nothing else tells the load of bundles here", err=True)


async def _read_policies(admin: PulsarAdmin, poll: ClusterPoll) -> Facts | None:
    """The cluster's rules of placement; None if they cannot be read."""
    enabled = poll.configuration.uses_failure_domains
    try:
        return await read_policies(admin, poll.cluster, poll.members.addresses, enabled)
    except CallFailed as error:
        typer.echo(f"rules of placement: {error}", err=True)
        return None


def with_policies(settings: PolicySettings, policies: Facts | None) -> PolicySettings:
    """The settings of rounds with a cluster's rules of placement. Raises ConfigError where they cannot be applied."""
    return replace(settings, placement=placement_of(policies or {}, settings.placement))


def _note_of_policies(policies: Facts | None) -> str:
    if policies is None:
        return "The cluster's rules of placement are not known: check targets, or give the rules in `placement`."
    kinds = Counter(key.partition(":")[0] for key in policies)
    if not kinds:
        return "The cluster has no isolation policies, failure domains and anti-affinity groups."
    groups = len({str(fact["group"]).lower() for fact in policies.values() if "group" in fact})
    unused = any(fact.get("enabled") is False for fact in policies.values())
    return (
        f"The cluster's rules are applied: {kinds['isolation']} isolation policies, {kinds['failure_domain']} failure "
        f"domains{' (which Pulsar does not use)' if unused else ''}, {groups} anti-affinity groups."
    )


def _notes_of_cluster(poll: ClusterPoll, policies: Facts | None, every_s: float) -> list[str]:
    notes = [_note_of_policies(policies)]
    switches = poll.configuration.balances_itself
    if switches:
        names = " and ".join(f"{name}=true" for name in switches)
        notes.append(f"Pulsar balances as well ({names}), so it may undo what you do by hand.")
    if poll.configuration.stats_period_s > 1.5 * every_s:
        notes.append(
            f"Brokers compute rates anew every {duration_text(1000 * poll.configuration.stats_period_s)}: rounds every "
            f"{duration_text(1000 * every_s)} saw the same figures several times."
        )
    return notes


def _advise_on_file(file: Path, settings: Settings, most: int) -> Found:
    quarantine = RUN / "advise" / QUARANTINE
    found = read_input(str(file), None, Overrides.of(settings), quarantine)
    interval_ms, horizon_ms = 1000 * settings.rounds.round_interval_s, 1000 * settings.loads.short_horizon_s
    rounds = list(
        shadow_rounds(
            found.recording, with_policies(policy_settings(settings), found.policies), round(horizon_ms),
            round(interval_ms), most,
        )
    )  # fmt: skip
    hashed = _is_hashed(file)
    advice = advice_of(rounds, {}, not hashed)
    if advice.splits:
        advice = advice_of(rounds, _find_boundaries(file, {str(row["bundle"]) for row in advice.splits}), not hashed)
    notes = [_note_of_policies(found.policies)]
    if hashed:
        notes.append("Names in this recording are hashed, so there are no commands.")
    if found.refused:
        notes.append(f"Lines that were refused: {rules_text(found.refused)}; see {quarantine}.")
    return {"file": str(file), "reports": found.reports}, advice, [*notes, *_notes(advice, rounds, None)]


def _notes(advice: Advice, rounds: Sequence[ShadowRound], watched: Watched | None) -> list[str]:
    notes = list(describe_failures(watched.failures)) if watched else []
    unknown = [r for r in RESOURCES if all(row["utilisations"].get(r) is None for row in advice.brokers)]
    if "bandwidth_in" in unknown and "bandwidth_out" in unknown:
        notes.append(
            "Bandwidth is unknown, so it does not count: --set pulsar_cluster.nic_gbps=10 gives the speed of a "
            "broker's network."
        )
    if "cpu" in unknown:
        notes.append(
            "CPU is unknown: --set pulsar_cluster.host_cpu=true takes Pulsar's host-wide figure, if it has one."
        )
    if len(rounds) == 1 and not rounds[0].acts:
        notes.append("One round alone is little evidence: smaller imbalances take up to 8 rounds.")
    losing = {row["bundle"] for row in advice.moves} & (watched.non_persistent if watched else set())
    if losing:
        notes.append(f"Non-persistent topics lose messages when their bundle is unloaded: {', '.join(sorted(losing))}.")
    if advice.moves:
        notes.append(
            "An unload disconnects the bundle's clients for a moment: run the commands one by one, and see with "
            "another advice what they brought."
        )
    return notes


def _is_hashed(file: Path) -> bool:
    with open_lines(file) as (lines, _):
        return b'"hashed":true' in next(iter(lines), b"")


def _find_boundaries(file: Path, bundles: set[str]) -> dict[str, int]:
    """The newest recorded split boundary of each bundle."""
    found: dict[str, int] = {}
    with open_lines(file) as (lines, _):
        for line in lines:
            if b'"splitBoundary"' not in line:
                continue
            try:
                stats = json.loads(line)["report"]["lastStats"]
                found |= {name: int(stats[name]["splitBoundary"]) for name in bundles & stats.keys()}
            except (ValueError, KeyError, TypeError, AttributeError):
                continue  # refused by the reader as well
    return found
