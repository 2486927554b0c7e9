"""A builder of small clusters: `cluster().broker("b1", cpu=90).bundle("b1", cpu=30).round()`.

Unless a test names another strategy, `headroom` decides, because its few rules make the outcome easy to predict.
Percentages refer to the broker's CPU limit (100 % of one core by default). The load of a bundle is given in
percentage points of the default broker and converted to traffic (1 point = 100 messages/s and 100 kB/s); load that a
broker's bundles do not account for goes to its tail, so that totals stay true.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from controller.domain.decision import Decision, DecisionKind, Reason, RoundResult
from controller.domain.ids import Bundle, Session
from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.domain.ownership import Ownership, State
from controller.domain.settings.policy import PolicySettings
from controller.domain.state import LIVE, Broker, ClusterState
from controller.policy.round import RoundInputs, learn_and_decide
from controller.policy.usage.model import UsageModel
from controller.policy.view.snapshot import Snapshot, build

NOW_MS = 1_000_000_000
MESSAGES_A_POINT, BYTES_A_POINT = 100.0, 100_000.0


@dataclass
class ClusterBuilder:
    """Builds a cluster; `round()` runs a round on it and keeps the memory that the journal would keep."""

    settings: PolicySettings = field(default_factory=lambda: PolicySettings(strategy="headroom"))
    state: ClusterState = field(default_factory=lambda: ClusterState(seq=7, mode=LIVE))
    at_ms: int = NOW_MS
    brokers: dict[str, dict[str, Any]] = field(default_factory=dict)
    bundles: list[dict[str, Any]] = field(default_factory=list)
    lagging: set[str] = field(default_factory=set)
    rounds: int = 0
    usage: UsageModel = field(default_factory=UsageModel)

    def broker(
        self, name: str, cpu: float = 0.0, *, cores: float = 1.0, incarnation: int = 1, alive: bool = True,
        drained: bool = False, leaving: bool = False, registered: bool = True, reports: int = 12, age_ms: int = 1_000,
        **columns: float,
    ) -> ClusterBuilder:  # fmt: skip
        """Add a broker that uses `cpu` percent of its cores. `columns` set further columns, as in `memory_usage=…`."""
        session = Session(name, incarnation, "n", 1)
        if registered:
            self.state.brokers[name] = Broker(name, session, drained=drained, leaving=leaving)
            if alive:
                self.state.sessions[session] = 1
        row: dict[str, Any] = {f"{r}_{what}": np.nan for r in RESOURCES for what in ("usage", "limit")}
        row |= {"broker": name, "incarnation": incarnation, "reports": reports, "last_event_ms": self.at_ms - age_ms}
        row |= {"cpu_usage": cpu * cores, "cpu_limit": 100.0 * cores}
        row |= dict.fromkeys(BUNDLE_FIELDS, 0.0) | _traffic(cpu * cores) | columns
        self.brokers[name] = row
        return self

    def silent(self, name: str) -> ClusterBuilder:
        """Add a registered, living broker that sends no reports."""
        self.broker(name)
        del self.brokers[name]
        return self

    def bundle(
        self, broker: str, cpu: float = 0.0, *, name: str | None = None, namespace: str = "t/ns",
        owner: str | None = "", state: State = State.OWNED, to: str | None = None, epoch: int = 3,
        moved_at_ms: int = 0, reports: int = 12, journaled: bool = True, **columns: float,
    ) -> ClusterBuilder:  # fmt: skip
        """Add a bundle that `broker` reports, with `cpu` points of load; by default `broker` also owns it."""
        name = name or bundle_name(len(self.bundles), namespace)
        row: dict[str, Any] = dict.fromkeys(BUNDLE_FIELDS, 0.0) | {"topics": 10.0} | _traffic(cpu) | columns
        row |= {"bundle": name, "namespace": name.rpartition("/")[0], "broker": broker, "reports": reports}
        self.bundles.append(row)
        if journaled:
            held = self._session(broker if owner == "" else owner)
            record = Ownership(
                Bundle.parse(name), state, epoch, by=None if state is State.ASSIGNING else held,
                to=self._session(to), boundary=None, ever_owned=True, moved_at_ms=moved_at_ms,
            )  # fmt: skip
            self.state.put(record)
        return self

    def with_settings(self, **parts: Mapping[str, Any]) -> ClusterBuilder:
        """Replace fields in parts of the settings: `with_settings(shed={"enabled": False})`."""
        for part, values in parts.items():
            self.settings = replace(self.settings, **{part: replace(getattr(self.settings, part), **values)})
        return self

    def snapshot(self) -> Snapshot:
        """The snapshot before sufficiency checks and constraints."""
        return build(self.state, *self.columns(), self.at_ms, self.settings, self.lagging)

    def columns(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """The averages of brokers and of bundles that a round reads, as columns."""
        measured = [f"{r}_{what}" for r in RESOURCES for what in ("usage", "limit")]
        brokers = _columns(list(self.brokers.values()), ["broker"], ["incarnation", "reports", "last_event_ms"],
                           [*measured, *BUNDLE_FIELDS])  # fmt: skip
        bundles = _columns(self.bundles, ["bundle", "namespace", "broker"], ["reports"], list(BUNDLE_FIELDS))
        return brokers, bundles

    def inputs(self) -> RoundInputs:
        """The inputs of a round at this moment."""
        brokers, bundles = self.columns()
        return RoundInputs(
            f"r{self.rounds:04d}", self.at_ms, self.state, brokers, bundles, self.settings, "conf-1", "code-1",
            frozenset(self.lagging), self.usage,
        )  # fmt: skip

    def round(self) -> RoundResult:
        """Run one round. Its memory is kept as the journal would keep it; its decisions are not carried out."""
        (result, *_), self.usage = learn_and_decide(self.inputs())
        self.state.round_memory, self.state.round_at_ms = dict(result.memory), self.at_ms
        self.rounds += 1
        return result

    def later(self, ms: int = 60_000) -> ClusterBuilder:
        """Let time pass; every broker keeps reporting the same load."""
        self.at_ms += ms
        for row in self.brokers.values():
            row["last_event_ms"] += ms
        return self

    def second_round(self) -> RoundResult:
        """Run two rounds and return the second, in which brokers that stayed overloaded are sources."""
        self.round()
        return self.later().round()

    def _session(self, broker: str | None) -> Session | None:
        return self.state.brokers[broker].session if broker else None


def cluster(**settings: Any) -> ClusterBuilder:
    """An empty cluster in mode live."""
    return ClusterBuilder(settings=PolicySettings(**{"strategy": "headroom", **settings}))


def loads(*percents: float, parts: int = 10) -> ClusterBuilder:
    """Brokers b0, b1, … with these CPU percentages, each split over `parts` equal bundles."""
    built = cluster()
    for at, percent in enumerate(percents):
        built.broker(f"b{at}", cpu=percent)
        for _ in range(parts if percent else 0):
            built.bundle(f"b{at}", cpu=percent / parts)
    return built


def bundle_name(number: int, namespace: str = "t/ns") -> str:
    """The name of a bundle; names sort by number."""
    return f"{namespace}/0x{number * 65536:08x}_0x{(number + 1) * 65536:08x}"


def moves(result: RoundResult) -> list[Decision]:
    """The transfers that a round decided on."""
    return [d for d in result.decisions if d.kind is DecisionKind.TRANSFER]


def splits(result: RoundResult) -> list[Decision]:
    """The splits that a round decided on."""
    return [d for d in result.decisions if d.kind is DecisionKind.SPLIT]


def reason_of(result: RoundResult, broker: str) -> Reason:
    """Why this broker gave nothing away; the round must have exactly one such skip."""
    (found,) = [
        d.reason for d in result.decisions if d.source == broker and d.kind is DecisionKind.SKIP and not d.bundle
    ]
    return found


def sources(result: RoundResult) -> list[str]:
    """The brokers that a round named as sources."""
    return [row["broker"] for row in result.scores if row["source"]]


def _traffic(points: float) -> dict[str, float]:
    messages, size = points * MESSAGES_A_POINT / 2, points * BYTES_A_POINT / 2
    return {"msg_rate_in": messages, "msg_rate_out": messages, "throughput_in": size, "throughput_out": size}


def _columns(
    rows: list[dict[str, Any]], texts: list[str], whole: list[str], floats: list[str]
) -> dict[str, np.ndarray]:
    result = {name: np.array([row[name] for row in rows], object) for name in texts}
    result |= {name: np.array([row[name] for row in rows], np.int64) for name in whole}
    return result | {name: np.array([row[name] for row in rows], np.float64) for name in floats}
