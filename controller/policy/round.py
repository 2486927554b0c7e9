"""The whole round, pure: journal and load averages → frame → snapshot → plan → result.

The same inputs give the same result on any machine and in any mode: the control step alone decides whether decisions
are carried out. Everything that could have changed the plan is stored, quantised, in `RoundResult.inputs`;
`replay_round` computes the plan hash again from that alone (invariant I4), as long as the strategy decides by the same
rules (`Strategy.rules`).

A strategy's memory is stored with every round, so a large one is deflated. Small ones stay readable in the journal.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from controller.domain.decision import FIRST_RULES, Decision, RoundResult
from controller.domain.errors import OtherRules
from controller.domain.pulsar_policies import find_placement
from controller.domain.round_loads import RoundLoads
from controller.domain.settings.placement import PlacementSettings
from controller.domain.settings.policy import PolicySettings
from controller.domain.state import ClusterState
from controller.policy.overrides import mark_overridden
from controller.policy.pacing import mark_pending_moves
from controller.policy.placement.loads import collect_loads
from controller.policy.placement.repair import add_unreported_violations
from controller.policy.placement.rules import mark_violations
from controller.policy.plan import PACING, Plan, make_plan
from controller.policy.split import find_exceeded_limits
from controller.policy.strategies import get, has, traits_of
from controller.policy.usage.figures import Figure
from controller.policy.usage.model import UsageModel
from controller.policy.usage.observe import observe
from controller.policy.view.frame import Frame
from controller.policy.view.reason_codes import ALLOWED
from controller.policy.view.snapshot import Bools, Snapshot, from_frame
from controller.policy.view.tabulate import Columns, count_rule_facts, tabulate

INPUTS_VERSION = 1
PACKED = "deflated"  # the only key of a deflated memory
LARGE_CHARS = 32_768
_DEFAULTS = PolicySettings()


@dataclass(frozen=True, slots=True)
class RoundInputs:
    """All that a round reads. `brokers` and `bundles`: the window's panes as averages, at pinned table versions
    (`ledger.loads.Panes`).

    `at_ms` is the round's time on the load reports' axis. `lagging`: brokers that must be granted nothing. `usage`:
    what earlier rounds taught of brokers and bundles. `early`: it does not wait for its time; `by_traffic`: readings of
    usage may be of a time before a shift (`service.rounds.shifts`). `figures`: of brokers that measure their CPU
    only now and then.
    """

    round_id: str
    at_ms: int
    state: ClusterState
    brokers: Columns
    bundles: Columns
    settings: PolicySettings = field(default_factory=PolicySettings)
    config_version: str = ""
    code_version: str = ""
    lagging: frozenset[str] = frozenset()
    usage: UsageModel = field(default_factory=UsageModel)
    early: bool = False
    by_traffic: bool = False
    figures: Mapping[str, Figure] = field(default_factory=dict)


def run_round(inputs: RoundInputs) -> RoundResult:
    """Decide one round with the configured strategy alone."""
    inputs = replace(inputs, settings=replace(as_commanded(inputs.settings, inputs.state), challengers=()))
    return _decide(inputs, _frame(inputs)[0])[0]


def run_with_challengers(inputs: RoundInputs) -> tuple[RoundResult, ...]:
    """The configured strategy's result first, then the challengers', all on one frame."""
    return learn_and_decide(inputs)[0]


def learn_and_decide(inputs: RoundInputs) -> tuple[tuple[RoundResult, ...], UsageModel]:
    """The results, and the usage model after this round. What it learns depends on no strategy, and on no mode.

    Each strategy keeps its memory under its own name, and every result carries the memory of all of them, so that it
    does not matter which one's entry the journal's fold sees last.
    """
    settings = as_commanded(inputs.settings, inputs.state)
    if inputs.early:
        settings = replace(settings, challengers=tuple(n for n in settings.challengers if traits_of(get(n)).early))
    inputs = replace(inputs, settings=settings)
    frame, usage = _frame(inputs)
    return _decide(inputs, frame), usage


def _decide(inputs: RoundInputs, frame: Frame) -> tuple[RoundResult, ...]:
    others = [_result(inputs, frame, name, challenger=True) for name in inputs.settings.challengers]
    first = _result(inputs, frame, inputs.settings.strategy, challenger=False)
    before = dict(inputs.state.round_memory) if inputs.early else {}  # of those that are not asked
    memory = before | {name: kept for result in (*others, first) for name, kept in result.memory.items()}
    return tuple(replace(result, memory=memory) for result in (first, *others))


def as_commanded(settings: PolicySettings, state: ClusterState) -> PolicySettings:
    """The settings with the strategy and challengers that operators have chosen at run time.

    A chosen strategy that is not there (an older version was started, a package is gone or broken) counts as not
    chosen: rounds go on with the configured strategy, and carry its name.
    """
    placement, _ = find_placement(state.observed.facts, settings.placement)
    if placement is not settings.placement:
        settings = replace(settings, placement=placement)
    if not state.strategy and state.challengers is None:
        return settings
    strategy = state.strategy if has(state.strategy) else settings.strategy
    names = settings.challengers if state.challengers is None else state.challengers
    known = (get(name).name for name in names if state.challengers is None or has(name))
    return replace(settings, strategy=strategy, challengers=tuple(n for n in known if n != get(strategy).name))


def replay_round(stored: Mapping[str, Any]) -> str:
    """The plan hash, computed from the stored `RoundResult.inputs` alone.

    Raises OtherRules for a round decided by other rules than this version's, BadRecord or ConfigError for one that this
    version cannot read.
    """
    inputs = json.loads(json.dumps(stored))
    plan = replan(inputs)
    return _hash({**inputs, "frame": Frame.from_json(inputs["frame"]).to_json()}, plan.decisions)


def replan(stored: Mapping[str, Any]) -> Plan:
    """The plan, made again from the stored `RoundResult.inputs` alone. Raises as `replay_round`."""
    deciding = get(stored["strategy"])
    if rules_of(stored) != deciding.rules:
        raise OtherRules(rules_of(stored), deciding.name, deciding.rules)
    settings = read_settings(stored["settings"])
    snapshot = from_frame(Frame.from_json(stored["frame"]), settings)
    return make_plan(snapshot, stored["strategy"], unpack_memory(stored["memory"]), settings)


def rules_of(stored: Mapping[str, Any]) -> int:
    """The number of the rules by which a stored round was decided."""
    return int(stored.get("rules", FIRST_RULES))


def pack_memory(memory: Mapping[str, Any]) -> dict[str, Any]:
    """A strategy's memory as the journal keeps it; a large one is deflated. `unpack_memory` gives it back exactly."""
    text = json.dumps(memory, separators=(",", ":"))
    if len(text) < LARGE_CHARS:
        return dict(memory)
    return {PACKED: base64.b85encode(zlib.compress(text.encode())).decode("ascii")}


def unpack_memory(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The memory that `pack_memory` packed."""
    if PACKED not in stored:
        return dict(stored)
    memory: dict[str, Any] = json.loads(zlib.decompress(base64.b85decode(stored[PACKED])))
    return memory


def _frame(inputs: RoundInputs) -> tuple[Frame, UsageModel]:
    frame = tabulate(inputs.state, inputs.brokers, inputs.bundles, inputs.at_ms, inputs.lagging)
    frame = add_unreported_violations(inputs.state, frame, inputs.settings)
    grace_ms = inputs.settings.shed.grace_period_ms
    usage, estimates = observe(inputs.usage, frame, inputs.by_traffic, inputs.figures, grace_ms=grace_ms)
    facts = count_rule_facts(inputs.state, frame, inputs.settings)
    return replace(frame, rule_facts=facts, estimates=estimates), usage


def _result(inputs: RoundInputs, frame: Frame, strategy: str, challenger: bool) -> RoundResult:
    name = get(strategy).name
    kept = dict(inputs.state.round_memory.get(name, {}))
    memory = unpack_memory(kept)
    plan = make_plan(from_frame(frame, inputs.settings), name, memory, inputs.settings, challenger)
    snapshot = plan.snapshot
    read = frame if plan.outcome.reads_latencies else replace(frame, latencies=None)
    stored = {
        "v": INPUTS_VERSION,
        "strategy": name,
        "rules": get(name).rules,
        "config_version": inputs.config_version,
        "code_version": inputs.code_version,
        "settings": _stored(inputs.settings),
        "memory": kept,
        "frame": read.select(mark_deciding(plan, memory, inputs.settings)).to_json(),
        **({"by_traffic": True} if inputs.by_traffic else {}),
    }
    decisions = tuple(
        replace(decision, id=f"{inputs.round_id}-{f'{name}-' if challenger else ''}{at:04d}")
        for at, decision in enumerate(plan.decisions)
    )
    return RoundResult(
        round_id=inputs.round_id,
        at_ms=inputs.at_ms,
        state_seq=inputs.state.seq,
        strategy=name,
        decisions=decisions,
        scores=plan.outcome.scores,
        memory={name: pack_memory(plan.outcome.memory)},
        plan_hash=_hash(stored, plan.decisions),
        challenger=challenger,
        inputs=stored,
        loads=None if challenger else _collect_loads(snapshot, inputs),
    )


def mark_deciding(plan: Plan, memory: Mapping[str, Any], settings: PolicySettings) -> Bools:
    """[N] the bundles without which the plan might have been another; a stored round names these."""
    snapshot = plan.snapshot
    return np.asarray(
        plan.outcome.considered
        | snapshot.displaced
        | (find_exceeded_limits(snapshot.fields, settings.split) != ALLOWED)
        | mark_overridden(snapshot)
        | mark_violations(snapshot)
        | mark_pending_moves(snapshot, memory.get(PACING, {}))
    )


def _collect_loads(snapshot: Snapshot, inputs: RoundInputs) -> RoundLoads | None:
    return collect_loads(snapshot, inputs.settings, inputs.round_id, inputs.state.seq, inputs.state.holdings)


def _hash(stored: Mapping[str, Any], decisions: tuple[Decision, ...]) -> str:
    """SHA-256 over canonical JSON of the inputs and the decisions; ids are not part of a plan."""
    document = {"inputs": stored, "decisions": [_decision_row(d) for d in decisions]}
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), default=_plain, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _decision_row(decision: Decision) -> dict[str, Any]:
    row = {name: getattr(decision, name) for name in Decision.__dataclass_fields__ if name != "id"}
    return {**row, "kind": decision.kind.value, "label": decision.label.value, "reason": decision.reason.value}


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} of type {type(value).__name__} in a round's inputs: store plain numbers and text")


@lru_cache(maxsize=4)
def _stored(settings: PolicySettings) -> dict[str, Any]:
    """The settings as every round stores them; all rounds share the value, so it must not be changed."""
    return asdict(settings)


def read_settings(stored: Mapping[str, Any]) -> PolicySettings:
    """A round's stored settings, as `asdict` wrote them: each part by its own type; JSON has lists for tuples."""
    parts = {f.name: type(getattr(_DEFAULTS, f.name)) for f in fields(PolicySettings)}
    values = {n: parts[n](**_tuples(v)) if is_dataclass(parts[n]) else v for n, v in stored.items()}
    values["placement"] = PlacementSettings.from_json(stored.get("placement", {}))
    return PolicySettings(**_tuples(values))


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with tuples in place of JSON's lists."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
