"""The commands of scenario files. Each adds to the scenario, or runs it (`eval`) or prints it (`plot`).

docs/simulator.md is the reference of the language.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from controller.domain.errors import ConfigError
from controller.domain.events import COMMAND_KINDS
from controller.domain.settings.placement import AntiAffinityGroup, FailureDomain, IsolationPolicy
from controller.domain.settings.placement import check as check_placement
from controller.policy.strategies import get
from controller.sim.figures import Figures
from controller.sim.load.shapes import SHAPES, Shape
from controller.sim.scenario.assertions import Assertion, assertions_of
from controller.sim.scenario.faults import FAULTS, Fault
from controller.sim.scenario.orders import Order, value_of
from controller.sim.scenario.parser import Command
from controller.sim.scenario.scenario import PLACES, Scenario, check_event
from controller.sim.scenario.text_plot import STATS, text_plot
from controller.sim.scenario.values import Reader, duration_ms, names, number, numbers, plain, set_policy, whole
from controller.sim.simulation import Outcome, simulate

MINUTE_MS = 60_000


@dataclass
class Script:
    """The scenario that the commands so far have built."""

    scenario: Scenario = field(default_factory=Scenario)
    assertions: list[Assertion] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    events: list[tuple[Command, Shape | Fault | Order]] = field(default_factory=list)  # checked by each eval

    def carry_out(self, command: Command) -> str | None:
        """Run one command; return what it prints. Raises ConfigError with file and line."""
        action = COMMANDS.get(command.name)
        if action is None:
            raise command.error(f"unknown command {command.name!r}; there are {', '.join(COMMANDS)}")
        return action(self, command)


def _gen_cluster(script: Script, command: Command) -> None:
    reader = Reader(command)
    reader.no_word()
    start = script.scenario.cluster
    brokers = reader.take("brokers", whole, start.brokers)
    cores = reader.take("cores", numbers, start.cores)
    nic = reader.take("nic_mb_per_s", lambda text: tuple(mb * 1e6 for mb in numbers(text)), start.nic_bytes_per_s)
    place = reader.take("place", plain, start.place)
    reader.check_all_taken()
    try:
        cluster = replace(start, brokers=brokers, cores=cores, nic_bytes_per_s=nic, place=place)
    except ConfigError as error:
        raise command.error(f"{error} (places: {', '.join(PLACES)})") from None
    script.scenario = replace(script.scenario, cluster=cluster)


def _gen_load(script: Script, command: Command) -> None:
    reader = Reader(command)
    reader.no_word()
    load = reader.fill(script.scenario.load)
    reader.check_all_taken()
    if load.utilisation >= 1:
        script.warnings.append(f"WARNING: load is {load.utilisation:.0%} of all cores: no placement can carry it")
    if load.sigma > 3:
        script.warnings.append(
            f"WARNING: sigma={load.sigma:g} puts most of the load into one bundle: likely accidental"
        )
    script.scenario = replace(script.scenario, load=load)


def _shape(script: Script, command: Command) -> None:
    reader = Reader(command)
    shape = reader.fill(SHAPES[reader.word(SHAPES, "how load changes")]())
    reader.check_all_taken()
    script.scenario = replace(script.scenario, shapes=(*script.scenario.shapes, shape))
    script.events.append((command, shape))


def _reports(script: Script, command: Command) -> None:
    reader = Reader(command)
    reader.no_word()
    script.scenario = replace(script.scenario, reports=reader.fill(script.scenario.reports))
    reader.check_all_taken()


def _costs(script: Script, command: Command) -> None:
    reader = Reader(command)
    reader.no_word()
    script.scenario = replace(script.scenario, costs=reader.fill(script.scenario.costs))
    reader.check_all_taken()


def _set(script: Script, command: Command) -> None:
    policy = script.scenario.policy
    for argument in command.arguments:
        if argument.key == "round_every":
            script.scenario = replace(script.scenario, round_every_ms=duration_ms(argument.value))
            continue
        if argument.key == "lag_limit_entries":
            script.scenario = replace(script.scenario, lag_limit_entries=whole(argument.value))
            continue
        try:
            policy = set_policy(policy, argument.key, argument.value)
            get(policy.strategy)
        except ConfigError as error:
            raise command.error(f"{argument.key}={argument.value}: {error}") from None
    Reader(replace(command, arguments=())).no_word()
    script.scenario = replace(script.scenario, policy=policy)


def _isolation(script: Script, command: Command) -> None:
    reader = Reader(command)
    rule = IsolationPolicy(
        reader.any_word("names the policy"),
        reader.take("namespaces", names, ()),
        reader.take("primary", names, ()),
        reader.take("secondary", names, ()),
        reader.take("min_available", whole, 1),
    )
    reader.check_all_taken()
    _rule(script, command, "isolation", rule)


def _failure_domain(script: Script, command: Command) -> None:
    reader = Reader(command)
    domain = FailureDomain(reader.any_word("names the domain"), reader.take("brokers", names, ()))
    reader.check_all_taken()
    _rule(script, command, "failure_domains", domain)


def _anti_affinity(script: Script, command: Command) -> None:
    reader = Reader(command)
    group = AntiAffinityGroup(reader.any_word("names the group"), reader.take("namespaces", names, ()))
    reader.check_all_taken()
    _rule(script, command, "anti_affinity", group)


def _rule(script: Script, command: Command, kind: str, rule: object) -> None:
    """Add a rule of placement; `kind` is its field in PlacementSettings."""
    rules = script.scenario.policy.placement
    more: dict[str, Any] = {kind: (*getattr(rules, kind), rule)}
    rules = replace(rules, **more)
    try:
        check_placement(rules)
    except ConfigError as error:
        raise command.error(str(error)) from None
    script.scenario = replace(script.scenario, policy=replace(script.scenario.policy, placement=rules))


def _fault(script: Script, command: Command) -> None:
    reader = Reader(command)
    kind = reader.word(FAULTS, "what goes wrong")
    try:
        fault = Fault(
            kind=kind,
            broker=reader.take("broker", plain, ""),
            at_ms=reader.take("at", duration_ms, 0),
            for_ms=reader.take("for", duration_ms, 0),
            factor=reader.take("factor", number, 2.0),
            cores=reader.take("cores", number, 0.0),
        )
    except ConfigError as error:
        raise error if str(error).startswith(command.place) else command.error(str(error)) from None
    reader.check_all_taken()
    script.scenario = replace(script.scenario, faults=(*script.scenario.faults, fault))
    script.events.append((command, fault))


def _operator(script: Script, command: Command) -> None:
    kinds = dict.fromkeys(sorted(COMMAND_KINDS))
    reader = Reader(command)
    kind = reader.word(kinds, "what the operator does")
    at_ms = reader.take("at", duration_ms, 0)
    arguments = {key: reader.take(key, value_of, None) for key in reader.remaining()}
    order = Order(kind, at_ms, arguments)
    script.scenario = replace(script.scenario, orders=(*script.scenario.orders, order))
    script.events.append((command, order))


def _assertion(script: Script, command: Command) -> None:
    script.assertions += assertions_of(command)


def _eval(script: Script, command: Command) -> str:
    reader = Reader(command)
    reader.no_word()
    duration = reader.take("duration", duration_ms, script.scenario.duration_ms)
    end = reader.take("end", duration_ms, min(script.scenario.end_ms, duration))
    seed = reader.take("seed", whole, 1)
    reader.check_all_taken()
    script.scenario = replace(script.scenario, duration_ms=duration, end_ms=end)
    for at, event in script.events:
        try:
            check_event(event, script.scenario)
        except ConfigError as error:
            raise at.error(str(error)) from None

    @cache
    def outcome_of(strategy: str) -> Outcome:
        policy = replace(script.scenario.policy, strategy=strategy)
        try:
            return simulate(replace(script.scenario, policy=policy), seed)
        except ConfigError as error:
            raise command.error(str(error)) from None

    outcome = outcome_of(script.scenario.policy.strategy)
    script.outcomes.append(outcome)
    kept = [a.failure(outcome.figures, lambda strategy: outcome_of(strategy).figures) for a in script.assertions]
    failed = [failure for failure in kept if failure is not None]
    script.failures += [f"{command.place}: {failure}" for failure in failed]
    warnings, script.warnings, script.assertions = script.warnings, [], []
    return "\n".join([*warnings, *table(outcome.figures), *(failed or ["OK"])])


def _plot(script: Script, command: Command) -> str:
    reader = Reader(command)
    reader.no_word()
    stat = reader.take("stat", plain, "max_best")
    width = reader.take("width", whole, 60)
    reader.check_all_taken()
    if stat not in STATS:
        raise command.error(f"plot stat={stat}: one of {', '.join(STATS)}")
    if not script.outcomes:
        raise command.error("plot stands before the first eval: there is nothing to show yet")
    return text_plot(script.outcomes[-1], stat, width)


COMMANDS: dict[str, Callable[[Script, Command], str | None]] = {
    "gen_cluster": _gen_cluster,
    "gen_load": _gen_load,
    "shape": _shape,
    "reports": _reports,
    "costs": _costs,
    "set": _set,
    "isolation": _isolation,
    "failure_domain": _failure_domain,
    "anti_affinity": _anti_affinity,
    "fault": _fault,
    "operator": _operator,
    "assertion": _assertion,
    "eval": _eval,
    "plot": _plot,
}


def table(figures: Figures) -> list[str]:
    """The figures of a run as `eval` prints them."""
    f = figures
    moves = ", ".join(f"{cause} {count}" for cause, count in f.moves.items() if count or cause == "balance")
    splits = f", splits {f.splits}" if f.splits else ""
    return [
        f"strategy {f.strategy}, {f.rounds} rounds; at the end {f.brokers} brokers, {f.bundles} bundles",
        f"max/mean {f.max_mean_mean:.2f}, end {f.max_mean_end:.2f}, worst {f.max_mean_worst:.2f}",
        f"max/best {f.max_best_mean:.2f}, end {f.max_best_end:.2f}, worst {f.max_best_worst:.2f}",
        f"moves: {moves}{splits}; again within 30 min {f.repeats}",
        f"steady {f.steady_ms // MINUTE_MS}m, thrash {f.thrash_pct:.0f}%",
        f"overload {f.overload_minutes:.1f} broker-min, at the limit {f.saturated_minutes:.1f}",
        f"unavailable {f.unavailable_bundle_s:.1f} bundle-s, longest gap {f.longest_gap_ms / 1000:.1f} s",
    ]
