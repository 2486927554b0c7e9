"""Shadow rounds on a recording: the round code of the service, each with the memory of the round before. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from controller.backtest.advise.observed import ObservedOwners, broker_columns, bundle_columns, window_start
from controller.backtest.recording.prepared import round_ends
from controller.backtest.recording.recording import Recording
from controller.domain.decision import DecisionKind, RoundResult
from controller.domain.settings.policy import PolicySettings
from controller.policy.round import RoundInputs, learn_and_decide
from controller.policy.usage.model import UsageModel
from controller.policy.view.tabulate import Columns


class ShadowRound(NamedTuple):
    """A round and the averages that it saw."""

    result: RoundResult
    brokers: Columns
    bundles: Columns

    @property
    def acts(self) -> bool:
        """Whether it would move or split anything."""
        return any(decision.kind is not DecisionKind.SKIP for decision in self.result.decisions)


class ShadowRounds:
    """Rounds of one cluster, one after the other. Nothing is carried out, so every round sees what there is."""

    def __init__(self, settings: PolicySettings, horizon_ms: int) -> None:
        """`horizon_ms`: length of the window whose averages a round reads."""
        self._settings, self._horizon_ms = settings, horizon_ms
        self._owners = ObservedOwners()
        self._memory: dict[str, object] = {}
        self._usage = UsageModel()
        self._count = 0

    def run(self, recording: Recording, last: int) -> ShadowRound:
        """The round at the end of step `last`, which is after that of the round before."""
        self._owners.follow(recording, last)
        first = window_start(recording.at_ms, last, self._horizon_ms)
        state = self._owners.state(recording, first, last)
        state.round_memory = dict(self._memory)
        brokers, bundles = broker_columns(recording, first, last), bundle_columns(recording, first, last)
        self._count += 1
        at_ms = int(recording.at_ms[last])
        inputs = RoundInputs(
            f"advice-{self._count:04d}", at_ms, state, brokers, bundles, self._settings, usage=self._usage
        )
        (result, *_), self._usage = learn_and_decide(inputs)
        self._memory = dict(result.memory)
        return ShadowRound(result, brokers, bundles)


def shadow_rounds(
    recording: Recording, settings: PolicySettings, horizon_ms: int, interval_ms: int, most: int | None
) -> Iterator[ShadowRound]:
    """A round at every full interval of a recording; only the last `most` of them if that is given."""
    rounds = ShadowRounds(settings, horizon_ms)
    ends = round_ends(recording.at_ms, interval_ms).tolist()
    for last in ends if most is None else ends[-most:]:
        yield rounds.run(recording, last)
