"""Measures the control step at scale. `python -m benchmarks step_scale`

One process, no Kafka, no tables: 1,000 brokers own 100,000 bundles in 1,000 namespaces, and the real step processes the
events of a batch. Each scene runs several times on the same state; the result is the median in milliseconds. The number
of entries is stored as well, so that a step that did nothing cannot pass for a fast one.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure.result import NotMeasured, Result, Target
from controller.control.step import Batch, StepResult, Watch, step
from controller.domain.apply import fold
from controller.domain.entries import Entry, Kind
from controller.domain.events import AssignRequest, BrokerEvent, Command, Event, Heartbeat
from controller.domain.ids import Session
from controller.domain.ownership import State
from controller.domain.round_loads import RoundLoads
from controller.domain.settings.policy import ControlSettings
from controller.domain.state import ClusterState

REPEATS = 9
SETTINGS = ControlSettings(initial_mode="live")
LATER_MS = SETTINGS.lease_ms + SETTINGS.margin_ms + 1
TARGETS = [
    Target("scenes.heartbeats.ms", 15, "ms"),
    Target("scenes.inventories.ms", 15, "ms"),
    Target("scenes.drain_scan.ms", 15, "ms"),
    Target("scenes.broker_death.ms", 250, "ms"),
    Target("scenes.broker_death_by_load.ms", 250, "ms"),
    Target("scenes.lookups.ms", 250, "ms"),
]


@dataclass(frozen=True, slots=True)
class Size:
    """Every broker owns `bundles` bundles of its namespace; one broker owns `heavy`; `unowned` have no owner."""

    brokers: int = 1_000
    bundles: int = 100
    heavy: int = 1_000
    unowned: int = 10_000


class Scene:
    """A state in which everything is owned, and the owners' sessions. Steps do not change it."""

    def __init__(self, size: Size) -> None:
        self.size = size
        self.now_ms = 1_000_000
        self.batches = 0
        self.state = ClusterState()
        self.watch = Watch()
        self.sessions = [Session(f"b{i:04}:8080", 1, "n1", 1) for i in range(size.brokers)]
        self.take([Heartbeat(s, 0, {"runtime": "reference"}) for s in self.sessions])
        for i in range(size.brokers):
            self.command("create_namespace", namespace=f"t/n{i:04}", bundles=size.bundles)
        if size.heavy > size.bundles:
            self.command("create_namespace", namespace="t/heavy", bundles=size.heavy - size.bundles)
        self.take([])
        self._own(sorted(self.state.namespaces))
        self.command("create_namespace", namespace="t/unowned", bundles=size.unowned)

    def _own(self, namespaces: Sequence[str]) -> None:
        """Grant and confirm every bundle, by journal entries; the heavy namespace goes to the first broker."""
        entries: list[Entry] = []
        seq = self.state.seq
        for i, namespace in enumerate(namespaces):
            owner = self.sessions[0] if namespace == "t/heavy" else self.sessions[i % len(self.sessions)]
            for bundle in self.state.namespaces[namespace]:
                for state, party in ((State.ASSIGNING, "to"), (State.OWNED, "by")):
                    seq += 1
                    named = {"bundle": str(bundle), "state": state.value, party: str(owner)}
                    fields: dict[str, Any] = {**named, "epoch": 1, "data": {"ever_owned": True}}
                    entries.append(Entry(seq, Kind.OWNERSHIP, "i", 0, 0, **fields))
        self.state = fold(self.state, entries)

    def take(self, events: Sequence[Event]) -> StepResult:
        """Run one batch and keep the resulting state."""
        result = self.try_out(self.watch, events)
        self.state = result.state
        return result

    def try_out(self, watch: Watch, events: Sequence[Event]) -> StepResult:
        """Run one batch without keeping the resulting state."""
        self.batches += 1
        batch = Batch(list(events), {"t": {"0": self.batches}}, self.batches, "i", 0)
        return step(self.state, watch, batch, self.now_ms, SETTINGS)

    def command(self, kind: str, **args: Any) -> StepResult:
        """An operator's command."""
        return self.take([Command(f"c{self.batches}", kind, args)])

    def fresh_watch(self) -> Watch:
        """A watch that has just heard every broker."""
        return Watch.fresh(self.state, self.now_ms, SETTINGS)

    def heartbeats(self) -> list[Event]:
        """A heartbeat of every broker."""
        return [Heartbeat(s, self.state.seq) for s in self.sessions]

    def inventory(self, session: Session) -> BrokerEvent:
        """A complete inventory of the session."""
        owned = (self.state.bundles[name] for name in self.state.holdings.bundles_naming(session))
        return BrokerEvent("inventory", session, self.state.seq, serving={str(r.bundle): r.epoch for r in owned})


def run(folder: Path, quick: bool = False) -> Result:
    """Measure all scenes at one size."""
    size = Size(brokers=50, bundles=20, heavy=100, unowned=200) if quick else Size()
    return Result("step_scale", measure(size, 3 if quick else REPEATS), TARGETS)


def measure(size: Size, repeats: int = REPEATS) -> dict[str, Any]:
    """Milliseconds and entries of every scene. Raises NotMeasured if a scene did not do what it should."""
    scene = Scene(size)
    found: dict[str, dict[str, float | int]] = {}
    for name, prepare in _SCENES.items():
        found[name] = _measure(scene, prepare, repeats)
    expected = {"heartbeats": 0, "inventories": 0, "broker_death": 2 * size.heavy + 2}
    expected["broker_death_by_load"] = expected["broker_death"]
    for name, entries in expected.items():
        if found[name]["entries"] != entries:
            raise NotMeasured(f"{name}: {found[name]['entries']} entries instead of {entries}")
    return {"brokers": size.brokers, "bundles": len(scene.state.bundles), "scenes": found}


def _measure(scene: Scene, prepare: Callable[[Scene, Watch], Sequence[Event]], repeats: int) -> dict[str, float | int]:
    times_ms, entries = [], 0
    for _ in range(repeats):
        watch = scene.fresh_watch()
        before, at_ms = scene.state, scene.now_ms
        events = prepare(scene, watch)
        gc.collect()
        began = time.perf_counter()
        result = scene.try_out(watch, events)
        times_ms.append((time.perf_counter() - began) * 1000)
        entries = len(result.entries)
        scene.state, scene.now_ms = before, at_ms
    return {"ms": round(statistics.median(times_ms), 2), "entries": entries}


def _heartbeats(scene: Scene, watch: Watch) -> Sequence[Event]:
    return scene.heartbeats()


def _inventories(scene: Scene, watch: Watch) -> Sequence[Event]:
    """Inventories of a tenth of the brokers, as within a second, including the heavy one."""
    return [*scene.heartbeats(), *(scene.inventory(s) for s in scene.sessions[: len(scene.sessions) // 10])]


def _one_answer(scene: Scene, watch: Watch) -> Sequence[Event]:
    """The smallest batch that commits and so copies the state: the heartbeats and one command."""
    return [*scene.heartbeats(), Command("one", "create_topic", {"topic": "persistent://t/n0000/x"})]


def _broker_death(scene: Scene, watch: Watch) -> Sequence[Event]:
    """The heavy broker fell silent a lease ago; all others send heartbeats."""
    watch.heard[scene.sessions[0]] = scene.now_ms - LATER_MS
    return scene.heartbeats()[1:]


def _broker_death_by_load(scene: Scene, watch: Watch) -> Sequence[Event]:
    """The same with the loads of a round."""
    watch.loads.replace(_loads(scene), scene.now_ms)
    return _broker_death(scene, watch)


def _loads(scene: Scene) -> RoundLoads:
    """Loads of every broker and every owned bundle, on three resources, all different."""
    owned = sorted(name for name, record in scene.state.bundles.items() if record.by is not None)
    dice = np.random.default_rng(7)
    return RoundLoads(
        round_id="r",
        state_seq=scene.state.seq,
        full=0.85,
        scored=3,
        brokers=tuple(s.broker for s in scene.sessions),
        used=dice.uniform(0.3, 0.7, (len(scene.sessions), 3)).tobytes(),
        limit=np.ones((len(scene.sessions), 3)).tobytes(),
        bundles="\n".join(owned).encode(),
        costs=dice.lognormal(-6.0, 1.0, (len(owned), 3)).astype(np.float32).tobytes(),
    )


def _drain_scan(scene: Scene, watch: Watch) -> Sequence[Event]:
    """The heavy broker is drained and as many of its bundles as allowed are moving: nothing is left to do."""
    for events in ([Command("drain", "drain", {"broker": scene.sessions[0].broker})], []):
        scene.state = scene.try_out(watch, events).state
    return scene.heartbeats()


def _lookups(scene: Scene, watch: Watch) -> Sequence[Event]:
    """All bundles without an owner are looked up at once; one batch grants a limited number of them."""
    return [*scene.heartbeats(), *(AssignRequest("any:1", b) for b in scene.state.namespaces["t/unowned"])]


_SCENES: dict[str, Callable[[Scene, Watch], Sequence[Event]]] = {
    "heartbeats": _heartbeats,
    "inventories": _inventories,
    "one_command": _one_answer,
    "broker_death": _broker_death,
    "broker_death_by_load": _broker_death_by_load,
    "drain_scan": _drain_scan,
    "lookups": _lookups,
}
